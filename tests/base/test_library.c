#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/files/library.h"

/* Of the mathematical library, which is linked, but could be any. */
typedef struct calls {
    double (*floor)(double);
    double (*hypot)(double, double);
} calls;

static const char *const names[] = { "floor", "hypot" };

static void test_library__is_loaded_once(void **state)
{
    (void)state;
    const et_library library = { "libm.so.6", "mathematics", names, 2 };
    calls first = { 0 }, again;
    assert_int_equal(et_library_load(&library, &first, NULL), ET_OK);
    assert_true(first.floor(2.5) == 2 && first.hypot(3, 4) == 5);
    again = first;
    assert_int_equal(et_library_load(&library, &again, NULL), ET_OK);
    assert_memory_equal(&again, &first, sizeof first);
}

/* A failure leaves no functions set. */
static void test_library__errors(void **state)
{
    (void)state;
    static const char *const wrong_names[] = { "floor", "hypotenuse" };
    const et_library absent = { "libabsent.so.7", "Absence", names, 2 };
    const et_library wrong = { "libm.so.6", "mathematics", wrong_names, 2 };
    const calls none = { 0 };
    calls of = { 0 };
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_library_load(&absent, &of, &error), ET_ENOTFOUND);
    assert_non_null(strstr(error.text, "Absence; install its package:"));
    assert_non_null(strstr(error.text, "libabsent.so.7"));
    assert_memory_equal(&of, &none, sizeof of);
    error = (et_error)ET_ERROR_INIT;
    assert_int_equal(et_library_load(&wrong, &of, &error), ET_ENOTFOUND);
    assert_string_equal(error.text, "mathematics has another version: libm.so.6 has no hypotenuse");
    assert_memory_equal(&of, &none, sizeof of);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_library__is_loaded_once),
        cmocka_unit_test(test_library__errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
