/* Marks: the nodes that a model function registers, in the graph, in the order of its calls.
 *
 * A loss of rows (vocabulary, softmax) has four sums, of which the first is derived; its count of
 * rows is the divisor. Any other node is summed, with 0 in rows that do not count. The factor is
 * applied before the sum, so the derived node is a scalar whose own derivative is 1 (or the
 * scale). */
#include <etude/pass.h>

#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "engine/graph/build.h"
#include "engine/graph/graph.h"
#include "engine/graph/node.h"

/* ---- rows with a label ---- */

/* Rows with a label: follows labels from the ops that read them to the loss, in the order of the
 * nodes. It follows ops that keep rows separate: element-wise ops, sums over columns, and the last
 * sum over all rows. It stops at a product or a norm, whose result is a prediction for any input.
 *
 * A one-hot matrix may be a feature. It is a label only if it is combined with a prediction, as in
 * t log p and (p - t)^2. It is not a label in t w, with weights of classes, nor in t table, which
 * looks up a feature. */
typedef struct followed {
    et_node *rows;  /* [T, 1]: rows with a label; NULL: unknown */
    bool empty;     /* the value is 0 in rows without a label */
    bool waits;     /* made of a one-hot matrix that has met no prediction */
    bool predicts;  /* trained parameters are in it */
    bool wanted;    /* on a way to the loss */
    et_node *label; /* of labels: their et_labelled, once it was asked for */
} followed;

static bool keeps_rows(et_op op)
{
    return et_op_is_elementwise(op) || op == ET_OP_SUM || op == ET_OP_ROW_SUM ||
           op == ET_OP_RESHAPE || op == ET_OP_SLICE || op == ET_OP_CONCATENATE;
}

/* For an op that keeps rows: whether rows of this input are rows of the node, or are added up in
 * it. */
static bool has_rows_of(const et_node *node, const et_node *input)
{
    const et_shape to = node->type[0].shape, from = input->type[0].shape;
    if (to.rank == 0 || from.rank == 0)
        return to.rank == 0;
    return to.size[0] == from.size[0] && (to.rank == from.rank || !et_op_is_elementwise(node->op));
}

/* Whether 0 becomes 0; of ops of one input. */
static bool keeps_zero(et_op op)
{
    switch (op) {
    case ET_OP_SCALE:
    case ET_OP_COPY:
    case ET_OP_RELU:
    case ET_OP_GELU:
    case ET_OP_TANH:
    case ET_OP_SWISH:
    case ET_OP_DROPOUT:
    case ET_OP_SQRT:
    case ET_OP_SQUARE:
    case ET_OP_ABS:
        return true;
    default:
        return !et_op_is_elementwise(op);
    }
}

/* a waits, and meets b, which is node's. */
static void meet(followed *a, const followed *b, const et_node *node)
{
    if (b->rows && !b->waits) {
        a->rows = NULL; /* b says which rows there are */
        a->waits = false;
    } else if (b->predicts) {
        a->waits = false;
        if (!node->of_batch)
            a->rows = NULL; /* a table */
    }
}

static followed combine(followed a, const et_node *a_node, followed b, const et_node *b_node,
                        et_op op)
{
    const followed a_alone = a;
    if (a.waits)
        meet(&a, &b, b_node);
    if (b.waits)
        meet(&b, &a_alone, a_node);
    a.predicts = b.predicts = a.predicts || b.predicts;
    if (!a.rows || !b.rows) {
        const bool first = a.rows;
        followed f = first ? a : b;
        f.empty = f.empty && (op == ET_OP_MUL || (op == ET_OP_DIV && first));
        return f;
    }
    followed f = { .rows = a.rows, .waits = a.waits && b.waits, .predicts = a.predicts };
    const bool product = op == ET_OP_MUL, same = a.rows == b.rows;
    if (!et_shape_equal(a.rows->type[0].shape, b.rows->type[0].shape))
        return (followed){ .rows = NULL };
    if (!same) { /* rows that have both labels, or any of the two */
        et_node *both = et_mul(a.rows, b.rows);
        f.rows = product ? both : et_sub(et_add(a.rows, b.rows), both);
    }
    f.empty = op == ET_OP_DIV ? a.empty : product && same ? a.empty || b.empty : a.empty && b.empty;
    return f;
}

static et_node *labelled(followed *of, et_node *labels)
{
    followed *f = &of[labels->id];
    if (!f->label)
        f->label = et_labelled(labels);
    return f->label;
}

static followed join_inputs(const followed *of, const et_node *node)
{
    followed f = { .rows = NULL };
    for (int i = 0; i < node->inputs; i++) {
        const et_node *input = node->input[i];
        followed next = of[input->id];
        if (!has_rows_of(node, input))
            next.rows = NULL;
        f = i ? combine(f, node->input[0], next, input, node->op) : next;
    }
    if (node->inputs == 1)
        f.empty = f.empty && keeps_zero(node->op);
    return f;
}

static followed follow(followed *of, et_node *node)
{
    followed f = { .rows = NULL };
    if (node->op == ET_OP_LABELLED && !of[node->input[0]->id].label)
        of[node->input[0]->id].label = node;
    if (node->op == ET_OP_CROSS_ENTROPY)
        f = (followed){ .rows = labelled(of, node->input[1]), .empty = true };
    else if (node->op == ET_OP_LABELLED || node->op == ET_OP_ONE_HOT)
        f = (followed){ .rows = labelled(of, node->input[0]),
                        .empty = true,
                        .waits = node->op == ET_OP_ONE_HOT };
    else if (node->op == ET_OP_RESULT && node->input[0]->op == ET_OP_CROSS_ENTROPY)
        f = of[node->input[0]->id];
    else if (keeps_rows(node->op))
        f = join_inputs(of, node);
    return f;
}

/* Goes backwards, so that all readers of a node come before it. */
static void want(followed *of, const et_node *last)
{
    et_node *const *nodes = last->graph->nodes;
    of[last->id].wanted = true;
    for (int id = last->id; id > 0; id--) {
        const et_node *node = nodes[id];
        bool passes = keeps_rows(node->op) ||
                      (node->op == ET_OP_RESULT && node->input[0]->op == ET_OP_CROSS_ENTROPY);
        for (int i = 0; of[id].wanted && passes && i < node->inputs; i++)
            of[node->input[i]->id].wanted = true;
    }
}

/* float32 [T, 1]: 1 if a row of node, or a row that the scalar node adds up, has a label, else 0.
 * NULL: node depends on no labels, or on labels of different numbers of rows. Labels are the
 * integers that et_cross_entropy and et_labelled read. They are also the integers of et_one_hot if
 * its result meets a prediction, which trained parameters make from a batch. With several kinds of
 * labels, a row of a product must have all of them, a row of any other op one of them. *empty: all
 * rows without a label are 0. Poison: no memory. */
static et_node *labelled_rows(et_node *node, bool *empty)
{
    et_graph *graph = node->graph;
    const int count = node->id + 1;
    followed *of = et_alloc_zero(count, sizeof *of);
    if (!of)
        return et_graph_out_of_memory(graph);
    want(of, node);
    for (int id = 0; id < count; id++) {
        followed *f = &of[id];
        et_node *next = graph->nodes[id];
        et_node *const label = f->label;
        if (f->wanted)
            *f = follow(of, next);
        f->label = label;
        bool predicts = next->op == ET_OP_PARAM &&
                        et_params_is_trained(next->graph->params, next->attributes.param);
        for (int i = 0; !predicts && i < next->inputs; i++)
            predicts = of[next->input[i]->id].predicts;
        f->predicts = predicts;
    }
    const followed found = of[node->id];
    et_free(of);
    et_node *rows = found.waits ? NULL : found.rows;
    *empty = !rows || found.empty;
    return rows;
}

/* ---- marks ---- */

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

/* Adds a loss over rows, or a sum of rows; divisor NULL: the number of rows that count. */
static void add_rows(et_scope *scope, const char *name, et_node *node, float weight,
                     et_node *divisor)
{
    if (!is_loss(scope, name, node, weight))
        return;
    const bool scalar = node->type[0].shape.rank == 0;
    bool empty = true;
    et_node *mask = mask_of(scope);
    et_node *labelled = divisor || node->graph != scope->graph ? NULL : labelled_rows(node, &empty);
    /* Rows made only from parameters are not rows of the batch, whatever their number. */
    const et_shape shape = node->type[0].shape;
    if (mask && node->graph == scope->graph && node->of_batch && shape.rank > 0 &&
        shape.size[0] == et_shape_count(mask->type[0].shape) && et_shape_count(shape) > 0)
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
    if (et_node_has_sums(node))
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
    else if (et_node_has_sums(node))
        add_sums(scope, name, node, weight, divisor);
    else
        add_rows(scope, name, node, weight, divisor);
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
    /* Counts by the first loss's divisor, a node or a number; without a loss, its own rows. */
    const et_mark *first = scope->graph->marks;
    while (first && first->kind != ET_MARK_LOSS)
        first = first->next;
    if (!first) {
        count_rows(scope, &counts, node);
    } else if (first->weight == first->node) { /* its sums */
        const bool vocabulary = first->node->op == ET_OP_VOCABULARY_LOSS;
        counts.weight = et_sum(et_labelled(first->node->input[vocabulary ? 2 : 1]));
    } else {
        counts.weight = first->weight;
        counts.constant = first->constant;
    }
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
