/* Derivative rules, for their own files (grad.c has the order of calls, the way to write one, and
 * the invariants), and the rules outside grad.c:
 *
 *   grad_elementwise.c   one rule for all rows of elementwise.def
 *   grad_reduce.c        sums over rows and columns, softmax, losses by rows
 *   grad_layout.c        ops that move elements
 *   grad_layers.c        norms of a row's scale and over a batch, convolutions, pooling */
#ifndef ETUDE_ENGINE_GRAPH_GRAD_PRIVATE_H
#define ETUDE_ENGINE_GRAPH_GRAD_PRIVATE_H

#include "base/assert.h"
#include "engine/graph/node.h"
#include "engine/graph/rematerialize.h"

/* A product whose weight gradient waits until the norm that it reads is rematerialized. */
typedef struct waiting {
    et_node *product, *dy;
} waiting;

typedef struct gradients {
    et_graph *graph;
    const bool *derive; /* [parameters]; NULL: by all */
    et_node *scale;     /* a scalar, NULL: 1 */
    bool is_root;       /* the node whose rule is called is a loss's, */
    float factor;       /* sum of the factors of all losses with this root */
    et_node **of;       /* [count]: d(loss)/d(node), NULL: none yet */
    bool *needed;       /* [count]: whether the node depends on a parameter */
    waiting *waiting;   /* [count]: by norm */
    int count;          /* nodes of the forward graph */
    et_rematerialize rematerialize;
} gradients;

/* Nodes made by rules (id from count on) are never differentiated again. */
static inline bool is_needed(const gradients *g, const et_node *node)
{
    return node->id < g->count && g->needed[node->id];
}

/* The value of a forward node, for a derivative. */
static inline et_node *value(gradients *g, et_node *node)
{
    return et_rematerialize_value(&g->rematerialize, node);
}

/* Adds gradient to the known part of d(loss)/d(node). The first one is kept as it is, without an
 * addition to zero; later ones are added in the order of the visit, so the order is always the
 * same. */
static inline void give(gradients *g, et_node *node, et_node *gradient)
{
    if (!is_needed(g, node))
        return;
    et_assert(et_node_is_poison(gradient) ||
              et_shape_equal(node->type[0].shape, gradient->type[0].shape));
    et_node **known = &g->of[node->id];
    if (!*known)
        *known = gradient;
    else
        *known = et_add(*known, gradient);
}

/* For ops that are made by derivatives, and for decoding. The graph is poisoned, not the program
 * stopped: a model that uses one of them in its loss is the world's fault, found when built. */
static inline void not_differentiable(gradients *g, et_node *node)
{
    et_graph_poison(g->graph, "%s: %s has no derivative", node->name, et_op_name(node->op));
}

/* dtable += the scatter `op` of ids and dy, added to the gradient from other uses of the table so
 * far. */
static inline void scatter_into_table(gradients *g, et_node *node, et_op op, et_node *dy)
{
    et_node *table = node->input[1];
    if (!is_needed(g, table))
        return;
    et_node *inputs[] = { node->input[0], dy, g->of[table->id] };
    et_attributes attributes = node->attributes;
    attributes.leaf = table->type[0];
    g->of[table->id] = et_node_add(g->graph, op, NULL, inputs, inputs[2] ? 3 : 2, &attributes);
}

/* grad_elementwise.c */
void et_grad_elementwise(gradients *g, et_node *node, et_node *dy);

/* grad_reduce.c */
void et_grad_COLUMN_SUM(gradients *g, et_node *node, et_node *dy);
void et_grad_ROW_SUM(gradients *g, et_node *node, et_node *dy);
void et_grad_SOFTMAX(gradients *g, et_node *node, et_node *dy);
void et_grad_LOG_SOFTMAX(gradients *g, et_node *node, et_node *dy);
void et_grad_CROSS_ENTROPY(gradients *g, et_node *node, et_node *dy);

/* grad_layout.c */
void et_grad_RESHAPE(gradients *g, et_node *node, et_node *dy);
void et_grad_CONCATENATE(gradients *g, et_node *node, et_node *dy);
void et_grad_SLICE(gradients *g, et_node *node, et_node *dy);
void et_grad_GATHER(gradients *g, et_node *node, et_node *dy);
void et_grad_EMBED_COLUMNS(gradients *g, et_node *node, et_node *dy);

/* grad_layers.c */
void et_grad_SCALED_COPIES(gradients *g, et_node *node, et_node *dy);
void et_grad_RMS_NORM(gradients *g, et_node *node, et_node *dy);
void et_grad_BATCH_NORM(gradients *g, et_node *node, et_node *dy);
void et_grad_CONVOLUTION(gradients *g, et_node *node, et_node *dy);
void et_grad_MAX_POOL(gradients *g, et_node *node, et_node *dy);
void et_grad_MEAN_POOL(gradients *g, et_node *node, et_node *dy);

#endif
