/* The manager of a run's checkpoints: it decides when files are written, named and deleted.
 * checkpoint_write.c has the work of the writing thread, checkpoint_file.c the bytes of one file,
 * checkpoint_find.c finds the file to read.
 *
 * There are two threads: the caller's and, during a save, one that writes. The job passes from one
 * to the other:
 *
 *   caller: print_state -> start ------ trains on ------ wait_read --- update --- ... wait (joins)
 *   thread:                  \-- arrays to the draft -- stop_reading -- fsync, commit, delete --/
 *
 * Invariants:
 *
 *   (1) at most one save is in progress: each save first waits for the previous one;
 *   (2) between start and join only the thread uses job, manifest and taken_up. The caller reads
 *       only kind and step of them, which the thread does not change. Both use the lock under
 *       the mutex;
 *   (3) `reading` is true from start until the thread has read the arrays, and the thread sets
 *       it to false on every path, so no caller waits forever;
 *   (4) the manifest (or info.json) names a file only when the file is complete and durable, and
 *       a file is deleted only when no durable manifest (or info.json) names it.
 *
 * The arrays of the best step stay unchanged until its checkpoint is durable. If that save fails,
 * it is tried once more while the arrays are still those of the best step.
 *
 * The state is not copied, because a copy needs three to four times the memory of the weights, and
 * a step only reads the state until its update. Exceptions: arrays of the program, and the best of
 * a small state while it is held in memory.
 *
 * If each rank has a part of the state, the caller writes the draft itself with the parts that the
 * other ranks send, and the thread does the rest. */
#include "train/checkpoint/checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/files/checksum.h"
#include "base/files/file.h"
#include "base/threads/thread.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "engine/comm/comm.h"
#include "engine/tensor/params.h"
#include "formats/events/log_names.h"
#include "formats/safetensors/safetensors.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/checkpoint_private.h"
#include "train/checkpoint/run_names.h"

/* What a save does, in order; a kill between any two leaves the directory usable:
 *
 *     caller  state to text                                (nothing on disk)
 *     thread  ckpt-N.safetensors.tmp.PID                   (until here the arrays must not change)
 *     thread  fsync, rename                                (complete, not yet named)
 *     thread  checkpoint.json replaced                     (N exists; older ones leave)
 *     thread  files that left are deleted
 *
 * A complete file that no manifest names is taken up at the next opening, so no finished work
 * is lost and no orphan stays. The best one is kept the same way, with info.json as the name. */

/* ---- opening ---- */

/* Order: memory, paths, lock, manifest, tensors, left-over files. */

/* Made once: names, shapes and places of arrays do not change in a run, so a save allocates
 * nothing for them. */
static int list_tensors(et_checkpoints *self, et_error *error)
{
    self->item_count = et_state_tensor_count(self->state);
    self->items = et_alloc(self->item_count, sizeof *self->items);
    if (!self->items)
        return et_alloc_failed(error, self->item_count * sizeof *self->items, "checkpoints");
    size_t copied = 0;
    for (size_t i = 0; i < self->item_count; i++) {
        const et_state_tensor *from = et_state_tensor_at(self->state, i);
        float *data = from->cut ? NULL : from->data;
        self->items[i] = (et_safetensors_item){ from->name, { data, ET_F32, from->shape } };
        copied += from->foreign ? (size_t)et_shape_count(from->shape) : 0;
    }
    self->copies = copied ? et_alloc(copied, sizeof *self->copies) : NULL;
    return self->copies || !copied
               ? ET_OK
               : et_alloc_failed(error, copied * sizeof *self->copies, "checkpoints");
}

/* Paths made before a failure are freed by release. */
static int make_paths(et_checkpoints *self, const char *model_dir, et_error *error)
{
    self->model_dir = et_strdup(model_dir);
    self->directory = et_path_join(model_dir, ET_CHECKPOINT_FOLDER);
    self->best_directory = et_path_join(model_dir, ET_CHECKPOINT_BEST);
    if (self->directory)
        self->lock_path = et_path_join(self->directory, ET_RUN_LOCK);
    if (self->options.best_link)
        self->link = et_path_join(model_dir, self->options.best_link);
    if (!self->model_dir || !self->lock_path || !self->best_directory ||
        (self->options.best_link && !self->link))
        return et_alloc_failed(error, strlen(model_dir), "a path");
    return ET_OK;
}

int et_checkpoint_check_link(const char *name, et_error *error)
{
    static const char *const folders[] = { ET_CHECKPOINT_FOLDER, ET_LOGGED_TRAIN,
                                           ET_LOGGED_VALIDATION, NULL };
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
    int status = self->link ? et_checkpoint_check_link(self->options.best_link, error) : ET_OK;
    if (status || !self->link || lstat(self->link, &info) || et_checkpoint_is_best_link(self->link))
        return status;
    return et_fail(error, ET_ECONFIG,
                   "trainer.best_checkpoint_export_subdir: %s exists, and is no link to the best "
                   "checkpoint; give another name",
                   self->link);
}

/* The lock comes before anything is read or swept: what lies about in the directory may be
 * another run's work in progress. */
static int prepare(et_checkpoints *self, const char *model_dir, et_error *error)
{
    int status;
    if ((status = make_paths(self, model_dir, error)) || (status = check_link(self, error)) ||
        (!self->inside.lock && (status = et_checkpoints_lock(&self->lock, model_dir, error))) ||
        (status =
             et_checkpoint_list(&self->manifest, &self->taken_up, self->directory, true, error)) ||
        (status = list_tensors(self, error)))
        return status;
    /* If the manifest was lost, it is unknown which checkpoints are kept forever. Then all beyond
     * the newest N are, because an extra file is better than a lost one. */
    if (self->taken_up == self->manifest.count && self->keep.hours > 0)
        for (int64_t i = 0; i < (int64_t)self->manifest.count - self->keep.newest; i++)
            self->manifest.entries[i].kept = true;
    et_manifest_sweep(self->best_directory);
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
    et_free(self->job.path);
    et_free(self->model_dir);
    et_free(self->directory);
    et_free(self->best_directory);
    et_free(self->lock_path);
    et_free(self->link);
    et_free(self);
}

static int check_options(const char *model_dir, const et_state *state,
                         const et_checkpoint_options *options, et_error *error)
{
    if (!model_dir || !state)
        return et_fail(error, ET_EUSAGE, "checkpoints need a directory and a state");
    int status = et_path_check(model_dir, error);
    bool asks = options && options->inside && options->inside->asks;
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
        return status ? status : et_alloc_failed(error, sizeof *self, "checkpoints");
    self->state = state;
    if (options)
        self->options = *options;
    if (self->options.inside)
        self->inside = *self->options.inside;
    if (!self->inside.track)
        self->inside.track = et_track_off();
    int64_t newest = self->options.max_to_keep ? self->options.max_to_keep : 5;
    self->keep = (et_checkpoint_keep){ newest < 0 ? INT64_MAX / 2 : newest,
                                       self->options.keep_every_n_hours, et_checkpoints_now(self) };
    self->writer_track = et_track_beside(self->inside.track, "saving");
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
    if (checkpoints->marked) {
        /* For the next run, the files of a run that ends without a save are earlier work. */
        char *path = et_path_join(checkpoints->directory, ET_MANIFEST_NAME);
        if (path && !et_checkpoints_check_lock(checkpoints, NULL))
            unlink(path);
        et_free(path);
    }
    if (et_state_params(checkpoints->state))
        et_params_remove_reader(et_state_params(checkpoints->state), &checkpoints->reader);
    release(checkpoints);
    return status;
}

/* ---- saving, in the caller ---- */

/* Short: the state's text and a thread. What takes long is the thread's. */

/* The tree as one line of JSON, into memory that is kept from save to save. It is printed by the
 * caller, before the thread starts: the small values change with every step, and they are few. */
static int print_state(et_checkpoints *self, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *tree;
    int status = et_state_save(self->state, &tree, &arena, error);
    et_strbuf_reset(&self->job.state);
    if (!status && et_value_failed(tree))
        status = et_alloc_failed(error, 0, "the state's text");
    if (!status)
        et_json_print(&self->job.state, tree, 0);
    et_arena_release(&arena);
    if (!status && self->job.state.failed)
        status = et_alloc_failed(error, self->job.state.length, "the state's text");
    return status;
}

/* Numbers and truth values, and null for a number that is not finite; no lists and texts. */
static int copy_numbers(et_value *to, const et_value *from, et_error *error)
{
    int status = ET_OK;
    for (const et_value *v = from->first; v && !status; v = v->next) {
        if (v->kind == ET_VALUE_LIST || v->kind == ET_VALUE_STRING)
            continue;
        et_value *copy = v->kind == ET_VALUE_DICT ? et_value_set_dict(to, v->key)
                                                  : et_value_set_copy(to, v->key, v);
        status = !copy                      ? et_alloc_failed(error, 0, ET_CHECKPOINT_INFO)
                 : v->kind == ET_VALUE_DICT ? copy_numbers(copy, v, error)
                                            : ET_OK;
    }
    return status;
}

/* The metrics of validation with the step under ET_CHECKPOINT_STEP (added last, so that it wins
 * over a metric of that name), indented for people to read. */
static int print_info(et_checkpoints *self, int64_t step, const et_value *metrics, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *info = et_value_dict(&arena);
    int status =
        info ? copy_numbers(info, metrics, error) : et_alloc_failed(error, 0, ET_CHECKPOINT_INFO);
    if (!status && !et_value_set_int(info, ET_CHECKPOINT_STEP, step))
        status = et_alloc_failed(error, 0, ET_CHECKPOINT_INFO);
    et_strbuf_reset(&self->job.info);
    if (!status) {
        et_json_print(&self->job.info, info, 4);
        et_strbuf_append_char(&self->job.info, '\n');
    }
    et_arena_release(&arena);
    if (!status && self->job.info.failed)
        status = et_alloc_failed(error, self->job.info.length, ET_CHECKPOINT_INFO);
    return status;
}

/* Call before writing over files that are not this run's, or after a step to which the run has gone
 * back. */
static int claim(et_checkpoints *self, int64_t step, et_error *error)
{
    if (self->claimed && step >= self->line)
        return ET_OK;
    self->line = step < self->line ? step : self->line;
    int status = et_checkpoints_set_aside(&self->manifest, self->directory, self->line, error);
    self->claimed = !status;
    return status;
}

/* reading: the thread reads the state's arrays. */
static int launch(et_checkpoints *self, bool reading, et_error *error)
{
    self->reading = reading;
    self->ended = false;
    int status = et_thread_start(&self->thread, et_checkpoints_run_job, self, error);
    if (status) {
        self->reading = false;
        if (self->job.drafted)
            et_file_writer_abandon(&self->job.writer);
        self->job.drafted = false;
    }
    self->running = !status;
    if (!status && self->inside.waits) {
        et_thread_join(self->thread);
        self->joined = true;
    }
    return status;
}

/* Text of the small values first; the thread reads the arrays where they are. `reading` is set
 * before the thread exists, so that a wait right after cannot miss it. */
static int start(et_checkpoints *self, int64_t step, int kind, et_error *error)
{
    int status;
    if ((status = et_checkpoints_check_lock(self, error)) ||
        (kind != ET_SAVE_BEST && (status = claim(self, step, error))) ||
        (status = print_state(self, error)))
        return status;
    et_assert(!self->running && !self->reading);
    self->job.kind = kind;
    self->job.step = step;
    self->job.status = ET_OK;
    self->job.error = (et_error)ET_ERROR_INIT;
    /* Copies data outside stores, which may change without a wait. */
    float *to = self->copies;
    for (size_t i = 0; i < self->item_count; i++) {
        const et_state_tensor *from = et_state_tensor_at(self->state, i);
        if (!from->foreign)
            continue;
        const size_t count = (size_t)et_shape_count(from->shape);
        memcpy(to, from->data, count * sizeof *to);
        self->items[i].tensor.data = to;
        to += count;
    }
    self->job.items = self->items;
    status = et_state_ranks(self->state) ? et_checkpoints_draft(self, error) : ET_OK;
    return status ? status : launch(self, !self->job.drafted, error);
}

static const et_activity read_activity = { .name = "save has read", .kind = "waiting for a save" };

/* A wait that ends at once costs a lock; only a real one is a span in the trace. */
void et_checkpoints_wait_read(et_checkpoints *checkpoints)
{
    if (!checkpoints || !checkpoints->running)
        return;
    pthread_mutex_lock(&checkpoints->mutex);
    if (checkpoints->reading) {
        et_track_begin(checkpoints->inside.track, &read_activity, checkpoints->job.step);
        while (checkpoints->reading)
            pthread_cond_wait(&checkpoints->has_read, &checkpoints->mutex);
        et_track_end(checkpoints->inside.track);
    }
    pthread_mutex_unlock(&checkpoints->mutex);
}

/* The caller's part: while a thread runs, job, manifest and best_before belong to the thread. */
static void sane(const et_checkpoints *self)
{
    et_assert(self->state && self->directory && self->best_directory);
    et_assert(self->running || !self->joined);
    et_assert(self->newest_step >= -1 && self->line >= -1);
    et_assert(self->running || self->best_before >= -1);
    et_assert(self->running || self->taken_up <= self->manifest.count);
    et_assert(self->running || !self->reading);
    et_assert(self->begun >= 0);
    et_assert_equal(self->item_count, et_state_tensor_count(self->state));
}

bool et_checkpoints_saving(const et_checkpoints *checkpoints)
{
    return checkpoints->running;
}

/* Cheap, for it is asked between any two steps. */
bool et_checkpoints_ended(et_checkpoints *checkpoints)
{
    if (!checkpoints->running)
        return false;
    pthread_mutex_lock(&checkpoints->mutex);
    bool ended = checkpoints->ended;
    pthread_mutex_unlock(&checkpoints->mutex);
    return ended;
}

/* The error is returned once: the job is no longer running, so the next call has nothing to say.
 * newest_step moves only when its checkpoint is durable. */
int et_checkpoints_wait(et_checkpoints *checkpoints, et_error *error)
{
    if (!checkpoints->running)
        return ET_OK;
    if (!checkpoints->joined)
        et_thread_join(checkpoints->thread);
    checkpoints->running = checkpoints->joined = false;
    if (checkpoints->job.status)
        return et_fail(error, checkpoints->job.status,
                       checkpoints->job.kind == ET_SAVE_BEST ? ET_SAVING_BEST ": %s"
                                                             : "saving step %" PRId64 ": %s",
                       checkpoints->job.step, checkpoints->job.error.text);
    if (checkpoints->job.kind != ET_SAVE_BEST)
        checkpoints->newest_step = checkpoints->job.step;
    return ET_OK;
}

static int check_step(int64_t step, et_error *error)
{
    return step >= 0
               ? ET_OK
               : et_fail(error, ET_ECONFIG, "step %lld: steps are counted from 0", (long long)step);
}

/* A failed save before this one is reported in its place and this one is not begun. */
static int save(et_checkpoints *checkpoints, int64_t step, int kind, et_error *error)
{
    sane(checkpoints);
    int status = check_step(step, error);
    if (!status)
        status = et_checkpoints_wait(checkpoints, error);
    return status ? status : start(checkpoints, step, kind, error);
}

int et_checkpoints_save(et_checkpoints *checkpoints, int64_t step, et_error *error)
{
    return save(checkpoints, step, ET_SAVE_NEWEST, error);
}

int et_checkpoints_save_transient(et_checkpoints *checkpoints, int64_t step, et_error *error)
{
    return save(checkpoints, step, ET_SAVE_TRANSIENT, error);
}

int et_checkpoints_save_best(et_checkpoints *checkpoints, int64_t step, const et_value *metrics,
                             et_error *error)
{
    sane(checkpoints);
    int status = check_step(step, error);
    if (status)
        return status;
    if (!metrics || metrics->kind != ET_VALUE_DICT)
        return et_fail(error, ET_EUSAGE,
                       "the best checkpoint of step %lld: its metrics are not a dict",
                       (long long)step);
    if ((status = et_checkpoints_wait(checkpoints, error)) ||
        (status = print_info(checkpoints, step, metrics, error)))
        return status;
    et_error reason = ET_ERROR_INIT;
    status = start(checkpoints, step, ET_SAVE_BEST, &reason);
    /* If the state is in parts, wait for the end: after a failure, the other ranks send their parts
     * once more. */
    if (!status && et_state_ranks(checkpoints->state)) {
        status = et_checkpoints_wait(checkpoints, NULL);
        reason = checkpoints->job.error;
    }
    if (et_checkpoints_tries_again(step, status, &reason))
        status = start(checkpoints, step, ET_SAVE_BEST, &reason);
    return status ? et_fail(error, status, ET_SAVING_BEST ": %s", step, reason.text) : ET_OK;
}

/* ---- a best in memory ---- */

static size_t elements(const et_checkpoints *self)
{
    size_t count = 0;
    for (size_t i = 0; i < self->item_count; i++)
        count += (size_t)et_shape_count(self->items[i].tensor.shape);
    return count;
}

static void swap_texts(et_checkpoints *self)
{
    const et_strbuf state = self->job.state, info = self->job.info;
    self->job.state = self->held.state;
    self->job.info = self->held.info;
    self->held.state = state;
    self->held.info = info;
}

bool et_checkpoints_may_hold(const et_checkpoints *checkpoints)
{
    return !et_state_ranks(checkpoints->state) && !checkpoints->inside.waits &&
           elements(checkpoints) <= ET_CHECKPOINT_HELD_MAX;
}

int et_checkpoints_hold_best(et_checkpoints *checkpoints, int64_t step, const et_value *metrics,
                             et_error *error)
{
    sane(checkpoints);
    et_assert(et_checkpoints_may_hold(checkpoints));
    int status = check_step(step, error);
    if (!status)
        status = et_checkpoints_wait(checkpoints, error);
    if (!status) {
        et_checkpoint_held *held = &checkpoints->held;
        const size_t count = elements(checkpoints);
        if (!held->arrays)
            held->arrays = et_alloc(count, sizeof *held->arrays);
        if (!held->items)
            held->items = et_alloc(checkpoints->item_count, sizeof *held->items);
        status = held->arrays && held->items
                     ? ET_OK
                     : et_alloc_failed(error, count * sizeof *held->arrays, "the best checkpoint");
    }
    if (!status)
        status = print_info(checkpoints, step, metrics, error);
    if (!status)
        status = print_state(checkpoints, error);
    if (status)
        return status;
    float *to = checkpoints->held.arrays;
    for (size_t i = 0; i < checkpoints->item_count; i++) {
        const et_state_tensor *from = et_state_tensor_at(checkpoints->state, i);
        const size_t count = (size_t)et_shape_count(from->shape);
        memcpy(to, from->data, count * sizeof *to);
        checkpoints->held.items[i] = checkpoints->items[i];
        checkpoints->held.items[i].tensor.data = to;
        to += count;
    }
    swap_texts(checkpoints);
    checkpoints->held.step = step;
    checkpoints->held.full = true;
    return ET_OK;
}

static int start_held(et_checkpoints *self, et_error *error)
{
    int status = et_checkpoints_check_lock(self, error);
    if (status)
        return status;
    self->job.kind = ET_SAVE_BEST;
    self->job.step = self->held.step;
    self->job.status = ET_OK;
    self->job.error = (et_error)ET_ERROR_INIT;
    self->job.items = self->held.items;
    return launch(self, false, error);
}

int et_checkpoints_save_held(et_checkpoints *checkpoints, et_error *error)
{
    const int64_t step = checkpoints->held.step;
    et_error reason = ET_ERROR_INIT;
    sane(checkpoints);
    et_assert(checkpoints->held.full);
    int status = et_checkpoints_wait(checkpoints, error);
    if (status)
        return status;
    checkpoints->held.full = false;
    swap_texts(checkpoints);
    status = start_held(checkpoints, &reason);
    if (et_checkpoints_tries_again(step, status, &reason))
        status = start_held(checkpoints, &reason);
    return status ? et_fail(error, status, ET_SAVING_BEST ": %s", step, reason.text) : ET_OK;
}

bool et_checkpoints_has_best(const et_checkpoints *checkpoints, int64_t step)
{
    char *path =
        et_checkpoint_file_path(checkpoints->best_directory, ET_CHECKPOINT_BEST_PREFIX, step);
    const bool has =
        !path || (et_checkpoints_best_step(checkpoints) == step && et_file_exists(path));
    et_free(path);
    return has;
}

void et_checkpoints_replace_best(et_checkpoints *checkpoints, int64_t step)
{
    et_assert(!checkpoints->running);
    checkpoints->best_before = step;
}

/* The arrays alone: head and state tree are small in comparison. */
int et_checkpoints_check_space(const et_checkpoints *checkpoints, et_error *error)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < checkpoints->item_count; i++)
        bytes += et_tensor_bytes(checkpoints->items[i].tensor);
    int status = et_disk_check(checkpoints->directory, bytes, error);
    if (!status)
        status = et_file_limit_check(checkpoints->directory, bytes, error);
    return status ? et_fail_while(error, status, "space for a checkpoint") : ET_OK;
}

/* A save in progress counts already: callers ask whether to save this step again. */
int64_t et_checkpoints_newest_step(const et_checkpoints *checkpoints)
{
    bool saving = checkpoints->running && checkpoints->job.kind != ET_SAVE_BEST;
    return saving ? checkpoints->job.step : checkpoints->newest_step;
}

/* ---- restoring ---- */

/* checkpoint_find.c searches and checkpoint_file.c copies. Here the manager learns the newest step,
 * and finishes a commit that was cut off. */

/* Finishes the commit that a kill prevented, now that the file is known to be sound: it gets its
 * checksum, and what that save would have let go goes. */
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
        status = et_manifest_commit(&self->manifest, self->directory, &error);
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
        char *entry = et_path_join(directory, manifest->entries[i].file);
        if (entry && !stat(entry, &info) && info.st_ino == wanted.st_ino &&
            info.st_dev == wanted.st_dev)
            step = manifest->entries[i].step;
        et_free(entry);
    }
    return step;
}

int et_checkpoints_restore_at(et_checkpoints *checkpoints, const char *path, int64_t *step,
                              et_error *error)
{
    const et_manifest *manifest = &checkpoints->manifest;
    int status = et_checkpoints_wait(checkpoints, error);
    const int64_t line = step_at(manifest, checkpoints->directory, path);
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
    int status = et_checkpoints_wait(checkpoints, error);
    if (!status)
        status = et_checkpoint_named(&path, checkpoints->model_dir, name, error);
    if (status)
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
    int status = et_manifest_commit(&checkpoints->manifest, checkpoints->directory, error);
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
    int status = et_checkpoints_wait(checkpoints, error);
    if (!status)
        status = et_checkpoint_open_newest(&file, &found, &index, &checkpoints->manifest,
                                           checkpoints->directory, error);
    if (status)
        return status;
    et_assert(index < (int64_t)checkpoints->manifest.count);
    *step = -1;
    if (index < 0)
        return ET_OK;
    char *path = et_path_join(checkpoints->directory, checkpoints->manifest.entries[index].file);
    status = path ? et_checkpoint_file_restore(checkpoints->state, file, path,
                                               fit_of(&checkpoints->options), error)
                  : et_alloc_failed(error, strlen(checkpoints->directory), "a path");
    checkpoints->restored = file;
    if (status || !et_state_ranks(checkpoints->state))
        et_checkpoints_end_restore(checkpoints);
    if (!status) {
        *step = checkpoints->newest_step = found;
        note_line(checkpoints, found, true);
        if (checkpoints->taken_up && index + 1 == (int64_t)checkpoints->manifest.count)
            commit_taken_up(checkpoints, path);
    }
    et_free(path);
    return status;
}

void et_checkpoints_end_restore(et_checkpoints *checkpoints)
{
    et_state_end_restore(checkpoints->state);
    et_safetensors_close(checkpoints->restored);
    checkpoints->restored = NULL;
}

/* Whether a run at a step does not go back to it. */
static bool is_passed_over(const et_manifest_entry *entry, int64_t step)
{
    return entry->transient || entry->step > step;
}

int et_checkpoints_drop_newer(et_checkpoints *checkpoints, int64_t step, et_error *error)
{
    et_manifest *manifest = &checkpoints->manifest;
    int status = et_checkpoints_wait(checkpoints, error);
    size_t before = manifest->count;
    if (!status)
        status = claim(checkpoints, step, error);
    while (!status && manifest->count > 1 &&
           is_passed_over(&manifest->entries[manifest->count - 1], step))
        status = et_manifest_remove(manifest, manifest->count - 1, error);
    int64_t newest = manifest->count ? manifest->entries[manifest->count - 1].step : step;
    if (!status && newest > step)
        return et_fail(error, ET_EDIVERGED,
                       "%s: the only checkpoint is of step %lld, later than step %lld: there is no "
                       "checkpoint to go back to",
                       checkpoints->directory, (long long)newest, (long long)step);
    if (status || manifest->count == before)
        return status;
    checkpoints->newest_step = newest;
    return et_manifest_commit(manifest, checkpoints->directory, error);
}

void et_checkpoint_free_path(char *path)
{
    et_free(path);
}
