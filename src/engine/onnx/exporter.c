#include "engine/onnx/onnx_graph.h"

#include "base/assert.h"
#include "engine/onnx/onnx_ops.h"

#include <string.h>

/* ---- sizes ---- */

static const et_onnx_symbol *symbol_of(const et_onnx_exporter *exporter, int64_t size)
{
    for (int i = 0; i < exporter->from->symbol_count; i++)
        if (size >= exporter->from->symbols[i].size && size % exporter->from->symbols[i].size == 0)
            return &exporter->from->symbols[i];
    return NULL;
}

bool et_onnx_is_symbolic(const et_onnx_exporter *exporter, int64_t size)
{
    return symbol_of(exporter, size) != NULL;
}

const char *et_onnx_size(et_onnx_exporter *exporter, int64_t size)
{
    const et_onnx_symbol *symbol = symbol_of(exporter, size);
    if (!symbol)
        return et_onnx_ints(exporter->model, &size, 1);
    const int64_t times = size / symbol->size;
    return times == 1 ? symbol->value
                      : et_onnx_call(exporter->model, "Mul", symbol->value,
                                     et_onnx_ints(exporter->model, &times, 1));
}

static int count_symbolic(const et_onnx_exporter *exporter, et_shape shape)
{
    int count = 0;
    for (int i = 0; i < shape.rank; i++)
        count += et_onnx_is_symbolic(exporter, shape.size[i]);
    return count;
}

const char *et_onnx_shape(et_onnx_exporter *exporter, et_shape shape)
{
    const char *parts[ET_RANK_MAX];
    if (!count_symbolic(exporter, shape))
        return et_onnx_ints(exporter->model, shape.size, shape.rank);
    for (int i = 0; i < shape.rank; i++)
        parts[i] = et_onnx_size(exporter, shape.size[i]);
    const char *whole = et_onnx_node(exporter->model, "Concat", parts, shape.rank);
    et_onnx_set_int(exporter->model, "axis", 0);
    return whole;
}

const char *et_onnx_open_shape(et_onnx_exporter *exporter, et_shape shape)
{
    if (count_symbolic(exporter, shape) > 1)
        return et_onnx_shape(exporter, shape);
    for (int i = 0; i < shape.rank; i++)
        if (et_onnx_is_symbolic(exporter, shape.size[i]))
            shape.size[i] = -1;
    return et_onnx_ints(exporter->model, shape.size, shape.rank);
}

/* ---- the way ---- */

const char *et_onnx_in(const et_onnx_exporter *exporter, const et_node *node, int i)
{
    et_assert(i < node->inputs);
    return exporter->values[node->input[i]->id];
}

const et_onnx_binding *et_onnx_bound(const et_onnx_exporter *exporter, const char *name)
{
    for (int i = 0; i < exporter->from->binding_count; i++)
        if (!strcmp(exporter->from->bindings[i].name, name))
            return &exporter->from->bindings[i];
    return NULL;
}

const char *et_onnx_refuse(et_onnx_exporter *exporter, const et_node *node, const char *why)
{
    if (!exporter->status)
        exporter->status = et_fail(exporter->error, ET_ECONFIG, "ONNX: %s (%s): %s", node->name,
                                   et_op_name(node->op), why);
    return NULL;
}
