/* Arrays that belong to their samples. */
#ifndef ETUDE_DATA_BATCHES_ARRAYS_H
#define ETUDE_DATA_BATCHES_ARRAYS_H

#include <etude/data.h>

/* As et_arrays_open, with empty[i] of each; the arrays' memory (et_alloc) is the samples' once it
 * has succeeded. */
int et_arrays_adopt(et_samples **out, const et_array *array, const et_empty *empty, int fields,
                    int64_t count, et_error *error);

#endif
