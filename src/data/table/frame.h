/* Frames as tables. A frame is arrays in memory. */
#ifndef ETUDE_DATA_TABLE_FRAME_H
#define ETUDE_DATA_TABLE_FRAME_H

#include <etude/table_set.h>

#include "data/table/features/encoder.h"

/* TensorFX's schema for the first frame: fields by the types of columns; min and max of numbers;
 * sorted values of texts. Transforms also need counts, mean, std and quantiles. */
int et_frame_schema(et_schema **out, const et_frame *frame, et_error *error);
int et_frame_metadata(et_metadata **out, const et_frame *frame, et_error *error);

#endif
