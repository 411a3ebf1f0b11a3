/* Values that a model gets from the training rows before its first step, in variables that
 * checkpoints keep: bins of columns, mean and deviation of targets, weights of classes. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etude/comm.h>
#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers/decimal.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "engine/tensor/params.h"
#include "tasks/tabular/samples.h"
#include "tasks/tabular/setup/setup_private.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/identity.h"

/* ---- classes ---- */

/* Weights of the rows of each class. */
typedef struct class_sums {
    int field;   /* classes, in a batch */
    int weight;  /* -1: all rows weigh 1 */
    double *sum; /* [classes] */
} class_sums;

static void add_to_classes(void *payload, const et_batch *batch, int64_t first)
{
    const class_sums *s = payload;
    const int32_t *class = batch->data[s->field];
    const float *weight = s->weight < 0 ? NULL : batch->data[s->weight];
    (void)first;
    for (int64_t i = 0; i < batch->filled[0]; i++)
        if (class[i] >= 0)
            s->sum[class[i]] += weight ? (double)weight[i] : 1;
}

/* The rows' weights by classes times the class's own: all classes weigh the same, and the mean
 * weight is 1. So a row of weight 2 counts as two rows. */
static int balance(const et_tabular_task *task, float *weight, et_error *error)
{
    et_assert(task->training && task->target.classes > 0);
    const int classes = task->target.classes;
    const et_layout *layout = &task->training->layout;
    class_sums s = { .field = et_layout_find(layout, task->target.field->name),
                     .weight =
                         task->target.weight ? et_layout_find(layout, task->target.weight) : -1,
                     .sum = et_alloc_zero(classes, sizeof *s.sum) };
    double all = 0;
    int found = 0;
    if (!s.sum)
        return et_alloc_failed(error, "weights of classes");
    int status = et_tabular_read(task->training, task->training->count, add_to_classes, &s, error);
    for (int i = 0; i < classes; i++) {
        all += s.sum[i];
        found += s.sum[i] > 0;
    }
    for (int i = 0; i < classes; i++)
        weight[i] = s.sum[i] > 0 ? (float)(all / (found * s.sum[i])) : 1;
    et_free(s.sum);
    return status;
}

/* "label: 2.5", "label=2.5". Negative weights are not given yet. */
static int read_weight(const et_tabular_task *task, const char *text, float *weight,
                       et_error *error)
{
    const et_encoded_field *field = task->target.field;
    const char *colon = strrchr(text, ':'), *equals = strrchr(text, '=');
    const char *end = colon > equals ? colon : equals;
    char *rest = NULL;
    int class = 0;
    double number = end ? et_decimal_read(end + 1, &rest) : NAN;
    if (!end || rest == end + 1 || *rest || !(number >= 0) || number > 1e6)
        return et_fail(
            error, ET_ECONFIG,
            "--class-weights: \"%s\" is not of the form CLASS:WEIGHT, with a weight from 0 "
            "to 1e6; for equal classes, write balanced",
            text);
    const size_t length = (size_t)(end - text);
    while (class < field->classes && (strlen(field->label[class]) != length ||
                                      memcmp(field->label[class], text, length) != 0))
        class ++;
    if (class == field->classes)
        return et_fail(error, ET_ECONFIG, "--class-weights: %.*s is not a class of %s (%s, %s%s)",
                       (int)length, text, field->column[0], field->label[0],
                       field->classes > 1 ? field->label[1] : "",
                       field->classes > 2 ? ", ..." : "");
    if (weight[class] >= 0)
        return et_fail(error, ET_ECONFIG,
                       "--class-weights: the class %.*s has two weights; give one", (int)length,
                       text);
    weight[class] = (float)number;
    return ET_OK;
}

static int weigh_classes(const et_tabular_task *task, float *weight, et_error *error)
{
    const et_strings *given = &task->options.class_weights;
    int status = ET_OK;
    if (given->count == 1 && !strcmp(given->items[0], "balanced"))
        return balance(task, weight, error);
    for (int i = 0; i < task->target.classes; i++)
        weight[i] = -1;
    for (size_t i = 0; !status && i < given->count; i++)
        status = read_weight(task, given->items[i], weight, error);
    float most = 0;
    for (int i = 0; i < task->target.classes; i++) {
        weight[i] = weight[i] < 0 ? 1 : weight[i];
        most = fmaxf(most, weight[i]);
    }
    return status || most > 0
               ? status
               : et_fail(error, ET_ECONFIG,
                         "--class-weights: all classes have the weight 0, so nothing is learned; "
                         "give a weight above 0");
}

/* ---- values ---- */

/* Sums of the differences from the first row, so that no two large numbers are subtracted. */
typedef struct moments {
    int field;
    bool written; /* the field has doubles */
    int64_t width;
    double *base, *sum, *squares; /* [width] */
    int64_t rows;
} moments;

static void add_moments(void *payload, const et_batch *batch, int64_t first)
{
    moments *m = payload;
    for (int64_t i = 0; i < batch->filled[0]; i++)
        for (int64_t k = 0; k < m->width; k++) {
            const void *all = batch->data[m->field];
            int64_t at = i * m->width + k;
            double t = m->written ? et_encoded_written(all, at) : (double)((const float *)all)[at];
            if (first + i == 0)
                m->base[k] = t;
            m->sum[k] += t - m->base[k];
            m->squares[k] += (t - m->base[k]) * (t - m->base[k]);
        }
    m->rows += batch->filled[0];
}

/* Largest step of a float32 at the mean, in deviations. Values with larger steps are too coarse to
 * learn from. */
#define STEP_MOST 1e-3

/* Targets were standardized in double by the metadata. So their mean and deviation in the training
 * rows are near 0 and 1, unless the metadata are of other rows or have no moments. */
static int fit_values(const et_tabular_task *task, float *mean, float *deviation, et_error *error)
{
    et_assert(task->training && task->target.values > 0);
    const int written = et_encoder_written(task->encoder);
    const et_encoded_field *target = task->target.field;
    const char *field =
        written < 0 ? task->target.field->name : et_encoder_field(task->encoder, written)->name;
    const size_t width = (size_t)task->target.values;
    double *all;
    if (ET_ALLOC_ZERO(all, 3 * width, "means of targets", error))
        return ET_ENOMEM;
    moments m = { et_layout_find(&task->training->layout, field),
                  written >= 0,
                  task->target.values,
                  all,
                  all + width,
                  all + 2 * width,
                  0 };
    int status = et_tabular_read(task->training, task->training->count, add_moments, &m, error);
    for (size_t k = 0; !status && k < width; k++) {
        const et_target_unit unit = et_encoder_unit(task->encoder, (int64_t)k);
        const double middle = m.sum[k] / (double)m.rows;
        const double variance = m.squares[k] / (double)m.rows - middle * middle;
        const double center = (m.base[k] - unit.offset + middle) / unit.scale;
        const double fitted = sqrt(fmax(0, variance)) / unit.scale;
        /* A constant target has the deviation 1, so its loss is that of its mean. */
        mean[k] = (float)center;
        deviation[k] = (float)fitted > 0 && isfinite((float)fitted) ? (float)fitted : 1;
        if (fitted > 0 && !(fabs(center) * (double)FLT_EPSILON <= STEP_MOST * fitted))
            status = et_fail(
                error, ET_EDATA,
                "%s: target %s has the mean %.9g and the deviation %.3g in the training rows, but "
                "%.9g and %.3g in the metadata, too different for float32; make the metadata again "
                "from these rows",
                task->file[ET_TABLE_FILE_METADATA].path, target->column[k],
                unit.offset + unit.scale * center, unit.scale * fitted, unit.offset, unit.scale);
    }
    et_free(all);
    return status;
}

/* Converts means and deviations that came with the weights of another run to the metadata of this
 * run. */
static int restate_values(const et_tabular_task *task, float *mean, float *deviation,
                          et_error *error)
{
    et_assert(task->options.init_checkpoint);
    const size_t width = (size_t)task->target.values;
    et_arena arena = ET_ARENA_INIT;
    et_target_unit *was = et_arena_array(&arena, width, sizeof *was);
    et_identity identity;
    char *path = NULL;
    bool found;
    int status = was ? et_checkpoint_find_weights(&path, task->options.init_checkpoint, error)
                     : et_alloc_failed(error, "means of targets");
    if (!status && !(status = et_identity_of_file(&identity, path, &arena, error)))
        status = et_target_unit_read(was, (int64_t)width, &found, identity.values, error);
    for (size_t k = 0; !status && k < width; k++) {
        const et_target_unit is = et_encoder_unit(task->encoder, (int64_t)k);
        const double center = was[k].offset - is.offset + was[k].scale * (double)mean[k];
        mean[k] = (float)(center / is.scale);
        deviation[k] = (float)(was[k].scale * (double)deviation[k] / is.scale);
    }
    et_free(path);
    et_arena_release(&arena);
    return status;
}

float *et_tabular_variable(et_params *params, const char *name)
{
    et_assert(params && name);
    const int index = et_params_find_printf(params, ET_TABULAR_TARGET_SCOPE "/%s", name);
    return index < 0 ? NULL : et_params_values_of(params, index);
}

/* kept: mean and deviation come with the weights that the run began with, in their own unit. */
int et_tabular_init_from_rows(et_tabular_task *task, et_params *params, et_error *error)
{
    et_assert(params && task->encoder);
    const et_tabular_options *o = &task->options;
    const bool begun = o->init_checkpoint && *o->init_checkpoint;
    const bool kept = begun && !(o->init_pattern && *o->init_pattern);
    int status = ET_OK;
    if ((!kept && (status = et_tabular_model_fit(params, &o->model, task->encoder, task->training,
                                                 error))) ||
        (!begun && (status = et_tabular_model_begin(params, &o->model, task->encoder, error))) ||
        (et_tabular_is_pack(o) &&
         (status = et_pack_begin(params, &o->model.pack, task->has_rates, error))))
        return status;
    float *mean = et_tabular_variable(params, ET_TABULAR_MEAN);
    float *deviation = et_tabular_variable(params, ET_TABULAR_DEVIATION);
    float *weight = et_tabular_variable(params, ET_TABULAR_CLASS_WEIGHT);
    et_params_begin_change(params);
    if (mean && deviation)
        status = kept ? restate_values(task, mean, deviation, error)
                      : fit_values(task, mean, deviation, error);
    if (!status && weight)
        status = weigh_classes(task, weight, error);
    et_params_changed(params, true);
    return status;
}

/* ---- data that cannot be learned ---- */

/* Before the first step, finds data that cannot be learned or measured: classes without training
 * rows or without validation rows, numbers or labels that are all equal, and words after the last
 * word that a feature reads. Also finds class weights, which distort probabilities. */

/* Counts over the rows of a part of the data. */
typedef struct target_counts {
    const et_encoded_field *target;
    int field;      /* classes, labels, or the numbers as they are written, in a batch */
    int64_t *count; /* [classes] rows of each; of others [width] rows that differ from the first */
    double *first;  /* [width] of others */
} target_counts;

static void count_classes(void *payload, const et_batch *batch, int64_t first)
{
    const target_counts *s = payload;
    const int32_t *class = batch->data[s->field];
    (void)first;
    for (int64_t i = 0; i < batch->filled[0]; i++)
        if (class[i] >= 0)
            s->count[class[i]]++;
}

/* Counts numbers or labels that differ from those of the first row. */
static void count_others(void *payload, const et_batch *batch, int64_t first)
{
    const target_counts *s = payload;
    const int64_t width = s->target->width;
    const void *all = batch->data[s->field];
    const bool labels = s->target->kind == ET_ENCODED_LABELS;
    for (int64_t i = 0; i < batch->filled[0] * width; i++) {
        const double t = labels ? (double)((const float *)all)[i] : et_encoded_written(all, i);
        if (first + i / width == 0)
            s->first[i] = t;
        s->count[i % width] += t != s->first[i % width];
    }
}

/* Classes, or targets. */
static int64_t parts_of(const et_encoded_field *target)
{
    return target->kind == ET_ENCODED_CLASS ? target->classes : target->width;
}

/* Counts anew. */
static int count_rows(target_counts *s, const et_tabular_task *task, et_samples *rows,
                      et_error *error)
{
    et_assert(s->target && rows);
    const et_encoded_kind kind = s->target->kind;
    const char *field =
        kind == ET_ENCODED_VALUES
            ? et_encoder_field(task->encoder, et_encoder_written(task->encoder))->name
            : s->target->name;
    s->field = et_layout_find(&rows->layout, field);
    memset(s->count, 0, parts_of(s->target) * sizeof *s->count);
    return et_tabular_read(rows, rows->count,
                           kind == ET_ENCODED_CLASS ? count_classes : count_others, s, error);
}

/* ---- messages ---- */

#define NAMED_MAX 8

/* Appends "a, b and c", or the first names of many; a class, which may be "no", is quoted. Returns
 * how many are missing. */
static int name_missing(const char *const *names, const int64_t *count, int all, const char *noun,
                        et_strbuf *text)
{
    const char *quote = strcmp(noun, "classes") ? "" : "\"";
    int missing = 0, at = 0;
    for (int i = 0; i < all; i++)
        missing += count[i] == 0;
    const int shown = missing > NAMED_MAX ? NAMED_MAX : missing;
    for (int i = 0; i < all && at < shown; i++)
        if (!count[i]) {
            const char *between = !at ? "" : at + 1 < shown || shown < missing ? ", " : " and ";
            et_strbuf_printf(text, "%s%s%.60s%s", between, quote, names[i], quote);
            at++;
        }
    if (shown < missing)
        et_strbuf_printf(text, " and %d more %s", missing - shown, noun);
    return missing;
}

/* Targets of two classes that all rows have one of. */
static void warn_alike(const target_counts *s, const char *rows, const char *so)
{
    et_strbuf names = ET_STRBUF_INIT;
    if (name_missing(s->target->column, s->count, (int)s->target->width, "targets", &names))
        et_log(ET_LOG_WARNING, "target %s: all %s have the same label: %s", et_strbuf_text(&names),
               rows, so);
    et_strbuf_release(&names);
}

/* One of several folds is validated. */
static bool is_fold(const et_tabular_task *task)
{
    return task->options.n_splits && task->options.fold >= 0;
}

static void warn_unlearned(const et_tabular_task *task, const target_counts *s)
{
    et_strbuf names = ET_STRBUF_INIT;
    if (s->target->kind == ET_ENCODED_LABELS) {
        warn_alike(s, "training rows", "the model cannot learn the other one");
        return;
    }
    const int missing =
        name_missing(s->target->label, s->count, s->target->classes, "classes", &names);
    const char *class = missing > 1 ? "these classes" : "this class";
    if (missing && is_fold(task))
        et_log(ET_LOG_WARNING,
               "target %s: all rows of %s are in one fold: the model that is scored on this fold "
               "cannot learn %s; set fewer folds, or give more rows",
               s->target->column[0], et_strbuf_text(&names), class);
    else if (missing)
        et_log(ET_LOG_WARNING, "target %s: no training row has %s: the model cannot learn %s",
               s->target->column[0], et_strbuf_text(&names), class);
    et_strbuf_release(&names);
}

/* With two classes, precision and recall are for the positive class. */
static const char *unmeasured(const target_counts *s, int missing)
{
    et_assert(missing > 0);
    if (s->target->classes > 2)
        return missing > 1 ? "the scores do not cover them" : "the scores do not cover it";
    return s->count[et_tabular_positive(s->target->label, s->target->classes)]
               ? "precision and AUC are meaningless"
               : "precision, recall, F1 and AUC are meaningless";
}

static void warn_unmeasured(const et_tabular_task *task, const target_counts *s, const char *where)
{
    et_strbuf names = ET_STRBUF_INIT;
    const bool classes = task->target.classes > 0;
    if (task->target.labels) {
        char rows[200];
        snprintf(rows, sizeof rows, "rows that are %.160s", where);
        warn_alike(s, rows, "F1 and AUC are meaningless");
        return;
    }
    const int missing =
        name_missing(classes ? s->target->label : s->target->column, s->count,
                     (int)parts_of(s->target), classes ? "classes" : "targets", &names);
    if (missing && classes && is_fold(task))
        et_log(ET_LOG_WARNING, "target %s: a fold has no row of %s: in this fold, %s",
               s->target->column[0], et_strbuf_text(&names), unmeasured(s, missing));
    else if (missing && classes)
        et_log(ET_LOG_WARNING, "target %s: no row of %s is %s: %s", s->target->column[0],
               et_strbuf_text(&names), where, unmeasured(s, missing));
    else if (missing)
        et_log(ET_LOG_WARNING,
               "target %s: all rows that are %s have the same value: r2 is meaningless",
               et_strbuf_text(&names), where);
    et_strbuf_release(&names);
}

/* ---- texts ---- */

/* Counts of a field of texts. */
typedef struct text_counts {
    int field;                  /* of a batch */
    int64_t width, texts, full; /* maximum number of ids of a text; number of texts; number of texts
                                   that fill all ids */
} text_counts;

static void count_texts(void *payload, const et_batch *batch, int64_t first)
{
    text_counts *s = payload;
    const int32_t *ids = batch->data[s->field];
    (void)first;
    for (int64_t i = 0; i < batch->filled[0]; i++) {
        s->texts += ids[i * s->width] >= 0;
        s->full += ids[(i + 1) * s->width - 1] >= 0;
    }
}

/* Warns of cut texts in training rows. */
static int warn_cut(const et_tabular_task *task, et_error *error)
{
    int status = ET_OK;
    for (int f = 0; !status && f < et_encoder_fields(task->encoder); f++) {
        const et_encoded_field *field = et_encoder_field(task->encoder, f);
        const int64_t words = (field->width + 1) / 2;
        const et_column_metadata *m = field->kind == ET_ENCODED_WORDS
                                          ? et_metadata_find(task->texts.metadata, field->column[0])
                                          : NULL;
        if (!m || (m->most_words && m->most_words <= words))
            continue;
        text_counts s = { et_layout_find(&task->training->layout, field->name), field->width, 0,
                          0 };
        status = et_tabular_read(task->training, task->training->count, count_texts, &s, error);
        if (!status && s.full)
            et_log(ET_LOG_WARNING,
                   "column %s: %s of %s texts have at least %lld words, and the model reads the "
                   "first %lld words of a text; for more, raise `words` of this feature in a "
                   "features file (task.features_path)",
                   field->column[0], et_format_count(s.full).text, et_format_count(s.texts).text,
                   (long long)words, (long long)words);
    }
    return status;
}

/* ---- all parts ---- */

static int check_parts(target_counts *s, const et_tabular_task *task, et_error *error)
{
    const et_tabular_set *sets = task->options.validation_data.sets.items;
    int status = ET_OK;
    if (!task->target.values) {
        status = count_rows(s, task, task->training, error);
        if (!status)
            warn_unlearned(task, s);
    }
    for (int i = 0; !status && i < task->validations; i++) {
        char where[160] = "held out";
        if (task->validation_tables[0])
            snprintf(where, sizeof where, "in the validation %s%.120s", sets ? "set " : "data",
                     sets ? sets[i].name : "");
        status = count_rows(s, task, task->validation[i], error);
        if (!status)
            warn_unmeasured(task, s, where);
    }
    return status ? status : warn_cut(task, error);
}

int et_tabular_warn_unlearnable(const et_tabular_task *task, et_error *error)
{
    et_assert(task->encoder);
    const et_encoded_field *target = task->target.field;
    const size_t count = (size_t)parts_of(target);
    if (task->context.reader || et_comm_rank(task->context.comm) ||
        (target->kind == ET_ENCODED_VALUES && et_encoder_written(task->encoder) < 0))
        return ET_OK;
    if (et_tabular_weighs_classes(task))
        et_log(ET_LOG_WARNING,
               "class weights make probabilities too high for classes with a large weight. "
               "For right probabilities leave the weights out, and choose --threshold or --costs "
               "in evaluate and predict");
    target_counts s = { .target = target,
                        .count = et_alloc(count, sizeof *s.count),
                        .first = et_alloc(count, sizeof *s.first) };
    int status = s.count && s.first ? check_parts(&s, task, error)
                                    : et_alloc_failed(error, "counts of a target");
    et_free(s.count);
    et_free(s.first);
    return status;
}
