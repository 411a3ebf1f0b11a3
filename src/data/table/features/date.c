/* The transform date: the year as a number, and every other part as its place in its cycle, with
 * sine and cosine. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "data/table/features/transforms.h"
#include "data/table/rows/date_text.h"

#define PART_COUNT 6

const char *const et_date_parts[] = { "year", "month", "day", "weekday", "hour", "minute", NULL };

/* How many there are in a cycle; the year has none. */
static const int cycle[PART_COUNT] = { 0, 12, 31, 7, 24, 60 };

void et_date_fit(et_fitted *fitted, const et_fitting *with)
{
    const et_feature_spec *spec = with->spec;
    for (int k = 0; k < PART_COUNT; k++) {
        bool chosen = !spec->part_count;
        for (int i = 0; i < spec->part_count; i++)
            chosen |= !strcmp(spec->parts[i], et_date_parts[k]);
        fitted->parts |= (unsigned)chosen << k;
        fitted->width += !chosen ? 0 : cycle[k] ? 3 : 1;
    }
    const char **names = et_arena_array(with->arena, (size_t)fitted->width, sizeof *names);
    fitted->column = names;
    fitted->order = spec->order ? spec->order : with->metadata->order;
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

int et_date_apply(const et_fitted *f, const et_reading *value, void *to, et_error *error)
{
    static const double turn = 6.283185307179586;
    et_date when;
    float *out = to;
    if (value->missing) {
        memset(to, 0, (size_t)f->width * sizeof *out);
        return ET_OK;
    }
    if (value->numeric && !et_date_of_seconds(&when, value->number))
        return et_fail(error, ET_EDATA,
                       "%g is not a time in seconds since 1970 (years 0 to 9999): correct it",
                       value->number);
    if (!value->numeric && !et_date_read(&when, value->text, value->length, f->order))
        return no_date(f, value, error);
    const int part[PART_COUNT] = { when.year,    when.month, when.day,
                                   when.weekday, when.hour,  when.minute };
    for (int k = 0; k < PART_COUNT; k++) {
        if (!(f->parts >> k & 1))
            continue;
        if (!cycle[k]) {
            *out++ = (float)((part[k] - 1970) / 100.0);
            continue;
        }
        double position = (double)part[k] / cycle[k];
        *out++ = (float)position;
        *out++ = (float)sin(turn * position);
        *out++ = (float)cos(turn * position);
    }
    et_assert_equal(out - (float *)to, f->width);
    return ET_OK;
}
