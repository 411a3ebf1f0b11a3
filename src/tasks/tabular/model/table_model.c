/* The model object's kind for tables: the tabular task under the model's trainer. It saves an
 * export like `etude export`: three texts, params.yaml, weights. */
#include <stdio.h>
#include <string.h>

#include <etude/predictor.h>
#include <etude/table.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "systems/model/model_private.h"
#include "systems/modelgarden/experiment.h"
#include "tasks/tabular/ensemble/ensemble.h"
#include "tasks/tabular/predict/predict.h"
#include "tasks/tabular/predict/prediction_lines.h"
#include "tasks/tabular/setup/setup.h"
#include "tasks/tabular/table_files.h"
#include "tasks/tabular/tabular_kind.h"
#include "tasks/tabular/tabular_task.h"
#include "train/checkpoint/artifact/artifact.h"
#include "train/checkpoint/identity.h"
#include "train/checkpoint/run_names.h"

/* ---- tables ---- */

/* A table: a task without a trainer. A task reads and writes its texts in its run's directory. A
 * table uses a temporary directory for them, and removes it as soon as the task is open. */

struct et_table {
    et_arena arena;
    const char *path, *target, *settings; /* in arena; NULL: no settings, or they name the target */
    et_artifact_file text[ET_TABLE_FILES]; /* bytes are owned; NULL: not known yet */
    et_device *device;
    et_params *params; /* of a task without a model */
    et_experiment experiment;
    et_task *task;
    et_source *source;
};

/* A model of a table: to train, or saved. */
typedef struct et_table_network {
    et_model model;
    const et_source *source;                   /* of its table; compared, not used */
    et_experiment experiment;                  /* settings in the model's arena */
    et_artifact_file text[ET_TABLE_FILES + 1]; /* of the table, then params.yaml; bytes are owned */
    const et_value *identity;                  /* of its checkpoints */
    et_predictor *predictor; /* of the weights of version `predicts`; NULL: none */
    int64_t predicts;        /* the version of the model */
    bool saved;              /* a predictor alone */
} et_table_network;

static int assign(et_experiment *e, const char *path, const char *text, et_arena *arena,
                  et_error *error)
{
    et_value *dict = et_value_dict(arena);
    const et_value *value = et_value_set_string(dict, "value", text);
    return value ? et_experiment_assign(e, "et_table_open", path, value, arena, error)
                 : et_alloc_failed(error, "a table");
}

/* ---- settings ---- */

/* Settings that a model object has calls for, or does not support; and exceptions. */
static const char *const refused[] = { "trainer", "runtime", NULL };
static const char *const taken[] = { "trainer.optimizer_config", "runtime.seed",
                                     "runtime.mixed_precision_dtype", NULL };

/* The first changed setting below path; NULL: none, or no memory. */
static const char *first_other(const et_value *before, const et_value *now, const char *path,
                               et_arena *arena)
{
    const char *found = NULL;
    if (!now || et_is_one_of(path, taken))
        return NULL;
    if (now->kind != ET_VALUE_DICT || !before || before->kind != ET_VALUE_DICT)
        return before && et_identity_same(before, now) ? NULL : path;
    for (const et_value *v = now->first; v && !found; v = v->next) {
        const char *below = et_arena_printf(arena, "%s.%s", path, v->key);
        found = below ? first_other(et_value_get(before, v->key), v, below, arena) : NULL;
    }
    return found;
}

static const char *first_of(const char *const *paths, const et_value *before, const et_value *now,
                            et_arena *arena)
{
    const char *other = NULL;
    for (int i = 0; before && now && paths[i] && !other; i++)
        other = first_other(et_value_path(before, paths[i]), et_value_path(now, paths[i]), paths[i],
                            arena);
    return other;
}

static int check_taken(const et_value *before, const et_experiment *e, et_arena *arena,
                       et_error *error)
{
    const et_value *now = et_experiment_tree(e, arena);
    const char *other = first_of(refused, before, now, arena);
    if (!before || !now)
        return et_alloc_failed(error, "settings");
    if (et_privacy_in(e->kind->fields, e->task))
        other = "task.differential_privacy_config";
    if (other)
        return et_fail(error, ET_ECONFIG,
                       "%s has no effect on a model object: the options of et_fit set its length, "
                       "saves and validations; for this setting use `etude train`",
                       other);
    /* The ensemble of a pack is chosen by the validations of a run; a model object also evaluates
     * other data. */
    if (et_tabular_is_pack(e->task))
        return et_fail(error, ET_ECONFIG,
                       "a model object cannot train a pack (task.model.type: pack): train it "
                       "with `etude train` and open the run with et_model_open_saved, or choose "
                       "another model");
    return ET_OK;
}

/* Settings that have had their effect when the table was opened. */
static const char *const analyzed[] = {
    "task.schema_path", "task.metadata_path", "task.features_path",
    "task.features",    "task.target_type",   "task.id",
    "task.entries",     "task.quantiles",     NULL
};

static int set_of_model(et_experiment *e, const char *settings, et_arena *arena, et_error *error)
{
    const et_value *before = et_experiment_tree(e, arena);
    int status = et_experiment_set(e, settings, arena, error);
    const char *other = first_of(analyzed, before, et_experiment_tree(e, arena), arena);
    return status || !other ? status
                            : et_fail(error, ET_ECONFIG,
                                      "%s has no effect on a model, because its table is open: "
                                      "give it to et_table_open",
                                      other);
}

/* Settings of an experiment, "tabular/mlp", for a file, with two more layers of settings or NULL.
 */
static int table_experiment(et_experiment *e, const et_table *table, const char *name,
                            const char *settings, et_arena *arena, et_error *error)
{
    et_assert(e && table && name && arena);
    int status = et_experiment_begin(e, &et_tabular_program, name, arena, error);
    if (status)
        return status;
    const et_value *before = et_experiment_tree(e, arena);
    if ((status = assign(e, "task.train_data.input_path", table->path, arena, error)) ||
        (table->target && (status = assign(e, "task.target", table->target, arena, error))) ||
        (table->settings && (status = et_experiment_set(e, table->settings, arena, error))) ||
        (settings && (status = set_of_model(e, settings, arena, error))) ||
        (status = et_experiment_complete(e, error)) ||
        (status = check_taken(before, e, arena, error)))
        return status;
    if (et_tabular_series.wanted(e->name, e->task))
        return et_fail(error, ET_ECONFIG,
                       "%s with these settings trains several models, but a model object trains "
                       "only one; name one model or one fold, or use `etude train`",
                       e->name);
    return et_experiment_check(e, error);
}

/* ---- texts ---- */

static int write_texts(const et_table *t, const char *directory, et_error *error)
{
    int status = ET_OK;
    for (int i = 0; i < ET_TABLE_FILES && !status && t->text[i].bytes; i++)
        status = et_file_write(et_path_of(directory, et_table_file_names[i]).text, t->text[i].bytes,
                               t->text[i].length, error);
    return status;
}

static int read_texts(et_table *t, const char *directory, et_error *error)
{
    int status = ET_OK;
    for (int i = 0; i < ET_TABLE_FILES && !status && !t->text[i].bytes; i++) {
        char *bytes = NULL;
        et_artifact_file *text = &t->text[i];
        text->name = et_table_file_names[i];
        status = et_file_read(&bytes, &text->length, et_path_of(directory, text->name).text,
                              ET_TABLE_BYTES_MAX, error);
        text->bytes = bytes;
    }
    return status;
}

/* A task on the rows of the table. If the table has no texts yet, it gets the task's texts.
 * Meanwhile the texts are in a temporary directory, whose name lives in arena. */
static int table_task(et_task **out, et_table *t, const et_experiment *e, et_device *device,
                      et_params *params, et_arena *arena, et_error *error)
{
    et_assert(out && t && e && device && params && arena);
    char *directory = NULL;
    et_task_context context = { .params = params,
                                .device = device,
                                .seed = (uint64_t)e->runtime.seed,
                                .validation_interval = 1,
                                .best_metric = et_trainer_own_metric(&e->trainer) };
    int status = et_scratch_open(&directory, "etude-table", error);
    context.model_dir = status ? NULL : et_arena_strdup(arena, directory);
    if (!status && !context.model_dir)
        status = et_alloc_failed(error, "a path");
    if (!status && !(status = write_texts(t, directory, error)) &&
        !(status = et_tabular_task_open(out, e->task, &context, error)))
        status = read_texts(t, directory, error);
    et_scratch_close(directory);
    return status;
}

/* ---- a table ---- */

int et_table_open(et_table **out, const char *path, const char *target, const char *settings,
                  et_error *error)
{
    *out = NULL;
    if (!path || !*path || (target ? !*target : !settings))
        return et_fail(error, ET_ECONFIG, "et_table_open: give %s",
                       path && *path ? "the column to predict" : "a CSV file");
    et_table *t;
    if (ET_ALLOC_ZERO(t, 1, "a table", error))
        return ET_ENOMEM;
    t->path = et_arena_strdup(&t->arena, path);
    t->target = target ? et_arena_strdup(&t->arena, target) : NULL;
    t->settings = settings ? et_arena_strdup(&t->arena, settings) : NULL;
    const et_data_config data = { .training = true };
    int status;
    if ((status = t->arena.failed ? et_alloc_failed(error, "a table")
                                  : table_experiment(&t->experiment, t, "tabular/mlp", NULL,
                                                     &t->arena, error)) ||
        (status = et_device_open(&t->device, error)) ||
        (status = et_params_new(&t->params, error)) ||
        (status =
             table_task(&t->task, t, &t->experiment, t->device, t->params, &t->arena, error)) ||
        (status = et_task_build_inputs(t->task, &data, NULL, &t->source, error)))
        et_table_close(t);
    else
        *out = t;
    return status;
}

void et_table_close(et_table *t)
{
    if (!t)
        return;
    et_source_close(t->source);
    et_tabular_task_close(t->task);
    et_params_free(t->params);
    et_device_close(t->device);
    for (int i = 0; i < ET_TABLE_FILES; i++)
        et_free((char *)t->text[i].bytes);
    et_arena_release(&t->arena);
    et_free(t);
}

et_source *et_table_source(et_table *t)
{
    (void)et_source_rewind(t->source, NULL); /* its own source can */
    return t->source;
}

/* ---- a model ---- */

enum { PARAMS = ET_TABLE_FILES, TEXTS };

static et_table_network *network_of(const et_model *m)
{
    return (et_table_network *)(void *)(uintptr_t)m;
}

/* ---- data ---- */

/* The table's own rows come in batches of the model's settings. */
static int open_training(et_model *m, et_source *source, const et_fit *fit, et_source **out,
                         et_error *error)
{
    et_table_network *n = network_of(m);
    et_tabular_task *task = et_tabular_task_of(m->task);
    *out = NULL;
    if (source != n->source)
        return ET_OK;
    if (fit->batch_size)
        task->options.train_data.batch_size = fit->batch_size;
    return et_task_build_inputs(m->task, &(et_data_config){ .training = true }, NULL, out, error);
}

/* ---- files ---- */

static int print_settings(et_table_network *n, et_error *error)
{
    et_strbuf text = ET_STRBUF_INIT;
    int status = et_experiment_print(&n->experiment, &text, error);
    n->text[PARAMS] = (et_artifact_file){ ET_RUN_SETTINGS, NULL, text.length };
    n->text[PARAMS].bytes = status ? NULL : et_strbuf_detach(&text);
    if (!status && !n->text[PARAMS].bytes)
        status = et_alloc_failed(error, "settings");
    et_strbuf_release(&text);
    return status;
}

static int copy_texts(et_table_network *n, const et_table *table, et_error *error)
{
    for (int i = 0; i < ET_TABLE_FILES; i++) {
        const et_artifact_file *from = &table->text[i];
        n->text[i] =
            (et_artifact_file){ from->name, et_strndup(from->bytes, from->length), from->length };
        if (!n->text[i].bytes)
            return et_alloc_failed(error, "a model");
    }
    return ET_OK;
}

static int save(const et_model *m, const char *path, et_error *error)
{
    const et_table_network *n = network_of(m);
    const et_predictor *p = n->predictor;
    if (n->saved)
        return et_predictor_export(p, path, NULL, error);
    if (!m->has_weights)
        return et_fail(error, ET_EUSAGE, "et_model_save: this model is neither trained nor loaded");
    const et_artifact_content content = { .texts = n->text,
                                          .count = TEXTS,
                                          .params = m->params,
                                          .step = et_model_step(m),
                                          .identity = n->identity };
    return et_artifact_write(&content, path, error);
}

/* Checks that weights are of this table and these settings. */
static int is_same(void *payload, const et_artifact_weights *weights, et_error *error)
{
    const et_table_network *n = payload;
    const et_identity own = { NULL, n->identity };
    const et_identity theirs = { weights->checkpoint, weights->facts.identity };
    const char *file = et_identity_other_file(own.values, theirs.values);
    int status = et_experiment_check_model(&n->experiment, &theirs,
                                           et_artifact_run(weights->artifact), error);
    if (status || !file)
        return status;
    return et_fail(error, ET_ECONFIG,
                   "%s was trained with another %s than this table has; open it with "
                   "et_model_open_saved",
                   weights->checkpoint, file);
}

static int load(et_model *m, const char *path, et_error *error)
{
    et_table_network *n = network_of(m);
    if (n->saved)
        return et_fail(error, ET_EUSAGE,
                       "et_model_load: open another saved model with "
                       "et_model_open_saved");
    et_artifact_weights weights = { .facts = { .arena = &m->arena },
                                    .check = is_same,
                                    .payload = n };
    return et_model_take_weights(m, path, &weights, error);
}

/* ---- a run ---- */

/* Refuses a run that has a file of another model. */
static int write_text(const et_table_network *n, int which, const char *run, et_error *error)
{
    et_assert(which >= 0 && which < TEXTS && run);
    const et_artifact_file *text = &n->text[which];
    const et_path path = et_path_of(run, text->name);
    char *bytes;
    size_t length;
    if (!et_file_exists(path.text))
        return et_file_write(path.text, text->bytes, text->length, error);
    int status = et_file_read(&bytes, &length, path.text, ET_TABLE_BYTES_MAX, error);
    if (status)
        return status;
    if (length != text->length || memcmp(bytes, text->bytes, length) != 0)
        status = et_fail(
            error, ET_ECONFIG,
            "%s belongs to a model with other data or settings; choose another run_dir", path.text);
    et_free(bytes);
    return status;
}

static int begin(et_model *m, const char *run, const et_value **identity, et_error *error)
{
    const et_table_network *n = network_of(m);
    *identity = n->identity;
    int status = run ? et_directory_make(run, error) : ET_OK;
    for (int i = 0; run && i < TEXTS && !status; i++)
        status = write_text(n, i, run, error);
    return status;
}

/* ---- opening and closing ---- */

static void close_network(et_model *m)
{
    et_table_network *n = network_of(m);
    if (!n->saved)
        et_tabular_task_close(m->task);
    et_predictor_close(n->predictor);
    for (int i = 0; i < TEXTS; i++)
        et_free((char *)n->text[i].bytes);
    et_free(n);
}

static const et_model_kind table_kind = {
    .name = "a model for a table",
    .no_arrays = "this model is for a table, not for arrays: call et_model_fit with "
                 "et_table_source, et_model_evaluate_source, or et_model_predict_csv",
    .open_training = open_training,
    .begin = begin,
    .save = save,
    .load = load,
    .close = close_network,
};

static const et_model_kind saved_kind = {
    .name = "a saved model",
    .no_arrays = "this model is for a table, not for arrays: call et_model_predict_csv",
    .no_training = "this model was opened by et_model_open_saved and only predicts: to train, open "
                   "the table and a model for it, then call et_model_load",
    .save = save,
    .load = load,
    .close = close_network,
};

static int open_network(et_table_network *n, et_table *table, const char *name,
                        const char *settings, et_error *error)
{
    et_assert(table && name);
    et_model *m = &n->model;
    const et_model_options none = { .seed = 0 };
    int status = et_model_init(m, &table_kind, &none, error);
    if (status)
        return status;
    const char *full = et_arena_printf(&m->arena, "tabular/%s", name);
    if (!full)
        return et_alloc_failed(error, "a name");
    status = table_experiment(&n->experiment, table, full, settings, &m->arena, error);
    if (status)
        return status;
    m->seed = (uint64_t)n->experiment.runtime.seed;
    m->bfloat16 = n->experiment.runtime.mixed_precision_dtype == ET_PRECISION_BFLOAT16;
    m->optimization = n->experiment.trainer.optimizer_config;
    if ((status =
             table_task(&m->task, table, &n->experiment, m->device, m->params, &m->arena, error)) ||
        (status = copy_texts(n, table, error)) || (status = print_settings(n, error)))
        return status;
    et_value *identity;
    status = et_experiment_identify(&identity, &n->experiment, et_tabular_identify, m->task,
                                    &m->arena, error);
    n->identity = identity;
    if (status)
        return status;
    m->own_valid = true;
    n->source = table->source;
    return et_model_build(m, &et_tabular_task_of(m->task)->training->layout, error);
}

int et_model_for_table(et_model **out, et_table *table, const char *name, const char *settings,
                       et_error *error)
{
    *out = NULL;
    if (!table || !name || !*name)
        return et_fail(error, ET_EUSAGE, "et_model_for_table: give %s",
                       table ? "the name of a model, such as \"mlp\"" : "a table");
    et_table_network *n;
    if (ET_ALLOC_ZERO(n, 1, "a model", error))
        return ET_ENOMEM;
    int status = open_network(n, table, name, settings, error);
    if (status)
        et_model_close(&n->model);
    else
        *out = &n->model;
    return status;
}

/* ---- saved ---- */

int et_model_open_saved(et_model **out, const char *path, et_error *error)
{
    *out = NULL;
    if (!path || !*path)
        return et_fail(error, ET_ECONFIG, "et_model_open_saved: give the file or the run to open");
    et_table_network *n;
    if (ET_ALLOC_ZERO(n, 1, "a model", error))
        return ET_ENOMEM;
    n->saved = true;
    n->model.kind = &saved_kind;
    n->model.has_weights = true;
    int status = et_predictor_open(&n->predictor, path, NULL, error);
    if (status)
        et_model_close(&n->model);
    else
        *out = &n->model;
    return status;
}

/* Writes predictions of rows like `etude predict`, on one thread and into a program's file. A model
 * predicts with the parameters that it would save, so its lines equal those of its saved file. */

#define EXPORT "export.safetensors"

/* The predictor of the weights as they are. */
static int open_predictor(et_table_network *n, et_error *error)
{
    char *directory = NULL;
    if (n->predictor && (n->saved || n->predicts == n->model.version))
        return ET_OK;
    et_predictor_close(n->predictor);
    n->predictor = NULL;
    int status = et_scratch_open(&directory, "etude-model", error);
    if (!status && !(status = et_model_save(&n->model, et_path_of(directory, EXPORT).text, error)))
        status = et_predictor_open(&n->predictor, et_path_of(directory, EXPORT).text, NULL, error);
    n->predicts = n->model.version;
    et_scratch_close(directory);
    return status;
}

static int write_lines(void *to, const char *bytes, size_t length, et_error *error)
{
    return fwrite(bytes, 1, length, to) == length
               ? ET_OK
               : et_fail_errno(error, "et_model_predict_csv: the file for predictions");
}

int et_model_predict_csv(et_model *m, const char *path, FILE *to, et_error *error)
{
    et_table_network *n = m->kind == &table_kind || m->kind == &saved_kind ? network_of(m) : NULL;
    if (!n)
        return et_fail(error, ET_EUSAGE,
                       "et_model_predict_csv: this model is not for a table; "
                       "call et_model_predict");
    if (!to)
        return et_fail(error, ET_EUSAGE,
                       "et_model_predict_csv: no file for predictions; give "
                       "stdout");
    if (!m->has_weights)
        return et_fail(error, ET_EUSAGE,
                       "et_model_predict_csv: this model is neither trained nor "
                       "loaded");
    int status = open_predictor(n, error);
    if (status)
        return status;
    et_predictor *p = n->predictor;
    const et_predictors predictors = { 1, { p } };
    const et_row_reader_options rows = { .path = path,
                                         .rows = p->batch_size,
                                         .csv = p->model->csv };
    const et_prediction_form json = { .csv = false };
    et_prediction_lines lines;
    et_row_filter filter = { &predictors, &lines, .write = write_lines, .self = to };
    if (!(status = et_prediction_lines_open(&lines, p, &json, error)) &&
        !(status = et_row_reader_open(&filter.reader, &rows, p->model->encoder, error)) &&
        !(status = et_row_filter_run(&filter, error)))
        et_row_filter_warn(&filter);
    et_row_reader_close(filter.reader);
    et_row_filter_release(&filter);
    et_prediction_lines_release(&lines);
    return status;
}
