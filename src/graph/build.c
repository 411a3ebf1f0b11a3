/* The builders of <etude/ops.h>, where their formulas are: each makes one node. What they
 * check is what the shape rules cannot see, an option's range; all else is left to
 * et_node_add.
 *
 * Names: inputs, parameters, dropout and attention are named by their scope, because something
 * outside needs the name to be stable: inputs are bound by it, parameters saved by it, and the
 * random numbers of a mask are chosen by it (site). All other nodes are numbered. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/philox.h"
#include "graph/graph.h"

const char *et_scope_name(et_scope *scope, const char *name)
{
    const char *full = et_arena_printf(&scope->graph->arena, "%s%s", scope->prefix, name);
    return full ? full : name;
}

/* The type is an attribute, since there is no input to take it from. */
et_node *et_input(et_scope *scope, const char *name, et_dtype dtype, et_shape shape)
{
    et_attributes attributes = { .leaf = { dtype, shape } };
    return et_node_add(scope->graph, ET_OP_INPUT, et_scope_name(scope, name), NULL, 0, &attributes);
}

/* Where the graph keeps its node of a parameter, NULL before there is one. One node for each
 * parameter: its derivative is then one sum, and a table that is used three times is read as one
 * array. Without memory: NULL, and the error is the graph's. */
static et_node **param_place(et_graph *graph, int index)
{
    if (index >= graph->param_capacity) {
        int capacity = index < 32 ? 64 : 2 * index;
        et_node **params = et_realloc(graph->param_nodes, (size_t)capacity, sizeof(et_node *));
        if (!params) {
            if (!graph->error.status)
                et_alloc_failed(&graph->error, (size_t)capacity * sizeof(et_node *), "a graph");
            return NULL;
        }
        memset(params + graph->param_capacity, 0,
               (size_t)(capacity - graph->param_capacity) * sizeof(et_node *));
        graph->param_nodes = params;
        graph->param_capacity = capacity;
    }
    return &graph->param_nodes[index];
}

/* Declared in the store first, which also compares shapes over several graphs; the store's
 * message names the parameter and both shapes. */
et_node *et_param(et_scope *scope, const char *name, et_shape shape, et_init init)
{
    et_graph *graph = scope->graph;
    const char *full = et_scope_name(scope, name);
    et_attributes attributes = { .leaf = { ET_F32, shape } };
    et_error error = ET_ERROR_INIT;
    /* The index is the same in every graph over this store: what a checkpoint, the optimizer
     * and exec's bindings know the parameter by. */
    int status = et_params_declare(graph->params, full, shape, init, &attributes.param, &error);
    /* A lack of memory stays one; all else is a model that does not fit the store. */
    if (status == ET_ENOMEM && !graph->error.status)
        graph->error = error;
    if (status)
        return et_graph_poison(graph, "%s", error.text);
    et_node **place = param_place(graph, attributes.param);
    if (!place)
        return &graph->poison;
    if (!*place) {
        et_node *made = et_node_add(graph, ET_OP_PARAM, full, NULL, 0, &attributes);
        if (et_node_is_poison(made))
            return made;
        *place = made;
    }
    return *place;
}

/* The width must leave dim / 2 - 1 > 0 to divide by, and a cosine for each sine. */
et_node *et_sinusoid(et_scope *scope, int64_t rows, int64_t dim)
{
    et_attributes attributes = { .leaf = { ET_F32, et_shape_2(rows, dim) } };
    if (dim % 2 || dim < 4)
        return et_graph_poison(scope->graph, "%spositions: width %lld is odd or below 4",
                               scope->prefix, (long long)dim);
    return et_node_add(scope->graph, ET_OP_POSITIONS, NULL, NULL, 0, &attributes);
}

/* Nodes without a name of their own or attributes, of one and of two inputs. */
static et_node *unary(et_op op, et_node *x)
{
    return et_node_add(x->graph, op, NULL, &x, 1, NULL);
}

/* Graph and type come from the operands; the shape rule compares them. */
static et_node *binary(et_op op, et_node *a, et_node *b)
{
    et_node *inputs[] = { a, b };
    return et_node_add(a->graph, op, NULL, inputs, 2, NULL);
}

/* Element by element. et_sub is an op of its own and not et_add of et_scale: one pass, and no
 * rounding of a product in between. */
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

/* A constant of the graph. A factor that changes from step to step would be an input. */
et_node *et_scale(et_node *a, float factor)
{
    et_attributes attributes = { .x = factor };
    return et_node_add(a->graph, ET_OP_SCALE, NULL, &a, 1, &attributes);
}

et_node *et_bias(et_node *x, et_node *bias)
{
    return binary(ET_OP_BIAS, x, bias);
}

/* Activations. Each is a node, so that exec may fuse it with its neighbours; et_matmul's relu
 * option is the one that needs no node. */
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

/* The way from any tensor to a loss that can be differentiated. */
et_node *et_sum(et_node *x)
{
    return unary(ET_OP_SUM, x);
}

/* The graph of an evaluation has no dropout node at all, nor one whose rate is 0: nothing is
 * left to test for in a run. A NaN is refused by the form of the condition. */
et_node *et_dropout(et_scope *scope, et_node *x, float rate)
{
    et_graph *graph = scope->graph;
    if (!graph->options.training || rate == 0)
        return x;
    if (!(rate > 0 && rate < 1))
        return et_graph_poison(graph, "%sdropout: rate %g is not in [0, 1)", scope->prefix,
                               (double)rate);
    /* One dropout in a scope: a second would have the same site and drop the same elements. */
    const char *name = et_scope_name(scope, "dropout");
    et_attributes attributes = { .x = rate, .site = et_random_site(name) };
    return et_node_add(graph, ET_OP_DROPOUT, name, &x, 1, &attributes);
}

/* A mark and no node: what it is for is decided when derivatives are asked for. */
et_node *et_recomputable(et_node *node)
{
    node->attributes.recomputable = true;
    return node;
}

/* bias NULL: two inputs, not three with a hole. */
et_node *et_matmul(et_node *a, et_node *b, et_node *bias, const et_matmul_options *options)
{
    et_node *inputs[] = { a, b, bias };
    et_attributes attributes = { 0 };
    if (options)
        attributes.matmul = *options;
    return et_node_add(a->graph, ET_OP_MATMUL, NULL, inputs, bias ? 3 : 2, &attributes);
}

/* Its result 1 (each row's mean and reciprocal deviation) is made in any case; only the
 * derivative reads it. */
et_node *et_layer_norm(et_node *x, et_node *gamma, et_node *beta, float epsilon)
{
    et_node *inputs[] = { x, gamma, beta };
    et_attributes attributes = { .x = epsilon };
    return et_node_add(x->graph, ET_OP_LAYER_NORM, NULL, inputs, 3, &attributes);
}

/* Positions come as a pair: what to add, and the row of it for each id. */
et_node *et_embedding(et_node *ids, et_node *table, float scale, et_node *position,
                      et_node *positions)
{
    et_node *inputs[] = { ids, table, position, positions };
    et_attributes attributes = { .x = scale };
    et_assert(!position == !positions);
    return et_node_add(ids->graph, ET_OP_EMBEDDING, NULL, inputs, position ? 4 : 2, &attributes);
}

/* self is known from the nodes: the same one for q and kv means that both are its columns.
 * The rate is cleared outside training, as dropout's node is left out there. */
et_node *et_attention(et_scope *scope, et_node *q, et_node *kv, et_node *query_offsets,
                      et_node *key_offsets, const et_attention_options *options)
{
    const char *name = et_scope_name(scope, "attention");
    et_assert(options);
    et_attributes attributes = { .attention = *options, .self = q == kv };
    attributes.site = et_random_site(name);
    if (!scope->graph->options.training)
        attributes.attention.rate = 0;
    et_node *inputs[] = { q, kv, query_offsets, key_offsets };
    return et_node_add(scope->graph, ET_OP_ATTENTION, name, inputs, 4, &attributes);
}

/* slot and begin share input 2, told apart by self: exactly one of the two is given. */
et_node *et_cached_attention(et_node *q, et_node *cache, et_node *slot, et_node *begin,
                             et_node *length, int heads)
{
    et_assert(!slot != !begin);
    et_attributes attributes = { .attention = { .heads = heads }, .self = slot != NULL };
    et_node *inputs[] = { q, cache, slot ? slot : begin, length };
    return et_node_add(q->graph, ET_OP_CACHED_ATTENTION, NULL, inputs, 4, &attributes);
}

/* The losses: `gradient` stays false until derivatives are asked for, and then the kernels
 * make them in the same pass. */
et_node *et_vocabulary_loss(et_node *h, et_node *table, et_node *labels, float smoothing)
{
    et_node *inputs[] = { h, table, labels };
    et_attributes attributes = { .x = smoothing };
    return et_node_add(h->graph, ET_OP_VOCABULARY_LOSS, NULL, inputs, 3, &attributes);
}

/* For logits that exist in full: no table among the inputs, whose product would come first. */
et_node *et_softmax_loss(et_node *logits, et_node *labels, float smoothing)
{
    et_node *inputs[] = { logits, labels };
    et_attributes attributes = { .x = smoothing };
    return et_node_add(logits->graph, ET_OP_SOFTMAX_LOSS, NULL, inputs, 2, &attributes);
}

et_node *et_vocabulary_best(et_node *h, et_node *table, int count, et_node **piece)
{
    et_node *inputs[] = { h, table };
    et_attributes attributes = { .count = count };
    et_node *best = et_node_add(h->graph, ET_OP_VOCABULARY_BEST, NULL, inputs, 2, &attributes);
    *piece = et_node_result(best, 1);
    return best;
}
