/* A small model with a variable that the loop sets, its data, and a loop. Include after
 * cmocka.h. */
#ifndef ETUDE_TESTS_LOOP_TRAINER_FIXTURE_H
#define ETUDE_TESTS_LOOP_TRAINER_FIXTURE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etude/flows.h>
#include <etude/layers.h>
#include <etude/loop_trainer.h>
#include <etude/ops.h>
#include <etude/ops_elementwise.h>

#include "calls.h"

enum { WORLD_ROWS = 20, WORLD_FEATURES = 3 };

typedef struct world {
    et_device *device;
    et_params *params;
    et_source *training, *held_out;
    et_pass *pass, *test; /* training with dropout, evaluation without */
    et_optimizer *optimizer;
    et_loop *loop;
    et_loop_options options;
    char printed[1 << 16];
} world;

/* Outputs: "doubled", a number for each row; "total" and "weighted", one; "turned", [2, rows]. */
static inline void world_build(et_scope *s, void *payload)
{
    const et_init zeros = { ET_INIT_ZEROS, 0 }, ones = { ET_INIT_ONES, 0 };
    const et_matmul_options transposed = { .transpose_b = true };
    (void)payload;
    et_node *x = et_batch_input(s, "x"), *y = et_batch_input(s, "y");
    et_node *mask = et_batch_input(s, "mask");
    et_node *h = et_dropout(s, et_tanh(et_dense(et_in(s, "hidden"), x, 8)), 0.25f);
    et_node *error = et_square(et_sub(et_dense(et_in(s, "out"), h, 1), et_scale(y, 0.1f)));
    et_node *weight = et_variable(s, "weight", et_shape_scalar(), zeros);
    et_loss(s, "loss", error, 1);
    et_loss(s, "penalty", et_mul(et_square(h), weight), 1);
    et_measure(s, "y", et_sum(y), et_sum(mask));
    et_measure(s, "never", et_sum(y), et_scale(et_sum(mask), 0)); /* no row counts */
    et_output(s, "doubled", et_scale(y, 2));
    et_output(s, "total", et_sum(y));
    et_node *basis = et_variable(s, "basis", et_shape_2(2, 1), ones);
    et_output(s, "turned", et_matmul(basis, y, NULL, &transposed));
    et_output(s, "weighted", et_mul(et_sum(mask), weight));
}

/* Samples have y 1 .. count; x follows from it, as probabilities that are sampled again in each
 * pass. */
static inline et_source *world_source(int64_t count, int64_t rows, bool training)
{
    static float x[WORLD_ROWS * WORLD_FEATURES], y[WORLD_ROWS];
    for (int i = 0; i < WORLD_ROWS * WORLD_FEATURES; i++)
        x[i] = (float)(i * 37 % 11) / 10;
    for (int i = 0; i < WORLD_ROWS; i++)
        y[i] = (float)(i + 1);
    const et_array arrays[] = { { "x", ET_F32, x, et_shape_1(WORLD_FEATURES) },
                                { "y", ET_F32, y, et_shape_1(1) } };
    et_batches_options options = {
        .seed = 5, .shuffle = training, .repeat = training, .capacity = { rows }
    };
    et_samples *samples = NULL;
    et_source *source = NULL;
    assert_ok(et_arrays_open(&samples, arrays, 2, count, error));
    assert_ok(et_batches_open(&source, samples, &options, error));
    if (training)
        assert_ok(et_bernoulli_open(&source, source, "x", ET_F32, 3, error));
    return source;
}

static inline void world_print(void *payload, const char *text)
{
    world *w = payload;
    size_t used = strlen(w->printed);
    snprintf(w->printed + used, sizeof w->printed - used, "%s\n", text);
}

/* All but the loop: options may be changed before world_loop. */
static inline void world_open(world *w)
{
    const et_pass_options training = { .training = true }, test = { 0 };
    const et_optimizer_setup setup = { .rule = "adam", .learning_rate = 0.01 };
    memset(w, 0, sizeof *w);
    w->training = world_source(WORLD_ROWS, 4, true);
    w->held_out = world_source(6, 4, false);
    assert_ok(et_device_open(&w->device, error));
    assert_ok(et_params_new(&w->params, error));
    assert_ok(et_pass_open(&w->pass, w->device, w->params, &w->training->layout, world_build, NULL,
                           &training, error));
    assert_ok(et_pass_open(&w->test, w->device, w->params, &w->held_out->layout, world_build, NULL,
                           &test, error));
    assert_ok(et_params_materialize(w->params, false, error));
    et_init_draw(w->params, 3);
    assert_ok(et_optimizer_open(&w->optimizer, w->device, w->params, NULL, &setup, error));
    w->options = (et_loop_options){
        .print = world_print, .print_payload = w, .no_eta = true, .max_epoch = 2
    };
}

static inline void world_loop(world *w)
{
    assert_ok(et_loop_open(&w->loop, w->params, &w->options, error));
    assert_ok(et_state_add_optimizer(et_loop_state(w->loop), "optimizer", w->optimizer, error));
    assert_ok(et_loop_add_source(w->loop, "training", w->training, error));
}

static inline void world_close(world *w)
{
    et_loop_close(w->loop);
    et_optimizer_free(w->optimizer);
    et_pass_close(w->pass);
    et_pass_close(w->test);
    et_source_close(w->training);
    et_source_close(w->held_out);
    et_params_free(w->params);
    et_device_close(w->device);
}

static inline int begin_nothing(void *payload, int64_t epoch, et_error *e)
{
    (void)payload, (void)epoch, (void)e;
    return ET_OK;
}

static inline int next_nothing(void *payload, et_batch *batch, et_error *e)
{
    (void)payload, (void)batch, (void)e;
    return ET_OK;
}

/* A source of this layout without a batch. */
static inline et_source *nothing_source(const et_layout *layout)
{
    static const et_factory factory = { .begin = begin_nothing, .next = next_nothing };
    et_source *source;
    assert_ok(et_factory_open(&source, layout, &factory, false, error));
    return source;
}

#endif
