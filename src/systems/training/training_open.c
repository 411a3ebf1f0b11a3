/* Opens the parts of a training, each after the parts that it needs. */
#include "systems/training/training_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/flag.h"
#include "base/text/format.h"
#include "engine/comm/together.h"
#include "engine/optim/optimizer.h"
#include "engine/optim/options.h"
#include "engine/tensor/tensor.h"
#include "formats/events/log_names.h"
#include "formats/events/sink.h"
#include "systems/modelgarden/training_table.h"
#include "systems/orbit/controller.h"
#include "train/checkpoint/metric_name.h"
#include "train/checkpoint/run_names.h"
#include "train/ranks/compare.h"
#include "train/step/trainer.h"

/* An interval that no step is a multiple of. */
#define NEVER ((int64_t)1 << 60)

void et_training_say(const et_training *t, const char *format, ...)
{
    /* Cuts a message whose path is too long. */
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    et_progress_message(t->options->progress, text);
}

int et_training_write_settings(const et_training *t, et_error *error)
{
    return et_experiment_write(
        t->experiment, et_path_print("%s/" ET_RUN_SETTINGS, t->options->model_dir).text, error);
}

/* ---- settings that follow from the data and the length ---- */

/* The recipe (systems/modelgarden/recipe.h) chooses settings of a new run:
 *
 *   length is set         the recipe chooses before the data are opened
 *   --time-limit          the recipe chooses for an estimated number of updates. Then a few updates
 *                         are timed with the open model, and the recipe chooses again for the time.
 *                         For fine-tuning, it never chooses more passes than without a limit
 *   neither               the recipe also chooses the number of passes; a few updates are timed
 *                         only for people
 *
 * A run that begins with a trained model and its settings has the recipe of fine-tuning.
 *
 * Until a run has its length in steps, its settings have it in passes over the data. If such a
 * start is cut off, the next start times updates again. A run that resumes has all settings. */

#define IN_TIME 0.9 /* share of a time limit that is planned for */

static int apply_recipe(et_training *t, et_error *error)
{
    int status = et_recipe_apply(t->experiment, &t->amounts, t->arena, error);
    return status ? status : et_experiment_check(t->experiment, error);
}

#define MEASURED   3.0 /* seconds */
#define STEPS_MOST 100

/* The first step is not measured if there is time for more steps. */
int et_training_pace(et_training *t, int64_t most, et_pace *pace, et_error *error)
{
    et_assert(t->trainable && most >= 0);
    et_trainer *trainer = et_trainable_trainer(t->trainable);
    et_trainer_view view = { .unit = NULL };
    int status = trainer->class->loop_begin(trainer, error);
    double start = et_clock_monotonic(), units = 0;
    int64_t timed = 0;
    bool more = true;
    for (int64_t i = 0; !status && more; i++) {
        double now = et_clock_monotonic();
        bool ends = i > STEPS_MOST || i >= most || (timed && now - start > MEASURED);
        /* All ranks agree on the end and on an interruption; rank 0 reads the clock. */
        status = et_flag_is_set(t->options->stop)
                     ? et_fail(error, ET_EINTERRUPTED, "interrupted before anything started")
                     : ET_OK;
        status = et_together_decide(t->options->comm, status, &ends, error);
        more = !status && !ends;
        if (!more)
            break;
        if (i == 1) {
            start = now;
            units = 0;
            timed = 0;
        }
        status = et_trainer_step(trainer, error);
        trainer->class->view(trainer, &view);
        units += (double)view.units;
        timed++;
    }
    double seconds = et_clock_monotonic() - start;
    *pace = (et_pace){ .seconds = timed ? seconds / (double)timed : NAN,
                       .units = timed && seconds > 0 ? units / seconds : NAN,
                       .unit = view.unit };
    return status;
}

/* All ranks use the time of the slowest rank. */
static int take_slowest(double *seconds, et_comm *comm, et_error *error)
{
    void *all;
    int status = et_together_table(comm, ET_OK, seconds, sizeof *seconds, &all, error);
    for (int i = 0; !status && i < et_comm_size(comm); i++)
        *seconds = fmax(*seconds, ((const double *)all)[i]);
    et_free(all);
    return status;
}

static int time_steps(et_training *t, et_error *error)
{
    et_trainer *trainer = et_trainable_trainer(t->trainable);
    et_pace pace;
    int status;
    if ((status = trainer->class->start(trainer, error)) ||
        (status = et_training_pace(t, t->plan.train_steps, &pace, error)) ||
        (status = take_slowest(&pace.seconds, t->options->comm, error)))
        return status;
    t->step_seconds = pace.seconds;
    return ET_OK;
}

/* Updates in addition to validations; round numbers, as people would set them. */
static void fit_length(et_training *t, double seconds)
{
    et_assert(seconds > 0);
    et_recipe_amounts *a = &t->amounts;
    const double all = seconds * IN_TIME / t->step_seconds, one = a->validation;
    const int wanted = et_training_recipe(t)->validations;
    const double validations =
        wanted ? wanted * one
               : fmin(fmax(ET_RECIPE_VALIDATION * all, one), ET_RECIPE_VALIDATIONS * one);
    const double fit = fmax(all - validations, all / 2);
    const double grain = fit >= 1000 ? 50 : fit >= 100 ? 10 : 1;
    a->steps = (int64_t)fmax(floor(fit / grain) * grain, 1);
    if (t->experiment->finetunes && a->steps > t->plan.train_steps)
        a->steps = t->plan.train_steps;
    a->fitting = fmax(floor((all - (double)a->steps) / fmax(one, 1)), 1);
}

static int settle_length(et_training *t, bool *changed, et_error *error)
{
    et_assert(t->trainable && t->options->comm);
    const bool open = t->experiment->trainer.train_steps < 0;
    *changed = false;
    if (!et_training_recipe(t) || et_recipe_has_length(t->experiment) || !open)
        return ET_OK;
    const double epochs = -(double)t->experiment->trainer.train_steps / 1000;
    int status = t->amounts.samples ? ET_OK : et_recipe_measure(t->experiment, &t->amounts, error);
    t->amounts.epochs = epochs;
    t->amounts.sized = true;
    if (!status && !t->options->cluster)
        status = time_steps(t, error);
    if (status)
        return status;
    double seconds = et_training_seconds_left(t);
    status = take_slowest(&seconds, t->options->comm, error);
    t->amounts.steps = t->plan.train_steps;
    if (!status && seconds > 0)
        fit_length(t, seconds);
    /* Other ranks found rank 0's run, and may have measured other data. */
    status = et_together_give(t->options->comm, status, &t->amounts, sizeof t->amounts, error);
    t->experiment->trainer.train_steps = t->amounts.steps;
    t->paced = seconds > 0;
    if (!status && seconds > 0)
        status = apply_recipe(t, error);
    *changed = !status;
    return status;
}

/* ---- changing the length of a paced run ---- */

#define ADJUSTMENTS 20   /* looks at the time, if the length does not change */
#define LEAST       0.03 /* share of the time left to measure before a new length is chosen */
#define OF_LEFT     0.98 /* share of the time left that is planned for */
#define LONGER      0.03 /* least change of the length that is worth a change of the schedule */
#define SHORTER     0.005
#define PRINTED     0.1 /* least change that a line reports */

static void follow_length(et_training *t)
{
    et_assert(t->controller && t->trainable);
    et_task_trainer *one;
    const int64_t was = t->plan.train_steps;
    const int64_t now = et_controller_facts_of(t->controller).length;
    if (was == now)
        return;
    if (!et_trainable_single(t->trainable, &one, NULL))
        et_optimizer_follow_length(et_task_trainer_optimizer(one), was, now);
    t->plan.train_steps = now;
}

/* Estimates the length from the time of the steps since the first look, validations included, and
 * of one validation at the end. Before the first validation, its time is an estimate. */
static int64_t length_by_time(const et_training *t, int64_t step)
{
    et_assert(step > t->paced_step && t->options->ends > 0);
    const double now = et_clock_monotonic(), rest = fmax(t->options->ends - now, 0);
    const double last = et_controller_facts_of(t->controller).evaluation_seconds;
    const double guess = fmin(t->amounts.validation * t->step_seconds, rest * ET_RECIPE_VALIDATION);
    const double seconds = now - t->paced_time, validation = last > 0 ? last : guess;
    const double each = seconds / (double)(step - t->paced_step);
    const int64_t most = t->experiment->finetunes ? t->amounts.steps : INT64_MAX;
    const double left = fmax(rest - validation, 0) * OF_LEFT;
    const int64_t length = step + (int64_t)fmax(left / each, 1), plan = t->plan.train_steps;
    const double change = (double)(length - plan) / (double)plan;
    if (seconds < LEAST * rest || (change < LONGER && change > -SHORTER))
        return plan;
    return length < most ? length : most > step ? most : step + 1;
}

static int64_t due(const et_action *self, int64_t step)
{
    const et_training *t =
        (const et_training *)(const void *)((const char *)self - offsetof(et_training, pacing));
    return t->paced ? (step / t->pacing_each + 1) * t->pacing_each : ET_ACTION_NEVER;
}

/* Rank 0 decides. The state of each checkpoint contains the planned length. */
static int pace(et_action *self, const et_action_context *now, et_error *error)
{
    et_training *t = (et_training *)(void *)((char *)self - offsetof(et_training, pacing));
    const int64_t was = t->plan.train_steps;
    int64_t length = was;
    const bool first = !t->paced_time || now->step <= t->paced_step; /* a run may go back */
    if (!t->paced)
        return ET_OK;
    if (!first && !now->end)
        length = length_by_time(t, now->step);
    if (first) {
        t->paced_step = now->step;
        t->paced_time = et_clock_monotonic();
    }
    int status = et_together_give(t->options->comm, ET_OK, &length, sizeof length, error);
    if (status || length == was || now->end)
        return status;
    et_controller_set_length(t->controller, length);
    follow_length(t);
    if (fabs((double)(length - was)) > PRINTED * (double)was)
        et_training_say(t, "length       %s fit into the time limit by the speed so far",
                        et_format_many(length, "step").text);
    return ET_OK;
}

static void init_pacing(et_training *t)
{
    et_assert(t->trainable && t->plan.train_steps >= 0);
    static const et_action_class class = { .name = "pace", .due = due, .act = pace };
    t->pacing = (et_action){ &class };
    t->actions[0] = &t->pacing;
    t->pacing_each = t->plan.train_steps > ADJUSTMENTS ? t->plan.train_steps / ADJUSTMENTS : 1;
}

/* ---- the controller and its output ---- */

/* The setting of the warm-up's length. */
static const char *warmup_setting(const et_optimization_options *o)
{
    return o->learning_rate.type == ET_RATE_INVERSE_SQRT ? "learning_rate.inverse_sqrt"
           : o->warmup.type == ET_WARMUP_LINEAR          ? "warmup.linear"
                                                         : "warmup.polynomial";
}

#define SPEED_STEPS 5 /* least number of steps for measuring the speed of a run */

/* Whether the time limit comes before the end of the warm-up: once, when the first steps have told
 * the speed. */
static void warn_of_time(et_training *t, const et_showing *showing)
{
    const double limit = t->options->ends - t->options->began, now = et_clock_monotonic();
    if (!t->first_time) {
        t->first_step = showing->step;
        t->first_time = now;
    }
    const double seconds = now - t->first_time, steps = (double)(showing->step - t->first_step);
    if (showing->step < t->warmup && (steps < SPEED_STEPS || seconds < fmin(limit / 20, 10)))
        return;
    const double end = (double)showing->step + fmax(t->options->ends - now, 0) * steps / seconds;
    if (showing->step < t->warmup && end < (double)t->warmup)
        et_log(ET_LOG_WARNING,
               "training will reach the time limit at about step %s, within the warm-up of %s, "
               "so the learning rate will not reach its peak; allow more time or lower "
               "trainer.optimizer_config.%s.warmup_steps",
               et_format_count((int64_t)end).text, et_format_many(t->warmup, "step").text,
               warmup_setting(&t->plan.optimizer_config));
    t->warmup = 0;
}

/* Shows a step in the bar. */
static void show(void *self, const et_showing *showing)
{
    et_training *t = self;
    t->showing = *showing;
    if (t->warmup)
        warn_of_time(t, showing);
    if (t->options->follow)
        t->options->follow(t->options->self, showing, t->options->progress);
    et_progress_field fields[] = { { ET_LOGGED_LOSS, showing->loss, true },
                                   { "lr", showing->learning_rate, false } };
    et_progress_state state = { .what = t->options->counted,
                                .step = showing->step,
                                .steps = showing->steps,
                                .fields = fields,
                                .field_count = 2,
                                .rate = showing->rate,
                                .unit = t->rate,
                                .epoch = showing->epoch,
                                .seconds_left = NAN,
                                .time = showing->time };
    et_progress_update(t->options->progress, &state);
}

static void tell(void *self, const char *text)
{
    et_progress_message(((et_training *)self)->options->progress, text);
}

/* The settings name the metric, or else the task does. */
static int choose_best(et_training *t, et_error *error)
{
    const char *name = et_trainer_best_metric(&t->experiment->trainer);
    int status = et_trainer_target(&t->experiment->trainer, &t->target, &t->targeted, error);
    if (!status)
        status = et_trainable_best_metric(t->trainable, name, &t->best_metric, t->arena, error);
    if (status || !t->best_metric)
        return status;
    t->best_tie = et_metric_beside(t->best_metric, ET_LOGGED_VALIDATION_LOSS, t->arena);
    return t->best_tie ? ET_OK : et_alloc_failed(error, "a name");
}

/* The mode `train` does not validate. */
static et_evaluator *evaluator_of(const et_training *t)
{
    return t->options->validating == ET_VALIDATING_NEVER ? NULL
                                                         : et_trainable_evaluator(t->trainable);
}

/* The console's view of logs: the table and, on request, every log. interval: steps between
 * validations; 0: none. */
static int open_console(et_training *t, const char *directory, int64_t interval, et_sink **out,
                        et_error *error)
{
    static const char *const in_table[] = { ET_LOGGED_TRAIN, ET_LOGGED_VALIDATION, NULL };
    const et_training_options *o = t->options;
    et_sink *sinks[2] = { NULL, NULL };
    const et_training_table_options table = {
        .progress = o->progress,
        .log = et_arena_printf(t->arena, "%s/" ET_RUN_LOG, directory),
        .best = interval ? t->best_metric : NULL,
        .lowest = et_trainer_best_comparison(&t->plan, t->best_metric) == ET_COMPARE_LOWER,
        .metrics = t->shown,
        .most = interval ? t->shown_most : 0,
        .epochs = !interval || interval >= t->plan.train_steps,
        .validated = interval,
        .steps = t->plan.train_steps,
        .began = o->began,
        .now = &t->showing,
    };
    int status = table.log ? et_sink_console_open(&sinks[0], o->progress,
                                                  o->verbose ? NULL : in_table, error)
                           : et_alloc_failed(error, "a path");
    if (!status)
        status = et_training_table_open(&sinks[1], &table, error);
    if (!status)
        return et_sink_multi_open(out, sinks, 2, error);
    et_sink_close(sinks[0], NULL);
    return status;
}

/* stop and save are flags that signal handlers set; the directory's lock is ours already. */
static int open_controller(et_training *t, const char *directory, et_error *error)
{
    const et_training_options *o = t->options;
    const bool at_end = o->validating == ET_VALIDATING_AT_END;
    const int64_t interval = at_end ? NEVER : t->plan.validation_interval;
    et_evaluator *evaluator = evaluator_of(t);
    const bool stops_early = t->best_metric && evaluator && !at_end;
    if ((!evaluator || at_end) &&
        (t->targeted ||
         (t->plan.early_stopping.patience &&
          et_fields_was_given(&t->experiment->given, "trainer.early_stopping.patience"))))
        et_log(
            ET_LOG_WARNING,
            "trainer.early_stopping: this run does not validate%s, so it does not stop early; %s",
            at_end ? " before its end" : "",
            o->validating == ET_VALIDATING ? "name validation data, such as --valid"
                                           : "choose --mode train_and_eval");
    init_pacing(t);
    t->internals = (et_internals){ .lock = &t->directory.lock,
                                   .track = et_device_track(t->device),
                                   .waits = !o->async };
    et_controller_options options = {
        .trainer = et_training_trainer(t),
        .evaluator = evaluator,
        .run = { .model_dir = directory,
                 .best_metric = t->best_metric,
                 .best_tie = t->best_tie,
                 .observer = { .self = t, .show = show, .tell = tell },
                 .verbose = o->verbose,
                 .internals = &t->internals,
                 .other_optimizer = o->accept_changes,
                 .identity = t->identity,
                 .comm = o->comm,
                 .stop = o->stop,
                 .save = o->save },
        .actions = t->actions,
        .action_count = 1,
        .patience = stops_early ? t->plan.early_stopping.patience : 0,
        .target = stops_early && t->targeted ? &t->target : NULL,
    };
    et_experiment_control(&t->plan, &options);
    options.validation_interval = interval;
    int status = open_console(t, directory, evaluator ? interval : 0, &options.run.console, error);
    if (!status)
        status = et_controller_open(&t->controller, &options, error);
    if (!status)
        follow_length(t);
    return status;
}

static int open_trainer(et_training *t, et_error *error)
{
    const et_experiment *e = t->experiment;
    const char *mode = t->options->mode, *rate = e->kind->rate;
    et_task_trainer_options options;
    int status = et_experiment_trainer_options(e, &t->plan, &options, error);
    options.comm = e->runtime.data_shards > 1 ? t->options->comm : NULL;
    options.stop = t->options->stop;
    if (status ||
        (status = et_trainable_open(&t->trainable, t->task, t->device, t->params, &options, error)))
        return status;
    if (mode && t->options->validating != ET_VALIDATING_NEVER && !evaluator_of(t))
        return et_fail(error, ET_ECONFIG,
                       "--mode %s: " ET_NO_VALIDATION_DATA "; set some, or choose --mode train",
                       mode);
    snprintf(t->rate, sizeof t->rate, "%s%s",
             rate ? rate : et_layout_unit(et_trainable_layout(t->trainable)), rate ? "" : "/s");
    return ET_OK;
}

/* Batches of an update for each of one process. */
static int64_t batches_of(const et_training *t)
{
    et_training_cluster *cluster = t->options->cluster;
    return cluster ? cluster->batches(cluster, t->experiment) : 1;
}

/* Epochs become steps, because the data can now be counted. */
static int plan_steps(et_training *t, et_error *error)
{
    et_optimization_options *optimization = &t->plan.optimizer_config;
    bool decays = et_optimization_counts_epochs(optimization);
    int64_t batches = 0, shards = t->experiment->runtime.data_shards;
    int status = decays || et_trainer_counts_epochs(&t->plan)
                     ? et_trainable_batches(t->trainable, &batches, error)
                     : ET_OK;
    if (!status && decays)
        et_optimization_resolve(optimization, batches, t->plan.gradient_accumulation * shards);
    shards *= batches_of(t);
    return status ? status : et_trainer_options_resolve(&t->plan, batches, shards, error);
}

#define SAMPLED_STEPS 1000 /* at a run's rest */

/* Whether the rate is 0 from this step to the end; some schedules rise again. */
static bool is_zero_from(const et_schedule *schedule, int64_t step, int64_t end)
{
    for (int64_t i = 0; i < SAMPLED_STEPS; i++)
        if (et_schedule_rate(schedule,
                             step + (int64_t)((double)(end - step) * (double)i / SAMPLED_STEPS)))
            return false;
    return true;
}

/* An update at this rate destroys a model. */
#define RATE_OF_NO_USE 1000

/* Warns if the run is longer than a decay with its own length. */
static void warn_of_rest(const et_training *t, const et_schedule *schedule)
{
    int64_t some = 0, none = t->plan.train_steps - 1;
    if (et_schedule_rate(schedule, none) != 0)
        return;
    while (none - some > 1) {
        int64_t middle = some + (none - some) / 2;
        *(et_schedule_rate(schedule, middle) != 0 ? &some : &none) = middle;
    }
    if (some && none < t->plan.train_steps - 1 && is_zero_from(schedule, none, t->plan.train_steps))
        et_log(ET_LOG_WARNING,
               "the learning rate is 0 from step %lld of %lld on, so the model learns nothing "
               "there; a decay without decay_steps ends with the run",
               (long long)none, (long long)t->plan.train_steps);
}

static void warn_of_rates(et_training *t)
{
    const et_optimization_options *o = &t->plan.optimizer_config;
    et_schedule schedule;
    if (et_comm_rank(t->options->comm) || et_controller_finished(t->controller) ||
        et_schedule_init(&schedule, &o->learning_rate, &o->warmup, NULL))
        return;
    double rate = et_schedule_rate(&schedule, 0);
    if (rate >= RATE_OF_NO_USE && t->plan.train_steps > 0)
        et_log(ET_LOG_WARNING,
               "the learning rate of the first update is %g%s, so training will diverge; lower the "
               "rate",
               rate,
               t->plan.optimizer_config.learning_rate.type == ET_RATE_POWER_WITH_OFFSET
                   ? " (power_with_offset.pre_offset_learning_rate)"
                   : "");
    warn_of_rest(t, &schedule);
    /* The speed of the run decides whether the time is enough; see warn_of_time. */
    const int64_t warmup = et_schedule_warmup(&schedule), steps = t->plan.train_steps;
    if (steps > 0 && warmup >= steps)
        et_log(ET_LOG_WARNING,
               "the run ends at step %s, within the warm-up of %s, so the learning rate "
               "never reaches its peak; train longer or lower "
               "trainer.optimizer_config.%s.warmup_steps",
               et_format_count(steps).text, et_format_many(warmup, "step").text, warmup_setting(o));
    else if (steps > 0 && t->options->ends > 0)
        t->warmup = warmup;
}

static int open_task(void *self, et_error *error)
{
    et_training *t = self;
    const et_initial *initial = t->options->initial;
    int status = t->experiment->kind->open(&t->task, t->experiment->task, &t->context, error);
    if (!status && initial->from && initial->unset)
        t->task->init_checkpoint = initial->checkpoint;
    return status;
}

/* Rank 0 makes files from the data; the other ranks read them afterwards. If a step fails,
 * close_model closes the open parts. */
static int open_model(et_training *t, const char *directory, et_error *error)
{
    const et_training_options *o = t->options;
    et_experiment *e = t->experiment;
    t->context = (et_task_context){ .model_dir = directory,
                                    .shown_dir = !o->tried      ? NULL
                                                 : o->model_dir ? o->model_dir
                                                                : "RUN",
                                    .device = t->device,
                                    .identity = &t->kept,
                                    .listener = t,
                                    .tell = tell,
                                    .stop = o->stop,
                                    .foreign = o->initial->foreign,
                                    .reader = et_comm_rank(o->comm) != 0,
                                    .comm = o->comm };
    et_experiment_set_context(e, &t->context);
    t->plan = e->trainer;
    et_optimization_options *rates = &t->plan.optimizer_config;
    rates->learning_rate.run.gradients = batches_of(t);
    int status = et_params_new(&t->params, error);
    t->context.params = t->params;
    if (status || (status = et_together_in_turn(o->comm, open_task, t, error)) ||
        (status = et_experiment_identify(&t->identity, e, e->kind->identify, t->task, t->arena,
                                         error)) ||
        (status = et_ranks_compare(o->comm, ET_OK, t->identity, t->device, error)) ||
        (status = et_optimization_end_with_run(rates, t->plan.train_steps, t->arena, error)) ||
        (status = open_trainer(t, error)) || (status = choose_best(t, error)) ||
        (status = et_trainable_shown_metrics(t->trainable, t->best_metric, &t->shown,
                                             &t->shown_most, t->arena, error)))
        return status;
    return plan_steps(t, error);
}

static void close_model(et_training *t)
{
    et_trainable_close(t->trainable);
    if (t->task)
        t->experiment->kind->close(t->task);
    et_params_free(t->params);
    t->trainable = NULL;
    t->task = NULL;
    t->params = NULL;
}

static int reopen_model(et_training *t, const char *directory, et_error *error)
{
    close_model(t);
    return open_model(t, directory, error);
}

/* Opens the model again with another batch size. */
static int open_batch(et_training *t, const char *directory, int64_t batch, et_error *error)
{
    close_model(t);
    int status;
    if ((status = et_experiment_set_batch(t->experiment, NULL, batch, t->arena, error)) ||
        (t->amounts.samples && (status = apply_recipe(t, error))))
        return status;
    return open_model(t, directory, error);
}

/* ---- the batch that fits into a memory ---- */

#define TRIES_MOST 16
#define GROWTH     8.0  /* at most, from one that fits to the next */
#define CLOSE      0.02 /* of the answer: no better one is sought */

et_batch_fit et_batch_fit_begin(uint64_t budget, int64_t batch, int64_t most)
{
    et_assert(batch > 0 && most >= ET_BATCH_LEAST && most <= ET_BATCH_MOST);
    return (et_batch_fit){ .budget = budget,
                           .most = most,
                           .batch = batch < ET_BATCH_LEAST ? ET_BATCH_LEAST
                                    : batch > most         ? most
                                                           : batch };
}

/* A 32nd of it, as a power of two: batches are round numbers. */
static int64_t grain_of(int64_t batch)
{
    int64_t grain = ET_BATCH_LEAST;
    while (2 * grain <= batch / 32)
        grain *= 2;
    return grain;
}

static double bounded(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

static double guess(const et_batch_fit *f, uint64_t bytes)
{
    double share = (double)f->budget / (double)(bytes ? bytes : 1);
    if (f->fits && f->fails) {
        /* Between the two on the line through both, but not at either end. */
        const double gap = (double)(f->fails - f->fits);
        const double rise = (double)(f->fails_bytes - f->fits_bytes);
        const double at = (double)f->fits + (double)(f->budget - f->fits_bytes) * gap / rise;
        return bounded(at, (double)f->fits + gap / 16, (double)f->fails - gap / 16);
    }
    if (f->fits)
        return (double)f->batch * bounded(share, 1.25, GROWTH);
    return (double)f->batch * bounded(0.9 * share, 0.1, 0.75);
}

/* The largest batch that fits is below the smallest that does not. 0: none yet. */
static void fit_sane(const et_batch_fit *f)
{
    et_assert(f->batch > 0 && f->budget > 0);
    et_assert(f->fits >= 0 && f->fails >= 0);
    et_assert(!f->fits || !f->fails || f->fits < f->fails);
    et_assert(!f->fits || f->fits_bytes <= f->budget);
    et_assert(!f->fails || f->fails_bytes > f->budget);
}

bool et_batch_fit_note(et_batch_fit *f, uint64_t bytes, bool whole)
{
    fit_sane(f);
    const bool fits = bytes <= f->budget;
    if (fits) {
        f->fits = f->batch;
        f->fits_bytes = bytes;
    } else {
        f->fails = f->batch;
        f->fails_bytes = bytes;
    }
    if (++f->tries >= TRIES_MOST || (fits && (whole || f->batch >= f->most)) ||
        (!fits && f->batch <= ET_BATCH_LEAST))
        return false;
    int64_t next = (int64_t)bounded(guess(f, bytes), ET_BATCH_LEAST, (double)f->most);
    const int64_t grain = grain_of(next);
    next = next / grain * grain;
    if (f->fits && next < f->fits + grain)
        next = f->fits + grain;
    if (next > f->most)
        next = f->most;
    bool close = f->fits && f->fails && (double)(f->fails - f->fits) <= CLOSE * (double)f->fits;
    if (close || next <= f->fits || (f->fails && next >= f->fails))
        return false;
    f->batch = next;
    return true;
}

/* Opens the smallest possible batch, between a size that cannot be opened and a size that can. The
 * batch stays open. If there is none, keeps the message of the size that cannot be opened. */
static int open_least(et_training *t, const char *directory, et_batch_fit *fit, et_error *error)
{
    const et_error why = *error;
    int64_t too_small = fit->batch, least = fit->fails;
    int status = ET_OK;
    while (!status && least - too_small > ET_BATCH_LEAST) {
        const int64_t middle = (too_small + least) / 2 / ET_BATCH_LEAST * ET_BATCH_LEAST;
        if (middle <= too_small)
            break;
        status = open_batch(t, directory, middle, error);
        *(status == ET_ECONFIG ? &too_small : &least) = middle;
        status = status == ET_ECONFIG ? ET_OK : status;
    }
    if (!status && (status = open_batch(t, directory, least, error)) == ET_ECONFIG)
        *error = why;
    if (!status) {
        fit->batch = least;
        et_batch_fit_note(fit, et_training_planned(t), true);
    }
    return status;
}

/* Rounded up to two digits, so that the printed number is enough. */
static et_format at_least(uint64_t bytes)
{
    uint64_t unit = 1;
    while (bytes / unit >= 100)
        unit *= 10;
    return et_format_bytes((bytes + unit - 1) / unit * unit);
}

/* --memory: opens each tried batch size as for training, beginning with the batch of the settings.
 * The first opening caches the data in the run's directory. If a recipe chose the batch for the
 * data, no larger batch is tried, because the run would have too few updates. */
static int fit_batch(et_training *t, const char *directory, et_error *error)
{
    const et_layout *layout = et_trainable_layout(t->trainable);
    const int64_t batch = layout->capacity[layout->unit];
    const int64_t most = t->amounts.samples && batch < ET_BATCH_MOST ? batch : ET_BATCH_MOST;
    et_batch_fit fit = et_batch_fit_begin(t->options->memory, batch,
                                          most < ET_BATCH_LEAST ? ET_BATCH_LEAST : most);
    bool more = true;
    int status = ET_OK;
    while (!status && more) {
        int64_t batches = 0;
        status = et_flag_is_set(t->options->stop)
                     ? et_fail(error, ET_EINTERRUPTED, "%s", ET_RUN_NOT_BEGUN)
                     : open_batch(t, directory, fit.batch, error);
        const bool small = status == ET_ECONFIG && fit.fails;
        if (small)
            status = open_least(t, directory, &fit, error);
        if (status == ET_ECONFIG)
            return et_fail_while(error, status, "--memory %s", et_format_bytes(fit.budget).text);
        if (!status)
            status = et_trainable_batches(t->trainable, &batches, error);
        more = !status && !small && et_batch_fit_note(&fit, et_training_planned(t), batches == 1);
    }
    if (!status && !fit.fits)
        status = et_fail(error, ET_ENOMEM,
                         "--memory %s is too little; the smallest possible batch, %lld, needs %s",
                         et_format_bytes(fit.budget).text, (long long)fit.fails,
                         at_least(fit.fails_bytes).text);
    return status || fit.batch == fit.fits ? status : open_batch(t, directory, fit.fits, error);
}

/* As little memory as can be, and then, with the batch that fits, as little time. */
static int fit_economically(et_training *t, const char *directory, et_error *error)
{
    int *recompute = &t->experiment->runtime.recompute;
    if (*recompute != ET_RECOMPUTE_AUTO)
        return fit_batch(t, directory, error);
    *recompute = ET_RECOMPUTE_LAYERS;
    int status = fit_batch(t, directory, error);
    if (status)
        return status;
    *recompute = ET_RECOMPUTE_AUTO;
    status = reopen_model(t, directory, error);
    if (status || et_training_planned(t) <= t->options->memory)
        return status;
    *recompute = ET_RECOMPUTE_LAYERS;
    return reopen_model(t, directory, error);
}

/* Opens device and profiling, then the parts that need them. */
int et_training_open_parts(et_training *t, const char *directory, et_error *error)
{
    et_assert(t->options->comm && !t->device && !t->task);
    /* A borrowed device would outlive the trace. */
    et_assert(!t->options->device || !t->options->profiling->path);
    bool fits = t->options->memory && !et_model_dir_has_weights(t->options->model_dir);
    bool changed = false;
    t->device = t->options->device;
    int status = t->device ? ET_OK : et_device_open(&t->device, error);
    if (status)
        return status;
    if (fits && t->experiment->runtime.data_shards > 1)
        return et_fail(
            error, ET_ECONFIG,
            "--memory cannot be used with runtime.data_shards: %lld; set the batch size instead",
            (long long)t->experiment->runtime.data_shards);
    if ((status = et_profiling_open(t->options->profiling, t->device, ET_RUN_STEP_SPAN, error)) ||
        (status = open_model(t, directory, error)) ||
        (fits && (status = fit_economically(t, directory, error))) ||
        (status = settle_length(t, &changed, error)))
        return status;
    return changed ? reopen_model(t, directory, error) : ET_OK;
}

/* Workers and servers read the settings in the directory, so these are written first. */
static int open_cluster(et_training *t, et_error *error)
{
    et_training_cluster *cluster = t->options->cluster;
    if (!cluster)
        return ET_OK;
    if (t->plan.recovery_max_trials > 0)
        return et_fail(error, ET_ECONFIG,
                       "trainer.recovery_max_trials: %lld: a run with workers and parameter "
                       "servers cannot go back to a checkpoint by itself; set 0",
                       (long long)t->plan.recovery_max_trials);
    et_task_trainer *single;
    int status;
    if ((status = et_trainable_single(t->trainable, &single, error)) ||
        (status = et_training_write_settings(t, error)))
        return status;
    return cluster->open(cluster, &t->cluster, single, t->experiment, t->plan.train_steps,
                         t->options->progress, error);
}

int et_training_open(et_training *t, const char *directory, et_error *error)
{
    et_assert(t->directory.lock >= 0 || et_comm_rank(t->options->comm));
    int status;
    if ((status = et_training_open_parts(t, directory, error)) ||
        (status = open_cluster(t, error)) || (status = open_controller(t, directory, error)))
        return status;
    warn_of_rates(t);
    /* A finished run does no step that could be recorded. */
    int64_t left = t->plan.train_steps - et_training_step(t);
    return left > 0 ? et_profiling_begin(t->options->profiling, left, error) : ET_OK;
}

/* Closes in reverse order. The directory is last, because its lock covers all files that are
 * written. */
void et_training_close(et_training *t)
{
    if (t->cluster)
        t->options->cluster->close(t->cluster);
    close_model(t);
    if (!t->options->device)
        et_device_close(t->device);
    et_profiling_release(t->options->profiling);
    et_model_dir_close(&t->directory, !t->set_up);
}

uint64_t et_training_planned(const et_training *t)
{
    const et_trainable_facts facts = et_trainable_facts_of(t->trainable);
    return facts.parameter_bytes + facts.sum_bytes + facts.memory.activations +
           facts.memory.packed + facts.memory.constants;
}
