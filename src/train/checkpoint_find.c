/* Which checkpoint to read: the newest that is sound, or the best. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/file.h"
#include "base/json.h"
#include "train/checkpoint.h"
#include "train/checkpoint_file.h"

#define INFO_MAX (1 << 20) /* bytes of info.json */

static bool is_leaving(const et_manifest *manifest, const char *file)
{
    for (size_t i = 0; i < manifest->leaving_count; i++)
        if (strcmp(manifest->leaving[i], file) == 0)
            return true;
    return false;
}

/* A file that is complete under its own name but not named: the run was killed between writing
 * and commit, or the manifest was lost. */
static int take_up(et_manifest *manifest, const char *directory, et_error *error)
{
    et_manifest found;
    int status = et_manifest_rebuild(&found, directory, ET_CHECKPOINT_PREFIX, error);
    for (size_t i = 0; !status && i < found.count; i++) {
        const et_manifest_entry *entry = &found.entries[i];
        bool newer = !manifest->count || entry->step > manifest->entries[manifest->count - 1].step;
        if (newer && !is_leaving(manifest, entry->file))
            status = et_manifest_add(manifest, entry, error);
    }
    et_manifest_release(&found);
    return status;
}

int et_checkpoint_list(et_manifest *out, size_t *taken_up, const char *directory, et_error *error)
{
    *taken_up = 0;
    et_error reason = ET_ERROR_INIT;
    int status = et_manifest_load(out, directory, &reason);
    if (status == ET_EFORMAT) {
        et_log(ET_LOG_WARNING, "%s; taking what checkpoints are in %s", reason.text, directory);
        *out = (et_manifest){ 0 };
    } else if (status) {
        return et_fail(error, status, "%s", reason.text);
    }
    size_t named = out->count;
    status = take_up(out, directory, error);
    *taken_up = out->count - named;
    if (status)
        et_manifest_release(out);
    return status;
}

int et_checkpoint_open_newest(et_safetensors **file, int64_t *step, int64_t *index,
                              const et_manifest *manifest, const char *directory, et_error *error)
{
    et_error reason = ET_ERROR_INIT;
    *file = NULL;
    for (*index = (int64_t)manifest->count - 1; *index >= 0; --*index) {
        const et_manifest_entry *entry = &manifest->entries[*index];
        char *path = et_path_join(directory, entry->file);
        if (!path)
            return et_alloc_failed(error, strlen(directory), "a path");
        int status = et_checkpoint_file_open(file, path, step, &reason);
        et_free(path);
        if (!status)
            return ET_OK;
        /* Trouble that may pass (no permission, no memory) must not cost the newest. */
        if (status != ET_EFORMAT && status != ET_ENOTFOUND)
            return et_fail(error, status, "%s", reason.text);
        et_log(ET_LOG_WARNING, "%s; trying the checkpoint before step %" PRId64, reason.text,
               entry->step);
    }
    if (!manifest->count)
        return ET_OK;
    return et_fail(error, ET_EFORMAT,
                   "%s: none of %zu checkpoints is sound (the oldest: %s); put a good one there, "
                   "or start in another directory",
                   directory, manifest->count, reason.text);
}

static int newest_in(char **path, const char *directory, et_error *error)
{
    et_manifest manifest;
    size_t taken_up;
    int status = et_checkpoint_list(&manifest, &taken_up, directory, error);
    if (status)
        return status;
    et_safetensors *file = NULL;
    int64_t step, index = -1;
    status = et_checkpoint_open_newest(&file, &step, &index, &manifest, directory, error);
    if (!status && index < 0)
        status = et_fail(error, ET_ENOTFOUND, "%s: no checkpoint there", directory);
    if (!status) {
        *path = et_path_join(directory, manifest.entries[index].file);
        if (!*path)
            status = et_alloc_failed(error, strlen(directory), "a path");
    }
    et_safetensors_close(file);
    et_manifest_release(&manifest);
    return status;
}

int et_checkpoint_newest(char **path, const char *model_dir, et_error *error)
{
    *path = NULL;
    char *directory = et_path_join(model_dir, ET_CHECKPOINT_FOLDER);
    if (!directory)
        return et_alloc_failed(error, strlen(model_dir), "a path");
    int status = et_file_exists(directory)
                     ? newest_in(path, directory, error)
                     : et_fail(error, ET_ENOTFOUND,
                               "%s: no such directory; train there first, or name another "
                               "--model-dir",
                               directory);
    et_free(directory);
    return status;
}

/* Best -------------------------------------------------------------------------------- */

static int read_info(et_value **info, const char *path, et_arena *arena, et_error *error)
{
    char *text;
    size_t length;
    int status = et_file_read(&text, &length, path, INFO_MAX, error);
    if (status)
        return status;
    status = et_json_parse(info, arena, text, length, path, error);
    et_free(text);
    int64_t step;
    if (!status) {
        status = et_value_read_int(*info, ET_CHECKPOINT_STEP, &step, error);
        if (!status && step < 0)
            status = et_fail(error, ET_EFORMAT, "%s is negative", ET_CHECKPOINT_STEP);
        if (status)
            et_fail_while(error, status, "%s", path);
    }
    return status;
}

int et_checkpoint_best_info(et_value **info, const char *model_dir, et_arena *arena,
                            et_error *error)
{
    char *path = et_arena_printf(arena, "%s/" ET_CHECKPOINT_BEST "/" ET_CHECKPOINT_INFO, model_dir);
    if (!path)
        return et_alloc_failed(error, strlen(model_dir), "a path");
    return read_info(info, path, arena, error);
}

int et_checkpoint_best(char **path, const char *model_dir, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *info;
    *path = NULL;
    int status = et_checkpoint_best_info(&info, model_dir, &arena, error);
    if (!status) {
        int64_t step = et_value_get(info, ET_CHECKPOINT_STEP)->integer;
        char *found = et_arena_printf(
            &arena, "%s/" ET_CHECKPOINT_BEST "/" ET_CHECKPOINT_BEST_PREFIX "%" PRId64 "%s",
            model_dir, step, ET_CHECKPOINT_SUFFIX);
        *path = found ? et_strdup(found) : NULL;
        if (!*path)
            status = et_alloc_failed(error, strlen(model_dir), "a path");
    }
    et_arena_release(&arena);
    return status;
}
