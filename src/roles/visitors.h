/* Incoming connections of a task, by descriptor, and the memory that each holds: the bytes that it
 * has sent, as TCP counts them, minus the bytes that the task has read. The transport itself would
 * accept any amount of memory. This module shuts (shutdown(2)) a connection in these cases; the
 * transport then sees an ended connection:
 *
 *   - it holds more than `most`;
 *   - it is the youngest of the large ones while all together hold more than `all`;
 *   - it sends something that no task sends;
 *   - it is the youngest of more than `places` connections that have survived a handshake.
 *
 * One thread shuts; it is told of connections that come and go. This information may lag, so a
 * bound is exact except for bytes that arrive in between.
 *
 * Violations are logged, once for each role's key, and with their number at the end. A connection
 * with only heartbeats reaches `most` as well, after days: it is shut without a log.
 *
 * Descriptors belong to the transport: this module opens, reads or closes none. */
#ifndef ETUDE_ROLES_VISITORS_H
#define ETUDE_ROLES_VISITORS_H

#include <etude/error.h>
#include <etude/job_config.h>

typedef struct et_visitors et_visitors;

typedef struct et_visitors_setup {
    const char *address; /* that they come to, for the log; borrowed */
    int64_t most, all;   /* bytes */
    int places;          /* connections with a key that stay */
    double handshake;    /* seconds after which a connection without a key is shut */
} et_visitors_setup;

int et_visitors_open(et_visitors **out, const et_visitors_setup *setup, et_error *error);
/* Logs how many were shut. */
void et_visitors_close(et_visitors *visitors); /* NULL allowed */

/* ---- for the thread that is told of connections; now: seconds, as in the others */

void et_visitors_came(et_visitors *visitors, int descriptor, double now);
void et_visitors_left(et_visitors *visitors, int descriptor);
/* A connection has shown a role's key. */
void et_visitors_showed(et_visitors *visitors, et_job_role role, double now);
/* Looks at all of them and shuts whom it has to. */
void et_visitors_look(et_visitors *visitors, double now);

/* ---- any thread */

/* Bytes of a connection, as they were sent, have left the transport. */
void et_visitors_took(et_visitors *visitors, int descriptor, et_job_role role, size_t bytes);
/* It has sent what no task sends (why: static): shut when next looked at. */
void et_visitors_refuse(et_visitors *visitors, int descriptor, const char *why);

#endif
