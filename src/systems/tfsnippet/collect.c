/* Collection of metrics (by call, by a collector, by a timer) and summaries. All metrics go through
 * collect_as: statistics, summary, event, valid metric, in this order. */
#include <etude/comm.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <etude/checkpoint.h>
#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/text/strbuf.h"
#include "base/text/unicode.h"
#include "base/vector.h"
#include "engine/comm/together.h"
#include "engine/tensor/params.h"
#include "metric/metric.h"
#include "systems/tfsnippet/loop_private.h"
#include "train/checkpoint/checkpoint.h"
#include "train/run/run.h"

/* ---- statistics of metrics: a short list, since a loop has few ---- */

bool et_logger_is_time(const char *name)
{
    return et_text_ends(name, "time") || et_text_ends(name, "timer");
}

static int find_statistics(et_statistics **out, et_logger *logger, const char *name,
                           et_error *error)
{
    *out = NULL;
    for (size_t i = 0; i < logger->count; i++)
        if (!strcmp(logger->items[i].name, name)) {
            *out = logger->items[i].statistics;
            return ET_OK;
        }
    char *copy =
        ET_VECTOR_GROW(logger->items, logger->capacity, logger->count + 1) ? et_strdup(name) : NULL;
    if (!copy)
        return et_alloc_failed(error, "a metric");
    int status = et_statistics_new(out, error);
    if (status)
        et_free(copy);
    else
        logger->items[logger->count++] = (et_logger_item){ copy, *out };
    return status;
}

static void sane(const et_logger *logger)
{
    et_assert(logger->count <= logger->capacity);
    et_assert((size_t)logger->spare.count <= logger->spare.capacity);
    for (size_t i = 0; i < logger->count; i++)
        et_assert(logger->items[i].name && logger->items[i].statistics);
}

static int add_to_logger(et_logger *logger, const et_loop_metric *metric, et_error *error)
{
    et_statistics *statistics;
    sane(logger);
    et_assert(metric->name && metric->count >= 0);
    int status = find_statistics(&statistics, logger, metric->name, error);
    if (!status && metric->values)
        et_statistics_collect_all(statistics, metric->values, NULL, (size_t)metric->count);
    else if (!status)
        et_statistics_collect(statistics, metric->value, 1);
    return status;
}

void et_logger_clear(et_logger *logger)
{
    for (size_t i = 0; i < logger->count; i++)
        et_statistics_reset(logger->items[i].statistics);
}

void et_logger_release(et_logger *logger)
{
    for (size_t i = 0; i < logger->count; i++) {
        et_free(logger->items[i].name);
        et_statistics_free(logger->items[i].statistics);
    }
    et_free(logger->items);
    et_free(logger->spare.stats);
    *logger = (et_logger){ 0 };
}

/* {"loss": {"class": "statistics", ...}}: names with values only. */
static void save_logger(const et_logger *logger, et_value *dict)
{
    for (size_t i = 0; i < logger->count; i++) {
        const et_logger_item *item = &logger->items[i];
        if (!et_logger_is_time(item->name) && et_statistics_counter(item->statistics))
            et_metric_save(&et_metric_statistics, item->statistics,
                           et_value_set_dict(dict, item->name));
    }
}

static int restore_logger(et_logger *logger, const et_value *dict, et_error *error)
{
    et_logger_clear(logger);
    for (const et_value *one = dict->first; one; one = one->next) {
        et_statistics *statistics;
        int status = find_statistics(&statistics, logger, one->key, error);
        if (!status)
            status = et_metric_restore(&et_metric_statistics, statistics, one, error);
        if (status)
            return et_fail_while(error, status, "%s", one->key);
    }
    return ET_OK;
}

static int save_metrics(const void *self, et_value *dict, et_error *error)
{
    const et_loop *loop = self;
    (void)error;
    et_value *epoch = et_value_set_dict(dict, "epoch"), *step = et_value_set_dict(dict, "step");
    save_logger(&loop->metrics.epoch, epoch);
    save_logger(&loop->metrics.step, step);
    return ET_OK;
}

static int restore_metrics(void *self, const et_value *dict, et_error *error)
{
    et_loop *loop = self;
    const et_value *epoch = et_value_get(dict, "epoch"), *step = et_value_get(dict, "step");
    if (!epoch || epoch->kind != ET_VALUE_DICT || !step || step->kind != ET_VALUE_DICT)
        return et_fail(error, ET_EFORMAT, "epoch or step is missing");
    int status = restore_logger(&loop->metrics.epoch, epoch, error);
    return status ? status : restore_logger(&loop->metrics.step, step, error);
}

const et_part_class et_loop_metrics_part = { "a loop's metrics", save_metrics, restore_metrics };

static double mean_of(const et_loop_metric *metric)
{
    double sum = 0;
    if (!metric->values)
        return metric->value;
    for (int64_t i = 0; i < metric->count; i++)
        sum += metric->values[i];
    return sum / (double)metric->count;
}

static bool is_empty(const et_loop_metric *metric)
{
    return metric->values && metric->count == 0;
}

static int check_metric(et_loop *loop, const et_loop_metric *metric)
{
    if (!metric->name || !*metric->name)
        return et_fail(&loop->error, ET_EDATA, "a metric has no name");
    if (!et_utf8_valid(metric->name, strlen(metric->name), NULL))
        return et_fail(&loop->error, ET_EDATA, "metric %s: the name is not UTF-8", metric->name);
    if (metric->count < 0)
        return et_fail(&loop->error, ET_EDATA, "metric %s: %lld values; give at least 1",
                       metric->name, (long long)metric->count);
    if (metric->count > 1 && !metric->values)
        return et_fail(&loop->error, ET_EDATA, "metric %s: %lld values, but the array is NULL",
                       metric->name, (long long)metric->count);
    return ET_OK;
}

/* ---- summaries ---- */

/* Writes the first value of a metric, then every n-th. */
static bool is_due(et_loop *loop, const char *name)
{
    if (loop->skip && et_patterns_match(loop->skip, name))
        return false;
    for (int i = 0; i < loop->options.summary_commit_freq_count; i++) {
        et_loop_commit *commit = &loop->metrics.commits[i];
        if (strcmp(commit->name, name) != 0)
            continue;
        commit->waited = (commit->waited + 1) % commit->every;
        return commit->waited == 1 % commit->every;
    }
    return true;
}

/* Fires one event for all due metrics. */
static int write_metrics(et_loop *loop, const et_loop_metric *metrics, int count)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *values = NULL;
    for (int i = 0; i < count; i++)
        if (!is_empty(&metrics[i]) && is_due(loop, metrics[i].name)) {
            values = values ? values : et_value_dict(&arena);
            et_strbuf_reset(&loop->out.line);
            et_strbuf_append(&loop->out.line, loop->options.summary_metric_prefix);
            et_strbuf_append(&loop->out.line, metrics[i].name);
            et_value_set_float(values, et_strbuf_text(&loop->out.line), mean_of(&metrics[i]));
        }
    int status = ET_OK;
    if (arena.failed || loop->out.line.failed)
        status = et_alloc_failed(&loop->error, "a summary");
    else if (values)
        status = et_sink_write(loop->writer, loop->at.step, values, &loop->error);
    et_arena_release(&arena);
    return status;
}

/* ---- the valid metric ---- */

/* The valid metric and early stopping. The run keeps a checkpoint of the best step in addition to
 * the last steps. Without a directory, this file keeps the values of the parameters. At the end
 * without failure, the best parameters are restored; checkpoints do not change. */

void et_loop_read_best(et_loop *loop)
{
    loop->best.step = et_run_best_step(loop->run, &loop->best.value);
}

/* The run needs a dict for info.json, and every value on all ranks. */
static int note_valid(et_loop *loop, double value)
{
    et_assert(loop->run && loop->options.valid_metric_name);
    const size_t bytes = et_params_flat_size(loop->params) * sizeof(float);
    et_loop_best *best = &loop->best;
    et_arena arena = ET_ARENA_INIT;
    et_value *values = et_value_dict(&arena);
    et_value_set_float(values, loop->options.valid_metric_name, value);
    int status = et_value_failed(values)
                     ? et_alloc_failed(&loop->error, "the best metric")
                     : et_run_note_best(loop->run, loop->at.step, values, &loop->error);
    et_arena_release(&arena);
    et_loop_read_best(loop);
    best->is_last =
        !status && !isnan(value) && best->step == loop->at.step && !et_run_since_best(loop->run);
    if (!best->is_last || !loop->options.early_stopping || loop->options.checkpoint_dir)
        return status;
    if (!best->values)
        best->values = et_alloc(bytes, 1);
    if (!best->values)
        return et_alloc_failed(&loop->error, "the best parameters");
    /* Keeps all values; a clean end may restore only a group. */
    memcpy(best->values, et_params_values(loop->params), bytes);
    return ET_OK;
}

/* ---- metrics ---- */

/* event: ET_EVENT_METRICS_COLLECTED or ET_EVENT_TIME_METRICS_COLLECTED. */
static int collect_as(et_loop *loop, const et_loop_metric *metrics, int count, const char *event)
{
    int status = ET_OK;
    for (int i = 0; !status && i < count; i++)
        status = check_metric(loop, &metrics[i]);
    for (int i = 0; !status && i < count; i++)
        if (!is_empty(&metrics[i])) {
            status = add_to_logger(&loop->metrics.epoch, &metrics[i], &loop->error);
            if (!status && loop->at.within_step)
                status = add_to_logger(&loop->metrics.step, &metrics[i], &loop->error);
        }
    if (!status && loop->writer)
        status = write_metrics(loop, metrics, count);
    if (!status)
        status = et_loop_fire(loop, event, &(et_loop_event){ .metrics = metrics, .count = count },
                              false);
    const char *valid = loop->options.valid_metric_name;
    for (int i = 0; valid && !status && i < count; i++)
        if (!is_empty(&metrics[i]) && !strcmp(metrics[i].name, valid))
            status = note_valid(loop, mean_of(&metrics[i]));
    return et_loop_explain(loop, status, &loop->error);
}

int et_loop_collect_metrics(et_loop *loop, const et_loop_metric *metrics, int count)
{
    int status = et_loop_ready_in_epoch(loop);
    if (!status && (count < 0 || (count > 0 && !metrics)))
        status = et_fail(&loop->error, ET_EDATA, "%d metrics, but the array is NULL", count);
    return status ? status : collect_as(loop, metrics, count, ET_EVENT_METRICS_COLLECTED);
}

int et_loop_collect(et_loop *loop, const char *name, double value)
{
    return et_loop_collect_metrics(loop, &(et_loop_metric){ .name = name, .value = value }, 1);
}

int et_loop_collect_time(et_loop *loop, const char *name, double *begun)
{
    if (isnan(*begun))
        return ET_OK;
    et_loop_metric metric = { .name = name, .value = et_clock_monotonic() - *begun };
    int status = collect_as(loop, &metric, 1, ET_EVENT_TIME_METRICS_COLLECTED);
    *begun = (double)NAN;
    return status;
}

/* ---- pairs ---- */

static et_loop_pair *find_pair(et_loop *loop, const char *name, bool timer)
{
    for (size_t i = 0; i < loop->metrics.pair_count; i++)
        if (!loop->metrics.pairs[i].collector == timer &&
            !strcmp(loop->metrics.pairs[i].name, name))
            return &loop->metrics.pairs[i];
    return NULL;
}

static int begin_pair(et_loop_pair **out, et_loop *loop, const char *name, bool timer)
{
    et_loop_metrics *metrics = &loop->metrics;
    int status = et_loop_ready_in_epoch(loop);
    if (!status && (!name || !*name))
        status = et_fail(&loop->error, ET_EDATA, "a metric has no name");
    if (status)
        return status;
    *out = find_pair(loop, name, timer);
    if (*out && (*out)->open)
        return et_fail(&loop->error, ET_EUSAGE, "%s has already started and has not ended", name);
    if (!*out) {
        if (!ET_VECTOR_GROW(metrics->pairs, metrics->pair_capacity, metrics->pair_count + 1))
            return et_alloc_failed(&loop->error, "a timer");
        et_loop_pair pair = { .name = et_arena_strdup(&loop->arena, name) };
        status = pair.name ? ET_OK : et_alloc_failed(&loop->error, "a timer");
        if (!status && !timer)
            status = et_statistics_new(&pair.collector, &loop->error);
        if (status)
            return status;
        *out = &metrics->pairs[metrics->pair_count++];
        **out = pair;
    }
    (*out)->open = true;
    (*out)->in_step = loop->at.within_step;
    return ET_OK;
}

static int end_pair(et_loop_pair **out, et_loop *loop, const char *name, bool timer)
{
    int status = et_loop_ready_in_epoch(loop);
    *out = !status && name ? find_pair(loop, name, timer) : NULL;
    if (!status && (!*out || !(*out)->open))
        status = et_fail(&loop->error, ET_EUSAGE, "%s was not started in this epoch or step",
                         name ? name : "a metric without a name");
    if (!status)
        (*out)->open = false;
    return status;
}

void et_loop_drop_pairs(et_loop *loop, bool all)
{
    for (size_t i = 0; i < loop->metrics.pair_count; i++)
        if (all || loop->metrics.pairs[i].in_step)
            loop->metrics.pairs[i].open = false;
}

void et_loop_drop_timer(et_loop *loop, const char *name)
{
    et_loop_pair *pair = find_pair(loop, name, true);
    if (pair)
        pair->open = false;
}

int et_loop_collector_begin(et_loop *loop, const char *name, et_statistics **collector)
{
    et_loop_pair *pair;
    int status = begin_pair(&pair, loop, name, false);
    *collector = status ? NULL : pair->collector;
    if (!status)
        et_statistics_reset(pair->collector);
    return status;
}

int et_loop_collector_end(et_loop *loop, const char *name)
{
    et_loop_pair *pair;
    int status = end_pair(&pair, loop, name, false);
    if (status || !(et_statistics_weight_sum(pair->collector) > 0))
        return status;
    return et_loop_collect(loop, name, et_statistics_mean(pair->collector));
}

int et_loop_time_begin(et_loop *loop, const char *name)
{
    et_loop_pair *pair;
    int status = begin_pair(&pair, loop, name, true);
    if (!status)
        pair->begun = et_clock_monotonic();
    return status;
}

int et_loop_time_end(et_loop *loop, const char *name)
{
    et_loop_pair *pair;
    int status = end_pair(&pair, loop, name, true);
    if (status)
        return status;
    et_loop_metric metric = { .name = name, .value = et_clock_monotonic() - pair->begun };
    return collect_as(loop, &metric, 1, ET_EVENT_TIME_METRICS_COLLECTED);
}

/* ---- early stopping ---- */

/* Copies one parameter between arrays of all parameters. */
static void copy_parameter(const et_loop *loop, float *to, const float *from, int index)
{
    size_t offset = (size_t)et_params_offset(loop->params, index);
    memcpy(to + offset, from + offset,
           et_shape_count(et_params_shape(loop->params, index)) * sizeof(float));
}

/* Reads a whole file. If only a group is restored, keeps the other parameters by a copy. */
static int take_file(et_loop *loop, const char *path, et_error *error)
{
    size_t bytes = et_params_flat_size(loop->params) * sizeof(float);
    if (!loop->options.group)
        return et_checkpoint_load_weights(loop->params, path, false, NULL, error);
    float *now = et_alloc(bytes, 1);
    if (!now)
        return et_alloc_failed(error, "the best parameters");
    memcpy(now, et_params_values(loop->params), bytes);
    int status = et_checkpoint_load_weights(loop->params, path, false, NULL, error);
    for (int i = 0; !status && i < et_group_count(loop->group); i++)
        copy_parameter(loop, now, et_params_values(loop->params), et_group_param(loop->group, i));
    et_params_begin_change(loop->params);
    memcpy(et_params_values(loop->params), now, bytes);
    et_params_changed(loop->params, true);
    et_free(now);
    return status;
}

/* *own: the file has the best step and value of this run. Another run may have started anew in the
 * directory and saved the same step. */
static int find_best(et_loop *loop, char **path, bool *own, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *info;
    int64_t step = -1;
    double value = NAN;
    int status = et_checkpoint_best_info(&info, loop->options.checkpoint_dir, &arena, error);
    if (!status)
        status = et_value_read_int(info, ET_CHECKPOINT_STEP, &step, error);
    const char *name = loop->options.valid_metric_name;
    const et_value *found = status ? NULL : et_value_get(info, name);
    if (found && found->kind == ET_VALUE_NULL) /* in a file: a number that is not finite */
        *own = !isfinite(loop->best.value);
    else
        *own = found && !et_value_read_float(info, name, &value, NULL) && value == loop->best.value;
    *own = *own && step == loop->best.step;
    et_arena_release(&arena);
    return status ? status : et_checkpoint_best(path, loop->options.checkpoint_dir, error);
}

static void tell_restored(et_loop *loop, const char *what, const char *which)
{
    et_strbuf_reset(&loop->out.line);
    et_strbuf_printf(&loop->out.line, "Restore early-stopping parameters: %s %s", what, which);
    et_loop_print(loop, et_strbuf_text(&loop->out.line));
}

/* The best step's snapshot may be missing if the run went back to an earlier checkpoint or began
 * from another run's file. */
static void tell_gone(const et_loop *loop)
{
    et_log(ET_LOG_WARNING,
           "early stopping: the best step was %lld, but its snapshot is missing; the parameters "
           "are unchanged",
           (long long)loop->best.step);
}

/* Rank 0's. */
static int read_snapshot(et_loop *loop, et_error *error)
{
    et_assert(loop->options.checkpoint_dir && loop->best.step >= 0);
    char *path = NULL;
    bool own = false;
    et_error failure = ET_ERROR_INIT;
    int status = find_best(loop, &path, &own, &failure);
    if (status == ET_ENOTFOUND || (!status && !own)) {
        tell_gone(loop);
        status = ET_OK;
    } else if (status) {
        et_fail(error, status, "%s", failure.text);
    } else {
        status = take_file(loop, path, error);
        if (!status)
            tell_restored(loop, "from checkpoint", path);
    }
    et_free(path);
    return status;
}

/* Rank 0 reads the snapshot and sends its parameters to all. */
static int take_snapshot(et_loop *loop, et_error *error)
{
    et_comm *comm = loop->options.comm;
    const size_t bytes = et_params_flat_size(loop->params) * sizeof(float);
    int status = et_comm_rank(comm) ? ET_OK : read_snapshot(loop, error);
    if (et_comm_size(comm) == 1)
        return status;
    et_params_begin_change(loop->params);
    status = et_together_give(comm, status, et_params_values(loop->params), bytes, error);
    et_params_changed(loop->params, true);
    return status;
}

int et_loop_take_best(void *self, et_error *error)
{
    et_loop *loop = self;
    char text[24];
    if (!loop->options.early_stopping)
        return ET_OK;
    if (loop->error.status) {
        et_log(ET_LOG_WARNING, "early stopping: the best parameters are not restored after an "
                               "error or an interruption");
        return ET_OK;
    }
    /* A save of the best may have failed since it was noted. */
    int status = et_run_broadcast_best(loop->run, ET_OK, error);
    et_loop_read_best(loop);
    if (status)
        return status;
    if (loop->best.step < 0) {
        et_log(ET_LOG_WARNING,
               "early stopping was never triggered: no value of %s was collected; the parameters "
               "are unchanged",
               loop->options.valid_metric_name);
        return ET_OK;
    }
    if (loop->options.checkpoint_dir)
        return take_snapshot(loop, error);
    if (!loop->best.values) {
        tell_gone(loop);
        return ET_OK;
    }
    /* The group's part of the kept values, or all. */
    bool some = loop->options.group != NULL;
    int count = some ? et_group_count(loop->group) : et_params_count(loop->params);
    et_params_begin_change(loop->params);
    for (int i = 0; i < count; i++)
        copy_parameter(loop, et_params_values(loop->params), loop->best.values,
                       some ? et_group_param(loop->group, i) : i);
    et_params_changed(loop->params, true);
    snprintf(text, sizeof text, "%lld", (long long)loop->best.step);
    tell_restored(loop, "of step", text);
    return ET_OK;
}
