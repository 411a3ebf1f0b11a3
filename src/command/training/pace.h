/* How long a step of a training takes: a few are done with the weights that are there, which are
 * other ones afterwards. Steps count for three seconds, or until a hundred of them are over, after
 * a first one, which also pays for memory that is touched for the first time. Their mean is what
 * all are taken to last: batches differ, and so do a few of them from the mean of all.
 *
 *     trainer->class->start(trainer, &error);
 *     et_pace_measure(&pace, trainer, comm, 1000, &et_stop_requested, &error); */
#ifndef ETUDE_COMMAND_TRAINING_PACE_H
#define ETUDE_COMMAND_TRAINING_PACE_H

#include <signal.h>

#include <etude/trainer.h>

typedef struct et_pace {
    double seconds;   /* of a step; NaN: none was done */
    double units;     /* a second */
    const char *unit; /* NULL: the trainer has none */
} et_pace;

/* Of at most `most` steps of a trainer that was started. comm: the ranks that train together, each
 * of which measures its own steps; NULL: this process alone. ET_EINTERRUPTED: *stop was set. */
int et_pace_measure(et_pace *pace, et_trainer *trainer, et_comm *comm, int64_t most,
                    const volatile sig_atomic_t *stop, et_error *error);

#endif
