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
#include "base/text/strbuf.h"
#include "data/table/table_set.h"
#include "engine/graph/build.h"
#include "engine/graph/graph.h"
#include "tasks/tabular/networks/networks.h"

/* ---- the target ---- */

static const et_encoded_field *target_of(const et_model_builder *builder)
{
    const et_encoder *encoder = builder->dataset ? et_table_set_encoder(builder->dataset) : NULL;
    int index = encoder ? et_encoder_target(encoder) : -1;
    return index < 0 ? NULL : et_encoder_field(encoder, index);
}

const char *et_model_builder_target(const et_model_builder *builder)
{
    const et_encoded_field *target = target_of(builder);
    return target ? target->name : NULL;
}

int et_model_builder_labels(const et_model_builder *builder)
{
    const et_encoded_field *target = target_of(builder);
    return target && target->kind == ET_ENCODED_CLASS ? target->classes : 0;
}

const char *et_model_builder_label(const et_model_builder *builder, int index)
{
    return index >= 0 && index < et_model_builder_labels(builder) ? target_of(builder)->label[index]
                                                                  : NULL;
}

/* ---- input ---- */

/* build_input, where a class has none: a source of the dataset, or rows to predict. */
static int default_input(et_model_builder *self, et_table_set *dataset, const char *source,
                         int64_t batch, int64_t epochs, bool shuffle, et_builder_input *out,
                         et_error *error)
{
    if (!source) {
        out->layout =
            et_encoder_input_layout(et_table_set_encoder(dataset), batch, &self->internals->arena);
        return out->layout ? ET_OK : et_alloc_failed(error, "a layout");
    }
    const et_table_columns *from = et_table_set_columns(dataset, source);
    const et_read_options options = {
        .batch = batch, .shuffle = shuffle, .epochs = epochs, .seed = (uint64_t)self->args->seed
    };
    if (!from) {
        et_strbuf names = ET_STRBUF_INIT;
        for (int i = 0; i < et_table_set_count(dataset); i++)
            et_strbuf_printf(&names, "%s%s", i ? ", " : "",
                             et_table_columns_name(et_table_set_at(dataset, i)));
        et_fail(error, ET_ECONFIG, "the dataset has no source \"%s\"; it has %s", source,
                names.length ? et_strbuf_text(&names) : "none");
        et_strbuf_release(&names);
        return ET_ECONFIG;
    }
    int status = et_table_columns_read(&out->source, from, &options, error);
    if (!status)
        out->layout = &out->source->layout;
    return status;
}

/* ---- classification ---- */

/* A target of numbers would be read as labels. */
static et_node *labels_of(et_model_builder *self, et_scope *scope)
{
    const et_encoded_field *target = target_of(self);
    if (!target)
        return et_graph_poison(et_scope_graph(scope),
                               "builder %s: the features have no target: classification needs one",
                               self->ET_CLASS->name);
    if (et_encoder_weight(et_table_set_encoder(self->dataset)) >= 0)
        return et_graph_poison(et_scope_graph(scope),
                               "builder %s: it has no weights of rows: remove the feature of type "
                               "weight",
                               self->ET_CLASS->name);
    if (target->kind != ET_ENCODED_CLASS)
        return et_graph_poison(et_scope_graph(scope),
                               "builder %s: target %s is %s: classification needs labels",
                               self->ET_CLASS->name, target->name,
                               target->kind == ET_ENCODED_LABELS ? "several columns" : "numeric");
    return et_batch_input(scope, target->name);
}

static et_node *named(et_model_builder *self, et_scope *scope, const et_nodes *nodes,
                      const char *name, const char *method)
{
    et_node *node = et_nodes_get(nodes, name);
    return node ? node
                : et_graph_poison(et_scope_graph(scope), "builder %s: %s gives no \"%s\"",
                                  self->ET_CLASS->name, method, name);
}

static void train_classes(et_model_builder *self, et_scope *scope, const int64_t *global_steps,
                          const et_nodes *inputs, const et_nodes *inferences,
                          et_builder_training *out)
{
    et_node *nll, *correct;
    (void)global_steps, (void)inputs;
    out->loss = et_cross_entropy(named(self, scope, inferences, "logits", "build_inference"),
                                 labels_of(self, scope), 0, &nll, &correct);
}

static void output_classes(et_model_builder *self, et_scope *scope, const et_nodes *inputs,
                           const et_nodes *inferences, et_nodes *outputs)
{
    et_node *logits = named(self, scope, inferences, "logits", "build_inference");
    (void)inputs;
    et_nodes_put(outputs, "scores", et_softmax(et_copy(logits, ET_F32, et_node_shape(logits))));
}

/* The most likely label by scores is also the most likely by logits. */
static void evaluate_classes(et_model_builder *self, et_scope *scope, const et_nodes *inputs,
                             const et_nodes *outputs, et_builder_evaluation *out)
{
    et_node *nll, *correct = NULL, *labels = labels_of(self, scope);
    (void)inputs;
    et_cross_entropy(named(self, scope, outputs, "scores", "build_output"), labels, 0, &nll,
                     &correct);
    *out = (et_builder_evaluation){ .metric = "accuracy",
                                    .total = et_sum(correct),
                                    .weight = et_sum(et_labelled(labels)) };
}

const et_model_builder_class et_classification_builder = { .name = "classification",
                                                           .build_training = train_classes,
                                                           .build_output = output_classes,
                                                           .build_evaluation = evaluate_classes };

/* ---- feed forward ---- */

static const et_option flags[] = {
    { .field = ET_FIELD_FLOAT(et_feed_forward_arguments, learning_rate, 0.01, 1e-30, 1e30,
                              "learning rate of gradient descent"),
      .group = "Model" },
    { .field = ET_FIELD_INT(et_feed_forward_arguments, hidden_layers, ET_UNITS_NONE, 1, 65536,
                            "units of hidden layer N"),
      .form = ET_OPTION_FORM_INDEXED,
      .value = "units" },
    ET_OPTION_END,
};

/* Layers as the model's settings have them. */
static int process_layers(et_arguments *self, et_error *error)
{
    et_feed_forward_arguments *args = (et_feed_forward_arguments *)(void *)self;
    const et_integer_list *units = &args->hidden_layers;
    const char **layers = et_arena_array(self->arena, units->count, sizeof *layers);
    if (units->count > ET_TABULAR_LAYERS_MAX)
        return et_fail(error, ET_EUSAGE, "--hidden-layers:%zu: give at most %d layers",
                       units->count, ET_TABULAR_LAYERS_MAX);
    for (size_t i = 0; layers && i < units->count; i++) {
        if (units->items[i] == ET_UNITS_NONE)
            return et_fail(error, ET_EUSAGE,
                           "--hidden-layers:%zu is missing, but layer %zu is given", i + 1,
                           units->count);
        layers[i] = et_arena_printf(self->arena, "%lld", (long long)units->items[i]);
    }
    if (!layers || self->arena->failed)
        return et_alloc_failed(error, "layers");
    args->layers = (et_strings){ layers, units->count };
    return ET_OK;
}

const et_arguments_class et_feed_forward_arguments_class = { .name = "feed_forward",
                                                             .size =
                                                                 sizeof(et_feed_forward_arguments),
                                                             .flags = flags,
                                                             .process = process_layers };

static const et_feed_forward_arguments *arguments_of(const et_model_builder *builder)
{
    return (const et_feed_forward_arguments *)(const void *)builder->args;
}

/* The model of tabular/feed_forward, over all features but targets. */
static void infer(et_model_builder *self, et_scope *scope, const et_nodes *inputs, bool training,
                  et_nodes *inferences)
{
    const et_tabular_model model = { .type = ET_TABULAR_FEED_FORWARD,
                                     .feed_forward.hidden_layers = arguments_of(self)->layers };
    int labels = et_model_builder_labels(self);
    (void)inputs, (void)training;
    if (!labels) {
        labels_of(self, scope); /* says which */
        return;
    }
    et_nodes_put(
        inferences, "logits",
        et_tabular_model_build(scope, &model, et_table_set_encoder(self->dataset), labels));
}

static void train_by_descent(et_model_builder *self, et_scope *scope, const int64_t *global_steps,
                             const et_nodes *inputs, const et_nodes *inferences,
                             et_builder_training *out)
{
    train_classes(self, scope, global_steps, inputs, inferences, out);
    out->optimizer =
        (et_optimizer_setup){ .rule = "sgd", .learning_rate = arguments_of(self)->learning_rate };
}

const et_model_builder_class et_feed_forward_builder = { .name = "feed_forward",
                                                         .base = &et_classification_builder,
                                                         .arguments =
                                                             &et_feed_forward_arguments_class,
                                                         .build_inference = infer,
                                                         .build_training = train_by_descent };

#define CLASSES_MAX 16 /* of a class and its bases; more mean a circle */

/* Methods that a class inherits from its bases. */
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
    return &builder->internals->methods;
}

/* ---- adding nodes ---- */

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
    et_assert(scope && payload);
    et_builder_graph *graph = payload;
    et_graph_interface *face = &graph->face;
    et_model_builder *builder = face->builder;
    et_table_set *before = builder->dataset;
    const et_layout *layout = et_scope_layout(scope);
    et_nodes inputs = { 0 }, inferences = { 0 }, outputs = { 0 };
    builder->dataset = graph->dataset;
    for (int i = 0; i < layout->fields && i < ET_NODES_MAX; i++)
        et_nodes_put(&inputs, layout->field[i].name, et_batch_input(scope, layout->field[i].name));
    et_model_builder_build_inference(builder, scope, &inputs, graph->phase == ET_PHASE_TRAINING,
                                     &inferences);
    if (graph->phase != ET_PHASE_PREDICTION)
        add_loss(graph, scope, &inputs, &inferences);
    if (graph->phase != ET_PHASE_TRAINING) {
        et_model_builder_build_output(builder, scope, &inputs, &inferences, &outputs);
        face->output_count = outputs.count;
        for (int i = 0; i < outputs.count; i++) {
            face->output[i] = outputs.name[i];
            et_output(scope, outputs.name[i], outputs.node[i]);
        }
        if (!outputs.count)
            et_graph_poison(et_scope_graph(scope), "%s: build_output gives no output",
                            builder->ET_CLASS->name);
    }
    if (graph->phase == ET_PHASE_EVALUATION)
        add_metric(graph, scope, &inputs, &outputs);
    builder->dataset = before;
}

/* ---- graphs ---- */

int et_model_builder_open_device(et_model_builder *builder, et_device **out, et_error *error)
{
    et_assert(builder->internals && out);
    et_model_builder_internals *internals = builder->internals;
    int status = internals->device ? ET_OK : et_device_open(&internals->device, error);
    *out = internals->device;
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
        return et_alloc_failed(error, "parameters");
    int status = et_model_builder_open_device(face->builder, &device, error);
    return status ? status
                  : et_pass_open(&face->graph, device, params, face->input.layout, face->build,
                                 graph, &options, error);
}

/* The three graphs differ in their source, and in the nodes of their phase. */
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
        return status ? status : et_alloc_failed(error, "a graph");
    *graph = (et_builder_graph){ .face = { .name = names[phase],
                                           .builder = self,
                                           .build = add_nodes,
                                           .global_steps = &self->internals->global_steps,
                                           .loss = "loss" },
                                 .phase = phase,
                                 .dataset = dataset,
                                 .next = self->internals->graphs };
    self->internals->graphs = graph;
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
    for (at = &face->builder->internals->graphs; *at != graph; at = &(*at)->next)
        et_assert(*at);
    *at = graph->next;
    et_pass_close(face->graph);
    et_source_close(face->input.source);
    et_free(graph);
}

/* ---- defaults of a class ---- */

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

/* Places parameters on devices; the setter prints the result. */
static int choose_servers(et_model_builder *self, const et_job_config *config, et_error *error)
{
    et_device_setter *setter;
    const et_params *params = et_model_builder_params(self);
    int status = et_job_config_create_device_setter(&setter, config, self->args, error);
    for (int i = 0; !status && i < et_params_count(params); i++)
        if (!et_device_setter_variable(setter, et_params_name(params, i)))
            status = et_alloc_failed(error, "a device setter");
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

/* Parameters are drawn as they were declared, and a restore needs no work. */
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
    .build_input = default_input,
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

/* A base comes before its classes. */
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
    et_model_builder_internals *internals;
    if (ET_ALLOC_ZERO(internals, 1, "a builder", error))
        return ET_ENOMEM;
    int status = resolve(&internals->methods, kind, error);
    if (!status && !et_arguments_is(args, internals->methods.arguments)) {
        const et_arguments_class *wanted = internals->methods.arguments;
        status = et_fail(
            error, ET_EUSAGE, "builder %s: expected the arguments of %s, but they are %s",
            kind->name, wanted ? wanted->name : "a model", args ? "of another class" : "not given");
    }
    if (status) {
        et_free(internals);
        return status;
    }
    builder->internals = internals;
    /* A base class before its derived classes. */
    const et_model_builder_class *of[CLASSES_MAX];
    int count = 0;
    for (const et_model_builder_class *k = kind; k && count < CLASSES_MAX; k = base_of(k))
        of[count++] = k;
    while (count && !status)
        if (of[--count]->init)
            status = of[count]->init(builder, error);
    if (status)
        et_model_builder_release(builder);
    return status;
}

void et_model_builder_release(et_model_builder *builder)
{
    et_model_builder_internals *internals = builder->internals;
    if (!internals)
        return;
    while (internals->graphs)
        et_graph_interface_close(&internals->graphs->face);
    et_builder_store *store = internals->store;
    while (store) {
        et_builder_store *before = store->before;
        et_params_free(store->params);
        et_free(store);
        store = before;
    }
    et_device_close(internals->device);
    et_arena_release(&internals->arena);
    et_free(internals);
    builder->internals = NULL;
}

int et_model_builder_renew(et_model_builder *builder, et_error *error)
{
    et_assert(builder->internals);
    et_builder_store *store = et_alloc_zero(1, sizeof *store);
    int status =
        store ? et_params_new(&store->params, error) : et_alloc_failed(error, "parameters");
    if (status) {
        et_free(store);
        return status;
    }
    store->before = builder->internals->store;
    builder->internals->store = store;
    builder->internals->global_steps = 0;
    return ET_OK;
}

et_params *et_model_builder_params(et_model_builder *builder)
{
    if (!builder->internals->store && et_model_builder_renew(builder, NULL))
        return NULL;
    return builder->internals->store->params;
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

/* A part that no class has: the graph fails with the name of the part. */
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
