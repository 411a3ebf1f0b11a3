/* Settings of update rules, `trainer.optimizer_config.optimizer`: a struct for each row of
 * rules.def, with Model Garden's names and defaults (muon's are Etude's).
 * <etude/optimizer_settings.h> has most of these structs: a program gives them to
 * et_optimizer_setup, and the table that is with the rule describes their members for every reader
 * and printer. One struct has all of them. Its `type` chooses a rule; settings of other rules keep
 * their values and are ignored.
 *
 * jit_compile, which asks TensorFlow for a compiled update, is read and has no effect: every update
 * is compiled. */
#ifndef ETUDE_ENGINE_OPTIM_RULES_RULE_OPTIONS_H
#define ETUDE_ENGINE_OPTIM_RULES_RULE_OPTIONS_H

#include <etude/error.h>
#include <etude/optimizer_rule.h>
#include <etude/optimizer_settings.h>

#include "base/fields/fields.h"

/* optimizer.type. NONE is Model Garden's null: a choice must be made. */
enum {
    ET_OPTIMIZER_NONE,
#define RULE(ID, name, help) ET_OPTIMIZER_##ID,
#include "engine/optim/rules/rules.def"
#undef RULE
    ET_OPTIMIZER_COUNT
};

/* Rules without a struct in et_optimizer_setup. Rules with Keras's newer names have the settings of
 * the older rules, without sgd's decay; adamw_experimental has weight_decay and no lists. */
typedef struct et_sgd_experimental {
    et_sgd sgd;
    bool jit_compile;
} et_sgd_experimental;

typedef struct et_adam_experimental {
    et_adam adam;
    bool jit_compile;
} et_adam_experimental;

typedef struct et_adamw_experimental {
    et_adam adam;
    double weight_decay;
    bool jit_compile;
} et_adamw_experimental;

/* Its rate is the schedule's. */
typedef struct et_adafactor_keras {
    double beta_2_decay, epsilon_1, epsilon_2, clip_threshold;
    double clipvalue, clipnorm, global_clipnorm;
    bool relative_step;
} et_adafactor_keras;

typedef struct et_optimizer_options {
    int type; /* ET_OPTIMIZER_*; from ET_OPTIMIZER_COUNT on: of `own`, which is then set */
#define RULE(ID, name, help) et_##name name;
#include "engine/optim/rules/rules.def"
#undef RULE
    const et_optimizer_rule *const *own;  /* of the program, ended by NULL */
    void *own_settings[ET_OWN_RULES_MAX]; /* [size] of each */
} et_optimizer_options;

/* The table of each rule's settings. */
#define RULE(ID, name, help) extern const et_fields et_rule_##name##_fields;
#include "engine/optim/rules/rules.def"
#undef RULE

#endif
