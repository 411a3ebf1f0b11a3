/* Locking a run's directory, and undoing a failed start. Opening has this order: find out how much
 * of the path exists and whether it has a run; make it and take the lock; delete leftovers of a
 * killed run (temporary names). Undoing goes through a list of names in reverse. Files that are not
 * in the list, or were there before, stay, and so do their folders. */
#include "systems/training/model_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "formats/events/event.h"
#include "formats/events/log_names.h"
#include "formats/safetensors/manifest.h"
#include "systems/modelgarden/experiment.h"
#include "train/checkpoint/artifact/artifact.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/run_names.h"

#define MANIFEST  (ET_CHECKPOINT_FOLDER "/" ET_MANIFEST_NAME)
#define LOCK_FILE (ET_CHECKPOINT_FOLDER "/" ET_RUN_LOCK)

/* Files that a start writes before the first step, contents before their folder; the kind's files
 * come first. Each is listed by name, because a command must not remove a file that it did not
 * make. If a start writes another file, add a row. */
static const char *const made_at_start[] = {
    ET_RUN_SETTINGS,
    ET_RUN_LOG,
    ET_RUN_MESSAGES,
    ET_RUN_SESSIONS,
    ET_EVENTS_SETTINGS,
    (ET_LOGGED_TRAIN "/" ET_EVENTS_NAME),
    ET_LOGGED_TRAIN,
    (ET_LOGGED_VALIDATION "/" ET_EVENTS_NAME),
    ET_LOGGED_VALIDATION,
    ET_CHECKPOINT_BEST,
    MANIFEST,
    LOCK_FILE,
    ET_CHECKPOINT_FOLDER,
};

/* Bytes for the longest file name in a run, including the ending of a temporary name. */
enum { ROOM_FOR_NAMES = 128 };

bool et_model_dir_has_run(const char *path)
{
    return path && et_file_exists_in(path, ET_RUN_SETTINGS);
}

bool et_model_dir_has_weights(const char *path)
{
    char *newest = NULL;
    const bool has = et_model_dir_has_run(path) && !et_checkpoint_newest(&newest, path, NULL);
    et_free(newest);
    return has;
}

/* Cuts path after its existing parts and returns that length. "runs/a/b" with an existing runs/ ->
 * 5, the length of "runs/"; 0: no part exists. */
static size_t length_there(char *path)
{
    struct stat info;
    et_assert(path);
    size_t length = strlen(path);
    /* A part at a time from the end, with the slashes before it. */
    while (length && stat(path, &info)) {
        while (length && path[length - 1] == '/')
            length--;
        while (length && path[length - 1] != '/')
            length--;
        path[length] = 0;
    }
    return length;
}

/* ---- taking back ---- */

/* Paths of files, then of folders, in the order of removal. Each path ends with a 0; an empty path
 * ends the list. Opening makes the list, so removal needs no memory, also after a start that failed
 * for lack of memory. */

/* A file that does not exist yet, and its temporary name. */
static void list_path(et_strbuf *list, const char *directory, const char *name)
{
    if (et_file_exists_in(directory, name))
        return;
    et_strbuf_printf(list, "%s/%s.tmp.%ld", directory, name, (long)getpid());
    et_strbuf_append_char(list, 0);
    et_strbuf_printf(list, "%s/%s", directory, name);
    et_strbuf_append_char(list, 0);
}

static int list_made(et_model_dir *dir, et_error *error)
{
    char name[ET_RUN_FILE_NAME];
    et_run_file file;
    et_strbuf list = ET_STRBUF_INIT;
    for (int i = 0; (file = et_kind_file(dir->kind, i, name)).name; i++)
        if (file.what & ET_RUN_MADE_AT_START)
            list_path(&list, dir->path, file.name);
    for (size_t i = 0; i < sizeof made_at_start / sizeof made_at_start[0]; i++)
        list_path(&list, dir->path, made_at_start[i]);
    /* Appends the folders from the innermost to the outermost that did not exist before. */
    const char *path = dir->path;
    for (size_t length = strlen(path); length > dir->there;) {
        et_strbuf_append_bytes(&list, path, length);
        et_strbuf_append_char(&list, 0);
        while (length && path[length - 1] == '/')
            length--;
        while (length && path[length - 1] != '/')
            length--;
    }
    et_strbuf_append_char(&list, 0);
    dir->made = et_strbuf_detach(&list);
    et_strbuf_release(&list);
    return dir->made ? ET_OK : et_alloc_failed(error, "a path");
}

/* Skips paths that are missing or cannot be removed: a folder with other contents stays, and so do
 * its parents. Returns whether any folder stays. */
static bool remove_listed(const char *list)
{
    bool stays = false;
    for (const char *path = list; *path; path += strlen(path) + 1)
        if (unlink(path) && (errno == EISDIR || errno == EPERM))
            stays |= rmdir(path) != 0;
    return stays;
}

/* Whether a checkpoint is in a folder of directory. Its entries are read without opendir, which
 * takes memory. */
static bool has_checkpoint(int directory, const char *name, const char *prefix)
{
    _Alignas(struct dirent64) char entries[4096];
    bool found = false;
    int folder = openat(directory, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ssize_t bytes = 1;
    while (folder >= 0 && !found && (bytes = getdents64(folder, entries, sizeof entries)) > 0)
        for (ssize_t at = 0; at < bytes;) {
            const struct dirent64 *entry = (const struct dirent64 *)(const void *)(entries + at);
            found |=
                !strncmp(entry->d_name, prefix, strlen(prefix)) && !strstr(entry->d_name, ".tmp.");
            at += entry->d_reclen;
        }
    if (folder >= 0)
        close(folder);
    return found || bytes < 0;
}

bool et_model_dir_begins(const et_model_dir *dir, int64_t step)
{
    if (!dir->fresh || step > dir->first)
        return false;
    const int directory = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return errno == ENOENT; /* an unreadable directory may contain files */
    const bool saved = has_checkpoint(directory, ET_CHECKPOINT_FOLDER, ET_CHECKPOINT_PREFIX) ||
                       has_checkpoint(directory, ET_CHECKPOINT_BEST, ET_CHECKPOINT_BEST_PREFIX);
    close(directory);
    return !saved;
}

/* The directory whose run is being started, if it had no run before; else NULL. While the
 * directory of several trainings is open, each training opens its own directory. A forked child
 * must not remove the contents when it exits. */
static const et_model_dir *volatile starting;
static volatile pid_t started_by;

/* Other threads may be writing a file at this moment: they are given some tenths of a second. */
void et_model_dir_abandon(void)
{
    static const struct timespec pause = { .tv_nsec = 50 * 1000 * 1000 };
    const et_model_dir *dir = starting;
    starting = NULL;
    if (!dir || started_by != getpid() || !et_model_dir_begins(dir, dir->step ? *dir->step : 0))
        return;
    for (int tries = 5; remove_listed(dir->made) && tries; tries--)
        nanosleep(&pause, NULL);
}

/* A folder of another run, in which one of its tasks keeps its files. */
static int check_member(const char *path, et_error *error)
{
    et_artifact artifact;
    if (!et_directory_exists(path))
        return ET_OK;
    int status = et_artifact_open(&artifact, path, error);
    if (!status && artifact.member)
        status = et_fail(error, ET_EDENIED,
                         "%s has the files of task %s of the run %s: choose another --model-dir",
                         path, artifact.member->name, artifact.member->run);
    et_artifact_close(&artifact);
    return status;
}

/* A file that a new run would replace, or that would hide the run's results; "": none. */
static int find_leftover(et_path *out, const char *path, et_error *error)
{
    static const char *const names[] = { ET_ARTIFACT_WEIGHTS, ET_RUN_LOG };
    const et_path folder = et_path_of(path, ET_CHECKPOINT_BEST);
    et_manifest best = { 0 };
    int status = et_file_exists(folder.text)
                     ? et_manifest_rebuild(&best, folder.text, ET_CHECKPOINT_BEST_PREFIX, error)
                     : ET_OK;
    out->text[0] = 0;
    if (!status && best.count)
        *out = et_path_of(folder.text, best.entries[0].file);
    for (size_t i = 0; !status && !out->text[0] && i < sizeof names / sizeof names[0]; i++)
        if (et_file_exists_in(path, names[i]))
            *out = et_path_of(path, names[i]);
    et_manifest_release(&best);
    return status;
}

/* A run has its checkpoint folder from the start and resumes from it. Weights or a log without that
 * folder come from an export, a partial copy of a run, or another program. */
static int check_leftovers(const char *path, et_error *error)
{
    const et_path folder = et_path_of(path, ET_CHECKPOINT_FOLDER);
    et_path left;
    if (et_file_exists(folder.text))
        return ET_OK;
    int status = find_leftover(&left, path, error);
    return status || !left.text[0]
               ? status
               : et_fail(error, ET_EDENIED,
                         "%s exists, but has no %s to resume from: choose a new directory (--init "
                         "%s begins with its weights)",
                         left.text, folder.text, et_shell_quote(path).text);
}

/* Makes the lock first, in the checkpoint folder. With ET_EBUSY the directory belongs to another
 * run, so nothing is removed. */
int et_model_dir_open(et_model_dir *dir, const et_task_kind *kind, const char *path,
                      et_error *error)
{
    et_assert(path && *path);
    /* Now, and not when the first checkpoint is saved. */
    if (strlen(path) > PATH_MAX - ROOM_FOR_NAMES)
        return et_fail(error, ET_EDENIED,
                       "--model-dir: the name has %zu bytes, more than %d: choose a shorter name, "
                       "or start in a directory that is nearer",
                       strlen(path), PATH_MAX - ROOM_FOR_NAMES);
    int status;
    if ((status = check_member(path, error)) || (status = check_leftovers(path, error)))
        return status;
    if (kind->foreign && kind->foreign->is(path))
        return et_fail(error, ET_EDENIED,
                       "%s has a model of another program: choose a new directory (--init %s "
                       "begins with its weights)",
                       path, et_shell_quote(path).text);
    /* Looked at before the lock makes anything. */
    et_path part = et_path_print("%s", path);
    *dir = (et_model_dir){ .kind = kind,
                           .path = path,
                           .lock = -1,
                           .fresh = !et_model_dir_has_run(path),
                           .there = length_there(part.text) };
    status = list_made(dir, error);
    if (!status)
        status = et_checkpoints_lock(&dir->lock, path, error);
    started_by = getpid();
    if (status) {
        et_model_dir_close(dir, status != ET_EBUSY);
        return status;
    }
    if (dir->fresh)
        starting = dir;
    /* Under the lock no other process writes there. Checkpoints sweep their own folders. */
    char name[ET_RUN_FILE_NAME];
    et_run_file file;
    et_manifest_sweep(et_path_of(path, ".").text);
    for (int i = 0; (file = et_kind_file(kind, i, name)).name; i++)
        if (file.what & ET_RUN_FOLDER)
            et_manifest_sweep(et_path_of(path, file.name).text);
    return ET_OK;
}

static void sane(const et_model_dir *dir)
{
    et_assert(dir->lock >= -1);
    et_assert(dir->path || (dir->lock < 0 && !dir->made));
    et_assert(!dir->path || dir->kind);
    et_assert(starting != dir || dir->fresh);
    et_assert(dir->first >= 0);
}

void et_model_dir_set_up(et_model_dir *dir, const int64_t *step, int64_t first)
{
    sane(dir);
    et_assert(dir->path && step && first >= 0);
    dir->first = first;
    dir->step = step;
}

/* The lock file is among the removed files, so the lock is released last. */
void et_model_dir_close(et_model_dir *dir, bool take_back)
{
    sane(dir);
    if (!dir->path)
        return;
    if (starting == dir)
        starting = NULL;
    /* A directory that had a run before is left unchanged: its contents are not ours. */
    if (take_back && dir->fresh && dir->made)
        remove_listed(dir->made);
    et_free(dir->made);
    if (dir->lock >= 0)
        et_lock_drop(dir->lock);
    *dir = (et_model_dir)ET_MODEL_DIR_INIT;
}
