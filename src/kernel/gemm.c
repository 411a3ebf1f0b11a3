#include "kernel/gemm.h"

#include <omp.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "kernel/gemm_grid.h"
#include "kernel/gemm_onednn.h"
#include "kernel/gemm_stage.h"

/* A thread's copies of what a block needs dense, and who is told of its tiles. */
typedef struct desk {
    void *a, *b, *c;
    et_track *track;
} desk;

typedef struct made_block {
    et_gemm_block *block;
    bool liked; /* its packing was another block's choice, so it is no one's first block */
} made_block;

struct et_gemm_cache {
    et_gemm_engine *engine;
    int threads;
    desk *desks;      /* [threads] */
    size_t a, b, c;   /* bytes of each desk's parts */
    void *sums;       /* results of pieces, of the one product that is under way */
    size_t sums_size; /* bytes */
    et_gemm **gemms;  /* [gemm_count] */
    size_t gemm_count, gemm_room;
    made_block *blocks; /* [block_count] */
    size_t block_count, block_room;
};

/* Sizes of a tile that is full (0) or the last one (1). */
enum { FULL, LAST };

struct et_gemm {
    et_gemm_cache *cache;
    et_gemm_shape shape; /* with lda, ldb and ldc filled in */
    et_gemm_shape asked; /* as given to et_gemm_get */
    et_gemm_grid grid;
    bool raw;      /* blocks give float32 sums; bias, activation and type come after */
    bool stage_c;  /* C is not dense per tile: blocks write to the desk */
    bool pad_rows; /* the last rows are filled up to a full tile */
    const et_gemm_block *blocks[2][2][2][2]; /* [rows][columns][chunk][adds to what is there] */
    size_t packed_size;                      /* bytes of a full column tile of B */
    int64_t sum_rows;                        /* rows of C per sum */
};

/* The cache. */

int et_gemm_cache_open(et_gemm_cache **out, int max_threads, et_error *error)
{
    et_assert(max_threads >= 1);
    et_gemm_cache *cache = et_alloc_zero(1, sizeof *cache);
    if (!cache)
        return et_alloc_failed(error, sizeof *cache, "a cache of products");
    cache->threads = max_threads;
    cache->desks = et_alloc_zero((size_t)max_threads, sizeof *cache->desks);
    for (int i = 0; cache->desks && i < max_threads; i++)
        cache->desks[i].track = et_track_off();
    int status = cache->desks ? et_gemm_engine_open(&cache->engine, max_threads, error)
                              : et_alloc_failed(error, sizeof(desk), "a cache of products");
    if (status) {
        et_gemm_cache_close(cache);
        return status;
    }
    *out = cache;
    return ET_OK;
}

void et_gemm_cache_close(et_gemm_cache *cache)
{
    if (!cache)
        return;
    for (size_t i = 0; i < cache->gemm_count; i++)
        et_free(cache->gemms[i]);
    for (size_t i = 0; i < cache->block_count; i++)
        et_gemm_block_free(cache->blocks[i].block);
    for (int i = 0; cache->desks && i < cache->threads; i++) {
        et_free(cache->desks[i].a);
        et_free(cache->desks[i].b);
        et_free(cache->desks[i].c);
    }
    et_free(cache->gemms);
    et_free(cache->blocks);
    et_free(cache->desks);
    et_free(cache->sums);
    et_gemm_engine_close(cache->engine);
    et_free(cache);
}

void et_gemm_cache_watch(et_gemm_cache *cache, int thread, et_track *track)
{
    et_assert(thread >= 0 && thread < cache->threads);
    cache->desks[thread].track = track;
}

size_t et_gemm_cache_primitives(const et_gemm_cache *cache)
{
    return cache->block_count;
}

static int grow(void **memory, size_t size, et_error *error)
{
    void *grown = et_alloc_aligned(size, 64);
    if (!grown)
        return et_alloc_failed(error, size, "a matrix product's tiles");
    et_free(*memory);
    *memory = grown;
    return ET_OK;
}

/* The array with room for one more; NULL if there is no memory, and the old one stays. */
static void *reserve(void *array, size_t *room, size_t count, size_t element, et_error *error)
{
    if (count < *room)
        return array;
    size_t wanted = *room ? 2 * *room : 16;
    void *grown = array ? et_realloc(array, wanted, element) : et_alloc(wanted, element);
    if (grown)
        *room = wanted;
    else
        et_alloc_failed(error, wanted * element, "a cache of products");
    return grown;
}

static int grow_desks(et_gemm_cache *cache, size_t a, size_t b, size_t c, et_error *error)
{
    int status = ET_OK;
    for (int i = 0; i < cache->threads; i++) {
        desk *at = &cache->desks[i];
        if (!status && a > cache->a)
            status = grow(&at->a, a, error);
        if (!status && b > cache->b)
            status = grow(&at->b, b, error);
        if (!status && c > cache->c)
            status = grow(&at->c, c, error);
    }
    if (status)
        return status;
    cache->a = a > cache->a ? a : cache->a;
    cache->b = b > cache->b ? b : cache->b;
    cache->c = c > cache->c ? c : cache->c;
    return ET_OK;
}

/* A block of that shape, made if there is none yet; NULL if it cannot have like's packing. */
static int find_block(const et_gemm_block **out, et_gemm_cache *cache,
                      const et_gemm_block_shape *shape, const et_gemm_block *like, et_error *error)
{
    for (size_t i = 0; i < cache->block_count; i++) {
        const made_block *made = &cache->blocks[i];
        if (made->liked == (like != NULL) &&
            memcmp(et_gemm_block_shape_of(made->block), shape, sizeof *shape) == 0 &&
            (!like || et_gemm_block_same_packing(made->block, like))) {
            *out = made->block;
            return ET_OK;
        }
    }
    made_block *blocks =
        reserve(cache->blocks, &cache->block_room, cache->block_count, sizeof *blocks, error);
    if (!blocks)
        return ET_ENOMEM;
    cache->blocks = blocks;
    et_gemm_block *block;
    int status = et_gemm_block_new(&block, cache->engine, shape, like, error);
    if (!status && block)
        cache->blocks[cache->block_count++] = (made_block){ block, like != NULL };
    *out = block;
    return status;
}

/* Making a product. */

static int64_t last_of(int64_t whole, int64_t part)
{
    return whole - (whole - 1) / part * part;
}

static et_gemm_block_shape block_shape(const et_gemm *gemm, int row, int column, int chunk,
                                       bool adds)
{
    const et_gemm_shape *shape = &gemm->shape;
    const et_gemm_grid *grid = &gemm->grid;
    int64_t piece = chunk == LAST ? last_of(shape->k, grid->piece_k) : grid->piece_k;
    int64_t m = row == LAST ? last_of(shape->m, grid->tile_m) : grid->tile_m;
    int64_t n = column == LAST ? last_of(shape->n, grid->tile_n) : grid->tile_n;
    int64_t k = chunk == LAST ? last_of(piece, grid->chunk_k) : grid->chunk_k;
    return (et_gemm_block_shape){
        .m = m,
        .n = n,
        .k = k,
        .lda = shape->transpose_a ? m : k,
        .ldb = shape->pack_b        ? shape->ldb
               : shape->transpose_b ? k
                                    : n,
        .ldc = n,
        .transpose_a = shape->transpose_a,
        .transpose_b = shape->transpose_b,
        .packed_b = shape->pack_b,
        .accumulate = adds,
        .bias = shape->bias && !gemm->raw,
        .relu = shape->activation == ET_GEMM_RELU && !gemm->raw,
        .ab = shape->a,
        .c = gemm->raw ? ET_F32 : shape->c,
    };
}

/* One block of a column; last rows that are as many as the others take theirs. */
static int make_block(et_gemm *gemm, int row, int column, int chunk, int adds, et_error *error)
{
    et_gemm_block_shape shape = block_shape(gemm, row, column, chunk, adds);
    const et_gemm_block *first = gemm->blocks[FULL][column][chunk][adds];
    const et_gemm_block **slot = &gemm->blocks[row][column][chunk][adds];
    if (row == LAST && !memcmp(&shape, et_gemm_block_shape_of(first), sizeof shape)) {
        *slot = first;
        return ET_OK;
    }
    const et_gemm_block *like = row == LAST && gemm->shape.pack_b ? first : NULL;
    int status = find_block(slot, gemm->cache, &shape, like, error);
    if (!status && !*slot)
        gemm->pad_rows = true;
    return status;
}

/* All blocks of a column, whole (FULL) or last. The first row's packing binds the others. */
static int make_column(et_gemm *gemm, int column, et_error *error)
{
    const et_gemm_grid *grid = &gemm->grid;
    bool one_chunk = grid->chunk_k == grid->piece_k;
    bool direct_sum = gemm->shape.accumulate && !gemm->raw && !gemm->stage_c;
    for (int row = FULL; row <= (grid->rows > 1 && !gemm->pad_rows ? LAST : FULL); row++)
        for (int chunk = FULL; chunk <= LAST; chunk++)
            for (int adds = 0; adds <= 1; adds++) {
                if (one_chunk ? adds != direct_sum : chunk == LAST && !adds)
                    continue;
                int status = make_block(gemm, row, column, chunk, adds, error);
                if (status)
                    return status;
            }
    return ET_OK;
}

static bool dense(int64_t stride, int64_t width, bool whole)
{
    return whole && stride == width;
}

static bool copies_a(const et_gemm *gemm)
{
    const et_gemm_shape *shape = &gemm->shape;
    if (shape->transpose_a)
        return !dense(shape->lda, shape->m, gemm->grid.rows == 1);
    return !dense(shape->lda, shape->k, gemm->grid.chunk_k == shape->k);
}

static bool copies_b(const et_gemm *gemm)
{
    const et_gemm_shape *shape = &gemm->shape;
    if (shape->pack_b)
        return false;
    if (shape->transpose_b)
        return !dense(shape->ldb, shape->k, gemm->grid.chunk_k == shape->k);
    return !dense(shape->ldb, shape->n, gemm->grid.columns == 1);
}

static int make_room(const et_gemm *gemm, et_error *error)
{
    const et_gemm_grid *grid = &gemm->grid;
    const et_gemm_shape *shape = &gemm->shape;
    et_gemm_cache *cache = gemm->cache;
    size_t element = et_dtype_size(shape->a);
    size_t m = (size_t)grid->tile_m, n = (size_t)grid->tile_n, k = (size_t)grid->chunk_k;
    size_t a = copies_a(gemm) || gemm->pad_rows ? m * k * element : 0;
    size_t b = copies_b(gemm) ? n * k * element : 0;
    size_t c = gemm->stage_c || gemm->pad_rows ? m * n * sizeof(float) : 0;
    int status = grow_desks(cache, a, b, c, error);
    size_t sums = (size_t)(shape->m * shape->n * grid->pieces) * sizeof(float);
    if (status || grid->pieces == 1 || sums <= cache->sums_size)
        return status;
    status = grow(&cache->sums, sums, error);
    cache->sums_size = status ? cache->sums_size : sums;
    return status;
}

/* The block that says how a column tile of B is packed: of several, they agree. */
static const et_gemm_block *packing_block(const et_gemm *gemm, int column)
{
    const et_gemm_block *block = gemm->blocks[FULL][column][FULL][0];
    return block ? block : gemm->blocks[FULL][column][FULL][1];
}

static void fill_strides(et_gemm_shape *shape)
{
    if (!shape->lda)
        shape->lda = shape->transpose_a ? shape->m : shape->k;
    if (!shape->ldb)
        shape->ldb = shape->transpose_b ? shape->k : shape->n;
    if (!shape->ldc)
        shape->ldc = shape->n;
}

static int make(et_gemm *gemm, et_error *error)
{
    const et_gemm_grid *grid = &gemm->grid;
    bool whole = grid->columns <= 1 && gemm->shape.ldc == gemm->shape.n;
    gemm->raw = grid->pieces > 1 || grid->chunk_k < grid->piece_k ||
                (gemm->shape.row_tile && gemm->shape.accumulate);
    gemm->stage_c = gemm->raw || !whole;
    gemm->pad_rows = gemm->shape.row_tile > 0;
    gemm->sum_rows = 1 + 8192 / (gemm->shape.n + 1);
    if (grid->rows == 0 || grid->columns == 0)
        return ET_OK;
    int status = make_column(gemm, FULL, error);
    if (!status)
        status = make_column(gemm, LAST, error);
    if (status)
        return status;
    gemm->packed_size = et_gemm_block_packed_size(packing_block(gemm, FULL));
    return make_room(gemm, error);
}

static bool same(const et_gemm_shape *l, const et_gemm_shape *r)
{
    return l->m == r->m && l->n == r->n && l->k == r->k && l->transpose_a == r->transpose_a &&
           l->transpose_b == r->transpose_b && l->lda == r->lda && l->ldb == r->ldb &&
           l->ldc == r->ldc && l->a == r->a && l->b == r->b && l->c == r->c &&
           l->pack_b == r->pack_b && l->accumulate == r->accumulate && l->bias == r->bias &&
           l->activation == r->activation && l->row_tile == r->row_tile;
}

int et_gemm_get(et_gemm **out, et_gemm_cache *cache, const et_gemm_shape *shape, et_error *error)
{
    et_assert(shape->a == shape->b && (shape->a == ET_F32 || shape->a == ET_BF16));
    et_assert(shape->c == ET_F32 || (shape->c == ET_BF16 && !shape->accumulate));
    et_assert(!shape->accumulate || shape->activation == ET_GEMM_LINEAR);
    for (size_t i = 0; i < cache->gemm_count; i++)
        if (same(&cache->gemms[i]->asked, shape)) {
            *out = cache->gemms[i];
            return ET_OK;
        }
    et_gemm **gemms =
        reserve(cache->gemms, &cache->gemm_room, cache->gemm_count, sizeof *gemms, error);
    if (!gemms)
        return ET_ENOMEM;
    cache->gemms = gemms;
    et_gemm *gemm = et_alloc_zero(1, sizeof *gemm);
    if (!gemm)
        return et_alloc_failed(error, sizeof *gemm, "a matrix product");
    gemm->cache = cache;
    gemm->asked = *shape;
    gemm->shape = *shape;
    fill_strides(&gemm->shape);
    gemm->grid = et_gemm_grid_of(shape);
    int status = make(gemm, error);
    if (status) {
        et_free(gemm);
        return et_fail_while(error, status, "product of %lld x %lld by %lld x %lld",
                             (long long)shape->m, (long long)shape->k, (long long)shape->k,
                             (long long)shape->n);
    }
    cache->gemms[cache->gemm_count++] = gemm;
    *out = gemm;
    return ET_OK;
}

/* Running a tile. */

/* Where a tile lies, in elements, and whether it is the last one along each way. */
typedef struct place {
    et_gemm_part part;
    int64_t piece, k_begin, k_end;
    int row, column;
} place;

static place place_of(const et_gemm *gemm, int64_t tile)
{
    const et_gemm_grid *grid = &gemm->grid;
    const et_gemm_shape *shape = &gemm->shape;
    int64_t piece = tile % grid->pieces;
    int64_t column = tile / grid->pieces % grid->columns;
    int64_t row = tile / grid->pieces / grid->columns;
    place at = { .piece = piece };
    at.part.row = row * grid->tile_m;
    at.part.column = column * grid->tile_n;
    int64_t rows = shape->m - at.part.row, columns = shape->n - at.part.column;
    at.part.rows = rows < grid->tile_m ? rows : grid->tile_m;
    at.part.columns = columns < grid->tile_n ? columns : grid->tile_n;
    at.k_begin = piece * grid->piece_k;
    at.k_end = at.k_begin + grid->piece_k < shape->k ? at.k_begin + grid->piece_k : shape->k;
    at.row = row == grid->rows - 1 && grid->rows > 1 && !gemm->pad_rows ? LAST : FULL;
    at.column = column == grid->columns - 1 ? LAST : FULL;
    return at;
}

/* The matrix from row and column on, or a dense copy of what a block reads of it. */
static const void *operand(const void *matrix, size_t element, int64_t row, int64_t column,
                           int64_t rows, int64_t columns, int64_t stride, void *slab,
                           int64_t slab_rows, int64_t slab_columns)
{
    const char *from = (const char *)matrix + (size_t)(row * stride + column) * element;
    if (!slab)
        return from;
    et_gemm_slab(slab, slab_rows, slab_columns, from, rows, columns, stride, element);
    return slab;
}

static const void *operand_a(const et_gemm *gemm, const place *at, const desk *own, const void *a,
                             int64_t k, int64_t depth)
{
    const et_gemm_shape *shape = &gemm->shape;
    size_t element = et_dtype_size(shape->a);
    int64_t rows = at->part.rows, row = at->part.row;
    int64_t full = gemm->pad_rows ? gemm->grid.tile_m : rows;
    void *slab = copies_a(gemm) || full > rows ? own->a : NULL;
    if (shape->transpose_a)
        return operand(a, element, k, row, depth, rows, shape->lda, slab, depth, full);
    return operand(a, element, row, k, rows, depth, shape->lda, slab, full, depth);
}

static const void *operand_b(const et_gemm *gemm, const place *at, const desk *own, const void *b,
                             int64_t k, int64_t depth)
{
    const et_gemm_shape *shape = &gemm->shape;
    size_t element = et_dtype_size(shape->b);
    int64_t columns = at->part.columns, column = at->part.column;
    void *slab = copies_b(gemm) ? own->b : NULL;
    if (shape->pack_b)
        return (const char *)b + (size_t)(column / gemm->grid.tile_n) * gemm->packed_size;
    if (shape->transpose_b)
        return operand(b, element, column, k, columns, depth, shape->ldb, slab, columns, depth);
    return operand(b, element, k, column, depth, columns, shape->ldb, slab, depth, columns);
}

/* Brings a tile from the desk to C. */
static void deliver(const et_gemm *gemm, const et_gemm_part *part, const void *from, void *c,
                    const float *bias)
{
    const et_gemm_shape *shape = &gemm->shape;
    size_t element = et_dtype_size(shape->c);
    et_gemm_finish how = {
        .bias = gemm->raw && bias ? bias + part->column : NULL,
        .relu = gemm->raw && shape->activation == ET_GEMM_RELU,
        .accumulate = shape->accumulate,
        .c = shape->c,
    };
    for (int64_t i = 0; i < part->rows; i++) {
        char *to = (char *)c + (size_t)((part->row + i) * shape->ldc + part->column) * element;
        if (gemm->raw || shape->accumulate)
            et_gemm_finish_row(&how, to, (const float *)from + i * part->columns, 1, 0,
                               part->columns);
        else
            memcpy(to, (const char *)from + (size_t)(i * part->columns) * element,
                   (size_t)part->columns * element);
    }
}

static const et_label tile_label = { .name = "tile" };

static void run_tile(const et_gemm *gemm, int64_t tile, int thread, void *c, const void *a,
                     const void *b, const float *bias)
{
    const et_gemm_shape *shape = &gemm->shape;
    const et_gemm_grid *grid = &gemm->grid;
    const desk *own = &gemm->cache->desks[thread];
    place at = place_of(gemm, tile);
    bool padded = gemm->pad_rows && at.part.rows < grid->tile_m;
    bool staged = gemm->stage_c || padded;
    void *to =
        (char *)c + (size_t)(at.part.row * shape->ldc + at.part.column) * et_dtype_size(shape->c);
    if (grid->pieces > 1)
        to = (float *)gemm->cache->sums + at.piece * shape->m * shape->n;
    else if (staged)
        to = own->c;
    bool direct_sum = shape->accumulate && !gemm->raw && !gemm->stage_c;
    et_track_begin(own->track, &tile_label, tile);
    const float *block_bias = bias && !gemm->raw ? bias + at.part.column : NULL;
    for (int64_t k = at.k_begin; k < at.k_end; k += grid->chunk_k) {
        int64_t depth = at.k_end - k < grid->chunk_k ? at.k_end - k : grid->chunk_k;
        int chunk = at.k_end == shape->k && k + depth == at.k_end ? LAST : FULL;
        bool adds = k > at.k_begin || direct_sum;
        et_gemm_block_run(gemm->blocks[at.row][at.column][chunk][adds], thread, to,
                          operand_a(gemm, &at, own, a, k, depth),
                          operand_b(gemm, &at, own, b, k, depth), block_bias);
    }
    if (staged && grid->pieces == 1)
        deliver(gemm, &at.part, to, c, bias);
    et_track_end(own->track);
}

static void run_sum(const et_gemm *gemm, int64_t sum, void *c, const float *bias)
{
    const et_gemm_shape *shape = &gemm->shape;
    et_gemm_finish how = {
        .bias = bias,
        .relu = shape->activation == ET_GEMM_RELU,
        .accumulate = shape->accumulate,
        .c = shape->c,
    };
    int64_t begin = sum * gemm->sum_rows;
    int64_t end = begin + gemm->sum_rows < shape->m ? begin + gemm->sum_rows : shape->m;
    for (int64_t i = begin; i < end; i++)
        et_gemm_finish_row(&how, (char *)c + (size_t)(i * shape->ldc) * et_dtype_size(shape->c),
                           (const float *)gemm->cache->sums + i * shape->n, gemm->grid.pieces,
                           shape->m * shape->n, shape->n);
}

/* Running all tiles. oneDNN asks OpenMP how many threads it may use: one, in each of ours. */

int64_t et_gemm_tiles(const et_gemm *gemm)
{
    return gemm->grid.rows * gemm->grid.columns * gemm->grid.pieces;
}

int64_t et_gemm_sums(const et_gemm *gemm)
{
    if (gemm->grid.pieces == 1)
        return 0;
    return (gemm->shape.m + gemm->sum_rows - 1) / gemm->sum_rows;
}

et_gemm_part et_gemm_tile_part(const et_gemm *gemm, int64_t tile)
{
    return place_of(gemm, tile).part;
}

const char *et_gemm_implementation(const et_gemm *gemm)
{
    return et_gemm_tiles(gemm) ? et_gemm_block_implementation(packing_block(gemm, FULL)) : "";
}

void et_gemm_run_tile(const et_gemm *gemm, int64_t tile, int thread, void *c, const void *a,
                      const void *b, const float *bias)
{
    et_assert(tile >= 0 && tile < et_gemm_tiles(gemm));
    et_assert(thread >= 0 && thread < gemm->cache->threads);
    et_assert(gemm->shape.bias == (bias != NULL));
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    run_tile(gemm, tile, thread, c, a, b, bias);
    omp_set_num_threads(threads);
}

void et_gemm_run_sum(const et_gemm *gemm, int64_t sum, void *c, const float *bias)
{
    et_assert(sum >= 0 && sum < et_gemm_sums(gemm));
    run_sum(gemm, sum, c, bias);
}

static void run_alone(const et_gemm *gemm, void *c, const void *a, const void *b, const float *bias)
{
    int thread = omp_in_parallel() ? omp_get_thread_num() : 0;
    int64_t tiles = et_gemm_tiles(gemm), sums = et_gemm_sums(gemm);
    for (int64_t tile = 0; tile < tiles; tile++)
        et_gemm_run_tile(gemm, tile, thread, c, a, b, bias);
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
#pragma omp parallel num_threads(team)
    {
        omp_set_num_threads(1);
        int thread = omp_get_thread_num();
#pragma omp for schedule(dynamic, 1)
        for (int64_t tile = 0; tile < tiles; tile++)
            run_tile(gemm, tile, thread, c, a, b, bias);
#pragma omp for schedule(static)
        for (int64_t sum = 0; sum < sums; sum++)
            run_sum(gemm, sum, c, bias);
    }
}

/* Packing. */

bool et_gemm_same_packing(const et_gemm *left, const et_gemm *right)
{
    if (left->grid.tile_n != right->grid.tile_n || left->shape.n != right->shape.n)
        return false;
    for (int column = FULL; column <= LAST; column++)
        if (!et_gemm_block_same_packing(packing_block(left, column), packing_block(right, column)))
            return false;
    return true;
}

size_t et_gemm_packed_size(const et_gemm *gemm)
{
    et_assert(gemm->shape.pack_b);
    if (gemm->grid.columns == 0 || gemm->grid.rows == 0)
        return 0;
    return (size_t)(gemm->grid.columns - 1) * gemm->packed_size +
           et_gemm_block_packed_size(packing_block(gemm, LAST));
}

static void pack_column(const et_gemm *gemm, int64_t column, int thread, void *packed,
                        const void *from)
{
    const et_gemm_shape *shape = &gemm->shape;
    int last = column == gemm->grid.columns - 1 ? LAST : FULL;
    int64_t first = column * gemm->grid.tile_n;
    size_t offset = (size_t)(shape->transpose_b ? first * shape->ldb : first);
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    et_gemm_block_pack(packing_block(gemm, last), thread,
                       (char *)packed + (size_t)column * gemm->packed_size,
                       (const char *)from + offset * et_dtype_size(shape->b));
    omp_set_num_threads(threads);
}

void et_gemm_pack(const et_gemm *gemm, void *packed, const void *from)
{
    et_assert(gemm->shape.pack_b);
    int64_t columns = gemm->grid.rows ? gemm->grid.columns : 0;
    if (omp_in_parallel() || columns <= 1) {
        for (int64_t column = 0; column < columns; column++)
            pack_column(gemm, column, omp_in_parallel() ? omp_get_thread_num() : 0, packed, from);
        return;
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads(team_of(gemm->cache))
    for (int64_t column = 0; column < columns; column++)
        pack_column(gemm, column, omp_get_thread_num(), packed, from);
}
