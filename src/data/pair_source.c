/* Calls through the class, in one place each, and the position as values: the same four numbers
 * for every kind of source, so that a checkpoint does not say which decorators a run had. */
#include "data/pair_source.h"

#include <stddef.h>

#include "base/assert.h"

/* The batch has memory of the source's shape: et_pair_batch_init. */
int et_pair_source_next(et_pair_source *source, et_pair_batch *batch, et_error *error)
{
    et_assert(source->class->next && batch->source_ids);
    return source->class->next(source, batch, error);
}

void et_pair_source_save(const et_pair_source *source, et_pair_position *position)
{
    source->class->save(source, position);
}

int et_pair_source_restore(et_pair_source *source, const et_pair_position *position,
                           et_error *error)
{
    return source->class->restore(source, position, error);
}

void et_pair_source_close(et_pair_source *source)
{
    if (source)
        source->class->close(source);
}

/* A row for each member of et_pair_position, all int64_t: its key in a checkpoint and its place
 * in the struct. A new member needs a row, and old checkpoints will not have it. */
static const struct {
    const char *key;
    size_t offset;
} members[] = {
    { "epoch", offsetof(et_pair_position, epoch) },
    { "pool", offsetof(et_pair_position, pool) },
    { "batch", offsetof(et_pair_position, batch) },
    { "fingerprint", offsetof(et_pair_position, fingerprint) },
};

#define MEMBERS (sizeof members / sizeof members[0])

void et_pair_position_write(const et_pair_position *position, et_value *dict)
{
    for (size_t i = 0; i < MEMBERS; i++)
        et_value_set_int(dict, members[i].key,
                         *(const int64_t *)((const char *)position + members[i].offset));
}

/* Any missing member or one that is no whole number is an error; what the numbers mean is for
 * restore to check. */
int et_pair_position_read(et_pair_position *position, const et_value *dict, et_error *error)
{
    _Static_assert(sizeof(et_pair_position) == MEMBERS * sizeof(int64_t), "a row for each");
    int status = ET_OK;
    for (size_t i = 0; !status && i < MEMBERS; i++)
        status = et_value_read_int(dict, members[i].key,
                                   (int64_t *)((char *)position + members[i].offset), error);
    return status;
}
