#include "data/table/rows/look.h"

#include <stdbool.h>

#include "data/table/rows/date_text.h"
#include "data/table/rows/notation.h"

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
    if (is_date(text, length))
        return ET_LOOK_DATE;
    if (is_span(text, length))
        return ET_LOOK_SPAN;
    return et_notation_find(text, length).notations ? ET_LOOK_NUMBER : ET_LOOK_NONE;
}
