/* The builders of <etude/ops_layout.h>, <etude/ops_image.h> and <etude/ops_random.h>, as build.c
 * has those of <etude/ops.h>. */
#include <float.h>
#include <limits.h>
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/numbers/philox.h"
#include "engine/graph/build.h"
#include "engine/graph/node.h"

et_node *et_reshape(et_node *x, et_shape shape)
{
    et_attributes attributes = { .leaf = { .shape = shape } };
    return et_node_add(x->graph, ET_OP_RESHAPE, NULL, &x, 1, &attributes);
}

/* More nodes than an op reads are put together by parts, which are put together: the first level
 * copies every element once more, and so on. */
static et_node *concatenate(et_node *const *nodes, int count, int axis)
{
    et_attributes attributes = { .along = { .axis = axis } };
    et_node *parts[ET_NODE_INPUTS_MAX];
    et_assert(count >= 1);
    if (count == 1)
        return nodes[0];
    if (count <= ET_NODE_INPUTS_MAX)
        return et_node_add(nodes[0]->graph, ET_OP_CONCATENATE, NULL, nodes, count, &attributes);
    for (int i = 0; i < ET_NODE_INPUTS_MAX; i++) {
        int begin = (int)((int64_t)count * i / ET_NODE_INPUTS_MAX);
        int end = (int)((int64_t)count * (i + 1) / ET_NODE_INPUTS_MAX);
        parts[i] = concatenate(nodes + begin, end - begin, axis);
    }
    return concatenate(parts, ET_NODE_INPUTS_MAX, axis);
}

static bool counted(et_node *const *nodes, int count)
{
    return et_in_range(nodes[0]->graph, ET_OP_CONCATENATE, "count", count, 1, INT_MAX);
}

et_node *et_concatenate_columns(et_node *const *nodes, int count)
{
    return counted(nodes, count) ? concatenate(nodes, count, et_node_shape(nodes[0]).rank - 1)
                                 : &nodes[0]->graph->poison;
}

et_node *et_concatenate_rows(et_node *const *nodes, int count)
{
    return counted(nodes, count) ? concatenate(nodes, count, 0) : &nodes[0]->graph->poison;
}

static et_node *slice(et_node *x, int axis, int64_t first, int64_t count)
{
    et_attributes attributes = { .along = { axis, first, count } };
    return et_node_add(x->graph, ET_OP_SLICE, NULL, &x, 1, &attributes);
}

et_node *et_slice_columns(et_node *x, int64_t first, int64_t count)
{
    return slice(x, et_node_shape(x).rank - 1, first, count);
}

et_node *et_slice_rows(et_node *x, int64_t first, int64_t count)
{
    return slice(x, 0, first, count);
}

et_node *et_gather_rows(et_node *x, et_node *row)
{
    et_node *inputs[] = { x, row };
    return et_node_add(x->graph, ET_OP_GATHER, NULL, inputs, 2, NULL);
}

et_node *et_one_hot(et_node *ids, int64_t depth)
{
    et_attributes attributes = { .count = (int)depth };
    if (!et_in_range(ids->graph, ET_OP_ONE_HOT, "depth", (double)depth, 1, INT_MAX))
        return &ids->graph->poison;
    return et_node_add(ids->graph, ET_OP_ONE_HOT, NULL, &ids, 1, &attributes);
}

/* Without memory no node is made: the arena remembers the failure, and et_node_add checks it. */
et_node *et_embed_columns(et_node *ids, et_node *table, const et_column *columns, int count)
{
    et_node *inputs[] = { ids, table };
    if (!et_in_range(ids->graph, ET_OP_EMBED_COLUMNS, "columns", count, 1, INT_MAX))
        return &ids->graph->poison;
    et_column *kept = et_arena_array(&ids->graph->arena, (size_t)count, sizeof *kept);
    if (kept)
        memcpy(kept, columns, (size_t)count * sizeof *kept);
    et_attributes attributes = { .columns = kept, .count = count };
    return et_node_add(ids->graph, ET_OP_EMBED_COLUMNS, NULL, inputs, 2, &attributes);
}

et_node *et_scaled_copies(et_node *w, et_node *row_scale, et_node *column_scale)
{
    et_node *inputs[] = { w, row_scale, column_scale };
    return et_node_add(w->graph, ET_OP_SCALED_COPIES, NULL, inputs, column_scale ? 3 : 2, NULL);
}

/* ---- norms ---- */

et_node *et_rms_norm(et_node *x, et_node *gamma, float epsilon)
{
    et_node *inputs[] = { x, gamma };
    et_attributes attributes = { .x = epsilon };
    if (!et_in_range(x->graph, ET_OP_RMS_NORM, "epsilon", epsilon, 0, FLT_MAX))
        return &x->graph->poison;
    return et_node_add(x->graph, ET_OP_RMS_NORM, NULL, inputs, 2, &attributes);
}

et_node *et_batch_norm(et_node *x, et_node *gamma, et_node *beta, et_node *mask, float epsilon,
                       et_node **mean, et_node **variance)
{
    et_node *inputs[] = { x, gamma, beta, mask };
    et_attributes attributes = { .x = epsilon };
    et_node *y = &x->graph->poison;
    if (et_in_range(x->graph, ET_OP_BATCH_NORM, "epsilon", epsilon, 0, FLT_MAX))
        y = et_node_add(x->graph, ET_OP_BATCH_NORM, NULL, inputs, mask ? 4 : 3, &attributes);
    if (mean)
        *mean = et_node_result(y, 1);
    if (variance)
        *variance = et_node_result(y, 2);
    return y;
}

et_node *et_batch_norm_given(et_node *x, et_node *gamma, et_node *beta, et_node *mean,
                             et_node *variance, float epsilon)
{
    et_node *inputs[] = { x, gamma, beta, mean, variance };
    et_attributes attributes = { .x = epsilon };
    if (!et_in_range(x->graph, ET_OP_BATCH_NORM, "epsilon", epsilon, 0, FLT_MAX))
        return &x->graph->poison;
    return et_node_add(x->graph, ET_OP_BATCH_NORM, NULL, inputs, 5, &attributes);
}

/* ---- images ---- */

et_node *et_convolution(et_node *x, et_node *weight, et_node *bias,
                        const et_convolution_options *options)
{
    et_node *inputs[] = { et_as_act(x->graph, x), weight, bias };
    et_attributes attributes = { 0 };
    if (options)
        attributes.convolution = *options;
    return et_node_add(x->graph, ET_OP_CONVOLUTION, NULL, inputs, bias ? 3 : 2, &attributes);
}

static et_node *pool(et_op op, et_node *x, const et_pool_options *options)
{
    et_attributes attributes = { 0 };
    if (options)
        attributes.pool = *options;
    return et_node_add(x->graph, op, NULL, &x, 1, &attributes);
}

et_node *et_max_pool(et_node *x, const et_pool_options *options)
{
    return pool(ET_OP_MAX_POOL, x, options);
}

et_node *et_mean_pool(et_node *x, const et_pool_options *options)
{
    return pool(ET_OP_MEAN_POOL, x, options);
}

/* ---- numbers by counter ---- */

et_node *et_noise(et_scope *scope, const char *name, et_shape shape)
{
    et_graph *graph = scope->graph;
    if (!et_has_name(scope, name))
        return &graph->poison;
    const char *full = et_scope_drawn_name(scope, name);
    et_attributes attributes = { .leaf = { graph->options.act, shape },
                                 .site = et_random_site(full) };
    return et_node_add(graph, ET_OP_NOISE, full, NULL, 0, &attributes);
}

et_node *et_bernoulli(et_scope *scope, const char *name, et_node *p)
{
    if (!et_has_name(scope, name))
        return &scope->graph->poison;
    const char *full = et_scope_drawn_name(scope, name);
    et_attributes attributes = { .site = et_random_site(full) };
    return et_node_add(scope->graph, ET_OP_BERNOULLI, full, &p, 1, &attributes);
}
