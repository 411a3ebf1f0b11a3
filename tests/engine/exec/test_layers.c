/* Plans with views, pieces, tables by column, norms over a batch, images and samples: values, and
 * settings that must not change them. Derivatives are in test_gradients.c. */
#include "engine/exec/model.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include <etude/ops_random.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "engine/graph/build.h"
#include "engine/graph/graph.h"
#include "engine/tensor/params.h"

enum { BATCH = 12, SIDE = 9, COLUMNS = 3, CLASSES = 4 };

static const et_column columns[COLUMNS] = { { 6, 3 }, { 4, 1 }, { 50, 5 } };
static float pixels[BATCH * SIDE * SIDE * 2];
static et_bf16 narrow_pixels[BATCH * SIDE * SIDE * 2];
static int32_t categories[BATCH][COLUMNS], labels[BATCH];

/* All ops in one: an image net whose rows join embeddings of columns and a sample. */
static et_node *net(et_scope *s)
{
    et_conv2d_options same = { .window = { .same = true }, .activation = ET_ACTIVATION_RELU };
    et_conv2d_options half = { .window = { .stride = { 2, 2 } }, .no_bias = true };
    et_pool_options two = { .window = { 2, 2 }, .same = true };
    et_init ones = { ET_INIT_ONES, 0 }, zeros = { ET_INIT_ZEROS, 0 };
    et_graph *graph = et_scope_graph(s);
    et_node *flat = et_input(s, "pixels", et_graph_act(graph), et_shape_2(BATCH, SIDE * SIDE * 2));
    et_node *h = et_reshape(flat, et_shape_4(BATCH, SIDE, SIDE, 2));
    h = et_conv2d(et_in(s, "first"), h, 5, 3, 3, &same);
    h = et_max_pool(h, &two);
    h = et_batch_norm(h, et_param(s, "scale", et_shape_1(5), ones),
                      et_param(s, "offset", et_shape_1(5), zeros), NULL, 1e-3f, NULL, NULL);
    et_node *direct = et_reshape(et_mean_pool(h, NULL), et_shape_2(BATCH, 5));
    h = et_conv2d(et_in(s, "second"), et_tanh(h), 7, 2, 2, &half);
    h = et_reshape(h, et_shape_2(BATCH, 2 * 2 * 7));
    et_node *ids = et_input(s, "categories", ET_I32, et_shape_2(BATCH, COLUMNS));
    et_node *embedded = et_embedding_columns(et_in(s, "columns"), ids, columns, COLUMNS);
    et_node *noise = et_mul(direct, et_noise(s, "noise", et_shape_2(BATCH, 5)));
    et_node *parts[] = { h, embedded, et_add(direct, noise) };
    h = et_norm_rms(et_in(s, "norm"), et_concatenate_columns(parts, 3), 1e-5f);
    et_node *kept = et_bernoulli(s, "kept", et_sigmoid(et_slice_columns(h, 3, 39)));
    h = et_mul(et_slice_columns(h, 2, 39), kept);
    h = et_dense(et_in(s, "logits"), h, CLASSES);
    return et_softmax_loss(h, et_input(s, "labels", ET_I32, et_shape_1(BATCH)), 0);
}

static void bind(et_plan *plan, et_dtype act)
{
    for (int i = 0; i < BATCH * SIDE * SIDE * 2; i++) {
        pixels[i] = sinf((float)(i * i % 1009));
        narrow_pixels[i] = et_bf16_from_float(pixels[i]);
    }
    for (int i = 0; i < BATCH; i++) {
        labels[i] = i == 3 ? -1 : i % CLASSES;
        for (int c = 0; c < COLUMNS; c++)
            categories[i][c] = (i * (c + 3)) % ((int)columns[c].rows + 1) - 1;
    }
    et_plan_bind(plan, "pixels", act == ET_BF16 ? (const void *)narrow_pixels : pixels);
    et_plan_bind(plan, "categories", categories);
    et_plan_bind(plan, "labels", labels);
}

/* Loss and gradients of the last of several runs; to be freed. */
typedef struct outcome {
    float loss;
    float *gradients;
    size_t count;
} outcome;

static outcome run_net(et_dtype act, et_recompute recompute, const et_plan_options *options)
{
    test_model model;
    test_model_open_as(&model, net, act, recompute, true, options);
    bind(model.plan, act);
    for (uint64_t step = 0; step < 3; step++)
        et_plan_run(model.plan, (et_random){ 3, step, 0 });
    outcome result = { .count = (size_t)et_params_flat_size(model.params) };
    result.loss = *(const float *)et_plan_output(model.plan, 0).data;
    result.gradients = malloc(result.count * sizeof(float));
    assert_non_null(result.gradients);
    memcpy(result.gradients, et_params_gradients(model.params), result.count * sizeof(float));
    test_model_close(&model);
    return result;
}

static void assert_same(const outcome *a, outcome b)
{
    assert_true(isfinite(a->loss) && a->loss > 0);
    assert_memory_equal(&a->loss, &b.loss, sizeof b.loss);
    assert_int_equal(a->count, b.count);
    assert_memory_equal(a->gradients, b.gradients, b.count * sizeof(float));
    free(b.gradients);
}

/* Fused or not (float32: in bfloat16 a chain rounds less), memory used again or not, values made
 * again or not, threads: the same bits. */
static void test_layers__nothing_changes_bits(void **state)
{
    (void)state;
    et_plan_options naive = { .fuse = false, .reuse = false };
    et_plan_options alone = { .fuse = true, .reuse = false };
    const int most = omp_get_max_threads();
    for (int act = ET_F32; act <= ET_BF16; act++) {
        outcome one = run_net((et_dtype)act, ET_RECOMPUTE_CHEAP, NULL);
        if (act == ET_F32)
            assert_same(&one, run_net(ET_F32, ET_RECOMPUTE_CHEAP, &naive));
        assert_same(&one, run_net((et_dtype)act, ET_RECOMPUTE_CHEAP, &alone));
        assert_same(&one, run_net((et_dtype)act, ET_RECOMPUTE_NONE, NULL));
        for (int threads = 1; threads <= 4; threads++) {
            omp_set_num_threads(threads);
            assert_same(&one, run_net((et_dtype)act, ET_RECOMPUTE_CHEAP, NULL));
        }
        omp_set_num_threads(most);
        free(one.gradients);
    }
}

/* bfloat16 has 8 bits: the gradient points where float32's does. */
static void test_layers__bfloat16_agrees(void **state)
{
    (void)state;
    outcome wide = run_net(ET_F32, ET_RECOMPUTE_CHEAP, NULL);
    outcome narrow = run_net(ET_BF16, ET_RECOMPUTE_CHEAP, NULL);
    double both = 0, first = 0, second = 0;
    for (size_t i = 0; i < wide.count; i++) {
        both += (double)wide.gradients[i] * (double)narrow.gradients[i];
        first += (double)wide.gradients[i] * (double)wide.gradients[i];
        second += (double)narrow.gradients[i] * (double)narrow.gradients[i];
    }
    assert_true(fabsf(wide.loss - narrow.loss) < 0.05f * wide.loss);
    assert_true(both / sqrt(first * second) > 0.98);
    free(wide.gradients);
    free(narrow.gradients);
}

static void test_layers__allocates_nothing(void **state)
{
    (void)state;
    test_model model;
    test_model_open(&model, net);
    bind(model.plan, ET_F32);
    et_plan_run(model.plan, (et_random){ 1, 0, 0 });
    size_t before = et_alloc_count();
    for (uint64_t step = 1; step < 4; step++) {
        et_params_begin_change(model.params);
        et_params_changed(model.params, true);
        et_plan_run(model.plan, (et_random){ 1, step, 0 });
    }
    assert_int_equal(et_alloc_count(), before);
    test_model_close(&model);
}

/* ---- values ---- */

/* The result of a function without parameters, read as floats. */
static const float *value_of(test_model *model, test_build_fn *build)
{
    static const int32_t ids[] = { 2, -1, 0, 5, 2 };
    static const float x[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };
    test_model_open_with(model, build, ET_F32, false, NULL);
    et_plan_bind(model->plan, "ids", ids);
    et_plan_bind(model->plan, "x", x);
    et_plan_run(model->plan, (et_random){ 3, 4, 0 });
    return et_plan_output(model->plan, 0).data;
}

static et_node *x_3_by_4(et_scope *s)
{
    return et_input(s, "x", ET_F32, et_shape_2(3, 4));
}

static et_node *ids_of(et_scope *s)
{
    return et_input(s, "ids", ET_I32, et_shape_1(5));
}

static et_node *view(et_scope *s)
{
    return et_slice_rows(et_reshape(et_relu(x_3_by_4(s)), et_shape_2(6, 2)), 4, 2);
}

static et_node *beside(et_scope *s)
{
    et_node *x = x_3_by_4(s);
    et_node *parts[] = { et_slice_columns(x, 3, 1), x, et_slice_columns(x, 0, 2) };
    return et_concatenate_columns(parts, 3);
}

static et_node *below(et_scope *s)
{
    et_node *x = et_slice_columns(x_3_by_4(s), 1, 2);
    et_node *parts[] = { et_slice_rows(x, 2, 1), x };
    return et_concatenate_rows(parts, 2);
}

static et_node *taken(et_scope *s)
{
    return et_gather_rows(et_slice_rows(et_reshape(x_3_by_4(s), et_shape_2(6, 2)), 0, 6),
                          ids_of(s));
}

static et_node *backwards(et_scope *s)
{
    return et_gather_rows(et_reshape(x_3_by_4(s), et_shape_2(6, 2)), et_integers(s, 5, 4, -2));
}

static et_node *hot(et_scope *s)
{
    return et_one_hot(ids_of(s), 3);
}

/* bfloat16 has even numbers from 256 on: ties go to multiples of 4. */
static et_node *rounded(et_scope *s)
{
    return et_cast(et_cast(et_integers(s, 257, 5, 2), ET_BF16), ET_F32);
}

static et_node *whole(et_scope *s)
{
    return et_cast(ids_of(s), ET_F32);
}

static et_node *largest(et_scope *s)
{
    et_pool_options two = { .window = { 2, 2 }, .stride = { 1, 2 }, .same = true };
    return et_max_pool(et_reshape(x_3_by_4(s), et_shape_4(1, 3, 4, 1)), &two);
}

static et_node *mean_of(et_scope *s)
{
    return et_mean_pool(et_reshape(x_3_by_4(s), et_shape_4(1, 3, 2, 2)), NULL);
}

static et_node *batch_mean(et_scope *s)
{
    et_node *gamma = et_param(s, "g", et_shape_1(4), (et_init){ ET_INIT_ONES, 0 }), *mean;
    et_batch_norm(x_3_by_4(s), gamma, gamma, NULL, 1e-3f, &mean, NULL);
    return mean;
}

static et_node *batch_variance(et_scope *s)
{
    et_node *gamma = et_param(s, "g", et_shape_1(4), (et_init){ ET_INIT_ONES, 0 }), *variance;
    et_batch_norm(x_3_by_4(s), gamma, gamma, NULL, 1e-3f, NULL, &variance);
    return et_scale(variance, 3);
}

/* gamma = beta = 1; mean row 2, variance row 1: (x - 5 ..) / 1 + 1. */
static et_node *batch_given(et_scope *s)
{
    et_node *gamma = et_param(s, "g", et_shape_1(4), (et_init){ ET_INIT_ONES, 0 });
    et_node *x = x_3_by_4(s);
    et_node *mean = et_reshape(et_slice_rows(x, 1, 1), et_shape_1(4));
    return et_batch_norm_given(x, gamma, gamma, mean, gamma, 0);
}

/* ones [2, 2] over 3 x 4: sums of four, and a bias of 1. */
static et_node *sums_of_four(et_scope *s)
{
    et_init ones = { ET_INIT_ONES, 0 };
    et_node *image = et_reshape(x_3_by_4(s), et_shape_4(1, 3, 4, 1));
    return et_convolution(image, et_param(s, "w", et_shape_4(2, 2, 1, 1), ones),
                          et_param(s, "b", et_shape_1(1), ones), NULL);
}

static void test_layers__values(void **state)
{
    (void)state;
    static const struct {
        test_build_fn *build;
        int64_t count;
        float expected[24];
    } cases[] = {
        { view, 4, { 9, 10, 11, 12 } },
        { beside, 21, { 4, 1, 2, 3, 4, 1, 2, 8, 5, 6, 7, 8, 5, 6, 12, 9, 10, 11, 12, 9, 10 } },
        { below, 8, { 10, 11, 2, 3, 6, 7, 10, 11 } },
        { taken, 10, { 5, 6, 0, 0, 1, 2, 11, 12, 5, 6 } },
        { backwards, 8, { 11, 12, 7, 8, 3, 4, 0, 0 } },
        { hot, 15, { 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1 } },
        { rounded, 5, { 256, 260, 260, 264, 264 } },
        { whole, 5, { 2, -1, 0, 5, 2 } },
        { largest, 6, { 6, 8, 10, 12, 10, 12 } },
        { mean_of, 2, { 6, 7 } },
        { batch_mean, 4, { 5, 6, 7, 8 } },
        { batch_variance, 4, { 32, 32, 32, 32 } },
        { batch_given, 12, { -3, -3, -3, -3, 1, 1, 1, 1, 5, 5, 5, 5 } },
        { sums_of_four, 6, { 15, 19, 23, 31, 35, 39 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_model model;
        const float *value = value_of(&model, cases[i].build);
        assert_int_equal(et_shape_count(et_plan_output(model.plan, 0).shape), cases[i].count);
        for (int64_t k = 0; k < cases[i].count; k++)
            if (fabsf(value[k] - cases[i].expected[k]) > 1e-4f)
                fail_msg("case %zu: element %d is %g, not %g", i, (int)k, (double)value[k],
                         (double)cases[i].expected[k]);
        test_model_close(&model);
    }
}

/* A table that is looked up, multiplied as a view and summed: all three gradients are one array, to
 * which each adds. */
static et_node *one_table(et_scope *s)
{
    static const et_column tables[] = { { 6, 3 }, { 4, 1 } };
    et_node *table = et_param(s, "table", et_shape_1(22), (et_init){ ET_INIT_NORMAL, 1 });
    et_node *other = et_param(s, "other", et_shape_2(2, 11), (et_init){ ET_INIT_NORMAL, 1 });
    et_node *ids = et_input(s, "pairs", ET_I32, et_shape_2(5, 2));
    et_node *both =
        et_add(et_reshape(table, et_shape_2(2, 11)), et_reshape(other, et_shape_2(2, 11)));
    et_node *looked = et_sum(et_embed_columns(ids, table, tables, 2));
    et_node *again = et_sum(et_mul(et_reshape(other, et_shape_2(2, 11)), et_tanh(both)));
    return et_add(et_add(et_sum(et_reshape(et_tanh(both), et_shape_1(22))), again), looked);
}

static void run_table(float gradients[64], bool reuse)
{
    static const int32_t pairs[] = { 0, 3, 5, -1, 5, 0, 2, 2, -1, 3 };
    static const float seed = 1;
    et_plan_options options = { .fuse = true, .reuse = reuse };
    test_model model;
    test_model_open_with(&model, one_table, ET_F32, true, &options);
    assert_true(et_params_flat_size(model.params) <= 64);
    et_plan_bind(model.plan, "pairs", pairs);
    et_plan_bind(model.plan, ET_GRAPH_ONE, &seed);
    for (int i = 0; i < 2; i++)
        et_plan_run(model.plan, (et_random){ 0 });
    memcpy(gradients, et_params_gradients(model.params),
           (size_t)et_params_flat_size(model.params) * sizeof(float));
    test_model_close(&model);
}

/* d/dtable = (1 + other) (1 - tanh^2) + the number of look-ups of each element; the part without
 * the look-ups is also the other's. */
static void test_layers__views_of_gradients(void **state)
{
    (void)state;
    static const int looked[22] = { [0] = 1,  [1] = 1,  [2] = 1,  [6] = 1,  [7] = 1,  [8] = 1,
                                    [15] = 2, [16] = 2, [17] = 2, [18] = 1, [20] = 1, [21] = 2 };
    float reused[64], plain[64];
    et_error error = ET_ERROR_INIT;
    et_params *params;
    et_graph *graph;
    run_table(reused, true);
    run_table(plain, false);
    assert_memory_equal(reused, plain, 54 * sizeof(float));
    assert_int_equal(et_params_new(&params, &error), ET_OK);
    assert_int_equal(et_graph_new(&graph, params, NULL, &error), ET_OK);
    one_table(et_graph_scope(graph));
    assert_int_equal(et_params_materialize(params, false, &error), ET_OK);
    et_init_draw(params, 7);
    const float *table = et_params_values(params) + et_params_offset(params, 0);
    const float *other = et_params_values(params) + et_params_offset(params, 1);
    for (int i = 0; i < 22; i++) {
        double t = tanh((double)table[i] + (double)other[i]);
        double shared = (1 + (double)other[i]) * (1 - t * t);
        assert_true(fabs((double)reused[i] - shared - looked[i]) < 1e-5);
        assert_true(fabs((double)reused[et_params_offset(params, 1) + i] - shared - t) < 1e-5);
    }
    et_graph_free(graph);
    et_params_free(params);
}

static et_node *noise(et_scope *s)
{
    return et_noise(et_in(s, "vae"), "noise", et_shape_2(30, 7));
}

/* Element e of the use that the full name says. */
static void test_layers__noise_is_counted(void **state)
{
    (void)state;
    test_model model;
    const float *value = value_of(&model, noise);
    const et_random random = { 3, 4, et_random_site("vae/noise") };
    for (uint64_t i = 0; i < 210; i++)
        assert_true(value[i] == et_random_normal(random, i));
    test_model_close(&model);
}

static et_node *long_view(et_scope *s)
{
    et_node *x = et_param(s, "x", et_shape_2(512, 512), (et_init){ ET_INIT_NORMAL, 1 });
    et_node *h = et_tanh(x);
    for (int i = 0; i < 8; i++)
        h = et_sigmoid(et_reshape(h, et_shape_2(i % 2 ? 512 : 1024, i % 2 ? 512 : 256)));
    return et_sum(h);
}

/* Eight views and the chains between them are all one array. */
static void test_layers__views_take_no_memory(void **state)
{
    (void)state;
    test_model model;
    test_model_open_with(&model, long_view, ET_F32, false, NULL);
    size_t bytes = et_plan_memory_needed(model.plan).activations;
    assert_in_range(bytes, 512 * 512 * sizeof(float), 512 * 512 * sizeof(float) + 4096);
    test_model_close(&model);
}

/* With fewer rows than planned, the first rows have the same results. */
static et_node *rows_net(et_scope *s)
{
    et_node *x = et_tanh(et_input(s, "x", ET_F32, et_shape_2(3, 4)));
    et_node *parts[] = { et_slice_columns(x, 2, 2), x,
                         et_gather_rows(x, et_input(s, "at", ET_I32, et_shape_1(3))) };
    return et_concatenate_columns(parts, 3);
}

static void test_layers__fewer_rows(void **state)
{
    (void)state;
    static const float x[] = { 1, -2, 3, -4, 5, -6, 7, -8, 9, -1, 2, -3 };
    static const int32_t at[] = { 1, 0, 2 };
    float full[2 * 10];
    test_model model;
    test_model_open_with(&model, rows_net, ET_F32, false, NULL);
    et_plan_bind(model.plan, "x", x);
    et_plan_bind(model.plan, "at", at);
    et_plan_run(model.plan, (et_random){ 0 });
    memcpy(full, et_plan_output(model.plan, 0).data, sizeof full);
    et_plan_set_rows(model.plan, 3, 2);
    et_plan_run(model.plan, (et_random){ 0 });
    assert_int_equal(et_plan_output(model.plan, 0).shape.size[0], 2);
    assert_memory_equal(et_plan_output(model.plan, 0).data, full, sizeof full);
    test_model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers__nothing_changes_bits),
        cmocka_unit_test(test_layers__bfloat16_agrees),
        cmocka_unit_test(test_layers__allocates_nothing),
        cmocka_unit_test(test_layers__values),
        cmocka_unit_test(test_layers__views_of_gradients),
        cmocka_unit_test(test_layers__noise_is_counted),
        cmocka_unit_test(test_layers__views_take_no_memory),
        cmocka_unit_test(test_layers__fewer_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
