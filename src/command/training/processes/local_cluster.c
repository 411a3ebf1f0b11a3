/* Runs all tasks of a cluster on this machine, each in its own process and process group, so a
 * terminal's signals reach only the calling process, once. The process waits for signals instead of
 * catching them, so it needs no global variable. */
#include <arpa/inet.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/text/strbuf.h"
#include "command/command.h"
#include "command/training/processes/local_cluster.h"

#define BACKLOG  1024 /* connections that wait to be taken */
#define RESTARTS 20   /* of one worker */
#define LEAVE    3.0  /* seconds that others have to end once the master has */
#define ALONE    2.0  /* seconds that a master without workers has to end by itself, saying why */

typedef struct process {
    et_job_role role;
    int index, restarts;
    pid_t pid; /* 0: none */
    bool good; /* it has ended without failure */
} process;

typedef struct cluster {
    const et_local_cluster *setup;
    int workers, servers, count;
    et_keys keys[ET_JOB_ROLES];
    int listen[1 + ET_ROLES_MAX]; /* the master, then servers */
    int port[1 + ET_ROLES_MAX];
    process process[1 + 2 * ET_ROLES_MAX];
    bool ending; /* the master was asked to stop, so no process is started again */
    sigset_t before;
} cluster;

/* A socket of the loopback at a free port. If programs bind their ports themselves, the socket only
 * reserves the port and does not listen; SO_REUSEADDR lets the programs bind it. */
static int listen_somewhere(int *fd, int *port, bool keeps, et_error *error)
{
    int on = 1;
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof address;
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0 || (keeps && setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on)) ||
        bind(*fd, (struct sockaddr *)&address, size) || (!keeps && listen(*fd, BACKLOG)) ||
        getsockname(*fd, (struct sockaddr *)&address, &size))
        return et_fail_errno(error, "--distributed: a port on localhost");
    *port = ntohs(address.sin_port);
    return ET_OK;
}

/* The TF_CONFIG of a task. A worker's address is its name: it listens to nobody. */
static int config_of(et_job_config **out, const cluster *c, const process *p, et_error *error)
{
    et_strbuf text = ET_STRBUF_INIT;
    et_strbuf_printf(&text, "{\"task\": {\"type\": \"%s\", \"index\": %d}, \"cluster\": {",
                     et_job_role_names[p->role], p->index);
    et_strbuf_printf(&text, "\"master\": [\"127.0.0.1:%d\"], \"ps\": [", c->port[0]);
    for (int i = 0; i < c->servers; i++)
        et_strbuf_printf(&text, "%s\"127.0.0.1:%d\"", i ? ", " : "", c->port[1 + i]);
    et_strbuf_printf(&text, "], \"worker\": [");
    for (int i = 0; i < c->workers; i++)
        et_strbuf_printf(&text, "%s\"127.0.0.1:%d\"", i ? ", " : "", 1 + i);
    et_strbuf_printf(&text, "]}, \"job\": {\"local\": true}}");
    int status = text.failed ? et_alloc_failed(error, "a cluster")
                             : et_job_config_parse(out, et_strbuf_text(&text), text.length,
                                                   "--distributed", error);
    et_strbuf_release(&text);
    return status;
}

/* Runs in the new process, as its role, until it ends. Workers share the processors. */
static int be(const cluster *c, const process *p, et_error *error)
{
    et_roles roles = { .keys = c->keys[p->role] };
    long threads = sysconf(_SC_NPROCESSORS_ONLN) / c->workers;
    int own = p->role == ET_JOB_MASTER ? 0 : 1 + p->index;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, p->role == ET_JOB_WORKER ? SIGKILL : SIGTERM);
    sigprocmask(SIG_SETMASK, &c->before, NULL);
    for (int i = 0; i <= c->servers; i++)
        if (c->setup->own_ports || p->role == ET_JOB_WORKER || i != own)
            close(c->listen[i]);
        else
            roles.listen = c->listen[i];
    if (p->role == ET_JOB_PARAM_SERVER) {
        signal(SIGTERM, SIG_IGN); /* servers end when the master ends: see et_cluster_serve */
        threads = 1;
    }
    roles.threads = p->role == ET_JOB_MASTER ? 0 : threads > 1 ? (int)threads : 1;
    int status = config_of(&roles.config, c, p, error);
    if (!status)
        status = c->setup->be(c->setup->self, &roles, error);
    et_job_config_free(roles.config);
    return status;
}

/* *child: this is the new process. */
static int start(process *p, bool *child, et_error *error)
{
    p->pid = fork();
    *child = p->pid == 0;
    if (p->pid < 0) {
        p->pid = 0;
        return et_fail_errno(error, "--distributed: a process");
    }
    return ET_OK;
}

static void signal_all(const cluster *c, int number)
{
    for (int i = 0; i < c->count; i++)
        if (c->process[i].pid)
            kill(c->process[i].pid, number);
}

/* Finds the process that waitpid returned. *again: the process, if it is a killed worker, which is
 * started again. */
static process *note_end(cluster *c, pid_t pid, int how, process **again)
{
    for (int i = 0; i < c->count; i++) {
        process *p = &c->process[i];
        if (p->pid != pid)
            continue;
        p->pid = 0;
        p->good = WIFEXITED(how) && !WEXITSTATUS(how);
        bool killed = WIFSIGNALED(how) && p->role == ET_JOB_WORKER;
        if (killed && c->process[0].pid && !c->ending) {
            const bool starts = p->restarts < RESTARTS;
            p->restarts += starts;
            et_log(ET_LOG_WARNING, "worker %d was ended by signal %d; it is %s", p->index,
                   WTERMSIG(how), starts ? "started again" : "not started again, as too often");
            *again = starts ? p : NULL;
        }
        return p;
    }
    return NULL;
}

/* The number of living processes. *works: a worker lives, or has ended because the master was
 * done. */
static int count_left(const cluster *c, bool *works)
{
    int left = 0;
    *works = false;
    for (const process *p = c->process; p < c->process + c->count; p++) {
        left += p->pid != 0;
        *works |= p->role == ET_JOB_WORKER && (p->pid || p->good);
    }
    return left;
}

/* Stops the master, once. The master saves; servers and workers end when it has ended. */
static void end_master(cluster *c)
{
    if (!c->ending && c->process[0].pid)
        kill(c->process[0].pid, SIGTERM);
    c->ending = true;
}

/* The order: the master, then servers, then workers. */
static void sane(const cluster *c)
{
    et_assert(c->workers >= 1 && c->workers <= ET_ROLES_MAX);
    et_assert(c->servers >= 1 && c->servers <= ET_ROLES_MAX);
    et_assert_equal(c->count, 1 + c->servers + c->workers);
    for (int i = 0; i < c->count; i++) {
        const process *p = &c->process[i];
        et_assert((i == 0) == (p->role == ET_JOB_MASTER));
        et_assert(p->index >= 0 && p->restarts >= 0 && p->restarts <= RESTARTS);
        et_assert(p->pid >= 0 && !(p->pid && p->good));
    }
}

/* Until all have ended, also where one could not be started again. *child as start. */
static int supervise(cluster *c, int *code, bool *child, process **self, et_error *error)
{
    double ended = 0, alone = 0;
    int how, status = ET_OK;
    bool works;
    *child = false;
    sane(c);
    while (count_left(c, &works)) {
        pid_t pid;
        while ((pid = waitpid(-1, &how, WNOHANG)) > 0) {
            process *again = NULL, *p = note_end(c, pid, how, &again);
            if (p && p->role == ET_JOB_MASTER) {
                *code = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
                if (WIFSIGNALED(how))
                    et_log(ET_LOG_WARNING, "the master was ended by signal %d, %s", WTERMSIG(how),
                           strsignal(WTERMSIG(how)));
                ended = et_clock_monotonic();
            }
            if (again)
                status = start(again, child, error);
            *self = again;
            if (*child)
                return ET_OK;
            if (status)
                end_master(c);
        }
        count_left(c, &works);
        if (!alone && !works)
            alone = et_clock_monotonic(); /* no worker computes, and none is started again */
        if (!ended && alone && et_clock_monotonic() - alone > ALONE)
            end_master(c);
        if (ended && et_clock_monotonic() - ended > LEAVE)
            signal_all(c, SIGKILL);
        /* Signals are for the master. */
        const int number = et_signals_wait();
        if (number && c->process[0].pid)
            kill(c->process[0].pid, number);
        sane(c);
    }
    return status;
}

static int prepare(cluster *c, et_error *error)
{
    const et_local_cluster *o = c->setup;
    et_assert(o->workers <= ET_ROLES_MAX && o->servers <= ET_ROLES_MAX);
    c->workers = o->workers ? (int)o->workers : 1;
    c->servers = o->servers ? (int)o->servers : 1;
    int status = et_keys_make(c->keys, error);
    for (int i = 0; !status && i <= c->servers; i++)
        status = listen_somewhere(&c->listen[i], &c->port[i], o->own_ports, error);
    c->process[c->count++] = (process){ .role = ET_JOB_MASTER };
    for (int i = 0; i < c->servers; i++)
        c->process[c->count++] = (process){ .role = ET_JOB_PARAM_SERVER, .index = i };
    for (int i = 0; i < c->workers; i++)
        c->process[c->count++] = (process){ .role = ET_JOB_WORKER, .index = i };
    return status;
}

/* The status for a process's exit code, which becomes this command's exit code; the process has
 * printed the reason. */
static int status_of(int code, et_error *error)
{
    static const int statuses[] = { [0] = ET_OK,      [1] = ET_EFAIL,  [2] = ET_EUSAGE,
                                    [3] = ET_ECONFIG, [4] = ET_ENOMEM, [5] = ET_EDIVERGED };
    if (error)
        error->text[0] = 0;
    if (code == 75)
        return ET_EINTERRUPTED;
    return code >= 0 && code < (int)(sizeof statuses / sizeof statuses[0]) ? statuses[code]
                                                                           : ET_EFAIL;
}

int et_local_cluster_run(const et_local_cluster *setup, et_error *error)
{
    cluster c = { .setup = setup };
    bool child = false;
    int code = 1;
    process *self = NULL;
    int status = prepare(&c, error);
    et_signals_block(&c.before);
    for (int i = 0; !status && i < c.count; i++) {
        self = &c.process[i];
        status = start(self, &child, error);
        if (child)
            return be(&c, self, error);
    }
    if (status)
        signal_all(&c, SIGTERM);
    int supervised = supervise(&c, &code, &child, &self, error);
    if (child)
        return be(&c, self, error);
    for (int i = 0; i <= c.servers; i++)
        if (c.listen[i] > 0)
            close(c.listen[i]);
    sigprocmask(SIG_SETMASK, &c.before, NULL);
    if (status || supervised)
        return status ? status : supervised;
    if (setup->code)
        *setup->code = code;
    return status_of(code, error);
}
