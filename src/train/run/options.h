/* Settings of the trainer and of its run. Names and defaults are Model Garden's if it has the
 * setting, otherwise Etude's. */
#ifndef ETUDE_TRAIN_RUN_OPTIONS_H
#define ETUDE_TRAIN_RUN_OPTIONS_H

#include <string.h>

#include <etude/graph.h>
#include <etude/privacy.h>

#include "base/fields/fields.h"
#include "engine/optim/options.h"
#include "train/checkpoint/run_names.h"
#include "train/run/run.h"

/* Roles of a cluster. */
#define ET_CLUSTER_WAITS         1.0   /* default of staleness_wait */
#define ET_CLUSTER_GRADIENTS_MAX 65536 /* most gradients per update */

/* trainer.early_stopping */
typedef struct et_early_stopping {
    int64_t patience;   /* the run ends after this many validations in a row without a new best; 0:
                           no limit */
    const char *target; /* the run ends when the best value reaches this value; NULL: no target */
} et_early_stopping;

/* trainer */
typedef struct et_trainer_options {
    et_optimization_options optimizer_config;
    int64_t train_steps;            /* the last update. This and the intervals may be in epochs:
                                       et_trainer_options_resolve */
    int64_t steps_per_loop;         /* most updates of a loop between actions */
    int64_t summary_interval;       /* updates between logs; 0: none */
    int64_t checkpoint_interval;    /* updates between saves; 0: at the end only */
    int64_t validation_interval;    /* updates between validations; 0: none */
    int64_t validation_steps;       /* batches of one validation; -1: all */
    double continuous_eval_timeout; /* seconds without a new checkpoint; continuous_eval ends */
    int64_t max_to_keep;            /* newest checkpoints to keep, besides the best one; 0: all */
    double keep_checkpoint_every_n_hours; /* also keep one checkpoint for each period of this many
                                             hours; 0: none */
    int on_failed_save;                   /* ET_FAILED_SAVE_*: after a second failure in a row */
    int64_t gradient_accumulation;        /* batches per update */
    const char
        *best_checkpoint_eval_metric; /* see et_trainer_best_metric; ET_BEST_AUTO: the task's */
    int best_checkpoint_metric_comp; /* ET_COMPARE_*, or ET_COMPARE_AUTO: which values are better */
    const char *best_checkpoint_export_subdir; /* "best", or another name for a link to it; null: no
                                                  best is kept */
    et_early_stopping early_stopping;
    double loss_upper_bound;      /* a larger loss counts as diverged */
    int64_t recovery_begin_steps; /* first step for which loss_upper_bound counts */
    int64_t recovery_max_trials;  /* most recoveries in a row; 0: the run fails at the first; -1:
                                     also no  bound of the loss */
} et_trainer_options;

#define ET_BEST_AUTO "auto"

/* In addition to ET_COMPARE_HIGHER and LOWER: judged by the metric's name. */
enum { ET_COMPARE_AUTO = 2 };

/* ET_COMPARE_HIGHER or LOWER. metric: the metric that chooses the best checkpoint, not `auto`;
 * NULL: none. */
int et_trainer_best_comparison(const et_trainer_options *options, const char *metric);

/* The value that decides which checkpoint is best; NULL: no best is kept, for example because the
 * folder of the best has no name. */
static inline const char *et_trainer_best_metric(const et_trainer_options *options)
{
    const char *name = options->best_checkpoint_eval_metric;
    const char *folder = options->best_checkpoint_export_subdir;
    return name && *name && folder && *folder ? name : NULL;
}

/* Another name of the folder of the best checkpoint; NULL: none. */
static inline const char *et_trainer_best_link(const et_trainer_options *options)
{
    const char *folder = options->best_checkpoint_export_subdir;
    return folder && *folder && strcmp(folder, ET_CHECKPOINT_BEST) ? folder : NULL;
}

/* The metric in the settings. NULL: no metric, or auto, for which the task chooses it. */
static inline const char *et_trainer_own_metric(const et_trainer_options *options)
{
    const char *name = et_trainer_best_metric(options);
    return name && strcmp(name, ET_BEST_AUTO) ? name : NULL;
}

/* runtime */
typedef struct et_runtime_options {
    int distribution_strategy;    /* ET_STRATEGY_*; all accepted values mean the same */
    int64_t seed;                 /* of initial values, order of data and dropout */
    int mixed_precision_dtype;    /* ET_PRECISION_*: of activations; weights are float32 */
    int recompute;                /* an et_recompute (feed_forward: ET_RECOMPUTE_MARKED), or
                                     ET_RECOMPUTE_AUTO */
    int64_t prefetch;             /* batches read ahead; 0: none */
    const char *loss_scale;       /* "dynamic", or a number; NULL: no scale */
    int64_t data_shards;          /* equal parts of a global batch: a run's bits depend on their
                                     number, not on the number of ranks */
    double peer_timeout;          /* seconds of silence after which a rank is lost */
    bool bfloat16_gradients;      /* between ranks */
    bool sharded_optimizer;       /* each rank keeps a part of the slots */
    int64_t gradients_per_update; /* with roles of a cluster; 0: the number of workers */
    int64_t max_staleness;        /* of a gradient, in updates; -1: two gradients of each worker */
    bool synchronous;             /* an update has one gradient of each worker */
    double staleness_wait;        /* most that a worker waits for weights, times its last batch */
    bool weight_prediction;       /* gradients use the weights predicted for their update */
} et_runtime_options;

enum {
    ET_STRATEGY_OFF,
    ET_STRATEGY_ONE_DEVICE,
    ET_STRATEGY_MIRRORED,
    ET_STRATEGY_MULTI_WORKER_MIRRORED,
    ET_STRATEGY_PARAMETER_SERVER,
    ET_STRATEGY_TPU,
};

enum { ET_PRECISION_AUTO, ET_PRECISION_FLOAT32, ET_PRECISION_BFLOAT16 };

extern const et_fields et_trainer_fields;
extern const et_fields et_runtime_fields;

/* The table of the trainer with a program's update rules (et_optimization_register); in arena. */
int et_trainer_register(const et_fields **table, et_trainer_options *options,
                        const et_optimizer_rule *const *own, et_arena *arena, et_error *error);

/* Checks relations between settings, which the tables cannot check. */
int et_trainer_check(const et_trainer_options *options, et_error *error);
/* trainer.early_stopping.target as a number; *given: the setting has a value. */
int et_trainer_target(const et_trainer_options *options, double *target, bool *given,
                      et_error *error);
#define ET_CLIPPING_NORM 1e8 /* Model Garden's value, almost no clipping */

/* Differential privacy in a kind's settings, by its row with et_privacy_fields; NULL: none. */
const et_privacy_options *et_privacy_in(const et_fields *fields, const void *options);

/* The last step by the settings alone; 0: it depends on the data, or a run may end earlier. */
int64_t et_trainer_last_step(const et_trainer_options *options);
/* Whether a number of steps is given in epochs. */
bool et_trainer_counts_epochs(const et_trainer_options *options);
/* Replaces numbers of epochs by numbers of steps. batches: of a pass over the data; 0: unknown.
 * shards: of a global batch. ET_ECONFIG: a setting is in epochs, and batches is unknown. */
int et_trainer_options_resolve(et_trainer_options *options, int64_t batches, int64_t shards,
                               et_error *error);

int et_runtime_check(const et_runtime_options *options, et_error *error);

/* Names of items of a list of settings: keys of logs, parts of names of metrics and of files. */
#define ET_ITEM_NAME_MAX 64
bool et_is_item_name(const char *name);
/* Checks the name of item `at`, which no earlier item may have. first: the name of item 0, stride:
 * bytes of an item; list, noun: for messages, "validation_data.sets" and "sets". */
int et_item_name_check(const char *list, const char *noun, const char *const *first, size_t stride,
                       size_t at, et_error *error);

/* Rows for the tables of a kind of task and of its data: settings in files of Model Garden that
 * have no effect here. */
#define ET_TASK_ONLY_FIELDS                                                                        \
    ET_FIELD_ONLY("name", "null", "a task is named by its kind"),                                  \
        ET_FIELD_ONLY("allow_image_summary", "false", "Etude writes no images to the logs")
#define ET_DATA_ONLY_FIELDS                                                                        \
    ET_FIELD_ONLY("enable_tf_data_service", "false", ET_NO_DATA_SERVICE),                          \
        ET_FIELD_ONLY("tf_data_service_address", "null", ET_NO_DATA_SERVICE),                      \
        ET_FIELD_ONLY("tf_data_service_job_name", "null", ET_NO_DATA_SERVICE),                     \
        ET_FIELD_ONLY("enable_shared_tf_data_service_between_parallel_trainers", "false",          \
                      ET_NO_DATA_SERVICE),                                                         \
        ET_FIELD_ONLY("apply_tf_data_service_before_batching", "false", ET_NO_DATA_SERVICE),       \
        ET_FIELD_ONLY("trainer_id", "null", ET_NO_DATA_SERVICE),                                   \
        ET_FIELD_ONLY("autotune_algorithm", "null", "there is no tf.data; use runtime.prefetch"),  \
        ET_FIELD_ONLY("ram_budget", "null", "there is no tf.data; use runtime.prefetch")
#define ET_NO_DATA_SERVICE "there is no tf.data service; each run reads its own data"

/* runtime.loss_scale as et_task_trainer_options has it; 0: none. */
int et_runtime_loss_scale(const et_runtime_options *options, double *scale, et_error *error);

#endif
