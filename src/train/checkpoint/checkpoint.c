/* The manager of a run's checkpoints: opens, restores and closes. checkpoint_save.c decides when
 * files are written, named and deleted; checkpoint_file.c has the bytes of one file;
 * checkpoint_find.c finds the file to read. */
#include "train/checkpoint/checkpoint.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/files/checksum.h"
#include "base/files/file.h"
#include "engine/tensor/params.h"
#include "formats/events/log_names.h"
#include "formats/safetensors/safetensors.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/checkpoint_private.h"
#include "train/checkpoint/run_names.h"

/* ---- opening ---- */

/* Order: memory, paths, lock, manifest, tensors, left-over files. */

/* Made once: names, shapes and places of arrays do not change in a run, so a save allocates
 * nothing for them. */
static int list_tensors(et_checkpoints *self, et_error *error)
{
    self->item_count = et_state_tensor_count(self->state);
    if (ET_ALLOC(self->items, self->item_count, "checkpoints", error))
        return ET_ENOMEM;
    size_t copied = 0;
    for (size_t i = 0; i < self->item_count; i++) {
        const et_state_tensor *from = et_state_tensor_at(self->state, i);
        float *data = from->cut ? NULL : from->data;
        self->items[i] = (et_safetensors_item){ from->name, { data, ET_F32, from->shape } };
        copied += from->foreign ? (size_t)et_shape_count(from->shape) : 0;
    }
    self->copies = copied ? et_alloc(copied, sizeof *self->copies) : NULL;
    return self->copies || !copied ? ET_OK : et_alloc_failed(error, "checkpoints");
}

int et_checkpoint_check_link(const char *name, et_error *error)
{
    static const char *const folders[] = { ET_CHECKPOINT_FOLDER, ET_LOGGED_TRAIN,
                                           ET_LOGGED_VALIDATION, NULL };
    et_assert(name);
    return *name && *name != '.' && !strchr(name, '/') && !et_is_one_of(name, folders)
               ? ET_OK
               : et_fail(error, ET_ECONFIG,
                         "trainer.best_checkpoint_export_subdir: \"%s\" cannot be a link to the "
                         "best checkpoint; give another name, without /",
                         name);
}

static int check_link(const et_checkpoints *self, et_error *error)
{
    struct stat info;
    const char *link = self->link.text;
    int status = *link ? et_checkpoint_check_link(self->options.best_link, error) : ET_OK;
    if (status || !*link || lstat(link, &info) || et_checkpoint_is_best_link(link))
        return status;
    return et_fail(error, ET_ECONFIG,
                   "trainer.best_checkpoint_export_subdir: %s exists, and is no link to the best "
                   "checkpoint; give another name",
                   link);
}

/* The lock comes before anything is read or swept: what lies about in the directory may be
 * another run's work in progress. */
static int prepare(et_checkpoints *self, const char *model_dir, et_error *error)
{
    int status;
    snprintf(self->model_dir.text, sizeof self->model_dir.text, "%s", model_dir);
    self->directory = et_path_of(model_dir, ET_CHECKPOINT_FOLDER);
    self->best_directory = et_path_of(model_dir, ET_CHECKPOINT_BEST);
    self->lock_path = et_path_of(self->directory.text, ET_RUN_LOCK);
    if (self->options.best_link)
        self->link = et_path_of(model_dir, self->options.best_link);
    if ((status = check_link(self, error)) ||
        (!self->internals.lock && (status = et_checkpoints_lock(&self->lock, model_dir, error))) ||
        (status = et_checkpoint_list(&self->manifest, &self->taken_up, self->directory.text, true,
                                     error)) ||
        (status = list_tensors(self, error)))
        return status;
    /* If the manifest was lost, it is unknown which checkpoints are kept forever. Then all beyond
     * the newest N are, because an extra file is better than a lost one. */
    if (self->taken_up == self->manifest.count && self->keep.hours > 0)
        for (int64_t i = 0; i < (int64_t)self->manifest.count - self->keep.newest; i++)
            self->manifest.entries[i].kept = true;
    et_manifest_sweep(self->best_directory.text);
    self->begun = self->manifest.begun;
    self->marked = self->begun > 0 && !self->manifest.count;
    return ET_OK;
}

static void wait_read(et_params_reader *reader)
{
    char *self = (char *)reader - offsetof(et_checkpoints, reader);
    et_checkpoints_wait_read((et_checkpoints *)(void *)self);
}

/* Undoes any part of open. The lock goes before the memory, after the last write. */
static void release(et_checkpoints *self)
{
    et_assert(!self->running && !self->reading);
    pthread_cond_destroy(&self->has_read);
    pthread_mutex_destroy(&self->mutex);
    if (self->lock >= 0)
        et_lock_drop(self->lock);
    et_manifest_release(&self->manifest);
    et_strbuf_release(&self->job.state);
    et_strbuf_release(&self->job.info);
    et_strbuf_release(&self->held.state);
    et_strbuf_release(&self->held.info);
    et_free(self->held.arrays);
    et_free(self->held.items);
    et_safetensors_close(self->restored);
    et_free(self->items);
    et_free(self->copies);
    et_free(self);
}

static int check_options(const char *model_dir, const et_state *state,
                         const et_checkpoint_options *options, et_error *error)
{
    if (!model_dir || !state)
        return et_fail(error, ET_EUSAGE, "checkpoints need a directory and a state");
    int status = et_path_check(model_dir, error);
    bool asks = options && options->internals && options->internals->asks;
    if (!status && et_state_ranks(state) && !asks)
        return et_fail(error, ET_EUSAGE,
                       "a state that is split over %d ranks (sharded_optimizer) can only be saved "
                       "by a run: open one",
                       et_comm_size(et_state_ranks(state)));
    if (status || !options)
        return status;
    double hours = options->keep_every_n_hours;
    return hours >= 0 && isfinite(hours)
               ? ET_OK
               : et_fail(error, ET_EUSAGE,
                         "keep_every_n_hours: %g; give a number of hours, or 0 to keep only the "
                         "newest checkpoints",
                         hours);
}

int et_checkpoints_open(et_checkpoints **out, const char *model_dir, et_state *state,
                        const et_checkpoint_options *options, et_error *error)
{
    *out = NULL;
    int status = check_options(model_dir, state, options, error);
    et_checkpoints *self = status ? NULL : et_alloc_zero(1, sizeof *self);
    if (!self)
        return status ? status : et_alloc_failed(error, "checkpoints");
    self->state = state;
    if (options)
        self->options = *options;
    if (self->options.internals)
        self->internals = *self->options.internals;
    if (!self->internals.track)
        self->internals.track = et_track_off();
    int64_t newest = self->options.max_to_keep ? self->options.max_to_keep : 5;
    self->keep = (et_checkpoint_keep){ newest < 0 ? INT64_MAX / 2 : newest,
                                       self->options.keep_every_n_hours, et_checkpoints_now(self) };
    self->writer_track = et_track_beside(self->internals.track, "saving");
    self->lock = -1;
    self->newest_step = self->line = self->best_before = -1;
    /* With default attributes these cannot fail on Linux. */
    pthread_mutex_init(&self->mutex, NULL);
    pthread_cond_init(&self->has_read, NULL);
    status = prepare(self, model_dir, error);
    if (status) {
        release(self);
        return status;
    }
    self->reader.wait = wait_read;
    if (et_state_params(state))
        et_params_add_reader(et_state_params(state), &self->reader);
    *out = self;
    return ET_OK;
}

/* Frees although the last save failed: nothing can be tried again from here. */
int et_checkpoints_close(et_checkpoints *checkpoints, et_error *error)
{
    if (!checkpoints)
        return ET_OK;
    int status = et_checkpoints_wait(checkpoints, error);
    /* For the next run, the files of a run that ends without a save are earlier work. */
    if (checkpoints->marked && !et_checkpoints_check_lock(checkpoints, NULL))
        unlink(et_path_of(checkpoints->directory.text, ET_MANIFEST_NAME).text);
    if (et_state_params(checkpoints->state))
        et_params_remove_reader(et_state_params(checkpoints->state), &checkpoints->reader);
    release(checkpoints);
    return status;
}

/* ---- restoring ---- */

/* checkpoint_find.c searches and checkpoint_file.c copies. Here the manager learns the newest step,
 * and finishes a commit that was cut off. */

/* Finishes the commit that a kill prevented, after the file was found sound: adds its checksum, and
 * removes the checkpoints that this save would have removed. */
static void commit_taken_up(et_checkpoints *self, const char *path)
{
    et_error error = ET_ERROR_INIT;
    et_mapping file;
    int status = et_mapping_open(&file, path, &error);
    if (!status) {
        self->manifest.entries[self->manifest.count - 1].checksum =
            et_checksum(file.data, file.length);
        et_mapping_close(&file);
        status = et_checkpoint_thin_out(&self->manifest, &self->keep, &error);
    }
    if (!status)
        status = et_manifest_commit(&self->manifest, self->directory.text, &error);
    if (status)
        et_log(ET_LOG_WARNING, "%s; Etude tries again at the next save", error.text);
    else
        self->taken_up = 0;
}

/* The step from which this run continues: later checkpoints are not its own work. */
static void note_line(et_checkpoints *self, int64_t line, bool resumed)
{
    self->line = line;
    self->resumed = resumed;
    self->claimed = false;
}

static et_restore_fit fit_of(const et_checkpoint_options *o)
{
    return o->partial           ? ET_RESTORE_PARTIAL
           : o->other_optimizer ? ET_RESTORE_OTHER_OPTIMIZER
                                : ET_RESTORE_STRICT;
}

/* The step of the entry with the file at path; -1: no such entry. */
static int64_t step_at(const et_manifest *manifest, const char *directory, const char *path)
{
    struct stat wanted, info;
    int64_t step = -1;
    if (stat(path, &wanted))
        return -1;
    for (size_t i = 0; i < manifest->count && step < 0; i++) {
        if (!stat(et_path_of(directory, manifest->entries[i].file).text, &info) &&
            info.st_ino == wanted.st_ino && info.st_dev == wanted.st_dev)
            step = manifest->entries[i].step;
    }
    return step;
}

int et_checkpoints_restore_at(et_checkpoints *checkpoints, const char *path, int64_t *step,
                              et_error *error)
{
    const et_manifest *manifest = &checkpoints->manifest;
    int status = et_checkpoints_wait(checkpoints, error);
    const int64_t line = step_at(manifest, checkpoints->directory.text, path);
    const bool newest = line >= 0 && line == manifest->entries[manifest->count - 1].step;
    if (!status)
        status = et_checkpoint_restore_file(checkpoints->state, path, fit_of(&checkpoints->options),
                                            step, error);
    if (!status)
        note_line(checkpoints, line, newest);
    return status;
}

int et_checkpoints_restore_named(et_checkpoints *checkpoints, const char *name, int64_t *step,
                                 et_error *error)
{
    char *path;
    if (!name || !*name)
        return et_fail(error, ET_EUSAGE, "a checkpoint to restore has no name");
    int status;
    if ((status = et_checkpoints_wait(checkpoints, error)) ||
        (status = et_checkpoint_named(&path, checkpoints->model_dir.text, name, error)))
        return status;
    status = et_checkpoints_restore_at(checkpoints, path, step, error);
    et_state_end_restore(checkpoints->state);
    et_free(path);
    return status;
}

/* If there are checkpoints, the first save reports them and sets them aside. */
int et_checkpoints_begin(et_checkpoints *checkpoints, et_error *error)
{
    if (checkpoints->line >= 0 || checkpoints->marked)
        return ET_OK;
    checkpoints->begun = et_file_clock();
    checkpoints->began = true;
    if (checkpoints->manifest.count)
        return ET_OK;
    checkpoints->manifest.begun = checkpoints->begun;
    int status = et_manifest_commit(&checkpoints->manifest, checkpoints->directory.text, error);
    checkpoints->marked = !status;
    return status;
}

double et_checkpoints_begun(const et_checkpoints *checkpoints, bool *here)
{
    *here = checkpoints->began;
    return checkpoints->begun;
}

bool et_checkpoints_resumed(const et_checkpoints *checkpoints)
{
    return checkpoints->resumed;
}

/* Entries newer than the one restored are damaged; they are set aside by the next save. Only if the
 * newest of all was sound and taken up is the manifest brought in line at once. */
int et_checkpoints_restore(et_checkpoints *checkpoints, int64_t *step, et_error *error)
{
    et_safetensors *file;
    int64_t index, found;
    et_checkpoints_end_restore(checkpoints);
    int status;
    if ((status = et_checkpoints_wait(checkpoints, error)) ||
        (status = et_checkpoint_open_newest(&file, &found, &index, &checkpoints->manifest,
                                            checkpoints->directory.text, error)))
        return status;
    et_assert(index < (int64_t)checkpoints->manifest.count);
    *step = -1;
    if (index < 0)
        return ET_OK;
    const et_path path =
        et_path_of(checkpoints->directory.text, checkpoints->manifest.entries[index].file);
    status = et_checkpoint_file_restore(checkpoints->state, file, path.text,
                                        fit_of(&checkpoints->options), error);
    checkpoints->restored = file;
    if (status || !et_state_ranks(checkpoints->state))
        et_checkpoints_end_restore(checkpoints);
    if (!status) {
        *step = checkpoints->newest_step = found;
        note_line(checkpoints, found, true);
        if (checkpoints->taken_up && index + 1 == (int64_t)checkpoints->manifest.count)
            commit_taken_up(checkpoints, path.text);
    }
    return status;
}

void et_checkpoints_end_restore(et_checkpoints *checkpoints)
{
    et_state_end_restore(checkpoints->state);
    et_safetensors_close(checkpoints->restored);
    checkpoints->restored = NULL;
}

void et_checkpoint_free_path(char *path)
{
    et_free(path);
}
