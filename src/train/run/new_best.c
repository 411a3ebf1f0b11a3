#include <etude/ready_actions.h>

#include <float.h>

#include <etude/state.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "train/checkpoint/metric_name.h"

struct et_new_best {
    et_new_best_options options; /* metric owned */
    et_persisted_value *kept;    /* {"best": 0.912}; infinity as text, as in the state. Owned */
    double best;
};

static int make_dict(et_value **dict, et_arena *arena, double best, et_error *error)
{
    *dict = et_value_dict(arena);
    et_part_set_real(*dict, "best", best);
    return et_value_failed(*dict) ? et_alloc_failed(error, 0, "the best value") : ET_OK;
}

static int open_kept(et_new_best *self, const et_new_best_options *options, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *dict;
    int status = make_dict(&dict, &arena, options->lower_is_better ? DBL_MAX : -DBL_MAX, error);
    if (!status)
        status = et_persisted_value_open(&self->kept, dict, options->filename, options->read_only,
                                         error);
    et_arena_release(&arena);
    if (status)
        return status;
    status = et_part_read_real(et_persisted_value_read(self->kept), "best", &self->best, error);
    return status ? et_fail_while(error, status, "%s", options->filename) : ET_OK;
}

int et_new_best_open(et_new_best **out, const et_new_best_options *options, et_error *error)
{
    *out = NULL;
    if (!options || !options->metric == !options->value)
        return et_fail(error, ET_EUSAGE, "a new best needs either a metric or a value");
    et_new_best *self = et_alloc_zero(1, sizeof *self);
    if (!self)
        return et_alloc_failed(error, sizeof *self, "a best value");
    self->options = *options;
    self->options.filename = NULL;
    self->options.metric = options->metric ? et_strdup(options->metric) : NULL;
    int status = !options->metric == !self->options.metric
                     ? open_kept(self, options, error)
                     : et_alloc_failed(error, 0, "a best value");
    if (status)
        et_new_best_close(self);
    else
        *out = self;
    return status;
}

void et_new_best_close(et_new_best *self)
{
    if (!self)
        return;
    et_free((char *)self->options.metric);
    et_persisted_value_close(self->kept);
    et_free(self);
}

int et_new_best_metric(const et_new_best *self, const et_value *logs, double *out, et_error *error)
{
    const et_new_best_options *o = &self->options;
    if (o->value)
        return o->value(o->payload, logs, out, error);
    return logs && et_metric_named(logs, o->metric, out)
               ? ET_OK
               : et_fail(error, ET_ECONFIG, "the logs have no number %s", o->metric);
}

static int compare(const et_new_best *self, const et_value *logs, bool *is_new, double *value,
                   et_error *error)
{
    *is_new = false;
    int status = et_new_best_metric(self, logs, value, error);
    if (!status)
        *is_new = self->options.lower_is_better ? *value < self->best : *value > self->best;
    return status;
}

int et_new_best_test(const et_new_best *self, const et_value *logs, bool *is_new, et_error *error)
{
    double value;
    return compare(self, logs, is_new, &value, error);
}

static int commit(et_new_best *self, const et_value *logs, bool writes, bool *is_new,
                  et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *dict;
    double value;
    int status = compare(self, logs, is_new, &value, error);
    if (status || !*is_new)
        return status;
    if (writes)
        status = make_dict(&dict, &arena, value, error);
    if (writes && !status)
        status = et_persisted_value_write(self->kept, dict, error);
    et_arena_release(&arena);
    if (!status)
        self->best = value;
    return status;
}

int et_new_best_commit(et_new_best *self, const et_value *logs, bool *is_new, et_error *error)
{
    return commit(self, logs, true, is_new, error);
}

double et_new_best_value(const et_new_best *self)
{
    return self->best;
}

int et_new_best_holds(void *payload, const et_moment *now, bool *holds, et_error *error)
{
    return commit(payload, now->logs, !now->rank, holds, error);
}
