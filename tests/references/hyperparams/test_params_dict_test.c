/* Model Garden, official/modeling/hyperparams/params_dict_test.py. A ParamsDict is settings without
 * a table; is_strict is `strict`. */
#include "settings_of.h"

#include <stdio.h>

static void test_params_dict_test__init_from_an_empty_dict(void **state)
{
    (void)state;
    et_settings params = settings_of("{}");
    assert_null(et_value_get(params.extra, "a"));
    assert_refused(change(&params, "a=aa", true, error), "a: no such setting");
}

static void test_params_dict_test__init_from_a_dict(void **state)
{
    (void)state;
    et_settings params = settings_of("{}");
    et_value *dict = et_value_dict(arena);
    et_value_set_string(dict, "a", "aa");
    et_value_set_int(dict, "b", 2);
    assert_ok(et_settings_read(&params, dict, NULL, error));
    assert_string_equal(et_value_get(params.extra, "a")->string, "aa");
    assert_int_equal(et_value_get(params.extra, "b")->integer, 2);
}

static void test_params_dict_test__init_from_a_param_dict(void **state)
{
    (void)state;
    et_settings init = settings_of("{a: aa, b: 2}"), params = settings_of("{}");
    assert_ok(et_settings_read(&params, et_settings_dict(&init, arena), NULL, error));
    assert_settings(&params, "{a: aa, b: 2}");
}

/* Here: nothing deletes a setting, so a lock need not refuse it. */
static void test_params_dict_test__lock(void **state)
{
    (void)state;
    et_settings params = settings_of("{a: 1, b: 2, c: 3}");
    const et_settings other = settings_of("{b: 20}");
    et_settings_lock(&params);
    assert_refused(et_settings_override(&params, "a=10", error), "locked");
    assert_refused(et_settings_read(&params, other.extra, NULL, error), "locked");
    assert_settings(&params, "{a: 1, b: 2, c: 3}");
}

static void test_params_dict_test__setattr(void **state)
{
    (void)state;
    et_settings params = settings_of("{}");
    assert_ok(change(&params, "{a: aa, b: 2, c: null}", false, error));
    assert_ok(change(&params, "c=ccc", true, error));
    assert_settings(&params, "{a: aa, b: 2, c: ccc}");
}

static void test_params_dict_test__getattr(void **state)
{
    (void)state;
    et_settings params = settings_of("{}");
    assert_ok(change(&params, "{a: aa, b: 2, c: null}", false, error));
    assert_string_equal(et_value_get(params.extra, "a")->string, "aa");
    assert_int_equal(et_value_get(params.extra, "b")->integer, 2);
    assert_int_equal(et_value_get(params.extra, "c")->kind, ET_VALUE_NULL);
}

static void test_params_dict_test__contains(void **state)
{
    (void)state;
    et_settings params = settings_of("{}");
    assert_ok(change(&params, "{a: aa}", false, error));
    assert_non_null(et_value_get(params.extra, "a"));
    assert_null(et_value_get(params.extra, "b"));
}

/* The default is the variable's value before the call. */
static void test_params_dict_test__get(void **state)
{
    (void)state;
    et_settings params = settings_of("{}");
    int64_t b = 2;
    assert_ok(change(&params, "{a: aa}", false, error));
    assert_string_equal(et_value_get(params.extra, "a")->string, "aa");
    assert_int_equal(et_value_read_int(params.extra, "b", &b, NULL), ET_EFORMAT);
    assert_int_equal(b, 2);
    assert_null(et_value_get(params.extra, "b"));
}

static void test_params_dict_test__override_is_strict_true(void **state)
{
    (void)state;
    et_settings params = settings_of("{a: aa, b: 2, c: {c1: cc, c2: 20}}");
    assert_ok(change(&params, "{a: 2, c: {c1: ccc}}", true, error));
    assert_settings(&params, "{a: 2, b: 2, c: {c1: ccc, c2: 20}}");
    assert_refused(change(&params, "{d: ddd}", true, error), "d: no such setting");
    assert_refused(change(&params, "{c: {c3: 30}}", true, error),
                   "c.c3: no such setting (c has: c1, c2)");
}

static void test_params_dict_test__override_is_strict_false(void **state)
{
    (void)state;
    et_settings params = settings_of("{a: aa, b: 2, c: {c1: 10, c2: 20}}");
    assert_ok(change(&params, "{a: 2, c: {c3: 3000}}", false, error));
    assert_settings(&params, "{a: 2, b: 2, c: {c1: 10, c2: 20, c3: 3000}}");
    assert_ok(change(&params, "{d: ddd}", false, error));
    assert_ok(change(&params, "{c: {c4: 4444}}", false, error));
    assert_settings(&params, "{a: 2, b: 2, c: {c1: 10, c2: 20, c3: 3000, c4: 4444}, d: ddd}");
}

static void test_params_dict_test__as_dict(void **state)
{
    (void)state;
    et_settings params = settings_of("{a: aa, b: 2, c: {c1: 10, c2: 20}}");
    const et_value *dict = et_settings_dict(&params, arena);
    assert_string_equal(et_value_get(dict, "a")->string, "aa");
    assert_int_equal(et_value_get(dict, "b")->integer, 2);
    assert_int_equal(et_value_path(dict, "c.c1")->integer, 10);
    assert_int_equal(et_value_path(dict, "c.c2")->integer, 20);
}

static int validate(const char *text, const char *const *restrictions, et_error *error)
{
    const et_settings params = settings_of(text);
    return et_settings_check(&params, restrictions, error);
}

static void test_params_dict_test__validate(void **state)
{
    (void)state;
    static const char *const equal[] = { "a == c", NULL }, *const groups[] = { "b == c", NULL },
                             *const below[] = { "a == c.a", NULL },
                             *const constants[] = { "a == None", "c.a == 1", NULL },
                             *const least[] = { "a >= 1", NULL };
    assert_refused(validate("{a: 1, b: {a: 11}}", equal, error), "no setting is called c");
    assert_ok(validate("{a: 1, b: {a: 10}, c: {a: 10}}", groups, error));
    assert_refused(validate("{a: 1, c: {a: 10}}", below, error), "a is 1, c.a is 10");
    et_settings params = settings_of("{a: 1, c: {a: 1}}");
    assert_ok(et_settings_check(&params, below, error));
    assert_ok(change(&params, "{a: 11}", true, error));
    assert_refused(et_settings_check(&params, below, error), "a is 11, c.a is 1");
    assert_ok(validate("{a: null, c: {a: 1}}", constants, error));
    assert_refused(validate("{a: 4, c: {a: 1}}", constants, error), "a == None");
    assert_ok(validate("{a: 1}", least, error));
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void test_params_dict_test__save_params_dict_to_yaml(void **state)
{
    (void)state;
    et_settings params = settings_of("{a: aa, b: 2, c: {c1: 10, c2: 20}}"),
                read = settings_of("{}");
    assert_ok(et_settings_write(&params, "saved.yaml", error));
    assert_ok(et_settings_read_file(&read, "saved.yaml", error));
    assert_settings(&read, "{a: aa, b: 2, c: {c1: 10, c2: 20}}");
}

static void test_params_dict_test__read_yaml_to_params_dict(void **state)
{
    (void)state;
    et_settings params = settings_of("{}");
    write_file("read.yaml", "\n        a: 'aa'\n        b: 2\n        c:\n          c1: 10\n"
                            "          c2: 20\n    ");
    assert_ok(et_settings_read_file(&params, "read.yaml", error));
    assert_settings(&params, "{a: aa, b: 2, c: {c1: 10, c2: 20}}");
}

#define FLAT    "{a: 1, b: 2.5, c: [3, 4], d: hello, e: false}"
#define CHANGED "{a: 1, b: 5.2, c: [30, 40], d: hello, e: false}"

static void test_params_dict_test__override_params_dict_using_dict(void **state)
{
    (void)state;
    et_settings params = settings_of(FLAT);
    et_value *over = et_value_dict(arena), *list;
    et_value_set_float(over, "b", 5.2);
    list = et_value_set_list(over, "c");
    et_value_add_int(list, 30);
    et_value_add_int(list, 40);
    params.strict = true;
    assert_ok(et_settings_read(&params, over, NULL, error));
    assert_settings(&params, CHANGED);
}

static void test_params_dict_test__override_params_dict_using_yaml_string(void **state)
{
    (void)state;
    et_settings params = settings_of(FLAT);
    assert_ok(change(&params, "'b': 5.2\n'c': [30, 40]", true, error));
    assert_settings(&params, CHANGED);
}

#define NESTED "{a: 1, b: {b1: 2, b2: [2, 3]}, d: {d1: {d2: hello}}, e: false}"

static void test_params_dict_test__override_params_dict_using_json_string(void **state)
{
    (void)state;
    et_settings params = settings_of(NESTED);
    assert_ok(change(&params, "{ b: { b2: [3, 4] }, d: { d1: { d2: 'hi' } } }", true, error));
    assert_settings(&params, "{a: 1, b: {b1: 2, b2: [3, 4]}, d: {d1: {d2: hi}}, e: false}");
}

static void test_params_dict_test__override_params_dict_using_csv_string(void **state)
{
    (void)state;
    et_settings params = settings_of(NESTED);
    assert_ok(change(&params, "b.b2=[3,4], d.d1.d2='hi, world', e=gs://test", true, error));
    assert_settings(&params, "{a: 1, b: {b1: 2, b2: [3, 4]}, d: {d1: {d2: 'hi, world'}}, "
                             "e: 'gs://test'}");
    assert_ok(change(&params, "b.b2=-1.e-3, d.d1.d2=+0.001, e=1e+3, a=-1.5E-3", true, error));
    assert_true(et_value_path(params.extra, "b.b2")->real == -1e-3);
    assert_true(et_value_path(params.extra, "d.d1.d2")->real == 0.001);
    assert_true(et_value_get(params.extra, "e")->real == 1e3);
    assert_true(et_value_get(params.extra, "a")->real == -1.5e-3);
}

static void test_params_dict_test__override_params_dict_using_yaml_file(void **state)
{
    (void)state;
    et_settings params = settings_of(FLAT);
    write_file("over.yaml", "\n        b: 5.2\n        c: [30, 40]\n        ");
    assert_ok(change(&params, "over.yaml", true, error));
    assert_settings(&params, CHANGED);
}

/* assignments: means the same as yaml, the text that the reference makes of it first. */
static void assert_means(const char *assignments, const char *yaml)
{
    const et_settings params = settings_of(assignments);
    assert_settings(&params, yaml);
}

static void test_params_dict_test__basic_csv_str_to_json_str(void **state)
{
    (void)state;
    assert_means("a=1,b=2,c=3", "{a : 1, b : 2, c : 3}");
}

static void test_params_dict_test__basic_csv_str_load(void **state)
{
    (void)state;
    const et_settings params = settings_of("a=1,b=2,c=3");
    assert_int_equal(params.extra->count, 3);
    assert_int_equal(et_value_get(params.extra, "a")->integer, 1);
    assert_int_equal(et_value_get(params.extra, "b")->integer, 2);
    assert_int_equal(et_value_get(params.extra, "c")->integer, 3);
}

static void test_params_dict_test__basic_nested_csv_str_to_json_str(void **state)
{
    (void)state;
    assert_means("a=1,b.b1=2", "{a : 1, b : {b1 : 2}}");
}

static void test_params_dict_test__basic_nested_csv_str_load(void **state)
{
    (void)state;
    const et_settings params = settings_of("a=1,b.b1=2,c.c1=3");
    assert_int_equal(params.extra->count, 3);
    assert_int_equal(et_value_get(params.extra, "a")->integer, 1);
    assert_int_equal(et_value_path(params.extra, "b.b1")->integer, 2);
    assert_int_equal(et_value_path(params.extra, "c.c1")->integer, 3);
}

static void test_params_dict_test__complex_nested_csv_str_to_json_str(void **state)
{
    (void)state;
    assert_means("a.aa.aaa.aaaaa.a=1", "{a : {aa : {aaa : {aaaaa : {a : 1}}}}}");
}

static void test_params_dict_test__complex_nested_csv_str_load(void **state)
{
    (void)state;
    assert_means("a.aa.aaa.aaaaa.a=1,a.a=2", "{a: {aa: {aaa: {aaaaa: {a: 1}}}, a: 2}}");
}

static void test_params_dict_test__int_array_param_nested_csv_str_to_json_str(void **state)
{
    (void)state;
    assert_means("a.b[2]=3,a.b[0]=1,a.b[1]=2", "{a : {b : [1, 2, 3]}}");
}

static void test_params_dict_test__float_array_param_nested_csv_str_to_json_str(void **state)
{
    (void)state;
    assert_means("a.b[1]=3.45,a.b[2]=1.32,a.b[0]=2.232", "{a : {b : [2.232, 3.45, 1.32]}}");
}

static void test_params_dict_test__incomplete_array_param_nested_csv_str_to_json_str(void **state)
{
    (void)state;
    et_settings params = settings_of("{}");
    assert_refused(change(&params, "a.b[0]=1,a.b[2]=2", false, error), "a.b[1] is missing");
}

static void test_params_dict_test__csv_str_load_supported_datatypes(void **state)
{
    (void)state;
    assert_means("a=1,b=2.,c=[1,2,3],d='hello, there',e=\"Hi.\"",
                 "{a: 1, b: 2.0, c: [1, 2, 3], d: 'hello, there', e: 'Hi.'}");
}

static void test_params_dict_test__csv_str_load_unsupported_datatypes(void **state)
{
    (void)state;
    et_settings params = settings_of("{}");
    assert_refused(change(&params, "a=[[1,2,3],[4,5,6]]", false, error), "a: item 1 is a list");
}

static void test_params_dict_test__csv_str_to_json_str_spacing(void **state)
{
    (void)state;
    assert_means("a=1,b=2,c=3", "{a : 1, b : 2, c : 3}");
    assert_means("a = 1, b = 2, c = 3", "{a : 1, b : 2, c : 3}");
}

static void test_params_dict_test__gcs_added_quotes(void **state)
{
    (void)state;
    assert_means("a=gs://abc, b=gs://def", "{a : 'gs://abc', b : 'gs://def'}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_params_dict_test__init_from_an_empty_dict),
        cmocka_unit_test(test_params_dict_test__init_from_a_dict),
        cmocka_unit_test(test_params_dict_test__init_from_a_param_dict),
        cmocka_unit_test(test_params_dict_test__lock),
        cmocka_unit_test(test_params_dict_test__setattr),
        cmocka_unit_test(test_params_dict_test__getattr),
        cmocka_unit_test(test_params_dict_test__contains),
        cmocka_unit_test(test_params_dict_test__get),
        cmocka_unit_test(test_params_dict_test__override_is_strict_true),
        cmocka_unit_test(test_params_dict_test__override_is_strict_false),
        cmocka_unit_test(test_params_dict_test__as_dict),
        cmocka_unit_test(test_params_dict_test__validate),
        cmocka_unit_test(test_params_dict_test__save_params_dict_to_yaml),
        cmocka_unit_test(test_params_dict_test__read_yaml_to_params_dict),
        cmocka_unit_test(test_params_dict_test__override_params_dict_using_dict),
        cmocka_unit_test(test_params_dict_test__override_params_dict_using_yaml_string),
        cmocka_unit_test(test_params_dict_test__override_params_dict_using_json_string),
        cmocka_unit_test(test_params_dict_test__override_params_dict_using_csv_string),
        cmocka_unit_test(test_params_dict_test__override_params_dict_using_yaml_file),
        cmocka_unit_test(test_params_dict_test__basic_csv_str_to_json_str),
        cmocka_unit_test(test_params_dict_test__basic_csv_str_load),
        cmocka_unit_test(test_params_dict_test__basic_nested_csv_str_to_json_str),
        cmocka_unit_test(test_params_dict_test__basic_nested_csv_str_load),
        cmocka_unit_test(test_params_dict_test__complex_nested_csv_str_to_json_str),
        cmocka_unit_test(test_params_dict_test__complex_nested_csv_str_load),
        cmocka_unit_test(test_params_dict_test__int_array_param_nested_csv_str_to_json_str),
        cmocka_unit_test(test_params_dict_test__float_array_param_nested_csv_str_to_json_str),
        cmocka_unit_test(test_params_dict_test__incomplete_array_param_nested_csv_str_to_json_str),
        cmocka_unit_test(test_params_dict_test__csv_str_load_supported_datatypes),
        cmocka_unit_test(test_params_dict_test__csv_str_load_unsupported_datatypes),
        cmocka_unit_test(test_params_dict_test__csv_str_to_json_str_spacing),
        cmocka_unit_test(test_params_dict_test__gcs_added_quotes),
    };
    return cmocka_run_group_tests(tests, make_arena, free_arena);
}
