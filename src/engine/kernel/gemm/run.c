/* Runs the products of gemm.c: tiles, the sums of pieces, and the packing of B.
 *
 *   tile = (row * columns + column) * pieces + piece
 *
 * Invariants:
 *
 *   (1) one thread runs a tile from its first chunk to its last, so the order of its sum is k's;
 *   (2) an element of C is written by one tile or, for products in pieces, by one sum;
 *   (3) while a block runs, OpenMP is set to one thread (gemm/onednn_block.c, invariant 1), and
 *       afterwards to the caller's number;
 *   (4) nothing is allocated.
 *
 * Memory: the copies of a chunk are read back from the second-level cache, for which gemm.c has
 * chosen its size. Only blocks read and write operands that are not copied. */
#include <etude/dtype.h>

#include <omp.h>
#include <string.h>

#include "base/assert.h"
#include "engine/kernel/gemm/gemm_private.h"
#include "engine/kernel/parallel.h"
#include "engine/kernel/sizes.h"

/* ---- slabs ---- */

/* B for a block, in the layout of gemm_private.h: panels of 64 columns one after another, each
 * filled by a kernel of arguments.h from its part of B. Columns after n in the last panel and rows
 * after k are zeros, which add nothing to a sum. */

/* Both values are from oneDNN's tags, BA16a64b and BA16a64b2a. */
enum { PANEL = ET_GEMM_PANEL, UNIT = 16 }; /* rows of k come in such units */

/* Rows of a panel. bfloat16 rows come in pairs, so the unit is twice as many. */
static int64_t panel_rows(const et_gemm_slab *slab)
{
    return et_round_up(slab->k, slab->dtype == ET_BF16 ? 2 * UNIT : UNIT);
}

/* Rounded up to 64 bytes, so that slabs side by side stay aligned. Example, float32 in panels: 100
 * x 200 is 112 rows of 4 panels, 256 columns. */
size_t et_gemm_slab_size(const et_gemm_slab *slab)
{
    int64_t elements =
        slab->panels ? panel_rows(slab) * et_round_up(slab->n, PANEL) : slab->k * slab->n;
    return et_lines(elements * et_dtype_size(slab->dtype));
}

/* Columns first .. first + PANEL of B, as it is stored. If B is stored transposed, its columns are
 * rows there. */
static et_stored part_of(const et_stored *from, int64_t first, bool transposed)
{
    et_stored part = *from;
    int64_t columns = transposed ? from->rows : from->columns;
    *(transposed ? &part.rows : &part.columns) = et_smaller(columns - first, PANEL);
    part.data = et_element_at(from->data, transposed ? first * from->stride : first, from->dtype);
    return part;
}

static int64_t slab_panels(const et_gemm_slab *slab)
{
    return slab->panels ? et_round_up(slab->n, PANEL) / PANEL : 1;
}

/* Fills a panel of a slab from B as stored: [k, n], or [n, k] if transposed; from's type is the
 * slab's or the slab is float32. `to` is the slab's begin. Without panels the slab is B itself,
 * dense: it has one. */
static void slab_fill_panel(const et_gemm_slab *slab, int64_t index, void *to,
                            const et_staging *staging, const et_stored *from, bool transposed)
{
    et_assert(index >= 0 && index < slab_panels(slab));
    et_assert_equal(transposed ? from->columns : from->rows, slab->k);
    et_assert_equal(transposed ? from->rows : from->columns, slab->n);
    et_assert(slab->dtype == from->dtype || slab->dtype == ET_F32);
    if (!slab->panels) {
        (transposed ? staging->across : staging->rows)(to, slab->k, slab->n, slab->dtype, from);
        return;
    }
    /* One of four kernels, by type and by how B is stored. Each zeroes the rest of the panel after
     * the part. */
    const int64_t rows = panel_rows(slab);
    void *panel = et_element_at(to, index * rows * PANEL, slab->dtype);
    const et_stored part = part_of(from, index * PANEL, transposed);
    if (slab->dtype == ET_BF16)
        (transposed ? staging->pairs_across : staging->row_pairs)(panel, rows, PANEL, &part);
    else
        (transposed ? staging->across : staging->rows)(panel, rows, PANEL, slab->dtype, &part);
}

/* ---- a tile ---- */

/* The position of a tile, in elements, and whether it is the last one in each direction. */
typedef struct tile_position {
    et_gemm_part part;
    /* k_begin .. k_end: rows of B, and of a stored A that is transposed. */
    int64_t piece, k_begin, k_end;
    /* FULL or LAST: which blocks. */
    int row, column;
} tile_position;

/* A single row of tiles, or a padded one, counts as FULL: make_column has no other block for it.
 * Columns have both kinds in any case. */
static tile_position position_of(const et_gemm *gemm, int64_t tile)
{
    const et_gemm_grid *grid = &gemm->grid;
    const et_gemm_shape *shape = &gemm->shape;
    int64_t piece = tile % grid->pieces;
    int64_t column = tile / grid->pieces % grid->columns;
    int64_t row = tile / grid->pieces / grid->columns;
    tile_position at = { .piece = piece };
    at.part.row = row * grid->tile_m;
    at.part.column = column * grid->tile_n;
    at.part.rows = et_smaller(shape->m - at.part.row, grid->tile_m);
    at.part.columns = et_smaller(shape->n - at.part.column, grid->tile_n);
    at.k_begin = piece * grid->piece_k;
    at.k_end = et_smaller(at.k_begin + grid->piece_k, shape->k);
    at.row = row == grid->rows - 1 && grid->rows > 1 && !gemm->pad_rows ? LAST : FULL;
    at.column = column == grid->columns - 1 ? LAST : FULL;
    return at;
}

/* Rows at->part of A, columns k .. k + depth, as the block reads them: in place if the block can
 * read them, else on the desk, transposed and widened on the way. Rows after the last one, up to a
 * padded tile, are zeros there. */
static const void *operand_a(const et_gemm *gemm, const tile_position *at, const et_gemm_desk *own,
                             const void *a, int64_t k, int64_t depth)
{
    const et_gemm_shape *shape = &gemm->shape;
    const et_staging *staging = gemm->cache->staging;
    const et_gemm_part *part = &at->part;
    bool across = shape->transpose_a;
    int64_t rows = gemm->pad_rows ? gemm->grid.tile_m : part->rows;
    int64_t first = across ? k * shape->lda + part->row : part->row * shape->lda + k;
    et_stored stored = { .data = et_element_at(a, first, shape->a),
                         .rows = across ? depth : part->rows,
                         .columns = across ? part->rows : depth,
                         .stride = shape->lda,
                         .dtype = shape->a };
    if (!gemm->stage_a && rows == part->rows)
        return stored.data;
    (across ? staging->across : staging->rows)(own->a, rows, depth, gemm->type, &stored);
    return own->a;
}

/* The part of B as stored, from row k and a column on, that fills a slab. If B is transposed, a
 * slab's columns are rows of the stored B. */
static et_stored stored_b(const et_gemm *gemm, const et_gemm_slab *slab, const void *b, int64_t k,
                          int64_t column)
{
    const et_gemm_shape *shape = &gemm->shape;
    bool across = shape->transpose_b;
    int64_t first = across ? column * shape->ldb + k : k * shape->ldb + column;
    return (et_stored){ .data = et_element_at(b, first, shape->b),
                        .rows = across ? slab->n : slab->k,
                        .columns = across ? slab->k : slab->n,
                        .stride = shape->ldb,
                        .dtype = shape->b };
}

/* The offset in bytes of the slab that begins at (k, column). Only the last chunk and the last
 * column tile are smaller than the first.
 *
 * Packed: [column tiles][chunks] of slabs. The slabs of a full column tile take `tile` bytes, the
 * last chunk's being `rest`. */
static size_t slab_offset(const et_gemm *gemm, int64_t k, int64_t column)
{
    const et_gemm_grid *grid = &gemm->grid;
    int64_t chunks = (gemm->shape.k - 1) / grid->chunk_k, last = chunks * grid->chunk_k;
    et_gemm_slab full = et_gemm_slab_of(gemm, 0, 0), rest = et_gemm_slab_of(gemm, last, 0);
    et_gemm_slab here = et_gemm_slab_of(gemm, 0, column);
    size_t tile = (size_t)chunks * et_gemm_slab_size(&full) + et_gemm_slab_size(&rest);
    return (size_t)(column / grid->tile_n) * tile +
           (size_t)(k / grid->chunk_k) * et_gemm_slab_size(&here);
}

/* Packed: the slab's place in it. Not staged: its place in B. Else a slab on the desk, filled for
 * each chunk; if it has all of k it also serves the next tiles of the same column. */
static const void *operand_b(const et_gemm *gemm, const tile_position *at, et_gemm_desk *own,
                             const void *b, int64_t k)
{
    int64_t column = at->part.column;
    if (gemm->shape.pack_b)
        return (const char *)b + slab_offset(gemm, k, column);
    et_gemm_slab slab = et_gemm_slab_of(gemm, k, column);
    et_stored stored = stored_b(gemm, &slab, b, k, column);
    if (!gemm->stage_b)
        return stored.data;
    if (own->held == column)
        return own->b;
    own->held = slab.k == gemm->shape.k ? column : -1;
    for (int64_t index = 0; index < slab_panels(&slab); index++)
        slab_fill_panel(&slab, index, own->b, gemm->cache->staging, &stored,
                        gemm->shape.transpose_b);
    return own->b;
}

/* The begin of a part of C. ldc counts elements of C's type. */
static void *part_of_c(const et_gemm *gemm, void *c, int64_t row, int64_t column)
{
    const et_gemm_shape *shape = &gemm->shape;
    return et_element_at(c, row * shape->ldc + column, shape->c);
}

/* Copies a tile from the desk to C. If blocks did bias and activation, only its place changes. Then
 * the desk has elements of C's type, and whole rows are copied. */
static void deliver(const et_gemm *gemm, const et_gemm_part *part, const void *from, void *c,
                    const float *bias)
{
    const et_gemm_shape *shape = &gemm->shape;
    void *to = part_of_c(gemm, c, part->row, part->column);
    et_finish how = { .rows = part->rows,
                      .columns = part->columns,
                      .parts = 1,
                      .from_stride = part->columns,
                      .c_stride = shape->ldc,
                      .bias = gemm->raw && bias ? bias + part->column : NULL,
                      .relu = gemm->raw && shape->activation == ET_GEMM_RELU,
                      .accumulate = shape->accumulate,
                      .c = shape->c };
    if (gemm->raw || shape->c == ET_F32) {
        gemm->cache->staging->finish(&how, to, from);
        return;
    }
    for (int64_t i = 0; i < part->rows; i++)
        memcpy(et_element_at(to, i * shape->ldc, shape->c),
               et_element_at(from, i * part->columns, shape->c),
               part->columns * et_dtype_size(shape->c));
}

/* B may be another one than in the last product. */
static void clear_desk(const et_gemm *gemm, int thread)
{
    gemm->cache->desks[thread].held = -1;
}

/* Runs a chunk of a direct product on operands in place; bias and relu come with the last chunk,
 * unless they come after all. Prefetches the next chunk only if it is as long as this one, since as
 * many of its rows are touched. */
static void run_direct(const et_gemm *gemm, const tile_position *at, const et_gemm_desk *own,
                       float *to, int64_t to_stride, const void *a, const void *b,
                       const float *bias, int64_t k, int64_t depth, bool adds)
{
    const et_gemm_part *part = &at->part;
    const et_gemm_shape *shape = &gemm->shape;
    const int64_t a_row = shape->transpose_a ? 1 : shape->lda, b_step = shape->ldb;
    const int64_t a_step = shape->transpose_a ? shape->lda : 1;
    const bool last = k + depth == at->k_end, across = shape->transpose_b;
    const int64_t a_first = k * a_step + part->row * a_row;
    const int64_t b_first = across ? part->column * b_step + k : k * b_step + part->column;
    et_float_product product = {
        .m = part->rows,
        .n = part->columns,
        .k = depth,
        .ab = shape->a,
        .a = et_element_at(a, a_first, shape->a),
        .b = et_element_at(b, b_first, shape->a),
        .c = to,
        .a_row = a_row,
        .a_step = a_step,
        .ldb = b_step,
        .ldc = to_stride,
        .across = across,
        .accumulate = adds,
        .bias = last ? bias : NULL,
        .relu = last && !gemm->raw && shape->activation == ET_GEMM_RELU,
        .ahead = k + 2 * depth <= at->k_end,
        .room = gemm->stage_a ? own->a : NULL,
    };
    gemm->cache->float_product(&product);
}

/* For a lack of memory in oneDNN, which allocates without AVX-512: computes the block by Etude's
 * own kernel, on its operands, which are dense then. Sums may be in another order. */
static void run_without_memory(const et_gemm *gemm, const et_gemm_block_shape *shape, float *c,
                               const float *a, const float *b, const float *bias)
{
    for (int64_t k = 0; k < shape->k; k += ET_FLOAT_PRODUCT_DEPTH) {
        const bool last = k + ET_FLOAT_PRODUCT_DEPTH >= shape->k;
        et_float_product product = {
            .m = shape->m,
            .n = shape->n,
            .k = last ? shape->k - k : ET_FLOAT_PRODUCT_DEPTH,
            .ab = ET_F32,
            .a = a + k,
            .b = b + k * shape->n,
            .c = c,
            .a_row = shape->k,
            .a_step = 1,
            .ldb = shape->n,
            .ldc = shape->n,
            .accumulate = shape->accumulate || k > 0,
            .bias = last ? bias : NULL,
        };
        gemm->cache->float_product(&product);
    }
}

static const et_activity tile_activity = { .name = "tile" };

/* Call with OpenMP set to one thread, and the desk cleared before the first tile. Sums of blocks
 * get their relu while they are in cache.
 *
 * The result goes to its place in C, to the desk if it is staged or padded, or to the piece's part
 * of the sums, [pieces, m, n]. Products in pieces have one tile a piece, as large as C. */
static void run_tile(const et_gemm *gemm, int64_t tile, int thread, void *c, const void *a,
                     const void *b, const float *bias)
{
    const et_gemm_shape *shape = &gemm->shape;
    const et_gemm_grid *grid = &gemm->grid;
    et_gemm_desk *own = &gemm->cache->desks[thread];
    tile_position at = position_of(gemm, tile);
    bool staged = gemm->stage_c || (gemm->pad_rows && at.part.rows < grid->tile_m);
    void *to = staged ? own->c : part_of_c(gemm, c, at.part.row, at.part.column);
    if (grid->pieces > 1)
        to = gemm->cache->sums + at.piece * shape->m * shape->n;
    bool direct_sum = shape->accumulate && !gemm->raw && !gemm->stage_c;
    const float *block_bias = bias && !gemm->raw ? bias + at.part.column : NULL;
    et_track_begin(own->track, &tile_activity, tile);
    for (int64_t k = at.k_begin; k < at.k_end; k += grid->chunk_k) {
        int64_t depth = et_smaller(at.k_end - k, grid->chunk_k);
        int chunk = at.k_end == shape->k && k + depth == at.k_end ? LAST : FULL;
        bool adds = k > at.k_begin || direct_sum;
        if (gemm->direct) {
            run_direct(gemm, &at, own, to, staged ? at.part.columns : shape->ldc, a, b, block_bias,
                       k, depth, adds);
            continue;
        }
        const et_gemm_block *block = gemm->blocks[at.row][at.column][chunk][adds];
        const void *left = operand_a(gemm, &at, own, a, k, depth);
        const void *right = operand_b(gemm, &at, own, b, k);
        if (!et_gemm_block_run(block, thread, to, left, right, block_bias))
            run_without_memory(gemm, et_gemm_block_shape_of(block), to, left, right, block_bias);
    }
    if (shape->activation == ET_GEMM_RELU && !gemm->raw && !gemm->direct)
        gemm->cache->staging->relu(to, at.part.rows, at.part.columns,
                                   staged ? at.part.columns : shape->ldc, shape->c);
    if (staged && grid->pieces == 1)
        deliver(gemm, &at.part, to, c, bias);
    et_track_end(own->track);
}

/* Adds rows of C from all pieces in the order of k, whichever thread made them; then bias, relu and
 * rounding. */
static void run_sum(const et_gemm *gemm, int64_t sum, void *c, const float *bias)
{
    const et_gemm_shape *shape = &gemm->shape;
    int64_t begin = sum * gemm->sum_rows;
    et_finish how = { .rows = et_smaller(shape->m - begin, gemm->sum_rows),
                      .columns = shape->n,
                      .parts = gemm->grid.pieces,
                      .part_stride = shape->m * shape->n,
                      .from_stride = shape->n,
                      .c_stride = shape->ldc,
                      .bias = bias,
                      .relu = shape->activation == ET_GEMM_RELU,
                      .accumulate = shape->accumulate,
                      .c = shape->c };
    gemm->cache->staging->finish(&how, part_of_c(gemm, c, begin, 0),
                                 gemm->cache->sums + begin * shape->n);
}

/* Running all tiles. oneDNN asks OpenMP how many threads it may use: one, in each of ours. */

int64_t et_gemm_tiles(const et_gemm *gemm)
{
    return gemm->grid.rows * gemm->grid.columns * gemm->grid.pieces;
}

/* The last sum may have fewer rows. */
int64_t et_gemm_sums(const et_gemm *gemm)
{
    if (gemm->grid.pieces == 1)
        return 0;
    return et_part_count(gemm->shape.m, gemm->sum_rows);
}

et_gemm_part et_gemm_tile_part(const et_gemm *gemm, int64_t tile)
{
    return position_of(gemm, tile).part;
}

/* The implementation for the first tile's first chunk, which adds only if C itself is added to. ""
 * for an empty product. */
const char *et_gemm_implementation(const et_gemm *gemm)
{
    if (gemm->direct)
        return "own";
    const et_gemm_block *first = gemm->blocks[FULL][FULL][FULL][0];
    if (!first)
        first = gemm->blocks[FULL][FULL][FULL][1];
    return first ? et_gemm_block_implementation(first) : "";
}

void et_gemm_run_tile(const et_gemm *gemm, int64_t tile, int thread, void *c, const void *a,
                      const void *b, const float *bias)
{
    et_assert(tile >= 0 && tile < et_gemm_tiles(gemm));
    et_assert(thread >= 0 && thread < gemm->cache->threads);
    et_assert(gemm->shape.bias == (bias != NULL));
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    clear_desk(gemm, thread);
    run_tile(gemm, tile, thread, c, a, b, bias);
    omp_set_num_threads(threads);
}

void et_gemm_run_sum(const et_gemm *gemm, int64_t sum, void *c, const float *bias)
{
    et_assert(sum >= 0 && sum < et_gemm_sums(gemm));
    run_sum(gemm, sum, c, bias);
}

/* On the calling thread, with the desk of its number in the team. */
static void run_alone(const et_gemm *gemm, void *c, const void *a, const void *b, const float *bias)
{
    int thread = omp_in_parallel() ? omp_get_thread_num() : 0;
    int64_t tiles = et_gemm_tiles(gemm), sums = et_gemm_sums(gemm);
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    clear_desk(gemm, thread);
    for (int64_t tile = 0; tile < tiles; tile++)
        run_tile(gemm, tile, thread, c, a, b, bias);
    omp_set_num_threads(threads);
    for (int64_t sum = 0; sum < sums; sum++)
        run_sum(gemm, sum, c, bias);
}

/* The same team for every product, even of few tiles: OpenMP ends and restarts threads when
 * the team's size changes. */
static int team_of(const et_gemm_cache *cache)
{
    int threads = omp_get_max_threads();
    return threads < cache->threads ? threads : cache->threads;
}

/* Any thread may take a tile, because tiles take unequal time and their bits do not depend on the
 * thread; usually the thread that has had the same rows before takes it. All pieces are complete at
 * the barrier. Threads meet as seldom as possible, because small products take no longer than a
 * barrier. In a parallel region a product with sums waits for its turn: the cache has room for one.
 */
void et_gemm_run(const et_gemm *gemm, void *c, const void *a, const void *b, const float *bias)
{
    et_assert(gemm->shape.bias == (bias != NULL));
    int64_t tiles = et_gemm_tiles(gemm), sums = et_gemm_sums(gemm);
    int team = team_of(gemm->cache);
    if (omp_in_parallel() && sums > 0) {
#pragma omp critical(et_gemm_sums)
        run_alone(gemm, c, a, b, bias);
        return;
    }
    if (omp_in_parallel() || team == 1 || tiles == 1) {
        run_alone(gemm, c, a, b, bias);
        return;
    }
    et_turns turns;
    et_turns_init(&turns, team, tiles, 1);
#pragma omp parallel num_threads(team)
    {
        omp_set_num_threads(1);
        int thread = omp_get_thread_num();
        et_turn turn = et_turn_own(&turns);
        clear_desk(gemm, thread);
        for (et_items now; et_turns_take(&turns, &turn, &now);)
            run_tile(gemm, now.begin, thread, c, a, b, bias);
        if (sums > 0) {
#pragma omp barrier
#pragma omp for schedule(static) nowait
            for (int64_t sum = 0; sum < sums; sum++)
                run_sum(gemm, sum, c, bias);
        }
    }
}

/* Groups. */

typedef struct group_operands {
    void *c;
    const void *a, *b;
    const float *bias;
} group_operands;

static group_operands operands_of(const et_gemm *gemm, const et_gemm_groups *groups, int64_t group,
                                  const group_operands *first)
{
    const et_gemm_shape *shape = &gemm->shape;
    return (group_operands){
        .c = et_element_at(first->c, group * groups->c, shape->c),
        .a = et_element_at(first->a, group * groups->a, shape->a),
        .b = et_element_at(first->b, group * groups->b, shape->b),
        .bias = first->bias ? first->bias + group * groups->bias : NULL,
    };
}

/* Runs tiles begin .. end - 1; the tiles of a group follow those of the group before. A slab of B
 * on the desk belongs to one group. */
static void run_group_tiles(const et_gemm *gemm, const et_gemm_groups *groups,
                            const group_operands *first, int thread, int64_t begin, int64_t end)
{
    const int64_t tiles = et_gemm_tiles(gemm);
    for (int64_t i = begin; i < end; i++) {
        const group_operands o = operands_of(gemm, groups, i / tiles, first);
        if (i == begin || i % tiles == 0)
            clear_desk(gemm, thread);
        if (position_of(gemm, i % tiles).part.row < groups->rows)
            run_tile(gemm, i % tiles, thread, o.c, o.a, o.b, o.bias);
    }
}

static void share_group_tiles(const et_gemm *gemm, const et_gemm_groups *groups,
                              const group_operands *first)
{
    const int64_t tiles = et_gemm_tiles(gemm);
    const int team = omp_in_parallel() ? 1 : team_of(gemm->cache);
    const int alone = omp_in_parallel() ? omp_get_thread_num() : 0;
    const int threads = omp_get_max_threads();
    if (team == 1) {
        omp_set_num_threads(1);
        run_group_tiles(gemm, groups, first, alone, 0, groups->count * tiles);
        omp_set_num_threads(threads);
        return;
    }
    et_turns turns;
    et_turns_init(&turns, team, groups->count * tiles, tiles);
#pragma omp parallel num_threads(team)
    {
        omp_set_num_threads(1);
        const int thread = omp_get_thread_num();
        et_turn turn = et_turn_own(&turns);
        for (et_items now; et_turns_take(&turns, &turn, &now);)
            run_group_tiles(gemm, groups, first, thread, now.begin, now.end);
    }
}

/* The buffer for sums of pieces holds one product at a time. */
void et_gemm_run_groups(const et_gemm *gemm, const et_gemm_groups *groups, void *c, const void *a,
                        const void *b, const float *bias)
{
    const group_operands first = { c, a, b, bias };
    et_assert(gemm->shape.bias == (bias != NULL) && !gemm->shape.pack_b);
    if (et_gemm_sums(gemm) == 0) {
        if (et_gemm_tiles(gemm) > 0)
            share_group_tiles(gemm, groups, &first);
        return;
    }
    for (int64_t i = 0; i < groups->count; i++) {
        const group_operands o = operands_of(gemm, groups, i, &first);
        et_gemm_run(gemm, o.c, o.a, o.b, o.bias);
    }
}

/* Packing. */

/* A chunk does not go beyond its piece, a slab not beyond its column tile. */
et_gemm_slab et_gemm_slab_of(const et_gemm *gemm, int64_t k, int64_t column)
{
    const et_gemm_grid *grid = &gemm->grid;
    int64_t end = k / grid->piece_k * grid->piece_k + grid->piece_k;
    return (et_gemm_slab){ .panels = gemm->panels,
                           .dtype = gemm->type,
                           .k = et_smaller(et_smaller(end, gemm->shape.k) - k, grid->chunk_k),
                           .n = et_smaller(gemm->shape.n - column, grid->tile_n) };
}

/* Whether any division into columns gives the same bytes: panels are adjacent, however many make a
 * slab. */
static bool any_columns(const et_gemm *gemm)
{
    const et_gemm_grid *grid = &gemm->grid;
    return gemm->panels && grid->chunk_k == gemm->shape.k &&
           (grid->columns <= 1 || grid->tile_n % ET_GEMM_PANEL == 0);
}

/* Compares everything that the bytes of a packed B depend on; they do not depend on m itself. */
bool et_gemm_same_packing(const et_gemm *left, const et_gemm *right)
{
    return left->shape.k == right->shape.k && left->shape.n == right->shape.n &&
           left->type == right->type && left->panels == right->panels &&
           left->grid.chunk_k == right->grid.chunk_k &&
           (left->grid.tile_n == right->grid.tile_n || (any_columns(left) && any_columns(right)));
}

/* To the end of the last slab of the last column. */
size_t et_gemm_packed_size(const et_gemm *gemm)
{
    et_assert(gemm->shape.pack_b);
    if (et_gemm_tiles(gemm) == 0)
        return 0;
    int64_t column = (gemm->grid.columns - 1) * gemm->grid.tile_n;
    int64_t k = (gemm->shape.k - 1) / gemm->grid.chunk_k * gemm->grid.chunk_k;
    et_gemm_slab last = et_gemm_slab_of(gemm, k, column);
    return slab_offset(gemm, k, column) + et_gemm_slab_size(&last);
}

/* Elements of B below which it is packed by one thread, in some ten microseconds. */
#define PACK_GRAIN 16384

/* A packed B in parts that threads share out: panels of slabs. */
typedef struct packing {
    int64_t slabs, panels; /* of a full slab: the last of a row of slabs may have fewer */
} packing;

/* Panels begin .. end - 1 of all slabs. */
static void pack_part(const et_gemm *gemm, const packing *all, void *packed, const void *from,
                      int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        /* Slab index: chunk * columns + column, so threads that share them out get about equal
         * work. */
        const int64_t index = i / all->panels, panel = i % all->panels;
        int64_t column = index % gemm->grid.columns * gemm->grid.tile_n;
        int64_t k = index / gemm->grid.columns * gemm->grid.chunk_k;
        et_gemm_slab slab = et_gemm_slab_of(gemm, k, column);
        et_stored stored = stored_b(gemm, &slab, from, k, column);
        if (panel < slab_panels(&slab))
            slab_fill_panel(&slab, panel, (char *)packed + slab_offset(gemm, k, column),
                            gemm->cache->staging, &stored, gemm->shape.transpose_b);
    }
}

void et_gemm_pack(const et_gemm *gemm, void *packed, const void *from)
{
    et_assert(gemm->shape.pack_b && gemm->grid.pieces == 1);
    const et_gemm_grid *grid = &gemm->grid;
    const et_gemm_slab full = et_gemm_slab_of(gemm, 0, 0);
    const int64_t chunks = et_part_count(gemm->shape.k, grid->chunk_k);
    const packing all = { grid->rows ? grid->columns * chunks : 0, slab_panels(&full) };
    const int64_t panels = all.slabs * all.panels;
    bool much = panels > 1 && gemm->shape.n * gemm->shape.k >= PACK_GRAIN;
    ET_PARALLEL(much, panels, 1, pack_part, gemm, &all, packed, from);
}
