/* Plans on a device with a trace: each step runs as a span, under a label that says what it is.
 * Labels are made with the plan and belong to the trace, which outlives it.
 *
 * All text is made when the plan is: a run writes only times and costs, so being watched changes
 * little of what is seen. A plan on a device without a trace runs by a function that does not
 * ask.
 *
 * A label says name (of the node), kernel, shapes as "in in -> out", kind (the row of a profile)
 * and type. Texts that are made here are copies in the trace, as the graph may be gone when the
 * trace is written.
 *
 * The span of a run is around those of its steps; what is left of it, packing aside, is time
 * between ops. */
#include <omp.h>
#include <string.h>

#include "base/alloc.h"
#include "exec/cost.h"

static const char *const ew_names[ET_EW_OP_COUNT] = {
#define ELEMENTWISE(id, name, inputs, reads, formula, da, db) [ET_EW_##id] = (name),
#include "kernel/elementwise.def"
#undef ELEMENTWISE
};

/* A product: oneDNN's word for it, or our kernel. NULL: one of rows by themselves. */
static void print_product(const et_gemm *gemm, const char *set, et_strbuf *out)
{
    const char *word = gemm ? et_gemm_implementation(gemm) : NULL;
    if (word && strcmp(word, "own") != 0)
        et_strbuf_printf(out, "onednn:%s", word);
    else
        et_strbuf_printf(out, "%s %s", set, gemm ? "float_product" : "row_product");
}

/* What runs: a product's word, else the instruction set and what it computes. Examples:
 * "onednn:brg:avx512_core", "avx512 float_product", "avx512 layer_norm", "avx512
 * add+gelu+dropout". An op that runs products among other things has both words. */
static void print_kernel(const et_plan *plan, const et_plan_step *step, et_strbuf *out)
{
    const char *set = plan->device->kernels->name;
    if (step->gemm[0] || step->node->op == ET_OP_MATMUL)
        print_product(step->gemm[0], set, out);
    else
        et_strbuf_append(out, set);
    if (step->node->op == ET_OP_MATMUL)
        return;
    if (!et_op_is_elementwise(step->node->op))
        et_strbuf_printf(out, " %s", et_op_name(step->node->op));
    for (int i = 0; i < step->program.steps; i++)
        et_strbuf_printf(out, "%c%s", i ? '+' : ' ', ew_names[step->program.step[i].op]);
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

/* False: no memory. What ran a product has the type of its operands, all else that of its first
 * result. */
static bool fill_label(const et_plan *plan, const et_plan_step *step, et_label *label,
                       et_strbuf *text)
{
    et_trace *trace = plan->device->watch->trace;
    et_strbuf_append(text, step->node->name);
    label->name = keep(trace, text);
    print_kernel(plan, step, text);
    label->kernel = keep(trace, text);
    print_shapes(plan, step->in, step->in_count, text);
    et_strbuf_append(text, " -> ");
    print_shapes(plan, step->out, step->out_count, text);
    label->shape = keep(trace, text);
    label->kind = et_plan_step_kind(step);
    label->product = step->node->op == ET_OP_MATMUL || step->node->op == ET_OP_VOCABULARY_LOSS;
    label->dtype = et_dtype_name(label->product ? plan->graph->options.act
                                                : plan->values[step->out[0]].tensor.dtype);
    return label->name && label->kernel && label->shape;
}

/* The cost is found before the span begins, so it takes none of the step's time; it depends on
 * lengths that are bound for this run. */
static void run_watched(const et_plan *plan, int i)
{
    const et_plan_step *step = &plan->steps[i];
    et_track *track = et_device_track(plan->device);
    et_cost cost = et_plan_step_cost(plan, step);
    et_track_begin(track, &plan->labels[i], -1);
    step->run(plan, step);
    et_track_end_with(track, cost);
}

static void run_alone(const et_plan *plan, int i)
{
    plan->steps[i].run(plan, &plan->steps[i]);
}

#define RUN_KIND "between ops"

/* The labels of the steps, then that of the run; NULL: no memory. */
static const et_label *make_labels(const et_plan *plan, size_t size)
{
    et_strbuf text = ET_STRBUF_INIT;
    et_label *labels = et_trace_alloc(plan->device->watch->trace, size);
    bool made = labels != NULL;
    for (int i = 0; i < plan->step_count && made; i++)
        made = fill_label(plan, &plan->steps[i], &labels[i], &text);
    et_strbuf_release(&text);
    if (!made)
        return NULL;
    labels[plan->step_count] = (et_label){ .kind = RUN_KIND };
    labels[plan->step_count].name = plan->options.name ? plan->options.name : "run";
    return labels;
}

/* The run's span is begun in any case: on a device without a trace its track records nothing,
 * and needs a label all the same. */
int et_plan_choose_run(et_plan *plan, et_error *error)
{
    static const et_label unheard = { .name = "run", .kind = RUN_KIND };
    plan->run_step = run_alone;
    plan->label = &unheard;
    if (!plan->device->watch->trace)
        return ET_OK;
    size_t size = ((size_t)plan->step_count + 1) * sizeof *plan->labels;
    plan->run_step = run_watched;
    plan->labels = make_labels(plan, size);
    if (!plan->labels)
        return et_alloc_failed(error, size, "the labels of a plan");
    plan->label = &plan->labels[plan->step_count];
    return ET_OK;
}

/* Outside a team, and without a trace, it is the first track. */
et_track *et_device_track(const et_device *device)
{
    const et_device_watch *watch = device->watch;
    return watch->track[watch->trace && omp_in_parallel() ? omp_get_thread_num() : 0];
}
