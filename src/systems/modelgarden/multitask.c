/* A trainer of several tasks, whose trainers share store and optimizer.
 *
 *   interleaved    draw a task by (seed, step) -> its own step
 *   joint          each task: batches -> its gradient times weight / divisor, added to the sum
 *                  the sum -> one update -> each task's metrics
 *
 * A task's gradient is in the store only until the pass of the next task, so it is added to the sum
 * at once. */
#include "systems/modelgarden/multitask.h"

#include <math.h>
#include <string.h>

#include <etude/layers.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers/philox.h"
#include "base/values/value.h"
#include "data/batches/source.h"
#include "engine/optim/optimizer.h"
#include "engine/tensor/params.h"
#include "formats/events/log_names.h"
#include "systems/modelgarden/task_trainer_private.h"
#include "train/checkpoint/state.h"
#include "train/step/trainer.h"
#include "train/step/update.h"

static et_multitask *of(et_trainer *trainer)
{
    return (et_multitask *)(void *)trainer;
}

static et_multitask *evaluator_of(et_evaluator *evaluator)
{
    return (et_multitask *)(void *)((char *)evaluator - offsetof(et_multitask, evaluator));
}

/* ---- which task ---- */

/* The invariants at the beginning of a trainer's or an evaluator's method. */
static void sane(const et_multitask *m)
{
    const bool joint = m->order == ET_MULTITASK_JOINT;
    et_assert(m->count > 0 && m->parts && m->params);
    et_assert(m->last >= -1 && m->last < m->count);
    et_assert(m->evaluated >= 0 && m->evaluated <= m->count);
    et_assert(m->evaluated == m->count || m->results);
    et_assert(joint || !m->gradient);
    et_assert(m->eval_done >= 0);
    for (int i = 0; i < m->count; i++) {
        const et_multitask_member *part = &m->parts[i];
        et_assert(part->trainer && part->trainer->params == part->params);
        et_assert(part->steps >= 0 && part->eval_steps >= 0 && part->epoch >= 0);
        et_assert(!joint || !part->group);
    }
}

/* Model Garden uses the formula of Stickland and Murray 2019, section 3.3, but counts epochs from 0
 * instead of 1 to E. Unbounded, its alpha would fall below 0, and a single epoch would divide by 0.
 */
static double alpha_at(const et_multitask *m, int64_t step)
{
    if (m->order != ET_MULTITASK_ANNEALING)
        return m->order == ET_MULTITASK_UNIFORM ? 0 : m->alpha;
    const double epochs = (double)m->total_steps / (double)m->steps_per_epoch;
    const int64_t epoch = step / m->steps_per_epoch;
    return epochs > 1 ? fmax(0.2, 1 - 0.8 * (double)(epoch - 1) / (epochs - 1)) : 1;
}

/* Divides sizes by the largest size, so no power overflows. */
static double share(const et_multitask *m, int i, int64_t step)
{
    double largest = 0, alpha = alpha_at(m, step);
    if (m->order == ET_MULTITASK_OWN) {
        double own = m->share(m->payload, i, step);
        return own >= 0 && own <= 1e100 ? own : NAN;
    }
    for (int k = 0; k < m->count; k++)
        largest = fmax(largest, m->parts[k].size);
    return alpha == 0 ? 1 : pow(m->parts[i].size / largest, alpha);
}

static double all_shares(const et_multitask *m, int64_t step)
{
    double sum = 0;
    for (int i = 0; i < m->count; i++)
        sum += share(m, i, step);
    return sum;
}

double et_multitask_probability(const et_multitask *m, int i, int64_t step)
{
    if (i < 0 || i >= m->count)
        return 0;
    return m->order == ET_MULTITASK_JOINT ? 1 : share(m, i, step) / all_shares(m, step);
}

/* -1: the program's share function gives no positive share. */
static int draw(const et_multitask *m, int64_t step)
{
    et_random random = { m->options.seed, (uint64_t)step, et_random_site("multitask") };
    double left = et_random_uniform(random, 0), all = all_shares(m, step);
    if (!(all > 0))
        return -1;
    for (int i = 0; i + 1 < m->count; i++) {
        left -= share(m, i, step) / all;
        if (left < 0)
            return i;
    }
    return m->count - 1;
}

/* ---- as a trainer ---- */

static int64_t *count_of(const et_multitask_counts *counts, int part)
{
    return (int64_t *)(void *)((char *)&counts->of->parts[part] + counts->member);
}

static int save_counts(const void *self, et_value *dict, et_error *error)
{
    const et_multitask_counts *counts = self;
    for (int i = 0; i < counts->of->count; i++)
        et_value_set_int(dict, et_multitask_name(counts->of, i), *count_of(counts, i));
    return et_value_failed(dict) ? et_alloc_failed(error, "the state") : ET_OK;
}

static int restore_counts(void *self, const et_value *dict, et_error *error)
{
    const et_multitask_counts *counts = self;
    int status = ET_OK;
    for (int i = 0; !status && i < counts->of->count; i++)
        status =
            et_value_read_int(dict, et_multitask_name(counts->of, i), count_of(counts, i), error);
    return status;
}

static const et_part_class steps_part = { "steps of tasks", save_counts, restore_counts };
static const et_part_class epochs_part = { "epochs of tasks", save_counts, restore_counts };

/* The rate of each task's last update. */
static int save_rates(const void *self, et_value *dict, et_error *error)
{
    const et_multitask *m = self;
    for (int i = 0; i < m->count; i++)
        if (m->parts[i].trainer->stepped)
            et_part_set_real(dict, et_multitask_name(m, i),
                             et_task_trainer_learning_rate(m->parts[i].trainer));
    return et_value_failed(dict) ? et_alloc_failed(error, "the state") : ET_OK;
}

static int restore_rates(void *self, const et_value *dict, et_error *error)
{
    const et_multitask *m = self;
    int status = ET_OK;
    for (int i = 0; !status && i < m->count; i++) {
        et_task_trainer *t = m->parts[i].trainer;
        const char *name = et_multitask_name(m, i);
        t->stepped = et_value_get(dict, name) != NULL;
        t->step.updated = t->stepped;
        if (t->stepped)
            status = et_part_read_real(dict, name, &t->step.update.learning_rate, error);
    }
    return status;
}

static const et_part_class rates_part = { "learning rates of tasks", save_rates, restore_rates };

static int attach(et_trainer *trainer, et_state *state, et_error *error)
{
    et_multitask *m = of(trainer);
    int status;
    if ((status = et_state_add_params(state, m->params, error)) ||
        (status = et_state_add_optimizer(state, "optimizer", et_multitask_optimizer(m), error)) ||
        (status = et_state_add(state, "multitask", &steps_part, &m->steps, error)) ||
        (status =
             et_state_add_optional(state, "multitask_epochs", &epochs_part, &m->epochs, error)) ||
        (status = et_state_add_optional(state, "multitask_rates", &rates_part, m, error)) ||
        (status = et_state_add(state, "metrics", &et_metrics_state, m->metrics, error)))
        return status;
    for (int i = 0; !status && i < m->count; i++)
        status = et_task_trainer_attach(m->parts[i].trainer, state, et_multitask_name(m, i), true,
                                        error);
    return status;
}

static int start(et_trainer *trainer, et_error *error)
{
    et_multitask *m = of(trainer);
    int status = ET_OK;
    et_init_draw(m->params, m->options.seed);
    for (int i = 0; !status && i < m->count; i++)
        status = et_task_initialize(m->parts[i].trainer->task, m->parts[i].params, error);
    if (!status && m->whole)
        status = et_task_initialize(m->whole, m->params, error);
    if (!status)
        et_optimizer_start(et_multitask_optimizer(m));
    return status;
}

static int loop_begin(et_trainer *trainer, et_error *error)
{
    et_multitask *m = of(trainer);
    int status = ET_OK;
    et_metrics_reset(m->metrics);
    for (int i = 0; !status && i < m->count; i++) {
        et_trainer *one = &m->parts[i].trainer->trainer;
        status = one->class->loop_begin(one, error);
    }
    return status;
}

/* A pass writes only gradients that its loss reaches. Without clearing, the others would be the
 * gradients of another task. */
static void clear_gradients(const et_multitask *m)
{
    memset(et_params_gradients(m->params), 0, et_params_trained_size(m->params) * sizeof(float));
}

static void count_step(et_multitask *m, int i)
{
    const et_trainer *one = &m->parts[i].trainer->trainer;
    et_trainer_view view_of_step = { 0 };
    one->class->view(one, &view_of_step);
    m->parts[i].steps++;
    m->parts[i].epoch = view_of_step.epoch;
}

static int interleaved_step(et_multitask *m, et_error *error)
{
    int i = draw(m, m->trainer.step);
    if (i < 0)
        return et_fail(error, ET_ECONFIG,
                       "step %lld: the shares of tasks must be from 0 to 1e100, and not all 0",
                       (long long)m->trainer.step + 1);
    et_trainer *one = &m->parts[i].trainer->trainer;
    one->step = m->trainer.step;
    if (i != m->last)
        clear_gradients(m);
    et_optimizer_limit(et_multitask_optimizer(m), m->parts[i].group);
    int status = one->class->step(one, error);
    m->last = i;
    if (!status)
        count_step(m, i);
    return status ? et_fail_while(error, status, "task %s", et_multitask_name(m, i)) : ET_OK;
}

/* Adds a task's gradient to the sum. */
static int add_task(et_multitask *m, int i, et_error *error)
{
    et_task_trainer *t = m->parts[i].trainer;
    et_reduced sum;
    et_assert(m->gradient && i >= 0 && i < m->count);
    t->trainer.step = m->trainer.step;
    clear_gradients(m);
    int status = et_task_trainer_gather(t, &sum, error);
    if (status)
        return et_fail_while(error, status, "task %s", et_multitask_name(m, i));
    double factor = et_mean_of(m->parts[i].weight, sum.divisor);
    int64_t count = et_params_trained_size(m->params);
    for (int64_t k = 0; k < count; k++)
        m->gradient[k] = (i ? m->gradient[k] : 0) + (float)(factor * sum.gradient[k]);
    m->parts[i].loss = et_mean_of(sum.loss, sum.divisor);
    m->loss += m->parts[i].weight * m->parts[i].loss;
    return ET_OK;
}

static int joint_step(et_multitask *m, et_error *error)
{
    int status = ET_OK;
    m->loss = 0;
    for (int i = 0; !status && i < m->count; i++) {
        status = add_task(m, i, error);
        if (status != ET_EINTERRUPTED)
            continue;
        /* The task's source has gone back to its first batch of this step. The sources of earlier
         * tasks must go back too, because a joint update needs all tasks. */
        int back = ET_OK;
        for (int k = 0; !back && k < i; k++)
            back = et_step_go_back(&m->parts[k].trainer->step, error);
        status = back ? back : status;
    }
    if (status)
        return status;
    const et_loss_bound bound = { m->options.loss_upper_bound, m->options.recovery_begin_steps };
    const et_reduced sum = { .gradient = m->gradient, .divisor = 1 };
    const int64_t number = m->trainer.step + 1;
    if ((status = et_judge_loss(bound, ET_LOGGED_TOTAL_LOSS, m->loss, number, error)) ||
        (status = et_update_apply(et_multitask_optimizer(m), &sum, 1, &m->update, error)))
        return status;
    if (!m->update.finite)
        return et_fail(error, ET_EDIVERGED, "step %lld: the gradient of total_loss is not finite",
                       (long long)number);
    for (int i = 0; !status && i < m->count; i++) {
        status = et_task_trainer_finish_step(m->parts[i].trainer, &m->update, error);
        if (!status)
            count_step(m, i);
    }
    et_metrics_add(m->metrics, ET_LOGGED_TOTAL_LOSS, m->loss, 1);
    et_optimizer_average_variables(et_multitask_optimizer(m));
    return status;
}

static int step(et_trainer *trainer, et_error *error)
{
    et_multitask *m = of(trainer);
    sane(m);
    if (m->options.use == ET_EVALUATE_ONLY)
        return et_fail(error, ET_EUSAGE, "these tasks were opened to evaluate only");
    return m->order == ET_MULTITASK_JOINT ? joint_step(m, error) : interleaved_step(m, error);
}

/* {"digits": {"training_loss": ...}, "letters": {...}, "total_loss": ..., "learning_rate": ...} */
static int loop_end(et_trainer *trainer, et_value *logs, et_error *error)
{
    et_multitask *m = of(trainer);
    int status = ET_OK;
    for (int i = 0; !status && i < m->count; i++) {
        et_trainer *one = &m->parts[i].trainer->trainer;
        et_value *dict = et_value_set_dict(logs, et_multitask_name(m, i));
        status = dict ? one->class->loop_end(one, dict, error) : et_alloc_failed(error, "a log");
    }
    if (!status)
        status = et_metrics_results(m->metrics, logs, error);
    const et_multitask_member *last = &m->parts[m->order == ET_MULTITASK_JOINT ? 0 : m->last];
    if (!status && !et_value_set_float(logs, ET_LOGGED_LEARNING_RATE,
                                       et_task_trainer_learning_rate(last->trainer)))
        status = et_alloc_failed(error, "a log");
    return status;
}

static void view(const et_trainer *trainer, et_trainer_view *out)
{
    const et_multitask *m = (const et_multitask *)(const void *)trainer;
    const et_trainer *last = &m->parts[m->last].trainer->trainer;
    last->class->view(last, out);
    /* The epoch of the task with the fewest: all tasks have passed through their data as often. 0:
     * unknown for all. */
    out->epoch = 0;
    for (int i = 0; i < m->count; i++) {
        const et_multitask_member *one = &m->parts[i];
        const int64_t own = one->steps ? one->epoch : 1;
        if (own && (!out->epoch || own < out->epoch))
            out->epoch = own;
    }
    if (m->order != ET_MULTITASK_JOINT)
        return;
    for (int i = 1; i < m->count; i++)
        out->units += m->parts[i].trainer->step.units;
    out->loss = m->loss;
    out->learning_rate = m->update.learning_rate;
}

static int diverged(et_trainer *trainer, et_value *memory, et_error *error)
{
    et_multitask *m = of(trainer);
    int status = ET_OK;
    for (int i = 0; !status && i < m->count; i++) {
        et_trainer *one = &m->parts[i].trainer->trainer;
        et_value *dict = et_value_set_dict(memory, et_multitask_name(m, i));
        status =
            dict ? one->class->diverged(one, dict, error) : et_alloc_failed(error, "the state");
    }
    return status;
}

static int retry(et_trainer *trainer, int64_t trial, const et_value *memory, et_error *error)
{
    et_multitask *m = of(trainer);
    int status = ET_OK;
    for (int i = 0; !status && i < m->count; i++) {
        et_trainer *one = &m->parts[i].trainer->trainer;
        const et_value *dict = memory ? et_value_get(memory, et_multitask_name(m, i)) : NULL;
        status = memory && (!dict || dict->kind != ET_VALUE_DICT)
                     ? et_fail(error, ET_EFORMAT, "task %s: missing or not a dict",
                               et_multitask_name(m, i))
                     : one->class->retry(one, trial, dict, error);
    }
    return status;
}

static const et_trainer_class trainer_class = {
    .name = "multitask",
    .attach = attach,
    .start = start,
    .loop_begin = loop_begin,
    .step = step,
    .loop_end = loop_end,
    .view = view,
    .diverged = diverged,
    .retry = retry,
};

/* ---- as an evaluator: one task after another; a limit is for each task ---- */

static et_evaluator *evaluated(const et_multitask *m)
{
    return &m->parts[m->evaluated].trainer->evaluator;
}

/* Begins the next task from i on that has data; without one, m->evaluated becomes count. */
static int begin_task(et_multitask *m, int i, et_error *error)
{
    et_assert(i >= 0 && m->results);
    while (i < m->count && !m->parts[i].trainer->validation.source)
        i++;
    m->evaluated = i;
    if (i == m->count)
        return ET_OK;
    int64_t own = m->parts[i].eval_steps;
    return et_evaluator_begin(evaluated(m), m->at, own ? own : m->evaluator.limit, error);
}

static int begin(et_evaluator *evaluator, int64_t at, et_error *error)
{
    et_multitask *m = evaluator_of(evaluator);
    sane(m);
    et_arena_release(&m->arena);
    m->results = et_value_dict(&m->arena);
    m->at = at;
    m->eval_done = 0;
    evaluator->counts = true;
    return m->results ? begin_task(m, 0, error) : et_alloc_failed(error, "an evaluation");
}

static int evaluate_batch(et_evaluator *evaluator, bool *more, et_error *error)
{
    et_multitask *m = evaluator_of(evaluator);
    et_evaluator *one = evaluated(m);
    sane(m);
    et_assert(m->evaluated < m->count);
    const int task = m->evaluated;
    int status = et_evaluator_step(one, et_multitask_name(m, task), more, error);
    evaluator->done = m->eval_done + one->done;
    if (!status && !*more) {
        et_value *dict = et_value_set_dict(m->results, et_multitask_name(m, task));
        m->eval_done += one->done;
        m->evaluated = m->count;
        status = one->class->end(one, dict, error);
        if (!status && !dict)
            status = et_alloc_failed(error, "an evaluation");
        if (!status)
            status = begin_task(m, task + 1, error);
    }
    *more = m->evaluated < m->count;
    return status;
}

/* After an interruption, the current task restores the weights. */
static int end(et_evaluator *evaluator, et_value *logs, et_error *error)
{
    et_multitask *m = evaluator_of(evaluator);
    int status = ET_OK;
    if (m->evaluated < m->count)
        status = evaluated(m)->class->end(evaluated(m), NULL, error);
    m->evaluated = m->count;
    if (!status && logs)
        status = et_value_merge(logs, m->results, error);
    et_arena_release(&m->arena);
    m->results = NULL;
    return status;
}

static const et_evaluator_class evaluator_class = {
    .name = ET_LOGGED_VALIDATION,
    .begin = begin,
    .step = evaluate_batch,
    .end = end,
};

/* ---- opening and closing ---- */

static int check_part(const et_multitask_part *parts, int i, int order, et_error *error)
{
    const et_multitask_part *one = &parts[i];
    bool sized = order == ET_MULTITASK_PROPORTIONAL || order == ET_MULTITASK_ANNEALING;
    if (!one->task)
        return et_fail(error, ET_EUSAGE, "part %d of a multitask has no task", i + 1);
    if (!(one->weight >= 0) || isinf(one->weight) || one->eval_steps < 0)
        return et_fail(error, ET_ECONFIG, "task %s: weight %g, eval_steps %lld: give at least 0",
                       et_task_name(one->task), one->weight, (long long)one->eval_steps);
    if (sized && (!(one->size > 0) || isinf(one->size)))
        return et_fail(error, ET_ECONFIG, "task %s: size %g: give the number of samples",
                       et_task_name(one->task), one->size);
    if (one->task->class->train_step && order == ET_MULTITASK_JOINT)
        return et_fail(error, ET_ECONFIG,
                       "task %s has its own train_step; joint training needs the standard one",
                       et_task_name(one->task));
    for (int k = 0; k < i; k++)
        if (!strcmp(et_task_name(parts[k].task), et_task_name(one->task)))
            return et_fail(error, ET_ECONFIG, "two tasks are called %s", et_task_name(one->task));
    return ET_OK;
}

static int check(const et_multitask_part *parts, int count, const et_multitask_options *o,
                 et_error *error)
{
    const et_task_trainer_options *t = o->trainer;
    int status = ET_OK;
    if (count < 1 || !parts)
        return et_fail(error, ET_EUSAGE, "a multitask needs tasks");
    if (o->order < ET_MULTITASK_JOINT || o->order > ET_MULTITASK_OWN)
        return et_fail(error, ET_ECONFIG, "order %d of a multitask does not exist", o->order);
    if (o->order == ET_MULTITASK_OWN && !o->share)
        return et_fail(error, ET_ECONFIG, "order own of a multitask needs share");
    if (!(o->alpha >= 0) || isinf(o->alpha))
        return et_fail(error, ET_ECONFIG, "alpha %g: give at least 0", o->alpha);
    if (o->order == ET_MULTITASK_ANNEALING && (o->steps_per_epoch < 1 || o->total_steps < 1))
        return et_fail(error, ET_ECONFIG,
                       "annealing: steps_per_epoch %lld, total_steps %lld: both must be at least 1",
                       (long long)o->steps_per_epoch, (long long)o->total_steps);
    if (t && t->given)
        return et_fail(error, ET_ECONFIG, "a multitask does not support et_task_trainer_given");
    if (t && o->order == ET_MULTITASK_JOINT && (t->loss_scale != 0 || t->dp_config))
        return et_fail(error, ET_ECONFIG,
                       "joint training supports neither loss_scale nor dp_config "
                       "(runtime.loss_scale, task.differential_privacy_config)");
    for (int i = 0; !status && i < count; i++)
        status = check_part(parts, i, o->order, error);
    return status;
}

/* All ranks evaluate all tasks together, or rank 0 evaluates all tasks alone, because the tasks
 * form one evaluation. */
static void choose_evaluation(et_multitask *m)
{
    uint64_t print = (uint64_t)m->count; /* of all tasks that validate; 0 if one is unknown */
    bool shared = true;
    for (int i = 0; i < m->count; i++) {
        const et_task_trainer *t = m->parts[i].trainer;
        shared &= et_validation_is_sharded(t);
        if (t->validation.source)
            print = et_content_joined(print, t->evaluator.data);
    }
    m->evaluator.comm = shared ? m->options.comm : NULL;
    m->evaluator.data = print;
    for (int i = 0; i < m->count; i++)
        m->parts[i].trainer->evaluator.comm = m->evaluator.comm;
}

/* Each task has its own seed, so dropout differs between tasks. */
static int open_passes(et_multitask *m, const et_multitask_part *parts, int count,
                       et_params *const *views, et_device *device, et_error *error)
{
    int status = ET_OK;
    for (int i = 0; !status && i < count; i++) {
        et_task_trainer_options options = m->options;
        options.seed += (uint64_t)i * 0xbf58476d1ce4e5b9u;
        options.loss_upper_bound = m->order == ET_MULTITASK_JOINT ? 0 : options.loss_upper_bound;
        et_multitask_member *one = &m->parts[m->count];
        *one = (et_multitask_member){ .params = views ? views[i] : m->params,
                                      .weight = parts[i].weight > 0 ? parts[i].weight : 1,
                                      .size = parts[i].size,
                                      .eval_steps = parts[i].eval_steps };
        status = et_task_trainer_begin(&one->trainer, parts[i].task, device, one->params, &options,
                                       error);
        m->count += !status;
        if (status)
            et_fail_while(error, status, "task %s", et_task_name(parts[i].task));
    }
    return status;
}

static bool reaches(const et_params *params, int index, void *pass)
{
    (void)params;
    return et_pass_reaches(pass, index);
}

#define BATCHES_MAX 1e12 /* of an epoch */

int et_multitask_batches(const et_multitask *m, int64_t *count, et_error *error)
{
    double most = 0;
    *count = 0;
    if (m->order == ET_MULTITASK_ANNEALING)
        most = (double)m->steps_per_epoch * (m->options.batches > 1 ? m->options.batches : 1);
    for (int i = 0; i < m->count && m->order != ET_MULTITASK_ANNEALING; i++) {
        int64_t own;
        int status = et_task_trainer_batches(m->parts[i].trainer, &own, error);
        if (status)
            return et_fail_while(error, status, "task %s", et_multitask_name(m, i));
        if (!own)
            return ET_OK;
        most = fmax(most, (double)own / et_multitask_probability(m, i, 0));
    }
    if (most > BATCHES_MAX)
        return et_fail(error, ET_ECONFIG,
                       "each task would have seen its data only after %g batches, too many for "
                       "epochs; give trainer.train_steps and intervals in steps",
                       most);
    *count = (int64_t)ceil(most * (1 - 1e-12));
    return ET_OK;
}

static int open_rest(et_multitask *m, et_error *error)
{
    const et_optimization_options *given = m->options.optimization;
    const bool trains = m->options.use != ET_EVALUATE_ONLY, joint = m->order == ET_MULTITASK_JOINT;
    int64_t batches;
    int status;
    /* An epoch is of all tasks; the optimizer is the first task's. */
    if (trains && given && et_optimization_counts_epochs(given) &&
        ((status = et_multitask_batches(m, &batches, error)) ||
         (status = et_task_trainer_count_epochs(m->parts[0].trainer, batches, error))))
        return status;
    for (int i = 0; i < m->count; i++)
        if ((status = et_task_trainer_finish(m->parts[i].trainer,
                                             i ? et_multitask_optimizer(m) : NULL, error)))
            return status;
    if ((status = et_metrics_new(&m->metrics, error)) || !trains)
        return status;
    /* A step does not change parameters, and their slots, that only other tasks use. A task with
     * its own step chooses its parameters itself. */
    for (int i = 0; !joint && !status && i < m->count; i++) {
        et_task_trainer *t = m->parts[i].trainer;
        if (t->pass && !t->task->class->train_step)
            status = et_group_choose(&m->parts[i].group, m->params, reaches, t->pass, error);
    }
    if (!joint)
        return status;
    size_t bytes = et_params_trained_size(m->params) * sizeof(float);
    m->gradient = et_alloc_array(bytes);
    if (!m->gradient)
        return et_alloc_failed(error, "a gradient");
    return et_metrics_define(m->metrics, ET_LOGGED_TOTAL_LOSS, &et_metric_mean, error);
}

int et_multitask_open(et_multitask **out, const et_multitask_part *parts, int count,
                      et_device *device, et_params *params, const et_multitask_options *options,
                      et_error *error)
{
    return et_multitask_open_internal(out, parts, count, NULL, device, params, options, error);
}

int et_multitask_open_internal(et_multitask **out, const et_multitask_part *parts, int count,
                               const et_multitask_internals *inside, et_device *device,
                               et_params *params, const et_multitask_options *options,
                               et_error *error)
{
    static const et_multitask_options defaults = { 0 };
    const et_multitask_options *o = options ? options : &defaults;
    *out = NULL;
    int status = check(parts, count, o, error);
    et_multitask *m = status ? NULL : et_alloc_zero(1, sizeof *m);
    et_multitask_member *made = m ? et_alloc_zero(count, sizeof *made) : NULL;
    if (!made) {
        et_free(m);
        return status ? status : et_alloc_failed(error, "a multitask");
    }
    *m = (et_multitask){ .trainer = { .class = &trainer_class },
                         .evaluator = { .class = &evaluator_class },
                         .order = o->order,
                         .alpha = o->alpha > 0 ? o->alpha : 1,
                         .share = o->share,
                         .payload = o->payload,
                         .steps_per_epoch = o->steps_per_epoch,
                         .total_steps = o->total_steps,
                         .params = params,
                         .whole = inside ? inside->whole : NULL,
                         .parts = made };
    m->steps = (et_multitask_counts){ m, offsetof(et_multitask_member, steps) };
    m->epochs = (et_multitask_counts){ m, offsetof(et_multitask_member, epoch) };
    if (o->trainer)
        m->options = *o->trainer;
    status = open_passes(m, parts, count, inside ? inside->views : NULL, device, error);
    if (!status)
        status = open_rest(m, error);
    m->evaluated = m->count;
    choose_evaluation(m);
    if (status)
        et_multitask_close(m);
    else
        *out = m;
    return status;
}

/* Closes the first task's trainer last, because it owns the optimizer. */
void et_multitask_close(et_multitask *m)
{
    if (!m)
        return;
    for (int i = m->count; i-- > 0;) {
        et_group_free(m->parts[i].group);
        et_task_trainer_close(m->parts[i].trainer);
    }
    et_metrics_free(m->metrics);
    et_free_array(m->gradient);
    et_arena_release(&m->arena);
    et_free(m->parts);
    et_free(m);
}

et_trainer *et_multitask_trainer(et_multitask *multitask)
{
    return &multitask->trainer;
}

et_evaluator *et_multitask_evaluator(et_multitask *m)
{
    for (int i = 0; i < m->count; i++)
        if (m->parts[i].trainer->validation.source)
            return &m->evaluator;
    return NULL;
}

int64_t et_multitask_steps(const et_multitask *m, int i)
{
    return i >= 0 && i < m->count ? m->parts[i].steps : 0;
}
