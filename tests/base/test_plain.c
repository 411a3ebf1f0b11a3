#include "base/plain.h"
#include "base/text/strbuf.h"

#include <string.h>

#include "base/main.h"

static const struct {
    const char *text, *plain, *lines;
} rows[] = {
    { "", "", "" },
    { "a name, \"quoted\" \\ as ever", "a name, \"quoted\" \\ as ever",
      "a name, \"quoted\" \\ as ever" },
    { "a\nb\tc\rd", "a\\nb\\tc\\rd", "a\nb\tc\\rd" },
    { "\033[31mred\007", "\\u001b[31mred\\u0007", "\\u001b[31mred\\u0007" },
    { "\x7f\xc2\x80\xc2\x9b"
      "31m\xc2\x9f\xc2\xa0",
      "\\u007f\\u0080\\u009b31m\\u009f\xc2\xa0", "\\u007f\\u0080\\u009b31m\\u009f\xc2\xa0" },
    { "\u202atxt.\u202eexe\u2066\u2069", "\\u202atxt.\\u202eexe\\u2066\\u2069",
      "\\u202atxt.\\u202eexe\\u2066\\u2069" },
    { "\u061c\u200d\u200e\u200f\u2028\u2029\u202f",
      "\\u061c\u200d\\u200e\\u200f\\u2028\\u2029\u202f",
      "\\u061c\u200d\\u200e\\u200f\\u2028\\u2029\u202f" },
    { "Größe 日本語 \U0001f600", "Größe 日本語 \U0001f600", "Größe 日本語 \U0001f600" },
    { "\x9b[31m \xff \xc3", "\\x9b[31m \\xff \\xc3", "\\x9b[31m \\xff \\xc3" },
    { "\xc0\x9b \xed\xa0\x80 \xf5\x80\x80\x80", "\\xc0\\x9b \\xed\\xa0\\x80 \\xf5\\x80\\x80\\x80",
      "\\xc0\\x9b \\xed\\xa0\\x80 \\xf5\\x80\\x80\\x80" },
    { "\xef\xbf\xbe\xef\xbf\xbd", "\\ufffe\xef\xbf\xbd", "\\ufffe\xef\xbf\xbd" },
    { "\\u001b", "\\u001b", "\\u001b" }, /* twice is once */
};

static void test_plain__append(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        et_strbuf plain = ET_STRBUF_INIT, lines = ET_STRBUF_INIT;
        char copy[256];
        et_plain_append(&plain, rows[i].text);
        et_plain_append_lines(&lines, rows[i].text, strlen(rows[i].text));
        et_plain_copy(copy, sizeof copy, rows[i].text);
        assert_string_equal(et_strbuf_text(&plain), rows[i].plain);
        assert_string_equal(et_strbuf_text(&lines), rows[i].lines);
        assert_string_equal(copy, rows[i].plain);
        et_strbuf_release(&plain);
        et_strbuf_release(&lines);
    }
}

/* A 0 is a control character as others. */
static void test_plain__zero(void **state)
{
    et_strbuf out = ET_STRBUF_INIT;
    (void)state;
    et_plain_append_lines(&out, "a\0b\n", 4);
    assert_string_equal(et_strbuf_text(&out), "a\\u0000b\n");
    et_strbuf_release(&out);
}

/* Never cuts within an escape or a character. */
static void test_plain__cut(void **state)
{
    static const char text[] = "ab\033ö";
    static const char *const cut[] = { "",   "a",  "ab",        "ab",        "ab",        "ab",
                                       "ab", "ab", "ab\\u001b", "ab\\u001b", "ab\\u001bö" };
    (void)state;
    for (size_t i = 0; i < COUNT(cut); i++) {
        char to[16];
        memset(to, 'x', sizeof to);
        et_plain_copy(to, i + 1, text);
        assert_string_equal(to, cut[i]);
        assert_int_equal(to[i + 1], 'x');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain__append),
        cmocka_unit_test(test_plain__zero),
        cmocka_unit_test(test_plain__cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
