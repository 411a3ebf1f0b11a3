/* The outer loop, call by call: what Orbit's Controller does. A controller that was opened with
 * these options trains, evaluates, saves and restores when it is told:
 *
 *     et_outer_loop_options outer = { 0 };
 *     et_controller_options options = { .trainer = &gan.trainer, .evaluator = &judge.evaluator,
 *                                       .run.model_dir = "runs/gan", .outer_loop = &outer,
 *                                       .steps_per_loop = 100, .checkpoint_interval = 1000 };
 *     if (et_controller_open(&controller, &options, &error) ||
 *         et_controller_train_and_evaluate(controller, 20000, -1, 5000, logs, &error)) ...
 *     et_controller_close(controller, &error);
 *
 * An inner loop is steps_per_loop steps, which only the end of a call or an evaluation cuts short.
 * After it: a log of its values, train actions on them, evaluation if it is due with its actions,
 * the program's own, and a save if one was due since the loop began. So a run that is killed and
 * started again with the same calls does what an unbroken one would have done; inner loops,
 * evaluations (at multiples of eval_interval) and saves are where they would have been.
 *
 * Unlike Orbit's: a save stands at each multiple of checkpoint_interval and not that many steps
 * behind the last one; a request to save always saves, whatever the interval, and evaluated weights
 * are on disk; a step that does not advance as told is an error; no checkpoint is skipped; rates
 * leave evaluations out and stand under "time"; actions cannot change values. With summary_interval
 * a trainer's own summaries are wanted (et_trainer_records); 0: never.
 *
 * Without run.model_dir nothing is kept. Without a trainer nothing is written in it, and no lock is
 * taken: it is where checkpoints come from. A run's observer is told a line for each call. */
#ifndef ETUDE_OUTER_LOOP_H
#define ETUDE_OUTER_LOOP_H

#include <etude/controller.h>
#include <etude/params.h>

typedef struct et_outer_loop_options {
    /* In place of steps_per_loop: how many steps the loop that begins after `step` has, at least 1.
     * A function of the step alone. NULL: the constant. */
    int64_t (*steps_per_loop)(void *payload, int64_t step);
    void *payload;
    et_action *const *train_actions; /* after each inner loop */
    et_action *const *eval_actions;  /* after each evaluation */
    int train_action_count, eval_action_count;
    /* Where values go, top level, instead of the run's own files; flushed, never closed. NULL: to
     * those, in "train" and the evaluator's name; of evaluations, to `summaries` before that. */
    et_sink *summaries, *eval_summaries;
    et_params *weights; /* without a trainer: what a restore fills; materialized */
    bool live_weights;  /* of these: not the averages of a checkpoint that has them */
} et_outer_loop_options;

/* Inner loops until the step is `steps`, in all, or an action says stop, which ends this call and
 * no later one; then a save, unless save_nothing, which leaves it to checkpoint_interval. At
 * `steps` or past it already: only what is not saved is. ET_EINTERRUPTED: asked to stop; saved. */
ET_API int et_controller_train_to(et_controller *controller, int64_t steps, bool save_nothing,
                                  et_error *error);

/* Evaluates what is there now, eval_steps steps or, -1, all data; 0 is an error. Adds the values to
 * logs, under "time" the rate. Without a trainer the newest checkpoint is restored before the first
 * time; ET_ENOTFOUND: there is none. */
ET_API int et_controller_evaluate(et_controller *controller, int64_t eval_steps, et_value *logs,
                                  et_error *error);

/* Trains to train_steps; evaluates and saves at each multiple of eval_interval (0: none) and at the
 * end. logs: the last evaluation's values; nothing if the step was train_steps already. */
ET_API int et_controller_train_and_evaluate(et_controller *controller, int64_t train_steps,
                                            int64_t eval_steps, int64_t eval_interval,
                                            et_value *logs, et_error *error);

/* Without a trainer: evaluates each checkpoint of model_dir, from the oldest that is there, in
 * order, as another process saves them. Ends right after that of step train_steps (of the options;
 * 0: none is the last), or when an evaluation action says stop, or when done says so, which is
 * asked after each evaluation and each time that nothing has come for timeout seconds (negative:
 * waits for ever); done NULL: such a wait ends it. logs: of the last evaluation. Of several ranks
 * (et_run_options.comm) rank 0 looks for checkpoints, and its done alone is asked. */
typedef bool et_done_fn(void *payload, int64_t step);
ET_API int et_controller_evaluate_continuously(et_controller *controller, int64_t eval_steps,
                                               double timeout, et_done_fn *done, void *payload,
                                               et_value *logs, et_error *error);

/* Saves the step it is at, and waits until that is durable. */
ET_API int et_controller_save(et_controller *controller, et_error *error);

/* The state of a file, or path NULL the newest checkpoint; *step becomes its step. Where there is
 * none it is -1 and a trainer starts anew, as when it was opened. Logs go on where they are. */
ET_API int et_controller_restore(et_controller *controller, const char *path, int64_t *step,
                                 et_error *error);

ET_API int64_t et_controller_step(const et_controller *controller); /* the global step */

/* How many steps an inner loop that begins now has. */
ET_API int64_t et_controller_steps_per_loop(const et_controller *controller);

#endif
