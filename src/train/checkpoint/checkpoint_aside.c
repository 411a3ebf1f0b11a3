#include "train/checkpoint/checkpoint_aside.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/files/aside.h"
#include "base/files/file.h"
#include "base/vector.h"
#include "formats/safetensors/safetensors.h"
#include "train/checkpoint/run_names.h"

/* Names, owned. */
typedef struct names {
    char **items;
    size_t count, capacity;
} names;

static int add_name(names *n, const char *name, et_error *error)
{
    char **items = et_vector_grow(n->items, &n->capacity, n->count + 1, sizeof *items, 8);
    char *copy = items ? et_strdup(name) : NULL;
    n->items = items ? items : n->items;
    if (!copy)
        return et_alloc_failed(error, strlen(name), "names of files");
    n->items[n->count++] = copy;
    return ET_OK;
}

static void release_names(names *n)
{
    for (size_t i = 0; i < n->count; i++)
        et_free(n->items[i]);
    et_free(n->items);
}

/* The step in "<prefix>12.safetensors"; -1: another name. */
static int64_t step_of(const char *name, const char *prefix)
{
    char same[64];
    const size_t length = strlen(prefix);
    if (strncmp(name, prefix, length) != 0)
        return -1;
    errno = 0;
    const long long step = strtoll(name + length, NULL, 10);
    snprintf(same, sizeof same, "%s%lld" ET_SAFETENSORS_SUFFIX, prefix, step);
    return errno || step < 0 || strcmp(name, same) != 0 ? -1 : step;
}

int64_t et_checkpoint_step_at(const et_manifest *manifest, const char *directory, const char *path)
{
    struct stat wanted, info;
    int64_t step = -1;
    if (stat(path, &wanted))
        return -1;
    for (size_t i = 0; i < manifest->count && step < 0; i++) {
        char *entry = et_path_join(directory, manifest->entries[i].file);
        if (entry && !stat(entry, &info) && info.st_ino == wanted.st_ino &&
            info.st_dev == wanted.st_dev)
            step = manifest->entries[i].step;
        et_free(entry);
    }
    return step;
}

/* Entries after the line, for any names of files. */
static int list_entries(names *n, const et_manifest *manifest, int64_t line, et_error *error)
{
    int status = ET_OK;
    for (size_t i = 0; i < manifest->count && !status; i++) {
        const et_manifest_entry *entry = &manifest->entries[i];
        if (entry->step > line && !entry->own)
            status = add_name(n, entry->file, error);
    }
    return status;
}

/* Files without an entry, such as copies by a person: a save of their step would replace them. */
static int list_files(names *n, const et_manifest *manifest, const char *directory, int64_t line,
                      et_error *error)
{
    DIR *stream = opendir(directory);
    int status = stream ? ET_OK : et_fail_errno(error, "cannot read the directory %s", directory);
    for (const struct dirent *item; !status && (item = readdir(stream)) != NULL;) {
        const char *name = item->d_name;
        if (step_of(name, ET_CHECKPOINT_PREFIX) > line && !et_manifest_lists(manifest, name) &&
            !et_manifest_leaves(manifest, name))
            status = add_name(n, name, error);
    }
    if (stream)
        closedir(stream);
    return status;
}

int et_checkpoints_set_aside(et_manifest *manifest, const char *directory, int64_t line,
                             et_error *error)
{
    names n = { 0 };
    int status = list_entries(&n, manifest, line, error);
    if (!status)
        status = list_files(&n, manifest, directory, line, error);
    if (!status && n.count)
        status = et_aside_link(directory, (const char *const *)n.items, n.count, error);
    for (size_t i = 0; i < n.count && !status; i++)
        status = et_manifest_leave(manifest, n.items[i], error);
    release_names(&n);
    return status;
}

static int list_best(names *n, const char *directory, et_error *error)
{
    DIR *stream = opendir(directory);
    int status = stream || errno == ENOENT
                     ? ET_OK
                     : et_fail_errno(error, "cannot read the directory %s", directory);
    for (const struct dirent *item; !status && stream && (item = readdir(stream)) != NULL;)
        if (!strcmp(item->d_name, ET_CHECKPOINT_INFO) ||
            step_of(item->d_name, ET_CHECKPOINT_BEST_PREFIX) >= 0)
            status = add_name(n, item->d_name, error);
    if (stream)
        closedir(stream);
    return status;
}

int et_checkpoint_set_best_aside(const char *best_directory, et_error *error)
{
    names n = { 0 };
    int status = list_best(&n, best_directory, error);
    if (!status && n.count)
        status = et_aside_move(best_directory, (const char *const *)n.items, n.count, error);
    release_names(&n);
    return status;
}
