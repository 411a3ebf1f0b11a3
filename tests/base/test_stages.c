#include "base/stages.h"

#include <etude/error.h>

#include "base/main.h"

/* What ran, in order; the second may fail. */
typedef struct record {
    char ran[8];
    int count, fails;
} record;

static int first(record *r, et_error *error)
{
    (void)error;
    r->ran[r->count++] = 'a';
    return ET_OK;
}

static int second(record *r, et_error *error)
{
    r->ran[r->count++] = 'b';
    return r->fails ? et_fail(error, ET_EDATA, "the second") : ET_OK;
}

static int third(record *r, et_error *error)
{
    (void)error;
    r->ran[r->count++] = 'c';
    return ET_OK;
}

static int (*const stages[])(record *, et_error *) = { first, second, third };

static void test_stages__in_order(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    record r = { .count = 0 };
    int status = ET_OK;
    ET_STAGES_RUN(status, stages, &r, &error);
    assert_int_equal(status, ET_OK);
    assert_string_equal(r.ran, "abc");
}

static void test_stages__first_failure(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    record r = { .fails = 1 };
    int status = ET_OK;
    ET_STAGES_RUN(status, stages, &r, &error);
    assert_int_equal(status, ET_EDATA);
    assert_string_equal(error.text, "the second");
    assert_string_equal(r.ran, "ab");
}

static void test_stages__failed_before(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    record r = { .count = 0 };
    int status = ET_EFORMAT;
    ET_STAGES_RUN(status, stages, &r, &error);
    assert_int_equal(status, ET_EFORMAT);
    assert_int_equal(r.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages__in_order),
        cmocka_unit_test(test_stages__first_failure),
        cmocka_unit_test(test_stages__failed_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
