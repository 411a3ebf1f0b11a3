/* Model builders, for the library, beyond <etude/model_builder.h>: the inner struct of a
 * builder. */
#ifndef ETUDE_TASKS_TABULAR_TENSORFX_MODEL_BUILDER_H
#define ETUDE_TASKS_TABULAR_TENSORFX_MODEL_BUILDER_H

#include <etude/model_builder.h>

#include "base/arena.h"
#include "data/table/features/encoder.h"

/* The kinds of graph. */
typedef enum et_builder_phase {
    ET_PHASE_TRAINING,
    ET_PHASE_EVALUATION,
    ET_PHASE_PREDICTION,
} et_builder_phase;

/* A store; those before it are kept until the builder goes, as graphs may be over them. */
typedef struct et_builder_store {
    et_params *params;
    struct et_builder_store *before;
} et_builder_store;

/* An interface with its private members. */
typedef struct et_builder_graph {
    et_graph_interface face; /* the first member */
    et_builder_phase phase;
    et_table_set *dataset;         /* that it was built with */
    struct et_builder_graph *next; /* of the builder's open ones */
} et_builder_graph;

typedef struct et_model_builder_inside {
    et_model_builder_class methods; /* of the class, or else of the nearest base that has it */
    et_device *device;              /* NULL: not opened yet */
    et_builder_store *store;        /* NULL: none yet */
    et_builder_graph *graphs;
    et_arena arena; /* of layouts of prediction */
    int64_t global_steps;
} et_model_builder_inside;

/* build_input, where a class has none: a source of the dataset, or rows to predict. */
int et_builder_default_input(et_model_builder *self, et_table_set *dataset, const char *source,
                             int64_t batch, int64_t epochs, bool shuffle, et_builder_input *out,
                             et_error *error);

/* A class with what its bases give: methods, arguments, the size of its struct. */
int et_model_builder_class_resolve(et_model_builder_class *out, const et_model_builder_class *kind,
                                   et_error *error);

/* The device that graphs run on, opened at the first call. */
int et_model_builder_open_device(et_model_builder *builder, et_device **out, et_error *error);

/* A store that nothing has been declared into, in place of the one before. */
int et_model_builder_renew(et_model_builder *builder, et_error *error);

#endif
