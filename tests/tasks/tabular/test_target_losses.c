/* Losses and outputs of quantiles and of several targets with two classes each, against formulas in
 * double: values, gradients by numeric differences, quantiles that never cross. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <etude/pass.h>

#include "base/numbers/philox.h"
#include "calls.h"
#include "data/table_fixture.h"
#include "engine/tensor/params.h"
#include "tasks/tabular/networks/networks.h"
#include "tasks/tabular/tabular_task.h"
#include "tasks/tabular/target/target.h"

enum { ROWS = 23, MEMBERS = 2, LABELS = 3, LEVELS_MOST = 5 };

static const char schema_text[] =
    "fields: [{name: c, type: real}, {name: v, type: real}, {name: w, type: real},\n"
    "  {name: k, type: discrete}, {name: l, type: discrete}, {name: m, type: discrete}]\n";
static const char metadata_text[] = "{\"k\": {\"entries\": [\"no\", \"yes\"]}, "
                                    "\"l\": {\"entries\": [\"1\", \"0\"]}, "
                                    "\"m\": {\"entries\": [\"left\", \"right\"]}}";
static const char number_text[] =
    "features: [{name: C, type: identity, fields: c}, {name: Y, type: target, fields: v}]";
static const char labels_text[] =
    "features: [{name: C, type: identity, fields: c}, {name: Y, type: target, fields: \"k,l,m\"}]";

/* The target's mean and deviation, which are variables of the model. */
#define MEAN      0.25
#define DEVIATION 2.5

typedef struct fixture {
    float c[ROWS][1], y[ROWS][LABELS];
    et_tabular_options options;
    const char *level[LEVELS_MOST];
    et_tabular_target target;
    et_encoder *encoder;
    et_samples *samples;
    et_source *source;
    et_batch *batch;
    et_device *device;
    et_params *params;
    et_pass *pass;
} fixture;

static int64_t width_of(const fixture *f)
{
    return f->target.width;
}

/* The model's numbers are parameters of their own. */
static void build_loss(et_scope *scope, void *payload)
{
    const fixture *f = payload;
    et_node *z = et_param(scope, "z", et_shape_2(ROWS, MEMBERS * width_of(f)),
                          (et_init){ ET_INIT_ZEROS, 0 });
    et_tabular_build_loss(scope, &f->options, &f->target, et_batch_input(scope, "Y"), z);
}

static void build_outputs(et_scope *scope, void *payload)
{
    const fixture *f = payload;
    (void)et_tabular_build_outputs(scope, &f->options, f->encoder, &f->target, NULL);
}

static void draw_rows(fixture *f)
{
    et_random random = { 5, 0, 1 };
    const int columns = f->target.labels ? LABELS : 1;
    float *y = &f->y[0][0];
    for (int i = 0; i < ROWS; i++) {
        f->c[i][0] = 2 * et_random_normal(random, (uint64_t)i);
        for (int k = 0; k < columns; k++) {
            const float drawn = et_random_normal(random, (uint64_t)(ROWS + i * LABELS + k));
            y[i * columns + k] = f->target.labels ? (float)(drawn > 0) : 3 * drawn;
        }
    }
}

static void open_batch(fixture *f)
{
    const et_array arrays[] = {
        { "C", ET_F32, f->c, et_shape_1(1) },
        { "Y", ET_F32, f->y, et_shape_1(f->target.labels ? LABELS : 1) },
    };
    const et_batches_options batches = { .capacity = { ROWS } };
    draw_rows(f);
    assert_ok(et_arrays_open(&f->samples, arrays, 2, ROWS, error));
    assert_ok(et_batches_open(&f->source, f->samples, &batches, error));
    assert_ok(et_batch_new(&f->batch, &f->source->layout, error));
    assert_ok(et_source_next(f->source, f->batch, error));
}

/* levels: ended by NULL; NULL: several targets. */
static void open_all(fixture *f, const char *const *levels, bool training, et_build_fn *build)
{
    const et_pass_options options = { .training = training };
    et_fields_defaults(&et_tabular_fields, &f->options);
    f->options.model.type = ET_TABULAR_LINEAR;
    for (int k = 0; levels && levels[k]; k++) {
        f->level[k] = levels[k];
        f->options.quantile_levels = (et_strings){ f->level, (size_t)k + 1 };
    }
    assert_ok(encoder_parse(&f->encoder, schema_text, metadata_text,
                            levels ? number_text : labels_text, error));
    assert_ok(et_tabular_target_of(&f->target, &f->options, f->encoder, error));
    open_batch(f);
    assert_ok(et_device_open(&f->device, error));
    assert_ok(et_params_new(&f->params, error));
    assert_ok(et_pass_open(&f->pass, f->device, f->params, &f->source->layout, build, f, &options,
                           error));
    assert_ok(et_params_materialize(f->params, training, error));
}

static void set(fixture *f, const char *name, float value)
{
    const int index = et_params_find(f->params, name);
    assert_true(index >= 0);
    et_params_values(f->params)[et_params_offset(f->params, index)] = value;
}

static float *values_of(const fixture *f, const char *name)
{
    const int index = et_params_find(f->params, name);
    assert_true(index >= 0);
    return et_params_values(f->params) + et_params_offset(f->params, index);
}

/* Numbers about 0; large: also such that overflow in an exponential. */
static void draw_param(fixture *f, const char *name, int64_t count, float size)
{
    et_random random = { 8, 0, 1 };
    float *values = values_of(f, name);
    for (int64_t i = 0; i < count; i++)
        values[i] = size * et_random_normal(random, (uint64_t)i);
}

static void start(fixture *f)
{
    et_params_begin_change(f->params);
    if (f->target.values) {
        set(f, "target/mean", (float)MEAN);
        set(f, "target/deviation", (float)DEVIATION);
    }
}

static void run(fixture *f)
{
    et_params_changed(f->params, true);
    assert_ok(et_pass_run(f->pass, f->batch, 1, 0, error));
}

static void close_all(fixture *f)
{
    et_pass_close(f->pass);
    et_params_free(f->params);
    et_device_close(f->device);
    et_batch_free(f->batch);
    et_source_close(f->source);
    et_encoder_free(f->encoder);
}

/* ---- by hand ---- */

/* The number below which a standard normal has p, by bisection. */
static double normal_quantile(double p)
{
    double low = -40, high = 40;
    for (int i = 0; i < 200; i++) {
        const double middle = (low + high) / 2;
        *(0.5 * erfc(-middle / sqrt(2)) < p ? &low : &high) = middle;
    }
    return (low + high) / 2;
}

static double softplus(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

/* Standardised quantiles of one member's numbers. */
static void quantiles_of(const fixture *f, const double *z, double *q)
{
    const int count = f->target.quantiles;
    const double *level = f->target.level;
    int middle = 0;
    for (int k = 0; k < count; k++)
        if (fabs(level[k] - 0.5) < fabs(level[middle] - 0.5))
            middle = k;
    q[middle] = z[middle] + normal_quantile(level[middle]);
    for (int k = middle + 1; k < count; k++) {
        const double usual = normal_quantile(level[k]) - normal_quantile(level[k - 1]);
        q[k] = q[k - 1] + softplus(z[k] + log(expm1(usual)));
    }
    for (int k = middle - 1; k >= 0; k--) {
        const double usual = normal_quantile(level[k + 1]) - normal_quantile(level[k]);
        q[k] = q[k + 1] - softplus(z[k] + log(expm1(usual)));
    }
}

/* Of one member's numbers for a row. */
static double loss_of_row(const fixture *f, const double *z, const float *y)
{
    const int64_t width = width_of(f);
    double sum = 0, q[LEVELS_MOST];
    if (f->target.quantiles)
        quantiles_of(f, z, q);
    for (int k = 0; k < width; k++) {
        if (f->target.labels) {
            sum += softplus(z[k]) - z[k] * (double)y[k];
            continue;
        }
        const double above = ((double)*y - MEAN) / DEVIATION - q[k];
        const double p = f->target.level[k];
        sum += above > 0 ? p * above : (p - 1) * above;
    }
    return sum / (double)width;
}

/* The sum over rows of the mean over members. */
static double loss_of(const fixture *f, const double *z)
{
    const int64_t width = width_of(f), columns = f->target.labels ? LABELS : 1;
    const float *y = &f->y[0][0];
    double sum = 0;
    for (int64_t i = 0; i < (int64_t)ROWS * MEMBERS; i++)
        sum += loss_of_row(f, z + i * width, y + i / MEMBERS * columns) / MEMBERS;
    return sum;
}

/* ---- losses ---- */

static void check_loss(const char *const *levels)
{
    fixture f = { .encoder = NULL };
    double z[ROWS * MEMBERS * LEVELS_MOST];
    open_all(&f, levels, true, build_loss);
    const int64_t count = ROWS * MEMBERS * width_of(&f);
    start(&f);
    draw_param(&f, "z", count, 1.5f);
    run(&f);
    for (int64_t i = 0; i < count; i++)
        z[i] = (double)values_of(&f, "z")[i];
    const double loss = loss_of(&f, z);
    if (!(fabs(et_pass_loss(f.pass) - loss) < 1e-5 * loss))
        fail_msg("the loss is %.9g, not %.9g", et_pass_loss(f.pass), loss);
    const float *gradient =
        et_params_gradients(f.params) + et_params_offset(f.params, et_params_find(f.params, "z"));
    int some = 0;
    for (int64_t i = 0; i < count; i++) {
        const double was = z[i], step = 1e-6;
        z[i] = was + step;
        const double more = loss_of(&f, z);
        z[i] = was - step;
        const double difference = (more - loss_of(&f, z)) / (2 * step);
        z[i] = was;
        some += fabs(difference) > 1e-3;
        if (!(fabs((double)gradient[i] - difference) < 2e-6))
            fail_msg("derivative %d is %.9g, not %.9g", (int)i, (double)gradient[i], difference);
    }
    assert_true(some > count / 2);
    close_all(&f);
}

static const char *const levels3[] = { "0.1", "0.5", "0.9", NULL };
static const char *const levels5[] = { "0.02", "0.25", "0.4", "0.75", "0.999", NULL };
static const char *const level1[] = { "0.8", NULL };

static void test_target_losses__pinball(void **state)
{
    (void)state;
    check_loss(levels3);
    check_loss(levels5);
    check_loss(level1);
}

static void test_target_losses__labels(void **state)
{
    (void)state;
    check_loss(NULL);
}

/* ---- outputs ---- */

/* z = c W + b of a linear model. */
static void numbers_of(const fixture *f, int row, double *z)
{
    const int64_t width = width_of(f);
    for (int64_t k = 0; k < width; k++)
        z[k] = (double)values_of(f, "bias")[k] +
               (double)f->c[row][0] * (double)values_of(f, "weight")[k];
}

static void test_target_losses__quantiles(void **state)
{
    (void)state;
    fixture f = { .encoder = NULL };
    double z[LEVELS_MOST], q[LEVELS_MOST];
    open_all(&f, levels5, false, build_outputs);
    start(&f);
    draw_param(&f, "weight", 5, 1);
    draw_param(&f, "bias", 5, 1);
    run(&f);
    const float *found = et_pass_output(f.pass, ET_TABULAR_QUANTILES).data;
    for (int row = 0; row < ROWS; row++) {
        numbers_of(&f, row, z);
        quantiles_of(&f, z, q);
        for (int k = 0; k < 5; k++) {
            const double expected = q[k] * DEVIATION + MEAN;
            if (!(fabs((double)found[row * 5 + k] - expected) < 1e-4))
                fail_msg("row %d, level %d: %g is not %g", row, k, (double)found[row * 5 + k],
                         expected);
        }
    }
    close_all(&f);
}

/* A model that is not trained begins as a normal distribution. */
static void test_target_losses__begins_as_normal(void **state)
{
    (void)state;
    fixture f = { .encoder = NULL };
    open_all(&f, levels3, false, build_outputs);
    start(&f);
    run(&f);
    const float *found = et_pass_output(f.pass, ET_TABULAR_QUANTILES).data;
    for (int k = 0; k < 3; k++)
        assert_true(fabs((double)found[k] -
                         (MEAN + DEVIATION * normal_quantile(f.target.level[k]))) < 1e-5);
    close_all(&f);
}

/* Whatever the numbers are: of size 1 and of size 1,000. */
static void test_target_losses__never_cross(void **state)
{
    (void)state;
    for (float size = 1; size < 1e4f; size *= 10) {
        fixture f = { .encoder = NULL };
        open_all(&f, levels5, false, build_outputs);
        start(&f);
        draw_param(&f, "weight", 5, size);
        run(&f);
        const float *found = et_pass_output(f.pass, ET_TABULAR_QUANTILES).data;
        for (int row = 0; row < ROWS; row++)
            for (int k = 1; k < 5; k++)
                if (!(found[row * 5 + k] >= found[row * 5 + k - 1]))
                    fail_msg("size %g, row %d: %g is below %g", (double)size, row,
                             (double)found[row * 5 + k], (double)found[row * 5 + k - 1]);
        close_all(&f);
    }
}

static void test_target_losses__scores(void **state)
{
    (void)state;
    fixture f = { .encoder = NULL };
    double z[LEVELS_MOST];
    open_all(&f, NULL, false, build_outputs);
    assert_int_equal(f.target.labels, LABELS);
    start(&f);
    draw_param(&f, "weight", LABELS, 1);
    draw_param(&f, "bias", LABELS, 1);
    run(&f);
    const float *found = et_pass_output(f.pass, ET_TABULAR_SCORES).data;
    for (int row = 0; row < ROWS; row++) {
        numbers_of(&f, row, z);
        for (int k = 0; k < LABELS; k++)
            assert_true(fabs((double)found[row * LABELS + k] - 1 / (1 + exp(-z[k]))) < 1e-5);
    }
    close_all(&f);
}

/* ---- levels ---- */

static void test_target_losses__levels(void **state)
{
    (void)state;
    static const struct {
        const char *level[3], *words;
    } cases[] = {
        { { "0" }, "\"0\" is no level" },
        { { "1" }, "\"1\" is no level" },
        { { "0.5", "1" }, "\"1\" is no level" },
        { { "-0.1" }, "\"-0.1\" is no level" },
        { { "nan" }, "\"nan\" is no level" },
        { { "inf" }, "\"inf\" is no level" },
        { { "0.1x" }, "\"0.1x\" is no level" },
        { { "" }, "\"\" is no level" },
        { { "50%" }, "\"50%\" is no level" },
        { { "0.99999999999999999999" }, "is no level" },
        { { "1e-400" }, "is no level" },
        { { "0.5", "0.1" }, "0.1 comes after 0.5" },
        { { "0.1", "0.1" }, "0.1 comes after 0.1" },
        { { "0.1", "0.10" }, "0.10 comes after 0.1" },
        { { "0.5", "0.50000000000000011" }, "0.50000000000000011 comes after 0.5" },
    };
    double level[ET_TABULAR_QUANTILES_MAX];
    const char *many[ET_TABULAR_QUANTILES_MAX + 1];
    int count;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const et_strings list = { cases[i].level, cases[i].level[1] ? 2 : 1 };
        assert_fails(et_tabular_levels(level, &count, &list, error), ET_ECONFIG, cases[i].words);
    }
    for (size_t i = 0; i < COUNT(many); i++)
        many[i] = "0.5";
    assert_fails(et_tabular_levels(level, &count, &(et_strings){ many, COUNT(many) }, error),
                 ET_ECONFIG, "100 levels; give at most 99");
    assert_ok(et_tabular_levels(level, &count, &(et_strings){ levels5, 5 }, error));
    assert_true(count == 5 && level[1] == 0.25 && level[4] == 0.999);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_target_losses__pinball),
        cmocka_unit_test(test_target_losses__labels),
        cmocka_unit_test(test_target_losses__quantiles),
        cmocka_unit_test(test_target_losses__begins_as_normal),
        cmocka_unit_test(test_target_losses__never_cross),
        cmocka_unit_test(test_target_losses__scores),
        cmocka_unit_test(test_target_losses__levels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
