/* The manager of a run's checkpoints, for its two files: checkpoint.c, and checkpoint_save.c, whose
 * head lists the members that each thread may use, and when. */
#ifndef ETUDE_TRAIN_CHECKPOINT_CHECKPOINT_PRIVATE_H
#define ETUDE_TRAIN_CHECKPOINT_CHECKPOINT_PRIVATE_H

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "engine/tensor/params.h"
#include "formats/safetensors/manifest.h"
#include "formats/safetensors/safetensors.h"
#include "train/checkpoint/checkpoint.h"

#define ET_SAVING_BEST "saving the best checkpoint, step %" PRId64

/* The rule for the checkpoints that a run keeps: the newest N, and of the older ones one per given
 * number of hours, forever (<etude/checkpoint.h>). */
typedef struct et_checkpoint_keep {
    int64_t newest; /* N, at least 1 */
    double hours;   /* 0: none for good */
    double opened;  /* the time of day when the manager was: hours count from the first such time */
} et_checkpoint_keep;

/* One save: written by the caller before its thread starts, read by the caller after the join.
 * In between it belongs to the thread, with the manifest; so it has no mutex. */
typedef struct et_checkpoint_job {
    /* ET_SAVE_NEWEST counts among max_to_keep, ET_SAVE_TRANSIENT does not and leaves with the next
     * commit, ET_SAVE_BEST goes to the other directory and has no manifest. */
    enum { ET_SAVE_NEWEST, ET_SAVE_TRANSIENT, ET_SAVE_BEST } kind;
    int64_t step;
    const et_safetensors_item *items; /* tensors of the state, or of the held best */
    et_strbuf state;                  /* the tree as JSON; its memory is kept from save to save */
    et_strbuf info; /* for the best: the text of info.json; else the text of the last best */
    et_path path;   /* of its file; "": none yet */
    bool drafted;   /* writer has the whole file, described by written */
    et_file_writer writer;
    et_safetensors_written written;
    int status;     /* result of the thread: read after the join, reported once */
    et_error error; /* its message, if status is not 0 */
} et_checkpoint_job;

/* The best so far while it exists only in memory. Its texts and arrays are copies. */
typedef struct et_checkpoint_held {
    bool full;
    int64_t step;
    et_strbuf state, info;
    float *arrays;              /* of all tensors; owned; NULL: no best was held yet */
    et_safetensors_item *items; /* the same names and shapes, in arrays; owned */
} et_checkpoint_held;

struct et_checkpoints {
    et_state *state; /* borrowed; outlives the manager, and so do its arrays */
    et_checkpoint_options options;
    et_internals internals; /* a copy of options.internals; track is never NULL */
    et_track *writer_track; /* of the thread */
    et_path model_dir, directory, best_directory; /* RUN, RUN/checkpoints, RUN/best */
    et_path lock_path;                            /* in directory */
    et_path link;                                 /* options.best_link in RUN; "": none */
    int lock;             /* -1: not held, or held by the caller (internals.lock) */
    et_manifest manifest; /* entries of the manifest on the disk, and files that were added */
    size_t taken_up;      /* how many of its newest no manifest on disk named when it was opened */
    et_safetensors_item *items; /* the state's tensors, in their memory; NULL: in parts */
    float *copies;              /* of foreign tensors (state.h); NULL: none */
    size_t item_count;          /* tensors of the state when it was opened; none are added later */
    bool running;               /* a thread has the job, or its result was not yet returned */
    bool joined;                /* while running: the thread was already joined */
    pthread_t thread;           /* valid while running */
    pthread_mutex_t mutex;      /* of `reading`, and of the lock */
    pthread_cond_t has_read;
    et_params_reader reader; /* at the state's store, if it has one */
    bool reading;            /* the thread needs the arrays as they are */
    bool ended;              /* the thread has finished; under the mutex, like reading */
    et_checkpoint_job job;
    et_checkpoint_held held;
    et_safetensors *restored; /* open for other ranks' parts; NULL: closed */
    int64_t newest_step;      /* -1: none */
    int64_t line;  /* step up to which checkpoints of earlier processes are this run's; -1: none */
    bool resumed;  /* the newest is restored: the best is this run's, for any step */
    bool claimed;  /* what lies after the line is out of the way */
    bool best_own; /* this process has written the best */
    int64_t best_before; /* et_checkpoints_replace_best; -1: none */
    double begun;        /* of the manifest, or by et_checkpoints_begin; 0: not known */
    bool began;          /* it was this process that began the run */
    bool marked;         /* the manifest on disk says when, and names no checkpoint */
    et_checkpoint_keep keep;
};

/* Seconds since 1970, by the clock of the options. */
static inline double et_checkpoints_now(const et_checkpoints *checkpoints)
{
    return checkpoints->internals.clock ? checkpoints->internals.clock() : et_clock_wall();
}

/* Removes transient and old checkpoints from the manifest; the newest always stays. Files are
 * deleted elsewhere. */
int et_checkpoint_thin_out(et_manifest *manifest, const et_checkpoint_keep *keep, et_error *error);

#endif
