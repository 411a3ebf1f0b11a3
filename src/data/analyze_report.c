/* From what was added up to types, schema, metadata and the report:
 *
 *   files, bytes, rows, delimiter, header, target
 *   columns     name, type, target (true of one), count, missing, distinct, exact; of numbers min,
 * max, mean, std, quantiles {"1 %", "25 %", "50 %", "75 %", "99 %"}, histogram {low, high, shares};
 * of discrete ones and of few numbers entries (text, count) and other (rows with none of them)
 *   suspicious  column, kind (a word), text (a sentence)
 *
 * Shares of a histogram are of all values; those outside of [low, high] are in none. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/format.h"
#include "data/analyze_private.h"

/* Of the values, those that are no numbers in a numeric column at most. */
#define TEXT_SHARE 0.1
/* Of the values, integers with leading zeros that make a column one of codes. */
#define CODE_SHARE 0.01
/* Of the values, distinct ones that make a column as good as a key; and how many values say so. */
#define KEY_SHARE         0.9
#define KEY_SHARE_INTEGER 0.99
#define KEY_VALUES        50
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
    bool key; /* its values are as good as a key */
    int64_t values, numbers, distinct;
    et_sketch_view view; /* of numbers */
} column;

/* ---- types ---- */

static et_schema_type numeric_type(const et_column_stats *s)
{
    return s->count[ET_CELL_REAL] || s->count[ET_CELL_LARGE] ? ET_SCHEMA_REAL : ET_SCHEMA_INTEGER;
}

static et_schema_type infer_type(const column *c)
{
    const et_column_stats *s = c->stats;
    double values = (double)c->values;
    if (!c->numbers || (double)s->count[ET_CELL_CODE] >= CODE_SHARE * values)
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

/* Whole numbers, two or few that count from 0 or 1, and each written in one way: 1 and 1.0 would be
 * two classes. Marks from 3 to 8 are amounts. */
static bool is_classes(const column *c)
{
    const et_column_stats *s = c->stats;
    size_t count = s->entries.count;
    if (!et_column_stats_exact(s) || c->numbers != c->values || !c->numbers || !s->whole ||
        c->table->options->classes < 0 || count > (size_t)c->table->options->classes)
        return false;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++)
            if (number_at(&s->entries, i) == number_at(&s->entries, k))
                return false;
    return count <= 2 || ((s->min == 0 || s->min == 1) && s->max - s->min == (double)(count - 1));
}

/* Integers are a key where they count rows, or where they are drawn from far more than there are
 * rows: amounts may well be distinct, too. */
static bool is_key(const column *c)
{
    const et_column_stats *s = c->stats;
    double values = (double)c->values, distinct = (double)c->distinct;
    if (c->values < KEY_VALUES || c->type == ET_SCHEMA_REAL)
        return false;
    if (c->type == ET_SCHEMA_DISCRETE)
        return distinct >= KEY_SHARE * values; /* of all, not of the first (ET_STATS_KEY) */
    double range = s->max - s->min;
    return distinct >= KEY_SHARE_INTEGER * values && (range < 1.5 * values || range > 1e12);
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
    c->key = is_key(c);
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

static et_column_metadata metadata_of(const column *c, et_arena *arena)
{
    const et_column_stats *s = c->stats;
    et_column_metadata m = { .name = c->name,
                             .count = c->values,
                             .missing = s->count[ET_CELL_MISSING],
                             .distinct = c->distinct };
    if (c->type == ET_SCHEMA_DISCRETE) {
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

static void report_column(et_value *list, const column *c)
{
    const et_column_stats *s = c->stats;
    et_value *to = et_value_add_dict(list);
    et_value_set_string(to, "name", c->name);
    et_value_set_string(to, "type", et_schema_type_name(c->type));
    if (c->target)
        et_value_set_bool(to, "target", true);
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
    if (!c->values)
        suspect(list, c, "missing", "no row has a value: it says nothing");
    else if (c->distinct == 1)
        suspect(list, c, "constant", "every value is the same: it says nothing");
    else if (c->key)
        suspect(list, c, "key",
                "%s of %s values are distinct: as good as a key, and no use to a model",
                et_format_count(c->distinct).text, et_format_count(c->values).text);
    if (c->values && (double)missing > MISSING_SHARE * (double)(missing + c->values))
        suspect(list, c, "sparse", "%s of %s rows have no value", et_format_count(missing).text,
                et_format_count(missing + c->values).text);
}

static void suspect_texts(et_value *list, const column *c)
{
    const et_column_stats *s = c->stats;
    const et_strings *paths = c->table->paths;
    int64_t texts = s->count[ET_CELL_TEXT], large = s->count[ET_CELL_LARGE];
    if (c->type != ET_SCHEMA_DISCRETE && texts)
        suspect(list, c, "text",
                "%s of %s values are no numbers, \"%s\" in %s:%lld the first: correct them, or say "
                "--missing TEXT of such a text that means that there is no value",
                et_format_count(texts).text, et_format_count(c->values).text, s->first_text.text,
                paths->items[s->first_text.file], (long long)s->first_text.line);
    else if (c->type == ET_SCHEMA_DISCRETE && texts && c->numbers)
        suspect(list, c, "mixed",
                "%s of %s values are numbers, the others texts (\"%s\" in %s:%lld): say --missing "
                "TEXT of "
                "one that means that there is no value",
                et_format_count(c->numbers).text, et_format_count(c->values).text,
                s->first_text.text, paths->items[s->first_text.file],
                (long long)s->first_text.line);
    if (large)
        suspect(list, c, "large",
                "%s of %s values are numbers beyond a double, \"%s\" in %s:%lld the first",
                et_format_count(large).text, et_format_count(c->values).text, s->first_large.text,
                paths->items[s->first_large.file], (long long)s->first_large.line);
    if (s->count[ET_CELL_CODE])
        suspect(list, c, "code", "%s integers begin with a zero: a code, taken for %s",
                et_format_count(s->count[ET_CELL_CODE]).text,
                c->type == ET_SCHEMA_DISCRETE ? "text" : "a number");
    if (s->blanks)
        suspect(
            list, c, "blanks",
            "%s values begin or end with a blank, between quotes: with and without it they are two",
            et_format_count(s->blanks).text);
}

static void suspect_looks(et_value *list, const column *c)
{
    const et_column_stats *s = c->stats;
    double most = LOOK_SHARE * (double)s->sampled;
    if (c->type != ET_SCHEMA_DISCRETE || !s->sampled)
        return;
    if ((double)s->dates >= most && s->iso_dates == s->dates)
        suspect(list, c, "date",
                "its texts are dates, such as \"%s\": the transform date takes them apart",
                s->first_text.text);
    else if ((double)s->dates >= most)
        suspect(
            list, c, "date",
            "its texts are dates, such as \"%s\": the transform date takes them apart where they "
            "are written year first, 2024-05-31",
            s->first_text.text);
    else if ((double)s->thousands >= most)
        suspect(
            list, c, "comma",
            "its texts are numbers with commas between thousands, such as \"%s\": leave these out "
            "to have numbers",
            s->first_text.text);
    else if ((double)(s->commas + s->thousands) >= most)
        suspect(list, c, "comma",
                "its texts are numbers with a decimal comma, such as \"%s\": write a point to have "
                "numbers",
                s->first_text.text);
    else if ((double)s->units >= most)
        suspect(list, c, "unit",
                "its texts are numbers with a unit, such as \"%s\": leave it out to have numbers",
                s->first_text.text);
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

static void suspect_target(et_value *list, const column *c)
{
    const et_entries *entries = &c->stats->entries;
    int64_t missing = c->stats->count[ET_CELL_MISSING], single = 0;
    if (!c->target)
        return;
    if (missing)
        suspect(list, c, "target", "%s rows have no value of the target: training leaves them out",
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
    return report;
}

static int report_columns(const et_table_stats *table, et_analysis *out, et_schema_field *fields,
                          et_column_metadata *metadata, int target, et_error *error)
{
    et_value *columns = et_value_set_list(out->report, "columns");
    et_value *suspicious = et_value_set_list(out->report, "suspicious");
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
        report_column(columns, &c);
        suspect_values(suspicious, &c);
        suspect_texts(suspicious, &c);
        suspect_looks(suspicious, &c);
        suspect_sizes(suspicious, &c);
        suspect_target(suspicious, &c);
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
