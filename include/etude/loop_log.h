/* What is measured in a loop (<etude/loop.h>) and told of it: metrics, timers, the best value,
 * summaries, lines for people.
 *
 *     et_loop_collect(loop, "loss", 0.25);
 *     et_loop_time_begin(loop, "valid_time");
 *     ...
 *     et_loop_time_end(loop, "valid_time");
 *     et_loop_print_logs(loop);
 *
 * prints "[Epoch 3/10, Step 400, ETA 1m 2s] valid time: 0.5s; loss: 0.25".
 *
 * Metrics go to the epoch's statistics and, in a step, to the steps'; each until it is printed:
 * what is printed every five epochs is of five epochs. They are in checkpoints, but for names that
 * end in "time" or "timer", which depend on the clock. */
#ifndef ETUDE_LOOP_LOG_H
#define ETUDE_LOOP_LOG_H

#include <etude/loop.h>
#include <etude/statistics.h>

/* A metric that is collected: one value, or several. */
typedef struct et_loop_metric {
    const char *name;
    double value;
    const double *values; /* [count], of which there may be none; NULL: value alone */
    int64_t count;        /* of values */
} et_loop_metric;

/* A metric's statistics as they were printed. */
typedef struct et_loop_stats {
    const char *name;
    const et_statistics *statistics;
} et_loop_stats;

/* How metrics are printed. */
struct et_metric_formatter {
    void *payload;
    int (*compare)(void *payload, const char *a, const char *b); /* their order, as of strcmp */
    /* A value or its deviation, into text, terminated. */
    void (*format)(void *payload, const char *name, double value, char *text, size_t size);
};

/* Times first, as durations; the rest by name, with six digits. */
ET_DATA const et_metric_formatter et_metric_formatter_default;

#define ET_DURATION_TEXT_MAX 64

/* ---- in an epoch; else ET_EUSAGE ---- */

/* Adds to the statistics, writes a summary of the mean at this step, fires METRICS_COLLECTED,
 * compares with the best. A valid metric is the best if it is better than all before it in this
 * run; NaN never is. epoch_time and step_time come with TIME_METRICS_COLLECTED. */
ET_API int et_loop_collect(et_loop *loop, const char *name, double value);
/* Several, with one event. ET_EDATA: no name, values missing. */
ET_API int et_loop_collect_metrics(et_loop *loop, const et_loop_metric *metrics, int count);

/* Pairs, which may lie in each other. A collector is lent: its mean is collected at the end, if
 * it has one; a timer's seconds with TIME_METRICS_COLLECTED. What is open when the epoch or step it
 * began in ends is dropped. ET_EUSAGE: no pair, or one of its name is open. */
ET_API int et_loop_collector_begin(et_loop *loop, const char *name, et_statistics **collector);
ET_API int et_loop_collector_end(et_loop *loop, const char *name);
ET_API int et_loop_time_begin(et_loop *loop, const char *name);
ET_API int et_loop_time_end(et_loop *loop, const char *name);

/* In a step: collects step_time and prints the steps' statistics with a tag; in an epoch epoch_time
 * and the epoch's. " (*)" behind them: the valid metric is the best so far. Fires
 * METRIC_STATS_PRINTED and TIME_METRIC_STATS_PRINTED, where there are such, then forgets what was
 * printed. */
ET_API int et_loop_print_logs(et_loop *loop);

/* At any time. with_tag, in an epoch: "[Epoch 3/10, Step 400, ETA 1m 2s] " before it; no epoch
 * where there is only one. */
ET_API int et_loop_println(et_loop *loop, const char *message, bool with_tag);

/* ---- between begin and end ---- */

/* What it runs on, then a table of what is trained, by groups. */
ET_API int et_loop_print_training_summary(et_loop *loop);

/* Values by tag, as they are: written at this step; fires SUMMARY_ADDED. ET_EUSAGE: no writer. */
ET_API int et_loop_add_summary(et_loop *loop, const et_value *summary);

/* The same of a serialised tensorflow.Summary: scalars, histograms, images
 * (<etude/summary_message.h>), into event files. ET_EUSAGE: the writer has none. ET_EDATA: the
 * bytes are no such message. */
ET_API int et_loop_add_summary_bytes(et_loop *loop, const void *bytes, size_t length);

/* ---- getters ---- */

/* Seconds to go, by the pace since begin, to the limits as they are now; NaN: unknown. */
ET_API double et_loop_eta(const et_loop *loop);
ET_API double et_loop_best_valid_metric(const et_loop *loop);      /* NaN: none yet */
ET_API const char *et_loop_valid_metric_name(const et_loop *loop); /* NULL: none */
ET_API bool et_loop_valid_metric_smaller_is_better(const et_loop *loop);
ET_API bool et_loop_use_early_stopping(const et_loop *loop);
ET_API et_sink *et_loop_summary_writer(et_loop *loop);                          /* NULL: none */
ET_API int et_loop_var_groups(const et_loop *loop, const char *const **groups); /* how many */

#endif
