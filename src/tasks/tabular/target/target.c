/* The target of a table, see target.h: scores, kinds, verdicts, the choice by features and
 * settings, and the unit in a checkpoint. */
#include "tasks/tabular/target/target.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers/decimal.h"
#include "base/sort.h"
#include "base/text/format.h"
#include "base/values/value.h"
#include "data/table/features/transforms.h"
#include "formats/events/log_names.h"
#include "metric/class_scores.h"
#include "train/checkpoint/metric_name.h"

/* ---- scores ---- */

#define PREFIX ET_LOGGED_OF_VALIDATION

/* Entries are sorted by frequency, so a "yes" is positive, or else the larger number. */
int et_tabular_positive(const char *const *label, int classes)
{
    et_assert(label && classes > 0);
    return classes != 2 || !et_label_is_positive(label[0], label[1]);
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
    const et_encoded_field *field = task->target.field;
    return (et_scored_targets){ .column = field->column,
                                .level = task->target.level,
                                .bins = task->options.calibration_bins,
                                .first = task->target.classes &&
                                         !et_tabular_positive(field->label, field->classes),
                                .threshold = task->scoring.threshold,
                                .costs = task->scoring.costs };
}

/* ---- classes ---- */

/* If all rows have the same one of two classes, AUC and precision are undefined. Recall and f1 are
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
    if (!of->plain)
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

static int score_values(const et_scored_targets *of, const et_validation_rows *s, int64_t targets,
                        const double *value, const double *written, et_value *logs, et_error *error)
{
    et_assert(!s->rows || (targets > 0 && value && written));
    const et_value_predictions predictions = { .count = s->rows,
                                               .targets = targets,
                                               .wide_value = value,
                                               .wide_target = written,
                                               .weight = s->weight };
    et_value_scores scores;
    int status = et_value_scores_compute(&scores, &predictions, error);
    if (!status && !of->plain && all_alike(s, written, targets))
        scores.r2 = NAN;
    return status ? status : et_value_scores_log(&scores, PREFIX, logs, error);
}

static int score_numbers(const et_scored_targets *of, const et_validation_rows *s, et_value *logs,
                         et_error *error)
{
    et_assert(of && (!s->rows || (s->value && s->written)));
    int status = score_values(of, s, s->targets, s->value, s->written, logs, error);
    if (status || s->targets < 2 || of->plain)
        return status;
    double *one;
    if (ET_ALLOC(one, 2 * (size_t)s->rows, "scores", error))
        return ET_ENOMEM;
    double *written = one + s->rows;
    for (int64_t k = 0; k < s->targets && !status; k++) {
        copy_column(one, s->value, s->rows, s->width, k);
        copy_column(written, s->written, s->rows, s->targets, k);
        status = score_values(of, s, 1, one, written, group_of(logs, of->column[k]), error);
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
    double right, wrong; /* weight of the rows with yes that were predicted right; weight of the
                            rows that were predicted wrong */
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
    int status = l.probability && l.class ? ET_OK : et_alloc_failed(error, "scores");
    for (int64_t k = 0; k < s->width && !status; k++)
        status = score_label(&l, k, of->bins, of->column[k], logs, error);
    if (!status) {
        const double found = 2 * l.right;
        const double more[] = { found + l.wrong > 0 ? found / (found + l.wrong) : 0,
                                exact_match(s) };
        double values[CLASS_SCORES] = { 0 };
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

/* Scores of level k: the pinball loss, and the share of targets that are not above. */
static void score_level(const et_validation_rows *s, int64_t k, double level, double scores[2])
{
    et_assert(k >= 0 && k < s->width && level > 0 && level < 1);
    double all = 0;
    scores[0] = scores[1] = 0;
    for (int64_t row = 0; row < s->rows; row++) {
        const double above = s->written[row] - s->value[row * s->width + k];
        all += s->weight[row];
        scores[0] += s->weight[row] * et_pinball(level, above);
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

/* Scores the median, if it is one of the levels. */
static int score_median(const et_scored_targets *of, const et_validation_rows *s, et_value *logs,
                        et_error *error)
{
    int64_t median = 0;
    while (median < s->width && of->level[median] != 0.5)
        median++;
    if (median == s->width)
        return ET_OK;
    double *value;
    if (ET_ALLOC(value, s->rows, "scores", error))
        return ET_ENOMEM;
    copy_column(value, s->value, s->rows, s->width, median);
    int status = score_values(of, s, 1, value, s->written, logs, error);
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
        loss += sorted[row].weight * et_pinball(level, above);
    }
    return loss / all;
}

/* 1 - loss / the mean loss of constants; NaN: the targets are all alike. */
static int score_d2(const et_scored_targets *of, const et_validation_rows *s, double loss,
                    double *d2, et_error *error)
{
    ranked *sorted = et_alloc(s->rows, sizeof *sorted);
    double all = 0, constant = 0;
    if (!sorted)
        return et_alloc_failed(error, "scores");
    for (int64_t row = 0; row < s->rows; row++) {
        sorted[row] = (ranked){ s->written[row], s->weight[row] };
        all += s->weight[row];
    }
    qsort(sorted, s->rows, sizeof *sorted, by_target);
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
    if (status)
        return status;
    for (int64_t k = 0; k < s->width; k++) {
        score_level(s, k, of->level[k], own);
        scores[0] += own[0] / (double)s->width;
    }
    if (s->width > 1)
        score_interval(s, scores + 2);
    if ((status = score_d2(of, s, scores[0], &scores[1], error)) ||
        (status = et_scores_log(s->width > 1 ? et_tabular_quantile_score_names : of_one, scores,
                                PREFIX, logs, error)) ||
        (status = score_median(of, s, logs, error)))
        return status;
    for (int64_t k = 0; k < s->width && !status; k++) {
        char name[40] = "q";
        et_decimal_print(name + 1, sizeof name - 1, 15, 0, of->level[k]);
        score_level(s, k, of->level[k], own);
        status = et_scores_log(of_level, own, PREFIX, group_of(logs, name), error);
    }
    return status;
}

/* ---- kinds ---- */

#define ACCURACY PREFIX "accuracy"
#define R2       PREFIX "r2"
#define RMSE     PREFIX "rmse"

/* r2 ranks like the squared error, and d2_pinball like the pinball loss. With few rows, the log
 * loss is less noisy than the accuracy. */
const et_target_kind et_target_classes = { .output = ET_TABULAR_SCORES,
                                           .mean = "mean score",
                                           .labelled = true,
                                           .single = true,
                                           .noun = "has classes",
                                           .losses = "softmax or binary",
                                           .scores = { et_class_score_names },
                                           .shown = { "log_loss", "accuracy" },
                                           .main_metrics = { ACCURACY, ET_TABULAR_LOG_LOSS },
                                           .best_metric = ET_TABULAR_LOG_LOSS,
                                           .score = score_classes };
const et_target_kind et_target_labels = { .output = ET_TABULAR_SCORES,
                                          .mean = "mean score",
                                          .labelled = true,
                                          .noun = "has classes",
                                          .losses = "binary",
                                          .scores = { et_class_score_names,
                                                      et_tabular_label_score_names },
                                          .shown = { "log_loss", "accuracy" },
                                          .main_metrics = { ACCURACY, ET_TABULAR_LOG_LOSS },
                                          .best_metric = ET_TABULAR_LOG_LOSS,
                                          .score = score_labels };
const et_target_kind et_target_values = { .output = ET_TABULAR_VALUES,
                                          .mean = "mean value",
                                          .noun = "is a number",
                                          .losses = "squared, absolute or huber",
                                          .scores = { et_value_score_names },
                                          .shown = { "rmse", "r2" },
                                          .main_metrics = { R2, RMSE },
                                          .best_metric = R2,
                                          .score = score_numbers };
const et_target_kind et_target_quantiles = { .output = ET_TABULAR_QUANTILES,
                                             .mean = "mean quantile",
                                             .single = true,
                                             .noun = "is a number",
                                             .losses = "squared, absolute or huber",
                                             .scores = { et_value_score_names,
                                                         et_tabular_quantile_score_names },
                                             .shown = { "pinball_loss", "d2_pinball" },
                                             .main_metrics = { ET_TABULAR_D2, ET_TABULAR_PINBALL },
                                             .best_metric = ET_TABULAR_D2,
                                             .score = score_quantiles };

const et_target_kind *et_target_kind_of(const et_encoded_field *field, bool quantiles)
{
    et_assert(et_encoded_is_target(field->kind));
    return field->kind == ET_ENCODED_CLASS    ? &et_target_classes
           : field->kind == ET_ENCODED_LABELS ? &et_target_labels
           : quantiles                        ? &et_target_quantiles
                                              : &et_target_values;
}

/* ---- verdicts ---- */

/* Plainly bad results of scored rows, each as a line with what to try. A line needs as many rows as
 * make chance unlikely. */
#define ROWS_LEAST  20   /* of all rows, and of both sides of an AUC */
#define CLASS_ROWS  5    /* of a class */
#define CLASS_SHARE 0.01 /* fewest rows of a class, as a share of all rows */
#define AUC_LEAST   0.55
#define LOSS_MORE   1.02 /* times the loss of a constant prediction */
#define NAMED_MAX   5

#define TRY "try other columns, more epochs, or tabular/auto"

/* ---- numbers ---- */

/* Column k of rows, [rows, width]: mean, sum of squares around it; whether all are equal. */
typedef struct moments {
    double mean, squares;
    bool same;
} moments;

static moments moments_of(const et_validation_rows *s, const double *values, int64_t width,
                          int64_t k)
{
    moments out = { .same = true };
    double weight = 0;
    for (int64_t i = 0; i < s->rows; i++) {
        if (!(s->weight[i] > 0))
            continue;
        const double off = values[i * width + k] - out.mean;
        out.same &= weight == 0 || off == 0 || values[i * width + k] == out.mean;
        weight += s->weight[i];
        out.mean += off * s->weight[i] / weight;
        out.squares += s->weight[i] * off * (values[i * width + k] - out.mean);
    }
    return out;
}

static void judge_numbers(et_strbuf *out, const et_tabular_task *task, const et_validation_rows *s,
                          int64_t k)
{
    const int64_t of = task->target.quantiles ? 0 : k;
    const char *name = task->target.field->column[of];
    const moments target = moments_of(s, s->written, s->targets, of);
    const moments predicted = moments_of(s, s->value, s->width, k);
    double squares = 0;
    if (target.same)
        return;
    for (int64_t i = 0; i < s->rows; i++) {
        const double off = s->value[i * s->width + k] - s->written[i * s->targets + of];
        squares += s->weight[i] > 0 ? s->weight[i] * off * off : 0;
    }
    if (predicted.same)
        et_strbuf_printf(out,
                         "target %.60s: the prediction is %.6g for every row, so the model has "
                         "learned nothing from the columns; " TRY "\n",
                         name, predicted.mean);
    else if (squares > target.squares && !task->target.quantiles)
        et_strbuf_printf(out,
                         "target %.60s: r2 is %.3g, which is worse than to predict the mean %.6g "
                         "for every row; " TRY ", or set task.loss=huber if a few values are far "
                         "from the others\n",
                         name, 1 - squares / target.squares, target.mean);
}

/* ---- classes ---- */

typedef struct tally {
    double rows, *written, *predicted; /* [classes] weights; owned */
    double loss;                       /* sum of -w ln p */
    bool same;                         /* all rows have the same probabilities */
} tally;

static void count_classes(tally *t, const et_class_predictions *p)
{
    const float *first = NULL;
    t->same = true;
    for (int64_t i = 0; i < p->count; i++) {
        const float *row = p->probability + i * p->classes;
        const double weight = p->weight[i];
        int64_t best = 0;
        if (p->target[i] < 0 || !(weight > 0))
            continue;
        for (int64_t k = 1; k < p->classes; k++)
            best = row[k] > row[best] ? k : best;
        if (p->threshold > 0 && p->classes == 2)
            best = (double)row[!p->first] >= p->threshold ? !p->first : p->first;
        first = first ? first : row;
        t->same &= !memcmp(first, row, p->classes * sizeof *row);
        t->rows += weight;
        t->written[p->target[i]] += weight;
        t->predicted[best] += weight;
        t->loss -= weight * log(fmax((double)row[p->target[i]], 0x1p-52));
    }
}

/* "class b (34 of 400 rows)", "classes a (...) and b (...)". *rare: one of them has less than half
 * of the average number of rows of a class. */
static int append_missed(et_strbuf *out, const tally *t, const et_encoded_field *target, bool *rare)
{
    int missed = 0;
    *rare = false;
    for (int k = 0; k < target->classes; k++) {
        if (t->predicted[k] > 0 || t->written[k] < fmax(CLASS_ROWS, CLASS_SHARE * t->rows))
            continue;
        *rare |= t->written[k] < t->rows / (2 * target->classes);
        if (missed++ < NAMED_MAX)
            et_strbuf_printf(out, "%s%.60s (%s of %s rows)", missed > 1 ? ", " : "",
                             target->label[k], et_format_count(llround(t->written[k])).text,
                             et_format_count(llround(t->rows)).text);
    }
    if (missed > NAMED_MAX)
        et_strbuf_printf(out, " and %d more", missed - NAMED_MAX);
    return missed;
}

static void judge_counts(et_strbuf *out, const et_tabular_task *task, const et_class_predictions *p,
                         const tally *t)
{
    const et_encoded_field *target = task->target.field;
    et_strbuf missed = ET_STRBUF_INIT;
    double constant = 0, most = 0;
    for (int k = 0; k < target->classes; k++) {
        most = fmax(most, t->written[k]);
        constant -= t->written[k] > 0 ? t->written[k] * log(t->written[k] / t->rows) : 0;
    }
    bool rare = false;
    const int count = p->costs ? 0 : append_missed(&missed, t, target, &rare);
    if (most == t->rows)
        et_strbuf_reset(out);
    else if (t->same)
        et_strbuf_printf(out,
                         "target %.60s: the prediction is the same for every row, so the model has "
                         "learned nothing from the columns; " TRY "\n",
                         target->column[0]);
    else if (t->loss > LOSS_MORE * constant)
        et_strbuf_printf(out,
                         "target %.60s: the log loss is %.3g, which is worse than %.3g of the same "
                         "class frequencies for every row; try more or fewer epochs, or "
                         "tabular/auto\n",
                         target->column[0], t->loss / t->rows, constant / t->rows);
    if (count && most < t->rows)
        et_strbuf_printf(
            out, "target %.60s: %s %s %s never predicted; %s\n", target->column[0],
            count > 1 ? "classes" : "class", et_strbuf_text(&missed), count > 1 ? "are" : "is",
            !rare       ? TRY
            : count > 1 ? "train with --class-weights balanced, or give more rows of them"
                        : "train with --class-weights balanced, or give more rows of it");
    et_strbuf_release(&missed);
}

/* Judges one of several targets with two classes. */
static void judge_label(et_strbuf *out, const et_tabular_task *task, const et_validation_rows *s,
                        int64_t k)
{
    const et_encoded_field *target = task->target.field;
    double written[2] = { 0, 0 }, predicted[2] = { 0, 0 };
    for (int64_t i = 0; i < s->rows; i++) {
        written[s->written[i * s->width + k] > 0] += s->weight[i];
        predicted[s->value[i * s->width + k] > 0.5] += s->weight[i];
    }
    for (int yes = 0; yes < 2; yes++)
        if (!(predicted[yes] > 0) &&
            written[yes] >= fmax(CLASS_ROWS, CLASS_SHARE * (written[0] + written[1])) &&
            written[!yes] > 0)
            et_strbuf_printf(
                out, "target %.60s: class %.60s (%s of %s rows) is never predicted; " TRY "\n",
                target->column[k], target->label[2 * k + yes],
                et_format_count(llround(written[yes])).text,
                et_format_count(llround(written[0] + written[1])).text);
}

static int judge_classes(et_strbuf *out, const et_tabular_task *task, const et_validation_rows *s,
                         et_error *error)
{
    et_class_predictions p = et_tabular_predictions_of(task, s);
    tally t = { .written = et_alloc_zero(2 * (size_t)p.classes, sizeof *t.written) };
    et_class_scores scores;
    int status = t.written ? et_class_scores_compute(&scores, NULL, &p, error)
                           : et_alloc_failed(error, "scores");
    t.predicted = t.written + p.classes;
    if (!status)
        count_classes(&t, &p);
    if (!status && t.rows >= ROWS_LEAST)
        judge_counts(out, task, &p, &t);
    const double rest = status ? 0 : fmin(t.written[0], t.rows - t.written[0]);
    if (!status && !t.same && rest >= ROWS_LEAST && scores.auc < AUC_LEAST)
        et_strbuf_printf(out,
                         "target %.60s: auc is %.3g, and 0.5 is chance: the columns say little "
                         "about the target, or the model did not learn; " TRY "\n",
                         task->target.field->column[0], scores.auc);
    et_free(t.written);
    return status;
}

int et_tabular_judge(et_strbuf *out, const et_tabular_task *task, const et_validation_rows *s,
                     et_error *error)
{
    et_assert(out && task && s);
    if (s->rows < ROWS_LEAST)
        return ET_OK;
    if (task->target.classes)
        return judge_classes(out, task, s, error);
    for (int64_t k = 0; k < (task->target.quantiles ? 1 : s->width); k++)
        (task->target.labels ? judge_label : judge_numbers)(out, task, s, k);
    return out->failed ? et_alloc_failed(error, "a verdict") : ET_OK;
}

/* ---- of a training ---- */

int et_tabular_judge_best(et_tabular_task *task, const et_value *logs, et_error *error)
{
    et_assert(task && logs);
    const char *metric = task->task.class->best_metric;
    const et_value *value = et_value_get(logs, metric);
    const bool measured = value && value->kind == ET_VALUE_FLOAT;
    et_tabular_verdict *v = &task->verdict;
    const double sign = et_metric_lower_is_better(metric) ? -1 : 1;
    if (!measured || task->results.set || (v->judged && sign * value->real <= v->value))
        return ET_OK;
    v->judged = true;
    v->value = sign * value->real;
    et_strbuf_reset(&v->best);
    return et_tabular_judge(&v->best, task, &task->results, error);
}

const char *et_tabular_verdict_of(et_task *self, bool best)
{
    et_tabular_task *task = et_tabular_task_of(self);
    et_tabular_verdict *v = &task->verdict;
    if (best && v->judged)
        return et_strbuf_text(&v->best);
    et_strbuf_reset(&v->last);
    if (task->results.rows && v->judged && et_tabular_judge(&v->last, task, &task->results, NULL))
        et_strbuf_reset(&v->last);
    return et_strbuf_text(&v->last);
}

/* ---- the target of a task ---- */

static int find_weight(et_tabular_target *target, const et_tabular_options *options,
                       const et_encoder *encoder, et_error *error)
{
    const int index = et_encoder_weight(encoder);
    const et_encoded_field *field = index < 0 ? NULL : et_encoder_field(encoder, index);
    const char *wanted = options->weight && *options->weight ? options->weight : NULL;
    target->weight = field ? field->name : NULL;
    if (wanted && !field)
        return et_fail(error, ET_ECONFIG,
                       "task.weight is %s, but the features have no weight: add {name: W, type: "
                       "weight, fields: %s}",
                       wanted, wanted);
    if (wanted && strcmp(wanted, field->column[0]) != 0)
        return et_fail(error, ET_ECONFIG,
                       "task.weight is %s, but the weight in the features is %s; name one column",
                       wanted, field->column[0]);
    return ET_OK;
}

/* Checks that the targets of the features are those of the settings, in any order. */
static int check_names(const et_tabular_options *options, const et_encoded_field *field,
                       et_error *error)
{
    const int64_t count = field->kind == ET_ENCODED_CLASS ? 1 : field->width;
    const et_strings *wanted = &options->target;
    if (wanted->count && wanted->count != (size_t)count)
        return et_fail(error, ET_ECONFIG,
                       "task.target names %s, but the target in the features has %lld; name the "
                       "same columns",
                       et_format_many((int64_t)wanted->count, "column").text, (long long)count);
    for (size_t i = 0; i < wanted->count; i++) {
        int64_t k = 0;
        while (k < count && strcmp(wanted->items[i], field->column[k]) != 0)
            k++;
        if (k == count)
            return et_fail(error, ET_ECONFIG,
                           "task.target is %s, but the target in the features is %s%s; name %s",
                           wanted->items[i], field->column[0], count > 1 ? ", ..." : "",
                           count > 1 ? "the same columns" : "one column");
    }
    return ET_OK;
}

/* Checks that the loss is one of this kind of target. */
static int check_loss(const et_tabular_target *target, const et_tabular_options *options,
                      const et_encoded_field *field, et_error *error)
{
    const int loss = options->loss;
    if (loss == ET_TABULAR_LOSS_BINARY && target->classes && field->classes != 2)
        return et_fail(error, ET_ECONFIG,
                       "task.loss: binary needs two classes, but %s has %d; choose softmax",
                       field->column[0], field->classes);
    if (loss == ET_TABULAR_LOSS_SOFTMAX && target->labels)
        return et_fail(error, ET_ECONFIG,
                       "task.loss: softmax is for one target, and there are %d; choose binary, or "
                       "auto",
                       target->labels);
    if (loss != ET_TABULAR_LOSS_AUTO && target->kind->labelled != (loss <= ET_TABULAR_LOSS_BINARY))
        return et_fail(error, ET_ECONFIG, "task.loss: the target %s %s; choose %s, or auto",
                       field->column[0], target->kind->noun, target->kind->losses);
    return ET_OK;
}

bool et_tabular_weighs_classes(const et_tabular_task *task)
{
    const et_strings *given = &task->options.class_weights;
    const et_encoded_field *field = task->target.field;
    const et_column_metadata *m = et_metadata_find(task->texts.metadata, field->column[0]);
    double first = 1; /* of a class without a weight */
    bool equal = true;
    if (given->count == 1 && !strcmp(given->items[0], "balanced")) {
        equal = m->counts && !task->target.weight;
        for (int i = 1; equal && i < m->entry_count; i++)
            equal = m->counts[i] == m->counts[0];
        return !equal;
    }
    for (size_t i = 0; i < given->count; i++) {
        const char *text = given->items[i], *colon = strrchr(text, ':'), *end = strrchr(text, '=');
        end = colon > end ? colon : end;
        const double weight = end ? et_decimal_read(end + 1, NULL) : 1;
        first = i == 0 && given->count == (size_t)field->classes ? weight : first;
        equal &= weight == first;
    }
    return !equal;
}

/* Checks settings that only some kinds of target have. */
static int check_settings(const et_tabular_target *target, const et_tabular_options *options,
                          const et_encoded_field *field, et_error *error)
{
    const char *of_classes = options->label_smoothing > 0   ? "label_smoothing"
                             : options->class_weights.count ? "class_weights"
                             : options->calibration_bins != ET_TABULAR_CALIBRATION_BINS
                                 ? "calibration_bins"
                                 : NULL;
    if (target->values && of_classes)
        return et_fail(error, ET_ECONFIG,
                       "task.%s: the target %s is a number, not a class; leave this setting out",
                       of_classes, field->column[0]);
    if (target->labels && options->class_weights.count)
        return et_fail(error, ET_ECONFIG,
                       "task.class_weights: weights are of the classes of one target, and there "
                       "are %d; leave this setting out",
                       target->labels);
    if (target->quantiles && target->values != 1)
        return et_fail(error, ET_ECONFIG,
                       "task.quantile_levels: quantiles need one target that is a number, but the "
                       "target %s %s; leave this setting out",
                       field->column[0], target->values ? "has several columns" : "has classes");
    if (options->model.type == ET_TABULAR_PACK && !options->ensemble.count &&
        !et_pack_learns((size_t)target->labels, (size_t)target->quantiles))
        return et_fail(error, ET_ECONFIG,
                       "a pack (task.model.type: pack) cannot learn %s yet; choose another model, "
                       "such as tabular/realmlp",
                       target->labels ? "several targets of two classes" : "quantiles");
    return ET_OK;
}

int et_tabular_target_of(et_tabular_target *target, const et_tabular_options *options,
                         const et_encoder *encoder, et_error *error)
{
    et_assert(target && options && encoder);
    const int index = et_encoder_target(encoder);
    const char *key[2];
    int targets = 0;
    if (et_encoder_key(encoder, 0, &key[0]) >= 0 && et_encoder_key(encoder, 1, &key[1]) >= 0)
        return et_fail(error, ET_ECONFIG, "the features %s and %s are both keys; keep one", key[0],
                       key[1]);
    for (int f = 0; f < et_encoder_fields(encoder); f++)
        targets += et_encoded_is_target(et_encoder_field(encoder, f)->kind);
    if (index < 0 || targets != 1)
        return et_fail(error, ET_ECONFIG, "the features have %d targets; keep one", targets);
    const et_encoded_field *field = et_encoder_field(encoder, index);
    *target = (et_tabular_target){
        .field = field,
        .classes = field->kind == ET_ENCODED_CLASS ? field->classes : 0,
        .labels = field->kind == ET_ENCODED_LABELS ? (int)field->width : 0,
        .values = field->kind == ET_ENCODED_VALUES ? field->width : 0,
    };
    int status;
    if ((status = check_names(options, field, error)) ||
        (status = et_tabular_levels(target->level, &target->quantiles, &options->quantile_levels,
                                    error)))
        return status;
    target->kind = et_target_kind_of(field, target->quantiles > 0);
    target->width = target->quantiles ? target->quantiles
                    : target->classes ? target->classes
                                      : field->width;
    target->logits = target->classes && options->loss == ET_TABULAR_LOSS_BINARY ? 1 : target->width;
    target->targets = target->kind->single ? 1 : target->width;
    for (int k = 1; k < target->quantiles; k++)
        if (fabs(target->level[k] - 0.5) < fabs(target->level[target->middle] - 0.5))
            target->middle = k;
    if ((status = find_weight(target, options, encoder, error)))
        return status;
    if (field->kind == ET_ENCODED_CLASS && field->classes < 2)
        return et_fail(error, ET_EDATA,
                       "the target %s has only one class (%s): there is nothing to learn",
                       field->column[0], field->classes ? field->label[0] : "none");
    if (options->target_type &&
        target->kind->labelled == (options->target_type == ET_TABULAR_TARGET_NUMBER))
        return et_fail(error, ET_ECONFIG,
                       "task.target_type is %s, but by the schema and features the target %s %s; "
                       "change these files, or set task.target_type=auto",
                       target->kind->labelled ? "number" : "class", field->column[0],
                       target->kind->noun);
    status = check_loss(target, options, field, error);
    return status ? status : check_settings(target, options, field, error);
}

et_target_unit et_tabular_unit(const et_tabular_task *task, int64_t column)
{
    et_assert(task->encoder && column >= 0);
    return task->target.values ? et_encoder_unit(task->encoder, task->target.quantiles ? 0 : column)
                               : (et_target_unit){ 0, 1 };
}

/* ---- the unit in a checkpoint ---- */

int et_target_unit_read(et_target_unit *units, int64_t targets, bool *found,
                        const et_value *identity, et_error *error)
{
    et_assert(units && targets > 0 && found);
    const et_value *list = et_value_get(identity, ET_TARGET_UNIT);
    const et_value *value = list ? list->first : NULL;
    bool sound = !list || (list->kind == ET_VALUE_LIST && list->count == 2 * (size_t)targets);
    *found = list != NULL;
    for (int64_t k = 0; k < targets; k++)
        units[k] = (et_target_unit){ 0, 1 };
    for (int64_t k = 0; sound && list && k < targets; k++) {
        double *const to[] = { &units[k].offset, &units[k].scale };
        for (int i = 0; i < 2; i++, value = value->next) {
            *to[i] = et_value_number(value);
            sound = sound && et_value_is_number(value) && isfinite(*to[i]);
        }
        sound = sound && units[k].scale > 0;
    }
    return sound ? ET_OK
                 : et_fail(error, ET_EFORMAT,
                           ET_TARGET_UNIT " must be an offset and a scale for each of %lld "
                                          "targets: the checkpoint is damaged",
                           (long long)targets);
}
