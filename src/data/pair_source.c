#include "data/pair_source.h"

#include <stddef.h>

#include "base/assert.h"

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

int et_pair_position_read(et_pair_position *position, const et_value *dict, et_error *error)
{
    int status = ET_OK;
    for (size_t i = 0; !status && i < MEMBERS; i++)
        status = et_value_read_int(dict, members[i].key,
                                   (int64_t *)((char *)position + members[i].offset), error);
    return status;
}
