/* Numbers in text are the same in every locale. */
#include "base/numbers/decimal.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include <etude/loop_log.h>

#include "base/arena.h"
#include "base/values/json.h"
#include "base/values/yaml.h"
#include "formats/files.h"
#include "skip.h"

static void check(void)
{
    char text[40], *end;
    static const char given[] = "2.5e-3, and more";
    assert_true(et_decimal_read(given, &end) == 2.5e-3);
    assert_int_equal(end - given, 6);
    assert_int_equal(et_decimal_print(text, sizeof text, 3, 0, 0.125), 5);
    assert_string_equal(text, "0.125");
    assert_int_equal(et_decimal_print(text, sizeof text, 2, 1, -1234.5), 8);
    assert_string_equal(text, "-1234.50");
    et_arena arena = ET_ARENA_INIT;
    et_value *value = NULL;
    et_strbuf json = ET_STRBUF_INIT, yaml = ET_STRBUF_INIT;
    assert_int_equal(et_yaml_parse(&value, &arena, "a: 0.1\nb: 1e-8\n", 15, "text", NULL), 0);
    et_json_print(&json, value, 0);
    assert_string_equal(et_strbuf_text(&json), "{\"a\":0.1,\"b\":1.0e-08}");
    et_yaml_print(&yaml, value);
    assert_string_equal(et_strbuf_text(&yaml), "a: 0.1\nb: 1.0e-08\n");
    assert_int_equal(et_json_parse(&value, &arena, "{\"a\": 0.1}", 10, "text", NULL), 0);
    assert_true(et_value_get(value, "a")->real == 0.1);
    et_error error = ET_ERROR_INIT;
    et_fail_while(&error, et_fail(&error, ET_EFAIL, "%g", 1.5), "%.1f", 2.5);
    assert_string_equal(error.text, "2.5: 1.5");
    et_strbuf_reset(&json);
    et_strbuf_printf(&json, "%.5f", 1e15);
    assert_string_equal(et_strbuf_text(&json), "1000000000000000.00000");
    assert_string_equal(et_arena_printf(&arena, "%.15g", 0.1), "0.1");
    char duration[ET_DURATION_TEXT_MAX];
    et_humanize_duration(62.5, false, duration);
    assert_string_equal(duration, "1m 2.5s");
    et_strbuf_release(&json);
    et_strbuf_release(&yaml);
    et_arena_release(&arena);
}

static void test_decimal__point(void **state)
{
    (void)state;
    check();
}

/* The number that a text begins with, and how many of its bytes that is. */
static void test_decimal__parse(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t read;
        double value;
    } rows[] = {
        { "1.5,2", 3, 1.5 },
        { "-0", 2, -0.0 },
        { "7.", 2, 7 },
        { ".5e1x", 4, 5 },
        { "5e", 1, 5 },
        { "5e+", 1, 5 },
        { "1e-400", 6, 0 },
        { "-1e400", 6, -INFINITY },
        { "0e999999999", 11, 0 },
        { "0x10", 1, 0 },
        { "", 0, 7 },
        { "-", 0, 7 },
        { ".", 0, 7 },
        { "-.e5", 0, 7 },
        { "+1", 0, 7 },
        { " 1", 0, 7 },
        { "inf", 0, 7 },
        { "-nan", 0, 7 },
        { "e5", 0, 7 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double value = 7;
        if (et_decimal_parse(&value, rows[i].text, strlen(rows[i].text)) != rows[i].read ||
            memcmp(&value, &rows[i].value, sizeof value))
            fail_msg("'%s': %g", rows[i].text, value);
    }
    double value = 7; /* no byte beyond the length is read */
    assert_int_equal(et_decimal_parse(&value, "123", 2), 2);
    assert_true(value == 12);
}

/* A locale with a comma is made here, by the C library's own tool. */
static const char source[] =
    "LC_IDENTIFICATION\ntitle \"comma\"\nsource \"\"\naddress \"\"\ncontact \"\"\nemail \"\"\n"
    "tel \"\"\nfax \"\"\nlanguage \"\"\nterritory \"\"\nrevision \"\"\ndate \"\"\n"
    "category \"i18n:2012\";LC_IDENTIFICATION\nEND LC_IDENTIFICATION\n"
    "LC_CTYPE\ncopy \"POSIX\"\nEND LC_CTYPE\nLC_COLLATE\ncopy \"POSIX\"\nEND LC_COLLATE\n"
    "LC_MONETARY\ncopy \"POSIX\"\nEND LC_MONETARY\n"
    "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\ngrouping 3;3\nEND LC_NUMERIC\n"
    "LC_TIME\ncopy \"POSIX\"\nEND LC_TIME\nLC_MESSAGES\ncopy \"POSIX\"\nEND LC_MESSAGES\n";

static const char *comma_locale(const char *directory)
{
    char command[700];
    put_file("comma.locale", source, sizeof source - 1);
    snprintf(command, sizeof command,
             "localedef -c -i ./comma.locale -f UTF-8 '%s/xx_XX.UTF-8' >/dev/null 2>&1", directory);
    int ignored = system(command);
    (void)ignored;
    remove("comma.locale");
    setenv("LOCPATH", directory, 1);
    return setlocale(LC_ALL, "xx_XX.UTF-8");
}

static void test_decimal__comma(void **state)
{
    if (!comma_locale(*state))
        test_skip("localedef makes no locale here");
    assert_string_equal(localeconv()->decimal_point, ",");
    check();
    setlocale(LC_ALL, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decimal__point),
        cmocka_unit_test(test_decimal__parse),
        cmocka_unit_test(test_decimal__comma),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
