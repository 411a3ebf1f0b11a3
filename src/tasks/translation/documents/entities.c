#include "base/assert.h"
#include "tasks/translation/documents/document_private.h"

#include <string.h>

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define DIGITS  "0123456789"

/* Bytes of the longest name. */
#define NAME_MAX_BYTES 32

/* HTML's names of U+00A0 to U+00FF, in order. */
static const char *const latin1[] = {
    "nbsp",   "iexcl",  "cent",   "pound",  "curren", "yen",    "brvbar", "sect",   "uml",
    "copy",   "ordf",   "laquo",  "not",    "shy",    "reg",    "macr",   "deg",    "plusmn",
    "sup2",   "sup3",   "acute",  "micro",  "para",   "middot", "cedil",  "sup1",   "ordm",
    "raquo",  "frac14", "frac12", "frac34", "iquest", "Agrave", "Aacute", "Acirc",  "Atilde",
    "Auml",   "Aring",  "AElig",  "Ccedil", "Egrave", "Eacute", "Ecirc",  "Euml",   "Igrave",
    "Iacute", "Icirc",  "Iuml",   "ETH",    "Ntilde", "Ograve", "Oacute", "Ocirc",  "Otilde",
    "Ouml",   "times",  "Oslash", "Ugrave", "Uacute", "Ucirc",  "Uuml",   "Yacute", "THORN",
    "szlig",  "agrave", "aacute", "acirc",  "atilde", "auml",   "aring",  "aelig",  "ccedil",
    "egrave", "eacute", "ecirc",  "euml",   "igrave", "iacute", "icirc",  "iuml",   "eth",
    "ntilde", "ograve", "oacute", "ocirc",  "otilde", "ouml",   "divide", "oslash", "ugrave",
    "uacute", "ucirc",  "uuml",   "yacute", "thorn",  "yuml",
};

static const struct {
    const char *name;
    uint32_t code;
} others[] = {
    { "amp", '&' },      { "apos", '\'' },     { "bull", 0x2022 },  { "euro", 0x20AC },
    { "gt", '>' },       { "hellip", 0x2026 }, { "ldquo", 0x201C }, { "lsaquo", 0x2039 },
    { "lsquo", 0x2018 }, { "lt", '<' },        { "mdash", 0x2014 }, { "ndash", 0x2013 },
    { "bdquo", 0x201E }, { "OElig", 0x152 },   { "oelig", 0x153 },  { "quot", '"' },
    { "rdquo", 0x201D }, { "rsaquo", 0x203A }, { "rsquo", 0x2019 }, { "sbquo", 0x201A },
    { "Scaron", 0x160 }, { "scaron", 0x161 },  { "trade", 0x2122 }, { "zwj", 0x200D },
    { "zwnj", 0x200C },  { "ensp", 0x2002 },   { "emsp", 0x2003 },  { "thinsp", 0x2009 },
};

static bool is_name(const char *known, const char *name, size_t length)
{
    return strlen(known) == length && !memcmp(known, name, length);
}

static uint32_t code_of(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (is_name(others[i].name, name, length))
            return others[i].code;
    for (uint32_t i = 0; i < sizeof latin1 / sizeof *latin1; i++)
        if (is_name(latin1[i], name, length))
            return 0xA0 + i;
    return 0;
}

/* "160;" or "xA0;". 0: no character. */
static uint32_t code_of_number(const char *digits, size_t length)
{
    static const char values[] = "0123456789abcdef";
    const uint32_t base = *digits == 'x' || *digits == 'X' ? 16 : 10;
    uint32_t code = 0;
    for (size_t i = base == 16; i < length && code < 0x110000; i++) {
        const char c = (char)(digits[i] >= 'A' && digits[i] <= 'F' ? digits[i] + 32 : digits[i]);
        const char *value = memchr(values, c, base);
        if (!value)
            return 0;
        code = code * base + (uint32_t)(value - values);
    }
    return code < 0x20 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000) ? 0 : code;
}

size_t et_entity_read(const char *text, size_t length, uint32_t *code)
{
    et_assert(text && code);
    size_t count = 0;
    const bool number = length > 1 && text[1] == '#';
    const size_t start = number ? 2 : 1;
    while (start + count < length && count < NAME_MAX_BYTES && text[start + count] &&
           strchr(LETTERS DIGITS, text[start + count]))
        count++;
    *code = 0;
    if (!count || start + count >= length || text[start + count] != ';')
        return 0;
    *code = number ? code_of_number(text + start, count) : code_of(text + start, count);
    return start + count + 1;
}
