/* Combines parts of a model into graphs:
 *
 *   training     input("train") -> inference -> training
 *   evaluation   input("eval")  -> inference -> training (its loss), output -> evaluation
 *   prediction   input(none)    -> inference -> output
 *
 * A graph is a pass over the builder's store. A trainer builds its own passes with the same
 * function (face.build), so the overridden methods are trained. Methods are looked up once, when
 * the builder is made. */
#include "tasks/tabular/builders/builders.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "engine/graph/graph.h"

#define CLASSES_MAX 16 /* of a class and its bases; more mean a circle */

/* Where a builder that is asked for more than it may hold is refused. */
#define METHODS(X)                                                                                 \
    X(build_graph_interfaces)                                                                      \
    X(build_training_graph)                                                                        \
    X(build_evaluation_graph)                                                                      \
    X(build_prediction_graph)                                                                      \
    X(build_init)                                                                                  \
    X(build_input)                                                                                 \
    X(build_inference)                                                                             \
    X(build_training)                                                                              \
    X(build_output)                                                                                \
    X(build_evaluation)

static const et_model_builder_class *methods_of(const et_model_builder *builder)
{
    return &builder->inside->methods;
}

/* ---- adding nodes ---- */

static void take_inputs(et_scope *scope, const et_layout *layout, et_nodes *inputs)
{
    for (int i = 0; i < layout->fields && i < ET_NODES_MAX; i++)
        et_nodes_put(inputs, layout->field[i].name, et_batch_input(scope, layout->field[i].name));
}

static void add_loss(et_builder_graph *graph, et_scope *scope, const et_nodes *inputs,
                     const et_nodes *inferences)
{
    et_graph_interface *face = &graph->face;
    et_builder_training training = { .loss = NULL };
    et_model_builder_build_training(face->builder, scope, face->global_steps, inputs, inferences,
                                    &training);
    if (!training.loss) {
        et_graph_poison(et_scope_graph(scope), "%s: build_training gives no loss",
                        face->builder->ET_CLASS->name);
        return;
    }
    et_loss(scope, face->loss, training.loss, 1);
    face->train_op = training.optimizer;
}

static void add_outputs(et_builder_graph *graph, et_scope *scope, const et_nodes *inputs,
                        const et_nodes *inferences, et_nodes *outputs)
{
    et_graph_interface *face = &graph->face;
    et_model_builder_build_output(face->builder, scope, inputs, inferences, outputs);
    face->output_count = outputs->count;
    for (int i = 0; i < outputs->count; i++) {
        face->output[i] = outputs->name[i];
        et_output(scope, outputs->name[i], outputs->node[i]);
    }
    if (!outputs->count)
        et_graph_poison(et_scope_graph(scope), "%s: build_output gives no output",
                        face->builder->ET_CLASS->name);
}

static void add_metric(et_builder_graph *graph, et_scope *scope, const et_nodes *inputs,
                       const et_nodes *outputs)
{
    et_graph_interface *face = &graph->face;
    et_builder_evaluation evaluation = { .metric = NULL };
    et_model_builder_build_evaluation(face->builder, scope, inputs, outputs, &evaluation);
    if (!evaluation.metric || !evaluation.total || !evaluation.weight) {
        et_graph_poison(et_scope_graph(scope), "%s: build_evaluation gives no metric",
                        face->builder->ET_CLASS->name);
        return;
    }
    face->metric = evaluation.metric;
    face->lower_is_better = evaluation.lower_is_better;
    et_measure(scope, evaluation.metric, evaluation.total, evaluation.weight);
}

/* payload: the interface. Parts see the dataset that the graph was given as the builder's. */
static void add_nodes(et_scope *scope, void *payload)
{
    et_builder_graph *graph = payload;
    et_model_builder *builder = graph->face.builder;
    et_table_set *before = builder->dataset;
    et_nodes inputs = { 0 }, inferences = { 0 }, outputs = { 0 };
    builder->dataset = graph->dataset;
    take_inputs(scope, et_scope_layout(scope), &inputs);
    et_model_builder_build_inference(builder, scope, &inputs, graph->phase == ET_PHASE_TRAINING,
                                     &inferences);
    if (graph->phase != ET_PHASE_PREDICTION)
        add_loss(graph, scope, &inputs, &inferences);
    if (graph->phase != ET_PHASE_TRAINING)
        add_outputs(graph, scope, &inputs, &inferences, &outputs);
    if (graph->phase == ET_PHASE_EVALUATION)
        add_metric(graph, scope, &inputs, &outputs);
    builder->dataset = before;
}

/* ---- graphs ---- */

int et_model_builder_open_device(et_model_builder *builder, et_device **out, et_error *error)
{
    et_model_builder_inside *inside = builder->inside;
    int status = inside->device ? ET_OK : et_device_open(&inside->device, error);
    *out = inside->device;
    return status;
}

/* Reports an incomplete class by name, before any graph is begun. */
static int check_whole(const et_model_builder *builder, et_error *error)
{
    const et_model_builder_class *methods = methods_of(builder);
    const char *missing = !methods->build_inference    ? "build_inference"
                          : !methods->build_training   ? "build_training"
                          : !methods->build_output     ? "build_output"
                          : !methods->build_evaluation ? "build_evaluation"
                                                       : NULL;
    if (!missing)
        return ET_OK;
    return et_fail(error, ET_EUSAGE,
                   "builder %s has no %s: define it in its class or in a base class",
                   builder->ET_CLASS->name, missing);
}

static int open_pass(et_builder_graph *graph, et_error *error)
{
    et_graph_interface *face = &graph->face;
    et_device *device;
    const et_pass_options options = { .training = graph->phase == ET_PHASE_TRAINING,
                                      .name = face->name };
    et_params *params = et_model_builder_params(face->builder);
    if (!params)
        return et_alloc_failed(error, 0, "parameters");
    int status = et_model_builder_open_device(face->builder, &device, error);
    return status ? status
                  : et_pass_open(&face->graph, device, params, face->input.layout, face->build,
                                 graph, &options, error);
}

/* The three differ in what they read and in what add_nodes does for their phase. */
static int build_graph(et_model_builder *self, et_table_set *dataset, et_builder_phase phase,
                       et_graph_interface **out, et_error *error)
{
    static const char *const names[] = { "training", "evaluation", "prediction" };
    static const char *const sources[] = { "train", "eval", NULL };
    const et_arguments *args = self->args;
    const bool trains = phase == ET_PHASE_TRAINING;
    *out = NULL;
    dataset = dataset ? dataset : self->dataset;
    if (!dataset)
        return et_fail(
            error, ET_EUSAGE,
            "builder %s has no dataset: give one when you make the builder, or for each graph",
            self->ET_CLASS->name);
    int status = check_whole(self, error);
    et_builder_graph *graph = status ? NULL : et_alloc_zero(1, sizeof *graph);
    if (!graph)
        return status ? status : et_alloc_failed(error, sizeof *graph, "a graph");
    *graph = (et_builder_graph){ .face = { .name = names[phase],
                                           .builder = self,
                                           .build = add_nodes,
                                           .global_steps = &self->inside->global_steps,
                                           .loss = "loss" },
                                 .phase = phase,
                                 .dataset = dataset,
                                 .next = self->inside->graphs };
    self->inside->graphs = graph;
    et_model_builder_build_init(self, &graph->face.init);
    status = et_model_builder_build_input(self, dataset, sources[phase],
                                          trains ? args->batch_size : args->eval_batch_size,
                                          trains ? 0 : 1, trains, &graph->face.input, error);
    if (!status)
        status = open_pass(graph, error);
    if (status)
        et_graph_interface_close(&graph->face);
    else
        *out = &graph->face;
    return status ? et_fail_while(error, status, "%s graph", names[phase]) : ET_OK;
}

void et_graph_interface_close(et_graph_interface *face)
{
    if (!face)
        return;
    et_builder_graph *graph = (et_builder_graph *)(void *)face, **at;
    for (at = &face->builder->inside->graphs; *at != graph; at = &(*at)->next)
        et_assert(*at);
    *at = graph->next;
    et_pass_close(face->graph);
    et_source_close(face->input.source);
    et_free(graph);
}

/* ---- what a class need not say ---- */

static int build_training_graph(et_model_builder *self, et_table_set *dataset,
                                et_graph_interface **out, et_error *error)
{
    return build_graph(self, dataset, ET_PHASE_TRAINING, out, error);
}

static int build_evaluation_graph(et_model_builder *self, et_table_set *dataset,
                                  et_graph_interface **out, et_error *error)
{
    return build_graph(self, dataset, ET_PHASE_EVALUATION, out, error);
}

static int build_prediction_graph(et_model_builder *self, et_table_set *dataset,
                                  et_graph_interface **out, et_error *error)
{
    return build_graph(self, dataset, ET_PHASE_PREDICTION, out, error);
}

/* Which device each parameter is on, for people: the setter tells it. */
static int choose_servers(et_model_builder *self, const et_job_config *config, et_error *error)
{
    et_device_setter *setter;
    const et_params *params = et_model_builder_params(self);
    int status = et_job_config_create_device_setter(&setter, config, self->args, error);
    for (int i = 0; !status && i < et_params_count(params); i++)
        if (!et_device_setter_variable(setter, et_params_name(params, i)))
            status = et_alloc_failed(error, 0, "a device setter");
    if (!status)
        et_device_setter_free(setter);
    return status;
}

static int build_graph_interfaces(et_model_builder *self, const et_job_config *config,
                                  et_graph_interfaces *out, et_error *error)
{
    *out = (et_graph_interfaces){ NULL, NULL, NULL };
    int status = et_model_builder_build_training_graph(self, NULL, &out->training, error);
    if (!status && et_table_set_columns(self->dataset, "eval"))
        status = et_model_builder_build_evaluation_graph(self, NULL, &out->evaluation, error);
    if (!status)
        status = et_model_builder_build_prediction_graph(self, NULL, &out->prediction, error);
    if (!status && config)
        status = choose_servers(self, config, error);
    if (status) {
        et_graph_interface_close(out->training);
        et_graph_interface_close(out->evaluation);
        et_graph_interface_close(out->prediction);
        *out = (et_graph_interfaces){ NULL, NULL, NULL };
    }
    return status;
}

/* Initial values are drawn by what parameters were declared with; nothing is to be done after a
 * restore. */
static void build_init(et_model_builder *self, et_builder_init *out)
{
    (void)self;
    *out = (et_builder_init){ NULL, NULL };
}

const et_model_builder_class et_model_builder_base = {
    .name = "model",
    .build_graph_interfaces = build_graph_interfaces,
    .build_training_graph = build_training_graph,
    .build_evaluation_graph = build_evaluation_graph,
    .build_prediction_graph = build_prediction_graph,
    .build_init = build_init,
    .build_input = et_builder_default_input,
};

/* ---- a builder ---- */

static const et_model_builder_class *base_of(const et_model_builder_class *kind)
{
    if (kind->base || kind == &et_model_builder_base)
        return kind->base;
    return &et_model_builder_base;
}

/* Each method of the nearest class that has it. */
static int resolve(et_model_builder_class *methods, const et_model_builder_class *kind,
                   et_error *error)
{
    int count = 0;
    *methods = (et_model_builder_class){ .name = kind->name };
    for (const et_model_builder_class *k = kind; k; k = base_of(k)) {
        if (++count > CLASSES_MAX)
            return et_fail(error, ET_EUSAGE, "%s: a class of builders with more than %d bases",
                           kind->name ? kind->name : "?", CLASSES_MAX - 1);
        if (!methods->arguments)
            methods->arguments = k->arguments;
        if (!methods->size)
            methods->size = k->size;
#define TAKE(method)                                                                               \
    if (!methods->method)                                                                          \
        methods->method = k->method;
        METHODS(TAKE)
#undef TAKE
    }
    return ET_OK;
}

/* A base before what is based on it. */
static int init_classes(et_model_builder *builder, const et_model_builder_class *kind,
                        et_error *error)
{
    const et_model_builder_class *of[CLASSES_MAX];
    int count = 0, status = ET_OK;
    for (const et_model_builder_class *k = kind; k && count < CLASSES_MAX; k = base_of(k))
        of[count++] = k;
    while (count && !status)
        if (of[--count]->init)
            status = of[count]->init(builder, error);
    return status;
}

int et_model_builder_class_resolve(et_model_builder_class *out, const et_model_builder_class *kind,
                                   et_error *error)
{
    int status = resolve(out, kind, error);
    if (!status && out->size < sizeof(et_model_builder))
        out->size = sizeof(et_model_builder);
    return status;
}

int et_model_builder_init(et_model_builder *builder, const et_model_builder_class *kind,
                          const et_arguments *args, et_table_set *dataset, et_error *error)
{
    *builder = (et_model_builder){ .ET_CLASS = kind, .args = args, .dataset = dataset };
    if (!kind || !kind->name)
        return et_fail(error, ET_EUSAGE, "a builder needs a class with a name");
    et_model_builder_inside *inside = et_alloc_zero(1, sizeof *inside);
    if (!inside)
        return et_alloc_failed(error, sizeof *inside, "a builder");
    int status = resolve(&inside->methods, kind, error);
    if (!status && !et_arguments_is(args, inside->methods.arguments)) {
        const et_arguments_class *wanted = inside->methods.arguments;
        status =
            et_fail(error, ET_EUSAGE, "builder %s: the arguments must be those of %s, but are %s",
                    kind->name, wanted ? wanted->name : "of a model",
                    args ? "of another class" : "not given");
    }
    if (status) {
        et_free(inside);
        return status;
    }
    builder->inside = inside;
    status = init_classes(builder, kind, error);
    if (status)
        et_model_builder_release(builder);
    return status;
}

static void free_stores(et_builder_store *store)
{
    while (store) {
        et_builder_store *before = store->before;
        et_params_free(store->params);
        et_free(store);
        store = before;
    }
}

void et_model_builder_release(et_model_builder *builder)
{
    et_model_builder_inside *inside = builder->inside;
    if (!inside)
        return;
    while (inside->graphs)
        et_graph_interface_close(&inside->graphs->face);
    free_stores(inside->store);
    et_device_close(inside->device);
    et_arena_release(&inside->arena);
    et_free(inside);
    builder->inside = NULL;
}

int et_model_builder_renew(et_model_builder *builder, et_error *error)
{
    et_builder_store *store = et_alloc_zero(1, sizeof *store);
    int status = store ? et_params_new(&store->params, error)
                       : et_alloc_failed(error, sizeof *store, "parameters");
    if (status) {
        et_free(store);
        return status;
    }
    store->before = builder->inside->store;
    builder->inside->store = store;
    builder->inside->global_steps = 0;
    return ET_OK;
}

et_params *et_model_builder_params(et_model_builder *builder)
{
    if (!builder->inside->store && et_model_builder_renew(builder, NULL))
        return NULL;
    return builder->inside->store->params;
}

const et_arguments *et_model_builder_args(const et_model_builder *builder)
{
    return builder->args;
}

et_table_set *et_model_builder_dataset(const et_model_builder *builder)
{
    return builder->dataset;
}

/* ---- the methods, of whichever class has them ---- */

int et_model_builder_build_graph_interfaces(et_model_builder *builder, const et_job_config *config,
                                            et_graph_interfaces *out, et_error *error)
{
    *out = (et_graph_interfaces){ NULL, NULL, NULL };
    if (!builder->dataset)
        return et_fail(error, ET_EUSAGE, "builder %s has no dataset", builder->ET_CLASS->name);
    return methods_of(builder)->build_graph_interfaces(builder, config, out, error);
}

int et_model_builder_build_training_graph(et_model_builder *builder, et_table_set *dataset,
                                          et_graph_interface **out, et_error *error)
{
    return methods_of(builder)->build_training_graph(builder, dataset, out, error);
}

int et_model_builder_build_evaluation_graph(et_model_builder *builder, et_table_set *dataset,
                                            et_graph_interface **out, et_error *error)
{
    return methods_of(builder)->build_evaluation_graph(builder, dataset, out, error);
}

int et_model_builder_build_prediction_graph(et_model_builder *builder, et_table_set *dataset,
                                            et_graph_interface **out, et_error *error)
{
    return methods_of(builder)->build_prediction_graph(builder, dataset, out, error);
}

void et_model_builder_build_init(et_model_builder *builder, et_builder_init *out)
{
    *out = (et_builder_init){ NULL, NULL };
    methods_of(builder)->build_init(builder, out);
}

int et_model_builder_build_input(et_model_builder *builder, et_table_set *dataset,
                                 const char *source, int64_t batch, int64_t epochs, bool shuffle,
                                 et_builder_input *out, et_error *error)
{
    *out = (et_builder_input){ NULL, NULL };
    dataset = dataset ? dataset : builder->dataset;
    if (!dataset || batch < 1 || epochs < 0)
        return et_fail(
            error, ET_EUSAGE, "builder %s: input needs a dataset, %s", builder->ET_CLASS->name,
            dataset ? "a batch of at least one, and no negative epochs" : "but has none");
    int status = methods_of(builder)->build_input(builder, dataset, source, batch, epochs, shuffle,
                                                  out, error);
    if (!status && !out->layout)
        status = et_fail(error, ET_EUSAGE, "builder %s: build_input gives no layout",
                         builder->ET_CLASS->name);
    return status;
}

/* A part that no class has: what is built with it fails, by name. */
static bool has(et_model_builder *builder, bool method, const char *name, et_scope *scope)
{
    if (!method)
        et_graph_poison(et_scope_graph(scope), "builder %s has no %s", builder->ET_CLASS->name,
                        name);
    return method;
}

void et_model_builder_build_inference(et_model_builder *builder, et_scope *scope,
                                      const et_nodes *inputs, bool training, et_nodes *inferences)
{
    if (has(builder, methods_of(builder)->build_inference, "build_inference", scope))
        methods_of(builder)->build_inference(builder, scope, inputs, training, inferences);
}

void et_model_builder_build_training(et_model_builder *builder, et_scope *scope,
                                     const int64_t *global_steps, const et_nodes *inputs,
                                     const et_nodes *inferences, et_builder_training *out)
{
    if (has(builder, methods_of(builder)->build_training, "build_training", scope))
        methods_of(builder)->build_training(builder, scope, global_steps, inputs, inferences, out);
}

void et_model_builder_build_output(et_model_builder *builder, et_scope *scope,
                                   const et_nodes *inputs, const et_nodes *inferences,
                                   et_nodes *outputs)
{
    if (has(builder, methods_of(builder)->build_output, "build_output", scope))
        methods_of(builder)->build_output(builder, scope, inputs, inferences, outputs);
}

void et_model_builder_build_evaluation(et_model_builder *builder, et_scope *scope,
                                       const et_nodes *inputs, const et_nodes *outputs,
                                       et_builder_evaluation *out)
{
    if (has(builder, methods_of(builder)->build_evaluation, "build_evaluation", scope))
        methods_of(builder)->build_evaluation(builder, scope, inputs, outputs, out);
}
