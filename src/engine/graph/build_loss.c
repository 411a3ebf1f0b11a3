/* The builders of <etude/ops_loss.h>: sums, softmax, and losses by rows, which are chains of
 * element-wise ops and a sum over columns; and the loss by sampled classes of build.h. */
#include <limits.h>

#include "base/numbers/philox.h"
#include "engine/graph/build.h"
#include "engine/graph/node.h"

et_node *et_sum(et_node *x)
{
    return et_node_unary(ET_OP_SUM, x);
}

et_node *et_column_sum(et_node *x)
{
    return et_node_unary(ET_OP_COLUMN_SUM, x);
}

/* A single column is its own sum. */
et_node *et_row_sum(et_node *x)
{
    et_shape shape = et_node_shape(x);
    if (shape.rank == 2 && shape.size[1] == 1)
        return et_copy(x, ET_F32, shape);
    return et_node_unary(ET_OP_ROW_SUM, x);
}

et_node *et_mean(et_node *x)
{
    return et_scale(et_sum(x), 1.0f / (float)et_shape_count(et_node_shape(x)));
}

/* The size does not matter for poison, or for a shape that the sum will refuse. */
static float share_of(et_node *x, int dimension)
{
    et_shape shape = et_node_shape(x);
    return shape.rank == 2 ? 1.0f / (float)shape.size[dimension] : 1;
}

et_node *et_column_mean(et_node *x)
{
    return et_scale(et_column_sum(x), share_of(x, 0));
}

et_node *et_row_mean(et_node *x)
{
    float share = share_of(x, 1);
    return share == 1 ? et_row_sum(x) : et_scale(et_row_sum(x), share);
}

et_node *et_softmax(et_node *x)
{
    return et_node_unary(ET_OP_SOFTMAX, x);
}

et_node *et_log_softmax(et_node *x)
{
    return et_node_unary(ET_OP_LOG_SOFTMAX, x);
}

/* ---- losses by rows ---- */

/* What a loss adds up is float32, not the activations' type. A number for each row is a column. */
static et_node *wide(et_node *x)
{
    const et_shape shape = et_node_shape(x);
    et_node *own = et_copy(x, ET_F32, shape);
    return shape.rank == 1 ? et_reshape(own, et_shape_2(shape.size[0], 1)) : own;
}

et_node *et_squared_error(et_node *x, et_node *target)
{
    return et_row_mean(et_square(et_sub(wide(x), wide(target))));
}

et_node *et_absolute_error(et_node *x, et_node *target)
{
    return et_row_mean(et_abs(et_sub(wide(x), wide(target))));
}

/* With c = clamp(r, -delta, delta) both branches are c (r - c / 2), and so are their derivatives.
 */
et_node *et_huber_error(et_node *x, et_node *target, float delta)
{
    if (!(delta > 0))
        return et_graph_poison(x->graph, "%s: a Huber loss needs delta > 0, not %g", x->name,
                               (double)delta);
    et_node *r = et_sub(wide(x), wide(target));
    et_node *c = et_clamp(r, -delta, delta);
    return et_row_mean(et_mul(c, et_sub(r, et_scale(c, 0.5f))));
}

/* -t log s(z) - (1 - t) log(1 - s(z)), s the logistic function, written without logarithms of
 * values that may be 0. */
et_node *et_binary_cross_entropy(et_node *logits, et_node *target)
{
    et_node *z = wide(logits);
    return et_row_mean(et_sub(et_softplus(z), et_mul(z, wide(target))));
}

et_node *et_cross_entropy(et_node *logits, et_node *labels, float smoothing, et_node **nll,
                          et_node **correct)
{
    et_node *inputs[] = { logits, labels }, *loss;
    et_attributes attributes = { .x = smoothing };
    if (smoothing >= 0 && smoothing < 1)
        loss = et_node_add(logits->graph, ET_OP_CROSS_ENTROPY, NULL, inputs, 2, &attributes);
    else
        loss = et_graph_poison(logits->graph, "%s: label smoothing %g is not in [0, 1)",
                               logits->name, (double)smoothing);
    if (nll)
        *nll = et_node_result(loss, 1);
    if (correct)
        *correct = et_node_result(loss, 2);
    return loss;
}

et_node *et_labelled(et_node *labels)
{
    return et_node_unary(ET_OP_LABELLED, labels);
}

et_node *et_weighted_sum(et_node *rows, et_node *weights)
{
    return et_sum(weights ? et_mul(rows, weights) : rows);
}

/* ---- softmax by sampled classes: of the candidates, a gathering of rows, the vocabulary's loss
 * ---- */

et_node *et_candidates(et_scope *scope, const char *name, et_node *labels, int64_t classes,
                       int64_t count, et_node **positions, et_node **offsets)
{
    et_node *poison = &scope->graph->poison;
    *positions = *offsets = poison;
    if (!et_has_name(scope, name) ||
        !et_in_range(scope->graph, ET_OP_CANDIDATES, "count", (double)count, 1, INT_MAX) ||
        !et_in_range(scope->graph, ET_OP_CANDIDATES, "classes", (double)classes, 1, INT_MAX))
        return poison;
    const char *full = et_scope_drawn_name(scope, name);
    et_attributes attributes = { .site = et_random_site(full),
                                 .count = (int)count,
                                 .classes = classes };
    et_node *candidates =
        et_node_add(scope->graph, ET_OP_CANDIDATES, full, &labels, 1, &attributes);
    *positions = et_node_result(candidates, 1);
    *offsets = et_node_result(candidates, 2);
    return candidates;
}

/* The vocabulary's loss over the candidates' rows, with offsets as fourth input. An operand that is
 * no matrix is refused as in the whole loss. */
et_node *et_sampled_loss(et_scope *scope, et_node *h, et_node *table, et_node *labels,
                         float smoothing, int64_t count)
{
    et_graph *graph = scope->graph;
    if (!table || et_node_shape(table).rank != 2)
        return et_vocabulary_loss(h, table, labels, smoothing);
    const int64_t words = et_node_shape(table).size[0];
    if (!et_in_range(graph, ET_OP_VOCABULARY_LOSS, "smoothing", smoothing, 0, ET_BELOW_1) ||
        !et_in_range(graph, ET_OP_CANDIDATES, "count", (double)count, 1, (double)words))
        return &graph->poison;
    if (!graph->options.training || count == words)
        return et_vocabulary_loss(h, table, labels, smoothing);
    et_node *positions, *offsets;
    et_node *candidates =
        et_candidates(scope, "candidates", labels, words, count, &positions, &offsets);
    et_node *inputs[] = { h, et_gather_rows(table, candidates), positions, offsets };
    et_attributes attributes = { .x = smoothing, .offset = true };
    return et_node_add(graph, ET_OP_VOCABULARY_LOSS, NULL, inputs, 4, &attributes);
}
