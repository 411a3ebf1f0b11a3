#include "cli/lines.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/text.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Reads length bytes as a stream, most lines a time; all of them, joined by "|". */
static int read_all(char **joined, const char *bytes, size_t length, size_t most, et_error *error)
{
    et_lines lines = ET_LINES_INIT;
    FILE *from = length ? fmemopen((void *)(uintptr_t)bytes, length, "r") : fopen("/dev/null", "r");
    size_t first = 1, size;
    FILE *to = open_memstream(joined, &size);
    int status;
    do {
        et_lines_clear(&lines);
        status = et_lines_read(&lines, from, "stream", first, most, error);
        for (size_t i = 0; i < lines.count && !status; i++)
            fprintf(to, "%s|", lines.items[i]);
        assert_true(!most || lines.count <= most);
        first += lines.count;
    } while (!status && most && lines.count);
    fclose(to);
    fclose(from);
    et_lines_release(&lines);
    return status;
}

/* The same lines, however many at a time. */
static void test_lines__read(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *joined;
    } rows[] = {
        { "", "" },
        { "\n", "|" },
        { "a", "a|" },
        { "a\n", "a|" },
        { "a\n\nb", "a||b|" },
        { "a\r\nb\r\n", "a|b|" },
        { "a\rb\r\n\r", "a\rb||" },
        { "\xef\xbb\xbf"
          "a\n\xef\xbb\xbf"
          "b\n",
          "a|\xef\xbb\xbf"
          "b|" },
        { "\xef\xbb\xbf", "|" },
        { "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\n", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80|" },
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        for (size_t most = 0; most < 4; most++) {
            char *joined;
            assert_int_equal(read_all(&joined, rows[i].bytes, strlen(rows[i].bytes), most, NULL),
                             ET_OK);
            assert_string_equal(joined, rows[i].joined);
            free(joined);
        }
}

static void test_lines__wrong(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        const char *says;
    } rows[] = {
        { "a\nb\0c\n", 6, "stream:2: byte 2 of the line is NUL" },
        { "\0", 1, "stream:1: byte 1 of the line is NUL" },
        { "a\nb\nc \xff\n", 8, "stream:3: byte 3 of the line (0xFF) is not UTF-8" },
        { "a\n\xc3", 3, "stream:2: byte 1 of the line (0xC3) is not UTF-8" },
        { "\xef\xbb\xbf\xc0\x80\n", 6, "stream:1: byte 1 of the line (0xC0) is not UTF-8" },
        { "\xed\xa0\x80", 3, "is not UTF-8" },
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        for (size_t most = 0; most < 3; most++) {
            char *joined;
            et_error error = ET_ERROR_INIT;
            assert_int_equal(read_all(&joined, rows[i].bytes, rows[i].length, most, &error),
                             ET_EDATA);
            if (!strstr(error.text, rows[i].says))
                fail_msg("says \"%s\", not \"%s\"", error.text, rows[i].says);
            free(joined);
        }
}

/* The longest line is accepted, one byte more is not; what follows is not looked at. */
static void test_lines__long(void **state)
{
    (void)state;
    char *text = malloc(ET_TEXT_LINE_MAX + 3), *joined;
    et_error error = ET_ERROR_INIT;
    assert_non_null(text);
    memset(text, 'x', ET_TEXT_LINE_MAX + 3);
    text[ET_TEXT_LINE_MAX] = '\n';
    assert_int_equal(read_all(&joined, text, ET_TEXT_LINE_MAX + 1, 0, &error), ET_OK);
    assert_int_equal(strlen(joined), ET_TEXT_LINE_MAX + 1);
    free(joined);
    text[ET_TEXT_LINE_MAX] = 'x';
    text[ET_TEXT_LINE_MAX + 1] = '\n';
    assert_int_equal(read_all(&joined, text, ET_TEXT_LINE_MAX + 2, 0, &error), ET_EDATA);
    assert_non_null(strstr(error.text, "stream:1: a line of more than 1048576 bytes"));
    free(joined);
    free(text);
}

static void test_lines__unreadable(void **state)
{
    (void)state;
    et_lines lines = ET_LINES_INIT;
    et_error error = ET_ERROR_INIT;
    FILE *from = fopen(".", "r");
    assert_non_null(from);
    assert_int_equal(et_lines_read(&lines, from, "stream", 1, 0, &error), ET_EDENIED);
    assert_string_equal(error.text, "stream: Is a directory");
    fclose(from);
    assert_int_equal(et_lines_read_file(&lines, "none", &error), ET_ENOTFOUND);
    et_lines_release(&lines);
}

static void test_lines__read_file(void **state)
{
    (void)state;
    char path[] = "lines-XXXXXX";
    int fd = mkstemp(path);
    assert_int_equal(write(fd, "\xef\xbb\xbfone\r\n\ntwo", 12), 12);
    close(fd);
    et_lines lines = ET_LINES_INIT;
    assert_int_equal(et_lines_read_file(&lines, path, NULL), ET_OK);
    remove(path);
    assert_int_equal(lines.count, 3);
    assert_string_equal(lines.items[0], "one");
    assert_string_equal(lines.items[1], "");
    assert_string_equal(lines.items[2], "two");
    et_lines_release(&lines);
}

static void test_lines__check_pairs(void **state)
{
    (void)state;
    et_lines none = ET_LINES_INIT, some = ET_LINES_INIT;
    et_error error = ET_ERROR_INIT;
    some.count = 33214;
    assert_int_equal(et_lines_check_pairs(&some, "a", &some, "b", &error), ET_OK);
    assert_int_equal(et_lines_check_pairs(&some, "a", &none, "b", &error), ET_EDATA);
    assert_string_equal(error.text, "a has 33,214 lines, b has 0: line N of one must translate "
                                    "line N of the other");
    assert_int_equal(et_lines_check_pairs(&none, "a", &none, "b", &error), ET_EDATA);
    assert_string_equal(error.text, "a: there is no line in it: nothing to score");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines__read),      cmocka_unit_test(test_lines__wrong),
        cmocka_unit_test(test_lines__long),      cmocka_unit_test(test_lines__unreadable),
        cmocka_unit_test(test_lines__read_file), cmocka_unit_test(test_lines__check_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
