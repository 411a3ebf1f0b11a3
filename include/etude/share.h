/* An evaluation that ranks make together (comm.h), of a program that evaluates by itself: in hooks
 * (standard.h), in an evaluator of its own (trainer.h), anywhere. Each rank takes every batch, in
 * order; batch n is evaluated by rank n % ranks, and where the batches end some have one less:
 * nothing is made up to fill a round. When the data are over, what came of them is joined: metrics
 * are merged, which is exact; outputs of batches are given to everybody in the order of batches;
 * rows that are kept of samples go to all. So every rank has the bits of one process.
 *
 *     et_share_options options = { .comm = comm, .metrics = &metrics, .sets = 1 };
 *     if (et_share_open(&share, &options, &error)) ...
 *     et_share_begin(share);                                        an evaluation begins
 *     while (!(status = et_source_next(source, batch, &error)) && batch->filled[0]) {
 *         bool mine;
 *         if ((status = et_share_take(share, batch, &mine, &error))) break;
 *         if (mine && (status = evaluate(pass, batch, metrics, &error))) break;
 *         if (mine && (status = et_share_keep(share, outputs, &error))) break;
 *     }
 *     status = et_share_join(share, status, &error);
 *     et_share_close(share);
 *
 * An et_evaluator says that all ranks call it (its comm). In hooks eval_begin begins, eval_step
 * takes, and eval_end joins where it has logs; eval_reduce has no outputs (NULL) of a batch that is
 * another rank's. Loops' evaluators share by themselves.
 * Without ranks all of it is this process's, and costs nothing. One thread. */
#ifndef ETUDE_SHARE_H
#define ETUDE_SHARE_H

#include <etude/comm.h>
#include <etude/data.h>
#include <etude/metrics.h>
#include <etude/value.h>

typedef struct et_share et_share;

/* An array of what an evaluation keeps of each sample, whose numbers batch->sample has. */
typedef struct et_kept_rows {
    void *data; /* [rows, size] */
    int64_t rows;
    size_t size; /* bytes */
} et_kept_rows;

typedef struct et_share_options {
    et_comm *comm;              /* borrowed, as all below; NULL: this process alone */
    et_metrics *const *metrics; /* [sets]: become those of all ranks; of the same definitions */
    int sets;
    /* Array `number` of rows, from 0 on; false: there is none. Zeros when an evaluation begins.
     * NULL: no rows are kept. */
    bool (*kept)(void *self, int number, et_kept_rows *rows);
    /* Called with each batch's outputs, in order, when they are joined; alone at once. NULL: none
     * are kept. */
    int (*output)(void *self, const et_value *outputs, et_error *error);
    void *self;
} et_share_options;

/* ET_ECONFIG: sets without metrics, or fewer than none. */
ET_API int et_share_open(et_share **out, const et_share_options *options, et_error *error);
ET_API void et_share_close(et_share *share); /* NULL allowed */

ET_API void et_share_begin(et_share *share);

/* *mine: this rank evaluates the batch. */
ET_API int et_share_take(et_share *share, const et_batch *batch, bool *mine, et_error *error);

/* Of a batch that is this rank's, where there is an output: once for each. */
ET_API int et_share_keep(et_share *share, const et_value *outputs, et_error *error);

/* The evaluation is over. status: how it went on this rank; the first failure is that of all, with
 * its text. Who fails and does not come here says so at the next call of its driver. */
ET_API int et_share_join(et_share *share, int status, et_error *error);

#endif
