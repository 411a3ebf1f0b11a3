/* A pass has a variant for each layout so far (variant.h). The first is built when the pass is
 * opened, because building declares the parameters; it is planned once they have memory. A run with
 * a prepared layout checks the batch, binds its arrays and calls the plan.
 *
 * Invariants: (1) variant `used` is that of the last batch; (2) marks of all variants are equal,
 * because the function is the same, and after a rebuild makes the same ones; (3) running allocates
 * only for a new layout. */
#include "engine/exec/pass.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/pattern.h"
#include "base/vector.h"
#include "engine/exec/variant.h"
#include "engine/tensor/group.h"
#include "engine/tensor/layout.h"
#include "engine/tensor/params.h"

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
        if (et_layout_equal(pass->variants[i].layout, layout)) {
            *found = i;
            return ET_OK;
        }
    int status = et_layout_check_size(layout, error);
    if (status)
        return status;
    et_variant *v =
        et_vector_grow(pass->variants, &pass->capacity, (size_t)pass->count + 1, sizeof *v, 1);
    if (!v)
        return et_alloc_failed(error, sizeof *v, "a pass");
    pass->variants = v;
    v += pass->count;
    status = et_variant_open(v, &pass->parts, layout, error);
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
    const size_t count = (size_t)graph->gradient_count;
    pass->reached = count ? et_alloc(count, sizeof *pass->reached) : NULL;
    if (count && !pass->reached)
        return et_alloc_failed(error, count, "a pass");
    for (size_t i = 0; i < count; i++)
        pass->reached[i] = graph->gradients[i].param;
    pass->reached_count = (int)count;
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
                       parts->options.trains ? "and trains: give only one of them"
                                             : "it belongs to another store of parameters");
    parts->chosen_count = et_params_count(parts->params);
    parts->chosen = et_alloc_zero((size_t)parts->chosen_count, sizeof *parts->chosen);
    if (!parts->chosen)
        return et_alloc_failed(error, (size_t)parts->chosen_count, "a pass");
    for (int i = 0; i < et_group_count(group); i++)
        parts->chosen[et_group_param(group, i)] = true;
    return ET_OK;
}

static int take_frozen(et_pass *pass, et_error *error)
{
    const char *frozen = pass->parts.options.frozen;
    pass->parts.options.frozen = NULL;
    return frozen ? et_patterns_new(&pass->parts.frozen, (et_strings){ &frozen, 1 },
                                    "et_pass_options.frozen", error)
                  : ET_OK;
}

static int rebuild_variant(et_pass *pass, et_variant *v, et_error *error)
{
    const bool planned = v->plan != NULL;
    et_variant fresh;
    int status = et_variant_open(&fresh, &pass->parts, v->layout, error);
    if (status)
        return status;
    et_variant_release(v);
    *v = fresh;
    return planned ? et_variant_plan(v, &pass->parts, error) : ET_OK;
}

/* A plan writes the gradients that its loss reaches, and no other place of the array. */
static void clear_gradients(const et_pass *pass)
{
    et_params *params = pass->parts.params;
    if (pass->parts.options.training && et_params_ready(params))
        memset(et_params_gradients(params), 0,
               (size_t)et_params_trained_size(params) * sizeof(float));
}

int et_pass_rebuild(et_pass *pass, et_error *error)
{
    int status = ET_OK;
    clear_gradients(pass);
    for (int i = 0; !status && i < pass->count; i++)
        status = rebuild_variant(pass, &pass->variants[i], error);
    if (status)
        return status;
    et_free(pass->reached);
    return note_reached(pass, pass->variants[pass->used].graph, error);
}

bool et_pass_trains(const et_pass *pass, int param)
{
    return et_variant_trains(&pass->parts, param);
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
    et_pass *pass = et_alloc_zero(1, sizeof *pass);
    if (!pass)
        return et_alloc_failed(error, sizeof *pass, "a pass");
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
    if (!status)
        status = take_frozen(pass, error);
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
        et_variant_release(&pass->variants[i]);
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
        status = et_variant_plan(&pass->variants[*which], &pass->parts, error);
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

static bool is_prepared(const et_pass *pass, const et_layout *layout)
{
    return used(pass)->plan && et_layout_equal(used(pass)->layout, layout);
}

static void bind(const et_variant *v, const et_batch *batch)
{
    for (int i = 0; i < v->layout->fields; i++)
        et_plan_bind_at(v->plan, v->input[i], batch->data[i]);
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
    bind(&pass->variants[which], batch);
    et_plan_set_dropout(pass->variants[which].plan, pass->dropout);
    et_plan_run(pass->variants[which].plan, pass->random);
    pass->variants[which].ran = true;
}

int et_pass_run(et_pass *pass, const et_batch *batch, uint64_t seed, uint64_t number,
                et_error *error)
{
    int status =
        is_prepared(pass, batch->layout) ? ET_OK : et_pass_prepare(pass, batch->layout, error);
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
    const et_variant *v = used(pass);
    double sum = 0;
    for (int i = 0; i < v->measures; i++) {
        out[i] = measured(v, i);
        if (v->marks[i].mark->kind == ET_MARK_LOSS)
            sum += v->marks[i].mark->factor * out[i].total;
    }
    *loss = sum;
    *divisor = v->first_loss < 0 ? 1 : out[v->first_loss].weight;
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
        float *variable = et_params_values(pass->parts.params) +
                          et_params_offset(pass->parts.params, tracked.variable);
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
