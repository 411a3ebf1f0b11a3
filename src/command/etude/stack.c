/* The first thread's stack grows up to the limit (ulimit -s), and others are made as large as that
 * limit unless they are asked for larger: so a small one is small for all, and a program dies
 * without a word where it ends. It counts addresses only, so the command takes what it needs. */
#include "command/etude/stack.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

#include "base/threads/thread.h"

/* As large as most systems have it; and the least that is taken as it is. */
#define STACK  ((size_t)8 << 20)
#define ENOUGH (4 * ET_THREAD_STACK)

typedef struct call {
    int (*work)(int argc, char **argv);
    int argc, result;
    char **argv;
} call;

static void *make_call(void *payload)
{
    call *c = payload;
    c->result = c->work(c->argc, c->argv);
    return NULL;
}

static bool is_enough(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur >= ENOUGH;
}

/* Signals go to the thread that works, which is the one that they have to interrupt. A thread that
 * cannot be made leaves things as they are. */
int et_with_stack(int (*work)(int argc, char **argv), int argc, char **argv)
{
    call c = { work, argc, 1, argv };
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all;
    if (is_enough())
        return work(argc, argv);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_setattr_default_np(&attributes);
    int status = pthread_create(&thread, &attributes, make_call, &c);
    pthread_attr_destroy(&attributes);
    if (status)
        return work(argc, argv);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    pthread_join(thread, NULL);
    return c.result;
}
