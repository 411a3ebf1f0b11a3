/* A parameter server's protocol. The server holds a slice of the weights and the optimizer's slots
 * for them. It keeps one gradient of each worker until the master assigns the gradient to an
 * update, adds the gradients of an update, and makes updates in the master's order. So all servers
 * make the same updates in the same order, each exactly once or not at all. The state that the
 * master reads belongs to one step, without gradients of the next update.
 *
 * The server ignores workers that the master has not admitted, and ended sessions. It answers a
 * ticket that was pushed before again, without a change. Allocates at open, and at the first push
 * of each worker. */
#ifndef ETUDE_ROLES_PARAM_SERVER_H
#define ETUDE_ROLES_PARAM_SERVER_H

#include <etude/error.h>

#include "base/arena.h"
#include "roles/wire/message.h"

/* The holder of weights and slots, which updates them; floats are in the order of the placement. */
typedef struct et_param_server_store {
    void *self;
    int64_t weights, state; /* floats: of the weights; of weights and slots */
    void (*weigh)(void *self, float *weights);
    void (*read)(void *self, float *state);
    /* iterations: updates done. */
    void (*write)(void *self, const float *state, int64_t iterations, int64_t slots_from);
    /* Updates with gradient [weights] times scale. norm: the global norm of this product. May
     * overwrite gradient. */
    void (*update)(void *self, float *gradient, double scale, double norm);
    bool predicts; /* workers get the weights predicted for the update of their gradient */
} et_param_server_store;

/* One gradient that is part of an update: the bytes of ADD and APPLY. */
typedef struct et_param_server_push {
    int64_t worker;
    uint64_t session;
    int64_t ticket;
} et_param_server_push;

typedef struct et_param_server_worker {
    uint64_t session; /* 0: not admitted */
    int64_t ticket;   /* of the gradient that is kept */
    bool staged;
    double squares;
    float *gradient; /* [weights], in the server's arena; NULL until its first push */
} et_param_server_worker;

typedef struct et_param_server {
    et_link *link;
    et_param_server_store store;
    int index, servers, workers;
    uint64_t fingerprint;
    uint64_t run; /* 0: no master has come yet */
    int64_t version;
    bool ended;
    uint64_t sequence; /* of the master's last question that was done */
    et_message answer; /* to it; its bytes are in buffer */
    et_arena arena;    /* of the arrays */
    et_param_server_worker *worker;
    float *buffer; /* [state] */
    float *sum;    /* [weights]: of the next update */
    bool begun;    /* it has gradients */
    float *last;   /* [weights]: before the last update; NULL: it does not predict */
} et_param_server;

int et_param_server_open(et_param_server *server, et_link *link, int index, int servers,
                         int workers, uint64_t fingerprint, const et_param_server_store *store,
                         et_error *error);
void et_param_server_release(et_param_server *server);

void et_param_server_receive(et_param_server *server, const et_message *message);

#endif
