/* A training: from the settings of a run to its last checkpoint, in its directory.
 *
 *     et_training_options options = { .experiment = &experiment,
 *                                     .arena = &arena,
 *                                     .initial = &initial,
 *                                     .model_dir = "runs/a",
 *                                     .comm = comm,
 *                                     .call = call,
 *                                     .progress = progress,
 *                                     .profiling = &profiling };
 *     status = et_training_run(&options, &error);
 *
 * Opens and locks the directory, finds or claims its run, applies the experiment's recipe, opens
 * task, trainer and controller, trains, evaluates, saves and closes. The caller assembles the
 * settings, opens ranks and progress, handles signals, and prints results. A training prints
 * nothing itself: its lines go to the progress and to the log. */
#ifndef ETUDE_SYSTEMS_TRAINING_TRAINING_H
#define ETUDE_SYSTEMS_TRAINING_TRAINING_H

#include <etude/command.h>

#include "formats/events/progress.h"
#include "systems/modelgarden/experiment.h"
#include "systems/training/initial.h"
#include "systems/training/profile.h"
#include "systems/training/session.h"

/* Part of the error if a training validates, but its settings name no validation data. */
#define ET_NO_VALIDATION_DATA "the settings name no validation data"

/* When a run is validated. */
typedef enum et_validating {
    ET_VALIDATING,        /* at each validation_interval */
    ET_VALIDATING_AT_END, /* only after the last step */
    ET_VALIDATING_NEVER,
} et_validating;

/* Trains with other processes than the ranks of comm, as a cluster does. The caller's struct begins
 * with it. */
typedef struct et_training_cluster et_training_cluster;
struct et_training_cluster {
    /* Batches of an update for each of one process. */
    int64_t (*batches)(const et_training_cluster *self, const et_experiment *experiment);
    /* A trainer in place of single, which it borrows, for so many steps; settings are written. */
    int (*open)(et_training_cluster *self, et_trainer **out, et_task_trainer *single,
                const et_experiment *experiment, int64_t steps, et_progress *progress,
                et_error *error);
    void (*close)(et_trainer *trainer);
};

typedef struct et_pace {
    double seconds;   /* duration of a step; NaN: no step was measured */
    double units;     /* a second */
    const char *unit; /* NULL: the trainer has no unit */
} et_pace;

/* Measurements of one rank in a dry run. */
typedef struct et_dry_run_measured {
    int64_t done, left; /* steps of the existing run; steps still to do */
    et_pace pace;
    size_t memory; /* the most that the process had, bytes */
} et_dry_run_measured;

typedef struct et_dry_run_results {
    et_dry_run_measured all;   /* of the slowest and the largest rank */
    et_dry_run_measured *each; /* [ranks], owned by the caller (et_free); NULL: a rank failed */
    int ranks;
} et_dry_run_results;

/* All borrowed until the end. */
typedef struct et_training_options {
    et_experiment *experiment;    /* settled and locked; changes by the recipe, the existing run and
                                     memory, so it belongs to this training */
    et_arena *arena;              /* of texts of the experiment and the training */
    const et_initial *initial;    /* the source of a new run's weights; without `from`, they are
                                     drawn */
    const char *model_dir;        /* NULL only with `tried`: a run without a name */
    et_device *device;            /* NULL: the training opens its own */
    et_comm *comm;                /* the ranks that train together; usually only this process */
    et_training_cluster *cluster; /* NULL: none */
    et_progress *progress;        /* gets lines, bar and table */
    const char *counted;          /* the unit that the bar counts; NULL: steps */
    const et_call *call;          /* the command, for info.json */
    et_profiling *profiling;      /* without a path if nothing is recorded: always on ranks other
                                     than 0, and if device is given */
    et_validating validating;
    const char *mode;    /* validating as typed by people; NULL: by default */
    bool accept_changes; /* resume with settings that a person may change */
    bool verbose;        /* every summary and save, and which kernels compute */
    bool async;          /* saves run in the background */
    bool judged;         /* its model is judged with others: no verdict at the end */
    double began;        /* monotonic time from which its duration counts */
    double ends;         /* monotonic time of a limit, at which the caller sets stop; 0: no limit */
    uint64_t memory;     /* bytes that the plan may have, by the largest batch; 0: as it comes */
    /* Flags that a caller sets. stop: save and end. stop and limit: also evaluate the last step.
     * save: save and continue. */
    volatile sig_atomic_t *stop, *save, *limit;
    /* Results of a dry run, which measures a few steps in a temporary directory and writes nothing
     * to model_dir. NULL: a real training. */
    et_dry_run_results *tried;
    bool prepared; /* tried out: model_dir has files of the training already */
    void *self;    /* argument of the functions below; a function of NULL is not called */
    int (*check)(void *self, et_error *error); /* rank 0, when the directory is locked and nothing
                                                  is written yet */
    void (*opened)(void *self);                /* opening ends, or failed: a stop saves now */
    void (*follow)(void *self, const et_showing *showing, et_progress *progress); /* a step */
    void (*lost)(const et_lost_report *report); /* receives the report to write if a mapped file is
                                                   lost */
} et_training_options;

/* ET_EINTERRUPTED: stopped on request, and saved. All ranks agree on a failure. */
int et_training_run(const et_training_options *options, et_error *error);

/* The directory of a dry run, below TMPDIR: rank 0 makes it, and all ranks must see it. The files
 * that belong to the weights of an existing run are copied.
 *
 *     et_dry_run dry = { .kind = kind, .run = "runs/a" };
 *     et_dry_run_open(&dry, &error);                      makes dry.directory
 *     et_dry_run_close(&dry);                             also if it was not opened
 */
typedef struct et_dry_run {
    const et_task_kind *kind;
    const char *run; /* a run whose files are copied; its weights, if any, are loaded. NULL: none */
    et_comm *comm;   /* borrowed; NULL: this process alone */
    char *directory; /* owned */
} et_dry_run;

/* ET_ENOTFOUND: a rank does not see the directory of rank 0. */
int et_dry_run_open(et_dry_run *dry, et_error *error);
void et_dry_run_close(et_dry_run *dry);

#endif
