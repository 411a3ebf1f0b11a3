/* A transform has three functions. fit computes its parameters from schema, metadata and spec.
 * apply writes the columns of a value; it computes in double and stores float32, and a result that
 * is not finite is an error, so no NaN enters a model. emit adds the same arithmetic to an ONNX
 * model, in the same order and in double.
 *
 * standardize, scale and identity are one linear function, base + (x - offset) / divisor * span. A
 * constant column has span 0 and divisor 1, so nothing is divided by zero. */
#include "data/table/features/encoder_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/numbers/decimal.h"
#include "data/table/features/transforms.h"
#include "data/table/schema/date_text.h"
#include "data/table/schema/notation.h"

/* The largest number of classes that are integers from min to max, without entries. */
#define RANGE_CLASSES_MAX 65536

/* ---- entries ---- */

/* Makes a dictionary of the column's entries. Skips entries with fewer rows than minimum_count.
 * NULL: no entries, and a problem was added. */
static const et_dictionary *entries(const et_fitting *with)
{
    const et_column_metadata *m = with->metadata;
    const int64_t least = with->spec->minimum_count;
    if (m->entry_count < 1 && m->cut) {
        et_fitting_problem(with,
                           "%lld of %lld values of %s differ, so the metadata has no vocabulary "
                           "for this column: use the transform hash",
                           (long long)m->distinct, (long long)m->count, with->field->name);
        return NULL;
    }
    if (m->entry_count < 1 && m->count && with->field->type == ET_SCHEMA_INTEGER) {
        et_fitting_problem(with,
                           "the metadata has no entries of %s, which %s needs, as the column is "
                           "integer: make the column discrete in a schema file (task.schema_path)",
                           with->field->name, et_transform_name(with->spec->type));
        return NULL;
    }
    if (m->entry_count < 1 || (least && !m->counts)) {
        et_fitting_lacks(with, m->entry_count < 1 ? "entries" : "counts");
        return NULL;
    }
    const char **kept = et_arena_array(with->arena, m->entry_count, sizeof *kept);
    int count = 0;
    for (int i = 0; kept && i < m->entry_count; i++)
        if (!least || m->counts[i] >= least)
            kept[count++] = m->entries[i];
    return kept ? et_dictionary_new(with->arena, kept, count) : NULL;
}

/* ---- common functions of apply ---- */

static void clear_columns(const et_fitted_transform *fitted, void *to)
{
    memset(to, 0, fitted->width * sizeof(float));
}

static void put_one(void *to, int64_t column)
{
    static const float one = 1;
    memcpy((float *)to + column, &one, sizeof one);
}

static int put_id(void *to, int64_t id)
{
    int32_t value = (int32_t)id;
    memcpy(to, &value, sizeof value);
    return ET_OK;
}

static const char *minus(et_onnx *to, const char *x, const char *y)
{
    return et_onnx_call(to, "Sub", x, y);
}

/* Whether the text of an integer equals the printed integer: no +, no leading 0, no point. */
static bool is_plain(const char *text, size_t length)
{
    bool minus = length && text[0] == '-';
    text += minus;
    length -= minus;
    if (!length || length > 15 || (text[0] == '0' && (length > 1 || minus)))
        return false;
    for (size_t i = 0; i < length; i++)
        if (text[i] < '0' || text[i] > '9')
            return false;
    return true;
}

/* How many whole y are in x. */
static const char *whole(et_onnx *to, const char *x, double y)
{
    return et_onnx_call(to, "Floor", et_onnx_call(to, "Div", x, et_emit_number(to, y)));
}

const char *et_level_text(const et_reading *value, char buffer[32], size_t *length)
{
    *length = value->length;
    if (!value->numeric || (value->text && is_plain(value->text, value->length)))
        return value->text;
    const bool whole = value->number == floor(value->number);
    int size = et_decimal_print(buffer, 32, whole ? 0 : 17, whole,
                                value->number == 0 ? 0.0 : value->number);
    if (size >= 32)
        size = et_decimal_print(buffer, 32, 17, 0, value->number);
    *length = (size_t)size;
    return buffer;
}

/* The index of a value among the labels; -1: unknown. The value is not missing. */
static int label_of(const et_fitted_transform *fitted, const et_reading *value)
{
    char buffer[32];
    size_t length;
    if (value->numeric && value->number != floor(value->number))
        return -1;
    const char *text = et_level_text(value, buffer, &length);
    return et_dictionary_find(fitted->labels, text, length);
}

static uint64_t hash_of(const et_reading *value)
{
    double number = value->number == 0 ? 0.0 : value->number; /* -0 is 0 */
    return value->numeric ? et_checksum(&number, sizeof number)
                          : et_checksum(value->text, value->length);
}

/* ---- common functions of emit ---- */

static const char *refuse(et_emitting *e, const char *why)
{
    e->refused = why;
    return NULL;
}

/* ---- lines: identity, scale, standardize ---- */

static int apply_line(const et_fitted_transform *f, const et_reading *value, void *to,
                      et_error *error)
{
    double x = value->number;
    if (value->missing)
        return et_put_number(to, f->missing, 0, error);
    return et_put_number(to, f->base + (x - f->offset) / f->divisor * f->span, x, error);
}

static const char *emit_line(et_emitting *e)
{
    return et_emit_cast(
        e->to,
        et_emit_with_each(e, "Add", et_emit_deviation(e), offsetof(et_fitted_transform, base)),
        ET_ONNX_F32);
}

static void fit_scale(et_fitted_transform *fitted, const et_fitting *with)
{
    const et_column_metadata *m = with->metadata;
    bool usual = with->spec->minimum == 0 && with->spec->maximum == 0;
    double low = usual ? 0 : with->spec->minimum, high = usual ? 1 : with->spec->maximum;
    et_fit_line(fitted, with);
    if (!m->has_range) {
        et_fitting_lacks(with, "min and max");
        return;
    }
    bool constant = !(m->min < m->max) || !isfinite(m->max - m->min);
    fitted->offset = m->min;
    fitted->divisor = constant ? 1 : m->max - m->min;
    fitted->span = constant ? 0 : high - low;
    fitted->base = low;
    fitted->missing = low + (high - low) / 2;
}

/* ---- other numbers: log, missing ---- */

static int apply_log(const et_fitted_transform *f, const et_reading *value, void *to,
                     et_error *error)
{
    (void)f;
    double x = value->number;
    if (value->missing)
        return et_put_number(to, 0, 0, error);
    if (x <= -1)
        return et_fail(
            error, ET_EDATA,
            "ln(x + 1) of %g is not a number: correct the value, or choose another transform", x);
    return et_put_number(to, log1p(x), x, error);
}

/* ln(u) - ((u - 1) - x) / u with u = x + 1 has log1p's precision. */
static const char *emit_log(et_emitting *e)
{
    et_onnx *to = e->to;
    const char *one = et_emit_number(to, 1), *u = et_onnx_call(to, "Add", e->x, one);
    const char *rounding = et_onnx_call(to, "Sub", et_onnx_call(to, "Sub", u, one), e->x);
    const char *y =
        et_onnx_call(to, "Sub", et_onnx_call(to, "Log", u), et_onnx_call(to, "Div", rounding, u));
    return et_emit_cast(to, y, ET_ONNX_F32);
}

static void fit_missing(et_fitted_transform *fitted, const et_fitting *with)
{
    const char **names = et_fit_columns(fitted, with, 1);
    if (names)
        names[0] = et_arena_printf(with->arena, "%s is missing", with->name);
}

static int apply_missing(const et_fitted_transform *f, const et_reading *value, void *to,
                         et_error *error)
{
    (void)f;
    return et_put_number(to, value->missing, 0, error);
}

static const char *emit_missing(et_emitting *e)
{
    return et_onnx_float(e->to, 0);
}

/* ---- one of several columns: bucketize, one-hot ---- */

/* For a list, the columns of all its values are 1. */

static size_t count_of(const et_reading *value)
{
    return value->missing ? 0 : value->list ? value->count : 1;
}

static const et_reading *value_at(const et_reading *value, size_t i)
{
    return value->list ? &value->list[i] : value;
}

static void fit_bucketize(et_fitted_transform *fitted, const et_fitting *with)
{
    int n = with->spec->boundary_count;
    const double *b = with->spec->boundaries;
    const char **names = et_fit_columns(fitted, with, n + 1);
    double *points = et_arena_array(with->arena, n, sizeof *points);
    if (!names || !points)
        return;
    memcpy(points, b, n * sizeof *points);
    fitted->point = points;
    fitted->points = n;
    names[0] = et_arena_printf(with->arena, "%s < %g", with->name, b[0]);
    for (int i = 1; i < n; i++)
        names[i] = et_arena_printf(with->arena, "%g <= %s < %g", b[i - 1], with->name, b[i]);
    names[n] = et_arena_printf(with->arena, "%s >= %g", with->name, b[n - 1]);
}

static int apply_bucketize(const et_fitted_transform *f, const et_reading *value, void *to,
                           et_error *error)
{
    (void)error;
    clear_columns(f, to);
    for (size_t i = 0; i < count_of(value); i++)
        put_one(to, et_fitted_points_below(f, value_at(value, i)->number, true));
    return ET_OK;
}

static const char *emit_bucketize(et_emitting *e)
{
    const et_fitted_transform *f = e->fitted[0];
    const char *points = et_onnx_doubles(e->to, f->point, f->points);
    const char *index = et_emit_count(e->to, et_onnx_call(e->to, "LessOrEqual", points, e->x));
    return et_emit_one_hot(e->to, index, f->width);
}

static void fit_one_hot(et_fitted_transform *fitted, const et_fitting *with)
{
    fitted->labels = entries(with);
    int n = fitted->labels ? fitted->labels->count : 0;
    const char **names = et_fit_columns(fitted, with, (int64_t)n + 1);
    if (!fitted->labels || !names)
        return;
    for (int i = 0; i < n; i++)
        names[i] = et_arena_printf(with->arena, "%s: %s", with->name, fitted->labels->texts[i]);
    names[n] = et_arena_printf(with->arena, "%s: another", with->name);
}

static int apply_one_hot(const et_fitted_transform *f, const et_reading *value, void *to,
                         et_error *error)
{
    (void)error;
    clear_columns(f, to);
    for (size_t i = 0; i < count_of(value); i++) {
        int index = label_of(f, value_at(value, i));
        put_one(to, index < 0 ? f->width - 1 : index);
    }
    if (value->missing)
        put_one(to, f->width - 1);
    return ET_OK;
}

/* A whole double below this is an int64. */
#define INT64_END 9223372036854775808.0

/* Lists the labels that label_of can find, as numbers, and their indices. keys and indices have
 * room for all labels. Returns their number; -1: a number is not an int64. */
static int number_labels(const et_fitted_transform *f, int64_t *keys, int64_t *indices)
{
    int count = 0;
    for (int i = 0; i < f->labels->count; i++) {
        const char *text = f->labels->texts[i];
        et_reading value = { .numeric = true };
        if (!et_number_is(et_number_parse(&value.number, text, strlen(text))) ||
            label_of(f, &value) != i)
            continue;
        if (fabs(value.number) >= INT64_END)
            return -1;
        keys[count] = (int64_t)value.number;
        indices[count++] = i;
    }
    return count;
}

/* Looks up x among keys [count]: the index, int64 [rows, 1], or unknown. x that is not a whole
 * number of 64 bits is unknown. */
static const char *emit_encoder(const et_emitting *e, const int64_t *keys, const int64_t *indices,
                                int count, int64_t unknown)
{
    et_onnx *to = e->to;
    const char *whole = et_onnx_call(to, "Equal", et_onnx_call(to, "Floor", e->x), e->x);
    const char *fits =
        et_onnx_call(to, "Less", et_onnx_call(to, "Abs", e->x), et_emit_number(to, INT64_END));
    const char *sound = et_onnx_call(to, "And", whole, fits);
    const char *x = et_onnx_call(to, "Where", sound, e->x, et_emit_number(to, 0));
    const char *index = et_onnx_call(to, "LabelEncoder", et_emit_cast(to, x, ET_ONNX_I64));
    et_onnx_use_ml(to);
    et_onnx_set_ints(to, "keys_int64s", keys, count);
    et_onnx_set_ints(to, "values_int64s", indices, count);
    et_onnx_set_int(to, "default_int64", unknown);
    return et_onnx_call(to, "Where", sound, index, et_onnx_int(to, unknown));
}

static const char *emit_number_labels(et_emitting *e, int64_t unknown)
{
    const et_fitted_transform *f = e->fitted[0];
    const size_t room = (size_t)f->labels->count;
    int64_t *keys = et_alloc(2 * room, sizeof *keys), *indices = keys ? keys + room : NULL;
    int count = keys ? number_labels(f, keys, indices) : 0;
    const char *index = count > 0 ? emit_encoder(e, keys, indices, count, unknown)
                        : count   ? refuse(e, "a category is a number beyond 64 bits")
                                  : refuse(e, "no category is a whole number");
    et_free(keys);
    return index;
}

/* label_of as nodes: the index, int64 [rows, 1], or unknown. */
static const char *emit_labels(et_emitting *e, int64_t unknown)
{
    const et_dictionary *labels = e->fitted[0]->labels;
    const int count = labels->count;
    if (!e->text)
        return emit_number_labels(e, unknown);
    int64_t *indices = et_alloc(count, sizeof *indices);
    for (int i = 0; indices && i < count; i++)
        indices[i] = i;
    const char *index = et_onnx_call(e->to, "LabelEncoder", indices ? e->x : NULL);
    et_onnx_use_ml(e->to);
    et_onnx_set_texts(e->to, "keys_strings", labels->texts, count);
    et_onnx_set_ints(e->to, "values_int64s", indices, count);
    et_onnx_set_int(e->to, "default_int64", unknown);
    et_free(indices);
    return index;
}

static const char *emit_one_hot(et_emitting *e)
{
    const int64_t width = e->fitted[0]->width;
    return et_emit_one_hot(e->to, emit_labels(e, width - 1), width);
}

/* ---- ids: embed, hash, cross ---- */

static void fit_embed(et_fitted_transform *fitted, const et_fitting *with)
{
    et_fit_one_column(fitted, with);
    fitted->labels = entries(with);
    fitted->cardinality = (fitted->labels ? (int64_t)fitted->labels->count : 0) + 2;
    fitted->unknown = fitted->cardinality - 2;
}

static int apply_embed(const et_fitted_transform *f, const et_reading *value, void *to,
                       et_error *error)
{
    (void)error;
    int index = value->missing ? -1 : label_of(f, value);
    return put_id(to, value->missing ? f->cardinality - 1 : index < 0 ? f->unknown : index);
}

static const char *emit_embed(et_emitting *e)
{
    return emit_labels(e, e->fitted[0]->unknown);
}

static void fit_hash(et_fitted_transform *fitted, const et_fitting *with)
{
    et_fit_one_column(fitted, with);
    fitted->cardinality = with->spec->buckets + 1;
    fitted->unknown =
        with->spec->buckets; /* the ID of a missing value; no other value is unknown */
}

static int apply_hash(const et_fitted_transform *f, const et_reading *value, void *to,
                      et_error *error)
{
    (void)error;
    uint64_t buckets = (uint64_t)f->cardinality - 1;
    return put_id(to, (int64_t)(value->missing ? buckets : hash_of(value) % buckets));
}

static void fit_cross(et_fitted_transform *fitted, const et_fitting *with)
{
    const char **names = et_fit_columns(fitted, with, 1);
    if (names)
        names[0] = with->spec->name;
    fitted->cardinality = with->spec->buckets + 1;
    fitted->unknown = with->spec->buckets; /* the id of a missing value: no value is unknown */
}

/* Hashes the hashes of the values. Joined texts would be ambiguous: one text could equal the texts
 * of two fields. */
static int apply_cross(const et_fitted_transform *f, const et_reading *values, void *to,
                       et_error *error)
{
    (void)error;
    uint64_t buckets = (uint64_t)f->cardinality - 1, hash = (uint64_t)f->inputs;
    bool missing = true;
    for (int i = 0; i < f->inputs; i++) {
        uint64_t both[] = { hash, values[i].missing ? 0 : hash_of(&values[i]), values[i].missing };
        hash = et_checksum(both, sizeof both);
        missing &= values[i].missing;
    }
    return put_id(to, (int64_t)(missing ? buckets : hash % buckets));
}

static const char *emit_hash(et_emitting *e)
{
    return refuse(e, "ONNX has no operator for the hash of a value");
}

#define emit_cross emit_hash

/* ---- dates ---- */

/* The transform date: the year as a number, and every other part as its position in its cycle, with
 * sine and cosine. A time of day has only hour and minute. Years from the first to the last year of
 * the metadata become numbers from -1 to 1, so that a few years differ as much as other numbers.
 * Without these years, the number is (year - 1970) / 100. */

#define PART_COUNT 6
#define TIME_PART  4 /* the first part of a time of day */

const char *const et_date_parts[] = { "year", "month", "day", "weekday", "hour", "minute", NULL };

/* Length of the cycle of each part; the year has no cycle. */
static const int cycle[PART_COUNT] = { 0, 12, 31, 7, 24, 60 };

static void fit_date(et_fitted_transform *fitted, const et_fitting *with)
{
    const et_feature_spec *spec = with->spec;
    const et_column_metadata *m = with->metadata;
    const bool years = m->last_year > m->first_year;
    fitted->offset = years ? (double)(m->first_year + m->last_year) / 2 : 1970;
    fitted->divisor = years ? (double)(m->last_year - m->first_year) / 2 : 100;
    fitted->order = spec->order ? spec->order : with->metadata->order;
    for (int k = 0; k < PART_COUNT; k++) {
        bool chosen = !spec->part_count && (fitted->order != ET_DATE_TIME || k >= TIME_PART);
        for (int i = 0; i < spec->part_count; i++)
            chosen |= !strcmp(spec->parts[i], et_date_parts[k]);
        fitted->parts |= (unsigned)chosen << k;
        fitted->width += !chosen ? 0 : cycle[k] ? 3 : 1;
    }
    const char **names = et_arena_array(with->arena, fitted->width, sizeof *names);
    fitted->column = names;
    for (int k = 0; names && k < PART_COUNT; k++) {
        if (!(fitted->parts >> k & 1))
            continue;
        *names++ = et_arena_printf(with->arena, "%s: %s", with->name, et_date_parts[k]);
        if (!cycle[k])
            continue;
        *names++ = et_arena_printf(with->arena, "%s: sine of %s", with->name, et_date_parts[k]);
        *names++ = et_arena_printf(with->arena, "%s: cosine of %s", with->name, et_date_parts[k]);
    }
}

/* Columns of a cyclic part with that value. */
static float *put_part(float *out, int k, int value)
{
    static const double turn = 6.283185307179586;
    double position = (double)value / cycle[k];
    *out++ = (float)position;
    *out++ = (float)sin(turn * position);
    *out++ = (float)cos(turn * position);
    return out;
}

static int apply_date(const et_fitted_transform *f, const et_reading *value, void *to,
                      et_error *error)
{
    et_date when;
    float *out = to;
    if (value->missing) {
        clear_columns(f, to);
        return ET_OK;
    }
    if (value->numeric && !et_date_of_seconds(&when, value->number))
        return et_fail(error, ET_EDATA,
                       "%g is not a time in seconds since 1970 (years 0 to 9999): correct it; "
                       "divide milliseconds by 1,000",
                       value->number);
    if (!value->numeric && !et_date_read(&when, value->text, value->length, f->order)) {
        const int length = (int)(value->length < 40 ? value->length : 40);
        et_date other;
        if (f->order == ET_DATE_TIME)
            return et_fail(error, ET_EDATA,
                           "\"%.*s\" is not a time of day: write 14:30 or 14:30:59", length,
                           value->text);
        if (et_date_read(&other, value->text, value->length,
                         f->order == ET_DATE_DAY_FIRST ? ET_DATE_MONTH_FIRST : ET_DATE_DAY_FIRST))
            return et_fail(error, ET_EDATA,
                           "\"%.*s\" is not a date with the %s first, as in the rows that were "
                           "analyzed: correct it, or write 2024-05-31",
                           length, value->text, f->order == ET_DATE_DAY_FIRST ? "day" : "month");
        return et_fail(error, ET_EDATA,
                       "\"%.*s\" is not a date: write 2024-05-31 or 2024-05-31T12:30:00", length,
                       value->text);
    }
    const int part[PART_COUNT] = { when.year,    when.month, when.day,
                                   when.weekday, when.hour,  when.minute };
    for (int k = 0; k < PART_COUNT; k++)
        if (!(f->parts >> k & 1))
            continue;
        else if (cycle[k])
            out = put_part(out, k, part[k]);
        else
            *out++ = (float)((part[k] - f->offset) / f->divisor);
    et_assert_equal(out - (float *)to, f->width);
    return ET_OK;
}

/* ---- as nodes ---- */

static const char *plus(et_onnx *to, const char *x, double y)
{
    return et_onnx_call(to, "Add", x, et_emit_number(to, y));
}

static const char *times(et_onnx *to, const char *x, double y)
{
    return et_onnx_call(to, "Mul", x, et_emit_number(to, y));
}

/* The remainder of x. */
static const char *rest(et_onnx *to, const char *x, const char *count, double y)
{
    return minus(to, x, times(to, count, y));
}

/* Year, month and day from the days since 1970. Years are counted from March, so that a leap day is
 * the last day of a year. From March on, each five months have 153 days. */
static void emit_calendar(et_onnx *to, const char *days, const char *part[PART_COUNT])
{
    const char *since = plus(to, days, 719468), *era = whole(to, since, 146097);
    const char *day = rest(to, since, era, 146097); /* of 400 years */
    const char *leaps = minus(to, whole(to, day, 1460), whole(to, day, 36524));
    leaps = et_onnx_call(to, "Add", leaps, whole(to, day, 146096));
    const char *year = whole(to, minus(to, day, leaps), 365); /* of 400 */
    const char *before = et_onnx_call(to, "Add", times(to, year, 365), whole(to, year, 4));
    day = minus(to, day, minus(to, before, whole(to, year, 100))); /* of the year */
    const char *month = whole(to, plus(to, times(to, day, 5), 2), 153);
    day = minus(to, day, whole(to, plus(to, times(to, month, 153), 2), 5));
    const char *next = et_onnx_call(to, "Less", et_emit_number(to, 9.5), month); /* January on */
    next = et_emit_cast(to, next, ET_ONNX_F64);
    year = et_onnx_call(to, "Add", year, times(to, era, 400));
    part[0] = et_onnx_call(to, "Add", year, next);
    part[1] = plus(to, rest(to, month, next, 12), 2);
    part[2] = day;
}

/* The columns of a part, float32 [rows, 1 or 3]. A cyclic part is looked up in a table of all its
 * values. */
static const char *emit_part(et_onnx *to, const et_fitted_transform *f, int k, const char *part)
{
    float table[3 * 60], *end = table;
    if (!cycle[k])
        return et_emit_cast(
            to, et_onnx_call(to, "Div", plus(to, part, -f->offset), et_emit_number(to, f->divisor)),
            ET_ONNX_F32);
    for (int i = 0; i < cycle[k]; i++)
        end = put_part(end, k, i);
    et_assert_equal(end - table, 3 * cycle[k]);
    return et_onnx_call(to, "Gather", et_onnx_array(to, table, et_shape_2(cycle[k], 3)),
                        et_emit_flat(to, et_emit_cast(to, part, ET_ONNX_I64)));
}

static const char *emit_date(et_emitting *e)
{
    et_onnx *to = e->to;
    const char *part[PART_COUNT], *columns[PART_COUNT];
    int count = 0;
    const char *sound = et_onnx_call(
        to, "And",
        et_onnx_call(to, "GreaterOrEqual", e->x, et_emit_number(to, ET_DATE_SECONDS_LEAST)),
        et_onnx_call(to, "Less", e->x, et_emit_number(to, ET_DATE_SECONDS_END)));
    const char *seconds = et_onnx_call(to, "Where", sound, e->x, et_emit_number(to, 0));
    const char *days = whole(to, seconds, ET_DATE_DAY);
    const char *minutes = whole(to, rest(to, seconds, days, ET_DATE_DAY), 60);
    emit_calendar(to, days, part);
    part[3] = plus(to, days, 3);
    part[3] = rest(to, part[3], whole(to, part[3], 7), 7);
    part[4] = whole(to, minutes, 60);
    part[5] = rest(to, minutes, part[4], 60);
    for (int k = 0; k < PART_COUNT; k++)
        if (e->fitted[0]->parts >> k & 1)
            columns[count++] = emit_part(to, e->fitted[0], k, part[k]);
    const char *all = et_onnx_node(to, "Concat", columns, count);
    et_onnx_set_int(to, "axis", 1);
    return et_onnx_call(to, "Where", sound, all, et_onnx_float(to, NAN));
}

/* ---- target ---- */

/* Whether a label is a word, in letters of either case. */
static bool is_word(const char *label, const char *word)
{
    for (; *word && (*label | 32) == *word; word++)
        label++;
    return !*word && !*label;
}

bool et_label_is_positive(const char *label, const char *other)
{
    static const char *const words[] = { "true", "yes", "y", "t", "positive", "pos", NULL };
    double number, second;
    if (et_number_is(et_number_parse(&number, label, strlen(label))) &&
        et_number_is(et_number_parse(&second, other, strlen(other))))
        return number > second;
    for (int i = 0; words[i]; i++)
        if (is_word(label, words[i]))
            return true;
    return false;
}

/* Each integer from min to max is a class. */
static void fit_range_classes(et_fitted_transform *fitted, const et_fitting *with)
{
    const et_column_metadata *m = with->metadata;
    double count = m->max - m->min + 1;
    if (m->min != floor(m->min) || !(count >= 2 && count <= RANGE_CLASSES_MAX)) {
        et_fitting_problem(with,
                           "%s has integers from %g to %g; classes need 2 to %d different numbers",
                           with->field->name, m->min, m->max, RANGE_CLASSES_MAX);
        return;
    }
    fitted->offset = m->min;
    fitted->cardinality = (int64_t)count;
    const char **names = et_fit_columns(fitted, with, fitted->cardinality);
    for (int64_t i = 0; names && i < fitted->cardinality; i++)
        names[i] = et_arena_printf(with->arena, "%.0f", m->min + (double)i);
}

/* `column` gets the labels of all classes, although width is 1. */
static void fit_classes(et_fitted_transform *fitted, const et_fitting *with)
{
    const et_column_metadata *m = with->metadata;
    if (with->field->type == ET_SCHEMA_REAL)
        et_fitting_problem(with, "%s is real; classes must be texts or integers",
                           with->field->name);
    else if (m->cut)
        et_fitting_problem(
            with, "%s has more different values than the metadata keeps (%d): too many for classes",
            with->field->name, m->entry_count);
    else if (m->entry_count == 1 && m->missing)
        et_fitting_problem(
            with,
            "%s has only one class, \"%.40s\", and %lld rows have no value: " ET_CSV_MISSING_HINT,
            with->field->name, m->entries[0], (long long)m->missing);
    else if (m->entry_count == 1)
        et_fitting_problem(with, "%s has only one class, \"%.40s\": there is nothing to learn",
                           with->field->name, m->entries[0]);
    else if (!m->entry_count && m->has_range && with->field->type == ET_SCHEMA_INTEGER)
        fit_range_classes(fitted, with);
    else {
        fitted->labels = entries(with);
        fitted->cardinality = m->entry_count;
        fitted->column = fitted->labels ? fitted->labels->texts : NULL;
    }
    fitted->width = 1;
}

/* Orders the labels of a target with two classes as no, yes, if there are other targets. */
static void fit_beside(et_fitted_transform *fitted, const et_fitting *with)
{
    if (fitted->cardinality != 2) {
        et_fitting_problem(with,
                           "%s has %d classes, and several targets have two classes each or are "
                           "numbers: train a run for each target, or make numbers of its classes",
                           with->field->name, (int)fitted->cardinality);
        return;
    }
    fitted->beside = true;
    fitted->yes = !et_label_is_positive(fitted->column[0], fitted->column[1]);
    const char **names = et_arena_array(with->arena, 2, sizeof *names);
    for (int i = 0; names && i < 2; i++)
        names[i] = fitted->column[i == fitted->yes];
    fitted->column = names;
}

static void fit_target(et_fitted_transform *fitted, const et_fitting *with)
{
    const et_column_metadata *m = with->metadata;
    const bool classes = with->field->type == ET_SCHEMA_DISCRETE || with->spec->classes;
    if (classes)
        fit_classes(fitted, with);
    else
        et_fit_line(fitted, with);
    if (classes && with->spec->field_count > 1 && fitted->column)
        fit_beside(fitted, with);
    if (!classes && with->exact && m->has_moments && isfinite(m->mean)) {
        /* Standardizes exact values. The deviation of constant values is 0 or a rounding error, and
         * any divisor works. */
        fitted->offset = m->mean;
        fitted->divisor = m->std > 0 && isfinite(m->std) ? m->std : 1;
    }
    fitted->missing = NAN;
}

static int apply_target(const et_fitted_transform *f, const et_reading *value, void *to,
                        et_error *error)
{
    if (!f->cardinality)
        return value->missing ? (memcpy(to, &(float){ NAN }, sizeof(float)), ET_OK)
                              : apply_line(f, value, to, error);
    if (value->missing)
        return f->beside ? (memcpy(to, &(float){ NAN }, sizeof(float)), ET_OK) : put_id(to, -1);
    double index = f->labels ? label_of(f, value) : value->number - f->offset;
    if (!(index >= 0 && index < (double)f->cardinality && index == floor(index))) {
        char number[32];
        snprintf(number, sizeof number, "%g", value->number);
        int length = value->text ? (int)(value->length < 40 ? value->length : 40) : 40;
        return et_fail(error, ET_EDATA,
                       "the label \"%.*s\" is not one of the %d in the metadata (%.40s, %.40s%s): "
                       "correct the label, or train another run on rows with this label",
                       length, value->text ? value->text : number, (int)f->cardinality,
                       f->column[0], f->column[1], f->cardinality > 2 ? ", ..." : "");
    }
    if (!f->beside)
        return put_id(to, (int64_t)index);
    const float yes = (int)index == f->yes;
    memcpy(to, &yes, sizeof yes);
    return ET_OK;
}

/* ---- weight ---- */

static int apply_weight(const et_fitted_transform *f, const et_reading *value, void *to,
                        et_error *error)
{
    (void)f;
    if (value->missing)
        return et_fail(error, ET_EDATA,
                       "the weight of the row is missing: fill it in, 0 to leave the row out");
    if (value->number < 0)
        return et_fail(error, ET_EDATA, "a weight of %g: give a number of at least 0",
                       value->number);
    return et_put_number(to, value->number, value->number, error);
}

/* ---- a numeric target as in the file ---- */

static void fit_written(et_fitted_transform *fitted, const et_fitting *with)
{
    et_fit_line(fitted, with);
    fitted->width = sizeof(double) / sizeof(float);
    fitted->column = NULL;
}

static int apply_written(const et_fitted_transform *f, const et_reading *value, void *to,
                         et_error *error)
{
    const double number = value->missing ? NAN : value->number;
    (void)f, (void)error;
    memcpy(to, &number, sizeof number);
    return ET_OK;
}

const et_transform_row et_transform_written = { "written", ET_OVER_NUMBERS, ET_GIVES_TARGET,
                                                0,         fit_written,     apply_written,
                                                NULL };

static const char *emit_words(et_emitting *e)
{
    return refuse(e, "ONNX has no operator for the words of a text");
}

/* ---- the table ---- */

#define fit_log    et_fit_one_column
#define fit_weight et_fit_one_column

/* Linear transforms differ only in fit. */
#define fit_identity      et_fit_line
#define apply_identity    apply_line
#define emit_identity     emit_line
#define apply_scale       apply_line
#define emit_scale        emit_line
#define fit_standardize   et_fit_standardize
#define apply_standardize apply_line
#define emit_standardize  emit_line

/* transforms_quantiles.c */
#define fit_quantile   et_fit_quantile
#define apply_quantile et_apply_quantile
#define emit_quantile  et_emit_quantile
#define fit_robust     et_fit_robust
#define apply_robust   et_apply_robust
#define emit_robust    et_emit_robust
#define fit_clip       et_fit_clip
#define apply_clip     et_apply_clip
#define emit_clip      et_emit_clip

/* words.c */
#define fit_words   et_words_fit
#define apply_words et_words_apply

#define fit_none    NULL
#define apply_none  NULL
#define emit_none   NULL
#define emit_target NULL
#define emit_weight NULL

const et_transform_row et_transform_rows[ET_TRANSFORM_COUNT] = {
#define TRANSFORM(constant, function, word, over, gives, takes)                                    \
    [ET_TRANSFORM_##constant] = { word,           over,           gives,                           \
                                  takes,          fit_##function, apply_##function,                \
                                  emit_##function },
#include "data/table/features/transforms.def"
#undef TRANSFORM
};
