/* The master's protocol. Only the master decides which worker may compute when (a ticket), and
 * which gradients form an update. It asks all servers one question at a time. So all servers have
 * the same version, and either all servers make an update or none does.
 *
 *   asynchronous   an update is the sum of the next `gradients` finished gradients; their workers
 *                  continue as soon as the servers have added them. Staleness (updates between the
 *                  weights of a gradient and its own update) is at most max_staleness: the master
 *                  gives only as many tickets as can be in time, and a gradient waits if it would
 *                  make an older one too late. The oldest never waits, so there is no deadlock. A
 *                  worker whose next gradient would be late waits for the current update, but at
 *                  most `waits` times the duration of its last gradient. So workers of about equal
 *                  speed stay together, and a slow one delays nobody.
 *   synchronous    an update is the sum of the gradients of all workers with a ticket of its
 *                  version; a worker that joins late takes part in the next update.
 *
 * A ticket that is not done in time expires, and its gradient is never used. The time is `lease` at
 * first. After the first finished ticket, it is the larger of `patience` and ten times the duration
 * of the slowest ticket, but at most `lease`. A restarted worker replaces the worker with the same
 * number and ends that worker's session.
 *
 * Updates are made while version < target. Between two updates, the state of all servers is that of
 * one step. If an update is never made, its gradients are lost, like unfinished gradients. No
 * threads; allocates only at open. */
#ifndef ETUDE_ROLES_MASTER_H
#define ETUDE_ROLES_MASTER_H

#include <etude/error.h>

#include "base/arena.h"
#include "roles/param_server.h"
#include "roles/wire/message.h"

/* The result of a ticket. */
typedef struct et_master_report {
    int worker;
    int64_t staleness;
    const unsigned char *bytes; /* [report_size], borrowed */
} et_master_report;

typedef struct et_master_setup {
    et_link *link;
    int servers, workers;
    const int64_t *state; /* [servers]: floats of the state of each; copied */
    size_t report_size, position_size;
    size_t greeting_size; /* bytes for a worker that joins, after its place */
    uint64_t run;         /* not 0; another one each time */
    uint64_t fingerprint;
    double patience; /* a server that does not answer for this many seconds is lost */
    double lease;    /* most seconds for a ticket */
    int64_t max_staleness;
    int64_t gradients; /* of an update, at least 1 */
    double waits;      /* 0: workers never wait for others */
    bool synchronous;
    int64_t version;    /* updates done before */
    int64_t slots_from; /* of the optimizer */
    int64_t steps;      /* the last update; more tickets than are left are not given */
    void *self;
    /* The state that a server begins with; borrowed until opened. */
    const float *(*state_of)(void *self, int server);
    /* Writes the bytes for a worker that joins: [greeting_size]. */
    void (*greet)(void *self, unsigned char *greeting);
    /* Returns the divisor of a report's gradient; 0: the gradient must not be used, which ends the
     * run. */
    double (*divisor)(void *self, const unsigned char *report);
    /* The next update is done: of these. scale and norm as the servers had them. */
    void (*updated)(void *self, const et_master_report *reports, int count, double norm);
    /* Receives the state that et_master_read asked for; not aligned. */
    void (*state_read)(void *self, int server, const void *state);
} et_master_setup;

typedef enum et_master_phase {
    ET_MASTER_OPENS,
    ET_MASTER_WORKS,
    ET_MASTER_ENDS,  /* the master tells servers to end */
    ET_MASTER_ENDED, /* servers have acknowledged; workers are told when they ask */
    ET_MASTER_FAILED,
} et_master_phase;

/* The state of a worker. */
typedef enum et_standing {
    ET_STANDING_AWAY,  /* not joined, or its ticket was taken back */
    ET_STANDING_ASKS,  /* for a ticket */
    ET_STANDING_WORKS, /* it has one */
    ET_STANDING_DONE   /* its gradient is at the servers, and not added yet */
} et_standing;

typedef struct et_master_worker {
    et_standing standing;
    uint64_t nonce, session; /* 0: never there */
    bool admitted;           /* servers know the session */
    et_message question;     /* its last question, still to be answered; without bytes */
    et_message answer;       /* the last that was given */
    bool owed;
    int64_t ticket, version; /* under way or done */
    double given, squares;   /* given: when the ticket was */
    double done, took;       /* when it was done; seconds, 0: none was */
    unsigned char *report;   /* [report_size], of its last gradient */
    unsigned char *at;       /* [place_size], of its last used gradient */
} et_master_worker;

/* The gradients that servers were told to add. */
typedef struct et_master_adds {
    et_param_server_push *push; /* [workers] */
    int *part;                  /* [workers]: whose */
    int parts;
} et_master_adds;

/* The update under way. */
typedef struct et_master_update {
    int64_t most;              /* gradients that it may have */
    int64_t added;             /* that it has */
    et_master_report *reports; /* [most]: of these */
    unsigned char *kept;       /* [most][report_size]: their bytes */
    double squares, divisor, norm;
} et_master_update;

typedef struct et_master {
    et_master_setup setup;
    et_arena arena; /* of all arrays */
    et_master_phase phase;
    int64_t version, target, ticket;
    uint64_t sequence, session;
    et_asking *server;     /* [servers] */
    et_message_kind asked; /* the open question to all servers; NONE: no question */
    int left;              /* servers that have not answered */
    int admitting;         /* the worker that ADMIT admits; -1: none */
    bool wants_state, ends;
    et_master_adds adds;
    et_master_update update;
    double slowest;           /* seconds of the slowest finished ticket; 0: none was finished */
    unsigned char *greeting;  /* [place_size + greeting_size] */
    double reported;          /* time at which workers were told to end */
    et_master_worker *worker; /* [workers] */
    int status; /* ET_MASTER_FAILED: ET_EDIVERGED, of a gradient that is not finite, or ET_EIO */
    char failure[ET_MESSAGE_TEXT + 64];
} et_master;

/* To be released in any case. */
int et_master_open(et_master *master, const et_master_setup *setup, et_error *error);
void et_master_release(et_master *master); /* also of zeros */

void et_master_start(et_master *master, double now);
void et_master_receive(et_master *master, double now, const et_message *message);
void et_master_tick(et_master *master, double now);

/* The place in the data for a worker that joins: [place_size]; saved with a state. */
static inline unsigned char *et_master_position_of(et_master *master, int worker)
{
    return master->worker[worker].at;
}

/* The servers' state is read once no update is under way; state_read for each, then wants_state is
 * false. */
void et_master_read(et_master *master);

/* No more updates. phase becomes ET_MASTER_ENDED. */
void et_master_end(et_master *master);

/* Workers that have joined and not left. */
int et_master_present(const et_master *master);

/* Seconds that a ticket may take before its worker is considered lost: patience, or ten times the
 * slowest so far. */
double et_master_usual(const et_master *master);

#endif
