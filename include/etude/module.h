/* Modules: a tree of names for the objects of models and trainers (TensorFlow's Module). A module
 * has attributes: parameters and variables of a store, by name or by prefix, and other modules.
 * Queries list them in an order that depends only on names.
 *
 *     if (et_module_new(&mlp, "MyMlp", NULL, NULL, &error) ||
 *         et_module_new(&dense, "Dense", "first", mlp, &error) ||
 *         et_module_add_module(mlp, "layers", dense, &error) ||
 *         et_module_add_params(dense, "weights", params, "my_mlp/first/", &error) ||
 *         et_module_variables(mlp, &variables, &count, &error)) ...
 *
 * An attribute that is added again becomes a list, in the order of adding. A query lists first the
 * module's own attributes, sorted by name (by bytes), with direct submodules. Then each of these
 * submodules follows with everything below it. Each object is listed once, and cycles are allowed.
 * With a.x = b, a.y = c, b.z = d, d.q = e, c.r = f the submodules of a are b c d e f, and the
 * variables are those of a, b, d, e, c, f. (TensorFlow's code does the same; its documentation says
 * breadth first.) Modules borrow stores and each other. Use from one thread. */
#ifndef ETUDE_MODULE_H
#define ETUDE_MODULE_H

#include <stddef.h>

#include <etude/error.h>
#include <etude/params.h>
#include <etude/pass.h>

typedef struct et_module et_module;

/* A parameter or variable, by its index in a store. */
typedef struct et_module_variable {
    et_params *params;
    int index;
} et_module_variable;

/* name NULL: class_name in snake case ("HTTPServer2D": "http_server2_d"). A given name begins with
 * a letter or '_' and has only letters, digits and '_', else ET_ECONFIG. within: the module whose
 * name scope contains this one; NULL: none. Texts are copied. */
ET_API int et_module_new(et_module **out, const char *class_name, const char *name,
                         const et_module *within, et_error *error);
ET_API void et_module_free(et_module *module); /* NULL allowed; does not free submodules */

/* The name alone, without outer scopes. Names and scope names are borrowed. */
ET_API const char *et_module_name(const et_module *module);

/* "outer/my_module": the prefix of the names of its parameters. */
ET_API const char *et_module_scope_name(const et_module *module);

/* The module's name scope in the graph of scope. The result does not depend on which scope of the
 * graph you pass: another call, also from inside, returns the same scope. Parameters and layers
 * take this scope as argument; et_scope_enter makes ops name their nodes in it. */
ET_API et_scope *et_module_name_scope(const et_module *module, et_scope *scope);

/* Calls method in the module's name scope: its parameters and nodes get names such as
 * "outer/my_module/matmul_17". Afterwards the previous scope is entered again. */
ET_API void et_module_with_name_scope(const et_module *module, et_scope *scope, et_build_fn *method,
                                      void *payload);

/* Adds attributes. By index: one parameter; ET_EUSAGE: no such parameter. By prefix: all parameters
 * and variables with such names at the time of the query, in order of declaration. */
ET_API int et_module_add_param(et_module *module, const char *attribute, et_params *params,
                               int index, et_error *error);
ET_API int et_module_add_params(et_module *module, const char *attribute, et_params *params,
                                const char *prefix, et_error *error);
ET_API int et_module_add_module(et_module *module, const char *attribute, et_module *submodule,
                                et_error *error);
/* Removes everything that was added under this name. */
ET_API void et_module_remove(et_module *module, const char *attribute);

/* Variables of this module and its submodules. Borrowed until the next query of this module. */
ET_API int et_module_variables(et_module *module, const et_module_variable **out, size_t *count,
                               et_error *error);
ET_API int et_module_trainable_variables(et_module *module, const et_module_variable **out,
                                         size_t *count, et_error *error);
ET_API int et_module_non_trainable_variables(et_module *module, const et_module_variable **out,
                                             size_t *count, et_error *error);
/* All modules that attributes reach, without this one. Borrowed as above. */
ET_API int et_module_submodules(et_module *module, et_module *const **out, size_t *count,
                                et_error *error);

#endif
