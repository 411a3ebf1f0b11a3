/* Sums, softmax, and losses by rows (ops.h).
 *
 * A loss by rows is float32 [T, 1]: a number for each row (sample or token). Weighted and added up,
 * these numbers give the scalar that is differentiated. A row with weight 0 adds nothing, if its
 * loss is finite. A row with label -1 adds nothing and is not counted (et_loss).
 *
 *     et_node *loss = et_weighted_sum(et_huber_error(out, target, 1), weights);
 *     et_loss_over(s, "loss", loss, 1, et_sum(weights));     (pass.h)
 *     et_node *likely = et_mul(et_softmax(out), et_log_softmax(out));       -entropy, by class
 *     et_node *mse = et_mean(et_squared_error(out, target)), *mae = et_absolute_error(out, target);
 *     et_node *centred = et_sub(out, et_column_mean(out)), *totals = et_column_sum(centred);
 *     et_node *nll, *smoothed = et_cross_entropy(out, labels, 0.1f, &nll, NULL);
 *     et_loss_over(s, "smoothed", et_sum(smoothed), 1, et_sum(et_labelled(labels)));
 *
 * Sums and means are float32 for any type of x. Means divide by the number of rows of the plan. */
#ifndef ETUDE_OPS_LOSS_H
#define ETUDE_OPS_LOSS_H

#include <etude/graph.h>

/* ---- sums and means of x [T, D] ---- */

ET_API et_node *et_sum(et_node *x);         /* over all elements, any shape: a scalar */
ET_API et_node *et_mean(et_node *x);        /* the same: a scalar */
ET_API et_node *et_column_sum(et_node *x);  /* over rows: [D] */
ET_API et_node *et_column_mean(et_node *x); /* over rows: [D] */
ET_API et_node *et_row_sum(et_node *x);     /* over columns: [T, 1] */
ET_API et_node *et_row_mean(et_node *x);    /* over columns: [T, 1] */

/* ---- softmax over the columns of each row: x and y [T, D] ---- */

ET_API et_node *et_softmax(et_node *x);     /* y_i = e^x_i / sum_j e^x_j */
ET_API et_node *et_log_softmax(et_node *x); /* y_i = x_i - log sum_j e^x_j */

/* ---- losses by rows: [T, 1]; x and target [T, D], the mean over columns. [T] counts as [T, 1],
 * so a target may be one number for each row ---- */

ET_API et_node *et_squared_error(et_node *x, et_node *target);  /* (x - target)^2 */
ET_API et_node *et_absolute_error(et_node *x, et_node *target); /* |x - target| */

/* With r = x - target: r^2 / 2 if |r| <= delta, else delta (|r| - delta / 2) (Huber 1964). */
ET_API et_node *et_huber_error(et_node *x, et_node *target, float delta);

/* -t log p - (1 - t) log(1 - p) with p = sigmoid(logits) and target t in [0, 1]; finite for any
 * finite logits. */
ET_API et_node *et_binary_cross_entropy(et_node *logits, et_node *target);

/* -sum_i t_i log softmax(logits)_i minus the entropy of t. With label smoothing e, t_y = 1 - e and
 * other t_i = e / (V - 1). logits [T, V], act or float32; labels y int32 [T], below V; negative: an
 * empty row, with loss and derivative 0. *nll: -log softmax(logits)_y. *correct: 1 if the label is
 * the most likely class, else 0. Both are [T, 1], 0 in empty rows and without derivative, for
 * metrics. NULL: not wanted. */
ET_API et_node *et_cross_entropy(et_node *logits, et_node *labels, float smoothing, et_node **nll,
                                 et_node **correct);

/* 1 for rows of labels [T] (int32) with a label, 0 for empty rows: [T, 1]. */
ET_API et_node *et_labelled(et_node *labels);

/* sum_t weights_t rows_t, a scalar; rows and weights [T, 1]; weights NULL: all 1. */
ET_API et_node *et_weighted_sum(et_node *rows, et_node *weights);

#endif
