#include "base/values/yaml.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/hostile.h"
#include "base/main.h"
#include "base/malloc_fails.h"
#include "base/numbers/philox.h"
#include "base/scarce.h"
#include "base/values/json.h"
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
    return et_yaml_parse(out, &arena, text, length, "f.yaml", &error);
}

/* A tree in one of both languages, in the arena. */
static const char *as_json(const et_value *value)
{
    et_strbuf buffer = ET_STRBUF_INIT;
    et_json_print(&buffer, value, 0);
    const char *text = et_arena_strdup(&arena, et_strbuf_text(&buffer));
    et_strbuf_release(&buffer);
    return text;
}

static const char *as_yaml(const et_value *value)
{
    et_strbuf buffer = ET_STRBUF_INIT;
    et_yaml_print(&buffer, value);
    const char *text = et_arena_strdup(&arena, et_strbuf_text(&buffer));
    et_strbuf_release(&buffer);
    return text;
}

static void assert_reads(const char *text, const char *json)
{
    et_value *value = NULL;
    if (parse_bytes(&value, text, strlen(text)))
        fail_msg("%s", error.text);
    assert_string_equal(as_json(value), json);
}

static void test_yaml__reads(void **state)
{
    (void)state;
    static const struct {
        const char *text, *json;
    } rows[] = {
        { "", "{}" },
        { "# nothing\n", "{}" },
        { "---\n", "{}" },
        { "a: 1\nb:\n  c: x\n", "{\"a\":1,\"b\":{\"c\":\"x\"}}" },
        { "a: [1, {b: 2}]\r\nc: {}\r\n", "{\"a\":[1,{\"b\":2}],\"c\":{}}" },
        { "- 1\n-\n- x # y\n", "[1,null,\"x\"]" },
        { "a: |\n  two\n  lines\n", "{\"a\":\"two\\nlines\\n\"}" },
        { "\xef\xbb\xbf"
          "a: \xc3\xbc",
          "{\"a\":\"\xc3\xbc\"}" },
        { "\xef\xbb\xbf"
          "a: 1\nb: 2\n",
          "{\"a\":1,\"b\":2}" },
        { "a: \"\\xfc\\u00fc\"", "{\"a\":\"\xc3\xbc\xc3\xbc\"}" },
        { "1: a\ntrue: b", "{\"1\":\"a\",\"true\":\"b\"}" },
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_reads(rows[i].text, rows[i].json);
}

/* The core schema (YAML 1.2.2, section 10.3.2). */
static void test_yaml__scalars(void **state)
{
    (void)state;
    static const struct {
        const char *text, *json;
    } rows[] = {
        { "~", "null" },          { "Null", "null" },
        { "nULL", "\"nULL\"" },   { "true", "true" },
        { "FALSE", "false" },     { "yes", "\"yes\"" },
        { "on", "\"on\"" },       { "0", "0" },
        { "-12", "-12" },         { "+7", "7" },
        { "007", "7" },           { "0o17", "15" },
        { "0x1F", "31" },         { "0o8", "\"0o8\"" },
        { "0x", "\"0x\"" },       { "-0x1", "\"-0x1\"" },
        { "1e3", "1000.0" },      { "1E-2", "0.01" },
        { ".5", "0.5" },          { "5.", "5.0" },
        { ".", "\".\"" },         { "1e", "\"1e\"" },
        { "1e+", "\"1e+\"" },     { "-1.5", "-1.5" },
        { "1.2.3", "\"1.2.3\"" }, { "-", "\"-\"" },
        { "e3", "\"e3\"" },       { "9223372036854775807", "9223372036854775807" },
        { "'1'", "\"1\"" },       { "\"~\"", "\"~\"" },
        { "1_000", "\"1_000\"" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[64], json[64];
        snprintf(text, sizeof text, "a: [%s]", rows[i].text);
        snprintf(json, sizeof json, "{\"a\":[%s]}", rows[i].json);
        if (strcmp(rows[i].text, "-") != 0) /* has its own meaning there */
            assert_reads(text, json);
        et_value *value = NULL;
        assert_int_equal(et_yaml_parse_value(&value, &arena, rows[i].text, "x", NULL), ET_OK);
        assert_string_equal(as_json(value), rows[i].json);
    }
    et_value *value = NULL;
    assert_int_equal(parse_bytes(&value, "[.inf, -.Inf, .NaN]", 19), ET_OK);
    assert_true(isinf(value->first->real) && value->first->next->real < 0);
    assert_true(isnan(value->last->real));
    assert_string_equal(value->last->text, ".NaN");
}

static void test_yaml__lines(void **state)
{
    (void)state;
    static const char text[] = "a: 1\n\nb:\n  c: 2\n";
    et_value *value = NULL;
    assert_int_equal(parse_bytes(&value, text, strlen(text)), ET_OK);
    assert_int_equal(et_value_path(value, "a")->line, 1);
    assert_int_equal(et_value_path(value, "b.c")->line, 4);
}

static void test_yaml__hostile(void **state)
{
    (void)state;
    static const hostile rows[] = {
        { TEXT("a: 1\nb: 2\na: 3"), "f.yaml:3: a is set here and in line 1; keep one of them" },
        { TEXT("a: {b: 1, b: 2}"), "f.yaml:1: b is set here and in line 1" },
        { TEXT("a: &x 1"), "f.yaml:1: the anchor &x is not allowed here" },
        { TEXT("a: &x [1]\nb: *x"), "f.yaml:1: the anchor &x" },
        { TEXT("&k a: 1"), "the anchor &k" },
        { TEXT("\nb: *x"), "f.yaml:2: the alias *x is not allowed here; write its value out" },
        { TEXT("a: !!python/object:os.system {}"), "the tag tag:yaml.org,2002:python/object" },
        { TEXT("a: !x 1"), "the tag !x is not allowed here; leave it out" },
        { TEXT("? [a]\n: 1"), "a list or group cannot be a name" },
        { TEXT("a: 1\n---\nb: 2"), "f.yaml:2: a second document starts here" },
        { TEXT("a: \xff"), "f.yaml:1: invalid leading UTF-8 octet" },
        { TEXT("a: 1\nb: \xc3("), "f.yaml:2: " },
        { TEXT("a: \xed\xa0\x80"), "save the file as UTF-8 text" },
        { TEXT("a: b\0c"), "f.yaml:1: control characters are not allowed" },
        { TEXT("a: \"b\\0c\""), "f.yaml:1: a NUL character is not allowed in text; remove it" },
        { TEXT("\"b\\0c\": 1"), "a NUL character is not allowed" },
        { TEXT("a:\n\tb: 1"), "f.yaml:2:1: not YAML: " },
        { TEXT("a:\n\tb: 1"), "; indent with spaces, not tabs" },
        { TEXT("a: b: c"), "f.yaml:1:5: not YAML: " },
        { TEXT("a: [1"), "not YAML: did not find expected ',' or ']'" },
        { TEXT("a: 'x"), "not YAML: found unexpected end of stream" },
        { TEXT("a: }"), "not YAML" },
        { TEXT("a: 9223372036854775808"), "9223372036854775808 does not fit in 64 bits" },
        { TEXT("a: 1e999"), "1e999 does not fit in 64 bits; quote it if it is text" },
        { TEXT("\xff\xfe"
               "a\0:\0 \0001\0"),
          "save the file as UTF-8 text" },
    };
    assert_refused(rows, COUNT(rows), parse_bytes, &error);
}

/* Nine lists of nine aliases to the list before: 9^9 values, if a reader expanded it. */
static void test_yaml__alias_bomb(void **state)
{
    (void)state;
    et_strbuf text = ET_STRBUF_INIT;
    et_strbuf_append(&text, "a0: &a0 [x, x]\n");
    for (int i = 1; i < 10; i++) {
        et_strbuf_printf(&text, "a%d: &a%d [", i, i);
        for (int j = 0; j < 9; j++)
            et_strbuf_printf(&text, "*a%d%s", i - 1, j < 8 ? ", " : "]\n");
    }
    et_value *value = NULL;
    assert_int_equal(parse_bytes(&value, text.data, text.length), ET_EFORMAT);
    assert_contains(error.text, "f.yaml:1: the anchor &a0 is not allowed here");
    assert_true(arena.used < 10000);
    et_strbuf_release(&text);
}

static void test_yaml__depth(void **state)
{
    (void)state;
    enum { DEEP = 50000 };
    static char text[DEEP];
    et_value *value = NULL;
    memset(text, '[', 64);
    memset(text + 64, ']', 64);
    assert_int_equal(parse_bytes(&value, text, 128), ET_OK);
    memset(text, '[', DEEP);
    assert_int_equal(parse_bytes(&value, text, DEEP), ET_EFORMAT);
    assert_string_equal(error.text, "f.yaml:1: nested deeper than 64 levels");
    for (int i = 0; i < DEEP; i++)
        text[i] = "- "[i % 2];
    assert_int_equal(parse_bytes(&value, text, DEEP), ET_EFORMAT);
    assert_contains(error.text, "nested deeper than 64 levels");
}

static void test_yaml__size(void **state)
{
    (void)state;
    enum { MANY = 2000000 };
    et_strbuf text = ET_STRBUF_INIT;
    for (int i = 0; i < MANY; i++)
        et_strbuf_append(&text, "-\n");
    et_value *value = NULL;
    assert_int_equal(parse_bytes(&value, text.data, text.length), ET_EFORMAT);
    assert_string_equal(error.text, "f.yaml:2000000: more than 2000000 values in one file");
    assert_int_equal(parse_bytes(&value, text.data, SIZE_MAX), ET_EFORMAT);
    assert_contains(error.text, "bytes of YAML, more than the limit of 16777216");
    et_strbuf_release(&text);
}

/* Every kind, and every text that could be taken for another: parsing gives the tree back, and
 * printing that gives the same text again. */
static void test_yaml__round_trip(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        " ",
        "a",
        "a b",
        " a",
        "a ",
        "null",
        "~",
        "true",
        "no",
        "Off",
        "y",
        "1",
        "-1",
        "1e3",
        ".5",
        ".inf",
        ".nan",
        "0x1f",
        "1_000",
        "a: b",
        "a #b",
        "#",
        "- a",
        "-",
        "?",
        "*a",
        "&a",
        "!a",
        "|",
        ">",
        "%a",
        "@a",
        "`a",
        "'",
        "\"",
        "\\",
        "{",
        "}",
        "[",
        ",",
        "a,b",
        "a\nb",
        "\t",
        "\r",
        "\x01\x1b\x7f",
        "\xc2\x85\xe2\x80\xa8\xe2\x80\xa9\xef\xbb\xbf",
        "\xc3\xbc",
        "\xef\xbf\xbe",
        "\xc2\x80\xc2\x9f\xc2\xa0",
        "\xf0\x9f\x98\x80",
        "/usr/share",
        "./a",
        "../a",
        "...",
        "---",
        "--- a",
        "a=b",
        "help.en-de",
        "=",
        "<<",
        "a:",
        "2026-01-01",
        "12:30",
        "0o17",
        "1.0.0",
        "a%b",
        "a@b",
        "trailing.",
        "C:\\temp",
    };
    et_value *root = et_value_dict(&arena);
    et_value *list = et_value_set_list(root, "texts"), *keys = et_value_set_dict(root, "keys");
    for (size_t i = 0; i < COUNT(texts); i++) {
        et_value_add_string(list, texts[i]);
        et_value_set_string(keys, texts[i], texts[i]);
    }
    et_value *numbers = et_value_set_list(root, "numbers");
    static const double reals[] = { 0, -0.0, 1e-8, 1e22, 0.1, 1e300 };
    for (size_t i = 0; i < COUNT(reals); i++)
        et_value_add_float(numbers, reals[i]);
    et_value_add_int(numbers, INT64_MIN);
    et_value *truth = et_value_new(&arena, ET_VALUE_BOOL);
    truth->boolean = true;
    et_value_append(numbers, NULL, truth);
    et_value *nested = et_value_set_list(root, "nested");
    et_value_set_list(et_value_set_dict(et_value_add_dict(nested), "a"), "b");
    et_value_add_int(et_value_add_list(et_value_add_list(nested)), 1);
    et_value_add_dict(nested);
    et_value_set_null(et_value_add_dict(nested), "c");

    const char *text = as_yaml(root);
    et_value *back = NULL;
    if (parse_bytes(&back, text, strlen(text)))
        fail_msg("%s\n%s", error.text, text);
    assert_string_equal(as_json(back), as_json(root));
    assert_string_equal(as_yaml(back), text);
}

static void test_yaml__prints(void **state)
{
    (void)state;
    static const char text[] = "task:\n"
                               "  model:\n"
                               "    num_layers: 4\n"
                               "    rate: 0.1\n"
                               "  paths: [a.en, \"a b: c\", \"1\"]\n"
                               "  empty: {}\n"
                               "  none: []\n"
                               "steps:\n"
                               "  - name: first\n"
                               "    at: [1, 2]\n"
                               "  - - 1\n"
                               "    - {}\n"
                               "last: null\n";
    et_value *value = NULL;
    assert_int_equal(parse_bytes(&value, text, strlen(text)), ET_OK);
    assert_string_equal(as_yaml(value), text);
    assert_string_equal(as_yaml(et_value_dict(&arena)), "{}\n");
    et_value *bad = et_value_list(&arena);
    et_value_add_string(bad, "a\xff");
    et_value_add_float(bad, NAN);
    et_value_add_float(bad, -INFINITY);
    assert_string_equal(as_yaml(bad), "[\"a\xef\xbf\xbd\", .nan, -.inf]\n");
}

/* A text has quotes if some reader would take it for another kind, and only then. */
static void test_yaml__quotes(void **state)
{
    (void)state;
    static const char *const quoted[] = {
        "",      "~",     "null", "Null", "NULL",       "true",  "True", "FALSE", "on",  "On",
        "OFF",   "yes",   "No",   "y",    "N",          "1",     "-1",   "+1",    "007", "0o17",
        "0O17",  "0x1f",  "0X1F", "0b1",  "0B1",        "1_000", "1e3",  "1E+3",  ".5",  "5.",
        "1e999", "12:30", ".inf", ".NaN", "2026-01-01", "a: b",  "a #b", " a",    "a ",  "*",
    };
    static const char *const plain[] = {
        "a", "a b", "one", "onward", "e3", "nan", "nULL", "runs/a.b", "../a", "12 rows", "a=1e3",
    };
    char wanted[64];
    for (size_t i = 0; i < COUNT(quoted) + COUNT(plain); i++) {
        const bool quotes = i < COUNT(quoted);
        const char *text = quotes ? quoted[i] : plain[i - COUNT(quoted)];
        snprintf(wanted, sizeof wanted, quotes ? "%s: \"%s\"\n" : "%s: %s\n", "a", text);
        et_value *root = et_value_dict(&arena);
        et_value_set_string(root, "a", text);
        assert_string_equal(as_yaml(root), wanted);
    }
}

/* Words of a command line: what YAML would take for structure is text there. */
static void test_yaml__command_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *json; /* json NULL: an error */
    } rows[] = {
        { "", "null" },
        { " 4 ", "4" },
        { "help.en", "\"help.en\"" },
        { "a: b # c", "\"a: b # c\"" },
        { "*.txt", "\"*.txt\"" },
        { "- a", "\"- a\"" },
        { "[a.en, 'b']", "[\"a.en\",\"b\"]" },
        { "{a: 1, b: [2]}", "{\"a\":1,\"b\":[2]}" },
        { "\"1\"", "\"1\"" },
        { "'x' y", NULL },
        { "[a", NULL },
        { "[*a]", NULL },
        { "{a: 1, a: 2}", NULL },
        { "a\xff", NULL },
        { "99999999999999999999", NULL },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        et_value *value = NULL;
        int status = et_yaml_parse_value(&value, &arena, rows[i].text, "--set a", &error);
        assert_int_equal(status, rows[i].json ? ET_OK : ET_ECONFIG);
        if (rows[i].json)
            assert_string_equal(as_json(value), rows[i].json);
        else
            assert_memory_equal(error.text, "--set a:", 8);
    }
}

/* Whatever bytes come, there is a tree or a message; a seeded walk over one small text. */
static void test_yaml__any_bytes(void **state)
{
    (void)state;
    static const char seed[] =
        "a: [1, -2.5e3, \"\\u00fc\", true]\nb:\n  - c: {d: 'e'}\n  - |\n   f\n";
    static const char swaps[] = "[]{}:-,#&*!|>'\"%@`? \n\t\\";
    et_random random = { 1, 0, et_random_site("bytes") };
    for (uint64_t i = 0; i < 3000; i++) {
        char text[sizeof seed];
        memcpy(text, seed, sizeof seed);
        for (uint64_t j = 0; j < 1 + i % 4; j++) {
            uint64_t pick = et_random_below(random, 8 * i + 2 * j + 1, 256 + 4 * sizeof swaps);
            text[et_random_below(random, 8 * i + 2 * j, sizeof seed)] =
                (char)(pick < 256 ? pick : (unsigned char)swaps[pick % sizeof swaps]);
        }
        et_value *value = NULL;
        int status = parse_bytes(&value, text, sizeof seed - 1);
        assert_true(status == (value ? ET_OK : ET_EFORMAT));
        if (!value)
            continue;
        const char *printed = as_yaml(value);
        et_value *back = NULL;
        assert_int_equal(parse_bytes(&back, printed, strlen(printed)), ET_OK);
        assert_string_equal(as_json(back), as_json(value));
    }
}

static void test_yaml__out_of_memory(void **state)
{
    (void)state;
    et_strbuf text = ET_STRBUF_INIT;
    for (int i = 0; i < 2000; i++)
        et_strbuf_printf(&text, "name%d: {a: [%d, text], b: {c: d}}\n", i, i);
    int status = ET_ENOMEM;
    long calls = 0;
    while (status) {
        et_value *value = NULL;
        scarce_begin(calls++);
        et_arena scarce = ET_ARENA_INIT;
        status = et_yaml_parse(&value, &scarce, text.data, text.length, "f.yaml", &error);
        et_arena_release(&scarce);
        scarce_end();
        assert_int_equal(status, scarce_failed ? ET_ENOMEM : ET_OK);
        if (calls > 60 && status) /* the rest are maps of single dicts: every 97th is enough */
            calls += 97;
    }
    assert_true(calls > 60);
    et_strbuf_release(&text);
}

/* libyaml's own memory. */
static void test_yaml__out_of_memory_in_libyaml(void **state)
{
    (void)state;
    static const char text[] = "%YAML 1.1\n--- # a comment\n"
                               "first: [1, 'two', \"thr\\xe9e\"]\nsecond:\n  a: {}\n"
                               "  b: |\n    a block\n    of lines\nthird: 5\n"
                               "? a key\n: >\n  folded\n  text\n";
    bool failed = malloc_fails_works();
    if (!failed)
        test_skip("malloc is the sanitizer's");
    for (long n = 1; failed; n++) {
        et_value *value;
        malloc_fails_begin(n);
        int status = parse_bytes(&value, text, sizeof text - 1);
        failed = malloc_fails_end();
        if (status != (failed ? ET_ENOMEM : ET_OK))
            fail_msg("malloc %ld: status %d: %s", n, status, error.text);
    }
}

#define CASE(name) cmocka_unit_test_teardown(name, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_yaml__reads),         CASE(test_yaml__scalars),
        CASE(test_yaml__lines),         CASE(test_yaml__hostile),
        CASE(test_yaml__alias_bomb),    CASE(test_yaml__depth),
        CASE(test_yaml__size),          CASE(test_yaml__round_trip),
        CASE(test_yaml__prints),        CASE(test_yaml__quotes),
        CASE(test_yaml__command_line),  CASE(test_yaml__any_bytes),
        CASE(test_yaml__out_of_memory), CASE(test_yaml__out_of_memory_in_libyaml),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
