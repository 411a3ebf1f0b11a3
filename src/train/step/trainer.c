#include "train/step/trainer.h"

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "engine/comm/comm.h"

int et_trainer_run(et_trainer *trainer, int64_t num_steps, et_value *logs, et_error *error)
{
    const et_trainer_class *class = trainer->class;
    if (class->train)
        return class->train(trainer, num_steps, logs, error);
    /* The inner loop of a trainer that has none of its own. */
    int status = class->loop_begin ? class->loop_begin(trainer, error) : ET_OK;
    for (int64_t i = 0; !status && i < num_steps; i++) {
        const int64_t before = trainer->step;
        status = et_trainer_step(trainer, error);
        if (!status)
            status = et_trainer_advanced(trainer, before, 1, error);
    }
    return !status && class->loop_end ? class->loop_end(trainer, logs, error) : status;
}

int et_trainer_train(et_trainer *trainer, int64_t num_steps, et_value *logs, et_error *error)
{
    const int64_t before = trainer->step;
    et_arena arena = ET_ARENA_INIT;
    if (num_steps < 0)
        return et_fail(error, ET_ECONFIG, "%lld steps; give at least 0", (long long)num_steps);
    if (!logs && !(logs = et_value_dict(&arena)))
        return et_alloc_failed(error, "logs");
    int status = et_trainer_run(trainer, num_steps, logs, error);
    et_arena_release(&arena);
    return status ? status : et_trainer_advanced(trainer, before, num_steps, error);
}

int et_trainer_lags(et_trainer *trainer, int64_t before, int64_t steps, et_error *error)
{
    const int64_t found = trainer->step;
    trainer->step = before;
    return et_fail(error, ET_EFAIL,
                   "%s was called to advance from step %lld to %lld, but is at %lld: a trainer "
                   "must advance exactly as far",
                   trainer->class->name, (long long)before, (long long)(before + steps),
                   (long long)found);
}

bool et_trainer_records(const et_trainer *trainer)
{
    return trainer->summary_interval && (trainer->step + 1) % trainer->summary_interval == 0;
}

void et_evaluator_tell_end(const et_evaluator *evaluator, const char *set, int64_t done)
{
    et_log(ET_LOG_WARNING, "%s%s%s: the data ended after %lld of %lld steps",
           evaluator->class->name, set ? " of " : "", set ? set : "", (long long)done,
           (long long)evaluator->limit);
}

int et_evaluator_begin(et_evaluator *evaluator, int64_t step, int64_t limit, et_error *error)
{
    evaluator->limit = limit;
    evaluator->done = 0;
    evaluator->counts = false;
    return evaluator->class->begin ? evaluator->class->begin(evaluator, step, error) : ET_OK;
}

int et_evaluator_step(et_evaluator *evaluator, const char *set, bool *more, et_error *error)
{
    int status = evaluator->class->step(evaluator, more, error);
    if (status || evaluator->counts)
        return status;
    evaluator->done += *more;
    if (evaluator->limit && !*more)
        et_evaluator_tell_end(evaluator, set, evaluator->done);
    *more = *more && (!evaluator->limit || evaluator->done < evaluator->limit);
    return ET_OK;
}

int et_evaluation_end(et_comm *comm, int status, et_evaluation_end_fn *end, void *self,
                      et_value *logs, et_error *error)
{
    status = et_comm_agree(comm, status, NULL, error);
    int ended = end(self, status ? NULL : logs, status ? NULL : error);
    return et_comm_agree(comm, status ? status : ended, NULL, error);
}

static int end(void *self, et_value *logs, et_error *error)
{
    et_evaluator *evaluator = self;
    return evaluator->class->end ? evaluator->class->end(evaluator, logs, error) : ET_OK;
}

int et_evaluate(et_evaluator *evaluator, int64_t step, int64_t limit, bool (*stops)(void *payload),
                void *payload, et_value *logs, et_error *error)
{
    const et_evaluator_class *class = evaluator->class;
    bool more = true;
    if (limit < -1)
        return et_fail(error, ET_ECONFIG, "%s: %lld steps of evaluation; give -1 for all data",
                       class->name, (long long)limit);
    int status = et_evaluator_begin(evaluator, step, limit < 0 ? 0 : limit, error);
    while (!status && more)
        status = stops && stops(payload)
                     ? et_fail(error, ET_EINTERRUPTED, "%s was interrupted", class->name)
                     : et_evaluator_step(evaluator, NULL, &more, error);
    return et_evaluation_end(evaluator->comm, status, end, evaluator, logs, error);
}
