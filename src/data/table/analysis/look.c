#include "data/table/analysis/look.h"

#include <stdbool.h>
#include <string.h>

#include "data/table/schema/date_text.h"
#include "data/table/schema/notation.h"

/* A date, or what is meant as one, such as 31.13.2024: three runs of digits of 1, 2 or 4 with the
 * same of - . / between. */
static bool is_date(const char *text, size_t length)
{
    if (et_date_orders(text, length))
        return true;
    size_t year = 0;
    char between = 0;
    for (int part = 0; part < 3; part++) {
        size_t digits = et_number_digits_at(text, length);
        if (digits != 1 && digits != 2 && digits != 4)
            return false;
        year += digits == 4;
        text += digits;
        length -= digits;
        if (part == 2)
            break;
        if (!length || (*text != '-' && *text != '.' && *text != '/') ||
            (between && *text != between))
            return false;
        between = *text++;
        length--;
    }
    return year <= 1 && (!length || *text == 'T' || *text == ' ');
}

/* A date with the name of a month in another language, or with signs: 2. Februar 2024, 2 de mayo de
 * 2024, 2024年5月2日. */
static bool is_foreign_date(const char *text, size_t length)
{
    size_t run[3] = { 0 }, runs = 0, letters = 0, between = 0;
    bool wide = true; /* no ASCII letters */
    for (size_t i = 0; i < length;) {
        const size_t digits = et_number_digits_at(text + i, length - i);
        const unsigned char c = (unsigned char)text[i];
        const bool ascii = (c | 32) >= 'a' && (c | 32) <= 'z';
        if (digits && runs == 3)
            return false;
        if (digits) {
            between = letters;
            letters = 0;
            run[runs++] = digits;
        } else if (!ascii && c < 0x80 && (!c || !strchr(" .,'", c)))
            return false;
        letters += ascii || c >= 0x80;
        wide = wide && !ascii;
        i += digits ? digits : 1;
    }
    return runs == 2 ? run[0] <= 2 && run[1] == 4 && between >= 3 && between <= 24 && !letters
                     : runs == 3 && run[0] == 4 && run[1] <= 2 && run[2] <= 2 && between && wide;
}

/* Hours, minutes and perhaps seconds: 36:15, 100:00:05.5. */
static bool is_span(const char *text, size_t length)
{
    size_t digits = et_number_digits_at(text, length), parts = 0;
    if (!digits)
        return false;
    for (text += digits, length -= digits; length && *text == ':'; text += 3, length -= 3, parts++)
        if (et_number_digits_at(text + 1, length - 1) != 2)
            return false;
    if (length && *text == '.')
        length -= 1 + et_number_digits_at(text + 1, length - 1);
    return !length && (parts == 1 || parts == 2);
}

et_look et_look_at(const char *text, size_t length)
{
    if (is_date(text, length) || is_foreign_date(text, length))
        return ET_LOOK_DATE;
    if (is_span(text, length))
        return ET_LOOK_SPAN;
    return et_notation_find(text, length).notations ? ET_LOOK_NUMBER : ET_LOOK_NONE;
}
