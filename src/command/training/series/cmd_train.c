/* etude train: chooses the mode. training.c has the modes that train, following.c those that follow
 * a run, finetuning.c the mode that does both,
 * series.c trains several models as one run. */
#include "command/command.h"
#include "command/training/finetuning.h"
#include "command/training/following.h"
#include "command/training/roles.h"
#include "command/training/series/series.h"

int et_cmd_train(const et_call *call, et_error *error)
{
    et_train_args *args = call->options;
    int status = et_train_args_settle(args, call, error);
    if (status)
        return status;
    if (et_series_wanted(call, args))
        return et_series_train(call, args, error);
    switch (args->mode) {
    case ET_MODE_EVAL:
    case ET_MODE_CONTINUOUS_EVAL:
        return et_follow_run(call, args, error);
    case ET_MODE_CONTINUOUS_TRAIN_AND_EVAL:
        return et_finetune(call, args, error);
    default:
        return et_roles_train(call, args, error);
    }
}
