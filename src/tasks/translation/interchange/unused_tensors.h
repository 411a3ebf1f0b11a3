/* Tensors of a MarianMT folder that no model here needs: the table that neither side takes, and
 * sinusoids, which are computed. The export that an import writes keeps them in a text of its own,
 * a sealed file of safetensors in float32, so that they go out again as they came in. Of copies of
 * a shared table only the names are kept, in the metadata, with a blank after each; so are lengths
 * of the folder's settings that are no settings here. A model that is trained further has none of
 * this. */
#ifndef ETUDE_TASKS_TRANSLATION_INTERCHANGE_UNUSED_TENSORS_H
#define ETUDE_TASKS_TRANSLATION_INTERCHANGE_UNUSED_TENSORS_H

#include <stddef.h>

#define ET_UNUSED_TENSORS "unused.safetensors"

/* A table of a million tokens of width 1,024, and positions of both stacks. */
#define ET_UNUSED_BYTES_MAX ((size_t)5 << 30)

#define ET_UNUSED_COPIES     "copies"
#define ET_UNUSED_COPIES_MAX 3

#define ET_UNUSED_POSITIONS "most positions"
#define ET_UNUSED_LONGEST   "longest target"

#define ET_UNUSED_TABLE             "model.shared.weight"
#define ET_UNUSED_ENCODER_POSITIONS "model.encoder.embed_positions.weight"
#define ET_UNUSED_DECODER_POSITIONS "model.decoder.embed_positions.weight"

/* Names of a copy of a table, by the side whose table it is. */
#define ET_UNUSED_OF_ENCODER "model.encoder.embed_tokens.weight"
#define ET_UNUSED_OF_DECODER "model.decoder.embed_tokens.weight"
#define ET_UNUSED_OF_OUTPUT  "lm_head.weight"

#endif
