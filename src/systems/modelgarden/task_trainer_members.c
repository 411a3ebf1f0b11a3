/* The members of Model Garden's Trainer that a driver does not call. */
#include "systems/modelgarden/task_trainer_private.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/dtype.h"
#include "formats/events/log_names.h"
#include "train/step/trainer.h"

/* ---- the begin of an inner loop, and the logs at its end ---- */

int et_task_trainer_check_idle(const et_task_trainer *t, et_error *error)
{
    return t->validation.begun
               ? et_fail(error, ET_EUSAGE,
                         "an evaluation of %s is still running: call eval_end first",
                         et_task_name(t->task))
               : ET_OK;
}

void et_task_trainer_reset(et_task_trainer *t)
{
    et_metrics_reset(t->metrics.window);
    et_metrics_reset(t->metrics.own);
}

int et_task_trainer_train_loop_begin(et_task_trainer *t, et_error *error)
{
    bool *inside = &t->in_given[ET_GIVEN_TRAIN_LOOP_BEGIN];
    if (*inside)
        return ET_OK;
    *inside = true;
    int status =
        t->given.train_loop_begin ? t->given.train_loop_begin(t->given.self, t, error) : ET_OK;
    *inside = false;
    t->in_loop = !status;
    return status;
}

int et_task_trainer_begin_loop(et_task_trainer *t, et_error *error)
{
    return t->in_loop ? ET_OK : et_task_trainer_train_loop_begin(t, error);
}

double et_task_trainer_learning_rate(const et_task_trainer *t)
{
    /* An update that dynamic loss scaling left out has no rate. */
    bool known = t->stepped && (t->step.updated || (!t->logs && t->step.update.finite));
    return known ? t->step.update.learning_rate : et_optimizer_learning_rate(t->optimizer);
}

int et_task_trainer_fill_logs(et_task_trainer *t, et_value *logs, et_error *error)
{
    int status = et_metrics_results(t->metrics.window, logs, error);
    if (!status)
        status = et_metrics_results(t->metrics.own, logs, error);
    if (!status &&
        !et_value_set_float(logs, ET_LOGGED_LEARNING_RATE, et_task_trainer_learning_rate(t)))
        status = et_alloc_failed(error, "a log");
    return status;
}

int et_task_trainer_initialize(et_task_trainer *t, et_error *error)
{
    const et_trainer_class *class = t->trainer.class;
    int status = et_task_trainer_check_idle(t, error);
    if (!status)
        status = class->start(&t->trainer, error);
    if (!status)
        et_task_trainer_reset(t);
    return status;
}

/* Replaces the trainer's source while one batch or update is made. */
static et_source *put_source(et_task_trainer *t, et_source *iterator)
{
    et_source *before = t->step.parts.source;
    t->step.parts.source = iterator ? iterator : before;
    return before;
}

/* In a cluster, workers take the batches. */
static int check_inputs(const et_task_trainer *t, bool wanted, et_error *error)
{
    return !wanted || t->driver == &t->trainer
               ? ET_OK
               : et_fail(error, ET_EUSAGE,
                         "workers take the batches of a step from the trainer's data; call without "
                         "a source");
}

int et_task_trainer_next_train_inputs(et_task_trainer *t, et_source *iterator, et_batch **inputs,
                                      et_error *error)
{
    int status = check_inputs(t, true, error);
    *inputs = NULL;
    if (status)
        return status;
    if (!t->source)
        return t->trainer.class->step(&t->trainer, error);
    et_source *before = put_source(t, iterator);
    t->step.count = t->trainer.step;
    status = et_step_take(&t->step, error);
    t->step.parts.source = before;
    if (!status)
        *inputs = t->step.batch;
    return status;
}

int et_task_trainer_train_step(et_task_trainer *t, et_source *iterator, et_error *error)
{
    int status = check_inputs(t, iterator != NULL, error);
    if (status)
        return status;
    et_source *before = put_source(t, iterator);
    status = et_trainer_step(t->driver, error);
    t->step.parts.source = before;
    return status;
}

int et_task_trainer_train_loop_end(et_task_trainer *t, et_value *logs, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    if (!logs && !(logs = et_value_dict(&arena)))
        return et_alloc_failed(error, "logs");
    const bool inside = t->in_given[ET_GIVEN_TRAIN_LOOP_END];
    const et_trainer_class *class = t->driver->class;
    int status = inside ? et_task_trainer_fill_logs(t, logs, error)
                        : class->loop_end(t->driver, logs, error);
    et_arena_release(&arena);
    if (inside && !status)
        et_task_trainer_reset(t);
    return status || inside ? status : class->loop_begin(t->driver, error);
}

static int train_loop(et_task_trainer *t, et_source *iterator, int64_t num_steps, et_error *error)
{
    int status = ET_OK;
    for (int64_t i = 0; !status && i < num_steps; i++)
        status = et_task_trainer_train_step(t, iterator, error);
    return status;
}

et_loop_fn *et_task_trainer_create_train_loop_fn(et_task_trainer *trainer)
{
    (void)trainer;
    return train_loop;
}

int et_task_trainer_train(et_task_trainer *t, int64_t num_steps, et_value *logs, et_error *error)
{
    if (num_steps < 0)
        return et_fail(error, ET_EUSAGE, "%lld training steps: give at least 0",
                       (long long)num_steps);
    int status;
    if ((status = et_task_trainer_train_loop_begin(t, error)) ||
        (status = train_loop(t, NULL, num_steps, error)))
        return status;
    return et_task_trainer_train_loop_end(t, logs, error);
}

/* Checks that batches of another layout can replace those of the trainer. */
static int check_fields(const et_layout *own, const et_layout *other, et_error *error)
{
    for (int i = 0; i < own->fields; i++) {
        const et_layout_field *field = &own->field[i];
        int at = et_layout_find(other, field->name);
        if (at < 0)
            return et_fail(error, ET_ECONFIG, "the data set has no field %s, which the model reads",
                           field->name);
        if (other->field[at].dtype != field->dtype)
            return et_fail(error, ET_ECONFIG, "field %s of the data set is of type %s, not %s",
                           field->name, et_dtype_name(other->field[at].dtype),
                           et_dtype_name(field->dtype));
    }
    return ET_OK;
}

int et_task_trainer_distribute_dataset(et_task_trainer *t,
                                       int (*open)(void *payload, const et_input_context *context,
                                                   et_source **out, et_error *error),
                                       void *payload, et_source **out, et_error *error)
{
    const et_input_context context = { .input_pipelines = 1 };
    (void)t;
    *out = NULL;
    return open ? open(payload, &context, out, error)
                : et_fail(error, ET_EUSAGE,
                          "distribute_dataset needs a function that opens a data set");
}

int et_task_trainer_distribute_source(et_task_trainer *t, et_source *dataset, et_source **out,
                                      et_error *error)
{
    *out = NULL;
    if (!dataset)
        return et_fail(error, ET_EUSAGE, "distribute_source needs a data set");
    const et_source *own = t->source ? t->source : t->validation.source;
    int status = check_fields(&own->layout, &dataset->layout, error);
    if (!status)
        *out = dataset;
    return status;
}

et_optimizer *et_task_trainer_optimizer(const et_task_trainer *t)
{
    return t->optimizer;
}

void et_task_trainer_keep_weights(et_task_trainer *t, int64_t step)
{
    et_assert(step >= 0);
    t->keeps = true;
    t->kept_step = step;
}
