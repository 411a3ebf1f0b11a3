/* Opening a model: device, store, the graph of training, the graph of prediction, initial values.
 *
 * The training graph comes first, so the store has the parameters in the order of every run. The
 * trainer later builds this graph again, when the store accepts no new names. */
#include <string.h>

#include <etude/model.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "data/batches/source.h"
#include "engine/exec/pass.h"
#include "engine/graph/graph.h"
#include "engine/optim/optimizer.h"
#include "engine/tensor/tensor.h"
#include "formats/events/log_names.h"
#include "formats/grid.h"
#include "systems/model/model_private.h"
#include "systems/modelgarden/task_trainer.h"
#include "train/task/task_private.h"

static et_model_source *outer_of(et_source *source)
{
    return (et_model_source *)(void *)source;
}

static const et_model_source *const_outer_of(const et_source *source)
{
    return (const et_model_source *)(const void *)source;
}

static int next(et_source *self, et_batch *batch, et_error *error)
{
    et_model_source *outer = outer_of(self);
    et_batch_clear(batch);
    int status = outer->inner ? et_source_next(outer->inner, batch, error) : ET_OK;
    if (status || batch->filled[0] || !outer->repeats || !outer->inner)
        return status;
    status = et_source_rewind_to(outer->inner, true, error);
    return status ? status : et_source_next(outer->inner, batch, error);
}

static void position(const et_source *self, et_position *out)
{
    const et_model_source *outer = const_outer_of(self);
    if (outer->inner)
        et_source_position(outer->inner, out);
}

static int seek(et_source *self, const et_position *to, et_error *error)
{
    et_model_source *outer = outer_of(self);
    return outer->inner ? et_source_seek(outer->inner, to, error) : ET_OK;
}

static int rewind_inner(et_source *self, bool again, et_error *error)
{
    et_model_source *outer = outer_of(self);
    return outer->inner ? et_source_rewind_to(outer->inner, again, error) : ET_OK;
}

static void describe(const et_source *self, const et_batch *batch, char *text, size_t size)
{
    const et_model_source *outer = const_outer_of(self);
    if (outer->inner)
        et_source_describe(outer->inner, batch, text, size);
}

static void close_outer(et_source *self)
{
    (void)self; /* the source is a member of the model */
}

static int batches(et_source *self, int64_t *count, et_error *error)
{
    et_model_source *outer = outer_of(self);
    *count = 0;
    return outer->inner ? et_source_batches(outer->inner, count, error) : ET_OK;
}

static uint64_t content(const et_source *self)
{
    const et_model_source *outer = const_outer_of(self);
    return outer->inner ? et_source_content(outer->inner) : 0;
}

static void init_source(et_model_source *outer, const et_layout *layout, bool repeats)
{
    static const et_source_class class = { .name = "outer",
                                           .next = next,
                                           .position = position,
                                           .seek = seek,
                                           .describe = describe,
                                           .close = close_outer,
                                           .batches = batches,
                                           .content = content,
                                           .rewind = rewind_inner };
    *outer = (et_model_source){ .source = { .class = &class, .layout = *layout, .begun = true },
                                .repeats = repeats };
}

static int misfit(const et_layout *wanted, const et_layout *given, et_error *error)
{
    for (int f = 0; f < wanted->fields; f++) {
        const et_layout_field *field = &wanted->field[f];
        const int at = et_layout_find(given, field->name);
        if (at < 0 || given->field[at].dtype != field->dtype ||
            !et_shape_equal(given->field[at].item, field->item))
            return et_fail(error, ET_ECONFIG,
                           "the source's batches have %s field %s as this model reads it: give "
                           "the fields of et_model_options",
                           at < 0 ? "no" : "another", field->name);
    }
    if (given->capacity[0] != wanted->capacity[0])
        return et_fail(error, ET_ECONFIG,
                       "the source's batches have %lld samples, but this model's have %lld: make "
                       "them equal",
                       (long long)given->capacity[0], (long long)wanted->capacity[0]);
    return et_fail(error, ET_ECONFIG,
                   "the source's batches have other fields than this model: give the fields of "
                   "et_model_options, and no others");
}

int et_model_source_set(et_model_source *outer, et_source *inner, et_error *error)
{
    if (inner && !et_layout_fits(&inner->layout, &outer->source.layout))
        return misfit(&outer->source.layout, &inner->layout, error);
    if (outer->inner)
        et_source_end(outer->inner);
    outer->inner = NULL;
    int status =
        inner ? et_source_begin(inner, outer->repeats ? "a training" : "an evaluation", error)
              : ET_OK;
    if (!status)
        outer->inner = inner;
    return status;
}

/* ---- a network of a program's own ---- */

typedef struct network {
    et_model model;
    et_task task;
    et_build_fn *build;
    void *payload;
    et_samples *example; /* one sample of zeros; its layout is the model's */
    void *zeros;         /* of it */
} network;

static void build_network(et_task *self, et_scope *scope, bool training)
{
    network *n = (network *)(void *)((char *)self - offsetof(network, task));
    (void)training; /* the scope knows */
    n->build(scope, n->payload);
}

static int no_data(et_task *self, bool training, et_source **out, et_error *error)
{
    (void)self, (void)training, (void)error;
    *out = NULL;
    return ET_OK;
}

static const et_task_class network_task = { .name = "model",
                                            .build = build_network,
                                            .data = no_data };

static int check_field(const char *name, et_dtype type, et_shape shape, et_error *error)
{
    char text[ET_SHAPE_TEXT_MAX];
    if (type != ET_F32 && type != ET_I32)
        return et_fail(error, ET_ECONFIG, "et_model_options.%s_type: give ET_F32 or ET_I32", name);
    if (shape.rank >= 0 && shape.rank < ET_RANK_MAX && et_shape_count(shape) > 0)
        return ET_OK;
    return et_fail(error, ET_ECONFIG,
                   "et_model_options.%s: %s is no shape of a sample; give 0 to %d positive sizes",
                   name, et_shape_print(shape, text), ET_RANK_MAX - 1);
}

/* A sample of each field. */
static int open_example(network *n, const et_model_options *o, et_error *error)
{
    int status;
    if ((status = check_field("x", o->x_type, o->x, error)) ||
        (status = check_field("y", o->y_type, o->y, error)))
        return status;
    const int64_t x = et_shape_count(o->x), y = et_shape_count(o->y);
    n->zeros = et_alloc_zero((size_t)(x > y ? x : y), sizeof(float));
    if (!n->zeros)
        return et_alloc_failed(error, "a model");
    const et_array arrays[] = { { ET_MODEL_X, o->x_type, n->zeros, o->x },
                                { ET_MODEL_Y, o->y_type, n->zeros, o->y } };
    return et_arrays_open(&n->example, arrays, 2, 1, error);
}

/* Also copies texts and fields, so the caller may free them before the model. */
static int copy_layout(et_model *m, et_layout *out, const et_layout *from, et_error *error)
{
    et_layout_field *field = et_arena_array(&m->arena, from->fields, sizeof *field);
    bool copied = field != NULL;
    *out = *from;
    for (int f = 0; copied && f < from->fields; f++) {
        field[f] = from->field[f];
        field[f].name = et_arena_strdup(&m->arena, from->field[f].name);
        copied = field[f].name != NULL;
    }
    out->field = field;
    for (int k = 0; k < from->kinds && copied; k++) {
        out->kind[k] = et_arena_strdup(&m->arena, from->kind[k] ? from->kind[k] : "sample");
        copied = out->kind[k] != NULL;
    }
    if (copied && from->unit_name)
        copied = (out->unit_name = et_arena_strdup(&m->arena, from->unit_name)) != NULL;
    return copied ? ET_OK : et_alloc_failed(error, "a model");
}

static int save_network(const et_model *m, const char *path, et_error *error)
{
    const et_artifact_content content = { .params = m->params, .step = et_model_step(m) };
    return et_artifact_write(&content, path, error);
}

static int load_network(et_model *m, const char *path, et_error *error)
{
    et_artifact_weights weights = { .artifact = NULL };
    return et_model_take_weights(m, path, &weights, error);
}

static void close_network(et_model *m)
{
    network *n = (network *)m;
    et_samples_close(n->example);
    et_free(n->zeros);
    et_free(n);
}

static const et_model_kind network_kind = { .name = "a network",
                                            .save = save_network,
                                            .load = load_network,
                                            .close = close_network,
                                            .monitor = ET_LOGGED_VALIDATION_LOSS };

int et_model_open(et_model **out, et_build_fn *build, void *payload,
                  const et_model_options *options, et_error *error)
{
    static const et_model_options defaults = { 0 };
    const et_model_options *o = options ? options : &defaults;
    et_layout layout;
    *out = NULL;
    if (!build)
        return et_fail(error, ET_EUSAGE,
                       "et_model_open: build is NULL; give the function that builds the network");
    network *n;
    if (ET_ALLOC_ZERO(n, 1, "a model", error))
        return ET_ENOMEM;
    n->build = build;
    n->payload = payload;
    n->task.class = &network_task;
    n->model.task = &n->task;
    int status = et_model_init(&n->model, &network_kind, o, error);
    if (!status && o->layout)
        status = et_layout_check(o->layout, error);
    if (!status)
        status = o->layout ? copy_layout(&n->model, &layout, o->layout, error)
                           : open_example(n, o, error);
    if (!status)
        status = et_model_build(&n->model, o->layout ? &layout : &n->example->layout, error);
    if (status)
        et_model_close(&n->model);
    else
        *out = &n->model;
    return status;
}

/* ---- any kind ---- */

int et_model_init(et_model *m, const et_model_kind *kind, const et_model_options *options,
                  et_error *error)
{
    et_assert(kind && options && !m->params);
    m->kind = kind;
    m->seed = options->seed;
    m->bfloat16 = options->bfloat16;
    int status = et_optimizer_settle(&m->optimization, &options->optimizer, &m->arena, error);
    if (!status && options->optimizer.group)
        status = et_fail(error, ET_ECONFIG,
                         "et_model_options.optimizer.group: a model has its own parameters; call "
                         "et_freeze for those that must not change");
    if (!status)
        status = et_device_open(&m->device, error);
    return status ? status : et_params_new(&m->params, error);
}

static void build_training(et_scope *scope, void *model)
{
    et_task_build(((et_model *)model)->task, scope, true);
    const et_mark *mark = scope->graph->marks;
    while (mark && mark->kind != ET_MARK_LOSS)
        mark = mark->next;
    if (!mark)
        et_graph_poison(scope->graph, "the network has no loss: add et_loss(s, \"loss\", node, 1) "
                                      "to the function that builds it");
}

static void build_prediction(et_scope *scope, void *model)
{
    et_task_build(((et_model *)model)->task, scope, false);
}

static int find_output(et_model *m, et_error *error)
{
    const char *name = et_pass_output_name(m->pass, 0);
    if (!name)
        return et_fail(error, ET_EGRAPH,
                       "the network names no output: add et_output(s, "
                       "\"scores\", node) to the function that builds it");
    et_tensor output = et_pass_output(m->pass, name);
    const int64_t rows = output.shape.rank ? output.shape.size[0] : 0;
    if (rows != m->predicted.capacity[0] || (output.dtype != ET_F32 && output.dtype != ET_BF16))
        return et_fail(error, ET_EGRAPH,
                       "output %s is not a row of floats for each sample; the first et_output is "
                       "the prediction",
                       name);
    et_assert(rows > 0);
    m->width = et_shape_count(output.shape) / rows;
    return ET_OK;
}

int et_model_build(et_model *m, const et_layout *layout, et_error *error)
{
    const et_pass_options learns = { .training = true, .bfloat16 = m->bfloat16 };
    const et_pass_options predicts = { .bfloat16 = m->bfloat16, .name = "prediction" };
    et_pass *training;
    et_assert(m->params && !m->pass);
    m->layout = m->predicted = *layout;
    m->x = et_layout_find(layout, ET_MODEL_X);
    m->y = et_layout_find(layout, ET_MODEL_Y);
    et_layout learned = *layout;
    learned.capacity[0] = ET_MODEL_BATCH;
    m->predicted.capacity[0] = ET_MODEL_PREDICTS;
    int status =
        et_pass_open(&training, m->device, m->params, &learned, build_training, m, &learns, error);
    et_pass_close(training);
    if (status ||
        (status = et_pass_open(&m->pass, m->device, m->params, &m->predicted, build_prediction, m,
                               &predicts, error)) ||
        (status = et_params_materialize(m->params, m->bfloat16, error)))
        return status;
    et_init_draw(m->params, m->seed);
    if ((status = et_pass_prepare(m->pass, &m->predicted, error)) ||
        (status = et_batch_new(&m->batch, &m->predicted, error)))
        return status;
    return find_output(m, error);
}

void et_model_close(et_model *m)
{
    if (!m)
        return;
    et_assert(!m->controller);
    et_model_close_trainer(m);
    et_batch_free(m->batch);
    et_pass_close(m->pass);
    et_params_free(m->params);
    et_device_close(m->device);
    et_free(m->run_dir);
    et_arena_release(&m->arena);
    m->kind->close(m);
}

/* ---- weights in files ---- */

bool et_model_show_average(const et_model *m)
{
    et_optimizer *optimizer = et_model_optimizer(m);
    return optimizer && et_optimizer_iterations(optimizer) && et_optimizer_show_average(optimizer);
}

void et_model_hide_average(const et_model *m)
{
    et_optimizer_hide_average(et_model_optimizer(m));
}

int et_model_save(const et_model *m, const char *path, et_error *error)
{
    const bool shown = et_model_show_average(m);
    int status = m->kind->save(m, path, error);
    if (shown)
        et_model_hide_average(m);
    return status;
}

int et_model_take_weights(et_model *m, const char *path, et_artifact_weights *weights,
                          et_error *error)
{
    et_artifact artifact;
    et_assert(path && !weights->artifact);
    int status = et_artifact_open(&artifact, path, error);
    weights->artifact = &artifact;
    weights->params = m->params;
    if (!status)
        status = et_artifact_load(weights, error);
    et_free(weights->checkpoint);
    et_artifact_close(&artifact);
    weights->artifact = NULL;
    return status;
}

/* Closes the trainer, because the optimizer's slots belong to the weights before. */
int et_model_load(et_model *m, const char *path, et_error *error)
{
    if (!path || !*path)
        return et_fail(error, ET_ECONFIG, "et_model_load: give the file or the run to load");
    if (m->controller)
        return et_fail(error, ET_EUSAGE, "et_model_load: not during training");
    int status = m->kind->load(m, path, error);
    if (status)
        return status;
    et_model_close_trainer(m);
    m->has_weights = true;
    m->version++;
    m->base = 0;
    return ET_OK;
}

/* ---- the trained parts ---- */

/* The pattern "encoder*" as an expression for whole names: "^encoder.*$". */
static const char *expression_of(et_model *m, const char *pattern)
{
    et_strbuf text = ET_STRBUF_INIT;
    for (const char *c = pattern; *c; c++)
        if (*c == '*')
            et_strbuf_append(&text, ".*");
        else
            et_strbuf_printf(&text, strchr("\\^$.|?+()[]{}", *c) ? "\\%c" : "%c", *c);
    return et_strbuf_keep(&text, &m->arena);
}

/* The trained parameters; *out NULL: all. The caller frees it. */
static int trained_group(const et_model *m, et_group **out, et_error *error)
{
    et_strbuf text = ET_STRBUF_INIT;
    *out = NULL;
    if (!m->frozen.count)
        return ET_OK;
    et_strbuf_append(&text, "^(?!(");
    for (size_t i = 0; i < m->frozen.count; i++)
        et_strbuf_printf(&text, "%s%s", i ? "|" : "", m->frozen.items[i]);
    et_strbuf_append(&text, ")$)");
    int status = text.failed ? et_alloc_failed(error, "a pattern")
                             : et_group_match(out, m->params, et_strbuf_text(&text), error);
    et_strbuf_release(&text);
    return status;
}

static int add_frozen(et_model *m, const char *pattern, et_error *error)
{
    const char **items = et_arena_array(&m->arena, m->frozen.count + 1, sizeof *items);
    const char *expression = items ? expression_of(m, pattern) : NULL;
    char *whole = expression ? et_arena_printf(&m->arena, "^(%s)$", expression) : NULL;
    et_group *group = NULL;
    if (!whole)
        return et_alloc_failed(error, "a pattern");
    int status = et_group_match(&group, m->params, whole, error);
    et_group_free(group);
    if (status == ET_ENOMEM)
        return status;
    if (status)
        return et_fail(error, ET_ECONFIG,
                       "et_freeze: no trained parameter matches %s; the first one is %s", pattern,
                       et_params_name(m->params, 0));
    for (size_t i = 0; i < m->frozen.count; i++)
        items[i] = m->frozen.items[i];
    items[m->frozen.count] = expression;
    const et_strings before = m->frozen;
    m->frozen = (et_strings){ items, before.count + 1 };
    status = trained_group(m, &group, error);
    et_group_free(group);
    if (!status)
        return ET_OK;
    m->frozen = before;
    if (status == ET_ENOMEM)
        return status;
    return et_fail(error, ET_ECONFIG, "et_freeze: %s leaves no parameter to train", pattern);
}

int et_freeze(et_model *m, const char *pattern, et_error *error)
{
    if (m->controller || m->kind->no_training)
        return et_fail(error, ET_EUSAGE, "%s",
                       m->controller ? "et_freeze: not during training" : m->kind->no_training);
    if (pattern && !*pattern)
        return et_fail(error, ET_ECONFIG,
                       "et_freeze: \"\" names no parameter; give a pattern, or NULL to train all");
    if (!pattern)
        m->frozen = (et_strings){ 0 };
    int status = pattern ? add_frozen(m, pattern, error) : ET_OK;
    if (!status)
        et_model_close_trainer(m);
    return status;
}

/* ---- the trainer ---- */

int et_model_open_trainer(et_model *m, int64_t capacity, int64_t steps, et_error *error)
{
    et_assert(steps >= 0);
    const bool used = m->trainer && et_optimizer_iterations(et_model_optimizer(m));
    if (m->trainer && m->capacity == capacity && (used || !steps || m->steps))
        return ET_OK;
    if (used)
        return et_fail(error, ET_ECONFIG,
                       "batches of %lld samples: this model was trained on batches of %lld, and "
                       "its optimizer is made for them; give batch_size %lld",
                       (long long)capacity, (long long)m->capacity, (long long)m->capacity);
    et_model_close_trainer(m);
    et_layout layout = m->layout;
    layout.capacity[0] = capacity;
    init_source(&m->train, &layout, true);
    init_source(&m->valid, &layout, false);
    et_optimization_options optimization = m->optimization;
    et_group *group = NULL;
    int status = et_optimization_end_with_run(&optimization, steps ? steps : 1, &m->arena, error);
    if (!status)
        status = trained_group(m, &group, error);
    const et_task_trainer_given given = { .train_dataset = &m->train.source,
                                          .validation_dataset =
                                              m->own_valid ? NULL : &m->valid.source };
    const et_task_trainer_options options = { .optimization = &optimization,
                                              .group = group,
                                              .given = &given,
                                              .seed = m->seed,
                                              .bfloat16 = m->bfloat16 };
    if (!status)
        status = et_task_trainer_open(&m->trainer, m->task, m->device, m->params, &options, error);
    et_group_free(group);
    m->capacity = capacity;
    m->steps = steps;
    return status;
}

int64_t et_model_step(const et_model *m)
{
    return m->trainer ? et_task_trainer_trainer(m->trainer)->step : 0;
}

void et_model_close_trainer(et_model *m)
{
    et_task_trainer_close(m->trainer);
    m->trainer = NULL;
}

/* ---- the table of layers ---- */

/* The printed table of a model: a line for each scope that has parameters. */

/* Length of the layer's name in a parameter's name: up to the last slash. */
static size_t layer_length(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? (size_t)(slash - name) : 0;
}

static bool is_of(const char *name, const char *layer, size_t length)
{
    return layer_length(name) == length && !strncmp(name, layer, length);
}

/* Samples are not counted: "-, 10" of [256, 10]. */
static void add_shape(et_grid *grid, const et_node *node)
{
    char text[ET_SHAPE_TEXT_MAX];
    et_shape shape = node ? et_node_shape(node) : et_shape_scalar();
    if (!shape.rank) {
        et_grid_add(grid, "");
        return;
    }
    for (int i = 1; i < shape.rank; i++)
        shape.size[i - 1] = shape.size[i];
    shape.size[--shape.rank] = 0;
    et_grid_add(grid, et_shape_print(shape, text));
}

/* Adds the row of a layer. The parameters of a layer follow each other in the store. The last node
 * in the layer's scope is its output. */
static int add_layer(const et_model *m, et_grid *grid, int first)
{
    const et_graph *graph = et_pass_graph(m->pass);
    const char *layer = et_params_name(m->params, first);
    const size_t length = layer_length(layer);
    const et_node *output = NULL;
    int64_t trained = 0, kept = 0;
    int i = first;
    for (; i < et_params_count(m->params) && is_of(et_params_name(m->params, i), layer, length);
         i++)
        *(et_params_is_trained(m->params, i) ? &trained : &kept) +=
            et_shape_count(et_params_shape(m->params, i));
    for (int n = 0; length && n < graph->count; n++)
        if (graph->nodes[n]->op != ET_OP_PARAM && is_of(graph->nodes[n]->name, layer, length))
            output = graph->nodes[n];
    et_grid_addf(grid, "%.*s", (int)(length ? length : strlen(layer)), layer);
    add_shape(grid, output);
    et_grid_add(grid, et_format_count(trained).text);
    et_grid_add(grid, kept ? et_format_count(kept).text : "");
    return i;
}

int et_model_summary(const et_model *m, FILE *to, et_error *error)
{
    static const char *const heads[] = { "layer", "output", "trained", "other" };
    et_grid grid = { .columns = 4, .left = 2 };
    et_strbuf text = ET_STRBUF_INIT;
    if (!to)
        return et_fail(error, ET_EUSAGE, "et_model_summary: no file; give stdout");
    if (m->kind->no_training)
        return et_fail(error, ET_EUSAGE, "%s", m->kind->no_training);
    et_grid_add_row(&grid, heads);
    for (int i = 0; i < et_params_count(m->params);)
        i = add_layer(m, &grid, i);
    et_grid_append(&grid, ET_GRID_TEXT, &text);
    et_group *group;
    int status = trained_group(m, &group, error);
    int64_t trained = 0; /* group NULL: all */
    for (int i = 0; group && i < et_group_count(group); i++)
        trained += et_shape_count(et_params_shape(m->params, et_group_param(group, i)));
    for (int i = 0; !group && i < et_params_count(m->params); i++)
        if (et_params_is_trained(m->params, i))
            trained += et_shape_count(et_params_shape(m->params, i));
    const et_plan_memory memory = et_pass_plan_memory(m->pass);
    const uint64_t predicts = memory.activations + memory.packed + memory.constants;
    const uint64_t weights = (uint64_t)et_params_elements(m->params) * sizeof(float);
    et_strbuf_printf(&text, "parameters   %s, of them trained: %s\n",
                     et_format_count(et_params_elements(m->params)).text,
                     et_format_count(trained).text);
    et_strbuf_printf(&text, "memory       %s of weights; prediction: %s more",
                     et_format_bytes(weights).text, et_format_bytes(predicts).text);
    if (m->trainer)
        et_strbuf_printf(&text, "; training: %s of weights, gradients and optimizer",
                         et_format_bytes(et_task_trainer_parameter_bytes(m->trainer)).text);
    et_strbuf_append_char(&text, '\n');
    et_group_free(group);
    if (!status && (grid.failed || text.failed))
        status = et_alloc_failed(error, "a table of layers");
    if (!status && fputs(et_strbuf_text(&text), to) == EOF)
        status = et_fail(error, ET_EIO, "et_model_summary: cannot write to the file");
    et_grid_release(&grid);
    et_strbuf_release(&text);
    return status;
}

/* ---- parts ---- */

int64_t et_model_width(const et_model *m)
{
    return m->width;
}

et_params *et_model_params(const et_model *m)
{
    return m->params;
}

et_device *et_model_device(const et_model *m)
{
    return m->device;
}

et_pass *et_model_pass(const et_model *m)
{
    return m->pass;
}

et_optimizer *et_model_optimizer(const et_model *m)
{
    return m->trainer ? et_task_trainer_optimizer(m->trainer) : NULL;
}

et_task_trainer *et_model_task_trainer(const et_model *m)
{
    return m->trainer;
}

et_controller *et_model_controller(const et_model *m)
{
    return m->controller;
}
