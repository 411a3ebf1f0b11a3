/* Shared code of programs that disturb the network of this machine: ports of the loopback, a clock,
 * an end at SIGTERM. */
#ifndef ETUDE_TESTS_CLUSTER_NETWORK_H
#define ETUDE_TESTS_CLUSTER_NETWORK_H

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t stop; /* after stop_at_sigterm */

static inline void on_signal(int number)
{
    (void)number;
    stop = 1;
}

static inline void stop_at_sigterm(void)
{
    signal(SIGTERM, on_signal);
}

/* Seconds. */
static inline double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline struct sockaddr_in loopback(int port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr = { htonl(INADDR_LOOPBACK) } };
}

/* A socket that is connected to a port, or is about to be (flags SOCK_NONBLOCK); -1: none. */
static inline int reach(int port, int flags)
{
    struct sockaddr_in at = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) && errno != EINPROGRESS) {
        close(fd);
        fd = -1;
    }
    return fd;
}

#endif
