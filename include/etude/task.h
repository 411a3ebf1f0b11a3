/* Tasks: what is learnt, from what. A task gives the model and its losses as a graph, and sources
 * of batches; everything else (passes, optimizer, steps, metrics, evaluation) is the task
 * trainer's (task_trainer.h).
 *
 *     typedef struct digits { et_task task; ... } digits;
 *     static void digits_build(et_task *t, et_scope *s, bool training) { ... }
 *     static int digits_data(et_task *t, bool training, et_source **out, et_error *error) { ... }
 *     static const et_task_class digits_class = {
 *         .name = "digits", .build = digits_build, .data = digits_data,
 *     };
 *
 * The other methods are those of Model Garden's Task. NULL is the default, which
 * et_task_defaults has, for an override that does more than it:
 * et_task_defaults.validation_step(self, now, logs, error). build_model, build_losses and build add
 * nodes, once per graph; the rest works on what a graph has computed, and may fail. Order of calls:
 * data (training, then validation), build, build_metrics, create_optimizer, attach; initialize
 * where nothing was restored; then steps. One thread. */
#ifndef ETUDE_TASK_H
#define ETUDE_TASK_H

#include <etude/share.h>
#include <etude/task_step.h>
#include <etude/trainer.h>

typedef struct et_task et_task;
struct et_learner;
struct et_learner_request;

#define ET_NODES_MAX 16

/* Nodes by name: what a model gives, and its losses beside the task's. Names are not copied. */
typedef struct et_nodes {
    int count;
    const char *name[ET_NODES_MAX];
    et_node *node[ET_NODES_MAX];
} et_nodes;

/* Poison of the node's graph, if there are ET_NODES_MAX; NULL: no such name. */
ET_API void et_nodes_put(et_nodes *nodes, const char *name, et_node *node);
ET_API et_node *et_nodes_get(const et_nodes *nodes, const char *name);
/* Poison where there is none of that name: et_pass_open says which there are. */
ET_API et_node *et_nodes_need(et_scope *scope, const et_nodes *nodes, const char *name);

/* What an optimizer is made for: Model Garden's optimizer_config and runtime_config. */
typedef struct et_optimizer_request {
    et_device *device;
    et_params *params;                                  /* materialized */
    const et_optimizer_setup *setup;                    /* NULL: by optimization */
    const struct et_optimization_options *optimization; /* the command's settings; NULL with setup
                                                           NULL: the default optimizer */
    bool bfloat16;     /* activations; the loss scale is the trainer's, not the optimizer's */
    double loss_scale; /* as in et_task_trainer_options */
} et_optimizer_request;

typedef struct et_task_class {
    const char *name;
    /* Adds the model, its losses and measures (pass.h). Also for validation, with training false:
     * measures are logged as "training_<name>" and "validation_<name>". NULL: build_model, then
     * build_losses. */
    void (*build)(et_task *self, et_scope *scope, bool training);
    /* Opens batches, which the trainer closes. Of training they never end; of validation one pass.
     * *out NULL: there is no such data. What build_inputs opens where no settings are given. */
    int (*data)(et_task *self, bool training, et_source **out, et_error *error);
    /* Opens data by settings, and one pipeline's part of them. NULL: those of data alone, whole. */
    int (*build_inputs)(et_task *self, const et_data_config *params,
                        const et_input_context *input_context, et_source **out, et_error *error);
    /* Validation data of several names, in place of data's: opens those of a number from 0 on,
     * batches of one layout; name stays the task's. *out NULL: there are no more. They are
     * evaluated one after the other, and logs have a dict for each by its name, so that a best
     * metric is "name/validation_loss". */
    int (*validation_set)(et_task *self, int number, const char **name, et_source **out,
                          et_error *error);
    void (*use_validation_set)(et_task *self, int number); /* which one begins; or NULL */
    /* Hangs what more resumes on the tree. Optional. */
    int (*attach)(et_task *self, et_state *state, et_error *error);
    /* What is measured beside the losses of the validation data, which logs holds already: adds to
     * logs. ET_EINTERRUPTED: asked to stop, nothing was done. Optional. */
    int (*validate)(et_task *self, int64_t step, et_value *logs, et_error *error);
    /* Which value of validation says what checkpoint is best (higher is better), where the settings
     * do not. NULL: none does. */
    const char *best_metric;
    /* Values of validation that people see while it trains, the most telling first, ended by NULL.
     * The command's table shows two of them: what the best is chosen by comes first. NULL:
     * best_metric and "validation_loss". */
    const char *const *main_metrics;

    const char *loss; /* the key of the loss in a step's logs; NULL: "loss" */
    /* Adds the model; outputs: what build_losses is given; aux_losses: losses of its own, as
     * weights' penalties. It may call et_measure and et_output. */
    void (*build_model)(et_task *self, et_scope *scope, bool training, et_nodes *outputs,
                        et_nodes *aux_losses);
    /* Calls et_loss; labels NULL: et_batch_input(scope, "..."), fields of the batch. Default: the
     * aux losses with weight 1, a scalar by et_penalty, another by et_loss. An override that wants
     * them adds them itself. */
    void (*build_losses)(et_task *self, et_scope *scope, const et_nodes *labels,
                         const et_nodes *outputs, const et_nodes *aux_losses);
    /* Defines metrics beside the model's own measures, logged by their names. Called once for each
     * set of them: validation's, then training's and those of the step under way, so it keeps
     * nothing of `metrics`. Default: none. */
    int (*build_metrics)(et_task *self, bool training, et_metrics *metrics, et_error *error);
    int (*create_optimizer)(et_task *self, const et_optimizer_request *request, et_optimizer **out,
                            et_error *error);
    /* After initial values were drawn, where there is no checkpoint to resume from. Default:
     * weights of self->init_checkpoint, if that is set (et_checkpoint_initialize). */
    int (*initialize)(et_task *self, et_params *params, et_error *error);
    /* Adds a batch to now->metrics. Default: to each a sample for every row of now->outputs (of
     * several columns the place of the largest) and now->labels; labels below 0 do not count. */
    int (*process_metrics)(et_task *self, const et_task_step *now, et_error *error);
    /* The same to now->compiled_metrics. Default: with labels and outputs as process_metrics; else
     * to each that has the name of a measure of the model's last run (et_loss, et_measure) that
     * measure, a total and its weight: et_metric_ratio. */
    int (*process_compiled_metrics)(et_task *self, const et_task_step *now, et_error *error);
    /* One update; logs has the loss, under its key. logs NULL: nobody looks. Default: all batches
     * of the update (of a program's own step one, now->inputs), forward, backward and the
     * optimizer, then both metrics. An override has one
     * batch an update and calls what it needs of these itself; training_loss is then the mean over
     * steps of what it logs. Of several ranks each has the whole batch: shards.h shares it out. */
    int (*train_step)(et_task *self, const et_task_step *now, et_value *logs, et_error *error);
    /* Default: inference_step, the loss to logs, both metrics, validation_outputs where logs are
     * looked at. An override that logs no loss gives no validation_loss. */
    int (*validation_step)(et_task *self, const et_task_step *now, et_value *logs, et_error *error);
    /* Adds to a validation step's logs what aggregate_logs takes, beside the loss. Optional. With
     * validate and rows that are kept the trainer's own evaluation is of those. */
    int (*validation_outputs)(et_task *self, const et_task_step *now, et_value *logs,
                              et_error *error);
    /* Default: runs the model on the inputs; what it gave is et_pass_output(now->model, "...").
     * What is found otherwise, as by a search, goes to outputs, a dict (NULL: nobody looks). */
    int (*inference_step)(et_task *self, const et_task_step *now, et_value *outputs,
                          et_error *error);
    /* Adds what a validation step logged to state, a dict that is empty at first. Default: nothing,
     * and no step's logs are made for it. */
    int (*aggregate_logs)(et_task *self, et_value *state, const et_value *step_outputs,
                          et_error *error);
    /* What follows from the state after the last step, to results; not called where the state is
     * empty. Default: nothing. */
    int (*reduce_aggregated_logs)(et_task *self, const et_value *aggregated_logs,
                                  int64_t global_step, et_value *results, et_error *error);
    /* Ranks share the batches of a validation (<etude/comm.h>). What a task keeps of them beside
     * metrics and logs, its array `number` from 0 on (false: there is none): zeros when a set
     * begins, filled by process_metrics or validation_step, and whole on all ranks when validate is
     * called, by each of them. NULL, and one of these methods (also inference_step,
     * process_compiled_metrics) is the task's own: nobody knows, so rank 0 validates alone. */
    bool (*kept)(et_task *self, int number, et_kept_rows *rows);
    /* The library's own, of a task that is made of others: what the command drives in place of a
     * task trainer. NULL. */
    int (*open_learner)(et_task *self, const struct et_learner_request *request,
                        struct et_learner **out, et_error *error);
} et_task_class;

/* Sets of validation data that a task may have. */
#define ET_VALIDATION_SETS_MAX 16

struct et_task {
    const et_task_class *ET_CLASS;
    const char *name;            /* NULL: the class's */
    const char *logging_dir;     /* for files of its own; NULL: the current directory */
    const void *task_config;     /* its settings, as given */
    const char *init_checkpoint; /* NULL: none; see et_checkpoint_initialize */
    const char *init_pattern;    /* expression of the names that it gives; NULL: all */
};

/* All methods' defaults but data, attach and validate, which have none. */
ET_DATA const et_task_class et_task_defaults;

/* Each calls the task's method, or its default. */
ET_API void et_task_build_model(et_task *task, et_scope *scope, bool training, et_nodes *outputs,
                                et_nodes *aux_losses);
ET_API void et_task_build_losses(et_task *task, et_scope *scope, const et_nodes *labels,
                                 const et_nodes *outputs, const et_nodes *aux_losses);
/* The caller closes *out, before the task; NULL: there is no such data. params NULL: validation's.
 * input_context NULL: one pipeline. ET_ECONFIG: settings, or a part, that the task has not; it has
 * no data. */
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
ET_API const char *et_task_loss(const et_task *task); /* the key */
ET_API const char *et_task_name(const et_task *task);

#endif
