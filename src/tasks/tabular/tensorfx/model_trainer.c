/* A job: the trainer of tasks and the controller run a builder's graphs.
 *
 *   graphs      the builder's three; their batches become the task trainer's
 *   run         OUTPUT: restored or begun
 *   job files   job.yaml, schema, metadata, features, builder: needed to read a checkpoint
 *   steps       up to max_steps, or for the given epochs
 *   model       exported next to the old one, then put in its place, then opened
 *
 * The model is exported at every end of a job, also if its last step had been saved before. */
#include <etude/model_trainer.h>

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <etude/controller.h>
#include <etude/log.h>
#include <etude/task_trainer.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/fields/fields.h"
#include "base/files/checksum.h"
#include "base/files/file.h"
#include "base/stages.h"
#include "base/values/json.h"
#include "data/table/table_set.h"
#include "formats/events/log_names.h"
#include "roles/cluster.h"
#include "roles/job_server.h"
#include "systems/orbit/controller.h"
#include "tasks/tabular/builders/builders.h"
#include "tasks/tabular/table_files.h"
#include "train/checkpoint/artifact/artifact.h"
#include "train/checkpoint/run_names.h"
#include "train/run/options.h"

#define PATIENCE                                                                                   \
    60.0        /* seconds of silence after which tasks of a cluster are lost to each other        \
                 */
#define INFO 20 /* TensorFX's number of the level that lines about a job have */

struct et_model_trainer {
    const et_job_config *config;
    et_job_config *own; /* the environment's; NULL: the caller's is used */
};

/* Everything of one training, in order of opening. */
typedef struct job {
    et_task task;     /* first: the task for the task trainer */
    et_action action; /* tells of evaluations */
    const et_training_job *given;
    et_model_builder *builder;
    const et_arguments *args;
    const et_job_config *config;
    const char *output;
    et_arena arena;
    et_graph_interfaces graphs;
    et_device *device;
    et_params *params;
    et_value *identity;
    et_task_trainer *trainer;
    et_job_server *server; /* NULL: a single node, and no cluster_options */
    et_cluster_options cluster_options;
    et_trainer *master; /* of a cluster, in place of the task trainer's */
    et_controller *controller;
    int64_t steps, eval_interval;
    volatile sig_atomic_t save; /* asks the controller to save a transient checkpoint */
    double began, saved;        /* seconds of the clock */
    int64_t instances;          /* of this process's steps, */
    double seconds;             /* and their time */
    int64_t computed;           /* of a worker: gradients computed */
    int64_t first;              /* the step that this process began at */
} job;

static job *job_of(et_task *task)
{
    return (job *)(void *)task;
}

/* ---- making ---- */

int et_model_trainer_new(et_model_trainer **out, const et_job_config *config, et_error *error)
{
    *out = NULL;
    et_model_trainer *trainer;
    int status = ET_ALLOC_ZERO(trainer, 1, "a trainer", error);
    if (!status && !config) {
        status = et_job_config_environment(&trainer->own, error);
        config = trainer->own;
    }
    if (status) {
        et_free(trainer);
        return status;
    }
    trainer->config = config;
    *out = trainer;
    return ET_OK;
}

void et_model_trainer_free(et_model_trainer *trainer)
{
    if (!trainer)
        return;
    et_job_config_free(trainer->own);
    et_free(trainer);
}

const et_job_config *et_model_trainer_config(const et_model_trainer *trainer)
{
    return trainer->config;
}

/* ---- lines ---- */

/* Tasks of a cluster may share a terminal, so each line begins with its task. */
static void tell(const job *j, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void tell(const job *j, const char *format, ...)
{
    const et_job_task *task = et_job_config_task(j->config);
    char text[1024];
    size_t length = 0;
    va_list arguments;
    if (j->args->log_threshold > INFO)
        return;
    if (j->server)
        length =
            (size_t)snprintf(text, sizeof text, "%s:%lld: ", task->type, (long long)task->index);
    va_start(arguments, format);
    vsnprintf(text + length, sizeof text - length, format, arguments);
    va_end(arguments);
    if (j->given->tell)
        j->given->tell(j->given->listener, text);
    else
        et_log(ET_LOG_INFO, "%s", text);
}

static void tell_line(void *self, const char *text)
{
    tell(self, "%s", text);
}

static double throughput(const job *j)
{
    return j->seconds > 0 ? (double)j->instances / j->seconds : 0;
}

static void tell_session(const job *j, int64_t done)
{
    tell(j, "Run: %.2f sec; Steps: %lld; Duration: %d sec; Throughput: %.1f instances/sec",
         done ? j->seconds / (double)done : 0, (long long)done,
         (int)(et_clock_monotonic() - j->began), throughput(j));
}

/* Called after each step of a worker, which counts only its own steps. */
static void computed(void *self, int64_t units, double seconds)
{
    job *j = self;
    j->instances += units;
    j->seconds += seconds;
    j->computed++;
    if (j->computed == 1 || j->computed % j->args->log_interval_steps == 0)
        tell_session(j, j->computed);
}

/* After every step: prints TensorFX's two lines at the first step and once an interval, and asks
 * for a checkpoint once checkpoint_interval_secs have passed. Duration counts all time of this
 * process, throughput only the time of steps. */
static void show(void *self, const et_showing *showing)
{
    job *j = self;
    double now = et_clock_monotonic();
    int64_t done = showing->step - j->first, every = j->args->log_interval_steps;
    j->instances += showing->units;
    j->seconds += showing->seconds;
    j->builder->internals->global_steps = showing->step;
    if (done == 1 || showing->step % every == 0)
        tell_session(j, done);
    if (showing->step % every == 0 || showing->step == j->steps)
        tell(j, "Global steps: %lld; Duration: %d sec; Throughput: %.1f instances/sec; Loss: %.3f",
             (long long)showing->step, (int)(now - j->began), throughput(j), showing->loss);
    int64_t interval = j->args->checkpoint_interval_secs;
    if (interval && (done == 1 || now - j->saved >= (double)interval)) {
        j->saved = now;
        j->save = 1;
    }
}

static job *job_of_action(const et_action *action)
{
    return (job *)(void *)((char *)action - offsetof(job, action));
}

static int64_t due(const et_action *self, int64_t step)
{
    int64_t every = job_of_action(self)->eval_interval;
    return step > ET_ACTION_NEVER - every ? ET_ACTION_NEVER : (step / every + 1) * every;
}

static int tell_evaluation(et_action *self, const et_action_context *now, et_error *error)
{
    const job *j = job_of_action(self);
    char key[128];
    double value;
    (void)error;
    snprintf(key, sizeof key, ET_LOGGED_OF_VALIDATION "%s", j->graphs.evaluation->metric);
    if (now->logs && !et_value_read_float(now->logs, key, &value, NULL))
        tell(j, "Global steps: %lld; Evaluation metric: %.3f", (long long)now->step, value);
    return ET_OK;
}

static const et_action_class evaluation_messages = { "tell_evaluation", due, tell_evaluation };

/* ---- the builder's graphs as a task ---- */

static void build(et_task *self, et_scope *scope, bool training)
{
    job *j = job_of(self);
    et_graph_interface *graph = training ? j->graphs.training : j->graphs.evaluation;
    graph->build(scope, graph);
}

static int create_optimizer(et_task *self, const et_optimizer_request *request, et_optimizer **out,
                            et_error *error)
{
    return et_optimizer_open(out, request->device, request->params, NULL,
                             &job_of(self)->graphs.training->train_op, error);
}

static int initialize(et_task *self, et_params *params, et_error *error)
{
    job *j = job_of(self);
    const et_builder_init *init = &j->graphs.training->init;
    return init->init ? init->init(j->builder, params, error) : ET_OK;
}

static const et_task_class task_class = { .name = "builder",
                                          .build = build,
                                          .create_optimizer = create_optimizer,
                                          .initialize = initialize };

/* ---- opening ---- */

/* Checks that this process may train, and its output. */
static int check(job *j, et_error *error)
{
    const et_job_task *task = et_job_config_task(j->config);
    j->output = j->given->output ? j->given->output : j->args->output;
    int status = et_job_config_create_server(&j->server, j->config, error);
    if (status)
        return status;
    if (!j->server && task->role != ET_JOB_MASTER)
        return et_fail(error, ET_EUSAGE,
                       "task %s %lld has no cluster, and a single node is always the master; "
                       "remove \"task\" from " ET_JOB_CONFIG_VARIABLE,
                       task->type, (long long)task->index);
    if (!j->output || !*j->output)
        return et_fail(error, ET_EUSAGE, "the job has no output: name a directory with --output");
    if (task->role == ET_JOB_MASTER && j->builder->dataset)
        et_encoder_warn_coarse(et_table_set_encoder(j->builder->dataset));
    return ET_OK;
}

/* Number of batches of a pass: from the training source or, if the source does not know, from the
 * data set. */
static int count_pass(const job *j, int64_t *batches, et_error *error)
{
    et_assert(j->graphs.training && j->args->batch_size > 0);
    et_source *source = j->graphs.training->input.source;
    const et_table_columns *from = et_table_set_columns(j->builder->dataset, "train");
    const int64_t batch = j->args->batch_size;
    et_samples *samples;
    int status = et_source_batches(source, batches, error);
    if (status || *batches)
        return status;
    if (!from)
        return et_fail(error, ET_ECONFIG,
                       "epochs %lld: source %s of builder %s does not know how many batches a pass "
                       "has: use only --max-steps",
                       (long long)j->args->epochs, source->ET_CLASS->name,
                       j->builder->ET_CLASS->name);
    status = et_table_columns_samples(&samples, from, NULL, error);
    if (status)
        return status;
    *batches = (samples->count + batch - 1) / batch;
    et_samples_close(samples);
    return ET_OK;
}

/* In a store that no graph before has declared anything into. */
static int open_graphs(job *j, et_error *error)
{
    int64_t pass = 0, steps;
    int status;
    if ((status = et_model_builder_renew(j->builder, error)) ||
        (status = et_model_builder_open_device(j->builder, &j->device, error)) ||
        (status =
             et_model_builder_build_graph_interfaces(j->builder, j->config, &j->graphs, error)))
        return status;
    if (!j->graphs.training || !j->graphs.training->input.source)
        return et_fail(error, ET_EUSAGE, "builder %s gives no training graph with a source",
                       j->builder->ET_CLASS->name);
    if (j->args->epochs && (status = count_pass(j, &pass, error)))
        return status;
    /* The job ends after `epochs` passes or max_steps, whichever comes first. */
    j->steps = j->args->max_steps;
    if (j->args->epochs && !__builtin_mul_overflow(pass, j->args->epochs, &steps) &&
        steps < j->steps)
        j->steps = steps;
    j->params = et_model_builder_params(j->builder);
    j->eval_interval = j->args->eval_interval_steps;
    if (!j->eval_interval)
        j->eval_interval = j->steps >= 10 ? j->steps / 10 : 1;
    return ET_OK;
}

/* The trainer adopts the batches of the graphs, even if opening fails. */
static int open_trainer(job *j, et_error *error)
{
    et_assert(j->graphs.training && j->device);
    et_task_trainer_given given = { .train_dataset = j->graphs.training->input.source };
    if (j->graphs.evaluation)
        given.validation_dataset = j->graphs.evaluation->input.source;
    const et_task_trainer_options options = { .seed = (uint64_t)j->args->seed,
                                              .stop = j->given->stop,
                                              .given = &given,
                                              .use = j->graphs.evaluation ? ET_TRAIN_AND_EVALUATE
                                                                          : ET_TRAIN_ONLY };
    j->task = (et_task){ .ET_CLASS = &task_class, .logging_dir = j->output };
    int status = et_task_trainer_open(&j->trainer, &j->task, j->device, j->params, &options, error);
    if (status)
        return status;
    j->graphs.training->input.source = NULL;
    if (j->graphs.evaluation)
        j->graphs.evaluation->input.source = NULL;
    return ET_OK;
}

static int open_controller(job *j, et_error *error)
{
    et_assert(j->trainer && j->output);
    const et_path summaries = et_path_of(j->output, "summaries");
    char metric[128] = "";
    et_action *const actions[] = { &j->action };
    const et_graph_interface *evaluation = j->graphs.evaluation;
    if (evaluation)
        snprintf(metric, sizeof metric, ET_LOGGED_OF_VALIDATION "%s", evaluation->metric);
    j->action.ET_CLASS = &evaluation_messages;
    const et_controller_options options = {
        .trainer = j->master ? j->master : et_task_trainer_trainer(j->trainer),
        .evaluator = et_task_trainer_evaluator(j->trainer),
        .actions = actions,
        .action_count = evaluation ? 1 : 0,
        .run = { .model_dir = j->output,
                 .summary_dir = summaries.text,
                 .best_metric = evaluation ? et_arena_strdup(&j->arena, metric) : NULL,
                 .best_comparison = evaluation && evaluation->lower_is_better ? ET_COMPARE_LOWER
                                                                              : ET_COMPARE_HIGHER,
                 .best_tie = ET_LOGGED_VALIDATION_LOSS,
                 .observer = { .self = j, .show = show, .tell = tell_line },
                 .identity = j->identity,
                 .stop = j->given->stop,
                 .save = &j->save },
        .train_steps = j->steps,
        .summary_interval = j->args->log_interval_steps,
        .validation_interval = evaluation ? j->eval_interval : 0,
        .validation_steps = j->args->eval_steps,
    };
    return et_controller_open(&j->controller, &options, error);
}

/* ---- a cluster ---- */

/* Workers and servers wait until the master is ready. */
static int meet(job *j, et_error *error)
{
    if (!j->server)
        return ET_OK;
    j->cluster_options = (et_cluster_options){ .config = j->config,
                                               .keys = &j->server->keys,
                                               .listen = j->server->listen,
                                               .gradients = 1,
                                               .max_staleness = -1,
                                               .waits = ET_CLUSTER_WAITS,
                                               .predicts = true,
                                               .patience = PATIENCE,
                                               .stop = j->given->stop,
                                               .listener = j,
                                               .tell = tell_line,
                                               .computed = computed };
    return et_job_config_master(j->config) ? ET_OK : et_cluster_wait(&j->cluster_options, error);
}

/* The identity of the job, and for a cluster the values that all tasks must share: flags, except
 * the output (--job-dir or --output), whose path may differ among hosts. */
static int identify(job *j, et_error *error)
{
    et_strbuf text = ET_STRBUF_INIT;
    int status = et_builder_identify(j->builder, &j->identity, &j->arena, error);
    if (status || !j->server)
        return status;
    et_json_print(&text, j->identity, 0);
    for (size_t i = 0; i < j->args->raw.count; i++) {
        const char *word = j->args->raw.items[i];
        const size_t length = strcspn(word, "=");
        if (!strncmp(word, "--", 2) && (et_same_name(word + 2, length - 2, "job-dir") ||
                                        et_same_name(word + 2, length - 2, "output")))
            i += !word[length]; /* its value is the next word */
        else
            et_strbuf_printf(&text, "%zu:%s", strlen(word), word);
    }
    j->cluster_options.fingerprint = et_checksum(et_strbuf_text(&text), text.length);
    if (text.failed)
        status = et_alloc_failed(error, "a job's identity");
    et_strbuf_release(&text);
    return status;
}

/* ---- the model that a job leaves: OUTPUT/model ---- */

/* Finds the files of an export, whole or not. ET_ECONFIG: the folder has another file. */
static int visit(DIR *folder, const char *directory, bool removes, et_error *error)
{
    static const char *const files[] = { ET_TABLE_SCHEMA, ET_TABLE_METADATA,   ET_TABLE_FEATURES,
                                         ET_RUN_BUILDER,  ET_ARTIFACT_WEIGHTS, NULL };
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        const char *name = entry->d_name;
        const bool own = et_is_one_of(name, files) || et_file_is_left_over(name);
        if (own && removes)
            unlinkat(dirfd(folder), name, 0);
        if (!own && strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
            return et_fail(error, ET_ECONFIG,
                           "%s/%s is not a file of a model, but the job replaces this folder: "
                           "choose another output, or move the file",
                           directory, name);
    }
    return ET_OK;
}

/* removes: also removes the folder, if it has only the files of a model. */
static int clear_folder(const char *directory, bool removes, et_error *error)
{
    et_assert(directory);
    DIR *folder = opendir(directory);
    if (!folder)
        return errno == ENOENT ? ET_OK : et_fail_errno(error, "%s", directory);
    int status = visit(folder, directory, false, error);
    rewinddir(folder);
    if (!status && removes)
        status = visit(folder, directory, true, error);
    closedir(folder);
    if (!status && removes && rmdir(directory))
        status = et_fail_errno(error, "%s", directory);
    return status;
}

/* Checks the folders of the export before the training. */
static int check_position(const char *output, et_error *error)
{
    static const char *const folders[] = { "model", "model.new", "model.old" };
    int status = ET_OK;
    for (size_t i = 0; i < sizeof folders / sizeof *folders && !status; i++)
        status = clear_folder(et_path_of(output, folders[i]).text, false, error);
    return status;
}

/* The new model is complete before the old one is removed. Its name is missing only for an instant;
 * if the job is killed then, the resumed job exports again. */
static int put_in_place(const char *made, const char *position, const char *old, et_error *error)
{
    int status = clear_folder(old, true, error);
    if (status)
        return status;
    if (rename(position, old) && errno != ENOENT)
        return et_fail_errno(error, "%s", position);
    if (rename(made, position))
        return et_fail_errno(error, "%s", position);
    et_error reason = ET_ERROR_INIT;
    if (clear_folder(old, true, &reason))
        et_log(ET_LOG_WARNING, "%s", reason.text);
    return ET_OK;
}

/* Made next to the earlier one; checkpoint: as in et_predictor_options. */
static int export_model(et_predictor **out, const et_model_builder *builder, const char *output,
                        const char *checkpoint, et_error *error)
{
    et_assert(builder && output);
    const et_predictor_options trained = { .builder = builder->ET_CLASS, .checkpoint = checkpoint };
    const et_predictor_options exported = { .builder = builder->ET_CLASS };
    et_predictor *predictor = NULL;
    const et_path position = et_path_of(output, "model"), made = et_path_of(output, "model.new");
    const et_path old = et_path_of(output, "model.old");
    int status;
    if (!(status = clear_folder(made.text, true, error)) &&
        !(status = et_predictor_open(&predictor, output, &trained, error)) &&
        !(status = et_predictor_export(predictor, made.text, NULL, error)) &&
        !(status = put_in_place(made.text, position.text, old.text, error)))
        status = et_directory_sync(output, error);
    et_predictor_close(predictor);
    return status ? status : et_predictor_open(out, position.text, &exported, error);
}

/* ---- training ---- */

static int run(job *j, et_error *error)
{
    et_assert(j->controller && j->trainer);
    int status = et_builder_write(j->builder, j->config, j->output, error);
    j->began = j->saved = et_clock_monotonic();
    j->first = et_task_trainer_trainer(j->trainer)->step;
    j->builder->internals->global_steps = j->first;
    if (!status && j->first)
        tell(j, "Global steps: %lld; resuming", (long long)j->first);
    if (!status && j->first && j->graphs.training->init.local_init)
        status = j->graphs.training->init.local_init(j->builder, j->params, error);
    if (!status && !et_controller_finished(j->controller))
        status = et_controller_train(j->controller, error);
    return status;
}

/* Runs, saves, evaluates: a single node, and the master of a cluster. */
static int lead(job *j, et_error *error)
{
    et_assert(j->trainer && j->identity);
    int status;
    /* Weights of another builder or other data may have the same shapes, but another meaning. */
    if ((status = check_position(j->output, error)) ||
        (status = et_builder_check_same(j->output, j->identity, &j->arena, error)) ||
        (j->server && (status = et_cluster_trainer_open(&j->master, j->trainer, &j->cluster_options,
                                                        j->steps, error))) ||
        (status = open_controller(j, error)))
        return status;
    status = run(j, error);
    int closed = et_controller_close(j->controller, status ? NULL : error);
    return status ? status : closed;
}

static int train(job *j, et_error *error)
{
    static int (*const stages[])(job *, et_error *) = { check, meet, open_graphs, identify,
                                                        open_trainer };
    int status = ET_OK;
    ET_STAGES_RUN(status, stages, j, error);
    if (status)
        return status;
    const bool serves = et_job_config_task(j->config)->role == ET_JOB_PARAM_SERVER;
    if (et_job_config_master(j->config))
        return lead(j, error);
    j->began = et_clock_monotonic();
    return (serves ? et_cluster_serve : et_cluster_work)(j->trainer, &j->cluster_options, error);
}

int et_model_trainer_train(et_model_trainer *trainer, et_model_builder *builder,
                           const et_training_job *given, et_predictor **out, et_error *error)
{
    static const et_training_job none = { .output = NULL };
    et_table_set *before = builder->dataset;
    *out = NULL;
    job j = { .given = given ? given : &none,
              .builder = builder,
              .args = builder->args,
              .config = trainer->config };
    if (j.given->inputs)
        builder->dataset = j.given->inputs;
    int status = train(&j, error);
    /* The checkpoint that becomes the model. Without evaluations, the newest: a best checkpoint
     * would be from an earlier session with evaluations. */
    const char *checkpoint = j.graphs.evaluation ? NULL : "newest";
    et_cluster_trainer_close(j.master);
    et_task_trainer_close(j.trainer);
    et_job_server_free(j.server);
    et_graph_interface_close(j.graphs.training);
    et_graph_interface_close(j.graphs.evaluation);
    et_graph_interface_close(j.graphs.prediction);
    et_arena_release(&j.arena);
    bool leads = et_job_config_master(trainer->config);
    if (!status && leads)
        status = export_model(out, builder, j.output, checkpoint, error);
    builder->dataset = before;
    return status;
}
