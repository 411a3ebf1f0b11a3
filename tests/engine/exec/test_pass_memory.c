/* If a pass has no memory for a plan, it does not change, and plans again at the next call. The
 * n-th allocation of the plan fails and all after it, for every n until nothing fails; no memory
 * leaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <etude/layers.h>
#include <etude/pass.h>

#include "base/scarce.h"

enum { ROWS = 8, WIDE = 24, WIDTH = 5 };

#define PLENTY 1000000000L

static float x[WIDE * WIDTH];
static int32_t labels[WIDE];

static void build(et_scope *s, void *payload)
{
    (void)payload;
    et_node *h = et_relu(et_dense(et_in(s, "hidden"), et_batch_input(s, "x"), 7));
    et_node *logits = et_dense(et_in(s, "logits"), h, 3);
    et_loss(s, "loss", et_softmax_loss(logits, et_batch_input(s, "labels"), 0), 1);
}

static et_batch *batch_of(et_source **source, int64_t rows)
{
    const et_array arrays[] = { { "x", ET_F32, x, et_shape_1(WIDTH) },
                                { "labels", ET_I32, labels, et_shape_scalar() } };
    et_batches_options options = { .capacity = { rows } };
    et_samples *samples = NULL;
    et_batch *batch = NULL;
    assert_int_equal(et_arrays_open(&samples, arrays, 2, WIDE, NULL), ET_OK);
    assert_int_equal(et_batches_open(source, samples, &options, NULL), ET_OK);
    assert_int_equal(et_batch_new(&batch, &(*source)->layout, NULL), ET_OK);
    assert_int_equal(et_source_next(*source, batch, NULL), ET_OK);
    return batch;
}

static double loss_of(et_pass *pass, const et_batch *batch)
{
    assert_int_equal(et_pass_run(pass, batch, 1, 0, NULL), ET_OK);
    return et_pass_loss(pass);
}

/* Both plans of a pass, for the first batch and for a batch of another size. Returns whether the
 * allocation after `calls` of them was one of theirs. */
static bool fail_after(long calls, et_device *device, et_params *params, et_batch *const batch[2],
                       const double loss[2])
{
    et_pass *pass = NULL;
    et_pass_options options = { .training = true, .recompute = calls % 2 ? ET_RECOMPUTE_AUTO : 0 };
    bool failed = false;
    assert_int_equal(
        et_pass_open(&pass, device, params, batch[0]->layout, build, NULL, &options, NULL), ET_OK);
    for (int i = 0; i < 2; i++) {
        et_error error = ET_ERROR_INIT;
        scarce_left = failed ? PLENTY : calls;
        int status = et_pass_run(pass, batch[i], 1, 0, &error);
        calls = scarce_left;
        scarce_left = PLENTY;
        if (status) {
            failed = true;
            assert_int_equal(status, ET_ENOMEM);
            for (int k = 0; k < i; k++)
                assert_true(loss_of(pass, batch[k]) == loss[k]);
        }
        assert_true(loss_of(pass, batch[i]) == loss[i]);
    }
    assert_true(loss_of(pass, batch[0]) == loss[0]);
    et_pass_close(pass);
    return failed;
}

static void test_pass__plans_again(void **state)
{
    (void)state;
    scarce_begin(PLENTY);
    for (int i = 0; i < WIDE * WIDTH; i++)
        x[i] = (float)((i * 37) % 19) / 19 - 0.5f;
    for (int i = 0; i < WIDE; i++)
        labels[i] = i % 3;
    et_device *device = NULL;
    et_params *params = NULL;
    et_pass *pass = NULL;
    et_source *source[2];
    et_batch *batch[2] = { batch_of(&source[0], ROWS), batch_of(&source[1], WIDE) };
    et_pass_options options = { .training = true };
    assert_int_equal(et_device_open(&device, NULL), ET_OK);
    assert_int_equal(et_params_new(&params, NULL), ET_OK);
    assert_int_equal(
        et_pass_open(&pass, device, params, batch[0]->layout, build, NULL, &options, NULL), ET_OK);
    assert_int_equal(et_params_materialize(params, false, NULL), ET_OK);
    et_init_draw(params, 3);
    const double loss[2] = { loss_of(pass, batch[0]), loss_of(pass, batch[1]) };
    et_pass_close(pass);

    long failures = 0, before = scarce_live;
    while (fail_after(failures, device, params, batch, loss))
        failures++;
    assert_true(failures > 20);
    assert_int_equal(scarce_live, before);
    for (int i = 0; i < 2; i++) {
        et_batch_free(batch[i]);
        et_source_close(source[i]);
    }
    et_params_free(params);
    et_device_close(device);
    scarce_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_pass__plans_again) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
