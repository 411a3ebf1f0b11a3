/* Ranks of one machine. Each pair of ranks has a stream of bytes, made by the launcher (launch.c),
 * and each rank has a stream to the next rank for signs of life. A rank's environment:
 *
 *     ETUDE_RANK=1/4            rank and number of ranks
 *     ETUDE_RANK_SOCKETS=7,-1,8,9,12,10
 *                               one to each rank (-1: itself), to the next, from the previous
 *
 * A piece is a frame: 16 bytes (a mark, the number of the frame in this pair, the size), then its
 * bytes. An unexpected mark, number or size means that ranks are out of step, which would mix up
 * gradients: the run ends. A rank that ends normally sends a last frame to all. So a stream that
 * ends without a last frame tells every waiting rank that a rank is lost. Sockets do not block; a
 * wait checks ten times per second for silent ranks. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "engine/comm/comm.h"
#include "engine/comm/launch.h"

#define MARK      0x45744672u
#define MARK_END  0x45744564u
#define LOOKS     100 /* milliseconds */
#define BEATS_MAX 256 /* read at once */

/* It may have ended because it had lost another. */
#define HAS_ENDED "has ended (the first rank that failed says why)"

typedef struct frame {
    uint32_t mark, number;
    uint64_t size;
} frame;

typedef struct sockets {
    et_comm comm;
    int peer[ET_RANKS_MAX];
    uint32_t sent[ET_RANKS_MAX], received[ET_RANKS_MAX]; /* frames */
    bool ended[ET_RANKS_MAX];                            /* has sent its last frame */
    int next, previous;
} sockets;

/* One direction of an exchange. */
typedef struct flow {
    et_comm_chunk chunk; /* its size: the expected size, or the largest if any size may come */
    frame head;
    size_t done; /* of head and piece together */
    bool any;
} flow;

static bool is_over(const flow *f)
{
    return f->chunk.rank < 0 || f->done == sizeof f->head + f->chunk.size;
}

/* What of it goes next, the head or the piece. */
static struct iovec rest_of(flow *f)
{
    const size_t head = sizeof f->head;
    if (f->done < head)
        return (struct iovec){ (char *)&f->head + f->done, head - f->done };
    return (struct iovec){ (char *)f->chunk.bytes + (f->done - head),
                           f->chunk.size - (f->done - head) };
}

static int check_head(const sockets *self, flow *f, uint32_t number, et_error *error)
{
    const frame *h = &f->head;
    if (f->done != sizeof *h)
        return ET_OK;
    if (f->any && h->size <= f->chunk.size)
        f->chunk.size = h->size;
    if (h->mark == MARK && h->number == number && h->size == f->chunk.size)
        return ET_OK;
    return et_fail(error, ET_EFAIL,
                   "rank %d and rank %d are out of step: message %lu of %llu bytes was expected, "
                   "number %lu of %llu came",
                   self->comm.rank, f->chunk.rank, (unsigned long)number,
                   (unsigned long long)f->chunk.size, (unsigned long)h->number,
                   (unsigned long long)h->size);
}

/* As much as goes without waiting. */
static int push(sockets *self, flow *f, et_error *error)
{
    while (!is_over(f)) {
        struct iovec rest = rest_of(f);
        ssize_t count = send(self->peer[f->chunk.rank], rest.iov_base, rest.iov_len, MSG_NOSIGNAL);
        if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return ET_OK;
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return et_comm_fail_lost(&self->comm, f->chunk.rank, HAS_ENDED, error);
        f->done += (size_t)count;
    }
    return ET_OK;
}

static int pull(sockets *self, flow *f, et_error *error)
{
    while (!is_over(f)) {
        struct iovec rest = rest_of(f);
        ssize_t count = recv(self->peer[f->chunk.rank], rest.iov_base, rest.iov_len, 0);
        if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return ET_OK;
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return et_comm_fail_lost(&self->comm, f->chunk.rank, HAS_ENDED, error);
        f->done += (size_t)count;
        int status = check_head(self, f, self->received[f->chunk.rank], error);
        if (status)
            return status;
    }
    return ET_OK;
}

/* Whether a rank whose stream has ended did not end normally: the rest of its stream does not end
 * in a last frame.
 */
static bool has_vanished(sockets *self, int rank)
{
    const int from_start = -1;
    int fd = self->peer[rank], left = 0;
    frame last = { 0 };
    if (!ioctl(fd, FIONREAD, &left) && left >= (int)sizeof last) {
        int at = left - (int)sizeof last;
        if (!setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &at, sizeof at) &&
            recv(fd, &last, sizeof last, MSG_PEEK) < (ssize_t)sizeof last)
            last.mark = 0;
        setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &from_start, sizeof from_start);
    }
    self->ended[rank] = last.mark == MARK_END;
    return !self->ended[rank];
}

/* On the two, and on any that ends. A signal ends a wait early, which is all the same. */
static int wait_for(sockets *self, const flow *out, const flow *in, et_error *error)
{
    struct pollfd fds[ET_RANKS_MAX];
    for (int i = 0; i < self->comm.size; i++)
        fds[i] = (struct pollfd){ .fd = self->ended[i] ? -1 : self->peer[i] };
    if (!is_over(out))
        fds[out->chunk.rank] =
            (struct pollfd){ .fd = self->peer[out->chunk.rank], .events = POLLOUT };
    if (!is_over(in)) {
        fds[in->chunk.rank].fd = self->peer[in->chunk.rank];
        fds[in->chunk.rank].events |= POLLIN;
    }
    if (poll(fds, (nfds_t)self->comm.size, LOOKS) <= 0)
        return ET_OK;
    for (int i = 0; i < self->comm.size; i++)
        if (!fds[i].events && (fds[i].revents & (POLLHUP | POLLERR)) && has_vanished(self, i))
            return et_comm_fail_lost(&self->comm, i, HAS_ENDED, error);
    return ET_OK;
}

static int exchange(et_comm *comm, et_comm_chunk send, et_comm_chunk receive, size_t *came,
                    et_error *error)
{
    sockets *self = (sockets *)comm;
    flow out = { .chunk = send }, in = { .chunk = receive, .any = came };
    if (send.rank >= 0)
        out.head = (frame){ MARK, self->sent[send.rank], send.size };
    int status = ET_OK;
    for (;;) {
        status = push(self, &out, error);
        if (!status)
            status = pull(self, &in, error);
        if (status || (is_over(&out) && is_over(&in)))
            break;
        if (et_comm_lost(comm) >= 0)
            return et_comm_fail_lost(comm, et_comm_lost(comm), "does not answer", error);
        if ((status = wait_for(self, &out, &in, error)))
            break;
    }
    if (!status && send.rank >= 0)
        self->sent[send.rank]++;
    if (!status && receive.rank >= 0)
        self->received[receive.rank]++;
    if (came)
        *came = in.chunk.size;
    return status;
}

/* If the receiver has no room for a beat, it has not read earlier beats, so the send may fail. */
static int beat(et_comm *comm)
{
    sockets *self = (sockets *)comm;
    char beats[BEATS_MAX] = { 1 };
    send(self->next, beats, 1, MSG_NOSIGNAL);
    ssize_t count = recv(self->previous, beats, sizeof beats, 0);
    return count > 0 ? 1 : count < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

static void close_sockets(et_comm *comm)
{
    sockets *self = (sockets *)comm;
    const frame last = { MARK_END, 0, 0 };
    for (int i = 0; i < comm->size; i++) {
        if (self->peer[i] >= 0 && !comm->broken.status)
            send(self->peer[i], &last, sizeof last, MSG_NOSIGNAL);
        if (self->peer[i] >= 0)
            close(self->peer[i]);
    }
    if (self->next >= 0)
        close(self->next);
    if (self->previous >= 0)
        close(self->previous);
    et_free(self);
}

static const et_comm_class sockets_class = {
    .name = "processes of one machine",
    .exchange = exchange,
    .any_thread = true,
    .beat = beat,
    .close = close_sockets,
};

/* ---- opening ---- */

bool et_comm_by_launch(void)
{
    return getenv(ET_RANK_VARIABLE) != NULL;
}

/* Removes from text a number from least on, and the mark after it. */
static bool read_number(const char **text, char end, long least, long most, int *out)
{
    char *behind;
    errno = 0;
    long number = strtol(*text, &behind, 10);
    if (behind == *text || errno || number < least || number > most || *behind != end)
        return false;
    *out = (int)number;
    *text = behind + (end ? 1 : 0);
    return true;
}

int et_comm_launch_rank(void)
{
    const char *which = getenv(ET_RANK_VARIABLE);
    int rank;
    return which && read_number(&which, '/', 0, ET_RANKS_MAX - 1, &rank) ? rank : 0;
}

/* A socket that this process was given: it is not to be handed on. */
static bool take_socket(int fd)
{
    struct stat info;
    return !fstat(fd, &info) && S_ISSOCK(info.st_mode) && !fcntl(fd, F_SETFD, FD_CLOEXEC) &&
           !fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK);
}

static bool read_environment(sockets *self)
{
    const char *which = getenv(ET_RANK_VARIABLE), *list = getenv(ET_RANK_SOCKETS_VARIABLE);
    et_comm *c = &self->comm;
    if (!which || !list || !read_number(&which, '/', 0, ET_RANKS_MAX - 1, &c->rank) ||
        !read_number(&which, 0, 1, ET_RANKS_MAX, &c->size) || c->rank >= c->size)
        return false;
    for (int i = 0; i < c->size; i++)
        if (!read_number(&list, ',', -1, 1 << 20, &self->peer[i]) ||
            (i == c->rank ? self->peer[i] != -1 : !take_socket(self->peer[i])))
            return false;
    return read_number(&list, ',', -1, 1 << 20, &self->next) &&
           read_number(&list, 0, -1, 1 << 20, &self->previous) &&
           (c->size == 1 || (take_socket(self->next) && take_socket(self->previous)));
}

int et_comm_sockets_open(et_comm **out, et_error *error)
{
    sockets *self = et_alloc_zero(1, sizeof *self);
    *out = NULL;
    if (!self)
        return et_alloc_failed(error, sizeof *self, "a rank");
    self->comm.class = &sockets_class;
    self->next = self->previous = -1;
    for (int i = 0; i < ET_RANKS_MAX; i++)
        self->peer[i] = -1;
    if (read_environment(self)) {
        *out = &self->comm;
        return ET_OK;
    }
    et_free(self);
    return et_fail(
        error, ET_ECONFIG,
        ET_RANK_VARIABLE
        "=%s is not a value that `etude launch` sets; unset it to train with one process",
        getenv(ET_RANK_VARIABLE));
}
