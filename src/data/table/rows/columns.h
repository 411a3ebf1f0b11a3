/* Maps the values of a CSV row to columns of a schema: by the names of a header, in any order, or
 * by position. Columns without a field of their name are ignored. A field with several values has
 * as many columns: "pixels[0]", "pixels[1]", ... in a header.
 *
 * The first row is a header if half of its cells, or of the schema's fields, are names of fields,
 * or if one is and no cell is a number. */
#ifndef ETUDE_DATA_TABLE_ROWS_COLUMNS_H
#define ETUDE_DATA_TABLE_ROWS_COLUMNS_H

#include "data/table/features/encoder.h"

typedef enum et_header {
    ET_HEADER_FOUND, /* as it looks */
    ET_HEADER_THERE,
    ET_HEADER_ABSENT,
} et_header;

typedef struct et_columns {
    int *column;    /* [cells of a row]: of the file; -1: it has none, the value is missing */
    et_cell *cells; /* [the same]: the row of the last call */
    int count;      /* of values */
    bool header;    /* the first row was one */
    bool targets;   /* the file has all columns of targets */
} et_columns;

/* The name of a field's value in a header, counted from 0: the field's name, or "pixels[1]". */
typedef struct et_column_name {
    char text[300];
} et_column_name;

et_column_name et_column_name_of(const et_schema_field *field, int64_t at);

/* The name for a column without one: "column_3", counted from 0 here. */
et_column_name et_column_numbered(int column);

/* Whether an unmarked first row is a header, by the rule above. */
bool et_columns_look_named(const et_schema *schema, const et_cell *cells, int count);

/* From the first row of a file, whose name messages begin with. targets: the columns of targets are
 * required; else they may be absent, and without a header a row then has all other columns in their
 * order (if no feature is a target, all but the first: TensorFX's rule). ET_EDATA: needed columns
 * are missing (the message names all), a name occurs twice, the number of columns differs. */
int et_columns_find(et_columns *columns, const et_encoder *encoder, const et_csv_row *first,
                    et_header header, bool targets, const char *name, et_error *error);
int et_columns_copy(et_columns *to, const et_columns *from, et_error *error);
void et_columns_release(et_columns *columns);

/* Facts about rows for an encoder, if other files have a delimiter: the number of columns without a
 * header, and the names in a header. Valid as long as the encoder lives. */
et_csv_known et_columns_known(const et_encoder *encoder, char delimiter);

/* A row of the file as cells for et_encoder_row, valid as long as the row's are. */
const et_cell *et_columns_take(et_columns *columns, const et_csv_row *row);

#endif
