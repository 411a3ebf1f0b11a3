/* Chooses the validated rows, by groups or times if given; see setup_private.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/numbers/philox.h"
#include "base/sort.h"
#include "base/vector.h"
#include "data/table/analysis/column_use.h"
#include "data/table/rows/rows.h"
#include "data/table/schema/date_text.h"
#include "data/table/schema/notation.h"
#include "data/table/schema/schema.h"
#include "tasks/tabular/setup/setup_private.h"

/* ---- drawn rows ---- */

typedef struct drawn {
    int32_t class;
    float number; /* of its row's own */
    int64_t row;
} drawn;

ET_SORT_BY(by_class_and_number, drawn, ET_UP(class),
           a->number != b->number ? ET_UP(number) : ET_UP(row))

/* The rows in order of classes (NULL: all are one), drawn by the seed in each; NULL: no memory. */
static drawn *draw(const int32_t *class, int64_t rows, uint64_t seed)
{
    const et_random random = { seed, 0, et_random_site("held_out") };
    drawn *order = et_alloc(rows, sizeof *order);
    for (int64_t i = 0; order && i < rows; i++)
        order[i] = (drawn){ class ? class[i] : 0, et_random_uniform(random, (uint64_t)i), i };
    if (order)
        qsort(order, rows, sizeof *order, by_class_and_number);
    return order;
}

/* Number of rows of the class that begins at row `begin`. */
static int64_t class_rows(const drawn *order, int64_t begin, int64_t rows)
{
    int64_t end = begin + 1;
    while (end < rows && order[end].class == order[begin].class)
        end++;
    return end - begin;
}

/* Holds out rows of a class, whose rows begin at `begin`: the rows that are due by their position,
 * and `due` more, because earlier classes could not give theirs. The last row of a class is never
 * held out. Returns the number of rows that are still due. */
static int64_t hold_of_class(bool *held, const drawn *order, int64_t begin, int64_t size,
                             double share, int64_t due)
{
    int64_t left = 0;
    for (int64_t i = begin; i < begin + size; i++)
        left += !held[order[i].row];
    for (int64_t i = begin; i < begin + size; i++) {
        due += floor((double)(i + 1) * share + 0.5) > floor((double)i * share + 0.5);
        if (due && left > 1 && !held[order[i].row]) {
            held[order[i].row] = true;
            left--;
            due--;
        }
    }
    return due;
}

/* The share is applied to all rows in the order of classes, not to each class, so that small
 * classes do not lose fractions of rows. Each class keeps a row; other classes give the rows that
 * it cannot give. */
int et_tabular_hold_out(bool *held, const int32_t *class, int64_t rows, double share, uint64_t seed,
                        et_error *error)
{
    drawn *order = draw(class, rows, seed);
    int64_t due = 0, size;
    if (!order)
        return et_alloc_failed(error, "rows that are held out");
    memset(held, 0, rows * sizeof *held);
    for (int64_t begin = 0; begin < rows; begin += size) {
        size = class_rows(order, begin, rows);
        due = hold_of_class(held, order, begin, size, share, due);
    }
    for (int64_t begin = 0; due && begin < rows; begin += size) {
        size = class_rows(order, begin, rows);
        due = hold_of_class(held, order, begin, size, 0, due);
    }
    if (rows > 1 && !memchr(held, 1, rows * sizeof *held))
        held[order[0].row] = true;
    et_free(order);
    return ET_OK;
}

/* ---- by number ---- */

static int split_plain(unsigned char *part, const et_tabular_splitting *how, et_error *error)
{
    drawn *order = draw(how->class, how->rows, how->seed);
    if (!order)
        return et_alloc_failed(error, "folds");
    for (int64_t i = 0; i < how->rows; i++)
        part[order[i].row] = (unsigned char)(1 + i % how->folds);
    et_free(order);
    return ET_OK;
}

static int hold_out_plain(unsigned char *part, const et_tabular_splitting *how, et_error *error)
{
    bool *held;
    if (ET_ALLOC(held, how->rows, "rows that are held out", error))
        return ET_ENOMEM;
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
 * target[i]. If too few times would be left for later blocks, the block begins earlier. Rows of one
 * time are in one block. */
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
    timed *order = et_alloc(rows, sizeof *order);
    int status = ET_OK;
    if (!order)
        return et_alloc_failed(error, "folds");
    for (int64_t i = 0; i < rows; i++)
        order[i] = (timed){ how->time[i], i };
    qsort(order, rows, sizeof *order, by_time);
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

/* Rows without a label count as class 0. */
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
    qsort(g->row, how->rows, sizeof *g->row, by_group);
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
    qsort(g->group, g->count, sizeof *g->group, how->folds ? by_size : by_number);
}

static void put(unsigned char *part, const groups *g, const group *one, int64_t which)
{
    for (int64_t i = one->begin; i < one->begin + one->size; i++)
        part[g->row[i].row] = (unsigned char)which;
}

/* Costs with a smaller difference are equal: they are sums of the same fractions in another
 * order. */
#define COST_EQUAL 1e-9

/* Puts a group into the fold where it increases the sum over folds and classes of n^2 / N the
 * least: n rows of the class in the fold, N rows of the class in all. A row adds 2 n / N, and a
 * constant that is equal for all folds. Among equal folds, the fold with the fewest rows wins. So
 * the first groups go to empty folds, and no fold stays empty if there are enough groups. */
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
    int status = g.row && g.group && g.of_class ? ET_OK : et_alloc_failed(error, "groups of rows");
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

/* ---- the group or the time of each row ---- */

typedef struct key_reading {
    et_row_keys *keys;
    size_t capacity;
    const et_strings *paths;
    const char *column;
    const et_schema_field *field;
    int cell; /* of a row */
    bool times;
    bool dates; /* the texts of times are dates */
    et_date_order order;
    int zone;     /* of the first date */
    double begin; /* of times: the first date, in whole seconds since 1970 */
    et_error *error;
} key_reading;

static int refuse(const key_reading *r, const et_row *row, const char *what)
{
    const et_cell *cell = &row->cells[r->cell];
    return et_fail(r->error, ET_EDATA, "%s:%lld: column %s: \"%.*s\" %s",
                   r->paths->items[row->file], (long long)row->number, r->column,
                   (int)(cell->length < 40 ? cell->length : 40), cell->text, what);
}

static int read_time(key_reading *r, double *time, const et_row *row)
{
    const et_cell *cell = &row->cells[r->cell];
    et_date date;
    if (!r->dates) {
        const et_number_format format = et_number_format_of(r->field);
        return et_number_is(et_notation_parse(time, &format, cell->text, cell->length)) &&
                       isfinite(*time)
                   ? ET_OK
                   : refuse(r, row, "is not a number, as in other rows; correct it");
    }
    if (!et_date_read(&date, cell->text, cell->length, r->order))
        return refuse(r, row,
                      r->order == ET_DATE_DAY_FIRST
                          ? "is not a date with the day first, as --time needs; write "
                            "2024-05-31T12:30"
                          : "is not a date, as --time needs; write 2024-05-31T12:30");
    /* A double has nanoseconds of months, not of years since 1970. */
    const double fraction = date.second - floor(date.second);
    date.second -= fraction;
    if (!r->keys->count)
        r->begin = et_date_seconds(&date);
    *time = et_date_seconds(&date) - r->begin + fraction;
    /* Times are in order only in one zone, or if all say how far they are from UTC. */
    if (!r->keys->count)
        r->zone = date.zone;
    if (date.zone == r->zone)
        return ET_OK;
    return refuse(r, row,
                  !date.zone
                      ? "has no time zone, unlike earlier rows, so the order of the times is "
                        "unknown; write the offset from UTC in every row: 2024-05-31T12:30+02:00"
                  : date.zone == ET_DATE_OFFSET
                      ? "has an offset from UTC, unlike earlier rows, so the order of the times is "
                        "unknown; write the offset in every row: 2024-05-31T12:30+02:00"
                      : "names a time zone of unknown offset, so the order of the times is "
                        "unknown; write the offset from UTC: 2024-05-31T12:30+02:00");
}

static int keep(void *payload, const et_row *row, void *const *item)
{
    key_reading *r = payload;
    et_row_keys *keys = r->keys;
    const et_cell *cell = &row->cells[r->cell];
    double number = 0;
    (void)item;
    if (!cell->text)
        return et_fail(
            r->error, ET_EDATA,
            "%s:%lld: column %s has no value (outside quotes, texts such as NA mean none); "
            "fill it in, or leave the row out",
            r->paths->items[row->file], (long long)row->number, r->column);
    int status = r->times ? read_time(r, &number, row) : ET_OK;
    if (status)
        return status;
    const size_t wanted = (size_t)keys->count + 1;
    if (!(r->times ? ET_VECTOR_GROW(keys->time, r->capacity, wanted)
                   : ET_VECTOR_GROW(keys->group, r->capacity, wanted)))
        return et_alloc_failed(r->error, "keys of rows");
    if (r->times)
        keys->time[keys->count++] = number;
    else
        keys->group[keys->count++] = et_cell_hash(r->field, cell);
    return ET_OK;
}

static int find_column(key_reading *r, const et_encoder *encoder)
{
    const et_schema *schema = et_encoder_schema(encoder);
    const char *option = r->times ? "--time" : "--group";
    const int at = et_schema_position(schema, r->column);
    if (at < 0) {
        const char *names[257] = { NULL };
        for (int i = 0; i < et_schema_count(schema) && i < 256; i++)
            names[i] = et_schema_at(schema, i)->name;
        return et_fail(
            r->error, ET_ECONFIG,
            "%s: the table has no column %.60s%s; `etude data analyze FILE` lists its columns",
            option, r->column, et_nearest_hint(r->column, names, "").text);
    }
    r->field = et_schema_at(schema, at);
    if (et_encoder_cell_count(encoder, at) != 1 || r->field->length == ET_SCHEMA_VARIABLE)
        return et_fail(r->error, ET_ECONFIG,
                       "%s: column %s has several values in a row; name another column", option,
                       r->column);
    r->cell = et_encoder_cell(encoder, at);
    r->dates = r->field->type == ET_SCHEMA_DISCRETE;
    return ET_OK;
}

int et_tabular_read_keys(const et_tabular_task *task, et_row_keys *keys, et_error *error)
{
    const et_tabular_options *o = &task->options;
    const bool times = et_tabular_is_named(o->time);
    if (!times && !et_tabular_is_named(o->groups))
        return ET_OK;
    const char *column = times ? o->time : o->groups;
    const et_date_order given = et_column_date_order(task->texts.features, column);
    key_reading r = { .keys = keys,
                      .paths = &task->paths,
                      .column = column,
                      .times = times,
                      .order =
                          given ? given : et_metadata_find(task->texts.metadata, column)->order,
                      .error = error };
    if (times && r.order == ET_DATE_TIME && !task->context.evaluates)
        et_log(ET_LOG_WARNING,
               "column %s has times of day without a date: --time orders rows of all days by their "
               "time of day",
               column);
    int status = find_column(&r, task->encoder);
    if (!status)
        status = et_tabular_each_row(task, &task->paths, keep, &r, error);
    et_assert(status || keys->count >= task->table->count);
    return status;
}
