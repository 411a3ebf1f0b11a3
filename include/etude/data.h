/* Data: from samples to batches.
 *
 * Samples (et_samples) are numbered: arrays in memory, a corpus, or a program's own class.
 * Decorators of samples choose and mix by number, so they have no position: take, shard, subset,
 * mix. A source (et_source) makes batches. et_batches_open shuffles, sorts by length, cuts and
 * repeats; decorators of sources map, trace and read ahead. A source's position is a few integers.
 * Restoring it reads no data again: after et_source_seek, next gives the same batch as after
 * et_source_position.
 *
 *     et_array arrays[] = { { "pixels", ET_F32, pixels, et_shape_1(784) },
 *                           { "labels", ET_I32, classes, et_shape_scalar() } };
 *     et_batches_options options = { .shuffle = true, .repeat = true, .capacity = { 128 } };
 *     if (et_arrays_open(&samples, arrays, 2, 60000, &error) ||
 *         et_batches_open(&source, samples, &options, &error) ||
 *         et_prefetch_open(&source, source, 2, &error)) ...
 *
 * Batches are packed, not padded. The unused rest of a batch is empty (-1 or 0), and a loss over
 * rows (et_loss) ignores it. A decorator owns the wrapped object once its open has succeeded. Use
 * from one thread at a time. Between open and close no memory is allocated. */
#ifndef ETUDE_DATA_H
#define ETUDE_DATA_H

#include <etude/error.h>
#include <etude/tensor.h>

#define ET_LAYOUT_KINDS 4

/* The values of a field in the unused rest of a batch. */
typedef enum et_empty {
    ET_EMPTY_ZERO,
    ET_EMPTY_NONE,    /* -1: ids and labels */
    ET_EMPTY_OFFSETS, /* offsets into another kind, one more than samples: repeats the last */
    ET_EMPTY_MASK,    /* made by the batch: 1 for filled entries, 0 for empty ones */
} et_empty;

/* An array of a batch. Shape: [capacity of its kind, item...], one more entry for offsets. */
typedef struct et_layout_field {
    const char *name; /* name of the graph's input */
    et_dtype dtype;
    et_shape item; /* of one sample, token, ...; a scalar for ids */
    int kind;      /* the kind that the first dimension counts */
    et_empty empty;
    int offsets_of; /* ET_EMPTY_OFFSETS: the kind that the offsets point into */
} et_layout_field;

/* The layout of batches. Kind 0 is samples; other kinds are parts of samples. */
typedef struct et_layout {
    int kinds, fields;
    const char *kind[ET_LAYOUT_KINDS]; /* "sentence pair", "source token"; singular */
    int64_t capacity[ET_LAYOUT_KINDS]; /* most of each kind in a batch; 0 in a layout of samples */
    int unit;                          /* the kind that rates count */
    const char *unit_name;             /* of the unit, in rates: "token"; NULL: the kind's */
    const et_layout_field *field;      /* [fields]; borrowed from the samples */
} et_layout;

ET_API et_shape et_layout_shape(const et_layout *layout, int field);   /* no such field: a scalar */
ET_API int et_layout_find(const et_layout *layout, const char *field); /* -1: no such field */

typedef struct et_batch {
    const et_layout *layout;         /* borrowed from the source */
    void **data;                     /* [fields], each aligned to 64 bytes */
    uint32_t *sample;                /* [capacity[0]]: number of each sample */
    int64_t filled[ET_LAYOUT_KINDS]; /* of each kind; filled[0] == 0: the end of the data */
    int64_t epoch;                   /* pass over the data, from 0 */
} et_batch;

/* An empty batch. layout outlives it. ET_ECONFIG: layout cannot hold a batch. */
ET_API int et_batch_new(et_batch **out, const et_layout *layout, et_error *error);
ET_API void et_batch_free(et_batch *batch); /* NULL allowed */
ET_API void et_batch_clear(et_batch *batch);
ET_API void et_batch_finish(et_batch *batch); /* empties the entries from filled to capacity */

/* ---- samples ---- */

typedef struct et_samples et_samples;

/* Numbers of samples, in the order of the batch, in one pass over the data. */
typedef struct et_pick {
    const uint32_t *which; /* [count], each below samples->count */
    int64_t count, epoch;
} et_pick;

typedef struct et_samples_class {
    const char *name;
    bool sized; /* batches need capacity[0] */
    /* Sets sizes[k][i]: how many of kind k (from 1) sample which[i] has. NULL: only kind 0. */
    void (*sizes)(const et_samples *self, et_pick pick, int32_t *const *sizes);
    /* Appends the samples to a batch with enough room, and increases batch->filled. */
    int (*fill)(et_samples *self, et_pick pick, et_batch *batch, et_error *error);
    /* Writes the origin of a sample for messages: "train.en:17". kind: the part of the sample. */
    void (*describe)(const et_samples *self, uint32_t which, int kind, char *text, size_t size);
    void (*close)(et_samples *self);
} et_samples_class;

struct et_samples {
    const et_samples_class *ET_CLASS;
    et_layout layout;                 /* without capacities */
    int64_t count;                    /* at least 1, below 2^32 */
    int64_t total[ET_LAYOUT_KINDS];   /* of all samples */
    int64_t largest[ET_LAYOUT_KINDS]; /* of one sample */
    uint64_t fingerprint;             /* of the content; a saved position fits no other */
};

typedef struct et_array {
    const char *name; /* of the field; copied */
    et_dtype dtype;   /* not ET_U8 or above */
    const void *data; /* [count, item...]; borrowed, unless copied */
    et_shape item;
} et_array;

/* Arrays of count samples each. Empty integers are -1, empty floats 0. Adds a field "mask". */
ET_API int et_arrays_open(et_samples **out, const et_array *arrays, int fields, int64_t count,
                          et_error *error);
/* The first count samples; every count-th sample from first on; the samples in `which` (copied). */
ET_API int et_take_open(et_samples **out, et_samples *inner, int64_t count, et_error *error);
ET_API int et_shard_open(et_samples **out, et_samples *inner, int64_t first, int64_t count,
                         et_error *error);
ET_API int et_subset_open(et_samples **out, et_samples *inner, const uint32_t *which, int64_t count,
                          et_error *error);
/* Mixes samples of equal layouts. A pass has as many samples as all parts together. A part's share
 * is given by its weight (> 0). All samples of a part are used before any is used again. */
ET_API int et_mix_open(et_samples **out, et_samples *const *parts, const double *weights, int count,
                       uint64_t seed, et_error *error);
ET_API void et_samples_close(et_samples *samples); /* NULL allowed */

/* ---- sources ---- */

#define ET_POSITION_MAX 16

typedef struct et_position { /* of a source before its next batch */
    int count;
    const char *name[ET_POSITION_MAX]; /* static, or borrowed from the dict that was read */
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
    int (*batches)(et_source *self, int64_t *count, et_error *error); /* NULL: unknown */
    uint64_t (*content)(const et_source *self); /* fingerprint of its samples; NULL, 0: unknown */
    /* Goes to the beginning of the data. next: of a new pass, if data repeat. NULL: seeks begin. */
    int (*rewind)(et_source *self, bool next, et_error *error);
} et_source_class;

struct et_source {
    const et_source_class *ET_CLASS;
    et_layout layout;   /* of its batches */
    et_position begin;  /* internal, as the rest: the position before the first batch, if begun */
    bool begun;         /* true once the source, or a source that it wraps, was read or sought */
    const char *reader; /* the reader that has a pass open; NULL: none */
};

typedef struct et_batches_options {
    uint64_t seed;
    bool shuffle;                      /* a different order in each pass; else by number */
    bool bucket;                       /* samples of similar size together */
    bool repeat;                       /* passes without end; else one */
    bool drop_remainder;               /* skip a pass's last batch if it is not full */
    int64_t pool;                      /* samples that are sorted together; 0: about 256 batches */
    int64_t capacity[ET_LAYOUT_KINDS]; /* of a batch, by kind; with one kind, 0: 32 */
    const char *setting;               /* the setting of the capacity, for messages */
    const char *cure;                  /* another cure, "lower ..."; NULL: none */
} et_batches_options;

/* Owns samples on success. options NULL: all zero. ET_ECONFIG: a sample does not fit into a
 * batch. */
ET_API int et_batches_open(et_source **out, et_samples *samples, const et_batches_options *options,
                           et_error *error);
typedef int et_map_fn(void *payload, et_batch *batch, et_error *error); /* changes it in place */
ET_API int et_map_open(et_source **out, et_source *inner, et_map_fn *change, void *payload,
                       et_error *error);
/* Reads depth batches ahead in a thread. Batches, order and positions are those of inner. */
ET_API int et_prefetch_open(et_source **out, et_source *inner, int depth, et_error *error);

/* Fills a batch with the source's layout (else ET_EUSAGE). At the end filled[0] is and stays 0. */
ET_API int et_source_next(et_source *source, et_batch *batch, et_error *error);
ET_API void et_source_position(const et_source *source, et_position *position);
/* ET_EDATA: the position is of other data, another layout or other options. */
ET_API int et_source_seek(et_source *source, const et_position *position, et_error *error);
/* Goes to the beginning of the data: then next gives the first batch. */
ET_API int et_source_rewind(et_source *source, et_error *error);
/* Batches of the first pass (a later one may differ a little); 0: unknown. The position stays. */
ET_API int et_source_batches(et_source *source, int64_t *count, et_error *error);
ET_API void et_source_close(et_source *source); /* NULL allowed */

/* The class for et_state_add of a source's position. */
ET_DATA const struct et_part_class et_source_part;

/* For source classes: put adds a number, get reads one. ET_EDATA: the position lacks the number. */
ET_API void et_position_put(et_position *position, const char *name, int64_t value);
ET_API int et_position_get(const et_position *position, const char *name, int64_t *value,
                           et_error *error);

#endif
