#include "formats/grid.h"

#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/plain.h"
#include "base/text/strbuf.h"
#include "base/text/unicode.h"
#include "base/vector.h"

static void take(et_grid *grid, et_strbuf *plain)
{
    char **grown = et_vector_grow(grid->cells, &grid->capacity, grid->count + 1, sizeof *grown, 64);
    if (!plain->data)
        et_strbuf_append(plain, "");
    char *cell = grown ? et_strbuf_detach(plain) : NULL;
    grid->cells = grown ? grown : grid->cells;
    if (cell)
        grid->cells[grid->count++] = cell;
    grid->failed |= !cell;
    et_strbuf_release(plain);
}

void et_grid_add(et_grid *grid, const char *text)
{
    et_strbuf plain = ET_STRBUF_INIT;
    et_plain_append(&plain, text ? text : "");
    take(grid, &plain);
}

void et_grid_addf(et_grid *grid, const char *format, ...)
{
    et_strbuf text = ET_STRBUF_INIT;
    va_list arguments;
    va_start(arguments, format);
    et_strbuf_vprintf(&text, format, arguments);
    va_end(arguments);
    grid->failed |= text.failed;
    et_grid_add(grid, et_strbuf_text(&text));
    et_strbuf_release(&text);
}

/* ---- for people ---- */

/* Bytes of the first most characters. */
static size_t bytes_of(const char *text, size_t most)
{
    size_t at = 0;
    while (text[at]) {
        if (((unsigned char)text[at] & 0xc0) != 0x80 && !most--)
            break;
        at++;
    }
    return at;
}

static bool is_number(const char *text)
{
    text += *text == '-' || *text == '+';
    return *text >= '0' && *text <= '9';
}

static size_t width_of(const char *cell, bool first)
{
    size_t width = et_utf8_count(cell);
    return width > ET_GRID_CELL_MAX && !first ? ET_GRID_CELL_MAX : width;
}

typedef struct column {
    size_t width;
    bool numbers;
} column;

static void measure(const et_grid *grid, column *columns)
{
    for (size_t c = 0; c < grid->columns; c++) {
        columns[c] = (column){ 0, true };
        for (size_t i = c; i < grid->count; i += grid->columns) {
            const char *cell = grid->cells[i];
            size_t width = width_of(cell, c == 0);
            columns[c].width = width > columns[c].width ? width : columns[c].width;
            if (i >= grid->columns && *cell && strcmp(cell, "-") != 0 && !is_number(cell))
                columns[c].numbers = false;
        }
    }
}

/* The last one has nothing behind it. */
static void print_cell(FILE *to, const char *cell, column place, bool first, bool last)
{
    size_t width = width_of(cell, first), blanks = place.width - width;
    bool cut = et_utf8_count(cell) > width;
    int length = (int)bytes_of(cell, cut ? width - 3 : width);
    fprintf(to, "%*s%.*s%s", place.numbers ? (int)blanks : 0, "", length, cell, cut ? "..." : "");
    if (!last)
        fprintf(to, "%*s", place.numbers ? 2 : (int)blanks + 2, "");
}

/* Nothing is printed for empty cells at its end. */
static void print_row(FILE *to, char *const *cells, const column *columns, size_t count)
{
    while (count && !*cells[count - 1])
        count--;
    for (size_t i = 0; i < count; i++)
        print_cell(to, cells[i], columns[i], i == 0, i + 1 == count);
    fputc('\n', to);
}

static int print_text(const et_grid *grid, FILE *to, et_error *error)
{
    column *columns = et_alloc(grid->columns, sizeof *columns);
    if (!columns)
        return et_alloc_failed(error, grid->columns * sizeof *columns, "a table");
    measure(grid, columns);
    for (size_t row = 0; row < grid->count; row += grid->columns)
        print_row(to, grid->cells + row, columns, grid->shown ? grid->shown : grid->columns);
    et_free(columns);
    return ET_OK;
}

size_t et_grid_fitting(const et_grid *grid, size_t width)
{
    size_t fitting = 0, used = 0;
    column *columns = grid->failed ? NULL : et_alloc(grid->columns, sizeof *columns);
    if (!columns)
        return grid->columns; /* print tells */
    measure(grid, columns);
    while (fitting < grid->columns && used + columns[fitting].width <= width)
        used += columns[fitting++].width + 2;
    et_free(columns);
    return fitting ? fitting : 1;
}

/* ---- for programs ---- */

static void print_csv_cell(FILE *to, const char *cell)
{
    if (!strpbrk(cell, ",\"")) {
        fputs(cell, to);
        return;
    }
    fputc('"', to);
    for (; *cell; cell++) {
        if (*cell == '"')
            fputc('"', to);
        fputc(*cell, to);
    }
    fputc('"', to);
}

int et_grid_print(const et_grid *grid, FILE *to, et_grid_form form, et_error *error)
{
    et_assert(grid->columns > 0 && (grid->failed || grid->count % grid->columns == 0));
    if (grid->failed)
        return et_alloc_failed(error, 0, "a table");
    if (form == ET_GRID_TEXT)
        return print_text(grid, to, error);
    for (size_t i = 0; i < grid->count; i++) {
        print_csv_cell(to, grid->cells[i]);
        fputc((i + 1) % grid->columns ? ',' : '\n', to);
    }
    return ET_OK;
}

void et_grid_release(et_grid *grid)
{
    for (size_t i = 0; i < grid->count; i++)
        et_free(grid->cells[i]);
    et_free(grid->cells);
    *grid = (et_grid){ .columns = grid->columns };
}
