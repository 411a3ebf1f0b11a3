#include "data/table/features/unknown_values.h"

#include <stdio.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/format.h"
#include "base/text/unicode.h"
#include "data/table/features/encoder_private.h"
#include "data/table/schema/notation.h"
#include "data/table/schema/schema.h"

int et_unknown_values_open(et_unknown_values *self, const et_encoder *encoder,
                           const et_metadata *metadata, et_error *error)
{
    const et_schema *schema = et_encoder_schema(encoder);
    const size_t columns = (size_t)et_schema_count(schema);
    *self =
        (et_unknown_values){ .encoder = encoder, .metadata = metadata, .columns = (int)columns };
    self->column = et_alloc_zero(columns, sizeof *self->column);
    self->entries = et_alloc(columns, sizeof *self->entries);
    if (!self->column || !self->entries) {
        et_unknown_values_release(self);
        return et_alloc_failed(error, "columns");
    }
    for (int i = 0; i < self->columns; i++) {
        const et_schema_field *f = et_schema_at(schema, i);
        self->column[i].name = f->name;
        /* The levels of the metadata, if they are all that the model knows. */
        const et_column_metadata *m = et_metadata_find(metadata, f->name);
        const bool all = m->entry_count > 0 && !m->cut && f->type == ET_SCHEMA_DISCRETE;
        const bool known = encoder->levels[i] == ET_LEVELS_KNOWN ||
                           (encoder->levels[i] == ET_LEVELS_HASHED && all);
        self->entries[i] = known ? et_metadata_position(metadata, f->name) : -1;
    }
    return ET_OK;
}

void et_unknown_values_release(et_unknown_values *self)
{
    et_free(self->column);
    et_free(self->entries);
    *self = (et_unknown_values)ET_UNSEEN_INIT;
}

/* ---- counting ---- */

static void add_value(et_unknown_values *self, int field, const et_reading *value, int64_t row)
{
    et_unknown_values_column *column = &self->column[field];
    char buffer[32];
    size_t length;
    if (value->missing) {
        /* Counts a value that training never lacked, and that has no replacement in the schema. */
        const et_schema_field *f = et_schema_at(et_encoder_schema(self->encoder), field);
        const et_column_metadata *m = et_metadata_find(self->metadata, f->name);
        if (et_encoder_reads(self->encoder, field, false) && !f->missing && m->count > 0 &&
            !m->missing && !column->missing++)
            column->first_absent = row;
        return;
    }
    if (self->entries[field] < 0)
        return;
    const char *text = et_level_text(value, buffer, &length);
    if (et_metadata_entry_at(self->metadata, self->entries[field], text, length) >= 0 ||
        column->unknown++)
        return;
    column->first = row;
    length = length < sizeof column->value ? length : sizeof column->value - 1;
    et_utf8_valid(text, length, &length);
    memcpy(column->value, text, length);
    column->value[length] = 0;
}

static et_reading read_cell(const et_schema_field *field, const et_cell *cell)
{
    et_reading value = { .text = cell->text,
                         .length = cell->length,
                         .numeric = et_schema_numeric(field),
                         .missing = !cell->text };
    const et_number_format format = et_number_format_of(field);
    if (value.numeric && cell->text &&
        !et_number_is(et_notation_parse(&value.number, &format, cell->text, cell->length)))
        value.numeric = false; /* which no encoder takes */
    return value;
}

void et_unknown_values_add(et_unknown_values *self, const et_cell *cells, const et_reading *values,
                           int64_t row)
{
    const et_schema *schema = et_encoder_schema(self->encoder);
    et_assert(!cells != !values);
    self->rows++;
    for (int i = 0; i < self->columns; i++) {
        const int begin = et_encoder_cell(self->encoder, i);
        if (!et_encoder_reads(self->encoder, i, false))
            continue;
        for (int k = begin; k < begin + et_encoder_cell_count(self->encoder, i); k++) {
            const et_reading value =
                cells ? read_cell(et_schema_at(schema, i), &cells[k]) : values[k];
            for (size_t at = 0; value.list && at < value.count; at++)
                add_value(self, i, &value.list[at], row);
            if (!value.list)
                add_value(self, i, &value, row);
        }
    }
}

void et_unknown_values_clear(et_unknown_values *self)
{
    for (int i = 0; i < self->columns; i++)
        self->column[i] = (et_unknown_values_column){ .name = self->column[i].name };
    self->rows = 0;
}

void et_unknown_values_take(et_unknown_values *self, et_unknown_values *from)
{
    et_assert(self->encoder == from->encoder);
    for (int i = 0; i < self->columns; i++) {
        et_unknown_values_column *to = &self->column[i], *other = &from->column[i];
        if (!to->unknown) {
            to->first = other->first;
            memcpy(to->value, other->value, sizeof to->value);
        }
        if (!to->missing)
            to->first_absent = other->first_absent;
        to->unknown += other->unknown;
        to->missing += other->missing;
    }
    self->rows += from->rows;
    et_unknown_values_clear(from);
}

/* ---- saying ---- */

bool et_unknown_values_describe(const et_unknown_values *self, int *at, const char *where,
                                et_unknown_values_text *text)
{
    for (; *at < 2 * self->columns; ++*at) {
        const et_unknown_values_column *c = &self->column[*at / 2];
        const bool unknown = *at % 2 == 0;
        const int64_t count = unknown ? c->unknown : c->missing;
        if (!count)
            continue;
        const int64_t all = self->rows * et_encoder_cell_count(self->encoder, *at / 2);
        int used =
            snprintf(text->text, sizeof text->text, "%.60s: %s of %s values ", c->name,
                     et_format_count(count).text, et_format_count(all > count ? all : count).text);
        if (unknown)
            snprintf(text->text + used, sizeof text->text - (size_t)used,
                     "unknown to the model, first \"%s\" in %s %lld", c->value, where,
                     (long long)c->first);
        else
            snprintf(text->text + used, sizeof text->text - (size_t)used,
                     "missing, and none was missing in training, first in %s %lld", where,
                     (long long)c->first_absent);
        ++*at;
        return true;
    }
    return false;
}

void et_unknown_values_warn(const et_unknown_values *self)
{
    et_unknown_values_text text;
    int at = 0;
    while (et_unknown_values_describe(self, &at, "line", &text))
        et_log(ET_LOG_WARNING, "%s", text.text);
}
