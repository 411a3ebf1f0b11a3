/* Collectives from exchanges of two ranks.
 *
 *   gather      Bruck et al. 1997, section 3: in round k a rank sends all it has to the rank 2^k
 *               before it and gets as much from the rank 2^k after it; blocks are in the order
 *               rank, rank + 1, ..., and are rotated at the end
 *   broadcast   a binomial tree from the root
 *   agree       in round k the word of all ranks heard so far goes 2^k ranks on, or to rank ^ 2^k;
 *               if one has failed, a broadcast of its text follows */
#include "engine/comm/comm.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/threads/thread.h"
#include "engine/comm/mpi_module.h"

/* ---- heartbeat ---- */

/* A thread that sends a few signs of life in each timeout, and measures the silence of the previous
 * rank. A process that was stopped itself (Ctrl-Z of all) has heard nobody and starts measuring
 * again: its own signs were late too. */

#define BEATS        5   /* in a timeout, */
#define BEAT_LONGEST 1.0 /* and at least one in so many seconds */

typedef struct et_heartbeat {
    et_comm *comm;
    double timeout;
    _Atomic int lost;
    pthread_t thread;
    pthread_mutex_t mutex; /* of ends */
    pthread_cond_t ended;
    bool ends;
} et_heartbeat;

/* Until the next beat; false: it is over. */
static bool rest(et_heartbeat *w, double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t nanoseconds = until.tv_nsec + (int64_t)(seconds * 1e9);
    until.tv_sec += nanoseconds / 1000000000;
    until.tv_nsec = nanoseconds % 1000000000;
    pthread_mutex_lock(&w->mutex);
    while (!w->ends && pthread_cond_timedwait(&w->ended, &w->mutex, &until) != ETIMEDOUT)
        continue;
    bool goes_on = !w->ends;
    pthread_mutex_unlock(&w->mutex);
    return goes_on;
}

static void *heartbeat(void *payload)
{
    et_heartbeat *w = payload;
    double every = w->timeout / BEATS < BEAT_LONGEST ? w->timeout / BEATS : BEAT_LONGEST;
    double heard = et_clock_monotonic(), last = heard;
    do {
        int beat = w->comm->class->beat(w->comm);
        double now = et_clock_monotonic();
        if (beat > 0 || now - last > w->timeout / 2)
            heard = now;
        last = now;
        if (beat < 0)
            return NULL;
        if (now - heard > w->timeout) {
            atomic_store(&w->lost, (w->comm->rank + w->comm->size - 1) % w->comm->size);
            return NULL;
        }
    } while (rest(w, every));
    return NULL;
}

static int start_heartbeat(et_comm *comm, double timeout, et_error *error)
{
    if (comm->size == 1 || !comm->class->beat)
        return ET_OK;
    et_heartbeat *w;
    if (ET_ALLOC_ZERO(w, 1, "a rank", error))
        return ET_ENOMEM;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->ended, &clock);
    pthread_condattr_destroy(&clock);
    w->comm = comm;
    w->timeout = timeout;
    atomic_init(&w->lost, -1);
    int status = et_thread_start(&w->thread, heartbeat, w, error);
    if (status)
        et_free(w);
    else
        comm->heartbeat = w;
    return status;
}

static void stop_heartbeat(et_comm *comm)
{
    et_heartbeat *w = comm->heartbeat;
    if (!w)
        return;
    pthread_mutex_lock(&w->mutex);
    w->ends = true;
    pthread_cond_signal(&w->ended);
    pthread_mutex_unlock(&w->mutex);
    et_thread_join(w->thread);
    pthread_cond_destroy(&w->ended);
    pthread_mutex_destroy(&w->mutex);
    et_free(w);
    comm->heartbeat = NULL;
}

/* The rank that is silent; -1: none. From any thread. */
static int lost_rank(const et_comm *comm)
{
    return comm->heartbeat ? atomic_load(&comm->heartbeat->lost) : -1;
}

/* ET_EIO for a rank that has ended (why: "has ended") or is silent. */
static int fail_lost(et_comm *comm, int rank, const char *why, et_error *error)
{
    comm->gone = rank;
    return et_fail(error, ET_EIO,
                   "lost rank %d of %d, which %s; run the same command again to resume from the "
                   "newest checkpoint",
                   rank, comm->size, why);
}

/* ---- sockets ---- */

/* Ranks of one machine. Each pair of ranks has a stream of bytes, made by the launcher (launch.c),
 * and each rank has a stream to the next rank for signs of life. A rank's environment:
 *
 *     ETUDE_RANK=1/4            rank and number of ranks
 *     ETUDE_RANK_SOCKETS=7,-1,8,9,12,10
 *                               one to each rank (-1: itself), to the next, from the previous
 *
 * A piece is a frame: 16 bytes (a mark, the number of the frame in this pair, the size), then its
 * bytes. An unexpected mark, number or size means that ranks are out of step, which would mix up
 * gradients: the run ends. A rank that ends normally sends a last frame to all. So if a stream ends
 * without a last frame, every waiting rank knows that a rank is lost. Sockets do not block; a wait
 * checks ten times per second for silent ranks. */

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

/* The next part to send or receive: of the head or of the piece. */
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
static int move(sockets *self, flow *f, bool out, et_error *error)
{
    int status = ET_OK;
    while (!status && !is_over(f)) {
        const int rank = f->chunk.rank, fd = self->peer[rank];
        struct iovec rest = rest_of(f);
        ssize_t count = out ? send(fd, rest.iov_base, rest.iov_len, MSG_NOSIGNAL)
                            : recv(fd, rest.iov_base, rest.iov_len, 0);
        if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return ET_OK;
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 || (!count && !out))
            return fail_lost(&self->comm, rank, HAS_ENDED, error);
        f->done += (size_t)count;
        status = out ? ET_OK : check_head(self, f, self->received[rank], error);
    }
    return status;
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
            return fail_lost(&self->comm, i, HAS_ENDED, error);
    return ET_OK;
}

static int sockets_exchange(et_comm *comm, et_comm_chunk send, et_comm_chunk receive, size_t *came,
                            et_error *error)
{
    sockets *self = (sockets *)comm;
    flow out = { .chunk = send }, in = { .chunk = receive, .any = came };
    if (send.rank >= 0)
        out.head = (frame){ MARK, self->sent[send.rank], send.size };
    int status = ET_OK;
    for (;;) {
        status = move(self, &out, true, error);
        if (!status)
            status = move(self, &in, false, error);
        if (status || (is_over(&out) && is_over(&in)))
            break;
        if (lost_rank(comm) >= 0)
            return fail_lost(comm, lost_rank(comm), "does not answer", error);
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
static int sockets_beat(et_comm *comm)
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
    .exchange = sockets_exchange,
    .any_thread = true,
    .beat = sockets_beat,
    .close = close_sockets,
};

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

static int open_sockets(et_comm **out, et_error *error)
{
    sockets *self;
    *out = NULL;
    if (ET_ALLOC_ZERO(self, 1, "a rank", error))
        return ET_ENOMEM;
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

/* ---- MPI ---- */

/* Finds the MPI that started this process, and the file that was built for it. Each MPI identifies
 * itself in the environment of its ranks. The file is next to the library or the program, or where
 * it is installed; ETUDE_MPI names a file, or the MPI. */

#define MPI_VARIABLE "ETUDE_MPI"
#define PATH_ROOM    4096

typedef struct mpi {
    et_comm comm;
    const et_mpi *module;
} mpi;

/* In this order, because Slurm sets its own variables in addition to the variables of the MPI for
 * which it starts ranks. The first set variable gives the number of ranks: for one rank there is
 * nothing to load. */
static const struct starter {
    const char *size, *rank, *module;
} starters[] = {
    { "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "openmpi" },
    { "PMI_SIZE", "PMI_RANK", "mpich" },
    { "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "openmpi" },
};

enum { STARTERS = sizeof starters / sizeof starters[0] };

static long number_in(const char *variable)
{
    const char *text = getenv(variable);
    return text ? strtol(text, NULL, 10) : 0;
}

static const struct starter *started_by(void)
{
    for (int i = 0; i < STARTERS; i++)
        if (number_in(starters[i].size) > 1)
            return &starters[i];
    return NULL;
}

bool et_comm_by_mpi(void)
{
    return started_by() != NULL;
}

static bool gives_up(void *comm)
{
    return lost_rank(comm) >= 0;
}

static int mpi_exchange(et_comm *comm, et_comm_chunk send, et_comm_chunk receive, size_t *came,
                        et_error *error)
{
    mpi *self = (mpi *)comm;
    char text[512] = "";
    et_mpi_chunk out = { send.rank, send.bytes, send.size };
    et_mpi_chunk in = { receive.rank, receive.bytes, receive.size };
    if (!self->module->exchange(out, in, came, comm->beside, gives_up, comm, text, sizeof text))
        return ET_OK;
    int silent = lost_rank(comm);
    comm->gone = -1;
    return silent >= 0 ? fail_lost(comm, silent, text, error)
                       : et_fail(error, ET_EIO, "%s: %s", self->module->name, text);
}

static int mpi_beat(et_comm *comm)
{
    const mpi *self = (const mpi *)(const void *)comm;
    int next = (comm->rank + 1) % comm->size;
    return self->module->beat(next, (comm->rank + comm->size - 1) % comm->size);
}

static void close_mpi(et_comm *comm)
{
    mpi *self = (mpi *)comm;
    self->module->end(comm->broken.status != ET_OK);
    et_free(self);
}

/* The library stays loaded: an MPI can't be begun twice. */
static const et_comm_class mpi_classes[] = {
    [ET_MPI_FIRST] = { .name = "MPI", .exchange = mpi_exchange, .close = close_mpi },
    [ET_MPI_ANY] = { .name = "MPI",
                     .exchange = mpi_exchange,
                     .any_thread = true,
                     .close = close_mpi },
    [ET_MPI_ALL] = { .name = "MPI",
                     .exchange = mpi_exchange,
                     .any_thread = true,
                     .beat = mpi_beat,
                     .close = close_mpi },
};

/* path: of the library or the program; cut off after its folder. */
static void *load_beside(char *path, const char *name)
{
    static const char *const folders[] = { "", "etude/", "../" ET_LIBDIR "/etude/" };
    char file[PATH_ROOM + 128];
    char *slash = strrchr(path, '/');
    if (!slash)
        return NULL;
    *slash = 0;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        snprintf(file, sizeof file, "%s/%setude_mpi_%s.so", path, folders[i], name);
        if (!access(file, R_OK))
            return dlopen(file, RTLD_NOW | RTLD_GLOBAL);
    }
    return NULL;
}

/* Global: an MPI's own plugins look for it there. */
static void *load_module(const char *name)
{
    char path[PATH_ROOM];
    Dl_info self;
    void *module = NULL;
    if (strchr(name, '/'))
        return dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (dladdr(&starters, &self) && self.dli_fname && strlen(self.dli_fname) < sizeof path) {
        strcpy(path, self.dli_fname);
        module = load_beside(path, name);
    }
    ssize_t length = module ? -1 : readlink("/proc/self/exe", path, sizeof path - 1);
    if (length > 0) {
        path[length] = 0;
        module = load_beside(path, name);
    }
    return module;
}

/* An MPI that was not started by its own kind takes each process for the only one. */
static int mpi_begin(mpi *self, long started, et_error *error)
{
    char text[512] = "";
    et_mpi_threads threads = ET_MPI_FIRST;
    if (self->module->begin(&self->comm.rank, &self->comm.size, &threads, text, sizeof text))
        return et_fail(error, ET_EFAIL, "%s", text);
    if (self->comm.size == 1 && started > 1)
        return et_fail(error, ET_ECONFIG,
                       "%ld processes were started, but %s sees one: another MPI started them; "
                       "name its module in " MPI_VARIABLE,
                       started, self->module->name);
    self->comm.class = &mpi_classes[threads];
    return ET_OK;
}

static int open_mpi(et_comm **out, et_error *error)
{
    const struct starter *by = started_by();
    const char *wanted = getenv(MPI_VARIABLE);
    *out = NULL;
    et_assert(by);
    const char *name = wanted && *wanted ? wanted : by->module;
    void *handle = load_module(name);
    const et_mpi *module = handle ? dlsym(handle, ET_MPI_SYMBOL) : NULL;
    if (!module || module->version != ET_MPI_VERSION) {
        const char *why = handle ? "has another version" : dlerror();
        return et_fail(
            error, ET_ENOTFOUND,
            "MPI started this process with others, but the module for this MPI (etude_mpi_%s.so) "
            "%s; build Etude with that MPI installed, or name the file in " MPI_VARIABLE,
            name, why ? why : "is missing");
    }
    mpi *self;
    if (ET_ALLOC_ZERO(self, 1, "a rank", error))
        return ET_ENOMEM;
    self->module = module;
    int status = mpi_begin(self, number_in(by->size), error);
    if (status)
        et_free(self);
    else
        *out = &self->comm;
    return status;
}

/* ---- ranks ---- */

int et_comm_started_rank(void)
{
    if (et_comm_by_launch()) {
        const char *which = getenv(ET_RANK_VARIABLE);
        int rank;
        return which && read_number(&which, '/', 0, ET_RANKS_MAX - 1, &rank) ? rank : 0;
    }
    const struct starter *by = started_by();
    return by ? (int)number_in(by->rank) : 0;
}

#define PEER_TIMEOUT 60
#define LEAVING_MOST 4096 /* ranks that leave together */

int et_comm_rank(const et_comm *comm)
{
    return comm ? comm->rank : 0;
}

int et_comm_size(const et_comm *comm)
{
    return comm ? comm->size : 1;
}

static void close_alone(et_comm *comm)
{
    et_free(comm);
}

static const et_comm_class alone_class = { .name = "alone", .close = close_alone };

static int open_alone(et_comm **out, et_error *error)
{
    if (ET_ALLOC_ZERO(*out, 1, "a rank", error))
        return ET_ENOMEM;
    **out = (et_comm){ .class = &alone_class, .size = 1 };
    return ET_OK;
}

int et_comm_open(et_comm **out, const et_comm_options *options, et_error *error)
{
    *out = NULL;
    double timeout = options ? options->peer_timeout : 0;
    if (!(timeout >= 0 && timeout <= 1e9))
        return et_fail(error, ET_ECONFIG, "peer_timeout %g: give a number of seconds, such as 60",
                       timeout);
    int status = et_comm_by_launch() ? open_sockets(out, error)
                 : et_comm_by_mpi()  ? open_mpi(out, error)
                                     : open_alone(out, error);
    if (!status && options) {
        (*out)->bfloat16_gradients = options->bfloat16_gradients;
        (*out)->sharded_optimizer = options->sharded_optimizer && (*out)->size > 1;
    }
    if (!status && (status = start_heartbeat(*out, timeout > 0 ? timeout : PEER_TIMEOUT, error))) {
        et_comm_close(*out);
        *out = NULL;
    }
    return status;
}

void et_comm_close(et_comm *comm)
{
    if (!comm)
        return;
    /* A launcher may end all ranks when one ends, so no rank leaves before rank 0 has printed its
     * messages. */
    et_comm_word mine = et_comm_say(comm, ET_OK, 0), all[LEAVING_MOST];
    if (comm->size > 1 && comm->size <= LEAVING_MOST && !comm->broken.status)
        et_comm_gather(comm, &mine, sizeof mine, all, NULL);
    stop_heartbeat(comm);
    et_free(comm->scratch);
    comm->class->close(comm);
}

static int exchange(et_comm *comm, et_comm_chunk send, et_comm_chunk receive, size_t *came,
                    et_error *error)
{
    const et_comm_chunk none = { -1, NULL, 0 };
    int self = et_comm_rank(comm);
    bool sends = send.rank >= 0 && send.rank != self && send.size;
    bool receives = receive.rank >= 0 && receive.rank != self && receive.size;
    if (!sends && !receives)
        return ET_OK;
    et_assert(send.rank < comm->size && receive.rank < comm->size);
    if (!comm->broken.status)
        comm->class->exchange(comm, sends ? send : none, receives ? receive : none, came,
                              &comm->broken);
    return comm->broken.status ? et_fail(error, comm->broken.status, "%s", comm->broken.text)
                               : ET_OK;
}

int et_comm_exchange(et_comm *comm, et_comm_chunk send, et_comm_chunk receive, et_error *error)
{
    return exchange(comm, send, receive, NULL, error);
}

static int use_scratch(et_comm *comm, size_t size, et_error *error)
{
    if (size <= comm->scratch_size)
        return ET_OK;
    unsigned char *bytes = et_realloc(comm->scratch, size, 1);
    if (!bytes)
        return et_alloc_failed(error, "what ranks say");
    comm->scratch = bytes;
    comm->scratch_size = size;
    return ET_OK;
}

int et_comm_gather_blocks(et_comm *comm, void *blocks, size_t size, et_error *error)
{
    int rank = et_comm_rank(comm), ranks = et_comm_size(comm), status = ET_OK;
    for (int there = 1; !status && there < ranks; there *= 2) {
        size_t more = (size_t)(there < ranks - there ? there : ranks - there) * size;
        et_comm_chunk send = { (rank - there + ranks) % ranks, blocks, more };
        et_comm_chunk receive = { (rank + there) % ranks, (char *)blocks + (size_t)there * size,
                                  more };
        status = et_comm_exchange(comm, send, receive, error);
    }
    return status;
}

int et_comm_gather(et_comm *comm, const void *mine, size_t size, void *all, et_error *error)
{
    int rank = et_comm_rank(comm), ranks = et_comm_size(comm);
    unsigned char *out = all;
    if (!size)
        return ET_OK;
    if (ranks == 1) {
        memcpy(all, mine, size);
        return ET_OK;
    }
    int status = use_scratch(comm, (size_t)ranks * size, error);
    if (status)
        return status;
    unsigned char *blocks = comm->scratch;
    memcpy(blocks, mine, size);
    status = et_comm_gather_blocks(comm, blocks, size, error);
    for (int i = 0; !status && i < ranks; i++)
        memcpy(out + (size_t)((rank + i) % ranks) * size, blocks + (size_t)i * size, size);
    return status;
}

int et_comm_broadcast(et_comm *comm, int root, void *bytes, size_t size, et_error *error)
{
    const et_comm_chunk none = { -1, NULL, 0 };
    int ranks = et_comm_size(comm), index = (et_comm_rank(comm) - root + ranks) % ranks;
    int status = ET_OK, bit = 1;
    while (bit < ranks && !(index & bit))
        bit *= 2;
    if (index)
        status = et_comm_exchange(
            comm, none, (et_comm_chunk){ (index - bit + root) % ranks, bytes, size }, error);
    for (bit /= 2; !status && bit; bit /= 2)
        if (index + bit < ranks)
            status = et_comm_exchange(
                comm, (et_comm_chunk){ (index + bit + root) % ranks, bytes, size }, none, error);
    return status;
}

et_comm_word et_comm_say(const et_comm *comm, int status, unsigned flags)
{
    return (et_comm_word){ status, flags, et_comm_rank(comm), 0 };
}

int et_comm_say_round(et_comm *comm, int bit, et_comm_word *word, void *out, size_t out_size,
                      void *in, size_t in_size, et_error *error)
{
    const int rank = comm->rank, ranks = comm->size;
    const bool pairs = !(ranks & (ranks - 1));
    int to = pairs ? rank ^ bit : (rank - bit + ranks) % ranks;
    int from = pairs ? rank ^ bit : (rank + bit) % ranks;
    size_t came = 0, size = et_comm_is_well(word) ? out_size : sizeof *word;
    et_comm_word other;
    et_assert(out_size >= sizeof *word && out_size <= ET_COMM_SHORT && in_size <= ET_COMM_SHORT);
    memcpy(out, word, sizeof *word);
    int status = exchange(comm, (et_comm_chunk){ to, out, size },
                          (et_comm_chunk){ from, in, ET_COMM_SHORT }, &came, error);
    if (status)
        return status;
    memcpy(&other, in, sizeof other);
    if (came >= sizeof other) {
        unsigned flags = word->flags | other.flags;
        if (other.status && (!word->status || other.from < word->from))
            *word = other;
        word->flags = flags;
    }
    if (came < sizeof other || (et_comm_is_well(word) && came != in_size))
        return et_fail(error, ET_EFAIL,
                       "rank %d and rank %d are out of step: %zu bytes came instead of %zu", rank,
                       from, came, in_size);
    return ET_OK;
}

int et_comm_settle(et_comm *comm, const et_comm_word *word, unsigned *flags, et_error *error)
{
    if (flags)
        *flags |= word->flags;
    if (!word->status)
        return ET_OK;
    if (word->from < 0 || word->from >= comm->size)
        return et_fail(error, ET_EFAIL, "ranks are out of step: rank %d of %d has failed",
                       word->from, comm->size);
    /* Sends the failed rank's message to the ranks that did not fail. */
    const int from = word->from;
    et_error reported = ET_ERROR_INIT;
    if (comm->rank == from && error) {
        if (from)
            et_fail(&reported, word->status, "on rank %d: %s", from, error->text);
        else
            reported = *error;
    }
    int sent = et_comm_broadcast(comm, from, reported.text, sizeof reported.text, error);
    if (sent)
        return sent;
    reported.text[sizeof reported.text - 1] = 0;
    comm->reported = true;
    return et_fail(error, word->status, "%s", reported.text);
}

int et_comm_agree(et_comm *comm, int status, unsigned *flags, et_error *error)
{
    int ranks = et_comm_size(comm);
    if (ranks == 1 || comm->reported || comm->broken.status)
        return status || ranks == 1 || comm->reported
                   ? status
                   : et_fail(error, comm->broken.status, "%s", comm->broken.text);
    et_comm_word mine = et_comm_say(comm, status, flags ? *flags : 0), out;
    int sent = use_scratch(comm, ET_COMM_SHORT, error);
    for (int bit = 1; !sent && bit < ranks; bit *= 2)
        sent = et_comm_say_round(comm, bit, &mine, &out, sizeof out, comm->scratch, sizeof out,
                                 status ? NULL : error);
    if (sent)
        return status ? status : sent;
    return et_comm_settle(comm, &mine, flags, error);
}

/* If a rank is lost, rank 0 reports it. A rank that has found another silent reports that itself,
 * because it may end rank 0 too. */
bool et_comm_reported_elsewhere(const et_comm *comm)
{
    bool lost = et_comm_rank(comm) && comm->broken.status;
    return et_comm_rank(comm) && (comm->reported || (lost && comm->gone && lost_rank(comm) < 0));
}

void et_comm_resume(et_comm *comm)
{
    if (comm)
        comm->reported = false;
}
