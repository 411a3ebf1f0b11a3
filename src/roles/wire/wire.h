/* The transport between processes: ZeroMQ over TCP (only zmq.c uses it). CURVE authenticates and
 * encrypts every connection. Servers and the master listen only at their address in the cluster;
 * workers do not listen.
 *
 * A connection needs the key of a role that may send to this task. Otherwise the task refuses the
 * connection before it reads a message. Messages are sent in chunks of at most 32 KiB (message.h),
 * one frame each. A longer frame closes its connection before memory is allocated, so a refused
 * process gets no memory. A message of more than `largest` bytes or with missing chunks is dropped.
 * A message that cannot be sent immediately is dropped too; the sender of a question asks again.
 *
 * Even a process with a key gets no more memory than its role needs (sessions.h). Its connection is
 * shut if it sends something that no task sends (several frames in a message, a wrong length or
 * checksum, another task's name), endless frames, or more than all its messages may have. This also
 * works while the task computes. A message has at most `largest` bytes, a message to this task at
 * most `asked` bytes.
 *
 * If an outgoing connection of this task receives invalid data, the task connects again
 * immediately. It also does so after an unanswered question, because the other side may wait for
 * lost data (et_link_class.doubt). The number of damaged messages is logged once, when the
 * connection closes.
 *
 * A handshake has four seconds. So strangers hold only the descriptors of four seconds. A listening
 * task raises the process's soft limit of descriptors to 16,384 or to the hard limit. The number of
 * refused connections is logged once, at the close.
 *
 * There are two connections to each task: one for messages, one for ZeroMQ's heartbeats. Both over
 * one connection can end the process; so can a message of several frames (see zmq.c).
 *
 * One thread uses the transport. ZeroMQ has its own threads, and one thread accepts connections, so
 * a task that computes stays alive for the others. */
#ifndef ETUDE_ROLES_WIRE_WIRE_H
#define ETUDE_ROLES_WIRE_WIRE_H

#include <etude/error.h>

#include "roles/wire/keys.h"
#include "roles/wire/message.h"

typedef struct et_wire et_wire;

typedef struct et_wire_setup {
    const et_keys *keys; /* of the task's role; borrowed while it opens */
    et_job_role role;
    int servers;                /* numbers of tasks: see message.h */
    const char *bind;           /* host:port; NULL: does not listen */
    int bind_fd;                /* a socket that already listens on bind, borrowed; 0: the transport
                                   makes one */
    const char *const *connect; /* [1 + servers]: addresses by task; NULL: not to this one */
    int senders;                /* tasks that may connect to this one */
    size_t largest;             /* bytes of a message without its header */
    size_t asked;               /* the same for messages to this task */
} et_wire_setup;

/* ET_EUSAGE: built without ZeroMQ. */
int et_wire_open(et_wire **out, const et_wire_setup *setup, et_error *error);
/* Sends waiting messages for up to a second, then closes. */
void et_wire_close(et_wire *wire); /* NULL allowed */

et_link *et_wire_link(et_wire *wire);

/* Waits at most `seconds` for a message. *got: a message has arrived; its bytes are valid until the
 * next call. ET_EDENIED: a task that this one connects to refuses its key. */
int et_wire_receive(et_wire *wire, double seconds, et_message *out, bool *got, et_error *error);

/* Seconds since both connections to a task were lost; 0: connected. A task that is silent for 20
 * seconds counts as lost. */
double et_wire_alone(const et_wire *wire, int task);

/* ET_EUSAGE: built without ZeroMQ. */
int et_wire_check(et_error *error);

/* public, secret [ET_KEY_TEXT + 1]. */
int et_wire_keypair(char *public, char *secret, et_error *error);

/* Addresses of a cluster, "host:port" or "[::1]:port", as socket addresses. Free *out with
 * freeaddrinfo. ET_ECONFIG: not an address, or its host is unknown. */
struct addrinfo;
int et_address_find(struct addrinfo **out, const char *address, et_error *error);

#endif
