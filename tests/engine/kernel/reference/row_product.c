/* Products of rows and the likeliest tokens by their definitions, in double: the reference of
 * row_product.inc.c and best_tokens.inc.c.
 *
 *   y[r, j] = relu(sum_i x[r, i] w[i, j] + bias[j])
 *
 * The weight is read in its packed form (a drawing is in row_product.h), so tests check the layout
 * too. For weights as bytes, x is rounded as in the fast kernels (in units of a 127th of its
 * largest element, with a factor of least squares). The sum of products of whole numbers is exact
 * in both. */
#include "base/assert.h"
#include "engine/kernel/reference/reference.h"

#include <math.h>

/* The index of column j's row i in a packed weight. Bytes come in fours of one column, as the
 * instruction needs them. */
static int64_t place(const et_row_weight *w, int64_t i, int64_t j)
{
    et_assert(i < w->k && j < w->n);
    int64_t panel = j / w->panel, column = j % w->panel;
    if (w->kind == ET_ROW_F32)
        return (panel * w->k + i) * w->panel + column;
    int64_t quads = (w->k + 3) / 4;
    return ((panel * quads + i / 4) * w->panel + column) * 4 + i % 4;
}

/* x . column j */
static double float_sum(const void *x, int64_t first, et_dtype dtype, const et_row_weight *w,
                        int64_t j)
{
    const float *panels = w->panels;
    double sum = 0;
    for (int64_t i = 0; i < w->k; i++)
        sum += et_reference_load(x, first + i, dtype) * panels[place(w, i, j)];
    return sum;
}

/* x as whole numbers in [-127, 127] times the unit of least squares. */
static double byte_sum(const void *rows, int64_t first, et_dtype dtype, const et_row_weight *w,
                       int64_t j)
{
    const int8_t *panels = w->panels;
    float largest = 0;
    double sum = 0, cross = 0, square = 0;
    for (int64_t i = 0; i < w->k; i++)
        largest = fmaxf(largest, fabsf((float)et_reference_load(rows, first + i, dtype)));
    const float inverse = largest >= ET_ROW_SMALLEST ? 127.0f / largest : 0.0f;
    for (int64_t i = 0; i < w->k; i++) {
        const float x = (float)et_reference_load(rows, first + i, dtype);
        double q = rintf(x * inverse);
        sum += q * panels[place(w, i, j)];
        cross += x * q;
        square += q * q;
    }
    return square == 0 ? 0 : sum * (cross / square) * w->scale[j];
}

void et_reference_row_product(void *y, const void *x, const et_row_product *shape)
{
    const et_row_weight *w = shape->weight;
    for (int64_t r = 0; r < shape->rows; r++)
        for (int64_t j = 0; j < w->n; j++) {
            double sum = w->kind == ET_ROW_F32 ? float_sum(x, r * w->k, shape->x, w, j)
                                               : byte_sum(x, r * w->k, shape->x, w, j);
            sum += shape->bias ? shape->bias[j] : 0;
            sum = shape->relu ? et_reference_relu(sum) : sum;
            et_reference_store(y, r * w->n + j, sum, shape->y);
        }
}

/* All logits, their softmax, and the k largest by et_reference_top_k's rule. The weight's bytes are
 * not used: the fast kernels, which use them, must find the tokens that float32 gives. */
void et_reference_best_tokens(float *log_p, int32_t *token, const void *h,
                              const et_best_tokens *shape)
{
    const et_row_weight *w = shape->weight;
    float *z = shape->scratch; /* its room for logits */
    for (int64_t r = 0; r < shape->rows; r++) {
        for (int64_t j = 0; j < w->n; j++) {
            double sum = 0;
            for (int64_t i = 0; i < w->k; i++)
                sum +=
                    et_reference_load(h, r * w->k + i, shape->dtype) * shape->table[j * w->k + i];
            z[j] = (float)sum;
        }
        et_reference_log_softmax(z, z, 1, w->n, ET_F32);
        et_reference_top_k(log_p + r * shape->count, token + r * shape->count, z, shape->count, 1,
                           w->n);
    }
}

void et_reference_listed_product(float *y, const et_listed_product *p)
{
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t i = 0; i < p->count; i++) {
            double sum = p->bias ? (double)p->bias[p->words[i]] : 0;
            for (int64_t d = 0; d < p->width; d++)
                sum += et_reference_load(p->h, r * p->width + d, p->dtype) *
                       (double)p->table[p->words[i] * p->width + d];
            y[r * p->count + i] = (float)sum;
        }
}
