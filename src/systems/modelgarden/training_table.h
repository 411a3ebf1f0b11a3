/* The table of a training: a row for people at each validation, or each epoch if the run is not
 * validated meanwhile. The table is a sink (formats/events/sink.h) that prints above the progress
 * bar, and thus also to train.log. Or the caller prints, with a row for each evaluated checkpoint
 * of a run.
 *
 *   table        * = new lowest log_loss; all values: runs/a/metrics.jsonl
 *     step  epoch      loss  log_loss   accuracy      time
 *      460     10    0.2445    0.1953     0.9089      0:04  *
 *    1,840     40    0.2237    0.1942     0.9067      0:16
 *
 * The loss is the training loss in the log of this step, otherwise in the bar. The first row
 * chooses the columns: metrics of its validation, as many as fit. A narrow terminal also drops the
 * epoch. Nothing is saved; a resumed run prints a new head. */
#ifndef ETUDE_SYSTEMS_MODELGARDEN_TRAINING_TABLE_H
#define ETUDE_SYSTEMS_MODELGARDEN_TRAINING_TABLE_H

#include <etude/run.h>

#include "systems/modelgarden/trainable.h"

struct et_progress;

typedef struct et_training_table_options {
    /* Texts are borrowed. NULL: no training; rows are results, which go to standard output and have
     * no columns of loss, epoch and time. */
    struct et_progress *progress;
    void (*print)(
        const char *line);   /* without progress: prints a row, which goes to standard output */
    const char *log;         /* the file with all values; NULL: none */
    const char *best;        /* the metric that chooses the marked best row; NULL: none */
    bool lowest;             /* of which lower values are better */
    et_main_metrics metrics; /* by name as in a validation, the most telling first */
    int most;                /* columns of metrics at most */
    bool epochs;             /* a row also at the first log of each epoch and at the end */
    bool validated;          /* a validation ends the run: its row is the last */
    int64_t steps;           /* in all */
    double began;            /* monotonic time that the column of times counts from */
    const et_showing *now;   /* the values of the bar, updated by the caller; NULL: no bar */
} et_training_table_options;

/* Options are copied. */
int et_training_table_open(et_sink **out, const et_training_table_options *options,
                           et_error *error);

#endif
