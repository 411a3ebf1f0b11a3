/* TensorFlow, tensorflow/python/module/module_test.py. A scope's name has no slash at its end, and
 * names of variables have no ":0". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include <etude/device.h>
#include <etude/layers.h>
#include <etude/module.h>

#include "calls.h"

/* ---- scopes: names of nodes that a method makes ---- */

/* The name scope that nodes have here: "outer/my_module", "" for none. */
static const char *current_scope(et_scope *scope)
{
    static char name[100];
    const char *node = et_node_name(et_integers(scope, 0, 2, 1)), *slash = strrchr(node, '/');
    snprintf(name, sizeof name, "%.*s", slash ? (int)(slash - node) : 0, node);
    return name;
}

typedef struct graph {
    et_device *device;
    et_params *params;
    et_samples *samples;
    et_pass *pass;
} graph;

/* Builds a graph, with an input x of one number; *error is the graph's. */
static int open_graph(graph *g, et_build_fn *build, void *payload, et_error *failure)
{
    static float x[1] = { 2 };
    const et_array arrays[] = { { "x", ET_F32, x, et_shape_1(1) } };
    assert_ok(et_device_open(&g->device, error));
    assert_ok(et_params_new(&g->params, error));
    assert_ok(et_arrays_open(&g->samples, arrays, 1, 1, error));
    et_layout layout = g->samples->layout;
    layout.capacity[0] = 1;
    return et_pass_open(&g->pass, g->device, g->params, &layout, build, payload, NULL, failure);
}

static void close_graph(graph *g)
{
    et_pass_close(g->pass);
    et_samples_close(g->samples);
    et_params_free(g->params);
    et_device_close(g->device);
}

static void build_graph(et_build_fn *build, void *payload)
{
    graph g = { .pass = NULL };
    assert_ok(open_graph(&g, build, payload, error));
    close_graph(&g);
}

static et_module *new_module(const char *class_name, const char *name, const et_module *within)
{
    et_module *module;
    assert_ok(et_module_new(&module, class_name, name, within, error));
    return module;
}

/* ---- names ---- */

static void test_module_test__single_name(void **state)
{
    et_module *module = new_module("Module", "simple", NULL);
    (void)state;
    assert_string_equal(et_module_name(module), "simple");
    assert_string_equal(et_module_scope_name(module), "simple");
    et_module_free(module);
}

static void test_module_test__construct_in_scope(void **state)
{
    et_module *foo = new_module("Module", "foo", NULL), *bar = new_module("Module", "bar", foo);
    (void)state;
    assert_string_equal(et_module_name(bar), "bar");
    assert_string_equal(et_module_scope_name(bar), "foo/bar");
    et_module_free(bar);
    et_module_free(foo);
}

static int calls_done; /* of methods */

/* The methods of ReturnsNameScopeModule and its subclass. */
static void forward(et_scope *scope, void *module)
{
    assert_string_equal(current_scope(scope), et_module_scope_name(module));
    calls_done++;
}

static void alternative_forward(et_scope *scope, void *module)
{
    forward(scope, module);
}

static void alternative_alternative_forward(et_scope *scope, void *module)
{
    forward(scope, module);
}

typedef struct calls {
    const char *class_name;
    et_build_fn *methods[2]; /* the second may be NULL */
} calls;

static void call_methods(et_scope *scope, void *payload)
{
    const calls *c = payload;
    calls_done = 0;
    et_module *module = new_module(c->class_name, NULL, NULL);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 2 && c->methods[k]; k++) {
            et_module_with_name_scope(module, scope, c->methods[k], module);
            assert_string_equal(current_scope(scope), "");
        }
    et_output(scope, "end", et_integers(scope, 0, 2, 1));
    et_module_free(module);
}

static void test_module_test__enters_name_scope_in_call(void **state)
{
    (void)state;
    build_graph(call_methods, &(calls){ "ReturnsNameScopeModule", { forward } });
    assert_int_equal(calls_done, 3);
}

static void test_module_test__enters_name_scope_in_other_method(void **state)
{
    (void)state;
    build_graph(call_methods, &(calls){ "ReturnsNameScopeModule", { alternative_forward } });
    assert_int_equal(calls_done, 3);
}

static void test_module_test__subclassed_module(void **state)
{
    (void)state;
    build_graph(call_methods, &(calls){ "SubclassedReturnsNameScopeModule",
                                        { alternative_forward, alternative_alternative_forward } });
    assert_int_equal(calls_done, 6);
}

static void test_module_test__submodule_created_late(void **state)
{
    et_module *m = new_module("TreeModule", NULL, NULL), *leaf = new_module("TreeModule", NULL, m);
    (void)state;
    assert_string_equal(et_module_name(m), "tree_module");
    assert_string_equal(et_module_scope_name(m), "tree_module");
    assert_string_equal(et_module_name(leaf), "tree_module");
    assert_string_equal(et_module_scope_name(leaf), "tree_module/tree_module");
    et_module_free(leaf);
    et_module_free(m);
}

static void test_module_test__invalid_name(void **state)
{
    et_module *module;
    (void)state;
    assert_fails(et_module_new(&module, "Module", "$Foo", NULL, error), ET_ECONFIG,
                 "'$Foo' is not a valid module name");
}

/* RecursiveModule: depth modules "badger", each in the one before, with a variable "mushroom". */
enum { DEPTH = 3 };

typedef struct badgers {
    et_module *module[DEPTH];
    int depth;
    bool trainable;
} badgers;

static void declare_mushroom(et_scope *scope, void *trainable)
{
    const et_init ones = { ET_INIT_ONES, 0 };
    et_node *w = *(bool *)trainable ? et_param(scope, "mushroom", et_shape_1(1), ones)
                                    : et_variable(scope, "mushroom", et_shape_1(1), ones);
    et_output(scope, "w", w);
}

static void build_badgers(et_scope *scope, void *payload)
{
    badgers *b = payload;
    for (int i = 0; i < b->depth; i++)
        et_module_with_name_scope(b->module[i], scope, declare_mushroom, &b->trainable);
}

static badgers new_badgers(int depth, bool trainable)
{
    badgers b = { .depth = depth, .trainable = trainable };
    for (int i = 0; i < depth; i++) {
        b.module[i] = new_module("RecursiveModule", "badger", i ? b.module[i - 1] : NULL);
        if (i)
            assert_ok(et_module_add_module(b.module[i - 1], "child", b.module[i], error));
    }
    return b;
}

/* With the variables, as attributes "w". */
static badgers grow_badgers(graph *g, bool trainable)
{
    badgers b = new_badgers(DEPTH, trainable);
    assert_ok(open_graph(g, build_badgers, &b, error));
    assert_int_equal(et_params_count(g->params), DEPTH);
    for (int i = 0; i < DEPTH; i++)
        assert_ok(et_module_add_param(b.module[i], "w", g->params, i, error));
    return b;
}

static void free_badgers(badgers *b)
{
    for (int i = 0; i < b->depth; i++)
        et_module_free(b->module[i]);
}

static void test_module_test__modules_not_numbered_in_eager(void **state)
{
    (void)state;
    for (int again = 0; again < 2; again++) {
        badgers b = new_badgers(2, true);
        build_graph(build_badgers, &b);
        assert_string_equal(et_module_scope_name(b.module[0]), "badger");
        assert_string_equal(et_module_scope_name(b.module[1]), "badger/badger");
        free_badgers(&b);
    }
}

/* A constructor and a method that fail in the name scope of their module. */
static void construct(et_scope *scope, void *module)
{
    const et_init ones = { ET_INIT_ONES, 0 };
    forward(scope, module);
    et_param(scope, "w", et_shape_1(1), ones);
    et_param(scope, "w", et_shape_1(2), ones);
}

static void misfit(et_scope *scope, void *module)
{
    et_node *x = et_batch_input(scope, "x");
    forward(scope, module);
    et_matmul(x, et_reshape(x, et_shape_2(3, 3)), NULL, NULL);
}

static void call_failing(et_scope *scope, void *method)
{
    et_module *module = new_module("ErrorModule", NULL, NULL);
    et_scope *const root = et_scope_enter(scope);
    calls_done = 0;
    et_module_with_name_scope(module, scope, *(et_build_fn **)method, module);
    assert_int_equal(calls_done, 1);
    assert_ptr_equal(et_scope_enter(root), scope);
    et_module_free(module);
}

static void check_closes(et_build_fn *method, const char *message)
{
    graph g = { .pass = NULL };
    assert_fails(open_graph(&g, call_failing, &method, error), ET_EGRAPH, message);
    close_graph(&g);
}

static void test_module_test__ctor_error_closes_name_scope(void **state)
{
    (void)state;
    check_closes(construct, "error_module/w");
}

static void test_module_test__forward_method_closes_name_scope(void **state)
{
    (void)state;
    check_closes(misfit, "error_module");
}

/* ---- functions without a name scope, and properties ---- */

/* A getter and a setter keep the scope in which they were called. */
typedef struct property_module {
    et_module *module;
    char getter[100], setter[100];
} property_module;

static void get_property(et_scope *scope, void *payload)
{
    strcpy(((property_module *)payload)->getter, current_scope(scope));
}

static void set_property(et_scope *scope, void *payload)
{
    strcpy(((property_module *)payload)->setter, current_scope(scope));
}

static void call_properties(et_scope *scope, void *payload)
{
    property_module *p = payload;
    et_module_with_name_scope(p->module, scope, set_property, p);
    et_module_with_name_scope(p->module, scope, get_property, p);
    et_output(scope, "end", et_integers(scope, 0, 2, 1));
}

static void call_no_name_scope_properties(et_scope *scope, void *payload)
{
    set_property(scope, payload);
    get_property(scope, payload);
    et_output(scope, "end", et_integers(scope, 0, 2, 1));
}

static void check_property(et_build_fn *build, const char *expected)
{
    property_module p = { .getter = "no call", .setter = "no call" };
    p.module = new_module("PropertyModule", NULL, NULL);
    build_graph(build, &p);
    assert_string_equal(p.getter, expected);
    assert_string_equal(p.setter, expected);
    et_module_free(p.module);
}

static void test_module_test__property(void **state)
{
    (void)state;
    check_property(call_properties, "property_module");
}

static void test_module_test__property_no_name_scope(void **state)
{
    (void)state;
    check_property(call_no_name_scope_properties, "");
}

/* The function of a module in "foo" that is called without the module's name scope. */
static void test_module_test__patched_callable(void **state)
{
    et_module *foo = new_module("Module", "foo", NULL);
    property_module p = { new_module("Module", "bar", foo), "no call", "no call" };
    (void)state;
    build_graph(call_no_name_scope_properties, &p);
    assert_string_equal(et_module_scope_name(p.module), "foo/bar");
    assert_string_equal(p.getter, "");
    et_module_free(p.module);
    et_module_free(foo);
}

static void test_module_test__variable_names(void **state)
{
    graph g;
    (void)state;
    badgers b = grow_badgers(&g, true);
    assert_string_equal(et_params_name(g.params, 0), "badger/mushroom");
    assert_string_equal(et_params_name(g.params, 1), "badger/badger/mushroom");
    assert_string_equal(et_params_name(g.params, 2), "badger/badger/badger/mushroom");
    free_badgers(&b);
    close_graph(&g);
}

static void ask_twice(et_scope *scope, void *module)
{
    assert_ptr_equal(et_module_name_scope(module, scope), et_module_name_scope(module, scope));
    et_output(scope, "end", et_integers(scope, 0, 2, 1));
}

static void test_module_test__memoized_in_tf2(void **state)
{
    et_module *module = new_module("Module", "name", NULL);
    (void)state;
    build_graph(ask_twice, module);
    et_module_free(module);
}

/* ---- variables and submodules ---- */

typedef int variables_fn(et_module *, const et_module_variable **, size_t *, et_error *);

/* Each badger has its variable, then those of the badgers in it; or none. */
static void check_variables(variables_fn *variables, bool trainable, bool none)
{
    graph g;
    badgers b = grow_badgers(&g, trainable);
    for (int i = 0; i < DEPTH; i++) {
        const et_module_variable *found;
        size_t count;
        assert_ok(variables(b.module[i], &found, &count, error));
        assert_int_equal(count, none ? 0 : DEPTH - i);
        for (size_t k = 0; k < count; k++)
            assert_int_equal(found[k].index, i + (int)k);
    }
    free_badgers(&b);
    close_graph(&g);
}

static void test_module_test__variables(void **state)
{
    (void)state;
    check_variables(et_module_variables, true, false);
}

static void test_module_test__trainable_variables(void **state)
{
    (void)state;
    check_variables(et_module_trainable_variables, true, false);
}

static void test_module_test__trainable_variables_ignores_non_trainable(void **state)
{
    (void)state;
    check_variables(et_module_trainable_variables, false, true);
    check_variables(et_module_variables, false, false);
}

static void check_submodules(et_module *module, et_module *const *expected, size_t expected_count)
{
    et_module *const *found;
    size_t count;
    assert_ok(et_module_submodules(module, &found, &count, error));
    assert_int_equal(count, expected_count);
    for (size_t i = 0; i < count; i++)
        assert_ptr_equal(found[i], expected[i]);
}

static void test_module_test__submodules(void **state)
{
    badgers b = new_badgers(DEPTH, true);
    (void)state;
    for (int i = 0; i < DEPTH; i++)
        check_submodules(b.module[i], b.module + i + 1, (size_t)(DEPTH - 1 - i));
    free_badgers(&b);
}

static void test_module_test__non_ctor_submodule(void **state)
{
    et_module *m = new_module("TreeModule", NULL, NULL), *leaves[2];
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        leaves[i] = new_module("TreeModule", NULL, m);
        assert_ok(et_module_add_module(m, "leaves", leaves[i], error));
        check_submodules(m, leaves, i + 1);
    }
    for (int i = 0; i < 2; i++)
        et_module_free(leaves[i]);
    et_module_free(m);
}

static void square(et_scope *scope, void *module)
{
    forward(scope, module);
    et_output(scope, "x", et_square(et_batch_input(scope, "x")));
}

static void call_square(et_scope *scope, void *module)
{
    et_module_with_name_scope(module, scope, square, module);
    assert_string_equal(current_scope(scope), "");
}

static void test_module_test__concrete(void **state)
{
    graph g;
    et_module *module = new_module("ConcreteModule", NULL, NULL);
    et_source *source;
    et_batch *batch;
    (void)state;
    assert_string_equal(et_module_scope_name(module), "concrete_module");
    assert_ok(open_graph(&g, call_square, module, error));
    assert_ok(
        et_batches_open(&source, g.samples, &(et_batches_options){ .capacity = { 1 } }, error));
    g.samples = NULL;
    assert_ok(et_batch_new(&batch, &source->layout, error));
    assert_ok(et_source_next(source, batch, error));
    assert_ok(et_params_materialize(g.params, false, error));
    assert_ok(et_pass_run(g.pass, batch, 0, 0, error));
    assert_true(*(const float *)et_pass_output(g.pass, "concrete_module/x").data == 4);
    et_batch_free(batch);
    et_source_close(source);
    close_graph(&g);
    et_module_free(module);
}

/* Differs: attributes are listed by name, and a program cannot give another order. */
static void test_module_test__attribute_traversal_key(void **state)
{
    static const char *const names[] = { "a", "b", "c", "d", "e" };
    static const char *const attributes[] = { "_trainable_variables", "_trainable_variables",
                                              "_non_trainable_variables",
                                              "_non_trainable_variables", "_bonus" };
    static const int expected[] = { 4, 2, 3, 0, 1 };
    et_module *module = new_module("LayerModule", NULL, NULL);
    const et_module_variable *found;
    size_t count;
    et_params *params;
    int index;
    (void)state;
    assert_ok(et_params_new(&params, error));
    for (int i = 0; i < 5; i++) {
        assert_ok(et_params_declare(params, names[i], et_shape_scalar(),
                                    (et_init){ ET_INIT_ONES, 0 }, &index, error));
        assert_ok(et_module_add_param(module, attributes[i], params, index, error));
    }
    assert_ok(et_module_variables(module, &found, &count, error));
    assert_int_equal(count, 5);
    for (int i = 0; i < 5; i++)
        assert_int_equal(found[i].index, expected[i]);
    et_module_free(module);
    et_params_free(params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_module_test__single_name),
        cmocka_unit_test(test_module_test__construct_in_scope),
        cmocka_unit_test(test_module_test__enters_name_scope_in_call),
        cmocka_unit_test(test_module_test__enters_name_scope_in_other_method),
        cmocka_unit_test(test_module_test__subclassed_module),
        cmocka_unit_test(test_module_test__submodule_created_late),
        cmocka_unit_test(test_module_test__invalid_name),
        cmocka_unit_test(test_module_test__modules_not_numbered_in_eager),
        cmocka_unit_test(test_module_test__ctor_error_closes_name_scope),
        cmocka_unit_test(test_module_test__forward_method_closes_name_scope),
        cmocka_unit_test(test_module_test__property),
        cmocka_unit_test(test_module_test__property_no_name_scope),
        cmocka_unit_test(test_module_test__patched_callable),
        cmocka_unit_test(test_module_test__variable_names),
        cmocka_unit_test(test_module_test__memoized_in_tf2),
        cmocka_unit_test(test_module_test__variables),
        cmocka_unit_test(test_module_test__trainable_variables),
        cmocka_unit_test(test_module_test__trainable_variables_ignores_non_trainable),
        cmocka_unit_test(test_module_test__submodules),
        cmocka_unit_test(test_module_test__non_ctor_submodule),
        cmocka_unit_test(test_module_test__concrete),
        cmocka_unit_test(test_module_test__attribute_traversal_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
