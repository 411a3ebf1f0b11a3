/* Rows of a table for the task: read once for all users, and split into training and validation. */
#ifndef ETUDE_TASKS_TABULAR_SAMPLES_H
#define ETUDE_TASKS_TABULAR_SAMPLES_H

#include <etude/data.h>

/* The same samples, borrowed: they remain their owner's and must outlive the result. */
int et_tabular_borrow(et_samples **out, et_samples *samples, et_error *error);

/* Shuffles the samples for each member independently, by the seed and the pass. Sample j of the
 * result, j < members * samples->count, belongs to member j % members. Owns samples after success.
 * ET_EDATA: the result has 2^32 samples or more. */
int et_tabular_order_for_members(et_samples **out, et_samples *samples, int64_t members,
                                 uint64_t seed, et_error *error);

/* Calls visit for batches of `rows` of the rows, evenly spread and in order. The first row of a
 * batch is number `first` of them. */
typedef void et_tabular_visit_fn(void *payload, const et_batch *batch, int64_t first);
int et_tabular_read(et_samples *samples, int64_t rows, et_tabular_visit_fn *visit, void *payload,
                    et_error *error);

#endif
