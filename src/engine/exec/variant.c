#include "engine/exec/variant.h"

#include <string.h>

#include "base/alloc.h"
#include "base/text/pattern.h"
#include "engine/graph/build.h"
#include "engine/tensor/layout.h"
#include "engine/tensor/params.h"

/* With ET_RECOMPUTE_AUTO: where the values of a batch need more than this, what is marked is
 * computed twice. On sizes where time counts most (a small model) nothing changes. The second limit
 * is of what is needed then: attention, too, is computed twice. */
#define MUCH_MEMORY  ((size_t)1 << 30)
#define STILL_MEMORY ((size_t)3 << 28)

static int copy_layout(et_variant *v, const et_layout *layout, et_error *error)
{
    size_t count = (size_t)layout->fields;
    et_layout_field *fields = et_arena_array(&v->arena, count, sizeof *fields);
    v->layout = et_arena_array(&v->arena, 1, sizeof *v->layout);
    for (size_t i = 0; fields && i < count; i++) {
        fields[i] = layout->field[i];
        fields[i].name = et_arena_printf(&v->arena, "%s", layout->field[i].name);
    }
    if (v->arena.failed)
        return et_alloc_failed(error, count * sizeof *fields, "a pass");
    *v->layout = *layout;
    v->layout->field = fields;
    return ET_OK;
}

/* The factor of all gradients is an input, so that it may change from run to run. */
static et_node *scale_node(const et_variant_parts *parts, et_graph *graph)
{
    return parts->options.scaled
               ? et_input(et_graph_scope(graph), ET_GRAPH_ONE, ET_F32, et_shape_scalar())
               : NULL;
}

/* Building may declare parameters that a group could not have. */
bool et_variant_trains(const et_variant_parts *parts, int param)
{
    const char *prefix = parts->options.trains, *name = et_params_name(parts->params, param);
    if (parts->frozen && et_patterns_match(parts->frozen, name))
        return false;
    if (parts->chosen)
        return param < parts->chosen_count && parts->chosen[param];
    return !prefix || !strncmp(name, prefix, strlen(prefix));
}

/* By all that is trained, or by those that options.trains or options.group chooses, without those
 * of options.frozen. */
static int derive(const et_variant_parts *parts, et_graph *graph, et_error *error)
{
    const bool some = parts->chosen || parts->options.trains || parts->frozen;
    const size_t count = (size_t)et_params_count(parts->params);
    bool *chosen = some ? et_alloc(count, sizeof *chosen) : NULL;
    if (some && !chosen)
        return et_alloc_failed(error, count, "a pass");
    bool any = false;
    for (size_t i = 0; some && i < count; i++) {
        chosen[i] = et_variant_trains(parts, (int)i);
        any |= chosen[i] && et_params_is_trained(parts->params, (int)i);
    }
    int status = parts->frozen && !any
                     ? et_fail(error, ET_ECONFIG,
                               "every parameter is frozen (et_pass_options.frozen, "
                               "trainer.optimizer_config.frozen); leave some to train")
                     : et_graph_derive(graph, chosen, scale_node(parts, graph), error);
    et_free(chosen);
    return status;
}

static int build_graph(const et_variant_parts *parts, et_variant *v, et_error *error)
{
    const et_pass_options *o = &parts->options;
    et_graph_options options = { o->training, o->bfloat16 ? ET_BF16 : ET_F32, v->recompute };
    for (int i = 0; i < v->layout->fields; i++)
        if (!strcmp(v->layout->field[i].name, ET_GRAPH_ONE))
            return et_fail(error, ET_EGRAPH,
                           "a field of the batch is called " ET_GRAPH_ONE
                           ", a reserved name: rename the field");
    int status = et_graph_new(&v->graph, parts->params, &options, error);
    if (status)
        return status;
    v->graph->layout = v->layout;
    parts->build(et_graph_scope(v->graph), parts->payload);
    status = et_graph_finish(v->graph, error);
    if (!status)
        status = et_ids_open(&v->ids, v->graph, v->layout, error);
    return status || !o->training ? status : derive(parts, v->graph, error);
}

/* Adds a node to what the plan keeps, unless it is there. */
static et_output_element keep(et_node **outputs, int *count, et_node *node, int element)
{
    int i = 0;
    while (i < *count && outputs[i] != node)
        i++;
    if (i == *count)
        outputs[(*count)++] = node;
    return (et_output_element){ .output = i, .element = element };
}

static int count_marks(const et_graph *graph)
{
    int count = 0;
    for (const et_mark *m = graph->marks; m; m = m->next)
        count++;
    return count;
}

static bool is_measured(const et_mark *m)
{
    return m->kind == ET_MARK_LOSS || m->kind == ET_MARK_MEASURE;
}

static bool is_mean(const et_mark *m)
{
    return m->kind == ET_MARK_MEAN;
}

static bool is_output(const et_mark *m)
{
    return m->kind == ET_MARK_OUTPUT;
}

/* Returns how many of the graph's marks are so. */
static int take_marks(et_variant *v, bool (*taken)(const et_mark *))
{
    int before = v->mark_count;
    for (const et_mark *m = v->graph->marks; m; m = m->next) {
        if (!taken(m))
            continue;
        if (m->kind == ET_MARK_LOSS) {
            v->first_loss = v->first_loss < 0 ? v->mark_count : v->first_loss;
            v->last_loss = v->mark_count;
        }
        v->marks[v->mark_count++].mark = m;
    }
    return v->mark_count - before;
}

/* outputs has room for two of each mark. Returns how many it has. */
static int find_marks(et_variant *v, et_node **outputs)
{
    int count = 0;
    v->mark_count = 0;
    v->first_loss = v->last_loss = -1;
    v->measures = take_marks(v, is_measured);
    v->tracks = take_marks(v, is_mean);
    take_marks(v, is_output);
    for (int i = 0; i < v->mark_count; i++) {
        et_placed_mark *to = &v->marks[i];
        const et_mark *m = to->mark;
        to->value = keep(outputs, &count, m->node, m->element);
        to->weight = m->weight ? keep(outputs, &count, m->weight, m->weight_element)
                               : (et_output_element){ .output = -1, .constant = m->constant };
    }
    return count;
}

static void find_tensors(et_variant *v)
{
    for (int i = 0; i < v->mark_count; i++) {
        et_output_element *of[] = { &v->marks[i].value, &v->marks[i].weight };
        for (int k = 0; k < 2; k++)
            if (of[k]->output >= 0)
                of[k]->tensor = et_plan_output_at(v->plan, of[k]->output);
    }
}

static int make_plan(const et_variant_parts *parts, et_variant *v, et_error *error)
{
    int marks = count_marks(v->graph), fields = v->layout->fields;
    size_t most = 2 * (size_t)marks;
    et_node **outputs = et_alloc(most, sizeof *outputs);
    v->marks = et_alloc_zero((size_t)marks, sizeof *v->marks);
    v->input = et_alloc((size_t)fields, sizeof *v->input);
    int status = outputs && v->marks && v->input
                     ? ET_OK
                     : et_alloc_failed(error, most * sizeof *outputs, "a pass");
    /* A training plan runs once or a few times between two changes of the weights: packing again
     * costs far less time than keeping would cost memory. */
    et_plan_options options = ET_PLAN_OPTIONS_INIT;
    options.name = parts->options.name;
    options.keep_packed = !parts->options.training;
    if (!status)
        status = et_plan_new(&v->plan, v->graph, parts->device, outputs, find_marks(v, outputs),
                             &options, error);
    et_free(outputs);
    if (!status)
        status = et_plan_listen(v->plan, parts->listener, error);
    if (status)
        return status;
    find_tensors(v);
    for (int i = 0; i < fields; i++)
        v->input[i] = et_plan_input(v->plan, v->layout->field[i].name);
    v->one = et_plan_input(v->plan, ET_GRAPH_ONE);
    et_plan_bind_at(v->plan, v->one, &parts->scale);
    return ET_OK;
}

static void release_plan(et_variant *v)
{
    et_plan_free(v->plan);
    et_graph_free(v->graph);
    et_ids_release(&v->ids);
    et_free(v->marks);
    et_free(v->input);
    v->plan = NULL;
    v->graph = NULL;
    v->marks = NULL;
    v->input = NULL;
    v->measures = v->tracks = v->mark_count = 0;
    v->first_loss = v->last_loss = -1;
}

static bool takes_too_much(const et_variant_parts *parts, const et_variant *v)
{
    const bool marked = v->recompute == ET_RECOMPUTE_MARKED;
    return parts->options.recompute == ET_RECOMPUTE_AUTO && v->recompute <= ET_RECOMPUTE_MARKED &&
           et_plan_memory_needed(v->plan).activations > (marked ? STILL_MEMORY : MUCH_MEMORY);
}

/* A plan that is not kept has cost a few milliseconds, and no memory: nothing was touched. */
int et_variant_plan(et_variant *v, const et_variant_parts *parts, et_error *error)
{
    int status = v->graph ? ET_OK : build_graph(parts, v, error);
    if (!status)
        status = make_plan(parts, v, error);
    while (!status && takes_too_much(parts, v)) {
        release_plan(v);
        v->recompute =
            v->recompute == ET_RECOMPUTE_MARKED ? ET_RECOMPUTE_LAYERS : ET_RECOMPUTE_MARKED;
        status = build_graph(parts, v, error);
        if (!status)
            status = make_plan(parts, v, error);
    }
    if (status)
        release_plan(v);
    return status;
}

int et_variant_open(et_variant *v, const et_variant_parts *parts, const et_layout *layout,
                    et_error *error)
{
    const bool automatic = parts->options.recompute == ET_RECOMPUTE_AUTO;
    *v = (et_variant){ .recompute = automatic ? ET_RECOMPUTE_CHEAP
                                              : (et_recompute)parts->options.recompute };
    int status = copy_layout(v, layout, error);
    if (!status)
        status = build_graph(parts, v, error);
    if (status)
        et_variant_release(v);
    return status;
}

void et_variant_release(et_variant *v)
{
    release_plan(v);
    et_arena_release(&v->arena);
}
