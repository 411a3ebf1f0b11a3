/* Scores of numbers: first means, then squares of deviations from them, so nothing cancels. */
#include <math.h>
#include <stddef.h>

#include <etude/class_scores.h>

#include "base/options.h"
#include "metric/class_scores.h"

/* A target and its predictions, a column of the arrays. */
typedef struct column {
    const et_value_predictions *given;
    int64_t targets, which;
} column;

static double value_at(const et_value_predictions *p, int64_t at)
{
    return p->wide_value ? p->wide_value[at] : (double)p->value[at];
}

static double target_at(const et_value_predictions *p, int64_t at)
{
    return p->wide_target ? p->wide_target[at] : (double)p->target[at];
}

/* 0: the row does not count. */
static double weight_of(column c, int64_t row)
{
    for (int64_t k = 0; k < c.targets; k++)
        if (isnan(target_at(c.given, row * c.targets + k)))
            return 0;
    return c.given->weight ? c.given->weight[row] : 1;
}

static double target_of(column c, int64_t row)
{
    return target_at(c.given, row * c.targets + c.which);
}

static int check(const et_value_predictions *p, int64_t targets, et_error *error)
{
    int status = et_options_need(p, "et_value_predictions", error);
    if (status || !p)
        return status;
    if (p->targets < 0)
        status = et_fail(error, ET_ECONFIG, "scores of %lld targets: give at least 1",
                         (long long)p->targets);
    if (!status &&
        (!p->wide_value != !p->wide_target || (p->wide_value && (p->value || p->target))))
        status = et_fail(error, ET_ECONFIG,
                         "scores of both float32 and double: give either value and target, or "
                         "wide_value and wide_target");
    const bool given = p->wide_value || (p->value && p->target);
    if (!status && (p->count < 1 || !given))
        status = et_fail(error, ET_EDATA, "scores of no predictions: there are no rows");
    if (!status && targets > INT64_MAX / (int64_t)sizeof(double) / p->count)
        status = et_fail(error, ET_ECONFIG,
                         "scores of %lld rows of %lld targets: too large for any memory",
                         (long long)p->count, (long long)targets);
    for (int64_t i = 0; !status && i < p->count; i++) {
        status = et_scores_check_weight(p->weight, i, error);
        for (int64_t k = i * targets; !status && k < (i + 1) * targets; k++)
            if (!isfinite(value_at(p, k)) || isinf(target_at(p, k)))
                status = et_fail(error, ET_EDATA, "row %lld: %g for %g; give finite numbers",
                                 (long long)i + 1, value_at(p, k), target_at(p, k));
    }
    return status;
}

/* weight: of the rows that count. */
static void score_column(column c, double weight, et_value_scores *s)
{
    /* From the first target that counts on, so that no two large sums are subtracted. */
    int64_t first = 0;
    double sum = 0;
    while (weight_of(c, first) <= 0)
        first++;
    for (int64_t i = first; i < c.given->count; i++)
        if (weight_of(c, i) > 0)
            sum += weight_of(c, i) * (target_of(c, i) - target_of(c, first));
    const double mean = target_of(c, first) + sum / weight;
    double squared = 0, absolute = 0, squares = 0;
    for (int64_t i = 0; i < c.given->count; i++) {
        double w = weight_of(c, i);
        if (w <= 0)
            continue;
        double t = target_of(c, i), d = value_at(c.given, i * c.targets + c.which) - t;
        squared += w * d * d;
        absolute += w * fabs(d);
        squares += w * (t - mean) * (t - mean);
    }
    s->mse += squared / weight;
    s->rmse += sqrt(squared / weight);
    s->mae += absolute / weight;
    s->r2 += squares > 0 ? 1 - squared / squares : squared > 0 ? 0 : 1;
}

int et_value_scores_compute(et_value_scores *scores, const et_value_predictions *predictions,
                            et_error *error)
{
    const int64_t targets = predictions && predictions->targets > 0 ? predictions->targets : 1;
    double weight = 0;
    *scores = (et_value_scores){ 0 };
    int status = check(predictions, targets, error);
    if (status || !predictions)
        return status;
    for (int64_t i = 0; i < predictions->count; i++)
        weight += weight_of((column){ predictions, targets, 0 }, i);
    if (weight <= 0)
        return et_fail(error, ET_EDATA, "scores of %lld rows: all weights are 0",
                       (long long)predictions->count);
    for (int64_t k = 0; k < targets; k++)
        score_column((column){ predictions, targets, k }, weight, scores);
    scores->mse /= (double)targets;
    scores->rmse /= (double)targets;
    scores->mae /= (double)targets;
    scores->r2 /= (double)targets;
    return ET_OK;
}

const char *const et_value_score_names[] = { "rmse", "mae", "r2", "mse", NULL };

int et_value_scores_log(const et_value_scores *s, const char *prefix, et_value *dict,
                        et_error *error)
{
    const double values[] = { s->rmse, s->mae, s->r2, s->mse };
    return et_scores_log(et_value_score_names, values, prefix, dict, error);
}
