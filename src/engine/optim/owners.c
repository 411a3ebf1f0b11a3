/* Exchanges in a ring, as in the second half of an all-reduce: in round k each rank sends its part
 * to the rank k after it and gets the part of the rank k before it. */
#include "engine/optim/optimizer_private.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "engine/tensor/params.h"

/* As long a part for each. */
static int64_t even_cut(const et_optim_layout *layout, int rank, int ranks)
{
    int64_t lines = et_flat_up(layout->size) / ET_FLAT_ALIGN;
    int64_t at = (lines + ranks - 1) / ranks * rank * ET_FLAT_ALIGN;
    return at < layout->size ? at : layout->size;
}

/* The begin of a tensor that is nearest to `at`. */
static int64_t nearest_tensor(const et_optim_layout *layout, int64_t at)
{
    int64_t nearest = layout->size;
    for (size_t i = layout->tensor_count; i-- > 0;) {
        int64_t begin = layout->tensors[i].packed;
        if (begin >= at || at - begin <= nearest - at)
            nearest = begin;
        if (begin < at)
            break;
    }
    return nearest;
}

static void cut_all(et_optim_owners *owners, const et_optim_layout *layout, et_rule_granularity how)
{
    for (int r = 0; r <= owners->ranks; r++) {
        int64_t at = even_cut(layout, r, owners->ranks);
        bool inner = r > 0 && r < owners->ranks;
        if (r == owners->ranks)
            at = layout->size;
        owners->cut[r] = inner && how != ET_RULE_ELEMENTS ? nearest_tensor(layout, at) : at;
        et_assert(!r || owners->cut[r] >= owners->cut[r - 1]);
    }
}

int et_optim_owners_init(et_optim_owners *owners, et_comm *comm, const et_optim_layout *layout,
                         et_rule_granularity how, et_error *error)
{
    *owners = (et_optim_owners){ .comm = comm,
                                 .rank = et_comm_rank(comm),
                                 .ranks = et_comm_size(comm),
                                 .failure = ET_ERROR_INIT };
    size_t count = (size_t)owners->ranks + 1;
    owners->cut = et_alloc(count, sizeof *owners->cut);
    if (!owners->cut)
        return et_alloc_failed(error, count * sizeof *owners->cut, "an optimizer's ranks");
    cut_all(owners, layout, how);
    return ET_OK;
}

void et_optim_owners_release(et_optim_owners *owners)
{
    et_free(owners->cut);
    *owners = (et_optim_owners){ .cut = NULL };
}

et_optim_section et_optim_section_within(const et_optim_section *section, et_range range)
{
    et_optim_section in = *section;
    int64_t before = range.begin > section->packed ? range.begin - section->packed : 0;
    int64_t after = section->packed + section->count - range.end;
    in.begin += before;
    in.packed += before;
    in.count -= before + (after > 0 ? after : 0);
    in.count = in.count > 0 ? in.count : 0;
    return in;
}

static et_comm_chunk weights_of(const et_optim_owners *owners, int rank,
                                const et_optim_section *run, float *values)
{
    et_optim_section part =
        et_optim_section_in(run, (et_range){ owners->cut[rank], owners->cut[rank + 1] });
    return (et_comm_chunk){ rank, part.count ? values + part.begin : NULL,
                            (size_t)part.count * sizeof *values };
}

void et_optim_owners_gather(et_optim_owners *owners, const et_optim_layout *layout, float *values)
{
    int rank = owners->rank, ranks = owners->ranks, status = ET_OK;
    for (int k = 1; k < ranks; k++) {
        int to = (rank + k) % ranks, from = (rank - k + ranks) % ranks;
        et_optim_section run = { .packed = 0 };
        for (int i = 0; !status && i < layout->range_count; i++) {
            run.begin = layout->ranges[i].begin;
            run.count = layout->ranges[i].end - run.begin;
            et_comm_chunk mine = weights_of(owners, rank, &run, values);
            et_comm_chunk theirs = weights_of(owners, from, &run, values);
            mine.rank = to;
            status = et_comm_exchange(owners->comm, mine, theirs, &owners->failure);
            run.packed += run.count;
        }
    }
}
