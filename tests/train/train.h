/* Shared code of the tests of train/: a small state tree whose bytes all follow from the step.
 * Include after cmocka.h. */
#ifndef ETUDE_TESTS_TRAIN_TRAIN_H
#define ETUDE_TESTS_TRAIN_TRAIN_H

#include "formats/files.h"
#include "train/checkpoint/checkpoint.h"

typedef struct toy {
    et_state *state;
    int64_t step; /* part "toy" */
    double real;
    float *weight, *slot, *average; /* [61, 33] each, in the tree */
    int restored;                   /* calls of restore */
} toy;

enum { TOY_ROWS = 61, TOY_COLUMNS = 33, TOY_SIZE = TOY_ROWS * TOY_COLUMNS };

static inline int toy_save(const void *self, et_value *dict, et_error *error)
{
    const toy *t = self;
    (void)error;
    return !et_value_set_int(dict, "step", t->step) || !et_part_set_real(dict, "real", t->real);
}

static inline int toy_restore(void *self, const et_value *dict, et_error *error)
{
    toy *t = self;
    t->restored++;
    int status = et_value_read_int(dict, "step", &t->step, error);
    return status ? status : et_part_read_real(dict, "real", &t->real, error);
}

static const et_part_class toy_class = { "toy", toy_save, toy_restore };

/* The state at a step. */
static inline void toy_set(toy *t, int64_t step)
{
    t->step = step;
    t->real = (double)step / 3;
    for (int i = 0; i < TOY_SIZE; i++) {
        t->weight[i] = (float)step + (float)i * 0.37f;
        t->slot[i] = -t->weight[i];
        t->average[i] = 1 / (1 + t->weight[i]);
    }
}

static inline int toy_is(const toy *t, int64_t step)
{
    bool same = t->step == step && t->real == (double)step / 3;
    for (int i = 0; i < TOY_SIZE; i++) {
        float weight = (float)step + (float)i * 0.37f;
        same = same && t->weight[i] == weight && t->slot[i] == -weight &&
               t->average[i] == 1 / (1 + weight);
    }
    return same;
}

static inline toy toy_new(int64_t step)
{
    toy t = { .weight = calloc(3 * TOY_SIZE, sizeof(float)) };
    assert_non_null(t.weight);
    t.slot = t.weight + TOY_SIZE;
    t.average = t.slot + TOY_SIZE;
    assert_int_equal(et_state_new(&t.state, NULL), 0);
    toy_set(&t, step);
    return t;
}

/* After the toy has its last address. */
static inline void toy_attach(toy *t)
{
    et_shape shape = et_shape_2(TOY_ROWS, TOY_COLUMNS);
    assert_ok(et_state_add(t->state, "toy", &toy_class, t, error));
    assert_ok(et_state_add_tensor(t->state, "w", t->weight, shape, error));
    assert_ok(et_state_add_tensor(t->state, "optimizer/m/w", t->slot, shape, error));
    assert_ok(et_state_add_tensor(t->state, "average/w", t->average, shape, error));
}

static inline void toy_free(toy *t)
{
    et_state_free(t->state);
    free(t->weight);
}

#endif
