/* The translation of each op of ops.def, a function each. An op that no graph of inference has, or
 * that ONNX cannot express, is a row of the list of such ops. An op in neither does not compile. */
#include "engine/onnx/onnx_graph.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "engine/kernel/positions.h"

/* A graph during its translation. */
typedef struct et_onnx_exporter {
    et_onnx *model;
    const et_onnx_graph *from;
    const char **values; /* [nodes]: by id; NULL: not needed */
    int attentions;      /* so far */
    int status;          /* of the first op that has no form */
    et_error *error;
} et_onnx_exporter;

/* ---- sizes ---- */

/* NULL: the size is known before the model runs. */
static const et_onnx_symbol *symbol_of(const et_onnx_exporter *exporter, int64_t size)
{
    for (int i = 0; i < exporter->from->symbol_count; i++)
        if (size >= exporter->from->symbols[i].size && size % exporter->from->symbols[i].size == 0)
            return &exporter->from->symbols[i];
    return NULL;
}

/* int64 [1] with it. */
static const char *size_of(et_onnx_exporter *exporter, int64_t size)
{
    const et_onnx_symbol *symbol = symbol_of(exporter, size);
    if (!symbol)
        return et_onnx_one(exporter->model, size);
    const int64_t times = size / symbol->size;
    return times == 1 ? symbol->value
                      : et_onnx_call(exporter->model, "Mul", symbol->value,
                                     et_onnx_one(exporter->model, times));
}

static int count_symbolic(const et_onnx_exporter *exporter, et_shape shape)
{
    int count = 0;
    for (int i = 0; i < shape.rank; i++)
        count += symbol_of(exporter, shape.size[i]) != NULL;
    return count;
}

static const char *shape_of(et_onnx_exporter *exporter, et_shape shape)
{
    const char *parts[ET_RANK_MAX];
    if (!count_symbolic(exporter, shape))
        return et_onnx_ints(exporter->model, shape.size, shape.rank);
    for (int i = 0; i < shape.rank; i++)
        parts[i] = size_of(exporter, shape.size[i]);
    const char *whole = et_onnx_node(exporter->model, "Concat", parts, shape.rank);
    et_onnx_set_int(exporter->model, "axis", 0);
    return whole;
}

/* For Reshape: one size that is not known is left open. */
static const char *open_shape(et_onnx_exporter *exporter, et_shape shape)
{
    if (count_symbolic(exporter, shape) > 1)
        return shape_of(exporter, shape);
    for (int i = 0; i < shape.rank; i++)
        if (symbol_of(exporter, shape.size[i]))
            shape.size[i] = -1;
    return et_onnx_ints(exporter->model, shape.size, shape.rank);
}

static const char *in(const et_onnx_exporter *exporter, const et_node *node, int i)
{
    et_assert(i < node->inputs);
    return exporter->values[node->input[i]->id];
}

/* In a function of an exporter and a node: the value of an input, and a new node. */
#define IN(i)         in(exporter, node, i)
#define CALL(op, ...) et_onnx_call(exporter->model, op, __VA_ARGS__)

/* NULL: no binding of that name. */
static const et_onnx_binding *binding_of(const et_onnx_exporter *exporter, const char *name)
{
    for (int i = 0; i < exporter->from->binding_count; i++)
        if (!strcmp(exporter->from->bindings[i].name, name))
            return &exporter->from->bindings[i];
    return NULL;
}

/* Sets ET_ECONFIG, if nothing failed before; returns NULL. After a lack of memory it sets
 * ET_ENOMEM: values that are bound may then be NULL. */
static const char *refuse(et_onnx_exporter *exporter, const et_node *node, const char *why)
{
    if (!exporter->status && et_onnx_failed(exporter->model))
        exporter->status = et_alloc_failed(exporter->error, "a model to export");
    if (!exporter->status)
        exporter->status = et_fail(exporter->error, ET_ECONFIG, "ONNX: %s (%s): %s", node->name,
                                   et_op_name(node->op), why);
    return NULL;
}

/* ---- attention ---- */

/* Attention over rows as attention over batches:
 *
 *   rows [segments * longest, width] -> [segments, heads, longest, width / heads]
 *   softmax(q k^T / sqrt(width / heads), where the key exists (and not after the query)) v
 *
 * Keys and values of the past come before k and v, so queries are the last of all positions.
 *
 * Masked scores get the lowest number, not minus infinity: a segment without any key then has some
 * mean instead of NaN, and nothing reads it. */

/* Segments of one side. */
typedef struct side {
    const char *count, *mask; /* int64 [1]; bool, or NULL */
    int64_t longest;          /* -1: whatever is left */
} side;

/* Offsets are an input, whose binding says how it is, or steps of one length. */
static bool find_side(et_onnx_exporter *exporter, const et_node *node, const et_node *offsets,
                      side *of)
{
    const et_onnx_binding *bound =
        offsets->op == ET_OP_INPUT ? binding_of(exporter, offsets->name) : NULL;
    if (bound && bound->count) {
        *of = (side){ bound->count, bound->mask, -1 };
        return true;
    }
    const et_progression steps = offsets->attributes.progression;
    if (offsets->op != ET_OP_INTEGERS || steps.first || steps.step < 1) {
        refuse(exporter, node, "its offsets are neither bound nor equally spaced");
        return false;
    }
    *of = (side){ size_of(exporter, offsets->type[0].shape.size[0] - 1), NULL, steps.step };
    return true;
}

/* Columns first .. first + width - 1 of a matrix. */
static const char *columns(et_onnx *model, const char *x, int64_t first, int64_t width)
{
    return et_onnx_call(model, "Slice", x, et_onnx_one(model, first),
                        et_onnx_one(model, first + width), et_onnx_one(model, 1));
}

static const char *transpose(et_onnx *model, const char *x, const int64_t order[], int count)
{
    const char *y = et_onnx_call(model, "Transpose", x);
    et_onnx_set_ints(model, "perm", order, count);
    return y;
}

/* Positions before heads, or the reverse; the two last dimensions. */
static const int64_t heads_first[] = { 0, 2, 1, 3 }, last_two[] = { 0, 1, 3, 2 };

/* [segments * longest, width] to [segments, heads, longest, width / heads]. */
static const char *split(et_onnx *model, const char *x, side of, int heads, int64_t head)
{
    const int64_t rest[] = { of.longest, heads, head };
    const char *shape = et_onnx_call(model, "Concat", of.count, et_onnx_ints(model, rest, 3));
    et_onnx_set_int(model, "axis", 0);
    return transpose(model, et_onnx_call(model, "Reshape", x, shape), heads_first, 4);
}

static const char *behind(et_onnx *model, const char *past, const char *own)
{
    if (!past || !own)
        return past ? past : own;
    const char *all = et_onnx_call(model, "Concat", past, own);
    et_onnx_set_int(model, "axis", 2);
    return all;
}

/* Keys and values of all positions. kv: rows; NULL: only past ones. first: k's column in them. */
static et_onnx_cache find_keys(et_onnx_exporter *exporter, const et_node *node, const char *kv,
                               int64_t first, side of)
{
    et_onnx *m = exporter->model;
    const int heads = node->attributes.attention.heads;
    const int64_t width = node->type[0].shape.size[1], head = width / heads;
    const int which = exporter->attentions++;
    et_assert(!exporter->from->caches || which < exporter->from->cache_count);
    et_onnx_cache *kept = exporter->from->caches ? &exporter->from->caches[which] : NULL;
    et_onnx_cache all = kept ? *kept : (et_onnx_cache){ .key = NULL };
    const char *k = kv ? split(m, columns(m, kv, first, width), of, heads, head) : NULL;
    const char *v = kv ? split(m, columns(m, kv, first + width, width), of, heads, head) : NULL;
    all.key = behind(m, all.past_key, k);
    all.value = behind(m, all.past_value, v);
    if (kept)
        *kept = all;
    return all;
}

/* bool [queries, keys]: key k may be seen by query q, k <= q. */
static const char *up_to_itself(et_onnx *model, const char *scores)
{
    const char *shape = et_onnx_call(model, "Shape", scores);
    const char *queries = et_onnx_call(model, "Gather", shape, et_onnx_int(model, -2));
    const char *keys = et_onnx_call(model, "Gather", shape, et_onnx_int(model, -1));
    const char *first = et_onnx_call(model, "Sub", keys, queries), *one = et_onnx_int(model, 1);
    const char *key = et_onnx_call(model, "Range", et_onnx_int(model, 0), keys, one);
    const char *query = et_onnx_call(model, "Range", first, keys, one);
    query = et_onnx_call(model, "Unsqueeze", query, et_onnx_one(model, 1));
    return et_onnx_call(model, "LessOrEqual", key, query);
}

static const char *masked(et_onnx *model, const char *scores, const char *mask)
{
    return et_onnx_call(model, "Where", mask, scores, et_onnx_float(model, -FLT_MAX));
}

static const char *onnx_ATTENTION(et_onnx_exporter *exporter, const et_node *node)
{
    et_onnx *model = exporter->model;
    const et_attributes *a = &node->attributes;
    const int heads = a->attention.heads;
    const int64_t width = node->type[0].shape.size[1], head = width / heads;
    side query, key;
    if (!find_side(exporter, node, node->input[2], &query) ||
        !find_side(exporter, node, node->input[3], &key))
        return NULL;
    const char *q = IN(0), *kv = IN(1);
    if (a->self)
        q = columns(model, q, 0, width);
    const et_onnx_cache all = find_keys(exporter, node, kv, a->self ? width : 0, key);
    if (!all.key && node->input[1]->op == ET_OP_INPUT)
        return refuse(exporter, node, "its keys and values are not bound");
    const char *scores =
        CALL("MatMul", split(model, q, query, heads, head), transpose(model, all.key, last_two, 4));
    scores = CALL("Mul", scores, et_onnx_float(model, 1 / sqrtf((float)head)));
    if (a->attention.causal)
        scores = masked(model, scores, up_to_itself(model, scores));
    if (key.mask)
        scores = masked(model, scores, key.mask);
    const char *weights = CALL("Softmax", scores);
    et_onnx_set_int(model, "axis", -1);
    const int64_t rows[] = { -1, width };
    const char *mixed = transpose(model, CALL("MatMul", weights, all.value), heads_first, 4);
    return CALL("Reshape", mixed, et_onnx_ints(model, rows, 2));
}
/* ---- leaves ---- */

static const char *onnx_INPUT(et_onnx_exporter *exporter, const et_node *node)
{
    const et_onnx_binding *bound = binding_of(exporter, node->name);
    return bound ? bound->value : refuse(exporter, node, "this input is not bound");
}

static const char *onnx_PARAM(et_onnx_exporter *exporter, const et_node *node)
{
    et_params *params = exporter->from->graph->params;
    const int i = node->attributes.param;
    return et_onnx_floats(exporter->model, node->name,
                          et_params_values(params) + et_params_offset(params, i),
                          et_params_shape(params, i));
}

static const char *onnx_POSITIONS(et_onnx_exporter *exporter, const et_node *node)
{
    const et_shape shape = node->type[0].shape;
    float *table = et_onnx_reserve_floats(exporter->model, et_shape_count(shape));
    if (table)
        et_positions_fill(table, shape.size[0], shape.size[1], node->attributes.open);
    return table ? et_onnx_floats(exporter->model, node->name, table, shape) : NULL;
}

/* Only attention uses offsets, and it reads the node itself. */
static const char *onnx_INTEGERS(et_onnx_exporter *exporter, const et_node *node)
{
    const int64_t count = node->type[0].shape.size[0];
    const et_progression steps = node->attributes.progression;
    if (symbol_of(exporter, count - 1))
        return NULL;
    const char *size = CALL("Squeeze", size_of(exporter, count), et_onnx_one(exporter->model, 0));
    const char *each =
        CALL("Range", et_onnx_int(exporter->model, 0), size, et_onnx_int(exporter->model, 1));
    each = CALL("Mul", each, et_onnx_int(exporter->model, steps.step));
    return CALL("Add", each, et_onnx_int(exporter->model, steps.first));
}

/* ---- element by element ---- */

#define BINARY(id, op)                                                                             \
    static const char *onnx_##id(et_onnx_exporter *exporter, const et_node *node)                  \
    {                                                                                              \
        return CALL(op, IN(0), IN(1));                                                             \
    }
BINARY(ADD, "Add")
BINARY(SUB, "Sub")
BINARY(MUL, "Mul")
BINARY(DIV, "Div")

#define UNARY(id, op)                                                                              \
    static const char *onnx_##id(et_onnx_exporter *exporter, const et_node *node)                  \
    {                                                                                              \
        return CALL(op, IN(0));                                                                    \
    }
UNARY(RELU, "Relu")
UNARY(TANH, "Tanh")
UNARY(SIGMOID, "Sigmoid")
UNARY(SOFTPLUS, "Softplus")
UNARY(EXP, "Exp")
UNARY(SIN, "Sin")
UNARY(COS, "Cos")
UNARY(LOG, "Log")
UNARY(SQRT, "Sqrt")
UNARY(RECIPROCAL, "Reciprocal")
UNARY(ABS, "Abs")

/* With the op's constant. */
#define CONSTANT(id, op)                                                                           \
    static const char *onnx_##id(et_onnx_exporter *exporter, const et_node *node)                  \
    {                                                                                              \
        return CALL(op, IN(0), et_onnx_float(exporter->model, node->attributes.x));                \
    }
CONSTANT(SCALE, "Mul")
CONSTANT(OFFSET, "Add")
CONSTANT(POWER, "Pow")
CONSTANT(AT_LEAST, "Max")
CONSTANT(AT_MOST, "Min")

static const char *onnx_COPY(et_onnx_exporter *exporter, const et_node *node)
{
    if (et_shape_equal(node->type[0].shape, node->input[0]->type[0].shape))
        return IN(0);
    return CALL("Expand", IN(0), shape_of(exporter, node->type[0].shape));
}

/* x (1 + erf(x / sqrt 2)) / 2 */
static const char *onnx_GELU(et_onnx_exporter *exporter, const et_node *node)
{
    et_onnx *m = exporter->model;
    const char *x = IN(0);
    const char *erf = CALL("Erf", CALL("Mul", x, et_onnx_float(m, (float)(1 / sqrt(2.0)))));
    const char *half = CALL("Mul", x, et_onnx_float(m, 0.5f));
    return CALL("Mul", half, CALL("Add", erf, et_onnx_float(m, 1)));
}

static const char *onnx_SWISH(et_onnx_exporter *exporter, const et_node *node)
{
    const char *x = IN(0);
    return CALL("Mul", x, CALL("Sigmoid", x));
}

/* Their defaults are rounded to float32 otherwise. */
static const char *onnx_SELU(et_onnx_exporter *exporter, const et_node *node)
{
    const char *y = CALL("Selu", IN(0));
    et_onnx_set_float(exporter->model, "alpha", 1.67326319f);
    et_onnx_set_float(exporter->model, "gamma", 1.05070102f);
    return y;
}

/* Mish as an op of its own begins with a later version. */
static const char *onnx_MISH(et_onnx_exporter *exporter, const et_node *node)
{
    const char *x = IN(0);
    const char *slope = CALL("Tanh", CALL("Softplus", x));
    return CALL("Mul", x, slope);
}

static const char *onnx_SQUARE(et_onnx_exporter *exporter, const et_node *node)
{
    return CALL("Mul", IN(0), IN(0));
}

/* ---- sums and rows ---- */

static const char *reduce(et_onnx_exporter *exporter, const et_node *node)
{
    et_onnx *m = exporter->model;
    const int64_t axis = node->op == ET_OP_ROW_SUM;
    const char *y = node->op == ET_OP_SUM ? CALL("ReduceSum", IN(0))
                                          : CALL("ReduceSum", IN(0), et_onnx_one(m, axis));
    et_onnx_set_int(m, "keepdims", axis);
    return y;
}
#define onnx_SUM        reduce
#define onnx_COLUMN_SUM reduce
#define onnx_ROW_SUM    reduce

static const char *onnx_FILL(et_onnx_exporter *exporter, const et_node *node)
{
    return CALL("Expand", IN(0), CALL("Shape", IN(1)));
}

static const char *over_columns(et_onnx_exporter *exporter, const et_node *node)
{
    const char *op = node->op == ET_OP_SOFTMAX ? "Softmax" : "LogSoftmax";
    const char *y = CALL(op, IN(0));
    et_onnx_set_int(exporter->model, "axis", -1);
    return y;
}
#define onnx_SOFTMAX     over_columns
#define onnx_LOG_SOFTMAX over_columns

/* ---- products and norms ---- */

/* [rows, groups, columns of one] as [groups, rows, columns], or with these two transposed. */
static const char *groups_first(et_onnx_exporter *exporter, const et_node *node, int input,
                                bool transposed)
{
    static const int64_t order[] = { 1, 0, 2 }, across[] = { 1, 2, 0 };
    const et_shape shape = node->input[input]->type[0].shape;
    const int64_t groups = node->attributes.matmul.groups;
    const et_shape apart = et_shape_3(shape.size[0], groups, shape.size[1] / groups);
    const char *x = CALL("Reshape", IN(input), open_shape(exporter, apart));
    return transpose(exporter->model, x, transposed ? across : order, 3);
}

static const char *grouped_product(et_onnx_exporter *exporter, const et_node *node)
{
    static const int64_t order[] = { 1, 0, 2 };
    const et_matmul_options *o = &node->attributes.matmul;
    et_onnx *m = exporter->model;
    const char *y = CALL("MatMul", groups_first(exporter, node, 0, o->transpose_a),
                         groups_first(exporter, node, 1, o->transpose_b));
    y = transpose(m, y, order, 3);
    y = CALL("Reshape", y, open_shape(exporter, node->type[0].shape));
    y = node->inputs == 3 ? CALL("Add", y, IN(2)) : y;
    return o->relu ? CALL("Relu", y) : y;
}

static const char *onnx_MATMUL(et_onnx_exporter *exporter, const et_node *node)
{
    const et_matmul_options *o = &node->attributes.matmul;
    et_onnx *m = exporter->model;
    if (et_matmul_groups(o) > 1)
        return grouped_product(exporter, node);
    const char *y =
        node->inputs == 3 ? CALL("Gemm", IN(0), IN(1), IN(2)) : CALL("Gemm", IN(0), IN(1));
    et_onnx_set_int(m, "transA", o->transpose_a);
    et_onnx_set_int(m, "transB", o->transpose_b);
    return o->relu ? CALL("Relu", y) : y;
}

static const char *onnx_LAYER_NORM(et_onnx_exporter *exporter, const et_node *node)
{
    const char *y = CALL("LayerNormalization", IN(0), IN(1), IN(2));
    et_onnx_set_int(exporter->model, "axis", -1);
    et_onnx_set_float(exporter->model, "epsilon", node->attributes.x);
    return y;
}

/* x gamma / sqrt(mean(x x) + epsilon) */
static const char *onnx_RMS_NORM(et_onnx_exporter *exporter, const et_node *node)
{
    et_onnx *m = exporter->model;
    const int64_t last = -1;
    const char *x = IN(0);
    const char *mean = CALL("ReduceMean", CALL("Mul", x, x));
    et_onnx_set_ints(m, "axes", &last, 1);
    mean = CALL("Add", mean, et_onnx_float(m, node->attributes.x));
    const char *y = CALL("Div", x, CALL("Sqrt", mean));
    return CALL("Mul", y, IN(1));
}

/* Channels are last, so all of it is repeated by rows. */
static const char *onnx_BATCH_NORM(et_onnx_exporter *exporter, const et_node *node)
{
    et_onnx *m = exporter->model;
    if (node->inputs < 5)
        return refuse(exporter, node, "it normalizes by its own batch: build it for inference");
    const char *variance = CALL("Add", IN(4), et_onnx_float(m, node->attributes.x));
    const char *factor = CALL("Div", IN(1), CALL("Sqrt", variance));
    const char *y = CALL("Sub", IN(0), IN(3));
    return CALL("Add", CALL("Mul", y, factor), IN(2));
}

/* ---- look-ups ---- */

/* Rows of a table by number [T]; a row of zeros for a negative number. */
static const char *look_up(et_onnx *m, const char *table, const char *ids)
{
    const char *zero = et_onnx_int(m, 0);
    const char *there = et_onnx_call(m, "GreaterOrEqual", ids, zero);
    const char *rows = et_onnx_call(m, "Gather", table, et_onnx_call(m, "Max", ids, zero));
    there = et_onnx_call(m, "Unsqueeze", there, et_onnx_one(m, 1));
    return et_onnx_call(m, "Where", there, rows, et_onnx_float(m, 0));
}

/* A negative id gives a zero row, whatever its position. */
static const char *onnx_EMBEDDING(et_onnx_exporter *exporter, const et_node *node)
{
    et_onnx *m = exporter->model;
    const char *ids = IN(0);
    const char *y = look_up(m, IN(1), ids);
    y = CALL("Mul", y, et_onnx_float(m, node->attributes.x));
    if (node->inputs == 2)
        return y;
    y = CALL("Add", y, CALL("Gather", IN(3), IN(2)));
    const char *there = CALL("GreaterOrEqual", ids, et_onnx_int(m, 0));
    there = CALL("Unsqueeze", there, et_onnx_one(m, 1));
    return CALL("Where", there, y, et_onnx_float(m, 0));
}

static const char *part(et_onnx *m, const char *x, const char *first, const char *end, int64_t axis)
{
    return et_onnx_call(m, "Slice", x, first, end, et_onnx_one(m, axis));
}

/* A table for each column, one after another in one array. */
static const char *onnx_EMBED_COLUMNS(et_onnx_exporter *exporter, const et_node *node)
{
    et_onnx *m = exporter->model;
    const et_attributes *a = &node->attributes;
    const char *all = NULL;
    int64_t at = 0;
    for (int c = 0; c < a->count; c++) {
        const int64_t rows = a->columns[c].rows, width = a->columns[c].width;
        const int64_t end = at + rows * width, shape[] = { rows, width };
        const char *table = part(m, IN(1), et_onnx_one(m, at), et_onnx_one(m, end), 0);
        table = CALL("Reshape", table, et_onnx_ints(m, shape, 2));
        const char *ids = CALL("Gather", IN(0), et_onnx_int(m, c));
        et_onnx_set_int(m, "axis", 1);
        const char *one = look_up(m, table, ids);
        all = c ? CALL("Concat", all, one) : one;
        if (c)
            et_onnx_set_int(m, "axis", 1);
        at = end;
    }
    return all;
}

static const char *onnx_GATHER(et_onnx_exporter *exporter, const et_node *node)
{
    return look_up(exporter->model, IN(0), IN(1));
}

/* In ONNX a negative id counts from the end, one beyond the depth gives zeros. */
static const char *onnx_ONE_HOT(et_onnx_exporter *exporter, const et_node *node)
{
    et_onnx *m = exporter->model;
    const char *depth = et_onnx_int(m, node->attributes.count), *ids = IN(0);
    ids = CALL("Where", CALL("Less", ids, et_onnx_int(m, 0)), depth, ids);
    const int64_t off_on[] = { 0, 1 };
    const char *both = CALL("Cast", et_onnx_ints(m, off_on, 2));
    et_onnx_set_int(m, "to", ET_ONNX_F32);
    return CALL("OneHot", ids, depth, both);
}

static const char *onnx_CAST(et_onnx_exporter *exporter, const et_node *node)
{
    const char *y = CALL("Cast", IN(0));
    et_onnx_set_int(exporter->model, "to", ET_ONNX_F32);
    return y;
}

/* ---- layout ---- */

static const char *onnx_RESHAPE(et_onnx_exporter *exporter, const et_node *node)
{
    return CALL("Reshape", IN(0), open_shape(exporter, node->type[0].shape));
}

static const char *onnx_CONCATENATE(et_onnx_exporter *exporter, const et_node *node)
{
    const char *parts[ET_NODE_INPUTS_MAX];
    for (int i = 0; i < node->inputs; i++)
        parts[i] = IN(i);
    const char *y = et_onnx_node(exporter->model, "Concat", parts, node->inputs);
    et_onnx_set_int(exporter->model, "axis", node->attributes.along.axis);
    return y;
}

static const char *onnx_SLICE(et_onnx_exporter *exporter, const et_node *node)
{
    const et_axis_range along = node->attributes.along;
    return part(exporter->model, IN(0), size_of(exporter, along.first),
                size_of(exporter, along.first + along.count), along.axis);
}

/* ---- images ---- */

/* [N, H, W, C] to [N, C, H, W] and back. */
static const int64_t channels_first[] = { 0, 3, 1, 2 }, channels_last[] = { 0, 2, 3, 1 };

static void set_pair(et_onnx *m, const char *name, const int pair[2], const int64_t otherwise[2])
{
    const int64_t both[] = { pair[0] ? pair[0] : otherwise[0], pair[1] ? pair[1] : otherwise[1] };
    et_onnx_set_ints(m, name, both, 2);
}

static const char *onnx_CONVOLUTION(et_onnx_exporter *exporter, const et_node *node)
{
    static const int64_t weight_order[] = { 3, 2, 0, 1 }, ones[] = { 1, 1 };
    const et_convolution_options *o = &node->attributes.convolution;
    et_onnx *m = exporter->model;
    const char *x = transpose(m, IN(0), channels_first, 4);
    const char *weight = transpose(m, IN(1), weight_order, 4);
    const char *y = node->inputs == 3 ? CALL("Conv", x, weight, IN(2)) : CALL("Conv", x, weight);
    set_pair(m, "strides", o->stride, ones);
    set_pair(m, "dilations", o->dilation, ones);
    /* If a window does not fit, the odd padding is at the end, as in TensorFlow. */
    et_onnx_set_text(m, "auto_pad", o->same ? "SAME_UPPER" : "VALID");
    if (o->relu)
        y = CALL("Relu", y);
    return transpose(m, y, channels_last, 4);
}

static const char *pool(et_onnx_exporter *exporter, const et_node *node)
{
    const char *op = node->op == ET_OP_MAX_POOL ? "MaxPool" : "AveragePool";
    const et_pool_options *o = &node->attributes.pool;
    const int64_t *image = node->input[0]->type[0].shape.size + 1;
    const int64_t window[] = { o->window[0] ? o->window[0] : image[0],
                               o->window[1] ? o->window[1] : image[1] };
    et_onnx *m = exporter->model;
    const char *y = CALL(op, transpose(m, IN(0), channels_first, 4));
    et_onnx_set_ints(m, "kernel_shape", window, 2);
    set_pair(m, "strides", o->stride, window);
    et_onnx_set_text(m, "auto_pad", o->same ? "SAME_UPPER" : "VALID");
    return transpose(m, y, channels_last, 4);
}
#define onnx_MAX_POOL  pool
#define onnx_MEAN_POOL pool

/* ---- the table ---- */

/* Ops of training, of decoding with caches, and draws. */
static const char *none(et_onnx_exporter *exporter, const et_node *node)
{
    return refuse(exporter, node, "ONNX export does not support this op");
}
#define onnx_RESULT                  none
#define onnx_DROPOUT                 none
#define onnx_RELU_GRAD               none
#define onnx_GELU_GRAD               none
#define onnx_TANH_GRAD               none
#define onnx_SIGMOID_GRAD            none
#define onnx_SWISH_GRAD              none
#define onnx_SELU_GRAD               none
#define onnx_MISH_GRAD               none
#define onnx_ABS_GRAD                none
#define onnx_AT_LEAST_GRAD           none
#define onnx_AT_MOST_GRAD            none
#define onnx_CROSS_ENTROPY           none
#define onnx_LABELLED                none
#define onnx_LAYER_NORM_GRAD         none
#define onnx_EMBEDDING_GRAD          none
#define onnx_ATTENTION_GRAD          none
#define onnx_CACHED_ATTENTION        none
#define onnx_RECURRENCE              none
#define onnx_RECURRENCE_GRAD         none
#define onnx_VOCABULARY_LOSS         none
#define onnx_VOCABULARY_BEST         none
#define onnx_SOFTMAX_LOSS            none
#define onnx_SLICE_GRAD              none
#define onnx_GATHER_GRAD             none
#define onnx_EMBED_COLUMNS_GRAD      none
#define onnx_SCALED_COPIES           none
#define onnx_SCALED_COPIES_GRAD      none
#define onnx_RMS_NORM_GRAD           none
#define onnx_BATCH_NORM_GRAD         none
#define onnx_CONVOLUTION_GRAD        none
#define onnx_CONVOLUTION_WEIGHT_GRAD none
#define onnx_POOL_GRAD               none
#define onnx_NOISE                   none
#define onnx_BERNOULLI               none
#define onnx_CANDIDATES              none

/* Converts a node; returns the name of its value. */
static const char *(*const rules[ET_OP_COUNT])(et_onnx_exporter *, const et_node *) = {
#define X(id, name, fewest, most) [ET_OP_##id] = onnx_##id,
#include "engine/graph/ops.def"
#undef X
};

/* Inputs have smaller ids, so one pass backwards finds all that is needed. */
int et_onnx_needed(bool **out, const et_graph *graph, et_node *const *outputs, int count,
                   et_error *error)
{
    if (ET_ALLOC_ZERO(*out, graph->count, "a model to export", error))
        return ET_ENOMEM;
    bool *needed = *out;
    for (int i = 0; i < count; i++)
        needed[outputs[i]->id] = true;
    for (int i = graph->count; i-- > 0;)
        for (int k = 0; needed[i] && k < graph->nodes[i]->inputs; k++)
            needed[graph->nodes[i]->input[k]->id] = true;
    return ET_OK;
}

int et_onnx_add_graph(et_onnx *model, const et_onnx_graph *graph, et_node *const *outputs,
                      const char **values, int count, et_error *error)
{
    et_node *const *nodes = graph->graph->nodes;
    const int all = graph->graph->count;
    et_onnx_exporter exporter = { .model = model, .from = graph, .error = error };
    bool *needed;
    exporter.status = et_onnx_needed(&needed, graph->graph, outputs, count, error);
    if (!exporter.status)
        exporter.status = ET_ALLOC_ZERO(exporter.values, all, "a model to export", error);
    for (int i = 0; i < all && !exporter.status; i++)
        if (needed[i])
            exporter.values[i] = rules[nodes[i]->op](&exporter, nodes[i]);
    for (int i = 0; i < count && !exporter.status; i++)
        values[i] = exporter.values[outputs[i]->id];
    et_free(exporter.values);
    et_free(needed);
    return exporter.status;
}
