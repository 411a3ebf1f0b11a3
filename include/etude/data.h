/* Data: from samples to batches.
 *
 * Samples (et_samples) are numbered: arrays in memory, a corpus, whatever a program's own class
 * gives. Decorators over them choose and mix by number, so they have no position: take, shard,
 * subset, mix. A source (et_source) makes batches: et_batches_open shuffles, sorts by length, cuts
 * and repeats; decorators over sources map, watch and read ahead. A source's position is a few
 * integers, taken and restored without replay: after et_source_seek, next gives what it would have
 * given after et_source_position.
 *
 *     et_array arrays[] = { { "pixels", ET_F32, pixels, et_shape_1(784) },
 *                           { "labels", ET_I32, classes, et_shape_scalar() } };
 *     et_batches_options options = { .shuffle = true, .repeat = true, .capacity = { 128 } };
 *     if (et_arrays_open(&samples, arrays, 2, 60000, &error) ||
 *         et_batches_open(&source, samples, &options, &error) ||
 *         et_prefetch_open(&source, source, 2, &error)) ...
 *
 * Batches are packed, not padded: what a batch does not fill is empty (-1, 0), and counts in no
 * loss that is given by rows (et_loss). A decorator owns what it is put around once its open has
 * succeeded. One thread at a time. Nothing is allocated between open and close. */
#ifndef ETUDE_DATA_H
#define ETUDE_DATA_H

#include <etude/error.h>
#include <etude/tensor.h>

#define ET_LAYOUT_KINDS 4

/* What a field's places hold where the batch is not filled. */
typedef enum et_empty {
    ET_EMPTY_ZERO,
    ET_EMPTY_NONE,    /* -1: ids and labels */
    ET_EMPTY_OFFSETS, /* offsets into another kind, one more than samples: the last one again */
    ET_EMPTY_MASK,    /* made by the batch itself: 1 where it is filled, 0 elsewhere */
} et_empty;

/* An array of a batch: its shape is [capacity of its kind, item...], and one more for offsets. */
typedef struct et_layout_field {
    const char *name; /* of the graph's input */
    et_dtype dtype;
    et_shape item; /* of one sample, token, ...: a scalar for ids */
    int kind;      /* what its first dimension counts */
    et_empty empty;
    int offsets_of; /* ET_EMPTY_OFFSETS: the kind that is pointed into */
} et_layout_field;

/* What batches look like. Kind 0 is the samples; others are what samples are made of. */
typedef struct et_layout {
    int kinds, fields;
    const char *kind[ET_LAYOUT_KINDS]; /* "sentence pair", "source token"; singular */
    int64_t capacity[ET_LAYOUT_KINDS]; /* most of each in a batch; 0 in a layout of samples */
    int unit;                          /* the kind that rates count */
    const char *unit_name;             /* what rates call it: "token"; NULL: the kind's own name */
    const et_layout_field *field;      /* [fields]; borrowed from the samples */
} et_layout;

ET_API et_shape et_layout_shape(const et_layout *layout, int field);   /* no field: a scalar */
ET_API int et_layout_find(const et_layout *layout, const char *field); /* -1: none */

typedef struct et_batch {
    const et_layout *layout;         /* borrowed from the source */
    void **data;                     /* [fields], each aligned to 64 bytes */
    uint32_t *sample;                /* [capacity[0]]: which sample each one is */
    int64_t filled[ET_LAYOUT_KINDS]; /* of each kind; filled[0] 0: the end of the data */
    int64_t epoch;                   /* pass over the data, from 0 */
} et_batch;

/* One empty block of memory; its layout outlives it. ET_ECONFIG: a layout without a batch. */
ET_API int et_batch_new(et_batch **out, const et_layout *layout, et_error *error);
ET_API void et_batch_free(et_batch *batch); /* NULL allowed */
ET_API void et_batch_clear(et_batch *batch);
ET_API void et_batch_finish(et_batch *batch); /* past what is filled, 0 to capacity, is empty */

/* ---- samples ---- */

typedef struct et_samples et_samples;

/* Samples by number, in the order in which a batch takes them, in a pass over the data. */
typedef struct et_pick {
    const uint32_t *which; /* [count], each below samples->count */
    int64_t count;
    int64_t epoch;
} et_pick;

typedef struct et_samples_class {
    const char *name;
    /* sizes[k][i]: how much of kind k sample which[i] takes, k from 1. NULL: only kind 0. */
    void (*sizes)(const et_samples *self, et_pick pick, int32_t *const *sizes);
    /* Appends samples to a batch that has room, and adds to batch->filled. */
    int (*fill)(et_samples *self, et_pick pick, et_batch *batch, et_error *error);
    /* Where a sample comes from, "train.en:17", for messages. kind: which part of it. */
    void (*describe)(const et_samples *self, uint32_t which, int kind, char *text, size_t size);
    void (*close)(et_samples *self);
} et_samples_class;

struct et_samples {
    const et_samples_class *ET_CLASS;
    et_layout layout;                 /* without capacities */
    int64_t count;                    /* at least 1, below 2^32 */
    int64_t total[ET_LAYOUT_KINDS];   /* of all samples */
    int64_t largest[ET_LAYOUT_KINDS]; /* of one sample */
    uint64_t fingerprint;             /* of the content: a position fits no other */
};

typedef struct et_array {
    const char *name; /* of the field; copied */
    et_dtype dtype;   /* not ET_U8 or above */
    const void *data; /* [count, item...]; borrowed, unless copied */
    et_shape item;
} et_array;

/* Arrays of count samples each. Integers are empty as -1, floats as 0; a field "mask" is added. */
ET_API int et_arrays_open(et_samples **out, const et_array *arrays, int fields, int64_t count,
                          et_error *error);
/* The first count samples; every count-th from first on; those that are listed (copied). */
ET_API int et_take_open(et_samples **out, et_samples *inner, int64_t count, et_error *error);
ET_API int et_shard_open(et_samples **out, et_samples *inner, int64_t first, int64_t count,
                         et_error *error);
ET_API int et_subset_open(et_samples **out, et_samples *inner, const uint32_t *which, int64_t count,
                          et_error *error);
/* A pass has as many samples as all parts together: of each part its share by weight (> 0), evenly
 * spread. A part continues in the next pass, reshuffled when it starts over. Layouts are equal. */
ET_API int et_mix_open(et_samples **out, et_samples *const *parts, const double *weights, int count,
                       uint64_t seed, et_error *error);
ET_API void et_samples_close(et_samples *samples); /* NULL allowed */

/* ---- sources ---- */

#define ET_POSITION_MAX 16

/* Where a source stands: before its next batch. */
typedef struct et_position {
    int count;
    const char *name[ET_POSITION_MAX]; /* static, or the dict's it was read from */
    int64_t value[ET_POSITION_MAX];
} et_position;

typedef struct et_source et_source;

typedef struct et_source_class {
    const char *name;
    int (*next)(et_source *self, et_batch *batch, et_error *error);
    void (*position)(const et_source *self, et_position *position);
    int (*seek)(et_source *self, const et_position *position, et_error *error);
    void (*describe)(const et_source *self, const et_batch *batch, char *text, size_t size);
    void (*close)(et_source *self);
    int (*batches)(et_source *self, int64_t *count, et_error *error); /* NULL: not known */
    /* Fingerprint of the samples, whatever batches are made of them. NULL and 0: not known */
    uint64_t (*content)(const et_source *self);
} et_source_class;

struct et_source {
    const et_source_class *ET_CLASS;
    et_layout layout; /* of its batches */
};

typedef struct et_batches_options {
    uint64_t seed;
    bool shuffle;                      /* another order in each pass; else by number */
    bool bucket;                       /* samples of like size together */
    bool repeat;                       /* pass after pass without end; else one */
    bool drop_remainder;               /* leave out a pass's last batch if it is not full */
    int64_t pool;                      /* samples that are sorted together; 0: some 256 batches */
    int64_t capacity[ET_LAYOUT_KINDS]; /* of a batch, by kind; where there is one kind, 0: 32 */
    const char *setting;               /* what sets the capacity, for messages */
    const char *cure;                  /* what else helps, "lower ..."; NULL: nothing */
} et_batches_options;

/* Owns samples from then on. options NULL: zeros. ET_ECONFIG: a sample does not fit. */
ET_API int et_batches_open(et_source **out, et_samples *samples, const et_batches_options *options,
                           et_error *error);
typedef int et_map_fn(void *payload, et_batch *batch, et_error *error); /* changes each in place */
ET_API int et_map_open(et_source **out, et_source *inner, et_map_fn *change, void *payload,
                       et_error *error);
/* A thread that fills depth batches ahead. Batches, order and positions are inner's. */
ET_API int et_prefetch_open(et_source **out, et_source *inner, int depth, et_error *error);

/* Fills a batch of the source's layout, else ET_EUSAGE. filled[0] is 0 at the end, and stays so. */
ET_API int et_source_next(et_source *source, et_batch *batch, et_error *error);
ET_API void et_source_position(const et_source *source, et_position *position);
/* ET_EDATA: the position is one of other data, of another layout or of other options. */
ET_API int et_source_seek(et_source *source, const et_position *position, et_error *error);
/* How many batches the first pass over the data has (by size of samples another pass may have some
 * more or less); 0: not known. Positions stay. */
ET_API int et_source_batches(et_source *source, int64_t *count, et_error *error);
ET_API void et_source_close(et_source *source); /* NULL allowed */

/* For et_state_add: a source's position. */
ET_DATA const struct et_part_class et_source_part;

/* For classes: adds a number; reads one (ET_EDATA: it is not there). */
ET_API void et_position_put(et_position *position, const char *name, int64_t value);
ET_API int et_position_get(const et_position *position, const char *name, int64_t *value,
                           et_error *error);

#endif
