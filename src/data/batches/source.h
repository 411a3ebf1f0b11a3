/* Sources, for the library, beyond <etude/data.h> and flows.h: sources as parts of a state,
 * internal decorators, and batches by length bucket:
 *
 *     et_bucket buckets[ET_BUCKETS_MAX];
 *     int count = et_buckets_scaled(buckets, 64, 24576);
 *     et_bucketed_options options = { .buckets = buckets, .count = count, .shuffle = true };
 *     if (et_bucketed_open(&source, samples, &options, &error)) ... */
#ifndef ETUDE_DATA_BATCHES_SOURCE_H
#define ETUDE_DATA_BATCHES_SOURCE_H

#include <etude/flows.h>
#include <etude/state.h>
#include <etude/value.h>

#include "base/threads/trace.h"

/* Fingerprint of the samples that it reads; 0: not known. */
uint64_t et_source_content(const et_source *source);

/* The content of earlier parts joined with one more; 0: the content of a part is unknown. */
uint64_t et_content_joined(uint64_t before, uint64_t content);

/* et_batches_open, but samples are closed on failure. */
int et_batches_take(et_source **out, et_samples *samples, const et_batches_options *options,
                    et_error *error);

/* As et_source_begin without moving the source; until et_source_end. */
int et_source_claim(et_source *source, const char *reader, et_error *error);

/* Calls the method rewind; if it is missing, seeks the first position. next: if the source repeats
 * and is not at the beginning of a pass, goes to the beginning of a new pass. */
int et_source_rewind_to(et_source *source, bool next, et_error *error);

bool et_position_equal(const et_position *a, const et_position *b);

/* As et_source_part saves it. */
int et_position_save(const et_position *position, et_value *dict, et_error *error);

/* Records each next as a span on track, which is borrowed and belongs to the thread that calls
 * next. Owns inner. */
int et_traced_source_open(et_source **out, et_source *inner, et_track *track, et_error *error);

void et_batch_copy(et_batch *to, const et_batch *from); /* of equal layouts */

/* Names the samples of a batch, "train.en:17, train.en:4 and 52 more", cut to size. */
void et_source_describe(const et_source *source, const et_batch *batch, char *text, size_t size);

/* Renumbers: sample i of inner's batches becomes first + i stride. So the numbers of several data,
 * or of several processes' parts, differ. Model Garden gives each line of a text an id. Owns
 * inner. */
int et_numbered_open(et_source **out, et_source *inner, uint32_t first, uint32_t stride,
                     et_error *error);

/* ---- a source around another one: around.c ---- */

/* The first members of a decorator. The methods below call the methods of inner. The class of a
 * decorator uses them for methods that the decorator does not change. close also frees the
 * struct. */
typedef struct et_around {
    et_source source;
    et_source *inner; /* owned */
} et_around;

void et_around_position(const et_source *source, et_position *position);
int et_around_seek(et_source *source, const et_position *position, et_error *error);
int et_around_rewind(et_source *source, bool next, et_error *error);
void et_around_describe(const et_source *source, const et_batch *batch, char *text, size_t size);
void et_around_close(et_source *source);
int et_around_batches(et_source *source, int64_t *count, et_error *error);
uint64_t et_around_content(const et_source *source);

/* The members of a class after `next`, of which only describe is its own. */
#define ET_AROUND(describe)                                                                        \
    et_around_position, et_around_seek, describe, et_around_close, et_around_batches,              \
        et_around_content, et_around_rewind

/* A zeroed decorator of `size` bytes; what: its name in messages. NULL: no memory, and the caller
 * keeps inner. */
void *et_around_new(size_t size, const et_source_class *class, et_source *inner, const char *what,
                    et_error *error);

/* A batch with another layout, and a batch's samples: describe of an inner source gets it. data:
 * [fields], the addresses of its fields. */
et_batch et_batch_view(const et_layout *layout, void **data, const et_batch *batch);

/* ---- batches by length: batches.c ---- */

/* Batches by length bucket, as in TensorFlow's group_by_window and Model Garden's data loader.
 * Samples go, in the order of the pass, into the bucket for their length; a full bucket is a batch.
 * One bucket is Model Garden's static batching.
 *
 * The length of a sample is the length of its longest kind. At the end of a pass the samples left
 * in the buckets become the last batches, the shortest first: no sample is left out. Batches are
 * packed as always, without padding. Order, position and ownership as for et_batches_open. The
 * batches of a pass are planned when it begins, from lengths only. */

#define ET_BUCKETS_MAX 256

typedef struct et_bucket {
    int64_t longest; /* of a sample, in its largest kind */
    int64_t rows;    /* samples of a batch */
} et_bucket;

typedef struct et_bucketed_options {
    uint64_t seed;
    bool shuffle, repeat;     /* as in et_batches_options */
    const et_bucket *buckets; /* [count], longest rising; copied */
    int count;
} et_bucketed_options;

/* Model Garden's rule: bounds 8, then x = max(x + 1, int(1.1 x)) below longest, then longest + 1. A
 * bucket takes samples with lengths below its bound, and holds budget / bound samples, 0 if the
 * budget is too small. Returns the number of buckets; -1: more than ET_BUCKETS_MAX. */
int et_buckets_scaled(et_bucket *buckets, int64_t longest, int64_t budget);
/* The same with other bounds: the first is `first`, and each is `scale` times the previous one. */
int et_buckets_of(et_bucket *buckets, int64_t longest, int64_t budget, int64_t first, double scale);

/* Owns samples, which must have at least two kinds. ET_ECONFIG: a bucket has no rows, or a sample
 * is too long for the last bucket. */
int et_bucketed_open(et_source **out, et_samples *samples, const et_bucketed_options *options,
                     et_error *error);

/* ---- cursors ---- */

/* A cursor: a source, a batch for its data, and the position.
 *
 * Data come in passes. A pass ends when the source ends, or when the epoch of its batches changes.
 * In the second case, the batch that was read waits as the first of the next pass. */

typedef struct et_batch_cursor {
    et_source *source; /* borrowed */
    et_batch *batch;   /* owned: the last batch */
    et_position next;  /* before batch */
    bool waits;        /* batch is the first of the next pass */
    bool begun;        /* a pass is open, and `pass` is its epoch */
    int64_t pass;
} et_batch_cursor;

/* After a failure there is nothing to release. After success, reading allocates nothing. */
int et_batch_cursor_open(et_batch_cursor *cursor, et_source *source, et_error *error);
void et_batch_cursor_release(et_batch_cursor *cursor); /* not the source */

/* The next batch of the pass; *over: no more batches. After the end of the source (the batch is
 * empty), call rewind next. The caller has claimed the source (et_source_claim). */
int et_batch_cursor_next(et_batch_cursor *cursor, bool *over, et_error *error);

/* Before a pass: puts the source to the beginning of its data; next: of a new pass over data that
 * repeat. */
int et_batch_cursor_rewind(et_batch_cursor *cursor, bool next, et_error *error);

/* Gives a waiting batch back to the source. */
int et_batch_cursor_give_back(et_batch_cursor *cursor, et_error *error);

/* As et_source_part has them: the position of the batch that next gives. */
int et_batch_cursor_save(const et_batch_cursor *cursor, et_value *dict, et_error *error);
int et_batch_cursor_restore(et_batch_cursor *cursor, const et_value *dict, et_error *error);

#endif
