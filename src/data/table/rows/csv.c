/* Rows of CSV. Bytes become rows through one buffer:
 *
 *   file --packed--> buffer --csv_scan--> a row
 *
 * A row is returned where it is in the buffer. A partial row is moved to the front before each
 * refill, and the buffer grows with the longest row up to ET_CSV_ROW_MAX. A quote that is never
 * closed is found at the end of the file, or at this limit. After a bad row, the next row begins
 * after the line of the fault.
 *
 * libcsv (Debian's libcsv3) was not used: it calls a function for every state and every cell, which
 * was four times too slow. It also accepts text after a closing quote and NUL, and reports neither
 * line numbers nor invalid UTF-8. So Etude has its own parser (csv_scan).
 *
 * Invariants:
 *
 *   (1) begin <= end <= capacity;
 *   (2) line is the line of begin; contents has at least the kinds of bytes in [begin, end). */
#include "data/table/rows/csv.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/vector.h"
#include "data/table/rows/csv_scan.h"
#include "data/text/text.h"
#include "formats/records/packed.h"

/* First capacity of the buffer: two reads of pages that a disk gives at once. */
#define CAPACITY_FIRST ((size_t)256 << 10)

/* The bytes and rows from which the delimiter is guessed. */
#define GUESS_BYTES ((size_t)64 << 10)
#define GUESS_ROWS  100

/* If more bytes than this are left in the buffer, its contents are not examined again. */
#define RESCAN_MAX ((size_t)64 << 10)

struct et_csv {
    et_csv_scanner scanner;
    char *name;
    et_packed_reader *bytes; /* NULL: a stream, or a text */
    int descriptor;          /* of bytes, or the stream's; -1: a text's */
    struct stat before;      /* facts about the file when it was opened */
    bool guess;              /* the delimiter is not known */
    bool started;            /* the first bytes were looked at */
    bool drained;            /* nothing more comes */
    bool ended;              /* the last line's end is not the file's */
    bool skipping;           /* the row was too long: skip to the begin of the next line */
    int64_t line;            /* of begin, from 1 */
    char *buffer;            /* [capacity]; a text's is borrowed */
    size_t capacity, begin, end;
    unsigned contents;
    uint64_t came; /* bytes, unpacked */
    bool keeps;    /* for et_csv_again, since scanning changes the buffer */
    char *kept;    /* [kept_capacity] */
    size_t kept_length, kept_capacity;
};

static bool is_stream(const et_csv *csv)
{
    return !csv->bytes && csv->descriptor >= 0;
}

/* ---- bytes ---- */

static int read_stream(et_csv *csv, char *to, size_t room, size_t *got, et_error *error)
{
    ssize_t count;
    do {
        count = read(csv->descriptor, to, room);
    } while (count < 0 && errno == EINTR);
    *got = count < 0 ? 0 : (size_t)count;
    return count < 0 ? et_fail_errno(error, "cannot read %s", csv->name) : ET_OK;
}

/* A file that others write to would give rows of two versions. */
static int check_unchanged(const et_csv *csv, et_error *error)
{
    struct stat now;
    if (!S_ISREG(csv->before.st_mode))
        return ET_OK;
    if (fstat(csv->descriptor, &now))
        return et_fail_errno(error, "cannot read %s", csv->name);
    if (now.st_size == csv->before.st_size && now.st_mtim.tv_sec == csv->before.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == csv->before.st_mtim.tv_nsec)
        return ET_OK;
    return et_fail(error, ET_EFORMAT,
                   "%s changed while Etude read it (%lld bytes, then %lld): start again when no "
                   "program writes to it",
                   csv->name, (long long)csv->before.st_size, (long long)now.st_size);
}

static int grow_to(et_csv *csv, size_t capacity, et_error *error)
{
    if (!ET_VECTOR_GROW(csv->buffer, csv->capacity, capacity))
        return et_alloc_failed(error, "rows");
    return ET_OK;
}

/* Examines the earlier bytes again if that is cheap, so that one odd row does not slow down all
 * following rows. */
static void note_contents(et_csv *csv, size_t got)
{
    size_t from = csv->end - got;
    if (from <= RESCAN_MAX) {
        csv->contents = 0;
        from = 0;
    }
    csv->contents |= et_csv_contents(csv->buffer + from, csv->end - from);
}

/* Adds a missing line end to the last line. Returns the number of added bytes. */
static size_t end_last_line(et_csv *csv)
{
    if (!csv->drained || !csv->end || csv->buffer[csv->end - 1] == '\n')
        return 0;
    csv->buffer[csv->end++] = '\n';
    csv->ended = true;
    return 1;
}

/* Reads more bytes after the rest, at least one except at the end of the input; then the last line
 * gets an end. */
static int refill(et_csv *csv, et_error *error)
{
    size_t got = 0;
    if (csv->begin)
        memmove(csv->buffer, csv->buffer + csv->begin, csv->end - csv->begin);
    csv->end -= csv->begin;
    csv->begin = 0;
    int status = ET_OK;
    if (csv->end >= csv->capacity / 2)
        status = grow_to(csv, csv->capacity ? csv->capacity + 1 : CAPACITY_FIRST, error);
    if (status)
        return status;
    /* A byte stays free for the last line's end. */
    char *to = csv->buffer + csv->end;
    size_t room = csv->capacity - csv->end - 1;
    status = csv->bytes ? et_packed_read(csv->bytes, to, room, &got, error)
                        : read_stream(csv, to, room, &got, error);
    if (status == ET_EFORMAT)
        return et_fail_while(error, status, "%s", csv->name);
    if (status)
        return status;
    csv->drained = got == 0;
    csv->came += got;
    if (csv->drained && csv->bytes)
        status = check_unchanged(csv, error);
    else if (csv->keeps) {
        if (!ET_VECTOR_GROW(csv->kept, csv->kept_capacity, csv->kept_length + got))
            return et_alloc_failed(error, "rows");
        memcpy(csv->kept + csv->kept_length, to, got);
        csv->kept_length += got;
    }
    if (status)
        return status;
    csv->end += got;
    got += end_last_line(csv);
    note_contents(csv, got);
    return ET_OK;
}

/* ---- the beginning ---- */

#define IS_JSON                                                                                    \
    "is JSON: save the table as CSV, or as JSON lines, an object a line, in a file called "        \
    ".jsonl; `predict` reads JSON lines from anywhere with --input-format jsonl"

/* Further first bytes, and their meaning; those of text follow. */
static const et_text_mark own_marks[] = {
    { "\xef\xbb\xbf", 3, NULL }, /* byte order mark of UTF-8 */
    { "PK\3\4", 4, "is a zip archive, as spreadsheets are (.xlsx): save the table as CSV" },
    { "\xd0\xcf\x11\xe0", 4, "is a spreadsheet (.xls): save the table as CSV" },
    { "PAR1", 4, "is a Parquet file: save the table as CSV" },
    { "%PDF", 4, "is a PDF file: save the table as CSV" },
    { "\x89PNG", 4, "is a picture (.png), not a table: name a CSV file" },
    { "<htm", 4, "is a page of the web (HTML): download the table itself, as CSV" },
    { "<HTM", 4, "is a page of the web (HTML): download the table itself, as CSV" },
    { "<!DO", 4, "is a page of the web (HTML): download the table itself, as CSV" },
    { "{\"", 2, IS_JSON },
    { "[{", 2, IS_JSON },
    { "{\n", 2, IS_JSON },
    { "[\n", 2, IS_JSON },
    { "{\r", 2, IS_JSON },
    { "[\r", 2, IS_JSON },
};

#define OWN_MARKS (sizeof own_marks / sizeof *own_marks)
#define MARKS     (OWN_MARKS + ET_TEXT_MARKS)

static const et_text_mark *mark_at(size_t i)
{
    return i < OWN_MARKS ? &own_marks[i] : &et_text_marks[i - OWN_MARKS];
}

/* Whether one more byte could complete a byte order mark. */
static bool may_be_marked(const et_csv *csv)
{
    for (size_t i = 0; i < MARKS; i++)
        if (csv->end < mark_at(i)->length &&
            (!csv->end || !memcmp(csv->buffer, mark_at(i)->bytes, csv->end)))
            return true;
    return false;
}

bool et_csv_may_delimit(char c)
{
    return c == '\t' || (c >= ' ' && c <= '~' && c != '"');
}

/* A first line "sep=;" is not a row: spreadsheets write it to set the delimiter. */
static void read_separator(et_csv *csv)
{
    static const char name[] = "sep=";
    const size_t length = sizeof name - 1, there = csv->end - csv->begin;
    const char *at = csv->buffer + csv->begin;
    if (there < length + 2 || memcmp(at, name, length) != 0)
        return;
    const size_t end = length + 1 + (at[length + 1] == '\r');
    if (end >= there || at[end] != '\n' || !et_csv_may_delimit(at[length]) ||
        at[length] == csv->scanner.comment)
        return;
    if (csv->guess)
        csv->scanner.delimiter = at[length];
    csv->guess = false;
    csv->begin += end + 1;
    csv->line++;
}

/* Reads the first bytes: a byte order mark, and the rows from which the delimiter is guessed. A
 * stream is only read to the end of its first line. */
static int start(et_csv *csv, et_error *error)
{
    int status = ET_OK;
    csv->started = true;
    while (!status && !csv->drained && (csv->bytes ? csv->end < GUESS_BYTES : may_be_marked(csv)))
        status = refill(csv, error);
    for (size_t i = 0; !status && i < MARKS; i++) {
        const et_text_mark *mark = mark_at(i);
        if (csv->end < mark->length || memcmp(csv->buffer, mark->bytes, mark->length) != 0)
            continue;
        if (mark->fault)
            status = et_fail(error, ET_EFORMAT, "%s %s", csv->name, mark->fault);
        else
            csv->begin = mark->length;
    }
    if (!status)
        read_separator(csv);
    while (!status && csv->guess) {
        char found = et_csv_guess(&csv->scanner, csv->buffer + csv->begin, csv->buffer + csv->end,
                                  is_stream(csv) ? 1 : GUESS_ROWS);
        if (found)
            csv->scanner.delimiter = found;
        csv->guess = !found && !csv->drained && csv->end - csv->begin < ET_CSV_ROW_MAX;
        if (csv->guess)
            status = refill(csv, error);
    }
    return status;
}

bool et_csv_character(char *out, const char *text)
{
    const bool tab = text && (!strcmp(text, "tab") || !strcmp(text, "\\t"));
    *out = tab ? '\t' : text ? text[0] : 0;
    return tab || !text || strlen(text) <= 1;
}

static int check_options(const et_csv_options *options, et_error *error)
{
    static const et_csv_options none;
    const et_csv_options *o = options ? options : &none;
    const char characters[2] = { o->delimiter, o->comment };
    for (int i = 0; i < 2; i++) {
        char c = characters[i];
        if (c && !et_csv_may_delimit(c))
            return et_fail(error, ET_ECONFIG,
                           "the %s is %s: choose a character that does not occur in values",
                           i ? "character before comments" : "delimiter",
                           c == '"' ? "a quote" : "not a printable ASCII character");
    }
    if (o->delimiter && o->delimiter == o->comment)
        return et_fail(error, ET_ECONFIG,
                       "the delimiter is also the character that starts a comment; choose another");
    if (o->columns < 0 || o->columns > ET_CSV_COLUMNS_MAX)
        return et_fail(error, ET_ECONFIG, "%d columns: a table needs 1 to %d", o->columns,
                       ET_CSV_COLUMNS_MAX);
    return ET_OK;
}

/* Takes over the descriptor if it belongs to a file. */
static int open_reader(et_csv **out, int descriptor, bool file, const char *name,
                       const et_csv_options *options, et_error *error)
{
    et_csv *csv = et_alloc_zero(1, sizeof *csv);
    char *copy = et_strdup(name);
    if (!csv || !copy) {
        et_free(csv);
        et_free(copy);
        if (file)
            close(descriptor);
        return et_alloc_failed(error, "a reader of CSV");
    }
    et_csv_scanner_init(&csv->scanner, options);
    csv->guess = !options || !options->delimiter;
    csv->name = copy;
    csv->descriptor = descriptor;
    csv->line = 1;
    int status = ET_OK;
    if (file && fstat(descriptor, &csv->before)) {
        status = et_fail_errno(error, "cannot read %s", name);
        close(descriptor);
    } else if (file)
        status = et_packed_reader_open(&csv->bytes, descriptor, csv->name, NULL, error);
    if (status) {
        et_csv_close(csv);
        return status;
    }
    *out = csv;
    return ET_OK;
}

int et_csv_open(et_csv **out, const char *path, const et_csv_options *options, et_error *error)
{
    int descriptor;
    int status = check_options(options, error);
    if (!status)
        status = et_file_open(&descriptor, path, error);
    return status ? status : open_reader(out, descriptor, true, path, options, error);
}

/* If the path is a named pipe, the open waits for a writer. */
int et_csv_open_once(et_csv **out, const char *path, const et_csv_options *options, et_error *error)
{
    struct stat info;
    if (stat(path, &info) || S_ISREG(info.st_mode) || S_ISDIR(info.st_mode))
        return et_csv_open(out, path, options, error);
    int status = check_options(options, error);
    int descriptor = status ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return status ? status : et_fail_errno(error, "cannot open %s", path);
    return open_reader(out, descriptor, true, path, options, error);
}

int et_csv_open_stream(et_csv **out, int descriptor, const char *name,
                       const et_csv_options *options, et_error *error)
{
    int status = check_options(options, error);
    return status ? status : open_reader(out, descriptor, false, name, options, error);
}

/* The whole text is available from the start, so nothing is read, moved or kept. */
int et_csv_open_text(et_csv **out, char *text, size_t length, const char *name,
                     const et_csv_options *options, et_error *error)
{
    int status;
    if ((status = check_options(options, error)) ||
        (status = open_reader(out, -1, false, name, options, error)))
        return status;
    (*out)->buffer = text;
    (*out)->end = length;
    (*out)->capacity = length + 1;
    (*out)->drained = true;
    end_last_line(*out);
    note_contents(*out, (*out)->end);
    return ET_OK;
}

void et_csv_close(et_csv *csv)
{
    if (!csv)
        return;
    et_packed_reader_close(csv->bytes);
    et_csv_scanner_release(&csv->scanner);
    if (csv->bytes || is_stream(csv))
        et_free(csv->buffer);
    et_free(csv->kept);
    et_free(csv->name);
    et_free(csv);
}

/* ---- again ---- */

void et_csv_keep(et_csv *csv)
{
    et_assert(!csv->started && !csv->drained);
    csv->keeps = true;
}

size_t et_csv_kept(const et_csv *csv)
{
    return csv->kept_length;
}

int et_csv_again(et_csv *csv, const et_csv_options *options, et_error *error)
{
    et_assert(csv->keeps);
    int status = check_options(options, error);
    if (!status && csv->kept_length >= csv->capacity)
        status = grow_to(csv, 2 * csv->kept_length, error);
    if (status)
        return status;
    et_csv_scanner_release(&csv->scanner);
    et_csv_scanner_init(&csv->scanner, options);
    csv->guess = !options || !options->delimiter;
    if (csv->kept_length)
        memcpy(csv->buffer, csv->kept, csv->kept_length);
    csv->begin = 0;
    csv->end = csv->kept_length;
    csv->contents = 0;
    note_contents(csv, csv->end);
    end_last_line(csv);
    csv->line = 1;
    csv->started = csv->skipping = csv->keeps = false;
    et_free(csv->kept);
    csv->kept = NULL;
    csv->kept_length = csv->kept_capacity = 0;
    return ET_OK;
}

/* ---- rows ---- */

/* Makes the message about the row at `line`. A file whose lines end in CR is one row, and has one
 * message for the whole file. */
static int fail_row(et_csv *csv, const char *begin, const char *end, et_error *error)
{
    et_csv_scanner *scanner = &csv->scanner;
    const char *nul = NULL;
    const bool one_line =
        csv->line == 1 && (csv->ended ? end == csv->buffer + csv->end : !csv->drained);
    if ((scanner->fault == ET_CSV_FAULT_CR || scanner->fault == ET_CSV_FAULT_LONG) && one_line) {
        /* A file that is not text also has CRs. */
        if ((nul = memchr(begin, 0, (size_t)(end - begin)))) {
            scanner->fault = ET_CSV_FAULT_NUL;
            scanner->at = nul;
        } else if (et_text_check_first(begin, (size_t)(end - begin), csv->name, error))
            return ET_EDATA;
    }
    return et_csv_fault_fail(&csv->scanner, csv->name, csv->line, error);
}

/* Reports a row that does not end in the available bytes, because the input has ended or the row is
 * too long. An open quote, if any, is the reason. The next row is searched after the line of the
 * reason. */
static int fail_endless(et_csv *csv, et_error *error)
{
    et_csv_scanner *scanner = &csv->scanner;
    const char *begin = csv->buffer + csv->begin, *end = csv->buffer + csv->end;
    const char *from = scanner->at ? scanner->at : begin;
    scanner->fault = scanner->at ? ET_CSV_FAULT_QUOTE : ET_CSV_FAULT_LONG;
    int status = fail_row(csv, begin, end, error);
    const char *lf = memchr(from, '\n', (size_t)(end - from));
    for (const char *at = begin; lf && (at = memchr(at, '\n', (size_t)(lf + 1 - at))); at++)
        csv->line++;
    csv->begin = lf ? (size_t)(lf + 1 - csv->buffer) : csv->end;
    csv->skipping = !lf;
    return status;
}

/* Handles a row that was found, good or bad, or a skipped line. */
static int take_row(et_csv *csv, et_csv_found found, et_csv_row *row, et_error *error)
{
    et_csv_scanner *scanner = &csv->scanner;
    int status = ET_OK;
    if (found == ET_CSV_BAD && scanner->fault == ET_CSV_FAULT_MEMORY)
        return et_csv_fault_fail(scanner, csv->name, csv->line, error);
    if (scanner->next - scanner->begin > (ptrdiff_t)ET_CSV_ROW_MAX) {
        scanner->fault = ET_CSV_FAULT_LONG;
        found = ET_CSV_BAD;
    }
    if (found == ET_CSV_BAD)
        status = fail_row(csv, scanner->begin, scanner->next, error);
    csv->line += scanner->lines;
    csv->begin = (size_t)(scanner->next - csv->buffer);
    if (found != ET_CSV_ROW)
        return status;
    if (!scanner->columns) {
        scanner->columns = scanner->count;
        scanner->columns_line = row->line;
    }
    scanner->names = false;
    row->count = scanner->count;
    row->cell = scanner->cell;
    return ET_OK;
}

void et_csv_take_missing(et_csv *csv)
{
    et_csv_scanner_take_missing(&csv->scanner);
}

int et_csv_next(et_csv *csv, et_csv_row *row, et_error *error)
{
    int status = csv->started ? ET_OK : start(csv, error);
    *row = (et_csv_row){ 0 };
    while (!status && !row->count) {
        if (csv->skipping) {
            /* Skips the rest of a row that was too long. */
            const char *lf = memchr(csv->buffer + csv->begin, '\n', csv->end - csv->begin);
            csv->begin = lf ? (size_t)(lf + 1 - csv->buffer) : csv->end;
            csv->line += lf != NULL;
            csv->skipping = !lf && !csv->drained;
        }
        char *end = csv->buffer + csv->end;
        et_csv_found found = csv->skipping ? ET_CSV_MORE
                                           : et_csv_scan(&csv->scanner, csv->buffer + csv->begin,
                                                         end, csv->contents);
        if (found == ET_CSV_MORE && csv->drained && csv->begin == csv->end)
            break;
        row->line = csv->line;
        if (found != ET_CSV_MORE)
            status = take_row(csv, found, row, error);
        else if (csv->drained || csv->end - csv->begin > ET_CSV_ROW_MAX)
            status = fail_endless(csv, error);
        else
            status = refill(csv, error);
    }
    return status;
}

/* ---- rows in bulk ---- */

int et_csv_next_block(et_csv *csv, size_t wanted, et_csv_block *block, et_error *error)
{
    int status = csv->started ? ET_OK : start(csv, error);
    *block = (et_csv_block){ 0 };
    for (; !status; wanted *= 2) {
        while (!status && !csv->drained && csv->end - csv->begin < wanted)
            status = refill(csv, error);
        if (status)
            break;
        char *begin = csv->buffer + csv->begin;
        size_t length = csv->end - csv->begin;
        length = length < wanted ? length : wanted;
        char *end =
            length ? et_csv_split(&csv->scanner, begin, begin + length, csv->contents) : begin;
        if (end > begin || !length) {
            *block = (et_csv_block){ begin, end, csv->contents, csv->line };
            csv->line += et_csv_count_lines(begin, end);
            csv->begin += (size_t)(end - begin);
            return ET_OK;
        }
        block->line = csv->line;
        if (length > ET_CSV_ROW_MAX || (csv->drained && length == csv->end - csv->begin)) {
            /* Scans once more to find out which part does not end. */
            et_csv_scan(&csv->scanner, begin, begin + length, csv->contents);
            return fail_endless(csv, error);
        }
    }
    return status;
}

void et_csv_form(const et_csv *csv, et_csv_scanner *scanner)
{
    *scanner = csv->scanner;
    scanner->cell = NULL;
    scanner->how = NULL;
    scanner->capacity = 0;
}

uint64_t et_csv_taken(const et_csv *csv)
{
    if (csv->bytes && !S_ISREG(csv->before.st_mode))
        return csv->came;
    off_t at = csv->bytes ? lseek(csv->descriptor, 0, SEEK_CUR) : 0;
    return at > 0 ? (uint64_t)at : 0;
}

const char **et_csv_missing_with(const char *const *more, size_t count)
{
    size_t usual = 0;
    while (et_csv_usual_missing[usual])
        usual++;
    const char **all = et_alloc_zero(usual + count + 1, sizeof *all);
    if (!all)
        return NULL;
    memcpy(all, et_csv_usual_missing, usual * sizeof *all);
    if (count)
        memcpy(all + usual, more, count * sizeof *all);
    return all;
}

/* ---- getters ---- */

char et_csv_delimiter(const et_csv *csv)
{
    return csv->started ? csv->scanner.delimiter : 0;
}

bool et_csv_waits(const et_csv *csv)
{
    struct pollfd input = { .fd = csv->descriptor, .events = POLLIN };
    if (!is_stream(csv) || csv->drained ||
        (csv->begin < csv->end && memchr(csv->buffer + csv->begin, '\n', csv->end - csv->begin)))
        return false;
    return poll(&input, 1, 0) == 0;
}
