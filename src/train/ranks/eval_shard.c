/* Shared evaluations. Each rank sees every batch and evaluates every n-th, by rank. At the end all
 * ranks have the results of one process:
 *
 *   metrics   sums of all ranks, added in the order of ranks
 *   rows      arrays that are kept by sample, from the rank that evaluated the sample
 *   outputs   of steps, from the rank of the batch, passed to the caller in the order of batches
 *
 * Work that needs memory or calls the caller's code may fail on one rank alone, so ranks agree
 * before each exchange (comm.h). */
#include "train/ranks/eval_shard.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/values/value.h"
#include "base/vector.h"
#include "engine/comm/together.h"
#include "metric/metric.h"
#include "train/ranks/broadcast.h"
#include "train/ranks/collected.h"

int et_eval_shard_open(et_eval_shard **out, const et_eval_shard_options *options, et_error *error)
{
    *out = NULL;
    int status = options && (options->sets < 0 || (options->sets && !options->metrics))
                     ? et_fail(error, ET_ECONFIG,
                               "%d sets of metrics to join, but the array is NULL", options->sets)
                     : ET_OK;
    if (status)
        return status;
    if (ET_ALLOC_ZERO(*out, 1, "an evaluation", error))
        return ET_ENOMEM;
    if (options)
        (*out)->options = *options;
    return ET_OK;
}

void et_eval_shard_close(et_eval_shard *shard)
{
    if (shard)
        et_eval_shard_release(shard);
    et_free(shard);
}

static void sane(const et_eval_shard *shard)
{
    const et_eval_shard_options *o = &shard->options;
    et_assert(shard->batches >= 0);
    et_assert(shard->count <= shard->capacity);
    et_assert(o->sets >= 0 && (!o->sets || o->metrics));
    et_assert(!shard->count || o->kept);
    et_assert(!shard->row || !o->output);
    et_assert(!shard->outputs.length || ((shard->row || o->output) && et_comm_size(o->comm) > 1));
}

static bool kept_rows(const et_eval_shard *shard, int number, et_kept_rows *rows)
{
    const et_eval_shard_options *o = &shard->options;
    return o->kept && o->kept(o->self, number, rows);
}

void et_eval_shard_begin(et_eval_shard *shard)
{
    sane(shard);
    shard->batches = 0;
    shard->count = 0;
    et_strbuf_reset(&shard->outputs);
    et_kept_rows rows;
    for (int i = 0; kept_rows(shard, i, &rows); i++)
        memset(rows.data, 0, (size_t)rows.rows * rows.size);
}

void et_eval_shard_release(et_eval_shard *shard)
{
    et_strbuf_release(&shard->outputs);
    et_free(shard->samples);
    *shard = (et_eval_shard){ .batches = 0 };
}

static bool is_alone(const et_eval_shard *shard)
{
    return et_comm_size(shard->options.comm) == 1;
}

int et_eval_shard_next(et_eval_shard *shard, const et_batch *batch, bool *mine, et_error *error)
{
    sane(shard);
    int rank = (int)(shard->batches++ % et_comm_size(shard->options.comm));
    *mine = rank == et_comm_rank(shard->options.comm);
    if (!shard->options.kept || is_alone(shard))
        return ET_OK;
    size_t count = (size_t)batch->filled[0];
    if (!ET_VECTOR_GROW(shard->samples, shard->capacity, shard->count + count))
        return et_alloc_failed(error, "an evaluation");
    for (size_t i = 0; i < count; i++)
        shard->samples[shard->count++] = (et_eval_shard_sample){ batch->sample[i], rank };
    return ET_OK;
}

int et_eval_shard_batches(et_eval_shard *shard, et_batch_cursor *cursor,
                          et_eval_shard_batch_fn *run, et_error *error)
{
    int status = ET_OK;
    for (;;) {
        bool over, mine = false;
        status = et_batch_cursor_next(cursor, &over, error);
        if (status || over)
            return status;
        const int64_t number = shard->batches;
        if ((status = et_eval_shard_next(shard, cursor->batch, &mine, error)) ||
            (status = run(shard->options.self, cursor->batch, number, mine, error)))
            return status;
    }
}

/* ---- rows: their size, then their bytes ---- */

static int end_row(et_eval_shard *shard, size_t at, et_error *error)
{
    et_strbuf *to = &shard->outputs;
    size_t size = 0;
    if (to->failed)
        return et_alloc_failed(error, "a step's logs");
    size = to->length - at - sizeof size;
    memcpy(to->data + at, &size, sizeof size);
    return ET_OK;
}

int et_eval_shard_keep(et_eval_shard *shard, const et_value *outputs, et_error *error)
{
    const et_eval_shard_options *o = &shard->options;
    et_assert(outputs || !o->output);
    if (!o->output)
        return ET_OK;
    if (is_alone(shard))
        return o->output(o->self, outputs, error);
    const size_t at = shard->outputs.length, size = 0;
    et_strbuf_append_bytes(&shard->outputs, &size, sizeof size);
    et_value_write_bytes(&shard->outputs, outputs);
    return end_row(shard, at, error);
}

int et_eval_shard_keep_row(et_eval_shard *shard, const void *row, size_t size, et_error *error)
{
    const size_t at = shard->outputs.length;
    et_assert(shard->row);
    if (is_alone(shard))
        return shard->row(shard->options.self, row, size, error);
    et_strbuf_append_bytes(&shard->outputs, &size, sizeof size);
    et_strbuf_append_bytes(&shard->outputs, row, size);
    return end_row(shard, at, error);
}

/* ---- metrics ---- */

/* Whatever the order: merging is exact. */
static void merge_others(et_metrics *metrics, const et_comm *comm, const void *all, size_t size)
{
    for (int r = 0; size && r < et_comm_size(comm); r++)
        if (r != et_comm_rank(comm))
            et_metrics_merge_bytes(metrics, (const unsigned char *)all + (size_t)r * size);
}

int et_metrics_sum_ranks(et_metrics *metrics, et_comm *comm, et_error *error)
{
    void *bytes, *all;
    if (et_comm_size(comm) == 1)
        return ET_OK;
    const size_t size = et_metrics_bytes(metrics, &bytes);
    int status = et_together_table(comm, ET_OK, bytes, size, &all, error);
    if (!status)
        merge_others(metrics, comm, all, size);
    et_free(all);
    return status;
}

/* ---- joining ---- */

/* All ranks make the same calls; work that may fail on one rank comes before an agreement. */

/* Data from every rank. */
typedef struct given {
    et_collected rest;
    void *states; /* room for one set of metrics of each */
} given;

static int fail_apart(et_error *error)
{
    return et_fail(error, ET_EFAIL, "ranks evaluated different batches");
}

static char *row_of(et_kept_rows rows, uint32_t sample)
{
    et_assert((int64_t)sample < rows.rows);
    return (char *)rows.data + sample * rows.size;
}

static int join_array(const et_eval_shard *shard, et_kept_rows rows, given *g, et_error *error)
{
    et_strbuf mine = ET_STRBUF_INIT;
    for (size_t i = 0; i < shard->count; i++)
        if (shard->samples[i].rank == et_comm_rank(shard->options.comm))
            et_strbuf_append_bytes(&mine, row_of(rows, shard->samples[i].sample), rows.size);
    int status = mine.failed ? et_alloc_failed(error, "rows") : ET_OK;
    status =
        et_collected_take(&g->rest, shard->options.comm, status, mine.data, mine.length, error);
    et_strbuf_release(&mine);
    for (size_t i = 0; !status && i < shard->count; i++) {
        const char *row = et_collected_next(&g->rest, shard->samples[i].rank, rows.size);
        if (!row)
            return fail_apart(error);
        memcpy(row_of(rows, shard->samples[i].sample), row, rows.size);
    }
    return status;
}

static int give_row(const et_eval_shard *shard, given *g, int rank, et_error *error)
{
    const et_eval_shard_options *o = &shard->options;
    size_t size;
    const char *at = et_collected_next(&g->rest, rank, sizeof size);
    if (at) {
        memcpy(&size, at, sizeof size);
        at = et_collected_next(&g->rest, rank, size);
    }
    if (!at)
        return fail_apart(error);
    if (shard->row)
        return shard->row(o->self, at, size, error);
    et_arena arena = ET_ARENA_INIT;
    et_value *outputs;
    int status = et_value_read_bytes(&outputs, &arena, at, size, error);
    if (!status)
        status = o->output(o->self, outputs, error);
    et_arena_release(&arena);
    return status;
}

static int join(et_eval_shard *shard, int status, given *g, et_error *error)
{
    const et_eval_shard_options *o = &shard->options;
    const et_strbuf *outputs = &shard->outputs;
    void *bytes;
    if (!status) {
        size_t most = 1, ranks = (size_t)et_comm_size(o->comm);
        for (int i = 0; i < o->sets; i++) {
            const size_t size = et_metrics_bytes(o->metrics[i], &bytes);
            most = size > most ? size : most;
        }
        g->states = et_alloc(ranks, most);
        status = g->states ? et_collected_open(&g->rest, o->comm, error)
                           : et_alloc_failed(error, "an evaluation");
    }
    status = et_comm_agree(o->comm, status, &shard->flags, error);
    for (int i = 0; !status && i < o->sets; i++) {
        const size_t size = et_metrics_bytes(o->metrics[i], &bytes);
        status = size ? et_comm_gather(o->comm, bytes, size, g->states, error) : ET_OK;
        if (!status)
            merge_others(o->metrics[i], o->comm, g->states, size);
    }
    et_kept_rows rows;
    for (int i = 0; !status && kept_rows(shard, i, &rows); i++)
        status = join_array(shard, rows, g, error);
    if (status || !(shard->row || o->output))
        return status;
    status = et_collected_take(&g->rest, o->comm, ET_OK, outputs->data, outputs->length, error);
    for (int64_t i = 0; !status && i < shard->batches; i++)
        status = give_row(shard, g, (int)(i % et_comm_size(o->comm)), error);
    return status;
}

/* The last part of the work may fail on a single rank, so ranks agree afterwards. */
int et_eval_shard_join(et_eval_shard *shard, int status, et_error *error)
{
    given g = { .states = NULL };
    if (is_alone(shard))
        return status;
    status = join(shard, status, &g, error);
    et_collected_release(&g.rest);
    et_free(g.states);
    return et_comm_agree(shard->options.comm, status, NULL, error);
}

/* ---- by whom ---- */

int et_evaluate_on_ranks(et_evaluator *evaluator, et_comm *comm, int64_t step, int64_t limit,
                         bool (*stops)(void *payload), void *payload, et_value *logs,
                         et_error *error)
{
    bool together = et_comm_size(comm) == 1 || evaluator->comm;
    int status = together || !et_comm_rank(comm)
                     ? et_evaluate(evaluator, step, limit, stops, payload, logs, error)
                     : ET_OK;
    if (together)
        return status;
    et_arena arena = ET_ARENA_INIT;
    const et_value *first = logs;
    status = et_values_broadcast(logs, &first, &arena, comm, status, error);
    if (!status && first != logs)
        status = et_value_merge(logs, first, error);
    et_arena_release(&arena);
    return et_comm_agree(comm, status, NULL, error);
}
