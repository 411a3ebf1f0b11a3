/* An evaluator and a trainer. An evaluation goes from the beginning of the source to the end of its
 * pass and adds weight times value, batch by batch. Each batch gives a row: the weight, and the
 * value of each metric. Rows arrive in the order of batches (eval_shard.h) and are added as
 * doubles, so the bits do not depend on the number of ranks. */
#include <etude/loop_evaluator.h>

#include <math.h>
#include <string.h>

#include <etude/comm.h>
#include <etude/log.h>
#include <etude/loop_trainer.h>
#include <etude/summary_message.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/options.h"
#include "base/vector.h"
#include "data/batches/source.h"
#include "engine/tensor/tensor.h"
#include "systems/tfsnippet/loop_private.h"
#include "train/ranks/eval_shard.h"

/* ---- values of a pass as metrics of a loop ---- */

typedef struct measured {
    et_pass *pass;           /* borrowed; NULL: values come from elsewhere */
    const et_shards *shards; /* borrowed; that the pass runs in, or NULL */
    et_arena arena;          /* of what follows */
    et_loop_metric *metrics; /* [count] */
    et_loop_metric *given;   /* [count]: the measures with a value, from measures_read */
    int *index;              /* [count]: in the pass; -1: the sum of its losses */
    int count;
} measured;

#define LOSSES (-1)

static int add_measure(measured *measures, const et_loop_measure *one, const char *unnamed,
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
    const char *copy = et_arena_strdup(&measures->arena, name);
    measures->index[i] = pass ? at : LOSSES;
    measures->metrics[measures->count++] = (et_loop_metric){ .name = copy, .value = NAN };
    return copy ? ET_OK : et_alloc_failed(error, "a metric");
}

/* pass, if there is one, is prepared. unnamed: the name of a metric without a name; NULL: every
 * metric has a name. ET_ECONFIG: a name is missing, or the pass has no such measure. The owner
 * releases the arena, after a failure too. */
static int measures_init(measured *measures, et_pass *pass, const et_loop_measure *list, int count,
                         const char *unnamed, et_error *error)
{
    *measures = (measured){ .pass = pass };
    if (count < 0 || (count && !list))
        return et_fail(error, ET_ECONFIG, "%d metrics, but the list is NULL", count);
    const size_t most = (size_t)count;
    measures->metrics = et_arena_array(&measures->arena, most, sizeof *measures->metrics);
    measures->given = et_arena_array(&measures->arena, most, sizeof *measures->given);
    measures->index = et_arena_array(&measures->arena, most, sizeof *measures->index);
    int status = measures->arena.failed ? et_alloc_failed(error, "metrics") : ET_OK;
    for (int i = 0; !status && i < count; i++)
        status = add_measure(measures, &list[i], unnamed, error);
    return status;
}

static bool measured_value(const measured *measures, int i, double *value)
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

/* Reads all measures with a value into given; returns their number. */
static int measures_read(measured *measures)
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

/* ---- an evaluator ---- */

struct et_loop_evaluator {
    et_loop *loop; /* borrowed */
    et_loop_evaluator_options options;
    et_arena arena;          /* of texts and arrays */
    const char *time_metric; /* "": none */
    et_event_hub *events;
    measured measures;
    et_bound_values bound;
    et_batch_cursor cursor;
    double *row; /* [2, metrics], of a batch: weight of each metric (0: no value), its value */
    double *sums, *weights;
    et_eval_shard shard;   /* divides batches among ranks */
    et_bound_values *more; /* of the run */
    et_loop_metric *last;  /* [metrics]: metrics that had values in the last run come first */
    int last_count;
    bool running;
};

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

static int open_evaluator(et_loop_evaluator *e, et_error *error)
{
    static const char *const allowed[] = { ET_EVENT_BEFORE_EXECUTION, ET_EVENT_AFTER_EXECUTION };
    static const et_loop_measure loss = { .name = NULL };
    const et_loop_evaluator_options *o = &e->options;
    const char *time = o->time_metric ? o->time_metric : "eval_time";
    const char *unnamed = et_loop_valid_metric_name(e->loop);
    int status;
    if ((status = et_event_hub_new(&e->events, allowed, 2, error)) ||
        (o->pass && (status = et_pass_prepare(o->pass, &o->source->layout, error))) ||
        (status = measures_init(&e->measures, o->pass, o->metric_count ? o->metrics : &loss,
                                o->metric_count ? o->metric_count : 1, unnamed, error)) ||
        (status = et_bound_values_init(&e->bound, e->loop->params, o->bound_values,
                                       o->bound_value_count, error)) ||
        (status = et_batch_cursor_open(&e->cursor, o->source, error)))
        return status;
    size_t count = (size_t)e->measures.count;
    e->time_metric = et_arena_strdup(&e->arena, time);
    e->row = et_arena_array(&e->arena, 2 * count, sizeof *e->row);
    e->sums = et_arena_array(&e->arena, count, sizeof *e->sums);
    e->weights = et_arena_array(&e->arena, count, sizeof *e->weights);
    e->last = et_arena_array(&e->arena, count, sizeof *e->last);
    return e->arena.failed ? et_alloc_failed(error, "an evaluator") : ET_OK;
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
    et_loop_evaluator *e;
    if (ET_ALLOC_ZERO(e, 1, "an evaluator", error))
        return ET_ENOMEM;
    e->loop = loop;
    e->options = *o;
    /* The loop's ranks, unless run_batch may have to see all batches. */
    bool together = o->pass || o->run_batch_by_ranks;
    e->shard.options =
        (et_eval_shard_options){ .comm = together ? loop->options.comm : NULL, .self = e };
    e->shard.row = add;
    status = open_evaluator(e, error);
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
    et_arena_release(&e->measures.arena);
    et_bound_values_release(&e->bound);
    et_batch_cursor_release(&e->cursor);
    et_eval_shard_release(&e->shard);
    et_arena_release(&e->arena);
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
                         : et_callback_status(o->run_batch(o->payload, batch, values, error),
                                              "run_batch", error);
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
    size_t bytes = e->measures.count * sizeof(double);
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

static int run_evaluation(et_loop_evaluator *e, et_bound_values *more, et_error *error)
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
    status = et_loop_explain(e->loop, run_evaluation(e, &more, &failure), &failure);
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

/* ---- a trainer ---- */

/* A trainer of a loop. It calls the loop's next epoch and next step, and fires its own events in
 * between, in the order of include/etude/loop_trainer.h. A hook is a handler of one of these events
 * that first checks the loop's counter. So the state that is saved after a step contains the
 * results of the step's evaluation, annealing and logging. */

/* The trainer frees hooks only when it is closed, because a hook may remove itself. */
typedef struct hook {
    et_loop_trainer *trainer;
    int kind;
    et_every every;
    et_hook_fn *call;
    void *payload;
    bool removed;
} hook;

struct et_loop_trainer {
    et_loop *loop; /* borrowed */
    et_loop_trainer_options options;
    et_event_hub *events;
    measured measures;
    et_shards *shards; /* NULL: batches are not split */
    et_bound_values bound;
    et_arena arena;
    et_value *summaries; /* names and values, in arena; NULL: none are written */
    hook **hooks;        /* [hook_count], each owned */
    size_t hook_count, hook_capacity;
    bool running;
    bool noted; /* the loop saves the optimizer */
    int status; /* the first failure of the run, after which no event is fired and no step is run */
    et_error error;
};

static const char *const hook_events[ET_HOOK_KINDS][2] = {
    [ET_HOOK_EVALUATION] = { ET_EVENT_EPOCH_EVALUATION, ET_EVENT_STEP_EVALUATION },
    [ET_HOOK_ANNEALING] = { ET_EVENT_EPOCH_ANNEALING, ET_EVENT_STEP_ANNEALING },
    [ET_HOOK_LOGGING] = { ET_EVENT_EPOCH_LOGGING, ET_EVENT_STEP_LOGGING },
};

static const char *const all_events[] = {
    ET_EVENT_BEFORE_EXECUTION, ET_EVENT_AFTER_EXECUTION, ET_EVENT_BEFORE_EPOCH,
    ET_EVENT_EPOCH_EVALUATION, ET_EVENT_EPOCH_ANNEALING, ET_EVENT_EPOCH_LOGGING,
    ET_EVENT_AFTER_EPOCH,      ET_EVENT_BEFORE_STEP,     ET_EVENT_STEP_EVALUATION,
    ET_EVENT_STEP_ANNEALING,   ET_EVENT_STEP_LOGGING,    ET_EVENT_AFTER_STEP,
};

/* ---- opening and closing ---- */

/* With shards, a pass has only the outputs of its last shard. Histograms need the outputs of a
 * whole batch. */
static int check_histograms(const et_loop *loop, const et_loop_trainer_options *o, et_error *error)
{
    if (o->histogram_count < 0 || (o->histogram_count && !o->histograms))
        return et_fail(error, ET_ECONFIG, "%d histograms, but the list of names is NULL",
                       o->histogram_count);
    for (int i = 0; i < o->histogram_count; i++) {
        const char *name = o->histograms[i];
        if (!name)
            return et_fail(error, ET_ECONFIG, "histogram %d has no name", i);
        if (et_params_find(loop->params, name) >= 0 || (o->pass && o->shards <= 1))
            continue;
        return et_fail(error, ET_ECONFIG,
                       "histogram %s: the store has no such parameter or variable, and %s", name,
                       o->pass ? "an output needs a pass over the whole batch, without shards"
                               : "an output needs a pass: give one");
    }
    return ET_OK;
}

static int check(const et_loop *loop, const et_loop_trainer_options *o, et_error *error)
{
    int status = et_options_need(o, "et_loop_trainer_options", error);
    if (status)
        return status;
    if (!et_loop_max_epoch(loop) && !et_loop_max_step(loop))
        return et_fail(error, ET_ECONFIG, "the loop of a trainer needs max_epoch or max_step");
    if (!o->step && (!o->pass || !o->optimizer || !o->source))
        return et_fail(error, ET_ECONFIG,
                       "a trainer needs a step, or a source, a pass and an optimizer");
    if ((o->metric_count || o->summary_count) && !o->pass)
        return et_fail(error, ET_ECONFIG, "metrics and summaries need a pass: give one");
    if (o->summary_count < 0 || (o->summary_count && !o->summaries))
        return et_fail(error, ET_ECONFIG, "%d summaries, but the list of names is NULL",
                       o->summary_count);
    if (o->shards < 0)
        return et_fail(error, ET_ECONFIG, "%lld shards: give at least 1, or 0 for whole batches",
                       (long long)o->shards);
    if (o->shards && o->step)
        return et_fail(error, ET_ECONFIG,
                       "shards need a pass and an update: for your own step, use et_shards");
    if (o->shards > 1 && o->summary_count)
        return et_fail(
            error, ET_ECONFIG,
            "summaries need a pass over the whole batch, but the batch is split into %lld shards",
            (long long)o->shards);
    return check_histograms(loop, o, error);
}

static int note_optimizer(et_loop *loop, et_optimizer *optimizer, et_error *error)
{
    if (et_state_has(loop->state, optimizer, NULL))
        return ET_OK;
    if (loop->phase != ET_LOOP_OPEN)
        return !loop->options.checkpoint_dir
                   ? ET_OK
                   : et_fail(error, ET_ECONFIG,
                             "the loop's checkpoints do not include the trainer's optimizer: open "
                             "the trainer before et_loop_begin, or call et_state_add_optimizer");
    if (!ET_VECTOR_APPEND(loop->own.optimizers, loop->own.optimizer_count,
                          loop->own.optimizer_capacity, optimizer))
        return et_alloc_failed(error, "a trainer's optimizer");
    return ET_OK;
}

static void forget_optimizer(et_loop *loop, const et_optimizer *optimizer)
{
    size_t i = 0;
    while (i < loop->own.optimizer_count && loop->own.optimizers[i] != optimizer)
        i++;
    if (i == loop->own.optimizer_count)
        return;
    loop->own.optimizer_count--;
    memmove(&loop->own.optimizers[i], &loop->own.optimizers[i + 1],
            (loop->own.optimizer_count - i) * sizeof *loop->own.optimizers);
}

static int open_trainer(et_loop_trainer *t, et_error *error)
{
    const et_loop_trainer_options *o = &t->options;
    const et_shards_options shards = { .count = o->shards, .comm = t->loop->options.comm };
    int status;
    if ((status = et_event_hub_new(&t->events, all_events, sizeof all_events / sizeof *all_events,
                                   error)) ||
        (o->pass && o->source && (status = et_pass_prepare(o->pass, &o->source->layout, error))) ||
        (status =
             measures_init(&t->measures, o->pass, o->metrics, o->metric_count, "loss", error)) ||
        (!o->step && (o->shards > 1 || et_comm_size(shards.comm) != 1) &&
         (status = et_shards_open(&t->shards, o->pass, &o->source->layout, &shards, error))) ||
        (status = et_bound_values_init(&t->bound, t->loop->params, o->bound_values,
                                       o->bound_value_count, error)))
        return status;
    t->measures.shards = t->shards;
    if (o->summary_count) {
        t->summaries = et_value_dict(&t->arena);
        for (int i = 0; i < o->summary_count; i++)
            et_value_set_float(t->summaries, o->summaries[i], 0);
        if (et_value_failed(t->summaries))
            return et_alloc_failed(error, "summaries");
    }
    if (o->optimizer && !o->step && (status = note_optimizer(t->loop, o->optimizer, error)))
        return status;
    t->noted = o->optimizer && !o->step;
    return ET_OK;
}

int et_loop_trainer_open(et_loop_trainer **out, et_loop *loop,
                         const et_loop_trainer_options *options, et_error *error)
{
    int status = check(loop, options, error);
    *out = NULL;
    et_loop_trainer *t = status ? NULL : et_alloc_zero(1, sizeof *t);
    if (!t)
        return status ? status : et_alloc_failed(error, "a trainer");
    t->loop = loop;
    t->options = *options;
    status = open_trainer(t, error);
    if (status)
        et_loop_trainer_close(t);
    else
        *out = t;
    return status;
}

void et_loop_trainer_close(et_loop_trainer *t)
{
    if (!t)
        return;
    if (t->noted)
        forget_optimizer(t->loop, t->options.optimizer);
    et_event_hub_free(t->events);
    et_arena_release(&t->measures.arena);
    et_shards_close(t->shards);
    et_bound_values_release(&t->bound);
    et_arena_release(&t->arena);
    for (size_t i = 0; i < t->hook_count; i++)
        et_free(t->hooks[i]);
    et_free(t->hooks);
    et_free(t);
}

et_event_hub *et_loop_trainer_events(et_loop_trainer *t)
{
    return t->events;
}

/* ---- a run ---- */

static void fire(et_loop_trainer *t, const char *event, bool reverse)
{
    if (!t->status)
        t->status = et_loop_fire_of(t->loop, t->events, event, t, reverse, &t->error);
}

/* Converts the status of a loop's call: the error text is in the loop. */
static int reported(const et_loop_trainer *t, int status, et_error *error)
{
    return status ? et_fail(error, status, "%s", t->loop->error.text) : ET_OK;
}

static int add_summaries(et_loop_trainer *t, et_error *error)
{
    if (!t->summaries || !et_loop_summary_writer(t->loop))
        return ET_OK;
    for (et_value *child = t->summaries->first; child; child = child->next) {
        et_tensor tensor = et_pass_output(t->options.pass, child->key);
        if (!tensor.data || !et_tensor_is_real(tensor) || et_shape_count(tensor.shape) != 1)
            return et_fail(error, ET_ECONFIG,
                           "summary %s: the pass has no such output of a single float", child->key);
        child->real = et_tensor_number(tensor, 0);
    }
    return reported(t, et_loop_add_summary(t->loop, t->summaries), error);
}

/* A tensor of float32: an output of the pass, or a parameter. */
static int add_histogram(const et_loop_trainer *t, et_summary *summary, const char *name,
                         et_error *error)
{
    et_params *params = t->loop->params;
    const et_tensor output =
        t->options.pass && !t->shards ? et_pass_output(t->options.pass, name) : (et_tensor){ 0 };
    const int param = output.data ? -1 : et_params_find(params, name);
    const float *from = param >= 0 ? et_params_values(params) + et_params_offset(params, param)
                        : output.dtype == ET_F32 ? output.data
                                                 : NULL;
    const int64_t count =
        !from ? 0 : et_shape_count(param >= 0 ? et_params_shape(params, param) : output.shape);
    if (!count)
        return et_fail(
            error, ET_ECONFIG,
            "histogram %s: neither the pass nor the store has float32 values of this name", name);
    double *values = et_alloc((size_t)count + 1, sizeof *values);
    for (int64_t i = 0; values && i < count; i++)
        values[i] = (double)from[i];
    int status = values ? et_summary_add_histogram(summary, name, values, count, error)
                        : et_alloc_failed(error, "a histogram");
    et_free(values);
    return status;
}

static int add_histograms(et_loop_trainer *t, et_error *error)
{
    const et_loop_trainer_options *o = &t->options;
    et_summary *summary;
    size_t length;
    if (!o->histogram_count || !et_loop_summary_writer(t->loop))
        return ET_OK;
    int status = et_summary_new(&summary, error);
    if (status)
        return status;
    for (int i = 0; !status && i < o->histogram_count; i++)
        status = add_histogram(t, summary, o->histograms[i], error);
    if (!status) {
        const void *bytes = et_summary_bytes(summary, &length);
        status = reported(t, et_loop_add_summary_bytes(t->loop, bytes, length), error);
    }
    et_summary_free(summary);
    return status;
}

static int update(et_loop_trainer *t, et_error *error)
{
    const et_loop_trainer_options *o = &t->options;
    const et_batch *batch = et_loop_step_data(t->loop);
    uint64_t number = (uint64_t)et_loop_step(t->loop);
    if (o->step)
        return et_callback_status(o->step(o->payload, t->loop, error), "step", error);
    if (t->shards)
        return et_shards_update(t->shards, o->optimizer, batch, o->seed, number, NULL, error);
    et_pass_set_dropout(o->pass, et_optimizer_regularization(o->optimizer));
    int status = et_pass_run(o->pass, batch, o->seed, number, error);
    return status ? status : et_optimizer_update(o->optimizer, o->pass, NULL, error);
}

static int run_step(et_loop_trainer *t, et_error *error)
{
    et_assert(!t->status && t->running);
    int status = et_bound_values_apply(&t->bound, error);
    if (!status)
        status = update(t, error);
    if (!status) {
        int given = measures_read(&t->measures);
        status =
            given ? reported(t, et_loop_collect_metrics(t->loop, t->measures.given, given), error)
                  : ET_OK;
    }
    if (!status)
        status = add_summaries(t, error);
    return status ? status : add_histograms(t, error);
}

static void sane(const et_loop_trainer *t)
{
    const et_loop_trainer_options *o = &t->options;
    et_assert(t->loop && t->events);
    et_assert(o->step || (o->pass && o->optimizer && o->source));
    et_assert(!t->shards || !o->step);
    et_assert(t->measures.shards == t->shards);
    et_assert(t->hook_count <= t->hook_capacity);
    et_assert(!t->noted || o->optimizer);
}

static void run(et_loop_trainer *t)
{
    sane(t);
    fire(t, ET_EVENT_BEFORE_EXECUTION, false);
    if (!t->status)
        t->status = reported(t, et_loop_print_training_summary(t->loop), &t->error);
    for (bool resumes = t->loop->at.resumes; !t->status && et_loop_next_epoch(t->loop);
         resumes = false) {
        if (!resumes)
            fire(t, ET_EVENT_BEFORE_EPOCH, false);
        while (!t->status && et_loop_next_step(t->loop, t->options.source)) {
            fire(t, ET_EVENT_BEFORE_STEP, false);
            if (!t->status)
                t->status = run_step(t, &t->error);
            fire(t, ET_EVENT_STEP_EVALUATION, false);
            fire(t, ET_EVENT_STEP_ANNEALING, false);
            fire(t, ET_EVENT_STEP_LOGGING, false);
            fire(t, ET_EVENT_AFTER_STEP, true);
        }
        if (!t->status)
            t->status = reported(t, t->loop->error.status, &t->error);
        fire(t, ET_EVENT_EPOCH_EVALUATION, false);
        fire(t, ET_EVENT_EPOCH_ANNEALING, false);
        fire(t, ET_EVENT_EPOCH_LOGGING, false);
        fire(t, ET_EVENT_AFTER_EPOCH, true);
    }
    if (!t->status)
        t->status = reported(t, t->loop->error.status, &t->error);
    fire(t, ET_EVENT_AFTER_EXECUTION, true);
}

int et_loop_trainer_run(et_loop_trainer *t, et_error *error)
{
    if (t->running)
        return et_fail(
            error, ET_EUSAGE,
            "the trainer is already running: do not run it from one of its own functions");
    t->running = true;
    t->status = ET_OK;
    t->error = (et_error)ET_ERROR_INIT;
    run(t);
    t->running = false;
    if (!t->status)
        return ET_OK;
    et_loop_explain(t->loop, t->status, &t->error);
    et_loop_fail(t->loop, &t->error);
    return et_fail(error, t->status, "%s", t->error.text);
}

/* ---- hooks ---- */

static int run_hook(void *payload, const char *event, const void *what, et_error *error)
{
    const hook *h = payload;
    const et_loop *loop = h->trainer->loop;
    (void)event, (void)what;
    bool due = h->every.epochs ? et_loop_epoch(loop) % h->every.epochs == 0
                               : et_loop_step(loop) % h->every.steps == 0;
    return due ? h->call(h->payload, error) : ET_OK;
}

static int check_every(et_every every, et_error *error)
{
    if (every.epochs < 0 || every.steps < 0 || !every.epochs == !every.steps)
        return et_fail(error, ET_ECONFIG,
                       "a hook every %lld epochs or %lld steps: give exactly one positive number",
                       (long long)every.epochs, (long long)every.steps);
    return ET_OK;
}

int et_loop_trainer_call_after(et_loop_trainer *t, int kind, et_hook_fn *call, void *payload,
                               et_every every, et_error *error)
{
    if (!call || kind < 0 || kind >= ET_HOOK_KINDS)
        return et_fail(error, ET_ECONFIG, "a hook of kind %d%s does not exist", kind,
                       call ? "" : " without a function");
    int status = check_every(every, error);
    if (status)
        return status;
    if (!ET_VECTOR_GROW(t->hooks, t->hook_capacity, t->hook_count + 1))
        return et_alloc_failed(error, "a hook");
    hook *h;
    if (ET_ALLOC(h, 1, "a hook", error))
        return ET_ENOMEM;
    *h = (hook){ t, kind, every, call, payload, false };
    status = et_event_hub_on(t->events, hook_events[kind][every.steps > 0], run_hook, h, error);
    if (status) {
        et_free(h);
        return status;
    }
    t->hooks[t->hook_count++] = h;
    return ET_OK;
}

int et_loop_trainer_remove_hooks(et_loop_trainer *t, int kind)
{
    int removed = 0;
    for (size_t i = 0; i < t->hook_count; i++) {
        hook *h = t->hooks[i];
        if (h->kind != kind || h->removed)
            continue;
        et_event_hub_off(t->events, hook_events[kind][h->every.steps > 0], run_hook, h, NULL);
        h->removed = true;
        removed++;
    }
    return removed;
}

static int print_logs(void *payload, et_error *error)
{
    const et_loop_trainer *t = payload;
    return reported(t, et_loop_print_logs(t->loop), error);
}

static int evaluate(void *payload, et_error *error)
{
    return et_loop_evaluator_run(payload, NULL, 0, error);
}

static int anneal(void *payload, et_error *error)
{
    (void)error;
    et_annealing_variable_anneal(payload);
    return ET_OK;
}

int et_loop_trainer_log_after(et_loop_trainer *t, et_every every, et_error *error)
{
    return et_loop_trainer_call_after(t, ET_HOOK_LOGGING, print_logs, t, every, error);
}

/* Adds a hook whose payload is an object. */
static int call_with(et_loop_trainer *t, int kind, et_hook_fn *call, void *self, const char *what,
                     et_every every, et_error *error)
{
    int status = check_every(every, error);
    if (!status && !self)
        status = et_fail(error, ET_ECONFIG, "a hook needs %s", what);
    return status ? status : et_loop_trainer_call_after(t, kind, call, self, every, error);
}

int et_loop_trainer_evaluate_after(et_loop_trainer *t, et_loop_evaluator *evaluator, et_every every,
                                   et_error *error)
{
    return call_with(t, ET_HOOK_EVALUATION, evaluate, evaluator, "an evaluator", every, error);
}

int et_loop_trainer_anneal_after(et_loop_trainer *t, et_annealing_variable *variable,
                                 et_every every, et_error *error)
{
    return call_with(t, ET_HOOK_ANNEALING, anneal, variable, "a variable", every, error);
}
