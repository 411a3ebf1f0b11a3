/* What the files of the translation task share: task.c (the class), model.c, setup.c
 * (data), setup_vocabulary.c, validate.c. */
#ifndef ETUDE_TASKS_TRANSLATION_TASK_PRIVATE_H
#define ETUDE_TASKS_TRANSLATION_TASK_PRIVATE_H

#include "data/pairs.h"
#include "exec/device.h"
#include "tasks/translation/input.h"
#include "tasks/translation/seen.h"
#include "tasks/translation/task.h"

/* A text that is scored. */
typedef struct et_scored {
    const char *name;          /* of a set; NULL: it has none */
    const et_encoded *encoded; /* of the input */
    char **references;         /* [pairs] raw target lines */
    et_seen seen;              /* [pairs] those that the loss has been computed of */
} et_scored;

/* Validation data and what scores it; the decoder is made at the first validation. */
typedef struct et_validation {
    et_translation_input input;
    et_scored scored[ET_TRANSLATION_SETS_MAX];
    int count;                  /* of these; 0: no validation */
    const et_scored *now;       /* that is validated */
    struct et_decoder *decoder; /* beam search with the store's weights */
} et_validation;

/* The task and everything it owns, in the order of opening. */
typedef struct et_translation_task {
    et_task task;
    et_translation_options options;
    et_task_context context;
    et_sides sides;                      /* what both are cut into tokens by */
    et_vocabularies vocabularies;        /* the run's own; owned, as all below */
    char *vocabulary_paths[ET_SIDES];    /* of each, its file in model_dir */
    double vocabulary_seconds[ET_SIDES]; /* that training each took; 0: it was there */
    et_translation_input training;
    et_validation validation;
} et_translation_task;

/* setup.c: in order. The first finds the files; the second is setup_vocabulary.c's. */
int et_translation_open_files(et_translation_task *task, et_error *error);
int et_translation_open_vocabularies(et_translation_task *task, et_error *error);
int et_translation_open_training(et_translation_task *task, et_error *error);
int et_translation_open_validation(et_translation_task *task, et_error *error);

/* setup_vocabulary.c: warns of a side whose vocabulary knows little of its text, as that of the
 * other side does. */
int et_translation_look_for_unknowns(const et_translation_task *task, const et_encoded *encoded,
                                     et_error *error);

/* setup.c: batches of what was opened. Validation: *out NULL where there is no text of that
 * number. */
int et_translation_training(et_translation_task *task, et_source **out, et_error *error);
int et_translation_validation(et_translation_task *task, int number, et_source **out,
                              et_error *error);

/* setup.c: tells of each text of validation how many pairs it has and how many are shortened;
 * cut_alone: of those that have such pairs. */
void et_translation_describe_validation(const et_translation_task *task, bool cut_alone);

/* model.c: for the graph's batches, "decoded" and "table"; the loss of these. max_positions: the
 * longest sentence. */
void et_translation_build_model(const et_translation_task *task, et_scope *scope,
                                int64_t max_positions, et_nodes *outputs);
void et_translation_build_losses(const et_translation_task *task, et_scope *scope,
                                 const et_nodes *outputs);
/* Tokens that an update's softmax is over: the target's vocabulary where none are drawn. */
int64_t et_translation_sampled(const et_translation_task *task);

/* validate.c */
int et_translation_validate(et_task *self, int64_t step, et_value *logs, et_error *error);
void et_translation_close_validation(et_translation_task *task);

#endif
