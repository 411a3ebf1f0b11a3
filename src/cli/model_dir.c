#include "cli/model_dir.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "io/manifest.h"
#include "tasks/experiment.h"
#include "tasks/translation/task.h"
#include "train/checkpoint.h"

/* What a start writes before the first step, contents before their folder. Named one by one: a
 * command must not remove what it did not make. */
static const char *const made_at_start[] = {
    ET_EXPERIMENT_FILE,
    ET_TRANSLATION_VOCABULARY,
    "metrics.jsonl",
    ET_TRANSLATION_CACHE "/train.pairs",
    ET_TRANSLATION_CACHE "/validation.pairs",
    ET_TRANSLATION_CACHE,
    ET_CHECKPOINT_FOLDER "/" ET_CHECKPOINT_LOCK,
    ET_CHECKPOINT_FOLDER,
};

/* Where files are written under temporary names; checkpoints see to their own folders. */
static const char *const written_to[] = { ".", ET_TRANSLATION_CACHE, ET_TRANSLATION_OUTPUT };

static bool is_empty(const char *path)
{
    DIR *stream = opendir(path);
    if (!stream)
        return access(path, F_OK) != 0;
    bool empty = true;
    for (const struct dirent *item; empty && (item = readdir(stream)) != NULL;)
        empty = !strcmp(item->d_name, ".") || !strcmp(item->d_name, "..");
    closedir(stream);
    return empty;
}

/* path cut off behind as many of its parts as are there: the length of that. */
static size_t length_there(char *path)
{
    struct stat info;
    size_t length = strlen(path);
    while (length && stat(path, &info)) {
        while (length && path[length - 1] == '/')
            length--;
        while (length && path[length - 1] != '/')
            length--;
        path[length] = 0;
    }
    return length;
}

/* Removes a file or an empty directory; what can't be removed stays. */
static void remove_below(const char *directory, const char *name)
{
    char *path = et_path_join(directory, name);
    if (path)
        remove(path);
    et_free(path);
}

static void take_back_made(const et_model_dir *dir)
{
    for (size_t i = 0; i < sizeof made_at_start / sizeof made_at_start[0]; i++)
        remove_below(dir->path, made_at_start[i]);
    char *part = et_strdup(dir->path);
    for (size_t length = part ? strlen(part) : 0; length > dir->there;) {
        if (rmdir(part))
            break;
        while (length && part[length - 1] == '/')
            length--;
        while (length && part[length - 1] != '/')
            length--;
        part[length] = 0;
    }
    et_free(part);
}

static void sweep(const char *directory)
{
    for (size_t i = 0; i < sizeof written_to / sizeof written_to[0]; i++) {
        char *path = et_path_join(directory, written_to[i]);
        if (path)
            et_manifest_sweep(path);
        et_free(path);
    }
}

int et_model_dir_open(et_model_dir *dir, const char *path, et_error *error)
{
    char *part = et_strdup(path);
    if (!part)
        return et_alloc_failed(error, strlen(path), "a path");
    *dir = (et_model_dir){ path, -1, is_empty(path), length_there(part) };
    et_free(part);
    int status = et_checkpoints_lock(&dir->lock, path, error);
    if (!status)
        sweep(path);
    else
        et_model_dir_close(dir, status != ET_EBUSY);
    return status;
}

void et_model_dir_close(et_model_dir *dir, bool take_back)
{
    if (!dir->path)
        return;
    if (take_back && dir->fresh)
        take_back_made(dir);
    if (dir->lock >= 0)
        et_lock_drop(dir->lock);
    *dir = (et_model_dir)ET_MODEL_DIR_INIT;
}
