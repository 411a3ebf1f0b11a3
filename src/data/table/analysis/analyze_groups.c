/* Rows that belong together, such as the measurements of one patient, by the first rows: a random
 * split would hold out rows that a model has nearly seen. A column names groups if
 *
 *   - its texts, or numbers of a column that is called an ID, name at least GROUPS_LEAST groups of
 *     ROWS_LEAST to ROWS_MOST rows on average, and none has more than LARGEST of the rows;
 *   - of rows, evenly spread, at least SHARE have their nearest row in their own group (SHUFFLED if
 *     rows of a group are not next to each other in the file), and many times more than by chance;
 *   - where the nearest row is of the same group, the target is more alike than that of other rows.
 *
 * The distance is the sum over the input columns, without the one in question: of numbers the
 * difference in deviations, at most 3; of texts 1 if they differ. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/sort.h"
#include "base/text/format.h"
#include "base/values/value.h"
#include "data/table/analysis/analyze_private.h"
#include "data/table/analysis/column_use.h"

#define GROUPS_LEAST  20
#define ROWS_LEAST    1.8
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
    int target;          /* a field; -1: none */
} grouping;

static const et_first_rows *rows_of(const grouping *g, int field)
{
    return &g->table->field[field].first_rows;
}

static bool is_target(const grouping *g, int field)
{
    return g->uses[field].transforms >> ET_TRANSFORM_TARGET & 1;
}

/* Whether all values are numbers, but for missing ones. */
static bool is_numbers(const grouping *g, int field)
{
    const et_first_rows *rows = rows_of(g, field);
    int64_t missing = 0;
    for (int64_t i = 0; i < rows->count; i++)
        missing += rows->value[i] == ET_FIRST_MISSING;
    return rows->numbers && rows->numbers + missing == rows->count;
}

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

/* Of a value of a column in two rows. */
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
                distance +=
                    difference(rows_of(g, g->input[i].field), g->input[i].deviation, row, other);
        if (other != row && distance < least) {
            least = distance;
            best = other;
        }
    }
    return best;
}

/* ---- candidates ---- */

ET_SORT_NUMBERS(by_value, uint64_t)

typedef struct sizes {
    double groups, shared;  /* groups; fraction of rows that are not alone in theirs */
    double largest, chance; /* fractions: the largest group; that two rows are of one group */
    double adjacent;        /* fraction of rows whose next row is of their group */
} sizes;

static bool measure(const grouping *g, int field, sizes *out)
{
    const et_first_rows *rows = rows_of(g, field);
    uint64_t *sorted = et_alloc((size_t)g->rows, sizeof *sorted);
    if (!sorted)
        return false;
    memcpy(sorted, rows->value, (size_t)g->rows * sizeof *sorted);
    qsort(sorted, (size_t)g->rows, sizeof *sorted, by_value);
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

/* By the whole table. */
static bool may_group(const grouping *g, int field)
{
    const et_column_stats *s = &g->table->field[field];
    const double values = (double)et_column_stats_values(s);
    const double distinct = (double)et_column_stats_distinct(s);
    const bool texts = !rows_of(g, field)->numbers && !g->uses[field].words;
    return !is_target(g, field) && rows_of(g, field)->count >= g->rows &&
           (texts ||
            is_called_id(et_table_head_field(&g->table->head, g->table->options, field))) &&
           2 * et_column_stats_dates(s) < et_column_stats_values(s) && distinct >= GROUPS_LEAST &&
           values >= ROWS_LEAST * distinct && values <= ROWS_MOST * distinct;
}

/* ---- what nearest rows say ---- */

typedef struct nearness {
    double probes, same; /* rows; those whose nearest row is of their group */
    double alike, apart; /* of these: differences of the target to the nearest, and to any, row */
} nearness;

static nearness examine(const grouping *g, int field)
{
    const et_first_rows *rows = rows_of(g, field);
    const et_first_rows *target = g->target < 0 ? NULL : rows_of(g, g->target);
    const double deviation =
        target && is_numbers(g, g->target) && g->table->field[g->target].count[ET_CELL_REAL]
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
        if (rows_of(&g, field)->count && rows_of(&g, field)->count < g.rows)
            g.rows = rows_of(&g, field)->count;
    if (fields < 2 || g.rows < PROBES / 2)
        return;
    /* Texts with many values are IDs, dates or sentences, which differ in all rows. */
    for (int field = 0; field < g.table->head.fields; field++) {
        const int64_t distinct = et_column_stats_distinct(&g.table->field[field]);
        const bool numbers = is_numbers(&g, field);
        const double deviation = numbers ? deviation_of(rows_of(&g, field), g.rows) : 0;
        if (is_target(&g, field)) {
            g.target = field;
            continue;
        }
        if (g.uses[field].ignored || rows_of(&g, field)->count < g.rows || g.inputs == COLUMNS ||
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
             "rows with the same value belong together: for %.0f %% of the rows, the most similar "
             "row has the same %.60s. Random held-out rows give scores that are too good for new "
             "values of %.60s: give %s",
             100 * best, name, name, et_column_group_option(name).text);
    et_table_suspect(list, name, "group", text);
}
