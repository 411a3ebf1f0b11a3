/* Options of a run, for a driver (controller.h): the directory of checkpoints and logs, the metric
 * of the best checkpoint, and requests to stop or save.
 *
 *     et_run_options run = { .model_dir = "runs/a", .max_to_keep = 3, .best_metric = "accuracy" };
 *     et_controller_options options = { .trainer = trainer, .train_steps = 1000, .run = run };
 *
 * A save runs in the background; a later call of the driver returns its failure. The best
 * checkpoint of a small model is saved after one second, before the next checkpoint, or at the
 * end. If the run is killed earlier, it finds the same best checkpoint again when it resumes. */
#ifndef ETUDE_RUN_H
#define ETUDE_RUN_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include <etude/checkpoint.h>
#include <etude/comm.h>
#include <etude/summary.h>

typedef struct et_run et_run;

/* Facts about a step, for display. */
typedef struct et_showing {
    int64_t step, steps;        /* steps done; steps of the whole run */
    double loss, learning_rate; /* NaN: unknown */
    double rate;                /* units per second; NaN: unknown */
    const char *unit;           /* "token"; lives as long as the run */
    int64_t epoch;              /* from 1; 0: unknown */
    double time;                /* end of the step, in seconds of a monotonic clock */
    /* Units and duration of this step, or of all steps since the last call of show if the trainer
     * has its own inner loop. The seconds do not include evaluations and saves. */
    int64_t units;
    double seconds;
} et_showing;

/* Receives facts and lines of a run. Both functions may be called between any two steps. */
typedef struct et_observer {
    void *self;
    void (*show)(void *self, const et_showing *showing); /* after every step */
    void (*tell)(void *self, const char *text);          /* a line for people */
} et_observer;

enum { ET_COMPARE_HIGHER, ET_COMPARE_LOWER };

/* Policies for a checkpoint whose save fails twice in a row. */
enum { ET_FAILED_SAVE_STOP, ET_FAILED_SAVE_GO_ON };

typedef struct et_run_options {
    const char *model_dir; /* copied. NULL: nothing is saved, and the best step only recorded; logs
                              go only to summary_dir and console */
    et_state *state;       /* borrowed; all parts except the run's own are attached */
    et_comm *comm; /* ranks that make this run together; borrowed. Only rank 0 reads and writes
                      model_dir and summary_dir. NULL: this process alone */
    int64_t max_to_keep;       /* number of checkpoints to keep; 0: 5; negative: all */
    double keep_every_n_hours; /* et_checkpoint_options */
    int on_failed_save;        /* ET_FAILED_SAVE_* */
    const char *best_metric; /* a value of the validation, "a|b" for b in dict a; NULL: keep no best
                                checkpoint */
    int best_comparison;     /* ET_COMPARE_* */
    const char *best_tie;  /* if values of best_metric are equal, the lower value of best_tie is the
                              best; if these are equal too, the later step. An equal value is no
                              improvement for early stopping. NULL: the earlier step is the best */
    uint64_t best_data;    /* fingerprint of the data of best_metric; 0: unknown */
    bool best_unsaved;     /* record the best step, but do not save it */
    const char *best_link; /* copied; see et_checkpoint_options */
    et_observer observer;  /* members NULL: not called */
    bool verbose;          /* print a line for every save */
    const char *summary_dir; /* copied: write only event files, to this folder; NULL: logs go to
                                model_dir, if set */
    bool no_logs;            /* write no logs to model_dir */
    et_sink *console;        /* one more sink; the run owns it, also if opening fails. NULL: none */
    bool other_optimizer;    /* restore also from another optimizer: et_checkpoint_options */
    bool partial;            /* restore also a file with fewer or more: et_checkpoint_options */
    const et_value
        *identity; /* identity of the run's checkpoints, which the command sets; NULL: none */
    const volatile sig_atomic_t *stop;    /* not 0: asked to stop; NULL: never */
    volatile sig_atomic_t *save;          /* not 0: asked to save; then reset to 0. NULL: never */
    const struct et_internals *internals; /* internal; NULL */
} et_run_options;

#endif
