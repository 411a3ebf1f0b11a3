/* Modules: a tree of names for what models and trainers keep (TensorFlow's Module). A module has
 * attributes: parameters and variables of a store, by name or by prefix, and other modules; asked
 * for them, it answers in an order that depends on names alone.
 *
 *     if (et_module_new(&mlp, "MyMlp", NULL, NULL, &error) ||
 *         et_module_new(&dense, "Dense", "first", mlp, &error) ||
 *         et_module_add_module(mlp, "layers", dense, &error) ||
 *         et_module_add_params(dense, "weights", params, "my_mlp/first/", &error) ||
 *         et_module_variables(mlp, &variables, &count, &error)) ...
 *
 * An attribute that is added to again is a list, in the order of adding. Answers begin with the
 * module's own attributes, sorted by name (by bytes), submodules among them; then comes what each
 * of these submodules has, with all below it, before the next. Each thing comes once, and cycles
 * are fine. Of a.x = b, a.y = c, b.z = d, d.q = e, c.r = f the submodules are b c d e f, the
 * variables those of a, b, d, e, c, f. (TensorFlow's code does the same; its documentation says
 * breadth first.) Modules borrow stores and each other. One thread. */
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

/* name NULL: class_name, from camel to snake case ("HTTPServer2D": "http_server2_d"). A name that
 * is given begins with a letter or '_' and has only letters, digits and '_': ET_ECONFIG. within:
 * whose name scope this one lies in; NULL: in none. Texts are copied. */
ET_API int et_module_new(et_module **out, const char *class_name, const char *name,
                         const et_module *within, et_error *error);
ET_API void et_module_free(et_module *module); /* NULL allowed; itself alone */

/* The name as passed or made, without those around it. Borrowed, as is the scope's. */
ET_API const char *et_module_name(const et_module *module);

/* "outer/my_module": what the names of its parameters begin with. */
ET_API const char *et_module_scope_name(const et_module *module);

/* The name scope in the graph of a scope, whatever scope of it that is: entering again, also from
 * within, gives the same names. Parameters and layers take it as their scope; et_scope_enter has it
 * name the nodes of ops as well. */
ET_API et_scope *et_module_name_scope(const et_module *module, et_scope *scope);

/* Calls method in the module's name scope: what it declares and the nodes that it makes are named
 * "outer/my_module/...", as "outer/my_module/matmul_17". The scope that was entered before is
 * entered again behind it. */
ET_API void et_module_with_name_scope(const et_module *module, et_scope *scope, et_build_fn *method,
                                      void *payload);

/* Attributes. A parameter by index: ET_EUSAGE if there is none. By prefix: whatever the store has
 * of such names when it is asked, in order of declaration. */
ET_API int et_module_add_param(et_module *module, const char *attribute, et_params *params,
                               int index, et_error *error);
ET_API int et_module_add_params(et_module *module, const char *attribute, et_params *params,
                                const char *prefix, et_error *error);
ET_API int et_module_add_module(et_module *module, const char *attribute, et_module *submodule,
                                et_error *error);
/* All that was added under this name goes. */
ET_API void et_module_remove(et_module *module, const char *attribute);

/* Of this module and its submodules. Borrowed, until the next such call for this module. */
ET_API int et_module_variables(et_module *module, const et_module_variable **out, size_t *count,
                               et_error *error);
ET_API int et_module_trainable_variables(et_module *module, const et_module_variable **out,
                                         size_t *count, et_error *error);
ET_API int et_module_non_trainable_variables(et_module *module, const et_module_variable **out,
                                             size_t *count, et_error *error);
/* All modules that attributes lead to, this one aside. Borrowed as above. */
ET_API int et_module_submodules(et_module *module, et_module *const **out, size_t *count,
                                et_error *error);

#endif
