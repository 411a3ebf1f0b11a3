/* The pass over a table. In each step the next rows are read and cut into pieces at the ends of
 * rows. One thread parses each piece into arrays by column. Then one thread adds up each column,
 * piece after piece.
 *
 *   file --csv--> block --cut--> pieces --parse, in parallel--> classes, numbers, texts by column
 *                                        --add up, columns in parallel--> statistics
 *
 * So a column's values are added in their order, and the bits do not depend on the number of
 * threads and pieces. The first wrong row is the first one of the first piece that has one. */
#include "data/table/analysis/analyze.h"

#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/map.h"
#include "base/text/format.h"
#include "base/threads/team.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "base/vector.h"
#include "data/table/analysis/analyze_private.h"
#include "data/table/rows/csv_scan.h"
#include "data/table/rows/rows.h"
#include "data/table/schema/number_short.h"
#include "data/table/schema/schema.h"

/* ---- notations of columns ---- */

/* Notations of columns: the first pass counts texts that are numbers in a notation. The second pass
 * reads them in this notation. A column that is still not numeric becomes text again. */

/* Distinct numbers with three decimals, among integers below 1000, that are more likely thousands:
 * of real decimals, one in ten ends in 0, which programs leave out. */
#define GROUPED_LEAST 30

/* Whether a column of plain numbers has only such as 2.750, in which the point may separate
 * thousands. In JSON a number has a decimal point. */
static bool is_grouped(const et_table_stats *table, int field)
{
    const et_column_stats *s = &table->field[field];
    return s->grouped && !s->decimal && !table->format[field].notation && !table->head.jsonl;
}

/* Chooses notations after a pass with plain ones. False: no column has a notation. A column whose
 * values do not show their decimal mark gets the mark of the other columns. */
static bool formats_find(et_table_stats *table, et_arena *arena)
{
    bool found = false, point = false, comma = false;
    for (int i = 0; i < table->head.fields; i++) {
        const et_column_stats *s = &table->field[i];
        et_number_format *format = &table->format[i];
        *format = et_column_stats_format(s);
        if (is_grouped(table, i))
            continue;
        point |= s->count[ET_CELL_REAL] > 0;
        if (!format->notation)
            continue;
        const int64_t(*count)[ET_NOTATION_COMMA + 1] = s->noted.count;
        point |= count[0][ET_NOTATION_POINT] + count[1][ET_NOTATION_POINT] > 0;
        comma |= count[0][ET_NOTATION_COMMA] + count[1][ET_NOTATION_COMMA] > 0;
        found = true;
        if (format->unit) {
            format->unit = et_arena_strdup(arena, format->unit);
            table->bare[i] = et_column_stats_numbers(s);
            for (int n = 0; n <= ET_NOTATION_COMMA; n++)
                table->bare[i] += count[0][n];
        }
        if (et_column_stats_format_unclear(s))
            table->unclear[i] = s->noted.first_unclear;
    }
    for (int i = 0; !point && i < table->head.fields; i++) {
        const et_column_stats *s = &table->field[i];
        const bool many = s->grouped >= GROUPED_LEAST && s->count[ET_CELL_INTEGER] &&
                          s->min > -1000 && s->max < 1000;
        if (is_grouped(table, i) && (comma || many))
            table->unclear[i] = s->first_grouped;
        if (comma && table->unclear[i].line)
            table->format[i].notation = ET_NOTATION_COMMA;
    }
    return found;
}

/* Checks notations after a pass with them. True: some were wrong, and are plain now. */
static bool formats_check(et_table_stats *table)
{
    bool wrong = false;
    for (int i = 0; i < table->head.fields; i++) {
        const et_column_stats *s = &table->field[i];
        const et_table_column column = { .table = table,
                                         .stats = s,
                                         .values = et_column_stats_values(s),
                                         .numbers = et_column_stats_numbers(s),
                                         .distinct = et_column_stats_distinct(s) };
        if (!table->format[i].notation || et_table_column_type(&column) != ET_SCHEMA_DISCRETE)
            continue;
        wrong = true;
        table->format[i] = (et_number_format){ ET_NOTATION_PLAIN, NULL };
        table->unclear[i] = (et_seen_at){ 0 };
    }
    return wrong;
}

/* ---- JSON lines ---- */

/* Tables of JSON lines: a first pass finds the columns, which are all keys in the order of their
 * first occurrence. Later passes read values one by one, as for CSV. A row without a key has a
 * missing value in the key's column. A string such as "NA" means a missing value in CSV. Here it is
 * missing in a column of numbers but a text in a column of texts, as in prediction. */

/* A column during the first pass. */
typedef struct json_column {
    const char *name;       /* in the arena */
    int64_t numbers, texts; /* values; neither counts the usual words for missing ones */
} json_column;

typedef struct json_reading {
    et_table_stats *stats;
    et_rows *rows; /* of the open file */
    int file;
    et_arena line;
    et_map index; /* of names to columns */
} json_reading;

/* One line. */
typedef int line_fn(void *payload, json_reading *r, const et_value *object, int64_t line,
                    et_error *error);

static const char *path_of(const json_reading *r)
{
    return r->stats->paths->items[r->file];
}

static int read_json_file(json_reading *r, line_fn *use, void *payload, et_error *error)
{
    const et_strings one = { &r->stats->paths->items[r->file], 1 };
    et_row row;
    int status = et_rows_open_jsonl(&r->rows, NULL, &one, -1, error);
    while (!status) {
        status = et_rows_next(r->rows, &row, error);
        if (status || row.end)
            break;
        const et_value *object;
        et_arena_release(&r->line);
        status = et_row_object(&object, &row.json, &r->line, error);
        if (status == ET_EDATA)
            status = et_fail_while(error, status, "%s:%lld", path_of(r), (long long)row.number);
        else if (!status)
            status = use(payload, r, object, row.number, error);
    }
    et_rows_close(r->rows);
    r->rows = NULL;
    return status;
}

static int read_lines(et_table_stats *stats, et_map *index, line_fn *use, void *payload,
                      et_error *error)
{
    json_reading r = { .stats = stats, .line = ET_ARENA_INIT, .index = *index };
    int status = ET_OK;
    for (; !status && r.file < (int)stats->paths->count; r.file++)
        status = read_json_file(&r, use, payload, error);
    *index = r.index;
    et_arena_release(&r.line);
    return status;
}

/* ---- columns ---- */

typedef struct finding {
    json_column *columns;
    size_t count, capacity;
    et_arena *arena; /* of names */
} finding;

static bool is_number(const char *text)
{
    static const et_number_format plain;
    double number;
    const et_cell_class class = et_cell_classify(&plain, text, strlen(text), &number);
    return class == ET_CELL_INTEGER || class == ET_CELL_REAL ||
           (class == ET_CELL_TEXT && et_notation_find(text, strlen(text)).notations);
}

static int find_line(void *payload, json_reading *r, const et_value *object, int64_t line,
                     et_error *error)
{
    finding *f = payload;
    int status = ET_OK;
    for (const et_value *v = object->first; v && !status; v = v->next) {
        int64_t at = (int64_t)f->count;
        if (v->kind == ET_VALUE_LIST || v->kind == ET_VALUE_DICT)
            return et_fail(error, ET_EDATA,
                           "%s:%lld: column %.60s is %s: give one value (write a column for each "
                           "part, such as %.60s.%s)",
                           path_of(r), (long long)line, v->key, et_json_kind_name(v->kind), v->key,
                           v->kind == ET_VALUE_DICT && v->first ? v->first->key : "1");
        if (!et_map_get(&r->index, v->key, &at)) {
            char *copy = et_arena_strdup(f->arena, v->key);
            const char *c = v->key;
            while ((unsigned char)*c >= 0x20 && *c != 0x7f)
                c++;
            if (*c)
                status = et_fail(error, ET_EDATA,
                                 "%s:%lld: byte %td of the key %.60s is a control character "
                                 "(0x%02X): rename the column",
                                 path_of(r), (long long)line, c - v->key + 1, v->key,
                                 (unsigned)(unsigned char)*c);
            else if (!*v->key)
                status = et_fail(error, ET_EDATA, "%s:%lld: a key is empty: give the column a name",
                                 path_of(r), (long long)line);
            else if (f->count == ET_CSV_COLUMNS_MAX)
                status = et_fail(error, ET_EDATA, "%s:%lld: more than %d columns", path_of(r),
                                 (long long)line, ET_CSV_COLUMNS_MAX);
            else if (!copy || !et_map_put(&r->index, copy, (int64_t)f->count) ||
                     !ET_VECTOR_APPEND(f->columns, f->count, f->capacity,
                                       (json_column){ .name = copy }))
                status = et_alloc_failed(error, "columns");
        }
        if (!status) {
            json_column *to = &f->columns[at];
            if (et_value_is_number(v))
                to->numbers++;
            else if (v->kind == ET_VALUE_BOOL)
                to->texts++;
            else if (v->kind == ET_VALUE_STRING && !et_is_one_of(v->string, et_csv_usual_missing))
                *(is_number(v->string) ? &to->numbers : &to->texts) += 1;
        }
    }
    return status;
}

static int head_jsonl(et_table_stats *stats, et_arena *arena, et_error *error)
{
    et_table_head *head = &stats->head;
    et_map index = ET_MAP_INIT;
    finding f = { .arena = arena };
    *head = (et_table_head){ .jsonl = true, .header = true };
    if (stats->options->schema) {
        head->columns = head->fields = et_schema_count(stats->options->schema);
        head->name = et_arena_array(arena, head->fields, sizeof *head->name);
        head->numeric = et_arena_array(arena, head->fields, sizeof *head->numeric);
        for (int i = 0; !arena->failed && i < head->fields; i++) {
            head->name[i] = et_schema_at(stats->options->schema, i)->name;
            head->numeric[i] = et_schema_numeric(et_schema_at(stats->options->schema, i));
        }
        return arena->failed ? et_alloc_failed(error, "columns") : ET_OK;
    }
    int status = read_lines(stats, &index, find_line, &f, error);
    if (!status && !f.count)
        status = et_fail(error, ET_EDATA, "%s: the file has no rows", *stats->paths->items);
    if (!status) {
        /* Each key is a field. */
        head->columns = head->fields = (int)f.count;
        head->name = et_arena_array(arena, f.count, sizeof *head->name);
        head->numeric = et_arena_array(arena, f.count, sizeof *head->numeric);
        for (size_t i = 0; !arena->failed && i < f.count; i++) {
            head->name[i] = f.columns[i].name;
            head->numeric[i] = (double)f.columns[i].texts <=
                               ET_TEXT_SHARE * (double)(f.columns[i].texts + f.columns[i].numbers);
        }
        status = arena->failed ? et_alloc_failed(error, "columns") : ET_OK;
    }
    et_map_release(&index);
    et_free(f.columns);
    return status;
}

/* ---- values ---- */

static int add_value(json_reading *r, int field, const et_value *value, int64_t line,
                     et_error *error)
{
    static const uint32_t first_line;
    const et_table_stats *t = r->stats;
    et_column_stats *stats = &t->field[field];
    const et_schema_field as = { .name = t->head.name[field],
                                 .type =
                                     t->head.numeric[field] ? ET_SCHEMA_REAL : ET_SCHEMA_DISCRETE,
                                 .notation = stats->format.notation };
    const et_json_columns columns = { .missing = t->options->csv.missing };
    et_cell cell = { NULL, 0 };
    int status = value ? et_json_cell(&cell, &columns, &as, value, error) : ET_OK;
    if (status)
        return et_fail_while(error, status, "%s:%lld", path_of(r), (long long)line);
    if (value && !cell.text) {
        /* Notes which marker of missing values a value is. */
        const char *text = value->kind == ET_VALUE_STRING ? value->string : value->text;
        const int index =
            text ? et_csv_missing_index(r->stats->options->csv.missing, text, strlen(text), false)
                 : -1;
        if (index >= 0)
            r->stats->missing_found |= (uint64_t)1 << (index < 63 ? index : 63);
    }
    unsigned char class = ET_CELL_MISSING;
    double number = 0;
    const et_text_span span = { 0, (uint32_t)(cell.text ? strlen(cell.text) : 0) };
    if (cell.text)
        class =
            et_column_stats_reads(stats)
                ? ET_CELL_UNREAD
                : (unsigned char)et_cell_classify(&stats->format, cell.text, span.length, &number);
    const et_column_part part = {
        cell.text, &class, &number, &span, &first_line, line, r->file, 1
    };
    et_column_stats_add(stats, &part);
    return ET_OK;
}

static int add_line(void *payload, json_reading *r, const et_value *object, int64_t line,
                    et_error *error)
{
    const et_value **value = payload; /* [fields]: of the line; NULL: missing */
    et_table_stats *stats = r->stats;
    const et_schema *schema = stats->options->schema;
    int status = ET_OK;
    memset(value, 0, stats->head.fields * sizeof(const et_value *));
    for (const et_value *v = object->first; v; v = v->next) {
        int64_t at;
        if (et_map_get(&r->index, v->key, &at))
            value[at] = v;
    }
    for (int i = 0; i < stats->head.fields && !status; i++) {
        /* The values of a field of a schema may be a list. */
        const et_value *v = value[i];
        if (!v || v->kind != ET_VALUE_LIST || !schema || et_schema_at(schema, i)->length == 1)
            status = add_value(r, i, v, line, error);
        else
            for (v = v->first; v && !status; v = v->next)
                status = add_value(r, i, v, line, error);
    }
    stats->rows++;
    return status;
}

static int read_jsonl(et_table_stats *stats, et_error *error)
{
    et_map index = ET_MAP_INIT;
    const et_value **value = et_alloc_zero(stats->head.fields, sizeof *value);
    bool whole = value != NULL;
    for (int i = 0; whole && i < stats->head.fields; i++)
        whole = et_map_put(&index, stats->head.name[i], i);
    int status = whole ? read_lines(stats, &index, add_line, value, error)
                       : et_alloc_failed(error, "columns");
    et_map_release(&index);
    et_free((void *)value);
    return status;
}

/* Bytes of a piece. A parsed piece fits into a core's own cache. */
#define PIECE ((size_t)256 << 10)

/* Pieces for each thread in a step, with several threads. Fewer steps mean less waiting. */
#define PIECES 4

/* Fewer bytes are not worth waking threads for. */
#define THREADS_MIN ((uint64_t)4 * PIECE)

#define ENTRIES   100000
#define QUANTILES 257

/* Room of all columns together, which limits the room of a column. */
#define SKETCH_WIDTHS ((int64_t)1 << 20)
#define ENTRIES_ALL   ((int64_t)4 << 20)
#define ENTRIES_MIN   64
#define DISTINCT_ALL  ((int64_t)16 << 20)

/* Rows by which columns are compared; of all columns together. */
#define FIRST_ROWS ((int64_t)10000)
#define FIRST_ALL  ((int64_t)1 << 20)

/* Whole rows and their parsed cells: column c of row r is at [c * room + r]. */
typedef struct piece {
    et_csv_scanner scanner;
    char *begin, *end;
    unsigned contents;
    int64_t line, lines; /* of begin; that were parsed */
    int rows;            /* parsed */
    size_t room;         /* number of rows that fit */
    size_t cells;        /* of all arrays */
    unsigned char *class;
    double *number;
    et_text_span *text;
    uint32_t *row_line; /* [room], from line */
    size_t row_lines;   /* of row_line */
    bool bad;           /* by the scanner's fault */
} piece;

/* How the cells of a column are read. */
typedef struct reading {
    bool unread; /* not at all: its field does */
    et_number_format format;
} reading;

typedef struct pass {
    et_table_stats *stats;
    const et_analyze_options *options;
    int threads;
    piece *pieces; /* [most] of a step */
    int most;
    int *position; /* [columns]: positions of the first file's columns in this file's rows */
    reading *how;  /* [columns] of this file */
    int file;
    et_csv *first;   /* the open first file, whose head was read; NULL: not open any more */
    uint64_t before; /* bytes of the files before this one */
} pass;

/* ---- parsing ---- */

/* The usual ways first; et_cell_classify knows all. */
static inline et_cell_class class_of(const et_cell *cell, const et_number_format *format,
                                     double *number)
{
    bool integer;
    if (!cell->length || format->notation == ET_NOTATION_COMMA ||
        !et_number_short(number, &integer, cell->text, cell->length))
        return et_cell_classify(format, cell->text, cell->length, number);
    if (!integer)
        return ET_CELL_REAL;
    const char digit = *cell->text == '-' ? cell->text[1] : *cell->text;
    return digit > '0' || cell->length == 1
               ? ET_CELL_INTEGER
               : et_cell_classify(format, cell->text, cell->length, number);
}

static inline void parse_cell(piece *p, const et_cell *cell, size_t at, const reading *how)
{
    et_cell_class class = ET_CELL_UNREAD;
    if (!cell->text) {
        p->class[at] = ET_CELL_MISSING;
        return;
    }
    if (!how->unread)
        class = class_of(cell, &how->format, &p->number[at]);
    p->class[at] = (unsigned char)class;
    if (class != ET_CELL_INTEGER && class != ET_CELL_REAL)
        p->text[at] = (et_text_span){ (uint32_t)(cell->text - p->begin), (uint32_t)cell->length };
}

static void parse_piece(piece *p, const reading *how)
{
    et_csv_scanner *scanner = &p->scanner;
    p->rows = 0;
    p->lines = 0;
    p->bad = false;
    for (char *at = p->begin; at < p->end; at = scanner->next) {
        et_csv_found found = et_csv_scan(scanner, at, p->end, p->contents);
        et_assert(found != ET_CSV_MORE); /* a piece ends with a row */
        if (found == ET_CSV_MORE || scanner->next - at > (ptrdiff_t)ET_CSV_ROW_MAX) {
            scanner->fault = ET_CSV_FAULT_LONG;
            found = ET_CSV_BAD;
        }
        p->bad = found == ET_CSV_BAD;
        if (p->bad)
            return;
        if (found == ET_CSV_ROW) {
            size_t row = (size_t)p->rows++;
            et_assert(row < p->room);
            p->row_line[row] = (uint32_t)p->lines;
            const et_cell *cell = scanner->cell;
            size_t cell_at = row;
            for (int i = 0; i < scanner->count; i++, cell_at += p->room)
                parse_cell(p, &cell[i], cell_at, &how[i]);
        }
        p->lines += scanner->lines;
    }
}

/* ---- adding up ---- */

static et_column_part part_of(const pass *self, const piece *p, int column)
{
    size_t at = (size_t)column * p->room;
    return (et_column_part){ .bytes = p->begin,
                             .class = p->class + at,
                             .number = p->number + at,
                             .text = p->text + at,
                             .line = p->row_line,
                             .base_line = p->line,
                             .file = self->file,
                             .count = p->rows };
}

static void note_reading(const pass *self, int field)
{
    const et_table_head *head = &self->stats->head;
    const et_column_stats *stats = &self->stats->field[field];
    for (int i = 0; i < head->column_count[field]; i++)
        self->how[self->position[head->column[field][i]]] =
            (reading){ et_column_stats_reads(stats), stats->format };
}

static void add_field(const pass *self, int pieces, int field)
{
    const et_table_head *head = &self->stats->head;
    for (int i = 0; i < pieces; i++) {
        if (head->column_count[field] != 1) {
            /* Adds a field of several columns row by row, in the order of the file. */
            const piece *p = &self->pieces[i];
            for (int row = 0; row < p->rows; row++)
                for (int k = 0; k < head->column_count[field]; k++) {
                    et_column_part part = part_of(self, p, self->position[head->column[field][k]]);
                    part.class += row;
                    part.number += row;
                    part.text += row;
                    part.line += row;
                    part.count = 1;
                    et_column_stats_add(&self->stats->field[field], &part);
                }
            continue;
        }
        et_column_part part =
            part_of(self, &self->pieces[i], self->position[head->column[field][0]]);
        et_column_stats_add(&self->stats->field[field], &part);
    }
    note_reading(self, field);
}

/* ---- the pass ---- */

/* *pieces: how many of the block are made; the rest stays in the block. */
static int cut_block(pass *self, et_csv_block *block, int *pieces, et_error *error)
{
    for (*pieces = 0; *pieces < self->most && block->begin < block->end; ++*pieces) {
        piece *p = &self->pieces[*pieces];
        p->begin = p->end = block->begin;
        for (size_t size = PIECE; p->end == p->begin; size *= 2)
            p->end = (size_t)(block->end - p->begin) <= size
                         ? block->end
                         : et_csv_split(&self->pieces[0].scanner, p->begin, p->begin + size,
                                        block->contents);
        p->contents = block->contents;
        /* A row has at least as many bytes as columns. */
        size_t rows = (size_t)(p->end - p->begin) / (size_t)self->stats->head.columns + 1;
        size_t cells = rows * (size_t)self->stats->head.columns;
        p->room = rows;
        if (cells > p->cells) {
            et_free(p->class);
            et_free(p->number);
            et_free(p->text);
            p->class = et_alloc(cells, sizeof *p->class);
            p->number = et_alloc(cells, sizeof *p->number);
            p->text = et_alloc(cells, sizeof *p->text);
            p->cells = p->class && p->number && p->text ? cells : 0;
        }
        if (rows > p->row_lines) {
            et_free(p->row_line);
            p->row_line = et_alloc(rows, sizeof *p->row_line);
            p->row_lines = p->row_line ? rows : 0;
        }
        if (p->cells < cells || p->row_lines < rows)
            return et_alloc_failed(error, "rows of a table");
        block->begin = p->end;
    }
    return ET_OK;
}

static int add_pieces(pass *self, int pieces, int64_t *line, et_error *error)
{
    int threads = self->threads;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1) if (pieces > 1)
    for (int i = 0; i < pieces; i++)
        parse_piece(&self->pieces[i], self->how);
    /* Lines are known once the pieces before were parsed. */
    for (int i = 0; i < pieces; i++) {
        piece *p = &self->pieces[i];
        p->line = *line;
        *line += p->lines;
        if (p->bad)
            return et_csv_fault_fail(&p->scanner, self->stats->paths->items[self->file], *line,
                                     error);
        self->stats->rows += p->rows;
    }
    for (int i = 0; i < pieces; i++)
        self->stats->missing_found |= self->pieces[i].scanner.missing_found;
    const int fields = self->stats->head.fields;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1) if (threads > 1 && fields > 1)
    for (int i = 0; i < fields; i++)
        add_field(self, pieces, i);
    for (int i = 0; i < fields; i++)
        if (self->stats->field[i].failed)
            return et_alloc_failed(error, "the statistics of a table");
    return ET_OK;
}

static int read_rows(pass *self, et_csv *csv, et_error *error)
{
    et_csv_block block;
    int status = ET_OK, pieces;
    while (!(status = et_csv_next_block(csv, PIECE * (size_t)self->most, &block, error)) &&
           block.end > block.begin) {
        int64_t line = block.line;
        while (!status && block.begin < block.end) {
            status = cut_block(self, &block, &pieces, error);
            if (!status)
                status = add_pieces(self, pieces, &line, error);
        }
        if (status)
            break;
        if (self->options->progress)
            self->options->progress(self->options->payload, self->before + et_csv_taken(csv),
                                    self->stats->bytes);
    }
    return status;
}

/* Columns that no field has stay so. */
static void read_no_column(pass *self)
{
    for (int i = 0; i < self->stats->head.columns; i++)
        self->how[i] = (reading){ .unread = true };
}

/* A file at its first byte. *header: its first row is one. */
static int open_file(pass *self, et_csv **csv, bool *header, et_error *error)
{
    const et_table_head *head = &self->stats->head;
    et_csv_options options = self->options->csv;
    int status = ET_OK;
    options.columns = head->columns;
    options.delimiter = head->delimiter;
    *header = head->header;
    *csv = self->first;
    self->first = NULL;
    if (!*csv && !self->file)
        return et_csv_open(csv, *self->stats->paths->items, &options, error);
    if (!*csv) {
        /* A file after the first one: its columns. */
        const char *path = self->stats->paths->items[self->file];
        const et_csv_known known = et_table_head_known(head);
        status = et_table_head_open(csv, &known, path, self->options, error);
        if (!status) {
            status = et_table_head_match(head, self->position, header, *csv, path, self->options,
                                         self->stats->paths, error);
            read_no_column(self);
            for (int i = 0; i < head->fields && !status; i++)
                note_reading(self, i);
        }
    }
    if (status)
        return status;
    options.delimiter = et_csv_delimiter(*csv);
    return et_csv_again(*csv, &options, error);
}

static int read_file(pass *self, et_error *error)
{
    et_csv_row row;
    et_csv *csv;
    bool header;
    int status = open_file(self, &csv, &header, error);
    if (!csv)
        return status;
    if (!status && header)
        status = et_csv_next(csv, &row, error);
    if (!status) {
        /* Cells are each thread's own. */
        for (int i = 0; i < self->most; i++) {
            et_csv_scanner *scanner = &self->pieces[i].scanner;
            et_csv_scanner_release(scanner);
            et_csv_form(csv, scanner);
            scanner->columns = self->stats->head.columns;
        }
        status = read_rows(self, csv, error);
    }
    self->before += et_csv_taken(csv);
    et_csv_close(csv);
    return status;
}

/* ---- before and after ---- */

static et_analyze_options defaults_of(const et_analyze_options *options)
{
    static const et_analyze_options none;
    et_analyze_options o = options ? *options : none;
    o.quantiles = o.quantiles ? o.quantiles : QUANTILES;
    o.threads = o.threads ? et_team_most(o.threads) : et_team_threads();
    return o;
}

static int open_fields(et_table_stats *stats, et_error *error)
{
    const int fields = stats->head.fields;
    /* Wide tables get less of everything for each column. */
    int width = ET_SKETCH_WIDTH_MAX, bits = 12;
    while (width > ET_SKETCH_WIDTH_MIN && (int64_t)width * fields > SKETCH_WIDTHS)
        width /= 2;
    while (bits > ET_DISTINCT_BITS_MIN && ((int64_t)fields << bits) > DISTINCT_ALL)
        bits--;
    int64_t entries = ENTRIES_ALL / fields;
    entries = entries < ENTRIES_MIN ? ENTRIES_MIN : entries < ENTRIES ? entries : ENTRIES;
    et_column_stats_options room = {
        .entries = (size_t)(stats->options->entries ? stats->options->entries : entries),
        .sketch_width = width,
        .distinct_bits = bits,
        .first_rows = FIRST_ALL / fields < FIRST_ROWS ? FIRST_ALL / fields : FIRST_ROWS
    };
    if (ET_ALLOC(stats->field, fields, "columns", error))
        return ET_ENOMEM;
    for (int i = 0; i < fields; i++) {
        room.seed = (uint64_t)i;
        room.format = stats->format[i];
        et_column_stats_init(&stats->field[i], &room);
    }
    return ET_OK;
}

static void close_fields(et_table_stats *stats)
{
    for (int i = 0; stats->field && i < stats->head.fields; i++)
        et_column_stats_release(&stats->field[i]);
    et_free(stats->field);
    stats->field = NULL;
}

/* Adopts first, the open first file; NULL: opens the first file again. */
static int read_csv(et_table_stats *stats, et_csv *first, et_error *error)
{
    pass self = { .stats = stats,
                  .options = stats->options,
                  .threads = stats->options->threads,
                  .first = first };
    size_t columns = (size_t)stats->head.columns;
    if (stats->bytes < THREADS_MIN)
        self.threads = 1;
    self.most = self.threads == 1 ? 1 : PIECES * self.threads;
    self.pieces = et_alloc_zero(self.most, sizeof *self.pieces);
    self.how = et_alloc(columns, sizeof *self.how);
    self.position = et_alloc(columns, sizeof *self.position);
    int status = ET_OK;
    if (!self.pieces || !self.how || !self.position)
        status = et_alloc_failed(error, "the pieces of a table");
    else {
        read_no_column(&self);
        for (size_t i = 0; i < columns; i++)
            self.position[i] = (int)i;
        status = self.threads > 1 ? et_team_start(self.threads, error) : ET_OK;
    }
    for (; !status && self.file < (int)stats->paths->count; self.file++)
        status = read_file(&self, error);
    for (int i = 0; self.pieces && i < self.most; i++) {
        piece *p = &self.pieces[i];
        et_csv_scanner_release(&p->scanner);
        et_free(p->class);
        et_free(p->number);
        et_free(p->text);
        et_free(p->row_line);
    }
    et_free(self.pieces);
    et_free(self.how);
    et_free(self.position);
    et_csv_close(self.first);
    stats->bytes = self.before;
    return status;
}

/* One pass over all files. */
static int read_files(et_table_stats *stats, et_csv *first, et_error *error)
{
    stats->rows = 0;
    stats->missing_found = 0;
    int status = open_fields(stats, error);
    if (status)
        et_csv_close(first);
    else
        status = stats->head.jsonl ? read_jsonl(stats, error) : read_csv(stats, first, error);
    for (int i = 0; !status && i < stats->head.fields; i++) {
        et_column_stats_finish(&stats->field[i]);
        if (stats->field[i].failed)
            status = et_alloc_failed(error, "the statistics of a table");
    }
    if (!status && !stats->rows)
        status =
            et_fail(error, ET_EDATA, "%s: the file has a header and no rows", *stats->paths->items);
    return status;
}

/* Reads the files, and once more if columns have a notation. If a column has more texts than
 * expected in its notation, a third pass reads it without notation. */
static int read_table(et_table_stats *stats, et_csv *first, et_arena *arena, et_error *error)
{
    /* The formats of a given schema, or plain ones, in arena. */
    const size_t count = (size_t)stats->head.fields;
    stats->format = et_arena_array(arena, count, sizeof *stats->format);
    stats->unclear = et_arena_array(arena, count, sizeof *stats->unclear);
    stats->bare = et_arena_array(arena, count, sizeof *stats->bare);
    int status = ET_OK;
    if (arena->failed)
        status = et_alloc_failed(error, "columns");
    for (size_t i = 0; !status && stats->options->schema && i < count; i++)
        stats->format[i] = et_number_format_of(et_schema_at(stats->options->schema, (int)i));
    /* Only if all files can be read again. */
    struct stat info;
    bool again = !stats->options->schema;
    for (size_t i = 0; again && i < stats->paths->count; i++)
        again = !stat(stats->paths->items[i], &info) && S_ISREG(info.st_mode);
    if (status)
        et_csv_close(first);
    else
        status = read_files(stats, first, error);
    for (int checks = 0; !status && again && checks < 2; checks++) {
        again = checks ? formats_check(stats) : formats_find(stats, arena);
        if (!again)
            break;
        close_fields(stats);
        status = arena->failed ? et_alloc_failed(error, "the statistics of a table")
                               : read_files(stats, NULL, error);
    }
    return status;
}

/* *first: the first file, of CSV. */
static int open_head(et_table_stats *stats, et_csv **first, et_arena *arena, et_error *error)
{
    const char *path = *stats->paths->items;
    bool jsonl;
    int status = et_paths_jsonl(&jsonl, stats->paths, error);
    if (!status && jsonl && (stats->options->csv.delimiter || stats->options->csv.comment))
        return et_fail(error, ET_ECONFIG, "%s: JSON lines have no %s: leave out this option", path,
                       stats->options->csv.delimiter ? "delimiter" : "comments");
    if (!status && jsonl)
        return head_jsonl(stats, arena, error);
    if (!status)
        status = et_table_head_open(first, NULL, path, stats->options, error);
    return status ? status
                  : et_table_head_find(&stats->head, *first, path, stats->options, arena, error);
}

int et_analyze(et_analysis *out, const et_strings *paths, const et_analyze_options *options,
               et_error *error)
{
    const et_analyze_options o = defaults_of(options);
    et_table_stats stats = { .paths = paths, .options = &o };
    et_arena arena = ET_ARENA_INIT;
    int status = ET_OK;
    if (!paths->count)
        status = et_fail(error, ET_ECONFIG, "no file to analyze: name a file");
    else if (o.entries < 0 || o.entries > 100000000)
        status = et_fail(error, ET_ECONFIG,
                         "%lld entries of a column: give 1 to 100,000,000, or 0 for the default",
                         (long long)o.entries);
    else if (o.quantiles < 2 || o.quantiles > 100001)
        status = et_fail(error, ET_ECONFIG, "%s: give 2 to 100,001",
                         et_format_many(o.quantiles, "quantile").text);
    else if (o.classes < -1 || o.classes > 1000)
        status =
            et_fail(error, ET_ECONFIG, "%d classes: give 1 to 1,000, or -1 for none", o.classes);
    else if (o.threads < 1 || o.threads > 4096)
        status = et_fail(error, ET_ECONFIG, "%d threads: give 1 to 4,096", o.threads);
    *out = (et_analysis){ .arena = ET_ARENA_INIT };
    if (status)
        return status;
    struct stat info;
    for (size_t i = 0; i < paths->count; i++)
        if (!stat(paths->items[i], &info) && info.st_size > 0)
            stats.bytes += (uint64_t)info.st_size;
    et_csv *first = NULL;
    status = open_head(&stats, &first, &arena, error);
    if (!status)
        status = et_table_head_check_columns(&stats.head, &o, *paths->items, error);
    if (!status)
        status = read_table(&stats, first, &arena, error);
    else
        et_csv_close(first);
    if (!status)
        status = et_table_stats_report(&stats, out, error);
    close_fields(&stats);
    et_same_header_release(&stats.head.same);
    et_arena_release(&arena);
    if (status)
        et_analysis_release(out);
    return status;
}

void et_analysis_release(et_analysis *analysis)
{
    et_schema_free(analysis->schema);
    et_metadata_free(analysis->metadata);
    et_arena_release(&analysis->arena);
    *analysis = (et_analysis){ .arena = ET_ARENA_INIT };
}
