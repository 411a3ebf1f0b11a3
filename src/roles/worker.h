/* A worker's protocol: it joins, gets a ticket, pulls the weights of all servers, lets its caller
 * compute a gradient, pushes it to all servers, reports, and gets the next ticket. The caller
 * passes messages and time, and looks at `phase`:
 *
 *     et_worker_start(w, now);
 *     for (;;) {
 *         ... et_worker_receive(w, now, &message); et_worker_tick(w, now); ...
 *         if (w->phase == ET_WORKER_COMPUTES) {
 *             ... gradients of the weights that `pulled` got ...
 *             et_worker_computed(w, now, gradients, report);
 *         } else if (w->phase == ET_WORKER_ENDED) ...
 *     }
 *
 * A ticket is computed once. No threads; allocates only at open.
 *
 * One step of a worker:
 *
 *     worker -> master    ASK    result of the last ticket; position of its data
 *     master -> worker    GO     a ticket, the lowest version of all servers, and the number of
 *                                updates that will be made before the gradient's own
 *     worker -> servers   PULL   VALUES come back, predicted for that update
 *     worker -> servers   PUSH   the gradient is kept (STAGED); nothing else changes
 *     worker -> master    ASK    the ticket is done
 *     master -> servers   ADD    the gradient is part of the next update (DONE)
 *     master -> servers   APPLY  the update, once it has all its gradients (DONE)
 *
 * Only the master orders updates; all servers make an update once, or none does. Between two
 * updates, all servers have the state of the same step. Every message may be lost, repeated or
 * late. So questions have sequence numbers, and both questions and answers are repeated. */
#ifndef ETUDE_ROLES_WORKER_H
#define ETUDE_ROLES_WORKER_H

#include <etude/error.h>

#include "base/arena.h"
#include "roles/wire/message.h"

typedef enum et_worker_phase {
    ET_WORKER_JOINS,
    ET_WORKER_ASKS,
    ET_WORKER_PULLS,
    ET_WORKER_COMPUTES, /* the driver's turn */
    ET_WORKER_PUSHES,
    ET_WORKER_ENDED, /* all is done; or lost, which says why */
} et_worker_phase;

typedef struct et_worker_setup {
    et_link *link;
    int servers, index;    /* which worker */
    const int64_t *floats; /* [servers]: weights of each; copied */
    size_t report_size;    /* bytes; the last place_size of them are the place in the data */
    size_t position_size;
    size_t greeting_size; /* bytes that the worker gets when it joins, after its place */
    uint64_t nonce;       /* start time in nanoseconds, by any clock: the first sequence number. If
                             two workers have the same number, the later one counts */
    uint64_t fingerprint; /* hash of model and settings, equal in all tasks */
    double patience;      /* seconds without an answer after which the others are lost */
    void *self;
    /* weights [floats[server]] of a server; need not be aligned. */
    void (*pulled)(void *self, int server, const void *weights);
    /* The place to continue in the data [place_size], and further bytes from the master
     * [greeting_size]; not aligned. */
    void (*welcomed)(void *self, const void *position, const void *greeting);
} et_worker_setup;

typedef struct et_worker {
    et_worker_setup setup;
    et_arena arena; /* of all arrays */
    et_worker_phase phase;
    uint64_t run, session, sequence;
    int64_t ticket, version;
    double before;  /* updates that are expected before its own */
    int left;       /* servers that have not answered yet */
    double squares; /* of the gradient, as servers have counted them */
    et_asking master;
    et_asking *server; /* [servers] */
    unsigned char *report;
    char lost[ET_MESSAGE_TEXT + 1]; /* ET_WORKER_ENDED: the reason, if the worker ended without
                                       being told; "": told to end */
} et_worker;

int et_worker_open(et_worker *worker, const et_worker_setup *setup, et_error *error);
void et_worker_release(et_worker *worker);

void et_worker_start(et_worker *worker, double now);
void et_worker_receive(et_worker *worker, double now, const et_message *message);
void et_worker_tick(et_worker *worker, double now);

/* gradients [servers][floats], borrowed until the phase is ET_WORKER_ASKS again; report
 * [report_size], copied. The report of a gradient that is not finite has a divisor of 0, so no
 * update uses the gradient. */
void et_worker_computed(et_worker *worker, double now, const float *const *gradients,
                        const void *report);

#endif
