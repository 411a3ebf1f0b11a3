/* Tasks: a model and its data. A task gives the model and its losses as a graph, and sources of
 * batches. The task trainer (task_trainer.h) has everything else: passes, optimizer, steps,
 * metrics, evaluation.
 *
 *     typedef struct digits { et_task task; ... } digits;
 *     static void digits_build(et_task *t, et_scope *s, bool training) { ... }
 *     static int digits_data(et_task *t, bool training, et_source **out, et_error *error) { ... }
 *     static const et_task_class digits_class = {
 *         .name = "digits", .build = digits_build, .data = digits_data,
 *     };
 *
 * The other methods are those of Model Garden's Task. A NULL method is the default, which
 * et_task_defaults contains. An override may call the default:
 * et_task_defaults.validation_step(self, now, logs, error). build_model, build_losses and build add
 * nodes, once per graph. The other methods work on results of a graph, and may fail. Order of
 * calls: data (training, then validation), build, build_metrics, create_optimizer, attach;
 * initialize if nothing was restored; then steps. One thread. */
#ifndef ETUDE_TASK_H
#define ETUDE_TASK_H

#include <etude/eval_shard.h>
#include <etude/task_step.h>
#include <etude/trainer.h>

typedef struct et_task et_task;
struct et_multitask;
struct et_multitask_request;

#define ET_NODES_MAX 16

/* Nodes by name: the outputs of a model, and its auxiliary losses. Names are not copied. */
typedef struct et_nodes {
    int count;
    const char *name[ET_NODES_MAX];
    et_node *node[ET_NODES_MAX];
} et_nodes;

/* put: more than ET_NODES_MAX nodes poison the graph. get: NULL if the name does not exist. need:
 * then returns poison, and et_pass_open lists the names. */
ET_API void et_nodes_put(et_nodes *nodes, const char *name, et_node *node);
ET_API et_node *et_nodes_get(const et_nodes *nodes, const char *name);
ET_API et_node *et_nodes_need(et_scope *scope, const et_nodes *nodes, const char *name);

/* Arguments for making an optimizer: Model Garden's optimizer_config and runtime_config. */
typedef struct et_optimizer_request {
    et_device *device;
    et_params *params;                                  /* materialized */
    const et_optimizer_setup *setup;                    /* NULL: use optimization */
    const struct et_optimization_options *optimization; /* the command's settings; if setup is NULL
                                                           too: the default optimizer */
    const et_group *group; /* parameters to update; NULL: all that are trained */
    bool bfloat16;         /* activations are bfloat16; the trainer has the loss scale */
    double loss_scale;     /* as in et_task_trainer_options */
} et_optimizer_request;

typedef struct et_task_class {
    const char *name;
    /* Adds the model, its losses and measures (pass.h); for validation with training false.
     * Measures are logged as "training_<name>" and "validation_<name>". NULL: build_model, then
     * build_losses. */
    void (*build)(et_task *self, et_scope *scope, bool training);
    /* Opens batches; the trainer closes them. Training data never end; validation data are one
     * pass. *out NULL: no such data. Also used for build_inputs without settings. */
    int (*data)(et_task *self, bool training, et_source **out, et_error *error);
    /* Opens data for given settings, and one pipeline's part of them. NULL: only the data of
     * `data`, undivided. */
    int (*build_inputs)(et_task *self, const et_data_config *params,
                        const et_input_context *input_context, et_source **out, et_error *error);
    /* Several named validation sets, instead of those of `data`: opens the set with this number,
     * from 0. All have one layout; the task owns name. *out NULL: no more sets. Logs have a dict
     * for each set by its name, so a best metric is "name/validation_loss". */
    int (*validation_set)(et_task *self, int number, const char **name, et_source **out,
                          et_error *error);
    void (*use_validation_set)(et_task *self, int number); /* the set that begins; optional */
    int (*attach)(et_task *self, et_state *state, et_error *error); /* what resumes; optional */
    /* Measures more than the losses of the validation data, which logs already contains, and adds
     * it to logs. ET_EINTERRUPTED: asked to stop, nothing was done. Optional. */
    int (*validate)(et_task *self, int64_t step, et_value *logs, et_error *error);
    /* By default this validation value chooses the best checkpoint: the highest, or of a loss or an
     * error, by its name, the lowest. */
    const char *best_metric;
    /* Validation values to show during training, most important first, ended by NULL; the command
     * shows two, the best checkpoint's first. NULL: best_metric and "validation_loss". */
    const char *const *main_metrics;
    const char *loss; /* the key of the loss in a step's logs; NULL: "loss" */
    /* Adds the model. outputs: for build_losses. aux_losses: the model's own losses, such as
     * penalties on weights. May call et_measure and et_output. */
    void (*build_model)(et_task *self, et_scope *scope, bool training, et_nodes *outputs,
                        et_nodes *aux_losses);
    /* Calls et_loss. labels NULL: use et_batch_input(scope, "..."), fields of the batch. Default:
     * adds the aux losses with weight 1, by et_penalty for a scalar, else by et_loss. An override
     * must add them itself. */
    void (*build_losses)(et_task *self, et_scope *scope, const et_nodes *labels,
                         const et_nodes *outputs, const et_nodes *aux_losses);
    /* Defines metrics besides the model's measures, logged by their names. Called for validation,
     * training and the current step, so it must not keep `metrics`. Default: none. */
    int (*build_metrics)(et_task *self, bool training, et_metrics *metrics, et_error *error);
    /* Called before each step. *again: the model has changed, so the trainer builds the training
     * graph again; then updates change only *updates (borrowed; NULL: all). Optional. */
    int (*remake)(et_task *self, bool *again, const et_group **updates, et_error *error);
    int (*create_optimizer)(et_task *self, const et_optimizer_request *request, et_optimizer **out,
                            et_error *error);
    /* After initial values were drawn, if no checkpoint is restored. Default: loads the weights of
     * self->init_checkpoint, if set (et_checkpoint_initialize). */
    int (*initialize)(et_task *self, et_params *params, et_error *error);
    /* Adds a batch to now->metrics. Default: adds to each metric a sample for every row of
     * now->outputs (with several columns, the index of the largest) and now->labels; rows with a
     * label below 0 are ignored. */
    int (*process_metrics)(et_task *self, const et_task_step *now, et_error *error);
    /* The same for now->compiled_metrics. Default: with labels and outputs, as process_metrics.
     * Otherwise a metric with the name of a measure of the model's last run (et_loss, et_measure)
     * gets the measure's total and weight: et_metric_ratio. */
    int (*process_compiled_metrics)(et_task *self, const et_task_step *now, et_error *error);
    /* One update; puts the loss into logs (NULL: not wanted) under its key. Default: all batches of
     * the update (in a program's own step one, now->inputs), forward, backward and the optimizer,
     * then both metrics. An override gets one batch per update and calls these parts itself;
     * training_loss is then the mean of its logged losses. Each rank gets the whole batch; use
     * shards.h to divide it. */
    int (*train_step)(et_task *self, const et_task_step *now, et_value *logs, et_error *error);
    /* Default: inference_step, the loss to logs, both metrics, and validation_outputs if logs are
     * wanted. If an override logs no loss, there is no validation_loss. */
    int (*validation_step)(et_task *self, const et_task_step *now, et_value *logs, et_error *error);
    /* Adds values for aggregate_logs to a validation step's logs, besides the loss. Optional. The
     * trainer's own evaluation uses validate and kept rows instead, if there are any. */
    int (*validation_outputs)(et_task *self, const et_task_step *now, et_value *logs,
                              et_error *error);
    /* Default: runs the model on the inputs; read results with et_pass_output(now->model, "...").
     * Other results, such as those of a search, go to the dict outputs (NULL: not wanted). */
    int (*inference_step)(et_task *self, const et_task_step *now, et_value *outputs,
                          et_error *error);
    /* Adds the logs of a validation step to state, a dict that is empty at first. Default: nothing,
     * and steps make no such logs. */
    int (*aggregate_logs)(et_task *self, et_value *state, const et_value *step_outputs,
                          et_error *error);
    /* Computes results from the state after the last step, unless it is empty. Default: nothing. */
    int (*reduce_aggregated_logs)(et_task *self, const et_value *aggregated_logs,
                                  int64_t global_step, et_value *results, et_error *error);
    /* Ranks share the batches of a validation (<etude/comm.h>). Returns array `number`, from 0
     * (false: none), of data that the task keeps in addition to metrics and logs. It is zero when a
     * set begins, filled by process_metrics or validation_step, and complete on all ranks when
     * validate is called. If kept is NULL and the task overrides one of these methods,
     * inference_step or process_compiled_metrics, rank 0 validates alone. */
    bool (*kept)(et_task *self, int number, et_kept_rows *rows);
    /* Lines about plainly bad results of the last (or best) validation, each with a remedy; "":
     * none. Valid until the next call. Optional. */
    const char *(*verdict)(et_task *self, bool best);
    /* internal, for a task made of other tasks: opens the trainer of these. NULL. */
    int (*open_multitask)(et_task *self, const struct et_multitask_request *request,
                          struct et_multitask **out, et_error *error);
} et_task_class;

/* Most validation sets of a task. */
#define ET_VALIDATION_SETS_MAX 16

struct et_task {
    const et_task_class *ET_CLASS;
    const char *name;              /* NULL: the class's */
    const char *logging_dir;       /* for the task's files; NULL: the current directory */
    const void *task_config;       /* the task's settings, as given */
    const char *init_checkpoint;   /* NULL: none; see et_checkpoint_initialize */
    const char *init_pattern;      /* regular expression of the names to load; NULL: all */
    struct et_task_opened *opened; /* internal, of et_task_open; NULL */
};

/* The defaults of all methods except data, attach and validate, which have none. */
ET_DATA const et_task_class et_task_defaults;

/* Each function calls the task's method, or its default. */
ET_API void et_task_build_model(et_task *task, et_scope *scope, bool training, et_nodes *outputs,
                                et_nodes *aux_losses);
ET_API void et_task_build_losses(et_task *task, et_scope *scope, const et_nodes *labels,
                                 const et_nodes *outputs, const et_nodes *aux_losses);
/* The caller closes *out, before the task. *out NULL: no such data. params NULL: validation data.
 * input_context NULL: one pipeline. ET_ECONFIG: settings or a part that the task does not support,
 * or the task has no data. */
ET_API int et_task_build_inputs(et_task *task, const et_data_config *params,
                                const et_input_context *input_context, et_source **out,
                                et_error *error);
ET_API int et_task_build_metrics(et_task *task, bool training, et_metrics *metrics,
                                 et_error *error);
ET_API int et_task_create_optimizer(et_task *task, const et_optimizer_request *request,
                                    et_optimizer **out, et_error *error);
ET_API int et_task_initialize(et_task *task, et_params *params, et_error *error);
ET_API int et_task_process_metrics(et_task *task, const et_task_step *now, et_error *error);
ET_API int et_task_process_compiled_metrics(et_task *task, const et_task_step *now,
                                            et_error *error);
ET_API int et_task_train_step(et_task *task, const et_task_step *now, et_value *logs,
                              et_error *error);
ET_API int et_task_validation_step(et_task *task, const et_task_step *now, et_value *logs,
                                   et_error *error);
ET_API int et_task_inference_step(et_task *task, const et_task_step *now, et_value *outputs,
                                  et_error *error);
ET_API int et_task_aggregate_logs(et_task *task, et_value *state, const et_value *step_outputs,
                                  et_error *error);
ET_API int et_task_reduce_aggregated_logs(et_task *task, const et_value *aggregated_logs,
                                          int64_t global_step, et_value *results, et_error *error);
ET_API const char *et_task_loss(const et_task *task); /* its key */
ET_API const char *et_task_name(const et_task *task);

#endif
