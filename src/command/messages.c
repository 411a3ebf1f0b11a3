/* Messages on standard error: warnings of the library, and errors of commands. */
#include <stdio.h>
#include <string.h>

#include <etude/log.h>

#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/plain.h"
#include "command/command.h"
#include "command/print.h"
#include "formats/events/progress.h"

typedef struct message_line {
    char text[2100];
} message_line;

/* One line, whatever names of files are in it. 2,048 bytes: an error's text twice. */
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

/* Adds it if it was not. */
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
