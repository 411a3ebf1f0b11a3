#include "command/options/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 300 };

static const et_program program = { .name = "etude" };

/* One option of each kind. */
typedef struct inner {
    const char *port;
} inner;

typedef struct options {
    bool flag, async;
    const char *text;
    int64_t count;
    double real, limit;
    uint64_t memory;
    et_strings list, rest;
    int form; /* its place among forms */
    const char *word;
    et_integer_list layers;
    et_option_uses pair;
    inner inside;
} options;

static const char *const forms[] = { "short", "long", NULL };

static const et_option inner_table[] = {
    ET_OPTION_TEXT(inner, port, "port", "N", "of another table"),
    ET_OPTION_END,
};

static const et_option table[] = {
    ET_OPTION_TEXT(options, text, "model-dir", "DIR", "a text",
                   .field.default_string = "untouched"),
    ET_OPTION_FLAG(options, flag, "verbose", "a flag", .letter = 'v'),
    ET_OPTION_COUNT(options, count, "batch", "N", 0, 1000, "a count", .letter = 'n',
                    .field.default_number = 7),
    ET_OPTION_REAL(options, real, "alpha", "A", 0, DBL_MAX, "a number",
                   .field.default_number = 0.5),
    ET_OPTION_LIST(options, list, "set", "KEY=VALUE", "a list", .alias = "params-override"),
    ET_OPTION_CHOICE(options, form, "form", NULL, forms, "a choice"),
    ET_OPTION_TEXT(options, word, "word", NULL, "one of them as text", .field.choices = forms),
    ET_OPTION_SWITCH(options, async, "async", "BOOL", "a switch", .field.default_number = true),
    ET_OPTION_TIME(options, limit, "limit", "TIME", "a time"),
    ET_OPTION_SIZE(options, memory, "memory", "SIZE", "a size"),
    ET_OPTION_ROW(options, layers, et_integer_list, INT, INDEXED, "layers", NULL, "units",
                  .field.minimum = 1, .field.maximum = 64, .field.default_number = 9),
    ET_OPTION_ROW(options, pair, et_option_uses, STRING, WORDS, "pair", "A B", "two words"),
    ET_OPTION_GROUP(options, inside, inner_table),
    ET_OPTION_NONE("tpu", "NAME", "there is none"),
    ET_OPTION_REFUSED("gpus", "there are none"),
    ET_OPTION_REST(options, rest, "FILE"),
    ET_OPTION_END,
};

static const et_usage usage = { table, sizeof(options), "Tests.", "a" };
static et_arena arena = ET_ARENA_INIT;

/* Of a table; *help: it was asked for. The words of the last call stay until the next. */
static int parse_with(const et_usage *with, void *o, const char *const *words, bool *help,
                      et_error *error)
{
    static char *copies[WORDS_MAX + 1];
    static et_call call;
    et_command_line line;
    int count = 0;
    for (; words[count]; count++)
        copies[count] = (char *)(uintptr_t)words[count];
    et_arena_release(&arena);
    call = (et_call){ .program = &program, .command = "test", .argc = count, .argv = copies };
    assert_int_equal(et_command_line_open(&line, with, o, &call, &arena, error), ET_OK);
    int status = et_command_line_parse(&line, error);
    *help = line.help;
    return status;
}

static int parse_words(options *o, const char *const *words, et_error *error)
{
    bool help;
    int status = parse_with(&usage, o, words, &help, error);
    assert_false(help);
    return status;
}

/* Each way to write an option gives the same. */
static void test_options__forms(void **state)
{
    (void)state;
    static const char *const lines[][12] = {
        { "--model-dir", "d", "--verbose", "--batch", "3", "--alpha", "1.5", "--set", "a=1", "f" },
        { "f", "--model_dir=d", "--verbose", "--batch=3", "--alpha=1.5", "--params_override=a=1" },
        { "--params-override", "a=1", "--alpha", "15e-1", "--model-dir=d", "--batch", "3e0",
          "--verbose", "--", "f" },
        { "--params_override=", "--set=a=1", "--params-override", "", "--alpha=1.5",
          "--model-dir=d", "--batch=3", "--verbose", "f" },
        { "--model-dir=x", "--model-dir", "d", "--verbose", "--verbose", "--batch=3", "--alpha=1.5",
          "--set", "a=1", "f" },
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        const char *words[14] = { NULL };
        memcpy(words, lines[i], sizeof lines[i]);
        options o;
        et_error error = ET_ERROR_INIT;
        if (parse_words(&o, words, &error))
            fail_msg("form %zu: %s", i, error.text);
        assert_true(o.flag);
        assert_string_equal(o.text, "d");
        assert_int_equal(o.count, 3);
        assert_true(fabs(o.real - 1.5) < 1e-12);
        assert_int_equal(o.list.count, 1);
        assert_string_equal(o.list.items[0], "a=1");
        assert_int_equal(o.rest.count, 1);
        assert_string_equal(o.rest.items[0], "f");
    }
}

/* Options that are not given keep their values. A value may contain =, begin with one - or, after
 * =, with two. After -- there are no options, and a single - is not one. */
static void test_options__edges(void **state)
{
    (void)state;
    options o;
    assert_int_equal(parse_words(&o, (const char *const[]){ NULL }, NULL), ET_OK);
    assert_string_equal(o.text, "untouched");
    assert_int_equal(o.count, 7);
    assert_true(o.real == 0.5);
    assert_int_equal(o.list.count + o.rest.count, 0);
    static const char *const words[] = {
        "--model-dir=-", "--set",  "-a==b,c", "--set=--x", "-", "--batch", "0", "--",
        "--set",         "--help", NULL
    };
    assert_int_equal(parse_words(&o, words, NULL), ET_OK);
    assert_string_equal(o.text, "-");
    assert_int_equal(o.count, 0);
    assert_int_equal(o.list.count, 2);
    assert_string_equal(o.list.items[0], "-a==b,c");
    assert_string_equal(o.list.items[1], "--x");
    assert_int_equal(o.rest.count, 3);
    assert_string_equal(o.rest.items[0], "-");
    assert_string_equal(o.rest.items[1], "--set");
    assert_string_equal(o.rest.items[2], "--help");
}

static void test_options__wrong(void **state)
{
    (void)state;
    static const struct {
        const char *words[3], *says;
    } rows[] = {
        { { "--model-dirs", "d" }, "test: no option --model-dirs. Nearest: --model-dir; `" },
        { { "--params_overide=1" }, "Nearest: --params-override" },
        { { "--hepl" }, "Nearest: --help" },
        { { "--xyzzy=1" }, "no option --xyzzy; `etude test --help`" },
        { { "--"
            "=" },
          "no option --" },
        { { "--set" }, "test: --set needs a value: KEY=VALUE" },
        { { "--set", "--verbose" }, "found --verbose; write --set=--verbose" },
        { { "--model-dir=" }, "--model-dir: the value is empty; give DIR" },
        { { "--model-dir", "" }, "--model-dir: the value is empty; give DIR" },
        { { "--verbose=1" }, "--verbose takes no value, found 1" },
        { { "--batch", "x" }, "--batch: \"x\" is not an integer" },
        { { "--batch", "" }, "--batch: the value is empty; give N" },
        { { "--batch", "1.5" }, "--batch: 1.5 is not an integer" },
        { { "--batch", "3 " }, "--batch: \"3 \" is not an integer" },
        { { "--batch", "inf" }, "\"inf\" is not an integer" },
        { { "--batch", ".nan" }, "--batch: .nan is not an integer" },
        { { "--batch", "-1" }, "--batch: -1 is out of range; allowed: 0 to 1,000" },
        { { "--batch", "1001" }, "--batch: 1001 is out of range; allowed: 0 to 1,000" },
        { { "--batch", "1e400" }, "--batch: \"1e400\" is not an integer" },
        { { "--alpha", "nan" }, "--alpha: \"nan\" is not a number" },
        { { "--alpha", ".nan" }, "--alpha: .nan is not a finite number" },
        { { "--alpha", "-0.1" }, "--alpha: -0.1 is out of range; allowed: 0 or more" },
        { { "--alpha", "0,5" }, "--alpha: \"0,5\" is not a number" },
        { { "--form", "lon" },
          "--form: no choice is called lon. Nearest: long (allowed: short, long)" },
        { { "--form" }, "test: --form needs a value: short|long" },
        { { "--word", "lon" },
          "--word: no choice is called lon. Nearest: long (allowed: short, long)" },
        { { "--word=" }, "--word: the value is empty; give short|long" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        options o;
        et_error error = ET_ERROR_INIT;
        const char *words[4] = { rows[i].words[0], rows[i].words[1], rows[i].words[2], NULL };
        assert_int_equal(parse_words(&o, words, &error), ET_EUSAGE);
        if (!strstr(error.text, rows[i].says))
            fail_msg("%s: says \"%s\", not \"%s\"", words[0], error.text, rows[i].says);
    }
}

/* The value is the list's spelling, which help and completion show. */
static void test_options__choice(void **state)
{
    (void)state;
    options o;
    static const char *const words[] = { "--form", "long", "--word=short", NULL };
    assert_int_equal(parse_words(&o, (const char *const[]){ NULL }, NULL), ET_OK);
    assert_int_equal(o.form, 0);
    assert_null(o.word);
    assert_int_equal(parse_words(&o, words, NULL), ET_OK);
    assert_int_equal(o.form, 1);
    assert_string_equal(o.word, "short");
    et_command_line line;
    const et_call call = { .program = &program, .command = "test" };
    assert_int_equal(et_command_line_open(&line, &usage, &o, &call, &arena, NULL), ET_OK);
    assert_string_equal(et_command_line_find(&line, "form", 4)->value, "short|long");
}

/* A very long wrong word is cut, not written past. */
static void test_options__long_word(void **state)
{
    (void)state;
    char word[5000];
    memset(word, 'x', sizeof word);
    memcpy(word, "--", 2);
    word[sizeof word - 1] = 0;
    options o;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(parse_words(&o, (const char *const[]){ word, NULL }, &error), ET_EUSAGE);
    assert_non_null(strstr(error.text, "no option --xxx"));
}

/* A list has room for all. */
static void test_options__many(void **state)
{
    (void)state;
    const char *words[WORDS_MAX + 1] = { NULL };
    options o;
    et_error error = ET_ERROR_INIT;
    for (int i = 0; i < WORDS_MAX; i++)
        words[i] = i % 2 ? "--set=a" : "b";
    assert_int_equal(parse_words(&o, words, &error), ET_OK);
    assert_int_equal(o.list.count, WORDS_MAX / 2);
    assert_int_equal(o.rest.count, WORDS_MAX / 2);
    assert_string_equal(o.list.items[WORDS_MAX / 2 - 1], "a");
}

static void test_options__no_rest(void **state)
{
    (void)state;
    static const et_option none[] = { ET_OPTION_END };
    static const et_usage empty = { none, 0, "", "" };
    bool help;
    char o[1];
    et_error error = ET_ERROR_INIT;
    assert_int_equal(parse_with(&empty, o, (const char *const[]){ "file", NULL }, &help, &error),
                     ET_EUSAGE);
    assert_string_equal(error.text,
                        "test takes no argument, but found file; options begin with --");
}

/* Help takes precedence over later words, not over an earlier fault. */
static void test_options__help(void **state)
{
    (void)state;
    options o;
    bool help;
    assert_int_equal(
        parse_with(&usage, &o, (const char *const[]){ "--help", "--x", NULL }, &help, NULL), ET_OK);
    assert_true(help);
    assert_int_equal(parse_with(&usage, &o, (const char *const[]){ "f", "-h", NULL }, &help, NULL),
                     ET_OK);
    assert_true(help);
    assert_int_equal(
        parse_with(&usage, &o, (const char *const[]){ "--x", "-h", NULL }, &help, NULL), ET_EUSAGE);
    static const et_option rows[] = {
        ET_OPTION_LIST(options, list, "set", "KEY=VALUE", "a list", .alias = "override"),
        ET_OPTION_TEXT(options, text, "under_scored", NULL, "a text", .group = "more"),
        ET_OPTION_REFUSED("gpus", "there are none"),
        ET_OPTION_REST(options, rest, "FILE..."),
        ET_OPTION_END,
    };
    static const et_usage short_usage = { rows, sizeof(options), "Tests.", "a" };
    const et_call call = { .program = &program, .command = "test" };
    et_command_line line;
    char *text;
    size_t length;
    FILE *to = open_memstream(&text, &length);
    assert_int_equal(et_command_line_open(&line, &short_usage, &o, &call, &arena, NULL), ET_OK);
    et_command_line_help(to, &line, &short_usage);
    fclose(to);
    assert_string_equal(text, "usage: etude test FILE... [OPTION]...\n\nTests.\n\nexample:\n"
                              "    etude test a\n\noptions:\n"
                              "    --set KEY=VALUE            a list (or --override)\n"
                              "\nmore:\n"
                              "    --under-scored text        a text\n"
                              "    --help                     this text\n");
    free(text);
}

/* On by its name, off in both spellings; a value must follow "=". */
static void test_options__switch(void **state)
{
    (void)state;
    static const struct {
        const char *words[3];
        bool after;
    } cases[] = {
        { { "--no-async", "--async" }, true },
        { { "--noasync", "--async=true" }, true },
        { { "--noasync", "--async=1" }, true },
        { { "--async=False" }, false },
        { { "--async=no" }, false },
        { { "--noasync" }, false },
        { { "--no-async" }, false },
        { { "--no_async" }, false },
        { { NULL }, true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        options o;
        assert_int_equal(parse_words(&o, cases[i].words, NULL), ET_OK);
        assert_int_equal(o.async, cases[i].after);
    }
}

/* Options of other systems: no value is accepted, any other is refused with the reason. */
static void test_options__none(void **state)
{
    (void)state;
    static const struct {
        const char *words[3];
        int status;
        const char *said;
    } cases[] = {
        { { "--tpu=" }, ET_OK, "" },
        { { "--tpu", "" }, ET_OK, "" },
        { { "--tpu", "x" }, ET_EUSAGE, "--tpu: x is not allowed here: there is none" },
        { { "--tpu=x" }, ET_EUSAGE, "--tpu: x is not allowed here: there is none" },
        { { "--tpu" }, ET_EUSAGE, "test: --tpu needs a value: NAME" },
        { { "--notpu" }, ET_EUSAGE, "test: no option --notpu; `etude test --help`" },
        { { "--async=2" }, ET_EUSAGE, "--async: 2 is not true or false" },
        { { "--no" }, ET_EUSAGE, "test: no option --no" },
        { { "--gpus" }, ET_EUSAGE, "test: no option --gpus: there are none" },
        { { "--gpus=2" }, ET_EUSAGE, "test: no option --gpus: there are none" },
        { { "--gpus", "2" }, ET_EUSAGE, "test: no option --gpus: there are none" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        options o;
        et_error error = ET_ERROR_INIT;
        assert_int_equal(parse_words(&o, cases[i].words, &error), cases[i].status);
        assert_memory_equal(error.text, cases[i].said, strlen(cases[i].said));
    }
}

static void test_options__times(void **state)
{
    options o;
    (void)state;
    static const struct {
        const char *word;
        double seconds;
    } times[] = {
        { "--limit=1h30m", 5400 },     { "--limit=90m", 5400 },
        { "--limit=2.5h", 9000 },      { "--limit=45s", 45 },
        { "--limit=1:30:00", 5400 },   { "--limit=10:00", 600 },
        { "--limit=1d2h3m4s", 93784 }, { "--limit=2-00:00:00", 172800 },
        { "--limit=1h0.5s", 3600.5 },
    };
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        const char *const one[] = { times[i].word, NULL };
        assert_int_equal(parse_words(&o, one, NULL), ET_OK);
        assert_true(o.limit == times[i].seconds);
    }
}

/* Letters, times, sizes, numbered values, words and rows of another table. */
static void test_options__forms_of_value(void **state)
{
    (void)state;
    options o;
    static const char *const words[] = { "-v",
                                         "-n",
                                         "3",
                                         "--limit",
                                         "1:30",
                                         "--memory=4GiB",
                                         "--layers:3=5",
                                         "--layers",
                                         "4",
                                         "f",
                                         "--pair",
                                         "a",
                                         "b",
                                         "--pair",
                                         "c",
                                         "d",
                                         "--port=80",
                                         "--pair=e",
                                         "g",
                                         NULL };
    et_error error = ET_ERROR_INIT;
    if (parse_words(&o, words, &error))
        fail_msg("%s", error.text);
    assert_true(o.flag && o.count == 3 && o.limit == 90 && o.memory == 4ull << 30);
    assert_int_equal(o.layers.count, 3);
    assert_int_equal(o.layers.items[0], 4);
    assert_int_equal(o.layers.items[1], 9);
    assert_int_equal(o.layers.items[2], 5);
    assert_int_equal(o.pair.times, 3);
    assert_string_equal(o.pair.given[1].items[1], "d");
    assert_int_equal(o.pair.given[2].count, 1);
    assert_string_equal(o.pair.given[2].items[0], "e");
    assert_string_equal(o.inside.port, "80");
    assert_int_equal(o.rest.count, 2);
    static const struct {
        const char *words[3], *says;
    } rows[] = {
        { { "-n" }, "test: --batch needs a value: N" },
        { { "-x" }, "test: no option -x; options are whole words" },
        { { "--limit=soon" },
          "--limit soon: not a time; write 1h30m, 90m, 2.5h, 45s or 1:30:00 (hours, minutes, "
          "seconds)" },
        { { "--limit=1h30" }, "--limit 1h30: not a time" },
        { { "--limit=30m1h" }, "--limit 30m1h: not a time" },
        { { "--limit=1h1h" }, "--limit 1h1h: not a time" },
        { { "--limit=1h-1m" }, "--limit 1h-1m: not a time" },
        { { "--limit=1h 30m" }, "--limit 1h 30m: not a time" },
        { { "--limit=90" }, "--limit 90: not a time" },
        { { "--limit=0s" }, "--limit 0s: not a time" },
        { { "--limit=nanm" }, "--limit nanm: not a time" },
        { { "--memory=0" }, "--memory 0: not a size" },
        { { "--layers:0=1" }, "--layers:0: the number after \":\" must be 1 to 1024" },
        { { "--layers:2=65" }, "--layers:2: 65 is out of range" },
        { { "--batch:2=1" }, "no option --batch" },
        { { "--pair" }, "test: --pair needs a value: A B" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        et_error wrong = ET_ERROR_INIT;
        assert_int_equal(parse_words(&o, rows[i].words, &wrong), ET_EUSAGE);
        if (!strstr(wrong.text, rows[i].says))
            fail_msg("%s: says \"%s\"", rows[i].words[0], wrong.text);
    }
}

/* A missing required option is reported after wrong words. */
static void test_options__missing(void **state)
{
    (void)state;
    static const et_option rows[] = {
        ET_OPTION_COUNT(options, count, "batch", "N", 1, 9, "a count"),
        ET_OPTION_TEXT(options, text, "model-dir", "DIR", "a run", .missing = "the run"),
        ET_OPTION_WORD(options, text, "[RUN]", "run"),
        ET_OPTION_END,
    };
    static const et_usage with = { rows, sizeof(options), "Tests.", "a" };
    static const struct {
        const char *words[3];
        int status;
        const char *said;
    } cases[] = {
        { { "--batch=2" }, ET_EUSAGE, "test: --model-dir is missing; name the run" },
        { { "--batch=0" }, ET_EUSAGE, "--batch: 0 is out of range" },
        { { "--model-dir", "a" }, ET_OK, "" },
        { { "a" }, ET_OK, "" },
        { { "--help" }, ET_OK, "" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        options o;
        bool help;
        et_error error = ET_ERROR_INIT;
        assert_int_equal(parse_with(&with, &o, cases[i].words, &help, &error), cases[i].status);
        assert_memory_equal(error.text, cases[i].said, strlen(cases[i].said));
    }
}

/* The possible last word of a line, whatever is wrong before it. */
static void test_options__position(void **state)
{
    (void)state;
    static const struct {
        const char *words[5], *slot, *text;
        int nth;
        bool more;
    } cases[] = {
        { { "--batch", "" }, "batch", "", 0, false },
        { { "--batch=1" }, "batch", "1", 0, false },
        { { "--pair", "a", "b" }, "pair", "b", 1, true },
        { { "--pair", "a", "b", "c" }, NULL, "c", 0, true },
        { { "--wrong", "--batch", "x", "--set", "t" }, "set", "t", 0, false },
        { { "--help", "-n", "4" }, "batch", "4", 0, false },
        { { "--verbose", "x" }, NULL, "x", 0, true },
        { { "--", "--batch=1" }, NULL, "--batch=1", 0, true },
        { { "--nothing=1" }, NULL, "1", 0, false },
        { { "" }, NULL, "", 0, true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        options o;
        char *words[6] = { NULL };
        int count = 0;
        for (; count < 5 && cases[i].words[count]; count++)
            words[count] = (char *)(uintptr_t)cases[i].words[count];
        const et_call call = {
            .program = &program, .command = "test", .argc = count, .argv = words
        };
        et_command_line line;
        et_option_position place;
        assert_int_equal(et_command_line_open(&line, &usage, &o, &call, &arena, NULL), ET_OK);
        et_command_line_position(&line, &place);
        assert_int_equal(place.slot != NULL, cases[i].slot != NULL);
        if (place.slot)
            assert_string_equal(place.slot->row->field.name, cases[i].slot);
        assert_string_equal(place.text, cases[i].text);
        assert_int_equal(place.nth, cases[i].nth);
        assert_int_equal(place.more, cases[i].more);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options__forms),     cmocka_unit_test(test_options__edges),
        cmocka_unit_test(test_options__wrong),     cmocka_unit_test(test_options__choice),
        cmocka_unit_test(test_options__long_word), cmocka_unit_test(test_options__many),
        cmocka_unit_test(test_options__no_rest),   cmocka_unit_test(test_options__help),
        cmocka_unit_test(test_options__switch),    cmocka_unit_test(test_options__none),
        cmocka_unit_test(test_options__times),     cmocka_unit_test(test_options__forms_of_value),
        cmocka_unit_test(test_options__position),  cmocka_unit_test(test_options__missing),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    et_arena_release(&arena);
    return failed;
}
