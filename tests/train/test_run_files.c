/* A run's files for programs around it: step, metrics, the list of parameters, no checkpoints. */
#include <etude/run_files.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include <etude/layers.h>

#include "base/arena.h"
#include "base/files/file.h"
#include "formats/files.h"
#include "train/checkpoint/checkpoint.h"

static const et_init no_values = { 0 };

/* Two parameters and a variable. */
static et_params *make_params(void)
{
    et_params *params;
    int index;
    assert_ok(et_params_new(&params, error));
    assert_ok(et_params_declare(params, "a/weight", et_shape_2(40, 50), no_values, &index, error));
    assert_ok(et_params_declare(params, "a/bias", et_shape_1(50), no_values, &index, error));
    assert_ok(
        et_params_declare_variable(params, "a/mean", et_shape_1(7), no_values, &index, error));
    assert_ok(et_params_materialize(params, false, error));
    return params;
}

static void save(const char *model_dir, et_params *params, int64_t first, int64_t last)
{
    et_state *state;
    et_checkpoints *checkpoints;
    assert_ok(et_state_new(&state, error));
    assert_ok(et_state_add_params(state, params, error));
    assert_ok(et_checkpoints_open(&checkpoints, model_dir, state, NULL, error));
    for (int64_t step = first; step <= last; step += 100)
        assert_ok(et_checkpoints_save(checkpoints, step, error));
    assert_ok(et_checkpoints_close(checkpoints, error));
    et_state_free(state);
}

static void test_run_files__step(void **state)
{
    int64_t step = -7;
    et_params *params = make_params();
    const char *run = in(state, "run");
    assert_fails(et_run_files_step(run, &step, error), ET_ENOTFOUND, "run: no checkpoint here");
    save(run, params, 100, 300);
    assert_ok(et_run_files_step(in(state, "run"), &step, error));
    assert_int_equal(step, 300);
    et_params_free(params);
}

/* All files are removed, also those that the manifest does not name; a run that is being trained
 * keeps its own. */
static void test_run_files__remove(void **state)
{
    int64_t step;
    int lock;
    et_params *params = make_params();
    save(in(state, "old"), params, 100, 300);
    assert_ok(et_checkpoints_lock(&lock, in(state, "old"), error));
    assert_fails(et_run_files_remove_checkpoints(in(state, "old"), error), ET_EBUSY, "lock");
    assert_ok(et_run_files_step(in(state, "old"), &step, error));
    et_lock_drop(lock);
    assert_int_equal(unlink(in(state, "old/checkpoints/checkpoint.json")), 0);
    assert_ok(et_run_files_remove_checkpoints(in(state, "old"), error));
    assert_fails(et_run_files_step(in(state, "old"), &step, error), ET_ENOTFOUND, "no checkpoint");
    assert_int_equal(access(in(state, "old/checkpoints/ckpt-100.safetensors"), F_OK), -1);
    assert_ok(et_run_files_remove_checkpoints(in(state, "old"), error));
    assert_ok(et_run_files_remove_checkpoints(in(state, "never"), error));
    assert_int_equal(access(in(state, "never"), F_OK), -1);
    save(in(state, "old"), params, 100, 100);
    assert_ok(et_run_files_step(in(state, "old"), &step, error));
    assert_int_equal(step, 100);
    et_params_free(params);
}

static void test_run_files__metrics(void **state)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *values = et_value_dict(&arena);
    et_value_set_float(values, "loss", 0.25);
    et_value_set_float(values, "nothing", NAN);
    et_value_set_int(et_value_set_dict(values, "en-de"), "lines", 7);
    assert_ok(et_directory_make(in(state, "m"), error));
    assert_ok(et_run_files_write_metrics(in(state, "m"), 1200, values, error));
    char *text = get_file(in(state, "m/metrics-1200.json"), &(size_t){ 0 });
    assert_string_equal(text, "{\n    \"loss\": 0.25,\n    \"nothing\": null,\n    \"en-de\": {\n"
                              "        \"lines\": 7\n    }\n}\n");
    free(text);
    assert_fails(et_run_files_write_metrics(in(state, "gone"), 1, values, error), ET_ENOTFOUND,
                 "gone");
    et_arena_release(&arena);
}

static void test_run_files__params(void **state)
{
    et_params *params = make_params();
    assert_int_equal(et_run_files_count_params(params, false), 2057);
    assert_int_equal(et_run_files_count_params(params, true), 2050);
    assert_ok(et_run_files_write_params(in(state, "model.txt"), params, error));
    char *text = get_file(in(state, "model.txt"), &(size_t){ 0 });
    assert_string_equal(text, "a/weight [40, 50]\na/bias [50]\na/mean [7]\n\n"
                              "Total params: 2,057\n");
    free(text);
    assert_fails(et_run_files_write_params(in(state, "gone/model.txt"), params, error),
                 ET_ENOTFOUND, "gone");
    et_params_free(params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run_files__step),
        cmocka_unit_test(test_run_files__remove),
        cmocka_unit_test(test_run_files__metrics),
        cmocka_unit_test(test_run_files__params),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
