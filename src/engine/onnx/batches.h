/* et_export_onnx (<etude/model_export.h>) for code that knows more about inputs and outputs than
 * the graph. */
#ifndef ETUDE_ENGINE_ONNX_BATCHES_H
#define ETUDE_ENGINE_ONNX_BATCHES_H

#include <etude/model_export.h>

#include "engine/onnx/onnx_model.h"

/* Each is called for every input or output, by its name, and returns the value that the graph reads
 * in place of the input, or that leaves in place of the output: value itself, or that of nodes that
 * were added. Either may be NULL. */
typedef struct et_onnx_edges {
    const char *(*input)(void *payload, et_onnx *model, const char *name, const char *value);
    /* type: of what leaves, which may be changed. */
    const char *(*output)(void *payload, et_onnx *model, const char *name, const char *value,
                          et_onnx_type *type);
    void *payload;
} et_onnx_edges;

int et_onnx_export_batches(const char *path, et_params *params, const et_layout *layout,
                           et_build_fn *build, void *payload, const et_onnx_edges *edges,
                           et_error *error);

#endif
