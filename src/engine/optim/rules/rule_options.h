/* Settings of update rules, `trainer.optimizer_config.optimizer`: a struct for each row of
 * rules.def, with Model Garden's names and defaults (muon's are Etude's). All are in one struct,
 * whose `type` chooses one; the others keep their values and are ignored. The first comment of each
 * rule's file has its formula.
 *
 * Every rule clips, in this order: clipvalue, the largest absolute value of an element; clipnorm,
 * the largest L2 norm of a parameter's gradient; global_clipnorm, that of all together. 0: none. As
 * in Keras, clipnorm and global_clipnorm exclude each other.
 *
 * Lists have regular expressions that are searched in names of parameters. jit_compile, which asks
 * TensorFlow for a compiled update, is read and has no effect: every update is compiled. */
#ifndef ETUDE_ENGINE_OPTIM_RULES_RULE_OPTIONS_H
#define ETUDE_ENGINE_OPTIM_RULES_RULE_OPTIONS_H

#include <etude/dtype.h>
#include <etude/error.h>
#include <etude/optimizer_rule.h>

#include "base/fields/fields.h"

/* optimizer.type. NONE is Model Garden's null: a choice must be made. */
enum {
    ET_OPTIMIZER_NONE,
#define RULE(ID, name, help) ET_OPTIMIZER_##ID,
#include "engine/optim/rules/rules.def"
#undef RULE
    ET_OPTIMIZER_COUNT
};

/* decay divides the rate by 1 + decay * step, in addition to the schedule; the experimental class
 * has none. momentum 0: no slot is kept. */
typedef struct et_sgd_options {
    double momentum, decay, clipvalue, clipnorm, global_clipnorm;
    bool nesterov, jit_compile;
} et_sgd_options;
typedef et_sgd_options et_sgd_experimental_options;

/* rho: share of the mean squares that a step keeps; centered: less the square of the mean. */
typedef struct et_rmsprop_options {
    double rho, momentum, epsilon, clipvalue, clipnorm, global_clipnorm;
    bool centered;
} et_rmsprop_options;

typedef struct et_adagrad_options {
    double initial_accumulator_value, epsilon, clipvalue, clipnorm, global_clipnorm;
} et_adagrad_options;

/* Decays of the two moments, and the number that is added to the root of the second (outside the
 * bias correction, as in Keras). amsgrad: divides by the largest second moment so far.
 *
 * adamw: Adam after w -= rate * weight_decay_rate * w. Which names decay: those found by an include
 * expression, and of the others those not found by an exclude expression. adamw_experimental has
 * weight_decay and no lists. Each table has only some of the members. */
typedef struct et_adam_options {
    double beta_1, beta_2, epsilon, clipvalue, clipnorm, global_clipnorm;
    double weight_decay_rate, weight_decay;
    et_strings include_in_weight_decay;   /* regular expressions searched in names: decays */
    et_strings exclude_from_weight_decay; /* does not decay, unless included */
    double gradient_clip_norm;            /* as global_clipnorm, before all other clips */
    bool amsgrad, jit_compile;
} et_adam_options;
typedef et_adam_options et_adam_experimental_options;
typedef et_adam_options et_adamw_options;
typedef et_adam_options et_adamw_experimental_options;

/* Tensors excluded from layer adaptation keep the schedule's rate. An empty list means that of
 * exclude_from_weight_decay. decay as sgd's. */
typedef struct et_lamb_options {
    double beta_1, beta_2, epsilon, clipvalue, clipnorm, global_clipnorm, weight_decay_rate, decay;
    et_strings exclude_from_weight_decay, exclude_from_layer_adaptation;
} et_lamb_options;

/* classic_momentum: the rate is applied before momentum, else after it. Lists as lamb's. */
typedef struct et_lars_options {
    double momentum, eeta, clipvalue, clipnorm, global_clipnorm, weight_decay_rate;
    bool nesterov, classic_momentum;
    et_strings exclude_from_weight_decay, exclude_from_layer_adaptation;
} et_lars_options;

/* Its rate is the schedule's. */
typedef struct et_adafactor_keras_options {
    double beta_2_decay, epsilon_1, epsilon_2, clip_threshold;
    double clipvalue, clipnorm, global_clipnorm;
    bool relative_step;
} et_adafactor_keras_options;

/* How long a step of an orthogonalized matrix [rows, columns] is, for a rate of 1. */
enum {
    ET_MUON_RMS,   /* as Adam's: each element about 0.2 */
    ET_MUON_SHAPE, /* spectral norm sqrt(max(1, columns / rows)) */
};

/* An et_dtype, or the faster one on this CPU. */
enum { ET_MUON_AUTO = ET_BF16 + 1 };

/* Matrices that no expression of exclude_from_orthogonalization matches; embeddings and the layer
 * before a softmax should match. All other parameters use Adam, with adam_rate times the rate. */
typedef struct et_muon_options {
    double momentum, weight_decay_rate, beta_1, beta_2, epsilon, adam_rate;
    double clipvalue, clipnorm, global_clipnorm;
    int64_t iterations;          /* of the orthogonalization */
    int scale;                   /* ET_MUON_RMS, ET_MUON_SHAPE */
    int orthogonalization_dtype; /* of its products' operands: ET_F32, ET_BF16, ET_MUON_AUTO */
    bool nesterov;
    et_strings exclude_from_weight_decay, exclude_from_orthogonalization;
} et_muon_options;

typedef struct et_optimizer_options {
    int type; /* ET_OPTIMIZER_*; from ET_OPTIMIZER_COUNT on: of `own`, which is then set */
#define RULE(ID, name, help) et_##name##_options name;
#include "engine/optim/rules/rules.def"
#undef RULE
    const et_optimizer_rule *const *own;  /* of the program, ended by NULL */
    void *own_settings[ET_OWN_RULES_MAX]; /* [size] of each */
} et_optimizer_options;

/* For nesting into optimizer_config, and the table of each rule's settings. */
extern const et_fields et_optimizer_fields;
#define RULE(ID, name, help) extern const et_fields et_rule_##name##_fields;
#include "engine/optim/rules/rules.def"
#undef RULE

/* Adds the program's rules (NULL: none): their settings, with their defaults, to options, and their
 * rows to *table, all in arena. ET_EUSAGE: rules that are incomplete or have a name twice. */
int et_optimizer_register(const et_fields **table, et_optimizer_options *options,
                          const et_optimizer_rule *const *own, et_arena *arena, et_error *error);

/* The type of that name; ET_OPTIMIZER_NONE: no such type. own NULL: of Etude's rules only. Names of
 * these, with commas. */
int et_optimizer_type(const char *name, const et_optimizer_rule *const *own);
extern const char *const et_optimizer_names;

/* Checks that a type is chosen, clips do not exclude each other, and expressions compile.
 * Expressions of all rules are checked, chosen or not, since a wrong one makes the file wrong.
 * ET_ECONFIG. */
int et_optimizer_options_check(const et_optimizer_options *options, et_error *error);

#endif
