#include "graph/graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

static const struct {
    const char *name;
    int fewest, most;
} ops[ET_OP_COUNT] = {
#define X(id, name, fewest, most) [ET_OP_##id] = { name, fewest, most },
#include "graph/ops.def"
#undef X
};

const char *et_op_name(et_op op)
{
    return ops[op].name;
}

bool et_op_is_elementwise(et_op op)
{
    return op >= ET_OP_ADD && op <= ET_OP_SWISH_GRAD;
}

int et_graph_new(et_graph **out, et_params *params, const et_graph_options *options,
                 et_error *error)
{
    static const et_graph_options defaults = ET_GRAPH_OPTIONS_INIT;
    et_graph *graph = et_alloc_zero(1, sizeof *graph);
    *out = graph;
    if (!graph)
        return et_alloc_failed(error, sizeof *graph, "a graph");
    graph->params = params;
    graph->options = options ? *options : defaults;
    graph->poison = (et_node){ .graph = graph, .id = -1, .name = "poison", .results = 1 };
    graph->root = et_arena_alloc(&graph->arena, sizeof *graph->root);
    if (!graph->root) {
        et_graph_free(graph);
        *out = NULL;
        return et_alloc_failed(error, sizeof *graph->root, "a graph");
    }
    *graph->root = (et_scope){ graph, "" };
    return ET_OK;
}

void et_graph_free(et_graph *graph)
{
    if (!graph)
        return;
    et_arena_release(&graph->arena);
    et_free(graph->nodes);
    et_free(graph);
}

int et_graph_finish(const et_graph *graph, et_error *error)
{
    if (graph->error.status && error)
        *error = graph->error;
    return graph->error.status;
}

et_node *et_graph_poison(et_graph *graph, const char *format, ...)
{
    if (!graph->error.status) {
        va_list arguments;
        va_start(arguments, format);
        graph->error.status = ET_EGRAPH;
        vsnprintf(graph->error.text, sizeof graph->error.text, format, arguments);
        va_end(arguments);
    }
    return &graph->poison;
}

static et_node *out_of_memory(et_graph *graph)
{
    if (!graph->error.status)
        et_alloc_failed(&graph->error, sizeof(et_node), "a graph's node");
    return &graph->poison;
}

bool et_node_is_poison(const et_node *node)
{
    return node == &node->graph->poison;
}

et_scope *et_graph_scope(et_graph *graph)
{
    return graph->root;
}

et_graph *et_scope_graph(const et_scope *scope)
{
    return scope->graph;
}

et_dtype et_graph_act(const et_graph *graph)
{
    return graph->options.act;
}

/* A scope with that prefix; the scope itself once memory has run out. */
static et_scope *scope_new(et_scope *parent, const char *prefix)
{
    et_graph *graph = parent->graph;
    et_scope *scope = prefix ? et_arena_alloc(&graph->arena, sizeof *scope) : NULL;
    if (!scope) {
        out_of_memory(graph);
        return parent;
    }
    *scope = (et_scope){ graph, prefix };
    return scope;
}

et_scope *et_in(et_scope *scope, const char *name)
{
    return scope_new(scope, et_arena_printf(&scope->graph->arena, "%s%s/", scope->prefix, name));
}

et_scope *et_at(et_scope *scope, const char *name, int index)
{
    return scope_new(scope,
                     et_arena_printf(&scope->graph->arena, "%s%s_%d/", scope->prefix, name, index));
}

static bool grow(et_graph *graph)
{
    if (graph->count < graph->capacity)
        return true;
    int capacity = graph->capacity ? graph->capacity * 2 : 128;
    et_node **nodes = et_realloc(graph->nodes, (size_t)capacity, sizeof(et_node *));
    if (!nodes)
        return false;
    graph->nodes = nodes;
    graph->capacity = capacity;
    return true;
}

et_node *et_node_add(et_graph *graph, et_op op, const char *name, et_node *const *inputs,
                     int input_count, const et_attributes *attributes)
{
    et_assert(input_count >= ops[op].fewest && input_count <= ops[op].most);
    for (int i = 0; i < input_count; i++)
        if (et_node_is_poison(inputs[i]))
            return &graph->poison;
    if (!grow(graph))
        return out_of_memory(graph);
    et_node *node = et_arena_alloc(&graph->arena, sizeof *node);
    if (node && !name)
        name = et_arena_printf(&graph->arena, "%s_%d", ops[op].name, graph->count);
    if (!node || !name)
        return out_of_memory(graph);
    *node = (et_node){ .graph = graph, .id = graph->count, .op = op, .name = name };
    node->inputs = input_count;
    if (input_count)
        memcpy(node->input, inputs, (size_t)input_count * sizeof inputs[0]);
    if (attributes)
        node->attributes = *attributes;
    node->results = 1;
    if (!et_shape_rule(node))
        return &graph->poison;
    graph->nodes[graph->count++] = node;
    return node;
}

et_node *et_node_result(et_node *node, int k)
{
    if (et_node_is_poison(node))
        return node;
    et_assert(k >= 1 && k < node->results);
    et_attributes attributes = { .result = k };
    return et_node_add(node->graph, ET_OP_RESULT, NULL, &node, 1, &attributes);
}

et_shape et_node_shape(const et_node *node)
{
    return node->type[0].shape;
}

et_dtype et_node_dtype(const et_node *node)
{
    return node->type[0].dtype;
}

const char *et_node_name(const et_node *node)
{
    return node->name;
}
