/* Attention over segments. One item of work is a tile: a (segment, head). Its keys and values
 * become float32 in scratch once, padded to whole vectors; queries pass in blocks of
 * ET_ATTENTION_ROWS, so that a block's scores against all keys stay in cache. All products are
 * product() below, on scratch; no two tiles write the same element, so threads cannot change a bit.
 *
 *   forward    P = softmax(scale q k^T)       out = kept P v
 *   backward   dP = dout v^T                  ds = P (kept dP - D), D = rowsum(kept P dP)
 *              dq = scale ds k                dk = scale ds^T q, dv = (kept P)^T dout
 *
 * kept is 0 or the scale of dropout, element by element. P is computed again for the backward pass
 * from q, k and the logarithm of its row's sum (Dao et al. 2022, "FlashAttention"), and dropout
 * from its counter, so that nothing of [queries, keys] is ever kept. Unlike there, keys are not cut
 * into blocks: a sentence's scores fit, and a softmax over whole rows needs no running maximum.
 *
 * Memory: q, k, v and out (and dout and the derivatives) of a tile come from memory or go there
 * once; all else is scratch, which one thread uses for tile after tile. */

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

/* Inlined, so that it stays in registers: read back from memory at once, as vectors, it would wait
 * for all that the tile before has stored. Padded to ET_ATTENTION_PAD and not to this table's
 * vectors, as the scratch is sized for all tables. Its beginning is brought to a line of the cache
 * first. */
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

/* The rows of x that a pass of a later tile reads, or writes, are brought nearer while another is
 * worked on: a head's lines lie far apart, where the hardware does not look ahead. */
ET_INLINE void bring(const void *x, int64_t row, int64_t stride, int64_t column, int rows,
                     int head_dim, const bool write, et_dtype dtype)
{
    const int64_t element = dtype == ET_BF16 ? 2 : 4;
    const char *line = (const char *)x + (row * stride + column) * element;
    for (int i = 0; i < rows; i++, line += stride * element)
        for (int64_t at = 0; at < head_dim * element; at += 64) {
            if (write)
                __builtin_prefetch(line + at, 1, 3);
            else
                __builtin_prefetch(line + at, 0, 2);
        }
}

/* Of a tile's rows from `first` on, those of a pass. */
static int pass_rows(int rows, int first)
{
    const int left = rows - first;
    return left < 0 ? 0 : left < ET_ATTENTION_ROWS ? left : ET_ATTENTION_ROWS;
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
ET_INLINE void take_across(float *to, const void *x, int64_t at, int64_t stride, int rows,
                           int padded, int dim, int head_dim, et_dtype dtype)
{
    for (int j = 0; j < rows; j += V_LANES)
        for (int d = 0; d < dim; d += V_LANES) {
            vf square[V_LANES];
            ET_UNROLL
            for (int r = 0; r < V_LANES; r++)
                square[r] = j + r < rows
                                ? v_read_n(x, at + (j + r) * stride + d, head_dim - d, dtype)
                                : v_set(0.0f);
            v_transpose(square);
            ET_UNROLL
            for (int r = 0; r < V_LANES; r++)
                v_store(to + (d + r) * padded + j, square[r]);
        }
}

/* y[i] = factor * from[i], rounded once to act type; columns from head_dim on are not written, for
 * there the next head begins. */
ET_INLINE void put_rows(void *y, const float *from, int64_t at, int64_t stride, int rows, int dim,
                        int head_dim, float factor, et_dtype dtype)
{
    for (int i = 0; i < rows; i++)
        for (int d = 0; d < head_dim; d += V_LANES)
            v_write_n(y, at + i * stride + d, v_load(from + i * dim + d) * v_set(factor),
                      head_dim - d, dtype);
}

/* A product on scratch: c [m, n] (+)= a [m, k] b [k, n]. a's element (i, l) is at i * a_row + l *
 * a_step, so a may lie across; n is whole vectors. Rows beyond m, up to a multiple of 8, are
 * computed from what is there and mean nothing: scratch has room for them. Distances are in floats.
 * add: c is summed onto; else it is overwritten. */
typedef struct operands {
    float *c;
    const float *a, *b;
    int c_row, a_row, a_step, b_row;
    int k;
    bool add;
} operands;

/* rows x vectors of c, held in registers: rows and vectors are constants. `add` is the same for a
 * whole product; its test stands outside the loop over k. */
ET_INLINE void product_block(const operands *at, int i, int j, const int rows, const int vectors)
{
    vf sum[V_PRODUCT_ROWS][2];
    const float *a = at->a + i * at->a_row, *b = at->b + j;
    float *c = at->c + i * at->c_row + j;
    ET_UNROLL
    for (int r = 0; r < rows; r++)
        ET_UNROLL
    for (int s = 0; s < vectors; s++)
        sum[r][s] = at->add ? v_load(c + r * at->c_row + s * V_LANES) : v_set(0.0f);
    for (int l = 0; l < at->k; l++, a += at->a_step, b += at->b_row) {
        vf right[2];
        ET_UNROLL
        for (int s = 0; s < vectors; s++)
            right[s] = v_load(b + s * V_LANES);
        ET_UNROLL
        for (int r = 0; r < rows; r++) {
            const vf left = v_set(a[r * at->a_row]);
            ET_UNROLL
            for (int s = 0; s < vectors; s++)
                sum[r][s] = v_fma(left, right[s], sum[r][s]);
        }
    }
    ET_UNROLL
    for (int r = 0; r < rows; r++)
        ET_UNROLL
    for (int s = 0; s < vectors; s++)
        v_store(c + r * at->c_row + s * V_LANES, sum[r][s]);
}

/* A rest of at most half a block's rows takes half a block: of 10 rows in blocks of 8, a block of 8
 * and one of 4. */
ET_INLINE void product_columns(const operands *at, int m, int j, const int vectors)
{
    int i = 0;
    for (; i + V_PRODUCT_ROWS / 2 < m; i += V_PRODUCT_ROWS)
        product_block(at, i, j, V_PRODUCT_ROWS, vectors);
    for (; i < m; i += V_PRODUCT_ROWS / 2)
        product_block(at, i, j, V_PRODUCT_ROWS / 2, vectors);
}

/* Two vectors of columns at a time: with 16 lanes 8 x 2 sums, enough to hide the latency of a
 * multiply-add. */
static void product(const operands *at, int m, int n)
{
    int j = 0;
    for (; j + 2 * V_LANES <= n; j += 2 * V_LANES)
        product_columns(at, m, j, 2);
    for (; j < n; j += V_LANES)
        product_columns(at, m, j, 1);
}

/* The block of queries first .. first + rows of a tile, and the keys that it can see. */
typedef struct pass {
    int first, rows;
    int keys, columns; /* columns: keys in whole vectors */
} pass;

/* Causal: keys behind the last query of the pass are seen by none of its rows, and nothing is
 * computed of them. */
static pass pass_of(const et_attention_shape *shape, const tile *at, int first)
{
    pass now = { .first = first, .rows = pass_rows(at->queries, first), .keys = at->keys };
    if (shape->causal && first + now.rows < now.keys)
        now.keys = first + now.rows;
    now.columns = whole_vectors(now.keys);
    return now;
}

/* Keys that row i of a pass sees. Causal: row i is query first + i, which sees the keys up to its
 * own number. */
static int visible(const et_attention_shape *shape, const pass *now, int i)
{
    const int limit = now->first + i + 1;
    return shape->causal && limit < now->keys ? limit : now->keys;
}

/* The dropout bits of a pass. Element numbers are (row * heads + head) << 16 | key, and a Philox
 * block has eight: hence << 13. Rows of a pass are `heads` apart. */
static void keep_pass(const room *in, const et_attention_shape *shape, const tile *at,
                      const pass *now, const keep_stream *stream)
{
    const uint64_t heads = (uint64_t)shape->heads;
    const uint64_t first = ((uint64_t)(at->query_row + now->first) * heads + at->head) << 13;
    if (shape->rate > 0)
        keep_grid(in->keep, keep_stride(now->keys), stream, first, heads << 13, now->rows);
}

/* q scaled, and p = scores of the pass. */
ET_INLINE void scores(const room *in, const et_attention_shape *shape, const tile *at,
                      const pass *now, const void *q, et_dtype dtype)
{
    take_rows(in->q, q, (at->query_row + now->first) * shape->query_stride + at->column,
              shape->query_stride, now->rows, at->dim, shape->head_dim, shape->scale, dtype);
    const operands s = { in->p,           in->q,           in->k_across,
                         at->padded_keys, at->dim,         1,
                         at->padded_keys, shape->head_dim, false };
    product(&s, now->rows, now->columns);
}

/* Scores of one row become weights; the largest score and the sum of exponentials are kept for the
 * caller's logarithm. Columns beyond the visible keys become 0. The largest is taken off first, so
 * exponents are at most 0 and the sum is at least 1. A query without keys has no columns either:
 * its output is an empty sum and its logarithm minus infinity. */
static void weights_row(float *p, float *largest, float *total, int seen, int columns)
{
    vf most = v_set(-INFINITY), sum = v_set(0.0f);
    *total = 1.0f;
    *largest = -INFINITY;
    if (seen == 0)
        return;
    for (int j = 0; j < seen; j += V_LANES)
        most = v_max(v_select(v_first(seen - j), v_load(p + j), most), most);
    *largest = v_largest(most);
    for (int j = 0; j < columns; j += V_LANES) {
        vf e = v_set(0.0f);
        if (j < seen)
            e = v_select(v_first(seen - j), v_exp(v_load(p + j) - v_set(*largest)), e);
        v_store(p + j, e);
        sum = sum + e;
    }
    *total = v_sum(sum);
    const vf inverse = v_set(1.0f / *total);
    for (int j = 0; j < seen; j += V_LANES)
        v_store(p + j, v_load(p + j) * inverse);
}

/* p = kept p */
static void drop_row(float *p, const uint8_t *keep, float scale, int columns)
{
    for (int j = 0; j < columns; j += V_LANES)
        v_store(p + j, v_select(v_bits(keep, j), v_load(p + j) * v_set(scale), v_set(0.0f)));
}

/* A pass from scores to output. Rows that the pass has not are given 1 as sum, so that the
 * logarithms can be taken a vector of rows at a time. The softmax is normalised before dropout,
 * which acts on weights, and lse does not know of it. */
ET_INLINE void attend_pass(void *out, float *lse, const void *q, const et_attention_shape *shape,
                           const tile *at, const room *in, const pass *now,
                           const keep_stream *stream, et_dtype dtype)
{
    scores(in, shape, at, now, q, dtype);
    keep_pass(in, shape, at, now, stream);
    float largest[ET_ATTENTION_ROWS], total[ET_ATTENTION_ROWS];
    const int64_t first_row = at->query_row + now->first;
    for (int i = 0; i < ET_ATTENTION_ROWS; i++)
        largest[i] = total[i] = 1.0f;
    for (int i = 0; i < now->rows; i++) {
        float *p = in->p + i * at->padded_keys;
        weights_row(p, &largest[i], &total[i], visible(shape, now, i), now->columns);
        if (shape->rate > 0)
            drop_row(p, in->keep + i * keep_stride(now->keys), et_dropout_scale(shape->rate),
                     now->columns);
    }
    for (int i = 0; lse && i < ET_ATTENTION_ROWS; i += V_LANES)
        v_store(largest + i, v_load(largest + i) + v_log(v_load(total + i)));
    for (int i = 0; lse && i < now->rows; i++)
        lse[(first_row + i) * shape->heads + at->head] = largest[i];
    const operands o = { in->dout, in->p,   in->k,     at->dim, at->padded_keys,
                         1,        at->dim, now->keys, false };
    product(&o, now->rows, at->dim);
    put_rows(out, in->dout, first_row * shape->out_stride + at->column, shape->out_stride,
             now->rows, at->dim, shape->head_dim, 1.0f, dtype);
}

/* What pass `first` of the tile that comes next needs, while the same pass of this one is worked
 * on: k, v and q are read; out is written going forward, its derivative is read going back. */
ET_INLINE void bring_pass(const void *out, bool written, const void *q, const void *k,
                          const void *v, const et_attention_shape *shape, const tile *at, int first,
                          et_dtype dtype)
{
    const int queries = pass_rows(at->queries, first), keys = pass_rows(at->keys, first);
    const int64_t query_row = at->query_row + first, key_row = at->key_row + first;
    const int dim = shape->head_dim;
    bring(k, key_row, shape->key_stride, at->column, keys, dim, false, dtype);
    bring(v, key_row, shape->value_stride, at->column, keys, dim, false, dtype);
    bring(q, query_row, shape->query_stride, at->column, queries, dim, false, dtype);
    bring(out, query_row, shape->out_stride, at->column, queries, dim, written, dtype);
}

/* Forward, the place of k by rows holds v by rows, and that of dout the output. v is wanted by rows
 * (out = P v), k across (scores = q k^T): each is copied in the one form only. */
ET_INLINE void attend_tile(void *out, float *lse, const void *q, const void *k, const void *v,
                           const et_attention_shape *shape, const tile *at, const tile *later,
                           float *scratch, const keep_stream *stream, et_dtype dtype)
{
    const room in = room_of(shape, at, scratch);
    take_across(in.k_across, k, at->key_row * shape->key_stride + at->column, shape->key_stride,
                at->keys, at->padded_keys, at->dim, shape->head_dim, dtype);
    take_rows(in.k, v, at->key_row * shape->value_stride + at->column, shape->value_stride,
              at->keys, at->dim, shape->head_dim, 1.0f, dtype);
    for (int first = 0; first < at->queries; first += ET_ATTENTION_ROWS) {
        const pass now = pass_of(shape, at, first);
        bring_pass(out, true, q, k, v, shape, later, first, dtype);
        attend_pass(out, lse, q, shape, at, &in, &now, stream, dtype);
    }
}

/* The tile after an item's, of no rows after the last. */
static tile later_tile(const et_attention_shape *shape, int64_t item, int64_t items)
{
    return item + 1 < items ? tile_of(shape, item + 1) : (tile){ 0 };
}

/* Elements of out: what it costs to begin a team is weighed against them. */
static int64_t attention_work(const et_attention_shape *shape)
{
    return (int64_t)shape->query_offsets[shape->segments] * shape->heads * shape->head_dim;
}

/* Items take unequal time, as segments have unequal lengths: threads take eight at a time as they
 * come. */
static void attention(void *out, float *lse, const void *q, const void *k, const void *v,
                      const et_attention_shape *shape, float *scratch)
{
    const keep_stream stream = keep_stream_of(shape->random, shape->random.site, shape->rate);
    const int64_t items = (int64_t)shape->segments * shape->heads;
#pragma omp parallel for schedule(dynamic, 8) if (attention_work(shape) >= ET_GRAIN)
    for (int64_t item = 0; item < items; item++) {
        const tile at = tile_of(shape, item), later = later_tile(shape, item, items);
        if (at.queries > 0)
            ET_BY_DTYPE(shape->dtype, attend_tile, out, lse, q, k, v, shape, &at, &later, scratch,
                        &stream);
    }
}

/* One row: scores in p become the weights as the forward pass used them (dropped), and dP in
 * ds becomes the scores' derivative P (kept dP - D), D = sum of P kept dP. */
static void grad_row(float *p, float *ds, const uint8_t *keep, float scale, float lse, int seen,
                     int columns)
{
    vf total = v_set(0.0f);
    for (int j = 0; j < columns; j += V_LANES) {
        vf weight = v_exp(v_load(p + j) - v_set(lse)), dweight = v_load(ds + j);
        weight = v_select(v_first(seen - j < 0 ? 0 : seen - j), weight, v_set(0.0f));
        if (keep)
            dweight = v_select(v_bits(keep, j), dweight * v_set(scale), v_set(0.0f));
        v_store(p + j, weight);
        v_store(ds + j, dweight);
        total = v_fma(weight, dweight, total);
    }
    const vf shift = v_set(v_sum(total));
    for (int j = 0; j < columns; j += V_LANES)
        v_store(ds + j, v_load(p + j) * (v_load(ds + j) - shift));
    if (keep)
        drop_row(p, keep, scale, columns);
}

/* The products of a pass: dP = dout v^T; then dq = ds k, dk += ds^T q, dv += P^T dout. a_row 1 and
 * a_step `keys` read ds and P across: their transposes are never made. */
ET_INLINE void grad_pass(void *dq, const void *dout, const float *lse, const void *q,
                         const et_attention_shape *shape, const tile *at, const room *in,
                         const pass *now, const keep_stream *stream, et_dtype dtype)
{
    const int64_t row = at->query_row + now->first;
    const int keys = at->padded_keys, dim = at->dim;
    scores(in, shape, at, now, q, dtype);
    keep_pass(in, shape, at, now, stream);
    take_rows(in->dout, dout, row * shape->out_stride + at->column, shape->out_stride, now->rows,
              dim, shape->head_dim, 1.0f, dtype);
    const operands dp = {
        in->ds, in->dout, in->v_across, keys, dim, 1, keys, shape->head_dim, false
    };
    product(&dp, now->rows, now->columns);
    for (int i = 0; i < now->rows; i++)
        grad_row(in->p + i * keys, in->ds + i * keys,
                 shape->rate > 0 ? in->keep + i * keep_stride(now->keys) : NULL,
                 et_dropout_scale(shape->rate), lse[(row + i) * shape->heads + at->head],
                 visible(shape, now, i), now->columns);
    const operands to_q = { in->dq, in->ds, in->k, dim, keys, 1, dim, now->keys, false };
    const operands to_k = { in->dk, in->ds, in->q, dim, 1, keys, dim, now->rows, true };
    const operands to_v = { in->dv, in->p, in->dout, dim, 1, keys, dim, now->rows, true };
    product(&to_q, now->rows, dim);
    product(&to_k, now->keys, dim);
    product(&to_v, now->keys, dim);
    put_rows(dq, in->dq, row * shape->query_stride + at->column, shape->query_stride, now->rows,
             dim, shape->head_dim, shape->scale, dtype);
}

/* What a pass of the backward direction writes. Apart from bring_pass, as it is asked for at
 * another time: what is read for the next tile, what is written for this one. */
ET_INLINE void bring_gradients(const void *dq, const void *dk, const void *dv,
                               const et_attention_shape *shape, const tile *at, int first,
                               et_dtype dtype)
{
    const int queries = pass_rows(at->queries, first), keys = pass_rows(at->keys, first);
    const int64_t query_row = at->query_row + first, key_row = at->key_row + first;
    const int dim = shape->head_dim;
    bring(dq, query_row, shape->query_stride, at->column, queries, dim, true, dtype);
    bring(dk, key_row, shape->key_stride, at->column, keys, dim, true, dtype);
    bring(dv, key_row, shape->value_stride, at->column, keys, dim, true, dtype);
}

/* q comes scaled into dk's product, so only dq is left to scale. dk and dv are summed in float32
 * over all passes, in order, and rounded once at the end. */
ET_INLINE void grad_tile(void *dq, void *dk, void *dv, const void *dout, const float *lse,
                         const void *q, const void *k, const void *v,
                         const et_attention_shape *shape, const tile *at, const tile *later,
                         float *scratch, const keep_stream *stream, et_dtype dtype)
{
    const room in = room_of(shape, at, scratch);
    const int64_t k_at = at->key_row * shape->key_stride + at->column;
    const int64_t v_at = at->key_row * shape->value_stride + at->column;
    const int dim = at->dim, head_dim = shape->head_dim;
    take_across(in.k_across, k, k_at, shape->key_stride, at->keys, at->padded_keys, dim, head_dim,
                dtype);
    take_across(in.v_across, v, v_at, shape->value_stride, at->keys, at->padded_keys, dim, head_dim,
                dtype);
    take_rows(in.k, k, k_at, shape->key_stride, at->keys, dim, head_dim, 1.0f, dtype);
    memset(in.dk, 0, (size_t)at->keys * (size_t)dim * sizeof *in.dk);
    memset(in.dv, 0, (size_t)at->keys * (size_t)dim * sizeof *in.dv);
    for (int first = 0; first < at->queries; first += ET_ATTENTION_ROWS) {
        const pass now = pass_of(shape, at, first);
        bring_gradients(dq, dk, dv, shape, at, first, dtype);
        bring_pass(dout, false, q, k, v, shape, later, first, dtype);
        grad_pass(dq, dout, lse, q, shape, at, &in, &now, stream, dtype);
    }
    put_rows(dk, in.dk, k_at, shape->key_stride, at->keys, dim, head_dim, 1.0f, dtype);
    put_rows(dv, in.dv, v_at, shape->value_stride, at->keys, dim, head_dim, 1.0f, dtype);
}

/* A tile without queries still has zeros to write for its keys, and one without keys for its
 * queries. */
static void attention_grad(void *dq, void *dk, void *dv, const void *dout, const void *out,
                           const float *lse, const void *q, const void *k, const void *v,
                           const et_attention_shape *shape, float *scratch)
{
    const keep_stream stream = keep_stream_of(shape->random, shape->random.site, shape->rate);
    const int64_t items = (int64_t)shape->segments * shape->heads;
    (void)out;
#pragma omp parallel for schedule(dynamic, 8) if (attention_work(shape) >= ET_GRAIN)
    for (int64_t item = 0; item < items; item++) {
        const tile at = tile_of(shape, item), later = later_tile(shape, item, items);
        if (at.queries > 0 || at.keys > 0)
            ET_BY_DTYPE(shape->dtype, grad_tile, dq, dk, dv, dout, lse, q, k, v, shape, &at, &later,
                        scratch, &stream);
    }
}
