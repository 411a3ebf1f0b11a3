/* Actions: what happens between steps, when, and with what. A controller lets them act in the order
 * in which they were given; its own (log, validate, save) are actions as well. Some that are ready:
 * ready_actions.h.
 *
 *     static int64_t noon(const et_action *self, int64_t step) { return (step / 1000 + 1) * 1000; }
 *     static int ring(et_action *self, const et_moment *now, et_error *error) { ... }
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

/* What an action sees, and what it may ask for. */
typedef struct et_moment {
    int64_t step;         /* steps done */
    bool end;             /* the last of the run */
    const et_value *logs; /* of the evaluation at this step; of a train action, of the inner loop.
                             NULL: there was none */
    bool *stop; /* true: the run, or the call of outer_loop.h, ends here, as finished, once all
                   have acted */
    int rank;   /* among processes that run together, all of which act; files are for 0 to
                   write */
} et_moment;

typedef struct et_action_class {
    const char *name; /* in checkpoints: which action comes next; of one in a run only, and not
                         "log", "validate" or "save" */
    /* The first step after `step` at which it is due; ET_ACTION_NEVER. A function of the step
     * alone, so that a resumed run acts where an unbroken one would. Train and evaluation actions
     * (outer_loop.h) are not asked: NULL. */
    int64_t (*due)(const et_action *self, int64_t step);
    /* Does its work whole or, with ET_EINTERRUPTED, not at all: then it acts again when the run
     * resumes. */
    int (*act)(et_action *self, const et_moment *now, et_error *error);
} et_action_class;

struct et_action {
    const et_action_class *ET_CLASS;
};

#endif
