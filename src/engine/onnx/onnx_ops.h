/* A graph during its translation (exporter.c), for onnx_graph.c and onnx_ops.c. */
#ifndef ETUDE_ENGINE_ONNX_ONNX_OPS_H
#define ETUDE_ENGINE_ONNX_ONNX_OPS_H

#include "engine/onnx/onnx_graph.h"

typedef struct et_onnx_exporter {
    et_onnx *model;
    const et_onnx_graph *from;
    const char **values; /* [nodes]: by id; NULL: not needed */
    int attentions;      /* so far */
    int status;          /* of the first op that has no form */
    et_error *error;
} et_onnx_exporter;

/* The value of an input of a node. */
const char *et_onnx_in(const et_onnx_exporter *exporter, const et_node *node, int i);

/* Whether a size is only known when the model runs. */
bool et_onnx_is_symbolic(const et_onnx_exporter *exporter, int64_t size);
/* int64 [1] with it, or [rank]. */
const char *et_onnx_size(et_onnx_exporter *exporter, int64_t size);
const char *et_onnx_shape(et_onnx_exporter *exporter, et_shape shape);
/* For Reshape: one size that is not known is left open. */
const char *et_onnx_open_shape(et_onnx_exporter *exporter, et_shape shape);

/* NULL: no binding of that name. */
const et_onnx_binding *et_onnx_bound(const et_onnx_exporter *exporter, const char *name);

/* ET_ECONFIG, once; NULL. */
const char *et_onnx_refuse(et_onnx_exporter *exporter, const et_node *node, const char *why);

/* ---- onnx_ops.c, onnx_attention.c ---- */

/* Converts a node; returns the name of its value. */
typedef const char *et_onnx_rule(et_onnx_exporter *exporter, const et_node *node);
const char *et_onnx_convert(et_onnx_exporter *exporter, const et_node *node);
et_onnx_rule et_onnx_attention;

#endif
