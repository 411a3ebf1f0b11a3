/* The header of a table's first file. It is used to find the columns of the other files: their
 * order may differ, but the columns must be the same.
 *
 *     et_same_header_begin(&same, path, &first, &error);
 *     if (et_same_header_is(&same, &other))
 *         status = et_same_header_find(&same, place, path, &other, &error);
 *     et_same_header_release(&same);
 *
 * A column with an empty name has its number as name (et_column_numbered). */
#ifndef ETUDE_DATA_TABLE_ROWS_SAME_HEADER_H
#define ETUDE_DATA_TABLE_ROWS_SAME_HEADER_H

#include "base/arena.h"
#include "base/map.h"
#include "data/table/rows/csv.h"

typedef struct et_same_header {
    const char *path;  /* of the first file, borrowed */
    const char **name; /* [count], in arena */
    int count;         /* 0: it has not begun */
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
 * or one is and no cell is a number. Ignores case; find refuses names that differ in case. */
bool et_same_header_is(const et_same_header *self, const et_csv_row *first);

/* Finds the first file's columns in another file, by its header: position [count]. ET_EDATA: a
 * column is missing, added, or named twice. */
int et_same_header_find(const et_same_header *self, int *position, const char *path,
                        const et_csv_row *header, et_error *error);

/* ET_EDATA: another file has no header, and the schema has the columns in another order than the
 * first file. */
int et_same_header_absent(const et_same_header *self, const char *path, int64_t line,
                          et_error *error);

/* Facts for reading the other files, valid until release. delimiter: the first file's. */
et_csv_known et_same_header_known(const et_same_header *self, char delimiter);

#endif
