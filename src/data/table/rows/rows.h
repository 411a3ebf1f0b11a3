/* Rows of a table from any source, one after another: CSV files and streams, JSON lines,
 * tf.Examples in record files, arrays in memory, instances of a program. A row has values in the
 * order of an encoder's schema, for the encoder.
 *
 *     while (!(status = et_rows_next(rows, &row, &error)) && !row.end)
 *         status = et_row_encode(rows, &row, to, &error);
 *
 * A row's values are valid until the next call of et_rows_next. Use from one thread at a time. */
#ifndef ETUDE_DATA_TABLE_ROWS_ROWS_H
#define ETUDE_DATA_TABLE_ROWS_ROWS_H

#include <etude/table_set.h>

#include "base/arena.h"
#include "base/fields/fields.h"
#include "data/table/features/encoder.h"
#include "data/table/rows/columns.h"

typedef struct et_row {
    bool end;                 /* no more rows: ignore the other members */
    const et_cell *cells;     /* texts; NULL: values, or JSON */
    const et_reading *values; /* others */
    const et_cell *kept;      /* [count of et_rows_options.keep]; NULL: not CSV, or none */
    et_bytes json;            /* one line, for et_row_parse; data NULL: cells or values */
    size_t file;              /* which of the paths it is from; 0 */
    int64_t number;           /* there: its line or record, from 1 */
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
    const et_encoder *encoder; /* borrowed */
    et_strings paths;          /* borrowed; of arrays one name */
};

typedef struct et_rows_options {
    et_csv_options csv;
    et_header header;
    bool no_targets;   /* what only targets are made of may be absent */
    bool optional;     /* of CSV: there may be no row at all */
    et_strings keep;   /* of CSV: columns that rows also have as they are, whether the schema has
                          them or not; borrowed */
    const char *jsonl; /* of CSV: what to do if it is JSON lines, "say --jsonl"; NULL: nothing */
    et_csv *reader;    /* of CSV: reads the rows, named as the one path, and is closed with them, or
                          where opening fails; NULL: paths are files */
} et_rows_options;

/* How objects of JSON are read; all is borrowed. */
typedef struct et_json_columns {
    const et_encoder *encoder;
    const et_metadata *metadata; /* NULL: of no run */
    const char *const *missing;  /* as of et_csv_options, quoted in JSON as unquoted in CSV */
} et_json_columns;

/* paths: as et_paths_match gave them. options may be NULL. */
int et_rows_open_csv(et_rows **out, const et_encoder *encoder, const et_strings *paths,
                     const et_rows_options *options, et_error *error);
/* A file with an object of JSON in each line, UTF-8, plain or gzip; lines of blanks are skipped.
 * Its rows are JSON. stream: a descriptor, which stays the caller's, and path names it in messages;
 * -1: the file. */
int et_rows_open_jsonl(et_rows **out, const et_encoder *encoder, const et_strings *path, int stream,
                       et_error *error);
/* The same of several files, as rows of cells. */
int et_rows_open_objects(et_rows **out, const et_strings *paths, const et_json_columns *columns,
                         et_error *error);
/* Whether a file is JSON lines, by its name: .jsonl or .ndjson, or either with .gz. */
bool et_path_is_jsonl(const char *path);
/* Whether all are. ET_EDATA: some are. */
int et_paths_jsonl(bool *out, const et_strings *paths, et_error *error);
/* CSV, or JSON lines by the files' names. metadata: as of et_json_columns. */
int et_rows_open_files(et_rows **out, const et_encoder *encoder, const et_strings *paths,
                       const et_rows_options *options, const et_metadata *metadata,
                       et_error *error);
/* tf.Examples in record files, plain or GZIP: a field is the feature with its key. Integers and
 * floats are numbers, a string is a text, or so many bytes as the field is long; an empty list or
 * text and a NaN are missing. */
int et_rows_open_examples(et_rows **out, const et_encoder *encoder, const et_strings *paths,
                          const et_rows_options *options, et_error *error);
/* frame is borrowed; name: of it in messages, borrowed. */
int et_rows_open_frame(et_rows **out, const et_encoder *encoder, const et_frame *frame,
                       const char *name, const et_rows_options *options, et_error *error);
/* Rows that are given one by one, borrowed: texts of CSV, or serialized tf.Examples. */
int et_rows_open_instances(et_rows **out, const et_encoder *encoder, const et_bytes *instances,
                           size_t count, bool examples, const et_rows_options *options,
                           et_error *error);
void et_rows_close(et_rows *rows); /* NULL allowed */

/* After a failure only close is allowed. Exception: after ET_EDATA with row->number not 0, reading
 * may continue after that row. */
int et_rows_next(et_rows *rows, et_row *row, et_error *error);
/* Whether the next row would have to wait for more of a stream. */
bool et_rows_wait(et_rows *rows);

/* As et_encoder_row, not of JSON; messages begin with the row's place, "train.csv:17". */
int et_row_encode(const et_rows *rows, const et_row *row, void *const *to, et_error *error);

/* Reads a serialized tf.Example as values [cells of the encoder]. Resets arena first; texts and
 * lists are in it. ET_EDATA, ET_EFORMAT: without a place. */
int et_example_row(et_reading *values, const et_encoder *encoder, const void *bytes, size_t length,
                   et_arena *arena, et_error *error);

/* One value (et_json_parse_written) as the text of a field, NULL if it is missing; in the value's
 * memory. Of columns the encoder is not read, and metadata may be NULL. ET_EDATA: a list or an
 * object. */
int et_json_cell(et_cell *cell, const et_json_columns *columns, const et_schema_field *field,
                 const et_value *value, et_error *error);
/* Cells of an object (et_json_parse_written), for et_encoder_row: cells [et_encoder_cells], their
 * texts in its memory. A number is its text as written. A truth value is the column's level "true",
 * else "True", else "TRUE". A column that the row lacks is missing. Names outside the schema are
 * ignored, with two exceptions: a name that is near to a column that the row lacks, and a row
 * without any name of the schema. Misspelt names would make values missing. ET_EDATA without a
 * place. */
int et_row_cells(et_cell *cells, const et_json_columns *columns, const et_value *object,
                 et_error *error);
/* The same of a row's line, which is parsed into the arena. object: NULL, or gets the parsed line.
 */
int et_row_parse(et_cell *cells, const et_json_columns *columns, const et_bytes *json,
                 et_arena *arena, const et_value **object, et_error *error);

#endif
