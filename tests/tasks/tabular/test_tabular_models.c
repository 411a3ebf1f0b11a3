/* Models of tables: each is compared with a plain computation in double from the weights by name;
 * statistics of the training rows; losses of all kinds; refusals. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tasks/tabular/models_fixture.h"
#include "tasks/tabular/target/target.h"

enum { TOKENS = 1 + NUMBERS + IDS };

static const char value_features_text[] =
    "features: [{name: C, type: identity, fields: c}, {name: V, type: target, fields: \"v,w\"}]";

static void compare(const fixture *f, int row, const double *expected)
{
    et_tensor z = et_pass_output(f->pass, "z");
    assert_int_equal(z.dtype, ET_F32);
    assert_true(et_shape_equal(z.shape, et_shape_2(ROWS, OUTPUTS)));
    for (int o = 0; o < OUTPUTS; o++) {
        double found = (double)((const float *)z.data)[row * OUTPUTS + o];
        if (!(fabs(found - expected[o]) < 1e-5 * (1 + fabs(expected[o]))))
            fail_msg("row %d, output %d: %g is not %g", row, o, found, expected[o]);
    }
}
static void test_models__linear(void **state)
{
    (void)state;
    fixture f = { .encoder = NULL };
    open_model(&f, ET_TABULAR_LINEAR);
    run_model(&f);
    static const int width[IDS] = { OUTPUTS, OUTPUTS };
    const float *table = weights(&f, "table", (4 + 5) * OUTPUTS);
    for (int row = 0; row < ROWS; row++) {
        double x[NUMBERS], y[OUTPUTS];
        numbers_of(&f.rows, row, x);
        dense(&f, "", x, NUMBERS, y, OUTPUTS);
        for (int o = 0; o < OUTPUTS; o++)
            y[o] += (double)embedding(table, width, 0, f.rows.s[row][0])[o] +
                    (double)embedding(table, width, 1, f.rows.t[row][0])[o];
        compare(&f, row, y);
    }
    close_model(&f);
}

static void test_models__feed_forward(void **state)
{
    (void)state;
    static const char *const widths[] = { "8", "5" };
    fixture f = { .encoder = NULL };
    open_model(&f, ET_TABULAR_FEED_FORWARD);
    f.options.model.feed_forward.hidden_layers = (et_strings){ widths, 2 };
    run_model(&f);
    et_init init = et_params_init(f.params, et_params_find(f.params, "layer_0/weight"));
    assert_int_equal(init.kind, ET_INIT_TRUNCATED_NORMAL);
    assert_true(init.scale == 1 / sqrtf(NUMBERS + 3 + 4));
    for (int row = 0; row < ROWS; row++) {
        double x[WIDTH_MAX], h[8], g[5], y[OUTPUTS];
        int count = flatten(&f, row, 0, usual, x);
        dense(&f, "layer_0/", x, count, h, 8);
        relu(h, 8);
        dense(&f, "layer_1/", h, 8, g, 5);
        relu(g, 5);
        dense(&f, "logits/", g, 5, y, OUTPUTS);
        compare(&f, row, y);
    }
    close_model(&f);
}

static void test_models__mlp(void **state)
{
    (void)state;
    fixture f = { .encoder = NULL };
    open_model(&f, ET_TABULAR_MLP);
    et_tabular_mlp *m = &f.options.model.mlp;
    m->num_layers = 2;
    m->width = WIDTH;
    m->norm = ET_TABULAR_NORM_LAYER;
    m->columns.bins = 4;
    m->columns.embedding_width = 6;
    m->columns.embedding_shrinkage = 2;
    run_model(&f);
    static const int width[IDS] = { 6, 6 };
    for (int row = 0; row < ROWS; row++) {
        double x[WIDTH_MAX], h[WIDTH], g[WIDTH], y[OUTPUTS];
        int count = flatten(&f, row, 4, width, x);
        dense(&f, "layer_0/", x, count, h, WIDTH);
        layer_norm(&f, "layer_0/norm/", h, g, WIDTH);
        relu(g, WIDTH);
        dense(&f, "layer_1/", g, WIDTH, h, WIDTH);
        layer_norm(&f, "layer_1/norm/", h, g, WIDTH);
        relu(g, WIDTH);
        dense(&f, "logits/", g, WIDTH, y, OUTPUTS);
        compare(&f, row, y);
    }
    close_model(&f);
}

/* Of inference: the moving means and variances. */
static void batch_norm(const fixture *f, const char *scope, const double *x, double *y)
{
    const float *scale = part(f, scope, "scale", WIDTH), *offset = part(f, scope, "offset", WIDTH);
    const float *mean = part(f, scope, "mean", WIDTH);
    const float *variance = part(f, scope, "variance", WIDTH);
    for (int i = 0; i < WIDTH; i++)
        y[i] = (x[i] - (double)mean[i]) / sqrt((double)variance[i] + 1e-5) * (double)scale[i] +
               (double)offset[i];
}

static void test_models__resnet(void **state)
{
    (void)state;
    fixture f = { .encoder = NULL };
    open_model(&f, ET_TABULAR_RESNET);
    et_tabular_resnet *m = &f.options.model.resnet;
    m->num_blocks = 2;
    m->width = WIDTH;
    m->hidden_factor = 1.5;
    m->columns.numbers = ET_TABULAR_NUMBERS_PLAIN;
    run_model(&f);
    et_params_begin_change(f.params);
    for (int i = 0; i < et_params_count(f.params); i++) /* a variance below 0 is none */
        if (strstr(et_params_name(f.params, i), "variance"))
            for (int k = 0; k < WIDTH; k++)
                et_params_values(f.params)[et_params_offset(f.params, i) + k] =
                    0.5f + 0.1f * (float)k;
    et_params_changed(f.params, true);
    assert_ok(et_pass_run(f.pass, f.batch, 1, 0, error));
    for (int row = 0; row < ROWS; row++) {
        double x[WIDTH_MAX], h[WIDTH], g[WIDTH], inner[12], y[OUTPUTS];
        int count = flatten(&f, row, 0, usual, x);
        dense(&f, "first/", x, count, h, WIDTH);
        for (int b = 0; b < 2; b++) {
            const char *scope[2][3] = { { "block_0/norm/", "block_0/in/", "block_0/out/" },
                                        { "block_1/norm/", "block_1/in/", "block_1/out/" } };
            batch_norm(&f, scope[b][0], h, g);
            dense(&f, scope[b][1], g, WIDTH, inner, 12);
            relu(inner, 12);
            dense(&f, scope[b][2], inner, 12, g, WIDTH);
            for (int i = 0; i < WIDTH; i++)
                h[i] += g[i];
        }
        batch_norm(&f, "last/norm/", h, g);
        relu(g, WIDTH);
        dense(&f, "logits/", g, WIDTH, y, OUTPUTS);
        compare(&f, row, y);
    }
    close_model(&f);
}

/* ---- FT-Transformer ---- */

static void tokenize(const fixture *f, int row, double x[TOKENS][WIDTH])
{
    static const int width[IDS] = { WIDTH, WIDTH };
    const float *cls = weights(f, "tokenizer/cls", WIDTH);
    const float *w = weights(f, "tokenizer/numbers/weight", NUMBERS * WIDTH);
    const float *b = weights(f, "tokenizer/numbers/bias", NUMBERS * WIDTH);
    const float *table = weights(f, "tokenizer/ids/table", (4 + 5) * WIDTH);
    const float *bias = weights(f, "tokenizer/ids/bias", IDS * WIDTH);
    double numbers[NUMBERS];
    numbers_of(&f->rows, row, numbers);
    for (int i = 0; i < WIDTH; i++) {
        x[0][i] = (double)cls[i];
        for (int n = 0; n < NUMBERS; n++)
            x[1 + n][i] = numbers[n] * (double)w[n * WIDTH + i] + (double)b[n * WIDTH + i];
        for (int c = 0; c < IDS; c++) {
            int id = c ? f->rows.t[row][0] : f->rows.s[row][0];
            x[1 + NUMBERS + c][i] =
                (double)embedding(table, width, c, id)[i] + (double)bias[c * WIDTH + i];
        }
    }
}

/* One token's mixture of the values of all, in two heads. */
static void attend(const double *q, const double k[TOKENS][WIDTH], const double v[TOKENS][WIDTH],
                   double *mixed)
{
    const int heads = 2, size = WIDTH / heads;
    for (int h = 0; h < heads; h++) {
        double weight[TOKENS], sum = 0;
        for (int t = 0; t < TOKENS; t++) {
            double score = 0;
            for (int i = h * size; i < (h + 1) * size; i++)
                score += q[i] * k[t][i];
            sum += weight[t] = exp(score / sqrt(size));
        }
        for (int i = h * size; i < (h + 1) * size; i++) {
            mixed[i] = 0;
            for (int t = 0; t < TOKENS; t++)
                mixed[i] += weight[t] / sum * v[t][i];
        }
    }
}

static void forward(const fixture *f, const char *scope, double *x)
{
    char path[3][100];
    double n[WIDTH], both[20], y[WIDTH];
    snprintf(path[0], 100, "%sfeed_forward/norm/", scope);
    snprintf(path[1], 100, "%sfeed_forward/in/", scope);
    snprintf(path[2], 100, "%sfeed_forward/out/", scope);
    layer_norm(f, path[0], x, n, WIDTH);
    dense(f, path[1], n, WIDTH, both, 20);
    for (int i = 0; i < 10; i++)
        both[i] *= fmax(both[10 + i], 0);
    dense(f, path[2], both, 10, y, WIDTH);
    for (int i = 0; i < WIDTH; i++)
        x[i] += y[i];
}

/* The first block: all tokens ask, and its input is not normed. */
static void first_block(const fixture *f, double x[TOKENS][WIDTH])
{
    double q[TOKENS][WIDTH], k[TOKENS][WIDTH], v[TOKENS][WIDTH], out[WIDTH], mixed[WIDTH];
    for (int t = 0; t < TOKENS; t++) {
        double qkv[3 * WIDTH];
        dense(f, "block_0/attention/qkv/", x[t], WIDTH, qkv, 3 * WIDTH);
        memcpy(q[t], qkv, sizeof q[t]);
        memcpy(k[t], qkv + WIDTH, sizeof k[t]);
        memcpy(v[t], qkv + 2 * WIDTH, sizeof v[t]);
    }
    for (int t = 0; t < TOKENS; t++) {
        attend(q[t], k, v, mixed);
        dense(f, "block_0/attention/output/", mixed, WIDTH, out, WIDTH);
        for (int i = 0; i < WIDTH; i++)
            x[t][i] += out[i];
        forward(f, "block_0/", x[t]);
    }
}

/* The last one: [CLS] alone asks. */
static void last_block(const fixture *f, double x[TOKENS][WIDTH])
{
    double q[WIDTH], k[TOKENS][WIDTH], v[TOKENS][WIDTH], n[WIDTH], out[WIDTH], mixed[WIDTH];
    for (int t = 0; t < TOKENS; t++) {
        double kv[2 * WIDTH];
        layer_norm(f, "block_1/attention/norm/", x[t], n, WIDTH);
        dense(f, "block_1/attention/key_value/", n, WIDTH, kv, 2 * WIDTH);
        memcpy(k[t], kv, sizeof k[t]);
        memcpy(v[t], kv + WIDTH, sizeof v[t]);
        if (t == 0)
            dense(f, "block_1/attention/query/", n, WIDTH, q, WIDTH);
    }
    attend(q, k, v, mixed);
    dense(f, "block_1/attention/output/", mixed, WIDTH, out, WIDTH);
    for (int i = 0; i < WIDTH; i++)
        x[0][i] += out[i];
    forward(f, "block_1/", x[0]);
}

static void test_models__ft_transformer(void **state)
{
    (void)state;
    fixture f = { .encoder = NULL };
    open_model(&f, ET_TABULAR_FT_TRANSFORMER);
    et_tabular_ft_transformer *m = &f.options.model.ft_transformer;
    m->num_blocks = 2;
    m->width = WIDTH;
    m->num_attention_heads = 2;
    m->ffn_factor = 1.25;
    run_model(&f);
    for (int row = 0; row < ROWS; row++) {
        double x[TOKENS][WIDTH], n[WIDTH], y[OUTPUTS];
        tokenize(&f, row, x);
        first_block(&f, x);
        last_block(&f, x);
        layer_norm(&f, "norm/", x[0], n, WIDTH);
        relu(n, WIDTH);
        dense(&f, "logits/", n, WIDTH, y, OUTPUTS);
        compare(&f, row, y);
    }
    close_model(&f);
}

/* ---- bins ---- */

/* Boundaries are values of the column, rising; each bin goes from 0 to 1 between two of them. */
static void test_models__bins_are_quantiles(void **state)
{
    (void)state;
    enum { COUNT_ROWS = 2000, BINS = 4 };
    static float x[COUNT_ROWS][2], c[COUNT_ROWS][1];
    for (int i = 0; i < COUNT_ROWS; i++) {
        x[i][0] = (float)i;                         /* 0 .. 1999 */
        x[i][1] = i < 1800 ? 5 : (float)(i - 1800); /* nine in ten are 5 */
        c[i][0] = i % 3 ? 1.5f : -2.5f;             /* two values */
    }
    fixture f = { .encoder = NULL };
    open_model(&f, ET_TABULAR_MLP);
    f.options.model.mlp.columns.bins = BINS;
    run_model(&f);
    static int32_t s[COUNT_ROWS][1], t[COUNT_ROWS][1], y[COUNT_ROWS];
    const et_array arrays[] = {
        { "X", ET_F32, x, et_shape_1(2) },     { "C", ET_F32, c, et_shape_1(1) },
        { "s", ET_I32, s, et_shape_1(1) },     { "t", ET_I32, t, et_shape_1(1) },
        { "Y", ET_I32, y, et_shape_scalar() },
    };
    et_samples *samples;
    assert_ok(et_arrays_open(&samples, arrays, 5, COUNT_ROWS, error));
    assert_ok(et_tabular_model_fit(f.params, &f.options.model, f.encoder, samples, error));
    et_samples *few;
    const float *factor = weights(&f, "columns/bins/factor", 3 * BINS);
    const float *offset = weights(&f, "columns/bins/offset", 3 * BINS);
    /* Of equal shares. */
    static const float uniform[] = { 0, 499, 999, 1499, 1999 };
    for (int b = 0; b < BINS; b++) {
        assert_true(factor[b] == 1 / (uniform[b + 1] - uniform[b]));
        assert_true(offset[b] == -uniform[b] / (uniform[b + 1] - uniform[b]));
    }
    /* Most bins are of the tenth that is not 5: 0, 5, .., 199. */
    const float *f1 = factor + BINS, *o1 = offset + BINS;
    assert_true(o1[0] == 0 && f1[0] > 0 && f1[1] > 0 && f1[2] > 0);
    float last = -1;
    for (int b = 0; b < BINS && f1[b] > 0; b++)
        last = (1 - o1[b]) / f1[b];
    assert_true(fabsf(last - 199) < 1e-3f);
    /* Two values, one bin. */
    assert_true(factor[2 * BINS] == 0.25f && offset[2 * BINS] == 2.5f / 4);
    for (int b = 1; b < BINS; b++)
        assert_true(factor[2 * BINS + b] == 0 && offset[2 * BINS + b] == 0);
    /* Of 600 rows two bins, and the others say nothing. */
    assert_ok(et_take_open(&few, samples, 600, error));
    assert_ok(et_tabular_model_fit(f.params, &f.options.model, f.encoder, few, error));
    assert_true(factor[0] > 0 && factor[1] > 0 && factor[2] == 0 && factor[3] == 0);
    et_samples_close(few);
    close_model(&f);
}

/* ---- what cannot be ---- */

static void refuse(fixture *f, const char *words)
{
    assert_ok(et_device_open(&f->device, error));
    assert_ok(et_params_new(&f->params, error));
    assert_fails(
        et_pass_open(&f->pass, f->device, f->params, &f->source->layout, build, f, NULL, error),
        ET_EGRAPH, words);
    f->pass = NULL;
    close_model(f);
}

static void test_models__refused(void **state)
{
    (void)state;
    static const char *const widths[] = { "8", "many" };
    fixture f = { .encoder = NULL };
    open_model(&f, ET_TABULAR_FEED_FORWARD);
    f.options.model.feed_forward.hidden_layers = (et_strings){ widths, 2 };
    refuse(&f, "\"many\" is not a width; give 1 to");
    f = (fixture){ .encoder = NULL };
    open_model(&f, ET_TABULAR_MLP);
    et_encoder_free(f.encoder);
    assert_ok(encoder_parse(&f.encoder, schema_text, metadata_text,
                            "features: [{name: Y, type: target, fields: y}]", error));
    refuse(&f, "all features are targets: there are no input columns");
}

/* ---- targets and losses ---- */

static void test_models__targets(void **state)
{
    (void)state;
    et_encoder *classes, *values;
    et_tabular_target target;
    et_tabular_options o;
    et_fields_defaults(&et_tabular_fields, &o);
    assert_ok(encoder_parse(&classes, schema_text, metadata_text, features_text, error));
    assert_ok(encoder_parse(&values, schema_text, metadata_text, value_features_text, error));
    assert_ok(et_tabular_target_of(&target, &o, classes, error));
    assert_string_equal(target.field->name, "Y");
    assert_true(target.classes == OUTPUTS && target.values == 0);
    o.loss = ET_TABULAR_LOSS_HUBER;
    assert_fails(et_tabular_target_of(&target, &o, classes, error), ET_ECONFIG,
                 "task.loss: the target y has classes; choose softmax");
    assert_ok(et_tabular_target_of(&target, &o, values, error));
    assert_true(target.classes == 0 && target.values == 2);
    o.loss = ET_TABULAR_LOSS_BINARY;
    assert_fails(et_tabular_target_of(&target, &o, classes, error), ET_ECONFIG,
                 "task.loss: binary needs two classes, but y has 4");
    assert_fails(et_tabular_target_of(&target, &o, values, error), ET_ECONFIG, "is a number");
    o.loss = ET_TABULAR_LOSS_AUTO;
    o.label_smoothing = 0.1;
    assert_fails(et_tabular_target_of(&target, &o, values, error), ET_ECONFIG,
                 "task.label_smoothing: the target v is a number");
    o.target = (et_strings){ (const char *const[]){ "s" }, 1 };
    assert_fails(et_tabular_target_of(&target, &o, classes, error), ET_ECONFIG,
                 "task.target is s, but the target in the features is y");
    assert_fails(et_tabular_target_of(&target, &o, values, error), ET_ECONFIG,
                 "task.target names 1 column, but the target in the features has 2");
    et_encoder_free(classes);
    et_encoder_free(values);
}

/* ---- RealMLP ---- */

enum { FREQUENCIES = 5, PERIODIC = 3 };

/* Numbers, combinations of their cosines, s one-hot, t embedded; how many. */
static int flatten_periodic(const fixture *f, int row, double *x)
{
    const int all = NUMBERS * FREQUENCIES, each = PERIODIC - 1;
    const float *frequency = weights(f, "columns/periodic/frequency", all);
    const float *phase = weights(f, "columns/periodic/phase", all);
    const float *bias = weights(f, "columns/periodic/bias", NUMBERS * each);
    int count = NUMBERS;
    numbers_of(&f->rows, row, x);
    for (int n = 0; n < NUMBERS; n++)
        for (int k = 0; k < each; k++) {
            char name[60];
            snprintf(name, sizeof name, "columns/periodic/output_%d/weight", k);
            double sum = (double)bias[n * each + k];
            for (int j = 0; j < FREQUENCIES; j++) {
                int i = n * FREQUENCIES + j;
                double angle = 2 * acos(-1) * (double)frequency[i] * x[n] + (double)phase[i];
                sum += (double)weights(f, name, all)[i] * cos(angle);
            }
            x[count++] = sum;
        }
    for (int id = 0; id < ids_of[0]; id++)
        x[count++] = id == f->rows.s[row][0];
    for (int i = 0; i < 6; i++)
        x[count++] =
            (double)weights(f, "columns/embedding/table", ids_of[1] * 6)[f->rows.t[row][0] * 6 + i];
    return count;
}

/* x W / sqrt(in) + b */
static void tangent_dense(const fixture *f, const char *scope, const double *x, int in, double *y,
                          int out)
{
    const float *b = part(f, scope, "bias", out);
    dense(f, scope, x, in, y, out);
    for (int o = 0; o < out; o++)
        y[o] = (y[o] - (double)b[o]) / sqrt(in) + (double)b[o];
}

static void selu(double *x, int count)
{
    for (int i = 0; i < count; i++)
        x[i] = 1.0507009873554805 * (x[i] > 0 ? x[i] : 1.6732632423543772 * expm1(x[i]));
}

/* x + a (f(x) - x), of the layer's learned a. */
static void parametric(const fixture *f, const char *scope, double *x)
{
    double y[WIDTH];
    const float *share = part(f, scope, "activation", WIDTH);
    memcpy(y, x, sizeof y);
    selu(y, WIDTH);
    for (int i = 0; i < WIDTH; i++)
        x[i] += (double)share[i] * (y[i] - x[i]);
}

static void check_realmlp(bool learned)
{
    fixture f = { .encoder = NULL };
    open_model(&f, ET_TABULAR_REALMLP);
    et_tabular_realmlp *m = &f.options.model.realmlp;
    m->num_layers = 2;
    m->width = WIDTH;
    m->columns.numbers = ET_TABULAR_NUMBERS_PERIODIC;
    m->columns.frequencies = FREQUENCIES;
    m->columns.periodic_width = PERIODIC;
    m->columns.one_hot_levels = 2;
    m->columns.embedding_width = 6;
    m->parametric_activation = learned;
    run_model(&f);
    for (int row = 0; row < ROWS; row++) {
        double x[WIDTH_MAX], h[WIDTH], g[WIDTH], y[OUTPUTS];
        int count = flatten_periodic(&f, row, x);
        const float *scale = weights(&f, "input/scale", count);
        for (int i = 0; i < count; i++)
            x[i] *= (double)scale[i];
        tangent_dense(&f, "layer_0/", x, count, h, WIDTH);
        learned ? parametric(&f, "layer_0/", h) : selu(h, WIDTH);
        tangent_dense(&f, "layer_1/", h, WIDTH, g, WIDTH);
        learned ? parametric(&f, "layer_1/", g) : selu(g, WIDTH);
        tangent_dense(&f, "logits/", g, WIDTH, y, OUTPUTS);
        compare(&f, row, y);
    }
    close_model(&f);
}

static void test_models__realmlp(void **state)
{
    (void)state;
    check_realmlp(false);
}

static void test_models__realmlp_parametric(void **state)
{
    (void)state;
    check_realmlp(true);
}

/* Only classes of realmlp are smoothed without being asked. */
static void test_models__label_smoothing(void **state)
{
    (void)state;
    et_tabular_options o;
    et_fields_defaults(&et_tabular_fields, &o);
    assert_true(et_tabular_label_smoothing(&o) == 0);
    o.model.type = ET_TABULAR_REALMLP;
    assert_true(et_tabular_label_smoothing(&o) == 0.1);
    o.label_smoothing = 0;
    assert_true(et_tabular_label_smoothing(&o) == 0);
}
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models__linear),
        cmocka_unit_test(test_models__feed_forward),
        cmocka_unit_test(test_models__mlp),
        cmocka_unit_test(test_models__resnet),
        cmocka_unit_test(test_models__ft_transformer),
        cmocka_unit_test(test_models__bins_are_quantiles),
        cmocka_unit_test(test_models__refused),
        cmocka_unit_test(test_models__targets),
        cmocka_unit_test(test_models__realmlp),
        cmocka_unit_test(test_models__realmlp_parametric),
        cmocka_unit_test(test_models__label_smoothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
