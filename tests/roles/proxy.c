/* A TCP proxy that simulates a bad network:
 *
 *     proxy SEED PER-MILLE LISTEN:TARGET...          ports of the loopback; until SIGTERM
 *
 * PER-MILLE of a thousand pieces have a fault: they are lost, changed by a bit, sent twice, delayed
 * for a second or two, or their connection is cut. Half of the connections are recorded at their
 * beginning, and the recording is sent again over a new connection. At the end, the proxy prints
 * the number of each fault, one word and number per line. It has one thread; waiting bytes are
 * limited. */
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "roles/chance.h"
#include "roles/network.h"

enum { LISTENERS = 16, PAIRS = 200, PIECE = 16384, WAITING = 1 << 18, RECORD = 4096 };

typedef struct flow {
    int from, to;
    unsigned char *data; /* [WAITING] */
    size_t begin, end;
    double until; /* held up */
} flow;

typedef struct pair {
    bool used;
    flow way[2]; /* from the client; to it */
    int target;
    unsigned char *record; /* [RECORD]: what came first; NULL: not recorded */
    size_t recorded;
} pair;

static struct {
    int fd, target;
} listener[LISTENERS];
static int listeners;
static pair pairs[PAIRS];
static uint64_t state;
static double rate;
static long lost, changed, twice, held, cut, replayed, passed, connections;

static double uniform(void)
{
    return chance_uniform(&state);
}

static void close_pair(pair *p)
{
    if (p->recorded) { /* sent once more as recorded; nobody reads the answer */
        int fd = reach(p->target, 0);
        replayed += fd >= 0 && send(fd, p->record, p->recorded, MSG_NOSIGNAL) > 0;
        if (fd >= 0)
            close(fd);
    }
    close(p->way[0].from);
    close(p->way[0].to);
    free(p->way[0].data);
    free(p->way[1].data);
    free(p->record);
    memset(p, 0, sizeof *p);
}

static void take(int fd, int target)
{
    pair *p = pairs;
    while (p < pairs + PAIRS && p->used)
        p++;
    int other = p < pairs + PAIRS ? reach(target, 0) : -1;
    if (other < 0) { /* as if nobody listened */
        close(fd);
        return;
    }
    fcntl(fd, F_SETFL, O_NONBLOCK);
    fcntl(other, F_SETFL, O_NONBLOCK);
    *p = (pair){ .used = true, .target = target };
    p->way[0] = (flow){ .from = fd, .to = other, .data = malloc(WAITING) };
    p->way[1] = (flow){ .from = other, .to = fd, .data = malloc(WAITING) };
    p->record = uniform() < 0.5 ? malloc(RECORD) : NULL;
    connections++;
    if (!p->way[0].data || !p->way[1].data)
        close_pair(p);
}

/* A piece of count bytes has come at the end of the waiting bytes; false: the connection is cut. */
static bool spoil(flow *f, size_t count)
{
    unsigned char *piece = f->data + f->end;
    double what = uniform();
    f->end += count;
    passed++;
    if (uniform() >= rate)
        return true;
    if (what < 0.2) {
        f->end -= count;
        lost++;
    } else if (what < 0.4) {
        piece[(size_t)(uniform() * (double)count)] ^= (unsigned char)(1u << (int)(uniform() * 8));
        changed++;
    } else if (what < 0.6 && f->end + count <= WAITING) {
        memcpy(f->data + f->end, piece, count);
        f->end += count;
        twice++;
    } else if (what < 0.8) {
        f->until = now() + 2 * uniform();
        held++;
    } else {
        cut++;
        return false;
    }
    return true;
}

/* false: it is over. */
static bool move(pair *p, flow *f, short events)
{
    if (f->begin && f->begin == f->end)
        f->begin = f->end = 0;
    if (events & (POLLIN | POLLHUP | POLLERR) && f->end + 2 * PIECE <= WAITING) {
        ssize_t count = recv(f->from, f->data + f->end, PIECE, 0);
        if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        if (count > 0 && p->record && f == p->way && p->recorded < RECORD) {
            size_t more = RECORD - p->recorded;
            more = more < (size_t)count ? more : (size_t)count;
            memcpy(p->record + p->recorded, f->data + f->end, more);
            p->recorded += more;
        }
        if (count > 0 && !spoil(f, (size_t)count))
            return false;
    }
    if (f->begin < f->end && now() >= f->until) {
        ssize_t count = send(f->to, f->data + f->begin, f->end - f->begin, MSG_NOSIGNAL);
        if (count < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        f->begin += count > 0 ? (size_t)count : 0;
    }
    return true;
}

static void turn(void)
{
    struct pollfd items[LISTENERS + 2 * PAIRS];
    int whose[2 * PAIRS], count = 0;
    for (int i = 0; i < listeners; i++)
        items[count++] = (struct pollfd){ .fd = listener[i].fd, .events = POLLIN };
    for (int i = 0; i < PAIRS; i++)
        for (int way = 0; pairs[i].used && way < 2; way++) {
            whose[count - listeners] = 2 * i + way;
            bool room = pairs[i].way[way].end + 2 * PIECE <= WAITING;
            items[count++] =
                (struct pollfd){ .fd = pairs[i].way[way].from, .events = room ? POLLIN : 0 };
        }
    poll(items, (nfds_t)count, 5);
    for (int k = listeners; k < count; k++) {
        pair *p = &pairs[whose[k - listeners] / 2];
        if (p->used && !move(p, &p->way[whose[k - listeners] % 2], items[k].revents))
            close_pair(p);
    }
    for (int i = 0; i < listeners; i++)
        if (items[i].revents & POLLIN) {
            int fd = accept(listener[i].fd, NULL, NULL);
            if (fd >= 0)
                take(fd, listener[i].target);
        }
}

static void listen_at(const char *words)
{
    int port, on = 1;
    if (listeners == LISTENERS || sscanf(words, "%d:%d", &port, &listener[listeners].target) != 2)
        exit(2);
    struct sockaddr_in at = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
        bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 100)) {
        perror(words);
        exit(1);
    }
    listener[listeners++].fd = fd;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    state = strtoull(argv[1], NULL, 10) * 2654435761u;
    rate = atof(argv[2]) / 1000;
    for (int i = 3; i < argc; i++)
        listen_at(argv[i]);
    stop_at_sigterm();
    while (!stop)
        turn();
    printf("connections %ld\npassed %ld\nlost %ld\nchanged %ld\ntwice %ld\nheld %ld\ncut %ld\n"
           "replayed %ld\n",
           connections, passed, lost, changed, twice, held, cut, replayed);
    return 0;
}
