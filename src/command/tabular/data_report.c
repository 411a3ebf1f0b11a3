#include "command/tabular/data_report.h"

#include <stdint.h>
#include <string.h>

#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "base/text/unicode.h"
#include "formats/grid.h"

/* Columns of a name, and of a value among others. */
#define NAME_MAX  28
#define VALUE_MAX 24
/* Values of a discrete column that are shown. */
#define VALUES 4

#define CUT    ".." /* in place of the rest */
#define TARGET "the target"
#define TEXTS  "texts and classes"

/* ---- texts ---- */

/* Up to `most` columns of a text that was made plain. */
static void append_text(et_strbuf *out, const char *text, size_t most)
{
    et_strbuf plain = ET_STRBUF_INIT;
    et_plain_append(&plain, text);
    const char *all = et_strbuf_text(&plain);
    const bool cut = et_utf8_columns(all, plain.length) > most;
    et_strbuf_append_bytes(out, all, et_utf8_fitting(all, cut ? most - strlen(CUT) : most));
    et_strbuf_append(out, cut ? CUT : "");
    out->failed |= plain.failed;
    et_strbuf_release(&plain);
}

static void add_name(et_grid *grid, const char *text)
{
    et_strbuf name = ET_STRBUF_INIT;
    append_text(&name, text, NAME_MAX);
    et_grid_add(grid, et_strbuf_text(&name));
    grid->failed |= name.failed;
    et_strbuf_release(&name);
}

/* Columns that a name takes. */
static size_t columns_of(const char *text)
{
    et_strbuf name = ET_STRBUF_INIT;
    append_text(&name, text, NAME_MAX);
    const size_t columns = et_utf8_columns(et_strbuf_text(&name), name.length);
    et_strbuf_release(&name);
    return columns;
}

static const char *text_at(const et_value *dict, const char *key)
{
    const et_value *value = et_value_get(dict, key);
    return value && value->kind == ET_VALUE_STRING ? value->string : "";
}

static int64_t count_at(const et_value *dict, const char *key)
{
    int64_t count = 0;
    return et_value_read_int(dict, key, &count, NULL) ? 0 : count;
}

static bool is_true(const et_value *dict, const char *key)
{
    bool boolean = false;
    return !et_value_read_bool(dict, key, &boolean, NULL) && boolean;
}

/* "~12,345" if it is estimated. */
static et_format distinct_of(const et_value *column)
{
    et_format count = et_format_count(count_at(column, "distinct")), result = { "" };
    strcpy(result.text, is_true(column, "exact") ? "" : "~");
    strcat(result.text, count.text);
    return result;
}

/* ---- the table's head ---- */

static void print_head(et_strbuf *out, const et_value *report)
{
    const et_value *files = et_value_get(report, "files");
    const char *delimiter = text_at(report, "delimiter");
    const bool tab = !strcmp(delimiter, "\t");
    if (files->count == 1)
        et_plain_append(out, files->first->string);
    else
        et_strbuf_printf(out, "%zu files", files->count);
    et_strbuf_printf(out, ": %s of %s, %s, ", et_format_many(count_at(report, "rows"), "row").text,
                     et_format_many((int64_t)et_value_get(report, "columns")->count, "column").text,
                     et_format_bytes((uint64_t)count_at(report, "bytes")).text);
    if (*delimiter)
        et_strbuf_printf(out, "delimiter %s%s%s, %s header\n", tab ? "" : "\"",
                         tab ? "tab" : delimiter, tab ? "" : "\"",
                         is_true(report, "header") ? "with a" : "no");
    else
        et_strbuf_append(out, "JSON lines\n");
}

/* ---- numbers ---- */

static bool is_numeric(const et_value *column)
{
    return et_value_get(column, "min") != NULL;
}

static void add_number(et_grid *grid, const et_value *dict, const char *key)
{
    double number;
    const bool is = !et_value_read_float(dict, key, &number, NULL);
    et_grid_add(grid, is ? et_format_value(number).text : "-");
}

/* Appends the table after an empty line, unless it has no rows. Releases it. */
static void append_table(et_strbuf *out, et_grid *grid)
{
    if (grid->count > grid->columns) {
        et_strbuf_append_char(out, '\n');
        et_grid_append(grid, ET_GRID_TEXT, out);
    }
    out->failed |= grid->failed;
    et_grid_release(grid);
}

/* Draws eight heights; the largest share has the highest, and any share above 0 at least the
 * lowest. */
static void append_histogram(et_strbuf *out, const et_value *histogram, bool ascii)
{
    static const char *const blocks[] = { " ",      "\u2581", "\u2582", "\u2583", "\u2584",
                                          "\u2585", "\u2586", "\u2587", "\u2588" };
    static const char *const letters[] = { " ", ".", ":", "-", "=", "+", "*", "#", "@" };
    const et_value *shares = et_value_get(histogram, "shares");
    double most = 0;
    for (const et_value *share = shares ? shares->first : NULL; share; share = share->next)
        most = share->real > most ? share->real : most;
    for (const et_value *share = shares ? shares->first : NULL; share; share = share->next) {
        int height = share->real > 0 ? 1 + (int)(share->real / most * 7.999) : 0;
        et_strbuf_append(out, (ascii ? letters : blocks)[height > 8 ? 8 : height]);
    }
}

static void print_numbers(et_strbuf *out, const et_value *columns, size_t width, bool ascii)
{
    static const char *const heads[] = { "numbers", "missing", "distinct", "min", "median",
                                         "max",     "mean",    "std",      "",    "" };
    et_grid grid = { .columns = sizeof heads / sizeof *heads, .left = 1, .least = width };
    et_grid_add_row(&grid, heads);
    for (const et_value *c = columns->first; c; c = c->next) {
        if (!is_numeric(c))
            continue;
        add_name(&grid, text_at(c, "name"));
        et_grid_add(&grid, et_format_count(count_at(c, "missing")).text);
        et_grid_add(&grid, distinct_of(c).text);
        add_number(&grid, c, "min");
        add_number(&grid, et_value_get(c, "quantiles"), "50 %");
        add_number(&grid, c, "max");
        add_number(&grid, c, "mean");
        add_number(&grid, c, "std");
        const et_value *histogram = et_value_get(c, "histogram");
        et_strbuf text = ET_STRBUF_INIT;
        append_histogram(&text, histogram, ascii);
        et_grid_add(&grid, et_strbuf_text(&text));
        grid.failed |= text.failed;
        et_strbuf_release(&text);
        et_grid_add(&grid, is_true(c, "target") ? TARGET : NULL);
    }
    append_table(out, &grid);
}

/* ---- texts ---- */

static void append_entries(et_strbuf *out, const et_value *column)
{
    const et_value *entries = et_value_get(column, "entries");
    double values = (double)count_at(column, "count");
    int64_t shown = 0;
    for (const et_value *e = entries ? entries->first : NULL; e && shown < VALUES; e = e->next) {
        et_strbuf_append(out, shown++ ? ", " : "");
        append_text(out, text_at(e, "text"), VALUE_MAX);
        et_strbuf_printf(out, " %.3g %%", 100 * (double)count_at(e, "count") / values);
    }
    if (!shown)
        et_strbuf_append_char(out, '-');
    else if (count_at(column, "distinct") > shown)
        et_strbuf_printf(out, ", %s more",
                         et_format_count(count_at(column, "distinct") - shown).text);
}

static void print_texts(et_strbuf *out, const et_value *columns, size_t width)
{
    static const char *const heads[] = { TEXTS, "missing", "distinct", "most frequent" };
    et_grid grid = {
        .columns = sizeof heads / sizeof *heads, .left = 1, .last_left = true, .least = width
    };
    et_grid_add_row(&grid, heads);
    for (const et_value *c = columns->first; c; c = c->next) {
        if (is_numeric(c))
            continue;
        et_strbuf entries = ET_STRBUF_INIT;
        append_entries(&entries, c);
        add_name(&grid, text_at(c, "name"));
        et_grid_add(&grid, et_format_count(count_at(c, "missing")).text);
        et_grid_add(&grid, distinct_of(c).text);
        et_grid_addf(&grid, "%s%s", et_strbuf_text(&entries),
                     is_true(c, "target") ? "  " TARGET : "");
        grid.failed |= entries.failed;
        et_strbuf_release(&entries);
    }
    append_table(out, &grid);
}

/* ---- what is suspicious ---- */

static void print_unmatched(et_strbuf *out, const et_value *list)
{
    for (const et_value *item = list->first; item; item = item->next) {
        et_strbuf_append(out, "--missing ");
        et_plain_append(out, item->string);
        et_strbuf_append(out, " matches no value\n");
    }
}

void et_data_report_print(et_strbuf *out, const et_value *report, bool ascii)
{
    const et_value *columns = et_value_get(report, "columns");
    size_t width = strlen(TEXTS);
    for (const et_value *c = columns->first; c; c = c->next) {
        const size_t name = columns_of(text_at(c, "name"));
        width = name > width ? name : width;
    }
    print_head(out, report);
    print_unmatched(out, et_value_get(report, "missing_unmatched"));
    print_numbers(out, columns, width, ascii);
    print_texts(out, columns, width);
    const et_value *list = et_value_get(report, "suspicious");
    et_grid grid = { .columns = 2, .left = 2, .least = width };
    et_grid_add(&grid, "suspicious");
    et_grid_add(&grid, NULL);
    for (const et_value *item = list->first; item; item = item->next) {
        add_name(&grid, text_at(item, "column"));
        et_grid_add(&grid, text_at(item, "text"));
    }
    append_table(out, &grid);
}
