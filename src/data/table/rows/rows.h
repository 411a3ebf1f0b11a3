/* Rows of a table from any source, one after another: CSV files and streams, JSON lines,
 * tf.Examples in record files, arrays in memory, instances of a program. A row has values in the
 * order of a schema, for an encoder.
 *
 *     while (!(status = et_rows_next(rows, &row, &error)) && !row.end)
 *         status = et_row_encode(encoder, rows, &row, to, &error);
 *
 * The header of the first file finds the columns of another:
 *
 *     et_same_header_begin(&same, path, &first, &error);
 *     if (et_same_header_is(&same, &other))
 *         status = et_same_header_find(&same, place, path, &other, &error);
 *     et_same_header_release(&same);
 *
 * A row's values are valid until the next call of et_rows_next. Use from one thread at a time. */
#ifndef ETUDE_DATA_TABLE_ROWS_ROWS_H
#define ETUDE_DATA_TABLE_ROWS_ROWS_H

#include <etude/table_set.h>

#include "base/arena.h"
#include "base/fields/fields.h"
#include "base/map.h"
#include "data/table/rows/csv.h"

/* The layout of a row's values: the values of the schema's fields, in their order. A field of
 * variable length counts as one value, which may be a list. An encoder has such a layout
 * (et_encoder_row_layout). */
typedef struct et_row_layout {
    const et_schema *schema;
    int count;      /* values */
    int *begin;     /* [fields + 1]: the index of a field's first value */
    bool *reads[2]; /* [fields]: [false] whether its values go into anything but targets and
                       weights, [true] into one of these */
} et_row_layout;

/* A value of a row that is not text, but a tf.Example or an array: the text of a discrete field,
 * else the number. */
typedef struct et_reading {
    const char *text; /* [length], not terminated; of a number NULL, or the text as written */
    size_t length;
    double number;
    bool numeric;                  /* of an integer or real field */
    bool missing;                  /* then all other members are ignored */
    const struct et_reading *list; /* [count]: the values of a field of variable length, none
                                      missing; NULL: the reading itself is the value */
    size_t count;
} et_reading;

/* ---- the columns of a file ---- */

/* Maps the values of a CSV row to columns of a schema: by the names of a header, in any order, or
 * by position. Columns without a field of their name are ignored. A field with several values has
 * as many columns: "pixels[0]", "pixels[1]", ... in a header.
 *
 * The first row is a header if half of its cells, or of the schema's fields, are names of fields.
 * It is also a header if one cell is a name and no cell is a number. */
typedef enum et_header {
    ET_HEADER_FOUND, /* as it looks */
    ET_HEADER_THERE,
    ET_HEADER_ABSENT,
} et_header;

typedef struct et_columns {
    int *column;    /* [cells of a row]: column in the file; -1: no column, so the value is
                       missing */
    et_cell *cells; /* [cells of a row]: the cells of the last call */
    int count;      /* of values */
    bool header;    /* the first row was one */
    bool targets;   /* the file has all columns of targets */
} et_columns;

/* The name of a field's value in a header, counted from 0: the field's name, or "pixels[1]". */
typedef struct et_column_name {
    char text[300];
} et_column_name;

et_column_name et_column_name_of(const et_schema_field *field, int64_t at);
/* Equal for equal values of a field, as files have them; 0: missing. In a column of numbers, "1"
 * and "1.0" are the same value, and "0" and "-0". */
uint64_t et_cell_hash(const et_schema_field *field, const et_cell *cell);

/* The name for a column without a name: "column_3". column: from 0. */
et_column_name et_column_numbered(int column);

/* Whether an unmarked first row is a header, by the rule above. */
bool et_columns_look_named(const et_schema *schema, const et_cell *cells, int count);

/* Finds the columns from the first row of a file. name: of the file, with which messages begin.
 * targets: columns of targets are required. Otherwise they may be absent; without a header, a row
 * then has all other columns in order. If no feature is a target, the first column may be absent
 * (TensorFX's rule). ET_EDATA: needed columns are missing (the message names all), a name occurs
 * twice, the number of columns differs. */
int et_columns_find(et_columns *columns, const et_row_layout *layout, const et_csv_row *first,
                    et_header header, bool targets, const char *name, et_error *error);
void et_columns_release(et_columns *columns);

/* Facts about rows, if other files have a delimiter: the number of columns without a header, and
 * the names in a header. Valid as long as the layout. */
et_csv_known et_columns_known(const et_row_layout *layout, char delimiter);

/* A row of the file as cells for et_encoder_row, valid as long as the row's are. */
const et_cell *et_columns_take(et_columns *columns, const et_csv_row *row);

/* ---- rows ---- */

typedef struct et_row {
    bool end;                 /* no more rows: ignore the other members */
    const et_cell *cells;     /* texts; NULL: values, or JSON */
    const et_reading *values; /* others */
    const et_cell *kept;      /* [count of et_rows_options.keep]; NULL: not CSV, or no kept
                                 columns */
    et_bytes json;            /* one line, for et_row_parse; data NULL: cells or values */
    size_t file;              /* index of the row's path; 0 if there is only one */
    int64_t number;           /* number of the line or record in the file, from 1 */
} et_row;

typedef struct et_rows et_rows;

typedef struct et_rows_class {
    const char *name;
    int (*next)(et_rows *self, et_row *row, et_error *error);
    bool (*waits)(et_rows *self); /* NULL: it never does */
    void (*close)(et_rows *self);
} et_rows_class;

struct et_rows {
    const et_rows_class *class;
    const et_row_layout *layout; /* borrowed */
    et_strings paths;            /* borrowed; of arrays one name */
};

/* Allocates a zeroed struct of `size` bytes that begins with an et_rows. NULL: no memory. */
void *et_rows_new(size_t size, const et_rows_class *class, const et_row_layout *layout,
                  et_strings paths, et_error *error);

typedef struct et_rows_options {
    et_csv_options csv;
    et_header header;
    bool no_targets;   /* columns that only targets read may be absent */
    bool optional;     /* of CSV: a file without rows is allowed */
    et_strings keep;   /* of CSV: columns that rows also have as they are, whether the schema has
                          them or not; borrowed */
    const char *jsonl; /* for CSV: the cure if the file has JSON lines, "say --jsonl"; NULL: none */
    et_csv *reader;    /* of CSV: reads the rows, with the path as its name. Closed with the rows,
                          also if opening fails. NULL: paths are files */
} et_rows_options;

/* How objects of JSON are read; all is borrowed. */
typedef struct et_json_columns {
    const et_row_layout *layout;
    const et_metadata *metadata; /* NULL: of no run */
    const char *const *missing;  /* as of et_csv_options, quoted in JSON as unquoted in CSV */
} et_json_columns;

/* paths: as et_paths_match gave them. options may be NULL. */
int et_rows_open_csv(et_rows **out, const et_row_layout *layout, const et_strings *paths,
                     const et_rows_options *options, et_error *error);
/* A file with an object of JSON in each line, UTF-8, plain or gzip; lines of blanks are skipped.
 * Its rows are JSON. stream: a descriptor, which stays the caller's, and path names it in messages;
 * -1: the file. */
int et_rows_open_jsonl(et_rows **out, const et_row_layout *layout, const et_strings *path,
                       int stream, et_error *error);
/* Whether a file is JSON lines, by its name: .jsonl or .ndjson, or either with .gz. */
bool et_path_is_jsonl(const char *path);
/* Whether all are. ET_EDATA: some are. */
int et_paths_jsonl(bool *out, const et_strings *paths, et_error *error);
/* CSV, or JSON lines by the files' names. metadata: as of et_json_columns. */
int et_rows_open_files(et_rows **out, const et_row_layout *layout, const et_strings *paths,
                       const et_rows_options *options, const et_metadata *metadata,
                       et_error *error);
/* tf.Examples in record files, plain or GZIP: a field is the feature with its key. Integers and
 * floats are numbers. A string is a text, or, if the field's length is its number of bytes, one
 * number per byte. An empty list, an empty text and NaN are missing values. */
int et_rows_open_examples(et_rows **out, const et_row_layout *layout, const et_strings *paths,
                          const et_rows_options *options, et_error *error);
/* ET_ECONFIG: no columns, an invalid type, a name twice. */
int et_frame_check(const et_frame *frame, et_error *error);

et_schema_type et_column_field_type(et_column_type type);
et_reading et_frame_value(const et_frame_column *column, int64_t row);

/* frame is borrowed; name: of it in messages, borrowed. */
int et_rows_open_frame(et_rows **out, const et_row_layout *layout, const et_frame *frame,
                       const char *name, const et_rows_options *options, et_error *error);
/* Rows that are given one by one, borrowed: texts of CSV, or serialized tf.Examples. */
int et_rows_open_instances(et_rows **out, const et_row_layout *layout, const et_bytes *instances,
                           size_t count, bool examples, const et_rows_options *options,
                           et_error *error);
void et_rows_close(et_rows *rows); /* NULL allowed */

/* After a failure only close is allowed. Exception: after ET_EDATA with row->number not 0, reading
 * may continue after that row. */
int et_rows_next(et_rows *rows, et_row *row, et_error *error);
/* Whether the next row would have to wait for more of a stream. */
bool et_rows_wait(et_rows *rows);

/* One value (et_json_parse_written) as the text of a field, in the value's memory; NULL: missing.
 * columns: the layout is not read, and metadata may be NULL. ET_EDATA: a list or an object. */
int et_json_cell(et_cell *cell, const et_json_columns *columns, const et_schema_field *field,
                 const et_value *value, et_error *error);
/* Parses a row's line into the arena as an object. ET_EDATA: not JSON, or not an object; the error
 * does not name the place. */
int et_row_object(const et_value **object, const et_bytes *json, et_arena *arena, et_error *error);
/* Cells of an object (et_json_parse_written), for et_encoder_row: cells [values of the layout],
 * their texts in its memory. A number is its text as written. A truth value is the column's level
 * "true", else "True", else "TRUE". A column that the row lacks is a missing value. Names outside
 * the schema are ignored. ET_EDATA: such a name resembles a column that the row lacks, or the row
 * has no name of the schema, because a misspelt name would make a value missing. The error does not
 * name the place. */
int et_row_cells(et_cell *cells, const et_json_columns *columns, const et_value *object,
                 et_error *error);
/* Cells of a row's line (et_row_object). object: NULL, or receives the parsed line. */
int et_row_parse(et_cell *cells, const et_json_columns *columns, const et_bytes *json,
                 et_arena *arena, const et_value **object, et_error *error);

/* The header of a table's first file. The other files must have the same columns, in any order; the
 * header finds them (the second example at the top).
 *
 * A column with an empty name has its number as name (et_column_numbered). */

typedef struct et_same_header {
    const char *path;  /* of the first file, borrowed */
    const char **name; /* [count], in arena */
    int count;         /* 0: no header yet */
    et_map indices;    /* of names */
    et_map folded;     /* names in small letters */
    et_arena arena;
} et_same_header;

#define ET_SAME_HEADER_INIT                                                                        \
    {                                                                                              \
        NULL, NULL, 0, ET_MAP_INIT, ET_MAP_INIT, ET_ARENA_INIT                                     \
    }

/* If two columns have the same name, the first one counts. */
int et_same_header_begin(et_same_header *self, const char *path, const et_csv_row *header,
                         et_error *error);
void et_same_header_release(et_same_header *self);

/* Whether the first row of another file is a header: half of its cells are names of the first file,
 * or one cell is a name and no cell is a number. Ignores case; find then refuses names that differ
 * in case. */
bool et_same_header_is(const et_same_header *self, const et_csv_row *first);

/* Finds the first file's columns in another file, by its header: position [count]. ET_EDATA: a
 * column is missing, added, or named twice. */
int et_same_header_find(const et_same_header *self, int *position, const char *path,
                        const et_csv_row *header, et_error *error);

/* ET_EDATA: another file has no header, and the schema has the columns in another order than the
 * first file. */
int et_same_header_absent(const et_same_header *self, const char *path, int64_t line,
                          et_error *error);

/* Facts for reading the other files, valid until release. delimiter: that of the first file. */
et_csv_known et_same_header_known(const et_same_header *self, char delimiter);

#endif
