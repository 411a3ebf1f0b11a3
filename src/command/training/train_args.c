/* The options of `train`, Etude's and Model Garden's, as a table, and the settings that they come
 * to. */
#include "command/training/train_args.h"

#include "base/arena.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "command/outputs.h"
#include "command/training/processes/local_cluster.h"

/* ---- options ---- */

/* Reasons why options of Model Garden have no effect. */
#define NO_GIN "gin configures Python functions; use --config and --set"
#define NO_TPU "Etude trains on the CPU, not on a TPU"

/* The short forms come first, because people use them most. The other names are Model Garden's. */
static const et_option options[] = {
    ET_OPTION_KINDS(et_train_args, settings),
    ET_OPTION_TEXT(et_train_args, experiment, "experiment", "EXPERIMENT",
                   "experiment: a named set of settings (default: by the data); `list` shows all"),
    ET_OPTION_TEXT(et_train_args, model_dir, "model-dir", "DIR",
                   "directory of the run (default: runs/NAME-1, or the next number); an existing "
                   "run is resumed",
                   .alias = "output-dir"),
    ET_OPTION_TEXT(et_train_args, mode_name, "mode",
                   "train|eval|train_and_eval|train_and_post_eval|continuous_eval|"
                   "continuous_train_and_eval",
                   "train_and_eval (default); eval evaluates the newest checkpoint, "
                   "continuous_eval each new one; continuous_train_and_eval fine-tunes from each "
                   "new checkpoint of task.init_checkpoint"),
    ET_OPTION_LIST(et_train_args, config, "config", "FILE",
                   "YAML or JSON file of settings; may be given again, later ones win",
                   .alias = "config-file"),
    ET_OPTION_TEXT(et_train_args, init, "init", "RUN|FILE|FOLDER",
                   "start a new run from the weights of another run (its best checkpoint), of a "
                   "file, or of a folder of transformers; Etude also takes the files of these "
                   "weights, and without --experiment the settings"),
    ET_OPTION_SET(et_train_args, set,
                  "settings that override all files: KEY=VALUE separated by commas, YAML, or a "
                  "file name; may be given again"),
    ET_OPTION_FLAG(et_train_args, accept_changes, "accept-changes",
                   "resume with another optimizer, learning rate, dropout or label smoothing; a "
                   "new optimizer starts with empty slots"),
    ET_OPTION_SWITCH(et_train_args, async, "enable-async-checkpointing", "BOOL",
                     "save in the background (default); false: training waits for each save",
                     .field.default_number = true),
    ET_OPTION_FLAG(et_train_args, dry_run, "dry-run",
                   "read settings and data, measure a few steps and print how long training would "
                   "take; write nothing"),
    ET_OPTION_FLAG(et_train_args, json, "json",
                   "with --dry-run: print the result as a JSON object"),
    ET_OPTION_FLAG(et_train_args, verbose, "verbose",
                   "print every summary and save, and which kernels compute"),
    ET_OPTION_QUIET(et_train_args, quiet),
    ET_OPTION_PROCESSORS,
    ET_OPTION_COUNT(et_train_args, pretrain_steps, "pretrain-steps", "N", 0, ET_OPTION_COUNT_MAX,
                    "for continuous_train_and_eval: last step of the pre-training run (default: "
                    "from its settings)"),
    ET_OPTION_TIME(
        et_train_args, time_limit, "time-limit", "TIME",
        "save and stop with exit code 75 after this time: 1h30m, 90m, 2.5h, 1:30:00, 2-00:00:00"),
    ET_OPTION_FLAG(
        et_train_args, distributed, "distributed",
        "train with a master, workers and parameter servers, all started on this machine"),
    ET_OPTION_COUNT(et_train_args, workers, "workers", "N", 1, ET_ROLES_MAX,
                    "with --distributed: number of workers (1)"),
    ET_OPTION_COUNT(et_train_args, servers, "servers", "N", 1, ET_ROLES_MAX,
                    "with --distributed: number of parameter servers (1)"),
    ET_OPTION_TEXT(et_train_args, keys, "keys", "DIR",
                   "folder with the keys of the cluster in TF_CONFIG; required for several hosts"),
    ET_OPTION_SIZE(
        et_train_args, memory, "memory", "SIZE",
        "for a new run: choose the largest batch that fits into this memory, such as 4G or 500M"),
    ET_OPTION_GROUP(et_train_args, profiling, et_profiling_options),
    ET_OPTION_NONE("gin-file", "FILE", NO_GIN),
    ET_OPTION_NONE("gin-params", "BINDING", NO_GIN),
    ET_OPTION_NONE("tpu", "ADDRESS", NO_TPU),
    ET_OPTION_NONE("tpu-platform", "NAME", NO_TPU),
    ET_OPTION_NONE("tf-data-service", "ADDRESS", "each run reads its own data"),
    ET_OPTION_NONE("tfhub-handle", "NAME", "models do not come from a hub"),
    ET_OPTION_NONE("tflex-output-uri", "URI", "a run is kept only in --model-dir"),
    ET_OPTION_RUN(et_train_args, model_dir),
    ET_OPTION_END,
};

const et_usage et_usage_train = { options, sizeof(et_train_args),
                                  "Trains a model. Ctrl-C saves a checkpoint and stops; the same "
                                  "command resumes.\nSIGUSR1 saves a checkpoint and continues.",
                                  "--experiment EXPERIMENT --model-dir runs/a DATA" };

/* ---- settings ---- */

/* Begins the settings with the experiment that the command line or a file of settings names, else
 * with the settings of the existing run, or of the run whose weights are used. The first file that
 * names an experiment counts. */
static int begin(et_train_settings *settings, const et_train_args *args, const et_program *program,
                 et_error *error)
{
    et_experiment *experiment = &settings->experiment;
    et_initial *initial = &settings->initial;
    et_arena *arena = settings->arena;
    /* The command line has priority over files, and files over the run. */
    const char *name = args->experiment;
    int status = ET_OK;
    /* A file may name its experiment: a run's own params.yaml does. */
    const char *file = NULL;
    for (size_t i = 0; i < args->config.count && !name && !status; i++) {
        file = args->config.items[i];
        status = et_experiment_named_in(&name, program, file, arena, error);
    }
    if (status)
        return status;
    if (name) {
        status = et_experiment_begin(experiment, program, name, arena, error);
        return status && file ? et_fail_while(error, status, "%s", file) : status;
    }
    /* No name is given: an existing run has its experiment. */
    if ((status = et_directory_check(args->model_dir, error)))
        return status;
    if (et_model_dir_has_run(args->model_dir))
        return et_experiment_open_run(experiment, program, args->model_dir, arena, error);
    if (initial->from && !initial->run)
        return et_fail(error, ET_EUSAGE,
                       "train: --experiment is missing; %s is a file, which gives only weights",
                       initial->from);
    if (initial->from)
        return et_initial_begin(initial, experiment, program, arena, error);
    name = et_option_settings_experiment(&args->settings, program);
    settings->unnamed = args->config.count ? args->config.items[0] : NULL;
    if (name)
        return et_experiment_begin(experiment, program, name, arena, error);
    if (settings->unnamed)
        return et_fail(error, ET_EUSAGE,
                       "train: %s names no experiment; add a line `experiment: NAME`, or give "
                       "--experiment (`%s list` shows all)",
                       settings->unnamed, program->name);
    return et_fail(error, ET_EUSAGE,
                   "train: %s%sa new run needs its data (--data) or --experiment (`%s list` shows "
                   "all)",
                   args->model_dir ? args->model_dir : "",
                   args->model_dir ? " has no run to resume, and " : "", program->name);
}

int et_train_fail_unnamed(const et_train_settings *settings, int status, et_error *error)
{
    return status && settings->unnamed
               ? et_fail_while(error, status,
                               "%s names no experiment (add a line `experiment: NAME`), so Etude "
                               "uses %s",
                               settings->unnamed, settings->experiment.name)
               : status;
}

static int assemble(et_train_settings *settings, const et_train_args *args,
                    const et_program *program, et_error *error)
{
    et_experiment *experiment = &settings->experiment;
    et_initial *initial = &settings->initial;
    et_arena *arena = settings->arena;
    /* A run that resumes has its own weights: its initial weights may no longer exist. */
    bool gone =
        args->init && !et_file_exists(args->init) && et_model_dir_has_weights(args->model_dir);
    *initial = (et_initial){ .from = gone ? NULL : args->init, .option = "--init" };
    int status;
    if ((status = et_initial_find(initial, program, arena, error)) ||
        (status = begin(settings, args, program, error)) ||
        (status = et_initial_apply(initial, experiment, arena, error)))
        return status;
    for (size_t i = 0; i < args->config.count; i++)
        if ((status = et_experiment_read_file(experiment, args->config.items[i], arena, error)))
            return et_train_fail_unnamed(settings, status, error);
    if ((status = et_option_settings_apply(&args->settings, experiment, arena, error)))
        return status;
    experiment->source = ET_SETTINGS_SET;
    for (size_t i = 0; i < args->set.count; i++)
        if ((status = et_experiment_set(experiment, args->set.items[i], arena, error)))
            return status;
    return et_initial_inherit(initial, experiment, arena, error);
}

int et_train_assemble(et_train_settings *settings, const et_train_args *args,
                      const et_program *program, et_error *error)
{
    if (!settings->assembled)
        settings->failure.status = assemble(settings, args, program, &settings->failure);
    settings->assembled = true;
    if (settings->failure.status && error)
        *error = settings->failure;
    return settings->failure.status;
}

int et_train_settle(et_experiment *experiment, et_error *error)
{
    et_assert(experiment->kind && experiment->table);
    int status = et_experiment_complete(experiment, error);
    if (!status)
        status = et_experiment_check(experiment, error);
    if (!status && experiment->unknown_rule &&
        experiment->trainer.optimizer_config.optimizer.type == ET_OPTIMIZER_NONE)
        return et_fail(error, ET_ECONFIG,
                       "trainer.optimizer_config.optimizer.type: %s is an update rule of the "
                       "program that began the run; train with that program, or set another rule",
                       experiment->unknown_rule);
    if (!status)
        experiment->locked = true;
    return status;
}

int et_train_configure(et_train_settings *settings, const et_train_args *args,
                       const et_program *program, et_error *error)
{
    const int status = et_train_assemble(settings, args, program, error);
    return status ? status : et_train_settle(&settings->experiment, error);
}
