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
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/dtype.h"
#include "base/numbers/philox.h"
#include "base/text/strbuf.h"
#include "base/vector.h"
#include "engine/graph/graph.h"
#include "engine/graph/node.h"

/* Checks a number of an op that the shape rules do not see: at least `least`, and at most `most` or
 * less than 1. Otherwise poisons the graph, with the op's name and the allowed range. A NaN fails
 * every comparison. */
static bool in_range(et_graph *graph, et_op op, const char *what, double x, double least,
                     double most)
{
    if (x >= least && x <= most)
        return true;
    if (most == ET_BELOW_1)
        et_graph_poison(graph, "%s: %s %g: must be at least %g and less than 1", et_op_name(op),
                        what, x, least);
    else
        et_graph_poison(graph, "%s: %s %g: must be from %g to %g", et_op_name(op), what, x, least,
                        most);
    return false;
}

static et_node *unary(et_op op, et_node *x)
{
    return et_node_of(x->graph, op, NULL, x);
}

/* With a number, `what` in messages, from least on, below or at most. */
static et_node *with_number(et_op op, et_node *const *inputs, int count, const char *what, float x,
                            double least, double most)
{
    et_graph *graph = inputs[0]->graph;
    et_attributes attributes = { .x = x };
    return in_range(graph, op, what, x, least, most)
               ? et_node_add(graph, op, NULL, inputs, count, &attributes)
               : &graph->poison;
}

/* "scope/name", of a random node "draw/scope/name", which chooses its numbers; in the graph's
 * arena. Without memory, returns the bare name; the arena remembers the failure, so et_node_add
 * makes no node. */
static const char *full_name(et_scope *scope, const char *draw, const char *name)
{
    const char *full = et_arena_printf(&scope->graph->arena, "%s%s%s", draw, scope->prefix, name);
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

/* Whether an input can be bound: the graph has no layout of batches, the layout has this full name
 * and type, or the name is ET_GRAPH_ONE. Otherwise records an error. */
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
    const char *full = full_name(scope, "", name);
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
    if (!ET_VECTOR_GROW(graph->param_nodes, graph->param_capacity, (size_t)index + 1)) {
        et_graph_out_of_memory(graph);
        return NULL;
    }
    if (known < graph->param_capacity)
        memset(graph->param_nodes + known, 0, (graph->param_capacity - known) * sizeof(et_node *));
    return &graph->param_nodes[index];
}

/* Declared in the store first, which also compares shapes over several graphs; the store's
 * message names the parameter and both shapes. */
static et_node *stored(et_scope *scope, const char *name, et_shape shape, et_init init,
                       bool trained)
{
    et_graph *graph = scope->graph;
    if (!et_has_name(scope, name))
        return &graph->poison;
    const char *full = full_name(scope, "", name);
    if (graph->arena.failed)
        return et_graph_out_of_memory(graph);
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
    const char *first = full_name(scope, scope->draw, name);
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

/* x in the graph's activation type, as products read their operands. x itself if it is a parameter,
 * whole numbers, or an operand that the op refuses. */
static et_node *as_act(et_graph *graph, et_node *x)
{
    const bool given = x && x->graph == graph && !et_node_is_poison(x);
    return given && x->op != ET_OP_PARAM && et_node_dtype(x) != ET_I32
               ? et_cast(x, et_graph_act(graph))
               : x;
}

/* bias NULL: two inputs, not three with a hole. */
et_node *et_matmul(et_node *a, et_node *b, et_node *bias, const et_matmul_options *options)
{
    et_node *inputs[] = { as_act(a->graph, a), as_act(a->graph, b), bias };
    et_attributes attributes = { 0 };
    if (options)
        attributes.matmul = *options;
    if (!in_range(a->graph, ET_OP_MATMUL, "row_tile", (double)attributes.matmul.row_tile, 0,
                  INT32_MAX) ||
        !in_range(a->graph, ET_OP_MATMUL, "groups", (double)attributes.matmul.groups, 0, INT32_MAX))
        return &a->graph->poison;
    return et_node_add(a->graph, ET_OP_MATMUL, NULL, inputs, bias ? 3 : 2, &attributes);
}

/* Its result 1 (each row's mean and reciprocal deviation) is made in any case; only the
 * derivative reads it. */
et_node *et_layer_norm(et_node *x, et_node *gamma, et_node *beta, float epsilon)
{
    et_node *inputs[] = { x, gamma, beta };
    return with_number(ET_OP_LAYER_NORM, inputs, 3, "epsilon", epsilon, 0, FLT_MAX);
}

/* Positions come as a pair: what to add, and the row of it for each id. */
et_node *et_embedding(et_node *ids, et_node *table, float scale, et_node *position,
                      et_node *positions)
{
    et_node *inputs[] = { ids, table, position, positions };
    if (!position != !positions)
        return et_graph_poison(ids->graph,
                               "embedding: give both position and positions, or neither");
    return with_number(ET_OP_EMBEDDING, inputs, position ? 4 : 2, "scale", scale, -FLT_MAX,
                       FLT_MAX);
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
    if (!in_range(scope->graph, ET_OP_ATTENTION, "rate", options->rate, 0, ET_BELOW_1) ||
        !in_range(scope->graph, ET_OP_ATTENTION, "longest_key", options->longest_key, 0, INT32_MAX))
        return &scope->graph->poison;
    attributes.site = et_random_site(name);
    q = as_act(scope->graph, q);
    kv = attributes.self ? q : as_act(scope->graph, kv);
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
    return et_node_of(q->graph, ET_OP_CACHED_ATTENTION, &attributes, q, cache, slot ? slot : begin,
                      length);
}

et_node *et_recurrence_over(et_node *x, et_node *gate, et_node *offsets)
{
    return et_node_of(x->graph, ET_OP_RECURRENCE, NULL, x, gate, offsets);
}

et_node *et_recurrence_step(et_node *x, et_node *gate, et_node *state, et_node *where)
{
    return et_node_of(x->graph, ET_OP_RECURRENCE, NULL, x, gate, state, where);
}

/* The losses: `gradient` stays false until derivatives are requested; then the kernels compute them
 * in the same pass. */
et_node *et_vocabulary_loss_offset(et_node *h, et_node *table, et_node *offsets, et_node *labels,
                                   float smoothing)
{
    et_node *inputs[] = { as_act(h->graph, h), table, labels, offsets };
    et_attributes attributes = { .x = smoothing, .offset = offsets != NULL };
    if (!in_range(h->graph, ET_OP_VOCABULARY_LOSS, "smoothing", smoothing, 0, ET_BELOW_1))
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
    et_attributes attributes = { .x = smoothing, .agreement = weight };
    if (!in_range(h->graph, ET_OP_VOCABULARY_LOSS, "smoothing", smoothing, 0, ET_BELOW_1) ||
        !in_range(h->graph, ET_OP_VOCABULARY_LOSS, "weight", weight, 0, FLT_MAX))
        return &h->graph->poison;
    return et_node_of(h->graph, ET_OP_VOCABULARY_LOSS, &attributes, as_act(h->graph, h), table,
                      labels, as_act(h->graph, again));
}

/* For complete logits: the op has no table among its inputs, so it computes no product. */
et_node *et_softmax_loss(et_node *logits, et_node *labels, float smoothing)
{
    et_node *inputs[] = { logits, labels };
    return with_number(ET_OP_SOFTMAX_LOSS, inputs, 2, "smoothing", smoothing, 0, ET_BELOW_1);
}

et_node *et_vocabulary_best(et_node *h, et_node *table, int count, et_node **token)
{
    et_attributes attributes = { .count = count };
    et_node *best = et_node_of(h->graph, ET_OP_VOCABULARY_BEST, &attributes, h, table);
    *token = et_node_result(best, 1);
    return best;
}

/* ---- element-wise ops ---- */

/* The builders of <etude/ops_elementwise.h>: a row of elementwise.def each, or a few. */

/* A constant of the graph. A number that changes from step to step would be an input. */
static et_node *with_constant(et_op op, et_node *a, float x)
{
    et_attributes attributes = { .x = x };
    return et_node_of(a->graph, op, &attributes, a);
}

/* et_sub is a separate op instead of et_add of et_scale: one pass, and no rounding of a product in
 * between. */
#define BINARY(name, id)                                                                           \
    et_node *name(et_node *a, et_node *b)                                                          \
    {                                                                                              \
        return et_node_binary(ET_OP_##id, a, b);                                                   \
    }
BINARY(et_add, ADD)
BINARY(et_sub, SUB)
BINARY(et_mul, MUL)
BINARY(et_div, DIV)
BINARY(et_bias, ADD)

et_node *et_scale(et_node *a, float factor)
{
    return with_number(ET_OP_SCALE, &a, 1, "factor", factor, -FLT_MAX, FLT_MAX);
}

et_node *et_offset(et_node *a, float number)
{
    return with_number(ET_OP_OFFSET, &a, 1, "number", number, -FLT_MAX, FLT_MAX);
}

et_node *et_copy(et_node *x, et_dtype dtype, et_shape shape)
{
    if (et_node_is_poison(x) ||
        (et_node_dtype(x) == dtype && et_shape_equal(et_node_shape(x), shape)))
        return x;
    et_attributes attributes = { .leaf = { dtype, shape } };
    return et_node_of(x->graph, ET_OP_COPY, &attributes, x);
}

et_node *et_cast(et_node *x, et_dtype dtype)
{
    const et_dtype from = et_node_dtype(x);
    if (et_node_is_poison(x) || from == dtype)
        return x;
    if (dtype != ET_F32 && dtype != ET_BF16)
        return et_graph_poison(x->graph, "%s: cannot be cast from %s to %s; give %s or %s", x->name,
                               et_dtype_name(from), et_dtype_name(dtype), et_dtype_name(ET_F32),
                               et_dtype_name(ET_BF16));
    if (from != ET_I32)
        return et_copy(x, dtype, et_node_shape(x));
    et_attributes attributes = { .leaf = { .dtype = dtype } };
    return et_node_of(x->graph, ET_OP_CAST, &attributes, x);
}

/* Each activation is a node, so that exec may fuse it with its neighbours; only et_matmul's relu
 * option needs no node. */
#define UNARY(name, id)                                                                            \
    et_node *name(et_node *x)                                                                      \
    {                                                                                              \
        return unary(ET_OP_##id, x);                                                               \
    }
UNARY(et_relu, RELU)
UNARY(et_gelu, GELU)
UNARY(et_tanh, TANH)
UNARY(et_sigmoid, SIGMOID)
UNARY(et_swish, SWISH)
UNARY(et_softplus, SOFTPLUS)
UNARY(et_selu, SELU)
UNARY(et_mish, MISH)
UNARY(et_exp, EXP)
UNARY(et_ln, LOG)
UNARY(et_sqrt, SQRT)
UNARY(et_sin, SIN)
UNARY(et_cos, COS)
UNARY(et_square, SQUARE)
UNARY(et_reciprocal, RECIPROCAL)
UNARY(et_abs, ABS)

/* Cheap exponents have their own ops. */
et_node *et_power(et_node *x, float exponent)
{
    if (!isfinite(exponent) || exponent == 0)
        return et_graph_poison(x->graph, "%s: the exponent %g must be a number other than 0",
                               x->name, (double)exponent);
    return exponent == 1      ? x
           : exponent == 2    ? et_square(x)
           : exponent == 0.5f ? et_sqrt(x)
           : exponent == -1   ? et_reciprocal(x)
                              : with_constant(ET_OP_POWER, x, exponent);
}

/* An infinite bound is no bound. */
et_node *et_clamp(et_node *x, float low, float high)
{
    if (!(low <= high))
        return et_graph_poison(x->graph, "%s: the range [%g, %g] is empty", x->name, (double)low,
                               (double)high);
    if (low > -INFINITY)
        x = with_constant(ET_OP_AT_LEAST, x, low);
    return high < INFINITY ? with_constant(ET_OP_AT_MOST, x, high) : x;
}

/* ---- layouts ---- */

/* The builders of <etude/ops_layout.h>, <etude/ops_image.h> and <etude/ops_random.h>. */

et_node *et_reshape(et_node *x, et_shape shape)
{
    et_attributes attributes = { .leaf = { .shape = shape } };
    return et_node_of(x->graph, ET_OP_RESHAPE, &attributes, x);
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
    return in_range(nodes[0]->graph, ET_OP_CONCATENATE, "count", count, 1, INT_MAX);
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
    return et_node_of(x->graph, ET_OP_SLICE, &attributes, x);
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
    return et_node_binary(ET_OP_GATHER, x, row);
}

et_node *et_one_hot(et_node *ids, int64_t depth)
{
    et_attributes attributes = { .count = (int)depth };
    if (!in_range(ids->graph, ET_OP_ONE_HOT, "depth", (double)depth, 1, INT_MAX))
        return &ids->graph->poison;
    return et_node_of(ids->graph, ET_OP_ONE_HOT, &attributes, ids);
}

/* Without memory no node is made: the arena remembers the failure, and et_node_add checks it. */
et_node *et_embed_columns(et_node *ids, et_node *table, const et_column *columns, int count)
{
    if (!in_range(ids->graph, ET_OP_EMBED_COLUMNS, "columns", count, 1, INT_MAX))
        return &ids->graph->poison;
    et_column *kept = et_arena_array(&ids->graph->arena, count, sizeof *kept);
    if (kept)
        memcpy(kept, columns, count * sizeof *kept);
    et_attributes attributes = { .columns = kept, .count = count };
    return et_node_of(ids->graph, ET_OP_EMBED_COLUMNS, &attributes, ids, table);
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
    return with_number(ET_OP_RMS_NORM, inputs, 2, "epsilon", epsilon, 0, FLT_MAX);
}

et_node *et_batch_norm(et_node *x, et_node *gamma, et_node *beta, et_node *mask, float epsilon,
                       et_node **mean, et_node **variance)
{
    et_node *inputs[] = { x, gamma, beta, mask };
    et_node *y =
        with_number(ET_OP_BATCH_NORM, inputs, mask ? 4 : 3, "epsilon", epsilon, 0, FLT_MAX);
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
    return with_number(ET_OP_BATCH_NORM, inputs, 5, "epsilon", epsilon, 0, FLT_MAX);
}

/* ---- images ---- */

et_node *et_convolution(et_node *x, et_node *weight, et_node *bias,
                        const et_convolution_options *options)
{
    et_node *inputs[] = { as_act(x->graph, x), weight, bias };
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
    return et_node_of(x->graph, op, &attributes, x);
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
    const char *full = full_name(scope, scope->draw, name);
    et_attributes attributes = { .leaf = { graph->options.act, shape },
                                 .site = et_random_site(full) };
    return et_node_add(graph, ET_OP_NOISE, full, NULL, 0, &attributes);
}

et_node *et_bernoulli(et_scope *scope, const char *name, et_node *p)
{
    if (!et_has_name(scope, name))
        return &scope->graph->poison;
    const char *full = full_name(scope, scope->draw, name);
    et_attributes attributes = { .site = et_random_site(full) };
    return et_node_add(scope->graph, ET_OP_BERNOULLI, full, &p, 1, &attributes);
}

/* ---- losses ---- */

/* The builders of <etude/ops_loss.h>: sums, softmax, and losses by rows, which are chains of
 * element-wise ops and a sum over columns; and the loss by sampled classes of build.h. */

et_node *et_sum(et_node *x)
{
    return unary(ET_OP_SUM, x);
}

et_node *et_column_sum(et_node *x)
{
    return unary(ET_OP_COLUMN_SUM, x);
}

/* A single column is its own sum. */
et_node *et_row_sum(et_node *x)
{
    et_shape shape = et_node_shape(x);
    if (shape.rank == 2 && shape.size[1] == 1)
        return et_copy(x, ET_F32, shape);
    return unary(ET_OP_ROW_SUM, x);
}

et_node *et_mean(et_node *x)
{
    return et_scale(et_sum(x), 1.0f / (float)et_shape_count(et_node_shape(x)));
}

/* The size does not matter for poison, or for a shape that the sum will refuse. */
static float share_of(et_node *x, int dimension)
{
    et_shape shape = et_node_shape(x);
    return shape.rank == 2 ? 1.0f / (float)shape.size[dimension] : 1;
}

et_node *et_column_mean(et_node *x)
{
    return et_scale(et_column_sum(x), share_of(x, 0));
}

et_node *et_row_mean(et_node *x)
{
    float share = share_of(x, 1);
    return share == 1 ? et_row_sum(x) : et_scale(et_row_sum(x), share);
}

et_node *et_softmax(et_node *x)
{
    return unary(ET_OP_SOFTMAX, x);
}

et_node *et_log_softmax(et_node *x)
{
    return unary(ET_OP_LOG_SOFTMAX, x);
}

/* ---- losses by rows ---- */

/* A loss adds up float32, not the activations' type. A number for each row is a column. */
static et_node *wide(et_node *x)
{
    const et_shape shape = et_node_shape(x);
    et_node *own = et_copy(x, ET_F32, shape);
    return shape.rank == 1 ? et_reshape(own, et_shape_2(shape.size[0], 1)) : own;
}

et_node *et_squared_error(et_node *x, et_node *target)
{
    return et_row_mean(et_square(et_sub(wide(x), wide(target))));
}

et_node *et_absolute_error(et_node *x, et_node *target)
{
    return et_row_mean(et_abs(et_sub(wide(x), wide(target))));
}

/* With c = clamp(r, -delta, delta) both branches are c (r - c / 2), and so are their derivatives.
 */
et_node *et_huber_error(et_node *x, et_node *target, float delta)
{
    if (!(delta > 0))
        return et_graph_poison(x->graph, "%s: a Huber loss needs delta > 0, not %g", x->name,
                               (double)delta);
    et_node *r = et_sub(wide(x), wide(target));
    et_node *c = et_clamp(r, -delta, delta);
    return et_row_mean(et_mul(c, et_sub(r, et_scale(c, 0.5f))));
}

/* -t log s(z) - (1 - t) log(1 - s(z)), s the logistic function, written without logarithms of
 * values that may be 0. */
et_node *et_binary_cross_entropy(et_node *logits, et_node *target)
{
    et_node *z = wide(logits);
    return et_row_mean(et_sub(et_softplus(z), et_mul(z, wide(target))));
}

et_node *et_cross_entropy(et_node *logits, et_node *labels, float smoothing, et_node **nll,
                          et_node **correct)
{
    et_node *loss;
    et_attributes attributes = { .x = smoothing };
    if (smoothing >= 0 && smoothing < 1)
        loss = et_node_of(logits->graph, ET_OP_CROSS_ENTROPY, &attributes, logits, labels);
    else
        loss = et_graph_poison(logits->graph, "%s: label smoothing %g is not in [0, 1)",
                               logits->name, (double)smoothing);
    if (nll)
        *nll = et_node_result(loss, 1);
    if (correct)
        *correct = et_node_result(loss, 2);
    return loss;
}

et_node *et_labelled(et_node *labels)
{
    return unary(ET_OP_LABELLED, labels);
}

et_node *et_weighted_sum(et_node *rows, et_node *weights)
{
    return et_sum(weights ? et_mul(rows, weights) : rows);
}

/* ---- softmax by sampled classes ---- */

/* Candidates, a gathering of rows, and the vocabulary's loss. */

et_node *et_candidates(et_scope *scope, const char *name, et_node *labels, int64_t classes,
                       int64_t count, et_node **positions, et_node **offsets)
{
    et_node *poison = &scope->graph->poison;
    *positions = *offsets = poison;
    if (!et_has_name(scope, name) ||
        !in_range(scope->graph, ET_OP_CANDIDATES, "count", (double)count, 1, INT_MAX) ||
        !in_range(scope->graph, ET_OP_CANDIDATES, "classes", (double)classes, 1, INT_MAX))
        return poison;
    const char *full = full_name(scope, scope->draw, name);
    et_attributes attributes = { .site = et_random_site(full),
                                 .count = (int)count,
                                 .classes = classes };
    et_node *candidates =
        et_node_add(scope->graph, ET_OP_CANDIDATES, full, &labels, 1, &attributes);
    *positions = et_node_result(candidates, 1);
    *offsets = et_node_result(candidates, 2);
    return candidates;
}

/* The vocabulary's loss over the candidates' rows, with offsets as fourth input. An operand that is
 * no matrix is refused as in the whole loss. */
et_node *et_sampled_loss(et_scope *scope, et_node *h, et_node *table, et_node *labels,
                         float smoothing, int64_t count)
{
    et_graph *graph = scope->graph;
    if (!table || et_node_shape(table).rank != 2)
        return et_vocabulary_loss(h, table, labels, smoothing);
    const int64_t words = et_node_shape(table).size[0];
    if (!in_range(graph, ET_OP_VOCABULARY_LOSS, "smoothing", smoothing, 0, ET_BELOW_1) ||
        !in_range(graph, ET_OP_CANDIDATES, "count", (double)count, 1, (double)words))
        return &graph->poison;
    if (!graph->options.training || count == words)
        return et_vocabulary_loss(h, table, labels, smoothing);
    et_node *positions, *offsets;
    et_node *candidates =
        et_candidates(scope, "candidates", labels, words, count, &positions, &offsets);
    et_attributes attributes = { .x = smoothing, .offset = true };
    return et_node_of(graph, ET_OP_VOCABULARY_LOSS, &attributes, h,
                      et_gather_rows(table, candidates), positions, offsets);
}
