#include "roles/placement.h"

#include <string.h>

#include "base/alloc.h"
#include "base/files/checksum.h"

static et_placement_piece whole(const et_params *params, int param)
{
    et_shape shape = et_params_shape(params, param);
    return (et_placement_piece){ param, 0, et_shape_count(shape), shape };
}

static bool is_cut(const et_placement_piece *piece, int servers, bool cuts)
{
    return cuts && servers > 1 && piece->count >= ET_PLACEMENT_LARGE && piece->shape.rank > 0 &&
           piece->shape.size[0] >= servers;
}

/* Rows server * rows / servers to the next server's first. */
static et_placement_piece cut(et_placement_piece piece, int server, int servers)
{
    int64_t rows = piece.shape.size[0], width = piece.count / rows;
    int64_t begin = rows * server / servers, end = rows * (server + 1) / servers;
    piece.begin = begin * width;
    piece.count = (end - begin) * width;
    piece.shape.size[0] = end - begin;
    return piece;
}

/* The pieces of one server, or with pieces NULL their number. */
static int list(et_placement_piece *pieces, const et_params *params, int server, int servers,
                bool cuts)
{
    int count = 0, turn = 0;
    for (int i = 0; i < et_params_count(params); i++) {
        if (!et_params_is_trained(params, i))
            continue;
        et_placement_piece piece = whole(params, i);
        bool shared = is_cut(&piece, servers, cuts);
        bool mine = shared || turn % servers == server;
        turn++;
        if (mine && pieces)
            pieces[count] = shared ? cut(piece, server, servers) : piece;
        count += mine;
    }
    return count;
}

static int fill(et_placement *p, const et_params *params, bool cuts, et_error *error)
{
    for (int s = 0; s < p->servers; s++) {
        int count = list(p->pieces + p->first[s], params, s, p->servers, cuts);
        if (!count)
            return et_fail(
                error, ET_ECONFIG,
                "%d parameter servers are too many for the parameters of this model; start fewer",
                p->servers);
        p->first[s + 1] = p->first[s] + count;
        for (int i = 0; i < count; i++)
            p->floats[s] += p->pieces[p->first[s] + i].count;
    }
    return ET_OK;
}

int et_placement_make(et_placement *p, const et_params *params, int servers, bool cuts,
                      et_error *error)
{
    size_t all = (size_t)et_params_count(params) * (size_t)servers;
    *p = (et_placement){ .servers = servers };
    p->pieces = et_alloc_zero(all + 1, sizeof *p->pieces);
    p->first = et_alloc_zero((size_t)servers + 1, sizeof *p->first);
    p->floats = et_alloc_zero((size_t)servers, sizeof *p->floats);
    int status = p->pieces && p->first && p->floats
                     ? fill(p, params, cuts, error)
                     : et_alloc_failed(error, all * sizeof *p->pieces, "a placement");
    if (status)
        et_placement_release(p);
    return status;
}

void et_placement_release(et_placement *p)
{
    et_free(p->pieces);
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
        const et_placement_piece *piece = &p->pieces[i];
        const char *name = et_params_name(params, piece->param);
        int64_t place[2] = { piece->begin, piece->count };
        mixed = mix(mixed, name, strlen(name));
        mixed = mix(mixed, place, sizeof place);
        mixed =
            mix(mixed, piece->shape.size, (size_t)piece->shape.rank * sizeof *piece->shape.size);
    }
    return mixed;
}

void et_placement_gather(const et_placement *p, const et_params *params, int server,
                         const float *flat, float *values)
{
    for (int i = p->first[server]; i < p->first[server + 1]; i++) {
        const et_placement_piece *piece = &p->pieces[i];
        memcpy(values, flat + et_params_offset(params, piece->param) + piece->begin,
               (size_t)piece->count * sizeof *values);
        values += piece->count;
    }
}

void et_placement_scatter(const et_placement *p, const et_params *params, int server,
                          const void *values, float *flat)
{
    const char *from = values;
    for (int i = p->first[server]; i < p->first[server + 1]; i++) {
        const et_placement_piece *piece = &p->pieces[i];
        size_t bytes = (size_t)piece->count * sizeof *flat;
        memcpy(flat + et_params_offset(params, piece->param) + piece->begin, from, bytes);
        from += bytes;
    }
}
