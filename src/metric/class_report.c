#include "metric/class_report.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/sort.h"
#include "metric/class_scores.h"

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

void et_class_lines(et_class_line *lines, const double *confusion, int64_t classes)
{
    for (int64_t c = 0; c < classes; c++) {
        const double hit = confusion[c * classes + c];
        double targets = 0, predicted = 0;
        for (int64_t i = 0; i < classes; i++) {
            targets += confusion[c * classes + i];
            predicted += confusion[i * classes + c];
        }
        lines[c] = (et_class_line){ share(hit, predicted), share(hit, targets),
                                    share(2 * hit, targets + predicted), targets };
    }
}

/* ---- curves ---- */

static double weight_of(const et_class_predictions *p, int64_t row)
{
    return p->target[row] < 0 ? 0 : p->weight ? p->weight[row] : 1;
}

static int open_curve(et_class_curve *curve, size_t points, et_error *error)
{
    *curve = (et_class_curve){ .count = 0 };
    curve->x = et_alloc_zero(points, sizeof *curve->x);
    curve->y = et_alloc_zero(points, sizeof *curve->y);
    curve->weight = et_alloc_zero(points, sizeof *curve->weight);
    if (curve->x && curve->y && curve->weight)
        return ET_OK;
    et_class_curve_release(curve);
    return et_alloc_failed(error, points * sizeof *curve->x, "a curve");
}

void et_class_curve_release(et_class_curve *curve)
{
    et_free(curve->x);
    et_free(curve->y);
    et_free(curve->weight);
    *curve = (et_class_curve){ .count = 0 };
}

/* ---- ROC ---- */

typedef struct ranked {
    float score;
    int64_t row;
} ranked;

/* Largest first; equal ones by row, so that sums have the same bits with any qsort. */
ET_SORT_BY(by_score, ranked, ET_DOWN(score), ET_UP(row))

static size_t rank(ranked *order, const et_class_predictions *p, int64_t class)
{
    size_t count = 0;
    for (int64_t row = 0; row < p->count; row++)
        if (weight_of(p, row) > 0)
            order[count++] = (ranked){ p->probability[row * p->classes + class], row };
    qsort(order, count, sizeof *order, by_score);
    return count;
}

/* Weights so far, then divided by their ends. */
static void draw_roc(et_class_curve *curve, const et_class_predictions *p, int64_t class,
                     const ranked *order, size_t count)
{
    double sum[2] = { 0, 0 };
    curve->count = 1;
    for (size_t i = 0; i < count; curve->count++) {
        const float score = order[i].score;
        double group = 0;
        for (; i < count && order[i].score == score; i++) {
            const double weight = weight_of(p, order[i].row);
            sum[p->target[order[i].row] == class] += weight;
            group += weight;
        }
        curve->x[curve->count] = sum[0];
        curve->y[curve->count] = sum[1];
        curve->weight[curve->count] = group;
    }
    const bool both = sum[0] > 0 && sum[1] > 0;
    for (size_t i = 0; both && i < curve->count; i++) {
        curve->x[i] /= sum[0];
        curve->y[i] /= sum[1];
    }
    curve->count = both ? curve->count : 0;
}

int et_roc_curve(et_class_curve *curve, const et_class_predictions *p, int64_t class,
                 et_error *error)
{
    int status = open_curve(curve, (size_t)p->count + 1, error);
    ranked *order = status ? NULL : et_alloc((size_t)p->count, sizeof *order);
    if (!status && !order) {
        et_class_curve_release(curve);
        status = et_alloc_failed(error, (size_t)p->count * sizeof *order, "a curve");
    }
    if (!status)
        draw_roc(curve, p, class, order, rank(order, p, class));
    et_free(order);
    return status;
}

/* ---- calibration ---- */

static int64_t bin_of(double p, int64_t bins)
{
    const int64_t at = (int64_t)ceil((double)bins * p) - 1;
    return at < 0 ? 0 : at >= bins ? bins - 1 : at;
}

int et_calibration_curve(et_class_curve *curve, const et_class_predictions *p, int64_t class,
                         et_error *error)
{
    const int64_t bins = p->bins ? p->bins : ET_CALIBRATION_BINS;
    int status = open_curve(curve, (size_t)bins, error);
    for (int64_t row = 0; row < p->count && !status; row++) {
        const double weight = weight_of(p, row);
        if (weight <= 0)
            continue;
        const float *of = p->probability + row * p->classes;
        const int64_t asked = class < 0 ? et_class_most_likely(of, p->classes) : class;
        const int64_t bin = bin_of((double)of[asked], bins);
        curve->x[bin] += weight * (double)of[asked];
        curve->y[bin] += weight * (p->target[row] == asked);
        curve->weight[bin] += weight;
    }
    for (int64_t bin = 0; bin < bins && !status; bin++) {
        const double weight = curve->weight[bin];
        if (weight <= 0)
            continue;
        curve->x[curve->count] = curve->x[bin] / weight;
        curve->y[curve->count] = curve->y[bin] / weight;
        curve->weight[curve->count++] = weight;
    }
    return status;
}
