/* OpenMP's threads: their number, and whether they can be started. OpenMP ends the process if it
 * cannot start a thread, and a thread with too small a stack ends it later without a message. So
 * both are checked before the first loop with several threads.
 *
 *     int threads = et_team_threads();
 *     if (et_team_start(threads, &error)) ...
 *
 * OpenMP's threads do not survive fork(). If several were started, the thread that calls fork()
 * computes alone in the child. A new thread of the child may have a team as usual. */
#ifndef ETUDE_BASE_THREADS_TEAM_H
#define ETUDE_BASE_THREADS_TEAM_H

#include <etude/error.h>

/* OpenMP's number of threads (OMP_NUM_THREADS, omp_set_num_threads), up to a limit above the size
 * of any machine. A larger number is reduced to the limit for the calling thread, with a warning in
 * the log. */
int et_team_threads(void);

/* A bound for teams whose size was chosen before a fork(): threads; in a thread after the fork 1,
 * to which OpenMP is then set too. */
int et_team_most(int threads);
/* The size of a team that begins now and uses no scratch by thread. */
int et_team_now(void);

/* Starts so many threads, including the caller; they stay. ET_EUSAGE: the caller's stack or one of
 * theirs is too small (et_thread_check_stack); ET_ENOMEM: they cannot be started. */
int et_team_start(int threads, et_error *error);

#endif
