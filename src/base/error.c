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
    if (length >= 0 && (size_t)length < sizeof error->text)
        snprintf(error->text + length, sizeof error->text - (size_t)length, ": %s", cause);
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
        return ET_ENOTFOUND;
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
    if (length >= 0 && (size_t)length < sizeof error->text) {
        char reason[128];
        snprintf(error->text + length, sizeof error->text - (size_t)length, ": %s",
                 strerror_r(number, reason, sizeof reason));
    }
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
    };
    if (status < 0 || (size_t)status >= sizeof names / sizeof names[0])
        return "unknown status";
    return names[status];
}
