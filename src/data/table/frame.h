/* Frames as tables. A frame is arrays in memory. */
#ifndef ETUDE_DATA_TABLE_FRAME_H
#define ETUDE_DATA_TABLE_FRAME_H

#include <etude/table_set.h>

#include "data/table/features/encoder.h"

/* ET_ECONFIG: no columns, an invalid type, a name twice. */
int et_frame_check(const et_frame *frame, et_error *error);

et_schema_type et_column_field_type(et_column_type type);
et_reading et_frame_value(const et_frame_column *column, int64_t row);

/* TensorFX's schema for the first frame: fields by the types of columns; min and max of numbers;
 * sorted values of texts. Transforms also need counts, mean, std and quantiles. */
int et_frame_schema(et_schema **out, const et_frame *frame, et_error *error);
int et_frame_metadata(et_metadata **out, const et_frame *frame, et_error *error);

#endif
