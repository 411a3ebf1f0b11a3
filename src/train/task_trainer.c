/* Between a task and a driver: sources, passes, optimizer, step and metrics, each made once.
 *
 *   open    training data -> its pass (graph, derivatives) -> validation data -> its pass ->
 *           parameters' memory -> plans -> optimizer -> step
 *   step    et_step_run
 *   evaluate    the averaged weights in the store; every batch of one pass over the data; the
 *           task's own measures
 *
 * The validation's plan is made at the first validation: a run that is short never needs it. */
#include "train/task_trainer.h"

#include <math.h>

#include <etude/nn.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/reserved.h"
#include "data/source.h"
#include "train/state.h"

typedef struct validation {
    et_source *source; /* NULL: there is no data */
    et_position begin; /* of source */
    et_batch *batch;
    et_pass *pass;
    et_metrics *metrics;
    int *metric;  /* [measures]: places */
    int64_t step; /* that is validated */
} validation;

struct et_task_trainer {
    et_trainer trainer;
    et_evaluator evaluator;
    et_task *task; /* borrowed, as device and params */
    et_device *device;
    et_params *params;
    et_task_trainer_options options;
    et_source *source;
    et_pass *pass;
    et_optimizer *optimizer;
    et_overflow overflow;
    et_metrics *metrics;
    et_step step;
    validation validation;
};

static et_task_trainer *trainer_of(et_trainer *trainer)
{
    return (et_task_trainer *)(void *)trainer;
}

static et_task_trainer *evaluator_of(et_evaluator *evaluator)
{
    return (et_task_trainer *)(void *)((char *)evaluator - offsetof(et_task_trainer, evaluator));
}

/* ---- the trainer's methods ---------------------------------------------------------------- */

static int attach(et_trainer *trainer, et_state *state, et_error *error)
{
    et_task_trainer *t = trainer_of(trainer);
    int status = et_state_add_params(state, t->params, error);
    if (!status)
        status = et_state_add_optimizer(state, "optimizer", t->optimizer, error);
    if (!status)
        status = et_state_add(state, "metrics", &et_metrics_state, t->metrics, error);
    if (!status)
        status = et_state_add(state, "data", &et_source_part, t->source, error);
    if (!status && t->task->class->attach)
        status = t->task->class->attach(t->task, state, error);
    return status;
}

/* Only where there is nothing to restore: it is most of the work of a start. */
static int start(et_trainer *trainer, et_error *error)
{
    et_task_trainer *t = trainer_of(trainer);
    (void)error;
    et_init_draw(t->params, t->options.seed);
    et_optimizer_start(t->optimizer);
    return ET_OK;
}

static int loop_begin(et_trainer *trainer, et_error *error)
{
    (void)error;
    et_metrics_reset(trainer_of(trainer)->metrics);
    return ET_OK;
}

static int run_step(et_trainer *trainer, et_error *error)
{
    et_task_trainer *t = trainer_of(trainer);
    t->step.count = trainer->step;
    return et_step_run(&t->step, error);
}

static int loop_end(et_trainer *trainer, et_value *logs, et_error *error)
{
    return et_metrics_results(trainer_of(trainer)->metrics, logs, error);
}

static void view(const et_trainer *trainer, et_trainer_view *out)
{
    const et_task_trainer *t = (const et_task_trainer *)(const void *)trainer;
    *out = (et_trainer_view){ .loss = t->step.loss,
                              .learning_rate = t->step.update.learning_rate,
                              .units = t->step.units,
                              .unit = et_layout_unit(&t->source->layout),
                              .epoch = t->step.batch->epoch + 1 };
}

static const et_trainer_class trainer_class = {
    .name = "task",
    .attach = attach,
    .start = start,
    .loop_begin = loop_begin,
    .step = run_step,
    .loop_end = loop_end,
    .view = view,
};

/* ---- the evaluator's methods --------------------------------------------------------------- */

static int define_validation(et_task_trainer *t, et_error *error)
{
    validation *v = &t->validation;
    int status = et_pass_prepare(v->pass, &v->source->layout, error);
    if (status)
        return status;
    int measures = et_pass_measures(v->pass);
    status = et_metrics_new(&v->metrics, error);
    v->metric = status ? NULL : et_alloc((size_t)measures, sizeof *v->metric);
    if (!status && !v->metric)
        status = et_alloc_failed(error, (size_t)measures * sizeof *v->metric, "validation");
    if (!status)
        status = et_define_measures(v->metrics, v->pass, "validation_", v->metric, error);
    return status ? status : et_batch_new(&v->batch, &v->source->layout, error);
}

/* The store shows the averaged weights, where there are any, for as long as validation runs. */
static int begin_validation(et_evaluator *evaluator, int64_t step, et_error *error)
{
    et_task_trainer *t = evaluator_of(evaluator);
    validation *v = &t->validation;
    int status = v->batch ? ET_OK : define_validation(t, error);
    if (!status)
        status = et_source_seek(v->source, &v->begin, error);
    if (status)
        return status;
    et_metrics_reset(v->metrics);
    v->step = step;
    et_optimizer_show_average(t->optimizer);
    return ET_OK;
}

static int validate_batch(et_evaluator *evaluator, bool *more, et_error *error)
{
    validation *v = &evaluator_of(evaluator)->validation;
    int status = et_source_next(v->source, v->batch, error);
    *more = !status && v->batch->filled[0] > 0;
    if (!*more)
        return status;
    status = et_pass_run(v->pass, v->batch, 0, 0, error);
    for (int i = 0; !status && i < et_pass_measures(v->pass); i++) {
        et_measured measured = et_pass_measured(v->pass, i);
        et_metrics_add_at(v->metrics, v->metric[i], measured.total, measured.weight);
    }
    return status;
}

/* logs NULL: it was cut short. The weights come back in any case. */
static int end_validation(et_evaluator *evaluator, et_value *logs, et_error *error)
{
    et_task_trainer *t = evaluator_of(evaluator);
    validation *v = &t->validation;
    int status = logs ? et_metrics_results(v->metrics, logs, error) : ET_OK;
    if (logs && !status && t->task->class->validate)
        status = t->task->class->validate(t->task, v->step, logs, error);
    et_params_use(t->params, NULL);
    return status;
}

static const et_evaluator_class evaluator_class = {
    .name = "validation",
    .begin = begin_validation,
    .step = validate_batch,
    .end = end_validation,
};

/* ---- opening and closing ------------------------------------------------------------------- */

static void build_training(et_scope *scope, void *payload)
{
    et_task *task = ((et_task_trainer *)payload)->task;
    task->class->build(task, scope, true);
}

static void build_validation(et_scope *scope, void *payload)
{
    et_task *task = ((et_task_trainer *)payload)->task;
    task->class->build(task, scope, false);
}

static int open_validation(et_task_trainer *t, et_error *error)
{
    validation *v = &t->validation;
    et_pass_options options = { .bfloat16 = t->options.bfloat16, .name = "validation loss" };
    int status = t->task->class->data(t->task, false, &v->source, error);
    if (status || !v->source)
        return status;
    et_source_position(v->source, &v->begin);
    return et_pass_open(&v->pass, t->device, t->params, &v->source->layout, build_validation, t,
                        &options, error);
}

static int open_training(et_task_trainer *t, et_error *error)
{
    et_pass_options options = { .training = true,
                                .bfloat16 = t->options.bfloat16,
                                .recompute = t->options.recompute,
                                .name = "loss and gradients" };
    int status = t->task->class->data(t->task, true, &t->source, error);
    if (!status && !t->source)
        status = et_fail(error, ET_ECONFIG, "%s has no training data", t->task->class->name);
    return status ? status
                  : et_pass_open(&t->pass, t->device, t->params, &t->source->layout, build_training,
                                 t, &options, error);
}

static int open_optimizer(et_task_trainer *t, et_error *error)
{
    static const et_optimizer_setup defaults = { 0 };
    const et_task_trainer_options *o = &t->options;
    return o->optimization ? et_optimizer_new(&t->optimizer, t->params, NULL, t->device->kernels,
                                              o->optimization, error)
                           : et_optimizer_open(&t->optimizer, t->device, t->params, NULL,
                                               o->optimizer ? o->optimizer : &defaults, error);
}

static int open_step(et_task_trainer *t, et_error *error)
{
    et_step_parts parts = {
        .source = t->source,
        .pass = t->pass,
        .optimizer = t->optimizer,
        .overflow = &t->overflow,
        .metrics = t->metrics,
        .prefix = "training_",
        .stop = t->options.stop,
        .seed = t->options.seed,
        .shards = t->options.batches,
    };
    return et_step_open(&t->step, &parts, error);
}

static int open_all(et_task_trainer *t, et_error *error)
{
    int status = open_training(t, error);
    if (!status)
        status = open_validation(t, error);
    if (!status && !et_params_ready(t->params))
        status = et_params_materialize(t->params, t->options.bfloat16, error);
    if (!status)
        status = et_pass_prepare(t->pass, &t->source->layout, error);
    if (!status)
        status = open_optimizer(t, error);
    if (!status)
        status = et_metrics_new(&t->metrics, error);
    return status ? status : open_step(t, error);
}

int et_task_trainer_open(et_task_trainer **out, et_task *task, et_device *device, et_params *params,
                         const et_task_trainer_options *options, et_error *error)
{
    static const et_task_trainer_options defaults = { 0 };
    *out = NULL;
    if (!task || !task->class->build || !task->class->data || !device || !params)
        return et_fail(error, ET_EUSAGE,
                       "a task trainer needs a task with build and data, a device and parameters");
    int status = et_options_check(options, "et_task_trainer_options", error);
    et_task_trainer *t = status ? NULL : et_alloc_zero(1, sizeof *t);
    if (!t)
        return status ? status : et_alloc_failed(error, sizeof *t, "a trainer");
    t->trainer.class = &trainer_class;
    t->evaluator.class = &evaluator_class;
    t->task = task;
    t->device = device;
    t->params = params;
    t->options = options ? *options : defaults;
    t->options.batches = t->options.batches ? t->options.batches : 1;
    t->overflow = et_overflow_fail();
    status = t->options.batches < 0
                 ? et_fail(error, ET_ECONFIG, "%d batches of one update", t->options.batches)
                 : open_all(t, error);
    if (status)
        et_task_trainer_close(t);
    else
        *out = t;
    return status;
}

/* Sources last: their threads fill batches of layouts that passes refer to. */
void et_task_trainer_close(et_task_trainer *t)
{
    if (!t)
        return;
    validation *v = &t->validation;
    et_step_release(&t->step);
    et_batch_free(v->batch);
    et_metrics_free(v->metrics);
    et_free(v->metric);
    et_metrics_free(t->metrics);
    et_optimizer_free(t->optimizer);
    et_pass_close(v->pass);
    et_pass_close(t->pass);
    et_source_close(v->source);
    et_source_close(t->source);
    et_free(t);
}

et_trainer *et_task_trainer_trainer(et_task_trainer *trainer)
{
    return &trainer->trainer;
}

et_evaluator *et_task_trainer_evaluator(et_task_trainer *trainer)
{
    return trainer->validation.source ? &trainer->evaluator : NULL;
}

const et_pass *et_task_trainer_pass(const et_task_trainer *trainer)
{
    return trainer->pass;
}

const et_layout *et_task_trainer_layout(const et_task_trainer *trainer)
{
    return &trainer->source->layout;
}

/* Arrays over the store: values, gradients and the optimizer's slots, the average among them, in
 * float32; the bfloat16 shadow is half of one. */
size_t et_task_trainer_parameter_bytes(const et_task_trainer *t)
{
    size_t trained = (size_t)et_params_trained_size(t->params) * sizeof(float);
    size_t flat = (size_t)et_params_flat_size(t->params) * sizeof(float);
    return flat + trained + et_optimizer_bytes(t->optimizer) + (t->options.bfloat16 ? flat / 2 : 0);
}

size_t et_task_trainer_memory(const et_task_trainer *trainer)
{
    return et_task_trainer_parameter_bytes(trainer) + et_pass_memory(trainer->pass);
}
