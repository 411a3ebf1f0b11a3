/* Help from a row of a table: its type, its range and its default. Messages about values out of
 * range use the same words. Only memory can fail here; the buffer remembers it. */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "base/fields/fields.h"

/* For people; ORDER et_field_kind, by designator. */
static const char *const type_names[] = {
    [ET_FIELD_KIND_BOOL] = "bool",      [ET_FIELD_KIND_INT] = "integer",
    [ET_FIELD_KIND_FLOAT] = "number",   [ET_FIELD_KIND_STRING] = "text",
    [ET_FIELD_KIND_CHOICE] = "choice",  [ET_FIELD_KIND_STRINGS] = "texts",
    [ET_FIELD_KIND_STRUCTS] = "groups", [ET_FIELD_KIND_ONLY] = "fixed",
    [ET_FIELD_KIND_EPOCHS] = "epochs",
};

/* No limit of the type itself. Integers' limits are doubles in the table, where INT64_MAX has
 * become 2^63, so it is compared as a double as well. */
static bool is_open(const et_field *field, double limit)
{
    if (field->kind == ET_FIELD_KIND_INT)
        return limit <= (double)INT64_MIN || limit >= (double)INT64_MAX;
    return fabs(limit) >= DBL_MAX;
}

/* Whole numbers exactly, however large: %.15g has no sixteenth digit. For others it is enough for
 * every limit a person writes, and 0.1 stays 0.1. */
static void append_limit(const char *before, double limit, const char *behind, et_strbuf *out)
{
    char text[ET_COUNT_TEXT_MAX];
    if (limit == trunc(limit) && fabs(limit) < 0x1p63)
        et_count_text(text, (int64_t)limit);
    else
        snprintf(text, sizeof text, "%.15g", limit);
    et_strbuf_printf(out, "%s%s%s", before, text, behind);
}

void et_field_range(const et_field *field, et_strbuf *out)
{
    for (size_t i = 0; field->choices && field->choices[i]; i++)
        et_strbuf_printf(out, "%s%s", i ? ", " : "", field->choices[i]);
    if (field->kind == ET_FIELD_KIND_ONLY)
        et_strbuf_append(out, field->default_string ? "no other value" : "any value");
    /* Other kinds have no range: any text, either truth value. */
    if (field->kind != ET_FIELD_KIND_INT && field->kind != ET_FIELD_KIND_FLOAT)
        return;
    /* Whether there is a limit to speak of on either side. */
    bool low = !is_open(field, field->minimum), high = !is_open(field, field->maximum);
    if (low)
        append_limit("", field->minimum, high ? "" : " or more", out);
    if (high)
        append_limit(low ? " to " : "", field->maximum, low ? "" : " or less", out);
    if (field->epochs)
        et_strbuf_append(out, "; or epochs: 2ep");
}

const char *et_field_type(const et_field *field)
{
    return field->kind == ET_FIELD_KIND_STRUCT ? "group" : type_names[field->kind];
}

/* Lists have none but the empty one. */
void et_field_default(const et_field *field, et_strbuf *out)
{
    switch (field->kind) {
    case ET_FIELD_KIND_BOOL:
        et_strbuf_append(out, field->default_number != 0 ? "true" : "false");
        break;
    case ET_FIELD_KIND_CHOICE:
        et_strbuf_append(out, field->choices[(int)field->default_number]);
        break;
    case ET_FIELD_KIND_EPOCHS:
    case ET_FIELD_KIND_STRING:
    case ET_FIELD_KIND_ONLY:
        et_strbuf_append(out, field->default_string ? field->default_string : "null");
        break;
    case ET_FIELD_KIND_STRINGS:
    case ET_FIELD_KIND_STRUCTS:
        et_strbuf_append(out, field->single ? "null" : "[]");
        break;
    case ET_FIELD_KIND_INT:
        et_strbuf_printf(out, "%.0f", field->default_number);
        break;
    default:
        et_strbuf_printf(out, "%.15g", field->default_number);
        break;
    }
}
