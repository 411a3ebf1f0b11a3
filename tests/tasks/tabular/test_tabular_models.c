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

#include <etude/pass.h>

#include "base/numbers/philox.h"
#include "calls.h"
#include "data/table_fixture.h"
#include "engine/tensor/params.h"
#include "tasks/tabular/models.h"
#include "tasks/tabular/pack/members.h"
#include "tasks/tabular/samples.h"
#include "tasks/tabular/tabular_task.h"

enum { ROWS = 7, NUMBERS = 3, IDS = 2, OUTPUTS = 4, WIDTH = 8, TOKENS = 1 + NUMBERS + IDS };
enum { WIDTH_MAX = 256 };

static const int ids_of[IDS] = { 4, 5 }; /* two and three entries, unknown, missing */

/* ---- a table ---- */

static const char schema_text[] =
    "fields: [{name: a, type: real}, {name: b, type: real}, {name: c, type: real},\n"
    "  {name: s, type: discrete}, {name: t, type: discrete}, {name: y, type: discrete},\n"
    "  {name: v, type: real}, {name: w, type: real}]\n";
static const char metadata_text[] =
    "{\"s\": {\"entries\": [\"u\", \"v\"]}, \"t\": {\"entries\": [\"k\", \"l\", \"m\"]},\n"
    " \"y\": {\"entries\": [\"n\", \"o\", \"p\", \"q\"]}}";
static const char features_text[] = "features:\n"
                                    "  - {name: X, type: concat, features: [{name: a, type: "
                                    "identity}, {name: b, type: identity}]}\n"
                                    "  - {name: C, type: identity, fields: c}\n"
                                    "  - {name: s, type: embed}\n"
                                    "  - {name: t, type: embed}\n"
                                    "  - {name: Y, type: target, fields: y}\n";
static const char value_features_text[] =
    "features: [{name: C, type: identity, fields: c}, {name: V, type: target, fields: \"v,w\"}]";

typedef struct rows {
    float x[ROWS][2], c[ROWS][1];
    int32_t s[ROWS][1], t[ROWS][1], y[ROWS];
} rows;

static rows make_rows(void)
{
    rows r;
    et_random random = { 3, 0, 1 };
    for (int i = 0; i < ROWS; i++) {
        r.x[i][0] = et_random_normal(random, (uint64_t)(4 * i));
        r.x[i][1] = et_random_normal(random, (uint64_t)(4 * i + 1));
        r.c[i][0] = 3 * et_random_normal(random, (uint64_t)(4 * i + 2));
        r.s[i][0] = i % ids_of[0];
        r.t[i][0] = (i * 3 + 1) % ids_of[1];
        r.y[i] = i % OUTPUTS;
    }
    return r;
}

/* ---- a model of it ---- */

typedef struct fixture {
    rows rows;
    et_encoder *encoder;
    et_tabular_options options;
    et_samples *samples, *own; /* own: the batches' */
    et_source *source;
    et_batch *batch;
    et_device *device;
    et_params *params;
    et_pass *pass;
} fixture;

static void build(et_scope *scope, void *payload)
{
    fixture *f = payload;
    et_output(scope, "z", et_tabular_model_build(scope, &f->options.model, f->encoder, OUTPUTS));
}

static void open_samples(fixture *f)
{
    rows *r = &f->rows;
    const et_array arrays[] = {
        { "X", ET_F32, r->x, et_shape_1(2) },     { "C", ET_F32, r->c, et_shape_1(1) },
        { "s", ET_I32, r->s, et_shape_1(1) },     { "t", ET_I32, r->t, et_shape_1(1) },
        { "Y", ET_I32, r->y, et_shape_scalar() },
    };
    et_batches_options batches = { .capacity = { ROWS } };
    assert_ok(et_arrays_open(&f->samples, arrays, 5, ROWS, error));
    assert_ok(et_tabular_borrow(&f->own, f->samples, error));
    assert_ok(et_batches_open(&f->source, f->own, &batches, error));
    assert_ok(et_batch_new(&f->batch, &f->source->layout, error));
    assert_ok(et_source_next(f->source, f->batch, error));
    assert_int_equal(f->batch->filled[0], ROWS);
}

/* Start values drawn anew, all of them: ones and zeros would hide what they are for. */
static void draw(et_params *params)
{
    float *values = et_params_values(params);
    et_params_begin_change(params);
    for (int i = 0; i < et_params_count(params); i++) {
        float *at = values + et_params_offset(params, i);
        et_random random = { 9, 0, et_random_site(et_params_name(params, i)) };
        for (int64_t k = 0; k < et_shape_count(et_params_shape(params, i)); k++)
            at[k] = 0.3f * et_random_normal(random, (uint64_t)k);
    }
    et_params_changed(params, true);
}

static void open_model(fixture *f, int type)
{
    f->rows = make_rows();
    et_fields_defaults(&et_tabular_fields, &f->options);
    f->options.model.type = type;
    assert_ok(encoder_parse(&f->encoder, schema_text, metadata_text, features_text, error));
    open_samples(f);
}

static void run_model(fixture *f)
{
    assert_ok(et_device_open(&f->device, error));
    assert_ok(et_params_new(&f->params, error));
    assert_ok(
        et_pass_open(&f->pass, f->device, f->params, &f->source->layout, build, f, NULL, error));
    assert_ok(et_params_materialize(f->params, false, error));
    draw(f->params);
    assert_ok(et_tabular_model_fit(f->params, &f->options.model, f->encoder, f->samples, error));
    assert_ok(et_pass_run(f->pass, f->batch, 1, 0, error));
}

static void close_model(fixture *f)
{
    et_pass_close(f->pass);
    et_params_free(f->params);
    et_device_close(f->device);
    et_batch_free(f->batch);
    et_source_close(f->source);
    et_samples_close(f->samples);
    et_encoder_free(f->encoder);
}

/* ---- the same by hand ---- */

static const float *weights(const fixture *f, const char *name, int64_t size)
{
    int index = et_params_find(f->params, name);
    if (index < 0)
        fail_msg("there is no %s", name);
    assert_int_equal(et_shape_count(et_params_shape(f->params, index)), size);
    return et_params_values(f->params) + et_params_offset(f->params, index);
}

static const float *part(const fixture *f, const char *scope, const char *name, int64_t size)
{
    char path[200];
    snprintf(path, sizeof path, "%s%s", scope, name);
    return weights(f, path, size);
}

/* y = x W + b; scope ends in "/". */
static void dense(const fixture *f, const char *scope, const double *x, int in, double *y, int out)
{
    const float *w = part(f, scope, "weight", in * out), *b = part(f, scope, "bias", out);
    for (int o = 0; o < out; o++) {
        y[o] = (double)b[o];
        for (int i = 0; i < in; i++)
            y[o] += x[i] * (double)w[i * out + o];
    }
}

static void relu(double *x, int count)
{
    for (int i = 0; i < count; i++)
        x[i] = fmax(x[i], 0);
}

static void layer_norm(const fixture *f, const char *scope, const double *x, double *y, int count)
{
    const float *scale = part(f, scope, "scale", count), *offset = part(f, scope, "offset", count);
    double mean = 0, square = 0;
    for (int i = 0; i < count; i++)
        mean += x[i] / count;
    for (int i = 0; i < count; i++)
        square += (x[i] - mean) * (x[i] - mean) / count;
    for (int i = 0; i < count; i++)
        y[i] = (x[i] - mean) / sqrt(square + 1e-5) * (double)scale[i] + (double)offset[i];
}

static void numbers_of(const rows *r, int row, double x[NUMBERS])
{
    x[0] = (double)r->x[row][0];
    x[1] = (double)r->x[row][1];
    x[2] = (double)r->c[row][0];
}

/* Row `id` of column c's table, where each column has its width. */
static const float *embedding(const float *table, const int width[IDS], int c, int id)
{
    int64_t at = 0;
    for (int i = 0; i < c; i++)
        at += ids_of[i] * width[i];
    return table + at + (int64_t)id * width[c];
}

/* Numbers, their encodings, embeddings; how many. */
static int flatten(const fixture *f, int row, int bins, const int width[IDS], double *x)
{
    int count = NUMBERS;
    numbers_of(&f->rows, row, x);
    for (int n = 0; n < NUMBERS; n++)
        for (int b = 0; b < bins; b++) {
            int i = n * bins + b;
            double e = x[n] * (double)weights(f, "columns/bins/factor", NUMBERS * bins)[i] +
                       (double)weights(f, "columns/bins/offset", NUMBERS * bins)[i];
            x[count++] = fmin(fmax(e, 0), 1);
        }
    int64_t size = ids_of[0] * width[0] + ids_of[1] * width[1];
    const float *table = weights(f, "columns/embedding/table", size);
    for (int c = 0; c < IDS; c++) {
        int id = c ? f->rows.t[row][0] : f->rows.s[row][0];
        for (int i = 0; i < width[c]; i++)
            x[count++] = (double)embedding(table, width, c, id)[i];
    }
    return count;
}

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

/* Widths by 1.6 ids^0.56, rounded. */
static const int usual[IDS] = { 3, 4 };

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
    assert_string_equal(target.field, "Y");
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

/* ---- TabM ---- */

enum { MEMBERS = 3, BINS_OF_TABM = 4 };

/* Logits of a member, from the row's columns. */
static void tabm_member(const fixture *f, int member, const double *columns, int count, double *y)
{
    const et_tabular_tabm *m = &f->options.model.tabm;
    const float *scale = weights(f, "input/scale", MEMBERS * count) + member * count;
    double x[WIDTH_MAX];
    for (int i = 0; i < count; i++)
        x[i] = columns[i] * (double)scale[i];
    for (int l = 0; l < m->num_layers; l++, count = WIDTH) {
        char scope[20];
        double h[WIDTH];
        snprintf(scope, sizeof scope, "layer_%d/", l);
        if (!m->mini && l > 0)
            for (int i = 0; i < count; i++)
                x[i] *= (double)part(f, scope, "input_scale", MEMBERS * count)[member * count + i];
        const float *w = part(f, scope, "weight", count * WIDTH);
        for (int o = 0; o < WIDTH; o++) {
            double sum = 0;
            for (int i = 0; i < count; i++)
                sum += x[i] * (double)w[i * WIDTH + o];
            if (!m->mini)
                sum *= (double)part(f, scope, "output_scale", MEMBERS * WIDTH)[member * WIDTH + o];
            sum += m->mini ? (double)part(f, scope, "bias", WIDTH)[o]
                           : (double)part(f, scope, "bias", MEMBERS * WIDTH)[member * WIDTH + o];
            h[o] = fmax(sum, 0);
        }
        memcpy(x, h, sizeof h);
    }
    for (int c = 0; c < OUTPUTS; c++) {
        char name[40];
        snprintf(name, sizeof name, "logits/output_%d/weight", c);
        y[c] = (double)weights(f, "logits/bias", MEMBERS * OUTPUTS)[member * OUTPUTS + c];
        for (int i = 0; i < WIDTH; i++)
            y[c] += x[i] * (double)weights(f, name, MEMBERS * WIDTH)[member * WIDTH + i];
    }
}

/* Probabilities, and the cross entropy of the label. */
static double softmax_of(const double *y, int label, double *p)
{
    double sum = 0;
    for (int c = 0; c < OUTPUTS; c++)
        sum += exp(y[c]);
    for (int c = 0; c < OUTPUTS; c++)
        p[c] = exp(y[c]) / sum;
    return -log(p[label]);
}

static void build_with_loss(et_scope *scope, void *payload)
{
    fixture *f = payload;
    et_tabular_target target;
    assert_ok(et_tabular_target_of(&target, &f->options, f->encoder, error));
    et_node *z = et_tabular_build_outputs(scope, &f->options, f->encoder, &target, NULL);
    et_tabular_build_loss(scope, &f->options, &target, et_batch_input(scope, "Y"), z);
}

static double measured(const et_pass *pass, const char *name)
{
    for (int i = 0; i < et_pass_measures(pass); i++)
        if (!strcmp(et_pass_measured(pass, i).name, name))
            return et_pass_measured(pass, i).total / et_pass_measured(pass, i).weight;
    fail_msg("no measure %s", name);
    return 0;
}

/* Scores are the mean of the members' probabilities, the loss is the mean of their losses. */
static void test_models__tabm(void **state)
{
    (void)state;
    for (int mini = 0; mini < 2; mini++) {
        fixture f = { .encoder = NULL };
        double loss = 0, right = 0;
        open_model(&f, ET_TABULAR_TABM);
        et_tabular_tabm *m = &f.options.model.tabm;
        *m = (et_tabular_tabm){ .columns = m->columns,
                                .members = MEMBERS,
                                .num_layers = 2,
                                .width = WIDTH,
                                .mini = mini,
                                .activation = ET_ACTIVATION_RELU,
                                .dropout = 0.1 };
        m->columns.bins = BINS_OF_TABM;
        assert_ok(et_device_open(&f.device, error));
        assert_ok(et_params_new(&f.params, error));
        assert_ok(et_pass_open(&f.pass, f.device, f.params, &f.source->layout, build_with_loss, &f,
                               NULL, error));
        assert_ok(et_params_materialize(f.params, false, error));
        draw(f.params);
        assert_ok(et_tabular_model_fit(f.params, &f.options.model, f.encoder, f.samples, error));
        assert_ok(et_pass_run(f.pass, f.batch, 1, 0, error));
        const float *scores = et_pass_output(f.pass, ET_TABULAR_SCORES).data;
        for (int row = 0; row < ROWS; row++) {
            double x[WIDTH_MAX], y[OUTPUTS], p[OUTPUTS], mean[OUTPUTS] = { 0 };
            int count = flatten(&f, row, BINS_OF_TABM, usual, x);
            for (int i = 0; i < MEMBERS; i++) {
                int best = 0;
                tabm_member(&f, i, x, count, y);
                loss += softmax_of(y, f.rows.y[row], p) / MEMBERS;
                for (int c = 0; c < OUTPUTS; c++) {
                    mean[c] += p[c] / MEMBERS;
                    best = y[c] > y[best] ? c : best;
                }
                right += best == f.rows.y[row];
            }
            for (int c = 0; c < OUTPUTS; c++)
                if (!(fabs((double)scores[row * OUTPUTS + c] - mean[c]) < 1e-5))
                    fail_msg("row %d, class %d: %g is not %g", row, c,
                             (double)scores[row * OUTPUTS + c], mean[c]);
        }
        assert_true(fabs(et_pass_loss(f.pass) - loss) < 1e-4);
        assert_true(fabs(measured(f.pass, "nll") - loss / ROWS) < 1e-5);
        assert_true(fabs(measured(f.pass, "accuracy") - right / (ROWS * MEMBERS)) < 1e-5);
        close_model(&f);
    }
}

/* ---- packs ---- */

/* Numbers of two members that drop nothing, and have not as many layers. */
static void choose_members(et_tabular_pack *pack, char text[2][8], const char *only[2])
{
    int64_t layers = 0;
    size_t count = 0;
    for (int i = 0; count < 2; i++) {
        const et_pack_member m = et_pack_member_at(pack, i);
        if (m.dropout > 0 || m.num_layers == layers)
            continue;
        layers = m.num_layers;
        snprintf(text[count], sizeof text[count], "%d", i);
        only[count] = text[count];
        count++;
    }
    pack->only = (et_strings){ .items = only, .count = 2 };
}

/* Logits of a member from its weights below "member_3/" or "best/member_3/": numbers and their
 * cosines, each with a factor and an offset, a column of few values one-hot, the other one
 * embedded. */
static void pack_member(const fixture *f, const char *below, int member, int row, double *y)
{
    const et_pack_member m = et_pack_member_at(&f->options.model.pack, member);
    const int each = (int)m.columns.frequencies, all = NUMBERS * each;
    double x[WIDTH_MAX] = { 0 }, h[WIDTH];
    char scope[60], columns[90], layer[90];
    int count = NUMBERS;
    snprintf(scope, sizeof scope, "%smember_%d/", below, (int)m.number);
    snprintf(columns, sizeof columns, "%scolumns/", scope);
    numbers_of(&f->rows, row, x);
    for (int i = 0; i < all; i++) {
        const double turns = x[i / each] * (double)part(f, columns, "cosine/frequency", all)[i];
        const double phase = (double)part(f, columns, "cosine/phase", all)[i];
        x[count++] = cos(2 * 3.14159265358979323846 * turns + phase);
    }
    for (int i = 0; i < count; i++)
        x[i] = x[i] * (double)part(f, columns, "cosine/weight", count)[i] +
               (double)part(f, columns, "cosine/bias", count)[i];
    x[count + f->rows.s[row][0]] = 1;
    count += ids_of[0];
    for (int i = 0; i < usual[1]; i++)
        x[count++] = (double)part(f, columns, "embedding/table",
                                  ids_of[1] * usual[1])[f->rows.t[row][0] * usual[1] + i];
    for (int l = 0; l < m.num_layers; l++, count = WIDTH) {
        snprintf(layer, sizeof layer, "%slayer_%d/", scope, l);
        dense(f, layer, x, count, h, WIDTH);
        relu(h, WIDTH);
        memcpy(x, h, sizeof h);
    }
    snprintf(layer, sizeof layer, "%slogits/", scope);
    dense(f, layer, x, WIDTH, y, OUTPUTS);
}

static void open_pack(fixture *f, char text[2][8], const char *only[2])
{
    open_model(f, ET_TABULAR_PACK);
    f->options.model.pack.width = WIDTH;
    f->options.model.pack.one_hot_levels = 2;
    choose_members(&f->options.model.pack, text, only);
    assert_ok(et_device_open(&f->device, error));
    assert_ok(et_params_new(&f->params, error));
}

static void run_pack_with(fixture *f, const et_pass_options *options)
{
    assert_ok(et_pass_open(&f->pass, f->device, f->params, &f->source->layout, build_with_loss, f,
                           options, error));
    assert_ok(et_params_materialize(f->params, options->bfloat16, error));
    draw(f->params);
    assert_ok(et_pass_run(f->pass, f->batch, 1, 0, error));
}

static void run_pack(fixture *f, bool training)
{
    const et_pass_options options = { .training = training };
    run_pack_with(f, &options);
}

/* Scores are the mean of the best members' probabilities by their shares; the loss of validation is
 * the mean of the members' own. */
static void test_models__pack(void **state)
{
    (void)state;
    fixture f = { .encoder = NULL };
    char text[2][8];
    const char *only[2];
    double loss = 0;
    open_pack(&f, text, only);
    run_pack(&f, false);
    const float *share = weights(&f, "ensemble/share", 2);
    const float *scores = et_pass_output(f.pass, ET_TABULAR_SCORES).data;
    const float *members = et_pass_output(f.pass, "members").data;
    for (int row = 0; row < ROWS; row++) {
        double y[OUTPUTS], p[OUTPUTS], mean[OUTPUTS] = { 0 };
        for (int i = 0; i < 2; i++) {
            pack_member(&f, "", i, row, y);
            loss += softmax_of(y, f.rows.y[row], p) / 2;
            for (int c = 0; c < OUTPUTS; c++)
                assert_true(fabs(p[c] - (double)*members++) < 1e-5);
        }
        for (int i = 0; i < 2; i++) {
            pack_member(&f, "best/", i, row, y);
            softmax_of(y, 0, p);
            for (int c = 0; c < OUTPUTS; c++) {
                assert_true(fabs(p[c] - (double)*members++) < 1e-5);
                mean[c] += (double)share[i] * p[c];
            }
        }
        for (int c = 0; c < OUTPUTS; c++)
            assert_true(fabs(mean[c] - (double)scores[row * OUTPUTS + c]) < 1e-5);
    }
    assert_true(fabs(et_pass_loss(f.pass) - loss) < 1e-4);
    close_model(&f);
}

static void make_frequencies_high(et_params *params)
{
    et_params_begin_change(params);
    for (int i = 0; i < et_params_count(params); i++)
        if (strstr(et_params_name(params, i), "frequency"))
            for (int64_t k = 0; k < et_shape_count(et_params_shape(params, i)); k++)
                et_params_values(params)[et_params_offset(params, i) + k] *= 100;
    et_params_changed(params, true);
}

/* Cosines of many turns are those of the numbers, not of numbers rounded to bfloat16. */
static void test_models__pack_in_bfloat16(void **state)
{
    (void)state;
    const et_pass_options options = { .bfloat16 = true };
    fixture f = { .encoder = NULL };
    char text[2][8];
    const char *only[2];
    double off = 0;
    open_pack(&f, text, only);
    run_pack_with(&f, &options);
    make_frequencies_high(f.params);
    assert_ok(et_pass_run(f.pass, f.batch, 1, 0, error));
    const float *members = et_pass_output(f.pass, "members").data;
    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < 4; i++) {
            double y[OUTPUTS], p[OUTPUTS];
            pack_member(&f, i < 2 ? "" : "best/", i % 2, row, y);
            softmax_of(y, 0, p);
            for (int c = 0; c < OUTPUTS; c++)
                off = fmax(off, fabs(p[c] - (double)*members++));
        }
    if (!(off < 0.02))
        fail_msg("%g off", off);
    close_model(&f);
}

/* The loss of training is the sum of the members'; gradients are those of a member alone, bit for
 * bit. */
static void test_models__pack_members_are_independent(void **state)
{
    (void)state;
    fixture both = { .encoder = NULL }, one = { .encoder = NULL };
    char text[2][8];
    const char *only[2];
    double loss = 0, y[OUTPUTS], p[OUTPUTS];
    int compared = 0;
    open_pack(&both, text, only);
    run_pack(&both, true);
    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < 2; i++) {
            pack_member(&both, "", i, row, y);
            loss += softmax_of(y, both.rows.y[row], p);
        }
    assert_true(fabs(et_pass_loss(both.pass) - loss) < 1e-4);
    open_pack(&one, text, only);
    one.options.model.pack.only = (et_strings){ .items = &only[1], .count = 1 };
    run_pack(&one, true);
    for (int i = 0; i < et_params_count(one.params); i++, compared++) {
        const int64_t size = et_shape_count(et_params_shape(one.params, i));
        const int other = et_params_find(both.params, et_params_name(one.params, i));
        assert_memory_equal(et_params_gradients(one.params) + et_params_offset(one.params, i),
                            et_params_gradients(both.params) + et_params_offset(both.params, other),
                            (size_t)size * sizeof(float));
    }
    assert_true(compared > 6);
    close_model(&one);
    close_model(&both);
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
        cmocka_unit_test(test_models__tabm),
        cmocka_unit_test(test_models__pack),
        cmocka_unit_test(test_models__pack_in_bfloat16),
        cmocka_unit_test(test_models__pack_members_are_independent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
