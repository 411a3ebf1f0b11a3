/* Steps of opening the task, in order, and its methods. */
#ifndef ETUDE_TASKS_TABULAR_SETUP_SETUP_PRIVATE_H
#define ETUDE_TASKS_TABULAR_SETUP_SETUP_PRIVATE_H

#include "data/table/rows/rows.h"
#include "tasks/tabular/networks/networks.h"
#include "tasks/tabular/setup/setup.h"
#include "tasks/tabular/target/target.h"

/* In order: rows.c, files.c, rows.c; and closing each, in any state. */
int et_tabular_find_files(et_tabular_task *task, et_error *error);
int et_tabular_open_files(et_tabular_task *task, et_error *error);
int et_tabular_open_rows(et_tabular_task *task, et_error *error);
void et_tabular_close_rows(et_tabular_task *task);
void et_tabular_close_files(et_tabular_task *task);

/* The table of some files, encoded; its first rows if limit is not 0. */
int et_tabular_open_table(et_tabular_task *task, et_samples **out, const et_strings *paths,
                          int64_t limit, et_error *error);

/* Reads the files again and calls take for each row that has a target, in the order of
 * et_table_samples_open with the same paths. item: [fields of task->encoder], the row encoded. */
typedef int et_tabular_take_fn(void *payload, const et_row *row, void *const *item);
int et_tabular_each_row(const et_tabular_task *task, const et_strings *paths,
                        et_tabular_take_fn *take, void *payload, et_error *error);

/* init_from_rows.c: sets variables before the first step of a new run. variable: the values of a
 * variable of the target, by its name (networks.h); NULL: the model has no such variable. */
int et_tabular_init_from_rows(et_tabular_task *task, et_params *params, et_error *error);
float *et_tabular_variable(et_params *params, const char *name);

/* Warns of classes that no row is learned or scored of. */
int et_tabular_warn_unlearnable(const et_tabular_task *task, et_error *error);

/* ---- folds.c ---- */

/* Divides the rows of a table into validated and learned rows: a held-out share, or one of several
 * folds.
 *
 *   plain    rows are drawn; of classes, each class is spread evenly (StratifiedKFold)
 *   groups   rows of a group are on one side (StratifiedGroupKFold); a group of more than twice the
 *            share is held out only if there is no smaller one
 *   time     validated rows are later than all learned rows (TimeSeriesSplit): the rows in order
 *            of time are folds + 1 blocks, fold i learns blocks 0 to i and validates block i + 1
 *
 * The same rows, seed and settings give the same split. Pure functions. */

typedef enum et_tabular_side {
    ET_TABULAR_LEARNED,
    ET_TABULAR_VALIDATED,
    ET_TABULAR_UNUSED, /* later than the validated rows */
} et_tabular_side;

typedef struct et_tabular_splitting {
    int64_t rows;
    const int32_t *class;  /* [rows]; NULL: the target is numbers */
    const uint64_t *group; /* [rows], rows with equal numbers are one group; NULL: no groups */
    const double *time;    /* [rows]; NULL: no times. Not together with group */
    int64_t folds;         /* 0: a share is held out */
    double share;          /* without folds: of the rows */
    uint64_t seed;
} et_tabular_splitting;

/* Holds out a share of each class (class NULL: of all rows), drawn by row number and seed. Each
 * class keeps at least one row. Exception: of two or more rows, at least one is held out, even if
 * it is the only row of its class. */
int et_tabular_hold_out(bool *held, const int32_t *class, int64_t rows, double share, uint64_t seed,
                        et_error *error);

/* Sets part [rows]: part f + 1 has the rows that fold f validates. A held-out share is part 1. Part
 * 0 is never validated. ET_EDATA: too few rows, groups or times for the folds. */
int et_tabular_parts(unsigned char *part, const et_tabular_splitting *how, et_error *error);
/* The side of the rows of a part when a fold (from 0) is validated. */
et_tabular_side et_tabular_side_of(const et_tabular_splitting *how, int part, int64_t fold);

/* A column of the training table that is read in addition to the encoded rows. */
typedef struct et_row_keys {
    uint64_t *group; /* [count] equal for equal values; NULL: times were asked for */
    double *time;    /* [count] numbers, or seconds since the first row's date; NULL: groups were */
    int64_t count;
} et_row_keys;

/* Reads the groups or times of all rows of the files, even if the table has a limit and so only the
 * first rows. keys: all zero before the call. ET_ECONFIG: the table has no such column. ET_EDATA: a
 * row has no value; a time is neither a number nor a date, or its time zone cannot be compared with
 * the zone of earlier rows. */
int et_tabular_read_keys(const et_tabular_task *task, et_row_keys *keys, et_error *error);

#endif
