/* Actions: functions that a controller calls between steps. An action says at which steps it is due
 * and what it does there. The controller calls due actions in the order in which the program passed
 * them. The controller's own work (log, validate, save) consists of actions too. ready_actions.h
 * has actions for common needs.
 *
 *     static int64_t noon(const et_action *self, int64_t step) { return (step / 1000 + 1) * 1000; }
 *     static int ring(et_action *self, const et_action_context *now, et_error *error) { ... }
 *     static const et_action_class bell_class = { "bell", noon, ring };
 */
#ifndef ETUDE_ACTION_H
#define ETUDE_ACTION_H

#include <stdbool.h>
#include <stdint.h>

#include <etude/error.h>
#include <etude/value.h>

#define ET_ACTION_NEVER INT64_MAX

typedef struct et_action et_action;

/* The input of an action, and its way to ask for a stop. */
typedef struct et_action_context {
    int64_t step;         /* steps done */
    bool end;             /* true: this is the last step of the run */
    const et_value *logs; /* values of the evaluation at this step; for a train action
                             (outer_loop.h), values of the inner loop. NULL: no such values */
    bool *stop; /* set to true to end the run as finished (with outer_loop.h: to end the current
                   call). The other due actions still run */
    int rank;   /* rank of this process. Every rank calls the action; only rank 0 may write files */
} et_action_context;

typedef struct et_action_class {
    const char *name; /* stored in checkpoints to resume with the right action; unique in a run, and
                         not "log", "validate" or "save" */
    /* Returns the first step after `step` at which the action is due, or ET_ACTION_NEVER. The
     * result must depend only on `step`: then a resumed run acts at the same steps as an
     * uninterrupted run. NULL for train and evaluation actions (outer_loop.h), which have no
     * schedule. */
    int64_t (*due)(const et_action *self, int64_t step);
    /* Does the whole work. An interrupted action must do nothing and return ET_EINTERRUPTED; the
     * controller calls it again when the run resumes. */
    int (*act)(et_action *self, const et_action_context *now, et_error *error);
} et_action_class;

struct et_action {
    const et_action_class *ET_CLASS;
};

#endif
