/* What the files of a run share: run.c (set-up, loop), hooks.c (what acts between loops). */
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

/* Starts the window of rates anew. */
void et_run_start_window(et_run *run);

#endif
