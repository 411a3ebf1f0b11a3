/* Derivatives of one node by all parameters, as a pass has them of its losses. */
#ifndef TESTS_ENGINE_GRAPH_DIFFERENTIATE_H
#define TESTS_ENGINE_GRAPH_DIFFERENTIATE_H

#include <etude/pass.h>

#include "engine/graph/graph.h"

static inline int differentiate(et_graph *graph, et_node *loss, et_error *error)
{
    if (et_graph_finish(graph, error))
        return graph->error.status;
    et_loss(et_graph_scope(graph), "loss", loss, 1);
    return et_graph_derive(graph, NULL, NULL, error);
}

#endif
