/* TensorFX, tests/data/dataset_tests.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <etude/table_set.h>

static et_schema *schema_of(const char *const *names, int count)
{
    et_schema_field fields[2] = { { .name = names[0] }, { .name = names[count - 1] } };
    et_schema *schema;
    assert_int_equal(et_schema_create(&schema, fields, count, NULL), ET_OK);
    return schema;
}

static void test_dataset_tests__empty_dataset(void **state)
{
    (void)state;
    static const char *const x = "x";
    et_schema *schema = schema_of(&x, 1);
    const et_table_set_options options = { .schema = schema };
    et_table_set *ds;
    assert_int_equal(et_table_set_open(&ds, NULL, 0, &options, NULL), ET_OK);
    assert_int_equal(et_table_set_count(ds), 0);
    et_table_set_close(ds);
    et_schema_free(schema);
}

/* The base class: it can be in a data set, but nothing can be read. */
static const et_own_columns_class data_source_class = { .name = "DataSource" };

static void test_dataset_tests__create_dataset(void **state)
{
    (void)state;
    static const char *const x = "x";
    et_schema *schema = schema_of(&x, 1);
    const et_table_set_options options = { .schema = schema };
    et_own_columns own = { &data_source_class };
    et_table_columns *source;
    et_table_set *ds;
    assert_int_equal(et_own_columns_open(&source, &own, NULL), ET_OK);
    const et_table_set_member foo = { "foo", source };
    assert_int_equal(et_table_set_open(&ds, &foo, 1, &options, NULL), ET_OK);
    assert_ptr_equal(et_table_set_columns(ds, "foo"), source);
    et_source *batches;
    assert_int_equal(et_table_columns_read(&batches, source, NULL, NULL), ET_EUSAGE);
    et_table_set_close(ds);
    et_schema_free(schema);
}

static void test_dataset_tests__create_multi_source_dataset(void **state)
{
    (void)state;
    static const char *const fields[] = { "x", "y" };
    et_schema *schema = schema_of(fields, 2);
    const et_table_set_options options = { .schema = schema };
    et_table_columns *train, *eval;
    et_table_set *ds;
    assert_int_equal(et_csv_columns_open(&train, "...", NULL, NULL), ET_OK);
    assert_int_equal(et_csv_columns_open(&eval, "...", NULL, NULL), ET_OK);
    const et_table_set_member sources[] = { { "train", train }, { "eval", eval } };
    assert_int_equal(et_table_set_open(&ds, sources, 2, &options, NULL), ET_OK);
    assert_ptr_equal(et_table_set_columns(ds, "train"), train);
    assert_ptr_equal(et_table_set_columns(ds, "eval"), eval);
    assert_int_equal(et_table_set_count(ds), 2);
    for (int i = 0; i < 2; i++)
        assert_string_equal(et_table_columns_name(et_table_set_at(ds, i)), sources[i].name);
    et_table_set_close(ds);
    et_schema_free(schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dataset_tests__empty_dataset),
        cmocka_unit_test(test_dataset_tests__create_dataset),
        cmocka_unit_test(test_dataset_tests__create_multi_source_dataset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
