#include "base/main.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <etude/schema.h>

#include "base/alloc.h"
#include "base/scarce.h"
#include "data/table/schema/schema.h"

static const et_schema_field fields[] = {
    { .name = "age", .type = ET_SCHEMA_INTEGER, .length = 1 },
    { .name = "weight, kg", .type = ET_SCHEMA_REAL, .length = 1, .missing = "0.5" },
    { .name = "2024", .type = ET_SCHEMA_DISCRETE, .length = ET_SCHEMA_VARIABLE, .required = true },
    { .name = "gr\xc3\xb6\xc3\x9f"
              "e",
      .type = ET_SCHEMA_REAL,
      .length = 3 },
    { .name = "n", .type = ET_SCHEMA_INTEGER, .length = 1, .fractions = 1 },
    { .name = "price",
      .type = ET_SCHEMA_REAL,
      .length = 1,
      .notation = ET_NOTATION_COMMA,
      .unit = "\u20ac" },
    { .name = "share", .type = ET_SCHEMA_REAL, .length = 1, .notation = ET_NOTATION_POINT },
};

static const char text[] = "fields:\n"
                           "  - name: age\n"
                           "    type: integer\n"
                           "  - {name: 'weight, kg', type: numeric, default: 0.5}\n"
                           "  - {name: 2024, type: discrete, length: 0, nullable: false}\n"
                           "  - name: \"gr\\u00f6\\u00dfe\"\n"
                           "    type: real\n"
                           "    length: 3\n"
                           "  - {name: n, type: integer, fractions: true}\n"
                           "  - {name: price, type: real, notation: comma, unit: \u20ac}\n"
                           "  - {name: share, type: real, notation: point}\n";

static void check_fields(const et_schema *schema)
{
    assert_int_equal(et_schema_count(schema), COUNT(fields));
    for (int i = 0; i < (int)COUNT(fields); i++) {
        const et_schema_field *got = et_schema_at(schema, i), *want = &fields[i];
        assert_string_equal(got->name, want->name);
        assert_int_equal(got->type, want->type);
        assert_int_equal(got->length, want->length);
        assert_int_equal(got->required, want->required);
        assert_int_equal(got->fractions, want->fractions);
        assert_int_equal(got->notation, want->notation);
        assert_string_equal(got->unit ? got->unit : "", want->unit ? want->unit : "");
        assert_int_equal(!got->missing, !want->missing);
        if (want->missing)
            assert_string_equal(got->missing, want->missing);
        assert_int_equal(et_schema_position(schema, want->name), i);
        assert_ptr_equal(et_schema_find(schema, want->name), got);
    }
    assert_int_equal(et_schema_position(schema, "none"), -1);
    assert_null(et_schema_find(schema, "none"));
    assert_null(et_schema_at(schema, -1));
    assert_null(et_schema_at(schema, COUNT(fields)));
}

/* From a program, from a file, and through a file and back. */
static void test_schema__same(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_schema *made, *parsed, *loaded;
    char *one, *other;
    assert_int_equal(et_schema_create(&made, fields, COUNT(fields), &error), ET_OK);
    check_fields(made);
    if (et_schema_parse(&parsed, text, strlen(text), "schema.yaml", &error))
        fail_msg("%s", error.text);
    check_fields(parsed);
    assert_int_equal(et_schema_save(made, "schema-test.yaml", &error), ET_OK);
    assert_int_equal(et_schema_load(&loaded, "schema-test.yaml", &error), ET_OK);
    check_fields(loaded);
    assert_int_equal(et_schema_format(made, &one, &error), ET_OK);
    assert_int_equal(et_schema_format(loaded, &other, &error), ET_OK);
    assert_string_equal(one, other);
    assert_contains(one, "  - name: age\n    type: integer\n  - name: \"weight, kg\"\n");
    et_free(one);
    et_free(other);
    et_schema_free(made);
    et_schema_free(parsed);
    et_schema_free(loaded);
    unlink("schema-test.yaml");
    assert_int_equal(et_schema_load(&loaded, "schema-test.yaml", &error), ET_ENOTFOUND);
}

static void test_schema__types(void **state)
{
    (void)state;
    assert_string_equal(et_schema_type_name(ET_SCHEMA_DISCRETE), "discrete");
    assert_null(et_schema_type_name((et_schema_type)7));
    assert_true(et_schema_numeric(&fields[0]) && et_schema_numeric(&fields[1]));
    assert_false(et_schema_numeric(&fields[2]));
    /* A program's zero is one value. */
    et_schema *schema;
    assert_int_equal(et_schema_create(&schema, &(et_schema_field){ .name = "a" }, 1, NULL), ET_OK);
    assert_int_equal(et_schema_at(schema, 0)->length, 1);
    et_schema_free(schema);
}

static const struct {
    const char *text;
    int status;
    const char *message;
} bad[] = {
    { "", ET_ECONFIG, "s:1: expected a list `fields:` of at least one {name, type}" },
    { "[1]", ET_ECONFIG, "s:1: expected a list `fields:` of at least one {name, type}" },
    { "fields: []", ET_ECONFIG, "expected a list `fields:`" },
    { "fields:\n  a: 1", ET_ECONFIG,
      "s:2: expected a list `fields:` of at least one {name, type}" },
    { "fields: [{name: a, type: real}]\nfield: 1", ET_ECONFIG,
      "s:2: unknown key \"field\"; the only key of a schema is fields" },
    { "fields: [a]", ET_ECONFIG, "a field must be a group of keys" },
    { "fields: [{type: real}]", ET_ECONFIG, "a field has no name: give it one" },
    { "fields: [{name: '', type: real}]", ET_ECONFIG, "a field has no name: give it one" },
    { "fields: [{name: [a], type: real}]", ET_ECONFIG, "name needs a text, not a list" },
    { "fields: [{name: \"a\\tb\", type: real}]", ET_ECONFIG, "a control character (0x09)" },
    { "fields: [{name: a}]", ET_ECONFIG, "a field has no type" },
    { "fields:\n- name: a\n  type: text", ET_ECONFIG, "s:3: unknown type \"text\"" },
    { "fields: [{name: a, type: integr}]", ET_ECONFIG, "Nearest: integer" },
    { "fields: [{name: a, type: {a: 1}}]", ET_ECONFIG, "type needs a text, not a group" },
    { "fields: [{name: a, type: real, lenght: 2}]", ET_ECONFIG, "Nearest: length" },
    { "fields: [{name: a, type: real, length: -2}]", ET_ECONFIG, "length is not a count" },
    { "fields: [{name: a, type: real, length: x}]", ET_ECONFIG, "length is not a count" },
    { "fields: [{name: a, type: real, length: 99999999999}]", ET_ECONFIG, "the length of a is" },
    { "fields: [{name: a, type: real, nullable: maybe}]", ET_ECONFIG,
      "nullable is not true or false" },
    { "fields: [{name: a, type: integer, fractions: 1}]", ET_ECONFIG,
      "fractions is not true or false" },
    { "fields: [{name: a, type: real, fractions: true}]", ET_ECONFIG,
      "s:1: fractions of a, which is real" },
    { "fields: [{name: a, type: real, notation: coma}]", ET_ECONFIG,
      "s:1: unknown notation \"coma\". Nearest: comma. Notations: point, comma" },
    { "fields: [{name: a, type: discrete, notation: comma}]", ET_ECONFIG,
      "s:1: notation of a, which is discrete" },
    { "fields: [{name: a, type: real, unit: kg}]", ET_ECONFIG,
      "s:1: unit of a without a notation" },
    { "fields: [{name: a, type: real, notation: point, unit: ''}]", ET_ECONFIG,
      "s:1: the unit of a: give 1 to 64 bytes" },
    { "fields: [{name: a, type: integer, default: none}]", ET_ECONFIG,
      "the default of a is \"none\", not a number" },
    { "fields: [{name: a, type: integer, default: 40.5}]", ET_ECONFIG,
      "the default of a is \"40.5\", not an integer: correct it, set fractions: true" },
    { "fields:\n- {name: a, type: real}\n- {name: b, type: real}\n- {name: a, type: real}",
      ET_ECONFIG, "s:4: a second field is called a (the first: line 2)" },
    { "fields: [{name: a, name: b, type: real}]", ET_EFORMAT, "s:1" },
    { "fields: [", ET_EFORMAT, "not YAML" },
    { "fields: [{name: \xff, type: real}]", ET_EFORMAT, "UTF-8" },
};

static void test_schema__bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        et_error error = ET_ERROR_INIT;
        et_schema *schema = NULL;
        assert_int_equal(et_schema_parse(&schema, bad[i].text, strlen(bad[i].text), "s", &error),
                         bad[i].status);
        assert_null(schema);
        assert_contains(error.text, bad[i].message);
    }
}

static void test_schema__bad_program(void **state)
{
    (void)state;
    static const struct {
        et_schema_field fields[2];
        int count;
        const char *message;
    } rows[] = {
        { { { .name = "a" } }, 0, "0 fields" },
        { { { .name = NULL } }, 1, "field 1: a field has no name: give it one" },
        { { { .name = "a" }, { .name = "a" } },
          2,
          "field 2: a second field is called a (the first: field 1)" },
        { { { .name = "a", .type = (et_schema_type)3 } }, 1, "the type of a, 3, is not" },
        { { { .name = "a", .length = -2 } }, 1, "the length of a is -2" },
        { { { .name = "\xc0" } }, 1, "not UTF-8" },
        { { { .name = "a", .type = ET_SCHEMA_DISCRETE, .missing = "\xc0" } }, 1, "not UTF-8" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        et_error error = ET_ERROR_INIT;
        et_schema *schema = NULL;
        assert_int_equal(et_schema_create(&schema, rows[i].fields, rows[i].count, &error),
                         ET_ECONFIG);
        assert_null(schema);
        assert_contains(error.text, rows[i].message);
    }
}

/* Bytes of a valid file changed at random give a schema or an error. */
static void test_schema__mutated(void **state)
{
    (void)state;
    unsigned seed = 5;
    for (int round = 0; round < 20000; round++) {
        char copy[sizeof text];
        memcpy(copy, text, sizeof text);
        for (int i = 0; i < 3; i++) {
            seed = seed * 1664525u + 1013904223u;
            copy[(seed >> 8) % (sizeof text - 1)] = (char)(seed >> 24);
        }
        et_schema *schema;
        et_error error = ET_ERROR_INIT;
        int status = et_schema_parse(&schema, copy, sizeof text - 1, "s", &error);
        if (!status)
            et_schema_free(schema);
        else
            assert_true((status == ET_ECONFIG || status == ET_EFORMAT) && *error.text);
    }
}

static void test_schema__scarce(void **state)
{
    (void)state;
    for (long n = 0;; n++) {
        et_schema *schema;
        et_error error = ET_ERROR_INIT;
        char *again;
        scarce_begin(n);
        int status = et_schema_parse(&schema, text, strlen(text), "s", &error);
        if (!status) {
            status = et_schema_format(schema, &again, &error);
            if (!status)
                et_free(again);
            et_schema_free(schema);
        }
        bool failed = scarce_failed;
        scarce_end();
        if (!failed) {
            assert_int_equal(status, ET_OK);
            return;
        }
        assert_int_equal(status, ET_ENOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schema__same),    cmocka_unit_test(test_schema__types),
        cmocka_unit_test(test_schema__bad),     cmocka_unit_test(test_schema__bad_program),
        cmocka_unit_test(test_schema__mutated), cmocka_unit_test(test_schema__scarce),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
