#include "train/ranks/collected.h"

#include <string.h>

#include "base/alloc.h"

int et_collected_open(et_collected *collected, const et_comm *comm, et_error *error)
{
    size_t ranks = (size_t)et_comm_size(comm);
    *collected = (et_collected){ .size = et_alloc_zero(ranks, sizeof *collected->size),
                                 .at = et_alloc_zero(ranks, sizeof *collected->at) };
    return collected->size && collected->at ? ET_OK : et_alloc_failed(error, "what ranks have");
}

void et_collected_release(et_collected *collected)
{
    et_free(collected->all);
    et_free(collected->size);
    et_free(collected->at);
}

int et_collected_take(et_collected *collected, et_comm *comm, int status, const void *mine,
                      size_t size, et_error *error)
{
    et_free(collected->all);
    status = et_together_collect(comm, status, mine, size, &collected->all, collected->size, error);
    const char *at = collected->all ? collected->all : "";
    for (int r = 0; !status && r < et_comm_size(comm); r++) {
        collected->at[r] = at;
        at += collected->size[r];
    }
    return status;
}

const char *et_collected_next(et_collected *collected, int rank, size_t size)
{
    const char *at = collected->at[rank];
    if (size > collected->size[rank])
        return NULL;
    collected->at[rank] = at + size;
    collected->size[rank] -= size;
    return at;
}

void *et_collected_copy(et_collected *collected, int rank, size_t size, et_arena *arena)
{
    const char *at = et_collected_next(collected, rank, size);
    void *copy = at ? et_arena_alloc(arena, size ? size : 1) : NULL;
    return copy ? memcpy(copy, at, size) : NULL;
}

int et_collected_items(et_comm *comm, const char *what, int64_t count, int status,
                       const et_strbuf *mine, et_collected_read_fn *read, void *payload,
                       et_error *error)
{
    const int ranks = et_comm_size(comm), rank = et_comm_rank(comm);
    et_collected all = { 0 };
    if (!status && mine->failed)
        status = et_alloc_failed(error, what);
    if (!status)
        status = et_collected_open(&all, comm, error);
    status = et_collected_take(&all, comm, status, mine->data, mine->length, error);
    for (int64_t i = 0; !status && i < count; i++) {
        const int r = (int)(i % ranks);
        if (r != rank && !read(payload, i, &all, r))
            status = et_fail(error, ET_EFAIL, "%s of rank %d are incomplete", what, r);
    }
    et_collected_release(&all);
    return status;
}
