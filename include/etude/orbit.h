/* Orbit's AbstractTrainer, with the controller that calls it. This header includes the parts and
 * says where each documented member is. A subclass with the documented `train`, and its run:
 *
 *     #include <stdio.h>
 *
 *     #include <etude/orbit.h>
 *
 *     typedef struct my_trainer {
 *         et_trainer trainer; // the first member
 *         float w;
 *     } my_trainer;
 *
 *     static int train(et_trainer *self, int64_t num_steps, et_value *logs, et_error *error)
 *     {
 *         my_trainer *my = (my_trainer *)self;
 *         for (int64_t i = 0; i < num_steps; i++, self->step++)
 *             my->w -= 0.1f * (my->w - 3);
 *         if (!et_value_set_float(logs, "loss", (my->w - 3) * (my->w - 3)))
 *             return et_fail(error, ET_ENOMEM, "no memory for logs");
 *         return ET_OK;
 *     }
 *
 *     static int attach(et_trainer *self, et_state *state, et_error *error)
 *     {
 *         my_trainer *my = (my_trainer *)self;
 *         return et_state_add_tensor(state, "w", &my->w, et_shape_scalar(), error);
 *     }
 *
 *     int main(void)
 *     {
 *         const et_trainer_class my_class = {
 *             .name = "MyTrainer", .attach = attach, .train = train
 *         };
 *         my_trainer my = { .trainer = { .class = &my_class } };
 *         et_outer_loop_options outer_loop = { 0 };
 *         et_controller_options options = { .trainer = &my.trainer, .run.model_dir = "runs/my",
 *                                           .outer_loop = &outer_loop, .steps_per_loop = 10 };
 *         et_error error = ET_ERROR_INIT;
 *         et_controller *controller = NULL;
 *         if (et_controller_open(&controller, &options, &error) ||
 *             et_controller_train_to(controller, 50, false, &error))
 *             fprintf(stderr, "%s\n", error.text);
 *         et_controller_close(controller, NULL);
 *         printf("step %d: w = %.2f\n", (int)my.trainer.step, my.w);
 *         return error.status != 0;
 *     }
 *
 * Its logs are in runs/my/metrics.jsonl and as TensorBoard events; it resumes after a kill. The
 * documentation's modules:
 *
 *     #include <stdio.h>
 *
 *     #include <etude/orbit.h>
 *
 *     static void call(et_scope *s, void *payload)
 *     {
 *         et_init normal = { ET_INIT_NORMAL, 1 };
 *         et_node *w = et_param(s, "w", et_shape_2(2, 3), normal);
 *         et_node *y = et_matmul(et_batch_input(s, "x"), w, NULL, NULL);
 *         printf("%s\n", et_node_name(y));
 *         et_output(s, "y", y);
 *         (void)payload;
 *     }
 *
 *     static void build(et_scope *s, void *module)
 *     {
 *         et_module_with_name_scope(module, s, call, NULL);
 *     }
 *
 *     int main(void)
 *     {
 *         et_layout_field x = { .name = "x", .dtype = ET_F32, .item = et_shape_1(2) };
 *         et_layout layout = { .kinds = 1, .kind = { "row" }, .capacity = { 1 }, .fields = 1,
 *                              .field = &x };
 *         et_error error = ET_ERROR_INIT;
 *         et_module *mod = NULL, *b = NULL, *c = NULL, *const *submodules;
 *         const et_module_variable *variables;
 *         size_t count = 0, modules = 0;
 *         et_device *device = NULL;
 *         et_params *params = NULL;
 *         et_pass *pass = NULL;
 *         if (et_module_new(&mod, "MyModule", NULL, NULL, &error) ||
 *             et_module_new(&b, "Module", "b", NULL, &error) ||
 *             et_module_new(&c, "Module", "c", NULL, &error) ||
 *             et_module_add_module(mod, "b", b, &error) ||
 *             et_module_add_module(b, "c", c, &error) || et_device_open(&device, &error) ||
 *             et_params_new(&params, &error) ||
 *             et_pass_open(&pass, device, params, &layout, build, mod, NULL, &error) ||
 *             et_module_add_params(mod, "w", params, "my_module/", &error) ||
 *             et_module_variables(mod, &variables, &count, &error) ||
 *             et_module_submodules(mod, &submodules, &modules, &error))
 *             fprintf(stderr, "%s\n", error.text);
 *         for (size_t i = 0; i < count; i++)
 *             printf("%s\n", et_params_name(variables[i].params, variables[i].index));
 *         for (size_t i = 0; i < modules; i++)
 *             printf("%s\n", et_module_name(submodules[i]));
 *         et_pass_close(pass);
 *         et_params_free(params);
 *         et_device_close(device);
 *         et_module_free(mod);
 *         et_module_free(b);
 *         et_module_free(c);
 *         return error.status != 0;
 *     }
 *
 * It prints my_module/matmul_2, my_module/w, b, c. doc/orbit.md shows the documentation's lines
 * beside these. The next comment lists the members, in the documentation's order, each with its
 * counterpart and, in brackets, its header; doc/reference/members.md says what differs. */
#ifndef ETUDE_ORBIT_H
#define ETUDE_ORBIT_H

#include <etude/controller.h>
#include <etude/epochs.h>
#include <etude/layers.h>
#include <etude/log.h>
#include <etude/metrics.h>
#include <etude/module.h>
#include <etude/optimizer.h>
#include <etude/outer_loop.h>
#include <etude/ready_actions.h>
#include <etude/standard.h>
#include <etude/trainer.h>

/* ---- class AbstractTrainer: et_trainer, et_trainer_class ----
 *
 * Attributes [module.h]
 *   name                      et_module_name, et_trainer.module
 *   name_scope                et_module_name_scope, et_scope_enter
 *   non_trainable_variables   et_module_non_trainable_variables
 *   submodules                et_module_submodules, et_module_add_module
 *   trainable_variables       et_module_trainable_variables
 *   variables                 et_module_variables, et_module_add_params, et_module_add_param
 *
 * Methods [trainer.h, module.h]
 *   train(num_steps)          et_trainer_train, et_trainer_class.train
 *   with_name_scope(method)   et_module_with_name_scope, et_build_fn */

#endif
