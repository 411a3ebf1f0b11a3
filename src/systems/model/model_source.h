/* A source whose batches come from another source, which may change between two trainings: a
 * trainer keeps the sources that it was opened with. Without such a source it has no batches.
 *
 *     et_model_source_init(&outer, &layout, true);
 *     et_model_source_set(&outer, source, &error);       a pass of source is open from here on
 *     et_model_source_set(&outer, NULL, NULL);           to here
 */
#ifndef ETUDE_SYSTEMS_MODEL_MODEL_SOURCE_H
#define ETUDE_SYSTEMS_MODEL_MODEL_SOURCE_H

#include <etude/data.h>

typedef struct et_model_source {
    et_source source;
    et_source *inner; /* borrowed; NULL: none */
    bool repeats;     /* inner begins again at its end */
} et_model_source;

/* layout is copied; its fields are borrowed. repeats: to train. Closing the source leaves outer and
 * inner as they are. */
void et_model_source_init(et_model_source *outer, const et_layout *layout, bool repeats);

/* Opens a pass of inner at its beginning; the pass of the one before is closed. inner NULL: none.
 * ET_ECONFIG: it has other fields or sizes. ET_EUSAGE: another reader's pass is open. */
int et_model_source_set(et_model_source *outer, et_source *inner, et_error *error);

#endif
