/* Trainers, for drivers, beyond <etude/trainer.h>. */
#ifndef ETUDE_TRAIN_STEP_TRAINER_H
#define ETUDE_TRAIN_STEP_TRAINER_H

#include <etude/trainer.h>

/* ET_EFAIL: the step counter is not where it should be; the error has both values. Resets the
 * counter to `before`. */
int et_trainer_lags(et_trainer *trainer, int64_t before, int64_t steps, et_error *error);

/* Checks that a trainer that was at `before` has advanced by `steps`. ET_EFAIL: it has not. */
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

/* et_trainer_train without the check of the step counter; the caller checks it. logs: a dict. */
int et_trainer_run(et_trainer *trainer, int64_t num_steps, et_value *logs, et_error *error);

/* Begins like et_evaluate. limit: most steps; 0: no limit. */
int et_evaluator_begin(et_evaluator *evaluator, int64_t step, int64_t limit, et_error *error);

/* A counted step, as in et_evaluate; *more is already false after the last one. If data end before
 * the limit, a warning says so. set: name for the warning; NULL: there is only one set. */
int et_evaluator_step(et_evaluator *evaluator, const char *set, bool *more, et_error *error);

/* The end of an evaluation by all ranks; status: of its steps. `end` is called also after a
 * failure, with logs and error NULL, because it undoes what begin has set up. One status for all
 * ranks. */
typedef int et_evaluation_end_fn(void *self, et_value *logs, et_error *error);
int et_evaluation_end(et_comm *comm, int status, et_evaluation_end_fn *end, void *self,
                      et_value *logs, et_error *error);

/* Warns that data ended after `done` steps, before the limit, because results of equal numbers of
 * steps may be compared. */
void et_evaluator_tell_end(const et_evaluator *evaluator, const char *set, int64_t done);

#endif
