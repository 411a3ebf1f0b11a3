/* How a growing file reaches the disk. This test receives the library's calls of fsync, counts them
 * by purpose, and passes them on. */
#include "formats/append.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <cmocka.h>

#include "formats/files.h"

static int files, directories; /* calls of fsync */
static bool directories_fail;

int fsync(int fd)
{
    struct stat info;
    assert_int_equal(fstat(fd, &info), 0);
    *(S_ISDIR(info.st_mode) ? &directories : &files) += 1;
    if (S_ISDIR(info.st_mode) && directories_fail) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}

static int all_is_whole(uint64_t *out, const char *path, et_error *error)
{
    struct stat info;
    (void)error;
    *out = stat(path, &info) ? 0 : (uint64_t)info.st_size;
    return ET_OK;
}

static void write_line(et_append *file)
{
    assert_ok(et_append_write(file, "line\n", 5, error));
}

/* The contents each time, the name in the directory once. */
static void test_append__name_is_made_durable_once(void **state)
{
    et_append file;
    const char *path = in(state, "log");
    files = directories = 0;
    assert_ok(et_append_open(&file, path, 0, all_is_whole, error));
    for (int lines = 1; lines <= 3; lines++) {
        write_line(&file);
        assert_ok(et_append_flush(&file, error));
        assert_int_equal(files, lines);
        assert_int_equal(directories, 1);
    }
    assert_ok(et_append_close(&file, error));
    assert_int_equal(directories, 1);

    /* Another process may have made it and died. */
    assert_ok(et_append_open(&file, path, 5, all_is_whole, error));
    assert_int_equal(file.offset, 5);
    assert_ok(et_append_close(&file, error));
    assert_int_equal(directories, 2);
}

static void test_append__name_is_tried_again(void **state)
{
    et_append file;
    directories = 0;
    assert_ok(et_append_open(&file, in(state, "again"), 0, all_is_whole, error));
    write_line(&file);
    directories_fail = true;
    assert_fails(et_append_flush(&file, error), ET_EIO, "directory");
    directories_fail = false;
    assert_ok(et_append_flush(&file, error));
    assert_int_equal(directories, 2);
    assert_ok(et_append_close(&file, error));
    assert_int_equal(directories, 2);
}

/* Whatever happens to the name while the file is open, writes appear under that name. */
static void test_append__follows_its_name(void **state)
{
    static const struct {
        const char *there; /* what someone else puts in the place of "line\n"; NULL: nothing */
        bool in_place;     /* into the same file */
        const char *after; /* one more line */
    } cases[] = {
        { NULL, false, "line\n" },
        { "", true, "line\n" },
        { "other\n", false, "other\nline\n" },
        { "xy", true, "xyline\n" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        et_append file;
        bool moved;
        char folder[600], path[620];
        snprintf(folder, sizeof folder, "%s-%zu", in(state, "folder"), i);
        snprintf(path, sizeof path, "%s/log", folder);
        assert_int_equal(mkdir(folder, 0777), 0);
        assert_ok(et_append_open(&file, path, 0, all_is_whole, error));
        write_line(&file);
        assert_ok(et_append_follow(&file, &moved, error));
        assert_false(moved);
        if (!cases[i].in_place)
            assert_int_equal(unlink(path), 0);
        if (cases[i].there)
            put_file(path, cases[i].there, strlen(cases[i].there));
        else
            assert_int_equal(rmdir(folder), 0);
        assert_ok(et_append_follow(&file, &moved, error));
        assert_true(moved);
        write_line(&file);
        assert_ok(et_append_follow(&file, &moved, error));
        assert_false(moved);
        assert_ok(et_append_close(&file, error));
        size_t length;
        char *text = get_file(path, &length);
        assert_int_equal(length, strlen(cases[i].after));
        assert_memory_equal(text, cases[i].after, length);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append__name_is_made_durable_once),
        cmocka_unit_test(test_append__name_is_tried_again),
        cmocka_unit_test(test_append__follows_its_name),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
