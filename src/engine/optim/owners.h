/* The part of a group that each rank updates, if an optimizer is divided among ranks: ZeRO stage 1
 * (Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
 * section 5.1). A part is consecutive elements of arrays over the group, about as long as the other
 * parts. If a rule uses whole tensors, a part ends with a tensor. Parts depend only on the group
 * and the number of ranks. A single process has the whole group. Private to this folder. */
#ifndef ETUDE_ENGINE_OPTIM_OWNERS_H
#define ETUDE_ENGINE_OPTIM_OWNERS_H

#include "engine/comm/comm.h"
#include "engine/optim/slot_layout.h"

typedef struct et_optim_owners {
    et_comm *comm; /* borrowed; NULL: this process alone */
    int rank, ranks;
    int64_t *cut;     /* [ranks + 1], owned: rank r has elements cut[r] to cut[r + 1] - 1 */
    et_error failure; /* of sending; status 0: no failure */
} et_optim_owners;

int et_optim_owners_init(et_optim_owners *owners, et_comm *comm, const et_optim_layout *layout,
                         et_rule_granularity how, et_error *error);
void et_optim_owners_release(et_optim_owners *owners);

/* This rank's elements of arrays over the group. */
static inline et_range et_optim_own(const et_optim_owners *owners)
{
    return (et_range){ owners->cut[owners->rank], owners->cut[owners->rank + 1] };
}

/* The part of a piece in a range of such arrays; its count is 0 if it has none. */
et_optim_section et_optim_section_within(const et_optim_section *section, et_range range);
static inline et_optim_section et_optim_section_in(const et_optim_section *section, et_range range)
{
    bool whole = section->packed >= range.begin && section->packed + section->count <= range.end;
    return whole ? *section : et_optim_section_within(section, range);
}

/* Copies each rank's part of values, an array in the store's order, to all ranks. This is not a
 * separate step: all call it after they have agreed, and the next question reports a failure. */
void et_optim_owners_gather(et_optim_owners *owners, const et_optim_layout *layout, float *values);

#endif
