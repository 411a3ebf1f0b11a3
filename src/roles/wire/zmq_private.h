/* The transport over ZeroMQ, for its own files:
 *
 *   zmq.c          lifecycle, outgoing connections of this task, and messages as chunks
 *   zmq_listener.c incoming connections: the router, its guard, its sessions
 *   zmq_socket.c   ZeroMQ's calls, and options of every socket; uses none of the others
 *
 * Why messages are not ZeroMQ's multipart messages, and why a connection has either messages or
 * heartbeats (ZMQ_HEARTBEAT_*): libzmq 4.3.4, Debian 12's, ends the whole process otherwise. Two
 * programs showed it, each in three of three runs. Each connected DEALER sockets to four peers,
 * sent messages of 32 frames of 64 KiB, and killed (kill -9) 200 peers one after another:
 *
 *   heartbeats, and the socket of a killed peer is disconnected or closed:
 *       "Assertion failed: !_io_error (src/stream_engine_base.cpp:331)" with the first killed peer.
 *       Heartbeats write without a look at what has become of the connection.
 *   no heartbeats, and the peer is disconnected while frames are under way and then killed; the
 *   linger time ends (50 ms) before the socket's own thread calls ZeroMQ again:
 *       "Resource temporarily unavailable (src/session_base.cpp:260)", in clean_pipes, with peers
 *       85, 33 and 32. Here a socket's thread computes for seconds, so this happens.
 *
 * Without a disconnect or close all 200 peers were killed in each run, with and without heartbeats;
 * so were they in each run of the second program with messages of one frame.
 * But a task does disconnect: it drops a connection whose peer is silent (zmq.c). So what
 * carries messages has no heartbeat, what has one carries nothing else, and each chunk (chunk.h) is
 * a message of one frame. */
#ifndef ETUDE_ROLES_WIRE_ZMQ_PRIVATE_H
#define ETUDE_ROLES_WIRE_ZMQ_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include <zmq.h>

#include "base/files/library.h"
#include "roles/wire/chunk.h"
#include "roles/wire/sessions.h"
#include "roles/wire/wire.h"

/* zmq_bind is et_zmq.bind, and so on: loaded by the first call that opens a wire or makes keys. */
#define ET_ZMQ_CALLS(X)                                                                            \
    X(zmq_, bind)                                                                                  \
    X(zmq_, close)                                                                                 \
    X(zmq_, connect)                                                                               \
    X(zmq_, ctx_new)                                                                               \
    X(zmq_, ctx_shutdown)                                                                          \
    X(zmq_, ctx_term)                                                                              \
    X(zmq_, curve_keypair)                                                                         \
    X(zmq_, disconnect)                                                                            \
    X(zmq_, getsockopt)                                                                            \
    X(zmq_, msg_close)                                                                             \
    X(zmq_, msg_data)                                                                              \
    X(zmq_, msg_get)                                                                               \
    X(zmq_, msg_gets)                                                                              \
    X(zmq_, msg_init)                                                                              \
    X(zmq_, msg_init_size)                                                                         \
    X(zmq_, msg_more)                                                                              \
    X(zmq_, msg_recv)                                                                              \
    X(zmq_, msg_send)                                                                              \
    X(zmq_, msg_size)                                                                              \
    X(zmq_, poll)                                                                                  \
    X(zmq_, recv)                                                                                  \
    X(zmq_, send)                                                                                  \
    X(zmq_, setsockopt)                                                                            \
    X(zmq_, socket)                                                                                \
    X(zmq_, socket_monitor)                                                                        \
    X(zmq_, strerror)                                                                              \
    X(zmq_, z85_decode)

typedef struct et_zmq_calls {
    ET_ZMQ_CALLS(ET_LIBRARY_CALL)
} et_zmq_calls;

extern et_zmq_calls et_zmq;

#define ET_WIRE_HANDSHAKE   4000 /* milliseconds for a handshake */
#define ET_WIRE_SOON        0.25 /* seconds in which ZeroMQ says that it tries again, if it does */
#define ET_WIRE_CURVE_BYTES 64   /* at least what encryption adds to a message */
#define ET_WIRE_PART        256  /* most bytes of a part that is read separately */

/* A connection that this task makes. */
typedef struct et_wire_line {
    void *socket, *monitor; /* socket NULL: no connection */
    int descriptor;         /* -1: none that is known */
    double alone;           /* since when; 0: connected */
    double again;           /* when ZeroMQ has probably given it up; 0: not yet */
    double pause;           /* how long after it was lost that was, the last time */
    int64_t chunks;         /* that have come over it */
    int64_t chunks_at_send; /* chunks when something was last sent */
    double tried;           /* when its TCP connection was made */
    bool known;             /* a handshake has succeeded: its keys are right */
    double heard;           /* when something last happened to the connection */
    int failures;           /* handshakes in a row that were refused */
    bool there;             /* ZeroMQ was at the address after failures before these */
} et_wire_line;

enum { ET_WIRE_TALK, ET_WIRE_HEARTBEAT, ET_WIRE_LINES };

typedef struct et_wire_peer {
    et_wire_line line[ET_WIRE_LINES];
    char address[300];  /* host:port */
    char endpoint[400]; /* the same for ZeroMQ */
} et_wire_peer;

struct et_wire {
    et_link link;
    et_job_role role;
    int servers;
    void *context, *router;
    void *zap, *entrance; /* the guard's: requests for admission, events of connections */
    pthread_t guard;
    bool guarded;
    et_sessions *sessions;
    _Atomic int64_t refused; /* connections that were not let in */
    int64_t damaged;         /* connections of ours that were made again for what came over them */
    char bound[300];         /* host:port that it listens at */
    et_wire_peer *peer;      /* [1 + servers] */
    uint64_t *via;           /* [ET_TASKS_MAX]: last connection of each task; 0: none */
    zmq_pollitem_t *items;   /* [2 + servers] */
    zmq_msg_t message;       /* the chunk that was received last */
    bool holds;              /* message is in use */
    et_assembly answers;     /* of connections that this task makes */
    et_assembly questions;   /* of connections to this task */
    uint64_t number;         /* of the message that was sent last */
    bool denied;
    char public[ET_JOB_ROLES][ET_KEY_TEXT + 1];
    char own_public[ET_KEY_TEXT + 1], secret[ET_KEY_TEXT + 1];
};

/* ---- zmq_socket.c ---- */

/* Before anything is called. ET_ENOTFOUND: the library is not there. */
int et_zmq_load(et_error *error);

/* ET_EIO with errno in ZeroMQ's words. */
int et_wire_fail(et_error *error, const char *what);

/* An option that is an int. */
bool et_wire_set(void *socket, int option, int value);
/* Options of every socket for messages or monitoring; in, out: the most chunks that may wait. */
bool et_wire_set_common(void *socket, const et_wire *wire, int in, int out);
/* Most waiting chunks of a connection whose messages have at most `largest` bytes. */
int et_wire_queue(size_t largest);
/* host:port as ZeroMQ takes it to bind: numbers. */
int et_wire_resolve(char *endpoint, size_t space, const char *address, et_error *error);

/* Makes a monitor of a socket's connections, for these events. number: different for each. NULL: it
 * failed.
 */
void *et_wire_monitor(et_wire *wire, void *socket, int number, int events);
/* The next event of a monitor, and its value; 0: no event. */
int et_wire_next_event(void *monitor, uint32_t *value);

/* A part of a message of several, cut; -1: the context is at its end. more: others follow. part has
 * ET_WIRE_PART bytes. */
int et_wire_read_part(void *socket, unsigned char *part, bool *more);

/* ---- zmq_listener.c ---- */

int et_wire_listen(et_wire *wire, const et_wire_setup *setup, et_error *error);

#endif
