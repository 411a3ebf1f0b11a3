#include "engine/onnx/onnx_graph.h"

#include "base/alloc.h"
#include "engine/onnx/onnx_ops.h"

/* Inputs have smaller ids, so one pass backwards finds all that is needed. */
bool *et_onnx_needed(const et_graph *graph, et_node *const *outputs, int count)
{
    bool *needed = et_alloc_zero((size_t)graph->count, sizeof *needed);
    for (int i = 0; i < count && needed; i++)
        needed[outputs[i]->id] = true;
    for (int i = graph->count; i-- > 0 && needed;)
        for (int k = 0; needed[i] && k < graph->nodes[i]->inputs; k++)
            needed[graph->nodes[i]->input[k]->id] = true;
    return needed;
}

int et_onnx_add_graph(et_onnx *model, const et_onnx_graph *graph, et_node *const *outputs,
                      const char **values, int count, et_error *error)
{
    et_node *const *nodes = graph->graph->nodes;
    const int all = graph->graph->count;
    et_onnx_exporter exporter = { .model = model, .from = graph, .error = error };
    bool *needed = et_onnx_needed(graph->graph, outputs, count);
    exporter.values = et_alloc_zero((size_t)all, sizeof *exporter.values);
    if (!needed || !exporter.values)
        exporter.status = et_alloc_failed(error, (size_t)all, "a model to export");
    for (int i = 0; i < all && !exporter.status; i++)
        if (needed[i])
            exporter.values[i] = et_onnx_convert(&exporter, nodes[i]);
    for (int i = 0; i < count && !exporter.status; i++)
        values[i] = exporter.values[outputs[i]->id];
    et_free(exporter.values);
    et_free(needed);
    return exporter.status;
}
