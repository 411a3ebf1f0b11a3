/* Optimizers: rules that turn gradients into a change of parameters, with schedule, clipping and
 * average. An optimizer is made over what is trained, over those whose names begin with a prefix,
 * or over a group, once the store has been materialized. Several may divide among them what one
 * pass has derived, as parameter groups: each updates its own.
 *
 *     et_optimizer_setup setup = { .rule = "sgd", .learning_rate = 0.1 };
 *     if (et_optimizer_open(&optimizer, device, params, "generator/", &setup, &error)) ...
 *     if (et_pass_run(pass, batch, seed, n, &error) ||
 *         et_optimizer_update(optimizer, pass, &update, &error)) ...
 *     printf("update %d, rate %g\n", (int)et_optimizer_iterations(optimizer),
 *            et_optimizer_learning_rate(optimizer));
 *     et_optimizer_set_learning_rate(optimizer, 0.01, &error);         in place of the schedule's
 *
 *     et_optimizer_share_out(optimizer, comm, &error);                 each rank keeps a part
 *
 * It borrows device and store. One thread. */
#ifndef ETUDE_OPTIMIZER_H
#define ETUDE_OPTIMIZER_H

#include <etude/comm.h>
#include <etude/group.h>
#include <etude/pass.h>
#include <etude/state.h>

typedef struct et_optimizer et_optimizer;

/* {0} is Adam with a learning rate of 0.001. */
typedef struct et_optimizer_setup {
    /* "sgd", "rmsprop", "adagrad", "adam", "adamw", "lamb", "lars", "adafactor_keras", "muon", and
     * Keras's "sgd_experimental", "adam_experimental", "adamw_experimental"; NULL: adam */
    const char *rule;
    double learning_rate; /* constant; 0: 0.001 */
    /* YAML on top of both, with the names of the command's trainer.optimizer_config:
     * "{ema: {enabled: true}, learning_rate: {type: cosine, cosine: {...}}}". NULL: nothing. */
    const char *settings;
    const et_group *group; /* what it updates, in place of trains; copied. NULL: as trains says */
} et_optimizer_setup;

/* What an update did. */
typedef struct et_update {
    double gradient_norm; /* global L2 norm of gradient * gradient_scale, before clipping */
    double learning_rate; /* the schedule's value used */
    bool finite;          /* false: the norm is not finite and nothing was changed */
} et_update;

/* trains: a prefix of names; NULL: all. setup NULL: the default. ET_ECONFIG: a rule, a name or a
 * setting that there is not; a group beside trains, or of another store. */
ET_API int et_optimizer_open(et_optimizer **out, et_device *device, et_params *params,
                             const char *trains, const et_optimizer_setup *setup, et_error *error);
ET_API void et_optimizer_free(et_optimizer *optimizer); /* NULL allowed */

/* Has each of several ranks keep the slots of a part of what is trained alone, and update that; the
 * other weights come from who has done so (ZeRO stage 1): less memory, the bits of one process. All
 * ranks do so with the same optimizer, before it is added to a state. From then on each of its
 * updates, by et_shards_update (shards.h) or by et_optimizer_update of the same batch, is one of
 * all ranks, and saves are those of a loop or a controller, by all. A task trainer's is
 * et_comm_options.sharded_optimizer's. comm is borrowed; NULL, or of one rank: it stays whole.
 * ET_EUSAGE: too late. After another failure it is only to be freed. */
ET_API int et_optimizer_share_out(et_optimizer *optimizer, et_comm *comm, et_error *error);

/* Weights have got their initial values since open: an average begins from them. */
ET_API void et_optimizer_start(et_optimizer *optimizer);

/* The gradient that the pass's last run left in the store, over its divisor, as one update; its
 * moving means (et_moving_mean) move too, with the first update by that run. Of a batch in which no
 * row counts (divisor 0) the gradient is zero, and the update one like any other. update may be
 * NULL. ET_EUSAGE: the pass is not for training, of another store, does not derive by all that the
 * optimizer changes (et_pass_options.trains), or has not run. ET_EDIVERGED: the loss or a gradient
 * is not finite; nothing was changed. ET_EIO: ranks share it, and one is lost. */
ET_API int et_optimizer_update(et_optimizer *optimizer, et_pass *pass, et_update *update,
                               et_error *error);

/* Updates done so far; the learning rate that the next one would use. */
ET_API int64_t et_optimizer_iterations(const et_optimizer *optimizer);
ET_API double et_optimizer_learning_rate(const et_optimizer *optimizer);

/* A rate in place of the schedule's, from the next update on; NaN: the schedule's again. It is no
 * part of the state: whoever sets it does so again in a run that resumes. ET_ECONFIG: negative, or
 * infinite. */
ET_API int et_optimizer_set_learning_rate(et_optimizer *optimizer, double rate, et_error *error);

/* Attaches all weights; attaches slots and iterations under name ("optimizer", "optimizer/d"). */
ET_API int et_state_add_params(et_state *state, et_params *params, et_error *error);
ET_API int et_state_add_optimizer(et_state *state, const char *name, et_optimizer *optimizer,
                                  et_error *error);

#endif
