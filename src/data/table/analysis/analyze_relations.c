/* Suspicious relations between columns, by the first rows: columns that are equal, columns that
 * give the target away, and rows that are equal in all columns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/files/checksum.h"
#include "base/text/format.h"
#include "base/values/value.h"
#include "data/table/analysis/analyze_private.h"

/* Of a longer table. */
#define ROWS_LEAST 1000
/* Equal rows are named from this share of the rows on, and if they are so many times more than in a
 * table of independent columns. */
#define COPIES_SHARE  0.01
#define COPIES_CHANCE 5

typedef struct relating {
    et_value *list;
    const et_table_stats *table;
    const et_column_use *uses;
    const char *rows; /* "all 400 rows" */
    bool few;         /* the first rows are too few to say what a column tells of another */
    bool failed;
} relating;

static const et_first_rows *rows_of(const relating *r, int field)
{
    return &r->table->field[field].first_rows;
}

static const char *name_of(const relating *r, int field)
{
    return et_table_head_field(&r->table->head, r->table->options, field);
}

/* Whether it has a value for each of the first rows: lists have more or fewer. */
static bool is_whole(const relating *r, int field)
{
    const et_first_rows *rows = rows_of(r, field);
    const et_schema *schema = r->table->options->schema;
    return (!schema || et_schema_at(schema, field)->length == 1) &&
           rows->count == (r->table->rows < rows->most ? r->table->rows : rows->most);
}

static bool is_target(const relating *r, int field)
{
    return r->uses[field].transforms >> ET_TRANSFORM_TARGET & 1;
}

static bool is_read(const relating *r, int field)
{
    return !r->uses[field].ignored && !is_target(r, field) && is_whole(r, field);
}

/* Whether a column of numbers, but for missing ones. */
static bool is_numbers(const et_first_rows *rows)
{
    int64_t missing = 0;
    for (int64_t i = 0; i < rows->count; i++)
        missing += rows->value[i] == ET_FIRST_MISSING;
    return rows->numbers && rows->numbers + missing == rows->count;
}

/* Of all rows, not only the first ones. */
static bool same_statistics(const relating *r, int one, int other)
{
    const et_column_stats *a = &r->table->field[one], *b = &r->table->field[other];
    return et_column_stats_values(a) == et_column_stats_values(b) &&
           et_column_stats_distinct(a) == et_column_stats_distinct(b) && a->numbers == b->numbers &&
           a->mean == b->mean && a->squares == b->squares;
}

static bool is_equal(const relating *r, int one, int other)
{
    return et_first_rows_equal(rows_of(r, one), rows_of(r, other)) &&
           same_statistics(r, one, other);
}

static bool find_leak(relating *r, int field, int target)
{
    static const char *const words[] = { [ET_FIRST_UNRELATED] = NULL,
                                         [ET_FIRST_DETERMINES] = "alone determines",
                                         [ET_FIRST_SEPARATES] = "alone separates the values of" };
    const et_first_rows *x = rows_of(r, field), *y = rows_of(r, target);
    const bool numbers = is_numbers(x);
    const char *how = NULL;
    char text[400];
    if (is_equal(r, field, target))
        how = "is equal to";
    else if (r->few)
        return false;
    else if (numbers && is_numbers(y) && et_first_rows_on_line(x, y))
        how = "is, but for a factor and an offset,";
    else
        how = words[et_first_rows_relate(x, y, numbers, &r->failed)];
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

static int by_hash(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Rows that are equal in the columns that a model reads and in the target. */
static void find_copies(relating *r, const et_column_metadata *metadata)
{
    const int fields = r->table->head.fields;
    const int64_t rows = rows_of(r, 0)->count;
    uint64_t *hash = et_alloc_zero((size_t)rows + 1, sizeof *hash);
    double chance = (double)rows;
    int64_t copies = 0;
    int whole = 0;
    r->failed |= !hash;
    for (int field = 0; field < fields && hash; field++) {
        if (!is_read(r, field) && !(is_target(r, field) && is_whole(r, field)))
            continue;
        whole++;
        chance *= et_column_agreement(&metadata[field]);
        for (int64_t i = 0; i < rows; i++) {
            const uint64_t both[] = { hash[i], rows_of(r, field)->value[i] };
            hash[i] = et_checksum(both, sizeof both);
        }
    }
    if (hash)
        qsort(hash, (size_t)rows, sizeof *hash, by_hash);
    for (int64_t i = 1; i < rows && hash; i++)
        copies += hash[i] == hash[i - 1];
    et_free(hash);
    const double share = rows ? (double)copies / (double)rows : 0;
    if (!whole || share < COPIES_SHARE || share < COPIES_CHANCE * (chance < 1 ? chance : 1))
        return;
    char text[300];
    snprintf(text, sizeof text,
             "%s of %s are copies of another row, but for ignored columns: if a copy is held out, "
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
            found = is_target(&r, target) && is_whole(&r, target) && find_leak(&r, field, target);
        if (!found)
            find_copy(&r, field);
    }
    if (fields && !r.failed)
        find_copies(&r, metadata);
    return r.failed ? et_alloc_failed(error, (size_t)most * 24, "the rows of two columns") : ET_OK;
}
