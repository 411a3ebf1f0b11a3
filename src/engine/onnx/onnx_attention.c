/* Attention over rows as attention over batches:
 *
 *   rows [segments * longest, width] -> [segments, heads, longest, width / heads]
 *   softmax(q k^T / sqrt(width / heads), where the key exists (and not after the query)) v
 *
 * Keys and values of the past come before k and v, so queries are the last of all positions.
 *
 * Masked scores get the lowest number, not minus infinity: a segment without any key then has some
 * mean instead of NaN, and nothing reads it. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "engine/onnx/onnx_ops.h"

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
        offsets->op == ET_OP_INPUT ? et_onnx_bound(exporter, offsets->name) : NULL;
    if (bound && bound->count) {
        *of = (side){ bound->count, bound->mask, -1 };
        return true;
    }
    const et_progression steps = offsets->attributes.progression;
    if (offsets->op != ET_OP_INTEGERS || steps.first || steps.step < 1) {
        et_onnx_refuse(exporter, node, "its offsets are neither bound nor equally spaced");
        return false;
    }
    *of = (side){ et_onnx_size(exporter, offsets->type[0].shape.size[0] - 1), NULL, steps.step };
    return true;
}

/* Columns first .. first + width - 1 of a matrix. */
static const char *columns(et_onnx *model, const char *x, int64_t first, int64_t width)
{
    const int64_t end = first + width, axis = 1;
    return et_onnx_call(model, "Slice", x, et_onnx_ints(model, &first, 1),
                        et_onnx_ints(model, &end, 1), et_onnx_ints(model, &axis, 1));
}

static const char *swap(et_onnx *model, const char *x, int64_t first, int64_t second)
{
    int64_t order[] = { 0, 1, 2, 3 };
    order[first] = second;
    order[second] = first;
    const char *y = et_onnx_call(model, "Transpose", x);
    et_onnx_set_ints(model, "perm", order, 4);
    return y;
}

/* [segments * longest, width] to [segments, heads, longest, width / heads]. */
static const char *split(et_onnx *model, const char *x, side of, int heads, int64_t head)
{
    const int64_t rest[] = { of.longest, heads, head };
    const char *shape = et_onnx_call(model, "Concat", of.count, et_onnx_ints(model, rest, 3));
    et_onnx_set_int(model, "axis", 0);
    return swap(model, et_onnx_call(model, "Reshape", x, shape), 1, 2);
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
    const int64_t down = 1;
    const char *shape = et_onnx_call(model, "Shape", scores);
    const char *queries = et_onnx_call(model, "Gather", shape, et_onnx_int(model, -2));
    const char *keys = et_onnx_call(model, "Gather", shape, et_onnx_int(model, -1));
    const char *first = et_onnx_call(model, "Sub", keys, queries), *one = et_onnx_int(model, 1);
    const char *key = et_onnx_call(model, "Range", et_onnx_int(model, 0), keys, one);
    const char *query = et_onnx_call(model, "Range", first, keys, one);
    query = et_onnx_call(model, "Unsqueeze", query, et_onnx_ints(model, &down, 1));
    return et_onnx_call(model, "LessOrEqual", key, query);
}

static const char *masked(et_onnx *model, const char *scores, const char *mask)
{
    return et_onnx_call(model, "Where", mask, scores, et_onnx_float(model, -FLT_MAX));
}

const char *et_onnx_attention(et_onnx_exporter *exporter, const et_node *node)
{
    et_onnx *model = exporter->model;
    const et_attributes *a = &node->attributes;
    const int heads = a->attention.heads;
    const int64_t width = node->type[0].shape.size[1], head = width / heads;
    side query, key;
    if (!find_side(exporter, node, node->input[2], &query) ||
        !find_side(exporter, node, node->input[3], &key))
        return NULL;
    const char *q = et_onnx_in(exporter, node, 0), *kv = et_onnx_in(exporter, node, 1);
    if (a->self)
        q = columns(model, q, 0, width);
    const et_onnx_cache all = find_keys(exporter, node, kv, a->self ? width : 0, key);
    if (!all.key && node->input[1]->op == ET_OP_INPUT)
        return et_onnx_refuse(exporter, node, "its keys and values are not bound");
    const char *scores = et_onnx_call(model, "MatMul", split(model, q, query, heads, head),
                                      swap(model, all.key, 2, 3));
    scores = et_onnx_call(model, "Mul", scores, et_onnx_float(model, 1 / sqrtf((float)head)));
    if (a->attention.causal)
        scores = masked(model, scores, up_to_itself(model, scores));
    if (key.mask)
        scores = masked(model, scores, key.mask);
    const char *weights = et_onnx_call(model, "Softmax", scores);
    et_onnx_set_int(model, "axis", -1);
    const int64_t rows[] = { -1, width };
    const char *mixed = swap(model, et_onnx_call(model, "MatMul", weights, all.value), 1, 2);
    return et_onnx_call(model, "Reshape", mixed, et_onnx_ints(model, rows, 2));
}
