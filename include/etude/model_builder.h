/* Model builders: TensorFX's ModelBuilder. A builder says in parts what a model is, each part a
 * method that may be overridden alone; the defaults put the parts together to three graphs, for
 * training, evaluation and prediction.
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
 * What a class leaves NULL is its base's, and in the end et_model_builder_base's, whose four
 * abstract methods (inference, training, output, evaluation) fail with ET_EUSAGE. A trainer
 * (model_trainer.h) runs the graphs as a task; nothing of training is done here. One thread. */
#ifndef ETUDE_MODEL_BUILDER_H
#define ETUDE_MODEL_BUILDER_H

#include <etude/arguments.h>
#include <etude/dataset.h>
#include <etude/job_config.h>
#include <etude/task.h>

typedef struct et_model_builder et_model_builder;
typedef struct et_graph_interface et_graph_interface;

/* What build_input gives: batches, and the features in them by name. */
typedef struct et_builder_input {
    et_source *source;       /* owned by the graph; NULL: prediction, where rows are handed in */
    const et_layout *layout; /* its fields are the features */
} et_builder_input;

/* What build_training gives: the loss and the operation that follows it. */
typedef struct et_builder_training {
    et_node *loss;                /* over rows; further losses are added by et_loss */
    et_optimizer_setup optimizer; /* how parameters follow it */
} et_builder_training;

/* What build_evaluation gives: a metric, total / weight over all batches. */
typedef struct et_builder_evaluation {
    const char *metric; /* its name in logs, "accuracy"; static */
    et_node *total, *weight;
    bool lower_is_better;
} et_builder_evaluation;

/* What build_init gives; members NULL: nothing more than initial values are drawn. */
typedef struct et_builder_init {
    int (*init)(et_model_builder *self, et_params *params, et_error *error); /* a job begins */
    /* Weights of a trained model were loaded. */
    int (*local_init)(et_model_builder *self, et_params *params, et_error *error);
} et_builder_init;

/* A graph and what a trainer or a program refers to in it. */
struct et_graph_interface {
    const char *name; /* "training", "evaluation", "prediction" */
    et_model_builder *builder;
    et_pass *graph;                   /* over the builder's store; et_pass_output gives outputs */
    et_build_fn *build;               /* what added its nodes, called with the interface */
    et_builder_input input;           /* what it reads */
    const int64_t *global_steps;      /* updates done so far */
    et_builder_init init;             /* of build_init */
    et_optimizer_setup train_op;      /* training: of build_training */
    const char *loss;                 /* training, evaluation: its measure */
    const char *metric;               /* evaluation: its measure */
    bool lower_is_better;             /* of the metric */
    int output_count;                 /* evaluation, prediction */
    const char *output[ET_NODES_MAX]; /* [output_count] names of build_output's nodes:
                                         et_pass_output(graph, "output/<name>") */
};

typedef struct et_graph_interfaces {
    et_graph_interface *training, *evaluation, *prediction; /* evaluation NULL: no source "eval" */
} et_graph_interfaces;

typedef struct et_model_builder_class {
    const char *name;                          /* kept beside what is trained */
    const struct et_model_builder_class *base; /* NULL: et_model_builder_base */
    const et_arguments_class *arguments;       /* that args must be of; NULL: the base's */
    size_t size; /* of its struct, which begins with an et_model_builder; 0: the base's. A predictor
                    makes one, all zero behind that */
    int (*init)(et_model_builder *self, et_error *error); /* fills it in, at et_model_builder_init;
                                                             the base's before. Optional */

    /* ---- whole graphs; dataset NULL: the builder's ---- */
    int (*build_graph_interfaces)(et_model_builder *self, const et_job_config *config,
                                  et_graph_interfaces *out, et_error *error);
    int (*build_training_graph)(et_model_builder *self, et_data_set *dataset,
                                et_graph_interface **out, et_error *error);
    int (*build_evaluation_graph)(et_model_builder *self, et_data_set *dataset,
                                  et_graph_interface **out, et_error *error);
    int (*build_prediction_graph)(et_model_builder *self, et_data_set *dataset,
                                  et_graph_interface **out, et_error *error);
    /* ---- parts ---- */
    void (*build_init)(et_model_builder *self, et_builder_init *out);
    /* source: the dataset's "train" or "eval"; NULL: prediction. epochs 0: without end. */
    int (*build_input)(et_model_builder *self, et_data_set *dataset, const char *source,
                       int64_t batch, int64_t epochs, bool shuffle, et_builder_input *out,
                       et_error *error);
    /* These add nodes. inputs: the first ET_NODES_MAX features; others are et_batch_input's. */
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
    const et_arguments *args;               /* borrowed */
    et_data_set *dataset;                   /* borrowed; NULL: each graph is given one */
    struct et_model_builder_inside *inside; /* the library's own */
};

ET_DATA const et_model_builder_class et_model_builder_base;

/* ---- ready builders ---- */

/* Classification of the dataset's first target, inferences "logits": cross-entropy and gradient
 * descent, outputs "label" and "scores", metric "accuracy". Inference is left to who bases on it.
 */
ET_DATA const et_model_builder_class et_classification_builder;
/* And all of it: TensorFX's FeedForwardClassification. Dense layers with relu on all features but
 * targets and keys; there on feature "X" alone. */
ET_DATA const et_model_builder_class et_feed_forward_builder;

typedef struct et_feed_forward_arguments {
    et_arguments base;
    double learning_rate;          /* 0.01 */
    et_integer_list hidden_layers; /* units of each; --hidden-layers:1 20 */
    et_strings layers;             /* made by process: "20", ... */
} et_feed_forward_arguments;
ET_DATA const et_arguments_class et_feed_forward_arguments_class;

/* ---- a builder ---- */

/* ET_EUSAGE: args is NULL or not of the class's kind. dataset NULL: graphs are given one. */
ET_API int et_model_builder_init(et_model_builder *builder, const et_model_builder_class *kind,
                                 const et_arguments *args, et_data_set *dataset, et_error *error);
/* Closes what it has opened: device, store and the graphs that were not closed. */
ET_API void et_model_builder_release(et_model_builder *builder);

ET_API const et_arguments *et_model_builder_args(const et_model_builder *builder);
ET_API et_data_set *et_model_builder_dataset(const et_model_builder *builder);
/* The store that its graphs declare parameters into; made at the first call. NULL: none left. */
ET_API et_params *et_model_builder_params(et_model_builder *builder);

/* Of the first target of its dataset: the feature's name, how many labels it has, which. NULL and
 * 0: there is no dataset, or no target; it is numbers. */
ET_API const char *et_model_builder_target(const et_model_builder *builder);
ET_API int et_model_builder_labels(const et_model_builder *builder);
ET_API const char *et_model_builder_label(const et_model_builder *builder, int place);

/* The methods, of whichever class has them. Graphs are to be closed. */
ET_API int et_model_builder_build_graph_interfaces(et_model_builder *builder,
                                                   const et_job_config *config,
                                                   et_graph_interfaces *out, et_error *error);
ET_API int et_model_builder_build_training_graph(et_model_builder *builder, et_data_set *dataset,
                                                 et_graph_interface **out, et_error *error);
ET_API int et_model_builder_build_evaluation_graph(et_model_builder *builder, et_data_set *dataset,
                                                   et_graph_interface **out, et_error *error);
ET_API int et_model_builder_build_prediction_graph(et_model_builder *builder, et_data_set *dataset,
                                                   et_graph_interface **out, et_error *error);
ET_API void et_graph_interface_close(et_graph_interface *graph); /* NULL allowed */

ET_API void et_model_builder_build_init(et_model_builder *builder, et_builder_init *out);
/* ET_EUSAGE: there is no dataset, a batch of none. The source is the caller's to close. */
ET_API int et_model_builder_build_input(et_model_builder *builder, et_data_set *dataset,
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
