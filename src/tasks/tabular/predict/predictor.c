/* A predictor: from rows to outputs.
 *
 *   cells --encoder--> a batch of fixed size --pass--> outputs by name
 *
 * All batches have the same size, filled or not: a product of another shape could add in another
 * order, and a row's prediction would depend on the other rows.
 *
 * Invariants: (1) the model is only read; predictors that share it have their own device, pass and
 * batch; (2) a row that could not be encoded is computed as an empty row, and its result is not
 * shown. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/threads/thread.h"
#include "engine/exec/pass.h"
#include "tasks/tabular/predict/predict.h"
#include "tasks/tabular/tabular_task.h"

/* ---- opening ---- */

static int check_options(bool model, const et_predictor_options *o, et_error *error)
{
    if (!model && !o->shares)
        return et_fail(error, ET_ECONFIG, "the directory of the model is NULL: name one");
    if (o->shares && (model || o->checkpoint || o->live_weights || o->builder))
        return et_fail(error, ET_ECONFIG,
                       "a predictor that shares weights must not set directory, checkpoint, "
                       "live_weights or builder");
    if (o->batch_size < 0 || o->batch_size > ET_PREDICTOR_BATCH_MAX)
        return et_fail(error, ET_ECONFIG, "batch_size %lld: give 1 to %d rows, or 0 for %d",
                       (long long)o->batch_size, ET_PREDICTOR_BATCH_MAX, ET_PREDICTOR_BATCH);
    return ET_OK;
}

/* The encoder's fields without targets. */
static int make_layout(et_predictor *p, et_error *error)
{
    const et_layout *from = et_encoder_layout(p->model->encoder);
    int fields = et_encoder_fields(p->model->encoder);
    et_layout_field *field = et_alloc_zero((size_t)from->fields, sizeof *field);
    p->index = et_alloc((size_t)fields, sizeof *p->index);
    p->to = et_alloc_zero((size_t)fields, sizeof *p->to);
    p->size = et_alloc_zero((size_t)fields, sizeof *p->size);
    p->layout = *from;
    p->layout.field = field;
    p->layout.fields = 0;
    p->layout.capacity[0] = p->batch_size;
    if (!field || !p->index || !p->to || !p->size)
        return et_alloc_failed(error, (size_t)fields * sizeof *field, "a predictor");
    for (int i = 0; i < fields; i++) {
        et_encoded_kind kind = et_encoder_field(p->model->encoder, i)->kind;
        p->index[i] = -1;
        if (kind >= ET_ENCODED_CLASS)
            continue;
        p->index[i] = p->layout.fields;
        p->size[i] =
            (size_t)et_shape_count(from->field[i].item) * et_dtype_size(from->field[i].dtype);
        field[p->layout.fields++] = from->field[i];
    }
    return p->layout.fields
               ? ET_OK
               : et_fail(error, ET_ECONFIG, "%s: all features are targets: nothing to predict from",
                         p->model->directory);
}

static int compare_outputs(const void *a, const void *b)
{
    return strcmp(((const et_predicted_output *)a)->name, ((const et_predicted_output *)b)->name);
}

/* What the graph gives of each row, by name. */
static int find_outputs(et_predictor *p, et_error *error)
{
    const char *name;
    for (int i = 0; (name = et_pass_output_name(p->pass, i)) != NULL; i++) {
        et_tensor values = et_pass_output(p->pass, name);
        int64_t rows = values.shape.rank ? values.shape.size[0] : 0;
        if (values.dtype != ET_F32 || rows < 1 || rows != p->batch_size ||
            p->outputs == ET_NODES_MAX)
            return et_fail(
                error, ET_ECONFIG,
                "%s: output %s is not a float32 value per row, or there are more than %d outputs",
                p->model->directory, name, ET_NODES_MAX);
        p->output[p->outputs++] = (et_predicted_output){
            .name = name, .width = et_shape_count(values.shape) / rows, .values = values.data
        };
    }
    if (!p->outputs)
        return et_fail(error, ET_ECONFIG, "%s: the model has no output", p->model->directory);
    qsort(p->output, (size_t)p->outputs, sizeof *p->output, compare_outputs);
    return ET_OK;
}

static int find_output(const et_predictor *p, const char *name, int64_t width)
{
    for (int i = 0; i < p->outputs; i++)
        if (!strcmp(p->output[i].name, name) && p->output[i].width == width)
            return i;
    return -1;
}

/* Labels are those of the first target, where there is a score for each; values are those of
 * targets whose unit is known. */
static void find_targets(et_predictor *p)
{
    const et_encoder *encoder = p->model->encoder;
    const int target = et_encoder_target(encoder);
    const et_encoded_field *field = target < 0 ? NULL : et_encoder_field(encoder, target);
    const et_strings *levels = p->model->graph ? et_tabular_graph_levels(p->model->graph) : NULL;
    const int64_t units = p->model->unit_count;
    p->scores = p->beside = p->quantiles = -1;
    p->values = units ? find_output(p, ET_TABULAR_VALUES, units) : -1;
    if (!field)
        return;
    if (field->kind == ET_ENCODED_CLASS)
        p->scores = find_output(p, ET_TABULAR_SCORES, field->classes);
    if (field->kind == ET_ENCODED_LABELS)
        p->beside = find_output(p, ET_TABULAR_SCORES, field->width);
    if (levels && levels->count)
        p->quantiles = find_output(p, ET_TABULAR_QUANTILES, (int64_t)levels->count);
    const int numbers =
        field->kind == ET_ENCODED_VALUES ? find_output(p, ET_TABULAR_VALUES, field->width) : -1;
    if (p->scores >= 0) {
        p->classes = field->classes;
        p->labels = p->output[p->scores].value = field->label;
    }
    if (p->beside >= 0) {
        p->output[p->beside].value = field->column;
        p->output[p->beside].choice = field->label;
    }
    if (p->quantiles >= 0)
        p->output[p->quantiles].value = levels->items;
    if (numbers >= 0)
        p->output[numbers].value = field->column;
}

static void state_facts(et_predictor *p)
{
    for (int i = 0; i < p->outputs; i++)
        p->shown[i] = (et_table_output){ p->output[i].name, p->output[i].width, p->output[i].value,
                                         p->output[i].choice };
    p->facts = (et_table_facts){ .output = p->shown,
                                 .outputs = p->outputs,
                                 .label = p->labels,
                                 .labels = p->classes,
                                 .schema = p->model->texts.schema,
                                 .checkpoint = p->model->checkpoint,
                                 .step = p->model->step };
}

/* The graph declares what the weights of a first predictor are then loaded into. */
static int open_pass(et_predictor *p, const et_artifact *artifact,
                     const et_predictor_options *options, et_error *error)
{
    et_table_model *model = p->model;
    const et_pass_options pass = { .name = "prediction" };
    int status = make_layout(p, error);
    if (!status)
        status = et_device_open(&p->device, error);
    if (!status)
        status = et_pass_open(&p->pass, p->device, model->params, &p->layout, model->build,
                              model->payload, &pass, error);
    if (!status && !p->shares)
        status = et_params_materialize(model->params, false, error);
    if (!status && !p->shares)
        status = et_table_model_load(model, artifact, options, error);
    if (!status)
        status = et_pass_prepare(p->pass, &p->layout, error);
    if (!status)
        status = et_batch_new(&p->batch, &p->layout, error);
    if (!status)
        status = find_outputs(p, error);
    if (status)
        return status;
    find_targets(p);
    state_facts(p);
    return ET_OK;
}

/* artifact: NULL of one that shares. */
static int open_predictor(et_predictor **out, const et_artifact *artifact,
                          const et_predictor_options *options, et_error *error)
{
    static const et_predictor_options defaults = { 0 };
    const et_predictor_options *o = options ? options : &defaults;
    int status = et_thread_check_stack(error);
    if (!status)
        status = check_options(artifact != NULL, o, error);
    et_predictor *p = status ? NULL : et_alloc_zero(1, sizeof *p);
    if (!p)
        return status ? status : et_alloc_failed(error, sizeof *p, "a predictor");
    p->shares = o->shares != NULL;
    p->batch_size = o->batch_size ? o->batch_size : ET_PREDICTOR_BATCH;
    if (p->shares)
        p->model = o->shares->model;
    else
        status = et_table_model_open(&p->model, artifact, o, error);
    if (!status)
        status = open_pass(p, artifact, o, error);
    if (status)
        et_predictor_close(p);
    else
        *out = p;
    return status;
}

int et_predictor_open(et_predictor **out, const char *model_dir,
                      const et_predictor_options *options, et_error *error)
{
    et_artifact artifact = { .name = NULL };
    *out = NULL;
    int status = model_dir ? et_artifact_open(&artifact, model_dir, error) : ET_OK;
    if (!status)
        status = open_predictor(out, model_dir ? &artifact : NULL, options, error);
    et_artifact_close(&artifact);
    return status;
}

int et_predictor_open_memory(et_predictor **out, const void *bytes, size_t length,
                             const et_predictor_options *options, et_error *error)
{
    et_artifact artifact;
    *out = NULL;
    int status = et_artifact_open_memory(&artifact, bytes, length, error);
    if (!status)
        status = open_predictor(out, &artifact, options, error);
    et_artifact_close(&artifact);
    return status;
}

void et_predictor_close(et_predictor *p)
{
    if (!p)
        return;
    et_batch_free(p->batch);
    et_pass_close(p->pass);
    et_device_close(p->device);
    et_free((void *)p->layout.field);
    et_free(p->index);
    et_free(p->to);
    et_free(p->size);
    if (!p->shares)
        et_table_model_close(p->model);
    et_free(p);
}

/* ---- rows ---- */

int et_predictor_put(et_predictor *p, int64_t at, const et_cell *cells, const char *where,
                     et_error *error)
{
    et_assert(at >= 0 && at < p->batch_size);
    const et_encoder *encoder = p->model->encoder;
    for (int i = 0, count = et_encoder_fields(encoder); i < count; i++)
        p->to[i] =
            p->index[i] < 0 ? NULL : (char *)p->batch->data[p->index[i]] + (size_t)at * p->size[i];
    return et_encoder_row(encoder, cells, p->to, where, error);
}

int et_predictor_run(et_predictor *p, int64_t count, et_error *error)
{
    et_assert(count >= 0 && count <= p->batch_size);
    p->batch->filled[0] = count;
    et_batch_finish(p->batch);
    int status = et_pass_run(p->pass, p->batch, 0, 0, error);
    for (int i = 0; i < p->outputs && !status; i++)
        p->output[i].values = et_pass_output(p->pass, p->output[i].name).data;
    return status;
}

const float *et_predictor_values(const et_predictor *p, int output, int64_t at)
{
    return p->output[output].values + at * p->output[output].width;
}

const et_target_unit *et_predictor_unit(const et_predictor *p, int output, int64_t i)
{
    if (output < 0 || !p->model->unit_count)
        return NULL;
    return output == p->values      ? &p->model->units[i]
           : output == p->quantiles ? &p->model->units[0]
                                    : NULL;
}

double et_predictor_value(const et_predictor *p, int output, int64_t at, int64_t i)
{
    const double value = (double)et_predictor_values(p, output, at)[i];
    const et_target_unit *unit = et_predictor_unit(p, output, i);
    return unit ? unit->offset + unit->scale * value : value;
}

int et_predictor_check(const et_predictor *p, int64_t at, const char *where, et_error *error)
{
    const int output = p->scores >= 0      ? p->scores
                       : p->beside >= 0    ? p->beside
                       : p->quantiles >= 0 ? p->quantiles
                                           : p->values;
    for (int64_t i = 0; output >= 0 && i < p->output[output].width; i++)
        if (!isfinite(et_predictor_value(p, output, at, i)))
            return et_fail(error, ET_EDATA,
                           "%s%sthe model's %s for this row are not numbers: a value in the row is "
                           "too far from the training data; correct it",
                           where ? where : "", where ? ": " : "", p->output[output].name);
    return ET_OK;
}

int et_predictor_choose(const et_predictor *p, const float *scores)
{
    int best = 0;
    for (int i = 1; i < p->classes; i++)
        if (scores[i] > scores[best])
            best = i;
    return best;
}

/* ---- facts ---- */

void et_predictor_set_lenient(et_predictor *p, bool lenient)
{
    p->lenient = lenient;
}

const et_table_facts *et_predictor_facts(const et_predictor *p)
{
    return &p->facts;
}
