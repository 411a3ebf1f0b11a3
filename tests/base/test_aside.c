#include "base/files/aside.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "formats/files.h"

#include "base/files/file.h"

static void put_text(const char *path, const char *text)
{
    put_file(path, text, strlen(text));
}

static void assert_text(const char *path, const char *text)
{
    size_t length;
    char *found = get_file(path, &length);
    assert_int_equal(length, strlen(text));
    assert_memory_equal(found, text, length);
    free(found);
}

/* Second names are in their own folder: the same folder again after a kill, another for other
 * files. */
static void test_aside__link(void **state)
{
    static const char *const names[] = { "a", "b", "missing" };
    char directory[512];
    snprintf(directory, sizeof directory, "%s", in(state, "link"));
    assert_ok(et_directory_make(directory, error));
    assert_ok(et_aside_link(directory, names + 2, 1, error));
    assert_false(et_file_exists(below(directory, "earlier-1")));
    put_text(below(directory, "a"), "one");
    put_text(below(directory, "b"), "two");
    for (int i = 0; i < 2; i++)
        assert_ok(et_aside_link(directory, names, 3, error));
    assert_text(below(directory, "a"), "one");
    assert_text(below(directory, "earlier-1/b"), "two");
    assert_false(et_file_exists(below(directory, "earlier-2")));
    assert_int_equal(unlink(below(directory, "a")), 0);
    put_text(below(directory, "a"), "three");
    assert_ok(et_aside_link(directory, names, 3, error));
    assert_text(below(directory, "earlier-1/a"), "one");
    assert_text(below(directory, "earlier-2/a"), "three");
}

/* Files of the same work move to the same folder. */
static void test_aside__move(void **state)
{
    static const char *const names[] = { "a" };
    char directory[512];
    snprintf(directory, sizeof directory, "%s", in(state, "move"));
    assert_ok(et_directory_make(below(directory, "d"), error));
    put_text(below(directory, "a"), "one");
    put_text(below(directory, "d/e"), "two");
    put_text(below(directory, "earlier-x"), "another name");
    assert_ok(et_aside_move(directory, names, 1, error));
    assert_ok(et_aside_move_path(below(directory, "d"), error));
    assert_false(et_file_exists(below(directory, "a")));
    assert_false(et_file_exists(below(directory, "d")));
    assert_text(below(directory, "earlier-1/a"), "one");
    assert_text(below(directory, "earlier-1/d/e"), "two");
    put_text(below(directory, "a"), "three");
    assert_ok(et_aside_move_path(below(directory, "a"), error));
    assert_text(below(directory, "earlier-1/a"), "one");
    assert_text(below(directory, "earlier-2/a"), "three");
}

static void test_aside__cut(void **state)
{
    char directory[512];
    snprintf(directory, sizeof directory, "%s", in(state, "cut"));
    assert_ok(et_directory_make(directory, error));
    assert_ok(et_aside_truncate(below(directory, "missing"), 0, error));
    put_text(below(directory, "a"), "one two");
    assert_ok(et_aside_truncate(below(directory, "a"), 7, error));
    assert_false(et_file_exists(below(directory, "earlier-1")));
    assert_ok(et_aside_truncate(below(directory, "a"), 3, error));
    assert_text(below(directory, "a"), "one");
    assert_text(below(directory, "earlier-1/a"), "one two");
    assert_ok(et_aside_truncate(below(directory, "a"), 0, error));
    assert_false(et_file_exists(below(directory, "a")));
    assert_text(below(directory, "earlier-2/a"), "one");
}

/* A file has the folder's name. */
static void test_aside__folder_name_is_taken(void **state)
{
    char directory[512];
    snprintf(directory, sizeof directory, "%s", in(state, "taken"));
    assert_ok(et_directory_make(directory, error));
    put_text(below(directory, "a"), "one");
    put_text(below(directory, "earlier-1"), "a file");
    assert_ok(et_aside_move_path(below(directory, "a"), error));
    assert_text(below(directory, "earlier-1"), "a file");
    assert_text(below(directory, "earlier-2/a"), "one");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_aside__link),
        cmocka_unit_test(test_aside__move),
        cmocka_unit_test(test_aside__cut),
        cmocka_unit_test(test_aside__folder_name_is_taken),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
