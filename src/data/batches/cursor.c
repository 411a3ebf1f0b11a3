/* Cursors over passes of a source. Invariants:
 *
 *   (1) while `waits`, the saved position is `next`, which gives the batch again; otherwise it
 *       is the source's own position;
 *   (2) batch->epoch == pass for every batch that next has returned. */
#include "data/batches/cursor.h"

#include "data/batches/source.h"

int et_batch_cursor_open(et_batch_cursor *cursor, et_source *source, et_error *error)
{
    *cursor = (et_batch_cursor){ .source = source };
    return et_batch_new(&cursor->batch, &source->layout, error);
}

void et_batch_cursor_release(et_batch_cursor *cursor)
{
    et_batch_free(cursor->batch);
    *cursor = (et_batch_cursor){ .source = NULL };
}

int et_batch_cursor_next(et_batch_cursor *cursor, bool *over, et_error *error)
{
    const et_batch *batch = cursor->batch;
    *over = false;
    if (!cursor->waits) {
        et_source_position(cursor->source, &cursor->next);
        int status = et_source_next(cursor->source, cursor->batch, error);
        if (status)
            return status;
    }
    const bool ended = batch->filled[0] == 0;
    *over = ended || (cursor->begun && batch->epoch != cursor->pass);
    cursor->waits = *over && !ended;
    cursor->begun = !ended;
    cursor->pass = batch->epoch;
    return ET_OK;
}

int et_batch_cursor_rewind(et_batch_cursor *cursor, bool next, et_error *error)
{
    cursor->waits = cursor->begun = false;
    return et_source_rewind_to(cursor->source, next, error);
}

int et_batch_cursor_give_back(et_batch_cursor *cursor, et_error *error)
{
    int status = cursor->waits ? et_source_seek(cursor->source, &cursor->next, error) : ET_OK;
    cursor->waits = false;
    return status;
}

int et_batch_cursor_save(const et_batch_cursor *cursor, et_value *dict, et_error *error)
{
    return cursor->waits ? et_position_save(&cursor->next, dict, error)
                         : et_source_part.save(cursor->source, dict, error);
}

int et_batch_cursor_restore(et_batch_cursor *cursor, const et_value *dict, et_error *error)
{
    cursor->waits = false;
    return et_source_part.restore(cursor->source, dict, error);
}
