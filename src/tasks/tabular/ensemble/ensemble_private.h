/* Several models of one table, while they are trained and chosen. */
#ifndef ETUDE_TASKS_TABULAR_ENSEMBLE_ENSEMBLE_PRIVATE_H
#define ETUDE_TASKS_TABULAR_ENSEMBLE_ENSEMBLE_PRIVATE_H

#include "tasks/tabular/ensemble/ensemble.h"

#define ET_CANDIDATES_MAX 8

/* A training that is done. */
typedef struct et_ensemble_training {
    et_tabular_model model; /* its texts are in the arena */
    et_params *params;      /* owned */
    int64_t step;
} et_ensemble_training;

typedef struct et_outputs {
    float *output; /* [rows, width], of classes */
    double *value; /* [rows, width], of others */
} et_outputs;

/* The ensemble of a pack is chosen on the validated rows. So the pack is scored by predictions of
 * each row by an ensemble that other rows choose. */
typedef struct et_scored {
    bool done;
    et_outputs rows;  /* by which the candidate is scored and weighed */
    et_outputs model; /* outputs of the model if they differ: of a pack without folds */
    et_ensemble_training *training; /* [count] */
} et_scored;

/* Arrays are in the arena. */
typedef struct et_selection {
    et_series_run run;
    et_arena arena;
    et_tabular_task *task;
    bool is_auto;
    double budget;                       /* seconds for all trainings of tabular/auto */
    int64_t rows, width;                 /* of the arrays below */
    int64_t targets;                     /* of a row, but of classes */
    int folds;                           /* 1: none */
    int32_t *class;                      /* [rows], of classes */
    double *written;                     /* [rows, targets], of other targets */
    int16_t *fold;                       /* [rows]: the fold that validates the row; -1: no fold */
    double *weight;                      /* [rows] */
    double *of_fold;                     /* [rows]: scratch, weights of a fold's rows */
    et_scored scored[ET_CANDIDATES_MAX]; /* of the candidates, as the next */
    et_outputs mean;                     /* of the chosen ones */
    double share[ET_CANDIDATES_MAX];     /* their weights */
    /* Set when the ensemble is chosen: its predictions and members. */
    et_validation_rows result;
    const et_ensemble_training **member;
    /* Candidates that have a score; the greedy choice is among these. */
    int among[ET_CANDIDATES_MAX];
} et_selection;

/* et_series.write. */
int et_selection_write(et_series_run *run, const et_experiment *experiment, et_error *error);

#endif
