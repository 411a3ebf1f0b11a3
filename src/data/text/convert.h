/* Conversions with a payload of their own. */
#ifndef ETUDE_DATA_TEXT_CONVERT_H
#define ETUDE_DATA_TEXT_CONVERT_H

#include <etude/flows.h>

/* As et_convert_open; payload is memory (et_alloc) that is freed with the source, once this has
 * succeeded. */
int et_convert_adopt(et_source **out, et_source *inner, const et_layout_field *made, int count,
                     et_convert_fn *make, void *payload, et_error *error);

/* A batch of another layout with a batch's samples, and its fields where they lie: what describe
 * of a source within sees. data: [fields]. */
et_batch et_batch_view(const et_layout *layout, void **data, const et_batch *batch);

#endif
