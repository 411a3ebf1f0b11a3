/* A trainer of a loop. It calls the loop's next epoch and next step, and fires its own events in
 * between, in the order of include/etude/loop_trainer.h. A hook is a handler of one of these events
 * that first checks the loop's counter. Results of evaluation, annealing or logging in a step are
 * therefore in the state that is saved after the step. */
#include <etude/comm.h>
#include <etude/loop_trainer.h>
#include <etude/summary_message.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/options.h"
#include "base/vector.h"
#include "engine/tensor/tensor.h"
#include "systems/tfsnippet/loop_private.h"

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
    et_measures measures;
    et_shards *shards; /* NULL: batches are not split */
    et_bound_values bound;
    et_arena arena;
    et_value *summaries; /* names and values, in arena; NULL: none are written */
    hook **hooks;        /* [hook_count], each owned */
    size_t hook_count, hook_capacity;
    bool running;
    bool noted; /* the loop saves the optimizer */
    int status; /* of the run: its first failure, after which nothing is fired or run */
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

/* With shards, a pass has only the outputs of its last shard, so histograms need a whole batch. */
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
                               : "there is no pass that could have such an output");
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
    et_optimizer **optimizers =
        et_vector_grow(loop->own.optimizers, &loop->own.optimizer_capacity,
                       loop->own.optimizer_count + 1, sizeof *optimizers, 2);
    if (!optimizers)
        return et_alloc_failed(error, sizeof *optimizers, "a trainer's optimizer");
    loop->own.optimizers = optimizers;
    loop->own.optimizers[loop->own.optimizer_count++] = optimizer;
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

static int open_parts(et_loop_trainer *t, et_error *error)
{
    const et_loop_trainer_options *o = &t->options;
    const et_shards_options shards = { .count = o->shards, .comm = t->loop->options.comm };
    int status =
        et_event_hub_new(&t->events, all_events, sizeof all_events / sizeof *all_events, error);
    if (!status && o->pass && o->source)
        status = et_pass_prepare(o->pass, &o->source->layout, error);
    if (!status)
        status =
            et_measures_init(&t->measures, o->pass, o->metrics, o->metric_count, "loss", error);
    if (!status && !o->step && (o->shards > 1 || et_comm_size(shards.comm) != 1))
        status = et_shards_open(&t->shards, o->pass, &o->source->layout, &shards, error);
    t->measures.shards = t->shards;
    if (!status)
        status = et_bound_values_init(&t->bound, t->loop->params, o->bound_values,
                                      o->bound_value_count, error);
    if (!status && o->summary_count) {
        t->summaries = et_value_dict(&t->arena);
        for (int i = 0; i < o->summary_count; i++)
            et_value_set_float(t->summaries, o->summaries[i], 0);
        status = et_value_failed(t->summaries) ? et_alloc_failed(error, 0, "summaries") : ET_OK;
    }
    if (!status && o->optimizer && !o->step) {
        status = note_optimizer(t->loop, o->optimizer, error);
        t->noted = !status;
    }
    return status;
}

int et_loop_trainer_open(et_loop_trainer **out, et_loop *loop,
                         const et_loop_trainer_options *options, et_error *error)
{
    int status = check(loop, options, error);
    *out = NULL;
    et_loop_trainer *t = status ? NULL : et_alloc_zero(1, sizeof *t);
    if (!t)
        return status ? status : et_alloc_failed(error, sizeof *t, "a trainer");
    t->loop = loop;
    t->options = *options;
    status = open_parts(t, error);
    if (status) {
        et_loop_trainer_close(t);
        return status;
    }
    *out = t;
    return ET_OK;
}

void et_loop_trainer_close(et_loop_trainer *t)
{
    if (!t)
        return;
    if (t->noted)
        forget_optimizer(t->loop, t->options.optimizer);
    et_event_hub_free(t->events);
    et_measures_release(&t->measures);
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
        return et_fail(error, ET_ECONFIG,
                       "histogram %s: neither the pass nor the store has such values in float32",
                       name);
    double *values = et_alloc((size_t)count + 1, sizeof *values);
    for (int64_t i = 0; values && i < count; i++)
        values[i] = (double)from[i];
    int status = values ? et_summary_add_histogram(summary, name, values, count, error)
                        : et_alloc_failed(error, (size_t)count * sizeof *values, "a histogram");
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
        return o->step(o->payload, t->loop, error);
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
        int given = et_measures_read(&t->measures);
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
    hook **hooks = et_vector_grow(t->hooks, &t->hook_capacity, t->hook_count + 1, sizeof *hooks, 8);
    if (!hooks)
        return et_alloc_failed(error, sizeof *hooks, "a hook");
    t->hooks = hooks;
    hook *h = et_alloc(1, sizeof *h);
    if (!h)
        return et_alloc_failed(error, sizeof *h, "a hook");
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
