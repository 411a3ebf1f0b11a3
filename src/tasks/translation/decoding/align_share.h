/* Shared alignments: each rank aligns some of the pairs, by their positions in the list, and gets
 * the results of the others, so all have the bits of one process. */
#ifndef ETUDE_TASKS_TRANSLATION_DECODING_ALIGN_SHARE_H
#define ETUDE_TASKS_TRANSLATION_DECODING_ALIGN_SHARE_H

#include <etude/comm.h>

#include "tasks/translation/decoding/alignment.h"

typedef struct et_align_pair {
    const int32_t *source, *target; /* [length], [count], as et_aligner_run has them; borrowed */
    int64_t length;
    int count;
    et_aligned found;
} et_align_pair;

/* et_aligner_run for each, by all ranks with the same pairs. comm NULL: alone. */
int et_aligner_run_on_ranks(et_aligner *aligner, et_comm *comm, et_align_pair *pairs, int64_t count,
                            et_arena *arena, et_error *error);

#endif
