/* What a run keeps around its steps, as options of a driver (controller.h): a directory with
 * checkpoints and logs, the best step so far, rates, and requests to stop or save.
 *
 *     et_run_options run = { .model_dir = "runs/a", .max_to_keep = 3, .best_metric = "accuracy" };
 *     et_controller_options options = { .trainer = trainer, .train_steps = 1000, .run = run };
 *
 * A save runs in the background; a later call of the driver returns its failure. */
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

#endif
