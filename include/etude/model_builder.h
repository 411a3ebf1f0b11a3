/* Model builders (TensorFX's ModelBuilder). A builder describes a model in parts; a class may
 * override each part alone. The defaults combine the parts into graphs for training, evaluation and
 * prediction.
 *
 *     static void infer(et_model_builder *self, et_scope *s, const et_nodes *inputs, bool training,
 *                       et_nodes *inferences)
 *     {
 *         et_node *h = et_relu(et_dense(et_in(s, "hidden"), et_nodes_need(s, inputs, "X"), 20));
 *         et_nodes_put(inferences, "logits", et_dense(et_in(s, "logits"), h, 3));
 *     }
 *     static const et_model_builder_class iris = {
 *         .name = "iris", .base = &et_classification_builder, .build_inference = infer
 *     };
 *
 *     if (et_model_builder_init(&builder, &iris, arguments, dataset, &error)) ...
 *     for (int i = 0; i < et_model_builder_labels(&builder); i++)
 *         printf("%s: %s\n", et_model_builder_target(&builder),
 *                et_model_builder_label(&builder, i));
 *     if (et_model_builder_build_training_graph(&builder, dataset, &graph, &error)) ...
 *     printf("%d parameters\n", et_params_count(et_model_builder_params(&builder)));
 *     et_graph_interface_close(graph);
 *     if (et_model_trainer_train(trainer, &builder, &job, &predictor, &error)) ...
 *     et_model_builder_release(&builder);
 *
 * A NULL method is inherited from base, at last from et_model_builder_base. There inference,
 * training, output and evaluation are abstract and fail with ET_EUSAGE. A trainer (model_trainer.h)
 * runs the graphs as a task; a builder does not train. Use from one thread. */
#ifndef ETUDE_MODEL_BUILDER_H
#define ETUDE_MODEL_BUILDER_H

#include <etude/arguments.h>
#include <etude/job_config.h>
#include <etude/table_set.h>
#include <etude/task.h>

typedef struct et_model_builder et_model_builder;
typedef struct et_graph_interface et_graph_interface;

/* Result of build_input: batches with the features by name. */
typedef struct et_builder_input {
    et_source *source;       /* owned by the graph; NULL: prediction, of given rows */
    const et_layout *layout; /* its fields are the features */
} et_builder_input;

/* Result of build_training: the loss and the optimizer. */
typedef struct et_builder_training {
    et_node *loss;                /* over rows; add further losses with et_loss */
    et_optimizer_setup optimizer; /* the optimizer that minimizes the loss */
} et_builder_training;

/* Result of build_evaluation: a metric, total / weight over all batches. */
typedef struct et_builder_evaluation {
    const char *metric; /* its name in logs, "accuracy"; static */
    et_node *total, *weight;
    bool lower_is_better;
} et_builder_evaluation;

/* Result of build_init. Members NULL: only initial values are drawn. */
typedef struct et_builder_init {
    int (*init)(et_model_builder *self, et_params *params, et_error *error); /* a job begins */
    /* Called when weights of a trained model were loaded. */
    int (*local_init)(et_model_builder *self, et_params *params, et_error *error);
} et_builder_init;

/* A graph, with the values and names that trainers and programs need. */
struct et_graph_interface {
    const char *name; /* "training", "evaluation", "prediction" */
    et_model_builder *builder;
    et_pass *graph;                   /* over the builder's store; et_pass_output returns outputs */
    et_build_fn *build;               /* adds the nodes; its payload is the interface */
    et_builder_input input;           /* its batches */
    const int64_t *global_steps;      /* updates done so far */
    et_builder_init init;             /* from build_init */
    et_optimizer_setup train_op;      /* training: from build_training */
    const char *loss;                 /* training, evaluation: name of the loss's measure */
    const char *metric;               /* evaluation: name of the metric's measure */
    bool lower_is_better;             /* of the metric */
    int output_count;                 /* evaluation, prediction */
    const char *output[ET_NODES_MAX]; /* [output_count] names of build_output's nodes:
                                         et_pass_output(graph, "output/<name>") */
};

typedef struct et_graph_interfaces {
    et_graph_interface *training, *evaluation, *prediction; /* evaluation NULL: no source "eval" */
} et_graph_interfaces;

typedef struct et_model_builder_class {
    const char *name;                          /* saved with the trained model */
    const struct et_model_builder_class *base; /* NULL: et_model_builder_base */
    const et_arguments_class *arguments;       /* required class of args; NULL: the base's */
    size_t size; /* of the struct, which begins with an et_model_builder; 0: the base's. A predictor
                    makes one; all other members are zero */
    int (*init)(et_model_builder *self, et_error *error); /* fills in the struct, after the base's
                                                             init. Optional */

    /* ---- whole graphs; dataset NULL: the builder's ---- */
    int (*build_graph_interfaces)(et_model_builder *self, const et_job_config *config,
                                  et_graph_interfaces *out, et_error *error);
    int (*build_training_graph)(et_model_builder *self, et_table_set *dataset,
                                et_graph_interface **out, et_error *error);
    int (*build_evaluation_graph)(et_model_builder *self, et_table_set *dataset,
                                  et_graph_interface **out, et_error *error);
    int (*build_prediction_graph)(et_model_builder *self, et_table_set *dataset,
                                  et_graph_interface **out, et_error *error);
    /* ---- parts ---- */
    void (*build_init)(et_model_builder *self, et_builder_init *out);
    /* source: "train" or "eval" of the dataset; NULL: prediction. epochs 0: no end. */
    int (*build_input)(et_model_builder *self, et_table_set *dataset, const char *source,
                       int64_t batch, int64_t epochs, bool shuffle, et_builder_input *out,
                       et_error *error);
    /* These add nodes. inputs: the first ET_NODES_MAX features; get others with et_batch_input. */
    void (*build_inference)(et_model_builder *self, et_scope *scope, const et_nodes *inputs,
                            bool training, et_nodes *inferences);
    void (*build_training)(et_model_builder *self, et_scope *scope, const int64_t *global_steps,
                           const et_nodes *inputs, const et_nodes *inferences,
                           et_builder_training *out);
    void (*build_output)(et_model_builder *self, et_scope *scope, const et_nodes *inputs,
                         const et_nodes *inferences, et_nodes *outputs);
    void (*build_evaluation)(et_model_builder *self, et_scope *scope, const et_nodes *inputs,
                             const et_nodes *outputs, et_builder_evaluation *out);
} et_model_builder_class;

struct et_model_builder {
    const et_model_builder_class *ET_CLASS;
    const et_arguments *args;                     /* borrowed */
    et_table_set *dataset;                        /* borrowed; NULL: give each graph a dataset */
    struct et_model_builder_internals *internals; /* internal */
};

ET_DATA const et_model_builder_class et_model_builder_base;

/* ---- ready builders ---- */

/* Classification of the dataset's first target from inferences "logits": cross-entropy, gradient
 * descent, outputs "label" and "scores", metric "accuracy". Such a class must give
 * build_inference. */
ET_DATA const et_model_builder_class et_classification_builder;
/* The same with dense layers with relu on all features except targets and keys (TensorFX's
 * FeedForwardClassification, which uses only feature "X"). */
ET_DATA const et_model_builder_class et_feed_forward_builder;

typedef struct et_feed_forward_arguments {
    et_arguments base;
    double learning_rate;          /* default 0.01 */
    et_integer_list hidden_layers; /* units of each; --hidden-layers:1 20 */
    et_strings layers;             /* set by process: "20", ... */
} et_feed_forward_arguments;
ET_DATA const et_arguments_class et_feed_forward_arguments_class;

/* ---- a builder ---- */

/* ET_EUSAGE: args is NULL or not of the class's kind. dataset NULL: give each graph a dataset. */
ET_API int et_model_builder_init(et_model_builder *builder, const et_model_builder_class *kind,
                                 const et_arguments *args, et_table_set *dataset, et_error *error);
/* Frees the device, the store and all open graphs of the builder. */
ET_API void et_model_builder_release(et_model_builder *builder);

ET_API const et_arguments *et_model_builder_args(const et_model_builder *builder);
ET_API et_table_set *et_model_builder_dataset(const et_model_builder *builder);
/* The store of the parameters; made at the first call. NULL: no memory. */
ET_API et_params *et_model_builder_params(et_model_builder *builder);

/* The first target of the dataset: the feature's name, the number of labels, a label. NULL and 0:
 * no dataset, no target, or a number. */
ET_API const char *et_model_builder_target(const et_model_builder *builder);
ET_API int et_model_builder_labels(const et_model_builder *builder);
ET_API const char *et_model_builder_label(const et_model_builder *builder, int index);

/* Calls the methods of the builder's class. Close the graphs. */
ET_API int et_model_builder_build_graph_interfaces(et_model_builder *builder,
                                                   const et_job_config *config,
                                                   et_graph_interfaces *out, et_error *error);
ET_API int et_model_builder_build_training_graph(et_model_builder *builder, et_table_set *dataset,
                                                 et_graph_interface **out, et_error *error);
ET_API int et_model_builder_build_evaluation_graph(et_model_builder *builder, et_table_set *dataset,
                                                   et_graph_interface **out, et_error *error);
ET_API int et_model_builder_build_prediction_graph(et_model_builder *builder, et_table_set *dataset,
                                                   et_graph_interface **out, et_error *error);
ET_API void et_graph_interface_close(et_graph_interface *graph); /* NULL allowed */

ET_API void et_model_builder_build_init(et_model_builder *builder, et_builder_init *out);
/* ET_EUSAGE: there is no dataset, or batch is below 1. The caller closes the source. */
ET_API int et_model_builder_build_input(et_model_builder *builder, et_table_set *dataset,
                                        const char *source, int64_t batch, int64_t epochs,
                                        bool shuffle, et_builder_input *out, et_error *error);
ET_API void et_model_builder_build_inference(et_model_builder *builder, et_scope *scope,
                                             const et_nodes *inputs, bool training,
                                             et_nodes *inferences);
ET_API void et_model_builder_build_training(et_model_builder *builder, et_scope *scope,
                                            const int64_t *global_steps, const et_nodes *inputs,
                                            const et_nodes *inferences, et_builder_training *out);
ET_API void et_model_builder_build_output(et_model_builder *builder, et_scope *scope,
                                          const et_nodes *inputs, const et_nodes *inferences,
                                          et_nodes *outputs);
ET_API void et_model_builder_build_evaluation(et_model_builder *builder, et_scope *scope,
                                              const et_nodes *inputs, const et_nodes *outputs,
                                              et_builder_evaluation *out);

#endif
