/* The handler reads /proc/self/maps itself, because functions that allocate or lock are not safe in
 * a handler. Saved data are complete: files of a run appear only by rename.
 *
 * Without the handler, SIGBUS ends the process and no file is named
 * (tests/command/test_lost_file.sh). Reading instead of mapping would avoid SIGBUS, but each rank
 * and each start would read its own copy of a corpus. A list of mappings in base/files/file.c would
 * need a writable global with a lock, which a handler cannot take. The kernel's list costs
 * nothing. */
#include "command/lost_file.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/plain.h"

#define EXIT_CODE 3 /* of data that are wrong */

#define SAYS                                                                                       \
    ": another program shortened this file while it was being read, or its disk fails; restore "   \
    "the file and start again (saved checkpoints are intact)"

static const char *program_name = "";
static const et_lost_report *volatile lost_report;

/* Lines of a file, in a handler. A line that does not fit is cut. */
typedef struct reader {
    int file;
    size_t at, length;
    char bytes[4096];
} reader;

static bool next_byte(reader *r, char *byte)
{
    if (r->at == r->length) {
        ssize_t got = read(r->file, r->bytes, sizeof r->bytes);
        if (got <= 0)
            return false;
        r->at = 0;
        r->length = (size_t)got;
    }
    *byte = r->bytes[r->at++];
    return true;
}

static bool next_line(reader *r, char *line, size_t size)
{
    size_t length = 0;
    char byte;
    bool some = false;
    while (next_byte(r, &byte)) {
        some = true;
        if (byte == '\n')
            break;
        if (length + 1 < size)
            line[length++] = byte;
    }
    line[length] = '\0';
    return some;
}

static uintptr_t take_hex(const char **at)
{
    uintptr_t value = 0;
    for (;; ++*at) {
        if (**at >= '0' && **at <= '9')
            value = value << 4 | (uintptr_t)(**at - '0');
        else if (**at >= 'a' && **at <= 'f')
            value = value << 4 | (uintptr_t)(**at - 'a' + 10);
        else
            return value;
    }
}

/* "7f12a000-7f13a000 r--p 00000000 fe:00 1234 /path/of/file": the path, if address is in this
 * mapping. */
static const char *file_at(const char *line, uintptr_t address)
{
    const char *at = line;
    uintptr_t begin = take_hex(&at);
    if (*at++ != '-' || address < begin || address >= take_hex(&at))
        return NULL;
    return strchr(at, '/');
}

static bool put(int file, const char *text)
{
    const size_t length = strlen(text);
    return write(file, text, length) == (ssize_t)length;
}

static void say(const char *text)
{
    put(STDERR_FILENO, text);
}

static bool put_number(int file, long long number)
{
    char digits[24], *at = digits + sizeof digits - 1;
    *at = '\0';
    do
        *--at = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    return put(file, at);
}

static bool put_quoted(int file, const char *text)
{
    bool good = true;
    for (; *text && good; text++) {
        const char one[] = { *text, '\0' };
        good = *text == '"'    ? put(file, "\\\"")
               : *text == '\\' ? put(file, "\\\\")
                               : put(file, (unsigned char)*text < ' ' ? "?" : one);
    }
    return good;
}

/* If the report cannot be written, the existing file is not changed. */
static void write_report(const et_lost_report *report, const char *path)
{
    int file = open(report->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (file < 0)
        return;
    const bool good = put(file, report->before) && put_number(file, (long long)time(NULL)) &&
                      put(file, report->between) && put_quoted(file, path) &&
                      put_quoted(file, SAYS) && put(file, report->behind) && !fsync(file);
    if (close(file) || !good || rename(report->temporary, report->path))
        unlink(report->temporary);
}

static void on_lost_file(int number, siginfo_t *info, void *context)
{
    char line[4352], plain[4352]; /* a path and its prefix */
    const char *path = NULL;
    reader r = { .file = -1 };
    (void)context;
    if (info->si_code == BUS_ADRERR && (r.file = open("/proc/self/maps", O_RDONLY)) >= 0)
        while (!path && next_line(&r, line, sizeof line))
            path = file_at(line, (uintptr_t)info->si_addr);
    if (!path) {
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    say("\n");
    say(program_name);
    say(": ");
    et_plain_copy(plain, sizeof plain, path);
    say(plain);
    say(SAYS "\n");
    if (lost_report)
        write_report(lost_report, path);
    _exit(EXIT_CODE);
}

void et_report_lost_files(const et_lost_report *report)
{
    lost_report = report;
}

void et_tell_lost_files(const char *program)
{
    et_assert(program);
    struct sigaction action;
    program_name = program;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_lost_file;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGBUS, &action, NULL);
}
