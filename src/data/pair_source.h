/* What gives packed batches of pairs: an iterator over an encoded corpus, and decorators around
 * one (prefetch). A kind is a const class; an object's first member is its et_pair_source.
 *
 *     et_pair_source *source;
 *     et_pair_iterator_open(&source, encoded, &shape, &options, &error);
 *     et_pair_prefetch_open(&source, source, 4, &error);
 *     while (!(status = et_pair_source_next(source, &batch, &error)) && batch.segments)
 *         step(&batch);
 *     et_pair_source_close(source);
 *
 * The position is a few numbers, saved and restored without replay: after restore, next gives
 * what it would have given after save. One thread at a time. */
#ifndef ETUDE_DATA_PAIR_SOURCE_H
#define ETUDE_DATA_PAIR_SOURCE_H

#include <stdint.h>

#include <etude/error.h>

#include "base/value.h"
#include "data/pairs.h"

/* Where a source stands: before this batch. */
typedef struct et_pair_position {
    int64_t epoch;       /* pass over the data, from 0 */
    int64_t pool;        /* in the epoch */
    int64_t batch;       /* in the pool */
    int64_t fingerprint; /* of data, shape and options: a position fits nothing else */
} et_pair_position;

typedef struct et_pair_source et_pair_source;

typedef struct et_pair_source_class {
    const char *name;
    int (*next)(et_pair_source *self, et_pair_batch *batch, et_error *error);
    void (*save)(const et_pair_source *self, et_pair_position *position);
    int (*restore)(et_pair_source *self, const et_pair_position *position, et_error *error);
    void (*close)(et_pair_source *self);
} et_pair_source_class;

struct et_pair_source {
    const et_pair_source_class *class;
    et_pair_shape shape; /* of the batches */
};

/* Fills a batch of the source's shape (et_pair_batch_init with source->shape). segments is 0
 * at the end of a source that has one; it stays so. Allocates nothing. */
int et_pair_source_next(et_pair_source *source, et_pair_batch *batch, et_error *error);

/* The position after the last batch that next gave. */
void et_pair_source_save(const et_pair_source *source, et_pair_position *position);

/* ET_EDATA: the position belongs to other data, another shape or other options. */
int et_pair_source_restore(et_pair_source *source, const et_pair_position *position,
                           et_error *error);

void et_pair_source_close(et_pair_source *source); /* NULL allowed */

/* A position as members of a dict, and back. */
void et_pair_position_write(const et_pair_position *position, et_value *dict);
int et_pair_position_read(et_pair_position *position, const et_value *dict, et_error *error);

#endif
