/* C = A^T B by outer products of rows (column_product.h).
 *
 *   C[i, j] = sum over l of A[l, i] B[l, j]
 *
 * V_PRODUCT_ROWS elements of a row of A times up to three vectors of a row of B are as many sums as
 * there are registers for; a load for each vector and a broadcast for each element feed them. The
 * sum of an element runs over l in order, whatever block it is in.
 *
 * With 16 lanes: 8 x 3 sums, 3 vectors of B and 1 element of A are 28 of 32 registers, and a step
 * of l is 3 loads and 8 broadcasts for 24 multiply-adds. With 8 lanes: 4 x 3, all 16 registers.
 *
 * A block reads k lines of A and of B, far apart where rows are long; chunks of k keep them in the
 * second-level cache from one block to the next, and lines of the next chunk are asked for a row at
 * a time while the multiply-adds of this one run.
 *
 * Whatever the size of a block, each element is k multiply-adds from 0, and then added to what C
 * has: so blocks of any size, at an edge or inside, give the same bits. */

/* Vectors of a block, at most. */
#define COLUMN_VECTORS 3

/* The first `rows` x `vectors` of C from (i, j) on; the last vector has `lanes` of its lanes. rows,
 * vectors, whole and ahead are constants: loops unroll and `sum` is registers. whole: the last
 * vector is a full one. ahead: as et_column_product has it. */
ET_INLINE void column_block(const et_column_product *p, int64_t i, int64_t j, int64_t lanes,
                            const int rows, const int vectors, const bool whole, const bool ahead)
{
    vf sum[V_PRODUCT_ROWS][COLUMN_VECTORS];
    const float *a = p->a + i, *b = p->b + j;
    const float *next_a = a + p->k * p->lda, *next_b = b + p->k * p->ldb;
    ET_UNROLL
    for (int r = 0; r < rows; r++)
        ET_UNROLL
    for (int s = 0; s < vectors; s++)
        sum[r][s] = v_set(0.0f);
    for (int64_t l = 0; l < p->k; l++, a += p->lda, b += p->ldb) {
        vf right[COLUMN_VECTORS];
        ET_UNROLL
        for (int s = 0; s < vectors; s++)
            right[s] = whole || s < vectors - 1 ? v_load(b + s * V_LANES)
                                                : v_load_n(b + s * V_LANES, lanes);
        if (ahead) {
            __builtin_prefetch(next_a + l * p->lda, 0, 2);
            ET_UNROLL
            for (int s = 0; s < vectors; s++)
                __builtin_prefetch(next_b + l * p->ldb + s * V_LANES, 0, 2);
        }
        ET_UNROLL
        for (int r = 0; r < rows; r++) {
            const vf left = v_set(a[r]);
            ET_UNROLL
            for (int s = 0; s < vectors; s++)
                sum[r][s] = v_fma(left, right[s], sum[r][s]);
        }
    }
    ET_UNROLL
    for (int r = 0; r < rows; r++)
        ET_UNROLL
    for (int s = 0; s < vectors; s++) {
        float *c = p->c + (i + r) * p->ldc + j + s * V_LANES;
        const int64_t n = whole || s < vectors - 1 ? V_LANES : lanes;
        const vf before = p->accumulate ? v_read_n(c, 0, n, ET_F32) : v_set(0.0f);
        v_write_n(c, 0, before + sum[r][s], n, ET_F32);
    }
}

/* All rows of C, columns j .. j + columns. Lines of what comes next are brought by the blocks at
 * C's upper and left edge, which between them touch each. */
ET_INLINE void column_panel(const et_column_product *p, int64_t j, int64_t columns,
                            const int vectors, const bool whole)
{
    const int64_t lanes = columns - (vectors - 1) * V_LANES;
    int64_t i = 0;
    for (; i + V_PRODUCT_ROWS <= p->m; i += V_PRODUCT_ROWS) {
        if (p->ahead && (i == 0 || j == 0))
            column_block(p, i, j, lanes, V_PRODUCT_ROWS, vectors, whole, true);
        else
            column_block(p, i, j, lanes, V_PRODUCT_ROWS, vectors, whole, false);
    }
    for (; i < p->m; i++)
        column_block(p, i, j, lanes, 1, vectors, whole, false);
}

/* Panels of three vectors; where one would be left over, two of two. Vectors 4 = 2 + 2, 5 = 3 + 2,
 * 7 = 3 + 2 + 2, 8 = 3 + 3 + 2: one vector alone would leave the units of multiply-add waiting for
 * loads, and comes only where n has a single one. What is less than a vector comes last, masked. */
static void column_product(const et_column_product *p)
{
    const int64_t vectors = p->n / V_LANES;
    et_assert(p->m >= 0 && p->n >= 0 && p->k >= 1);
    et_assert(p->lda >= p->m && p->ldb >= p->n && p->ldc >= p->n);
    int64_t j = 0, left = vectors;
    for (; left == 3 || left > 4; left -= 3, j += 3 * V_LANES)
        column_panel(p, j, 3 * V_LANES, 3, true);
    for (; left >= 2; left -= 2, j += 2 * V_LANES)
        column_panel(p, j, 2 * V_LANES, 2, true);
    if (left)
        column_panel(p, j, V_LANES, 1, true), j += V_LANES;
    if (j < p->n)
        column_panel(p, j, p->n - j, 1, false);
}
