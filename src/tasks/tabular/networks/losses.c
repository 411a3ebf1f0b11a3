/* Outputs of models, and their losses.
 *
 *   classes   softmax: -sum_i t_i log softmax(z)_i, t smoothed; times the label's weight
 *             binary: z is one number, and p = sigmoid(z) is the probability of class 1
 *   labels    several targets with two classes: for each, z is one number, and p = sigmoid(z) is
 *             the probability of yes; the mean over targets
 *   values    t is in the encoder's unit (et_encoder_unit). z is standardised: the loss is of z and
 *             (t - mean) / deviation, and the output is z deviation + mean; squared, absolute,
 *             huber, the mean over targets
 *   quantiles of levels p_1 < ... < p_K, in the same unit. The quantile of the level nearest to 1/2
 *             is z + Phi^-1(p). Each higher one is softplus(z + c) above the quantile before it,
 *             each lower one as far below. Where z is 0, c makes this distance
 *             Phi^-1(p_k) - Phi^-1(p_(k-1)). So quantiles never cross, neither in the loss nor in
 *             predictions, and begin as those of a normal distribution. The loss is the mean over
 *             levels of max(p e, (p - 1) e) with e = t - q (Koenker and Bassett, "Regression
 *             quantiles", Econometrica 46, 1978)
 *
 * The output of an ensemble is the weighted mean of its models' outputs. The loss of this mean, for
 * values in the encoder's unit, is only measured.
 *
 * With weights w of rows, the loss is sum w loss / sum w over rows with a label. Weights of classes
 * are factors of the loss only.
 *
 * For a model with members, loss and output are the means of the members' losses and outputs
 * (probabilities or values). The training loss of a pack is the sum, so that no member's gradient
 * depends on the number of members; its output is the weighted mean of its ensemble.
 *
 * Means, deviations and weights of classes are variables, set from the training rows before the
 * first step (et_tabular_init_from_rows), so a checkpoint contains them. */
#include <math.h>

#include <etude/pass.h>

#include "base/arena.h"
#include "base/assert.h"
#include "data/table/features/transforms.h"
#include "engine/graph/build.h"
#include "engine/graph/graph.h"
#include "tasks/tabular/members.h"
#include "tasks/tabular/networks/networks_private.h"
#include "tasks/tabular/target/target.h"

/* Biases are initialized like weights, uniformly within 1 / sqrt(inputs). Encoded columns may be
 * zeros at the start, and without biases relu would have no gradient. */
static et_node *dense(et_scope *scope, et_node *x, int64_t units)
{
    const et_shape in = et_node_shape(x);
    const int64_t inputs = in.rank == 2 ? in.size[1] : 1;
    const et_init drawn = { ET_INIT_UNIFORM, 1 / sqrtf((float)inputs) };
    et_node *weight = et_param(scope, "weight", et_shape_2(inputs, units), drawn);
    et_node *bias = et_param(scope, "bias", et_shape_1(units), drawn);
    return et_matmul(x, weight, bias, NULL);
}

/* The outputs of all members side by side, float32 [rows, members * outputs], below a scope of the
 * model. which: [members] of the pack, true if the graph has the member; NULL: all. */
static et_node *build(et_scope *root, et_scope *scope, const et_tabular_model *model,
                      const et_encoder *encoder, int64_t outputs, const bool *which)
{
    const et_tabular_pack *pack = &model->pack;
    const int64_t all = et_pack_count(pack);
    et_node **parts = et_arena_array(&et_scope_graph(scope)->arena, all, sizeof *parts);
    et_tabular_inputs inputs;
    int count = 0;
    if (!parts)
        return et_graph_out_of_memory(et_scope_graph(scope));
    et_tabular_inputs_open(&inputs, root, encoder, &model->ignored_features);
    for (int64_t i = 0; i < all; i++) {
        const et_pack_member m = et_pack_member_at(pack, i);
        if (which && !which[i])
            continue;
        et_scope *member = et_at(scope, ET_PACK_MEMBER, (int)m.number);
        /* Each member has its own embeddings of texts, so that members do not depend on each
         * other. */
        inputs.learned = member;
        et_node *x = et_tabular_flatten(et_in(member, "columns"), &inputs, &m.columns);
        for (int k = 0; k < m.num_layers; k++) {
            et_scope *layer = et_at(member, ET_PACK_LAYER, k);
            x = et_relu(dense(layer, x, pack->width));
            x = et_dropout(layer, x, (float)m.dropout);
        }
        parts[count++] = dense(et_in(member, "logits"), x, outputs);
    }
    et_node *y = count ? et_concatenate_columns(parts, count)
                       : et_graph_poison(et_scope_graph(scope), "a pack without members");
    return et_copy(y, ET_F32, et_node_shape(y));
}

/* The outputs of all members with their best weights. */
static et_node *pack_best(et_scope *scope, const et_tabular_model *model, const et_encoder *encoder,
                          int64_t outputs, const bool *which)
{
    return build(scope, et_in_fixed(scope, ET_PACK_BEST), model, encoder, outputs, which);
}

/* ---- the ensemble ---- */

static et_node *of_members(et_scope *scope, const et_tabular_pack *pack, const char *name)
{
    return et_variable(et_in(scope, ET_PACK_ENSEMBLE), name, et_shape_1(et_pack_count(pack)),
                       (et_init){ ET_INIT_ZEROS, 0 });
}

/* [1, count] of a vector [members]. */
static et_node *chosen(et_node *vector, const et_tabular_pack *pack, const bool *which)
{
    const int64_t all = et_pack_count(pack);
    et_node *row = et_reshape(vector, et_shape_2(1, all));
    if (!which)
        return row;
    et_node **parts = et_arena_array(&vector->graph->arena, all, sizeof *parts);
    int count = 0;
    if (!parts)
        return et_graph_out_of_memory(vector->graph);
    for (int64_t i = 0; i < all; i++)
        if (which[i])
            parts[count++] = et_slice_columns(row, i, 1);
    return et_concatenate_columns(parts, count);
}

/* The sum of all members' columns, [rows, members * width] to [rows, width]. */
static et_node *sum_of(et_node *y, int64_t members, int64_t width)
{
    et_node *sum = NULL;
    for (int64_t i = 0; i < members; i++) {
        et_node *one = et_slice_columns(y, i * width, width);
        sum = sum ? et_add(sum, one) : one;
    }
    return sum;
}

/* The weighted mean of predictions [rows, members * width] of these members, [rows, width]. */
static et_node *pack_mean(et_scope *scope, const et_tabular_pack *pack, et_node *predictions,
                          int64_t width, const bool *which)
{
    const et_shape shape = et_node_shape(predictions);
    const int64_t columns = shape.rank == 2 ? shape.size[1] : 0;
    et_node *share = chosen(of_members(scope, pack, ET_PACK_SHARE), pack, which);
    share = et_reshape(share, et_shape_2(columns / width, 1));
    share = et_copy(share, ET_F32, et_shape_2(columns / width, width));
    predictions = et_mul(predictions, et_reshape(share, et_shape_1(columns)));
    return width == 1 ? et_row_sum(predictions) : sum_of(predictions, columns / width, width);
}

static et_node *vector(et_scope *scope, const char *name, int64_t size)
{
    return et_variable(et_in(scope, ET_TABULAR_TARGET_SCOPE), name, et_shape_1(size),
                       (et_init){ ET_INIT_ONES, 0 });
}

/* Whether two classes have only one logit, of the second class. */
static bool binary(const et_tabular_target *target)
{
    return target->logits < target->width;
}

/* The mean over members, [rows, members * width] to [rows, width]. */
static et_node *mean_of(et_node *y, int64_t members, int64_t width)
{
    if (members == 1)
        return y;
    return width == 1 ? et_row_mean(y) : et_scale(sum_of(y, members, width), 1 / (float)members);
}

static int64_t members_of(const et_node *z, int64_t width)
{
    const et_shape shape = et_node_shape(z);
    et_assert(width > 0);
    return shape.rank == 2 ? shape.size[1] / width : 1;
}

/* ---- quantiles ---- */

/* softplus(z + c): the distance of levels k and k + 1, by a column of z. */
static et_node *gap_of(const et_tabular_target *target, et_node *z, int k, int column)
{
    const double usual =
        et_normal_quantile(target->level[k + 1]) - et_normal_quantile(target->level[k]);
    return et_softplus(et_offset(et_slice_columns(z, column, 1), (float)log(expm1(usual))));
}

/* Standardised levels, the members one below the other: level number k is [rows * members, 1]. */
static void split_quantiles(const et_tabular_target *target, et_node *z, et_node **level)
{
    const int count = target->quantiles;
    const et_shape shape = et_node_shape(z);
    const int64_t members = members_of(z, count);
    const int middle = target->middle;
    if (members > 1)
        z = et_reshape(z, et_shape_2(shape.size[0] * members, count));
    level[middle] =
        et_offset(et_slice_columns(z, middle, 1), (float)et_normal_quantile(target->level[middle]));
    for (int k = middle + 1; k < count; k++)
        level[k] = et_add(level[k - 1], gap_of(target, z, k - 1, k));
    for (int k = middle - 1; k >= 0; k--)
        level[k] = et_sub(level[k + 1], gap_of(target, z, k, k));
}

/* Probabilities, or standardised values, of each member by its own z; of z's shape. */
static et_node *predictions(const et_tabular_target *target, et_node *z)
{
    const int64_t width = target->logits, members = members_of(z, width);
    const et_shape shape = et_node_shape(z);
    if (target->quantiles) {
        et_node *level[ET_TABULAR_QUANTILES_MAX];
        split_quantiles(target, z, level);
        return et_reshape(et_concatenate_columns(level, target->quantiles), shape);
    }
    if (target->values)
        return z;
    if (target->labels || binary(target))
        return et_sigmoid(z);
    if (members == 1)
        return et_softmax(z);
    et_node *y = et_softmax(et_reshape(z, et_shape_2(shape.size[0] * members, width)));
    return et_reshape(y, shape);
}

/* A variable with a number for each target; one number for all quantiles. */
static et_node *of_target(et_scope *scope, const char *name, const et_tabular_target *target)
{
    et_node *all = vector(scope, name, target->values);
    return target->quantiles ? et_reshape(all, et_shape_scalar()) : all;
}

/* Scores or values from the prediction of the whole model, [rows, width]. */
static et_node *output_of(et_scope *scope, const et_tabular_target *target, et_node *y)
{
    if (target->values) {
        et_node *mean = of_target(scope, ET_TABULAR_MEAN, target);
        et_node *deviation = of_target(scope, ET_TABULAR_DEVIATION, target);
        return et_add(et_mul(y, deviation), mean);
    }
    if (target->labels || !binary(target))
        return y;
    et_node *both[] = { et_offset(et_scale(y, -1), 1), y };
    return et_concatenate_columns(both, 2);
}

/* which: members of training that are not done, or of the ensemble that predicts. Validation has
 * all, as they are and at their best, whose predictions are an output. */
static et_node *build_pack(et_scope *scope, const et_tabular_options *options,
                           const et_encoder *encoder, const et_tabular_target *target,
                           const bool *which)
{
    const et_tabular_pack *pack = &options->model.pack;
    const int64_t width = target->logits;
    const bool training = et_scope_training(scope);
    et_node *z =
        training || !which ? build(scope, scope, &options->model, encoder, width, which) : NULL;
    if (training)
        return z;
    et_node *logits = pack_best(scope, &options->model, encoder, width, which);
    et_node *best = predictions(target, logits);
    et_node *mean = pack_mean(scope, pack, best, width, which);
    et_output(scope, target->kind->output, output_of(scope, target, mean));
    if (which)
        return logits;
    et_node *both[] = { predictions(target, z), best };
    et_output(scope, ET_TABULAR_MEMBERS, et_concatenate_columns(both, 2));
    /* A validation changes these. */
    of_members(scope, pack, ET_PACK_LOSS);
    of_members(scope, pack, ET_PACK_SINCE);
    return z;
}

static et_node *predicted_by(et_scope *scope, const et_tabular_target *target, et_node *z)
{
    const int64_t width = target->logits;
    et_node *mean = mean_of(predictions(target, z), members_of(z, width), width);
    return output_of(scope, target, mean);
}

void et_tabular_name_output(et_scope *scope, const et_tabular_target *target, et_node *z)
{
    et_output(scope, target->kind->output, predicted_by(scope, target, z));
}

/* The predictions of a model: probabilities of classes, or values. *z: its output for the loss. */
static et_node *predict(et_scope *scope, const et_tabular_model *model, const et_encoder *encoder,
                        const et_tabular_target *target, et_node **z)
{
    *z = et_tabular_model_build(scope, model, encoder, target->logits);
    return et_scope_training(scope) ? NULL : predicted_by(scope, target, *z);
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
    const int64_t width = target->logits;
    et_node *sum = NULL;
    if (et_scope_training(scope))
        return *z = et_graph_poison(et_scope_graph(scope),
                                    "task.ensemble: the models are trained one by one, and their "
                                    "mean is not trained; leave task.ensemble out");
    for (size_t i = 0; i < options->ensemble.count; i++) {
        et_scope *own = et_in(scope, members[i].name);
        const et_tabular_model *model = &members[i].model;
        et_node *one;
        if (model->type == ET_TABULAR_PACK) {
            /* The pack's ensemble was chosen while the pack was trained. */
            one = predictions(target, pack_best(own, model, encoder, width, NULL));
            one = pack_mean(own, &model->pack, one, width, NULL);
            one = output_of(own, target, one);
        } else {
            one = predict(own, model, encoder, target, z);
        }
        one = et_scale(one, (float)members[i].weight);
        sum = sum ? et_add(sum, one) : one;
    }
    if (target->values)
        return *z = sum;
    if (target->labels) {
        et_node *no = et_offset(et_scale(sum, -1), 1);
        *z = et_sub(et_ln(et_clamp(sum, LEAST_PROBABILITY, 1)),
                    et_ln(et_clamp(no, LEAST_PROBABILITY, 1)));
        return sum;
    }
    et_node *logs = et_ln(et_clamp(sum, LEAST_PROBABILITY, 1));
    *z = binary(target) ? et_sub(et_slice_columns(logs, 1, 1), et_slice_columns(logs, 0, 1)) : logs;
    return sum;
}

et_node *et_tabular_build_outputs(et_scope *scope, const et_tabular_options *options,
                                  const et_encoder *encoder, const et_tabular_target *target,
                                  const bool *which)
{
    et_assert(options && encoder && target);
    if (et_tabular_is_pack(options))
        return build_pack(scope, options, encoder, target, which);
    if (options->model.type == ET_TABULAR_PACK && !options->ensemble.count)
        return et_graph_poison(et_scope_graph(scope),
                               "no model yet, as packs are trained on folds one by one; train the "
                               "run to its end first");
    et_node *z, *predicted = options->ensemble.count
                                 ? predict_ensemble(scope, options, encoder, target, &z)
                                 : predict(scope, &options->model, encoder, target, &z);
    if (!et_scope_training(scope))
        et_output(scope, target->kind->output, predicted);
    return z;
}

/* ---- weights of rows ---- */

/* rows [rows, 1] */
static et_node *weighted(et_node *rows, et_node *weights)
{
    return weights ? et_mul(rows, weights) : rows;
}

/* The loss of rows. counts [rows, 1]: weight of each row in the divisor; NULL: 1. */
static void put_loss(et_scope *scope, et_node *rows, et_node *weights, et_node *counts)
{
    if (weights)
        et_loss_over(scope, "loss", et_mul(rows, weights), 1, et_sum(counts));
    else
        et_loss(scope, "loss", rows, 1);
}

/* ---- classes ---- */

/* The factor on the sum of members' losses. */
static float share_of(et_scope *scope, const et_tabular_options *options, int64_t members)
{
    const bool sum = et_tabular_is_pack(options) && et_scope_training(scope);
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
    if (!weights && !of_rows && !et_tabular_is_pack(options) && members_of(logits, width) == 1) {
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

/* ---- logits of two classes, and values ---- */

/* z, t: of one shape. */
static et_node *loss_of(const et_tabular_options *options, const et_tabular_target *target,
                        et_node *z, et_node *t)
{
    if (!target->values)
        return et_binary_cross_entropy(z, t);
    if (options->loss == ET_TABULAR_LOSS_ABSOLUTE)
        return et_absolute_error(z, t);
    return options->loss == ET_TABULAR_LOSS_HUBER
               ? et_huber_error(z, t, (float)options->huber_delta)
               : et_squared_error(z, t);
}

/* t: [rows, logits]. Members with the same loss share a pass over z. Members of a pack have a pass
 * each, so that no member's numbers depend on the others. */
static et_node *rows_of(et_scope *scope, const et_tabular_options *options,
                        const et_tabular_target *target, et_node *z, et_node *t)
{
    const int64_t width = target->logits, members = members_of(z, width);
    et_node *sum = NULL;
    if (!et_tabular_is_pack(options))
        return loss_of(options, target, z, et_tabular_repeat(t, members));
    for (int64_t i = 0; i < members; i++) {
        et_node *one = loss_of(options, target, et_slice_columns(z, i * width, width), t);
        sum = sum ? et_add(sum, one) : one;
    }
    return et_scale(sum, share_of(scope, options, members));
}

/* Label smoothing e as of two classes: t is 1 - e or e. */
static void binary_loss(et_scope *scope, const et_tabular_options *options,
                        const et_tabular_target *target, et_node *logits, et_node *labels,
                        et_node *weights, et_node *of_rows)
{
    const float smoothing = (float)et_tabular_label_smoothing(options);
    et_node *labelled = et_labelled(labels);
    et_node *t = et_slice_columns(et_one_hot(labels, 2), 1, 1);
    t = et_copy(t, ET_F32, et_node_shape(t));
    t = et_offset(et_scale(t, 1 - 2 * smoothing), smoothing);
    et_node *rows = et_mul(rows_of(scope, options, target, logits, t), labelled);
    put_loss(scope, weighted(rows, weights), of_rows, weighted(labelled, of_rows));
}

/* t [rows, 1]; z: of an ensemble the quantiles. The mean over members and levels, [rows, 1]. */
static et_node *pinball_of(const et_tabular_options *options, const et_tabular_target *target,
                           et_node *t, et_node *z)
{
    et_node *level[ET_TABULAR_QUANTILES_MAX], *sum = NULL;
    const int64_t members = members_of(z, target->quantiles);
    et_assert(target->quantiles > 0);
    if (!options->ensemble.count)
        split_quantiles(target, z, level);
    else
        for (int k = 0; k < target->quantiles; k++)
            level[k] = et_slice_columns(z, k, 1);
    if (members > 1)
        t = et_reshape(et_tabular_repeat(t, members), et_node_shape(*level));
    for (int k = 0; k < target->quantiles; k++) {
        et_node *above = et_sub(t, level[k]);
        et_node *one =
            et_add(et_scale(above, (float)(target->level[k] - 0.5)), et_scale(et_abs(above), 0.5f));
        sum = sum ? et_add(sum, one) : one;
    }
    sum = et_scale(sum, 1 / (float)target->quantiles);
    return members > 1 ? et_row_mean(et_reshape(sum, et_shape_2(et_node_shape(z).size[0], members)))
                       : sum;
}

void et_tabular_build_loss(et_scope *scope, const et_tabular_options *options,
                           const et_tabular_target *target, et_node *labels, et_node *outputs)
{
    et_assert(options && target && labels && outputs);
    const float smoothing = (float)et_tabular_label_smoothing(options);
    et_node *weights = NULL; /* of each row's label, in training; NULL: all are 1 */
    if (target->values && !options->ensemble.count) {
        et_node *mean = vector(scope, ET_TABULAR_MEAN, target->values);
        et_node *deviation = vector(scope, ET_TABULAR_DEVIATION, target->values);
        labels = et_div(et_sub(labels, mean), deviation);
    }
    if (options->class_weights.count && et_scope_training(scope)) {
        et_node *weight = vector(scope, ET_TABULAR_CLASS_WEIGHT, target->classes);
        weights = et_row_sum(et_mul(et_one_hot(labels, target->classes), weight));
    }
    /* [rows, 1]; NULL: all are 1. */
    et_node *of_rows = target->weight
                           ? et_reshape(et_batch_input(scope, target->weight),
                                        et_shape_2(et_scope_layout(scope)->capacity[0], 1))
                           : NULL;
    if (target->labels && smoothing > 0)
        labels = et_offset(et_scale(labels, 1 - 2 * smoothing), smoothing);
    if (binary(target))
        binary_loss(scope, options, target, outputs, labels, weights, of_rows);
    else if (target->classes)
        softmax_loss(scope, options, outputs, labels, target->classes, weights, of_rows);
    else
        put_loss(scope,
                 target->quantiles ? pinball_of(options, target, labels, outputs)
                                   : rows_of(scope, options, target, outputs, labels),
                 of_rows, of_rows);
}
