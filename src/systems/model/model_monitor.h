/* Reports of a training to the program and the user: an action at the end of each epoch that merges
 * the epoch's logs, prints a row of the table that the command prints, and calls the program's
 * function; a sink that passes the logs of training to this action; an observer for the progress
 * bar. Without a run directory the action also copies the weights of the best validation. */
#ifndef ETUDE_SYSTEMS_MODEL_MODEL_MONITOR_H
#define ETUDE_SYSTEMS_MODEL_MODEL_MONITOR_H

#include <etude/action.h>
#include <etude/model.h>
#include <etude/run.h>
#include <etude/summary.h>

#include "base/arena.h"

typedef struct et_progress et_progress;

typedef struct et_model_monitor {
    et_sink sink; /* given to a run, which closes it: that does nothing */
    et_action action;
    const et_fit *fit;
    int64_t epoch_steps;   /* 0: not known, so that there is one epoch */
    int64_t base, target;  /* steps */
    et_arena arena;        /* of logs */
    et_value *logs;        /* of training, since the last line; NULL: none */
    et_progress *progress; /* NULL: quiet */
    const char *monitored; /* the value, borrowed; NULL: none */
    et_sink *table;        /* of the rows; NULL: no row yet, or quiet */
    et_arena names;        /* that the table borrows */
    et_showing showing;    /* the same */
    double began;          /* monotonic time */
    et_model *keeps;       /* whose best weights are copied; NULL: none are */
    float *best;           /* [elements] a copy, parameter after parameter; owned; NULL: none yet */
    int64_t best_step;     /* of the best validation; -1: there was none */
} et_model_monitor;

int et_model_monitor_open(et_model_monitor *w, const et_fit *fit, et_error *error);
void et_model_monitor_close(et_model_monitor *w);

/* Writes the copy to the model's weights. */
void et_model_monitor_restore(const et_model_monitor *w);

et_observer et_model_monitor_observer(et_model_monitor *w);

#endif
