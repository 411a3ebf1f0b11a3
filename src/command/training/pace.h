/* Measures the duration of a training step by running a few; they change the weights. After a first
 * step, which also touches memory for the first time, steps run for three seconds, but at most a
 * hundred. The estimate for all steps is their mean: batches differ, so the mean of a few differs
 * from the mean of all.
 *
 *     trainer->class->start(trainer, &error);
 *     et_pace_measure(&pace, trainer, comm, 1000, &et_stop_requested, &error);
 */
#ifndef ETUDE_COMMAND_TRAINING_PACE_H
#define ETUDE_COMMAND_TRAINING_PACE_H

#include <signal.h>

#include <etude/trainer.h>

typedef struct et_pace {
    double seconds;   /* of a step; NaN: none was done */
    double units;     /* a second */
    const char *unit; /* NULL: the trainer has none */
} et_pace;

/* Measures at most `most` steps of a started trainer. comm: the ranks that train together; each
 * measures its own steps. NULL: this process alone. ET_EINTERRUPTED: *stop was set. */
int et_pace_measure(et_pace *pace, et_trainer *trainer, et_comm *comm, int64_t most,
                    const volatile sig_atomic_t *stop, et_error *error);

#endif
