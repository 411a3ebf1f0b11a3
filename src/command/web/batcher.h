/* Requests in a queue, a thread that reads them, and a thread that answers as many as possible
 * together.
 *
 *   one thread's jobs --put--> unread --read--> bounded queue --> batches of one group --service-->
 *   done --take--> the same thread
 *
 * So the thread that owns the jobs does no work that grows with a request. The reading thread takes
 * the smallest body first, because a few large bodies must not delay all others. The answering
 * thread opens, uses and closes the service; OpenMP's threads belong to this thread. A batch has
 * the waiting requests of one group, the oldest first. After a large batch the batcher waits a
 * little for as many items again, because clients answered together tend to ask again together. A
 * batch has as many items as can be answered in a part of the allowed waiting time, at the measured
 * rate, so later requests are only a little late. Only one thread calls put, take and withdraw. */
#ifndef ETUDE_COMMAND_WEB_BATCHER_H
#define ETUDE_COMMAND_WEB_BATCHER_H

#include <etude/service.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/text/strbuf.h"

/* A request on its way. Its owner makes it, and gets it back by take. */
typedef struct et_job {
    et_service_request request;
    et_arena arena;
    et_strbuf answer;
    struct et_job *next; /* internal, until et_batcher_take returns the job */
    atomic_bool ended;   /* nobody waits for it: the service skips it */
    bool full;           /* set by the batcher: the queue has no room for its items */
    /* the owner's own */
    const et_service_class *class;
    const et_service_path *path; /* NULL: the class's name */
    void *asker;
    char *body;           /* owned: the request's text */
    const char *boundary; /* between the parts of a form; NULL: none */
    bool allowed;         /* a token is not required, or was given */
    int refused;          /* a status of HTTP; 0: not refused */
    double deadline;
    struct et_job *later, **link;
} et_job;

typedef struct et_batcher_options {
    const et_service_class *class;
    const char *model_dir;
    et_service_options service;
    int64_t queue;   /* items that wait at most */
    int threads;     /* 0: OpenMP's default */
    double patience; /* seconds that one waits for an answer at most */
    /* Reads a job: sets its items, group and payload; may take long. false: the answer is already
     * written, or the job has failed. */
    bool (*read)(void *payload, et_job *job);
    void (*done)(void *payload); /* called by the batcher's threads when take has a job */
    void *payload;
} et_batcher_options;

typedef struct et_batcher_counts {
    int64_t unread, waiting, answering; /* items now; an unread job counts as an item, and waits */
    int64_t batches, requests, items;   /* answered, ever */
    double busy;                        /* seconds spent answering, ever */
} et_batcher_counts;

typedef struct et_batcher et_batcher;

/* Waits until the service is open. */
int et_batcher_open(et_batcher **out, const et_batcher_options *options, et_error *error);
/* Ends the threads once the current job is read and the current batch is answered, or all of its
 * jobs have ended. No job may be put any more. */
void et_batcher_stop(et_batcher *batcher);
/* Call when all jobs were taken or withdrawn. NULL allowed. */
void et_batcher_close(et_batcher *batcher);

et_service *et_batcher_service(et_batcher *batcher);

/* false: the queue has no room for a further job; the job stays the caller's. */
bool et_batcher_put(et_batcher *batcher, et_job *job);
/* Returns a job that was answered or has failed; NULL: none yet. */
et_job *et_batcher_take(et_batcher *batcher);
/* Takes back a waiting job. false: the job is being read or answered, or is done. Then the service
 * learns that the job has ended, and take will return it. */
bool et_batcher_withdraw(et_batcher *batcher, et_job *job);

et_batcher_counts et_batcher_count(et_batcher *batcher);

#endif
