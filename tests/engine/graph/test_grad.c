/* The structure of derivatives; tests/engine/exec compares their values with finite differences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include <etude/ops.h>

#include "engine/graph/build.h"
#include "engine/graph/differentiate.h"
#include "engine/graph/graph.h"
#include "formats/files.h"

static const et_init ones = { ET_INIT_ONES, 0 };

/* x * weight + mean, summed. */
static et_node *build(et_scope *s, bool weight)
{
    et_node *x = et_input(s, "x", ET_F32, et_shape_1(4));
    et_node *mean = et_variable(s, "mean", et_shape_1(4), ones);
    return et_sum(et_add(weight ? et_mul(x, et_param(s, "weight", et_shape_1(4), ones)) : x, mean));
}

static void test_grad__not_by_variables(void **state)
{
    (void)state;
    for (int weight = 0; weight < 2; weight++) {
        et_params *params;
        et_graph *graph;
        assert_ok(et_params_new(&params, error));
        assert_ok(et_graph_new(&graph, params, NULL, error));
        et_node *loss = build(et_graph_scope(graph), weight);
        if (weight) {
            assert_ok(differentiate(graph, loss, error));
            assert_int_equal(graph->gradient_count, 1);
            assert_string_equal(et_params_name(params, graph->gradients[0].param), "weight");
        } else {
            assert_fails(differentiate(graph, loss, error), ET_EGRAPH,
                         "does not depend on any parameter");
        }
        et_graph_free(graph);
        et_params_free(params);
    }
}

/* Trained positions would silently keep their values, so they are refused. */
static void test_grad__not_by_positions(void **state)
{
    (void)state;
    et_params *params;
    et_graph *graph;
    assert_ok(et_params_new(&params, error));
    assert_ok(et_graph_new(&graph, params, NULL, error));
    et_scope *s = et_graph_scope(graph);
    et_node *ids = et_input(s, "ids", ET_I32, et_shape_1(8));
    et_node *y = et_embedding(ids, et_param(s, "table", et_shape_2(9, 4), ones), 1, ids,
                              et_param(s, "places", et_shape_2(9, 4), ones));
    assert_fails(differentiate(graph, et_sum(y), error), ET_EGRAPH,
                 ": positions of an embedding must be constants, but places is trained: use a "
                 "second embedding and add the two");
    et_graph_free(graph);
    et_params_free(params);
}

/* x [8, 12] next to a table's [8, 4], times w [16, 3]: the product's left derivative is only
 * computed for the table's columns. */
static void test_grad__of_few_columns(void **state)
{
    (void)state;
    et_params *params;
    et_graph *graph;
    int products = 0;
    assert_ok(et_params_new(&params, error));
    assert_ok(et_graph_new(&graph, params, NULL, error));
    et_scope *s = et_graph_scope(graph);
    et_node *parts[] = { et_input(s, "x", ET_F32, et_shape_2(8, 12)),
                         et_param(s, "table", et_shape_2(8, 4), ones) };
    et_node *y = et_matmul(et_concatenate_columns(parts, 2),
                           et_param(s, "w", et_shape_2(16, 3), ones), NULL, NULL);
    assert_ok(differentiate(graph, et_sum(y), error));
    assert_int_equal(graph->gradient_count, 2);
    for (int i = y->id + 1; i < graph->count; i++)
        if (graph->nodes[i]->op == ET_OP_MATMUL) {
            et_shape shape = et_node_shape(graph->nodes[i]);
            products++;
            assert_true(et_shape_equal(shape, et_shape_2(16, 3)) ||
                        et_shape_equal(shape, et_shape_2(8, 4)));
        }
    assert_int_equal(products, 2);
    et_graph_free(graph);
    et_params_free(params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grad__not_by_variables),
        cmocka_unit_test(test_grad__not_by_positions),
        cmocka_unit_test(test_grad__of_few_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
