/* Incoming connections of a task, by descriptor, and the memory that each holds: the bytes that the
 * peer has sent, as TCP counts them, minus the bytes that the task has read. The transport itself
 * has no limit on this memory. This module shuts a connection down (shutdown(2)) in the cases
 * below, and the transport then sees an ended connection:
 *
 *   - it holds more than `most`;
 *   - it is the youngest of the large ones while all together hold more than `all`;
 *   - it sends something that no task sends;
 *   - it is the youngest of more than `places` connections that have survived a handshake.
 *
 * One thread does this work. It learns of new and ended connections with a delay, so bytes that
 * arrive in between may exceed a bound.
 *
 * The first violation with each role's key is logged, and their number at the end. After days, a
 * connection with only heartbeats also reaches `most`; it is shut without a log.
 *
 * Descriptors belong to the transport: this module opens, reads or closes none. */
#ifndef ETUDE_ROLES_WIRE_SESSIONS_H
#define ETUDE_ROLES_WIRE_SESSIONS_H

#include <etude/error.h>
#include <etude/job_config.h>

typedef struct et_sessions et_sessions;

typedef struct et_sessions_setup {
    const char *address; /* that they connect to, for the log; borrowed */
    int64_t most, all;   /* bytes */
    int keyed_most;      /* connections with a key that stay */
    double handshake;    /* seconds after which a connection without a key is shut */
} et_sessions_setup;

int et_sessions_open(et_sessions **out, const et_sessions_setup *setup, et_error *error);
/* Logs how many were shut. */
void et_sessions_close(et_sessions *s); /* NULL allowed */

/* ---- for the thread that learns of connections; now: seconds, as in the others */

void et_sessions_came(et_sessions *s, int descriptor, double now);
void et_sessions_left(et_sessions *s, int descriptor);
/* A connection has shown a role's key. */
void et_sessions_showed(et_sessions *s, et_job_role role, double now);
/* Checks all connections and shuts those that exceed a limit. */
void et_sessions_look(et_sessions *s, double now);

/* ---- any thread */

/* The transport has taken bytes of a connection, as they were sent. */
void et_sessions_took(et_sessions *s, int descriptor, et_job_role role, size_t bytes);
/* Marks a connection that has sent invalid data (why: static), to be shut at the next check. */
void et_sessions_refuse(et_sessions *s, int descriptor, const char *why);

#endif
