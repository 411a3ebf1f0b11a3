/* A graph (engine/graph/graph.h) as nodes of an ONNX model: any model function of inference can be
 * exported. onnx_ops.c translates each op.
 *
 * Sizes. Graphs are built for a number of rows, models run with any number. So a graph for export
 * is built for a large prime as number of rows. A size divisible by this prime is a multiple of the
 * number of rows at run time:
 *
 *     et_onnx_symbol rows = { ET_ONNX_PRIME_A, value };      value: int64 [1], the rows of a run
 *
 * Segments. Attention in a graph works on rows with offsets, in a model on batches in which all
 * segments are equally long, with a mask for their valid positions. So an input of offsets is bound
 * to a description of segments. */
#ifndef ETUDE_ENGINE_ONNX_ONNX_GRAPH_H
#define ETUDE_ENGINE_ONNX_ONNX_GRAPH_H

#include "engine/graph/graph.h"
#include "engine/onnx/onnx_model.h"

/* Sizes that no model has. */
#define ET_ONNX_PRIME_A 1000003
#define ET_ONNX_PRIME_B 1500007
#define ET_ONNX_PRIME_C 2000003

typedef struct et_onnx_symbol {
    int64_t size;
    const char *value; /* int64 [1] */
} et_onnx_symbol;

/* value: of an input, int64 if it is int32 in the graph, with the graph's shape. For offsets: NULL;
 * count int64 [1] is the number of segments, and mask, bool [count, 1, 1, longest], marks valid
 * positions, NULL: all. For past keys and values: all NULL. */
typedef struct et_onnx_binding {
    const char *name;
    const char *value;
    const char *count, *mask;
} et_onnx_binding;

/* Keys and values that an attention keeps for the model's next run: float32 [segments, heads,
 * positions, width / heads]. Past keys and values come before those that the graph makes. If the
 * graph's keys and values are an unbound input, there are only past ones. */
typedef struct et_onnx_cache {
    const char *past_key, *past_value; /* NULL: none */
    const char *key, *value;           /* of all positions, set by et_onnx_add_graph */
} et_onnx_cache;

/* All borrowed for the call. */
typedef struct et_onnx_graph {
    et_graph *graph; /* finished, over a store with values; of inference, in float32 */
    const et_onnx_symbol *symbols;
    int symbol_count;
    const et_onnx_binding *bindings; /* of all inputs that are read */
    int binding_count;
    et_onnx_cache *caches; /* of all attentions that are needed, in the graph's order; NULL: none */
    int cache_count;
} et_onnx_graph;

/* For each node id, [graph->count]: whether outputs need the node. Free *out with et_free, also
 * after ET_ENOMEM. */
int et_onnx_needed(bool **out, const et_graph *graph, et_node *const *outputs, int count,
                   et_error *error);

/* Adds the nodes that outputs [count] need; values [count] become their names. ET_ECONFIG: an op
 * has no form in ONNX; the error names it. */
int et_onnx_add_graph(et_onnx *model, const et_onnx_graph *graph, et_node *const *outputs,
                      const char **values, int count, et_error *error);

#endif
