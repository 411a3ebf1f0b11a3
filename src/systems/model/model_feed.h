/* A source whose batches come from another source, which may change between two trainings: a
 * trainer keeps the sources that it was opened with. A feed without a source has no batches.
 *
 *     et_model_feed_init(&feed, &layout);
 *     et_model_feed_set(&feed, source, &error);       its position becomes the beginning
 */
#ifndef ETUDE_SYSTEMS_MODEL_MODEL_FEED_H
#define ETUDE_SYSTEMS_MODEL_MODEL_FEED_H

#include <etude/data.h>

typedef struct et_model_feed {
    et_source source;
    et_source *inner;  /* borrowed; NULL: none */
    et_position begin; /* of inner when it was set */
} et_model_feed;

/* layout is copied; its fields are borrowed. Closing the source leaves feed and inner as they are.
 */
void et_model_feed_init(et_model_feed *feed, const et_layout *layout);

/* inner NULL: none. ET_ECONFIG: it has other fields or sizes. */
int et_model_feed_set(et_model_feed *feed, et_source *inner, et_error *error);

#endif
