/* Code points of text, and their properties in Python's str. Categories and simple lower case come
 * from utf8proc, all else from the tables below: Unicode 15.0 as in Python 3
 * (Objects/unicodectype.c and its sources). Lower case, spaces and digits of ASCII, most of any
 * corpus, are answered without a table.
 *
 * UTF-8 (RFC 3629), which next_code reads and et_utf8_encode writes:
 *   U+0000  - U+007F      0xxxxxxx
 *   U+0080  - U+07FF      110xxxxx 10xxxxxx
 *   U+0800  - U+FFFF      1110xxxx 10xxxxxx 10xxxxxx        except U+D800 - U+DFFF
 *   U+10000 - U+10FFFF    11110xxx 10xxxxxx 10xxxxxx 10xxxxxx
 * The shortest form is the only valid one, so every text has one sequence of bytes.
 *
 * Lower case is one code to one code with two exceptions: U+0130 becomes i and U+0307, and a
 * capital sigma at the end of a word becomes the final one. Example: "ODYSSEUS" in Greek,
 * with two sigmas inside and one at its end, gets two small ones and a final one.
 *
 * To add a table: ranges that ascend and do not touch, and the file of Unicode it was made
 * from. */
#include "base/text/unicode.h"

#include <string.h>

#include <utf8proc.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/vector.h"

/* Special cases of lower case. */
enum {
    CAPITAL_I_DOT = 0x130,
    COMBINING_DOT = 0x307,
    CAPITAL_SIGMA = 0x3A3,
    SMALL_SIGMA = 0x3C3,
    FINAL_SIGMA = 0x3C2,
};

typedef struct range {
    uint32_t first, last; /* both belong to it */
} range;

/* Bidirectional class WS, B or S, or category Zs: what str.isspace() takes. */
static const range spaces[] = {
    { 0x09, 0x0D },     { 0x1C, 0x20 },     { 0x85, 0x85 },     { 0xA0, 0xA0 },
    { 0x1680, 0x1680 }, { 0x2000, 0x200A }, { 0x2028, 0x2029 }, { 0x202F, 0x202F },
    { 0x205F, 0x205F }, { 0x3000, 0x3000 },
};

/* Cased beyond Lu, Ll and Lt: Other_Lowercase and Other_Uppercase of PropList.txt 15.0. */
static const range other_cased[] = {
    { 0xAA, 0xAA },       { 0xBA, 0xBA },       { 0x2B0, 0x2B8 },     { 0x2C0, 0x2C1 },
    { 0x2E0, 0x2E4 },     { 0x345, 0x345 },     { 0x37A, 0x37A },     { 0x1D2C, 0x1D6A },
    { 0x1D78, 0x1D78 },   { 0x1D9B, 0x1DBF },   { 0x2071, 0x2071 },   { 0x207F, 0x207F },
    { 0x2090, 0x209C },   { 0x2160, 0x217F },   { 0x24B6, 0x24E9 },   { 0x2C7C, 0x2C7D },
    { 0xA69C, 0xA69D },   { 0xA770, 0xA770 },   { 0xA7F2, 0xA7F4 },   { 0xA7F8, 0xA7F9 },
    { 0xAB5C, 0xAB5F },   { 0xAB69, 0xAB69 },   { 0x10780, 0x10780 }, { 0x10783, 0x10785 },
    { 0x10787, 0x107B0 }, { 0x107B2, 0x107BA }, { 0x1E030, 0x1E06D }, { 0x1F130, 0x1F149 },
    { 0x1F150, 0x1F169 }, { 0x1F170, 0x1F189 },
};

/* Case-ignorable beyond Mn, Me, Cf, Lm and Sk: Word_Break MidLetter, MidNumLet, Single_Quote. */
static const range other_ignorable[] = {
    { 0x27, 0x27 },     { 0x2E, 0x2E },     { 0x3A, 0x3A },     { 0xB7, 0xB7 },
    { 0x387, 0x387 },   { 0x55F, 0x55F },   { 0x5F4, 0x5F4 },   { 0x2018, 0x2019 },
    { 0x2024, 0x2024 }, { 0x2027, 0x2027 }, { 0xFE13, 0xFE13 }, { 0xFE52, 0xFE52 },
    { 0xFE55, 0xFE55 }, { 0xFF07, 0xFF07 }, { 0xFF0E, 0xFF0E }, { 0xFF1A, 0xFF1A },
};

/* Elements of an array whose size is known here. */
#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* Whether code is in one of count ranges that ascend: a binary search for the first that does
 * not end before it. */
static bool within(uint32_t code, const range *ranges, size_t count)
{
    /* All before low end before code; all from high on do not. */
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (code > ranges[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && code >= ranges[low].first;
}

/* The next code of text, or -1; *size is set to its bytes. length > 0. utf8proc refuses overlong
 * forms, surrogates and codes above U+10FFFF. It takes an int as length, so it gets at most four
 * bytes, the longest code. */
static int32_t next_code(const unsigned char *text, size_t length, size_t *size)
{
    *size = 1;
    /* NUL too: it is a code like any other. */
    if (text[0] < 0x80)
        return text[0];
    utf8proc_int32_t code;
    utf8proc_ssize_t taken = utf8proc_iterate(text, length < 4 ? (int)length : 4, &code);
    if (taken <= 0)
        return -1;
    *size = (size_t)taken;
    return code;
}

size_t et_utf8_decode(const char *text, size_t length, uint32_t *code)
{
    size_t size;
    const int32_t read = next_code((const unsigned char *)text, length, &size);
    *code = read < 0 ? 0xFFFD : (uint32_t)read;
    return size;
}

size_t et_utf8_mark(const char *text, size_t length)
{
    return length >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
}

/* Columns of the character at text, which has *size bytes. Each byte that is not UTF-8 is shown as
 * one character. */
static size_t columns_of(const char *text, size_t length, size_t *size)
{
    const int32_t code = next_code((const unsigned char *)text, length, size);
    return code < 0 ? 1 : (size_t)utf8proc_charwidth(code);
}

size_t et_utf8_columns(const char *text, size_t length)
{
    size_t columns = 0, size;
    for (size_t at = 0; at < length; at += size)
        columns += columns_of(text + at, length - at, &size);
    return columns;
}

size_t et_utf8_fitting(const char *text, size_t columns)
{
    const size_t length = strlen(text);
    size_t at = 0, size;
    for (size_t used = 0; at < length; at += size) {
        used += columns_of(text + at, length - at, &size);
        if (used > columns)
            break;
    }
    return at;
}

size_t et_utf8_cut(const char *text, size_t length, size_t most)
{
    size_t count = length < most ? length : most;
    while (count < length && count && ((unsigned char)text[count] & 0xc0) == 0x80)
        count--;
    return count;
}

/* One pass. *offset: the first invalid byte, so that a message can name it. */
bool et_utf8_valid(const char *text, size_t length, size_t *offset)
{
    const unsigned char *bytes = (const unsigned char *)text;
    size_t size;
    for (size_t at = 0; at < length; at += size) {
        uint64_t word = 0;
        if (length - at >= sizeof word)
            memcpy(&word, bytes + at, sizeof word);
        /* Eight of ASCII at once. */
        if (length - at >= sizeof word && !(word & 0x8080808080808080u)) {
            size = sizeof word;
            continue;
        }
        if (next_code(bytes + at, length - at, &size) < 0) {
            if (offset)
                *offset = at;
            return false;
        }
    }
    return true;
}

void et_strbuf_append_code(et_strbuf *out, uint32_t code)
{
    char bytes[4];
    et_strbuf_append_bytes(out, bytes, et_utf8_encode(bytes, code));
}

size_t et_utf8_encode(char bytes[4], uint32_t code)
{
    et_assert(code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF));
    return (size_t)utf8proc_encode_char((utf8proc_int32_t)code, (utf8proc_uint8_t *)bytes);
}

int et_codes_reserve(et_codes *codes, size_t capacity, et_error *error)
{
    if (capacity <= codes->capacity)
        return 0;
    if (!ET_VECTOR_GROW(codes->items, codes->capacity, capacity))
        return et_alloc_failed(error, "code points of a line");
    return 0;
}

/* No text has more codes than bytes, so one reservation does. count stays 0 on an error. */
int et_codes_decode(et_codes *codes, const char *text, size_t length, et_error *error)
{
    codes->count = 0;
    if (et_codes_reserve(codes, length, error))
        return ET_ENOMEM;
    const unsigned char *bytes = (const unsigned char *)text;
    size_t size, count = 0;
    for (size_t at = 0; at < length; at += size) {
        int32_t code = next_code(bytes + at, length - at, &size);
        if (code < 0)
            return et_fail(error, ET_EDATA,
                           "byte %zu (0x%02X) is not UTF-8; save the text as UTF-8", at + 1,
                           bytes[at]);
        codes->items[count++] = (uint32_t)code;
    }
    codes->count = count;
    return 0;
}

static utf8proc_category_t category(uint32_t code)
{
    return utf8proc_category((utf8proc_int32_t)code);
}

/* Unicode's property Cased (chapter 3.13, D135): characters that are lower, upper or title case. */
static bool cased(uint32_t code)
{
    utf8proc_category_t kind = category(code);
    return kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL ||
           kind == UTF8PROC_CATEGORY_LT || within(code, other_cased, COUNT(other_cased));
}

/* Property Case_Ignorable (D136): characters that may occur inside a word without ending it, such
 * as an apostrophe or an accent. */
static bool case_ignorable(uint32_t code)
{
    utf8proc_category_t kind = category(code);
    return kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_ME ||
           kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_LM ||
           kind == UTF8PROC_CATEGORY_SK || within(code, other_ignorable, COUNT(other_ignorable));
}

/* Final_Sigma of the Unicode standard, table 3-17: a cased letter before the sigma and none after
 * it, ignoring case-ignorable characters. A run of those is walked at most twice, because a sigma
 * ends it. */
static bool ends_word(const et_codes *line, size_t sigma)
{
    size_t at = sigma;
    while (at > 0 && case_ignorable(line->items[at - 1]))
        at--;
    if (at == 0 || !cased(line->items[at - 1]))
        return false;
    /* After it: case-ignorable ones aside, no cased letter may follow. */
    at = sigma + 1;
    while (at < line->count && case_ignorable(line->items[at]))
        at++;
    return at == line->count || !cased(line->items[at]);
}

/* Lower case of one code in its line; only sigma depends on its neighbours. */
static uint32_t lower(const et_codes *line, size_t at)
{
    uint32_t code = line->items[at];
    /* ASCII has no exceptions. */
    if (code < 0x80)
        return code >= 'A' && code <= 'Z' ? code + ('a' - 'A') : code;
    if (code == CAPITAL_SIGMA)
        return ends_word(line, at) ? FINAL_SIGMA : SMALL_SIGMA;
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)code);
}

/* The length is known before: one more for each U+0130. */
int et_codes_lower(et_codes *out, const et_codes *in, et_error *error)
{
    et_assert(out != in);
    size_t count = in->count;
    for (size_t i = 0; i < in->count; i++)
        count += in->items[i] == CAPITAL_I_DOT;
    out->count = 0;
    if (et_codes_reserve(out, count, error))
        return ET_ENOMEM;
    /* Room for all of it is there, so nothing below fails. */
    uint32_t *to = out->items;
    for (size_t i = 0; i < in->count; i++) {
        if (in->items[i] == CAPITAL_I_DOT) {
            *to++ = 'i';
            *to++ = COMBINING_DOT;
        } else {
            *to++ = lower(in, i);
        }
    }
    out->count = count;
    return 0;
}

uint32_t et_unicode_upper(uint32_t code)
{
    return (uint32_t)utf8proc_toupper((utf8proc_int32_t)code);
}

uint32_t et_unicode_lower(uint32_t code)
{
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)code);
}

/* Ready for use again, as after ET_CODES_INIT. */
void et_codes_release(et_codes *codes)
{
    et_free(codes->items);
    *codes = (et_codes)ET_CODES_INIT;
}

bool et_unicode_is_space(uint32_t code)
{
    if (code < 0x80)
        return code == ' ' || (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x1F);
    return within(code, spaces, COUNT(spaces));
}

/* utf8proc's constants have the order of Unicode's table of categories: PC, PD, PS, PE, PI, PF, PO,
 * and SM, SC, SK, SO; each group is one range. */
bool et_unicode_is_punctuation(uint32_t code)
{
    utf8proc_category_t kind = category(code);
    return kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
}

bool et_unicode_is_symbol(uint32_t code)
{
    utf8proc_category_t kind = category(code);
    return kind >= UTF8PROC_CATEGORY_SM && kind <= UTF8PROC_CATEGORY_SO;
}

bool et_unicode_is_letter(uint32_t code)
{
    utf8proc_category_t kind = category(code);
    return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool et_unicode_is_digit(uint32_t code)
{
    if (code < 0x80)
        return code >= '0' && code <= '9';
    return category(code) == UTF8PROC_CATEGORY_ND;
}
