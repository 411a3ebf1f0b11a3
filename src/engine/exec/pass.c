/* A pass has a variant for each layout so far: its model function for that layout of batches.
 *
 *   build(scope) -> marks -> derivatives -> plan, whose outputs are the marks' nodes, in order
 *
 * The first variant is built when the pass is opened, because building declares the parameters; it
 * is planned once they have memory. A run with a prepared layout checks the batch, binds its arrays
 * and calls the plan.
 *
 * Invariants: (1) variant `used` belongs to the last batch; (2) all variants have the same marks,
 * because the function is the same, also after a rebuild; (3) running allocates only for a new
 * layout. */
#include "engine/exec/pass.h"

#include <etude/pass.h>

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/text/pattern.h"
#include "base/vector.h"
#include "engine/exec/ids.h"
#include "engine/exec/plan.h"
#include "engine/graph/build.h"
#include "engine/graph/graph.h"
#include "engine/tensor/params.h"
#include "engine/tensor/tensor.h"

/* ---- a variant ---- */

/* Parts shared by all variants of a pass. */
typedef struct et_variant_parts {
    et_device *device; /* borrowed, like all members before options, and listener */
    et_params *params;
    et_build_fn *build;
    void *payload;
    et_pass_options options;
    bool *chosen; /* [chosen_count] parameters of options.group, owned by the pass; NULL: none */
    int chosen_count;
    struct et_patterns *frozen;       /* of options.frozen, likewise */
    const et_plan_listener *listener; /* of each plan; NULL: none */
    float scale;                      /* of all gradients; plans read it at each run */
} et_variant_parts;

/* An element of an output of the plan, or a constant. */
typedef struct et_output_element {
    int output;              /* -1: a constant */
    const et_tensor *tensor; /* the output, once there is a plan */
    int element;
    double constant;
} et_output_element;

typedef struct et_placed_mark {
    const et_mark *mark; /* of the variant's graph */
    et_output_element value, weight;
} et_placed_mark;

typedef struct et_variant {
    et_layout *layout; /* a copy, in arena, as samples may be closed before; its graph has it too */
    et_arena arena;
    et_graph *graph; /* NULL: planning has failed, it is built again */
    et_plan *plan;   /* NULL: not yet */
    bool ran;        /* there are values */
    et_recompute recompute;
    et_ids ids; /* what its batches choose among */
    int *input; /* [layout.fields]: place of each field in the plan */
    int one;    /* place of the input ET_GRAPH_ONE */
    et_placed_mark
        *marks; /* [mark_count]: what is measured, moving means, outputs; each in order */
    int measures, tracks, mark_count;
    int first_loss, last_loss; /* in marks, with measures between; -1: none */
} et_variant;

/* With ET_RECOMPUTE_AUTO: if the values of a batch need more than MUCH_MEMORY, marked nodes are
 * computed twice. Small models, where time counts most, do not change. If the values then still
 * need more than the second limit, attention is also computed twice. */
#define MUCH_MEMORY  ((size_t)1 << 30)
#define STILL_MEMORY ((size_t)3 << 28)

static int copy_layout(et_variant *v, const et_layout *layout, et_error *error)
{
    size_t count = layout->fields;
    et_layout_field *fields = et_arena_array(&v->arena, count, sizeof *fields);
    v->layout = et_arena_array(&v->arena, 1, sizeof *v->layout);
    for (size_t i = 0; fields && i < count; i++) {
        fields[i] = layout->field[i];
        fields[i].name = et_arena_strdup(&v->arena, layout->field[i].name);
    }
    if (v->arena.failed)
        return et_alloc_failed(error, "a pass");
    *v->layout = *layout;
    v->layout->field = fields;
    return ET_OK;
}

/* Whether both describe one batch: also its capacities. */
static bool same_layout(const et_layout *a, const et_layout *b)
{
    bool same = a->kinds == b->kinds;
    for (int k = 0; same && k < a->kinds; k++)
        same = a->capacity[k] == b->capacity[k];
    return same && et_layout_same(a, b);
}

/* Whether a parameter has gradients, if the loss depends on it. Building may declare parameters
 * that a group could not have. */
static bool variant_trains(const et_variant_parts *parts, int param)
{
    const char *prefix = parts->options.trains, *name = et_params_name(parts->params, param);
    if (parts->frozen && et_patterns_match(parts->frozen, name))
        return false;
    if (parts->chosen)
        return param < parts->chosen_count && parts->chosen[param];
    return !prefix || !strncmp(name, prefix, strlen(prefix));
}

/* Derives by all trained parameters, or by the choice of options.trains or options.group, without
 * options.frozen. */
static int derive(const et_variant_parts *parts, et_graph *graph, et_error *error)
{
    const bool some = parts->chosen || parts->options.trains || parts->frozen;
    const size_t count = et_params_count(parts->params);
    bool *chosen = NULL;
    if (some && ET_ALLOC(chosen, count, "a pass", error))
        return ET_ENOMEM;
    bool any = false;
    for (size_t i = 0; some && i < count; i++) {
        chosen[i] = variant_trains(parts, (int)i);
        any |= chosen[i] && et_params_is_trained(parts->params, (int)i);
    }
    int status = ET_OK;
    if (parts->frozen && !any) {
        status = et_fail(error, ET_ECONFIG,
                         "every parameter is frozen (et_pass_options.frozen, "
                         "trainer.optimizer_config.frozen); leave some to train");
    } else {
        /* The factor of all gradients is an input, so that it may change from run to run. */
        et_node *scale = NULL;
        if (parts->options.scaled)
            scale = et_input(et_graph_scope(graph), ET_GRAPH_ONE, ET_F32, et_shape_scalar());
        status = et_graph_derive(graph, chosen, scale, error);
    }
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

/* Adds a node to the plan's outputs, unless it is one. */
static et_output_element keep(et_node **outputs, int *count, et_node *node, int element)
{
    int i = 0;
    while (i < *count && outputs[i] != node)
        i++;
    if (i == *count)
        outputs[(*count)++] = node;
    return (et_output_element){ .output = i, .element = element };
}

/* Takes the graph's marks of these kinds; returns how many there are. */
static int take_marks(et_variant *v, unsigned kinds)
{
    int before = v->mark_count;
    for (const et_mark *m = v->graph->marks; m; m = m->next) {
        if (!(kinds >> m->kind & 1))
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
    v->measures = take_marks(v, 1U << ET_MARK_LOSS | 1U << ET_MARK_MEASURE);
    v->tracks = take_marks(v, 1U << ET_MARK_MEAN);
    take_marks(v, 1U << ET_MARK_OUTPUT);
    for (int i = 0; i < v->mark_count; i++) {
        et_placed_mark *to = &v->marks[i];
        const et_mark *m = to->mark;
        to->value = keep(outputs, &count, m->node, m->element);
        to->weight = m->weight ? keep(outputs, &count, m->weight, m->weight_element)
                               : (et_output_element){ .output = -1, .constant = m->constant };
    }
    return count;
}

static int make_plan(const et_variant_parts *parts, et_variant *v, et_error *error)
{
    int marks = 0, fields = v->layout->fields;
    for (const et_mark *m = v->graph->marks; m; m = m->next)
        marks++;
    et_node **outputs;
    int status = ET_ALLOC(outputs, 2 * (size_t)marks, "a pass", error) ||
                         ET_ALLOC_ZERO(v->marks, marks, "a pass", error) ||
                         ET_ALLOC(v->input, fields, "a pass", error)
                     ? ET_ENOMEM
                     : ET_OK;
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
    for (int i = 0; i < v->mark_count; i++) {
        et_output_element *of[] = { &v->marks[i].value, &v->marks[i].weight };
        for (int k = 0; k < 2; k++)
            if (of[k]->output >= 0)
                of[k]->tensor = et_plan_output_at(v->plan, of[k]->output);
    }
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

/* Plans; the store of parameters has memory. parts stays, as the plan reads its scale. After a
 * failure the variant can be planned again. A plan that is not kept has cost a few milliseconds,
 * and no memory: nothing was touched. */
static int variant_plan(et_variant *v, const et_variant_parts *parts, et_error *error)
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

static void variant_release(et_variant *v)
{
    release_plan(v);
    et_arena_release(&v->arena);
}

/* Builds and derives; after a failure nothing is left to release. ET_EGRAPH: the model does not fit
 * the layout. */
static int variant_open(et_variant *v, const et_variant_parts *parts, const et_layout *layout,
                        et_error *error)
{
    const bool automatic = parts->options.recompute == ET_RECOMPUTE_AUTO;
    *v = (et_variant){ .recompute = automatic ? ET_RECOMPUTE_CHEAP
                                              : (et_recompute)parts->options.recompute };
    int status = copy_layout(v, layout, error);
    if (!status)
        status = build_graph(parts, v, error);
    if (status)
        variant_release(v);
    return status;
}

struct et_pass {
    et_variant_parts parts;
    et_variant *variants; /* [count], owned */
    size_t capacity;
    int count, used;
    int *reached; /* [reached_count]: parameters that have gradients; owned */
    int reached_count;
    float dropout;    /* a factor on all its rates */
    et_random random; /* of the last run */
    bool moved;       /* its moving means have moved */
};

/* ---- layouts ---- */

/* The variant for a layout, built if it is new. */
static int find_variant(et_pass *pass, const et_layout *layout, int *found, et_error *error)
{
    for (int i = 0; i < pass->count; i++)
        if (same_layout(pass->variants[i].layout, layout)) {
            *found = i;
            return ET_OK;
        }
    int status = et_layout_check_size(layout, error);
    if (status)
        return status;
    if (!ET_VECTOR_GROW(pass->variants, pass->capacity, (size_t)pass->count + 1))
        return et_alloc_failed(error, "a pass");
    status = variant_open(&pass->variants[pass->count], &pass->parts, layout, error);
    if (status)
        return status;
    *found = pass->count++;
    return ET_OK;
}

/* ---- a pass ---- */

/* Kept, since a graph goes with its plan, or where planning fails; every layout's reaches the same.
 */
static int note_reached(et_pass *pass, const et_graph *graph, et_error *error)
{
    pass->reached_count = graph->gradient_count;
    if (ET_ALLOC(pass->reached, pass->reached_count, "a pass", error))
        return ET_ENOMEM;
    for (int i = 0; i < pass->reached_count; i++)
        pass->reached[i] = graph->gradients[i].param;
    return ET_OK;
}

/* The group may be gone after this. */
static int take_group(et_pass *pass, et_error *error)
{
    et_variant_parts *parts = &pass->parts;
    const et_group *group = parts->options.group;
    parts->options.group = NULL;
    if (!group)
        return ET_OK;
    if (parts->options.trains || et_group_params(group) != parts->params)
        return et_fail(error, ET_ECONFIG, "et_pass_options.group: %s",
                       parts->options.trains ? "trains is also given: give only one of them"
                                             : "it belongs to another store of parameters");
    parts->chosen_count = et_params_count(parts->params);
    if (ET_ALLOC_ZERO(parts->chosen, parts->chosen_count, "a pass", error))
        return ET_ENOMEM;
    for (int i = 0; i < et_group_count(group); i++)
        parts->chosen[et_group_param(group, i)] = true;
    return ET_OK;
}

static int rebuild_variant(et_pass *pass, et_variant *v, et_error *error)
{
    const bool planned = v->plan != NULL;
    et_variant fresh;
    int status = variant_open(&fresh, &pass->parts, v->layout, error);
    if (status)
        return status;
    variant_release(v);
    *v = fresh;
    return planned ? variant_plan(v, &pass->parts, error) : ET_OK;
}

int et_pass_rebuild(et_pass *pass, et_error *error)
{
    int status = ET_OK;
    /* A plan writes the gradients that its loss reaches, and no other place of the array. */
    et_params *params = pass->parts.params;
    if (pass->parts.options.training && et_params_ready(params))
        memset(et_params_gradients(params), 0, et_params_trained_size(params) * sizeof(float));
    for (int i = 0; !status && i < pass->count; i++)
        status = rebuild_variant(pass, &pass->variants[i], error);
    if (status)
        return status;
    et_free(pass->reached);
    return note_reached(pass, pass->variants[pass->used].graph, error);
}

bool et_pass_trains(const et_pass *pass, int param)
{
    return variant_trains(&pass->parts, param);
}

bool et_pass_trains_all(const et_pass *pass)
{
    return !pass->parts.chosen && !pass->parts.options.trains && !pass->parts.frozen;
}

bool et_pass_reaches(const et_pass *pass, int param)
{
    for (int i = 0; i < pass->reached_count; i++)
        if (pass->reached[i] == param)
            return true;
    return false;
}

int et_pass_open(et_pass **out, et_device *device, et_params *params, const et_layout *layout,
                 et_build_fn *build, void *payload, const et_pass_options *options, et_error *error)
{
    static const et_pass_options defaults = { .name = "pass" };
    *out = NULL;
    if (!device || !params || !layout || !build)
        return et_fail(error, ET_EUSAGE,
                       "a pass needs a device, parameters, a layout and a model function");
    et_pass *pass;
    if (ET_ALLOC_ZERO(pass, 1, "a pass", error))
        return ET_ENOMEM;
    pass->parts = (et_variant_parts){ .device = device,
                                      .params = params,
                                      .build = build,
                                      .payload = payload,
                                      .options = options ? *options : defaults,
                                      .scale = 1 };
    pass->dropout = 1;
    if (!pass->parts.options.name)
        pass->parts.options.name = defaults.name;
    int status = take_group(pass, error);
    if (!status) {
        const char *frozen = pass->parts.options.frozen;
        pass->parts.options.frozen = NULL;
        if (frozen)
            status = et_patterns_new(&pass->parts.frozen, (et_strings){ &frozen, 1 },
                                     "et_pass_options.frozen", error);
    }
    if (!status)
        status = find_variant(pass, layout, &pass->used, error);
    if (!status)
        status = note_reached(pass, pass->variants[pass->used].graph, error);
    if (status)
        et_pass_close(pass);
    else
        *out = pass;
    return status;
}

void et_pass_close(et_pass *pass)
{
    if (!pass)
        return;
    for (int i = 0; i < pass->count; i++)
        variant_release(&pass->variants[i]);
    et_free(pass->variants);
    et_free(pass->parts.chosen);
    et_patterns_free(pass->parts.frozen);
    et_free(pass->reached);
    et_free(pass);
}

int et_pass_variant(et_pass *pass, const et_layout *layout, int *which, et_error *error)
{
    if (!et_params_ready(pass->parts.params))
        return et_fail(error, ET_EUSAGE,
                       "the parameters have no memory: call et_params_materialize before the pass");
    if (pass->parts.options.bfloat16 && !et_params_shadow(pass->parts.params))
        return et_fail(error, ET_EUSAGE,
                       "a bfloat16 pass needs parameters with a bfloat16 shadow: ask "
                       "et_params_materialize for it");
    int status = find_variant(pass, layout, which, error);
    if (!status && !pass->variants[*which].plan)
        status = variant_plan(&pass->variants[*which], &pass->parts, error);
    if (!status)
        pass->used = *which;
    return status;
}

int et_pass_prepare(et_pass *pass, const et_layout *layout, et_error *error)
{
    int which;
    return et_pass_variant(pass, layout, &which, error);
}

/* ---- a run ---- */

static const et_variant *used(const et_pass *pass)
{
    return &pass->variants[pass->used];
}

int et_pass_check(const et_pass *pass, int which, const et_batch *batch, et_error *error)
{
    et_assert(which >= 0 && which < pass->count);
    return et_ids_check(&pass->variants[which].ids, batch, error);
}

void et_pass_run_variant(et_pass *pass, int which, const et_batch *batch, uint64_t seed,
                         uint64_t number)
{
    et_assert(which >= 0 && which < pass->count && pass->variants[which].plan);
    pass->used = which;
    pass->random = (et_random){ seed, number, 0 };
    pass->moved = false;
    et_variant *v = &pass->variants[which];
    for (int i = 0; i < v->layout->fields; i++)
        et_plan_bind_at(v->plan, v->input[i], batch->data[i]);
    et_plan_set_dropout(v->plan, pass->dropout);
    et_plan_run(v->plan, pass->random);
    v->ran = true;
}

int et_pass_run(et_pass *pass, const et_batch *batch, uint64_t seed, uint64_t number,
                et_error *error)
{
    int status = ET_OK;
    if (!used(pass)->plan || !same_layout(used(pass)->layout, batch->layout))
        status = et_pass_prepare(pass, batch->layout, error);
    if (!status)
        status = et_pass_check(pass, pass->used, batch, error);
    if (!status)
        et_pass_run_variant(pass, pass->used, batch, seed, number);
    return status;
}

int et_pass_listen(et_pass *pass, const et_plan_listener *listener, et_error *error)
{
    int status = ET_OK;
    for (int i = 0; !status && i < pass->count; i++)
        if (pass->variants[i].plan)
            status = et_plan_listen(pass->variants[i].plan, listener, error);
    if (status)
        et_pass_listen(pass, NULL, NULL);
    else
        pass->parts.listener = listener;
    return status;
}

void et_pass_set_scale(et_pass *pass, float scale)
{
    et_assert(pass->parts.options.scaled || scale == 1);
    pass->parts.scale = scale;
}

void et_pass_set_dropout(et_pass *pass, double factor)
{
    et_assert(factor >= 0 && factor <= 1);
    pass->dropout = (float)factor;
}

/* ---- results of a run ---- */

static double read(const et_output_element *at)
{
    return at->tensor ? ((const float *)at->tensor->data)[at->element] : at->constant;
}

bool et_pass_has_run(const et_pass *pass)
{
    return used(pass)->ran;
}

double et_pass_loss(const et_pass *pass)
{
    const et_variant *v = used(pass);
    double loss = 0;
    if (!v->ran)
        return NAN;
    for (int i = v->first_loss; i >= 0 && i <= v->last_loss; i++)
        if (v->marks[i].mark->kind == ET_MARK_LOSS)
            loss += v->marks[i].mark->factor * read(&v->marks[i].value);
    return loss;
}

double et_pass_divisor(const et_pass *pass)
{
    const et_variant *v = used(pass);
    if (!v->ran)
        return 0;
    return v->first_loss < 0 ? 1 : read(&v->marks[v->first_loss].weight);
}

et_tensor et_pass_output(const et_pass *pass, const char *name)
{
    const et_variant *v = used(pass);
    for (int i = v->measures + v->tracks; name && v->plan && i < v->mark_count; i++)
        if (!strcmp(v->marks[i].mark->name, name))
            return *v->marks[i].value.tensor;
    return (et_tensor){ .data = NULL };
}

const char *et_pass_output_name(const et_pass *pass, int i)
{
    const et_variant *v = used(pass);
    int at = v->measures + v->tracks + i;
    return i >= 0 && at < v->mark_count ? v->marks[at].mark->name : NULL;
}

bool et_pass_loss_is_measured(const et_pass *pass, const char *name)
{
    const et_variant *v = used(pass);
    if (v->first_loss < 0 || v->first_loss != v->last_loss)
        return v->first_loss < 0;
    const et_mark *loss = v->marks[v->first_loss].mark;
    return loss->factor == 1 && !strcmp(loss->name, name);
}

int et_pass_measures(const et_pass *pass)
{
    return used(pass)->measures;
}

static et_measured measured(const et_variant *v, int i)
{
    const et_placed_mark *m = &v->marks[i];
    return v->ran ? (et_measured){ m->mark->name, read(&m->value), read(&m->weight) }
                  : (et_measured){ m->mark->name, 0, 0 };
}

et_measured et_pass_measured(const et_pass *pass, int i)
{
    const et_variant *v = used(pass);
    return i >= 0 && i < v->measures ? measured(v, i) : (et_measured){ 0 };
}

void et_pass_read(const et_pass *pass, double *loss, double *divisor, et_measured *out)
{
    for (int i = 0; i < used(pass)->measures; i++)
        out[i] = measured(used(pass), i);
    *loss = et_pass_loss(pass);
    *divisor = et_pass_divisor(pass);
}

int et_pass_tracks(const et_pass *pass)
{
    return used(pass)->tracks;
}

et_tracked et_pass_tracked(const et_pass *pass, int i)
{
    const et_variant *v = used(pass);
    et_assert(i >= 0 && i < v->tracks);
    const et_placed_mark *m = &v->marks[v->measures + i];
    const et_tensor *value = m->value.tensor;
    return (et_tracked){ m->mark->variable, m->mark->factor, value->data,
                         et_shape_count(value->shape) };
}

void et_pass_move_means(et_pass *pass, const float *values)
{
    const int count = et_pass_tracks(pass);
    if (!count || (!values && pass->moved))
        return;
    pass->moved = true;
    et_params_begin_change(pass->parts.params);
    for (int i = 0; i < count; i++) {
        et_tracked tracked = et_pass_tracked(pass, i);
        const float *value = values ? values : tracked.value;
        float *variable = et_params_values_of(pass->parts.params, tracked.variable);
        for (int64_t k = 0; k < tracked.elements; k++)
            variable[k] = tracked.momentum * variable[k] + (1 - tracked.momentum) * value[k];
        values = values ? values + tracked.elements : NULL;
    }
    et_params_changed(pass->parts.params, true);
}

const char *et_pass_find_not_finite(et_pass *pass)
{
    const et_variant *v = used(pass);
    return v->ran ? et_plan_find_not_finite(v->plan, pass->random) : NULL;
}

et_plan_memory et_pass_plan_memory(const et_pass *pass)
{
    et_assert(used(pass)->plan);
    return et_plan_memory_needed(used(pass)->plan);
}

et_plan *et_pass_plan(const et_pass *pass)
{
    return used(pass)->plan;
}

const et_graph *et_pass_graph(const et_pass *pass)
{
    return pass->count ? pass->variants[pass->used].graph : NULL;
}

et_recompute et_pass_recompute(const et_pass *pass)
{
    return pass->variants[pass->used].recompute;
}

et_params *et_pass_params(const et_pass *pass)
{
    return pass->parts.params;
}

bool et_pass_is_training(const et_pass *pass)
{
    return pass->parts.options.training;
}

et_device *et_pass_device(const et_pass *pass)
{
    return pass->parts.device;
}
