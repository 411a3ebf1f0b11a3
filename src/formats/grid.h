/* A table of texts, filled row by row; the first row is the head. It is printed for people, aligned
 * (columns of numbers to the right), as CSV (RFC 4180), or as a table of Markdown or HTML.
 *
 *     et_grid grid = { .columns = 2 };
 *     et_grid_add(&grid, "run");
 *     et_grid_addf(&grid, "%d", 3);
 *     et_grid_append(&grid, ET_GRID_TEXT, &out);
 *     et_grid_release(&grid);
 *
 * Widths are columns of a terminal: a wide character has two (base/text/unicode.h). Cells may
 * contain text from anyone: control characters are escaped (base/plain.h), in CSV too. */
#ifndef ETUDE_FORMATS_GRID_H
#define ETUDE_FORMATS_GRID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <etude/error.h>

#include "base/text/strbuf.h"

/* The usual value of `most`. */
#define ET_GRID_CELL_MAX 40

typedef struct et_grid {
    size_t columns; /* at least 1; the caller sets this and the following before the first cell */
    bool headless;  /* the first row is one of values; not in Markdown */
    size_t left;    /* number of first columns that are left-aligned whatever they hold */
    bool last_left; /* the last column is left-aligned too */
    size_t most;    /* width of a cell in TEXT, except the first of a row; 0: any */
    size_t least;   /* minimal width of the first column in TEXT */
    size_t shown;   /* columns in TEXT, the first so many; 0: all */
    size_t width;   /* of a line in TEXT at least; the first column gets the rest */
    char **cells;   /* [count], owned */
    size_t count, capacity;
    bool failed; /* there was no memory: the table's text fails with it */
} et_grid;

typedef enum et_grid_form {
    ET_GRID_TEXT,
    ET_GRID_CSV,
    ET_GRID_MARKDOWN,
    ET_GRID_HTML, /* cells of columns of numbers have the class number */
} et_grid_form;

/* The next cell; NULL is an empty one. */
void et_grid_add(et_grid *grid, const char *text);
void et_grid_addf(et_grid *grid, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The next cell from a text, which is released; a failure of the text is the table's. */
void et_grid_take(et_grid *grid, et_strbuf *text);

/* cells: one for each column. */
void et_grid_add_row(et_grid *grid, const char *const *cells);

/* In all that follows, rows are whole. */

/* Width of the longest line of TEXT, without its width and with all columns. */
size_t et_grid_width(const et_grid *grid);

/* The number of columns, from the first, that fit into lines of this width; at least one. */
size_t et_grid_fitting(const et_grid *grid, size_t width);

/* Appends the table, each row ending in a newline. */
void et_grid_append(const et_grid *grid, et_grid_form form, et_strbuf *out);

/* The same into a file; errors of the file stay in the FILE. */
int et_grid_print(const et_grid *grid, FILE *to, et_grid_form form, et_error *error);

void et_grid_release(et_grid *grid);

#endif
