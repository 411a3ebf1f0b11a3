/* Opens a task for a program in one call, as `etude train` does before it trains. Settings, task
 * and derived options are one block, which the task points to. */
#include <etude/task_open.h>

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "engine/comm/comm.h"
#include "engine/comm/together.h"
#include "formats/events/log_names.h"
#include "systems/modelgarden/series.h"
#include "systems/modelgarden/task_trainer_private.h"
#include "systems/modelgarden/trainable.h"
#include "systems/training/initial.h"
#include "systems/training/model_dir.h"
#include "train/checkpoint/metric_name.h"
#include "train/checkpoint/run_names.h"

typedef struct et_task_opened {
    et_arena arena;
    et_program program; /* of one kind */
    const et_task_kind *kind;
    const char *name, *settings; /* the caller's, while it opens */
    et_initial initial;
    et_experiment experiment;
    et_identity newest; /* of the existing run's checkpoints */
    et_task_context context;
    et_task *task;
    et_value *identity;
    et_trainer_options plan; /* schedules that end with the run have its length */
    et_task_trainer_options trainer;
    double target;
    bool targeted;
} et_task_opened;

/* ---- settings ---- */

static int read_settings(et_task_opened *o, et_error *error)
{
    et_experiment *e = &o->experiment;
    et_arena *arena = &o->arena;
    et_initial *initial = &o->initial;
    const char *run = o->context.model_dir;
    /* A run that resumes has its own experiment and weights: its initial weights may no longer
     * exist. */
    const bool goes_on = !o->name && initial->from && et_model_dir_has_run(run);
    int status = et_program_check(&o->program, error);
    if (status)
        return status;
    if (!o->name && !initial->from)
        o->name = o->kind->experiments->name;
    if (initial->from && !et_file_exists(initial->from) && et_model_dir_has_weights(run))
        initial->from = NULL;
    if ((status = et_initial_find(initial, &o->program, arena, error)))
        return status;
    if (!o->name && !goes_on && !initial->run)
        return et_fail(error, ET_EUSAGE, "%s: %s has only weights; name the experiment",
                       initial->option, initial->from);
    status = o->name   ? et_experiment_begin(e, &o->program, o->name, arena, error)
             : goes_on ? et_experiment_open_run(e, &o->program, run, arena, error)
                       : et_initial_begin(initial, e, &o->program, arena, error);
    const et_runtime_options runtime = e->runtime;
    if (status || (status = et_initial_apply(initial, e, arena, error)) ||
        (o->settings && (status = et_experiment_set(e, o->settings, arena, error))) ||
        (status = et_initial_inherit(initial, e, arena, error)) ||
        (status = et_experiment_complete(e, error)) || (status = et_experiment_check(e, error)))
        return status;
    /* The program has opened the ranks already, with other options. */
    const et_runtime_options *now = &e->runtime;
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

/* A new run gets the values that its recipe chooses; an existing run keeps its settings. */
static int find_run(et_task_opened *o, et_error *error)
{
    const char *directory = o->context.model_dir;
    et_experiment *e = &o->experiment, kept;
    et_recipe_amounts amounts;
    int status = et_series_check_none(e, "et_task_open", error);
    if (status)
        return status;
    if (!et_model_dir_has_run(directory)) {
        et_experiment_resolve_precision(e);
        return et_initial_recipe(&o->initial, e)
                   ? et_recipe_begin(e, &amounts, -1, &o->arena, error)
                   : ET_OK;
    }
    if ((status = et_experiment_open_run(&kept, &o->program, directory, &o->arena, error)) ||
        (status = et_experiment_adopt(e, &kept, &o->arena, error)) ||
        (status = et_identity_of_newest(&o->newest, directory, &o->arena, error)))
        return status;
    return et_experiment_check_same(&kept, e, &o->newest, directory, false, error);
}

/* ---- the task ---- */

static int open_task(void *self, et_error *error)
{
    et_task_opened *o = self;
    et_task_context *c = &o->context;
    et_assert(!o->task && c->device && c->params);
    et_experiment_set_context(&o->experiment, c);
    c->identity = &o->newest;
    if (o->initial.foreign)
        c->foreign = o->initial.foreign;
    int status = c->reader ? ET_OK : et_directory_make(c->model_dir, error);
    if (!status)
        status = o->kind->open(&o->task, o->experiment.task, c, error);
    if (!status && o->initial.from && o->initial.unset)
        o->task->init_checkpoint = o->initial.checkpoint;
    if (!status && o->task->class->open_multitask)
        status = et_fail(error, ET_EUSAGE,
                         "%s trains several tasks; open each alone, and train them with "
                         "<etude/multitask.h>",
                         o->experiment.name);
    return status;
}

/* Each step needs the steps before it. Rank 0 makes files, and the other ranks only read them. */
static int open_all(void *self, et_error *error)
{
    et_task_opened *o = self;
    et_experiment *e = &o->experiment;
    et_comm *comm = o->context.comm;
    int status;
    if ((status = read_settings(o, error)) || (status = find_run(o, error)))
        return status;
    o->context.reader |= et_comm_rank(comm) != 0;
    if ((status = et_together_in_turn(comm, open_task, o, error)) ||
        (status =
             et_experiment_identify(&o->identity, e, o->kind->identify, o->task, &o->arena, error)))
        return status;
    o->plan = e->trainer;
    if ((status = et_optimization_end_with_run(&o->plan.optimizer_config, o->plan.train_steps,
                                               &o->arena, error)) ||
        (status = et_experiment_trainer_options(e, &o->plan, &o->trainer, error)))
        return status;
    o->trainer.comm = o->context.data_shards > 1 ? comm : NULL;
    o->trainer.stop = o->context.stop;
    if (o->context.reader)
        return ET_OK;
    return et_experiment_write(e, et_path_print("%s/" ET_RUN_SETTINGS, o->context.model_dir).text,
                               error);
}

/* ---- opening and closing ---- */

static void release(et_task_opened *o)
{
    if (o->task)
        o->kind->close(o->task);
    et_initial_close(&o->initial);
    et_arena_release(&o->arena);
    et_free(o);
}

int et_task_open_from(et_task **out, const et_task_kind *kind, const char *init,
                      const char *experiment, const char *settings, const et_task_context *context,
                      et_error *error)
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
        return status ? status : et_alloc_failed(error, "a task");
    o->kind = kind;
    o->program = (et_program){ .name = "etude", .kinds = &o->kind, .count = 1 };
    o->name = experiment;
    o->settings = settings;
    o->initial = (et_initial){ .from = init ? et_arena_strdup(&o->arena, init) : NULL,
                               .option = "et_task_open_from" };
    o->context = *context;
    et_assert(init || !o->arena.failed);
    status = o->arena.failed ? et_alloc_failed(error, "a path")
                             : et_together_run(context->comm, open_all, o, error);
    if (status) {
        release(o);
        return status;
    }
    o->task->opened = o;
    *out = o->task;
    return ET_OK;
}

int et_task_open(et_task **out, const et_task_kind *kind, const char *experiment,
                 const char *settings, const et_task_context *context, et_error *error)
{
    return et_task_open_from(out, kind, NULL, experiment, settings, context, error);
}

void et_task_close(et_task *task)
{
    if (task && task->opened)
        release(task->opened);
}

/* ---- values of settings ---- */

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
    return options->run.best_tie ? ET_OK : et_alloc_failed(error, "a name");
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
