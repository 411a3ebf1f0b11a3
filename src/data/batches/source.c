/* Calls of source classes, and positions. A position is a list of named numbers, the same for any
 * decorators around a source. */
#include "data/batches/source.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "engine/tensor/tensor.h"

void et_samples_close(et_samples *samples)
{
    if (samples)
        samples->class->close(samples);
}

/* Before the position changes for the first time. */
static void note_begin(et_source *source)
{
    if (!source->begun && source->class->position)
        et_source_position(source, &source->begin);
    source->begun = true;
}

int et_source_next(et_source *source, et_batch *batch, et_error *error)
{
    note_begin(source);
    if (!et_layout_fits(&source->layout, batch->layout))
        return et_fail(error, ET_EUSAGE,
                       "the batch has other fields or capacities than the source; make it with "
                       "et_batch_new(&batch, &source->layout, ...)");
    return source->class->next(source, batch, error);
}

void et_source_position(const et_source *source, et_position *position)
{
    position->count = 0;
    source->class->position(source, position);
}

int et_source_seek(et_source *source, const et_position *position, et_error *error)
{
    note_begin(source);
    return source->class->seek(source, position, error);
}

int et_source_rewind_to(et_source *source, bool next, et_error *error)
{
    if (!source->begun)
        return ET_OK;
    return source->class->rewind ? source->class->rewind(source, next, error)
                                 : source->class->seek(source, &source->begin, error);
}

int et_source_rewind(et_source *source, et_error *error)
{
    return et_source_rewind_to(source, false, error);
}

int et_source_claim(et_source *source, const char *reader, et_error *error)
{
    et_assert(reader);
    if (source->reader)
        return et_fail(error, ET_EUSAGE,
                       "%s cannot begin a pass of this source, because a pass of %s is open: end "
                       "that pass, or open a second source of the same samples",
                       reader, source->reader);
    source->reader = reader;
    return ET_OK;
}

int et_source_begin(et_source *source, const char *reader, et_error *error)
{
    int status = et_source_claim(source, reader ? reader : "a reader", error);
    if (status)
        return status;
    status = et_source_rewind_to(source, true, error);
    if (status)
        et_source_end(source);
    return status;
}

void et_source_end(et_source *source)
{
    source->reader = NULL;
}

int et_source_next_batch(et_source *source, et_batch *batch, et_error *error)
{
    static const char reader[] = "et_source_next_batch";
    int status = source->reader == reader ? ET_OK : et_source_begin(source, reader, error);
    if (status)
        return status;
    status = et_source_next(source, batch, error);
    if (status || !batch->filled[0])
        et_source_end(source);
    return status;
}

void et_source_describe(const et_source *source, const et_batch *batch, char *text, size_t size)
{
    et_assert(size > 0);
    *text = 0;
    source->class->describe(source, batch, text, size);
}

int et_source_batches(et_source *source, int64_t *count, et_error *error)
{
    *count = 0;
    return source->class->batches ? source->class->batches(source, count, error) : ET_OK;
}

uint64_t et_source_content(const et_source *source)
{
    return source->class->content ? source->class->content(source) : 0;
}

uint64_t et_content_joined(uint64_t before, uint64_t content)
{
    const uint64_t facts[] = { before, content };
    return before && content ? et_checksum(facts, sizeof facts) : 0;
}

void et_source_close(et_source *source)
{
    if (source)
        source->class->close(source);
}

void et_position_put(et_position *position, const char *name, int64_t value)
{
    et_assert(position->count < ET_POSITION_MAX);
    if (!name || position->count >= ET_POSITION_MAX)
        return; /* the caller of seek reports the missing number by name */
    position->name[position->count] = name;
    position->value[position->count++] = value;
}

int et_position_get(const et_position *position, const char *name, int64_t *value, et_error *error)
{
    for (int i = 0; name && i < position->count; i++)
        if (!strcmp(position->name[i], name)) {
            *value = position->value[i];
            return ET_OK;
        }
    return et_fail(error, ET_EDATA,
                   "the saved position has no %s: it belongs to another kind of data", name);
}

bool et_position_equal(const et_position *a, const et_position *b)
{
    bool equal = a->count == b->count;
    for (int i = 0; equal && i < a->count; i++)
        equal = a->value[i] == b->value[i] && !strcmp(a->name[i], b->name[i]);
    return equal;
}

/* ---- as a part of the state ---- */

int et_position_save(const et_position *position, et_value *dict, et_error *error)
{
    for (int i = 0; i < position->count; i++)
        if (!et_value_set_int(dict, position->name[i], position->value[i]))
            return et_alloc_failed(error, "a position");
    return ET_OK;
}

static int save_position(const void *self, et_value *dict, et_error *error)
{
    et_position position;
    et_source_position(self, &position);
    return et_position_save(&position, dict, error);
}

static int restore_position(void *self, const et_value *dict, et_error *error)
{
    et_position position = { 0 };
    for (const et_value *child = dict->first; child; child = child->next) {
        int64_t value;
        int status = et_value_read_int(dict, child->key, &value, error);
        if (!status && position.count == ET_POSITION_MAX)
            status = et_fail(error, ET_EFORMAT, "more than %d numbers", ET_POSITION_MAX);
        if (status)
            return status;
        et_position_put(&position, child->key, value);
    }
    return et_source_seek(self, &position, error);
}

const et_part_class et_source_part = { "data position", save_position, restore_position };

/* ---- cursors ---- */

/* Cursors over passes of a source. Invariants:
 *
 *   (1) while `waits`, the saved position is `next`, which gives the batch again; otherwise it
 *       is the source's own position;
 *   (2) batch->epoch == pass for every batch that next has returned. */

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
