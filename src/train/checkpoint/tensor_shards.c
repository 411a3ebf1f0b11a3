/* The protocol: rank 0 sends a tensor's number to all ranks, or END to release them. Then the parts
 * of the tensor come in order, each in pieces. The number decides which rank sends what, so nothing
 * else is sent. */
#include "train/checkpoint/tensor_shards.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "engine/comm/comm.h"

#define CHUNK ((int64_t)1 << 18) /* elements: a megabyte */

enum { END = -1 };

static const et_comm_chunk none = { -1, NULL, 0 };

static int say(const et_state *state, int64_t *number, et_error *error)
{
    return et_comm_broadcast(et_state_ranks(state), 0, number, sizeof *number, error);
}

static int64_t chunk_at(int64_t at, int64_t end)
{
    return end - at < CHUNK ? end - at : CHUNK;
}

int et_tensor_shards_give(const et_state *state, et_error *error)
{
    int64_t number;
    int status = say(state, &number, error);
    while (!status && number != END) {
        if (number < 0 || number >= (int64_t)et_state_tensor_count(state) ||
            !et_state_tensor_at(state, (size_t)number)->cut)
            return et_fail(error, ET_EFAIL, "ranks are out of step: tensor %lld of %zu",
                           (long long)number, et_state_tensor_count(state));
        const et_state_tensor *tensor = et_state_tensor_at(state, (size_t)number);
        et_comm *comm = et_state_ranks(state);
        const int64_t *own = tensor->cut + et_comm_rank(comm);
        for (int64_t at = 0; !status && at < own[1] - own[0]; at += CHUNK) {
            size_t bytes = (size_t)chunk_at(at, own[1] - own[0]) * sizeof *tensor->data;
            status =
                et_comm_exchange(comm, (et_comm_chunk){ 0, tensor->data + at, bytes }, none, error);
        }
        if (!status)
            status = say(state, &number, error);
    }
    return status;
}

/* A rank's part is received to its end, also if it is no longer needed. */
static int read_part(const et_state_tensor *tensor, int rank, float *room, et_comm *comm,
                     et_safetensors_take_fn *take, void *payload, et_error *error)
{
    int status = ET_OK, sent = ET_OK;
    for (int64_t at = tensor->cut[rank], end = tensor->cut[rank + 1]; !sent && at < end;
         at += CHUNK) {
        size_t bytes = (size_t)chunk_at(at, end) * sizeof *room;
        sent = et_comm_exchange(comm, none, (et_comm_chunk){ rank, room, bytes },
                                status ? NULL : error);
        if (!sent && !status)
            status = take(payload, room, bytes, error);
    }
    return status ? status : sent;
}

int et_tensor_shards_read(const et_state *state, size_t tensor, et_safetensors_take_fn *take,
                          void *payload, et_error *error)
{
    et_comm *comm = et_state_ranks(state);
    const et_state_tensor *t = et_state_tensor_at(state, tensor);
    int64_t number = (int64_t)tensor;
    et_assert(t->cut && !et_comm_rank(comm));
    float *room = et_alloc((size_t)CHUNK, sizeof *room);
    int status = room ? say(state, &number, error)
                      : et_alloc_failed(error, (size_t)CHUNK * sizeof *room, "a rank's part");
    bool asked = !status;
    if (!status && t->cut[1])
        status = take(payload, t->data, (size_t)t->cut[1] * sizeof *t->data, error);
    for (int r = 1; asked && r < et_comm_size(comm); r++) {
        int got = read_part(t, r, room, comm, take, payload, status ? NULL : error);
        status = status ? status : got;
    }
    et_free(room);
    return status;
}

int et_tensor_shards_end(const et_state *state, int status, et_error *error)
{
    int64_t number = END;
    int sent = say(state, &number, status ? NULL : error);
    return status ? status : sent;
}
