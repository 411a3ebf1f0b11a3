/* Packed batches of sentence pairs: what a step of translation consumes.
 *
 * A batch is a run of tokens plus offsets, not a padded rectangle: source_budget source tokens
 * and target_budget target tokens, in at most max_segments sentence pairs. The budget is the
 * shape: every batch has the same, so training has one plan. What a batch does not fill is
 * empty: ids and labels -1, offsets equal to the last one.
 *
 * The source sequence of a pair is its pieces and EOS; the target input is the start symbol
 * and the pieces; the labels are the pieces and EOS. So a pair of a and b pieces takes a + 1
 * source and b + 1 target tokens. */
#ifndef ETUDE_DATA_PAIRS_H
#define ETUDE_DATA_PAIRS_H

#include <stdint.h>

#include <etude/error.h>

typedef struct et_pair_batch {
    int32_t *source_ids;                  /* [source_budget], -1: empty */
    int32_t *source_positions;            /* [source_budget], within the sentence, from 0 */
    int32_t *source_offsets;              /* [max_segments + 1] */
    int32_t *target_ids;                  /* [target_budget], decoder input, -1: empty */
    int32_t *target_positions;            /* [target_budget] */
    int32_t *target_labels;               /* [target_budget], -1: empty, not in the loss */
    int32_t *target_offsets;              /* [max_segments + 1] */
    uint32_t *pair;                       /* [max_segments]: index in the encoded corpus */
    int segments;                         /* pairs in this batch */
    int64_t source_tokens, target_tokens; /* tokens in use */
    int64_t epoch;                        /* pass over the data, from 0 */
} et_pair_batch;

typedef struct et_pair_shape {
    int64_t source_budget, target_budget; /* tokens */
    int64_t max_segments;
} et_pair_shape;

/* Memory for a batch of a shape (each at least 1), empty; one block, arrays aligned to 64
 * bytes. */
int et_pair_batch_init(et_pair_batch *batch, const et_pair_shape *shape, et_error *error);
void et_pair_batch_release(et_pair_batch *batch);

/* Makes everything empty; makes empty what lies past the segments and tokens in use. */
void et_pair_batch_clear(et_pair_batch *batch, const et_pair_shape *shape);
void et_pair_batch_finish(et_pair_batch *batch, const et_pair_shape *shape);

/* Copies contents between batches of one shape. */
void et_pair_batch_copy(et_pair_batch *to, const et_pair_batch *from, const et_pair_shape *shape);

#endif
