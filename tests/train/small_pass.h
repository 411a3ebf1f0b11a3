/* A small model over arrays and all that a step of it needs. Include after cmocka.h. */
#ifndef ETUDE_TESTS_TRAIN_SMALL_PASS_H
#define ETUDE_TESTS_TRAIN_SMALL_PASS_H

#include <etude/layers.h>

#include "engine/exec/device.h"
#include "engine/exec/pass.h"
#include "formats/files.h"
#include "train/toy_run.h"

enum { SAMPLES = 64, FEATURES = 5 };

static float small_x[SAMPLES * FEATURES], small_y[SAMPLES];

/* Samples in order, pass after pass, `rows` a batch. */
static inline int small_source(et_source **out, int64_t rows, et_error *error)
{
    const et_array arrays[] = { { "x", ET_F32, small_x, et_shape_1(FEATURES) },
                                { "y", ET_F32, small_y, et_shape_1(1) } };
    et_samples *samples;
    et_batches_options options = { .repeat = true, .capacity = { rows } };
    for (int i = 0; i < SAMPLES * FEATURES; i++)
        small_x[i] = (float)(i * 37 % 101) / 50 - 1;
    for (int i = 0; i < SAMPLES; i++)
        small_y[i] = (float)(i * 13 % 17) / 9 - 1;
    int status = et_arrays_open(&samples, arrays, 2, SAMPLES, error);
    return status ? status : et_batches_open(out, samples, &options, error);
}

typedef struct small_pass {
    et_device *device;
    et_params *params;
    et_source *source;
    et_batch *batch;
    et_pass *pass;
} small_pass;

static inline void small_open(small_pass *s, et_build_fn *build, int64_t rows,
                              const et_pass_options *options)
{
    *s = (small_pass){ .source = NULL };
    assert_ok(et_device_open(&s->device, error));
    assert_ok(et_params_new(&s->params, error));
    assert_ok(small_source(&s->source, rows, error));
    assert_ok(et_batch_new(&s->batch, &s->source->layout, error));
    assert_ok(et_pass_open(&s->pass, s->device, s->params, &s->source->layout, build, NULL, options,
                           error));
    assert_ok(et_params_materialize(s->params, false, error));
    et_init_draw(s->params, 3);
    assert_ok(et_pass_prepare(s->pass, &s->source->layout, error));
}

/* A loss, a measure and two variables: a number, and a row that means of columns go to. */
static inline void small_build(et_scope *s, int64_t hidden)
{
    const et_init zeros = { ET_INIT_ZEROS, 0 };
    et_node *x = et_batch_input(s, "x"), *y = et_batch_input(s, "y");
    et_node *h = et_tanh(et_dense(et_in(s, "hidden"), x, hidden));
    et_node *d = et_sub(et_dense(et_in(s, "out"), h, 1), y);
    et_matmul_options columns = { .transpose_a = true };
    et_loss(s, "loss", et_mul(d, d), 1);
    et_measure(s, "y", et_sum(y), et_sum(et_batch_input(s, "mask")));
    et_moving_mean(s, et_variable(s, "sum", et_shape_scalar(), zeros), et_sum(h), 0.9f);
    et_moving_mean(s, et_variable(s, "columns", et_shape_2(1, FEATURES), zeros),
                   et_matmul(y, x, NULL, &columns), 0.5f);
}

static inline void small_close(small_pass *s)
{
    et_pass_close(s->pass);
    et_batch_free(s->batch);
    et_source_close(s->source);
    et_params_free(s->params);
    et_device_close(s->device);
}

/* The next batch, and the pass over it. */
static inline void small_run(small_pass *s)
{
    assert_ok(et_source_next(s->source, s->batch, error));
    assert_ok(et_pass_run(s->pass, s->batch, 1, 0, error));
}

#endif
