#include "data/table/analysis/analyze_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"

#define CORRELATED 0.99999

/* Fewer rows may agree by chance. */
#define ROWS_EQUAL   20
#define ROWS_LEAST   50
#define ROWS_LEVEL   5  /* of a value, on average */
#define ROWS_OTHERS  10 /* beyond the most frequent value of the target; of each that is divided */
#define CLASSES_MOST 20

/* Of a text; not the mark of a missing value. */
static uint64_t hash(const char *text, size_t length)
{
    const uint64_t h = et_checksum(text, length);
    return h == ET_FIRST_MISSING ? 0 : h;
}

static uint64_t bits_of(double number)
{
    uint64_t bits;
    const double one = number == 0 ? 0 : number; /* -0 is 0 */
    memcpy(&bits, &one, sizeof bits);
    return bits;
}

double et_first_rows_number(const et_first_rows *rows, int64_t row)
{
    double number;
    et_assert(row >= 0 && row < rows->count);
    memcpy(&number, &rows->value[row], sizeof number);
    return number;
}

bool et_first_rows_add(et_first_rows *rows, const char *text, size_t length, const double *number)
{
    if (et_first_rows_full(rows))
        return true;
    if (rows->count == rows->room) {
        const int64_t twice = rows->room ? 2 * rows->room : 64;
        const int64_t room = twice < rows->most ? twice : rows->most;
        uint64_t *grown = et_realloc(rows->value, (size_t)room, sizeof *grown);
        if (!grown)
            return false;
        rows->value = grown;
        rows->room = room;
    }
    rows->value[rows->count++] = !text    ? ET_FIRST_MISSING
                                 : number ? bits_of(*number)
                                          : hash(text, length);
    rows->numbers += text && number;
    return true;
}

void et_first_rows_release(et_first_rows *rows)
{
    et_free(rows->value);
    *rows = (et_first_rows){ .most = rows->most };
}

bool et_first_rows_equal(const et_first_rows *a, const et_first_rows *b)
{
    return a->count >= ROWS_EQUAL && a->count == b->count && a->numbers == b->numbers &&
           !memcmp(a->value, b->value, (size_t)a->count * sizeof *a->value);
}

static bool has_both(const et_first_rows *a, const et_first_rows *b, int64_t row)
{
    return a->value[row] != ET_FIRST_MISSING && b->value[row] != ET_FIRST_MISSING;
}

bool et_first_rows_on_line(const et_first_rows *a, const et_first_rows *b)
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
    return count >= ROWS_LEAST && fabs(both) > CORRELATED * sqrt(square[0] * square[1]);
}

/* ---- pairs ---- */

typedef struct pair {
    uint64_t value, target;
    double number; /* of the value, if it is one */
} pair;

static int by_target(const void *left, const void *right)
{
    const pair *a = left, *b = right;
    return (a->target > b->target) - (a->target < b->target);
}

static int by_value(const void *left, const void *right)
{
    const pair *a = left, *b = right;
    const int order = (a->value > b->value) - (a->value < b->value);
    return order ? order : by_target(left, right);
}

static int by_number(const void *left, const void *right)
{
    const pair *a = left, *b = right;
    const int order = (a->number > b->number) - (a->number < b->number);
    return order ? order : by_target(left, right);
}

/* NULL: too few rows, or no memory. *count: the rows that have both. */
static pair *pairs_of(const et_first_rows *column, const et_first_rows *target, int64_t *count,
                      bool *failed)
{
    *count = 0;
    et_assert(column->count == target->count);
    if (column->count < ROWS_LEAST)
        return NULL;
    pair *pairs = et_alloc((size_t)column->count, sizeof *pairs);
    *failed |= !pairs;
    for (int64_t i = 0; pairs && i < column->count; i++)
        if (has_both(column, target, i))
            pairs[(*count)++] =
                (pair){ column->value[i], target->value[i], et_first_rows_number(column, i) };
    if (*count >= ROWS_LEAST && 2 * *count >= column->count)
        return pairs;
    et_free(pairs);
    return NULL;
}

/* Rows of the most and of the least frequent value of the target, and how many values it has. */
typedef struct counts {
    int64_t most, least, values;
} counts;

static counts count_targets(pair *pairs, int64_t count)
{
    counts c = { 0, count, 0 };
    qsort(pairs, (size_t)count, sizeof *pairs, by_target);
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
    qsort(pairs, (size_t)count, sizeof *pairs, by_value);
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
    qsort(pairs, (size_t)count, sizeof *pairs, by_number);
    for (int64_t i = 1; i < count && divided; i++) {
        const bool other = pairs[i].target != pairs[i - 1].target;
        changes += other;
        divided = changes < c->values && !(other && pairs[i].number == pairs[i - 1].number);
    }
    return divided;
}

et_first_relation et_first_rows_relate(const et_first_rows *column, const et_first_rows *target,
                                       bool numbers, bool *failed)
{
    et_first_relation relation = ET_FIRST_UNRELATED;
    int64_t count;
    pair *pairs = pairs_of(column, target, &count, failed);
    if (!pairs)
        return relation;
    const counts c = count_targets(pairs, count);
    if (determines(pairs, count, &c))
        relation = ET_FIRST_DETERMINES;
    else if (numbers && separates(pairs, count, &c))
        relation = ET_FIRST_SEPARATES;
    et_free(pairs);
    return relation;
}
