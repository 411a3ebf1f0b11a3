#include "command/translation/lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data/text/text.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A file without a name that holds the bytes, to be read from its start. */
static int file_of(const char *bytes, size_t length)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    int fd = dup(fileno(file));
    fclose(file);
    assert_int_equal(write(fd, bytes, length), length);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

/* Reads length bytes, most lines a time; all of them, joined by "|". */
static int read_all(char **joined, const char *bytes, size_t length, size_t most, et_error *error)
{
    et_lines lines = ET_LINES_INIT;
    et_line_reader reader;
    int fd = file_of(bytes, length), status;
    size_t size;
    FILE *to = open_memstream(joined, &size);
    assert_int_equal(et_line_reader_open(&reader, fd, "stream", error), ET_OK);
    do {
        et_lines_clear(&lines);
        status = et_line_reader_read(&reader, &lines, most, error);
        for (size_t i = 0; i < lines.count && !status; i++)
            fprintf(to, "%s|", lines.items[i]);
        assert_true(!most || lines.count <= most);
    } while (!status && most && lines.count);
    fclose(to);
    close(fd);
    et_line_reader_close(&reader);
    et_lines_release(&lines);
    return status;
}

/* The same lines, however many are read at a time. */
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
        { "a dog\ra cat\r", 12, "stream: lines end with CR: end them with LF (tr '\\r' '\\n')" },
        { "a\rb", 3, "stream: lines end with CR: end them with LF (tr '\\r' '\\n')" },
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

/* The longest line is accepted, one byte more is not; later lines are not read. */
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

/* Reads once from a pipe that part was written to; what came, joined by "|". */
static void read_part(et_line_reader *reader, int to, const char *part, const char *joined)
{
    et_lines lines = ET_LINES_INIT;
    char text[200] = "";
    et_error error = ET_ERROR_INIT;
    assert_int_equal(write(to, part, strlen(part)), strlen(part));
    assert_int_equal(et_line_reader_read(reader, &lines, 100, &error), ET_OK);
    for (size_t i = 0; i < lines.count; i++)
        strcat(strcat(text, lines.items[i]), "|");
    assert_string_equal(text, joined);
    et_lines_release(&lines);
}

/* Available lines are returned while the other end is still open: a call that waited would end by
 * the alarm. */
static void test_lines__as_they_come(void **state)
{
    (void)state;
    int ends[2];
    et_line_reader reader;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(et_line_reader_open(&reader, ends[0], "pipe", NULL), ET_OK);
    alarm(240);
    read_part(&reader, ends[1], "one\n", "one|");
    read_part(&reader, ends[1], "two\nthree\nfo", "two|three|");
    read_part(&reader, ends[1], "ur\n\n", "four||");
    assert_int_equal(reader.number, 6);
    /* A descriptor that another program made not blocking. */
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    pid_t child = fork();
    if (!child) {
        usleep(20000);
        _exit(write(ends[1], "late\n", 5) != 5);
    }
    read_part(&reader, ends[1], "", "late|");
    assert_int_equal(waitpid(child, NULL, 0), child);
    /* The last line without its end, then the end again and again. */
    assert_int_equal(write(ends[1], "six", 3), 3);
    close(ends[1]);
    read_part(&reader, STDOUT_FILENO, "", "six|");
    read_part(&reader, STDOUT_FILENO, "", "");
    read_part(&reader, STDOUT_FILENO, "", "");
    alarm(0);
    et_line_reader_close(&reader);
    close(ends[0]);
}

/* The lines before a bad one are given out, and the next call names it, whatever follows. */
static void test_lines__before_a_bad_one(void **state)
{
    (void)state;
    et_line_reader reader;
    int fd = file_of("one\ntwo\nc \xff\nfour\n", 17);
    assert_int_equal(et_line_reader_open(&reader, fd, "stream", NULL), ET_OK);
    read_part(&reader, STDOUT_FILENO, "", "one|two|");
    for (int again = 0; again < 2; again++) {
        et_lines lines = ET_LINES_INIT;
        et_error error = ET_ERROR_INIT;
        assert_int_equal(et_line_reader_read(&reader, &lines, 100, &error), ET_EDATA);
        assert_non_null(strstr(error.text, "stream:3: byte 3 of the line (0xFF) is not UTF-8"));
        assert_int_equal(lines.count, 0);
        et_lines_release(&lines);
    }
    et_line_reader_close(&reader);
    close(fd);
}

/* Batches are full while input is there: in a file, and in a pipe that holds it all. */
static void test_lines__full_batches(void **state)
{
    (void)state;
    enum { MANY = 40000, BATCH = 2048, BYTES = MANY * 10 };
    static char text[BYTES + 1];
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    for (size_t i = 0; i < MANY; i++)
        sprintf(text + 10 * i, "%09zu\n", i);
    bool large = fcntl(ends[1], F_SETPIPE_SZ, 1 << 20) >= BYTES;
    if (large)
        assert_int_equal(write(ends[1], text, BYTES), BYTES);
    const int from[] = { file_of(text, BYTES), ends[0] };
    for (int k = 0; k < 1 + large; k++) {
        et_lines lines = ET_LINES_INIT;
        et_line_reader reader;
        assert_int_equal(et_line_reader_open(&reader, from[k], "stream", NULL), ET_OK);
        for (size_t left = MANY; left > 0; left -= lines.count) {
            et_lines_clear(&lines);
            assert_int_equal(et_line_reader_read(&reader, &lines, BATCH, NULL), ET_OK);
            assert_int_equal(lines.count, left < BATCH ? left : BATCH);
            assert_int_equal(atoi(lines.items[0]), MANY - left);
        }
        et_line_reader_close(&reader);
        et_lines_release(&lines);
        close(from[k]);
    }
    close(ends[1]);
}

static void test_lines__unreadable(void **state)
{
    (void)state;
    et_lines lines = ET_LINES_INIT;
    et_line_reader reader;
    et_error error = ET_ERROR_INIT;
    int fd = open(".", O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(et_line_reader_open(&reader, fd, "stream", &error), ET_OK);
    assert_int_equal(et_line_reader_read(&reader, &lines, 0, &error), ET_EDENIED);
    assert_string_equal(error.text, "stream: Is a directory");
    et_line_reader_close(&reader);
    close(fd);
    assert_int_equal(et_lines_read_file(&lines, "none", NULL, &error), ET_ENOTFOUND);
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
    assert_int_equal(et_lines_read_file(&lines, path, NULL, NULL), ET_OK);
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
    assert_string_equal(
        error.text,
        "a has 33,214 lines, but b has 0: line N of one file must translate line N of the other");
    assert_int_equal(et_lines_check_pairs(&none, "a", &none, "b", &error), ET_EDATA);
    assert_string_equal(error.text, "a: the file is empty: nothing to score");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines__read),
        cmocka_unit_test(test_lines__wrong),
        cmocka_unit_test(test_lines__long),
        cmocka_unit_test(test_lines__as_they_come),
        cmocka_unit_test(test_lines__before_a_bad_one),
        cmocka_unit_test(test_lines__full_batches),
        cmocka_unit_test(test_lines__unreadable),
        cmocka_unit_test(test_lines__read_file),
        cmocka_unit_test(test_lines__check_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
