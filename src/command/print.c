#include "command/print.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/plain.h"
#include "base/text/strbuf.h"
#include "base/text/terminal.h"
#include "base/values/json.h"
#include "command/command.h"
#include "formats/events/progress.h"

/* Bytes of a buffer on the stack: two paths, and the text around them. */
#define ROOM 10000

static void put(void *to, const char *bytes, size_t length)
{
    fwrite(bytes, 1, length, to);
}

void et_print_text(FILE *to, const char *text)
{
    et_assert(to && text);
    et_plain_walk(text, strlen(text), true, put, to);
}

/* Without memory, prints the line unfolded. */
static void print_folded(FILE *to, const char *text)
{
    et_strbuf lines = ET_STRBUF_INIT;
    et_terminal_fold(&lines, text, et_terminal_width(fileno(to)) - 1);
    et_print_text(to, lines.failed ? text : et_strbuf_text(&lines));
    et_strbuf_release(&lines);
}

static void print_formatted(FILE *to, bool folded, const char *format, va_list arguments)
{
    char text[ROOM], *longer = NULL;
    va_list again;
    va_copy(again, arguments);
    const int length = vsnprintf(text, sizeof text, format, arguments);
    if (length >= ROOM && (longer = et_alloc((size_t)length + 1, 1)) != NULL)
        vsnprintf(longer, (size_t)length + 1, format, again);
    (folded ? print_folded : et_print_text)(to, longer ? longer : text);
    if (length >= ROOM && !longer)
        fputs("... (cut: no memory)\n", to);
    et_free(longer);
    va_end(again);
}

void et_print(FILE *to, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_formatted(to, false, format, arguments);
    va_end(arguments);
}

void et_print_lines(FILE *to, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_formatted(to, isatty(fileno(to)), format, arguments);
    va_end(arguments);
}

void et_print_text_lines(FILE *to, const char *text)
{
    et_assert(to && text);
    (isatty(fileno(to)) ? print_folded : et_print_text)(to, text);
}

void et_print_help(FILE *to, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_formatted(to, true, format, arguments);
    va_end(arguments);
}

void et_print_results(FILE *to, const char *bytes, size_t length)
{
    et_assert(to && (bytes || !length));
    if (isatty(fileno(to)))
        et_plain_walk(bytes, length, true, put, to);
    else
        fwrite(bytes, 1, length, to);
}

int et_print_end(int status, et_error *error)
{
    return status || !fflush(stdout) ? status : et_fail_errno(error, "standard output");
}

int et_print_json(const et_value *results, et_error *error)
{
    et_strbuf text = ET_STRBUF_INIT;
    if (results && !et_value_failed(results)) {
        et_json_print(&text, results, 2);
        et_strbuf_append_char(&text, '\n');
    }
    bool whole = text.length && !text.failed;
    if (whole)
        et_print_results(stdout, text.data, text.length);
    et_strbuf_release(&text);
    if (!whole)
        return et_alloc_failed(error, "results");
    return et_print_end(ET_OK, error);
}

/* ---- messages: warnings of the library, and errors of commands ---- */

typedef struct message_line {
    char text[2100];
} message_line;

/* Makes one line, even if names of files have line ends. 2,048 bytes are the text of two errors. */
static message_line line_of(et_log_level level, const char *text)
{
    char plain[2048];
    message_line line;
    et_plain_copy(plain, sizeof plain, text);
    snprintf(line.text, sizeof line.text, "%s: %s", level == ET_LOG_ERROR ? "error" : "warning",
             plain);
    return line;
}

static void show_plain(void *program, et_log_level level, const char *text)
{
    if (level >= ET_LOG_WARNING)
        et_print_lines(stderr, "%s: %s\n", ((const et_program *)program)->name,
                       line_of(level, text).text);
}

static void show_above(void *progress, et_log_level level, const char *text)
{
    if (level >= ET_LOG_WARNING)
        et_progress_message(progress, line_of(level, text).text);
}

/* Whether a text was reported before; adds the text if not. */
static bool was_reported(et_reported *reported, const char *text)
{
    const uint64_t checksum = et_checksum(text, strlen(text));
    for (int i = 0; i < reported->count; i++)
        if (reported->text[i] == checksum)
            return true;
    if (reported->count < ET_REPORTED_MAX)
        reported->text[reported->count++] = checksum;
    return false;
}

static void show_quietly(void *self, et_log_level level, const char *text)
{
    const et_quiet_log *log = self;
    if (level < ET_LOG_WARNING)
        return;
    const bool again = log->reported && was_reported(log->reported, text);
    if (!again && !log->bar)
        show_plain((void *)log->program, level, text);
    if (log->progress)
        (log->bar && !again ? et_progress_alert : et_progress_record)(log->progress,
                                                                      line_of(level, text).text);
}

void et_show_log_quietly(et_quiet_log *log)
{
    et_assert(!log || log->program);
    et_log_set(show_quietly, log);
}

void et_show_log_on(const et_program *program, struct et_progress *progress)
{
    if (progress)
        et_log_set(show_above, progress);
    else
        et_log_set(show_plain, (void *)program);
}

void et_show_line(void *progress, const char *line)
{
    if (progress)
        et_progress_message(progress, line);
    else
        et_print(stderr, "%s\n", line);
}

/* An interruption is no failure and has no name before it. */
void et_tell_failure(const et_program *program, int status, et_error *error)
{
    et_assert(program && program->name);
    char plain[ET_ERROR_TEXT_MAX];
    et_plain_copy(plain, sizeof plain, error->text);
    if (plain[0] && status == ET_EINTERRUPTED)
        et_print_lines(stderr, "%s\n", plain);
    else if (plain[0])
        et_print_lines(stderr, "%s: %s\n", program->name, plain);
    error->text[0] = 0;
}
