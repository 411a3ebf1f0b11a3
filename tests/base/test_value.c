#include <etude/value.h>

#include <string.h>

#include "base/arena.h"
#include "base/main.h"
#include "base/scarce.h"
#include "base/values/json.h"
#include "base/values/value.h"

static et_arena arena;

static int leave(void **state)
{
    (void)state;
    et_arena_release(&arena);
    return 0;
}

/* The tree as JSON, in the arena. */
static const char *shown(const et_value *value)
{
    et_strbuf buffer = ET_STRBUF_INIT;
    et_json_print(&buffer, value, 0);
    const char *text = et_arena_strdup(&arena, et_strbuf_text(&buffer));
    et_strbuf_release(&buffer);
    return text;
}

static et_value *parsed(const char *text)
{
    et_value *value = NULL;
    assert_int_equal(et_json_parse(&value, &arena, text, strlen(text), "text", NULL), ET_OK);
    return value;
}

static void test_value__builds(void **state)
{
    (void)state;
    et_value *root = et_value_dict(&arena);
    char key[] = "loss";
    et_value_set_float(root, key, 0.5);
    key[0] = 'b'; /* keys are copied */
    et_value_set_int(root, "step", -3);
    et_value_set_bool(root, "best", true);
    et_value_set_null(root, "none");
    et_value_set_string(root, "path", "a \"b\"");
    et_value_set_string(root, "no_path", NULL);
    et_value_set_dict(et_value_set_dict(root, "outer"), "inner");
    et_value *list = et_value_set_list(root, "list");
    et_value_add_int(list, 1);
    et_value_add_float(list, 2);
    et_value_add_string(list, "x");
    et_value_add_string(list, NULL);
    et_value_append(list, NULL, et_value_new(&arena, ET_VALUE_BOOL));
    et_value_set_int(et_value_add_dict(list), "a", 1);
    et_value_add_list(list);
    assert_int_equal(list->count, 7);
    assert_false(et_value_failed(root));
    assert_string_equal(shown(root),
                        "{\"loss\":0.5,\"step\":-3,\"best\":true,\"none\":null,"
                        "\"path\":\"a \\\"b\\\"\",\"no_path\":null,\"outer\":{\"inner\":{}},"
                        "\"list\":[1,2.0,\"x\",null,false,{\"a\":1},[]]}");
}

/* Replacing keeps the place, and drops the old children. */
static void test_value__replaces(void **state)
{
    (void)state;
    et_value *root = parsed("{\"a\": {\"b\": 1}, \"c\": [1, 2]}");
    et_value_set_int(root, "a", 4);
    et_value_add_int(et_value_set_list(root, "c"), 9);
    assert_string_equal(shown(root), "{\"a\":4,\"c\":[9]}");
    et_value_set_dict(root, "a");
    assert_string_equal(shown(root), "{\"a\":{},\"c\":[9]}");
    et_value *name = et_value_set_string(root, "a", "text");
    assert_string_equal(et_value_set_string(root, "a", name->string)->string, "text");
    assert_int_equal(root->count, 2);
}

static void test_value__paths(void **state)
{
    (void)state;
    et_value *root = parsed("{\"a\": {\"b\": {\"c\": 7}, \"bb\": 8}, \"\": 9}");
    static const struct {
        const char *path;
        int expected; /* 0: none */
    } rows[] = { { "a.b.c", 7 },   { "a.bb", 8 }, { "", 0 },     { "a.b.d", 0 },
                 { "a.b.c.d", 0 }, { "a..b", 0 }, { "a.b.", 0 }, { ".a", 0 } };
    for (size_t i = 0; i < COUNT(rows); i++) {
        et_value *value = et_value_path(root, rows[i].path);
        assert_int_equal(value ? value->integer : 0, rows[i].expected);
    }
    assert_null(et_value_get(root, "absent"));
    assert_null(et_value_get(et_value_path(root, "a.bb"), "c"));
    assert_null(et_value_get(NULL, "a"));
}

static void test_value__items(void **state)
{
    (void)state;
    et_value *root =
        parsed("{\"a\": {\"l\": [{\"b\": 7}, {\"b\": 8, \"m\": [[5, 6]]}]}, \"c\": 9}");
    static const struct {
        const char *path;
        int expected; /* 0: none */
    } rows[] = { { "c", 9 },
                 { "a.l[0].b", 7 },
                 { "a.l[1].b", 8 },
                 { "a.l[1].m[0][1]", 6 },
                 { "a.l[2].b", 0 },
                 { "a.l[]", 0 },
                 { "a.l[-1].b", 0 },
                 { "a.l[1", 0 },
                 { "a.l[1].d", 0 },
                 { "c[0]", 0 },
                 { "a.l[x].b", 0 },
                 { "a.b", 0 },
                 { "a.l[99999999999999999999].b", 0 } };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const et_value *value = et_value_path(root, rows[i].path);
        assert_int_equal(value && value->kind == ET_VALUE_INT ? value->integer : 0,
                         rows[i].expected);
    }
    assert_null(et_value_path(NULL, "a"));
}

static void test_value__leaf(void **state)
{
    (void)state;
    et_value *root = parsed("{\"a\": {\"i\": {\"x\": 5, \"l\": [1]}}, \"n\": null}");
    static const struct {
        const char *path, *said; /* said NULL: a leaf */
    } rows[] = {
        { "a.i.x", NULL },
        { "a.i.l", NULL },
        { "a.i.l[0]", NULL },
        { "n", NULL },
        { "a.i", "a.i is a group, not a value; name one of: x, l" },
        { "", "the dict is a group, not a value; name one of: a, n" },
        { "a.i.y", "no value has the path a.i.y; a.i has: x, l" },
        { "b.i", "no value has the path b.i; the dict has: a, n" },
        { "a.i.x.z", "no value has the path a.i.x.z; a.i.x is an integer" },
        { "a.i.l[1]", "no value has the path a.i.l[1]; a.i.l is a list" },
        { "a.i.", "no value has the path a.i.; a has: i" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        et_error error = ET_ERROR_INIT;
        const et_value *leaf = et_value_leaf(root, rows[i].path, &error);
        if (!leaf != (rows[i].said != NULL) || (rows[i].said && strcmp(rows[i].said, error.text)))
            fail_msg("%s: %s", rows[i].path, error.text);
    }
    et_error error = ET_ERROR_INIT;
    assert_null(et_value_leaf(NULL, "a", &error));
    assert_int_equal(error.status, ET_EFORMAT);
}

static int stop_at_null(void *payload, et_value *leaf, et_error *error)
{
    ++*(int *)payload;
    return leaf->kind == ET_VALUE_NULL ? et_fail(error, ET_EDATA, "null") : ET_OK;
}

static void test_value__each_leaf(void **state)
{
    (void)state;
    int count = 0;
    et_error error = ET_ERROR_INIT;
    et_value *root = parsed("{\"a\": {\"b\": [1, {}], \"c\": {}}, \"n\": null, \"z\": 1}");
    assert_int_equal(et_value_each_leaf(root, stop_at_null, &count, &error), ET_EDATA);
    assert_int_equal(count, 2); /* the list, null */
    assert_int_equal(et_value_each_leaf(NULL, stop_at_null, &count, &error), ET_OK);
}

static void test_value__typed_reads(void **state)
{
    (void)state;
    et_value *root = parsed("{\"i\": 3, \"f\": 0.5, \"b\": true, \"s\": \"x\", \"l\": []}");
    et_error error = ET_ERROR_INIT;
    int64_t integer;
    double real;
    bool boolean;
    const char *string;
    assert_int_equal(et_value_read_int(root, "i", &integer, &error), ET_OK);
    assert_int_equal(integer, 3);
    assert_int_equal(et_value_read_float(root, "i", &real, &error), ET_OK);
    assert_true(real == 3);
    assert_int_equal(et_value_read_float(root, "f", &real, &error), ET_OK);
    assert_true(real == 0.5);
    assert_int_equal(et_value_read_bool(root, "b", &boolean, &error), ET_OK);
    assert_true(boolean);
    assert_int_equal(et_value_read_string(root, "s", &string, &error), ET_OK);
    assert_string_equal(string, "x");

    assert_int_equal(et_value_read_int(root, "f", &integer, &error), ET_EFORMAT);
    assert_string_equal(error.text, "f is 0.5, a number, not an integer");
    assert_int_equal(et_value_read_float(root, "s", &real, &error), ET_EFORMAT);
    assert_string_equal(error.text, "s is \"x\", text, not a number");
    assert_int_equal(et_value_read_bool(root, "i", &boolean, &error), ET_EFORMAT);
    assert_int_equal(et_value_read_string(root, "l", &string, &error), ET_EFORMAT);
    assert_int_equal(et_value_read_int(root, "no", &integer, &error), ET_EFORMAT);
    assert_string_equal(error.text, "no is missing; give an integer");
    assert_int_equal(et_value_read_int(NULL, "no", &integer, &error), ET_EFORMAT);
}

static void test_value__merge(void **state)
{
    (void)state;
    static const struct {
        const char *base, *over, *expected;
    } rows[] = {
        { "{}", "{}", "{}" },
        { "{\"a\":1}", "{\"b\":2}", "{\"a\":1,\"b\":2}" },
        { "{\"a\":{\"x\":1,\"y\":2},\"z\":3}", "{\"a\":{\"y\":{\"n\":null}}}",
          "{\"a\":{\"x\":1,\"y\":{\"n\":null}},\"z\":3}" },
        { "{\"a\":[1,2]}", "{\"a\":[\"s\",[true],0.5]}", "{\"a\":[\"s\",[true],0.5]}" },
        { "{\"a\":{\"x\":1}}", "{\"a\":4}", "{\"a\":4}" },
        { "{\"a\":4}", "{\"a\":{\"x\":1}}", "{\"a\":{\"x\":1}}" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        et_value *base = parsed(rows[i].base), *over = parsed(rows[i].over);
        assert_int_equal(et_value_merge(base, over, NULL), ET_OK);
        assert_string_equal(shown(base), rows[i].expected);
        assert_string_equal(shown(over), rows[i].over);
    }
}

/* Every function takes the NULL that a failed one before it gave. */
static void test_value__out_of_memory(void **state)
{
    (void)state;
    bool failed = true;
    for (long calls = 0; failed; calls++) {
        scarce_begin(calls);
        et_arena scarce = ET_ARENA_INIT;
        et_value *root = et_value_dict(&scarce), *list = et_value_set_list(root, "list");
        for (int i = 0; i < 2000; i++) { /* some blocks of the arena */
            et_value *dict = et_value_add_dict(list);
            et_value_set_string(dict, "name", "n");
            et_value_set_string(et_value_set_dict(dict, "below"), "name", NULL);
            et_value_add_string(et_value_set_list(dict, "texts"), "t");
        }
        failed = scarce_failed;
        assert_int_equal(et_value_failed(root), failed);
        et_arena_release(&scarce);
        scarce_end();
        assert_true(calls < 100);
    }
    assert_null(et_value_dict(NULL)); /* et_arena_new had no memory */
}

static void test_value__merge_out_of_memory(void **state)
{
    (void)state;
    et_value *over = et_value_dict(&arena), *list = et_value_set_list(over, "list");
    for (int i = 0; i < 2000; i++)
        et_value_set_string(et_value_add_dict(list), "name", "a name of some length");
    int status = ET_ENOMEM;
    for (long calls = 1; status; calls++) {
        et_error error = ET_ERROR_INIT;
        scarce_begin(calls);
        et_arena scarce = ET_ARENA_INIT;
        status = et_value_merge(et_value_dict(&scarce), over, &error);
        et_arena_release(&scarce);
        scarce_end();
        assert_int_equal(status, scarce_failed ? ET_ENOMEM : ET_OK);
        assert_int_equal(error.status, status);
    }
}

#define CASE(name) cmocka_unit_test_teardown(name, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_value__builds),        CASE(test_value__replaces),
        CASE(test_value__paths),         CASE(test_value__items),
        CASE(test_value__leaf),          CASE(test_value__each_leaf),
        CASE(test_value__typed_reads),   CASE(test_value__merge),
        CASE(test_value__out_of_memory), CASE(test_value__merge_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
