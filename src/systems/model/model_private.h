/* Declarations that the files of the model object share, and the interface of a kind of model: a
 * program's own network here, a table's model in tasks/tabular/model. */
#ifndef ETUDE_SYSTEMS_MODEL_MODEL_PRIVATE_H
#define ETUDE_SYSTEMS_MODEL_MODEL_PRIVATE_H

#include <etude/model.h>

#include "base/arena.h"
#include "engine/optim/options.h"
#include "train/checkpoint/artifact/artifact.h"

/* Default numbers of samples: predicted together, and in a training batch. */
#define ET_MODEL_PREDICTS 256
#define ET_MODEL_BATCH    32

/* Passes on the batches of another source. A trainer keeps its sources, so the model replaces the
 * inner source between two trainings. Without an inner source there are no batches.
 *
 *     et_model_source_set(&m->train, source, &error);       a pass of source is open from here on
 *     et_model_source_set(&m->train, NULL, NULL);           to here */
typedef struct et_model_source {
    et_source source;
    et_source *inner; /* borrowed; NULL: none */
    bool repeats;     /* at its end, inner starts again from its beginning */
} et_model_source;

/* Closes the pass of the old inner source, and opens a pass of inner at its beginning. inner NULL:
 * only closes. ET_ECONFIG: inner has other fields or sizes. ET_EUSAGE: another reader's pass is
 * open. */
int et_model_source_set(et_model_source *outer, et_source *inner, et_error *error);

typedef struct et_model_kind {
    const char *name; /* name in messages: "a network" */
    /* the error of calls on arrays, such as et_model_predict; NULL: the kind supports arrays */
    const char *no_arrays;
    const char *no_training; /* the error of training, evaluating and et_freeze; NULL: the kind
                                supports training */
    /* Batches to train on in place of source; *out NULL: source itself. The caller closes *out.
     * NULL: always source. */
    int (*open_training)(et_model *self, et_source *source, const et_fit *fit, et_source **out,
                         et_error *error);
    /* Called when a training begins in run_dir (NULL: no directory). Writes the files that belong
     * next to the checkpoints. *identity: identity of the checkpoints; NULL: none. A method of NULL
     * does nothing. */
    int (*begin)(et_model *self, const char *run_dir, const et_value **identity, et_error *error);
    int (*save)(const et_model *self, const char *path, et_error *error);
    int (*load)(et_model *self, const char *path, et_error *error);
    void (*close)(et_model *self);
    const char *monitor; /* the value that chooses the best; NULL: the task class's own */
} et_model_kind;

struct et_model {
    const et_model_kind *kind;
    et_task *task; /* of the trainer; the kind's */
    et_device *device;
    et_params *params;
    et_layout layout; /* of batches, without capacities */
    int x, y;         /* index of the field "x" or "y"; -1: no such field */
    et_pass *pass;    /* of prediction; NULL: not opened */
    et_batch *batch;  /* of it */
    et_layout predicted;
    int64_t width;
    et_optimization_options optimization;
    et_arena arena;
    uint64_t seed;
    bool bfloat16;
    et_task_trainer *trainer; /* NULL: not opened */
    int64_t capacity;         /* of its batches */
    int64_t steps;            /* length of the training that the trainer was opened for; 0: only
                                 evaluation */
    et_model_source train, valid;
    bool own_valid; /* the task has its own validation data, so valid is not used */
    et_strings frozen;
    bool has_weights; /* trained or loaded: the next training begins with them */
    int64_t version;  /* grows when weights change */
    int64_t base;     /* the step at which the run in run_dir began */
    char *run_dir;    /* directory of the last training; NULL: none */
    et_controller *controller;
};

/* Turns zeros into a model without passes: opens the device and an empty store. */
int et_model_init(et_model *model, const et_model_kind *kind, const et_model_options *options,
                  et_error *error);
/* Builds the graphs for layout, closes the set of parameters and draws initial values. */
int et_model_build(et_model *model, const et_layout *layout, et_error *error);

/* Opens the trainer for batches of `capacity` samples, if it is not yet open for them. steps:
 * length of the training, for schedules; 0: to evaluate. */
int et_model_open_trainer(et_model *model, int64_t capacity, int64_t steps, et_error *error);
void et_model_close_trainer(et_model *model);

/* Shows the weights that a reader of the model sees: averages, if there are any. false: nothing
 * changed. */
bool et_model_show_average(const et_model *model);
void et_model_hide_average(const et_model *model);

/* Updates that the open trainer has made; 0: no trainer is open. */
int64_t et_model_step(const et_model *model);

/* Loads the weights of any artifact into the model. weights: check and facts may be set. */
int et_model_take_weights(et_model *model, const char *path, et_artifact_weights *weights,
                          et_error *error);

#endif
