/* et_export_onnx (<etude/model_export.h>) for code that knows more about inputs and outputs than
 * the graph. */
#ifndef ETUDE_ENGINE_ONNX_BATCHES_H
#define ETUDE_ENGINE_ONNX_BATCHES_H

#include <etude/model_export.h>

#include "engine/onnx/onnx_model.h"

/* The name of the first dimension of inputs and outputs. */
#define ET_ONNX_ROWS "batch"

/* An output of a graph: value is float32 of that rank, with rows first. */
typedef struct et_onnx_result {
    const char *name, *value;
    et_onnx_type type;
    int rank;
} et_onnx_result;

/* Nodes before and after a graph. Each member may be NULL. */
typedef struct et_onnx_edges {
    /* Called for every input, with its name. Returns the value that the graph reads instead: value
     * itself, or the result of added nodes. */
    const char *(*input)(void *payload, et_onnx *model, const char *name, const char *value);
    /* Replaces the inputs of the graph's fields: adds other inputs, and sets values [count] to the
     * values of the fields with these names. */
    int (*inputs)(void *payload, et_onnx *model, const char *const *names, const char **values,
                  int count, et_error *error);
    /* Called for every output. May change name, value and type, and may add outputs. */
    int (*output)(void *payload, et_onnx *model, et_onnx_result *result, et_error *error);
    void *payload;
} et_onnx_edges;

int et_onnx_export_batches(const char *path, et_params *params, const et_layout *layout,
                           et_build_fn *build, void *payload, const et_onnx_edges *edges,
                           et_error *error);

#endif
