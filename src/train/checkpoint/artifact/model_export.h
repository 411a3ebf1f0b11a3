/* Writing a trained model for use alone, as a directory or as one file (model_place.h): what the
 * exports of all kinds of task share. A kind says which texts a model has beside its weights.
 *
 *     et_model_export model = { .texts = texts, .count = 2, .params = params, .step = step };
 *     if (et_model_export_write(&model, "models/a.safetensors", &error)) ...
 */
#ifndef ETUDE_TRAIN_CHECKPOINT_ARTIFACT_MODEL_EXPORT_H
#define ETUDE_TRAIN_CHECKPOINT_ARTIFACT_MODEL_EXPORT_H

#include <etude/value.h>

#include "formats/safetensors/safetensors.h"
#include "train/checkpoint/artifact/model_place.h"

/* The weights of a directory. */
#define ET_MODEL_WEIGHTS "model" ET_SAFETENSORS_SUFFIX

/* All borrowed. */
typedef struct et_model_text {
    const char *name; /* of the file in a directory */
    const char *bytes;
    size_t length;
} et_model_text;

typedef struct et_model_export {
    const et_model_text *texts; /* [count] */
    int count;
    et_params *params; /* values in use */
    int64_t step;
    const et_value *identity; /* of the checkpoint that they are from; NULL: it has none */
    const char *precision;    /* how weights are stored; NULL: "float32" */
} et_model_export;

/* ET_ECONFIG: no such precision. */
int et_model_export_check_precision(const char *precision, et_error *error);

/* A file is written atomically, in place of one that may be there. A directory is made if it is not
 * there, and comes whole. ET_ECONFIG: no name,
 * no such precision, or a file of an export is in the directory already. */
int et_model_export_write(const et_model_export *model, const char *output, et_error *error);

#endif
