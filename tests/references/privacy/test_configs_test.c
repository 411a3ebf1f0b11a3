/* Model Garden, official/modeling/privacy/configs_test.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <etude/etude.h>

#include "calls.h"

static void test_configs_test__clipping_norm_default(void **state)
{
    (void)state;
    et_privacy_options options;
    et_fields_defaults(&et_privacy_fields, &options);
    assert_float_equal(options.clipping_norm, 100000000.0, 0);
}

static void test_configs_test__noise_multiplier_default(void **state)
{
    (void)state;
    et_privacy_options options;
    et_fields_defaults(&et_privacy_fields, &options);
    assert_float_equal(options.noise_multiplier, 0, 0);
}

static void test_configs_test__config(void **state)
{
    (void)state;
    et_privacy_options options;
    et_arena *arena = et_arena_new();
    et_settings settings = { .table = &et_privacy_fields, .options = &options, .arena = arena };
    et_fields_defaults(&et_privacy_fields, &options);
    assert_ok(et_settings_override(&settings, "clipping_norm=1.0, noise_multiplier=1.0", error));
    assert_float_equal(options.clipping_norm, 1, 0);
    assert_float_equal(options.noise_multiplier, 1, 0);
    et_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_configs_test__clipping_norm_default),
        cmocka_unit_test(test_configs_test__noise_multiplier_default),
        cmocka_unit_test(test_configs_test__config),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
