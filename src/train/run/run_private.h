/* The run, for its own files: run.c (directory, logs, best) and saving.c (saves, and failed
 * saves). */
#ifndef ETUDE_TRAIN_RUN_RUN_PRIVATE_H
#define ETUDE_TRAIN_RUN_RUN_PRIVATE_H

#include <pthread.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log_tap.h"
#include "base/text/strbuf.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/state.h"
#include "train/run/run.h"

/* The best validation so far, and its metric. Part of the state, so a resumed run compares with
 * this value. If options name another metric, the run has no best. Then the old best remains in the
 * state until the first validation. */
typedef struct et_run_best {
    const char *metric; /* of options, or in the run's arena; NULL: no best */
    bool lower;         /* lower values are better */
    bool known;         /* a validation gave a value; false: the rest is undefined */
    double value;       /* of metric; NaN if all values so far were NaN */
    int64_t step;       /* of the validation */
    int64_t since;      /* validations since the last better one; NaN does not count */
    uint64_t data;      /* fingerprint of the validation data; 0: unknown */
    double tie;         /* of options.best_tie; NaN: not known */
    /* A better best could not be saved; its values. */
    bool lost;
    double lost_value, lost_tie;
    int64_t lost_step;
} et_run_best;

/* Saves of the run so far. */
typedef struct et_run_saves {
    int failed;              /* failed saves in a row, up to the last save */
    bool again;              /* try the failed save again at the next step boundary */
    bool is_best;            /* the save in progress is for the best */
    bool ends;               /* the run is being closed: any failure is an error */
    bool held;               /* the best is only in memory */
    double held_since;       /* monotonic time since the best is only in memory */
    et_run_best best_before; /* the best to restore if the save, also of a held best, fails */
    int64_t best_saved;      /* step of the last saved best; -1: none by this process */
    et_error best_failure;   /* of the last best that was not saved */
    int64_t due;             /* step of the last save that was not transient */
    et_error failure;        /* of the last failed save */
} et_run_saves;

/* The library's warnings that the run has not shown. */
typedef struct et_run_warnings {
    et_log_tap tap;
    pthread_mutex_t mutex;
    et_strbuf texts; /* each ends with 0 */
    size_t dropped;  /* warnings that were not kept */
    bool waiting;    /* texts or dropped changed; read without the mutex */
} et_run_warnings;

struct et_run {
    et_run_options options;      /* a copy; model_dir owned */
    et_checkpoints *checkpoints; /* of model_dir */
    et_sink *sink;               /* the files as one; NULL: not begun */
    double flushed;              /* monotonic time of the last flush of logs; 0: none yet */
    et_run_best best;
    et_run_saves saves;
    bool alone; /* this process is the only rank */
    /* Agreed by all ranks. */
    bool stops;
    bool asked_to_save;
    bool saves_again;           /* rank 0 tries a save again while the state is in parts */
    bool in_parts;              /* each rank has a part of the state, and rank 0 saves it */
    bool reported_not_a_number; /* that a validation gave NaN */
    bool unsaved;               /* something happened since the last save or restore */
    et_arena arena;             /* lives as long as the run */
    et_run_warnings warnings;
    et_value *positions; /* of the sinks, as restored; NULL: a new run */
};

/* saving.c: notes the best validation and saves its step as the best. After a failure, the previous
 * best counts again. */
int et_run_save_best(et_run *run, const et_run_best *best, const et_value *logs, et_error *error);

/* Does the work of rank 0; all ranks call it. If the state is in parts, the other ranks send their
 * parts meanwhile; otherwise they do nothing. */
typedef int et_run_saving_fn(void *self, et_error *error);
int et_run_with_parts(et_run *run, et_run_saving_fn *save, void *self, et_error *error);

/* Whether the best result was chosen by the metric and comparison that this run has. */
static inline bool et_run_has_own_criterion(const et_run *run)
{
    const char *own = run->options.best_metric, *metric = run->best.metric;
    return own && metric && !strcmp(own, metric) &&
           run->best.lower == (run->options.best_comparison == ET_COMPARE_LOWER);
}

/* Whether the best was chosen by the run's metric, and on the same data. */
static inline bool et_run_has_own_best(const et_run *run)
{
    const uint64_t own = run->options.best_data, data = run->best.data;
    return et_run_has_own_criterion(run) && (!own || !data || own == data);
}

/* The best in memory, only without ranks. A small state may have a new best many times per second,
 * and even a small file takes long to become durable. So the best is copied. It is written after
 * ET_RUN_HELD_SECONDS, before the next checkpoint (whose state names the best), or at the end of
 * the run. A run that is killed earlier resumes from an older checkpoint with an older best, and
 * finds the same best again. */
#define ET_RUN_HELD_SECONDS 1

/* Whether the held best must be written now. */
static inline bool et_run_is_held_due(const et_run *run)
{
    return run->saves.held && et_clock_monotonic() >= run->saves.held_since + ET_RUN_HELD_SECONDS;
}

/* saving.c: for the close of the run: writes the held best and waits for all saves, without
 * retries. */
int et_run_end_saves(et_run *run, et_error *error);

/* Waits for a save in progress. Does not try a failed save again. */
int et_run_settle(et_run *run, et_error *error);

#endif
