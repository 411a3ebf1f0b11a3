/* Measuring and printing in a loop (<etude/loop.h>): metrics, timers, the best value, summaries,
 * lines for people.
 *
 *     et_loop_collect(loop, "loss", 0.25);
 *     et_loop_time_begin(loop, "valid_time");
 *     ...
 *     et_loop_time_end(loop, "valid_time");
 *     et_loop_print_logs(loop);
 *
 * prints "[Epoch 3/10, Step 400, ETA 1m 2s] valid time: 0.5s; loss: 0.25".
 *
 * The same texts without a loop: a duration, and the table of variables of
 * et_loop_print_training_summary for any variables.
 *
 *     et_humanize_duration(62, false, text);                                  "1m 2s"
 *     if (et_summarize_variables(variables, 1, NULL, NULL, NULL, &error)) ...
 *
 * Metrics go to the statistics of the epoch and, during a step, also to those of the steps.
 * Printing resets the printed statistics: a print every five epochs shows five epochs. Checkpoints
 * contain the metrics, except those with names that end in "time" or "timer", because they depend
 * on the clock. */
#ifndef ETUDE_LOOP_LOG_H
#define ETUDE_LOOP_LOG_H

#include <etude/loop.h>
#include <etude/statistics.h>

/* A collected metric: one value, or several. */
typedef struct et_loop_metric {
    const char *name;
    double value;
    const double *values; /* [count], may be empty; NULL: only value */
    int64_t count;        /* of values */
} et_loop_metric;

/* The printed statistics of a metric. */
typedef struct et_loop_stats {
    const char *name;
    const et_statistics *statistics;
} et_loop_stats;

/* The format of printed metrics. */
struct et_metric_formatter {
    void *payload;
    int (*compare)(void *payload, const char *a, const char *b); /* the order, as strcmp */
    /* Writes a value or a deviation into text, ended by 0. */
    void (*format)(void *payload, const char *name, double value, char *text, size_t size);
};

/* Times first, as durations; then the other metrics by name, with six digits. */
ET_DATA const et_metric_formatter et_metric_formatter_default;

#define ET_DURATION_TEXT_MAX 64
/* "1d 2h 3m 4.5s", "0s", "4s ago"; in words "1 day 2 hours 3 minutes 4.5 seconds". */
ET_API void et_humanize_duration(double seconds, bool words, char text[ET_DURATION_TEXT_MAX]);

/* ---- a table of variables, also without a loop ---- */

typedef struct et_variable_shape {
    const char *name;
    et_shape shape;
} et_variable_shape;

typedef struct et_variables_options {
    const char *title;         /* NULL: "Variables Summary" */
    const char *other_title;   /* variables in no group; NULL: "Other Variables" */
    const char *const *groups; /* [group_count]: scopes that have separate tables */
    int group_count;
    bool sort_by_names; /* else the order of the array */
} et_variables_options;

/* Prints name, shape and number of elements of variables[count], as one text without the last
 * line's end; "" without variables. Empty groups have no table. print NULL: to standard output.
 * ET_ECONFIG: a name is NULL, or a count is negative. */
ET_API int et_summarize_variables(const et_variable_shape *variables, int count,
                                  const et_variables_options *options, et_loop_print_fn *print,
                                  void *payload, et_error *error);

/* ---- in an epoch; otherwise ET_EUSAGE ---- */

/* Adds a value to the statistics, writes a summary of the mean at this step, fires
 * METRICS_COLLECTED, and compares with the best. A valid metric is a new best if it is better than
 * all earlier ones of this run; NaN is never a best. For epoch_time and step_time the event is
 * TIME_METRICS_COLLECTED. */
ET_API int et_loop_collect(et_loop *loop, const char *name, double value);
/* Collects several metrics with one event. ET_EDATA: no name, or values are missing. */
ET_API int et_loop_collect_metrics(et_loop *loop, const et_loop_metric *metrics, int count);

/* Pairs of calls, which may be nested. collector_begin lends a collector; collector_end collects
 * its mean, if it has one. time_end collects the seconds since time_begin, with
 * TIME_METRICS_COLLECTED. A pair that is open at the end of its epoch or step is dropped.
 * ET_EUSAGE: end without begin, or the name is already open. */
ET_API int et_loop_collector_begin(et_loop *loop, const char *name, et_statistics **collector);
ET_API int et_loop_collector_end(et_loop *loop, const char *name);
ET_API int et_loop_time_begin(et_loop *loop, const char *name);
ET_API int et_loop_time_end(et_loop *loop, const char *name);

/* In a step: collects step_time and prints the statistics of the steps with a tag. In an epoch: the
 * same for epoch_time and the epoch's statistics. " (*)" at the end marks a new best valid metric.
 * Fires METRIC_STATS_PRINTED and TIME_METRIC_STATS_PRINTED if such metrics were printed, then
 * resets the printed statistics. */
ET_API int et_loop_print_logs(et_loop *loop);

/* Prints a line. Without a tag it is allowed at any time, also before begin and after the end.
 * After a failure of the loop it prints nothing and returns the failure. with_tag: only in an
 * epoch, else the loop fails with ET_EUSAGE; begins the line with "[Epoch 3/10, Step 400, ETA 1m
 * 2s] ". With a max_epoch of 1 the tag has no epoch; with no_eta, or before an estimate is
 * possible, no ETA. */
ET_API int et_loop_println(et_loop *loop, const char *message, bool with_tag);

/* ---- between begin and end ---- */

/* Prints version, device and checkpoint directory, then a table of the trained parameters by
 * groups. */
ET_API int et_loop_print_training_summary(et_loop *loop);

/* Writes values by tag at this step and fires SUMMARY_ADDED. ET_EUSAGE: the loop has no writer. */
ET_API int et_loop_add_summary(et_loop *loop, const et_value *summary);

/* The same for a serialised tensorflow.Summary: scalars, histograms, images
 * (<etude/summary_message.h>), into event files. ET_EUSAGE: the writer has no event files.
 * ET_EDATA: the bytes are not such a message. */
ET_API int et_loop_add_summary_bytes(et_loop *loop, const void *bytes, size_t length);

/* ---- getters ---- */

/* Seconds until the current limits, estimated from the pace since begin; NaN: unknown. */
ET_API double et_loop_eta(const et_loop *loop);
ET_API double et_loop_best_valid_metric(const et_loop *loop);      /* NaN: none yet */
ET_API const char *et_loop_valid_metric_name(const et_loop *loop); /* NULL: none */
ET_API bool et_loop_valid_metric_smaller_is_better(const et_loop *loop);
ET_API bool et_loop_use_early_stopping(const et_loop *loop);
ET_API et_sink *et_loop_summary_writer(et_loop *loop);                          /* NULL: none */
ET_API int et_loop_var_groups(const et_loop *loop, const char *const **groups); /* how many */

#endif
