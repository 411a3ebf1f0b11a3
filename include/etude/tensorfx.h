/* TensorFX's training package (tensorfx.training): arguments, builders, configuration, trainer.
 * This header includes the parts and says where each documented member is. A training job of CSV
 * files: arguments, data, a builder of graphs, a trainer that is configured by TF_CONFIG:
 *
 *     #include <stdio.h>
 *
 *     #include <etude/tensorfx.h>
 *
 *     int main(void)
 *     {
 *         const et_table_set_path paths[] = { { "train", "train.csv" }, { "eval", "eval.csv" } };
 *         const et_table_set_options files = { .schema_path = "schema.yaml",
 *                                              .metadata_path = "metadata.json",
 *                                              .features_path = "features.yaml" };
 *         const et_training_job job_args = { .output = "jobs/iris" };
 *         const char *const row[] = { "5.1,3.5,1.4,0.2" };
 *         const et_arguments_class *kind = &et_feed_forward_arguments_class;
 *         char *help = NULL;
 *         et_error error = ET_ERROR_INIT;
 *         et_arguments *args = NULL;
 *         et_table_set *dataset = NULL;
 *         et_model_builder builder = { 0 };
 *         et_model_trainer *trainer = NULL;
 *         et_predictor *model = NULL;
 *         et_predictions *found = NULL;
 *         if (et_arguments_parse(&args, kind, NULL, true, &error) ||
 *             (args->help && (et_arguments_help(kind, &help, &error), true)) ||
 *             et_csv_table_set_open(&dataset, paths, 2, NULL, &files, &error) ||
 *             et_model_builder_init(&builder, &et_feed_forward_builder, args, dataset, &error) ||
 *             et_model_trainer_new(&trainer, NULL, &error) ||
 *             et_model_trainer_train(trainer, &builder, &job_args, &model, &error) ||
 *             (model && et_predictor_predict(model, row, 1, &found, &error)))
 *             fprintf(stderr, "%s\n", help ? help : error.text);
 *         else if (found)
 *             printf("%s\n", et_predictions_at(found, 0).label);
 *         et_predictions_free(found);
 *         et_predictor_close(model);
 *         et_model_trainer_free(trainer);
 *         et_model_builder_release(&builder);
 *         et_table_set_close(dataset);
 *         et_arguments_free_text(help);
 *         et_arguments_free(args);
 *         return error.status != 0;
 *     }
 *
 * `etude data analyze train.csv --target species --output .` writes the three files that describe
 * the table. A builder with a network of its own: model_builder.h. doc/tensorfx.md shows the
 * documentation's lines beside these. The next comment lists the members, in the documentation's
 * order, each with its counterpart and, in brackets, its header; doc/reference/members.md says
 * what differs. */
#ifndef ETUDE_TENSORFX_H
#define ETUDE_TENSORFX_H

#include <etude/arguments.h>
#include <etude/job_config.h>
#include <etude/layers.h>
#include <etude/log.h>
#include <etude/model_builder.h>
#include <etude/model_trainer.h>
#include <etude/predictor.h>
#include <etude/table_set.h>

/* ---- class ModelArguments: et_arguments, et_arguments_class, et_model_arguments ----
 *
 * Arguments [arguments.h]
 *   kwargs                             et_arguments_create
 *
 * Members [arguments.h]
 *   build_parser()                     et_arguments_build_parser, et_arguments_init_parser
 *   default()                          et_arguments_default
 *   parse(args, parse_job)             et_arguments_parse, et_arguments.output
 *   process()                          et_arguments_process, et_arguments_class.process
 *
 * ---- class ModelBuilder: et_model_builder, et_model_builder_class, et_model_builder_base ----
 *
 * Arguments [model_builder.h]
 *   args                               et_model_builder_init
 *   dataset                            et_model_builder_init
 *
 * Members [model_builder.h]; each build function has a method of its name in the class
 *   args                               et_model_builder_args
 *   build_evaluation(inputs, outputs)  et_model_builder_build_evaluation
 *   build_evaluation_graph()           et_model_builder_build_evaluation_graph
 *   build_graph_interfaces(config)     et_model_builder_build_graph_interfaces, et_graph_interfaces
 *   build_inference(inputs, training)  et_model_builder_build_inference
 *   build_init()                       et_model_builder_build_init, et_builder_init
 *   build_input(source, batch, epochs, shuffle)
 *                                      et_model_builder_build_input, et_builder_input
 *   build_output(inferences)           et_model_builder_build_output
 *   build_prediction_graph()           et_model_builder_build_prediction_graph
 *   build_training(global_steps, inputs, inferences)
 *                                      et_model_builder_build_training, et_builder_training,
 *                                      et_graph_interface.global_steps
 *   build_training_graph()             et_model_builder_build_training_graph, et_graph_interface
 *   dataset                            et_model_builder_dataset
 *
 * ---- class Configuration: et_job_config ----
 *
 * Arguments [job_config.h]
 *   task                               et_job_config_new
 *   cluster                            et_job_config_new
 *   job                                et_job_config_new
 *   env                                et_job_config_new, et_job_config_env
 *
 * Members [job_config.h]
 *   cluster                            et_job_config_cluster
 *   create_device_setter(args)         et_job_config_create_device_setter,
 *                                      et_device_setter_variable, et_device_setter_op
 *   create_server()                    et_job_config_create_server, et_job_server
 *   device                             et_job_config_device
 *   distributed                        et_job_config_distributed
 *   environment()                      et_job_config_environment
 *   job                                et_job_config_job
 *   local()                            et_job_config_local
 *   master                             et_job_config_master
 *   param_server                       et_job_config_param_server
 *   task                               et_job_config_task
 *   worker                             et_job_config_worker
 *
 * ---- class ModelTrainer: et_model_trainer, et_model_trainer_new ----
 *
 * Arguments [model_trainer.h]
 *   config                             et_model_trainer_new
 *
 * Members [model_trainer.h]
 *   config                             et_model_trainer_config
 *   train(model_builder, job_args)     et_model_trainer_train, et_training_job.output,
 *                                      et_training_job.inputs */

#endif
