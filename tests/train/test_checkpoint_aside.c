/* Files of earlier work in a run's directories are never deleted: the run resumes from them, or
 * sets them aside with a message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base/arena.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/run/run.h"
#include "train/saved.h"

#define CKPT(n) "ckpt-" #n ".safetensors "

static const char *checkpoints_in(const char *directory)
{
    return names_in(below(directory, "checkpoints"));
}

static const char *aside_in(const char *directory, const char *folder)
{
    return names_in(below(directory, folder));
}

/* Starts again, without a restore. */
static void save_anew(const char *directory, int64_t step, const et_checkpoint_options *options)
{
    et_checkpoints *checkpoints;
    toy t = toy_new(step);
    toy_attach(&t);
    warnings[0] = '\0';
    assert_ok(et_checkpoints_open(&checkpoints, directory, t.state, options, error));
    assert_ok(et_checkpoints_save(checkpoints, step, error));
    assert_ok(et_checkpoints_close(checkpoints, error));
    toy_free(&t);
}

static void test_checkpoint_aside__begun_anew(void **state)
{
    const char *directory = in(state, "anew");
    SAVE(directory, 10, 20);
    save_anew(directory, 5, &defaults);
    assert_string_equal(checkpoints_in(directory), "checkpoint.json " CKPT(5) "earlier-1 lock ");
    assert_string_equal(aside_in(directory, "checkpoints/earlier-1"), CKPT(10) CKPT(20));
    assert_non_null(strstr(warnings, "ckpt-10.safetensors, ckpt-20.safetensors come from earlier "
                                     "work that this run does not resume; kept in"));
    assert_non_null(strstr(warnings, "/checkpoints/earlier-1"));
    assert_int_equal(restored_step(directory), 5);
    /* The same name again, later than all, and with a rule that would keep one. */
    save_anew(directory, 30, &(et_checkpoint_options){ .max_to_keep = 1 });
    save_anew(directory, 10, &defaults);
    assert_string_equal(aside_in(directory, "checkpoints/earlier-1"), CKPT(10) CKPT(20));
    assert_string_equal(aside_in(directory, "checkpoints/earlier-2"), CKPT(5));
    assert_string_equal(aside_in(directory, "checkpoints/earlier-3"), CKPT(30));
    /* It is whole. */
    toy t = toy_new(0);
    toy_attach(&t);
    int64_t step;
    assert_ok(et_checkpoint_restore_file(
        t.state, below(directory, "checkpoints/earlier-1/ckpt-20.safetensors"), ET_RESTORE_STRICT,
        &step, error));
    assert_true(toy_is(&t, 20));
    toy_free(&t);
}

/* Only files later than the restored step. */
static void test_checkpoint_aside__of_an_older_one(void **state)
{
    const char *directory = in(state, "older");
    et_checkpoints *checkpoints;
    int64_t step;
    SAVE(directory, 5, 10, 15, 20);
    put_file(below(directory, "checkpoints/ckpt-12.safetensors"), "copied there", 12);
    toy t = toy_new(0);
    toy_attach(&t);
    const et_checkpoint_options options = { .max_to_keep = -1 };
    assert_ok(et_checkpoints_open(&checkpoints, directory, t.state, &options, error));
    assert_ok(et_checkpoints_restore(checkpoints, &step, error));
    assert_int_equal(step, 20);
    assert_ok(et_checkpoints_restore_at(
        checkpoints, below(directory, "checkpoints/ckpt-5.safetensors"), &step, error));
    assert_int_equal(step, 5);
    assert_false(et_checkpoints_resumed(checkpoints));
    assert_ok(et_checkpoints_save(checkpoints, 8, error));
    assert_ok(et_checkpoints_save(checkpoints, 12, error));
    /* The process may replace files that it has written itself. */
    assert_ok(et_checkpoints_save(checkpoints, 9, error));
    assert_ok(et_checkpoints_close(checkpoints, error));
    toy_free(&t);
    assert_string_equal(checkpoints_in(directory),
                        "checkpoint.json " CKPT(5) CKPT(8) CKPT(9) "earlier-1 lock ");
    assert_string_equal(aside_in(directory, "checkpoints/earlier-1"),
                        CKPT(10) CKPT(12) CKPT(15) CKPT(20));
}

/* A run that goes back, as after a step that diverged, only drops its own later checkpoints. */
static void test_checkpoint_aside__gone_back(void **state)
{
    const char *directory = in(state, "back");
    et_checkpoints *checkpoints;
    int64_t step;
    SAVE(directory, 5, 10, 15);
    toy t = toy_new(0);
    toy_attach(&t);
    assert_ok(et_checkpoints_open(&checkpoints, directory, t.state, &defaults, error));
    assert_ok(et_checkpoints_restore_at(
        checkpoints, below(directory, "checkpoints/ckpt-5.safetensors"), &step, error));
    assert_ok(et_checkpoints_drop_newer(checkpoints, 7, error));
    assert_ok(et_checkpoints_restore(checkpoints, &step, error));
    assert_int_equal(step, 5);
    assert_ok(et_checkpoints_close(checkpoints, error));
    toy_free(&t);
    assert_string_equal(checkpoints_in(directory), "checkpoint.json " CKPT(5) "earlier-1 lock ");
    assert_string_equal(aside_in(directory, "checkpoints/earlier-1"), CKPT(10) CKPT(15));
}

/* Another directory's file: the files here do not belong to the resumed run. */
static void test_checkpoint_aside__of_elsewhere(void **state)
{
    const char *directory = in(state, "here"), *other = in(state, "elsewhere");
    et_checkpoints *checkpoints;
    int64_t step;
    SAVE(directory, 5, 10);
    SAVE(other, 40);
    toy t = toy_new(0);
    toy_attach(&t);
    assert_ok(et_checkpoints_open(&checkpoints, directory, t.state, &defaults, error));
    assert_ok(et_checkpoints_restore_at(
        checkpoints, below(other, "checkpoints/ckpt-40.safetensors"), &step, error));
    assert_ok(et_checkpoints_save(checkpoints, 41, error));
    assert_ok(et_checkpoints_close(checkpoints, error));
    toy_free(&t);
    assert_string_equal(checkpoints_in(directory), "checkpoint.json " CKPT(41) "earlier-1 lock ");
    assert_string_equal(checkpoints_in(other), "checkpoint.json " CKPT(40) "lock ");
}

static void save_best(const char *directory, int64_t step, bool resumes)
{
    toy t = toy_new(step);
    toy_attach(&t);
    et_checkpoints *checkpoints = resumes ? resume_at(directory, &t) : open_at(directory, &t);
    et_arena arena = ET_ARENA_INIT;
    et_value *metrics = et_value_dict(&arena);
    et_value_set_float(metrics, "accuracy", 0.5);
    assert_ok(et_checkpoints_save_best(checkpoints, step, metrics, error));
    assert_ok(et_checkpoints_close(checkpoints, error));
    et_arena_release(&arena);
    toy_free(&t);
}

static void test_checkpoint_aside__best(void **state)
{
    const char *directory = in(state, "best");
    SAVE(directory, 5);
    save_best(directory, 3, true);
    /* Somebody's copy, which no run has written. */
    put_file(below(directory, "best/best-1.safetensors"), "copied there", 12);
    save_best(directory, 6, true);
    assert_string_equal(names_in(below(directory, "best")),
                        "best-1.safetensors best-6.safetensors info.json ");
    warnings[0] = '\0';
    save_best(directory, 6, false);
    assert_string_equal(names_in(below(directory, "best")),
                        "best-6.safetensors earlier-1 info.json ");
    assert_string_equal(names_in(below(directory, "best/earlier-1")),
                        "best-1.safetensors best-6.safetensors info.json ");
    assert_non_null(strstr(warnings, "best/earlier-1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checkpoint_aside__begun_anew),
        cmocka_unit_test(test_checkpoint_aside__of_an_older_one),
        cmocka_unit_test(test_checkpoint_aside__gone_back),
        cmocka_unit_test(test_checkpoint_aside__of_elsewhere),
        cmocka_unit_test(test_checkpoint_aside__best),
    };
    et_log_set(keep_warning, NULL);
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
