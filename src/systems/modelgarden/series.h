/* Series: a run that trains several models and becomes one model made of them. A kind of task has
 * at most one series (et_task_kind.series); the settings of a run decide whether the run is a
 * series.
 *
 *   candidates -> trainings -> results -> journal -> choice -> model
 *
 * The class defines the candidates, their scores, and how they become a model. The command does the
 * rest (command/training/series.c): budget, directories, the journal, the trainings
 * (systems/training/training.h) and their evaluation (systems/training/evaluation.h). The class
 * opens no training and reads no file of one.
 *
 *   RUN/params.yaml, ...     the run's settings and the kind's files, as of any run
 *   RUN/members/NAME/        a run of its own for each training
 *   RUN/members.jsonl        a line for each candidate that was trained or left out, in order
 *   RUN/out_of_fold.jsonl    with folds: a prediction of each row, by models that did not learn it
 *   RUN/model.safetensors    the model, when all are trained: RUN is then an export as well
 *
 * A candidate is an experiment to choose from, such as tabular/mlp; it has a training for each
 * fold.
 *
 *     et_series_run *run;
 *     class->open(&run, &experiment, task, seconds, &error);
 *     for (int i = 0; i < run->count; i++) {
 *         for (int k = 0; k < run->candidate[i].count; k++)
 *             class->take(run, i, k, &trained, &error);     it was trained and evaluated
 *         class->score(run, i, &score, &error);
 *     }
 *     class->choose(run, options, weights, &score, &error);
 *     class->write(run, &experiment, &error);
 *     class->close(run);
 *
 * Equal trainings give an equal model. The clock decides nothing here. */
#ifndef ETUDE_SYSTEMS_MODELGARDEN_SERIES_H
#define ETUDE_SYSTEMS_MODELGARDEN_SERIES_H

#include "systems/modelgarden/experiment.h"

/* Folder and log in the run's directory. */
#define ET_SERIES_FOLDER "members"
#define ET_SERIES_LOG    "members.jsonl"
#define ET_SERIES_FOLDS  "out_of_fold.jsonl"

typedef struct et_series_training {
    const char *name;       /* of its folder: "mlp_1" */
    const char *experiment; /* of the kind's rows */
    const char *defaults;   /* settings that replace the experiment's defaults; the run's settings
                               have priority. YAML, "{task: {...}}"; NULL: none */
    const char *settings;   /* settings with the highest priority, as for --set; NULL: none */
} et_series_training;

typedef struct et_series_candidate {
    const char *name;                   /* "mlp" */
    const et_series_training *training; /* [count] */
    int count;
    double cost; /* expected duration, seconds */
    double used; /* share of the steps that cost assumes: trainings may stop early */
} et_series_candidate;

#define ET_SERIES_METRICS 2

/* Scores on the validation rows of all trainings. deviation: the standard deviation over folds;
 * NaN: there are no folds. */
typedef struct et_series_score {
    const char *metric[ET_SERIES_METRICS];
    double mean[ET_SERIES_METRICS], deviation[ET_SERIES_METRICS];
} et_series_score;

/* The candidates of an open series, in order of training. Borrowed until close. */
typedef struct et_series_run {
    const et_series_candidate *candidate; /* [count] */
    int count;
    int64_t step;   /* of the model, when written: the latest of a training */
    double seconds; /* estimated duration of all trainings, on two cores with AVX2; 0: unknown */
    const char *left_out; /* candidates that would exceed the time: "tabm (about 5:20)"; or NULL */
    bool changed; /* the data have chosen settings: open the task and the series again with these
                     settings */
} et_series_run;

/* A training whose task has just validated the weights of its best checkpoint. */
typedef struct et_series_trained {
    et_task *task;     /* its settings outlive the series */
    et_params *params; /* take sets this to NULL if it keeps them */
    int64_t step;      /* of the weights */
} et_series_trained;

typedef struct et_series {
    const char *alone; /* a setting that only the run has: "task.budget"; NULL: none */
    const char *model; /* the setting in which the experiments of candidates differ */
    /* Settings and groups that each of several candidates has for itself, unless they are given;
     * NULL ends the list. Not NULL. */
    const char *const *own;
    /* Whether the settings of an experiment of this name ask for several trainings. */
    bool (*wanted)(const char *experiment, const void *options);
    /* The experiment of candidate i, from 0, of a series of this name and settings; NULL: no more.
     */
    const char *(*candidate)(const char *experiment, const void *options, int i);
    /* On resume: copies the settings that the series has chosen from kept. */
    void (*adopt)(void *options, const void *kept);
    /* task: opened with the settings of experiment, some of which the data may choose; outlives the
     * series. seconds: the time limit of a new run; 0: the class chooses. */
    int (*open)(et_series_run **out, const et_experiment *experiment, et_task *task, double seconds,
                et_error *error);
    /* Called before a training or its evaluation. Puts files that the training needs into its
     * existing directory. Puts open data of the run into options, which the series outlives. */
    int (*prepare)(et_series_run *run, const char *directory, void *options, et_error *error);
    /* Keeps the predictions and the weights of a candidate's training number `training`. */
    int (*take)(et_series_run *run, int candidate, int training, et_series_trained *trained,
                et_error *error);
    /* Scores a candidate after take was called for all of its trainings. */
    int (*score)(et_series_run *run, int candidate, et_series_score *score, et_error *error);
    /* Chooses weights, of sum 1, for the candidates that have a score, and sets the ensemble in
     * options. weights: [count]; score: of the model. */
    int (*choose)(et_series_run *run, void *options, double *weights, et_series_score *score,
                  et_error *error);
    /* Writes the model and its predictions of the validated rows; the settings were written. */
    int (*write)(et_series_run *run, const et_experiment *experiment, et_error *error);
    void (*close)(et_series_run *run); /* NULL allowed */
} et_series;

/* The series that the settings of an experiment ask for; NULL: a single training. */
const et_series *et_series_of(const et_experiment *experiment);

/* Checks that the settings ask for a single training. what: the option that needs one, such as
 * "--init". ET_ECONFIG: the settings ask for a series. */
int et_series_check_none(const et_experiment *experiment, const char *what, et_error *error);

#endif
