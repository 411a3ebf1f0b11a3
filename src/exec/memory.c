/* Where values lie. A value lives from the step that writes it to the last that reads it. Values
 * are placed largest first, each at the lowest offset where no value that lives at the same
 * time lies (greedy by size: Pisarchyk and Lee 2020, "Efficient memory management for deep
 * neural net inference"). Scratch, which lives for one step, follows at the end. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "exec/parts.h"

#define ALIGN ((size_t)64)

/* A value with others' memory hangs on the one that owns it. */
static int owner(const et_plan *plan, int value)
{
    while (plan->values[value].alias >= 0)
        value = plan->values[value].alias;
    return value;
}

static void find_lives(et_plan *plan)
{
    for (int s = 0; s < plan->step_count; s++) {
        const et_plan_step *step = &plan->steps[s];
        for (int i = 0; i < step->out_count; i++) {
            et_plan_value *value = &plan->values[step->out[i]];
            value->written = s;
            value->last_read = s;
        }
        for (int i = 0; i < step->in_count; i++)
            plan->values[step->in[i]].last_read = s;
    }
    for (int i = 0; i < plan->output_count; i++)
        plan->values[plan->outputs[i]].last_read = INT_MAX;
}

/* Results that nobody reads get no memory, but a step's first one does. */
static void drop_unread(et_plan *plan)
{
    for (int i = 0; i < plan->value_count; i++) {
        et_plan_value *value = &plan->values[i];
        bool first = i == plan->first_value[value->node->id];
        if (value->written >= 0 && !first && value->last_read == value->written &&
            value->place == PLACE_ARENA)
            value->place = PLACE_NONE;
    }
}

/* A parameter's gradient is computed where the store wants it. Where two parameters have the
 * same node as gradient, or the node is not a step's own result, it is copied after the run. */
static int place_gradients(et_plan *plan, et_error *error)
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
        if (value->place == PLACE_ARENA && value->written >= 0) {
            value->place = PLACE_GRADIENT;
            value->tensor.data =
                et_params_gradients(graph->params) + et_params_offset(graph->params, param);
        } else {
            plan->copies[plan->copy_count].value = index;
            plan->copies[plan->copy_count++].param = param;
        }
    }
    return ET_OK;
}

/* An embedding's gradient is scattered into its base where the base has no other reader. */
static void alias_bases(et_plan *plan)
{
    for (int s = plan->step_count - 1; s >= 0; s--) {
        const et_plan_step *step = &plan->steps[s];
        if (step->node->op != ET_OP_EMBEDDING_GRAD || step->in_count < 3)
            continue;
        et_plan_value *base = &plan->values[step->in[2]];
        if (base->place == PLACE_ARENA && base->last_read == s) {
            base->alias = step->out[0];
            base->place = plan->values[owner(plan, step->out[0])].place;
        }
    }
}

/* An owner lives from the first writing to the last reading of all that share its memory. */
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

static size_t size_of(const et_plan_value *value)
{
    return (et_tensor_bytes(value->tensor) + ALIGN - 1) / ALIGN * ALIGN;
}

static int larger_first(const void *left, const void *right)
{
    const et_plan_value *a = *(et_plan_value *const *)left, *b = *(et_plan_value *const *)right;
    size_t size_a = size_of(a), size_b = size_of(b);
    if (size_a != size_b)
        return size_a < size_b ? 1 : -1;
    return a->written < b->written ? -1 : a->written > b->written;
}

static bool live_together(const et_plan_value *a, const et_plan_value *b)
{
    return a->written <= b->last_read && b->written <= a->last_read;
}

/* The lowest offset for value among those placed before it, which are sorted by offset. */
static size_t find_offset(et_plan_value *const *placed, int count, const et_plan_value *value,
                          bool reuse)
{
    size_t at = 0;
    for (int i = 0; i < count; i++) {
        const et_plan_value *other = placed[i];
        if (reuse && !live_together(other, value))
            continue;
        if (other->offset >= at + size_of(value))
            break;
        if (other->offset + size_of(other) > at)
            at = other->offset + size_of(other);
    }
    return at;
}

static void insert_by_offset(et_plan_value **placed, int count, et_plan_value *value)
{
    int at = count;
    while (at > 0 && placed[at - 1]->offset > value->offset) {
        placed[at] = placed[at - 1];
        at--;
    }
    placed[at] = value;
}

static int assign_offsets(et_plan *plan, et_error *error)
{
    size_t count = (size_t)plan->value_count;
    et_plan_value **order = et_alloc(2 * count, sizeof *order);
    if (!order)
        return et_alloc_failed(error, 2 * count * sizeof *order, "a plan");
    et_plan_value **placed = order + count;
    int wanted = 0;
    for (int i = 0; i < plan->value_count; i++)
        if (plan->values[i].place == PLACE_ARENA && plan->values[i].alias < 0)
            order[wanted++] = &plan->values[i];
    qsort(order, (size_t)wanted, sizeof *order, larger_first);
    for (int i = 0; i < wanted; i++) {
        order[i]->offset = find_offset(placed, i, order[i], plan->options.reuse);
        insert_by_offset(placed, i, order[i]);
        size_t end = order[i]->offset + size_of(order[i]);
        if (end > plan->memory.activations)
            plan->memory.activations = end;
    }
    et_free(order);
    return ET_OK;
}

static int make_arena(et_plan *plan, et_error *error)
{
    for (int s = 0; s < plan->step_count; s++)
        if (plan->steps[s].scratch > plan->memory.scratch)
            plan->memory.scratch = plan->steps[s].scratch;
    size_t bytes = plan->memory.activations + plan->memory.scratch;
    plan->arena = et_alloc_array(bytes);
    if (!plan->arena)
        return et_alloc_failed(error, bytes, "a plan's arena");
    plan->scratch = plan->arena + plan->memory.activations;
    return ET_OK;
}

static void resolve(et_plan *plan)
{
    for (int i = 0; i < plan->value_count; i++) {
        et_plan_value *value = &plan->values[i];
        if (value->place == PLACE_ARENA && value->alias < 0)
            value->tensor.data = plan->arena + value->offset;
    }
    for (int i = 0; i < plan->value_count; i++)
        if (plan->values[i].alias >= 0)
            plan->values[i].tensor.data = plan->values[owner(plan, i)].tensor.data;
}

int et_plan_place(et_plan *plan, et_error *error)
{
    find_lives(plan);
    int status = place_gradients(plan, error);
    if (status)
        return status;
    drop_unread(plan);
    alias_bases(plan);
    join_lives(plan);
    status = assign_offsets(plan, error);
    if (!status)
        status = make_arena(plan, error);
    if (!status)
        resolve(plan);
    return status;
}
