/* The manifest of a checkpoint directory, `checkpoint.json`: the list of its checkpoints. Replacing
 * the manifest is the commit: a checkpoint exists once the manifest names it, and its name is
 * removed before its file. Other files decide when to save and what to keep.
 *
 * To publish: write the new file (durable under its own name), add it, remove old entries, commit.
 * Commit replaces the manifest, then deletes the files of removed entries. Their names are under
 * "leaving" until they are deleted, so a kill in between leaves no leftovers, and only files that
 * the manifest named are ever deleted. The only entry cannot be removed, and nothing is deleted
 * unless the newest remaining file exists with its size.
 *
 *     et_manifest m;
 *     if (et_manifest_load(&m, directory, &error)) ...
 *     if (et_manifest_add(&m, &entry, &error)) ...
 *     if (et_manifest_remove(&m, 0, &error)) ...                   the oldest
 *     if (et_manifest_commit(&m, directory, &error)) ...
 *     et_manifest_release(&m);
 *
 * One writer per directory: hold a lock (et_lock_take). A value belongs to one thread. */
#ifndef ETUDE_FORMATS_SAFETENSORS_MANIFEST_H
#define ETUDE_FORMATS_SAFETENSORS_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

#define ET_MANIFEST_NAME     "checkpoint.json"
#define ET_MANIFEST_FILE_MAX 255

typedef struct et_manifest_entry {
    int64_t step;
    char file[ET_MANIFEST_FILE_MAX + 1]; /* a name in the directory, without '/' */
    double time;                         /* when saved, seconds since 1970 */
    uint64_t bytes;                      /* length of the file */
    uint64_t checksum;                   /* XXH3-64 of the whole file; 0: not known */
    bool transient;                      /* "passing" in the file: may be deleted */
    bool kept;                           /* beyond those to keep, since it was saved so late */
    bool own;                            /* this process has written it; not in the file */
} et_manifest_entry;

typedef struct et_manifest {
    et_manifest_entry *entries;                /* newest last; steps ascend */
    size_t count, capacity;                    /* of entries: in use, and room for */
    char (*leaving)[ET_MANIFEST_FILE_MAX + 1]; /* files to delete after the next commit */
    size_t leaving_count, leaving_capacity;
    double begun;     /* when the run began, by the clock of files (et_file_clock); 0: not known */
    double kept_time; /* time of the last checkpoint in `kept`, from which hours count; 0: none */
} et_manifest;

/* Reads the manifest; a missing one is empty. A damaged one is ET_EFORMAT. Changes nothing: for
 * readers of a run that may still be working. */
int et_manifest_read(et_manifest *out, const char *directory, et_error *error);

/* The same for the writer. Also removes the remains of a killed run: temporary files "*.tmp.PID"
 * whose process is gone (or has our number), and files that were leaving. A file that can't be
 * removed is logged and does not block. A damaged manifest is ET_EFORMAT; then call
 * et_manifest_rebuild. */
int et_manifest_load(et_manifest *out, const char *directory, et_error *error);

/* Makes a manifest from the files "<prefix><step>.safetensors" in the directory, without
 * looking into them. */
int et_manifest_rebuild(et_manifest *out, const char *directory, const char *prefix,
                        et_error *error);

void et_manifest_release(et_manifest *manifest);

/* Whether an entry has this file: then it must not be deleted. */
bool et_manifest_lists(const et_manifest *manifest, const char *file);

/* Whether a file has left and is still to be deleted. */
bool et_manifest_leaves(const et_manifest *manifest, const char *file);

/* Adds the newest entry. Entries of its step and later ones (a run that went back) leave. */
int et_manifest_add(et_manifest *manifest, const et_manifest_entry *entry, et_error *error);

/* Takes out entry index, not the only one; its file goes with the next commit. */
int et_manifest_remove(et_manifest *manifest, size_t index, et_error *error);

/* Removes a file from the manifest, with its entry, even the only one. The file is deleted by the
 * next commit of a manifest that names another file. */
int et_manifest_leave(et_manifest *manifest, const char *file, et_error *error);

/* Makes the manifest durable, then deletes the leaving files. On failure the old manifest remains;
 * a file that can't be deleted is tried again at the next commit. */
int et_manifest_commit(et_manifest *manifest, const char *directory, et_error *error);

/* Removes left-over temporary files as load does. */
void et_manifest_sweep(const char *directory);

#endif
