/* Plainly bad results of scored rows, each as a line with what to try. A line needs as many rows as
 * make chance unlikely. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/format.h"
#include "tasks/tabular/target/target.h"
#include "train/checkpoint/metric_name.h"

#define ROWS_LEAST  20   /* of all rows, and of both sides of an AUC */
#define CLASS_ROWS  5    /* of a class */
#define CLASS_SHARE 0.01 /* the same, of the rows */
#define AUC_LEAST   0.55
#define LOSS_MORE   1.02 /* times the loss of a constant prediction */
#define NAMED_MAX   5

#define TRY "try other columns, more epochs, or tabular/auto"

static const et_encoded_field *target_of(const et_tabular_task *task)
{
    return et_encoder_field(task->encoder, et_encoder_target(task->encoder));
}

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
    const char *name = target_of(task)->column[task->target.quantiles ? 0 : k];
    const int64_t of = task->target.quantiles ? 0 : k;
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
        t->same &= !memcmp(first, row, (size_t)p->classes * sizeof *row);
        t->rows += weight;
        t->written[p->target[i]] += weight;
        t->predicted[best] += weight;
        t->loss -= weight * log(fmax((double)row[p->target[i]], 0x1p-52));
    }
}

/* "class b (34 of 400 rows)", "classes a (...) and b (...)" */
static int append_missed(et_strbuf *out, const tally *t, const et_encoded_field *target)
{
    int missed = 0;
    for (int k = 0; k < target->classes; k++)
        if (!(t->predicted[k] > 0) && t->written[k] >= fmax(CLASS_ROWS, CLASS_SHARE * t->rows) &&
            missed++ < NAMED_MAX)
            et_strbuf_printf(out, "%s%.60s (%s of %s rows)", missed > 1 ? ", " : "",
                             target->label[k], et_format_count(llround(t->written[k])).text,
                             et_format_count(llround(t->rows)).text);
    if (missed > NAMED_MAX)
        et_strbuf_printf(out, " and %d more", missed - NAMED_MAX);
    return missed;
}

static void judge_counts(et_strbuf *out, const et_tabular_task *task, const et_class_predictions *p,
                         const tally *t)
{
    const et_encoded_field *target = target_of(task);
    et_strbuf missed = ET_STRBUF_INIT;
    double constant = 0, most = 0;
    for (int k = 0; k < target->classes; k++) {
        most = fmax(most, t->written[k]);
        constant -= t->written[k] > 0 ? t->written[k] * log(t->written[k] / t->rows) : 0;
    }
    const int count = p->costs ? 0 : append_missed(&missed, t, target);
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
        et_strbuf_printf(out,
                         "target %.60s: %s %s %s never predicted; train with "
                         "--class-weights balanced, or give more rows of %s\n",
                         target->column[0], count > 1 ? "classes" : "class",
                         et_strbuf_text(&missed), count > 1 ? "are" : "is",
                         count > 1 ? "them" : "it");
    et_strbuf_release(&missed);
}

/* One of several targets of two classes. */
static void judge_label(et_strbuf *out, const et_tabular_task *task, const et_validation_rows *s,
                        int64_t k)
{
    const et_encoded_field *target = target_of(task);
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
    int status = t.written
                     ? et_class_scores_compute(&scores, NULL, &p, error)
                     : et_alloc_failed(error, 2 * (size_t)p.classes * sizeof(double), "scores");
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
                         target_of(task)->column[0], scores.auc);
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
    return out->failed ? et_alloc_failed(error, out->length, "a verdict") : ET_OK;
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
    et_tabular_task *task = (et_tabular_task *)(void *)self;
    et_tabular_verdict *v = &task->verdict;
    if (best && v->judged)
        return et_strbuf_text(&v->best);
    et_strbuf_reset(&v->last);
    if (task->results.rows && v->judged && et_tabular_judge(&v->last, task, &task->results, NULL))
        et_strbuf_reset(&v->last);
    return et_strbuf_text(&v->last);
}
