/* The transform date: the year as a number, and every other part as sine and cosine of its position
 * in its cycle. A time of day has only hour and minute. Years from the first to the last one of the
 * metadata are numbers from -1 to 1: a few years must differ as much as other numbers do. Without
 * these years, the number is (year - 1970) / 100. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "data/table/features/emit.h"
#include "data/table/features/transforms.h"
#include "data/table/schema/date_text.h"

#define PART_COUNT 6
#define TIME_PART  4 /* the first part of a time of day */

const char *const et_date_parts[] = { "year", "month", "day", "weekday", "hour", "minute", NULL };

/* How many there are in a cycle; the year has none. */
static const int cycle[PART_COUNT] = { 0, 12, 31, 7, 24, 60 };

void et_date_fit(et_fitted *fitted, const et_fitting *with)
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
    const char **names = et_arena_array(with->arena, (size_t)fitted->width, sizeof *names);
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

static int no_date(const et_fitted *f, const et_reading *value, et_error *error)
{
    const int length = (int)(value->length < 40 ? value->length : 40);
    et_date other;
    if (f->order == ET_DATE_TIME)
        return et_fail(error, ET_EDATA, "\"%.*s\" is not a time of day: write 14:30 or 14:30:59",
                       length, value->text);
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

int et_date_apply(const et_fitted *f, const et_reading *value, void *to, et_error *error)
{
    et_date when;
    float *out = to;
    if (value->missing) {
        memset(to, 0, (size_t)f->width * sizeof *out);
        return ET_OK;
    }
    if (value->numeric && !et_date_of_seconds(&when, value->number))
        return et_fail(error, ET_EDATA,
                       "%g is not a time in seconds since 1970 (years 0 to 9999): correct it; "
                       "divide milliseconds by 1,000",
                       value->number);
    if (!value->numeric && !et_date_read(&when, value->text, value->length, f->order))
        return no_date(f, value, error);
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

static const char *minus(et_onnx *to, const char *x, const char *y)
{
    return et_onnx_call(to, "Sub", x, y);
}

/* How many whole y are in x. */
static const char *whole(et_onnx *to, const char *x, double y)
{
    return et_onnx_call(to, "Floor", et_onnx_call(to, "Div", x, et_emit_number(to, y)));
}

/* What is left of x then. */
static const char *rest(et_onnx *to, const char *x, const char *count, double y)
{
    return minus(to, x, times(to, count, y));
}

/* Year, month and day from the days since 1970. Here a year begins with March, so that a leap day
 * is its last day; from March on, each five months have 153 days. */
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
static const char *emit_part(et_onnx *to, const et_fitted *f, int k, const char *part)
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

const char *et_date_emit(et_emitting *e)
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
