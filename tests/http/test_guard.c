#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "http/guard.h"

static const char *const names[] = { "models.example.org" };
static const et_http_guard guard = { .token = "abcdefghijklmnop", .hosts = names, .host_count = 1 };

static void test_guard__hosts(void **state)
{
    static const struct {
        const char *host;
        bool ours;
    } rows[] = {
        { "localhost", true },
        { "LocalHost:8080", true },
        { "127.0.0.1:8080", true },
        { "192.168.1.7", true },
        { "[::1]:8080", true },
        { "[::1]", true },
        { "models.example.org:80", true },
        { "Models.Example.Org", true },
        { "evil.example.org", false },
        { "127.0.0.1.evil.org", false },
        { "localhost.evil.org", false },
        { "evil.org#localhost", false },
        { "models.example.org.", false },
        { "", false },
        { ":8080", false },
        { "localhost:", true },
        { "localhost:80x", false },
        { "localhost:8080:80", false },
        { "localhost:123456", false },
        { "[::1", false },
        { "[localhost]", false },
        { "[127.0.0.1]", false },
        { "::1", false },
        { "user@localhost", false },
        { "localhost ", false },
        { "127.1", false },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (et_http_guard_host(&guard, rows[i].host) != rows[i].ours)
            fail_msg("%s: %s", rows[i].host, rows[i].ours ? "refused" : "accepted");
    char long_name[600];
    memset(long_name, 'a', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = 0;
    assert_false(et_http_guard_host(&guard, long_name));
}

static void test_guard__own_name(void **state)
{
    char name[256];
    (void)state;
    assert_int_equal(gethostname(name, sizeof name), 0);
    assert_true(et_http_guard_host(&guard, name));
}

static void test_guard__origins(void **state)
{
    (void)state;
    assert_true(et_http_guard_origin(&guard, "http://localhost:8080"));
    assert_true(et_http_guard_origin(&guard, "https://models.example.org"));
    assert_false(et_http_guard_origin(&guard, "http://evil.example.org"));
    assert_false(et_http_guard_origin(&guard, "null"));
    assert_false(et_http_guard_origin(&guard, "file://"));
    assert_false(et_http_guard_origin(&guard, "localhost"));
    assert_false(et_http_guard_origin(&guard, ""));
}

static void test_guard__tokens(void **state)
{
    const et_http_guard open = { .token = NULL };
    (void)state;
    assert_true(et_http_guard_token(&open, NULL));
    assert_false(et_http_guard_token(&guard, NULL));
    assert_true(et_http_guard_token(&guard, "Bearer abcdefghijklmnop"));
    assert_true(et_http_guard_token(&guard, "bearer abcdefghijklmnop"));
    assert_false(et_http_guard_token(&guard, "Basic abcdefghijklmnop"));
    assert_false(et_http_guard_token(&guard, "Bearer "));
    assert_false(et_http_guard_token(&guard, "Bearer abcdefghijklmno"));
    assert_false(et_http_guard_token(&guard, "Bearer abcdefghijklmnoq"));
    assert_false(et_http_guard_token(&guard, "Bearer abcdefghijklmnopabcdefghijklmnop"));
    assert_false(et_http_guard_token(&guard, "Bearer  abcdefghijklmnop"));
}

static void write_token(const char *text)
{
    FILE *file = fopen("token", "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void test_guard__token_files(void **state)
{
    char token[ET_TOKEN_MAX + 1];
    et_error error = ET_ERROR_INIT;
    (void)state;
    write_token("0123456789abcdef\nmore\n");
    assert_int_equal(et_http_token_read(token, "token", &error), 0);
    assert_string_equal(token, "0123456789abcdef");
    write_token("0123456789abcde\n");
    assert_int_equal(et_http_token_read(token, "token", &error), ET_EDATA);
    assert_non_null(strstr(error.text, "15 characters"));
    write_token("");
    assert_int_equal(et_http_token_read(token, "token", &error), ET_EDATA);
    write_token("0123456789 abcdef\n");
    assert_int_equal(et_http_token_read(token, "token", &error), ET_EDATA);
    assert_non_null(strstr(error.text, "byte 11"));
    remove("token");
    assert_int_equal(et_http_token_read(token, "token", &error), ET_ENOTFOUND);
}

static void test_guard__made_tokens(void **state)
{
    char one[ET_TOKEN_MAX + 1], two[ET_TOKEN_MAX + 1];
    (void)state;
    assert_int_equal(et_http_token_make(one, NULL), 0);
    assert_int_equal(et_http_token_make(two, NULL), 0);
    assert_int_equal(strlen(one), 64);
    assert_string_not_equal(one, two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_guard__hosts),       cmocka_unit_test(test_guard__own_name),
        cmocka_unit_test(test_guard__origins),     cmocka_unit_test(test_guard__tokens),
        cmocka_unit_test(test_guard__token_files), cmocka_unit_test(test_guard__made_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
