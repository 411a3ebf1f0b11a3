/* A run: the services that every driver of training needs around its steps. <etude/run.h> has its
 * options. A run does not know the model, the data or the loop; the driver passes the step.
 *
 *     et_run_open(&run, &options, &error);            takes the lock; parts "best" and "logs"
 *     et_run_restore(run, &step, &error);             -1: no checkpoint; draw initial values
 *     et_run_begin(run, &error);                      opens the logs, truncated to the checkpoint
 *     while (step < steps && !et_run_asked_to_stop(run)) {
 *         if (et_run_check(run, &error)) ...          another process has taken it
 *         step++;                                     a step of the program's
 *         et_run_touch(run);
 *         et_run_between_steps(run, step, &error);    requests are met, saves looked after
 *         if (step % 100 == 0) {
 *             et_run_note_best(run, step, logs, &error);
 *             et_run_log(run, step, logs, &error);
 *             et_run_save(run, step, false, &error);
 *         }
 *     }
 *     et_run_save_unsaved(run, step, false, &error);
 *     et_run_finish_saves(run, step, &error);
 *     et_run_close(run, &error);
 *
 * A save runs in the background; a later call returns its failure. One thread. */
#ifndef ETUDE_TRAIN_RUN_RUN_H
#define ETUDE_TRAIN_RUN_RUN_H

#include <math.h>
#include <time.h>

#include <etude/run.h>

#include "base/text/strbuf.h"
#include "train/checkpoint/checkpoint.h"

/* A mean of recent values, for people. Each new value reduces the weight of older values by 2 %:
 *
 *     mean = (x[n] + 0.98 x[n-1] + 0.98^2 x[n-2] + ...) / (1 + 0.98 + 0.98^2 + ...)
 *
 * The sums are over the values so far, so the result is a mean from the first value on. The last
 * 100 values have 0.87 of the weight. A plain value of two numbers; zero: no values yet. */

typedef struct et_recent {
    double sum, weight; /* the two sums of the formula */
} et_recent;

static inline void et_recent_add(et_recent *recent, double value)
{
    recent->sum = 0.98 * recent->sum + value;
    recent->weight = 0.98 * recent->weight + 1;
}

/* NaN: no value was added. */
static inline double et_recent_mean(et_recent recent)
{
    return recent.weight > 0 ? recent.sum / recent.weight : (double)NAN;
}

int et_run_open(et_run **out, const et_run_options *options, et_error *error);
/* Saves a held best, waits for the last save, and closes the run. error NULL: a failure is only a
 * warning. run NULL is allowed. */
int et_run_close(et_run *run, et_error *error);

/* Restores the newest checkpoint; *step -1: no checkpoint. If the best step was chosen by another
 * metric, comparison or validation data, the run logs a warning, and the next validation starts a
 * new best. */
int et_run_restore(et_run *run, int64_t *step, et_error *error);
/* Call before the first step. Checks that the disk has space for a checkpoint and opens the logs.
 */
int et_run_begin(et_run *run, et_error *error);

/* ET_EBUSY if another process uses the directory. Call before you write anything. */
int et_run_check(et_run *run, et_error *error);

bool et_run_asked_to_stop(const et_run *run);

/* Marks the state as changed since the last save. */
void et_run_touch(et_run *run);

/* Writes a log. Flushes it to the disk at most once per second, and not while a save runs in the
 * background. Logs that were not flushed become durable with a later log, the next save or the
 * close. */
int et_run_log(et_run *run, int64_t step, const et_value *logs, et_error *error);

/* Compares the values of a validation with the best so far. A new best is saved in the background,
 * as checkpoint and info.json, both or neither. Exception: a small state without ranks is saved
 * after one second (between two steps), before the next checkpoint, or at the end. NaN is never the
 * best and does not count as a validation. Adds best_<metric>, best_step and a note to values. */
int et_run_note_best(et_run *run, int64_t step, et_value *values, et_error *error);

/* Saves the step in the background. transient: an uninterrupted run would not save this step, so
 * max_to_keep does not count this checkpoint. A failure of this save or the previous one is an
 * error only if on_failed_save ends the run. */
int et_run_save(et_run *run, int64_t step, bool transient, et_error *error);
/* Checks the save in progress between two steps, without waiting. Reports a failed save and tries
 * it again. */
int et_run_look_after_saves(et_run *run, int64_t step, et_error *error);
/* Waits for the last save, and tries a failed one once more. Also fails if the best step could not
 * be saved and no later step is as good. */
int et_run_finish_saves(et_run *run, int64_t step, et_error *error);

/* Tells people a line. */
void et_run_tell(const et_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* If the program has no log function, passes new warnings of the library to the observer and to
 * train.log. */
void et_run_tell_warnings(et_run *run);
void et_run_show(const et_run *run, const et_showing *showing);

/* Called by all ranks between two steps: a request to one rank becomes a request to all. Does
 * nothing with one process. */
int et_run_meet(et_run *run, et_error *error);
/* All work between two steps: serves requests and checks saves. ET_EINTERRUPTED, without a text:
 * asked to stop. */
int et_run_between_steps(et_run *run, int64_t step, et_error *error);
/* One status for all ranks; with one process, its own. Only for train/run (et_together_run). */
int et_run_agree(et_run *run, int status, et_error *error);
/* Saves if there is unsaved work; all ranks call it, as et_run_save. */
int et_run_save_unsaved(et_run *run, int64_t step, bool transient, et_error *error);
/* et_run_finish_saves in the middle of a run, without the check of the best. */
int et_run_await_saves(et_run *run, int64_t step, et_error *error);
/* Whether this process was asked to stop; et_run_asked_to_stop is about all ranks. */
bool et_run_signalled(const et_run *run);

/* Goes back to the newest checkpoint, and cuts the logs there. ET_ENOTFOUND: no checkpoint. */
int et_run_rewind(et_run *run, int64_t *step, et_error *error);

/* The run's sink, for logs that need not be durable immediately. NULL: no logs, or the run has not
 * begun. */
et_sink *et_run_sink(et_run *run);

/* The part of et_run_restore_file on one rank. Open logs do not change. */
int et_run_take_file(et_run *run, const char *path, int64_t *step, et_error *error);
/* As et_run_restore with a given checkpoint: rank 0 reads it, and all ranks get it. Later files of
 * the run's directory, also logs, are moved aside before they are overwritten. */
int et_run_restore_file(et_run *run, const char *path, et_error *error);

/* Gives rank 0's best to all ranks. Only rank 0 knows whether the save of a best failed, after
 * which the previous best counts again. et_run_note_best calls this function. status: the result of
 * this rank; all ranks return the first failure. */
int et_run_broadcast_best(et_run *run, int status, et_error *error);

/* The step of the best so far; -1: no best yet. */
int64_t et_run_best_step(const et_run *run, double *value);
/* Validations in a row that were not the best. */
int64_t et_run_since_best(const et_run *run);
/* The value of best_tie at the best step; NaN: no value. */
double et_run_best_tie(const et_run *run);

/* ---- train.log ---- */

/* All lines for people, with the time of day. Without a log function of the program, also the
 * library's warnings: an open run keeps them until its own thread prints them. */

/* Appends the lines of text as the file has them. */
void et_run_messages_print(et_strbuf *out, const char *text, time_t when);

/* Appends printed lines to the file at path. first: ends a line that a crash has cut short. Returns
 * an errno on failure, else 0. */
int et_run_messages_write(const char *path, const et_strbuf *lines, bool first);

#endif
