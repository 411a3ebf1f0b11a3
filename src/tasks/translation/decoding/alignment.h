/* Alignments: for each word of a translation, the source word to which the decoder attends when it
 * predicts the word. The given target goes through the whole model in one pass, in float32. In the
 * cross-attention of one decoder layer, with queries q of target tokens (row t predicts token t)
 * and keys k of source tokens,
 *
 *   w[t, s] = mean over heads of softmax over s of q[t] . k[s] / sqrt(columns of a head)
 *
 * The layer that agrees best with alignments by people depends on the model: the last layer of
 * shallow models, the fifth of six layers (Garg et al. 2019, "Jointly learning to align and
 * translate with Transformer models"). A word is the tokens from one that begins with a space
 * (U+2581) to the next. Weights of its tokens are added on the source side and averaged on the
 * target side. The end of the source is never a word, even if its weight is large.
 *
 *     et_aligner *aligner;
 *     if (et_aligner_new(&aligner, params, device, &model, sides, 3, &error)) ...
 *     if (et_aligner_run(aligner, source, length, target, count, &arena, &found, &error)) ...
 *
 * Alignments are shown to people, so the code is simple rather than fast. Use from one thread at a
 * time. */
#ifndef ETUDE_TASKS_TRANSLATION_DECODING_ALIGNMENT_H
#define ETUDE_TASKS_TRANSLATION_DECODING_ALIGNMENT_H

#include <etude/comm.h>
#include <etude/hypotheses.h>

#include "base/arena.h"
#include "data/text/vocabulary/vocabulary.h"
#include "engine/exec/plan.h"
#include "engine/nn/transformer.h"

typedef struct et_aligner et_aligner;

/* All is borrowed; model is copied. params are materialized. layer: of the decoder, from 0. */
int et_aligner_new(et_aligner **out, et_params *params, et_device *device,
                   const et_transformer *model, et_sides sides, int layer, et_error *error);
void et_aligner_free(et_aligner *aligner); /* NULL allowed */

typedef struct et_aligned {
    et_alignment *items; /* [count] an item for each word of the target, in order; in the arena,
                            with all its pointers */
    int count, source_words;
} et_aligned;

/* source: length tokens, the end of sentence last; target: count tokens without it. The last bits
 * of weights may depend on the pairs before. out NULL: only counts this pair among them; another
 * rank aligns it. */
int et_aligner_run(et_aligner *aligner, const int32_t *source, int64_t length,
                   const int32_t *target, int count, et_arena *arena, et_aligned *out,
                   et_error *error);

/* Binds the inputs of a side of pairs: 0 the source, 1 the target. */
void et_aligner_bind(et_plan *plan, int side, int32_t *ids, int32_t *positions, int32_t *offsets);

/* Adds w[t, s] of one target token to weight[s], for all s below length. query: [width]; keys:
 * [length, 2 width], the first half of a row is the key; scratch: [length]. */
void et_aligner_add_weights(const float *query, const float *keys, int64_t width, int heads,
                            int64_t length, double *weight, double *scratch);

typedef struct et_align_pair {
    const int32_t *source, *target; /* [length], [count], as et_aligner_run has them; borrowed */
    int64_t length;
    int count;
    et_aligned found;
} et_align_pair;

/* et_aligner_run for each pair, by all ranks with the same pairs. Each rank aligns some pairs,
 * chosen by position in the list, and gets the other results from the other ranks; all have the
 * bits of one process. comm NULL: this process alone. */
int et_aligner_run_on_ranks(et_aligner *aligner, et_comm *comm, et_align_pair *pairs, int64_t count,
                            et_arena *arena, et_error *error);

#endif
