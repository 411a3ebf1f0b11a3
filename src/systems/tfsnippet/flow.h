/* The batches of steps: sources by name, each with a cursor (data/batches/cursor.h). A pass begins
 * at the beginning of the data, or of the next pass of data that repeat, also after a pass that was
 * left. While a pass is open, no other reader may begin one of the same source; between two passes
 * others may, and the loop goes back to its position.
 *
 * The state has, for each source, the position of the next batch of a step. The source without a
 * name is the first one used; its saved position is applied when that source is known. */
#ifndef ETUDE_SYSTEMS_TFSNIPPET_FLOW_H
#define ETUDE_SYSTEMS_TFSNIPPET_FLOW_H

#include <etude/data.h>
#include <etude/state.h>

#include "base/arena.h"
#include "data/batches/cursor.h"

typedef struct et_flow {
    char *name;   /* owned; "": without */
    char *reader; /* owned: "a loop (source train)" */
    et_batch_cursor cursor;
    int64_t over;      /* passes that were over in this epoch of the loop */
    int64_t pass_over; /* ended passes to report again, because the epoch was restored */
    bool empty;        /* nothing has come since the begin of the data */
    bool known;        /* the source has a position of this loop: read, or restored */
    bool open;         /* a pass is open */
    et_position at;    /* known, not open: the source's position, whoever moves it meanwhile */
} et_flow;

/* Zero: none. */
typedef struct et_flows {
    et_flow *flows; /* [count], owned */
    size_t count, capacity;
    et_arena arena;
    et_value *restored; /* in arena: restored positions by name; NULL: none */
} et_flows;

void et_flows_release(et_flows *flows);

/* name "": the source has no name. saved: the source gets the restored position of this name.
 * ET_ECONFIG: saved, and the name is taken. */
int et_flows_add(et_flows *flows, const char *name, et_source *source, bool saved, et_error *error);

/* The flow of a source; *out NULL: it is not known. */
et_flow *et_flows_find(et_flows *flows, const et_source *source);

/* An epoch of the loop ends. */
void et_flows_end_epoch(et_flows *flows);

/* An epoch of the loop begins: passes that were left are over. */
int et_flows_begin_epoch(et_flows *flows, et_error *error);

/* Closes the pass of a flow where it is: others may read the source. */
void et_flow_close(et_flow *flow);

/* Closes the pass whose batch is the current one: the next one begins at its beginning. batch NULL:
 * none is. */
int et_flows_leave(et_flows *flows, const et_batch *batch, et_error *error);

/* The loop ends: closes all passes. A batch that was read ahead, of a next pass, is given back. */
void et_flows_close(et_flows *flows);

/* Reads the next batch of a step into the cursor; *over: the pass has ended. Opens a pass if none
 * is open. ET_EUSAGE: another reader's pass is. */
int et_flow_next(et_flow *flow, bool *over, et_error *error);

/* For et_state_add. */
extern const et_part_class et_flows_part;

#endif
