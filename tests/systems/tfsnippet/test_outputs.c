#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "systems/tfsnippet/trainer_fixture.h"

/* One pass of an endless source, which is then positioned after that pass. */
static void test_outputs__endless(void **state)
{
    (void)state;
    world w;
    world_open(&w);
    const char *names[] = { "doubled" };
    et_outputs *outputs = NULL;
    assert_ok(et_outputs_collect(&outputs, NULL, w.test, w.training, names, 1, 0, 1, error));
    const float *doubled = et_outputs_tensor(outputs, "doubled").data;
    double sum = 0;
    for (int i = 0; i < WORLD_ROWS; i++)
        sum += (double)doubled[i];
    assert_true(sum == WORLD_ROWS * (WORLD_ROWS + 1));
    et_batch *batch = NULL;
    assert_ok(et_batch_new(&batch, &w.training->layout, error));
    int64_t rows = 0;
    for (;; rows += batch->filled[0]) {
        assert_ok(et_source_next(w.training, batch, error));
        if (batch->epoch > 1)
            break;
    }
    assert_int_equal(rows, WORLD_ROWS);
    et_batch_free(batch);
    et_outputs_free(outputs);
    world_close(&w);
}

static void test_outputs__mistakes(void **state)
{
    (void)state;
    world w;
    world_open(&w);
    et_outputs *out;
    double average;
    const char *none[] = { "none" }, *unnamed[] = { "doubled", NULL }, *total[] = { "total" },
               *doubled[] = { "doubled" };
    assert_fails(et_outputs_collect(&out, NULL, w.test, w.held_out, none, 1, 0, 0, error),
                 ET_ECONFIG, "no output none");
    assert_fails(et_outputs_collect(&out, NULL, w.test, w.held_out, total, 1, 0, 0, error),
                 ET_ECONFIG, "must be the 4 rows");
    assert_fails(et_outputs_collect(&out, NULL, w.test, w.held_out, doubled, 1, 1, 0, error),
                 ET_ECONFIG, "dimension 1");
    assert_fails(et_outputs_collect(&out, NULL, w.test, w.held_out, doubled, 0, 0, 0, error),
                 ET_ECONFIG, "0 outputs");
    assert_fails(et_outputs_collect(&out, NULL, w.test, w.held_out, unnamed, 2, 0, 0, error),
                 ET_ECONFIG, "output 1 to collect has no name");
    assert_fails(et_outputs_collect(&out, NULL, w.test, w.held_out, NULL, 1, 0, 0, error),
                 ET_ECONFIG, "output 0 to collect has no name");
    assert_fails(et_outputs_average(&average, NULL, w.test, w.held_out, unnamed, 2, 0, error),
                 ET_ECONFIG, "output 1 to average has no name");
    assert_ok(et_outputs_collect(&out, NULL, w.test, w.held_out, doubled, 1, 0, 0, error));
    assert_null(et_outputs_tensor(out, NULL).data);
    et_outputs_free(out);
    assert_fails(et_outputs_average(&average, NULL, w.test, w.held_out, doubled, 1, 0, error),
                 ET_ECONFIG, "a single float can be averaged");
    assert_fails(et_outputs_average(&average, NULL, w.test, w.held_out, doubled, 0, 0, error),
                 ET_ECONFIG, "0 outputs");
    et_source *nothing = nothing_source(&w.held_out->layout);
    assert_fails(et_outputs_average(&average, NULL, w.test, nothing, total, 1, 0, error), ET_EDATA,
                 "no batch");
    et_source_close(nothing);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outputs__endless),
        cmocka_unit_test(test_outputs__mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
