/* A state that is saved and restored, whole, and by one writer at a time. */
#include "train/checkpoint/checkpoint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/files/file.h"
#include "engine/comm/comm.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/saved.h"

static void test_checkpoint__nothing_there(void **state)
{
    assert_int_equal(restored_step(in(state, "empty")), -1);
}

static void test_checkpoint__restores_every_byte(void **state)
{
    const char *directory = in(state, "exact");
    toy t = toy_new(7);
    toy_attach(&t);
    /* Bits that arithmetic would lose. */
    static const uint32_t bits[] = { 0x7fc00001, 0xff800000, 0x00000001, 0x80000000 };
    memcpy(t.weight, bits, sizeof bits);
    float before[3 * TOY_SIZE];
    memcpy(before, t.weight, sizeof before);
    et_checkpoints *checkpoints = open_at(directory, &t);
    assert_ok(et_checkpoints_save(checkpoints, 7, error));
    et_checkpoints_wait_read(checkpoints);
    toy_set(&t, 8);
    assert_ok(et_checkpoints_wait(checkpoints, error));
    int64_t step;
    assert_ok(et_checkpoints_restore(checkpoints, &step, error));
    assert_int_equal(step, 7);
    assert_int_equal(t.step, 7);
    assert_memory_equal(before, t.weight, sizeof before);
    assert_ok(et_checkpoints_close(checkpoints, error));
    toy_free(&t);
}

/* A program's own arrays, here one that takes long to write, change at once; the file has the old
 * values. */
static void test_checkpoint__own_arrays_change(void **state)
{
    enum { ELEMENTS = 1 << 22, SAVES = 3 };
    toy t = toy_new(0);
    toy_attach(&t);
    float *large = calloc(ELEMENTS, sizeof *large);
    assert_non_null(large);
    assert_ok(et_state_add_tensor(t.state, "large", large, et_shape_1(ELEMENTS), error));
    et_checkpoints *checkpoints = open_at(in(state, "large"), &t);
    et_checkpoints_wait_read(checkpoints); /* nothing is being saved */
    for (int64_t step = 1; step <= SAVES; step++) {
        for (int i = 0; i < ELEMENTS; i++)
            large[i] = (float)step;
        assert_ok(et_checkpoints_save(checkpoints, step, error));
    }
    memset(large, 0, ELEMENTS * sizeof *large);
    int64_t step;
    assert_ok(et_checkpoints_restore(checkpoints, &step, error));
    assert_int_equal(step, SAVES);
    for (int i = 0; i < ELEMENTS; i++)
        if (large[i] != SAVES)
            fail_msg("element %d is %g", i, (double)large[i]);
    assert_ok(et_checkpoints_close(checkpoints, error));
    toy_free(&t);
    free(large);
}

static void test_checkpoint__bytes_depend_on_state_only(void **state)
{
    SAVE(in(state, "one"), 3);
    SAVE(in(state, "two"), 1, 2, 3);
    size_t length, other_length;
    char *one = get_file(in(state, "one/checkpoints/ckpt-3.safetensors"), &length);
    char *two = get_file(in(state, "two/checkpoints/ckpt-3.safetensors"), &other_length);
    assert_int_equal(length, other_length);
    assert_memory_equal(one, two, length);
    free(one);
    free(two);
}

static void test_checkpoint__one_writer(void **state)
{
    toy t = toy_new(0);
    toy_attach(&t);
    et_checkpoints *checkpoints = open_at(in(state, "lock"), &t), *second;
    int lock;
    assert_fails(et_checkpoints_lock(&lock, in(state, "lock"), error), ET_EBUSY, "lock");
    assert_int_equal(lock, -1);
    assert_fails(et_checkpoints_open(&second, in(state, "lock"), t.state, &defaults, error),
                 ET_EBUSY, "lock");
    assert_null(second);
    /* As one of several that were started together, perhaps without knowing of each other. */
    setenv(ET_RANK_VARIABLE, "1/2", 1);
    assert_fails(et_checkpoints_lock(&lock, in(state, "lock"), error), ET_EBUSY,
                 "if this is another rank of the same program, give its loop, trainer or "
                 "controller the comm (<etude/comm.h>)");
    unsetenv(ET_RANK_VARIABLE);
    assert_ok(et_checkpoints_close(checkpoints, error));

    /* The options name the lock that the caller holds. */
    et_checkpoint_options locked = defaults;
    locked.internals = &(et_internals){ .lock = &lock };
    assert_ok(et_checkpoints_lock(&lock, in(state, "lock"), error));
    assert_ok(et_checkpoints_open(&checkpoints, in(state, "lock"), t.state, &locked, error));
    assert_ok(et_checkpoints_close(checkpoints, error));
    assert_fails(et_checkpoints_open(&second, in(state, "lock"), t.state, &defaults, error),
                 ET_EBUSY, "lock");
    et_lock_drop(lock);
    toy_free(&t);
}

static void test_checkpoint__other_model(void **state)
{
    const char *directory = in(state, "other");
    SAVE(directory, 5);
    static const struct {
        const char *name;
        int64_t rows, columns;
        bool slots;
        const char *part;
    } cases[] = {
        { "w", 33, 61, true, "w is float32 [61, 33] in the file, but float32 [33, 61] here" },
        { "x", 61, 33, true, "it has no x" },
        { "w", 61, 33, false,
          "belongs to another model: it has average/w, but this model does not; use the settings "
          "of the checkpoint" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        toy t = toy_new(1);
        et_shape shape = et_shape_2(cases[i].rows, cases[i].columns);
        assert_ok(et_state_add_tensor(t.state, cases[i].name, t.weight, shape, error));
        assert_ok(et_state_add_tensor(t.state, "optimizer/m/w", t.slot,
                                      et_shape_2(TOY_ROWS, TOY_COLUMNS), error));
        if (cases[i].slots)
            assert_ok(et_state_add_tensor(t.state, "average/w", t.average,
                                          et_shape_2(TOY_ROWS, TOY_COLUMNS), error));
        et_checkpoints *checkpoints = open_at(directory, &t);
        int64_t step;
        assert_fails(et_checkpoints_restore(checkpoints, &step, error), ET_ECONFIG, cases[i].part);
        assert_true(toy_is(&t, 1));
        assert_ok(et_checkpoints_close(checkpoints, error));
        toy_free(&t);
    }
}

static void test_checkpoint__best(void **state)
{
    const char *directory = in(state, "best");
    et_arena arena = ET_ARENA_INIT;
    toy t = toy_new(0);
    toy_attach(&t);
    et_checkpoints *checkpoints = open_at(directory, &t);
    et_value *info, *metrics = et_value_dict(&arena);
    char *path;
    assert_fails(et_checkpoint_best(&path, directory, error), ET_ENOTFOUND, "info.json");
    for (int64_t step = 4; step <= 8; step += 4) {
        et_checkpoints_wait_read(checkpoints);
        toy_set(&t, step);
        et_value_set_float(metrics, "bleu", (double)step + 0.5);
        assert_ok(et_checkpoints_save_best(checkpoints, step, metrics, error));
        assert_ok(et_checkpoints_save(checkpoints, step, error));
    }
    et_checkpoints_wait_read(checkpoints);
    toy_set(&t, 12);
    assert_ok(et_checkpoints_save(checkpoints, 12, error));
    assert_ok(et_checkpoints_close(checkpoints, error));
    assert_string_equal(names_in(below(directory, "best")), "best-8.safetensors info.json ");

    double bleu;
    assert_ok(et_checkpoint_best_info(&info, directory, &arena, error));
    assert_ok(et_value_read_float(info, "bleu", &bleu, error));
    assert_true(bleu == 8.5);
    assert_ok(et_checkpoint_best(&path, directory, error));
    int64_t step;
    assert_ok(et_checkpoint_restore_file(t.state, path, ET_RESTORE_STRICT, &step, error));
    assert_int_equal(step, 8);
    assert_true(toy_is(&t, 8));
    et_free(path);
    put_file(below(directory, "best/info.json"), "{\"best_ckpt_global_step\": \"x\"}", 30);
    assert_fails(et_checkpoint_best(&path, directory, error), ET_EFORMAT, "info.json");
    et_arena_release(&arena);
    toy_free(&t);
}

/* Another name of the best one's directory; never in place of a file that is there. */
static void test_checkpoint__best_link(void **state)
{
    static const char *const wrong[] = { "",   ".",           "..",    ".a",        "a/b",
                                         "/a", "checkpoints", "train", "validation" };
    char directory[700];
    et_checkpoint_options options = { .best_link = "top" };
    et_checkpoints *checkpoints;
    et_arena arena = ET_ARENA_INIT;
    toy t = toy_new(0);
    toy_attach(&t);
    snprintf(directory, sizeof directory, "%s", in(state, "link"));
    assert_int_equal(mkdir(directory, 0777), 0);
    put_file(below(directory, "top"), "mine", 4);
    assert_fails(et_checkpoints_open(&checkpoints, directory, t.state, &options, error), ET_ECONFIG,
                 "link/top exists, and is no link to the best checkpoint");
    assert_int_equal(unlink(below(directory, "top")), 0);
    for (int64_t step = 1; step <= 2; step++) { /* a process each */
        assert_ok(et_checkpoints_open(&checkpoints, directory, t.state, &options, error));
        assert_ok(et_checkpoints_save_best(checkpoints, step, et_value_dict(&arena), error));
        assert_ok(et_checkpoints_close(checkpoints, error));
        assert_true(file_is_there(below(directory, "top/info.json")));
        assert_true(file_is_there(below(directory, "best/info.json")));
    }
    char *path;
    assert_ok(et_checkpoint_find_weights(&path, below(directory, "top/"), error));
    assert_non_null(strstr(path, "/best/best-2.safetensors"));
    et_free(path);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        options.best_link = wrong[i];
        assert_fails(et_checkpoints_open(&checkpoints, directory, t.state, &options, error),
                     ET_ECONFIG, "cannot be a link to the best checkpoint; give another name");
    }
    et_arena_release(&arena);
    toy_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checkpoint__nothing_there),
        cmocka_unit_test(test_checkpoint__restores_every_byte),
        cmocka_unit_test(test_checkpoint__own_arrays_change),
        cmocka_unit_test(test_checkpoint__bytes_depend_on_state_only),
        cmocka_unit_test(test_checkpoint__one_writer),
        cmocka_unit_test(test_checkpoint__other_model),
        cmocka_unit_test(test_checkpoint__best),
        cmocka_unit_test(test_checkpoint__best_link),
    };
    et_log_set(keep_warning, NULL);
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
