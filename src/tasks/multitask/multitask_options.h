/* Settings of several tasks together. The table contains the settings of all kinds that a task may
 * have. In memory, a routine's own members come first, then the structs of all kinds, each at its
 * offset. task_config.type chooses the kind. */
#ifndef ETUDE_TASKS_MULTITASK_MULTITASK_OPTIONS_H
#define ETUDE_TASKS_MULTITASK_MULTITASK_OPTIONS_H

#include <etude/multitask_kind.h>
#include <etude/optimizer_rule.h>

#include "base/arena.h"

#define ET_MULTITASK_TASKS_MAX 16
#define ET_MULTITASK_KINDS_MAX 16

/* ORDER trainer_names, sampler_names in multitask_options.c */
enum { ET_MULTITASK_TRAINER_INTERLEAVING, ET_MULTITASK_TRAINER_JOINT };
enum {
    ET_MULTITASK_SAMPLER_UNIFORM,
    ET_MULTITASK_SAMPLER_PROPORTIONAL,
    ET_MULTITASK_SAMPLER_ANNEALING
};

typedef struct et_multitask_sampler {
    int type;                             /* ET_MULTITASK_SAMPLER_* */
    double alpha;                         /* proportional */
    int64_t steps_per_epoch, total_steps; /* annealing */
} et_multitask_sampler;

/* The settings of one task; the structs of all kinds follow in memory. */
typedef struct et_multitask_routine {
    const char *task_name;
    double task_weight; /* joint: weight of the loss; interleaving: used to draw the task */
    int64_t eval_steps; /* batches of its validation; 0: trainer.validation_steps */
    int type;           /* which kind */
    int64_t batch;      /* the settings' batch, if another size has replaced it; else 0 */
} et_multitask_routine;

typedef struct et_multitask_settings {
    const et_multitask_kind *of; /* the kind of these settings */
    const char *init_checkpoint, *init_pattern;
    int trainer_type; /* ET_MULTITASK_TRAINER_* */
    et_multitask_sampler task_sampler;
    et_strings shared;        /* expressions of names of parameters */
    et_structs task_routines; /* of et_multitask_routine and what follows */
} et_multitask_settings;

/* The parts of a kind. */
struct et_multitask_kind {
    et_task_kind row; /* first: methods get this member */
    et_arena arena;   /* of tables and names */
    const et_task_kind *kinds[ET_MULTITASK_KINDS_MAX];
    size_t offset[ET_MULTITASK_KINDS_MAX]; /* of a kind's struct in a routine */
    int count;
    const et_optimizer_rule *rules[ET_OWN_RULES_MAX + 2]; /* of all kinds, ended by NULL */
};

/* The table of settings, in kind->arena; NULL: no memory. */
const et_fields *et_multitask_make_fields(et_multitask_kind *kind);

const et_multitask_routine *et_multitask_routine_at(const et_multitask_settings *settings, int i);
const et_task_kind *et_multitask_kind_of(const et_multitask_settings *settings, int i);
/* The struct of the kind that counts. */
void *et_multitask_options_of(const et_multitask_settings *settings, int i);

/* et_task_kind.set_batch */
int et_multitask_set_batch(void *options, const void *like, int64_t batch, et_error *error);

int et_multitask_settings_check(const void *options, et_error *error);
int et_multitask_check_metric(const void *options, const char *name, et_error *error);

#endif
