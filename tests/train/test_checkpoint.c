#include "train/checkpoint.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mount.h>
#include <unistd.h>
#include <cmocka.h>

#include <etude/allocator.h>
#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "io/manifest.h"
#include "io/safetensors.h"
#include "skip.h"
#include "train/train.h"

/* What the library warned of since the last look. */
static char warnings[8192];

static void keep_warning(void *payload, et_log_level level, const char *text)
{
    (void)payload;
    if (level >= ET_LOG_WARNING) {
        size_t used = strlen(warnings);
        snprintf(warnings + used, sizeof warnings - used, "%s\n", text);
    }
}

static const et_checkpoint_options defaults = { 0 };

static et_checkpoints *open_at(const char *directory, toy *t)
{
    et_checkpoints *checkpoints;
    assert_ok(et_checkpoints_open(&checkpoints, directory, t->state, &defaults, error));
    return checkpoints;
}

/* Saves these steps one after the other. */
static void save_steps(const char *directory, const int64_t *steps, size_t count)
{
    toy t = toy_new(0);
    toy_attach(&t);
    et_checkpoints *checkpoints = open_at(directory, &t);
    for (size_t i = 0; i < count; i++) {
        et_checkpoints_wait_read(checkpoints);
        toy_set(&t, steps[i]);
        assert_ok(et_checkpoints_save(checkpoints, steps[i], error));
    }
    assert_ok(et_checkpoints_close(checkpoints, error));
    toy_free(&t);
}

#define SAVE(directory, ...)                                                                       \
    save_steps(directory, (const int64_t[]){ __VA_ARGS__ },                                        \
               sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t))

/* Restores into a fresh state, which then is that of the step that is returned. */
static int64_t restored_step(const char *directory)
{
    toy t = toy_new(999);
    toy_attach(&t);
    et_checkpoints *checkpoints = open_at(directory, &t);
    int64_t step;
    warnings[0] = '\0';
    assert_ok(et_checkpoints_restore(checkpoints, &step, error));
    assert_true(toy_is(&t, step < 0 ? 999 : step));
    assert_int_equal(t.restored, step >= 0);
    assert_int_equal(et_checkpoints_newest_step(checkpoints), step);
    assert_ok(et_checkpoints_close(checkpoints, error));
    toy_free(&t);
    return step;
}

/* Names in a directory, sorted, with a space after each. */
static const char *names_in(const char *directory)
{
    static char text[2048];
    struct dirent **items;
    int count = scandir(directory, &items, NULL, alphasort);
    text[0] = '\0';
    for (int i = 0; i < count; i++) {
        if (items[i]->d_name[0] != '.') {
            strcat(text, items[i]->d_name);
            strcat(text, " ");
        }
        free(items[i]);
    }
    if (count >= 0)
        free(items);
    return text;
}

static void flip_bit(const char *path, double where)
{
    size_t length;
    char *bytes = get_file(path, &length);
    bytes[(size_t)((double)length * where)] ^= 4;
    put_file(path, bytes, length);
    free(bytes);
}

static void cut_file(const char *path, double where)
{
    size_t length;
    char *bytes = get_file(path, &length);
    put_file(path, bytes, (size_t)((double)length * where));
    free(bytes);
}

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

/* Arrays that take long to write are changed as soon as they may be; the file does not see it. */
static void test_checkpoint__arrays_change_once_read(void **state)
{
    enum { ELEMENTS = 1 << 22, SAVES = 3 };
    toy t = toy_new(0);
    toy_attach(&t);
    float *large = calloc(ELEMENTS, sizeof *large);
    assert_non_null(large);
    assert_ok(et_state_add_tensor(t.state, "large", large, et_shape_1(ELEMENTS), error));
    et_checkpoints *checkpoints = open_at(in(state, "large"), &t);
    et_checkpoints_wait_read(checkpoints); /* nothing is saved */
    for (int64_t step = 1; step <= SAVES; step++) {
        for (int i = 0; i < ELEMENTS; i++)
            large[i] = (float)step;
        assert_ok(et_checkpoints_save(checkpoints, step, error));
        et_checkpoints_wait_read(checkpoints);
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

static void test_checkpoint__keeps_the_newest(void **state)
{
    const char *directory = in(state, "keep");
    SAVE(directory, 1, 2, 3, 4, 5, 6, 7);
    assert_string_equal(names_in(below(directory, "checkpoints")),
                        "checkpoint.json ckpt-3.safetensors ckpt-4.safetensors "
                        "ckpt-5.safetensors ckpt-6.safetensors ckpt-7.safetensors lock ");
    assert_int_equal(restored_step(directory), 7);
    /* A run that went back: later ones leave. */
    SAVE(directory, 4);
    assert_string_equal(names_in(below(directory, "checkpoints")),
                        "checkpoint.json ckpt-3.safetensors ckpt-4.safetensors lock ");
    assert_int_equal(restored_step(directory), 4);
}

/* Where a run stopped is one more until the next save, and can be gone back to until then. */
static void test_checkpoint__passing(void **state)
{
    const char *directory = in(state, "passing");
    SAVE(directory, 1, 2, 3, 4, 5);
    for (int64_t step = 6; step <= 7; step++) {
        toy t = toy_new(step);
        toy_attach(&t);
        et_checkpoints *checkpoints = open_at(directory, &t);
        assert_ok(et_checkpoints_save_passing(checkpoints, step, error));
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
    const et_inside inside = { .clock = clock_of_test };
    const et_checkpoint_options options = { .max_to_keep = 2,
                                            .inside = &inside,
                                            .keep_every_n_hours = 2 };
    et_checkpoints *checkpoints = NULL;
    toy t = toy_new(0);
    toy_attach(&t);
    for (int64_t step = from; step <= to; step++) {
        if (!checkpoints)
            assert_ok(et_checkpoints_open(&checkpoints, directory, t.state, &options, error));
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

static void test_checkpoint__keeps_one_each_so_many_hours(void **state)
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
    /* What is lost is which were kept, and when: then the files' own times, of today, count. */
    remove(below(parts, "checkpoints/" ET_MANIFEST_NAME));
    save_hourly(parts, 9, 9, false);
    assert_string_equal(names_in(below(parts, "checkpoints")),
                        "checkpoint.json " CKPT(2) CKPT(4) CKPT(6) CKPT(7) CKPT(8) CKPT(9) "lock ");
    /* A run that went back; a clock that was set back. */
    now = -5;
    save_hourly(whole, 5, 8, true);
    assert_string_equal(names_in(below(whole, "checkpoints")),
                        "checkpoint.json " CKPT(2) CKPT(4) CKPT(7) CKPT(8) "lock ");
    save_hourly(whole, 9, 9, true);
    assert_string_equal(names_in(below(whole, "checkpoints")),
                        "checkpoint.json " CKPT(2) CKPT(4) CKPT(7) CKPT(8) CKPT(9) "lock ");
    /* Without the setting none is swept that was kept. */
    SAVE(whole, 10, 11, 12, 13, 14, 15);
    assert_string_equal(names_in(below(whole, "checkpoints")),
                        "checkpoint.json " CKPT(11) CKPT(12) CKPT(13) CKPT(14) CKPT(15) CKPT(2)
                            CKPT(4) CKPT(7) "lock ");
    assert_int_equal(restored_step(whole), 15);
}

static void test_checkpoint__hours_that_are_none(void **state)
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

/* Killed between the file and its commit: when the run goes on, the commit is made good. */
static void test_checkpoint__commit_that_a_kill_prevented(void **state)
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
    assert_ok(et_checkpoints_close(checkpoints, error));

    /* Whoever holds the lock says so. */
    et_checkpoint_options locked = defaults;
    locked.inside = &(et_inside){ .lock = &lock };
    assert_ok(et_checkpoints_lock(&lock, in(state, "lock"), error));
    assert_ok(et_checkpoints_open(&checkpoints, in(state, "lock"), t.state, &locked, error));
    assert_ok(et_checkpoints_close(checkpoints, error));
    assert_fails(et_checkpoints_open(&second, in(state, "lock"), t.state, &defaults, error),
                 ET_EBUSY, "lock");
    et_lock_drop(lock);
    toy_free(&t);
}

/* Damage of the newest, one way after the other: it is named, the one before it is taken. */
static void test_checkpoint__damaged_newest_falls_back(void **state)
{
    static const struct {
        void (*damage)(const char *path, double where);
        double where;
    } cases[] = {
        { flip_bit, 0.999 }, { flip_bit, 0.5 }, { flip_bit, 0.02 },   { flip_bit, 0 },
        { cut_file, 0.999 }, { cut_file, 0.3 }, { cut_file, 0.0001 }, { cut_file, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char directory[600];
        snprintf(directory, sizeof directory, "%s-%zu", in(state, "damaged"), i);
        SAVE(directory, 5, 10);
        const char *newest = below(directory, "checkpoints/ckpt-10.safetensors");
        cases[i].damage(newest, cases[i].where);
        assert_int_equal(restored_step(directory), 5);
        if (!strstr(warnings, newest))
            fail_msg("case %zu: %s is not named in: %s", i, newest, warnings);
        char *path;
        assert_ok(et_checkpoint_newest(&path, directory, error));
        assert_non_null(strstr(path, "ckpt-5.safetensors"));
        et_free(path);
        /* Training goes on from there and replaces the damaged one. */
        SAVE(directory, 10);
        assert_int_equal(restored_step(directory), 10);
    }
}

static void test_checkpoint__none_sound(void **state)
{
    const char *directory = in(state, "none");
    SAVE(directory, 5, 10);
    flip_bit(below(directory, "checkpoints/ckpt-5.safetensors"), 0.5);
    flip_bit(below(directory, "checkpoints/ckpt-10.safetensors"), 0.5);
    toy t = toy_new(1);
    toy_attach(&t);
    et_checkpoints *checkpoints = open_at(directory, &t);
    int64_t step;
    assert_fails(et_checkpoints_restore(checkpoints, &step, error), ET_EFORMAT,
                 "none of 2 checkpoints is sound");
    assert_true(toy_is(&t, 1));
    assert_ok(et_checkpoints_close(checkpoints, error));
    toy_free(&t);
}

/* Lost or damaged manifest, missing newest, temporary files of the dead. */
static void test_checkpoint__odd_directories(void **state)
{
    const char *directory = in(state, "odd");
    SAVE(directory, 5, 10);
    put_file(below(directory, "checkpoints/ckpt-15.safetensors.tmp.999999"), "junk", 4);
    assert_int_equal(restored_step(directory), 10);
    assert_false(file_is_there(below(directory, "checkpoints/ckpt-15.safetensors.tmp.999999")));

    put_file(below(directory, "checkpoints/" ET_MANIFEST_NAME), "{", 1);
    assert_int_equal(restored_step(directory), 10);
    SAVE(directory, 15);
    assert_int_equal(unlink(below(directory, "checkpoints/" ET_MANIFEST_NAME)), 0);
    assert_int_equal(restored_step(directory), 15);

    SAVE(directory, 20);
    assert_int_equal(unlink(below(directory, "checkpoints/ckpt-20.safetensors")), 0);
    assert_int_equal(restored_step(directory), 15);
    assert_non_null(strstr(warnings, "ckpt-20.safetensors"));
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
        { "w", 33, 61, true, "w is float32 [61, 33] there and float32 [33, 61] here" },
        { "x", 61, 33, true, "it has no x" },
        { "w", 61, 33, false, "it has average/w, which this one has not" },
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
    assert_ok(et_checkpoint_restore_file(t.state, path, &step, error));
    assert_int_equal(step, 8);
    assert_true(toy_is(&t, 8));
    et_free(path);
    put_file(below(directory, "best/info.json"), "{\"best_ckpt_global_step\": \"x\"}", 30);
    assert_fails(et_checkpoint_best(&path, directory, error), ET_EFORMAT, "info.json");
    et_arena_release(&arena);
    toy_free(&t);
}

/* Only a directory without write permission stops root from nothing, so a file stands where
 * the directory should be. */
static void test_checkpoint__directory_that_cannot_be(void **state)
{
    toy t = toy_new(0);
    toy_attach(&t);
    et_checkpoints *checkpoints;
    put_file(in(state, "file"), "", 0);
    et_error error = ET_ERROR_INIT;
    assert_int_not_equal(
        et_checkpoints_open(&checkpoints, in(state, "file"), t.state, &defaults, &error), 0);
    assert_non_null(strstr(error.text, "file"));
    assert_null(checkpoints);
    toy_free(&t);
}

/* Root writes anywhere, so it becomes nobody for a while. */
static int become_root_again(void **state)
{
    (void)state;
    return getuid() == 0 ? seteuid(0) : 0;
}

static void test_checkpoint__read_only_directory(void **state)
{
    const char *directory = in(state, "readonly");
    assert_int_equal(mkdir(directory, 0777) || chmod(directory, 0777) || chmod(*state, 0755), 0);
    if (getuid() == 0 && (seteuid(65534) || access(directory, F_OK)))
        test_skip("nobody but root may come here");
    toy t = toy_new(1);
    toy_attach(&t);
    et_checkpoints *checkpoints = open_at(directory, &t);
    assert_ok(et_checkpoints_save(checkpoints, 1, error));
    assert_ok(et_checkpoints_wait(checkpoints, error));
    assert_int_equal(chmod(below(directory, "checkpoints"), 0555), 0);
    assert_ok(et_checkpoints_save(checkpoints, 2, error));
    assert_fails(et_checkpoints_wait(checkpoints, error), ET_EDENIED, "ckpt-2");
    assert_int_equal(chmod(below(directory, "checkpoints"), 0755), 0);
    assert_ok(et_checkpoints_close(checkpoints, error));
    assert_int_equal(restored_step(directory), 1);
    toy_free(&t);
}

/* No file may grow beyond a limit: the thread's error comes at the next call, the old one is
 * intact, and saving works again once there is room. */
static void test_checkpoint__write_error(void **state)
{
    const char *directory = in(state, "limit");
    toy t = toy_new(5);
    toy_attach(&t);
    et_checkpoints *checkpoints = open_at(directory, &t);
    assert_ok(et_checkpoints_save(checkpoints, 5, error));
    assert_ok(et_checkpoints_wait(checkpoints, error));
    limit_files(10000);
    toy_set(&t, 10);
    assert_ok(et_checkpoints_save(checkpoints, 10, error));
    et_checkpoints_wait_read(checkpoints); /* a failure ends it too */
    toy_set(&t, 11);
    assert_fails(et_checkpoints_save(checkpoints, 11, error), ET_ENOSPACE, "saving step 10: ");
    unlimit_files();
    assert_string_equal(names_in(below(directory, "checkpoints")),
                        "checkpoint.json ckpt-5.safetensors lock ");
    assert_ok(et_checkpoints_save(checkpoints, 11, error));
    assert_ok(et_checkpoints_close(checkpoints, error));
    assert_int_equal(restored_step(directory), 11);
    toy_free(&t);
}

/* The weights are written, the manifest cannot be: the save has not happened. */
static void test_checkpoint__commit_error(void **state)
{
    const char *directory = in(state, "commit");
    char block[700];
    toy t = toy_new(5);
    toy_attach(&t);
    et_checkpoints *checkpoints = open_at(directory, &t);
    assert_ok(et_checkpoints_save(checkpoints, 5, error));
    assert_ok(et_checkpoints_wait(checkpoints, error));
    /* A directory stands where the temporary file would. */
    snprintf(block, sizeof block, "%s/checkpoints/" ET_MANIFEST_NAME ".tmp.%d", directory,
             (int)getpid());
    assert_int_equal(mkdir(block, 0755), 0);
    toy_set(&t, 10);
    assert_ok(et_checkpoints_save(checkpoints, 10, error));
    et_error failure = ET_ERROR_INIT;
    assert_int_not_equal(et_checkpoints_wait(checkpoints, &failure), 0);
    assert_non_null(strstr(failure.text, ET_MANIFEST_NAME));
    assert_int_equal(et_checkpoints_newest_step(checkpoints), 5);
    assert_false(file_is_there(below(directory, "checkpoints/ckpt-10.safetensors")));
    assert_int_equal(rmdir(block), 0);
    assert_int_equal(et_checkpoints_save(checkpoints, 10, &failure), 0);
    assert_ok(et_checkpoints_close(checkpoints, error));
    assert_int_equal(restored_step(directory), 10);
    toy_free(&t);
}

/* A file system with room for one checkpoint and a half. */
static void test_checkpoint__disk_full(void **state)
{
    const char *mount_point = in(state, "tiny");
    assert_int_equal(mkdir(mount_point, 0755), 0);
    if (mount("tmpfs", mount_point, "tmpfs", 0, "size=48k"))
        test_skip("cannot mount a tmpfs here (needs root)");
    toy t = toy_new(5);
    toy_attach(&t);
    et_checkpoints *checkpoints = open_at(mount_point, &t);
    assert_ok(et_checkpoints_check_room(checkpoints, error));
    assert_ok(et_checkpoints_save(checkpoints, 5, error));
    assert_ok(et_checkpoints_wait(checkpoints, error));
    assert_fails(et_checkpoints_check_room(checkpoints, error), ET_ENOSPACE,
                 "room for a checkpoint: ");
    toy_set(&t, 10);
    assert_ok(et_checkpoints_save(checkpoints, 10, error));
    assert_fails(et_checkpoints_wait(checkpoints, error), ET_ENOSPACE, "ckpt-10");
    assert_string_equal(names_in(below(mount_point, "checkpoints")),
                        "checkpoint.json ckpt-5.safetensors lock ");
    assert_ok(et_checkpoints_close(checkpoints, error));
    assert_int_equal(restored_step(mount_point), 5);
    toy_free(&t);
    assert_int_equal(umount(mount_point), 0);
}

/* Weights only ------------------------------------------------------------------------ */

static et_params *toy_params(int64_t rows)
{
    et_params *params;
    int index;
    assert_ok(et_params_new(&params, error));
    assert_ok(et_params_declare(params, "w", et_shape_2(rows, TOY_COLUMNS), (et_init){ 0 }, &index,
                                error));
    assert_ok(et_params_materialize(params, true, error));
    return params;
}

static void test_checkpoint__load_weights(void **state)
{
    const char *directory = in(state, "weights");
    SAVE(directory, 6);
    char *path;
    assert_ok(et_checkpoint_newest(&path, directory, error));
    et_params *params = toy_params(TOY_ROWS), *other = toy_params(TOY_ROWS + 1);
    toy t = toy_new(6);
    et_checkpoint_facts facts = { 0 };
    uint64_t version = et_params_version(params);
    assert_ok(et_checkpoint_load_weights(params, path, false, &facts, error));
    assert_int_equal(facts.step, 6);
    assert_memory_equal(et_params_values(params), t.weight, TOY_SIZE * sizeof(float));
    assert_true(et_params_version(params) > version);
    assert_ok(et_checkpoint_load_weights(params, path, true, NULL, error));
    assert_memory_equal(et_params_values(params), t.average, TOY_SIZE * sizeof(float));
    assert_fails(et_checkpoint_load_weights(other, path, false, NULL, error), ET_ECONFIG,
                 "w is float32 [61, 33] there and float32 [62, 33] here");
    flip_bit(path, 0.9);
    assert_fails(et_checkpoint_load_weights(params, path, false, NULL, error), ET_EFORMAT,
                 "ckpt-6.safetensors");
    assert_fails(et_checkpoint_load_weights(params, "no-such-file", false, NULL, error),
                 ET_ENOTFOUND, "no-such-file");
    et_free(path);
    assert_fails(et_checkpoint_newest(&path, "no-such-run", error), ET_ENOTFOUND, "no-such-run");
    et_params_free(params);
    et_params_free(other);
    toy_free(&t);
}

/* A run that replaces its only checkpoint, and its best one, at a moment of our choice: at the
 * allocation that counts to zero. What it does then are the last steps of a save, renames and
 * removals of files that lie ready in "next". */
static struct {
    long until;
    const char *directory;
    bool saved;
} moment;

static void replace(const char *file)
{
    char from[700], to[700];
    snprintf(from, sizeof from, "%s/next/%s", moment.directory, file);
    snprintf(to, sizeof to, "%s/%s", moment.directory, file);
    assert_int_equal(rename(from, to), 0);
}

static void save_the_next(void)
{
    char old[700];
    moment.saved = true;
    replace("checkpoints/ckpt-2.safetensors");
    replace("checkpoints/checkpoint.json");
    snprintf(old, sizeof old, "%s/checkpoints/ckpt-1.safetensors", moment.directory);
    assert_int_equal(unlink(old), 0);
    replace("best/best-2.safetensors");
    replace("best/info.json");
    snprintf(old, sizeof old, "%s/best/best-1.safetensors", moment.directory);
    assert_int_equal(unlink(old), 0);
}

static void *allocate(void *payload, size_t size, size_t alignment)
{
    void *memory = NULL;
    (void)payload;
    if (moment.until-- == 0)
        save_the_next();
    return alignment <= 16                            ? malloc(size)
           : posix_memalign(&memory, alignment, size) ? NULL
                                                      : memory;
}

static void *reallocate(void *payload, void *memory, size_t size)
{
    (void)payload;
    return realloc(memory, size);
}

static void release(void *payload, void *memory)
{
    (void)payload;
    free(memory);
}

static const et_allocator counting = { NULL, allocate, reallocate, release };

/* Step 1 in directory, step 2 in directory/next, each the only one and the best. */
static void prepare_two(const char *directory)
{
    char next[700];
    snprintf(next, sizeof next, "%s/next", directory);
    for (int64_t step = 1; step <= 2; step++) {
        toy t = toy_new(step);
        toy_attach(&t);
        et_arena arena = ET_ARENA_INIT;
        et_checkpoints *checkpoints = open_at(step == 1 ? directory : next, &t);
        assert_ok(et_checkpoints_save(checkpoints, step, error));
        assert_ok(et_checkpoints_save_best(checkpoints, step, et_value_dict(&arena), error));
        assert_ok(et_checkpoints_close(checkpoints, error));
        et_arena_release(&arena);
        toy_free(&t);
    }
}

/* Whatever the moment, one of the two is read, whole, and nothing is said of the other. */
static void test_checkpoint__read_beside_a_save(void **state)
{
    et_params *params = toy_params(TOY_ROWS);
    int read[2][3] = { { 0 } };
    bool saved = true;
    for (long k = 0; saved; k++) {
        saved = false;
        for (int best = 0; best < 2; best++) {
            char name[64], directory[700];
            snprintf(name, sizeof name, "beside-%ld-%d", k, best);
            snprintf(directory, sizeof directory, "%s", in(state, name));
            prepare_two(directory);
            et_checkpoint_facts facts = { 0 };
            char *path;
            warnings[0] = '\0';
            moment.until = k;
            moment.directory = directory;
            moment.saved = false;
            et_allocator_set(&counting);
            et_error error = ET_ERROR_INIT;
            int status =
                best ? et_checkpoint_load_best(&path, params, directory, false, &facts, &error)
                     : et_checkpoint_load_newest(&path, params, directory, false, &facts, &error);
            et_free(path);
            et_allocator_set(NULL);
            if (status || warnings[0])
                fail_msg("allocation %ld: %s%s", k, error.text, warnings);
            assert_true(facts.step == 1 || facts.step == 2);
            assert_true(et_params_values(params)[0] == (float)facts.step);
            read[best][facts.step]++;
            saved |= moment.saved;
        }
    }
    for (int best = 0; best < 2; best++)
        assert_true(read[best][1] > 2 && read[best][2] > 2);
    et_params_free(params);
}

static void test_checkpoint__average(void **state)
{
    const char *directory = in(state, "average");
    SAVE(directory, 1, 2, 6);
    char paths[3][700];
    static const int steps[] = { 1, 2, 6 };
    for (int i = 0; i < 3; i++)
        snprintf(paths[i], sizeof paths[i], "%s/checkpoints/ckpt-%d.safetensors", directory,
                 steps[i]);
    const char *list[] = { paths[0], paths[1], paths[2] };
    const char *out = below(directory, "average.safetensors");
    assert_ok(et_checkpoint_average(list, 3, true, out, NULL, error));

    et_safetensors *file;
    assert_ok(et_safetensors_open(&file, out, error));
    assert_int_equal(et_safetensors_count(file), 1);
    et_safetensors_close(file);
    et_params *params = toy_params(TOY_ROWS);
    et_checkpoint_facts facts = { 0 };
    int64_t step;
    assert_ok(et_checkpoint_load_weights(params, out, true, &facts, error));
    assert_int_equal(facts.step, 6);
    toy t = toy_new(0);
    toy_attach(&t);
    for (int i = 0; i < TOY_SIZE; i++) {
        double sum = 0;
        for (int f = 0; f < 3; f++)
            sum += (float)steps[f] + (float)i * 0.37f;
        assert_true(et_params_values(params)[i] == (float)(sum / 3));
    }
    /* It holds no state to go on from. */
    assert_fails(et_checkpoint_restore_file(t.state, out, &step, error), ET_ECONFIG,
                 "it has no optimizer/m/w");
    /* The averages, where they are. */
    bool averages = false;
    assert_ok(et_checkpoint_average(list, 3, false, out, &averages, error));
    assert_true(averages);
    assert_ok(et_checkpoint_load_weights(params, out, true, NULL, error));
    for (int i = 0; i < TOY_SIZE; i++) {
        double sum = 0;
        for (int f = 0; f < 3; f++)
            sum += 1 / (1 + ((float)steps[f] + (float)i * 0.37f));
        assert_true(et_params_values(params)[i] == (float)(sum / 3));
    }
    /* Never of both kinds: this result has none. */
    const char *mixed[] = { paths[0], out };
    const char *both = below(directory, "both.safetensors");
    assert_fails(et_checkpoint_average(mixed, 2, false, both, NULL, error), ET_ECONFIG,
                 "--live-weights");
    assert_ok(et_checkpoint_average(mixed, 2, true, both, &averages, error));
    assert_false(averages);
    list[1] = "no-such-file";
    assert_fails(et_checkpoint_average(list, 3, true, out, NULL, error), ET_ENOTFOUND,
                 "no-such-file");
    et_params_free(params);
    toy_free(&t);
}

static void test_checkpoint__average_of_other_models(void **state)
{
    const char *directory = in(state, "mixed");
    SAVE(directory, 1);
    float data[6] = { 0 };
    et_safetensors_item item = { "w", { data, ET_F32, et_shape_2(2, 3) } };
    et_arena arena = ET_ARENA_INIT;
    et_value *metadata = et_value_dict(&arena);
    et_value_set_string(metadata, ET_CHECKPOINT_KEY_STEP, "3");
    et_value_set_string(metadata, ET_CHECKPOINT_KEY_STATE, "{}");
    et_safetensors_written written;
    char other[700], out[700];
    snprintf(other, sizeof other, "%s/other.safetensors", directory);
    snprintf(out, sizeof out, "%s/out.safetensors", directory);
    assert_ok(et_safetensors_write(&written, other, &item, 1, metadata, error));
    const char *list[] = { below(directory, "checkpoints/ckpt-1.safetensors"), other };
    assert_fails(et_checkpoint_average(list, 2, true, out, NULL, error), ET_ECONFIG,
                 "w is float32 [2, 3] there");
    item.name = "x";
    assert_ok(et_safetensors_write(&written, other, &item, 1, metadata, error));
    assert_fails(et_checkpoint_average(list, 2, true, out, NULL, error), ET_ECONFIG, "it has no w");
    /* Sound safetensors, but no checkpoint. */
    assert_ok(et_safetensors_write(&written, other, &item, 1, NULL, error));
    assert_fails(et_checkpoint_average(list, 2, true, out, NULL, error), ET_EFORMAT,
                 "not a checkpoint");
    et_value_set_string(metadata, ET_CHECKPOINT_KEY_STEP, "3x");
    assert_ok(et_safetensors_write(&written, other, &item, 1, metadata, error));
    assert_fails(et_checkpoint_average(list, 2, true, out, NULL, error), ET_EFORMAT,
                 "its step is '3x'");
    et_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checkpoint__nothing_there),
        cmocka_unit_test(test_checkpoint__restores_every_byte),
        cmocka_unit_test(test_checkpoint__arrays_change_once_read),
        cmocka_unit_test(test_checkpoint__bytes_depend_on_state_only),
        cmocka_unit_test(test_checkpoint__keeps_the_newest),
        cmocka_unit_test(test_checkpoint__passing),
        cmocka_unit_test(test_checkpoint__keeps_one_each_so_many_hours),
        cmocka_unit_test(test_checkpoint__hours_that_are_none),
        cmocka_unit_test(test_checkpoint__commit_that_a_kill_prevented),
        cmocka_unit_test(test_checkpoint__one_writer),
        cmocka_unit_test(test_checkpoint__damaged_newest_falls_back),
        cmocka_unit_test(test_checkpoint__none_sound),
        cmocka_unit_test(test_checkpoint__odd_directories),
        cmocka_unit_test(test_checkpoint__other_model),
        cmocka_unit_test(test_checkpoint__best),
        cmocka_unit_test(test_checkpoint__directory_that_cannot_be),
        cmocka_unit_test_teardown(test_checkpoint__read_only_directory, become_root_again),
        cmocka_unit_test(test_checkpoint__write_error),
        cmocka_unit_test(test_checkpoint__commit_error),
        cmocka_unit_test(test_checkpoint__disk_full),
        cmocka_unit_test(test_checkpoint__load_weights),
        cmocka_unit_test(test_checkpoint__read_beside_a_save),
        cmocka_unit_test(test_checkpoint__average),
        cmocka_unit_test(test_checkpoint__average_of_other_models),
    };
    et_log_set(keep_warning, NULL);
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
