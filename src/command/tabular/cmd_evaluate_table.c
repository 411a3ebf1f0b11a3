/* etude evaluate of a table: the general command, and for classes the confusion matrix, a line for
 * each class and charts. A threshold or costs choose the predictions that are scored.
 *
 *   evaluation -> rows of each set, as they were scored -> class_tables -> text, JSON, pictures */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etude/comm.h>
#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/sort.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "base/values/value.h"
#include "base/vector.h"
#include "command/options/options.h"
#include "command/print.h"
#include "command/tabular/decision.h"
#include "command/tabular/table_scores.h"
#include "command/tabular/tabular_commands.h"
#include "systems/modelgarden/series.h"
#include "tasks/tabular/ensemble/ensemble.h"
#include "tasks/tabular/setup/setup.h"
#include "tasks/tabular/target/target.h"

/* Most classes whose matrix is printed. For more classes: most confusions, lines and curves
 * shown. */
#define MATRIX_MAX    12
#define CONFUSION_MAX 20
#define LINES_MAX     50
#define CURVES_MAX    10

#define NOTE 100 /* bytes of a line below a table */

/* ---- tables of classes ---- */

static void *copy(et_arena *arena, const void *from, size_t count, size_t size)
{
    void *to = et_arena_array(arena, count, size);
    if (to)
        memcpy(to, from, count * size);
    return to;
}

/* predictions are copied but for costs, which are borrowed. ET_EDATA: as
 * et_class_scores_compute. */
static int class_tables_open(et_class_tables *t, const et_class_predictions *predictions,
                             const char *const *labels, const char *name, et_arena *arena,
                             et_error *error)
{
    et_assert(labels && predictions->classes > 0 && predictions->count >= 0);
    et_class_scores scores;
    *t = (et_class_tables){ .name = name, .labels = labels };
    const size_t rows = (size_t)predictions->count, classes = (size_t)predictions->classes;
    t->of = *predictions;
    t->of.probability = copy(arena, t->of.probability, rows * classes, sizeof *t->of.probability);
    t->of.target = copy(arena, t->of.target, rows, sizeof *t->of.target);
    if (t->of.weight)
        t->of.weight = copy(arena, t->of.weight, rows, sizeof *t->of.weight);
    t->confusion = et_arena_array(arena, classes * classes, sizeof *t->confusion);
    t->lines = et_arena_array(arena, classes, sizeof *t->lines);
    int status = arena->failed ? et_alloc_failed(error, "tables") : ET_OK;
    if (!status)
        status = et_class_scores_compute(&scores, t->confusion, &t->of, error);
    if (status)
        return status;
    et_class_lines(t->lines, t->confusion, t->of.classes);
    const int64_t cells = t->of.classes * t->of.classes;
    double cost = 0, weight = 0;
    for (int64_t i = 0; t->of.costs && i < cells; i++) {
        cost += t->confusion[i] * t->of.costs[i];
        weight += t->confusion[i];
    }
    t->cost = t->of.costs ? cost / weight : NAN;
    return ET_OK;
}

/* ---- the confusion matrix ---- */

static void append_heading(const et_class_tables *t, const char *text, et_grid_form form,
                           et_strbuf *out)
{
    const bool html = form == ET_GRID_HTML;
    et_strbuf_printf(out, "%s%s%s", html ? "<h3>" : "\n", text, t->name ? " of " : "");
    if (t->name && html)
        et_markup_append(out, t->name);
    else if (t->name)
        et_strbuf_append(out, t->name);
    et_strbuf_append(out, html ? "</h3>\n" : ":\n");
}

static void append_note(const char *text, et_grid_form form, et_strbuf *out)
{
    const bool html = form == ET_GRID_HTML;
    et_strbuf_printf(out, "%s%s%s\n", html ? "<p>" : "(", text, html ? "</p>" : ")");
}

static void append_matrix(const et_class_tables *t, et_grid_form form, et_strbuf *out)
{
    const int64_t classes = t->of.classes;
    et_grid grid = { .columns = (size_t)classes + 1, .left = 1, .most = ET_GRID_CELL_MAX };
    append_heading(t, "confusion matrix (rows: class, columns: prediction)", form, out);
    et_grid_add(&grid, "");
    for (int64_t c = 0; c < classes; c++)
        et_grid_add(&grid, t->labels[c]);
    for (int64_t target = 0; target < classes; target++) {
        et_grid_add(&grid, t->labels[target]);
        for (int64_t c = 0; c < classes; c++)
            et_grid_addf(&grid, "%.6g", t->confusion[target * classes + c]);
    }
    et_grid_append(&grid, form, out);
    et_grid_release(&grid);
}

typedef struct mistake {
    double weight;
    int64_t cell;
} mistake;

ET_SORT_BY(by_weight, mistake, ET_DOWN(weight), ET_UP(cell))

/* For many classes, the most frequent mistakes. */
static int append_mistakes(const et_class_tables *t, et_grid_form form, et_strbuf *out,
                           et_error *error)
{
    const int64_t classes = t->of.classes;
    mistake *mistakes;
    char note[NOTE];
    /* A row is one mistake at most. */
    if (ET_ALLOC(mistakes, t->of.count, "mistakes", error))
        return ET_ENOMEM;
    size_t count = 0;
    for (int64_t i = 0; i < classes * classes; i++)
        if (i / classes != i % classes && t->confusion[i] > 0)
            mistakes[count++] = (mistake){ t->confusion[i], i };
    qsort(mistakes, count, sizeof *mistakes, by_weight);
    const size_t shown = count < CONFUSION_MAX ? count : CONFUSION_MAX;
    et_grid grid = { .columns = 3, .left = 2, .most = ET_GRID_CELL_MAX };
    append_heading(t, "most frequent mistakes", form, out);
    static const char *const head[] = { "class", "prediction", "rows" };
    et_grid_add_row(&grid, head);
    for (size_t i = 0; i < shown; i++) {
        et_grid_add(&grid, t->labels[mistakes[i].cell / classes]);
        et_grid_add(&grid, t->labels[mistakes[i].cell % classes]);
        et_grid_addf(&grid, "%.6g", mistakes[i].weight);
    }
    et_grid_append(&grid, form, out);
    if (shown < count) {
        snprintf(note, sizeof note, "%s more kinds of mistakes; --json has the whole matrix",
                 et_format_count((int64_t)(count - shown)).text);
        append_note(note, form, out);
    }
    et_grid_release(&grid);
    et_free(mistakes);
    return ET_OK;
}

/* ---- lines of classes ---- */

/* Classes by support, the most frequent first; equal ones by number. */
static mistake *rank_classes(const et_class_tables *t, et_error *error)
{
    const size_t classes = (size_t)t->of.classes;
    mistake *order = et_alloc(classes, sizeof *order);
    if (!order) {
        et_alloc_failed(error, "classes");
        return NULL;
    }
    for (size_t c = 0; c < classes; c++)
        order[c] = (mistake){ t->lines[c].support, (int64_t)c };
    qsort(order, classes, sizeof *order, by_weight);
    return order;
}

static int append_lines(const et_class_tables *t, et_grid_form form, et_strbuf *out,
                        et_error *error)
{
    static const char *const head[] = { "class", "precision", "recall", "f1", "support" };
    const int64_t classes = t->of.classes, shown = classes < LINES_MAX ? classes : LINES_MAX;
    const bool all = shown == classes;
    char note[NOTE];
    mistake *order = rank_classes(t, error);
    if (!order)
        return ET_ENOMEM;
    et_grid grid = { .columns = 5, .left = 1, .most = ET_GRID_CELL_MAX };
    append_heading(t, "classes", form, out);
    et_grid_add_row(&grid, head);
    for (int64_t i = 0; i < shown; i++) {
        const int64_t c = all ? i : order[i].cell;
        et_grid_add(&grid, t->labels[c]);
        et_grid_addf(&grid, "%.4f", t->lines[c].precision);
        et_grid_addf(&grid, "%.4f", t->lines[c].recall);
        et_grid_addf(&grid, "%.4f", t->lines[c].f1);
        et_grid_addf(&grid, "%.6g", t->lines[c].support);
    }
    et_grid_append(&grid, form, out);
    if (!all) {
        snprintf(note, sizeof note, "%s classes with fewer rows are not shown; --json has all",
                 et_format_count(classes - shown).text);
        append_note(note, form, out);
    }
    et_grid_release(&grid);
    et_free(order);
    return ET_OK;
}

int et_class_tables_append(const et_class_tables *t, et_grid_form form, et_strbuf *out,
                           et_error *error)
{
    et_assert(t->labels && t->confusion && t->lines);
    int status = ET_OK;
    if (t->of.classes <= MATRIX_MAX)
        append_matrix(t, form, out);
    else
        status = append_mistakes(t, form, out, error);
    if (!status)
        status = append_lines(t, form, out, error);
    return status || !out->failed ? status : et_alloc_failed(error, "tables");
}

/* ---- JSON ---- */

/* "labels", "confusion" (lists by label), "classes" (by label), "calibration", "cost". */
static int class_tables_add(const et_class_tables *t, et_value *to, et_error *error)
{
    et_assert(t->labels && t->confusion && t->lines);
    et_class_curve curve;
    int status = et_calibration_curve(&curve, &t->of, et_calibrated_class(&t->of), error);
    if (status)
        return status;
    const int64_t classes = t->of.classes;
    et_value *labels = et_value_set_list(to, "labels"), *rows = et_value_set_list(to, "confusion");
    et_value *lines = et_value_set_dict(to, "classes");
    for (int64_t c = 0; c < classes; c++) {
        et_value *row = et_value_add_list(rows), *line = et_value_set_dict(lines, t->labels[c]);
        et_value_add_string(labels, t->labels[c]);
        for (int64_t i = 0; i < classes; i++)
            et_value_add_float(row, t->confusion[c * classes + i]);
        et_value_set_float(line, "precision", t->lines[c].precision);
        et_value_set_float(line, "recall", t->lines[c].recall);
        et_value_set_float(line, "f1", t->lines[c].f1);
        et_value_set_float(line, "support", t->lines[c].support);
    }
    et_value *list = et_value_set_list(to, "calibration");
    for (size_t i = 0; i < curve.count; i++) {
        et_value *bin = et_value_add_dict(list);
        et_value_set_float(bin, "probability", curve.x[i]);
        et_value_set_float(bin, "fraction", curve.y[i]);
        et_value_set_float(bin, "rows", curve.weight[i]);
    }
    et_class_curve_release(&curve);
    if (t->of.costs)
        et_value_set_float(to, "cost", t->cost);
    return et_value_failed(to) ? et_alloc_failed(error, "results") : ET_OK;
}

/* ---- charts ---- */

/* Points of the curve of a model without skill, or of a perfectly calibrated model. */
static const double diagonal[] = { 0, 1 };

/* Adopts the curve's points. name NULL: no memory. */
static int add_curve(et_class_chart *c, et_class_curve *curve, const char *name, et_error *error)
{
    et_assert(c->chart.count < c->capacity);
    if (!name) {
        et_class_curve_release(curve);
        return et_alloc_failed(error, "a curve");
    }
    c->curves[c->chart.count++] = (et_chart_curve){ name, curve->x, curve->y, curve->count };
    et_free(curve->weight);
    return ET_OK;
}

static int add_roc(et_class_chart *c, const et_class_tables *t, int64_t class, et_error *error)
{
    et_class_curve curve;
    int status = et_roc_curve(&curve, &t->of, class, error);
    if (status || !curve.count) {
        et_class_curve_release(&curve);
        return status;
    }
    double area = 0;
    for (size_t i = 1; i < curve.count; i++)
        area += (curve.x[i] - curve.x[i - 1]) * (curve.y[i] + curve.y[i - 1]) / 2;
    return add_curve(c, &curve,
                     et_arena_printf(&c->arena, "%s%s%s (AUC %.4f)", t->name ? t->name : "",
                                     t->name ? ": " : "", t->labels[class], area),
                     error);
}

/* The positive one of two classes; the most frequent ones of more classes. */
static int add_rocs(et_class_chart *c, const et_class_tables *t, et_error *error)
{
    const int64_t classes = t->of.classes;
    if (classes == 2)
        return add_roc(c, t, !t->of.first, error);
    mistake *order = rank_classes(t, error);
    int status = order ? ET_OK : ET_ENOMEM;
    for (int64_t i = 0; i < classes && i < CURVES_MAX && !status; i++)
        status = add_roc(c, t, order[i].cell, error);
    et_free(order);
    return status;
}

static int add_calibration_curve(et_class_chart *c, const et_class_tables *t, et_error *error)
{
    const int64_t class = et_calibrated_class(&t->of);
    et_class_curve curve;
    int status = et_calibration_curve(&curve, &t->of, class, error);
    if (status)
        return status;
    return add_curve(c, &curve,
                     et_arena_printf(&c->arena, "%s%s%s", t->name ? t->name : "",
                                     t->name ? ": " : "",
                                     class < 0 ? "predicted class" : t->labels[class]),
                     error);
}

int et_class_chart_open(et_class_chart *c, bool roc, const et_class_tables *sets, size_t count,
                        et_error *error)
{
    *c = (et_class_chart){ .capacity = count * CURVES_MAX + 1 };
    c->chart.title = roc ? "ROC" : "calibration";
    c->chart.y_label = roc ? "true positive rate" : "fraction that is right";
    c->chart.x_label = roc ? "false positive rate" : "probability";
    if (ET_ALLOC_ZERO(c->curves, c->capacity, "curves", error))
        return ET_ENOMEM;
    c->chart.curves = c->curves;
    int status = ET_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = roc ? add_rocs(c, &sets[i], error) : add_calibration_curve(c, &sets[i], error);
    if (!status && !c->chart.count)
        return et_fail(error, ET_EDATA, "there is no ROC curve: all rows are of one class");
    if (!status)
        c->curves[c->chart.count++] =
            (et_chart_curve){ roc ? "chance" : "perfect", diagonal, diagonal, 2 };
    return status;
}

void et_class_chart_release(et_class_chart *c)
{
    for (size_t i = 0; i < c->chart.count && c->curves[i].x != diagonal; i++) {
        et_free((void *)c->curves[i].x);
        et_free((void *)c->curves[i].y);
    }
    et_free(c->curves);
    et_arena_release(&c->arena);
    *c = (et_class_chart){ .capacity = 0 };
}

/* ---- scored rows ---- */

static const char *set_of(const et_tabular_task *task)
{
    const et_structs *sets = &task->options.validation_data.sets;
    const et_tabular_set *set = sets->items;
    return sets->count ? set[task->results.set].name : NULL;
}

static int keep_target(et_table_scores *scores, const et_tabular_task *task, int64_t target,
                       et_error *error)
{
    et_assert(target >= 0 && target < task->results.targets);
    const et_validation_rows *s = &task->results;
    if (!ET_VECTOR_GROW(scores->numbers, scores->number_capacity, scores->number_count + 1))
        return et_alloc_failed(error, "rows");
    et_number_rows *rows = &scores->numbers[scores->number_count++];
    *rows = (et_number_rows){ .set = set_of(task),
                              .target = et_scored_targets_of(task).column[target] };
    /* For quantiles, the median or else the level next to it. */
    rows->median = task->target.quantiles > 0;
    const int64_t column = rows->median ? task->target.middle : target;
    for (int64_t i = 0; i < s->rows; i++)
        rows->all += s->weight[i] > 0;
    const size_t most = rows->all < ET_NUMBER_ROWS_MAX ? rows->all : ET_NUMBER_ROWS_MAX;
    rows->truth = et_arena_array(&scores->arena, most, sizeof *rows->truth);
    rows->predicted = et_arena_array(&scores->arena, most, sizeof *rows->predicted);
    if (scores->arena.failed)
        return et_alloc_failed(error, "rows");
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
    et_assert(scores->sets < ET_TABULAR_SETS_MAX);
    return class_tables_open(&scores->set[scores->sets++], &rows, task->target.field->label,
                             set_of(task), &scores->arena, error);
}

void et_table_scores_attach(et_table_scores *scores, const et_evaluation *evaluation,
                            double threshold, const double *costs)
{
    et_assert(evaluation->task && scores);
    et_tabular_task *task = et_tabular_task_of(evaluation->task);
    if (et_tabular_weighs_classes(task) && !et_comm_rank(evaluation->comm))
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
    et_assert(evaluation->task && logs);
    et_tabular_task *task = et_tabular_task_of(evaluation->task);
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
    et_arena_release(&scores->arena);
    et_free(scores->numbers);
    *scores = (et_table_scores){ .sets = 0 };
}

/* ---- the command ---- */

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
    const et_tabular_task *task = et_tabular_task_of(evaluation->task);
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
    et_outputs_check(outputs, "--roc", args->roc, error);
    return et_outputs_check(outputs, "--calibration", args->calibration, error);
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

/* The name of the only target; NULL: several targets, whose names are in their scores. */
static const char *single_target(const et_evaluation *evaluation)
{
    const et_encoded_field *target = et_tabular_task_of(evaluation->task)->target.field;
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
    return et_print_end(status, error);
}

static int print_json(const evaluating *e, const et_evaluation *evaluation, const et_value *logs,
                      et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *more = et_value_dict(&arena);
    et_value *sets =
        more && e->scores.sets && e->scores.set[0].name ? et_value_set_dict(more, "sets") : NULL;
    int status = more ? ET_OK : et_alloc_failed(error, "results");
    if (!status && single_target(evaluation))
        et_value_set_string(more, "target", single_target(evaluation));
    if (!status && e->scores.sets && e->scores.set[0].of.classes == 2)
        et_value_set_string(more, "positive", e->scores.set[0].labels[!e->scores.set[0].of.first]);
    for (size_t i = 0; i < e->scores.sets && !status; i++)
        status = class_tables_add(
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
    const bool draws = !et_comm_rank(evaluation->comm);
    if (!status && draws && e->args->roc)
        status = draw(e, true, e->args->roc, error);
    if (!status && draws && e->args->calibration)
        status = draw(e, false, e->args->calibration, error);
    return status;
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
