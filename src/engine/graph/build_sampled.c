/* The builders of a softmax by sampled classes: et_candidates and et_sampled_loss, which is made of
 * it, of a gathering of rows and of the vocabulary's loss. */
#include <limits.h>

#include "base/numbers/philox.h"
#include "engine/graph/build.h"
#include "engine/graph/node.h"

et_node *et_candidates(et_scope *scope, const char *name, et_node *labels, int64_t classes,
                       int64_t count, et_node **places, et_node **offsets)
{
    et_node *poison = &scope->graph->poison;
    *places = *offsets = poison;
    if (!et_has_name(scope, name) ||
        !et_in_range(scope->graph, ET_OP_CANDIDATES, "count", (double)count, 1, INT_MAX) ||
        !et_in_range(scope->graph, ET_OP_CANDIDATES, "classes", (double)classes, 1, INT_MAX))
        return poison;
    const char *full = et_scope_drawn_name(scope, name);
    et_attributes attributes = { .site = et_random_site(full),
                                 .count = (int)count,
                                 .classes = classes };
    et_node *candidates =
        et_node_add(scope->graph, ET_OP_CANDIDATES, full, &labels, 1, &attributes);
    *places = et_node_result(candidates, 1);
    *offsets = et_node_result(candidates, 2);
    return candidates;
}

/* The vocabulary's loss over the candidates' rows, with offsets as fourth input. What is no matrix
 * is refused as by the whole loss. */
et_node *et_sampled_loss(et_scope *scope, et_node *h, et_node *table, et_node *labels,
                         float smoothing, int64_t count)
{
    et_graph *graph = scope->graph;
    if (!table || et_node_shape(table).rank != 2)
        return et_vocabulary_loss(h, table, labels, smoothing);
    const int64_t words = et_node_shape(table).size[0];
    if (!et_in_range(graph, ET_OP_VOCABULARY_LOSS, "smoothing", smoothing, 0, ET_BELOW_1) ||
        !et_in_range(graph, ET_OP_CANDIDATES, "count", (double)count, 1, (double)words))
        return &graph->poison;
    if (!graph->options.training || count == words)
        return et_vocabulary_loss(h, table, labels, smoothing);
    et_node *places, *offsets;
    et_node *candidates =
        et_candidates(scope, "candidates", labels, words, count, &places, &offsets);
    et_node *inputs[] = { h, et_gather_rows(table, candidates), places, offsets };
    et_attributes attributes = { .x = smoothing, .offset = true };
    return et_node_add(graph, ET_OP_VOCABULARY_LOSS, NULL, inputs, 4, &attributes);
}
