/* A worker: weights of the servers go into the task trainer's store, gradients and sums of a step
 * go to the servers. A step allocates nothing. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "engine/tensor/params.h"
#include "metric/metric.h"
#include "roles/cluster_private.h"
#include "roles/worker.h"

typedef struct worker {
    et_task_trainer *trainer; /* borrowed */
    const et_cluster_options *options;
    int index;
    et_cluster_plan plan;
    et_worker worker;
    et_wire *wire;
    float **gradient; /* [servers], owned */
    unsigned char *report;
    et_step_hooks hooks; /* of the trainer's step, which the worker's replace */
    int64_t skip;        /* batches of others before the next of ours */
    int pulled;          /* servers whose are */
    double since;        /* the last gradient, or the first weights; 0: neither */
    int status;          /* of a failure in a callback, which cannot return one */
    et_error error;
} worker;

static void pulled(void *self, int server, const void *weights)
{
    worker *w = self;
    et_params *params = w->trainer->params;
    if (!w->pulled)
        et_params_begin_change(params);
    et_placement_scatter(&w->plan.placement, params, server, weights, et_params_values(params));
    if (++w->pulled < w->plan.servers)
        return;
    w->pulled = 0;
    et_params_changed(params, true);
}

/* A new worker skips the data of earlier workers; a resumed worker has its own position. */
static void welcomed(void *self, const void *bytes, const void *variables)
{
    worker *w = self;
    et_params *params = w->trainer->params;
    et_cluster_position position;
    memcpy(&position, bytes, sizeof position);
    if (position.count < 0 || position.count > ET_POSITION_MAX)
        position.count = 0;
    w->status = et_cluster_seek(w->trainer->source, &position, &w->error);
    memcpy(et_params_values(params) + et_params_trained_size(params), variables,
           w->plan.variables_size);
    w->skip = position.own ? w->plan.workers - 1 : w->index;
}

/* In place of et_source_next. */
static int next_batch(void *self, et_source *source, et_batch *batch, et_error *error)
{
    worker *w = self;
    int status = ET_OK;
    for (int64_t i = 0; !status && i <= w->skip; i++)
        status = w->hooks.next ? w->hooks.next(w->hooks.self, source, batch, error)
                               : et_source_next(source, batch, error);
    w->skip = w->plan.workers - 1;
    return status;
}

static int seen_batch(void *self, et_step *step, et_error *error)
{
    const worker *w = self;
    return w->hooks.seen(w->hooks.self, step, error);
}

/* sum NULL: it is not finite. One of no rows weighs next to nothing. */
static void write_report(worker *w, const et_reduced *sum)
{
    const et_step *step = &w->trainer->step;
    et_cluster_facts facts = { sum ? fmax(sum->divisor, ET_CLUSTER_DIVISOR_MIN) : 0,
                               sum ? sum->loss : NAN, (double)step->units,
                               (double)(step->batch->epoch + 1) };
    et_cluster_position position = et_cluster_position_of(w->trainer->source, true);
    unsigned char *at = w->report;
    memset(at, 0, w->plan.report_size);
    memcpy(at, &facts, sizeof facts);
    at += sizeof facts;
    for (int i = 0; i < w->plan.measures; i++, at += 2 * sizeof(double)) {
        double both[2] = { sum ? sum->measured[i].total : 0, sum ? sum->measured[i].weight : 0 };
        memcpy(at, both, sizeof both);
    }
    for (int64_t i = 0; i < w->plan.means; i++, at += sizeof(double)) {
        double mean = sum ? (double)sum->means[i] : 0;
        memcpy(at, &mean, sizeof mean);
    }
    if (sum)
        et_metrics_copy_settled(w->trainer->metrics.pending, at);
    memcpy(at + w->plan.metrics_size, &position, sizeof position);
}

static bool is_finite(const worker *w)
{
    for (int s = 0; s < w->plan.servers; s++) {
        float sum = 0; /* 0 times a value: NaN if the value is NaN or infinite */
        for (int64_t i = 0; i < w->plan.placement.floats[s]; i++)
            sum += 0 * w->gradient[s][i];
        if (sum != 0)
            return false;
    }
    return true;
}

static int compute(worker *w, et_error *error)
{
    et_task_trainer *t = w->trainer;
    et_reduced sum;
    w->since = w->since > 0 ? w->since : et_clock_monotonic();
    t->trainer.step = w->worker.ticket - 1;
    int status = et_task_trainer_gather(t, &sum, error);
    bool finite = !status;
    if (status && status != ET_EDIVERGED)
        return status;
    if (finite)
        et_params_clear_held(t->params, sum.gradient);
    for (int s = 0; finite && s < w->plan.servers; s++)
        et_placement_gather(&w->plan.placement, t->params, s, sum.gradient, w->gradient[s]);
    finite = finite && is_finite(w);
    write_report(w, finite ? &sum : NULL);
    et_worker_computed(&w->worker, et_clock_monotonic(), (const float *const *)w->gradient,
                       w->report);
    const double now = et_clock_monotonic();
    if (w->options->computed)
        w->options->computed(w->options->listener, w->trainer->step.units, now - w->since);
    w->since = now;
    return ET_OK;
}

static int open_worker(worker *w, et_error *error)
{
    w->index = (int)et_job_config_task(w->options->config)->index;
    int status;
    if ((status = et_cluster_plan_make(&w->plan, w->trainer, w->options, error)) ||
        (status = et_cluster_connect(&w->wire, w->options, &w->plan, error)))
        return status;
    w->report = et_alloc_zero(1, w->plan.report_size);
    w->gradient = et_alloc_zero((size_t)w->plan.servers, sizeof *w->gradient);
    bool ok = w->report && w->gradient;
    for (int s = 0; ok && s < w->plan.servers; s++)
        ok = (w->gradient[s] = et_alloc_zero((size_t)w->plan.placement.floats[s], sizeof(float))) !=
             NULL;
    if (!ok)
        return et_alloc_failed(error, w->plan.report_size, "a worker");
    et_worker_setup setup = { .link = et_wire_link(w->wire),
                              .servers = w->plan.servers,
                              .index = w->index,
                              .floats = w->plan.placement.floats,
                              .report_size = w->plan.report_size,
                              .position_size = sizeof(et_cluster_position),
                              .greeting_size = w->plan.variables_size,
                              .nonce = (uint64_t)(et_clock_wall() * 1e9),
                              .fingerprint = w->plan.fingerprint,
                              .patience = w->options->patience,
                              .self = w,
                              .pulled = pulled,
                              .welcomed = welcomed };
    w->trainer->step.parts.hooks =
        (et_step_hooks){ .self = w, .next = next_batch, .seen = w->hooks.seen ? seen_batch : NULL };
    return et_worker_open(&w->worker, &setup, error);
}

static int work(worker *w, et_error *error)
{
    et_worker_start(&w->worker, et_clock_monotonic());
    while (w->worker.phase != ET_WORKER_ENDED) {
        et_message message;
        bool got;
        int status = et_wire_receive(w->wire, 0.2, &message, &got, error);
        if (!status && got)
            et_worker_receive(&w->worker, et_clock_monotonic(), &message);
        et_worker_tick(&w->worker, et_clock_monotonic());
        if (!status && w->worker.phase == ET_WORKER_COMPUTES)
            status = compute(w, error);
        if (!status && w->status)
            status = et_fail(error, w->status, "%s", w->error.text);
        if (!status && et_wire_alone(w->wire, 0) > w->options->patience)
            status = et_fail(error, ET_EIO, "the master has not answered for %.0f seconds",
                             w->options->patience);
        if (status)
            return status;
    }
    return w->worker.lost[0] ? et_fail(error, ET_EIO, "%s", w->worker.lost) : ET_OK;
}

int et_cluster_work(et_task_trainer *trainer, const et_cluster_options *options, et_error *error)
{
    worker w = { .trainer = trainer,
                 .options = options,
                 .hooks = trainer->step.parts.hooks,
                 .error = ET_ERROR_INIT };
    int status = open_worker(&w, error);
    if (!status)
        status = work(&w, error);
    trainer->step.parts.hooks = w.hooks;
    et_worker_release(&w.worker);
    et_wire_close(w.wire);
    for (int s = 0; w.gradient && s < w.plan.servers; s++)
        et_free(w.gradient[s]);
    et_free(w.gradient);
    et_free(w.report);
    et_cluster_plan_release(&w.plan);
    return status;
}
