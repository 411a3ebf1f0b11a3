/* etude launch: starts ranks on this machine and watches them until all have ended.
 *
 *   a rank fails     the others notice it and end; after `grace`, remaining ranks are killed, also
 *                    stopped ones
 *   a signal         is passed on to all
 *   the exit code    is that of the first rank that failed by itself. A rank that only lost another
 *                    rank does not count. 128 plus the signal's number if the rank was killed; 127
 *                    if there is no such program; 126 if the program may not be run
 *
 * With --restart, ranks that were killed or lost another rank (exit code 1) are started again and
 * resume from the newest checkpoint. Errors in settings, data, memory or the loss would only
 * repeat, so they end the launch. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "command/command.h"
#include "command/options/options.h"
#include "command/print.h"
#include "command/ranks.h"
#include "engine/comm/comm.h"

#define GRACE  10 /* seconds */
#define KILLED 128
#define LOST   1 /* exit code of a rank that has lost another, among other things */

typedef struct launch {
    const et_call *call;
    int64_t ranks, restart;
    double grace;
    et_strings words;
} launch;

static const et_option options[] = {
    ET_OPTION_COUNT(launch, ranks, "ranks", "N", 1, ET_RANKS_MAX, "number of processes",
                    .letter = 'n'),
    ET_OPTION_COUNT(launch, restart, "restart", "K", 0, ET_OPTION_COUNT_MAX,
                    "how often training restarts if a rank was killed or lost"),
    ET_OPTION_REAL(launch, grace, "grace", "SECONDS", 0, DBL_MAX,
                   "seconds that the other ranks have to end by themselves if one failed (10)",
                   .field.default_number = GRACE),
    ET_OPTION_REST(launch, words, "-- COMMAND"), ET_OPTION_END
};

const et_usage et_usage_launch = {
    options, sizeof(launch),
    "Trains with several processes on this machine. Each computes a part of every\nbatch; the "
    "result is the same as with one process, bit for bit. Set\nruntime.data_shards, the number of "
    "parts of a batch, to at least the number of\nprocesses. On several machines, start `train` "
    "with mpirun or srun.",
    "-n 2 --restart 3 -- train runs/mine --set runtime.data_shards=2"
};

/* A start of all ranks. */
typedef struct attempt {
    const launch *l;
    pid_t pid[ET_RANKS_MAX]; /* 0: has ended */
    int alive;
    int code, rank; /* of the first rank that failed by itself, or else of the first rank that
                       failed; 0: none */
    bool killing;   /* the remaining ranks get a signal */
    double kill_at; /* monotonic time; 0: nobody has failed */
    bool asked;     /* to stop, by a signal */
} attempt;

static void signal_all(const attempt *a, int number)
{
    for (int i = 0; i < a->l->ranks; i++)
        if (a->pid[i])
            kill(a->pid[i], number);
}

/* A rank that lost another rank may end first. So a later failure may be the cause. */
static void note_end(attempt *a, int rank, int status)
{
    int code = WIFSIGNALED(status) ? KILLED + WTERMSIG(status) : WEXITSTATUS(status);
    const bool first = !a->code, cause = a->code == LOST && code != LOST && !a->killing;
    a->pid[rank] = 0;
    a->alive--;
    if (!code || (!first && !cause))
        return;
    a->code = code;
    a->rank = rank;
    if (first)
        a->kill_at = et_clock_monotonic() + a->l->grace;
}

/* Looks up now and then: a signal to end one of our own may be one that others wait for, too. */
static void supervise(attempt *a)
{
    while (a->alive) {
        const int number = et_signals_wait();
        if (number) {
            a->asked |= number != SIGUSR1;
            signal_all(a, number);
        }
        int status;
        pid_t pid;
        while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
            for (int i = 0; i < a->l->ranks; i++)
                if (a->pid[i] == pid)
                    note_end(a, i, status);
        a->killing = a->kill_at > 0 && et_clock_monotonic() > a->kill_at;
        if (a->killing)
            signal_all(a, SIGKILL);
    }
}

static void tell(const attempt *a, int64_t trial)
{
    const char *name = a->l->call->program->name;
    char what[64];
    if (a->code > KILLED)
        snprintf(what, sizeof what, "was killed by signal %d", a->code - KILLED);
    else
        snprintf(what, sizeof what, "ended with code %d", a->code);
    if (trial)
        et_print(stderr, "%s: rank %d of %d %s; restart %lld of %lld\n", name, a->rank,
                 (int)a->l->ranks, what, (long long)trial, (long long)a->l->restart);
    else
        et_print(stderr, "%s: rank %d of %d %s\n", name, a->rank, (int)a->l->ranks, what);
}

/* Whether a word is a command of this program. Any other first word is a program. */
static bool is_own(const launch *l, const char *word)
{
    const et_commands all = et_commands_of(l->call->program);
    return et_commands_find(&all, word) != NULL;
}

/* Runs this program's own commands with this program's file. */
static void choose_program(const launch *l, char **argv, char *self, size_t size)
{
    int count = 0;
    ssize_t length = readlink("/proc/self/exe", self, size - 1);
    if (is_own(l, l->words.items[0]) && length > 0) {
        self[length] = 0;
        argv[count++] = self;
    }
    for (size_t i = 0; i < l->words.count; i++)
        argv[count++] = (char *)l->words.items[i];
    argv[count] = NULL;
}

/* Each rank computes with its share of the cores, unless somebody has said with how many. */
static void share_cores(const launch *l)
{
    cpu_set_t cores;
    char share[32];
    if (sched_getaffinity(0, sizeof cores, &cores))
        return;
    int64_t each = CPU_COUNT(&cores) / l->ranks;
    snprintf(share, sizeof share, "%lld", (long long)(each < 1 ? 1 : each));
    setenv("OMP_NUM_THREADS", share, 0);
}

/* *code: of the last attempt. */
static int run(const launch *l, int *code, et_error *error)
{
    char self[4096], **argv = et_alloc(l->words.count + 2, sizeof *argv);
    sigset_t before;
    if (!argv)
        return et_alloc_failed(error, "words");
    choose_program(l, argv, self, sizeof self);
    share_cores(l);
    et_signals_block(&before);
    int status = ET_OK;
    *code = 0;
    for (int64_t trial = 0; !status; trial++) {
        attempt a = { .l = l, .alive = (int)l->ranks };
        status = et_ranks_start(a.pid, a.alive, argv, error);
        if (status)
            break;
        supervise(&a);
        *code = a.code;
        /* As a shell ends, which says it in the ranks' place. */
        if (a.code == ET_RANK_NOT_STARTED || a.code == ET_RANK_NOT_ALLOWED)
            et_print(stderr, "%s: launch: cannot start %s: %s\n", a.l->call->program->name, argv[0],
                     a.code == ET_RANK_NOT_STARTED
                         ? "neither a program nor a command of etude has this name"
                         : "not a program, or no permission to run it");
        if (a.asked || (a.code <= KILLED && a.code != LOST))
            break;
        tell(&a, trial < l->restart ? trial + 1 : 0);
        if (trial >= l->restart)
            break;
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    et_free(argv);
    return status;
}

static int check(const launch *l, et_error *error)
{
    if (getenv(ET_RANK_VARIABLE))
        return et_fail(
            error, ET_EUSAGE,
            "launch: this process is already a rank; do not nest launch, mpirun and srun");
    if (!l->ranks)
        return et_fail(error, ET_EUSAGE,
                       "launch: -n is missing; give a number of processes, 1 to %d, before the "
                       "command",
                       ET_RANKS_MAX);
    if (!l->words.count)
        return et_fail(
            error, ET_EUSAGE,
            "launch: no command to start; put the command after --: launch -n %lld -- train ...",
            (long long)l->ranks);
    if (is_own(l, l->words.items[0]) && !et_ranks_may_run(l->call->program, l->words.items[0]))
        return et_fail(error, ET_EUSAGE, "launch: %s runs in one process; start it without launch",
                       l->words.items[0]);
    return ET_OK;
}

/* A code of the ranks' own is this command's; they have said why. */
int et_cmd_launch(const et_call *call, et_error *error)
{
    launch *l = call->options;
    int code = 0;
    l->call = call;
    int status = check(l, error);
    if (!status)
        status = run(l, &code, error);
    if (!status && code)
        exit(code);
    return status;
}
