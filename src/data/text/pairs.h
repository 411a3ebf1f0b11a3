/* Samples of an encoded corpus: sentence pairs, packed as a step of translation needs them.
 *
 * The source sequence of a pair is its tokens and EOS; the target input is the start symbol and the
 * tokens; the labels are the tokens and EOS. So a pair of a and b tokens takes a + 1 source and b +
 * 1 target tokens. */
#ifndef ETUDE_DATA_TEXT_PAIRS_H
#define ETUDE_DATA_TEXT_PAIRS_H

#include <etude/data.h>

#include "data/text/encoded.h"
#include "data/text/vocabulary/subwords.h"

/* Kinds of the layout. */
enum { ET_PAIR_SEGMENTS, ET_PAIR_SOURCE, ET_PAIR_TARGET, ET_PAIR_KINDS };

/* Fields of a batch, and their names. */
typedef enum et_pair_field {
    ET_PAIR_SOURCE_IDS,       /* [source], -1: empty */
    ET_PAIR_SOURCE_POSITIONS, /* [source], within the sentence, from 0 */
    ET_PAIR_TARGET_IDS,       /* [target], decoder input, -1: empty */
    ET_PAIR_TARGET_POSITIONS, /* [target] */
    ET_PAIR_TARGET_LABELS,    /* [target], -1: empty, not in the loss */
    ET_PAIR_SOURCE_OFFSETS,   /* [segments + 1] */
    ET_PAIR_TARGET_OFFSETS,   /* [segments + 1] */
    ET_PAIR_FIELDS,
} et_pair_field;

extern const et_layout_field et_pair_fields[ET_PAIR_FIELDS];

/* Pairs whose sides are cut to `most` tokens, with EOS as the last token (0: not cut). encoded is
 * borrowed and must outlive the samples. */
int et_truncated_pairs_open(et_samples **out, const et_encoded *encoded, int64_t most,
                            et_error *error);
/* The number of pairs that this limit shortens. */
int64_t et_pairs_truncated(const et_encoded *encoded, int64_t most);

/* Sampling of tokens in each pass. A sentence that would be longer than most keeps its encoded
 * tokens.
 */
typedef struct et_pairs_drawing {
    const et_subwords *source, *target; /* NULL: that side stays; borrowed */
    uint64_t seed;
    int64_t most; /* tokens of a side, EOS counted; of every encoded sentence at least */
} et_pairs_drawing;

/* As et_truncated_pairs_open of any tokens; both sides without subwords is that. */
int et_drawn_pairs_open(et_samples **out, const et_encoded *encoded,
                        const et_pairs_drawing *drawing, et_error *error);

/* Pairs with their encoded tokens as a source of batches, for tests and benchmarks. A training
 * opens samples and batches by its settings (et_translation_batches). */
int et_pair_batches_open(et_source **out, const et_encoded *encoded,
                         const et_batches_options *options, et_error *error);

#endif
