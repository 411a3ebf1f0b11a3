/* Attention over segments. One item of work is a tile: a (segment, head). Its keys and values
 * become float32 in scratch once, padded to whole vectors. Queries come in blocks of
 * ET_ATTENTION_ROWS, so a block's scores for all keys stay in cache. All products are product() on
 * scratch; no two tiles write the same element, so bits do not depend on threads.
 *
 *   forward    P = softmax(scale q k^T)       out = kept P v
 *   backward   dP = dout v^T                  ds = P (kept dP - D), D = rowsum(kept P dP)
 *              dq = scale ds k                dk = scale ds^T q, dv = (kept P)^T dout
 *
 * kept is 0 or the scale of dropout, element by element. For the backward pass, P is computed again
 * from q, k and the logarithm of its row's sum (Dao et al. 2022, "FlashAttention"), and dropout
 * from its counter, so nothing of [queries, keys] is ever stored. Unlike FlashAttention, keys are
 * not cut into blocks: a sentence's scores fit, and a softmax over whole rows needs no running
 * maximum.
 *
 * Factors that are equal for a row of scores (division by the softmax's sum, scale of dropout) are
 * applied to the output's or dout's row instead, which has fewer columns.
 *
 * Memory: q, k, v and out (and dout and the derivatives) of a tile are read or written once;
 * everything else is scratch, which one thread uses for tile after tile. */
#ifndef ETUDE_KERNEL_ATTENTION_INC_C
#define ETUDE_KERNEL_ATTENTION_INC_C

#include <omp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "engine/kernel/arguments.h"
#include "engine/kernel/elementwise.h"
#include "engine/kernel/parallel.h"
#include "engine/kernel/simd/attention_product.inc.c"
#include "engine/kernel/simd/attention_rows.inc.c"
#include "engine/kernel/simd/random.h"
#include "engine/kernel/simd/simd.h"

/* A call: its operands and what all tiles share. Forward, `out` is written, and `lse_out` unless
 * it is NULL; backward, `dout` and `lse` are read. */
typedef struct attention_call {
    const et_attention_shape *shape;
    const void *q, *k, *v, *dout;
    void *out, *dq, *dk, *dv;
    float *lse_out;
    const float *lse;
    float *scratch;
    keep_stream stream;
    float kept_scale; /* of dropout */
} attention_call;

/* One (segment, head). */
typedef struct tile {
    int64_t query_row, key_row; /* first rows */
    int queries, keys;          /* rows */
    int padded_keys, dim;       /* of scratch rows: keys and head_dim in whole vectors */
    int head;
    int64_t column; /* head * head_dim */
} tile;

/* A thread's scratch, float32. The sizes add up to et_attention_scratch(). */
typedef struct room {
    float *k, *k_across, *v_across, *dk, *dv; /* [keys, dim]; across: [dim, padded_keys] */
    float *q, *dout, *dq;                     /* [ET_ATTENTION_ROWS, dim] */
    float *p, *ds;                            /* [ET_ATTENTION_ROWS, padded_keys] */
    uint8_t *keep;                            /* [ET_ATTENTION_ROWS, keep_stride(keys)] bytes */
} room;

/* The block of queries first .. first + rows of a tile, and the keys that it can see. */
typedef struct pass {
    int first, rows;
    int keys, columns; /* columns: keys in whole vectors */
    int begun;         /* keys that earlier passes have seen */
} pass;

static int whole_vectors(int count)
{
    return (count + V_LANES - 1) / V_LANES * V_LANES;
}

/* Items are numbered segment by segment, heads within: neighbours share their rows of memory. */
static tile tile_of(const et_attention_shape *shape, int64_t item)
{
    const int segment = (int)(item / shape->heads), head = (int)(item % shape->heads);
    const int keys = shape->key_offsets[segment + 1] - shape->key_offsets[segment];
    return (tile){
        .query_row = shape->query_offsets[segment],
        .key_row = shape->key_offsets[segment],
        .queries = shape->query_offsets[segment + 1] - shape->query_offsets[segment],
        .keys = keys,
        .padded_keys = whole_vectors(keys),
        .dim = whole_vectors(shape->head_dim),
        .head = head,
        .column = (int64_t)head * shape->head_dim,
    };
}

/* The next part of a scratch. Parts are multiples of ET_ATTENTION_PAD floats, so each is aligned if
 * the first is. */
ET_INLINE float *cut_room(float **next, size_t floats)
{
    float *begin = *next;
    *next += floats;
    return begin;
}

/* Inlined, so that the result stays in registers: a vector read back from memory at once would wait
 * for all stores of the previous tile. Padded to ET_ATTENTION_PAD and not to this table's vectors,
 * as the scratch is sized for all tables. Its beginning is brought to a line of the cache first. */
ET_INLINE room room_of(const et_attention_shape *shape, const tile *at, float *scratch)
{
    const size_t keys = et_attention_padded((size_t)at->keys);
    const size_t dim = et_attention_padded((size_t)shape->head_dim);
    float *next = scratch + (size_t)omp_get_thread_num() * shape->scratch_per_thread;
    float *const base = next;
    room to;
    next += (64 - (uintptr_t)next % 64) % 64 / sizeof(float);
    to.k = cut_room(&next, keys * dim);
    to.k_across = cut_room(&next, keys * dim);
    to.v_across = cut_room(&next, keys * dim);
    to.dk = cut_room(&next, keys * dim);
    to.dv = cut_room(&next, keys * dim);
    to.q = cut_room(&next, ET_ATTENTION_ROWS * dim);
    to.dout = cut_room(&next, ET_ATTENTION_ROWS * dim);
    to.dq = cut_room(&next, ET_ATTENTION_ROWS * dim);
    to.p = cut_room(&next, ET_ATTENTION_ROWS * keys);
    to.ds = cut_room(&next, ET_ATTENTION_ROWS * keys);
    to.keep = (uint8_t *)cut_room(&next, keys + 2); /* keep_stride() is at most keys / 4 */
    et_assert((size_t)(next - base) <= shape->scratch_per_thread);
    (void)base;
    return to;
}

/* ---- rows from and to memory ---- */

/* Clang requires literal constants for these arguments. */
ET_INLINE void bring_line(const char *line, const bool write)
{
    if (write)
        __builtin_prefetch(line, 1, 3);
    else
        __builtin_prefetch(line, 0, 2);
}

/* During the work on one tile, prefetches rows of x that a pass of a later tile reads or writes:
 * the lines of a head are far apart, so the hardware does not prefetch them. Two lines at a time:
 * for a head of few columns the second line belongs to the next one. */
ET_INLINE void bring(const void *x, int64_t row, int64_t stride, int64_t column, int rows,
                     int head_dim, const bool write, et_dtype dtype)
{
    const int64_t element = dtype == ET_BF16 ? 2 : 4;
    const char *line = (const char *)x + (row * stride + column) * element;
    for (int i = 0; i < rows; i++, line += stride * element)
        for (int64_t at = 0; at < head_dim * element; at += 128) {
            bring_line(line + at, write);
            bring_line(line + at + 64, write);
        }
}

/* The number of a tile's rows, from `first` on, in one pass. */
static int pass_rows(int rows, int first)
{
    const int left = rows - first;
    return left < 0 ? 0 : left < ET_ATTENTION_ROWS ? left : ET_ATTENTION_ROWS;
}

/* Prefetches, during a pass of this tile, the rows that pass `first` of the next tile reads; in the
 * forward direction also the rows of `out` that it writes, if out is not NULL. */
ET_INLINE void bring_pass(const attention_call *call, const void *out, const tile *at, int first,
                          et_dtype dtype)
{
    const et_attention_shape *shape = call->shape;
    const int queries = pass_rows(at->queries, first), keys = pass_rows(at->keys, first);
    const int64_t query_row = at->query_row + first, key_row = at->key_row + first;
    const int dim = shape->head_dim;
    bring(call->k, key_row, shape->key_stride, at->column, keys, dim, false, dtype);
    bring(call->v, key_row, shape->value_stride, at->column, keys, dim, false, dtype);
    bring(call->q, query_row, shape->query_stride, at->column, queries, dim, false, dtype);
    if (out)
        bring(out, query_row, shape->out_stride, at->column, queries, dim, true, dtype);
    else
        bring(call->dout, query_row, shape->out_stride, at->column, queries, dim, false, dtype);
}

/* Prefetches rows that a pass of the backward direction writes. Separate from bring_pass, which
 * prefetches rows that the next tile reads: this function prefetches rows that the current tile
 * writes. */
ET_INLINE void bring_gradients(const attention_call *call, const tile *at, int first,
                               et_dtype dtype)
{
    const et_attention_shape *shape = call->shape;
    const int queries = pass_rows(at->queries, first), keys = pass_rows(at->keys, first);
    const int64_t query_row = at->query_row + first, key_row = at->key_row + first;
    const int dim = shape->head_dim;
    bring(call->dq, query_row, shape->query_stride, at->column, queries, dim, true, dtype);
    if (!call->dk)
        return;
    bring(call->dk, key_row, shape->key_stride, at->column, keys, dim, true, dtype);
    bring(call->dv, key_row, shape->value_stride, at->column, keys, dim, true, dtype);
}

/* to[i] = factor * x[row + i], rows of dim floats, 0 beyond head_dim. */
ET_INLINE void take_rows(float *to, const void *x, int64_t at, int64_t stride, int rows, int dim,
                         int head_dim, float factor, et_dtype dtype)
{
    for (int i = 0; i < rows; i++)
        for (int d = 0; d < dim; d += V_LANES)
            v_store(to + i * dim + d,
                    v_read_n(x, at + i * stride + d, head_dim - d, dtype) * v_set(factor));
}

/* to[d] = column d of x's rows: [dim, padded_keys], 0 beyond both ends. By squares, as staging
 * does: a column of k is far apart in memory, and scores read it as a row. */
ET_INLINE void take_across(float *to, const void *x, int64_t at, int64_t stride, const tile *of,
                           int head_dim, et_dtype dtype)
{
    for (int j = 0; j < of->keys; j += V_LANES)
        for (int d = 0; d < of->dim; d += V_LANES) {
            vf square[V_LANES];
            ET_UNROLL
            for (int r = 0; r < V_LANES; r++)
                square[r] = j + r < of->keys
                                ? v_read_n(x, at + (j + r) * stride + d, head_dim - d, dtype)
                                : v_set(0.0f);
            v_transpose(square);
            ET_UNROLL
            for (int r = 0; r < V_LANES; r++)
                v_store(to + (d + r) * of->padded_keys + j, square[r]);
        }
}

/* y[i] = factor[i * step] * from[i], rounded once to act type; columns from head_dim on are not
 * written, for there the next head begins. */
ET_INLINE void put_rows(void *y, const float *from, int64_t at, int64_t stride, int rows, int dim,
                        int head_dim, const float *factor, int step, et_dtype dtype)
{
    for (int i = 0; i < rows; i++)
        for (int d = 0; d < head_dim; d += V_LANES)
            v_write_n(y, at + i * stride + d, v_load(from + i * dim + d) * v_set(factor[i * step]),
                      head_dim - d, dtype);
}

/* ---- passes ---- */

/* Causal: no row of the pass sees keys after its last query, so those are not computed. */
static pass pass_of(const et_attention_shape *shape, const tile *at, int first)
{
    pass now = { .first = first, .rows = pass_rows(at->queries, first), .keys = at->keys };
    if (shape->causal && first + now.rows < now.keys)
        now.keys = first + now.rows;
    now.columns = whole_vectors(now.keys);
    now.begun = first == 0 ? 0 : shape->causal && first < at->keys ? first : at->keys;
    return now;
}

/* Row i of a pass is query first + i, which sees the keys up to its own number where causal. */
static score_rows rows_of(const et_attention_shape *shape, const tile *at, const room *in,
                          const pass *now)
{
    return (score_rows){ .p = in->p,
                         .dp = in->ds,
                         .keep = in->keep,
                         .keep_stride = keep_stride(now->keys),
                         .stride = at->padded_keys,
                         .count = now->rows,
                         .columns = now->columns,
                         .keys = now->keys,
                         .seen = shape->causal ? now->first + 1 : now->keys,
                         .more = shape->causal };
}

/* Computes the dropout bits of a pass. Element numbers are (row * heads + head) << 16
 * key, and a Philox block has eight: hence << 13. Rows of a pass are `heads` apart. */
static void keep_pass(const attention_call *call, const tile *at, const room *in, const pass *now)
{
    const uint64_t heads = (uint64_t)call->shape->heads;
    const uint64_t first = ((uint64_t)(at->query_row + now->first) * heads + at->head) << 13;
    if (call->shape->rate > 0)
        keep_grid(in->keep, keep_stride(now->keys), &call->stream, first, heads << 13, now->rows);
}

/* q scaled, and p = scores of the pass. */
ET_INLINE void scores(const attention_call *call, const tile *at, const room *in, const pass *now,
                      et_dtype dtype)
{
    const et_attention_shape *shape = call->shape;
    take_rows(in->q, call->q, (at->query_row + now->first) * shape->query_stride + at->column,
              shape->query_stride, now->rows, at->dim, shape->head_dim, shape->scale, dtype);
    const operands s = { in->p,   in->q,           in->k_across,   at->padded_keys,
                         at->dim, at->padded_keys, shape->head_dim };
    product(&s, now->rows, now->columns);
}

/* A pass from scores to output. The softmax is normalised before dropout, which acts on weights and
 * does not change lse. */
ET_INLINE void attend_pass(const attention_call *call, const tile *at, const room *in,
                           const pass *now, et_dtype dtype)
{
    float factor[ET_ATTENTION_ROWS], lse[ET_ATTENTION_ROWS];
    const et_attention_shape *shape = call->shape;
    const int64_t row = at->query_row + now->first;
    const score_rows rows = rows_of(shape, at, in, now);
    scores(call, at, in, now, dtype);
    keep_pass(call, at, in, now);
    if (shape->rate > 0)
        weigh_rows(&rows, factor, lse, call->kept_scale, true);
    else
        weigh_rows(&rows, factor, lse, 1.0f, false);
    for (int i = 0; call->lse_out && i < now->rows; i++)
        call->lse_out[(row + i) * shape->heads + at->head] = lse[i];
    const operands o = { in->dout, in->p, in->k, at->dim, at->padded_keys, at->dim, now->keys };
    product(&o, now->rows, at->dim);
    put_rows(call->out, in->dout, row * shape->out_stride + at->column, shape->out_stride,
             now->rows, at->dim, shape->head_dim, factor, 1, dtype);
}

/* The products of a pass: dP = dout v^T; then dq = ds k, dk += ds^T q, dv += P^T dout. dk and dv of
 * a key begin with the pass that sees it first, so they need not be cleared. */
ET_INLINE void grad_pass(const attention_call *call, const tile *at, const room *in,
                         const pass *now, et_dtype dtype)
{
    float shift[ET_ATTENTION_ROWS] = { 0 };
    const et_attention_shape *shape = call->shape;
    const int64_t row = at->query_row + now->first;
    const int keys = at->padded_keys, dim = at->dim;
    const score_rows rows = rows_of(shape, at, in, now);
    scores(call, at, in, now, dtype);
    keep_pass(call, at, in, now);
    take_rows(in->dout, call->dout, row * shape->out_stride + at->column, shape->out_stride,
              now->rows, dim, shape->head_dim, call->kept_scale, dtype);
    const operands dp = { in->ds, in->dout, in->v_across, keys, dim, keys, shape->head_dim };
    product(&dp, now->rows, now->columns);
    for (int i = 0; i < now->rows; i++)
        shift[i] = -LOG2_E * call->lse[(row + i) * shape->heads + at->head];
    if (shape->rate > 0)
        grad_rows(&rows, shift, true);
    else
        grad_rows(&rows, shift, false);
    const operands to_q = { in->dq, in->ds, in->k, dim, keys, dim, now->keys };
    const operands to_k = { in->dk, in->ds, in->q, dim, keys, dim, now->rows };
    const operands to_v = { in->dv, in->p, in->dout, dim, keys, dim, now->rows };
    product(&to_q, now->rows, dim);
    product_across(&to_k, now->keys, dim, now->begun);
    product_across(&to_v, now->keys, dim, now->begun);
    put_rows(call->dq, in->dq, row * shape->query_stride + at->column, shape->query_stride,
             now->rows, dim, shape->head_dim, &shape->scale, 0, dtype);
}

/* ---- tiles ---- */

/* In the forward direction the memory for k by rows holds v by rows, and that for dout the output.
 * v is needed by rows (out = P v), k across (scores = q k^T), so each is copied in only one form.
 */
ET_INLINE void attend_tile(const attention_call *call, const tile *at, const tile *later,
                           et_dtype dtype)
{
    const et_attention_shape *shape = call->shape;
    const room in = room_of(shape, at, call->scratch);
    take_across(in.k_across, call->k, at->key_row * shape->key_stride + at->column,
                shape->key_stride, at, shape->head_dim, dtype);
    take_rows(in.k, call->v, at->key_row * shape->value_stride + at->column, shape->value_stride,
              at->keys, at->dim, shape->head_dim, 1.0f, dtype);
    for (int first = 0; first < at->queries; first += ET_ATTENTION_ROWS) {
        const pass now = pass_of(shape, at, first);
        bring_pass(call, call->out, later, first, dtype);
        attend_pass(call, at, &in, &now, dtype);
    }
}

/* dk's product uses the scaled q, so only dq must still be scaled. dk and dv are summed in float32
 * over all passes, in order, and rounded once at the end. Keys that no query sees get zeros. */
ET_INLINE void grad_tile(const attention_call *call, const tile *at, const tile *later,
                         et_dtype dtype)
{
    static const float one = 1.0f;
    const et_attention_shape *shape = call->shape;
    const room in = room_of(shape, at, call->scratch);
    const int64_t k_at = at->key_row * shape->key_stride + at->column;
    const int64_t v_at = at->key_row * shape->value_stride + at->column;
    const int dim = at->dim, head_dim = shape->head_dim;
    take_across(in.k_across, call->k, k_at, shape->key_stride, at, head_dim, dtype);
    take_across(in.v_across, call->v, v_at, shape->value_stride, at, head_dim, dtype);
    take_rows(in.k, call->k, k_at, shape->key_stride, at->keys, dim, head_dim, 1.0f, dtype);
    int seen = 0;
    for (int first = 0; first < at->queries; first += ET_ATTENTION_ROWS) {
        const pass now = pass_of(shape, at, first);
        bring_gradients(call, at, first, dtype);
        bring_pass(call, NULL, later, first, dtype);
        grad_pass(call, at, &in, &now, dtype);
        seen = now.keys;
    }
    const size_t unseen = (size_t)(at->keys - seen) * (size_t)dim * sizeof *in.dk;
    memset(in.dk + seen * dim, 0, unseen);
    memset(in.dv + seen * dim, 0, unseen);
    if (!call->dk)
        return;
    put_rows(call->dk, in.dk, k_at, shape->key_stride, at->keys, dim, head_dim, &one, 0, dtype);
    put_rows(call->dv, in.dv, v_at, shape->value_stride, at->keys, dim, head_dim, &one, 0, dtype);
}

/* The tile after an item's, of no rows after the last. */
static tile later_tile(const et_attention_shape *shape, int64_t item, int64_t items)
{
    return item + 1 < items ? tile_of(shape, item + 1) : (tile){ 0 };
}

/* ---- calls ---- */

/* Elements of out, to be compared with the cost of starting a team. */
static int64_t attention_work(const et_attention_shape *shape)
{
    return (int64_t)shape->query_offsets[shape->segments] * shape->heads * shape->head_dim;
}

/* Tiles take unequal time, because segments have unequal lengths, so threads take a few at a time.
 * They take eight short ones, so that the prefetched tile is their own next one. They take long
 * ones singly, so that no thread works alone at the end. */
static int tiles_at_once(const et_attention_shape *shape)
{
    const int64_t rows = shape->query_offsets[shape->segments];
    return rows > 64 * (int64_t)shape->segments ? 1 : 8;
}

/* The segments before the empty ones at a batch's end, so that threads get about equal shares. */
static int filled_segments(const et_attention_shape *shape)
{
    const int32_t *query = shape->query_offsets, *key = shape->key_offsets;
    int count = shape->segments;
    while (count > 0 && query[count] == query[count - 1] && key[count] == key[count - 1])
        count--;
    return count;
}

/* Forward or back, whichever has something to write. A tile without queries has nothing to do going
 * forward; back it still has zeros to write for its keys, and one without keys for its queries. */
static void attend_item(const attention_call *call, int64_t item, int64_t items)
{
    const et_attention_shape *shape = call->shape;
    const tile at = tile_of(shape, item), later = later_tile(shape, item, items);
    const bool back = call->out == NULL;
    if (back && (at.queries > 0 || at.keys > 0))
        ET_BY_DTYPE(shape->dtype, grad_tile, call, &at, &later);
    else if (!back && at.queries > 0)
        ET_BY_DTYPE(shape->dtype, attend_tile, call, &at, &later);
}

static void attend(const attention_call *call)
{
    const et_attention_shape *shape = call->shape;
    const int64_t items = (int64_t)filled_segments(shape) * shape->heads;
    et_turns turns;
    et_turns_init(&turns, omp_get_max_threads(), items, tiles_at_once(shape));
#pragma omp parallel if (attention_work(shape) >= ET_GRAIN)
    {
        et_turn turn = et_turn_own(&turns);
        for (et_items now; et_turns_take(&turns, &turn, &now);)
            for (int64_t item = now.begin; item < now.end; item++)
                attend_item(call, item, items);
    }
}

static void attention(void *out, float *lse, const void *q, const void *k, const void *v,
                      const et_attention_shape *shape, float *scratch)
{
    const attention_call call = { .shape = shape,
                                  .q = q,
                                  .k = k,
                                  .v = v,
                                  .out = out,
                                  .lse_out = lse,
                                  .scratch = scratch,
                                  .stream = keep_stream_of(shape->random, shape->random.site,
                                                           shape->rate),
                                  .kept_scale = et_dropout_scale(shape->rate) };
    attend(&call);
}

static void attention_grad(void *dq, void *dk, void *dv, const void *dout, const float *lse,
                           const void *q, const void *k, const void *v,
                           const et_attention_shape *shape, float *scratch)
{
    const attention_call call = { .shape = shape,
                                  .q = q,
                                  .k = k,
                                  .v = v,
                                  .dout = dout,
                                  .dq = dq,
                                  .dk = dk,
                                  .dv = dv,
                                  .lse = lse,
                                  .scratch = scratch,
                                  .stream = keep_stream_of(shape->random, shape->random.site,
                                                           shape->rate),
                                  .kept_scale = et_dropout_scale(shape->rate) };
    attend(&call);
}

#endif
