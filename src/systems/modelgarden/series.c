#include "systems/modelgarden/series.h"

const et_series *et_series_of(const et_experiment *experiment)
{
    const et_series *series = experiment->kind->series;
    return series && series->wanted(experiment->name, experiment->task) ? series : NULL;
}

int et_series_check_none(const et_experiment *experiment, const char *what, et_error *error)
{
    const et_series *class = et_series_of(experiment);
    if (!class)
        return ET_OK;
    const char *other = class->candidate(experiment->name, experiment->task, 1);
    return other ? et_fail(error, ET_ECONFIG,
                           "%s works with one model, but %s trains several: name one, for example "
                           "--experiment %s",
                           what, experiment->name, other)
                 : et_fail(error, ET_ECONFIG,
                           "%s works with one model, but these settings of %s train one for each "
                           "fold: leave --folds out",
                           what, experiment->name);
}
