/* Checks for public functions: required options, and statuses of a program's own functions. */
#ifndef ETUDE_BASE_OPTIONS_H
#define ETUDE_BASE_OPTIONS_H

#include <etude/error.h>

/* ET_EUSAGE: options are NULL. name: "et_run_options", for the message. */
int et_options_need(const void *options, const char *name, et_error *error);

/* Returns a status of a program's function. If that failed without a text, records one: callers may
 * look at error->status alone. name: "the callback of et_fit", for the message. */
int et_callback_status(int status, const char *name, et_error *error);

#endif
