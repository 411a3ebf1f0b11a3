/* Exports that come and go with a run's checkpoints. Made from files, not from what is being
 * trained: so whose turn it is when a checkpoint is written does not matter, nor which process
 * looks. What the run sweeps while it is read is passed over. */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files/file.h"
#include "train/checkpoint/artifact/exports_private.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/run/run_names.h"

#define LOOK_EVERY 0.2 /* seconds */

/* Of the checkpoint whose path is payload. */
static int write_from(void *payload, const char *path, et_error *error)
{
    const char *checkpoint = payload;
    return et_checkpoint_average(&checkpoint, 1, false, path, NULL, error);
}

static bool is_kept(const et_manifest *manifest, int64_t step)
{
    for (size_t i = 0; i < manifest->count; i++)
        if (manifest->entries[i].step == step && !manifest->entries[i].transient)
            return true;
    return false;
}

/* Of a run without checkpoints none was swept: it has not begun, or its path is a wrong one. */
static int remove_swept(et_exports *self, const et_manifest *manifest, et_error *error)
{
    et_export_ids all;
    int status = et_export_ids_find(self, &all, error);
    for (size_t i = 0; i < all.count && manifest->count && !status; i++) {
        if (is_kept(manifest, all.ids[i]))
            continue;
        status = et_exports_take_name(self, all.ids[i], error);
        if (!status)
            status = et_exports_remove(self, error);
    }
    et_free(all.ids);
    return status;
}

static int export_one(et_exports *self, const char *model_dir, int64_t step,
                      const et_value *settings, et_error *error)
{
    char *path = et_checkpoint_path(model_dir, step);
    const et_export_content content = { write_from, path, settings };
    et_error reason = ET_ERROR_INIT;
    int status = path ? et_exports_publish(self, &content, &reason)
                      : et_alloc_failed(&reason, strlen(model_dir), "a path");
    if (status && path && !et_file_exists(path))
        status = ET_OK;
    else if (status)
        et_fail(error, status, "%s", reason.text);
    et_free(path);
    return status;
}

static int export_new(et_exports *self, const char *model_dir, const et_manifest *manifest,
                      const et_value *settings, et_error *error)
{
    int status = ET_OK;
    for (size_t i = 0; i < manifest->count && !status; i++) {
        if (manifest->entries[i].transient)
            continue;
        status = et_exports_take_name(self, manifest->entries[i].step, error);
        if (!status && !et_file_exists(self->name))
            status = export_one(self, model_dir, manifest->entries[i].step, settings, error);
    }
    return status;
}

static int follow(et_exports *self, const char *model_dir, const char *folder,
                  const et_value *settings, et_error *error)
{
    et_manifest manifest;
    size_t taken_up;
    int status = et_checkpoint_list(&manifest, &taken_up, folder, false, error);
    if (status)
        return status;
    status = export_new(self, model_dir, &manifest, settings, error);
    if (!status)
        status = remove_swept(self, &manifest, error);
    et_manifest_release(&manifest);
    return status;
}

int et_exports_follow(et_exports *self, const char *model_dir, const et_value *settings,
                      et_error *error)
{
    int status = et_path_check(model_dir, error);
    char *folder = status ? NULL : et_path_join(model_dir, ET_CHECKPOINT_FOLDER);
    if (!status && !folder)
        status = et_alloc_failed(error, strlen(model_dir), "a path");
    if (!status && et_file_exists(folder))
        status = follow(self, model_dir, folder, settings, error);
    et_free(folder);
    return status ? et_fail_while(error, status, "exporting checkpoints of %s",
                                  model_dir ? model_dir : "a run")
                  : ET_OK;
}

static int act_follow(et_action *action, const et_moment *now, et_error *error)
{
    const et_checkpoint_export *self = (const et_checkpoint_export *)action;
    return now->rank ? ET_OK
                     : et_exports_follow(self->exports, self->model_dir, self->settings, error);
}

void et_checkpoint_export_init(et_checkpoint_export *self, const char *name, et_exports *exports,
                               const char *model_dir, const et_value *settings)
{
    *self = (et_checkpoint_export){ .kind = { .name = name, .act = act_follow },
                                    .exports = exports,
                                    .model_dir = model_dir,
                                    .settings = settings };
    self->action.class = &self->kind;
}

/* ---- waiting ---- */

/* *id: -1: none. Else it has the name. */
static int find_above(et_exports *self, int64_t after, int64_t *id, et_error *error)
{
    et_export_ids all;
    int status = et_export_ids_find(self, &all, error);
    *id = -1;
    for (size_t i = 0; i < all.count && *id < 0 && !status; i++) {
        if (all.ids[i] <= after)
            continue;
        status = et_exports_take_name(self, all.ids[i], error);
        if (!status && et_file_exists(self->name))
            *id = all.ids[i];
    }
    et_free(all.ids);
    return status;
}

int et_exports_wait(et_exports *self, int64_t after, double seconds, int64_t *id, const char **path,
                    et_error *error)
{
    const double until = et_clock_monotonic() + seconds;
    int status = find_above(self, after, id, error);
    for (double left; !status && *id < 0 && (left = until - et_clock_monotonic()) > 0;) {
        et_clock_sleep(left < LOOK_EVERY ? left : LOOK_EVERY);
        status = find_above(self, after, id, error);
    }
    if (path)
        *path = !status && *id >= 0 ? self->name : NULL;
    return status;
}
