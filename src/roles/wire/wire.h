/* The transport between processes: ZeroMQ (zmq.c and the files of zmq_private.h know it) over TCP,
 * every connection authenticated and encrypted by CURVE. Servers and the master listen at their
 * address in the cluster and nowhere else; workers listen to nobody.
 *
 * A connection whose key is none of the cluster's roles that may speak here is refused before a
 * message of it is read. Messages go in pieces of 32 KiB at most (piece.h), a frame each: a longer
 * one closes its connection before memory is taken for it, so who is not let in gets none; a
 * message of more than `largest` bytes is dropped, as is one whose pieces are not all there. What
 * cannot be sent at once is dropped: who asks asks again.
 *
 * Nor does who has a key get more than its role needs (visitors.h): one that sends what no task
 * sends (a message of several frames, of a wrong length or checksum, in another's name), frames
 * without an end, or more than all its messages may have, is shut, whether the task looks or not;
 * so a message is at most `largest` bytes, or `asked` of one that comes to this task.
 *
 * A connection that this task has made and that gets what can't be is made again at once; so is one
 * whose other side waits for what is lost, once a question was asked in vain (et_link_class.doubt).
 * How many were damaged is logged once, when it closes.
 *
 * A handshake has four seconds. So strangers hold as many descriptors as come in that time; where
 * a task listens, the process's soft limit of them is raised to 16,384 or to its hard limit. How
 * many were refused is logged once, when it closes.
 *
 * Two connections to each task: messages go over one, ZeroMQ's heartbeats over the other, since
 * both over one can end the process; so can a message of several frames (zmq_private.h says how).
 *
 * One thread; ZeroMQ has its own, and one lets others in, so that a task that computes is alive to
 * others. */
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
    const char *bind;           /* host:port; NULL: it listens to nobody */
    int bind_fd;                /* a socket that listens there already, borrowed; 0: none */
    const char *const *connect; /* [1 + servers]: addresses by task; NULL: not to this one */
    int senders;                /* tasks that may come to this one */
    size_t largest;             /* bytes of a message without its header */
    size_t asked;               /* the same of those that come to this task */
} et_wire_setup;

/* ET_EUSAGE: built without ZeroMQ. */
int et_wire_open(et_wire **out, const et_wire_setup *setup, et_error *error);
/* Sends what is under way for up to a second. */
void et_wire_close(et_wire *wire); /* NULL allowed */

et_link *et_wire_link(et_wire *wire);

/* Waits for a message for so many seconds at most; *got: there is one, whose bytes are valid until
 * the next call. ET_EDENIED: a task that this one connects to does not take its key. */
int et_wire_receive(et_wire *wire, double seconds, et_message *out, bool *got, et_error *error);

/* Seconds since which a task that this one connects to is not, by both connections (0: it is).
 * Peers that are silent for 20 seconds are none. */
double et_wire_alone(const et_wire *wire, int task);

/* ET_EUSAGE: built without ZeroMQ. */
int et_wire_check(et_error *error);

/* public, secret [ET_KEY_TEXT + 1]. */
int et_wire_keypair(char *public, char *secret, et_error *error);

#endif
