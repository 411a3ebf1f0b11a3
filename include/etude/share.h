/* A shared evaluation: an evaluation that ranks (comm.h) make together, for a program that
 * evaluates by itself: in hooks (standard.h), in its own evaluator (trainer.h), or elsewhere. Each
 * rank takes every batch, in order, and evaluates batch n if n % ranks is its rank. If the number
 * of batches is not a multiple of ranks, some ranks evaluate one less. At the end the results are
 * joined: metrics are merged exactly, outputs of batches go to all ranks in the order of batches,
 * and kept rows of samples go to all ranks. So every rank has the bits of one process.
 *
 *     et_share_options options = { .comm = comm, .metrics = &metrics, .sets = 1 };
 *     if (et_share_open(&share, &options, &error)) ...
 *     et_share_begin(share);                                        begins an evaluation
 *     while (!(status = et_source_next(source, batch, &error)) && batch->filled[0]) {
 *         bool mine;
 *         if ((status = et_share_take(share, batch, &mine, &error))) break;
 *         if (mine && (status = evaluate(pass, batch, metrics, &error))) break;
 *         if (mine && (status = et_share_keep(share, outputs, &error))) break;
 *     }
 *     status = et_share_join(share, status, &error);
 *     et_share_close(share);
 *
 * An et_evaluator with a comm declares that all ranks call it. In hooks, call begin in eval_begin,
 * take in eval_step, and join in eval_end if it has logs; for batches of other ranks, eval_reduce
 * gets outputs NULL. Evaluators of loops are shared automatically. With one process everything is
 * its own and costs nothing. Use from one thread. */
#ifndef ETUDE_SHARE_H
#define ETUDE_SHARE_H

#include <etude/comm.h>
#include <etude/data.h>
#include <etude/metrics.h>
#include <etude/value.h>

typedef struct et_share et_share;

/* An array with a row for each sample; batch->sample has the numbers of the samples. */
typedef struct et_kept_rows {
    void *data; /* [rows, size] */
    int64_t rows;
    size_t size; /* bytes */
} et_kept_rows;

typedef struct et_share_options {
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
} et_share_options;

/* ET_ECONFIG: sets is negative, or there are sets without metrics. */
ET_API int et_share_open(et_share **out, const et_share_options *options, et_error *error);
ET_API void et_share_close(et_share *share); /* NULL allowed */

ET_API void et_share_begin(et_share *share);

/* *mine: whether this rank evaluates the batch. */
ET_API int et_share_take(et_share *share, const et_batch *batch, bool *mine, et_error *error);

/* Call once for each output of a batch of this rank. */
ET_API int et_share_keep(et_share *share, const et_value *outputs, et_error *error);

/* Ends the evaluation. status: the result on this rank. All ranks return the first failure, with
 * its text. A rank that fails before this point reports its error at the driver's next call. */
ET_API int et_share_join(et_share *share, int status, et_error *error);

#endif
