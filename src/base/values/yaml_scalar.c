/* The core schema is a list of regular expressions; each function below is one of them, so nothing
 * depends on what strtod accepts (hexadecimal floats, "infinity", leading blanks).
 *
 *   null, ~ and nothing   null           .nan            not a number
 *   true, false           truth values   [-+]?.inf       infinity
 *   12, -7, 0o17, 0x1f    integers       1.5, .5, 1e3    numbers (1e3 by the schema itself)
 *   everything else       text: yes, 1_000, 0b1, 12:30, 0x, 1.2.3
 *
 * Words have three spellings: null, Null, NULL. YAML 1.1's yes, no, on and off stay text; fields
 * that need a truth value accept them (fields_scalar.c). 017 is 17: octal is only 0o17. */
#include "base/numbers/decimal.h"
#include "base/values/yaml.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS "0123456789"

/* words end in NULL. */
static bool among(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(text, *words) == 0)
            return true;
    return false;
}

/* The words of the schema, in its three spellings each. */
static const char *const nulls[] = { "", "~", "null", "Null", "NULL", NULL };
static const char *const trues[] = { "true", "True", "TRUE", NULL };
static const char *const falses[] = { "false", "False", "FALSE", NULL };
static const char *const nans[] = { ".nan", ".NaN", ".NAN", NULL };
static const char *const infinities[] = { ".inf", ".Inf", ".INF", NULL };

/* The base of an integer and where its digits start: [-+]?[0-9]+ 0o[0-7]+ 0x[0-9a-fA-F]+;
 * 0: not an integer. */
static int integer_base(const char *text, const char **digits)
{
    int base = 10;
    *digits = text;
    /* These have no sign: -0x10 is text. */
    if (text[0] == '0' && (text[1] == 'o' || text[1] == 'x')) {
        base = text[1] == 'o' ? 8 : 16;
        *digits = text + 2;
    }
    const char *first = *digits + (base == 10 && (*text == '-' || *text == '+'));
    const char *const allowed = base == 8    ? "01234567"
                                : base == 16 ? DIGITS "abcdefABCDEF"
                                             : DIGITS;
    return *first && first[strspn(first, allowed)] == 0 ? base : 0;
}

/* [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)? */
static bool is_float(const char *text)
{
    text += *text == '-' || *text == '+';
    size_t whole = strspn(text, DIGITS), part = 0;
    text += whole;
    if (*text == '.') {
        part = strspn(text + 1, DIGITS);
        text += 1 + part;
    }
    /* A single point or sign is text. */
    if (whole + part == 0)
        return false;
    if (*text == 'e' || *text == 'E') {
        text += 1 + (text[1] == '-' || text[1] == '+');
        size_t exponent = strspn(text, DIGITS);
        /* "1e" and "1e+" are text. */
        if (exponent == 0)
            return false;
        text += exponent;
    }
    return *text == 0;
}

/* A value's kind and content change together. */
static void become_float(et_value *value, double real)
{
    value->kind = ET_VALUE_FLOAT;
    value->real = real;
}

static void become_bool(et_value *value, bool boolean)
{
    value->kind = ET_VALUE_BOOL;
    value->boolean = boolean;
}

/* Integers are tried before floats, because the float syntax accepts them too; no other kinds
 * overlap. Integers beyond 64 bits and floats beyond a double are refused, not rounded: a changed
 * seed or rate would go unnoticed. */
bool et_yaml_resolve(et_value *value, const char *text)
{
    const char *digits;
    const char *unsigned_text = text + (*text == '-' || *text == '+');
    int base = integer_base(text, &digits);
    if (base) {
        /* strtoll reports a number beyond 64 bits only by errno. */
        errno = 0;
        long long integer = strtoll(digits, NULL, base);
        if (errno)
            return false;
        value->kind = ET_VALUE_INT;
        value->integer = integer;
    } else if (is_float(text)) {
        const double real = et_decimal_read(text, NULL);
        if (!isfinite(real))
            return false;
        become_float(value, real);
    } else if (among(unsigned_text, infinities)) {
        become_float(value, *text == '-' ? -INFINITY : INFINITY);
    } else if (among(text, nans)) {
        become_float(value, NAN);
    } else if (among(text, trues)) {
        become_bool(value, true);
    } else if (among(text, falses)) {
        become_bool(value, false);
    } else if (among(text, nulls)) {
        value->kind = ET_VALUE_NULL;
    }
    return true;
}
