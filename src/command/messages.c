/* Messages on standard error: warnings of the library, and errors of commands. */
#include <stdio.h>
#include <string.h>

#include <etude/log.h>

#include "base/files/checksum.h"
#include "base/text/plain.h"
#include "command/command.h"
#include "formats/events/progress.h"

/* One line, whatever names of files are in it. 2,048 bytes: an error's text twice. */
static void print_message(const char *program, et_progress *progress, et_log_level level,
                          const char *text)
{
    if (level < ET_LOG_WARNING)
        return;
    char plain[2048], line[2100];
    et_plain_copy(plain, sizeof plain, text);
    snprintf(line, sizeof line, "%s: %s", level == ET_LOG_ERROR ? "error" : "warning", plain);
    if (progress)
        et_progress_message(progress, line);
    else
        fprintf(stderr, "%s: %s\n", program, line);
}

static void show_plain(void *program, et_log_level level, const char *text)
{
    print_message(((const et_program *)program)->name, NULL, level, text);
}

static void show_above(void *progress, et_log_level level, const char *text)
{
    print_message(NULL, progress, level, text);
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
    if (!log->reported || level < ET_LOG_WARNING || !was_reported(log->reported, text))
        print_message(log->program->name, NULL, level, text);
    if (log->progress)
        print_message(NULL, log->progress, level, text);
}

void et_show_log_quietly(et_quiet_log *log)
{
    et_log_set(show_quietly, log);
}

void et_show_log_on(const et_program *program, struct et_progress *progress)
{
    if (progress)
        et_log_set(show_above, progress);
    else
        et_log_set(show_plain, (void *)program);
}

/* An interruption is no failure and has no name before it. */
void et_tell_failure(const et_program *program, int status, et_error *error)
{
    char plain[ET_ERROR_TEXT_MAX];
    et_plain_copy(plain, sizeof plain, error->text);
    if (plain[0] && status == ET_EINTERRUPTED)
        fprintf(stderr, "%s\n", plain);
    else if (plain[0])
        fprintf(stderr, "%s: %s\n", program->name, plain);
    error->text[0] = 0;
}
