/* Printed lines of a loop: lines with a tag, logs, the training summary; progress and ETA. */
#include <math.h>
#include <string.h>

#include <etude/version.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/vector.h"
#include "engine/exec/device.h"
#include "systems/tfsnippet/loop_private.h"

/* ---- progress ---- */

/* The finished part of a counter. The current epoch or step counts as finished when its time has
 * been collected, as by its logs. */
static double done(int64_t counter, bool within, double begun)
{
    return (double)(counter - (within && !isnan(begun)));
}

/* Uses steps as soon as their number is known: max_step, or the mean steps of epochs so far. Later
 * epochs may have more steps. */
static double progress_of(const et_loop *loop, double step, double epoch)
{
    const et_loop_options *o = &loop->options;
    double steps = (double)o->max_step;
    if (!o->max_step && o->max_epoch && loop->at.epochs_done)
        steps = (double)o->max_epoch * ((double)loop->at.steps_done / (double)loop->at.epochs_done);
    if (steps > 0)
        return fmin(step / steps, 1);
    return o->max_epoch ? fmin(epoch / (double)o->max_epoch, 1) : (double)NAN;
}

double et_loop_progress(const et_loop *loop)
{
    return progress_of(loop, done(loop->at.step, loop->at.within_step, loop->clock.step_begun),
                       done(loop->at.epoch, loop->at.within_epoch, loop->clock.epoch_begun));
}

double et_loop_eta(const et_loop *loop)
{
    double progress = et_loop_progress(loop);
    double made = progress - progress_of(loop, loop->clock.eta_step, loop->clock.eta_epoch);
    if (!(made >= 1e-7))
        return (double)NAN;
    return (et_clock_monotonic() - loop->clock.eta_time) / made * (1 - progress);
}

/* ---- lines ---- */

static void append_counter(et_strbuf *line, const char *name, int64_t counter, int64_t most)
{
    et_strbuf_printf(line, "%s %lld", name, (long long)counter);
    if (most)
        et_strbuf_printf(line, "/%lld", (long long)most);
}

static void append_tag(et_loop *loop, et_strbuf *line)
{
    const et_loop_options *o = &loop->options;
    double eta = o->no_eta ? (double)NAN : et_loop_eta(loop);
    et_strbuf_append_char(line, '[');
    if (o->max_epoch != 1) {
        append_counter(line, "Epoch", loop->at.epoch, o->max_epoch);
        et_strbuf_append(line, ", ");
    }
    append_counter(line, "Step", loop->at.step, o->max_step);
    if (!isnan(eta)) {
        char text[ET_DURATION_TEXT_MAX];
        et_humanize_duration(eta, false, text);
        et_strbuf_printf(line, ", ETA %s", text);
    }
    et_strbuf_append(line, "] ");
}

static int print_line(et_loop *loop)
{
    if (loop->out.line.failed)
        return et_fail(&loop->error, ET_ENOMEM, "out of memory for a line");
    et_loop_print(loop, et_strbuf_text(&loop->out.line));
    return ET_OK;
}

int et_loop_println(et_loop *loop, const char *message, bool with_tag)
{
    int status = with_tag ? et_loop_ready_in_epoch(loop) : loop->error.status;
    if (status)
        return status;
    et_strbuf_reset(&loop->out.line);
    if (with_tag)
        append_tag(loop, &loop->out.line);
    et_strbuf_append(&loop->out.line, message ? message : "");
    return print_line(loop);
}

static void give_back(et_logger *logger, et_logger_list *list)
{
    if (logger->spare.stats)
        et_free(list->stats);
    else
        logger->spare = *list;
    *list = (et_logger_list){ 0 };
}

/* Inserts each after those that are not greater: stable, and lists are short. */
static int sort_metrics(et_logger_list *out, et_logger *logger,
                        const et_metric_formatter *formatter, et_error *error)
{
    et_assert(formatter->compare && formatter->format);
    *out = logger->spare;
    logger->spare = (et_logger_list){ 0 };
    et_loop_stats *sorted =
        et_vector_grow(out->stats, &out->capacity, logger->count + 1, sizeof *sorted, 8);
    if (!sorted) {
        give_back(logger, out);
        return et_alloc_failed(error, logger->count * sizeof *sorted, "a list of metrics");
    }
    *out = (et_logger_list){ sorted, 0, out->capacity };
    for (size_t i = 0; i < logger->count; i++) {
        const et_logger_item *item = &logger->items[i];
        if (!et_statistics_counter(item->statistics))
            continue;
        int at = out->count++;
        for (;
             at > 0 && formatter->compare(formatter->payload, sorted[at - 1].name, item->name) > 0;
             at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = (et_loop_stats){ item->name, item->statistics };
    }
    return ET_OK;
}

static void print_one(const et_loop_stats *one, const et_metric_formatter *formatter,
                      et_strbuf *out)
{
    char text[128];
    for (const char *c = one->name; *c; c++)
        et_strbuf_append_char(out, *c == '_' ? ' ' : *c);
    formatter->format(formatter->payload, one->name, et_statistics_mean(one->statistics), text,
                      sizeof text);
    et_strbuf_printf(out, ": %s", text);
    if (et_statistics_counter(one->statistics) < 2)
        return;
    formatter->format(formatter->payload, one->name, et_statistics_stddev(one->statistics), text,
                      sizeof text);
    et_strbuf_printf(out, " (\u00b1%s)", text);
}

/* Times are together, before or after the rest, in any order of the formatter: each event has its
 * own, in that order. */
static int fire_stats(et_loop *loop, const et_logger_list *list, bool times)
{
    int kept = 0;
    et_loop_stats *sorted = list->stats;
    for (int i = 0; i < list->count; i++)
        if (et_logger_is_time(sorted[i].name) == times) {
            et_loop_stats one = sorted[i];
            memmove(&sorted[kept + 1], &sorted[kept], (size_t)(i - kept) * sizeof one);
            sorted[kept++] = one;
        }
    const char *event = times ? ET_EVENT_TIME_METRIC_STATS_PRINTED : ET_EVENT_METRIC_STATS_PRINTED;
    return kept ? et_loop_fire(loop, event, &(et_loop_event){ .stats = sorted, .count = kept },
                               false)
                : ET_OK;
}

int et_loop_print_logs(et_loop *loop)
{
    int status = et_loop_ready_in_epoch(loop);
    if (status)
        return status;
    et_logger *logger = loop->at.within_step ? &loop->metrics.step : &loop->metrics.epoch;
    et_logger_list list;
    status = loop->at.within_step
                 ? et_loop_collect_time(loop, ET_LOOP_STEP_TIME, &loop->clock.step_begun)
                 : et_loop_collect_time(loop, ET_LOOP_EPOCH_TIME, &loop->clock.epoch_begun);
    if (!status)
        status = sort_metrics(&list, logger, loop->options.formatter, &loop->error);
    if (status)
        return status;
    et_strbuf_reset(&loop->out.line);
    append_tag(loop, &loop->out.line);
    for (int i = 0; i < list.count; i++) {
        if (i)
            et_strbuf_append(&loop->out.line, "; ");
        print_one(&list.stats[i], loop->options.formatter, &loop->out.line);
    }
    et_strbuf_append(&loop->out.line, loop->best.is_last ? " (*)" : "");
    loop->best.is_last = false;
    status = print_line(loop);
    if (!status)
        status = fire_stats(loop, &list, false);
    if (!status)
        status = fire_stats(loop, &list, true);
    et_logger_clear(logger);
    give_back(logger, &list);
    return status;
}

/* ---- the training summary ---- */

/* An empty line ends the table. */
static void print_table(void *self, const char *text)
{
    et_loop *loop = self;
    et_strbuf_reset(&loop->out.line);
    et_strbuf_printf(&loop->out.line, "%s\n", text);
    print_line(loop);
}

int et_loop_print_training_summary(et_loop *loop)
{
    int status = et_loop_ready(loop);
    const et_variables_options options = { .title = "Trainable Parameters",
                                           .other_title = "Other Parameters",
                                           .groups = loop->options.var_groups,
                                           .group_count = loop->options.var_group_count };
    if (status)
        return status;
    et_strbuf_reset(&loop->out.line);
    const et_device *device = loop->options.device;
    et_strbuf_printf(&loop->out.line, "Execution Environment\n---------------------\nEtude   %s",
                     et_version());
    if (device)
        et_strbuf_printf(&loop->out.line, "\nKernels %s%s\nThreads %d", device->kernels->name,
                         et_gemm_has_bf16() ? ", bfloat16" : "", device->threads);
    if (loop->options.checkpoint_dir)
        et_strbuf_printf(&loop->out.line, "\nSaves   %s", loop->options.checkpoint_dir);
    et_strbuf_append(&loop->out.line, "\n");
    status = print_line(loop);
    if (status)
        return status;
    const int count = et_group_count(loop->group);
    et_variable_shape *variables = et_alloc((size_t)count + 1, sizeof *variables);
    if (!variables)
        return et_alloc_failed(&loop->error, (size_t)count * sizeof *variables, "a table");
    for (int i = 0; i < count; i++) {
        const int param = et_group_param(loop->group, i);
        variables[i] = (et_variable_shape){ et_params_name(loop->params, param),
                                            et_params_shape(loop->params, param) };
    }
    status = et_summarize_variables(variables, count, &options, print_table, loop, &loop->error);
    et_free(variables);
    return status ? status : loop->error.status;
}
