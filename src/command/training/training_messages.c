/* Lines for people at the start and the end of a training. */
#include "command/training/training_private.h"

#include <stdarg.h>
#include <stdio.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/text/format.h"
#include "base/text/pattern.h"
#include "base/text/strbuf.h"
#include "engine/comm/comm.h"
#include "engine/tensor/layout.h"
#include "formats/events/log_names.h"
#include "systems/orbit/controller.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/identity.h"
#include "train/checkpoint/run_names.h"
#include "train/task/task_private.h"

void et_training_say(et_progress *progress, const char *format, ...)
{
    /* Paths may be long; what does not fit is lost, and only of a message. */
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    et_progress_message(progress, text);
}

/* Data and model: the kind's lines. Thirteen columns for what a line is about, as every line of a
 * start has them. */
void et_training_say_task(et_training *t)
{
    if (t->experiment.kind->describe)
        t->experiment.kind->describe(t->task);
    else
        et_training_say(t->progress, "model        %s parameters",
                        et_format_count(et_params_elements(t->params)).text);
}

uint64_t et_training_planned(const et_training *t)
{
    const et_learner_facts facts = et_learner_facts_of(t->learner);
    return facts.parameter_bytes + facts.sum_bytes + facts.memory.activations +
           facts.memory.packed + facts.memory.constants;
}

/* What will be in memory: what was planned, not what the system has given. */
void et_training_say_memory(et_training *t)
{
    const et_learner_facts facts = et_learner_facts_of(t->learner);
    char sums[64] = "";
    if (facts.sum_bytes)
        snprintf(sums, sizeof sums, "sums of gradients %s, ",
                 et_format_bytes(facts.sum_bytes).text);
    /* Resolved by now: never auto. */
    bool bf16 = t->experiment.runtime.mixed_precision_dtype == ET_PRECISION_BFLOAT16;
    et_training_say(t->progress, "precision    %s (this CPU has %s), %s",
                    bf16 ? "mixed_bfloat16" : "float32", et_gemm_isa(),
                    et_format_many(t->device->threads, "thread").text);
    /* Tables made with the plan, and packed weights where a plan keeps them. */
    size_t constants = facts.memory.packed + facts.memory.constants;
    const et_recompute twice = facts.recompute;
    et_training_say(
        t->progress, "memory       %s planned: parameters %s, activations %s, %sconstants %s%s",
        et_format_bytes(et_training_planned(t)).text, et_format_bytes(facts.parameter_bytes).text,
        et_format_bytes(facts.memory.activations).text, sums, et_format_bytes(constants).text,
        twice == ET_RECOMPUTE_LAYERS   ? "; feed-forward layers and attention are computed twice"
        : twice == ET_RECOMPUTE_MARKED ? "; feed-forward layers are computed twice"
                                       : "");
}

/* For --verbose: what a step is made of, and where its logs are. */
void et_training_say_parts(et_training *t, const char *directory)
{
    et_training_say(t->progress, "kernels      %s; %s calls for loss and gradients",
                    t->device->kernels->name,
                    et_format_count(et_learner_facts_of(t->learner).calls).text);
    et_training_say(t->progress,
                    "logs         %s/" ET_RUN_LOG ", events for TensorBoard in %s/" ET_LOGGED_TRAIN,
                    directory, directory);
}

void et_training_say_ranks(et_training *t)
{
    if (et_comm_size(t->comm) > 1)
        et_training_say(t->progress, "ranks        %d, %s", et_comm_size(t->comm),
                        t->comm->class->name);
}

/* What is usual: below one in the number of samples. */
static double delta_of(int64_t samples)
{
    double delta = 1e-5;
    while (delta * (double)samples >= 1)
        delta /= 10;
    return delta;
}

/* A batch is a sample where privacy is each one's. */
void et_training_say_privacy(et_training *t, int64_t steps)
{
    const et_experiment *e = &t->experiment;
    const et_privacy_options *privacy = et_privacy_in(e->kind->fields, e->task);
    const int64_t taken = e->trainer.gradient_accumulation * e->runtime.data_shards;
    int64_t samples = 0;
    double epsilon;
    if (!privacy)
        return;
    if (!privacy->per_example) {
        et_training_say(t->progress, "privacy      no guarantee: the gradient of a whole update is "
                                     "clipped, not that of each sample; see per_example");
        return;
    }
    if (et_learner_batches(t->learner, &samples, NULL) || samples < 1)
        return;
    const double delta = delta_of(samples), rate = (double)taken / (double)samples;
    if (et_privacy_spent(rate < 1 ? rate : 1, privacy->noise_multiplier, steps, delta, &epsilon,
                         NULL, NULL))
        return;
    et_training_say(
        t->progress,
        "privacy      epsilon %.4g at delta %.0e by step %s: %s of %s samples an update", epsilon,
        delta, et_format_count(steps).text, et_format_count(taken).text,
        et_format_count(samples).text);
}

void et_training_say_new(et_training *t)
{
    const et_layout *layout = et_training_layout(t);
    const char *amount = t->experiment.kind->amount;
    int64_t shards = t->experiment.runtime.data_shards;
    char parts[64] = "";
    if (shards > 1)
        snprintf(parts, sizeof parts, ", in %lld shards", (long long)shards);
    et_training_say(t->progress, "training     %s, batches of %s %s%s%s",
                    et_format_many(t->plan.train_steps, "step").text,
                    et_format_count(layout->capacity[layout->unit] * shards).text,
                    amount ? amount : et_layout_unit(layout), amount ? "" : "s", parts);
}

/* Where the weights of a new run come from, and what else came with them. */
/* From the head of a file alone: whoever takes its weights has read all of it. */
static bool identity_of(et_identity *out, const char *from, et_arena *arena)
{
    char *path = NULL;
    if (!et_identity_of_newest(out, from, arena, NULL) && out->checkpoint)
        return true;
    if (et_checkpoint_find_weights(&path, from, NULL))
        return false;
    const char *copy = et_arena_strdup(arena, path);
    et_free(path);
    return copy && et_identity_of_file(out, copy, arena);
}

/* Weights say by number what a token, a class or a column is. With a pattern it is the user who
 * says which are meant. */
static void warn_of_initial(et_training *t, const char *from)
{
    et_identity theirs;
    if (t->task->init_pattern || et_comm_rank(t->comm) || !identity_of(&theirs, from, &t->arena))
        return;
    const char *other = et_identity_other_file(theirs.values, t->identity);
    if (other)
        et_log(ET_LOG_WARNING,
               "%s has another %s than this run, so tokens, classes or columns may not match; "
               "--init RUN also takes the files that belong to the weights",
               theirs.checkpoint, other);
}

void et_training_say_initial(et_training *t)
{
    const et_initial *i = &t->initial;
    const char *from = i->from ? i->checkpoint : t->task->init_checkpoint;
    bool more = i->settings || i->taken;
    if (!from || !*from || et_training_step(t))
        return;
    et_training_say(t->progress, "initial      weights of %s%s%s%s%s%s%s", from, more ? "; " : "",
                    i->settings ? "settings" : "", i->settings && i->taken ? ", " : "",
                    i->taken ? i->taken : "", more ? " of " : "", more ? i->run : "");
    warn_of_initial(t, from);
}

/* "frozen       44,121,600 of 74,410,496 parameters: encoder" */
void et_training_say_frozen(et_training *t)
{
    const et_strings frozen = t->plan.optimizer_config.frozen;
    et_strbuf text = ET_STRBUF_INIT;
    et_patterns *patterns;
    int64_t elements = 0;
    if (!frozen.count || et_patterns_new(&patterns, frozen, ET_SETTING_FROZEN, NULL))
        return;
    for (int i = 0; i < et_params_count(t->params); i++)
        if (et_params_is_trained(t->params, i) &&
            et_patterns_match(patterns, et_params_name(t->params, i)))
            elements += et_shape_count(et_params_shape(t->params, i));
    for (size_t i = 0; i < frozen.count; i++)
        et_strbuf_printf(&text, "%s%s", i ? ", " : "", frozen.items[i]);
    et_training_say(t->progress, "frozen       %s of %s parameters: %s",
                    et_format_count(elements).text,
                    et_format_count(et_params_elements(t->params)).text, et_strbuf_text(&text));
    et_strbuf_release(&text);
    et_patterns_free(patterns);
}

/* How many epochs so many steps are of a run whose length was given in epochs; 0: it was not. */
static double epochs_of(const et_training *t, int64_t steps)
{
    const int64_t given = t->experiment.trainer.train_steps;
    return given < 0 ? -(double)given / 1000 * (double)steps / (double)t->plan.train_steps : 0;
}

static void say_past(et_training *t, int64_t step)
{
    const int64_t steps = t->plan.train_steps;
    const double epochs = epochs_of(t, steps);
    if (epochs > 0)
        et_training_say(t->progress,
                        "nothing done the run is at step %s, past trainer.train_epochs: %g, and is "
                        "left as it is; to continue, set more than %.4g",
                        et_format_count(step).text, epochs, epochs_of(t, step));
    else
        et_training_say(t->progress,
                        "nothing done the run is at step %s, past trainer.train_steps: %s; to "
                        "continue, set more than %s",
                        et_format_count(step).text, et_format_count(steps).text,
                        et_format_count(step).text);
}

/* Three cases: nothing left to do, going on, a new run. */
void et_training_say_begin(et_training *t)
{
    int64_t steps = t->plan.train_steps, step = et_training_step(t);
    /* No steps left: the message says so, and the command succeeds. */
    if (step > steps)
        say_past(t, step);
    else if (et_controller_finished(t->controller) &&
             et_controller_facts_of(t->controller).stopped_early)
        et_training_say(
            t->progress,
            "finished     early, at step %s of %s; to continue, change trainer.early_stopping",
            et_format_count(step).text, et_format_count(steps).text);
    else if (et_controller_finished(t->controller))
        et_training_say(t->progress, "finished     at step %s of %s; to continue, raise %s%s",
                        et_format_count(step).text, et_format_count(steps).text,
                        epochs_of(t, steps) > 0 ? "trainer.train_epochs" : "trainer.train_steps",
                        t->args->mode == ET_MODE_TRAIN_AND_POST_EVAL
                            ? "; to evaluate it, use --mode eval"
                            : "");
    else if (step)
        et_training_say(t->progress, "resuming     at step %s of %s", et_format_count(step).text,
                        et_format_count(steps).text);
    else
        et_training_say_new(t);
}

et_training_end et_training_end_of(const et_training *t)
{
    const et_controller_facts facts = et_controller_facts_of(t->controller);
    return (et_training_end){ .steps = et_training_step(t),
                              .best_step = facts.best_step,
                              .best = facts.best,
                              .early = facts.stopped_early,
                              .improving = facts.improving,
                              .seconds = et_clock_monotonic() - t->began };
}

/* How long, how good, and what to type next. */
void et_training_say_end(et_training *t, const et_training_end *e, const char *directory)
{
    char best[200] = "", longer[120] = "";
    /* The last bar stays on the screen, above the line. */
    et_progress_finish(t->progress, true);
    /* What is one of several models is judged with them. */
    if (!t->args->reported)
        et_task_tell_verdict(t->task, e->best_step >= 0 && t->best_metric);
    const et_task_kind *kind = t->experiment.kind;
    if (e->best_step >= 0 && t->best_metric)
        snprintf(best, sizeof best, "; best %.150s %.4g at step %s", t->best_metric, e->best,
                 et_format_count(e->best_step).text);
    if (e->improving && !e->early) {
        /* Twice as long, in what the run's length was given in. */
        char length[40];
        const double epochs = epochs_of(t, 2 * e->steps);
        if (epochs > 0)
            snprintf(length, sizeof length, "--epochs %.6g", epochs);
        else
            snprintf(length, sizeof length, "--steps %lld", 2LL * e->steps);
        snprintf(longer, sizeof longer,
                 "; the validation was still improving: train longer, for example %s", length);
    }
    et_training_say(t->progress, "done         %s%s in %s%s%s; `%s %s --model-dir %s` %s",
                    et_format_many(e->steps, "step").text, e->early ? ", stopped early," : "",
                    et_format_duration(e->seconds).text, best, longer, t->call->program->name,
                    kind->next ? kind->next : "evaluate", directory,
                    kind->next_help ? kind->next_help : "evaluates it");
    if (e->steps < t->plan.train_steps)
        et_training_say_privacy(t, e->steps);
}
