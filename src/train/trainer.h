/* What <etude/trainer.h> leaves to drivers. */
#ifndef ETUDE_TRAIN_TRAINER_H
#define ETUDE_TRAIN_TRAINER_H

#include <etude/trainer.h>

/* Whether a trainer that was at `before` has advanced by so many steps: ET_EFAIL. */
int et_trainer_advanced(const et_trainer *trainer, int64_t before, int64_t steps, et_error *error);

#endif
