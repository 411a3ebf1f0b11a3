#include <etude/error.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <etude/log.h>

#include "base/main.h"

static void test_error__fail(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_fail(&error, ET_EDATA, "%s:%d: bad", "a.tsv", 7), ET_EDATA);
    assert_int_equal(error.status, ET_EDATA);
    assert_string_equal(error.text, "a.tsv:7: bad");
    assert_int_equal(et_fail(NULL, ET_EIO, "not wanted"), ET_EIO);
}

static void test_error__while(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_fail(&error, ET_EFORMAT, "length 3, expected 4");
    assert_int_equal(et_fail_while(&error, error.status, "reading %s", "x"), ET_EFORMAT);
    assert_string_equal(error.text, "reading x: length 3, expected 4");
    assert_int_equal(et_fail_while(NULL, ET_EIO, "reading"), ET_EIO);
}

static void hear(void *text, et_log_level level, const char *said)
{
    (void)level;
    snprintf(text, 64, "%s", said);
}

/* Names and values of others, in messages that anybody may print. */
static void test_error__plain(void **state)
{
    (void)state;
    static const char name[] = "a\033[31m\n\xc2\x9b\xff", plain[] = "a\\u001b[31m\\n\\u009b\\xff";
    char expected[256], heard[64];
    et_error error = ET_ERROR_INIT;
    et_fail(&error, ET_EDATA, "%s", name);
    assert_string_equal(error.text, plain);
    et_fail_while(&error, ET_EDATA, "%s", name);
    snprintf(expected, sizeof expected, "%s: %s", plain, plain);
    assert_string_equal(error.text, expected);
    errno = ENOENT;
    et_fail_errno(&error, "%s", name);
    assert_memory_equal(error.text, plain, strlen(plain));
    et_log_set(hear, heard);
    et_log(ET_LOG_WARNING, "%s", name);
    et_log_set(NULL, NULL);
    assert_string_equal(heard, plain);
}

/* Too long a text is cut, and stays terminated. */
static void test_error__cut(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_fail(&error, ET_EFAIL, "%02000d", 1);
    assert_int_equal(strlen(error.text), ET_ERROR_TEXT_MAX - 1);
    et_fail_while(&error, ET_EFAIL, "%s", "context");
    assert_int_equal(strlen(error.text), ET_ERROR_TEXT_MAX - 1);
    assert_memory_equal(error.text, "context: 000", 12);
    et_fail_while(&error, ET_EFAIL, "%02000d", 2);
    assert_int_equal(strlen(error.text), ET_ERROR_TEXT_MAX - 1);
}

static void test_error__errno(void **state)
{
    (void)state;
    static const struct {
        int number, status;
    } rows[] = { { ENOSPC, ET_ENOSPACE },  { EDQUOT, ET_ENOSPACE },   { ENOMEM, ET_ENOMEM },
                 { ENOENT, ET_ENOTFOUND }, { ENOTDIR, ET_ENOTFOUND }, { EACCES, ET_EDENIED },
                 { EROFS, ET_EDENIED },    { EISDIR, ET_EDENIED },    { EIO, ET_EIO },
                 { EFBIG, ET_ENOSPACE } };
    for (size_t i = 0; i < COUNT(rows); i++) {
        et_error error = ET_ERROR_INIT;
        errno = rows[i].number;
        assert_int_equal(et_fail_errno(&error, "cannot open %s", "f"), rows[i].status);
        assert_int_equal(error.status, rows[i].status);
        assert_memory_equal(error.text, "cannot open f: ", 15);
        assert_true(strlen(error.text) > 16);
        errno = rows[i].number;
        assert_int_equal(et_fail_errno(NULL, "cannot"), rows[i].status);
    }
}

/* The cure follows the system's message, and is cut like any text. */
static void test_error__cures(void **state)
{
    (void)state;
    static const struct {
        int number;
        const char *ending;
    } rows[] = { { ENOSPC, "; free some space or choose another directory" },
                 { ENOENT, ": No such file or directory; check the path" },
                 { EACCES, "; choose a directory that you may use, or change its permissions" },
                 { EROFS, "; choose a directory on another file system" },
                 { EADDRINUSE, "; end the process that listens there, or choose another port" },
                 { EIO, ": Input/output error" } };
    for (size_t i = 0; i < COUNT(rows); i++) {
        et_error error = ET_ERROR_INIT;
        errno = rows[i].number;
        et_fail_errno(&error, "cannot open %s", "f");
        size_t length = strlen(error.text), ending = strlen(rows[i].ending);
        assert_true(length > ending);
        assert_string_equal(error.text + length - ending, rows[i].ending);
        errno = rows[i].number;
        et_fail_errno(&error, "%01010d", 1);
        assert_int_equal(strlen(error.text), ET_ERROR_TEXT_MAX - 1);
    }
}

static void test_error__names(void **state)
{
    (void)state;
    for (int status = ET_OK; status <= ET_EDENIED; status++)
        assert_string_not_equal(et_status_name(status), "unknown status");
    assert_string_equal(et_status_name(-1), "unknown status");
    assert_string_equal(et_status_name(1000), "unknown status");
}

static void take(void *payload, et_log_level level, const char *text)
{
    assert_int_equal(level, ET_LOG_WARNING);
    strcpy(payload, text);
}

static void test_error__log(void **state)
{
    (void)state;
    char text[4096] = "";
    et_log(ET_LOG_ERROR, "dropped");
    et_log_set(take, text);
    et_log(ET_LOG_WARNING, "step %d", 4);
    assert_string_equal(text, "step 4");
    et_log(ET_LOG_WARNING, "%05000d", 4);
    assert_int_equal(strlen(text), 2047);
    et_log_set(NULL, NULL);
    et_log(ET_LOG_WARNING, "dropped");
    assert_int_equal(strlen(text), 2047);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error__plain), cmocka_unit_test(test_error__fail),
        cmocka_unit_test(test_error__while), cmocka_unit_test(test_error__cut),
        cmocka_unit_test(test_error__errno), cmocka_unit_test(test_error__cures),
        cmocka_unit_test(test_error__names), cmocka_unit_test(test_error__log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
