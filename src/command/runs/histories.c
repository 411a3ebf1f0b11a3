#include "command/runs/histories.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/vector.h"
#include "command/runs/run_search.h"
#include "formats/events/log_names.h"

#define LISTED_MAX 40 /* names in a message */

/* ---- opening ---- */

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
    et_history **items =
        et_vector_grow(all->items, &all->capacity, all->count + 1, sizeof *items, 16);
    all->items = items ? items : all->items;
    struct et_histories_file *files =
        et_vector_grow(all->files, &all->file_capacity, all->count + 1, sizeof *files, 16);
    all->files = files ? files : all->files;
    int status = items && files ? ET_OK : et_alloc_failed(error, sizeof *items, "a list of runs");
    if (status)
        return status;
    status = et_history_open(&h, path, &reason);
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
    size_t length = strlen(word);
    while (length > 1 && word[length - 1] == '/')
        length--;
    char *path = et_strndup(word, length);
    int status = path ? ET_OK : et_alloc_failed(error, strlen(word), "a path");
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

/* Runs that have logged nothing choose nothing. */
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

static void add_name(name_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (!strcmp(list->items[i], name))
            return;
    if (list->count < 2 * ET_HISTORY_SERIES_MAX)
        list->items[list->count++] = name;
}

/* Adds the parts after the last dot. without: adds only names that begin with "training_" or
 * "validation_", without this prefix. */
static void add_names(name_list *list, const et_histories *all, bool without)
{
    for (size_t i = 0; i < all->count; i++)
        for (size_t k = 0; k < all->items[i]->count; k++) {
            const char *name = all->items[i]->series[k].name, *dot = strrchr(name, '.');
            name = dot ? dot + 1 : name;
            const size_t prefix = without ? et_logged_prefix(name) : 0;
            if (prefix || !without)
                add_name(list, name + prefix);
        }
}

static int unknown_metric(const et_histories *all, const char *word, et_error *error)
{
    name_list *list = et_alloc_zero(1, sizeof *list);
    et_strbuf text = ET_STRBUF_INIT;
    if (!list)
        return et_alloc_failed(error, sizeof *list, "names of metrics");
    add_names(list, all, false);
    for (size_t i = 0; i < list->count && i < LISTED_MAX; i++)
        et_strbuf_printf(&text, "%s%s", i ? ", " : "", list->items[i]);
    if (list->count > LISTED_MAX)
        et_strbuf_printf(&text, ", and %zu more", list->count - LISTED_MAX);
    size_t count = list->count;
    add_names(list, all, true);
    int status = et_fail(error, ET_EDATA, "no metric is called %s%s%s%s", word,
                         et_nearest_hint(word, list->items, "").text,
                         count ? "; there is " : "; nothing was logged yet", et_strbuf_text(&text));
    et_strbuf_release(&text);
    et_free(list);
    return status;
}

int et_histories_check_metric(const et_histories *all, const char *word, et_error *error)
{
    et_assert(word);
    const et_history_series *found;
    bool any = false;
    for (size_t i = 0; i < all->count; i++)
        any |= et_history_match(all->items[i], word, &found, 1) > 0;
    if (!any)
        return unknown_metric(all, word, error);
    for (size_t i = 0; i < all->count; i++)
        if (!et_history_match(all->items[i], word, &found, 1))
            et_log(ET_LOG_WARNING, "%s logged no %s; left out", all->items[i]->model_dir, word);
    return ET_OK;
}
