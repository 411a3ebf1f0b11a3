/* Softmax over a vocabulary as its formulas say, in double. With logits z of a row, label y, V
 * classes and smoothing e (Szegedy et al. 2016, "Rethinking the Inception architecture for
 * computer vision"; off is spread over the other classes, as in Model Garden and fairseq):
 *
 *   lse = log sum_i exp(z_i),  log p_i = z_i - lse
 *   on = 1 - e,  off = e / (V - 1);  t_y = on, t_i = off elsewhere
 *   loss = -sum_i t_i log p_i - H(t),  H(t) = -sum_i t_i log t_i
 *   nll = -log p_y
 *   dloss / dz_i = p_i - t_i
 *
 * H(t) does not depend on the logits; it makes the minimal loss 0. Rows with a label below 0 do not
 * count: their losses and derivatives are 0. */
#include "base/assert.h"
#include "engine/kernel/reference/reference.h"

#include <math.h>

/* log of the sum of exp over one row. Subtracts the largest first, so that exp neither overflows
 * nor is 0 everywhere. */
static double log_sum_exp(const void *x, int64_t begin, int64_t count, et_dtype dtype)
{
    double largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, et_reference_load(x, begin + i, dtype));
    for (int64_t i = 0; i < count; i++)
        sum += exp(et_reference_load(x, begin + i, dtype) - largest);
    return largest + log(sum);
}

/* sum of -t log t over the smoothed target distribution. One class has `on`, the others `off`; 0
 * log 0 is 0. */
static double target_entropy(double on, double off, int64_t vocabulary)
{
    double entropy = on > 0 ? -on * log(on) : 0;
    if (off > 0)
        entropy -= (double)(vocabulary - 1) * off * log(off);
    return entropy;
}

/* Whether y is the first of the row's largest. A NaN at y is not; other NaNs are skipped, since
 * they are larger than nothing. */
static bool is_argmax(const void *x, int64_t begin, int64_t count, int32_t y, et_dtype dtype)
{
    double mine = et_reference_load(x, begin + y, dtype);
    for (int64_t i = 0; i < count; i++) {
        double other = et_reference_load(x, begin + i, dtype);
        if (other > mine || (other == mine && i < y) || isnan(mine))
            return false;
    }
    return true;
}

/* If a gradient is wanted, logits become derivatives in place: element i is read before it is
 * overwritten, and lse is known by then. */
static void cross_entropy_row(void *logits, float *loss, float *nll, float *correct, int32_t label,
                              double smoothing, bool gradient, int64_t begin, int64_t vocabulary,
                              et_dtype dtype)
{
    et_assert(label >= 0 && label < vocabulary);
    double lse = log_sum_exp(logits, begin, vocabulary, dtype);
    double on = vocabulary > 1 ? 1.0 - smoothing : 1.0;
    double off = vocabulary > 1 ? smoothing / (double)(vocabulary - 1) : 0.0;
    double sum = -target_entropy(on, off, vocabulary);
    *nll = (float)(lse - et_reference_load(logits, begin + label, dtype));
    *correct = is_argmax(logits, begin, vocabulary, label, dtype);
    for (int64_t i = 0; i < vocabulary; i++) {
        double log_p = et_reference_load(logits, begin + i, dtype) - lse;
        double target = i == label ? on : off;
        if (target > 0)
            sum -= target * log_p;
        if (gradient)
            et_reference_store(logits, begin + i, exp(log_p) - target, dtype);
    }
    *loss = (float)sum;
}

/* One row after another. */
void et_reference_softmax_cross_entropy(void *logits, float *loss, float *nll, float *correct,
                                        const int32_t *labels, float smoothing, bool gradient,
                                        int64_t rows, int64_t vocabulary, et_dtype dtype)
{
    for (int64_t t = 0; t < rows; t++) {
        if (labels[t] >= 0) {
            cross_entropy_row(logits, &loss[t], &nll[t], &correct[t], labels[t], smoothing,
                              gradient, t * vocabulary, vocabulary, dtype);
            continue;
        }
        loss[t] = nll[t] = correct[t] = 0;
        for (int64_t i = 0; i < vocabulary && gradient; i++)
            et_reference_store(logits, t * vocabulary + i, 0, dtype);
    }
}

/* x - lse. */
void et_reference_log_softmax(void *y, const void *x, int64_t rows, int64_t width, et_dtype dtype)
{
    for (int64_t t = 0; t < rows; t++) {
        double lse = log_sum_exp(x, t * width, width, dtype);
        for (int64_t i = t * width; i < (t + 1) * width; i++)
            et_reference_store(y, i, et_reference_load(x, i, dtype) - lse, dtype);
    }
}

/* e^(x - lse) */
void et_reference_softmax(void *y, const void *x, int64_t rows, int64_t width, et_dtype dtype)
{
    for (int64_t t = 0; t < rows; t++) {
        double lse = log_sum_exp(x, t * width, width, dtype);
        for (int64_t i = t * width; i < (t + 1) * width; i++)
            et_reference_store(y, i, exp(et_reference_load(x, i, dtype) - lse), dtype);
    }
}

void et_reference_labelled(float *y, const int32_t *labels, int64_t rows)
{
    for (int64_t t = 0; t < rows; t++)
        y[t] = labels[t] >= 0;
}

/* Whether x[i] comes before x[j]: larger first, then the smaller index, NaN last. */
static bool comes_before(const float *x, int64_t i, int64_t j)
{
    if (isnan(x[i]) || isnan(x[j]))
        return isnan(x[i]) && isnan(x[j]) ? i < j : isnan(x[j]);
    return x[i] > x[j] || (x[i] == x[j] && i < j);
}

/* An element's place is the number of elements that come before it. width^2 comparisons: slow,
 * and plainly right. */
static void top_k_row(float *value, int32_t *index, const float *x, int k, int64_t width)
{
    for (int64_t i = 0; i < width; i++) {
        int place = 0;
        for (int64_t j = 0; j < width && place < k; j++)
            place += comes_before(x, j, i);
        if (place < k) {
            value[place] = x[i];
            index[place] = (int32_t)i;
        }
    }
}

/* Largest first; of equal ones the smaller index. */
void et_reference_top_k(float *value, int32_t *index, const float *x, int k, int64_t rows,
                        int64_t width)
{
    et_assert(k >= 1 && k <= width);
    for (int64_t t = 0; t < rows; t++)
        top_k_row(value + t * k, index + t * k, x + t * width, k, width);
}
