/* The trainer of a task: sources, passes, optimizer, step and metrics, each made once.
 *
 *   open    training data -> its pass (graph, derivatives) -> validation data -> its pass ->
 *           parameters' memory -> plans -> metrics -> optimizer -> step
 *   step    next_train_inputs -> train_step -> check of the step's loss
 *   evaluate    task_evaluator.c
 *
 * A failed or abandoned step adds to no metric: the task's metrics are gathered separately and
 * added when the step is done. The loss of a task's own step is known only after the update, so
 * only this loss is checked then. */
#include "systems/modelgarden/task_trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <etude/layers.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/pattern.h"
#include "base/text/strbuf.h"
#include "base/values/value.h"
#include "engine/comm/comm.h"
#include "engine/exec/device.h"
#include "engine/exec/pass.h"
#include "engine/optim/optimizer.h"
#include "engine/tensor/params.h"
#include "engine/tensor/tensor.h"
#include "formats/events/log_names.h"
#include "metric/metric.h"
#include "systems/modelgarden/task_trainer_private.h"
#include "train/ranks/ranked.h"
#include "train/task/task_private.h"

static et_task_trainer *trainer_of(et_trainer *trainer)
{
    return (et_task_trainer *)(void *)trainer;
}

/* ---- the trainer's methods ---- */

/* Parts are named "metrics" and so on, or "digits/metrics" for a task with this name. */
int et_task_trainer_attach(et_task_trainer *t, et_state *state, const char *name, bool data,
                           et_error *error)
{
    const struct {
        const char *key;
        const et_part_class *class; /* NULL: no such part */
        void *self;
    } parts[] = {
        { "metrics", &et_metrics_state, t->metrics.window },
        { "task_metrics", et_metrics_count(t->metrics.own) ? &et_metrics_state : NULL,
          t->metrics.own },
        { "data", t->source && data ? &et_source_part : NULL, t->source },
        { "loss_scale", t->overflow.overflow.class->part, &t->overflow },
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char full[256];
        snprintf(full, sizeof full, "%s%s%s", name ? name : "", name ? "/" : "", parts[i].key);
        const int status =
            parts[i].class ? et_state_add(state, full, parts[i].class, parts[i].self, error)
                           : ET_OK;
        if (status)
            return status;
    }
    return t->task->class->attach ? t->task->class->attach(t->task, state, error) : ET_OK;
}

static int attach(et_trainer *trainer, et_state *state, et_error *error)
{
    et_task_trainer *t = trainer_of(trainer);
    int status;
    if ((status = et_state_add_params(state, t->params, error)) ||
        (status = et_state_add_optimizer(state, "optimizer", t->optimizer, error)))
        return status;
    return et_task_trainer_attach(t, state, NULL, true, error);
}

/* Called only if no checkpoint is restored, because drawing values takes most of the time of a
 * start. */
static int start(et_trainer *trainer, et_error *error)
{
    et_task_trainer *t = trainer_of(trainer);
    if (t->keeps) {
        trainer->step = t->kept_step;
        if (!et_optimizer_iterations(t->optimizer))
            et_optimizer_start(t->optimizer);
        return ET_OK;
    }
    et_init_draw(t->params, t->options.seed);
    int status = et_task_initialize(t->task, t->params, error);
    if (!status)
        et_optimizer_start(t->optimizer);
    return status;
}

/* With a given train_loop_end, that function decides whether metrics are reset. */
static int loop_begin(et_trainer *trainer, et_error *error)
{
    et_task_trainer *t = trainer_of(trainer);
    (void)error;
    if (!t->given.train_loop_end)
        et_task_trainer_reset(t);
    return ET_OK;
}

int et_task_trainer_judge(const et_task_trainer *t, et_error *error)
{
    int64_t step = t->trainer.step + 1;
    if (t->logs && isnan(t->step.loss))
        return et_fail(error, ET_EDIVERGED, "step %lld: the loss is not a number", (long long)step);
    return et_judge_loss(t->step.parts.bound, "the loss", t->step.loss, step, error);
}

/* Called when the first batch has been read. */
static void begin_step(et_task_trainer *t)
{
    t->now.seed = t->step.parts.seed;
    t->now.number = (uint64_t)et_step_number(&t->step, 0);
    t->now.step = t->trainer.step;
    if (t->metrics.has_own)
        et_metrics_reset(t->metrics.pending);
}

/* Every rank makes a task's own step, over the whole batch. */
static et_comm *comm_of_steps(const et_task_trainer *t)
{
    return t->task->class->train_step ? NULL : t->options.comm;
}

/* Adds the task's own metrics of the step, summed over ranks. */
static int keep_own(et_task_trainer *t, et_error *error)
{
    int status = et_metrics_sum_ranks(t->metrics.pending, comm_of_steps(t), error);
    if (!status)
        et_metrics_merge(t->metrics.own, t->metrics.pending);
    return status;
}

static int train_step(et_task_trainer *t, et_error *error)
{
    et_step *step = &t->step;
    const char *key = et_task_loss(t->task);
    const bool own = t->logs != NULL;
    begin_step(t);
    if (own && !et_value_set_null(t->logs, key))
        return et_alloc_failed(error, "a step's logs");
    int status = et_task_train_step(t->task, &t->now, t->logs, error);
    step->taken = false;
    if (status)
        return status;
    t->stepped = true;
    if (step->updated)
        et_step_add_norm(step);
    if (t->metrics.has_own && (step->updated || own))
        status = keep_own(t, error);
    if (status || !own)
        return status;
    /* The default step was judged before its update; a task's own step logs its loss only now. A
     * skipped step has no loss. */
    const et_value *loss = et_value_get(t->logs, key);
    if (t->options.loss_scale < 0 && (!loss || loss->kind == ET_VALUE_NULL))
        return ET_OK;
    if (et_value_read_float(t->logs, key, &step->loss, error))
        return et_fail(error, ET_ECONFIG, "train_step of task %s logs no %s", et_task_name(t->task),
                       key);
    et_metrics_add(t->metrics.window, ET_LOGGED_TRAINING_LOSS, step->loss, 1);
    return et_task_trainer_judge(t, error);
}

/* Builds the training graph again if the task's model has changed. */
static int remake(et_task_trainer *t, et_error *error)
{
    const et_group *updates = NULL;
    bool again = false;
    if (!t->task->class->remake)
        return ET_OK;
    int status = t->task->class->remake(t->task, &again, &updates, error);
    if (status || !again)
        return status;
    et_optimizer_limit(t->optimizer, updates);
    return et_pass_rebuild(t->pass, error);
}

static int run_step(et_trainer *trainer, et_error *error)
{
    et_task_trainer *t = trainer_of(trainer);
    et_task_trainer_sane(t);
    if (!t->source)
        return et_fail(error, ET_EUSAGE, "%s was opened to evaluate only", et_task_name(t->task));
    int status;
    if ((status = et_task_trainer_begin_loop(t, error)) ||
        (status = et_task_trainer_check_idle(t, error)) || (status = remake(t, error)))
        return status;
    t->step.count = trainer->step;
    status = et_step_take(&t->step, error);
    if (!status)
        status = train_step(t, error);
    t->in_loop = !status || status == ET_EINTERRUPTED;
    return status;
}

int et_task_trainer_gather(et_task_trainer *t, et_reduced *sum, et_error *error)
{
    bool left_out;
    et_task_trainer_sane(t);
    t->step.count = t->trainer.step;
    int status = et_step_take(&t->step, error);
    if (status)
        return status;
    begin_step(t);
    status = et_step_gather(&t->step, &left_out, error);
    /* Only dynamic loss scaling skips steps, and a cluster refuses it. */
    et_assert(status || !left_out);
    *sum = t->step.sum;
    return status;
}

int et_task_trainer_finish_step(et_task_trainer *t, const et_update *update, et_error *error)
{
    et_task_trainer_sane(t);
    et_assert(!t->step.taken && update->finite);
    t->stepped = true;
    t->step.update = *update;
    et_pass_move_means(t->pass, t->step.sum.means);
    et_step_updated(&t->step);
    et_step_add_norm(&t->step);
    int status = keep_own(t, error);
    return status ? status : et_task_process_compiled_metrics(t->task, &t->now, error);
}

static int loop_end(et_trainer *trainer, et_value *logs, et_error *error)
{
    et_task_trainer *t = trainer_of(trainer);
    bool *inside = &t->in_given[ET_GIVEN_TRAIN_LOOP_END];
    et_task_trainer_sane(t);
    int status = et_task_trainer_begin_loop(t, error); /* of no steps */
    t->in_loop = false;
    if (status || !t->given.train_loop_end)
        return status ? status : et_task_trainer_fill_logs(t, logs, error);
    *inside = true;
    status = t->given.train_loop_end(t->given.self, t, logs, error);
    *inside = false;
    return status;
}

static void view(const et_trainer *trainer, et_trainer_view *out)
{
    const et_task_trainer *t = (const et_task_trainer *)(const void *)trainer;
    *out = (et_trainer_view){ .loss = NAN, .learning_rate = et_task_trainer_learning_rate(t) };
    if (!t->source)
        return;
    out->loss = t->step.loss;
    out->units = t->step.units;
    out->unit = et_layout_unit(&t->source->layout);
    out->epoch = t->step.batch->epoch + 1;
}

/* Stores the position in the data after the batches of the failed step. */
static int diverged(et_trainer *trainer, et_value *memory, et_error *error)
{
    et_value *data = et_value_set_dict(memory, "data");
    return data ? et_source_part.save(trainer_of(trainer)->source, data, error)
                : et_alloc_failed(error, "the state");
}

/* Skips the batches from the checkpoint to the failure (Chowdhery et al. 2022, "PaLM", section 5.1)
 * and draws another random sequence. With the same data and masks, the same weights would fail
 * again. */
static int retry(et_trainer *trainer, int64_t trial, const et_value *memory, et_error *error)
{
    et_task_trainer *t = trainer_of(trainer);
    const et_value *data = memory ? et_value_get(memory, "data") : NULL;
    t->step.parts.seed = t->options.seed + (uint64_t)trial * 0x9e3779b97f4a7c15u;
    t->step.taken = false;
    if (memory && (!data || data->kind != ET_VALUE_DICT))
        return et_fail(error, ET_EFORMAT, "the position in the data: missing or not a dict");
    return data ? et_source_part.restore(t->source, data, error) : ET_OK;
}

static const et_trainer_class trainer_class = {
    .name = "task",
    .attach = attach,
    .start = start,
    .loop_begin = loop_begin,
    .step = run_step,
    .loop_end = loop_end,
    .view = view,
    .diverged = diverged,
    .retry = retry,
};

/* ---- opening and closing ---- */

static void build(et_scope *scope, void *payload)
{
    et_task_build(((et_task_trainer *)payload)->task, scope, true);
}

/* Frozen parameters keep old gradients. Ranks, several batches and noise read whole gradient
 * arrays, so they need a pass that derives by all parameters. */
static bool derives_all(const et_task_trainer *t)
{
    return t->options.batches != 1 || t->options.comm || t->privacy.wanted;
}

static const et_group *derived_group(const et_task_trainer *t)
{
    return derives_all(t) ? NULL : t->options.group;
}

static et_strings frozen_of(const et_task_trainer *t)
{
    const et_optimization_options *o = t->options.optimization;
    return o ? o->frozen : (et_strings){ 0 };
}

/* Joins all expressions to one, "(?:a)|(?:b)"; NULL: no expressions. */
static int join_frozen(et_task_trainer *t, const char **out, et_error *error)
{
    const et_strings frozen = frozen_of(t);
    et_strbuf text = ET_STRBUF_INIT;
    *out = NULL;
    for (size_t i = 0; i < frozen.count; i++)
        et_strbuf_printf(&text, "%s(?:%s)", i ? "|" : "", frozen.items[i]);
    if (frozen.count && !(*out = et_strbuf_keep(&text, &t->arena)))
        return et_alloc_failed(error, "a pattern");
    return ET_OK;
}

static int open_training(et_task_trainer *t, et_error *error)
{
    et_pass_options options = { .training = true,
                                .scaled = t->options.loss_scale != 0,
                                .bfloat16 = t->options.bfloat16,
                                .recompute = t->options.recompute,
                                .group = derived_group(t),
                                .name = "loss and gradients" };
    int status;
    if (!derives_all(t) && (status = join_frozen(t, &options.frozen, error)))
        return status;
    t->source = t->given.train_dataset;
    if (!t->source && (status = et_task_build_inputs(t->task, &(et_data_config){ .training = true },
                                                     NULL, &t->source, error)))
        return status;
    if (!t->source)
        return et_fail(error, ET_ECONFIG, "%s has no training data", et_task_name(t->task));
    if (t->privacy.wanted && t->privacy.options.per_example && t->source->layout.capacity[0] != 1)
        return et_fail(error, ET_ECONFIG,
                       "differential_privacy_config.per_example needs batches of one sample, but "
                       "these have up to %lld: make batches of one, and accumulate that many "
                       "batches per update (trainer.gradient_accumulation)",
                       (long long)t->source->layout.capacity[0]);
    return et_pass_open(&t->pass, t->device, t->params, &t->source->layout, build, t, &options,
                        error);
}

/* The training loss of a task's own step is the mean of the losses that it logs, so the model's
 * loss is not added. */
static int define_metrics(et_task_trainer *t, et_error *error)
{
    int status;
    if ((status = et_metrics_new(&t->metrics.window, error)) ||
        (status = et_metrics_new(&t->metrics.own, error)) ||
        (status = et_metrics_new(&t->metrics.pending, error)) || !t->source)
        return status;
    if ((status = et_task_build_metrics(t->task, true, t->metrics.own, error)) ||
        (status = et_task_build_metrics(t->task, true, t->metrics.pending, error)))
        return status;
    t->metrics.has_own = et_metrics_count(t->metrics.own) > 0;
    if (!t->task->class->train_step)
        return ET_OK;
    t->logs = et_value_dict(&t->arena);
    return t->logs ? et_metrics_define(t->metrics.window, ET_LOGGED_TRAINING_LOSS, &et_metric_mean,
                                       error)
                   : et_alloc_failed(error, "a step's logs");
}

int et_task_trainer_count_epochs(et_task_trainer *t, int64_t batches, et_error *error)
{
    const et_optimization_options *given = t->options.optimization;
    if (!given || !et_optimization_counts_epochs(given))
        return ET_OK;
    if (batches <= 0)
        return et_fail(error, ET_ECONFIG,
                       "optimizer_config.learning_rate: the decay is in epochs, but the number of "
                       "batches per pass is unknown for this data; give steps");
    t->optimization = *given;
    et_optimization_resolve(&t->optimization, batches,
                            t->options.batches > 0 ? t->options.batches : 1);
    t->options.optimization = &t->optimization;
    return ET_OK;
}

static int open_optimizer(et_task_trainer *t, et_error *error)
{
    et_assert(!t->shares && !t->optimizer);
    const et_optimization_options *given = t->options.optimization;
    int64_t batches = 1; /* a trainer that only evaluates has no learning rate */
    bool counts = given && et_optimization_counts_epochs(given);
    int status;
    if ((counts && t->source && (status = et_source_batches(t->source, &batches, error))) ||
        (status = et_task_trainer_count_epochs(t, batches, error)))
        return status;
    const et_optimizer_request request = { .device = t->device,
                                           .params = t->params,
                                           .setup = t->options.optimizer,
                                           .optimization = t->options.optimization,
                                           .group = t->options.group,
                                           .bfloat16 = t->options.bfloat16,
                                           .loss_scale = t->options.loss_scale };
    if ((status = et_task_create_optimizer(t->task, &request, &t->optimizer, error)))
        return status;
    if (!t->optimizer)
        return et_fail(error, ET_ECONFIG, "create_optimizer of task %s gives no optimizer",
                       et_task_name(t->task));
    return t->options.comm && t->options.comm->sharded_optimizer
               ? et_optimizer_shard(t->optimizer, t->options.comm, error)
               : ET_OK;
}

/* The task's own metrics count every batch of an update, not only the last one. */
static int see_batch(void *self, et_step *step, et_error *error)
{
    et_task_trainer *t = self;
    (void)step;
    return et_task_process_metrics(t->task, &t->now, error);
}

static int next_batch(void *self, et_source *source, et_batch *batch, et_error *error)
{
    et_task_trainer *t = self;
    bool *inside = &t->in_given[ET_GIVEN_NEXT_TRAIN_INPUTS];
    if (*inside)
        return et_fail(error, ET_EUSAGE,
                       "next_train_inputs of %s calls a function of a step: read the batch with "
                       "et_source_next",
                       et_task_name(t->task));
    *inside = true;
    int status = t->given.next_train_inputs(t->given.self, source, batch, error);
    *inside = false;
    return status;
}

static int open_step(et_task_trainer *t, et_error *error)
{
    /* The reducer sums gradients over ranks and adds noise: the step knows neither. */
    et_reducer *reducer;
    et_assert(t->source && t->pass && t->optimizer && t->options.batches > 0);
    et_comm *comm = comm_of_steps(t);
    const int shards = t->options.batches;
    int status = comm ? et_ranked_open(&reducer, t->pass, shards, comm, error)
                      : et_tree_open(&reducer, t->pass, shards, error);
    if (!status && t->privacy.wanted)
        status = et_private_open(&reducer, t->pass, &t->privacy.options, error);
    if (status)
        return status;
    et_step_parts parts = {
        .source = t->source,
        .pass = t->pass,
        .optimizer = t->optimizer,
        .overflow = &t->overflow.overflow,
        .metrics = t->metrics.window,
        .prefix = ET_LOGGED_OF_TRAINING,
        .skip = t->logs ? ET_LOGGED_LOSS : NULL,
        .stop = t->options.stop,
        .seed = t->options.seed,
        .bound = { t->options.loss_upper_bound, t->options.recovery_begin_steps },
        .reducer = reducer,
        .hooks = { .self = t,
                   .next = t->given.next_train_inputs ? next_batch : NULL,
                   .seen = t->metrics.has_own ? see_batch : NULL },
    };
    status = et_step_open(&t->step, &parts, error);
    t->internals = (et_task_internals){ &t->step, t->metrics.window, t->step.metric, false };
    t->now = (et_task_step){ .inputs = t->step.batch,
                             .model = t->pass,
                             .optimizer = t->optimizer,
                             .metrics = t->metrics.pending,
                             .internals = &t->internals };
    return status ? status
                  : et_task_check_metrics(t->task, t->metrics.own, t->metrics.window, error);
}

/* ---- the trained parameters ---- */

typedef struct trained {
    const et_patterns *frozen;
    const bool *within; /* [count of parameters] of the given group; NULL: all */
} trained;

static bool is_trained(const et_params *params, int index, void *payload)
{
    const trained *of = payload;
    return (!of->within || of->within[index]) &&
           !et_patterns_match(of->frozen, et_params_name(params, index));
}

/* Checks that every expression matches a parameter. */
static int check_found(const et_task_trainer *t, const et_patterns *patterns, et_error *error)
{
    const et_strings frozen = frozen_of(t);
    const et_params *params = t->params;
    for (size_t i = 0; i < frozen.count; i++) {
        bool found = false;
        for (int k = 0; k < et_params_count(params) && !found; k++)
            found = et_params_is_trained(params, k) &&
                    et_patterns_match_one(patterns, i, et_params_name(params, k));
        if (!found)
            return et_fail(error, ET_ECONFIG,
                           ET_SETTING_FROZEN ": '%s' matches no parameter; the first one is "
                                             "called %s",
                           frozen.items[i],
                           et_params_count(params) ? et_params_name(params, 0) : "nothing");
    }
    return ET_OK;
}

static int choose_trained(et_task_trainer *t, const et_patterns *patterns, et_group **out,
                          et_error *error)
{
    const et_group *given = t->options.group;
    const size_t count = (size_t)et_params_count(t->params);
    bool *within = given ? et_alloc_zero(count + 1, sizeof *within) : NULL;
    if (given && !within)
        return et_alloc_failed(error, "a group");
    for (int i = 0; given && i < et_group_count(given); i++)
        within[et_group_param(given, i)] = true;
    int status = et_group_choose(out, t->params, is_trained, &(trained){ patterns, within }, error);
    et_free(within);
    if (!status && !et_group_count(*out))
        status = et_fail(error, ET_ECONFIG,
                         "every parameter is frozen (" ET_SETTING_FROZEN "); leave some to train");
    return status;
}

/* *out NULL: no parameter is frozen, so the given group decides. */
static int open_trained(et_task_trainer *t, et_group **out, et_error *error)
{
    et_patterns *patterns;
    *out = NULL;
    if (!t->source || !frozen_of(t).count)
        return ET_OK;
    if (t->shares)
        return et_fail(error, ET_ECONFIG,
                       ET_SETTING_FROZEN ": tasks that train together share an optimizer of all "
                                         "their parameters; leave out this setting");
    int status = et_patterns_new(&patterns, frozen_of(t), ET_SETTING_FROZEN, error);
    if (status)
        return status;
    status = check_found(t, patterns, error);
    if (!status)
        status = choose_trained(t, patterns, out, error);
    et_patterns_free(patterns);
    return status;
}

int et_task_trainer_finish(et_task_trainer *t, et_optimizer *optimizer, et_error *error)
{
    et_group *chosen = NULL;
    et_assert(!t->optimizer && !t->metrics.window);
    int status = et_params_ready(t->params)
                     ? ET_OK
                     : et_params_materialize(t->params, t->options.bfloat16, error);
    if (!status && t->source)
        status = et_pass_prepare(t->pass, &t->source->layout, error);
    if (!status)
        status = define_metrics(t, error);
    t->shares = optimizer != NULL;
    t->optimizer = optimizer;
    if (!status && t->shares && t->options.group)
        status = et_fail(error, ET_ECONFIG,
                         "group: tasks that train together share an optimizer "
                         "of all their parameters; leave out the group");
    if (!status)
        status = open_trained(t, &chosen, error);
    if (chosen)
        t->options.group = chosen;
    t->derived_size =
        derived_group(t) ? et_group_size(t->options.group) : et_params_trained_size(t->params);
    if (!status && !t->shares)
        status = open_optimizer(t, error);
    t->options.group = NULL;
    et_group_free(chosen);
    return status || !t->source ? status : open_step(t, error);
}

/* A task's own step makes the update itself, without noise. */
static int check_privacy(const et_task_trainer_options *o, const et_task *task, et_error *error)
{
    if (!o->dp_config)
        return ET_OK;
    if (o->loss_scale != 0)
        return et_fail(
            error, ET_ECONFIG,
            "dp_config cannot be combined with loss_scale (task.differential_privacy_config, "
            "runtime.loss_scale); remove one of them");
    if (task->class->train_step)
        return et_fail(error, ET_ECONFIG,
                       "dp_config: task %s has its own train_step, which would ignore it",
                       et_task_name(task));
    return et_privacy_check(o->dp_config, error);
}

static int check_options(const et_task_trainer_options *o, const et_task *task, et_error *error)
{
    bool whole = !task->class->train_step || o->batches <= 1;
    if (o->batches < 0)
        return et_fail(error, ET_ECONFIG, "%d batches per update: give at least 1", o->batches);
    if (!whole)
        return et_fail(error, ET_ECONFIG,
                       "%d batches per update: task %s has its own train_step, which needs one",
                       o->batches, et_task_name(task));
    if (o->loss_scale != 0 && o->loss_scale != ET_LOSS_SCALE_DYNAMIC &&
        !(o->loss_scale > 0 && isfinite(o->loss_scale)))
        return et_fail(error, ET_ECONFIG, "loss_scale %g: give a positive number, or dynamic",
                       o->loss_scale);
    if (o->group && !o->optimization)
        return et_fail(error, ET_ECONFIG,
                       "group: set et_optimizer_setup.group of the optimizer instead");
    if (isnan(o->loss_upper_bound) || o->loss_upper_bound < 0 || o->recovery_begin_steps < 0)
        return et_fail(error, ET_ECONFIG,
                       "loss_upper_bound %g, recovery_begin_steps %lld: give at least 0 for both",
                       o->loss_upper_bound, (long long)o->recovery_begin_steps);
    if (o->given && o->given->train_dataset &&
        o->given->train_dataset == o->given->validation_dataset)
        return et_fail(
            error, ET_EUSAGE,
            "train_dataset and validation_dataset are one source: open a second source of "
            "the same samples");
    if (o->use < ET_TRAIN_AND_EVALUATE || o->use > ET_EVALUATE_ONLY)
        return et_fail(error, ET_ECONFIG, "use %lld of a task trainer does not exist",
                       (long long)o->use);
    return check_privacy(o, task, error);
}

/* Returns the given sources to the caller. */
static void give_up(et_task_trainer *t)
{
    if (t->source == t->given.train_dataset)
        t->source = NULL;
    if (t->validation.source == t->given.validation_dataset)
        t->validation.source = NULL;
    t->given.train_dataset = t->given.validation_dataset = NULL;
    et_task_trainer_close(t);
}

int et_task_trainer_begin(et_task_trainer **out, et_task *task, et_device *device,
                          et_params *params, const et_task_trainer_options *options,
                          et_error *error)
{
    static const et_task_trainer_options defaults = { 0 };
    const et_task_trainer_options *o = options ? options : &defaults;
    *out = NULL;
    bool given = o->given && (o->given->train_dataset || o->use == ET_EVALUATE_ONLY);
    bool whole =
        task && (task->class->build || task->class->build_model) && (task->class->data || given);
    if (!whole || !device || !params)
        return et_fail(error, ET_EUSAGE,
                       "a task trainer needs a task with build and data, a device and parameters");
    int status = check_options(o, task, error);
    et_task_trainer *t = status ? NULL : et_alloc_zero(1, sizeof *t);
    if (!t)
        return status ? status : et_alloc_failed(error, "a trainer");
    t->trainer.class = &trainer_class;
    t->driver = &t->trainer;
    t->evaluator.class = &et_task_evaluator_class;
    t->task = task;
    t->device = device;
    t->params = params;
    t->options = *o;
    t->options.given = NULL;
    t->options.batches = o->batches ? o->batches : 1;
    if (o->given)
        t->given = *o->given;
    t->privacy.wanted = o->dp_config != NULL;
    if (t->privacy.wanted)
        t->privacy.options = *o->dp_config;
    t->options.dp_config = NULL;
    t->evaluator.comm = et_validation_is_sharded(t) ? o->comm : NULL;
    const double scale = t->options.loss_scale;
    if (scale < 0)
        t->overflow = et_overflow_scaled(ET_OVERFLOW_SCALE, ET_OVERFLOW_EVERY);
    else
        t->overflow.overflow = scale > 0 ? et_overflow_fixed(scale) : et_overflow_fail();
    status = t->options.use == ET_EVALUATE_ONLY ? ET_OK : open_training(t, error);
    if (!status && t->options.use != ET_TRAIN_ONLY)
        status = et_validation_open(t, error);
    if (status)
        give_up(t);
    else
        *out = t;
    return status;
}

int et_task_trainer_open(et_task_trainer **out, et_task *task, et_device *device, et_params *params,
                         const et_task_trainer_options *options, et_error *error)
{
    int status = et_task_trainer_begin(out, task, device, params, options, error);
    if (status)
        return status;
    status = et_task_trainer_finish(*out, NULL, error);
    if (status) {
        give_up(*out);
        *out = NULL;
    }
    return status;
}

/* Sources last: their threads fill batches of layouts that passes refer to. */
void et_task_trainer_close(et_task_trainer *t)
{
    if (!t)
        return;
    if (t->cluster.coordinator)
        t->cluster.close(t->cluster.coordinator);
    et_step_release(&t->step);
    et_metrics_free(t->metrics.window);
    et_metrics_free(t->metrics.own);
    et_metrics_free(t->metrics.pending);
    if (!t->shares)
        et_optimizer_free(t->optimizer);
    et_validation_release(&t->validation);
    et_pass_close(t->pass);
    /* Given sources that options.use leaves unread. */
    if (t->given.validation_dataset != t->validation.source)
        et_source_close(t->given.validation_dataset);
    if (t->given.train_dataset != t->source)
        et_source_close(t->given.train_dataset);
    et_validation_close_source(&t->validation);
    et_source_close(t->source);
    et_arena_release(&t->arena);
    et_free(t);
}

/* ---- facts ---- */

et_trainer *et_task_trainer_trainer(et_task_trainer *trainer)
{
    return trainer->driver;
}

et_evaluator *et_task_trainer_evaluator(et_task_trainer *trainer)
{
    return trainer->validation.source ? &trainer->evaluator : NULL;
}

const et_pass *et_task_trainer_pass(const et_task_trainer *trainer)
{
    return trainer->pass;
}

int et_task_trainer_batches(et_task_trainer *trainer, int64_t *count, et_error *error)
{
    *count = 0;
    return trainer->source ? et_source_batches(trainer->source, count, error) : ET_OK;
}

/* Arrays over the store: values, gradients and the optimizer's slots, the average among them, in
 * float32; the bfloat16 shadow is half of one. */
size_t et_task_trainer_parameter_bytes(const et_task_trainer *t)
{
    size_t gradients = t->derived_size * sizeof(float);
    size_t flat = et_params_flat_size(t->params) * sizeof(float);
    return flat + gradients + et_optimizer_bytes(t->optimizer) +
           (t->options.bfloat16 ? flat / 2 : 0);
}
