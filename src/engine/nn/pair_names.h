/* Names for sentence pairs: fields of their batches (data/text/pairs.h), and inputs of models
 * (engine/nn/transformer.h), which are bound by these names. */
#ifndef ETUDE_ENGINE_NN_PAIR_NAMES_H
#define ETUDE_ENGINE_NN_PAIR_NAMES_H

#define ET_PAIR_NAME_SOURCE_IDS       "source_ids"
#define ET_PAIR_NAME_SOURCE_EMBEDDED  "source_embedded" /* float32 rows in place of the ids */
#define ET_PAIR_NAME_SOURCE_POSITIONS "source_positions"
#define ET_PAIR_NAME_SOURCE_OFFSETS   "source_offsets"
#define ET_PAIR_NAME_TARGET_IDS       "target_ids"
#define ET_PAIR_NAME_TARGET_POSITIONS "target_positions"
#define ET_PAIR_NAME_TARGET_OFFSETS   "target_offsets"
#define ET_PAIR_NAME_TARGET_LABELS    "target_labels"

#endif
