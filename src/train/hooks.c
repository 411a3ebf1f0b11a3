/* What acts between inner loops: the log, validation, the save, and the files that logs go to.
 *
 * Each hook is a function over the run that does its work completely or, asked to stop, returns
 * ET_EINTERRUPTED with nothing done. They act in the order log, validate, save (et_run_hooks),
 * which matters: validation may change which step is best, logs move the offsets of the files,
 * and both are in the state that the save then writes.
 *
 * A log is a dict with a dict of its own for each summary directory:
 *   {"train": {"training_loss": 4.1, ..., "learning_rate": 0.0007, "epoch": 2, "time": {...}}}
 *   {"validation": {"bleu": 31.2, ..., "best_step": 2000, "time": {"seconds": 1.5}}}
 * What depends on the clock stands under "time", so that logs of equal runs are equal without
 * it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/file.h"
#include "io/format.h"
#include "train/run_parts.h"

/* The window is what lies between two logs: its rates are what the log says of speed. */
void et_run_start_window(et_run *run)
{
    run->window_start = et_clock_monotonic();
    run->window_steps = run->window_tokens = 0;
}

/* metrics.jsonl for programs, event files for TensorBoard, lines above the progress bar for
 * people (who see most of "train" in the bar already, so the console leaves it out unless they
 * ask). Without positions the files start anew, with them they are cut off where the checkpoint was
 * made. What was opened before a failure is closed here; et_sink_multi_open takes over the rest. */
int et_run_open_sinks(et_run *run, et_error *error)
{
    et_sink *sinks[3] = { NULL, NULL, NULL };
    size_t count = 0;
    const char *directory = run->options.model_dir;
    char *jsonl = et_path_join(directory, "metrics.jsonl");
    int status = jsonl ? ET_OK : et_alloc_failed(error, strlen(directory), "a path");
    if (!status)
        status = et_sink_jsonl_open(&sinks[count], jsonl, run->positions, error);
    count += !status;
    if (!status)
        status = et_sink_events_open(&sinks[count], directory, run->positions, error);
    count += !status && sinks[1];
    if (!status && run->options.progress)
        status = et_sink_console_open(&sinks[count], run->options.progress,
                                      run->options.verbose ? NULL : "train", error);
    count += !status && sinks[2];
    et_free(jsonl);
    if (!status)
        return et_sink_multi_open(&run->sink, sinks, count, error);
    while (count)
        et_sink_close(sinks[--count], NULL);
    return status;
}

/* What the window's steps were like: means over them, and the rate and epoch of the last one. */
static int fill_training_log(et_run *run, et_value *logs, et_error *error)
{
    double seconds = et_clock_monotonic() - run->window_start;
    et_value *train = et_value_set_dict(logs, "train");
    int status = et_metrics_results(run->metrics, train, error);
    if (status)
        return status;
    et_value_set_float(train, "learning_rate", run->step.update.learning_rate);
    et_value_set_int(train, "epoch", run->task->class->epoch(run->task));
    et_value *time = et_value_set_dict(train, ET_SINK_TIME);
    et_value_set_float(time, "steps_per_second", (double)run->window_steps / seconds);
    return et_value_set_float(time, "tokens_per_second", (double)run->window_tokens / seconds)
               ? ET_OK
               : et_alloc_failed(error, 0, "a log");
}

/* Flushed at once: a log may be the last sign of a run, and they are rare. */
static int write_log(et_run *run, const et_value *logs, et_error *error)
{
    int status = et_sink_write(run->sink, run->step.count, logs, error);
    return status ? status : et_sink_flush(run->sink, error);
}

/* The window starts anew after the writing, so that the time of a log counts in no rate. */
static int act_log(et_run *run, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *logs = et_value_dict(&arena);
    int status = fill_training_log(run, logs, error);
    if (!status)
        status = write_log(run, logs, error);
    et_arena_release(&arena);
    et_metrics_reset(run->metrics);
    et_run_start_window(run);
    return status;
}

/* NaN is never better, and always worse than what is no NaN. A value equal to the best is not
 * better: the earlier step stays. */
static bool is_better(const et_run *run, double value)
{
    if (isnan(value))
        return false;
    if (!run->best.known || isnan(run->best.value))
        return true;
    return run->options.trainer->best_checkpoint_metric_comp == ET_COMPARE_HIGHER
               ? value > run->best.value
               : value < run->best.value;
}

/* Validation gives its values in `logs`; the metric is one of them by name. The best is noted
 * before its save has succeeded: the save runs beside training, and its failure ends the run at
 * the next save or at the end. */
static int keep_best(et_run *run, et_value *logs, et_error *error)
{
    const char *name = run->options.trainer->best_checkpoint_eval_metric;
    double value;
    if (name && !strcmp(name, ET_BEST_AUTO))
        name = run->task->class->best_metric;
    if (!name)
        return ET_OK;
    if (et_value_read_float(logs, name, &value, NULL))
        return et_fail(error, ET_ECONFIG,
                       "trainer.best_checkpoint_eval_metric: validation gives no %s", name);
    if (!is_better(run, value))
        return ET_OK;
    run->best = (et_run_best){ true, value, run->step.count };
    return et_checkpoints_save_best(run->checkpoints, run->step.count, logs, error);
}

/* Validation sees the averaged weights, where there are any. The store shows them for as long as
 * validation runs; the weights come back also when it fails. */
static int validate_weights(et_run *run, et_value *logs, et_error *error)
{
    float *average = et_optimizer_average(run->optimizer);
    if (average)
        et_params_use(run->options.params, average);
    int status = run->task->class->validate(run->task, run->step.count, logs, error);
    if (average)
        et_params_use(run->options.params, NULL);
    return status;
}

/* The step's order: validate, keep the best, log. ET_EINTERRUPTED comes from the task before any
 * of the rest, so a validation that was cut short leaves no log and changes no best. */
static int act_validate(et_run *run, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *logs = et_value_dict(&arena);
    et_value *values = et_value_set_dict(logs, "validation");
    double start = et_clock_monotonic();
    int status = values ? validate_weights(run, values, error)
                        : et_alloc_failed(error, sizeof *values, "a log");
    if (!status)
        status = keep_best(run, values, error);
    if (!status && run->best.known)
        et_value_set_int(values, "best_step", run->best.step);
    if (!status && run->best.known && run->best.step == run->step.count)
        et_value_set_string(values, ET_SINK_NOTE, "best so far, saved");
    et_value *time = et_value_set_dict(values, ET_SINK_TIME);
    et_value_set_float(time, "seconds", et_clock_monotonic() - start);
    if (!status)
        status = write_log(run, logs, error);
    et_arena_release(&arena);
    run->window_start += et_clock_monotonic() - start; /* rates are those of training */
    return status;
}

static void tell_save(const et_run *run)
{
    char text[64];
    if (!run->options.verbose || !run->options.progress)
        return;
    snprintf(text, sizeof text, "step  %s  saving", et_format_count(run->step.count).text);
    et_progress_message(run->options.progress, text);
}

/* The logs are durable before the checkpoint that names their lengths. */
static int act_save(et_run *run, et_error *error)
{
    tell_save(run);
    int status = et_sink_flush(run->sink, error);
    if (!status)
        status = et_checkpoints_save(run->checkpoints, run->step.count, error);
    run->unsaved = run->unsaved && status;
    return status;
}

static const et_label log_label = { .name = "log", .kind = "log" };
static const et_label validate_label = { .name = "validate", .kind = "validate" };
static const et_label save_label = { .name = "save", .kind = "save" };

/* A row for each hook, in the order they act: its label, its interval in steps (0: at the end
 * only), its function (NULL: never acts). To add one, see README.md; ET_RUN_HOOKS counts them. */
void et_run_hooks(const et_run *run, et_hook hooks[ET_RUN_HOOKS])
{
    et_assert(run->task && run->options.trainer);
    const et_trainer_options *trainer = run->options.trainer;
    bool validates = run->task->class->validate && trainer->validation_interval;
    hooks[0] = (et_hook){ &log_label, trainer->summary_interval, act_log };
    hooks[1] =
        (et_hook){ &validate_label, trainer->validation_interval, validates ? act_validate : NULL };
    hooks[2] = (et_hook){ &save_label, trainer->checkpoint_interval, act_save };
}
