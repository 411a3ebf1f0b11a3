/* Runs, for drivers: lines for people, and going back, beyond <etude/run.h>. */
#ifndef ETUDE_TRAIN_RUN_RUN_H
#define ETUDE_TRAIN_RUN_RUN_H

#include <etude/run.h>

#include "train/checkpoint/checkpoint.h"
#include "train/run/recent.h"

et_comm *et_run_comm(const et_run *run);
const char *et_run_directory(const et_run *run); /* NULL: nothing is saved */

/* Tells people a line. */
void et_run_tell(const et_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Tells the library's warnings that have come since, where the program has no log function: to the
 * observer, and in train.log. */
void et_run_tell_warnings(et_run *run);
void et_run_show(const et_run *run, const et_showing *showing);

/* Between two steps, by all ranks: a request that one of them has is one of all. Of a process alone
 * nothing. */
int et_run_meet(et_run *run, et_error *error);
/* All of it: requests are met and served, saves looked after. ET_EINTERRUPTED, without a text:
 * asked to stop. */
int et_run_between_steps(et_run *run, int64_t step, et_error *error);
/* One status for all ranks (et_comm_agree); of a process alone its own. */
int et_run_agree(et_run *run, int status, et_error *error);
/* Saves what is not saved yet; all ranks call it, as et_run_save. */
int et_run_save_unsaved(et_run *run, int64_t step, bool transient, et_error *error);
/* et_run_finish_saves in the middle of a run: the best is none of its business. */
int et_run_await_saves(et_run *run, int64_t step, et_error *error);
/* Whether this process was asked to stop, whatever the others were. */
bool et_run_signalled(const et_run *run);

/* Back to the newest checkpoint, logs and all; ET_ENOTFOUND: there is none. */
int et_run_rewind(et_run *run, int64_t *step, et_error *error);

/* Where its logs go, for those that need not be durable at once; NULL: it has none, or has not
 * begun. */
et_sink *et_run_sink(et_run *run);

/* What et_run_restore_file does on one rank. Logs that are open stay as they are. */
int et_run_take_file(et_run *run, const char *path, int64_t *step, et_error *error);
/* As et_run_restore, of a checkpoint that is named: rank 0 reads it, and all have it. What the
 * run's directory has after it is set aside before it is written over, logs too. */
int et_run_restore_file(et_run *run, const char *path, et_error *error);

/* Every rank's best becomes rank 0's, which alone knows of a save of it that failed and takes the
 * one before back; et_run_note_best does this itself. status: what each rank has come to, of which
 * the first failure is all ranks'. */
int et_run_spread_best(et_run *run, int status, et_error *error);

/* Which was the best so far: its step, -1 if there is none. */
int64_t et_run_best_step(const et_run *run, double *value);
/* Validations in a row that were not the best. */
int64_t et_run_since_best(const et_run *run);
/* Of the best, the value of best_tie; NaN: it has none. */
double et_run_best_tie(const et_run *run);

#endif
