/* Shared alignments. Pair i of the list belongs to rank i % ranks. A rank sends its results as
 * bytes, pair after pair: the numbers of words of both sides, then the numbers and weights of each
 * target word. */
#include "tasks/translation/decoding/align_share.h"

#include "base/text/strbuf.h"
#include "engine/comm/collected.h"

typedef struct words {
    int32_t target, source;
} words;

typedef struct word {
    double weight;
    int32_t target, source;
} word;

static void write_found(et_strbuf *to, const et_aligned *found)
{
    const words all = { found->count, found->source_words };
    et_strbuf_append_bytes(to, &all, sizeof all);
    for (int i = 0; i < found->count; i++) {
        const et_alignment *a = &found->items[i];
        const word one = { a->weight, a->target, a->source };
        et_strbuf_append_bytes(to, &one, sizeof one);
        et_strbuf_append_bytes(to, a->weights, (size_t)all.source * sizeof *a->weights);
    }
}

/* False: not whole, or no memory. */
static bool read_found(et_collected *from, int rank, et_aligned *found, et_arena *arena)
{
    const words *all = et_collected_copy(from, rank, sizeof *all, arena);
    if (!all || all->target < 0 || all->source < 0 ||
        (size_t)all->target > from->size[rank] / sizeof(word))
        return false;
    et_alignment *items = et_arena_array(arena, (size_t)all->target, sizeof *items);
    *found = (et_aligned){ items, all->target, all->source };
    for (int i = 0; items && i < all->target; i++) {
        const word *one = et_collected_copy(from, rank, sizeof *one, arena);
        const double *weights =
            one ? et_collected_copy(from, rank, (size_t)all->source * sizeof *weights, arena)
                : NULL;
        if (!weights)
            return false;
        items[i] = (et_alignment){ one->source, one->target, one->weight, weights };
    }
    return items != NULL;
}

typedef struct reading {
    et_align_pair *pairs;
    et_arena *arena;
} reading;

static bool read_pair(void *payload, int64_t item, et_collected *from, int rank)
{
    const reading *r = payload;
    return read_found(from, rank, &r->pairs[item].found, r->arena);
}

int et_aligner_run_on_ranks(et_aligner *aligner, et_comm *comm, et_align_pair *pairs, int64_t count,
                            et_arena *arena, et_error *error)
{
    const int ranks = et_comm_size(comm), rank = et_comm_rank(comm);
    et_strbuf mine = ET_STRBUF_INIT;
    int status = ET_OK;
    for (int64_t i = 0; !status && i < count; i++) {
        et_align_pair *p = &pairs[i];
        const bool own = i % ranks == rank;
        status = et_aligner_run(aligner, p->source, p->length, p->target, p->count, arena,
                                own ? &p->found : NULL, error);
        if (own && !status && ranks > 1)
            write_found(&mine, &p->found);
    }
    if (ranks > 1)
        status = et_collected_items(comm, "alignments", count, status, &mine, read_pair,
                                    &(reading){ pairs, arena }, error);
    et_strbuf_release(&mine);
    return status;
}
