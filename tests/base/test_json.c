#include "base/values/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/files/file.h"
#include "base/hostile.h"
#include "base/main.h"
#include "base/malloc_fails.h"
#include "base/numbers/philox.h"
#include "base/scarce.h"
#include "base/values/value.h"
#include "skip.h"

static et_arena arena;
static et_error error;

static int leave(void **state)
{
    (void)state;
    et_arena_release(&arena);
    return 0;
}

static int parse_bytes(et_value **out, const char *text, size_t length)
{
    error = (et_error)ET_ERROR_INIT;
    return et_json_parse(out, &arena, text, length, "f.json", &error);
}

static void test_json__round_trip(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{}",
        "[]",
        "null",
        "true",
        "-7",
        "0.25",
        "\"\"",
        "9223372036854775807",
        "-9223372036854775808",
        "1.0e-08",
        "1.7976931348623157e+308",
        "{\"z\":1,\"a\":[1,2.5,\"x\",null,true,false,{}],\"m\":{\"\":[[]]}}",
        "\"quotes \\\" \\\\ lines \\n\\t \\u0001 \\u001f /\"",
        "\"\xc3\xbc \xe4\xb8\xad \xf0\x9f\x98\x80\"",
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        et_value *value = NULL;
        et_strbuf buffer = ET_STRBUF_INIT;
        assert_int_equal(parse_bytes(&value, texts[i], strlen(texts[i])), ET_OK);
        et_json_print(&buffer, value, 0);
        assert_string_equal(et_strbuf_text(&buffer), texts[i]);
        et_strbuf_release(&buffer);
    }
}

static void test_json__reads(void **state)
{
    (void)state;
    static const struct {
        const char *text, *expected;
    } rows[] = {
        { " {\n \"a\" : [ 1 , 2 ] }\n ", "{\"a\":[1,2]}" },
        { "\"\\u00fc\\ud83d\\ude00\\/\"", "\"\xc3\xbc\xf0\x9f\x98\x80/\"" },
        { "[1e3,1E-2,-0.0]", "[1000.0,0.01,-0.0]" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        et_value *value = NULL;
        et_strbuf buffer = ET_STRBUF_INIT;
        assert_int_equal(parse_bytes(&value, rows[i].text, strlen(rows[i].text)), ET_OK);
        et_json_print(&buffer, value, 0);
        assert_string_equal(et_strbuf_text(&buffer), rows[i].expected);
        et_strbuf_release(&buffer);
    }
}

static void test_json__indented(void **state)
{
    (void)state;
    et_value *value = NULL;
    static const char text[] = "{\"a\":[1,{\"b\":2}],\"c\":{},\"d\":[]}";
    assert_int_equal(parse_bytes(&value, text, strlen(text)), ET_OK);
    et_strbuf buffer = ET_STRBUF_INIT;
    et_json_print(&buffer, value, 2);
    assert_string_equal(et_strbuf_text(&buffer), "{\n"
                                                 "  \"a\": [\n"
                                                 "    1,\n"
                                                 "    {\n"
                                                 "      \"b\": 2\n"
                                                 "    }\n"
                                                 "  ],\n"
                                                 "  \"c\": {},\n"
                                                 "  \"d\": []\n"
                                                 "}");
    et_strbuf_release(&buffer);
}

/* What JSON cannot say. */
static void test_json__prints_the_unprintable(void **state)
{
    (void)state;
    et_value *list = et_value_list(&arena);
    et_value_add_float(list, NAN);
    et_value_add_float(list, -INFINITY);
    et_value_add_string(list, "a\xff\xe4\xb8");
    et_strbuf buffer = ET_STRBUF_INIT;
    et_json_print(&buffer, list, 0);
    assert_string_equal(et_strbuf_text(&buffer),
                        "[null,null,\"a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"]");
    et_strbuf_release(&buffer);
}

static void test_json__hostile(void **state)
{
    (void)state;
    static const hostile rows[] = {
        { TEXT(""), "f.json:1:0: not JSON: " },
        { TEXT("{"), "f.json:1:1: not JSON: " },
        { TEXT("{\"a\": 1,\n \"b\" 2}"), "f.json:2:6: not JSON: " },
        { TEXT("{\"a\": 1}\n{}"), "f.json:2:1: not JSON: end of file expected" },
        { TEXT("{\"a\": 1, \"a\": 2}"), "duplicate object key" },
        { TEXT("\"\xff\""), "f.json:1:1: not JSON: unable to decode byte 0xff" },
        { TEXT("\"\xc0\xaf\""), "unable to decode byte 0xc0" },
        { TEXT("\"\xed\xa0\x80\""), "unable to decode byte 0xed" },
        { TEXT("\"a\\u0000b\""), "f.json:1:10: not JSON: \\u0000 is not allowed in a text" },
        { TEXT("{\"a\\u0000b\": 1}"), "NUL byte in object key" },
        { TEXT("\"a\0b\""), "control character 0x0" },
        { TEXT("{}\0"), "f.json:1:3: not JSON: " },
        { TEXT("\"\\ud800\""), "invalid Unicode" },
        { TEXT("9223372036854775808"), "too big integer" },
        { TEXT("1e999"), "real number overflow" },
        { TEXT("01"), "not JSON" },
        { TEXT("NaN"), "not JSON: invalid token near 'NaN'; JSON has no such number: write null" },
        { TEXT("[1,]"), "not JSON" },
        { TEXT("'a'"), "not JSON" },
        { TEXT("]]]]]]]]]["), "not JSON" },
        { TEXT("\"\\"), "not JSON" },
        { TEXT("\xef\xbb\xbf{}"), "not JSON" },
    };
    assert_refused(rows, COUNT(rows), parse_bytes, &error);
}

/* As data: no number is too large, and each is kept as written. */
static void test_json__numbers_as_written(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        et_value_kind kind;
        double value;
    } rows[] = {
        { "1.10", ET_VALUE_FLOAT, 1.1 },
        { "2.0", ET_VALUE_FLOAT, 2 },
        { "-0", ET_VALUE_INT, 0 },
        { "1E+3", ET_VALUE_FLOAT, 1000 },
        { "9223372036854775807", ET_VALUE_INT, 0x1p63 },
        { "-9223372036854775808", ET_VALUE_INT, -0x1p63 },
        { "9223372036854775808", ET_VALUE_FLOAT, 0x1p63 },
        { "123456789012345678901234567890", ET_VALUE_FLOAT, 123456789012345678901234567890.0 },
        { "-1e999", ET_VALUE_FLOAT, -INFINITY },
    };
    for (size_t i = 0; i < 2 * COUNT(rows); i++) {
        const size_t row = i / 2;
        char text[200];
        et_value *value;
        /* Digits in strings and keys are not numbers. The second text has a number that is too
         * large, so everything is read again. */
        snprintf(text, sizeof text,
                 "{\"7\": [\"-8\\\\\\\"9\", %s, true, {\"a1\": 5.0}], \"b\": %s}", rows[row].text,
                 i % 2 ? "1e400" : "0");
        assert_int_equal(
            et_json_parse_written(&value, &arena, text, strlen(text), "f.json", &error), ET_OK);
        const et_value *number = et_value_path(value, "7[1]");
        assert_int_equal(number->kind, rows[row].kind);
        assert_string_equal(number->text, rows[row].text);
        assert_true((number->kind == ET_VALUE_INT ? (double)number->integer : number->real) ==
                    rows[row].value);
        assert_string_equal(et_value_path(value, "7[0]")->string, "-8\\\"9");
        assert_string_equal(et_value_path(value, "7[3].a1")->text, "5.0");
        assert_string_equal(et_value_path(value, "b")->text, i % 2 ? "1e400" : "0");
    }
}

static int parse_written(et_value **out, const char *text, size_t length)
{
    error = (et_error)ET_ERROR_INIT;
    return et_json_parse_written(out, &arena, text, length, "f.json", &error);
}

/* A number that is too large does not hide other faults. */
static void test_json__hostile_beside_large_numbers(void **state)
{
    (void)state;
    static const hostile rows[] = {
        { TEXT("[1e999, 01]"), "f.json:1:9: not JSON: " },
        { TEXT("[1e999 1e999]"), "not JSON" },
        { TEXT("[1e999, 1.]"), "not JSON" },
        { TEXT("[1e999, -]"), "not JSON" },
        { TEXT("[1e999, +1]"), "not JSON" },
        { TEXT("[1e999, .5]"), "not JSON" },
        { TEXT("[1e999, 1e]"), "not JSON" },
        { TEXT("[1e999, 1-2]"), "not JSON" },
        { TEXT("[1e999, 1.5.2]"), "not JSON" },
        { TEXT("[1e999, 12a]"), "not JSON" },
        { TEXT("[1e999, \"\xff\"]"), "unable to decode byte 0xff" },
        { TEXT("{\"a\": 1e999, \"a\": 2}"), "duplicate object key" },
        { TEXT("1e999-"), "not JSON" },
    };
    assert_refused(rows, COUNT(rows), parse_written, &error);
}

static void test_json__depth(void **state)
{
    (void)state;
    enum { DEEP = 100000 };
    char *text = malloc(DEEP);
    et_value *value = NULL;
    memset(text, '[', 64);
    memset(text + 64, ']', 64);
    assert_int_equal(parse_bytes(&value, text, 128), ET_OK);
    memset(text, '[', DEEP);
    text[5] = '\n';
    assert_int_equal(parse_bytes(&value, text, DEEP), ET_EFORMAT);
    assert_string_equal(error.text, "f.json:2:60: nested deeper than 64 levels");
    /* Brackets in strings do not count, and an escaped quote does not end a string. */
    memset(text, '[', DEEP);
    memcpy(text, "\"\\\"\\\\\\\"", 7);
    text[DEEP - 1] = '"';
    assert_int_equal(parse_bytes(&value, text, DEEP), ET_OK);
    free(text);
}

static void test_json__length(void **state)
{
    (void)state;
    et_value *value = NULL;
    assert_int_equal(parse_bytes(&value, "", SIZE_MAX), ET_EFORMAT);
    assert_contains(error.text, "more than the limit of 134217728");
}

/* Whatever bytes come, there is a tree or a message; a seeded walk over one small text. */
static void test_json__any_bytes(void **state)
{
    (void)state;
    static const char seed[] = "{\"a\": [1, -2.5e3, \"\\u00fc\", true, null], \"b\": {\"c\": []}}";
    et_random random = { 1, 0, et_random_site("bytes") };
    for (uint64_t i = 0; i < 3000; i++) {
        char text[sizeof seed];
        memcpy(text, seed, sizeof seed);
        for (uint64_t j = 0; j < 1 + i % 3; j++)
            text[et_random_below(random, 8 * i + 2 * j, sizeof seed)] =
                (char)et_random_below(random, 8 * i + 2 * j + 1, 256);
        et_value *value = NULL;
        int status = parse_bytes(&value, text, sizeof seed - 1);
        assert_true(status == (value ? ET_OK : ET_EFORMAT));
        et_value *written = NULL;
        status = parse_written(&written, text, sizeof seed - 1);
        assert_true(status == (written ? ET_OK : ET_EFORMAT));
        assert_true(written || !value);
    }
}

static void test_json__out_of_memory(void **state)
{
    (void)state;
    et_strbuf text = ET_STRBUF_INIT;
    for (int i = 0; i < 3000; i++)
        et_strbuf_printf(&text, "%s{\"name\": [%d, \"text\"]}", i ? "," : "[", i);
    et_strbuf_append(&text, "]");
    int status = ET_ENOMEM;
    for (long calls = 0; status; calls++) {
        et_value *value = NULL;
        scarce_begin(calls);
        et_arena scarce = ET_ARENA_INIT;
        status = et_json_parse(&value, &scarce, text.data, text.length, "f.json", &error);
        et_arena_release(&scarce);
        scarce_end();
        assert_int_equal(status, scarce_failed ? ET_ENOMEM : ET_OK);
    }
    et_strbuf_release(&text);
}

/* written: with a number that is too large for jansson, which is read twice. */
static void fail_each_malloc(bool written)
{
    et_strbuf text = ET_STRBUF_INIT;
    bool failed = true;
    et_strbuf_append(&text, "{");
    for (int i = 0; i < 40; i++)
        et_strbuf_printf(&text, "\"a key of some length %d\":[%d,2.5,\"text \\u00fc %d\",{}],", i,
                         i, i);
    et_strbuf_printf(&text, "\"end\":%s}", written ? "1e999" : "null");
    for (long n = 1; failed; n++) {
        et_value *value = NULL;
        malloc_fails_begin(n);
        int status = written ? parse_written(&value, text.data, text.length)
                             : parse_bytes(&value, text.data, text.length);
        failed = malloc_fails_end();
        assert_int_equal(status, failed ? ET_ENOMEM : ET_OK);
        if (failed)
            assert_contains(error.text, "out of memory");
    }
    et_strbuf_release(&text);
}

/* Failures of jansson's own memory: a valid text never becomes an invalid or a different one. */
static void test_json__out_of_memory_in_jansson(void **state)
{
    (void)state;
    if (!malloc_fails_works())
        test_skip("malloc is the sanitizer's");
    fail_each_malloc(false);
    fail_each_malloc(true);
    assert_int_equal(parse_bytes(&(et_value *){ NULL }, "{", 1), ET_EFORMAT);
}

/* Lines are values with numbers from 1. A line without its end is torn, and is not read. */
static void test_json__lines(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":1}\n[2]\nx\n{\"a\":3}";
    et_json_lines lines;
    et_value *line;
    char path[] = "test_json.XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    for (size_t length = 0; length < sizeof text; length++) {
        assert_int_equal(et_file_write(path, text, length, &error), ET_OK);
        assert_int_equal(et_json_lines_open(&lines, path, sizeof text, &error), ET_OK);
        int status = ET_OK;
        while (!status && !(status = et_json_lines_next(&lines, &line, &error)) && line)
            assert_int_equal(line->kind, lines.number == 1 ? ET_VALUE_DICT : ET_VALUE_LIST);
        assert_int_equal(status, length < 14 ? ET_OK : ET_EFORMAT);
        assert_null(line);
        assert_int_equal(lines.number, (length >= 8) + (length >= 12) + (length >= 14));
        if (!status)
            assert_int_equal(lines.end - lines.at, length - (length >= 12  ? 12
                                                             : length >= 8 ? 8
                                                                           : 0));
        et_json_lines_close(&lines);
    }
    assert_int_equal(et_json_lines_open(&lines, path, 10, &error), ET_EFORMAT);
    assert_contains(error.text, "longer than the 10 bytes");
    unlink(path);
}

/* As printed: 1 and 1.0 differ, and so do keys and their order. */
static void test_json__same(void **state)
{
    (void)state;
    static const char *const texts[] = { "{\"a\":1,\"b\":[]}",   "{\"a\":1.0,\"b\":[]}",
                                         "{\"b\":[],\"a\":1}",   "{\"a\":1,\"c\":[]}",
                                         "{\"a\":1,\"b\":null}", "{\"a\":1}" };
    et_value *value[2];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (size_t j = 0; j < sizeof texts / sizeof *texts; j++) {
            assert_int_equal(parse_bytes(&value[0], texts[i], strlen(texts[i])), ET_OK);
            assert_int_equal(parse_bytes(&value[1], texts[j], strlen(texts[j])), ET_OK);
            assert_int_equal(et_json_same(value[0], value[1]), i == j);
        }
}

#define CASE(name) cmocka_unit_test_teardown(name, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_json__round_trip),
        CASE(test_json__reads),
        CASE(test_json__indented),
        CASE(test_json__prints_the_unprintable),
        CASE(test_json__hostile),
        CASE(test_json__depth),
        CASE(test_json__numbers_as_written),
        CASE(test_json__hostile_beside_large_numbers),
        CASE(test_json__length),
        CASE(test_json__any_bytes),
        CASE(test_json__lines),
        CASE(test_json__same),
        CASE(test_json__out_of_memory),
        CASE(test_json__out_of_memory_in_jansson),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
