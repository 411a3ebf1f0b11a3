/* From statistics to types, schema, metadata and the report:
 *
 *   files, bytes, rows, delimiter (empty: JSON lines), header, target
 *   missing_unmatched: markers of missing values that match no value
 *   columns     name, type, target (true of one), use (a sentence: how training uses it)
 *               count, missing, distinct, exact
 *               of numbers min, max, mean, std, quantiles {"1 %", "25 %", "50 %", "75 %", "99 %"},
 *               histogram {low, high, shares}
 *               of discrete ones and of few numbers entries (text, count), other (their rest)
 *   suspicious  column, kind (a word), text (a sentence); analyze_suspect.c
 *
 * Fractions of a histogram are of all values; values outside [low, high] are in none. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fields/fields.h"
#include "base/values/value.h"
#include "data/table/analysis/analyze_private.h"

/* Of the values, such that may be texts (007, 3E5, integers beyond 2^53) that make all of them
 * codes. */
#define CODE_SHARE 0.01
/* Values of a column that looks like an ID from which on its entries are not kept. */
#define KEY_VALUES 50

#define BINS        16
#define ENTRIES_TOP 10
#define FEW_NUMBERS 16

/* Quantiles of all columns: the metadata of a table with very many has to be read again. */
#define QUANTILES_IN_ALL 2000000

/* ---- types ---- */

static et_schema_type numeric_type(const et_column_stats *s)
{
    return s->count[ET_CELL_REAL] || s->count[ET_CELL_LARGE] || s->count[ET_CELL_EXPONENT]
               ? ET_SCHEMA_REAL
               : ET_SCHEMA_INTEGER;
}

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
    double values = (double)c->values;
    if (!c->numbers || are_codes(c))
        return ET_SCHEMA_DISCRETE;
    return (double)s->count[ET_CELL_TEXT] > ET_TEXT_SHARE * values ? ET_SCHEMA_DISCRETE
                                                                   : numeric_type(s);
}

/* Whole numbers, two or few that count from 0 or 1, and each written in one way: 1 and 1.0 would be
 * two classes. Marks from 3 to 8 are amounts. */
static bool is_classes(const et_table_column *c)
{
    const et_column_stats *s = c->stats;
    size_t count = s->entries.count, first, second;
    if (!et_table_column_few_whole(c) || et_table_column_twice(s, &first, &second))
        return false;
    return count <= 2 || ((s->min == 0 || s->min == 1) && s->max - s->min == (double)(count - 1));
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
    return !et_column_stats_view(s, &c->view) ? et_alloc_failed(error, 0, "quantiles") : ET_OK;
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
    double *quantiles = et_arena_array(arena, (size_t)count, sizeof *quantiles);
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
        texts[i] =
            et_arena_printf(arena, "%.*s", (int)entry->length, et_entries_text(entries, entry));
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
    m.has_moments = et_table_column_has_moments(c);
    if (m.has_range) {
        m.min = s->min;
        m.max = s->max;
    }
    if (m.has_moments) {
        m.mean = s->mean;
        m.std = et_table_column_deviation(c);
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
    if (et_table_column_has_moments(c)) {
        et_value_set_float(to, "mean", c->stats->mean);
        et_value_set_float(to, "std", et_table_column_deviation(c));
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

/* One as a text, several as a list. */
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
    /* Markers of missing values that no value was, but for the usual ones. */
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
    et_column_use *uses = et_arena_array(&out->arena, (size_t)table->head.fields, sizeof *uses);
    int status =
        uses ? ET_OK : et_alloc_failed(error, (size_t)table->head.fields * sizeof *uses, "columns");
    for (int i = 0; i < table->head.fields && !status; i++) {
        et_table_column c;
        status = open_column(&c, table, i, &choice, error);
        if (status)
            break;
        /* That no value had a fraction is no promise that none will have one. */
        fields[i] = (et_schema_field){ .name = c.name,
                                       .type = c.type,
                                       .fractions = c.type == ET_SCHEMA_INTEGER };
        if (c.type != ET_SCHEMA_DISCRETE) {
            fields[i].notation = table->format[i].notation;
            fields[i].unit = table->format[i].unit;
        }
        c.unclear = c.type == ET_SCHEMA_DISCRETE ? NULL : &table->unclear[i];
        metadata[i] = metadata_of(&c, &out->arena);
        c.use =
            et_column_use_infer(given ? et_schema_at(given, i) : &fields[i], &metadata[i], &choice);
        uses[i] = c.use;
        if (!report_column(columns, &c, &metadata[i]))
            status = et_alloc_failed(error, 0, "a report");
        if (!status)
            status = et_table_column_suspect(suspicious, &c, error);
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
    int status =
        et_table_head_check_columns(&table->head, table->options, *table->paths->items, error);
    out->report = report_table(table, arena);
    if (!status && (!fields || !metadata))
        status = et_alloc_failed(error, count * sizeof *metadata, "metadata");
    if (!status)
        status = report_columns(table, out, fields, metadata, error);
    if (!status && (arena->failed || et_value_failed(out->report)))
        status = et_alloc_failed(error, count * sizeof *metadata, "a report");
    if (!status)
        status =
            make_schema(&out->schema, table->options->schema, fields, (int)count, arena, error);
    return status ? status : et_metadata_create(&out->metadata, metadata, (int)count, error);
}
