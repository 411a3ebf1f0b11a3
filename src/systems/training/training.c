/* From settings to a run, and from its end to a status. The order matters:
 *
 *   1. directory         made, locked
 *   2. claim             a new run's settings are written, or an existing run's compared
 *   3. task, run         data, graph, plan, newest checkpoint
 *   4. settings again    written, as everything now works, unless there is nothing left to do;
 *                        stops save from here on
 *   5. training          et_controller_train; then the last save, the profile, one line: what next
 *
 * A failure before 4 leaves an empty directory as it was (model_dir.c). */
#include "systems/training/training_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files/file.h"
#include "base/flag.h"
#include "base/text/format.h"
#include "base/text/pattern.h"
#include "base/text/strbuf.h"
#include "engine/comm/together.h"
#include "engine/tensor/tensor.h"
#include "formats/events/log_names.h"
#include "systems/modelgarden/series.h"
#include "systems/orbit/controller.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/identity.h"
#include "train/checkpoint/run_names.h"
#include "train/ranks/broadcast.h"
#include "train/task/task_private.h"

/* ---- lines for people, at the start and the end ---- */

#define LINE_WIDTH  80
#define LABEL_WIDTH 13

/* The length of the first items that fit on the line; each item ends with ", ". If the first item
 * is too long: the length of all. */
static size_t fitting(const char *text)
{
    const size_t most = LINE_WIDTH - LABEL_WIDTH, all = strlen(text);
    size_t length = all <= most ? all : most + 1;
    while (length && text[length] && !(text[length] == ' ' && text[length - 1] == ','))
        length--;
    return length ? length : all;
}

static void say_recipe(et_training *t)
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

/* Prints the planned memory, not the memory that the system has given. */
static void say_memory(et_training *t)
{
    const et_trainable_facts facts = et_trainable_facts_of(t->trainable);
    char sums[64] = "";
    if (facts.sum_bytes)
        snprintf(sums, sizeof sums, "sums of gradients %s, ",
                 et_format_bytes(facts.sum_bytes).text);
    /* Resolved by now: never auto. */
    bool bf16 = t->experiment->runtime.mixed_precision_dtype == ET_PRECISION_BFLOAT16;
    et_training_say(t, "precision    %s (this CPU has %s), %s", bf16 ? "mixed_bfloat16" : "float32",
                    et_gemm_isa(), et_format_many(t->device->threads, "thread").text);
    /* Counts tables made with the plan, and packed weights if the plan keeps them. */
    size_t constants = facts.memory.packed + facts.memory.constants;
    const et_recompute twice = facts.recompute;
    et_training_say(
        t, "memory       %s planned: parameters %s, activations %s, %sconstants %s%s",
        et_format_bytes(et_training_planned(t)).text, et_format_bytes(facts.parameter_bytes).text,
        et_format_bytes(facts.memory.activations).text, sums, et_format_bytes(constants).text,
        twice == ET_RECOMPUTE_LAYERS   ? "; feed-forward layers and attention are computed twice"
        : twice == ET_RECOMPUTE_MARKED ? "; feed-forward layers are computed twice"
                                       : "");
}

/* With privacy per example, a batch is one sample. */
static void say_privacy(et_training *t, int64_t steps)
{
    const et_experiment *e = t->experiment;
    const et_privacy_options *privacy = et_privacy_in(e->kind->fields, e->task);
    const int64_t taken = e->trainer.gradient_accumulation * e->runtime.data_shards;
    int64_t samples = 0;
    double epsilon;
    if (!privacy)
        return;
    if (!privacy->per_example) {
        et_training_say(t, "privacy      no guarantee: Etude clips the gradient of a whole update, "
                           "not of each sample; see per_example");
        return;
    }
    if (et_trainable_batches(t->trainable, &samples, NULL) || samples < 1)
        return;
    const double rate = (double)taken / (double)samples;
    double delta = 1e-5; /* usual: below one in the number of samples */
    while (delta * (double)samples >= 1)
        delta /= 10;
    if (et_privacy_spent(rate < 1 ? rate : 1, privacy->noise_multiplier, steps, delta, &epsilon,
                         NULL, NULL))
        return;
    et_training_say(
        t, "privacy      epsilon %.4g at delta %.0e by step %s: %s of %s samples an update",
        epsilon, delta, et_format_count(steps).text, et_format_count(taken).text,
        et_format_count(samples).text);
}

static void say_new(et_training *t)
{
    const et_layout *layout = et_trainable_layout(t->trainable);
    const char *amount = t->experiment->kind->amount;
    int64_t shards = t->experiment->runtime.data_shards;
    char parts[64] = "";
    if (shards > 1)
        snprintf(parts, sizeof parts, ", in %lld shards", (long long)shards);
    et_training_say(t, "training     %s, batches of %s %s%s%s",
                    et_format_many(t->plan.train_steps, "step").text,
                    et_format_count(layout->capacity[layout->unit] * shards).text,
                    amount ? amount : et_layout_unit(layout), amount ? "" : "s", parts);
}

/* Reads only the head of a file, because loading its weights reads all of it. */
static bool identity_of(et_identity *out, const char *from, et_arena *arena)
{
    char *path = NULL;
    if (!et_identity_of_newest(out, from, arena, NULL) && out->checkpoint)
        return true;
    if (et_checkpoint_find_weights(&path, from, NULL))
        return false;
    const char *copy = et_arena_strdup(arena, path);
    et_free(path);
    return copy && !et_identity_of_file(out, copy, arena, NULL) && out->checkpoint;
}

/* Prints the origin of a new run's weights and other files. Weights refer to tokens, classes and
 * columns by number, so different files give a warning. There is no warning if the user chose the
 * weights by a pattern. */
static void say_initial(et_training *t)
{
    const et_initial *i = t->options->initial;
    const char *from = i->from ? i->checkpoint : t->task->init_checkpoint;
    const bool more = i->settings || i->taken;
    et_identity theirs;
    if (!from || !*from || et_training_step(t))
        return;
    et_training_say(t, "initial      weights of %s%s%s%s%s%s%s", from, more ? "; " : "",
                    i->settings ? "settings" : "", i->settings && i->taken ? ", " : "",
                    i->taken ? i->taken : "", more ? " of " : "", more ? i->run : "");
    if (t->task->init_pattern || et_comm_rank(t->options->comm) ||
        !identity_of(&theirs, from, t->arena))
        return;
    const char *other = et_identity_other_file(theirs.values, t->identity);
    if (other)
        et_log(ET_LOG_WARNING,
               "%s has another %s than this run, so tokens, classes or columns may not match; "
               "--init RUN also takes the files that belong to the weights",
               theirs.checkpoint, other);
}

/* "frozen       44,121,600 of 74,410,496 parameters: encoder" */
static void say_frozen(et_training *t)
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
    et_training_say(t, "frozen       %s of %s parameters: %s", et_format_count(elements).text,
                    et_format_count(et_params_elements(t->params)).text, et_strbuf_text(&text));
    et_strbuf_release(&text);
    et_patterns_free(patterns);
}

/* The number of epochs in `steps`, if the length of the run was given in epochs; else 0. */
static double epochs_of(const et_training *t, int64_t steps)
{
    const int64_t given = t->experiment->trainer.train_steps;
    return given < 0 ? -(double)given / 1000 * (double)steps / (double)t->plan.train_steps : 0;
}

/* Three cases: the run is finished, resumes, or is new. */
static void say_begin(et_training *t)
{
    const int64_t steps = t->plan.train_steps, step = et_training_step(t);
    const double epochs = epochs_of(t, steps);
    const et_format all = et_format_count(steps), now = et_format_count(step);
    /* No steps left: the message says so, and the command succeeds. */
    if (step > steps && epochs > 0)
        et_training_say(t,
                        "nothing done the run is at step %s, past trainer.train_epochs: %g, and is "
                        "left as it is; to continue, set more than %.4g",
                        now.text, epochs, epochs_of(t, step));
    else if (step > steps)
        et_training_say(t,
                        "nothing done the run is at step %s, past trainer.train_steps: %s; to "
                        "continue, set more than %s",
                        now.text, all.text, now.text);
    else if (et_controller_finished(t->controller) &&
             et_controller_facts_of(t->controller).stopped_early)
        et_training_say(
            t, "finished     early, at step %s of %s; to continue, change trainer.early_stopping",
            now.text, all.text);
    else if (et_controller_finished(t->controller))
        et_training_say(t, "finished     at step %s of %s; to continue, raise %s%s", now.text,
                        all.text, epochs > 0 ? "trainer.train_epochs" : "trainer.train_steps",
                        t->options->validating == ET_VALIDATING_AT_END
                            ? "; to evaluate it, use --mode eval"
                            : "");
    else if (step)
        et_training_say(t, "resuming     at step %s of %s", now.text, all.text);
    else
        say_new(t);
}

/* Prints the duration, the best value and the next command. facts, steps: at the end; seconds: of
 * this process. */
static void say_end(et_training *t, const et_controller_facts *facts, int64_t steps, double seconds)
{
    const bool has_best = facts->best_step >= 0 && t->best_metric;
    const et_task_kind *kind = t->experiment->kind;
    char best[200] = "", longer[120] = "", length[40];
    /* The last bar stays on the screen, above the line. */
    et_progress_finish(t->options->progress, true);
    /* One of several models gets no verdict, because it is judged with the others. */
    if (!t->options->judged)
        et_task_tell_verdict(t->task, has_best);
    if (has_best)
        snprintf(best, sizeof best, "; best %.150s %.4g at step %s", t->best_metric, facts->best,
                 et_format_count(facts->best_step).text);
    if (facts->improving && !facts->stopped_early) {
        /* Twice as long, in the unit of the run's length. */
        const double epochs = epochs_of(t, 2 * steps);
        if (epochs > 0)
            snprintf(length, sizeof length, "--epochs %.6g", epochs);
        else
            snprintf(length, sizeof length, "--steps %lld", 2LL * steps);
        snprintf(longer, sizeof longer,
                 "; the validation was still improving: train longer, for example %s", length);
    }
    et_training_say(
        t, "done         %s%s in %s%s%s; `%s %s --model-dir %s` %s",
        et_format_many(steps, "step").text, facts->stopped_early ? ", stopped early," : "",
        et_format_duration(seconds).text, best, longer, t->experiment->program->name,
        kind->next ? kind->next : "evaluate", et_shell_quote(t->options->model_dir).text,
        kind->next_help ? kind->next_help : "evaluates it");
    if (steps < t->plan.train_steps)
        say_privacy(t, steps);
}

/* ---- from begin to end ---- */

/* Claims the directory for this run. The settings of an existing run are replaced only after
 * everything is open. A new run writes its settings first, because they identify the owner of the
 * files that opening makes. Rank 0 writes the settings, and the other ranks read them. */
static int claim(void *self, et_error *error)
{
    et_training *t = self;
    et_experiment *e = t->experiment, kept;
    const bool fits = t->options->memory;
    const char *directory = t->options->model_dir;
    int status = ET_OK;
    /* A new run. Its precision is settled now, since the written settings contain it. */
    if (!et_model_dir_has_run(directory)) {
        et_experiment_resolve_precision(e);
        const double seconds = e->finetunes ? -1 : et_training_seconds_left(t);
        if (et_training_recipe(t))
            status = et_recipe_begin(e, &t->amounts, seconds, t->arena, error);
        if (!status && fits)
            status = et_experiment_set_batch(e, e, 0, t->arena, error);
        return status || t->options->tried ? status : et_training_write_settings(t, error);
    }
    if ((status = et_experiment_open_run(&kept, e->program, directory, t->arena, error)))
        return status;
    if (kept.kind != e->kind)
        return et_fail(error, ET_ECONFIG,
                       "%s is a run of %s, a task of %s, not of %s; choose another --model-dir",
                       directory, kept.name, kept.kind->name, e->kind->name);
    if (et_series_of(&kept))
        return et_fail(
            error, ET_ECONFIG,
            "%s is a run of several models (%s), not of one model; choose another --model-dir",
            directory, kept.name);
    /* A run that resumes has the batch size with which it began. */
    if ((status = et_experiment_adopt(e, &kept, t->arena, error)) ||
        (fits && (status = et_experiment_set_batch(e, &kept, 0, t->arena, error))) ||
        (status = et_identity_of_newest(&t->kept, directory, t->arena, error)))
        return status;
    return et_experiment_check_same(&kept, e, &t->kept, directory, t->options->accept_changes,
                                    error);
}

/* The parts of an open run: each requires the parts below it. */
static void sane(const et_training *t)
{
    et_assert(t->options->comm && t->options->progress);
    et_assert(!t->controller || (t->trainable && t->task));
    et_assert(!t->trainable || (t->task && t->params && t->device));
    et_assert(!t->cluster || t->options->cluster);
    et_assert(t->shown.count >= 0 && t->shown.count <= ET_MAIN_METRICS_MAX);
    et_assert(t->first_step >= 0 && t->warmup >= 0 && t->shown_most >= 0);
    et_assert(!t->best_tie || t->best_metric);
}

/* The first step after one at which values are logged; all: or something else is done. */
static int64_t first_step(const et_trainer_options *plan, int64_t after, bool all)
{
    const int64_t intervals[] = { plan->summary_interval, plan->validation_interval,
                                  plan->checkpoint_interval, plan->steps_per_loop };
    int64_t step = plan->train_steps;
    for (int i = 0; i < (all ? 4 : 2); i++)
        if (intervals[i] > 0 && after - after % intervals[i] + intervals[i] < step)
            step = after - after % intervals[i] + intervals[i];
    return step;
}

/* Paths in the settings of a new run may be those of the run that gives its settings. */
static int tell_directory(const et_training_options *o, int status, et_error *error)
{
    const char *from = o->initial->settings ? o->initial->run : NULL;
    status = et_session_tell_directory(o->model_dir, status, error);
    return et_session_tell_directory(from, status, error);
}

static int set_up(void *self, et_error *error)
{
    et_training *t = self;
    const et_training_options *o = t->options;
    const char *directory = o->model_dir;
    const bool first = et_comm_rank(o->comm) == 0;
    int status =
        first ? et_model_dir_open(&t->directory, t->experiment->kind, directory, error) : ET_OK;
    if (!status && first && o->check)
        status = o->check(o->self, error);
    if (!status)
        status = et_together_in_turn(o->comm, claim, t, error);
    if (status)
        return tell_directory(o, status, error);
    status = et_training_open(t, directory, error);
    /* A finished run keeps its settings file, because nothing was done with the new settings. */
    const bool begins = !status && first && !et_controller_finished(t->controller);
    if (begins)
        status = et_training_write_settings(t, error);
    /* From here on the directory has a run; see et_training_run. */
    t->set_up = !status;
    if (!status && first)
        et_model_dir_set_up(&t->directory, &et_training_trainer(t)->step,
                            first_step(&t->plan, 0, true));
    if (!status && begins) {
        const int64_t step = et_training_step(t);
        const et_session_facts facts = { .settings = et_experiment_tree(t->experiment, t->arena),
                                         .first_step = step,
                                         .steps = t->plan.train_steps,
                                         .first_values = first_step(&t->plan, step, false),
                                         .parameters = (int64_t)et_params_elements(t->params),
                                         .memory = et_training_planned(t),
                                         .threads = t->device->threads };
        et_session_begin(&t->session, o->call, directory, &facts);
    }
    if (o->opened)
        o->opened(o->self);
    return tell_directory(o, status, error);
}

/* Prints a line for each open part. */
static void say_open(et_training *t)
{
    /* Data and model: lines of the kind. Thirteen columns are for the topic, as in all lines of a
     * start. */
    if (t->experiment->kind->describe)
        t->experiment->kind->describe(t->task);
    else
        et_training_say(t, "model        %s parameters",
                        et_format_count(et_params_elements(t->params)).text);
    say_recipe(t);
    say_initial(t);
    say_frozen(t);
    say_memory(t);
    say_privacy(t, t->plan.train_steps);
    if (et_comm_size(t->options->comm) > 1)
        et_training_say(t, "ranks        %d, %s", et_comm_size(t->options->comm),
                        t->options->comm->class->name);
}

/* ---- trying out ---- */

#define FILE_MOST ((size_t)1 << 30)

/* Copies a file to which the weights of the run belong. */
static int copy_file(const et_dry_run *dry, const char *name, et_error *error)
{
    const et_path from = et_path_of(dry->run, name), to = et_path_of(dry->directory, name);
    char *bytes = NULL;
    size_t length;
    if (!et_file_exists(from.text))
        return ET_OK;
    int status = et_file_read(&bytes, &length, from.text, FILE_MOST, error);
    if (!status && !(status = et_parent_make(to.text, error)))
        status = et_file_write(to.text, bytes, length, error);
    et_free(bytes);
    return status;
}

int et_dry_run_open(et_dry_run *dry, et_error *error)
{
    char name[ET_RUN_FILE_NAME];
    et_run_file file;
    const bool first = !et_comm_rank(dry->comm);
    et_assert(!dry->directory);
    int status = first ? et_scratch_open(&dry->directory, "etude-dry-run", error) : ET_OK;
    if (status)
        et_fail_while(error, status, "--dry-run");
    for (int i = 0; first && dry->run && !status && (file = et_kind_file(dry->kind, i, name)).name;
         i++)
        if (file.what & ET_RUN_COMPARED)
            status = copy_file(dry, file.name, error);
    status = et_text_broadcast(&dry->directory, dry->comm, status, error);
    return status || et_file_exists(dry->directory)
               ? status
               : et_fail(error, ET_ENOTFOUND,
                         "--dry-run: this rank cannot see %s, which rank 0 made; set TMPDIR to a "
                         "directory that all ranks share",
                         dry->directory);
}

void et_dry_run_close(et_dry_run *dry)
{
    if (et_comm_rank(dry->comm))
        et_free(dry->directory);
    else
        et_scratch_close(dry->directory);
    dry->directory = NULL;
}

/* A few steps with the weights that training would begin with: drawn, from another run, or of the
 * resumed run. */
static int measure(et_training *t, const char *run, et_error *error)
{
    const et_training_options *o = t->options;
    et_trainer *trainer = et_trainable_trainer(t->trainable);
    et_dry_run_results *out = o->tried;
    et_dry_run_measured *m = &out->all;
    et_checkpoint_facts found = { .step = 0 };
    struct rusage usage;
    char *path = NULL;
    void *each = NULL;
    *out = (et_dry_run_results){ .all.pace.seconds = NAN, .ranks = et_comm_size(o->comm) };
    int status = trainer->class->start(trainer, error);
    if (!status && run) {
        status = et_checkpoint_load(&path, t->params, run, NULL, false, &found, error);
        status = status == ET_ENOTFOUND ? ET_OK : status;
        et_free(path);
    }
    m->done = found.step;
    m->left = t->plan.train_steps > found.step ? t->plan.train_steps - found.step : 0;
    if (!status)
        status = et_training_pace(t, m->left, &m->pace, error);
    if (!status && !getrusage(RUSAGE_SELF, &usage))
        m->memory = (size_t)usage.ru_maxrss * 1024;
    if (!status)
        status = et_together_table(o->comm, ET_OK, m, sizeof *m, &each, error);
    out->each = each;
    for (int i = 0; !status && i < out->ranks; i++) {
        m->pace.seconds = fmax(m->pace.seconds, out->each[i].pace.seconds);
        m->memory = m->memory > out->each[i].memory ? m->memory : out->each[i].memory;
    }
    /* The trainer's own, which is closed before the results are read. */
    if (!status && m->pace.unit && !(m->pace.unit = et_arena_strdup(o->arena, m->pace.unit)))
        status = et_alloc_failed(error, "results");
    return status;
}

/* Opens everything except the controller, in a temporary directory. */
static int try_out(et_training *t, et_error *error)
{
    const et_training_options *o = t->options;
    const bool goes_on = o->prepared || et_model_dir_has_run(o->model_dir);
    et_dry_run dry = { .kind = t->experiment->kind,
                       .run = goes_on ? o->model_dir : NULL,
                       .comm = o->comm };
    int status = et_together_in_turn(o->comm, claim, t, error);
    if (!status && !(status = et_dry_run_open(&dry, error)))
        status = et_training_open_parts(t, dry.directory, error);
    if (!status) {
        et_training_say(t, "experiment   %s", t->experiment->name);
        say_open(t);
        say_new(t);
        status = measure(t, dry.run, error);
    }
    et_dry_run_close(&dry);
    return status;
}

/* At a time limit, the last step is saved and then evaluated, because it may be the best. Ctrl-C
 * ends this evaluation. */
static int evaluate_at_limit(et_training *t, et_error *error)
{
    et_error reason = ET_ERROR_INIT;
    bool limit = et_flag_is_set(t->options->limit);
    int status = et_together_decide(t->options->comm, ET_OK, &limit, &reason);
    if (!status && limit) {
        et_flag_set(t->options->stop, false);
        status = et_controller_evaluate_last(t->controller, &reason);
        et_flag_set(t->options->stop, true);
    }
    return status ? et_fail(error, status, "%s", reason.text) : ET_EINTERRUPTED;
}

/* Closes the run here, not in et_training_close, because closing waits for the last save and may
 * fail. The bar is still visible here. */
static int train(et_training *t, et_error *error)
{
    const et_training_options *o = t->options;
    int status = et_together_run(o->comm, set_up, t, error);
    if (!status) {
        et_training_say(t, "experiment   %s  (all settings: %s/%s)", t->experiment->name,
                        o->model_dir, ET_RUN_SETTINGS);
        say_open(t);
        if (o->verbose) {
            et_training_say(t, "kernels      %s; %s calls for loss and gradients",
                            t->device->kernels->name,
                            et_format_count(et_trainable_facts_of(t->trainable).calls).text);
            et_training_say(
                t, "logs         %s/" ET_RUN_LOG ", events for TensorBoard in %s/" ET_LOGGED_TRAIN,
                o->model_dir, o->model_dir);
        }
        say_begin(t);
        sane(t);
        et_assert(t->controller && t->set_up);
        status = et_controller_train(t->controller, error);
    }
    if (status == ET_EINTERRUPTED && t->set_up)
        status = evaluate_at_limit(t, error);
    et_controller_facts end = { 0 };
    if (!status)
        end = et_controller_facts_of(t->controller);
    const int64_t steps = et_training_step(t);
    const double seconds = et_clock_monotonic() - o->began;
    /* The first failure is reported; a failure of closing only if no other came before. */
    int closed = et_controller_close(t->controller, status ? NULL : error);
    closed = closed ? closed : et_profiling_close(o->profiling, status, error);
    if (!status && !closed && steps <= t->plan.train_steps)
        say_end(t, &end, steps, seconds);
    return status ? status : closed;
}

/* Closes everything that training opened, with any status. The lock is released last. */
int et_training_run(const et_training_options *o, et_error *error)
{
    et_training t = { .options = o,
                      .experiment = o->experiment,
                      .arena = o->arena,
                      .directory = ET_MODEL_DIR_INIT,
                      .session = ET_SESSION_INIT };
    sane(&t);
    if (!et_comm_rank(o->comm) && !o->tried)
        et_session_open(&t.session, o->progress, o->lost);
    int status = et_series_check_none(o->experiment, "this training", error);
    if (!status)
        status = o->tried ? try_out(&t, error) : train(&t, error);
    if (status == ET_EDIVERGED) {
        /* The cure depends on the saved checkpoint. */
        char what[ET_ERROR_TEXT_MAX], *path = NULL;
        snprintf(what, sizeof what, "%s", error ? error->text : "");
        const bool saved = !o->tried && !et_checkpoint_newest(&path, o->model_dir, NULL);
        et_free(path);
        status =
            et_fail(error, ET_EDIVERGED, "%.700s; %s", what,
                    saved ? "with --accept-changes the run resumes from its last checkpoint"
                          : "nothing was saved yet: with --accept-changes the run starts again");
    }
    et_session_end(&t.session, et_training_step(&t), t.plan.train_steps, status, error);
    if (status == ET_ENOMEM && t.set_up &&
        et_model_dir_begins(&t.directory, et_training_step(&t))) {
        /* If memory was too short from the start, nothing remains of the run, so the next try with
         * smaller batches finds an empty directory. */
        char what[ET_ERROR_TEXT_MAX];
        snprintf(what, sizeof what, "%s", error ? error->text : "");
        if (et_training_step(&t))
            et_fail(error, ET_ENOMEM, "%.700s; nothing was saved yet, so Etude removes %.200s",
                    what, o->model_dir);
        t.set_up = false;
    }
    et_training_close(&t);
    return status;
}
