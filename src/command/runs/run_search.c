#include "command/runs/run_search.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/vector.h"
#include "command/runs/history.h"
#include "systems/modelgarden/series.h"
#include "train/checkpoint/run_names.h"

static int add(et_run_list *list, const char *path, et_error *error)
{
    if (list->count == ET_RUN_LIST_MAX)
        return et_fail(error, ET_EDATA, "%s: more than %d runs; name a directory with fewer runs",
                       path, ET_RUN_LIST_MAX);
    char **grown = et_vector_grow(list->items, &list->capacity, list->count + 1, sizeof *grown, 64);
    char *copy = grown ? et_strdup(path) : NULL;
    list->items = grown ? grown : list->items;
    if (!copy)
        return et_alloc_failed(error, strlen(path), "a list of runs");
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
    char *path = et_path_join(parent, item->d_name);
    bool is = path && !lstat(path, &info) && S_ISDIR(info.st_mode);
    et_free(path);
    return is;
}

static int select_all(const struct dirent *item)
{
    return item->d_name[0] != '.';
}

/* The trainings of a series are listed while it trains; then the run has its model. */
static bool is_passed(const char *directory, const char *name, bool run)
{
    return run && !strcmp(name, ET_SERIES_FOLDER) &&
           et_file_exists_in(directory, ET_ARTIFACT_WEIGHTS);
}

/* within: a run was found above. */
static int search(et_run_list *list, const char *directory, bool within, int depth, et_error *error)
{
    et_assert(depth >= 0);
    struct dirent **items;
    bool run =
        within ? et_file_exists_in(directory, ET_RUN_SETTINGS) : et_history_is_run(directory);
    int status = run ? add(list, directory, error) : ET_OK;
    if (status || depth == ET_RUN_LIST_DEPTH)
        return status;
    int count = scandir(directory, &items, select_all, alphasort);
    if (count < 0 && (!depth || errno == ENOMEM))
        return et_fail_errno(error, "%s", directory);
    if (count < 0 && !list->quiet)
        et_log(ET_LOG_WARNING, "cannot read %s; skipped", directory);
    for (int i = 0; i < count; i++) {
        if (!status && is_folder(directory, items[i]) &&
            !is_passed(directory, items[i]->d_name, run)) {
            char *path = et_path_join(directory, items[i]->d_name);
            status = path ? search(list, path, within || run, depth + 1, error)
                          : et_alloc_failed(error, 0, "a path");
            et_free(path);
        }
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
