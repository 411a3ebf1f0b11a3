/* Settings of the tabular task. */
#ifndef ETUDE_TASKS_TABULAR_TABULAR_OPTIONS_H
#define ETUDE_TASKS_TABULAR_TABULAR_OPTIONS_H

#include <etude/feature_set.h>
#include <etude/layers.h>
#include <etude/privacy.h>

#include "base/fields/fields.h"

/* Most folds of a table. */
#define ET_TABULAR_FOLDS_MAX 100

/* Layers that a list of widths may have. */
#define ET_TABULAR_LAYERS_MAX 64

enum { ET_TABULAR_NORM_NONE, ET_TABULAR_NORM_BATCH, ET_TABULAR_NORM_LAYER };

/* How columns become one row of numbers, unless the model decides it (et_tabular_flatten). */
enum {
    ET_TABULAR_NUMBERS_PLAIN,
    ET_TABULAR_NUMBERS_PIECEWISE,
    ET_TABULAR_NUMBERS_PERIODIC,
    ET_TABULAR_NUMBERS_COSINE, /* of task.model.pack alone */
};
typedef struct et_tabular_columns {
    int numbers;  /* ET_TABULAR_NUMBERS_* */
    int64_t bins; /* of piecewise: of each column, at most; 0: by the number of columns */
    int64_t frequencies, periodic_width; /* of periodic: of each column, the number itself is one of
                                            the width */
    double frequency_scale;     /* of periodic, cosine: deviation of the initial frequencies */
    int64_t embedding_width;    /* of each column of ids; 0: by the number of ids */
    double embedding_shrinkage; /* k: the embedding of an id of n rows has the factor n / (n + k) */
    int64_t one_hot_levels;     /* a column with at most this many values is one-hot; 0: no such
                                   column */
} et_tabular_columns;

/* An activation by the target, or one more than an et_activation. */
#define ET_TABULAR_ACTIVATION_AUTO 0

/* task.model.feed_forward: TensorFX's. */
typedef struct et_tabular_feed_forward {
    et_strings hidden_layers; /* widths */
} et_tabular_feed_forward;

/* task.model.mlp */
typedef struct et_tabular_mlp {
    et_tabular_columns columns;
    int64_t num_layers, width;
    int activation; /* an et_activation */
    int norm;       /* ET_TABULAR_NORM_*, before the activation */
    double dropout; /* after it */
} et_tabular_mlp;

/* task.model.resnet, task.model.ft_transformer: Gorishniy et al. 2021. */
typedef struct et_tabular_resnet {
    et_tabular_columns columns;
    int64_t num_blocks, width;
    double hidden_factor; /* of the width, inside a block */
    int norm;
    double hidden_dropout, residual_dropout;
} et_tabular_resnet;

typedef struct et_tabular_ft_transformer {
    int64_t num_blocks, width, num_attention_heads;
    double ffn_factor; /* of the width, inside the feed-forward */
    double attention_dropout, ffn_dropout, residual_dropout;
} et_tabular_ft_transformer;

/* task.model.realmlp: Holzmueller et al. 2024. */
typedef struct et_tabular_realmlp {
    et_tabular_columns columns;
    int64_t num_layers, width;
    int activation; /* ET_TABULAR_ACTIVATION_AUTO, ... */
    bool parametric_activation;
    double dropout;
} et_tabular_realmlp;

/* task.model.tabm: Gorishniy et al. 2025. */
typedef struct et_tabular_tabm {
    et_tabular_columns columns;
    int64_t members, num_layers, width;
    bool mini;           /* members have own scales of the inputs only */
    bool shared_batches; /* in a step, all members learn from the same rows */
    int activation;      /* an et_activation */
    double dropout;
} et_tabular_tabm;

/* task.model.pack: Gorishniy et al. 2026. */
typedef struct et_tabular_pack {
    int64_t members, width;
    et_strings only;        /* numbers of the members to train; empty: the first ones */
    int64_t settings_seed;  /* of the settings that each member draws */
    int64_t one_hot_levels; /* as in et_tabular_columns */
    int64_t patience;       /* validations without a better loss, after which a member is done */
    int64_t ensemble_size;  /* members that are chosen, at most; one may be chosen several times */
} et_tabular_pack;

enum {
    ET_TABULAR_LINEAR,
    ET_TABULAR_FEED_FORWARD,
    ET_TABULAR_MLP,
    ET_TABULAR_RESNET,
    ET_TABULAR_FT_TRANSFORMER,
    ET_TABULAR_REALMLP,
    ET_TABULAR_TABM,
    ET_TABULAR_PACK,
};

enum { ET_TABULAR_WORDS_FREQUENCY, ET_TABULAR_WORDS_TF_IDF };

/* task.model: a type and its group, as in trainer.optimizer_config. */
typedef struct et_tabular_model {
    int type;                    /* ET_TABULAR_LINEAR, ... */
    et_strings ignored_features; /* names of features that the model ignores */
    int word_weights;            /* ET_TABULAR_WORDS_FREQUENCY, ... (et_tabular_text_vector) */
    et_tabular_feed_forward feed_forward;
    et_tabular_mlp mlp;
    et_tabular_resnet resnet;
    et_tabular_ft_transformer ft_transformer;
    et_tabular_realmlp realmlp;
    et_tabular_tabm tabm;
    et_tabular_pack pack;
} et_tabular_model;

/* task.ensemble: one of several trained models. */
typedef struct et_tabular_member {
    const char *name; /* of its run and before the names of its parameters */
    double weight;    /* of its predictions */
    et_tabular_model model;
} et_tabular_member;

#define ET_TABULAR_MEMBERS_MAX 1024

/* ET_TABULAR_LOSS_AUTO: softmax of classes, binary of several targets with two classes each,
 * squared of numbers, pinball of quantiles. */
enum {
    ET_TABULAR_LOSS_AUTO,
    ET_TABULAR_LOSS_SOFTMAX,
    ET_TABULAR_LOSS_BINARY,
    ET_TABULAR_LOSS_SQUARED,
    ET_TABULAR_LOSS_ABSOLUTE,
    ET_TABULAR_LOSS_HUBER,
};

/* ET_TABULAR_TARGET_AUTO: texts are classes, and so are integers with two consecutive values; other
 * numbers are numbers. With several targets, integers with more than two values are never
 * classes. */
enum { ET_TABULAR_TARGET_AUTO, ET_TABULAR_TARGET_CLASS, ET_TABULAR_TARGET_NUMBER };

enum {
    ET_TABULAR_HEADER_AUTO,
    ET_TABULAR_HEADER_TRUE,
    ET_TABULAR_HEADER_FALSE,
    ET_TABULAR_HEADER_YES, /* the same as TRUE, in the words of other commands */
    ET_TABULAR_HEADER_NO,
};

/* Most sets of validation data, each with its own scores. */
#define ET_TABULAR_SETS_MAX 8
typedef struct et_tabular_set {
    const char *name; /* of its scores: "name/validation_accuracy" */
    et_strings input_path;
} et_tabular_set;

/* Tables of a mix. */
#define ET_TABULAR_MIX_MAX 64
typedef struct et_tabular_part {
    et_strings input_path;
    double weight;
} et_tabular_part;

/* task.train_data, task.validation_data */
typedef struct et_tabular_data {
    et_strings input_path; /* files, wildcards allowed */
    et_structs mix;        /* et_tabular_part: of train_data, in place of input_path */
    et_structs sets;       /* et_tabular_set: of validation_data, in place of input_path */
    int64_t batch_size;    /* rows; 0: by the number of rows */
    int64_t seed;          /* of their order; -1: the run's */
    int64_t limit;         /* number of the first rows to use; 0: all */
} et_tabular_data;

/* task.features: choices for inferred features. */
typedef struct et_tabular_features {
    int numeric, discrete; /* a place in et_tabular_numeric, et_tabular_discrete */
    int also;              /* the same, without identity; 0: none */
    et_strings drop, only; /* columns that are not inputs; the only inputs (empty: all may be) */
} et_tabular_features;

/* Levels of quantiles. */
#define ET_TABULAR_QUANTILES_MAX 99

/* The defaults of held_out and calibration_bins. */
#define ET_TABULAR_HELD_OUT         0.15
#define ET_TABULAR_CALIBRATION_BINS 15

typedef struct et_tabular_options {
    et_tabular_model model;
    et_structs ensemble; /* et_tabular_member: the weighted mean of these; empty: `model` */
    et_tabular_data train_data, validation_data;
    double held_out;  /* share of the training rows to validate on if validation_data names no
                         files; 0: no validation then */
    int64_t n_splits; /* folds; 0: a share is held out */
    int64_t fold;     /* the validated fold, from 0; -1: all rows are learned */
    int64_t budget;   /* of tabular/auto: seconds for all trainings; 0: chosen at the start */
    const char *groups, *time;  /* columns that split rows (et_tabular_parts); NULL: none. At most
                                   one of the two */
    et_strings target;          /* columns; empty: targets of the features */
    et_strings quantile_levels; /* of a number, ascending; empty: the number itself is predicted */
    const char *id;             /* column that is only copied to predictions; NULL: none */
    const char *weight;         /* column of rows' weights; NULL: as in the features, or all 1 */
    int target_type;            /* ET_TABULAR_TARGET_*, for inferred features */
    const char *delimiter;      /* one character; "": found in the first rows */
    const char *comment;        /* lines that begin with this text are left out; "": none */
    int header;                 /* ET_TABULAR_HEADER_* */
    et_strings missing;         /* extra texts of missing values */
    int64_t entries;            /* kept of a discrete column; 0: as data analyze has them */
    int64_t quantiles;          /* of a numeric column, the same */
    const char *schema_path, *metadata_path, *features_path; /* NULL: the run's own, or inferred */
    et_tabular_features features;
    int loss;                 /* ET_TABULAR_LOSS_* */
    double huber_delta;       /* in deviations of the target */
    double label_smoothing;   /* below 0: the model's, et_tabular_label_smoothing */
    et_strings class_weights; /* "balanced", or "label: weight" */
    int64_t calibration_bins;
    const char *init_checkpoint, *init_pattern; /* as in et_task */
    et_privacy_options differential_privacy_config;
    const struct et_tabular_task *open; /* not a setting: an open task whose rows this task shares,
                                           if both read the same files; NULL: none */
} et_tabular_options;

extern const et_fields et_tabular_fields;
extern const et_fields et_tabular_data_fields; /* of et_tabular_data */

/* Scores in addition to those of <etude/class_scores.h>, ended by NULL. For labels: micro_f1, the
 * F1 of all labels together; exact_match, the share of rows with all labels right. For quantiles:
 * the mean of the pinball loss over levels, and d2_pinball (ET_TABULAR_D2). With two or more levels
 * also: the share of targets between the lowest and the highest quantile, ends included, and the
 * mean distance between these two. */
extern const char *const et_tabular_label_score_names[];
extern const char *const et_tabular_quantile_score_names[];

/* Methods of the kind, as for translation: checks that fields can't make; whether validation gives
 * a value of this name. */
int et_tabular_check(const void *settings, et_error *error);
int et_tabular_check_metric(const void *settings, const char *name, et_error *error);
/* The same if the target is known: names are its scores, ended by NULL. */
int et_tabular_check_metric_of(const et_tabular_options *options, const char *name,
                               const char *const *const *lists, et_error *error);

/* task.quantile_levels as numbers; how many. ET_ECONFIG: they are not between 0 and 1, or do not
 * ascend. */
int et_tabular_levels(double level[ET_TABULAR_QUANTILES_MAX], int *count, const et_strings *list,
                      et_error *error);

/* The label smoothing of a target of classes. */
double et_tabular_label_smoothing(const et_tabular_options *options);

/* How features are inferred. Texts are the options'. */
et_feature_choice et_tabular_choice(const et_tabular_options *options);
/* The second transform of numbers, in a separate feature; IDENTITY: no second transform. */
et_transform et_tabular_also(const et_tabular_options *options);

/* Whether the settings name validation data, so that no rows are held out. */
static inline bool et_tabular_has_validation_data(const et_tabular_options *options)
{
    return options->validation_data.input_path.count || options->validation_data.sets.count;
}

/* Whether each network of a TabM trains on its own batches. */
static inline bool et_tabular_own_batches(const et_tabular_options *options)
{
    return options->model.type == ET_TABULAR_TABM && !options->model.tabm.shared_batches;
}

/* Whether the model is a pack, not the mean of several packs. */
static inline bool et_tabular_is_pack(const et_tabular_options *options)
{
    return options->model.type == ET_TABULAR_PACK && !options->ensemble.count &&
           !(options->n_splits && options->fold < 0);
}

/* Whether a pack can learn these targets: a number of targets with two classes each (0: one target
 * of any kind), and a number of quantiles. Packs support neither several targets nor quantiles
 * yet. */
static inline bool et_pack_learns(size_t labels, size_t quantiles)
{
    return !labels && !quantiles;
}

static inline bool et_tabular_is_named(const char *name)
{
    return name && *name;
}

/* Widths as numbers, from 1 to 65536; count is at most ET_TABULAR_LAYERS_MAX. name: of the setting.
 * ET_ECONFIG. */
int et_tabular_widths(int64_t *widths, int *count, const et_strings *list, const char *name,
                      et_error *error);

#endif
