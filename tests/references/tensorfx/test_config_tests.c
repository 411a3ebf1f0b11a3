/* TensorFX, tests/training/config_tests.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include <etude/job_config.h>

/* A master; distributed or without a cluster. */
static void check(et_job_config *config, bool distributed)
{
    assert_true(et_job_config_distributed(config) == distributed);
    assert_true((et_job_config_cluster(config) != NULL) == distributed);
    assert_non_null(et_job_config_task(config));
    assert_string_equal(et_job_config_task(config)->type, "master");
    assert_true(et_job_config_master(config));
    et_job_config_free(config);
}

static void test_config_tests__local_config(void **state)
{
    (void)state;
    et_job_config *config;
    assert_int_equal(et_job_config_local(&config, NULL), ET_OK);
    check(config, false);
}

static void test_config_tests__empty_env_config(void **state)
{
    (void)state;
    et_job_config *config;
    unsetenv(ET_JOB_CONFIG_VARIABLE);
    assert_int_equal(et_job_config_environment(&config, NULL), ET_OK);
    check(config, false);
}

static void test_config_tests__env_config(void **state)
{
    (void)state;
    et_job_config *config;
    setenv(ET_JOB_CONFIG_VARIABLE,
           "{\"task\": {\"type\": \"master\", \"index\": 0}, \"cluster\": {\"hosts\": []}}", 1);
    assert_int_equal(et_job_config_environment(&config, NULL), ET_OK);
    check(config, true);
    unsetenv(ET_JOB_CONFIG_VARIABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config_tests__local_config),
        cmocka_unit_test(test_config_tests__empty_env_config),
        cmocka_unit_test(test_config_tests__env_config),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
