/* The members of a pack: the settings of each member, which are drawn at random, and its part of
 * the optimizer. A draw is a function of (settings_seed, number of the member), so a member is the
 * same in every pack. */
#ifndef ETUDE_TASKS_TABULAR_PACK_MEMBERS_H
#define ETUDE_TASKS_TABULAR_PACK_MEMBERS_H

#include <etude/graph.h>

#include "base/arena.h"
#include "engine/optim/options.h"
#include "tasks/tabular/tabular_options.h"

#define ET_PACK_MEMBERS_MAX 4096

/* Names of parameters of member 3 begin with "member_3/": its layers have "member_3/layer_0/weight"
 * and "bias". */
#define ET_PACK_MEMBER "member"
#define ET_PACK_LAYER  "layer"

typedef struct et_pack_member {
    int64_t number;
    int64_t num_layers;         /* 1 to 3 */
    double dropout;             /* 0 of half of the members, else up to 0.5 */
    et_tabular_columns columns; /* cosines of each number, and the deviation of their frequencies */
    double matrix_rate;         /* learning rate of the layers' matrices, of Muon */
    double rate, weight_decay;  /* learning rate of the other parameters; decay of all parameters */
} et_pack_member;

/* Number of members of a pack: the length of `only`, or `members`. */
int64_t et_pack_count(const et_tabular_pack *pack);

/* The i-th of them. The settings have been checked. */
et_pack_member et_pack_member_at(const et_tabular_pack *pack, int64_t i);

/* ET_ECONFIG: `only` has a text that is no number of a member, or a number twice. */
int et_pack_check(const et_tabular_pack *pack, et_error *error);

/* Settings of an optimizer with two more parameter groups for each member: the layers' matrices,
 * and the rest. The learning rate of the settings is a factor on the members' rates. Only the
 * update rule muon has a rate for matrices. New values live in arena. */
int et_pack_optimization(et_optimization_options *out, const et_optimization_options *from,
                         const et_tabular_pack *pack, et_arena *arena, et_error *error);

#endif
