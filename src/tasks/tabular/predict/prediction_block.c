#include "tasks/tabular/predict/prediction_block.h"

#include "base/alloc.h"
#include "base/assert.h"

int et_prediction_block_open(et_prediction_block *block, int64_t rows, size_t keep,
                             const et_predictor *p, et_error *error)
{
    const et_table_model *model = p->model;
    int status = et_row_block_open(&block->rows, rows, model->encoder, keep, error);
    return status ? status
                  : et_unseen_open(&block->unseen, model->encoder, model->texts.metadata, error);
}

void et_prediction_block_release(et_prediction_block *block)
{
    et_row_block_release(&block->rows);
    et_strbuf_release(&block->lines);
    et_unseen_release(&block->unseen);
}

/* A bad row ends the block, or is kept with its message. */
static int fail_row(et_prediction_block *b, const et_prediction_how *how, et_block_row *row,
                    int status, et_error *reason)
{
    et_assert(status);
    et_fail_while(reason, status, "%s:%lld", how->name, (long long)row->line);
    if (status != ET_EDATA || !how->lenient) {
        b->error = *reason;
        return status;
    }
    row->failure = et_arena_strdup(&b->rows.arena, reason->text);
    return row->failure ? ET_OK : et_alloc_failed(&b->error, sizeof reason->text, "a message");
}

/* Puts a row at a place of the batch. *put: it is there. */
static int put_row(et_prediction_block *b, et_predictor *p, const et_prediction_how *how, int64_t i,
                   int64_t at, bool *put)
{
    et_assert(i >= 0 && i < b->rows.count && at < p->batch_size);
    et_block_row *row = &b->rows.row[i];
    et_error reason = ET_ERROR_INIT;
    *put = false;
    if (row->failure)
        return ET_OK;
    int status = row->cells ? ET_OK : et_row_block_parse(&b->rows, p->model, i, &reason);
    if (!status)
        status = et_predictor_put(p, at, row->cells, NULL, &reason);
    *put = !status;
    if (status)
        return fail_row(b, how, row, status, &reason);
    et_unseen_add(&b->unseen, row->cells, NULL, row->line);
    return ET_OK;
}

/* Lines of the rows that were put. */
static void take_rows(et_prediction_block *b, et_predictor *p, const et_prediction_how *how)
{
    const et_encoder *encoder = p->model->encoder;
    const char *name;
    const int field = et_encoder_key(encoder, 0, &name);
    for (int64_t i = 0, at = 0; i < b->rows.count; i++) {
        et_block_row *row = &b->rows.row[i];
        et_error reason = ET_ERROR_INIT;
        if (row->failure)
            continue;
        int status = et_predictor_check(p, at++, NULL, &reason);
        const et_cell *key = field < 0 ? NULL : &row->cells[et_encoder_cell(encoder, field)];
        const et_prediction_row line = { row->line, key, row->kept, row->object };
        if (!status)
            et_prediction_lines_add(how->lines, p, at - 1, &line, &b->lines);
        else if ((status = fail_row(b, how, row, status, &reason))) {
            b->status = status;
            b->rows.count = i;
        }
    }
}

void et_prediction_block_run(et_prediction_block *b, et_predictor *p, const et_prediction_how *how)
{
    et_assert(p && how->lines && how->name);
    int64_t put = 0;
    b->status = ET_OK;
    et_strbuf_reset(&b->lines);
    for (int64_t i = 0; i < b->rows.count && !b->status; i++) {
        bool is_put;
        b->status = put_row(b, p, how, i, put, &is_put);
        if (b->status)
            b->rows.count = i;
        put += is_put;
    }
    et_error reason = ET_ERROR_INIT;
    int status = put ? et_predictor_run(p, put, &reason) : ET_OK;
    if (!status)
        take_rows(b, p, how);
    if (!status && b->lines.failed)
        status = et_alloc_failed(&reason, b->lines.length, "predictions");
    if (status) {
        b->status = status;
        b->error = reason;
    }
}
