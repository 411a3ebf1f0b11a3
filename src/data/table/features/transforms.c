/* A transform has three functions. fit computes its parameters from schema, metadata and spec.
 * apply writes the columns of a value; it computes in double and stores float32, and a result that
 * is not finite is an error, so no NaN enters a model. emit adds the same arithmetic to an ONNX
 * model, in the same order and in double.
 *
 * standardize, scale and identity are one linear function, base + (x - offset) / divisor * span. A
 * constant column has span 0 and divisor 1, so nothing is divided by zero. */
#include "data/table/features/transforms_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/files/checksum.h"
#include "data/table/features/emit.h"
#include "data/table/features/label_yes.h"
#include "data/table/features/words.h"
#include "data/table/schema/number.h"

/* The largest number of classes that are integers from min to max, without entries. */
#define RANGE_CLASSES_MAX 65536

/* ---- what fits share ---- */

/* Makes a dictionary of the column's entries. Skips entries with fewer rows than minimum_count.
 * NULL: there are none, and a problem was added. */
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
    if (m->entry_count < 1 || (least && !m->counts)) {
        et_fitting_lacks(with, m->entry_count < 1 ? "entries" : "counts");
        return NULL;
    }
    const char **kept = et_arena_array(with->arena, (size_t)m->entry_count, sizeof *kept);
    int count = 0;
    for (int i = 0; kept && i < m->entry_count; i++)
        if (!least || m->counts[i] >= least)
            kept[count++] = m->entries[i];
    return kept ? et_dictionary_new(with->arena, kept, count) : NULL;
}

/* ---- what applying shares ---- */

static void clear_columns(const et_fitted *fitted, void *to)
{
    memset(to, 0, (size_t)fitted->width * sizeof(float));
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

const char *et_level_text(const et_reading *value, char buffer[32], size_t *length)
{
    *length = value->length;
    if (!value->numeric || (value->text && is_plain(value->text, value->length)))
        return value->text;
    const bool whole = value->number == floor(value->number);
    int size =
        snprintf(buffer, 32, whole ? "%.0f" : "%.17g", value->number == 0 ? 0.0 : value->number);
    if (size >= 32)
        size = snprintf(buffer, 32, "%.17g", value->number);
    *length = (size_t)size;
    return buffer;
}

/* The index of a value among the labels; -1: unknown. The value is not missing. */
static int label_of(const et_fitted *fitted, const et_reading *value)
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

/* ---- what emitting shares ---- */

static const char *refuse(et_emitting *e, const char *why)
{
    e->refused = why;
    return NULL;
}

/* ---- lines: identity, scale, standardize ---- */

static int apply_line(const et_fitted *f, const et_reading *value, void *to, et_error *error)
{
    double x = value->number;
    if (value->missing)
        return et_put_number(to, f->missing, 0, error);
    return et_put_number(to, f->base + (x - f->offset) / f->divisor * f->span, x, error);
}

static const char *emit_line(et_emitting *e)
{
    return et_emit_cast(
        e->to, et_emit_with_each(e, "Add", et_emit_deviation(e), offsetof(et_fitted, base)),
        ET_ONNX_F32);
}

static void fit_scale(et_fitted *fitted, const et_fitting *with)
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

static void fit_log(et_fitted *fitted, const et_fitting *with)
{
    et_fit_one_column(fitted, with);
}

static int apply_log(const et_fitted *f, const et_reading *value, void *to, et_error *error)
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

static void fit_missing(et_fitted *fitted, const et_fitting *with)
{
    const char **names = et_fit_columns(fitted, with, 1);
    if (names)
        names[0] = et_arena_printf(with->arena, "%s is missing", with->name);
}

static int apply_missing(const et_fitted *f, const et_reading *value, void *to, et_error *error)
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

static void fit_bucketize(et_fitted *fitted, const et_fitting *with)
{
    int n = with->spec->boundary_count;
    const double *b = with->spec->boundaries;
    const char **names = et_fit_columns(fitted, with, n + 1);
    double *points = et_arena_array(with->arena, (size_t)n, sizeof *points);
    if (!names || !points)
        return;
    memcpy(points, b, (size_t)n * sizeof *points);
    fitted->point = points;
    fitted->points = n;
    names[0] = et_arena_printf(with->arena, "%s < %g", with->name, b[0]);
    for (int i = 1; i < n; i++)
        names[i] = et_arena_printf(with->arena, "%g <= %s < %g", b[i - 1], with->name, b[i]);
    names[n] = et_arena_printf(with->arena, "%s >= %g", with->name, b[n - 1]);
}

static int apply_bucketize(const et_fitted *f, const et_reading *value, void *to, et_error *error)
{
    (void)error;
    clear_columns(f, to);
    for (size_t i = 0; i < count_of(value); i++)
        put_one(to, et_fitted_points_below(f, value_at(value, i)->number, true));
    return ET_OK;
}

static const char *emit_bucketize(et_emitting *e)
{
    const et_fitted *f = e->fitted[0];
    const char *points = et_onnx_doubles(e->to, f->point, f->points);
    const char *index = et_emit_count(e->to, et_onnx_call(e->to, "LessOrEqual", points, e->x));
    return et_emit_one_hot(e->to, index, f->width);
}

static void fit_one_hot(et_fitted *fitted, const et_fitting *with)
{
    fitted->labels = entries(with);
    int n = fitted->labels ? et_dictionary_count(fitted->labels) : 0;
    const char **names = et_fit_columns(fitted, with, (int64_t)n + 1);
    if (!fitted->labels || !names)
        return;
    for (int i = 0; i < n; i++)
        names[i] = et_arena_printf(with->arena, "%s: %s", with->name,
                                   et_dictionary_texts(fitted->labels)[i]);
    names[n] = et_arena_printf(with->arena, "%s: another", with->name);
}

static int apply_one_hot(const et_fitted *f, const et_reading *value, void *to, et_error *error)
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

/* The labels that label_of can find, as numbers, and their indices. keys and indices have room for
 * all labels. Returns how many there are; -1: a number is not an int64. */
static int number_labels(const et_fitted *f, int64_t *keys, int64_t *indices)
{
    int count = 0;
    for (int i = 0; i < et_dictionary_count(f->labels); i++) {
        const char *text = et_dictionary_texts(f->labels)[i];
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
    const et_fitted *f = e->fitted[0];
    const size_t room = (size_t)et_dictionary_count(f->labels);
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
    const int count = et_dictionary_count(labels);
    if (!e->text)
        return emit_number_labels(e, unknown);
    int64_t *indices = et_alloc((size_t)count, sizeof *indices);
    for (int i = 0; indices && i < count; i++)
        indices[i] = i;
    const char *index = et_onnx_call(e->to, "LabelEncoder", indices ? e->x : NULL);
    et_onnx_use_ml(e->to);
    et_onnx_set_texts(e->to, "keys_strings", et_dictionary_texts(labels), count);
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

static void fit_embed(et_fitted *fitted, const et_fitting *with)
{
    et_fit_one_column(fitted, with);
    fitted->labels = entries(with);
    fitted->cardinality = (fitted->labels ? (int64_t)et_dictionary_count(fitted->labels) : 0) + 2;
    fitted->unknown = fitted->cardinality - 2;
}

static int apply_embed(const et_fitted *f, const et_reading *value, void *to, et_error *error)
{
    (void)error;
    int index = value->missing ? -1 : label_of(f, value);
    return put_id(to, value->missing ? f->cardinality - 1 : index < 0 ? f->unknown : index);
}

static const char *emit_embed(et_emitting *e)
{
    return emit_labels(e, e->fitted[0]->unknown);
}

static void fit_hash(et_fitted *fitted, const et_fitting *with)
{
    et_fit_one_column(fitted, with);
    fitted->cardinality = with->spec->buckets + 1;
    fitted->unknown =
        with->spec->buckets; /* the ID of a missing value; no other value is unknown */
}

static int apply_hash(const et_fitted *f, const et_reading *value, void *to, et_error *error)
{
    (void)error;
    uint64_t buckets = (uint64_t)f->cardinality - 1;
    return put_id(to, (int64_t)(value->missing ? buckets : hash_of(value) % buckets));
}

static void fit_cross(et_fitted *fitted, const et_fitting *with)
{
    const char **names = et_fit_columns(fitted, with, 1);
    if (names)
        names[0] = with->spec->name;
    fitted->cardinality = with->spec->buckets + 1;
    fitted->unknown = with->spec->buckets; /* the id of a missing value: no value is unknown */
}

/* Hashes the hashes of the values. Joined texts would be ambiguous: one text could equal the texts
 * of two fields. */
static int apply_cross(const et_fitted *f, const et_reading *values, void *to, et_error *error)
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

/* ---- target ---- */

/* Each integer from min to max is a class. */
static void fit_range_classes(et_fitted *fitted, const et_fitting *with)
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
static void fit_classes(et_fitted *fitted, const et_fitting *with)
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
        fitted->column = fitted->labels ? et_dictionary_texts(fitted->labels) : NULL;
    }
    fitted->width = 1;
}

/* Standardizes exact values. If they are constant, the deviation is 0 or rounding, and any divisor
 * works. */
static void fit_values(et_fitted *fitted, const et_fitting *with)
{
    const et_column_metadata *m = with->metadata;
    et_fit_line(fitted, with);
    if (!with->exact || !m->has_moments || !isfinite(m->mean))
        return;
    fitted->offset = m->mean;
    fitted->divisor = m->std > 0 && isfinite(m->std) ? m->std : 1;
}

/* A target with two classes beside other targets: orders its labels as no, yes. */
static void fit_beside(et_fitted *fitted, const et_fitting *with)
{
    if (fitted->cardinality != 2) {
        et_fitting_problem(with,
                           "%s has %d classes, and several targets have two classes each or are "
                           "numbers: train a run for each target, or make numbers of its classes",
                           with->field->name, (int)fitted->cardinality);
        return;
    }
    fitted->beside = true;
    fitted->yes = !et_label_is_yes(fitted->column[0], fitted->column[1]);
    const char **names = et_arena_array(with->arena, 2, sizeof *names);
    for (int i = 0; names && i < 2; i++)
        names[i] = fitted->column[i == fitted->yes];
    fitted->column = names;
}

static void fit_target(et_fitted *fitted, const et_fitting *with)
{
    if (with->field->type == ET_SCHEMA_DISCRETE || with->spec->classes) {
        fit_classes(fitted, with);
        if (with->spec->field_count > 1 && fitted->column)
            fit_beside(fitted, with);
    } else
        fit_values(fitted, with);
    fitted->missing = NAN;
}

static int unknown_label(const et_fitted *f, const et_reading *value, et_error *error)
{
    char number[32];
    snprintf(number, sizeof number, "%g", value->number);
    int length = value->text ? (int)(value->length < 40 ? value->length : 40) : 40;
    return et_fail(error, ET_EDATA,
                   "the label \"%.*s\" is not one of the %d in the metadata (%.40s, %.40s%s): "
                   "correct the label, or train another run on rows with this label",
                   length, value->text ? value->text : number, (int)f->cardinality, f->column[0],
                   f->column[1], f->cardinality > 2 ? ", ..." : "");
}

static int apply_target(const et_fitted *f, const et_reading *value, void *to, et_error *error)
{
    if (!f->cardinality)
        return value->missing ? (memcpy(to, &(float){ NAN }, sizeof(float)), ET_OK)
                              : apply_line(f, value, to, error);
    if (value->missing)
        return f->beside ? (memcpy(to, &(float){ NAN }, sizeof(float)), ET_OK) : put_id(to, -1);
    double index = f->labels ? label_of(f, value) : value->number - f->offset;
    if (!(index >= 0 && index < (double)f->cardinality && index == floor(index)))
        return unknown_label(f, value, error);
    if (!f->beside)
        return put_id(to, (int64_t)index);
    const float yes = (int)index == f->yes;
    memcpy(to, &yes, sizeof yes);
    return ET_OK;
}

/* ---- weight ---- */

static void fit_weight(et_fitted *fitted, const et_fitting *with)
{
    et_fit_one_column(fitted, with);
}

static int apply_weight(const et_fitted *f, const et_reading *value, void *to, et_error *error)
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

/* ---- a numeric target as it was written ---- */

static void fit_written(et_fitted *fitted, const et_fitting *with)
{
    et_fit_line(fitted, with);
    fitted->width = sizeof(double) / sizeof(float);
    fitted->column = NULL;
}

static int apply_written(const et_fitted *f, const et_reading *value, void *to, et_error *error)
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

/* Lines differ only in what fit sets. */
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

/* date.c, words.c */
#define fit_date    et_date_fit
#define apply_date  et_date_apply
#define emit_date   et_date_emit
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
