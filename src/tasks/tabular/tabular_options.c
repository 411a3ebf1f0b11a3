/* Tables of the tabular task's settings: a row is a member of tabular_options.h. Relations of two
 * settings are checked below; relations with the data are checked when the data are open. */
#include "tasks/tabular/tabular_options.h"

#include <stdlib.h>
#include <string.h>

#include <etude/class_scores.h>

#include "base/assert.h"
#include "base/numbers/decimal.h"
#include "base/text/strbuf.h"
#include "data/table/analysis/column_use.h"
#include "formats/events/log_names.h"
#include "tasks/tabular/members.h"
#include "tasks/tabular/tabular_task.h"
#include "train/run/options.h"

#define WIDTH_MAX 65536
#define SEED_MAX  9007199254740992.0 /* 2^53: exact as a limit of a row */

/* ---- task.model ---- */

/* ORDER ET_TABULAR_NUMBERS_*, ET_TABULAR_NORM_*, ET_TABULAR_LINEAR, ... */
static const char *const numbers[] = { "plain", "piecewise_linear", "periodic", NULL };
static const char *const norms[] = { "none", "batch", "layer", NULL };
static const char *const models[] = { "linear",  "feed_forward", "mlp",  "resnet", "ft_transformer",
                                      "realmlp", "tabm",         "pack", NULL };

static const et_field columns_fields[] = {
    ET_FIELD_CHOICE(
        et_tabular_columns, numbers, ET_TABULAR_NUMBERS_PIECEWISE, numbers,
        "encoding of numbers; plain: the number itself; the others also have a piecewise linear "
        "encoding by quantiles, or cosines with learned frequencies (periodic)"),
    ET_FIELD_INT(et_tabular_columns, bins, 0, 0, 1024,
                 "intervals per numeric column; 0: 48, fewer if there are many columns",
                 .with = "numbers=piecewise_linear"),
    ET_FIELD_INT(et_tabular_columns, frequencies, 16, 1, 1024, "cosines per numeric column",
                 .with = "numbers=periodic"),
    ET_FIELD_FLOAT(et_tabular_columns, frequency_scale, 0.1, 1e-6, 100,
                   "standard deviation of the initial frequencies", .with = "numbers=periodic"),
    ET_FIELD_INT(et_tabular_columns, periodic_width, 4, 2, 1024,
                 "width of a numeric column: the number, and combinations of its cosines",
                 .with = "numbers=periodic"),
    ET_FIELD_INT(et_tabular_columns, one_hot_levels, 0, 0, 1024,
                 "text columns with at most this many values are one-hot, others are embedded"),
    ET_FIELD_INT(et_tabular_columns, embedding_width, 0, 0, 1024,
                 "width of a column's embeddings; 0: by the number of its values"),
    ET_FIELD_FLOAT(
        et_tabular_columns, embedding_shrinkage, 0, 0, 1e6,
        "k: the embedding of a value of n training rows is multiplied by n / (n + k); 0: "
        "no factor"),
    ET_FIELD_END
};
static const et_fields columns_table = { "columns", columns_fields };

static const et_field feed_forward_fields[] = {
    ET_FIELD_STRINGS(et_tabular_feed_forward, hidden_layers,
                     "widths of the layers before the logits, such as [64, 32]"),
    ET_FIELD_END
};
static const et_fields feed_forward_table = { "feed_forward", feed_forward_fields };

static const et_field mlp_fields[] = {
    ET_FIELD_STRUCT(et_tabular_mlp, columns, &columns_table, "how columns are joined to one row"),
    ET_FIELD_INT(et_tabular_mlp, num_layers, 3, 0, ET_TABULAR_LAYERS_MAX,
                 "layers before the logits"),
    ET_FIELD_INT(et_tabular_mlp, width, 128, 1, WIDTH_MAX, "units of each layer"),
    ET_FIELD_CHOICE(et_tabular_mlp, activation, ET_ACTIVATION_RELU, et_activation_names,
                    "activation of each layer"),
    ET_FIELD_CHOICE(et_tabular_mlp, norm, ET_TABULAR_NORM_NONE, norms,
                    "normalization before the activation"),
    ET_FIELD_FLOAT(et_tabular_mlp, dropout, 0.1, 0, 0.99, "dropout after each layer",
                   .change = ET_CHANGE_ASK),
    ET_FIELD_END
};
static const et_fields mlp_table = { "mlp", mlp_fields };

static const et_field resnet_fields[] = {
    ET_FIELD_STRUCT(et_tabular_resnet, columns, &columns_table,
                    "how columns are joined to one row"),
    ET_FIELD_INT(et_tabular_resnet, num_blocks, 2, 0, 256, "blocks of two layers"),
    ET_FIELD_INT(et_tabular_resnet, width, 192, 1, WIDTH_MAX, "units between blocks"),
    ET_FIELD_FLOAT(et_tabular_resnet, hidden_factor, 2, 0.01, 64,
                   "units inside a block, as a multiple of the width"),
    ET_FIELD_CHOICE(et_tabular_resnet, norm, ET_TABULAR_NORM_BATCH, norms,
                    "normalization of each block"),
    ET_FIELD_FLOAT(et_tabular_resnet, hidden_dropout, 0.25, 0, 0.99, "dropout inside a block",
                   .change = ET_CHANGE_ASK),
    ET_FIELD_FLOAT(et_tabular_resnet, residual_dropout, 0, 0, 0.99, "dropout after a block",
                   .change = ET_CHANGE_ASK),
    ET_FIELD_END
};
static const et_fields resnet_table = { "resnet", resnet_fields };

/* Defaults are the paper's of three blocks. */
static const et_field ft_transformer_fields[] = {
    ET_FIELD_INT(et_tabular_ft_transformer, num_blocks, 3, 1, 256, "blocks"),
    ET_FIELD_INT(et_tabular_ft_transformer, width, 192, 1, WIDTH_MAX, "width of a column's token"),
    ET_FIELD_INT(et_tabular_ft_transformer, num_attention_heads, 8, 1, 1024,
                 "attention heads; must divide the width"),
    ET_FIELD_FLOAT(et_tabular_ft_transformer, ffn_factor, 4.0 / 3, 0.01, 64,
                   "units inside the feed-forward, as a multiple of the width"),
    ET_FIELD_FLOAT(et_tabular_ft_transformer, attention_dropout, 0.2, 0, 0.99,
                   "dropout on attention weights", .change = ET_CHANGE_ASK),
    ET_FIELD_FLOAT(et_tabular_ft_transformer, ffn_dropout, 0.1, 0, 0.99,
                   "dropout inside the feed-forward", .change = ET_CHANGE_ASK),
    ET_FIELD_FLOAT(et_tabular_ft_transformer, residual_dropout, 0, 0, 0.99,
                   "dropout after each sub-layer", .change = ET_CHANGE_ASK),
    ET_FIELD_END
};
static const et_fields ft_transformer_table = { "ft_transformer", ft_transformer_fields };

/* ORDER: auto, then et_activation. */
static const char *const realmlp_activations[] = { "auto",    "linear", "relu", "gelu", "tanh",
                                                   "sigmoid", "swish",  "selu", "mish", NULL };

static const et_field realmlp_fields[] = {
    ET_FIELD_STRUCT(et_tabular_realmlp, columns, &columns_table,
                    "how columns are joined to one row"),
    ET_FIELD_INT(et_tabular_realmlp, num_layers, 3, 0, ET_TABULAR_LAYERS_MAX,
                 "layers before the logits"),
    ET_FIELD_INT(et_tabular_realmlp, width, 256, 1, WIDTH_MAX, "units of each layer"),
    ET_FIELD_CHOICE(et_tabular_realmlp, activation, ET_TABULAR_ACTIVATION_AUTO, realmlp_activations,
                    "activation of each layer; auto: selu for classes, mish for numbers"),
    ET_FIELD_BOOL(
        et_tabular_realmlp, parametric_activation, false,
        "learn a weight a of the activation for each unit, initially 1: x + a (f(x) - x)"),
    ET_FIELD_FLOAT(et_tabular_realmlp, dropout, 0.15, 0, 0.99, "dropout after each layer",
                   .change = ET_CHANGE_ASK),
    ET_FIELD_END
};
static const et_fields realmlp_table = { "realmlp", realmlp_fields };

static const et_field tabm_fields[] = {
    ET_FIELD_STRUCT(et_tabular_tabm, columns, &columns_table, "how columns are joined to one row"),
    ET_FIELD_INT(et_tabular_tabm, members, 32, 1, 1024,
                 "networks that share their matrices and whose predictions are averaged"),
    ET_FIELD_INT(et_tabular_tabm, num_layers, 2, 0, ET_TABULAR_LAYERS_MAX,
                 "layers before the logits"),
    ET_FIELD_INT(et_tabular_tabm, width, 128, 1, WIDTH_MAX, "units of each layer"),
    ET_FIELD_BOOL(
        et_tabular_tabm, mini, false,
        "each network has its own input scales and logits, and shares all other parameters"),
    ET_FIELD_BOOL(et_tabular_tabm, shared_batches, true,
                  "all networks train on the same batch; false: each network shuffles the rows "
                  "independently, and a step reads batch_size rows for each network"),
    ET_FIELD_CHOICE(et_tabular_tabm, activation, ET_ACTIVATION_RELU, et_activation_names,
                    "activation of each layer"),
    ET_FIELD_FLOAT(et_tabular_tabm, dropout, 0.1, 0, 0.99, "dropout after each layer",
                   .change = ET_CHANGE_ASK),
    ET_FIELD_END
};
static const et_fields tabm_table = { "tabm", tabm_fields };

static const et_field pack_fields[] = {
    ET_FIELD_INT(et_tabular_pack, members, 64, 1, ET_PACK_MEMBERS_MAX,
                 "networks that are trained together, each with its own settings"),
    ET_FIELD_STRINGS(et_tabular_pack, only,
                     "numbers of the members to train, such as [3, 17]; none: the first ones"),
    ET_FIELD_INT(et_tabular_pack, width, 384, 1, WIDTH_MAX, "units of each layer"),
    ET_FIELD_INT(et_tabular_pack, settings_seed, 0, 0, SEED_MAX,
                 "seed of the members' settings: learning rates, weight decay, dropout, layers, "
                 "encoding of numbers"),
    ET_FIELD_INT(et_tabular_pack, one_hot_levels, 128, 0, 1024,
                 "text columns with at most this many values are one-hot, others are embedded"),
    ET_FIELD_INT(et_tabular_pack, patience, 16, 1, 1000000,
                 "validations without a lower loss after which the training of a member ends"),
    ET_FIELD_INT(et_tabular_pack, ensemble_size, 32, 1, 1024,
                 "maximal number of members in the ensemble; a member may count several times"),
    ET_FIELD_END
};
static const et_fields pack_table = { "pack", pack_fields };

static const char *const word_weights[] = { "frequency", "tf-idf", NULL };

static const et_field model_fields[] = {
    ET_FIELD_CHOICE(et_tabular_model, type, ET_TABULAR_MLP, models, "type of model",
                    .selects = true),
    ET_FIELD_STRINGS(et_tabular_model, ignored_features,
                     "features of the features file that are not inputs of the model"),
    ET_FIELD_CHOICE(et_tabular_model, word_weights, ET_TABULAR_WORDS_FREQUENCY, word_weights,
                    "weights of words in free texts; frequency: words of few rows weigh less; "
                    "tf-idf: words of many rows weigh less"),
    ET_FIELD_STRUCT(et_tabular_model, feed_forward, &feed_forward_table,
                    "TensorFX's model: layers with relu"),
    ET_FIELD_STRUCT(et_tabular_model, mlp, &mlp_table,
                    "layers with embeddings, dropout and normalization"),
    ET_FIELD_STRUCT(et_tabular_model, resnet, &resnet_table, "residual blocks"),
    ET_FIELD_STRUCT(et_tabular_model, ft_transformer, &ft_transformer_table,
                    "a Transformer with columns as tokens"),
    ET_FIELD_STRUCT(et_tabular_model, realmlp, &realmlp_table,
                    "layers with scaled inputs and width-independent learning rates"),
    ET_FIELD_STRUCT(et_tabular_model, tabm, &tabm_table,
                    "networks that share matrices and average their predictions"),
    ET_FIELD_STRUCT(et_tabular_model, pack, &pack_table,
                    "networks with different settings, of which validation chooses an ensemble"),
    ET_FIELD_END
};
static const et_fields model_table = { "model", model_fields };

static const et_field member_fields[] = {
    ET_FIELD_STRING(et_tabular_member, name, "", "name of its run in members/"),
    ET_FIELD_FLOAT(et_tabular_member, weight, 1, 1e-9, 1, "weight of its predictions"),
    ET_FIELD_STRUCT(et_tabular_member, model, &model_table, "the model"), ET_FIELD_END
};
static const et_fields member_table = { "ensemble", member_fields };

/* ---- task ---- */

/* One table for training and validation. */
static const et_field set_fields[] = {
    ET_FIELD_STRING(
        et_tabular_set, name, "",
        "prefix of the logged scores of this set, such as new in new/" ET_LOGGED_VALIDATION_LOSS),
    ET_FIELD_STRINGS(et_tabular_set, input_path,
                     "CSV files or JSON lines (.jsonl), plain or .gz; wildcards are allowed"),
    ET_FIELD_END
};
static const et_fields set_table = { "sets", set_fields };

static const et_field part_fields[] = {
    ET_FIELD_STRINGS(et_tabular_part, input_path,
                     "CSV files or JSON lines (.jsonl), plain or .gz; wildcards are allowed",
                     .change = ET_CHANGE_FREE),
    ET_FIELD_FLOAT(et_tabular_part, weight, 1, 1e-6, 1e6,
                   "weight: fraction of the rows that come from this part"),
    ET_FIELD_END
};
static const et_fields part_table = { "mix", part_fields };

static const et_field data_fields[] = {
    ET_FIELD_STRINGS(et_tabular_data, input_path,
                     "CSV files or JSON lines (.jsonl), plain or .gz; wildcards are allowed",
                     .change = ET_CHANGE_FREE),
    ET_FIELD_STRUCTS(et_tabular_data, mix, et_tabular_part, &part_table,
                     "for train_data, instead of input_path: several tables with weights",
                     .change = ET_CHANGE_FREE),
    ET_FIELD_STRUCTS(
        et_tabular_data, sets, et_tabular_set, &set_table,
        "for validation_data, instead of input_path: tables that are evaluated separately",
        .change = ET_CHANGE_FREE),
    ET_FIELD_INT(et_tabular_data, batch_size, 0, 0, 1048576,
                 "rows per batch; 0: in training 256, or a 50th of all rows if there are few, in "
                 "validation 1,024"),
    ET_FIELD_INT(et_tabular_data, seed, -1, -1, SEED_MAX, "seed of the row order; -1: runtime.seed",
                 .nullable = true),
    ET_FIELD_INT(et_tabular_data, limit, 0, 0, UINT32_MAX,
                 "number of rows to use, from the first; 0: all"),
    ET_DATA_ONLY_FIELDS,
    ET_FIELD_END
};
const et_fields et_tabular_data_fields = { "data", data_fields };

/* Transforms of numbers: the first is chosen by the column; the last is the identity. */
enum { NUMERIC_IDENTITY = 6 };
static const char *const numeric[] = {
    "auto", "clip", "standardize", "quantile", "scale", "robust", [NUMERIC_IDENTITY] = "identity",
    NULL
};
static const char *const also[] = { "none",  "clip",   "standardize", "quantile",
                                    "scale", "robust", NULL };
static const et_transform numeric_transforms[] = { 0,
                                                   ET_TRANSFORM_CLIP,
                                                   ET_TRANSFORM_STANDARDIZE,
                                                   ET_TRANSFORM_QUANTILE,
                                                   ET_TRANSFORM_SCALE,
                                                   ET_TRANSFORM_ROBUST,
                                                   [NUMERIC_IDENTITY] = 0 };
static const char *const discrete[] = { "embed", "one-hot", NULL };
static const et_transform discrete_transforms[] = { ET_TRANSFORM_EMBED, ET_TRANSFORM_ONE_HOT };

static const et_field features_fields[] = {
    ET_FIELD_CHOICE(et_tabular_features, numeric, 0, numeric,
                    "transform for numbers; auto: quantile for columns with a long tail, clip for "
                    "others"),
    ET_FIELD_CHOICE(et_tabular_features, discrete, 0, discrete, "transform for texts"),
    ET_FIELD_CHOICE(et_tabular_features, also, 0, also,
                    "second transform for numbers, as a separate feature (X_robust) for other "
                    "models of an ensemble"),
    ET_FIELD_STRINGS(et_tabular_features, drop, "columns that are not inputs of the model"),
    ET_FIELD_STRINGS(et_tabular_features, only,
                     "the only columns that are inputs of the model; empty: all that are useful"),
    ET_FIELD_END
};
static const et_fields features_table = { "features", features_fields };

/* ORDER ET_TABULAR_LOSS_*, ET_TABULAR_TARGET_*, ET_TABULAR_HEADER_*. */
static const char *const losses[] = { "auto",     "softmax", "binary", "squared",
                                      "absolute", "huber",   NULL };
static const char *const target_types[] = { "auto", "class", "number", NULL };
static const char *const headers[] = { "auto", "true", "false", "yes", "no", NULL };

static const et_field task_fields[] = {
    ET_FIELD_STRUCT(et_tabular_options, model, &model_table, "the model",
                    .change = ET_CHANGE_MODEL),
    ET_FIELD_STRUCTS(et_tabular_options, ensemble, et_tabular_member, &member_table,
                     "trained models whose predictions are averaged, instead of model; written by "
                     "`train` for folds and for tabular/auto",
                     .change = ET_CHANGE_MODEL),
    ET_FIELD_STRUCT(et_tabular_options, train_data, &et_tabular_data_fields, "training data",
                    .change = ET_CHANGE_FIXED),
    ET_FIELD_STRUCT(et_tabular_options, validation_data, &et_tabular_data_fields,
                    "validation data; a list is read as sets", .list = "sets", .nullable = true),
    ET_FIELD_FLOAT(
        et_tabular_options, held_out, ET_TABULAR_HELD_OUT, 0, 0.9,
        "fraction of the rows that is held out for validation if validation_data names no "
        "file; every class keeps a row for training; 0: none",
        .change = ET_CHANGE_FIXED),
    ET_FIELD_INT(
        et_tabular_options, n_splits, 0, 0, ET_TABULAR_FOLDS_MAX,
        "number of folds: for each fold, train a model on all other folds and validate it on this "
        "fold; the run averages the models; 0: no folds, a part of the rows is held out",
        .change = ET_CHANGE_FIXED),
    ET_FIELD_INT(et_tabular_options, fold, -1, -1, ET_TABULAR_FOLDS_MAX - 1,
                 "index of the validation fold, from 0; -1: each fold in turn",
                 .change = ET_CHANGE_FIXED),
    ET_FIELD_INT(et_tabular_options, budget, 0, 0, 1000000000,
                 "tabular/auto: limit on the estimated time of all trainings together, in seconds "
                 "on two cores; 0: --time-limit, or 120",
                 .change = ET_CHANGE_FREE),
    ET_FIELD_STRING(et_tabular_options, groups, NULL,
                    "column of groups: rows of a group are never split between training and "
                    "validation; the column is not an input of the model",
                    .change = ET_CHANGE_FIXED),
    ET_FIELD_STRING(et_tabular_options, time, NULL,
                    "column of numbers or dates: rows for validation are later than all rows for "
                    "training",
                    .change = ET_CHANGE_FIXED),
    ET_FIELD_STRINGS(et_tabular_options, target,
                     "column to predict, or a list of columns: either all numbers, or all with two "
                     "classes; null: the target in the features",
                     .change = ET_CHANGE_MODEL, .single = true),
    ET_FIELD_STRINGS(et_tabular_options, quantile_levels,
                     "levels of quantiles to predict instead of the mean, such as [0.1, 0.5, 0.9]: "
                     "above 0, below 1, ascending",
                     .change = ET_CHANGE_MODEL),
    ET_FIELD_STRING(
        et_tabular_options, id, NULL,
        "column with IDs of rows: not an input of the model, copied to predictions; null: none",
        .change = ET_CHANGE_MODEL, .with = "features_path=null"),
    ET_FIELD_STRING(et_tabular_options, weight, NULL,
                    "column with the weight of each row in loss and scores, at least 0; null: all "
                    "rows weigh the same, unless the features have a weight",
                    .change = ET_CHANGE_MODEL),
    ET_FIELD_CHOICE(
        et_tabular_options, target_type, ET_TABULAR_TARGET_AUTO, target_types,
        "whether an integer target is a class or a number; auto: class if it has two values, or at "
        "most 20 that count from 0 or 1",
        .change = ET_CHANGE_FIXED),
    ET_FIELD_STRING(et_tabular_options, delimiter, "",
                    "delimiter of values: a character, or tab; empty: detected in the first rows"),
    ET_FIELD_STRING(et_tabular_options, comment, "",
                    "rows that begin with this character are skipped; empty: none"),
    ET_FIELD_CHOICE(et_tabular_options, header, ET_TABULAR_HEADER_AUTO, headers,
                    "whether the first row of a file has the column names; auto: detected"),
    ET_FIELD_STRINGS(et_tabular_options, missing,
                     "further texts that mean a missing value (empty, ?, NA, N/A, NaN, None, null "
                     "and pandas' other na_values always do); also in rows to predict",
                     .change = ET_CHANGE_MODEL),
    ET_FIELD_INT(et_tabular_options, entries, 0, 0, 100000000,
                 "values kept per text column when Etude makes the metadata; 0: 100,000",
                 .with = "metadata_path=null"),
    ET_FIELD_INT(et_tabular_options, quantiles, 0, 0, 100001,
                 "quantiles kept per numeric column when Etude makes the metadata; 0: 257",
                 .with = "metadata_path=null"),
    ET_FIELD_STRING(et_tabular_options, schema_path, NULL,
                    "schema (YAML); null: the run's own, or inferred from the training data",
                    .change = ET_CHANGE_FREE),
    ET_FIELD_STRING(et_tabular_options, metadata_path, NULL,
                    "metadata (JSON); null: the run's own, or inferred from the training data",
                    .change = ET_CHANGE_FREE),
    ET_FIELD_STRING(et_tabular_options, features_path, NULL,
                    "features (YAML); null: the run's own, or inferred from the training data",
                    .change = ET_CHANGE_FREE),
    ET_FIELD_STRUCT(et_tabular_options, features, &features_table,
                    "columns and transforms when no features file is given",
                    .change = ET_CHANGE_MODEL, .with = "features_path=null"),
    ET_FIELD_CHOICE(et_tabular_options, loss, ET_TABULAR_LOSS_AUTO, losses,
                    "loss; auto: softmax for classes, binary for several targets of two classes, "
                    "squared for numbers, the pinball loss for quantiles",
                    .change = ET_CHANGE_MODEL),
    ET_FIELD_FLOAT(
        et_tabular_options, huber_delta, 1, 1e-6, 1e6,
        "point where the Huber loss becomes linear, in standard deviations of the target",
        .change = ET_CHANGE_ASK, .with = "loss=huber"),
    ET_FIELD_FLOAT(et_tabular_options, label_smoothing, -1, -1, 0.99,
                   "probability spread over the classes that are not the label; -1: the model's, "
                   "0.1 for realmlp and 0 for others",
                   .change = ET_CHANGE_ASK, .nullable = true),
    ET_FIELD_STRINGS(
        et_tabular_options, class_weights,
        "weights of classes in training: balanced, or numbers such as {yes: 3, no: "
        "0.5} (other classes 1). Probabilities are too high for classes with a large weight",
        .change = ET_CHANGE_ASK, .pairs = true),
    ET_FIELD_INT(et_tabular_options, calibration_bins, ET_TABULAR_CALIBRATION_BINS, 1, 1000000,
                 "bins of the calibration error"),
    ET_FIELD_STRING(et_tabular_options, init_checkpoint, NULL,
                    "initial weights of a new run: a file, a run's directory (its newest "
                    "checkpoint) or its best/; null: random"),
    ET_FIELD_STRING(et_tabular_options, init_pattern, NULL,
                    "regular expression: parameters that init_checkpoint initializes; null: all",
                    .with = "init_checkpoint=*"),
    ET_FIELD_STRUCT(et_tabular_options, differential_privacy_config, &et_privacy_fields,
                    "differential privacy: clipped and noisy gradients", .change = ET_CHANGE_FIXED,
                    .nullable = true),
    ET_TASK_ONLY_FIELDS,
    ET_FIELD_END
};
const et_fields et_tabular_fields = { "task", task_fields };

#define REALMLP_SMOOTHING 0.1

double et_tabular_label_smoothing(const et_tabular_options *options)
{
    return options->label_smoothing >= 0               ? options->label_smoothing
           : options->model.type == ET_TABULAR_REALMLP ? REALMLP_SMOOTHING
                                                       : 0;
}

et_transform et_tabular_also(const et_tabular_options *options)
{
    return numeric_transforms[options->features.also];
}

et_feature_choice et_tabular_choice(const et_tabular_options *options)
{
    const et_strings *target = &options->target;
    return (et_feature_choice){ .numeric = numeric_transforms[options->features.numeric],
                                .discrete = discrete_transforms[options->features.discrete],
                                .also = et_tabular_also(options),
                                .target = target->count ? target->items[0] : NULL,
                                .more_targets = target->count ? target->items + 1 : NULL,
                                .more_target_count = target->count ? (int)target->count - 1 : 0,
                                .id = options->id,
                                .groups = options->groups,
                                .weight = options->weight,
                                .unchanged = options->features.numeric == NUMERIC_IDENTITY,
                                .dropped = options->features.drop.items,
                                .dropped_count = (int)options->features.drop.count,
                                .only = options->features.only.items,
                                .only_count = (int)options->features.only.count };
}

/* ---- checks ---- */

int et_tabular_widths(int64_t *widths, int *count, const et_strings *list, const char *name,
                      et_error *error)
{
    et_assert(widths && count && list && name);
    *count = 0;
    if (list->count > ET_TABULAR_LAYERS_MAX)
        return et_fail(error, ET_ECONFIG, "%s: %zu layers; give at most %d", name, list->count,
                       ET_TABULAR_LAYERS_MAX);
    for (size_t i = 0; i < list->count; i++) {
        char *end;
        long long width = strtoll(list->items[i], &end, 10);
        if (*end || end == list->items[i] || width < 1 || width > WIDTH_MAX)
            return et_fail(error, ET_ECONFIG, "%s: \"%s\" is not a width; give 1 to %d units", name,
                           list->items[i], WIDTH_MAX);
        widths[(*count)++] = width;
    }
    return ET_OK;
}

/* Levels that are nearer have one name. */
#define LEVELS_APART 1e-12

int et_tabular_levels(double level[ET_TABULAR_QUANTILES_MAX], int *count, const et_strings *list,
                      et_error *error)
{
    et_assert(level && count && list);
    *count = 0;
    if (list->count > ET_TABULAR_QUANTILES_MAX)
        return et_fail(error, ET_ECONFIG, "task.quantile_levels: %zu levels; give at most %d",
                       list->count, ET_TABULAR_QUANTILES_MAX);
    for (size_t i = 0; i < list->count; i++) {
        char *end;
        const char *text = list->items[i];
        const double p = et_decimal_read(text, &end);
        if (*end || end == text || !(p > 0 && p < 1))
            return et_fail(error, ET_ECONFIG,
                           "task.quantile_levels: \"%.40s\" is no level; give numbers above 0 and "
                           "below 1, such as 0.1, 0.5, 0.9",
                           text);
        if (i && p - level[i - 1] < LEVELS_APART)
            return et_fail(error, ET_ECONFIG,
                           "task.quantile_levels: %s comes after %s; write each level once, in "
                           "ascending order",
                           text, list->items[i - 1]);
        level[(*count)++] = p;
    }
    return ET_OK;
}

static int check_character(const char *name, const char *text, et_error *error)
{
    char character;
    return et_csv_character(&character, text)
               ? ET_OK
               : et_fail(error, ET_ECONFIG, "task.%s: \"%s\" is more than one character", name,
                         text);
}

static int check_model(const et_tabular_model *model, et_error *error)
{
    int64_t widths[ET_TABULAR_LAYERS_MAX];
    int count;
    const et_tabular_ft_transformer *t = &model->ft_transformer;
    if (model->type == ET_TABULAR_FT_TRANSFORMER && t->width % t->num_attention_heads)
        return et_fail(error, ET_ECONFIG,
                       "task.model.ft_transformer.num_attention_heads: %lld heads do not divide "
                       "the width, %lld; choose a divisor of it",
                       (long long)t->num_attention_heads, (long long)t->width);
    int status = model->type == ET_TABULAR_PACK ? et_pack_check(&model->pack, error) : ET_OK;
    return status ? status
                  : et_tabular_widths(widths, &count, &model->feed_forward.hidden_layers,
                                      "task.model.feed_forward.hidden_layers", error);
}

static int check_paths(const char *name, const et_strings *paths, et_error *error)
{
    for (size_t i = 0; i < paths->count; i++)
        if (!*paths->items[i])
            return et_fail(error, ET_ECONFIG, "task.%s: path %zu of %zu is empty; name a file",
                           name, i + 1, paths->count);
    return ET_OK;
}

static int check_item_paths(const char *list, size_t at, const et_strings *paths, et_error *error)
{
    return paths->count ? check_paths(list, paths, error)
                        : et_fail(error, ET_ECONFIG, "task.%s[%zu] names no file", list, at);
}

static int check_sets(const et_tabular_options *o, et_error *error)
{
    const et_structs *all = &o->validation_data.sets;
    const et_tabular_set *sets = all->items;
    int status = ET_OK;
    if (o->train_data.sets.count)
        return et_fail(error, ET_ECONFIG,
                       "task.train_data.sets: sets are only for validation; use input_path or mix");
    if (all->count && o->validation_data.input_path.count)
        return et_fail(error, ET_ECONFIG,
                       "task.validation_data: sets and input_path are both set; move the files "
                       "into a set, or set task.validation_data.input_path=[]");
    if (all->count > ET_TABULAR_SETS_MAX)
        return et_fail(error, ET_ECONFIG, "task.validation_data.sets: %zu sets; give at most %d",
                       all->count, ET_TABULAR_SETS_MAX);
    for (size_t i = 0; i < all->count && !status; i++) {
        status =
            et_item_name_check("validation_data.sets", "sets", &sets->name, sizeof *sets, i, error);
        if (!status)
            status = check_item_paths("validation_data.sets", i, &sets[i].input_path, error);
    }
    return status;
}

static int check_mix(const et_tabular_options *o, et_error *error)
{
    const et_structs *mix = &o->train_data.mix;
    const et_tabular_part *parts = mix->items;
    int status = ET_OK;
    if (o->validation_data.mix.count)
        return et_fail(
            error, ET_ECONFIG,
            "task.validation_data.mix: a mix is only for training; name one table, or sets");
    if (mix->count && o->train_data.input_path.count)
        return et_fail(
            error, ET_ECONFIG,
            "task.train_data: mix and input_path are both set; move the files into the mix");
    if (mix->count > ET_TABULAR_MIX_MAX)
        return et_fail(
            error, ET_ECONFIG,
            "task.train_data.mix: %zu tables; give at most %d (each may have many files)",
            mix->count, ET_TABULAR_MIX_MAX);
    for (size_t i = 0; i < mix->count && !status; i++)
        status = check_item_paths("train_data.mix", i, &parts[i].input_path, error);
    return status;
}

static int check_ensemble(const et_structs *ensemble, et_error *error)
{
    const et_tabular_member *members = ensemble->items;
    int status = ET_OK;
    if (ensemble->count > ET_TABULAR_MEMBERS_MAX)
        return et_fail(error, ET_ECONFIG, "task.ensemble: %zu models; give at most %d",
                       ensemble->count, ET_TABULAR_MEMBERS_MAX);
    for (size_t i = 0; i < ensemble->count && !status; i++) {
        status =
            et_item_name_check("ensemble", "models", &members->name, sizeof *members, i, error);
        if (!status)
            status = check_model(&members[i].model, error);
    }
    return status;
}

/* How rows are split without validation files. */
static int check_split(const et_tabular_options *o, et_error *error)
{
    const bool group = et_tabular_is_named(o->groups), time = et_tabular_is_named(o->time);
    if (o->n_splits == 1)
        return et_fail(error, ET_ECONFIG, "task.n_splits: 1 fold; give 2 or more, or 0 for none");
    if (o->fold >= 0 && o->fold >= o->n_splits)
        return et_fail(error, ET_ECONFIG,
                       "task.fold: there is no fold %lld, as task.n_splits is %lld; folds count "
                       "from 0",
                       (long long)o->fold, (long long)o->n_splits);
    if (group && time)
        return et_fail(error, ET_ECONFIG,
                       "--group and --time (task.groups and task.time) are both set; choose one");
    if ((group || time) && !o->n_splits && o->held_out <= 0)
        return et_fail(error, ET_ECONFIG,
                       "task.%s: no row is held out, as task.held_out is 0; set a fraction, or "
                       "task.n_splits",
                       group ? "groups" : "time");
    for (size_t i = 0; i < o->target.count && (group || time); i++)
        if (!strcmp(o->target.items[i], group ? o->groups : o->time))
            return et_fail(error, ET_ECONFIG,
                           "the column %.60s is both the target and the %s: name another column",
                           o->target.items[i], group ? "group" : "time");
    if (o->validation_data.limit && !et_tabular_has_validation_data(o))
        return et_fail(error, ET_ECONFIG,
                       "task.validation_data.limit: has no effect on rows that are held out; name "
                       "validation data, for example with --valid, or leave it out");
    return ET_OK;
}

/* A pack needs validation, which chooses its ensemble. With folds, there are several packs. */
static int check_pack(const et_tabular_options *o, et_error *error)
{
    const bool folds = o->n_splits && o->fold < 0;
    if (o->ensemble.count && !folds)
        return et_fail(error, ET_ECONFIG,
                       "task.ensemble and task.model.type: pack are both set; set another "
                       "task.model.type");
    return o->held_out > 0 || o->n_splits || et_tabular_has_validation_data(o)
               ? ET_OK
               : et_fail(error, ET_ECONFIG,
                         "task.held_out is 0 and task.validation_data names no file, but "
                         "validation chooses the ensemble of a pack; set one of them");
}

/* A step of one row for each network would clip and count the rows of all as one. */
static int check_privacy(const et_tabular_options *o, et_error *error)
{
    if (!o->differential_privacy_config.per_example || !et_tabular_own_batches(o))
        return ET_OK;
    return et_fail(error, ET_ECONFIG,
                   "task.differential_privacy_config.per_example: a step must read one row, but "
                   "with task.model.tabm.shared_batches=false it reads one for each network; set "
                   "shared_batches to true");
}

static int check_targets(const et_tabular_options *o, et_error *error)
{
    const et_strings *target = &o->target;
    double level[ET_TABULAR_QUANTILES_MAX];
    int levels;
    for (size_t i = 0; i < target->count; i++)
        for (size_t k = 0; k < i; k++)
            if (!strcmp(target->items[i], target->items[k]))
                return et_fail(error, ET_ECONFIG, "task.target: %.60s is named twice; name it once",
                               target->items[i]);
    int status = et_tabular_levels(level, &levels, &o->quantile_levels, error);
    if (status || !levels)
        return status;
    if (target->count > 1)
        return et_fail(error, ET_ECONFIG,
                       "task.quantile_levels: quantiles need one target, but task.target has "
                       "%zu columns; train a run for each",
                       target->count);
    if (o->target_type == ET_TABULAR_TARGET_CLASS)
        return et_fail(error, ET_ECONFIG,
                       "task.quantile_levels: only a number has quantiles, but task.target_type is "
                       "class; leave one of them out");
    if (o->loss != ET_TABULAR_LOSS_AUTO)
        return et_fail(error, ET_ECONFIG,
                       "task.quantile_levels: quantiles are learned by the pinball loss, not by "
                       "task.loss=%s; set task.loss=auto",
                       losses[o->loss]);
    return ET_OK;
}

int et_tabular_check(const void *settings, et_error *error)
{
    et_assert(settings);
    const et_tabular_options *o = settings;
    const et_feature_choice choice = et_tabular_choice(o);
    int status;
    if ((status = check_model(&o->model, error)) ||
        (status = check_ensemble(&o->ensemble, error)) || (status = check_split(o, error)))
        return status;
    if (!o->train_data.input_path.count && !o->train_data.mix.count)
        return et_fail(error, ET_ECONFIG,
                       "task.train_data.input_path names no file; name the training table, for "
                       "example with --data train.csv");
    if ((status = check_paths("train_data.input_path", &o->train_data.input_path, error)) ||
        (status = check_paths("validation_data.input_path", &o->validation_data.input_path, error)))
        return status;
    if (o->label_smoothing < 0 && o->label_smoothing != -1)
        return et_fail(error, ET_ECONFIG,
                       "task.label_smoothing: %g is neither -1 nor from 0 to 0.99",
                       o->label_smoothing);
    if ((status = check_mix(o, error)) || (status = check_sets(o, error)) ||
        (status = check_targets(o, error)) || (status = et_column_choice_check(&choice, error)))
        return status;
    if (!o->target.count && !o->features_path)
        return et_fail(error, ET_ECONFIG,
                       "task.target is not set; name the column to predict, for example with "
                       "--target price (`etude data analyze FILE` lists the columns)");
    if ((o->model.type == ET_TABULAR_PACK && (status = check_pack(o, error))) ||
        (status = check_privacy(o, error)) ||
        (status = check_character("delimiter", o->delimiter, error)))
        return status;
    return check_character("comment", o->comment, error);
}

int et_tabular_check_metric_of(const et_tabular_options *o, const char *name,
                               const char *const *const *lists, et_error *error)
{
    static const char prefix[] = ET_LOGGED_OF_VALIDATION;
    const char *asked = name;
    const et_tabular_set *sets = o->validation_data.sets.items;
    for (size_t i = 0; i < o->validation_data.sets.count; i++) {
        const char *below = et_logged_below(asked, sets[i].name);
        name = below ? below : name;
    }
    const char *of_set = name;
    for (size_t i = 0; i < o->target.count && o->target.count > 1; i++) {
        const char *below = et_logged_below(of_set, o->target.items[i]);
        name = below ? below : name;
    }
    if (o->validation_data.sets.count && of_set == asked)
        return et_fail(error, ET_ECONFIG,
                       "trainer.best_checkpoint_eval_metric: %s does not name a set; write "
                       "SET/METRIC, such as %s/%s",
                       name, sets[0].name, name);
    if (!et_tabular_has_validation_data(o) && o->held_out <= 0 && !o->n_splits)
        return et_fail(error, ET_ECONFIG,
                       "trainer.best_checkpoint_eval_metric: %s needs validation; set "
                       "task.validation_data, or task.held_out",
                       name);
    if (!strncmp(name, prefix, strlen(prefix))) {
        const char *rest = name + strlen(prefix);
        if (!strcmp(rest, "loss") && name == of_set)
            return ET_OK;
        if (!strcmp(rest, "nll") && o->target.count < 2)
            rest = "log_loss"; /* classes of one target have both */
        for (int l = 0; lists[l]; l++)
            for (int i = 0; lists[l][i]; i++)
                if (!strcmp(lists[l][i], rest))
                    return ET_OK;
    }
    et_strbuf known = ET_STRBUF_INIT;
    const char *rest = strncmp(name, prefix, strlen(prefix)) ? name : name + strlen(prefix);
    et_hint hint = { "" };
    for (int l = 0; lists[l]; l++) {
        hint = *hint.text ? hint : et_nearest_hint(rest, lists[l], "");
        for (int i = 0; lists[l][i]; i++)
            et_strbuf_printf(&known, ", %s%s", prefix, lists[l][i]);
    }
    int status =
        et_fail(error, ET_ECONFIG,
                "trainer.best_checkpoint_eval_metric (--metric): validation has no value %s%s (it "
                "has: " ET_LOGGED_VALIDATION_LOSS "%s)",
                name, hint.text, et_strbuf_text(&known));
    et_strbuf_release(&known);
    return status;
}

const char *const et_tabular_label_score_names[] = { "micro_f1", "exact_match", NULL };
const char *const et_tabular_quantile_score_names[] = { "pinball_loss", "d2_pinball", "coverage",
                                                        "interval_width", NULL };

/* Accepts scores of classes and of numbers, because only the data decide which exist. */
int et_tabular_check_metric(const void *settings, const char *name, et_error *error)
{
    const et_tabular_options *o = settings;
    const char *const *lists[4] = { et_class_score_names, et_value_score_names };
    if (o->quantile_levels.count)
        lists[2] = et_tabular_quantile_score_names;
    else if (o->target.count != 1)
        lists[2] = et_tabular_label_score_names;
    return et_tabular_check_metric_of(o, name, lists, error);
}
