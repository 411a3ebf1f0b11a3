#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "command/web/guard.h"

static void test_listen__addresses(void **state)
{
    (void)state;
    assert_true(et_address_is_loopback("127.0.0.1"));
    assert_true(et_address_is_loopback("127.8.0.1"));
    assert_true(et_address_is_loopback("::1"));
    assert_true(et_address_is_loopback("localhost"));
    assert_false(et_address_is_loopback("0.0.0.0"));
    assert_false(et_address_is_loopback("::"));
    assert_false(et_address_is_loopback("::ffff:127.0.0.1"));
    assert_false(et_address_is_loopback("192.168.0.1"));
    assert_false(et_address_is_loopback("localhost.evil.org"));
    assert_true(et_address_is_number("[::1]"));
    assert_false(et_address_is_number("localhost"));
    assert_false(et_address_is_number("[127.0.0.1]"));
    assert_false(et_address_is_number(""));
}

static void test_listen__free_port(void **state)
{
    et_listener one, two;
    et_error error = ET_ERROR_INIT;
    char url[64];
    (void)state;
    assert_int_equal(et_listener_open(&one, "127.0.0.1", 0, &error), 0);
    assert_true(one.port > 0);
    snprintf(url, sizeof url, "http://127.0.0.1:%d/", one.port);
    assert_string_equal(one.url, url);
    assert_int_equal(et_listener_open(&two, "127.0.0.1", one.port, &error), ET_EBUSY);
    assert_non_null(
        strstr(error.text,
               "is in use by another server; give another --port N, or --port 0 for a free port"));
    assert_int_equal(two.fd, -1);
    et_listener_close(&one);
    assert_int_equal(et_listener_open(&two, "127.0.0.1", one.port, &error), 0);
    et_listener_close(&two);
}

static void test_listen__wrong_addresses(void **state)
{
    static const char *const wrong[] = { "", "example.org", "1.2.3", "1.2.3.4.5", "[::1]", "*" };
    et_listener l;
    et_error error = ET_ERROR_INIT;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(et_listener_open(&l, wrong[i], 0, &error), ET_EUSAGE);
        assert_non_null(strstr(
            error.text, "not a numeric address; give one such as 127.0.0.1, 0.0.0.0 or ::1"));
    }
    /* Of the block for documents: nobody has it. */
    assert_int_equal(et_listener_open(&l, "192.0.2.1", 0, &error), ET_EUSAGE);
    assert_non_null(strstr(error.text, "no such address"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_listen__addresses),
        cmocka_unit_test(test_listen__free_port),
        cmocka_unit_test(test_listen__wrong_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
