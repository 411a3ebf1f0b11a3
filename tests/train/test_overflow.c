/* A step whose loss or gradient is not finite: one class reports the operation where it began, the
 * other skips the update and halves the factor of the gradients. */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/arena.h"
#include "data/batches/source.h"
#include "engine/tensor/params.h"
#include "train/checkpoint/state.h"
#include "train/small_pass.h"
#include "train/step/step.h"

enum { ROWS = 4, STEPS = 16 };

static void build(et_scope *s, void *payload)
{
    (void)payload;
    et_node *h = et_tanh(et_dense(et_in(s, "hidden"), et_batch_input(s, "x"), 6));
    et_node *d = et_sub(et_dense(et_in(s, "out"), h, 1), et_batch_input(s, "y"));
    et_node *seen = et_variable(s, "seen", et_shape_scalar(), (et_init){ ET_INIT_ZEROS, 0 });
    et_loss(s, "loss", et_mul(d, d), 1);
    et_moving_mean(s, seen, et_sum(h), 0.5f);
}

/* Which batches of a pass over the data, of 16, are made bad, and with what; ended by -1. */
typedef struct spoil {
    int batch[20];
    float value;
} spoil;

static int spoil_batch(void *payload, et_batch *batch, et_error *error)
{
    const spoil *bad = payload;
    (void)error;
    for (const int *at = bad->batch; *at >= 0; at++)
        if ((int)batch->sample[0] == *at * ROWS)
            ((float *)batch->data[1])[2] = bad->value;
    return ET_OK;
}

typedef struct fixture {
    small_pass small;
    et_optimizer *optimizer;
    et_metrics *metrics;
    et_overflow *overflow;
    et_overflow fail;
    et_overflow_scale scaled;
    et_state *state;
    et_step step;
} fixture;

/* scale 0: fails. f and bad keep their address. */
static void open_fixture(fixture *f, spoil *bad, double scale, int64_t every, int shards)
{
    et_pass_options options = { .training = true, .scaled = scale > 0 };
    et_optimizer_setup setup = { .rule = "sgd",
                                 .learning_rate = 0.05,
                                 .settings = "optimizer: {sgd: {momentum: 0.9}}" };
    *f = (fixture){ .fail = et_overflow_fail() };
    small_open(&f->small, build, ROWS, &options);
    assert_ok(et_map_open(&f->small.source, f->small.source, spoil_batch, bad, error));
    assert_ok(
        et_optimizer_open(&f->optimizer, f->small.device, f->small.params, NULL, &setup, error));
    assert_ok(et_metrics_new(&f->metrics, error));
    if (scale > 0)
        f->scaled = et_overflow_scaled(scale, every);
    f->overflow = scale > 0 ? &f->scaled.overflow : &f->fail;
    et_reducer *reducer;
    assert_ok(et_tree_open(&reducer, f->small.pass, shards, error));
    et_step_parts parts = { .source = f->small.source,
                            .pass = f->small.pass,
                            .optimizer = f->optimizer,
                            .overflow = f->overflow,
                            .metrics = f->metrics,
                            .prefix = "training_",
                            .reducer = reducer };
    assert_ok(et_step_open(&f->step, &parts, error));
    assert_ok(et_state_new(&f->state, error));
    assert_ok(et_state_add_params(f->state, f->small.params, error));
    assert_ok(et_state_add_optimizer(f->state, "optimizer", f->optimizer, error));
    assert_ok(et_state_add(f->state, "metrics", &et_metrics_state, f->metrics, error));
    assert_ok(et_state_add(f->state, "data", &et_source_part, f->small.source, error));
    if (f->overflow->class->part)
        assert_ok(et_state_add(f->state, "overflow", f->overflow->class->part, f->overflow, error));
}

static void close_fixture(fixture *f)
{
    et_state_free(f->state);
    et_step_release(&f->step);
    et_metrics_free(f->metrics);
    et_optimizer_free(f->optimizer);
    small_close(&f->small);
}

static void assert_same_tensors(const et_state *a, const et_state *b)
{
    for (size_t i = 0; i < et_state_tensor_count(a); i++) {
        const et_state_tensor *x = et_state_tensor_at(a, i), *y = et_state_tensor_at(b, i);
        if (memcmp(x->data, y->data, (size_t)et_shape_count(x->shape) * sizeof(float)))
            fail_msg("%s differs", x->name);
    }
}

/* Everything of one state into another, as a checkpoint would. */
static void copy_state(et_state *to, const et_state *from, et_step *step, int64_t count)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *tree;
    assert_ok(et_state_save(from, &tree, &arena, error));
    for (size_t i = 0; i < et_state_tensor_count(from); i++)
        et_state_tensor_fill(to, i, et_state_tensor_at(from, i)->data);
    assert_ok(et_state_match(to, tree, error));
    assert_ok(et_state_restore(to, tree, error));
    step->count = count;
    et_arena_release(&arena);
}

/* Step, row, value and field are named, and nothing has changed: of one batch, and of the
 * first and the second of two. */
static void test_overflow__fail(void **state)
{
    (void)state;
    static const struct {
        int shards, batch, step;
        const char *samples;
    } cases[] = { { 1, 2, 3, ": row 10 has nan in y; " },
                  { 2, 2, 2, ": row 10 has nan in y; " },
                  { 2, 3, 2, ": row 14 has nan in y; " } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        spoil bad = { { cases[i].batch, -1 }, NAN }, none = { { -1 }, 0 };
        fixture f, good;
        char step[32];
        snprintf(step, sizeof step, "step %d: ", cases[i].step);
        open_fixture(&f, &bad, 0, 0, cases[i].shards);
        open_fixture(&good, &none, 0, 0, cases[i].shards);
        for (int k = 1; k < cases[i].step; k++) {
            assert_ok(et_step_run(&f.step, error));
            assert_ok(et_step_run(&good.step, error));
        }
        et_error why = ET_ERROR_INIT;
        assert_int_equal(et_step_run(&f.step, &why), ET_EDIVERGED);
        if (!strstr(why.text, step) || !strstr(why.text, cases[i].samples))
            fail_msg("case %zu: %s", i, why.text);
        assert_int_equal(f.step.count, cases[i].step - 1);
        assert_same_tensors(f.state, good.state);
        close_fixture(&f);
        close_fixture(&good);
    }
}

/* A power of two as the factor changes no update, whether one batch or several make it. */
static void test_overflow__scale_changes_nothing(void **state)
{
    (void)state;
    for (int shards = 1; shards <= 3; shards++) {
        spoil none = { { -1 }, 0 };
        fixture plain, scaled;
        open_fixture(&plain, &none, 0, 0, shards);
        open_fixture(&scaled, &none, 1024, 0, shards);
        for (int i = 0; i < STEPS; i++) {
            assert_ok(et_step_run(&plain.step, error));
            assert_ok(et_step_run(&scaled.step, error));
            assert_float_equal(scaled.step.loss, plain.step.loss, 1e-6);
            assert_float_equal(scaled.step.update.gradient_norm, plain.step.update.gradient_norm,
                               1e-5);
        }
        int64_t size = et_params_flat_size(plain.small.params);
        const float *expected = et_params_values(plain.small.params);
        const float *found = et_params_values(scaled.small.params);
        for (int64_t i = 0; i < size; i++)
            assert_float_equal(found[i], expected[i], 1e-6f);
        assert_true(scaled.overflow->scale == 1024);
        close_fixture(&plain);
        close_fixture(&scaled);
    }
}

/* Batches 2 and 5 are bad; the factor is doubled after three good updates. A step that is left out
 * counts, takes its batch and changes no weight, no slot, no average, no metric. */
static void test_overflow__halves_and_doubles(void **state)
{
    (void)state;
    static const double scale[] = { 64, 64, 32, 32, 32, 16, 16, 16, 32, 32, 32, 64 };
    spoil bad = { { 2, 5, -1 }, INFINITY };
    fixture f, before;
    open_fixture(&f, &bad, 64, 3, 1);
    open_fixture(&before, &bad, 64, 3, 1);
    int64_t updates = 0;
    for (int i = 0; i < (int)(sizeof scale / sizeof scale[0]); i++) {
        bool left_out = i == 2 || i == 5;
        copy_state(before.state, f.state, &before.step, i);
        assert_ok(et_step_run(&f.step, error));
        if (f.overflow->scale != scale[i])
            fail_msg("step %d: scale %g", i + 1, f.overflow->scale);
        updates += !left_out;
        assert_int_equal(f.step.count, i + 1);
        assert_int_equal(et_optimizer_iterations(f.optimizer), updates);
        if (left_out) {
            assert_same_tensors(f.state, before.state);
            assert_true(et_metrics_value(f.metrics, "training_loss") ==
                        et_metrics_value(before.metrics, "training_loss"));
        }
    }
    assert_true(isfinite(et_metrics_value(f.metrics, "training_loss")));
    assert_true(isfinite(et_metrics_value(f.metrics, "gradient_norm")));
    close_fixture(&f);
    close_fixture(&before);
}

/* A factor that is too large for the gradients adapts by itself. */
static void test_overflow__finds_the_scale(void **state)
{
    (void)state;
    for (int shards = 1; shards <= 2; shards++) {
        spoil none = { { -1 }, 0 };
        fixture f;
        open_fixture(&f, &none, 0x1p127, 0, shards);
        for (int i = 0; i < 20; i++)
            assert_ok(et_step_run(&f.step, error));
        assert_true(f.overflow->scale < 0x1p127 && f.overflow->scale > 0x1p110);
        assert_true(et_optimizer_iterations(f.optimizer) > 5);
        close_fixture(&f);
    }
}

/* A hundred may be left out in a row, and the factor does not fall below 1. The next fails. */
static void test_overflow__gives_up(void **state)
{
    (void)state;
    spoil bad = { { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, -1 }, NAN };
    fixture f;
    open_fixture(&f, &bad, 4, 3, 1);
    for (int i = 0; i < 100; i++)
        assert_ok(et_step_run(&f.step, error));
    assert_true(f.overflow->scale == 1);
    assert_fails(et_step_run(&f.step, error), ET_EDIVERGED, "step 101: ");
    assert_int_equal(f.step.count, 100);
    close_fixture(&f);
}

/* A run that is resumed from any step gives the same bits, including the factor and the count
 * towards its next change. */
static void test_overflow__resumes(void **state)
{
    (void)state;
    spoil bad = { { 2, 3, 9, -1 }, NAN };
    for (int at = 0; at < STEPS; at++) {
        fixture unbroken, resumed;
        open_fixture(&unbroken, &bad, 64, 3, 1);
        open_fixture(&resumed, &bad, 8, 3, 1);
        for (int i = 0; i < STEPS; i++) {
            if (i == at)
                copy_state(resumed.state, unbroken.state, &resumed.step, i);
            assert_ok(et_step_run(&unbroken.step, error));
            if (i >= at)
                assert_ok(et_step_run(&resumed.step, error));
        }
        assert_same_tensors(unbroken.state, resumed.state);
        assert_true(unbroken.overflow->scale == resumed.overflow->scale);
        assert_int_equal(unbroken.scaled.in_a_row, resumed.scaled.in_a_row);
        assert_true(et_metrics_value(unbroken.metrics, "training_loss") ==
                    et_metrics_value(resumed.metrics, "training_loss"));
        close_fixture(&unbroken);
        close_fixture(&resumed);
    }
}

/* The values of a checkpoint are checked. */
static void test_overflow__bad_state(void **state)
{
    (void)state;
    static const struct {
        double scale;
        bool good;
        const char *words;
    } cases[] = { { 0.5, true, "scale: 0.5 is less than 1" },
                  { NAN, true, "scale: nan" },
                  { -4, true, "scale: -4" },
                  { 4, false, "good" } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        et_arena arena = ET_ARENA_INIT;
        et_overflow_scale scaled = et_overflow_scaled(16, 2);
        et_value *dict = et_value_dict(&arena);
        et_part_set_real(dict, "scale", cases[i].scale);
        if (cases[i].good)
            et_value_set_int(dict, "good", 1);
        assert_fails(scaled.overflow.class->part->restore(&scaled, dict, error), ET_EFORMAT,
                     cases[i].words);
        et_arena_release(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overflow__fail),
        cmocka_unit_test(test_overflow__scale_changes_nothing),
        cmocka_unit_test(test_overflow__halves_and_doubles),
        cmocka_unit_test(test_overflow__finds_the_scale),
        cmocka_unit_test(test_overflow__gives_up),
        cmocka_unit_test(test_overflow__resumes),
        cmocka_unit_test(test_overflow__bad_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
