/* The use of columns. The rules, as a person would give them:
 *
 *   the column of --id                          key of predictions
 *   dropped, or not among the chosen columns    ignored
 *   no value, or one value                      ignored
 *   texts that are dates                        date
 *   texts of several words, most different      words
 *   texts, 9 of 10 of them different            ignored: an ID
 *   whole numbers that count the rows           ignored: an ID
 *   other texts, over a tenth of them different embed or one-hot of those with 5 rows or more
 *   other texts                                 embed or one-hot; hash if entries are not known;
 *                                               words, too, if many texts have several of them
 *   other numbers                               the chosen transform, if the metadata allows it
 *
 * If values are missing in some rows, the column also gets a feature for missing values. */
#include "data/table/analysis/column_use.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "base/text/unicode.h"
#include "data/table/features/transforms.h"
#include "data/table/schema/date_text.h"
#include "data/table/schema/schema.h"
#include "formats/grid.h"

/* Fraction of distinct values above which texts are treated as an ID; with fewer rows than KEY_ROWS
 * all values must differ. */
#define KEY_SHARE 0.9
#define KEY_ROWS  20
/* From this share of distinct values on, texts are too rare for learning each of them. Texts with
 * fewer rows than the minimum then share one embedding. 8,000 rows with 2,600 different texts: RMSE
 * 1.108 with all of them, 1.090 with a minimum of 2 rows, 1.079 with 5, 1.121 without the
 * column. */
#define RARE_SHARE 0.1
#define RARE_FROM  50
#define RARE_COUNT 5
/* Such a share, for columns in which hardly any text has 5 rows. */
#define SINGLE_SHARE 0.5
#define SINGLE_COUNT 2

/* Texts that differ are free text from this number of rows and of average words on. */
#define TEXT_ROWS  200
#define TEXT_WORDS 3
/* Texts that repeat, such as "oil on canvas", are read by words in addition, because a rare text
 * may have frequent words: from this number of different texts and of average words on. */
#define PHRASES      50
#define PHRASE_WORDS 2
/* Number of words read from a text: that of the longest text, but at most TEXT_MOST and at most
 * TEXT_TIMES the average, because shorter texts take as much time and memory as the longest. All
 * rows together have at most TEXT_IDS IDs of 4 bytes. */
#define TEXT_LEAST 16
#define TEXT_MOST  1024
#define TEXT_TIMES 8
#define TEXT_IDS   ((int64_t)1 << 26)

/* Columns that have a line each. */
#define LINES_MAX 40
/* Names of a line for several columns; characters of a name. */
#define NAMES_SHOWN 6
#define NAME_SHOWN  28

static bool has(const et_column_use *use, et_transform type)
{
    return use->transforms >> type & 1;
}

static void add(et_column_use *use, et_transform type)
{
    use->transforms |= 1u << type;
}

/* Rows that repeat more often on average have few different values, and so has a column with at
 * most FEW: both agree by chance. */
#define REPEATED 4
#define FEW      16
/* Copies that are no chance: a multiple of those expected, and a margin in deviations. If
 * agreements leave out copies, they may be too small, so the copies must be a share of the rows. */
#define CHANCE     5
#define DEVIATIONS 3
#define SHARE      0.1

/* ---- properties of a column ---- */

int64_t et_column_distinct(const et_column_metadata *m)
{
    return m->distinct ? m->distinct : m->cut ? (int64_t)m->entry_count + 1 : m->entry_count;
}

/* Numbers that fill several quantiles are frequent. */
static double agreement_of_quantiles(const et_column_metadata *m)
{
    double sum = 0;
    for (int i = 1, begin = 0; i <= m->quantile_count; i++) {
        if (i < m->quantile_count && m->quantiles[i] <= m->quantiles[begin])
            continue;
        const double share = (double)(i - 1 - begin) / (m->quantile_count - 1);
        sum += share * share;
        begin = i;
    }
    return sum;
}

/* Texts have counts. Of other columns, the sum of squares of the counts is at least that of equal
 * counts, and that of counts of 1 and 2; values that fill several quantiles are frequent. */
double et_column_agreement(const et_column_metadata *m, double copies, double compared)
{
    const double values = (double)m->count, rows = values + (double)m->missing;
    const double present = rows > 0 ? values / rows : 1, missing = 1 - present;
    const double distinct = (double)et_column_distinct(m);
    double sum = distinct > 0 ? 1 / distinct : m->quantile_count > 1 ? 0 : 1;
    if (m->counts && m->entry_count && values > 0) {
        double frequent = 0;
        for (int i = 0; i < m->entry_count; i++)
            frequent += (double)m->counts[i] / values * ((double)m->counts[i] / values);
        sum = frequent > sum ? frequent : sum;
    } else if (m->quantile_count > 1) {
        if (distinct > 0 && values > 0)
            sum = fmax(sum, (3 * values - 2 * distinct) / (values * values));
        sum = fmax(sum, agreement_of_quantiles(m));
    }
    sum = fmin(sum * present * present + missing * missing, 1);
    return distinct <= FEW || copies > REPEATED * compared
               ? sum
               : fmax(sum - copies / (compared * compared), 0);
}

bool et_copies_are_many(double copies, double rows, const double chance[2])
{
    for (int i = 0; i < 2; i++) {
        const double expected = fmin(chance[i], 1) * rows;
        if (copies >= i * SHARE * rows && copies >= CHANCE * expected + DEVIATIONS * sqrt(expected))
            return true;
    }
    return false;
}

static bool is_constant(const et_schema_field *field, const et_column_metadata *m)
{
    if (et_schema_numeric(field))
        return m->has_range && m->min == m->max;
    return et_column_distinct(m) == 1 && !m->missing;
}

/* If metadata do not count dates, entries are tested for dates. */
static bool is_dates(const et_column_metadata *m)
{
    if (m->dates)
        return m->dates == m->count;
    const unsigned bit = 1u << (m->order ? m->order : ET_DATE_MONTH_FIRST);
    for (int i = 0; i < m->entry_count; i++)
        if (!(et_date_orders(m->entries[i], strlen(m->entries[i])) & bit))
            return false;
    return m->entry_count > 0;
}

bool et_column_is_key(const et_column_metadata *m)
{
    int64_t different = et_column_distinct(m);
    if (m->count >= KEY_ROWS)
        return (double)different >= KEY_SHARE * (double)m->count;
    return different > 2 && different >= m->count && m->count;
}

/* Each number of a range once has the range's deviation: (n * n - 1) / 12, its square. */
static bool is_running(const et_schema_field *field, const et_column_metadata *m)
{
    double n = m->max - m->min + 1, square = (n * n - 1) / 12;
    return field->type == ET_SCHEMA_INTEGER && m->has_range && m->has_moments && !m->missing &&
           m->count >= KEY_ROWS && n == (double)m->count &&
           fabs(m->std * m->std - square) <= 1e-6 * square;
}

/* ---- the verdict ---- */

#define TAIL_ROWS      1000
#define TAIL_QUANTILES 101
#define TAIL_RATIO     3

/* The value below which a share of the values lies. */
static double quantile_at(const et_column_metadata *m, double share)
{
    return m->quantiles[(int)(share * (m->quantile_count - 1) + 0.5)];
}

/* Whether, at one end, the last percent begins more than three times as far from the median as the
 * last tenth. The ratio is 1.8 for a normal distribution, 2.4 for an exponential one, and 3.6 for a
 * lognormal one with deviation 1. With few rows, a tail looks the same as single errors. */
static bool has_long_tail(const et_column_metadata *m)
{
    if (m->count < TAIL_ROWS || m->quantile_count < TAIL_QUANTILES)
        return false;
    const double middle = quantile_at(m, 0.5);
    const double low = middle - quantile_at(m, 0.1), high = quantile_at(m, 0.9) - middle;
    return (high > 0 && quantile_at(m, 0.99) - middle > TAIL_RATIO * high) ||
           (low > 0 && middle - quantile_at(m, 0.01) > TAIL_RATIO * low);
}

static et_transform numeric_transform(const et_feature_choice *choice, const et_column_metadata *m)
{
    if (choice->unchanged)
        return ET_TRANSFORM_IDENTITY;
    et_transform type = choice->numeric    ? choice->numeric
                        : has_long_tail(m) ? ET_TRANSFORM_QUANTILE
                                           : ET_TRANSFORM_CLIP;
    const bool by_quantiles =
        type == ET_TRANSFORM_QUANTILE || type == ET_TRANSFORM_ROBUST || type == ET_TRANSFORM_CLIP;
    if (by_quantiles && (m->quantile_count < 2 || !m->has_range))
        type = ET_TRANSFORM_STANDARDIZE;
    if (type == ET_TRANSFORM_STANDARDIZE && !m->has_moments)
        type = ET_TRANSFORM_SCALE;
    return type == ET_TRANSFORM_SCALE && !m->has_range ? ET_TRANSFORM_IDENTITY : type;
}

static int64_t entries_with(const et_column_metadata *m, int64_t minimum_count)
{
    int64_t count = 0;
    for (int i = 0; i < m->entry_count; i++)
        count += !m->counts || m->counts[i] >= minimum_count;
    return count;
}

/* 0: each text is frequent enough. */
static int64_t minimum_count(const et_column_metadata *m)
{
    const int64_t different = et_column_distinct(m);
    if (!m->counts)
        return 0;
    if (different >= RARE_FROM && (double)different > RARE_SHARE * (double)m->count &&
        entries_with(m, RARE_COUNT) > 1)
        return RARE_COUNT;
    return (double)different > SINGLE_SHARE * (double)m->count ? SINGLE_COUNT : 0;
}

/* Texts that people write: several words each, most texts different, and rows enough to learn words
 * from. */
static bool is_free_text(const et_column_metadata *m)
{
    return m->count >= TEXT_ROWS && 2 * et_column_distinct(m) > m->count &&
           m->words >= TEXT_WORDS * m->count && 2 * m->dates < m->count;
}

static bool is_phrase(const et_column_metadata *m)
{
    return m->count >= TEXT_ROWS && et_column_distinct(m) >= PHRASES &&
           m->words >= PHRASE_WORDS * m->count && 2 * m->dates < m->count;
}

static int64_t at_most(int64_t words, int64_t limit)
{
    return words < limit ? words : limit;
}

/* Metadata without the longest text: twice the average. */
static int64_t most_words(const et_column_metadata *m)
{
    const int64_t average = at_most(m->words / m->count, TEXT_MOST);
    int64_t words = m->most_words ? m->most_words : 2 * average;
    words =
        at_most(at_most(words, TEXT_TIMES * average), at_most(TEXT_MOST, TEXT_IDS / 2 / m->count));
    return words < TEXT_LEAST ? TEXT_LEAST : words;
}

static void judge_text(et_column_use *use, const et_schema_field *field,
                       const et_column_metadata *m, const et_feature_choice *choice)
{
    const bool dates = is_dates(m);
    if (is_constant(field, m))
        use->ignored = ET_COLUMN_CONSTANT;
    else if (dates)
        add(use, ET_TRANSFORM_DATE);
    else if (is_free_text(m)) {
        add(use, ET_TRANSFORM_WORDS);
        use->words = most_words(m);
    } else if (et_column_is_key(m))
        use->ignored = ET_COLUMN_KEY;
    else if (!m->entry_count)
        add(use, ET_TRANSFORM_HASH);
    else {
        add(use, choice->discrete);
        use->minimum_count = minimum_count(m);
        if (is_phrase(m)) {
            add(use, ET_TRANSFORM_WORDS);
            use->words = most_words(m);
        }
    }
    const bool embedded = has(use, choice->discrete);
    if (m->missing && !embedded &&
        (dates || has(use, ET_TRANSFORM_WORDS) || use->ignored == ET_COLUMN_KEY))
        add(use, ET_TRANSFORM_MISSING);
}

#define OPTION_NAME_MAX 200 /* bytes */

/* list: the value of the option is a list of names. */
static et_column_option option_of(const char *word, const char *field, bool list)
{
    et_column_option option;
    et_strbuf name = ET_STRBUF_INIT;
    const bool listed = list && strpbrk(field, ",\"");
    et_strbuf_append(&name, listed ? "\"" : "");
    for (const char *at = field; *at && at < field + OPTION_NAME_MAX; at++) {
        et_strbuf_append(&name, *at == '"' && listed ? "\"" : "");
        et_strbuf_append_char(&name, *at);
    }
    et_strbuf_append(&name, listed ? "\"" : "");
    snprintf(option.text, sizeof option.text, "%s %s", word,
             et_shell_quote(et_strbuf_text(&name)).text);
    et_strbuf_release(&name);
    return option;
}

et_column_option et_column_drop_option(const char *field)
{
    return option_of("--drop", field, true);
}

et_column_option et_column_group_option(const char *field)
{
    return option_of("--group", field, false);
}

static bool is_named(const char *field, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(field, names[i]))
            return true;
    return false;
}

bool et_column_is_target(const et_feature_choice *choice, const char *field)
{
    return (choice->target && !strcmp(field, choice->target)) ||
           is_named(field, choice->more_targets, choice->more_target_count);
}

et_feature_choice et_column_choice(const char *target, const et_strings *more_targets)
{
    return (et_feature_choice){ .discrete = ET_TRANSFORM_EMBED,
                                .target = target,
                                .more_targets = more_targets ? more_targets->items : NULL,
                                .more_target_count = more_targets ? (int)more_targets->count : 0 };
}

/* option: "--drop" or "--features". */
static int check_inputs(const et_feature_choice *choice, const char *const *names, int count,
                        const char *option, et_error *error)
{
    for (int i = 0; i < count; i++) {
        const char *name = names[i];
        const char *use = et_column_is_target(choice, name)                 ? "target"
                          : choice->id && !strcmp(name, choice->id)         ? "ID"
                          : choice->weight && !strcmp(name, choice->weight) ? "weight"
                          : choice->groups && !strcmp(name, choice->groups) ? "group"
                                                                            : NULL;
        if (use)
            return et_fail(error, ET_ECONFIG,
                           "%s: the column %.60s is the %s, which is never an input of the model; "
                           "do not name it here",
                           option, name, use);
        if (names == choice->only && is_named(name, choice->dropped, choice->dropped_count))
            return et_fail(error, ET_ECONFIG,
                           "the column %.60s is named in --drop and in --features; name it in one "
                           "of them",
                           name);
    }
    return ET_OK;
}

int et_column_choice_check(const et_feature_choice *choice, et_error *error)
{
    int status = check_inputs(choice, choice->dropped, choice->dropped_count, "--drop", error);
    return status ? status
                  : check_inputs(choice, choice->only, choice->only_count, "--features", error);
}

et_column_use et_column_use_infer(const et_schema_field *field, const et_column_metadata *m,
                                  const et_feature_choice *choice)
{
    et_column_use use = { .format = et_number_format_of(field) };
    if (et_column_is_target(choice, field->name))
        add(&use, ET_TRANSFORM_TARGET);
    else if (choice->id && !strcmp(field->name, choice->id))
        add(&use, ET_TRANSFORM_KEY);
    else if (choice->groups && !strcmp(field->name, choice->groups))
        use.ignored = ET_COLUMN_GROUPS;
    else if (choice->weight && !strcmp(field->name, choice->weight))
        add(&use, ET_TRANSFORM_WEIGHT);
    else if (is_named(field->name, choice->dropped, choice->dropped_count))
        use.ignored = ET_COLUMN_DROPPED;
    else if (choice->only_count && !is_named(field->name, choice->only, choice->only_count))
        use.ignored = ET_COLUMN_OTHER;
    else if (field->length == ET_SCHEMA_VARIABLE)
        use.ignored = ET_COLUMN_LIST;
    else if (!m->count && m->missing > 0)
        use.ignored = ET_COLUMN_EMPTY;
    else if (et_schema_numeric(field)) {
        if (is_running(field, m))
            use.ignored = ET_COLUMN_RUNNING;
        else if (is_constant(field, m))
            use.ignored = ET_COLUMN_CONSTANT;
        else
            add(&use, numeric_transform(choice, m));
        if (m->missing)
            add(&use, ET_TRANSFORM_MISSING);
    } else
        judge_text(&use, field, m, choice);
    return use;
}

/* ---- of features ---- */

static void mark(et_column_use *uses, const et_schema *schema, const et_feature_spec *spec)
{
    const char *const *fields = NULL;
    int count = et_feature_fields(spec, &fields);
    for (int i = 0; i < spec->feature_count; i++)
        mark(uses, schema, &spec->features[i]);
    for (int i = 0; i < count; i++) {
        int position = et_schema_position(schema, fields[i]);
        if (position < 0)
            continue;
        add(&uses[position], spec->type);
        uses[position].ignored = ET_COLUMN_USED;
        if (spec->minimum_count)
            uses[position].minimum_count = spec->minimum_count;
        if (spec->words)
            uses[position].words = spec->words;
        if (spec->order)
            uses[position].order = spec->order;
    }
}

void et_column_uses_of(et_column_use *uses, const et_schema *schema, const et_feature_set *set)
{
    for (int i = 0; i < et_schema_count(schema); i++)
        uses[i] = (et_column_use){ .ignored = ET_COLUMN_UNNAMED,
                                   .format = et_number_format_of(et_schema_at(schema, i)) };
    for (int i = 0; i < et_feature_set_count(set); i++)
        mark(uses, schema, et_feature_set_at(set, i));
}

static et_date_order date_order(const et_feature_spec *spec, const char *column)
{
    const char *const *fields = NULL;
    int count = et_feature_fields(spec, &fields);
    et_date_order order = ET_DATE_ANY;
    for (int i = 0; i < count && !order; i++)
        if (!strcmp(fields[i], column))
            order = spec->order;
    for (int i = 0; i < spec->feature_count && !order; i++)
        order = date_order(&spec->features[i], column);
    return order;
}

et_date_order et_column_date_order(const et_feature_set *set, const char *column)
{
    et_date_order order = ET_DATE_ANY;
    for (int i = 0; set && i < et_feature_set_count(set) && !order; i++)
        order = date_order(et_feature_set_at(set, i), column);
    return order;
}

/* ---- in words ---- */

static const char *const words[ET_TRANSFORM_COUNT] = {
    [ET_TRANSFORM_IDENTITY] = "number, unchanged",
    [ET_TRANSFORM_TARGET] = "the target",
    [ET_TRANSFORM_LOG] = "number, its logarithm",
    [ET_TRANSFORM_SCALE] = "number, scaled",
    [ET_TRANSFORM_BUCKETIZE] = "number, by ranges",
    [ET_TRANSFORM_ONE_HOT] = "one-hot",
    [ET_TRANSFORM_STANDARDIZE] = "number, standardized",
    [ET_TRANSFORM_QUANTILE] = "number, mapped by its quantiles",
    [ET_TRANSFORM_ROBUST] = "number, scaled by its quartiles, limited to -3 to 3",
    [ET_TRANSFORM_CLIP] = "number, standardized, clipped",
    [ET_TRANSFORM_EMBED] = "embedding",
    [ET_TRANSFORM_HASH] = "embedding by hash",
    [ET_TRANSFORM_CROSS] = "crossed with others",
    [ET_TRANSFORM_DATE] = "date, its parts",
    [ET_TRANSFORM_MISSING] = "whether the value is missing",
    [ET_TRANSFORM_KEY] = "key of predictions",
    [ET_TRANSFORM_WORDS] = "free text: its words and word pairs",
    [ET_TRANSFORM_WEIGHT] = "weight of the row",
};

static const char *const reasons[] = {
    [ET_COLUMN_EMPTY] = "no row has a value: ignored",
    [ET_COLUMN_CONSTANT] = "constant: ignored",
    [ET_COLUMN_KEY] = "looks like an ID, ignored",
    [ET_COLUMN_RUNNING] = "counts the rows: looks like an ID, ignored",
    [ET_COLUMN_LIST] = "lists of values: ignored without a features file",
    [ET_COLUMN_GROUPS] = "keeps rows of a group together: ignored",
    [ET_COLUMN_DROPPED] = "dropped: ignored",
    [ET_COLUMN_OTHER] = "not among the chosen columns: ignored",
    [ET_COLUMN_UNNAMED] = "ignored: no feature reads it",
};

static void print_shares(et_strbuf *out, const et_column_metadata *m)
{
    et_strbuf_printf(out, "%s of %s values differ", et_format_count(et_column_distinct(m)).text,
                     et_format_count(m->count).text);
}

/* Prints how one transform uses a column. */
static void print_transform(et_strbuf *out, const et_column_use *use, et_transform type,
                            const et_column_metadata *m)
{
    const et_date_order order =
        m && type == ET_TRANSFORM_DATE ? use->order ? use->order : m->order : ET_DATE_ANY;
    const bool time = order == ET_DATE_TIME;
    et_strbuf_append(out, time ? "time of day, its parts (durations: write them as numbers)"
                               : words[type]);
    if (order && !time)
        et_strbuf_printf(out, " (%s)", et_date_order_names[order]);
    if (m && type == ET_TRANSFORM_WORDS)
        et_strbuf_printf(out, " (the first %s", et_format_many(use->words, "word").text);
    if (m && type == ET_TRANSFORM_WORDS && m->most_words > use->words)
        et_strbuf_printf(out, " of at most %s", et_format_count(m->most_words).text);
    if (m && type == ET_TRANSFORM_WORDS)
        et_strbuf_append_char(out, ')');
    if (!m || (type != ET_TRANSFORM_EMBED && type != ET_TRANSFORM_ONE_HOT))
        return;
    et_strbuf_printf(out, " of %s",
                     et_format_many(entries_with(m, use->minimum_count), "value").text);
    if (use->minimum_count > 1) {
        et_strbuf_printf(out, " with %lld rows or more, and one for all others (",
                         (long long)use->minimum_count);
        print_shares(out, m);
        et_strbuf_append(out, ")");
    }
}

/* m NULL: leaves out facts that differ between columns of the same use. */
void et_column_use_print(et_strbuf *out, const et_column_use *use, const et_column_metadata *m)
{
    const char *between = "";
    if (use->ignored == ET_COLUMN_KEY && m) {
        print_shares(out, m);
        et_strbuf_append(out, ": ");
    }
    if (use->ignored) {
        et_strbuf_append(out, reasons[use->ignored]);
        between = use->transforms ? ", except " : "";
    }
    for (int type = 0; type < ET_TRANSFORM_COUNT; type++)
        if (has(use, (et_transform)type) && words[type]) {
            et_strbuf_append(out, between);
            print_transform(out, use, (et_transform)type, m);
            between = "; ";
        }
    if (m && m->missing && m->count)
        et_strbuf_printf(out, "; %s of %s missing", et_format_count(m->missing).text,
                         et_format_count(m->count + m->missing).text);
    if (use->format.notation && use->transforms)
        et_strbuf_printf(out, " (written like %s%s%s)", ET_NOTATION_EXAMPLE(use->format));
}

/* ---- all columns ---- */

/* Bytes of a name that fit into NAME_SHOWN columns. */
static int name_bytes(const char *name)
{
    return (int)et_utf8_fitting(name, NAME_SHOWN);
}

static bool is_same(const et_column_use *a, const et_column_use *b)
{
    const char *one = a->format.unit, *other = b->format.unit;
    return a->ignored == b->ignored && a->transforms == b->transforms &&
           a->format.notation == b->format.notation && !one == !other &&
           (!one || !strcmp(one, other));
}

/* Columns of one type and use; the first represents them. */
typedef struct group {
    int first; /* a column */
    int count;
    int names[NAMES_SHOWN];
} group;

static group *find_group(group *groups, int *count, const et_column_use *uses,
                         const et_schema *schema, int column)
{
    for (int g = 0; g < *count; g++) {
        const int first = groups[g].first;
        if (is_same(&uses[first], &uses[column]) &&
            et_schema_at(schema, first)->type == et_schema_at(schema, column)->type)
            return &groups[g];
    }
    if (*count == LINES_MAX)
        return NULL;
    groups[*count] = (group){ .first = column };
    return &groups[(*count)++];
}

static void print_group(et_strbuf *out, const group *g, const et_column_use *uses,
                        const et_schema *schema)
{
    et_strbuf_printf(out, "%s %s column%s: ", et_format_count(g->count).text,
                     et_schema_type_name(et_schema_at(schema, g->first)->type),
                     g->count == 1 ? "" : "s");
    et_column_use_print(out, &uses[g->first], NULL);
    et_strbuf_append(out, " (");
    for (int i = 0; i < g->count && i < NAMES_SHOWN; i++) {
        et_strbuf_append(out, i ? ", " : "");
        const char *name = et_schema_at(schema, g->names[i])->name;
        et_strbuf_append_bytes(out, name, name_bytes(name));
    }
    et_strbuf_append(out, g->count > NAMES_SHOWN ? ", ...)\n" : ")\n");
}

int et_column_uses_print(et_strbuf *out, const et_column_use *uses, const et_schema *schema,
                         const et_metadata *metadata, et_error *error)
{
    et_grid grid = { .columns = 3, .headless = true, .left = 3 };
    if (et_schema_count(schema) > LINES_MAX) {
        /* A features file may use columns in so many ways that not each has a line: the rest is
         * counted. */
        group *groups = et_alloc(LINES_MAX, sizeof *groups);
        int count = 0, others = 0;
        if (!groups)
            return et_alloc_failed(error, "columns");
        for (int i = 0; i < et_schema_count(schema); i++) {
            group *g = find_group(groups, &count, uses, schema, i);
            if (!g)
                others++;
            else if (g->count++ < NAMES_SHOWN)
                g->names[g->count - 1] = i;
        }
        for (int g = 0; g < count; g++)
            print_group(out, &groups[g], uses, schema);
        if (others)
            et_strbuf_printf(out, "%s others, each used in another way\n",
                             et_format_count(others).text);
        et_free(groups);
        return out->failed ? et_alloc_failed(error, "columns") : ET_OK;
    }
    for (int i = 0; i < et_schema_count(schema); i++) {
        const et_schema_field *field = et_schema_at(schema, i);
        const et_column_use *use = &uses[i];
        const et_column_metadata *m = et_metadata_find(metadata, field->name);
        et_strbuf text = ET_STRBUF_INIT;
        et_column_use_print(&text, use, m);
        et_grid_addf(&grid, "%.*s", name_bytes(field->name), field->name);
        et_grid_add(&grid, et_schema_type_name(field->type));
        et_grid_add(&grid, et_strbuf_text(&text));
        grid.failed |= text.failed;
        et_strbuf_release(&text);
    }
    et_grid_append(&grid, ET_GRID_TEXT, out);
    et_grid_release(&grid);
    return out->failed ? et_alloc_failed(error, "columns") : ET_OK;
}
