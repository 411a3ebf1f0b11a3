#include "engine/exec/pass_model.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/exec/pass.h"
#include "engine/graph/build.h"

static void build_square(et_scope *s, void *payload)
{
    (void)payload;
    et_output(s, "unused", classes_loss(s, hidden(s)));
    et_loss(s, "loss", square_loss(s, hidden(s)), 1);
}

static bool penalized_classes;

static void build_both(et_scope *s, void *payload)
{
    (void)payload;
    et_node *h = hidden(s);
    et_loss(s, "classes", classes_loss(s, h), 1);
    et_loss(s, "square", square_loss(s, h), 0.25f);
}

static void build_swapped(et_scope *s, void *payload)
{
    (void)payload;
    et_node *h = hidden(s);
    et_loss(s, "square", square_loss(s, h), 1);
    et_loss(s, "classes", classes_loss(s, h), 4);
}

static et_node *normal(et_scope *s, et_node *h)
{
    et_node *result = et_norm_batch(et_in(s, "norm"), h, 0.75f, 1e-3f);
    et_output(s, "normal", result);
    return result;
}

static void build_normal(et_scope *s, void *payload)
{
    (void)payload;
    et_node *h = et_dense(et_in(s, "hidden"), et_batch_input(s, "x"), 4);
    et_loss(s, "loss", classes_loss(s, et_tanh(normal(s, h))), 1);
}

/* The same over images of two places. */
static void build_normal_images(et_scope *s, void *payload)
{
    (void)payload;
    et_node *h = et_dense(et_in(s, "hidden"), et_batch_input(s, "x"), 4);
    int64_t rows = et_node_shape(h).size[0];
    et_node *result = normal(s, et_reshape(h, et_shape_4(rows, 1, 2, 2)));
    et_loss(s, "loss", classes_loss(s, et_reshape(et_tanh(result), et_shape_2(rows, 4))), 1);
}

/* Normalizes the data themselves, so that the statistics are known. */
static void build_normal_data(et_scope *s, void *payload)
{
    (void)payload;
    et_loss(s, "loss", square_loss(s, normal(s, et_batch_input(s, "x"))), 1);
}

static float *gradient(model *m, const char *name, int64_t *count)
{
    int i = et_params_find(m->params, name);
    assert_true(i >= 0);
    *count = et_shape_count(et_params_shape(m->params, i));
    return et_params_gradients(m->params) + et_params_offset(m->params, i);
}

/* The gradient of a weighted sum of losses is the weighted sum of gradients, whichever loss comes
 * first and of whichever kind it is. */
static void test_pass__losses_add_up(void **state)
{
    (void)state;
    model a, b, both, swapped;
    int64_t count;
    open_model(&a, build_classes, &training, ROWS, ROWS);
    open_model(&b, build_square, &training, ROWS, ROWS);
    open_model(&both, build_both, &training, ROWS, ROWS);
    open_model(&swapped, build_swapped, &training, ROWS, ROWS);
    const float *ga = gradient(&a, "hidden/weight", &count);
    const float *gb = gradient(&b, "hidden/weight", &count);
    const float *g = gradient(&both, "hidden/weight", &count);
    const float *gs = gradient(&swapped, "hidden/weight", &count);
    float most = 0;
    for (int64_t i = 0; i < count; i++) {
        assert_float_equal(g[i], ga[i] + 0.25f * gb[i], 1e-6f);
        assert_float_equal(gs[i], 4 * g[i], 4e-6f);
        most = fabsf(g[i]) > most ? fabsf(g[i]) : most;
    }
    assert_true(most > 0.01f);
    assert_float_equal(et_pass_loss(both.pass), et_pass_loss(a.pass) + 0.25 * et_pass_loss(b.pass),
                       1e-5);
    assert_float_equal(et_pass_loss(swapped.pass), 4 * et_pass_loss(both.pass), 1e-4);
    close_model(&a);
    close_model(&b);
    close_model(&both);
    close_model(&swapped);
}

/* Frozen parameters have no gradient: theirs is left as it was. The others have the same. */
static void test_pass__frozen(void **state)
{
    (void)state;
    model all, some;
    const et_pass_options options = { .training = true, .frozen = "^hidden|value/b" };
    const char *names[] = { "hidden/weight", "hidden/bias", "value/bias", "logits/weight",
                            "value/weight" };
    int64_t count;
    open_model(&all, build_both, &training, ROWS, ROWS);
    open_model(&some, build_both, &options, ROWS, ROWS);
    for (size_t n = 0; n < 3; n++)
        *gradient(&some, names[n], &count) = 7;
    assert_int_equal(et_pass_run(some.pass, some.batch, 1, 0, NULL), ET_OK);
    for (size_t n = 0; n < 5; n++) {
        const float *whole = gradient(&all, names[n], &count);
        const float *part = gradient(&some, names[n], &count);
        for (int64_t i = 0; n >= 3 && i < count; i++)
            assert_float_equal(part[i], whole[i], 0);
        assert_true(n >= 3 || *part == 7);
        assert_int_equal(et_pass_trains(some.pass, et_params_find(some.params, names[n])), n >= 3);
    }
    close_model(&all);
    close_model(&some);
}

static void test_pass__frozen_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = { { "(", "et_pass_options.frozen" },
                                            { ".", "every parameter is frozen" } };
    for (size_t i = 0; i < 2; i++) {
        model m;
        et_error error = ET_ERROR_INIT;
        const et_pass_options options = { .training = true, .frozen = cases[i][0] };
        assert_int_equal(try_model(&m, build_both, &options, ROWS, ROWS, &error), ET_ECONFIG);
        assert_non_null(strstr(error.text, cases[i][1]));
        close_model(&m);
    }
}

static void build_one_twice(et_scope *s, void *payload)
{
    (void)payload;
    et_node *loss = classes_loss(s, hidden(s));
    et_loss(s, "one", loss, 1);
    et_loss(s, "half", loss, 0.5f);
}

/* One loss under two names counts as both. */
static void test_pass__one_loss_twice(void **state)
{
    (void)state;
    model once, twice;
    int64_t count;
    open_model(&once, build_classes, &training, ROWS, ROWS);
    open_model(&twice, build_one_twice, &training, ROWS, ROWS);
    const float *g = gradient(&once, "hidden/weight", &count);
    const float *both = gradient(&twice, "hidden/weight", &count);
    for (int64_t i = 0; i < count; i++)
        assert_float_equal(both[i], 1.5f * g[i], 1e-6f);
    assert_float_equal(et_pass_loss(twice.pass), 1.5 * et_pass_loss(once.pass), 1e-5);
    close_model(&once);
    close_model(&twice);
}

static void build_penalized(et_scope *s, void *payload)
{
    et_node *h = hidden(s);
    et_node *w = et_param(s, "extra", et_shape_1(3), (et_init){ ET_INIT_ONES, 0 });
    (void)payload;
    if (penalized_classes)
        et_loss(s, "loss", classes_loss(s, h), 1);
    else
        et_loss(s, "loss", square_loss(s, h), 1);
    et_penalty(s, "l2", et_sum(et_square(w)), 0.5f);
}

/* 0.5 sum of w^2 in addition to a mean: its derivative is w, for any number of rows that count. */
static void test_pass__penalty(void **state)
{
    (void)state;
    for (int k = 0; k < 8; k++) {
        model m;
        int64_t count, rows = k & 2 ? 2 : ROWS;
        penalized_classes = k & 1;
        open_model(&m, build_penalized, &training, ROWS, rows);
        if (k & 4) /* a row without a label, which does not concern the other loss */
            ((int32_t *)m.batch->data[1])[1] = -1;
        assert_int_equal(et_pass_run(m.pass, m.batch, 1, 0, NULL), ET_OK);
        const double divisor = et_pass_divisor(m.pass);
        assert_float_equal(divisor, (double)(rows - (k & 4 && penalized_classes)), 0);
        const float *g = gradient(&m, "extra", &count);
        assert_int_equal(count, 3);
        for (int64_t i = 0; i < count; i++)
            assert_float_equal(g[i] / divisor, 1, 1e-6);
        const int last = et_pass_measures(m.pass) - 1;
        const et_measured loss = et_pass_measured(m.pass, 0), l2 = et_pass_measured(m.pass, last);
        assert_string_equal(l2.name, "l2");
        assert_float_equal(l2.total / l2.weight, 3, 1e-6);
        assert_float_equal(et_pass_loss(m.pass) / divisor, loss.total / loss.weight + 0.5 * 3,
                           1e-5);
        close_model(&m);
    }
}

/* A power of two changes exponents only. */
static void test_pass__scale(void **state)
{
    (void)state;
    model plain, scaled;
    const et_pass_options options = { .training = true, .scaled = true };
    const char *names[] = { "hidden/weight", "hidden/bias", "logits/weight", "value/bias" };
    int64_t count;
    open_model(&plain, build_both, &training, ROWS, ROWS);
    open_model(&scaled, build_both, &options, ROWS, ROWS);
    et_pass_set_scale(scaled.pass, 64);
    assert_int_equal(et_pass_run(scaled.pass, scaled.batch, 1, 0, NULL), ET_OK);
    for (size_t n = 0; n < 4; n++) {
        const float *one = gradient(&plain, names[n], &count);
        const float *other = gradient(&scaled, names[n], &count);
        for (int64_t i = 0; i < count; i++)
            assert_float_equal(other[i], 64 * one[i], 1e-5f * fabsf(other[i]) + 1e-12f);
    }
    assert_float_equal(et_pass_loss(scaled.pass), et_pass_loss(plain.pass), 0);
    close_model(&plain);
    close_model(&scaled);
}

/* Losses of every number of dimensions, which a bias keeps from 0 in an empty row; a loss of a
 * parameter with as many rows as the larger batch; a loss of random numbers only. */
static void build_by_rows(et_scope *s, void *payload)
{
    (void)payload;
    const et_init ones = { ET_INIT_ONES, 0 };
    et_node *h = et_dense(et_in(s, "out"),
                          et_tanh(et_dense(et_in(s, "hidden"), et_batch_input(s, "x"), 4)), 6);
    const int64_t rows = et_node_shape(h).size[0];
    et_node *bias = et_param(s, "bias", et_shape_1(6), ones);
    h = et_add(h, bias);
    et_loss(s, "loss", et_squared_error(h, et_scale(h, 0.5f)), 1);
    et_loss(s, "all", et_square(h), 0.5f);
    et_loss(s, "images", et_square(et_reshape(h, et_shape_3(rows, 2, 3))), 0.25f);
    et_loss(s, "line", et_reshape(et_row_sum(et_square(h)), et_shape_1(rows)), 2);
    et_loss(s, "half", et_copy(et_square(h), ET_BF16, et_node_shape(h)), 1);
    et_loss(s, "own", et_square(et_param(s, "own", et_shape_2(ROWS, 2), ones)), 1);
    et_loss(s, "drawn", et_scale(et_square(et_noise(s, "noise", et_shape_2(rows, 1))), 0), 1);
}

/* A batch that is not full gives the values of a full batch of its size: empty rows count nowhere.
 */
static void check_short(et_build_fn *build, const char *const *names, size_t parameters)
{
    model full, part;
    int64_t count;
    open_model(&full, build, &training, 5, 5);
    open_model(&part, build, &training, 5, ROWS);
    for (size_t n = 0; n < parameters; n++) {
        const float *one = gradient(&full, names[n], &count);
        const float *other = gradient(&part, names[n], &count);
        for (int64_t i = 0; i < count; i++)
            assert_float_equal(one[i], other[i], 1e-5f * fabsf(one[i]) + 1e-6f);
    }
    assert_int_equal((int)et_pass_divisor(full.pass), 5);
    assert_int_equal((int)et_pass_divisor(part.pass), 5);
    assert_float_equal(et_pass_loss(full.pass), et_pass_loss(part.pass),
                       1e-6 * fabs(et_pass_loss(full.pass)));
    close_model(&full);
    close_model(&part);
}

static void test_pass__short_batch(void **state)
{
    (void)state;
    static const char *const classes[] = { "hidden/weight", "logits/weight", "logits/bias" };
    static const char *const rows[] = { "hidden/weight", "out/weight", "bias", "own" };
    check_short(build_classes, classes, 3);
    check_short(build_by_rows, rows, 4);
}

static void check_short_normal(et_build_fn *build)
{
    model full, part;
    const char *names[] = { "hidden/weight", "norm/scale", "norm/offset", "logits/weight" };
    int64_t count;
    open_model(&full, build, &training, 5, 5);
    open_model(&part, build, &training, 5, ROWS);
    for (size_t n = 0; n < 4; n++) {
        const float *one = gradient(&full, names[n], &count);
        const float *other = gradient(&part, names[n], &count);
        float most = 0;
        for (int64_t i = 0; i < count; i++) {
            assert_float_equal(one[i], other[i], 1e-6f);
            most = fabsf(one[i]) > most ? fabsf(one[i]) : most;
        }
        assert_true(most > 1e-3f);
    }
    const float *one = et_pass_output(full.pass, "normal").data;
    const float *other = et_pass_output(part.pass, "normal").data;
    for (int i = 0; i < ROWS * 4; i++)
        assert_float_equal(other[i], i < 5 * 4 ? one[i] : 0, 1e-6f);
    assert_int_equal(et_pass_tracks(full.pass), 2);
    for (int k = 0; k < 2; k++) {
        et_tracked a = et_pass_tracked(full.pass, k), b = et_pass_tracked(part.pass, k);
        assert_int_equal(a.variable, b.variable);
        for (int64_t i = 0; i < a.elements; i++)
            assert_float_equal(a.value[i], b.value[i], 1e-6f);
    }
    assert_float_equal(et_pass_loss(full.pass), et_pass_loss(part.pass), 1e-6);
    close_model(&full);
    close_model(&part);
}

/* Samples that are not there change no statistics, by rows and by images. */
static void test_pass__short_batch_is_normal(void **state)
{
    (void)state;
    check_short_normal(build_normal);
    check_short_normal(build_normal_images);
}

/* Updates the tracked variables. */
static void move_means(model *m)
{
    et_params_begin_change(m->params);
    for (int k = 0; k < et_pass_tracks(m->pass); k++) {
        et_tracked tracked = et_pass_tracked(m->pass, k);
        float *at = et_params_values(m->params) + et_params_offset(m->params, tracked.variable);
        for (int64_t i = 0; i < tracked.elements; i++)
            at[i] = tracked.momentum * at[i] + (1 - tracked.momentum) * tracked.value[i];
    }
    et_params_changed(m->params, true);
}

/* The moving mean and variance of column d after batches of 8, 8 and 4 of the 20 samples. */
static void moving(int d, double *mean, double *variance)
{
    *mean = 0;
    *variance = 1;
    for (int first = 0; first < 20; first += ROWS) {
        int count = 20 - first < ROWS ? 20 - first : ROWS;
        double sum = 0, squares = 0;
        for (int i = first; i < first + count; i++)
            sum += (double)x[i * WIDTH + d] / count;
        for (int i = first; i < first + count; i++)
            squares += pow((double)x[i * WIDTH + d] - sum, 2) / count;
        *mean = 0.75 * *mean + 0.25 * sum;
        *variance = 0.75 * *variance + 0.25 * squares;
    }
}

/* Three steps, the last with a short batch; then an evaluation with the result. */
static void test_pass__moving_means(void **state)
{
    (void)state;
    model m;
    et_pass *evaluation;
    et_error error = ET_ERROR_INIT;
    open_model(&m, build_normal_data, &training, 20, ROWS);
    for (int step = 0; step < 3; step++) {
        if (step)
            assert_int_equal(et_source_next(m.source, m.batch, NULL), ET_OK);
        assert_int_equal(et_pass_run(m.pass, m.batch, 1, (uint64_t)step, NULL), ET_OK);
        move_means(&m);
    }
    assert_int_equal((int)m.batch->filled[0], 4);
    assert_int_equal(et_pass_open(&evaluation, m.device, m.params, &m.source->layout,
                                  build_normal_data, NULL, NULL, &error),
                     ET_OK);
    assert_int_equal(et_pass_run(evaluation, m.batch, 1, 0, &error), ET_OK);
    const float *values = et_params_values(m.params);
    const float *means = values + et_params_offset(m.params, et_params_find(m.params, "norm/mean"));
    const float *variances =
        values + et_params_offset(m.params, et_params_find(m.params, "norm/variance"));
    const float *y_data = et_pass_output(evaluation, "normal").data;
    for (int d = 0; d < WIDTH; d++) {
        double mean, variance;
        moving(d, &mean, &variance);
        assert_float_equal(means[d], mean, 1e-6);
        assert_float_equal(variances[d], variance, 1e-6);
        for (int i = 0; i < 4; i++)
            assert_float_equal(y_data[i * WIDTH + d],
                               ((double)x[(16 + i) * WIDTH + d] - mean) / sqrt(variance + 1e-3),
                               1e-5);
    }
    assert_int_equal(et_pass_tracks(evaluation), 0);
    et_pass_close(evaluation);
    close_model(&m);
}

static void test_pass__measures_and_outputs(void **state)
{
    (void)state;
    model m;
    const char *names[] = { "classes", "classes/nll", "classes/accuracy", "square" };
    open_model(&m, build_both, &training, ROWS, ROWS);
    assert_int_equal(et_pass_measures(m.pass), 4);
    for (int i = 0; i < 4; i++) {
        et_measured measured = et_pass_measured(m.pass, i);
        assert_string_equal(measured.name, names[i]);
        assert_float_equal(measured.weight, ROWS, 0);
    }
    et_tensor logits = et_pass_output(m.pass, "logits");
    int correct = 0;
    for (int r = 0; r < ROWS; r++) {
        const float *row = (const float *)logits.data + (size_t)r * CLASSES;
        int best = 0;
        for (int k = 1; k < CLASSES; k++)
            best = row[k] > row[best] ? k : best;
        correct += best == labels[r];
    }
    assert_float_equal(et_pass_measured(m.pass, 2).total, correct, 0);
    assert_null(et_pass_output(m.pass, "none").data);
    assert_null(et_pass_output(m.pass, NULL).data);
    assert_float_equal(et_pass_measured(m.pass, 0).total + 0.25 * et_pass_measured(m.pass, 3).total,
                       et_pass_loss(m.pass), 1e-5);
    close_model(&m);
}

/* Another capacity gets its own plan, which is kept: no allocation when it comes again. */
static void test_pass__other_layout(void **state)
{
    (void)state;
    model m;
    open_model(&m, build_classes, &training, ROWS, ROWS);
    double loss = et_pass_loss(m.pass);
    et_source *wide = source_of(32, 32);
    et_batch *batch;
    assert_int_equal(et_batch_new(&batch, &wide->layout, NULL), ET_OK);
    assert_int_equal(et_source_next(wide, batch, NULL), ET_OK);
    assert_int_equal(et_pass_run(m.pass, batch, 1, 0, NULL), ET_OK);
    assert_int_equal((int)et_pass_divisor(m.pass), 32);
    size_t before = et_alloc_count();
    for (int i = 0; i < 4; i++) {
        assert_int_equal(et_pass_run(m.pass, i % 2 ? batch : m.batch, 1, 0, NULL), ET_OK);
        assert_int_equal((int)et_pass_divisor(m.pass), i % 2 ? 32 : ROWS);
    }
    assert_int_equal(et_alloc_count(), before);
    assert_int_equal(et_pass_run(m.pass, m.batch, 1, 0, NULL), ET_OK);
    assert_float_equal(et_pass_loss(m.pass), loss, 0);
    /* If the arrays of a batch are replaced after a run, the next run reads the new ones. */
    void *own = m.batch->data[0];
    float *zeros = et_alloc_zero((size_t)ROWS * WIDTH, sizeof *zeros);
    m.batch->data[0] = zeros;
    assert_int_equal(et_pass_run(m.pass, m.batch, 1, 0, NULL), ET_OK);
    assert_true(et_pass_loss(m.pass) != loss);
    m.batch->data[0] = own;
    assert_int_equal(et_pass_run(m.pass, m.batch, 1, 0, NULL), ET_OK);
    assert_float_equal(et_pass_loss(m.pass), loss, 0);
    et_free(zeros);
    /* By their numbers, whichever was run last. */
    int narrow, widest;
    assert_int_equal(et_pass_variant(m.pass, &wide->layout, &widest, NULL), ET_OK);
    assert_int_equal(et_pass_variant(m.pass, &m.source->layout, &narrow, NULL), ET_OK);
    et_pass_run_variant(m.pass, widest, batch, 1, 0);
    assert_int_equal((int)et_pass_divisor(m.pass), 32);
    et_pass_run_variant(m.pass, narrow, m.batch, 1, 0);
    assert_float_equal(et_pass_loss(m.pass), loss, 0);
    /* Layouts are compared by contents, not by address: a new layout at the address of a closed
     * source's is new. */
    et_layout place = m.source->layout;
    m.batch->layout = &place;
    assert_int_equal(et_pass_run(m.pass, m.batch, 1, 0, NULL), ET_OK);
    place = wide->layout;
    batch->layout = &place;
    assert_int_equal(et_pass_run(m.pass, batch, 1, 0, NULL), ET_OK);
    assert_int_equal((int)et_pass_divisor(m.pass), 32);
    et_batch_free(batch);
    et_source_close(wide);
    close_model(&m);
}

/* ---- mistakes ---- */

static void build_unknown(et_scope *s, void *payload)
{
    (void)payload;
    et_loss(s, "loss", et_batch_input(s, "pixels"), 1);
}

static void build_nothing(et_scope *s, void *payload)
{
    (void)payload;
    hidden(s);
}

static void build_constant(et_scope *s, void *payload)
{
    (void)payload;
    et_loss(s, "loss", et_batch_input(s, "y"), 1);
}

static void build_twice(et_scope *s, void *payload)
{
    (void)payload;
    et_node *h = hidden(s);
    et_loss(s, "loss", square_loss(s, h), 1);
    et_loss(s, "loss", classes_loss(s, h), 1);
}

static void build_inner(et_scope *s, void *payload)
{
    (void)payload;
    et_loss(s, "loss", et_scale(classes_loss(s, hidden(s)), 2), 1);
}

/* Also if the node is a loss as well: its other derivative would be lost. */
static void build_twice_used(et_scope *s, void *payload)
{
    (void)payload;
    et_node *sums = classes_loss(s, hidden(s));
    et_loss(s, "loss", sums, 1);
    et_loss(s, "more", et_scale(sums, 2), 1);
}

static void build_momentum(et_scope *s, void *payload)
{
    (void)payload;
    et_loss(s, "loss", square_loss(s, et_norm_batch(s, hidden(s), 1.5f, 1e-3f)), 1);
}

static void build_without_a_name(et_scope *s, void *payload)
{
    (void)payload;
    et_loss(s, NULL, classes_loss(s, hidden(s)), 1);
}

/* A measure is a number, not one for each sample. */
static void build_row_measure(et_scope *s, void *payload)
{
    (void)payload;
    et_node *h = hidden(s);
    et_loss(s, "loss", classes_loss(s, h), 1);
    et_measure(s, "rows", h, et_sum(h));
}

static void build_of_another(et_scope *s, void *payload)
{
    et_loss(s, "loss", classes_loss(s, hidden(s)), 1);
    et_output(s, "theirs", payload);
}

/* Weights are trained: a mean that they track as well would be another update. */
static void build_trained_mean(et_scope *s, void *payload)
{
    (void)payload;
    const et_init ones = { .kind = ET_INIT_ONES };
    et_node *h = hidden(s), *weight = et_param(s, "again", et_shape_1(1), ones);
    et_loss(s, "loss", classes_loss(s, h), 1);
    et_moving_mean(s, weight, et_reshape(et_sum(h), et_shape_1(1)), 0.5f);
}

static void build_constant_ids(et_scope *s, void *payload)
{
    (void)payload;
    et_node *table = et_param(s, "table", et_shape_2(9, 3), (et_init){ .kind = ET_INIT_ONES });
    et_loss(s, "right", et_gather_rows(table, et_integers(s, -1, 10, 1)), 1);
    et_loss(s, "wrong", et_gather_rows(table, et_slice_rows(et_integers(s, 0, 10, 1), 2, 8)), 1);
}

static void build_constant_labels(et_scope *s, void *payload)
{
    (void)payload;
    et_node *labels_1[] = { et_batch_input(s, "labels"), et_integers(s, 0, CLASSES + 1, 1) };
    et_node *all = et_slice_rows(et_concatenate_rows(labels_1, 2), CLASSES + 1, ROWS);
    et_loss(s, "loss", et_softmax_loss(et_dense(s, hidden(s), CLASSES), all, 0), 1);
}

static void build_constant_offsets(et_scope *s, void *payload)
{
    (void)payload;
    const et_attention_options options = { .heads = 2, .longest_key = 5 };
    et_node *h = et_dense(s, et_batch_input(s, "x"), 12), *offsets = et_integers(s, 0, 3, 5);
    et_loss(s, "loss", et_square(et_attention(s, h, h, offsets, offsets, &options)), 1);
}

static void of_input(et_scope *s, et_dtype dtype, const char *name, et_shape shape)
{
    et_loss(s, "loss", classes_loss(s, hidden(s)), 1);
    et_output(s, "more", et_reshape(et_input(s, name, dtype, shape), shape));
}

static void build_scoped_input(et_scope *s, void *payload)
{
    (void)payload;
    of_input(et_in(s, "inner"), ET_F32, "x", et_shape_2(ROWS, WIDTH));
}

static void build_wider_input(et_scope *s, void *payload)
{
    (void)payload;
    of_input(s, ET_F32, "y", et_shape_2(ROWS, 2));
}

static void build_fewer_input(et_scope *s, void *payload)
{
    (void)payload;
    of_input(s, ET_F32, "mask", et_shape_1(ROWS - 1));
}

static void build_typed_input(et_scope *s, void *payload)
{
    (void)payload;
    of_input(s, ET_I32, "mask", et_shape_1(ROWS));
}

static void build_one_input(et_scope *s, void *payload)
{
    (void)payload;
    of_input(s, ET_F32, "d(loss)", et_shape_1(2));
}

static void test_pass__mistakes(void **state)
{
    (void)state;
    const struct {
        et_build_fn *build;
        const char *message;
    } cases[] = {
        { build_unknown, "batches have no field pixels; they have: x, labels, y, pair, mask" },
        { build_nothing, "the model has no loss" },
        { build_constant, "does not depend on any parameter" },
        { build_twice, "loss: two losses, measures or outputs have this name" },
        { build_inner, "must be a loss itself" },
        { build_twice_used, "must be a loss itself" },
        { build_momentum, "mean: momentum 1.5: must be from 0 to 1" },
        { build_without_a_name, "a loss, measure or output has no name" },
        { build_trained_mean, "again: only an untrained variable of this graph can track a mean" },
        { build_row_measure, "measure rows: must have two float32 scalars; see et_sum" },
        { build_scoped_input,
          "batches have no field inner/x; they have: x, labels, y, pair, mask" },
        { build_wider_input, "input y: requested as float32 [8, 2], but the batches' field of this "
                             "name is float32 [8, 1]" },
        { build_fewer_input, "input mask: requested as float32 [7]" },
        { build_typed_input, "input mask: requested as int32 [8]" },
        { build_one_input, "no field d(loss)" },
        { build_constant_ids, "is 9, but must be less than 9" },
        { build_constant_offsets, "attention: offset 3 of \"integers_" },
        { build_constant_labels, "is 3, but must be less than 3" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        model m;
        et_error error = ET_ERROR_INIT;
        assert_int_equal(try_model(&m, cases[i].build, &training, ROWS, ROWS, &error), ET_EGRAPH);
        if (!strstr(error.text, cases[i].message))
            fail_msg("%s", error.text);
        close_model(&m);
    }
}

static void test_pass__of_another_graph(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_params *params;
    et_graph *other;
    model m = { .source = source_of(ROWS, ROWS) };
    assert_int_equal(et_params_new(&params, &error), ET_OK);
    assert_int_equal(et_graph_new(&other, params, NULL, &error), ET_OK);
    et_node *theirs = et_input(et_graph_scope(other), "theirs", ET_F32, et_shape_1(3));
    assert_int_equal(et_device_open(&m.device, &error), ET_OK);
    assert_int_equal(et_params_new(&m.params, &error), ET_OK);
    assert_int_equal(et_batch_new(&m.batch, &m.source->layout, &error), ET_OK);
    assert_int_equal(et_pass_open(&m.pass, m.device, m.params, &m.source->layout, build_of_another,
                                  theirs, &training, &error),
                     ET_EGRAPH);
    assert_non_null(strstr(
        error.text, "theirs: the node of this loss, measure or output belongs to another graph"));
    close_model(&m);
    et_graph_free(other);
    et_params_free(params);
}

static void test_pass__before_materialize(void **state)
{
    (void)state;
    model m = { .source = source_of(ROWS, ROWS) };
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_device_open(&m.device, &error), ET_OK);
    assert_int_equal(et_params_new(&m.params, &error), ET_OK);
    assert_int_equal(et_batch_new(&m.batch, &m.source->layout, &error), ET_OK);
    assert_int_equal(et_pass_open(&m.pass, m.device, m.params, &m.source->layout, build_both, NULL,
                                  &training, &error),
                     ET_OK);
    assert_int_equal(et_pass_run(m.pass, m.batch, 0, 0, &error), ET_EUSAGE);
    assert_non_null(strstr(error.text, "et_params_materialize"));
    close_model(&m);
}

static float dropout_rate;

static void build_dropped(et_scope *s, void *payload)
{
    (void)payload;
    et_node *h = et_dropout(s, hidden(s), dropout_rate);
    et_loss(s, "loss", square_loss(s, h), 1);
    et_output(s, "dropped", h);
}

/* Half of a rate of 0.5 is a rate of 0.25, bit for bit; factor 0 drops nothing. */
static void test_pass__dropout_by_a_factor(void **state)
{
    (void)state;
    static const float rates[] = { 0.25f, 0 };
    static const double factors[] = { 0.5, 0 };
    et_error error = ET_ERROR_INIT;
    for (int i = 0; i < 2; i++) {
        model by_factor, by_rate;
        int64_t count;
        dropout_rate = 0.5f;
        open_model(&by_factor, build_dropped, &training, ROWS, ROWS);
        dropout_rate = rates[i];
        open_model(&by_rate, build_dropped, &training, ROWS, ROWS);
        const float *a = gradient(&by_factor, "hidden/weight", &count);
        const float *b = gradient(&by_rate, "hidden/weight", &count);
        assert_memory_not_equal(a, b, (size_t)count * sizeof *a);
        et_pass_set_dropout(by_factor.pass, factors[i]);
        assert_int_equal(et_pass_run(by_factor.pass, by_factor.batch, 1, 0, &error), ET_OK);
        assert_int_equal(et_pass_run(by_rate.pass, by_rate.batch, 1, 0, &error), ET_OK);
        assert_memory_equal(a, b, (size_t)count * sizeof *a);
        et_tensor left = et_pass_output(by_factor.pass, "dropped");
        assert_memory_equal(left.data, et_pass_output(by_rate.pass, "dropped").data,
                            et_tensor_bytes(left));
        close_model(&by_factor);
        close_model(&by_rate);
    }
}

/* ---- another graph of the same pass ---- */

static bool has_second;

static void build_parts(et_scope *s, void *payload)
{
    (void)payload;
    et_node *one =
        square_loss(et_in(s, "first"), et_dense(et_in(s, "first"), et_batch_input(s, "x"), 4));
    et_node *two = has_second ? square_loss(et_in(s, "second"),
                                            et_dense(et_in(s, "second"), et_batch_input(s, "x"), 4))
                              : NULL;
    et_loss(s, "loss", two ? et_add(one, two) : one, 1);
}

static void assert_same_parts(model *a, model *b)
{
    int64_t count;
    const float *g = gradient(a, "first/weight", &count), *w = gradient(b, "first/weight", &count);
    assert_memory_equal(g, w, (size_t)count * sizeof *g);
    assert_true(et_pass_loss(a->pass) == et_pass_loss(b->pass));
}

/* A part that is gone has the gradient 0, and the other parts are as of a pass that never had it;
 * for each layout of the pass. */
static void test_pass__rebuild(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    model both, one, wide;
    int64_t count;
    has_second = true;
    open_model(&both, build_parts, &training, ROWS, ROWS);
    et_source *more = source_of(32, 32);
    et_batch *batch;
    assert_int_equal(et_batch_new(&batch, &more->layout, &error), ET_OK);
    assert_int_equal(et_source_next(more, batch, &error), ET_OK);
    assert_int_equal(et_pass_run(both.pass, batch, 1, 0, &error), ET_OK);
    const float *gone = gradient(&both, "second/weight", &count);
    const int index = et_params_find(both.params, "second/weight");
    assert_true(gone[0] != 0 && et_pass_reaches(both.pass, index));
    has_second = false;
    open_model(&one, build_parts, &training, ROWS, ROWS);
    open_model(&wide, build_parts, &training, 32, 32);
    assert_int_equal(et_pass_rebuild(both.pass, &error), ET_OK);
    assert_true(isnan(et_pass_loss(both.pass)));
    assert_false(et_pass_reaches(both.pass, index));
    assert_int_equal(et_pass_run(both.pass, batch, 1, 0, &error), ET_OK);
    assert_same_parts(&both, &wide);
    assert_int_equal(et_pass_run(both.pass, both.batch, 1, 0, &error), ET_OK);
    assert_same_parts(&both, &one);
    for (int64_t i = 0; i < count; i++)
        assert_true(gone[i] == 0);
    et_batch_free(batch);
    et_source_close(more);
    close_model(&both);
    close_model(&one);
    close_model(&wide);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pass__losses_add_up),
        cmocka_unit_test(test_pass__penalty),
        cmocka_unit_test(test_pass__frozen),
        cmocka_unit_test(test_pass__frozen_refused),
        cmocka_unit_test(test_pass__one_loss_twice),
        cmocka_unit_test(test_pass__scale),
        cmocka_unit_test(test_pass__short_batch),
        cmocka_unit_test(test_pass__short_batch_is_normal),
        cmocka_unit_test(test_pass__moving_means),
        cmocka_unit_test(test_pass__measures_and_outputs),
        cmocka_unit_test(test_pass__other_layout),
        cmocka_unit_test(test_pass__mistakes),
        cmocka_unit_test(test_pass__of_another_graph),
        cmocka_unit_test(test_pass__before_materialize),
        cmocka_unit_test(test_pass__dropout_by_a_factor),
        cmocka_unit_test(test_pass__rebuild),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
