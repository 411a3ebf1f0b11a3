/* Files: whole reads with a limit, atomic writes, locks, directories. Every message names the path.
 * A write uses a temporary name in the same directory, loops for short writes and EINTR, fsync,
 * rename, fsync of the directory. A failed fsync loses the new file: fsync is never retried, the
 * temporary file is removed and the old file stays.
 *
 * A temporary directory of a command is deleted with everything in it:
 *
 *     et_scratch_open(&directory, "etude-dry-run", &error);      /tmp/etude-dry-run.8fK2aQ
 *     et_scratch_close(directory);
 */
#ifndef ETUDE_BASE_FILES_FILE_H
#define ETUDE_BASE_FILES_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

/* A path as a value: nothing to allocate, to check or to free.
 *
 *     status = et_file_write(et_path_of(directory, "a.json").text, bytes, length, error);
 *
 * A path that is too long for the system is cut but stays too long, so the call that uses the path
 * fails and names it. The text of a returned path lives until the end of the statement. Copy it to
 * keep it: into an et_path, or with et_strdup. Aligned as variables are, so that gcc builds the
 * result of et_path_of in place and does not copy 4 KB. */
typedef struct et_path {
    _Alignas(16) char text[PATH_MAX + 1]; /* PATH_MAX characters: too long */
} et_path;

/* "directory/name". */
et_path et_path_of(const char *directory, const char *name);
et_path et_path_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The directory that has path as an entry: "a/" for "a/b", "." for "b". */
et_path et_path_parent(const char *path);
/* The same path without parts that add nothing: "a/b" for "./a//x/../b/". A part ".." that follows
 * a symbolic link stays. "." for an empty path. */
et_path et_path_normal(const char *path);

/* The whole file in memory, terminated by an extra 0 (free with et_free). More than limit
 * bytes is ET_EFORMAT. Directories and devices are refused. */
int et_file_read(char **out, size_t *length, const char *path, size_t limit, et_error *error);
/* The same for a file from a stranger: ET_EDENIED, and nothing is read, if links in path lead out
 * of root. root: a directory, from realpath(3); NULL: no limit. */
int et_file_read_below(char **out, size_t *length, const char *path, const char *root, size_t limit,
                       et_error *error);
/* The same of a key or a token. ET_EDENIED: others than the owner may read or write the file. */
int et_file_read_secret(char **out, size_t *length, const char *path, size_t limit,
                        et_error *error);

/* Opens a regular file for reading; *out is to be closed. */
int et_file_open(int *out, const char *path, et_error *error);
/* As et_file_read_below. */
int et_file_open_below(int *out, const char *path, const char *root, et_error *error);
/* Whether an open file or directory is below root, by its real position and not by the opened
 * name. */
bool et_file_is_below(int fd, const char *root);
/* The same by name; true if nothing has the name. */
bool et_path_is_below(const char *path, const char *root);

/* Writes bytes as the whole of path, atomically and durably. */
int et_file_write(const char *path, const void *bytes, size_t length, et_error *error);

/* The same in pieces. After open, exactly one of commit, abandon and end. The writer keeps its
 * first failure: later bytes are ignored, and commit and end report it.
 *
 *     et_file_writer_put(&writer, head, sizeof head);
 *     et_file_writer_put(&writer, rows, count * sizeof *rows);
 *     return et_file_writer_end(&writer, ET_OK, error); */
typedef struct et_file_writer {
    int fd;                  /* -1: closed */
    et_path path, temporary; /* temporary: path.tmp.PID */
    uint64_t length;         /* bytes written so far */
    et_error failure;        /* the first; status 0: none */
} et_file_writer;

int et_file_writer_open(et_file_writer *writer, const char *path, et_error *error);
void et_file_writer_put(et_file_writer *writer, const void *bytes, size_t length);
/* The same, with the writer's failure, for a caller that would compute the next bytes in vain. */
int et_file_writer_write(et_file_writer *writer, const void *bytes, size_t length, et_error *error);
/* Makes the written bytes durable, the slow part of a commit; after a failure, abandon the
 * writer. */
int et_file_writer_sync(et_file_writer *writer, et_error *error);
/* Makes the file durable and visible. On failure the temporary file is gone and path is as before,
 * with one exception: if only the directory's entry could not be made durable, the file exists but
 * may not survive a loss of power. */
int et_file_writer_commit(et_file_writer *writer, et_error *error);
void et_file_writer_abandon(et_file_writer *writer);
/* Commits if status, the result of the writing, is ET_OK; otherwise abandons and returns status. */
int et_file_writer_end(et_file_writer *writer, int status, et_error *error);

/* Writes all of bytes to an open file; loops over short writes and EINTR. */
int et_fd_write(int fd, const void *bytes, size_t length, const char *path, et_error *error);

/* Makes a directory and its parents; the names of new ones are durable. An existing one is fine. On
 * failure, no new directory remains. */
int et_directory_make(const char *path, et_error *error);

/* Writes file number `which` of a directory to path. */
typedef int et_directory_write_fn(void *self, int which, const char *path, et_error *error);

/* Makes a directory, if it is missing, and calls write for each of names in their order, with a
 * path in a draft of it. All files get their names or none, also if the process is killed. Other
 * files in the directory stay; then a killed process may leave the first files until the next call.
 * ET_ECONFIG: directory is NULL or "", or one of the files exists already. directory_write.c */
int et_directory_write(const char *directory, const char *const *names, int count,
                       et_directory_write_fn *write, void *self, et_error *error);

/* fsync of a directory. */
int et_directory_sync(const char *path, et_error *error);

/* The same two of the directory that a file is in. */
int et_parent_make(const char *path, et_error *error);
int et_parent_sync(const char *path, et_error *error);

/* Bytes free to this user on the file system of path; checks that need fit: ET_ENOSPACE
 * naming both if not. */
int et_disk_check(const char *path, uint64_t need, et_error *error);

/* The same for the limit of one file's size (ulimit -f), on any disk. */
int et_file_limit_check(const char *path, uint64_t need, et_error *error);

/* Locks an open file or directory without waiting. The kernel drops the lock when the last copy of
 * fd is closed, also when the process is killed. ET_EBUSY: another process has the lock. ET_EIO:
 * the file system gives no locks; errno has the reason. */
int et_fd_lock(int fd);

/* Takes a lock file that ends with the process (et_fd_lock); *out is for et_lock_drop. ET_EBUSY:
 * another process has it, the message names its process number. */
int et_lock_take(int *out, const char *path, et_error *error);
void et_lock_drop(int fd);

/* Whether path is still the file that *lock holds: if the file is removed, another process can take
 * a new one. If no file has the name, it is made and taken again, with a warning in the log.
 * ET_EBUSY: another process has made one. */
int et_lock_check(int *lock, const char *path, et_error *error);

/* A file mapped read-only. */
typedef struct et_mapping {
    const void *data; /* NULL when empty */
    size_t length;
} et_mapping;

int et_mapping_open(et_mapping *mapping, const char *path, et_error *error);
void et_mapping_close(et_mapping *mapping);

/* Makes these bytes writable in memory, as a private copy; the file does not change. */
int et_mapping_unlock(const et_mapping *mapping, const void *from, size_t length, et_error *error);

/* Bytes that are not needed soon no longer count as memory of the process. They can be read again.
 */
void et_mapping_forget(const et_mapping *mapping, const void *from, size_t length);

/* ET_ENOTFOUND for an empty path, which the system's message would show as nothing. */
int et_path_check(const char *path, et_error *error);

/* et_path_of newly allocated (free with et_free); NULL if none left. */
char *et_path_join(const char *directory, const char *name);

/* Its bytes without the slashes at its end; a root keeps one. */
size_t et_path_length(const char *path);

/* The part after the last '/'. Borrowed. */
const char *et_path_base(const char *path);

/* Whether path has something before ending, and then that, in small or in capital letters: ".gz".
 */
bool et_path_ends(const char *path, const char *ending);

/* Whether path, joined to a directory, may lead out of the directory: it begins with / or has a
 * part "..". */
bool et_path_leads_out(const char *path);

bool et_file_exists(const char *path);
/* The same for a name below a directory. Allocates nothing, so a lack of memory does not give
 * false. */
bool et_file_exists_in(const char *directory, const char *name);
bool et_directory_exists(const char *path); /* a link to a directory counts as one */
/* Fails if this process may not look into the directory, whose files would seem to be missing. */
int et_directory_check(const char *path, et_error *error);

/* The time by the clock that dates files, and the time of path's last change (NaN: missing):
 * seconds since 1970. */
double et_file_clock(void);
double et_file_written(const char *path);

/* For a name without its directory, "NAME.tmp.PID", as et_file_writer's before the commit: whether
 * no process works on it. Our own number counts as free: a killed process may have had it, as
 * processes in containers do. */
bool et_file_is_left_over(const char *name);

/* Makes a temporary directory below TMPDIR or else /tmp. */
int et_scratch_open(char **directory, const char *name, et_error *error);
void et_scratch_close(char *directory); /* frees it too; NULL allowed */

#endif
