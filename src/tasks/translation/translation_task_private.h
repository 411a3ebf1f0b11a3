/* The translation task, for its own files: translation_task.c (the class, its model and
 * its data), setup_vocabulary.c, translation_validate.c (searches, scores). */
#ifndef ETUDE_TASKS_TRANSLATION_TRANSLATION_TASK_PRIVATE_H
#define ETUDE_TASKS_TRANSLATION_TRANSLATION_TASK_PRIVATE_H

#include "data/text/pairs.h"
#include "engine/exec/device.h"
#include "tasks/translation/decoding/decoder.h"
#include "tasks/translation/import/import.h"
#include "tasks/translation/settings/input.h"
#include "tasks/translation/translation_task.h"

/* A text that is scored. Pair i is number first + i in batches and logs. */
typedef struct et_scored {
    const char *name;              /* of a set; NULL: it has none */
    const et_encoded *encoded;     /* of the input */
    const char *const *references; /* [pairs] raw target lines; in the input's arena */
    uint32_t first;
    int64_t reported; /* pairs of a validation, as last logged; 0: all, or not logged */
} et_scored;

/* Data that were opened by other settings than the task's. */
typedef struct et_other_inputs {
    struct et_other_inputs *next;
    et_arena arena; /* of the settings */
    et_translation_data data;
    et_translation_input input;
    et_scored scored; /* of validation; else zeros */
} et_other_inputs;

/* Validation data and the objects that score it; the decoder is made at the first search. */
typedef struct et_validation {
    et_translation_input input;
    et_scored scored[ET_TRANSLATION_SETS_MAX];
    int count;            /* of these; 0: no validation */
    int64_t numbered;     /* pairs that have a number */
    et_decoder *decoder;  /* beam search with the store's weights */
    et_decoder *embedded; /* beam search for embedded sources */
} et_validation;

/* The task and everything it owns, in the order of opening. */
typedef struct et_translation_task {
    et_task task;
    et_translation_options options;
    et_task_context context;
    et_sides sides;                      /* vocabularies of source and target */
    et_vocabularies vocabularies;        /* the run's own; owned, as all below */
    char *vocabulary_paths[ET_SIDES];    /* of each, its file in model_dir */
    int32_t *suppressed;                 /* numbers of task.model.suppressed_tokens */
    double vocabulary_seconds[ET_SIDES]; /* duration of each training of a vocabulary; 0: not
                                            trained */
    et_translation_input training;
    et_validation validation;
    et_other_inputs *others; /* a list; they are closed with the task, as sources borrow them */
    et_import *foreign;      /* the last opened model of another program; NULL: none, or the
                                context's */
    double bleu, best_bleu;  /* of the last validation; the best so far */
    int64_t scored_step;     /* step of the last validation; 0: none yet */
    char verdict[200];
} et_translation_task;

/* Of a task that et_translation_task_open gave. */
static inline et_translation_task *et_translation_task_of(const et_task *task)
{
    return (et_translation_task *)(void *)task;
}

/* setup_vocabulary.c: the model of another program in a folder: the context's, or it is opened.
 * Borrowed until the next call. */
int et_translation_foreign(et_translation_task *task, const char *folder, et_import **out,
                           et_error *error);

int et_translation_open_vocabularies(et_translation_task *task, et_error *error);

/* Warns of a side whose vocabulary fits its text badly, for example the other
 * side's vocabulary. */
int et_translation_check_unknowns(const et_translation_task *task, const et_encoded *encoded,
                                  et_error *error);

/* Warns if sources of the text `name` (train_data or validation_data) do not begin with a language
 * tag although the vocabulary has such tags. */
int et_translation_check_tags(const et_translation_task *task, const et_encoded *encoded,
                              const char *name, et_error *error);

/* translation_validate.c. Each step of a search examines twice the beam's size in tokens. */
int et_translation_check_beam(const et_translation_task *task, et_error *error);

/* translation_task.c. Prints, for each validation text, the numbers of pairs and of shortened
 * pairs; cut_alone: only for texts with shortened pairs. */
void et_translation_describe_validation(const et_translation_task *task, bool cut_alone);

/* translation_validate.c. Methods. */
int et_translation_inference_step(et_task *self, const et_task_step *now, et_value *outputs,
                                  et_error *error);
int et_translation_validation_outputs(et_task *self, const et_task_step *now, et_value *logs,
                                      et_error *error);
int et_translation_aggregate(et_task *self, et_value *state, const et_value *step_outputs,
                             et_error *error);
int et_translation_reduce(et_task *self, const et_value *aggregated_logs, int64_t step,
                          et_value *results, et_error *error);
void et_translation_close_validation(et_translation_task *task);
/* A low BLEU after few steps is a run that had no time. */
const char *et_translation_verdict(et_task *self, bool best);

#endif
