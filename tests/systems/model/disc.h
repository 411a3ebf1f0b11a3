/* Points of the plane with labels that say whether they are inside a disc. A small network learns
 * the labels in a second.
 */
#ifndef ETUDE_TESTS_SYSTEMS_MODEL_DISC_H
#define ETUDE_TESTS_SYSTEMS_MODEL_DISC_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <etude/model.h>

#include "calls.h"

enum { POINTS = 600 };

static float points[POINTS][2];
static int32_t inside[POINTS];

static const et_model_options disc = {
    .x = { 1, { 2 } }, .y_type = ET_I32, .optimizer = { .learning_rate = 0.01 }, .seed = 3
};

static inline int draw_points(void **state)
{
    uint64_t number = 11;
    (void)state;
    for (int i = 0; i < POINTS; i++) {
        for (int c = 0; c < 2; c++) {
            number = number * 6364136223846793005u + 1442695040888963407u;
            points[i][c] = (float)(number >> 40) * 0x1p-23f - 1;
        }
        inside[i] = points[i][0] * points[i][0] + points[i][1] * points[i][1] < 0.6f;
    }
    return 0;
}

static inline void build_disc(et_scope *s, void *payload)
{
    et_node *h = et_relu(et_dense(et_in(s, "hidden"), et_batch_input(s, ET_MODEL_X), 16));
    h = et_dropout(et_in(s, "kept"), h, payload ? 0.1f : 0);
    h = et_dense(et_in(s, "logits"), h, 2);
    et_loss(s, "loss", et_softmax_loss(h, et_batch_input(s, ET_MODEL_Y), 0), 1);
    et_output(s, "scores", et_softmax(h));
}

static inline et_model *open_disc(void)
{
    et_model *model;
    assert_ok(et_model_open(&model, build_disc, NULL, &disc, error));
    return model;
}

static inline void fit_disc(et_model *model, const et_fit *fit)
{
    assert_ok(et_model_fit_arrays(model, points, inside, POINTS, fit, error));
}

/* The weights: equal bits or not. */
static inline void assert_same_weights(const et_model *a, const et_model *b)
{
    et_params *first = et_model_params(a), *second = et_model_params(b);
    assert_int_equal(et_params_count(first), et_params_count(second));
    for (int i = 0; i < et_params_count(first); i++)
        assert_memory_equal(et_params_values(first) + et_params_offset(first, i),
                            et_params_values(second) + et_params_offset(second, i),
                            (size_t)et_shape_count(et_params_shape(first, i)) * sizeof(float));
}

#endif
