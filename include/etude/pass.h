/* Passes: a model function made executable. The function adds nodes and says what it wants of them
 * (et_loss, et_measure, et_output, et_moving_mean); a pass builds its graph, derives it by what is
 * trained, plans it for a layout of batches, binds a batch's arrays by name and runs.
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
 *     et_pass_set_scale(pass, 1024);               of a pass that is scaled
 *
 * The loss of a batch is a sum, over rows or tokens; its gradient is that of the sum. Whoever
 * updates divides by the divisor of all batches of the update (et_pass_divisor): several batches
 * give what one large one would. A pass borrows device and store; one thread at a time. */
#ifndef ETUDE_PASS_H
#define ETUDE_PASS_H

#include <etude/data.h>
#include <etude/device.h>
#include <etude/graph.h>

/* ---- in a model function ---- */

/* The field that says which rows are there: 1, or 0 in the rest of a short batch. */
#define ET_BATCH_MASK "mask"

/* The input that a batch's field is bound to. Poison: the layout has no such field. */
ET_API et_node *et_batch_input(et_scope *scope, const char *field);

/* Adds weight times the sum of node to the loss. node is a loss over rows with its sums
 * (et_softmax_loss, et_vocabulary_loss: measures "nll" and "accuracy" come with it, under "name/"
 * where the name is not "loss") or any floating-point node. Rows with mask 0, if the layout has the
 * field ET_BATCH_MASK, count nothing: a node that has as many rows as a batch, and is made of
 * inputs or random numbers, is multiplied by the mask, and so has to be finite there, where inputs
 * are 0. Rows without a label count nothing either, in a loss that is made of labels: by
 * et_cross_entropy, et_labelled, or et_one_hot where its result meets a prediction (a node that
 * trained parameters made of the batch). With labels of several kinds a row of a product needs all
 * of them, another row any of them. A scalar is taken as it is: rows in it that do not count are
 * the caller's to leave out. The first loss's count is the divisor of the pass: rows with a label;
 * of a loss without labels rows with mask 1, if there is a mask, else all rows. */
ET_API void et_loss(et_scope *scope, const char *name, et_node *node, float weight);

/* The same with a divisor of the caller: a float32 scalar, at least 0, added up over all batches of
 * an update; et_sum of weights gives a weighted mean. Only the mask leaves out rows of node then.
 */
ET_API void et_loss_over(et_scope *scope, const char *name, et_node *node, float weight,
                         et_node *divisor);

/* Adds weight times node, a float32 scalar, to the mean that is minimized, however many rows a
 * batch has: what penalises weights. It is a loss of node times the rows that count for the losses
 * before it, so it stands behind them. */
ET_API void et_penalty(et_scope *scope, const char *name, et_node *node, float weight);

/* A mean: total over weight, both summed over all batches of a window; scalars, float32. */
ET_API void et_measure(et_scope *scope, const char *name, et_node *total, et_node *weight);

/* Kept after a run, until the next: et_pass_output. */
ET_API void et_output(et_scope *scope, const char *name, et_node *node);

/* In training: variable, which is not trained, becomes momentum variable + (1 - momentum) node at
 * the next update; of several batches, their mean. variable is an et_variable node, momentum
 * from 0 to 1. */
ET_API void et_moving_mean(et_scope *scope, et_node *variable, et_node *node, float momentum);

/* ---- a pass ---- */

typedef void et_build_fn(et_scope *scope, void *payload);

typedef struct et_pass et_pass;

typedef struct et_pass_options {
    bool training;      /* dropout acts, derivatives are made */
    bool scaled;        /* gradients are times et_pass_set_scale's factor */
    bool bfloat16;      /* activations; the store keeps a shadow */
    int recompute;      /* an et_recompute, or ET_RECOMPUTE_AUTO */
    const char *trains; /* training: derive by what has names that begin so; NULL: by all */
    const char *name;   /* in traces, static; NULL: "pass" */
} et_pass_options;

/* Builds and derives; plans come with the first run, when the store has been materialized. payload
 * is handed to build, also later: a batch of other capacities has its own plan, which is kept.
 * ET_EGRAPH: the model does not fit, as a constant id that is not below the rows of its table. */
ET_API int et_pass_open(et_pass **out, et_device *device, et_params *params,
                        const et_layout *layout, et_build_fn *build, void *payload,
                        const et_pass_options *options, et_error *error);
ET_API void et_pass_close(et_pass *pass); /* NULL allowed */

/* Plans for a layout before the first run, so that what may fail fails early. */
ET_API int et_pass_prepare(et_pass *pass, const et_layout *layout, et_error *error);

/* Runs on a batch: values, and in training gradients, which overwrite the store's (of the group).
 * Dropout and what is sampled are functions of (seed, number). A value that is not finite is no
 * failure. ET_EDATA: an id or a label of the batch that is read (through slices and their like) and
 * is not below the rows of its table, or the classes of its loss; offsets of et_attention that
 * fall, pass the rows or are more than longest_key apart. Else it fails only where it has to plan.
 */
ET_API int et_pass_run(et_pass *pass, const et_batch *batch, uint64_t seed, uint64_t number,
                       et_error *error);

/* The factor of all gradients from the next run on; 1 of a pass that is not scaled. */
ET_API void et_pass_set_scale(et_pass *pass, float scale);

/* Of the last run. Before the first: NaN, 0, and what of outputs is known, which have no values. */
ET_API double et_pass_loss(const et_pass *pass);    /* weighted sum of the losses */
ET_API double et_pass_divisor(const et_pass *pass); /* what it is a sum of */
ET_API et_tensor et_pass_output(const et_pass *pass, const char *name); /* data NULL: no such */

/* What a pass measures: its losses and measures, in order; a loss's own come behind it.
 * total / weight is the mean. */
typedef struct et_measured {
    const char *name;
    double total, weight;
} et_measured;
ET_API int et_pass_measures(const et_pass *pass);
ET_API et_measured et_pass_measured(const et_pass *pass, int i); /* all 0: no such measure */

/* Runs the last batch again, with the same numbers: the name of the first value that is not
 * finite, NULL: none, or no run. */
ET_API const char *et_pass_find_not_finite(et_pass *pass);

#endif
