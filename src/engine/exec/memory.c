/* Memory of values. Live ranges: a value lives from the call that writes it to the last call that
 * reads it; scratch during its call; a group of packed weights from its first call to its last. All
 * of these are tenants of one arena (arena_layout.h).
 *
 * The store's gradient array is used too: nothing needs a parameter's gradient before the call that
 * writes it, and most are written late, when most values are dead. So offsets count from the start
 * of that array, and the arena follows after it:
 *
 *     0 ............ gradients .... gradient_bytes ............ arena ............ end
 *     | values, then the gradient | values, then ... |wall| values                  |
 *
 * A gradient has a fixed place and lives from its call to the end of the run. Memory that no call
 * writes (padding, parameters that the loss does not reach) is zero and stays zero: it is always
 * live. Nothing crosses the wall, because the two sides are different memory. */
#include <limits.h>
#include <omp.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/sort.h"
#include "base/vector.h"
#include "engine/exec/arena_layout.h"
#include "engine/exec/plan_private.h"
#include "engine/kernel/sizes.h"
#include "engine/tensor/params.h"

/* ---- packed weights ---- */

/* Packed weights. A product reads its weight in its own layout, so the weight is first copied; a
 * copy costs about as much as reading and writing the weight once.
 *
 * Kept: each (product, parameter) has one copy for the plan's lifetime, which is made again when
 * the store changes. Not kept: each call has its own copy in the arena. Calls are processed in
 * order. The copies of as many calls as fit into GROUP_BYTES (or of one call that does not fit) are
 * a group: packed together before the first of its calls, dead after the last.
 *
 * Packing moves bytes and adds nothing, so threads cannot change a bit. */

/* Bytes. GROUP_BYTES limits what copies add to the arena at
 * one time, unless one call's weights are larger. SHARED_BYTES is the least amount for which a team
 * is started. */
#define GROUP_BYTES  ((size_t)1 << 20)
#define SHARED_BYTES ((size_t)1 << 18) /* packed in some ten microseconds */

/* In whole lines, so that adjacent copies are aligned. */
static size_t packed_bytes(const et_plan_pack *pack)
{
    size_t bytes = pack->gemm ? et_gemm_packed_size(pack->gemm)
                              : et_row_weight_size(pack->rows.panel, pack->rows.n, pack->rows.k,
                                                   pack->rows.kind);
    return et_lines(bytes);
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
static const et_plan *holder(const et_plan *plan)
{
    return plan->options.packed_by ? plan->options.packed_by : plan;
}

const et_plan_pack *et_plan_pack_at(const et_plan *plan, int pack)
{
    et_assert(pack >= 0 && pack < holder(plan)->pack_count);
    return &holder(plan)->packs[pack];
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
    if (ET_ALLOC(plan->pack_of_param, params, "a plan", error))
        return ET_ENOMEM;
    for (int i = 0; i < params; i++)
        plan->pack_of_param[i] = -1;
    return ET_OK;
}

/* An equal copy is searched only if copies are kept: otherwise two calls that read one weight have
 * a copy each, close to its use. A plan that reads another plan's packs must find every one there:
 * it has the same products. */
int et_plan_add_pack(et_plan *plan, const et_plan_pack *wanted, int *pack, et_error *error)
{
    const et_plan *known = holder(plan);
    int status = known == plan ? begin_lists(plan, error) : ET_OK;
    if (status)
        return status;
    *pack = find_kept(known, wanted);
    if (*pack >= 0)
        return ET_OK;
    et_assert(known == plan);
    const size_t wanted_packs = (size_t)plan->pack_count + 1;
    if (!ET_VECTOR_GROW(plan->packs, plan->pack_capacity, wanted_packs))
        return et_alloc_failed(error, "a plan");
    *pack = plan->pack_count++;
    plan->packs[*pack] = *wanted;
    plan->packs[*pack].call = -1; /* prepare_calls sets it */
    if (plan->pack_of_param) {
        plan->packs[*pack].next = plan->pack_of_param[wanted->param];
        plan->pack_of_param[wanted->param] = *pack;
    }
    return ET_OK;
}

/* Also makes the views of row weights, which point into their memory. Called when the address is
 * known: at once for kept ones, after placing for groups. */
static void lay_packs(et_plan *plan, int first, int count, unsigned char *at)
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
    if (ET_ALLOC(plan->pack_groups, plan->pack_count, "a plan", error))
        return ET_ENOMEM;
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
        plan->packed = et_alloc_aligned(plan->memory.packed, 64);
        if (!plan->packed)
            return et_alloc_failed(error, "packed weights");
        lay_packs(plan, 0, plan->pack_count, plan->packed);
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

/* One block of scratch is enough, as one call runs at a time. If packs are not kept, a group that
 * begins at this call is packed into memory that values may have used before. */
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

/* ---- arena layout ---- */

/* Places in an arena. A live range and a range of addresses make a rectangle: calls by offsets.
 * Rooms are rectangles that do not overlap, and the end of the highest is the size of the arena.
 * Finding the smallest end is NP-hard (dynamic storage allocation: Garey and Johnson 1979, problem
 * SR2). The greedy way, largest first, comes close in practice, because small rooms fit into the
 * gaps between large ones.
 *
 *     offset
 *     ^   [ B     ]
 *     |   [ A ] [ C ]        A is dead when C begins: C gets the place of A
 *     +------------------> call
 *
 * For a tenant the search needs the lowest gap between the rooms of any of its calls. Looking at
 * all placed rooms takes n^2 / 2 comparisons for n tenants, and in a deep model even the rooms of
 * one time are many: each layer keeps values for the backward pass. But they are adjacent, so a
 * given time has few used spans. A tree over calls keeps these (a segment tree: Bentley 1977,
 * "Solutions to Klee's rectangle problems"):
 *
 *     calls 0 to 7                              a room of calls 2 to 6 is in `whole` of 2-3, 4-5
 *     0 to 3           4 to 7                   and 6, and in `some` of what is above these:
 *     0-1     2-3      4-5     6-7              0-3, 6-7, 4-7, 0-7
 *     0   1   2   3    4   5   6   7
 *
 * A time is divided into such parts as well. A room of one of its calls is in `whole` of a part or
 * of a node above it, or in `some` of the part: about log2(calls) lists, most of them empty.
 *
 * Invariants:
 *
 *   1. A list's spans ascend and do not touch: touching spans are merged.
 *   2. Rooms of overlapping times do not share a byte; offsets are multiples of
 *      ET_ARENA_LAYOUT_ALIGN.
 *   3. The same tenants in the same order have the same places: those that a pass over all rooms
 *      would find (tests/engine/exec/test_arena_layout.c has it as the reference). */

/* In each level of the tree, a time has at most two parts inside, one at either end, and two
 * across, which contain its ends. There are at most as many levels as an int has bits. */
#define PARTS_MAX (2 * 32)

/* Index 0 is unused, so that 0 means a list without spans. */
int et_arena_layout_init(et_arena_layout *layout, int calls, et_error *error)
{
    et_assert(calls >= 0);
    *layout = (et_arena_layout){ .leaves = 1, .used = 1 };
    while (layout->leaves < calls)
        layout->leaves *= 2;
    return ET_ALLOC_ZERO(layout->tree, 2 * (size_t)layout->leaves, "a plan", error);
}

void et_arena_layout_release(et_arena_layout *layout)
{
    et_free(layout->tree);
    et_free(layout->spans);
}

/* ---- lists ---- */

static void link_span(et_arena_layout *layout, int *link, size_t begin, size_t end)
{
    int index = layout->unused ? layout->unused : layout->used++;
    if (layout->unused)
        layout->unused = layout->spans[index].next;
    et_assert(index > 0 && (size_t)index < layout->capacity);
    layout->spans[index] = (et_arena_layout_span){ begin, end, *link };
    *link = index;
}

/* Adds [begin, end) to a list: spans that touch become one. A wall next to a span disappears in the
 * span, which keeps others out as well. */
static void join(et_arena_layout *layout, int *list, size_t begin, size_t end)
{
    et_arena_layout_span *spans = layout->spans;
    int *link = list;
    for (; *link && spans[*link].end < begin; layout->looked++)
        link = &spans[*link].next;
    layout->looked++;
    if (*link && spans[*link].begin <= begin && end <= spans[*link].end)
        return;
    while (*link && spans[*link].begin <= end) {
        /* The span that *link names leaves its list. */
        const int index = *link;
        const et_arena_layout_span old = spans[index];
        *link = old.next;
        spans[index].next = layout->unused;
        layout->unused = index;
        begin = old.begin < begin ? old.begin : begin;
        end = old.end > end ? old.end : end;
    }
    link_span(layout, link, begin, end);
}

/* ---- times ---- */

/* The parts of the tree that have to do with a time. */
typedef struct parts {
    int inside[PARTS_MAX], inside_count; /* the largest that the time has whole: it is these */
    int across[PARTS_MAX], across_count; /* all that it has in part */
} parts;

/* Leaf i is part leaves + i, and the parent of part i is i / 2. The parts inside are found from the
 * leaves up: at an odd `from` or an even `to` the other half is outside, so this part is added. The
 * parts across the time's begin are the ancestors of its first leaf, those across its end the
 * ancestors of its last leaf; where the two paths meet, they continue as one. A time is clipped to
 * the existing calls. */
static void find_parts(parts *p, const et_arena_layout *layout, int first, int last)
{
    const int leaves = layout->leaves;
    et_assert(first <= last && first < leaves);
    int begin = leaves + (first < 0 ? 0 : first),
        end = leaves + (last < leaves ? last : leaves - 1);
    p->inside_count = p->across_count = 0;
    for (int from = begin, to = end; from <= to; from /= 2, to /= 2) {
        if (from % 2 == 1)
            p->inside[p->inside_count++] = from++;
        if (to % 2 == 0)
            p->inside[p->inside_count++] = to--;
    }
    int level = 1;
    for (int from = begin / 2, to = end / 2; to > 0; from /= 2, to /= 2, level++) {
        if (from << level < begin || ((from + 1) << level) - 1 > end)
            p->across[p->across_count++] = from;
        if (from != to && ((to + 1) << level) - 1 > end)
            p->across[p->across_count++] = to;
    }
    et_assert(p->inside_count <= PARTS_MAX && p->across_count <= PARTS_MAX);
}

static int add_span(et_arena_layout *layout, const parts *p, size_t begin, size_t end,
                    et_error *error)
{
    /* Room for a span in each list that it may join, so that joining cannot fail half-way. */
    const size_t wanted = (size_t)layout->used + 2 * PARTS_MAX;
    if (!ET_VECTOR_GROW(layout->spans, layout->capacity, wanted))
        return et_alloc_failed(error, "a plan");
    for (int i = 0; i < p->inside_count; i++)
        join(layout, &layout->tree[p->inside[i]].whole, begin, end);
    for (int i = 0; i < p->across_count; i++)
        join(layout, &layout->tree[p->across[i]].some, begin, end);
    if (end > layout->end)
        layout->end = end;
    return ET_OK;
}

/* ---- searching ---- */

/* The lists that contain the rooms of a time: for each list, the next span to pass. */
typedef struct search {
    int count;
    int next[3 * PARTS_MAX];
} search;

static void add_list(search *s, int list)
{
    if (list)
        s->next[s->count++] = list;
}

/* The lowest offset from `at` on that is free in one list. The passed spans end at or below the
 * answer, and offsets only rise, so they need not be checked again. */
static size_t pass(et_arena_layout *layout, int *next, size_t bytes, size_t at)
{
    et_assert(layout->spans);
    const et_arena_layout_span *span = &layout->spans[*next];
    for (layout->looked++; *next && span->begin < at + bytes; layout->looked++) {
        at = span->end > at ? span->end : at;
        *next = span->next;
        span = &layout->spans[*next];
    }
    return at;
}

/* The lowest offset for so many bytes: lists take turns until none moves it any more. */
static size_t find_offset(et_arena_layout *layout, const parts *p, size_t bytes)
{
    search s;
    /* `whole` of the parts above a part inside as well: those are all across. */
    s.count = 0;
    for (int i = 0; i < p->inside_count; i++) {
        add_list(&s, layout->tree[p->inside[i]].whole);
        add_list(&s, layout->tree[p->inside[i]].some);
    }
    for (int i = 0; i < p->across_count; i++)
        add_list(&s, layout->tree[p->across[i]].whole);
    size_t at = 0, before;
    do {
        before = at;
        for (int i = 0; i < s.count;) {
            at = pass(layout, &s.next[i], bytes, at);
            if (s.next[i])
                i++;
            else
                s.next[i] = s.next[--s.count];
        }
    } while (at != before);
    return at;
}

/* ---- tenants ---- */

int et_arena_layout_reserve(et_arena_layout *layout, size_t offset, size_t bytes, int from,
                            et_error *error)
{
    parts p;
    et_assert(offset % ET_ARENA_LAYOUT_ALIGN == 0);
    find_parts(&p, layout, from, INT_MAX);
    return add_span(layout, &p, offset, offset + bytes, error);
}

/* Equal sizes by their first call; neighbours in time then tend to be neighbours in memory. */
ET_SORT_BY(larger_first, et_tenant, ET_DOWN(bytes), ET_UP(from))

/* Without reuse all are there all the time. */
int et_arena_layout_assign(et_arena_layout *layout, et_tenant *tenants, int count, bool reuse,
                           et_error *error)
{
    int status = ET_OK;
    parts p;
    qsort(tenants, count, sizeof *tenants, larger_first);
    for (int i = 0; !status && i < count; i++) {
        const et_tenant *one = &tenants[i];
        et_assert(one->bytes > 0 && one->from >= 0);
        size_t bytes = (one->bytes + ET_ARENA_LAYOUT_ALIGN - 1) / ET_ARENA_LAYOUT_ALIGN *
                       ET_ARENA_LAYOUT_ALIGN;
        find_parts(&p, layout, reuse ? one->from : 0, reuse ? one->to : INT_MAX);
        size_t at = find_offset(layout, &p, bytes);
        status = add_span(layout, &p, at, at + bytes, error);
        *one->offset = at;
    }
    return status;
}

/* ---- lives ---- */

/* The value that owns the memory of an alias. */
static int owner(const et_plan *plan, int value)
{
    while (plan->values[value].alias >= 0)
        value = plan->values[value].alias;
    return value;
}

/* Calls are numbered in the order in which they run. A value that nobody reads is dead after the
 * call that writes it; outputs live to the end, as the caller reads them after the run. */
static void find_lives(et_plan *plan)
{
    for (int s = 0; s < plan->call_count; s++) {
        const et_plan_call *call = &plan->calls[s];
        for (int i = 0; i < call->out_count; i++) {
            et_plan_value *value = &plan->values[call->out[i]];
            value->written = s;
            value->last_read = s;
        }
        for (int i = 0; i < call->in_count; i++)
            plan->values[call->in[i]].last_read = s;
    }
    for (int i = 0; i < plan->output_count; i++)
        plan->values[plan->outputs[i]].last_read = INT_MAX;
}

/* Computes a parameter's gradient in its place in the store. If two parameters have the same node
 * as gradient, or the node is not a call's own result, it is copied after the run. A value outside
 * the arena, or that no call writes, has its place already and cannot move. */
static int lay_out_gradients(et_plan *plan, et_error *error)
{
    const et_graph *graph = plan->graph;
    size_t count = graph->gradient_count;
    if (ET_ALLOC(plan->copies, count, "a plan", error))
        return ET_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        int index = et_plan_value_of(plan, graph->gradients[i].node);
        et_plan_value *value = &plan->values[index];
        int param = graph->gradients[i].param;
        value->last_read = INT_MAX;
        if (value->storage == VALUE_IN_ARENA && value->written >= 0) {
            value->storage = VALUE_IN_GRADIENTS;
            value->tensor.data =
                et_params_gradients(graph->params) + et_params_offset(graph->params, param);
        } else {
            plan->copies[plan->copy_count].value = index;
            plan->copies[plan->copy_count++].param = param;
        }
    }
    return ET_OK;
}

/* Whether an overlap is one of a call's, which may leave outputs and inputs out at the end. */
static bool is_allowed(const et_plan_call *call, const et_overlap *o, et_overlap_mode mode)
{
    return o->op == call->node->op && o->mode == mode && o->out < call->out_count &&
           o->in < call->in_count;
}

/* The call's overlap of this kind; NULL: none. */
static const et_overlap *find_overlap(const et_plan *plan, const et_plan_call *call,
                                      et_overlap_mode mode)
{
    for (const et_overlap *o = plan->device->overlaps; o->mode; o++)
        if (is_allowed(call, o, mode))
            return o;
    return NULL;
}

/* Whether the call reads the base as another input too, which it must not have changed. */
static bool is_read_twice(const et_plan *plan, const et_plan_call *call, const et_overlap *adds)
{
    for (int i = 0; i < call->in_count; i++)
        if (i != adds->in && owner(plan, call->in[i]) == owner(plan, call->in[adds->in]))
            return true;
    return false;
}

/* An embedding's gradient is scattered into its base if the base has no other reader. The loop goes
 * backwards, so that among several added tables the last is known first: base 1 is in base 2, which
 * is in the gradient. The kernel then adds rows in place, without copying or clearing a large table
 * again. */
static void alias_bases(et_plan *plan)
{
    for (int s = plan->call_count - 1; s >= 0; s--) {
        const et_plan_call *call = &plan->calls[s];
        const et_overlap *adds = find_overlap(plan, call, ET_OVERLAP_ADDS);
        if (!adds)
            continue;
        et_plan_value *base = &plan->values[call->in[adds->in]];
        if (base->storage == VALUE_IN_ARENA && base->last_read == s &&
            !is_read_twice(plan, call, adds)) {
            base->alias = call->out[adds->out];
            base->storage = plan->values[owner(plan, base->alias)].storage;
        }
    }
}

/* A view uses its input's memory, which no call may write later. If the memory of one of the two
 * has become another value's, which is added to, the view is copied. If the view is a gradient,
 * which has a fixed place, the input moves there if the view is its last reader. */
static void alias_views(et_plan *plan)
{
    for (int s = 0; s < plan->call_count; s++) {
        const et_plan_call *call = &plan->calls[s];
        const et_overlap *views = find_overlap(plan, call, ET_OVERLAP_VIEWS);
        if (!views)
            continue;
        const int in = call->in[views->in], out = call->out[views->out];
        et_plan_value *from = &plan->values[in], *view = &plan->values[out];
        /* A value with its own memory, or a view of such a value. */
        if (from->storage != VALUE_IN_ARENA || !(from->alias < 0 || from->views) ||
            view->alias >= 0)
            continue;
        if (view->storage == VALUE_IN_ARENA) {
            view->alias = in;
            view->views = true;
        } else if (view->storage == VALUE_IN_GRADIENTS && from->alias < 0 && from->last_read == s) {
            from->alias = out;
            from->storage = VALUE_IN_GRADIENTS;
        }
    }
}

/* An owner lives from the first write to the last read of all values that share its memory. Only
 * the owner is a tenant, so its life must cover all of them: otherwise another value would get the
 * place while an alias is still read. */
static void join_lives(et_plan *plan)
{
    for (int i = 0; i < plan->value_count; i++) {
        const et_plan_value *value = &plan->values[i];
        if (value->alias < 0)
            continue;
        et_plan_value *root = &plan->values[owner(plan, i)];
        if (value->written < root->written)
            root->written = value->written;
        if (value->last_read > root->last_read)
            root->last_read = value->last_read;
    }
}

/* ---- in place ---- */

/* Whether call s, which writes out, may overwrite its input in: both have the same size, and no
 * later call needs this memory. The output must have a reader (a dropped result has no memory) and
 * no alias yet: the first input that allows it wins. The input's owner must end at this call, so
 * nobody else needs the lost value. */
static bool can_overwrite(const et_plan *plan, int s, int out, int in)
{
    const et_plan_value *to = &plan->values[out], *from = &plan->values[in];
    const et_plan_value *root = &plan->values[owner(plan, in)];
    return to->storage == VALUE_IN_ARENA && to->alias < 0 && to->written == s &&
           to->last_read > s && root->storage == VALUE_IN_ARENA && root->written < s &&
           root->last_read == s && from->tensor.dtype == to->tensor.dtype &&
           et_shape_equal(from->tensor.shape, to->tensor.shape);
}

/* The root lives on as long as the output does. The output hangs on the root, not on the input: a
 * residual stream is overwritten in each layer, and a chain of owners would grow with the depth. */
static void overwrite(et_plan *plan, int s, int out, int in)
{
    if (!can_overwrite(plan, s, out, in))
        return;
    int root = owner(plan, in);
    plan->values[out].alias = root;
    plan->values[root].last_read = plan->values[out].last_read;
}

/* Element-wise programs, each output in any input's place, and what else the device allows. In
 * order of calls: lives that have been joined are seen by later calls. */
static void work_in_place(et_plan *plan)
{
    for (int s = 0; s < plan->call_count; s++) {
        const et_plan_call *call = &plan->calls[s];
        for (int k = 0; k < call->out_count && et_op_is_elementwise(call->node->op); k++)
            for (int i = 0; i < call->in_count; i++)
                overwrite(plan, s, call->out[k], call->in[i]);
        for (const et_overlap *o = plan->device->overlaps; o->mode; o++)
            if (is_allowed(call, o, ET_OVERLAP_OVERWRITES))
                overwrite(plan, s, call->out[o->out], call->in[o->in]);
    }
}

/* ---- tenants ---- */

/* A value of no bytes gets no tenant; its offset stays 0, and nobody reads through it. */
static void add_tenant(et_tenant *tenants, int *count, size_t bytes, int from, int to,
                       size_t *offset)
{
    et_assert(from <= to);
    if (bytes > 0)
        tenants[(*count)++] = (et_tenant){ bytes, from, to, offset };
}

/* Finds all tenants; the array has room for each value, call and group. Scratch only lives in its
 * own call, so it may share memory with values of other times. */
static int find_tenants(et_plan *plan, et_tenant *tenants)
{
    int count = 0;
    for (int i = 0; i < plan->value_count; i++) {
        et_plan_value *value = &plan->values[i];
        if (value->storage == VALUE_IN_ARENA && value->alias < 0)
            add_tenant(tenants, &count, et_tensor_bytes(value->tensor), value->written,
                       value->last_read, &value->offset);
    }
    for (int i = 0; i < plan->call_count; i++) {
        et_plan_call *call = &plan->calls[i];
        add_tenant(tenants, &count, call->scratch, i, i, &call->scratch_offset);
    }
    for (int i = 0; i < plan->pack_group_count; i++) {
        et_plan_pack_group *group = &plan->pack_groups[i];
        add_tenant(tenants, &count, group->bytes, group->from, group->to, &group->offset);
    }
    return count;
}

/* ---- the gradient array as room ---- */

/* Neighbours in the array are written at about the same time. They form one room, up to this share
 * of the array, so that rooms are not too small for values. */
#define GRADIENT_SPANS 256

/* Reserves the gradients and the wall, in the order of the array; variables have no gradients. A
 * room is taken from the first call that writes a part of it (ET_ARENA_LAYOUT_ALWAYS: from before
 * all calls), because that part must not be overwritten. Before that call it is free for values
 * that are dead by then. Example: rooms of at least 4 KiB if the array has 1 MiB. */
static int take_gradients(const et_plan *plan, et_arena_layout *layout, const int *written,
                          et_error *error)
{
    const et_params *params = plan->graph->params;
    size_t whole = plan->gradient_bytes, begin = 0;
    int from = INT_MAX, status = ET_OK;
    for (int nth = 0; !status && begin < whole; nth++) {
        const int p = et_params_in_order(params, nth), next = et_params_in_order(params, nth + 1);
        const bool last = next < 0 || !et_params_is_trained(params, next);
        size_t end = last ? whole : et_params_offset(params, next) * sizeof(float);
        from = written[p] < from ? written[p] : from;
        if (end < whole && end - begin < whole / GRADIENT_SPANS)
            continue;
        status = et_arena_layout_reserve(layout, begin, end - begin, from, error);
        begin = end;
        from = INT_MAX;
    }
    return status ? status
                  : et_arena_layout_reserve(layout, whole, 0, ET_ARENA_LAYOUT_ALWAYS, error);
}

/* Values may only be in the array where the plan writes it: other gradients stay. Without reuse
 * each value has its own memory, which helps to find a value that is used after its death. */
static int open_layout(et_plan *plan, et_arena_layout *layout, et_error *error)
{
    const et_params *params = plan->graph->params;
    int count = et_params_count(params);
    int status = et_arena_layout_init(layout, plan->call_count, error);
    if (status || plan->graph->gradient_count == 0 || !plan->options.reuse)
        return status;
    int *written;
    if (ET_ALLOC(written, count, "a plan", error))
        return ET_ENOMEM;
    plan->gradient_bytes = et_params_trained_size(params) * sizeof(float);
    /* written[parameter]: the call that writes all bytes of the parameter's gradient;
     * ET_ARENA_LAYOUT_ALWAYS if none does. If the bytes are no multiple of ET_ARENA_LAYOUT_ALIGN,
     * padding follows. It belongs to the same room and must stay zero: such a room is not lent. */
    const et_graph *graph = plan->graph;
    for (int p = 0; p < count; p++)
        written[p] = ET_ARENA_LAYOUT_ALWAYS;
    for (int i = 0; i < graph->gradient_count; i++) {
        const et_plan_value *value =
            &plan->values[et_plan_value_of(plan, graph->gradients[i].node)];
        if (value->storage == VALUE_IN_GRADIENTS &&
            et_tensor_bytes(value->tensor) % ET_ARENA_LAYOUT_ALIGN == 0)
            written[graph->gradients[i].param] = value->written;
    }
    status = take_gradients(plan, layout, written, error);
    et_free(written);
    return status;
}

/* activations are the bytes after the wall. */
static int assign_offsets(et_plan *plan, et_error *error)
{
    et_arena_layout layout;
    int status = open_layout(plan, &layout, error);
    size_t most =
        (size_t)plan->value_count + (size_t)plan->call_count + (size_t)plan->pack_group_count;
    et_tenant *tenants = NULL;
    if (!status)
        status = ET_ALLOC(tenants, most, "a plan", error);
    if (!status) {
        int count = find_tenants(plan, tenants);
        status = et_arena_layout_assign(&layout, tenants, count, plan->options.reuse, error);
    }
    if (!status && layout.end > plan->gradient_bytes)
        plan->memory.activations = layout.end - plan->gradient_bytes;
    et_free(tenants);
    et_arena_layout_release(&layout);
    return status;
}

/* The order matters: gradients leave the arena before unread values are dropped; aliases of bases,
 * then views, come before lives are joined; work in place comes last, because it needs the lives of
 * all values that share memory. */
int et_plan_lay_out(et_plan *plan, et_error *error)
{
    find_lives(plan);
    int status = lay_out_gradients(plan, error);
    if (status)
        return status;
    /* Unread results get no memory, except a call's first one. Values inside a chain are never
     * written and need none. A kernel gets NULL for a further result that is not needed; it always
     * writes its first one. */
    for (int i = 0; i < plan->value_count; i++) {
        et_plan_value *value = &plan->values[i];
        bool first = i == plan->first_value[value->node->id];
        bool unread = !first && value->last_read == value->written;
        if (value->storage == VALUE_IN_ARENA && (value->written < 0 || unread))
            value->storage = VALUE_UNUSED;
    }
    alias_bases(plan);
    alias_views(plan);
    join_lives(plan);
    if (plan->options.reuse)
        work_in_place(plan);
    status = assign_offsets(plan, error);
    if (!status) {
        plan->arena = et_alloc_array(plan->memory.activations);
        if (!plan->arena)
            status = et_alloc_failed(error, "a plan's arena");
    }
    if (!status) {
        /* Owners first: what hangs on them takes their address. */
        for (int i = 0; i < plan->value_count; i++) {
            et_plan_value *value = &plan->values[i];
            if (value->storage == VALUE_IN_ARENA && value->alias < 0)
                value->tensor.data = et_plan_at(plan, value->offset);
        }
        for (int i = 0; i < plan->value_count; i++)
            if (plan->values[i].alias >= 0)
                plan->values[i].tensor.data = plan->values[owner(plan, i)].tensor.data;
        for (int i = 0; i < plan->pack_group_count; i++) {
            const et_plan_pack_group *group = &plan->pack_groups[i];
            lay_packs(plan, group->first, group->count, et_plan_at(plan, group->offset));
        }
    }
    return status;
}
