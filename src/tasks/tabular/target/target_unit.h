/* The unit of targets in a model of numbers (et_target_unit): that of the metadata, stored in a
 * checkpoint's identity for users of the weights. Checkpoints without a unit have targets as in the
 * files. */
#ifndef ETUDE_TASKS_TABULAR_TARGET_UNIT_H
#define ETUDE_TASKS_TABULAR_TARGET_UNIT_H

#include <etude/value.h>

#include "data/table/features/encoder.h"

/* The identity's key; a list of an offset and a scale for each target. */
#define ET_TARGET_UNIT "target_unit"

/* Sets the key from an exact encoder. Nothing of a target of classes. */
int et_target_unit_identify(const et_encoder *encoder, et_value *identity, et_error *error);

/* Reads `targets` units; *found: the identity (NULL: none) has them, else each is 0 and 1.
 * ET_EFORMAT: the numbers are malformed, or of another number of targets. */
int et_target_unit_read(et_target_unit *units, int64_t targets, bool *found,
                        const et_value *identity, et_error *error);

#endif
