/* Reads lines into memory. data/text/text.c reads only regular files, but standard input may be a
 * terminal or a pipe. So this file reads standard input, with the same rules: UTF-8, LF or CR LF, a
 * byte order mark at the start, at most ET_TEXT_LINE_MAX bytes, no NUL. */
#include "command/translation/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/files/file.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "base/text/unicode.h"
#include "base/vector.h"
#include "command/options/sets.h"
#include "data/text/text.h"
#include "engine/comm/together.h"
#include "formats/events/progress.h"

/* Copies a line with a final 0 into the arena, which frees all lines together. */
static int add(et_lines *lines, const char *text, size_t length, et_error *error)
{
    et_assert(lines->count <= lines->capacity);
    /* Growing copies only the list; the lines stay in place in the arena. */
    if (!ET_VECTOR_GROW(lines->items, lines->capacity, lines->count + 1))
        return et_alloc_failed(error, "lines");
    char *copy = et_arena_strndup(&lines->arena, text, length);
    if (!copy)
        return et_alloc_failed(error, "a line");
    lines->items[lines->count++] = copy;
    return ET_OK;
}

/* The line with U+FFFD for each byte that is wrong. */
static int add_replaced(et_lines *lines, const char *text, size_t length, et_error *error)
{
    et_strbuf out = ET_STRBUF_INIT;
    while (length) {
        const char *nul = memchr(text, 0, length);
        size_t good = nul ? (size_t)(nul - text) : length, bad;
        if (!et_utf8_valid(text, good, &bad))
            good = bad;
        et_strbuf_append_bytes(&out, text, good);
        if (good < length)
            et_strbuf_append(&out, "\xef\xbf\xbd");
        text += good + (good < length);
        length -= good + (good < length);
    }
    int status = out.failed ? et_alloc_failed(error, "a line")
                            : add(lines, et_strbuf_text(&out), out.length, error);
    et_strbuf_release(&out);
    return status;
}

/* ---- standard input ---- */

/* Bytes to read at once; a pipe holds as many. */
#define PIECE ((size_t)64 << 10)

/* After the first lines, the reader waits a little for more lines, so that a program that writes
 * without a pause gets full batches. The wait is a millisecond for each LINES_PER_MILLISECOND
 * lines, and at most WAIT_MAX milliseconds. This is short compared with translating the lines. */
#define LINES_PER_MILLISECOND 16
#define WAIT_MAX              20

/* On the heap, because a megabyte is large for a stack. Pages that no line reaches cost nothing. */
int et_line_reader_open(et_line_reader *reader, int fd, const char *name, et_error *error)
{
    et_assert(fd >= 0 && name);
    *reader = (et_line_reader){ .fd = fd, .name = name, .number = 1 };
    return ET_ALLOC(reader->buffer, ET_TEXT_LINE_MAX + PIECE, "lines", error);
}

/* et_line_reader_close closes the file. */
int et_line_reader_open_file(et_line_reader *reader, const char *path, bool replace,
                             et_error *error)
{
    et_assert(path);
    *reader = (et_line_reader){ .fd = -1, .name = path, .number = 1 };
    if (et_path_ends(path, ".gz")) {
        if (replace)
            return et_fail(error, ET_EUSAGE, "--invalid replace: %s is compressed; unpack it first",
                           path);
        reader->paths = (et_strings){ &reader->name, 1 };
        return et_text_open(&reader->text, &reader->paths, error);
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return et_fail_errno(error, "%s", path);
    int status = et_line_reader_open(reader, fd, path, error);
    reader->opened = true;
    reader->replace = replace;
    return status;
}

int et_line_reader_open_texts(et_line_reader *reader, const et_strings *paths, const char *name,
                              et_error *error)
{
    et_assert(paths && name);
    *reader = (et_line_reader){ .fd = -1, .name = name, .number = 1 };
    return et_text_open(&reader->text, paths, error);
}

void et_line_reader_close(et_line_reader *reader)
{
    et_text_close(reader->text);
    if (reader->opened)
        close(reader->fd);
    reader->text = NULL;
    reader->opened = false;
    et_free(reader->buffer);
    reader->buffer = NULL;
}

/* size: without the line end; ended: in LF. */
static int take(et_line_reader *reader, et_lines *lines, size_t size, bool ended, et_error *error)
{
    const char *text = reader->buffer + reader->begin;
    size_t number = reader->number;
    int status =
        number == 1 && !ended ? et_text_check_first(text, size, reader->name, error) : ET_OK;
    if (status)
        return status;
    if (size > ET_TEXT_LINE_MAX)
        return et_fail(error, ET_EDATA,
                       "%s:%zu: a line of more than %zu bytes: write one sentence per line",
                       reader->name, number, ET_TEXT_LINE_MAX);
    reader->begin += size;
    reader->number++;
    const size_t mark = number == 1 && !reader->keeps_ends ? et_utf8_mark(text, size) : 0;
    text += mark;
    size -= mark;
    /* CR LF is also a line end. */
    if (size && text[size - 1] == '\r' && !reader->keeps_ends)
        size--;
    size += ended && reader->keeps_ends;
    status = et_text_check_line(text, size, reader->name, (int64_t)number, error);
    if (!status || !reader->replace)
        return status ? status : add(lines, text, size, error);
    if (!reader->replaced++)
        et_log(ET_LOG_WARNING, "%s; replaced, here and in the following lines", error->text);
    error->status = ET_OK;
    return add_replaced(lines, text, size, error);
}

/* Takes the next line, if it is complete or too long, or if it is the last one without a line
 * end. */
static bool next(et_line_reader *reader, et_lines *lines)
{
    size_t there = reader->end - reader->begin;
    const char *from = reader->buffer + reader->begin;
    const char *end = there ? memchr(from, '\n', there) : NULL;
    if (!end && there <= ET_TEXT_LINE_MAX && !(reader->over && there))
        return false;
    take(reader, lines, end ? (size_t)(end - from) : there, end != NULL, &reader->error);
    reader->begin += end != NULL;
    return true;
}

/* Whether to read more. Without a line always; otherwise if input comes soon enough. first: the
 * time of the first line. A signal ends the wait. */
static bool comes(const et_line_reader *reader, size_t lines, double first)
{
    struct pollfd input = { .fd = reader->fd, .events = POLLIN };
    size_t most = lines / LINES_PER_MILLISECOND;
    double passed = 1e3 * (et_clock_monotonic() - first);
    int left = (int)(most < WAIT_MAX ? most : WAIT_MAX) - (int)fmin(passed, WAIT_MAX);
    return !lines || poll(&input, 1, left > 0 ? left : 0) > 0;
}

/* Reads once, and waits for input if there is none. Moves an incomplete line to the front of the
 * buffer. */
static void fill(et_line_reader *reader)
{
    if (reader->begin) {
        reader->end -= reader->begin;
        memmove(reader->buffer, reader->buffer + reader->begin, reader->end);
        reader->begin = 0;
    }
    et_assert(reader->end <= ET_TEXT_LINE_MAX);
    for (;;) {
        struct pollfd input = { .fd = reader->fd, .events = POLLIN };
        ssize_t got = read(reader->fd, reader->buffer + reader->end, PIECE);
        if (got >= 0) {
            reader->end += (size_t)got;
            reader->over = !got;
            return;
        }
        /* Another program may have made its end of a terminal not blocking, and so ours. */
        if (errno == EAGAIN)
            poll(&input, 1, -1);
        else if (errno != EINTR) {
            et_fail_errno(&reader->error, "%s", reader->name);
            return;
        }
    }
}

static int read_here(et_line_reader *reader, et_lines *lines, size_t most, et_error *error)
{
    if (reader->text) {
        et_text_line line;
        int status = ET_OK;
        for (size_t count = 0; !status && (!most || count < most); count++) {
            status = et_text_next(reader->text, &line, error);
            if (status || !line.text)
                return status;
            reader->number++;
            status = add(lines, line.text, line.length, error);
        }
        return status;
    }
    size_t before = lines->count;
    double first = 0;
    while (!reader->error.status && (!most || lines->count - before < most)) {
        size_t count = lines->count - before;
        if (next(reader, lines)) {
            if (!count)
                first = et_clock_monotonic();
            continue;
        }
        if (reader->over || !comes(reader, most ? count : 0, first))
            break;
        fill(reader);
    }
    if (!reader->error.status || (most && lines->count > before))
        return ET_OK;
    return et_fail(error, reader->error.status, "%s", reader->error.text);
}

/* ---- ranks ---- */

static int take_lines(et_lines *lines, const char *text, size_t size, et_error *error)
{
    int status = ET_OK;
    while (!status && size) {
        const size_t length = strnlen(text, size);
        if (length == size)
            return et_fail(error, ET_EFAIL, "the lines of rank 0 are incomplete");
        status = add(lines, text, length, error);
        text += length + 1;
        size -= length + 1;
    }
    return status;
}

/* Sends the lines that rank 0 has read, from `before` on, to all ranks; status: of its reading. */
static int share_lines(et_lines *lines, size_t before, et_comm *comm, int status, et_error *error)
{
    const bool first = et_comm_rank(comm) == 0;
    et_strbuf mine = ET_STRBUF_INIT;
    if (et_comm_size(comm) == 1)
        return status;
    if (first) {
        /* Lines from `before` on, each with its end: no line has a byte 0. */
        for (size_t i = before; i < lines->count; i++)
            et_strbuf_append_bytes(&mine, lines->items[i], strlen(lines->items[i]) + 1);
    }
    if (!status && mine.failed)
        status = et_alloc_failed(error, "lines");
    void *text = mine.data;
    size_t size = mine.length;
    status = et_together_hand_out(comm, status, &text, &size, error);
    if (!status && !first)
        status = take_lines(lines, text, size, error);
    if (!first)
        et_free(text);
    et_strbuf_release(&mine);
    return status;
}

int et_line_reader_read(et_line_reader *reader, et_lines *lines, size_t most, et_error *error)
{
    et_assert(lines);
    const bool first = et_comm_rank(reader->comm) == 0;
    const size_t before = lines->count;
    int status = first ? read_here(reader, lines, most, error) : ET_OK;
    status = share_lines(lines, before, reader->comm, status, error);
    reader->number += first ? 0 : lines->count - before;
    return status;
}

/* ---- files ---- */

/* Lines of a compressed file are unpacked on the way. */
static int read_file(et_lines *lines, const char *path, et_error *error)
{
    const et_strings paths = { &path, 1 };
    et_line_reader reader;
    /* Opening as training text applies the same checks to lines that are scored. */
    int status = et_line_reader_open_texts(&reader, &paths, path, error);
    if (!status)
        status = read_here(&reader, lines, 0, error);
    et_line_reader_close(&reader);
    return status;
}

int et_lines_read_file(et_lines *lines, const char *path, et_comm *comm, et_error *error)
{
    et_assert(lines && path);
    const size_t before = lines->count;
    int status = et_comm_rank(comm) ? ET_OK : read_file(lines, path, error);
    return share_lines(lines, before, comm, status, error);
}

/* Before anything is translated or scored. */
int et_lines_check_pairs(const et_lines *source, const char *source_name, const et_lines *target,
                         const char *target_name, et_error *error)
{
    et_assert(source_name && target_name);
    /* The names are the files', or "standard input". */
    if (source->count != target->count)
        return et_fail(
            error, ET_EDATA,
            "%s has %s, but %s has %s: line N of one file must translate line N of the other",
            source_name, et_format_many((int64_t)source->count, "line").text, target_name,
            et_format_count((int64_t)target->count).text);
    if (!source->count)
        return et_fail(error, ET_EDATA, "%s: the file is empty: nothing to score", source_name);
    return ET_OK;
}

/* Pointers to earlier lines are invalid from here on. */
void et_lines_clear(et_lines *lines)
{
    et_arena_release(&lines->arena);
    lines->count = 0;
}

/* Cuts lines of "source TAB target": targets, empty before, borrows its texts from lines. ET_EDATA
 * names a line without one TAB. */
static int split_pairs(et_lines *lines, et_lines *targets, const char *name, et_error *error)
{
    et_assert(!targets->count && !targets->items);
    if (ET_ALLOC_ZERO(targets->items, lines->count ? lines->count : 1, "pairs", error))
        return ET_ENOMEM;
    targets->capacity = lines->count;
    for (size_t i = 0; i < lines->count; i++) {
        char *tab = strchr(lines->items[i], '\t');
        if (!tab || strchr(tab + 1, '\t'))
            return et_fail(error, ET_EDATA, "%s:%zu: not a pair: write source, one TAB, target",
                           name, i + 1);
        *tab = 0;
        targets->items[targets->count++] = tab + 1;
    }
    return ET_OK;
}

/* Empties a list for reuse. */
void et_lines_release(et_lines *lines)
{
    et_lines_clear(lines);
    et_free(lines->items);
    *lines = (et_lines)ET_LINES_INIT;
}

/* Before the first line, the rate is unknown. */
void et_lines_show(et_progress *progress, size_t done, size_t count, double start)
{
    double seconds = et_clock_monotonic() - start;
    et_progress_state state = { .what = "lines",
                                .step = (int64_t)done,
                                .steps = (int64_t)count,
                                .rate = done && seconds > 0 ? (double)done / seconds : NAN,
                                .unit = "lines/s",
                                .seconds_left = NAN };
    et_progress_update(progress, &state);
}

/* ---- options of parallel files ---- */

const et_option et_parallel_options[] = {
    ET_OPTION_ROW(et_parallel_args, data, et_option_uses, STRING, FILES, "data", "SOURCE TARGET",
                  "text to evaluate on, one file per language, or one file of pairs, PAIRS.tsv "
                  "(default: the run's validation data)"),
    ET_OPTION_TEXT(et_parallel_args, source, "source", "FILE", "lines to translate, plain or .gz"),
    ET_OPTION_TEXT(et_parallel_args, reference, "reference", "FILE", "their translations"),
    ET_OPTION_END,
};

int et_parallel_take(et_parallel_args *args, const char *command, et_error *error)
{
    et_assert(command);
    const et_option_uses *data = &args->data;
    if (data->times && (args->source || args->reference))
        return et_fail(error, ET_EUSAGE, "%s: --data and %s name the files twice; use one of them",
                       command, args->source ? args->source : args->reference);
    if (data->times) {
        const int last = data->times - 1;
        char *const *items = data->given[last].items;
        args->source = items[0];
        args->reference = data->given[last].count > 1 ? items[1] : NULL;
    }
    const char *const paths[] = { args->source, args->reference };
    for (int i = 0; i < 2; i++) {
        const char *path = paths[i];
        if (path && et_path_ends(path, ".tmx"))
            return et_fail(error, ET_EUSAGE,
                           "%s: %s is a translation memory by its name; make two text files of it, "
                           "with a sentence a line",
                           command, path);
        const bool pairs = path && et_path_has_pairs(path);
        if (pairs && args->reference)
            return et_fail(error, ET_EUSAGE,
                           "%s: %s has both languages by its name; give one file of pairs alone",
                           command, path);
        args->pairs |= pairs;
    }
    return ET_OK;
}

int et_parallel_check(const et_parallel_args *args, const char *command, et_error *error)
{
    et_assert(command);
    if (args->source && !args->reference && !args->pairs)
        return et_fail(error, ET_EUSAGE,
                       "%s: --reference is missing; name the translations in a second file, or "
                       "both in one file of pairs, PAIRS.tsv",
                       command);
    if (!args->source && args->reference)
        return et_fail(error, ET_EUSAGE, "%s: --source is missing; name the lines to translate",
                       command);
    return ET_OK;
}

int et_parallel_read(const et_parallel_args *args, et_lines *sources, et_lines *references,
                     struct et_comm *comm, et_error *error)
{
    et_assert(sources && references);
    int status;
    if ((status = et_lines_read_file(sources, args->source, comm, error)) ||
        (status = args->pairs ? split_pairs(sources, references, args->source, error)
                              : et_lines_read_file(references, args->reference, comm, error)))
        return status;
    return et_lines_check_pairs(sources, args->source, references,
                                args->pairs ? args->source : args->reference, error);
}
