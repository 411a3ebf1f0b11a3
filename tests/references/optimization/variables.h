/* Two variables with constant gradients, as most cases of optimizers have them. Include after
 * cmocka.h. */
#ifndef ETUDE_TESTS_REFERENCES_OPTIMIZATION_VARIABLES_H
#define ETUDE_TESTS_REFERENCES_OPTIMIZATION_VARIABLES_H

#include <string.h>

#include <etude/etude.h>

#include "calls.h"

enum { MOST = 3 };

typedef struct variables {
    et_device *device;
    et_params *params;
    et_source *source;
    et_batch *batch;
    et_pass *pass;
    et_optimizer *optimizer;
    int size;
    float *value[2]; /* [size] */
} variables;

static inline float *value_of(const variables *v, const char *name)
{
    return et_params_values(v->params) +
           et_params_offset(v->params, et_params_find(v->params, name));
}

/* All but the optimizer, with zeros as values; arrays have `rows` rows, which are a batch. */
static inline void open_pass(variables *v, const et_array *arrays, int count, int rows,
                             et_build_fn *build, const et_pass_options *options)
{
    const et_batches_options all = { .repeat = true, .capacity = { rows } };
    et_samples *samples;
    assert_ok(et_device_open(&v->device, error));
    assert_ok(et_params_new(&v->params, error));
    assert_ok(et_arrays_open(&samples, arrays, count, rows, error));
    assert_ok(et_batches_open(&v->source, samples, &all, error));
    assert_ok(et_batch_new(&v->batch, &v->source->layout, error));
    assert_ok(
        et_pass_open(&v->pass, v->device, v->params, &v->source->layout, build, v, options, error));
    assert_ok(et_params_materialize(v->params, options->bfloat16, error));
    assert_ok(et_source_next(v->source, v->batch, error));
}

static inline void open_optimizer(variables *v, const et_optimizer_setup *setup)
{
    assert_ok(et_optimizer_open(&v->optimizer, v->device, v->params, NULL, setup, error));
}

/* The values of var0 and var1. */
static inline void set_values(variables *v, const float values[2][MOST])
{
    for (int i = 0; i < 2; i++) {
        v->value[i] = value_of(v, i ? "var1" : "var0");
        memcpy(v->value[i], values[i], (size_t)v->size * sizeof(float));
    }
}

/* The derivative of a variable's loss is its field of the batch. */
static inline void build_variables(et_scope *s, void *payload)
{
    const variables *v = payload;
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "var1" : "var0";
        et_node *w = et_param(s, name, et_shape_1(v->size), (et_init){ ET_INIT_ZEROS, 0 });
        et_loss(s, name, et_mul(et_batch_input(s, i ? "g1" : "g0"), w), 1);
    }
}

static inline void open_variables(variables *v, int size, const float values[2][MOST],
                                  const float gradients[2][MOST], const et_optimizer_setup *setup)
{
    const et_array arrays[] = { { "g0", ET_F32, gradients[0], et_shape_1(size) },
                                { "g1", ET_F32, gradients[1], et_shape_1(size) } };
    *v = (variables){ .size = size };
    open_pass(v, arrays, 2, 1, build_variables, &(et_pass_options){ .training = true });
    set_values(v, values);
    open_optimizer(v, setup);
}

static inline void close_variables(variables *v)
{
    et_optimizer_free(v->optimizer);
    et_pass_close(v->pass);
    et_batch_free(v->batch);
    et_source_close(v->source);
    et_params_free(v->params);
    et_device_close(v->device);
}

static inline void step_variables(variables *v)
{
    assert_ok(et_pass_run(v->pass, v->batch, 1, 0, error));
    assert_ok(et_optimizer_update(v->optimizer, v->pass, NULL, error));
}

/* The rates of a schedule, as settings, before updates number `step`, in ascending order. */
typedef struct rate_at {
    int64_t step;
    double rate;
} rate_at;

static inline void check_rates(const char *learning_rate, const rate_at *expected, int count,
                               double tolerance)
{
    static const float zeros[2][MOST];
    char settings[600];
    snprintf(settings, sizeof settings, "{optimizer: {type: sgd, sgd: {momentum: 0.9}}, %s}",
             learning_rate);
    const et_optimizer_setup setup = { .settings = settings };
    variables v;
    open_variables(&v, 1, zeros, zeros, &setup);
    assert_ok(et_pass_run(v.pass, v.batch, 1, 0, error));
    for (int i = 0; i < count; i++) {
        while (et_optimizer_iterations(v.optimizer) < expected[i].step)
            assert_ok(et_optimizer_update(v.optimizer, v.pass, NULL, error));
        if (!(fabs(et_optimizer_learning_rate(v.optimizer) - expected[i].rate) <= tolerance))
            fail_msg("step %d: %.9g instead of %.9g", (int)expected[i].step,
                     et_optimizer_learning_rate(v.optimizer), expected[i].rate);
    }
    close_variables(&v);
}

#define CHECK_RATES_TO(tolerance, settings, ...)                                                   \
    check_rates(settings, (const rate_at[]){ __VA_ARGS__ },                                        \
                sizeof((const rate_at[]){ __VA_ARGS__ }) / sizeof(rate_at), tolerance)

/* Seven decimal places, as the references compare. */
#define CHECK_RATES(settings, ...) CHECK_RATES_TO(5e-8, settings, __VA_ARGS__)

#endif
