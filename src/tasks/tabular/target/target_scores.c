/* Scores of validation, see target.h. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/sort.h"
#include "base/values/value.h"
#include "data/table/features/transforms.h"
#include "formats/events/log_names.h"
#include "metric/class_scores.h"
#include "tasks/tabular/target/target.h"

#define PREFIX ET_LOGGED_OF_VALIDATION

/* Entries are sorted by frequency, so a "yes" is positive, or else the larger number. */
int et_tabular_positive(const char *const *label, int classes)
{
    et_assert(label && classes > 0);
    return classes != 2 || !et_label_is_positive(label[0], label[1]);
}

int et_tabular_positive_of(const et_tabular_task *task)
{
    const et_encoded_field *field =
        et_encoder_field(task->encoder, et_encoder_target(task->encoder));
    return et_tabular_positive(field->label, field->classes);
}

static et_class_predictions predictions(const et_scored_targets *of, const et_validation_rows *rows)
{
    return (et_class_predictions){ .count = rows->rows,
                                   .classes = rows->width,
                                   .probability = rows->output,
                                   .target = rows->class,
                                   .weight = rows->weight,
                                   .bins = of->bins,
                                   .first = of->first,
                                   .threshold = of->threshold,
                                   .costs = of->costs };
}

et_class_predictions et_tabular_predictions_of(const et_tabular_task *task,
                                               const et_validation_rows *rows)
{
    const et_scored_targets of = et_scored_targets_of(task);
    return predictions(&of, rows);
}

et_scored_targets et_scored_targets_of(const et_tabular_task *task)
{
    const et_encoded_field *field =
        et_encoder_field(task->encoder, et_encoder_target(task->encoder));
    return (et_scored_targets){ .column = field->column,
                                .level = task->target.level,
                                .bins = task->options.calibration_bins,
                                .first = task->target.classes && !et_tabular_positive_of(task),
                                .threshold = task->scoring.threshold,
                                .costs = task->scoring.costs };
}

/* ---- classes ---- */

/* If all rows have the same one of two classes, precision is undefined like AUC; recall and f1 are
 * undefined if no row has the positive class. Undefined scores are NaN, which is never the best. */
static void leave_unmeasured(et_class_scores *scores, const et_class_predictions *of)
{
    if (of->classes != 2 || !isnan(scores->auc))
        return;
    int64_t row = 0;
    while (row < of->count && (of->target[row] < 0 || of->weight[row] <= 0))
        row++;
    if (row == of->count)
        return;
    scores->precision = NAN;
    if (of->target[row] == of->first)
        scores->recall = scores->f1 = NAN;
}

static int score_classes(const et_scored_targets *of, const et_validation_rows *rows,
                         et_value *logs, et_error *error)
{
    const et_class_predictions p = predictions(of, rows);
    et_class_scores scores;
    int status = et_class_scores_compute(&scores, NULL, &p, error);
    if (status)
        return status;
    leave_unmeasured(&scores, &p);
    return et_class_scores_log(&scores, PREFIX, logs, error);
}

/* A group of scores, by the target's name unless that could be a score's. */
static et_value *group_of(et_value *logs, const char *name)
{
    char other[80];
    if (strncmp(name, PREFIX, sizeof PREFIX - 1) != 0 && !et_value_get(logs, name))
        return et_value_set_dict(logs, name);
    snprintf(other, sizeof other, "target.%.64s", name);
    return et_value_set_dict(logs, other);
}

/* to[row] = from[row, column] */
static void copy_column(double *to, const double *from, int64_t rows, int64_t width, int64_t column)
{
    et_assert(column >= 0 && column < width);
    for (int64_t row = 0; row < rows; row++)
        to[row] = from[row * width + column];
}

/* ---- numbers ---- */

/* If all targets are equal, there is no variance to explain. */
static bool all_alike(const et_validation_rows *s, const double *written, int64_t width)
{
    const double *first = NULL;
    for (int64_t row = 0; row < s->rows; row++) {
        if (s->weight[row] <= 0)
            continue;
        first = first ? first : written + row * width;
        for (int64_t i = 0; i < width; i++)
            if (written[row * width + i] != first[i])
                return false;
    }
    return true;
}

static int score_values(const et_validation_rows *s, int64_t targets, const double *value,
                        const double *written, et_value *logs, et_error *error)
{
    et_assert(!s->rows || (targets > 0 && value && written));
    const et_value_predictions predictions = { .count = s->rows,
                                               .targets = targets,
                                               .wide_value = value,
                                               .wide_target = written,
                                               .weight = s->weight };
    et_value_scores scores;
    int status = et_value_scores_compute(&scores, &predictions, error);
    if (!status && all_alike(s, written, targets))
        scores.r2 = NAN;
    return status ? status : et_value_scores_log(&scores, PREFIX, logs, error);
}

static int score_numbers(const et_scored_targets *of, const et_validation_rows *s, et_value *logs,
                         et_error *error)
{
    et_assert(of && (!s->rows || (s->value && s->written)));
    int status = score_values(s, s->targets, s->value, s->written, logs, error);
    if (status || s->targets < 2)
        return status;
    double *one = et_alloc(2 * (size_t)s->rows, sizeof *one);
    if (!one)
        return et_alloc_failed(error, 2 * (size_t)s->rows * sizeof *one, "scores");
    double *written = one + s->rows;
    for (int64_t k = 0; k < s->targets && !status; k++) {
        copy_column(one, s->value, s->rows, s->width, k);
        copy_column(written, s->written, s->rows, s->targets, k);
        status = score_values(s, 1, one, written, group_of(logs, of->column[k]), error);
    }
    et_free(one);
    return status;
}

/* ---- labels ---- */

/* The scores of a class as a list, in the order of their names. */
enum { CLASS_SCORES = sizeof(et_class_scores) / sizeof(double) };
_Static_assert(sizeof(et_class_scores) == CLASS_SCORES * sizeof(double), "numbers alone");

typedef struct labels {
    const et_validation_rows *rows;
    float *probability;  /* [rows, 2] of one label */
    int32_t *class;      /* [rows] of one label */
    double right, wrong; /* yes that was predicted right; yes and no that were not */
    double sum[CLASS_SCORES];
    int64_t known[CLASS_SCORES]; /* targets with a value */
} labels;

static bool is_yes(double probability)
{
    return probability > 0.5;
}

static int score_label(labels *l, int64_t k, int64_t bins, const char *name, et_value *logs,
                       et_error *error)
{
    const et_validation_rows *s = l->rows;
    double values[CLASS_SCORES];
    et_class_scores scores;
    et_assert(k >= 0 && k < s->width);
    for (int64_t row = 0; row < s->rows; row++) {
        const double p = s->value[row * s->width + k];
        const bool yes = s->written[row * s->width + k] > 0;
        l->probability[2 * row] = 1 - (float)p;
        l->probability[2 * row + 1] = (float)p;
        l->class[row] = yes;
        l->right += s->weight[row] * (yes && is_yes(p));
        l->wrong += s->weight[row] * (yes != is_yes(p));
    }
    const et_class_predictions one = { .count = s->rows,
                                       .classes = 2,
                                       .probability = l->probability,
                                       .target = l->class,
                                       .weight = s->weight,
                                       .bins = bins };
    int status = et_class_scores_compute(&scores, NULL, &one, error);
    if (status)
        return status;
    memcpy(values, &scores, sizeof values);
    for (int i = 0; i < CLASS_SCORES; i++) {
        l->sum[i] += isnan(values[i]) ? 0 : values[i];
        l->known[i] += !isnan(values[i]);
    }
    return et_class_scores_log(&scores, PREFIX, group_of(logs, name), error);
}

/* The share of rows of which every label is right. */
static double exact_match(const et_validation_rows *s)
{
    double all = 0, exact = 0;
    for (int64_t row = 0; row < s->rows; row++) {
        bool right = true;
        for (int64_t k = row * s->width; k < (row + 1) * s->width; k++)
            right &= is_yes(s->value[k]) == (s->written[k] > 0);
        all += s->weight[row];
        exact += s->weight[row] * right;
    }
    return exact / all;
}

static int score_labels(const et_scored_targets *of, const et_validation_rows *s, et_value *logs,
                        et_error *error)
{
    et_assert(of && (!s->rows || (s->value && s->written)));
    const size_t rows = (size_t)s->rows;
    labels l = { .rows = s,
                 .probability = et_alloc(2 * rows, sizeof *l.probability),
                 .class = et_alloc(rows, sizeof *l.class) };
    int status = l.probability && l.class ? ET_OK
                                          : et_alloc_failed(error, 2 * rows * sizeof *l.probability,
                                                            "scores");
    for (int64_t k = 0; k < s->width && !status; k++)
        status = score_label(&l, k, of->bins, of->column[k], logs, error);
    if (!status) {
        const double found = 2 * l.right;
        const double more[] = { found + l.wrong > 0 ? found / (found + l.wrong) : 0,
                                exact_match(s) };
        double values[CLASS_SCORES];
        et_class_scores means;
        for (int i = 0; i < CLASS_SCORES; i++)
            values[i] = l.known[i] ? l.sum[i] / (double)l.known[i] : NAN;
        memcpy(&means, values, sizeof means);
        status = et_class_scores_log(&means, PREFIX, logs, error);
        if (!status)
            status = et_scores_log(et_tabular_label_score_names, more, PREFIX, logs, error);
    }
    et_free(l.probability);
    et_free(l.class);
    return status;
}

/* ---- quantiles ---- */

typedef struct ranked {
    double target, weight;
} ranked;

/* Of level number k: the pinball loss, and the share of targets that are not above. */
static void score_level(const et_validation_rows *s, int64_t k, double level, double scores[2])
{
    et_assert(k >= 0 && k < s->width && level > 0 && level < 1);
    double all = 0;
    scores[0] = scores[1] = 0;
    for (int64_t row = 0; row < s->rows; row++) {
        const double above = s->written[row] - s->value[row * s->width + k];
        all += s->weight[row];
        scores[0] += s->weight[row] * (above > 0 ? level * above : (level - 1) * above);
        scores[1] += s->weight[row] * (above <= 0);
    }
    scores[0] /= all;
    scores[1] /= all;
}

/* The share of targets between the outermost quantiles, and their mean distance. */
static void score_interval(const et_validation_rows *s, double scores[2])
{
    et_assert(s->width > 1);
    double all = 0;
    scores[0] = scores[1] = 0;
    for (int64_t row = 0; row < s->rows; row++) {
        const double low = s->value[row * s->width], high = s->value[(row + 1) * s->width - 1];
        all += s->weight[row];
        scores[0] += s->weight[row] * (low <= s->written[row] && s->written[row] <= high);
        scores[1] += s->weight[row] * (high - low);
    }
    scores[0] /= all;
    scores[1] /= all;
}

/* Of the median, if it is one of the levels. */
static int score_median(const et_scored_targets *of, const et_validation_rows *s, et_value *logs,
                        et_error *error)
{
    int64_t median = 0;
    while (median < s->width && of->level[median] != 0.5)
        median++;
    if (median == s->width)
        return ET_OK;
    double *value = et_alloc((size_t)s->rows, sizeof *value);
    if (!value)
        return et_alloc_failed(error, (size_t)s->rows * sizeof *value, "scores");
    copy_column(value, s->value, s->rows, s->width, median);
    int status = score_values(s, 1, value, s->written, logs, error);
    et_free(value);
    return status;
}

static int check_rows(const et_validation_rows *s, et_error *error)
{
    double all = 0;
    for (int64_t row = 0; row < s->rows; row++) {
        for (int64_t k = row * s->width; k < (row + 1) * s->width; k++)
            if (s->weight[row] > 0 && !(isfinite(s->value[k]) && isfinite(s->written[row])))
                return et_fail(error, ET_EDATA,
                               "row %lld: the quantiles or the target are not finite",
                               (long long)row + 1);
        int status = et_scores_check_weight(s->weight, row, error);
        if (status)
            return status;
        all += s->weight[row];
    }
    return all > 0 ? ET_OK
                   : et_fail(error, ET_EDATA, "scores of %lld rows: all weights are 0",
                             (long long)s->rows);
}

ET_SORT_BY(by_target, ranked, ET_UP(target), 0)

/* The pinball loss of one number for all rows, the best of a level; sorted [rows]. */
static double loss_of_constant(const ranked *sorted, int64_t rows, double all, double level)
{
    double below = 0, loss = 0;
    int64_t at = 0;
    while (at + 1 < rows && below + sorted[at].weight < level * all)
        below += sorted[at++].weight;
    for (int64_t row = 0; row < rows; row++) {
        const double above = sorted[row].target - sorted[at].target;
        loss += sorted[row].weight * (above > 0 ? level * above : (level - 1) * above);
    }
    return loss / all;
}

/* 1 - loss / the mean loss of constants; NaN: the targets are all alike. */
static int score_d2(const et_scored_targets *of, const et_validation_rows *s, double loss,
                    double *d2, et_error *error)
{
    ranked *sorted = et_alloc((size_t)s->rows, sizeof *sorted);
    double all = 0, constant = 0;
    if (!sorted)
        return et_alloc_failed(error, (size_t)s->rows * sizeof *sorted, "scores");
    for (int64_t row = 0; row < s->rows; row++) {
        sorted[row] = (ranked){ s->written[row], s->weight[row] };
        all += s->weight[row];
    }
    qsort(sorted, (size_t)s->rows, sizeof *sorted, by_target);
    for (int64_t k = 0; k < s->width; k++)
        constant += loss_of_constant(sorted, s->rows, all, of->level[k]);
    constant /= (double)s->width;
    *d2 = constant > 0 ? 1 - loss / constant : NAN;
    et_free(sorted);
    return ET_OK;
}

static int score_quantiles(const et_scored_targets *of, const et_validation_rows *s, et_value *logs,
                           et_error *error)
{
    et_assert(of->level && (!s->rows || s->targets == 1));
    static const char *const of_one[] = { "pinball_loss", "d2_pinball", NULL };
    static const char *const of_level[] = { "pinball_loss", "below", NULL };
    double scores[4] = { 0 }, own[2];
    int status = check_rows(s, error);
    for (int64_t k = 0; k < s->width && !status; k++) {
        score_level(s, k, of->level[k], own);
        scores[0] += own[0] / (double)s->width;
    }
    if (!status)
        status = score_d2(of, s, scores[0], &scores[1], error);
    if (!status && s->width > 1)
        score_interval(s, scores + 2);
    if (!status)
        status = et_scores_log(s->width > 1 ? et_tabular_quantile_score_names : of_one, scores,
                               PREFIX, logs, error);
    if (!status)
        status = score_median(of, s, logs, error);
    for (int64_t k = 0; k < s->width && !status; k++) {
        char name[40];
        snprintf(name, sizeof name, "q%.15g", of->level[k]);
        score_level(s, k, of->level[k], own);
        status = et_scores_log(of_level, own, PREFIX, group_of(logs, name), error);
    }
    return status;
}

/* ---- kinds ---- */

const et_target_kind et_target_classes = { .output = ET_TABULAR_SCORES,
                                           .scores = { et_class_score_names },
                                           .shown = { "log_loss", "accuracy" },
                                           .score = score_classes };
const et_target_kind et_target_labels = { .output = ET_TABULAR_SCORES,
                                          .scores = { et_class_score_names,
                                                      et_tabular_label_score_names },
                                          .shown = { "log_loss", "accuracy" },
                                          .score = score_labels };
const et_target_kind et_target_values = { .output = ET_TABULAR_VALUES,
                                          .scores = { et_value_score_names },
                                          .shown = { "rmse", "r2" },
                                          .score = score_numbers };
const et_target_kind et_target_quantiles = { .output = ET_TABULAR_QUANTILES,
                                             .scores = { et_value_score_names,
                                                         et_tabular_quantile_score_names },
                                             .shown = { "pinball_loss", "d2_pinball" },
                                             .score = score_quantiles };
