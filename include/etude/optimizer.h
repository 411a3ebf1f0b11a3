/* Optimizers: rules that update parameters from gradients, with schedule, clipping and average. An
 * optimizer updates all trained parameters, those whose names begin with a prefix, or a group. The
 * store must be materialized. Several optimizers may divide the gradients of one pass among them,
 * as parameter groups: each updates its own parameters.
 *
 *     et_optimizer_setup setup = { .rule = "sgd", .learning_rate = 0.1 };
 *     if (et_optimizer_open(&optimizer, device, params, "generator/", &setup, &error)) ...
 *     if (et_pass_run(pass, batch, seed, n, &error) ||
 *         et_optimizer_update(optimizer, pass, &update, &error)) ...
 *     printf("update %d, rate %g\n", (int)et_optimizer_iterations(optimizer),
 *            et_optimizer_learning_rate(optimizer));
 *     et_optimizer_set_learning_rate(optimizer, 0.01, &error);         instead of the schedule
 *
 *     et_pass_set_dropout(pass, et_optimizer_regularization(optimizer));
 *
 *     et_optimizer_shard(optimizer, comm, &error);                 each rank keeps a part
 *
 * For update rules of the program see optimizer_rule.h. Borrows device and store. Use from one
 * thread. */
#ifndef ETUDE_OPTIMIZER_H
#define ETUDE_OPTIMIZER_H

#include <etude/comm.h>
#include <etude/group.h>
#include <etude/optimizer_settings.h>
#include <etude/pass.h>
#include <etude/state.h>

typedef struct et_optimizer et_optimizer;

/* {0} is Adam with a learning rate of 0.001. Structs and texts are needed during open only. */
typedef struct et_optimizer_setup {
    /* "sgd", "rmsprop", "adagrad", "adam", "adamw", "lamb", "lars", "adafactor_keras", "muon", and
     * Keras's "sgd_experimental", "adam_experimental", "adamw_experimental"; NULL: adam */
    const char *rule;
    /* The program's own rules, ended by NULL, which rule and settings may name
     * (optimizer_rule.h); static. NULL: none. */
    const struct et_optimizer_rule *const *rules;
    const void *rule_options; /* settings of `rule`, which is one of these: its struct, all members
                                 set. NULL: the defaults of its table */
    double learning_rate;     /* constant; 0: 0.001 */
    /* Settings of a rule (optimizer_settings.h), which choose the rule as well; at most one. */
    const et_sgd *sgd;
    const et_rmsprop *rmsprop;
    const et_adagrad *adagrad;
    const et_adam *adam;
    const et_adamw *adamw;
    const et_lamb *lamb;
    const et_lars *lars;
    const et_muon *muon;
    /* Parameters with their own rate and decay; the others have the rule's. NULL and 0: none. */
    const et_parameter_group *parameter_groups;
    int parameter_group_count;
    /* A schedule instead of learning_rate; at most one. */
    const et_schedule_cosine *cosine;
    const et_schedule_polynomial *polynomial;
    const et_schedule_exponential *exponential;
    const et_schedule_inverse_sqrt *inverse_sqrt;
    int64_t warmup_steps; /* number of updates in which the rate grows linearly from 0; 0: none */
    double average_decay; /* of a moving average of the weights, 0.999; 0: no average */
    /* YAML that overrides all this, with the names of the command's
     * trainer.optimizer_config: "{ema: {enabled: true}, learning_rate: {type: cosine, cosine:
     * {...}}}". NULL: none. */
    const char *settings;
    const et_group *group; /* parameters to update, instead of trains; copied. NULL: trains */
} et_optimizer_setup;

/* The result of an update. */
typedef struct et_update {
    double gradient_norm; /* global L2 norm of gradient * gradient_scale, before clipping */
    double learning_rate; /* the learning rate used */
    bool finite;          /* false: the norm is not finite, and nothing has changed */
} et_update;

/* trains: a prefix of names; NULL: all. setup NULL: the default. ET_ECONFIG: an unknown rule, name
 * or setting; a group together with trains, or of another store. */
ET_API int et_optimizer_open(et_optimizer **out, et_device *device, et_params *params,
                             const char *trains, const et_optimizer_setup *setup, et_error *error);
ET_API void et_optimizer_free(et_optimizer *optimizer); /* NULL allowed */

/* Divides an optimizer among ranks (ZeRO stage 1): each rank keeps the slots of some parameters,
 * updates these, and gets the other weights from the other ranks. This saves memory, and results
 * have the bits of one process. All ranks call the function for the same optimizer, before the
 * optimizer is added to a state. Afterwards every update, by et_shards_update (shards.h) or by
 * et_optimizer_update of the same batch, is made by all ranks together. Saves are made by all ranks
 * together, by a loop or a controller. For a task trainer use et_comm_options.sharded_optimizer.
 * comm is borrowed; NULL or one rank: no effect. ET_EUSAGE: called too late. After another failure
 * only free the optimizer. */
ET_API int et_optimizer_shard(et_optimizer *optimizer, et_comm *comm, et_error *error);

/* Call this when weights got their initial values after open: an average then starts from them. */
ET_API void et_optimizer_start(et_optimizer *optimizer);

/* One update with the gradient of the pass's last run, divided by its divisor. The first update
 * after a run also updates its moving means (et_moving_mean). If no row of the batch counts
 * (divisor 0), the gradient is zero and the update is made as usual. update may be NULL.
 * - ET_EUSAGE: the pass is not for training, has another store, has not run, or does not derive by
 *   all parameters of the optimizer (et_pass_options.trains).
 * - ET_EDIVERGED: the loss or a gradient is not finite; nothing has changed.
 * - ET_EIO: the optimizer is divided among ranks, and a rank is lost. */
ET_API int et_optimizer_update(et_optimizer *optimizer, et_pass *pass, et_update *update,
                               et_error *error);

/* Number of updates so far; learning rate of the next update. */
ET_API int64_t et_optimizer_iterations(const et_optimizer *optimizer);
ET_API double et_optimizer_learning_rate(const et_optimizer *optimizer);

/* The factor on weight decay in the next update, by the settings' group `regularization`; 1 without
 * it. A program's own loop passes this factor to et_pass_set_dropout before each run. */
ET_API double et_optimizer_regularization(const et_optimizer *optimizer);

/* Sets the rate from the next update on, instead of the schedule; NaN: the schedule again. The
 * state does not contain it: set it again in a resumed run. ET_ECONFIG: negative or infinite. */
ET_API int et_optimizer_set_learning_rate(et_optimizer *optimizer, double rate, et_error *error);

/* add_params attaches all weights. add_optimizer attaches slots and iterations under name
 * ("optimizer", "optimizer/d"). */
ET_API int et_state_add_params(et_state *state, et_params *params, et_error *error);
ET_API int et_state_add_optimizer(et_state *state, const char *name, et_optimizer *optimizer,
                                  et_error *error);

#endif
