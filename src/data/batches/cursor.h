/* A cursor: a source, the batch that it is read into, and the position.
 *
 * Data come in passes. A pass ends when the source ends, or when the epoch of its batches changes:
 * then the batch that was read waits, as the first of the next pass. */
#ifndef ETUDE_DATA_BATCHES_CURSOR_H
#define ETUDE_DATA_BATCHES_CURSOR_H

#include <etude/data.h>
#include <etude/value.h>

typedef struct et_batch_cursor {
    et_source *source; /* borrowed */
    et_batch *batch;   /* owned: the one read last */
    et_position next;  /* before batch */
    bool waits;        /* batch is the first of the next pass */
    bool begun;        /* a pass is open, and `pass` is its epoch */
    int64_t pass;
} et_batch_cursor;

/* On failure there is nothing to release. Afterwards reading allocates nothing. */
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
