/* The loss of stored logits: it equals the vocabulary loss of the two matrices whose product the
 * logits are, and other nodes that read the logits do not change it. Derivatives by finite
 * differences: test_gradients. */
#include "engine/exec/model.h"

#include <math.h>
#include <string.h>

#include "engine/graph/build.h"
#include "engine/tensor/params.h"

#define ROWS    9
#define WIDTH   6
#define CLASSES 5

static const int32_t labels[ROWS] = { 3, 0, -1, 4, 2, 3, 1, 4, 0 };
static float smoothing;

static et_node *h(et_scope *s)
{
    return et_param(s, "h", et_shape_2(ROWS, WIDTH), (et_init){ ET_INIT_NORMAL, 1 });
}

static et_node *table(et_scope *s)
{
    return et_param(s, "table", et_shape_2(CLASSES, WIDTH), (et_init){ ET_INIT_NORMAL, 1 });
}

static et_node *at(et_scope *s)
{
    return et_input(s, "labels", ET_I32, et_shape_1(ROWS));
}

static et_node *whole(et_scope *s)
{
    et_matmul_options transposed = { .transpose_b = true };
    return et_softmax_loss(et_matmul(h(s), table(s), NULL, &transposed), at(s), smoothing);
}

static et_node *in_blocks(et_scope *s)
{
    return et_vocabulary_loss(h(s), table(s), at(s), smoothing);
}

typedef struct outcome {
    float sums[ET_LOSS_SUM_COUNT], gradients[2 * ROWS * WIDTH + 64];
    int64_t count;
} outcome;

static outcome run(test_build_fn *build, bool gradients)
{
    test_model model;
    outcome result = { .count = 0 };
    test_model_open_with(&model, build, ET_F32, gradients, NULL);
    et_plan_bind(model.plan, "labels", labels);
    et_plan_run(model.plan, (et_random){ 1, 0, 0 });
    memcpy(result.sums, et_plan_output(model.plan, 0).data, sizeof result.sums);
    result.count = et_params_flat_size(model.params);
    assert_in_range(result.count, 1, sizeof result.gradients / sizeof(float));
    memcpy(result.gradients, et_params_gradients(model.params),
           (size_t)result.count * sizeof(float));
    test_model_close(&model);
    return result;
}

static void test_op_softmax_loss__is_the_vocabulary_loss(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        smoothing = k ? 0.1f : 0;
        outcome one = run(whole, true), other = run(in_blocks, true);
        assert_true(one.sums[ET_LOSS_SUM_TOKENS] == 8);
        for (int i = 0; i < ET_LOSS_SUM_COUNT; i++)
            assert_true(fabsf(one.sums[i] - other.sums[i]) < 1e-5f * fabsf(other.sums[i]) + 1e-6f);
        assert_int_equal(one.count, other.count);
        for (int64_t i = 0; i < one.count; i++)
            assert_true(fabsf(one.gradients[i] - other.gradients[i]) < 1e-5f);
    }
}

static void test_op_softmax_loss__without_derivatives(void **state)
{
    (void)state;
    smoothing = 0.1f;
    outcome one = run(whole, true), other = run(whole, false);
    assert_memory_equal(one.sums, other.sums, sizeof one.sums);
}

/* Logits are an output as well, so they must not change. */
static void test_op_softmax_loss__leaves_logits_alone(void **state)
{
    (void)state;
    et_params *params;
    et_graph *graph;
    et_device *device;
    et_plan *plan;
    et_graph_options options = { .training = true, .act = ET_F32 };
    assert_int_equal(et_params_new(&params, NULL), ET_OK);
    assert_int_equal(et_graph_new(&graph, params, &options, NULL), ET_OK);
    et_scope *s = et_graph_scope(graph);
    et_matmul_options transposed = { .transpose_b = true };
    et_node *logits = et_matmul(h(s), table(s), NULL, &transposed);
    et_node *outputs[] = { et_softmax_loss(logits, at(s), 0), logits };
    assert_int_equal(differentiate(graph, outputs[0], NULL), ET_OK);
    assert_int_equal(et_params_materialize(params, false, NULL), ET_OK);
    et_init_draw(params, 7);
    assert_int_equal(et_device_open(&device, NULL), ET_OK);
    assert_int_equal(et_plan_new(&plan, graph, device, outputs, 2, NULL, NULL), ET_OK);
    et_plan_bind(plan, "labels", labels);
    et_plan_run(plan, (et_random){ 1, 0, 0 });
    const float *kept = et_plan_output(plan, 1).data, *values = et_params_values(params);
    const float *rows = values + et_params_offset(params, et_params_find(params, "h"));
    const float *words = values + et_params_offset(params, et_params_find(params, "table"));
    for (int t = 0; t < ROWS; t++)
        for (int c = 0; c < CLASSES; c++) {
            float sum = 0;
            for (int d = 0; d < WIDTH; d++)
                sum += rows[t * WIDTH + d] * words[c * WIDTH + d];
            assert_true(fabsf(kept[t * CLASSES + c] - sum) < 1e-5f);
        }
    et_plan_free(plan);
    et_graph_free(graph);
    et_params_free(params);
    et_device_close(device);
}

static et_node *inner(et_scope *s)
{
    return et_sum(whole(s));
}

static void expect_refusal(test_build_fn *build, bool derive, const char *text)
{
    et_error error = ET_ERROR_INIT;
    et_params *params;
    et_graph *graph;
    et_graph_options options = { .training = true, .act = ET_F32 };
    assert_int_equal(et_params_new(&params, NULL), ET_OK);
    assert_int_equal(et_graph_new(&graph, params, &options, NULL), ET_OK);
    et_node *loss = build(et_graph_scope(graph));
    int status = derive ? differentiate(graph, loss, &error) : et_graph_finish(graph, &error);
    assert_int_equal(status, ET_EGRAPH);
    assert_non_null(strstr(error.text, text));
    et_graph_free(graph);
    et_params_free(params);
}

static et_node *short_labels(et_scope *s)
{
    return et_softmax_loss(h(s), et_input(s, "few", ET_I32, et_shape_1(ROWS - 1)), 0);
}

static void test_op_softmax_loss__refuses(void **state)
{
    (void)state;
    expect_refusal(short_labels, false, "not one int32 label for each row: h [9, 6] and few [8]");
    expect_refusal(inner, true, "a softmax_loss must be a loss itself");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_op_softmax_loss__is_the_vocabulary_loss),
        cmocka_unit_test(test_op_softmax_loss__without_derivatives),
        cmocka_unit_test(test_op_softmax_loss__leaves_logits_alone),
        cmocka_unit_test(test_op_softmax_loss__refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
