#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/stat.h>

#include "data/fixture.h"
#include "data/text/text.h"
#include "skip.h"

/* Reads all lines; writes each as "[line]" into out. Returns the status. */
static int read_all(const char *const *paths, size_t count, et_strbuf *out, et_error *error)
{
    et_strings list = { paths, count };
    et_text *text;
    et_text_line line;
    int status = et_text_open(&text, &list, error);
    if (status)
        return status;
    while (!(status = et_text_next(text, &line, error)) && line.text) {
        et_strbuf_append_char(out, '[');
        et_strbuf_append_bytes(out, line.text, line.length);
        et_strbuf_append_char(out, ']');
    }
    et_text_close(text);
    return status;
}

static void check_lines(const char *path, const char *expected)
{
    et_strbuf lines = ET_STRBUF_INIT;
    et_error error = ET_ERROR_INIT;
    if (read_all(&path, 1, &lines, &error))
        fail_msg("%s", error.text);
    assert_string_equal(et_strbuf_text(&lines), expected);
    et_strbuf_release(&lines);
}

static void check_error(const char *path, int status, const char *expected)
{
    et_strbuf lines = ET_STRBUF_INIT;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(read_all(&path, 1, &lines, &error), status);
    assert_contains(error.text, expected);
    assert_contains(error.text, path);
    et_strbuf_release(&lines);
}

static const struct {
    const char *text, *lines;
} good[] = {
    { "", "" },
    { "\n", "[]" },
    { "one", "[one]" },
    { "one\n", "[one]" },
    { "one\n\ntwo\n", "[one][][two]" },
    { "one\r\ntwo\r\n", "[one][two]" },
    { "one\r\ntwo\r", "[one][two]" },
    { "a\rb\n", "[a\rb]" },
    { "\xef\xbb\xbfone\n\xef\xbb\xbftwo\n", "[one][\xef\xbb\xbftwo]" },
    { "\xef\xbb\xbf", "" },
    { "\xef\xbb\n\xef\xbb\xbf", NULL },
    { "gr\xc3\xbc\xc3\x9f dich \xf0\x9f\x98\x80\n", "[gr\xc3\xbc\xc3\x9f dich \xf0\x9f\x98\x80]" },
    { "a\xe2\x80\xa8"
      "b\n",
      "[a\xe2\x80\xa8"
      "b]" },
};

static void test_text__lines(void **state)
{
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        const char *plain = write_text(*state, "plain", good[i].text);
        const char *packed = write_gzip(*state, "packed.gz", good[i].text);
        if (good[i].lines) {
            check_lines(plain, good[i].lines);
            check_lines(packed, good[i].lines);
        } else
            check_error(plain, ET_EDATA, ":1: byte 1 of the line (0xEF) is not UTF-8");
    }
}

static void test_text__several_files(void **state)
{
    const char *paths[] = { write_text(*state, "a", "one\ntwo"), write_text(*state, "b", ""),
                            write_gzip(*state, "c.gz", "\xef\xbb\xbfthree\n") };
    et_strings list = { paths, 3 };
    const struct {
        const char *text;
        size_t file;
        int64_t number;
    } expected[] = { { "one", 0, 1 }, { "two", 0, 2 }, { "three", 2, 1 } };
    et_text *text;
    et_text_line line;
    assert_int_equal(et_text_open(&text, &list, NULL), ET_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(et_text_next(text, &line, NULL), ET_OK);
        assert_int_equal(line.length, strlen(expected[i].text));
        assert_memory_equal(line.text, expected[i].text, line.length);
        assert_int_equal(line.file, expected[i].file);
        assert_int_equal(line.number, expected[i].number);
        assert_string_equal(line.path, paths[line.file]);
    }
    for (int again = 0; again < 2; again++) {
        assert_int_equal(et_text_next(text, &line, NULL), ET_OK);
        assert_null(line.text);
    }
    assert_int_equal(et_text_count(text), 3);
    et_text_close(text);
}

/* gzip files may be concatenated, as cat does. */
static void test_text__gzip_members(void **state)
{
    const char *first = write_gzip(*state, "1.gz", "one\ntw");
    const char *second = write_gzip(*state, "2.gz", "o\nthree\n");
    const char *both = fixture_path(*state, "both.gz");
    char command[512];
    snprintf(command, sizeof command, "cat %s %s > %s", first, second, both);
    assert_int_equal(system(command), 0);
    check_lines(both, "[one][two][three]");
}

/* A gzip file followed by other bytes. */
static const char *write_padded(fixture *f, const char *name, const char *text, const void *padding,
                                size_t length)
{
    const char *path = write_gzip(f, name, text);
    FILE *file = fopen(path, "ab");
    assert_non_null(file);
    assert_int_equal(fwrite(padding, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
    return path;
}

/* Tapes and block devices pad with zeros; another member may follow them. Any other bytes are
 * reported, with the line before them. */
static void test_text__gzip_padded(void **state)
{
    static const char zeros[200000];
    static const size_t lengths[] = { 1, 2, 17, 512, 65536, sizeof zeros };
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        check_lines(write_padded(*state, "z.gz", "one\ntwo\n", zeros, lengths[i]), "[one][two]");
    const char *second = write_gzip(*state, "2.gz", "three\n");
    const char *both = fixture_path(*state, "both.gz");
    char command[512];
    snprintf(command, sizeof command, "cat %s %s > %s", fixture_path(*state, "z.gz"), second, both);
    assert_int_equal(system(command), 0);
    check_lines(both, "[one][two][three]");
    check_error(write_padded(*state, "x.gz", "one\ntwo\n", "\0\0more", 6), ET_EFORMAT,
                "x.gz:3: the gzip data is followed by other data");
    check_error(write_padded(*state, "x.gz", "one\ntwo\n", "    ", 4), ET_EFORMAT,
                "x.gz:3: the gzip data is followed by other data");
}

/* Lines that end in a single CR. If there is an LF anywhere, a CR is text, and one at the end of
 * the last line is that line's end. */
static void test_text__cr_alone(void **state)
{
    static const char message[] = ": lines end with CR: end them with LF (tr '\\r' '\\n')";
    check_error(write_text(*state, "old", "one\rtwo\rthree\r"), ET_EDATA, message);
    check_error(write_text(*state, "old", "one\rtwo"), ET_EDATA, message);
    check_error(write_gzip(*state, "old.gz", "one\rtwo\r"), ET_EDATA, message);
    check_lines(write_text(*state, "one", "one\r"), "[one]");
    check_lines(write_text(*state, "last", "one\ntw\ro"), "[one][tw\ro]");
    et_strbuf many = ET_STRBUF_INIT;
    while (many.length <= 2 * ET_TEXT_LINE_MAX)
        et_strbuf_append(&many, "a line of an old file\r");
    check_error(write_text(*state, "old", et_strbuf_text(&many)), ET_EDATA, message);
    et_strbuf_append_char(&many, '\n');
    check_error(write_text(*state, "old", et_strbuf_text(&many)), ET_EDATA, message);
    et_strbuf_release(&many);
}

static const struct {
    const char *bytes;
    size_t length;
    const char *message;
} bad[] = {
    { "fine\nab\xff\n", 8, ":2: byte 3 of the line (0xFF) is not UTF-8" },
    { "\xc0\x80\n", 3, ":1: byte 1 of the line (0xC0)" },              /* overlong NUL */
    { "12345678\xe0\x80\x80\n", 12, ":1: byte 9 of the line (0xE0)" }, /* overlong */
    { "\xed\xa0\x80\n", 4, ":1: byte 1 of the line (0xED)" },          /* surrogate */
    { "\xf4\x90\x80\x80\n", 5, ":1: byte 1 of the line (0xF4)" },      /* past U+10FFFF */
    { "\xf5\x80\x80\x80\n", 5, ":1: byte 1 of the line (0xF5)" },
    { "x\xe2\x82", 3, ":1: byte 2 of the line (0xE2)" },      /* cut at the end of the file */
    { "x\xe2\x82\ny\n", 6, ":1: byte 2 of the line (0xE2)" }, /* and of the line */
    { "\x80\n", 2, ":1: byte 1 of the line (0x80)" },
    { "a\nb\0c\n", 6, ":2: byte 2 of the line is NUL" },
    { "o\0n\0", 4, ":1: byte 2 of the line is NUL" }, /* UTF-16 without a mark */
    { "\xff\xfeo\0n\0", 6, " is UTF-16 text: save it as UTF-8" },
    { "a\n\xff\xfeo\0", 6, ":2: byte 4 of the line is NUL" },
    { "\xfd\x37zXZ\0\n", 7, " is xz data: unpack it first (xzcat)" },
    { "\x28\xb5\x2f\xfd\x04\n", 6, " is zstd data: unpack it first (zstdcat)" },
    { "PK\3\4\x14\0", 6, " is a zip archive: unpack it first (unzip)" },
};

static void test_text__bad_bytes(void **state)
{
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        check_error(write_bytes(*state, "bad", bad[i].bytes, bad[i].length), ET_EDATA,
                    bad[i].message);
}

static void test_text__bad_files(void **state)
{
    fixture *f = *state;
    const char *pipe = fixture_path(f, "pipe");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    check_error(pipe, ET_EDATA, "is not a regular file");
    check_error(f->directory, ET_EDATA, "is a directory");
    check_error(fixture_path(f, "none"), ET_ENOTFOUND, "No such file");
    check_error("", ET_ENOTFOUND, "the path of a file is empty");
    check_error(write_text(f, "text.gz", "not gzip\n"), ET_EFORMAT, "is not gzip data");
    check_error(write_text(f, "empty.gz", ""), ET_EFORMAT, "is not gzip data");
}

/* A misspelt last file is found at once. */
static void test_text__last_file_missing(void **state)
{
    const char *paths[] = { write_text(*state, "a", "one\n"), "nowhere" };
    et_strings list = { paths, 2 };
    et_text *text;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_text_open(&text, &list, &error), ET_ENOTFOUND);
    assert_contains(error.text, "nowhere");
}

static void test_text__unreadable(void **state)
{
    const char *path = write_text(*state, "secret", "one\n");
    if (geteuid() == 0)
        test_skip("root may read everything");
    assert_int_equal(chmod(path, 0), 0);
    check_error(path, ET_EDENIED, "Permission denied");
}

/* Lines around the buffer's size and the limit. */
static void test_text__long_lines(void **state)
{
    size_t lengths[] = { 65535, 65536, 65537, 131072, ET_TEXT_LINE_MAX - 1, ET_TEXT_LINE_MAX };
    char *line = malloc(ET_TEXT_LINE_MAX + 16);
    memset(line, 'x', ET_TEXT_LINE_MAX + 16);
    et_strbuf content = ET_STRBUF_INIT;
    for (size_t i = 0; i < 6; i++) {
        et_strbuf_append_bytes(&content, line, lengths[i]);
        et_strbuf_append(&content, "\r\n");
    }
    const char *path = write_text(*state, "long", content.data);
    et_strings list = { &path, 1 };
    et_text *text;
    et_text_line got;
    assert_int_equal(et_text_open(&text, &list, NULL), ET_OK);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(et_text_next(text, &got, NULL), ET_OK);
        assert_int_equal(got.length, lengths[i]);
    }
    et_text_close(text);
    et_strbuf_reset(&content);
    et_strbuf_append(&content, "fine\n");
    et_strbuf_append_bytes(&content, line, ET_TEXT_LINE_MAX + 1);
    const char *cases[] = { "", "\n", "x\n", "xx\r\n" };
    for (size_t i = 0; i < 4; i++) {
        size_t length = content.length;
        et_strbuf_append(&content, cases[i]);
        check_error(write_text(*state, "long", content.data), ET_EDATA,
                    ":2: a line of more than 1048576 bytes: write one sentence per line");
        content.length = length;
        content.data[length] = 0;
    }
    et_strbuf_release(&content);
    free(line);
}

/* A line of 1 GB is refused after its first megabyte (the file has holes: it takes no room). */
static void test_text__line_of_a_gigabyte(void **state)
{
    const char *path = write_text(*state, "huge", "a line\nx");
    assert_int_equal(truncate(path, (off_t)1 << 30), 0);
    check_error(path, ET_EDATA,
                ":2: a line of more than 1048576 bytes: write one sentence per line");
}

static size_t read_whole(const char *path, char *bytes, size_t room)
{
    FILE *file = fopen(path, "rb");
    size_t length = fread(bytes, 1, room, file);
    fclose(file);
    return length;
}

/* However gzip is cut, it is named. */
static void test_text__gzip_cut(void **state)
{
    char bytes[512];
    const char *whole = write_gzip(*state, "whole.gz", "one line\nand another\nand a third\n");
    size_t length = read_whole(whole, bytes, sizeof bytes);
    for (size_t cut = 2; cut < length; cut++)
        check_error(write_bytes(*state, "cut.gz", bytes, cut), ET_EFORMAT,
                    "the gzip file ends in the middle of its data");
}

/* A flipped bit is found, unless it is in a part of the header that does not affect the text. */
static void test_text__gzip_flipped(void **state)
{
    char bytes[512];
    const char *whole = write_gzip(*state, "whole.gz", "one line\nand another\n");
    size_t length = read_whole(whole, bytes, sizeof bytes);
    int found = 0;
    for (size_t bit = 0; bit < 8 * length; bit++) {
        et_strbuf lines = ET_STRBUF_INIT;
        et_error error = ET_ERROR_INIT;
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        const char *path = write_bytes(*state, "flip.gz", bytes, length);
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        if (read_all(&path, 1, &lines, &error)) {
            assert_contains(error.text, path);
            found++;
        } else
            assert_string_equal(et_strbuf_text(&lines), "[one line][and another]");
        et_strbuf_release(&lines);
    }
    assert_true(found > (int)(8 * (length - 10)));
    check_error(write_text(*state, "tail.gz", "\x1f\x8bnonsense"), ET_EFORMAT,
                "the gzip data is damaged");
}

/* The line that unpacking has reached, however much was unpacked at once; for a checksum, the
 * member's last line. */
static void test_text__gzip_line(void **state)
{
    et_strbuf text = ET_STRBUF_INIT;
    for (int i = 0; i < 30000; i++)
        et_strbuf_printf(&text, "line %d of %d\n", i, i * 7919 % 30011);
    const char *path = write_gzip(*state, "long.gz", et_strbuf_text(&text));
    et_strbuf_release(&text);
    char *bytes = malloc(1 << 20);
    size_t length = read_whole(path, bytes, 1 << 20);
    bytes[length - 8] ^= 1;
    check_error(write_bytes(*state, "crc.gz", bytes, length), ET_EFORMAT,
                "crc.gz:30001: the gzip data that ends here is damaged (incorrect data check)");
    bytes[length - 8] ^= 1;
    bytes[length - 4] ^= 1;
    check_error(
        write_bytes(*state, "length.gz", bytes, length), ET_EFORMAT,
        "length.gz:30001: the gzip data that ends here is damaged (incorrect length check)");
    check_error(write_bytes(*state, "cut.gz", bytes, length - 8), ET_EFORMAT, "cut.gz:30001: ");
    check_error(write_bytes(*state, "half.gz", bytes, length / 2), ET_EFORMAT, "half.gz:1");
    free(bytes);
}

static void test_text__checksum(void **state)
{
    uint64_t first, second, length;
    const char *path = write_text(*state, "a", "one\n");
    assert_int_equal(et_text_checksum(&first, &length, path, NULL), ET_OK);
    assert_int_equal(length, 4);
    write_text(*state, "a", "onf\n");
    assert_int_equal(et_text_checksum(&second, &length, path, NULL), ET_OK);
    assert_true(first != second);
    write_text(*state, "a", "");
    assert_int_equal(et_text_checksum(&second, &length, path, NULL), ET_OK);
    assert_int_equal(length, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text__lines),
        cmocka_unit_test(test_text__several_files),
        cmocka_unit_test(test_text__gzip_members),
        cmocka_unit_test(test_text__bad_bytes),
        cmocka_unit_test(test_text__bad_files),
        cmocka_unit_test(test_text__last_file_missing),
        cmocka_unit_test(test_text__unreadable),
        cmocka_unit_test(test_text__long_lines),
        cmocka_unit_test(test_text__line_of_a_gigabyte),
        cmocka_unit_test(test_text__gzip_padded),
        cmocka_unit_test(test_text__cr_alone),
        cmocka_unit_test(test_text__gzip_line),
        cmocka_unit_test(test_text__gzip_cut),
        cmocka_unit_test(test_text__gzip_flipped),
        cmocka_unit_test(test_text__checksum),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
