/* What the files of the translation task share: task.c (the class), setup.c (vocabulary and
 * data), validate.c. */
#ifndef ETUDE_TASKS_TRANSLATION_TASK_PARTS_H
#define ETUDE_TASKS_TRANSLATION_TASK_PARTS_H

#include "data/pair_source.h"
#include "tasks/translation/task.h"

/* Validation data and what scores it; made at the first validation but for its data. */
typedef struct et_validation {
    et_encoded *encoded;    /* NULL: no validation */
    et_corpus_paths paths;  /* lists borrowed from the options */
    char **references;      /* [pairs] raw target lines */
    et_pair_source *source; /* one pass */
    et_pair_batch batch;
    et_graph *graph;            /* the loss without derivatives */
    et_plan *plan;              /* of graph; reads batch */
    struct et_decoder *decoder; /* beam search with the store's weights */
} et_validation;

/* The task and everything it owns, in the order of opening. */
typedef struct et_translation_task {
    et_task task;
    et_translation_options options;
    et_translation_context context;
    et_vocabulary *vocabulary; /* the run's own; owned, as all below */
    char *vocabulary_path;     /* MODEL_DIR/vocabulary.model */
    double vocabulary_seconds; /* that training it took; 0: it was there */
    et_corpus_paths paths;
    et_encoded *encoded;
    et_pair_source *source;
    et_pair_position marked; /* before the first batch of the update in hand */
    et_pair_batch batch;
    const et_plan *bound; /* the plan whose inputs are the batch's */
    et_validation validation;
} et_translation_task;

/* setup.c: in order. */
int et_translation_open_vocabulary(et_translation_task *task, et_error *error);
int et_translation_open_training(et_translation_task *task, et_error *error);
int et_translation_open_validation(et_translation_task *task, et_error *error);

/* The shape of batches for some data options. */
et_pair_shape et_translation_shape(const et_translation_data *data);

/* Binds a batch's arrays to a plan's inputs. */
void et_translation_bind(et_plan *plan, const et_pair_batch *batch);

/* The model's loss for batches of a shape. */
et_node *et_translation_loss(const et_translation_task *task, et_scope *scope,
                             const et_pair_shape *shape, int64_t max_positions);

/* validate.c */
int et_translation_validate(et_task *self, int64_t step, et_value *logs, et_error *error);
void et_translation_close_validation(et_translation_task *task);

#endif
