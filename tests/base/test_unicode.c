#include "base/text/unicode.h"

#include <string.h>

#include "base/main.h"
#include "base/scarce.h"

static void test_unicode__valid(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t length;
        int bad; /* -1: valid */
    } cases[] = {
        { "", 0, -1 },
        { "plain", 5, -1 },
        { "a\0b", 3, -1 },
        { "\xc2\xa2\xe2\x82\xac\xf0\x9f\x98\x80", 9, -1 },
        { "\xf4\x8f\xbf\xbf", 4, -1 },    /* U+10FFFF */
        { "\xef\xbf\xbf", 3, -1 },        /* a noncharacter is a code point too */
        { "ab\x80", 3, 2 },               /* a single continuation byte */
        { "a\xe2\x82", 3, 1 },            /* cut */
        { "a\xe2\x82z", 4, 1 },           /* cut by a letter */
        { "\xc0\xaf", 2, 0 },             /* overlong in two */
        { "\xe0\x80\xaf", 3, 0 },         /* in three */
        { "\xf0\x80\x80\xaf", 4, 0 },     /* in four */
        { "\xed\xa0\x80", 3, 0 },         /* surrogate */
        { "\xf4\x90\x80\x80", 4, 0 },     /* U+110000 */
        { "\xf8\x88\x80\x80\x80", 5, 0 }, /* five bytes */
        { "\xff", 1, 0 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t offset = 99;
        bool valid = et_utf8_valid(cases[i].text, cases[i].length, &offset);
        assert_int_equal(valid, cases[i].bad < 0);
        assert_int_equal(offset, valid ? 99 : (size_t)cases[i].bad);
    }
}

/* Decoding and encoding of the first and last code of each length. */
static void test_unicode__round_trip(void **state)
{
    (void)state;
    static const uint32_t codes[] = { 0,      0x7F,   0x80,   0x7FF,   0x800,
                                      0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF };
    static const size_t sizes[] = { 1, 1, 2, 2, 3, 3, 3, 3, 4, 4 };
    et_codes out = ET_CODES_INIT;
    for (size_t i = 0; i < COUNT(codes); i++) {
        char bytes[4];
        size_t size = et_utf8_encode(bytes, codes[i]);
        assert_int_equal(size, sizes[i]);
        assert_int_equal(et_codes_decode(&out, bytes, size, NULL), 0);
        assert_int_equal(out.count, 1);
        assert_int_equal(out.items[0], codes[i]);
    }
    et_codes_release(&out);
}

static void test_unicode__decode_names_the_byte(void **state)
{
    (void)state;
    et_codes out = ET_CODES_INIT;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_codes_decode(&out, "\xc3\xa9\xfe", 3, &error), ET_EDATA);
    assert_string_equal(error.text, "byte 3 (0xFE) is not UTF-8; save the text as UTF-8");
    assert_int_equal(out.count, 0);
    et_codes_release(&out);
}

/* Expected: Python 3.11's str.lower(). */
static void test_unicode__lower(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "", "" },
        { "AZaz09[`{@", "azaz09[`{@" },
        { "ÄÖÜß ÉŁ", "äöüß éł" },
        { "ẞ", "ß" },
        { "İSTANBUL I", "i̇stanbul i" },
        { "ǅ ǆ Ǆ", "ǆ ǆ ǆ" },
        { "ⅣⓐⒶ", "ⅳⓐⓐ" },
        { "ЖЁ ԱՖ Ꭰ ႠᲐ", "жё աֆ ꭰ ⴀა" },
        { "\U00010400\U0001E900", "\U00010428\U0001E922" },
        { "ΟΔΟΣ", "οδος" },
        { "ΟΔΟΣ. ΣΑΣ", "οδος. σας" },
        { "Σ", "σ" },
        { "ΑΣΑ", "ασα" },
        { "ΑΣ.Α", "ασ.α" }, /* the dot is case-ignorable: a letter follows */
        { "Α.Σ", "α.ς" },
        { "1Σ", "1σ" },
        { "ΑΣ1", "ας1" },
        { "Α\u0301Σ\u0301!", "α\u0301ς\u0301!" },
        { "ªΣ", "ªς" }, /* cased without being a letter of either case */
        { "ΑΣʰ", "αςʰ" },
    };
    et_codes in = ET_CODES_INIT, out = ET_CODES_INIT;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[64];
        size_t length = 0;
        assert_int_equal(et_codes_decode(&in, cases[i][0], strlen(cases[i][0]), NULL), 0);
        assert_int_equal(et_codes_lower(&out, &in, NULL), 0);
        for (size_t k = 0; k < out.count; k++)
            length += et_utf8_encode(text + length, out.items[k]);
        text[length] = 0;
        assert_string_equal(text, cases[i][1]);
    }
    et_codes_release(&in);
    et_codes_release(&out);
}

/* Expected: Python's unicodedata and str.isspace(). */
static void test_unicode__classes(void **state)
{
    (void)state;
    enum { SPACE = 1, PUNCTUATION = 2, SYMBOL = 4, DIGIT = 8 };
    static const struct {
        uint32_t code;
        int classes;
    } cases[] = {
        { 0, 0 },
        { 8, 0 },
        { '\t', SPACE },
        { '\r', SPACE },
        { 0x0E, 0 },
        { 0x1B, 0 },
        { 0x1C, SPACE },
        { 0x1F, SPACE },
        { ' ', SPACE },
        { 0x85, SPACE },
        { 0xA0, SPACE },
        { 0x1680, SPACE },
        { 0x180E, 0 },
        { 0x2000, SPACE },
        { 0x200A, SPACE },
        { 0x200B, 0 },
        { 0x2028, SPACE },
        { 0x2029, SPACE },
        { 0x202F, SPACE },
        { 0x205F, SPACE },
        { 0x3000, SPACE },
        { 0xFEFF, 0 },
        { '!', PUNCTUATION },
        { '\\', PUNCTUATION },
        { '_', PUNCTUATION },
        { '-', PUNCTUATION },
        { '$', SYMBOL },
        { '+', SYMBOL },
        { '^', SYMBOL },
        { '|', SYMBOL },
        { '~', SYMBOL },
        { 0xA7, PUNCTUATION },
        { 0xA9, SYMBOL },
        { 0x2026, PUNCTUATION },
        { 0x3002, PUNCTUATION },
        { 0x20AC, SYMBOL },
        { 0x1F600, SYMBOL },
        { '0', DIGIT },
        { '9', DIGIT },
        { 0x661, DIGIT },
        { 0x967, DIGIT },
        { 0xFF15, DIGIT },
        { 0xBD, 0 },
        { 0xB2, 0 },
        { 0x2160, 0 },
        { 'a', 0 },
        { 0x4E00, 0 },
        { 0x301, 0 },
        { 0x10FFFF, 0 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint32_t code = cases[i].code;
        int classes = SPACE * et_unicode_is_space(code) |
                      PUNCTUATION * et_unicode_is_punctuation(code) |
                      SYMBOL * et_unicode_is_symbol(code) | DIGIT * et_unicode_is_digit(code);
        if (classes != cases[i].classes)
            fail_msg("U+%04X: %d, expected %d", code, classes, cases[i].classes);
    }
}

/* Codes one by one, and which of them are letters. */
static void test_unicode__letters(void **state)
{
    static const struct {
        const char *text;
        uint32_t code;
        size_t bytes;
        bool letter;
    } cases[] = {
        { "ab", 'a', 1, true },
        { "7", '7', 1, false },
        { "_", '_', 1, false },
        { "\xc3\xa4", 0xE4, 2, true },
        { "\xe4\xb8\x80", 0x4E00, 3, true },
        { "\xf0\x9f\x98\x80", 0x1F600, 4, false },
        { "\xc2\xaa", 0xAA, 2, true },
        { "\xcc\x81", 0x301, 2, false },
        { "\xff"
          "a",
          0xFFFD, 1, false },
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint32_t code;
        const size_t bytes = et_utf8_decode(cases[i].text, strlen(cases[i].text), &code);
        assert_int_equal(bytes, cases[i].bytes);
        assert_int_equal(code, cases[i].code);
        assert_int_equal(et_unicode_is_letter(code), cases[i].letter);
    }
}

static void test_unicode__allocation_fails(void **state)
{
    (void)state;
    int status = ET_ENOMEM;
    scarce_failed = true;
    for (long calls = 0; scarce_failed; calls++) {
        et_codes in = ET_CODES_INIT, out = ET_CODES_INIT;
        scarce_begin(calls);
        status = et_codes_decode(&in, "A\xc4\xb0", 3, NULL);
        if (!status)
            status = et_codes_lower(&out, &in, NULL);
        et_codes_release(&in);
        et_codes_release(&out);
        scarce_end();
        assert_int_equal(status, scarce_failed ? ET_ENOMEM : 0);
    }
}

static size_t columns(const char *text)
{
    return et_utf8_columns(text, strlen(text));
}

/* Wide characters have two columns, combining ones none, bytes that are not UTF-8 one each. */
static void test_unicode__columns(void **state)
{
    (void)state;
    assert_int_equal(columns(""), 0);
    assert_int_equal(columns("abc"), 3);
    assert_int_equal(columns("a\xc3\xa9\xe2\x82\xac"), 3);
    assert_int_equal(columns("e\xcc\x81"), 1);
    assert_int_equal(columns("\xe5\xb9\xb4\xe9\xbe\x84"), 4);
    assert_int_equal(columns("\xf0\x9f\x98\x80"), 2);
    assert_int_equal(columns("\xff\xe5\xb9"), 3);
    assert_int_equal(et_utf8_columns("abc", 2), 2);

    assert_int_equal(et_utf8_fitting("abc", 2), 2);
    assert_int_equal(et_utf8_fitting("abc", 3), 3);
    assert_int_equal(et_utf8_fitting("e\xcc\x81x", 1), 3);
    assert_int_equal(et_utf8_fitting("\xe5\xb9\xb4\xe9\xbe\x84", 3), 3);
    assert_int_equal(et_utf8_fitting("\xe5\xb9\xb4", 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unicode__columns),
        cmocka_unit_test(test_unicode__valid),
        cmocka_unit_test(test_unicode__round_trip),
        cmocka_unit_test(test_unicode__decode_names_the_byte),
        cmocka_unit_test(test_unicode__lower),
        cmocka_unit_test(test_unicode__classes),
        cmocka_unit_test(test_unicode__letters),
        cmocka_unit_test(test_unicode__allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
