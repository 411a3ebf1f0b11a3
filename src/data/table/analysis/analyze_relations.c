/* Suspicious relations between columns, in the first rows: equal columns, columns that reveal the
 * target, and rows that are equal in all columns. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/sort.h"
#include "base/text/format.h"
#include "data/table/analysis/analyze_private.h"
#include "data/table/analysis/column_use.h"

/* ---- the values of a column's first rows ---- */

#define CORRELATED 0.99999

/* Fewer rows may agree by chance. */
#define ROWS_EQUAL   20
#define ROWS_ENOUGH  50
#define ROWS_LEVEL   5  /* of a value, on average */
#define ROWS_OTHERS  10 /* beyond the most frequent value of the target; of each that is divided */
#define CLASSES_MOST 20

static bool has_both(const et_first_rows *a, const et_first_rows *b, int64_t row)
{
    return a->value[row] != ET_FIRST_MISSING && b->value[row] != ET_FIRST_MISSING;
}

/* Whether two columns of numbers are a line: |correlation| > 0.99999 over the rows with both. */
static bool rows_on_line(const et_first_rows *a, const et_first_rows *b)
{
    double mean[2] = { 0, 0 }, square[2] = { 0, 0 }, both = 0;
    int64_t count = 0;
    et_assert(a->count == b->count);
    for (int64_t i = 0; i < a->count; i++) {
        if (!has_both(a, b, i))
            continue;
        const double x = et_first_rows_number(a, i), y = et_first_rows_number(b, i);
        const double dx = x - mean[0], dy = y - mean[1];
        count++;
        mean[0] += dx / (double)count;
        mean[1] += dy / (double)count;
        square[0] += dx * (x - mean[0]);
        square[1] += dy * (y - mean[1]);
        both += dx * (y - mean[1]);
    }
    return count >= ROWS_ENOUGH && fabs(both) > CORRELATED * sqrt(square[0] * square[1]);
}

/* ---- pairs ---- */

typedef struct pair {
    uint64_t value, target;
    double number; /* the value, if it is a number */
} pair;

ET_SORT_BY(by_target, pair, ET_UP(target), 0)

ET_SORT_BY(by_value, pair, ET_UP(value), ET_UP(target))

ET_SORT_BY(by_number, pair, ET_UP(number), ET_UP(target))

/* NULL: too few rows, or no memory. *count: the number of rows with both values. */
static pair *pairs_of(const et_first_rows *column, const et_first_rows *target, int64_t *count,
                      bool *failed)
{
    *count = 0;
    et_assert(column->count == target->count);
    if (column->count < ROWS_ENOUGH)
        return NULL;
    pair *pairs = et_alloc(column->count, sizeof *pairs);
    *failed |= !pairs;
    for (int64_t i = 0; pairs && i < column->count; i++)
        if (has_both(column, target, i))
            pairs[(*count)++] =
                (pair){ column->value[i], target->value[i], et_first_rows_number(column, i) };
    if (*count >= ROWS_ENOUGH && 2 * *count >= column->count)
        return pairs;
    et_free(pairs);
    return NULL;
}

/* Number of rows with the most and with the least frequent value of the target, and number of
 * values. */
typedef struct counts {
    int64_t most, least, values;
} counts;

static counts count_targets(pair *pairs, int64_t count)
{
    counts c = { 0, count, 0 };
    qsort(pairs, count, sizeof *pairs, by_target);
    for (int64_t i = 0, first = 0; i < count; i++) {
        if (i + 1 < count && pairs[i + 1].target == pairs[i].target)
            continue;
        const int64_t rows = i + 1 - first;
        c.most = rows > c.most ? rows : c.most;
        c.least = rows < c.least ? rows : c.least;
        c.values++;
        first = i + 1;
    }
    return c;
}

/* Each value occurs with one value of the target. */
static bool determines(pair *pairs, int64_t count, const counts *c)
{
    bool one = c->most <= count - ROWS_OTHERS;
    int64_t levels = 1;
    qsort(pairs, count, sizeof *pairs, by_value);
    for (int64_t i = 1; i < count && one; i++) {
        const bool other = pairs[i].value != pairs[i - 1].value;
        levels += other;
        one = other || pairs[i].target == pairs[i - 1].target;
    }
    return one && levels * ROWS_LEVEL <= count;
}

/* Each value of the target has one range of numbers. */
static bool separates(pair *pairs, int64_t count, const counts *c)
{
    bool divided = c->values >= 2 && c->values <= CLASSES_MOST && c->least >= ROWS_OTHERS;
    int64_t changes = 0;
    qsort(pairs, count, sizeof *pairs, by_number);
    for (int64_t i = 1; i < count && divided; i++) {
        const bool other = pairs[i].target != pairs[i - 1].target;
        changes += other;
        divided = changes < c->values && !(other && pairs[i].number == pairs[i - 1].number);
    }
    return divided;
}

typedef enum relation {
    UNRELATED,
    DETERMINES, /* each value of the column occurs with one value of the target: in 50 rows
                            or more, on average 5 of each value, and 10 rows beyond the target's
                            most frequent value */
    SEPARATES   /* each of 2 to 20 values of the target has one range of the column's
                            numbers, and at least 10 rows */
} relation;

/* numbers: the column has only numbers and missing values. *failed becomes true: no memory. */
static relation relate_rows(const et_first_rows *column, const et_first_rows *target, bool numbers,
                            bool *failed)
{
    relation found = UNRELATED;
    int64_t count;
    pair *pairs = pairs_of(column, target, &count, failed);
    if (!pairs)
        return found;
    const counts c = count_targets(pairs, count);
    if (determines(pairs, count, &c))
        found = DETERMINES;
    else if (numbers && separates(pairs, count, &c))
        found = SEPARATES;
    et_free(pairs);
    return found;
}

/* Fewest first rows of a longer table by which relations are judged. */
#define ROWS_LEAST 1000
/* Equal rows are reported from this share of the rows on, if they are more than by chance. */
#define COPIES_SHARE 0.01

typedef struct relating {
    et_value *list;
    const et_table_stats *table;
    const et_column_use *uses;
    const char *rows; /* "all 400 rows" */
    bool few;         /* too few first rows to judge relations of columns */
    bool failed;
} relating;

ET_SORT_NUMBERS(by_bits, uint64_t)

static const et_first_rows *rows_of(const et_table_stats *table, int field)
{
    return &table->field[field].first_rows;
}

static bool is_target(const et_column_use *uses, int field)
{
    return uses[field].transforms >> ET_TRANSFORM_TARGET & 1;
}

static const char *name_of(const relating *r, int field)
{
    return et_table_head_field(&r->table->head, r->table->options, field);
}

/* Whether a column has one value for each of the first rows; lists have more or fewer. */
static bool is_whole(const relating *r, int field)
{
    const et_first_rows *rows = rows_of(r->table, field);
    const et_schema *schema = r->table->options->schema;
    return (!schema || et_schema_at(schema, field)->length == 1) &&
           rows->count == (r->table->rows < rows->most ? r->table->rows : rows->most);
}

static bool is_read(const relating *r, int field)
{
    return !r->uses[field].ignored && !is_target(r->uses, field) && is_whole(r, field);
}

/* Whether all values of a column are numbers or missing. */
static bool is_numbers(const et_first_rows *rows)
{
    int64_t missing = 0;
    for (int64_t i = 0; i < rows->count; i++)
        missing += rows->value[i] == ET_FIRST_MISSING;
    return rows->numbers && rows->numbers + missing == rows->count;
}

/* Compares statistics of all rows, not only of the first. */
static bool same_statistics(const relating *r, int one, int other)
{
    const et_column_stats *a = &r->table->field[one], *b = &r->table->field[other];
    return et_column_stats_values(a) == et_column_stats_values(b) &&
           et_column_stats_distinct(a) == et_column_stats_distinct(b) && a->numbers == b->numbers &&
           a->mean == b->mean && a->squares == b->squares;
}

/* Whether two columns have the same value in every row, of at least 20 rows. */
static bool is_equal(const relating *r, int one, int other)
{
    const et_first_rows *a = rows_of(r->table, one), *b = rows_of(r->table, other);
    return a->count >= ROWS_EQUAL && a->count == b->count && a->numbers == b->numbers &&
           !memcmp(a->value, b->value, a->count * sizeof *a->value) &&
           same_statistics(r, one, other);
}

static bool find_leak(relating *r, int field, int target)
{
    static const char *const words[] = { [UNRELATED] = NULL,
                                         [DETERMINES] = "alone determines",
                                         [SEPARATES] = "alone separates the values of" };
    const et_first_rows *x = rows_of(r->table, field), *y = rows_of(r->table, target);
    const bool numbers = is_numbers(x);
    const char *how = NULL;
    char text[400];
    if (is_equal(r, field, target))
        how = "is equal to";
    else if (r->few)
        return false;
    else if (numbers && is_numbers(y) && rows_on_line(x, y))
        how = "is a linear function of";
    else
        how = words[relate_rows(x, y, numbers, &r->failed)];
    if (!how)
        return false;
    snprintf(text, sizeof text,
             "%s the target %.100s in %s: if its value is not known before the target, this is a "
             "leak, and scores are too good; to train without it, add %s",
             how, name_of(r, target), r->rows, et_column_drop_option(name_of(r, field)).text);
    et_table_suspect(r->list, name_of(r, field), "leak", text);
    return true;
}

static bool find_copy(relating *r, int field)
{
    char text[300];
    for (int other = 0; other < field; other++) {
        if (!is_read(r, other) || !is_equal(r, field, other))
            continue;
        snprintf(
            text, sizeof text,
            "is equal to the column %.100s in %s: it adds nothing; to train without it, add %s",
            name_of(r, other), r->rows, et_column_drop_option(name_of(r, field)).text);
        et_table_suspect(r->list, name_of(r, field), "copy", text);
        return true;
    }
    return false;
}

static bool is_compared(const relating *r, int field)
{
    return is_read(r, field) || (is_target(r->uses, field) && is_whole(r, field));
}

/* Counts rows that are equal in the target and in all columns that a model reads. */
static void find_copies(relating *r, const et_column_metadata *metadata)
{
    const int fields = r->table->head.fields;
    const int64_t rows = rows_of(r->table, 0)->count;
    uint64_t *hash = et_alloc_zero((size_t)rows + 1, sizeof *hash);
    double chance[2] = { (double)rows, (double)rows }, pairs = 0;
    int64_t copies = 0, run = 0;
    int whole = 0;
    r->failed |= !hash;
    for (int field = 0; field < fields && hash; field++) {
        if (!is_compared(r, field))
            continue;
        whole++;
        for (int64_t i = 0; i < rows; i++) {
            const uint64_t both[] = { hash[i], rows_of(r->table, field)->value[i] };
            hash[i] = et_checksum(both, sizeof both);
        }
    }
    if (hash)
        qsort(hash, rows, sizeof *hash, by_bits);
    for (int64_t i = 0; i < rows && hash; i++) {
        run = i && hash[i] == hash[i - 1] ? run + 1 : 0;
        copies += run > 0;
        pairs += (double)(2 * run + 1);
    }
    et_free(hash);
    for (int field = 0; field < fields; field++)
        for (int i = 0; i < 2 && is_compared(r, field); i++)
            chance[i] *= et_column_agreement(&metadata[field], i * pairs, (double)rows);
    const double share = rows ? (double)copies / (double)rows : 0;
    if (!whole || share < COPIES_SHARE || !et_copies_are_many((double)copies, (double)rows, chance))
        return;
    char text[300];
    snprintf(
        text, sizeof text,
        "%s of %s are copies of another row (ignored columns may differ): if a copy is held out, "
        "scores are too good; remove the copies, or keep them together with --group COLUMN",
        et_format_count(copies).text, r->rows);
    et_table_suspect(r->list, "(rows)", "copies", text);
}

int et_table_relations_suspect(et_value *list, const et_table_stats *table,
                               const et_column_use *uses, const et_column_metadata *metadata,
                               et_error *error)
{
    const int fields = table->head.fields;
    const int64_t most = fields ? table->field[0].first_rows.most : 0;
    char rows[64];
    snprintf(rows, sizeof rows, "%s %s", table->rows > most ? "the first" : "all",
             et_format_many(table->rows > most ? most : table->rows, "row").text);
    const bool few = table->rows > most && most < ROWS_LEAST;
    relating r = { list, table, uses, rows, few, false };
    for (int field = 0; field < fields && !r.failed; field++) {
        bool found = !is_read(&r, field);
        for (int target = 0; target < fields && !found; target++)
            found = is_target(uses, target) && is_whole(&r, target) && find_leak(&r, field, target);
        if (!found)
            find_copy(&r, field);
    }
    if (fields && !r.failed)
        find_copies(&r, metadata);
    return r.failed ? et_alloc_failed(error, "the rows of two columns") : ET_OK;
}

/* ---- columns that are one group ---- */

/* Finds rows that belong together, such as the measurements of one patient, in the first rows. A
 * random split would hold out rows that are similar to training rows. A column names groups if
 *
 *   - its texts, or its numbers if its name says that it is an ID, name at least GROUPS_LEAST
 *     groups of GROUP_LEAST to ROWS_MOST rows on average, and no group has more than LARGEST of the
 *     rows;
 *   - of rows, evenly spread, at least SHARE have their nearest row in their own group (SHUFFLED if
 *     rows of a group are not next to each other in the file), and many times more than by chance;
 *   - if the nearest row of a row is in its group, their targets are more alike than other targets.
 *
 * The distance is a sum over the input columns, without the examined column: the difference of
 * numbers in deviations, at most 3, and 1 for texts that differ. */

#define GROUPS_LEAST  20
#define GROUP_LEAST   1.8
#define ROWS_MOST     200
#define LARGEST       0.1
#define SHARE         0.5
#define SHUFFLED      0.6
#define ADJACENT      0.4
#define CHANCE        5
#define ALIKE         0.15
#define NUMBERS_LEAST 3 /* columns of numbers that a distance needs */
#define FAR           3
#define PROBES        200
#define ROWS          4000
#define COLUMNS       40

typedef struct input {
    int field;
    double deviation; /* of numbers; 0: texts */
} input;

typedef struct grouping {
    const et_table_stats *table;
    const et_column_use *uses;
    int64_t rows; /* compared */
    input input[COLUMNS];
    int inputs, numbers; /* numbers: of the inputs */
    int target;          /* index of a field; -1: none */
} grouping;

static double deviation_of(const et_first_rows *rows, int64_t count)
{
    double mean = 0, squares = 0, seen = 0;
    for (int64_t i = 0; i < count; i++) {
        if (rows->value[i] == ET_FIRST_MISSING)
            continue;
        const double off = et_first_rows_number(rows, i) - mean;
        mean += off / ++seen;
        squares += off * (et_first_rows_number(rows, i) - mean);
    }
    return seen > 0 && isfinite(squares) ? sqrt(squares / seen) : 0;
}

/* The difference of a column's values in two rows. */
static double difference(const et_first_rows *rows, double deviation, int64_t a, int64_t b)
{
    if (rows->value[a] == rows->value[b])
        return 0;
    if (!(deviation > 0) || rows->value[a] == ET_FIRST_MISSING ||
        rows->value[b] == ET_FIRST_MISSING)
        return 1;
    const double off = fabs(et_first_rows_number(rows, a) - et_first_rows_number(rows, b));
    return fmin(off / deviation, FAR);
}

static int64_t nearest(const grouping *g, int field, int64_t row)
{
    int64_t best = -1;
    double least = INFINITY;
    for (int64_t other = 0; other < g->rows; other++) {
        double distance = 0;
        for (int i = 0; i < g->inputs && distance < least; i++)
            if (g->input[i].field != field)
                distance += difference(rows_of(g->table, g->input[i].field), g->input[i].deviation,
                                       row, other);
        if (other != row && distance < least) {
            least = distance;
            best = other;
        }
    }
    return best;
}

/* ---- candidates ---- */

typedef struct sizes {
    double groups, shared;  /* groups; fraction of rows that are not alone in theirs */
    double largest, chance; /* fractions: the largest group; that two rows are of one group */
    double adjacent;        /* fraction of rows whose next row is in the same group */
} sizes;

static bool measure(const grouping *g, int field, sizes *out)
{
    const et_first_rows *rows = rows_of(g->table, field);
    uint64_t *sorted = et_alloc(g->rows, sizeof *sorted);
    if (!sorted)
        return false;
    memcpy(sorted, rows->value, g->rows * sizeof *sorted);
    qsort(sorted, g->rows, sizeof *sorted, by_bits);
    *out = (sizes){ 0 };
    for (int64_t i = 0, same; i < g->rows; i += same) {
        for (same = 1; i + same < g->rows && sorted[i + same] == sorted[i];)
            same++;
        if (sorted[i] == ET_FIRST_MISSING)
            continue;
        const double share = (double)same / (double)g->rows;
        out->groups++;
        out->shared += same > 1 ? share : 0;
        out->largest = fmax(out->largest, share);
        out->chance += share * share;
    }
    for (int64_t i = 0; i + 1 < g->rows; i++)
        out->adjacent += rows->value[i] == rows->value[i + 1] ? 1 / (double)(g->rows - 1) : 0;
    et_free(sorted);
    return true;
}

/* "id" as a word of the name, or at its end: id, patient_id, PatientID, userId. */
static bool is_called_id(const char *name)
{
    const size_t length = strlen(name);
    if (length < 2 || tolower((unsigned char)name[length - 2]) != 'i' ||
        tolower((unsigned char)name[length - 1]) != 'd')
        return false;
    return length == 2 || !isalpha((unsigned char)name[length - 3]) || name[length - 2] == 'I';
}

/* Judged by the whole table. */
static bool may_group(const grouping *g, int field)
{
    const et_column_stats *s = &g->table->field[field];
    const double values = (double)et_column_stats_values(s);
    const double distinct = (double)et_column_stats_distinct(s);
    const bool texts = !rows_of(g->table, field)->numbers && !g->uses[field].words;
    return !is_target(g->uses, field) && rows_of(g->table, field)->count >= g->rows &&
           (texts ||
            is_called_id(et_table_head_field(&g->table->head, g->table->options, field))) &&
           2 * et_column_stats_dates(s) < et_column_stats_values(s) && distinct >= GROUPS_LEAST &&
           values >= GROUP_LEAST * distinct && values <= ROWS_MOST * distinct;
}

/* ---- nearest rows ---- */

typedef struct nearness {
    double probes, same; /* number of rows; number of rows whose nearest row is in the same group */
    double alike, apart; /* of these: differences of the target to the nearest, and to any, row */
} nearness;

static nearness examine(const grouping *g, int field)
{
    const et_first_rows *rows = rows_of(g->table, field);
    const et_first_rows *target = g->target < 0 ? NULL : rows_of(g->table, g->target);
    const double deviation =
        target && is_numbers(target) && g->table->field[g->target].count[ET_CELL_REAL]
            ? deviation_of(target, g->rows)
            : 0;
    nearness n = { 0 };
    et_assert(rows && rows->value);
    for (int64_t i = 0; i < PROBES; i++) {
        const int64_t row = i * g->rows / PROBES, any = (row + g->rows / 2 + 7 * i) % g->rows;
        if (rows->value[row] == ET_FIRST_MISSING)
            continue;
        const int64_t other = nearest(g, field, row);
        n.probes++;
        if (other < 0 || rows->value[other] != rows->value[row])
            continue;
        n.same++;
        n.alike += target ? difference(target, deviation, row, other) : 0;
        n.apart += target ? difference(target, deviation, row, any) : 1;
    }
    return n;
}

static bool belongs_together(const grouping *g, int field, double *share)
{
    sizes s;
    if (!may_group(g, field) || !measure(g, field, &s))
        return false;
    if (s.groups < 0.5 * GROUPS_LEAST || s.shared < 0.6 || s.largest > LARGEST)
        return false;
    const nearness n = examine(g, field);
    *share = n.probes > 0 ? n.same / n.probes : 0;
    return *share >= (s.adjacent >= ADJACENT ? SHARE : SHUFFLED) && *share >= CHANCE * s.chance &&
           n.alike <= (1 - ALIKE) * n.apart;
}

void et_table_groups_suspect(et_value *list, const et_table_stats *table, const et_column_use *uses)
{
    const int fields = table->head.fields;
    grouping g = { .table = table, .uses = uses, .rows = ROWS, .target = -1 };
    double best = 0, share;
    int found = -1;
    char text[600];
    for (int field = 0; field < fields; field++)
        if (rows_of(table, field)->count && rows_of(table, field)->count < g.rows)
            g.rows = rows_of(table, field)->count;
    if (fields < 2 || g.rows < PROBES / 2)
        return;
    /* Texts with many values are IDs, dates or sentences, which differ in all rows. */
    for (int field = 0; field < g.table->head.fields; field++) {
        const int64_t distinct = et_column_stats_distinct(&g.table->field[field]);
        const bool numbers = is_numbers(rows_of(table, field));
        const double deviation = numbers ? deviation_of(rows_of(table, field), g.rows) : 0;
        if (is_target(uses, field)) {
            g.target = field;
            continue;
        }
        if (g.uses[field].ignored || rows_of(table, field)->count < g.rows || g.inputs == COLUMNS ||
            (numbers ? !(deviation > 0) : distinct >= GROUPS_LEAST))
            continue;
        g.input[g.inputs++] = (input){ field, deviation };
        g.numbers += numbers;
    }
    for (int field = 0; field < fields && g.numbers >= NUMBERS_LEAST; field++)
        if (belongs_together(&g, field, &share) && share > best) {
            best = share;
            found = field;
        }
    if (found < 0)
        return;
    const char *name = et_table_head_field(&table->head, table->options, found);
    snprintf(text, sizeof text,
             "rows with the same value are similar: for %.0f %% of the rows, the most similar row "
             "has the same %.60s. If rows are held out at random, scores are too good for new "
             "values of %.60s: give %s",
             100 * best, name, name, et_column_group_option(name).text);
    et_table_suspect(list, name, "group", text);
}
