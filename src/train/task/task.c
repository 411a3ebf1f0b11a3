/* Methods of a task and their defaults, as in Model Garden. */
#include <etude/task.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <etude/checkpoint.h>
#include <etude/experiment.h>
#include <etude/log.h>

#include "base/alloc.h"
#include "base/inline.h"
#include "base/text/strbuf.h"
#include "data/batches/source.h"
#include "engine/exec/device.h"
#include "engine/graph/graph.h"
#include "engine/optim/optimizer.h"
#include "engine/tensor/tensor.h"
#include "formats/events/log_names.h"
#include "metric/metric.h"
#include "train/step/update.h"
#include "train/task/task_private.h"

/* The text with shown_dir wherever it has model_dir. */
static void rename_directory(const et_task_context *context, char *out, size_t size,
                             const char *text)
{
    const char *found;
    size_t length = 0;
    for (; length < size && (found = strstr(text, context->model_dir)); text = found) {
        length += (size_t)snprintf(out + length, size - length, "%.*s%s", (int)(found - text), text,
                                   context->shown_dir);
        found += strlen(context->model_dir);
    }
    if (length < size)
        snprintf(out + length, size - length, "%s", text);
}

void et_task_tell(const et_task_context *context, const char *format, ...)
{
    char text[1024], renamed[1024];
    const bool other = context->shown_dir && context->model_dir && *context->model_dir;
    va_list arguments;
    if (!context->tell)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (other)
        rename_directory(context, renamed, sizeof renamed, text);
    context->tell(context->listener, other ? renamed : text);
}

/* Each decorator adopts the inner source. The trace is inside the prefetch, on that thread's own
 * track, so that it shows when batches are made, not when they are taken. */
int et_task_read_ahead(et_source **source, const et_task_context *context, int depth,
                       et_error *error)
{
    et_track *track = et_device_track(context->device);
    int status =
        depth && context->device->tracing->trace
            ? et_traced_source_open(source, *source, et_track_beside(track, "prefetch"), error)
            : ET_OK;
    if (!status && depth)
        status = et_prefetch_open(source, *source, depth, error);
    if (status) {
        et_source_close(*source);
        *source = NULL;
    }
    return status;
}

void et_nodes_put(et_nodes *nodes, const char *name, et_node *node)
{
    if (nodes->count == ET_NODES_MAX) {
        et_graph_poison(node->graph, "%s: a model can output at most %d nodes", name, ET_NODES_MAX);
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
    node = et_graph_poison(et_scope_graph(scope), "no node is called %s; there are: %s",
                           name ? name : "NULL", nodes->count ? et_strbuf_text(&names) : "none");
    et_strbuf_release(&names);
    return node;
}

/* ---- building ---- */

static void build(et_task *self, et_scope *scope, bool training)
{
    et_nodes outputs = { 0 }, aux_losses = { 0 };
    et_task_build_model(self, scope, training, &outputs, &aux_losses);
    et_task_build_losses(self, scope, NULL, &outputs, &aux_losses);
}

static void build_model(et_task *self, et_scope *scope, bool training, et_nodes *outputs,
                        et_nodes *aux_losses)
{
    (void)training, (void)outputs, (void)aux_losses;
    et_graph_poison(et_scope_graph(scope), "task %s has no model", et_task_name(self));
}

static void build_losses(et_task *self, et_scope *scope, const et_nodes *labels,
                         const et_nodes *outputs, const et_nodes *aux_losses)
{
    (void)self, (void)labels, (void)outputs;
    for (int i = 0; aux_losses && i < aux_losses->count; i++)
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
               ? et_optimizer_new(out, request->params, request->group, request->device->kernels,
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

/* The place of the largest of a row's columns, or the value of one column. */
static double predicted(et_tensor outputs, int64_t row, int64_t columns)
{
    int64_t best = 0;
    double largest = et_tensor_number(outputs, row * columns);
    for (int64_t i = 1; i < columns; i++) {
        const double x = et_tensor_number(outputs, row * columns + i);
        if (x > largest) {
            largest = x;
            best = i;
        }
    }
    return columns > 1 ? (double)best : largest;
}

/* Rows of both, [rows, ...]; those past rows are empty. */
typedef struct compared {
    et_tensor outputs, labels;
    int64_t rows;
} compared;

static bool is_compared(const compared *c)
{
    const et_tensor *o = &c->outputs, *l = &c->labels;
    if (!o->data || !l->data || o->shape.rank < 1 || l->shape.rank < 1 ||
        !et_shape_valid(o->shape) || !et_shape_valid(l->shape))
        return false;
    const int64_t rows = l->shape.size[0];
    return (et_tensor_is_real(*o) || (o->dtype == ET_I32 && et_shape_count(o->shape) == rows)) &&
           (l->dtype == ET_I32 || et_tensor_is_real(*l)) && et_shape_count(l->shape) == rows &&
           o->shape.size[0] == rows && (!rows || et_shape_count(o->shape));
}

static void take_labels(compared *c, const et_batch *inputs)
{
    const int field = inputs ? et_layout_find(inputs->layout, "labels") : -1;
    if (field < 0)
        return;
    const et_layout_field *labels = &inputs->layout->field[field];
    const int64_t capacity = inputs->layout->capacity[labels->kind];
    if (et_shape_count(labels->item) == 1)
        c->labels = (et_tensor){ inputs->data[field], labels->dtype, et_shape_1(capacity) };
    c->rows = inputs->filled[labels->kind];
}

/* Uses the given ones, else those of the step's batch and model. */
static int find_compared(const et_task *self, const et_task_step *now, compared *c, et_error *error)
{
    *c = (compared){ .rows = 0 };
    if (now->outputs)
        c->outputs = *now->outputs;
    else if (now->model)
        c->outputs = et_pass_output(now->model, "outputs");
    if (!now->labels)
        take_labels(c, now->inputs);
    else
        c->labels = *now->labels;
    if (is_compared(c)) {
        c->rows = now->labels ? c->labels.shape.size[0] : c->rows;
        return ET_OK;
    }
    return et_fail(error, ET_ECONFIG,
                   "task %s: metrics of build_metrics compare the output \"outputs\" with the "
                   "field \"labels\" row by row; provide both, or process_metrics",
                   et_task_name(self));
}

static int compare(const et_task *self, const et_task_step *now, et_metrics *metrics,
                   et_error *error)
{
    compared c;
    if (!metrics || !et_metrics_count(metrics))
        return ET_OK;
    int status = find_compared(self, now, &c, error);
    if (status)
        return status;
    const et_tensor outputs = c.outputs;
    for (int64_t i = 0; i < c.rows; i++) {
        const int64_t columns = et_shape_count(outputs.shape) / outputs.shape.size[0];
        const et_sample sample = { predicted(outputs, i, columns), et_tensor_number(c.labels, i),
                                   1 };
        if (c.labels.dtype == ET_I32 && sample.target < 0)
            continue;
        const char *refusing = et_metrics_refusing(metrics, &sample);
        if (refusing)
            return et_fail(error, ET_EDATA,
                           "metric %s: row %lld of a batch has class %g and prediction %g, but the "
                           "metric has fewer classes",
                           refusing, (long long)i + 1, sample.target, sample.value);
        for (size_t m = 0; m < et_metrics_count(metrics); m++)
            et_metrics_add_sample_at(metrics, (int)m, &sample);
    }
    return ET_OK;
}

static int process_metrics(et_task *self, const et_task_step *now, et_error *error)
{
    return compare(self, now, now->metrics, error);
}

bool et_task_defines_metrics(et_task *task, et_scope *scope)
{
    et_error error = ET_ERROR_INIT;
    et_metrics *metrics = NULL;
    int status = et_metrics_new(&metrics, &error);
    if (!status)
        status = et_task_build_metrics(task, et_scope_training(scope), metrics, &error);
    if (status == ET_ENOMEM)
        et_graph_out_of_memory(et_scope_graph(scope));
    else if (status)
        et_graph_poison(et_scope_graph(scope), "build_metrics: %s", error.text);
    const bool some = !status && et_metrics_count(metrics) > 0;
    et_metrics_free(metrics);
    return some;
}

int et_task_check_metrics(const et_task *task, const et_metrics *own, const et_metrics *measured,
                          et_error *error)
{
    const char *name = et_metrics_common(own, measured);
    return name ? et_fail(error, ET_ECONFIG,
                          "task %s: build_metrics defines %s, but a loss or measure of the model "
                          "has this name; choose another",
                          et_task_name(task), name)
                : ET_OK;
}

ET_NOINLINE static void add_last_run(const et_task_step *now)
{
    const et_task_internals *internals = now->internals;
    const int count = et_pass_measures(now->model);
    for (int i = 0; i < count; i++) {
        et_measured one = et_pass_measured(now->model, i);
        et_metrics_add_at(internals->measured, internals->index[i], one.total, one.weight);
    }
    et_metrics_add_at(internals->measured, internals->index[count], et_pass_loss(now->model),
                      et_pass_divisor(now->model));
}

/* For an update of the default step, all its batches, added up exactly; else the last run. */
static int process_compiled_metrics(et_task *self, const et_task_step *now, et_error *error)
{
    const et_task_internals *internals = now->internals;
    if (!internals && now->labels && now->outputs)
        return compare(self, now, now->compiled_metrics, error);
    if (!internals) {
        for (int i = 0; now->compiled_metrics && i < et_pass_measures(now->model); i++) {
            et_measured one = et_pass_measured(now->model, i);
            et_metrics_add(now->compiled_metrics, one.name, one.total, one.weight);
        }
    } else if (internals->step && internals->step->updated) {
        et_step_add_measures(internals->step);
    } else {
        add_last_run(now);
    }
    return ET_OK;
}

/* ---- steps ---- */

static int set_loss(const et_task *self, et_value *logs, double loss, et_error *error)
{
    return !logs || et_value_set_float(logs, et_task_loss(self), loss)
               ? ET_OK
               : et_alloc_failed(error, "a step's logs");
}

static int set_loss_of_run(et_task *self, const et_pass *model, et_value *logs, et_error *error)
{
    return set_loss(self, logs, et_mean_of(et_pass_loss(model), et_pass_divisor(model)), error);
}

static int process_both(et_task *self, const et_task_step *now, et_error *error)
{
    int status = et_task_process_metrics(self, now, error);
    return status ? status : et_task_process_compiled_metrics(self, now, error);
}

/* Metrics of build_metrics are added batch by batch, by the step's hook. */
static int train_step(et_task *self, const et_task_step *now, et_value *logs, et_error *error)
{
    et_step *step = now->internals ? now->internals->step : NULL;
    if (!step) {
        /* An update of the program's own step: its only batch. */
        et_update update;
        if (!now->optimizer)
            return et_fail(error, ET_EUSAGE, "task %s: a training step needs an optimizer",
                           et_task_name(self));
        et_pass_set_dropout(now->model, et_optimizer_regularization(now->optimizer));
        int status;
        if ((status = et_pass_run(now->model, now->inputs, now->seed, now->number, error)) ||
            (status = et_optimizer_update(now->optimizer, now->model, &update, error)) ||
            (status = process_both(self, now, error)))
            return status;
        return set_loss_of_run(self, now->model, logs, error);
    }
    int status = et_step_update(step, error);
    if (!status && step->updated)
        status = et_task_process_compiled_metrics(self, now, error);
    return status || !step->updated
               ? status
               : set_loss(self, logs, et_mean_of(step->sum.loss, step->sum.divisor), error);
}

static int inference_step(et_task *self, const et_task_step *now, et_value *outputs,
                          et_error *error)
{
    (void)self, (void)outputs;
    return et_pass_run(now->model, now->inputs, now->seed, now->number, error);
}

static int validation_step(et_task *self, const et_task_step *now, et_value *logs, et_error *error)
{
    int status = et_task_inference_step(self, now, NULL, error);
    if (!status && !(status = set_loss_of_run(self, now->model, logs, error)))
        status = process_both(self, now, error);
    return status || !logs || !self->class->validation_outputs
               ? status
               : self->class->validation_outputs(self, now, logs, error);
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

void et_task_build_losses(et_task *task, et_scope *scope, const et_nodes *labels,
                          const et_nodes *outputs, const et_nodes *aux_losses)
{
    METHOD(task, build_losses)(task, scope, labels, outputs, aux_losses);
}

/* Data of which a task knows nothing but how they are opened. */
static int open_data(et_task *task, const et_data_config *params, const et_input_context *c,
                     et_source **out, et_error *error)
{
    if (!task->class->data)
        return et_fail(error, ET_ECONFIG, "task %s has no method data", et_task_name(task));
    if (params->settings || (c && (c->input_pipelines > 1 || c->replicas_in_sync > 1)))
        return et_fail(error, ET_ECONFIG,
                       "task %s has no method build_inputs: data can only be opened as a whole",
                       et_task_name(task));
    return task->class->data(task, params->training, out, error);
}

int et_task_build_inputs(et_task *task, const et_data_config *params,
                         const et_input_context *input_context, et_source **out, et_error *error)
{
    static const et_data_config validation = { .training = false };
    const et_input_context *c = input_context;
    *out = NULL;
    if (c && (c->input_pipelines < 1 || c->input_pipeline < 0 ||
              c->input_pipeline >= c->input_pipelines))
        return et_fail(error, ET_EUSAGE,
                       "input pipeline %lld of %lld: pipelines are numbered from 0",
                       (long long)c->input_pipeline, (long long)c->input_pipelines);
    if (c && c->replicas_in_sync < 0)
        return et_fail(error, ET_EUSAGE, "%lld replicas in sync: give at least 1",
                       (long long)c->replicas_in_sync);
    return (task->class->build_inputs ? task->class->build_inputs : open_data)(
        task, params ? params : &validation, input_context, out, error);
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

int et_task_inference_step(et_task *task, const et_task_step *now, et_value *outputs,
                           et_error *error)
{
    return METHOD(task, inference_step)(task, now, outputs, error);
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

void et_task_tell_verdict(et_task *task, bool best)
{
    const char *line = task->class->verdict ? task->class->verdict(task, best) : "";
    for (const char *end; *line; line = *end ? end + 1 : end) {
        end = strchrnul(line, '\n');
        et_log(ET_LOG_WARNING, "%.*s", (int)(end - line), line);
    }
}

const char *et_task_name(const et_task *task)
{
    return task->name ? task->name : task->class->name;
}
