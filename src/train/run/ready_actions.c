#include <etude/ready_actions.h>

#include <float.h>
#include <math.h>

#include <etude/state.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/files/file.h"
#include "base/options.h"
#include "base/values/json.h"
#include "train/checkpoint/metric_name.h"

/* ---- persisted values ---- */

/* Values in files. The value in memory is parsed from the written text. So this process has the
 * same value as a later process, and every written value can be read. */

#define FILE_MAX ((size_t)64 << 20)

struct et_persisted_value {
    char *filename; /* owned; NULL: none */
    bool read_only;
    et_arena *arena; /* of value */
    et_value *value;
};

/* Whether a value has a number that JSON lacks. */
static bool has_other_number(const et_value *value)
{
    if (value->kind == ET_VALUE_FLOAT)
        return !isfinite(value->real);
    for (const et_value *v = value->kind >= ET_VALUE_LIST ? value->first : NULL; v; v = v->next)
        if (has_other_number(v))
            return true;
    return false;
}

/* Parses a text as the value. */
static int take(et_persisted_value *self, const char *text, size_t length, et_error *error)
{
    const char *name = self->filename ? self->filename : "a persisted value";
    et_arena *arena = et_arena_new();
    et_value *value;
    int status = arena ? et_json_parse(&value, arena, text, length, name, error)
                       : et_alloc_failed(error, "a persisted value");
    if (status) {
        et_arena_free(arena);
        return status;
    }
    self->arena = arena;
    self->value = value;
    return ET_OK;
}

int et_persisted_value_write(et_persisted_value *self, const et_value *value, et_error *error)
{
    et_strbuf text = ET_STRBUF_INIT;
    if (!value || et_value_failed(value))
        return et_fail(error, ET_EUSAGE, "a persisted value is NULL or incomplete");
    if (has_other_number(value))
        return et_fail(error, ET_EDATA,
                       "%s: NaN and infinity cannot be written as JSON; write a text, or null",
                       self->filename ? self->filename : "a persisted value");
    et_persisted_value next = { .filename = self->filename };
    et_json_print(&text, value, 0);
    int status = text.failed ? et_alloc_failed(error, "a persisted value")
                             : take(&next, text.data, text.length, error);
    if (!status && self->filename && !self->read_only &&
        !(status = et_parent_make(self->filename, error)))
        status = et_file_write(self->filename, text.data, text.length, error);
    et_strbuf_release(&text);
    /* On failure the old value stays. */
    et_arena_free(status ? next.arena : self->arena);
    if (status)
        return status;
    self->arena = next.arena;
    self->value = next.value;
    return ET_OK;
}

/* If the file is missing or empty, the value stays NULL. */
static int read_file(et_persisted_value *self, et_error *error)
{
    char *text;
    size_t length;
    if (!self->filename || !et_file_exists(self->filename))
        return ET_OK;
    int status = et_file_read(&text, &length, self->filename, FILE_MAX, error);
    if (status)
        return status;
    if (length)
        status = take(self, text, length, error);
    et_free(text);
    if (!status && self->value && self->value->kind == ET_VALUE_NULL)
        self->value = NULL;
    return status;
}

int et_persisted_value_open(et_persisted_value **out, const et_value *initial_value,
                            const char *filename, bool read_only, et_error *error)
{
    *out = NULL;
    et_persisted_value *self;
    if (ET_ALLOC_ZERO(self, 1, "a persisted value", error))
        return ET_ENOMEM;
    self->read_only = read_only;
    self->filename = filename ? et_strdup(filename) : NULL;
    int status = !filename || self->filename ? read_file(self, error)
                                             : et_alloc_failed(error, "a persisted value");
    if (!status && !self->value)
        status = et_persisted_value_write(self, initial_value, error);
    if (status)
        et_persisted_value_close(self);
    else
        *out = self;
    return status;
}

void et_persisted_value_close(et_persisted_value *self)
{
    if (!self)
        return;
    et_arena_free(self->arena);
    et_free(self->filename);
    et_free(self);
}

const et_value *et_persisted_value_read(const et_persisted_value *self)
{
    return self->value;
}

/* ---- a new best ---- */

struct et_new_best {
    et_new_best_options options; /* metric owned */
    et_persisted_value *kept;    /* {"best": 0.912}; infinity as text, as in the state. Owned */
    double best;
};

static int make_dict(et_value **dict, et_arena *arena, double best, et_error *error)
{
    *dict = et_value_dict(arena);
    et_part_set_real(*dict, "best", best);
    return et_value_failed(*dict) ? et_alloc_failed(error, "the best value") : ET_OK;
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
    et_new_best *self;
    if (ET_ALLOC_ZERO(self, 1, "a best value", error))
        return ET_ENOMEM;
    self->options = *options;
    self->options.filename = NULL;
    self->options.metric = options->metric ? et_strdup(options->metric) : NULL;
    int status = !options->metric == !self->options.metric ? open_kept(self, options, error)
                                                           : et_alloc_failed(error, "a best value");
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
        return et_callback_status(o->value(o->payload, logs, out, error), "value", error);
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

int et_new_best_holds(void *payload, const et_action_context *now, bool *holds, et_error *error)
{
    return commit(payload, now->logs, !now->rank, holds, error);
}
