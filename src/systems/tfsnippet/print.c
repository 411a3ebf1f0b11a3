/* Printed lines of a loop: lines with a tag, logs, the training summary; progress and ETA. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etude/loop_log.h>
#include <etude/version.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/numbers/decimal.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "base/vector.h"
#include "engine/exec/device.h"
#include "engine/tensor/tensor.h"
#include "formats/grid.h"
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
    if (!ET_VECTOR_GROW(out->stats, out->capacity, logger->count + 1)) {
        give_back(logger, out);
        return et_alloc_failed(error, "a list of metrics");
    }
    et_loop_stats *sorted = out->stats;
    out->count = 0;
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
    if (!(status = print_line(loop)) && !(status = fire_stats(loop, &list, false)))
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
    if ((status = print_line(loop)))
        return status;
    const int count = et_group_count(loop->group);
    et_variable_shape *variables;
    if (ET_ALLOC(variables, (size_t)count + 1, "a table", &loop->error))
        return ET_ENOMEM;
    for (int i = 0; i < count; i++) {
        const int param = et_group_param(loop->group, i);
        variables[i] = (et_variable_shape){ et_params_name(loop->params, param),
                                            et_params_shape(loop->params, param) };
    }
    status = et_summarize_variables(variables, count, &options, print_table, loop, &loop->error);
    et_free(variables);
    return status ? status : loop->error.status;
}

/* ---- the default format ---- */

/* The default format of printed metrics: times first, as durations, then the others by name, with
 * six digits. */

static int compare(void *payload, const char *a, const char *b)
{
    (void)payload;
    int times = et_logger_is_time(b) - et_logger_is_time(a);
    return times ? times : strcmp(a, b);
}

/* printf shows the sign of NaN, which has no meaning. */
static double unsigned_nan(double value)
{
    return isnan(value) ? fabs(value) : value;
}

static void format(void *payload, const char *name, double value, char *text, size_t size)
{
    (void)payload;
    char duration[ET_DURATION_TEXT_MAX];
    if (!et_logger_is_time(name)) {
        et_decimal_print(text, size, 6, 0, unsigned_nan(value));
        return;
    }
    et_humanize_duration(value, false, duration);
    snprintf(text, size, "%s", duration);
}

const et_metric_formatter et_metric_formatter_default = { NULL, compare, format };

static const struct {
    double seconds;
    const char *unit, *word;
} units[] = { { 86400, "d", " day" }, { 3600, "h", " hour" }, { 60, "m", " minute" } };

enum { UNITS = sizeof units / sizeof *units };

/* The remaining seconds after the minutes, as printed: with four digits, of which 59.9996 would
 * make 60. */
static double rounded(double seconds)
{
    char text[32];
    double rest = fmod(seconds, 60);
    snprintf(text, sizeof text, "%.4g", rest);
    return strtod(text, NULL) >= 60 ? seconds - rest + 60 : seconds;
}

static void append(char *text, const char *number, const char *unit, bool plural)
{
    size_t used = strlen(text);
    snprintf(text + used, ET_DURATION_TEXT_MAX - used, "%s%s%s%s", used ? " " : "", number, unit,
             plural ? "s" : "");
}

void et_humanize_duration(double seconds, bool words, char text[ET_DURATION_TEXT_MAX])
{
    char number[32];
    double left = rounded(fabs(seconds));
    *text = 0;
    if (!(left < 1e15)) {
        snprintf(text, ET_DURATION_TEXT_MAX, isnan(seconds) ? "%g" : "%gs", unsigned_nan(seconds));
        return;
    }
    for (int i = 0; i < UNITS; i++) {
        double count = floor(left / units[i].seconds);
        left = fmod(left, units[i].seconds);
        snprintf(number, sizeof number, "%.0f", count);
        if (count > 0)
            append(text, number, words ? units[i].word : units[i].unit, words && count > 1);
    }
    et_decimal_print(number, sizeof number, 4, 0, left);
    if (left > 2.3e-16)
        append(text, number, words ? " second" : "s", words && left > 1);
    else if (!*text)
        append(text, "0", words ? " second" : "s", false);
    if (seconds < 0)
        append(text, "ago", "", false);
}

/* ---- variables ---- */

/* A table of variables: name, shape, elements, all tables of one width.
 *
 *     Trainable Parameters    (407,050 in total)
 *     ==========================================
 *     hidden/                 (401,920 in total)
 *     ------------------------------------------
 *     weight                 (784, 512)  401,408
 *     bias                   (512,)          512
 *
 *     Other Parameters          (5,130 in total)
 *     ------------------------------------------
 *     ... */

enum { ALL = -1 }; /* a group's number; the number after the last: variables in no group */

typedef struct summary {
    et_variables_options options;
    et_variable_shape *variables; /* [count], owned, in the order of the table */
    int count;
} summary;

/* Without the slash at its end. */
static size_t group_length(const char *group)
{
    size_t length = strlen(group);
    while (length && group[length - 1] == '/')
        length--;
    return length;
}

/* Length of the group's name with its slash, if name is in the group; else 0. */
static size_t prefix_length(const char *group, const char *name)
{
    const size_t length = group_length(group);
    bool within = length && !strncmp(group, name, length) && name[length] == '/';
    return within ? length + 1 : 0;
}

/* The name as in the table; NULL: not in the table. */
static const char *name_in(const et_variables_options *o, int group, const char *name)
{
    et_assert(group >= ALL && group <= o->group_count);
    if (group == ALL)
        return name;
    if (group < o->group_count) {
        size_t length = prefix_length(o->groups[group], name);
        return length ? name + length : NULL;
    }
    for (int i = 0; i < o->group_count; i++)
        if (prefix_length(o->groups[i], name))
            return NULL;
    return name;
}

typedef struct table {
    const char *title;
    int title_length;
    const char *slash; /* after the title of a group */
    int64_t elements;
    et_grid grid; /* name, shape, elements; prints nothing if the group has no variable */
} table;

static table table_of(const summary *s, int group)
{
    const et_variables_options *o = &s->options;
    const bool named = group >= 0 && group < o->group_count;
    table t = { .title = group == ALL ? o->title
                         : named      ? o->groups[group]
                                      : o->other_title,
                .slash = named ? "/" : "",
                .grid = { .columns = 3, .headless = true, .left = 2 } };
    t.title_length = (int)(named ? group_length(t.title) : strlen(t.title));
    for (int i = 0; i < s->count; i++) {
        const char *name = name_in(o, group, s->variables[i].name);
        char text[128];
        if (!name)
            continue;
        const et_shape shape = s->variables[i].shape;
        t.elements += et_shape_count(shape);
        int used = snprintf(text, sizeof text, "("); /* "(784, 512)", "(4,)", "()" */
        for (int k = 0; k < shape.rank; k++)
            used += snprintf(text + used, sizeof text - (size_t)used, "%s%lld", k ? ", " : "",
                             (long long)shape.size[k]);
        snprintf(text + used, sizeof text - (size_t)used, shape.rank == 1 ? ",)" : ")");
        const et_format elements = et_format_count(et_shape_count(shape));
        et_grid_add_row(&t.grid, (const char *const[]){ name, text, elements.text });
    }
    return t;
}

/* At least one blank follows the title. */
static int title_width(const table *t)
{
    return t->title_length + (int)(strlen(t->slash) + strlen(et_format_count(t->elements).text) +
                                   sizeof " ( in total)" - 1);
}

static int width_of(const table *t)
{
    const int title = title_width(t), rows = (int)et_grid_width(&t->grid);
    return rows > title ? rows : title;
}

static void append_title(const table *t, char rule, int width, et_strbuf *out)
{
    et_strbuf_printf(out, "%.*s%s", t->title_length, t->title, t->slash);
    et_strbuf_append_blanks(out, width - title_width(t));
    et_strbuf_printf(out, " (%s in total)\n", et_format_count(t->elements).text);
    while (width-- > 0)
        et_strbuf_append_char(out, rule);
    et_strbuf_append_char(out, '\n');
}

static void append_table(table *t, int width, et_strbuf *out)
{
    append_title(t, '-', width, out);
    t->grid.width = (size_t)width;
    et_grid_append(&t->grid, ET_GRID_TEXT, out);
}

/* Every table is as wide as the widest. */
static void append_groups(const summary *s, const table *all, et_strbuf *out)
{
    const int groups = s->options.group_count + 1;
    int width = title_width(all);
    const char *between = "";
    for (int i = 0; i < groups; i++) {
        table t = table_of(s, i);
        width = t.grid.count && width_of(&t) > width ? width_of(&t) : width;
        et_grid_release(&t.grid);
    }
    append_title(all, '=', width, out);
    for (int i = 0; i < groups; i++) {
        table t = table_of(s, i);
        if (t.grid.count) {
            et_strbuf_append(out, between);
            append_table(&t, width, out);
            between = "\n";
        }
        et_grid_release(&t.grid);
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const et_variable_shape *)a)->name, ((const et_variable_shape *)b)->name);
}

static int check(const et_variable_shape *variables, int count, const et_variables_options *o,
                 et_error *error)
{
    if (count < 0 || o->group_count < 0 || (count && !variables) || (o->group_count && !o->groups))
        return et_fail(error, ET_ECONFIG,
                       "%d variables, %d groups: counts must be at least 0, and 0 if the list is "
                       "NULL",
                       count, o->group_count);
    for (int i = 0; i < count; i++)
        if (!variables[i].name || !et_shape_valid(variables[i].shape))
            return et_fail(error, ET_ECONFIG, "variable %d has no %s", i,
                           variables[i].name ? "valid shape" : "name");
    for (int i = 0; i < o->group_count; i++)
        if (!o->groups[i])
            return et_fail(error, ET_ECONFIG, "group %d has no name", i);
    return ET_OK;
}

int et_summarize_variables(const et_variable_shape *variables, int count,
                           const et_variables_options *options, et_loop_print_fn *print,
                           void *payload, et_error *error)
{
    summary s = { .options = options ? *options : (et_variables_options){ 0 }, .count = count };
    et_strbuf out = ET_STRBUF_INIT;
    int status = check(variables, count, &s.options, error);
    if (status)
        return status;
    s.options.title = s.options.title ? s.options.title : "Variables Summary";
    s.options.other_title = s.options.other_title ? s.options.other_title : "Other Variables";
    if (ET_ALLOC(s.variables, (size_t)count + 1, "a table", error))
        return ET_ENOMEM;
    for (int i = 0; i < count; i++)
        s.variables[i] = variables[i];
    if (s.options.sort_by_names)
        qsort(s.variables, count, sizeof *s.variables, by_name);
    if (count) {
        table all = table_of(&s, ALL), others = table_of(&s, s.options.group_count);
        out.failed |= all.grid.failed || others.grid.failed;
        if (others.grid.count < all.grid.count)
            append_groups(&s, &all, &out);
        else
            append_table(&all, width_of(&all), &out);
        et_grid_release(&all.grid);
        et_grid_release(&others.grid);
    }
    if (out.length)
        et_strbuf_truncate(&out, out.length - 1);
    if (out.failed)
        status = et_alloc_failed(error, "a table");
    else if (print)
        print(payload, et_strbuf_text(&out));
    else
        printf("%s\n", et_strbuf_text(&out)), fflush(stdout);
    et_strbuf_release(&out);
    et_free(s.variables);
    return status;
}
