/* Amounts with units in options of the command. */
#ifndef ETUDE_COMMAND_OPTIONS_AMOUNTS_H
#define ETUDE_COMMAND_OPTIONS_AMOUNTS_H

#include <stdint.h>

#include <etude/error.h>

/* A time as people and Slurm write it, in seconds: [[D-]H:]M:S, or a number with s, m, h or d.
 * name: of the option. ET_EUSAGE: not a time, or not positive. */
int et_amount_time(double *seconds, const char *name, const char *text, et_error *error);

/* Bytes as people write them: 500M, 4G, 1.5GB in thousands, 4GiB in 1,024s. ET_EUSAGE: no such. */
int et_amount_bytes(uint64_t *bytes, const char *name, const char *text, et_error *error);

#endif
