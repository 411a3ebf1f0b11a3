/* Status and error text.
 *
 * Every call that can fail for a reason outside the program (a file, a setting, memory, a disk)
 * returns an int status, 0 for success, and takes an et_error as its last argument. The error is a
 * plain value that the caller owns. It holds no memory. NULL is allowed if you do not want the
 * text.
 *
 * There are two kinds of mistakes by the caller:
 * - Values that may come from outside the program: options, numbers, texts (also NULL), shapes,
 *   nodes that do not fit together. Every build checks them before it uses them, and returns a
 *   status: ET_ECONFIG for an option, ET_EDATA for a text, ET_EGRAPH for a part of a model. If a
 *   function has no status, its header says what it returns.
 * - Mistakes that only the program can make: an object that is NULL, freed or in use by another
 *   thread, or calls in an order that a header forbids. Debug builds abort with an assertion, other
 *   builds do not check.
 *
 *     et_error error = ET_ERROR_INIT;
 *     if (et_translator_open(&t, "runs/a", NULL, &error))
 *         fprintf(stderr, "%s\n", error.text);
 *
 * Threads: use one value per thread. */
#ifndef ETUDE_ERROR_H
#define ETUDE_ERROR_H

#include <etude/export.h>

enum et_status {
    ET_OK = 0,
    ET_EFAIL,        /* failed for another reason */
    ET_EUSAGE,       /* calls in the wrong order, arguments that contradict each other, a wrong
                        command line */
    ET_ECONFIG,      /* a setting is unknown, of the wrong type or out of range */
    ET_EDATA,        /* the user's data is wrong: text, lengths, encoding */
    ET_EFORMAT,      /* a file is damaged or has another format */
    ET_ENOTFOUND,    /* a file or name does not exist */
    ET_EIO,          /* reading or writing failed */
    ET_ENOMEM,       /* out of memory */
    ET_ENOSPACE,     /* out of disk space or quota, or a file above its size limit */
    ET_EBUSY,        /* locked by another process */
    ET_EDIVERGED,    /* a loss or gradient is not finite */
    ET_EINTERRUPTED, /* asked to stop; the state is saved */
    ET_EGRAPH,       /* parts of a model do not fit: shapes, dtypes */
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

/* Records status and text (printf format, C locale) and returns status, so a function can end with
 * `return et_fail(error, ET_EDATA, "%s:%d: ...", ...)`. A text that is too long is cut. error may
 * be NULL. */
ET_API int et_fail(et_error *error, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "<text>: " before the recorded text; <text> says what the caller was doing. Records and
 * returns status. error may be NULL. */
ET_API int et_fail_while(et_error *error, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same as et_fail for a failed system call. Appends ": ", the system's text for errno and a
 * cure if one is known. Chooses the status from errno: ENOSPC, EDQUOT and EFBIG give ET_ENOSPACE,
 * ENOMEM gives ET_ENOMEM, ENOENT and ENOTDIR give ET_ENOTFOUND. EACCES, EPERM, EROFS, EISDIR, ELOOP
 * and ENAMETOOLONG give ET_EDENIED, others ET_EIO. */
ET_API int et_fail_errno(et_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The word for a status, such as "out of memory". Static. */
ET_API const char *et_status_name(int status);

#endif
