/* Starting ranks on one machine: processes of one program, each pair joined by a socket that both
 * inherit (comm.c). The sockets have no name and no port, so no other process can join.
 *
 *     pid_t ranks[4];
 *     if (et_ranks_start(ranks, 4, argv, &error)) ...
 *     ... waitpid ...
 *
 * A rank gets SIGTERM when the process that started it dies. */
#ifndef ETUDE_ENGINE_COMM_LAUNCH_H
#define ETUDE_ENGINE_COMM_LAUNCH_H

#include <sys/types.h>

#include <etude/error.h>

#define ET_RANKS_MAX             64
#define ET_RANK_VARIABLE         "ETUDE_RANK"
#define ET_RANK_SOCKETS_VARIABLE "ETUDE_RANK_SOCKETS"
#define ET_RANK_NOT_STARTED      127 /* exit code if the program does not exist */
#define ET_RANK_NOT_ALLOWED      126 /* the same if it may not be run, or is no program */

/* argv: ended by NULL; argv[0] is searched in PATH. count: 1 to ET_RANKS_MAX. If one can't be
 * started, none remains. Only for a process without threads. */
int et_ranks_start(pid_t *ranks, int count, char *const *argv, et_error *error);

#endif
