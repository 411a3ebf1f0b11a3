/* Layers other than the Transformer's: declared parameters and their initial values. */
#include <etude/layers.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "engine/graph/build.h"
#include "engine/graph/graph.h"
#include "engine/tensor/params.h"

typedef struct model {
    et_params *params;
    et_graph *graph;
    et_scope *scope;
} model;

static void open_model(model *m)
{
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_params_new(&m->params, &error), ET_OK);
    assert_int_equal(et_graph_new(&m->graph, m->params, NULL, &error), ET_OK);
    m->scope = et_in(et_graph_scope(m->graph), "layer");
}

static void close_model(model *m)
{
    et_graph_free(m->graph);
    et_params_free(m->params);
}

/* Declared once, with that shape; its init. */
static et_init declared(const model *m, const char *name, et_shape shape)
{
    et_error error = ET_ERROR_INIT;
    if (et_graph_finish(m->graph, &error))
        fail_msg("%s", error.text);
    int index = et_params_find(m->params, name);
    assert_true(index >= 0);
    assert_true(et_shape_equal(et_params_shape(m->params, index), shape));
    return et_params_init(m->params, index);
}

/* Glorot over the receptive field, as Keras: fans 3 x 5 x 4 and 3 x 5 x 8, limit
 * sqrt(6 / 180). */
static void test_layers__conv2d(void **state)
{
    (void)state;
    model m;
    open_model(&m);
    et_conv2d_options options = { .window = { .same = true, .stride = { 2, 2 } },
                                  .activation = ET_ACTIVATION_GELU };
    et_node *x = et_input(m.scope, "x", ET_F32, et_shape_4(2, 11, 10, 4));
    et_node *y = et_conv2d(m.scope, x, 8, 3, 5, &options);
    et_init weight = declared(&m, "layer/weight", et_shape_4(3, 5, 4, 8));
    et_init bias = declared(&m, "layer/bias", et_shape_1(8));
    assert_true(et_shape_equal(et_node_shape(y), et_shape_4(2, 6, 5, 8)));
    assert_int_equal(weight.kind, ET_INIT_UNIFORM);
    assert_true(fabsf(weight.scale - sqrtf(6.0f / 180.0f)) < 1e-6f);
    assert_int_equal(bias.kind, ET_INIT_ZEROS);
    assert_non_null(strstr(et_node_name(y), "gelu"));
    close_model(&m);
}

/* Relu is part of the convolution, and a bias can be left out. */
static void test_layers__conv2d_options(void **state)
{
    (void)state;
    model m;
    open_model(&m);
    et_conv2d_options options = { .no_bias = true, .activation = ET_ACTIVATION_RELU };
    et_node *x = et_input(m.scope, "x", ET_F32, et_shape_4(2, 11, 10, 4));
    et_node *y = et_conv2d(m.scope, x, 8, 3, 3, &options);
    declared(&m, "layer/weight", et_shape_4(3, 3, 4, 8));
    assert_int_equal(et_params_count(m.params), 1);
    assert_non_null(strstr(et_node_name(y), "convolution"));
    assert_true(et_shape_equal(et_node_shape(et_conv2d(et_in(m.scope, "b"), y, 1, 1, 1, NULL)),
                               et_shape_4(2, 9, 8, 1)));
    close_model(&m);
}

static void test_layers__norm_rms_and_columns(void **state)
{
    (void)state;
    static const et_column columns[] = { { 5, 2 }, { 9, 3 } };
    model m;
    open_model(&m);
    et_node *ids = et_input(m.scope, "ids", ET_I32, et_shape_2(7, 2));
    et_node *y = et_norm_rms(m.scope, et_embedding_columns(m.scope, ids, columns, 2), 1e-6f);
    et_init table = declared(&m, "layer/table", et_shape_1(37));
    et_init scale = declared(&m, "layer/scale", et_shape_1(5));
    assert_true(et_shape_equal(et_node_shape(y), et_shape_2(7, 5)));
    assert_true(table.kind == ET_INIT_UNIFORM && table.scale == 0.05f);
    assert_int_equal(scale.kind, ET_INIT_ONES);
    close_model(&m);
}

/* A layer on an invalid input reports it once, and nothing else happens. */
static void test_layers__poison_passes(void **state)
{
    (void)state;
    model m;
    et_error error = ET_ERROR_INIT;
    open_model(&m);
    et_node *x = et_input(m.scope, "x", ET_F32, et_shape_2(3, 4));
    et_node *y = et_conv2d(m.scope, x, 8, 3, 3, NULL);
    et_norm_rms(et_in(m.scope, "norm"), et_max_pool(y, NULL), 1e-6f);
    assert_int_equal(et_graph_finish(m.graph, &error), ET_EGRAPH);
    assert_non_null(strstr(error.text, "not an image and a weight for its channels: layer/x"));
    close_model(&m);
}

/* Numbers of a batch are float32 in a model of bfloat16, too. */
static void test_layers__bfloat16_takes_floats(void **state)
{
    (void)state;
    et_graph_options narrow = { .act = ET_BF16 };
    et_error error = ET_ERROR_INIT;
    model m;
    assert_int_equal(et_params_new(&m.params, &error), ET_OK);
    assert_int_equal(et_graph_new(&m.graph, m.params, &narrow, &error), ET_OK);
    m.scope = et_in(et_graph_scope(m.graph), "layer");
    et_node *x = et_input(m.scope, "x", ET_F32, et_shape_4(2, 8, 8, 1));
    et_node *h = et_conv2d(et_in(m.scope, "conv"), x, 4, 3, 3, NULL);
    et_node *rows = et_input(m.scope, "rows", ET_F32, et_shape_2(2, 5));
    et_node *y = et_dense(et_in(m.scope, "dense"), rows, 3);
    if (et_graph_finish(m.graph, &error))
        fail_msg("%s", error.text);
    assert_int_equal(et_node_dtype(h), ET_BF16);
    assert_int_equal(et_node_dtype(y), ET_BF16);
    assert_true(et_shape_equal(et_node_shape(y), et_shape_2(2, 3)));
    close_model(&m);
}

/* Standard normal weights, and a product divided by the root of its inputs. */
static void test_layers__dense_tangent(void **state)
{
    (void)state;
    model m;
    open_model(&m);
    const et_dense_options options = { .tangent = true, .activation = ET_ACTIVATION_RELU };
    et_node *x = et_input(m.scope, "x", ET_F32, et_shape_2(3, 16));
    et_node *y = et_dense_with(m.scope, x, 5, &options);
    et_init weight = declared(&m, "layer/weight", et_shape_2(16, 5));
    et_init bias = declared(&m, "layer/bias", et_shape_1(5));
    assert_true(weight.kind == ET_INIT_NORMAL && weight.scale == 1);
    assert_int_equal(bias.kind, ET_INIT_ZEROS);
    assert_true(et_shape_equal(et_node_shape(y), et_shape_2(3, 5)));
    assert_int_equal(y->op, ET_OP_RELU);
    const et_node *scaled = y->input[0]->input[0];
    assert_true(scaled->op == ET_OP_SCALE && scaled->attributes.x == 0.25f);
    close_model(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers__conv2d),
        cmocka_unit_test(test_layers__conv2d_options),
        cmocka_unit_test(test_layers__norm_rms_and_columns),
        cmocka_unit_test(test_layers__poison_passes),
        cmocka_unit_test(test_layers__bfloat16_takes_floats),
        cmocka_unit_test(test_layers__dense_tangent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
