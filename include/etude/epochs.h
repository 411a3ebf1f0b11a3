/* Epochs with a fixed number of steps, for trainers that act at their ends (Orbit's EpochHelper):
 *
 *     et_epochs epochs = { .epoch_steps = 500, .step = &self->step };
 *     if (et_epochs_begin(&epochs)) ...
 *     if (et_epochs_end(&epochs, &ended, &error)) ...
 *     printf("epoch %d: step %d\n", (int)et_epochs_current(&epochs),
 *            (int)et_epochs_batch_index(&epochs));
 *
 * If you add it to the state tree (et_epochs_part), a run that resumes within an epoch continues
 * this epoch with the same batch index. A plain value that the caller owns. */
#ifndef ETUDE_EPOCHS_H
#define ETUDE_EPOCHS_H

#include <stdbool.h>
#include <stdint.h>

#include <etude/error.h>
#include <etude/state.h>

typedef struct et_epochs {
    int64_t epoch_steps;  /* at least 1 */
    const int64_t *step;  /* the global step; borrowed */
    bool inside;          /* true between the begin and the end of an epoch */
    int64_t epoch, first; /* number of the current epoch, from 0; its first step */
} et_epochs;

/* Begins an epoch if none has begun, and returns whether it did. */
ET_API bool et_epochs_begin(et_epochs *self);

/* Ends the epoch if its steps are done, and sets *ended to whether it did. ET_EUSAGE: no epoch has
 * begun. ET_ECONFIG: epoch_steps is below 1 (then no epoch begins). */
ET_API int et_epochs_end(et_epochs *self, bool *ended, et_error *error);

/* Steps since the epoch began. The number of the epoch; it stays the same after the epoch has
 * ended. */
ET_API int64_t et_epochs_batch_index(const et_epochs *self);
ET_API int64_t et_epochs_current(const et_epochs *self);

/* The class for et_state_add. */
ET_DATA const et_part_class et_epochs_part;

#endif
