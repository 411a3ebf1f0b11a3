/* The values of a column's first rows, to compare columns row by row: numbers as numbers, texts by
 * a hash of 64 bits. */
#ifndef ETUDE_DATA_TABLE_ANALYSIS_FIRST_ROWS_H
#define ETUDE_DATA_TABLE_ANALYSIS_FIRST_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/table/schema/notation.h"

/* The value of a row that has none. */
#define ET_FIRST_MISSING UINT64_MAX

typedef struct et_first_rows {
    uint64_t *value;     /* [room], owned: bits of a double, or a hash; NULL at first */
    int64_t count, room; /* most: rows to keep */
    int64_t most;
    int64_t numbers; /* rows with a number */
} et_first_rows;

static inline bool et_first_rows_full(const et_first_rows *rows)
{
    return rows->count >= rows->most;
}

/* Adds a row; a full object ignores it. text NULL: no value. number: of the text; NULL: it is no
 * number. False: no memory. */
bool et_first_rows_add(et_first_rows *rows, const char *text, size_t length, const double *number);
void et_first_rows_release(et_first_rows *rows);

/* Of a row with a number. */
double et_first_rows_number(const et_first_rows *rows, int64_t row);

/* What columns tell of each other. */

/* Whether both have the same value in every row, of at least 20. */
bool et_first_rows_equal(const et_first_rows *a, const et_first_rows *b);
/* Whether two columns of numbers are a line: |correlation| > 0.99999 over the rows with both. */
bool et_first_rows_on_line(const et_first_rows *a, const et_first_rows *b);

typedef enum et_first_relation {
    ET_FIRST_UNRELATED,
    ET_FIRST_DETERMINES, /* each value of the column occurs with one value of the target: in 50 rows
                            or more, on average 5 of each value, and 10 rows beyond the target's
                            most frequent value */
    ET_FIRST_SEPARATES   /* each of 2 to 20 values of the target has one range of the column's
                            numbers, and at least 10 rows */
} et_first_relation;

/* numbers: the column has only numbers and missing values. *failed becomes true: no memory. */
et_first_relation et_first_rows_relate(const et_first_rows *column, const et_first_rows *target,
                                       bool numbers, bool *failed);

#endif
