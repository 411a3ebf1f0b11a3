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
#include <omp.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "engine/exec/cost.h"

static const char *const ew_names[ET_EW_OP_COUNT] = {
#define ELEMENTWISE(id, name, inputs, reads, formula, da, db) [ET_EW_##id] = (name),
#include "engine/kernel/elementwise.def"
#undef ELEMENTWISE
};

/* Prints oneDNN's name of the product, or Etude's kernel. NULL: a product by rows. */
static void print_product(const et_gemm *gemm, const char *set, et_strbuf *out)
{
    const char *word = gemm ? et_gemm_implementation(gemm) : NULL;
    if (word && strcmp(word, "own") != 0)
        et_strbuf_printf(out, "onednn:%s", word);
    else
        et_strbuf_printf(out, "%s %s", set, gemm ? "float_product" : "row_product");
}

/* Prints what runs: the product's name, else the instruction set and the op. Examples:
 * "onednn:brg:avx512_core", "avx512 float_product", "avx512 layer_norm", "avx512 add+gelu+dropout".
 * An op that runs products among other things has both. */
static void print_kernel(const et_plan *plan, const et_plan_call *call, et_strbuf *out)
{
    const char *set = plan->device->kernels->name;
    if (call->gemm[0] || call->node->op == ET_OP_MATMUL)
        print_product(call->gemm[0], set, out);
    else
        et_strbuf_append(out, set);
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

/* False: no memory. A product's type is that of its operands, another op's that of its first
 * result. */
static bool describe(const et_plan *plan, const et_plan_call *call, et_activity *activity,
                     et_strbuf *text)
{
    et_trace *trace = plan->device->tracing->trace;
    et_strbuf_append(text, call->node->name);
    activity->name = keep(trace, text);
    print_kernel(plan, call, text);
    activity->kernel = keep(trace, text);
    print_shapes(plan, call->in, call->in_count, text);
    et_strbuf_append(text, " -> ");
    print_shapes(plan, call->out, call->out_count, text);
    activity->shape = keep(trace, text);
    activity->kind = et_plan_call_kind(call);
    activity->product = call->node->op == ET_OP_MATMUL || call->node->op == ET_OP_VOCABULARY_LOSS;
    activity->dtype = et_dtype_name(activity->product ? plan->graph->options.act
                                                      : plan->values[call->out[0]].tensor.dtype);
    return activity->name && activity->kernel && activity->shape;
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
    et_activity *activities = et_trace_alloc(plan->device->tracing->trace, size);
    bool made = activities != NULL;
    for (int i = 0; i < plan->call_count && made; i++)
        made = describe(plan, &plan->calls[i], &activities[i], &text);
    et_strbuf_release(&text);
    if (!made)
        return NULL;
    activities[plan->call_count] = (et_activity){ .kind = RUN_KIND };
    activities[plan->call_count].name = plan->options.name ? plan->options.name : "run";
    return activities;
}

/* The run's span is begun in any case: on a device without a trace its track records nothing,
 * and needs an activity all the same. */
int et_plan_choose_run(et_plan *plan, et_error *error)
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
        return et_alloc_failed(error, size, "the activities of a plan");
    plan->activity = &plan->activities[plan->call_count];
    return ET_OK;
}

/* Outside a team, and without a trace, returns the first track. */
et_track *et_device_track(const et_device *device)
{
    const et_device_tracing *tracing = device->tracing;
    return tracing->track[tracing->trace && omp_in_parallel() ? omp_get_thread_num() : 0];
}
