/* Softmax by sampled classes: the drawn classes, and the loss over them compared with the loss over
 * whole logits. */
#include "engine/exec/model.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "engine/graph/build.h"
#include "engine/tensor/params.h"

#define ROWS    300 /* no multiple of any block */
#define WIDTH   24
#define CLASSES 5000
#define COUNT   700 /* two parts, one of them partial */

static int32_t labels[ROWS];

/* Every seventh row is empty; a class is the label of several. */
static void fill_labels(void)
{
    for (int i = 0; i < ROWS; i++)
        labels[i] = i % 7 == 6 ? -1 : i * i * 31 % CLASSES;
}

static int compare(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* The labels' classes, ascending; returns how many. */
static int distinct_labels(int32_t *to)
{
    int32_t sorted[ROWS];
    int count = 0;
    memcpy(sorted, labels, sizeof sorted);
    qsort(sorted, ROWS, sizeof *sorted, compare);
    for (int i = 0; i < ROWS; i++)
        if (sorted[i] >= 0 && (count == 0 || sorted[i] != to[count - 1]))
            to[count++] = sorted[i];
    return count;
}

typedef struct drawn {
    et_params *params;
    et_graph *graph;
    et_device *device;
    et_plan *plan;
    const int32_t *candidates, *places; /* [count], [ROWS] */
    const float *offsets;               /* [count] */
} drawn;

static void open_drawn(drawn *d, int64_t classes, int64_t count)
{
    et_error error = ET_ERROR_INIT;
    const et_graph_options options = { .training = true, .act = ET_F32 };
    et_node *outputs[3];
    assert_int_equal(et_params_new(&d->params, &error), ET_OK);
    assert_int_equal(et_graph_new(&d->graph, d->params, &options, &error), ET_OK);
    et_scope *s = et_graph_scope(d->graph);
    et_node *at = et_input(s, "labels", ET_I32, et_shape_1(ROWS));
    outputs[0] = et_candidates(s, "drawn", at, classes, count, &outputs[1], &outputs[2]);
    if (et_graph_finish(d->graph, &error))
        fail_msg("%s", error.text);
    assert_int_equal(et_params_materialize(d->params, false, &error), ET_OK);
    assert_int_equal(et_device_open(&d->device, &error), ET_OK);
    if (et_plan_new(&d->plan, d->graph, d->device, outputs, 3, NULL, &error))
        fail_msg("%s", error.text);
    et_plan_bind(d->plan, "labels", labels);
}

static void draw(drawn *d, uint64_t step)
{
    et_plan_run(d->plan, (et_random){ 5, step, 0 });
    d->candidates = et_plan_output(d->plan, 0).data;
    d->places = et_plan_output(d->plan, 1).data;
    d->offsets = et_plan_output(d->plan, 2).data;
}

static void close_drawn(drawn *d)
{
    et_plan_free(d->plan);
    et_graph_free(d->graph);
    et_params_free(d->params);
    et_device_close(d->device);
}

static void test_candidates__labels_come_first(void **state)
{
    (void)state;
    drawn d;
    int32_t own[ROWS];
    fill_labels();
    const int count = distinct_labels(own);
    open_drawn(&d, CLASSES, COUNT);
    draw(&d, 3);
    assert_memory_equal(d.candidates, own, (size_t)count * sizeof *own);
    const float expected = (float)log((double)(CLASSES - count) / (COUNT - count));
    for (int i = 0; i < COUNT; i++)
        assert_true(d.offsets[i] == (i < count ? 0 : expected));
    for (int t = 0; t < ROWS; t++)
        assert_int_equal(d.places[t] < 0 ? -1 : d.candidates[d.places[t]], labels[t]);
    close_drawn(&d);
}

/* No class twice, each other one about equally often, and another draw in each step. */
static void test_candidates__others_are_drawn_evenly(void **state)
{
    (void)state;
    enum { STEPS = 400 };
    static int times[CLASSES];
    drawn d;
    int32_t own[ROWS];
    fill_labels();
    const int count = distinct_labels(own);
    const double chance = (double)(COUNT - count) / (CLASSES - count);
    const double mean = STEPS * chance, deviation = sqrt(mean * (1 - chance));
    memset(times, 0, sizeof times);
    open_drawn(&d, CLASSES, COUNT);
    for (uint64_t step = 0; step < STEPS; step++) {
        bool taken[CLASSES] = { false };
        draw(&d, step);
        for (int i = 0; i < COUNT; i++) {
            assert_in_range(d.candidates[i], 0, CLASSES - 1);
            assert_false(taken[d.candidates[i]]);
            taken[d.candidates[i]] = true;
            times[d.candidates[i]]++;
        }
    }
    for (int i = 0; i < count; i++)
        times[own[i]] = (int)mean;
    double squares = 0;
    for (int i = 0; i < CLASSES; i++) {
        const double apart = (times[i] - mean) / deviation;
        assert_true(fabs(apart) < 6);
        squares += apart * apart;
    }
    assert_float_equal(squares / (CLASSES - count), 1, 0.15);
    close_drawn(&d);
}

/* If all classes are wanted, every class is drawn and stands for itself. */
static void test_candidates__of_all_classes(void **state)
{
    (void)state;
    drawn d;
    bool taken[CLASSES] = { false };
    fill_labels();
    open_drawn(&d, CLASSES, CLASSES);
    draw(&d, 0);
    for (int i = 0; i < CLASSES; i++) {
        taken[d.candidates[i]] = true;
        assert_true(d.offsets[i] == 0);
    }
    for (int i = 0; i < CLASSES; i++)
        assert_true(taken[i]);
    close_drawn(&d);
}

/* ---- the loss ---- */

static int64_t count_of = COUNT;

static et_node *param(et_scope *s, const char *name, int64_t rows)
{
    /* Logits have a deviation of 2. */
    const et_init init = { ET_INIT_NORMAL, powf(4.0f / WIDTH, 0.25f) };
    return et_param(s, name, et_shape_2(rows, WIDTH), init);
}

/* Of the activations' type whatever that is. */
static et_node *rows_of(et_scope *s)
{
    et_node *ids = et_input(s, "ids", ET_I32, et_shape_1(ROWS));
    return et_embedding(ids, param(s, "h", ROWS), 1, NULL, NULL);
}

static et_node *sampled(et_scope *s)
{
    et_node *at = et_input(s, "labels", ET_I32, et_shape_1(ROWS));
    et_node *h = rows_of(s), *table = param(s, "table", CLASSES);
    return et_sampled_loss(s, h, table, at, 0.1f, count_of);
}

/* The same of matrices that exist in full. */
static et_node *of_whole_logits(et_scope *s)
{
    const et_matmul_options options = { .transpose_b = true, .f32 = true };
    et_node *at = et_input(s, "labels", ET_I32, et_shape_1(ROWS)), *places, *offsets;
    et_node *h = rows_of(s), *table = param(s, "table", CLASSES);
    et_node *candidates = et_candidates(s, "candidates", at, CLASSES, count_of, &places, &offsets);
    et_node *logits = et_matmul(h, et_gather_rows(table, candidates), NULL, &options);
    return et_sum(et_cross_entropy(et_bias(logits, offsets), places, 0.1f, NULL, NULL));
}

typedef struct outcome {
    float loss, tokens;
    float *gradients; /* [count] of h and table */
    size_t count;
} outcome;

static outcome run_planned(test_build_fn *build, et_dtype act, bool sums,
                           const et_plan_options *options)
{
    static const float one = 1;
    static int32_t ids[ROWS];
    test_model model;
    outcome found = { .tokens = 0 };
    for (int i = 0; i < ROWS; i++)
        ids[i] = i;
    test_model_open_with(&model, build, act, true, options);
    et_plan_bind(model.plan, ET_GRAPH_ONE, &one);
    et_plan_bind(model.plan, "labels", labels);
    et_plan_bind(model.plan, "ids", ids);
    et_plan_run(model.plan, (et_random){ 1, 2, 0 });
    const float *result = et_plan_output(model.plan, 0).data;
    found.loss = result[0];
    if (sums)
        found.tokens = result[ET_LOSS_SUM_TOKENS];
    found.count = (size_t)et_params_trained_size(model.params);
    found.gradients = malloc(found.count * sizeof *found.gradients);
    assert_non_null(found.gradients);
    memcpy(found.gradients, et_params_gradients(model.params),
           found.count * sizeof *found.gradients);
    test_model_close(&model);
    return found;
}

static outcome run_loss(test_build_fn *build, et_dtype act, bool sums)
{
    return run_planned(build, act, sums, NULL);
}

static void assert_same(outcome found, outcome expected)
{
    assert_memory_equal(&found.loss, &expected.loss, sizeof found.loss);
    assert_int_equal(found.count, expected.count);
    assert_memory_equal(found.gradients, expected.gradients, found.count * sizeof *found.gradients);
    free(found.gradients);
    free(expected.gradients);
}

static void check_against(const outcome *found, const outcome *expected, double tolerance)
{
    assert_float_equal(found->loss, expected->loss, tolerance * fabs((double)expected->loss));
    assert_int_equal(found->count, expected->count);
    for (size_t k = 0; k < found->count; k++)
        assert_float_equal(found->gradients[k], expected->gradients[k],
                           tolerance * (1 + fabs((double)expected->gradients[k])));
}

static void check_loss(int64_t count, et_dtype act, double tolerance)
{
    fill_labels();
    count_of = count;
    /* What exists in full is rounded to bfloat16 more often: it is no reference there. */
    outcome found = run_loss(sampled, act, true);
    outcome expected = run_loss(of_whole_logits, ET_F32, false);
    const int rows = ROWS - ROWS / 7;
    assert_float_equal(found.tokens, rows, 0);
    check_against(&found, &expected, tolerance);
    free(found.gradients);
    free(expected.gradients);
}

static void test_candidates__loss_is_that_of_whole_logits(void **state)
{
    (void)state;
    check_loss(COUNT, ET_F32, 2e-5);
    check_loss(ROWS, ET_F32, 2e-5); /* the fewest */
    check_loss(4999, ET_F32, 2e-5);
    check_loss(COUNT, ET_BF16, 0.03);
}

/* Compared row by row, since gradients of words that were only drawn are small. */
static void test_candidates__bf16_gradients_by_row(void **state)
{
    (void)state;
    fill_labels();
    count_of = COUNT;
    outcome found = run_loss(sampled, ET_BF16, true), expected = run_loss(sampled, ET_F32, true);
    int rows = 0;
    for (size_t at = 0; at + WIDTH <= found.count; at += WIDTH) {
        double apart = 0, size = 0;
        for (size_t k = at; k < at + WIDTH; k++) {
            const double x = (double)found.gradients[k], y = (double)expected.gradients[k];
            apart += (x - y) * (x - y);
            size += y * y;
        }
        assert_true(size > 0 || apart == 0);
        if (size > 0)
            assert_true(sqrt(apart / size) < 0.1);
        rows += size > 0;
    }
    assert_int_equal(rows, ROWS - ROWS / 7 + COUNT);
    free(found.gradients);
    free(expected.gradients);
}

static void test_candidates__same_bits_for_any_threads(void **state)
{
    (void)state;
    const et_dtype acts[] = { ET_F32, ET_BF16 };
    const int threads = omp_get_max_threads();
    fill_labels();
    count_of = 1900;
    for (int i = 0; i < 2; i++) {
        omp_set_num_threads(1);
        outcome one = run_loss(sampled, acts[i], true);
        omp_set_num_threads(3);
        assert_same(run_loss(sampled, acts[i], true), one);
    }
    omp_set_num_threads(threads);
}

static void test_candidates__no_labels(void **state)
{
    (void)state;
    for (int i = 0; i < ROWS; i++)
        labels[i] = -1;
    count_of = COUNT;
    outcome found = run_loss(sampled, ET_F32, true);
    assert_float_equal(found.loss, 0, 0);
    assert_float_equal(found.tokens, 0, 0);
    for (size_t k = 0; k < found.count; k++)
        assert_float_equal(found.gradients[k], 0, 0);
    free(found.gradients);
}

static et_node *of_all_words(et_scope *s)
{
    et_node *at = et_input(s, "labels", ET_I32, et_shape_1(ROWS));
    et_node *h = rows_of(s), *table = param(s, "table", CLASSES);
    return et_vocabulary_loss(h, table, at, 0.1f);
}

/* A table that is computed, here a parameter by way of an op that changes nothing. */
static et_node *of_computed_table(et_scope *s)
{
    et_node *at = et_input(s, "labels", ET_I32, et_shape_1(ROWS));
    et_node *h = rows_of(s), *table = et_scale(param(s, "table", CLASSES), 1);
    return et_vocabulary_loss(h, table, at, 0.1f);
}

static et_node *of_draws_by(et_scope *s, bool computed)
{
    et_node *at = et_input(s, "labels", ET_I32, et_shape_1(ROWS));
    et_node *h = rows_of(s), *table = param(s, "table", CLASSES);
    table = computed ? et_scale(table, 1) : table;
    return et_r_drop_loss(h, et_scale(h, 0.5f), table, at, 0.1f, 2);
}

static et_node *of_two_draws(et_scope *s)
{
    return of_draws_by(s, false);
}

static et_node *of_two_draws_computed(et_scope *s)
{
    return of_draws_by(s, true);
}

static void test_candidates__a_table_may_be_computed(void **state)
{
    (void)state;
    const et_dtype acts[] = { ET_F32, ET_BF16 };
    const et_plan_options kept = { .keep_packed = true };
    fill_labels();
    for (int i = 0; i < 2; i++) {
        assert_same(run_loss(of_computed_table, acts[i], true),
                    run_loss(of_all_words, acts[i], true));
        assert_same(run_loss(of_two_draws_computed, acts[i], true),
                    run_loss(of_two_draws, acts[i], true));
        assert_same(run_planned(of_computed_table, acts[i], true, &kept),
                    run_loss(of_computed_table, acts[i], true));
    }
}

/* With a table that is not trained, h's derivatives are the same. */
static et_node *of_fixed_table(et_scope *s)
{
    const et_init init = { ET_INIT_NORMAL, powf(4.0f / WIDTH, 0.25f) };
    et_node *at = et_input(s, "labels", ET_I32, et_shape_1(ROWS));
    et_node *h = rows_of(s);
    et_node *table = et_variable(s, "table", et_shape_2(CLASSES, WIDTH), init);
    return et_sampled_loss(s, h, table, at, 0.1f, count_of);
}

static void test_candidates__a_table_may_be_fixed(void **state)
{
    (void)state;
    fill_labels();
    count_of = COUNT;
    outcome found = run_loss(of_fixed_table, ET_F32, true),
            expected = run_loss(sampled, ET_F32, true);
    assert_memory_equal(&found.loss, &expected.loss, sizeof found.loss);
    assert_memory_equal(found.gradients, expected.gradients, ROWS * WIDTH * sizeof(float));
    free(found.gradients);
    free(expected.gradients);
}

/* If the number of candidates is that of all words, nothing is drawn: the loss has the bits of the
 * whole loss. */
static void test_candidates__loss_by_all_words(void **state)
{
    (void)state;
    fill_labels();
    count_of = CLASSES;
    assert_same(run_loss(sampled, ET_F32, true), run_loss(of_all_words, ET_F32, true));
}

/* The mean of many draws' derivatives by the rows is about that of all words: the sum of
 * exponentials is estimated without bias, and its logarithm nearly so. */
static void test_candidates__derivatives_are_those_of_all_words(void **state)
{
    (void)state;
    enum { STEPS = 300 };
    static double mean[ROWS * WIDTH];
    static int32_t ids[ROWS];
    test_model model;
    fill_labels();
    count_of = 2500;
    memset(mean, 0, sizeof mean);
    for (int i = 0; i < ROWS; i++)
        ids[i] = i;
    test_model_open(&model, sampled);
    et_plan_bind(model.plan, "labels", labels);
    et_plan_bind(model.plan, "ids", ids);
    const int64_t at = et_params_offset(model.params, et_params_find(model.params, "h"));
    for (uint64_t step = 0; step < STEPS; step++) {
        et_plan_run(model.plan, (et_random){ 1, step, 0 });
        for (int i = 0; i < ROWS * WIDTH; i++)
            mean[i] += (double)et_params_gradients(model.params)[at + i] / STEPS;
    }
    test_model_close(&model);
    outcome expected = run_loss(of_all_words, ET_F32, true), once = run_loss(sampled, ET_F32, true);
    assert_float_equal(once.loss, expected.loss, 0.05 * (double)expected.loss);
    free(once.gradients);
    double apart = 0, size = 0;
    for (int i = 0; i < ROWS * WIDTH; i++) {
        const double whole = (double)expected.gradients[at + i];
        apart += (mean[i] - whole) * (mean[i] - whole);
        size += whole * whole;
    }
    assert_true(sqrt(apart / size) < 0.02);
    free(expected.gradients);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_candidates__labels_come_first),
        cmocka_unit_test(test_candidates__others_are_drawn_evenly),
        cmocka_unit_test(test_candidates__of_all_classes),
        cmocka_unit_test(test_candidates__loss_is_that_of_whole_logits),
        cmocka_unit_test(test_candidates__bf16_gradients_by_row),
        cmocka_unit_test(test_candidates__same_bits_for_any_threads),
        cmocka_unit_test(test_candidates__no_labels),
        cmocka_unit_test(test_candidates__a_table_may_be_computed),
        cmocka_unit_test(test_candidates__a_table_may_be_fixed),
        cmocka_unit_test(test_candidates__loss_by_all_words),
        cmocka_unit_test(test_candidates__derivatives_are_those_of_all_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
