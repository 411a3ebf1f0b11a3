/* The data flow of a step, as et_step_run reads:
 *
 *   for each batch of the update:
 *       must_leave     asked to stop: the batches before are given back
 *       take_batch     the task binds its arrays to the plan's inputs
 *       et_plan_run    forward and backward: loss sums out, gradients into the store
 *       add            sums to sums (double), gradients to the accumulator
 *   update             gradient / tokens of all batches; norm, clip, rule, average
 *   add_metrics        sums to the streaming metrics
 *
 * The loss is L = sum over tokens, and the gradient of the mean over all tokens of the step is
 * (g[0] + ... + g[n-1]) / (tokens[0] + ... + tokens[n-1]), whatever the batches' sizes: two
 * batches of 1000 and 3000 tokens weigh 1 to 3, as they would in one batch.
 *
 * Everything before the update only reads the weights. So a save may read them beside it, and a
 * step that diverges has changed nothing but gradients: the check stands before the update for
 * the loss, within it (before any weight is moved) for the gradient. */
#include "train/step.h"

#include <math.h>

#include "base/assert.h"

/* Loss sums of one step. */
typedef struct step_sums {
    double of[ET_LOSS_SUM_COUNT]; /* by et_loss_sum; float32 sums of batches, added in double */
} step_sums;

/* Indices into metric_names and et_step.metric; ET_STEP_METRICS of them. */
enum { LOSS, NLL, ACCURACY, GRADIENT_NORM };

static const char *const metric_names[ET_STEP_METRICS] = {
    [LOSS] = "training_loss",
    [NLL] = "training_nll",
    [ACCURACY] = "training_accuracy",
    [GRADIENT_NORM] = "gradient_norm",
};

/* All are means: of the first three over tokens, of the norm over steps. */
int et_step_define_metrics(et_step *step, et_metrics *metrics, et_error *error)
{
    step->metrics = metrics;
    for (int i = 0; i < ET_STEP_METRICS; i++) {
        int status = et_metrics_define(metrics, metric_names[i], &et_metric_mean, error);
        if (status)
            return status;
        step->metric[i] = et_metrics_place(metrics, metric_names[i]);
    }
    return ET_OK;
}

/* Random numbers of batch `index` of this step: counted by batches since the start of the run,
 * so no two batches draw the same dropout and a resumed run draws what it would have drawn. */
static et_random randomness(const et_step *step, int index)
{
    int64_t batch = step->count * step->accumulator.batches + index;
    return (et_random){ step->seed, (uint64_t)batch, 0 };
}

/* Output 0 of the plan is the loss node: [ET_LOSS_SUM_COUNT] float32. */
static void add_sums(step_sums *sums, const et_plan *plan)
{
    const float *batch = et_plan_output(plan, 0).data;
    for (int i = 0; i < ET_LOSS_SUM_COUNT; i++)
        sums->of[i] += batch[i];
}

/* Runs batch `index`, the last one taken, again to name the first value that is not finite. With
 * the same random numbers, so it finds what the first run met. There is none where only the sum
 * of several batches' finite gradients is too large: then its norm is named. */
static int diverged(et_step *step, int index, et_error *error)
{
    et_assert(index >= 0 && index < step->accumulator.batches);
    et_strbuf lines = ET_STRBUF_INIT;
    const char *name = et_plan_find_not_finite(step->plan, randomness(step, index));
    step->task->class->describe_batch(step->task, &lines);
    const char *last = name || index == 0 ? "" : ", the last of the sum";
    int status = et_fail(error, ET_EDIVERGED,
                         "step %lld: loss or gradient is not finite, first in %s; batch: %s%s. "
                         "Lower the learning rate or clip gradients; with --accept-changes the "
                         "run goes on from its last checkpoint",
                         (long long)step->count + 1, name ? name : "the gradient's norm",
                         et_strbuf_text(&lines), last);
    et_strbuf_release(&lines);
    return status;
}

static void add_metric(et_step *step, int which, double value, double weight)
{
    et_metrics_add_at(step->metrics, step->metric[which], value, weight);
}

/* After the update, for the norm that it measured. A mean over tokens weighs by tokens: windows
 * of unequal batches are exact. */
static void add_metrics(et_step *step, const step_sums *sums)
{
    double tokens = sums->of[ET_LOSS_SUM_TOKENS];
    step->tokens = (int64_t)tokens;
    step->loss = sums->of[ET_LOSS_SUM_LOSS] / tokens;
    add_metric(step, LOSS, step->loss, tokens);
    add_metric(step, NLL, sums->of[ET_LOSS_SUM_NLL] / tokens, tokens);
    add_metric(step, ACCURACY, sums->of[ET_LOSS_SUM_CORRECT] / tokens, tokens);
    add_metric(step, GRADIENT_NORM, step->update.gradient_norm, 1);
}

static const et_label data_label = { .name = "next batch", .kind = "waiting for data" };
static const et_label update_label = { .name = "update", .kind = "update" };

/* A span of its own: its length is how long training waits for data. */
static int take_batch(et_step *step, int index, et_track *track, et_error *error)
{
    et_track_begin(track, &data_label, step->count * step->accumulator.batches + index + 1);
    int status = step->task->class->next(step->task, step->plan, error);
    et_track_end(track);
    return status;
}

/* The weights may change once no save reads them. The wait is here and not earlier: all of a
 * step's computing may go on beside a save. */
static void update(et_step *step, double gradient_scale, et_track *track)
{
    et_checkpoints_wait_read(step->checkpoints);
    et_track_begin(track, &update_label, -1);
    step->update =
        et_optimizer_apply(step->optimizer, et_accumulator_sum(&step->accumulator), gradient_scale);
    et_track_end_with(track, step->update_cost);
}

/* Between two batches. An update of many may take minutes, which nobody who asks to stop wants to
 * wait; before its first there is nothing to leave. */
static bool must_leave(const et_step *step)
{
    return step->task->class->rewind && step->stop && *step->stop;
}

/* With one batch an update is never left. */
static void mark(const et_step *step)
{
    if (step->accumulator.batches > 1 && step->task->class->mark)
        step->task->class->mark(step->task);
}

/* Nothing but the gradients' sum and the position in the data has moved by then. */
static int leave(et_step *step, et_error *error)
{
    int status = step->task->class->rewind(step->task, error);
    return status ? status
                  : et_fail(error, ET_EINTERRUPTED, "asked to stop in step %lld",
                            (long long)step->count + 1);
}

int et_step_run(et_step *step, et_error *error)
{
    et_assert(step->metrics && step->plan && step->optimizer);
    step_sums sums = { { 0 } };
    et_track *track = et_plan_track(step->plan);
    mark(step);
    for (int i = 0; i < step->accumulator.batches; i++) {
        if (i > 0 && must_leave(step))
            return leave(step, error);
        int status = take_batch(step, i, track, error);
        if (status)
            return status;
        et_plan_run(step->plan, randomness(step, i));
        add_sums(&sums, step->plan);
        bool finite = et_accumulator_add(&step->accumulator, i);
        if (!finite || !isfinite(sums.of[ET_LOSS_SUM_LOSS]))
            return diverged(step, i, error);
    }
    update(step, 1 / sums.of[ET_LOSS_SUM_TOKENS], track);
    if (!step->update.finite)
        return diverged(step, step->accumulator.batches - 1, error);
    step->count++;
    add_metrics(step, &sums);
    return ET_OK;
}
