/* All sockets are made first. A child then keeps its own ends and passes them on by number. The
 * socket between ranks i and k has its ends at pair[i][k] and pair[k][i]. */
#include "engine/comm/comm.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/strbuf.h"

typedef struct mesh {
    int count;
    int pair[ET_RANKS_MAX][ET_RANKS_MAX]; /* -1: none */
    int next[ET_RANKS_MAX], previous[ET_RANKS_MAX];
} mesh;

static void close_one(int fd)
{
    if (fd >= 0)
        close(fd);
}

static int join(int *one, int *other, et_error *error)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return et_fail_errno(
            error, "cannot make sockets between ranks (start fewer ranks, or raise `ulimit -n`)");
    *one = ends[0];
    *other = ends[1];
    return ET_OK;
}

static int open_mesh(mesh **out, int count, et_error *error)
{
    if (ET_ALLOC(*out, 1, "ranks", error))
        return ET_ENOMEM;
    mesh *m = *out;
    m->count = count;
    for (int i = 0; i < count; i++) {
        m->next[i] = m->previous[i] = -1;
        for (int k = 0; k < count; k++)
            m->pair[i][k] = -1;
    }
    int status = ET_OK;
    for (int i = 0; !status && i < count; i++) {
        for (int k = i + 1; !status && k < count; k++)
            status = join(&m->pair[i][k], &m->pair[k][i], error);
        if (!status && count > 1)
            status = join(&m->next[i], &m->previous[(i + 1) % count], error);
    }
    return status;
}

/* In the child; false: no memory, or no such descriptor. */
static bool hand_on(const mesh *m, int rank)
{
    char which[32];
    et_strbuf list = ET_STRBUF_INIT;
    bool good = true;
    for (int i = 0; i < m->count; i++) {
        good = good && (i == rank || !fcntl(m->pair[rank][i], F_SETFD, 0));
        et_strbuf_printf(&list, "%d,", m->pair[rank][i]);
    }
    if (m->count > 1)
        good = good && !fcntl(m->next[rank], F_SETFD, 0) && !fcntl(m->previous[rank], F_SETFD, 0);
    et_strbuf_printf(&list, "%d,%d", m->next[rank], m->previous[rank]);
    snprintf(which, sizeof which, "%d/%d", rank, m->count);
    good = good && !list.failed && !setenv(ET_RANK_VARIABLE, which, 1) &&
           !setenv(ET_RANK_SOCKETS_VARIABLE, et_strbuf_text(&list), 1);
    et_strbuf_release(&list);
    return good;
}

int et_ranks_start(pid_t *ranks, int count, char *const *argv, et_error *error)
{
    mesh *m;
    et_assert(count >= 1 && count <= ET_RANKS_MAX);
    int status = open_mesh(&m, count, error), started = 0;
    pid_t self = getpid();
    while (!status && started < count) {
        pid_t child = fork();
        if (child == 0) {
            /* Checks the parent, which may have died before PR_SET_PDEATHSIG was set. Clears the
             * signal mask, because the parent blocks signals that it waits for. */
            sigset_t none;
            sigemptyset(&none);
            sigprocmask(SIG_SETMASK, &none, NULL);
            if (!prctl(PR_SET_PDEATHSIG, SIGTERM) && getppid() == self && hand_on(m, started))
                execvp(argv[0], argv);
            _exit(errno == EACCES || errno == ENOEXEC ? ET_RANK_NOT_ALLOWED : ET_RANK_NOT_STARTED);
        }
        if (child < 0)
            status = et_fail_errno(error, "cannot start rank %d of %d", started, count);
        else
            ranks[started++] = child;
    }
    while (status && started--) {
        kill(ranks[started], SIGKILL);
        waitpid(ranks[started], NULL, 0);
    }
    if (m) {
        for (int i = 0; i < m->count; i++) {
            for (int k = 0; k < m->count; k++)
                close_one(m->pair[i][k]);
            close_one(m->next[i]);
            close_one(m->previous[i]);
        }
        et_free(m);
    }
    return status;
}
