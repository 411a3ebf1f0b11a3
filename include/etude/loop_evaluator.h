/* Evaluators of a loop (as TFSnippet's Evaluator). An evaluator computes metrics over one pass of
 * data, as means weighted by batches, and the loop collects them. This header also collects outputs
 * of a pass over one pass of data.
 *
 *     et_loop_evaluator_options options = { .source = held_out, .pass = pass };
 *     et_loop_evaluator_open(&evaluator, loop, &options, &error);
 *     ... in an epoch of the loop:
 *     et_loop_evaluator_run(evaluator, NULL, 0, &error);       the loss, as the valid metric
 *     double loss = et_loop_evaluator_last(evaluator, NULL);
 *     const et_loop_metric *metrics;
 *     int count = et_loop_evaluator_last_metrics(evaluator, &metrics);
 *     et_event_hub_on(et_loop_evaluator_events(evaluator), ET_EVENT_AFTER_EXECUTION, ring, bell,
 *                        &error);
 *
 *     if (et_outputs_collect(&outputs, NULL, pass, held_out, names, 1, 0, 1, &error)) ...
 *     et_tensor logits = et_outputs_tensor(outputs, "logits");
 *     et_outputs_free(outputs);
 *     et_outputs_average(&mean, NULL, pass, held_out, names, 1, 1, &error);    of a single number
 *
 * Every run reads the source from the beginning of its data to the end of the first pass. So each
 * run sees the same batches, and nothing has to be saved. Evaluators may share a source. While a
 * loop's pass of the source is open, a run fails with ET_EUSAGE. Ranks of the loop
 * (et_loop_options.comm) divide the batches among them, and all get the values of one process. Use
 * from one thread. */
#ifndef ETUDE_LOOP_EVALUATOR_H
#define ETUDE_LOOP_EVALUATOR_H

#include <etude/annealing.h>
#include <etude/events.h>
#include <etude/loop_log.h>
#include <etude/pass.h>

/* ---- events of trainers and evaluators ---- */

#define ET_EVENT_BEFORE_EXECUTION "before_execution"
#define ET_EVENT_AFTER_EXECUTION  "after_execution" /* calls handlers in reverse order */

/* A value of a pass to collect. */
typedef struct et_loop_measure {
    const char *name; /* name of the metric; NULL: the loop's valid metric, of a trainer "loss" */
    const char *measure; /* name of a loss or measure of the pass; NULL: the sum of the losses */
} et_loop_measure;

/* ---- an evaluator ---- */

typedef struct et_loop_evaluator et_loop_evaluator;

typedef struct et_loop_evaluator_options {
    et_source *source; /* borrowed, like pass and payload */
    et_pass *pass;
    const et_loop_measure *metrics; /* [metric_count]; none: the loss of the pass, as valid
                                       metric */
    int metric_count;
    /* Instead of pass: sets values[metric_count] of a batch. NaN: no value; the batch is then
     * ignored. */
    int (*run_batch)(void *payload, const et_batch *batch, double *values, et_error *error);
    bool run_batch_by_ranks; /* each rank of the loop calls run_batch only for its batches;
                                otherwise every rank for all batches */
    /* Weight of a batch, at least 0. NULL: its rows (TFSnippet: the elements of its first
     * array). */
    double (*weight)(void *payload, const et_batch *batch);
    void *payload;
    bool equal_weights;      /* each batch has weight 1 */
    const char *time_metric; /* NULL: "eval_time"; "": no time metric */
    /* [bound_value_count], copied: set before each batch, restored after the run. */
    const et_bound_value *bound_values;
    int bound_value_count;
    uint64_t seed; /* seed of sampling in the pass */
} et_loop_evaluator_options;

/* ET_ECONFIG: no such measure or variable; neither pass nor run_batch, or both; a metric without a
 * name although the loop has no valid metric. */
ET_API int et_loop_evaluator_open(et_loop_evaluator **out, et_loop *loop,
                                  const et_loop_evaluator_options *options, et_error *error);
/* Close the evaluator before its loop. NULL allowed. */
ET_API void et_loop_evaluator_close(et_loop_evaluator *evaluator);

/* Fires BEFORE_EXECUTION, evaluates, collects all metrics at once, fires AFTER_EXECUTION, then
 * collects the time. Without batches nothing is collected. If the pass gives NaN for a batch, the
 * result is NaN. values [count]: more bound values, read for every batch; they override the
 * evaluator's. */
ET_API int et_loop_evaluator_run(et_loop_evaluator *evaluator, const et_bound_value *values,
                                 int count, et_error *error);

/* Results of the last run. last: a metric by name, NULL: the first; NaN: none. last_metrics: all
 * metrics; returns their number. */
ET_API double et_loop_evaluator_last(const et_loop_evaluator *evaluator, const char *name);
ET_API int et_loop_evaluator_last_metrics(const et_loop_evaluator *evaluator,
                                          const et_loop_metric **metrics);

/* Its events; handlers get the evaluator as `what`. */
ET_API et_event_hub *et_loop_evaluator_events(et_loop_evaluator *evaluator);

/* ---- outputs of a pass over data ---- */

typedef struct et_outputs et_outputs;

/* Runs a pass on all batches of a source, of its first pass if it repeats, and joins outputs
 * (et_output) along dimension axis, which must count the rows of a batch; empty rows are left out.
 * comm: ranks that all make the same call; each runs the pass on some of the batches, and all get
 * the outputs of one process. NULL: this process alone. ET_ECONFIG: no such output, or one without
 * this dimension. ET_EDATA: no batch. ET_EUSAGE: another reader's pass is open. */
ET_API int et_outputs_collect(et_outputs **out, et_comm *comm, et_pass *pass, et_source *source,
                              const char *const *names, int count, int axis, uint64_t seed,
                              et_error *error);
/* The output by name; data NULL: no such output. */
ET_API et_tensor et_outputs_tensor(const et_outputs *outputs, const char *name);
ET_API void et_outputs_free(et_outputs *outputs); /* NULL allowed */

/* The same for outputs that are one number: sets averages[count], weighted by rows. */
ET_API int et_outputs_average(double *averages, et_comm *comm, et_pass *pass, et_source *source,
                              const char *const *names, int count, uint64_t seed, et_error *error);

#endif
