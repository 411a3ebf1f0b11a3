#include "command/tabular/table_scores.h"

#include <etude/comm.h>
#include <etude/log.h>

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/vector.h"
#include "systems/modelgarden/series.h"
#include "tasks/tabular/ensemble/ensemble.h"
#include "tasks/tabular/setup/setup.h"
#include "tasks/tabular/target/target.h"

et_tabular_task *et_table_task_of(const et_evaluation *evaluation)
{
    return (et_tabular_task *)(void *)evaluation->task;
}

static const char *set_of(const et_tabular_task *task)
{
    const et_structs *sets = &task->options.validation_data.sets;
    const et_tabular_set *set = sets->items;
    return sets->count ? set[task->results.set].name : NULL;
}

/* The quantile that is shown for a number: the median, else the middle one. */
static int64_t shown_level(const et_tabular_target *target, bool *median)
{
    int64_t nearest = 0;
    for (int i = 1; i < target->quantiles; i++)
        if (fabs(target->level[i] - 0.5) < fabs(target->level[nearest] - 0.5))
            nearest = i;
    *median = target->quantiles > 0;
    return nearest;
}

static int keep_target(et_table_scores *scores, const et_tabular_task *task, int64_t target,
                       et_error *error)
{
    const et_validation_rows *s = &task->results;
    et_number_rows *grown = et_vector_grow(scores->numbers, &scores->number_capacity,
                                           scores->number_count + 1, sizeof *grown, 8);
    if (!grown)
        return et_alloc_failed(error, sizeof *grown, "rows");
    scores->numbers = grown;
    et_number_rows *rows = &grown[scores->number_count++];
    *rows = (et_number_rows){ .set = set_of(task),
                              .target = et_scored_targets_of(task).column[target] };
    const int64_t column =
        task->target.quantiles ? shown_level(&task->target, &rows->median) : target;
    for (int64_t i = 0; i < s->rows; i++)
        rows->all += s->weight[i] > 0;
    const size_t most = rows->all < ET_NUMBER_ROWS_MAX ? rows->all : ET_NUMBER_ROWS_MAX;
    rows->truth = et_alloc(most + 1, sizeof *rows->truth);
    rows->predicted = et_alloc(most + 1, sizeof *rows->predicted);
    if (!rows->truth || !rows->predicted)
        return et_alloc_failed(error, most * sizeof *rows->truth, "rows");
    size_t at = 0;
    for (int64_t i = 0; i < s->rows; i++) {
        if (!(s->weight[i] > 0) || at++ * most / rows->all < rows->count)
            continue;
        rows->truth[rows->count] = s->written[i * s->targets + target];
        rows->predicted[rows->count++] = s->value[i * s->width + column];
    }
    return ET_OK;
}

static int keep_numbers(void *payload, const et_tabular_task *task, et_error *error)
{
    int status = ET_OK;
    for (int64_t i = 0; i < task->results.targets && !status; i++)
        status = keep_target(payload, task, i, error);
    return status;
}

static int keep_rows(void *payload, const et_tabular_task *task, et_error *error)
{
    et_table_scores *scores = payload;
    const et_class_predictions rows = et_tabular_predictions_of(task, &task->results);
    const et_encoded_field *target =
        et_encoder_field(task->encoder, et_encoder_target(task->encoder));
    et_assert(scores->sets < ET_TABULAR_SETS_MAX);
    return et_class_tables_open(&scores->set[scores->sets++], &rows, target->label, set_of(task),
                                error);
}

void et_table_scores_attach(et_table_scores *scores, const et_evaluation *evaluation,
                            double threshold, const double *costs)
{
    et_tabular_task *task = et_table_task_of(evaluation);
    if (task->options.class_weights.count && !et_comm_rank(evaluation->comm))
        et_log(ET_LOG_WARNING,
               "the model was trained with class weights, so its probabilities are too high "
               "for classes with a large weight: log_loss, brier and calibration_error are worse");
    if (task->target.classes)
        task->scoring = (et_tabular_scoring){ threshold, costs, keep_rows, scores };
    else if (scores->keeps_numbers && task->target.values)
        task->scoring = (et_tabular_scoring){ 0, NULL, keep_numbers, scores };
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
    for (size_t i = 0; i < scores->number_count; i++) {
        et_free(scores->numbers[i].truth);
        et_free(scores->numbers[i].predicted);
    }
    et_free(scores->numbers);
    scores->numbers = NULL;
    scores->number_count = 0;
}
