/* Rematerialization: derivatives compute values again, so that the values need not stay live from
 * the forward pass (Chen et al. 2016, "Training deep nets with sublinear memory cost"). The same op
 * on the same inputs gives the same bits, so only memory and time can change.
 *
 * There are three ways, all used by the derivative rules of grad.c:
 *
 *   - a node is added again at its first late reader (et_rematerialize_value);
 *   - the sign of a relu's result is read from its dropout, which is kept for the next product
 *     anyway: if dropout removed an element, its derivative is 0 in both cases
 *     (et_rematerialize_sign);
 *   - a norm's result is computed by the norm's derivative, which reads x already; the product
 *     that needs the result waits for the derivative (et_rematerialize_waits).
 *
 * The graph's option `recompute` decides which ways are used. */
#ifndef ETUDE_ENGINE_GRAPH_REMATERIALIZE_H
#define ETUDE_ENGINE_GRAPH_REMATERIALIZE_H

#include "engine/graph/graph.h"

/* How the forward graph reads a node. */
typedef struct et_rematerialize_use {
    int readers, values;          /* values: readers whose derivative reads the node's value */
    const et_node *reader, *user; /* the last of each */
} et_rematerialize_use;

typedef struct et_rematerialize {
    et_graph *graph;
    int count;                 /* nodes of the forward graph, before rematerialized ones */
    et_rematerialize_use *use; /* [count] */
    et_node **again;           /* [count]: the one rematerialized; NULL: not, or not yet */
} et_rematerialize;

/* ET_ENOMEM, or 0. The graph must stay. Release in any case. */
int et_rematerialize_init(et_rematerialize *rematerialize, et_graph *graph, et_error *error);
void et_rematerialize_release(et_rematerialize *rematerialize);

/* The node that a derivative reads for a forward node's value: the node itself, or the
 * rematerialized one. */
et_node *et_rematerialize_value(et_rematerialize *rematerialize, et_node *node);

/* A node to read the signs of a relu's result from: positive where node's value is, except for
 * elements that a dropout drops, whose derivative is 0 anyway. */
et_node *et_rematerialize_sign(et_rematerialize *rematerialize, et_node *node);

/* Whether node is a norm that its derivative rematerializes for the only product that reads it:
 * then that product's weight gradient is made after the derivative. */
bool et_rematerialize_waits(const et_rematerialize *rematerialize, const et_node *node);

#endif
