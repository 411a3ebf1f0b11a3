/* An evaluator. A run goes from the beginning of the source to the end of its pass and adds
 * weight times value, batch by batch. Doubles are added in the order of batches, so every run has
 * the same bits, for any number of ranks: the row of a batch is the weight and the value of each
 * metric, and rows come in that order (eval_shard.h). */
#include <etude/loop_evaluator.h>

#include <math.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/options.h"
#include "data/batches/source.h"
#include "systems/tfsnippet/loop_private.h"
#include "train/ranks/eval_shard.h"

struct et_loop_evaluator {
    et_loop *loop; /* borrowed */
    et_loop_evaluator_options options;
    char *time_metric; /* owned; "": none */
    et_event_hub *events;
    et_measures measures;
    et_bound_values bound;
    et_batch_cursor cursor;
    double *row; /* [2, metrics], of a batch: weight of each metric (0: no value), its value */
    double *sums, *weights;
    et_eval_shard shard;   /* who evaluates which batch */
    et_bound_values *more; /* of the run */
    et_loop_metric *last;  /* [metrics]: those that had values in the last run come first */
    int last_count;
    bool running;
};

#define LOSSES (-1)

static int add_measure(et_measures *measures, const et_loop_measure *one, const char *unnamed,
                       et_error *error)
{
    const et_pass *pass = one->measure ? measures->pass : NULL;
    const int count = pass ? et_pass_measures(pass) : 0, i = measures->count;
    const char *name = one->name ? one->name : unnamed;
    if (!name || !*name)
        return et_fail(error, ET_ECONFIG,
                       "metric %d has no name, and the loop has no valid_metric_name", i);
    int at = 0;
    while (at < count && strcmp(et_pass_measured(pass, at).name, one->measure) != 0)
        at++;
    if (pass && at == count)
        return et_fail(error, ET_ECONFIG, "the pass has no measure %s; it has %s%s", one->measure,
                       count ? et_pass_measured(pass, 0).name : "nothing",
                       count > 1 ? " and others" : "");
    char *copy = et_strdup(name);
    if (!copy)
        return et_alloc_failed(error, strlen(name), "a metric");
    measures->index[i] = pass ? at : LOSSES;
    measures->metrics[measures->count++] = (et_loop_metric){ .name = copy, .value = NAN };
    return ET_OK;
}

int et_measures_init(et_measures *measures, et_pass *pass, const et_loop_measure *list, int count,
                     const char *unnamed, et_error *error)
{
    *measures = (et_measures){ .pass = pass };
    if (count < 0 || (count && !list))
        return et_fail(error, ET_ECONFIG, "%d metrics, but the list is NULL", count);
    if (!count)
        return ET_OK;
    measures->metrics = et_alloc_zero((size_t)count, sizeof *measures->metrics);
    measures->given = et_alloc_zero((size_t)count, sizeof *measures->given);
    measures->index = et_alloc_zero((size_t)count, sizeof *measures->index);
    int status = measures->metrics && measures->given && measures->index
                     ? ET_OK
                     : et_alloc_failed(error, (size_t)count * sizeof *measures->metrics, "metrics");
    for (int i = 0; !status && i < count; i++)
        status = add_measure(measures, &list[i], unnamed, error);
    if (status)
        et_measures_release(measures);
    return status;
}

void et_measures_release(et_measures *measures)
{
    for (int i = 0; measures->metrics && i < measures->count; i++)
        et_free((char *)measures->metrics[i].name);
    et_free(measures->metrics);
    et_free(measures->given);
    et_free(measures->index);
    *measures = (et_measures){ .pass = NULL };
}

static bool measured_value(const et_measures *measures, int i, double *value)
{
    et_assert(measures->pass && i >= 0 && i < measures->count);
    const et_shards *shards = measures->shards;
    int at = measures->index[i];
    et_assert(at == LOSSES || (at >= 0 && at < et_pass_measures(measures->pass)));
    et_measured one = { NULL, 0, 0 };
    if (at != LOSSES)
        one = shards ? et_shards_measured(shards, at) : et_pass_measured(measures->pass, at);
    else if (shards)
        one = (et_measured){ NULL, et_shards_loss(shards), et_shards_divisor(shards) };
    else
        one = (et_measured){ NULL, et_pass_loss(measures->pass), et_pass_divisor(measures->pass) };
    *value = one.total / one.weight;
    return one.weight > 0;
}

int et_measures_read(et_measures *measures)
{
    int given = 0;
    for (int i = 0; i < measures->count; i++) {
        double value;
        if (!measured_value(measures, i, &value))
            continue;
        measures->given[given] = measures->metrics[i];
        measures->given[given++].value = value;
    }
    return given;
}

static int add(void *self, const void *row, size_t size, et_error *error)
{
    et_loop_evaluator *e = self;
    const int metrics = e->measures.count;
    if (size != 2 * (size_t)metrics * sizeof(double))
        return et_fail(error, ET_EFAIL, "ranks evaluate different metrics");
    if (row != e->row)
        memcpy(e->row, row, size);
    for (int i = 0; i < metrics; i++)
        if (e->row[i] > 0) {
            e->sums[i] += e->row[i] * e->row[metrics + i];
            e->weights[i] += e->row[i];
        }
    return ET_OK;
}

static int open_parts(et_loop_evaluator *e, et_error *error)
{
    static const char *const allowed[] = { ET_EVENT_BEFORE_EXECUTION, ET_EVENT_AFTER_EXECUTION };
    static const et_loop_measure loss = { .name = NULL };
    const et_loop_evaluator_options *o = &e->options;
    const char *time = o->time_metric ? o->time_metric : "eval_time";
    const char *unnamed = et_loop_valid_metric_name(e->loop);
    e->time_metric = et_strdup(time);
    int status = e->time_metric ? ET_OK : et_alloc_failed(error, strlen(time), "an evaluator");
    if (!status)
        status = et_event_hub_new(&e->events, allowed, 2, error);
    if (!status && o->pass)
        status = et_pass_prepare(o->pass, &o->source->layout, error);
    if (!status)
        status = et_measures_init(&e->measures, o->pass, o->metric_count ? o->metrics : &loss,
                                  o->metric_count ? o->metric_count : 1, unnamed, error);
    if (!status)
        status = et_bound_values_init(&e->bound, e->loop->params, o->bound_values,
                                      o->bound_value_count, error);
    if (!status)
        status = et_batch_cursor_open(&e->cursor, o->source, error);
    if (status)
        return status;
    size_t count = (size_t)e->measures.count;
    e->row = et_alloc_zero(2 * count, sizeof *e->row);
    e->sums = et_alloc_zero(count, sizeof *e->sums);
    e->weights = et_alloc_zero(count, sizeof *e->weights);
    e->last = et_alloc_zero(count, sizeof *e->last);
    return e->row && e->sums && e->weights && e->last
               ? ET_OK
               : et_alloc_failed(error, 5 * count * sizeof *e->row, "an evaluator");
}

int et_loop_evaluator_open(et_loop_evaluator **out, et_loop *loop,
                           const et_loop_evaluator_options *o, et_error *error)
{
    int status = et_options_need(o, "et_loop_evaluator_options", error);
    *out = NULL;
    if (status)
        return status;
    if (!o->source)
        return et_fail(error, ET_ECONFIG, "an evaluator needs a source");
    if (!o->pass == !o->run_batch)
        return et_fail(error, ET_ECONFIG, "an evaluator needs either a pass or run_batch");
    if (o->weight && o->equal_weights)
        return et_fail(error, ET_ECONFIG,
                       "give either equal weights for batches or a function for weights");
    if (loop->phase == ET_LOOP_ENDED)
        return et_fail(error, ET_EUSAGE, "the loop has ended: open a new loop");
    et_loop_evaluator *e = et_alloc_zero(1, sizeof *e);
    if (!e)
        return et_alloc_failed(error, sizeof *e, "an evaluator");
    e->loop = loop;
    e->options = *o;
    /* The loop's ranks, unless run_batch may have to see all batches. */
    bool together = o->pass || o->run_batch_by_ranks;
    e->shard.options =
        (et_eval_shard_options){ .comm = together ? loop->options.comm : NULL, .self = e };
    e->shard.row = add;
    status = open_parts(e, error);
    if (status)
        et_loop_evaluator_close(e);
    else
        *out = e;
    return status;
}

void et_loop_evaluator_close(et_loop_evaluator *e)
{
    if (!e)
        return;
    et_event_hub_free(e->events);
    et_measures_release(&e->measures);
    et_bound_values_release(&e->bound);
    et_batch_cursor_release(&e->cursor);
    et_eval_shard_release(&e->shard);
    et_free(e->row);
    et_free(e->sums);
    et_free(e->weights);
    et_free(e->last);
    et_free(e->time_metric);
    et_free(e);
}

/* ---- a run ---- */

static int run_batch(et_loop_evaluator *e, int64_t number, et_error *error)
{
    const et_loop_evaluator_options *o = &e->options;
    const et_batch *batch = e->cursor.batch;
    const int metrics = e->measures.count;
    double *values = e->row + metrics;
    const double weight = o->weight          ? o->weight(o->payload, batch)
                          : o->equal_weights ? 1
                                             : (double)batch->filled[0];
    if (!(weight >= 0 && isfinite(weight)))
        return et_fail(error, ET_EDATA,
                       "a batch has the weight %g: give a finite number of at least 0", weight);
    int status = o->pass ? et_pass_run(o->pass, batch, o->seed, (uint64_t)number, error)
                         : o->run_batch(o->payload, batch, values, error);
    if (status)
        return status;
    for (int i = 0; i < metrics; i++) {
        bool counted = o->pass ? measured_value(&e->measures, i, &values[i]) : !isnan(values[i]);
        e->row[i] = counted ? weight : 0;
    }
    return et_eval_shard_keep_row(&e->shard, e->row, 2 * (size_t)metrics * sizeof *e->row, error);
}

/* Every rank applies the bound values for every batch, so that random ones agree. */
static int take_batch(void *self, const et_batch *batch, int64_t number, bool mine, et_error *error)
{
    et_loop_evaluator *e = self;
    et_assert(batch == e->cursor.batch);
    int status = et_bound_values_apply(&e->bound, error);
    if (!status)
        status = et_bound_values_apply(e->more, error);
    return status || !mine ? status : run_batch(e, number, error);
}

static int run_batches(et_loop_evaluator *e, et_error *error)
{
    size_t bytes = (size_t)e->measures.count * sizeof(double);
    memset(e->sums, 0, bytes);
    memset(e->weights, 0, bytes);
    et_eval_shard_begin(&e->shard);
    int status = et_source_claim(e->cursor.source, "an evaluator", error);
    const bool claimed = !status;
    if (!status)
        status = et_batch_cursor_rewind(&e->cursor, false, error);
    if (!status)
        status = et_eval_shard_batches(&e->shard, &e->cursor, take_batch, error);
    if (claimed)
        et_source_end(e->cursor.source);
    return et_eval_shard_join(&e->shard, status, error);
}

static int evaluate(et_loop_evaluator *e, et_bound_values *more, et_error *error)
{
    bool timed = *e->time_metric;
    int status = timed ? et_loop_time_begin(e->loop, e->time_metric) : ET_OK;
    if (!status)
        status = et_loop_fire_of(e->loop, e->events, ET_EVENT_BEFORE_EXECUTION, e, false, error);
    if (!status) {
        et_bound_values_keep(&e->bound);
        et_bound_values_keep(more);
        e->more = more;
        status = run_batches(e, error);
        et_bound_values_put_back(more);
        et_bound_values_put_back(&e->bound);
    }
    if (!status) {
        e->last_count = 0;
        for (int i = 0; i < e->measures.count; i++)
            if (e->weights[i] > 0) {
                e->last[e->last_count] = e->measures.metrics[i];
                e->last[e->last_count++].value = e->sums[i] / e->weights[i];
            }
        if (!e->last_count)
            et_log(
                ET_LOG_WARNING,
                "an evaluation has no values: its source gave no batch, or no batch has a value");
        else if ((status = et_loop_collect_metrics(e->loop, e->last, e->last_count)))
            et_fail(error, status, "%s", e->loop->error.text);
    }
    if (!status)
        status = et_loop_fire_of(e->loop, e->events, ET_EVENT_AFTER_EXECUTION, e, true, error);
    if (!status && timed)
        status = et_loop_time_end(e->loop, e->time_metric);
    et_loop_drop_timer(e->loop, e->time_metric);
    return status;
}

int et_loop_evaluator_run(et_loop_evaluator *e, const et_bound_value *values, int count,
                          et_error *error)
{
    et_error failure = ET_ERROR_INIT;
    et_bound_values more;
    et_assert(e->loop && e->events && e->cursor.batch && e->time_metric);
    et_assert(e->options.source && !e->options.pass != !e->options.run_batch);
    et_assert(e->measures.count > 0 && e->measures.pass == e->options.pass);
    et_assert(e->last_count >= 0 && e->last_count <= e->measures.count);
    et_assert(e->row && e->sums && e->weights);
    if (e->running)
        return et_fail(
            error, ET_EUSAGE,
            "the evaluator is already running: do not run it from one of its own functions");
    int status = et_bound_values_init(&more, e->loop->params, values, count, error);
    if (status)
        return status;
    e->running = true;
    status = et_loop_explain(e->loop, evaluate(e, &more, &failure), &failure);
    e->running = false;
    et_bound_values_release(&more);
    return status ? et_fail(error, status, "%s", failure.text) : ET_OK;
}

/* ---- getters ---- */

double et_loop_evaluator_last(const et_loop_evaluator *e, const char *name)
{
    for (int i = 0; i < e->last_count; i++)
        if (!name || !strcmp(e->last[i].name, name))
            return e->last[i].value;
    return NAN;
}

int et_loop_evaluator_last_metrics(const et_loop_evaluator *e, const et_loop_metric **metrics)
{
    *metrics = e->last;
    return e->last_count;
}

et_event_hub *et_loop_evaluator_events(et_loop_evaluator *e)
{
    return e->events;
}
