#include "base/text/strbuf.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/main.h"
#include "base/numbers/philox.h"
#include "base/scarce.h"

static void test_strbuf__appends(void **state)
{
    (void)state;
    et_strbuf buffer = ET_STRBUF_INIT;
    assert_string_equal(et_strbuf_text(&buffer), "");
    et_strbuf_append(&buffer, "step");
    et_strbuf_append_char(&buffer, ' ');
    et_strbuf_printf(&buffer, "%0100d", 7);
    et_strbuf_append_bytes(&buffer, "a\0b", 3);
    assert_int_equal(buffer.length, 4 + 1 + 100 + 3);
    assert_memory_equal(buffer.data + 104, "7a\0b", 5);
    et_strbuf_reset(&buffer);
    assert_string_equal(et_strbuf_text(&buffer), "");
    et_strbuf_append(&buffer, "again");
    char *text = et_strbuf_detach(&buffer);
    assert_string_equal(text, "again");
    et_free(text);
    text = et_strbuf_detach(&buffer);
    assert_string_equal(text, "");
    et_free(text);
    et_arena arena = ET_ARENA_INIT;
    et_strbuf_append_bytes(&buffer, "a\0b", 3);
    assert_memory_equal(et_strbuf_keep(&buffer, &arena), "a\0b", 4);
    assert_null(buffer.data);
    assert_string_equal(et_strbuf_keep(&buffer, &arena), "");
    et_arena_release(&arena);
}

static void test_strbuf__shell(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        { "runs/a-1.2=b,c:d@e%f+g^h", "runs/a-1.2=b,c:d@e%f+g^h" },
        { "", "''" },
        { "my runs/a", "'my runs/a'" },
        { "it's", "'it'\\''s'" },
        { "a;b", "'a;b'" },
        { ">>fra<<", "'>>fra<<'" },
        { "$HOME`id`\\", "'$HOME`id`\\'" },
        { "~a", "'~a'" },
        { "a\nb", "'a\nb'" },
        { "caf\xc3\xa9", "caf\xc3\xa9" },
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_string_equal(et_shell_quote(rows[i][0]).text, rows[i][1]);
}

static void test_strbuf__doubles(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *expected;
    } rows[] = {
        { 0, "0.0" },
        { -0.0, "-0.0" },
        { 4, "4.0" },
        { 0.1, "0.1" },
        { -1.5, "-1.5" },
        { 1e-8, "1.0e-08" },
        { 1e22, "1.0e+22" },
        { 1e23, "1.0e+23" },
        { 123456789, "123456789.0" },
        { 1.0 / 3, "0.3333333333333333" },
        { 5e-324, "5.0e-324" },
        { 1.25e-7, "1.25e-07" },
        { 0x1p-1017, "7.120236347223045e-307" },
        { DBL_MAX, "1.7976931348623157e+308" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        et_strbuf buffer = ET_STRBUF_INIT;
        et_strbuf_append_double(&buffer, rows[i].value);
        assert_string_equal(buffer.data, rows[i].expected);
        et_strbuf_release(&buffer);
    }
}

/* Any bits at all read back equal. */
static void test_strbuf__doubles_read_back(void **state)
{
    (void)state;
    et_random random = { 1, 0, et_random_site("doubles") };
    for (uint64_t i = 0; i < 3000; i++) {
        et_philox_block block = et_random_block(random, i);
        double value, back;
        memcpy(&value, block.word, sizeof value);
        if (!isfinite(value))
            continue;
        et_strbuf buffer = ET_STRBUF_INIT;
        et_strbuf_append_double(&buffer, value);
        back = strtod(buffer.data, NULL);
        assert_memory_equal(&value, &back, sizeof value);
        et_strbuf_release(&buffer);
    }
}

/* No text with fewer digits than the printed one reads back as the value. Below a power of two
 * doubles are twice as close: there a text with fewer digits than "%g" needs may be read back. */
static void check_shortest(double value)
{
    char text[40];
    int digits = 1, exponent;
    snprintf(text, sizeof text, "%.1g", value);
    while (digits < 17 && strtod(text, NULL) != value)
        snprintf(text, sizeof text, "%.*g", ++digits, value);
    et_strbuf buffer = ET_STRBUF_INIT;
    et_strbuf_append_double(&buffer, value);
    char *point = strstr(buffer.data, ".0");
    if (!strchr(text, '.')) { /* which "%g" leaves out */
        assert_non_null(point);
        memmove(point, point + 2, strlen(point + 2) + 1);
    }
    if (fabs(frexp(value, &exponent)) == 0.5 && strlen(buffer.data) < strlen(text))
        assert_true(strtod(buffer.data, NULL) == value);
    else
        assert_string_equal(buffer.data, text);
    et_strbuf_release(&buffer);
}

/* Doubles at powers of two, doubles with few bits, typed decimals, and any bits at all. */
static void test_strbuf__doubles_are_shortest(void **state)
{
    (void)state;
    et_random random = { 2, 0, et_random_site("doubles") };
    for (int exponent = -1074; exponent < 1024; exponent++)
        if (exponent < 0 || exponent > 49)
            check_shortest(ldexp(1, exponent));
    for (uint64_t i = 0; i < 2000; i++) {
        et_philox_block block = et_random_block(random, i);
        char typed[40];
        double any;
        memcpy(&any, block.word, sizeof any);
        if (isfinite(any))
            check_shortest(any);
        check_shortest(5e-324 * (1 + block.word[2] % 5000));
        snprintf(typed, sizeof typed, "0.%06ue-%u", block.word[2] % 999999 + 1, block.word[3] % 30);
        check_shortest(strtod(typed, NULL));
        check_shortest(0.5 + et_random_uniform(random, i) / 4);
    }
}

static void test_strbuf__out_of_memory(void **state)
{
    (void)state;
    for (long calls = 0; calls < 3; calls++) {
        scarce_begin(calls);
        et_strbuf buffer = ET_STRBUF_INIT;
        for (int i = 0; i < 20; i++)
            et_strbuf_printf(&buffer, "%010d", i);
        assert_true(buffer.failed);
        size_t length = buffer.length;
        et_strbuf_append(&buffer, "x"); /* ignored, though it would fit */
        assert_int_equal(buffer.length, length);
        et_arena arena = ET_ARENA_INIT;
        if (calls == 0)
            et_strbuf_release(&buffer);
        else if (calls == 1)
            assert_null(et_strbuf_detach(&buffer));
        else
            assert_null(et_strbuf_keep(&buffer, &arena));
        assert_int_equal(arena.failed, calls == 2);
        assert_null(buffer.data);
        scarce_end();
    }
}

static void test_strbuf__overflow(void **state)
{
    (void)state;
    et_strbuf buffer = ET_STRBUF_INIT;
    et_strbuf_append(&buffer, "some");
    et_strbuf_append_bytes(&buffer, "", SIZE_MAX - 2); /* refused before a byte is read */
    assert_true(buffer.failed);
    et_strbuf_release(&buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strbuf__appends),
        cmocka_unit_test(test_strbuf__shell),
        cmocka_unit_test(test_strbuf__doubles),
        cmocka_unit_test(test_strbuf__doubles_read_back),
        cmocka_unit_test(test_strbuf__doubles_are_shortest),
        cmocka_unit_test(test_strbuf__out_of_memory),
        cmocka_unit_test(test_strbuf__overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
