#include "command/tabular/input_fields.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "data/table/analysis/column_use.h"
#include "data/table/schema/date_text.h"
#include "data/table/schema/schema.h"

/* Values of a list to choose from, and of those that a text field suggests. */
#define CLASSES_MAX     100
#define SUGGESTIONS_MAX 200

/* A date as inputs of browsers write it, in the arena of facts. NULL: the text is no date. */
static const char *iso_date(et_arena *arena, const char *text, et_date_order order,
                            const char **kind)
{
    et_date d;
    if (!et_date_read(&d, text, strlen(text), order))
        return NULL;
    *kind = order == ET_DATE_TIME ? "time" : strchr(text, ':') ? "datetime" : "date";
    if (order == ET_DATE_TIME)
        return et_arena_printf(arena, "%02d:%02d", d.hour, d.minute);
    if (strchr(text, ':'))
        return et_arena_printf(arena, "%04d-%02d-%02dT%02d:%02d", d.year, d.month + 1, d.day + 1,
                               d.hour, d.minute);
    return et_arena_printf(arena, "%04d-%02d-%02d", d.year, d.month + 1, d.day + 1);
}

/* The median, else the mean; whole for columns of integers. NaN: not known. */
static double typical_number(const et_schema_field *field, const et_column_metadata *m)
{
    const double value = m->quantile_count ? m->quantiles[m->quantile_count / 2]
                         : m->has_moments  ? m->mean
                                           : (double)NAN;
    return field->type == ET_SCHEMA_INTEGER ? nearbyint(value) : value;
}

/* The number in the column's notation: with a decimal comma where it has one. */
static const char *written_number(et_arena *arena, const et_schema_field *field, double value)
{
    et_strbuf text = ET_STRBUF_INIT;
    if (value == nearbyint(value) && fabs(value) < 1e15)
        et_strbuf_printf(&text, "%.0f", value);
    else
        et_strbuf_append_double(&text, value);
    char *copy = et_arena_strdup(arena, et_strbuf_text(&text));
    char *point = copy && field->notation == ET_NOTATION_COMMA ? strchr(copy, '.') : NULL;
    if (point)
        *point = ',';
    et_strbuf_release(&text);
    return copy;
}

static void describe_field(et_value *fields, et_value *row, const et_schema_field *field,
                           const et_column_metadata *m)
{
    et_value *f = et_value_add_dict(fields);
    const bool numeric = field->type != ET_SCHEMA_DISCRETE,
               single = !field->length || field->length == 1;
    const char *kind = numeric && single ? "number" : "text", *example = NULL;
    const double number = numeric && single ? typical_number(field, m) : (double)NAN;
    const bool dates = !numeric && single && m->dates > 0 && m->dates == m->count;
    const bool listed = !numeric && single && !dates && m->entry_count > 0;
    if (!isnan(number)) {
        example = written_number(fields->arena, field, number);
        if (number == nearbyint(number) && fabs(number) < 1e15)
            et_value_set_int(row, field->name, (int64_t)number);
        else
            et_value_set_float(row, field->name, number);
    } else if (dates) {
        kind = m->order == ET_DATE_TIME ? "time" : "date";
        if (m->entry_count)
            example = iso_date(fields->arena, m->entries[0], m->order, &kind);
    } else if (listed) {
        const bool whole = !m->cut && m->entry_count <= CLASSES_MAX && !et_column_is_key(m);
        kind = whole ? "class" : "text";
        example = m->entries[0];
    }
    et_value_set_string(f, "name", field->name);
    et_value_set_string(f, "kind", kind);
    if (example)
        et_value_set_string(f, "example", example);
    if (example && isnan(number))
        et_value_set_string(row, field->name, example);
    et_value *values = listed ? et_value_set_list(f, "values") : NULL;
    for (int i = 0; i < m->entry_count && i < SUGGESTIONS_MAX && values; i++)
        et_value_add_string(values, m->entries[i]);
}

void et_input_fields_describe(et_value *facts, const et_encoder *encoder,
                              const et_metadata *metadata)
{
    const et_schema *schema = et_encoder_schema(encoder);
    et_value *columns = et_value_set_list(facts, "columns");
    et_value *fields = et_value_set_list(facts, "fields");
    et_value *body = et_value_dict(facts->arena);
    et_value *row = et_value_add_dict(et_value_set_list(body, "rows"));
    et_strbuf text = ET_STRBUF_INIT;
    for (int i = 0; i < et_schema_count(schema); i++) {
        const et_schema_field *field = et_schema_at(schema, i);
        if (!et_encoder_reads(encoder, i, false))
            continue;
        et_value_add_string(columns, field->name);
        if (fields)
            describe_field(fields, row, field, et_metadata_find(metadata, field->name));
    }
    if (!et_value_failed(body))
        et_json_print(&text, body, 0);
    if (text.length)
        et_value_set_string(facts, "example", et_strbuf_text(&text));
    et_strbuf_release(&text);
}
