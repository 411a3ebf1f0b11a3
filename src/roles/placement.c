#include "roles/placement.h"

#include <string.h>

#include "base/alloc.h"
#include "base/files/checksum.h"

/* Rows server * rows / servers to the next server's first. */
static et_placement_shard cut(et_placement_shard shard, int server, int servers)
{
    int64_t rows = shard.shape.size[0], width = shard.count / rows;
    int64_t begin = rows * server / servers, end = rows * (server + 1) / servers;
    shard.begin = begin * width;
    shard.count = (end - begin) * width;
    shard.shape.size[0] = end - begin;
    return shard;
}

/* The pieces of one server, or with pieces NULL their number. */
static int list(et_placement_shard *shards, const et_params *params, int server, int servers,
                bool cuts)
{
    int count = 0, turn = 0;
    for (int i = 0; i < et_params_count(params); i++) {
        if (!et_params_is_trained(params, i))
            continue;
        et_shape shape = et_params_shape(params, i);
        et_placement_shard shard = { i, 0, et_shape_count(shape), shape };
        bool shared = cuts && servers > 1 && shard.count >= ET_PLACEMENT_LARGE &&
                      shard.shape.rank > 0 && shard.shape.size[0] >= servers;
        bool mine = shared || turn % servers == server;
        turn++;
        if (mine && shards)
            shards[count] = shared ? cut(shard, server, servers) : shard;
        count += mine;
    }
    return count;
}

static int fill(et_placement *p, const et_params *params, bool cuts, et_error *error)
{
    for (int s = 0; s < p->servers; s++) {
        int count = list(p->shards + p->first[s], params, s, p->servers, cuts);
        if (!count)
            return et_fail(
                error, ET_ECONFIG,
                "%d parameter servers are too many for the parameters of this model; start fewer",
                p->servers);
        p->first[s + 1] = p->first[s] + count;
        for (int i = 0; i < count; i++)
            p->floats[s] += p->shards[p->first[s] + i].count;
    }
    return ET_OK;
}

int et_placement_make(et_placement *p, const et_params *params, int servers, bool cuts,
                      et_error *error)
{
    size_t all = (size_t)et_params_count(params) * (size_t)servers;
    *p = (et_placement){ .servers = servers };
    p->shards = et_alloc_zero(all + 1, sizeof *p->shards);
    p->first = et_alloc_zero((size_t)servers + 1, sizeof *p->first);
    p->floats = et_alloc_zero((size_t)servers, sizeof *p->floats);
    int status = p->shards && p->first && p->floats
                     ? fill(p, params, cuts, error)
                     : et_alloc_failed(error, all * sizeof *p->shards, "a placement");
    if (status)
        et_placement_release(p);
    return status;
}

void et_placement_release(et_placement *p)
{
    et_free(p->shards);
    et_free(p->first);
    et_free(p->floats);
    *p = (et_placement){ 0 };
}

static uint64_t mix(uint64_t so_far, const void *bytes, size_t size)
{
    uint64_t both[2] = { so_far, et_checksum(bytes, size) };
    return et_checksum(both, sizeof both);
}

uint64_t et_placement_fingerprint(const et_placement *p, const et_params *params, uint64_t seed)
{
    uint64_t mixed = mix(seed, &p->servers, sizeof p->servers);
    for (int i = 0; i < p->first[p->servers]; i++) {
        const et_placement_shard *shard = &p->shards[i];
        const char *name = et_params_name(params, shard->param);
        int64_t range[2] = { shard->begin, shard->count };
        mixed = mix(mixed, name, strlen(name));
        mixed = mix(mixed, range, sizeof range);
        mixed =
            mix(mixed, shard->shape.size, (size_t)shard->shape.rank * sizeof *shard->shape.size);
    }
    return mixed;
}

void et_placement_gather(const et_placement *p, const et_params *params, int server,
                         const float *flat, float *values)
{
    for (int i = p->first[server]; i < p->first[server + 1]; i++) {
        const et_placement_shard *shard = &p->shards[i];
        memcpy(values, flat + et_params_offset(params, shard->param) + shard->begin,
               (size_t)shard->count * sizeof *values);
        values += shard->count;
    }
}

void et_placement_scatter(const et_placement *p, const et_params *params, int server,
                          const void *values, float *flat)
{
    const char *from = values;
    for (int i = p->first[server]; i < p->first[server + 1]; i++) {
        const et_placement_shard *shard = &p->shards[i];
        size_t bytes = (size_t)shard->count * sizeof *flat;
        memcpy(flat + et_params_offset(params, shard->param) + shard->begin, from, bytes);
        from += bytes;
    }
}
