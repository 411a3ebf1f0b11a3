/* TFSnippet's TrainLoop. This header includes the parts and says where each documented member is.
 * The example of the documentation in C; `loss` computes loss and gradients, `train_op` updates:
 *
 *     #include <stdio.h>
 *
 *     #include <etude/tfsnippet.h>
 *
 *     static int train(et_params *param_vars, et_pass *loss, et_optimizer *train_op,
 *                      et_source *train_flow, et_pass *valid, et_batch *test, et_error *error)
 *     {
 *         et_loop_options options = { .max_epoch = 10, .early_stopping = true };
 *         et_loop *loop = NULL;
 *         if (et_loop_open(&loop, param_vars, &options, error) || et_loop_begin(loop, error)) {
 *             et_loop_close(loop);
 *             return error->status;
 *         }
 *         et_loop_print_training_summary(loop);
 *         while (et_loop_next_epoch(loop)) {
 *             while (et_loop_next_step(loop, train_flow)) {
 *                 uint64_t step = (uint64_t)et_loop_step(loop);
 *                 if (et_pass_run(loss, et_loop_step_data(loop), 1, step, error) ||
 *                     et_optimizer_update(train_op, loss, NULL, error))
 *                     et_loop_fail(loop, error);
 *                 et_loop_collect(loop, "loss", et_pass_loss(loss) / et_pass_divisor(loss));
 *             }
 *             et_loop_time_begin(loop, "valid_time");
 *             if (et_pass_run(valid, test, 0, 0, error))
 *                 et_loop_fail(loop, error);
 *             et_loop_time_end(loop, "valid_time");
 *             et_loop_collect(loop, "valid_loss", et_pass_loss(valid) / et_pass_divisor(valid));
 *             et_loop_print_logs(loop);
 *         }
 *         int status = et_loop_end(loop, error);
 *         et_loop_close(loop);
 *         return status;
 *     }
 *
 * The rest of the program makes what `train` is given, for points inside and outside of a disc:
 *
 *     static void build(et_scope *s, void *payload)
 *     {
 *         et_node *h = et_relu(et_dense(et_in(s, "hidden"), et_batch_input(s, "x"), 32));
 *         h = et_dense(et_in(s, "logits"), h, 2);
 *         et_loss(s, "loss", et_softmax_loss(h, et_batch_input(s, "y"), 0), 1);
 *         (void)payload;
 *     }
 *
 *     int main(void)
 *     {
 *         static float x[1000][2];
 *         static int y[1000];
 *         for (int i = 0; i < 1000; i++) {
 *             x[i][0] = (float)(i % 40) / 20 - 1;
 *             x[i][1] = (float)(i / 40) / 12 - 1;
 *             y[i] = x[i][0] * x[i][0] + x[i][1] * x[i][1] < 0.5f;
 *         }
 *         et_array arrays[] = { { "x", ET_F32, x, et_shape_1(2) },
 *                               { "y", ET_I32, y, et_shape_scalar() } };
 *         et_split_options split = { .portion = 0.2 };
 *         et_batches_options batches = { .shuffle = true, .repeat = true, .capacity = { 32 } };
 *         et_batches_options whole = { .capacity = { 200 } };
 *         et_pass_options training = { .training = true };
 *         et_error error = ET_ERROR_INIT;
 *         et_device *device = NULL;
 *         et_params *params = NULL;
 *         et_samples *trained = NULL, *held_out = NULL;
 *         et_source *flow = NULL, *test_flow = NULL;
 *         et_batch *test = NULL;
 *         et_pass *loss = NULL, *valid = NULL;
 *         et_optimizer *train_op = NULL;
 *         if (et_device_open(&device, &error) || et_params_new(&params, &error) ||
 *             et_split_open(&trained, &held_out, arrays, 2, 1000, &split, &error) ||
 *             et_batches_open(&flow, trained, &batches, &error) ||
 *             et_batches_open(&test_flow, held_out, &whole, &error) ||
 *             et_batch_new(&test, &test_flow->layout, &error) ||
 *             et_source_next(test_flow, test, &error) ||
 *             et_pass_open(&loss, device, params, &flow->layout, build, NULL, &training, &error) ||
 *             et_pass_open(&valid, device, params, test->layout, build, NULL, NULL, &error) ||
 *             et_params_materialize(params, false, &error) ||
 *             et_optimizer_open(&train_op, device, params, NULL, NULL, &error) ||
 *             (et_init_draw(params, 1), false) ||
 *             train(params, loss, train_op, flow, valid, test, &error))
 *             fprintf(stderr, "%s\n", error.text);
 *         et_optimizer_free(train_op);
 *         et_pass_close(loss);
 *         et_pass_close(valid);
 *         et_batch_free(test);
 *         et_source_close(flow);
 *         et_source_close(test_flow);
 *         et_params_free(params);
 *         et_device_close(device);
 *         return error.status != 0;
 *     }
 *
 * doc/tfsnippet.md shows the documentation's lines beside these. The next comment lists the
 * members, in the documentation's order, each with its counterpart and, in brackets, its header;
 * doc/reference/members.md says what differs. */
#ifndef ETUDE_TFSNIPPET_H
#define ETUDE_TFSNIPPET_H

#include <etude/annealing.h>
#include <etude/events.h>
#include <etude/flows.h>
#include <etude/layers.h>
#include <etude/log.h>
#include <etude/loop.h>
#include <etude/loop_evaluator.h>
#include <etude/loop_log.h>
#include <etude/loop_trainer.h>
#include <etude/optimizer.h>
#include <etude/summary_collector.h>
#include <etude/summary_message.h>

/* ---- class TrainLoop: et_loop, et_loop_open, et_loop_begin, et_loop_end, et_loop_close ----
 *
 * Arguments [loop.h, loop_log.h]
 *   param_vars                       et_loop_open, et_loop_options.group
 *   var_groups                       et_loop_options.var_groups
 *   show_eta                         et_loop_options.no_eta
 *   print_func                       et_loop_options.print
 *   max_epoch                        et_loop_options.max_epoch
 *   max_step                         et_loop_options.max_step
 *   metric_formatter                 et_loop_options.formatter, et_metric_formatter
 *   checkpoint_dir                   et_loop_options.checkpoint_dir
 *   checkpoint_epoch_freq            et_loop_options.checkpoint_epoch_freq
 *   checkpoint_max_to_keep           et_loop_options.checkpoint_max_to_keep
 *   checkpoint_save_objects          et_loop_add_object
 *   restore_checkpoint               et_loop_options.restore_checkpoint
 *   summary_dir                      et_loop_options.summary_dir
 *   summary_writer                   et_loop_options.summary_writer
 *   summary_graph                    et_loop_options.summary_pass, et_loop_options.summary_graph
 *   summary_metric_prefix            et_loop_options.summary_metric_prefix
 *   summary_skip_pattern             et_loop_options.summary_skip_pattern
 *   summary_commit_freqs             et_loop_options.summary_commit_freqs
 *   valid_metric_name                et_loop_options.valid_metric_name
 *   valid_metric_smaller_is_better   et_loop_options.valid_metric_better
 *   early_stopping                   et_loop_options.early_stopping
 *
 * Events [events.h]
 *   ENTER_LOOP                       ET_EVENT_ENTER_LOOP
 *   BEFORE_EPOCH                     ET_EVENT_BEFORE_EPOCH
 *   BEFORE_STEP                      ET_EVENT_BEFORE_STEP
 *   AFTER_STEP                       ET_EVENT_AFTER_STEP
 *   AFTER_EPOCH                      ET_EVENT_AFTER_EPOCH
 *   EXIT_LOOP                        ET_EVENT_EXIT_LOOP
 *   METRICS_COLLECTED                ET_EVENT_METRICS_COLLECTED
 *   SUMMARY_ADDED                    ET_EVENT_SUMMARY_ADDED
 *   METRIC_STATS_PRINTED             ET_EVENT_METRIC_STATS_PRINTED
 *   TIME_METRIC_STATS_PRINTED        ET_EVENT_TIME_METRIC_STATS_PRINTED
 *
 * Attributes [loop.h, loop_log.h]
 *   best_valid_metric                et_loop_best_valid_metric
 *   epoch                            et_loop_epoch
 *   events                           et_loop_events
 *   max_epoch                        et_loop_max_epoch, et_loop_set_max_epoch
 *   max_step                         et_loop_max_step, et_loop_set_max_step
 *   param_vars                       et_loop_param_vars
 *   step                             et_loop_step
 *   step_data                        et_loop_step_data
 *   summary_writer                   et_loop_summary_writer
 *   use_early_stopping               et_loop_use_early_stopping
 *   valid_metric_name                et_loop_valid_metric_name
 *   valid_metric_smaller_is_better   et_loop_valid_metric_smaller_is_better
 *   var_groups                       et_loop_var_groups
 *   within_epoch                     et_loop_within_epoch
 *   within_step                      et_loop_within_step
 *
 * Methods [loop.h, loop_log.h, summary_message.h]
 *   add_summary(summary)             et_loop_add_summary_bytes, et_loop_add_summary
 *   collect_metrics(metrics, kwargs) et_loop_collect_metrics, et_loop_metric, et_loop_collect
 *   get_eta()                        et_loop_eta
 *   get_progress()                   et_loop_progress
 *   iter_epochs()                    et_loop_next_epoch, et_loop_leave
 *   iter_steps(data_generator)       et_loop_next_step, et_loop_leave_steps
 *   make_checkpoint()                et_loop_make_checkpoint
 *   metric_collector(metric_name)    et_loop_collector_begin, et_loop_collector_end
 *   print_logs()                     et_loop_print_logs
 *   print_training_summary()         et_loop_print_training_summary
 *   println(message, with_tag)       et_loop_println
 *   timeit(metric_name)              et_loop_time_begin, et_loop_time_end */

#endif
