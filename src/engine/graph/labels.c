/* This file follows labels from the ops that read them to the loss, in the order of the nodes. It
 * follows ops that keep rows separate: element-wise ops, sums over columns, and the last sum over
 * all rows. It stops at a product or a norm, whose result is a prediction for any input.
 *
 * A one-hot matrix may be a feature. It is a label only if it is combined with a prediction, as in
 * t log p and (p - t)^2. It is not a label in t w, with weights of classes, nor in t table, which
 * looks up a feature. */
#include "engine/graph/labels.h"

#include "base/alloc.h"
#include "engine/graph/node.h"

typedef struct followed {
    et_node *rows;  /* [T, 1]: rows with a label; NULL: unknown */
    bool empty;     /* the value is 0 in rows without a label */
    bool waits;     /* made of a one-hot matrix that has met no prediction */
    bool predicts;  /* trained parameters are in it */
    bool wanted;    /* on a way to the loss */
    et_node *label; /* of labels: their et_labelled, once it was asked for */
} followed;

/* ---- one node ---- */

static bool keeps_rows(et_op op)
{
    return et_op_is_elementwise(op) || op == ET_OP_SUM || op == ET_OP_ROW_SUM ||
           op == ET_OP_RESHAPE || op == ET_OP_SLICE || op == ET_OP_CONCATENATE;
}

/* Of an op that keeps rows: whether rows of this input are the node's, or are added up in it. */
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

/* ---- two inputs ---- */

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

/* Rows that have both labels, or any of the two. */
static et_node *joined(et_node *a, et_node *b, bool both)
{
    et_node *product = et_mul(a, b);
    return both ? product : et_sub(et_add(a, b), product);
}

static followed one_of_two(followed a, followed b, et_op op)
{
    const bool first = a.rows;
    followed f = first ? a : b;
    f.empty = f.empty && (op == ET_OP_MUL || (op == ET_OP_DIV && first));
    return f;
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
    if (!a.rows || !b.rows)
        return one_of_two(a, b, op);
    followed f = { .rows = a.rows, .waits = a.waits && b.waits, .predicts = a.predicts };
    const bool product = op == ET_OP_MUL, same = a.rows == b.rows;
    if (!et_shape_equal(a.rows->type[0].shape, b.rows->type[0].shape))
        return (followed){ .rows = NULL };
    if (!same)
        f.rows = joined(a.rows, b.rows, product);
    f.empty = op == ET_OP_DIV ? a.empty : product && same ? a.empty || b.empty : a.empty && b.empty;
    return f;
}

/* ---- a graph ---- */

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

static bool is_predicted(const followed *of, const et_node *node)
{
    bool predicts = node->op == ET_OP_PARAM &&
                    et_params_is_trained(node->graph->params, node->attributes.param);
    for (int i = 0; !predicts && i < node->inputs; i++)
        predicts = of[node->input[i]->id].predicts;
    return predicts;
}

et_node *et_labelled_rows(et_node *node, bool *empty)
{
    et_graph *graph = node->graph;
    const int count = node->id + 1;
    followed *of = et_alloc_zero((size_t)count, sizeof *of);
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
        f->predicts = is_predicted(of, next);
    }
    const followed found = of[node->id];
    et_free(of);
    et_node *rows = found.waits ? NULL : found.rows;
    *empty = !rows || found.empty;
    return rows;
}
