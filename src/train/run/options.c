/* The tables of the options in options.h: default, limits and help of each member.
 * base/fields/fields.c makes the parser, `--help` and the echo in params.yaml from them. The tables
 * check ranges of single numbers; et_trainer_check checks the rest.
 *
 * To add an option: a member in options.h and a row here. A choice also gets its names in the list,
 * in the order of the enum. Defaults are Model Garden's if it has the setting. */
#include "train/run/options.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include <etude/task_trainer.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/numbers/decimal.h"
#include "formats/events/log_names.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/metric_name.h"

/* A count of steps that no run reaches. Doubles represent it exactly, and this number times 65,536
 * batches still fits an int64_t. */
#define STEPS_MAX 1000000000000.0

/* Names of choices, ended by NULL. ORDER: ET_COMPARE_*, ET_FAILED_SAVE_*, ET_PRECISION_*,
 * ET_STRATEGY_*, and et_recompute (in etude/graph.h); the index in a list is the value of the enum.
 */
static const char *const comparisons[] = { "higher", "lower", "auto", NULL };
static const char *const failed_saves[] = { "stop", "go_on", NULL };
static const char *const precisions[] = { "auto", "float32", "bfloat16", NULL };
static const et_field_refusal no_precisions[] = {
    { "float16",
      "use bfloat16: the same size, and with the range of float32 it needs no loss scale" },
    { NULL, NULL },
};
static const char *const strategies[] = {
    "off", "one_device", "mirrored", "multi_worker_mirrored", "parameter_server", "tpu", NULL
};
static const char *const recomputed[] = { "none", "cheap", "feed_forward", "layers", "auto", NULL };

/* Why settings of other machines take no value. */
#define NO_TPU     "Etude trains on the CPU, not on a TPU"
#define NO_GPU     "Etude trains on the CPU, not on a GPU"
#define ONE_WORKER "start ranks with etude launch, mpirun or srun (doc/reference/scale.md)"

/* Model Garden's defaults: no clipping and no noise. */
static const et_field privacy_fields[] = {
    ET_FIELD_FLOAT(et_privacy_options, clipping_norm, ET_CLIPPING_NORM, 1e-30, 1e30,
                   "maximal norm of a gradient"),
    ET_FIELD_FLOAT(et_privacy_options, noise_multiplier, 0, 0, 1e6,
                   "standard deviation of the noise, in units of clipping_norm"),
    ET_FIELD_BOOL(et_privacy_options, per_example, false,
                  "clip the gradient of each sample: use batches of one sample, "
                  "trainer.gradient_accumulation of them per update"),
    ET_FIELD_END
};
const et_fields et_privacy_fields = { "differential_privacy_config", privacy_fields };

const et_privacy_options *et_privacy_in(const et_fields *fields, const void *options)
{
    for (const et_field *field = fields->fields; field->kind != ET_FIELD_KIND_END; field++) {
        const et_privacy_options *o = (const void *)((const char *)options + field->offset);
        if (field->nested == &et_privacy_fields)
            return o->noise_multiplier > 0 || o->clipping_norm < ET_CLIPPING_NORM || o->per_example
                       ? o
                       : NULL;
    }
    return NULL;
}

static const et_field early_stopping_fields[] = {
    ET_FIELD_INT(
        et_early_stopping, patience, 0, 0, 1000000000,
        "number of validations in a row without a better best_checkpoint_eval_metric after which "
        "the run ends; equal values are not better, NaN does not count; 0: no early stopping"),
    ET_FIELD_STRING(et_early_stopping, target, NULL,
                    "target value of best_checkpoint_eval_metric: the run ends at the first "
                    "validation that reaches it; null: none"),
    ET_FIELD_END
};
static const et_fields early_stopping_table = { "early_stopping", early_stopping_fields };

/* trainer: intervals count updates, not batches. */
static const et_field trainer_fields[] = {
    ET_FIELD_STRUCT(et_trainer_options, optimizer_config, &et_optimization_fields,
                    "optimizer, learning rate, warm-up, moving average", .change = ET_CHANGE_ASK),
    ET_FIELD_INT(et_trainer_options, train_steps, 0, 0, STEPS_MAX,
                 "number of updates; set this or train_epochs; a run that has reached this step "
                 "stops at once",
                 .epochs = true),
    ET_FIELD_EPOCHS("train_epochs", et_trainer_options, train_steps,
                    "passes over the data; 3 is the same as train_steps: 3ep"),
    ET_FIELD_INT(et_trainer_options, steps_per_loop, 1000, 1, STEPS_MAX,
                 "maximal number of updates in one inner loop"),
    ET_FIELD_INT(et_trainer_options, summary_interval, 1000, 0, STEPS_MAX,
                 "updates between logs of loss and rates; 0: only at the end", .epochs = true),
    ET_FIELD_INT(et_trainer_options, checkpoint_interval, 1000, 0, STEPS_MAX,
                 "updates between checkpoints; 0: only at the end", .epochs = true),
    ET_FIELD_INT(et_trainer_options, validation_interval, 1000, 0, STEPS_MAX,
                 "updates between validations; 0: none", .epochs = true),
    ET_FIELD_INT(et_trainer_options, validation_steps, -1, -1, STEPS_MAX,
                 "batches per validation; -1: all data, with the last, smaller batch"),
    ET_FIELD_FLOAT(et_trainer_options, continuous_eval_timeout, 3600, 0, 1e9,
                   "seconds without a new checkpoint after which --mode continuous_eval ends"),
    ET_FIELD_INT(et_trainer_options, max_to_keep, 5, 0, 100000,
                 "number of newest checkpoints to keep; 0, all and null: all", .nullable = true,
                 .zero = "all"),
    ET_FIELD_FLOAT(et_trainer_options, keep_checkpoint_every_n_hours, 0, 0, 1e6,
                   "also keep one checkpoint per this many hours forever; 0: none"),
    ET_FIELD_CHOICE(et_trainer_options, on_failed_save, ET_FAILED_SAVE_STOP, failed_saves,
                    "what to do if saving a checkpoint fails twice in a row; go_on: train until "
                    "the next checkpoint is due"),
    ET_FIELD_INT(et_trainer_options, gradient_accumulation, 1, 1, 65536,
                 "number of batches whose gradients make one update", .change = ET_CHANGE_FIXED),
    ET_FIELD_STRING(et_trainer_options, best_checkpoint_eval_metric, ET_BEST_AUTO,
                    "validation value that chooses the best checkpoint; ties: the lower loss, then "
                    "the later step; auto: the task's own metric (higher is better) if there is "
                    "validation data; null or \"\": none"),
    ET_FIELD_CHOICE(et_trainer_options, best_checkpoint_metric_comp, ET_COMPARE_AUTO, comparisons,
                    "which values of best_checkpoint_eval_metric are better; auto: lower for a "
                    "loss, an error, a "
                    "perplexity or a time, else higher"),
    ET_FIELD_STRING(et_trainer_options, best_checkpoint_export_subdir, ET_CHECKPOINT_BEST,
                    "directory of the best checkpoint; if not best: a symbolic link to best"),
    ET_FIELD_STRUCT(et_trainer_options, early_stopping, &early_stopping_table,
                    "when a run stops before its last step", .nullable = true),
    ET_FIELD_FLOAT(et_trainer_options, loss_upper_bound, 1e6, 0, DBL_MAX,
                   "a larger loss counts as diverged, like a loss that is not finite; 0: no limit"),
    ET_FIELD_INT(et_trainer_options, recovery_begin_steps, 0, 0, STEPS_MAX,
                 "first update for which loss_upper_bound counts"),
    ET_FIELD_INT(et_trainer_options, recovery_max_trials, 0, -1, 1000000,
                 "how often in a row a diverged run goes back to its last checkpoint and continues "
                 "with other data; 0: never; -1: never, and ignore loss_upper_bound"),
    ET_FIELD_ONLY("validation_summary_subdir", ET_LOGGED_VALIDATION,
                  "validation always logs to " ET_LOGGED_VALIDATION "/ in the model's directory"),
    ET_FIELD_ONLY("preemption_on_demand_checkpoint", "true", "a run always saves before it stops"),
    ET_FIELD_ONLY("train_tf_while_loop", "true",
                  "steps always run in an inner loop; see steps_per_loop"),
    ET_FIELD_ONLY("train_tf_function", "true", "a step is always compiled as a whole"),
    ET_FIELD_ONLY("eval_tf_function", "true", "a validation step is always compiled as a whole"),
    ET_FIELD_ONLY("eval_tf_while_loop", "false",
                  "true would omit the task's own metrics in validation"),
    ET_FIELD_ONLY("allow_tpu_summary", "false", NO_TPU),
    ET_FIELD_END
};
const et_fields et_trainer_fields = { "trainer", trainer_fields };

int et_trainer_register(const et_fields **table, et_trainer_options *options,
                        const et_optimizer_rule *const *own, et_arena *arena, et_error *error)
{
    const et_fields *rules;
    int status = et_optimization_register(&rules, &options->optimizer_config, own, arena, error);
    *table = &et_trainer_fields;
    *table = status ? *table : et_fields_with(*table, "optimizer_config", rules, arena);
    return *table ? status : et_alloc_failed(error, "update rules");
}

/* runtime: speed, memory and the seed. The largest seed is 2^52, because JSON and YAML readers of
 * other programs store numbers as doubles, which hold this number exactly. */
static const et_field runtime_fields[] = {
    ET_FIELD_INT(et_runtime_options, seed, 0, 0, 4503599627370496.0,
                 "seed of initial weights, data order and dropout", .change = ET_CHANGE_FIXED),
    ET_FIELD_CHOICE(
        et_runtime_options, mixed_precision_dtype, ET_PRECISION_AUTO, precisions,
        "type of activations; auto and null: bfloat16 if the CPU has bfloat16 matrix products",
        .nullable = true, .refused = no_precisions, .change = ET_CHANGE_FIXED),
    ET_FIELD_CHOICE(
        et_runtime_options, recompute, ET_RECOMPUTE_AUTO, recomputed,
        "what the backward pass recomputes: cheap: norms and activations; feed_forward: "
        "also its matrix products; layers: also attention (slowest); auto: cheap up "
        "to 1 GiB a batch, else feed_forward up to 768 MiB, else layers"),
    ET_FIELD_INT(et_runtime_options, prefetch, 4, 0, 1024,
                 "batches prepared in advance by a separate thread; 0: none"),
    ET_FIELD_CHOICE(et_runtime_options, distribution_strategy, ET_STRATEGY_MIRRORED, strategies,
                    "off, one_device and mirrored all mean one CPU; other values are refused"),
    ET_FIELD_ONLY("enable_xla", NULL, "Etude compiles graphs itself"),
    ET_FIELD_ONLY("run_eagerly", "false", "a step is always compiled as a whole"),
    ET_FIELD_ONLY("tpu", "null", NO_TPU),
    ET_FIELD_ONLY("tpu_enable_xla_dynamic_padder", "null", NO_TPU),
    ET_FIELD_ONLY("use_tpu_mp_strategy", "false", NO_TPU),
    ET_FIELD_ONLY("num_cores_per_replica", "1", "a model cannot be split across devices"),
    ET_FIELD_ONLY("default_shard_dim", "-1", "a model cannot be split across devices"),
    ET_FIELD_ONLY("num_gpus", "0", NO_GPU),
    ET_FIELD_ONLY("gpu_thread_mode", "null", NO_GPU),
    ET_FIELD_ONLY("per_gpu_thread_count", "0", NO_GPU),
    ET_FIELD_ONLY("batchnorm_spatial_persistent", "false", NO_GPU),
    ET_FIELD_ONLY("dataset_num_private_threads", "null",
                  "one thread prepares data; use runtime.prefetch"),
    ET_FIELD_ONLY("worker_hosts", "null", ONE_WORKER),
    ET_FIELD_ONLY("task_index", "-1", ONE_WORKER),
    ET_FIELD_ONLY("all_reduce_alg", "null", ONE_WORKER),
    ET_FIELD_ONLY("num_packs", "1", ONE_WORKER),
    ET_FIELD_STRING(et_runtime_options, loss_scale, NULL,
                    "loss scale: dynamic (skips updates that are not finite, at most 100 in a row) "
                    "or a number; null: none",
                    .change = ET_CHANGE_FIXED),
    ET_FIELD_INT(et_runtime_options, data_shards, 1, 1, 1024,
                 "number of equal parts of a global batch, at least the number of ranks (etude "
                 "launch, mpirun); results depend on it, not on the number of ranks",
                 .change = ET_CHANGE_FIXED),
    ET_FIELD_FLOAT(
        et_runtime_options, peer_timeout, 60, 0.1, 1e6,
        "seconds without an answer after which a rank counts as lost and all ranks stop"),
    ET_FIELD_BOOL(et_runtime_options, bfloat16_gradients, false,
                  "ranks exchange gradients as bfloat16: half the bytes, but results also depend "
                  "on the number of ranks"),
    ET_FIELD_BOOL(et_runtime_options, sharded_optimizer, false,
                  "each rank keeps and updates the optimizer's slots for a part of the parameters "
                  "(ZeRO stage 1): less memory, the same results"),
    ET_FIELD_INT(et_runtime_options, gradients_per_update, 0, 0, ET_CLUSTER_GRADIENTS_MAX,
                 "with workers and parameter servers: number of gradients per update, from any "
                 "workers; 0: the number of workers"),
    ET_FIELD_INT(et_runtime_options, max_staleness, -1, -1, 1000000,
                 "with workers and parameter servers: maximal age of a gradient's weights, in "
                 "updates; -1: as many updates as two gradients of each worker make"),
    ET_FIELD_BOOL(et_runtime_options, synchronous, false,
                  "with workers and parameter servers: synchronous training: each update sums one "
                  "gradient per worker, computed from the current weights"),
    ET_FIELD_FLOAT(et_runtime_options, staleness_wait, ET_CLUSTER_WAITS, 0, 1e6,
                   "with workers and parameter servers: a worker waits for a running update "
                   "instead of computing a stale gradient, at most this many times as long as its "
                   "last batch took; 0: never"),
    ET_FIELD_BOOL(et_runtime_options, weight_prediction, true,
                  "with workers and parameter servers: compute a gradient at extrapolated weights "
                  "(by the last update) if other updates will come first"),
    ET_FIELD_END
};
const et_fields et_runtime_fields = { "runtime", runtime_fields };

int et_trainer_best_comparison(const et_trainer_options *options, const char *metric)
{
    if (options->best_checkpoint_metric_comp != ET_COMPARE_AUTO)
        return options->best_checkpoint_metric_comp;
    return metric && et_metric_lower_is_better(metric) ? ET_COMPARE_LOWER : ET_COMPARE_HIGHER;
}

int et_trainer_target(const et_trainer_options *options, double *target, bool *given,
                      et_error *error)
{
    const char *text = options->early_stopping.target;
    char *end;
    *given = text && *text;
    if (!*given)
        return ET_OK;
    *target = et_decimal_read(text, &end);
    if (!*end && isfinite(*target))
        return ET_OK;
    return et_fail(error, ET_ECONFIG, "trainer.early_stopping.target: %s; give a number or null",
                   text);
}

/* train_steps has no sensible default, and a run of 0 steps would end at once without a message. */
int et_trainer_check(const et_trainer_options *options, et_error *error)
{
    if (options->train_steps == 0)
        return et_fail(error, ET_ECONFIG,
                       "trainer.train_steps: 0; set the number of updates, such as 2000, or of "
                       "passes over the data, such as trainer.train_epochs: 10");
    if (options->validation_steps == 0)
        return et_fail(error, ET_ECONFIG,
                       "trainer.validation_steps: 0 batches measure nothing; set -1 for all data, "
                       "or trainer.validation_interval: 0 for no validation");
    const char *metric = et_trainer_best_metric(options);
    double target;
    bool targeted;
    int status = et_trainer_target(options, &target, &targeted, error);
    if (status)
        return status;
    if ((options->early_stopping.patience || targeted) &&
        (!metric || !options->validation_interval))
        return et_fail(error, ET_ECONFIG, "trainer.early_stopping.%s: needs %s",
                       targeted ? "target" : "patience",
                       metric ? targeted ? "validations: set trainer.validation_interval"
                                         : "validations: set trainer.validation_interval, or "
                                           "trainer.early_stopping.patience=0"
                              : "trainer.best_checkpoint_eval_metric, such as auto");
    if (metric && !strcmp(metric, ET_BEST_AUTO) &&
        options->best_checkpoint_metric_comp == ET_COMPARE_LOWER)
        return et_fail(error, ET_ECONFIG,
                       "trainer.best_checkpoint_metric_comp: lower needs a metric; set "
                       "trainer.best_checkpoint_eval_metric, such as " ET_LOGGED_VALIDATION_LOSS);
    const char *link = et_trainer_best_link(options);
    if (link && (status = et_checkpoint_check_link(link, error)))
        return status;
    /* The optimizer's settings for a run of this length. */
    et_optimization_options o = options->optimizer_config;
    et_arena arena = ET_ARENA_INIT;
    status = et_optimization_end_with_run(&o, options->train_steps, &arena, error);
    if (!status)
        status = et_optimization_check(&o, error);
    et_arena_release(&arena);
    return status;
}

int et_runtime_loss_scale(const et_runtime_options *options, double *scale, et_error *error)
{
    const char *text = options->loss_scale;
    char *end;
    *scale = 0;
    if (!text || !*text)
        return ET_OK;
    if (!strcmp(text, "dynamic")) {
        *scale = ET_LOSS_SCALE_DYNAMIC;
        return ET_OK;
    }
    *scale = et_decimal_read(text, &end);
    if (!*end && *scale > 0 && isfinite(*scale))
        return ET_OK;
    return et_fail(error, ET_ECONFIG,
                   "runtime.loss_scale: %s; give dynamic, a positive number or null", text);
}

bool et_is_item_name(const char *name)
{
    const size_t length = strlen(name);
    return length && length <= ET_ITEM_NAME_MAX &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
               length;
}

static const char *name_at(const char *const *first, size_t stride, size_t i)
{
    const char *name = *(const char *const *)(const void *)((const char *)first + i * stride);
    return name ? name : "";
}

int et_item_name_check(const char *list, const char *noun, const char *const *first, size_t stride,
                       size_t at, et_error *error)
{
    const char *own = name_at(first, stride, at);
    if (!et_is_item_name(own))
        return et_fail(error, ET_ECONFIG,
                       "task.%s[%zu].name: \"%.64s\": give up to %d letters, digits, _ and -", list,
                       at, own, ET_ITEM_NAME_MAX);
    for (size_t i = 0; i < at; i++)
        if (!strcmp(name_at(first, stride, i), own))
            return et_fail(error, ET_ECONFIG, "task.%s: two %s are called %s; rename one", list,
                           noun, own);
    return ET_OK;
}

int et_runtime_check(const et_runtime_options *options, et_error *error)
{
    static const char *const reasons[] = {
        [ET_STRATEGY_MULTI_WORKER_MIRRORED] = ONE_WORKER,
        [ET_STRATEGY_PARAMETER_SERVER] = ONE_WORKER,
        [ET_STRATEGY_TPU] = NO_TPU,
    };
    double scale;
    if (options->distribution_strategy <= ET_STRATEGY_MIRRORED)
        return et_runtime_loss_scale(options, &scale, error);
    return et_fail(error, ET_ECONFIG,
                   "runtime.distribution_strategy: %s is not supported: %s; leave it at mirrored",
                   strategies[options->distribution_strategy],
                   reasons[options->distribution_strategy]);
}

int64_t et_trainer_last_step(const et_trainer_options *o)
{
    bool known = o->train_steps > 0 && !o->early_stopping.patience &&
                 !(o->early_stopping.target && *o->early_stopping.target);
    return known ? o->train_steps : 0;
}

bool et_trainer_counts_epochs(const et_trainer_options *o)
{
    return o->train_steps < 0 || o->summary_interval < 0 || o->checkpoint_interval < 0 ||
           o->validation_interval < 0;
}

/* An update takes gradient_accumulation batches, times the number of shards. */
int et_trainer_options_resolve(et_trainer_options *options, int64_t batches, int64_t shards,
                               et_error *error)
{
    const double update = (double)(options->gradient_accumulation * shards);
    int64_t *spans[] = { &options->train_steps, &options->summary_interval,
                         &options->checkpoint_interval, &options->validation_interval };
    if (!et_trainer_counts_epochs(options))
        return ET_OK;
    if (batches <= 0)
        return et_fail(error, ET_ECONFIG,
                       "trainer.train_epochs and intervals in epochs: the number of batches per "
                       "pass is unknown for this data; give steps");
    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++) {
        double wanted = (double)et_field_steps(*spans[i], batches);
        if (*spans[i] < 0)
            *spans[i] = (int64_t)fmax(1, round(wanted / update));
    }
    return ET_OK;
}
