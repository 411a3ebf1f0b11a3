/* Connections that others make to a task, by descriptor, and what each holds of its memory: what it
 * has brought, as TCP counts it, less what the task has taken. A transport that takes memory for
 * whatever comes is bounded so from beside it: who holds more than `most`, who is the youngest of
 * the large ones where all together hold more than `all`, who sends what no task sends, and the
 * youngest of more than `places` that have outlived a handshake, are shut (shutdown(2)); the
 * transport sees a connection that has ended. Who shuts is the one thread that is told who comes
 * and leaves; what it is told may lag behind, so a bound is exact to what comes in between.
 *
 * What is against a bound is logged, once for each role's key, and how often at the end. A line
 * that has sent nothing but heartbeats comes to `most` as well, in days: it is shut and not named.
 *
 * Descriptors are the transport's: none is opened, read or closed here. */
#ifndef ETUDE_ROLES_VISITORS_H
#define ETUDE_ROLES_VISITORS_H

#include <etude/error.h>
#include <etude/job_config.h>

typedef struct et_visitors et_visitors;

typedef struct et_visitors_setup {
    const char *address; /* that they come to, for the log; borrowed */
    int64_t most, all;   /* bytes */
    int places;          /* connections with a key that stay */
    double handshake;    /* seconds after which who has shown no key is gone */
} et_visitors_setup;

int et_visitors_open(et_visitors **out, const et_visitors_setup *setup, et_error *error);
/* Logs how many were shut. */
void et_visitors_close(et_visitors *visitors); /* NULL allowed */

/* ---- the thread that is told; now: seconds, as in the others */

void et_visitors_came(et_visitors *visitors, int descriptor, double now);
void et_visitors_left(et_visitors *visitors, int descriptor);
/* Somebody has shown a role's key. */
void et_visitors_showed(et_visitors *visitors, et_job_role role, double now);
/* Looks at all of them and shuts whom it has to. */
void et_visitors_look(et_visitors *visitors, double now);

/* ---- any thread */

/* Bytes of a connection, as they were sent, have left the transport. */
void et_visitors_took(et_visitors *visitors, int descriptor, et_job_role role, size_t bytes);
/* It has sent what no task sends (why: static): shut when next looked at. */
void et_visitors_refuse(et_visitors *visitors, int descriptor, const char *why);

#endif
