#include <etude/results.h>

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "base/text/unicode.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "formats/grid.h"

#define VALUES     "result.json"
#define VALUES_MAX ((size_t)64 << 20)
#define INDENT     4

struct et_results {
    et_path directory;
    et_arena *arena; /* of values, replaced at every update; the old arena is released */
    et_value *values;
};

static int write_json(const et_results *results, const char *name, const et_value *value,
                      et_error *error)
{
    return et_json_write(et_path_of(results->directory.text, name).text, value, INDENT, "\n",
                         error);
}

/* ---- opening and closing ---- */

static int read_values(et_results *results, et_error *error)
{
    const et_path path = et_path_of(results->directory.text, VALUES);
    if (!et_file_exists(path.text)) {
        results->values = et_value_dict(results->arena);
        return results->values ? ET_OK : et_alloc_failed(error, "results");
    }
    int status = et_value_read_file(&results->values, results->arena, path.text, VALUES_MAX,
                                    et_json_parse, error);
    if (!status && results->values->kind != ET_VALUE_DICT)
        status = et_fail(error, ET_EFORMAT, "%s: expected an object of named results, found %s",
                         path.text, et_value_kind_name(results->values->kind));
    return status;
}

int et_results_open(et_results **out, const char *directory, const char *name, et_error *error)
{
    *out = NULL;
    if (!directory && (!name || !*name))
        return et_fail(error, ET_ECONFIG, "give a directory for results, or a name for it");
    et_results *results;
    if (ET_ALLOC_ZERO(results, 1, "results", error))
        return ET_ENOMEM;
    const char *experiment = getenv("MLSTORAGE_EXPERIMENT_ID"); /* it has set the directory */
    results->directory = directory                   ? et_path_print("%s", directory)
                         : experiment && *experiment ? et_path_print(".")
                                                     : et_path_of("results", name);
    results->arena = et_arena_new();
    int status = results->arena ? et_directory_make(results->directory.text, error)
                                : et_alloc_failed(error, "results");
    if (!status)
        status = read_values(results, error);
    if (status) {
        et_results_close(results);
        return status;
    }
    *out = results;
    return ET_OK;
}

void et_results_close(et_results *results)
{
    if (!results)
        return;
    et_arena_free(results->arena);
    et_free(results);
}

const char *et_results_directory(const et_results *results)
{
    return results->directory.text;
}

/* ---- settings ---- */

/* Members of now that are not as in before: two echoes of one table, as deep as that. A child is
 * hung over, as both live in one arena. */
static void keep_changed(et_value *out, et_value *now, const et_value *before, bool *failed)
{
    for (et_value *child = now->first, *next; child; child = next) {
        const et_value *other = et_value_get(before, child->key);
        next = child->next;
        et_assert(other);
        et_strbuf left = ET_STRBUF_INIT, right = ET_STRBUF_INIT;
        et_json_print(&left, child, 0);
        et_json_print(&right, other, 0);
        *failed = *failed || left.failed || right.failed;
        const bool equal = !*failed && !strcmp(et_strbuf_text(&left), et_strbuf_text(&right));
        et_strbuf_release(&left);
        et_strbuf_release(&right);
        if (equal)
            continue;
        if (child->kind == ET_VALUE_DICT && other->kind == ET_VALUE_DICT) {
            et_value *nested = et_value_set_dict(out, child->key);
            if (nested)
                keep_changed(nested, child, other, failed);
        } else {
            child->next = NULL;
            et_value_append(out, child->key, child);
        }
    }
}

int et_results_save_config(et_results *results, const et_fields *table, const void *options,
                           const void *defaults, et_error *error)
{
    bool failed = false;
    et_arena *arena = et_arena_new();
    et_value *now = et_fields_echo(table, options, arena);
    et_value *before = et_fields_echo(table, defaults, arena), *changed = et_value_dict(arena);
    if (now && before && changed)
        keep_changed(changed, now, before, &failed);
    int status = now && before && changed && !failed && !et_value_failed(changed)
                     ? ET_OK
                     : et_alloc_failed(error, "settings");
    if (!status && !(status = write_json(results, "config.defaults.json", before, error)))
        status = write_json(results, "config.json", changed, error);
    et_arena_free(arena);
    return status;
}

/* ---- values ---- */

/* Two names that are no UTF-8 would be one in the file. */
static int check_names(const et_value *dict, et_error *error)
{
    for (const et_value *v = dict->first; v; v = v->next) {
        int status = v->kind == ET_VALUE_DICT ? check_names(v, error) : ET_OK;
        if (status)
            return status;
        if (!et_utf8_valid(v->key, strlen(v->key), NULL))
            return et_fail(error, ET_EDATA, "result %s: the name is not UTF-8", v->key);
    }
    return ET_OK;
}

int et_results_update(et_results *results, const et_value *values, et_error *error)
{
    if (!values || values->kind != ET_VALUE_DICT)
        return et_fail(error, ET_EDATA, "results must be a dict of values by name");
    int status = check_names(values, error);
    if (status)
        return status;
    et_arena *arena = et_arena_new();
    et_value *merged = et_value_dict(arena);
    status =
        merged ? et_value_merge(merged, results->values, error) : et_alloc_failed(error, "results");
    if (!status && !(status = et_value_merge(merged, values, error)))
        status = write_json(results, VALUES, merged, error);
    if (status) {
        et_arena_free(arena);
        return status;
    }
    et_arena_free(results->arena);
    results->arena = arena;
    results->values = merged;
    return ET_OK;
}

int et_results_set(et_results *results, const char *name, double value, et_error *error)
{
    if (!name || !*name)
        return et_fail(error, ET_EDATA, "a result has no name");
    et_arena *arena = et_arena_new();
    et_value *values = et_value_dict(arena);
    int status = et_value_set_float(values, name, value) ? et_results_update(results, values, error)
                                                         : et_alloc_failed(error, "results");
    et_arena_free(arena);
    return status;
}

const et_value *et_results_values(const et_results *results)
{
    return results->values;
}

int et_results_make_directory(et_results *results, const char *name, et_error *error)
{
    if (!name || !*name)
        return et_fail(error, ET_ECONFIG, "a directory of results has no name");
    return et_directory_make(et_path_of(results->directory.text, name).text, error);
}

/* ---- for people ---- */

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const et_value *const *)a)->key, (*(const et_value *const *)b)->key);
}

const char *et_results_format(const et_results *results, et_arena *arena)
{
    const size_t count = results->values->count;
    const et_value **all = et_arena_array(arena, count + 1, sizeof *all);
    et_grid grid = { .columns = 2, .headless = true, .left = 2 };
    et_strbuf text = ET_STRBUF_INIT;
    size_t at = 0;
    if (!all)
        return NULL;
    for (const et_value *v = results->values->first; v; v = v->next)
        all[at++] = v;
    qsort(all, count, sizeof *all, compare_names);
    for (size_t i = 0; i < count; i++) {
        et_grid_add(&grid, all[i]->key);
        if (all[i]->kind == ET_VALUE_FLOAT) {
            et_grid_addf(&grid, "%.6g", all[i]->real);
            continue;
        }
        et_strbuf cell = ET_STRBUF_INIT;
        et_json_print(&cell, all[i], 0);
        grid.failed |= cell.failed;
        et_grid_add(&grid, et_strbuf_text(&cell));
        et_strbuf_release(&cell);
    }
    et_grid_append(&grid, ET_GRID_TEXT, &text);
    et_grid_release(&grid);
    return et_strbuf_keep(&text, arena);
}
