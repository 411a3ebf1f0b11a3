/* Tensors of a MarianMT folder that no model here needs: the table that neither side takes, and
 * sinusoids, which are computed. The export that an import writes keeps them in a text of its own,
 * a sealed file of safetensors in float32, so that they go out again as they came in. A model that
 * is trained further does not have them. */
#ifndef ETUDE_TASKS_TRANSLATION_INTERCHANGE_UNUSED_TENSORS_H
#define ETUDE_TASKS_TRANSLATION_INTERCHANGE_UNUSED_TENSORS_H

#include <stddef.h>

#define ET_UNUSED_TENSORS "unused.safetensors"

/* A table of a million tokens of width 1,024, and positions of both stacks. */
#define ET_UNUSED_BYTES_MAX ((size_t)5 << 30)

#define ET_UNUSED_TABLE             "model.shared.weight"
#define ET_UNUSED_ENCODER_POSITIONS "model.encoder.embed_positions.weight"
#define ET_UNUSED_DECODER_POSITIONS "model.decoder.embed_positions.weight"

#endif
