/* Passes: executable model functions. A model function adds nodes and registers results (et_loss,
 * et_measure, et_output, et_moving_mean). A pass builds its graph, derives it by the trained
 * parameters, plans it for a layout of batches, binds the arrays of a batch by name, and runs.
 *
 *     static void classifier(et_scope *s, void *payload)
 *     {
 *         et_node *h = et_relu(et_dense(et_in(s, "hidden"), et_batch_input(s, "pixels"), 512));
 *         et_node *logits = et_dense(et_in(s, "logits"), h, 10);
 *         et_loss(s, "loss", et_softmax_loss(logits, et_batch_input(s, "labels"), 0), 1);
 *         et_output(s, "logits", logits);
 *         et_penalty(s, "decay", et_scale(et_sum(et_square(logits)), 1e-4f), 1);
 *         et_moving_mean(s, et_variable(s, "mean", et_shape_1(10), (et_init){ 0 }),
 *                        et_column_mean(logits), 0.99f);
 *     }
 *
 *     et_pass_options options = { .training = true };
 *     const et_layout *layout = &source->layout;
 *     if (et_pass_open(&pass, device, params, layout, classifier, NULL, &options, &error) ||
 *         et_params_materialize(params, false, &error)) ...
 *     et_init_draw(params, 1);
 *     et_pass_prepare(pass, layout, &error);       plans now
 *     while (!et_source_next(source, batch, &error))
 *         if (et_pass_run(pass, batch, 1, n++, &error)) ...
 *     const char *first = et_pass_find_not_finite(pass);
 *     et_pass_set_scale(pass, 1024);               for a scaled pass
 *     et_pass_set_dropout(pass, 0.5);              half of all rates of dropout
 *
 * The loss of a batch is a sum over rows or tokens, and gradients are derivatives of this sum. An
 * update divides by the divisor of all its batches (et_pass_divisor), so several batches give the
 * result of one large batch. A pass borrows device and store. Use from one thread at a time. */
#ifndef ETUDE_PASS_H
#define ETUDE_PASS_H

#include <etude/data.h>
#include <etude/device.h>
#include <etude/graph.h>
#include <etude/group.h>

/* ---- in a model function ---- */

/* The field that marks the rows of a batch: 1, or 0 in the empty rest. */
#define ET_BATCH_MASK "mask"

/* The input for a field of batches. Poison: the layout has no such field. */
ET_API et_node *et_batch_input(et_scope *scope, const char *field);

/* Adds weight times the sum of node to the loss. node is any floating-point node, or a loss over
 * rows with its sums (et_softmax_loss, et_vocabulary_loss). The latter add measures "nll" and
 * "accuracy", under "name/" if the name is not "loss". These rows add nothing:
 * - Rows with mask 0, if the layout has the field ET_BATCH_MASK. A node that has as many rows as a
 *   batch, and is made of inputs or random numbers, is multiplied by the mask. So it must be finite
 *   for inputs of 0.
 * - Rows without a label, if the loss uses labels: by et_cross_entropy, by et_labelled, or by
 *   et_one_hot whose result meets a prediction (a node made from the batch with trained
 *   parameters). If several kinds of labels meet in a product, a row needs all kinds; in other ops
 *   any kind is enough.
 *
 * A scalar is used as it is; the caller must leave out such rows. The divisor of the pass is the
 * count of the first loss: rows with a label; without labels, rows with mask 1 if there is a mask,
 * else all rows. */
ET_API void et_loss(et_scope *scope, const char *name, et_node *node, float weight);

/* The same with the caller's divisor: a float32 scalar, at least 0, added up over all batches of an
 * update. With et_sum of weights, the loss is a weighted mean. Only the mask then leaves out rows
 * of node. */
ET_API void et_loss_over(et_scope *scope, const char *name, et_node *node, float weight,
                         et_node *divisor);

/* Adds weight times node, a float32 scalar, to the mean that is minimized, for any number of rows
 * in a batch: a penalty on weights. It is a loss of node times the rows that count for the losses
 * before it, so call it after them. */
ET_API void et_penalty(et_scope *scope, const char *name, et_node *node, float weight);

/* A mean: total over weight, both summed over all batches of a window; float32 scalars. */
ET_API void et_measure(et_scope *scope, const char *name, et_node *total, et_node *weight);

/* A node whose value et_pass_output returns after a run, until the next run. */
ET_API void et_output(et_scope *scope, const char *name, et_node *node);

/* In training, the next update sets variable to momentum * variable + (1 - momentum) * node; for
 * several batches, the mean of node over them. variable: an et_variable node, not trained.
 * momentum: 0 to 1. */
ET_API void et_moving_mean(et_scope *scope, et_node *variable, et_node *node, float momentum);

/* ---- a pass ---- */

typedef void et_build_fn(et_scope *scope, void *payload);

typedef struct et_pass et_pass;

typedef struct et_pass_options {
    bool training;         /* dropout is active, and gradients are computed */
    bool scaled;           /* gradients are multiplied by the factor of et_pass_set_scale */
    bool bfloat16;         /* activations are bfloat16; the store keeps a shadow */
    int recompute;         /* an et_recompute, or ET_RECOMPUTE_AUTO */
    const char *trains;    /* training: derive only by parameters with this prefix; NULL: by all */
    const et_group *group; /* the same by the parameters of a group, instead of trains; copied */
    const char *frozen; /* training: not by parameters whose names contain a match of this regular
                           expression (Perl's syntax); copied. NULL: none */
    const char *name;   /* in traces, static; NULL: "pass" */
} et_pass_options;

/* Builds and derives. Plans are made at the first run, when the store must be materialized. payload
 * is passed to build, also later: batches with other capacities get their own plan, which is kept.
 * ET_EGRAPH: the model does not fit, or a constant id is not below the rows of its table.
 * ET_ECONFIG: a group together with trains, or of another store; frozen is no expression. */
ET_API int et_pass_open(et_pass **out, et_device *device, et_params *params,
                        const et_layout *layout, et_build_fn *build, void *payload,
                        const et_pass_options *options, et_error *error);
ET_API void et_pass_close(et_pass *pass); /* NULL allowed */

/* Plans for a layout before the first run, so that errors appear early. */
ET_API int et_pass_prepare(et_pass *pass, const et_layout *layout, et_error *error);

/* Runs on a batch: computes values, and in training gradients, which overwrite those of the store
 * (of the group). Dropout and samples are functions of (seed, number). Values that are not finite
 * are no error. ET_EDATA: an id or a label of the batch (also through slices and similar ops) is
 * not below the rows of its table or the classes of its loss; or offsets of et_attention decrease,
 * pass the rows or differ by more than longest_key. Other errors come only from planning. */
ET_API int et_pass_run(et_pass *pass, const et_batch *batch, uint64_t seed, uint64_t number,
                       et_error *error);

/* The factor of all gradients from the next run on; 1 if the pass is not scaled. */
ET_API void et_pass_set_scale(et_pass *pass, float scale);

/* The factor on all rates of dropout from the next run on, 0 to 1; 1 at first. The state does not
 * contain it: an optimizer's settings give it (et_optimizer_regularization). */
ET_API void et_pass_set_dropout(et_pass *pass, double factor);

/* Results of the last run. Before the first: NaN, 0, and outputs with shape but without values. */
ET_API double et_pass_loss(const et_pass *pass);    /* weighted sum of the losses */
ET_API double et_pass_divisor(const et_pass *pass); /* the divisor of this sum */
ET_API et_tensor et_pass_output(const et_pass *pass, const char *name); /* data NULL: none */

/* The measures of a pass: its losses and measures, in order; measures of a loss come after it.
 * total / weight is the mean. */
typedef struct et_measured {
    const char *name;
    double total, weight;
} et_measured;
ET_API int et_pass_measures(const et_pass *pass);
ET_API et_measured et_pass_measured(const et_pass *pass, int i); /* all 0: no such measure */

/* Runs the last batch again with the same random numbers and returns the name of the first value
 * that is not finite. NULL: there is none, or no run. */
ET_API const char *et_pass_find_not_finite(et_pass *pass);

#endif
