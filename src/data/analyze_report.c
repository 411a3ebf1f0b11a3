/* From what was added up to types, schema, metadata and the report:
 *
 *   files, bytes, rows, delimiter, header, target
 *   missing_unmatched: markers of missing values that no value was
 *   columns     name, type, target (true of one), use (a sentence: what training makes of it),
 * count, missing, distinct, exact; of numbers min, max, mean, std, quantiles {"1 %", "25 %", "50
 * %", "75 %", "99 %"}, histogram {low, high, shares}; of discrete ones and of few numbers entries
 * (text, count) and other (rows with none of them) suspicious  column, kind (a word), text (a
 * sentence)
 *
 * Shares of a histogram are of all values; those outside of [low, high] are in none. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fields.h"
#include "base/format.h"
#include "data/analyze_private.h"
#include "data/column_use.h"

/* Of the values, those that are no numbers in a numeric column at most. */
#define TEXT_SHARE 0.1
/* Of the values, such that may be texts (007, 3E5, integers beyond 2^53) that make all of them
 * codes. */
#define CODE_SHARE 0.01
/* Values of a column that looks like an ID from which on its entries are not kept. */
#define KEY_VALUES 50
/* Of the integers, distinct ones that may be an ID; and how many values say so. */
#define ID_SHARE  0.99
#define ID_VALUES 50
/* Of the sampled texts, those that look like a date or a number. */
#define LOOK_SHARE 0.9
/* Of rows, missing ones that are worth a word. */
#define MISSING_SHARE 0.5

#define BINS        16
#define ENTRIES_TOP 10
#define FEW_NUMBERS 16

/* Quantiles of all columns: the metadata of a table with very many has to be read again. */
#define QUANTILES_IN_ALL 2000000

/* One column while it is reported. */
typedef struct column {
    const et_table_stats *table;
    const et_column_stats *stats;
    const char *name;
    et_schema_type type;
    bool target;
    bool key; /* nearly every text is another */
    et_column_use use;
    int64_t values, numbers, distinct;
    et_sketch_view view; /* of numbers */
} column;

/* ---- types ---- */

static et_schema_type numeric_type(const et_column_stats *s)
{
    return s->count[ET_CELL_REAL] || s->count[ET_CELL_LARGE] || s->count[ET_CELL_EXPONENT]
               ? ET_SCHEMA_REAL
               : ET_SCHEMA_INTEGER;
}

static bool are_frequent(const column *c, et_cell_class class)
{
    return c->stats->count[class] &&
           (double)c->stats->count[class] >= CODE_SHARE * (double)c->values;
}

/* Phone numbers are below no zero, and 3E5 is a code where no value has a point or a signed
 * exponent, as numbers that programs print do. Integers beyond 2^53 are amounts where nearly all
 * differ. */
static bool are_codes(const column *c)
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

static et_schema_type infer_type(const column *c)
{
    const et_column_stats *s = c->stats;
    double values = (double)c->values;
    if (!c->numbers || are_codes(c))
        return ET_SCHEMA_DISCRETE;
    return (double)s->count[ET_CELL_TEXT] > TEXT_SHARE * values ? ET_SCHEMA_DISCRETE
                                                                : numeric_type(s);
}

static double number_at(const et_entries *entries, size_t i)
{
    double number = 0;
    et_cell_classify(et_entries_text(entries, &entries->entry[i]), entries->entry[i].length,
                     &number);
    return number;
}

/* Whole numbers, so few that they may be classes. */
static bool are_few_whole(const column *c)
{
    const et_column_stats *s = c->stats;
    return et_column_stats_exact(s) && c->numbers == c->values && c->numbers && s->whole &&
           c->table->options->classes >= 0 &&
           s->entries.count <= (size_t)c->table->options->classes;
}

/* Whether a number is written in two ways, as 1 and 1.0: entries [first] and [second]. */
static bool is_written_twice(const et_entries *entries, size_t *first, size_t *second)
{
    for (*second = 0; *second < entries->count; ++*second)
        for (*first = 0; *first < *second; ++*first)
            if (number_at(entries, *first) == number_at(entries, *second))
                return true;
    return false;
}

/* Whole numbers, two or few that count from 0 or 1, and each written in one way: 1 and 1.0 would be
 * two classes. Marks from 3 to 8 are amounts. */
static bool is_classes(const column *c)
{
    const et_column_stats *s = c->stats;
    size_t count = s->entries.count, first, second;
    if (!are_few_whole(c) || is_written_twice(&s->entries, &first, &second))
        return false;
    return count <= 2 || ((s->min == 0 || s->min == 1) && s->max - s->min == (double)(count - 1));
}

/* Integers that may be an ID, though they are used as numbers: they nearly count the rows, or are
 * drawn from far more than there are rows. Amounts may well be distinct, too. */
static bool may_be_id(const column *c)
{
    const et_column_stats *s = c->stats;
    double values = (double)c->values, range = s->max - s->min;
    return c->type == ET_SCHEMA_INTEGER && !c->use.ignored && !c->target &&
           !s->count[ET_CELL_LONG] && c->values >= ID_VALUES &&
           (double)c->distinct >= ID_SHARE * values && (range < 1.5 * values || range > 1e12);
}

static int open_column(column *c, const et_table_stats *table, int field, int target,
                       et_error *error)
{
    et_column_stats *s = &table->field[field];
    *c = (column){ .table = table,
                   .stats = s,
                   .name = et_table_head_field(&table->head, table->options, field),
                   .target = field == target,
                   .values = et_column_stats_values(s),
                   .numbers = et_column_stats_numbers(s),
                   .distinct = et_column_stats_distinct(s) };
    et_entries_sort(&s->entries);
    c->type =
        table->options->schema ? et_schema_at(table->options->schema, field)->type : infer_type(c);
    if (c->target && !table->options->schema && is_classes(c))
        c->type = ET_SCHEMA_DISCRETE;
    return !et_column_stats_view(s, &c->view) ? et_alloc_failed(error, 0, "quantiles") : ET_OK;
}

/* ---- metadata ---- */

static bool has_moments(const column *c)
{
    return c->numbers && isfinite(c->stats->mean) && isfinite(c->stats->squares);
}

static double deviation(const column *c)
{
    return sqrt(c->stats->squares / (double)c->numbers);
}

/* The ends are the smallest and the largest value, which a sketch may not have. */
static double quantile(const column *c, double fraction)
{
    double value = et_sketch_quantile(&c->view, fraction);
    return fraction <= 0 ? c->stats->min : fraction >= 1 ? c->stats->max : value;
}

static void put_quantiles(et_column_metadata *to, const column *c, et_arena *arena)
{
    const int64_t room = QUANTILES_IN_ALL / c->table->head.fields;
    int64_t most = c->table->options->quantiles;
    most = most < room ? most : room > 3 ? room : 3;
    int count = (int)(c->numbers < most ? c->numbers : most);
    if (count < 2)
        return;
    double *quantiles = et_arena_array(arena, (size_t)count, sizeof *quantiles);
    for (int i = 0; quantiles && i < count; i++)
        quantiles[i] = quantile(c, (double)i / (count - 1));
    to->quantiles = quantiles;
    to->quantile_count = quantiles ? count : 0;
}

/* Counts that are short by more than they say are noise. */
static size_t entries_of(const column *c)
{
    const et_entries *entries = &c->stats->entries;
    size_t count = 0;
    while (count < entries->count && entries->entry[count].count > entries->error)
        count++;
    return count;
}

static void put_entries(et_column_metadata *to, const column *c, et_arena *arena)
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
        texts[i] =
            et_arena_printf(arena, "%.*s", (int)entry->length, et_entries_text(entries, entry));
        counts[i] = entry->count;
    }
    to->entries = texts;
    to->counts = counts;
    to->entry_count = (int)count;
}

static et_column_metadata metadata_of(column *c, et_arena *arena)
{
    const et_column_stats *s = c->stats;
    et_column_metadata m = { .name = c->name,
                             .count = c->values,
                             .missing = s->count[ET_CELL_MISSING],
                             .distinct = c->distinct };
    if (c->type == ET_SCHEMA_DISCRETE) {
        m.dates = s->dated;
        c->key = c->values >= KEY_VALUES && et_column_is_key(&m);
        put_entries(&m, c, arena);
        return m;
    }
    m.has_range = c->numbers > 0;
    m.has_moments = has_moments(c);
    if (m.has_range) {
        m.min = s->min;
        m.max = s->max;
    }
    if (m.has_moments) {
        m.mean = s->mean;
        m.std = deviation(c);
    }
    put_quantiles(&m, c, arena);
    return m;
}

/* ---- the report of a column ---- */

static void report_numbers(et_value *to, const column *c)
{
    static const struct {
        const char *name;
        double fraction;
    } points[] = {
        { "1 %", 0.01 }, { "25 %", 0.25 }, { "50 %", 0.5 }, { "75 %", 0.75 }, { "99 %", 0.99 }
    };
    et_value_set_float(to, "min", c->stats->min);
    et_value_set_float(to, "max", c->stats->max);
    if (has_moments(c)) {
        et_value_set_float(to, "mean", c->stats->mean);
        et_value_set_float(to, "std", deviation(c));
    }
    et_value *quantiles = et_value_set_dict(to, "quantiles");
    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        et_value_set_float(quantiles, points[i].name, quantile(c, points[i].fraction));
}

/* From end to end, unless ends are far out: then what is between 1 % and 99 %. */
static void report_histogram(et_value *to, const column *c)
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
            shares, et_sketch_share(&c->view, low + (high - low) * i / BINS,
                                    i + 1 < BINS ? low + (high - low) * (i + 1) / BINS : high,
                                    i + 1 == BINS));
}

static void report_entries(et_value *to, const column *c)
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
static bool report_use(et_value *to, const column *c, const et_column_metadata *m)
{
    et_strbuf text = ET_STRBUF_INIT;
    et_column_use_print(&text, &c->use, m);
    const bool whole = !text.failed;
    et_value_set_string(to, "use", et_strbuf_text(&text));
    et_strbuf_release(&text);
    return whole;
}

static bool report_column(et_value *list, const column *c, const et_column_metadata *m)
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

/* ---- what is suspicious ---- */

__attribute__((format(printf, 4, 5))) static void suspect(et_value *list, const column *c,
                                                          const char *kind, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    et_value *item = et_value_add_dict(list);
    et_value_set_string(item, "column", c->name);
    et_value_set_string(item, "kind", kind);
    et_value_set_string(item, "text", text);
}

static void suspect_values(et_value *list, const column *c)
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
                "%s of %s values differ: may be an ID, used as a number; a features file without "
                "the column leaves it out",
                differ.text, values.text);
    if (c->values && (double)missing > MISSING_SHARE * (double)(missing + c->values))
        suspect(list, c, "sparse", "%s of %s rows have no value", et_format_count(missing).text,
                et_format_count(missing + c->values).text);
}

/* What nearly all texts of a column look like. */
typedef struct look {
    const char *kind; /* NULL: like nothing known */
    char what[80];    /* "numbers with commas between thousands" */
    const char *cure;
} look;

static look look_of(const column *c)
{
    const et_column_stats *s = c->stats;
    double most = LOOK_SHARE * (double)s->sampled;
    look l = { 0 };
    if (!s->sampled)
        return l;
    if ((double)s->looks[ET_LOOK_DATE] >= most)
        l = (look){ "date", "dates",
                    s->dated ? "the transform date needs one in every row"
                             : "write the year first, as 2024-05-31, to have dates" };
    else if ((double)s->looks[ET_LOOK_COMMAS] >= most)
        l = (look){ "comma", "numbers with commas between thousands",
                    "remove these to have numbers" };
    else if ((double)s->looks[ET_LOOK_SEPARATED] >= most) {
        l = (look){ "separator", "", "remove these to have numbers" };
        snprintf(l.what, sizeof l.what, "numbers with %s between thousands", s->separator);
    } else if ((double)(s->looks[ET_LOOK_DECIMAL] + s->looks[ET_LOOK_COMMAS]) >= most)
        l = (look){ "comma", "numbers with a decimal comma", "write a point to have numbers" };
    else if ((double)s->looks[ET_LOOK_UNIT] >= most)
        l = (look){ "unit", "numbers with a unit", "remove it to have numbers" };
    return l;
}

static void suspect_looks(et_value *list, const column *c, const look *l)
{
    const et_column_stats *s = c->stats;
    const et_seen_at *first = et_column_stats_first(s, ET_CELL_TEXT), *other = &s->first_undated;
    const char *const *paths = c->table->paths->items;
    int64_t texts = s->count[ET_CELL_TEXT];
    if (!strcmp(l->kind, "date") && s->dated == c->values)
        return;
    if (!strcmp(l->kind, "date") && s->dated && other->line)
        suspect(list, c, l->kind,
                "%s of %s values are dates, and \"%s\" in %s:%lld is none: correct it, or give "
                "--missing \"%s\" if it means that there is no value",
                et_format_count(s->dated).text, et_format_count(c->values).text, other->text,
                paths[other->file], (long long)other->line, other->text);
    else if (texts == c->values)
        suspect(list, c, l->kind, "its texts are %s, such as \"%s\": %s", l->what, first->text,
                l->cure);
    else
        suspect(list, c, l->kind, "%s of %s values are %s, such as \"%s\" in %s:%lld: %s",
                et_format_count(texts).text, et_format_count(c->values).text, l->what, first->text,
                paths[first->file], (long long)first->line, l->cure);
}

static void suspect_texts(et_value *list, const column *c)
{
    const et_column_stats *s = c->stats;
    const et_strings *paths = c->table->paths;
    const et_seen_at *first = et_column_stats_first(s, ET_CELL_TEXT);
    const et_seen_at *first_large = et_column_stats_first(s, ET_CELL_LARGE);
    int64_t texts = s->count[ET_CELL_TEXT], large = s->count[ET_CELL_LARGE];
    const look l = look_of(c);
    if (texts && l.kind)
        suspect_looks(list, c, &l);
    else if (c->type != ET_SCHEMA_DISCRETE && texts)
        suspect(list, c, "text",
                "%s of %s values are no numbers, \"%s\" in %s:%lld the first: correct them, or say "
                "--missing TEXT of such a text that means that there is no value",
                et_format_count(texts).text, et_format_count(c->values).text, first->text,
                paths->items[first->file], (long long)first->line);
    else if (texts && c->numbers)
        suspect(list, c, "mixed",
                "%s of %s values are numbers, the others texts (\"%s\" in %s:%lld): the column is "
                "taken "
                "for texts; give --missing TEXT if one of them means that there is no value",
                et_format_count(c->numbers).text, et_format_count(c->values).text, first->text,
                paths->items[first->file], (long long)first->line);
    if (large)
        suspect(list, c, c->type == ET_SCHEMA_DISCRETE ? "code" : "large",
                "%s of %s values are numbers beyond a double, \"%s\" in %s:%lld the first",
                et_format_count(large).text, et_format_count(c->values).text, first_large->text,
                paths->items[first_large->file], (long long)first_large->line);
    if (s->blanks)
        suspect(
            list, c, "blanks",
            "%s values begin or end with a blank, between quotes: with and without it they are two",
            et_format_count(s->blanks).text);
}

/* Numbers that may be meant as texts. Where they are texts nothing is lost; 3E5 beside 2.5 is a
 * number. */
static void suspect_codes(et_value *list, const column *c)
{
    static const struct {
        et_cell_class class;
        const char *what;
    } kinds[] = {
        { ET_CELL_CODE, "begin with 0 or +" },
        { ET_CELL_LONG, "are integers whose last digits a number loses" },
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
                "%s of %s values %s, such as \"%s\" in %s:%lld: the column is taken for %s",
                et_format_count(c->stats->count[kinds[i].class]).text,
                et_format_count(c->values).text, kinds[i].what, first->text,
                c->table->paths->items[first->file], (long long)first->line,
                !texts    ? "numbers; if they are codes, make it discrete in a schema file "
                            "(task.schema_path)"
                : unclear ? "texts; if they are numbers, make it real in a schema file "
                            "(task.schema_path)"
                          : "texts");
    }
}

static void suspect_versions(et_value *list, const column *c)
{
    if (c->type != ET_SCHEMA_DISCRETE && !c->target && *c->stats->twin)
        suspect(list, c, "number",
                "\"%s\" is there with and without the last 0, which are one number: if they are "
                "codes, as versions are, make the column discrete in a schema file "
                "(task.schema_path)",
                c->stats->twin);
}

/* What a model sees of a number, as most transforms have it. */
static float seen(const column *c, double number)
{
    return (float)((number - c->stats->mean) / deviation(c));
}

/* Integers that differ in digits that no model sees are codes, or need no such digits. */
static void suspect_digits(et_value *list, const column *c)
{
    const et_sketch_view *view = &c->view;
    size_t same = 0, first = 0;
    if (c->type == ET_SCHEMA_DISCRETE || c->target || !has_moments(c) || !c->stats->whole ||
        !et_column_stats_exact(c->stats) || !(deviation(c) > 0))
        return;
    for (size_t i = 1; i < view->count; i++)
        if (view->value[i] != view->value[i - 1] &&
            seen(c, view->value[i]) == seen(c, view->value[i - 1])) {
            first = same ? first : i;
            same++;
        }
    if (same)
        suspect(list, c, "number",
                "%.0f and %.0f differ too little for a model to tell them apart%s: if they are "
                "codes, make the column discrete in a schema file (task.schema_path)",
                view->value[first - 1], view->value[first],
                same > 1 ? ", and so do other values" : "");
}

static void suspect_sizes(et_value *list, const column *c)
{
    const et_entries *entries = &c->stats->entries;
    if (c->type == ET_SCHEMA_DISCRETE && !c->key && !et_column_stats_exact(c->stats))
        suspect(
            list, c, "cut",
            "about %s distinct values, more than the %s that are kept: the frequent ones are, and "
            "their counts may be %s short",
            et_format_count(c->distinct).text, et_format_count((int64_t)entries->limit).text,
            et_format_count(entries->error).text);
    if (c->type != ET_SCHEMA_DISCRETE && c->numbers && !has_moments(c))
        suspect(list, c, "wide", "its values are too far apart for a mean and a deviation");
}

/* Bytes of a text that a sentence shows: 40, whole characters. */
static int shown(const char *text, size_t length)
{
    size_t count = length < 40 ? length : 40;
    while (count < length && count && ((unsigned char)text[count] & 0xc0) == 0x80)
        count--;
    return (int)count;
}

static void suspect_pair(et_value *list, const column *c, size_t first, size_t second, size_t more,
                         const char *what)
{
    const et_entries *entries = &c->stats->entries;
    const et_entry *a = &entries->entry[first], *b = &entries->entry[second];
    const char *one = et_entries_text(entries, a), *other = et_entries_text(entries, b);
    suspect(list, c, c->target ? "labels" : "spelling", "\"%.*s\" (%s) and \"%.*s\" (%s) %s%s",
            shown(one, a->length), one, et_format_many(a->count, "row").text,
            shown(other, b->length), other, et_format_many(b->count, "row").text, what,
            more ? "; other values of the column are alike, too" : "");
}

/* Texts that are one for a person. */
static int suspect_spelling(et_value *list, const column *c, et_error *error)
{
    const et_entries *entries = &c->stats->entries;
    size_t first, second;
    et_alike alike;
    if (c->type != ET_SCHEMA_DISCRETE && c->target && are_few_whole(c) &&
        is_written_twice(entries, &first, &second))
        suspect_pair(list, c, first, second, 0,
                     "are one number, so the target is a number: write the numbers alike to have "
                     "classes");
    if (c->type != ET_SCHEMA_DISCRETE || c->use.ignored)
        return ET_OK;
    int status = et_entries_alike(&alike, entries, entries->count, error);
    if (!status && alike.count)
        suspect_pair(list, c, alike.first, alike.second, alike.count - 1,
                     c->target ? "differ only in case or blanks and are two classes: write them "
                                 "alike if they are one"
                               : "differ only in case or blanks and are two values: write them "
                                 "alike if they are one");
    return status;
}

static void suspect_target(et_value *list, const column *c)
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
    if (c->type != ET_SCHEMA_DISCRETE || !et_column_stats_exact(c->stats))
        return;
    for (size_t i = 0; i < entries->count; i++)
        single += entries->entry[i].count == 1;
    if (entries->count == 1)
        suspect(list, c, "target", "there is one class only: nothing can be learned");
    else if (single)
        suspect(list, c, "target", "%s of %s classes have one row each",
                et_format_count(single).text, et_format_count((int64_t)entries->count).text);
}

/* ---- the whole ---- */

/* Markers of missing values that no value was, but for the usual ones. */
static void report_unmatched(const et_table_stats *table, et_value *list)
{
    const char *const *missing = table->options->csv.missing;
    for (int i = 0; missing && missing[i]; i++)
        if (!(table->missing_found >> (i < 63 ? i : 63) & 1) &&
            !et_is_one_of(missing[i], et_csv_usual_missing))
            et_value_add_string(list, missing[i]);
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
    et_value_set_string(report, "target", table->options->target);
    report_unmatched(table, et_value_set_list(report, "missing_unmatched"));
    return report;
}

static int report_columns(const et_table_stats *table, et_analysis *out, et_schema_field *fields,
                          et_column_metadata *metadata, int target, et_error *error)
{
    et_value *columns = et_value_set_list(out->report, "columns");
    et_value *suspicious = et_value_set_list(out->report, "suspicious");
    const et_schema *given = table->options->schema;
    const et_feature_choice choice = et_column_choice(table->options->target);
    int status = ET_OK;
    for (int i = 0; i < table->head.fields && !status; i++) {
        column c;
        status = open_column(&c, table, i, target, error);
        if (status)
            break;
        /* That no value had a fraction is no promise that none will have one. */
        fields[i] = (et_schema_field){ .name = c.name,
                                       .type = c.type,
                                       .fractions = c.type == ET_SCHEMA_INTEGER };
        metadata[i] = metadata_of(&c, &out->arena);
        c.use =
            et_column_use_infer(given ? et_schema_at(given, i) : &fields[i], &metadata[i], &choice);
        if (!report_column(columns, &c, &metadata[i]))
            status = et_alloc_failed(error, 0, "a report");
        suspect_values(suspicious, &c);
        suspect_texts(suspicious, &c);
        suspect_codes(suspicious, &c);
        suspect_versions(suspicious, &c);
        suspect_digits(suspicious, &c);
        suspect_sizes(suspicious, &c);
        suspect_target(suspicious, &c);
        if (!status)
            status = suspect_spelling(suspicious, &c, error);
        et_sketch_view_release(&c.view);
    }
    return status;
}

/* A schema that was given stays as it is. */
static int make_schema(et_schema **out, const et_schema *given, const et_schema_field *fields,
                       int count, et_arena *arena, et_error *error)
{
    et_schema_field *copies = et_arena_array(arena, (size_t)count, sizeof *copies);
    if (!copies)
        return et_alloc_failed(error, (size_t)count * sizeof *copies, "a schema");
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
    int target, status = et_table_head_target(&target, &table->head, table->options,
                                              *table->paths->items, error);
    out->report = report_table(table, arena);
    if (!status && (!fields || !metadata))
        status = et_alloc_failed(error, count * sizeof *metadata, "metadata");
    if (!status)
        status = report_columns(table, out, fields, metadata, target, error);
    if (!status && (arena->failed || et_value_failed(out->report)))
        status = et_alloc_failed(error, count * sizeof *metadata, "a report");
    if (!status)
        status =
            make_schema(&out->schema, table->options->schema, fields, (int)count, arena, error);
    return status ? status : et_metadata_create(&out->metadata, metadata, (int)count, error);
}
