#include <etude/log.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/log_tap.h"

static void count(void *payload, et_log_level level, const char *text)
{
    *(int *)payload += level == ET_LOG_WARNING && !strcmp(text, "a warning of 3");
}

/* If the program has set a function, only it gets a message; else every tap does. */
static void test_log__function_or_taps(void **state)
{
    (void)state;
    int heard = 0, tapped[2] = { 0 };
    et_log_tap taps[2] = { { count, &tapped[0], NULL }, { count, &tapped[1], NULL } };
    et_log(ET_LOG_WARNING, "a warning of %d", 3);
    et_log_tap_add(&taps[0]);
    et_log_tap_add(&taps[1]);
    et_log(ET_LOG_WARNING, "a warning of %d", 3);
    et_log_set(count, &heard);
    et_log(ET_LOG_WARNING, "a warning of %d", 3);
    et_log_set(NULL, NULL);
    et_log_tap_remove(&taps[0]);
    et_log(ET_LOG_WARNING, "a warning of %d", 3);
    et_log_tap_remove(&taps[1]);
    et_log_tap_remove(&taps[1]);
    et_log(ET_LOG_WARNING, "a warning of %d", 3);
    assert_int_equal(heard, 1);
    assert_int_equal(tapped[0], 1);
    assert_int_equal(tapped[1], 2);
}

/* Warnings and errors are one line each; control characters in file names do not reach a terminal.
 */
static void test_log__to_stderr(void **state)
{
    (void)state;
    char text[400] = "";
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO);
    assert_non_null(file);
    fflush(stderr);
    assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
    et_log_to_stderr();
    et_log(ET_LOG_INFO, "not this");
    et_log(ET_LOG_WARNING, "%s: odd", "a\n\033[31mb\302\233c\303\244");
    et_log(ET_LOG_ERROR, "bad");
    et_log_set(NULL, NULL);
    fflush(stderr);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    rewind(file);
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    assert_string_equal(text, "warning: a\\n\\u001b[31mb\\u009bc\303\244: odd\nerror: bad\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log__function_or_taps),
        cmocka_unit_test(test_log__to_stderr),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
