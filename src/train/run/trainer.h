/* Trainers, for drivers, beyond <etude/trainer.h>. */
#ifndef ETUDE_TRAIN_RUN_TRAINER_H
#define ETUDE_TRAIN_RUN_TRAINER_H

#include <etude/trainer.h>

/* ET_EFAIL: where it is, and where it should be. Its count is what it was before. */
int et_trainer_lags(et_trainer *trainer, int64_t before, int64_t steps, et_error *error);

/* Whether a trainer that was at `before` has advanced by so many steps: ET_EFAIL. */
static inline int et_trainer_advanced(et_trainer *trainer, int64_t before, int64_t steps,
                                      et_error *error)
{
    return trainer->step == before + steps ? ET_OK : et_trainer_lags(trainer, before, steps, error);
}

/* One step, counted. */
static inline int et_trainer_step(et_trainer *trainer, et_error *error)
{
    int status = trainer->class->step(trainer, error);
    trainer->step += !status;
    return status;
}

/* et_trainer_train, but that whoever calls looks at how far it has come. logs: a dict. */
int et_trainer_run(et_trainer *trainer, int64_t num_steps, et_value *logs, et_error *error);

/* Begins as et_evaluate does. limit: of steps; 0: none. */
int et_evaluator_begin(et_evaluator *evaluator, int64_t step, int64_t limit, et_error *error);

/* A step as et_evaluate makes it: counted; *more becomes false with the last one too. Data that end
 * before the limit are told, as those of a set; NULL: there is one. */
int et_evaluator_step(et_evaluator *evaluator, const char *set, bool *more, et_error *error);

/* Tells that data ended after so many steps, before the limit: whoever compares results of as many
 * is to know. */
void et_evaluator_tell_end(const et_evaluator *evaluator, const char *set, int64_t done);

#endif
