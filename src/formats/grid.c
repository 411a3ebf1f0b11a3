#include "formats/grid.h"

#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/strbuf.h"
#include "base/text/unicode.h"
#include "base/vector.h"

void et_grid_add(et_grid *grid, const char *text)
{
    et_strbuf plain = ET_STRBUF_INIT;
    et_plain_append(&plain, text ? text : "");
    et_assert(grid->columns >= 1 && grid->shown <= grid->columns);
    et_assert(grid->count <= grid->capacity);
    const bool grown = ET_VECTOR_GROW(grid->cells, grid->capacity, grid->count + 1);
    if (!plain.data)
        et_strbuf_append(&plain, "");
    char *cell = grown ? et_strbuf_detach(&plain) : NULL;
    if (cell)
        grid->cells[grid->count++] = cell;
    grid->failed |= !cell;
    et_strbuf_release(&plain);
}

void et_grid_take(et_grid *grid, et_strbuf *text)
{
    grid->failed |= text->failed;
    et_grid_add(grid, et_strbuf_text(text));
    et_strbuf_release(text);
}

void et_grid_addf(et_grid *grid, const char *format, ...)
{
    et_strbuf text = ET_STRBUF_INIT;
    va_list arguments;
    va_start(arguments, format);
    et_strbuf_vprintf(&text, format, arguments);
    va_end(arguments);
    et_grid_take(grid, &text);
}

void et_grid_add_row(et_grid *grid, const char *const *cells)
{
    for (size_t i = 0; i < grid->columns; i++)
        et_grid_add(grid, cells[i]);
}

/* ---- for people ---- */

#define GAP 2     /* blanks between columns */
#define CUT "..." /* in place of the rest */

static bool is_number(const char *text)
{
    text += *text == '-' || *text == '+';
    return (*text >= '0' && *text <= '9') || !strcmp(text, "inf") || !strcmp(text, "nan");
}

typedef struct column {
    size_t width;
    bool numbers;
} column;

static size_t width_of(const et_grid *grid, const char *cell, size_t c)
{
    const size_t width = et_utf8_columns(cell, strlen(cell));
    return c && grid->most && width > grid->most ? grid->most : width;
}

/* Owned; NULL: no memory, also for the cells. *width: of a line. */
static column *measure(const et_grid *grid, size_t *width)
{
    column *columns = grid->failed ? NULL : et_alloc(grid->columns, sizeof *columns);
    *width = 0;
    for (size_t c = 0; columns && c < grid->columns; c++) {
        const bool left = c < grid->left || (grid->last_left && c + 1 == grid->columns);
        column found = { c ? 0 : grid->least, !left };
        for (size_t i = c; i < grid->count; i += grid->columns) {
            const char *cell = grid->cells[i];
            const size_t columns_of = width_of(grid, cell, c);
            const bool head = i < grid->columns && !grid->headless;
            found.width = columns_of > found.width ? columns_of : found.width;
            if (!head && *cell && strcmp(cell, "-") != 0 && !is_number(cell))
                found.numbers = false;
        }
        columns[c] = found;
        *width += found.width + (c ? GAP : 0);
    }
    return columns;
}

/* Empty cells at the row's end are not printed. */
static void append_row(et_strbuf *out, const et_grid *grid, char *const *cells,
                       const column *columns)
{
    size_t count = grid->shown ? grid->shown : grid->columns;
    while (count && !*cells[count - 1])
        count--;
    for (size_t i = 0; i < count; i++) {
        /* most: columns that the cell may have; a wide character may leave one of them empty. */
        const char *cell = cells[i];
        const column of = columns[i];
        const size_t most = width_of(grid, cell, i), length = strlen(cell);
        const bool cut = et_utf8_columns(cell, length) > most;
        const size_t bytes = cut ? et_utf8_fitting(cell, most - strlen(CUT)) : length;
        const size_t used = et_utf8_columns(cell, bytes) + (cut ? strlen(CUT) : 0);
        const int blanks = (int)(of.width - used);
        et_strbuf_append_blanks(out, of.numbers ? blanks : 0);
        et_strbuf_append_bytes(out, cell, bytes);
        et_strbuf_append(out, cut ? CUT : "");
        if (i + 1 < count)
            et_strbuf_append_blanks(out, GAP + (of.numbers ? 0 : blanks));
    }
    et_strbuf_append_char(out, '\n');
}

static void append_text(const et_grid *grid, et_strbuf *out)
{
    size_t width;
    column *columns = measure(grid, &width);
    out->failed |= !columns;
    if (columns && width < grid->width)
        columns[0].width += grid->width - width;
    for (size_t row = 0; columns && row < grid->count; row += grid->columns)
        append_row(out, grid, grid->cells + row, columns);
    et_free(columns);
}

size_t et_grid_width(const et_grid *grid)
{
    size_t width;
    et_free(measure(grid, &width));
    return width;
}

size_t et_grid_fitting(const et_grid *grid, size_t width)
{
    size_t fitting = 0, used = 0, all;
    column *columns = measure(grid, &all);
    if (!columns)
        return grid->columns; /* append reports the failure */
    while (fitting < grid->columns && used + columns[fitting].width <= width)
        used += columns[fitting++].width + GAP;
    et_free(columns);
    return fitting ? fitting : 1;
}

/* ---- for programs and pages ---- */

static void append_escaped(et_strbuf *out, const char *text, char special, char escape)
{
    for (; *text; text++) {
        if (*text == special)
            et_strbuf_append_char(out, escape);
        et_strbuf_append_char(out, *text);
    }
}

static void append_csv(const et_grid *grid, et_strbuf *out)
{
    for (size_t i = 0; i < grid->count; i++) {
        const char *quote = strpbrk(grid->cells[i], ",\"") ? "\"" : "";
        et_strbuf_append(out, quote);
        append_escaped(out, grid->cells[i], '"', '"');
        et_strbuf_append(out, quote);
        et_strbuf_append_char(out, (i + 1) % grid->columns ? ',' : '\n');
    }
}

/* In a cell a bar would end it. */
static void append_markdown(const et_grid *grid, et_strbuf *out)
{
    et_assert(!grid->headless);
    for (size_t i = 0; i < grid->count; i++) {
        et_strbuf_append(out, i % grid->columns ? " " : "| ");
        append_escaped(out, grid->cells[i], '|', '\\');
        et_strbuf_append(out, (i + 1) % grid->columns ? " |" : " |\n");
        if (i + 1 != grid->columns)
            continue;
        for (size_t c = 0; c < grid->columns; c++)
            et_strbuf_append(out, "|---");
        et_strbuf_append(out, "|\n");
    }
}

static void append_html(const et_grid *grid, et_strbuf *out)
{
    size_t width;
    column *columns = measure(grid, &width);
    et_assert(grid->columns > 0);
    out->failed |= !columns;
    et_strbuf_append(out, "<table>\n");
    for (size_t i = 0; columns && i < grid->count; i++) {
        const char *name = i < grid->columns && !grid->headless ? "th" : "td";
        const size_t at = i % grid->columns;
        et_strbuf_printf(out, "%s<%s%s>", at ? "" : "<tr>", name,
                         columns[at].numbers ? " class=\"number\"" : "");
        et_markup_append(out, grid->cells[i]);
        et_strbuf_printf(out, "</%s>%s", name, at + 1 == grid->columns ? "</tr>\n" : "");
    }
    et_strbuf_append(out, "</table>\n");
    et_free(columns);
}

void et_grid_append(const et_grid *grid, et_grid_form form, et_strbuf *out)
{
    static void (*const append[])(const et_grid *grid, et_strbuf *out) = {
        [ET_GRID_TEXT] = append_text,
        [ET_GRID_CSV] = append_csv,
        [ET_GRID_MARKDOWN] = append_markdown,
        [ET_GRID_HTML] = append_html,
    };
    et_assert(grid->columns > 0 && (grid->failed || grid->count % grid->columns == 0));
    out->failed |= grid->failed;
    append[form](grid, out);
}

int et_grid_print(const et_grid *grid, FILE *to, et_grid_form form, et_error *error)
{
    et_strbuf out = ET_STRBUF_INIT;
    et_grid_append(grid, form, &out);
    const int status = out.failed ? et_alloc_failed(error, "a table") : ET_OK;
    if (!status)
        fputs(et_strbuf_text(&out), to);
    et_strbuf_release(&out);
    return status;
}

void et_grid_release(et_grid *grid)
{
    for (size_t i = 0; i < grid->count; i++)
        et_free(grid->cells[i]);
    et_free(grid->cells);
    *grid = (et_grid){ .columns = grid->columns };
}
