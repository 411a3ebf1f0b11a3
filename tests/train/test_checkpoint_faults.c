/* Damaged and odd directories, from which intact checkpoints are restored; failed saves, which do
 * not change existing files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mount.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/files/checksum.h"
#include "base/malloc_fails.h"
#include "formats/safetensors/manifest.h"
#include "skip.h"
#include "train/checkpoint/checkpoint.h"
#include "train/saved.h"

/* Damage of the newest checkpoint, in one way after another: the message names it, and the one
 * before it is restored. */
static void test_checkpoint_faults__damaged_newest_falls_back(void **state)
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
        /* Training continues from there and replaces the damaged one. */
        SAVE(directory, 10);
        assert_int_equal(restored_step(directory), 10);
    }
}

static void test_checkpoint_faults__none_sound(void **state)
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
                 "all 2 checkpoints are damaged (the oldest:");
    assert_true(toy_is(&t, 1));
    assert_ok(et_checkpoints_close(checkpoints, error));
    directory = in(state, "single");
    SAVE(directory, 5);
    flip_bit(below(directory, "checkpoints/ckpt-5.safetensors"), 0.5);
    checkpoints = open_at(directory, &t);
    assert_fails(et_checkpoints_restore(checkpoints, &step, error), ET_EFORMAT,
                 "the only checkpoint is damaged (");
    assert_ok(et_checkpoints_close(checkpoints, error));
    toy_free(&t);
}

/* The newest entry's checksum is the file's. */
static void check_newest(const char *directory)
{
    et_manifest manifest;
    size_t length;
    assert_ok(et_manifest_read(&manifest, below(directory, "checkpoints"), error));
    const et_manifest_entry *newest = &manifest.entries[manifest.count - 1];
    char name[200];
    snprintf(name, sizeof name, "checkpoints/%s", newest->file);
    char *bytes = get_file(below(directory, name), &length);
    assert_true(newest->checksum == et_checksum(bytes, length));
    free(bytes);
    et_manifest_release(&manifest);
}

/* Lost or damaged manifest, missing newest, temporary files of the dead. */
static void test_checkpoint_faults__odd_directories(void **state)
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
    check_newest(directory);

    SAVE(directory, 20);
    assert_int_equal(unlink(below(directory, "checkpoints/ckpt-20.safetensors")), 0);
    assert_int_equal(restored_step(directory), 15);
    assert_non_null(strstr(warnings, "ckpt-20.safetensors"));
}

/* Root is not stopped by a directory's permissions, so a file is in the directory's place. */
static void test_checkpoint_faults__directory_that_cannot_be(void **state)
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

static void test_checkpoint_faults__read_only_directory(void **state)
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

/* No file may grow beyond a limit: the next call reports the thread's error, the old checkpoint is
 * intact, and saving works again once there is room. */
static void test_checkpoint_faults__write_error(void **state)
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
static void test_checkpoint_faults__commit_error(void **state)
{
    const char *directory = in(state, "commit");
    char block[700];
    toy t = toy_new(5);
    toy_attach(&t);
    et_checkpoints *checkpoints = open_at(directory, &t);
    assert_ok(et_checkpoints_save(checkpoints, 5, error));
    assert_ok(et_checkpoints_wait(checkpoints, error));
    /* A directory is in the place of the temporary file. */
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

/* Whatever is short while it is read, libraries' memory as well: the newest is no damaged one. */
static void test_checkpoint_faults__out_of_memory(void **state)
{
    const char *directory = in(state, "memory");
    bool failed = malloc_fails_works();
    if (!failed)
        test_skip("malloc is the sanitizer's");
    SAVE(directory, 5, 10);
    toy t = toy_new(1);
    toy_attach(&t);
    et_checkpoints *checkpoints = open_at(directory, &t);
    warnings[0] = '\0';
    for (long n = 1; failed; n++) {
        et_error reason = ET_ERROR_INIT;
        int64_t step = 0;
        malloc_fails_begin(n);
        int status = et_checkpoints_restore(checkpoints, &step, &reason);
        failed = malloc_fails_end();
        if (status ? status != ET_ENOMEM || !failed : step != 10)
            fail_msg("malloc %ld: status %d, step %lld: %s", n, status, (long long)step,
                     reason.text);
        if (strstr(reason.text, "damaged"))
            fail_msg("malloc %ld: %s", n, reason.text);
    }
    assert_string_equal(warnings, "");
    assert_ok(et_checkpoints_close(checkpoints, error));
    toy_free(&t);
}

/* A file system with room for one checkpoint and a half. */
static void test_checkpoint_faults__disk_full(void **state)
{
    const char *mount_point = in(state, "tiny");
    assert_int_equal(mkdir(mount_point, 0755), 0);
    if (mount("tmpfs", mount_point, "tmpfs", 0, "size=48k"))
        test_skip("cannot mount a tmpfs here (needs root)");
    toy t = toy_new(5);
    toy_attach(&t);
    et_checkpoints *checkpoints = open_at(mount_point, &t);
    assert_ok(et_checkpoints_check_space(checkpoints, error));
    assert_ok(et_checkpoints_save(checkpoints, 5, error));
    assert_ok(et_checkpoints_wait(checkpoints, error));
    assert_fails(et_checkpoints_check_space(checkpoints, error), ET_ENOSPACE,
                 "space for a checkpoint:");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checkpoint_faults__damaged_newest_falls_back),
        cmocka_unit_test(test_checkpoint_faults__none_sound),
        cmocka_unit_test(test_checkpoint_faults__odd_directories),
        cmocka_unit_test(test_checkpoint_faults__directory_that_cannot_be),
        cmocka_unit_test_teardown(test_checkpoint_faults__read_only_directory, become_root_again),
        cmocka_unit_test(test_checkpoint_faults__write_error),
        cmocka_unit_test(test_checkpoint_faults__commit_error),
        cmocka_unit_test(test_checkpoint_faults__out_of_memory),
        cmocka_unit_test(test_checkpoint_faults__disk_full),
    };
    et_log_set(keep_warning, NULL);
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
