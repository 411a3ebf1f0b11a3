/* et_export_onnx (<etude/model_export.h>) for code that knows more about inputs and outputs than
 * the graph. */
#ifndef ETUDE_ENGINE_ONNX_BATCHES_H
#define ETUDE_ENGINE_ONNX_BATCHES_H

#include <etude/model_export.h>

#include "engine/onnx/onnx_model.h"

/* Called for every input and output, by its name. Returns the value that the graph reads in place
 * of the input, or that is output in place of the output: value itself, or the result of added
 * nodes. Either may be NULL. */
typedef struct et_onnx_edges {
    const char *(*input)(void *payload, et_onnx *model, const char *name, const char *value);
    /* type: of the output, which may be changed. */
    const char *(*output)(void *payload, et_onnx *model, const char *name, const char *value,
                          et_onnx_type *type);
    void *payload;
} et_onnx_edges;

int et_onnx_export_batches(const char *path, et_params *params, const et_layout *layout,
                           et_build_fn *build, void *payload, const et_onnx_edges *edges,
                           et_error *error);

#endif
