/* Lines into memory. Files go through data/text.c; standard input cannot: it may be a terminal
 * or a pipe, and text.c reads regular files only. So it is read here, under the same rules:
 * UTF-8, LF or CR LF, a byte order mark at the start, at most ET_TEXT_LINE_MAX bytes, no NUL. */
#include "cli/lines.h"

#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/unicode.h"
#include "data/text.h"
#include "base/format.h"
#include "base/vector.h"

/* A copy with a 0 behind it, in the arena: all are freed at once. */
static int add(et_lines *lines, const char *text, size_t length, et_error *error)
{
    et_assert(lines->count <= lines->capacity);
    /* Only the list grows by copying; the lines themselves stay where they are in the arena. */
    char **items =
        et_vector_grow(lines->items, &lines->capacity, lines->count + 1, sizeof *items, 256);
    if (!items)
        return et_alloc_failed(error, (lines->count + 1) * sizeof *items, "lines");
    lines->items = items;
    /* The arena's memory is zeroed, so the final 0 is there. */
    char *copy = et_arena_alloc(&lines->arena, length + 1);
    if (!copy)
        return et_alloc_failed(error, length + 1, "a line");
    memcpy(copy, text, length);
    lines->items[lines->count++] = copy;
    return ET_OK;
}

/* The words of data/text.c, so that the same fault reads the same wherever the text came from. */
static int check(const char *text, size_t length, const char *name, size_t number, et_error *error)
{
    /* NUL is valid UTF-8, but a line that ends there for C would lose its rest. */
    const char *nul = memchr(text, 0, length);
    size_t bad;
    if (nul)
        return et_fail(error, ET_EDATA,
                       "%s:%zu: byte %zu of the line is NUL: save the text as UTF-8", name, number,
                       (size_t)(nul - text) + 1);
    if (!et_utf8_valid(text, length, &bad))
        return et_fail(error, ET_EDATA,
                       "%s:%zu: byte %zu of the line (0x%02X) is not UTF-8: save the text as UTF-8",
                       name, number, bad + 1, (unsigned)(unsigned char)text[bad]);
    return ET_OK;
}

/* One line into *text, as long as it may be. Returns its length, -1 at the end. size + 1: longer
 * than that, and the rest of it is not read. A last line without its end is a line. */
static ssize_t read_line(FILE *from, char *text, size_t size)
{
    size_t length = 0;
    int c;
    while ((c = getc_unlocked(from)) != EOF && c != '\n') {
        /* What is longer is counted by one more and not kept. */
        if (length < size)
            text[length] = (char)c;
        if (++length > size)
            break;
    }
    return c == EOF && !length ? -1 : (ssize_t)length;
}

/* The buffer is of the longest line's size, taken for the call: pages that no line reaches cost
 * nothing. */
int et_lines_read(et_lines *lines, FILE *from, const char *name, size_t first, size_t most,
                  et_error *error)
{
    et_assert(first >= 1);
    /* On the heap: a megabyte is more than a stack should be asked for. */
    char *buffer = et_alloc(ET_TEXT_LINE_MAX, 1);
    if (!buffer)
        return et_alloc_failed(error, ET_TEXT_LINE_MAX, "a line");
    int status = ET_OK;
    ssize_t length;
    while (!status && (!most || lines->count < most) &&
           (length = read_line(from, buffer, ET_TEXT_LINE_MAX)) >= 0) {
        /* The number in the whole input, whatever was read before this call. */
        size_t number = first + lines->count, size = (size_t)length;
        const char *text = buffer;
        if (size > ET_TEXT_LINE_MAX) {
            status = et_fail(error, ET_EDATA,
                             "%s:%zu: a line of more than %zu bytes: text must have one sentence "
                             "a line",
                             name, number, ET_TEXT_LINE_MAX);
            break;
        }
        /* A byte order mark, which editors on Windows write. */
        if (number == 1 && size >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) {
            text += 3;
            size -= 3;
        }
        /* CR LF is a line end as well. */
        if (size && text[size - 1] == '\r')
            size--;
        status = check(text, size, name, number, error);
        if (!status)
            status = add(lines, text, size, error);
    }
    /* read_line cannot tell an error from the end; the stream can. */
    if (!status && ferror(from))
        status = et_fail_errno(error, "%s", name);
    et_free(buffer);
    return status;
}

/* Lines of a compressed file are unpacked on the way. */
int et_lines_read_file(et_lines *lines, const char *path, et_error *error)
{
    et_strings paths = { &path, 1 };
    et_text *text;
    et_text_line line;
    /* Checked as training text is: what is scored obeys the same rules. */
    int status = et_text_open(&text, &paths, error);
    if (status)
        return status;
    while (!(status = et_text_next(text, &line, error)) && line.text && !status)
        if ((status = add(lines, line.text, line.length, error)))
            break;
    et_text_close(text);
    return status;
}

/* Before anything is translated or scored. */
int et_lines_check_pairs(const et_lines *source, const char *source_name, const et_lines *target,
                         const char *target_name, et_error *error)
{
    /* The names are the files', or "standard input". */
    if (source->count != target->count)
        return et_fail(error, ET_EDATA,
                       "%s has %s lines, %s has %s: line N of one must translate line N of the "
                       "other",
                       source_name, et_format_count((int64_t)source->count).text, target_name,
                       et_format_count((int64_t)target->count).text);
    if (!source->count)
        return et_fail(error, ET_EDATA, "%s: there is no line in it: nothing to score",
                       source_name);
    return ET_OK;
}

/* Pointers to lines are invalid from here on. */
void et_lines_clear(et_lines *lines)
{
    et_arena_release(&lines->arena);
    lines->count = 0;
}

/* Leaves an empty list that may be used again. */
void et_lines_release(et_lines *lines)
{
    et_lines_clear(lines);
    et_free(lines->items);
    *lines = (et_lines)ET_LINES_INIT;
}
