/* Model Garden, official/core/tf_example_feature_key_test.py: a builder puts its prefix before
 * keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <etude/example.h>

#include "calls.h"

static void assert_key(const char *prefix, const char *expected)
{
    et_example_builder *builder;
    assert_ok(et_example_builder_new(&builder, prefix, error));
    et_example_add_text(builder, "foo/bar", "x");
    assert_string_equal(et_example_built(builder)->features[0].key, expected);
    et_example_builder_free(builder);
}

static void test_tf_example_feature_key_test__add_prefix_success(void **state)
{
    (void)state;
    assert_key("prefix", "prefix/foo/bar");
}

static void test_tf_example_feature_key_test__add_prefix_skip_success(void **state)
{
    (void)state;
    assert_key(NULL, "foo/bar");
    assert_key("", "foo/bar");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tf_example_feature_key_test__add_prefix_success),
        cmocka_unit_test(test_tf_example_feature_key_test__add_prefix_skip_success),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
