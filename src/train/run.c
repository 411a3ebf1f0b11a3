/* A run: task, graph, plan, optimizer, state and checkpoints put together once (et_run_open),
 * then one loop (et_run_train):
 *
 *   act_hooks                 what an interruption cut short
 *   until train_steps:
 *       inner_loop            steps up to the next boundary
 *       act_hooks             log, validate, save: those that are due there
 *
 * Set-up goes through four functions, in an order that each needs: build (graph, derivatives,
 * parameters, plan), assemble (what a step uses), attach (what resumes, on the state), restore
 * (the newest checkpoint, else start values; then the files of logs at the positions it holds).
 *
 * Invariants:
 *   (1) a boundary is a step at which a hook is due, the end, or steps_per_loop on from the
 *       last; between boundaries nothing but steps happens;
 *   (2) next_hook is the first hook of this step that has not acted; ET_RUN_HOOKS: none is left.
 *       It is in the state, so a run that is interrupted between two hooks goes on with the
 *       second;
 *   (3) `unsaved` is false as long as nothing has happened since the last save or restore;
 *   (4) whether a run was interrupted shows nowhere in what it computes, logs or keeps in the
 *       end. */
#include "train/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <etude/nn.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "io/format.h"
#include "train/run_parts.h"

/* ---- what of the run itself resumes ----------------------------------------------------- */

/* {"step": 2000, "next_hook": "", "best_known": true, "best_step": 1800, "best_value": 31.2};
 * best_value bit for bit, since it may be NaN or infinite. */
static int save_progress(const void *self, et_value *dict, et_error *error)
{
    const et_run *run = self;
    et_hook hooks[ET_RUN_HOOKS];
    et_run_hooks(run, hooks);
    et_value_set_int(dict, "step", run->step.count);
    et_value_set_string(dict, "next_hook",
                        run->next_hook < ET_RUN_HOOKS ? hooks[run->next_hook].label->name : "");
    et_value_set_bool(dict, "best_known", run->best.known);
    et_value_set_int(dict, "best_step", run->best.step);
    return et_state_set_real(dict, "best_value", run->best.value)
               ? ET_OK
               : et_alloc_failed(error, 0, "the state");
}

/* By name, so that hooks may come and go between versions. "" is the end of the list. A name
 * that is not there any more is an error: what should have acted next is not known. */
static int restore_next_hook(et_run *run, const et_value *dict, et_error *error)
{
    et_hook hooks[ET_RUN_HOOKS];
    const char *name;
    int status = et_value_read_string(dict, "next_hook", &name, error);
    if (status)
        return status;
    et_run_hooks(run, hooks);
    for (run->next_hook = 0; run->next_hook < ET_RUN_HOOKS; run->next_hook++)
        if (!strcmp(hooks[run->next_hook].label->name, name))
            return ET_OK;
    return *name ? et_fail(error, ET_EFORMAT, "next_hook: there is none named %s", name) : ET_OK;
}

/* step.count is the global step: random numbers, the schedule and intervals follow from it. */
static int restore_progress(void *self, const et_value *dict, et_error *error)
{
    et_run *run = self;
    int status = et_value_read_int(dict, "step", &run->step.count, error);
    if (!status)
        status = et_value_read_bool(dict, "best_known", &run->best.known, error);
    if (!status)
        status = et_value_read_int(dict, "best_step", &run->best.step, error);
    if (!status)
        status = et_state_read_real(dict, "best_value", &run->best.value, error);
    return status ? status : restore_next_hook(run, dict, error);
}

static const et_state_class progress_state = { "progress", save_progress, restore_progress };

/* Where each file ends, by kind of sink. Nothing before the sinks are open. */
static int save_logs(const void *self, et_value *dict, et_error *error)
{
    (void)error;
    const et_run *run = self;
    if (run->sink)
        et_sink_positions(run->sink, dict);
    return ET_OK;
}

/* Kept in the run's arena until et_run_open_sinks, which comes after the restore. */
static int restore_logs(void *self, const et_value *dict, et_error *error)
{
    et_run *run = self;
    run->positions = et_value_dict(&run->arena);
    if (!run->positions)
        return et_alloc_failed(error, sizeof *run->positions, "the state");
    return et_value_merge(run->positions, dict, error);
}

static const et_state_class logs_state = { "logs", save_logs, restore_logs };

/* ---- set-up ----------------------------------------------------------------------------- */

/* On sizes where time counts most (a small model) nothing changes. */
#define MUCH_MEMORY ((size_t)1 << 30)

et_recompute et_run_recompute(size_t activations)
{
    return activations > MUCH_MEMORY ? ET_RECOMPUTE_MARKED : ET_RECOMPUTE_CHEAP;
}

/* Task to graph, derivatives, parameters. The store has no arrays until the model has declared
 * its parameters (once, however often the graph is made); the plan needs their addresses, so it
 * comes last. A training graph has its loss node as only output; gradients are outputs by
 * themselves. */
static int build_with(et_run *run, et_recompute recompute, et_error *error)
{
    const et_run_options *o = &run->options;
    et_graph_options options = { .training = true, .act = o->act, .recompute = recompute };
    int status = et_graph_new(&run->graph, o->params, &options, error);
    if (status)
        return status;
    et_node *loss = run->task->class->build_loss(run->task, et_graph_scope(run->graph));
    status = et_graph_finish(run->graph, error);
    if (!status)
        status = et_graph_differentiate(run->graph, loss, error);
    if (!status && !et_params_ready(o->params))
        status = et_params_materialize(o->params, o->act == ET_BF16, error);
    /* With several batches to an update, packing again for each still costs far less time than
     * keeping would cost memory. */
    et_plan_options plan = ET_PLAN_OPTIONS_INIT;
    plan.name = "loss and gradients";
    plan.keep_packed = false;
    if (!status)
        status = et_plan_new(&run->plan, run->graph, o->device, &loss, 1, &plan, error);
    return status;
}

/* A plan that is not kept has cost a few milliseconds, and no memory: nothing was touched. */
static int build(et_run *run, et_error *error)
{
    bool automatic = run->options.recompute == ET_RECOMPUTE_AUTO;
    run->recompute = automatic ? ET_RECOMPUTE_CHEAP : (et_recompute)run->options.recompute;
    int status = build_with(run, run->recompute, error);
    if (status || !automatic)
        return status;
    run->recompute = et_run_recompute(et_plan_memory_needed(run->plan).activations);
    if (run->recompute == ET_RECOMPUTE_CHEAP)
        return ET_OK;
    et_plan_free(run->plan);
    et_graph_free(run->graph);
    run->plan = NULL;
    run->graph = NULL;
    return build_with(run, run->recompute, error);
}

/* The objects of the step. The step borrows all of it from the run. */
static int assemble(et_run *run, et_error *error)
{
    const et_run_options *o = &run->options;
    const et_kernels *kernels = o->device->kernels;
    int status =
        et_optimizer_new(&run->optimizer, o->params, kernels, &o->trainer->optimizer_config, error);
    if (!status)
        status = et_metrics_new(&run->metrics, error);
    if (!status)
        status = et_step_define_metrics(&run->step, run->metrics, error);
    if (!status)
        status = et_accumulator_init(&run->step.accumulator, o->params, kernels,
                                     (int)o->trainer->gradient_accumulation, error);
    run->step.task = run->task;
    run->step.plan = run->plan;
    run->step.optimizer = run->optimizer;
    run->step.seed = o->seed;
    if (!status)
        run->step.update_cost = et_optimizer_cost(run->optimizer);
    return status;
}

/* Everything that resumes hangs on the state. The order of adding is the order of restoring. */
static int attach(et_run *run, et_error *error)
{
    et_params *params = run->options.params;
    int status = et_state_new(&run->state, error);
    if (!status)
        status = et_state_add_params(run->state, params, error);
    if (!status)
        status = et_state_add_optimizer(run->state, run->optimizer, params, error);
    if (!status)
        status = et_state_add(run->state, "progress", &progress_state, run, error);
    if (!status)
        status = et_state_add(run->state, "metrics", &et_metrics_state, run->metrics, error);
    if (!status)
        status = et_state_add(run->state, "logs", &logs_state, run, error);
    if (!status)
        status = run->task->class->attach(run->task, run->state, error);
    return status;
}

/* Only where there is nothing to restore: it is most of the work of a start. */
static void draw_start(et_run *run)
{
    et_init_draw(run->options.params, run->options.seed);
    et_optimizer_start(run->optimizer);
}

/* The lock is taken by opening, before the directory is written to. Sinks come last: opening
 * them cuts files off, which must not happen before a checkpoint has been read. */
static int restore(et_run *run, et_error *error)
{
    const et_trainer_options *trainer = run->options.trainer;
    et_checkpoint_options options = ET_CHECKPOINT_OPTIONS_INIT;
    options.max_to_keep = trainer->max_to_keep;
    options.locked = run->options.locked;
    options.track = et_device_track(run->options.device);
    int64_t step = -1;
    int status =
        et_checkpoints_open(&run->checkpoints, run->options.model_dir, run->state, &options, error);
    run->step.checkpoints = run->checkpoints;
    if (!status)
        status = et_checkpoints_restore(run->checkpoints, &step, error);
    /* Before the first step: a run that cannot save would be lost, hours later. */
    if (!status && run->step.count < trainer->train_steps)
        status = et_checkpoints_check_room(run->checkpoints, error);
    if (!status && step < 0)
        draw_start(run);
    return status ? status : et_run_open_sinks(run, error);
}

/* Whatever was made before a failure is freed by et_run_close, which takes a run in any state of
 * set-up. */
int et_run_open(et_run **out, et_task *task, const et_run_options *options, et_error *error)
{
    et_assert(task && options->params && options->device && options->trainer);
    et_assert(options->trainer->gradient_accumulation >= 1);
    et_run *run = et_alloc_zero(1, sizeof *run);
    *out = NULL;
    if (!run)
        return et_alloc_failed(error, sizeof *run, "a run");
    run->options = *options;
    run->task = task;
    run->next_hook = ET_RUN_HOOKS;
    run->shown_loss = run->rate = NAN;
    int status = build(run, error);
    if (!status)
        status = assemble(run, error);
    if (!status)
        status = attach(run, error);
    if (!status)
        status = restore(run, error);
    if (status)
        et_run_close(run, NULL);
    else
        *out = run;
    return status;
}

/* The checkpoints first: their thread may still be reading arrays of the optimizer and the
 * store. The first error is the one returned. */
int et_run_close(et_run *run, et_error *error)
{
    if (!run)
        return ET_OK;
    int status = et_checkpoints_close(run->checkpoints, error);
    int closed = et_sink_close(run->sink, status ? NULL : error);
    et_plan_free(run->plan);
    et_graph_free(run->graph);
    et_optimizer_free(run->optimizer);
    et_metrics_free(run->metrics);
    et_state_free(run->state);
    et_accumulator_release(&run->step.accumulator);
    et_arena_release(&run->arena);
    et_free(run);
    return status ? status : closed;
}

/* Arrays of the store's flat size: values, gradients and the optimizer's slots, the average
 * among them, in float32; the bfloat16 shadow is half of one. */
et_run_facts et_run_facts_of(const et_run *run)
{
    const et_slot *slots;
    const et_params *params = run->options.params;
    size_t arrays = 2 + (size_t)et_optimizer_slots(run->optimizer, &slots);
    size_t flat = (size_t)et_params_flat_size(params) * sizeof(float);
    return (et_run_facts){
        .step = run->step.count,
        .parameters = et_params_elements(params),
        .memory = et_plan_memory_needed(run->plan),
        .plan_steps = et_plan_steps(run->plan),
        .recompute = run->recompute,
        .parameter_bytes = arrays * flat + (run->options.act == ET_BF16 ? flat / 2 : 0),
    };
}

/* ---- the loop --------------------------------------------------------------------------- */

/* 0.98 of what was shown, 0.02 of what is new. The first value as it is: NaN means that nothing
 * was shown yet. After 100 steps 0.87 of it is from these. */
static double smooth(double shown, double now)
{
    return isnan(shown) ? now : 0.98 * shown + 0.02 * now;
}

/* Every step, also without a progress bar, so that rate and loss are there when one is asked
 * for; the bar itself decides how often it draws. seconds_left NAN: the bar computes it. */
static void show_progress(et_run *run)
{
    double now = et_clock_monotonic();
    run->rate = smooth(run->rate, (double)run->step.tokens / (now - run->step_start));
    run->step_start = now;
    run->shown_loss = smooth(run->shown_loss, run->step.loss);
    et_progress_field fields[] = { { "loss", run->shown_loss },
                                   { "lr", run->step.update.learning_rate } };
    et_progress_state state = { .step = run->step.count,
                                .steps = run->options.trainer->train_steps,
                                .fields = fields,
                                .field_count = 2,
                                .rate = run->rate,
                                .unit = "tok/s",
                                .epoch = run->task->class->epoch(run->task),
                                .seconds_left = NAN };
    if (run->options.progress)
        et_progress_update(run->options.progress, &state);
}

/* A signal handler sets it; here it is only read. */
static bool should_stop(const et_run *run)
{
    return run->options.stop && *run->options.stop;
}

/* For a step that an unbroken run need not save: it does not count among those kept. The logs
 * are flushed first, as in the save hook. */
static int save_passing(et_run *run, et_error *error)
{
    int status = et_sink_flush(run->sink, error);
    if (!status)
        status = et_checkpoints_save_passing(run->checkpoints, run->step.count, error);
    run->unsaved = status != ET_OK;
    return status;
}

/* The request is taken back before the save, so that one that comes meanwhile gives another. A
 * state that is saved already is not written again. */
static int save_if_asked(et_run *run, et_error *error)
{
    if (!run->options.save || !*run->options.save)
        return ET_OK;
    *run->options.save = 0;
    if (run->options.progress) {
        char text[64];
        snprintf(text, sizeof text, "saving       step %s, as asked",
                 et_format_count(run->step.count).text);
        et_progress_message(run->options.progress, text);
    }
    return run->unsaved ? save_passing(run, error) : ET_OK;
}

static const et_label step_label = { .name = ET_RUN_STEP_SPAN, .kind = "step" };

/* One step as a span of the trace; steps count from 1 there, as in logs. */
static int run_step(et_run *run, et_error *error)
{
    et_track *track = et_device_track(run->options.device);
    et_track_begin(track, &step_label, run->step.count + 1);
    int status = et_step_run(&run->step, error);
    et_track_end(track);
    return status;
}

/* Does steps up to `until`. ET_EINTERRUPTED: asked to stop before. Both requests are looked at
 * before a step, never within: a step is done whole or not at all. */
static int inner_loop(et_run *run, int64_t until, et_error *error)
{
    et_assert(until > run->step.count);
    run->step_start = et_clock_monotonic();
    while (run->step.count < until) {
        if (should_stop(run))
            return ET_EINTERRUPTED; /* save_and_stop says what that means */
        int status = save_if_asked(run, error);
        if (!status)
            status = run_step(run, error);
        if (status)
            return status;
        run->unsaved = true;
        run->window_steps++;
        run->window_tokens += run->step.tokens;
        show_progress(run);
    }
    return ET_OK;
}

/* The step at which the inner loop has to be left: the end, or a hook is due. With
 * steps_per_loop 1000, step 250, intervals 100 and 1000: 300. Multiples of an interval, not
 * distances from where the run began, so that a resumed run stops at the same steps. */
static int64_t next_boundary(const et_run *run, const et_hook *hooks)
{
    const et_trainer_options *trainer = run->options.trainer;
    int64_t until = run->step.count + trainer->steps_per_loop;
    if (until > trainer->train_steps)
        until = trainer->train_steps;
    for (int i = 0; i < ET_RUN_HOOKS; i++) {
        int64_t every = hooks[i].act ? hooks[i].every : 0;
        if (every && (run->step.count / every + 1) * every < until)
            until = (run->step.count / every + 1) * every;
    }
    return until;
}

/* Lets this step's hooks act, from next_hook on. That one counts as done while it acts: what the
 * save hook saves has nothing left to do. At the end all act, due or not: the last step is
 * always logged, validated and saved. */
static int act_hooks(et_run *run, const et_hook *hooks, et_error *error)
{
    et_assert(run->next_hook >= 0 && run->next_hook <= ET_RUN_HOOKS);
    bool end = run->step.count >= run->options.trainer->train_steps;
    while (run->next_hook < ET_RUN_HOOKS) {
        const et_hook *hook = &hooks[run->next_hook++];
        bool due = hook->every && run->step.count % hook->every == 0;
        if (!hook->act || !(due || end))
            continue;
        run->unsaved = true;
        et_track_begin(et_device_track(run->options.device), hook->label, run->step.count);
        int status = hook->act(run, error);
        et_track_end(et_device_track(run->options.device));
        if (status) {
            run->next_hook--;
            return status;
        }
    }
    return ET_OK;
}

/* The save is waited for: the process ends when this has returned. Before the first step there
 * is nothing to save, and the message says so. */
static int save_and_stop(et_run *run, et_error *error)
{
    int status = run->unsaved ? save_passing(run, error) : ET_OK;
    if (!status)
        status = et_checkpoints_wait(run->checkpoints, error);
    if (status)
        return status;
    return run->step.count ? et_fail(error, ET_EINTERRUPTED, "interrupted: saved step %s. %s",
                                     et_format_count(run->step.count).text, ET_RUN_GOES_ON)
                           : et_fail(error, ET_EINTERRUPTED, "%s", ET_RUN_NOT_BEGUN);
}

/* A run that is at its end already does nothing but wait. An error leaves the newest checkpoint
 * as the place to go on from. */
int et_run_train(et_run *run, et_error *error)
{
    et_hook hooks[ET_RUN_HOOKS];
    et_run_hooks(run, hooks);
    et_run_start_window(run);
    int status = act_hooks(run, hooks, error); /* what the last interruption cut short */
    while (!status && run->step.count < run->options.trainer->train_steps) {
        status = inner_loop(run, next_boundary(run, hooks), error);
        if (status)
            break;
        run->next_hook = 0;
        status = act_hooks(run, hooks, error);
    }
    if (status == ET_EINTERRUPTED)
        return save_and_stop(run, error);
    return status ? status : et_checkpoints_wait(run->checkpoints, error);
}
