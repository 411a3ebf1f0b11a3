/* The table of a training. The decimal points of a column are aligned: a number has four decimals
 * at most, and blanks replace missing decimals. */
#include "systems/modelgarden/training_table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/plain.h"
#include "base/text/format.h"
#include "base/text/terminal.h"
#include "base/text/unicode.h"
#include "formats/events/log_names.h"
#include "formats/events/progress.h"
#include "train/checkpoint/metric_name.h"

enum {
    NUMBER_WIDTH = 9, /* "9999.1   " */
    EPOCH_WIDTH = 5,
    TIME_WIDTH = 8, /* "3d 04:10" */
    MARK_WIDTH = 3,
    LABEL_MAX = 48,
};

typedef struct column {
    const char *metric; /* borrowed */
    char label[LABEL_MAX];
    int width;
} column;

typedef struct table {
    et_sink sink;
    et_training_table_options options;
    bool headed; /* columns are chosen */
    bool epoch;  /* there is a column of epochs */
    int step_width, count;
    column columns[ET_MAIN_METRICS_MAX];
    double loss; /* of the last log of training, which was at loss_step */
    int64_t loss_step, row_epoch;
    et_strbuf line; /* memory that is used again */
} table;

static void say(table *t)
{
    if (!t->line.failed && t->options.progress)
        et_progress_message(t->options.progress, t->line.data);
    else if (!t->line.failed)
        t->options.print(t->line.data);
}

/* "new/accuracy" for "new/validation_accuracy". A loss keeps "validation_", because the training
 * also has a loss. If the label is longer than room, the metric's name is used alone. */
static void make_label(char out[LABEL_MAX], const char *metric, int room)
{
    const char *last = metric + strlen(metric);
    while (last > metric && last[-1] != '/' && last[-1] != '|')
        last--;
    const char *name = et_logged_short(last);
    char label[256];
    snprintf(label, sizeof label, "%.*s%s", (int)(last - metric), metric, name);
    et_plain_copy(out, LABEL_MAX, (int)strlen(label) > room ? name : label);
}

/* Right-aligned in its column, two spaces after the previous column. */
static void append_cell(et_strbuf *line, int width, const char *text)
{
    et_strbuf_append_blanks(line, 2 + width - (int)et_utf8_columns(text, strlen(text)));
    et_strbuf_append(line, text);
}

/* ---- the head ---- */

static int width_of(const table *t)
{
    int width = t->step_width + MARK_WIDTH;
    width += t->options.progress ? 2 + NUMBER_WIDTH + 2 + TIME_WIDTH : 0;
    width += t->epoch ? 2 + EPOCH_WIDTH : 0;
    for (int i = 0; i < t->count; i++)
        width += 2 + t->columns[i].width;
    return width;
}

static void set_column(column *c, const char *metric, int room)
{
    c->metric = metric;
    make_label(c->label, metric, room);
    const int length = (int)et_utf8_columns(c->label, strlen(c->label));
    c->width = length > NUMBER_WIDTH ? length : NUMBER_WIDTH;
}

/* Before the first validation, its metrics are unknown. */
static void choose_columns(table *t, const et_value *validation)
{
    const et_main_metrics *m = &t->options.metrics;
    const int room = t->options.progress ? et_progress_width(t->options.progress)
                                         : et_terminal_width(STDOUT_FILENO) - 1;
    double value;
    t->step_width = (int)strlen(et_format_count(t->options.steps).text);
    t->step_width = t->step_width < 4 ? 4 : t->step_width;
    t->epoch = t->options.now && t->options.now->epoch > 0;
    for (int i = 0; i < m->count && t->count < t->options.most; i++)
        if (!validation || et_metric_named(validation, m->name[i], &value))
            set_column(&t->columns[t->count++], m->name[i], LABEL_MAX - 1);
    while (t->count > 1 && width_of(t) > room)
        t->count--;
    t->epoch = t->epoch && width_of(t) <= room;
    if (t->count && width_of(t) > room)
        set_column(&t->columns[0], t->columns[0].metric, 0);
}

static void sane(const table *t)
{
    et_assert(!t->options.progress || t->options.now);
    et_assert(t->count >= 0 && t->count <= t->options.most);
    et_assert(t->count <= t->options.metrics.count);
    et_assert(!t->headed || t->step_width >= 4);
    for (int i = 0; i < t->count; i++)
        et_assert(t->columns[i].metric && t->columns[i].width >= NUMBER_WIDTH);
}

static void write_head(table *t, const et_value *validation)
{
    et_assert(!t->headed && !t->count);
    const et_training_table_options *o = &t->options;
    et_strbuf *line = &t->line;
    char best[LABEL_MAX];
    choose_columns(t, validation);
    et_strbuf_reset(line);
    if (o->best || o->log)
        et_strbuf_append(line, "table        "); /* 13 columns, as in all lines at the start */
    if (o->best) {
        make_label(best, o->best, LABEL_MAX - 1);
        et_strbuf_printf(line, "* = new %s %s%s", o->lowest ? "lowest" : "best", best,
                         o->log ? "; " : "");
    }
    if (o->best || o->log)
        et_strbuf_printf(line, "%s%s\n", o->log ? "all values: " : "", o->log ? o->log : "");
    et_strbuf_printf(line, "%*s", t->step_width, "step");
    if (t->epoch)
        append_cell(line, EPOCH_WIDTH, "epoch");
    if (o->progress)
        append_cell(line, NUMBER_WIDTH, ET_LOGGED_LOSS);
    for (int i = 0; i < t->count; i++)
        append_cell(line, t->columns[i].width, t->columns[i].label);
    if (o->progress)
        append_cell(line, TIME_WIDTH, "time");
    say(t);
    t->headed = true;
}

/* ---- rows ---- */

/* Four digits, with blanks in place of missing decimals. A number that is too long for a point is
 * written as it is. */
static void append_number(et_strbuf *line, int width, double value)
{
    const double size = fabs(value);
    const int digits = size < 0.9999 ? 4 : size < 9.999 ? 3 : size < 99.99 ? 2 : 1;
    const bool fits = size < 9999 && (size >= 0.001 || size == 0);
    if (fits)
        append_cell(line, width - (4 - digits), et_format_fixed(value, digits).text);
    if (fits)
        et_strbuf_append_blanks(line, 4 - digits);
    else
        append_cell(line, width, et_format_value(value).text);
}

/* validation NULL: no validation at this step. If a line cannot be allocated, it is not shown. */
static void write_row(table *t, int64_t step, const et_value *validation)
{
    const et_training_table_options *o = &t->options;
    et_strbuf *line = &t->line;
    sane(t);
    et_assert(step >= 0);
    if (!t->headed)
        write_head(t, validation);
    t->row_epoch = o->now ? o->now->epoch : 0;
    et_strbuf_reset(line);
    et_strbuf_printf(line, "%*s", t->step_width, et_format_count(step).text);
    if (t->epoch)
        append_cell(line, EPOCH_WIDTH, et_format_count(o->now->epoch).text);
    if (o->progress)
        append_number(line, NUMBER_WIDTH, t->loss_step == step ? t->loss : o->now->loss);
    for (int i = 0; i < t->count; i++) {
        const column *c = &t->columns[i];
        double value;
        if (validation && et_metric_named(validation, c->metric, &value))
            append_number(line, c->width, value);
        else
            append_cell(line, c->width, "-");
    }
    if (o->progress)
        append_cell(line, TIME_WIDTH, et_format_duration(et_clock_monotonic() - o->began).text);
    double best;
    if (validation && et_metric_named(validation, ET_LOGGED_BEST_STEP, &best) &&
        best == (double)step)
        et_strbuf_append(line, "  *");
    say(t);
}

static int table_write(et_sink *self, int64_t step, const et_value *values, et_error *error)
{
    table *t = (table *)self;
    const et_training_table_options *o = &t->options;
    const et_value *train = et_value_get(values, ET_LOGGED_TRAIN),
                   *validation = et_value_get(values, ET_LOGGED_VALIDATION);
    (void)error; /* training continues if a row cannot be shown */
    if (train && (et_metric_named(train, ET_LOGGED_TRAINING_LOSS, &t->loss) ||
                  et_metric_named(train, ET_LOGGED_TOTAL_LOSS, &t->loss))) /* of several tasks */
        t->loss_step = step;
    const int64_t epoch = o->now ? o->now->epoch : 0;
    const bool last = step >= o->steps, other = epoch > t->row_epoch || !epoch;
    if (validation)
        write_row(t, step, validation);
    else if (train && o->epochs && (last ? !o->validated : other))
        write_row(t, step, NULL);
    return ET_OK;
}

static int table_close(et_sink *self, et_error *error)
{
    table *t = (table *)self;
    (void)error;
    et_strbuf_release(&t->line);
    et_free(t);
    return ET_OK;
}

static const et_sink_class table_class = {
    .name = "table",
    .write = table_write,
    .close = table_close,
};

int et_training_table_open(et_sink **out, const et_training_table_options *options, et_error *error)
{
    *out = NULL;
    et_assert(options->progress || options->print);
    table *t;
    if (ET_ALLOC_ZERO(t, 1, "a table", error))
        return ET_ENOMEM;
    t->sink.class = &table_class;
    t->options = *options;
    t->loss_step = -1;
    *out = &t->sink;
    return ET_OK;
}
