/* Shape rules: one function per op, which sets the types of a node's results from its inputs, or
 * refuses with the reason. They find models that do not fit together, so a message names the node,
 * the op and both shapes:
 *
 *   matmul_17 (matmul): inner sizes differ: relu_16 [128, 512] and out/weight [256, 10]
 *
 * Later stages (exec, kernels) trust the shapes and check nothing again.
 *
 * Rules of ops that only derivatives make (..._GRAD, FILL, COLUMN_SUM) copy results of the forward
 * op's rule. Types: products and look-ups give the graph's activation type, element-wise ops that
 * of their inputs, sums and per-column results float32. */
#include "engine/graph/shape_private.h"

#include "base/assert.h"

static bool shape_INPUT(et_node *node)
{
    return leaf(node);
}

static bool shape_PARAM(et_node *node)
{
    return leaf(node);
}

static bool shape_POSITIONS(et_node *node)
{
    return leaf(node);
}

static bool shape_INTEGERS(et_node *node)
{
    return leaf(node);
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

/* A scalar, and a node that gives shape and type; that node's values are not read. */
static bool shape_FILL(et_node *node)
{
    return set(node, dtype(node, 1), shape(node, 1));
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
    if (node->inputs == 3 &&
        (!is_vector_of(shape(node, 2), groups * n) || dtype(node, 2) != ET_F32))
        return refuse(node, "bias is not a float32 vector as wide as the result", 1, 2);
    return set(node, options->f32 ? ET_F32 : act(node), et_shape_2(m, groups * n));
}

/* x [T, D], gamma [D], beta [D]. Results: y as x; stats [T, 2] for the derivative. */
static bool shape_LAYER_NORM(et_node *node)
{
    et_shape x = shape(node, 0);
    if (!is_matrix(x) || !is_vector_of(shape(node, 1), x.size[1]) ||
        !is_vector_of(shape(node, 2), x.size[1]))
        return refuse(node, "scale or offset is not a vector as wide as the input", 0, 1);
    if (!is_float(node, 0) || dtype(node, 1) != ET_F32 || dtype(node, 2) != ET_F32)
        return refuse(node, "scale or offset is not float32, or the input is not numeric", 0, 1);
    set(node, dtype(node, 0), x);
    add_result(node, ET_F32, et_shape_2(x.size[0], 2));
    return true;
}

/* dy, x, stats, gamma. Results: dx as x; dgamma [D]; dbeta [D]. */
static bool shape_LAYER_NORM_GRAD(et_node *node)
{
    et_shape x = shape(node, 1);
    set(node, dtype(node, 1), x);
    /* Parameters' derivatives are float32, for the optimizer. */
    add_result(node, ET_F32, et_shape_1(x.size[1]));
    add_result(node, ET_F32, et_shape_1(x.size[1]));
    if (node->inputs == 5)
        add_result(node, dtype(node, 1), x);
    return true;
}

/* ids [T], table [V, D] to [T, D]; with positions: position [T], positions [P, D]. That ids
 * are below V is not known before a run, and exec's to care for. */
static bool shape_EMBEDDING(et_node *node)
{
    et_shape ids = shape(node, 0), table = shape(node, 1);
    if (ids.rank != 1 || dtype(node, 0) != ET_I32 || !is_matrix(table) || dtype(node, 1) != ET_F32)
        return refuse(node, "not int32 ids and a float32 table", 0, 1);
    /* positions may have more rows than any id needs; only its width must fit. */
    if (node->inputs == 4) {
        et_shape positions = shape(node, 3);
        if (!is_vector_of(shape(node, 2), ids.size[0]) || dtype(node, 2) != ET_I32)
            return refuse(node, "not one int32 position for each id", 0, 2);
        if (!is_matrix(positions) || positions.size[1] != table.size[1] || dtype(node, 3) != ET_F32)
            return refuse(node, "positions are not float32, as wide as the table", 1, 3);
    }
    return set(node, act(node), et_shape_2(ids.size[0], table.size[1]));
}

/* The table's shape is not an input's: the derivative rule gives it as the leaf type. */
static bool shape_EMBEDDING_GRAD(et_node *node)
{
    return leaf(node);
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

/* dout, lse, then the forward inputs, so 2 is q and 3 kv. Self: one result as qkv;
 * cross: dq, and dkv as the second. */
static bool shape_ATTENTION_GRAD(et_node *node)
{
    set(node, act(node), shape(node, 2));
    if (!node->attributes.self)
        add_result(node, act(node), shape(node, 3));
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

static bool shape_RECURRENCE_GRAD(et_node *node)
{
    set(node, act(node), shape(node, 2));
    add_result(node, act(node), shape(node, 3));
    return true;
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
        !is_vector_of(shape(node, 3), q.size[0]) || dtype(node, 3) != ET_I32)
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
    if (!is_vector_of(shape(node, 2), h.size[0]) || dtype(node, 2) != ET_I32)
        return refuse(node, "not one int32 label for each row", 0, 2);
    const bool draws = et_loss_of_two_draws(node);
    if (draws && (!et_shape_equal(shape(node, 3), h) || dtype(node, 3) != act(node)))
        return refuse(node, "two draws have different rows", 0, 3);
    if (node->attributes.offset &&
        (!is_vector_of(shape(node, 3), table.size[0]) || dtype(node, 3) != ET_F32))
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

/* logits [T, V], labels [T]. Results: the four sums; dlogits as the logits. */
static bool shape_SOFTMAX_LOSS(et_node *node)
{
    et_shape logits = shape(node, 0);
    /* Any float type: logits are not always of activation type. */
    if (!is_matrix(logits) || dtype(node, 0) == ET_I32)
        return refuse(node, "logits are not a numeric matrix", 0, 1);
    if (!is_vector_of(shape(node, 1), logits.size[0]) || dtype(node, 1) != ET_I32)
        return refuse(node, "not one int32 label for each row", 0, 1);
    set(node, ET_F32, et_shape_1(ET_LOSS_SUM_COUNT));
    add_result(node, dtype(node, 0), logits);
    return true;
}

/* Rules in other files. */
#define shape_COLUMN_SUM              et_shape_COLUMN_SUM
#define shape_ROW_SUM                 et_shape_ROW_SUM
#define shape_SOFTMAX                 et_shape_SOFTMAX
#define shape_LOG_SOFTMAX             et_shape_LOG_SOFTMAX
#define shape_CROSS_ENTROPY           et_shape_CROSS_ENTROPY
#define shape_LABELLED                et_shape_LABELLED
#define shape_RESHAPE                 et_shape_RESHAPE
#define shape_CONCATENATE             et_shape_CONCATENATE
#define shape_SLICE                   et_shape_SLICE
#define shape_SLICE_GRAD              leaf
#define shape_GATHER                  et_shape_GATHER
#define shape_GATHER_GRAD             leaf
#define shape_ONE_HOT                 et_shape_ONE_HOT
#define shape_CAST                    et_shape_CAST
#define shape_EMBED_COLUMNS           et_shape_EMBED_COLUMNS
#define shape_EMBED_COLUMNS_GRAD      leaf
#define shape_SCALED_COPIES           et_shape_SCALED_COPIES
#define shape_SCALED_COPIES_GRAD      et_shape_SCALED_COPIES_GRAD
#define shape_RMS_NORM                et_shape_RMS_NORM
#define shape_RMS_NORM_GRAD           et_shape_RMS_NORM_GRAD
#define shape_BATCH_NORM              et_shape_BATCH_NORM
#define shape_BATCH_NORM_GRAD         et_shape_BATCH_NORM_GRAD
#define shape_CONVOLUTION             et_shape_CONVOLUTION
#define shape_CONVOLUTION_GRAD        leaf
#define shape_CONVOLUTION_WEIGHT_GRAD leaf
#define shape_MAX_POOL                et_shape_MAX_POOL
#define shape_MEAN_POOL               et_shape_MEAN_POOL
#define shape_POOL_GRAD               leaf
#define shape_NOISE                   leaf
#define shape_BERNOULLI               et_shape_BERNOULLI

bool et_shape_rule(et_node *node)
{
    /* One rule for each row of ops.def; a row without its function does not compile. */
    static bool (*const rules[ET_OP_COUNT])(et_node *) = {
#define ELEMENTWISE(id, name, inputs, reads, formula, da, db) [ET_OP_##id] = et_shape_elementwise,
#define X(id, name, fewest, most)                             [ET_OP_##id] = shape_##id,
#include "engine/graph/ops.def"
#undef X
    };
    et_assert((unsigned)node->op < ET_OP_COUNT);
    return rules[node->op](node);
}
