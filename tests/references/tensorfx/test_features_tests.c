/* TensorFX, tests/data/features_tests.py. A set copies its features. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <etude/feature_set.h>

static void check_feature(const et_feature_set *set, const char *name, et_transform type,
                          const char *field)
{
    const et_feature_spec *feature = et_feature_set_find(set, name);
    assert_non_null(feature);
    assert_string_equal(feature->name, name);
    assert_int_equal(feature->type, type);
    assert_int_equal(feature->field_count, 1);
    assert_string_equal(feature->fields[0], field);
}

static void test_features_tests__create_featureset(void **state)
{
    (void)state;
    static const char *const t = "t", *const x = "x";
    const et_feature_spec specs[] = {
        { .name = "t", .type = ET_TRANSFORM_TARGET, .fields = &t, .field_count = 1 },
        { .name = "x", .type = ET_TRANSFORM_IDENTITY, .fields = &x, .field_count = 1 },
    };
    et_feature_set *features;
    assert_int_equal(et_feature_set_create(&features, specs, 2, NULL), ET_OK);
    assert_int_equal(et_feature_set_count(features), 2);
    check_feature(features, "t", ET_TRANSFORM_TARGET, "t");
    et_feature_set_free(features);
}

static void test_features_tests__parse_featureset(void **state)
{
    (void)state;
    static const char spec[] = "features:\n"
                               "- name: target\n  type: target\n  fields: c1\n"
                               "- name: f1\n  type: identity\n  fields: c3\n";
    et_feature_set *features;
    assert_int_equal(et_feature_set_parse(&features, spec, strlen(spec), "spec", NULL), ET_OK);
    assert_int_equal(et_feature_set_count(features), 2);
    check_feature(features, "target", ET_TRANSFORM_TARGET, "c1");
    check_feature(features, "f1", ET_TRANSFORM_IDENTITY, "c3");
    et_feature_set_free(features);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_features_tests__create_featureset),
        cmocka_unit_test(test_features_tests__parse_featureset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
