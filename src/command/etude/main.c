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
#include "command/model_dir.h"
#include "tasks/translation/translation_kind.h"

/* ---- threads that wait ----
 *
 * Threads of OpenMP that wait for work spin before they sleep. By default GNU's spin for
 * milliseconds, and beside other work each spinning thread keeps a core from one that has something
 * to do: 500 small steps with two threads took 3 s with 2,000 turns and 56 s with the default of
 * 300,000, on two cores that others used as well. 2,000 turns are long enough to catch a loop that
 * follows at once.
 *
 * libgomp reads GOMP_SPINCOUNT once, in its constructor, before anything of the program runs; it
 * asks by getenv. So the program has a getenv of its own, which the loader puts in front of the C
 * library's, and which knows this one variable better. A libgomp that looks at the environment
 * in another way (from GCC 13 on) does not ask: then main begins the program anew with the
 * variable set. All of the loading once more takes 34 ms, where a start takes 10. */

/* What a user sets, by this variable or by OMP_WAIT_POLICY, is left alone. */
#define SPIN_VARIABLE "GOMP_SPINCOUNT"
#define SPIN_COUNT    "2000"

static bool answered; /* written before main alone */

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

/* For everything in the process. Any other variable, and one that is set, is answered as always.
 * The text is not const, since getenv's is not; nobody writes to it. */
__attribute__((visibility("default"))) char *getenv(const char *name)
{
    static char count[] = SPIN_COUNT;
    char *value = find(name);
    if (value || strcmp(name, SPIN_VARIABLE) != 0 || user_decides())
        return value;
    answered = true;
    return count;
}

/* Only if nobody asked: then libgomp read the environment in its own way. The variable is set in
 * the new process, so it does not begin a third. */
static void shorten_waiting(char **argv)
{
    /* The program as it runs, not as it was called: argv[0] may be a name in PATH. */
    char path[4096];
    if (answered || user_decides())
        return;
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0 || setenv(SPIN_VARIABLE, SPIN_COUNT, 1))
        return;
    path[length] = 0;
    execv(path, argv); /* a failure leaves the default */
}

/* ---- a stack that is large enough, whatever `ulimit -s` says ----
 *
 * The first thread's stack grows up to the limit, and others are made as large as that limit unless
 * they are asked for larger: so a small one is small for all, and a program dies without a word
 * where it ends. It counts addresses only, so the command takes what it needs. */

/* The usual size on most systems; and the smallest limit that is left alone. */
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

/* work(argc, argv), on the caller's stack where that may grow to what is needed, else on another
 * thread's; OpenMP's threads get as much. Signals go to the thread that works, which is the one
 * that they have to interrupt. A thread that cannot be made leaves things as they are. */
static int with_stack(int (*work)(int argc, char **argv), int argc, char **argv)
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

/* ---- the program ---- */

#define EXIT_NO_MEMORY 4

/* The kinds of task that this library has, each in a folder, in the order of help; of several at
 * once <etude/multitask_kind.h> makes one more. */
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
    /* First, since it may begin the program anew. */
    shorten_waiting(argv);
    et_say_uncaught(EXIT_NO_MEMORY, et_model_dir_abandon);
    return with_stack(begin, argc, argv);
}
