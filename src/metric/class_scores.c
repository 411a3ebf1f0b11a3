/* Scores of classes, each a function of the confusion matrix or of all rows. Rows are added in
 * their order, so values do not depend on threads.
 *
 * AUC, exact: rows in increasing order of a class's score, in groups of equal scores. With weights
 * P of the class and N of all other rows, and weights p and n of these in a group,
 *
 *   auc = sum over groups of p (N before it + n / 2) / (P N)
 *
 * which is the area under the ROC curve by trapezoids. */
#include <etude/class_scores.h>

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/options.h"
#include "base/sort.h"
#include "base/text/strbuf.h"
#include "metric/class_scores.h"

#define BINS_MOST 1000000

/* 0 if `whole` is 0. */
static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

/* Weights of rows: of class c and predicted as c, of class c, and predicted as c. */
static void count_class(const double *confusion, int64_t classes, int64_t c, double *hit,
                        double *targets, double *guesses)
{
    *hit = confusion[c * classes + c];
    *targets = *guesses = 0;
    for (int64_t i = 0; i < classes; i++) {
        *targets += confusion[c * classes + i];
        *guesses += confusion[i * classes + c];
    }
}

void et_class_lines(et_class_line *lines, const double *confusion, int64_t classes)
{
    for (int64_t c = 0; c < classes; c++) {
        double hit, targets, guesses;
        count_class(confusion, classes, c, &hit, &targets, &guesses);
        lines[c] = (et_class_line){ share(hit, guesses), share(hit, targets),
                                    share(2 * hit, targets + guesses), targets };
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
    if (ET_ALLOC_ZERO(curve->x, points, "a curve", error) ||
        ET_ALLOC_ZERO(curve->y, points, "a curve", error) ||
        ET_ALLOC_ZERO(curve->weight, points, "a curve", error)) {
        et_class_curve_release(curve);
        return ET_ENOMEM;
    }
    return ET_OK;
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
ET_SORT_BY(by_falling_score, ranked, ET_DOWN(score), ET_UP(row))

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
    ranked *order = NULL;
    if (!status && (status = ET_ALLOC(order, p->count, "a curve", error)))
        et_class_curve_release(curve);
    size_t count = 0;
    for (int64_t row = 0; row < p->count && !status; row++)
        if (weight_of(p, row) > 0)
            order[count++] = (ranked){ p->probability[row * p->classes + class], row };
    if (!status) {
        qsort(order, count, sizeof *order, by_falling_score);
        draw_roc(curve, p, class, order, count);
    }
    et_free(order);
    return status;
}

/* ---- calibration ---- */

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
        const int64_t at = (int64_t)ceil((double)bins * (double)of[asked]) - 1;
        const int64_t bin = at < 0 ? 0 : at >= bins ? bins - 1 : at;
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

/* ---- the rows ---- */

/* The input of every score. */
typedef struct rows {
    const et_class_predictions *given;
    int64_t classes;
    double *confusion; /* [classes, classes] */
    double weight;     /* of all rows */
} rows;

int64_t et_class_choose(const et_class_predictions *given, const float *p)
{
    if (given->costs) { /* the first of the cheapest */
        int64_t best = 0;
        double least = INFINITY;
        for (int64_t y = 0; y < given->classes; y++) {
            double cost = 0;
            for (int64_t t = 0; t < given->classes; t++)
                cost += (double)p[t] * given->costs[t * given->classes + y];
            if (cost < least) {
                least = cost;
                best = y;
            }
        }
        return best;
    }
    if (given->threshold > 0)
        return (double)p[!given->first] >= given->threshold ? !given->first : given->first;
    return et_class_most_likely(p, given->classes);
}

int et_scores_check_weight(const double *weight, int64_t row, et_error *error)
{
    if (!weight || (weight[row] >= 0 && isfinite(weight[row])))
        return ET_OK;
    return et_fail(error, ET_EDATA,
                   "row %lld: the weight is %g; give a finite number of at least 0",
                   (long long)row + 1, weight[row]);
}

static int check_row(const et_class_predictions *p, int64_t row, et_error *error)
{
    if (p->target[row] < 0)
        return ET_OK;
    if (p->target[row] >= p->classes)
        return et_fail(error, ET_EDATA,
                       "row %lld: the target is class %d, but there are %lld classes",
                       (long long)row + 1, (int)p->target[row], (long long)p->classes);
    for (int64_t c = 0; c < p->classes; c++) {
        float one = p->probability[row * p->classes + c];
        if (!(one >= 0 && one <= 1.0001F))
            return et_fail(
                error, ET_EDATA,
                "row %lld: the probability of class %lld is %g; give a number from 0 to 1",
                (long long)row + 1, (long long)c, (double)one);
    }
    return et_scores_check_weight(p->weight, row, error);
}

static int check_choice(const et_class_predictions *p, et_error *error)
{
    if (!(p->threshold >= 0 && p->threshold <= 1))
        return et_fail(error, ET_ECONFIG, "scores: threshold %g; give a number above 0, at most 1",
                       p->threshold);
    if (p->threshold > 0 && (p->classes != 2 || p->costs))
        return et_fail(error, ET_ECONFIG,
                       p->costs ? "scores: give a threshold or costs, not both"
                                : "scores: a threshold needs two classes");
    for (int64_t i = 0; p->costs && i < p->classes * p->classes; i++)
        if (!(p->costs[i] >= 0 && isfinite(p->costs[i])))
            return et_fail(
                error, ET_ECONFIG,
                "scores: the cost of prediction %lld for class %lld is %g; give a finite "
                "number of at least 0",
                (long long)(i % p->classes), (long long)(i / p->classes), p->costs[i]);
    return ET_OK;
}

static int check(const et_class_predictions *p, et_error *error)
{
    int status = et_options_need(p, "et_class_predictions", error);
    if (status)
        return status;
    if (p->classes < 2 || p->classes > INT32_MAX)
        return et_fail(error, ET_ECONFIG, "scores of %lld classes: give at least 2",
                       (long long)p->classes);
    if (p->bins < 0 || p->bins > BINS_MOST)
        return et_fail(error, ET_ECONFIG, "scores: %lld bins; give 1 to %d, or 0 for %d",
                       (long long)p->bins, BINS_MOST, ET_CALIBRATION_BINS);
    if (p->count < 1 || !p->probability || !p->target)
        return et_fail(error, ET_EDATA, "scores of no predictions: there are no rows");
    status = check_choice(p, error);
    for (int64_t i = 0; !status && i < p->count; i++)
        status = check_row(p, i, error);
    return status;
}

/* ---- scores from the confusion matrix ---- */

static void score_confusion(const rows *r, et_class_scores *s)
{
    double hits = 0, seen = 0, targeted = 0, recalls = 0;
    double precision = 0, recall = 0, f1 = 0;
    for (int64_t c = 0; c < r->classes; c++) {
        double hit, targets, guesses;
        count_class(r->confusion, r->classes, c, &hit, &targets, &guesses);
        hits += hit;
        if (targets > 0) {
            targeted++;
            recalls += hit / targets;
        }
        if ((r->classes == 2 && c != !r->given->first) ||
            (r->classes > 2 && targets + guesses <= 0))
            continue;
        seen++;
        precision += share(hit, guesses);
        recall += share(hit, targets);
        f1 += share(2 * hit, targets + guesses);
    }
    et_assert(targeted >= 1 && seen >= 1);
    s->accuracy = hits / r->weight;
    s->balanced_accuracy = recalls / targeted;
    s->precision = precision / seen;
    s->recall = recall / seen;
    s->f1 = f1 / seen;
}

/* ---- by rank ---- */

/* Equal scores in order of rows, so that sums of weights have the same bits with any qsort. */
ET_SORT_BY(by_score, ranked, ET_UP(score), ET_UP(row))

/* NaN if all rows are in the class, or none are. */
static double auc_of(const rows *r, int64_t class, ranked *order)
{
    int64_t count = 0;
    double all[2] = { 0, 0 }, below = 0, area = 0;
    for (int64_t i = 0; i < r->given->count; i++) {
        double weight = weight_of(r->given, i);
        if (weight <= 0)
            continue;
        order[count++] = (ranked){ r->given->probability[i * r->classes + class], i };
        all[r->given->target[i] == class] += weight;
    }
    if (!(all[0] > 0 && all[1] > 0))
        return NAN;
    qsort(order, count, sizeof *order, by_score);
    for (int64_t i = 0; i < count;) {
        double group[2] = { 0, 0 };
        float score = order[i].score;
        for (; i < count && order[i].score == score; i++)
            group[r->given->target[order[i].row] == class] += weight_of(r->given, order[i].row);
        area += group[1] * (below + group[0] / 2);
        below += group[0];
    }
    return area / (all[0] * all[1]);
}

static int score_ranks(const rows *r, et_class_scores *s, et_error *error)
{
    ranked *order;
    double sum = 0, classes = 0;
    if (ET_ALLOC(order, r->given->count, "scores", error))
        return ET_ENOMEM;
    for (int64_t c = r->classes == 2; c < r->classes; c++) {
        double auc = auc_of(r, c, order);
        if (!isnan(auc)) {
            sum += auc;
            classes++;
        }
    }
    et_free(order);
    s->auc = classes > 0 ? sum / classes : NAN;
    return ET_OK;
}

/* ---- by probability ---- */

static void score_probabilities(const rows *r, et_class_scores *s)
{
    double log_loss = 0, brier = 0;
    for (int64_t i = 0; i < r->given->count; i++) {
        const double weight = weight_of(r->given, i);
        if (weight <= 0)
            continue;
        const float *p = r->given->probability + i * r->classes;
        const int32_t target = r->given->target[i];
        double squares = 0;
        for (int64_t c = r->classes == 2; c < r->classes; c++) {
            const double d = (double)p[c] - (c == target);
            squares += d * d;
        }
        log_loss -= weight * log(fmin(fmax((double)p[target], DBL_EPSILON), 1 - DBL_EPSILON));
        brier += weight * squares;
    }
    s->log_loss = log_loss / r->weight;
    s->brier = brier / r->weight;
}

/* Scores the curve of et_calibration_curve (class_scores.h). */
static int score_calibration(const rows *r, et_class_scores *s, et_error *error)
{
    et_class_curve curve;
    double sum = 0;
    int status = et_calibration_curve(&curve, r->given, et_calibrated_class(r->given), error);
    if (status)
        return status;
    for (size_t b = 0; b < curve.count; b++)
        sum += fabs(curve.y[b] - curve.x[b]) * curve.weight[b];
    et_class_curve_release(&curve);
    s->calibration_error = sum / r->weight;
    return ET_OK;
}

/* ---- all ---- */

static int score(rows *r, et_class_scores *scores, et_error *error)
{
    et_assert(r->confusion && r->classes >= 2 && r->weight == 0);
    for (int64_t i = 0; i < r->classes * r->classes; i++)
        r->confusion[i] = 0;
    for (int64_t i = 0; i < r->given->count; i++) {
        double weight = weight_of(r->given, i);
        if (weight <= 0)
            continue;
        const float *p = r->given->probability + i * r->classes;
        r->confusion[r->given->target[i] * r->classes + et_class_choose(r->given, p)] += weight;
        r->weight += weight;
    }
    if (r->weight <= 0)
        return et_fail(error, ET_EDATA, "scores of %lld rows: all weights are 0",
                       (long long)r->given->count);
    score_confusion(r, scores);
    score_probabilities(r, scores);
    int status = score_ranks(r, scores, error);
    return status ? status : score_calibration(r, scores, error);
}

int et_class_scores_compute(et_class_scores *scores, double *confusion,
                            const et_class_predictions *predictions, et_error *error)
{
    *scores = (et_class_scores){ 0 };
    int status = check(predictions, error);
    if (status)
        return status;
    rows r = { predictions, predictions->classes, confusion, 0 };
    if (!confusion && ET_ALLOC(r.confusion, r.classes * r.classes, "scores", error))
        return ET_ENOMEM;
    status = score(&r, scores, error);
    if (!confusion)
        et_free(r.confusion);
    return status;
}

/* ---- logs ---- */

int et_scores_log(const char *const *names, const double *values, const char *prefix,
                  et_value *dict, et_error *error)
{
    et_strbuf name = ET_STRBUF_INIT;
    bool failed = false;
    for (int i = 0; names[i]; i++) {
        et_strbuf_reset(&name);
        et_strbuf_printf(&name, "%s%s", prefix, names[i]);
        failed |= name.failed || !et_value_set_float(dict, et_strbuf_text(&name), values[i]);
    }
    et_strbuf_release(&name);
    return failed ? et_alloc_failed(error, "scores") : ET_OK;
}

const char *const et_class_score_names[] = {
    "accuracy", "balanced_accuracy", "precision", "recall", "f1", "auc", "log_loss",
    "brier",    "calibration_error", NULL
};

int et_class_scores_log(const et_class_scores *s, const char *prefix, et_value *dict,
                        et_error *error)
{
    const double values[] = {
        s->accuracy, s->balanced_accuracy, s->precision, s->recall,           s->f1,
        s->auc,      s->log_loss,          s->brier,     s->calibration_error
    };
    _Static_assert(sizeof values / sizeof *values + 1 ==
                       sizeof et_class_score_names / sizeof *et_class_score_names,
                   "a name for each");
    return et_scores_log(et_class_score_names, values, prefix, dict, error);
}
