/* Losses of rows: their values by the formulas in double, their derivatives compared with finite
 * differences, rows that are empty or have weight 0, and the nodes that are fused into one pass. */
#include "engine/exec/gradients.h"

#include "base/dtype.h"
#include "engine/exec/plan_private.h"
#include "engine/graph/build.h"
#include "engine/graph/graph.h"

#define CLASSES 5

static const int32_t labels[ROWS] = { 3, 0, -1, 4, 2, 3, 1 };
static const float row_weights[ROWS] = { 1, 0.5f, 3, 0, 2, 1, 0.25f };
static float targets[ROWS * WIDTH];

static et_node *target(et_scope *s)
{
    return et_input(s, "target", ET_F32, et_shape_2(ROWS, WIDTH));
}

static et_node *labels_of(et_scope *s)
{
    return et_input(s, "labels", ET_I32, et_shape_1(ROWS));
}

static et_node *logits(et_scope *s)
{
    return param(s, "logits", ROWS, CLASSES);
}

static et_node *by_rows(et_scope *s, et_node *loss)
{
    return et_weighted_sum(loss, et_input(s, "row_weights", ET_F32, et_shape_2(ROWS, 1)));
}

/* ---- the cases ---- */

static et_node *build_squared(et_scope *s)
{
    return by_rows(s, et_squared_error(x(s), target(s)));
}

static et_node *build_absolute(et_scope *s)
{
    return by_rows(s, et_absolute_error(x(s), target(s)));
}

static et_node *build_huber(et_scope *s)
{
    return by_rows(s, et_huber_error(x(s), target(s), 0.7f));
}

static et_node *build_binary(et_scope *s)
{
    return by_rows(s, et_binary_cross_entropy(et_scale(x(s), 3), et_sigmoid(target(s))));
}

static et_node *build_classes(et_scope *s)
{
    return by_rows(s, et_cross_entropy(logits(s), labels_of(s), 0.1f, NULL, NULL));
}

static et_node *build_sums(et_scope *s)
{
    et_node *centred = et_sub(x(s), et_column_mean(x(s)));
    et_node *norm = et_sqrt(et_offset(et_row_mean(et_square(centred)), 0.1f));
    return et_add(et_mean(et_div(centred, norm)), by_rows(s, et_row_sum(et_tanh(x(s)))));
}

/* Two losses of one model, which add up, each with a factor. */
static et_node *build_two(et_scope *s)
{
    return et_add(build_huber(s), et_scale(build_classes(s), 0.3f));
}

static double squared(double p, double t)
{
    return (p - t) * (p - t);
}

static double absolute(double p, double t)
{
    return fabs(p - t);
}

static double huber(double p, double t)
{
    double r = fabs(p - t);
    return r <= 0.7 ? r * r / 2 : 0.7 * (r - 0.35);
}

static double binary(double p, double t)
{
    double q = 1 / (1 + exp(-3 * p)), s = 1 / (1 + exp(-t));
    return -s * log(q) - (1 - s) * log(1 - q);
}

static const struct {
    const char *name;
    test_build_fn *build;
    double (*of)(double p, double t); /* of one column; NULL: only the derivative is checked */
} cases[] = {
    { "squared", build_squared, squared },
    { "absolute", build_absolute, absolute },
    { "huber", build_huber, huber },
    { "binary", build_binary, binary },
    { "classes", build_classes, NULL },
    { "sums", build_sums, NULL },
    { "two", build_two, NULL },
};

static void bind(et_plan *plan)
{
    for (int i = 0; i < ROWS * WIDTH; i++)
        targets[i] = cosf(3.0f * (float)i);
    bind_weights(plan);
    et_plan_bind(plan, "target", targets);
    et_plan_bind(plan, "labels", labels);
    et_plan_bind(plan, "row_weights", row_weights);
}

static float output(const et_plan *plan, int i)
{
    return *(const float *)et_plan_output(plan, i).data;
}

/* ---- values ---- */

static void test_losses__values(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_model model;
        if (!cases[i].of)
            continue;
        test_model_open(&model, cases[i].build);
        bind(model.plan);
        et_plan_run(model.plan, randomness);
        const float *p = et_params_values(model.params);
        double wanted = 0;
        for (int k = 0; k < ROWS * WIDTH; k++)
            wanted += row_weights[k / WIDTH] * cases[i].of(p[k], targets[k]) / WIDTH;
        if (fabs(output(model.plan, 0) - wanted) > 1e-5)
            fail_msg("%s: %g, not %g", cases[i].name, (double)output(model.plan, 0), wanted);
        test_model_close(&model);
    }
}

static void test_losses__derivatives(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_model model;
        test_model_open(&model, cases[i].build);
        bind(model.plan);
        check_params(&model, cases[i].name);
        test_model_close(&model);
    }
}

/* ---- classes ---- */

/* -log p of the label in double, and whether the label is the likeliest. */
static double nll_of(const float *z, int32_t label, bool *correct)
{
    double sum = 0;
    *correct = true;
    for (int c = 0; c < CLASSES; c++) {
        sum += exp(z[c]);
        *correct = *correct && z[c] <= z[label];
    }
    return log(sum) - z[label];
}

/* The values that a pass of a classifier reads: the loss, and the sums of its metrics. */
static void test_losses__classes(void **state)
{
    (void)state;
    test_model model;
    et_error error = ET_ERROR_INIT;
    test_model_open_with(&model, build_classes, ET_F32, false, NULL);
    et_scope *s = et_graph_scope(model.graph);
    et_node *nll, *correct, *counted = et_labelled(labels_of(s));
    et_node *loss = et_cross_entropy(logits(s), labels_of(s), 0, &nll, &correct);
    et_node *outputs[] = { loss, nll, correct, counted, et_sum(counted) };
    et_plan_free(model.plan);
    assert_int_equal(et_plan_new(&model.plan, model.graph, model.device, outputs, 5, NULL, &error),
                     ET_OK);
    bind(model.plan);
    et_plan_run(model.plan, randomness);
    for (int t = 0; t < ROWS; t++) {
        const float *z = et_params_values(model.params) + (ptrdiff_t)t * CLASSES;
        bool is_correct = false;
        double wanted = labels[t] < 0 ? 0 : nll_of(z, labels[t], &is_correct);
        float row[4];
        for (int k = 0; k < 4; k++)
            row[k] = ((const float *)et_plan_output(model.plan, k).data)[t];
        assert_true(fabs(row[0] - wanted) < 1e-5 && fabs(row[1] - wanted) < 1e-5);
        assert_true(row[2] == (float)is_correct && row[3] == (float)(labels[t] >= 0));
    }
    assert_true(output(model.plan, 4) == ROWS - 1);
    test_model_close(&model);
}

/* The same sum and the same derivatives as the loss that is one op, whose rows all weigh 1. */
static et_node *build_whole(et_scope *s)
{
    return et_softmax_loss(logits(s), labels_of(s), 0.1f);
}

static et_node *build_by_rows(et_scope *s)
{
    return et_weighted_sum(et_cross_entropy(logits(s), labels_of(s), 0.1f, NULL, NULL), NULL);
}

static void test_losses__classes_as_one_op(void **state)
{
    (void)state;
    test_model whole, rows;
    test_model_open(&whole, build_whole);
    test_model_open(&rows, build_by_rows);
    bind(whole.plan);
    bind(rows.plan);
    et_plan_run(whole.plan, randomness);
    et_plan_run(rows.plan, randomness);
    assert_true(fabsf(output(whole.plan, 0) - output(rows.plan, 0)) < 1e-5f);
    assert_memory_equal(et_params_gradients(whole.params), et_params_gradients(rows.params),
                        (size_t)(ROWS * CLASSES) * sizeof(float));
    test_model_close(&whole);
    test_model_close(&rows);
}

/* ---- rows that count nothing ---- */

/* Row 2 has no label, row 3 no weight: their logits have no derivative, whatever their values. */
static void test_losses__empty_rows(void **state)
{
    (void)state;
    test_model model;
    test_model_open(&model, build_classes);
    bind(model.plan);
    float *values = et_params_values(model.params), loss[2];
    for (int run = 0; run < 2; run++) {
        et_plan_run(model.plan, randomness);
        loss[run] = output(model.plan, 0);
        et_params_begin_change(model.params);
        for (int c = 2 * CLASSES; c < 4 * CLASSES; c++) {
            assert_true(et_params_gradients(model.params)[c] == 0);
            values[c] = 1e4f * (float)c;
        }
        et_params_changed(model.params, true);
    }
    assert_true(loss[0] == loss[1]);
    test_model_close(&model);
}

/* Stable: at logits of 90 the logistic function is 1 to the last bit, and its logarithm lost. */
static et_node *build_extreme(et_scope *s)
{
    return et_sum(et_binary_cross_entropy(et_scale(x(s), 90), et_relu(x(s))));
}

static void test_losses__binary_is_stable(void **state)
{
    (void)state;
    test_model model;
    test_model_open(&model, build_extreme);
    bind_weights(model.plan);
    et_params_begin_change(model.params);
    for (int i = 0; i < ROWS * WIDTH; i++)
        et_params_values(model.params)[i] = i % 2 ? 1 : -1;
    et_params_changed(model.params, true);
    et_plan_run(model.plan, randomness);
    assert_true(fabsf(output(model.plan, 0)) < 1e-6f);
    et_params_begin_change(model.params);
    for (int i = 0; i < ROWS * WIDTH; i++)
        et_params_values(model.params)[i] = i % 2 ? 0.5f : -1;
    et_params_changed(model.params, true);
    et_plan_run(model.plan, randomness);
    assert_true(fabsf(output(model.plan, 0) - ROWS * 22.5f / 2) < 1e-3f);
    for (int i = 0; i < ROWS * WIDTH; i++)
        assert_true(isfinite(et_params_gradients(model.params)[i]));
    test_model_close(&model);
}

/* ---- bfloat16, and passes ---- */

static et_node *activation(et_scope *s)
{
    et_node *w = et_param(s, "w", et_shape_2(WIDTH, WIDTH), (et_init){ ET_INIT_NORMAL, 0.4f });
    et_node *in = et_input(s, "in", et_graph_act(et_scope_graph(s)), et_shape_2(ROWS, WIDTH));
    return et_matmul(in, w, NULL, NULL);
}

static et_node *build_bf16(et_scope *s)
{
    et_node *h = activation(s);
    et_node *probable = et_mul(et_softmax(h), et_exp(et_log_softmax(h)));
    et_node *loss = et_add(et_huber_error(h, target(s), 0.7f), et_row_sum(probable));
    return by_rows(s, et_add(loss, et_cross_entropy(h, labels_of(s), 0.1f, NULL, NULL)));
}

/* The same model in both types, on inputs that both hold exactly: losses and gradients differ by
 * the rounding of activations. */
static void test_losses__bf16(void **state)
{
    (void)state;
    static float wide[ROWS * WIDTH];
    static et_bf16 narrow[ROWS * WIDTH];
    for (int i = 0; i < ROWS * WIDTH; i++) {
        narrow[i] = et_bf16_from_float(sinf((float)i));
        wide[i] = et_bf16_to_float(narrow[i]);
    }
    test_model model;
    test_model_open_with(&model, build_bf16, ET_BF16, true, NULL);
    bind(model.plan);
    et_plan_bind(model.plan, "in", narrow);
    et_plan_run(model.plan, randomness);
    const float *w = et_params_values(model.params);
    double wanted = 0;
    for (int t = 0; t < ROWS; t++) {
        double h[WIDTH], sum = 0, entropy = 0.9 * log(0.9) + 0.1 * log(0.02), loss = 0;
        for (int d = 0; d < WIDTH; d++) {
            h[d] = 0;
            for (int k = 0; k < WIDTH; k++)
                h[d] += wide[t * WIDTH + k] * w[k * WIDTH + d];
            sum += exp(h[d]);
            loss += huber(h[d], targets[t * WIDTH + d]) / WIDTH;
        }
        for (int d = 0; d < WIDTH; d++) {
            double p = exp(h[d]) / sum;
            loss += p * p;
            if (labels[t] >= 0)
                loss -= (d == labels[t] ? 0.9 : 0.02) * log(p);
        }
        wanted += row_weights[t] * (loss + (labels[t] >= 0 ? entropy : 0));
    }
    if (fabs(output(model.plan, 0) - wanted) > 1e-2 * wanted)
        fail_msg("%g, not %g", (double)output(model.plan, 0), wanted);
    test_model exact;
    test_model_open_with(&exact, build_bf16, ET_F32, true, NULL);
    bind(exact.plan);
    et_plan_bind(exact.plan, "in", wide);
    et_plan_run(exact.plan, randomness);
    assert_true(fabs(output(exact.plan, 0) - wanted) < 1e-4 * wanted);
    for (int i = 0; i < WIDTH * WIDTH; i++) {
        float near = et_params_gradients(model.params)[i],
              is = et_params_gradients(exact.params)[i];
        if (!(fabsf(near - is) <= 0.02f + 0.02f * fabsf(is)))
            fail_msg("gradient %d: %g, in float32 %g", i, (double)near, (double)is);
    }
    test_model_close(&exact);
    test_model_close(&model);
}

/* Huber's loss, forward, is a pass over the elements, a sum over columns, and one pass over rows:
 * clamp, differences and products are one program. */
static void test_losses__fused(void **state)
{
    (void)state;
    test_model model;
    test_model_open_with(&model, build_huber, ET_F32, false, NULL);
    assert_int_equal(et_plan_calls(model.plan), 4);
    assert_int_equal(model.plan->calls[0].program.steps, 6);
    assert_int_equal(model.plan->calls[2].program.steps, 2);
    test_model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_losses__values),     cmocka_unit_test(test_losses__derivatives),
        cmocka_unit_test(test_losses__classes),    cmocka_unit_test(test_losses__classes_as_one_op),
        cmocka_unit_test(test_losses__empty_rows), cmocka_unit_test(test_losses__binary_is_stable),
        cmocka_unit_test(test_losses__bf16),       cmocka_unit_test(test_losses__fused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
