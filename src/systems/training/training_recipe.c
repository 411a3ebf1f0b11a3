/* Settings that follow from the data and the length of the run (systems/modelgarden/recipe.h), for
 * a new run:
 *
 *   length is set         the recipe chooses before the data are opened
 *   --time-limit          the recipe chooses for an estimated number of updates; then a few updates
 *                         are timed with the open model, and the recipe chooses again for the time
 *                         (of fine-tuning: never for more passes than without a limit)
 *   neither               the recipe also chooses the number of passes; a few updates are timed
 *                         only for people
 *
 * A run that begins with a trained model and its settings has the recipe of fine-tuning.
 *
 * Until a run has its length in steps, its settings have it in passes over the data. If such a
 * start is cut off, the next start times updates again. A run that resumes has all settings. */
#include "base/assert.h"
#include "systems/training/training_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/flag.h"
#include "base/text/format.h"
#include "engine/comm/together.h"
#include "engine/optim/optimizer.h"
#include "train/step/trainer.h"

#define IN_TIME     0.9 /* share of a time limit that is planned for */
#define LINE_WIDTH  80
#define LABEL_WIDTH 13

int et_training_apply_recipe(et_training *t, et_error *error)
{
    int status = et_recipe_apply(t->experiment, &t->amounts, t->arena, error);
    return status ? status : et_experiment_check(t->experiment, error);
}

#define MEASURED   3.0 /* seconds */
#define STEPS_MOST 100

/* Where there is time for more, the first step does not count. */
int et_training_pace(et_training *t, int64_t most, et_pace *pace, et_error *error)
{
    et_assert(t->learner && most >= 0);
    et_trainer *trainer = et_learner_trainer(t->learner);
    et_trainer_view view = { .unit = NULL };
    int status = trainer->class->loop_begin(trainer, error);
    double start = et_clock_monotonic(), units = 0;
    int64_t timed = 0;
    bool more = true;
    for (int64_t i = 0; !status && more; i++) {
        double now = et_clock_monotonic();
        bool ends = i > STEPS_MOST || i >= most || (timed && now - start > MEASURED);
        /* All ranks agree how long that goes on and whether it was interrupted; rank 0 looks at the
         * clock. */
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

/* All ranks go by the slowest. */
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
    et_trainer *trainer = et_learner_trainer(t->learner);
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

int et_training_settle_length(et_training *t, bool *changed, et_error *error)
{
    et_assert(t->learner && t->options->comm);
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
        status = et_training_apply_recipe(t, error);
    *changed = !status;
    return status;
}

/* ---- the length, again ---- */

#define ADJUSTMENTS 20 /* times that the length is settled again, if it stays */
#define LEAST                                                                                      \
    0.03             /* share of the time left that is measured before the length is settled again \
                      */
#define OF_LEFT 0.98 /* share of the time left that is planned for */
#define LONGER  0.03 /* least change of the length that is worth a change of the schedule */
#define SHORTER 0.005
#define PRINTED 0.1 /* least change that a line reports */

void et_training_follow_length(et_training *t)
{
    et_assert(t->controller && t->learner);
    et_task_trainer *one;
    const int64_t was = t->plan.train_steps;
    const int64_t now = et_controller_facts_of(t->controller).length;
    if (was == now)
        return;
    if (!et_learner_single(t->learner, &one, NULL))
        et_optimizer_follow_length(et_task_trainer_optimizer(one), was, now);
    t->plan.train_steps = now;
}

/* By the time of the steps since the first look, with their validations, and that of one validation
 * at the end. What a validation takes is an estimate before the first one. */
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

/* Rank 0 decides. The state of each checkpoint has the length that it was trained for. */
static int pace(et_action *self, const et_moment *now, et_error *error)
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
    et_training_follow_length(t);
    if (fabs((double)(length - was)) > PRINTED * (double)was)
        et_training_say(t, "length       %s fit into the time limit by the speed so far",
                        et_format_many(length, "step").text);
    return ET_OK;
}

void et_training_init_pacing(et_training *t)
{
    et_assert(t->learner && t->plan.train_steps >= 0);
    static const et_action_class class = { .name = "pace", .due = due, .act = pace };
    t->pacing = (et_action){ &class };
    t->actions[0] = &t->pacing;
    t->pacing_each = t->plan.train_steps > ADJUSTMENTS ? t->plan.train_steps / ADJUSTMENTS : 1;
}

/* ---- telling ---- */

/* The length of the most items, each followed by ", ", that a line has room for; all if the first
 * is too long. */
static size_t fitting(const char *text)
{
    const size_t most = LINE_WIDTH - LABEL_WIDTH, all = strlen(text);
    size_t length = all <= most ? all : most + 1;
    while (length && text[length] && !(text[length] == ' ' && text[length - 1] == ','))
        length--;
    return length ? length : all;
}

void et_training_say_recipe(et_training *t)
{
    et_assert(t->options->progress);
    et_strbuf chosen = ET_STRBUF_INIT;
    if (!t->amounts.samples)
        return;
    if (!et_recipe_has_length(t->experiment)) {
        const et_format steps = et_format_many(t->amounts.steps, "step");
        if (t->options->ends > 0 && !t->options->cluster)
            et_training_say(t, "length       %s of %s s fit into the time limit", steps.text,
                            et_format_value(t->step_seconds).text);
        else if (t->step_seconds > 0)
            et_training_say(
                t,
                "length       %s epochs, %s: about %s (--epochs, --steps or --time-limit "
                "sets another)",
                et_format_value(t->amounts.epochs).text, steps.text,
                et_format_duration(t->step_seconds * (double)t->amounts.steps).text);
    }
    if (!et_recipe_print(t->experiment, &chosen, NULL) && et_strbuf_text(&chosen)[0]) {
        et_training_say(t, "%s  for %s and %s (--set changes any of these):",
                        t->experiment->finetunes ? "fine-tuning" : "recipe     ",
                        et_format_many(t->amounts.samples, et_training_recipe(t)->noun).text,
                        et_format_many(t->plan.train_steps, "step").text);
        const char *text = et_strbuf_text(&chosen);
        while (*text) {
            const size_t length = fitting(text);
            et_training_say(t, "%*s%.*s", LABEL_WIDTH, "", (int)length, text);
            text += length + (text[length] == ' ');
        }
    }
    et_strbuf_release(&chosen);
}

void et_training_say(const et_training *t, const char *format, ...)
{
    /* Paths may be long; what does not fit is lost, and only of a message. */
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    et_progress_message(t->options->progress, text);
}
