#include "command/tabular/data_report.h"

#include <stdint.h>
#include <string.h>

#include "base/text/format.h"
#include "base/text/plain.h"
#include "base/text/unicode.h"

/* Columns of a name, and of a value among others. */
#define NAME_MAX  28
#define VALUE_MAX 24
/* Values of a discrete column that are shown. */
#define VALUES 4

/* ---- texts ---- */

/* Up to `most` characters of a text that was made plain, each taken for one column; how many. */
static int append_text(et_strbuf *out, const char *text, int most)
{
    et_strbuf plain = ET_STRBUF_INIT;
    et_plain_append(&plain, text);
    const int columns = (int)et_utf8_count(et_strbuf_text(&plain));
    const int shown = columns > most ? most - 2 : columns;
    size_t length = 0;
    for (int count = 0; length < plain.length; length++)
        if (((unsigned char)plain.data[length] & 0xc0) != 0x80 && ++count > shown)
            break;
    et_strbuf_append_bytes(out, et_strbuf_text(&plain), length);
    et_strbuf_append(out, columns > most ? ".." : "");
    out->failed |= plain.failed;
    et_strbuf_release(&plain);
    return columns > most ? most : columns;
}

/* The same, and blanks up to width. */
static void append_name(et_strbuf *out, const char *text, int width)
{
    et_strbuf_append_blanks(out, width - append_text(out, text, NAME_MAX));
}

/* Columns that a name takes. */
static int columns_of(const char *text)
{
    et_strbuf name = ET_STRBUF_INIT;
    const int columns = append_text(&name, text, NAME_MAX);
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

/* "about 12,345" where it is estimated. */
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
    et_strbuf_printf(out, ": %s of %s, %s, delimiter %s%s%s, %s header\n",
                     et_format_many(count_at(report, "rows"), "row").text,
                     et_format_many((int64_t)et_value_get(report, "columns")->count, "column").text,
                     et_format_bytes((uint64_t)count_at(report, "bytes")).text, tab ? "" : "\"",
                     tab ? "tab" : delimiter, tab ? "" : "\"",
                     is_true(report, "header") ? "with a" : "no");
}

/* ---- numbers ---- */

static bool is_numeric(const et_value *column)
{
    return et_value_get(column, "min") != NULL;
}

static void append_number(et_strbuf *out, const et_value *dict, const char *key)
{
    double number;
    et_format text = { "-" };
    if (!et_value_read_float(dict, key, &number, NULL))
        text = et_format_value(number);
    et_strbuf_printf(out, "  %9s", text.text);
}

/* Eight heights; the highest is the largest share, and what is there at all has the lowest. */
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

static void print_numbers(et_strbuf *out, const et_value *columns, int width, bool ascii)
{
    bool head = false;
    for (const et_value *c = columns->first; c; c = c->next) {
        if (!is_numeric(c))
            continue;
        if (!head) {
            et_strbuf_append_char(out, '\n');
            append_name(out, "numbers", width);
            et_strbuf_printf(out, "  %9s  %9s  %9s  %9s  %9s  %9s  %9s\n", "missing", "distinct",
                             "min", "median", "max", "mean", "std");
        }
        head = true;
        append_name(out, text_at(c, "name"), width);
        et_strbuf_printf(out, "  %9s  %9s", et_format_count(count_at(c, "missing")).text,
                         distinct_of(c).text);
        append_number(out, c, "min");
        append_number(out, et_value_get(c, "quantiles"), "50 %");
        append_number(out, c, "max");
        append_number(out, c, "mean");
        append_number(out, c, "std");
        et_strbuf_append(out, "  ");
        append_histogram(out, et_value_get(c, "histogram"), ascii);
        et_strbuf_append(out, is_true(c, "target") ? "  the target\n" : "\n");
    }
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

static void print_texts(et_strbuf *out, const et_value *columns, int width)
{
    bool head = false;
    for (const et_value *c = columns->first; c; c = c->next) {
        if (is_numeric(c))
            continue;
        if (!head) {
            et_strbuf_append_char(out, '\n');
            append_name(out, "texts and classes", width);
            et_strbuf_printf(out, "  %9s  %9s  most frequent\n", "missing", "distinct");
        }
        head = true;
        append_name(out, text_at(c, "name"), width);
        et_strbuf_printf(out, "  %9s  %9s  ", et_format_count(count_at(c, "missing")).text,
                         distinct_of(c).text);
        append_entries(out, c);
        et_strbuf_append(out, is_true(c, "target") ? "  the target\n" : "\n");
    }
}

/* ---- what is suspicious ---- */

static void print_suspicious(et_strbuf *out, const et_value *list, int width)
{
    if (!list->count)
        return;
    et_strbuf_append(out, "\nsuspicious\n");
    for (const et_value *item = list->first; item; item = item->next) {
        append_name(out, text_at(item, "column"), width);
        et_strbuf_append(out, "  ");
        et_plain_append(out, text_at(item, "text"));
        et_strbuf_append_char(out, '\n');
    }
}

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
    int width = columns_of("texts and classes");
    for (const et_value *c = columns->first; c; c = c->next) {
        const int name = columns_of(text_at(c, "name"));
        width = name > width ? name : width;
    }
    print_head(out, report);
    print_unmatched(out, et_value_get(report, "missing_unmatched"));
    print_numbers(out, columns, width, ascii);
    print_texts(out, columns, width);
    print_suspicious(out, et_value_get(report, "suspicious"), width);
}
