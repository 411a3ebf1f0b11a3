#include "command/tabular/table_scores.h"

#include "base/assert.h"
#include "systems/modelgarden/series.h"
#include "tasks/tabular/folds/out_of_fold.h"

et_tabular_task *et_table_task_of(const et_evaluation *evaluation)
{
    return (et_tabular_task *)(void *)evaluation->task;
}

static int keep_rows(void *payload, const et_tabular_task *task, et_error *error)
{
    et_table_scores *scores = payload;
    const et_class_predictions rows = et_tabular_predictions_of(task, &task->seen);
    const et_encoded_field *target =
        et_encoder_field(task->encoder, et_encoder_target(task->encoder));
    const et_structs *sets = &task->options.validation_data.sets;
    const et_tabular_set *set = sets->items;
    et_assert(scores->sets < ET_TABULAR_SETS_MAX);
    return et_class_tables_open(&scores->set[scores->sets++], &rows, target->label,
                                sets->count ? set[task->seen.set].name : NULL, error);
}

void et_table_scores_attach(et_table_scores *scores, const et_evaluation *evaluation,
                            double threshold, const double *costs)
{
    et_tabular_task *task = et_table_task_of(evaluation);
    if (task->target.classes)
        task->scoring = (et_tabular_scoring){ threshold, costs, keep_rows, scores };
}

int et_table_scores_run(et_evaluation *evaluation, et_value *logs, et_error *error)
{
    et_tabular_task *task = et_table_task_of(evaluation);
    if (!et_tabular_has_out_of_fold(task))
        return et_evaluation_run(evaluation, logs, error);
    if (evaluation->tell)
        evaluation->tell(
            evaluation->listener,
            "validation   each row by the models that did not learn it (" ET_SERIES_FOLDS ")");
    return et_tabular_score_out_of_fold(task, logs, error);
}

void et_table_scores_release(et_table_scores *scores)
{
    while (scores->sets)
        et_class_tables_release(&scores->set[--scores->sets]);
}
