/* A trainer of a loop (as TFSnippet's Trainer): runs the epochs and steps of <etude/loop.h> and
 * calls hooks every few epochs or steps.
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
 *     et_event_hub_on(et_loop_trainer_events(trainer), ET_EVENT_EPOCH_LOGGING, ring, bell,
 *                        &error);
 *     et_loop_begin(loop, &error);
 *     et_loop_trainer_run(trainer, &error);
 *     et_loop_end(loop, &error);
 *     et_loop_trainer_remove_hooks(trainer, ET_HOOK_LOGGING);
 *
 * Events of a trainer, in order: BEFORE_EXECUTION. For each epoch BEFORE_EPOCH; for each step
 * BEFORE_STEP, the step, STEP_EVALUATION, STEP_ANNEALING, STEP_LOGGING, AFTER_STEP. Then
 * EPOCH_EVALUATION, EPOCH_ANNEALING, EPOCH_LOGGING, AFTER_EPOCH. At the end AFTER_EXECUTION, if
 * nothing failed. Events AFTER_... call handlers in reverse order. The loop's own events come
 * before and after these. Handlers get the trainer as `what`. A run that resumes within an epoch
 * does not fire BEFORE_EPOCH again. Use from one thread. */
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
    et_source *source;       /* borrowed, as all members up to payload. NULL: steps without data, up
                                to the loop's max_step */
    et_pass *pass;           /* each step runs it on the step's batch, with seed and the step's
                                number */
    et_optimizer *optimizer; /* updates after pass. The loop's checkpoints contain it, as
                                "optimizer" if it was not added under another name, so it must
                                outlive the loop's end */
    /* Instead of pass and optimizer. If step runs a pass that is given too, its metrics are
     * collected. */
    int (*step)(void *payload, et_loop *loop, et_error *error);
    void *payload;
    uint64_t seed;  /* seed of dropout and sampling */
    int64_t shards; /* shards of the pass and the update (shards.h), computed by the ranks of the
                       loop; with several, no summaries. 0: 1 */
    const et_loop_measure *metrics; /* [metric_count] of the pass, collected after each step */
    int metric_count;
    const char *const *summaries; /* [summary_count]: outputs of the pass that are one number; added
                                     as summaries if the loop has a writer */
    int summary_count;
    const char *const *histograms; /* [histogram_count]: outputs of the pass, in float32, or
                                      parameters and variables of the loop's store after the
                                      update; added as histograms if the loop has a writer, which
                                      must have event files (summary_message.h) */
    int histogram_count;
    const et_bound_value *bound_values; /* [bound_value_count], copied: set before each step */
    int bound_value_count;
} et_loop_trainer_options;

/* ET_ECONFIG: the loop has neither max_epoch nor max_step; neither step nor pass and optimizer; no
 * such measure, variable or histogram; the loop saves, has begun, and does not have the optimizer.
 */
ET_API int et_loop_trainer_open(et_loop_trainer **out, et_loop *loop,
                                const et_loop_trainer_options *options, et_error *error);
/* Close the trainer before its loop. NULL allowed. */
ET_API void et_loop_trainer_close(et_loop_trainer *trainer);

/* Prints the training summary and runs all remaining epochs. Call between begin and end of the
 * loop. Returns the first failure; if it is a failure of the loop, the loop keeps it too.
 * ET_EUSAGE: already running. */
ET_API int et_loop_trainer_run(et_loop_trainer *trainer, et_error *error);

ET_API et_event_hub *et_loop_trainer_events(et_loop_trainer *trainer);

/* ---- hooks ---- */

/* Interval of a hook. The hook runs if the loop's epoch or step, which continue in a resumed run,
 * is a multiple. Set exactly one > 0 and the other 0, else ET_ECONFIG. */
typedef struct et_every {
    int64_t epochs, steps;
} et_every;

#define ET_EVERY_EPOCHS(n) ((et_every){ .epochs = (n) })
#define ET_EVERY_STEPS(n)  ((et_every){ .steps = (n) })

enum { ET_HOOK_EVALUATION, ET_HOOK_ANNEALING, ET_HOOK_LOGGING, ET_HOOK_KINDS };

/* Borrowed arguments must outlive the trainer. Hooks of a kind run in the order of adding. */
ET_API int et_loop_trainer_log_after(et_loop_trainer *trainer, et_every every, et_error *error);
ET_API int et_loop_trainer_evaluate_after(et_loop_trainer *trainer, et_loop_evaluator *evaluator,
                                          et_every every, et_error *error);
ET_API int et_loop_trainer_anneal_after(et_loop_trainer *trainer, et_annealing_variable *variable,
                                        et_every every, et_error *error);

/* A function of the program; kind: ET_HOOK_*. */
typedef int et_hook_fn(void *payload, et_error *error);
ET_API int et_loop_trainer_call_after(et_loop_trainer *trainer, int kind, et_hook_fn *hook,
                                      void *payload, et_every every, et_error *error);

/* Removes all hooks of a kind and returns their number; hooks may call it too. Handlers that the
 * program added to events stay (TFSnippet removes them as well). */
ET_API int et_loop_trainer_remove_hooks(et_loop_trainer *trainer, int kind);

#endif
