/* The plan of tabular/auto: a table of experiments with their costs. */
#include "tasks/tabular/ensemble/ensemble_private.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/text/format.h"
#include "tasks/tabular/tabular_kind.h"

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
    int most, least; /* epochs, as many as the time allows; most 0: the experiment decides */
    double share;    /* of the budget, at most, for these epochs */
    const char *ignores;
    const char *defaults;       /* settings in YAML, as the next ones; NULL: none */
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

/* Of candidates that are many networks: the duration of a row in the small batches of a small
 * table, as a multiple of that in others. */
#define SMALL_BATCHES 1.8
/* Seconds per training that do not depend on the rows: start, graph and files. */
#define START 0.2
/* The columns of the tables for which cost was measured. */
#define USUAL_COLUMNS 14

enum { CANDIDATES = sizeof candidates / sizeof *candidates };

static_assert(CANDIDATES <= ET_CANDIDATES_MAX, "ET_CANDIDATES_MAX");

bool et_candidates_is_auto(const char *experiment)
{
    return !strcmp(experiment, ET_TABULAR_AUTO);
}

const char *et_candidates_at(const char *experiment, const void *options, int i)
{
    et_assert(experiment && options && i >= 0);
    const et_tabular_options *o = options;
    if (!et_candidates_is_auto(experiment))
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
static double seconds_of(const et_candidate_plan *s, int which)
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

static double start_of(const et_candidate_plan *s)
{
    return START * (s->folds > 1 ? s->folds : 1);
}

/* As many as fit into its share and after the candidates that were chosen before it. */
static int epochs_of(const et_candidate_plan *s, int which)
{
    et_assert(which >= 0 && which < CANDIDATES);
    const double left = s->budget - s->run->seconds - start_of(s);
    const double seconds = fmin(candidates[which].share * s->budget, left);
    const double epochs = fmin(candidates[which].most, seconds / seconds_of(s, which));
    return (int)fmax(candidates[which].least, epochs);
}

/* Seconds for all trainings of a candidate. */
static double duration_of(const et_candidate_plan *s, int which)
{
    if (which < 0)
        return 1;
    return start_of(s) + seconds_of(s, which) * (candidates[which].most ? epochs_of(s, which) : 1);
}

static const char *defaults_of(const et_candidate_plan *s, int which)
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
        s->arena, "{%strainer: {%s%s%s}, task: {%s%s%s%s%s}}",
        some(candidates[which].defaults, true), epochs, some(candidates[which].trainer, true),
        some(SELDOM, small), some(candidates[which].task, true),
        some(candidates[which].small, small), some(candidates[which].large, !small),
        some(candidates[which].private, private), some(candidates[which].classes, classes));
}

static void add_candidate(const et_candidate_plan *s, et_series_candidate *to,
                          const char *experiment)
{
    const int which = find_candidate(experiment);
    const int count = s->folds > 1 ? s->folds : 1;
    const bool both = s->is_auto && which >= 0 && has_both(s->task);
    const char *ignored = both ? et_arena_printf(s->arena, "task.model.ignored_features=[%s]",
                                                 candidates[which].ignores)
                               : NULL;
    et_series_training *all = et_arena_array(s->arena, (size_t)count, sizeof *all);
    *to = (et_series_candidate){ et_path_base(experiment), all, count, duration_of(s, which),
                                 which < 0 ? 1 : candidates[which].used };
    for (int i = 0; all && i < count; i++)
        all[i] = (et_series_training){
            .experiment = experiment,
            .name = s->folds > 1 ? et_arena_printf(s->arena, "%s_%d", to->name, i + 1) : to->name,
            .defaults = defaults_of(s, which),
            .settings = s->folds < 2 ? ignored
                                     : et_arena_printf(s->arena, "task.fold=%d%s%s", i,
                                                       ignored ? "," : "", some(ignored, true)),
        };
}

int et_candidates_plan(const et_candidate_plan *s, const char *experiment,
                       const et_tabular_options *options, et_error *error)
{
    et_assert(s->run && s->arena && s->task && s->folds >= 1);
    et_series_candidate *all = et_arena_array(s->arena, CANDIDATES, sizeof *all);
    const char *name;
    for (int i = 0; all && (name = et_candidates_at(experiment, options, i)) != NULL; i++) {
        const int which = find_candidate(name);
        if (which >= 0 && candidates[which].pack &&
            !et_pack_learns((size_t)s->task->target.labels, (size_t)s->task->target.quantiles))
            continue;
        if (s->is_auto && candidates[which].words && !text_ids(s->task))
            continue;
        const double seconds = s->is_auto ? duration_of(s, which) : 0;
        if (s->is_auto && !candidates[which].always && s->run->seconds + seconds > s->budget) {
            const char *before = s->run->left_out; /* a list: "tabm (about 5:20)" */
            s->run->left_out = et_arena_printf(
                s->arena, "%s%s%s (about %s)", some(before, true), before ? ", " : "",
                et_path_base(candidates[which].experiment), et_format_duration(seconds).text);
            continue;
        }
        add_candidate(s, &all[s->run->count++], name);
        s->run->seconds += seconds;
    }
    s->run->candidate = all;
    return all && !s->arena->failed ? ET_OK : et_alloc_failed(error, sizeof *all, "candidates");
}

/* Folds use all rows of a small table for training. */
bool et_candidates_take_folds(const et_tabular_task *task, const char *experiment)
{
    et_assert(task && experiment);
    const et_tabular_options *o = &task->options;
    return et_candidates_is_auto(experiment) && !o->n_splits && !task->validation_tables[0] &&
           is_small(task) && task->table->count >= 2 * ET_AUTO_FOLDS &&
           o->held_out == ET_TABULAR_HELD_OUT && !et_tabular_is_named(o->time) &&
           !et_tabular_is_named(o->groups);
}
