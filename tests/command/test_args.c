#include "command/options/args.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 300 };

static const et_program program = { "etude", NULL, 0, NULL };

/* One option of each kind. */
typedef struct options {
    bool flag, help;
    const char *text;
    int64_t count;
    double real;
    et_arg_list list, rest;
    int form; /* its place among forms */
    const char *word;
} options;

static const char *const forms[] = { "short", "long", NULL };

static int parse_words(options *o, const char *const *words, et_error *error)
{
    *o = (options){ .text = "untouched", .count = 7, .real = 0.5 };
    const et_arg table[] = {
        ET_ARG_TEXT("model-dir", "DIR", &o->text, "a text"),
        ET_ARG_FLAG("verbose", &o->flag, "a flag"),
        ET_ARG_COUNT("batch", "N", &o->count, 0, 1000, "a count"),
        ET_ARG_REAL("alpha", "A", &o->real, 0, DBL_MAX, "a number"),
        ET_ARG_LIST("set", "KEY=VALUE", &o->list, "a list", .alias = "params-override"),
        ET_ARG_CHOICE("form", NULL, &o->form, forms, "a choice"),
        ET_ARG_TEXT("word", NULL, &o->word, "one of them as text", .field.choices = forms),
        ET_ARG_REST("FILE", &o->rest),
        ET_ARG_END
    };
    char *copies[WORDS_MAX + 1];
    int count = 0;
    for (; words[count]; count++)
        copies[count] = (char *)(uintptr_t)words[count];
    const et_call call = { &program, "test", count, copies, NULL };
    return et_args_parse(table, &call, &o->help, error);
}

/* Each way to write an option gives the same. */
static void test_args__forms(void **state)
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
        assert_false(o.help);
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

/* What is not named stays; a value may hold =, begin with one - or, after =, with two;
 * after -- and as - alone there are no options. */
static void test_args__edges(void **state)
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
    assert_false(o.help);
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

static void test_args__wrong(void **state)
{
    (void)state;
    static const struct {
        const char *words[3], *says;
    } rows[] = {
        { { "--model-dirs", "d" }, "test: no option --model-dirs. Nearest: --model-dir;" },
        { { "--params_overide=1" }, "Nearest: --params-override" },
        { { "--hepl" }, "Nearest: --help" },
        { { "--xyzzy=1" }, "no option --xyzzy; `etude test --help`" },
        { { "--"
            "=" },
          "no option --" },
        { { "--set" }, "test: --set wants KEY=VALUE after it" },
        { { "--set", "--verbose" }, "found --verbose; write --set=--verbose" },
        { { "--model-dir=" }, "--model-dir: the value is empty; it wants DIR" },
        { { "--model-dir", "" }, "--model-dir: the value is empty; it wants DIR" },
        { { "--verbose=1" }, "--verbose takes no value, found 1" },
        { { "--batch", "x" }, "--batch: \"x\" is not an integer" },
        { { "--batch", "" }, "--batch: the value is empty; it wants N" },
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
          "--form: no such choice as lon. Nearest: long (allowed: short, long)" },
        { { "--form" }, "test: --form wants short|long after it" },
        { { "--word", "lon" },
          "--word: no such choice as lon. Nearest: long (allowed: short, long)" },
        { { "--word=" }, "--word: the value is empty; it wants short|long" },
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

/* As it is spelt in the list, which is what help and completion call the value. */
static void test_args__choice(void **state)
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
    const et_arg row = ET_ARG_CHOICE("form", NULL, &o.form, forms, "a choice");
    assert_string_equal(et_arg_value(&row).text, "short|long");
}

/* A very long wrong word is cut, not written past. */
static void test_args__long_word(void **state)
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

static void test_args__too_many(void **state)
{
    (void)state;
    const char *words[WORDS_MAX + 1] = { NULL };
    options o;
    et_error error = ET_ERROR_INIT;
    for (int i = 0; i < ET_ARG_LIST_MAX; i++)
        words[i] = "--set=a";
    assert_int_equal(parse_words(&o, words, &error), ET_OK);
    assert_int_equal(o.list.count, ET_ARG_LIST_MAX);
    words[ET_ARG_LIST_MAX] = "--set=a";
    assert_int_equal(parse_words(&o, words, &error), ET_EUSAGE);
    assert_non_null(strstr(error.text, "--set: given more than 256 times"));
}

static void test_args__no_rest(void **state)
{
    (void)state;
    const et_arg table[] = { ET_ARG_END };
    char word[] = "file", *words[] = { word };
    bool help;
    et_error error = ET_ERROR_INIT;
    const et_call call = { &program, "test", 1, words, NULL };
    assert_int_equal(et_args_parse(table, &call, &help, &error), ET_EUSAGE);
    assert_string_equal(error.text, "test takes no argument, found file; options begin with --");
}

/* Help wins over what comes after it, not over what was wrong before. */
static void test_args__help(void **state)
{
    (void)state;
    options o;
    assert_int_equal(parse_words(&o, (const char *const[]){ "--help", "--x", NULL }, NULL), ET_OK);
    assert_true(o.help);
    assert_int_equal(parse_words(&o, (const char *const[]){ "f", "-h", NULL }, NULL), ET_OK);
    assert_true(o.help);
    assert_int_equal(parse_words(&o, (const char *const[]){ "--x", "-h", NULL }, NULL), ET_EUSAGE);
    const et_arg table[] = { ET_ARG_LIST("set", "KEY=VALUE", &o.list, "a list",
                                         .alias = "override"),
                             ET_ARG_REST("FILE...", &o.rest), ET_ARG_END };
    char *text;
    size_t length;
    FILE *to = open_memstream(&text, &length);
    const et_call call = { &program, "test", 0, NULL, NULL };
    et_args_help(to, table, &call, "Tests.", "a");
    fclose(to);
    assert_string_equal(text, "usage: etude test FILE... [OPTION]...\n\nTests.\n\nexample:\n"
                              "    etude test a\n\noptions:\n"
                              "    --set KEY=VALUE            a list (or --override)\n"
                              "    --help                     this text\n");
    free(text);
}

/* On as it is named, off in both spellings; a value stands behind "=" alone. */
static void test_args__switch(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        bool before, after;
    } cases[] = {
        { "--async", false, true },    { "--async=true", false, true },
        { "--async=1", false, true },  { "--async=False", true, false },
        { "--async=no", true, false }, { "--noasync", true, false },
        { "--no-async", true, false }, { "--no_async", true, false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool on = cases[i].before, help;
        const et_arg table[] = { ET_ARG_SWITCH("async", "BOOL", &on, ""), ET_ARG_END };
        char *words[] = { (char *)(uintptr_t)cases[i].word, NULL };
        const et_call call = { &program, "test", 1, words, NULL };
        et_error error = ET_ERROR_INIT;
        assert_int_equal(et_args_parse(table, &call, &help, &error), ET_OK);
        assert_int_equal(on, cases[i].after);
    }
}

/* Options of other systems: nothing is fine, anything else is refused with the reason. */
static void test_args__none(void **state)
{
    (void)state;
    static const struct {
        const char *words[3];
        int status;
        const char *said;
    } cases[] = {
        { { "--tpu=" }, ET_OK, "" },
        { { "--tpu", "" }, ET_OK, "" },
        { { "--tpu", "x" }, ET_EUSAGE, "--tpu: x is not taken here: there is none" },
        { { "--tpu=x" }, ET_EUSAGE, "--tpu: x is not taken here: there is none" },
        { { "--tpu" }, ET_EUSAGE, "test: --tpu wants NAME after it" },
        { { "--notpu" }, ET_EUSAGE, "test: no option --notpu; `etude test --help`" },
        { { "--async=2" }, ET_EUSAGE, "--async: 2 is not true or false" },
        { { "--no" }, ET_EUSAGE, "test: no option --no" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool on = true, help;
        const et_arg table[] = { ET_ARG_SWITCH("async", "BOOL", &on, ""),
                                 ET_ARG_NONE("tpu", "NAME", "there is none"), ET_ARG_END };
        char *words[3];
        int count = 0;
        for (; cases[i].words[count]; count++)
            words[count] = (char *)(uintptr_t)cases[i].words[count];
        const et_call call = { &program, "test", count, words, NULL };
        et_error error = ET_ERROR_INIT;
        assert_int_equal(et_args_parse(table, &call, &help, &error), cases[i].status);
        assert_memory_equal(error.text, cases[i].said, strlen(cases[i].said));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_args__forms),     cmocka_unit_test(test_args__edges),
        cmocka_unit_test(test_args__wrong),     cmocka_unit_test(test_args__choice),
        cmocka_unit_test(test_args__long_word), cmocka_unit_test(test_args__too_many),
        cmocka_unit_test(test_args__no_rest),   cmocka_unit_test(test_args__help),
        cmocka_unit_test(test_args__switch),    cmocka_unit_test(test_args__none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
