/* The series of tables (series.h): folds of one experiment, or all candidates of tabular/auto.
 *
 * A candidate predicts each validated row by the model that did not learn it. Its loss is the
 * weighted mean of -ln p of the label, of several targets over them, of the squared error, or of
 * the pinball loss of quantiles. Weights begin with a greedy choice (et_greedy) of ROUNDS rounds.
 *
 * Invariants: (1) rows are those of the training table, or of the validation file; (2) sums go over
 * rows in order, so the same trainings give the same bits. */
#include "tasks/tabular/ensemble/ensemble.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <etude/class_scores.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "engine/tensor/params.h"
#include "formats/events/log_names.h"
#include "systems/modelgarden/series.h"
#include "systems/modelgarden/task_trainer.h"
#include "tasks/tabular/ensemble/ensemble_private.h"
#include "tasks/tabular/members.h"
#include "tasks/tabular/networks/networks.h"
#include "tasks/tabular/predict/predict.h"
#include "tasks/tabular/setup/setup.h"
#include "tasks/tabular/tabular_kind.h"
#include "tasks/tabular/tabular_task.h"
#include "tasks/tabular/target/target.h"
#include "train/checkpoint/run_names.h"

#define ROUNDS 32

/* A training that is done. */
typedef struct trained {
    et_tabular_model model; /* its texts are in the arena */
    et_params *params;      /* owned */
    int64_t step;
} trained;

typedef struct outputs {
    float *output; /* [rows, width], of classes; owned */
    double *value; /* [rows, width], of others; owned */
} outputs;

/* The ensemble of a pack is chosen on the validated rows. So the pack is scored by predictions of
 * each row by an ensemble that other rows choose. */
typedef struct scored {
    bool done;
    outputs rows;      /* by which the candidate is scored and weighed */
    outputs model;     /* outputs of the model if they differ: of a pack without folds */
    trained *training; /* [count]; in the arena */
} scored;

typedef struct selection {
    et_series_run run;
    et_arena arena;
    et_tabular_task *task;
    et_device *device;
    const char *model_dir;
    bool is_auto;
    double budget;       /* seconds for all trainings of tabular/auto */
    int64_t rows, width; /* of the arrays below */
    int64_t targets;     /* of a row, but of classes */
    int folds;           /* 1: none */
    int32_t *class;      /* [rows], of classes */
    double *written;     /* [rows, targets], of others */
    int16_t *fold;       /* [rows]: the one that validates it, -1: none */
    double *weight;      /* [rows] */
    double *of_fold;     /* [rows]: scratch, weights of a fold's rows */
    scored *scored;      /* [run.count], in the arena */
    outputs mean;        /* of the chosen ones */
    double *share;       /* [run.count]: their weights; in the arena */
    /* Candidates that have a score: those of the greedy choice. */
    int among[ET_CANDIDATES_MAX];
} selection;

static selection *downcast(et_series_run *run)
{
    return (selection *)(void *)run;
}

/* ---- the plan ---- */

static bool wanted(const char *experiment, const void *options)
{
    const et_tabular_options *o = options;
    return et_candidates_is_auto(experiment) || (o->n_splits && o->fold < 0);
}

/* Takes the settings that the series chose itself, unless the user has set them. */
static void adopt(void *options, const void *kept)
{
    et_tabular_options *o = options;
    const et_tabular_options *was = kept;
    if (!o->n_splits && !et_tabular_has_validation_data(o))
        o->n_splits = was->n_splits;
    if (!o->ensemble.count)
        o->ensemble = was->ensemble;
    if (!o->budget)
        o->budget = was->budget;
}

static int plan(selection *s, const char *experiment, const et_tabular_options *options,
                et_error *error)
{
    const et_candidate_plan of = { &s->run, &s->arena, s->task, s->is_auto, s->budget, s->folds };
    int status = et_candidates_plan(&of, experiment, options, error);
    if (status)
        return status;
    const et_series_candidate *all = s->run.candidate;
    s->scored = et_arena_array(&s->arena, ET_CANDIDATES_MAX, sizeof *s->scored);
    s->share = et_arena_array(&s->arena, ET_CANDIDATES_MAX, sizeof *s->share);
    for (int i = 0; all && i < s->run.count && s->scored && s->share; i++) {
        trained *training =
            et_arena_array(&s->arena, (size_t)all[i].count, sizeof *s->scored->training);
        for (int k = 0; training && k < all[i].count; k++)
            training[k] = (trained){ .params = NULL };
        s->scored[i] = (scored){ .training = training };
        s->share[i] = 0;
    }
    return s->arena.failed ? et_alloc_failed(error, sizeof *all, "candidates") : ET_OK;
}

static int check_rows(const et_tabular_task *task, const char *experiment, et_error *error)
{
    const et_tabular_options *o = &task->options;
    if (o->validation_data.sets.count)
        return et_fail(error, ET_ECONFIG,
                       "task.validation_data.sets: candidates are compared on one table; name it "
                       "with --valid");
    if (et_candidates_is_auto(experiment) && !task->validations && !o->n_splits)
        return et_fail(error, ET_ECONFIG,
                       "tabular/auto compares models on rows that are held out, and task.held_out "
                       "is 0; name validation data or folds, or train tabular/mlp");
    return ET_OK;
}

static int open_arrays(selection *s, et_error *error)
{
    const et_tabular_target *target = &s->task->target;
    s->rows = s->task->validation_tables[0] ? s->task->validation_tables[0]->count
                                            : s->task->table->count;
    s->width = target->width;
    s->targets = target->targets;
    const size_t rows = (size_t)s->rows, cells = rows * (size_t)s->targets;
    s->fold = et_alloc(rows, sizeof *s->fold);
    s->weight = et_alloc_zero(rows, sizeof *s->weight);
    s->of_fold = et_alloc(rows, sizeof *s->of_fold);
    s->class = target->classes ? et_alloc_zero(rows, sizeof *s->class) : NULL;
    s->written = target->classes ? NULL : et_alloc_zero(cells, sizeof *s->written);
    for (size_t i = 0; s->fold && i < rows; i++)
        s->fold[i] = -1;
    return s->fold && s->weight && s->of_fold && (s->class || s->written)
               ? ET_OK
               : et_alloc_failed(error, cells * sizeof *s->written, "scores of candidates");
}

static void close_outputs(const outputs *of)
{
    et_free(of->output);
    et_free(of->value);
}

static void close_series(et_series_run *run)
{
    if (!run)
        return;
    selection *s = downcast(run);
    for (int c = 0; c < run->count && s->scored; c++) {
        const scored *one = &s->scored[c];
        close_outputs(&one->rows);
        close_outputs(&one->model);
        for (int i = 0; one->training && i < run->candidate[c].count; i++)
            et_params_free(one->training[i].params);
    }
    close_outputs(&s->mean);
    et_free(s->class);
    et_free(s->written);
    et_free(s->fold);
    et_free(s->weight);
    et_free(s->of_fold);
    et_arena_release(&s->arena);
    et_free(s);
}

static int open_series(et_series_run **out, const et_series_opening *opening, et_error *error)
{
    et_tabular_options *options = opening->options;
    selection *s = et_alloc_zero(1, sizeof *s);
    *out = NULL;
    if (!s)
        return et_alloc_failed(error, sizeof *s, "candidates");
    s->arena = (et_arena)ET_ARENA_INIT;
    s->task = (et_tabular_task *)(void *)opening->task;
    s->device = opening->device;
    s->model_dir = opening->model_dir;
    s->is_auto = et_candidates_is_auto(opening->experiment);
    s->folds = options->n_splits ? (int)options->n_splits : 1;
    if (s->is_auto && !options->budget)
        options->budget =
            (int64_t)fmax(1, opening->seconds > 0 ? opening->seconds : ET_AUTO_BUDGET);
    s->budget = (double)options->budget;
    s->run.changed = et_candidates_take_folds(s->task, opening->experiment);
    options->ensemble.count = 0; /* left by a start that was killed before the model was written */
    int status = check_rows(s->task, opening->experiment, error);
    if (!status && !s->is_auto && options->budget)
        status = et_fail(error, ET_ECONFIG,
                         "task.budget: has no effect on the folds of %s, which are all trained; "
                         "leave it out, or use tabular/auto",
                         opening->experiment);
    if (!status && s->run.changed)
        options->n_splits = ET_AUTO_FOLDS;
    else if (!status)
        status = plan(s, opening->experiment, options, error);
    if (!status && !s->run.changed)
        status = open_arrays(s, error);
    if (status)
        close_series(&s->run);
    else
        *out = &s->run;
    return status;
}

/* Copies the run's texts to a training, so that all trainings have the same encoding. */
static int prepare(et_series_run *run, const char *directory, et_error *error)
{
    const selection *s = downcast(run);
    int status = ET_OK;
    for (int i = 0; i < ET_TABLE_FILES && !status; i++) {
        char *bytes = NULL, *path = et_path_join(directory, et_table_file_names[i]);
        size_t length;
        status =
            path ? et_file_read(&bytes, &length, s->task->file[i].path, ET_TABLE_BYTES_MAX, error)
                 : et_alloc_failed(error, strlen(directory), "a path");
        if (!status && !et_file_exists(path))
            status = et_file_write(path, bytes, length, error);
        et_free(bytes);
        et_free(path);
    }
    return status;
}

/* ---- predictions of a training ---- */

typedef struct reading {
    et_artifact artifact;
    et_experiment experiment;
    et_identity newest;
    et_task *task;
    et_task_trainer *trainer;
    trained *to;
} reading;

static int check_belongs(void *payload, const et_artifact_weights *load, et_error *error)
{
    const reading *r = payload;
    const et_identity identity = { load->checkpoint, load->facts.identity };
    return et_tabular_graph_check_identity(&r->experiment, load->artifact, &identity, error);
}

static int open_reading(reading *r, selection *s, const char *directory, et_error *error)
{
    int status;
    if ((status = et_artifact_open(&r->artifact, directory, error)) ||
        (status = et_tabular_graph_check(&r->experiment, &r->artifact, &s->arena, error)) ||
        (status = et_artifact_identity(&r->artifact, &r->newest, &s->arena, error)) ||
        (status = et_params_new(&r->to->params, error)))
        return status;
    const et_runtime_options *runtime = &r->experiment.runtime;
    const bool bfloat16 = runtime->mixed_precision_dtype == ET_PRECISION_BFLOAT16;
    const et_task_context context = { .model_dir = directory,
                                      .params = r->to->params,
                                      .device = s->device,
                                      .seed = (uint64_t)runtime->seed,
                                      .bfloat16 = bfloat16,
                                      .identity = &r->newest,
                                      .reader = true,
                                      .evaluates = true };
    const et_task_trainer_options options = { .seed = (uint64_t)runtime->seed,
                                              .bfloat16 = bfloat16,
                                              .use = ET_EVALUATE_ONLY };
    status = et_tabular_task_open(&r->task, r->experiment.task, &context, error);
    return status ? status
                  : et_task_trainer_open(&r->trainer, r->task, s->device, r->to->params, &options,
                                         error);
}

static int load(reading *r, et_error *error)
{
    et_assert(r->trainer);
    et_artifact_weights weights = {
        .artifact = &r->artifact, .params = r->to->params, .check = check_belongs, .payload = r
    };
    et_arena arena = ET_ARENA_INIT;
    et_value *logs = et_value_dict(&arena);
    weights.facts.arena = &arena;
    int status = logs ? et_artifact_load(&weights, error) : et_alloc_failed(error, 0, "scores");
    r->to->step = weights.facts.step;
    r->to->model = ((const et_tabular_options *)r->experiment.task)->model;
    if (!status)
        status = et_task_trainer_evaluate(r->trainer, -1, logs, error);
    et_free(weights.checkpoint);
    et_arena_release(&arena);
    return status;
}

static int open_outputs(const selection *s, outputs *of, et_error *error)
{
    et_assert(s->rows >= 0 && s->width > 0);
    const size_t cells = (size_t)(s->rows * s->width);
    close_outputs(of); /* of a reading that failed */
    of->output = s->class ? et_alloc_zero(cells, sizeof *of->output) : NULL;
    of->value = s->class ? NULL : et_alloc_zero(cells, sizeof *of->value);
    return of->output || of->value
               ? ET_OK
               : et_alloc_failed(error, cells * sizeof *of->value, "scores of candidates");
}

/* Copies the rows of a validation to their positions among all rows. */
static int keep_rows(selection *s, const outputs *to, const et_tabular_task *task, int fold,
                     et_error *error)
{
    const et_validation_rows *from = &task->results;
    const size_t width = (size_t)s->width;
    et_assert(s->class ? to->output != NULL : to->value != NULL);
    if (task->target.classes != s->task->target.classes || from->width != s->width ||
        (!s->class && from->targets != s->targets))
        return et_fail(error, ET_EDATA, "%s: its target is not that of the run",
                       task->context.model_dir);
    for (int64_t i = 0; i < from->rows; i++) {
        const size_t source = (size_t)i * width;
        const int64_t row = task->validated ? task->validated[i] : i;
        if (row >= s->rows)
            return et_fail(error, ET_EDATA, "%s was trained on other rows than the run",
                           task->context.model_dir);
        const size_t at = (size_t)row * width;
        s->fold[row] = (int16_t)fold;
        s->weight[row] = from->weight[i];
        if (s->class) {
            s->class[row] = from->class[i];
            memcpy(to->output + at, from->output + source, width * sizeof *to->output);
        } else {
            memcpy(s->written + row * s->targets, from->written + i * s->targets,
                   (size_t)s->targets * sizeof *s->written);
            memcpy(to->value + at, from->value + source, width * sizeof *to->value);
        }
    }
    return ET_OK;
}

static int read_training(selection *s, scored *one, const et_series_training *training, int fold,
                         et_error *error)
{
    reading r = { .to = &one->training[fold] };
    const char *directory =
        et_arena_printf(&s->arena, "%s/" ET_SERIES_FOLDER "/%s", s->model_dir, training->name);
    int status = directory ? open_reading(&r, s, directory, error)
                           : et_alloc_failed(error, strlen(training->name), "a path");
    if (!status)
        status = load(&r, error);
    et_tabular_task *task = (et_tabular_task *)(void *)r.task;
    if (!status && et_tabular_is_pack(&task->options) && s->folds < 2) {
        status = open_outputs(s, &one->model, error);
        if (!status)
            status = keep_rows(s, &one->model, task, fold, error);
    }
    if (!status)
        status = et_tabular_cross_fit(task, error);
    if (!status)
        status = keep_rows(s, &one->rows, task, fold, error);
    et_task_trainer_close(r.trainer);
    et_tabular_task_close(r.task);
    et_artifact_close(&r.artifact);
    return status;
}

/* ---- scores ---- */

static et_validation_rows rows_of(const selection *s, const outputs *one, double *weight)
{
    return (et_validation_rows){ .rows = s->rows,
                                 .width = s->width,
                                 .targets = s->targets,
                                 .output = one->output,
                                 .class = s->class,
                                 .value = one->value,
                                 .written = s->written,
                                 .weight = weight };
}

/* The scores of several targets or quantiles, as in the logs of a validation. */
static int score_targets(const selection *s, const outputs *one, double *value, et_error *error)
{
    const et_validation_rows rows = rows_of(s, one, s->of_fold);
    const et_scored_targets of = et_scored_targets_of(s->task);
    et_arena arena = ET_ARENA_INIT;
    et_value *logs = et_value_dict(&arena);
    const et_target_kind *kind = s->task->target.kind;
    int status = logs ? kind->score(&of, &rows, logs, error) : et_alloc_failed(error, 0, "scores");
    for (int i = 0; i < ET_SERIES_METRICS; i++) {
        char name[64];
        snprintf(name, sizeof name, ET_LOGGED_OF_VALIDATION "%s", kind->shown[i]);
        const et_value *found = status ? NULL : et_value_get(logs, name);
        value[i] = found && found->kind == ET_VALUE_FLOAT ? found->real : NAN;
    }
    et_arena_release(&arena);
    return status;
}

/* The scores of the rows with a weight in of_fold. */
static int score_fold(const selection *s, const outputs *one, double *value, et_error *error)
{
    et_class_scores classes;
    et_value_scores values;
    if (s->task->target.labels || s->task->target.quantiles)
        return score_targets(s, one, value, error);
    if (!s->class) {
        const et_value_predictions of = { .count = s->rows,
                                          .targets = s->width,
                                          .wide_value = one->value,
                                          .wide_target = s->written,
                                          .weight = s->of_fold };
        int status = et_value_scores_compute(&values, &of, error);
        value[0] = status ? NAN : values.rmse;
        value[1] = status ? NAN : values.r2;
        return status;
    }
    const et_class_predictions of = { .count = s->rows,
                                      .classes = s->width,
                                      .probability = one->output,
                                      .target = s->class,
                                      .weight = s->of_fold };
    int status = et_class_scores_compute(&classes, NULL, &of, error);
    value[0] = status ? NAN : classes.log_loss;
    value[1] = status ? NAN : classes.accuracy;
    return status;
}

static int score_all(const selection *s, const outputs *one, et_series_score *score,
                     et_error *error)
{
    double sum[ET_SERIES_METRICS] = { 0 }, squares[ET_SERIES_METRICS] = { 0 };
    const int folds = s->folds;
    for (int fold = 0; fold < folds; fold++) {
        double value[ET_SERIES_METRICS];
        for (int64_t row = 0; row < s->rows; row++)
            s->of_fold[row] = s->fold[row] == fold ? s->weight[row] : 0;
        int status = score_fold(s, one, value, error);
        if (status)
            return status;
        for (int i = 0; i < ET_SERIES_METRICS; i++) {
            sum[i] += value[i];
            squares[i] += value[i] * value[i];
        }
    }
    for (int i = 0; i < ET_SERIES_METRICS; i++) {
        score->metric[i] = s->task->target.kind->shown[i];
        const double mean = sum[i] / folds;
        score->mean[i] = mean;
        score->deviation[i] =
            folds > 1 ? sqrt(fmax(squares[i] - mean * sum[i], 0) / (folds - 1)) : NAN;
    }
    return ET_OK;
}

static int score_candidate(et_series_run *run, int which, et_series_score *score, et_error *error)
{
    et_assert(which >= 0 && which < run->count);
    selection *s = downcast(run);
    const et_series_candidate *candidate = &run->candidate[which];
    scored *one = &s->scored[which];
    int status = one->done ? ET_OK : open_outputs(s, &one->rows, error);
    for (int i = 0; i < candidate->count && !status && !one->done; i++)
        status = read_training(s, one, &candidate->training[i], i, error);
    one->done = !status;
    return status ? status : score_all(s, &one->rows, score, error);
}

/* ---- the choice ---- */

#define LEAST_PROBABILITY 0x1p-52

/* Whether a row has a prediction and a target. */
static bool counts(const selection *s, int64_t row)
{
    return s->fold[row] >= 0 && (!s->class || s->class[row] >= 0);
}

/* The loss of sum / count on a row that counts: of the label, or of all targets or quantiles. */
static double loss_of_row(const selection *s, const double *sum, int64_t count, int64_t row)
{
    et_assert(count > 0 && row >= 0 && row < s->rows);
    const et_tabular_target *target = &s->task->target;
    double loss = 0;
    if (s->class)
        return -log(fmax(sum[row] / (double)count, LEAST_PROBABILITY));
    for (int64_t i = 0; i < s->width; i++) {
        const double mean = sum[row * s->width + i] / (double)count;
        const double written = s->written[row * s->targets + (target->quantiles ? 0 : i)];
        const double off = (written - mean) / et_tabular_unit(s->task, i).scale;
        if (target->labels)
            loss += -log(fmax(written > 0 ? mean : 1 - mean, LEAST_PROBABILITY));
        else if (target->quantiles)
            loss += off > 0 ? target->level[i] * off : (target->level[i] - 1) * off;
        else
            loss += off * off;
    }
    return loss;
}

static double loss_of(const void *from, const double *sum, int64_t count)
{
    const selection *s = from;
    double loss = 0;
    for (int64_t row = 0; row < s->rows; row++)
        if (counts(s, row))
            loss += s->weight[row] * loss_of_row(s, sum, count, row);
    return loss;
}

/* Adds the predictions of candidate c of those that have a score: values, or the probability of the
 * label. */
static void add_candidate_to(const void *from, double *sum, int64_t c)
{
    const selection *s = from;
    const outputs *one = &s->scored[s->among[c]].rows;
    for (int64_t row = 0; row < s->rows; row++)
        if (s->class)
            sum[row] += s->class[row] < 0 ? 0 : (double)one->output[row * s->width + s->class[row]];
        else
            for (int64_t i = row * s->width; i < (row + 1) * s->width; i++)
                sum[i] += one->value[i];
}

/* The mean loss of the predictions of a candidate, and its standard error. */
static double mean_loss(const selection *s, const double *predicted, double *error_of_mean)
{
    double weights = 0, squares = 0;
    for (int64_t row = 0; row < s->rows; row++)
        weights += counts(s, row) ? s->weight[row] : 0;
    const double mean = weights > 0 ? loss_of(s, predicted, 1) / weights : 0;
    for (int64_t row = 0; row < s->rows; row++) {
        const double off = counts(s, row) ? loss_of_row(s, predicted, 1, row) - mean : 0;
        squares += s->weight[row] * s->weight[row] * off * off;
    }
    *error_of_mean = weights > 0 ? sqrt(squares) / weights : 0;
    return mean;
}

/* Greedy weights fit the validation rows too closely. This moves them halfway to equal weights of
 * the best candidates: all whose loss is at most the lowest one plus its standard error. */
static int choose_weights(selection *s, et_error *error)
{
    double share[ET_CANDIDATES_MAX], loss[ET_CANDIDATES_MAX], limit = INFINITY, least = INFINITY;
    et_greedy greedy = { .rounds = 1,
                         .cells = (size_t)(s->class ? s->rows : s->rows * s->width),
                         .from = s,
                         .add = add_candidate_to,
                         .loss = loss_of };
    int equals = 0;
    for (int c = 0; c < s->run.count; c++)
        if (s->scored[c].done)
            s->among[greedy.candidates++] = c;
    if (greedy.candidates > 1)
        greedy.rounds = ROUNDS;
    double *predicted = et_alloc(greedy.cells, sizeof *predicted);
    int status = predicted ? et_greedy_choose(&greedy, share, error)
                           : et_alloc_failed(error, greedy.cells * sizeof *predicted,
                                             "weights of candidates");
    if (status) {
        et_free(predicted);
        return status;
    }
    for (int i = 0; i < greedy.candidates; i++) {
        double range;
        memset(predicted, 0, greedy.cells * sizeof *predicted);
        add_candidate_to(s, predicted, i);
        loss[i] = mean_loss(s, predicted, &range);
        if (loss[i] < least) {
            least = loss[i];
            limit = loss[i] + range;
        }
    }
    for (int i = 0; i < greedy.candidates; i++)
        equals += loss[i] <= limit;
    for (int i = 0; i < greedy.candidates; i++)
        s->share[s->among[i]] =
            equals ? (share[i] + (loss[i] <= limit ? 1.0 / equals : 0)) / 2 : share[i];
    et_free(predicted);
    return ET_OK;
}

static int list_members(selection *s, et_tabular_options *options, et_error *error)
{
    size_t count = 0;
    for (int c = 0; c < s->run.count; c++)
        count += s->share[c] > 0 ? (size_t)s->run.candidate[c].count : 0;
    et_tabular_member *members = et_arena_array(&s->arena, count, sizeof *members);
    if (!members)
        return et_alloc_failed(error, count * sizeof *members, "an ensemble");
    options->ensemble = (et_structs){ .items = members, .count = count };
    for (int c = 0; c < s->run.count; c++)
        for (int i = 0; s->share[c] > 0 && i < s->run.candidate[c].count; i++)
            *members++ = (et_tabular_member){ .name = s->run.candidate[c].training[i].name,
                                              .weight = s->share[c] / s->run.candidate[c].count,
                                              .model = s->scored[c].training[i].model };
    return ET_OK;
}

/* Of the mean, as the run's verdict. */
static int judge(selection *s, et_error *error)
{
    et_tabular_verdict *v = &s->task->verdict;
    const et_validation_rows rows =
        rows_of(s, &s->mean, et_alloc((size_t)s->rows, sizeof *rows.weight));
    if (!rows.weight)
        return et_alloc_failed(error, (size_t)s->rows * sizeof *rows.weight, "a verdict");
    for (int64_t row = 0; row < s->rows; row++)
        rows.weight[row] = s->fold[row] < 0 ? 0 : s->weight[row];
    v->judged = true;
    et_strbuf_reset(&v->best);
    int status = et_tabular_judge(&v->best, s->task, &rows, error);
    et_free(rows.weight);
    return status;
}

static int choose(et_series_run *run, void *options, double *weights, et_series_score *score,
                  et_error *error)
{
    selection *s = downcast(run);
    const int64_t cells = s->rows * s->width;
    int status;
    if ((status = choose_weights(s, error)) ||
        (!s->mean.output && !s->mean.value && (status = open_outputs(s, &s->mean, error))))
        return status;
    for (int c = 0; c < run->count; c++) {
        const scored *one = &s->scored[c];
        const outputs *of = one->model.output || one->model.value ? &one->model : &one->rows;
        for (int64_t i = 0; s->share[c] > 0 && i < cells; i++)
            if (s->class)
                s->mean.output[i] += (float)s->share[c] * of->output[i];
            else
                s->mean.value[i] += s->share[c] * of->value[i];
    }
    for (int64_t i = 0; s->class && i < cells; i++)
        s->mean.output[i] = fminf(s->mean.output[i], 1);
    memcpy(weights, s->share, (size_t)run->count * sizeof *weights);
    if ((status = list_members(s, options, error)) ||
        (status = score_all(s, &s->mean, score, error)))
        return status;
    return judge(s, error);
}

/* ---- the model ---- */

/* Whether the model needs a parameter: a pack predicts only with its best weights. */
static bool is_read(const et_tabular_member *member, const et_params *from, int i)
{
    return member->model.type != ET_TABULAR_PACK ||
           strncmp(et_params_name(from, i), ET_PACK_MEMBER "_", strlen(ET_PACK_MEMBER "_")) != 0;
}

static int declare(selection *s, et_params *to, const et_tabular_member *member,
                   const et_params *from, et_error *error)
{
    int status = ET_OK, index;
    for (int i = 0; i < et_params_count(from) && !status; i++) {
        if (!is_read(member, from, i))
            continue;
        const char *name =
            et_arena_printf(&s->arena, "%s/%s", member->name, et_params_name(from, i));
        const et_init zeros = { ET_INIT_ZEROS, 0 };
        if (!name)
            return et_alloc_failed(error, 0, "a name");
        status = et_params_is_trained(from, i)
                     ? et_params_declare(to, name, et_params_shape(from, i), zeros, &index, error)
                     : et_params_declare_variable(to, name, et_params_shape(from, i), zeros, &index,
                                                  error);
    }
    return status;
}

static void copy_values(selection *s, et_params *to, const et_tabular_member *member,
                        et_params *from)
{
    for (int i = 0; i < et_params_count(from); i++) {
        if (!is_read(member, from, i))
            continue;
        const char *name =
            et_arena_printf(&s->arena, "%s/%s", member->name, et_params_name(from, i));
        const int index = name ? et_params_find(to, name) : -1;
        et_assert(index >= 0 || !name);
        if (index >= 0)
            memcpy(et_params_values(to) + et_params_offset(to, index),
                   et_params_values(from) + et_params_offset(from, i),
                   (size_t)et_shape_count(et_params_shape(from, i)) * sizeof(float));
    }
}

/* The training of an item of the ensemble. */
static trained *training_of(const selection *s, size_t at)
{
    for (int c = 0; c < s->run.count; c++) {
        const size_t count = s->share[c] > 0 ? (size_t)s->run.candidate[c].count : 0;
        if (at < count)
            return &s->scored[c].training[at];
        at -= count;
    }
    return NULL;
}

static int join(selection *s, et_params *params, const et_structs *ensemble, int64_t *step,
                et_error *error)
{
    const et_tabular_member *members = ensemble->items;
    int status = ET_OK;
    *step = 0;
    for (size_t i = 0; i < ensemble->count && !status; i++) {
        const trained *one = training_of(s, i);
        *step = one->step > *step ? one->step : *step;
        status = declare(s, params, &members[i], one->params, error);
    }
    if (!status)
        status = et_params_materialize(params, false, error);
    for (size_t i = 0; i < ensemble->count && !status; i++)
        copy_values(s, params, &members[i], training_of(s, i)->params);
    return !status && s->arena.failed ? et_alloc_failed(error, 0, "a name") : status;
}

static int write_model(selection *s, const et_experiment *experiment, et_params *params,
                       et_error *error)
{
    et_assert(experiment->task && params);
    const et_tabular_options *options = experiment->task;
    et_value *identity = et_value_dict(&s->arena);
    const char *path = et_arena_printf(&s->arena, "%s/" ET_ARTIFACT_WEIGHTS, s->model_dir);
    et_artifact_content content = { .params = params, .identity = identity };
    int status = identity && path ? join(s, params, &options->ensemble, &content.step, error)
                                  : et_alloc_failed(error, 0, "a model");
    if (!status)
        status = et_tabular_identify(&s->task->task, identity, error);
    if (!status)
        status = et_experiment_identify(experiment, identity, error);
    s->run.step = content.step;
    return status ? status : et_artifact_write_weights(&content, path, error);
}

static int write_series(et_series_run *run, const et_experiment *experiment, et_error *error)
{
    selection *s = downcast(run);
    const et_validation_rows rows = rows_of(s, &s->mean, s->weight);
    et_params *params;
    int status = ET_OK;
    if (s->folds > 1) {
        const char *path = et_arena_printf(&s->arena, "%s/" ET_SERIES_FOLDS, s->model_dir);
        status = path ? et_fold_rows_write(s->task, &rows, s->fold, path, error)
                      : et_alloc_failed(error, strlen(s->model_dir), "a path");
    }
    if (!status)
        status = et_params_new(&params, error);
    if (status)
        return status;
    status = write_model(s, experiment, params, error);
    et_params_free(params);
    return status;
}

const et_series et_tabular_series = {
    .alone = "task.budget",
    .wanted = wanted,
    .candidate = et_candidates_at,
    .adopt = adopt,
    .open = open_series,
    .prepare = prepare,
    .score = score_candidate,
    .choose = choose,
    .write = write_series,
    .close = close_series,
};
