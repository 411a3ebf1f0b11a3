/* The begin of an inner loop of the task trainer, and the logs at its end. */
#include "base/alloc.h"
#include "engine/optim/optimizer.h"
#include "formats/events/log_names.h"
#include "metric/metric.h"
#include "systems/modelgarden/task_trainer_private.h"

int et_task_trainer_check_idle(const et_task_trainer *t, et_error *error)
{
    return t->validation.begun
               ? et_fail(error, ET_EUSAGE,
                         "an evaluation of %s is still running: call eval_end first",
                         et_task_name(t->task))
               : ET_OK;
}

void et_task_trainer_reset(et_task_trainer *t)
{
    et_metrics_reset(t->metrics.window);
    et_metrics_reset(t->metrics.own);
}

int et_task_trainer_train_loop_begin(et_task_trainer *t, et_error *error)
{
    bool *inside = &t->in_given[ET_GIVEN_TRAIN_LOOP_BEGIN];
    if (*inside)
        return ET_OK;
    *inside = true;
    int status =
        t->given.train_loop_begin ? t->given.train_loop_begin(t->given.self, t, error) : ET_OK;
    *inside = false;
    t->in_loop = !status;
    return status;
}

int et_task_trainer_begin_loop(et_task_trainer *t, et_error *error)
{
    return t->in_loop ? ET_OK : et_task_trainer_train_loop_begin(t, error);
}

double et_task_trainer_learning_rate(const et_task_trainer *t)
{
    bool known = t->stepped && (t->step.updated || !t->logs);
    return known ? t->step.update.learning_rate : et_optimizer_learning_rate(t->optimizer);
}

int et_task_trainer_fill_logs(et_task_trainer *t, et_value *logs, et_error *error)
{
    int status = et_metrics_results(t->metrics.window, logs, error);
    if (!status)
        status = et_metrics_results(t->metrics.own, logs, error);
    if (!status &&
        !et_value_set_float(logs, ET_LOGGED_LEARNING_RATE, et_task_trainer_learning_rate(t)))
        status = et_alloc_failed(error, 0, "a log");
    return status;
}
