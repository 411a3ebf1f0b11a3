/* Which checkpoints of a directory are kept, and which are swept. */
#include <etude/checkpoint.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "formats/safetensors/manifest.h"
#include "train/saved.h"

static void test_checkpoint_keep__keeps_the_newest(void **state)
{
    const char *directory = in(state, "keep");
    SAVE(directory, 1, 2, 3, 4, 5, 6, 7);
    assert_string_equal(names_in(below(directory, "checkpoints")),
                        "checkpoint.json ckpt-3.safetensors ckpt-4.safetensors "
                        "ckpt-5.safetensors ckpt-6.safetensors ckpt-7.safetensors lock ");
    assert_int_equal(restored_step(directory), 7);
    /* A run that went back: later ones are set aside. */
    SAVE(directory, 4);
    assert_string_equal(names_in(below(directory, "checkpoints")),
                        "checkpoint.json ckpt-3.safetensors ckpt-4.safetensors earlier-1 lock ");
    assert_string_equal(names_in(below(directory, "checkpoints/earlier-1")),
                        "ckpt-5.safetensors ckpt-6.safetensors ckpt-7.safetensors ");
    assert_int_equal(restored_step(directory), 4);
}

/* The checkpoint of a stop is kept in addition until the next save, and can be restored until then.
 */
static void test_checkpoint_keep__transient(void **state)
{
    const char *directory = in(state, "transient");
    SAVE(directory, 1, 2, 3, 4, 5);
    for (int64_t step = 6; step <= 7; step++) {
        toy t = toy_new(step);
        toy_attach(&t);
        et_checkpoints *checkpoints = resume_at(directory, &t);
        toy_set(&t, step);
        assert_ok(et_checkpoints_save_transient(checkpoints, step, error));
        assert_ok(et_checkpoints_close(checkpoints, error));
        toy_free(&t);
        assert_int_equal(restored_step(directory), step);
    }
    assert_string_equal(names_in(below(directory, "checkpoints")),
                        "checkpoint.json ckpt-1.safetensors ckpt-2.safetensors "
                        "ckpt-3.safetensors ckpt-4.safetensors ckpt-5.safetensors "
                        "ckpt-7.safetensors lock ");
    SAVE(directory, 8);
    assert_string_equal(names_in(below(directory, "checkpoints")),
                        "checkpoint.json ckpt-2.safetensors ckpt-3.safetensors "
                        "ckpt-4.safetensors ckpt-5.safetensors ckpt-8.safetensors lock ");
}

static double now; /* hours of a clock that the test sets */

static double clock_of_test(void)
{
    return 1e9 + 3600 * now;
}

/* Saves a step each hour, in one opening or in an opening each. */
static void save_hourly(const char *directory, int64_t from, int64_t to, bool reopens)
{
    const et_internals internals = { .clock = clock_of_test };
    const et_checkpoint_options options = { .max_to_keep = 2,
                                            .internals = &internals,
                                            .keep_every_n_hours = 2 };
    et_checkpoints *checkpoints = NULL;
    int64_t restored;
    toy t = toy_new(0);
    toy_attach(&t);
    for (int64_t step = from; step <= to; step++) {
        if (!checkpoints) {
            assert_ok(et_checkpoints_open(&checkpoints, directory, t.state, &options, error));
            assert_ok(et_checkpoints_restore(checkpoints, &restored, error));
        }
        now++;
        toy_set(&t, step);
        assert_ok(et_checkpoints_save(checkpoints, step, error));
        assert_ok(et_checkpoints_wait(checkpoints, error));
        if (reopens || step == to) {
            assert_ok(et_checkpoints_close(checkpoints, error));
            checkpoints = NULL;
        }
    }
    toy_free(&t);
}

#define CKPT(n) "ckpt-" #n ".safetensors "

static void test_checkpoint_keep__keeps_one_each_so_many_hours(void **state)
{
    size_t length, other_length;
    const char *whole = in(state, "hours"), *parts = in(state, "hours_in_parts");
    now = 0;
    save_hourly(whole, 1, 8, false);
    assert_string_equal(names_in(below(whole, "checkpoints")),
                        "checkpoint.json " CKPT(2) CKPT(4) CKPT(6) CKPT(7) CKPT(8) "lock ");
    now = 0;
    save_hourly(parts, 1, 8, true);
    char *one = get_file(below(whole, "checkpoints/" ET_MANIFEST_NAME), &length);
    char *other = get_file(below(parts, "checkpoints/" ET_MANIFEST_NAME), &other_length);
    assert_string_equal(one, other);
    free(one);
    free(other);
    /* Which files were kept, and when, is lost: then the files' own times, of today, count. */
    remove(below(parts, "checkpoints/" ET_MANIFEST_NAME));
    save_hourly(parts, 9, 9, false);
    assert_string_equal(names_in(below(parts, "checkpoints")),
                        "checkpoint.json " CKPT(2) CKPT(4) CKPT(6) CKPT(7) CKPT(8) CKPT(9) "lock ");
    /* A run that went back; a clock that was set back. */
    now = -5;
    save_hourly(whole, 5, 8, true);
    assert_string_equal(names_in(below(whole, "checkpoints")),
                        "checkpoint.json " CKPT(2) CKPT(4) CKPT(7) CKPT(8) "earlier-1 lock ");
    save_hourly(whole, 9, 9, true);
    assert_string_equal(names_in(below(whole, "checkpoints")),
                        "checkpoint.json " CKPT(2) CKPT(4) CKPT(7) CKPT(8)
                            CKPT(9) "earlier-1 lock ");
    /* Without the setting none is swept that was kept. */
    SAVE(whole, 10, 11, 12, 13, 14, 15);
    assert_string_equal(names_in(below(whole, "checkpoints")),
                        "checkpoint.json " CKPT(11) CKPT(12) CKPT(13) CKPT(14) CKPT(15) CKPT(2)
                            CKPT(4) CKPT(7) "earlier-1 lock ");
    assert_int_equal(restored_step(whole), 15);
}

static void test_checkpoint_keep__hours_that_are_none(void **state)
{
    static const double wrong[] = { -1, NAN, INFINITY };
    et_checkpoints *checkpoints;
    toy t = toy_new(0);
    toy_attach(&t);
    for (size_t i = 0; i < 3; i++) {
        const et_checkpoint_options options = { .keep_every_n_hours = wrong[i] };
        assert_fails(et_checkpoints_open(&checkpoints, in(state, "none"), t.state, &options, error),
                     ET_EUSAGE, "keep_every_n_hours: ");
    }
    toy_free(&t);
}

/* Killed between the file and its commit: the resumed run makes the commit. */
static void test_checkpoint_keep__commit_that_a_kill_prevented(void **state)
{
    const char *directory = in(state, "prevented");
    SAVE(directory, 1, 2, 3, 4, 5, 6);
    size_t length;
    char *manifest = get_file(below(directory, "checkpoints/" ET_MANIFEST_NAME), &length);
    SAVE(directory, 7);
    put_file(below(directory, "checkpoints/" ET_MANIFEST_NAME), manifest, length);
    free(manifest);
    put_file(below(directory, "checkpoints/ckpt-2.safetensors"), "junk", 4);
    assert_int_equal(restored_step(directory), 7);
    assert_string_equal(names_in(below(directory, "checkpoints")),
                        "checkpoint.json ckpt-3.safetensors ckpt-4.safetensors "
                        "ckpt-5.safetensors ckpt-6.safetensors ckpt-7.safetensors lock ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checkpoint_keep__keeps_the_newest),
        cmocka_unit_test(test_checkpoint_keep__transient),
        cmocka_unit_test(test_checkpoint_keep__keeps_one_each_so_many_hours),
        cmocka_unit_test(test_checkpoint_keep__hours_that_are_none),
        cmocka_unit_test(test_checkpoint_keep__commit_that_a_kill_prevented),
    };
    et_log_set(keep_warning, NULL);
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
