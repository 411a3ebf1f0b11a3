/* etude: the command with the library's own kinds of task. <etude/command.h> does the work; this
 * program has the table of kinds and prepares the process. */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <etude/command.h>
#include <etude/multitask_kind.h>
#include <etude/tabular.h>

#include "base/threads/thread.h"
#include "command/etude/uncaught.h"
#include "systems/training/model_dir.h"
#include "tasks/translation/settings/translation_kind.h"

/* ---- spinning threads ----
 *
 * OpenMP's threads spin before they sleep when they wait for work. GNU's library spins for
 * milliseconds by default. If other programs run, each spinning thread occupies a core that another
 * could use: on two shared cores, 500 small steps with two threads took 3 s with 2,000 turns and 56
 * s with the default of 300,000. 2,000 turns are enough if the next loop follows immediately.
 *
 * libgomp reads GOMP_SPINCOUNT once, by getenv, in its constructor, before main. So the program
 * defines its own getenv, which answers this one variable; the loader prefers it to the C
 * library's. A libgomp from GCC 13 on reads the environment without getenv. Then main sets the
 * variable and executes the program again. A start takes 34 ms with this restart, 10 ms without. */

/* If the user sets this variable or OMP_WAIT_POLICY, it is not changed. */
#define SPIN_VARIABLE "GOMP_SPINCOUNT"
#define SPIN_COUNT    "2000"

static bool answered; /* written only before main */

/* The value of a variable, NULL if it is not set: getenv without calling it. */
static char *find(const char *name)
{
    size_t length = strlen(name);
    for (char **at = environ; at && *at; at++)
        if (!strncmp(*at, name, length) && (*at)[length] == '=')
            return *at + length + 1;
    return NULL;
}

/* Called before main, from libgomp's constructor: needs no library that is not initialised yet. */
static bool user_decides(void)
{
    return find(SPIN_VARIABLE) || find("OMP_WAIT_POLICY");
}

/* The getenv of the whole process. Any other variable, and one that is set, is looked up as usual.
 * The text is not const because getenv's is not; nobody writes to it. */
__attribute__((visibility("default"))) char *getenv(const char *name)
{
    static char count[] = SPIN_COUNT;
    char *value = find(name);
    if (value || strcmp(name, SPIN_VARIABLE) != 0 || user_decides())
        return value;
    answered = true;
    return count;
}

/* Only if no code has asked for the variable, because then libgomp has read the environment without
 * getenv. The new process has the variable, so it does not execute the program again. */
static void shorten_waiting(char **argv)
{
    /* The path of the running program, not argv[0], which may be a name in PATH. */
    char path[4096];
    if (answered || user_decides())
        return;
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0 || setenv(SPIN_VARIABLE, SPIN_COUNT, 1))
        return;
    path[length] = 0;
    execv(path, argv); /* a failure leaves the default */
}

/* ---- a stack that is large enough, whatever `ulimit -s` is ----
 *
 * The first thread's stack grows up to the limit, and other threads' stacks have the limit's size
 * by default. So a small limit makes every stack small, and a program whose stack overflows dies
 * without a message. A stack only reserves addresses, so the command takes as much as it needs. */

/* The usual size on most systems, and the smallest limit that is not changed. */
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

/* Runs work(argc, argv) on the caller's stack if that may grow large enough, else on the stack of a
 * new thread. OpenMP's threads get the same size. Signals go to the thread that runs `work`,
 * because they must interrupt it. If no thread can be started, `work` runs on the caller's
 * stack. */
static int with_stack(int (*work)(int argc, char **argv), int argc, char **argv)
{
    call c = { work, argc, 1, argv };
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all;
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur >= ENOUGH)
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

/* ---- the program ---- */

#define EXIT_NO_MEMORY 4

/* The library's kinds of task, in the order of help. <etude/multitask_kind.h> makes one more, for
 * several tasks together. */
enum { KINDS = 2 };
static const et_task_kind *const own_kinds[KINDS] = { &et_translation_kind, &et_tabular_kind };

static int begin(int argc, char **argv)
{
    const et_task_kind *kinds[KINDS + 1];
    et_multitask_kind *several;
    if (et_multitask_kind_new(&several, own_kinds, KINDS, NULL))
        return EXIT_NO_MEMORY;
    memcpy(kinds, own_kinds, sizeof own_kinds);
    kinds[KINDS] = et_multitask_kind_row(several);
    int code = et_command_main(argc, argv, kinds, KINDS + 1);
    et_multitask_kind_free(several);
    return code;
}

int main(int argc, char **argv)
{
    /* Comes first, because it may execute the program again. */
    shorten_waiting(argv);
    et_say_uncaught(EXIT_NO_MEMORY, et_model_dir_abandon);
    return with_stack(begin, argc, argv);
}
