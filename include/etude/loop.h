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
 * its time and a due checkpoint; the next epoch continues with the next batch. The loop cannot see
 * a break. After a break out of steps call et_loop_leave_steps; otherwise the rest of the epoch
 * counts as part of the step. After a break out of epochs call et_loop_leave; otherwise the next
 * et_loop_next_epoch counts the epoch as done.
 *
 * A killed loop resumes from its checkpoint with the same bits. If it was saved in a step, it
 * resumes in the same epoch after this step: BEFORE_EPOCH is not fired again, but the program's
 * code before the steps of the epoch runs again. If an epoch has several loops of steps and
 * et_loop_leave_steps left one of them, the loop takes more steps of this one first.
 *
 * Differences from TrainLoop: ENTER_LOOP and EXIT_LOOP are fired; checkpoints include metrics and
 * the position in the data, and may lack an object; a named checkpoint needs no directory and works
 * with early stopping; NaN is never the best. As in TrainLoop, early stopping does not end the
 * loop, and an interruption restores nothing. Store and sources are borrowed. One thread. */
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

/* A metric's summary is written when it is first collected and every n-th time from there. */
typedef struct et_loop_frequency {
    const char *name;
    int64_t every;
} et_loop_frequency;

typedef struct et_loop_options {
    const et_group *group;         /* what early stopping takes back and the training summary
                                      shows; copied. NULL: all, variables too */
    const char *const *var_groups; /* [var_group_count]: scopes with a table of their own in the
                                      training summary */
    int var_group_count;
    bool no_eta;             /* no ETA in tags */
    et_loop_print_fn *print; /* NULL: to standard output */
    void *print_payload;
    int64_t max_epoch, max_step;          /* in all; 0: no limit */
    const et_metric_formatter *formatter; /* NULL: et_metric_formatter_default */
    const et_device *device;              /* borrowed, told in the training summary; NULL: not */

    const char *checkpoint_dir;     /* a run's directory; NULL: no checkpoints */
    int64_t checkpoint_epoch_freq;  /* saves after every n-th epoch; 0: never */
    int64_t checkpoint_max_to_keep; /* the newest n; 0: all */
    const char *restore_checkpoint; /* NULL: the newest of checkpoint_dir, if there is one; "":
                                       none; else this file, whatever the directory. The first save
                                       moves what is not resumed to checkpoints/earlier-N */

    const char *summary_dir;            /* for a writer of the loop's own; NULL: none */
    et_sink *summary_writer;            /* borrowed; wins over summary_dir */
    const char *summary_graph;          /* a text "graph", when the loop's own writer begins anew */
    const struct et_pass *summary_pass; /* its graph, when summary_graph is written; borrowed */
    const char *summary_metric_prefix;  /* NULL: "metrics/" */
    const char *summary_skip_pattern;   /* metrics whose names it matches from their start are not
                                           written; NULL: ".*(time|timer)$", "": all are */
    const et_loop_frequency *summary_commit_freqs; /* [summary_commit_freq_count]; others: 1 */
    int summary_commit_freq_count;

    const char *valid_metric_name; /* NULL: "valid_loss"; "": none */
    int valid_metric_better;       /* ET_LOOP_BETTER_* */
    bool early_stopping;           /* keeps the best step; a clean end takes its parameters back.
                                      Nothing ends sooner for it */
    const volatile sig_atomic_t *stop; /* not 0: ends as interrupted, saved; NULL: never */
    et_comm *comm; /* ranks that run the same loop together, with shards.h; borrowed. Rank 0 alone
                      writes and prints, and all take what it restores. NULL: this process alone */
} et_loop_options;

/* What an event of a loop tells; lives as long as the call. */
typedef struct et_loop_event {
    et_loop *loop;
    const struct et_loop_metric *metrics; /* [count] collected */
    const struct et_loop_stats *stats;    /* [count] printed */
    int count;
    const et_value *summary; /* added; NULL: bytes, [length] of a serialised one */
    const void *bytes;
    size_t length;
} et_loop_event;

/* params must have memory. Options are copied, except members marked as borrowed. ET_ECONFIG:
 * options contradict each other. */
ET_API int et_loop_open(et_loop **out, et_params *params, const et_loop_options *options,
                        et_error *error);
/* Without et_loop_end before: the loop counts as ended by an error. NULL allowed. */
ET_API void et_loop_close(et_loop *loop);

/* ---- between open and begin (else ET_EUSAGE): what resumes. The store, counters, metrics, the
 * best value and positions in data always resume. ---- */

/* The state tree: add optimizers and parts that every checkpoint must have. */
ET_API et_state *et_loop_state(et_loop *loop);
/* Adds an object of the program. An object that the checkpoint lacks is unchanged; an additional
 * object in the checkpoint is dropped; both give a warning. ET_ECONFIG: the name is in use. */
ET_API int et_loop_add_object(et_loop *loop, const char *name, const et_part_class *kind,
                              void *self, et_error *error);
/* A name for a source, where there are several to take steps from in a loop with checkpoints. One
 * may go without. Until et_loop_close all that steps were taken from stay. ET_ECONFIG: the name is
 * taken, or no UTF-8. */
ET_API int et_loop_add_source(et_loop *loop, const char *name, et_source *source, et_error *error);
ET_API et_event_hub *et_loop_events(et_loop *loop); /* also later */

/* ---- running ---- */

/* Once. Opens the writer, restores and says so, begins ETA, fires ENTER_LOOP. */
ET_API int et_loop_begin(et_loop *loop, et_error *error);

/* Ends the epoch before (AFTER_EPOCH in reverse, epoch_time, checkpoint if due), then begins one
 * (BEFORE_EPOCH). false: max_epoch or max_step is reached, or something failed; metrics are
 * cleared. What is logged before the end of an epoch is of all epochs since the last log. ET_EUSAGE
 * is kept in a handler of an event: another epoch is open. */
ET_API bool et_loop_next_epoch(et_loop *loop);

/* Ends the step before (AFTER_STEP in reverse, step_time), then begins one (BEFORE_STEP). false:
 * the source's pass is over, or max_step is reached, or something failed. source NULL: steps
 * without data, up to max_step. One that repeats is over where its epoch changes; one that ends is
 * set back to where it was first seen, with the same order: let it repeat for another, and seek one
 * that was read before to its beginning, or each pass begins where it was. ET_EUSAGE is kept:
 * outside of an epoch, in a handler, a trainer's hook too, or without source and max_step, which
 * would never end. */
ET_API bool et_loop_next_step(et_loop *loop, et_source *source);
/* Leaves what is open: the step, and the epoch goes on; or both. ET_EUSAGE in an event's handler.
 */
ET_API int et_loop_leave_steps(et_loop *loop);
ET_API int et_loop_leave(et_loop *loop);

/* Keeps a failure of the program's own, of which error tells; status 0 there: nothing. */
ET_API int et_loop_fail(et_loop *loop, const et_error *error);

/* Saves, and returns when the checkpoint is on the disk, or with the error. An open step, or else
 * epoch, is saved once more at its end, when its AFTER event was fired. A loop that was killed
 * before that resumes in the step: its AFTER event is fired first, without step data. ET_ECONFIG:
 * there is no checkpoint_dir. */
ET_API int et_loop_make_checkpoint(et_loop *loop);

/* Once. Finishes saves; if nothing failed early stopping takes the best parameters back: after an
 * error or an interruption it does not, nor where there never was a best one; a warning says so.
 * Then fires EXIT_LOOP, whose handlers may print and write, and closes the writer. Checkpoints stay
 * what they were: a run that resumes does so from the last step. Returns the first failure;
 * ET_EUSAGE in a handler of an event. */
ET_API int et_loop_end(et_loop *loop, et_error *error);

/* ---- getters ---- */

ET_API int64_t et_loop_epoch(const et_loop *loop);     /* 0 before the first, then from 1 */
ET_API int64_t et_loop_step(const et_loop *loop);      /* over all epochs; the same */
ET_API bool et_loop_within_epoch(const et_loop *loop); /* from the BEFORE to the AFTER event */
ET_API bool et_loop_within_step(const et_loop *loop);
ET_API const et_batch *et_loop_step_data(const et_loop *loop); /* of this step; NULL: none */
/* 0: no limit. Set, they count from the next next_epoch or next_step on; ET_ECONFIG: negative. */
ET_API int64_t et_loop_max_epoch(const et_loop *loop);
ET_API int64_t et_loop_max_step(const et_loop *loop);
ET_API int et_loop_set_max_epoch(et_loop *loop, int64_t max_epoch);
ET_API int et_loop_set_max_step(et_loop *loop, int64_t max_step);
/* Of all there is to do, 0 to 1; NaN: there is no limit. By epochs an estimate, which may be 1
 * before the end. */
ET_API double et_loop_progress(const et_loop *loop);
/* What is trained of the parameters that options.group has, or of all. Borrowed. */
ET_API const et_group *et_loop_param_vars(const et_loop *loop);

#endif
