/* The class of the task, working on batches of rows.
 *
 *   data     training: shuffled, without end, read ahead; validation: one pass, in order
 *   model    that of the settings over the encoder's columns (models.h)
 *   losses   of classes or of values (losses.c)
 *   validate scores over all rows (tabular_validate.c) */

#include "base/alloc.h"
#include "base/assert.h"
#include "base/stages.h"
#include "formats/events/log_names.h"
#include "tasks/tabular/members.h"
#include "tasks/tabular/setup/setup_private.h"
#include "train/task/task_private.h"

static et_tabular_task *downcast(et_task *self)
{
    return (et_tabular_task *)(void *)self;
}

static void build_model(et_task *self, et_scope *scope, bool training, et_nodes *outputs,
                        et_nodes *aux_losses)
{
    const et_tabular_task *task = downcast(self);
    const bool *which = training ? task->part.which : NULL;
    (void)aux_losses;
    et_node *z =
        et_tabular_build_outputs(scope, &task->options, task->encoder, &task->target, which);
    et_nodes_put(outputs, "outputs", z);
    if (et_scope_training(scope) && et_task_defines_metrics(self, scope))
        et_tabular_name_output(scope, &task->options, &task->target, z);
}

/* A program's own labels: of the target's name, or the only ones. */
static et_node *labels_of(const et_tabular_task *task, et_scope *scope, const et_nodes *labels)
{
    if (!labels)
        return et_batch_input(scope, task->target.field);
    return labels->count == 1 ? labels->node[0] : et_nodes_need(scope, labels, task->target.field);
}

static void build_losses(et_task *self, et_scope *scope, const et_nodes *labels,
                         const et_nodes *outputs, const et_nodes *aux_losses)
{
    const et_tabular_task *task = downcast(self);
    (void)aux_losses;
    et_tabular_build_loss(scope, &task->options, &task->target, labels_of(task, scope, labels),
                          et_nodes_need(scope, outputs, "outputs"));
}

static int data(et_task *self, bool training, et_source **out, et_error *error)
{
    return et_tabular_batches(downcast(self), training, 0, out, error);
}

static int validation_set(et_task *self, int number, const char **name, et_source **out,
                          et_error *error)
{
    et_tabular_task *task = downcast(self);
    const et_structs *sets = &task->options.validation_data.sets;
    *out = NULL;
    if ((size_t)number >= sets->count)
        return ET_OK;
    *name = ((const et_tabular_set *)sets->items)[number].name;
    return et_tabular_batches(task, false, number, out, error);
}

static void use_validation_set(et_task *self, int number)
{
    et_tabular_task *task = downcast(self);
    task->seen.rows = task->validation[number]->count;
    task->seen.set = number;
}

/* Members of a pack that are done leave its graph. */
static int remake(et_task *self, bool *again, const et_group **updates, et_error *error)
{
    et_tabular_task *task = downcast(self);
    if (!et_tabular_is_pack(&task->options))
        return ET_OK;
    int status = et_pack_part_follow(&task->part, task->context.params, &task->options.model.pack,
                                     again, error);
    *updates = task->part.group;
    return status;
}

/* A pack's members have their own rates and decay. */
static int create_optimizer(et_task *self, const et_optimizer_request *request, et_optimizer **out,
                            et_error *error)
{
    et_tabular_task *task = downcast(self);
    et_optimizer_request own = *request;
    et_optimization_options optimization;
    if (!et_tabular_is_pack(&task->options) || task->context.evaluates)
        return et_task_defaults.create_optimizer(self, request, out, error);
    if (!request->optimization ||
        et_params_find(request->params, ET_PACK_ENSEMBLE "/" ET_PACK_SHARE) < 0)
        return et_pack_refuse(error);
    own.optimization = &optimization;
    task->has_rates = true;
    int status = et_pack_optimization(&optimization, request->optimization,
                                      &task->options.model.pack, &task->arena, error);
    return status ? status : et_task_defaults.create_optimizer(self, &own, out, error);
}

/* First what the library does for any task: weights of another run come with its means. */
static int initialize(et_task *self, et_params *params, et_error *error)
{
    int status = et_task_defaults.initialize(self, params, error);
    return status ? status : et_tabular_fit(downcast(self), params, error);
}

/* r2 is in order of the squared error, and d2_pinball of the pinball loss;
 * the log loss says more of a few rows than how many are right. */
#define METHODS                                                                                    \
    .name = "tabular", .data = data, .build_inputs = et_tabular_build_inputs,                      \
    .build_model = build_model, .build_losses = build_losses, .initialize = initialize,            \
    .process_metrics = et_tabular_process_metrics, .validate = et_tabular_validate,                \
    .validation_outputs = et_tabular_validation_outputs, .aggregate_logs = et_tabular_aggregate,   \
    .reduce_aggregated_logs = et_tabular_reduce, .validation_set = validation_set,                 \
    .use_validation_set = use_validation_set, .kept = et_tabular_kept,                             \
    .create_optimizer = create_optimizer, .remake = remake, .verdict = et_tabular_verdict_of
static const char *const main_of_classes[] = { ET_LOGGED_OF_VALIDATION "accuracy",
                                               ET_TABULAR_LOG_LOSS, NULL };
static const char *const main_of_values[] = { ET_LOGGED_OF_VALIDATION "r2",
                                              ET_LOGGED_OF_VALIDATION "rmse", NULL };
static const char *const main_of_quantiles[] = { ET_TABULAR_D2, ET_TABULAR_PINBALL, NULL };
static const et_task_class class_of_quantiles = { METHODS, .best_metric = ET_TABULAR_D2,
                                                  .main_metrics = main_of_quantiles };
static const et_task_class class_of_classes = { METHODS, .best_metric = ET_TABULAR_LOG_LOSS,
                                                .main_metrics = main_of_classes };
/* RealMLP's: its labels are smoothed, and it is trained past its best log loss. */
static const et_task_class class_of_smoothed = { METHODS,
                                                 .best_metric = ET_LOGGED_OF_VALIDATION "accuracy",
                                                 .main_metrics = main_of_classes };
static const et_task_class class_of_values = { METHODS, .best_metric = ET_LOGGED_OF_VALIDATION "r2",
                                               .main_metrics = main_of_values };

/* ---- opening and closing ---- */

static int open_missing(et_tabular_task *task, et_error *error)
{
    const et_strings *more = &task->options.missing;
    if (!more->count)
        return ET_OK;
    task->missing = et_csv_missing_with(more->items, more->count);
    return task->missing ? ET_OK : et_alloc_failed(error, more->count, "task.missing");
}

/* Each needs those before it. */
static int (*const stages[])(et_tabular_task *, et_error *) = {
    open_missing,         et_tabular_find_files, et_tabular_open_files,
    et_tabular_open_rows, et_tabular_open_seen,
};

int et_tabular_task_open(et_task **out, const et_tabular_options *options,
                         const et_task_context *context, et_error *error)
{
    et_assert(options && context && context->params && context->device);
    *out = NULL;
    int status = et_tabular_check(options, error);
    if (!status && et_tabular_is_pack(options) && !context->evaluates &&
        !context->validation_interval)
        status = et_fail(error, ET_ECONFIG,
                         "validation chooses the ensemble of a pack (task.model.type: pack), but "
                         "this process does not validate; set trainer.validation_interval=1ep, and "
                         "train without workers and parameter servers");
    if (status)
        return status;
    et_tabular_task *task = et_alloc_zero(1, sizeof *task);
    if (!task)
        return et_alloc_failed(error, sizeof *task, "a task");
    /* Copies of the structs; lists and texts in them are the caller's and outlive the task. */
    task->options = *options;
    task->context = *context;
    task->arena = (et_arena)ET_ARENA_INIT;
    task->verdict.best = task->verdict.last = (et_strbuf)ET_STRBUF_INIT;
    ET_STAGES_RUN(status, stages, task, error);
    if (status) {
        et_tabular_task_close(&task->task);
        return status;
    }
    const bool smoothed =
        options->model.type == ET_TABULAR_REALMLP && et_tabular_label_smoothing(options) > 0;
    task->task.class = task->target.quantiles ? &class_of_quantiles
                       : task->target.values  ? &class_of_values
                       : smoothed             ? &class_of_smoothed
                                              : &class_of_classes;
    task->task.logging_dir = context->model_dir;
    task->task.task_config = &task->options;
    task->task.init_checkpoint = options->init_checkpoint;
    task->task.init_pattern = options->init_pattern;
    *out = &task->task;
    return ET_OK;
}

void et_tabular_task_close(et_task *task)
{
    if (!task)
        return;
    et_tabular_task *self = downcast(task);
    et_pack_part_release(&self->part);
    et_tabular_close_seen(&self->seen);
    et_tabular_close_others(self);
    et_tabular_close_rows(self);
    et_tabular_close_files(self);
    et_strbuf_release(&self->verdict.best);
    et_strbuf_release(&self->verdict.last);
    et_free(self->missing);
    et_arena_release(&self->arena);
    et_free(self);
}
