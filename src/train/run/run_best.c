/* The best step of a run: the validation it is from, the metric, and whether it is on the disk. */
#include <string.h>

#include "base/text/format.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/run_names.h"
#include "train/run/run_private.h"

bool et_run_has_own_criterion(const et_run *run)
{
    const char *own = run->options.best_metric, *metric = run->best.metric;
    return own && metric && !strcmp(own, metric) &&
           run->best.lower == (run->options.best_comparison == ET_COMPARE_LOWER);
}

static bool is_of_own_data(const et_run *run)
{
    uint64_t own = run->options.best_data, data = run->best.data;
    return !own || !data || own == data;
}

bool et_run_has_own_best(const et_run *run)
{
    return et_run_has_own_criterion(run) && is_of_own_data(run);
}

int et_run_check_best(const et_run *run, et_error *error)
{
    const et_run_best *best = &run->best;
    const et_error *failure = &run->saves.best_failure;
    if (!run->checkpoints || run->options.best_unsaved || !et_run_has_own_best(run))
        return ET_OK;
    if (best->lost)
        return et_fail(error, failure->status ? failure->status : ET_EIO,
                       "cannot save the best checkpoint, step %s (%s %s)%s%s; %s/%s has an older "
                       "one: use the newest checkpoint, or train again from an earlier one",
                       et_format_count(best->lost_step).text, best->metric,
                       et_format_value(best->lost_value).text, failure->status ? ": " : "",
                       failure->text, run->options.model_dir, ET_CHECKPOINT_BEST);
    if (run->saves.best_saved != best->step ||
        et_checkpoints_has_best(run->checkpoints, best->step))
        return ET_OK;
    return et_fail(error, ET_ENOTFOUND,
                   "%s/%s: the best checkpoint, step %s, was saved here, but is missing",
                   run->options.model_dir, ET_CHECKPOINT_BEST, et_format_count(best->step).text);
}
