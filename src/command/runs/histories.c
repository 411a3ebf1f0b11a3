#include "command/runs/histories.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/files/file.h"
#include "base/values/json.h"
#include "base/vector.h"
#include "command/runs/history.h"
#include "formats/events/log_names.h"
#include "systems/modelgarden/series.h"
#include "train/checkpoint/run_names.h"

/* ---- search ---- */

static int add_run(et_run_list *list, const char *path, et_error *error)
{
    if (list->count == ET_RUN_LIST_MAX)
        return et_fail(error, ET_EDATA, "%s: more than %d runs; name a directory with fewer runs",
                       path, ET_RUN_LIST_MAX);
    const bool grown = ET_VECTOR_GROW(list->items, list->capacity, list->count + 1);
    char *copy = grown ? et_strdup(path) : NULL;
    if (!copy)
        return et_alloc_failed(error, "a list of runs");
    list->items[list->count++] = copy;
    return ET_OK;
}

/* Whether the entry is a directory and not a symbolic link. If the file system gives no type, the
 * file is examined. */
static bool is_folder(const char *parent, const struct dirent *item)
{
    struct stat info;
    if (item->d_name[0] == '.')
        return false;
    if (item->d_type != DT_UNKNOWN)
        return item->d_type == DT_DIR;
    return !lstat(et_path_of(parent, item->d_name).text, &info) && S_ISDIR(info.st_mode);
}

static int select_all(const struct dirent *item)
{
    return item->d_name[0] != '.';
}

/* within: a run was found above. */
static int search(et_run_list *list, const char *directory, bool within, int depth, et_error *error)
{
    et_assert(depth >= 0);
    struct dirent **items;
    bool run =
        within ? et_file_exists_in(directory, ET_RUN_SETTINGS) : et_history_is_run(directory);
    int status = run ? add_run(list, directory, error) : ET_OK;
    if (status || depth == ET_RUN_LIST_DEPTH)
        return status;
    int count = scandir(directory, &items, select_all, alphasort);
    if (count < 0 && (!depth || errno == ENOMEM))
        return et_fail_errno(error, "%s", directory);
    if (count < 0 && !list->quiet)
        et_log(ET_LOG_WARNING, "cannot read %s; skipped", directory);
    for (int i = 0; i < count; i++) {
        /* The trainings of a series are listed while it trains; then the run has its model. */
        if (!status && is_folder(directory, items[i]) &&
            !(run && !strcmp(items[i]->d_name, ET_SERIES_FOLDER) &&
              et_file_exists_in(directory, ET_ARTIFACT_WEIGHTS)))
            status = search(list, et_path_of(directory, items[i]->d_name).text, within || run,
                            depth + 1, error);
        free(items[i]);
    }
    if (count >= 0)
        free(items);
    return status;
}

int et_run_list_add(et_run_list *list, const char *directory, et_error *error)
{
    et_assert(list->count <= list->capacity && directory);
    int status = et_path_check(directory, error);
    return status ? status : search(list, directory, false, 0, error);
}

void et_run_list_release(et_run_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        et_free(list->items[i]);
    et_free(list->items);
    *list = (et_run_list){ .items = NULL };
}

/* ---- opening ---- */

#define LISTED_MAX 40 /* names in a message */

struct et_histories_file {
    dev_t device;
    ino_t inode;
};

static void sane(const et_histories *all)
{
    et_assert(all->count <= all->capacity && all->count <= all->file_capacity);
    et_assert(all->damaged >= 0 && (size_t)all->damaged <= all->count);
    for (size_t i = 0; i < all->count; i++)
        et_assert(all->items[i] && all->items[i]->model_dir);
}

static int add(et_histories *all, const char *path, et_error *error)
{
    et_history *h;
    struct stat info;
    et_error reason = ET_ERROR_INIT;
    sane(all);
    if (stat(path, &info))
        return et_fail_errno(error, "%s", path);
    for (size_t i = 0; i < all->count; i++)
        if (all->files[i].device == info.st_dev && all->files[i].inode == info.st_ino)
            return ET_OK;
    if (!ET_VECTOR_GROW(all->items, all->capacity, all->count + 1) ||
        !ET_VECTOR_GROW(all->files, all->file_capacity, all->count + 1))
        return et_alloc_failed(error, "a list of runs");
    int status = et_history_open(&h, path, &reason);
    if (!h || status == ET_ENOMEM) {
        et_history_close(h);
        return et_fail(error, status, "%s", reason.text);
    }
    if (status) {
        et_log(ET_LOG_WARNING, "%s", reason.text);
        all->damaged++;
    }
    all->files[all->count] = (struct et_histories_file){ info.st_dev, info.st_ino };
    all->items[all->count++] = h;
    return ET_OK;
}

static int add_word(et_histories *all, const char *word, et_error *error)
{
    et_run_list runs = { .items = NULL };
    /* Shows "runs/a/" as "runs/a". */
    char *path = et_strndup(word, et_path_length(word));
    int status = path ? ET_OK : et_alloc_failed(error, "a path");
    if (!status && et_history_is_run(path)) {
        status = add(all, path, error);
    } else if (!status) {
        status = et_run_list_add(&runs, path, error);
        if (!status && !runs.count)
            status = et_fail(error, ET_ENOTFOUND, "%s: not a run, and no run below it", word);
    }
    /* A run that has been deleted meanwhile is skipped. */
    for (size_t i = 0; i < runs.count && !status; i++)
        if (et_history_is_run(runs.items[i]))
            status = add(all, runs.items[i], error);
    et_run_list_release(&runs);
    et_free(path);
    return status;
}

/* Runs without logs do not choose a metric. */
static bool choose_alike(const et_histories *all)
{
    const char *first = NULL;
    for (size_t i = 0; i < all->count; i++) {
        const et_history_series *s = et_history_best_of(all->items[i]).series;
        if (s ? first && strcmp(first, s->name) != 0 : all->items[i]->count > 0)
            return false;
        first = s ? s->name : first;
    }
    return first != NULL;
}

int et_histories_open(et_histories *all, const et_strings *words, et_error *error)
{
    int status = ET_OK;
    for (size_t i = 0; i < words->count && !status; i++)
        status = add_word(all, words->items[i], error);
    all->alike = !status && choose_alike(all);
    return status;
}

void et_histories_close(et_histories *all)
{
    for (size_t i = 0; i < all->count; i++)
        et_history_close(all->items[i]);
    et_free(all->items);
    et_free(all->files);
    *all = (et_histories){ .items = NULL };
}

/* ---- metrics ---- */

/* Names as people type them, each once. */
typedef struct name_list {
    const char *items[2 * ET_HISTORY_SERIES_MAX + 1];
    size_t count;
} name_list;

/* Adds the parts after the last dot. without: adds only names that begin with "training_" or
 * "validation_", without this prefix. */
static void add_names(name_list *list, const et_histories *all, bool without)
{
    for (size_t i = 0; i < all->count; i++)
        for (size_t k = 0; k < all->items[i]->count; k++) {
            const char *name = all->items[i]->series[k].name, *dot = strrchr(name, '.');
            name = dot ? dot + 1 : name;
            const size_t prefix = without ? et_logged_prefix(name) : 0;
            if (without && !prefix)
                continue;
            size_t known = 0;
            while (known < list->count && strcmp(list->items[known], name + prefix) != 0)
                known++;
            if (known == list->count && known < 2 * ET_HISTORY_SERIES_MAX)
                list->items[list->count++] = name + prefix;
        }
}

int et_histories_check_metric(const et_histories *all, const char *word, et_error *error)
{
    et_assert(word);
    const et_history_series *found;
    bool any = false;
    for (size_t i = 0; i < all->count; i++)
        any |= et_history_match(all->items[i], word, &found, 1) > 0;
    if (!any) {
        name_list *list;
        et_strbuf text = ET_STRBUF_INIT;
        if (ET_ALLOC_ZERO(list, 1, "names of metrics", error))
            return ET_ENOMEM;
        add_names(list, all, false);
        for (size_t i = 0; i < list->count && i < LISTED_MAX; i++)
            et_strbuf_printf(&text, "%s%s", i ? ", " : "", list->items[i]);
        if (list->count > LISTED_MAX)
            et_strbuf_printf(&text, ", and %zu more", list->count - LISTED_MAX);
        size_t count = list->count;
        add_names(list, all, true);
        int status =
            et_fail(error, ET_EDATA, "no metric is called %s%s%s%s", word,
                    et_nearest_hint(word, list->items, "").text,
                    count ? "; there is " : "; nothing was logged yet", et_strbuf_text(&text));
        et_strbuf_release(&text);
        et_free(list);
        return status;
    }
    for (size_t i = 0; i < all->count; i++)
        if (!et_history_match(all->items[i], word, &found, 1))
            et_log(ET_LOG_WARNING, "%s logged no %s; left out", all->items[i]->model_dir, word);
    return ET_OK;
}

/* ---- settings from trees ---- */

/* The value as it was written; for a list, its items. NULL: no memory. */
static const char *text_of(et_run_settings *s, const et_value *value)
{
    if (value->kind == ET_VALUE_STRING)
        return et_arena_strdup(&s->arena, value->string);
    if (value->text)
        return et_arena_strdup(&s->arena, value->text);
    et_strbuf out = ET_STRBUF_INIT;
    et_json_print(&out, value, 0);
    return et_strbuf_keep(&out, &s->arena);
}

/* The values have a row for each name, and the index has the row's number. */
static void sane_settings(const et_run_settings *s)
{
    int64_t found = -1;
    et_assert(s->runs > 0 && s->count <= s->name_capacity);
    et_assert(s->count * s->runs <= s->value_capacity);
    for (size_t i = 0; i < s->count; i++)
        et_assert(et_map_get(&s->index, s->names[i], &found) && (size_t)found == i);
}

static bool add_setting(et_run_settings *s, size_t *position, const char *name)
{
    int64_t found;
    *position = s->count;
    if (et_map_get(&s->index, name, &found)) {
        *position = (size_t)found;
        return true;
    }
    if (!ET_VECTOR_GROW(s->names, s->name_capacity, s->count + 1) ||
        !ET_VECTOR_GROW(s->values, s->value_capacity, (s->count + 1) * s->runs) ||
        !et_map_put(&s->index, name, (int64_t)s->count))
        return false;
    for (size_t i = 0; i < s->runs; i++)
        s->values[s->count * s->runs + i] = NULL;
    s->names[s->count++] = name;
    return true;
}

/* An empty group is no setting. The reader of YAML bounds how deep they nest. */
static bool add_values(et_run_settings *s, size_t run, const char *path, const et_value *dict)
{
    bool fine = true;
    for (const et_value *v = dict->first; v && fine; v = v->next) {
        size_t position;
        const char *name = et_arena_printf(&s->arena, "%s%s%s", path, *path ? "." : "", v->key);
        if (!name)
            return false;
        if (v->kind == ET_VALUE_DICT) {
            fine = add_values(s, run, name, v);
            continue;
        }
        const char *text = text_of(s, v);
        fine = text && add_setting(s, &position, name);
        if (fine)
            s->values[position * s->runs + run] = text;
    }
    return fine;
}

/* Ignores runs with unknown settings. mixed: the runs have several experiments. */
static bool differ(const et_run_settings *s, const et_histories *runs, size_t name, bool mixed)
{
    et_assert(name < s->count && s->runs == runs->count);
    const char *first = NULL;
    bool missing = false;
    for (size_t i = 0; i < s->runs; i++) {
        const char *value = et_run_settings_value(s, name, i);
        missing |= !value && runs->items[i]->settings;
        if (value && first && strcmp(first, value) != 0)
            return true;
        first = value ? value : first;
    }
    return first && missing && !mixed;
}

int et_run_settings_open(et_run_settings *s, const et_histories *runs, et_error *error)
{
    *s = (et_run_settings){ .runs = runs->count, .index = ET_MAP_INIT };
    bool fine = true;
    for (size_t i = 0; i < runs->count && fine; i++)
        fine = !runs->items[i]->settings || add_values(s, i, "", runs->items[i]->settings);
    sane_settings(s);
    s->differs = et_alloc_zero(s->count + 1, sizeof *s->differs);
    if (!fine || !s->differs) {
        et_run_settings_close(s);
        return et_alloc_failed(error, "settings");
    }
    int64_t name;
    const bool mixed =
        et_map_get(&s->index, "experiment", &name) && differ(s, runs, (size_t)name, false);
    for (size_t i = 0; i < s->count; i++)
        s->differs[i] = differ(s, runs, i, mixed);
    return ET_OK;
}

void et_run_settings_close(et_run_settings *s)
{
    et_free(s->names);
    et_free(s->values);
    et_free(s->differs);
    et_arena_release(&s->arena);
    et_map_release(&s->index);
    *s = (et_run_settings){ .index = ET_MAP_INIT };
}

/* ---- settings side by side ---- */

const char *et_run_settings_value(const et_run_settings *s, size_t name, size_t run)
{
    et_assert(name < s->count && run < s->runs);
    return s->values[name * s->runs + run];
}

const char *et_run_settings_head(const et_run_settings *s, size_t name)
{
    et_assert(name < s->count);
    const char *whole = s->names[name], *head = whole + strlen(whole);
    while (head > whole) {
        head--;
        while (head > whole && head[-1] != '.')
            head--;
        bool another = false;
        const size_t wanted = strlen(head);
        for (size_t i = 0; i < s->count && !another; i++) {
            /* Whether another name ends so, after a dot or as a whole. */
            const char *other = s->names[i];
            const size_t length = strlen(other);
            another = i != name && s->differs[i] && length >= wanted &&
                      !strcmp(other + length - wanted, head) &&
                      (length == wanted || other[length - wanted - 1] == '.');
        }
        if (!another)
            break;
    }
    return head;
}
