/* What the files of a run share: run.c (set-up, loop), hooks.c (what acts between loops), saving.c
 * (saves, and those that fail). */
#ifndef ETUDE_TRAIN_RUN_PARTS_H
#define ETUDE_TRAIN_RUN_PARTS_H

#include "io/sink.h"
#include "train/checkpoint.h"
#include "train/recent.h"
#include "train/run.h"
#include "train/step.h"

/* Something that acts between inner loops: when and what. */
typedef struct et_hook {
    const et_label *label; /* its name is what a checkpoint has of a hook */
    int64_t every;         /* steps; 0: only at the end */
    /* ET_EINTERRUPTED: nothing was done; it acts again when the run goes on. */
    int (*act)(et_run *run, et_error *error);
} et_hook;

/* Rows that et_run_hooks fills. */
#define ET_RUN_HOOKS 3

/* The best validation so far. Part of the state, so that a resumed run knows what to beat. */
typedef struct et_run_best {
    bool known;   /* a validation gave a value; false: the rest means nothing */
    double value; /* of trainer.best_checkpoint_eval_metric; may be NaN if no other came yet */
    int64_t step; /* that was validated */
} et_run_best;

/* Saves of the run so far. */
typedef struct et_run_saves {
    int failed;              /* in a row, the last one among them */
    bool again;              /* the first of them is to be tried again at the next step boundary */
    bool is_best;            /* the one in progress is the best one's */
    et_run_best best_before; /* what is the best if that fails */
    int64_t due;             /* the last step that was saved not only in passing */
    et_error failure;        /* of the last that failed */
} et_run_saves;

/* In the order of making; all owned but task and what options point to. NULL: not made yet. */
struct et_run {
    et_run_options options;      /* a copy; what it points to outlives the run */
    et_task *task;               /* borrowed */
    et_graph *graph;             /* differentiated; the plan refers to its nodes */
    et_plan *plan;               /* of one batch, forward and backward */
    et_recompute recompute;      /* as planned: never ET_RECOMPUTE_AUTO */
    et_optimizer *optimizer;     /* over options.params */
    et_metrics *metrics;         /* of the window since the last log */
    et_state *state;             /* everything above that resumes, and the task's */
    et_checkpoints *checkpoints; /* of model_dir */
    et_sink *sink;               /* all sinks as one */
    et_step step;                /* borrows from the members above */
    et_run_best best;
    et_run_saves saves;
    et_arena arena;      /* lives as long as the run */
    et_value *positions; /* of the sinks, as restored; NULL: a new run */
    int next_hook;       /* of this step's; ET_RUN_HOOKS: all that were due have acted */
    bool finished;       /* nothing is left to do: no sinks are open */
    bool unsaved;        /* something happened since the last save or restore */
    double window_start; /* monotonic time of the last log */
    int64_t window_steps, window_tokens; /* since then; target tokens */
    et_recent rate, loss;                /* of steps, for the progress bar: target tokens a second,
                                            and the loss, which is in the state */
    double step_start;                   /* monotonic time of the end of the last step */
};

/* The run's hooks in the order they act. */
void et_run_hooks(const et_run *run, et_hook hooks[ET_RUN_HOOKS]);

/* Opens the sinks at their restored positions. */
int et_run_open_sinks(et_run *run, et_error *error);

/* Saves the step at hand beside training; passing: one that an unbroken run need not save, so it
 * does not count among those kept. A failure, of this or of the save before it, is an error only if
 * the run is to end by it. */
int et_run_save(et_run *run, bool passing, et_error *error);

/* Notes the best validation and saves its step as the best one; if that fails, the one noted before
 * is the best again. */
int et_run_save_best(et_run *run, const et_run_best *best, const et_value *logs, et_error *error);

/* Between two steps, without waiting: what became of the save in progress. One that failed is told
 * and tried again. */
int et_run_look_after_saves(et_run *run, et_error *error);

/* Waits for the last save, and tries once more if it failed. */
int et_run_finish_saves(et_run *run, et_error *error);

/* Starts the window of rates anew. */
void et_run_start_window(et_run *run);

#endif
