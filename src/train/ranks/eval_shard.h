/* Shared evaluations, for the library, beyond <etude/eval_shard.h>: a share as a member of another
 * struct, rows of bytes in place of outputs, the loop over a pass, and evaluators that ranks cannot
 * share. */
#ifndef ETUDE_TRAIN_RANKS_EVAL_SHARD_H
#define ETUDE_TRAIN_RANKS_EVAL_SHARD_H

#include <etude/comm.h>
#include <etude/eval_shard.h>
#include <etude/trainer.h>

#include "base/text/strbuf.h"
#include "data/batches/source.h"

/* A sample that a rank has evaluated. */
typedef struct et_eval_shard_sample {
    uint32_t sample;
    int32_t rank;
} et_eval_shard_sample;

/* Receives the row of a batch; row is not aligned. */
typedef int et_eval_shard_row_fn(void *self, const void *row, size_t size, et_error *error);

struct et_eval_shard {
    et_eval_shard_options options; /* as at the begin of an evaluation; checked only by open */
    et_eval_shard_row_fn *row;     /* replaces options.output, with its self; NULL: values */
    unsigned flags;                /* the caller's; after the join, the flags of any rank */
    int64_t batches;               /* taken of the evaluation */
    et_strbuf outputs;             /* of this rank's batches, one after another */
    et_eval_shard_sample *samples; /* [count] in the order of batches, if rows are kept */
    size_t count, capacity;
};

/* Frees the contents of a share that is a member, zero except options: et_eval_shard_close without
 * freeing it. */
void et_eval_shard_release(et_eval_shard *shard);

/* et_eval_shard_keep for a row of bytes. */
int et_eval_shard_keep_row(et_eval_shard *shard, const void *row, size_t size, et_error *error);

/* Computes a batch of the pass, numbered from 0. mine: this rank keeps the outputs of the batch. */
typedef int et_eval_shard_batch_fn(void *self, const et_batch *batch, int64_t number, bool mine,
                                   et_error *error);

/* Calls run for each batch of a pass, in order, between begin and join; self comes from the
 * options. */
int et_eval_shard_batches(et_eval_shard *shard, et_batch_cursor *cursor,
                          et_eval_shard_batch_fn *run, et_error *error);

/* et_evaluate by all ranks: together if the evaluator supports it (evaluator->comm), else by rank 0
 * while the others wait for its values. */
int et_evaluate_on_ranks(et_evaluator *evaluator, et_comm *comm, int64_t step, int64_t limit,
                         bool (*stops)(void *payload), void *payload, et_value *logs,
                         et_error *error);

/* A set of metrics, of the same definitions everywhere, becomes the sum over all ranks. */
int et_metrics_sum_ranks(et_metrics *metrics, et_comm *comm, et_error *error);

#endif
