/* Outputs of models, and their losses.
 *
 *   classes   softmax: -sum_i t_i log softmax(z)_i, t smoothed; times the label's weight
 *             binary: z one number, p = sigmoid(z) that of class 1
 *   values    t is in the encoder's unit (et_encoder_unit). z is standardised: the loss is of z and
 *             (t - mean) / deviation, and the output is z deviation + mean; squared, absolute,
 *             huber, the mean over targets
 *
 * Of an ensemble the output is the weighted mean of its models' outputs. Its loss, which is only
 * measured, is that of this mean: of values in the encoder's unit.
 *
 * With weights w of rows the loss is sum w loss / sum w, of rows with a label; weights of classes
 * are factors of the loss only.
 *
 * Of a model with members the loss is the mean of the members' losses, and the output is the mean
 * of their outputs: of probabilities, or of values. Of a pack the loss of training is their sum, so
 * that no member's gradient depends on how many there are, and the output is the weighted mean of
 * its ensemble.
 *
 * Means, deviations and weights of classes are variables, set from the training rows before the
 * first step (et_tabular_fit in fit.c), so a checkpoint contains them. */
#include <etude/pass.h>

#include "engine/graph/build.h"
#include "tasks/tabular/models.h"
#include "tasks/tabular/pack/pack.h"
#include "tasks/tabular/tabular_task_private.h"

static et_node *vector(et_scope *scope, const char *name, int64_t size)
{
    return et_variable(et_in(scope, ET_TABULAR_TARGET_SCOPE), name, et_shape_1(size),
                       (et_init){ ET_INIT_ONES, 0 });
}

static bool binary(const et_tabular_options *options)
{
    return options->loss == ET_TABULAR_LOSS_BINARY;
}

/* The mean over members, [rows, members * width] to [rows, width]. */
static et_node *mean_of(et_node *y, int64_t members, int64_t width)
{
    et_node *sum = NULL;
    if (members == 1)
        return y;
    if (width == 1)
        return et_row_mean(y);
    for (int64_t i = 0; i < members; i++) {
        et_node *one = et_slice_columns(y, i * width, width);
        sum = sum ? et_add(sum, one) : one;
    }
    return et_scale(sum, 1 / (float)members);
}

/* Numbers that a member gives for a row. */
static int64_t width_of(const et_tabular_options *options, const et_tabular_target *target)
{
    return target->values ? target->values : binary(options) ? 1 : target->classes;
}

static int64_t members_of(const et_node *z, int64_t width)
{
    const et_shape shape = et_node_shape(z);
    return shape.rank == 2 ? shape.size[1] / width : 1;
}

/* Probabilities, or standardised values, of each member by its own z. */
static et_node *predictions(const et_tabular_options *options, const et_tabular_target *target,
                            et_node *z)
{
    const int64_t width = width_of(options, target), members = members_of(z, width);
    const et_shape shape = et_node_shape(z);
    if (target->values)
        return z;
    if (binary(options))
        return et_sigmoid(z);
    if (members == 1)
        return et_softmax(z);
    et_node *y = et_softmax(et_reshape(z, et_shape_2(shape.size[0] * members, width)));
    return et_reshape(y, shape);
}

/* Scores or values, of what the whole model predicts, [rows, width]. */
static et_node *output_of(et_scope *scope, const et_tabular_options *options,
                          const et_tabular_target *target, et_node *y)
{
    if (target->values) {
        et_node *mean = vector(scope, ET_TABULAR_MEAN, target->values);
        et_node *deviation = vector(scope, ET_TABULAR_DEVIATION, target->values);
        return et_add(et_mul(y, deviation), mean);
    }
    if (!binary(options))
        return y;
    et_node *both[] = { et_offset(et_scale(y, -1), 1), y };
    return et_concatenate_columns(both, 2);
}

static void put_output(et_scope *scope, const et_tabular_target *target, et_node *output)
{
    et_output(scope, target->values ? ET_TABULAR_VALUES : ET_TABULAR_SCORES, output);
}

/* which: members of training that are not done, or of the ensemble that predicts. Validation has
 * all, as they are and at their best, whose predictions are an output. */
static et_node *build_pack(et_scope *scope, const et_tabular_options *options,
                           const et_encoder *encoder, const et_tabular_target *target,
                           const bool *which)
{
    const et_tabular_pack *pack = &options->model.pack;
    const int64_t width = width_of(options, target);
    const bool training = et_scope_training(scope);
    et_node *z =
        training || !which ? et_pack_build(scope, &options->model, encoder, width, which) : NULL;
    if (training)
        return z;
    et_node *best = et_pack_build_best(scope, &options->model, encoder, width, which);
    best = predictions(options, target, best);
    et_node *mean = et_pack_mean(scope, pack, best, width, which);
    put_output(scope, target, output_of(scope, options, target, mean));
    if (which)
        return best;
    et_node *both[] = { predictions(options, target, z), best };
    et_output(scope, ET_TABULAR_MEMBERS, et_concatenate_columns(both, 2));
    et_pack_declare(scope, pack);
    return z;
}

/* What a model predicts: probabilities of classes, or values. *z: its output for the loss. */
static et_node *predict(et_scope *scope, const et_tabular_options *options,
                        const et_tabular_model *model, const et_encoder *encoder,
                        const et_tabular_target *target, et_node **z)
{
    const int64_t width = width_of(options, target);
    *z = et_tabular_model_build(scope, model, encoder, width);
    return et_scope_training(scope)
               ? NULL
               : output_of(scope, options, target,
                           mean_of(predictions(options, target, *z), members_of(*z, width), width));
}

/* Below it the logarithm is of no use. */
#define LEAST_PROBABILITY 1e-30f

/* The weighted mean of the models' predictions. *z: logarithms of probabilities are logits of
 * these; values are in the encoder's unit. */
static et_node *predict_ensemble(et_scope *scope, const et_tabular_options *options,
                                 const et_encoder *encoder, const et_tabular_target *target,
                                 et_node **z)
{
    const et_tabular_member *members = options->ensemble.items;
    et_node *sum = NULL;
    if (et_scope_training(scope))
        return *z = et_graph_poison(et_scope_graph(scope),
                                    "task.ensemble: the models are trained one by one, and their "
                                    "mean is not trained; leave task.ensemble out");
    for (size_t i = 0; i < options->ensemble.count; i++) {
        et_node *one =
            predict(et_in(scope, members[i].name), options, &members[i].model, encoder, target, z);
        one = et_scale(one, (float)members[i].weight);
        sum = sum ? et_add(sum, one) : one;
    }
    if (target->values)
        return *z = sum;
    et_node *logs = et_ln(et_clamp(sum, LEAST_PROBABILITY, 1));
    *z =
        binary(options) ? et_sub(et_slice_columns(logs, 1, 1), et_slice_columns(logs, 0, 1)) : logs;
    return sum;
}

et_node *et_tabular_build_outputs(et_scope *scope, const et_tabular_options *options,
                                  const et_encoder *encoder, const et_tabular_target *target,
                                  const bool *which)
{
    if (!options->ensemble.count && options->model.type == ET_TABULAR_PACK)
        return build_pack(scope, options, encoder, target, which);
    et_node *z, *predicted = options->ensemble.count
                                 ? predict_ensemble(scope, options, encoder, target, &z)
                                 : predict(scope, options, &options->model, encoder, target, &z);
    if (!et_scope_training(scope))
        put_output(scope, target, predicted);
    return z;
}

/* ---- weights of rows ---- */

/* [rows, 1]; NULL: all are 1. */
static et_node *row_weights(et_scope *scope, const et_tabular_target *target)
{
    return target->weight ? et_reshape(et_batch_input(scope, target->weight),
                                       et_shape_2(et_scope_layout(scope)->capacity[0], 1))
                          : NULL;
}

/* rows [rows, 1] */
static et_node *weighted(et_node *rows, et_node *weights)
{
    return weights ? et_mul(rows, weights) : rows;
}

/* The loss of rows; counts [rows, 1]: what each counts in the divisor, NULL: the rows themselves.
 */
static void put_loss(et_scope *scope, et_node *rows, et_node *weights, et_node *counts)
{
    if (weights)
        et_loss_over(scope, "loss", et_mul(rows, weights), 1, et_sum(counts));
    else
        et_loss(scope, "loss", rows, 1);
}

/* ---- classes ---- */

/* Of each row's label; only training is weighted. NULL: all are 1. */
static et_node *label_weights(et_scope *scope, const et_tabular_options *options,
                              const et_tabular_target *target, et_node *labels)
{
    if (!options->class_weights.count || !et_scope_training(scope))
        return NULL;
    et_node *weight = vector(scope, ET_TABULAR_CLASS_WEIGHT, target->classes);
    return et_row_sum(et_mul(et_one_hot(labels, target->classes), weight));
}

/* The factor on the sum of members' losses. */
static float share_of(et_scope *scope, const et_tabular_options *options, int64_t members)
{
    const bool sum = options->model.type == ET_TABULAR_PACK && et_scope_training(scope);
    return sum ? 1 : 1 / (float)members;
}

/* Each row's loss, and the mean over members of the two measures. */
static et_node *softmax_rows(et_scope *scope, const et_tabular_options *options, et_node *logits,
                             et_node *labels, int64_t width, et_node *measure[2])
{
    const int64_t members = members_of(logits, width);
    const float smoothing = (float)et_tabular_label_smoothing(options);
    et_node *sum[3] = { NULL };
    for (int64_t i = 0; i < members; i++) {
        et_node *one[3];
        et_node *own = members == 1 ? logits : et_slice_columns(logits, i * width, width);
        one[0] = et_cross_entropy(own, labels, smoothing, &one[1], &one[2]);
        for (int k = 0; k < 3; k++)
            sum[k] = sum[k] ? et_add(sum[k], one[k]) : one[k];
    }
    for (int k = 0; k < 2; k++)
        measure[k] = et_scale(sum[k + 1], 1 / (float)members);
    return et_scale(sum[0], share_of(scope, options, members));
}

/* weights: of labels. */
static void softmax_loss(et_scope *scope, const et_tabular_options *options, et_node *logits,
                         et_node *labels, int64_t width, et_node *weights, et_node *of_rows)
{
    et_node *measure[2];
    if (!weights && !of_rows && options->model.type != ET_TABULAR_PACK &&
        members_of(logits, width) == 1) {
        const float smoothing = (float)et_tabular_label_smoothing(options);
        et_loss(scope, "loss", et_softmax_loss(logits, labels, smoothing), 1);
        return;
    }
    et_node *rows = softmax_rows(scope, options, logits, labels, width, measure);
    et_node *counts = weighted(et_labelled(labels), of_rows), *all = et_sum(counts);
    put_loss(scope, weighted(rows, weights), of_rows, counts);
    if (!weights)
        et_measure(scope, "nll", et_sum(weighted(measure[0], of_rows)), all);
    et_measure(scope, "accuracy", et_sum(weighted(measure[1], of_rows)), all);
}

typedef et_node *loss_fn(et_node *z, et_node *t, const et_tabular_options *options);

/* t: [rows, width]. Members with the same loss are one pass over z; of a pack each has its own, so
 * that its numbers do not depend on the others. */
static et_node *rows_of(et_scope *scope, const et_tabular_options *options, et_node *z, et_node *t,
                        int64_t width, loss_fn *loss)
{
    const int64_t members = members_of(z, width);
    et_node *sum = NULL;
    if (options->model.type != ET_TABULAR_PACK)
        return loss(z, et_tabular_repeat(t, members), options);
    for (int64_t i = 0; i < members; i++) {
        et_node *one = loss(et_slice_columns(z, i * width, width), t, options);
        sum = sum ? et_add(sum, one) : one;
    }
    return et_scale(sum, share_of(scope, options, members));
}

static et_node *binary_of(et_node *z, et_node *t, const et_tabular_options *options)
{
    (void)options;
    return et_binary_cross_entropy(z, t);
}

/* Label smoothing e as of two classes: t is 1 - e or e. */
static void binary_loss(et_scope *scope, const et_tabular_options *options, et_node *logits,
                        et_node *labels, et_node *weights, et_node *of_rows)
{
    const float smoothing = (float)et_tabular_label_smoothing(options);
    et_node *labelled = et_labelled(labels);
    et_node *t = et_slice_columns(et_one_hot(labels, 2), 1, 1);
    t = et_copy(t, ET_F32, et_node_shape(t));
    t = et_offset(et_scale(t, 1 - 2 * smoothing), smoothing);
    et_node *rows = et_mul(rows_of(scope, options, logits, t, 1, binary_of), labelled);
    put_loss(scope, weighted(rows, weights), of_rows, weighted(labelled, of_rows));
}

/* ---- values ---- */

static et_node *value_of(et_node *z, et_node *t, const et_tabular_options *options)
{
    if (options->loss == ET_TABULAR_LOSS_ABSOLUTE)
        return et_absolute_error(z, t);
    return options->loss == ET_TABULAR_LOSS_HUBER
               ? et_huber_error(z, t, (float)options->huber_delta)
               : et_squared_error(z, t);
}

static void values_loss(et_scope *scope, const et_tabular_options *options,
                        const et_tabular_target *target, et_node *t, et_node *z)
{
    if (!options->ensemble.count) {
        et_node *mean = vector(scope, ET_TABULAR_MEAN, target->values);
        et_node *deviation = vector(scope, ET_TABULAR_DEVIATION, target->values);
        t = et_div(et_sub(t, mean), deviation);
    }
    et_node *weights = row_weights(scope, target);
    put_loss(scope, rows_of(scope, options, z, t, target->values, value_of), weights, weights);
}

void et_tabular_build_loss(et_scope *scope, const et_tabular_options *options,
                           const et_tabular_target *target, et_node *labels, et_node *outputs)
{
    if (target->values) {
        values_loss(scope, options, target, labels, outputs);
        return;
    }
    et_node *weights = label_weights(scope, options, target, labels);
    et_node *of_rows = row_weights(scope, target);
    if (binary(options))
        binary_loss(scope, options, outputs, labels, weights, of_rows);
    else
        softmax_loss(scope, options, outputs, labels, target->classes, weights, of_rows);
}
