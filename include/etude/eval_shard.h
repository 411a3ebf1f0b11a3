/* A shared evaluation: an evaluation that ranks (comm.h) make together, for a program that
 * evaluates by itself: in hooks (standard.h), in its own evaluator (trainer.h), or elsewhere. Each
 * rank takes every batch, in order, and evaluates batch n if n % ranks is its rank. If the number
 * of batches is not a multiple of ranks, some ranks evaluate one less. At the end the results are
 * joined: metrics are merged exactly, outputs of batches go to all ranks in the order of batches,
 * and kept rows of samples go to all ranks. So every rank has the bits of one process.
 *
 *     et_eval_shard_options options = { .comm = comm, .metrics = &metrics, .sets = 1 };
 *     if (et_eval_shard_open(&shard, &options, &error)) ...
 *     et_eval_shard_begin(shard);                                        begins an evaluation
 *     while (!(status = et_source_next(source, batch, &error)) && batch->filled[0]) {
 *         bool mine;
 *         if ((status = et_eval_shard_next(shard, batch, &mine, &error))) break;
 *         if (mine && (status = evaluate(pass, batch, metrics, &error))) break;
 *         if (mine && (status = et_eval_shard_keep(shard, outputs, &error))) break;
 *     }
 *     status = et_eval_shard_join(shard, status, &error);
 *     et_eval_shard_close(shard);
 *
 * An et_evaluator with a comm declares that all ranks call it. In hooks, call et_eval_shard_begin
 * in eval_begin, et_eval_shard_next in eval_step, and et_eval_shard_join in eval_end if it has
 * logs. For batches of other ranks, eval_reduce gets outputs NULL. Evaluators of loops are shared
 * automatically. With one process, all batches are this process's, at no cost. Use from one
 * thread. */
#ifndef ETUDE_EVAL_SHARD_H
#define ETUDE_EVAL_SHARD_H

#include <etude/comm.h>
#include <etude/data.h>
#include <etude/metrics.h>
#include <etude/value.h>

typedef struct et_eval_shard et_eval_shard;

/* An array with a row for each sample; batch->sample has the numbers of the samples. */
typedef struct et_kept_rows {
    void *data; /* [rows, size] */
    int64_t rows;
    size_t size; /* bytes */
} et_kept_rows;

typedef struct et_eval_shard_options {
    et_comm *comm;              /* borrowed, as all below; NULL: this process alone */
    et_metrics *const *metrics; /* [sets]: become the merged metrics of all ranks; definitions are
                                   equal on all ranks */
    int sets;
    /* Returns the array of kept rows with this number, from 0; false: no such array. Set to zero
     * when an evaluation begins. NULL: no rows are kept. */
    bool (*kept)(void *self, int number, et_kept_rows *rows);
    /* Called with the outputs of each batch, in order: at the join, or at once without ranks. NULL:
     * outputs are not kept. */
    int (*output)(void *self, const et_value *outputs, et_error *error);
    void *self;
} et_eval_shard_options;

/* ET_ECONFIG: sets is negative, or there are sets without metrics. */
ET_API int et_eval_shard_open(et_eval_shard **out, const et_eval_shard_options *options,
                              et_error *error);
ET_API void et_eval_shard_close(et_eval_shard *shard); /* NULL allowed */

ET_API void et_eval_shard_begin(et_eval_shard *shard);

/* *mine: whether this rank evaluates the batch. */
ET_API int et_eval_shard_next(et_eval_shard *shard, const et_batch *batch, bool *mine,
                              et_error *error);

/* Call once for each output of a batch of this rank. */
ET_API int et_eval_shard_keep(et_eval_shard *shard, const et_value *outputs, et_error *error);

/* Ends the evaluation. status: the result on this rank. All ranks return the first failure, with
 * its text. A rank that fails before this point reports its error at the driver's next call. */
ET_API int et_eval_shard_join(et_eval_shard *shard, int status, et_error *error);

#endif
