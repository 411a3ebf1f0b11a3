/* The builders of <etude/ops.h>, which has their formulas: each makes one node. They check only
 * option ranges, which shape rules cannot see; et_node_add checks the rest.
 *
 * Names: inputs, parameters, dropout and attention are named by their scope, because something
 * outside needs a stable name: inputs are bound by name, parameters are saved by name, and the
 * random numbers of a mask depend on the name (site), with the scope's draw in front. The first
 * dropout or attention of a scope has the bare name, so adding another after it does not change its
 * numbers. All other nodes are numbered. */
#include "engine/graph/build.h"

#include <float.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/numbers/philox.h"
#include "base/text/strbuf.h"
#include "base/vector.h"
#include "engine/graph/node.h"

/* "scope/name", as et_scope_drawn_name. */
static const char *scope_name(et_scope *scope, const char *name)
{
    const char *full = et_arena_printf(&scope->graph->arena, "%s%s", scope->prefix, name);
    return full ? full : name;
}

const char *et_scope_drawn_name(et_scope *scope, const char *name)
{
    const char *full =
        et_arena_printf(&scope->graph->arena, "%s%s%s", scope->draw, scope->prefix, name);
    return full ? full : name;
}

et_node *et_graph_no_field(et_graph *graph, const char *field)
{
    const et_layout *layout = graph->layout;
    et_strbuf names = ET_STRBUF_INIT;
    for (int i = 0; layout && i < layout->fields; i++)
        et_strbuf_printf(&names, "%s%s", i ? ", " : "", layout->field[i].name);
    et_node *poison = et_graph_poison(graph, "batches have no field %s; they have: %s",
                                      field ? field : "(its name is NULL)",
                                      layout ? et_strbuf_text(&names) : "none");
    et_strbuf_release(&names);
    return poison;
}

/* Whether the graph's layout of batches, if it has one, has an input with that full name and type,
 * or it is ET_GRAPH_ONE. If not, records an error: nothing would be bound to it. */
static bool is_bound(et_graph *graph, const char *name, et_dtype dtype, et_shape shape)
{
    const et_layout *layout = graph->layout;
    const bool one = !strcmp(name, ET_GRAPH_ONE);
    const int i = layout && !one ? et_layout_find(layout, name) : -1;
    if (!layout || (one && dtype == ET_F32 && shape.rank == 0))
        return true;
    if (i < 0) {
        et_graph_no_field(graph, name);
        return false;
    }
    const et_shape bound = et_layout_shape(layout, i);
    if (layout->field[i].dtype == dtype && et_shape_equal(bound, shape))
        return true;
    char text[2][ET_SHAPE_TEXT_MAX];
    et_graph_poison(graph,
                    "input %s: requested as %s %s, but the batches' field of this name is %s %s",
                    name, et_dtype_name(dtype), et_shape_print(shape, text[0]),
                    et_dtype_name(layout->field[i].dtype), et_shape_print(bound, text[1]));
    return false;
}

/* One node for each name. The type is an attribute, since there is no input to take it from. */
et_node *et_input(et_scope *scope, const char *name, et_dtype dtype, et_shape shape)
{
    et_graph *graph = scope->graph;
    et_attributes attributes = { .leaf = { dtype, shape } };
    if (!et_has_name(scope, name))
        return &graph->poison;
    const char *full = scope_name(scope, name);
    for (int i = 0; i < graph->count; i++) {
        et_node *known = graph->nodes[i];
        if (known->op != ET_OP_INPUT || strcmp(known->name, full))
            continue;
        if (known->type[0].dtype != dtype || !et_shape_equal(known->type[0].shape, shape))
            return et_graph_poison(graph, "input %s: requested twice, with different types", full);
        return known;
    }
    if (!is_bound(graph, full, dtype, shape))
        return &graph->poison;
    return et_node_add(graph, ET_OP_INPUT, full, NULL, 0, &attributes);
}

/* The place of the graph's node for a parameter; it holds NULL before the node exists. There is one
 * node for each parameter, so its derivative is one sum, and a table that is used three times is
 * read as one array. Without memory: NULL, and the graph has the error. */
static et_node **shared_param(et_graph *graph, int index)
{
    size_t known = graph->param_capacity;
    et_node **params = et_vector_grow(graph->param_nodes, &graph->param_capacity, (size_t)index + 1,
                                      sizeof(et_node *), 64);
    if (!params) {
        et_graph_out_of_memory(graph);
        return NULL;
    }
    if (known < graph->param_capacity)
        memset(params + known, 0, (graph->param_capacity - known) * sizeof(et_node *));
    graph->param_nodes = params;
    return &params[index];
}

/* Declared in the store first, which also compares shapes over several graphs; the store's
 * message names the parameter and both shapes. */
static et_node *stored(et_scope *scope, const char *name, et_shape shape, et_init init,
                       bool trained)
{
    et_graph *graph = scope->graph;
    if (!et_has_name(scope, name))
        return &graph->poison;
    const char *full = scope_name(scope, name);
    et_attributes attributes = { .leaf = { ET_F32, shape } };
    et_error error = ET_ERROR_INIT;
    /* The index is the same in every graph over this store: checkpoints, the optimizer and exec's
     * bindings identify the parameter by it. */
    int *index = &attributes.param;
    int status = trained
                     ? et_params_declare(graph->params, full, shape, init, index, &error)
                     : et_params_declare_variable(graph->params, full, shape, init, index, &error);
    /* A lack of memory stays one; all else is a model that does not fit the store. */
    if (status == ET_ENOMEM && !graph->error.status)
        graph->error = error;
    if (status)
        return et_graph_poison(graph, "%s", error.text);
    et_node **shared = shared_param(graph, attributes.param);
    if (!shared)
        return &graph->poison;
    if (!*shared) {
        et_node *made = et_node_add(graph, ET_OP_PARAM, full, NULL, 0, &attributes);
        if (et_node_is_poison(made))
            return made;
        *shared = made;
    }
    return *shared;
}

et_node *et_param(et_scope *scope, const char *name, et_shape shape, et_init init)
{
    static const et_init zeros = { ET_INIT_ZEROS, 0 };
    return stored(scope, name, shape, scope->fixed ? zeros : init, !scope->fixed);
}

et_node *et_variable(et_scope *scope, const char *name, et_shape shape, et_init init)
{
    return stored(scope, name, shape, init, false);
}

/* Without a name, in scope. */
static et_node *add_leaf(et_scope *scope, et_op op, const et_attributes *attributes)
{
    et_scope *before = et_scope_enter(scope);
    et_node *node = et_node_add(scope->graph, op, NULL, NULL, 0, attributes);
    et_scope_enter(before);
    return node;
}

/* The width must leave dim / 2 - 1 > 0 to divide by, and a cosine for each sine. */
static et_node *sinusoid(et_scope *scope, int64_t rows, int64_t dim, bool open)
{
    et_attributes attributes = { .leaf = { ET_F32, et_shape_2(rows, dim) }, .open = open };
    if (dim % 2 || dim < 4)
        return et_graph_poison(scope->graph,
                               "%spositions: width %lld; give an even width of at least 4",
                               scope->prefix, (long long)dim);
    return add_leaf(scope, ET_OP_POSITIONS, &attributes);
}

et_node *et_sinusoid(et_scope *scope, int64_t rows, int64_t dim)
{
    return sinusoid(scope, rows, dim, false);
}

et_node *et_sinusoid_open(et_scope *scope, int64_t rows, int64_t dim)
{
    return sinusoid(scope, rows, dim, true);
}

et_node *et_integers(et_scope *scope, int64_t first, int64_t count, int64_t step)
{
    et_attributes attributes = { .leaf = { ET_I32, et_shape_1(count) },
                                 .progression = { (int32_t)first, (int32_t)step } };
    /* The bounds of all three keep last from overflow. */
    bool fits = first >= INT32_MIN && first <= INT32_MAX && step >= INT32_MIN &&
                step <= INT32_MAX && count >= 0 && count <= INT32_MAX;
    int64_t last = fits && count ? first + (count - 1) * step : 0;
    if (!fits || last < INT32_MIN || last > INT32_MAX)
        return et_graph_poison(scope->graph,
                               "%sintegers: %lld from %lld by %lld do not fit in int32",
                               scope->prefix, (long long)count, (long long)first, (long long)step);
    return add_leaf(scope, ET_OP_INTEGERS, &attributes);
}

/* "draw/scope/name" for the first that asks, "draw/scope/name_1" for the next. */
static const char *numbered_name(et_scope *scope, const char *name)
{
    et_graph *graph = scope->graph;
    const char *first = et_scope_drawn_name(scope, name);
    int64_t before = 0;
    et_map_get(&graph->drawn, first, &before);
    if (!et_map_put(&graph->drawn, first, before + 1))
        et_graph_out_of_memory(graph);
    if (!before)
        return first;
    const char *full = et_arena_printf(&graph->arena, "%s_%lld", first, (long long)before);
    return full ? full : first;
}

/* The graph of an evaluation has no dropout node, and neither has a rate of 0, so a run tests
 * nothing. An invalid rate is refused even then. */
et_node *et_dropout(et_scope *scope, et_node *x, float rate)
{
    et_graph *graph = scope->graph;
    if (!(rate >= 0 && rate < 1))
        return et_graph_poison(graph, "%sdropout: rate %g is not in [0, 1)", scope->prefix,
                               (double)rate);
    if (!graph->options.training || rate == 0)
        return x;
    const char *name = numbered_name(scope, "dropout");
    et_attributes attributes = { .x = rate, .site = et_random_site(name) };
    return et_node_add(graph, ET_OP_DROPOUT, name, &x, 1, &attributes);
}

/* Only sets a mark: differentiation decides how to use it. */
et_node *et_recomputable_from(et_node *node, et_recompute least)
{
    node->attributes.recomputable = least;
    return node;
}

et_node *et_recomputable(et_node *node)
{
    return et_recomputable_from(node, ET_RECOMPUTE_MARKED);
}

/* bias NULL: two inputs, not three with a hole. */
et_node *et_matmul(et_node *a, et_node *b, et_node *bias, const et_matmul_options *options)
{
    et_node *inputs[] = { et_as_act(a->graph, a), et_as_act(a->graph, b), bias };
    et_attributes attributes = { 0 };
    if (options)
        attributes.matmul = *options;
    if (!et_in_range(a->graph, ET_OP_MATMUL, "row_tile", (double)attributes.matmul.row_tile, 0,
                     INT32_MAX) ||
        !et_in_range(a->graph, ET_OP_MATMUL, "groups", (double)attributes.matmul.groups, 0,
                     INT32_MAX))
        return &a->graph->poison;
    return et_node_add(a->graph, ET_OP_MATMUL, NULL, inputs, bias ? 3 : 2, &attributes);
}

/* Its result 1 (each row's mean and reciprocal deviation) is made in any case; only the
 * derivative reads it. */
et_node *et_layer_norm(et_node *x, et_node *gamma, et_node *beta, float epsilon)
{
    et_node *inputs[] = { x, gamma, beta };
    et_attributes attributes = { .x = epsilon };
    if (!et_in_range(x->graph, ET_OP_LAYER_NORM, "epsilon", epsilon, 0, FLT_MAX))
        return &x->graph->poison;
    return et_node_add(x->graph, ET_OP_LAYER_NORM, NULL, inputs, 3, &attributes);
}

/* Positions come as a pair: what to add, and the row of it for each id. */
et_node *et_embedding(et_node *ids, et_node *table, float scale, et_node *position,
                      et_node *positions)
{
    et_node *inputs[] = { ids, table, position, positions };
    et_attributes attributes = { .x = scale };
    if (!position != !positions)
        return et_graph_poison(ids->graph,
                               "embedding: give both position and positions, or neither");
    if (!et_in_range(ids->graph, ET_OP_EMBEDDING, "scale", scale, -FLT_MAX, FLT_MAX))
        return &ids->graph->poison;
    return et_node_add(ids->graph, ET_OP_EMBEDDING, NULL, inputs, position ? 4 : 2, &attributes);
}

/* No segment is longer than kv. If kv is not a matrix, the shape rule refuses it. */
static int longest_key(const et_node *kv, int longest)
{
    if (!kv || kv->type[0].shape.rank != 2)
        return longest;
    const int64_t rows = kv->type[0].shape.size[0];
    return rows <= INT_MAX && (!longest || rows < longest) ? (int)rows : longest;
}

/* self follows from the nodes: the same node for q and kv means that both are its columns. The rate
 * is cleared outside training, where et_dropout adds no node either. */
et_node *et_attention(et_scope *scope, et_node *q, et_node *kv, et_node *query_offsets,
                      et_node *key_offsets, const et_attention_options *options)
{
    const char *name = numbered_name(scope, "attention");
    if (!options)
        return et_graph_poison(scope->graph, "%s: no options; give the number of heads", name);
    et_attributes attributes = { .attention = *options, .self = q == kv };
    if (!et_in_range(scope->graph, ET_OP_ATTENTION, "rate", options->rate, 0, ET_BELOW_1) ||
        !et_in_range(scope->graph, ET_OP_ATTENTION, "longest_key", options->longest_key, 0,
                     INT32_MAX))
        return &scope->graph->poison;
    attributes.site = et_random_site(name);
    q = et_as_act(scope->graph, q);
    kv = attributes.self ? q : et_as_act(scope->graph, kv);
    attributes.attention.longest_key = longest_key(kv, options->longest_key);
    if (!scope->graph->options.training)
        attributes.attention.rate = 0;
    et_node *inputs[] = { q, kv, query_offsets, key_offsets };
    return et_node_add(scope->graph, ET_OP_ATTENTION, name, inputs, 4, &attributes);
}

/* slot and begin share input 2; attributes.self tells which it is. Exactly one of the two is given.
 */
et_node *et_cached_attention(et_node *q, et_node *cache, et_node *slot, et_node *begin,
                             et_node *length, int heads)
{
    if (!slot == !begin)
        return et_graph_poison(q->graph, "cached_attention: give either slot or begin, not both");
    et_attributes attributes = { .attention = { .heads = heads }, .self = slot != NULL };
    et_node *inputs[] = { q, cache, slot ? slot : begin, length };
    return et_node_add(q->graph, ET_OP_CACHED_ATTENTION, NULL, inputs, 4, &attributes);
}

et_node *et_recurrence_over(et_node *x, et_node *gate, et_node *offsets)
{
    et_node *inputs[] = { x, gate, offsets };
    return et_node_add(x->graph, ET_OP_RECURRENCE, NULL, inputs, 3, NULL);
}

et_node *et_recurrence_step(et_node *x, et_node *gate, et_node *state, et_node *where)
{
    et_node *inputs[] = { x, gate, state, where };
    return et_node_add(x->graph, ET_OP_RECURRENCE, NULL, inputs, 4, NULL);
}

/* The losses: `gradient` stays false until derivatives are requested; then the kernels compute them
 * in the same pass. */
et_node *et_vocabulary_loss_offset(et_node *h, et_node *table, et_node *offsets, et_node *labels,
                                   float smoothing)
{
    et_node *inputs[] = { et_as_act(h->graph, h), table, labels, offsets };
    et_attributes attributes = { .x = smoothing, .offset = offsets != NULL };
    if (!et_in_range(h->graph, ET_OP_VOCABULARY_LOSS, "smoothing", smoothing, 0, ET_BELOW_1))
        return &h->graph->poison;
    return et_node_add(h->graph, ET_OP_VOCABULARY_LOSS, NULL, inputs, offsets ? 4 : 3, &attributes);
}

et_node *et_vocabulary_loss(et_node *h, et_node *table, et_node *labels, float smoothing)
{
    return et_vocabulary_loss_offset(h, table, NULL, labels, smoothing);
}

/* The same op, with the other draw as its fourth input. */
et_node *et_r_drop_loss(et_node *h, et_node *again, et_node *table, et_node *labels,
                        float smoothing, float weight)
{
    et_node *inputs[] = { et_as_act(h->graph, h), table, labels, et_as_act(h->graph, again) };
    et_attributes attributes = { .x = smoothing, .agreement = weight };
    if (!et_in_range(h->graph, ET_OP_VOCABULARY_LOSS, "smoothing", smoothing, 0, ET_BELOW_1) ||
        !et_in_range(h->graph, ET_OP_VOCABULARY_LOSS, "weight", weight, 0, FLT_MAX))
        return &h->graph->poison;
    return et_node_add(h->graph, ET_OP_VOCABULARY_LOSS, NULL, inputs, 4, &attributes);
}

/* For logits that exist in full: no table among the inputs, whose product would come first. */
et_node *et_softmax_loss(et_node *logits, et_node *labels, float smoothing)
{
    et_node *inputs[] = { logits, labels };
    et_attributes attributes = { .x = smoothing };
    if (!et_in_range(logits->graph, ET_OP_SOFTMAX_LOSS, "smoothing", smoothing, 0, ET_BELOW_1))
        return &logits->graph->poison;
    return et_node_add(logits->graph, ET_OP_SOFTMAX_LOSS, NULL, inputs, 2, &attributes);
}

et_node *et_vocabulary_best(et_node *h, et_node *table, int count, et_node **token)
{
    et_node *inputs[] = { h, table };
    et_attributes attributes = { .count = count };
    et_node *best = et_node_add(h->graph, ET_OP_VOCABULARY_BEST, NULL, inputs, 2, &attributes);
    *token = et_node_result(best, 1);
    return best;
}
