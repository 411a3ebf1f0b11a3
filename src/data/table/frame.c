/* Schema and metadata of arrays in memory; all values are exact. A column's numbers or texts are
 * sorted once. Then minimum, maximum and quantiles, or entries and counts, are read off. */
#include "data/table/frame.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"

/* Values between which transforms map; more than `etude data analyze` gives, as all are there. */
#define QUANTILES 1001

int et_frame_schema(et_schema **out, const et_frame *frame, et_error *error)
{
    int status = et_frame_check(frame, error);
    if (status)
        return status;
    et_schema_field *fields = et_alloc_zero((size_t)frame->column_count, sizeof *fields);
    if (!fields)
        return et_alloc_failed(error, sizeof *fields, "a schema");
    for (int i = 0; i < frame->column_count; i++) {
        fields[i].name = frame->columns[i].name;
        fields[i].type = et_column_field_type(frame->columns[i].type);
    }
    status = et_schema_create(out, fields, frame->column_count, error);
    et_free(fields);
    return status;
}

/* ---- numbers ---- */

static int by_number(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Interpolates linearly between the two neighbouring values, as numpy does. */
static double quantile(const double *sorted, int64_t count, int i)
{
    double position = (double)i * (double)(count - 1) / (QUANTILES - 1);
    int64_t low = (int64_t)position;
    if (low >= count - 1)
        return sorted[count - 1];
    /* Not from + (to - from) * part, which overflows if they are far apart. */
    const double from = sorted[low], to = sorted[low + 1], part = position - (double)low;
    const double value = from * (1 - part) + to * part;
    return value < from ? from : value > to ? to : value;
}

/* Mean first, then the squares of the differences: no large number is subtracted from a large
 * one. */
static void measure(et_column_metadata *m, const double *sorted, int64_t count)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++)
        sum += sorted[i];
    m->mean = sum / (double)count;
    for (int64_t i = 0; i < count; i++)
        squares += (sorted[i] - m->mean) * (sorted[i] - m->mean);
    m->std = sqrt(squares / (double)count);
    m->min = sorted[0];
    m->max = sorted[count - 1];
    m->has_range = m->has_moments = true;
    if (!isfinite(m->mean) || !isfinite(m->std))
        m->has_moments = false;
}

static int describe_numbers(et_column_metadata *m, const et_frame *frame, int column,
                            et_arena *arena, et_error *error)
{
    double *numbers = et_alloc((size_t)frame->rows, sizeof *numbers);
    double *quantiles = et_arena_array(arena, QUANTILES, sizeof *quantiles);
    int status = numbers && quantiles
                     ? ET_OK
                     : et_alloc_failed(error, (size_t)frame->rows * sizeof *numbers, "metadata");
    for (int64_t i = 0; !status && i < frame->rows; i++) {
        et_reading value = et_frame_value(&frame->columns[column], i);
        if (!value.missing && !isfinite(value.number))
            status =
                et_fail(error, ET_EDATA, "column %.60s, row %lld: %g is not finite: correct it",
                        m->name, (long long)i + 1, value.number);
        if (!value.missing)
            numbers[m->count++] = value.number;
    }
    m->missing = frame->rows - m->count;
    if (!status && m->count) {
        qsort(numbers, (size_t)m->count, sizeof *numbers, by_number);
        measure(m, numbers, m->count);
        for (int i = 0; i < QUANTILES; i++)
            quantiles[i] = quantile(numbers, m->count, i);
        m->quantiles = quantiles;
        m->quantile_count = QUANTILES;
    }
    et_free(numbers);
    return status;
}

/* ---- texts ---- */

static int by_bytes(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static int describe_texts(et_column_metadata *m, const et_frame *frame, int column, et_arena *arena,
                          et_error *error)
{
    const char *const *from = frame->columns[column].data;
    const char **texts = et_arena_array(arena, (size_t)frame->rows, sizeof *texts);
    int64_t *counts = et_arena_array(arena, (size_t)frame->rows, sizeof *counts);
    if (!texts || !counts)
        return et_alloc_failed(error, (size_t)frame->rows * sizeof *texts, "metadata");
    for (int64_t i = 0; i < frame->rows; i++)
        if (from[i])
            texts[m->count++] = from[i];
    m->missing = frame->rows - m->count;
    qsort(texts, (size_t)m->count, sizeof *texts, by_bytes);
    for (int64_t i = 0; i < m->count; i++) {
        if (!m->entry_count || strcmp(texts[m->entry_count - 1], texts[i]))
            texts[m->entry_count++] = texts[i];
        counts[m->entry_count - 1]++;
    }
    m->entries = texts;
    m->counts = counts;
    m->distinct = m->entry_count;
    return ET_OK;
}

int et_frame_metadata(et_metadata **out, const et_frame *frame, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    int status = et_frame_check(frame, error), count = frame->column_count;
    et_column_metadata *columns =
        status ? NULL : et_arena_array(&arena, (size_t)count, sizeof *columns);
    if (!status && !columns)
        status = et_alloc_failed(error, (size_t)count * sizeof *columns, "metadata");
    for (int i = 0; !status && i < count; i++) {
        columns[i].name = frame->columns[i].name;
        status = frame->columns[i].type == ET_COLUMN_CATEGORY
                     ? describe_texts(&columns[i], frame, i, &arena, error)
                     : describe_numbers(&columns[i], frame, i, &arena, error);
    }
    if (!status)
        status = et_metadata_create(out, columns, count, error);
    et_arena_release(&arena);
    return status;
}
