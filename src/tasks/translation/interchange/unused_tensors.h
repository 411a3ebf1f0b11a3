/* Tensors of a MarianMT folder that Etude does not use: a shared table if each side has its own,
 * and tables of sinusoids, which Etude computes. For `export --format huggingface`, `import` keeps
 * these tensors in a text of its export: a file of safetensors in float32, with checksums.
 *
 * The metadata of this file keep the names of copies of a shared table, with a blank after each
 * name, lengths in the folder's settings that have no setting in Etude, and the precision of its
 * weights if it is not float32. A model that is trained further has no such file. */
#ifndef ETUDE_TASKS_TRANSLATION_INTERCHANGE_UNUSED_TENSORS_H
#define ETUDE_TASKS_TRANSLATION_INTERCHANGE_UNUSED_TENSORS_H

#include <stddef.h>

#define ET_UNUSED_TENSORS "unused.safetensors"

/* Largest size: a table of a million tokens of width 1,024, and the positions of both stacks. */
#define ET_UNUSED_BYTES_MAX ((size_t)5 << 30)

#define ET_UNUSED_COPIES     "copies"
#define ET_UNUSED_COPIES_MAX 3

#define ET_UNUSED_POSITIONS "most positions"
#define ET_UNUSED_LONGEST   "longest target"
#define ET_UNUSED_PRECISION "precision"

#define ET_UNUSED_TABLE             "model.shared.weight"
#define ET_UNUSED_ENCODER_POSITIONS "model.encoder.embed_positions.weight"
#define ET_UNUSED_DECODER_POSITIONS "model.decoder.embed_positions.weight"

/* The tensor names of copies of a table, for each side. */
#define ET_UNUSED_OF_ENCODER "model.encoder.embed_tokens.weight"
#define ET_UNUSED_OF_DECODER "model.decoder.embed_tokens.weight"
#define ET_UNUSED_OF_OUTPUT  "lm_head.weight"

#endif
