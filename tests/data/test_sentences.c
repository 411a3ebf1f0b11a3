/* Sentence breaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/text/strbuf.h"
#include "data/text/sentences.h"
#include "skip.h"

/* NULL: built without ICU, and the case is skipped. */
static et_sentences *open_sentences(const char *language)
{
    et_sentences *s = NULL;
    et_error error = ET_ERROR_INIT;
    int status = et_sentences_open(&s, language, &error);
    if (status == ET_ECONFIG) {
        assert_non_null(strstr(error.text, "libicu-dev"));
        test_skip("built without ICU");
    }
    assert_int_equal(status, ET_OK);
    return s;
}

/* A bar after each sentence. */
static void assert_cut(et_sentences *s, const char *text, const char *expected)
{
    et_strbuf out = ET_STRBUF_INIT;
    size_t from = 0, end;
    assert_true(et_sentences_begin(s, text, strlen(text)));
    for (; et_sentences_next(s, &end); from = end) {
        et_strbuf_append_bytes(&out, text + from, end - from);
        et_strbuf_append_char(&out, '|');
    }
    assert_int_equal(from, strlen(text));
    assert_string_equal(et_strbuf_text(&out), expected);
    et_strbuf_release(&out);
}

static void test_sentences__cut(void **state)
{
    (void)state;
    et_sentences *s = open_sentences("en");
    assert_cut(s, "A dog runs. It is fast!  Is it? Yes.",
               "A dog runs. |It is fast!  |Is it? |Yes.|");
    assert_cut(s, "Mr. Smith has 3.5 dogs. They run.", "Mr. Smith has 3.5 dogs. |They run.|");
    assert_cut(s, "\xc3\x84pfel. \xe4\xbb\x8a\xe5\xa4\xa9\xe3\x80\x82\xe6\x98\x8e\xe5\xa4\xa9",
               "\xc3\x84pfel. |\xe4\xbb\x8a\xe5\xa4\xa9\xe3\x80\x82|\xe6\x98\x8e\xe5\xa4\xa9|");
    assert_cut(s, "", "");
    assert_cut(s, " ", " |");
    et_sentences_close(s);
    s = open_sentences(NULL);
    assert_cut(s, "A dog. A cat.", "A dog. |A cat.|");
    et_sentences_close(s);
    et_sentences_close(NULL);
}

static void test_sentences__codes(void **state)
{
    static const char *const good[] = { "en", "pt-BR", "zh_Hans", "ast", "zh-Hans-CN" };
    static const char *const bad[] = { "",    "e",  "english", "en-",          "en-B",
                                       "en ", "e1", "en@x=y",  "en-123456789", "en--US" };
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!et_language_is_code(good[i]))
            fail_msg("%s: refused", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (et_language_is_code(bad[i]))
            fail_msg("%s: accepted", bad[i]);
    et_sentences *s = open_sentences("en");
    et_sentences_close(s);
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_sentences_open(&s, "english", &error), ET_EUSAGE);
    assert_null(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sentences__cut),
        cmocka_unit_test(test_sentences__codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
