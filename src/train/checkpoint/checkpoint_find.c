/* Finds the checkpoint to read: the newest undamaged one, or the best. Used by the manager and by
 * commands that only read and hold no lock.
 *
 * There are three sources of information, and each may be missing or damaged after a kill, a full
 * disk or a user's mistake: checkpoint.json, the names of the files, and their contents. The
 * manifest is used if it is readable. Names fill its gaps. Contents decide: a file is used only if
 * all of its checksums are right.
 *
 * Errors that may be temporary (no permission, no memory, an I/O error) stop the search. Only
 * damaged or missing files are skipped. Otherwise a disk that is away for a minute would cost all
 * work since the previous checkpoint. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "formats/safetensors/safetensors.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/run_names.h"

/* Bytes of info.json: a dict of metrics has a few hundred. A larger file is not ours and is not
 * read. */
#define INFO_MAX (64 << 20)

/* A missing manifest counts as empty, so all checkpoints in the directory are added. A damaged
 * manifest is treated alike, with a warning. Other errors (no permission) are returned. */
int et_checkpoint_list(et_manifest *out, size_t *taken_up, const char *directory, bool locked,
                       et_error *error)
{
    *taken_up = 0;
    et_error reason = ET_ERROR_INIT;
    int status = locked ? et_manifest_load(out, directory, &reason)
                        : et_manifest_read(out, directory, &reason);
    if (status == ET_EFORMAT) {
        et_log(ET_LOG_WARNING, "%s; using the checkpoints found in %s", reason.text, directory);
        *out = (et_manifest){ 0 };
    } else if (status) {
        return et_fail(error, status, "%s", reason.text);
    }
    size_t named = out->count;
    /* Add complete files that the manifest does not name: the process was killed between writing
     * and commit, or the manifest was lost. A file older than a named one is not added, because
     * max_to_keep removed it; nor is a file that the manifest lists for deletion. So 100 200 in the
     * manifest and 100 200 300 on the disk give 100 200 300. */
    et_manifest found;
    status = et_manifest_rebuild(&found, directory, ET_CHECKPOINT_PREFIX, error);
    for (size_t i = 0; !status && i < found.count; i++) {
        const et_manifest_entry *entry = &found.entries[i];
        bool newer = !out->count || entry->step > out->entries[out->count - 1].step;
        if (newer && !et_manifest_leaves(out, entry->file))
            status = et_manifest_add(out, entry, error);
    }
    et_manifest_release(&found);
    *taken_up = out->count - named;
    if (status)
        et_manifest_release(out);
    return status;
}

/* Whether another checkpoint is the newest now; *manifest then becomes the present manifest. If
 * this second reading fails, the error of the first reading counts. */
static bool has_moved_on(et_manifest *manifest, const char *directory)
{
    et_manifest now;
    size_t taken_up;
    if (et_checkpoint_list(&now, &taken_up, directory, false, NULL))
        return false;
    et_assert(manifest->count);
    bool moved =
        now.count && now.entries[now.count - 1].step != manifest->entries[manifest->count - 1].step;
    et_manifest_release(moved ? manifest : &now);
    if (moved)
        *manifest = now;
    return moved;
}

/* Reads from the newest file to the oldest. Checksums need the whole file, so a sound newest file
 * costs one reading, and each damaged file costs another. A run that saves meanwhile removes listed
 * files; then the search begins again. Each new search follows another save, so there is a last
 * one. */
int et_checkpoint_open_newest(et_safetensors **file, int64_t *step, int64_t *index,
                              et_manifest *manifest, const char *directory, et_error *error)
{
    et_error reason = ET_ERROR_INIT;
    *file = NULL;
    for (*index = (int64_t)manifest->count - 1; *index >= 0; --*index) {
        const et_manifest_entry *entry = &manifest->entries[*index];
        int status =
            et_checkpoint_file_open(file, et_path_of(directory, entry->file).text, step, &reason);
        if (!status)
            return ET_OK;
        /* Trouble that may pass (no permission, no memory) must not cost the newest. */
        if (status != ET_EFORMAT && status != ET_ENOTFOUND)
            return et_fail(error, status, "%s", reason.text);
        if (status == ET_ENOTFOUND && has_moved_on(manifest, directory)) {
            *index = (int64_t)manifest->count;
            continue;
        }
        et_log(ET_LOG_WARNING, "%s; trying the checkpoint before step %" PRId64, reason.text,
               entry->step);
    }
    et_assert(*index == -1 && !*file);
    if (!manifest->count)
        return ET_OK;
    if (manifest->count == 1)
        return et_fail(error, ET_EFORMAT,
                       "%s: the only checkpoint is damaged (%s); restore it, or start in another "
                       "directory",
                       directory, reason.text);
    return et_fail(error, ET_EFORMAT,
                   "%s: all %zu checkpoints are damaged (the oldest: %s); restore one, or start in "
                   "another directory",
                   directory, manifest->count, reason.text);
}

/* *file stays open: its values remain readable although a run removes its name. */
static int newest_in(et_safetensors **file, int64_t *step, char **path, const char *directory,
                     et_error *error)
{
    et_manifest manifest;
    size_t taken_up;
    int64_t index = -1;
    int status = et_checkpoint_list(&manifest, &taken_up, directory, false, error);
    if (status)
        return status;
    status = et_checkpoint_open_newest(file, step, &index, &manifest, directory, error);
    if (!status && index < 0)
        status = et_fail(error, ET_ENOTFOUND, "%s: no checkpoint here", directory);
    if (!status) {
        *path = et_path_join(directory, manifest.entries[index].file);
        if (!*path)
            status = et_alloc_failed(error, "a path");
    }
    et_manifest_release(&manifest);
    return status;
}

/* A missing directory gets its own message: the usual cause is a mistyped path. */
int et_checkpoint_newest_file(et_safetensors **file, int64_t *step, char **path,
                              const char *model_dir, et_error *error)
{
    *path = NULL;
    *file = NULL;
    const et_path directory = et_path_of(model_dir, ET_CHECKPOINT_FOLDER);
    return et_file_exists(directory.text)
               ? newest_in(file, step, path, directory.text, error)
               : et_fail(error, ET_ENOTFOUND,
                         "%s: no such directory; train this run first, or name another --model-dir",
                         directory.text);
}

int et_checkpoint_newest(char **path, const char *model_dir, et_error *error)
{
    et_safetensors *file;
    int64_t step;
    int status = et_checkpoint_newest_file(&file, &step, path, model_dir ? model_dir : "", error);
    et_safetensors_close(file);
    return status;
}

/* The manifest may be replaced at any time, and is whole whenever it is read. */
int et_checkpoint_next(char **path, int64_t *step, const char *model_dir, int64_t after,
                       bool transient, et_error *error)
{
    et_manifest manifest;
    *path = NULL;
    const et_path directory = et_path_of(model_dir, ET_CHECKPOINT_FOLDER);
    if (!et_file_exists(directory.text))
        return ET_OK;
    int status = et_manifest_read(&manifest, directory.text, error);
    for (size_t i = 0; !status && i < manifest.count && !*path; i++) {
        const et_manifest_entry *entry = &manifest.entries[i];
        if (entry->step <= after || (entry->transient && !transient))
            continue;
        *step = entry->step;
        *path = et_path_join(directory.text, entry->file);
        status = *path ? ET_OK : et_alloc_failed(error, "a path");
    }
    et_manifest_release(&manifest);
    return status == ET_ENOTFOUND ? ET_OK : status;
}

/* ---- the best ---- */

/* One file at a time, named by info.json; its own name says the step as well, for people. */

/* The dict lives in arena, as long as that does. */
int et_checkpoint_best_info(et_value **info, const char *model_dir, et_arena *arena,
                            et_error *error)
{
    const et_path path = et_path_print("%s/" ET_CHECKPOINT_BEST "/" ET_CHECKPOINT_INFO, model_dir);
    /* {"accuracy": 0.912, ..., "best_ckpt_global_step": 2000}: the step is all that is needed to
     * find the weights; the rest is for people and `inspect`. */
    int64_t step;
    int status = et_value_read_file(info, arena, path.text, INFO_MAX, et_json_parse, error);
    if (status)
        return status;
    status = et_value_read_int(*info, ET_CHECKPOINT_STEP, &step, error);
    if (!status && step < 0)
        status = et_fail(error, ET_EFORMAT, "%s is negative", ET_CHECKPOINT_STEP);
    return status ? et_fail_while(error, status, "%s", path.text) : ET_OK;
}

/* The file is not checked: opening it shows whether it is there and sound. */
int et_checkpoint_best(char **path, const char *model_dir, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *info;
    *path = NULL;
    int status = et_checkpoint_best_info(&info, model_dir, &arena, error);
    if (!status) {
        *path = et_strdup(et_path_print("%s/" ET_CHECKPOINT_BEST "/" ET_CHECKPOINT_BEST_PREFIX
                                        "%" PRId64 ET_SAFETENSORS_SUFFIX,
                                        model_dir, et_value_get(info, ET_CHECKPOINT_STEP)->integer)
                              .text);
        if (!*path)
            status = et_alloc_failed(error, "a path");
    }
    et_arena_release(&arena);
    return status;
}

/* ---- names ---- */

int et_checkpoint_named(char **path, const char *model_dir, const char *name, et_error *error)
{
    char *end;
    *path = NULL;
    if (!strcmp(name, ET_CHECKPOINT_BEST))
        return et_checkpoint_best(path, model_dir, error);
    if (!strcmp(name, ET_CHECKPOINT_NEWEST))
        return et_checkpoint_newest(path, model_dir, error);
    long long step = strtoll(name, &end, 10);
    bool is_step = *name >= '0' && *name <= '9' && !*end;
    et_path found = is_step ? et_checkpoint_path(model_dir, step) : et_path_print("%s", name);
    /* The name of one of the run's files: newest, then best. */
    for (int i = 0; i < 2 && !is_step && !et_file_exists(found.text); i++) {
        const char *folder = i ? ET_CHECKPOINT_BEST : ET_CHECKPOINT_FOLDER;
        const et_path of_run = et_path_of(et_path_of(model_dir, folder).text, name);
        if (et_file_exists(of_run.text))
            found = of_run;
    }
    if (is_step && !et_file_exists(found.text))
        return et_fail(
            error, ET_ENOTFOUND,
            "%s: no checkpoint of step %s; `etude inspect` lists them, or use best or newest",
            model_dir, name);
    *path = et_strdup(found.text);
    return *path ? ET_OK : et_alloc_failed(error, "a path");
}
