#include "tasks/tabular/setup/setup_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers/philox.h"
#include "base/sort.h"
#include "tasks/tabular/samples.h"

/* ---- by number ---- */

static int split_plain(unsigned char *part, const et_tabular_splitting *how, et_error *error)
{
    int64_t *order = et_alloc((size_t)how->rows, sizeof *order);
    if (!order)
        return et_alloc_failed(error, (size_t)how->rows * sizeof *order, "folds");
    int status = et_tabular_draw(order, how->class, how->rows, how->seed, error);
    for (int64_t i = 0; !status && i < how->rows; i++)
        part[order[i]] = (unsigned char)(1 + i % how->folds);
    et_free(order);
    return status;
}

static int hold_out_plain(unsigned char *part, const et_tabular_splitting *how, et_error *error)
{
    bool *held = et_alloc((size_t)how->rows, sizeof *held);
    if (!held)
        return et_alloc_failed(error, (size_t)how->rows * sizeof *held, "rows that are held out");
    int status = et_tabular_hold_out(held, how->class, how->rows, how->share, how->seed, error);
    for (int64_t i = 0; !status && i < how->rows; i++)
        part[i] = held[i];
    et_free(held);
    return status;
}

/* ---- by time ---- */

typedef struct timed {
    double time;
    int64_t row;
} timed;

ET_SORT_BY(by_time, timed, ET_UP(time), ET_UP(row))

/* Finds the first row of each block but block 0: the first row with a new time at or after
 * target[i]. If later blocks would have no new time left, an earlier row. Rows of one time are in
 * one block. */
static bool find_blocks(int64_t *begin, const int64_t *target, int64_t blocks, const timed *order,
                        int64_t rows)
{
    int64_t times = 0, found = 0;
    for (int64_t row = 1; row < rows; row++)
        times += order[row].time > order[row - 1].time;
    for (int64_t row = 1; row < rows && found < blocks; row++) {
        if (!(order[row].time > order[row - 1].time))
            continue;
        if (row >= target[found] || times <= blocks - found)
            begin[found++] = row;
        times--;
    }
    return found == blocks;
}

/* Blocks of folds begin at multiples of rows / (folds + 1). */
static int split_by_time(unsigned char *part, const et_tabular_splitting *how, et_error *error)
{
    const int64_t rows = how->rows, blocks = how->folds ? how->folds : 1;
    int64_t begin[ET_TABULAR_FOLDS_MAX], target[ET_TABULAR_FOLDS_MAX];
    timed *order = et_alloc((size_t)rows, sizeof *order);
    int status = ET_OK;
    if (!order)
        return et_alloc_failed(error, (size_t)rows * sizeof *order, "folds");
    for (int64_t i = 0; i < rows; i++)
        order[i] = (timed){ how->time[i], i };
    qsort(order, (size_t)rows, sizeof *order, by_time);
    for (int64_t i = 0; i < blocks; i++)
        target[i] =
            how->folds ? (i + 1) * rows / (blocks + 1) : rows - llround((double)rows * how->share);
    if (!find_blocks(begin, target, blocks, order, rows))
        status = how->folds
                     ? et_fail(error, ET_EDATA,
                               "--time: the rows have too few different times for %lld folds in "
                               "order of time; ask for fewer folds",
                               (long long)blocks)
                     : et_fail(error, ET_EDATA,
                               "--time: all rows have the same time; name another column");
    for (int64_t i = 0, block = 0; !status && i < rows; i++) {
        block += block < blocks && i == begin[block];
        part[order[i].row] = (unsigned char)block;
    }
    et_free(order);
    return status;
}

/* ---- by groups ---- */

typedef struct grouped {
    uint64_t group;
    int64_t row;
} grouped;

typedef struct group {
    int64_t begin, size; /* in the order of grouped rows */
    float number;        /* drawn */
} group;

typedef struct groups {
    const et_tabular_splitting *how;
    grouped *row; /* [rows], by group */
    group *group; /* [count] */
    int64_t count;
    int64_t *of_class; /* [classes]: rows of a class */
    int64_t *of_fold;  /* [folds, classes]: rows of a fold so far */
    int classes;
} groups;

ET_SORT_BY(by_group, grouped, ET_UP(group), ET_UP(row))

/* Sorts groups by number: a random number without folds, otherwise the largest group first. */
ET_SORT_BY(by_number, group, ET_UP(number), ET_UP(begin))

ET_SORT_BY(by_size, group, ET_DOWN(size), by_number(left, right))

/* Rows without a label are class 0 here. */
static int class_of(const groups *g, int64_t at)
{
    const int32_t *class = g->how->class;
    return class && class[g->row[at].row] > 0 ? class[g->row[at].row] : 0;
}

static void list_groups(groups *g)
{
    const et_tabular_splitting *how = g->how;
    const et_random random = { how->seed, 0, et_random_site("groups") };
    for (int64_t i = 0; i < how->rows; i++)
        g->row[i] = (grouped){ how->group[i], i };
    qsort(g->row, (size_t)how->rows, sizeof *g->row, by_group);
    for (int64_t i = 0; i < how->rows; i++) {
        g->of_class[class_of(g, i)]++;
        if (i && g->row[i].group == g->row[i - 1].group) {
            g->group[g->count - 1].size++;
            continue;
        }
        const float number = et_random_uniform(random, (uint64_t)g->row[i].row);
        g->group[g->count++] = (group){ i, 1, number };
    }
    g->of_fold = g->of_class + g->classes;
    qsort(g->group, (size_t)g->count, sizeof *g->group, how->folds ? by_size : by_number);
}

static void put(unsigned char *part, const groups *g, const group *one, int64_t which)
{
    for (int64_t i = one->begin; i < one->begin + one->size; i++)
        part[g->row[i].row] = (unsigned char)which;
}

/* Costs that differ by less are equal: sums of the same fractions in another order. */
#define COST_EQUAL 1e-9

/* Puts a group into the fold where it increases the sum over folds and classes of n^2 / N the
 * least: n rows of the class in the fold, N rows of the class in all. A row adds 2 n / N, and a
 * constant that is equal for all folds. Of equal folds, the one with the fewest rows. So the first
 * groups go to empty folds, and no fold is empty if there are as many groups. */
static int64_t choose_fold(groups *g, const group *one)
{
    int64_t best = 0, fewest = 0;
    double least = INFINITY;
    for (int64_t fold = 0; fold < g->how->folds; fold++) {
        const int64_t *of = g->of_fold + fold * g->classes;
        double cost = 0;
        int64_t rows = 0;
        for (int64_t i = one->begin; i < one->begin + one->size; i++) {
            const int c = class_of(g, i);
            cost += (double)of[c] / (double)g->of_class[c];
        }
        for (int c = 0; c < g->classes; c++)
            rows += of[c];
        const bool equal = cost <= least * (1 + COST_EQUAL) && cost >= least * (1 - COST_EQUAL);
        if (equal ? rows < fewest : cost < least) {
            least = cost;
            fewest = rows;
            best = fold;
        }
    }
    for (int64_t i = one->begin; i < one->begin + one->size; i++)
        g->of_fold[best * g->classes + class_of(g, i)]++;
    return best;
}

/* Groups in the order of their numbers, until the share is reached. A group of more than twice the
 * share is learned; if all groups are so large, the smallest one is held out. */
static void hold_out_groups(unsigned char *part, const groups *g)
{
    const double share = (double)g->how->rows * g->how->share;
    const group *smallest = g->group;
    int64_t left = llround(share);
    bool none = true;
    for (int64_t i = 0; i < g->count; i++) {
        const group *one = &g->group[i];
        const bool held = (none || left > 0) && (double)one->size <= 2 * share && i + 1 < g->count;
        put(part, g, one, held);
        left -= held ? one->size : 0;
        none = none && !held;
        smallest = one->size < smallest->size ? one : smallest;
    }
    if (none)
        put(part, g, smallest, 1);
}

static int split_by_group(unsigned char *part, const et_tabular_splitting *how, et_error *error)
{
    const int64_t least = how->folds ? how->folds : 2;
    const size_t rows = (size_t)how->rows, folds = (size_t)(how->folds ? how->folds : 1);
    groups g = { .how = how,
                 .row = et_alloc(rows, sizeof *g.row),
                 .group = et_alloc(rows, sizeof *g.group),
                 .classes = 1 };
    for (size_t i = 0; how->class && i < rows; i++)
        g.classes = how->class[i] >= g.classes ? how->class[i] + 1 : g.classes;
    g.of_class = et_alloc_zero((size_t)g.classes * (folds + 1), sizeof *g.of_class);
    int status = g.row && g.group && g.of_class
                     ? ET_OK
                     : et_alloc_failed(error, rows * sizeof *g.group, "groups of rows");
    if (!status)
        list_groups(&g);
    if (!status && g.count < least)
        status = et_fail(error, ET_EDATA,
                         "--group: the rows have %lld %s, fewer than the %lld that %s need; %s",
                         (long long)g.count, g.count == 1 ? "group" : "groups", (long long)least,
                         how->folds ? "the folds" : "training and validation",
                         how->folds && g.count > 1 ? "ask for fewer folds, or name another column"
                                                   : "name another column");
    if (!status && !how->folds)
        hold_out_groups(part, &g);
    for (int64_t i = 0; !status && how->folds && i < g.count; i++)
        put(part, &g, &g.group[i], 1 + choose_fold(&g, &g.group[i]));
    et_free(g.row);
    et_free(g.group);
    et_free(g.of_class);
    return status;
}

/* ---- all ---- */

int et_tabular_parts(unsigned char *part, const et_tabular_splitting *how, et_error *error)
{
    et_assert(how->rows > 0 && !(how->group && how->time));
    et_assert(how->folds >= 0 && how->folds <= ET_TABULAR_FOLDS_MAX);
    const int64_t least = how->folds ? how->folds + (how->time != NULL) : 2;
    if (how->rows < least)
        return et_fail(error, ET_EDATA, "only %lld %s for %lld folds; ask for fewer folds",
                       (long long)how->rows, how->rows == 1 ? "row" : "rows",
                       (long long)how->folds);
    return how->time    ? split_by_time(part, how, error)
           : how->group ? split_by_group(part, how, error)
           : how->folds ? split_plain(part, how, error)
                        : hold_out_plain(part, how, error);
}

et_tabular_side et_tabular_side_of(const et_tabular_splitting *how, int part, int64_t fold)
{
    et_assert(fold >= 0 && fold < (how->folds ? how->folds : 1));
    return part == fold + 1               ? ET_TABULAR_VALIDATED
           : how->time && part > fold + 1 ? ET_TABULAR_UNUSED
                                          : ET_TABULAR_LEARNED;
}
