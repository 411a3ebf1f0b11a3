/* A trainer over a loop (as TFSnippet's Trainer): runs the epochs and steps of <etude/loop.h> with
 * what is hung on them, every few epochs or steps.
 *
 *     et_loop_measure loss = { .name = "loss" };
 *     et_loop_trainer_options options = { .source = source,
 *                                         .pass = pass,
 *                                         .optimizer = optimizer,
 *                                         .metrics = &loss,
 *                                         .metric_count = 1 };
 *     et_loop_trainer_open(&trainer, loop, &options, &error);
 *     et_loop_trainer_evaluate_after(trainer, evaluator, ET_EVERY_EPOCHS(1), &error);
 *     et_loop_trainer_anneal_after(trainer, &rate, ET_EVERY_EPOCHS(10), &error);
 *     et_loop_trainer_log_after(trainer, ET_EVERY_EPOCHS(1), &error);
 *     et_loop_trainer_call_after(trainer, ET_HOOK_EVALUATION, save, file, ET_EVERY_EPOCHS(1),
 *                                &error);
 *     et_event_source_on(et_loop_trainer_events(trainer), ET_EVENT_EPOCH_LOGGING, ring, bell,
 *                        &error);
 *     et_loop_begin(loop, &error);
 *     et_loop_trainer_run(trainer, &error);
 *     et_loop_end(loop, &error);
 *     et_loop_trainer_remove_hooks(trainer, ET_HOOK_LOGGING);
 *
 * Its events, in order: BEFORE_EXECUTION, then for each epoch BEFORE_EPOCH, for each step
 * BEFORE_STEP, the step, STEP_EVALUATION, STEP_ANNEALING, STEP_LOGGING, AFTER_STEP, then
 * EPOCH_EVALUATION, EPOCH_ANNEALING, EPOCH_LOGGING, AFTER_EPOCH, at last AFTER_EXECUTION, if
 * nothing failed. AFTER_ ones are fired in reverse. The loop's own come around these. What they
 * tell is the trainer. A run that resumes within an epoch does not fire BEFORE_EPOCH again. One
 * thread. */
#ifndef ETUDE_LOOP_TRAINER_H
#define ETUDE_LOOP_TRAINER_H

#include <etude/loop_evaluator.h>

#define ET_EVENT_STEP_EVALUATION  "step_evaluation"
#define ET_EVENT_STEP_ANNEALING   "step_annealing"
#define ET_EVENT_STEP_LOGGING     "step_logging"
#define ET_EVENT_EPOCH_EVALUATION "epoch_evaluation"
#define ET_EVENT_EPOCH_ANNEALING  "epoch_annealing"
#define ET_EVENT_EPOCH_LOGGING    "epoch_logging"

typedef struct et_loop_trainer et_loop_trainer;

typedef struct et_loop_trainer_options {
    et_source *source;       /* borrowed, as all up to payload. NULL: steps without data, up to the
                                loop's max_step */
    et_pass *pass;           /* a step runs it on the step's batch, with seed and its own number */
    et_optimizer *optimizer; /* updates after pass; in the loop's checkpoints, as "optimizer" where
                                it was not added under a name, so it outlives the loop's end */
    /* In place of pass and optimizer; of a pass that it runs, metrics are collected as well. */
    int (*step)(void *payload, et_loop *loop, et_error *error);
    void *payload;
    uint64_t seed;  /* of dropout and sampling */
    int64_t shards; /* that the pass and the update are made in (shards.h), by the loop's ranks if
                       there are several; then no summaries. 0: 1 */
    const et_loop_measure *metrics; /* [metric_count] of the pass, collected after each step */
    int metric_count;
    const char *const *summaries; /* [summary_count]: outputs of the pass that are one number;
                                     added as summaries where the loop has a writer */
    int summary_count;
    const et_bound_value *bound_values; /* [bound_value_count], copied: before each step */
    int bound_value_count;
} et_loop_trainer_options;

/* ET_ECONFIG: a loop without max_epoch and max_step; neither step nor pass and optimizer; a measure
 * or variable that there is not; a loop that has begun and saves, without the optimizer. */
ET_API int et_loop_trainer_open(et_loop_trainer **out, et_loop *loop,
                                const et_loop_trainer_options *options, et_error *error);
/* Before its loop is. NULL allowed. */
ET_API void et_loop_trainer_close(et_loop_trainer *trainer);

/* Prints the training summary, and runs all epochs that are left: between begin and end of the
 * loop. The first failure, of the loop too, which keeps it. ET_EUSAGE: it runs already. */
ET_API int et_loop_trainer_run(et_loop_trainer *trainer, et_error *error);

ET_API et_event_source *et_loop_trainer_events(et_loop_trainer *trainer);

/* ---- hooks ---- */

/* How often, by the loop's counters, which a resumed run goes on with: where epoch or step is a
 * multiple. Exactly one is positive, and the other 0; else ET_ECONFIG. */
typedef struct et_every {
    int64_t epochs, steps;
} et_every;

#define ET_EVERY_EPOCHS(n) ((et_every){ .epochs = (n) })
#define ET_EVERY_STEPS(n)  ((et_every){ .steps = (n) })

enum { ET_HOOK_EVALUATION, ET_HOOK_ANNEALING, ET_HOOK_LOGGING, ET_HOOK_KINDS };

/* What is borrowed here outlives the trainer. Hooks of a kind run in the order of adding. */
ET_API int et_loop_trainer_log_after(et_loop_trainer *trainer, et_every every, et_error *error);
ET_API int et_loop_trainer_evaluate_after(et_loop_trainer *trainer, et_loop_evaluator *evaluator,
                                          et_every every, et_error *error);
ET_API int et_loop_trainer_anneal_after(et_loop_trainer *trainer, et_annealing_variable *variable,
                                        et_every every, et_error *error);

/* A function of the program's, of a kind: ET_HOOK_*. */
typedef int et_hook_fn(void *payload, et_error *error);
ET_API int et_loop_trainer_call_after(et_loop_trainer *trainer, int kind, et_hook_fn *hook,
                                      void *payload, et_every every, et_error *error);

/* Takes off all hooks of a kind, in a hook too; how many. What the program hung on events itself
 * stays (TFSnippet takes that off as well). */
ET_API int et_loop_trainer_remove_hooks(et_loop_trainer *trainer, int kind);

#endif
