/* Shape rules: which inputs an op takes, and the types of its results. */
#ifndef ETUDE_ENGINE_GRAPH_SHAPE_H
#define ETUDE_ENGINE_GRAPH_SHAPE_H

#include "engine/graph/graph.h"

/* Sets node->type[] and node->results from inputs and attributes; the table behind it has one
 * function per op. False: refused, with the reason in the graph's error. */
bool et_shape_rule(et_node *node);

#endif
