/* Attention over rows as attention over batches:
 *
 *   rows [segments * longest, width] -> [segments, heads, longest, width / heads]
 *   softmax(q k^T / sqrt(width / heads), where the key is there (and not behind the query)) v
 *
 * What may not be looked at gets the lowest number, not minus infinity: a segment of which nothing
 * is there then has some mean in place of NaN, and nobody reads it. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "onnx/ops.h"

/* Segments of one side. */
typedef struct side {
    const char *count, *mask; /* int64 [1]; bool, or NULL */
    int64_t longest;          /* -1: whatever is left */
} side;

/* Offsets are an input, whose binding says how it is, or steps of one length. */
static bool find_side(et_onnx_way *way, const et_node *node, const et_node *offsets, side *of)
{
    const et_onnx_binding *bound =
        offsets->op == ET_OP_INPUT ? et_onnx_bound(way, offsets->name) : NULL;
    if (bound && bound->count) {
        *of = (side){ bound->count, bound->mask, -1 };
        return true;
    }
    const et_progression steps = offsets->attributes.progression;
    if (offsets->op != ET_OP_INTEGERS || steps.first || steps.step < 1) {
        et_onnx_refuse(way, node, "its offsets are neither bound nor of equal steps");
        return false;
    }
    *of = (side){ et_onnx_size(way, offsets->type[0].shape.size[0] - 1), NULL, steps.step };
    return true;
}

/* Columns first .. first + width - 1 of a matrix. */
static const char *columns(et_onnx *model, const char *x, int64_t first, int64_t width)
{
    const int64_t end = first + width, axis = 1;
    return et_onnx_call(model, "Slice", x, et_onnx_ints(model, &first, 1),
                        et_onnx_ints(model, &end, 1), et_onnx_ints(model, &axis, 1));
}

/* [segments * longest, width] to [segments, heads, longest, width / heads], or with the last two
 * the other way round. */
static const char *split(et_onnx *model, const char *x, side of, int heads, int64_t head, bool turn)
{
    static const int64_t plain[] = { 0, 2, 1, 3 }, turned[] = { 0, 2, 3, 1 };
    const int64_t rest[] = { of.longest, heads, head };
    const char *shape = et_onnx_call(model, "Concat", of.count, et_onnx_ints(model, rest, 3));
    et_onnx_set_int(model, "axis", 0);
    const char *y = et_onnx_call(model, "Transpose", et_onnx_call(model, "Reshape", x, shape));
    et_onnx_set_ints(model, "perm", turn ? turned : plain, 4);
    return y;
}

/* bool [longest, longest]: key k may be seen by query q, k <= q. */
static const char *up_to_itself(et_onnx *model, const char *scores)
{
    const int64_t last = -1, down = 1;
    const char *shape = et_onnx_call(model, "Shape", scores);
    const char *size = et_onnx_call(model, "Gather", shape, et_onnx_int(model, last));
    const char *each =
        et_onnx_call(model, "Range", et_onnx_int(model, 0), size, et_onnx_int(model, 1));
    const char *query = et_onnx_call(model, "Unsqueeze", each, et_onnx_ints(model, &down, 1));
    return et_onnx_call(model, "LessOrEqual", each, query);
}

static const char *masked(et_onnx *model, const char *scores, const char *mask)
{
    return et_onnx_call(model, "Where", mask, scores, et_onnx_float(model, -FLT_MAX));
}

const char *et_onnx_attention(et_onnx_way *way, const et_node *node)
{
    et_onnx *model = way->model;
    const et_attributes *a = &node->attributes;
    const int heads = a->attention.heads;
    const int64_t width = node->type[0].shape.size[1], head = width / heads;
    side query, key;
    if (!find_side(way, node, node->input[2], &query) ||
        !find_side(way, node, node->input[3], &key))
        return NULL;
    const char *q = et_onnx_in(way, node, 0), *kv = et_onnx_in(way, node, 1);
    if (a->self)
        q = columns(model, q, 0, width);
    const char *k = columns(model, kv, a->self ? width : 0, width);
    const char *v = columns(model, kv, a->self ? 2 * width : width, width);
    const char *scores = et_onnx_call(model, "MatMul", split(model, q, query, heads, head, false),
                                      split(model, k, key, heads, head, true));
    scores = et_onnx_call(model, "Mul", scores, et_onnx_float(model, 1 / sqrtf((float)head)));
    if (a->attention.causal)
        scores = masked(model, scores, up_to_itself(model, scores));
    if (key.mask)
        scores = masked(model, scores, key.mask);
    const char *weights = et_onnx_call(model, "Softmax", scores);
    et_onnx_set_int(model, "axis", -1);
    const char *mixed =
        et_onnx_call(model, "MatMul", weights, split(model, v, key, heads, head, false));
    const int64_t back[] = { 0, 2, 1, 3 }, rows[] = { -1, width };
    mixed = et_onnx_call(model, "Transpose", mixed);
    et_onnx_set_ints(model, "perm", back, 4);
    return et_onnx_call(model, "Reshape", mixed, et_onnx_ints(model, rows, 2));
}
