/* Saves of a run's checkpoints: the lock, the checkpoints that are kept or moved aside, and a save
 * in its two threads.
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
#include "train/checkpoint/checkpoint_private.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/aside.h"
#include "base/files/file.h"
#include "base/threads/thread.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "base/vector.h"
#include "engine/comm/comm.h"
#include "formats/safetensors/safetensors.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/run_names.h"
#include "train/checkpoint/state.h"

/* ---- the lock ---- */

/* The lock is a file in the checkpoints' folder, so the folder is made first. It is the kernel's
 * lock on an open file, so a killed run leaves no lock. */
int et_checkpoints_lock(int *lock, const char *model_dir, et_error *error)
{
    *lock = -1;
    const et_path directory = et_path_of(model_dir, ET_CHECKPOINT_FOLDER);
    int status = et_directory_make(directory.text, error);
    if (!status)
        status = et_lock_take(lock, et_path_of(directory.text, ET_RUN_LOCK).text, error);
    if (status != ET_EBUSY || !error || !(et_comm_by_launch() || et_comm_by_mpi()))
        return status;
    /* Only one of the ranks that share a run takes it. */
    const et_error taken = *error;
    return et_fail(error, ET_EBUSY,
                   "%s; if this is another rank of the same program, give its loop, trainer or "
                   "controller the comm (<etude/comm.h>)",
                   taken.text);
}

/* With the folder, if that is gone too: the state in memory is still a run. */
int et_checkpoints_check_lock(et_checkpoints *checkpoints, et_error *error)
{
    int *lock = checkpoints->internals.lock ? checkpoints->internals.lock : &checkpoints->lock;
    pthread_mutex_lock(&checkpoints->mutex);
    int status = et_lock_check(lock, checkpoints->lock_path.text, error);
    if (status == ET_ENOTFOUND && !(status = et_directory_make(checkpoints->directory.text, error)))
        status = et_lock_check(lock, checkpoints->lock_path.text, error);
    pthread_mutex_unlock(&checkpoints->mutex);
    return status;
}

/* ---- which are kept ---- */

/* With N = 2: 100 200p 300 400 -> 300 400, and 100 200 250p -> 100 200 250p. A transient checkpoint
 * (p) is never counted, so the newest one stays in addition to the N. */

/* Whether a checkpoint that falls out stays for good. */
static bool keep_for_good(et_manifest *manifest, et_manifest_entry *entry,
                          const et_checkpoint_keep *keep)
{
    if (keep->hours <= 0 || entry->time - manifest->kept_time < 3600 * keep->hours)
        return false;
    entry->kept = true;
    manifest->kept_time = entry->time;
    return true;
}

int et_checkpoint_thin_out(et_manifest *manifest, const et_checkpoint_keep *keep, et_error *error)
{
    et_assert(manifest->count > 0 && keep->newest >= 1);
    int status = ET_OK;
    /* The hours begin when the manager was opened; a clock that was set back begins anew. */
    const double now = manifest->entries[manifest->count - 1].time;
    if (keep->hours > 0 && manifest->kept_time <= 0)
        manifest->kept_time = keep->opened;
    if (keep->hours > 0 && now < manifest->kept_time)
        manifest->kept_time = now;
    for (size_t i = 0; !status && i + 1 < manifest->count;)
        if (manifest->entries[i].transient)
            status = et_manifest_remove(manifest, i, error);
        else
            i++;
    int64_t beyond = -keep->newest; /* how many of the newest N are too many */
    for (size_t i = 0; i < manifest->count; i++)
        beyond += !manifest->entries[i].transient && !manifest->entries[i].kept;
    for (size_t i = 0; !status && beyond > 0;) {
        et_manifest_entry *entry = &manifest->entries[i];
        bool counts = !entry->kept;
        beyond -= counts;
        if (!counts || keep_for_good(manifest, entry, keep))
            i++;
        else
            status = et_manifest_remove(manifest, i, error);
    }
    return status;
}

/* ---- moving aside ---- */

/* Checkpoints from which the run does not resume, or the best of these, are moved aside before the
 * run writes. */

/* Names, owned. */
typedef struct names {
    char **items;
    size_t count, capacity;
    bool failed; /* no memory for one of them */
} names;

static void add_name(names *n, const char *name)
{
    char *copy = ET_VECTOR_GROW(n->items, n->capacity, n->count + 1) ? et_strdup(name) : NULL;
    n->failed |= !copy;
    if (copy)
        n->items[n->count++] = copy;
}

static int check_names(const names *n, et_error *error)
{
    return n->failed ? et_alloc_failed(error, "names of files") : ET_OK;
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

/* Call before writing over files that are not this run's, or after a step to which the run has gone
 * back. Moves aside the checkpoints after self->line (-1: all), except those that this process has
 * written (base/files/aside.h). The manifest's next commit drops their names. */
static int claim(et_checkpoints *self, int64_t step, et_error *error)
{
    if (self->claimed && step >= self->line)
        return ET_OK;
    self->line = step < self->line ? step : self->line;
    et_manifest *manifest = &self->manifest;
    names n = { 0 };
    for (size_t i = 0; i < manifest->count; i++) {
        const et_manifest_entry *entry = &manifest->entries[i];
        if (entry->step > self->line && !entry->own)
            add_name(&n, entry->file);
    }
    /* And files without an entry, such as copies: a save of their step would replace them. */
    DIR *stream = opendir(self->directory.text);
    int status =
        stream ? ET_OK : et_fail_errno(error, "cannot read the directory %s", self->directory.text);
    for (const struct dirent *item; stream && (item = readdir(stream)) != NULL;) {
        const char *name = item->d_name;
        if (step_of(name, ET_CHECKPOINT_PREFIX) > self->line &&
            !et_manifest_lists(manifest, name) && !et_manifest_leaves(manifest, name))
            add_name(&n, name);
    }
    if (stream)
        closedir(stream);
    if (!status)
        status = check_names(&n, error);
    if (!status && n.count)
        status = et_aside_link(self->directory.text, (const char *const *)n.items, n.count, error);
    for (size_t i = 0; i < n.count && !status; i++)
        status = et_manifest_leave(manifest, n.items[i], error);
    release_names(&n);
    self->claimed = !status;
    return status;
}

/* Everything in best/, if there is a best checkpoint. */
static int set_best_aside(const char *best_directory, et_error *error)
{
    names n = { 0 };
    DIR *stream = opendir(best_directory);
    int status = stream || errno == ENOENT
                     ? ET_OK
                     : et_fail_errno(error, "cannot read the directory %s", best_directory);
    for (const struct dirent *item; stream && (item = readdir(stream)) != NULL;)
        if (!strcmp(item->d_name, ET_CHECKPOINT_INFO) ||
            step_of(item->d_name, ET_CHECKPOINT_BEST_PREFIX) >= 0)
            add_name(&n, item->d_name);
    if (stream)
        closedir(stream);
    if (!status)
        status = check_names(&n, error);
    if (!status && n.count)
        status = et_aside_move(best_directory, (const char *const *)n.items, n.count, error);
    release_names(&n);
    return status;
}

/* ---- writing, in the thread ---- */

/* The steps of a save, in order; a kill between two steps leaves the directory usable:
 *
 *     caller  state to text                                (nothing on disk)
 *     thread  ckpt-N.safetensors.tmp.PID                   (until here the arrays must not change)
 *     thread  fsync, rename                                (complete, not yet named)
 *     thread  checkpoint.json replaced                     (N exists; older ones leave)
 *     thread  files that left are deleted
 *
 * A complete file that no manifest names is taken up at the next opening, so no finished work
 * is lost and no orphan stays. The best one is kept the same way, with info.json as the name. */

/* Everything here runs while training continues. It may read the arrays of self->items until
 * stop_reading. The only value that it writes and that the caller reads before the join is
 * `reading`. */

/* After a failed commit: back to the manifest on disk. Its text, not ours, decides whether the new
 * file exists. If it can't be read either, ours stays as it is; the next commit or the next opening
 * settles it. */
static void roll_back(et_checkpoints *self, const char *path)
{
    et_manifest old;
    size_t taken_up;
    et_error error = ET_ERROR_INIT;
    int status = et_manifest_load(&old, self->directory.text, &error);
    if (!status && !et_manifest_lists(&old, et_path_base(path)))
        unlink(path);
    if (!status) {
        et_manifest_release(&old);
        status = et_checkpoint_list(&old, &taken_up, self->directory.text, true, &error);
    }
    if (status) {
        et_log(ET_LOG_WARNING, "%s", error.text);
        return;
    }
    et_manifest_release(&self->manifest);
    self->manifest = old;
    self->taken_up = taken_up;
    self->claimed = false;
    self->marked &= !old.count;
}

/* Names the new file and drops checkpoints that are too old, in one replacement of the manifest. */
static int commit(et_checkpoints *self, const char *path, const et_safetensors_written *written,
                  et_error *error)
{
    et_assert(self->job.kind != ET_SAVE_BEST);
    et_manifest *manifest = &self->manifest;
    et_manifest_entry entry = { .step = self->job.step,
                                .time = et_checkpoints_now(self),
                                .bytes = written->bytes,
                                .checksum = written->checksum,
                                .transient = self->job.kind == ET_SAVE_TRANSIENT,
                                .own = true };
    snprintf(entry.file, sizeof entry.file, "%s", et_path_base(path));
    int status = et_checkpoints_check_lock(self, error);
    if (status)
        return status;
    status = et_manifest_add(manifest, &entry, error);
    if (!status)
        status = et_checkpoint_thin_out(manifest, &self->keep, error);
    manifest->begun = self->begun;
    if (!status)
        status = et_manifest_commit(manifest, self->directory.text, error);
    if (status)
        roll_back(self, path);
    self->marked &= status != ET_OK;
    return status;
}

/* Called twice in a save that succeeds; the second time changes nothing. */
static void stop_reading(et_checkpoints *self)
{
    pthread_mutex_lock(&self->mutex);
    self->reading = false;
    pthread_cond_signal(&self->has_read);
    pthread_mutex_unlock(&self->mutex);
}

static int read_parts(void *self, size_t item, et_safetensors_take_fn *take, void *payload,
                      et_error *error)
{
    return et_tensor_shards_read(((et_checkpoints *)self)->state, item, take, payload, error);
}

static int draft_job(et_checkpoints *self, et_error *error)
{
    et_checkpoint_job *work = &self->job;
    bool best = work->kind == ET_SAVE_BEST;
    const et_safetensors_reader reader = { read_parts, self };
    int status = best ? et_directory_make(self->best_directory.text, error) : ET_OK;
    if (status)
        return status;
    work->path = et_checkpoint_file_path(best ? self->best_directory.text : self->directory.text,
                                         best ? ET_CHECKPOINT_BEST_PREFIX : ET_CHECKPOINT_PREFIX,
                                         work->step);
    status = et_checkpoint_file_draft(&work->writer, &work->written, work->path.text, work->items,
                                      self->item_count, &reader, work->step,
                                      et_strbuf_text(&work->state), error);
    work->drafted = !status;
    return status;
}

/* The disk is waited for when the arrays may change again: writing goes to the page cache at the
 * speed of memory, fsync takes as long as the disk does. Behind it, nothing gets a name where
 * another process has taken the lock meanwhile. */
static int write_file(et_checkpoints *self, et_error *error)
{
    et_checkpoint_job *work = &self->job;
    int status = work->drafted ? ET_OK : draft_job(self, error);
    if (work->kind != ET_SAVE_BEST)
        stop_reading(self);
    if (status)
        return status;
    work->drafted = false;
    status = et_file_writer_sync(&work->writer, error);
    if (!status)
        status = et_checkpoints_check_lock(self, error);
    return et_file_writer_end(&work->writer, status, error);
}

/* A failed save leaves no trace: a file that got its name and could not be named by the manifest,
 * or made durable, is removed, unless another process works here by now. */
static int write_newest(et_checkpoints *self, et_error *error)
{
    int status = write_file(self, error);
    const char *path = self->job.path.text, *file = et_path_base(path);
    if (status && *path && !et_manifest_lists(&self->manifest, file) &&
        !et_manifest_leaves(&self->manifest, file) && !et_checkpoints_check_lock(self, NULL))
        unlink(path);
    return status ? status : commit(self, path, &self->job.written, error);
}

/* -1: there is no best. */
static int best_step(const et_checkpoints *self, int64_t *step, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *info;
    int status = et_checkpoint_best_info(&info, self->model_dir.text, &arena, error);
    *step = status ? -1 : et_value_get(info, ET_CHECKPOINT_STEP)->integer;
    et_arena_release(&arena);
    return status == ET_ENOTFOUND ? ET_OK : status;
}

/* Removes a best one before, when info.json names another. */
static void remove_best(const et_checkpoints *self, int64_t step)
{
    if (step < 0 || step == self->job.step)
        return;
    const et_path path =
        et_checkpoint_file_path(self->best_directory.text, ET_CHECKPOINT_BEST_PREFIX, step);
    if (unlink(path.text) && errno != ENOENT)
        et_log(ET_LOG_WARNING, "cannot remove %s: %s", path.text, strerror(errno));
}

/* Replacing info.json is the commit. If the replacement failed and the old file remains, the new
 * weights are deleted. If info.json names the new step although the commit failed (only the fsync
 * of the directory failed), the new weights stay. */
static int write_info(et_checkpoints *self, const char *weights, et_error *error)
{
    const et_strbuf *info = &self->job.info;
    int64_t before, now;
    best_step(self, &before, NULL);
    int status = et_file_write(et_path_of(self->best_directory.text, ET_CHECKPOINT_INFO).text,
                               info->data, info->length, error);
    if (!status) {
        remove_best(self, before);
        remove_best(self, self->best_before);
        self->best_before = self->job.step;
    } else if (!best_step(self, &now, NULL) && now != self->job.step) {
        unlink(weights);
    }
    self->best_own |= !status;
    return status;
}

/* Whether a failed best checkpoint is tried once more, with a message. */
static bool tries_again(int64_t step, int status, et_error *reason)
{
    if (!status || status == ET_EBUSY)
        return false;
    et_log(ET_LOG_WARNING, ET_SAVING_BEST ": %s; trying once more", step, reason->text);
    *reason = (et_error)ET_ERROR_INIT;
    return true;
}

bool et_checkpoint_is_best_link(const char *path)
{
    char to[sizeof ET_CHECKPOINT_BEST];
    return readlink(path, to, sizeof to) == sizeof to - 1 &&
           !memcmp(to, ET_CHECKPOINT_BEST, sizeof to - 1);
}

/* Weights first, then info.json, which names them: so it never names a missing file. */
static int write_best(et_checkpoints *self, et_error *error)
{
    /* Whether best/ may be written over. */
    int64_t step;
    int status = best_step(self, &step, NULL);
    if (status == ET_ENOMEM)
        return et_alloc_failed(error, "the best checkpoint");
    const bool of_line = self->line < 0 ? self->begun > 0 : step >= 0 && step <= self->line;
    const et_path info = et_path_of(self->best_directory.text, ET_CHECKPOINT_INFO);
    const bool earlier = self->began || et_file_written(info.text) < self->begun;
    const bool own = self->best_own || (!earlier && (self->resumed || of_line));
    if ((!own && (status = set_best_aside(self->best_directory.text, error))) ||
        (status = write_file(self, error)) ||
        (status = write_info(self, self->job.path.text, error)))
        return status;
    /* Another name of best/, for a program that looks for it there. */
    const char *link = self->link.text;
    if (*link && symlink(ET_CHECKPOINT_BEST, link) && !et_checkpoint_is_best_link(link))
        et_log(ET_LOG_WARNING, "%s: %s; the best checkpoint is in %s", link, strerror(errno),
               self->best_directory.text);
    return ET_OK;
}

static const et_activity write_activity = { .name = "write checkpoint",
                                            .kind = "writing checkpoints" };

/* The thread's main. Its error stays in the job until et_checkpoints_wait. */
static void *run_job(void *payload)
{
    et_checkpoints *self = payload;
    et_checkpoint_job *work = &self->job;
    et_track_begin(self->writer_track, &write_activity, work->step);
    work->status = work->kind == ET_SAVE_BEST ? write_best(self, &work->error)
                                              : write_newest(self, &work->error);
    /* With a state in parts, a second try is the caller's. */
    if (work->kind == ET_SAVE_BEST && !et_state_ranks(self->state) &&
        tries_again(work->step, work->status, &work->error))
        work->status = write_best(self, &work->error);
    stop_reading(self); /* of a best, or if it never came to the arrays */
    et_track_end(self->writer_track);
    pthread_mutex_lock(&self->mutex);
    self->ended = true;
    pthread_mutex_unlock(&self->mutex);
    return NULL;
}

/* ---- saving, in the caller ---- */

/* Short work: the state's text, and starting the thread, which does everything that takes long. */

/* The tree as one line of JSON, into memory that is kept from save to save. It is printed by the
 * caller, before the thread starts: the small values change with every step, and they are few. */
static int print_state(et_checkpoints *self, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *tree;
    int status = et_state_save(self->state, &tree, &arena, error);
    et_strbuf_reset(&self->job.state);
    if (!status)
        et_json_print(&self->job.state, tree, 0);
    et_arena_release(&arena);
    if (!status && self->job.state.failed)
        status = et_alloc_failed(error, "the state's text");
    return status;
}

/* Numbers and truth values, and null for a number that is not finite; no lists and texts. */
static void copy_numbers(et_value *to, const et_value *from)
{
    for (const et_value *v = from->first; v; v = v->next)
        if (v->kind == ET_VALUE_DICT)
            copy_numbers(et_value_set_dict(to, v->key), v);
        else if (v->kind != ET_VALUE_LIST && v->kind != ET_VALUE_STRING)
            et_value_set_copy(to, v->key, v);
}

/* The metrics of validation with the step under ET_CHECKPOINT_STEP (added last, so that it wins
 * over a metric of that name), indented for people to read. */
static int print_info(et_checkpoints *self, int64_t step, const et_value *metrics, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_strbuf *text = &self->job.info;
    et_value *info = et_value_dict(&arena);
    copy_numbers(info, metrics);
    et_value_set_int(info, ET_CHECKPOINT_STEP, step);
    const bool whole = !et_value_failed(info);
    et_strbuf_reset(text);
    if (whole)
        et_json_print(text, info, 4);
    et_strbuf_append_char(text, '\n');
    et_arena_release(&arena);
    return whole && !text->failed ? ET_OK : et_alloc_failed(error, ET_CHECKPOINT_INFO);
}

/* reading: the thread reads the state's arrays. */
static int launch(et_checkpoints *self, bool reading, et_error *error)
{
    self->reading = reading;
    self->ended = false;
    int status = et_thread_start(&self->thread, run_job, self, error);
    if (status) {
        self->reading = false;
        if (self->job.drafted)
            et_file_writer_abandon(&self->job.writer);
        self->job.drafted = false;
    }
    self->running = !status;
    if (!status && self->internals.waits) {
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
    status = et_state_ranks(self->state) ? draft_job(self, error) : ET_OK;
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
        et_track_begin(checkpoints->internals.track, &read_activity, checkpoints->job.step);
        while (checkpoints->reading)
            pthread_cond_wait(&checkpoints->has_read, &checkpoints->mutex);
        et_track_end(checkpoints->internals.track);
    }
    pthread_mutex_unlock(&checkpoints->mutex);
}

/* The caller's part: while a thread runs, job, manifest and best_before belong to the thread. */
static void sane(const et_checkpoints *self)
{
    et_assert(self->state && *self->directory.text && *self->best_directory.text);
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
    int status;
    if ((status = check_step(step, error)) || (status = et_checkpoints_wait(checkpoints, error)))
        return status;
    return start(checkpoints, step, kind, error);
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
    if (tries_again(step, status, &reason))
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
    return !et_state_ranks(checkpoints->state) && !checkpoints->internals.waits &&
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
        status =
            held->arrays && held->items ? ET_OK : et_alloc_failed(error, "the best checkpoint");
    }
    if (status || (status = print_info(checkpoints, step, metrics, error)) ||
        (status = print_state(checkpoints, error)))
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
    if (tries_again(step, status, &reason))
        status = start_held(checkpoints, &reason);
    return status ? et_fail(error, status, ET_SAVING_BEST ": %s", step, reason.text) : ET_OK;
}

int et_checkpoints_has_best(const et_checkpoints *checkpoints, int64_t step, bool *has,
                            et_error *error)
{
    int64_t best;
    int status = best_step(checkpoints, &best, error);
    *has = best == step && et_file_exists(et_checkpoint_file_path(checkpoints->best_directory.text,
                                                                  ET_CHECKPOINT_BEST_PREFIX, step)
                                              .text);
    return status;
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
    int status = et_disk_check(checkpoints->directory.text, bytes, error);
    if (!status)
        status = et_file_limit_check(checkpoints->directory.text, bytes, error);
    return status ? et_fail_while(error, status, "space for a checkpoint") : ET_OK;
}

/* A save in progress counts already: callers ask whether to save this step again. */
int64_t et_checkpoints_newest_step(const et_checkpoints *checkpoints)
{
    bool saving = checkpoints->running && checkpoints->job.kind != ET_SAVE_BEST;
    return saving ? checkpoints->job.step : checkpoints->newest_step;
}

int et_checkpoints_drop_newer(et_checkpoints *checkpoints, int64_t step, et_error *error)
{
    et_manifest *manifest = &checkpoints->manifest;
    int status = et_checkpoints_wait(checkpoints, error);
    size_t before = manifest->count;
    if (!status)
        status = claim(checkpoints, step, error);
    /* A run does not go back to a transient or a later one. */
    while (!status && manifest->count > 1) {
        const et_manifest_entry *last = &manifest->entries[manifest->count - 1];
        if (!last->transient && last->step <= step)
            break;
        status = et_manifest_remove(manifest, manifest->count - 1, error);
    }
    int64_t newest = manifest->count ? manifest->entries[manifest->count - 1].step : step;
    if (!status && newest > step)
        return et_fail(error, ET_EDIVERGED,
                       "%s: the only checkpoint is of step %lld, later than step %lld: there is no "
                       "checkpoint to go back to",
                       checkpoints->directory.text, (long long)newest, (long long)step);
    if (status || manifest->count == before)
        return status;
    checkpoints->newest_step = newest;
    return et_manifest_commit(manifest, checkpoints->directory.text, error);
}
