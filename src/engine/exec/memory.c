/* Memory of values. The live range of a value is from the call that writes it to the last that
 * reads it; of a call's scratch that call; of a group of packed weights its first call to its last.
 * All of these are tenants of one arena; arena_layout.c finds their offsets.
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

#include "base/alloc.h"
#include "base/assert.h"
#include "engine/exec/arena_layout.h"
#include "engine/exec/plan_private.h"
#include "engine/tensor/params.h"

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

/* Unread results get no memory, except a call's first one. Values inside a chain are never written
 * and need none. A kernel gets NULL for a further result that is not needed; it always writes its
 * first one. */
static void drop_unread(et_plan *plan)
{
    for (int i = 0; i < plan->value_count; i++) {
        et_plan_value *value = &plan->values[i];
        bool first = i == plan->first_value[value->node->id];
        bool unread = !first && value->last_read == value->written;
        if (value->storage == VALUE_IN_ARENA && (value->written < 0 || unread))
            value->storage = VALUE_UNUSED;
    }
}

/* Computes a parameter's gradient in its place in the store. If two parameters have the same node
 * as gradient, or the node is not a call's own result, it is copied after the run. A value outside
 * the arena, or that no call writes, has its place already and cannot move. */
static int lay_out_gradients(et_plan *plan, et_error *error)
{
    const et_graph *graph = plan->graph;
    size_t count = (size_t)graph->gradient_count;
    plan->copies = et_alloc(count, sizeof *plan->copies);
    if (!plan->copies)
        return et_alloc_failed(error, count * sizeof *plan->copies, "a plan");
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

/* The call's overlap of that kind; NULL: none. */
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

/* An embedding's gradient is scattered into its base if the base has no other reader. This goes
 * backwards, so that if several tables are added one after another, the last is known first: base 1
 * is in base 2, which is in the gradient. The kernel then adds rows in place, and a table of many
 * rows is neither copied nor cleared again. */
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

/* A value with its own memory, or a view of such a value. */
static bool is_own(const et_plan_value *value)
{
    return value->alias < 0 || value->views;
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
        if (from->storage != VALUE_IN_ARENA || !is_own(from) || view->alias >= 0)
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

/* Whether call s, which writes out, may overwrite its input in, which nobody reads later: both have
 * the same size, and nothing else in that memory is needed later. The output must have a reader (a
 * dropped result has no memory) and no alias yet: the first input that allows it wins. The input's
 * owner must end at this call, so nobody else needs the lost value. */
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

/* Neighbours in the array are written at about the same time: they are one room until it has
 * this share of the array, so that no room is lent that only splinters would fit in. */
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
        size_t end = last ? whole : (size_t)et_params_offset(params, next) * sizeof(float);
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
    int *written = et_alloc((size_t)count, sizeof *written);
    if (!written)
        return et_alloc_failed(error, (size_t)count * sizeof *written, "a plan");
    plan->gradient_bytes = (size_t)et_params_trained_size(params) * sizeof(float);
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
    et_tenant *tenants = status ? NULL : et_alloc(most, sizeof *tenants);
    if (!status && !tenants)
        status = et_alloc_failed(error, most * sizeof *tenants, "a plan");
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

/* The order matters: gradients leave the arena before the unread ones are dropped; aliases of
 * bases, then views, before lives are joined; work in place last, as it asks for the lives of all
 * that share memory. */
int et_plan_lay_out(et_plan *plan, et_error *error)
{
    find_lives(plan);
    int status = lay_out_gradients(plan, error);
    if (status)
        return status;
    drop_unread(plan);
    alias_bases(plan);
    alias_views(plan);
    join_lives(plan);
    if (plan->options.reuse)
        work_in_place(plan);
    status = assign_offsets(plan, error);
    if (!status) {
        plan->arena = et_alloc_array(plan->memory.activations);
        if (!plan->arena)
            status = et_alloc_failed(error, plan->memory.activations, "a plan's arena");
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
            et_plan_lay_packs(plan, group->first, group->count, et_plan_at(plan, group->offset));
        }
    }
    return status;
}
