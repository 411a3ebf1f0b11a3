/* The loop, for its own files. Public functions (<etude/loop.h>, <etude/loop_log.h>) check
 * et_loop_ready first and pass &loop->error down as the error. After the first failure nothing runs
 * that could overwrite it. */
#ifndef ETUDE_SYSTEMS_TFSNIPPET_LOOP_PRIVATE_H
#define ETUDE_SYSTEMS_TFSNIPPET_LOOP_PRIVATE_H

#include <etude/loop_log.h>
#include <etude/optimizer.h>
#include <etude/pass.h>

#include "base/arena.h"
#include "base/text/pattern.h"
#include "base/text/strbuf.h"
#include "systems/tfsnippet/flow.h"
#include "systems/tfsnippet/logger.h"
#include "train/run/run.h"

#define ET_LOOP_EPOCH_TIME "epoch_time"
#define ET_LOOP_STEP_TIME  "step_time"

/* An object of the program's, in the part "objects". */
typedef struct et_loop_object {
    const char *name; /* in the arena */
    const et_part_class *kind;
    void *self;
} et_loop_object;

/* A pair that is open, or was: its memory is used again. */
typedef struct et_loop_pair {
    char *name;               /* owned */
    et_statistics *collector; /* owned; NULL: a timer */
    double begun;             /* of a timer */
    bool open, in_step;
} et_loop_pair;

/* How often a metric's summary is written; waited: how often it was not since then. */
typedef struct et_loop_commit {
    const char *name; /* in the arena */
    int64_t every, waited;
} et_loop_commit;

/* The place of a loop: the part "loop" of the state. */
typedef struct et_loop_at {
    int64_t epoch, step;
    bool within_epoch, within_step;
    int64_t epochs_done, steps_done; /* at the end of the last epoch that ended */
    bool resumes;                    /* restored within an epoch, which is not open yet */
    bool ends_step;                  /* restored within a step, which is to end */
} et_loop_at;

/* By the clock. */
typedef struct et_loop_clock {
    double epoch_begun, step_begun;       /* NaN: not open, or collected already */
    double eta_time, eta_step, eta_epoch; /* where the ETA counts from */
} et_loop_clock;

/* What resumes besides the loop's own parts. */
typedef struct et_loop_own {
    et_optimizer **optimizers; /* [optimizer_count], owned list: of trainers, borrowed */
    size_t optimizer_count, optimizer_capacity;
    et_loop_object *objects; /* [object_count], owned: the program's */
    size_t object_count, object_capacity;
} et_loop_own;

/* Collected metrics. */
typedef struct et_loop_metrics {
    et_logger epoch, step;
    et_loop_pair *pairs; /* [pair_count], owned */
    size_t pair_count, pair_capacity;
    et_loop_commit *commits; /* [options.summary_commit_freq_count], in the arena */
} et_loop_metrics;

/* The valid metric. */
typedef struct et_loop_best {
    bool smaller_is_better;
    bool is_last; /* its last value is the best, until it is printed */
    double value; /* NaN: none yet */
    int64_t step;
    float *values; /* where there is no directory: [flat size of the store] */
} et_loop_best;

struct et_loop {
    et_loop_options options; /* texts in the arena */
    et_metric_formatter formatter;
    et_arena arena;
    et_params *params;
    et_group *group; /* the trained parameters of the given ones */
    et_state *state;
    et_event_hub *events;
    et_run *run;       /* from begin to end; otherwise NULL */
    et_sink *writer;   /* of the run or borrowed; NULL: none */
    et_patterns *skip; /* names that are not written; NULL: none */
    et_error error;    /* the first failure */
    /* ENDING: EXIT_LOOP is fired. */
    enum { ET_LOOP_OPEN, ET_LOOP_RUNNING, ET_LOOP_ENDING, ET_LOOP_ENDED } phase;
    int firing; /* events that are fired now, in each other */
    et_loop_at at;
    struct {
        bool after_step, after_epoch;
    } saves; /* asked for while these were open */
    et_loop_clock clock;
    et_flows flows;
    const et_batch *step_data;
    et_loop_own own;
    et_loop_metrics metrics;
    struct {
        et_strbuf line, plain; /* memory for what is printed */
        bool quiet;            /* another rank prints */
    } out;
    et_loop_best best;
};

/* ---- guards.c ---- */

/* Whether a call may continue: between begin and end, without an earlier failure. */
int et_loop_ready(et_loop *loop);
/* The same in an epoch. */
int et_loop_ready_in_epoch(et_loop *loop);

/* ET_EUSAGE while an event is fired, or what has failed before. */
int et_loop_refuse_in_handler(et_loop *loop);

/* Fires an event with `event` as `what`; sets its loop. */
int et_loop_fire(et_loop *loop, const char *name, et_loop_event *event, bool reverse);
/* The same of a trainer's or an evaluator's own events: the loop is neither left nor advanced in
 * their handlers either. */
int et_loop_fire_of(et_loop *loop, et_event_hub *events, const char *name, const void *event,
                    bool reverse, et_error *error);
/* A failure that came without a text gets the loop's, if it has failed. Returns status. */
int et_loop_explain(const et_loop *loop, int status, et_error *error);

/* A line for people. */
void et_loop_print(et_loop *loop, const char *text);

/* ---- resumes.c ---- */

/* Attaches the loop's own state, and that of its trainers. */
int et_loop_add_parts(et_loop *loop, et_error *error);
/* Notes a trainer's optimizer, which is attached when the loop begins, if it was not; until it is
 * forgotten. ET_ECONFIG: the loop has begun, and saves without the optimizer. */
int et_loop_note_optimizer(et_loop *loop, et_optimizer *optimizer, et_error *error);
void et_loop_forget_optimizer(et_loop *loop, const et_optimizer *optimizer);

/* ---- steps.c ---- */

/* Ends an open step and epoch without their events, at the end of the loop. */
void et_loop_end_open(et_loop *loop);

/* ---- collect.c ---- */

/* step_time or epoch_time since *begun, unless it is collected. */
int et_loop_collect_time(et_loop *loop, const char *name, double *begun);
/* Pairs that were begun in a step that is over, or all. */
void et_loop_drop_pairs(et_loop *loop, bool all);
/* A timer that may not have ended. */
void et_loop_drop_timer(et_loop *loop, const char *name);

/* ---- summaries.c ---- */

/* The graph of a pass into the event files of a writer. ET_EUSAGE: it has none. */
int et_loop_write_graph(et_sink *writer, const et_pass *pass, et_error *error);

/* ---- stopping.c ---- */

/* Whether larger values are better, judged by the name. */
bool et_loop_larger_by_name(const char *name);
int et_loop_note_valid(et_loop *loop, double value);
/* Reads best and best_step from the run. */
void et_loop_read_best(et_loop *loop);
/* The best parameters back, at a clean end. */
int et_loop_take_best(et_loop *loop, et_error *error);

/* ---- print.c ---- */

/* Counts progress and time from here. */
void et_loop_begin_eta(et_loop *loop);

#endif
