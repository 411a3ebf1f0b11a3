#include "tasks/tabular/setup/setup_private.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fields/fields.h"
#include "base/files/checksum.h"
#include "base/vector.h"
#include "data/table/schema/date_text.h"
#include "data/table/schema/notation.h"
#include "data/table/schema/schema.h"

typedef struct reading {
    et_row_keys *keys;
    size_t capacity;
    const et_encoder *encoder;
    et_rows *rows;
    const char *column;
    int field; /* of the schema */
    int cell;  /* of a row */
    et_number_format format;
    bool times;
    bool dates; /* the texts of times are dates */
    et_date_order order;
    int zone;  /* of the first date */
    void **to; /* [fields]: a row, encoded; owned like what they point to */
    et_error *error;
} reading;

/* ---- one value ---- */

static int refuse(const reading *r, const et_row *row, const char *what)
{
    const et_cell *cell = &row->cells[r->cell];
    return et_fail(r->error, ET_EDATA, "%s:%lld: column %s: \"%.*s\" %s",
                   r->rows->paths.items[row->file], (long long)row->number, r->column,
                   (int)(cell->length < 40 ? cell->length : 40), cell->text, what);
}

/* In a column of numbers, "1" and "1.0" are the same group. */
static uint64_t group_of(const reading *r, const et_cell *cell)
{
    double number;
    const et_schema *schema = et_encoder_schema(r->encoder);
    const bool numeric = et_schema_at(schema, r->field)->type != ET_SCHEMA_DISCRETE;
    if (numeric && et_number_is(et_notation_parse(&number, &r->format, cell->text, cell->length)))
        return et_checksum(&number, sizeof number);
    return et_checksum(cell->text, cell->length);
}

/* Times are in order only in one zone, or if all say how far they are from UTC. */
static int check_zone(reading *r, const et_row *row, const et_date *date)
{
    if (!r->keys->count)
        r->zone = date->zone;
    if (date->zone == r->zone)
        return ET_OK;
    return refuse(r, row,
                  !date->zone
                      ? "has no time zone, unlike earlier rows, so the order of the times is "
                        "unknown; write the offset from UTC in every row: 2024-05-31T12:30+02:00"
                  : date->zone == ET_DATE_OFFSET
                      ? "has an offset from UTC, unlike earlier rows, so the order of the times is "
                        "unknown; write the offset in every row: 2024-05-31T12:30+02:00"
                      : "names a time zone of unknown offset, so the order of the times is "
                        "unknown; write the offset from UTC: 2024-05-31T12:30+02:00");
}

static int read_time(reading *r, double *time, const et_row *row)
{
    const et_cell *cell = &row->cells[r->cell];
    et_date date;
    if (!r->dates)
        return et_number_is(et_notation_parse(time, &r->format, cell->text, cell->length)) &&
                       isfinite(*time)
                   ? ET_OK
                   : refuse(r, row, "is not a number, as in other rows; correct it");
    if (!et_date_read(&date, cell->text, cell->length, r->order))
        return refuse(r, row,
                      r->order == ET_DATE_DAY_FIRST
                          ? "is not a date with the day first, as --time needs; write "
                            "2024-05-31T12:30"
                          : "is not a date, as --time needs; write 2024-05-31T12:30");
    *time = et_date_seconds(&date);
    return check_zone(r, row, &date);
}

static int keep(reading *r, const et_row *row)
{
    et_row_keys *keys = r->keys;
    const et_cell *cell = &row->cells[r->cell];
    double time = 0;
    if (!cell->text)
        return et_fail(r->error, ET_EDATA,
                       "%s:%lld: column %s has no value; fill it in, or leave the row out",
                       r->rows->paths.items[row->file], (long long)row->number, r->column);
    int status = r->times ? read_time(r, &time, row) : ET_OK;
    if (status)
        return status;
    void *grown = r->times ? (void *)et_vector_grow(keys->time, &r->capacity,
                                                    (size_t)keys->count + 1, sizeof time, 1024)
                           : et_vector_grow(keys->group, &r->capacity, (size_t)keys->count + 1,
                                            sizeof(uint64_t), 1024);
    if (!grown)
        return et_alloc_failed(r->error, r->capacity * sizeof time, "keys of rows");
    if (r->times) {
        keys->time = grown;
        keys->time[keys->count++] = time;
    } else {
        keys->group = grown;
        keys->group[keys->count++] = group_of(r, cell);
    }
    return ET_OK;
}

/* ---- all rows ---- */

/* As a table of samples leaves them out. */
static bool has_target(const reading *r)
{
    const et_encoder *encoder = r->encoder;
    for (int f = 0; f < et_encoder_fields(encoder); f++) {
        const et_encoded_field *field = et_encoder_field(encoder, f);
        const float *value = r->to[f];
        int32_t class;
        memcpy(&class, value, sizeof class);
        if (field->kind == ET_ENCODED_CLASS && class < 0)
            return false;
        const bool numbers = et_encoded_is_target(field->kind) && field->kind != ET_ENCODED_CLASS;
        for (int64_t i = 0; numbers && i < field->width; i++)
            if (isnan(value[i]))
                return false;
    }
    return true;
}

static int read_rows(reading *r)
{
    et_row row;
    for (;;) {
        int status = et_rows_next(r->rows, &row, r->error);
        if (status || row.end)
            return status;
        status = et_row_encode(r->encoder, r->rows, &row, r->to, r->error);
        if (!status && has_target(r))
            status = keep(r, &row);
        if (status)
            return status;
    }
}

static int no_such_column(const reading *r, const et_schema *schema, const char *option)
{
    const int count = et_schema_count(schema);
    const char **names = et_alloc_zero((size_t)count + 1, sizeof *names);
    for (int i = 0; names && i < count; i++)
        names[i] = et_schema_at(schema, i)->name;
    const int status =
        et_fail(r->error, ET_ECONFIG,
                "%s: the table has no column %.60s%s; `etude data analyze FILE` lists its columns",
                option, r->column, names ? et_nearest_hint(r->column, names, "").text : "");
    et_free(names);
    return status;
}

static int find_column(reading *r, const et_encoder *encoder)
{
    const et_schema *schema = et_encoder_schema(encoder);
    const char *option = r->times ? "--time" : "--group";
    r->field = et_schema_position(schema, r->column);
    if (r->field < 0)
        return no_such_column(r, schema, option);
    const et_schema_field *field = et_schema_at(schema, r->field);
    if (et_encoder_cell_count(encoder, r->field) != 1 || field->length == ET_SCHEMA_VARIABLE)
        return et_fail(r->error, ET_ECONFIG,
                       "%s: column %s has several values in a row; name another column", option,
                       r->column);
    r->cell = et_encoder_cell(encoder, r->field);
    r->format = et_number_format_of(field);
    r->dates = field->type == ET_SCHEMA_DISCRETE;
    return ET_OK;
}

static int open_items(reading *r, const et_encoder *encoder)
{
    const int fields = et_encoder_fields(encoder);
    const et_layout *layout = et_encoder_layout(encoder);
    r->to = et_alloc_zero((size_t)fields, sizeof *r->to);
    for (int f = 0; r->to && f < fields; f++) {
        r->to[f] = et_alloc((size_t)et_shape_count(layout->field[f].item),
                            et_dtype_size(layout->field[f].dtype));
        if (!r->to[f])
            return et_alloc_failed(r->error, 0, "a row");
    }
    return r->to ? ET_OK : et_alloc_failed(r->error, (size_t)fields * sizeof *r->to, "a row");
}

int et_row_keys_read(et_row_keys *keys, const char *column, bool times, et_date_order order,
                     const et_encoder *encoder, const et_metadata *metadata,
                     const et_strings *paths, const et_rows_options *options, et_error *error)
{
    reading r = { .keys = keys,
                  .column = column,
                  .times = times,
                  .order = order,
                  .encoder = encoder,
                  .error = error };
    *keys = (et_row_keys){ 0 };
    int status = find_column(&r, encoder);
    if (!status)
        status = open_items(&r, encoder);
    if (!status)
        status = et_rows_open_files(&r.rows, et_encoder_row_layout(encoder), paths, options,
                                    metadata, error);
    if (!status)
        status = read_rows(&r);
    et_rows_close(r.rows);
    for (int f = 0; r.to && f < et_encoder_fields(encoder); f++)
        et_free(r.to[f]);
    et_free(r.to);
    return status;
}

void et_row_keys_release(et_row_keys *keys)
{
    et_free(keys->group);
    et_free(keys->time);
}
