/* The outer loop, call by call, as Orbit's Controller. A controller with these options trains,
 * evaluates, saves and restores when you call it:
 *
 *     et_outer_loop_options outer = { 0 };
 *     et_controller_options options = { .trainer = &gan.trainer, .evaluator = &judge.evaluator,
 *                                       .run.model_dir = "runs/gan", .outer_loop = &outer,
 *                                       .steps_per_loop = 100, .checkpoint_interval = 1000 };
 *     if (et_controller_open(&controller, &options, &error) ||
 *         et_controller_train_and_evaluate(controller, 20000, -1, 5000, logs, &error)) ...
 *     et_controller_close(controller, &error);
 *
 * An inner loop has steps_per_loop steps; only the end of a call or an evaluation shortens it.
 * After an inner loop the controller logs its values, runs train actions, evaluates with eval
 * actions if due, runs the program's own actions, and saves if a save was due. A run that is killed
 * and restarted with the same calls has the same inner loops, evaluations (at multiples of
 * eval_interval) and saves as an uninterrupted run.
 *
 * Differences from Orbit: a save happens at each multiple of checkpoint_interval, not that many
 * steps after the last save; a request to save always saves; evaluated weights are on disk; a step
 * that does not advance as required is an error; no checkpoint is skipped; rates exclude
 * evaluations and are logged under "time"; actions cannot change values. summary_interval also sets
 * how often a trainer writes its own summaries (et_trainer_records); 0: never.
 *
 * Without run.model_dir nothing is saved. Without a trainer the controller only reads checkpoints
 * from run.model_dir: it writes nothing and takes no lock. A run's observer gets a line for each
 * call. */
#ifndef ETUDE_OUTER_LOOP_H
#define ETUDE_OUTER_LOOP_H

#include <etude/controller.h>
#include <etude/params.h>

typedef struct et_outer_loop_options {
    /* Instead of steps_per_loop: number of steps (>= 1) of the loop that begins after `step`. Must
     * depend only on the step. NULL: the constant. */
    int64_t (*steps_per_loop)(void *payload, int64_t step);
    void *payload;
    et_action *const *train_actions; /* after each inner loop */
    et_action *const *eval_actions;  /* after each evaluation */
    int train_action_count, eval_action_count;
    /* Sinks for values, at the top level, instead of the run's own files; flushed, never closed.
     * NULL: the run's files, in "train" and the evaluator's name; eval_summaries NULL: `summaries`
     * if set. */
    et_sink *summaries, *eval_summaries;
    et_params *weights; /* without a trainer: a restore fills this materialized store */
    bool live_weights;  /* restore the trained weights, not the averages */
} et_outer_loop_options;

/* Runs inner loops until step `steps` (counted from the start of the run) or until an action stops
 * this call. Then saves, unless save_nothing. If the run is already at `steps` or later, the call
 * only saves unsaved steps. ET_EINTERRUPTED: asked to stop; saved. */
ET_API int et_controller_train_to(et_controller *controller, int64_t steps, bool save_nothing,
                                  et_error *error);

/* Evaluates the current weights on eval_steps steps, -1: all data, 0: error. Adds the values to
 * logs, and "steps_per_second" unless eval_steps is -1. Without a trainer, the first call restores
 * the newest checkpoint; ET_ENOTFOUND: no checkpoint. */
ET_API int et_controller_evaluate(et_controller *controller, int64_t eval_steps, et_value *logs,
                                  et_error *error);

/* Trains to train_steps; evaluates and saves at each multiple of eval_interval (0: none) and at the
 * end. logs: values of the last evaluation; unchanged if the run had reached train_steps before the
 * call. */
ET_API int et_controller_train_and_evaluate(et_controller *controller, int64_t train_steps,
                                            int64_t eval_steps, int64_t eval_interval,
                                            et_value *logs, et_error *error);

/* For a controller without a trainer: evaluates each checkpoint of model_dir in order, from the
 * oldest existing one, while another process saves them. Ends after the checkpoint of step
 * train_steps of the options (0: no last step), if an evaluation action asks to stop, or if done
 * returns true. done is called after each evaluation and after each timeout: timeout seconds
 * without a new checkpoint (negative: no timeout). done NULL: ends after the first timeout. logs:
 * values of the last evaluation. With several ranks (et_run_options.comm), rank 0 looks for
 * checkpoints and calls its done. */
typedef bool et_done_fn(void *payload, int64_t step);
ET_API int et_controller_evaluate_continuously(et_controller *controller, int64_t eval_steps,
                                               double timeout, et_done_fn *done, void *payload,
                                               et_value *logs, et_error *error);

/* Saves the current step, and waits until the checkpoint is durable. */
ET_API int et_controller_save(et_controller *controller, et_error *error);

/* Restores the state of a file, or with path NULL of the newest checkpoint; *step becomes its step.
 * If there is none, *step becomes -1 and the trainer starts anew, at its step when
 * the controller was opened. Logs continue where they are. */
ET_API int et_controller_restore(et_controller *controller, const char *path, int64_t *step,
                                 et_error *error);

ET_API int64_t et_controller_step(const et_controller *controller); /* the global step */

/* Number of steps of an inner loop that begins now. */
ET_API int64_t et_controller_steps_per_loop(const et_controller *controller);

#endif
