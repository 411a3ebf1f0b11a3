/* Shared by the files that implement <etude/table.h>. */
#ifndef ETUDE_TASKS_TABULAR_MODEL_TABLES_H
#define ETUDE_TASKS_TABULAR_MODEL_TABLES_H

#include <etude/predictor.h>
#include <etude/table.h>

#include "systems/model/model_private.h"
#include "systems/modelgarden/experiment.h"
#include "tasks/tabular/table_files.h"
#include "train/checkpoint/artifact/artifact.h"

struct et_table {
    et_arena arena;
    const char *path, *target, *settings; /* in arena; NULL: no settings, or they name the target */
    et_artifact_text text[ET_TABLE_FILES]; /* bytes are owned; NULL: not known yet */
    et_device *device;
    et_params *params; /* of a task without a model */
    et_experiment experiment;
    et_task *task;
    et_source *source;
};

/* Settings of an experiment, "tabular/mlp", for a file, with two more layers of settings or NULL.
 */
int et_table_experiment(et_experiment *experiment, const et_table *table, const char *name,
                        const char *settings, et_arena *arena, et_error *error);

/* A task on the rows of the table, whose texts become the table's if it has none. While this works
 * the texts are in a temporary directory, whose name lives in arena. */
int et_table_task(et_task **out, et_table *table, const et_experiment *experiment,
                  et_device *device, et_params *params, et_arena *arena, et_error *error);

/* A model of a table: to train, or saved. */
typedef struct et_table_network {
    et_model model;
    const et_source *source;                   /* of its table; compared, not used */
    et_experiment experiment;                  /* settings in the model's arena */
    et_artifact_text text[ET_TABLE_FILES + 1]; /* of the table, then params.yaml; bytes are owned */
    const et_value *identity;                  /* of its checkpoints */
    et_predictor *predictor; /* of the weights of version `predicts`; NULL: none */
    int64_t predicts;        /* the version of the model */
    bool saved;              /* a predictor alone */
} et_table_network;

#endif
