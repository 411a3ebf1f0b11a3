/* The record of the processes that worked on a run. train.log has the lines for people, with the
 * time of day; each process appends to it. info.json has the start and end of each process. Neither
 * is part of the run's state: training never reads them, and a write error is only a warning.
 *
 *     et_session session = ET_SESSION_INIT;
 *     et_session_open(&session, progress, NULL);          from here on lines are kept in memory
 *     et_session_begin(&session, call, "runs/a", &facts);  the run exists: lines are written
 *     et_session_end(&session, last_step, steps, status, &error);
 *
 * Whole lines are appended, and info.json is replaced atomically, so after a kill both are
 * readable, with a session without "ended". Training does not wait for the disk: a thread of the
 * session writes info.json at its begin, and the settings for TensorBoard, which each session
 * writes again and makes durable at its end. Times are seconds since 1970 in info.json, local time
 * in train.log. The caller holds the run's lock. */
#ifndef ETUDE_SYSTEMS_TRAINING_SESSION_H
#define ETUDE_SYSTEMS_TRAINING_SESSION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <etude/command.h>

#include "base/arena.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"

/* info.json is {"format": ET_SESSION_FORMAT, "sessions": [{...}, ...]}, oldest first. If there are
 * more than ET_SESSIONS_MAX sessions, the first and the newest ones are kept. A session has the
 * keys below and "version", "command" (its words), "directory" (of the call), "host", "cpu" and
 * "process". A session that ended without success also has "error". */
#define ET_SESSION_FORMAT    "etude-run-1"
#define ET_SESSIONS_MAX      1000
#define ET_SESSION_DIRECTORY "directory"
#define ET_SESSION_BEGAN     "began"
#define ET_SESSION_ENDED     "ended"      /* missing: it works, or was killed */
#define ET_SESSION_REASON    "reason"     /* done, interrupted, diverged, failed; with "ended" */
#define ET_SESSION_FIRST     "first_step" /* step where it began */
#define ET_SESSION_LAST                                                                            \
    "last_step"                              /* step where it ended; with "ended", unless a mapped \
                                                  file was cut off */
#define ET_SESSION_STEPS      "train_steps"  /* in all */
#define ET_SESSION_VALUES     "first_values" /* step of its first logged values; 0: not known */
#define ET_SESSION_PARAMETERS "parameters"   /* numbers in the model */
#define ET_SESSION_MEMORY     "memory"       /* bytes planned */
#define ET_SESSION_THREADS    "threads"

/* A report that a handler of SIGBUS writes when a mapped file was cut off. The handler can only
 * write bytes, so the report is prepared: `before`, the time in seconds since 1970, `between`, the
 * message in JSON quotes, `behind`. */
typedef struct et_lost_report {
    const char *path, *temporary; /* temporary: the name while it is written, in the same folder */
    const char *before, *between, *behind;
} et_lost_report;

/* The subject of a session. */
typedef struct et_session_facts {
    const et_value *settings; /* all of the run (et_experiment_tree), borrowed until the end; NULL:
                                 no memory for them */
    int64_t first_step, steps, first_values, parameters;
    uint64_t memory;
    int threads;
} et_session_facts;

struct et_events;
struct et_progress;

typedef struct et_session {
    struct et_progress *progress; /* copies its lines; NULL: not open */
    /* Called with lost_file, which is borrowed until the next call, and with NULL at the end. NULL:
     * no handler of SIGBUS */
    void (*report_lost)(const et_lost_report *report);
    et_path log, info;   /* log "": not begun */
    et_strbuf kept;      /* lines of before */
    time_t opened;       /* earliest time of its lines */
    int lost;            /* errno of the first failed write of a line; 0: none */
    const et_call *call; /* as given to begin, all three */
    const char *model_dir;
    et_session_facts facts;
    pthread_t writer;         /* of the begin; has all below, until the end */
    bool writes;              /* it was started */
    et_arena arena;           /* of tree */
    et_value *tree, *own;     /* the contents of info.json, and this session's part of it; NULL:
                                 none */
    struct et_events *shown;  /* settings for TensorBoard, on the disk when it ends; or NULL */
    et_lost_report lost_file; /* info.json, should a file be lost; in arena */
} et_session;

#define ET_SESSION_INIT                                                                            \
    {                                                                                              \
        .kept = ET_STRBUF_INIT                                                                     \
    }

/* progress is borrowed until the end, and so are call and model_dir. session must not move. */
void et_session_open(et_session *session, struct et_progress *progress,
                     void (*report_lost)(const et_lost_report *report));

void et_session_begin(et_session *session, const et_call *call, const char *model_dir,
                      const et_session_facts *facts);

/* steps: of the run, in all; its length may have changed. status, error: of the work, not changed.
 * A session that was not begun leaves no files. A session that was not opened is allowed. */
void et_session_end(et_session *session, int64_t last_step, int64_t steps, int status,
                    const et_error *error);

/* The step with which a run was done, early or not, according to its last session. -1: not done, or
 * unknown. */
int64_t et_session_done_at(const char *model_dir);

/* How the last session of a run ended: a value of ET_SESSION_REASON, or "killed" if the session has
 * no end. NULL: the run has no session, or its file cannot be read. Static. */
const char *et_session_reason(const char *model_dir);

/* If a file was not found (ET_ENOTFOUND) and the run was started in another directory, adds this
 * directory to the message. Returns status. */
int et_session_tell_directory(const char *model_dir, int status, et_error *error);

/* Whether a process of this machine trains in a run's directory: asked of the system, as trying the
 * lock would take it. */
bool et_session_works(const char *model_dir);

#endif
