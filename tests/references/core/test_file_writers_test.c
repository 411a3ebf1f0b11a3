/* Model Garden, official/core/file_writers_test.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <etude/records.h>

#include "formats/files.h"

static int write_small_dataset(const char *path, const char *file_type, et_error *error)
{
    et_example_builder *builder;
    int status = et_example_builder_new(&builder, NULL, error);
    if (status)
        return status;
    et_example_add_text(builder, "foo", "Hello World!");
    status = et_records_write(path, file_type, &builder, 1, error);
    et_example_builder_free(builder);
    return status;
}

static void test_file_writers_test__write_small_dataset_success(void **state)
{
    static const char *const types[] = {
        "tfrecord",      "TFRecord", "tfrecords", "tfrecord_compressed", "TFRecord_Compressed",
        "tfrecords_gzip"
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const char *path = in(state, types[i]);
        assert_ok(write_small_dataset(path, types[i], error));
        assert_true(file_is_there(path));
    }
}

static void test_file_writers_test__write_small_dataset_unrecognized_format(void **state)
{
    assert_fails(write_small_dataset(in(state, "train"), "bar", error), ET_ECONFIG, "bar");
    assert_false(file_is_there(in(state, "train")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_writers_test__write_small_dataset_success),
        cmocka_unit_test(test_file_writers_test__write_small_dataset_unrecognized_format),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
