#include "tasks/tabular/predict/explain.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/numbers/philox.h"
#include "base/sort.h"
#include "base/text/strbuf.h"
#include "base/threads/thread.h"
#include "data/table/schema/notation.h"
#include "data/table/schema/schema.h"
#include "formats/events/log_names.h"
#include "tasks/tabular/predict/predict.h"
#include "tasks/tabular/target/target.h"
#include "train/checkpoint/metric_name.h"

#define ROWS_MAX UINT32_MAX

struct et_explain {
    et_explain_options options;
    et_explain_facts facts;
    et_predictors predictors;
    int64_t width;                          /* of the output */
    int64_t targets;                        /* of a row: the width, but for classes and quantiles */
    double level[ET_TABULAR_QUANTILES_MAX]; /* [width], of quantiles */
    /* the rows */
    et_arena arena;  /* of their texts, and of the predictions */
    et_cell *cells;  /* [rows, cells of the encoder] */
    int32_t *class;  /* [rows]; of classes */
    double *target;  /* [rows, targets]; of numbers, labels and quantiles */
    double *weight;  /* [rows]; 1 if the model has no column of weights */
    size_t capacity; /* rows */
    int64_t rows;
    uint32_t read; /* rows of the files so far; */
    size_t chosen; /* how many of these rows options.only contains */
    /* the predictions of the last run */
    float *score;  /* [rows, width]; of classes */
    double *value; /* [rows, width] */
};

static const et_encoder *encoder_of(const et_explain *e)
{
    return e->predictors.each[0]->model->encoder;
}

static const et_target_kind *kind_of(const et_explain *e)
{
    return e->predictors.each[0]->kind;
}

static int find_output(et_explain *e, et_error *error)
{
    const et_predictor *p = e->predictors.each[0];
    int levels = 0;
    if (!p->kind)
        return et_fail(error, ET_ECONFIG,
                       "%s: the model predicts neither classes nor numbers of a target",
                       p->model->directory);
    e->width = p->output[p->target].width;
    e->targets = p->kind->single ? 1 : e->width;
    return et_tabular_levels(e->level, &levels, &p->model->levels, error);
}

/* ---- rows ---- */

static int grow(et_explain *e, et_error *error)
{
    const size_t cells = (size_t)et_encoder_cells(encoder_of(e)), targets = (size_t)e->targets;
    const size_t rows = e->capacity ? 2 * e->capacity : 1024;
    et_cell *grown = et_realloc(e->cells, rows * cells, sizeof *grown);
    if (grown)
        e->cells = grown;
    int32_t *class = grown ? et_realloc(e->class, rows, sizeof *class) : NULL;
    if (class)
        e->class = class;
    double *target = class ? et_realloc(e->target, rows * targets, sizeof *target) : NULL;
    if (target)
        e->target = target;
    double *weight = target ? et_realloc(e->weight, rows, sizeof *weight) : NULL;
    if (!weight)
        return et_alloc_failed(error, "rows");
    e->weight = weight;
    e->capacity = rows;
    return ET_OK;
}

/* Items of all fields for one row; only target and weight are read. */
typedef struct items {
    void **to; /* [fields of the encoder] */
    int target, written, weight;
} items;

/* Whether the row has a target. Stores target and weight as row e->rows. */
static bool take_target(et_explain *e, const items *all)
{
    et_assert(all->to);
    const void *item = all->to[all->target];
    bool labeled = true;
    e->weight[e->rows] = all->weight < 0 ? 1 : (double)*(const float *)all->to[all->weight];
    if (kind_of(e) == &et_target_classes) {
        e->class[e->rows] = *(const int32_t *)item;
        return e->class[e->rows] >= 0;
    }
    for (int64_t i = 0; i < e->targets; i++) {
        double *to = &e->target[e->rows * e->targets + i];
        *to = all->written >= 0 ? et_encoded_written(all->to[all->written], i)
                                : (double)((const float *)item)[i];
        labeled &= !isnan(*to);
    }
    return labeled;
}

static int copy_cells(et_explain *e, const et_cell *cells, et_error *error)
{
    const int count = et_encoder_cells(encoder_of(e));
    et_assert(cells);
    et_cell *to = e->cells + e->rows * count;
    for (int i = 0; i < count; i++) {
        to[i] = cells[i];
        if (!cells[i].text)
            continue;
        to[i].text = et_arena_strndup(&e->arena, cells[i].text, cells[i].length);
        if (!to[i].text)
            return et_alloc_failed(error, "rows");
    }
    return ET_OK;
}

static int add_row(et_explain *e, et_row_block *block, int64_t i, const items *all,
                   const char *name, et_error *error)
{
    et_block_row *row = &block->row[i];
    const uint32_t number = e->read++, *only = e->options.only;
    if (only && (e->chosen == e->options.only_count || only[e->chosen] != number))
        return ET_OK;
    e->chosen += only != NULL;
    int status =
        row->cells ? ET_OK : et_row_block_parse(block, e->predictors.each[0]->model, i, error);
    if (!status && (size_t)e->rows == e->capacity)
        status = grow(e, error);
    if (!status)
        status = et_encoder_row(encoder_of(e), row->cells, all->to, NULL, error);
    if (status)
        return et_fail_while(error, status, "%s:%lld", name, (long long)row->line);
    if (!take_target(e, all)) {
        e->facts.unlabeled++;
        return ET_OK;
    }
    if (e->rows == ROWS_MAX)
        return et_fail(error, ET_EDATA, "%s: more than %lld rows", name, (long long)ROWS_MAX);
    status = copy_cells(e, row->cells, error);
    e->rows += !status;
    return status;
}

/* path NULL: standard input. */
static int read_file(et_explain *e, const char *path, et_row_block *block, const items *all,
                     et_error *error)
{
    const char *name = path ? path : "standard input";
    et_row_reader *reader = NULL;
    e->options.rows.path = path;
    int status = et_row_reader_open(&reader, &e->options.rows, encoder_of(e), error);
    while (!status && !(status = et_row_reader_next(reader, block, error)) && block->count)
        for (int64_t i = 0; i < block->count && !status; i++)
            status = add_row(e, block, i, all, name, error);
    et_row_reader_close(reader);
    return status;
}

/* Keeps the rows that the seed chooses, in their order. */
static int choose_rows(et_explain *e, et_error *error)
{
    const int64_t most = e->options.most, cells = et_encoder_cells(encoder_of(e));
    e->facts.found = e->rows;
    if (!most || e->rows <= most)
        return ET_OK;
    bool *chosen;
    if (ET_ALLOC_ZERO(chosen, e->rows, "rows", error))
        return ET_ENOMEM;
    const et_random random = { e->options.seed, 0, et_random_site("explain/rows") };
    const et_random_order order = et_random_order_of(random, (uint32_t)e->rows);
    for (int64_t i = 0; i < most; i++)
        chosen[et_random_order_at(&order, (uint32_t)i)] = true;
    int64_t kept = 0;
    for (int64_t row = 0; row < e->rows; row++) {
        if (!chosen[row])
            continue;
        memmove(e->cells + kept * cells, e->cells + row * cells, cells * sizeof *e->cells);
        e->class[kept] = e->class[row];
        e->weight[kept] = e->weight[row];
        memmove(e->target + kept * e->targets, e->target + row * e->targets,
                e->targets * sizeof *e->target);
        kept++;
    }
    e->rows = kept;
    et_free(chosen);
    return ET_OK;
}

static int open_rows(et_explain *e, et_error *error)
{
    const char *const *paths = e->options.paths.count
                                   ? e->options.paths.items
                                   : &(const char *const){ e->options.rows.path };
    const size_t count = e->options.paths.count ? e->options.paths.count : 1;
    const et_encoder *encoder = encoder_of(e);
    et_arena arena = ET_ARENA_INIT;
    et_row_block block;
    e->options.rows.csv = e->predictors.each[0]->model->csv;
    e->options.rows.lenient = false;
    e->options.rows.rows = ET_PREDICTOR_BATCH;
    const items all = { et_encoder_items(encoder, &arena), et_encoder_target(encoder),
                        et_encoder_written(encoder), et_encoder_weight(encoder) };
    int status = et_row_block_open(&block, ET_PREDICTOR_BATCH, encoder, 0, error);
    if (!status && arena.failed)
        status = et_alloc_failed(error, "a row");
    for (size_t i = 0; i < count && !status; i++)
        status = read_file(e, paths[i], &block, &all, error);
    et_arena_release(&arena);
    et_row_block_release(&block);
    if (!status && !e->rows)
        status = et_fail(error, ET_EDATA, "%s: no row has a target: give rows with the column %s",
                         paths[0] ? paths[0] : "standard input",
                         et_encoder_field(encoder, all.target)->column[0]);
    return status ? status : choose_rows(e, error);
}

/* ---- predictions ---- */

/* A change of one field in all rows: each row gets the cell of another row, or all rows get the
 * same value. */
typedef struct change {
    int field;             /* -1: none */
    const uint32_t *order; /* [rows]: the row that a row gets them from; NULL: value */
    const et_cell *value;  /* of a field of one cell */
} change;

typedef struct worker {
    et_explain *e;
    const change *change;
    int number;
    int status;
    et_error error;
    pthread_t thread;
} worker;

static int predict_batch(worker *w, et_predictor *p, et_cell *cells, int64_t first)
{
    et_assert(first >= 0 && first < w->e->rows);
    et_explain *e = w->e;
    const et_encoder *encoder = encoder_of(e);
    const change *c = w->change;
    const int each = et_encoder_cells(encoder);
    const int at = c->field < 0 ? 0 : et_encoder_cell(encoder, c->field);
    const int changed = c->field < 0 ? 0 : et_encoder_cell_count(encoder, c->field);
    const int64_t left = e->rows - first, count = left < p->batch_size ? left : p->batch_size;
    int status = ET_OK;
    for (int64_t i = 0; i < count && !status; i++) {
        const int64_t row = first + i;
        memcpy(cells, e->cells + row * each, each * sizeof *cells);
        if (changed && c->order)
            memcpy(cells + at, e->cells + (int64_t)c->order[row] * each + at,
                   changed * sizeof *cells);
        else if (changed)
            cells[at] = *c->value;
        status = et_predictor_put(p, i, cells, NULL, &w->error);
    }
    if (!status)
        status = et_predictor_run(p, count, &w->error);
    for (int64_t i = 0; i < count && !status; i++) {
        const float *values = et_predictor_values(p, p->target, i);
        status = et_predictor_check(p, i, NULL, &w->error);
        for (int64_t k = 0; k < e->width; k++) {
            e->score[(first + i) * e->width + k] = values[k];
            e->value[(first + i) * e->width + k] = et_predictor_value(p, p->target, i, k);
        }
    }
    return status;
}

/* Predicts every n-th batch, n: the number of workers. */
static void *work(void *payload)
{
    worker *w = payload;
    et_predictor *p = w->e->predictors.each[w->number];
    et_cell *cells = et_alloc(et_encoder_cells(encoder_of(w->e)), sizeof *cells);
    omp_set_num_threads(1);
    if (!cells)
        w->status = et_alloc_failed(&w->error, "a row");
    const int64_t batches = (w->e->rows + p->batch_size - 1) / p->batch_size;
    for (int64_t b = w->number; b < batches && !w->status; b += w->e->predictors.count)
        w->status = predict_batch(w, p, cells, b * p->batch_size);
    et_free(cells);
    return NULL;
}

static int predict(et_explain *e, const change *c, et_error *error)
{
    worker workers[ET_PREDICTORS_MAX];
    const int threads = omp_get_max_threads(), count = e->predictors.count;
    int status = ET_OK, started = 1;
    et_assert(count > 0);
    for (int i = 0; i < count; i++)
        workers[i] = (worker){ .e = e, .change = c, .number = i };
    for (; started < count && !status; started += !status)
        status = et_thread_start(&workers[started].thread, work, &workers[started], error);
    if (!status)
        work(&workers[0]);
    omp_set_num_threads(threads);
    while (--started > 0)
        et_thread_join(workers[started].thread);
    for (int i = 0; i < count && !status; i++)
        if (workers[i].status)
            status = et_fail(error, workers[i].status, "%s", workers[i].error.text);
    return status;
}

/* ---- scores ---- */

static int measure(et_explain *e, const change *c, double *score, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *dict = et_value_dict(&arena);
    int status = dict ? predict(e, c, error) : et_alloc_failed(error, "scores");
    if (!status) {
        /* Uses the names of validation, as `evaluate` does. */
        const et_validation_rows rows = { .rows = e->rows,
                                          .width = e->width,
                                          .targets = e->targets,
                                          .output = e->score,
                                          .class = e->class,
                                          .value = e->value,
                                          .written = e->target,
                                          .weight = e->weight };
        const et_scored_targets of = { .column = e->predictors.each[0]->field->column,
                                       .level = e->level,
                                       .plain = true };
        status = kind_of(e)->score(&of, &rows, dict, error);
    }
    char logged[64];
    snprintf(logged, sizeof logged, ET_LOGGED_OF_VALIDATION "%s", e->facts.metric);
    const et_value *one = status ? NULL : et_value_get(dict, logged);
    et_assert(status || one);
    *score = one ? one->real : NAN;
    et_arena_release(&arena);
    if (!status && isnan(*score))
        status = et_fail(error, ET_EDATA,
                         "%s has no value for these rows: choose another metric, or other rows",
                         e->facts.metric);
    return status;
}

static int find_metric(et_explain *e, et_error *error)
{
    const et_target_kind *kind = kind_of(e);
    /* For quantiles, only scores for which a higher (or a lower) value is always better. A coverage
     * may be too large. */
    const char *const *const best[] = { kind->shown, NULL };
    const char *const *const *names = kind == &et_target_quantiles ? best : kind->scores;
    const char *asked = e->options.metric;
    e->facts.metric = asked ? asked : kind->shown[0];
    e->facts.larger_is_better = !et_metric_lower_is_better(e->facts.metric);
    for (int k = 0; names[k]; k++)
        if (et_is_one_of(e->facts.metric, names[k]))
            return ET_OK;
    et_strbuf list = ET_STRBUF_INIT;
    for (int k = 0; names[k]; k++)
        for (int i = 0; names[k][i]; i++)
            et_strbuf_printf(&list, "%s%s", i || k ? ", " : "", names[k][i]);
    int status = et_fail(error, ET_ECONFIG, "there is no metric %s for this model. Metrics: %s",
                         asked, et_strbuf_text(&list));
    et_strbuf_release(&list);
    return status;
}

/* ---- opening ---- */

int et_explain_open(et_explain **out, const char *model, const et_predictor_options *predictor,
                    const et_explain_options *options, et_error *error)
{
    *out = NULL;
    et_explain *e;
    if (ET_ALLOC_ZERO(e, 1, "an explanation", error))
        return ET_ENOMEM;
    et_assert(options->threads >= 1);
    e->options = *options;
    int status;
    if (!(status = et_predictors_open(&e->predictors, model, predictor, options->threads, error)) &&
        !(status = find_output(e, error)) && !(status = find_metric(e, error)) &&
        !(status = open_rows(e, error))) {
        const size_t cells = (size_t)(e->rows * e->width);
        e->score = et_arena_array(&e->arena, cells, sizeof *e->score);
        e->value = et_arena_array(&e->arena, cells, sizeof *e->value);
        status = e->score && e->value ? ET_OK : et_alloc_failed(error, "predictions");
    }
    if (!status)
        status = measure(e, &(change){ .field = -1 }, &e->facts.score, error);
    e->facts.rows = e->rows;
    if (status)
        et_explain_close(e);
    else
        *out = e;
    return status;
}

void et_explain_close(et_explain *e)
{
    if (!e)
        return;
    et_predictors_close(&e->predictors);
    et_free(e->cells);
    et_free(e->class);
    et_free(e->target);
    et_free(e->weight);
    et_arena_release(&e->arena);
    et_free(e);
}

const et_explain_facts *et_explain_facts_of(const et_explain *e)
{
    return &e->facts;
}

const et_predictor *et_explain_predictor(const et_explain *e)
{
    return e->predictors.each[0];
}

bool et_explain_reads(const et_explain *e, int field)
{
    return et_encoder_reads(encoder_of(e), field, false);
}

/* ---- importance ---- */

int et_explain_importance(et_explain *e, int field, int repeats, double *worse, et_error *error)
{
    et_assert(repeats > 0 && worse);
    const char *name = et_schema_at(et_encoder_schema(encoder_of(e)), field)->name;
    uint32_t *order;
    int status = ET_ALLOC(order, e->rows, "rows", error);
    for (int r = 0; r < repeats && !status; r++) {
        const et_random random = { e->options.seed, (uint64_t)r + 1, et_random_site(name) };
        double score;
        et_random_permutation(random, order, (uint32_t)e->rows);
        status = measure(e, &(change){ .field = field, .order = order }, &score, error);
        worse[r] = e->facts.larger_is_better ? e->facts.score - score : score - e->facts.score;
    }
    et_free(order);
    return status;
}

/* ---- partial dependence ---- */

/* A value of the column, and how many rows have it. */
typedef struct level {
    const et_cell *cell;
    double number; /* NaN: a text */
    int64_t rows;
} level;

static int compare_texts(const et_cell *a, const et_cell *b)
{
    const int order = memcmp(a->text, b->text, a->length < b->length ? a->length : b->length);
    return order ? order : (a->length > b->length) - (a->length < b->length);
}

ET_SORT_BY(by_value, level, ET_UP(number), compare_texts(a->cell, b->cell))

ET_SORT_BY(by_rows, level, ET_DOWN(rows), compare_texts(a->cell, b->cell))

static int64_t take_levels(const et_explain *e, int field, bool numbers, level *levels)
{
    const et_number_format format =
        et_number_format_of(et_schema_at(et_encoder_schema(encoder_of(e)), field));
    const int cells = et_encoder_cells(encoder_of(e)), at = et_encoder_cell(encoder_of(e), field);
    int64_t count = 0;
    for (int64_t row = 0; row < e->rows; row++) {
        const et_cell *cell = &e->cells[row * cells + at];
        double number = NAN;
        if (cell->text && numbers)
            et_notation_parse(&number, &format, cell->text, cell->length);
        if (cell->text && isnan(number) != numbers)
            levels[count++] = (level){ cell, number, 1 };
    }
    qsort(levels, count, sizeof *levels, by_value);
    return count;
}

/* Equal values become one; returns how many differ. */
static int64_t join_levels(level *levels, int64_t count)
{
    int64_t different = 0;
    for (int64_t i = 0; i < count; i++) {
        level *last = different ? &levels[different - 1] : NULL;
        if (last && (last->number == levels[i].number ||
                     (isnan(last->number) && !compare_texts(last->cell, levels[i].cell))))
            last->rows++;
        else
            levels[different++] = levels[i];
    }
    return different;
}

/* Keeps `most` levels of a list sorted by rows. If several levels have as many rows as the last
 * level that fits, levels at equal distances in the list are kept. So the levels of a date cover
 * its whole range. */
static int64_t take_frequent(level *levels, int64_t count, int64_t most)
{
    int64_t first = most - 1, end = most;
    if (count <= most)
        return count;
    while (first && levels[first - 1].rows == levels[most - 1].rows)
        first--;
    while (end < count && levels[end].rows == levels[most - 1].rows)
        end++;
    const int64_t kept = most - first, all = end - first;
    for (int64_t i = 1; i < kept; i++)
        levels[first + i] = levels[first + i * (all - 1) / (kept - 1)];
    return most;
}

static int64_t choose_levels(level *levels, int64_t count, bool numbers, int most)
{
    int64_t different = 0;
    for (int64_t i = 0; i < count; i++)
        different += !i || levels[i].number != levels[i - 1].number;
    if (numbers && different > most) {
        /* From sorted numbers: values at `most` equal distances, each once. */
        int64_t kept = 0;
        for (int i = 0; i < most; i++) {
            const level one = levels[i * (count - 1) / (most - 1)];
            if (!kept || levels[kept - 1].number != one.number)
                levels[kept++] = one;
        }
        return kept;
    }
    count = join_levels(levels, count);
    if (!numbers)
        qsort(levels, count, sizeof *levels, by_rows);
    return numbers ? count : take_frequent(levels, count, most);
}

static int open_partial(et_explain_partial *p, const level *levels, int64_t count, int64_t width,
                        bool numbers, et_error *error)
{
    const size_t points = (size_t)count;
    *p = (et_explain_partial){ .count = (int)count, .width = (int)width, .numbers = numbers };
    p->cells = et_alloc(points, sizeof *p->cells);
    p->number = et_alloc(points, sizeof *p->number);
    p->mean = et_alloc_zero(points * (size_t)width, sizeof *p->mean);
    p->text = p->cells;
    if (!p->cells || !p->number || !p->mean)
        return et_alloc_failed(error, "points");
    for (size_t i = 0; i < points; i++) {
        p->cells[i] = *levels[i].cell;
        p->number[i] = levels[i].number;
    }
    return ET_OK;
}

int et_explain_partial_of(et_explain *e, int field, int most, et_explain_partial *p,
                          et_error *error)
{
    const et_schema_field *of = et_schema_at(et_encoder_schema(encoder_of(e)), field);
    const bool numbers = et_schema_numeric(of);
    *p = (et_explain_partial){ .count = 0 };
    if (of->length != 1)
        return et_fail(error, ET_EUSAGE,
                       "column %s has several values: partial dependence is for one value",
                       of->name);
    et_assert(most >= 2);
    level *levels;
    if (ET_ALLOC(levels, e->rows, "values", error))
        return ET_ENOMEM;
    const int64_t count =
        choose_levels(levels, take_levels(e, field, numbers, levels), numbers, most);
    int status = count ? open_partial(p, levels, count, e->width, numbers, error)
                       : et_fail(error, ET_EUSAGE, "column %s has no value in any row", of->name);
    for (int i = 0; i < p->count && !status; i++) {
        double *mean = p->mean + i * p->width;
        status = predict(e, &(change){ .field = field, .value = &p->cells[i] }, error);
        for (int64_t k = 0; k < e->rows * e->width && !status; k++)
            mean[k % e->width] += e->value[k];
        for (int64_t k = 0; k < e->width; k++)
            mean[k] /= (double)e->rows;
    }
    et_free(levels);
    return status;
}

void et_explain_partial_release(et_explain_partial *p)
{
    et_free(p->cells);
    et_free(p->number);
    et_free(p->mean);
    *p = (et_explain_partial){ .count = 0 };
}
