/* The common part of builders for classification, the ready builders, and the input from a
 * dataset. */
#include "tasks/tabular/builders/builders.h"

#include "base/alloc.h"
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

/* ---- input
 * --------------------------------------------------------------------------------------- */

static int unknown_source(const et_table_set *dataset, const char *name, et_error *error)
{
    et_strbuf names = ET_STRBUF_INIT;
    for (int i = 0; i < et_table_set_count(dataset); i++)
        et_strbuf_printf(&names, "%s%s", i ? ", " : "",
                         et_table_columns_name(et_table_set_at(dataset, i)));
    et_fail(error, ET_ECONFIG, "the dataset has no source \"%s\"; it has %s", name,
            names.length ? et_strbuf_text(&names) : "none");
    et_strbuf_release(&names);
    return ET_ECONFIG;
}

/* Batches of rows to predict: the encoder's fields without targets. */
static int prediction_layout(et_model_builder *self, const et_table_set *dataset, int64_t batch,
                             const et_layout **out, et_error *error)
{
    const et_encoder *encoder = et_table_set_encoder(dataset);
    const et_layout *from = et_encoder_layout(encoder);
    et_arena *arena = &self->inside->arena;
    et_layout *layout = et_arena_alloc(arena, sizeof *layout);
    et_layout_field *field = et_arena_array(arena, (size_t)from->fields, sizeof *field);
    *out = layout;
    if (!layout || !field)
        return et_alloc_failed(error, sizeof *layout, "a layout");
    *layout = *from;
    layout->field = field;
    layout->fields = 0;
    layout->capacity[0] = batch;
    for (int i = 0; i < et_encoder_fields(encoder); i++) {
        if (et_encoder_field(encoder, i)->kind < ET_ENCODED_CLASS)
            field[layout->fields++] = from->field[i];
    }
    return ET_OK;
}

int et_builder_default_input(et_model_builder *self, et_table_set *dataset, const char *source,
                             int64_t batch, int64_t epochs, bool shuffle, et_builder_input *out,
                             et_error *error)
{
    if (!source)
        return prediction_layout(self, dataset, batch, &out->layout, error);
    const et_table_columns *from = et_table_set_columns(dataset, source);
    const et_read_options options = {
        .batch = batch, .shuffle = shuffle, .epochs = epochs, .seed = (uint64_t)self->args->seed
    };
    if (!from)
        return unknown_source(dataset, source, error);
    int status = et_table_columns_read(&out->source, from, &options, error);
    if (!status)
        out->layout = &out->source->layout;
    return status;
}

/* ---- classification
 * ------------------------------------------------------------------------------ */

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

/* The likeliest label of scores is that of logits. */
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

/* ---- feed forward
 * -------------------------------------------------------------------------------- */

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
    const char **layers = et_arena_array(self->arena, units->count + 1, sizeof *layers);
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
        return et_alloc_failed(error, units->count * sizeof *layers, "layers");
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
