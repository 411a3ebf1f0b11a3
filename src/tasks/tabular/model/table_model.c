/* The model object's kind for tables: the tabular task under the model's trainer. What it saves is
 * an export as `etude export` writes it: three texts, params.yaml, weights. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "base/values/value.h"
#include "systems/modelgarden/task_trainer.h"
#include "tasks/tabular/model/tables.h"
#include "tasks/tabular/predict/predict.h"
#include "tasks/tabular/predict/prediction_lines.h"
#include "tasks/tabular/setup/setup.h"
#include "tasks/tabular/tabular_task.h"
#include "train/checkpoint/identity.h"
#include "train/checkpoint/run_names.h"

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
    et_tabular_task *task = (et_tabular_task *)(void *)m->task;
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
    if (!status && text.failed)
        status = et_alloc_failed(error, text.length, "settings");
    n->text[PARAMS] = (et_artifact_text){ ET_RUN_SETTINGS, NULL, text.length };
    n->text[PARAMS].bytes = status ? NULL : et_strbuf_detach(&text);
    if (!status && !n->text[PARAMS].bytes)
        status = et_alloc_failed(error, n->text[PARAMS].length, "settings");
    et_strbuf_release(&text);
    return status;
}

static int copy_texts(et_table_network *n, const et_table *table, et_error *error)
{
    for (int i = 0; i < ET_TABLE_FILES; i++) {
        const et_artifact_text *from = &table->text[i];
        char *bytes = et_alloc(from->length + 1, 1);
        if (!bytes)
            return et_alloc_failed(error, from->length, "a model");
        memcpy(bytes, from->bytes, from->length + 1);
        n->text[i] = (et_artifact_text){ from->name, bytes, from->length };
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
    const et_artifact_text *text = &n->text[which];
    char *bytes = NULL, *path = et_path_join(run, text->name);
    size_t length = 0;
    int status = path ? ET_OK : et_alloc_failed(error, strlen(run), "a path");
    const bool there = !status && et_file_exists(path);
    if (there)
        status = et_file_read(&bytes, &length, path, ET_TABLE_BYTES_MAX, error);
    if (there && !status && (length != text->length || memcmp(bytes, text->bytes, length) != 0))
        status = et_fail(error, ET_ECONFIG,
                         "%s differs from that of this model: the run has other data or "
                         "settings; choose another run_dir",
                         path);
    if (!status && !there)
        status = et_file_write(path, text->bytes, text->length, error);
    et_free(bytes);
    et_free(path);
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
        return et_alloc_failed(error, strlen(name), "a name");
    status = et_table_experiment(&n->experiment, table, full, settings, &m->arena, error);
    if (status)
        return status;
    m->seed = (uint64_t)n->experiment.runtime.seed;
    m->bfloat16 = n->experiment.runtime.mixed_precision_dtype == ET_PRECISION_BFLOAT16;
    m->optimization = n->experiment.trainer.optimizer_config;
    if ((status = et_table_task(&m->task, table, &n->experiment, m->device, m->params, &m->arena,
                                error)) ||
        (status = copy_texts(n, table, error)) || (status = print_settings(n, error)))
        return status;
    et_value *identity = et_value_dict(&m->arena);
    n->identity = identity;
    if (!identity)
        return et_alloc_failed(error, 0, "settings");
    if ((status = et_tabular_identify(m->task, identity, error)) ||
        (status = et_experiment_identify(&n->experiment, identity, error)))
        return status;
    m->own_valid = true;
    n->source = table->source;
    return et_model_build(m, &((et_tabular_task *)(void *)m->task)->training->layout, error);
}

int et_model_for_table(et_model **out, et_table *table, const char *name, const char *settings,
                       et_error *error)
{
    *out = NULL;
    if (!table || !name || !*name)
        return et_fail(error, ET_EUSAGE, "et_model_for_table: give %s",
                       table ? "the name of a model, such as \"mlp\"" : "a table");
    et_table_network *n = et_alloc_zero(1, sizeof *n);
    if (!n)
        return et_alloc_failed(error, sizeof *n, "a model");
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
    et_table_network *n = et_alloc_zero(1, sizeof *n);
    if (!n)
        return et_alloc_failed(error, sizeof *n, "a model");
    n->saved = true;
    n->model.kind = &saved_kind;
    n->model.has_weights = true;
    n->model.arena = (et_arena)ET_ARENA_INIT;
    int status = et_predictor_open(&n->predictor, path, NULL, error);
    if (status)
        et_model_close(&n->model);
    else
        *out = &n->model;
    return status;
}

/* Predictions of rows: what `etude predict` does, on one thread and into a program's file. A model
 * that was trained here predicts with the parameters that it would save, so it gives the same lines
 * as its saved file. */

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
    char *path = status ? NULL : et_path_join(directory, EXPORT);
    if (!status && !path)
        status = et_alloc_failed(error, strlen(directory), "a path");
    if (!status)
        status = et_model_save(&n->model, path, error);
    if (!status)
        status = et_predictor_open(&n->predictor, path, NULL, error);
    n->predicts = n->model.version;
    et_free(path);
    et_scratch_close(directory);
    return status;
}

typedef struct printing {
    et_predictor *predictor;
    et_row_reader *reader;
    et_prediction_lines lines;
    et_prediction_block block;
    et_prediction_how how;
    FILE *to;
} printing;

static int open_all(printing *p, const char *path, et_error *error)
{
    et_assert(p->predictor);
    const et_table_model *model = p->predictor->model;
    const et_row_reader_options rows = { .path = path,
                                         .rows = p->predictor->batch_size,
                                         .csv = model->csv };
    int status = et_prediction_lines_open(&p->lines, p->predictor,
                                          &(et_prediction_form){ .csv = false }, error);
    if (!status)
        status = et_prediction_block_open(&p->block, rows.rows, 0, p->predictor, error);
    if (!status)
        status = et_row_reader_open(&p->reader, &rows, model->encoder, error);
    p->how = (et_prediction_how){ &p->lines, path ? path : "standard input", false };
    return status;
}

static int print_all(printing *p, et_error *error)
{
    const et_prediction_block *block = &p->block;
    const et_strbuf *lines = &block->lines;
    et_error reason = ET_ERROR_INIT;
    int status = ET_OK, read = ET_OK;
    bool more = true;
    while (!status && more) {
        read = et_row_reader_next(p->reader, &p->block.rows, &reason);
        more = !read && block->rows.count;
        if (!block->rows.count)
            continue;
        et_prediction_block_run(&p->block, p->predictor, &p->how);
        if (lines->length && fwrite(lines->data, 1, lines->length, p->to) != lines->length)
            status = et_fail_errno(error, "et_model_predict_csv: the file for predictions");
        else if (block->status)
            status = et_fail(error, block->status, "%s", block->error.text);
    }
    return status || !read ? status : et_fail(error, read, "%s", reason.text);
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
    printing p = { .predictor = n->predictor, .to = to };
    if (!status)
        status = open_all(&p, path, error);
    if (!status)
        status = print_all(&p, error);
    if (!status)
        et_unseen_warn(&p.block.unseen);
    et_row_reader_close(p.reader);
    et_prediction_block_release(&p.block);
    et_prediction_lines_release(&p.lines);
    return status;
}
