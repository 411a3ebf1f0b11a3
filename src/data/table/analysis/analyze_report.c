/* From statistics to types, schema, metadata and the report:
 *
 *   files, bytes, rows, delimiter (empty: JSON lines), header, target
 *   missing_unmatched: markers of missing values that match no value
 *   columns     name, type, target (true of one), use (a sentence: how training uses it)
 *               count, missing, distinct, exact
 *               of numbers min, max, mean, std, quantiles {"1 %", "25 %", "50 %", "75 %", "99 %"},
 *               histogram {low, high, shares}
 *               of discrete ones and of few numbers entries (text, count), other (their rest)
 *   suspicious  column, kind (a word), text (a sentence)
 *
 * A histogram has fractions of all values; values outside [low, high] are in no bin. */
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fields/fields.h"
#include "base/map.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "base/text/unicode.h"
#include "data/table/analysis/analyze_private.h"
#include "data/table/schema/date_text.h"

/* ---- facts about a column's numbers ---- */

static double number_at(const et_column_stats *stats, size_t i)
{
    const et_entries *entries = &stats->entries;
    double number = 0;
    et_cell_classify(&stats->format, et_entries_text(entries, &entries->entry[i]),
                     entries->entry[i].length, &number);
    return number;
}

#define CLASSES 20

/* Whether values are whole numbers, so few that they may be classes. */
static bool column_few_whole(const et_table_column *c)
{
    const et_column_stats *s = c->stats;
    const int asked = c->table->options->classes;
    return et_column_stats_exact(s) && c->numbers == c->values && c->numbers && s->whole &&
           asked >= 0 && s->entries.count <= (size_t)(asked ? asked : CLASSES);
}

/* Whether a number is written in two ways, as 1 and 1.0: entries [first] and [second]. */
static bool column_twice(const et_column_stats *stats, size_t *first, size_t *second)
{
    for (*second = 0; *second < stats->entries.count; ++*second)
        for (*first = 0; *first < *second; ++*first)
            if (number_at(stats, *first) == number_at(stats, *second))
                return true;
    return false;
}

/* Whether mean and deviation are finite. */
static bool column_has_moments(const et_table_column *c)
{
    const et_column_stats *s = c->stats;
    const bool underflows = s->min < s->max && s->squares < DBL_MIN;
    return c->numbers && isfinite(s->mean) && isfinite(s->squares) && !underflows;
}

static double column_deviation(const et_table_column *c)
{
    return sqrt(c->stats->squares / (double)c->numbers);
}

/* ---- suspicious findings about a column: sentences of the report with the finding, its place,
 * and the cure ---- */

/* Integers may be an ID: least share of distinct ones, and least number of values. */
#define ID_SHARE  0.99
#define ID_VALUES 50
/* Smallest fraction of the sampled texts that must look like a date or a number. */
#define LOOK_SHARE 0.9
/* Share of sampled texts that are durations but not times of day: from this share on, all times are
 * durations. */
#define SPAN_SHARE 0.1
/* Suspicious numbers of a target: the largest is OUTLIER_TIMES the median, or OUTLIER_RANGES
 * quartile ranges from the median, in at least OUTLIER_ROWS rows. */
#define OUTLIER_TIMES  60
#define OUTLIER_RANGES 60
#define OUTLIER_ROWS   50
/* From today: in which dates are usual, and dates with a year of two digits. */
#define FUTURE_MOST  300
#define FUTURE_YEARS 10
/* Share of missing values from which the report mentions them. */
#define MISSING_SHARE 0.5

/* Integers that are used as numbers, but may be an ID: they nearly count the rows, or come from a
 * range that is far larger than the number of rows. Amounts may also be distinct, so they are not
 * ignored. */
static bool may_be_id(const et_table_column *c)
{
    const et_column_stats *s = c->stats;
    double values = (double)c->values, range = s->max - s->min;
    return c->type == ET_SCHEMA_INTEGER && !c->use.ignored && !c->target &&
           !s->count[ET_CELL_LONG] && c->values >= ID_VALUES &&
           (double)c->distinct >= ID_SHARE * values && (range < 1.5 * values || range > 1e12);
}

__attribute__((format(printf, 4, 5))) static void suspect(et_value *list, const et_table_column *c,
                                                          const char *kind, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    et_table_suspect(list, c->name, kind, text);
}

/* "\"texas\" in sales.csv:12" */
typedef struct seen_text {
    char text[512];
} seen_text;

static seen_text seen_in(const et_table_column *c, const et_seen_at *seen)
{
    seen_text out;
    snprintf(out.text, sizeof out.text, "\"%s\" in %s:%lld", seen->text,
             c->table->paths->items[seen->file], (long long)seen->line);
    return out;
}

static void suspect_values(et_value *list, const et_table_column *c)
{
    int64_t missing = c->stats->count[ET_CELL_MISSING];
    et_format differ = et_format_count(c->distinct), values = et_format_count(c->values);
    if (!c->values)
        suspect(list, c, "missing", "no row has a value: ignored");
    else if (c->distinct == 1)
        suspect(list, c, "constant",
                c->use.ignored ? "constant: ignored" : "every value is the same");
    else if (c->use.ignored == ET_COLUMN_KEY || c->use.ignored == ET_COLUMN_RUNNING)
        suspect(list, c, "key", "%s of %s values differ: looks like an ID, ignored", differ.text,
                values.text);
    else if (may_be_id(c))
        suspect(list, c, "id",
                "%s of %s values differ: may be an ID, but is used as a number; to ignore it, "
                "add %s",
                differ.text, values.text, et_column_drop_option(c->name).text);
    if (c->values && (double)missing > MISSING_SHARE * (double)(missing + c->values))
        suspect(list, c, "sparse", "%s of %s rows have no value", et_format_count(missing).text,
                et_format_count(missing + c->values).text);
}

/* The look of nearly all texts of a column. */
typedef struct look {
    const char *kind; /* NULL: no similar format is known */
    char what[96];    /* "numbers in a notation" */
    const char *cure;
} look;

/* Texts that are numbers in one notation only. */
static int64_t noted_only(const et_column_stats *s, et_notation notation)
{
    return s->noted.count[0][notation] + s->noted.count[1][notation];
}

#define MARK_CURE "to have numbers, write the same decimal mark in all rows"

static look look_of(const et_table_column *c)
{
    const et_column_stats *s = c->stats;
    double most = LOOK_SHARE * (double)s->sampled;
    look l = { 0 };
    if (!s->sampled)
        return l;
    if ((double)s->looks[ET_LOOK_SPAN] >= SPAN_SHARE * (double)s->sampled &&
        (double)(s->looks[ET_LOOK_SPAN] + s->looks[ET_LOOK_DATE]) >= most)
        l = (look){ "duration", "durations",
                    "to have numbers, write them in one unit, such as minutes" };
    else if ((double)s->looks[ET_LOOK_DATE] >= most)
        l = (look){ "date", "dates",
                    et_column_stats_dates(s)
                        ? "the transform date needs a date in every row"
                        : "to have dates, write them as 2024-05-31 or 2024-05-31T12:30" };
    else if (s->format.notation || (double)s->looks[ET_LOOK_NUMBER] < most)
        return l;
    else if (s->noted.first_other.line) {
        l = (look){ "unit", "", "to have numbers, write one unit" };
        snprintf(l.what, sizeof l.what, "numbers with several units (\"%s\")",
                 s->noted.first_other.text);
    } else if (noted_only(s, ET_NOTATION_COMMA) &&
               (noted_only(s, ET_NOTATION_POINT) || s->count[ET_CELL_REAL]))
        l = noted_only(s, ET_NOTATION_POINT)
                ? (look){ "comma", "numbers, some with a decimal point and some with a comma",
                          MARK_CURE }
                : (look){ "comma", "numbers with a decimal comma, where others have a point",
                          MARK_CURE };
    else
        l = (look){ "notation", "numbers in a notation",
                    *s->noted.unit
                        ? "to have numbers, give the column a `notation` and a `unit` in a schema "
                          "file (task.schema_path)"
                        : "to have numbers, give the column a `notation` in a schema file "
                          "(task.schema_path)" };
    return l;
}

/* The number as a model sees it after most transforms. */
static float seen(const et_table_column *c, double number)
{
    return (float)((number - c->stats->mean) / column_deviation(c));
}

/* Whether a text that has two readings had to be read without the help of another value. */
static void suspect_unclear(et_value *list, const et_table_column *c)
{
    const et_seen_at *seen = c->unclear;
    const et_number_format *format = &c->stats->format;
    const bool comma = format->notation == ET_NOTATION_COMMA;
    const et_notation other = comma ? ET_NOTATION_POINT : ET_NOTATION_COMMA;
    double number = 0, otherwise = 0;
    if (!seen || !seen->line)
        return;
    et_notation_parse(&number, format, seen->text, strlen(seen->text));
    et_notation_parse(&otherwise, &(et_number_format){ other, format->unit }, seen->text,
                      strlen(seen->text));
    suspect(list, c, "notation",
            "no value shows the decimal mark: %s is read as %.15g%s; if it means "
            "%.15g, write `notation: %s` in a schema file (task.schema_path)",
            seen_in(c, seen).text, number, comma ? ", as other columns have a decimal comma" : "",
            otherwise, et_notation_name(other));
}

/* Years far in the future: years of two digits, as in birthdays, and years that mean "no end", such
 * as 9999. */
static void suspect_century(et_value *list, const et_table_column *c)
{
    const et_column_stats *s = c->stats;
    et_date today;
    if (!et_date_of_seconds(&today, et_clock_wall()))
        return;
    if (s->last_year > today.year + FUTURE_MOST)
        suspect(list, c, "century",
                "its last date has the year %d, which makes all other years nearly equal numbers: "
                "if this date means a missing value, give --missing DATE, written as in the file",
                s->last_year);
    if (s->last_short_year > today.year + FUTURE_YEARS)
        suspect(list, c, "century",
                "its years have two digits, and \"%s\" is read as a date of %d: if %d is right, "
                "write years with four digits",
                s->last_short, s->last_short_year, s->last_short_year - 100);
}

static void suspect_looks(et_value *list, const et_table_column *c, const look *l)
{
    const et_column_stats *s = c->stats;
    const et_seen_at *first = et_column_stats_first(s, ET_CELL_TEXT),
                     *other = &s->first_undated[et_column_stats_date_order(s)];
    const int64_t texts = s->count[ET_CELL_TEXT], dates = et_column_stats_dates(s);
    if (!strcmp(l->kind, "date"))
        suspect_century(list, c);
    if (!strcmp(l->kind, "date") && dates == c->values) {
        /* Dates for which no row shows which number is the month. */
        const int64_t *dated = s->dated;
        if (dated[ET_DATE_MONTH_FIRST] == dated[ET_DATE_DAY_FIRST] &&
            dated[ET_DATE_ANY] < dated[ET_DATE_DAY_FIRST])
            suspect(list, c, "order",
                    "its dates may have the month first or the day first, and no row shows which: "
                    "Etude reads the month first; if the day is first, write `transform: {order: "
                    "day-first}` in a features file");
    } else if (!strcmp(l->kind, "date") && dates && other->line)
        suspect(list, c, l->kind,
                "%s of %s values are dates, but not %s: write it as 2024-05-31, or give "
                "--missing \"%s\" if this text means a missing value",
                et_format_count(dates).text, et_format_count(c->values).text,
                seen_in(c, other).text, other->text);
    else if (texts == c->values)
        suspect(list, c, l->kind, "its texts are %s, such as \"%s\": %s", l->what, first->text,
                l->cure);
    else
        suspect(list, c, l->kind, "%s of %s values are %s, such as %s: %s",
                et_format_count(texts).text, et_format_count(c->values).text, l->what,
                seen_in(c, first).text, l->cure);
}

static void suspect_texts(et_value *list, const et_table_column *c)
{
    const et_column_stats *s = c->stats;
    const et_seen_at *first = et_column_stats_first(s, ET_CELL_TEXT);
    const et_seen_at *first_large = et_column_stats_first(s, ET_CELL_LARGE);
    int64_t texts = s->count[ET_CELL_TEXT], large = s->count[ET_CELL_LARGE];
    const look l = look_of(c);
    if (texts && l.kind)
        suspect_looks(list, c, &l);
    else if (c->type != ET_SCHEMA_DISCRETE && texts)
        suspect(list, c, "text",
                "%s of %s values are not numbers, the first is %s: correct them, or "
                "give --missing TEXT if the text means a missing value",
                et_format_count(texts).text, et_format_count(c->values).text,
                seen_in(c, first).text);
    else if (texts && c->numbers)
        suspect(list, c, "mixed",
                "%s of %s values are numbers, the others are texts (%s): the column "
                "is read as texts; if a text means a missing value, give --missing TEXT",
                et_format_count(c->numbers).text, et_format_count(c->values).text,
                seen_in(c, first).text);
    if (large)
        suspect(list, c, c->type == ET_SCHEMA_DISCRETE ? "code" : "large",
                "%s of %s values are too large for a double, the first is %s",
                et_format_count(large).text, et_format_count(c->values).text,
                seen_in(c, first_large).text);
    if (s->blanks && c->type == ET_SCHEMA_DISCRETE)
        suspect(list, c, "blanks",
                "%s quoted values begin or end with a blank, so they differ from the same value "
                "without the blank: remove it if it means nothing",
                et_format_count(s->blanks).text);
}

/* Numbers that may be meant as texts. As texts they lose nothing. Exception: 3E5 in a column with
 * 2.5 is a number. */
static void suspect_codes(et_value *list, const et_table_column *c)
{
    static const struct {
        et_cell_class class;
        const char *what;
    } kinds[] = {
        { ET_CELL_CODE, "begin with 0 or +" },
        { ET_CELL_LONG, "are integers too long for a number" },
        { ET_CELL_EXPONENT, "have an exponent" },
    };
    const bool texts = c->type == ET_SCHEMA_DISCRETE;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const et_seen_at *first = et_column_stats_first(c->stats, kinds[i].class);
        if (!c->stats->count[kinds[i].class] ||
            (kinds[i].class == ET_CELL_EXPONENT && c->stats->count[ET_CELL_REAL]))
            continue;
        const bool unclear = kinds[i].class == ET_CELL_EXPONENT && !c->stats->count[ET_CELL_TEXT];
        suspect(list, c,
                !texts    ? "number"
                : unclear ? "exponent"
                          : "code",
                "%s of %s values %s, such as %s: the column is read as %s",
                et_format_count(c->stats->count[kinds[i].class]).text,
                et_format_count(c->values).text, kinds[i].what, seen_in(c, first).text,
                !texts    ? "numbers; if they are codes, make it discrete in a schema file "
                            "(task.schema_path)"
                : unclear ? "texts; if they are numbers, make it real in a schema file "
                            "(task.schema_path)"
                          : "texts");
    }
}

/* Integers that differ only in digits that float32 loses. Such integers are codes, or do not need
 * these digits. */
static void suspect_digits(et_value *list, const et_table_column *c)
{
    const et_sketch_view *view = &c->view;
    size_t same = 0, first = 0;
    if (c->type == ET_SCHEMA_DISCRETE || c->target || !column_has_moments(c) || !c->stats->whole ||
        !et_column_stats_exact(c->stats) || !(column_deviation(c) > 0))
        return;
    for (size_t i = 1; i < view->count; i++)
        if (view->value[i] != view->value[i - 1] &&
            seen(c, view->value[i]) == seen(c, view->value[i - 1])) {
            first = same ? first : i;
            same++;
        }
    if (same)
        suspect(list, c, "number",
                "%.0f and %.0f are too close to differ in float32%s: if these are codes, make the "
                "column discrete in a schema file (task.schema_path)",
                view->value[first - 1], view->value[first],
                same > 1 ? ", and so are other values" : "");
}

/* Whether all values are dates: year, month and day are what these numbers divide. day 0: none. */
static bool are_dates(const et_sketch_view *view, long year, long month, long day)
{
    for (size_t i = 0; i < view->count; i++) {
        char text[64];
        et_date date;
        const long n = view->value[i] > 0 && view->value[i] < 1e8 ? (long)view->value[i] : 0;
        const int length =
            snprintf(text, sizeof text, "%04ld-%02ld-%02ld", year > 1 ? n / year : n % 10000,
                     n / month % 100, day ? n / day % 100 : 1);
        if (!et_date_read(&date, text, (size_t)length, ET_DATE_ANY) || date.year < 1800 ||
            date.year > 2199)
            return false;
    }
    return true;
}

#define NUMBER_DATES 12 /* different values that cannot all be dates by chance */

/* 20240531, 202405, and 31052024 are numbers, of which a model does not see the months. */
static void suspect_number_dates(et_value *list, const et_table_column *c)
{
    const et_sketch_view *view = &c->view;
    const bool ignored = c->use.ignored && !c->splits;
    if (c->type != ET_SCHEMA_INTEGER || c->target || ignored || c->distinct < NUMBER_DATES)
        return;
    const bool last = are_dates(view, 1, 10000, 1000000) || are_dates(view, 1, 1000000, 10000);
    const bool months = !last && are_dates(view, 100, 1, 0);
    if (last || (!c->use.ignored && (months || are_dates(view, 10000, 100, 1))))
        suspect(list, c, "date",
                "its numbers are dates, such as %.0f, but are used as numbers%s: to have dates, "
                "write %s",
                c->stats->max, last ? ", which have another order" : "",
                months ? "2024-05" : "2024-05-31");
}

static void suspect_sizes(et_value *list, const et_table_column *c)
{
    const et_entries *entries = &c->stats->entries;
    if (c->type == ET_SCHEMA_DISCRETE && !c->key && !et_column_stats_exact(c->stats))
        suspect(list, c, "cut",
                "about %s distinct values, of which the metadata keeps the %s most frequent; their "
                "counts may be %s too low",
                et_format_count(c->distinct).text, et_format_count((int64_t)entries->limit).text,
                et_format_count(entries->error).text);
    if (c->type != ET_SCHEMA_DISCRETE && c->numbers && !column_has_moments(c))
        suspect(list, c, "wide", "its values are too %s for a mean and a deviation",
                isfinite(c->stats->squares) ? "close to each other" : "far apart");
}

#define SHOWN 40 /* bytes of a text in a sentence */

static void suspect_pair(et_value *list, const et_table_column *c, size_t first, size_t second,
                         size_t more, const char *what)
{
    const et_entries *entries = &c->stats->entries;
    const et_entry *a = &entries->entry[first], *b = &entries->entry[second];
    const char *one = et_entries_text(entries, a), *other = et_entries_text(entries, b);
    suspect(list, c, c->target ? "labels" : "spelling", "\"%.*s\" (%s) and \"%.*s\" (%s) %s%s",
            (int)et_utf8_cut(one, a->length, SHOWN), one, et_format_many(a->count, "row").text,
            (int)et_utf8_cut(other, b->length, SHOWN), other, et_format_many(b->count, "row").text,
            what, more ? "; other values of the column also look alike" : "");
}

/* Entries with similar spelling: str.lower() and str.strip() of Python make them equal. */
typedef struct alike {
    size_t first, second; /* the first two */
    size_t count;         /* number of entries with the spelling of an earlier entry; 0: none */
} alike;

typedef struct folding {
    et_codes codes, lower;
    et_arena arena; /* of texts, which are keys of seen */
    et_map seen;    /* to entries */
} folding;

/* NULL: no memory. */
static const char *fold(folding *f, const char *text, size_t length, et_error *error)
{
    et_strbuf out = ET_STRBUF_INIT;
    if (et_codes_decode(&f->codes, text, length, error) ||
        et_codes_lower(&f->lower, &f->codes, error))
        return NULL;
    size_t begin = 0, end = f->lower.count;
    while (begin < end && et_unicode_is_space(f->lower.items[begin]))
        begin++;
    while (end > begin && et_unicode_is_space(f->lower.items[end - 1]))
        end--;
    for (size_t i = begin; i < end; i++)
        et_strbuf_append_code(&out, f->lower.items[i]);
    return et_strbuf_keep(&out, &f->arena);
}

static bool look_at(folding *f, alike *found, const et_entries *entries, size_t i, et_error *error)
{
    const et_entry *entry = &entries->entry[i];
    const char *text = fold(f, et_entries_text(entries, entry), entry->length, error);
    int64_t before;
    if (!text)
        return false;
    if (!et_map_get(&f->seen, text, &before))
        return et_map_put(&f->seen, text, (int64_t)i);
    if (!found->count++) {
        found->first = (size_t)before;
        found->second = i;
    }
    return true;
}

/* Texts that are one for a person. */
static int suspect_spelling(et_value *list, const et_table_column *c, et_error *error)
{
    const et_entries *entries = &c->stats->entries;
    size_t first, second;
    alike found = { 0 };
    if (c->type != ET_SCHEMA_DISCRETE && c->target && column_few_whole(c) &&
        column_twice(c->stats, &first, &second))
        suspect_pair(list, c, first, second, 0,
                     "are the same number, so the target is read as a number: spell them the same "
                     "to have classes");
    if (c->type != ET_SCHEMA_DISCRETE || c->use.ignored)
        return ET_OK;
    folding f = { .codes = ET_CODES_INIT, .lower = ET_CODES_INIT, .arena = ET_ARENA_INIT };
    int status = ET_OK;
    for (size_t i = 0; i < entries->count && !status; i++)
        if (!look_at(&f, &found, entries, i, error))
            status = et_alloc_failed(error, "the spellings of a column");
    et_map_release(&f.seen);
    et_arena_release(&f.arena);
    et_codes_release(&f.codes);
    et_codes_release(&f.lower);
    if (!status && found.count)
        suspect_pair(list, c, found.first, found.second, found.count - 1,
                     c->target ? "differ only in case or blanks and are two classes: spell them "
                                 "the same if they are one"
                               : "differ only in case or blanks and are two values: spell them the "
                                 "same if they are one");
    return status;
}

static void suspect_target(et_value *list, const et_table_column *c)
{
    const et_entries *entries = &c->stats->entries;
    int64_t missing = c->stats->count[ET_CELL_MISSING], single = 0;
    if (!c->target)
        return;
    if (missing)
        suspect(
            list, c, "target",
            "%s rows have no value of the target: training leaves them out (" ET_CSV_MISSING_HINT
            ")",
            et_format_count(missing).text);
    if (c->type != ET_SCHEMA_DISCRETE && c->numbers && c->stats->min == c->stats->max)
        suspect(list, c, "flat",
                "the target is %.15g in every row: there is nothing to learn, and the model will "
                "predict this number",
                c->stats->min);
    if (c->type != ET_SCHEMA_DISCRETE || !et_column_stats_exact(c->stats))
        return;
    for (size_t i = 0; i < entries->count; i++)
        single += entries->entry[i].count == 1;
    if (entries->count == 1)
        suspect(list, c, "target", "there is only one class: nothing to learn");
    else if (single)
        suspect(list, c, "target", "%s of %s classes have only one row",
                et_format_count(single).text, et_format_count((int64_t)entries->count).text);
}

/* Numbers of the target that are far from nearly all others, such as prices in another unit. A few
 * of them dominate a squared error. */
static void suspect_outliers(et_value *list, const et_table_column *c)
{
    const et_sketch_view *view = &c->view;
    if (!c->target || c->type == ET_SCHEMA_DISCRETE || view->count < 2 || c->numbers < OUTLIER_ROWS)
        return;
    const double median = et_sketch_quantile(view, 0.5);
    const double range = et_sketch_quantile(view, 0.75) - et_sketch_quantile(view, 0.25);
    const double low = median - c->stats->min, high = c->stats->max - median;
    const double worst = high >= low ? c->stats->max : c->stats->min;
    const bool multiple = c->stats->min >= 0 && median > 0 && worst >= OUTLIER_TIMES * median;
    if (!(range > 0) || !(multiple || fmax(high, low) >= OUTLIER_RANGES * range))
        return;
    const double limit = multiple ? 0.25 * OUTLIER_TIMES * median : 0.25 * OUTLIER_RANGES * range;
    const double inside = multiple ? et_sketch_fraction(view, -INFINITY, limit, true)
                                   : et_sketch_fraction(view, median - limit, median + limit, true);
    const int64_t far = (int64_t)fmax(1, round((1 - inside) * (double)c->numbers));
    char how[80];
    if (multiple)
        snprintf(how, sizeof how, "%.0f times the median", worst / median);
    else
        snprintf(how, sizeof how, "far from the median");
    suspect(list, c, "outlier",
            "the value %.6g is %s, %.6g; %s of %s values are so far away that they decide the "
            "error: correct them if their unit is wrong, or train with "
            "task.loss=huber or task.loss=absolute",
            worst, how, median, et_format_count(far).text, et_format_count(c->numbers).text);
}

/* Adds the suspicious facts of a column. ET_ENOMEM. */
static int column_suspect(et_value *list, const et_table_column *c, et_error *error)
{
    const bool unread = c->use.ignored == ET_COLUMN_DROPPED || c->use.ignored == ET_COLUMN_OTHER;
    if (unread && !c->splits)
        return ET_OK;
    if (!unread)
        suspect_values(list, c);
    suspect_texts(list, c);
    suspect_unclear(list, c);
    const char *unit = c->stats->format.unit;
    if (c->bare && unit)
        suspect(list, c, "unit",
                "%s of %s values have no %s, but are read as if they had one%s: write the %s in "
                "all rows or in none",
                et_format_count(c->bare).text, et_format_count(c->values).text, unit,
                strcmp(unit, "%") ? "" : ", so 0.5 is 0.5 %, not 50 %", unit);
    if (unread) {
        suspect_number_dates(list, c);
        return ET_OK;
    }
    suspect_codes(list, c);
    if (c->type != ET_SCHEMA_DISCRETE && !c->target && *c->stats->twin)
        suspect(
            list, c, "number",
            "\"%s\" occurs with and without the last 0, which is the same number: if these are "
            "codes such as versions, make the column discrete in a schema file (task.schema_path)",
            c->stats->twin);
    suspect_digits(list, c);
    suspect_number_dates(list, c);
    suspect_sizes(list, c);
    suspect_target(list, c);
    suspect_outliers(list, c);
    return suspect_spelling(list, c, error);
}

/* If this share of values may be texts (007, 3E5, integers beyond 2^53), all values are codes. */
#define CODE_SHARE 0.01
/* If a column that looks like an ID has this many values, its entries are not kept. */
#define KEY_VALUES 50

#define BINS        16
#define ENTRIES_TOP 10
#define FEW_NUMBERS 16

/* Limit of the quantiles of all columns together, because the metadata of a table with very many
 * columns must be readable. */
#define QUANTILES_IN_ALL 2000000

/* ---- types ---- */

static bool are_frequent(const et_table_column *c, et_cell_class class)
{
    return c->stats->count[class] &&
           (double)c->stats->count[class] >= CODE_SHARE * (double)c->values;
}

/* Decides whether numbers are codes. Phone numbers (+...) are codes if no value is negative. 3E5 is
 * a code if no value has a point or a signed exponent, which programs that print numbers write.
 * Integers above 2^53 are amounts if nearly all differ. */
static bool are_codes(const et_table_column *c)
{
    const et_column_stats *s = c->stats;
    const et_column_metadata m = { .count = c->values, .distinct = c->distinct };
    if (are_frequent(c, ET_CELL_CODE) &&
        (*et_column_stats_first(s, ET_CELL_CODE)->text != '+' || !(s->min < 0)))
        return true;
    if (are_frequent(c, ET_CELL_EXPONENT) && !s->count[ET_CELL_REAL] &&
        strchr(et_column_stats_first(s, ET_CELL_EXPONENT)->text, 'E'))
        return true;
    return are_frequent(c, ET_CELL_LONG) && !et_column_is_key(&m);
}

et_schema_type et_table_column_type(const et_table_column *c)
{
    const et_column_stats *s = c->stats;
    if (!c->numbers || are_codes(c) ||
        (double)s->count[ET_CELL_TEXT] > ET_TEXT_SHARE * (double)c->values)
        return ET_SCHEMA_DISCRETE;
    return s->count[ET_CELL_REAL] || s->count[ET_CELL_LARGE] || s->count[ET_CELL_EXPONENT]
               ? ET_SCHEMA_REAL
               : ET_SCHEMA_INTEGER;
}

/* Whole numbers, each written in one way: 1 and 1.0 would be two classes. Unless the caller asks
 * for classes, two, or few that count from 0 or 1: marks from 3 to 8 are amounts. */
static bool is_classes(const et_table_column *c)
{
    const et_column_stats *s = c->stats;
    size_t count = s->entries.count, first, second;
    if (!column_few_whole(c) || column_twice(s, &first, &second))
        return false;
    return count <= 2 || c->table->options->classes > 0 ||
           ((s->min == 0 || s->min == 1) && s->max - s->min == (double)(count - 1));
}

static int open_column(et_table_column *c, const et_table_stats *table, int field,
                       const et_feature_choice *choice, et_error *error)
{
    et_column_stats *s = &table->field[field];
    *c = (et_table_column){ .table = table,
                            .stats = s,
                            .name = et_table_head_field(&table->head, table->options, field),
                            .target = et_column_is_target(
                                choice, et_table_head_field(&table->head, table->options, field)),
                            .values = et_column_stats_values(s),
                            .numbers = et_column_stats_numbers(s),
                            .distinct = et_column_stats_distinct(s) };
    et_entries_sort(&s->entries);
    c->type = table->options->schema ? et_schema_at(table->options->schema, field)->type
                                     : et_table_column_type(c);
    if (c->target && !table->options->schema && is_classes(c))
        c->type = ET_SCHEMA_DISCRETE;
    return !et_column_stats_view(s, &c->view) ? et_alloc_failed(error, "quantiles") : ET_OK;
}

/* ---- metadata ---- */

/* The ends are the smallest and the largest value, which a sketch may not have. */
static double quantile(const et_table_column *c, double fraction)
{
    double value = et_sketch_quantile(&c->view, fraction);
    return fraction <= 0 ? c->stats->min : fraction >= 1 ? c->stats->max : value;
}

static void put_quantiles(et_column_metadata *to, const et_table_column *c, et_arena *arena)
{
    const int64_t room = QUANTILES_IN_ALL / c->table->head.fields;
    int64_t most = c->table->options->quantiles;
    most = most < room ? most : room > 3 ? room : 3;
    int count = (int)(c->numbers < most ? c->numbers : most);
    if (count < 2)
        return;
    double *quantiles = et_arena_array(arena, count, sizeof *quantiles);
    for (int i = 0; quantiles && i < count; i++)
        quantiles[i] = quantile(c, (double)i / (count - 1));
    to->quantiles = quantiles;
    to->quantile_count = quantiles ? count : 0;
}

/* Counts that are short by more than they say are noise. */
static size_t entries_of(const et_table_column *c)
{
    const et_entries *entries = &c->stats->entries;
    size_t count = 0;
    while (count < entries->count && entries->entry[count].count > entries->error)
        count++;
    return count;
}

static void put_entries(et_column_metadata *to, const et_table_column *c, et_arena *arena)
{
    const et_entries *entries = &c->stats->entries;
    size_t count = entries_of(c);
    to->cut = !et_column_stats_exact(c->stats) || (c->key && !c->target);
    if (!count || (c->key && !c->target))
        return;
    const char **texts = et_arena_array(arena, count, sizeof *texts);
    int64_t *counts = et_arena_array(arena, count, sizeof *counts);
    for (size_t i = 0; texts && counts && i < count; i++) {
        const et_entry *entry = &entries->entry[i];
        texts[i] = et_arena_strndup(arena, et_entries_text(entries, entry), entry->length);
        counts[i] = entry->count;
    }
    to->entries = texts;
    to->counts = counts;
    to->entry_count = (int)count;
}

static et_column_metadata metadata_of(et_table_column *c, et_arena *arena)
{
    const et_column_stats *s = c->stats;
    et_column_metadata m = { .name = c->name,
                             .count = c->values,
                             .missing = s->count[ET_CELL_MISSING],
                             .distinct = c->distinct };
    if (c->type == ET_SCHEMA_DISCRETE) {
        m.words = s->words;
        m.most_words = s->words ? s->most_words : 0;
        m.dates = et_column_stats_dates(s);
        m.order = m.dates ? et_column_stats_date_order(s) : ET_DATE_ANY;
        if (m.dates && m.order != ET_DATE_TIME) {
            m.first_year = s->first_year;
            m.last_year = s->last_year;
        }
        c->key = c->values >= KEY_VALUES && et_column_is_key(&m);
        put_entries(&m, c, arena);
        return m;
    }
    m.has_range = c->numbers > 0;
    m.has_moments = column_has_moments(c);
    if (m.has_range) {
        m.min = s->min;
        m.max = s->max;
    }
    if (m.has_moments) {
        m.mean = s->mean;
        m.std = column_deviation(c);
    }
    put_quantiles(&m, c, arena);
    return m;
}

/* ---- the report of a column ---- */

static void report_numbers(et_value *to, const et_table_column *c)
{
    static const struct {
        const char *name;
        double fraction;
    } points[] = {
        { "1 %", 0.01 }, { "25 %", 0.25 }, { "50 %", 0.5 }, { "75 %", 0.75 }, { "99 %", 0.99 }
    };
    et_value_set_float(to, "min", c->stats->min);
    et_value_set_float(to, "max", c->stats->max);
    if (column_has_moments(c)) {
        et_value_set_float(to, "mean", c->stats->mean);
        et_value_set_float(to, "std", column_deviation(c));
    }
    et_value *quantiles = et_value_set_dict(to, "quantiles");
    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        et_value_set_float(quantiles, points[i].name, quantile(c, points[i].fraction));
}

/* Covers the whole range, unless an end is far out: then the histogram starts or ends at the 1 % or
 * 99 % quantile. */
static void report_histogram(et_value *to, const et_table_column *c)
{
    double low = quantile(c, 0.01), high = quantile(c, 0.99), wide = (high - low) / 2;
    if (c->stats->min >= low - wide)
        low = c->stats->min;
    if (c->stats->max <= high + wide)
        high = c->stats->max;
    if (!(high > low) || !isfinite(high - low))
        return;
    et_value *histogram = et_value_set_dict(to, "histogram");
    et_value_set_float(histogram, "low", low);
    et_value_set_float(histogram, "high", high);
    et_value *shares = et_value_set_list(histogram, "shares");
    for (int i = 0; i < BINS; i++)
        et_value_add_float(
            shares, et_sketch_fraction(&c->view, low + (high - low) * i / BINS,
                                       i + 1 < BINS ? low + (high - low) * (i + 1) / BINS : high,
                                       i + 1 == BINS));
}

static void report_entries(et_value *to, const et_table_column *c)
{
    const et_entries *entries = &c->stats->entries;
    size_t count = entries_of(c);
    int64_t other = c->values;
    if (!count || c->key)
        return;
    et_value *list = et_value_set_list(to, "entries");
    for (size_t i = 0; i < count && i < ENTRIES_TOP; i++) {
        et_value *item = et_value_add_dict(list);
        char text[ET_ENTRY_MAX + 1];
        memcpy(text, et_entries_text(entries, &entries->entry[i]), entries->entry[i].length);
        text[entries->entry[i].length] = 0;
        et_value_set_string(item, "text", text);
        et_value_set_int(item, "count", entries->entry[i].count);
        other -= entries->entry[i].count;
    }
    et_value_set_int(to, "other", other);
}

/* False: no memory. */
static bool report_use(et_value *to, const et_table_column *c, const et_column_metadata *m)
{
    et_strbuf text = ET_STRBUF_INIT;
    et_column_use_print(&text, &c->use, m);
    const bool whole = !text.failed;
    et_value_set_string(to, "use", et_strbuf_text(&text));
    et_strbuf_release(&text);
    return whole;
}

static bool report_column(et_value *list, const et_table_column *c, const et_column_metadata *m)
{
    const et_column_stats *s = c->stats;
    et_value *to = et_value_add_dict(list);
    et_value_set_string(to, "name", c->name);
    et_value_set_string(to, "type", et_schema_type_name(c->type));
    if (c->target)
        et_value_set_bool(to, "target", true);
    const bool whole = report_use(to, c, m);
    et_value_set_int(to, "count", c->values);
    et_value_set_int(to, "missing", s->count[ET_CELL_MISSING]);
    et_value_set_int(to, "distinct", c->distinct);
    et_value_set_bool(to, "exact", et_column_stats_exact(s));
    if (c->numbers && c->type != ET_SCHEMA_DISCRETE) {
        report_numbers(to, c);
        report_histogram(to, c);
    }
    if (c->type == ET_SCHEMA_DISCRETE ||
        (et_column_stats_exact(s) && s->entries.count <= FEW_NUMBERS))
        report_entries(to, c);
    return whole;
}

/* ---- the whole ---- */

/* One text as a text, several as a list. */
static void report_targets(const et_analyze_options *options, et_value *report)
{
    if (!options->more_targets.count) {
        et_value_set_string(report, "target", options->target);
        return;
    }
    et_value *list = et_value_set_list(report, "target");
    et_value_add_string(list, options->target);
    for (size_t i = 0; i < options->more_targets.count; i++)
        et_value_add_string(list, options->more_targets.items[i]);
}

static et_value *report_table(const et_table_stats *table, et_arena *arena)
{
    et_value *report = et_value_dict(arena);
    et_value *files = et_value_set_list(report, "files");
    char delimiter[2] = { table->head.delimiter, 0 };
    for (size_t i = 0; i < table->paths->count; i++)
        et_value_add_string(files, table->paths->items[i]);
    et_value_set_int(report, "bytes", (int64_t)table->bytes);
    et_value_set_int(report, "rows", table->rows);
    et_value_set_string(report, "delimiter", delimiter);
    et_value_set_bool(report, "header", table->head.header);
    report_targets(table->options, report);
    /* Given markers of missing values that match no value. */
    et_value *list = et_value_set_list(report, "missing_unmatched");
    const char *const *missing = table->options->csv.missing;
    for (int i = 0; missing && missing[i]; i++)
        if (!(table->missing_found >> (i < 63 ? i : 63) & 1) &&
            !et_is_one_of(missing[i], et_csv_usual_missing))
            et_value_add_string(list, missing[i]);
    return report;
}

et_feature_choice et_analyze_choice(const et_analyze_options *options)
{
    et_feature_choice choice = et_column_choice(options->target, &options->more_targets);
    choice.dropped = options->dropped.items;
    choice.dropped_count = (int)options->dropped.count;
    choice.only = options->only.items;
    choice.only_count = (int)options->only.count;
    return choice;
}

static int report_columns(const et_table_stats *table, et_analysis *out, et_schema_field *fields,
                          et_column_metadata *metadata, et_error *error)
{
    et_value *columns = et_value_set_list(out->report, "columns");
    et_value *suspicious = et_value_set_list(out->report, "suspicious");
    const et_schema *given = table->options->schema;
    const et_feature_choice choice = et_analyze_choice(table->options);
    et_column_use *uses = et_arena_array(&out->arena, table->head.fields, sizeof *uses);
    int status = uses ? ET_OK : et_alloc_failed(error, "columns");
    for (int i = 0; i < table->head.fields && !status; i++) {
        et_table_column c;
        status = open_column(&c, table, i, &choice, error);
        if (status)
            break;
        /* Later values may have fractions, even if no value had one so far. */
        fields[i] = (et_schema_field){ .name = c.name,
                                       .type = c.type,
                                       .fractions = c.type == ET_SCHEMA_INTEGER };
        if (c.type != ET_SCHEMA_DISCRETE) {
            fields[i].notation = table->format[i].notation;
            fields[i].unit = table->format[i].unit;
        }
        c.unclear = c.type == ET_SCHEMA_DISCRETE ? NULL : &table->unclear[i];
        c.bare = c.type == ET_SCHEMA_DISCRETE ? 0 : table->bare[i];
        c.splits = table->options->time && !strcmp(table->options->time, c.name);
        metadata[i] = metadata_of(&c, &out->arena);
        c.use =
            et_column_use_infer(given ? et_schema_at(given, i) : &fields[i], &metadata[i], &choice);
        uses[i] = c.use;
        if (!report_column(columns, &c, &metadata[i]))
            status = et_alloc_failed(error, "a report");
        if (!status)
            status = column_suspect(suspicious, &c, error);
        et_sketch_view_release(&c.view);
    }
    if (!status)
        et_table_groups_suspect(suspicious, table, uses);
    return status ? status : et_table_relations_suspect(suspicious, table, uses, metadata, error);
}

/* A given schema is not changed. */
static int make_schema(et_schema **out, const et_schema *given, const et_schema_field *fields,
                       int count, et_arena *arena, et_error *error)
{
    et_schema_field *copies = et_arena_array(arena, count, sizeof *copies);
    if (!copies)
        return et_alloc_failed(error, "a schema");
    for (int i = 0; i < count; i++)
        copies[i] = given ? *et_schema_at(given, i) : fields[i];
    return et_schema_create(out, copies, count, error);
}

int et_table_stats_report(const et_table_stats *table, et_analysis *out, et_error *error)
{
    size_t count = (size_t)table->head.fields;
    et_arena *arena = &out->arena;
    et_schema_field *fields = et_arena_array(arena, count, sizeof *fields);
    et_column_metadata *metadata = et_arena_array(arena, count, sizeof *metadata);
    int status =
        et_table_head_check_columns(&table->head, table->options, *table->paths->items, error);
    out->report = report_table(table, arena);
    if (!status && (!fields || !metadata))
        status = et_alloc_failed(error, "metadata");
    if (!status)
        status = report_columns(table, out, fields, metadata, error);
    if (!status && (arena->failed || et_value_failed(out->report)))
        status = et_alloc_failed(error, "a report");
    if (!status)
        status =
            make_schema(&out->schema, table->options->schema, fields, (int)count, arena, error);
    return status ? status : et_metadata_create(&out->metadata, metadata, (int)count, error);
}
