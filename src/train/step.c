#include "train/step.h"

#include <math.h>

/* Loss sums of one step. */
typedef struct step_sums {
    double of[ET_LOSS_SUM_COUNT];
} step_sums;

int et_step_define_metrics(et_metrics *metrics, et_error *error)
{
    static const char *const names[] = { "training_loss", "training_nll", "training_accuracy",
                                         "gradient_norm" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int status = et_metrics_define(metrics, names[i], &et_metric_mean, error);
        if (status)
            return status;
    }
    return ET_OK;
}

/* Random numbers of batch `index` of this step. */
static et_random randomness(const et_step *step, int index)
{
    int64_t batch = step->count * step->accumulator.batches + index;
    return (et_random){ step->seed, (uint64_t)batch, 0 };
}

static void add_sums(step_sums *sums, const et_plan *plan)
{
    const float *batch = et_plan_output(plan, 0).data;
    for (int i = 0; i < ET_LOSS_SUM_COUNT; i++)
        sums->of[i] += batch[i];
}

/* Runs the last batch again to name the first value that is not finite. */
static int diverged(et_step *step, int index, et_error *error)
{
    et_strbuf lines = ET_STRBUF_INIT;
    const char *name = et_plan_find_not_finite(step->plan, randomness(step, index));
    step->task->class->describe_batch(step->task, &lines);
    int status = et_fail(error, ET_EDIVERGED,
                         "step %lld: loss or gradient is not finite, first in %s; batch: %s. "
                         "Lower the learning rate or clip gradients; with --accept-changes the "
                         "run goes on from its last checkpoint",
                         (long long)step->count + 1, name ? name : "the gradient's norm",
                         et_strbuf_text(&lines));
    et_strbuf_release(&lines);
    return status;
}

static void add_metrics(et_step *step, const step_sums *sums)
{
    double tokens = sums->of[ET_LOSS_SUM_TOKENS];
    step->tokens = (int64_t)tokens;
    step->loss = sums->of[ET_LOSS_SUM_LOSS] / tokens;
    et_metrics_add(step->metrics, "training_loss", step->loss, tokens);
    et_metrics_add(step->metrics, "training_nll", sums->of[ET_LOSS_SUM_NLL] / tokens, tokens);
    et_metrics_add(step->metrics, "training_accuracy", sums->of[ET_LOSS_SUM_CORRECT] / tokens,
                   tokens);
    et_metrics_add(step->metrics, "gradient_norm", step->update.gradient_norm, 1);
}

static const et_label data_label = { .name = "next batch", .kind = "waiting for data" };
static const et_label update_label = { .name = "update", .kind = "update" };

static int take_batch(et_step *step, int index, et_error *error)
{
    et_track *track = et_plan_track(step->plan);
    et_track_begin(track, &data_label, step->count * step->accumulator.batches + index + 1);
    int status = step->task->class->next(step->task, step->plan, error);
    et_track_end(track);
    return status;
}

/* The weights may change once no save reads them. */
static void update(et_step *step, double gradient_scale)
{
    et_track *track = et_plan_track(step->plan);
    et_checkpoints_wait_read(step->checkpoints);
    et_track_begin(track, &update_label, -1);
    step->update =
        et_optimizer_apply(step->optimizer, et_accumulator_sum(&step->accumulator), gradient_scale);
    et_track_end_with(track, step->update_cost);
}

int et_step_run(et_step *step, et_error *error)
{
    step_sums sums = { { 0 } };
    for (int i = 0; i < step->accumulator.batches; i++) {
        int status = take_batch(step, i, error);
        if (status)
            return status;
        et_plan_run(step->plan, randomness(step, i));
        add_sums(&sums, step->plan);
        if (!isfinite(sums.of[ET_LOSS_SUM_LOSS]))
            return diverged(step, i, error);
        et_accumulator_add(&step->accumulator, i);
    }
    update(step, 1 / sums.of[ET_LOSS_SUM_TOKENS]);
    if (!step->update.finite)
        return diverged(step, step->accumulator.batches - 1, error);
    step->count++;
    add_metrics(step, &sums);
    return ET_OK;
}
