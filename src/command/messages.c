/* Messages on standard error: warnings of the library, what a command fails with. */
#include <stdio.h>

#include <etude/log.h>

#include "command/command.h"
#include "io/progress.h"

/* Names of files are in messages, and may hold anything: a message is one line, and no escape
 * sequence reaches the terminal. */
static void make_printable(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}

/* 2,100 bytes: an error's text twice and the word before it. */
static void print_message(const char *program, et_progress *progress, et_log_level level,
                          const char *text)
{
    if (level < ET_LOG_WARNING)
        return;
    char line[2100];
    snprintf(line, sizeof line, "%s: %s", level == ET_LOG_ERROR ? "error" : "warning", text);
    make_printable(line);
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

static void show_quietly(void *self, et_log_level level, const char *text)
{
    const et_quiet_log *log = self;
    print_message(log->program->name, NULL, level, text);
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
    make_printable(error->text);
    if (error->text[0] && status == ET_EINTERRUPTED)
        fprintf(stderr, "%s\n", error->text);
    else if (error->text[0])
        fprintf(stderr, "%s: %s\n", program->name, error->text);
    error->text[0] = 0;
}
