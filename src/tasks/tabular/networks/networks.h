/* Models of tables: from the columns of a batch to outputs and a loss; the settings' type chooses
 * the model.
 *
 * TabPack (Gorishniy, Kotelnikov, Rubachev and Babenko 2026): many networks with different settings
 * (tasks/tabular/members.h) are trained as one graph. Its loss is the sum of their losses, so no
 * gradient of a member depends on another member. After each validation, variables keep the best
 * weights of each member, and an ensemble of these is chosen (et_pack_follow). The ensemble
 * predicts. Members that are done leave the training graph and the optimizer's updates; the store
 * keeps them.
 *
 *   member_3/...       parameters
 *   best/member_3/...  variables: its best parameters so far
 *   ensemble/share     [members]: weights of the mean of predictions, 0: not in the ensemble
 *   ensemble/loss      [members]: loss of the best parameters on the validation rows
 *   ensemble/since     [members]: validations since the best, which counts as one; 0: none yet */
#ifndef ETUDE_TASKS_TABULAR_NETWORKS_NETWORKS_H
#define ETUDE_TASKS_TABULAR_NETWORKS_NETWORKS_H

#include <etude/layers.h>
#include <etude/value.h>

#include "tasks/tabular/tabular_task.h"

/* Adds the model of the settings, except a pack. The graph's batches have the encoder's fields.
 * Result: [rows, members * outputs] float32, logits or standardised values; poison if the model is
 * impossible. */
et_node *et_tabular_model_build(et_scope *scope, const et_tabular_model *model,
                                const et_encoder *encoder, int64_t outputs);

/* Replaces the initial values of a store by the model's own. */
int et_tabular_model_begin(et_params *params, const et_tabular_model *model,
                           const et_encoder *encoder, et_error *error);

/* Sets parts of a model from the training rows before the first step (bins of its columns). The
 * store has its initial values. */
int et_tabular_model_fit(et_params *params, const et_tabular_model *model,
                         const et_encoder *encoder, et_samples *samples, et_error *error);

/* Variables of a model's target. */
#define ET_TABULAR_TARGET_SCOPE "target"
#define ET_TABULAR_MEAN         "mean"
#define ET_TABULAR_DEVIATION    "deviation"
#define ET_TABULAR_CLASS_WEIGHT "weight"

/* The output of a pack's validation: predictions of its members (et_pack_rows). */
#define ET_TABULAR_MEMBERS "members"

/* ---- losses.c ---- */

/* Adds the model to a scope, for batches of the encoder's layout (targets are not read), and its
 * outputs with the names above. Returns the node for et_tabular_build_loss. which: [members] of a
 * pack, true if the graph has the member. A training graph has the members that are not done, a
 * prediction graph the members of the ensemble. NULL: all. */
et_node *et_tabular_build_outputs(et_scope *scope, const et_tabular_options *options,
                                  const et_encoder *encoder, const et_tabular_target *target,
                                  const bool *which);

/* Names the output of a training graph, made from its z, for metrics of a program. */
void et_tabular_name_output(et_scope *scope, const et_tabular_target *target, et_node *z);
void et_tabular_build_loss(et_scope *scope, const et_tabular_options *options,
                           const et_tabular_target *target, et_node *labels, et_node *outputs);

/* ---- pack_ensemble.c ---- */

/* Greedy choice of an ensemble (Caruana, Niculescu-Mizil, Crew and Ksikes 2004, "Ensemble Selection
 * from Libraries of Models"). Each round adds the candidate that gives the mean prediction the
 * lowest loss; a candidate may be added several times. The ensemble is the prefix of this sequence
 * with the lowest loss. One round chooses the best candidate alone. If candidates are equally good,
 * the first one is chosen. */
typedef struct et_greedy {
    int64_t candidates, rounds; /* at least 1 each */
    size_t cells;               /* numbers of a prediction */
    const void *from;           /* first argument of both functions */
    void (*add)(const void *from, double *sum, int64_t candidate); /* its prediction, to [cells] */
    double (*loss)(const void *from, const double *sum, int64_t count); /* of the mean of count */
} et_greedy;

/* share: [candidates], how often each was chosen, divided by the number of choices. */
int et_greedy_choose(const et_greedy *greedy, double *share, et_error *error);

/* The work after a validation of a pack. If the loss of a member on the validation rows is its
 * lowest so far, its weights are kept as its best weights. After `patience` validations without a
 * lower loss, a member is done and is not trained further. Then an ensemble is chosen from the best
 * weights of all members. All results are variables of the store, so checkpoints contain them. */
#define ET_PACK_BEST     "best"
#define ET_PACK_ENSEMBLE "ensemble"
#define ET_PACK_SHARE    "share"
#define ET_PACK_LOSS     "loss"
#define ET_PACK_SINCE    "since"

/* The rows of a validation. */
typedef struct et_pack_rows {
    int64_t count;        /* rows */
    int64_t width;        /* predictions of a member for a row: classes, 1 (of class 1), targets */
    const double *weight; /* [count]; 0: the row has no result */
    const int32_t *class; /* [count]; below 0: no label. NULL: values */
    const double *target; /* [count, width] of values, standardised; NULL: classes */
    /* [count, 2, members, width]: probabilities, or standardised values, of members as they are,
     * then at their best */
    const float *members;
    float *mean; /* [count, width]: set to the prediction of the new ensemble */
} et_pack_rows;

/* Adds the number of members in the ensemble to logs. ET_ECONFIG: the store lacks the variables,
 * because no validation graph was built. ET_EDIVERGED: no member's predictions are finite. */
int et_pack_follow(et_params *params, const et_tabular_pack *pack, const et_pack_rows *rows,
                   et_value *logs, et_error *error);

/* Sets the rows' mean to predictions for an unbiased score. The rows are divided into five parts.
 * Each part is predicted by an ensemble of the members' best weights, chosen on the other four
 * parts. The store does not change. Errors as above. */
int et_pack_cross_fit(et_params *params, const et_tabular_pack *pack, const et_pack_rows *rows,
                      et_error *error);

/* Updates the part after a validation or a restore. *again: the part has changed. If all members
 * are done, the part does not change. */
int et_pack_part_follow(et_pack_part *part, et_params *params, const et_tabular_pack *pack,
                        bool *again, et_error *error);
void et_pack_part_release(et_pack_part *part);

/* Starts a training: no member has best weights, and the ensemble is empty, even if weights come
 * from another run. rated: an optimizer has the members' rates. Errors as above. */
int et_pack_begin(et_params *params, const et_tabular_pack *pack, bool rated, et_error *error);

/* Returns ET_ECONFIG: a pack cannot be trained in this way. */
int et_pack_refuse(et_error *error);

#endif
