/* etude evaluate of a table: the general command, and for classes the confusion matrix, a line for
 * each class and charts. A threshold or costs choose the predictions that are scored.
 *
 *   evaluation -> rows of each set, as they were scored -> class_tables -> text, JSON, pictures */

#include "base/alloc.h"
#include "base/arena.h"
#include "base/values/value.h"
#include "command/command.h"
#include "command/options/options.h"
#include "command/print.h"
#include "command/tabular/decision.h"
#include "command/tabular/table_scores.h"
#include "command/tabular/tabular_commands.h"
#include "tasks/tabular/tabular_kind.h"

typedef struct evaluate_options {
    et_evaluate_args general;
    et_decision_args decision;
    bool charts;
    const char *roc, *calibration;
} evaluate_options;

static const et_option options[] = {
    ET_OPTION_GROUP(evaluate_options, general, et_evaluate_options),
    ET_OPTION_GROUP(evaluate_options, decision, et_decision_options),
    ET_OPTION_FLAG(evaluate_options, charts, "charts", "also draw ROC and calibration"),
    ET_OPTION_TEXT(evaluate_options, roc, "roc", "FILE", "picture of ROC, FILE.svg or FILE.png"),
    ET_OPTION_TEXT(evaluate_options, calibration, "calibration", "FILE",
                   "picture of the calibration, FILE.svg or FILE.png"),
    ET_OPTION_END,
};

const et_usage et_usage_evaluate_table = {
    options, sizeof(evaluate_options),
    "Evaluates a trained model on tables, or on its validation data. For classes, also\n"
    "prints the confusion matrix and a line for each class.",
    "runs/adult new.csv --threshold 0.3"
};

typedef struct evaluating {
    const evaluate_options *args;
    et_decision decision;
    et_table_scores scores;
} evaluating;

/* ---- hooks ---- */

static int prepare(void *payload, et_evaluation *evaluation, et_error *error)
{
    evaluating *e = payload;
    const evaluate_options *args = e->args;
    const et_tabular_task *task = et_table_task_of(evaluation);
    const et_encoded_field *target = task->target.field;
    const et_decision_classes classes = { target->column[0], target->label,
                                          (int)task->target.classes, task->target.labels != 0 };
    int status = et_decision_open(&e->decision, &args->decision, &classes, error);
    if (status)
        return status;
    if (!classes.count && (args->charts || args->roc || args->calibration))
        return et_fail(error, ET_EUSAGE,
                       "the target %s is %s: --charts, --roc and --calibration are for the classes "
                       "of one target",
                       classes.target, task->target.labels ? "one of several" : "a number");
    et_table_scores_attach(&e->scores, evaluation, e->decision.how.threshold,
                           e->decision.how.costs);
    return ET_OK;
}

static int check_pictures(void *payload, et_outputs *outputs, et_error *error)
{
    const evaluate_options *args = ((const evaluating *)payload)->args;
    int status = et_outputs_check(outputs, "--roc", args->roc, error);
    return status ? status : et_outputs_check(outputs, "--calibration", args->calibration, error);
}

/* ---- results ---- */

static int draw(const evaluating *e, bool roc, const char *path, et_error *error)
{
    et_class_chart chart;
    int status = et_class_chart_open(&chart, roc, e->scores.set, e->scores.sets, error);
    if (!status && path)
        status = et_chart_write(path, &chart.chart, 0, 0, error);
    else if (!status) {
        et_print(stdout, "\n");
        status = et_chart_print(&chart.chart, 0, 0, error);
    }
    et_class_chart_release(&chart);
    return status;
}

static int draw_pictures(const evaluating *e, et_error *error)
{
    const evaluate_options *args = e->args;
    int status = args->roc ? draw(e, true, args->roc, error) : ET_OK;
    return status || !args->calibration ? status : draw(e, false, args->calibration, error);
}

/* Of several targets, scores have the names. NULL: several. */
static const char *single_target(const et_evaluation *evaluation)
{
    const et_encoded_field *target = et_table_task_of(evaluation)->target.field;
    return target->width > 1 ? NULL : target->column[0];
}

static int print_tables(const evaluating *e, et_error *error)
{
    et_strbuf out = ET_STRBUF_INIT;
    int status = ET_OK;
    /* "positive class     yes" */
    const et_class_predictions *of = &e->scores.set[0].of;
    if (of->classes == 2)
        et_print(stdout, "%-19s %s\n", "positive class", e->scores.set[0].labels[!of->first]);
    if (of->threshold > 0)
        et_print(stdout, "%-19s %g\n", "threshold", of->threshold);
    for (size_t i = 0; of->costs && i < e->scores.sets; i++)
        et_print(stdout, "%-19s %.6g%s%s\n", "cost per row", e->scores.set[i].cost,
                 e->scores.set[i].name ? " of " : "",
                 e->scores.set[i].name ? e->scores.set[i].name : "");
    for (size_t i = 0; i < e->scores.sets && !status; i++)
        status = et_class_tables_append(&e->scores.set[i], ET_GRID_TEXT, &out, error);
    if (!status)
        et_print_text(stdout, et_strbuf_text(&out));
    et_strbuf_release(&out);
    if (!status && e->args->charts)
        status = draw(e, true, NULL, error);
    if (!status && e->args->charts)
        status = draw(e, false, NULL, error);
    return status;
}

static int print_text(const evaluating *e, const et_evaluation *evaluation, const et_value *logs,
                      et_error *error)
{
    int status = et_evaluation_print(evaluation, logs, error);
    if (!status && single_target(evaluation) && !et_comm_rank(evaluation->comm))
        et_print(stdout, "%-19s %s\n", "target", single_target(evaluation));
    if (!status && e->scores.sets && !et_comm_rank(evaluation->comm))
        status = print_tables(e, error);
    return status || !fflush(stdout) ? status : et_fail_errno(error, "standard output");
}

static int print_json(const evaluating *e, const et_evaluation *evaluation, const et_value *logs,
                      et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *more = et_value_dict(&arena);
    et_value *sets =
        more && e->scores.sets && e->scores.set[0].name ? et_value_set_dict(more, "sets") : NULL;
    int status = more ? ET_OK : et_alloc_failed(error, 0, "results");
    if (!status && single_target(evaluation))
        et_value_set_string(more, "target", single_target(evaluation));
    if (!status && e->scores.sets && e->scores.set[0].of.classes == 2)
        et_value_set_string(more, "positive", e->scores.set[0].labels[!e->scores.set[0].of.first]);
    for (size_t i = 0; i < e->scores.sets && !status; i++)
        status = et_class_tables_add(
            &e->scores.set[i], sets ? et_value_set_dict(sets, e->scores.set[i].name) : more, error);
    if (!status)
        status = et_evaluation_print_json(evaluation, logs, more, error);
    et_arena_release(&arena);
    return status;
}

static int print(void *payload, const et_evaluation *evaluation, const et_value *logs, bool json,
                 et_error *error)
{
    const evaluating *e = payload;
    int status =
        json ? print_json(e, evaluation, logs, error) : print_text(e, evaluation, logs, error);
    return status || et_comm_rank(evaluation->comm) ? status : draw_pictures(e, error);
}

/* ---- the whole ---- */

static int check(const evaluate_options *args, et_error *error)
{
    if (args->charts && args->general.json)
        return et_fail(error, ET_EUSAGE,
                       "--charts: not possible with --json; write pictures with --roc and "
                       "--calibration");
    int status = args->roc ? et_chart_check_picture("--roc", args->roc, error) : ET_OK;
    return status || !args->calibration
               ? status
               : et_chart_check_picture("--calibration", args->calibration, error);
}

int et_cmd_evaluate_table(const et_call *call, et_error *error)
{
    evaluating e = { .args = call->options };
    const et_evaluate_more more = { &e, prepare, et_table_scores_run, print, check_pictures };
    int status = check(e.args, error);
    if (!status)
        status = et_evaluate_own_data(call, &e.args->general, &more, error);
    et_table_scores_release(&e.scores);
    et_decision_release(&e.decision);
    return status;
}
