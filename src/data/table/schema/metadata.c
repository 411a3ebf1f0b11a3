/* Columns by number, a map from their names, and for each column with entries a table from texts to
 * positions. The tables use open addressing (Knuth, volume 3, 6.4, algorithm L) and are at most
 * half full, so a search always ends. Hashes are not stored, because entries are short and
 * comparing the text is enough.
 *
 * All metadata, from programs and files, goes through check. */
#include "data/table/schema/schema.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/files/file.h"
#include "base/map.h"
#include "base/text/strbuf.h"
#include "base/text/unicode.h"
#include "base/values/json.h"
#include "data/table/schema/date_text.h"

/* Largest accepted file, in bytes; the limit of the JSON reader. */
#define FILE_MAX ((size_t)128 << 20)

/* Whole numbers up to this one are printed without a point. */
#define WHOLE_MAX 1e15

/* A hash table for one column: slots hold place + 1; 0: free. */
typedef struct table {
    uint32_t *slot; /* [size], in the arena */
    size_t size;    /* a power of two; 0: no entries */
} table;

struct et_metadata {
    et_column_metadata *columns; /* [count], in the arena as all they point to */
    table *tables;               /* [count] */
    int count;
    et_map indices; /* of names */
    et_arena arena;
};

/* ---- checks ---- */

/* "metadata.json: column age: ", or without a file's name. */
typedef struct origin_text {
    char text[256];
} origin_text;

static origin_text origin_of(const char *file, const char *column)
{
    origin_text p;
    snprintf(p.text, sizeof p.text, "%s%scolumn %.60s: ", file ? file : "", file ? ": " : "",
             column);
    return p;
}

static int check_numbers(const et_column_metadata *c, origin_text where, et_error *error)
{
    if (c->count < 0 || c->missing < 0 || c->distinct < 0 || c->dates < 0 || c->words < 0 ||
        c->most_words < 0)
        return et_fail(error, ET_ECONFIG, "%sa negative count (%lld rows, %lld missing)",
                       where.text, (long long)c->count, (long long)c->missing);
    if (c->first_year < 0 || c->first_year > c->last_year || c->last_year > 9999)
        return et_fail(error, ET_ECONFIG,
                       "%sfirst_year %lld and last_year %lld are no years from 0 to 9999",
                       where.text, (long long)c->first_year, (long long)c->last_year);
    if (c->has_range && !(isfinite(c->min) && isfinite(c->max) && c->min <= c->max))
        return et_fail(error, ET_ECONFIG, "%smin %g and max %g are not a range", where.text, c->min,
                       c->max);
    if (c->has_moments && !(isfinite(c->mean) && isfinite(c->std) && c->std >= 0))
        return et_fail(error, ET_ECONFIG, "%smean %g and std %g are impossible", where.text,
                       c->mean, c->std);
    if (c->quantile_count < 0 || c->quantile_count == 1 || (c->quantile_count && !c->quantiles))
        return et_fail(error, ET_ECONFIG, "%s%d quantiles: give none, or at least two", where.text,
                       c->quantile_count);
    for (int i = 0; i < c->quantile_count; i++)
        if (!isfinite(c->quantiles[i]) || (i && c->quantiles[i] < c->quantiles[i - 1]))
            return et_fail(error, ET_ECONFIG,
                           "%squantile %d is %g: quantiles must be finite and increase", where.text,
                           i + 1, c->quantiles[i]);
    return ET_OK;
}

static int check_column(const et_column_metadata *c, const char *file, et_error *error)
{
    if (!c->name || !*c->name || !et_utf8_valid(c->name, strlen(c->name), NULL))
        return et_fail(error, ET_ECONFIG, "%s%sa column without a name in UTF-8", file ? file : "",
                       file ? ": " : "");
    origin_text where = origin_of(file, c->name);
    int status = check_numbers(c, where, error);
    if (status)
        return status;
    if (c->entry_count < 0 || (c->entry_count && !c->entries))
        return et_fail(error, ET_ECONFIG, "%s%d entries: the number must not be negative",
                       where.text, c->entry_count);
    for (int i = 0; i < c->entry_count; i++) {
        if (!c->entries[i] || !et_utf8_valid(c->entries[i], strlen(c->entries[i]), NULL))
            return et_fail(error, ET_ECONFIG, "%sentry %d is not UTF-8 text", where.text, i + 1);
        if (c->counts && c->counts[i] < 0)
            return et_fail(error, ET_ECONFIG, "%sentry %d (\"%.60s\") has the count %lld",
                           where.text, i + 1, c->entries[i], (long long)c->counts[i]);
    }
    return ET_OK;
}

/* ---- entries ---- */

/* The slot that text has or would have. */
static uint32_t *find_slot(const table *t, const et_column_metadata *c, const char *text,
                           size_t length)
{
    size_t at = et_checksum(text, length) & (t->size - 1);
    for (;; at = (at + 1) & (t->size - 1)) {
        if (!t->slot[at])
            return &t->slot[at];
        const char *entry = c->entries[t->slot[at] - 1];
        if (strlen(entry) == length && !memcmp(entry, text, length))
            return &t->slot[at];
    }
}

/* ---- making ---- */

static const void *copy_array(et_metadata *metadata, const void *from, int count, size_t size)
{
    void *to = from && count ? et_arena_array(&metadata->arena, count, size) : NULL;
    if (to)
        memcpy(to, from, (size_t)count * size);
    return to;
}

static int add_column(et_metadata *metadata, const et_column_metadata *column, const char *file,
                      et_error *error)
{
    int64_t before;
    et_column_metadata *copy = &metadata->columns[metadata->count];
    int status = check_column(column, file, error);
    if (status)
        return status;
    if (et_map_get(&metadata->indices, column->name, &before))
        return et_fail(error, ET_ECONFIG, "%sit occurs twice: remove one",
                       origin_of(file, column->name).text);
    *copy = *column;
    copy->name = et_arena_strdup(&metadata->arena, column->name);
    copy->quantiles =
        copy_array(metadata, column->quantiles, column->quantile_count, sizeof *column->quantiles);
    const int count = column->entry_count;
    const char **to = count ? et_arena_array(&metadata->arena, count, sizeof *to) : NULL;
    for (int i = 0; to && i < count; i++)
        to[i] = et_arena_strdup(&metadata->arena, column->entries[i]);
    copy->entries = (const char *const *)to;
    copy->counts =
        copy_array(metadata, column->counts, column->entry_count, sizeof *column->counts);
    if (metadata->arena.failed || !et_map_put(&metadata->indices, copy->name, metadata->count))
        return et_alloc_failed(error, "metadata");
    if (copy->entry_count) {
        et_assert(copy->entries);
        table *t = &metadata->tables[metadata->count];
        for (t->size = 4; t->size < 2 * (size_t)copy->entry_count; t->size *= 2)
            ;
        t->slot = et_arena_array(&metadata->arena, t->size, sizeof *t->slot);
        if (!t->slot)
            return et_alloc_failed(error, "metadata");
        for (int i = 0; i < copy->entry_count; i++) {
            uint32_t *slot = find_slot(t, copy, copy->entries[i], strlen(copy->entries[i]));
            if (*slot)
                return et_fail(error, ET_ECONFIG, "%sthe entry \"%.60s\" occurs twice: remove one",
                               origin_of(file, copy->name).text, copy->entries[i]);
            *slot = (uint32_t)i + 1;
        }
    }
    return ET_OK;
}

static int make(et_metadata **out, const et_column_metadata *columns, int count, const char *file,
                et_error *error)
{
    et_metadata *metadata;
    if (ET_ALLOC_ZERO(metadata, 1, "metadata", error))
        return ET_ENOMEM;
    size_t rows = (size_t)count + 1; /* room for none */
    metadata->columns = et_arena_array(&metadata->arena, rows, sizeof *metadata->columns);
    metadata->tables = et_arena_array(&metadata->arena, rows, sizeof *metadata->tables);
    int status = metadata->arena.failed ? et_alloc_failed(error, "metadata") : ET_OK;
    while (!status && metadata->count < count) {
        status = add_column(metadata, &columns[metadata->count], file, error);
        metadata->count += !status;
    }
    if (status) {
        et_metadata_free(metadata);
        return status;
    }
    *out = metadata;
    return ET_OK;
}

int et_metadata_create(et_metadata **out, const et_column_metadata *columns, int count,
                       et_error *error)
{
    if (count < 0 || (count && !columns))
        return et_fail(error, ET_ECONFIG, "metadata of %d columns: the number must not be negative",
                       count);
    return make(out, columns, count, NULL, error);
}

void et_metadata_free(et_metadata *metadata)
{
    if (!metadata)
        return;
    et_map_release(&metadata->indices);
    et_arena_release(&metadata->arena);
    et_free(metadata);
}

/* ---- JSON, read ---- */

/* After the first failure, later failures are ignored: reading on does no harm. */

#define COUNT(member, with_)                                                                       \
    ET_TEXT_KEY(COUNT, et_column_metadata, member, #member, .least = INT64_MIN,                    \
                .with = offsetof(et_column_metadata, with_))

static const et_text_key first_keys[] = {
    COUNT(count, missing),
    COUNT(missing, count),
    COUNT(distinct, distinct),
    COUNT(dates, dates),
    COUNT(first_year, last_year),
    COUNT(last_year, first_year),
    COUNT(words, words),
    COUNT(most_words, most_words),
    ET_TEXT_KEY(WORD, et_column_metadata, order, "date_order", .least = ET_DATE_MONTH_FIRST,
                .words = et_date_order_names + ET_DATE_MONTH_FIRST),
    ET_TEXT_KEYS_END,
};
static const et_text_key last_keys[] = {
    ET_TEXT_KEY(TRUTH, et_column_metadata, cut, "cut"),
    ET_TEXT_KEYS_END,
};

static const char *const wrong[ET_KEY_KINDS] = {
    [ET_KEY_COUNT] = " needs a count, not ",
    [ET_KEY_TRUTH] = " needs a truth value, not ",
    [ET_KEY_WORD] = " needs month-first, day-first or time-of-day, not ",
};

/* JSON writes null for a number that is not finite, so null counts as missing. */
static const et_value *find_value(const et_value *dict, const char *key)
{
    const et_value *value = et_value_get(dict, key);
    return value && value->kind != ET_VALUE_NULL ? value : NULL;
}

static void read_keys(et_text_reading *r, const et_text_key *rows, const et_value *dict, void *to)
{
    for (const et_text_key *row = rows; row->name; row++) {
        const et_value *value = find_value(dict, row->name);
        if (value)
            et_text_key_read(r, row, value, to);
    }
}

/* *there: both numbers are in the file. One number alone counts as missing; a transform that needs
 * both reports the error. */
static void read_pair(et_text_reading *r, const et_value *dict, const char *first,
                      const char *second, double *a, double *b, bool *there)
{
    const et_value *values[2] = { find_value(dict, first), find_value(dict, second) };
    double *to[2] = { a, b };
    *there = values[0] && values[1];
    for (int i = 0; i < 2; i++)
        if (values[i] && !et_value_is_number(values[i]))
            et_text_keys_wrong(r, values[i], " needs a number, not ");
        else if (*there)
            *to[i] = et_value_number(values[i]);
}

/* The list with this key; NULL: missing. */
static const et_value *find_list(et_text_reading *r, const et_value *dict, const char *key)
{
    const et_value *list = find_value(dict, key);
    if (list && list->kind != ET_VALUE_LIST) {
        et_text_keys_wrong(r, list, " needs a list, not ");
        return NULL;
    }
    et_assert(!list || list->count < INT_MAX);
    return list;
}

static void read_quantiles(et_text_reading *r, const et_value *dict, et_column_metadata *column)
{
    const et_value *list = find_list(r, dict, "quantiles");
    double *to = list && list->count ? et_text_keys_array(r, list->count, sizeof *to) : NULL;
    if (!to)
        return;
    column->quantiles = to;
    column->quantile_count = (int)list->count;
    for (const et_value *item = list->first; item; item = item->next)
        if (et_value_is_number(item))
            *to++ = et_value_number(item);
        else
            et_text_keys_wrong(r, item, "a quantile needs a number, not ");
}

/* Other programs write labels as numbers or texts: 0 and "0" are the same class. */
static const char *entry_text(const et_text_reading *r, const et_value *item)
{
    et_strbuf text = ET_STRBUF_INIT;
    if (item->kind == ET_VALUE_STRING)
        return item->string;
    if (item->kind == ET_VALUE_INT)
        et_strbuf_printf(&text, "%lld", (long long)item->integer);
    else if (item->kind == ET_VALUE_FLOAT && isfinite(item->real))
        et_strbuf_append_double(&text, item->real);
    else
        et_strbuf_append(&text, item->boolean ? "true" : "false");
    return et_strbuf_keep(&text, r->arena);
}

/* NULL: no list, or a failure. */
static const char *const *read_entry_list(et_text_reading *r, const et_value *list)
{
    const char **entries = list ? et_text_keys_array(r, list->count, sizeof *entries) : NULL,
               **to = entries;
    for (const et_value *item = entries ? list->first : NULL; item; item = item->next) {
        if (item->kind == ET_VALUE_LIST || item->kind == ET_VALUE_DICT ||
            item->kind == ET_VALUE_NULL) {
            et_text_keys_wrong(r, item, "an entry needs a text, not ");
            return NULL;
        }
        if (!(*to++ = entry_text(r, item))) {
            r->status = et_alloc_failed(r->error, r->name);
            return NULL;
        }
    }
    return (const char *const *)entries;
}

/* "entries" and "vocab": {"entries"} mean the same and must be equal if the file has both. */
static void read_entries(et_text_reading *r, const et_value *dict, et_column_metadata *column)
{
    const et_value *list = find_list(r, dict, "entries"), *other = NULL;
    const et_value *vocabulary = find_value(dict, "vocab");
    if (vocabulary && vocabulary->kind != ET_VALUE_DICT)
        et_text_keys_wrong(r, vocabulary, " needs a group with entries, not ");
    else if (vocabulary)
        other = find_list(r, vocabulary, "entries");
    if (r->status)
        return;
    const char *const *entries = read_entry_list(r, list);
    const char *const *others = read_entry_list(r, other);
    if (r->status)
        return;
    bool same = !list || !other || list->count == other->count;
    for (size_t i = 0; list && other && same && i < list->count; i++)
        same = !strcmp(entries[i], others[i]);
    if (!same)
        r->status = et_fail(r->error, ET_ECONFIG,
                            "%s: column %.60s: entries and vocab.entries differ: remove one",
                            r->name, dict->key);
    column->entries = list ? entries : others;
    column->entry_count = list ? (int)list->count : other ? (int)other->count : 0;
}

static void read_counts(et_text_reading *r, const et_value *dict, et_column_metadata *column)
{
    const et_value *list = r->status ? NULL : find_list(r, dict, "counts");
    if (!list)
        return;
    if ((int)list->count != column->entry_count) {
        r->status = et_fail(r->error, ET_ECONFIG,
                            "%s: column %.60s: %d counts for %d entries: give one count per entry",
                            r->name, dict->key, (int)list->count, column->entry_count);
        return;
    }
    int64_t *to = et_text_keys_array(r, list->count, sizeof *to);
    column->counts = to;
    for (const et_value *item = to ? list->first : NULL; item; item = item->next)
        if (item->kind == ET_VALUE_INT)
            *to++ = item->integer;
        else
            et_text_keys_wrong(r, item, "an item of counts must be a count, not ");
}

static void read_column(et_text_reading *r, const et_value *dict, et_column_metadata *c)
{
    if (dict->kind != ET_VALUE_DICT) {
        r->status = et_fail(r->error, ET_EFORMAT, "%s: column %.60s is %s, not a group of values",
                            r->name, dict->key, et_value_kind_name(dict->kind));
        return;
    }
    c->name = r->column = dict->key;
    read_keys(r, last_keys, dict, c);
    read_keys(r, first_keys, dict, c);
    read_pair(r, dict, "min", "max", &c->min, &c->max, &c->has_range);
    read_pair(r, dict, "mean", "std", &c->mean, &c->std, &c->has_moments);
    read_quantiles(r, dict, c);
    read_entries(r, dict, c);
    read_counts(r, dict, c);
}

static int read_tree(et_metadata **out, const et_value *root, et_text_reading *r)
{
    if (root->kind != ET_VALUE_DICT)
        return et_fail(r->error, ET_EFORMAT,
                       "%s holds %s: expected a group of columns, {\"age\": {...}, ...}", r->name,
                       et_value_kind_name(root->kind));
    et_assert(root->count < INT_MAX);
    et_column_metadata *columns = et_text_keys_array(r, root->count, sizeof *columns);
    int count = 0;
    for (const et_value *dict = root->first; dict && !r->status; dict = dict->next)
        read_column(r, dict, &columns[count++]);
    return r->status ? r->status : make(out, columns, count, r->name, r->error);
}

int et_metadata_parse(et_metadata **out, const char *text, size_t length, const char *name,
                      et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *root;
    int status = et_json_parse(&root, &arena, text, length, name, error);
    if (!status)
        status = read_tree(
            out, root,
            &(et_text_reading){ .name = name, .wrong = wrong, .arena = &arena, .error = error });
    et_arena_release(&arena);
    return status;
}

int et_metadata_load(et_metadata **out, const char *path, et_error *error)
{
    char *text;
    size_t length;
    int status = et_file_read(&text, &length, path, FILE_MAX, error);
    if (status)
        return status;
    status = et_metadata_parse(out, text, length, path, error);
    et_free(text);
    return status;
}

/* ---- JSON, written ---- */

/* Each column has a line, so that people find it and programs can compare files line by line. */

/* Equal values give equal texts: 17 of an integer column has no point. */
static et_value *add_number(et_value *to, const char *key, double number)
{
    bool whole =
        number == floor(number) && fabs(number) < WHOLE_MAX && !(number == 0 && signbit(number));
    if (key)
        return whole ? et_value_set_int(to, key, (int64_t)number)
                     : et_value_set_float(to, key, number);
    return whole ? et_value_add_int(to, (int64_t)number) : et_value_add_float(to, number);
}

static et_value *column_value(et_arena *arena, const et_column_metadata *c)
{
    et_value *dict = et_value_dict(arena);
    et_text_keys_write(dict, first_keys, c);
    if (c->has_range) {
        add_number(dict, "min", c->min);
        add_number(dict, "max", c->max);
    }
    if (c->has_moments) {
        add_number(dict, "mean", c->mean);
        add_number(dict, "std", c->std);
    }
    if (c->quantile_count) {
        et_value *list = et_value_set_list(dict, "quantiles");
        for (int i = 0; i < c->quantile_count; i++)
            add_number(list, NULL, c->quantiles[i]);
    }
    if (c->entry_count) {
        et_value *entries = et_value_set_list(dict, "entries");
        for (int i = 0; i < c->entry_count; i++)
            et_value_add_string(entries, c->entries[i]);
        if (c->counts) {
            et_value *counts = et_value_set_list(dict, "counts");
            for (int i = 0; i < c->entry_count; i++)
                et_value_add_int(counts, c->counts[i]);
        }
        et_value *again = et_value_set_list(et_value_set_dict(dict, "vocab"), "entries");
        for (int i = 0; i < c->entry_count; i++)
            et_value_add_string(again, c->entries[i]);
    }
    et_text_keys_write(dict, last_keys, c);
    return dict;
}

int et_metadata_format(const et_metadata *metadata, char **text, et_error *error)
{
    et_strbuf out = ET_STRBUF_INIT;
    et_strbuf_append(&out, "{");
    for (int i = 0; i < metadata->count; i++) {
        et_strbuf_append(&out, i ? ",\n" : "\n");
        et_arena arena = ET_ARENA_INIT;
        et_value *value = column_value(&arena, &metadata->columns[i]);
        et_json_print_string(&out, metadata->columns[i].name);
        et_strbuf_append(&out, ": ");
        if (et_value_failed(value))
            out.failed = true;
        else
            et_json_print(&out, value, 0);
        et_arena_release(&arena);
    }
    et_strbuf_append(&out, "\n}\n");
    *text = et_strbuf_detach(&out);
    return *text ? ET_OK : et_alloc_failed(error, "the text of metadata");
}

int et_metadata_save(const et_metadata *metadata, const char *path, et_error *error)
{
    char *text;
    int status = et_metadata_format(metadata, &text, error);
    if (status)
        return status;
    status = et_file_write(path, text, strlen(text), error);
    et_free(text);
    return status;
}

/* ---- columns ---- */

int et_metadata_count(const et_metadata *metadata)
{
    return metadata->count;
}

const et_column_metadata *et_metadata_at(const et_metadata *metadata, int position)
{
    return position >= 0 && position < metadata->count ? &metadata->columns[position] : NULL;
}

int et_metadata_position(const et_metadata *metadata, const char *name)
{
    int64_t position;
    return name && et_map_get(&metadata->indices, name, &position) ? (int)position : -1;
}

const et_column_metadata *et_metadata_find(const et_metadata *metadata, const char *name)
{
    static const et_column_metadata nothing = { .name = "" };
    const et_column_metadata *found =
        et_metadata_at(metadata, et_metadata_position(metadata, name));
    return found ? found : &nothing;
}

int et_metadata_entry_at(const et_metadata *metadata, int position, const char *text, size_t length)
{
    if (!text || position < 0 || position >= metadata->count || !metadata->tables[position].size)
        return -1;
    return (int)*find_slot(&metadata->tables[position], &metadata->columns[position], text,
                           length) -
           1;
}

int et_metadata_entry(const et_metadata *metadata, const char *column, const char *text,
                      size_t length)
{
    return et_metadata_entry_at(metadata, et_metadata_position(metadata, column), text, length);
}
