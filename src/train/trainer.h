/* What <etude/trainer.h> leaves to drivers. */
#ifndef ETUDE_TRAIN_TRAINER_H
#define ETUDE_TRAIN_TRAINER_H

#include <etude/trainer.h>

/* ET_EFAIL: where it is, and where it should be. */
int et_trainer_lags(const et_trainer *trainer, int64_t before, int64_t steps, et_error *error);

/* Whether a trainer that was at `before` has advanced by so many steps: ET_EFAIL. */
static inline int et_trainer_advanced(const et_trainer *trainer, int64_t before, int64_t steps,
                                      et_error *error)
{
    return trainer->step == before + steps ? ET_OK : et_trainer_lags(trainer, before, steps, error);
}

#endif
