/* Shared evaluations, for the library, beyond <etude/share.h>: a share as a member of another
 * struct, and evaluators that ranks cannot share. */
#ifndef ETUDE_TRAIN_STEP_SHARE_H
#define ETUDE_TRAIN_STEP_SHARE_H

#include <etude/share.h>
#include <etude/trainer.h>

#include "base/text/strbuf.h"
#include "engine/comm/comm.h"

/* A sample that a rank has evaluated. */
typedef struct et_share_sample {
    uint32_t sample;
    int32_t rank;
} et_share_sample;

struct et_share {
    et_share_options options; /* as they are when an evaluation begins; checked by open alone */
    unsigned flags;           /* the caller's; joined they are those that any rank has */
    int64_t batches;          /* taken of the evaluation */
    et_strbuf outputs;        /* of this rank's batches, one behind another */
    et_share_sample *samples; /* [count] in the order of batches, where rows are kept */
    size_t count, capacity;
};

/* Of one that is zeros but for options: et_share_close without freeing it. */
void et_share_release(et_share *share);

/* Whether outputs wait until they are joined, so that a batch may do without any where they do not.
 */
bool et_share_waits(const et_share *share);

/* et_evaluate by all ranks: together where the evaluator is made for that (evaluator->comm), else
 * by rank 0 while the others wait for its values. */
int et_evaluate_on_ranks(et_evaluator *evaluator, et_comm *comm, int64_t step, int64_t limit,
                         bool (*stops)(void *payload), void *payload, et_value *logs,
                         et_error *error);

#endif
