/* Model Garden, official/modeling/hyperparams/base_config_test.py. A dataclass is a struct with a
 * table, a Config of a dict is settings without a table. Tuples are lists. */
#include "settings_of.h"

#include <stdio.h>

typedef struct config_1 {
    bool given; /* of an optional one */
    int64_t a;
    const char *b;
} config_1;

/* DumpConfig2 and, with x, DumpConfig4. */
typedef struct config_2 {
    int64_t c, x;
    const char *d;
    config_1 e, optional_e;
} config_2;

typedef struct config_3 {
    config_1 e, optional_e;
    et_structs h, g;
} config_3;

typedef struct config_5 {
    et_structs y;
    et_strings z;
} config_5;

static const et_field rows_1[] = { ET_FIELD_INT(config_1, a, 1, INT64_MIN, INT64_MAX, "a"),
                                   ET_FIELD_STRING(config_1, b, "text", "b"), ET_FIELD_END };
static const et_fields table_1 = { "config 1", rows_1 };
static const et_field optional_rows[] = {
    ET_FIELD_BOOL(config_1, given, false, "whether it is there", .selects = true),
    ET_FIELD_INT(config_1, a, 1, INT64_MIN, INT64_MAX, "a"),
    ET_FIELD_STRING(config_1, b, "text", "b"),
    ET_FIELD_END,
};
static const et_fields optional_table = { "optional config 1", optional_rows };
static const et_field rows_2[] = {
    ET_FIELD_INT(config_2, c, 2, INT64_MIN, INT64_MAX, "c"),
    ET_FIELD_STRING(config_2, d, "text", "d"),
    ET_FIELD_STRUCT(config_2, e, &table_1, "e"),
    ET_FIELD_STRUCT(config_2, optional_e, &optional_table, "e, or none"),
    ET_FIELD_INT(config_2, x, 3, INT64_MIN, INT64_MAX, "x"),
    ET_FIELD_END,
};
static const et_fields table_2 = { "config 2", rows_2 };
static const et_field rows_3[] = {
    ET_FIELD_STRUCT(config_3, e, &table_1, "e"),
    ET_FIELD_STRUCT(config_3, optional_e, &optional_table, "e, or none"),
    ET_FIELD_STRUCTS(config_3, h, config_1, &table_1, "h"),
    ET_FIELD_STRUCTS(config_3, g, config_1, &table_1, "g"),
    ET_FIELD_END,
};
static const et_fields table_3 = { "config 3", rows_3 };
static const et_field rows_5[] = { ET_FIELD_STRUCTS(config_5, y, config_2, &table_2, "y"),
                                   ET_FIELD_STRINGS(config_5, z, "z"), ET_FIELD_END };
static const et_fields table_5 = { "config 5", rows_5 };

static et_settings settings_in(void *options, const et_fields *table)
{
    et_fields_defaults(table, options);
    return (et_settings){ .table = table, .options = options, .arena = arena };
}

static const config_1 *item_1(const et_structs *list, size_t number)
{
    assert_true(number < list->count);
    return (const config_1 *)list->items + number;
}

/* The members of a Config, as of its dict, are the value that it was made of. */
static void assert_import_export(const char *value)
{
    char text[200];
    snprintf(text, sizeof text, "{key: %s}", value);
    et_settings params = settings_of(text);
    et_settings again = { .extra = et_value_dict(arena), .arena = arena };
    const et_value *dict = et_settings_dict(&params, arena);
    assert_int_equal(dict->count, 1);
    assert_ok(et_settings_read(&again, dict, NULL, error));
    assert_settings(&again, text);
}

static void test_base_config_test__invalid_keys(void **state)
{
    (void)state;
    const et_settings params = settings_of("{}");
    assert_null(et_value_get(params.extra, "a"));
}

static void test_base_config_test__nested_config_types(void **state)
{
    (void)state;
    config_3 config;
    const config_1 usual[] = { { .a = 1, .b = "text" }, { .a = 1, .b = "text" } };
    et_settings settings = settings_in(&config, &table_3);
    config.h = (et_structs){ usual, 2 };
    config.g = (et_structs){ usual, 1 };
    assert_int_equal(config.e.a, 1);
    assert_string_equal(config.e.b, "text");
    assert_ok(et_settings_override(&settings, "{e: {a: 2, b: new text}}", error));
    assert_int_equal(config.e.a, 2);
    assert_string_equal(config.e.b, "new text");
    assert_ok(et_settings_override(&settings, "{h: [{a: 3, b: new text 2}]}", error));
    assert_int_equal(config.h.count, 1);
    assert_int_equal(item_1(&config.h, 0)->a, 3);
    assert_string_equal(item_1(&config.h, 0)->b, "new text 2");
    assert_ok(et_settings_override(&settings, "{g: [{a: 4, b: new text 3}]}", error));
    assert_int_equal(config.g.count, 1);
    assert_int_equal(item_1(&config.g, 0)->a, 4);
    assert_string_equal(item_1(&config.g, 0)->b, "new text 3");
}

/* Copies and overrides: a struct, settings with a member of another type, and a list. */
static void test_base_config_test__replace(void **state)
{
    (void)state;
    config_2 config, new_config;
    config_3 three, new_three;
    const config_1 usual = { .a = 1, .b = "text" };
    et_settings settings = settings_in(&config, &table_2);
    new_config = config;
    settings.options = &new_config;
    assert_ok(et_settings_override(&settings, "{e: {a: 2}}", error));
    assert_int_equal(new_config.e.a, 2);
    assert_int_equal(config.e.a, 1);
    const et_settings old = settings_of("{c: 2, d: text, e: {c: 2, d: text}}");
    et_settings copy = settings_of("{}");
    assert_ok(et_settings_read(&copy, et_settings_dict(&old, arena), NULL, error));
    assert_ok(change(&copy, "{e: {c: 4}}", true, error));
    assert_settings(&copy, "{c: 2, d: text, e: {c: 4, d: text}}");
    assert_settings(&old, "{c: 2, d: text, e: {c: 2, d: text}}");
    settings = settings_in(&three, &table_3);
    three.g = (et_structs){ &usual, 1 };
    new_three = three;
    settings.options = &new_three;
    assert_ok(et_settings_override(&settings, "{g: [{a: 4, b: new text 3}]}", error));
    assert_int_equal(item_1(&new_three.g, 0)->a, 4);
    assert_string_equal(item_1(&new_three.g, 0)->b, "new text 3");
    assert_int_equal(item_1(&three.g, 0)->a, 1);
}

static void test_base_config_test__key_error(void **state)
{
    (void)state;
    static const char *const keys[] = { "_locked", "_restrictions", "aa" };
    for (size_t i = 0; i < COUNT(keys); i++) {
        et_settings params = settings_of("{}");
        et_value *over = et_value_dict(arena);
        et_value_set_bool(over, keys[i], true);
        params.strict = true;
        assert_refused(et_settings_read(&params, over, NULL, error), keys[i]);
        assert_int_equal(params.extra->count, 0);
    }
}

static void test_base_config_test__import_export_immutable_types(void **state)
{
    (void)state;
    assert_import_export("str data");
    assert_import_export("123");
    assert_import_export("1.23");
    assert_import_export("null");
    assert_import_export("[str, 1, 2.3, null]");
}

static void test_base_config_test__override_is_strict_true(void **state)
{
    (void)state;
    et_settings params = settings_of("{a: aa, b: 2, c: {c1: cc, c2: 20}}");
    assert_ok(change(&params, "{a: 2, c: {c1: ccc}}", true, error));
    assert_settings(&params, "{a: 2, b: 2, c: {c1: ccc, c2: 20}}");
    assert_refused(change(&params, "{d: ddd}", true, error), "d: no such setting");
    assert_refused(change(&params, "{c: {c3: 30}}", true, error), "c.c3: no such setting");
    params = settings_of("{key: [{a: 42}]}");
    assert_refused(change(&params, "{key: [{b: 43}]}", true, error),
                   "key[0].b: no such setting (key[0] has: a)");
}

static void test_base_config_test__import_export_nested_structure(void **state)
{
    (void)state;
    assert_import_export("{a: [{b: 2}, {c: 3}]}");
    assert_import_export("{c: [{f: 1.1}, {h: [1, 2]}]}");
    assert_import_export("[{a: aa, b: 2, c: {c1: 10, c2: 20}}]");
}

/* The reference gives this value as a list and as a tuple. */
static void test_base_config_test__import_export_nested_sequences(void **state)
{
    (void)state;
    assert_import_export("[{a: 42, b: hello, c: 1.2}]");
}

/* The reference gives these lists also as tuples. */
static void test_base_config_test__import_export_unsupport_sequence(void **state)
{
    (void)state;
    static const char *const texts[] = { "{key: [[[{}]]]}", "{key: [[str, 1, 2.3, null]]}",
                                         "{key: [[{a: 42, b: hello, c: 1.2}]]}",
                                         "{key: [[[{a: 42, b: hello, c: 1.2}]]]}" };
    for (size_t i = 0; i < COUNT(texts); i++) {
        et_settings params = settings_of("{}");
        assert_refused(change(&params, texts[i], false, error),
                       "key: item 1 is a list; a list has");
    }
}

static void test_base_config_test__import_config(void **state)
{
    (void)state;
    const et_settings params = settings_of("{a: [{b: 2}, {c: {d: 3}}]}");
    const et_value *a = et_value_get(params.extra, "a");
    assert_int_equal(a->count, 2);
    assert_int_equal(a->first->kind, ET_VALUE_DICT);
    assert_int_equal(et_value_get(a->first, "b")->integer, 2);
    assert_int_equal(a->last->kind, ET_VALUE_DICT);
    assert_int_equal(et_value_get(a->last, "c")->kind, ET_VALUE_DICT);
    assert_int_equal(et_value_path(params.extra, "a[1].c.d")->integer, 3);
}

static void test_base_config_test__override(void **state)
{
    (void)state;
    et_settings params = settings_of("{a: [{b: 2}, {c: {d: 3}}]}");
    assert_ok(change(&params, "{a: [{b: 4}, {c: {d: 5}}]}", false, error));
    assert_settings(&params, "{a: [{b: 4}, {c: {d: 5}}]}");
    assert_int_equal(et_value_get(params.extra, "a")->kind, ET_VALUE_LIST);
}

static void test_base_config_test__override_scalar_with_dict_replaces_the_whole_value(void **state)
{
    (void)state;
    et_settings params = settings_of("{a: 1}");
    assert_ok(change(&params, "{a: {b: 2}}", true, error));
    assert_settings(&params, "{a: {b: 2}}");
}

static void test_base_config_test__override_dict_with_scalar_replaces_the_whole_value(void **state)
{
    (void)state;
    et_settings params = settings_of("{a: {b: 2}}");
    assert_ok(change(&params, "{a: 1}", true, error));
    assert_settings(&params, "{a: 1}");
}

static void test_base_config_test__with_superclass_override(void **state)
{
    (void)state;
    config_2 two;
    config_3 three;
    et_settings settings[] = { settings_in(&two, &table_2), settings_in(&three, &table_3) };
    const config_1 *const optional[] = { &two.optional_e, &three.optional_e };
    for (int i = 0; i < 2; i++) {
        assert_false(optional[i]->given);
        assert_ok(et_settings_override(&settings[i], "{optional_e: {a: 2}}", error));
        assert_true(optional[i]->given);
        assert_int_equal(optional[i]->a, 2);
        assert_string_equal(optional[i]->b, "text");
    }
}

static void test_base_config_test__get_annotations_without_base_config_leak(void **state)
{
    (void)state;
    config_3 config;
    et_settings settings = settings_in(&config, &table_3);
    assert_refused(et_settings_override(&settings, "{restrictions: null}", error),
                   "restrictions: no such setting");
}

static void test_base_config_test__with_restrictions(void **state)
{
    (void)state;
    config_2 config;
    const et_settings settings = settings_in(&config, &table_2);
    assert_ok(et_settings_check(&settings, (const char *const[]){ "e.a<c", NULL }, error));
}

/* A DumpConfig4 is an item that has x. */
static void test_base_config_test__nested_tuple(void **state)
{
    (void)state;
    config_5 config;
    et_settings settings = settings_in(&config, &table_5);
    assert_ok(et_settings_override(&settings,
                                   "{y: [{c: 4, d: new text 3, e: {a: 2}}, "
                                   "{c: 0, d: new text 3, e: {a: 2}}], z: [a, b, c]}",
                                   error));
    const config_2 *y = config.y.items;
    assert_int_equal(config.y.count, 2);
    assert_int_equal(y[0].c, 4);
    assert_int_equal(y[1].c, 0);
    assert_int_equal(y[1].x, 3);
    assert_int_equal(config.z.count, 3);
    for (int i = 0; i < 3; i++)
        assert_string_equal(config.z.items[i], ((const char *[]){ "a", "b", "c" })[i]);
    et_settings params = settings_of("{y: [{c: 2, d: text}, {c: 2, d: text, x: 3}]}");
    assert_ok(change(&params, "{y: [{c: 4}, {c: 0}]}", true, error));
    assert_settings(&params, "{y: [{c: 4, d: text}, {c: 0, d: text, x: 3}]}");
}

static void test_base_config_test__override_by_empty_sequence(void **state)
{
    (void)state;
    config_5 config;
    const config_2 usual[2] = { { .c = 2 }, { .c = 2, .x = 3 } };
    et_settings settings = settings_in(&config, &table_5);
    config.y = (et_structs){ usual, 2 };
    config.z = (et_strings){ (const char *const[]){ "a" }, 1 };
    assert_ok(et_settings_override(&settings, "{y: [], z: []}", error));
    assert_int_equal(config.y.count, 0);
    assert_int_equal(config.z.count, 0);
}

static void test_base_config_test__modern_optional_syntax(void **state)
{
    (void)state;
    config_3 config;
    et_settings settings = settings_in(&config, &table_3);
    assert_false(config.optional_e.given);
    assert_ok(et_settings_override(&settings, "{optional_e: {a: 2}}", error));
    assert_true(config.optional_e.given);
    assert_int_equal(config.optional_e.a, 2);
    assert_string_equal(config.optional_e.b, "text");
    assert_ok(et_settings_override(&settings, "{optional_e: null}", error));
    assert_false(config.optional_e.given);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base_config_test__invalid_keys),
        cmocka_unit_test(test_base_config_test__nested_config_types),
        cmocka_unit_test(test_base_config_test__replace),
        cmocka_unit_test(test_base_config_test__key_error),
        cmocka_unit_test(test_base_config_test__import_export_immutable_types),
        cmocka_unit_test(test_base_config_test__override_is_strict_true),
        cmocka_unit_test(test_base_config_test__import_export_nested_structure),
        cmocka_unit_test(test_base_config_test__import_export_nested_sequences),
        cmocka_unit_test(test_base_config_test__import_export_unsupport_sequence),
        cmocka_unit_test(test_base_config_test__import_config),
        cmocka_unit_test(test_base_config_test__override),
        cmocka_unit_test(test_base_config_test__override_scalar_with_dict_replaces_the_whole_value),
        cmocka_unit_test(test_base_config_test__override_dict_with_scalar_replaces_the_whole_value),
        cmocka_unit_test(test_base_config_test__with_superclass_override),
        cmocka_unit_test(test_base_config_test__get_annotations_without_base_config_leak),
        cmocka_unit_test(test_base_config_test__with_restrictions),
        cmocka_unit_test(test_base_config_test__nested_tuple),
        cmocka_unit_test(test_base_config_test__override_by_empty_sequence),
        cmocka_unit_test(test_base_config_test__modern_optional_syntax),
    };
    return cmocka_run_group_tests(tests, make_arena, free_arena);
}
