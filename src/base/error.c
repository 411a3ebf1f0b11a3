/* Error messages. They are formatted at the failure, in the caller's memory, so reporting a failure
 * cannot fail. A text that does not fit is cut and stays terminated. The order of a message is from
 * outside to inside, "reading a.yaml: line 3: ...", so et_fail_while has to move the existing
 * text. */
#include <etude/error.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "base/plain.h"

/* Messages contain file names and values, which may have any bytes; this makes them safe to print.
 * Returns the length, or -1: the format could not be printed. */
static int format_plain(et_error *error, const char *format, va_list arguments)
{
    char text[ET_ERROR_TEXT_MAX];
    if (et_plain_vprint(text, sizeof text, format, arguments) < 0)
        return -1;
    et_plain_copy(error->text, sizeof error->text, text);
    return (int)strlen(error->text);
}

/* A caller that wants the status only passes NULL and pays for no formatting. */
int et_fail(et_error *error, int status, const char *format, ...)
{
    if (!error)
        return status;
    va_list arguments;
    va_start(arguments, format);
    error->status = status;
    format_plain(error, format, arguments);
    va_end(arguments);
    return status;
}

/* Appends ": text" to a message of that length, cut at the end of its memory. If there is no room
 * for ": " and one character, appends nothing. */
static void append(et_error *error, int length, const char *text)
{
    size_t most = sizeof error->text - 1, at = (size_t)length + 2;
    /* Negative: the format could not be printed. */
    if (length < 0 || at >= most)
        return;
    size_t size = strnlen(text, most - at);
    memcpy(error->text + length, ": ", 2);
    memcpy(error->text + at, text, size);
    error->text[at + size] = 0;
}

/* Copies the cause, writes the context over it, then appends the cause. */
int et_fail_while(et_error *error, int status, const char *format, ...)
{
    if (!error)
        return status;
    /* On the stack: telling of a failure must not need memory. */
    char cause[ET_ERROR_TEXT_MAX];
    memcpy(cause, error->text, sizeof cause);
    va_list arguments;
    va_start(arguments, format);
    int length = format_plain(error, format, arguments);
    va_end(arguments);
    append(error, length, cause);
    error->status = status;
    return status;
}

/* Chooses the status by what a user can do: free space, grant rights, correct a name. The rest are
 * failures of a device or a network. */
static int status_from_errno(int number)
{
    /* ENOTDIR: a part of the path is a file, so the path does not exist. EISDIR, ELOOP,
     * ENAMETOOLONG: something exists or could exist there, but not of the wanted kind. */
    switch (number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return ET_ENOSPACE;
    case ENOMEM:
        return ET_ENOMEM;
    case ENOENT:
    case ENOTDIR:
        return ET_ENOTFOUND;
    case EACCES:
    case EPERM:
    case EROFS:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
        return ET_EDENIED;
    default:
        return ET_EIO;
    }
}

/* The cure for an error of the system; "": the system's text is enough. */
static const char *cure_of(int number)
{
    switch (number) {
    case ENOSPC:
    case EDQUOT:
        return "; free some space or choose another directory";
    case EFBIG:
        return "; raise the limit on the size of a file (ulimit -f)";
    case ENOENT:
        return "; check the path";
    case EACCES:
    case EPERM:
        return "; choose a directory that you may use, or change its permissions";
    case EROFS:
        return "; choose a directory on another file system";
    case EMFILE:
        return "; raise the limit (ulimit -n)";
    case EADDRINUSE:
        return "; end the process that listens there, or choose another port";
    case EADDRNOTAVAIL:
        return "; choose an address of this machine";
    default:
        return "";
    }
}

/* errno first: any call below may change it. */
int et_fail_errno(et_error *error, const char *format, ...)
{
    /* Save errno first: any other call may change it. */
    int number = errno;
    int status = status_from_errno(number);
    if (!error)
        return status;
    va_list arguments;
    va_start(arguments, format);
    int length = format_plain(error, format, arguments);
    va_end(arguments);
    error->status = status;
    char buffer[128], reason[256];
    /* GNU's strerror_r returns the text and may not use the buffer; unlike strerror, it is
     * thread-safe. */
    const char *text = strerror_r(number, buffer, sizeof buffer);
    const bool dash = number == ENOENT && length > 0 &&
                      !strcmp(error->text + length - (length > 1 ? 2 : 1), length > 1 ? " -" : "-");
    snprintf(reason, sizeof reason, "%s%s", text,
             dash ? "; - does not mean standard input here: name a file" : cure_of(number));
    append(error, length, reason);
    return status;
}

/* ORDER et_status, by designator. */
const char *et_status_name(int status)
{
    /* Texts for users, who may never see the number. */
    static const char *const names[] = {
        [ET_OK] = "done",
        [ET_EFAIL] = "failed",
        [ET_EUSAGE] = "wrong usage",
        [ET_ECONFIG] = "wrong setting",
        [ET_EDATA] = "wrong data",
        [ET_EFORMAT] = "damaged file",
        [ET_ENOTFOUND] = "not found",
        [ET_EIO] = "input or output error",
        [ET_ENOMEM] = "out of memory",
        [ET_ENOSPACE] = "out of disk space",
        [ET_EBUSY] = "in use",
        [ET_EDIVERGED] = "diverged",
        [ET_EINTERRUPTED] = "interrupted",
        [ET_EGRAPH] = "model does not fit together",
        [ET_EDENIED] = "not allowed",
    };
    if (status < 0 || (size_t)status >= sizeof names / sizeof names[0])
        return "unknown status";
    return names[status];
}

int et_options_need(const void *options, const char *name, et_error *error)
{
    return options
               ? ET_OK
               : et_fail(error, ET_EUSAGE,
                         "%s: NULL; pass a struct, for example one initialized with { 0 }", name);
}

int et_callback_status(int status, const char *name, et_error *error)
{
    return !status || !error || error->status
               ? status
               : et_fail(error, status, "%s returned %d (%s) and set no error: return et_fail(...)",
                         name, status, et_status_name(status));
}
