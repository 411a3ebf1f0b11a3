/* The loop, for its own files. Public functions (<etude/loop.h>, <etude/loop_log.h>) check
 * et_loop_ready first and pass &loop->error down as the error. After the first failure nothing runs
 * that could overwrite it. */
#ifndef ETUDE_SYSTEMS_TFSNIPPET_LOOP_PRIVATE_H
#define ETUDE_SYSTEMS_TFSNIPPET_LOOP_PRIVATE_H

#include <etude/annealing.h>
#include <etude/data.h>
#include <etude/loop_evaluator.h>
#include <etude/loop_log.h>
#include <etude/optimizer.h>
#include <etude/pass.h>
#include <etude/shards.h>
#include <etude/state.h>

#include "base/arena.h"
#include "base/text/pattern.h"
#include "base/text/strbuf.h"
#include "data/batches/source.h"
#include "train/run/run.h"

/* ---- steps.c: the batches of steps ---- */

/* Sources by name, each with a cursor (data/batches/source.h). A pass begins at the beginning of
 * the data, or, if the source repeats, at the beginning of its next pass. This also holds after an
 * unfinished pass. While a pass is open, no other reader may begin a pass of the same source. Other
 * readers may read between two passes; the loop then returns to its own position.
 *
 * The state has, for each source, the position of the next batch of a step. The source without a
 * name is the first one used; its saved position is applied when that source is known. */
typedef struct et_flow {
    char *name;   /* owned; "": without */
    char *reader; /* owned: "a loop (source train)" */
    et_batch_cursor cursor;
    int64_t over;      /* passes that ended in this epoch of the loop */
    int64_t pass_over; /* ended passes to report again after a restore within an epoch */
    bool empty;        /* no batch was read since the begin of the data */
    bool known;        /* the source has a position of this loop: read, or restored */
    bool open;         /* a pass is open */
    et_position at;    /* known, not open: the loop's position, even if others move the source */
} et_flow;

/* Zero: none. */
typedef struct et_flows {
    et_flow *flows; /* [count], owned */
    size_t count, capacity;
    et_arena arena;
    et_value *restored; /* in arena: restored positions by name; NULL: none */
} et_flows;

/* ---- collect.c: statistics of metrics ---- */

/* By name, for collecting, printing and saving. A name is added with its first value and stays;
 * clearing removes only values. Names that end in "time" or "timer" depend on the clock and are not
 * saved. */
typedef struct et_logger_item {
    char *name;                /* owned */
    et_statistics *statistics; /* owned */
} et_logger_item;

/* Metrics with a value, in a formatter's order. */
typedef struct et_logger_list {
    et_loop_stats *stats; /* [count], owned; names and values are the logger's */
    int count;
    size_t capacity;
} et_logger_list;

/* Zero: no values yet. */
typedef struct et_logger {
    et_logger_item *items; /* [count], owned, in order of their first value */
    size_t count, capacity;
    et_logger_list spare; /* reused memory */
} et_logger;

/* ---- the loop ---- */

#define ET_LOOP_EPOCH_TIME "epoch_time"
#define ET_LOOP_STEP_TIME  "step_time"

/* An object of the program's, in the part "objects". */
typedef struct et_loop_object {
    const char *name; /* in the arena */
    const et_part_class *kind;
    void *self;
} et_loop_object;

/* A pair of calls. A closed pair keeps its memory for the next one. */
typedef struct et_loop_pair {
    const char *name;         /* in the arena */
    et_statistics *collector; /* owned; NULL: a timer */
    double begun;             /* of a timer */
    bool open, in_step;
} et_loop_pair;

/* How often a metric's summary is written. waited: values since the last written one. */
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

/* State of the program and of trainers that resumes. */
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
    bool is_last; /* the last collected value is the best; false after printing */
    double value; /* NaN: none yet */
    int64_t step;
    float *values; /* without a directory: [flat size of the store] */
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
    et_patterns *skip; /* names whose values are not written; NULL: none */
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
        et_strbuf line, plain; /* reused memory of printed lines */
        bool quiet;            /* another rank prints */
    } out;
    et_loop_best best;
};

/* ---- events.c ---- */

/* Whether a call may continue: between begin and end, without an earlier failure. */
int et_loop_ready(et_loop *loop);
/* The same, and an epoch must be open. */
int et_loop_ready_in_epoch(et_loop *loop);

/* ET_EUSAGE while an event is fired; otherwise the earlier failure, if any. */
int et_loop_refuse_in_handler(et_loop *loop);

/* Fires an event with `event` as `what`; sets its loop. */
int et_loop_fire(et_loop *loop, const char *name, et_loop_event *event, bool reverse);
/* The same for events of a trainer or an evaluator. Their handlers may not leave or advance the
 * loop either. */
int et_loop_fire_of(et_loop *loop, et_event_hub *events, const char *name, const void *event,
                    bool reverse, et_error *error);
/* Gives a failure without a text the text of the loop's failure, if the loop has failed. Returns
 * status. */
int et_loop_explain(const et_loop *loop, int status, et_error *error);

/* A line for people. */
void et_loop_print(et_loop *loop, const char *text);

/* ---- steps.c ---- */

/* name "": the source has no name. saved: the source gets the restored position of this name.
 * ET_ECONFIG: saved, and the name is taken. */
int et_flows_add(et_flows *flows, const char *name, et_source *source, bool saved, et_error *error);
void et_flows_release(et_flows *flows);
/* For et_state_add. */
extern const et_part_class et_flows_part;

/* At the end of the loop: ends an open step and epoch without their events, and closes all passes.
 * A batch that was read ahead, of a next pass, is given back. */
void et_loop_end_open(et_loop *loop);

/* ---- collect.c ---- */

bool et_logger_is_time(const char *name);
void et_logger_clear(et_logger *logger);
void et_logger_release(et_logger *logger);

/* Part of the state. */
extern const et_part_class et_loop_metrics_part;

/* Collects step_time or epoch_time since *begun, unless it was collected already. */
int et_loop_collect_time(et_loop *loop, const char *name, double *begun);
/* Drops the open pairs of the finished step, or with `all` every open pair. */
void et_loop_drop_pairs(et_loop *loop, bool all);
/* A timer that may not have ended. */
void et_loop_drop_timer(et_loop *loop, const char *name);

/* Reads best and best_step from the run. */
void et_loop_read_best(et_loop *loop);
/* The best parameters back, at a clean end; for et_together_run. */
int et_loop_take_best(void *self, et_error *error);

/* ---- annealing.c: bound values with resolved targets ---- */

typedef struct et_bound_item {
    et_bound_value value;
    int index;     /* in the store; -1: an optimizer's rate */
    double before; /* from et_bound_values_keep */
} et_bound_item;

typedef struct et_bound_values {
    et_params *params;    /* borrowed */
    et_bound_item *items; /* [count], owned */
    int count;
} et_bound_values;

/* ET_ECONFIG: a variable does not exist or has several elements. */
int et_bound_values_init(et_bound_values *bound, et_params *params, const et_bound_value *values,
                         int count, et_error *error);
void et_bound_values_release(et_bound_values *bound);

/* Reads each value and sets its target. ET_ECONFIG: not a valid learning rate. */
int et_bound_values_apply(et_bound_values *bound, et_error *error);

/* keep: stores the current values of the targets. put_back: restores them, the last one first. */
void et_bound_values_keep(et_bound_values *bound);
void et_bound_values_put_back(et_bound_values *bound);

/* The current value: the constant, or the function's result. */
double et_dynamic_get(const et_dynamic *dynamic);

#endif
