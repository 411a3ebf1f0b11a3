/* The builders of <etude/graph.h>: each makes one node. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/philox.h"
#include "graph/graph.h"

static const char *full_name(et_scope *scope, const char *name)
{
    const char *full = et_arena_printf(&scope->graph->arena, "%s%s", scope->prefix, name);
    return full ? full : name;
}

et_node *et_input(et_scope *scope, const char *name, et_dtype dtype, et_shape shape)
{
    et_attributes attributes = { .leaf = { dtype, shape } };
    return et_node_add(scope->graph, ET_OP_INPUT, full_name(scope, name), NULL, 0, &attributes);
}

/* The node of a parameter that this graph has already; NULL: none. */
static et_node *known_param(et_graph *graph, int index)
{
    for (int i = 0; i < graph->count; i++)
        if (graph->nodes[i]->op == ET_OP_PARAM && graph->nodes[i]->attributes.param == index)
            return graph->nodes[i];
    return NULL;
}

et_node *et_param(et_scope *scope, const char *name, et_shape shape, et_init init)
{
    et_graph *graph = scope->graph;
    const char *full = full_name(scope, name);
    et_attributes attributes = { .leaf = { ET_F32, shape } };
    et_error error = ET_ERROR_INIT;
    if (et_params_declare(graph->params, full, shape, init, &attributes.param, &error))
        return et_graph_poison(graph, "%s", error.text);
    et_node *known = known_param(graph, attributes.param);
    if (known)
        return known;
    return et_node_add(graph, ET_OP_PARAM, full, NULL, 0, &attributes);
}

et_node *et_sinusoid(et_scope *scope, int64_t rows, int64_t dim)
{
    et_attributes attributes = { .leaf = { ET_F32, et_shape_2(rows, dim) } };
    if (dim % 2 || dim < 4)
        return et_graph_poison(scope->graph, "%spositions: width %lld is odd or below 4",
                               scope->prefix, (long long)dim);
    return et_node_add(scope->graph, ET_OP_POSITIONS, NULL, NULL, 0, &attributes);
}

static et_node *unary(et_op op, et_node *x)
{
    return et_node_add(x->graph, op, NULL, &x, 1, NULL);
}

static et_node *binary(et_op op, et_node *a, et_node *b)
{
    et_node *inputs[] = { a, b };
    return et_node_add(a->graph, op, NULL, inputs, 2, NULL);
}

et_node *et_add(et_node *a, et_node *b)
{
    return binary(ET_OP_ADD, a, b);
}

et_node *et_sub(et_node *a, et_node *b)
{
    return binary(ET_OP_SUB, a, b);
}

et_node *et_mul(et_node *a, et_node *b)
{
    return binary(ET_OP_MUL, a, b);
}

et_node *et_scale(et_node *a, float factor)
{
    et_attributes attributes = { .x = factor };
    return et_node_add(a->graph, ET_OP_SCALE, NULL, &a, 1, &attributes);
}

et_node *et_bias(et_node *x, et_node *bias)
{
    return binary(ET_OP_BIAS, x, bias);
}

et_node *et_relu(et_node *x)
{
    return unary(ET_OP_RELU, x);
}

et_node *et_gelu(et_node *x)
{
    return unary(ET_OP_GELU, x);
}

et_node *et_tanh(et_node *x)
{
    return unary(ET_OP_TANH, x);
}

et_node *et_sigmoid(et_node *x)
{
    return unary(ET_OP_SIGMOID, x);
}

et_node *et_swish(et_node *x)
{
    return unary(ET_OP_SWISH, x);
}

et_node *et_sum(et_node *x)
{
    return unary(ET_OP_SUM, x);
}

et_node *et_dropout(et_scope *scope, et_node *x, float rate)
{
    et_graph *graph = scope->graph;
    if (!graph->options.training || rate == 0)
        return x;
    if (!(rate > 0 && rate < 1))
        return et_graph_poison(graph, "%sdropout: rate %g is not in [0, 1)", scope->prefix,
                               (double)rate);
    const char *name = full_name(scope, "dropout");
    et_attributes attributes = { .x = rate, .site = et_random_site(name) };
    return et_node_add(graph, ET_OP_DROPOUT, name, &x, 1, &attributes);
}

et_node *et_matmul(et_node *a, et_node *b, et_node *bias, const et_matmul_options *options)
{
    et_node *inputs[] = { a, b, bias };
    et_attributes attributes = { 0 };
    if (options)
        attributes.matmul = *options;
    return et_node_add(a->graph, ET_OP_MATMUL, NULL, inputs, bias ? 3 : 2, &attributes);
}

et_node *et_layer_norm(et_node *x, et_node *gamma, et_node *beta, float epsilon)
{
    et_node *inputs[] = { x, gamma, beta };
    et_attributes attributes = { .x = epsilon };
    return et_node_add(x->graph, ET_OP_LAYER_NORM, NULL, inputs, 3, &attributes);
}

et_node *et_embedding(et_node *ids, et_node *table, float scale, et_node *position,
                      et_node *positions)
{
    et_node *inputs[] = { ids, table, position, positions };
    et_attributes attributes = { .x = scale };
    et_assert(!position == !positions);
    return et_node_add(ids->graph, ET_OP_EMBEDDING, NULL, inputs, position ? 4 : 2, &attributes);
}

et_node *et_attention(et_scope *scope, et_node *q, et_node *kv, et_node *query_offsets,
                      et_node *key_offsets, const et_attention_options *options)
{
    const char *name = full_name(scope, "attention");
    et_attributes attributes = { .attention = *options, .self = q == kv };
    attributes.site = et_random_site(name);
    if (!scope->graph->options.training)
        attributes.attention.rate = 0;
    et_node *inputs[] = { q, kv, query_offsets, key_offsets };
    return et_node_add(scope->graph, ET_OP_ATTENTION, name, inputs, 4, &attributes);
}

et_node *et_cached_attention(et_node *q, et_node *cache, et_node *slot, et_node *begin,
                             et_node *length, int heads)
{
    et_attributes attributes = { .attention = { .heads = heads }, .self = slot != NULL };
    et_node *inputs[] = { q, cache, slot ? slot : begin, length };
    return et_node_add(q->graph, ET_OP_CACHED_ATTENTION, NULL, inputs, 4, &attributes);
}

et_node *et_vocabulary_loss(et_node *h, et_node *table, et_node *labels, float smoothing)
{
    et_node *inputs[] = { h, table, labels };
    et_attributes attributes = { .x = smoothing };
    return et_node_add(h->graph, ET_OP_VOCABULARY_LOSS, NULL, inputs, 3, &attributes);
}

et_node *et_softmax_loss(et_node *logits, et_node *labels, float smoothing)
{
    et_node *inputs[] = { logits, labels };
    et_attributes attributes = { .x = smoothing };
    return et_node_add(logits->graph, ET_OP_SOFTMAX_LOSS, NULL, inputs, 2, &attributes);
}
