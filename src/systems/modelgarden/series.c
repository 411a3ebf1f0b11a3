#include "systems/modelgarden/series.h"

const et_series *et_series_of(const et_experiment *experiment)
{
    const et_series *series = experiment->kind->series;
    return series && series->wanted(experiment->name, experiment->task) ? series : NULL;
}

int et_series_check_none(const et_experiment *experiment, et_error *error)
{
    return et_series_of(experiment)
               ? et_fail(
                     error, ET_ECONFIG,
                     "%s with these settings trains several models one after another, which only "
                     "`etude train` without ranks does; name the experiment of one model "
                     "(`etude list`), and leave out folds",
                     experiment->name)
               : ET_OK;
}
