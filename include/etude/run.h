/* A run: the services that every driver of training needs around its steps: a directory with
 * checkpoints and logs, the best step so far, rates, and requests to stop or save. A run knows no
 * model, no data and no loop; the driver passes the step.
 *
 *     et_run_open(&run, &options, &error);            takes the lock; parts "best" and "logs"
 *     et_run_restore(run, &step, &error);             -1: no checkpoint; draw initial values
 *     et_run_begin(run, &error);                      opens the logs, truncated to the checkpoint
 *     while (step < steps && !et_run_asked_to_stop(run)) {
 *         if (et_run_check(run, &error)) ...          another process has taken it
 *         step++;                                     a step of the program's
 *         et_run_touch(run);
 *         et_run_look_after_saves(run, step, &error);
 *         et_run_save_if_asked(run, step, &error);
 *         if (step % 100 == 0) {
 *             et_run_note_best(run, step, logs, &error);
 *             et_run_log(run, step, logs, &error);
 *             et_run_save(run, step, false, &error);
 *         }
 *     }
 *     if (et_run_unsaved(run))
 *         et_run_save(run, step, false, &error);
 *     et_run_finish_saves(run, step, &error);
 *     et_run_close(run, &error);
 *
 * A save runs in the background; a later call returns its failure. One thread. */
#ifndef ETUDE_RUN_H
#define ETUDE_RUN_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include <etude/checkpoint.h>
#include <etude/comm.h>
#include <etude/summary.h>

typedef struct et_run et_run;

/* What there is to see after a step. */
typedef struct et_showing {
    int64_t step, steps;        /* done, and in all */
    double loss, learning_rate; /* NaN: unknown */
    double rate;                /* units a second, NaN: unknown */
    const char *unit;           /* "token"; lives as long as the run */
    int64_t epoch;              /* from 1; 0: unknown */
    double time; /* when it was done, in seconds since some moment; never goes back */
    /* Of this step, or of all since the last showing, where a trainer has an inner loop of its own:
     * what lies between steps, as evaluations and saves do, takes none of the seconds. */
    int64_t units;
    double seconds;
} et_showing;

/* Who looks. Both may be called between any two steps. */
typedef struct et_observer {
    void *self;
    void (*show)(void *self, const et_showing *showing); /* after every step */
    void (*tell)(void *self, const char *text);          /* a line for people */
} et_observer;

enum { ET_COMPARE_HIGHER, ET_COMPARE_LOWER };

/* What happens when a checkpoint could not be saved twice in a row. */
enum { ET_FAILED_SAVE_STOP, ET_FAILED_SAVE_GO_ON };

typedef struct et_run_options {
    const char *model_dir; /* copied. NULL: nothing is saved, the best is only noted; logs go to
                              summary_dir and console alone */
    et_state *state;       /* borrowed; all but the run's own parts is attached */
    et_comm *comm; /* ranks that make this run together; borrowed. Rank 0 alone reads and writes
                      model_dir and summary_dir. NULL: this process alone */
    int64_t max_to_keep;       /* checkpoints; 0: 5; negative: all */
    double keep_every_n_hours; /* et_checkpoint_options */
    int on_failed_save;        /* ET_FAILED_SAVE_* */
    const char *best_metric;   /* of validation, "a|b" for b in dict a; NULL: keep no best */
    int best_comparison;       /* ET_COMPARE_* */
    const char *best_tie; /* of equal values of best_metric the one with the lower value of this is
                             the best; where these are equal too, the later. An equal value is no
                             improvement for early stopping. NULL: the earlier */
    uint64_t best_data;   /* fingerprint of the data that best_metric is of; 0: not known */
    bool best_unsaved;    /* the best is noted, its step not saved */
    et_observer observer; /* members NULL: nobody */
    bool verbose;         /* print a line for every save */
    const char *summary_dir; /* copied: event files alone, there; NULL: logs are in
                                model_dir, if there is one */
    bool no_logs;            /* none in model_dir */
    et_sink *console;        /* one more sink, adopted also by what fails to open; NULL: none */
    bool other_optimizer;    /* what is restored may be of another one: et_checkpoint_options */
    const et_value
        *identity; /* what checkpoints belong to, which the command says; NULL: nothing */
    const volatile sig_atomic_t *stop; /* not 0: asked to stop; NULL: never */
    volatile sig_atomic_t *save;       /* not 0: asked to save and go on; becomes 0; NULL: never */
    const struct et_inside *inside;    /* the library's own; NULL */
} et_run_options;

ET_API int et_run_open(et_run **out, const et_run_options *options, et_error *error);
/* Waits for the last save. NULL allowed. */
ET_API int et_run_close(et_run *run, et_error *error);

/* Restores the newest checkpoint; *step -1: no checkpoint. If the best step was chosen by another
 * metric or comparison, or on other validation data, a warning is logged and the next validation
 * starts a new best. */
ET_API int et_run_restore(et_run *run, int64_t *step, et_error *error);
/* Call before the first step. Checks that the disk has space for a checkpoint and opens the logs.
 */
ET_API int et_run_begin(et_run *run, et_error *error);

/* ET_EBUSY if another process uses the directory. Call before you write anything. */
ET_API int et_run_check(et_run *run, et_error *error);

ET_API bool et_run_asked_to_stop(const et_run *run);
/* Saves a transient checkpoint if asked to, and then no more. */
ET_API int et_run_save_if_asked(et_run *run, int64_t step, et_error *error);

/* Marks the state as changed since the last save. */
ET_API void et_run_touch(et_run *run);
ET_API bool et_run_unsaved(const et_run *run);

/* Writes and flushes a log. During a save in the background, the next log or save flushes it. */
ET_API int et_run_log(et_run *run, int64_t step, const et_value *logs, et_error *error);

/* Compares the values of a validation with the best so far. A new best is saved as checkpoint and
 * info.json, both or neither. NaN is never the best and does not count as a validation. Adds
 * best_<metric>, best_step and a note to values. */
ET_API int et_run_note_best(et_run *run, int64_t step, et_value *values, et_error *error);

/* Saves the step in the background. transient: an uninterrupted run would not save this step, so it
 * does not count among the kept checkpoints. A failure of this or the previous save is an error
 * only if on_failed_save ends the run. */
ET_API int et_run_save(et_run *run, int64_t step, bool transient, et_error *error);
/* Checks the save in progress, between two steps and without waiting. A failed save is reported and
 * tried again. */
ET_API int et_run_look_after_saves(et_run *run, int64_t step, et_error *error);
/* Waits for the last save, and tries again once if it failed. It is also an error if the best step
 * could not be saved and no later step is as good. */
ET_API int et_run_finish_saves(et_run *run, int64_t step, et_error *error);

#endif
