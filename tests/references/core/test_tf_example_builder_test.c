/* Model Garden, official/core/tf_example_builder_test.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <etude/example.h>

#include "calls.h"

static const et_bytes hello = { "Hello World!", 12 }, morning = { "Good Morning!", 13 };

static et_example_builder *new_builder(void)
{
    et_example_builder *builder = NULL;
    assert_ok(et_example_builder_new(&builder, NULL, error));
    return builder;
}

/* The message has exactly these features; frees the builder. */
static void assert_features(et_example_builder *builder, const et_feature *expected, size_t count)
{
    const void *bytes;
    size_t length;
    et_example *example;
    assert_ok(et_example_serialized(builder, &bytes, &length, error));
    assert_ok(et_example_parse(&example, bytes, length, error));
    assert_int_equal(example->count, count);
    for (size_t i = 0; i < count; i++) {
        const et_feature *e = expected + i, *f = et_example_find(example, e->key);
        assert_non_null(f);
        assert_int_equal(f->kind, e->kind);
        assert_int_equal(f->count, e->count);
        for (size_t k = 0; k < e->count && e->kind == ET_FEATURE_BYTES; k++) {
            assert_int_equal(f->bytes[k].length, e->bytes[k].length);
            assert_memory_equal(f->bytes[k].data, e->bytes[k].data, e->bytes[k].length);
        }
        if (e->kind == ET_FEATURE_INTS)
            assert_memory_equal(f->ints, e->ints, e->count * sizeof *e->ints);
        if (e->kind == ET_FEATURE_FLOATS)
            assert_memory_equal(f->floats, e->floats, e->count * sizeof *e->floats);
    }
    et_example_free(example);
    et_example_builder_free(builder);
}

static et_feature bytes_of(const char *key, const et_bytes *bytes, size_t count)
{
    return (et_feature){ .key = key, .kind = ET_FEATURE_BYTES, .count = count, .bytes = bytes };
}

static et_feature ints_of(const char *key, const int64_t *ints, size_t count)
{
    return (et_feature){ .key = key, .kind = ET_FEATURE_INTS, .count = count, .ints = ints };
}

static void test_tf_example_builder_test__init_an_empty_example(void **state)
{
    (void)state;
    et_example_builder *builder = new_builder();
    assert_int_equal(et_example_built(builder)->count, 0);
    assert_features(builder, NULL, 0);
}

static void test_tf_example_builder_test__init_an_empty_serialized_example(void **state)
{
    (void)state;
    et_example_builder *builder = new_builder();
    const void *bytes;
    size_t length = 1;
    assert_ok(et_example_serialized(builder, &bytes, &length, error));
    assert_int_equal(length, 0);
    et_example_builder_free(builder);
}

static void test_tf_example_builder_test__add_feature(void **state)
{
    (void)state;
    et_example_builder *builder = new_builder();
    const et_feature foo = bytes_of("foo", &hello, 1);
    et_example_add_feature(builder, &foo);
    assert_features(builder, &foo, 1);
}

static void test_tf_example_builder_test__add_feature_dict(void **state)
{
    (void)state;
    static const int64_t ints[] = { 299, 792, 458 };
    et_example_builder *builder = new_builder();
    const et_feature features[] = { bytes_of("foo", &hello, 1), ints_of("bar", ints, 3) };
    et_example_add_features(builder, features, 2);
    assert_features(builder, features, 2);
}

static void test_tf_example_builder_test__add_single_byte_feature(void **state)
{
    (void)state;
    et_example_builder *builder = new_builder(), *of_text = new_builder();
    const et_feature foo = bytes_of("foo", &hello, 1);
    assert_features(et_example_add_bytes(builder, "foo", &hello, 1), &foo, 1);
    assert_features(et_example_add_text(of_text, "foo", "Hello World!"), &foo, 1);
}

/* A list of texts is a list of bytes. */
static void test_tf_example_builder_test__add_multiple_bytes_feature(void **state)
{
    (void)state;
    const et_bytes both[] = { hello, morning };
    const et_feature foo = bytes_of("foo", both, 2);
    assert_features(et_example_add_bytes(new_builder(), "foo", both, 2), &foo, 1);
}

static void test_tf_example_builder_test__add_ints_feature(void **state)
{
    (void)state;
    static const int64_t ints[] = { 123, 456, 789 };
    for (size_t count = 1; count <= 3; count += 2) {
        const et_feature bar = ints_of("bar", ints, count);
        assert_features(et_example_add_ints(new_builder(), "bar", ints, count), &bar, 1);
    }
}

static void test_tf_example_builder_test__add_floats_feature(void **state)
{
    (void)state;
    static const float floats[] = { 3.14f, 1.57f, 6.28f };
    for (size_t count = 1; count <= 3; count += 2) {
        const et_feature baz = {
            .key = "baz", .kind = ET_FEATURE_FLOATS, .count = count, .floats = floats
        };
        assert_features(et_example_add_floats(new_builder(), "baz", floats, count), &baz, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tf_example_builder_test__init_an_empty_example),
        cmocka_unit_test(test_tf_example_builder_test__init_an_empty_serialized_example),
        cmocka_unit_test(test_tf_example_builder_test__add_feature),
        cmocka_unit_test(test_tf_example_builder_test__add_feature_dict),
        cmocka_unit_test(test_tf_example_builder_test__add_single_byte_feature),
        cmocka_unit_test(test_tf_example_builder_test__add_multiple_bytes_feature),
        cmocka_unit_test(test_tf_example_builder_test__add_ints_feature),
        cmocka_unit_test(test_tf_example_builder_test__add_floats_feature),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
