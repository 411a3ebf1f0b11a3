/* Packed weights. A product reads its weight in its own layout, so the weight is first copied; a
 * copy costs about as much as reading and writing the weight once.
 *
 * Kept: each (product, parameter) has one copy for the plan's lifetime, which is made again when
 * the store changes. Not kept: each call has its own copy in the arena. Calls are processed in
 * order. The copies of as many calls as fit into GROUP_BYTES (or of one call that does not fit) are
 * a group: packed together before the first of its calls, dead after the last.
 *
 * Packing moves bytes and adds nothing, so threads cannot change a bit. */
#include <omp.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/vector.h"
#include "engine/exec/plan_private.h"
#include "engine/tensor/params.h"

/* Bytes. Packed operands are aligned to ALIGN. GROUP_BYTES limits what copies add to the arena at
 * one time, unless one call's weights are larger. SHARED_BYTES is the least amount for which a team
 * is started. */
#define ALIGN        ((size_t)64)
#define GROUP_BYTES  ((size_t)1 << 20)
#define SHARED_BYTES ((size_t)1 << 18) /* packed in some ten microseconds */

/* Rounded up, so that adjacent copies are aligned. */
static size_t packed_bytes(const et_plan_pack *pack)
{
    size_t bytes = pack->gemm ? et_gemm_packed_size(pack->gemm)
                              : et_row_weight_size(pack->rows.panel, pack->rows.n, pack->rows.k,
                                                   pack->rows.kind);
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Products are cached by shape, so equal products have the same address. first: an operand may
 * be a part of a parameter, such as some rows of a table. */
static bool same_pack(const et_plan_pack *a, const et_plan_pack *b)
{
    return a->gemm == b->gemm && a->param == b->param && a->first == b->first &&
           (a->gemm || (a->rows.kind == b->rows.kind && a->dtype == b->dtype &&
                        a->transposed == b->transposed));
}

/* The plan whose packed weights this one reads. */
static const et_plan *owner(const et_plan *plan)
{
    return plan->options.packed_by ? plan->options.packed_by : plan;
}

const et_plan_pack *et_plan_pack_at(const et_plan *plan, int pack)
{
    et_assert(pack >= 0 && pack < owner(plan)->pack_count);
    return &owner(plan)->packs[pack];
}

/* The kept copy that equals wanted; -1: none. A parameter has few: one for each product that reads
 * it, or a part of it. */
static int find_kept(const et_plan *plan, const et_plan_pack *wanted)
{
    if (!plan->options.keep_packed)
        return -1;
    et_assert(plan->pack_of_param);
    int i = plan->pack_of_param[wanted->param];
    while (i >= 0 && !same_pack(&plan->packs[i], wanted))
        i = plan->packs[i].next;
    return i;
}

/* Makes the lists of kept copies, all empty. */
static int begin_lists(et_plan *plan, et_error *error)
{
    int params = et_params_count(plan->graph->params);
    if (plan->pack_of_param || !plan->options.keep_packed)
        return ET_OK;
    plan->pack_of_param = et_alloc((size_t)params, sizeof *plan->pack_of_param);
    if (!plan->pack_of_param)
        return et_alloc_failed(error, (size_t)params * sizeof *plan->pack_of_param, "a plan");
    for (int i = 0; i < params; i++)
        plan->pack_of_param[i] = -1;
    return ET_OK;
}

/* An equal copy is searched only if copies are kept: otherwise two calls that read one weight have
 * a copy each, close to its use. A plan that reads another plan's packs must find every one there:
 * it has the same products. */
static int add(et_plan *plan, const et_plan_pack *wanted, int *pack, et_error *error)
{
    const et_plan *known = owner(plan);
    int status = known == plan ? begin_lists(plan, error) : ET_OK;
    if (status)
        return status;
    *pack = find_kept(known, wanted);
    if (*pack >= 0)
        return ET_OK;
    et_assert(known == plan);
    const size_t wanted_packs = (size_t)plan->pack_count + 1;
    et_plan_pack *packs =
        et_vector_grow(plan->packs, &plan->pack_capacity, wanted_packs, sizeof *packs, 32);
    if (!packs)
        return et_alloc_failed(error, wanted_packs * sizeof *packs, "a plan");
    plan->packs = packs;
    *pack = plan->pack_count++;
    plan->packs[*pack] = *wanted;
    if (plan->pack_of_param) {
        plan->packs[*pack].next = plan->pack_of_param[wanted->param];
        plan->pack_of_param[wanted->param] = *pack;
    }
    return ET_OK;
}

/* call is set by prepare_calls, which knows it. */
int et_plan_add_pack(et_plan *plan, et_gemm *gemm, int param, int64_t first, et_dtype dtype,
                     int *pack, et_error *error)
{
    et_plan_pack wanted = {
        .gemm = gemm, .param = param, .first = first, .dtype = dtype, .call = -1
    };
    return add(plan, &wanted, pack, error);
}

int et_plan_add_row_pack(et_plan *plan, const et_row_weight *rows, int param, et_dtype dtype,
                         bool transposed, int *pack, et_error *error)
{
    et_plan_pack wanted = {
        .rows = *rows, .transposed = transposed, .param = param, .dtype = dtype, .call = -1
    };
    return add(plan, &wanted, pack, error);
}

/* Also makes the views of row weights, which point into their memory. Called when the address is
 * known: at once for kept ones, after placing for groups. */
void et_plan_lay_packs(et_plan *plan, int first, int count, unsigned char *at)
{
    for (int i = first; i < first + count; i++) {
        et_plan_pack *pack = &plan->packs[i];
        pack->data = at;
        if (!pack->gemm)
            pack->rows =
                et_row_weight_at(at, pack->rows.panel, pack->rows.n, pack->rows.k, pack->rows.kind);
        at += packed_bytes(pack);
    }
}

/* All of a call's packs are needed when it begins, and only the first call of a group packs, so
 * they must be in one group. So a pack opens a new group only if it is the first of all, or if it
 * does not fit and belongs to a later call than the last pack. Therefore no two groups share a
 * call.
 *
 * Example, 1 MiB: packs of 0.4, 0.4 and 0.4 MiB in calls 3, 5 and 8 make the groups {3, 5} and {8}.
 */
static int make_groups(et_plan *plan, et_error *error)
{
    size_t most = (size_t)plan->pack_count;
    plan->pack_groups = et_alloc(most, sizeof *plan->pack_groups);
    if (!plan->pack_groups)
        return et_alloc_failed(error, most * sizeof *plan->pack_groups, "a plan");
    et_plan_pack_group *group = NULL;
    for (int i = 0; i < plan->pack_count; i++) {
        const et_plan_pack *pack = &plan->packs[i];
        et_assert(pack->call >= 0 && (i == 0 || pack->call >= pack[-1].call));
        bool fits = group && group->bytes + packed_bytes(pack) <= GROUP_BYTES;
        if (!group || (!fits && pack->call != group->to)) {
            group = &plan->pack_groups[plan->pack_group_count++];
            *group = (et_plan_pack_group){ .first = i, .from = pack->call };
            plan->calls[pack->call].pack_group = plan->pack_group_count - 1;
        }
        group->count++;
        group->to = pack->call;
        group->bytes += packed_bytes(pack);
    }
    return ET_OK;
}

/* Memory of kept ones is known here; groups get theirs from memory.c. */
int et_plan_make_packs(et_plan *plan, et_error *error)
{
    if (plan->options.keep_packed) {
        /* One block for all, as they live and die with the plan. */
        for (int i = 0; i < plan->pack_count; i++)
            plan->memory.packed += packed_bytes(&plan->packs[i]);
        plan->packed = et_alloc_aligned(plan->memory.packed, ALIGN);
        if (!plan->packed)
            return et_alloc_failed(error, plan->memory.packed, "packed weights");
        et_plan_lay_packs(plan, 0, plan->pack_count, plan->packed);
        return ET_OK;
    }
    return make_groups(plan, error);
}

/* Values and the bfloat16 shadow have one layout, so an offset in elements serves both. */
static void run_pack(const et_plan *plan, const et_plan_pack *pack)
{
    et_params *params = plan->graph->params;
    int64_t offset = et_params_offset(params, pack->param) + pack->first;
    const void *from = pack->dtype == ET_BF16 ? (const void *)(et_params_shadow(params) + offset)
                                              : (const void *)(et_params_values(params) + offset);
    if (pack->gemm)
        et_gemm_pack(pack->gemm, pack->data, from);
    else
        et_row_weight_pack(&pack->rows, from, pack->dtype, pack->transposed);
    et_params_forget(params, pack->param);
}

static const et_activity packing = { .name = "pack weights", .kind = "packing weights" };

/* One weight for each thread; if there are fewer weights than threads, all threads on each weight.
 */
void et_plan_run_packs(const et_plan *plan, int first, int count)
{
    et_assert(first >= 0 && first + count <= plan->pack_count);
    et_track *track = et_device_track(plan->device);
    et_track_begin(track, &packing, -1);
    /* Threads take a weight each if there is one for every thread, and work enough for a team to
     * gather. Inside the loop each packing runs on the thread that calls it: kernels start no
     * second team. */
    const int threads = omp_get_max_threads();
    size_t bytes = 0;
    for (int i = first; i < first + count; i++)
        bytes += packed_bytes(&plan->packs[i]);
    if (threads > 1 && count >= threads && bytes >= SHARED_BYTES) {
#pragma omp parallel for schedule(dynamic, 1)
        for (int i = first; i < first + count; i++)
            run_pack(plan, &plan->packs[i]);
    } else {
        for (int i = first; i < first + count; i++)
            run_pack(plan, &plan->packs[i]);
    }
    et_track_end(track);
}

/* One block of scratch is enough, as one call runs at a time. Where packs are not kept, the
 * group that begins here is packed into room that values may have had until now. */
void et_plan_begin_call(et_plan *plan, int i)
{
    const et_plan_call *call = &plan->calls[i];
    for (int k = 0; k < call->in_count; k++) {
        const et_plan_value *value = &plan->values[call->in[k]];
        et_assert(value->storage != VALUE_IS_INPUT || value->tensor.data); /* bound */
    }
    plan->scratch = et_plan_at(plan, call->scratch_offset);
    if (call->pack_group < 0)
        return;
    const et_plan_pack_group *group = &plan->pack_groups[call->pack_group];
    et_assert_equal(group->from, i);
    et_plan_run_packs(plan, group->first, group->count);
}
