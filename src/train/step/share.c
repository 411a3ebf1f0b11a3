/* Shared evaluations. Each rank sees every batch and evaluates every n-th, by rank. At the end all
 * ranks have the results of one process:
 *
 *   metrics   sums of all ranks, added in the order of ranks
 *   rows      arrays that are kept by sample, from the rank that evaluated the sample
 *   outputs   of steps, from the rank of the batch, passed to the caller in the order of batches
 *
 * Work that needs memory or calls the caller's code may fail on one rank alone, so ranks agree
 * before each exchange (comm.h). */
#include "train/step/share.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/values/value.h"
#include "base/vector.h"
#include "engine/comm/collected.h"
#include "metric/metric.h"
#include "train/checkpoint/value_bytes.h"
#include "train/step/ranked.h"
#include "train/step/spread.h"

static int check(const et_share_options *o, et_error *error)
{
    return o && (o->sets < 0 || (o->sets && !o->metrics))
               ? et_fail(error, ET_ECONFIG, "%d sets of metrics to join, but the array is NULL",
                         o->sets)
               : ET_OK;
}

int et_share_open(et_share **out, const et_share_options *options, et_error *error)
{
    *out = NULL;
    int status = check(options, error);
    if (status)
        return status;
    *out = et_alloc_zero(1, sizeof **out);
    if (!*out)
        return et_alloc_failed(error, sizeof **out, "an evaluation");
    if (options)
        (*out)->options = *options;
    return ET_OK;
}

void et_share_close(et_share *share)
{
    if (share)
        et_share_release(share);
    et_free(share);
}

static bool has_sink(const et_share *share)
{
    return share->row || share->options.output;
}

static void sane(const et_share *share)
{
    const et_share_options *o = &share->options;
    et_assert(share->batches >= 0);
    et_assert(share->count <= share->capacity);
    et_assert(o->sets >= 0 && (!o->sets || o->metrics));
    et_assert(!share->count || o->kept);
    et_assert(!share->row || !o->output);
    et_assert(!share->outputs.length || (has_sink(share) && et_comm_size(o->comm) > 1));
}

static bool kept_rows(const et_share *share, int number, et_kept_rows *rows)
{
    const et_share_options *o = &share->options;
    return o->kept && o->kept(o->self, number, rows);
}

void et_share_begin(et_share *share)
{
    sane(share);
    share->batches = 0;
    share->count = 0;
    et_strbuf_reset(&share->outputs);
    et_kept_rows rows;
    for (int i = 0; kept_rows(share, i, &rows); i++)
        memset(rows.data, 0, (size_t)rows.rows * rows.size);
}

void et_share_release(et_share *share)
{
    et_strbuf_release(&share->outputs);
    et_free(share->samples);
    *share = (et_share){ .batches = 0 };
}

static et_comm *ranks_of(const et_share *share)
{
    return share->options.comm;
}

static bool is_alone(const et_share *share)
{
    return et_comm_size(ranks_of(share)) == 1;
}

static int note_samples(et_share *share, const et_batch *batch, int rank, et_error *error)
{
    size_t count = (size_t)batch->filled[0];
    et_share_sample *grown =
        et_vector_grow(share->samples, &share->capacity, share->count + count, sizeof *grown, 1024);
    if (!grown)
        return et_alloc_failed(error, (share->count + count) * sizeof *grown, "an evaluation");
    share->samples = grown;
    for (size_t i = 0; i < count; i++)
        grown[share->count++] = (et_share_sample){ batch->sample[i], rank };
    return ET_OK;
}

int et_share_take(et_share *share, const et_batch *batch, bool *mine, et_error *error)
{
    sane(share);
    int rank = (int)(share->batches++ % et_comm_size(ranks_of(share)));
    *mine = rank == et_comm_rank(ranks_of(share));
    return share->options.kept && !is_alone(share) ? note_samples(share, batch, rank, error)
                                                   : ET_OK;
}

int et_share_batches(et_share *share, et_batch_cursor *cursor, et_share_batch_fn *run,
                     et_error *error)
{
    int status = ET_OK;
    for (;;) {
        bool over, mine = false;
        status = et_batch_cursor_next(cursor, &over, error);
        if (status || over)
            return status;
        const int64_t number = share->batches;
        status = et_share_take(share, cursor->batch, &mine, error);
        if (!status)
            status = run(share->options.self, cursor->batch, number, mine, error);
        if (status)
            return status;
    }
}

/* ---- rows: their size, then their bytes ---- */

static int end_row(et_share *share, size_t at, et_error *error)
{
    et_strbuf *to = &share->outputs;
    size_t size = 0;
    if (to->failed)
        return et_alloc_failed(error, at, "a step's logs");
    size = to->length - at - sizeof size;
    memcpy(to->data + at, &size, sizeof size);
    return ET_OK;
}

static int keep_values(et_share *share, const et_value *outputs, et_error *error)
{
    const size_t at = share->outputs.length, size = 0;
    et_strbuf_append_bytes(&share->outputs, &size, sizeof size);
    et_value_write_bytes(&share->outputs, outputs);
    return end_row(share, at, error);
}

int et_share_keep(et_share *share, const et_value *outputs, et_error *error)
{
    const et_share_options *o = &share->options;
    et_assert(outputs || !o->output);
    if (!o->output)
        return ET_OK;
    return is_alone(share) ? o->output(o->self, outputs, error)
                           : keep_values(share, outputs, error);
}

int et_share_keep_row(et_share *share, const void *row, size_t size, et_error *error)
{
    const size_t at = share->outputs.length;
    et_assert(share->row);
    if (is_alone(share))
        return share->row(share->options.self, row, size, error);
    et_strbuf_append_bytes(&share->outputs, &size, sizeof size);
    et_strbuf_append_bytes(&share->outputs, row, size);
    return end_row(share, at, error);
}

/* ---- joining ---- */

/* All ranks go the same way; what may fail on one alone comes before an agreement. */

/* What every rank has given. */
typedef struct given {
    et_collected rest;
    void *states; /* room for one set of metrics of each */
} given;

static size_t largest_set(const et_share_options *o)
{
    size_t most = 1;
    for (int i = 0; i < o->sets; i++) {
        void *bytes;
        size_t size = et_metrics_bytes(o->metrics[i], &bytes);
        most = size > most ? size : most;
    }
    return most;
}

static int open_given(given *g, const et_comm *comm, size_t most, et_error *error)
{
    size_t ranks = (size_t)et_comm_size(comm);
    g->states = et_alloc(ranks, most);
    return g->states ? et_collected_open(&g->rest, comm, error)
                     : et_alloc_failed(error, ranks * most, "an evaluation");
}

static void release_given(given *g)
{
    et_collected_release(&g->rest);
    et_free(g->states);
}

static int fail_apart(et_error *error)
{
    return et_fail(error, ET_EFAIL, "ranks evaluated different batches");
}

static int join_metrics(const et_share *share, given *g, et_error *error)
{
    const et_share_options *o = &share->options;
    int status = ET_OK;
    for (int i = 0; !status && i < o->sets; i++)
        status = et_metrics_join_ranks(o->metrics[i], ranks_of(share), g->states, error);
    return status;
}

static char *row_of(et_kept_rows rows, uint32_t sample)
{
    et_assert((int64_t)sample < rows.rows);
    return (char *)rows.data + sample * rows.size;
}

static int join_array(const et_share *share, et_kept_rows rows, given *g, et_error *error)
{
    et_strbuf mine = ET_STRBUF_INIT;
    for (size_t i = 0; i < share->count; i++)
        if (share->samples[i].rank == et_comm_rank(ranks_of(share)))
            et_strbuf_append_bytes(&mine, row_of(rows, share->samples[i].sample), rows.size);
    int status = mine.failed ? et_alloc_failed(error, share->count * rows.size, "rows") : ET_OK;
    status = et_collected_take(&g->rest, ranks_of(share), status, mine.data, mine.length, error);
    et_strbuf_release(&mine);
    for (size_t i = 0; !status && i < share->count; i++) {
        const char *row = et_collected_next(&g->rest, share->samples[i].rank, rows.size);
        if (!row)
            return fail_apart(error);
        memcpy(row_of(rows, share->samples[i].sample), row, rows.size);
    }
    return status;
}

static int join_rows(const et_share *share, given *g, et_error *error)
{
    et_kept_rows rows;
    int status = ET_OK;
    for (int i = 0; !status && kept_rows(share, i, &rows); i++)
        status = join_array(share, rows, g, error);
    return status;
}

static int give_values(const et_share_options *o, const void *bytes, size_t size, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *outputs;
    int status = et_value_read_bytes(&outputs, &arena, bytes, size, error);
    if (!status)
        status = o->output(o->self, outputs, error);
    et_arena_release(&arena);
    return status;
}

static int give_row(const et_share *share, given *g, int rank, et_error *error)
{
    const et_share_options *o = &share->options;
    size_t size;
    const char *at = et_collected_next(&g->rest, rank, sizeof size);
    if (at) {
        memcpy(&size, at, sizeof size);
        at = et_collected_next(&g->rest, rank, size);
    }
    if (!at)
        return fail_apart(error);
    return share->row ? share->row(o->self, at, size, error) : give_values(o, at, size, error);
}

static int join_outputs(const et_share *share, given *g, et_error *error)
{
    et_comm *comm = ranks_of(share);
    const et_strbuf *mine = &share->outputs;
    int status = ET_OK;
    if (!has_sink(share))
        return ET_OK;
    status = et_collected_take(&g->rest, comm, ET_OK, mine->data, mine->length, error);
    for (int64_t i = 0; !status && i < share->batches; i++)
        status = give_row(share, g, (int)(i % et_comm_size(comm)), error);
    return status;
}

static int join(et_share *share, int status, given *g, et_error *error)
{
    const et_share_options *o = &share->options;
    if (!status)
        status = open_given(g, o->comm, largest_set(o), error);
    status = et_comm_agree(o->comm, status, &share->flags, error);
    if (!status)
        status = join_metrics(share, g, error);
    if (!status)
        status = join_rows(share, g, error);
    return status ? status : join_outputs(share, g, error);
}

/* What the last of it needs may fail on one rank alone. */
int et_share_join(et_share *share, int status, et_error *error)
{
    given g = { .states = NULL };
    if (is_alone(share))
        return status;
    status = join(share, status, &g, error);
    release_given(&g);
    return et_comm_agree(ranks_of(share), status, NULL, error);
}

/* ---- by whom ---- */

static int spread_values(et_value *values, int status, et_comm *comm, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    const et_value *first = values;
    status = et_comm_agree(comm, status, NULL, error);
    if (!status)
        status = et_values_spread(values, &first, &arena, comm, error);
    if (!status && first != values)
        status = et_value_merge(values, first, error);
    et_arena_release(&arena);
    return et_comm_agree(comm, status, NULL, error);
}

int et_evaluate_on_ranks(et_evaluator *evaluator, et_comm *comm, int64_t step, int64_t limit,
                         bool (*stops)(void *payload), void *payload, et_value *logs,
                         et_error *error)
{
    bool together = et_comm_size(comm) == 1 || evaluator->comm;
    int status = together || !et_comm_rank(comm)
                     ? et_evaluate(evaluator, step, limit, stops, payload, logs, error)
                     : ET_OK;
    return together ? status : spread_values(logs, status, comm, error);
}
