/* An evaluation that ranks make together. Each takes every batch, in order, as in training; batch n
 * is evaluated by rank n % ranks, and where the batches end some have one less: nothing is made up
 * to fill a round. When a set is over, what came of it is joined: states of metrics are merged,
 * which is exact; outputs of steps are given to everybody in the order of batches; rows that the
 * task keeps (et_task_class.kept) go to all. So every rank has the bits of one process.
 *
 * begin, then take for each batch of a set (mine: it is evaluated, and what the step has put out
 * kept), join when it is over.
 *
 * Who fails before goes to whatever agreement is next (comm/comm.h): join begins with one. comm
 * NULL, or of one rank: all is this process's and join has nothing to do. */
#ifndef ETUDE_TRAIN_SHARE_H
#define ETUDE_TRAIN_SHARE_H

#include <etude/task.h>

#include "base/strbuf.h"
#include "comm/comm.h"

/* A sample that a rank has evaluated. */
typedef struct et_share_sample {
    uint32_t sample;
    int32_t rank;
} et_share_sample;

typedef struct et_share {
    et_comm *comm; /* borrowed, as task; NULL: alone */
    et_task *task;
    int64_t batches;          /* taken of the set */
    et_strbuf outputs;        /* of this rank's steps, one behind another */
    et_share_sample *samples; /* [count] in the order of batches, where the task keeps rows */
    size_t count, capacity;
} et_share;

/* What is joined. */
typedef struct et_share_joined {
    et_metrics *const *metrics; /* [sets]: become those of all ranks */
    int sets;
    unsigned flags; /* become those that any rank has */
    /* Called with each step's outputs, in order. NULL: none are kept. */
    int (*output)(void *self, const et_value *outputs, et_error *error);
    void *self;
} et_share_joined;

void et_share_begin(et_share *share, et_comm *comm, et_task *task);
void et_share_release(et_share *share);

/* *mine: this rank evaluates the batch. */
int et_share_take(et_share *share, const et_batch *batch, bool *mine, et_error *error);

/* Whether outputs of steps wait for join. */
bool et_share_waits(const et_share *share);
int et_share_keep(et_share *share, const et_value *outputs, et_error *error);

int et_share_join(et_share *share, et_share_joined *joined, et_error *error);

/* et_evaluate by all ranks: together where the evaluator is made for that (evaluator->comm), else
 * by rank 0 while the others wait for its values. */
int et_evaluate_on_ranks(et_evaluator *evaluator, et_comm *comm, int64_t step, int64_t limit,
                         bool (*stops)(void *payload), void *payload, et_value *logs,
                         et_error *error);

#endif
