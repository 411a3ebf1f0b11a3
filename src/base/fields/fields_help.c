/* Help from a table: the range and the default of a member, and one line of help. Messages about
 * values out of range use the same words.
 *
 *   optimizer_config.optimizer.sgd.momentum   number    0 (0 to 1)  fraction of the last ...
 *
 * Only memory can fail here; the buffer remembers it. */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "base/fields/fields.h"
#include "base/fields/fields_scalar.h"

/* Longer paths push their line to the right and stay whole. */
#define PATH_WIDTH 40 /* columns of the help text */
#define TYPE_WIDTH 8

/* Words of the help text, for people; ORDER et_field_kind, by designator. At most TYPE_WIDTH. */
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
        et_strbuf_append(out, "[]");
        break;
    case ET_FIELD_KIND_INT:
        et_strbuf_printf(out, "%.0f", field->default_number);
        break;
    default:
        et_strbuf_printf(out, "%.15g", field->default_number);
        break;
    }
}

/* path: of the member, from the top. */
static void append_member(const et_field *field, et_strbuf *out, const char *path)
{
    /* Made first, to know whether there is anything to put in brackets. */
    et_strbuf range = ET_STRBUF_INIT;
    et_field_range(field, &range);
    et_strbuf_printf(out, "%-*s  %-*s  ", PATH_WIDTH, path, TYPE_WIDTH, type_names[field->kind]);
    et_field_default(field, out);
    if (range.length)
        et_strbuf_printf(out, " (%s)", et_strbuf_text(&range));
    et_strbuf_printf(out, "  %s\n", field->help ? field->help : "");
    /* A failure in a buffer of ours is one of the whole text's. */
    out->failed |= range.failed;
    et_strbuf_release(&range);
}

/* Nested tables come where they stand, each member with its whole path: what --set takes. */
void et_fields_help(const et_fields *table, et_strbuf *out, const char *path)
{
    for (const et_field *field = table->fields; field->kind != ET_FIELD_KIND_END; field++) {
        /* The path of this member, for as long as its line is made. */
        et_strbuf whole = ET_STRBUF_INIT;
        et_strbuf_printf(&whole, "%s%s%s", path, *path ? "." : "", field->name);
        out->failed |= whole.failed;
        if (field->kind == ET_FIELD_KIND_STRUCT)
            et_fields_help(field->nested, out, et_strbuf_text(&whole));
        else
            append_member(field, out, et_strbuf_text(&whole));
        if (field->kind == ET_FIELD_KIND_STRUCTS) {
            et_strbuf_append(&whole, "[]");
            et_fields_help(field->nested, out, et_strbuf_text(&whole));
        }
        et_strbuf_release(&whole);
    }
}
