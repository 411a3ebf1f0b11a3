#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <etude/fields.h>

typedef struct inner {
    double rate;
    et_strings names;
} inner;

typedef struct outer {
    int64_t steps;
    bool shuffle;
    const char *path;
    inner adam;
} outer;

static const et_field inner_rows[] = {
    ET_FIELD_FLOAT(inner, rate, 0.5, 0, 1, "rate"),
    ET_FIELD_STRINGS(inner, names, "names"),
    ET_FIELD_END,
};
static const et_fields inner_table = { "adam", inner_rows };
static const et_field outer_rows[] = {
    ET_FIELD_INT(outer, steps, 7, 1, 1000, "steps"),
    ET_FIELD_BOOL(outer, shuffle, false, "shuffled"),
    ET_FIELD_STRING(outer, path, NULL, "a file"),
    ET_FIELD_STRUCT(outer, adam, &inner_table, "an optimizer"),
    ET_FIELD_END,
};
static const et_fields table = { "program", outer_rows };

typedef struct line {
    const char *argv[12];
    int argc;
} line;

static int parse(outer *o, const char *prefix, line *l, et_arena *arena, et_error *error)
{
    et_fields_defaults(&table, o);
    for (l->argc = 0; l->argv[l->argc];)
        l->argc++;
    return et_fields_flags(&table, o, prefix, &l->argc, (char **)l->argv, arena, error);
}

static void check_left(const line *l, const char *expected)
{
    char text[256] = "";
    for (int i = 0; i < l->argc; i++) {
        strcat(text, i ? " " : "");
        strcat(text, l->argv[i]);
    }
    assert_string_equal(text, expected);
    assert_null(l->argv[l->argc]);
}

/* Values are YAML; words that are not flags of the prefix stay, and so do all after "--". */
static void test_flags__set(void **state)
{
    (void)state;
    et_arena *arena = et_arena_new();
    outer o;
    line l = { .argv = { "me", "data", "--m.steps=12", "--m.adam.rate", "0.25", "--other=1",
                         "--m.shuffle=on", "--m.path=null", "--", "--m.steps=3" } };
    assert_int_equal(parse(&o, "m", &l, arena, NULL), ET_OK);
    assert_int_equal(o.steps, 12);
    assert_true(o.shuffle && o.adam.rate == 0.25 && !o.path);
    check_left(&l, "me data --other=1 -- --m.steps=3");
    l = (line){ .argv = { "me", "--steps", "3", "--adam={rate: 1, names: [a, b]}", "-x" } };
    assert_int_equal(parse(&o, NULL, &l, arena, NULL), ET_OK);
    assert_true(o.steps == 3 && o.adam.rate == 1 && o.adam.names.count == 2);
    assert_string_equal(o.adam.names.items[1], "b");
    check_left(&l, "me -x");
    l = (line){ .argv = { "me", "--m.path=--m.steps=5", NULL } };
    assert_int_equal(parse(&o, "m", &l, arena, NULL), ET_OK);
    assert_string_equal(o.path, "--m.steps=5");
    l = (line){ .argv = { NULL } };
    assert_int_equal(parse(&o, "m", &l, arena, NULL), ET_OK);
    assert_int_equal(o.steps, 7);
    et_arena_free(arena);
}

static void test_flags__mistakes(void **state)
{
    (void)state;
    static const struct {
        const char *flag, *says, *next;
    } cases[] = {
        { "--m.step=1", "command line: m.step: no such setting. Nearest: steps", NULL },
        { "--m.adam.rates=1", "m.adam.rates: no such setting", NULL },
        { "--m.steps=many", "m.steps: \"many\"", NULL },
        { "--m.steps=1.5", "m.steps", NULL },
        { "--m.steps=0", "m.steps", NULL },
        { "--m.adam.rate=2", "m.adam.rate", NULL },
        { "--m.steps.more=1", "m.steps", NULL },
        { "--m.adam=[1", "--m.adam: ", NULL },
        { "--m.=1", "no such setting", NULL },
        { "--m.steps", "--m.steps: the value is missing", NULL },
        { "--m.path", "--m.path: the value is missing", "--m.steps=3" },
        { "--m.path", "--m.path: the value is missing", "--" },
    };
    et_arena *arena = et_arena_new();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        outer o;
        et_error error = ET_ERROR_INIT;
        line l = { .argv = { "me", cases[i].flag, cases[i].next } };
        assert_int_equal(parse(&o, "m", &l, arena, &error), ET_ECONFIG);
        if (!strstr(error.text, cases[i].says))
            fail_msg("%s is not in: %s", cases[i].says, error.text);
    }
    et_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags__set),
        cmocka_unit_test(test_flags__mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
