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

/* In the step of a class that evaluates one set after another: this one was the last of its set,
 * named so, and another follows. had_batch: else the set had ended before it, which is told where a
 * limit asked for more. */
void et_evaluator_next_set(et_evaluator *evaluator, const char *set, bool had_batch);

/* Tells that data ended before the limit: whoever compares results of so many steps is to know.
 * set: their name; NULL: there is one. */
void et_evaluator_tell_end(const et_evaluator *evaluator, const char *set);

#endif
