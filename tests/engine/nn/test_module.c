/* Modules: names, scopes, and the order of variables and submodules. */
#include <etude/module.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <etude/layers.h>
#include <etude/ops.h>

#include "base/text/strbuf.h"
#include "calls.h"
#include "engine/graph/build.h"
#include "engine/graph/graph.h"

static et_module *new_module(const char *name)
{
    et_module *m;
    assert_ok(et_module_new(&m, "Module", name, NULL, error));
    return m;
}

static void test_module__names(void **state)
{
    static const struct {
        const char *class_name, *name, *expected; /* NULL: refused */
    } cases[] = {
        { "MyModule", NULL, "my_module" },
        { "HTTPServer2D", NULL, "http_server2_d" },
        { "AbstractTrainer", NULL, "abstract_trainer" },
        { "A", NULL, "a" },
        { "ABC", NULL, "abc" },
        { "MLPBlock", NULL, "mlp_block" },
        { "already_snake", NULL, "already_snake" },
        { "With_Underscore", NULL, "with__underscore" },
        { "MyModule", "other", "other" },
        { NULL, "_a1", "_a1" },
        { "MyModule", "CamelStays", "CamelStays" },
        { "MyModule", "1a", NULL },
        { "MyModule", "", NULL },
        { "MyModule", "a-b", NULL },
        { "MyModule", "a/b", NULL },
        { "MyModule", "a b", NULL },
        { NULL, NULL, NULL },
        { "", NULL, NULL },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        et_module *m;
        if (!cases[i].expected) {
            assert_fails(et_module_new(&m, cases[i].class_name, cases[i].name, NULL, error),
                         ET_ECONFIG, "name");
            assert_null(m);
            continue;
        }
        assert_ok(et_module_new(&m, cases[i].class_name, cases[i].name, NULL, error));
        assert_string_equal(et_module_name(m), cases[i].expected);
        assert_string_equal(et_module_scope_name(m), cases[i].expected);
        et_module_free(m);
    }
    et_module_free(NULL);
}

/* a.b = b, b.c = c, as documented; then a cycle, a second way, a removal. */
static void test_module__submodules(void **state)
{
    (void)state;
    et_module *a = new_module("a"), *b = new_module("b"), *c = new_module("c"), *const * found;
    size_t count;
    assert_ok(et_module_add_module(a, "b", b, error));
    assert_ok(et_module_add_module(b, "c", c, error));
    assert_ok(et_module_submodules(a, &found, &count, error));
    assert_int_equal(count, 2);
    assert_ptr_equal(found[0], b);
    assert_ptr_equal(found[1], c);
    assert_ok(et_module_submodules(b, &found, &count, error));
    assert_int_equal(count, 1);
    assert_ptr_equal(found[0], c);
    assert_ok(et_module_submodules(c, &found, &count, error));
    assert_int_equal(count, 0);

    assert_ok(et_module_add_module(c, "back", a, error));
    assert_ok(et_module_add_module(a, "b", c, error));
    assert_ok(et_module_submodules(a, &found, &count, error));
    assert_int_equal(count, 2);
    assert_ok(et_module_submodules(c, &found, &count, error));
    assert_int_equal(count, 2);
    assert_ptr_equal(found[0], a);
    assert_ptr_equal(found[1], b);
    et_module_remove(a, "b");
    assert_ok(et_module_submodules(a, &found, &count, error));
    assert_int_equal(count, 0);
    et_module_free(a);
    et_module_free(b);
    et_module_free(c);
}

static void add_module(et_module *of, const char *attribute, et_module *submodule)
{
    assert_ok(et_module_add_module(of, attribute, submodule, error));
}

static void assert_submodules(et_module *m, const char *expected)
{
    et_module *const *found;
    size_t count;
    et_strbuf text = ET_STRBUF_INIT;
    assert_ok(et_module_submodules(m, &found, &count, error));
    for (size_t i = 0; i < count; i++)
        et_strbuf_append(&text, et_module_name(found[i]));
    assert_string_equal(et_strbuf_text(&text), expected);
    et_strbuf_release(&text);
}

/* ---- variables ---- */

static et_params *declare(const char *const *names, int count)
{
    et_params *params;
    et_init zeros = { ET_INIT_ZEROS, 0 };
    assert_ok(et_params_new(&params, error));
    for (int i = 0; i < count; i++) {
        int index;
        /* Names in capitals are of variables. */
        if (names[i][0] >= 'A' && names[i][0] <= 'Z')
            assert_ok(
                et_params_declare_variable(params, names[i], et_shape_1(1), zeros, &index, error));
        else
            assert_ok(et_params_declare(params, names[i], et_shape_1(1), zeros, &index, error));
    }
    return params;
}

typedef int ask_fn(et_module *, const et_module_variable **, size_t *, et_error *);

static void assert_variables(ask_fn *ask, et_module *m, const char *expected)
{
    const et_module_variable *found;
    size_t count;
    et_strbuf text = ET_STRBUF_INIT;
    assert_ok(ask(m, &found, &count, error));
    for (size_t i = 0; i < count; i++)
        et_strbuf_printf(&text, "%s ", et_params_name(found[i].params, found[i].index));
    assert_string_equal(et_strbuf_text(&text), expected);
    et_strbuf_release(&text);
}

/* Own ones first, by the name of their attribute; lists in the order of adding; then each module
 * with all below it; nothing twice. */
static void test_module__variables(void **state)
{
    static const char *const names[] = {
        "w", "b", "one", "two", "S", "deep", "late", "p/x", "p/y"
    };
    (void)state;
    et_params *params = declare(names, 9), *other = declare(names, 1);
    et_module *root = new_module("root"), *first = new_module("first"),
              *second = new_module("second"), *inner = new_module("inner");
    assert_ok(et_module_add_param(root, "weight", params, 0, error));
    assert_ok(et_module_add_param(root, "bias", params, 1, error));
    assert_ok(et_module_add_module(root, "layers", second, error));
    assert_ok(et_module_add_module(root, "layers", first, error));
    assert_ok(et_module_add_param(second, "list", params, 3, error));
    assert_ok(et_module_add_param(second, "list", params, 2, error));
    assert_ok(et_module_add_param(second, "list", params, 0, error)); /* known */
    assert_ok(et_module_add_module(second, "inner", inner, error));
    assert_ok(et_module_add_param(inner, "deep", params, 5, error));
    assert_ok(et_module_add_param(first, "statistics", params, 4, error));
    assert_ok(et_module_add_params(first, "a_late_one", params, "p/", error));
    assert_ok(et_module_add_param(first, "z", other, 0, error)); /* another store's w */
    assert_variables(et_module_variables, root, "b w two one deep p/x p/y S w ");
    assert_variables(et_module_trainable_variables, root, "b w two one deep p/x p/y w ");
    assert_variables(et_module_non_trainable_variables, root, "S ");
    assert_variables(et_module_variables, inner, "deep ");
    assert_variables(et_module_non_trainable_variables, inner, "");
    assert_fails(et_module_add_param(root, "more", params, 9, error), ET_EUSAGE, "parameter 9");
    assert_fails(et_module_add_param(root, "", params, 1, error), ET_EUSAGE, "has no name");
    assert_fails(et_module_add_params(root, "more", params, NULL, error), ET_EUSAGE,
                 "the store or the prefix is NULL");
    assert_fails(et_module_add_module(root, "more", NULL, error), ET_EUSAGE, "the module is NULL");
    et_module_free(root);
    et_module_free(first);
    et_module_free(second);
    et_module_free(inner);
    et_params_free(params);
    et_params_free(other);
}

/* What tf.Module answers. Each module has one variable, of its name, as attribute v. */
static void test_module__order(void **state)
{
    static const char *const names[] = { "a", "b", "c", "d", "e", "f" };
    (void)state;
    et_params *params = declare(names, 6);
    et_module *m[6];
    for (int i = 0; i < 6; i++) {
        m[i] = new_module(names[i]);
        assert_ok(et_module_add_param(m[i], "v", params, i, error));
    }
    et_module *a = m[0], *b = m[1], *c = m[2], *d = m[3], *e = m[4], *f = m[5];
    add_module(a, "x", b);
    add_module(a, "y", c);
    add_module(b, "z", d);
    add_module(c, "r", f);
    add_module(d, "q", e);
    assert_submodules(a, "bcdef");
    assert_variables(et_module_variables, a, "a b d e c f ");
    add_module(f, "back", a);
    add_module(a, "l", e);
    add_module(a, "l", f);
    assert_submodules(a, "efbcd");
    assert_variables(et_module_variables, a, "a e f b d c ");
    assert_submodules(f, "aebcd");
    assert_variables(et_module_variables, f, "f a e b d c ");
    add_module(a, "A", d);
    assert_submodules(a, "defbc");
    assert_variables(et_module_variables, a, "a d e f b c ");
    for (int i = 0; i < 6; i++)
        et_module_free(m[i]);
    et_params_free(params);
}

/* ---- name scopes ---- */

static void declare_w(et_scope *scope, void *payload)
{
    const et_init zeros = { ET_INIT_ZEROS, 0 };
    (void)payload;
    et_param(scope, "Variable", et_shape_2(2, 3), zeros);
}

static void call_inner(et_scope *scope, void *module)
{
    et_module_with_name_scope(module, et_in(scope, "elsewhere"), declare_w, NULL);
    et_module_with_name_scope(module, scope, declare_w, NULL); /* again: the same one */
}

/* As documented: nodes made in a method are named after the module. */
static void test_module__name_scope(void **state)
{
    (void)state;
    et_params *params;
    et_graph *graph;
    et_module *mine, *within;
    assert_ok(et_params_new(&params, error));
    assert_ok(et_graph_new(&graph, params, NULL, error));
    assert_ok(et_module_new(&mine, "MyModule", NULL, NULL, error));
    assert_ok(et_module_new(&within, "Dense", NULL, mine, error));
    assert_string_equal(et_module_name(within), "dense");
    assert_string_equal(et_module_scope_name(within), "my_module/dense");
    et_module_with_name_scope(mine, et_graph_scope(graph), declare_w, NULL);
    et_module_with_name_scope(mine, et_graph_scope(graph), call_inner, within);
    assert_ok(et_graph_finish(graph, error));
    assert_int_equal(et_params_count(params), 2);
    assert_string_equal(et_params_name(params, 0), "my_module/Variable");
    assert_string_equal(et_params_name(params, 1), "my_module/dense/Variable");
    et_module_free(within);
    et_module_free(mine);
    et_graph_free(graph);
    et_params_free(params);
}

static void call_relu(et_scope *scope, void *x)
{
    (void)scope;
    assert_string_equal(et_node_name(et_relu(x)), "my_module/dense/relu_3");
}

static void misfit(et_scope *scope, void *x)
{
    (void)scope;
    et_matmul(x, x, NULL, NULL);
}

static void multiply(et_scope *scope, void *inner)
{
    const et_init zeros = { ET_INIT_ZEROS, 0 };
    et_node *x = et_input(scope, "x", ET_F32, et_shape_2(2, 3));
    et_node *y = et_matmul(x, et_param(scope, "w", et_shape_2(3, 3), zeros), NULL, NULL);
    assert_string_equal(et_node_name(x), "my_module/x");
    assert_string_equal(et_node_name(y), "my_module/matmul_2");
    if (inner)
        et_module_with_name_scope(inner, et_in(scope, "elsewhere"), call_relu, y);
    et_node *z = et_dense(et_in(scope, "hidden"), et_relu(y), 4);
    assert_string_equal(et_node_name(z), "my_module/hidden/matmul_7");
    assert_string_equal(et_node_name(et_norm(et_in(scope, "norm"), z, 1e-6f)),
                        "my_module/norm/layer_norm_10");
    assert_string_equal(et_node_name(et_add(z, z)), "my_module/add_11");
    assert_string_equal(et_node_name(et_integers(et_in(scope, "in"), 0, 2, 1)),
                        "my_module/in/integers_12");
}

/* As documented: a tensor that is made in a method is named after the module. */
static void test_module__tensors_are_named(void **state)
{
    (void)state;
    et_params *params;
    et_graph *graph;
    et_module *mine, *within;
    assert_ok(et_params_new(&params, error));
    assert_ok(et_graph_new(&graph, params, NULL, error));
    assert_ok(et_module_new(&mine, "MyModule", NULL, NULL, error));
    assert_ok(et_module_new(&within, "Dense", NULL, mine, error));
    et_scope *root = et_graph_scope(graph);
    et_module_with_name_scope(mine, root, multiply, within);
    /* After it, and without a call. */
    et_node *x = et_input(root, "x", ET_F32, et_shape_2(2, 3));
    assert_string_equal(et_node_name(et_relu(x)), "relu_14");
    assert_ptr_equal(et_scope_enter(et_module_name_scope(within, root)), root);
    assert_string_equal(et_node_name(et_relu(x)), "my_module/dense/relu_15");
    et_scope_enter(root);
    assert_string_equal(et_node_name(et_relu(x)), "relu_16");
    /* An error says where. */
    et_module_with_name_scope(mine, root, misfit, x);
    assert_fails(et_graph_finish(graph, error), ET_EGRAPH, "my_module (matmul)");
    et_module_free(within);
    et_module_free(mine);
    et_graph_free(graph);
    et_params_free(params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_module__names),      cmocka_unit_test(test_module__submodules),
        cmocka_unit_test(test_module__variables),  cmocka_unit_test(test_module__order),
        cmocka_unit_test(test_module__name_scope), cmocka_unit_test(test_module__tensors_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
