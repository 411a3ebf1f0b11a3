#include <etude/error.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int et_fail(et_error *error, int status, const char *format, ...)
{
    if (!error)
        return status;
    va_list arguments;
    va_start(arguments, format);
    error->status = status;
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return status;
}

/* Adds ": text" to a message of that length, cut where the message's memory ends. */
static void append(et_error *error, int length, const char *text)
{
    size_t most = sizeof error->text - 1, at = (size_t)length + 2;
    if (length < 0 || at >= most)
        return;
    size_t size = strnlen(text, most - at);
    memcpy(error->text + length, ": ", 2);
    memcpy(error->text + at, text, size);
    error->text[at + size] = 0;
}

int et_fail_while(et_error *error, int status, const char *format, ...)
{
    if (!error)
        return status;
    char cause[ET_ERROR_TEXT_MAX];
    memcpy(cause, error->text, sizeof cause);
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    append(error, length, cause);
    error->status = status;
    return status;
}

static int status_from_errno(int number)
{
    switch (number) {
    case ENOSPC:
    case EDQUOT:
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

int et_fail_errno(et_error *error, const char *format, ...)
{
    int number = errno;
    int status = status_from_errno(number);
    if (!error)
        return status;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    error->status = status;
    char reason[128];
    append(error, length, strerror_r(number, reason, sizeof reason));
    return status;
}

const char *et_status_name(int status)
{
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
