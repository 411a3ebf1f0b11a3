/* Which rows of a table are validated and which are learned: a held-out share, or one of several
 * folds.
 *
 *   plain    rows are drawn; of classes, each class is spread evenly (StratifiedKFold)
 *   groups   rows of a group are on one side (StratifiedGroupKFold); a group of more than twice the
 *            share is held out only if there is no smaller one
 *   time     validated rows are later than all learned rows (TimeSeriesSplit): the rows in order
 *            of time are folds + 1 blocks, fold i learns blocks 0 to i and validates block i + 1
 *
 * The same rows, seed and settings give the same split. Pure functions. */
#ifndef ETUDE_TASKS_TABULAR_FOLDS_H
#define ETUDE_TASKS_TABULAR_FOLDS_H

#include <stdbool.h>
#include <stdint.h>

#include <etude/error.h>

/* Most folds of a table. */
#define ET_TABULAR_FOLDS_MAX 100

typedef enum et_tabular_side {
    ET_TABULAR_LEARNED,
    ET_TABULAR_VALIDATED,
    ET_TABULAR_UNUSED, /* later than the validated rows */
} et_tabular_side;

typedef struct et_tabular_splitting {
    int64_t rows;
    const int32_t *class;  /* [rows]; NULL: the target is numbers */
    const uint64_t *group; /* [rows], equal numbers are a group; NULL: none */
    const double *time;    /* [rows]; NULL: none. Not together with group */
    int64_t folds;         /* 0: a share is held out */
    double share;          /* without folds: of the rows */
    uint64_t seed;
} et_tabular_splitting;

/* part: [rows]. Part f + 1 has the rows that fold f validates; a held-out share is part 1. Part 0
 * is never validated. ET_EDATA: too few rows, groups or times for the folds. */
int et_tabular_parts(unsigned char *part, const et_tabular_splitting *how, et_error *error);
/* The side of the rows of a part when a fold (from 0) is validated. */
et_tabular_side et_tabular_side_of(const et_tabular_splitting *how, int part, int64_t fold);

#endif
