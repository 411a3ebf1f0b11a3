/* Opens a task for a program in one call, as `etude train` does before it trains. Settings, task
 * and derived options are one block, which the task points to. */
#include <etude/task_open.h>

#include <string.h>

#include "base/alloc.h"
#include "base/files/file.h"
#include "base/stages.h"
#include "base/values/value.h"
#include "engine/comm/comm.h"
#include "engine/comm/together.h"
#include "formats/events/log_names.h"
#include "systems/modelgarden/learner.h"
#include "systems/modelgarden/recipe.h"
#include "systems/modelgarden/series.h"
#include "systems/modelgarden/task_trainer_private.h"
#include "train/checkpoint/metric_name.h"
#include "train/checkpoint/run_names.h"

typedef struct et_task_opened {
    et_arena arena;
    et_program program; /* of one kind */
    const et_task_kind *kind;
    const char *name, *settings; /* the caller's, while it opens */
    et_experiment experiment;
    et_experiment kept; /* of the existing run; its kind NULL: there is no run */
    et_identity newest;
    et_task_context context;
    et_task *task;
    const et_value *identity;
    et_trainer_options plan; /* schedules that end with the run have its length */
    et_task_trainer_options trainer;
    double target;
    bool targeted;
} et_task_opened;

/* ---- settings ---- */

static int read_settings(et_task_opened *o, et_error *error)
{
    et_experiment *e = &o->experiment;
    et_runtime_options runtime;
    int status = et_program_check(&o->program, error);
    if (!status && !o->name)
        o->name = o->kind->experiments->name;
    if (!status)
        status = et_experiment_begin(e, &o->program, o->name, &o->arena, error);
    runtime = e->runtime;
    if (!status && o->settings)
        status = et_experiment_set(e, o->settings, &o->arena, error);
    if (!status)
        status = et_experiment_complete(e, error);
    if (!status)
        status = et_experiment_check(e, error);
    if (status)
        return status;
    /* The program has opened the ranks already, with other options. */
    const et_runtime_options *now = &o->experiment.runtime;
    const char *other = now->sharded_optimizer != runtime.sharded_optimizer ? "sharded_optimizer"
                        : now->bfloat16_gradients != runtime.bfloat16_gradients
                            ? "bfloat16_gradients"
                        : now->peer_timeout != runtime.peer_timeout ? "peer_timeout"
                                                                    : NULL;
    return !other || !o->context.comm
               ? ET_OK
               : et_fail(error, ET_ECONFIG,
                         "runtime.%s has no effect on ranks that are open: set et_comm_options.%s "
                         "in et_comm_open",
                         other, other);
}

static int find_run(et_task_opened *o, et_error *error)
{
    const char *directory = o->context.model_dir;
    int status = et_series_check_none(&o->experiment, "et_task_open", error);
    if (status)
        return status;
    if (!et_file_exists_in(directory, ET_RUN_SETTINGS))
        return et_recipe_of(&o->experiment)
                   ? et_fail(error, ET_ECONFIG,
                             "%s chooses its settings by the data and the length of the run, which "
                             "only `etude train` does; open another experiment, or begin the run "
                             "with `etude train %s`",
                             o->name, directory)
                   : ET_OK;
    status = et_experiment_open_run(&o->kept, &o->program, directory, &o->arena, error);
    if (!status)
        status = et_experiment_adopt(&o->experiment, &o->kept, &o->arena, error);
    if (!status)
        status = et_identity_of_newest(&o->newest, directory, &o->arena, error);
    return status ? status
                  : et_experiment_check_same(&o->kept, &o->experiment, &o->newest, directory, false,
                                             error);
}

static int write_settings(et_task_opened *o, et_error *error)
{
    if (o->context.reader)
        return ET_OK;
    const char *path = et_arena_printf(&o->arena, "%s/" ET_RUN_SETTINGS, o->context.model_dir);
    return path ? et_experiment_write(&o->experiment, path, error)
                : et_alloc_failed(error, strlen(o->context.model_dir), "a path");
}

/* ---- the task ---- */

static int open_task(void *self, et_error *error)
{
    et_task_opened *o = self;
    et_experiment *e = &o->experiment;
    et_task_context *c = &o->context;
    et_assert(!o->task && c->device && c->params);
    c->bfloat16 = et_experiment_resolve_precision(e);
    c->seed = (uint64_t)e->runtime.seed;
    c->prefetch = (int)e->runtime.prefetch;
    c->data_shards = (int)e->runtime.data_shards;
    c->validation_interval = e->trainer.validation_interval;
    c->best_metric = et_trainer_own_metric(&e->trainer);
    c->identity = &o->newest;
    int status = c->reader ? ET_OK : et_directory_make(c->model_dir, error);
    if (!status)
        status = o->kind->open(&o->task, e->task, c, error);
    if (!status && o->task->class->open_multitask)
        status = et_fail(error, ET_EUSAGE,
                         "%s trains several tasks; open each alone, and train them with "
                         "<etude/multitask.h>",
                         o->name);
    return status;
}

/* Rank 0 makes files that the other ranks only read. */
static int open_in_turn(et_task_opened *o, et_error *error)
{
    o->context.reader |= et_comm_rank(o->context.comm) != 0;
    return et_together_in_turn(o->context.comm, open_task, o, error);
}

static int make_identity(et_task_opened *o, et_error *error)
{
    et_value *identity = et_value_dict(&o->arena);
    int status = identity ? ET_OK : et_alloc_failed(error, 0, "settings");
    if (!status && o->kind->identify)
        status = o->kind->identify(o->task, identity, error);
    o->identity = identity;
    return status ? status : et_experiment_identify(&o->experiment, identity, error);
}

static int make_trainer_options(et_task_opened *o, et_error *error)
{
    o->plan = o->experiment.trainer;
    int status = et_optimization_end_with_run(&o->plan.optimizer_config, o->plan.train_steps,
                                              &o->arena, error);
    if (!status)
        status = et_experiment_trainer_options(&o->experiment, &o->plan, &o->trainer, error);
    o->trainer.comm = o->context.data_shards > 1 ? o->context.comm : NULL;
    o->trainer.stop = o->context.stop;
    return status;
}

/* Each stage needs the stages before it. */
static int (*const stages[])(et_task_opened *, et_error *) = {
    read_settings, find_run, open_in_turn, make_identity, make_trainer_options, write_settings,
};

/* ---- opening and closing ---- */

static void release(et_task_opened *o)
{
    if (o->task)
        o->kind->close(o->task);
    et_arena_release(&o->arena);
    et_free(o);
}

static int open_stages(void *self, et_error *error)
{
    int status = ET_OK;
    ET_STAGES_RUN(status, stages, self, error);
    return status;
}

int et_task_open(et_task **out, const et_task_kind *kind, const char *experiment,
                 const char *settings, const et_task_context *context, et_error *error)
{
    *out = NULL;
    const char *missing = !kind                 ? "kind"
                          : !context            ? "context"
                          : !context->model_dir ? "context->model_dir"
                          : !context->device    ? "context->device"
                          : !context->params    ? "context->params"
                                                : NULL;
    int status = missing ? et_fail(error, ET_EUSAGE, "et_task_open: %s is NULL", missing) : ET_OK;
    et_task_opened *o = status ? NULL : et_alloc_zero(1, sizeof *o);
    if (!o)
        return status ? status : et_alloc_failed(error, sizeof *o, "a task");
    o->arena = (et_arena)ET_ARENA_INIT;
    o->kind = kind;
    o->program = (et_program){ .name = "etude", .kinds = &o->kind, .count = 1 };
    o->name = experiment;
    o->settings = settings;
    o->context = *context;
    status = et_together_run(context->comm, open_stages, o, error);
    if (status) {
        release(o);
        return status;
    }
    o->task->opened = o;
    *out = o->task;
    return ET_OK;
}

void et_task_close(et_task *task)
{
    if (task && task->opened)
        release(task->opened);
}

/* ---- what settings say ---- */

const et_task_trainer_options *et_task_trainer_config(const et_task *task)
{
    return task && task->opened ? &task->opened->trainer : NULL;
}

static int choose_best(et_task_opened *o, et_task_trainer *trainer, et_controller_options *options,
                       et_error *error)
{
    et_assert(trainer->task == o->task);
    int status = et_trainer_target(&o->plan, &o->target, &o->targeted, error);
    const char **best = &options->run.best_metric;
    *best = et_trainer_best_metric(&o->plan);
    if (!status && *best && !strcmp(*best, ET_BEST_AUTO))
        status = et_main_metrics_best(best, trainer, "", &o->arena, error);
    if (status || !*best)
        return status;
    options->run.best_comparison = et_trainer_best_comparison(&o->plan, *best);
    options->run.best_tie = et_metric_beside(*best, ET_LOGGED_VALIDATION_LOSS, &o->arena);
    if (options->evaluator && o->plan.validation_interval) {
        options->patience = o->plan.early_stopping.patience;
        options->target = o->targeted ? &o->target : NULL;
    }
    return options->run.best_tie ? ET_OK : et_alloc_failed(error, 0, "a name");
}

int et_task_controller_config(const et_task *task, et_task_trainer *trainer,
                              et_controller_options *options, et_error *error)
{
    et_task_opened *o = task ? task->opened : NULL;
    *options = (et_controller_options){ .trainer = NULL };
    if (!o || !trainer || trainer->task != task)
        return et_fail(error, ET_EUSAGE,
                       "et_task_controller_config: give a task of et_task_open and the trainer "
                       "that was opened with this task");
    int64_t batches = 0; /* of an epoch, for a plan that is in epochs */
    int status = et_trainer_counts_epochs(&o->plan)
                     ? et_task_trainer_batches(trainer, &batches, error)
                     : ET_OK;
    if (!status)
        status = et_trainer_options_resolve(&o->plan, batches, o->context.data_shards, error);
    if (status)
        return status;
    *options = (et_controller_options){
        .trainer = et_task_trainer_trainer(trainer),
        .evaluator = et_task_trainer_evaluator(trainer),
        .run = { .model_dir = o->context.model_dir,
                 .identity = o->identity,
                 .comm = o->context.comm,
                 .stop = o->context.stop },
    };
    et_experiment_control(&o->plan, options);
    return choose_best(o, trainer, options, error);
}
