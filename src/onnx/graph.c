#include "onnx/graph.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "onnx/ops.h"

#include <string.h>

/* ---- sizes ---------------------------------------------------------------------------------- */

static const et_onnx_symbol *symbol_of(const et_onnx_way *way, int64_t size)
{
    for (int i = 0; i < way->from->symbol_count; i++)
        if (size >= way->from->symbols[i].size && size % way->from->symbols[i].size == 0)
            return &way->from->symbols[i];
    return NULL;
}

bool et_onnx_is_symbolic(const et_onnx_way *way, int64_t size)
{
    return symbol_of(way, size) != NULL;
}

const char *et_onnx_size(et_onnx_way *way, int64_t size)
{
    const et_onnx_symbol *symbol = symbol_of(way, size);
    if (!symbol)
        return et_onnx_ints(way->model, &size, 1);
    const int64_t times = size / symbol->size;
    return times == 1 ? symbol->value
                      : et_onnx_call(way->model, "Mul", symbol->value,
                                     et_onnx_ints(way->model, &times, 1));
}

static int count_symbolic(const et_onnx_way *way, et_shape shape)
{
    int count = 0;
    for (int i = 0; i < shape.rank; i++)
        count += et_onnx_is_symbolic(way, shape.size[i]);
    return count;
}

const char *et_onnx_shape(et_onnx_way *way, et_shape shape)
{
    const char *parts[ET_RANK_MAX];
    if (!count_symbolic(way, shape))
        return et_onnx_ints(way->model, shape.size, shape.rank);
    for (int i = 0; i < shape.rank; i++)
        parts[i] = et_onnx_size(way, shape.size[i]);
    const char *whole = et_onnx_node(way->model, "Concat", parts, shape.rank);
    et_onnx_set_int(way->model, "axis", 0);
    return whole;
}

const char *et_onnx_open_shape(et_onnx_way *way, et_shape shape)
{
    if (count_symbolic(way, shape) > 1)
        return et_onnx_shape(way, shape);
    for (int i = 0; i < shape.rank; i++)
        if (et_onnx_is_symbolic(way, shape.size[i]))
            shape.size[i] = -1;
    return et_onnx_ints(way->model, shape.size, shape.rank);
}

/* ---- the way -------------------------------------------------------------------------------- */

const char *et_onnx_in(const et_onnx_way *way, const et_node *node, int i)
{
    et_assert(i < node->inputs);
    return way->values[node->input[i]->id];
}

const et_onnx_binding *et_onnx_bound(const et_onnx_way *way, const char *name)
{
    for (int i = 0; i < way->from->binding_count; i++)
        if (!strcmp(way->from->bindings[i].name, name))
            return &way->from->bindings[i];
    return NULL;
}

const char *et_onnx_refuse(et_onnx_way *way, const et_node *node, const char *why)
{
    if (!way->status)
        way->status = et_fail(way->error, ET_ECONFIG, "ONNX: %s (%s): %s", node->name,
                              et_op_name(node->op), why);
    return NULL;
}

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
    et_onnx_way way = { .model = model, .from = graph, .error = error };
    bool *needed = et_onnx_needed(graph->graph, outputs, count);
    way.values = et_alloc_zero((size_t)all, sizeof *way.values);
    if (!needed || !way.values)
        way.status = et_alloc_failed(error, (size_t)all, "a model to export");
    for (int i = 0; i < all && !way.status; i++)
        if (needed[i])
            way.values[i] = et_onnx_convert(&way, nodes[i]);
    for (int i = 0; i < count && !way.status; i++)
        values[i] = way.values[outputs[i]->id];
    et_free(way.values);
    et_free(needed);
    return way.status;
}
