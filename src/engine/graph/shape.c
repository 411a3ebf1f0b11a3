/* Shape rules: one function per op, which sets the types of a node's results from its inputs, or
 * refuses with the reason. They find models that do not fit together, so a message names the node,
 * the op and both shapes:
 *
 *   matmul_17 (matmul): inner sizes differ: relu_16 [128, 512] and out/weight [256, 10]
 *
 * Later stages (exec, kernels) trust the shapes and check nothing again.
 *
 * Ops that only derivatives make (..._GRAD, FILL) have the types of the operands. Types: products
 * and look-ups give the graph's activation type, element-wise ops that of their inputs, sums and
 * per-column results float32. An image is [N, H, W, C].
 *
 * A rule sets node->type[], or refuses and returns false. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/vector.h"
#include "engine/graph/build.h"
#include "engine/graph/node.h"
#include "engine/tensor/tensor.h"

/* Type of input number `input`. Every input is one value: further results are separate nodes. */
static et_shape shape(const et_node *node, int input)
{
    return node->input[input]->type[0].shape;
}

static et_dtype dtype(const et_node *node, int input)
{
    return node->input[input]->type[0].dtype;
}

static et_dtype act(const et_node *node)
{
    return node->graph->options.act;
}

/* The node's own value, and after it further results in their order. */
static bool set(et_node *node, et_dtype type, et_shape size)
{
    char text[ET_SHAPE_TEXT_MAX];
    if (!et_shape_valid(size)) {
        et_graph_poison(node->graph,
                        "%s (%s): %s is not a shape: sizes are 0 or more, their product below 2^55",
                        node->name, et_op_name(node->op), et_shape_print(size, text));
        return false;
    }
    node->type[0] = (et_result_type){ type, size };
    return true;
}

static void add_result(et_node *node, et_dtype type, et_shape size)
{
    et_assert(node->results < ET_NODE_RESULTS_MAX);
    node->type[node->results++] = (et_result_type){ type, size };
}

/* The name of a node in messages: as the program gave it. A generated name, "out/matmul_7", is
 * shown without its number; of the node that is refused, only the scope is shown. */
static int name_length(const et_node *node, bool refused)
{
    char end[40];
    const int whole = (int)strlen(node->name);
    const int numbered = snprintf(end, sizeof end, "_%d", node->id);
    const int named = (int)strlen(et_op_name(node->op)) + numbered;
    if (whole < named || strcmp(node->name + whole - numbered, end) != 0 ||
        strncmp(node->name + whole - named, et_op_name(node->op), (size_t)(named - numbered)) != 0)
        return whole;
    const int scope = whole - named;
    return !refused ? whole - numbered : scope ? scope - 1 : 0;
}

/* Names the scope, the op and inputs a and b with their shapes, which may be the same one.
 * Returns false, so that a rule ends in `return refuse(...)`. */
static bool refuse(et_node *node, const char *reason, int a, int b)
{
    char left[ET_SHAPE_TEXT_MAX], right[ET_SHAPE_TEXT_MAX];
    const et_node *x = node->input[a], *y = node->input[b];
    const int scope = name_length(node, true);
    et_graph_poison(node->graph, "%.*s (%s): %s: %.*s %s and %.*s %s", scope ? scope : 9,
                    scope ? node->name : "the model", et_op_name(node->op), reason,
                    name_length(x, false), x->name, et_shape_print(shape(node, a), left),
                    name_length(y, false), y->name, et_shape_print(shape(node, b), right));
    return false;
}

#define NOT_FLOAT "not floating-point numbers (et_cast makes whole numbers float32)"

/* Whether input number `input` has values that can be computed with. */
static bool is_float(const et_node *node, int input)
{
    return dtype(node, input) == ET_F32 || dtype(node, input) == ET_BF16;
}

static bool is_matrix(et_shape s)
{
    return s.rank == 2;
}

/* A sum over nothing, or a cut into no parts, is refused when it is built. */
static bool is_empty(et_shape s)
{
    return et_shape_count(s) == 0;
}

/* A bias, scale or offset of `size` columns, or one number for each of `size` rows. */
static bool is_vector_of(const et_node *node, int input, int64_t size)
{
    return shape(node, input).rank == 1 && shape(node, input).size[0] == size;
}

/* The same, of this type. */
static bool is_vector_as(const et_node *node, int input, int64_t size, et_dtype type)
{
    return is_vector_of(node, input, size) && dtype(node, input) == type;
}

/* Whether an element-wise op repeats `small` over the rows or columns of `full`: [D] for every row,
 * [T, 1] for every column, a scalar for both. */
static bool is_repeated(et_shape small, et_shape full)
{
    if (small.rank == 0)
        return true;
    if (full.rank != 2)
        return false;
    return small.rank == 1 ? small.size[0] == full.size[1]
                           : small.rank == 2 && small.size[0] == full.size[0] && small.size[1] == 1;
}

/* The type given by the builder, or by a derivative rule. */
static bool leaf(et_node *node)
{
    const et_result_type *type = &node->attributes.leaf;
    if ((unsigned)type->dtype >= ET_U8) {
        et_graph_poison(node->graph, "%s (%s): %d is not an element type", node->name,
                        et_op_name(node->op), (int)type->dtype);
        return false;
    }
    return set(node, type->dtype, type->shape);
}

/* The type was set by the input's own rule, in the place that the attribute names. */
static bool shape_RESULT(et_node *node)
{
    et_assert(node->attributes.result > 0 && node->attributes.result < node->input[0]->results);
    const et_result_type *type = &node->input[0]->type[node->attributes.result];
    return set(node, type->dtype, type->shape);
}

/* Any shape to a scalar. float32 whatever x is: it is a loss, not an activation. */
static bool shape_SUM(et_node *node)
{
    if (!is_float(node, 0))
        return refuse(node, "not floating-point numbers", 0, 0);
    return set(node, ET_F32, et_shape_scalar());
}

/* Derivatives of operands have the operands' types: result k that of input like[k] (0: no more). A
 * FILL has the type of the node that gives its shape, whose values are not read. */
static bool shape_like_inputs(et_node *node)
{
    static const unsigned char like_of[ET_OP_COUNT][ET_NODE_RESULTS_MAX] = {
        [ET_OP_FILL] = { 1 },
        [ET_OP_LAYER_NORM_GRAD] = { 1, 3, 3, 1 }, /* dx, dgamma, dbeta; y again if beta is there */
        [ET_OP_RMS_NORM_GRAD] = { 1, 3 },         /* dx, dgamma */
        [ET_OP_BATCH_NORM_GRAD] = { 1, 4, 4 },    /* dx, dgamma, dbeta */
        [ET_OP_ATTENTION_GRAD] = { 2, 3 },        /* dq, dkv; self: of both */
        [ET_OP_RECURRENCE_GRAD] = { 2, 3 },       /* dx, dgate */
        [ET_OP_SCALED_COPIES_GRAD] = { 1, 2, 3 }, /* dw, drow, dcolumn if it has scales */
    };
    const unsigned char *like = like_of[node->op];
    int most = node->attributes.self ? 1 : ET_NODE_RESULTS_MAX;
    if (node->op == ET_OP_LAYER_NORM_GRAD && node->inputs < 5)
        most = 3;
    node->results = 0;
    for (int k = 0; k < most && like[k] && like[k] < node->inputs; k++)
        add_result(node, dtype(node, like[k]), shape(node, like[k]));
    return true;
}

/* Products read activations, or parameters, whose bfloat16 copy the plan keeps. */
static bool is_operand(const et_node *node, int input)
{
    return dtype(node, input) == act(node) || node->input[input]->op == ET_OP_PARAM;
}

/* a [M, K] and b [K, N] to [M, N], or stored [K, M] and [N, K] if the flags say so; bias [N]. A
 * flag is 0 or 1, so it serves as an index: size[transpose] is the first size in the product,
 * size[!transpose] the second. With groups, these are the sizes of one group. */
static bool shape_MATMUL(et_node *node)
{
    const et_matmul_options *options = &node->attributes.matmul;
    et_shape a = shape(node, 0), b = shape(node, 1);
    if (!is_matrix(a) || !is_matrix(b))
        return refuse(node, "not two matrices", 0, 1);
    if (!is_operand(node, 0) || !is_operand(node, 1))
        return refuse(node, NOT_FLOAT, 0, 1);
    const int64_t groups = et_matmul_groups(options);
    if (groups > 1 && options->row_tile)
        return refuse(node, "row_tile and groups exclude each other", 0, 1);
    if (a.size[1] % groups || b.size[1] % groups)
        return refuse(node, "the columns of an operand do not divide into its groups", 0, 1);
    a.size[1] /= groups;
    b.size[1] /= groups;
    int64_t m = a.size[options->transpose_a], k = a.size[!options->transpose_a];
    int64_t n = b.size[!options->transpose_b], k_b = b.size[options->transpose_b];
    if (is_empty(a) || is_empty(b))
        return refuse(node, "a size is 0", 0, 1);
    /* K of both; everything else about the operands is free. */
    if (k != k_b)
        return refuse(node, "inner sizes differ", 0, 1);
    if (node->inputs == 3 && !is_vector_as(node, 2, groups * n, ET_F32))
        return refuse(node, "bias is not a float32 vector as wide as the result", 1, 2);
    return set(node, options->f32 ? ET_F32 : act(node), et_shape_2(m, groups * n));
}

/* x [T, D], gamma [D], beta [D]. Results: y as x; stats [T, 2] for the derivative. */
static bool shape_LAYER_NORM(et_node *node)
{
    et_shape x = shape(node, 0);
    if (!is_matrix(x) || !is_vector_of(node, 1, x.size[1]) || !is_vector_of(node, 2, x.size[1]))
        return refuse(node, "scale or offset is not a vector as wide as the input", 0, 1);
    if (!is_float(node, 0) || dtype(node, 1) != ET_F32 || dtype(node, 2) != ET_F32)
        return refuse(node, "scale or offset is not float32, or the input is not numeric", 0, 1);
    set(node, dtype(node, 0), x);
    add_result(node, ET_F32, et_shape_2(x.size[0], 2));
    return true;
}

/* ids [T], table [V, D] to [T, D]; with positions: position [T], positions [P, D]. exec checks that
 * ids are below V, which is not known before a run. */
static bool shape_EMBEDDING(et_node *node)
{
    et_shape ids = shape(node, 0), table = shape(node, 1);
    if (ids.rank != 1 || dtype(node, 0) != ET_I32 || !is_matrix(table) || dtype(node, 1) != ET_F32)
        return refuse(node, "not int32 ids and a float32 table", 0, 1);
    /* positions may have more rows than any id needs; only its width must fit. */
    if (node->inputs == 4) {
        et_shape positions = shape(node, 3);
        if (!is_vector_as(node, 2, ids.size[0], ET_I32))
            return refuse(node, "not one int32 position for each id", 0, 2);
        if (!is_matrix(positions) || positions.size[1] != table.size[1] || dtype(node, 3) != ET_F32)
            return refuse(node, "positions are not float32, as wide as the table", 1, 3);
    }
    return set(node, act(node), et_shape_2(ids.size[0], table.size[1]));
}

/* [S + 1] bounds of S segments, at least one. */
static bool is_offsets(const et_node *node, int input)
{
    et_shape s = shape(node, input);
    return s.rank == 1 && s.size[0] >= 2 && dtype(node, input) == ET_I32;
}

/* The result has D columns, D / heads for each head. Self: q and kv are one [T, 3 D]; cross: q [Tq,
 * D], kv [Tk, 2 D]. Results: [Tq, D]; lse [Tq, heads] for the derivative. Both sides have the same
 * number of segments: query segment s attends to key segment s. */
static bool shape_ATTENTION(et_node *node)
{
    const et_attention_options *options = &node->attributes.attention;
    et_shape q = shape(node, 0), kv = shape(node, 1);
    if (!is_matrix(q) || !is_matrix(kv))
        return refuse(node, "not two matrices", 0, 1);
    if (dtype(node, 0) != act(node) || dtype(node, 1) != act(node))
        return refuse(node, "not of the graph's activation type", 0, 1);
    /* D. The next line refuses a remainder of the division. */
    int64_t width = node->attributes.self ? q.size[1] / 3 : q.size[1];
    if (node->attributes.self ? q.size[1] % 3 : kv.size[1] != 2 * width)
        return refuse(node, "widths are not 3 D (self) or D and 2 D (cross)", 0, 1);
    if (!width)
        return refuse(node, "a size is 0", 0, 1);
    if (options->heads < 1 || width % options->heads) {
        et_graph_poison(node->graph, "%s: width %lld is not a multiple of %d heads", node->name,
                        (long long)width, options->heads);
        return false;
    }
    if (!is_offsets(node, 2) || !is_offsets(node, 3) ||
        !et_shape_equal(shape(node, 2), shape(node, 3)))
        return refuse(node, "offsets are not int32 [segments + 1] each", 2, 3);
    /* lse is float32: the derivative takes an exponential of it, so it must not be rounded to
     * bfloat16. */
    set(node, act(node), et_shape_2(q.size[0], width));
    add_result(node, ET_F32, et_shape_2(q.size[0], options->heads));
    return true;
}

/* With three inputs offsets are the last; with four, state [slots, D] and where [T, 2]. */
static bool shape_RECURRENCE(et_node *node)
{
    const et_shape x = shape(node, 0), third = shape(node, 2);
    if (!is_matrix(x) || !et_shape_equal(x, shape(node, 1)))
        return refuse(node, "not two matrices of one shape", 0, 1);
    if (dtype(node, 0) != act(node) || dtype(node, 1) != act(node))
        return refuse(node, "not of the graph's activation type", 0, 1);
    if (node->inputs == 3 && !is_offsets(node, 2))
        return refuse(node, "offsets are not int32 [segments + 1]", 0, 2);
    if (node->inputs == 4 &&
        (!is_matrix(third) || third.size[1] != x.size[1] || dtype(node, 2) != ET_F32 ||
         !et_shape_equal(shape(node, 3), et_shape_2(x.size[0], 2)) || dtype(node, 3) != ET_I32))
        return refuse(node, "not a float32 state as wide as x, and two int32 slots for each row", 2,
                      3);
    return set(node, act(node), x);
}

/* cache [slots, 2 D] gives D; q is [R, 3 D] (self, with the new k and v) or [R, D]. Input 2 is slot
 * [R, longest] or begin [R], so only its rows are compared; length [R]. */
static bool shape_CACHED_ATTENTION(et_node *node)
{
    et_shape q = shape(node, 0), cache = shape(node, 1);
    bool self = node->attributes.self;
    int heads = node->attributes.attention.heads;
    if (!is_matrix(q) || !is_matrix(cache) || cache.size[1] % 2 ||
        q.size[1] != (self ? 3 : 1) * cache.size[1] / 2)
        return refuse(node, "widths are not 3 D (self) or D, and 2 D", 0, 1);
    /* Even, as was just checked. */
    int64_t width = cache.size[1] / 2;
    if (heads < 1 || width % heads) {
        et_graph_poison(node->graph, "%s: width %lld is not a multiple of %d heads", node->name,
                        (long long)width, heads);
        return false;
    }
    et_shape at = shape(node, 2);
    if (at.rank != (self ? 2 : 1) || at.size[0] != q.size[0] || dtype(node, 2) != ET_I32 ||
        !is_vector_as(node, 3, q.size[0], ET_I32))
        return refuse(node, "not one int32 slot row or begin, and length, for each row", 2, 3);
    if (dtype(node, 0) != act(node) || dtype(node, 1) != act(node))
        return refuse(node, "not of the graph's activation type", 0, 1);
    return set(node, act(node), et_shape_2(q.size[0], width));
}

/* h [T, D], table [V, D], labels [T], and optionally another h or offsets [V]. Results: the four
 * sums; dh as h but of activation type; dtable as the table, float32; dh of the other. All but the
 * first are only made if the node's gradient is needed. */
static bool shape_VOCABULARY_LOSS(et_node *node)
{
    et_shape h = shape(node, 0), table = shape(node, 1);
    if (!is_matrix(h) || !is_matrix(table) || h.size[1] != table.size[1])
        return refuse(node, "widths differ", 0, 1);
    if (dtype(node, 0) != act(node) || dtype(node, 1) != ET_F32)
        return refuse(node, "not of the graph's activation type and float32", 0, 1);
    if (is_empty(h) || is_empty(table))
        return refuse(node, "a size is 0", 0, 1);
    if (!is_vector_as(node, 2, h.size[0], ET_I32))
        return refuse(node, "not one int32 label for each row", 0, 2);
    const bool draws = et_loss_of_two_draws(node);
    if (draws && (!et_shape_equal(shape(node, 3), h) || dtype(node, 3) != act(node)))
        return refuse(node, "two draws have different rows", 0, 3);
    if (node->attributes.offset && !is_vector_as(node, 3, table.size[0], ET_F32))
        return refuse(node, "not one float32 offset for each row of the table", 1, 3);
    set(node, ET_F32, et_shape_1(ET_LOSS_SUM_COUNT));
    add_result(node, act(node), h);
    add_result(node, ET_F32, table);
    if (draws)
        add_result(node, act(node), h);
    return true;
}

/* labels [T]. Results: the candidates and, for each label, its place among them; offsets. All
 * labels may differ. */
static bool shape_CANDIDATES(et_node *node)
{
    const et_shape labels = shape(node, 0);
    const int64_t count = node->attributes.count, classes = node->attributes.classes;
    if (labels.rank != 1 || dtype(node, 0) != ET_I32)
        return refuse(node, "not a vector of int32 labels", 0, 0);
    if (count > classes || (count < classes && count < labels.size[0])) {
        et_graph_poison(node->graph,
                        "%s: %lld candidates of %lld classes for %lld labels: give at least as "
                        "many candidates as labels, at most as many as classes",
                        node->name, (long long)count, (long long)classes,
                        (long long)labels.size[0]);
        return false;
    }
    set(node, ET_I32, et_shape_1(count));
    add_result(node, ET_I32, labels);
    add_result(node, ET_F32, et_shape_1(count));
    return true;
}

/* h [T, D], table [V, D]. Results: log p and tokens, [T, count] each. */
static bool shape_VOCABULARY_BEST(et_node *node)
{
    et_shape h = shape(node, 0), table = shape(node, 1);
    int64_t count = node->attributes.count;
    if (!is_matrix(h) || !is_matrix(table) || h.size[1] != table.size[1])
        return refuse(node, "widths differ", 0, 1);
    if (!is_operand(node, 0) || !is_operand(node, 1))
        return refuse(node, "neither of the graph's activation type nor a parameter", 0, 1);
    if (count < 1 || count > table.size[0])
        return refuse(node, "too few tokens", 0, 1);
    set(node, ET_F32, et_shape_2(h.size[0], count));
    add_result(node, ET_I32, et_shape_2(h.size[0], count));
    return true;
}

/* Element-wise ops convert no types silently: two activations always have the same type, but a
 * parameter (float32) may be combined with a bfloat16 activation. A repeated operand is a vector or
 * one number, and may be a parameter. */
static bool fits(const et_node *node, int small, int full)
{
    if (!is_float(node, small) || !is_float(node, full))
        return false;
    if (et_shape_equal(shape(node, small), shape(node, full)))
        return dtype(node, small) == dtype(node, full);
    return is_repeated(shape(node, small), shape(node, full)) &&
           (dtype(node, small) == ET_F32 || dtype(node, small) == dtype(node, full));
}

/* Why two operands do not fit, with the cure. */
static const char *misfit(const et_node *node)
{
    const et_shape a = shape(node, 0), b = shape(node, 1);
    if (!is_float(node, 0) || !is_float(node, 1))
        return NOT_FLOAT;
    if (et_shape_equal(a, b))
        return "different types (et_cast gives one the type of the other)";
    return et_shape_count(a) == et_shape_count(b) && dtype(node, 0) == dtype(node, 1)
               ? "different shapes (et_reshape gives one the shape of the other)"
               : "different shapes or types";
}

static bool shape_elementwise(et_node *node)
{
    if (node->op == ET_OP_COPY) {
        /* The type and shape that the builder has given. */
        const et_result_type *to = &node->attributes.leaf;
        if (!is_float(node, 0) || (to->dtype != ET_F32 && to->dtype != ET_BF16) ||
            !(et_shape_equal(shape(node, 0), to->shape) || is_repeated(shape(node, 0), to->shape)))
            return refuse(node, "does not fit that shape", 0, 0);
        return set(node, to->dtype, to->shape);
    }
    int full = node->inputs == 2 && fits(node, 0, 1) ? 1 : 0;
    if (node->inputs == 2 && full == 0 && !fits(node, 1, 0))
        return refuse(node, misfit(node), 0, 1);
    if (!is_float(node, 0))
        return refuse(node, NOT_FLOAT, 0, 0);
    return set(node, dtype(node, full), shape(node, full));
}

static bool is_numbers(const et_node *node)
{
    return is_matrix(shape(node, 0)) && dtype(node, 0) != ET_I32;
}

/* [T, D] to [D], float32 as every bias is; to [T, 1], float32, a statistic; of a softmax to the
 * same.
 */
static bool shape_by_rows(et_node *node)
{
    const et_shape x = shape(node, 0);
    if (!is_numbers(node))
        return refuse(node, "not a numeric matrix", 0, 0);
    return node->op == ET_OP_COLUMN_SUM ? set(node, ET_F32, et_shape_1(x.size[1]))
           : node->op == ET_OP_ROW_SUM  ? set(node, ET_F32, et_shape_2(x.size[0], 1))
                                        : set(node, dtype(node, 0), x);
}

/* logits [T, V], labels [T]. Results: the four sums, or loss, nll and correct, float32 [T, 1] each;
 * then dlogits for dloss = 1, as the logits, only made if it is needed. */
static bool shape_of_logits(et_node *node)
{
    et_shape logits = shape(node, 0);
    if (!is_numbers(node))
        return refuse(node, "logits are not a numeric matrix", 0, 1);
    if (!is_vector_as(node, 1, logits.size[0], ET_I32))
        return refuse(node, "not one int32 label for each row", 0, 1);
    const bool by_rows = node->op == ET_OP_CROSS_ENTROPY;
    const et_shape column = et_shape_2(logits.size[0], 1);
    set(node, ET_F32, by_rows ? column : et_shape_1(ET_LOSS_SUM_COUNT));
    for (int i = 0; i < 2 && by_rows; i++)
        add_result(node, ET_F32, column);
    add_result(node, dtype(node, 0), logits);
    return true;
}

/* labels [T] to [T, 1]. */
static bool shape_LABELLED(et_node *node)
{
    if (shape(node, 0).rank != 1 || dtype(node, 0) != ET_I32)
        return refuse(node, "labels are not int32, one for each row", 0, 0);
    return set(node, ET_F32, et_shape_2(shape(node, 0).size[0], 1));
}

/* A poison input is never seen here, so a wrong number of elements is the model's. */
static bool shape_RESHAPE(et_node *node)
{
    char from[ET_SHAPE_TEXT_MAX], to[ET_SHAPE_TEXT_MAX];
    const et_result_type *wanted = &node->attributes.leaf;
    if (et_shape_count(shape(node, 0)) == et_shape_count(wanted->shape))
        return set(node, dtype(node, 0), wanted->shape);
    et_graph_poison(node->graph, "%s (%s): %s %s does not have as many elements as %s", node->name,
                    et_op_name(node->op), node->input[0]->name,
                    et_shape_print(shape(node, 0), from), et_shape_print(wanted->shape, to));
    return false;
}

/* Sizes must be equal except along the axis, where they are added. */
static bool shape_CONCATENATE(et_node *node)
{
    et_shape whole = shape(node, 0);
    int axis = node->attributes.along.axis;
    if (axis < 0 || axis >= whole.rank)
        return refuse(node, "a scalar has no rows or columns", 0, 0);
    for (int i = 1; i < node->inputs; i++) {
        et_shape next = shape(node, i);
        int64_t count = next.size[axis];
        next.size[axis] = shape(node, 0).size[axis];
        if (!et_shape_equal(next, shape(node, 0)) || dtype(node, i) != dtype(node, 0))
            return refuse(node, "other sizes or types differ", 0, i);
        whole.size[axis] += count;
    }
    return set(node, dtype(node, 0), whole);
}

static bool shape_SLICE(et_node *node)
{
    et_shape part = shape(node, 0);
    const et_axis_range *along = &node->attributes.along;
    if (along->axis < 0 || along->axis >= part.rank)
        return refuse(node, "a scalar has no rows or columns", 0, 0);
    if (along->first < 0 || along->count < 1 || along->first > part.size[along->axis] ||
        along->count > part.size[along->axis] - along->first) {
        char text[ET_SHAPE_TEXT_MAX];
        et_graph_poison(node->graph, "%s (%s): %s %s does not have %lld of its %s from %lld on",
                        node->name, et_op_name(node->op), node->input[0]->name,
                        et_shape_print(part, text), (long long)along->count,
                        along->axis ? "columns" : "rows", (long long)along->first);
        return false;
    }
    part.size[along->axis] = along->count;
    return set(node, dtype(node, 0), part);
}

/* x [T, D], row [R] to [R, D]. */
static bool shape_GATHER(et_node *node)
{
    et_shape x = shape(node, 0), row = shape(node, 1);
    if (!is_matrix(x) || row.rank != 1 || dtype(node, 1) != ET_I32)
        return refuse(node, "not a matrix and int32 rows", 0, 1);
    return set(node, dtype(node, 0), et_shape_2(row.size[0], x.size[1]));
}

static bool shape_ONE_HOT(et_node *node)
{
    et_shape ids = shape(node, 0);
    if (ids.rank != 1 || dtype(node, 0) != ET_I32)
        return refuse(node, "not a vector of int32 ids", 0, 0);
    return set(node, act(node), et_shape_2(ids.size[0], node->attributes.count));
}

/* The type that the builder has given. */
static bool shape_CAST(et_node *node)
{
    return set(node, node->attributes.leaf.dtype, shape(node, 0));
}

int64_t et_columns_size(const et_column *columns, int count)
{
    int64_t size = 0, table;
    for (int i = 0; i < count; i++)
        if (columns[i].rows < 0 || columns[i].width < 0 ||
            __builtin_mul_overflow(columns[i].rows, columns[i].width, &table) ||
            __builtin_add_overflow(size, table, &size))
            return -1;
    return size;
}

/* ids [T, count], table [size of all] to [T, widths together]. */
static bool shape_EMBED_COLUMNS(et_node *node)
{
    et_shape ids = shape(node, 0);
    const et_column *columns = node->attributes.columns;
    int count = node->attributes.count;
    int64_t width = 0;
    if (!is_matrix(ids) || dtype(node, 0) != ET_I32 || ids.size[1] != count)
        return refuse(node, "not int32 ids with one column for each table", 0, 1);
    for (int i = 0; i < count; i++) {
        if (columns[i].rows < 1 || columns[i].width < 1 ||
            __builtin_add_overflow(width, columns[i].width, &width)) {
            et_graph_poison(node->graph, "%s (%s): column %d has %lld rows of width %lld",
                            node->name, et_op_name(node->op), i, (long long)columns[i].rows,
                            (long long)columns[i].width);
            return false;
        }
    }
    if (!is_vector_as(node, 1, et_columns_size(columns, count), ET_F32))
        return refuse(node, "the table is not a float32 vector of all columns' tables", 0, 1);
    return set(node, act(node), et_shape_2(ids.size[0], width));
}

static bool shape_BERNOULLI(et_node *node)
{
    if (dtype(node, 0) == ET_I32)
        return refuse(node, "whole numbers are not probabilities", 0, 0);
    return set(node, dtype(node, 0), shape(node, 0));
}

/* w [K, N], row scales [G K], column scales [G N] to [K, G N]. */
static bool shape_SCALED_COPIES(et_node *node)
{
    et_shape w = shape(node, 0), rows = shape(node, 1);
    if (!is_matrix(w) || dtype(node, 0) != ET_F32 || is_empty(w))
        return refuse(node, "not a float32 matrix with rows and columns", 0, 0);
    if (rows.rank != 1 || dtype(node, 1) != ET_F32 || is_empty(rows) || rows.size[0] % w.size[0])
        return refuse(node, "not one float32 scale for each row of each copy", 0, 1);
    const int64_t count = rows.size[0] / w.size[0];
    if (node->inputs == 3 && !is_vector_as(node, 2, count * w.size[1], ET_F32))
        return refuse(node, "not one float32 scale for each column of each copy", 0, 2);
    return set(node, act(node), et_shape_2(w.size[0], count * w.size[1]));
}

/* x [T, D], gamma [D]. Results: y as x; 1 / root mean square [T] for the derivative. */
static bool shape_RMS_NORM(et_node *node)
{
    et_shape x = shape(node, 0);
    if (!is_matrix(x) || !is_vector_of(node, 1, x.size[1]))
        return refuse(node, "scale is not a vector as wide as the input", 0, 1);
    if (!is_float(node, 0) || dtype(node, 1) != ET_F32)
        return refuse(node, "scale is not float32, or the input is not numeric", 0, 1);
    set(node, dtype(node, 0), x);
    add_result(node, ET_F32, et_shape_1(x.size[0]));
    return true;
}

/* x [T, ..., D], a mask [T], all else [D]; float32. Results: y as x; mean and variance, unless
 * given. */
static bool shape_BATCH_NORM(et_node *node)
{
    et_shape x = shape(node, 0);
    if (x.rank < 2 || !is_float(node, 0))
        return refuse(node, "neither numeric rows nor an image", 0, 0);
    const bool masked = node->inputs == 4, given = node->inputs == 5;
    if (masked && !is_vector_as(node, 3, x.size[0], ET_F32))
        return refuse(node, "the mask is not float32, one number for each sample", 0, 3);
    for (int i = 1; i < node->inputs - masked; i++)
        if (!is_vector_as(node, i, x.size[x.rank - 1], ET_F32))
            return refuse(node, "not float32, one number for each column", 0, i);
    set(node, dtype(node, 0), x);
    for (int i = 0; i < 2 && !given; i++)
        add_result(node, ET_F32, shape(node, 1));
    return true;
}

void et_convolution_windows(et_window windows[2], et_shape image, et_shape weight,
                            const et_convolution_options *options)
{
    for (int i = 0; i < 2; i++)
        windows[i] = et_window_of(image.size[1 + i], weight.size[i],
                                  options->stride[i] ? options->stride[i] : 1,
                                  options->dilation[i] ? options->dilation[i] : 1, options->same);
}

void et_pool_windows(et_window windows[2], et_shape image, const et_pool_options *options)
{
    for (int i = 0; i < 2; i++) {
        int64_t kernel = options->window[i] ? options->window[i] : image.size[1 + i];
        int64_t stride = options->stride[i] ? options->stride[i] : kernel;
        windows[i] = et_window_of(image.size[1 + i], kernel, stride, 1, options->same);
    }
}

/* Room for an output both ways. */
static bool windows_fit(const et_window windows[2])
{
    return windows[0].out > 0 && windows[1].out > 0;
}

/* Strides, dilations, windows: 0 has been taken for the default. */
static bool is_positive(const int pair[2])
{
    return pair[0] >= 0 && pair[1] >= 0;
}

/* x [N, H, W, C] and weight [KH, KW, C, F] to [N, OH, OW, F]; bias [F]. */
static bool shape_CONVOLUTION(et_node *node)
{
    const et_convolution_options *options = &node->attributes.convolution;
    et_shape x = shape(node, 0), weight = shape(node, 1);
    et_window windows[2];
    if (x.rank != 4 || weight.rank != 4 || x.size[3] != weight.size[2])
        return refuse(node, "not an image and a weight for its channels", 0, 1);
    if (dtype(node, 0) != act(node) || node->input[1]->op != ET_OP_PARAM)
        return refuse(node, "not of the graph's activation type and a parameter", 0, 1);
    if (is_empty(x) || is_empty(weight))
        return refuse(node, "a size is 0", 0, 1);
    if (node->inputs == 3 && !is_vector_as(node, 2, weight.size[3], ET_F32))
        return refuse(node, "bias is not one float32 number for each filter", 1, 2);
    if (!is_positive(options->stride) || !is_positive(options->dilation))
        return refuse(node, "a stride or dilation is negative", 0, 1);
    et_convolution_windows(windows, x, weight, options);
    if (!windows_fit(windows))
        return refuse(node, "the window is larger than the image", 0, 1);
    return set(node, act(node),
               et_shape_4(x.size[0], windows[0].out, windows[1].out, weight.size[3]));
}

/* Max pooling has a second result for the derivative: which element of its window is the
 * largest. */
static bool shape_pool(et_node *node)
{
    const et_pool_options *options = &node->attributes.pool;
    et_shape x = shape(node, 0);
    et_window windows[2];
    if (x.rank != 4 || dtype(node, 0) == ET_I32)
        return refuse(node, "not a numeric image", 0, 0);
    if (!is_positive(options->window) || !is_positive(options->stride))
        return refuse(node, "a window or stride is negative", 0, 0);
    if (is_empty(x))
        return refuse(node, "a size is 0", 0, 0);
    et_pool_windows(windows, x, options);
    if (!windows_fit(windows))
        return refuse(node, "the window is larger than the image", 0, 0);
    const et_shape y = et_shape_4(x.size[0], windows[0].out, windows[1].out, x.size[3]);
    if (!set(node, dtype(node, 0), y))
        return false;
    if (node->op == ET_OP_MAX_POOL)
        add_result(node, ET_F32, y);
    return true;
}

/* Rules shared with other ops. The derivative rule gives the shape of EMBEDDING_GRAD, because no
 * input has the table's shape. */
#define shape_COLUMN_SUM              shape_by_rows
#define shape_ROW_SUM                 shape_by_rows
#define shape_SOFTMAX                 shape_by_rows
#define shape_LOG_SOFTMAX             shape_by_rows
#define shape_EMBEDDING_GRAD          leaf
#define shape_FILL                    shape_like_inputs
#define shape_LAYER_NORM_GRAD         shape_like_inputs
#define shape_RMS_NORM_GRAD           shape_like_inputs
#define shape_BATCH_NORM_GRAD         shape_like_inputs
#define shape_ATTENTION_GRAD          shape_like_inputs
#define shape_RECURRENCE_GRAD         shape_like_inputs
#define shape_SCALED_COPIES_GRAD      shape_like_inputs
#define shape_CROSS_ENTROPY           shape_of_logits
#define shape_SOFTMAX_LOSS            shape_of_logits
#define shape_MAX_POOL                shape_pool
#define shape_MEAN_POOL               shape_pool
#define shape_INPUT                   leaf
#define shape_PARAM                   leaf
#define shape_POSITIONS               leaf
#define shape_INTEGERS                leaf
#define shape_SLICE_GRAD              leaf
#define shape_GATHER_GRAD             leaf
#define shape_EMBED_COLUMNS_GRAD      leaf
#define shape_CONVOLUTION_GRAD        leaf
#define shape_CONVOLUTION_WEIGHT_GRAD leaf
#define shape_POOL_GRAD               leaf
#define shape_NOISE                   leaf

/* One rule for each row of ops.def; a row without its function does not compile. Each sets
 * node->type[] and node->results from inputs and attributes. False: refused, with the reason in the
 * graph's error. */
static bool (*const rules[ET_OP_COUNT])(et_node *) = {
#define ELEMENTWISE(id, name, inputs, reads, formula, da, db) [ET_OP_##id] = shape_elementwise,
#define X(id, name, fewest, most)                             [ET_OP_##id] = shape_##id,
#include "engine/graph/ops.def"
#undef X
};

/* ---- adding nodes ---- */

/* A node is made complete (inputs, attributes, types of its results) or not at all, and never
 * changes afterwards, except that the `gradient` of a loss is set when it is differentiated. */

/* In this order: arity, which is a bug in a builder; poison, which makes everything below it
 * poison; memory; the shape rule, which may refuse. Only then does the node join the list, so a
 * refused node leaves only its error. name: NULL for nodes that are neither bound nor saved; they
 * get a name for messages, "matmul_17". */
et_node *et_node_add(et_graph *graph, et_op op, const char *name, et_node *const *inputs,
                     int input_count, const et_attributes *attributes)
{
    et_assert(et_op_takes(op, input_count));
    for (int i = 0; i < input_count; i++) {
        if (!inputs[i])
            return et_graph_poison(graph, "%s: operand %d is NULL", et_op_name(op), i + 1);
        if (inputs[i]->graph != graph)
            return et_graph_poison(graph, "%s: %s is a node of another graph", et_op_name(op),
                                   inputs[i]->name);
        if (et_node_is_poison(inputs[i]))
            return &graph->poison;
    }
    if (!ET_VECTOR_GROW(graph->nodes, graph->capacity, (size_t)graph->count + 1))
        return et_graph_out_of_memory(graph);
    et_node *node = et_arena_alloc(&graph->arena, sizeof *node);
    /* The number is the node's id, so generated names are unique in their graph. */
    if (node && !name)
        name = et_arena_printf(&graph->arena, "%s%s_%d", graph->entered->prefix, et_op_name(op),
                               graph->count);
    /* The arena's own memory of a failure covers names that a builder could not have made. */
    if (!node || !name || graph->arena.failed)
        return et_graph_out_of_memory(graph);
    *node = (et_node){ .graph = graph, .id = graph->count, .op = op, .name = name };
    node->inputs = input_count;
    node->of_batch = op == ET_OP_INPUT || op == ET_OP_NOISE;
    for (int i = 0; i < input_count; i++)
        node->of_batch = node->of_batch || inputs[i]->of_batch;
    if (input_count)
        memcpy(node->input, inputs, input_count * sizeof inputs[0]);
    if (attributes)
        node->attributes = *attributes;
    node->results = 1;
    if (!rules[op](node))
        return &graph->poison;
    graph->nodes[graph->count++] = node;
    return node;
}

et_node *et_node_binary(et_op op, et_node *a, et_node *b)
{
    return et_node_of(a->graph, op, NULL, a, b);
}

/* A node is its own first value; further results are separate nodes that read it. So all later code
 * has one kind of input, a node with one shape. */
et_node *et_node_result(et_node *node, int k)
{
    if (et_node_is_poison(node))
        return node;
    et_assert(k >= 1 && k < node->results);
    /* shape_RESULT looks the type up in the input with this number; exec gives it the same
     * memory. */
    et_attributes attributes = { .result = k };
    return et_node_of(node->graph, ET_OP_RESULT, &attributes, node);
}
