/* Checks of required options, for public functions. */
#ifndef ETUDE_BASE_OPTIONS_H
#define ETUDE_BASE_OPTIONS_H

#include <etude/error.h>

/* ET_EUSAGE: options are NULL. name: "et_run_options", for the message. */
int et_options_need(const void *options, const char *name, et_error *error);

#endif
