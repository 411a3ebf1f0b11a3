/* The vocabulary projection, softmax cross-entropy and both derivatives, in blocks of rows. A
 * thread computes a part of the vocabulary for a block while the part is in its cache:
 *
 *   for each part:    logits = h table_part^T [R, part]; kept = e^(logits - the part's largest)
 *   for each row:     loss; the factor of each part that makes softmax of the kept values
 *   for each part:    g = d(loss)/d(logits)   from the kept values
 *                     dh += g table_part      [R, D], in pieces: groups of parts
 *                     dtable_part += g^T h    [part, D]
 *
 * Invariants:
 *
 *   1. [T, V] never exists, and of a block's [R, V] only the kept values, which are written once
 *      and read once; logits are float32 and never rounded.
 *   2. A block's memory is bounded: with a large vocabulary it has fewer rows, which costs time,
 *      because each block reads and writes all of dtable.
 *   3. Equal bits for any number of threads: parts and pieces depend only on shapes, one thread at
 *      a time writes a part of dtable, pieces of dh are added in order.
 *   4. A block is one team's work: threads meet after logits, after joining, after derivatives.
 *   5. Rows without a label have zero derivatives; blocks without a label are skipped.
 *
 * With two samples of the rows (et_r_drop_loss) a block has some rows of each, one after the other,
 * because their difference needs the logits of both.
 *
 * A table that is a parameter is packed with the plan's other weights. A computed table
 * (et_sampled_loss: the rows of candidates) is packed in the scratch, before the first block. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/assert.h"
#include "engine/exec/cpu/op_private.h"
#include "engine/kernel/parallel.h"
#include "engine/kernel/sizes.h"

/* ---- rows ---- */

/* Ops with a number or a distribution for each row as result. */

static void run_row_sum(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *x = TENSOR_IN(0);
    kernels(plan)->row_sum(OUT(0), x->data, x->shape.size[0], x->shape.size[1], x->dtype);
}

const et_op_functions et_cpu_ROW_SUM = { .run = run_row_sum };

static void run_softmax(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *x = TENSOR_IN(0);
    const bool in_log = call->node->op == ET_OP_LOG_SOFTMAX;
    (in_log ? kernels(plan)->log_softmax : kernels(plan)->softmax)(
        OUT(0), x->data, x->shape.size[0], x->shape.size[1], x->dtype);
}

const et_op_functions et_cpu_SOFTMAX = { .run = run_softmax };
const et_op_functions et_cpu_LOG_SOFTMAX = { .run = run_softmax };

/* Loss, nll and correct of each row, which may have no readers. */
static size_t scratch_of_rows(const et_plan *plan, const et_plan_call *call)
{
    return (size_t)(3 * TENSOR_IN(0)->shape.size[0]) * sizeof(float);
}

/* The kernel turns logits into derivatives in place, so it gets a copy: logits may have other
 * readers. Without derivatives it does not change them. */
static void run_cross_entropy(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *logits = TENSOR_IN(0), *labels = TENSOR_IN(1);
    const int64_t rows = logits->shape.size[0], classes = logits->shape.size[1];
    float *unread = scratch(plan), *row[3];
    void *gradient = OUT(3);
    et_assert(call->node->attributes.gradient || !gradient);
    for (int i = 0; i < 3; i++)
        row[i] = OUT(i) ? OUT(i) : unread + i * rows;
    if (gradient)
        memcpy(gradient, logits->data, et_tensor_bytes(*logits));
    kernels(plan)->softmax_cross_entropy(gradient ? gradient : logits->data, row[0], row[1], row[2],
                                         labels->data, call->node->attributes.x, gradient != NULL,
                                         rows, classes, logits->dtype);
}

const et_op_functions et_cpu_CROSS_ENTROPY = { .run = run_cross_entropy,
                                               .scratch = scratch_of_rows };

static void run_labelled(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *y = TENSOR_OUT(0);
    kernels(plan)->labelled(y->data, TENSOR_IN(0)->data, y->shape.size[0]);
}

const et_op_functions et_cpu_LABELLED = { .run = run_labelled };

/* Softmax cross-entropy of logits that exist in full. The kernel turns logits into derivatives
 * in place; logits may have other readers, so the derivative is made in a copy.
 *
 * With z the logits of a row, y its label, V classes and smoothing e (Szegedy et al. 2016):
 *
 *     log p = z - log(sum exp z)        t[y] = 1 - e,  t[i] = e / (V - 1) elsewhere
 *     nll = -log p[y]        loss = -sum t (log p - log t)        dz = softmax(z) - t
 *
 * Rows with a label below 0 count in no sum. VOCABULARY_LOSS does the same
 * without the logits in memory. */

/* Adds rows with a label to a loss's sums: in double and in order of rows, for any number of
 * threads. loss, nll and correct [rows] as kernels give them. */
static void add_loss_rows(double sums[ET_LOSS_SUM_COUNT], const int32_t *labels, const float *loss,
                          const float *nll, const float *correct, int64_t rows)
{
    for (int64_t i = 0; i < rows; i++) {
        if (labels[i] < 0)
            continue;
        sums[ET_LOSS_SUM_LOSS] += loss[i];
        sums[ET_LOSS_SUM_NLL] += nll[i];
        sums[ET_LOSS_SUM_CORRECT] += correct[i];
        sums[ET_LOSS_SUM_TOKENS] += 1;
    }
}

/* Without derivatives the kernel reads the logits in their own memory: it only changes them to
 * compute a gradient. */
static void run_softmax_loss(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *logits = TENSOR_IN(0);
    const et_tensor *gradient = TENSOR_OUT(1);
    const int32_t *labels = IN(1);
    et_assert(TENSOR_IN(1)->shape.size[0] == logits->shape.size[0]);
    int64_t rows = logits->shape.size[0], classes = logits->shape.size[1];
    float *row = scratch(plan), *result = OUT(0);
    double sums[ET_LOSS_SUM_COUNT] = { 0 };
    bool differentiate = gradient->data != NULL;
    et_assert(call->node->attributes.gradient || !differentiate);
    if (differentiate)
        memcpy(gradient->data, logits->data, rows * classes * et_dtype_size(logits->dtype));
    kernels(plan)->softmax_cross_entropy(
        differentiate ? gradient->data : logits->data, row, row + rows, row + 2 * rows, labels,
        call->node->attributes.x, differentiate, rows, classes, logits->dtype);
    add_loss_rows(sums, labels, row, row + rows, row + 2 * rows, rows);
    for (int i = 0; i < ET_LOSS_SUM_COUNT; i++)
        result[i] = (float)sums[i];
}

const et_op_functions et_cpu_SOFTMAX_LOSS = { .run = run_softmax_loss, .scratch = scratch_of_rows };

/* The most likely tokens of each row, with the kernel of that name.
 *
 * The result is the `count` largest logits h table^T of each row and their log p;
 * engine/kernel/arguments.h says how the other tokens are excluded. The table is needed twice: as
 * bytes, packed with the plan's other weights, and as float32 for the remaining tokens, directly
 * from the store. */

/* Bytes of the kernel's scratch; room for unread tokens follows it. */
static size_t kernel_scratch(const et_plan *plan, const et_row_weight *rows)
{
    return et_best_scratch(rows) * (size_t)plan->device->threads;
}

/* The bytes of a row are added up in 32 bits, which bounds the width. transposed: a token is a
 * row of the table, and a column of the product's weight. */
static int prepare_vocabulary_best(et_plan *plan, et_plan_call *call, et_error *error)
{
    const et_plan_value *table = &plan->values[call->in[1]];
    et_row_weight rows = { .kind = ET_ROW_INT8,
                           .n = table->tensor.shape.size[0],
                           .k = table->tensor.shape.size[1],
                           .panel = kernels(plan)->panel };
    if (table->storage != VALUE_IN_PARAMS || call->node->attributes.count > ET_BEST_COUNT_MAX ||
        rows.k > ET_ROW_BYTES_MAX)
        return et_fail(error, ET_EGRAPH,
                       "%s: the table must be a parameter of width at most %d, and at most %d "
                       "tokens can be chosen",
                       call->node->name, ET_ROW_BYTES_MAX, ET_BEST_COUNT_MAX);
    call->scratch =
        kernel_scratch(plan, &rows) + et_shape_count(call->node->type[1].shape) * sizeof(int32_t);
    const et_plan_pack wanted = {
        .rows = rows, .transposed = true, .param = table->node->attributes.param, .dtype = ET_F32
    };
    return et_plan_add_pack(plan, &wanted, &call->pack[0], error);
}

/* The kernel always writes tokens; if the plan gave them no memory, they go after its scratch. */
static void run_vocabulary_best(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *h = TENSOR_IN(0);
    et_assert(h->shape.size[0] <= call->node->type[0].shape.size[0]);
    const et_plan_pack *pack = et_plan_pack_at(plan, call->pack[0]);
    int32_t *token = OUT(1);
    if (!token)
        token = (int32_t *)(void *)(plan->scratch + kernel_scratch(plan, &pack->rows));
    const et_best_tokens shape = { .rows = h->shape.size[0],
                                   .count = call->node->attributes.count,
                                   .weight = &pack->rows,
                                   .table = IN(1),
                                   .dtype = h->dtype,
                                   .scratch = plan->scratch };
    kernels(plan)->best_tokens(OUT(0), token, h->data, &shape);
}

const et_op_functions et_cpu_VOCABULARY_BEST = { .run = run_vocabulary_best,
                                                 .prepare = prepare_vocabulary_best };

/* Candidates of a sampled softmax: see et_candidates. Runs on one thread: it passes over the
 * classes twice, with about as many steps as candidates. */

/* The position of each class among the candidates. */
static size_t scratch_of_candidates(const et_plan *plan, const et_plan_call *call)
{
    (void)plan;
    return call->node->attributes.classes * sizeof(int32_t);
}

enum { ABSENT = -1, LABELLED = -2 };

/* The classes of labels, ascending; returns how many. */
static int64_t take_labels(int32_t *candidates, int32_t *found, int64_t classes,
                           const int32_t *labels, int64_t rows)
{
    int64_t taken = 0;
    for (int64_t i = 0; i < classes; i++)
        found[i] = ABSENT;
    for (int64_t t = 0; t < rows; t++)
        if (labels[t] >= 0)
            found[labels[t]] = LABELLED;
    for (int64_t i = 0; i < classes; i++)
        if (found[i] == LABELLED) {
            found[i] = (int32_t)taken;
            candidates[taken++] = (int32_t)i;
        }
    return taken;
}

static void run_candidates(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *labels = TENSOR_IN(0);
    const int64_t classes = call->node->attributes.classes, count = call->node->attributes.count;
    const int64_t rows = labels->shape.size[0];
    int32_t *found = (int32_t *)(void *)plan->scratch, *candidates = OUT(0);
    int32_t *targets = OUT(1);
    float *offsets = OUT(2);
    const int64_t own = take_labels(candidates, found, classes, labels->data, rows);
    /* Others, in the order of a permutation of all classes, until there are count. */
    const et_random_order order = et_random_order_of(random_of(plan, call), (uint32_t)classes);
    int64_t taken = own;
    for (uint32_t i = 0; taken < count; i++) {
        const int32_t class = (int32_t)et_random_order_at(&order, i);
        if (found[class] == ABSENT)
            candidates[taken++] = class;
    }
    for (int64_t t = 0; targets && t < rows; t++) {
        const int32_t label = ((const int32_t *)labels->data)[t];
        targets[t] = label < 0 ? -1 : found[label];
    }
    const double stands_for = count > own ? (double)(classes - own) / (double)(count - own) : 1;
    const float offset = (float)log(stands_for);
    for (int64_t i = 0; offsets && i < count; i++)
        offsets[i] = i < own ? 0 : offset;
}

const et_op_functions et_cpu_CANDIDATES = { .run = run_candidates,
                                            .scratch = scratch_of_candidates };

/* ---- the vocabulary's loss ---- */

/* Rows of a block. Its derivatives by a part stay in the L2 cache, its kept values in the next
 * cache. */
#define ROWS_MOST  256
#define ROWS_LEAST 32                 /* and its multiples */
#define KEPT_MOST  ((size_t)32 << 20) /* bytes of a block that fewer rows are for */

/* Columns of a part, at most: fewer where h is wide, for the part's table is in the cache too. */
#define COLUMNS      512
#define COLUMNS_WIDE 256
#define WIDE         256
#define COLUMNS_UNIT 64 /* of a panel of the table */
#define PARTS_LEAST  4  /* of a small vocabulary: work for threads */

/* More pieces let more threads take part, and cost a [block, D] each that has to be written and
 * added. */
#define PIECES_MOST 16 /* of dh: partial sums that are kept apart */
#define JOINED_ROWS 64 /* that a thread joins, or finishes, at a time */

/* Products of a part; those of the last part, which may be smaller, follow. LOGITS: h table_part^T.
 * DH_FIRST and DH: g table_part, which begins a piece or adds to it. DTABLE: g^T h, added to the
 * sum of earlier blocks. gemm[] of the call has them for whole parts, then for the last one: 2
 * PRODUCTS in all, ET_PLAN_GEMMS_MAX. */
enum { LOGITS, DH_FIRST, DH, DTABLE, PRODUCTS };

/* R is `block`, D is `width`, V is `vocabulary`. Sizes follow from shapes, so planning and running
 * compute the same. */
typedef struct loss_sizes {
    int64_t rows, width, vocabulary;
    int64_t draws;          /* 1 or 2, of the rows */
    int64_t block, columns; /* of a block, of a part */
    int64_t share;          /* block / draws: the batch's rows that a block is for */
    int64_t parts, pieces;  /* counts */
    et_dtype act;
    et_dtype work; /* of h and g as the products read them */
    bool gradient;
    bool packs_h;  /* once for all parts, if g^T h cannot read h unpacked */
    bool packs_dh; /* the table for dh, if g table_part cannot read it unpacked */
    bool computed; /* the table: no parameter */
    bool offset;   /* something is added to logits, by column */
} loss_sizes;

/* Offsets in the scratch, in bytes. largest, sum, shifted and apart are [parts, block] float32,
 * apart only for two draws; by_row is six numbers a row; tile is the bytes of one thread's logits
 * or g. kept, packed_h and dh only exist for derivatives. For a computed table: each thread's part
 * as bfloat16, if act is bfloat16, and the packed parts for LOGITS and DH_FIRST, so many bytes
 * each. */
typedef struct loss_room {
    size_t kept, h, packed_h, dh, largest, sum, shifted, apart, by_row, labels, tiles, tile, end;
    size_t copies, copy, packed[PRODUCTS], packed_bytes[PRODUCTS];
} loss_room;

/* One block of rows under way, on the stack of the run; its pointers are into the call's scratch or
 * the batch. */
typedef struct loss_block {
    const et_plan *plan;
    const et_plan_call *call;
    loss_sizes size;
    loss_room room;
    et_softmax_rows softmax;
    int64_t at, rows; /* rows of the batch; a share is filled up with empty ones */
    const void *h;    /* [block, D] of type work */
} loss_block;

/* ---- planning ---- */

/* If two threads divide the parts of so many columns: the columns of the thread that has more. */
static int64_t longer_half(int64_t vocabulary, int64_t columns)
{
    const int64_t whole = vocabulary / columns;
    return whole % 2 ? (whole + 1) / 2 * columns : vocabulary - whole / 2 * columns;
}

/* Chooses the columns of a part, between the limit and half of it, that divide work most evenly
 * between two threads, if this saves more than 1 %: threads meet after each block. Example: 10,000
 * columns in parts of 512 are 19 and a half, so one thread would wait for a fortieth of the time;
 * in parts of 384 each thread has 13, and one has 16 columns more. A small vocabulary comes in
 * PARTS_LEAST parts, if each has a panel: 256 columns in 4 of 64. */
static int64_t choose_columns(const loss_sizes *size)
{
    const int64_t few = et_part_count(size->vocabulary, PARTS_LEAST * COLUMNS_UNIT) * COLUMNS_UNIT;
    const int64_t wide = size->width > WIDE ? COLUMNS_WIDE : COLUMNS;
    const int64_t most = et_smaller(few, wide);
    const int64_t least = size->vocabulary > 2 * most ? most / 2 : most;
    int64_t best = most;
    for (int64_t columns = most; columns >= least; columns -= COLUMNS_UNIT)
        if (100 * longer_half(size->vocabulary, columns) < 99 * longer_half(size->vocabulary, best))
            best = columns;
    return best;
}

/* The shape of g table_part. Only block and width decide whether Etude's own kernel computes it,
 * because all parts of a table have the same layout. */
static et_gemm_shape shape_of_dh(const loss_sizes *size, int64_t columns)
{
    return (et_gemm_shape){ size->block, size->width, columns, .a = size->work, .b = size->act };
}

/* Parts are shared out evenly to at most PIECES_MOST pieces of dh. Example, float32, V = 32000,
 * D = 512, many rows: parts of 256 columns, 125 of them, 16 pieces of 7 or 8; blocks of 256 rows.
 */
static loss_sizes sizes_of(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *h = TENSOR_IN(0);
    const et_tensor *table = TENSOR_IN(1);
    loss_sizes size = { .rows = h->shape.size[0],
                        .width = h->shape.size[1],
                        .vocabulary = table->shape.size[0],
                        .draws = et_loss_of_two_draws(call->node) ? 2 : 1,
                        .computed = call->node->input[1]->op != ET_OP_PARAM,
                        .offset = call->node->attributes.offset,
                        .act = plan->graph->options.act,
                        .gradient = call->node->attributes.gradient };
    size.work = et_gemm_multiplied_as(plan->device->gemms, size.act);
    size.packs_h = !et_gemm_own_gradients(plan->device->gemms, size.work);
    /* Blocks of about equal size, so that the last is not mostly empty. Example: 300 rows, at most
     * 256: two blocks, of 160 and 140 rows, and not of 256 and 44. Rounded up to ROWS_LEAST, a
     * block may be a little larger than its share. */
    size_t row = size.vocabulary * et_dtype_size(size.act);
    int64_t most = (int64_t)(KEPT_MOST / row) / ROWS_LEAST * ROWS_LEAST;
    most = most > ROWS_MOST ? ROWS_MOST : most < ROWS_LEAST ? ROWS_LEAST : most;
    const int64_t all = size.draws * size.rows, rows = et_part_count(all, et_part_count(all, most));
    size.block = et_part_count(rows, ROWS_LEAST) * ROWS_LEAST;
    size.share = size.block / size.draws;
    size.columns = choose_columns(&size);
    const et_gemm_shape dh = shape_of_dh(&size, size.columns);
    size.packs_dh = !et_gemm_own_rows(plan->device->gemms, &dh);
    size.parts = et_part_count(size.vocabulary, size.columns);
    size.pieces = et_smaller(size.parts, PIECES_MOST);
    et_assert(size.pieces <= PIECES_MOST && size.block % ROWS_LEAST == 0);
    return size;
}

static int64_t columns_of(const loss_sizes *size, int64_t part)
{
    et_assert(part >= 0 && part < size->parts);
    return et_smaller(size->vocabulary - part * size->columns, size->columns);
}

/* A part's product; the last part has its own. If there is only one part, it is the last one, and
 * the first set is not used. */
static et_gemm *product(const et_plan_call *call, const loss_sizes *size, int which, int64_t part)
{
    return call->gemm[part == size->parts - 1 ? PRODUCTS + which : which];
}

/* If the vocabulary is not a multiple of the columns, the last part has another shape and needs its
 * own products. h and g are of type work, sums and results float32. Only Etude's own kernel reads B
 * unpacked. Sizes are m, n, k:
 *
 *     LOGITS [block, part], D     DH [block, D], part     DTABLE [part, D], block */
static int get_products(et_plan *plan, et_plan_call *call, const loss_sizes *size, int64_t part,
                        et_error *error)
{
    int64_t block = size->block, width = size->width, columns = columns_of(size, part);
    et_dtype a = size->work, table = size->act;
    et_gemm_shape shapes[PRODUCTS] = {
        [LOGITS] = { block, columns, width, .transpose_b = true, .a = a, .b = table,
                     .bias = size->offset },
        [DH_FIRST] = shape_of_dh(size, columns),
        [DH] = shape_of_dh(size, columns),
        [DTABLE] = { columns, width, block, .transpose_a = true, .a = a, .b = a,
                     .accumulate = true },
    };
    const bool packs[PRODUCTS] = { true, size->packs_dh, size->packs_dh, size->packs_h };
    int status = ET_OK;
    shapes[DH].accumulate = true;
    for (int i = 0; !status && i < (size->gradient ? PRODUCTS : 1); i++) {
        shapes[i].pack_b = packs[i];
        int slot = part == size->parts - 1 ? PRODUCTS + i : i;
        status = et_gemm_get(&call->gemm[slot], plan->device->gemms, &shapes[i], error);
    }
    return status;
}

/* Packed copies of all parts of the table, one after another; *first: the index of the first one.
 * Part p is pack *first + p, so the call keeps one index for a whole table. */
static int pack_table(et_plan *plan, et_plan_call *call, const loss_sizes *size, int which,
                      int *first, et_error *error)
{
    int param = plan->values[call->in[1]].node->attributes.param;
    for (int64_t part = 0; part < size->parts; part++) {
        const et_plan_pack wanted = { .gemm = product(call, size, which, part),
                                      .param = param,
                                      .first = part * size->columns * size->width,
                                      .dtype = size->act };
        int pack, status = et_plan_add_pack(plan, &wanted, &pack, error);
        if (status)
            return status;
        *first = part == 0 ? pack : *first;
        et_assert_equal(pack, *first + part);
    }
    return ET_OK;
}

static size_t take(size_t *end, size_t bytes)
{
    size_t at = *end;
    *end += et_lines(bytes);
    return at;
}

/* Packed parts of a computed table; the last may be smaller than the others. */
static void take_packed(loss_room *room, const et_plan_call *call, const loss_sizes *size,
                        int which)
{
    room->packed_bytes[which] = et_lines(et_gemm_packed_size(product(call, size, which, 0)));
    room->packed[which] = take(&room->end, (size_t)size->parts * room->packed_bytes[which]);
}

/* Without derivatives nothing is kept: each part's logits are dropped after its sums. In the
 * example above, kept has 31 MiB, dh 8 MiB, a thread's tile 256 KiB, while logits of 4096 rows
 * would have 500 MiB. */
static loss_room room_of(const et_plan *plan, const et_plan_call *call, const loss_sizes *size)
{
    size_t real = sizeof(float), block = (size_t)size->block, width = (size_t)size->width;
    size_t by_part = (size_t)size->parts * block * real, threads = (size_t)plan->device->threads;
    loss_room room = { 0 };
    size_t *end = &room.end;
    if (size->computed) {
        if (size->act != ET_F32)
            room.copy = et_lines(size->columns * size->width * sizeof(et_bf16));
        room.copies = take(&room.end, (size_t)plan->device->threads * room.copy);
        take_packed(&room, call, size, LOGITS);
        if (size->gradient && size->packs_dh)
            take_packed(&room, call, size, DH_FIRST);
    }
    room.largest = take(end, by_part);
    room.sum = take(end, by_part);
    room.shifted = take(end, by_part);
    room.apart = take(end, size->draws > 1 ? by_part : 0);
    room.by_row = take(end, 6 * block * real);
    room.labels = take(end, block * sizeof(int32_t));
    room.h = take(end, block * width * et_dtype_size(size->work));
    room.tile = block * (size_t)size->columns * real;
    room.tiles = take(end, threads * room.tile);
    if (!size->gradient)
        return room;
    room.kept = take(end, block * (size_t)size->vocabulary * et_dtype_size(size->act));
    if (size->packs_h)
        room.packed_h =
            take(end, et_gemm_packed_size(product(call, size, DTABLE, size->parts - 1)));
    room.dh = take(end, (size_t)size->pieces * block * width * real);
    return room;
}

/* Part 0 has the shape of all but the last. If dh's products read a packed table, the table is
 * packed twice, because logits read it transposed. */
static int prepare_vocabulary_loss(et_plan *plan, et_plan_call *call, et_error *error)
{
    loss_sizes size = sizes_of(plan, call);
    int status = get_products(plan, call, &size, 0, error);
    if (!status)
        status = get_products(plan, call, &size, size.parts - 1, error);
    if (!status && !size.computed)
        status = pack_table(plan, call, &size, LOGITS, &call->pack[LOGITS], error);
    if (!status && !size.computed && size.gradient && size.packs_dh)
        status = pack_table(plan, call, &size, DH_FIRST, &call->pack[DH_FIRST], error);
    if (!status)
        call->scratch = room_of(plan, call, &size).end;
    return status;
}

/* ---- running ---- */

static void *room_at(const loss_block *block, size_t offset)
{
    return block->plan->scratch + offset;
}

static void *tile_of(const loss_block *block, int thread)
{
    et_assert(thread >= 0 && thread < block->plan->device->threads);
    return room_at(block, block->room.tiles + (size_t)thread * block->room.tile);
}

/* The kept values of a part, [block, its columns] dense. All parts before it are whole, so they
 * have block * columns elements each. */
static void *kept_of(const loss_block *block, int64_t part)
{
    size_t before = block->size.block * part * block->size.columns;
    return room_at(block, block->room.kept + before * et_dtype_size(block->size.act));
}

/* A part of a computed table, packed for one of the two. */
static void *packed_part(const loss_block *block, int which, int64_t part)
{
    const loss_room *room = &block->room;
    return room_at(block, room->packed[which] + (size_t)part * room->packed_bytes[which]);
}

static const void *packed_table(const loss_block *block, int which, int64_t part)
{
    if (block->size.computed)
        return packed_part(block, which, part);
    return et_plan_pack_at(block->plan, block->call->pack[which] + (int)part)->data;
}

/* A part of the table as dh's products read it. */
static const void *table_of_dh(const loss_block *block, int64_t part)
{
    const loss_sizes *size = &block->size;
    if (size->packs_dh)
        return packed_table(block, DH_FIRST, part);
    return et_element_at(in(block->plan, block->call, 1), part * size->columns * size->width,
                         size->act);
}

/* Computes the part's largest logit and sum of exponentials for each row, and the kept values. */
static void run_logits(const loss_block *block, int64_t part, int thread)
{
    const loss_sizes *size = &block->size;
    const float *offsets = size->offset ? in(block->plan, block->call, 3) : NULL;
    float *logits = tile_of(block, thread);
    et_gemm_run(product(block->call, size, LOGITS, part), logits, block->h,
                packed_table(block, LOGITS, part), offsets ? offsets + part * size->columns : NULL);
    kernels(block->plan)
        ->softmax_parts->part(&block->softmax, part, size->gradient ? kept_of(block, part) : NULL,
                              size->act, logits);
}

/* Parts of a piece are one thread's, in order: dh adds up without a lock, and each part of
 * dtable belongs to one piece. The first product of a piece overwrites, so dh is never cleared. */
static void run_gradients(const loss_block *block, int64_t piece, int thread)
{
    const loss_sizes *size = &block->size;
    et_assert(piece >= 0 && piece < size->pieces);
    void *g = tile_of(block, thread);
    const void *h = size->packs_h ? room_at(block, block->room.packed_h) : block->h;
    float *dh = (float *)room_at(block, block->room.dh) + piece * size->block * size->width;
    float *dtable = out(block->plan, block->call, 2);
    const int64_t begin = piece * size->parts / size->pieces;
    const int64_t end = (piece + 1) * size->parts / size->pieces;
    for (int64_t part = begin; part < end; part++) {
        kernels(block->plan)
            ->softmax_parts->grad(&block->softmax, part, g, size->work, kept_of(block, part),
                                  size->act);
        int which = part == begin ? DH_FIRST : DH;
        et_gemm_run(product(block->call, size, which, part), dh, g, table_of_dh(block, part), NULL);
        if (dtable)
            et_gemm_run(product(block->call, size, DTABLE, part),
                        dtable + part * size->columns * size->width, g, h, NULL);
    }
}

/* The results that are dh, by draw. */
static const int dh_of[] = { 1, 3 };

/* Adds the pieces of dh in order and rounds once, to the activations' type: rows from `first` of a
 * draw's share, at most JOINED_ROWS. Rows past the batch are skipped. */
static void finish_dh(const loss_block *block, int64_t draw, int64_t first)
{
    const loss_sizes *size = &block->size;
    int64_t width = size->width, left = block->rows - first;
    et_finish how = { .rows = et_smaller(left, JOINED_ROWS),
                      .columns = width,
                      .parts = size->pieces,
                      .part_stride = size->block * width,
                      .from_stride = width,
                      .c_stride = width,
                      .c = size->act };
    void *dh = out(block->plan, block->call, dh_of[draw]);
    if (!dh || left <= 0)
        return;
    kernels(block->plan)
        ->staging->finish(&how, et_element_at(dh, (block->at + first) * width, size->act),
                          (const float *)room_at(block, block->room.dh) +
                              (draw * size->share + first) * width);
}

/* Tiles were planned for the device's threads: no larger team than that. */
static int team_of(const loss_block *block)
{
    const int most = block->plan->device->threads, threads = omp_get_max_threads();
    return threads < most ? threads : most;
}

/* Threads meet at the end of each loop. Any thread may compute a part; the result does not depend
 * on it. A thread takes one part at a time, so that a late thread does not delay others, and mostly
 * the parts that it had in the previous block. Joining costs the same for all rows and is divided
 * evenly. */
static void run_block(const loss_block *block)
{
    const loss_sizes *size = &block->size;
    const et_softmax_rows *softmax = &block->softmax;
    const int64_t pieces = size->gradient ? size->pieces : 0;
    const int64_t finished = pieces ? size->share : 0;
    et_turns parts, sums;
    et_turns_init(&parts, team_of(block), size->parts, 1);
    et_turns_init(&sums, team_of(block), pieces, 1);
#pragma omp parallel num_threads(team_of(block))
    {
        int thread = omp_get_thread_num();
        et_turn part = et_turn_own(&parts), sum = et_turn_own(&sums);
        for (et_items now; et_turns_take(&parts, &part, &now);)
            run_logits(block, now.begin, thread);
#pragma omp barrier
#pragma omp for schedule(static)
        for (int64_t row = 0; row < size->block; row += JOINED_ROWS)
            kernels(block->plan)
                ->softmax_parts->join(softmax, row, et_smaller(row + JOINED_ROWS, size->block));
        for (et_items now; et_turns_take(&sums, &sum, &now);)
            run_gradients(block, now.begin, thread);
#pragma omp barrier
#pragma omp for schedule(static) collapse(2)
        for (int64_t draw = 0; draw < size->draws; draw++)
            for (int64_t row = 0; row < finished; row += JOINED_ROWS)
                finish_dh(block, draw, row);
    }
}

/* One draw's share of the block's rows, filled up with zeros. */
static et_stored stored_rows(const loss_block *block, int64_t draw)
{
    static const int h_of[] = { 0, 3 };
    const loss_sizes *size = &block->size;
    const void *h = in(block->plan, block->call, h_of[draw]);
    return (et_stored){ et_element_at(h, block->at * size->width, size->act), block->rows,
                        size->width, size->width, size->act };
}

/* Prepares the block's rows for products: the batch's own rows if the block is full, of one draw
 * and of the right type, else a copy. Labels are always copied, since rows past the batch need -1.
 * Every part reads h, so if products would convert its type, h is converted once here. */
static void open_block(loss_block *block, int64_t at)
{
    const loss_sizes *size = &block->size;
    const int32_t *labels = in(block->plan, block->call, 2);
    int32_t *own = room_at(block, block->room.labels);
    block->at = at;
    block->rows = et_smaller(size->rows - at, size->share);
    for (int64_t i = 0; i < size->block; i++) {
        const int64_t row = i % size->share;
        own[i] = row < block->rows ? labels[at + row] : -1;
    }
    block->h = stored_rows(block, 0).data;
    if (size->work != size->act || block->rows < size->share || size->draws > 1) {
        char *copy = room_at(block, block->room.h);
        const size_t bytes = size->share * size->width * et_dtype_size(size->work);
        for (int64_t draw = 0; draw < size->draws; draw++) {
            const et_stored stored = stored_rows(block, draw);
            kernels(block->plan)
                ->staging->rows(copy + (size_t)draw * bytes, size->share, size->width, size->work,
                                &stored);
        }
        block->h = copy;
    }
    if (size->gradient && size->packs_h)
        et_gemm_pack(product(block->call, size, DTABLE, size->parts - 1),
                     room_at(block, block->room.packed_h), block->h);
}

/* The six arrays by row are adjacent, [block] each. */
static loss_block begin(const et_plan *plan, const et_plan_call *call)
{
    loss_block block = { .plan = plan, .call = call, .size = sizes_of(plan, call) };
    block.room = room_of(plan, call, &block.size);
    float *by_row = room_at(&block, block.room.by_row);
    int64_t rows = block.size.block;
    block.softmax = (et_softmax_rows){ .rows = rows,
                                       .vocabulary = block.size.vocabulary,
                                       .columns = block.size.columns,
                                       .parts = block.size.parts,
                                       .labels = room_at(&block, block.room.labels),
                                       .smoothing = call->node->attributes.x,
                                       .largest = room_at(&block, block.room.largest),
                                       .sum = room_at(&block, block.room.sum),
                                       .shifted = room_at(&block, block.room.shifted),
                                       .label_logit = by_row,
                                       .label_leads = by_row + rows,
                                       .loss = by_row + 2 * rows,
                                       .nll = by_row + 3 * rows,
                                       .correct = by_row + 4 * rows,
                                       .agreement = call->node->attributes.agreement };
    if (block.size.draws > 1) {
        block.softmax.apart = room_at(&block, block.room.apart);
        block.softmax.mean_apart = by_row + 5 * rows;
    }
    return block;
}

/* A computed table is there when the call begins, not before. */
static void open_table(const loss_block *block)
{
    if (!block->size.computed)
        return;
#pragma omp parallel for num_threads(team_of(block)) schedule(static)
    for (int64_t part = 0; part < block->size.parts; part++) {
        const loss_sizes *size = &block->size;
        const int64_t at = part * size->columns * size->width;
        const void *from = (const float *)in(block->plan, block->call, 1) + at;
        if (size->act != ET_F32) {
            et_bf16 *copy = room_at(block, block->room.copies +
                                               (size_t)omp_get_thread_num() * block->room.copy);
            kernels(block->plan)->to_bf16(copy, from, columns_of(size, part) * size->width);
            from = copy;
        }
        et_gemm_pack(product(block->call, size, LOGITS, part), packed_part(block, LOGITS, part),
                     from);
        if (size->gradient && size->packs_dh)
            et_gemm_pack(product(block->call, size, DH_FIRST, part),
                         packed_part(block, DH_FIRST, part), from);
    }
}

/* A negative label is padding. */
static bool has_label(const int32_t *labels, int64_t rows)
{
    for (int64_t i = 0; i < rows; i++)
        if (labels[i] >= 0)
            return true;
    return false;
}

/* Blocks run one after another: dtable has one adder at a time, and one block's scratch is
 * enough. */
static void run_vocabulary_loss(const et_plan *plan, const et_plan_call *call)
{
    const int32_t *labels = IN(2);
    double sums[ET_LOSS_SUM_COUNT] = { 0 };
    loss_block block = begin(plan, call);
    int64_t rows = block.size.rows;
    /* Every block adds to dtable; none writes rows of dh in blocks without a label. */
    for (int i = 1; i < call->out_count; i++) {
        const et_tensor *tensor = TENSOR_OUT(i);
        if (tensor->data)
            memset(tensor->data, 0, et_tensor_bytes(*tensor));
    }
    open_table(&block);
    for (int64_t at = 0; at < rows; at += block.size.share) {
        if (!has_label(labels + at, et_smaller(rows - at, block.size.share)))
            continue;
        open_block(&block, at);
        run_block(&block);
        const et_softmax_rows *softmax = &block.softmax;
        for (int64_t row = 0; row < block.size.block; row += block.size.share)
            add_loss_rows(sums, softmax->labels + row, softmax->loss + row, softmax->nll + row,
                          softmax->correct + row, block.rows);
    }
    sums[ET_LOSS_SUM_TOKENS] /= (double)block.size.draws; /* the other sums count halves already */
    float *result = OUT(0);
    for (int i = 0; i < ET_LOSS_SUM_COUNT; i++)
        result[i] = (float)sums[i];
}

const et_op_functions et_cpu_VOCABULARY_LOSS = { .run = run_vocabulary_loss,
                                                 .prepare = prepare_vocabulary_loss };
