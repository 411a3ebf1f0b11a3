/* The reserved words at the end of public options (ET_RESERVED, <etude/export.h>): checked where
 * they are read first. */
#ifndef ETUDE_BASE_RESERVED_H
#define ETUDE_BASE_RESERVED_H

#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

/* ET_EUSAGE: a word is not zero. name: "et_pass_options", for the message. */
int et_reserved_check(const uint64_t *reserved, size_t count, const char *name, et_error *error);

/* ET_EUSAGE: options are wanted, and there are none. */
int et_options_missing(const char *name, et_error *error);

/* Of the options of a kind, or of none (NULL). */
#define et_options_check(options, name, error)                                                     \
    ((options) ? et_reserved_check((options)->reserved,                                            \
                                   sizeof(options)->reserved / sizeof(options)->reserved[0], name, \
                                   error)                                                          \
               : ET_OK)

/* Of options that there must be. */
#define et_options_need(options, name, error)                                                      \
    ((options) ? et_options_check(options, name, error) : et_options_missing(name, error))

#endif
