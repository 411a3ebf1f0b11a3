/* Status and error text.
 *
 * Every call that can fail for a reason outside the program (a file, a setting,
 * memory, a disk) returns an int status, 0 for success, and takes an et_error as
 * its last argument. The error is a plain value: the caller owns it, it holds no
 * memory, and NULL is allowed where the text is not wanted.
 *
 * A caller's mistake is of one of two kinds. Values that may come from outside the
 * program (options and numbers, texts and NULL for one, shapes, nodes that do not fit
 * together) are checked in every build, before anything is done with them, and give a
 * status: ET_ECONFIG for an option, ET_EDATA for a text, ET_EGRAPH for a part of a
 * model; where there is none, the header says what is returned. What only the program
 * itself can have wrong (an object that is NULL, freed or in use by another thread, an
 * order of calls that a header forbids) is an assertion: debug builds abort, others do
 * not look.
 *
 *     et_error error = ET_ERROR_INIT;
 *     if (et_translator_open(&t, "runs/a", NULL, &error))
 *         fprintf(stderr, "%s\n", error.text);
 *
 * Threads: a value per thread.
 */
#ifndef ETUDE_ERROR_H
#define ETUDE_ERROR_H

#include <etude/export.h>

enum et_status {
    ET_OK = 0,
    ET_EFAIL,        /* failed, for a reason none of the others names */
    ET_EUSAGE,       /* a call out of order or whose arguments do not go together; a command line */
    ET_ECONFIG,      /* a setting is unknown, of the wrong type or out of range */
    ET_EDATA,        /* the user's data is wrong: text, lengths, encoding */
    ET_EFORMAT,      /* a file is damaged or not what it says it is */
    ET_ENOTFOUND,    /* a file or name does not exist */
    ET_EIO,          /* reading or writing failed */
    ET_ENOMEM,       /* out of memory */
    ET_ENOSPACE,     /* out of disk space or quota, or a file past its limit */
    ET_EBUSY,        /* locked by another process */
    ET_EDIVERGED,    /* a loss or gradient is not finite */
    ET_EINTERRUPTED, /* asked to stop; the state is saved */
    ET_EGRAPH,       /* a model does not fit together: shapes, dtypes */
    ET_EDENIED,      /* a file may not be used: permissions, read-only, not a regular file */
};

#define ET_ERROR_TEXT_MAX 1024

typedef struct et_error {
    int status;                   /* an et_status */
    char text[ET_ERROR_TEXT_MAX]; /* one line, always terminated; names place, value, cure */
} et_error;

#define ET_ERROR_INIT                                                                              \
    {                                                                                              \
        0, ""                                                                                      \
    }

/* Records status and text (printf format, C locale) and returns status, so that a
 * function can end in `return et_fail(error, ET_EDATA, "%s:%d: ...", ...)`.
 * A text that is too long is cut. error may be NULL. */
ET_API int et_fail(et_error *error, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "<text>: " before what is recorded: what was being done when it failed.
 * Records status and returns it. error may be NULL. */
ET_API int et_fail_while(et_error *error, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As et_fail, for a failed system call: appends ": ", the system's text for errno and what
 * to do about it where that is known, and chooses the status from errno (ENOSPC, EDQUOT and EFBIG:
 * ET_ENOSPACE, ENOMEM: ET_ENOMEM, ENOENT and ENOTDIR: ET_ENOTFOUND, EACCES, EPERM, EROFS, EISDIR,
 * ELOOP and ENAMETOOLONG: ET_EDENIED, others: ET_EIO). */
ET_API int et_fail_errno(et_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The word for a status, such as "out of memory". Static. */
ET_API const char *et_status_name(int status);

#endif
