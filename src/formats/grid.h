/* A table of texts, filled row by row, the first being heads: for people, aligned (columns of
 * numbers to the right), or as CSV (RFC 4180).
 *
 *     et_grid grid = { .columns = 2 };
 *     et_grid_add(&grid, "run");
 *     et_grid_addf(&grid, "%d", 3);
 *     et_grid_print(&grid, stdout, ET_GRID_TEXT, &error);
 *     et_grid_release(&grid);
 *
 * Texts may be of anyone: control characters are left out, also of CSV. */
#ifndef ETUDE_FORMATS_GRID_H
#define ETUDE_FORMATS_GRID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <etude/error.h>

/* Characters of a cell that people see, but for the first of a row; CSV has all. */
#define ET_GRID_CELL_MAX 40

typedef struct et_grid {
    size_t columns; /* at least 1; set by the caller */
    size_t shown;   /* of these, in text: the first so many; 0: all */
    char **cells;   /* [count], owned */
    size_t count, capacity;
    bool failed; /* there was no memory: print tells */
} et_grid;

typedef enum et_grid_form { ET_GRID_TEXT, ET_GRID_CSV } et_grid_form;

/* The next cell; NULL is an empty one. */
void et_grid_add(et_grid *grid, const char *text);
void et_grid_addf(et_grid *grid, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* How many of the first columns fit into lines of so many characters; at least one. Rows are whole.
 */
size_t et_grid_fitting(const et_grid *grid, size_t width);

/* Rows are whole. */
int et_grid_print(const et_grid *grid, FILE *to, et_grid_form form, et_error *error);

void et_grid_release(et_grid *grid);

#endif
