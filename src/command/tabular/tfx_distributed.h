/* `tfx train --distributed`: a program that trains as the tasks of a cluster on this machine: one
 * master, one parameter server, one worker, each a process of it with its TF_CONFIG, which names a
 * folder of keys that is gone when all have ended.
 *
 *     return et_tfx_distributed(argv, &error);                    as the master has ended */
#ifndef ETUDE_COMMAND_TABULAR_TFX_DISTRIBUTED_H
#define ETUDE_COMMAND_TABULAR_TFX_DISTRIBUTED_H

#include <etude/error.h>

/* argv: of the program, ended by NULL; argv[0] is found as execvp does. */
int et_tfx_distributed(const char **argv, et_error *error);

#endif
