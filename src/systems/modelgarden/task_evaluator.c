/* Evaluation of a task, in the order of Model Garden's Trainer.
 *
 *   begin    resets metrics and state, and puts the averaged weights into the store
 *   step     next_eval_inputs -> validation_step -> aggregate_logs
 *   end      metrics -> validation_loss -> reduce_aggregated_logs -> validate -> exporter;
 *            then always puts the trained weights back
 *
 * A program may replace begin, aggregate_logs and end. This file calls the replacements. A
 * replacement may call the replaced function by the member's name (et_task_trainer.in_given).
 *
 * Several sets are evaluated one after another in one evaluation. At the end of a set its values
 * are stored under its name; the exporter gets the values of all sets.
 *
 * Each of several ranks evaluates some batches of a set; the results are joined before the set's
 * values are computed (eval_shard.h).
 *
 * The plan is made at the first evaluation, because a short run may not need it. A step makes logs
 * only on request; otherwise it allocates nothing. */
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/values/value.h"
#include "data/batches/source.h"
#include "engine/tensor/tensor.h"
#include "formats/events/log_names.h"
#include "systems/modelgarden/task_trainer_private.h"
#include "train/step/trainer.h"
#include "train/task/task_private.h"

static et_task_trainer *trainer_of(et_evaluator *evaluator)
{
    return (et_task_trainer *)(void *)((char *)evaluator - offsetof(et_task_trainer, evaluator));
}

/* ---- opening ---- */

static void build(et_scope *scope, void *payload)
{
    et_task_build(((et_task_trainer *)payload)->task, scope, false);
}

/* All sets share one batch, so their layouts must be equal. */
static int check_layout(const et_validation_set *first, const et_validation_set *set,
                        const et_task_trainer *t, et_error *error)
{
    const et_layout *own = &set->source->layout, *wanted = &first->source->layout;
    if (et_layout_fits(own, wanted))
        return ET_OK;
    for (int k = 0; k < own->kinds && own->kinds == wanted->kinds; k++)
        if (own->capacity[k] != wanted->capacity[k])
            return et_fail(error, ET_ECONFIG,
                           "validation set %s of %s: its batches have the capacity %lld of %s, but "
                           "the batches of set %s have %lld: open all sets with the same capacity",
                           set->name, et_task_name(t->task), (long long)own->capacity[k],
                           own->kind[k] ? own->kind[k] : "a kind", first->name,
                           (long long)wanted->capacity[k]);
    return et_fail(
        error, ET_ECONFIG,
        "validation set %s of %s: its batches have other arrays than the batches of set %s",
        set->name, et_task_name(t->task), first->name);
}

/* Opens sets until the task has no more. A set's name is a key of logs and part of metric names. */
static int open_sets(et_task_trainer *t, et_error *error)
{
    et_validation *v = &t->validation;
    const et_task_class *class = t->task->class;
    int status = ET_OK;
    while (class->validation_set && !status) {
        et_validation_set one = { .source = NULL };
        status = class->validation_set(t->task, v->sets, &one.name, &one.source, error);
        if (status || !one.source)
            break;
        if (v->sets == ET_VALIDATION_SETS_MAX || !one.name || strpbrk(one.name, "/|")) {
            et_source_close(one.source);
            return et_fail(
                error, ET_ECONFIG,
                "validation set %d of %s: give at most %d sets, each with a name without / or |",
                v->sets + 1, et_task_name(t->task), ET_VALIDATION_SETS_MAX);
        }
        if (v->sets && (status = check_layout(&v->set[0], &one, t, error))) {
            et_source_close(one.source);
            break;
        }
        v->set[v->sets++] = one;
    }
    v->source = v->sets ? v->set[0].source : NULL;
    return status;
}

int et_validation_open(et_task_trainer *t, et_error *error)
{
    et_validation *v = &t->validation;
    et_pass_options options = { .bfloat16 = t->options.bfloat16, .name = "validation loss" };
    int status;
    v->source = t->given.validation_dataset;
    if (!v->source && (status = open_sets(t, error)))
        return status;
    if (!v->source && t->task->class->data &&
        (status = et_task_build_inputs(t->task, NULL, NULL, &v->source, error)))
        return status;
    if (!v->source)
        return t->options.use == ET_EVALUATE_ONLY
                   ? et_fail(error, ET_ECONFIG,
                             "%s has no validation data; name data in its settings",
                             et_task_name(t->task))
                   : ET_OK;
    /* The fingerprint of all sets together; 0 if one is unknown. */
    uint64_t print = v->sets ? (uint64_t)v->sets : et_source_content(v->source);
    for (int i = 0; i < v->sets; i++)
        print = et_content_joined(print, et_source_content(v->set[i].source));
    t->evaluator.data = print;
    if ((status = et_pass_open(&v->pass, t->device, t->params, &v->source->layout, build, t,
                               &options, error)) ||
        (status = et_metrics_new(&v->own, error)))
        return status;
    return et_task_build_metrics(t->task, false, v->own, error);
}

void et_validation_release(et_validation *v)
{
    et_batch_free(v->batch);
    et_metrics_free(v->metrics);
    et_metrics_free(v->own);
    et_metrics_free(v->loss);
    et_free(v->index);
    et_arena_release(&v->arena);
    et_arena_release(&v->step_arena);
    et_eval_shard_release(&v->shard);
    et_pass_close(v->pass);
}

/* Ranks can share the evaluation of a task with own methods only if the task declares its kept
 * rows. */
bool et_validation_is_sharded(const et_task_trainer *t)
{
    const et_task_class *class = t->task->class;
    bool own = class->process_metrics || class->process_compiled_metrics ||
               class->validation_step || class->inference_step || class->validate;
    const et_task_trainer_given *given = &t->given;
    own = own || given->eval_begin || given->eval_reduce || given->eval_end;
    return (class->kept || !own) && !given->checkpoint_exporter;
}

void et_validation_close_source(et_validation *v)
{
    if (!v->sets)
        et_source_close(v->source);
    for (int i = 0; i < v->sets; i++)
        et_source_close(v->set[i].source);
}

/* Releases the rest of a failure before the next try. */
static int prepare(et_task_trainer *t, et_error *error)
{
    et_validation *v = &t->validation;
    const char *skip = t->task->class->validation_step ? ET_LOGGED_LOSS : NULL;
    et_assert(v->pass && v->source && !v->batch);
    int status = et_pass_prepare(v->pass, &v->source->layout, error);
    if (status)
        return status;
    size_t measures = (size_t)et_pass_measures(v->pass);
    et_metrics_free(v->metrics);
    et_metrics_free(v->loss);
    et_free(v->index);
    v->metrics = v->loss = NULL;
    v->index = et_alloc(measures + 1, sizeof *v->index);
    status = v->index ? et_metrics_new(&v->metrics, error) : et_alloc_failed(error, "validation");
    if (!status &&
        !(status = et_define_measures(v->metrics, v->pass, ET_LOGGED_OF_VALIDATION, skip, v->index,
                                      error)) &&
        !(status = et_metrics_new(&v->loss, error)) &&
        !(status = et_metrics_define(v->loss, ET_LOGGED_VALIDATION_LOSS, &et_metric_mean, error)))
        status = et_task_check_metrics(t->task, v->own, v->metrics, error);
    v->internals = (et_task_internals){ NULL, v->metrics, v->index, false };
    v->now = (et_task_step){ .model = v->pass, .metrics = v->own, .internals = &v->internals };
    return status ? status : et_batch_new(&v->batch, &v->source->layout, error);
}

/* ---- begin, step, end ---- */

static int aggregate_logs(et_task_trainer *t, et_value *state, const et_value *outputs,
                          et_error *error)
{
    bool *inside = &t->in_given[ET_GIVEN_EVAL_REDUCE];
    if (*inside || !t->given.eval_reduce)
        return et_task_aggregate_logs(t->task, state, outputs, error);
    *inside = true;
    int status = t->given.eval_reduce(t->given.self, t, state, outputs, error);
    *inside = false;
    return status;
}

/* Adds a step's outputs to the state: the trainer's own, or the caller's. */
static int reduce(et_task_trainer *t, et_value *state, const et_value *outputs, et_error *error)
{
    et_validation *v = &t->validation;
    if (!state && !v->state)
        v->state = et_value_dict(&v->arena);
    et_value *to = state ? state : v->state;
    int status = to ? aggregate_logs(t, to, outputs, error) : ET_OK;
    return status || (to && !et_value_failed(to))
               ? status
               : et_alloc_failed(error, "the state of an evaluation");
}

static int aggregate(void *self, const et_value *outputs, et_error *error)
{
    return reduce(self, NULL, outputs, error);
}

static bool kept(void *self, int number, et_kept_rows *rows)
{
    et_task *task = ((et_task_trainer *)self)->task;
    return task->class->kept(task, number, rows);
}

/* A task's kept rows replace its outputs and need less memory, so an evaluation by the trainer
 * needs no logs then. */
static bool keeps_rows(et_task_trainer *t)
{
    const et_task_class *class = t->task->class;
    et_kept_rows rows;
    return class->validation_outputs && class->validate && class->kept &&
           class->kept(t->task, 0, &rows);
}

/* Whether the outputs of a step are added to a state. */
static bool aggregates(et_task_trainer *t)
{
    return t->given.eval_reduce || (t->task->class->aggregate_logs && !keeps_rows(t));
}

static void reset(et_validation *v)
{
    et_metrics_reset(v->metrics);
    et_metrics_reset(v->own);
    et_metrics_reset(v->loss);
}

/* A set from its beginning, or the only data. comm: the ranks that share its batches. The metrics
 * of the first set are reset when the evaluation begins. */
static int begin_set(et_task_trainer *t, et_comm *comm, int at, et_error *error)
{
    et_validation *v = &t->validation;
    const et_task_class *class = t->task->class;
    et_assert(at >= 0 && at < (v->sets ? v->sets : 1));
    v->at = at;
    v->source = v->sets ? v->set[at].source : v->source;
    if (v->sets && class->use_validation_set)
        class->use_validation_set(t->task, at);
    v->joined[0] = v->metrics;
    v->joined[1] = v->own;
    v->joined[2] = v->loss;
    v->shard.options = (et_eval_shard_options){ .comm = comm,
                                                .metrics = v->joined,
                                                .sets = 3,
                                                .kept = class->kept ? kept : NULL,
                                                .output = aggregates(t) ? aggregate : NULL,
                                                .self = t };
    et_eval_shard_begin(&v->shard);
    if (at)
        reset(v);
    v->state = NULL;
    v->taken = v->reported = false;
    v->steps = 0;
    return et_source_rewind(v->source, error);
}

static int begin_metrics(et_task_trainer *t, et_error *error)
{
    bool *inside = &t->in_given[ET_GIVEN_EVAL_BEGIN];
    if (*inside || !t->given.eval_begin) {
        reset(&t->validation);
        et_optimizer_show_average(t->optimizer);
        return ET_OK;
    }
    *inside = true;
    int status = t->given.eval_begin(t->given.self, t, error);
    *inside = false;
    return status;
}

static int end(et_task_trainer *t, const et_value *state, et_value *logs, et_error *error);

/* In these functions the batch, the state or the weights are in use. */
static int refuse_inside(const et_task_trainer *t, et_error *error)
{
    static const char *const names[ET_GIVEN_HOOKS] = {
        [ET_GIVEN_EVAL_BEGIN] = "eval_begin",
        [ET_GIVEN_EVAL_REDUCE] = "eval_reduce",
        [ET_GIVEN_EVAL_END] = "eval_end",
        [ET_GIVEN_NEXT_TRAIN_INPUTS] = "next_train_inputs",
        [ET_GIVEN_NEXT_EVAL_INPUTS] = "next_eval_inputs",
    };
    for (int i = 0; i < ET_GIVEN_HOOKS; i++)
        if (names[i] && t->in_given[i])
            return et_fail(error, ET_EUSAGE,
                           "%s of %s calls a function of the evaluation: call the function between "
                           "steps",
                           names[i], et_task_name(t->task));
    return ET_OK;
}

/* comm: ranks that share the evaluation until its end; NULL: this rank evaluates all batches. */
static int begin(et_task_trainer *t, et_comm *comm, int64_t step, et_error *error)
{
    et_validation *v = &t->validation;
    et_task_trainer_sane(t);
    int status = refuse_inside(t, error);
    if (status || (!v->batch && (status = prepare(t, error))))
        return status;
    et_arena_release(&v->arena);
    v->results = NULL;
    v->stateless = false;
    if (v->sets && !(v->results = et_value_dict(&v->arena)))
        return et_alloc_failed(error, "an evaluation");
    if ((status = begin_set(t, comm, 0, error)))
        return status;
    v->step = step;
    v->begun = true;
    if ((status = begin_metrics(t, error)))
        end(t, NULL, NULL, NULL);
    return status;
}

static int not_begun(const et_task_trainer *t, et_error *error)
{
    return et_fail(error, ET_EUSAGE, "the evaluation of %s has not begun: call eval_begin first",
                   et_task_name(t->task));
}

static int take(et_task_trainer *t, et_source *iterator, et_error *error)
{
    et_validation *v = &t->validation;
    et_source *source = iterator ? iterator : v->source;
    et_task_trainer_sane(t);
    if (!v->begun)
        return not_begun(t, error);
    int status = refuse_inside(t, error);
    if (status || v->taken)
        return status;
    v->took_own = v->took_own || !iterator;
    et_arena_release(&v->step_arena);
    v->extra = t->given.next_eval_inputs ? et_value_dict(&v->step_arena) : NULL;
    t->in_given[ET_GIVEN_NEXT_EVAL_INPUTS] = true;
    status = t->given.next_eval_inputs
                 ? t->given.next_eval_inputs(t->given.self, source, v->batch, v->extra, error)
                 : et_source_next(source, v->batch, error);
    t->in_given[ET_GIVEN_NEXT_EVAL_INPUTS] = false;
    if (!status && v->extra && et_value_failed(v->extra))
        status = et_alloc_failed(error, "inputs of a step");
    v->taken = !status;
    return status;
}

static bool has_batch(const et_validation *v)
{
    return v->batch->filled[0] > 0;
}

/* Reads the loss of a task's own validation step. */
static int note_loss(et_task_trainer *t, const et_value *logs, et_error *error)
{
    const char *key = et_task_loss(t->task);
    double loss;
    if (!t->task->class->validation_step || !et_value_get(logs, key))
        return ET_OK;
    int status = et_value_read_float(logs, key, &loss, error);
    if (status)
        return status;
    et_metrics_add(t->validation.loss, ET_LOGGED_VALIDATION_LOSS, loss, 1);
    t->validation.reported = true;
    return ET_OK;
}

/* Validates the current batch; outputs NULL: not needed. */
static int validate(et_task_trainer *t, et_value *outputs, et_error *error)
{
    et_validation *v = &t->validation;
    bool own = v->extra || (!outputs && t->task->class->validation_step);
    et_value *model = own ? et_value_dict(&v->step_arena) : outputs;
    if (own && !model)
        return et_alloc_failed(error, "a step's logs");
    et_assert(v->begun && v->taken && has_batch(v));
    v->taken = false;
    v->now.inputs = v->batch;
    v->now.step = v->step;
    int status = et_task_validation_step(t->task, &v->now, model, error);
    if (!status && !t->task->class->validation_step)
        v->reported = v->reported || et_pass_divisor(v->pass) > 0;
    if (!status && model)
        status = note_loss(t, model, error);
    if (!status && outputs && model != outputs) {
        /* The model's values come after the additional ones, and replace equal names. */
        for (const et_value *one = v->extra->first; one; one = one->next)
            if (et_value_get(model, one->key))
                et_log(ET_LOG_WARNING,
                       "%s: the model logs this value, too; Etude uses the model's value",
                       one->key);
        status = et_value_merge(outputs, v->extra, error);
        if (!status)
            status = et_value_merge(outputs, model, error);
    }
    if (!status && model && et_value_failed(model))
        status = et_alloc_failed(error, "a step's logs");
    return status;
}

/* A batch for the evaluator's class; another rank's batch is skipped. all: the trainer's data are
 * evaluated without a number of steps, so they end with their first pass, also if they repeat. */
static int step_and_reduce(et_task_trainer *t, et_source *iterator, bool all, bool *more,
                           et_error *error)
{
    et_validation *v = &t->validation;
    bool mine = false;
    int status = take(t, iterator, error);
    *more = !status && has_batch(v) && !(all && !iterator && v->batch->epoch > 0);
    if (*more)
        status = et_eval_shard_next(&v->shard, v->batch, &mine, error);
    v->taken = v->taken && mine;
    if (status || !mine)
        return status;
    const bool reduces = aggregates(t) && !v->stateless;
    et_value *outputs = reduces ? et_value_dict(&v->step_arena) : NULL;
    if (reduces && !outputs)
        return et_alloc_failed(error, "a step's logs");
    v->internals.reduces = reduces && !t->given.eval_reduce && !t->given.eval_end;
    status = validate(t, outputs, error);
    v->internals.reduces = false;
    return status || !reduces ? status : et_eval_shard_keep(&v->shard, outputs, error);
}

static int fill(et_task_trainer *t, const et_value *state, et_value *logs, et_error *error)
{
    et_validation *v = &t->validation;
    const et_task_class *class = t->task->class;
    et_assert(logs && v->metrics && v->own && v->loss);
    int status = et_metrics_results(v->metrics, logs, error);
    if (!status)
        status = et_metrics_results(v->own, logs, error);
    if (!status && v->reported && class->validation_step)
        status = et_metrics_results(v->loss, logs, error);
    if (!v->reported) {
        /* A default step always gives a loss. The loss is not finite if no row counts. */
        const char *name = et_task_name(t->task);
        if (class->validation_step)
            et_log(ET_LOG_INFO, "%s: its validation reported no loss", name);
        else if (et_metrics_index(v->metrics, ET_LOGGED_VALIDATION_LOSS) >= 0)
            et_log(ET_LOG_WARNING,
                   "%s: no row of its validation counts; " ET_LOGGED_VALIDATION_LOSS
                   " is meaningless",
                   name);
    }
    if (!status && state && state->count)
        status = et_task_reduce_aggregated_logs(t->task, state, v->step, logs, error);
    if (!status && class->validate && !(state && state->count && keeps_rows(t)))
        status = class->validate(t->task, v->step, logs, error);
    return status;
}

/* Ends a set on all ranks. state NULL: the trainer's own state. logs: of this set, if the sets have
 * no names. */
static int end_set(et_task_trainer *t, const et_value *state, et_value *logs, et_error *error)
{
    et_validation *v = &t->validation;
    v->shard.flags = v->reported;
    int status = et_eval_shard_join(&v->shard, ET_OK, error);
    v->reported = v->shard.flags;
    if (status)
        return status;
    if (v->sets)
        logs = et_value_set_dict(v->results, v->set[v->at].name);
    return logs ? fill(t, state ? state : v->state, logs, error)
                : et_alloc_failed(error, "an evaluation");
}

/* Stores the values of the current set and begins the next. */
static int next_set(et_task_trainer *t, et_error *error)
{
    const et_validation *v = &t->validation;
    int status = end_set(t, NULL, NULL, error);
    return status ? status : begin_set(t, v->shard.options.comm, v->at + 1, error);
}

static bool has_next_set(const et_validation *v)
{
    return v->at + 1 < v->sets;
}

static int finish(et_task_trainer *t, const et_value *state, et_value *logs, et_error *error)
{
    et_validation *v = &t->validation;
    if (!v->begun)
        return not_begun(t, error);
    int status = end_set(t, state, logs, error);
    if (!status && v->sets)
        status = et_value_merge(logs, v->results, error);
    if (!status && t->given.checkpoint_exporter)
        status = t->given.checkpoint_exporter(t->given.self, v->step, logs, error);
    return status;
}

/* logs NULL: the evaluation was cut short. The weights come back in any case. */
static int end(et_task_trainer *t, const et_value *state, et_value *logs, et_error *error)
{
    et_validation *v = &t->validation;
    bool *inside = &t->in_given[ET_GIVEN_EVAL_END];
    int status = refuse_inside(t, error);
    if (status)
        return status;
    if (logs && t->given.eval_end) {
        *inside = true;
        status = t->given.eval_end(t->given.self, t, state ? state : v->state, logs, error);
        *inside = false;
    } else if (logs) {
        status = finish(t, state, logs, error);
    }
    et_optimizer_hide_average(t->optimizer);
    et_arena_release(&v->arena);
    et_arena_release(&v->step_arena);
    v->state = v->extra = v->results = NULL;
    v->taken = v->begun = v->took_own = false;
    return status;
}

/* ---- as an evaluator ---- */

static int class_begin(et_evaluator *evaluator, int64_t step, et_error *error)
{
    et_task_trainer *t = trainer_of(evaluator);
    evaluator->counts = t->validation.sets > 0;
    return begin(t, evaluator->comm, step, error);
}

/* A limit applies to each set. */
static int class_step(et_evaluator *evaluator, bool *more, et_error *error)
{
    et_task_trainer *t = trainer_of(evaluator);
    et_validation *v = &t->validation;
    int status = step_and_reduce(t, NULL, !evaluator->limit, more, error);
    if (status || !evaluator->counts)
        return status;
    v->steps += *more;
    evaluator->done += *more;
    if (*more && v->steps != evaluator->limit)
        return ET_OK;
    if (!*more && evaluator->limit)
        et_evaluator_tell_end(evaluator, v->set[v->at].name, v->steps);
    *more = has_next_set(v);
    return *more ? next_set(t, error) : ET_OK;
}

static int class_end(et_evaluator *evaluator, et_value *logs, et_error *error)
{
    return end(trainer_of(evaluator), NULL, logs, error);
}

const et_evaluator_class et_task_evaluator_class = {
    .name = ET_LOGGED_VALIDATION,
    .begin = class_begin,
    .step = class_step,
    .end = class_end,
};

/* ---- as members of the trainer ---- */

static int no_data(const et_task_trainer *t, et_error *error)
{
    return et_fail(error, ET_EUSAGE, "%s has no validation data; name data in its settings",
                   et_task_name(t->task));
}

/* Called outside a driver, this rank evaluates all batches. */
int et_task_trainer_eval_begin(et_task_trainer *t, et_error *error)
{
    if (!t->validation.source)
        return no_data(t, error);
    return t->in_given[ET_GIVEN_EVAL_BEGIN] ? begin_metrics(t, error)
                                            : begin(t, NULL, t->trainer.step, error);
}

int et_task_trainer_next_eval_inputs(et_task_trainer *t, et_source *iterator, et_batch **inputs,
                                     et_value *extra, et_error *error)
{
    et_validation *v = &t->validation;
    *inputs = NULL;
    int status = take(t, iterator, error);
    if (!status && v->extra && extra)
        status = et_value_merge(extra, v->extra, error);
    if (!status && has_batch(v))
        *inputs = v->batch;
    return status;
}

int et_task_trainer_eval_step(et_task_trainer *t, et_source *iterator, et_value *step_outputs,
                              bool *more, et_error *error)
{
    et_validation *v = &t->validation;
    int status = take(t, iterator, error);
    *more = !status && has_batch(v);
    if (*more)
        return validate(t, step_outputs, error);
    v->taken = false;
    return status;
}

int et_task_trainer_eval_reduce(et_task_trainer *t, et_value *state, const et_value *step_outputs,
                                et_error *error)
{
    return t->validation.begun ? reduce(t, state, step_outputs, error) : not_begun(t, error);
}

int et_task_trainer_eval_end(et_task_trainer *t, const et_value *aggregated_logs, et_value *logs,
                             et_error *error)
{
    const et_validation *v = &t->validation;
    if (!v->begun)
        return not_begun(t, error);
    if (t->in_given[ET_GIVEN_EVAL_END]) {
        int status = logs ? finish(t, aggregated_logs, logs, error) : ET_OK;
        et_optimizer_hide_average(t->optimizer);
        return status;
    }
    bool partly = logs && v->took_own && has_next_set(v);
    int status = end(t, aggregated_logs, partly ? NULL : logs, error);
    return status || !partly ? status
                             : et_fail(error, ET_EUSAGE,
                                       "%s has %d sets of validation data, but step by step only "
                                       "the first is evaluated: call et_task_trainer_evaluate, or "
                                       "give eval_step the source of each set",
                                       et_task_name(t->task), v->sets);
}

static int loop_set(et_task_trainer *t, et_source *iterator, int64_t num_steps, et_error *error)
{
    for (int64_t i = 0; num_steps < 0 || i < num_steps; i++) {
        bool more;
        int status = step_and_reduce(t, iterator, num_steps < 0, &more, error);
        if (status)
            return status;
        if (!more && num_steps > 0)
            et_log(ET_LOG_WARNING, "%s: the data ended after %lld of %lld evaluation steps",
                   et_task_name(t->task), (long long)i, (long long)num_steps);
        if (!more)
            break;
    }
    return ET_OK;
}

static int eval_loop(et_task_trainer *t, et_source *iterator, int64_t num_steps, et_error *error)
{
    int status = loop_set(t, iterator, num_steps, error);
    while (!status && !iterator && has_next_set(&t->validation)) {
        status = next_set(t, error);
        if (!status)
            status = loop_set(t, NULL, num_steps, error);
    }
    return status;
}

static int eval_loop_without_state(et_task_trainer *t, et_source *iterator, int64_t num_steps,
                                   et_error *error)
{
    t->validation.stateless = true;
    int status = eval_loop(t, iterator, num_steps, error);
    t->validation.stateless = false;
    return status;
}

et_loop_fn *et_task_trainer_create_eval_loop_fn(et_task_trainer *trainer, bool has_state)
{
    (void)trainer;
    return has_state ? eval_loop : eval_loop_without_state;
}

static int end_of_sets(void *self, et_value *logs, et_error *error)
{
    return end(self, NULL, logs, error);
}

int et_task_trainer_evaluate(et_task_trainer *t, int64_t num_steps, et_value *logs, et_error *error)
{
    if (num_steps < -1)
        return et_fail(error, ET_EUSAGE, "%lld evaluation steps; give -1 for all data",
                       (long long)num_steps);
    et_comm *comm = t->evaluator.comm;
    int status = t->validation.source ? begin(t, comm, t->trainer.step, error) : no_data(t, error);
    if (!status)
        status = eval_loop(t, NULL, num_steps, error);
    return et_evaluation_end(comm, status, end_of_sets, t, logs, error);
}
