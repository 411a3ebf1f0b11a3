/* Shape rules: one function per op, which sets the types of a node's results from its inputs
 * or refuses with the reason. */
#include <stdio.h>

#include "base/assert.h"
#include "graph/graph.h"

#define TEXTS char left[ET_SHAPE_TEXT_MAX], right[ET_SHAPE_TEXT_MAX]

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

static bool set(et_node *node, et_dtype type, et_shape size)
{
    node->type[0] = (et_result_type){ type, size };
    return true;
}

static void add_result(et_node *node, et_dtype type, et_shape size)
{
    et_assert(node->results < ET_NODE_RESULTS_MAX);
    node->type[node->results++] = (et_result_type){ type, size };
}

/* Refuses: names the node, the op and the shapes of two inputs. */
static bool refuse(et_node *node, const char *reason, int a, int b)
{
    TEXTS;
    et_graph_poison(node->graph, "%s (%s): %s: %s %s and %s %s", node->name, et_op_name(node->op),
                    reason, node->input[a]->name, et_shape_print(shape(node, a), left),
                    node->input[b]->name, et_shape_print(shape(node, b), right));
    return false;
}

static bool is_matrix(et_shape s)
{
    return s.rank == 2;
}

static bool is_vector_of(et_shape s, int64_t size)
{
    return s.rank == 1 && s.size[0] == size;
}

static bool leaf(et_node *node)
{
    return set(node, node->attributes.leaf.dtype, node->attributes.leaf.shape);
}

static bool same(et_node *node)
{
    if (node->inputs == 2 &&
        (!et_shape_equal(shape(node, 0), shape(node, 1)) || dtype(node, 0) != dtype(node, 1)))
        return refuse(node, "different shapes or types", 0, 1);
    return set(node, dtype(node, 0), shape(node, 0));
}

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

static bool shape_RESULT(et_node *node)
{
    const et_result_type *type = &node->input[0]->type[node->attributes.result];
    return set(node, type->dtype, type->shape);
}

#define SAME(id)                                                                                   \
    static bool shape_##id(et_node *node)                                                          \
    {                                                                                              \
        return same(node);                                                                         \
    }
SAME(ADD)
SAME(SUB)
SAME(MUL)
SAME(SCALE)
SAME(RELU)
SAME(GELU)
SAME(TANH)
SAME(SIGMOID)
SAME(SWISH)
SAME(DROPOUT)
SAME(RELU_GRAD)
SAME(GELU_GRAD)
SAME(TANH_GRAD)
SAME(SIGMOID_GRAD)
SAME(SWISH_GRAD)
#undef SAME

static bool shape_BIAS(et_node *node)
{
    et_shape x = shape(node, 0);
    if (!is_matrix(x) || !is_vector_of(shape(node, 1), x.size[1]))
        return refuse(node, "not a matrix and a vector as wide", 0, 1);
    return set(node, dtype(node, 0), x);
}

static bool shape_SUM(et_node *node)
{
    return set(node, ET_F32, et_shape_scalar());
}

static bool shape_FILL(et_node *node)
{
    return set(node, dtype(node, 1), shape(node, 1));
}

static bool shape_COLUMN_SUM(et_node *node)
{
    et_shape x = shape(node, 0);
    if (!is_matrix(x))
        return refuse(node, "not a matrix", 0, 0);
    return set(node, ET_F32, et_shape_1(x.size[1]));
}

static bool shape_MATMUL(et_node *node)
{
    const et_matmul_options *options = &node->attributes.matmul;
    et_shape a = shape(node, 0), b = shape(node, 1);
    if (!is_matrix(a) || !is_matrix(b))
        return refuse(node, "not two matrices", 0, 1);
    int64_t m = a.size[options->transpose_a], k = a.size[!options->transpose_a];
    int64_t n = b.size[!options->transpose_b], k_b = b.size[options->transpose_b];
    if (k != k_b)
        return refuse(node, "inner sizes differ", 0, 1);
    if (node->inputs == 3 && !is_vector_of(shape(node, 2), n))
        return refuse(node, "bias is not a vector as wide as the result", 1, 2);
    return set(node, options->f32 ? ET_F32 : act(node), et_shape_2(m, n));
}

static bool shape_LAYER_NORM(et_node *node)
{
    et_shape x = shape(node, 0);
    if (!is_matrix(x) || !is_vector_of(shape(node, 1), x.size[1]) ||
        !is_vector_of(shape(node, 2), x.size[1]))
        return refuse(node, "scale or offset is not a vector as wide as the input", 0, 1);
    set(node, dtype(node, 0), x);
    add_result(node, ET_F32, et_shape_2(x.size[0], 2));
    return true;
}

static bool shape_LAYER_NORM_GRAD(et_node *node)
{
    et_shape x = shape(node, 1);
    set(node, dtype(node, 1), x);
    add_result(node, ET_F32, et_shape_1(x.size[1]));
    add_result(node, ET_F32, et_shape_1(x.size[1]));
    return true;
}

static bool shape_EMBEDDING(et_node *node)
{
    et_shape ids = shape(node, 0), table = shape(node, 1);
    if (ids.rank != 1 || dtype(node, 0) != ET_I32 || !is_matrix(table))
        return refuse(node, "not int32 ids and a table", 0, 1);
    if (node->inputs == 4) {
        et_shape positions = shape(node, 3);
        if (!is_vector_of(shape(node, 2), ids.size[0]) || dtype(node, 2) != ET_I32)
            return refuse(node, "not one int32 position for each id", 0, 2);
        if (!is_matrix(positions) || positions.size[1] != table.size[1])
            return refuse(node, "positions are not as wide as the table", 1, 3);
    }
    return set(node, act(node), et_shape_2(ids.size[0], table.size[1]));
}

/* The table's shape is not an input's: the derivative rule gives it as the leaf type. */
static bool shape_EMBEDDING_GRAD(et_node *node)
{
    return leaf(node);
}

static bool is_offsets(const et_node *node, int input)
{
    et_shape s = shape(node, input);
    return s.rank == 1 && s.size[0] >= 2 && dtype(node, input) == ET_I32;
}

static bool shape_ATTENTION(et_node *node)
{
    const et_attention_options *options = &node->attributes.attention;
    et_shape q = shape(node, 0), kv = shape(node, 1);
    if (!is_matrix(q) || !is_matrix(kv))
        return refuse(node, "not two matrices", 0, 1);
    int64_t width = node->attributes.self ? q.size[1] / 3 : q.size[1];
    if (node->attributes.self ? q.size[1] % 3 : kv.size[1] != 2 * width)
        return refuse(node, "widths are not 3 D (self) or D and 2 D (cross)", 0, 1);
    if (options->heads < 1 || width % options->heads) {
        et_graph_poison(node->graph, "%s: width %lld is not a multiple of %d heads", node->name,
                        (long long)width, options->heads);
        return false;
    }
    if (!is_offsets(node, 2) || !is_offsets(node, 3) ||
        !et_shape_equal(shape(node, 2), shape(node, 3)))
        return refuse(node, "offsets are not int32 [segments + 1] each", 2, 3);
    set(node, act(node), et_shape_2(q.size[0], width));
    add_result(node, ET_F32, et_shape_2(q.size[0], options->heads));
    return true;
}

static bool shape_ATTENTION_GRAD(et_node *node)
{
    set(node, act(node), shape(node, 3));
    if (!node->attributes.self)
        add_result(node, act(node), shape(node, 4));
    return true;
}

static bool shape_CACHED_ATTENTION(et_node *node)
{
    et_shape q = shape(node, 0), cache = shape(node, 1);
    bool self = node->attributes.self;
    int heads = node->attributes.attention.heads;
    if (!is_matrix(q) || !is_matrix(cache) || cache.size[1] % 2 ||
        q.size[1] != (self ? 3 : 1) * cache.size[1] / 2)
        return refuse(node, "widths are not 3 D (self) or D, and 2 D", 0, 1);
    int64_t width = cache.size[1] / 2;
    if (heads < 1 || width % heads) {
        et_graph_poison(node->graph, "%s: width %lld is not a multiple of %d heads", node->name,
                        (long long)width, heads);
        return false;
    }
    if (shape(node, 2).size[0] != q.size[0] || !is_vector_of(shape(node, 3), q.size[0]))
        return refuse(node, "not one slot row or begin, and one length, for each row", 2, 3);
    return set(node, act(node), et_shape_2(q.size[0], width));
}

static bool shape_VOCABULARY_LOSS(et_node *node)
{
    et_shape h = shape(node, 0), table = shape(node, 1);
    if (!is_matrix(h) || !is_matrix(table) || h.size[1] != table.size[1])
        return refuse(node, "widths differ", 0, 1);
    if (!is_vector_of(shape(node, 2), h.size[0]) || dtype(node, 2) != ET_I32)
        return refuse(node, "not one int32 label for each row", 0, 2);
    set(node, ET_F32, et_shape_1(ET_LOSS_SUM_COUNT));
    add_result(node, act(node), h);
    add_result(node, ET_F32, table);
    return true;
}

static bool shape_SOFTMAX_LOSS(et_node *node)
{
    et_shape logits = shape(node, 0);
    if (!is_matrix(logits) || dtype(node, 0) == ET_I32)
        return refuse(node, "logits are no matrix of numbers", 0, 1);
    if (!is_vector_of(shape(node, 1), logits.size[0]) || dtype(node, 1) != ET_I32)
        return refuse(node, "not one int32 label for each row", 0, 1);
    set(node, ET_F32, et_shape_1(ET_LOSS_SUM_COUNT));
    add_result(node, dtype(node, 0), logits);
    return true;
}

bool et_shape_rule(et_node *node)
{
    static bool (*const rules[ET_OP_COUNT])(et_node *) = {
#define X(id, name, fewest, most) [ET_OP_##id] = shape_##id,
#include "graph/ops.def"
#undef X
    };
    return rules[node->op](node);
}
