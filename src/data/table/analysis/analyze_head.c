/* Finds out from the first rows of a file whether it has a header. Without a schema, the first row
 * is a header if none of its cells is a number and a column below has numbers; or if none of its
 * cells occurs again, in the row or below. With a schema, the first row is a header if half of the
 * cells, or of the fields, are names of fields; or if one cell is a name and no cell is a number.
 * Readers of training data use this rule too (rows.h). */
#include "data/table/analysis/analyze_private.h"

#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/text/strbuf.h"
#include "data/table/rows/csv_scan.h"
#include "data/table/rows/rows.h"

/* Rows that are examined, and bytes in which they must begin. */
#define ROWS_MAX  200
#define BYTES_MAX ((size_t)32 << 20)

/* Columns that a message lists. */
#define NAMES_SHOWN 12

/* Only an empty cell is not a name. */
static const char *const no_name[] = { "", NULL };

/* The first row of a file, and facts about the rows below it. */
typedef struct first_rows {
    const char **text; /* [count]; NULL: empty */
    bool *numeric;     /* [count]: a cell below is a number */
    bool *again;       /* [count]: a cell below has the same text */
    int count;         /* 0: the file has no rows */
    int64_t line;
    int rows; /* below */
    char delimiter;
} first_rows;

static bool is_number(const char *text, size_t length)
{
    static const et_number_format plain;
    double number;
    et_cell_class class = et_cell_classify(&plain, text, length, &number);
    if (class != ET_CELL_TEXT)
        return class != ET_CELL_CODE;
    const et_noted noted = et_notation_find(text, length);
    return noted.notations && !noted.unit_length;
}

int et_table_head_open(et_csv **csv, const et_csv_known *known, const char *path,
                       const et_analyze_options *options, et_error *error)
{
    et_csv_options o = options->csv;
    o.missing = no_name;
    o.columns = 0;
    o.known = known;
    int status = et_csv_open_once(csv, path, &o, error);
    if (!status)
        et_csv_keep(*csv);
    return status;
}

et_csv_known et_table_head_known(const et_table_head *head)
{
    return head->same.count ? et_same_header_known(&head->same, head->delimiter)
                            : (et_csv_known){ .delimiter = head->delimiter,
                                              .least = head->columns,
                                              .most = head->columns };
}

/* A bad row below the first is not reported here, because the reader of all rows reports it. */
static int read_first(first_rows *first, et_csv *csv, int rows, et_arena *arena, et_error *error)
{
    et_csv_row row;
    *first = (first_rows){ 0 };
    int status = et_csv_next(csv, &row, error);
    if (!status && row.count) {
        size_t count = (size_t)row.count;
        first->count = row.count;
        first->line = row.line;
        first->text = et_arena_array(arena, count, sizeof *first->text);
        first->numeric = et_arena_array(arena, count, sizeof *first->numeric);
        first->again = et_arena_array(arena, count, sizeof *first->again);
        for (size_t i = 0; i < count && !arena->failed; i++)
            if (row.cell[i].text)
                first->text[i] = et_arena_strndup(arena, row.cell[i].text, row.cell[i].length);
        status = arena->failed ? et_alloc_failed(error, "a header") : ET_OK;
    }
    first->delimiter = et_csv_delimiter(csv);
    while (!status && first->count && first->rows < rows && et_csv_kept(csv) < BYTES_MAX) {
        if (et_csv_next(csv, &row, NULL) || !row.count)
            break;
        first->rows++;
        for (int i = 0; i < row.count && i < first->count; i++) {
            const et_cell *cell = &row.cell[i];
            const char *text = first->text[i];
            first->again[i] |= cell->text && text && strlen(text) == cell->length &&
                               !memcmp(text, cell->text, cell->length);
            first->numeric[i] |= cell->text && is_number(cell->text, cell->length);
        }
    }
    return status;
}

/* ---- without a schema ---- */

static bool looks_like_header(const first_rows *first, bool *failed)
{
    bool numeric = false, again = false;
    int named = 0;
    et_map seen = ET_MAP_INIT;
    for (int i = 0; i < first->count; i++) {
        if (!first->text[i])
            continue;
        if (is_number(first->text[i], strlen(first->text[i]))) {
            et_map_release(&seen);
            return false;
        }
        named++;
        numeric |= first->numeric[i];
        int64_t before;
        again |= first->again[i] || et_map_get(&seen, first->text[i], &before);
        *failed |= !et_map_put(&seen, first->text[i], i);
    }
    et_map_release(&seen);
    return named && (numeric || !again);
}

static const char *numbered(int i, et_arena *arena)
{
    return et_arena_strdup(arena, et_column_numbered(i).text);
}

static int name_columns(et_table_head *head, const first_rows *first, const char *path,
                        et_arena *arena, et_error *error)
{
    et_map seen = ET_MAP_INIT;
    int status = ET_OK;
    for (int i = 0; i < head->columns && !status; i++) {
        int64_t before;
        head->name[i] = head->header && first->text[i] ? first->text[i] : numbered(i, arena);
        if (!head->name[i])
            status = et_alloc_failed(error, "a column's name");
        else if (et_map_get(&seen, head->name[i], &before))
            status = et_fail(error, ET_EDATA,
                             "%s:%lld: columns %d and %d are both called \"%.60s\": rename one, or "
                             "give --header no if the first row is data",
                             path, (long long)first->line, (int)before + 1, i + 1, head->name[i]);
        else if (!et_map_put(&seen, head->name[i], i))
            status = et_alloc_failed(error, "a column's name");
        for (const char *c = head->name[i]; !status && *c; c++)
            if ((unsigned char)*c < 0x20 || *c == 0x7f)
                status = et_fail(error, ET_EDATA,
                                 "%s:%lld: byte %td of the name of column %d is a control "
                                 "character (0x%02X): rename the column",
                                 path, (long long)first->line, c - head->name[i] + 1, i + 1,
                                 (unsigned)(unsigned char)*c);
    }
    et_map_release(&seen);
    return status;
}

/* Makes the cells of a row from the texts of a first row (NULL: empty). NULL: no memory. */
static et_cell *cells_of(const char *const *text, int count, et_arena *arena)
{
    et_cell *cells = et_arena_array(arena, count, sizeof *cells);
    for (int i = 0; cells && i < count; i++)
        cells[i] = (et_cell){ text[i], text[i] ? strlen(text[i]) : 0 };
    return cells;
}

/* Keeps the names that other files must have. */
static int keep_names(et_table_head *head, const char *const *text, const char *path, int64_t line,
                      et_arena *arena, et_error *error)
{
    const et_csv_row row = { line, head->columns, cells_of(text, head->columns, arena) };
    return row.cell ? et_same_header_begin(&head->same, path, &row, error)
                    : et_alloc_failed(error, "a header");
}

/* ---- with one ---- */

static int64_t length_of(const et_schema_field *field)
{
    return field->length > 0 ? field->length : 0;
}

static bool looks_named(const et_schema *schema, const first_rows *first, et_arena *arena)
{
    const et_cell *cells = cells_of(first->text, first->count, arena);
    return cells && et_columns_look_named(schema, cells, first->count);
}

static int find_fields(et_table_head *head, const et_schema *schema, const first_rows *first,
                       const et_map *names, const char *path, et_arena *arena, et_error *error)
{
    et_strbuf missing = ET_STRBUF_INIT;
    int64_t next = 0, position;
    for (int f = 0; f < head->fields; f++) {
        const et_schema_field *field = et_schema_at(schema, f);
        int64_t length = length_of(field);
        int *columns = et_arena_array(arena, (size_t)length + 1, sizeof *columns);
        head->column[f] = columns;
        head->column_count[f] = (int)length;
        for (int64_t i = 0; columns && i < length; i++) {
            if (head->header && !et_map_get(names, et_column_name_of(field, i).text, &position)) {
                et_strbuf_printf(&missing, "%s%.60s", missing.length ? ", " : "",
                                 et_column_name_of(field, i).text);
                continue;
            }
            columns[i] = (int)(head->header ? position : next++);
        }
    }
    int status = ET_OK;
    if (arena->failed)
        status = et_alloc_failed(error, "a header");
    else if (missing.failed)
        status = et_alloc_failed(error, "a header");
    else if (missing.length) /* names all missing columns together */
        status = et_fail(error, ET_EDATA,
                         "%s:%lld: the header does not match the schema: there is no column %s",
                         path, (long long)first->line, et_strbuf_text(&missing));
    et_strbuf_release(&missing);
    return status;
}

/* Lengths of fields come from a file, and memory is allocated for them. */
static int check_lengths(const et_schema *schema, et_error *error)
{
    int64_t all = 0;
    for (int f = 0; f < et_schema_count(schema); f++) {
        all += length_of(et_schema_at(schema, f));
        if (all > ET_CSV_COLUMNS_MAX)
            return et_fail(error, ET_ECONFIG,
                           "field %.60s: with this field the schema has more than %d values, the "
                           "limit for the columns of a table",
                           et_schema_at(schema, f)->name, ET_CSV_COLUMNS_MAX);
    }
    return ET_OK;
}

/* The names that the columns of a file without a header have by their place. */
static int keep_schema(et_table_head *head, const et_schema *schema, et_arena *arena,
                       et_error *error)
{
    const char **name = et_arena_array(arena, head->columns, sizeof *name);
    for (int f = 0, column = 0; name && f < head->fields; f++)
        for (int i = 0; i < head->column_count[f]; i++)
            name[column++] =
                et_arena_strdup(arena, et_column_name_of(et_schema_at(schema, f), i).text);
    return arena->failed ? et_alloc_failed(error, "a header")
                         : keep_names(head, name, "the schema", 0, arena, error);
}

static int take_schema(et_table_head *head, const et_analyze_options *o, const first_rows *first,
                       const char *path, et_arena *arena, et_error *error)
{
    et_map names = ET_MAP_INIT;
    bool failed = false;
    int status = check_lengths(o->schema, error);
    if (status)
        return status;
    for (int i = 0; i < first->count; i++) {
        const char *name = first->text[i] ? first->text[i] : numbered(i, arena);
        failed |= !name || !et_map_put(&names, name, i);
    }
    head->fields = et_schema_count(o->schema);
    head->column = et_arena_array(arena, head->fields, sizeof *head->column);
    head->column_count = et_arena_array(arena, head->fields, sizeof *head->column_count);
    if (failed || arena->failed)
        status = et_alloc_failed(error, "a header");
    head->header = o->header == ET_HEADER_THERE ||
                   (o->header == ET_HEADER_FOUND && looks_named(o->schema, first, arena));
    if (!status)
        status = name_columns(head, first, path, arena, error);
    if (!status && !head->header) {
        /* Columns that a row of the schema's fields has without a header. */
        int64_t wanted = 0;
        for (int f = 0; f < head->fields; f++)
            wanted += length_of(et_schema_at(o->schema, f));
        if (wanted != head->columns)
            status = et_fail(
                error, ET_EDATA,
                "%s:%lld: %d columns, but the schema has %lld: correct one of them, or add a "
                "first line with the names of all columns",
                path, (long long)first->line, head->columns, (long long)wanted);
    }
    if (!status)
        status = find_fields(head, o->schema, first, &names, path, arena, error);
    if (!status)
        status = head->header ? keep_names(head, first->text, path, first->line, arena, error)
                              : keep_schema(head, o->schema, arena, error);
    et_map_release(&names);
    return status;
}

/* ---- the head ---- */

int et_table_head_find(et_table_head *head, et_csv *csv, const char *path,
                       const et_analyze_options *options, et_arena *arena, et_error *error)
{
    first_rows first;
    bool failed = false;
    *head = (et_table_head){ 0 };
    int status = read_first(&first, csv, ROWS_MAX, arena, error);
    if (status)
        return status;
    if (!first.count)
        return et_fail(error, ET_EDATA, "%s: the file has no rows", path);
    size_t count = (size_t)first.count;
    head->delimiter = first.delimiter;
    head->columns = head->fields = first.count;
    head->name = et_arena_array(arena, count, sizeof *head->name);
    head->column = et_arena_array(arena, count, sizeof *head->column);
    head->column_count = et_arena_array(arena, count, sizeof *head->column_count);
    if (arena->failed)
        return et_alloc_failed(error, "a header");
    if (options->schema)
        return take_schema(head, options, &first, path, arena, error);
    head->header = options->header == ET_HEADER_THERE ||
                   (options->header == ET_HEADER_FOUND && looks_like_header(&first, &failed));
    if (failed)
        return et_alloc_failed(error, "a header");
    status = name_columns(head, &first, path, arena, error);
    if (!status && head->header)
        status = keep_names(head, first.text, path, first.line, arena, error);
    if (status)
        return status;
    /* Each column is a field. */
    int *all = et_arena_array(arena, head->columns, sizeof *all);
    if (!all)
        return et_alloc_failed(error, "columns");
    for (int i = 0; i < head->columns; i++) {
        all[i] = i;
        head->column[i] = &all[i];
        head->column_count[i] = 1;
    }
    return ET_OK;
}

/* ---- other files ---- */

/* Whether the first row of another file is a header even without known names: it has no number, and
 * numbers are below it. */
static bool stands_above_numbers(const first_rows *first)
{
    bool above = false;
    for (int i = 0; i < first->count; i++) {
        if (first->text[i] && is_number(first->text[i], strlen(first->text[i])))
            return false;
        above |= first->text[i] && first->numeric[i];
    }
    return above;
}

/* Matches columns by the names in the first row, if it is a header. */
static int match_by_names(const et_table_head *head, int *position, bool *header,
                          const first_rows *first, const char *path, bool always, et_arena *arena,
                          et_error *error)
{
    const et_csv_row row = { first->line, first->count,
                             cells_of(first->text, first->count, arena) };
    if (!row.cell)
        return et_alloc_failed(error, "a header");
    *header = always || stands_above_numbers(first) || et_same_header_is(&head->same, &row);
    if (*header)
        return et_same_header_find(&head->same, position, path, &row, error);
    /* A file without a header must have the schema's columns in the schema's order, unless the
     * first file also has other columns. */
    int next = 0;
    bool same = true;
    for (int f = 0; f < head->fields; f++)
        for (int i = 0; i < head->column_count[f]; i++)
            same &= head->column[f][i] == next++;
    return same || next != head->columns
               ? ET_OK
               : et_same_header_absent(&head->same, path, first->line, error);
}

int et_table_head_match(const et_table_head *head, int *position, bool *header, et_csv *csv,
                        const char *path, const et_analyze_options *options,
                        const et_strings *paths, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    first_rows first;
    *header = false;
    for (int i = 0; i < head->columns; i++)
        position[i] = i;
    int status = read_first(&first, csv, ROWS_MAX, &arena, error);
    const bool looks = !status && options->header != ET_HEADER_ABSENT && first.count;
    if (looks && head->same.count)
        status = match_by_names(head, position, header, &first, path,
                                options->header == ET_HEADER_THERE, &arena, error);
    else if (looks && stands_above_numbers(&first))
        status = et_fail(error, ET_EDATA,
                         "%s:%lld: the first row looks like a header, but %s has no header: give "
                         "all files a header or none, or use --header no",
                         path, (long long)first.line, paths->items[0]);
    et_arena_release(&arena);
    return status;
}

const char *et_table_head_field(const et_table_head *head, const et_analyze_options *options,
                                int field)
{
    return options->schema ? et_schema_at(options->schema, field)->name : head->name[field];
}

static int check_column(const et_table_head *head, const et_analyze_options *options,
                        const char *column, const char *path, et_error *error)
{
    for (int i = 0; i < head->fields; i++)
        if (!strcmp(et_table_head_field(head, options, i), column))
            return ET_OK;
    const char **names = et_alloc_zero((size_t)head->fields + 1, sizeof *names);
    et_strbuf list = ET_STRBUF_INIT;
    for (int i = 0; names && i < head->fields; i++) {
        names[i] = et_table_head_field(head, options, i);
        if (i < NAMES_SHOWN)
            et_strbuf_printf(&list, strchr(names[i], ',') ? "%s\"%.60s\"" : "%s%.60s",
                             i ? ", " : "", names[i]);
    }
    int status =
        et_fail(error, ET_EDATA, "%s: there is no column \"%.60s\"%s. The file has %d%s: %s%s%s",
                path, column, names ? et_nearest_hint(column, names, "").text : "", head->columns,
                head->header ? "" : " and no header", et_strbuf_text(&list),
                head->fields > NAMES_SHOWN ? ", ..." : "",
                head->columns == 1 && !et_path_is_jsonl(path)
                    ? "; if it has more, give the character between columns: --delimiter"
                : head->header ? ""
                               : "; if its first row has the names, give --header yes");
    et_strbuf_release(&list);
    et_free(names);
    return status;
}

int et_table_head_check_columns(const et_table_head *head, const et_analyze_options *options,
                                const char *path, et_error *error)
{
    int status =
        options->target ? check_column(head, options, options->target, path, error) : ET_OK;
    const et_strings *const others[] = { &options->more_targets, &options->dropped,
                                         &options->only };
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < others[k]->count && !status; i++)
            status = check_column(head, options, others[k]->items[i], path, error);
    return status;
}

void et_table_suspect(et_value *list, const char *column, const char *kind, const char *text)
{
    et_value *item = et_value_add_dict(list);
    et_value_set_string(item, "column", column);
    et_value_set_string(item, "kind", kind);
    et_value_set_string(item, "text", text);
}
