/* Evaluators of a loop (as TFSnippet's Evaluator): metrics over one pass of data, as means weighted
 * by batches, collected in the loop; and a pass's outputs over one pass of data.
 *
 *     et_loop_evaluator_options options = { .source = held_out, .pass = pass };
 *     et_loop_evaluator_open(&evaluator, loop, &options, &error);
 *     ... in an epoch of the loop:
 *     et_loop_evaluator_run(evaluator, NULL, 0, &error);       the loss, as the valid metric
 *     double loss = et_loop_evaluator_last(evaluator, NULL);
 *     const et_loop_metric *metrics;
 *     int count = et_loop_evaluator_last_metrics(evaluator, &metrics);
 *     et_event_source_on(et_loop_evaluator_events(evaluator), ET_EVENT_AFTER_EXECUTION, ring, bell,
 *                        &error);
 *
 *     if (et_outputs_collect(&outputs, NULL, pass, held_out, names, 1, 0, 1, &error)) ...
 *     et_tensor logits = et_outputs_tensor(outputs, "logits");
 *     et_outputs_free(outputs);
 *
 * Every run reads the source from where it stood when the evaluator was opened, to the end of that
 * pass, so it sees the same batches and has nothing to save. Ranks of the loop
 * (et_loop_options.comm) share the batches, and all have the values of one process. One thread. */
#ifndef ETUDE_LOOP_EVALUATOR_H
#define ETUDE_LOOP_EVALUATOR_H

#include <etude/annealing.h>
#include <etude/events.h>
#include <etude/loop_log.h>
#include <etude/pass.h>

/* ---- of trainers and evaluators ---- */

#define ET_EVENT_BEFORE_EXECUTION "before_execution"
#define ET_EVENT_AFTER_EXECUTION  "after_execution" /* fired in reverse */

/* A value of a pass that is collected. */
typedef struct et_loop_measure {
    const char *name;    /* of the metric; NULL: the loop's valid metric */
    const char *measure; /* as the pass names a loss or a measure; NULL: the sum of its losses */
} et_loop_measure;

/* ---- an evaluator ---- */

typedef struct et_loop_evaluator et_loop_evaluator;

typedef struct et_loop_evaluator_options {
    et_source *source; /* borrowed, as pass and payload; read by nobody else */
    et_pass *pass;
    const et_loop_measure *metrics; /* [metric_count]; none: the pass's loss, as valid metric */
    int metric_count;
    /* In place of pass: values[metric_count] of a batch. NaN: it has none, and does not count. */
    int (*run_batch)(void *payload, const et_batch *batch, double *values, et_error *error);
    bool run_batch_by_ranks; /* of the loop's ranks each calls run_batch for its share of the
                                batches; else for all of them */
    /* What a batch weighs, at least 0. NULL: its rows (TFSnippet: elements of its first array). */
    double (*weight)(void *payload, const et_batch *batch);
    void *payload;
    bool equal_weights;      /* every batch weighs 1 */
    const char *time_metric; /* NULL: "eval_time"; "": none */
    /* [bound_value_count], copied: before each batch; put back behind the run. */
    const et_bound_value *bound_values;
    int bound_value_count;
    uint64_t seed; /* of sampling in the pass */
} et_loop_evaluator_options;

/* ET_ECONFIG: a measure or variable that there is not; no pass and no run_batch, or both; a metric
 * without a name in a loop without a valid metric. */
ET_API int et_loop_evaluator_open(et_loop_evaluator **out, et_loop *loop,
                                  const et_loop_evaluator_options *options, et_error *error);
/* Before its loop is. NULL allowed. */
ET_API void et_loop_evaluator_close(et_loop_evaluator *evaluator);

/* Fires BEFORE_EXECUTION, evaluates, collects all metrics at once, fires AFTER_EXECUTION, and
 * collects the time. Data without batches: nothing is collected; a pass that gives NaN for a batch:
 * NaN. values [count]: more bound values, each asked for in every batch; they win over the
 * evaluator's. */
ET_API int et_loop_evaluator_run(et_loop_evaluator *evaluator, const et_bound_value *values,
                                 int count, et_error *error);

/* Of the last run: a metric by name, NULL: the first; NaN: there is none. Then all of them. */
ET_API double et_loop_evaluator_last(const et_loop_evaluator *evaluator, const char *name);
ET_API int et_loop_evaluator_last_metrics(const et_loop_evaluator *evaluator,
                                          const et_loop_metric **metrics);

/* Its events; what they tell is the evaluator. */
ET_API et_event_source *et_loop_evaluator_events(et_loop_evaluator *evaluator);

/* ---- outputs of a pass over data ---- */

typedef struct et_outputs et_outputs;

/* Runs a pass on the rest of a source's pass and keeps outputs (et_output) behind one another along
 * dimension axis, which counts a batch's rows; rows that are not filled are left out. comm: ranks,
 * which all call it alike: each runs the pass on its share of the batches, and all have the outputs
 * of one process; NULL: this process alone. ET_ECONFIG: an output that there is not, or one without
 * such a dimension. ET_EDATA: there is no batch. */
ET_API int et_outputs_collect(et_outputs **out, et_comm *comm, et_pass *pass, et_source *source,
                              const char *const *names, int count, int axis, uint64_t seed,
                              et_error *error);
ET_API et_tensor et_outputs_tensor(const et_outputs *outputs, const char *name); /* data NULL: no */
ET_API void et_outputs_free(et_outputs *outputs);                                /* NULL allowed */

/* The same of outputs that are one number: averages[count], weighted by rows. */
ET_API int et_outputs_average(double *averages, et_comm *comm, et_pass *pass, et_source *source,
                              const char *const *names, int count, uint64_t seed, et_error *error);

#endif
