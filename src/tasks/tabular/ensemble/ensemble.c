/* The series of tables (series.h): folds of one experiment, or all candidates of tabular/auto.
 *
 * A candidate predicts each validated row by the model that was not trained on the row. Its loss is
 * a weighted mean of -ln p of the label (for several targets the mean over these), of the squared
 * error, or of the pinball loss of quantiles. Weights begin with a greedy choice (et_greedy) of
 * ROUNDS rounds.
 *
 * Invariants: (1) rows are rows of the training table, or of the validation file; (2) sums go over
 * rows in order, so the same trainings give the same bits. */
#include "tasks/tabular/ensemble/ensemble.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "formats/events/log_names.h"
#include "systems/modelgarden/series.h"
#include "tasks/tabular/ensemble/ensemble_private.h"
#include "tasks/tabular/networks/networks.h"
#include "tasks/tabular/setup/setup.h"
#include "tasks/tabular/tabular_kind.h"
#include "tasks/tabular/tabular_task.h"
#include "tasks/tabular/target/target.h"

#define ROUNDS 32

/* ---- the plan ---- */

/* Folds of a small table. */
#define AUTO_FOLDS 5
/* Default budget: seconds for all trainings. */
#define AUTO_BUDGET 120

/* Rows up to which tabular/auto trains on folds. */
#define FEW_ROWS 2000

/* For a small table: an epoch takes less time than a checkpoint, which waits for the disk. */
#define SELDOM "checkpoint_interval: 25ep"

/* The candidates in the order of training. cost: microseconds per training row for the whole
 * training, or for an epoch, measured on Adult and California housing with two cores of an EPYC
 * with AVX2; text: the same for each ID of the row's free texts. Numbers have two features, and
 * each candidate ignores one of them.
 *
 * RealMLP is best before its 64th epoch on these tables. Label smoothing improves only accuracy,
 * but this ensemble averages probabilities. On a small table, the usual batches have so few rows
 * that training is slow, so batches have 32 rows.
 *
 * A pack has few members, and the precision of the other candidates. AdamW updates all its
 * parameters: Muon's products take most of a step, and with equal time AdamW is better on the
 * held-out rows of Adult and of California housing.
 *
 * On the held-out rows of California housing, TabM is better than the other networks after some 40
 * epochs, and is best after some 240. */
static const struct {
    const char *experiment;
    double cost, text;
    double used;     /* share of the steps that a training takes before it stops early */
    int most, least; /* epochs, as many as the time allows, between these bounds; most 0: the
                        experiment decides */
    double share;    /* of the budget, at most, for these epochs */
    const char *ignores;
    const char *defaults;       /* settings in YAML, as all members down to classes; NULL: none */
    const char *trainer, *task; /* settings below trainer and task */
    const char *small, *large;  /* settings below task, for a small table and for others */
    const char *private;        /* settings below task, for the privacy of each example */
    const char *classes;        /* settings below task, for classes */
    bool always;                /* trained for any budget */
    bool pack;                  /* not for targets that a pack does not learn */
    bool words;                 /* only for tables with free texts */
} candidates[] = {
    { .experiment = "tabular/linear",
      .cost = 20,
      .text = 2.5,
      .used = 0.8,
      .ignores = "X_robust",
      .always = true },
    { .experiment = "tabular/mlp",
      .cost = 400,
      .text = 1.5,
      .used = 0.4,
      .ignores = "X_robust",
      .always = true },
    { .experiment = "tabular/tf_idf",
      .cost = 20,
      .text = 1.5,
      .used = 0.4,
      .ignores = "X_robust",
      .words = true },
    { .experiment = "tabular/realmlp",
      .cost = 1200,
      .text = 2.3,
      .used = 1,
      .ignores = "X",
      .trainer = "train_steps: 64ep, ",
      .small = "train_data: {batch_size: 32}, ",
      .classes = "label_smoothing: 0" },
    { .experiment = "tabular/pack",
      .cost = 110,
      .text = 0.16,
      .used = 1,
      .most = 400,
      .least = 8,
      .share = 0.25,
      .ignores = "X_robust",
      .defaults = "runtime: {mixed_precision_dtype: float32}, ",
      .trainer = "optimizer_config: {optimizer: {type: adamw, adamw: {gradient_clip_norm: 0, "
                 "exclude_from_weight_decay: [bias, phase]}}}, ",
      .task = "model: {pack: {members: 8}}, ",
      .small = "train_data: {batch_size: 32}, ",
      .large = "train_data: {batch_size: 512}, ",
      .pack = true },
    { .experiment = "tabular/tabm",
      .cost = 100,
      .text = 0.8,
      .used = 1,
      .most = 250,
      .least = 32,
      .share = 1,
      .ignores = "X_robust",
      .private = "model: {tabm: {shared_batches: true}}, " },
};

/* For candidates of many networks: the time per row in the small batches of a small table, divided
 * by the time in normal batches. */
#define SMALL_BATCHES 1.8
/* Seconds per training that do not depend on the rows: start, graph and files. */
#define START 0.2
/* The columns of the tables for which cost was measured. */
#define USUAL_COLUMNS 14

enum { CANDIDATES = sizeof candidates / sizeof *candidates };

static_assert(CANDIDATES <= ET_CANDIDATES_MAX, "ET_CANDIDATES_MAX");

static bool is_auto(const char *experiment)
{
    return !strcmp(experiment, ET_TABULAR_AUTO);
}

static const char *candidate_at(const char *experiment, const void *options, int i)
{
    et_assert(experiment && options && i >= 0);
    const et_tabular_options *o = options;
    if (!is_auto(experiment))
        return i ? NULL : experiment;
    const size_t labels = o->target.count > 1 ? o->target.count : 0;
    const bool packs = et_pack_learns(labels, o->quantile_levels.count);
    for (int k = 0; k < CANDIDATES; k++)
        if ((packs || !candidates[k].pack) && i-- == 0)
            return candidates[k].experiment;
    return NULL;
}

static int find_candidate(const char *experiment)
{
    int k = 0;
    while (k < CANDIDATES && strcmp(candidates[k].experiment, experiment) != 0)
        k++;
    return k < CANDIDATES ? k : -1;
}

/* Whether the inferred features have both transforms of numbers. */
static bool has_both(const et_tabular_task *task)
{
    int found = 0;
    for (int f = 0; f < et_encoder_fields(task->encoder); f++) {
        const char *name = et_encoder_field(task->encoder, f)->name;
        found += !strcmp(name, "X") || !strcmp(name, "X_robust");
    }
    return found == 2 && et_tabular_also(&task->options) == ET_TRANSFORM_ROBUST;
}

static const char *some(const char *text, bool wanted)
{
    return text && wanted ? text : "";
}

static bool is_small(const et_tabular_task *task)
{
    return task->table->count <= FEW_ROWS;
}

/* ---- durations ---- */

/* IDs of a row's free texts. */
static int64_t text_ids(const et_tabular_task *task)
{
    int64_t count = 0;
    for (int f = 0; f < et_encoder_fields(task->encoder); f++) {
        const et_encoded_field *field = et_encoder_field(task->encoder, f);
        count += field->kind == ET_ENCODED_WORDS ? field->width : 0;
    }
    return count;
}

/* Seconds for the rows in all trainings of a candidate, or in an epoch of all. */
static double seconds_of(const et_selection *s, int which)
{
    et_assert(which >= 0 && which < CANDIDATES && s->task->table);
    const et_tabular_task *task = s->task;
    const bool held = !task->validation_tables[0] && s->folds < 2;
    const double learned = s->folds > 1 ? s->folds - 1 : held ? 1 - task->options.held_out : 1;
    const double columns = (double)et_encoder_cells(task->encoder) / USUAL_COLUMNS;
    const double cost = candidates[which].cost * (1 + 3 * fmax(columns, 1)) / 4;
    const double slower = candidates[which].most && is_small(task) ? SMALL_BATCHES : 1;
    return 1e-6 * (cost * slower + candidates[which].text * (double)text_ids(task)) * learned *
           (double)task->table->count;
}

static double start_of(const et_selection *s)
{
    return START * (s->folds > 1 ? s->folds : 1);
}

/* Epochs that fit into the candidate's share and after the candidates chosen before it. */
static int epochs_of(const et_selection *s, int which)
{
    et_assert(which >= 0 && which < CANDIDATES);
    const double left = s->budget - s->run.seconds - start_of(s);
    const double seconds = fmin(candidates[which].share * s->budget, left);
    const double epochs = fmin(candidates[which].most, seconds / seconds_of(s, which));
    return (int)fmax(candidates[which].least, epochs);
}

/* Seconds for all trainings of a candidate. */
static double duration_of(const et_selection *s, int which)
{
    if (which < 0)
        return 1;
    return start_of(s) + seconds_of(s, which) * (candidates[which].most ? epochs_of(s, which) : 1);
}

static const char *defaults_of(et_selection *s, int which)
{
    const et_tabular_task *task = s->task;
    const bool small = is_small(task), classes = !task->target.values;
    const bool private = task->options.differential_privacy_config.per_example;
    char epochs[40] = "";
    if (!s->is_auto || which < 0)
        return NULL;
    if (candidates[which].most)
        snprintf(epochs, sizeof epochs, "train_steps: %dep, ", epochs_of(s, which));
    return et_arena_printf(
        &s->arena, "{%strainer: {%s%s%s}, task: {%s%s%s%s%s}}",
        some(candidates[which].defaults, true), epochs, some(candidates[which].trainer, true),
        some(SELDOM, small), some(candidates[which].task, true),
        some(candidates[which].small, small), some(candidates[which].large, !small),
        some(candidates[which].private, private), some(candidates[which].classes, classes));
}

static void add_candidate(et_selection *s, et_series_candidate *to, et_scored *scored,
                          const char *experiment)
{
    const int which = find_candidate(experiment);
    const int count = s->folds > 1 ? s->folds : 1;
    const bool both = s->is_auto && which >= 0 && has_both(s->task);
    const char *ignored = both ? et_arena_printf(&s->arena, "task.model.ignored_features=[%s]",
                                                 candidates[which].ignores)
                               : NULL;
    et_series_training *all = et_arena_array(&s->arena, count, sizeof *all);
    *to = (et_series_candidate){ et_path_base(experiment), all, count, duration_of(s, which),
                                 which < 0 ? 1 : candidates[which].used };
    scored->training = et_arena_array(&s->arena, count, sizeof *scored->training);
    for (int i = 0; all && i < count; i++)
        all[i] = (et_series_training){
            .experiment = experiment,
            .name = s->folds > 1 ? et_arena_printf(&s->arena, "%s_%d", to->name, i + 1) : to->name,
            .defaults = defaults_of(s, which),
            .settings = s->folds < 2 ? ignored
                                     : et_arena_printf(&s->arena, "task.fold=%d%s%s", i,
                                                       ignored ? "," : "", some(ignored, true)),
        };
}

static void plan(et_selection *s, const char *experiment, const et_tabular_options *options)
{
    et_assert(s->task && s->folds >= 1);
    et_series_candidate *all = et_arena_array(&s->arena, CANDIDATES, sizeof *all);
    const char *name;
    for (int i = 0; all && (name = candidate_at(experiment, options, i)) != NULL; i++) {
        const int which = find_candidate(name);
        if (which >= 0 && candidates[which].pack &&
            !et_pack_learns((size_t)s->task->target.labels, (size_t)s->task->target.quantiles))
            continue;
        if (s->is_auto && candidates[which].words && !text_ids(s->task))
            continue;
        const double seconds = s->is_auto ? duration_of(s, which) : 0;
        if (s->is_auto && !candidates[which].always && s->run.seconds + seconds > s->budget) {
            const char *before = s->run.left_out; /* a list: "tabm (about 5:20)" */
            s->run.left_out = et_arena_printf(
                &s->arena, "%s%s%s (about %s)", some(before, true), before ? ", " : "",
                et_path_base(candidates[which].experiment), et_format_duration(seconds).text);
            continue;
        }
        add_candidate(s, &all[s->run.count], &s->scored[s->run.count], name);
        s->run.count++;
        s->run.seconds += seconds;
    }
    s->run.candidate = all;
}

/* Folds use all rows of a small table for training. */
static bool takes_folds(const et_selection *s)
{
    const et_tabular_task *task = s->task;
    const et_tabular_options *o = &task->options;
    return s->is_auto && !o->n_splits && !task->validation_tables[0] && is_small(task) &&
           task->table->count >= 2 * AUTO_FOLDS && o->held_out == ET_TABULAR_HELD_OUT &&
           !et_tabular_is_named(o->time) && !et_tabular_is_named(o->groups);
}

/* ---- opening ---- */

static et_selection *downcast(et_series_run *run)
{
    return (et_selection *)(void *)run;
}

static bool wanted(const char *experiment, const void *options)
{
    const et_tabular_options *o = options;
    return is_auto(experiment) || (o->n_splits && o->fold < 0);
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

static int check(const et_selection *s, const char *experiment, et_error *error)
{
    const et_tabular_options *o = &s->task->options;
    if (o->validation_data.sets.count)
        return et_fail(error, ET_ECONFIG,
                       "task.validation_data.sets: candidates are compared on one table; name it "
                       "with --valid");
    if (s->is_auto && !s->task->validations && !o->n_splits)
        return et_fail(error, ET_ECONFIG,
                       "tabular/auto compares models on rows that are held out, and task.held_out "
                       "is 0; name validation data or folds, or train tabular/mlp");
    if (!s->is_auto && s->budget)
        return et_fail(error, ET_ECONFIG,
                       "task.budget: has no effect on the folds of %s, which are all trained; "
                       "leave it out, or use tabular/auto",
                       experiment);
    return ET_OK;
}

static void open_arrays(et_selection *s)
{
    const et_tabular_target *target = &s->task->target;
    s->rows = s->task->validation_tables[0] ? s->task->validation_tables[0]->count
                                            : s->task->table->count;
    s->width = target->width;
    s->targets = target->targets;
    const size_t rows = (size_t)s->rows, cells = rows * (size_t)s->targets;
    s->fold = et_arena_array(&s->arena, rows, sizeof *s->fold);
    s->weight = et_arena_array(&s->arena, rows, sizeof *s->weight);
    s->of_fold = et_arena_array(&s->arena, rows, sizeof *s->of_fold);
    s->class = target->classes ? et_arena_array(&s->arena, rows, sizeof *s->class) : NULL;
    s->written = target->classes ? NULL : et_arena_array(&s->arena, cells, sizeof *s->written);
    for (size_t i = 0; s->fold && i < rows; i++)
        s->fold[i] = -1;
}

static void close_series(et_series_run *run)
{
    if (!run)
        return;
    et_selection *s = downcast(run);
    for (int c = 0; c < run->count; c++) {
        const et_scored *one = &s->scored[c];
        for (int i = 0; one->training && i < run->candidate[c].count; i++)
            et_params_free(one->training[i].params);
    }
    et_arena_release(&s->arena);
    et_free(s);
}

static int open_series(et_series_run **out, const et_experiment *experiment, et_task *task,
                       double seconds, et_error *error)
{
    et_tabular_options *options = experiment->task;
    et_selection *s;
    *out = NULL;
    if (ET_ALLOC_ZERO(s, 1, "candidates", error))
        return ET_ENOMEM;
    s->task = et_tabular_task_of(task);
    s->is_auto = is_auto(experiment->name);
    s->folds = options->n_splits ? (int)options->n_splits : 1;
    if (s->is_auto && !options->budget)
        options->budget = (int64_t)fmax(1, seconds > 0 ? seconds : AUTO_BUDGET);
    s->budget = (double)options->budget;
    s->run.changed = takes_folds(s);
    options->ensemble.count = 0; /* left by a start that was killed before the model was written */
    int status = check(s, experiment->name, error);
    if (!status && s->run.changed) {
        options->n_splits = AUTO_FOLDS;
    } else if (!status) {
        plan(s, experiment->name, options);
        open_arrays(s);
    }
    if (s->arena.failed)
        status = et_alloc_failed(error, "candidates");
    if (status)
        close_series(&s->run);
    else
        *out = &s->run;
    return status;
}

/* A training gets copies of the run's texts and shares the run's rows, so all trainings have the
 * same encoding. */
static int prepare(et_series_run *run, const char *directory, void *options, et_error *error)
{
    const et_selection *s = downcast(run);
    int status = ET_OK;
    for (int i = 0; i < ET_TABLE_FILES && !status; i++) {
        const et_path path = et_path_of(directory, et_table_file_names[i]);
        char *bytes = NULL;
        size_t length;
        if (et_file_exists(path.text))
            continue;
        status = et_file_read(&bytes, &length, s->task->file[i].path, ET_TABLE_BYTES_MAX, error);
        if (!status)
            status = et_file_write(path.text, bytes, length, error);
        et_free(bytes);
    }
    ((et_tabular_options *)options)->open = s->task;
    return status;
}

/* ---- predictions of a training ---- */

static int open_outputs(et_selection *s, et_outputs *of, et_error *error)
{
    et_assert(s->rows >= 0 && s->width > 0);
    const size_t cells = (size_t)(s->rows * s->width);
    of->output = s->class ? et_arena_array(&s->arena, cells, sizeof *of->output) : NULL;
    of->value = s->class ? NULL : et_arena_array(&s->arena, cells, sizeof *of->value);
    return of->output || of->value ? ET_OK : et_alloc_failed(error, "scores of candidates");
}

/* Copies the rows of a validation to their positions among all rows. */
static int keep_rows(et_selection *s, const et_outputs *to, const et_tabular_task *task, int fold,
                     et_error *error)
{
    const et_validation_rows *from = &task->results;
    const size_t width = (size_t)s->width;
    et_assert(s->class ? to->output != NULL : to->value != NULL);
    if (task->target.classes != s->task->target.classes || from->width != s->width ||
        (!s->class && from->targets != s->targets))
        return et_fail(error, ET_EDATA, "%s was trained on another target than the run",
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
                   s->targets * sizeof *s->written);
            memcpy(to->value + at, from->value + source, width * sizeof *to->value);
        }
    }
    return ET_OK;
}

static int take(et_series_run *run, int candidate, int training, et_series_trained *trained,
                et_error *error)
{
    et_selection *s = downcast(run);
    et_scored *one = &s->scored[candidate];
    et_tabular_task *task = et_tabular_task_of(trained->task);
    const bool alone = et_tabular_is_pack(&task->options) && s->folds < 2;
    int status;
    if ((!training && (status = open_outputs(s, &one->rows, error))) ||
        (alone && ((status = open_outputs(s, &one->model, error)) ||
                   (status = keep_rows(s, &one->model, task, training, error)))) ||
        (status = et_tabular_cross_fit(task, error)) ||
        (status = keep_rows(s, &one->rows, task, training, error)))
        return status;
    one->training[training] =
        (et_ensemble_training){ task->options.model, trained->params, trained->step };
    trained->params = NULL;
    return ET_OK;
}

/* ---- scores ---- */

static et_validation_rows rows_of(const et_selection *s, const et_outputs *one, double *weight)
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

/* The scores of the rows with a weight in of_fold. */
static int score_fold(const et_selection *s, const et_outputs *one, double *value, et_error *error)
{
    const et_validation_rows rows = rows_of(s, one, s->of_fold);
    const et_target_kind *kind = s->task->target.kind;
    et_scored_targets of = et_scored_targets_of(s->task);
    of.plain = true;
    et_arena arena = ET_ARENA_INIT;
    et_value *logs = et_value_dict(&arena);
    int status = logs ? kind->score(&of, &rows, logs, error) : et_alloc_failed(error, "scores");
    for (int i = 0; i < ET_SERIES_METRICS; i++) {
        char name[64];
        snprintf(name, sizeof name, ET_LOGGED_OF_VALIDATION "%s", kind->shown[i]);
        const et_value *found = status ? NULL : et_value_get(logs, name);
        value[i] = found && found->kind == ET_VALUE_FLOAT ? found->real : NAN;
    }
    et_arena_release(&arena);
    return status;
}

static int score_all(const et_selection *s, const et_outputs *one, et_series_score *score,
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
    et_selection *s = downcast(run);
    s->scored[which].done = true;
    return score_all(s, &s->scored[which].rows, score, error);
}

/* ---- the choice ---- */

#define LEAST_PROBABILITY 0x1p-52

/* Whether a row has a prediction and a target. */
static bool counts(const et_selection *s, int64_t row)
{
    return s->fold[row] >= 0 && (!s->class || s->class[row] >= 0);
}

/* The loss of sum / count on a row that counts: of the label, or of all targets or quantiles. */
static double loss_of_row(const et_selection *s, const double *sum, int64_t count, int64_t row)
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
            loss += et_pinball(target->level[i], off);
        else
            loss += off * off;
    }
    return loss;
}

static double loss_of(const void *from, const double *sum, int64_t count)
{
    const et_selection *s = from;
    double loss = 0;
    for (int64_t row = 0; row < s->rows; row++)
        if (counts(s, row))
            loss += s->weight[row] * loss_of_row(s, sum, count, row);
    return loss;
}

/* Adds the predictions of scored candidate c: values, or the probability of the label. */
static void add_candidate_to(const void *from, double *sum, int64_t c)
{
    const et_selection *s = from;
    const et_outputs *one = &s->scored[s->among[c]].rows;
    for (int64_t row = 0; row < s->rows; row++)
        if (s->class)
            sum[row] += s->class[row] < 0 ? 0 : (double)one->output[row * s->width + s->class[row]];
        else
            for (int64_t i = row * s->width; i < (row + 1) * s->width; i++)
                sum[i] += one->value[i];
}

/* The mean loss of the predictions of a candidate, and its standard error. */
static double mean_loss(const et_selection *s, const double *predicted, double *error_of_mean)
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
static int choose_weights(et_selection *s, et_error *error)
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
                           : et_alloc_failed(error, "weights of candidates");
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

static int list_members(et_selection *s, et_tabular_options *options, et_error *error)
{
    size_t count = 0;
    for (int c = 0; c < s->run.count; c++)
        count += s->share[c] > 0 ? (size_t)s->run.candidate[c].count : 0;
    et_tabular_member *members = et_arena_array(&s->arena, count, sizeof *members);
    s->member = et_arena_array(&s->arena, count, sizeof *s->member);
    if (!members || !s->member)
        return et_alloc_failed(error, "an ensemble");
    options->ensemble = (et_structs){ .items = members, .count = count };
    count = 0;
    for (int c = 0; c < s->run.count; c++)
        for (int i = 0; s->share[c] > 0 && i < s->run.candidate[c].count; i++) {
            const et_ensemble_training *one = s->member[count] = &s->scored[c].training[i];
            members[count++] =
                (et_tabular_member){ .name = s->run.candidate[c].training[i].name,
                                     .weight = s->share[c] / s->run.candidate[c].count,
                                     .model = one->model };
        }
    return ET_OK;
}

/* Makes the run's verdict about the mean. */
static int judge(et_selection *s, et_error *error)
{
    et_tabular_verdict *v = &s->task->verdict;
    const et_validation_rows rows = rows_of(s, &s->mean, et_alloc(s->rows, sizeof *rows.weight));
    if (!rows.weight)
        return et_alloc_failed(error, "a verdict");
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
    et_selection *s = downcast(run);
    const int64_t cells = s->rows * s->width;
    int status;
    if ((status = choose_weights(s, error)) ||
        (!s->mean.output && !s->mean.value && (status = open_outputs(s, &s->mean, error))))
        return status;
    for (int c = 0; c < run->count; c++) {
        const et_scored *one = &s->scored[c];
        const et_outputs *of = one->model.output || one->model.value ? &one->model : &one->rows;
        if (s->share[c] <= 0)
            continue;
        et_assert(s->class ? s->mean.output && of->output : s->mean.value && of->value);
        for (int64_t i = 0; i < cells; i++)
            if (s->class)
                s->mean.output[i] += (float)s->share[c] * of->output[i];
            else
                s->mean.value[i] += s->share[c] * of->value[i];
    }
    et_assert(s->mean.output || !s->class);
    for (int64_t i = 0; s->class && i < cells; i++)
        s->mean.output[i] = fminf(s->mean.output[i], 1);
    s->result = rows_of(s, &s->mean, s->weight);
    memcpy(weights, s->share, run->count * sizeof *weights);
    if ((status = list_members(s, options, error)) ||
        (status = score_all(s, &s->mean, score, error)))
        return status;
    return judge(s, error);
}

/* What candidates, or the experiments that they train, set. */
static const char *const own[] = { "task.model",
                                   "task.train_data.batch_size",
                                   "task.features.numeric",
                                   "task.features.discrete",
                                   "task.features.also",
                                   "task.label_smoothing",
                                   "trainer",
                                   "runtime.mixed_precision_dtype",
                                   "runtime.prefetch",
                                   NULL };

const et_series et_tabular_series = {
    .own = own,
    .alone = "task.budget",
    .model = "task.model.type",
    .wanted = wanted,
    .candidate = candidate_at,
    .adopt = adopt,
    .open = open_series,
    .prepare = prepare,
    .take = take,
    .score = score_candidate,
    .choose = choose,
    .write = et_selection_write,
    .close = close_series,
};
