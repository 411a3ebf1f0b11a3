/* The vocabulary loss over vocabularies so large that its blocks get smaller: the numbers are
 * equal, and memory does not grow. test_op_softmax_loss compares it with the loss of whole logits;
 * test_gradients compares derivatives with finite differences. */
#include "engine/exec/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/exec/plan_private.h"
#include "engine/graph/build.h"

#define ROWS 300 /* no multiple of any block */

static int64_t words, width = 4;
static int32_t zeros[ROWS], labels[ROWS];

/* Rows of ones, of the activations' type. */
static et_node *loss(et_scope *s)
{
    et_node *ids = et_input(s, "ids", ET_I32, et_shape_1(ROWS));
    et_node *one = et_param(s, "one", et_shape_2(1, width), (et_init){ ET_INIT_ONES, 0 });
    et_node *table = et_param(s, "table", et_shape_2(words, width), (et_init){ ET_INIT_ONES, 0 });
    et_node *h = et_embedding(ids, one, 1, NULL, NULL);
    return et_vocabulary_loss(h, table, et_input(s, "labels", ET_I32, et_shape_1(ROWS)), 0);
}

/* Every seventh row is empty; all others have word 5 or the last one. */
static int fill_labels(int *of_five)
{
    int count = 0;
    *of_five = 0;
    for (int i = 0; i < ROWS; i++) {
        labels[i] = i % 7 == 6 ? -1 : i % 2 ? 5 : (int32_t)words - 1;
        count += labels[i] >= 0;
        *of_five += labels[i] == 5;
    }
    return count;
}

static const float *gradient_of(const test_model *model, const char *param)
{
    return et_params_gradients(model->params) +
           et_params_offset(model->params, et_params_find(model->params, param));
}

/* A table of ones gives every word 1/V: the loss of a row is log V, word w's gradient is (rows / V
 * - rows with label w) h, with h of ones, and h's is the sum of all, 0: a word too many or too few
 * is seen in both. */
static void check_even(int64_t vocabulary, et_dtype act)
{
    test_model model;
    int of_five;
    words = vocabulary;
    int count = fill_labels(&of_five);
    test_model_open_with(&model, loss, act, true, NULL);
    et_plan_bind(model.plan, "labels", labels);
    et_plan_bind(model.plan, "ids", zeros);
    et_plan_run(model.plan, (et_random){ 1, 0, 0 });
    const float *sums = et_plan_output(model.plan, 0).data;
    double expected = count * log((double)vocabulary);
    assert_float_equal(sums[ET_LOSS_SUM_LOSS], expected, 1e-3 * expected);
    assert_float_equal(sums[ET_LOSS_SUM_TOKENS], count, 0);
    const float *gradient = gradient_of(&model, "table");
    double others = (double)count / (double)vocabulary;
    for (int64_t word = 0; word < vocabulary; word++) {
        int labelled = word == 5 ? of_five : word == vocabulary - 1 ? count - of_five : 0;
        double tolerance = 0.01 * (labelled ? labelled : others);
        assert_float_equal(gradient[word * width], others - labelled, tolerance);
    }
    assert_float_equal(gradient_of(&model, "one")[0], 0, 0.01 * count);
    test_model_close(&model);
}

static void test_vocabulary_loss__small_blocks_add_up(void **state)
{
    (void)state;
    check_even(3000, ET_F32);   /* blocks of 256 rows */
    check_even(10000, ET_F32);  /* pieces of one and of two parts */
    check_even(60000, ET_F32);  /* fewer */
    check_even(400000, ET_F32); /* the fewest */
}

static void test_vocabulary_loss__bf16_blocks_add_up(void **state)
{
    (void)state;
    check_even(100000, ET_BF16);
}

/* Columns of the parts that threads take. */
static int64_t part_columns(int64_t vocabulary)
{
    test_model model;
    int64_t columns = 0;
    words = vocabulary;
    test_model_open_with(&model, loss, ET_F32, true, NULL);
    for (int i = 0; i < model.plan->call_count; i++) {
        const et_plan_call *step = &model.plan->calls[i];
        if (step->node->op == ET_OP_VOCABULARY_LOSS)
            columns = et_gemm_tile_part(step->gemm[0], 0).columns;
    }
    test_model_close(&model);
    return columns;
}

/* A vocabulary of bytes is work for four threads; one of a few words for one. */
static void test_vocabulary_loss__small_vocabularies(void **state)
{
    (void)state;
    assert_int_equal(part_columns(256), 64);
    assert_int_equal(part_columns(1000), 256);
    assert_int_equal(part_columns(100), 64);
    assert_int_equal(part_columns(10000), 384);
    check_even(20, ET_F32);
    check_even(256, ET_F32);
    check_even(300, ET_F32);
    check_even(700, ET_BF16);
}

/* Logits have a deviation of 2 whatever the width. */
static et_init drawn(void)
{
    return (et_init){ ET_INIT_NORMAL, powf(4.0f / (float)width, 0.25f) };
}

/* Rows of two draws, of as many rows as several blocks have, that differ in each row. */
static et_node *of_two_draws(et_scope *s)
{
    et_init init = drawn();
    et_node *h = et_param(s, "h", et_shape_2(ROWS, width), init);
    et_node *again = et_param(s, "again", et_shape_2(ROWS, width), init);
    et_node *table = et_param(s, "table", et_shape_2(words, width), init);
    return et_r_drop_loss(h, again, table, et_input(s, "labels", ET_I32, et_shape_1(ROWS)), 0.1f,
                          2);
}

/* The same of matrices that exist in full: sums of both cross-entropies, halved, and (p - q) (log p
 * - log q). */
static et_node *of_whole_logits(et_scope *s)
{
    et_init init = drawn();
    et_node *labels_at = et_input(s, "labels", ET_I32, et_shape_1(ROWS));
    et_node *table = et_param(s, "table", et_shape_2(words, width), init);
    et_node *h[] = { et_param(s, "h", et_shape_2(ROWS, width), init),
                     et_param(s, "again", et_shape_2(ROWS, width), init) };
    et_node *loss[2], *log_p[2];
    for (int i = 0; i < 2; i++) {
        et_matmul_options transposed = { .transpose_b = true };
        et_node *logits = et_matmul(h[i], table, NULL, &transposed);
        loss[i] = et_cross_entropy(logits, labels_at, 0.1f, NULL, NULL);
        log_p[i] = et_log_softmax(logits);
    }
    et_node *apart = et_mul(et_sub(et_exp(log_p[0]), et_exp(log_p[1])), et_sub(log_p[0], log_p[1]));
    et_node *divergence = et_mul(et_row_sum(apart), et_labelled(labels_at));
    return et_sum(et_add(et_scale(et_add(loss[0], loss[1]), 0.5f), et_scale(divergence, 0.5f)));
}

typedef struct outcome {
    float sums[ET_LOSS_SUM_COUNT];
    float *gradients; /* h, again, table */
    size_t count;
} outcome;

static const char *const of_draws[] = { "h", "again", "table" };

static outcome run_draws(test_build_fn *build, bool sums)
{
    test_model model;
    outcome found = { .count = (size_t)((2 * ROWS + words) * width) };
    test_model_open_with(&model, build, ET_F32, true, NULL);
    static const float one = 1;
    et_plan_bind(model.plan, ET_GRAPH_ONE, &one);
    et_plan_bind(model.plan, "labels", labels);
    et_plan_run(model.plan, (et_random){ 1, 0, 0 });
    memcpy(found.sums, et_plan_output(model.plan, 0).data,
           (sums ? ET_LOSS_SUM_COUNT : 1) * sizeof(float));
    float *to = found.gradients = malloc(found.count * sizeof *to);
    assert_non_null(to);
    for (int i = 0; i < 3; i++) {
        const size_t count = (size_t)((i < 2 ? ROWS : words) * width);
        memcpy(to, gradient_of(&model, of_draws[i]), count * sizeof *to);
        to += count;
    }
    test_model_close(&model);
    return found;
}

static void check_draws(int64_t vocabulary, double tolerance)
{
    int of_five;
    words = vocabulary;
    const int count = fill_labels(&of_five);
    for (int t = 0; t < ROWS; t++)
        labels[t] = labels[t] >= (int32_t)words ? 0 : labels[t];
    outcome found = run_draws(of_two_draws, true), expected = run_draws(of_whole_logits, false);
    assert_float_equal(found.sums[ET_LOSS_SUM_LOSS], expected.sums[0],
                       1e-5 * fabs(expected.sums[0]));
    assert_float_equal(found.sums[ET_LOSS_SUM_TOKENS], count, 0);
    for (size_t k = 0; k < found.count; k++)
        assert_float_equal(found.gradients[k], expected.gradients[k],
                           tolerance * (1 + fabs(expected.gradients[k])));
    free(found.gradients);
    free(expected.gradients);
}

static void test_vocabulary_loss__two_draws(void **state)
{
    (void)state;
    check_draws(5, 5e-5);
    check_draws(300, 5e-5);
    check_draws(10000, 5e-5);
    check_draws(60000, 1e-3); /* sums of float32 in full rows */
}

/* Rows so wide that without panels Etude's own kernel reads the table in place. */
static void test_vocabulary_loss__wide_rows(void **state)
{
    (void)state;
    width = 512;
    check_draws(1000, 5e-5); /* three parts of 256 columns, and one of 232 */
    check_draws(100, 5e-5);
    check_even(3000, ET_F32);
    check_even(700, ET_BF16);
    width = 4;
}

/* An evaluation has the same sums, and needs no room for derivatives. */
static void test_vocabulary_loss__two_draws_without_derivatives(void **state)
{
    (void)state;
    int of_five;
    words = 1000;
    fill_labels(&of_five);
    outcome trained = run_draws(of_two_draws, true);
    test_model model;
    test_model_open_with(&model, of_two_draws, ET_F32, false, NULL);
    et_plan_bind(model.plan, "labels", labels);
    et_plan_run(model.plan, (et_random){ 1, 0, 0 });
    assert_memory_equal(et_plan_output(model.plan, 0).data, trained.sums, sizeof trained.sums);
    test_model_close(&model);
    free(trained.gradients);
}

static size_t step_memory(int64_t vocabulary)
{
    test_model model;
    words = vocabulary;
    test_model_open_with(&model, loss, ET_F32, true, NULL);
    size_t bytes = et_plan_memory_needed(model.plan).activations;
    test_model_close(&model);
    return bytes;
}

/* Both are so large that blocks of all rows would need more than the bound. */
static void test_vocabulary_loss__memory_is_bounded(void **state)
{
    (void)state;
    size_t some = step_memory(64000), more = step_memory(256000);
    assert_in_range(more, 1, some + some / 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vocabulary_loss__small_blocks_add_up),
        cmocka_unit_test(test_vocabulary_loss__bf16_blocks_add_up),
        cmocka_unit_test(test_vocabulary_loss__small_vocabularies),
        cmocka_unit_test(test_vocabulary_loss__two_draws),
        cmocka_unit_test(test_vocabulary_loss__wide_rows),
        cmocka_unit_test(test_vocabulary_loss__two_draws_without_derivatives),
        cmocka_unit_test(test_vocabulary_loss__memory_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
