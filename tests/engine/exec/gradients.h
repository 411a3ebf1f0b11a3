/* Compares a derivative with finite differences of the value. A case builds sum(op(parameters) *
 * weights), so that every element of the result has another weight. */
#ifndef ETUDE_TESTS_EXEC_GRADIENTS_H
#define ETUDE_TESTS_EXEC_GRADIENTS_H

#include "engine/exec/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/graph/build.h"
#include "engine/graph/graph.h"
#include "engine/tensor/params.h"

#define ROWS  7
#define WIDTH 6
#define STEP  4e-3f

static inline et_node *param(et_scope *s, const char *name, int64_t rows, int64_t width)
{
    et_shape shape = rows ? et_shape_2(rows, width) : et_shape_1(width);
    return et_param(s, name, shape, (et_init){ ET_INIT_NORMAL, 1 });
}

static inline et_node *x(et_scope *s)
{
    return param(s, "x", ROWS, WIDTH);
}

static inline et_node *y(et_scope *s)
{
    return param(s, "y", ROWS, WIDTH);
}

static inline et_node *weighted(et_scope *s, et_node *node)
{
    et_node *w = et_input(s, "weights", et_node_dtype(node), et_node_shape(node));
    return et_sum(et_mul(node, w));
}

static const et_random randomness = { 5, 1, 0 };

/* What weighted() asks for, and the derivative of a loss that is no sum. */
static inline void bind_weights(et_plan *plan)
{
    static const float one = 1;
    static float weights[ROWS * 128];
    for (int i = 0; i < ROWS * 128; i++)
        weights[i] = sinf(1.0f + (float)i);
    et_plan_bind(plan, "weights", weights);
    et_plan_bind(plan, ET_GRAPH_ONE, &one);
}

static inline double loss_with(test_model *model, int64_t element, float value)
{
    float *at = et_params_values(model->params) + element;
    float kept = *at;
    et_params_begin_change(model->params);
    *at = value;
    et_params_changed(model->params, true);
    et_plan_run(model->plan, randomness);
    double loss = *(const float *)et_plan_output(model->plan, 0).data;
    et_params_begin_change(model->params);
    *at = kept;
    et_params_changed(model->params, true);
    return loss;
}

/* relu has no derivative at 0: values that a step would carry over it are moved away. */
static inline void leave_kinks(et_params *params)
{
    const float step = STEP;
    float *values = et_params_values(params);
    et_params_begin_change(params);
    for (int64_t i = 0; i < et_params_flat_size(params); i++)
        if (values[i] != 0 && fabsf(values[i]) < 2 * step)
            values[i] = copysignf(2 * step, values[i]);
    et_params_changed(params, true);
}

/* (f(x + e) - f(x - e)) / 2e for each element of each parameter. */
static inline void check_params(test_model *model, const char *op)
{
    const float step = STEP;
    et_params *params = model->params;
    static float gradients[4096];
    et_plan_run(model->plan, randomness);
    memcpy(gradients, et_params_gradients(params),
           (size_t)et_params_flat_size(params) * sizeof(float));
    for (int p = 0; p < et_params_count(params); p++) {
        int64_t first = et_params_offset(params, p);
        int64_t count = et_shape_count(et_params_shape(params, p));
        for (int64_t i = first; i < first + count; i++) {
            float value = et_params_values(params)[i];
            double numeric =
                (loss_with(model, i, value + step) - loss_with(model, i, value - step)) /
                (2 * step);
            if (fabs(numeric - gradients[i]) > 4e-3 + 1e-2 * fabs(numeric))
                fail_msg("%s: %s[%d]: derivative %g, finite difference %g", op,
                         et_params_name(params, p), (int)(i - first), (double)gradients[i],
                         numeric);
        }
    }
}

#endif
