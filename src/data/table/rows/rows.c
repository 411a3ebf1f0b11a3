/* The common part of all rows, and rows of CSV files: each file has its own columns, in its own
 * order. */
#include "data/table/rows/rows.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/files/checksum.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "data/table/schema/notation.h"
#include "data/table/schema/schema.h"

et_column_name et_column_name_of(const et_schema_field *field, int64_t at)
{
    et_column_name name;
    if (field->length > 1)
        snprintf(name.text, sizeof name.text, "%s[%lld]", field->name, (long long)at);
    else
        snprintf(name.text, sizeof name.text, "%s", field->name);
    return name;
}

uint64_t et_cell_hash(const et_schema_field *field, const et_cell *cell)
{
    const et_number_format format = et_number_format_of(field);
    double number = 0;
    if (!cell->text)
        return 0;
    if (field->type == ET_SCHEMA_DISCRETE ||
        !et_number_is(et_notation_parse(&number, &format, cell->text, cell->length)))
        return et_checksum(cell->text, cell->length);
    number += 0.0;
    return et_checksum(&number, sizeof number);
}

static bool is_text(const et_cell *cell, const char *text)
{
    size_t length = strlen(text);
    return cell->text && cell->length == length && !memcmp(cell->text, text, length);
}

/* Whether a cell equals text, ignoring case. */
static bool is_like(const et_cell *cell, const char *text)
{
    size_t length = strlen(text);
    return cell->text && cell->length == length && !strncasecmp(cell->text, text, length);
}

/* ---- whether the first row is a header ---- */

#define ALIKE_MAX      1000 /* fields that are compared one by one */
#define NAME_MAX_BYTES 4096 /* of a cell that may be a name */

/* Whether a name equals a field's name, ignoring case. So a first row in capitals counts as a
 * header, which find_by_name then refuses. */
static bool is_alike(const et_schema *schema, const char *name, bool indexed)
{
    const int count = et_schema_count(schema);
    for (int i = 0; count <= ALIKE_MAX && i < count; i++)
        if (!strcasecmp(et_schema_at(schema, i)->name, name))
            return !indexed || et_schema_at(schema, i)->length > 1;
    return false;
}

/* Whether a cell [length] is the name of a field of the schema, or of a value of one. */
static bool is_name(const void *payload, const char *cell, size_t length)
{
    const et_schema *schema = payload;
    char text[NAME_MAX_BYTES];
    if (!cell || length >= sizeof text)
        return false;
    memcpy(text, cell, length);
    text[length] = 0;
    if (et_schema_position(schema, text) >= 0)
        return true;
    char *bracket = strrchr(text, '[');
    if (bracket)
        *bracket = 0;
    const et_schema_field *field = bracket ? et_schema_find(schema, text) : NULL;
    return field ? field->length > 1 : is_alike(schema, text, bracket != NULL);
}

bool et_columns_look_named(const et_schema *schema, const et_cell *cells, int count)
{
    int names = 0, numbers = 0, fields = et_schema_count(schema);
    for (int i = 0; i < count; i++) {
        double number;
        const et_cell *cell = &cells[i];
        names += is_name(schema, cell->text, cell->length);
        numbers +=
            cell->text && et_number_parse(&number, cell->text, cell->length) != ET_NUMBER_NONE;
    }
    return names && (2 * names >= (count < fields ? count : fields) || !numbers);
}

/* ---- by name ---- */

#define NEAR_MAX 256 /* cells among which the nearest name is sought */

/* The cell of a header with the nearest name; "": none is near. */
static et_column_name nearest_cell(const et_csv_row *first, const char *name)
{
    const int count = first->count < NEAR_MAX ? first->count : NEAR_MAX;
    et_column_name *names = et_alloc_zero((size_t)count + 1, sizeof *names), near = { "" };
    const char *list[NEAR_MAX + 1] = { NULL };
    for (int i = 0; names && i < count; i++) {
        snprintf(names[i].text, sizeof names[i].text, "%.*s",
                 (int)(first->cell[i].length < 200 ? first->cell[i].length : 200),
                 first->cell[i].text ? first->cell[i].text : "");
        list[i] = names[i].text;
    }
    const char *found = names ? et_nearest(name, list) : NULL;
    if (found)
        snprintf(near.text, sizeof near.text, "%s", found);
    et_free(names);
    return near;
}

/* The next cell of a header, from `from` on, with a name: its text, or column_3. -1: none. */
static int find_cell(const et_csv_row *header, int from, const char *name)
{
    for (int i = from; i < header->count; i++) {
        const et_cell *cell = &header->cell[i];
        if (cell->text && cell->length ? is_text(cell, name)
                                       : !strcmp(et_column_numbered(i).text, name))
            return i;
    }
    return -1;
}

/* Finds the column of a value, and reports a fault. */
static void find_value(et_columns *self, const et_csv_row *first, int at, const char *name,
                       bool needed, et_problems *problems)
{
    const int found = find_cell(first, 0, name);
    for (int i = found; i >= 0 && (i = find_cell(first, i + 1, name)) >= 0;)
        et_problems_add(problems, "the name %.60s is used twice, for columns %d and %d: rename one",
                        name, found + 1, i + 1);
    for (int i = 0; found < 0 && i < first->count; i++)
        if (needed && is_like(&first->cell[i], name)) {
            et_problems_add(problems,
                            "there is no column %.60s, but %.*s: spell the name as in the schema",
                            name, (int)(first->cell[i].length < 60 ? first->cell[i].length : 60),
                            first->cell[i].text);
            needed = false;
        }
    if (found < 0 && needed) {
        const et_column_name near = nearest_cell(first, name);
        et_problems_add(problems, "there is no column %.60s: add it%s%.60s%s", name,
                        *near.text ? " (nearest: " : "", near.text, *near.text ? ")" : "");
    }
    self->column[at] = found;
}

static int find_by_name(et_columns *self, const et_row_layout *layout, const et_csv_row *first,
                        bool targets, const char *name, et_error *error)
{
    const et_schema *schema = layout->schema;
    et_problems problems = ET_PROBLEMS_INIT;
    char what[160];
    self->targets = true;
    for (int f = 0; f < et_schema_count(schema); f++) {
        const et_schema_field *field = et_schema_at(schema, f);
        bool target = layout->reads[true][f];
        bool needed = layout->reads[false][f] || (targets && target);
        int begin = layout->begin[f];
        for (int i = 0; i < layout->begin[f + 1] - layout->begin[f]; i++) {
            const et_column_name numbered = et_column_name_of(field, i);
            find_value(self, first, begin + i, field->length > 1 ? numbered.text : field->name,
                       needed, &problems);
            self->targets &= !target || self->column[begin + i] >= 0;
        }
    }
    snprintf(what, sizeof what, "%.80s:%lld: the header does not match the schema", name,
             (long long)first->line);
    return et_problems_report(&problems, ET_EDATA, what, error);
}

/* ---- by position ---- */

/* Counts the schema's values, without values that only targets read. */
static int count_inputs(const et_row_layout *layout)
{
    const et_schema *schema = layout->schema;
    int count = layout->count;
    for (int f = 0; f < et_schema_count(schema); f++)
        if (layout->reads[true][f])
            count -= layout->begin[f + 1] - layout->begin[f];
    return count;
}

#define NAMES_SHOWN 6

/* "age, job, income, ...": all columns, or only the columns that the model reads. */
static void list_fields(et_strbuf *out, const et_row_layout *layout, bool read)
{
    const et_schema *schema = layout->schema;
    int shown = 0;
    for (int f = 0; f < et_schema_count(schema); f++) {
        if (read && !layout->reads[false][f])
            continue;
        if (shown == NAMES_SHOWN) {
            et_strbuf_append(out, ", ...");
            return;
        }
        et_strbuf_printf(out, "%s%.40s", shown++ ? ", " : "", et_schema_at(schema, f)->name);
    }
}

/* Whether a row may have names of other columns than the model's: several texts, no number. */
static bool may_be_names(const et_csv_row *first)
{
    for (int i = 0; i < first->count; i++) {
        double number;
        const et_cell *cell = &first->cell[i];
        if (!cell->text || !cell->length ||
            et_number_parse(&number, cell->text, cell->length) != ET_NUMBER_NONE)
            return false;
    }
    return first->count > 1;
}

static int wrong_count(const et_row_layout *layout, const et_csv_row *first, bool targets,
                       const char *name, et_error *error)
{
    int cells = layout->count, inputs = count_inputs(layout);
    char without[48] = "";
    if (may_be_names(first)) {
        et_strbuf found = ET_STRBUF_INIT, fields = ET_STRBUF_INIT;
        for (int i = 0; i < first->count && i < NAMES_SHOWN; i++)
            et_strbuf_printf(&found, "%s%.*s", i ? ", " : "",
                             (int)(first->cell[i].length < 40 ? first->cell[i].length : 40),
                             first->cell[i].text);
        list_fields(&fields, layout, true);
        int status = et_fail(error, ET_EDATA,
                             "%s:%lld: the first row (%s%s) has none of the columns that the model "
                             "reads (%s): name a table with these columns, or rename its columns",
                             name, (long long)first->line, et_strbuf_text(&found),
                             first->count > NAMES_SHOWN ? ", ..." : "", et_strbuf_text(&fields));
        et_strbuf_release(&found);
        et_strbuf_release(&fields);
        return status;
    }
    if (!targets && inputs < cells)
        snprintf(without, sizeof without, ", or %d without the target", inputs);
    et_strbuf fields = ET_STRBUF_INIT;
    list_fields(&fields, layout, false);
    int status = et_fail(
        error, ET_EDATA, "%s:%lld: %s, but the schema has %d%s (%s): %s", name,
        (long long)first->line, et_format_many(first->count, "column").text, cells, without,
        et_strbuf_text(&fields),
        first->count > 1 ? "add the missing columns, or a first line with the names of all columns"
                         : "name a table with these columns, or its delimiter");
    et_strbuf_release(&fields);
    return status;
}

static int find_by_position(et_columns *self, const et_row_layout *layout, const et_csv_row *first,
                            bool targets, const char *name, et_error *error)
{
    const et_schema *schema = layout->schema;
    int inputs = count_inputs(layout);
    bool all = first->count == self->count;
    bool first_absent = inputs == self->count && first->count == inputs - 1;
    if (!all && (targets || (first->count != inputs && !first_absent)))
        return wrong_count(layout, first, targets, name, error);
    self->targets = all;
    if (first_absent) { /* TensorFX: the first column is the target, whatever features say */
        for (int i = 0; i < self->count; i++)
            self->column[i] = i - 1;
        return ET_OK;
    }
    for (int f = 0, column = 0; f < et_schema_count(schema); f++) {
        bool there = all || !layout->reads[true][f];
        int begin = layout->begin[f];
        for (int i = 0; i < layout->begin[f + 1] - layout->begin[f]; i++)
            self->column[begin + i] = there ? column++ : -1;
    }
    return ET_OK;
}

et_csv_known et_columns_known(const et_row_layout *layout, char delimiter)
{
    const int cells = layout->count, inputs = count_inputs(layout);
    const int least = inputs == cells ? cells - 1 : inputs; /* as find_by_position takes them */
    return (et_csv_known){ delimiter, least > 1 ? least : 1, cells, is_name, layout->schema };
}

/* ---- the object ---- */

static int make(et_columns *self, int count, et_error *error)
{
    *self = (et_columns){ .count = count };
    self->column = et_alloc_zero(count, sizeof *self->column);
    self->cells = et_alloc_zero(count, sizeof *self->cells);
    return self->column && self->cells ? ET_OK : et_alloc_failed(error, "columns");
}

static int columns_copy(et_columns *to, const et_columns *from, et_error *error)
{
    int status = make(to, from->count, error);
    to->header = from->header;
    to->targets = from->targets;
    if (status)
        et_columns_release(to);
    else
        memcpy(to->column, from->column, from->count * sizeof *to->column);
    return status;
}

int et_columns_find(et_columns *columns, const et_row_layout *layout, const et_csv_row *first,
                    et_header header, bool targets, const char *name, et_error *error)
{
    int status = make(columns, layout->count, error);
    columns->header = header == ET_HEADER_THERE ||
                      (header == ET_HEADER_FOUND &&
                       et_columns_look_named(layout->schema, first->cell, first->count));
    if (!status && columns->header)
        status = find_by_name(columns, layout, first, targets, name, error);
    else if (!status)
        status = find_by_position(columns, layout, first, targets, name, error);
    if (status)
        et_columns_release(columns);
    return status;
}

void et_columns_release(et_columns *columns)
{
    et_free(columns->column);
    et_free(columns->cells);
    *columns = (et_columns){ .count = 0 };
}

const et_cell *et_columns_take(et_columns *columns, const et_csv_row *row)
{
    for (int i = 0; i < columns->count; i++) {
        int column = columns->column[i];
        et_assert(column < row->count);
        columns->cells[i] = column < 0 ? (et_cell){ NULL, 0 } : row->cell[column];
    }
    return columns->cells;
}

void et_rows_close(et_rows *rows)
{
    if (rows)
        rows->class->close(rows);
}

void *et_rows_new(size_t size, const et_rows_class *class, const et_row_layout *layout,
                  et_strings paths, et_error *error)
{
    et_assert(size >= sizeof(et_rows));
    et_rows *self = et_alloc_zero(1, size);
    if (self)
        *self = (et_rows){ class, layout, paths };
    else
        et_alloc_failed(error, "rows");
    return self;
}

int et_rows_next(et_rows *rows, et_row *row, et_error *error)
{
    *row = (et_row){ .end = true };
    return rows->class->next(rows, row, error);
}

bool et_rows_wait(et_rows *rows)
{
    return rows->class->waits && rows->class->waits(rows);
}

/* ---- CSV ---- */

typedef struct csv_rows {
    et_rows rows;
    et_rows_options options;
    et_csv *csv;         /* NULL: no file is open */
    size_t file, begun;  /* index of the open file, and number of opened files */
    et_columns columns;  /* of it; count 0: not known, and a row that fails is the last */
    et_columns first;    /* columns of the first file, if it has a header */
    et_same_header same; /* header of the first file; count 0: none, or not read yet */
    et_csv_known known;  /* of the later files */
    int *keep;           /* [options.keep]: columns of the file; owned */
    et_cell *kept;       /* [options.keep]: of the row; owned */
} csv_rows;

static void close_file(csv_rows *self)
{
    et_csv_close(self->csv);
    self->csv = NULL;
    et_columns_release(&self->columns);
}

static void csv_close(et_rows *rows)
{
    csv_rows *self = (csv_rows *)rows;
    close_file(self);
    et_columns_release(&self->first);
    et_same_header_release(&self->same);
    et_free(self->keep);
    et_free(self->kept);
    et_free(self);
}

/* Without a header, columns have the schema's order. The order of the first file must be the
 * same. */
static int find_columns(csv_rows *self, const et_csv_row *row, et_error *error)
{
    const char *path = self->rows.paths.items[self->file];
    et_header header = self->options.header;
    if (self->same.count && (header == ET_HEADER_THERE || et_same_header_is(&self->same, row))) {
        /* Finds the columns of a file with the first file's header, in any order. */
        int *position;
        if (ET_ALLOC(position, self->same.count, "columns", error))
            return ET_ENOMEM;
        int status = et_same_header_find(&self->same, position, path, row, error);
        if (!status)
            status = columns_copy(&self->columns, &self->first, error);
        for (int i = 0; !status && i < self->columns.count; i++)
            if (self->columns.column[i] >= 0)
                self->columns.column[i] = position[self->columns.column[i]];
        et_free(position);
        return status;
    }
    if (self->same.count)
        header = ET_HEADER_ABSENT;
    int status = et_columns_find(&self->columns, self->rows.layout, row, header,
                                 !self->options.no_targets, path, error);
    const size_t size = self->columns.count * sizeof *self->columns.column;
    if (!status && self->same.count == row->count &&
        memcmp(self->columns.column, self->first.column, size) != 0)
        status = et_same_header_absent(&self->same, path, row->line, error);
    return status;
}

/* ---- columns that are kept ---- */

#define NAMES_MAX 256 /* columns that a message compares */

static int find_in_header(const csv_rows *self, const et_csv_row *header, const char *name,
                          int *column, et_error *error)
{
    *column = find_cell(header, 0, name);
    const int again = *column < 0 ? -1 : find_cell(header, *column + 1, name);
    if (again >= 0)
        return et_fail(error, ET_EDATA,
                       "%s:%lld: the name %.64s is used twice, for columns %d and %d: rename one",
                       self->rows.paths.items[self->file], (long long)header->line, name,
                       *column + 1, again + 1);
    if (*column < 0) {
        et_column_name names[NAMES_MAX];
        const char *list[NAMES_MAX + 1];
        int count = 0;
        for (int i = 0; i < header->count && count < NAMES_MAX; i++) {
            const et_cell *cell = &header->cell[i];
            et_column_name *to = &names[count];
            snprintf(to->text, sizeof to->text, "%.*s",
                     (int)(cell->length < 299 ? cell->length : 299), cell->text ? cell->text : "");
            list[count++] = to->text;
        }
        list[count] = NULL;
        return et_fail(error, ET_EDATA, "%s:%lld: there is no column %.64s to keep%s",
                       self->rows.paths.items[self->file], (long long)header->line, name,
                       et_nearest_hint(name, list, "").text);
    }
    return ET_OK;
}

/* first: the header, if the file has one. */
static int find_kept(csv_rows *self, const et_csv_row *first, et_error *error)
{
    const et_strings *keep = &self->options.keep;
    int status = ET_OK;
    if (keep->count && !self->keep) {
        self->keep = et_alloc(keep->count, sizeof *self->keep);
        self->kept = et_alloc_zero(keep->count, sizeof *self->kept);
        if (!self->keep || !self->kept)
            return et_alloc_failed(error, "kept columns");
    }
    for (size_t i = 0; i < keep->count && !status; i++) {
        const char *name = keep->items[i];
        if (self->columns.header) {
            status = find_in_header(self, first, name, &self->keep[i], error);
            continue;
        }
        /* Without a header, the schema gives the names. */
        const et_row_layout *layout = self->rows.layout;
        const int field = et_schema_position(layout->schema, name);
        self->keep[i] = field < 0 ? -1 : self->columns.column[layout->begin[field]];
        if (self->keep[i] < 0)
            status = et_fail(error, ET_EDATA,
                             "%s: the rows have no header, and the model knows no column %.64s of "
                             "theirs: add a first line with the names of all columns",
                             self->rows.paths.items[self->file], name);
    }
    return status;
}

/* ---- rows of CSV ---- */

/* If the first row is bad, the file may not be CSV at all: the message then mentions JSON lines. */
static int fail_first(const csv_rows *self, int status, et_error *error)
{
    const et_error reason = *error;
    if (status != ET_EDATA || self->columns.count || !self->options.jsonl)
        return status;
    return et_fail(error, status, "%s; if these are JSON lines, %s", reason.text,
                   self->options.jsonl);
}

/* *row is the first row of values, or has count 0. */
static int read_first(csv_rows *self, et_csv_row *row, et_error *error)
{
    const char *path = self->rows.paths.items[self->file];
    if (!row->count)
        return self->options.optional
                   ? ET_OK
                   : et_fail(error, ET_EDATA, "%s: no rows: give at least one", path);
    if (self->options.jsonl && row->cell[0].text && row->cell[0].length &&
        row->cell[0].text[0] == '{')
        return et_fail(error, ET_EDATA, "%s:%lld: this looks like JSON lines; %s", path,
                       (long long)row->line, self->options.jsonl);
    int status = find_columns(self, row, error);
    if (!status && self->columns.header && self->begun == 1 && self->rows.paths.count > 1) {
        /* The first file's header says which columns all files have. */
        status = et_same_header_begin(&self->same, path, row, error);
        if (!status)
            status = columns_copy(&self->first, &self->columns, error);
        if (!status) {
            self->known = et_same_header_known(&self->same, et_csv_delimiter(self->csv));
            self->options.csv.known = &self->known;
        }
    }
    if (!status)
        status = find_kept(self, row, error);
    if (status)
        et_columns_release(&self->columns);
    else if (self->columns.header)
        return et_csv_next(self->csv, row, error);
    else
        et_csv_take_missing(self->csv);
    return status;
}

static int csv_next(et_rows *rows, et_row *out, et_error *error)
{
    csv_rows *self = (csv_rows *)rows;
    et_csv_row row = { .count = 0 };
    int status = ET_OK;
    while (!status && !row.count) {
        if (!self->csv) {
            if (self->begun == rows->paths.count)
                return ET_OK;
            self->file = self->begun++;
            status = et_csv_open(&self->csv, self->rows.paths.items[self->file], &self->options.csv,
                                 error);
        }
        if (!status)
            status = fail_first(self, et_csv_next(self->csv, &row, error), error);
        if (!status && !self->columns.count)
            status = read_first(self, &row, error);
        if (!status && !row.count)
            close_file(self);
    }
    if (status) {
        out->number = self->columns.count ? row.line : out->number;
        return status;
    }
    for (size_t i = 0; i < self->options.keep.count; i++)
        self->kept[i] = row.cell[self->keep[i]];
    *out = (et_row){ .cells = et_columns_take(&self->columns, &row),
                     .kept = self->kept,
                     .file = self->file,
                     .number = row.line };
    return ET_OK;
}

static bool csv_waits(et_rows *rows)
{
    const et_csv *csv = ((const csv_rows *)rows)->csv;
    return csv && et_csv_waits(csv);
}

static const et_rows_class csv_rows_class = { "CSV", csv_next, csv_waits, csv_close };

int et_rows_open_csv(et_rows **out, const et_row_layout *layout, const et_strings *paths,
                     const et_rows_options *options, et_error *error)
{
    et_assert(paths->count > 0);
    csv_rows *self = et_rows_new(sizeof *self, &csv_rows_class, layout, *paths, error);
    if (!self) {
        et_csv_close(options ? options->reader : NULL);
        return ET_ENOMEM;
    }
    if (options)
        self->options = *options;
    self->options.csv.names = self->options.header != ET_HEADER_ABSENT;
    self->csv = self->options.reader;
    self->begun = self->csv != NULL;
    *out = &self->rows;
    return ET_OK;
}

/* ---- headers of several files ---- */

et_column_name et_column_numbered(int column)
{
    et_column_name name;
    snprintf(name.text, sizeof name.text, "column_%d", column + 1);
    return name;
}

/* Names that a message lists. */
#define HEADER_SHOWN 12

/* text [length] in small letters, terminated. */
static void fold(char *to, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        to[i] = (char)tolower((unsigned char)text[i]);
    to[length] = 0;
}

/* Maps keep no copies of names; of equal ones the first counts. */
static bool put(et_map *map, const char *name, int position)
{
    int64_t before;
    return name && (et_map_get(map, name, &before) || et_map_put(map, name, position));
}

/* The comparison of headers ignores the case of letters and columns without a name. */
static bool put_folded(et_same_header *self, const et_cell *cell, int position)
{
    if (!cell->text || !cell->length)
        return true;
    char *folded = et_arena_alloc(&self->arena, cell->length + 1);
    if (folded)
        fold(folded, cell->text, cell->length);
    return put(&self->folded, folded, position);
}

static const char *name_of(const et_csv_row *row, int i, et_arena *arena)
{
    const et_cell *cell = &row->cell[i];
    return cell->text && cell->length ? et_arena_strndup(arena, cell->text, cell->length)
                                      : et_arena_strdup(arena, et_column_numbered(i).text);
}

int et_same_header_begin(et_same_header *self, const char *path, const et_csv_row *header,
                         et_error *error)
{
    const size_t count = (size_t)header->count;
    bool kept = true;
    *self = (et_same_header)ET_SAME_HEADER_INIT;
    self->path = path;
    self->count = header->count;
    self->name = et_arena_array(&self->arena, count, sizeof *self->name);
    for (int i = 0; self->name && i < header->count && kept; i++) {
        self->name[i] = name_of(header, i, &self->arena);
        kept = put(&self->indices, self->name[i], i) && put_folded(self, &header->cell[i], i);
    }
    if (self->name && kept)
        return ET_OK;
    et_same_header_release(self);
    return et_alloc_failed(error, "a header");
}

void et_same_header_release(et_same_header *self)
{
    et_map_release(&self->indices);
    et_map_release(&self->folded);
    et_arena_release(&self->arena);
    *self = (et_same_header)ET_SAME_HEADER_INIT;
}

/* ---- whether a row is a header ---- */

static bool has_folded(const void *payload, const char *text, size_t length)
{
    const et_same_header *self = payload;
    char folded[NAME_MAX_BYTES];
    int64_t position;
    if (length >= sizeof folded)
        return false;
    fold(folded, text, length);
    return et_map_get(&self->folded, folded, &position);
}

bool et_same_header_is(const et_same_header *self, const et_csv_row *first)
{
    int names = 0, numbers = 0;
    for (int i = 0; i < first->count; i++) {
        const et_cell *cell = &first->cell[i];
        double number;
        if (!cell->text)
            continue;
        names += has_folded(self, cell->text, cell->length);
        numbers += et_number_parse(&number, cell->text, cell->length) != ET_NUMBER_NONE;
    }
    const int half = first->count < self->count ? first->count : self->count;
    return names && (2 * names >= half || !numbers);
}

et_csv_known et_same_header_known(const et_same_header *self, char delimiter)
{
    return (et_csv_known){ delimiter, self->count, self->count, has_folded, self };
}

/* ---- columns of a header ---- */

/* A list of names for a message. */
typedef struct names {
    et_strbuf text;
    int count;
} names;

static void add_name(names *to, const char *name)
{
    if (to->count++ < HEADER_SHOWN)
        et_strbuf_printf(&to->text, "%s%.60s", to->text.length ? ", " : "", name);
}

static void end_names(names *to)
{
    if (to->count > HEADER_SHOWN)
        et_strbuf_printf(&to->text, ", and %d more", to->count - HEADER_SHOWN);
}

int et_same_header_find(const et_same_header *self, int *position, const char *path,
                        const et_csv_row *header, et_error *error)
{
    names lacks = { ET_STRBUF_INIT, 0 }, adds = { ET_STRBUF_INIT, 0 };
    /* Fills `position`, -1 for a missing column, and lists names that the first file does not have.
     */
    et_arena arena = ET_ARENA_INIT;
    int status = ET_OK;
    for (int i = 0; i < self->count; i++)
        position[i] = -1;
    for (int i = 0; i < header->count && !status; i++) {
        const char *name = name_of(header, i, &arena);
        int64_t at;
        if (!name)
            status = et_alloc_failed(error, "a header");
        else if (!et_map_get(&self->indices, name, &at))
            add_name(&adds, name);
        else if (position[at] >= 0)
            status = et_fail(error, ET_EDATA,
                             "%s:%lld: columns %d and %d are both called \"%.60s\": rename one",
                             path, (long long)header->line, position[at] + 1, i + 1, name);
        else
            position[at] = i;
    }
    et_arena_release(&arena);
    for (int i = 0; i < self->count && !status; i++)
        if (position[i] < 0)
            add_name(&lacks, self->name[i]);
    if (!status && (lacks.count || adds.count)) {
        end_names(&lacks);
        end_names(&adds);
        if (lacks.text.failed || adds.text.failed)
            status = et_alloc_failed(error, "a header");
        else
            status = et_fail(error, ET_EDATA,
                             "%s:%lld: the header differs from the header of %s%s%s%s%s: give all "
                             "files the same columns",
                             path, (long long)header->line, self->path,
                             lacks.count ? "; this file lacks " : "", et_strbuf_text(&lacks.text),
                             adds.count ? "; this file also has " : "", et_strbuf_text(&adds.text));
    }
    et_strbuf_release(&lacks.text);
    et_strbuf_release(&adds.text);
    return status;
}

int et_same_header_absent(const et_same_header *self, const char *path, int64_t line,
                          et_error *error)
{
    return et_fail(error, ET_EDATA,
                   "%s:%lld: the file has no header, and %s has its columns in another order than "
                   "the schema: give all files a header",
                   path, (long long)line, self->path);
}
