/* Methods of a task and their defaults, Model Garden's. */
#include <etude/task.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <etude/checkpoint.h>
#include <etude/experiment.h>

#include "base/alloc.h"
#include "base/inline.h"
#include "base/strbuf.h"
#include "exec/device.h"
#include "exec/pass.h"
#include "graph/node.h"
#include "io/log_names.h"
#include "metric/metric.h"
#include "optim/optimizer.h"
#include "train/task_private.h"
#include "train/update.h"

void et_task_tell(const et_task_context *context, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    if (!context->tell)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    context->tell(context->listener, text);
}

void et_nodes_put(et_nodes *nodes, const char *name, et_node *node)
{
    if (nodes->count == ET_NODES_MAX) {
        et_graph_poison(node->graph, "%s: a model gives at most %d nodes", name, ET_NODES_MAX);
        return;
    }
    nodes->name[nodes->count] = name;
    nodes->node[nodes->count++] = node;
}

et_node *et_nodes_get(const et_nodes *nodes, const char *name)
{
    for (int i = 0; name && i < nodes->count; i++)
        if (!strcmp(nodes->name[i], name))
            return nodes->node[i];
    return NULL;
}

et_node *et_nodes_need(et_scope *scope, const et_nodes *nodes, const char *name)
{
    et_node *node = et_nodes_get(nodes, name);
    et_strbuf names = ET_STRBUF_INIT;
    if (node)
        return node;
    for (int i = 0; i < nodes->count; i++)
        et_strbuf_printf(&names, "%s%s", i ? ", " : "", nodes->name[i]);
    node = et_graph_poison(et_scope_graph(scope), "no node is named %s; there are: %s",
                           name ? name : "NULL", nodes->count ? et_strbuf_text(&names) : "none");
    et_strbuf_release(&names);
    return node;
}

/* ---- building ---- */

static void build(et_task *self, et_scope *scope, bool training)
{
    et_nodes outputs = { 0 }, aux_losses = { 0 };
    et_task_build_model(self, scope, training, &outputs, &aux_losses);
    et_task_build_losses(self, scope, &outputs, &aux_losses);
}

static void build_model(et_task *self, et_scope *scope, bool training, et_nodes *outputs,
                        et_nodes *aux_losses)
{
    (void)training, (void)outputs, (void)aux_losses;
    et_graph_poison(et_scope_graph(scope), "task %s has no model", et_task_name(self));
}

static void build_losses(et_task *self, et_scope *scope, const et_nodes *outputs,
                         const et_nodes *aux_losses)
{
    (void)self, (void)outputs;
    for (int i = 0; i < aux_losses->count; i++)
        (et_node_shape(aux_losses->node[i]).rank ? et_loss : et_penalty)(scope, aux_losses->name[i],
                                                                         aux_losses->node[i], 1);
}

static int build_metrics(et_task *self, bool training, et_metrics *metrics, et_error *error)
{
    (void)self, (void)training, (void)metrics, (void)error;
    return ET_OK;
}

static int create_optimizer(et_task *self, const et_optimizer_request *request, et_optimizer **out,
                            et_error *error)
{
    (void)self;
    return request->optimization
               ? et_optimizer_new(out, request->params, NULL, request->device->kernels,
                                  request->optimization, error)
               : et_optimizer_open(out, request->device, request->params, NULL, request->setup,
                                   error);
}

static int initialize(et_task *self, et_params *params, et_error *error)
{
    return self->init_checkpoint && *self->init_checkpoint
               ? et_checkpoint_initialize(params, self->init_checkpoint, self->init_pattern, error)
               : ET_OK;
}

/* ---- metrics ---- */

/* The place of the largest of several columns, the value of one. */
static double predicted(const float *row, int64_t columns)
{
    int64_t best = 0;
    for (int64_t i = 1; i < columns; i++)
        best = row[i] > row[best] ? i : best;
    return columns > 1 ? (double)best : (double)row[0];
}

static int add_rows(et_metrics *metrics, et_tensor outputs, const void *labels, et_dtype dtype,
                    int64_t rows, et_error *error)
{
    int64_t columns = et_shape_count(outputs.shape) / outputs.shape.size[0];
    for (int64_t i = 0; i < rows; i++) {
        double label = dtype == ET_I32 ? (double)((const int32_t *)labels)[i]
                                       : (double)((const float *)labels)[i];
        et_sample sample = { predicted((const float *)outputs.data + i * columns, columns), label,
                             1 };
        if (dtype == ET_I32 && label < 0)
            continue;
        const char *refusing = et_metrics_refusing(metrics, &sample);
        if (refusing)
            return et_fail(error, ET_EDATA,
                           "metric %s: row %lld of a batch is class %g and was taken for %g, and "
                           "the metric has fewer classes",
                           refusing, (long long)i + 1, sample.target, sample.value);
        for (size_t m = 0; m < et_metrics_count(metrics); m++)
            et_metrics_add_sample_at(metrics, (int)m, &sample);
    }
    return ET_OK;
}

static int process_metrics(et_task *self, const et_task_step *now, et_error *error)
{
    if (!et_metrics_count(now->metrics))
        return ET_OK;
    const et_layout *layout = now->inputs->layout;
    et_tensor outputs = et_pass_output(now->model, "outputs");
    int field = et_layout_find(layout, "labels");
    bool fits = outputs.data && outputs.dtype == ET_F32 && outputs.shape.rank > 0 && field >= 0;
    if (fits) {
        const et_layout_field *labels = &layout->field[field];
        fits = (labels->dtype == ET_I32 || labels->dtype == ET_F32) &&
               et_shape_count(labels->item) == 1 &&
               outputs.shape.size[0] == layout->capacity[labels->kind];
    }
    if (!fits)
        return et_fail(error, ET_ECONFIG,
                       "task %s: metrics of build_metrics compare the float32 output \"outputs\" "
                       "with the field \"labels\", row by row; give both, or process_metrics",
                       et_task_name(self));
    const et_layout_field *labels = &layout->field[field];
    return add_rows(now->metrics, outputs, now->inputs->data[field], labels->dtype,
                    now->inputs->filled[labels->kind], error);
}

int et_task_check_metrics(const et_task *task, const et_metrics *own, const et_metrics *measured,
                          et_error *error)
{
    const char *name = et_metrics_shared(own, measured);
    return name ? et_fail(error, ET_ECONFIG,
                          "task %s: build_metrics defines %s, which the model's loss or measure is "
                          "called; take another name",
                          et_task_name(task), name)
                : ET_OK;
}

ET_APART void add_last_run(const et_task_step *now)
{
    const et_task_inside *inside = now->inside;
    const int count = et_pass_measures(now->model);
    for (int i = 0; i < count; i++) {
        et_measured one = et_pass_measured(now->model, i);
        et_metrics_add_at(inside->measured, inside->place[i], one.total, one.weight);
    }
    et_metrics_add_at(inside->measured, inside->place[count], et_pass_loss(now->model),
                      et_pass_divisor(now->model));
}

/* Of an update of the default step all its batches, added up exactly; else of the last run. */
static int process_compiled_metrics(et_task *self, const et_task_step *now, et_error *error)
{
    const et_task_inside *inside = now->inside;
    (void)self, (void)error;
    if (inside->step && inside->step->updated)
        et_step_add_measures(inside->step);
    else
        add_last_run(now);
    return ET_OK;
}

/* ---- steps ---- */

static int set_loss(const et_task *self, et_value *logs, double loss, et_error *error)
{
    return !logs || et_value_set_float(logs, et_task_loss(self), loss)
               ? ET_OK
               : et_alloc_failed(error, 0, "a step's logs");
}

/* Metrics of build_metrics are added batch by batch, by the step's hook. */
static int train_step(et_task *self, const et_task_step *now, et_value *logs, et_error *error)
{
    et_step *step = now->inside->step;
    int status = et_step_update(step, error);
    if (!status && step->updated)
        status = et_task_process_compiled_metrics(self, now, error);
    return status || !step->updated
               ? status
               : set_loss(self, logs, et_mean_of(step->sum.loss, step->sum.divisor), error);
}

static int inference_step(et_task *self, const et_task_step *now, et_error *error)
{
    (void)self;
    return et_pass_run(now->model, now->inputs, now->seed, now->number, error);
}

static int validation_step(et_task *self, const et_task_step *now, et_value *logs, et_error *error)
{
    int status = et_task_inference_step(self, now, error);
    if (!status)
        status = set_loss(self, logs,
                          et_mean_of(et_pass_loss(now->model), et_pass_divisor(now->model)), error);
    if (!status)
        status = et_task_process_metrics(self, now, error);
    return status ? status : et_task_process_compiled_metrics(self, now, error);
}

static int aggregate_logs(et_task *self, et_value *state, const et_value *step_outputs,
                          et_error *error)
{
    (void)self, (void)state, (void)step_outputs, (void)error;
    return ET_OK;
}

static int reduce_aggregated_logs(et_task *self, const et_value *aggregated_logs,
                                  int64_t global_step, et_value *results, et_error *error)
{
    (void)self, (void)aggregated_logs, (void)global_step, (void)results, (void)error;
    return ET_OK;
}

const et_task_class et_task_defaults = {
    .name = "defaults",
    .build = build,
    .loss = ET_LOGGED_LOSS,
    .build_model = build_model,
    .build_losses = build_losses,
    .build_metrics = build_metrics,
    .create_optimizer = create_optimizer,
    .initialize = initialize,
    .process_metrics = process_metrics,
    .process_compiled_metrics = process_compiled_metrics,
    .train_step = train_step,
    .validation_step = validation_step,
    .inference_step = inference_step,
    .aggregate_logs = aggregate_logs,
    .reduce_aggregated_logs = reduce_aggregated_logs,
};

/* ---- the method, or its default ---- */

#define METHOD(task, method)                                                                       \
    ((task)->class->method ? (task)->class->method : et_task_defaults.method)

void et_task_build(et_task *task, et_scope *scope, bool training)
{
    METHOD(task, build)(task, scope, training);
}

void et_task_build_model(et_task *task, et_scope *scope, bool training, et_nodes *outputs,
                         et_nodes *aux_losses)
{
    METHOD(task, build_model)(task, scope, training, outputs, aux_losses);
}

void et_task_build_losses(et_task *task, et_scope *scope, const et_nodes *outputs,
                          const et_nodes *aux_losses)
{
    METHOD(task, build_losses)(task, scope, outputs, aux_losses);
}

int et_task_build_inputs(et_task *task, bool training, et_source **out, et_error *error)
{
    *out = NULL;
    return task->class->data
               ? task->class->data(task, training, out, error)
               : et_fail(error, ET_ECONFIG, "task %s has no method data", et_task_name(task));
}

int et_task_build_metrics(et_task *task, bool training, et_metrics *metrics, et_error *error)
{
    return METHOD(task, build_metrics)(task, training, metrics, error);
}

int et_task_create_optimizer(et_task *task, const et_optimizer_request *request, et_optimizer **out,
                             et_error *error)
{
    *out = NULL;
    return METHOD(task, create_optimizer)(task, request, out, error);
}

int et_task_initialize(et_task *task, et_params *params, et_error *error)
{
    return METHOD(task, initialize)(task, params, error);
}

int et_task_process_metrics(et_task *task, const et_task_step *now, et_error *error)
{
    return METHOD(task, process_metrics)(task, now, error);
}

int et_task_process_compiled_metrics(et_task *task, const et_task_step *now, et_error *error)
{
    return METHOD(task, process_compiled_metrics)(task, now, error);
}

int et_task_train_step(et_task *task, const et_task_step *now, et_value *logs, et_error *error)
{
    return METHOD(task, train_step)(task, now, logs, error);
}

int et_task_validation_step(et_task *task, const et_task_step *now, et_value *logs, et_error *error)
{
    return METHOD(task, validation_step)(task, now, logs, error);
}

int et_task_inference_step(et_task *task, const et_task_step *now, et_error *error)
{
    return METHOD(task, inference_step)(task, now, error);
}

int et_task_aggregate_logs(et_task *task, et_value *state, const et_value *step_outputs,
                           et_error *error)
{
    return METHOD(task, aggregate_logs)(task, state, step_outputs, error);
}

int et_task_reduce_aggregated_logs(et_task *task, const et_value *aggregated_logs,
                                   int64_t global_step, et_value *results, et_error *error)
{
    return METHOD(task, reduce_aggregated_logs)(task, aggregated_logs, global_step, results, error);
}

const char *et_task_loss(const et_task *task)
{
    return METHOD(task, loss);
}

const char *et_task_name(const et_task *task)
{
    return task->name ? task->name : task->class->name;
}
