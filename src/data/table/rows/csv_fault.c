/* Messages for faults in a row. */
#include "data/table/rows/csv_scan.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/unicode.h"

/* The beginning of a text in quotation marks, cut between characters; a control character in it
 * becomes a point. */
typedef struct quotation {
    char text[48];
} quotation;

static quotation quote(const char *text, size_t length)
{
    quotation q = { "\"" };
    const size_t most = sizeof q.text - sizeof "\"...\"";
    size_t count = length < most ? length : most;
    while (count < length && count && ((unsigned char)text[count] & 0xc0) == 0x80)
        count--;
    for (size_t i = 0; i < count; i++)
        q.text[1 + i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '.' : text[i];
    strcpy(q.text + 1 + count, count < length ? "...\"" : "\"");
    return q;
}

/* "train.csv:17: column 3" of a place within the row, in line and column, from 1. */
static int fail_at(const et_csv_scanner *scanner, const char *name, int64_t line, const char *text,
                   et_error *error)
{
    int column = 1;
    bool open = false, first = true;
    for (const char *i = scanner->begin; i < scanner->at; i++) {
        if (*i == '"' && (open || first))
            open = !open;
        first = !open && (*i == scanner->delimiter || (first && et_csv_is_blank(scanner, *i)));
        column += !open && *i == scanner->delimiter;
    }
    return et_fail(error, ET_EDATA, "%s:%lld: column %d: %s", name,
                   (long long)(line + et_csv_count_lines(scanner->begin, scanner->at)), column,
                   text);
}

static int fail_columns(const et_csv_scanner *scanner, const char *name, int64_t line,
                        et_error *error)
{
    char seen[64] = "are expected";
    if (scanner->columns_line)
        snprintf(seen, sizeof seen, "are in line %lld", (long long)scanner->columns_line);
    /* The row's first line, as far as it fits and is valid UTF-8. */
    size_t length = 0, most = (size_t)(scanner->next - scanner->begin);
    while (length < most && scanner->begin[length] != '\r' && scanner->begin[length] != '\n')
        length++;
    et_utf8_valid(scanner->begin, length, &length);
    return et_fail(error, ET_EDATA,
                   "%s:%lld: %d columns, where %d %s, in %s: correct the row, quote values that "
                   "contain the delimiter (%s), or name another delimiter",
                   name, (long long)line, scanner->count, scanner->columns, seen,
                   quote(scanner->begin, length).text,
                   scanner->delimiter == '\t' ? "a tab" : quote(&scanner->delimiter, 1).text);
}

int et_csv_fault_fail(const et_csv_scanner *scanner, const char *name, int64_t line,
                      et_error *error)
{
    char text[128];
    switch (scanner->fault) {
    case ET_CSV_FAULT_TEXT:
        snprintf(
            text, sizeof text,
            "%s follows the closing quote of a value: inside a value, double each quote (\"\")",
            quote(scanner->at, 1).text);
        return fail_at(scanner, name, line, text, error);
    case ET_CSV_FAULT_CR:
        return fail_at(scanner, name, line,
                       "a CR within a line: end lines with LF or CR LF, or quote the value", error);
    case ET_CSV_FAULT_NUL:
        return fail_at(scanner, name, line, "a NUL byte: save the file as UTF-8 text", error);
    case ET_CSV_FAULT_UTF8:
        snprintf(text, sizeof text, "the byte 0x%02X is not UTF-8: save the file as UTF-8",
                 (unsigned)(unsigned char)*scanner->at);
        return fail_at(scanner, name, line, text, error);
    case ET_CSV_FAULT_QUOTE:
        return fail_at(scanner, name, line,
                       "the quote that opens here is never closed: close it; inside a value, "
                       "double each quote (\"\")",
                       error);
    case ET_CSV_FAULT_MANY:
        return et_fail(error, ET_EDATA,
                       "%s:%lld: more than %d columns: remove columns that the model does not need",
                       name, (long long)line, ET_CSV_COLUMNS_MAX);
    case ET_CSV_FAULT_LONG:
        return et_fail(error, ET_EDATA,
                       "%s:%lld: a row of more than %zu bytes: write one row per line", name,
                       (long long)line, ET_CSV_ROW_MAX);
    case ET_CSV_FAULT_COLUMNS:
        return fail_columns(scanner, name, line, error);
    case ET_CSV_FAULT_MEMORY:
        break;
    }
    return et_alloc_failed(error, (size_t)scanner->count * sizeof *scanner->cell, "a row");
}
