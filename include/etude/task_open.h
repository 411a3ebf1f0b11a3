/* Opening a task of a kind in a program, with the settings of the command: Model Garden's
 * experiment configuration and its TranslationTask. The task then has a trainer (task_trainer.h)
 * and a controller (controller.h) like every task:
 *
 *     et_task_context context = { .model_dir = "runs/help" };
 *     et_controller_options options;
 *     if (et_device_open(&context.device, &error) || et_params_new(&context.params, &error) ||
 *         et_task_open(&task, &et_translation_kind, "translation/tiny",
 *                      "task.train_data.source_path=train.en,task.train_data.target_path=train.de",
 *                      &context, &error) ||
 *         et_task_trainer_open(&trainer, task, context.device, context.params,
 *                              et_task_trainer_config(task), &error) ||
 *         et_task_controller_config(task, trainer, &options, &error) ||
 *         et_controller_open(&controller, &options, &error) ||
 *         et_controller_train(controller, &error)) ...
 *     et_task_close(task);
 *
 * Fine-tuning begins with the weights of another run:
 *
 *     if (et_task_open_from(&task, &et_translation_kind, "runs/help", NULL,
 *                           "task.train_data.source_path=own.en,"
 *                           "task.train_data.target_path=own.de", &context, &error)) ...
 *
 * The controller saves a run with the same bytes as `etude train` with the same settings.
 * et_translator_open, `etude translate` and `etude evaluate` read the run, and opening the run
 * again resumes it. Settings that may not change in a run are refused if their value changed. One
 * thread.
 */
#ifndef ETUDE_TASK_OPEN_H
#define ETUDE_TASK_OPEN_H

#include <etude/controller.h>
#include <etude/experiment.h>
#include <etude/task_trainer.h>

/* experiment: name of one of the kind's experiments (`etude list` prints such names); NULL: the
 * first. settings: changes to its settings, as after --set of the command:
 * "task.train_data.limit=1000", or YAML as in a file; NULL: none. context: model_dir (made if
 * missing; gets params.yaml), params (empty) and device are required; members that are also
 * settings are ignored: seed, bfloat16, prefetch, data_shards, validation_interval, best_metric,
 * identity. The struct is copied; the objects that it points to must outlive the task. With
 * context->comm all ranks make the call. In a new run, the recipe of an experiment
 * (translation/auto) chooses settings by the data and the length of the run, and also the length if
 * you do not set it. ET_ECONFIG: a wrong setting; a directory with another run. */
ET_API int et_task_open(et_task **out, const et_task_kind *kind, const char *experiment,
                        const char *settings, const et_task_context *context, et_error *error);

/* Fine-tuning, as --init of the command: the same with the weights of init, a run (its best
 * checkpoint) or a file, and the files that belong to the weights. experiment NULL: the settings of
 * the run init; if that run is finished, the kind's recipe of fine-tuning replaces some of them.
 * init NULL: as et_task_open. ET_ENOTFOUND: init does not exist, or has no checkpoint. ET_ECONFIG:
 * init is of another kind. ET_EUSAGE: init is a file of weights, and experiment is NULL. */
ET_API int et_task_open_from(et_task **out, const et_task_kind *kind, const char *init,
                             const char *experiment, const char *settings,
                             const et_task_context *context, et_error *error);
/* Closes a task of et_task_open, after its trainer; nothing else. NULL allowed. */
ET_API void et_task_close(et_task *task);

/* The options of a trainer from `trainer` and `runtime` of the settings. Borrowed. NULL: the task
 * is not of et_task_open. */
ET_API const et_task_trainer_options *et_task_trainer_config(const et_task *task);

/* Fills options for a controller from these settings: steps, intervals, best metric, identity of
 * checkpoints. You may change options before et_controller_open. ET_EUSAGE: the trainer
 * is not the task's, or the task is not of et_task_open. */
ET_API int et_task_controller_config(const et_task *task, et_task_trainer *trainer,
                                     et_controller_options *options, et_error *error);

#endif
