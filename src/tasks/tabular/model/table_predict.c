/* Predictions of rows: what `etude predict` does, on one thread and into a program's file. A model
 * that was trained here predicts with the parameters that it would save, so it gives the same lines
 * as its saved file. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/files/file.h"
#include "tasks/tabular/model/tables.h"
#include "tasks/tabular/predict/predict.h"
#include "tasks/tabular/predict/prediction_block.h"

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

static int print_block(printing *p, et_error *error)
{
    const et_strbuf *lines = &p->block.lines;
    et_prediction_block_run(&p->block, p->predictor, &p->how);
    if (lines->length && fwrite(lines->data, 1, lines->length, p->to) != lines->length)
        return et_fail_errno(error, "et_model_predict_csv: the file for predictions");
    return p->block.status ? et_fail(error, p->block.status, "%s", p->block.error.text) : ET_OK;
}

static int print_all(printing *p, et_error *error)
{
    et_error reason = ET_ERROR_INIT;
    int status = ET_OK, read = ET_OK;
    bool more = true;
    while (!status && more) {
        read = et_row_reader_next(p->reader, &p->block.rows, &reason);
        more = !read && p->block.rows.count;
        if (p->block.rows.count)
            status = print_block(p, error);
    }
    return status || !read ? status : et_fail(error, read, "%s", reason.text);
}

int et_model_predict_csv(et_model *m, const char *path, FILE *to, et_error *error)
{
    et_table_network *n = et_table_network_of(m);
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
