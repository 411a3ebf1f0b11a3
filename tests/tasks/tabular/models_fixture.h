/* A table and a model of it, whose outputs a test computes by hand in double, from the weights by
 * name. Include after cmocka.h. */
#ifndef ETUDE_TESTS_TASKS_TABULAR_MODELS_FIXTURE_H
#define ETUDE_TESTS_TASKS_TABULAR_MODELS_FIXTURE_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include <etude/pass.h>

#include "base/numbers/philox.h"
#include "calls.h"
#include "data/table_fixture.h"
#include "engine/tensor/params.h"
#include "tasks/tabular/networks/networks_private.h"
#include "tasks/tabular/samples.h"
#include "tasks/tabular/tabular_task.h"

enum { ROWS = 7, NUMBERS = 3, IDS = 2, OUTPUTS = 4, WIDTH = 8 };
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

typedef struct rows {
    float x[ROWS][2], c[ROWS][1];
    int32_t s[ROWS][1], t[ROWS][1], y[ROWS];
} rows;

static inline rows make_rows(void)
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

static inline void build(et_scope *scope, void *payload)
{
    fixture *f = payload;
    et_output(scope, "z", et_tabular_model_build(scope, &f->options.model, f->encoder, OUTPUTS));
}

static inline void open_samples(fixture *f)
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
static inline void draw(et_params *params)
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

static inline void open_model(fixture *f, int type)
{
    f->rows = make_rows();
    et_fields_defaults(&et_tabular_fields, &f->options);
    f->options.model.type = type;
    assert_ok(encoder_parse(&f->encoder, schema_text, metadata_text, features_text, error));
    open_samples(f);
}

static inline void run_model(fixture *f)
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

static inline void close_model(fixture *f)
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

static inline const float *weights(const fixture *f, const char *name, int64_t size)
{
    int index = et_params_find(f->params, name);
    if (index < 0)
        fail_msg("there is no %s", name);
    assert_int_equal(et_shape_count(et_params_shape(f->params, index)), size);
    return et_params_values(f->params) + et_params_offset(f->params, index);
}

static inline const float *part(const fixture *f, const char *scope, const char *name, int64_t size)
{
    char path[200];
    snprintf(path, sizeof path, "%s%s", scope, name);
    return weights(f, path, size);
}

/* y = x W + b; scope ends in "/". */
static inline void dense(const fixture *f, const char *scope, const double *x, int in, double *y,
                         int out)
{
    const float *w = part(f, scope, "weight", in * out), *b = part(f, scope, "bias", out);
    for (int o = 0; o < out; o++) {
        y[o] = (double)b[o];
        for (int i = 0; i < in; i++)
            y[o] += x[i] * (double)w[i * out + o];
    }
}

static inline void relu(double *x, int count)
{
    for (int i = 0; i < count; i++)
        x[i] = fmax(x[i], 0);
}

static inline void layer_norm(const fixture *f, const char *scope, const double *x, double *y,
                              int count)
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

static inline void numbers_of(const rows *r, int row, double x[NUMBERS])
{
    x[0] = (double)r->x[row][0];
    x[1] = (double)r->x[row][1];
    x[2] = (double)r->c[row][0];
}

/* Row `id` of column c's table, where each column has its width. */
static inline const float *embedding(const float *table, const int width[IDS], int c, int id)
{
    int64_t at = 0;
    for (int i = 0; i < c; i++)
        at += ids_of[i] * width[i];
    return table + at + (int64_t)id * width[c];
}

/* Widths by 1.6 ids^0.56, rounded. */
static const int usual[IDS] = { 3, 4 };

/* n / (n + k) of an id of n rows. */
static inline double shrinkage(const fixture *f, double k, int c, int id)
{
    double n = 0;
    for (int i = 0; i < ROWS; i++)
        n += (c ? f->rows.t[i][0] : f->rows.s[i][0]) == id;
    return k > 0 ? n / (n + k) : 1;
}

/* Numbers, their encodings, embeddings; how many. */
static inline int flatten(const fixture *f, int row, int bins, const int width[IDS], double *x)
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
            x[count++] = (double)embedding(table, width, c, id)[i] *
                         shrinkage(f, f->options.model.mlp.columns.embedding_shrinkage, c, id);
    }
    return count;
}

#endif
