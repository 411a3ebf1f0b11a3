/* Loading the weights of a trained model, from wherever it lies (model_place.h): one file's own; of
 * a directory those that are named, an export's, the best of a run or its newest. Whether what lies
 * beside them is theirs the kind of task says. */
#ifndef ETUDE_TRAIN_CHECKPOINT_ARTIFACT_MODEL_LOAD_H
#define ETUDE_TRAIN_CHECKPOINT_ARTIFACT_MODEL_LOAD_H

#include "train/checkpoint/artifact/model_place.h"

typedef struct et_model_load {
    const et_model_place *place;
    et_params *params;         /* materialized */
    const char *named;         /* of a directory: et_checkpoint_named; NULL: none is */
    bool live_weights;         /* not the averaged ones, where there are any */
    et_checkpoint_facts facts; /* what was loaded; the arena is the caller's */
    char *checkpoint;          /* the same: its path. Free with et_free, also after a failure */
    /* ET_ECONFIG: what is beside the weights in place is not what they were made with. */
    int (*check)(void *payload, const struct et_model_load *load, et_error *error);
    void *payload;
} et_model_load;

/* A best one that cannot be used is named in a warning, and the newest is taken. ET_ENOTFOUND: a
 * run that has saved nothing yet. ET_ECONFIG: also of one file of which a checkpoint is named. */
int et_model_load_weights(et_model_load *load, et_error *error);

#endif
