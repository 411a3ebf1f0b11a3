/* A source whose batches come from another source, which may change between two trainings: a
 * trainer keeps the sources that it was opened with. Without such a source it has no batches.
 *
 *     et_model_source_init(&outer, &layout);
 *     et_model_source_set(&outer, source, &error);       its position becomes the beginning
 */
#ifndef ETUDE_SYSTEMS_MODEL_MODEL_SOURCE_H
#define ETUDE_SYSTEMS_MODEL_MODEL_SOURCE_H

#include <etude/data.h>

typedef struct et_model_source {
    et_source source;
    et_source *inner;  /* borrowed; NULL: none */
    et_position begin; /* of inner when it was set */
} et_model_source;

/* layout is copied; its fields are borrowed. Closing the source leaves outer and inner as they are.
 */
void et_model_source_init(et_model_source *outer, const et_layout *layout);

/* inner NULL: none. ET_ECONFIG: it has other fields or sizes. */
int et_model_source_set(et_model_source *outer, et_source *inner, et_error *error);

#endif
