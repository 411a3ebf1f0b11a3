#include "base/threads/team.h"

#include <ctype.h>
#include <omp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/threads/thread.h"

#define THREADS_ROOM ((size_t)1 << 20) /* for what OpenMP keeps of its threads */

/* At least the processors of any machine, and few enough to be started. */
enum { MANY_THREADS = 64 };

/* ---- fork ---- */

static pthread_once_t fork_handler = PTHREAD_ONCE_INIT;
static _Thread_local bool forked; /* the thread that went through fork(), in the child */

/* GNU's OpenMP still counts the parent's threads here, and would wait for them for ever. */
static void stay_alone(void)
{
    forked = true;
    omp_set_num_threads(1);
}

static void add_fork_handler(void)
{
    /* Fails only without memory: then a child behaves as OpenMP leaves it. */
    (void)!pthread_atfork(NULL, NULL, stay_alone);
}

/* In a child the program may have asked OpenMP for more threads again, because it does not know
 * that it was forked. */
int et_team_most(int threads)
{
    if (forked)
        omp_set_num_threads(1);
    return forked ? 1 : threads;
}

int et_team_now(void)
{
    return et_team_most(omp_get_max_threads());
}

/* ---- threads ---- */

/* A mistyped OMP_NUM_THREADS would have OpenMP make threads until the process falls over. */
int et_team_threads(void)
{
    const int wanted = et_team_now(), processors = omp_get_num_procs();
    const int most = 4 * processors > MANY_THREADS ? 4 * processors : MANY_THREADS;
    if (wanted <= most)
        return wanted;
    et_log(ET_LOG_WARNING,
           "OMP_NUM_THREADS or --threads asks for %d threads, but there are %d processors; Etude "
           "uses %d threads",
           wanted, processors, most);
    omp_set_num_threads(most);
    return most;
}

/* The stack size of OpenMP's threads; 0: the default. "512k", " 4 M "; without a letter, kilobytes.
 */
static size_t openmp_stack(void)
{
    static const char letters[] = "bkmg";
    const char *text = getenv("OMP_STACKSIZE");
    char *end = NULL;
    if (!text)
        return 0;
    unsigned long long size = strtoull(text, &end, 10);
    while (*end == ' ')
        end++;
    const char *letter = *end ? strchr(letters, tolower((unsigned char)*end)) : letters + 1;
    int bits = letter ? 10 * (int)(letter - letters) : 10;
    return size <= SIZE_MAX >> bits ? (size_t)size << bits : 0;
}

/* Checks the caller's stack and those of OpenMP's threads, which this call starts at once, before
 * other work can use up memory; they stay. Reports the first stack that is too small. */
int et_team_start(int threads, et_error *error)
{
    et_assert(threads >= 1);
    threads = et_team_most(threads);
    int status = et_thread_check_stack(error), reported = 0;
    if (!status)
        status = threads > 1 ? et_threads_check(threads - 1, openmp_stack(), error) : ET_OK;
    /* OpenMP ends the process if it cannot start its threads. */
    if (!status)
        status = et_memory_check(THREADS_ROOM, "OpenMP's threads", error);
    if (status || threads == 1)
        return status;
    pthread_once(&fork_handler, add_fork_handler);
    et_error first = ET_ERROR_INIT;
#pragma omp parallel num_threads(threads)
    {
        et_error own = ET_ERROR_INIT;
        if (et_thread_check_stack(&own)) {
            int before;
#pragma omp atomic capture
            before = reported++;
            if (before == 0)
                first = own;
        }
    }
    return first.status ? et_fail(error, first.status, "%s", first.text) : ET_OK;
}
