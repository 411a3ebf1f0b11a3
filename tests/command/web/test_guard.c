#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command/web/guard.h"

static const char *const names[] = { "models.example.org" };
static const et_http_guard guard = {
    .token = "abcdefghijklmnop", .hosts = names, .host_count = 1, .port = 8080
};

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
    static const struct {
        const char *origin, *host;
        bool ours;
    } rows[] = {
        { "http://localhost:8080", "localhost:8080", true },
        { "HTTP://LocalHost:8080", "localhost:8080", true },
        { "http://127.0.0.1:8080", "localhost:8080", true },
        { "http://[::1]:8080", "localhost", true },
        { "http://192.168.1.7:8080", "192.168.1.7:8080", true },
        { "http://192.168.1.7", "192.168.1.7", true },
        { "http://192.168.1.7", "192.168.1.7:80", true },
        { "https://192.168.1.7", "192.168.1.7", true },
        { "https://192.168.1.7:443", "192.168.1.7", true },
        { "http://[2001:db8::1]:9", "[2001:db8::1]:9", true },
        { "http://localhost:9000", "localhost:9000", true }, /* a port that ssh passes on */
        { "https://models.example.org", "127.0.0.1:8080", true },
        { "http://203.0.113.5", "localhost:8080", false },
        { "http://203.0.113.5:8080", "localhost:8080", false },
        { "http://203.0.113.5:8080", "127.0.0.1:8080", false },
        { "http://192.168.1.7", "192.168.1.7:8080", false },
        { "http://192.168.1.7:81", "192.168.1.7", false },
        { "http://[2001:db8::1]", "[::1]:8080", false },
        { "http://localhost:3000", "localhost:8080", false },
        { "http://127.0.0.1", "127.0.0.1:8080", false },
        { "http://localhost", "", false },
        { "http://localhost:8080.evil.org", "localhost:8080", false },
        { "http://localhost:8080/", "localhost:8080", false },
        { "http://evil.example.org", "localhost:8080", false },
        { "http://evil.example.org", "evil.example.org",
          true }, /* the host is not looked at here */
        { "null", "null", false },
        { "file://", "", false },
        { "localhost", "localhost", false },
        { "", "", false },
    };
    (void)state;
    char own[256], origin[300];
    assert_int_equal(gethostname(own, sizeof own), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (et_http_guard_origin(&guard, rows[i].origin, rows[i].host) != rows[i].ours)
            fail_msg("%s of %s: %s", rows[i].origin, rows[i].host,
                     rows[i].ours ? "refused" : "accepted");
    snprintf(origin, sizeof origin, "http://%s:8080", own);
    assert_true(et_http_guard_origin(&guard, origin, "localhost:8080"));
    snprintf(origin, sizeof origin, "http://%s:8081", own);
    assert_false(et_http_guard_origin(&guard, origin, "localhost:8080"));
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
    chmod("token", 0600);
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
    write_token("0123456789abcdef");
    static const mode_t modes[] = { 0644, 0640, 0604, 0620, 0601 };
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        chmod("token", modes[i]);
        assert_int_equal(et_http_token_read(token, "token", &error), ET_EDENIED);
        assert_non_null(strstr(error.text, "chmod 600 token"));
    }
    chmod("token", 0400);
    assert_int_equal(et_http_token_read(token, "token", &error), 0);
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

/* Origins that a server shares its answers with. */
static void test_guard__shared(void **state)
{
    static const char *const some[] = { "https://a.example", "http://localhost:3000" };
    static const char *const all[] = { "*" };
    static const char *const good[] = { "*", "https://a.example", "http://localhost:3000",
                                        "https://[::1]:8", "http://127.0.0.1" };
    static const char *const bad[] = { "",
                                       "a.example",
                                       "https://",
                                       "https://a/",
                                       "https://a.example:",
                                       "ftp://a.example",
                                       "null",
                                       "https://A.example",
                                       "https://a b",
                                       "https://u@a",
                                       "https://*" };
    et_http_guard g = guard;
    (void)state;
    assert_null(et_http_guard_shared(&g, "https://a.example"));
    g.origins = some;
    g.origin_count = 2;
    assert_string_equal(et_http_guard_shared(&g, "https://a.example"), "https://a.example");
    assert_true(et_http_guard_origin(&g, "https://a.example", "localhost:8080"));
    assert_true(et_http_guard_origin(&g, "http://localhost:3000", "localhost:8080"));
    assert_null(et_http_guard_shared(&g, "http://a.example"));
    assert_false(et_http_guard_origin(&g, "https://a.example:1", "localhost:8080"));
    assert_false(et_http_guard_origin(&g, "null", "localhost:8080"));
    g.origins = all;
    g.origin_count = 1;
    assert_string_equal(et_http_guard_shared(&g, "https://b.example"), "*");
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!et_http_is_origin(good[i]))
            fail_msg("%s: refused", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (et_http_is_origin(bad[i]))
            fail_msg("%s: accepted", bad[i]);
    assert_true(et_http_guard_key(&guard, "abcdefghijklmnop"));
    assert_false(et_http_guard_key(&guard, "abcdefghijklmnoq"));
    assert_false(et_http_guard_key(&guard, ""));
    assert_false(et_http_guard_key(&guard, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_guard__shared),      cmocka_unit_test(test_guard__hosts),
        cmocka_unit_test(test_guard__own_name),    cmocka_unit_test(test_guard__origins),
        cmocka_unit_test(test_guard__tokens),      cmocka_unit_test(test_guard__token_files),
        cmocka_unit_test(test_guard__made_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
