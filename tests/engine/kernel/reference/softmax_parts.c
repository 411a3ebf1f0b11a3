/* Cross-entropy over a vocabulary in parts of columns, by the formulas of arguments.h, in
 * double from float32 to float32. Values between the steps (m, s, the sum of x - m) are rounded to
 * float32, as in the arrays of et_softmax_rows. The result differs from that of reference/softmax.c
 * only by these roundings. */
#include <float.h>
#include <math.h>

#include "engine/kernel/reference/reference.h"

/* sum of e^(x - m) (x - y) over a part's columns. */
static double apart_of(const float *x, const float *y, double largest, int64_t columns)
{
    double sum = 0;
    for (int64_t j = 0; j < columns; j++)
        sum += exp(x[j] - largest) * ((double)x[j] - y[j]);
    return sum;
}

/* m, s and sum of x - m of each row of a part, and e^(x - m) into kept. leader: the first of the
 * largest, which makes the label's argmax of the part. */
static void part(const et_softmax_rows *rows, int64_t part, void *kept, et_dtype dtype,
                 const float *logits)
{
    int64_t columns = et_softmax_part_columns(rows, part), first = part * rows->columns;
    for (int64_t t = 0; t < rows->rows; t++) {
        double largest = -INFINITY, sum = 0, shifted = 0;
        const float *x = logits + t * columns;
        int64_t leader = 0;
        for (int64_t j = 0; j < columns; j++) {
            leader = x[j] > largest ? j : leader;
            largest = fmax(largest, x[j]);
        }
        for (int64_t j = 0; j < columns; j++) {
            sum += exp(x[j] - largest);
            shifted += x[j] - largest;
            if (kept && rows->labels[t] >= 0)
                et_reference_store(kept, t * columns + j, exp(x[j] - largest), dtype);
        }
        bool empty = rows->labels[t] < 0;
        rows->largest[part * rows->rows + t] = empty ? 0 : (float)largest;
        rows->sum[part * rows->rows + t] = empty ? 0 : (float)sum;
        rows->shifted[part * rows->rows + t] = empty ? 0 : (float)shifted;
        if (rows->apart)
            rows->apart[part * rows->rows + t] =
                empty ? 0
                      : (float)apart_of(x, logits + et_softmax_other_draw(rows, t) * columns,
                                        largest, columns);
        int64_t label = rows->labels[t] - first;
        if (empty || label < 0 || label >= columns)
            continue;
        rows->label_logit[t] = x[label];
        rows->label_leads[t] = leader == label;
    }
}

/* M; and the first part that has it. */
static double largest_of(const et_softmax_rows *rows, int64_t t, int64_t *leader)
{
    double largest = -INFINITY;
    for (int64_t p = 0; p < rows->parts; p++)
        if (rows->largest[p * rows->rows + t] > largest) {
            largest = rows->largest[p * rows->rows + t];
            *leader = p;
        }
    return largest;
}

/* -sum of t_i log p_i, less the entropy of t, with log p_i = z_i - log S and z = x - M. s becomes f
 * = e^(m - M) / S once S is known; before that it is read. shifted becomes the sum of x - M over
 * all columns. */
static void join_row(const et_softmax_rows *rows, int64_t t)
{
    int64_t leader = 0;
    double largest = largest_of(rows, t, &leader), sum = 0, shifted = 0;
    for (int64_t p = 0; p < rows->parts; p++) {
        float *at = &rows->sum[p * rows->rows + t];
        double lower = rows->largest[p * rows->rows + t] - largest;
        sum += *at * exp(lower);
        shifted +=
            rows->shifted[p * rows->rows + t] + (double)et_softmax_part_columns(rows, p) * lower;
    }
    for (int64_t p = 0; p < rows->parts; p++)
        rows->sum[p * rows->rows + t] =
            (float)(exp(rows->largest[p * rows->rows + t] - largest) / sum);
    double words = (double)rows->vocabulary, lse = log(sum);
    double on = words > 1 ? 1.0 - rows->smoothing : 1.0;
    double off = words > 1 ? rows->smoothing / (words - 1) : 0.0;
    double mine = rows->label_logit[t] - largest;
    double loss = -on * (mine - lse) - off * (shifted - mine - (words - 1) * lse);
    loss += on > 0 ? on * log(on) : 0;
    loss += off > 0 ? (words - 1) * off * log(off) : 0;
    rows->loss[t] = (float)loss;
    rows->nll[t] = (float)(lse - mine);
    rows->correct[t] = leader == rows->labels[t] / rows->columns ? rows->label_leads[t] : 0;
}

/* Adds the term for two draws to a row, and halves everything. */
static void join_draws(const et_softmax_rows *rows, int64_t t)
{
    double mean = 0;
    for (int64_t p = 0; p < rows->parts; p++)
        mean += (double)rows->sum[p * rows->rows + t] * rows->apart[p * rows->rows + t];
    rows->mean_apart[t] = (float)mean;
    rows->loss[t] = (float)(rows->loss[t] / 2 + rows->agreement / 4 * mean);
    rows->nll[t] /= 2;
    rows->correct[t] /= 2;
}

/* Rows begin .. end - 1; without a label a row counts nowhere. */
static void join(const et_softmax_rows *rows, int64_t begin, int64_t end)
{
    for (int64_t t = begin; t < end; t++) {
        if (rows->labels[t] < 0) {
            rows->loss[t] = rows->nll[t] = rows->correct[t] = 0;
            continue;
        }
        join_row(rows, t);
        if (rows->apart)
            join_draws(rows, t);
    }
}

/* Column j of a part, of row t of two draws. A value that has underflowed counts as the smallest
 * normal number in its logarithm. */
static double grad_of_draws(const et_softmax_rows *rows, int64_t part, int64_t t, int64_t j,
                            double target, const void *kept, et_dtype dtype)
{
    int64_t columns = et_softmax_part_columns(rows, part), at = part * rows->rows;
    int64_t u = et_softmax_other_draw(rows, t);
    double x = et_reference_load(kept, t * columns + j, dtype);
    double y = et_reference_load(kept, u * columns + j, dtype);
    double p = x * rows->sum[at + t], q = y * rows->sum[at + u], weight = rows->agreement / 4;
    double apart = log(fmax(x, FLT_MIN)) - log(fmax(y, FLT_MIN)) + rows->largest[at + t] -
                   (double)rows->largest[at + u];
    return (p - target) / 2 + weight * (p * (apart - rows->mean_apart[t]) + p - q);
}

/* p - t with p = f e^(x - m), from the kept values, including the rounding of kept. */
static void grad(const et_softmax_rows *rows, int64_t part, void *gradient, et_dtype to,
                 const void *kept, et_dtype dtype)
{
    int64_t columns = et_softmax_part_columns(rows, part), first = part * rows->columns;
    double words = (double)rows->vocabulary;
    double on = words > 1 ? 1.0 - rows->smoothing : 1.0;
    double off = words > 1 ? rows->smoothing / (words - 1) : 0.0;
    for (int64_t t = 0; t < rows->rows; t++)
        for (int64_t j = 0; j < columns; j++) {
            double target = first + j == rows->labels[t] ? on : off, value = 0;
            if (rows->labels[t] >= 0 && rows->apart)
                value = grad_of_draws(rows, part, t, j, target, kept, dtype);
            else if (rows->labels[t] >= 0)
                value = et_reference_load(kept, t * columns + j, dtype) *
                            rows->sum[part * rows->rows + t] -
                        target;
            et_reference_store(gradient, t * columns + j, value, to);
        }
}

const et_softmax_parts et_reference_softmax_parts = {
    .part = part,
    .join = join,
    .grad = grad,
};
