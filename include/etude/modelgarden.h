/* Model Garden's Trainer (tfm.core.base_trainer) and TranslationTask (tfm.nlp.tasks). This header
 * includes the parts and says where each documented member is. A task with its settings, its
 * trainer, and the controller that calls the trainer's members:
 *
 *     #include <stdio.h>
 *
 *     #include <etude/modelgarden.h>
 *
 *     static int train(const char *model_dir, const char *params, et_error *error)
 *     {
 *         et_task_context context = { .model_dir = model_dir };
 *         et_controller_options options;
 *         et_task *task = NULL;
 *         et_task_trainer *trainer = NULL;
 *         et_controller *controller = NULL;
 *         int status = et_device_open(&context.device, error) ||
 *                      et_params_new(&context.params, error) ||
 *                      et_task_open(&task, &et_translation_kind, "translation/tiny", params,
 *                                   &context, error) ||
 *                      et_task_trainer_open(&trainer, task, context.device, context.params,
 *                                           et_task_trainer_config(task), error) ||
 *                      et_task_controller_config(task, trainer, &options, error) ||
 *                      et_controller_open(&controller, &options, error) ||
 *                      et_controller_train(controller, error);
 *         status = et_controller_close(controller, status ? NULL : error) || status;
 *         et_task_trainer_close(trainer);
 *         et_task_close(task);
 *         et_params_free(context.params);
 *         et_device_close(context.device);
 *         return status;
 *     }
 *
 * The rest of the program trains on four files of lines and translates with the run:
 *
 *     int main(void)
 *     {
 *         const char params[] = "task.train_data.source_path=train.en,"
 *                               "task.train_data.target_path=train.de,"
 *                               "task.validation_data.source_path=valid.en,"
 *                               "task.validation_data.target_path=valid.de,"
 *                               "trainer.train_steps=2000,trainer.validation_interval=500";
 *         const char *const lines[] = { "red dog" };
 *         char *translated[1] = { NULL };
 *         et_error error = ET_ERROR_INIT;
 *         et_translator *translator = NULL;
 *         et_log_to_stderr();
 *         if (train("runs/help", params, &error) ||
 *             et_translator_open(&translator, "runs/help", NULL, &error) ||
 *             et_translator_translate(translator, lines, 1, translated, &error))
 *             fprintf(stderr, "%s\n", error.text);
 *         else
 *             printf("%s\n", translated[0]);
 *         et_translator_free_results(translated, 1);
 *         et_translator_close(translator);
 *         return error.status != 0;
 *     }
 *
 * doc/modelgarden.md shows the documentation's lines beside these. The next comment lists the
 * members, in the documentation's order, each with its counterpart and, in brackets, its header;
 * doc/reference/members.md says what differs. */
#ifndef ETUDE_MODELGARDEN_H
#define ETUDE_MODELGARDEN_H

#include <etude/controller.h>
#include <etude/coordinator.h>
#include <etude/experiment.h>
#include <etude/hypotheses.h>
#include <etude/layers.h>
#include <etude/log.h>
#include <etude/metrics.h>
#include <etude/multitask.h>
#include <etude/optimizer.h>
#include <etude/privacy.h>
#include <etude/ready_actions.h>
#include <etude/task.h>
#include <etude/task_open.h>
#include <etude/task_step.h>
#include <etude/task_trainer.h>
#include <etude/translator.h>

/* ---- class Trainer: et_task_trainer, et_task_trainer_open ----
 *
 * Arguments [task_trainer.h, task_open.h]
 *   config                               et_task_trainer_options, et_task_trainer_config
 *   task                                 et_task_trainer_open
 *   model                                et_task_trainer_open
 *   optimizer                            et_task_trainer_options.optimizer,
 *                                        et_task_trainer_options.optimization
 *   train                                et_task_trainer_options.use
 *   evaluate                             et_task_trainer_options.use
 *   train_dataset                        et_task_trainer_given.train_dataset
 *   validation_dataset                   et_task_trainer_given.validation_dataset
 *   checkpoint_exporter                  et_task_trainer_given.checkpoint_exporter
 *
 * Methods [task_trainer.h, coordinator.h]
 *   coordinator_for_async()              et_task_trainer_coordinator_for_async, et_coordinator
 *   create_eval_loop_fn(has_state)       et_task_trainer_create_eval_loop_fn
 *   create_train_loop_fn()               et_task_trainer_create_train_loop_fn
 *   distribute_dataset(dataset_or_fn, args, kwargs)
 *                                        et_task_trainer_distribute_dataset,
 *                                        et_task_trainer_distribute_source
 *   eval_begin()                         et_task_trainer_eval_begin,
 *                                        et_task_trainer_given.eval_begin
 *   eval_end(aggregated_logs)            et_task_trainer_eval_end,
 *                                        et_task_trainer_given.eval_end
 *   eval_reduce(state, step_outputs)     et_task_trainer_eval_reduce,
 *                                        et_task_trainer_given.eval_reduce
 *   eval_step(iterator)                  et_task_trainer_eval_step
 *   evaluate(num_steps)                  et_task_trainer_evaluate
 *   init_async()                         et_task_trainer_init_async, et_task_trainer_use_server
 *   initialize()                         et_task_trainer_initialize
 *   join()                               et_task_trainer_join
 *   next_eval_inputs(iterator)           et_task_trainer_next_eval_inputs,
 *                                        et_task_trainer_given.next_eval_inputs
 *   next_train_inputs(iterator)          et_task_trainer_next_train_inputs,
 *                                        et_task_trainer_given.next_train_inputs
 *   train(num_steps)                     et_task_trainer_train
 *   train_loop_begin()                   et_task_trainer_train_loop_begin,
 *                                        et_task_trainer_given.train_loop_begin
 *   train_loop_end()                     et_task_trainer_train_loop_end,
 *                                        et_task_trainer_given.train_loop_end
 *   train_step(iterator)                 et_task_trainer_train_step
 *
 * ---- class TranslationTask: et_translation_kind, et_task_class ----
 *
 * Arguments [task_open.h, experiment.h, task.h]
 *   params                               et_task_open, et_translation_kind, et_task.task_config
 *   logging_dir                          et_task_context.model_dir
 *   name                                 et_task.name, et_task_name
 *
 * Attributes [task.h]
 *   logging_dir                          et_task.logging_dir
 *   task_config                          et_task.task_config
 *
 * Methods [task.h, task_step.h]; each has a method of its name in et_task_class
 *   aggregate_logs(state, step_outputs)  et_task_aggregate_logs
 *   build_inputs(params, input_context)  et_task_build_inputs, et_data_config.settings,
 *                                        et_data_config.training, et_input_context
 *   build_losses(labels, model_outputs, aux_losses)
 *                                        et_task_build_losses, et_nodes_put, et_vocabulary_loss
 *   build_metrics(training)              et_task_build_metrics
 *   build_model()                        et_task_build_model
 *   create_optimizer(optimizer_config, runtime_config, dp_config)
 *                                        et_task_create_optimizer, et_optimizer_request.setup,
 *                                        et_optimizer_request.bfloat16,
 *                                        et_task_trainer_options.dp_config
 *   inference_step(inputs, model)        et_task_inference_step, et_task_step.inputs,
 *                                        et_task_step.model, et_translator_search
 *   initialize(model)                    et_task_initialize, et_checkpoint_initialize
 *   process_compiled_metrics(compiled_metrics, labels, model_outputs)
 *                                        et_task_process_compiled_metrics,
 *                                        et_task_step.compiled_metrics, et_task_step.labels,
 *                                        et_task_step.outputs
 *   process_metrics(metrics, labels, model_outputs, kwargs)
 *                                        et_task_process_metrics, et_task_step,
 *                                        et_task_step.metrics, et_task_step.labels,
 *                                        et_task_step.outputs
 *   reduce_aggregated_logs(aggregated_logs, global_step)
 *                                        et_task_reduce_aggregated_logs
 *   train_step(inputs, model, optimizer, metrics)
 *                                        et_task_train_step, et_task_step.inputs,
 *                                        et_task_step.model, et_task_step.optimizer,
 *                                        et_task_step.metrics
 *   validation_step(inputs, model, metrics)
 *                                        et_task_validation_step, et_task_step.inputs,
 *                                        et_task_step.model, et_task_step.metrics
 *
 * Class variables [task.h]
 *   loss                                 et_task_class.loss, et_task_loss */

#endif
