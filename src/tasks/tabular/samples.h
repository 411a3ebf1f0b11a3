/* Rows of a table for the task: read once for all users, and split into training and validation. */
#ifndef ETUDE_TASKS_TABULAR_SAMPLES_H
#define ETUDE_TASKS_TABULAR_SAMPLES_H

#include <etude/data.h>

/* The same samples, which stay their owner's and must outlive the borrowed ones. */
int et_tabular_borrow(et_samples **out, et_samples *samples, et_error *error);

/* Shuffles the samples for each member independently, by the seed and the pass. Sample j of the
 * result, j < members * samples->count, belongs to member j % members. Owns samples after success.
 * ET_EDATA: the result has 2^32 samples or more. */
int et_tabular_order_for_members(et_samples **out, et_samples *samples, int64_t members,
                                 uint64_t seed, et_error *error);

/* The listed rows of the samples, which stay their owner's. The list is copied. */
int et_tabular_choose(et_samples **out, et_samples *samples, const uint32_t *which, int64_t count,
                      et_error *error);

/* Calls visit for batches of `rows` of the rows, evenly spread and in order. The first row of a
 * batch is number `first` of them. */
typedef void et_tabular_visit_fn(void *payload, const et_batch *batch, int64_t first);
int et_tabular_read(et_samples *samples, int64_t rows, et_tabular_visit_fn *visit, void *payload,
                    et_error *error);

/* The rows in order of classes (NULL: all are one), drawn by the seed in each. order: [rows]. */
int et_tabular_draw(int64_t *order, const int32_t *class, int64_t rows, uint64_t seed,
                    et_error *error);

/* Which rows are held out: that share of each class (class NULL: of all), drawn by the number of
 * the row and the seed. Each class keeps a row; of two rows or more at least one is held out, even
 * if that is the only one of its class. */
int et_tabular_hold_out(bool *held, const int32_t *class, int64_t rows, double share, uint64_t seed,
                        et_error *error);

#endif
