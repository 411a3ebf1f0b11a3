/* Epochs of a number of steps, for trainers that act at their ends (Orbit's EpochHelper):
 *
 *     et_epochs epochs = { .epoch_steps = 500, .step = &self->step };
 *     if (et_epochs_begin(&epochs)) ...
 *     if (et_epochs_end(&epochs, &ended, &error)) ...
 *     printf("epoch %d: step %d\n", (int)et_epochs_current(&epochs),
 *            (int)et_epochs_batch_index(&epochs));
 *
 * On the state tree (et_epochs_part) a run that resumes within an epoch is in it, with the batch
 * index that it had. A value of the caller's. */
#ifndef ETUDE_EPOCHS_H
#define ETUDE_EPOCHS_H

#include <stdbool.h>
#include <stdint.h>

#include <etude/error.h>
#include <etude/state.h>

typedef struct et_epochs {
    int64_t epoch_steps;  /* at least 1 */
    const int64_t *step;  /* the global step; borrowed */
    bool inside;          /* an epoch has begun and not ended */
    int64_t epoch, first; /* the one that is under way, from 0; its first step */
} et_epochs;

/* Whether an epoch begins now: none was under way. */
ET_API bool et_epochs_begin(et_epochs *self);

/* *ended: whether the epoch that is under way ends now. ET_EUSAGE: none is. ET_ECONFIG:
 * epoch_steps is below 1, with which none begins. */
ET_API int et_epochs_end(et_epochs *self, bool *ended, et_error *error);

/* Steps since the epoch began; its number, which is kept when it has ended. */
ET_API int64_t et_epochs_batch_index(const et_epochs *self);
ET_API int64_t et_epochs_current(const et_epochs *self);

/* For et_state_add. */
ET_DATA const et_part_class et_epochs_part;

#endif
