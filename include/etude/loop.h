/* A loop that the program owns (as TFSnippet's TrainLoop). The loop counts epochs and steps, reads
 * batches, fires events, saves, and resumes after a kill; the program computes the steps. For
 * metrics and printing see <etude/loop_log.h>.
 *
 *     et_loop_options options = { .max_epoch = 10, .early_stopping = true };
 *     et_loop_open(&loop, params, &options, &error);
 *     et_state_add_optimizer(et_loop_state(loop), "optimizer", optimizer, &error);
 *     et_loop_add_source(loop, "train", source, &error);
 *     et_loop_begin(loop, &error);
 *     while (et_loop_next_epoch(loop)) {
 *         while (et_loop_next_step(loop, source)) {
 *             if (et_pass_run(pass, et_loop_step_data(loop), 1, et_loop_step(loop), &error) ||
 *                 et_optimizer_update(optimizer, pass, NULL, &error))
 *                 et_loop_fail(loop, &error);
 *             et_loop_collect(loop, "loss", et_pass_loss(pass) / et_pass_divisor(pass));
 *         }
 *         et_loop_print_logs(loop);
 *     }
 *     et_loop_end(loop, &error);
 *     et_loop_close(loop);
 *
 * Errors: the loop keeps the first failure between begin and end. From then on next_epoch and
 * next_step return false; other calls, and et_loop_end, only return this failure.
 *
 * You may leave a loop early with break. The open step or epoch then ends without its AFTER event,
 * its time and a due checkpoint; the next epoch begins a new pass of the data. The loop cannot see
 * a break. After a break out of steps call et_loop_leave_steps; otherwise the rest of the epoch
 * counts as part of the step. After a break out of epochs call et_loop_leave; otherwise the next
 * et_loop_next_epoch counts the epoch as done.
 *
 * A killed loop resumes from its checkpoint with the same bits. If it was saved in a step, it
 * resumes in the same epoch after this step: BEFORE_EPOCH is not fired again, but the program's
 * code before the steps of the epoch runs again. If an epoch has several loops of steps and
 * et_loop_leave_steps left one of them, the resumed loop runs this loop of steps first.
 *
 * Differences from TrainLoop: ENTER_LOOP and EXIT_LOOP are fired; a named checkpoint needs no
 * directory and works with early stopping; NaN is never the best. As in TrainLoop, early stopping
 * does not end the loop, an interruption restores nothing. Store, sources: borrowed. One thread. */
#ifndef ETUDE_LOOP_H
#define ETUDE_LOOP_H

#include <signal.h>

#include <etude/comm.h>
#include <etude/data.h>
#include <etude/device.h>
#include <etude/events.h>
#include <etude/group.h>
#include <etude/state.h>
#include <etude/summary.h>

typedef struct et_loop et_loop;
typedef struct et_metric_formatter et_metric_formatter; /* loop_log.h */

/* Which value of the valid metric is better. BY_NAME: the larger one if the name ends in "acc" or
 * "accuracy", else the smaller. */
enum { ET_LOOP_BETTER_BY_NAME, ET_LOOP_BETTER_SMALLER, ET_LOOP_BETTER_LARGER };
#define ET_LOOP_RESTORE_NONE "" /* in place of a path */

/* One line or several, without the last line's end. */
typedef void et_loop_print_fn(void *payload, const char *text);

/* The summary of a metric is written when it is collected first, and then every n-th time. */
typedef struct et_loop_frequency {
    const char *name;
    int64_t every;
} et_loop_frequency;

typedef struct et_loop_options {
    const et_group *group; /* parameters that early stopping restores and the training summary
                              shows; copied. NULL: all, also variables */
    const char *const *var_groups; /* [var_group_count]: scopes that have separate tables in the
                                      training summary */
    int var_group_count;
    bool no_eta;             /* no ETA in tags */
    et_loop_print_fn *print; /* NULL: to standard output */
    void *print_payload;
    int64_t max_epoch, max_step;          /* over all runs of the loop; 0: no limit */
    const et_metric_formatter *formatter; /* NULL: et_metric_formatter_default */
    const et_device *device; /* borrowed; named in the training summary. NULL: not named */

    const char *checkpoint_dir;     /* a run's directory; NULL: no checkpoints */
    int64_t checkpoint_epoch_freq;  /* saves after every n-th epoch; 0: never */
    int64_t checkpoint_max_to_keep; /* the newest n; 0: all */
    const char *restore_checkpoint; /* NULL: the newest of checkpoint_dir, if any; "": none; else
                                       this file, from any directory. The first save moves
                                       checkpoints that are not resumed to checkpoints/earlier-N */
    bool restore_partial;           /* warns of missing and additional state, instead of failing */

    const char *summary_dir;   /* folder of the loop's own writer; NULL: none */
    et_sink *summary_writer;   /* borrowed; used instead of summary_dir */
    const char *summary_graph; /* the text "graph" in a new file of the loop's own writer */
    const struct et_pass *summary_pass; /* pass whose graph is written then, too; borrowed */
    const char *summary_metric_prefix;  /* NULL: "metrics/" */
    const char *summary_skip_pattern;   /* metrics whose names begin with a match are not written;
                                           NULL: ".*(time|timer)$"; "": write all */
    const et_loop_frequency *summary_commit_freqs; /* [summary_commit_freq_count]; others: 1 */
    int summary_commit_freq_count;

    const char *valid_metric_name; /* NULL: "valid_loss"; "": none */
    int valid_metric_better;       /* ET_LOOP_BETTER_* */
    bool early_stopping; /* at an end without failure, restore the parameters of the best step. The
                            loop still runs all epochs */
    const volatile sig_atomic_t *stop; /* not 0: save, end as interrupted; NULL: never */
    et_comm *comm; /* ranks that run the loop together, with shards.h; borrowed. Rank 0 writes,
                      prints and restores for all. NULL: this process alone */
} et_loop_options;

/* The value of a loop's event; valid during the call. */
typedef struct et_loop_event {
    et_loop *loop;
    const struct et_loop_metric *metrics; /* [count]: collected metrics */
    const struct et_loop_stats *stats;    /* [count]: printed statistics */
    int count;
    const et_value *summary; /* the added summary; NULL: bytes [length] of a serialized summary */
    const void *bytes;
    size_t length;
} et_loop_event;

/* params must have memory. Options are copied, except members marked as borrowed. ET_ECONFIG:
 * options contradict each other. */
ET_API int et_loop_open(et_loop **out, et_params *params, const et_loop_options *options,
                        et_error *error);
/* If et_loop_end was not called before, the loop counts as ended by an error. NULL allowed. */
ET_API void et_loop_close(et_loop *loop);

/* ---- between open and begin (else ET_EUSAGE): state that resumes. The store, counters, metrics,
 * the best value and positions in data always resume. ---- */

/* The state tree: add optimizers and parts that every checkpoint must have. */
ET_API et_state *et_loop_state(et_loop *loop);
/* Adds an object of the program. ET_ECONFIG: the name is in use; in et_loop_begin: the checkpoint
 * lacks the object (see restore_partial). Only a warning: the checkpoint has another object. */
ET_API int et_loop_add_object(et_loop *loop, const char *name, const et_part_class *kind,
                              void *self, et_error *error);
/* Names a source. If a loop with checkpoints takes steps from several sources, all but one need a
 * name. Keep sources of steps open until et_loop_close. ET_ECONFIG: the name is in use, or not
 * UTF-8. */
ET_API int et_loop_add_source(et_loop *loop, const char *name, et_source *source, et_error *error);
ET_API et_event_hub *et_loop_events(et_loop *loop); /* may also be called later */

/* ---- running ---- */

/* Call once. Opens the writer, restores a checkpoint and prints a line about it, starts the clock
 * of the ETA, fires ENTER_LOOP. */
ET_API int et_loop_begin(et_loop *loop, et_error *error);

/* Ends the open epoch (AFTER_EPOCH in reverse, epoch_time, a checkpoint if due), then begins the
 * next one (BEFORE_EPOCH). false: max_epoch or max_step is reached, or the loop has failed; metrics
 * are cleared. Logs of metrics cover all epochs since the last log. In a handler of an event, the
 * loop fails with ET_EUSAGE. */
ET_API bool et_loop_next_epoch(et_loop *loop);

/* Ends the open step (AFTER_STEP in reverse, step_time), then begins the next one (BEFORE_STEP).
 * false: the source's pass is over, max_step is reached, or the loop has failed. source NULL: steps
 * without data, up to max_step. A pass of a source that repeats is over when its epoch changes.
 * Each pass begins at the beginning, even if the source was read before: a source that repeats
 * begins its next pass, any other the same data again. During a pass no other loop, evaluator or
 * fit may read the source. The loop fails with ET_EUSAGE if another pass is open, outside of an
 * epoch, in a handler or a hook, and without source and max_step, because it would never end. */
ET_API bool et_loop_next_step(et_loop *loop, et_source *source);
/* leave_steps: leaves the open step; the epoch continues. leave: leaves step and epoch. ET_EUSAGE:
 * in a handler of an event. */
ET_API int et_loop_leave_steps(et_loop *loop);
ET_API int et_loop_leave(et_loop *loop);

/* Makes the loop fail with a failure of the program, described by error; a status of 0: nothing. */
ET_API int et_loop_fail(et_loop *loop, const et_error *error);

/* Saves, and returns when the checkpoint is on the disk or the save has failed. If a step (or else
 * an epoch) is open, the loop saves once more at its end, after its AFTER event. A loop that was
 * killed before that resumes in the step, and first fires its AFTER event, without step data.
 * ET_ECONFIG: there is no checkpoint_dir. */
ET_API int et_loop_make_checkpoint(et_loop *loop);

/* Call once. Finishes saves. If nothing failed, early stopping restores the best parameters; after
 * an error or an interruption, or without a best value, it does not and logs a warning. Then fires
 * EXIT_LOOP, whose handlers may print and write, and closes the writer. Checkpoints do not change:
 * a run resumes from the last step. Returns the first failure. ET_EUSAGE: in a handler. */
ET_API int et_loop_end(et_loop *loop, et_error *error);

/* ---- getters ---- */

ET_API int64_t et_loop_epoch(const et_loop *loop);     /* 0 before the first epoch, then from 1 */
ET_API int64_t et_loop_step(const et_loop *loop);      /* over all epochs; 0 before the first */
ET_API bool et_loop_within_epoch(const et_loop *loop); /* from the BEFORE to the AFTER event */
ET_API bool et_loop_within_step(const et_loop *loop);
ET_API const et_batch *et_loop_step_data(const et_loop *loop); /* batch of this step; NULL: none */
/* 0: no limit. A new limit holds from the next next_epoch or next_step on. ET_ECONFIG: negative. */
ET_API int64_t et_loop_max_epoch(const et_loop *loop);
ET_API int64_t et_loop_max_step(const et_loop *loop);
ET_API int et_loop_set_max_epoch(et_loop *loop, int64_t max_epoch);
ET_API int et_loop_set_max_step(et_loop *loop, int64_t max_step);
/* Finished fraction of the loop, 0 to 1; NaN: there is no limit. With a limit of epochs it is an
 * estimate, which may be 1 before the end. */
ET_API double et_loop_progress(const et_loop *loop);
/* The trained parameters of options.group, or of all. Borrowed. */
ET_API const et_group *et_loop_param_vars(const et_loop *loop);

#endif
