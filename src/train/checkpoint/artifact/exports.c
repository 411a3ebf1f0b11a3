/* Exports: directories BASE-N. An export is made under a temporary name and renamed when all of it
 * is on disk, so a directory with the final name is complete. */
#include <etude/ready_actions.h>

#include <etude/model_export.h>

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/files/aside.h"
#include "base/files/file.h"
#include "base/sort.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "base/vector.h"
#include "engine/optim/optimizer.h"
#include "train/checkpoint/artifact/artifact.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/run_names.h"

#define WEIGHTS    "weights.safetensors" /* what makes a directory an export */
#define MODEL      "model.onnx"
#define LOOK_EVERY 0.2 /* seconds */

typedef struct id_list {
    int64_t *ids; /* [count], owned, ascending */
    size_t count, capacity;
} id_list;

struct et_exports {
    et_exports_options options;
    et_path path, directory;   /* BASE, "runs/a/export"; "runs/a/" */
    const char *base;          /* "export", in path */
    et_path subdirectory;      /* "": none */
    int64_t max_to_keep, last; /* last: the last number used; -1: none */
    et_path name;              /* the last given name */
    int64_t id;                /* its number */
    id_list made;              /* by this process, in any order */
};

/* ---- what there is ---- */

/* -1: not BASE-N. */
static int64_t id_of(const et_exports *self, const char *file)
{
    size_t length = strlen(self->base);
    const char *digits = file + length + 1;
    if (strncmp(file, self->base, length) || file[length] != '-' || !*digits ||
        strspn(digits, "0123456789") != strlen(digits))
        return -1;
    errno = 0;
    long long id = strtoll(digits, NULL, 10);
    return errno ? -1 : id;
}

ET_SORT_NUMBERS(compare_ids, int64_t)

static int note_id(id_list *all, int64_t id, et_error *error)
{
    if (!ET_VECTOR_APPEND(all->ids, all->count, all->capacity, id))
        return et_alloc_failed(error, "a list of exports");
    return ET_OK;
}

static int find_ids(const et_exports *self, id_list *all, et_error *error)
{
    *all = (id_list){ NULL, 0, 0 };
    DIR *directory = opendir(self->directory.text);
    if (!directory && errno == ENOENT)
        return ET_OK;
    if (!directory)
        return et_fail_errno(error, "cannot read %s", self->directory.text);
    int status = ET_OK;
    for (struct dirent *entry; !status && (entry = readdir(directory)) != NULL;) {
        int64_t id = id_of(self, entry->d_name);
        if (id >= 0)
            status = note_id(all, id, error);
    }
    closedir(directory);
    if (all->count)
        qsort(all->ids, all->count, sizeof *all->ids, compare_ids);
    return status;
}

/* "BASE-3", or with the subdirectory. */
static et_path path_of(const et_exports *self, int64_t id)
{
    const char *below = self->subdirectory.text;
    return et_path_print("%s-%" PRId64 "%s%s", self->path.text, id, *below ? "/" : "", below);
}

/* ---- names ---- */

int et_exports_open(et_exports **out, const char *base_name, int64_t max_to_keep,
                    const et_exports_options *options, et_error *error)
{
    *out = NULL;
    et_exports *self;
    if (ET_ALLOC_ZERO(self, 1, "exports", error))
        return ET_ENOMEM;
    if (options)
        self->options = *options;
    const char *below = self->options.subdirectory; /* as it was given */
    int status = ET_OK;
    self->max_to_keep = max_to_keep;
    self->last = -1;
    if (below)
        self->subdirectory = et_path_normal(below);
    self->path = et_path_normal(base_name ? base_name : "");
    self->directory = et_path_parent(self->path.text);
    self->base = et_path_base(self->path.text);
    if (!*self->base || !strcmp(self->base, ".") || !strcmp(self->base, ".."))
        status = et_fail(error, ET_EUSAGE, "exports need a base name");
    else if (!max_to_keep)
        status = et_fail(error, ET_ECONFIG,
                         "max_to_keep 0 would keep no export; a negative number keeps all");
    else if (below && (et_path_leads_out(below) || !strcmp(self->subdirectory.text, ".")))
        status = et_fail(error, ET_ECONFIG,
                         "subdirectory \"%s\" of exports: name a path below %s-N, without \"..\"",
                         below, self->base);
    if (status)
        et_exports_close(self);
    else
        *out = self;
    return status;
}

void et_exports_close(et_exports *self)
{
    if (!self)
        return;
    et_free(self->made.ids);
    et_free(self);
}

static int next_id(et_exports *self, int64_t *id, et_error *error)
{
    id_list all;
    if (self->options.next_id) {
        *id = self->options.next_id(self->options.payload);
        return *id >= 0
                   ? ET_OK
                   : et_fail(error, ET_ECONFIG, "the number of an export is %lld; give at least 0",
                             (long long)*id);
    }
    int status = find_ids(self, &all, error);
    int64_t largest = all.count ? all.ids[all.count - 1] : -1;
    et_free(all.ids);
    largest = largest > self->last ? largest : self->last;
    const int64_t now = self->options.timestamped ? (int64_t)time(NULL) : 0;
    largest = largest >= now ? largest : now - 1;
    if (!status && largest == INT64_MAX)
        status = et_fail(error, ET_EUSAGE, "%s-%lld exists: no higher number is possible",
                         self->base, (long long)largest);
    *id = self->last = status ? self->last : largest + 1;
    return status;
}

static void take_name(et_exports *self, int64_t id)
{
    self->name = path_of(self, id);
    self->id = id;
}

int et_exports_next_name(et_exports *self, const char **name, et_error *error)
{
    int64_t id;
    int status = next_id(self, &id, error);
    *name = NULL;
    if (status)
        return status;
    take_name(self, id);
    *name = self->name.text;
    return ET_OK;
}

int et_exports_managed(const et_exports *self, et_value *list, et_error *error)
{
    id_list all;
    int status = find_ids(self, &all, error);
    for (size_t i = 0; !status && i < all.count; i++) {
        const et_path path = path_of(self, all.ids[i]);
        if (et_file_exists(path.text))
            et_value_add_string(list, path.text);
    }
    et_free(all.ids);
    return status || !et_value_failed(list) ? status : et_alloc_failed(error, "a list");
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info, (void)type, (void)where;
    return remove(path);
}

static int remove_tree(const char *path, et_error *error)
{
    if (!nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) || errno == ENOENT)
        return ET_OK;
    return et_fail_errno(error, "cannot remove %s", path);
}

int et_exports_clean_up(et_exports *self, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *list = et_value_list(&arena);
    int status = et_exports_managed(self, list, error);
    if (!status && list && self->max_to_keep >= 0) {
        int64_t surplus = (int64_t)list->count - self->max_to_keep;
        for (const et_value *v = list->first; !status && v && surplus-- > 0; v = v->next)
            status = remove_tree(v->string, error);
    }
    et_arena_release(&arena);
    return status;
}

/* ---- exporting ---- */

typedef struct export_content {
    int (*write_weights)(void *payload, const char *path, et_error *error);
    void *payload;
    const et_value *settings; /* NULL: none */
} export_content;

static int fill(const char *directory, const export_content *content, et_error *error)
{
    int status = et_directory_make(directory, error);
    if (!status)
        status =
            content->write_weights(content->payload, et_path_of(directory, WEIGHTS).text, error);
    if (status || !content->settings)
        return status;
    return et_json_write(et_path_of(directory, "settings.json").text, content->settings, 2, "",
                         error);
}

static bool is_made(const et_exports *self)
{
    for (size_t i = 0; i < self->made.count; i++)
        if (self->made.ids[i] == self->id)
            return true;
    return false;
}

/* True if a run was killed after the export and makes it again. */
static bool has_same_weights(const char *weights, const char *temporary)
{
    et_mapping a, b;
    bool same = false;
    if (et_mapping_open(&a, weights, NULL))
        return false;
    if (!et_mapping_open(&b, et_path_of(temporary, WEIGHTS).text, NULL)) {
        same = a.length == b.length && !memcmp(a.data, b.data, a.length);
        et_mapping_close(&b);
    }
    et_mapping_close(&a);
    return same;
}

/* Clears the path of a new export, because a number may be used again. An empty directory is
 * removed too. */
static int clear_path(const et_exports *self, const char *temporary, et_error *error)
{
    const char *name = self->name.text;
    const et_path weights = et_path_of(name, WEIGHTS);
    if (!et_file_exists(name))
        return ET_OK;
    if (et_file_exists(weights.text))
        return is_made(self) || has_same_weights(weights.text, temporary)
                   ? remove_tree(name, error)
                   : et_aside_move_path(name, error);
    return rmdir(name)
               ? et_fail(
                     error, ET_EUSAGE,
                     "%s exists and is not an export: choose another base name, or move it away",
                     name)
               : ET_OK;
}

/* Makes the directory self->name with this content; it gets its name when it is complete. A
 * directory of this name that this process made, or that has the same weights, is replaced; any
 * other is moved aside. */
static int publish(et_exports *self, const export_content *content, et_error *error)
{
    /* Removes remains of killed processes, at least an hour old, because numbers of processes on
     * other machines have no meaning here. Remains that cannot be removed are no failure. */
    DIR *directory = opendir(self->directory.text);
    const size_t length = strlen(self->base);
    for (struct dirent *entry; directory && (entry = readdir(directory)) != NULL;) {
        const char *name = entry->d_name;
        if (name[0] != '.' || strncmp(name + 1, self->base, length) ||
            strncmp(name + 1 + length, ".tmp.", 5) || !et_file_is_left_over(name))
            continue;
        struct stat info;
        const et_path path = et_path_of(self->directory.text, name);
        if (!stat(path.text, &info) && difftime(time(NULL), info.st_mtime) > 3600)
            remove_tree(path.text, NULL);
    }
    if (directory)
        closedir(directory);
    const char *name = self->name.text;
    const et_path draft = et_path_print("%.*s.%s.tmp.%ld", (int)(self->base - self->path.text),
                                        self->path.text, self->base, (long)getpid());
    int status;
    if ((status = remove_tree(draft.text, error)) || (status = fill(draft.text, content, error)) ||
        (status = et_parent_make(name, error)) || (status = clear_path(self, draft.text, error)) ||
        (rename(draft.text, name) &&
         (status = et_fail_errno(error, "cannot rename %s to %s", draft.text, name))) ||
        (status = et_parent_sync(name, error)) ||
        (!is_made(self) && (status = note_id(&self->made, self->id, error))))
        remove_tree(draft.text, NULL);
    return status;
}

typedef struct filling {
    const et_export_action *action;
    int64_t step;
} filling;

static int write_now(void *payload, const char *path, et_error *error)
{
    const filling *now = payload;
    /* The average is in the store while it is read, as in a validation. */
    const et_export_action *self = now->action;
    const et_artifact_content weights = { .params = (et_params *)self->params, .step = now->step };
    bool shown = self->optimizer && et_optimizer_show_average(self->optimizer);
    int status = et_artifact_write_weights(&weights, path, error);
    if (!status && self->module) {
        const et_path model = et_path_of(et_path_parent(path).text, MODEL);
        status = et_export_onnx(model.text, (et_params *)self->params, self->module->layout,
                                et_export_module_serve, (void *)self->module, error);
    }
    if (shown)
        et_optimizer_hide_average(self->optimizer);
    return status;
}

int et_export_now(et_export_action *self, int64_t step, const char **path, et_error *error)
{
    filling what = { self, step };
    const export_content content = { write_now, &what, self->settings };
    int status = et_exports_next_name(self->exports, path, error);
    if (!status && !(status = publish(self->exports, &content, error)))
        status = et_exports_clean_up(self->exports, error);
    return status ? et_fail_while(error, status, "exporting step %lld", (long long)step) : ET_OK;
}

static int act_export(et_action *action, const et_action_context *now, et_error *error)
{
    const char *path;
    return now->rank ? ET_OK : et_export_now((et_export_action *)action, now->step, &path, error);
}

void et_export_action_init(et_export_action *self, const char *name, et_exports *exports,
                           const et_params *params, const et_value *settings)
{
    *self = (et_export_action){ .kind = { .name = name, .act = act_export },
                                .exports = exports,
                                .params = params,
                                .settings = settings };
    self->action.class = &self->kind;
}

int et_average_export_init(et_export_action *self, const char *name, et_exports *exports,
                           et_optimizer *optimizer, et_params *params, const et_value *settings,
                           et_error *error)
{
    if (!optimizer || !et_optimizer_average(optimizer))
        return et_fail(error, ET_EUSAGE,
                       "%s: the optimizer keeps no moving average; open it with ema.enabled, or "
                       "export the trained weights",
                       name);
    et_export_action_init(self, name, exports, params, settings);
    self->optimizer = optimizer;
    return ET_OK;
}

int64_t et_exports_by_iterations(void *optimizer)
{
    return et_optimizer_iterations(optimizer);
}

/* ---- exports of checkpoints ---- */

/* An export is made from files, not from the model in training. So any process may make it at any
 * time. If the run deletes a checkpoint while the checkpoint is read, the checkpoint is skipped. */

/* From the checkpoint with the path in payload. */
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

/* Does nothing for a run without checkpoints: it has not begun, or its path is wrong. */
static int remove_swept(et_exports *self, const et_manifest *manifest, et_error *error)
{
    id_list all;
    int status = find_ids(self, &all, error);
    for (size_t i = 0; i < all.count && manifest->count && !status; i++) {
        if (is_kept(manifest, all.ids[i]))
            continue;
        take_name(self, all.ids[i]);
        status = remove_tree(self->name.text, error);
    }
    et_free(all.ids);
    return status;
}

static int export_one(et_exports *self, const char *model_dir, int64_t step,
                      const et_value *settings, et_error *error)
{
    et_path path = et_checkpoint_path(model_dir, step);
    const export_content content = { write_from, path.text, settings };
    et_error reason = ET_ERROR_INIT;
    int status = publish(self, &content, &reason);
    return status && et_file_exists(path.text) ? et_fail(error, status, "%s", reason.text) : ET_OK;
}

static int follow(et_exports *self, const char *model_dir, const et_value *settings,
                  et_error *error)
{
    et_manifest manifest;
    size_t taken_up;
    int status = et_checkpoint_list(&manifest, &taken_up,
                                    et_path_of(model_dir, ET_CHECKPOINT_FOLDER).text, false, error);
    if (status)
        return status;
    for (size_t i = 0; i < manifest.count && !status; i++) {
        if (manifest.entries[i].transient)
            continue;
        take_name(self, manifest.entries[i].step);
        if (!et_file_exists(self->name.text))
            status = export_one(self, model_dir, manifest.entries[i].step, settings, error);
    }
    if (!status)
        status = remove_swept(self, &manifest, error);
    et_manifest_release(&manifest);
    return status;
}

int et_exports_follow(et_exports *self, const char *model_dir, const et_value *settings,
                      et_error *error)
{
    int status = et_path_check(model_dir, error);
    if (!status && et_file_exists_in(model_dir, ET_CHECKPOINT_FOLDER))
        status = follow(self, model_dir, settings, error);
    return status ? et_fail_while(error, status, "exporting checkpoints of %s",
                                  model_dir ? model_dir : "a run")
                  : ET_OK;
}

static int act_follow(et_action *action, const et_action_context *now, et_error *error)
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

/* *id: -1: none. Else self has the name. */
static int find_above(et_exports *self, int64_t after, int64_t *id, et_error *error)
{
    id_list all;
    int status = find_ids(self, &all, error);
    *id = -1;
    for (size_t i = 0; i < all.count && *id < 0 && !status; i++) {
        if (all.ids[i] <= after)
            continue;
        take_name(self, all.ids[i]);
        if (et_file_exists(self->name.text))
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
        *path = !status && *id >= 0 ? self->name.text : NULL;
    return status;
}
