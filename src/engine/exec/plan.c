/* A plan is made at once and then only run:
 *
 *     graph -> reached nodes -> values -> calls (fuse.c) -> needs (cpu/), packs
 *     and places in memory (memory.c) -> the function that runs a call
 *
 * The order matters: calls consist of values; packs are known when all calls have been prepared;
 * places need the sizes of scratch and packs.
 *
 * Invariants:
 *
 *   1. Nodes are in topological order in the graph, so reaching goes backwards in one pass and
 *      calls run forwards in one.
 *   2. Each result of each node has a value, reached or not, so a node's first value follows
 *      from the node alone; an unreached value has no place and no memory.
 *   3. Running allocates nothing, and runs of one plan with the same inputs, parameters and
 *      random numbers have the same bits.
 *   4. If making a plan fails, there is no plan: et_plan_free accepts any state. */
#include "engine/exec/plan.h"

#include <limits.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/dtype.h"
#include "base/inline.h"
#include "base/sort.h"
#include "base/stages.h"
#include "base/threads/team.h"
#include "engine/exec/plan_private.h"
#include "engine/kernel/conv.h"
#include "engine/kernel/positions.h"
#include "engine/tensor/params.h"

/* ---- spans ---- */

/* Plans on a device with a trace: each call runs as a span, with an activity that describes it.
 * Labels are made with the plan and belong to the trace, which outlives the plan.
 *
 * All text is made with the plan: a run writes only times and costs, so tracing changes little. A
 * plan on a device without a trace uses a run function that does not check.
 *
 * An activity has name (of the node), kernel, shapes as "in in -> out", kind (the row of a profile)
 * and type. The trace has copies of texts that are made here, because the graph may be gone when
 * the trace is written.
 *
 * The span of a run contains those of its calls; the rest, except packing, is time between ops. */

static const char *const ew_names[ET_EW_OP_COUNT] = {
#define ELEMENTWISE(id, name, inputs, reads, formula, da, db) [ET_EW_##id] = (name),
#include "engine/kernel/elementwise.def"
#undef ELEMENTWISE
};

/* Prints what runs: the product's name, else the instruction set and the op. Examples:
 * "onednn:brg:avx512_core", "avx512 float_product", "avx512 layer_norm", "avx512 add+gelu+dropout".
 * An op that runs products among other things has both. */
static void print_kernel(const et_plan *plan, const et_plan_call *call, et_strbuf *out)
{
    const char *set = plan->device->kernels->name;
    if (call->gemm[0] || call->node->op == ET_OP_MATMUL) {
        const et_gemm *gemm = call->gemm[0]; /* NULL: a product by rows */
        const char *word = gemm ? et_gemm_implementation(gemm) : NULL;
        if (word && strcmp(word, "own") != 0)
            et_strbuf_printf(out, "onednn:%s", word);
        else
            et_strbuf_printf(out, "%s %s", set, gemm ? "float_product" : "row_product");
    } else {
        et_strbuf_append(out, set);
    }
    if (call->node->op == ET_OP_MATMUL)
        return;
    if (!et_op_is_elementwise(call->node->op))
        et_strbuf_printf(out, " %s", et_op_name(call->node->op));
    for (int i = 0; i < call->program.steps; i++)
        et_strbuf_printf(out, "%c%s", i ? '+' : ' ', ew_names[call->program.step[i].op]);
}

/* Shapes as planned, with one blank between them. */
static void print_shapes(const et_plan *plan, const int *values, int count, et_strbuf *out)
{
    char shape[ET_SHAPE_TEXT_MAX];
    for (int i = 0; i < count; i++)
        et_strbuf_printf(out, "%s%s", i ? " " : "",
                         et_shape_print(plan->values[values[i]].tensor.shape, shape));
}

/* A copy of the buffer's text in the trace; the buffer is empty then. NULL: no memory. */
static char *keep(et_trace *trace, et_strbuf *text)
{
    char *copy = text->failed ? NULL : et_trace_alloc(trace, text->length + 1);
    if (copy)
        memcpy(copy, et_strbuf_text(text), text->length);
    et_strbuf_reset(text);
    return copy;
}

/* The cost is found before the span begins, so it takes none of the call's time; it depends on
 * lengths that are bound for this run. */
static void run_traced(const et_plan *plan, int i)
{
    const et_plan_call *call = &plan->calls[i];
    et_track *track = et_device_track(plan->device);
    et_cost cost = et_plan_call_cost(plan, call);
    et_track_begin(track, &plan->activities[i], -1);
    call->run(plan, call);
    et_track_end_with(track, cost);
}

static void run_alone(const et_plan *plan, int i)
{
    plan->calls[i].run(plan, &plan->calls[i]);
}

#define RUN_KIND "between ops"

/* The activities of the calls, then that of the run. NULL: no memory. */
static const et_activity *describe_all(const et_plan *plan, size_t size)
{
    et_strbuf text = ET_STRBUF_INIT;
    et_trace *trace = plan->device->tracing->trace;
    et_activity *activities = et_trace_alloc(trace, size);
    bool made = activities != NULL;
    for (int i = 0; i < plan->call_count && made; i++) {
        const et_plan_call *call = &plan->calls[i];
        et_activity *activity = &activities[i];
        et_strbuf_append(&text, call->node->name);
        activity->name = keep(trace, &text);
        print_kernel(plan, call, &text);
        activity->kernel = keep(trace, &text);
        print_shapes(plan, call->in, call->in_count, &text);
        et_strbuf_append(&text, " -> ");
        print_shapes(plan, call->out, call->out_count, &text);
        activity->shape = keep(trace, &text);
        activity->kind = et_plan_call_kind(call);
        activity->product =
            call->node->op == ET_OP_MATMUL || call->node->op == ET_OP_VOCABULARY_LOSS;
        /* The type of a product is the type of its operands, of other ops the type of the first
         * result. */
        activity->dtype =
            et_dtype_name(activity->product ? plan->graph->options.act : TENSOR_OUT(0)->dtype);
        made = activity->name && activity->kernel && activity->shape;
    }
    et_strbuf_release(&text);
    if (!made)
        return NULL;
    activities[plan->call_count] = (et_activity){ .kind = RUN_KIND };
    activities[plan->call_count].name = plan->options.name ? plan->options.name : "run";
    return activities;
}

/* Sets plan->run_call and activities, depending on whether the device has a trace. The run's span
 * is begun in any case: on a device without a trace its track records nothing, and needs an
 * activity all the same. */
static int choose_run(et_plan *plan, et_error *error)
{
    static const et_activity unheard = { .name = "run", .kind = RUN_KIND };
    plan->run_call = run_alone;
    plan->activity = &unheard;
    if (!plan->device->tracing->trace)
        return ET_OK;
    size_t size = ((size_t)plan->call_count + 1) * sizeof *plan->activities;
    plan->run_call = run_traced;
    plan->activities = describe_all(plan, size);
    if (!plan->activities)
        return et_alloc_failed(error, "the activities of a plan");
    plan->activity = &plan->activities[plan->call_count];
    return ET_OK;
}

/* ---- gradients that are final ---- */

/* Readiness of gradients: the call after which each range of the store's gradient array is final. A
 * gradient is final when the call that writes it has run. Earlier writes to the same memory (a base
 * that rows are added to) come before it, and no other value that only used this memory is still
 * live. Gradients that are copied are final after the last call; those that no call writes are
 * final from the beginning. */

#define NEVER_WRITTEN (-1)

/* A parameter's gradient is written in that call, into one range or several. */
static void note(const et_plan *plan, const et_plan_listener *listener, int param, int call)
{
    const et_params *params = plan->graph->params;
    int64_t begin = et_params_offset(params, param), from = 0;
    int64_t end = begin + et_shape_count(et_params_shape(params, param));
    for (int i = 0; i < listener->ranges; from = listener->end[i++])
        if (from < end && listener->end[i] > begin && plan->news[i].call < call)
            plan->news[i].call = call;
}

ET_SORT_BY(compare, struct et_plan_news, ET_UP(call), ET_UP(range))

int et_plan_listen(et_plan *plan, const et_plan_listener *listener, et_error *error)
{
    et_free(plan->news);
    plan->news = NULL;
    plan->news_count = 0;
    plan->listener = listener;
    if (!listener)
        return ET_OK;
    int *writer; /* [value]: the call whose result it is */
    if (ET_ALLOC(plan->news, listener->ranges, "a plan", error) ||
        ET_ALLOC_ZERO(writer, plan->value_count, "a plan", error))
        return ET_ENOMEM;
    for (int s = 0; s < plan->call_count; s++)
        for (int k = 0; k < plan->calls[s].out_count; k++)
            writer[plan->calls[s].out[k]] = s;
    for (int i = 0; i < listener->ranges; i++)
        plan->news[i] = (struct et_plan_news){ NEVER_WRITTEN, i };
    for (int i = 0; i < plan->graph->gradient_count; i++) {
        const et_param_gradient *gradient = &plan->graph->gradients[i];
        int value = et_plan_value_of(plan, gradient->node);
        bool copied = plan->values[value].storage != VALUE_IN_GRADIENTS;
        note(plan, listener, gradient->param, copied ? plan->call_count : writer[value]);
    }
    for (int i = 0; i < plan->copy_count; i++)
        note(plan, listener, plan->copies[i].param, plan->call_count);
    qsort(plan->news, listener->ranges, sizeof *plan->news, compare);
    plan->news_count = listener->ranges;
    et_free(writer);
    return ET_OK;
}

int et_plan_heard(const et_plan *plan, int i)
{
    et_assert(i >= 0 && i < plan->news_count);
    return plan->news[i].range;
}

/* Reports the gradients that are final after call i, from range number `reported` on;
 * returns the new number. */
static int tell(const et_plan *plan, int call, int reported)
{
    for (; reported < plan->news_count && plan->news[reported].call <= call; reported++)
        plan->listener->final(plan->listener->self, plan->news[reported].range);
    return reported;
}

/* ---- making ---- */

/* Before lives are known, all computed values go into the arena; gradients and unread values leave
 * it later (memory.c). */
static value_storage storage_of(const et_node *node)
{
    switch (node->op) {
    case ET_OP_INPUT:
        return VALUE_IS_INPUT;
    case ET_OP_PARAM:
        return VALUE_IN_PARAMS;
    case ET_OP_POSITIONS:
    case ET_OP_INTEGERS:
        return VALUE_IS_CONSTANT;
    case ET_OP_RESULT:
        return VALUE_UNUSED;
    default:
        return VALUE_IN_ARENA;
    }
}

/* first_value of node i is the number of results of all nodes before it. Until calls are known
 * no value is written, read or shared: all three are -1. Example, norm having two results:
 *
 *     node           x    norm    result 1 of norm    relu
 *     first value    0    1       3                   4
 *
 * The value of "result 1" is 1 + 1 = 2, the norm's second; value 3 has no place. */
static int make_values(et_plan *plan, const bool *reached, et_error *error)
{
    const et_graph *graph = plan->graph;
    int count = 0;
    for (int i = 0; i < graph->count; i++) {
        plan->first_value[i] = count;
        count += graph->nodes[i]->results;
    }
    if (ET_ALLOC_ZERO(plan->values, count, "a plan", error))
        return ET_ENOMEM;
    plan->value_count = count;
    for (int i = 0; i < graph->count; i++) {
        const et_node *node = graph->nodes[i];
        for (int k = 0; k < node->results; k++) {
            et_plan_value *value = &plan->values[plan->first_value[i] + k];
            value->node = node;
            value->storage = reached[i] ? storage_of(node) : VALUE_UNUSED;
            value->written = value->last_read = value->alias = -1;
            value->tensor.dtype = node->type[k].dtype;
            value->tensor.shape = node->type[k].shape;
        }
    }
    return ET_OK;
}

/* Constants depend only on their nodes, so they are filled once for the whole plan. */
static int make_constants(et_plan *plan, et_error *error)
{
    for (int i = 0; i < plan->value_count; i++) {
        et_plan_value *value = &plan->values[i];
        if (value->storage != VALUE_IS_CONSTANT)
            continue;
        size_t bytes = et_tensor_bytes(value->tensor);
        value->tensor.data = et_alloc_aligned(bytes, 64);
        if (!value->tensor.data)
            return et_alloc_failed(error, "constants");
        plan->memory.constants += bytes;
        const et_progression *progression = &value->node->attributes.progression;
        const int64_t *size = value->tensor.shape.size;
        if (value->node->op == ET_OP_POSITIONS)
            et_positions_fill(value->tensor.data, size[0], size[1], value->node->attributes.open);
        else
            for (int64_t k = 0; k < size[0]; k++)
                ((int32_t *)value->tensor.data)[k] =
                    (int32_t)(progression->first + k * progression->step);
    }
    return ET_OK;
}

/* A pack that appears while a call is prepared belongs to this call; a known pack keeps the first
 * call that reads it. Calls are prepared in order, because adjacent packs make groups. */
static int prepare_calls(et_plan *plan, et_error *error)
{
    for (int i = 0; i < plan->call_count; i++) {
        int known = plan->pack_count;
        et_plan_call *call = &plan->calls[i];
        const et_op_functions *op = plan->device->ops[call->node->op];
        et_assert(op->run);
        call->run = op->run;
        if (op->scratch)
            call->scratch = op->scratch(plan, call);
        int status = op->prepare ? op->prepare(plan, call, error) : ET_OK;
        if (status)
            return status;
        while (known < plan->pack_count)
            plan->packs[known++].call = i;
    }
    return et_plan_make_packs(plan, error);
}

/* Gradients are wanted as outputs are, but have no index: they are found in the store. */
static int make(et_plan *plan, bool *reached, et_node *const *outputs, int count, et_error *error)
{
    static int (*const stages[])(et_plan *, et_error *) = { make_constants, prepare_calls,
                                                            et_plan_lay_out, choose_run };
    const et_graph *graph = plan->graph;
    for (int i = 0; i < count; i++)
        reached[outputs[i]->id] = true;
    for (int i = 0; i < graph->gradient_count; i++)
        reached[graph->gradients[i].node->id] = true;
    /* Inputs have smaller ids than their readers, so a node is final when this pass comes to it. */
    for (int i = graph->count - 1; i >= 0; i--)
        for (int k = 0; reached[i] && k < graph->nodes[i]->inputs; k++)
            reached[graph->nodes[i]->input[k]->id] = true;
    int status = make_values(plan, reached, error);
    if (status)
        return status;
    for (int i = 0; i < count; i++)
        plan->outputs[i] = et_plan_value_of(plan, outputs[i]);
    plan->output_count = count;
    status = et_plan_make_calls(plan, reached, error);
    ET_STAGES_RUN(status, stages, plan, error);
    return status;
}

/* Reports an error of the graph, which has been kept since it was built. reached is only needed
 * while the plan is made. Without options, ET_PLAN_OPTIONS_INIT applies. */
int et_plan_new(et_plan **out, et_graph *graph, et_device *device, et_node *const *outputs,
                int count, const et_plan_options *options, et_error *error)
{
    static const et_plan_options defaults = ET_PLAN_OPTIONS_INIT;
    *out = NULL;
    if (et_graph_finish(graph, error))
        return graph->error.status;
    et_assert(et_params_ready(graph->params));
    et_plan *plan;
    if (ET_ALLOC_ZERO(plan, 1, "a plan", error))
        return ET_ENOMEM;
    plan->graph = graph;
    plan->device = device;
    plan->dropout = 1;
    plan->options = options ? *options : defaults;
    bool *reached;
    int status = ET_ALLOC_ZERO(reached, graph->count, "a plan", error) ||
                         ET_ALLOC(plan->first_value, graph->count, "a plan", error) ||
                         ET_ALLOC(plan->outputs, count, "a plan", error)
                     ? ET_ENOMEM
                     : make(plan, reached, outputs, count, error);
    et_free(reached);
    if (status)
        et_plan_free(plan);
    else
        *out = plan;
    return status;
}

/* Only constants own their data; other data belong to the arena, the store or the caller. */
void et_plan_free(et_plan *plan)
{
    if (!plan)
        return;
    for (int i = 0; i < plan->value_count; i++)
        if (plan->values[i].storage == VALUE_IS_CONSTANT)
            et_free(plan->values[i].tensor.data);
    for (int i = 0; i < plan->call_count; i++)
        et_conv_free(plan->calls[i].conv);
    et_free(plan->packs);
    et_free(plan->pack_of_param);
    et_free(plan->pack_groups);
    et_free(plan->packed);
    et_free(plan->first_value);
    et_free(plan->values);
    et_free(plan->calls);
    et_free(plan->outputs);
    et_free(plan->copies);
    et_free(plan->news);
    et_free_array(plan->arena);
    et_free(plan);
}

/* ---- running ---- */

int et_plan_input(const et_plan *plan, const char *input)
{
    for (int i = 0; i < plan->value_count; i++)
        if (plan->values[i].storage == VALUE_IS_INPUT && !strcmp(plan->values[i].node->name, input))
            return i;
    return -1;
}

/* Calls read the value's pointer when they run, so binding costs no planning. */
void et_plan_bind_at(et_plan *plan, int index, const void *data)
{
    if (index >= 0)
        plan->values[index].tensor.data = (void *)(uintptr_t)data;
}

bool et_plan_bind(et_plan *plan, const char *input, const void *data)
{
    int index = et_plan_input(plan, input);
    et_plan_bind_at(plan, index, data);
    return index >= 0;
}

/* Offsets stay those of the full batch, so any smaller number of rows fits. The node's type still
 * has the planned shape, by which a later call finds the same values. */
void et_plan_set_rows(et_plan *plan, int64_t planned, int64_t rows)
{
    et_assert(rows >= 0 && rows <= planned);
    for (int i = 0; i < plan->value_count; i++) {
        et_plan_value *value = &plan->values[i];
        et_shape shape = value->node->type[i - plan->first_value[value->node->id]].shape;
        if (value->storage == VALUE_IN_ARENA && shape.rank == 2 && shape.size[0] == planned)
            value->tensor.shape.size[0] = rows;
    }
}

ET_NOINLINE static void point_at_params(et_plan *plan, float *weights)
{
    for (int i = 0; i < plan->value_count; i++) {
        et_plan_value *value = &plan->values[i];
        if (value->storage == VALUE_IN_PARAMS)
            value->tensor.data =
                weights + et_params_offset(plan->graph->params, value->node->attributes.param);
    }
    plan->weights = weights;
}

/* Parameters may have moved (et_params_use) and changed: updates pointers and packs kept copies
 * again. A plan that reads another plan's packs leaves packing to that plan. */
void et_plan_refresh(et_plan *plan)
{
    float *weights = et_params_values(plan->graph->params);
    if (weights != plan->weights)
        point_at_params(plan, weights);
    if (plan->options.keep_packed && !plan->options.packed_by) {
        /* A store's version grows with each change; if it is the version seen last, nothing needs
         * to be packed. */
        uint64_t version = et_params_version(plan->graph->params);
        if (plan->version != version)
            et_plan_run_packs(plan, 0, plan->pack_count);
        plan->version = version;
    }
}

void et_plan_set_dropout(et_plan *plan, float factor)
{
    et_assert(factor >= 0 && factor <= 1);
    plan->dropout = factor;
}

/* Refreshing is inside the span, so that the time of packing is visible. A run is a loop over
 * calls: et_plan_begin_call packs the call's weights and sets its scratch, run_call calls the
 * kernel, alone or inside a span. Gradients that have no place of their own come last, when all
 * values are there. */
void et_plan_run(et_plan *plan, et_random random)
{
    et_track *track = et_device_track(plan->device);
    /* Scratch is for the device's threads; OpenMP may have been set to more since. */
    const int threads = omp_get_max_threads(), most = et_team_most(plan->device->threads);
    if (threads > most)
        omp_set_num_threads(most);
    et_track_begin(track, plan->activity, ++plan->runs);
    et_plan_refresh(plan);
    plan->random = random;
    int reported = 0;
    for (int i = 0; i < plan->call_count; i++) {
        et_plan_begin_call(plan, i);
        plan->run_call(plan, i);
        if (reported < plan->news_count)
            reported = tell(plan, i, reported);
    }
    /* Few or none: most gradients are computed in their place. */
    et_params *params = plan->graph->params;
    for (int i = 0; i < plan->copy_count; i++) {
        const et_tensor *tensor = &plan->values[plan->copies[i].value].tensor;
        float *to = et_params_gradients(params) + et_params_offset(params, plan->copies[i].param);
        memcpy(to, tensor->data, et_tensor_bytes(*tensor));
    }
    if (reported < plan->news_count)
        tell(plan, plan->call_count, reported);
    et_track_end(track);
    if (threads > most)
        omp_set_num_threads(threads);
}

/* With as many rows as were set last. */
const et_tensor *et_plan_output_at(const et_plan *plan, int i)
{
    et_assert(i >= 0 && i < plan->output_count);
    return &plan->values[plan->outputs[i]].tensor;
}

et_tensor et_plan_output(const et_plan *plan, int i)
{
    return *et_plan_output_at(plan, i);
}

/* Integers always are; a value without memory was not computed. */
static bool is_finite(const et_tensor *tensor)
{
    if (!tensor->data || tensor->dtype == ET_I32)
        return true;
    int64_t count = et_shape_count(tensor->shape);
    for (int64_t i = 0; i < count; i++) {
        float x = tensor->dtype == ET_BF16 ? et_bf16_to_float(((et_bf16 *)tensor->data)[i])
                                           : ((float *)tensor->data)[i];
        if (!isfinite(x))
            return false;
    }
    return true;
}

/* The same random numbers give the same values as in the failed run, so this finds the first call
 * with a value that is not finite. Values are checked right after their call, because later ones
 * may use the same memory. */
const char *et_plan_find_not_finite(et_plan *plan, et_random random)
{
    et_plan_refresh(plan);
    plan->random = random;
    /* A parameter is used before every call: those that the plan reads, in the order of the graph.
     */
    for (int i = 0; i < plan->value_count; i++)
        if (plan->values[i].storage == VALUE_IN_PARAMS && !is_finite(&plan->values[i].tensor))
            return plan->values[i].node->name;
    for (int i = 0; i < plan->call_count; i++) {
        const et_plan_call *call = &plan->calls[i];
        et_plan_begin_call(plan, i);
        call->run(plan, call);
        bool finite = true;
        for (int k = 0; k < call->out_count; k++)
            finite &= is_finite(TENSOR_OUT(k));
        for (int k = 0; k < call->in_count && !finite; k++) {
            const et_plan_value *in = &plan->values[call->in[k]];
            if (in->storage == VALUE_IS_INPUT && !is_finite(&in->tensor))
                return in->node->name;
        }
        if (!finite)
            return call->node->name;
    }
    return NULL;
}

et_plan_memory et_plan_memory_needed(const et_plan *plan)
{
    return plan->memory;
}

int et_plan_calls(const et_plan *plan)
{
    return plan->call_count;
}

/* Bytes of the arena in use while call i runs. Values in another's memory count with their owner;
 * gradients belong to the store. */
static size_t live_at(const et_plan *plan, int i)
{
    size_t live = plan->calls[i].scratch;
    for (int k = 0; k < plan->value_count; k++) {
        const et_plan_value *value = &plan->values[k];
        if (value->storage == VALUE_IN_ARENA && value->alias < 0 && value->written <= i &&
            value->last_read >= i)
            live += et_tensor_bytes(value->tensor);
    }
    for (int k = 0; k < plan->pack_group_count; k++) {
        const et_plan_pack_group *group = &plan->pack_groups[k];
        if (group->from <= i && group->to >= i)
            live += group->bytes;
    }
    return live;
}

/* A chain has the name of its last member, and the type and shape of its first output. The offset
 * is et_plan_at's argument; for a gradient it means nothing. */
void et_plan_print(const et_plan *plan, et_strbuf *out)
{
    for (int i = 0; i < plan->call_count; i++) {
        const et_plan_call *call = &plan->calls[i];
        const et_plan_value *value = &plan->values[call->out[0]];
        char shape[ET_SHAPE_TEXT_MAX];
        et_strbuf_printf(out, "%4d  %-18s %-48s %-9s %-16s @%-12zu %12zu live\n", i,
                         call->program.steps > 1 ? "chain" : et_op_name(call->node->op),
                         call->node->name, et_dtype_name(value->tensor.dtype),
                         et_shape_print(value->tensor.shape, shape), value->offset,
                         live_at(plan, i));
    }
}
