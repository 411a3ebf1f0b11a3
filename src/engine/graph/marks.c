/* Marks: the nodes that a model function registers, in the graph, in the order of its calls.
 *
 * A loss of rows (vocabulary, softmax) has four sums, of which the first is derived; its count of
 * rows is the divisor. Any other node is summed, with 0 in rows that do not count. The factor is
 * applied before the sum, so the derived node is a scalar whose own derivative is 1 (or the
 * scale). */
#include <string.h>

#include <etude/pass.h>

#include "base/arena.h"
#include "engine/graph/build.h"
#include "engine/graph/graph.h"
#include "engine/graph/labels.h"
#include "engine/graph/node.h"

const et_layout *et_scope_layout(const et_scope *scope)
{
    return scope->graph->layout;
}

et_node *et_batch_input(et_scope *scope, const char *field)
{
    const et_layout *layout = scope->graph->layout;
    int i = layout ? et_layout_find(layout, field) : -1;
    if (i < 0)
        return et_graph_no_field(scope->graph, field);
    return et_input(et_graph_scope(scope->graph), field, layout->field[i].dtype,
                    et_layout_shape(layout, i));
}

static et_mark *add(et_scope *scope, et_mark_kind kind, const char *name, et_node *node)
{
    et_graph *graph = scope->graph;
    if (!name || node->graph != graph) {
        et_graph_poison(
            graph,
            name ? "%s: the node of this loss, measure or output belongs to another graph"
                 : "%s: a loss, measure or output has no name",
            name ? name : node->name);
        return NULL;
    }
    et_mark *mark = et_arena_alloc(&graph->arena, sizeof *mark);
    char *full = et_arena_printf(&graph->arena, "%s%s", scope->prefix, name);
    if (!mark || !full) {
        et_graph_out_of_memory(graph);
        return NULL;
    }
    for (const et_mark *known = graph->marks; known; known = known->next)
        if (!strcmp(known->name, full) &&
            (known->kind == ET_MARK_OUTPUT) == (kind == ET_MARK_OUTPUT)) {
            et_graph_poison(graph, "%s: two losses, measures or outputs have this name", full);
            return NULL;
        }
    *mark = (et_mark){ .kind = kind, .name = full, .node = node, .factor = 1 };
    *graph->last_mark = mark;
    graph->last_mark = &mark->next;
    return mark;
}

static void add_of_sums(et_scope *scope, const char *name, et_node *sums, int element)
{
    et_mark *mark = add(scope, ET_MARK_MEASURE, name, sums);
    if (!mark)
        return;
    mark->element = element;
    mark->weight = sums;
    mark->weight_element = ET_LOSS_SUM_TOKENS;
}

/* divisor NULL: its own count of rows. */
static void add_sums(et_scope *scope, const char *name, et_node *sums, float weight,
                     et_node *divisor)
{
    et_mark *mark = add(scope, ET_MARK_LOSS, name, sums);
    if (!mark)
        return;
    et_scope *inner = strcmp(name, "loss") ? et_in(scope, name) : scope;
    mark->root = sums;
    mark->weight = divisor ? divisor : sums;
    mark->weight_element = divisor ? 0 : ET_LOSS_SUM_TOKENS;
    mark->factor = weight;
    add_of_sums(inner, "nll", sums, ET_LOSS_SUM_NLL);
    add_of_sums(inner, "accuracy", sums, ET_LOSS_SUM_CORRECT);
}

static bool is_scalar(const et_node *node)
{
    return node->type[0].dtype == ET_F32 && node->type[0].shape.rank == 0;
}

/* 1 for each row of a batch that is there; NULL: its layout does not say. */
static et_node *mask_of(et_scope *scope)
{
    const et_layout *layout = scope->graph->layout;
    bool there = layout && et_layout_find(layout, ET_BATCH_MASK) >= 0;
    return there ? et_batch_input(scope, ET_BATCH_MASK) : NULL;
}

/* Whether rows of node are rows of the batch. Rows made only from parameters are not, whatever
 * their number. */
static bool has_rows_of_batch(et_scope *scope, const et_node *node, const et_node *mask)
{
    const et_shape shape = node->type[0].shape;
    return mask && node->graph == scope->graph && node->of_batch && shape.rank > 0 &&
           shape.size[0] == et_shape_count(mask->type[0].shape) && et_shape_count(shape) > 0;
}

/* node, float32, times counts [T, 1], 1 or 0 for each of its rows. */
static et_node *masked(et_node *node, et_node *counts)
{
    const et_shape shape = node->type[0].shape;
    const int64_t rows = shape.size[0];
    et_node *flat = et_copy(node, ET_F32, shape);
    if (shape.rank != 2)
        flat = et_reshape(flat, et_shape_2(rows, et_shape_count(shape) / rows));
    return et_mul(flat, et_reshape(counts, et_shape_2(rows, 1)));
}

/* Rows with mask 1, or as many as there are. */
static void count_rows(et_scope *scope, et_mark *mark, const et_node *node)
{
    const et_layout *layout = scope->graph->layout;
    et_node *filled = mask_of(scope);
    if (filled)
        mark->weight = et_sum(filled);
    else
        mark->constant = layout                         ? (double)layout->capacity[0]
                         : node->type[0].shape.rank > 0 ? (double)node->type[0].shape.size[0]
                                                        : 1;
}

/* Rows with a label, of the batch's those with mask 1. */
static et_node *sum_of_labelled(et_scope *scope, et_node *labelled)
{
    et_node *mask = mask_of(scope);
    const bool of_batch =
        mask && et_shape_count(mask->type[0].shape) == et_shape_count(labelled->type[0].shape);
    return et_sum(of_batch ? masked(labelled, mask) : labelled);
}

static bool is_sums(const et_node *node)
{
    return node->op == ET_OP_VOCABULARY_LOSS || node->op == ET_OP_SOFTMAX_LOSS;
}

static bool is_loss(et_scope *scope, const char *name, const et_node *node, float weight)
{
    if (node->type[0].dtype == ET_I32)
        et_graph_poison(scope->graph, "loss %s: whole numbers have no derivative; use float32",
                        name);
    else if (node->type[0].shape.rank == 0 && weight != 1)
        et_graph_poison(scope->graph, "loss %s: apply the weight before the sum", name);
    else
        return true;
    return false;
}

/* Of rows or a sum of them; divisor NULL: the rows that count. */
static void add_rows(et_scope *scope, const char *name, et_node *node, float weight,
                     et_node *divisor)
{
    if (!is_loss(scope, name, node, weight))
        return;
    const bool scalar = node->type[0].shape.rank == 0;
    bool empty = true;
    et_node *mask = mask_of(scope);
    et_node *labelled =
        divisor || node->graph != scope->graph ? NULL : et_labelled_rows(node, &empty);
    if (has_rows_of_batch(scope, node, mask))
        node = masked(node, mask);
    if (!empty && !scalar)
        node = masked(node, labelled);
    et_mark *mark = add(scope, ET_MARK_LOSS, name, scalar ? node : et_sum(node));
    if (!mark)
        return;
    mark->factor = weight;
    mark->root = weight == 1 ? mark->node : et_sum(et_scale(node, weight));
    if (divisor || labelled)
        mark->weight = divisor ? divisor : sum_of_labelled(scope, labelled);
    else
        count_rows(scope, mark, node);
}

void et_loss(et_scope *scope, const char *name, et_node *node, float weight)
{
    if (et_node_is_poison(node))
        return;
    if (is_sums(node))
        add_sums(scope, name, node, weight, NULL);
    else
        add_rows(scope, name, node, weight, NULL);
}

void et_loss_over(et_scope *scope, const char *name, et_node *node, float weight, et_node *divisor)
{
    if (et_node_is_poison(node) || et_node_is_poison(divisor))
        return;
    if (divisor->graph != scope->graph)
        et_graph_poison(scope->graph, "loss %s: the divisor is a node of another graph", name);
    else if (!is_scalar(divisor))
        et_graph_poison(scope->graph, "loss %s: the divisor must be a float32 scalar; see et_sum",
                        name);
    else if (is_sums(node))
        add_sums(scope, name, node, weight, divisor);
    else
        add_rows(scope, name, node, weight, divisor);
}

/* Uses the first loss's divisor, a node or a number; without a loss, counts rows as a loss would.
 */
static void count_as_first(et_scope *scope, et_mark *mark, const et_node *node)
{
    const et_mark *first = scope->graph->marks;
    while (first && first->kind != ET_MARK_LOSS)
        first = first->next;
    if (!first) {
        count_rows(scope, mark, node);
    } else if (first->weight == first->node) { /* its sums */
        const bool vocabulary = first->node->op == ET_OP_VOCABULARY_LOSS;
        mark->weight = et_sum(et_labelled(first->node->input[vocabulary ? 2 : 1]));
    } else {
        mark->weight = first->weight;
        mark->constant = first->constant;
    }
}

void et_penalty(et_scope *scope, const char *name, et_node *node, float weight)
{
    if (et_node_is_poison(node))
        return;
    if (!is_scalar(node)) {
        et_graph_poison(scope->graph, "penalty %s: must be a float32 scalar; see et_sum", name);
        return;
    }
    et_mark counts = { .weight = NULL };
    count_as_first(scope, &counts, node);
    et_node *total =
        counts.weight ? et_mul(node, counts.weight) : et_scale(node, (float)counts.constant);
    et_mark *mark = et_node_is_poison(total) ? NULL : add(scope, ET_MARK_LOSS, name, total);
    if (!mark)
        return;
    mark->weight = counts.weight;
    mark->constant = counts.constant;
    mark->factor = weight;
    mark->root = weight == 1 ? total : et_scale(total, weight);
}

void et_measure(et_scope *scope, const char *name, et_node *total, et_node *weight)
{
    if (et_node_is_poison(total) || et_node_is_poison(weight))
        return;
    if (weight->graph != scope->graph) {
        et_graph_poison(scope->graph, "measure %s: the weight is a node of another graph", name);
        return;
    }
    if (!is_scalar(total) || !is_scalar(weight)) {
        et_graph_poison(scope->graph, "measure %s: must have two float32 scalars; see et_sum",
                        name);
        return;
    }
    et_mark *mark = add(scope, ET_MARK_MEASURE, name, total);
    if (mark)
        mark->weight = weight;
}

void et_output(et_scope *scope, const char *name, et_node *node)
{
    if (!et_node_is_poison(node))
        add(scope, ET_MARK_OUTPUT, name, node);
}

void et_moving_mean(et_scope *scope, et_node *variable, et_node *node, float momentum)
{
    if (et_node_is_poison(variable) || et_node_is_poison(node))
        return;
    if (variable->op != ET_OP_PARAM || node->type[0].dtype != ET_F32 ||
        !et_shape_equal(variable->type[0].shape, node->type[0].shape)) {
        et_graph_poison(scope->graph, "%s: can only track a float32 node of the same shape",
                        variable->name);
        return;
    }
    if (variable->graph != scope->graph ||
        et_params_is_trained(scope->graph->params, variable->attributes.param)) {
        et_graph_poison(scope->graph,
                        "%s: only an untrained variable of this graph can track a mean",
                        variable->name);
        return;
    }
    if (!(momentum >= 0 && momentum <= 1)) {
        et_graph_poison(scope->graph, "%s: momentum %g: must be from 0 to 1", variable->name,
                        (double)momentum);
        return;
    }
    et_mark *mark = add(et_graph_scope(scope->graph), ET_MARK_MEAN, variable->name, node);
    if (!mark)
        return;
    mark->variable = variable->attributes.param;
    mark->factor = momentum;
}
