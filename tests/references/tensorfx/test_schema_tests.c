/* TensorFX, tests/data/schema_tests.py. A schema copies its fields, so a field of it is equal to
 * the given one, not the same object. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <etude/schema.h>

static void check_field(const et_schema *schema, int position, const et_schema_field *expected)
{
    const et_schema_field *field = et_schema_at(schema, position);
    assert_ptr_equal(et_schema_find(schema, expected->name), field);
    assert_string_equal(field->name, expected->name);
    assert_int_equal(field->type, expected->type);
}

static void check_created(const et_schema_field *fields, int count)
{
    et_schema *schema;
    assert_int_equal(et_schema_create(&schema, fields, count, NULL), ET_OK);
    assert_int_equal(et_schema_count(schema), count);
    for (int i = 0; i < count; i++)
        check_field(schema, i, &fields[i]);
    et_schema_free(schema);
}

static void test_schema_tests__create_single_field_schema(void **state)
{
    (void)state;
    check_created(&(et_schema_field){ .name = "n", .type = ET_SCHEMA_INTEGER }, 1);
}

static void test_schema_tests__create_multi_field_schema(void **state)
{
    (void)state;
    static const et_schema_field fields[] = { { .name = "n", .type = ET_SCHEMA_INTEGER },
                                              { .name = "t", .type = ET_SCHEMA_DISCRETE } };
    check_created(fields, 2);
}

static void test_schema_tests__parse_schema(void **state)
{
    (void)state;
    static const char spec[] = "fields:\n"
                               "- name: f1\n  type: integer\n"
                               "- name: f2\n  type: real\n"
                               "- name: f3\n  type: discrete\n";
    static const et_schema_field fields[] = { { .name = "f1", .type = ET_SCHEMA_INTEGER },
                                              { .name = "f2", .type = ET_SCHEMA_REAL },
                                              { .name = "f3", .type = ET_SCHEMA_DISCRETE } };
    et_schema *schema;
    assert_int_equal(et_schema_parse(&schema, spec, strlen(spec), "spec", NULL), ET_OK);
    assert_int_equal(et_schema_count(schema), 3);
    for (int i = 0; i < 3; i++)
        check_field(schema, i, &fields[i]);
    et_schema_free(schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schema_tests__create_single_field_schema),
        cmocka_unit_test(test_schema_tests__create_multi_field_schema),
        cmocka_unit_test(test_schema_tests__parse_schema),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
