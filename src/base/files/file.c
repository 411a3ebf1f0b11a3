/* Durable writes: open, write, fsync, close, rename, fsync of the directory, in this order (see
 * Pillai et al., "All file systems are not created equal", OSDI 2014). At any moment of a crash,
 * path has all of the old bytes or all of the new ones. The purpose of each step:
 *
 *   write to path.tmp.PID     a crash in between leaves a leftover, path is untouched
 *   fsync of the file         otherwise the rename may reach the disk before the bytes do
 *   close                     the last chance of a network file system to report an error
 *   rename                    the exchange; atomic for every reader
 *   fsync of the directory    otherwise a crash may undo the rename
 *
 * Only regular files are read, replaced and locked. All files are opened close-on-exec, and without
 * blocking, because a pipe could be at the file's place.
 *
 * Invariants:
 *
 *   (1) between calls, a writer has a temporary file if and only if its fd is not -1;
 *   (2) every path out of a function closes what it opened and removes what it made, except the
 *       lock file;
 *   (3) errno is read before any other call.
 */
#include "base/files/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"

/* One read or write at most this long: Linux cuts at 2 GiB - 4 KiB anyway. */
#define CHUNK ((size_t)1 << 30)

/* A device or pipe has no end, a directory has no bytes, and they must not be replaced. */
static int refuse_special(const struct stat *info, const char *path, et_error *error)
{
    if (S_ISREG(info->st_mode))
        return ET_OK;
    const char *what = S_ISDIR(info->st_mode) ? "a directory" : "a device, pipe or socket";
    return et_fail(error, ET_EDENIED, "%s is %s, not a file; name a regular file", path, what);
}

/* Opens a regular file for reading. Not blocking: opening a pipe must not wait for its writer. */
static int open_regular(int *out, struct stat *info, const char *path, et_error *error)
{
    int status = et_path_check(path, error);
    if (status)
        return status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return et_fail_errno(error, "cannot open %s", path);
    /* fstat of the opened file, not stat of the name: the name may mean another file by now. */
    status = fstat(fd, info) ? et_fail_errno(error, "cannot read %s", path)
                             : refuse_special(info, path, error);
    if (status) {
        close(fd);
        return status;
    }
    /* O_NONBLOCK has no effect on a regular file's reads. */
    *out = fd;
    return ET_OK;
}

int et_file_open(int *out, const char *path, et_error *error)
{
    struct stat info;
    return open_regular(out, &info, path, error);
}

/* ---- below a directory ---- */

/* /proc gives the path of the open file, so a link that is changed meanwhile makes no difference.
 */
bool et_file_is_below(int fd, const char *root)
{
    char name[32], path[PATH_MAX];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(name, path, sizeof path - 1);
    size_t count = strlen(root);
    if (length < 0)
        return false;
    path[length] = 0;
    while (count && root[count - 1] == '/')
        count--;
    return !strncmp(path, root, count) && (path[count] == '/' || !path[count]);
}

bool et_path_is_below(const char *path, const char *root)
{
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT;
    const bool below = et_file_is_below(fd, root);
    close(fd);
    return below;
}

static int open_below(int *out, struct stat *info, const char *path, const char *root,
                      et_error *error)
{
    int status = open_regular(out, info, path, error);
    if (status || !root || et_file_is_below(*out, root))
        return status;
    close(*out);
    return et_fail(error, ET_EDENIED,
                   "%s: a symbolic link points outside of %s; replace it by the file", path, root);
}

int et_file_open_below(int *out, const char *path, const char *root, et_error *error)
{
    struct stat info;
    return open_below(out, &info, path, root, error);
}

/* ---- as a whole ---- */

/* The caller's limit is the largest valid size of such a file. */
static int too_long(const char *path, size_t limit, et_error *error)
{
    return et_fail(error, ET_EFORMAT, "%s is longer than the %zu bytes allowed here", path, limit);
}

/* Reads to the end, whatever fstat reported: files of /proc report 0, others may grow. *bytes has
 * space for room + 1 bytes, *length are filled. The limit is checked after each read, so at most
 * one read exceeds it. */
static int read_all(char **bytes, size_t *length, size_t room, int fd, const char *path,
                    size_t limit, et_error *error)
{
    for (;;) {
        if (*length == room) { /* one byte stays for the final 0 */
            size_t more = room < 4096 ? 4096 : room / 2;
            char *larger =
                more > SIZE_MAX - room - 1 ? NULL : et_realloc(*bytes, room + more + 1, 1);
            if (!larger)
                return et_alloc_failed(error, path);
            *bytes = larger;
            room += more;
        }
        size_t want = room - *length < CHUNK ? room - *length : CHUNK;
        ssize_t got = read(fd, *bytes + *length, want);
        /* A signal came before any byte did: nothing was lost. */
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return et_fail_errno(error, "cannot read %s", path);
        if (got == 0)
            return ET_OK;
        *length += (size_t)got;
        if (*length > limit)
            return too_long(path, limit, error);
    }
}

/* The size from fstat is a first guess at the memory, and allows an early refusal. root NULL: the
 * file may be anywhere. secret: others must not be able to read it. */
static int read_file(char **out, size_t *length, const char *path, const char *root, bool secret,
                     size_t limit, et_error *error)
{
    int fd = -1;
    struct stat info;
    int status = open_below(&fd, &info, path, root, error);
    if (status)
        return status;
    /* The extra byte finds the end in one more read. */
    const size_t room = (size_t)info.st_size + 1;
    size_t used = 0;
    char *bytes = NULL;
    if (secret && info.st_mode & 077)
        status = et_fail(
            error, ET_EDENIED,
            "%s: other users can read this file (mode %03o); make a new one, or run: chmod 600 %s",
            path, (unsigned)(info.st_mode & 0777), path);
    /* Checked before memory is allocated: a name given by mistake may be a disk image. */
    else if ((uint64_t)info.st_size > limit)
        status = too_long(path, limit, error);
    else if (!(bytes = et_alloc(room + 1, 1)))
        status = et_alloc_failed(error, path);
    else
        status = read_all(&bytes, &used, room, fd, path, limit, error);
    close(fd);
    if (status) {
        et_free(bytes);
        return status;
    }
    /* There is room for the 0: room + 1 bytes were allocated, which read_all preserves. */
    bytes[used] = 0;
    *out = bytes;
    *length = used;
    return ET_OK;
}

int et_file_read(char **out, size_t *length, const char *path, size_t limit, et_error *error)
{
    return read_file(out, length, path, NULL, false, limit, error);
}

int et_file_read_below(char **out, size_t *length, const char *path, const char *root, size_t limit,
                       et_error *error)
{
    return read_file(out, length, path, root, false, limit, error);
}

int et_file_read_secret(char **out, size_t *length, const char *path, size_t limit, et_error *error)
{
    return read_file(out, length, path, NULL, true, limit, error);
}

/* A full disk accepts a part first and refuses the rest, so the loop ends with the error and not
 * with a short file. */
int et_fd_write(int fd, const void *bytes, size_t length, const char *path, et_error *error)
{
    /* The rest: `length` bytes from `next` on. */
    const char *next = bytes;
    while (length > 0) {
        ssize_t written = write(fd, next, length < CHUNK ? length : CHUNK);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return et_fail_errno(error, "cannot write %s", path);
        if (written == 0) /* not from a regular file; anything else would loop for ever */
            return et_fail(error, ET_EIO, "cannot write %s: the system wrote no byte", path);
        next += written;
        length -= (size_t)written;
    }
    return ET_OK;
}

/* Appends what there is room for; returns the length. */
static size_t append(et_path *path, size_t at, const char *text, size_t length)
{
    length = length < PATH_MAX - at ? length : PATH_MAX - at;
    memcpy(path->text + at, text, length);
    path->text[at + length] = '\0';
    return at + length;
}

/* A path that was cut may have lost its end, and then its parent is not known. */
static const char *parent_of(et_path *parent, const char *path)
{
    size_t length = (size_t)(et_path_base(path) - path);
    if (strlen(path) == PATH_MAX)
        length = PATH_MAX;
    append(parent, 0, length ? path : ".", length ? length : 1);
    return parent->text;
}

/* Removes the temporary files of killed processes that wrote the same path. A held lock means that
 * the file belongs to a process of another container, whose number has no meaning here. */
static void sweep(const char *parent, const char *temporary)
{
    const char *base = et_path_base(temporary);
    const size_t length = (size_t)(strrchr(base, '.') - base) + 1; /* with the last dot */
    DIR *directory = opendir(parent);
    for (const struct dirent *item; directory && (item = readdir(directory));) {
        if (strncmp(item->d_name, base, length) != 0 || !strcmp(item->d_name, base) ||
            !et_file_is_left_over(item->d_name))
            continue;
        struct stat info;
        const int fd = openat(dirfd(directory), item->d_name,
                              O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
        if (fd >= 0 && !fstat(fd, &info) && S_ISREG(info.st_mode) && et_fd_lock(fd) != ET_EBUSY)
            unlinkat(dirfd(directory), item->d_name, 0);
        if (fd >= 0)
            close(fd);
    }
    if (directory)
        closedir(directory);
}

int et_file_writer_open(et_file_writer *writer, const char *path, et_error *error)
{
    et_path parent;
    struct stat info;
    writer->fd = -1;
    writer->length = 0;
    writer->failure.status = ET_OK;
    int status = et_path_check(path, error);
    if (status)
        return status;
    /* A rename would put a file in the place of /dev/null, or of a file that is write-protected. */
    const bool exists = !stat(path, &info);
    if (exists && refuse_special(&info, path, error))
        return ET_EDENIED;
    if (exists && faccessat(AT_FDCWD, path, W_OK, AT_EACCESS))
        return et_fail_errno(error, "cannot write %s", path);
    /* In the directory of path, because a rename cannot leave a file system. The name has the
     * process number, so two processes never write into one file. */
    const size_t length = append(&writer->path, 0, path, strlen(path));
    append(&writer->temporary, 0, path, length);
    snprintf(writer->temporary.text + length, sizeof writer->temporary.text - length, ".tmp.%ld",
             (long)getpid());
    /* One with this name is a leftover of a dead process that had our number. */
    writer->fd = open(writer->temporary.text,
                      O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (writer->fd < 0)
        return et_fail_errno(error, "cannot write %s", path);
    if (exists)
        fchmod(writer->fd, info.st_mode & 0777); /* a private file stays private */
    et_fd_lock(writer->fd); /* for sweep in other processes; some file systems have no locks */
    sweep(parent_of(&parent, path), writer->temporary.text);
    return ET_OK;
}

static int report(const et_file_writer *writer, et_error *error)
{
    const et_error *failure = &writer->failure;
    return failure->status ? et_fail(error, failure->status, "%s", failure->text) : ET_OK;
}

/* length counts the bytes of complete writes. */
void et_file_writer_put(et_file_writer *writer, const void *bytes, size_t length)
{
    et_assert(writer->fd >= 0);
    if (!writer->failure.status &&
        !et_fd_write(writer->fd, bytes, length, writer->path.text, &writer->failure))
        writer->length += length;
}

int et_file_writer_write(et_file_writer *writer, const void *bytes, size_t length, et_error *error)
{
    et_file_writer_put(writer, bytes, length);
    return report(writer, error);
}

/* An abandoned writer is closed, so abandoning twice is harmless. unlink after close: some network
 * file systems keep an open file's name alive. */
void et_file_writer_abandon(et_file_writer *writer)
{
    if (writer->fd < 0)
        return;
    close(writer->fd);
    unlink(writer->temporary.text);
    writer->fd = -1;
}

int et_file_writer_sync(et_file_writer *writer, et_error *error)
{
    et_assert(writer->fd >= 0);
    return fsync(writer->fd)
               ? et_fail_errno(error, "cannot write %s to the disk", writer->path.text)
               : ET_OK;
}

int et_file_writer_commit(et_file_writer *writer, et_error *error)
{
    /* Never retries: after a failed fsync the kernel may have dropped the pages, and a second fsync
     * would succeed although data are lost. */
    int status = report(writer, error);
    if (status || (status = et_file_writer_sync(writer, error))) {
        et_file_writer_abandon(writer);
        return status;
    }
    /* Network file systems report some failures at close only. Linux has closed it even after
     * EINTR, so it is never closed twice. */
    int fd = writer->fd;
    /* From here on abandoning would not close a descriptor that may be somebody else's
     * already. */
    writer->fd = -1;
    const char *path = writer->path.text, *temporary = writer->temporary.text;
    if (close(fd) && errno != EINTR)
        status = et_fail_errno(error, "cannot write %s to the disk", path);
    else if (rename(temporary, path))
        status = et_fail_errno(error, "cannot rename %s to %s", temporary, path);
    if (!status)
        return et_parent_sync(path, error);
    unlink(temporary);
    return status;
}

int et_file_writer_end(et_file_writer *writer, int status, et_error *error)
{
    if (!status)
        return et_file_writer_commit(writer, error);
    et_file_writer_abandon(writer);
    return status;
}

int et_file_write(const char *path, const void *bytes, size_t length, et_error *error)
{
    et_file_writer writer;
    int status = et_file_writer_open(&writer, path, error);
    if (status)
        return status;
    et_file_writer_put(&writer, bytes, length);
    return et_file_writer_commit(&writer, error);
}

/* First mkdir, then a check, because another process may make the same directory in between. *made:
 * the directory was missing. */
static int make_one(const char *path, bool *made, et_error *error)
{
    struct stat info;
    *made = mkdir(path, 0777) == 0;
    if (*made)
        return ET_OK;
    /* mkdir's, which says more than stat's: no right, no parent, a full disk. */
    int reason = errno;
    if (stat(path, &info) == 0) {
        /* A link to a directory counts as one: stat follows it. */
        if (S_ISDIR(info.st_mode))
            return ET_OK;
        return et_fail(error, ET_EDENIED,
                       "cannot make the directory %s: a file has this name; remove it or choose "
                       "another directory",
                       path);
    }
    errno = reason;
    return et_fail_errno(error, "cannot make the directory %s", path);
}

/* The lengths of the parts of "/a/b/c": 2, 4, 6; the root is not a part, and two slashes count as
 * one. 0: no part is longer than `length`. */
static size_t next_part(const char *path, size_t length)
{
    while (path[length] == '/')
        length++;
    if (!path[length])
        return 0;
    return length + strcspn(path + length, "/");
}

/* Removes the last `made` parts of path[length], innermost first. A directory that has an entry by
 * now stays. */
static void remove_parts(char *path, size_t length, int made)
{
    for (; made > 0; made--) {
        path[length] = 0;
        if (rmdir(path))
            return;
        while (length && path[length - 1] != '/')
            length--;
        while (length && path[length - 1] == '/')
            length--;
    }
}

/* The name of a new directory is made durable before any file in it counts as saved. path[parent]
 * is the end of its parent. A directory that may be written but not read can't be synchronized. */
static int sync_name(char *path, size_t parent, et_error *error)
{
    const char cut = path[parent];
    path[parent] = 0;
    const char *name = parent ? path : cut == '/' ? "/" : ".";
    int status = access(name, R_OK) && errno == EACCES ? ET_OK : et_directory_sync(name, error);
    path[parent] = cut;
    return status;
}

/* "a/b/c" makes a, a/b and a/b/c. A path that no system takes is refused before its parts are
 * made. */
int et_directory_make(const char *path, et_error *error)
{
    if (!path || !*path || strlen(path) >= PATH_MAX) {
        errno = path && *path ? ENAMETOOLONG : ENOENT;
        return et_fail_errno(error, "cannot make the directory %s", path ? path : "NULL");
    }
    /* A copy to cut after each part: the path is the caller's. */
    char *part = et_strdup(path);
    if (!part)
        return et_alloc_failed(error, path);
    int status = ET_OK, made = 0;
    size_t before = 0;
    for (size_t length; !status && (length = next_part(path, before)) != 0;) {
        bool anew;
        part[length] = 0;
        status = make_one(part, &anew, error);
        made += anew;
        memcpy(part, path, strlen(path) + 1);
        const size_t parent = before;
        before = status ? before : length;
        if (anew)
            status = sync_name(part, parent, error);
    }
    if (status)
        remove_parts(part, before, made);
    et_free(part);
    return status;
}

/* A directory cannot be written but it can be synchronized, through a descriptor for reading. */
int et_directory_sync(const char *path, et_error *error)
{
    /* O_DIRECTORY: a file of that name is refused, not synchronized by mistake. */
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return et_fail_errno(error, "cannot open the directory %s", path);
    int status = ET_OK;
    /* EINVAL: a file system that has no such call, and needs none. */
    if (fsync(fd) && errno != EINVAL)
        status = et_fail_errno(error, "cannot write the directory %s to the disk", path);
    close(fd);
    return status;
}

int et_parent_make(const char *path, et_error *error)
{
    et_path parent;
    return et_directory_make(parent_of(&parent, path), error);
}

int et_parent_sync(const char *path, et_error *error)
{
    et_path parent;
    return et_directory_sync(parent_of(&parent, path), error);
}

/* statvfs of path or, if path does not exist yet, of the nearest directory above it. */
static int space_of(struct statvfs *space, const char *path)
{
    char above[PATH_MAX];
    size_t length = strlen(path);
    if (length >= sizeof above) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(above, path, length + 1);
    /* "a/b/c", "a/b/", "a/", ".": one name is cut off at a time until something exists. */
    while (statvfs(length ? above : ".", space)) {
        if (errno != ENOENT || length == 0)
            return -1;
        while (length > 0 && above[length - 1] == '/')
            length--;
        while (length > 0 && above[length - 1] != '/')
            length--;
        above[length] = 0;
    }
    return 0;
}

int et_file_limit_check(const char *path, uint64_t need, et_error *error)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY ||
        need <= limit.rlim_cur)
        return ET_OK;
    return et_fail(error, ET_ENOSPACE,
                   "%s needs a file of %" PRIu64 " bytes, more than the limit of %" PRIu64
                   " bytes; raise the limit (ulimit -f)",
                   path, need, (uint64_t)limit.rlim_cur);
}

int et_disk_check(const char *path, uint64_t need, et_error *error)
{
    /* f_bavail and not f_bfree: what root keeps for itself is not ours. */
    struct statvfs space;
    if (space_of(&space, path))
        return et_fail_errno(error, "cannot find the free space at %s", path);
    /* Blocks times their size may be more than 64 bits on a network file system that does not
     * know. */
    uint64_t available;
    if (__builtin_mul_overflow((uint64_t)space.f_bavail, (uint64_t)space.f_frsize, &available))
        available = UINT64_MAX;
    if (need <= available)
        return ET_OK;
    return et_fail(error, ET_ENOSPACE,
                   "%s needs %" PRIu64 " bytes, but its disk has %" PRIu64
                   " bytes free; free some space or choose another directory",
                   path, need, available);
}

/* The process that holds the lock; 0 if the file does not name it (yet): the note is written
 * shortly after the lock is taken. */
static long lock_holder(int fd)
{
    /* A number and a line end, or any content of a file with that name. */
    char text[32];
    ssize_t length = pread(fd, text, sizeof text - 1, 0);
    if (length <= 0)
        return 0;
    text[length] = 0;
    long holder = strtol(text, NULL, 10);
    return holder > 0 ? holder : 0;
}

int et_fd_lock(int fd)
{
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return ET_OK;
    return errno == EWOULDBLOCK ? ET_EBUSY : ET_EIO;
}

/* The open may have made the file; if it was there, it may be a device. Only the holder of the lock
 * may write its number. */
static int lock_file(int fd, const char *path, et_error *error)
{
    struct stat info;
    if (fstat(fd, &info))
        return et_fail_errno(error, "cannot read the lock file %s", path);
    if (refuse_special(&info, path, error))
        return ET_EDENIED;
    const int status = et_fd_lock(fd);
    if (!status) {
        /* The number is only for another process's message; the lock itself is in the kernel. */
        char text[32];
        int length = snprintf(text, sizeof text, "%ld\n", (long)getpid());
        /* A number left by a holder before may have more digits. */
        if (ftruncate(fd, 0))
            return et_fail_errno(error, "cannot write the lock file %s", path);
        return et_fd_write(fd, text, (size_t)length, path, error);
    }
    return status == ET_EBUSY
               ? et_fail(error, status,
                         "%s is locked by process %ld; wait for it or use another directory", path,
                         lock_holder(fd))
               : et_fail_errno(error, "cannot lock %s", path);
}

/* Uses a lock of the kernel, not the existence of a file: the lock ends with the process for any
 * reason. A child that inherits the open file would keep the lock; therefore close-on-exec. */
int et_lock_take(int *out, const char *path, et_error *error)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    if (fd < 0)
        return et_fail_errno(error, "cannot open the lock file %s", path);
    int status = lock_file(fd, path, error);
    if (status) {
        close(fd);
        return status;
    }
    *out = fd;
    return ET_OK;
}

/* If the lock file was made again since, another process has had the lock, even if it has ended by
 * now. Then the files below it may have changed. */
int et_lock_check(int *lock, const char *path, et_error *error)
{
    et_assert(*lock >= 0);
    struct stat ours, there;
    int anew = -1;
    if (fstat(*lock, &ours))
        return et_fail_errno(error, "cannot read the lock file %s", path);
    if (stat(path, &there) == 0)
        return ours.st_dev == there.st_dev && ours.st_ino == there.st_ino
                   ? ET_OK
                   : et_fail(error, ET_EBUSY,
                             "%s was removed, and another process has made it again and uses the "
                             "directory; stop one of the two",
                             path);
    int status = errno == ENOENT ? et_lock_take(&anew, path, error)
                                 : et_fail_errno(error, "cannot read the lock file %s", path);
    if (status)
        return status;
    et_log(ET_LOG_WARNING, "%s was removed; Etude made and locked it again", path);
    et_lock_drop(*lock);
    *lock = anew;
    return ET_OK;
}

void et_lock_drop(int fd)
{
    /* The file stays: removing it would let two processes lock two files of one name. */
    if (fd >= 0)
        close(fd);
}

/* The mapping outlives the descriptor. An empty file cannot be mapped, so it has no data. Pages are
 * read when touched, and a file that is cut meanwhile raises SIGBUS. So map only files that are
 * replaced as a whole, as above. */
int et_mapping_open(et_mapping *mapping, const char *path, et_error *error)
{
    *mapping = (et_mapping){ NULL, 0 };
    int fd = -1;
    struct stat info;
    int status = open_regular(&fd, &info, path, error);
    if (status)
        return status;
    if (info.st_size > 0) {
        /* Private: nothing is written, and no change of the mapping could reach the file. */
        void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED)
            status = et_fail_errno(error, "cannot map %s", path);
        else
            *mapping = (et_mapping){ data, (size_t)info.st_size };
    }
    close(fd);
    return status;
}

/* Also the rest of the first page and of the last. */
int et_mapping_unlock(const et_mapping *mapping, const void *from, size_t length, et_error *error)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t at = (size_t)((const char *)from - (const char *)mapping->data);
    const size_t begin = at / page * page;
    et_assert(at + length <= mapping->length);
    return mprotect((char *)mapping->data + begin, at + length - begin, PROT_READ | PROT_WRITE)
               ? et_fail_errno(error, "cannot copy %zu bytes of a mapped file", length)
               : ET_OK;
}

/* Whole pages only; the file still has them. */
void et_mapping_forget(const et_mapping *mapping, const void *from, size_t length)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t at = (size_t)((const char *)from - (const char *)mapping->data);
    const size_t begin = (at + page - 1) / page * page, end = (at + length) / page * page;
    et_assert(at + length <= mapping->length);
    if (begin < end)
        madvise((char *)mapping->data + begin, end - begin, MADV_DONTNEED);
}

/* Closing twice is harmless. */
void et_mapping_close(et_mapping *mapping)
{
    if (mapping->data)
        munmap((void *)mapping->data, mapping->length);
    *mapping = (et_mapping){ NULL, 0 };
}

/* Most often a variable of a script that is not set. */
int et_path_check(const char *path, et_error *error)
{
    return path && *path ? ET_OK
                         : et_fail(error, ET_ENOTFOUND, "the path of a file is empty; name a file");
}

et_path et_path_print(const char *format, ...)
{
    et_path path;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(path.text, sizeof path.text, format, arguments);
    va_end(arguments);
    return path;
}

/* "" and "b" give "b"; "a" or "a/" and "b" give "a/b". Without memcpy, which would take the address
 * of path: gcc would then not build it in place. */
et_path et_path_of(const char *directory, const char *name)
{
    et_path path;
    size_t at = 0;
    while (*directory && at < PATH_MAX)
        path.text[at++] = *directory++;
    if (at && at < PATH_MAX && path.text[at - 1] != '/')
        path.text[at++] = '/';
    while (*name && at < PATH_MAX)
        path.text[at++] = *name++;
    path.text[at] = '\0';
    return path;
}

char *et_path_join(const char *directory, const char *name)
{
    return et_strdup(et_path_of(directory, name).text);
}

et_path et_path_parent(const char *path)
{
    et_path parent;
    parent_of(&parent, path);
    return parent;
}

static bool is_up(const char *part, size_t length)
{
    return length == 2 && part[0] == '.' && part[1] == '.';
}

/* The length of out without its last part, where ".." leads; SIZE_MAX: ".." has to stay. root: the
 * slashes at the beginning. */
static size_t length_above(const char *out, size_t length, size_t root)
{
    struct stat info;
    if (length == root)
        return root ? root : SIZE_MAX;
    size_t last = length;
    while (last > root && out[last - 1] != '/')
        last--;
    if (is_up(out + last, length - last) || (!lstat(out, &info) && S_ISLNK(info.st_mode)))
        return SIZE_MAX;
    return last > root ? last - 1 : root;
}

/* Two slashes at the beginning, and no other number, may have a meaning of their own (POSIX). */
et_path et_path_normal(const char *path)
{
    const size_t slashes = strspn(path, "/"), root = slashes == 2 ? 2 : slashes > 0;
    et_path out = { "//" };
    size_t length = root, size, above;
    if (strlen(path) == PATH_MAX)
        return et_path_print("%s", path);
    out.text[length] = '\0';
    for (const char *part = path + slashes; *part; part += size + strspn(part + size, "/")) {
        size = strcspn(part, "/");
        if (size == 1 && *part == '.')
            continue;
        if (is_up(part, size) && (above = length_above(out.text, length, root)) != SIZE_MAX) {
            length = above;
        } else if (length + size + 1 > PATH_MAX) {
            return et_path_print("%s", path);
        } else {
            if (length > root)
                out.text[length++] = '/';
            memcpy(out.text + length, part, size);
            length += size;
        }
        out.text[length] = '\0';
    }
    return length ? out : et_path_print(".");
}

size_t et_path_length(const char *path)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    return length;
}

/* "b" for "a/b" and "b", "" for "a/". */
const char *et_path_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool et_path_ends(const char *path, const char *ending)
{
    const size_t length = strlen(path), wanted = strlen(ending);
    return length > wanted && !strcasecmp(path + length - wanted, ending);
}

bool et_path_leads_out(const char *path)
{
    bool up = *path == '/';
    for (const char *part = path; *part && !up; part += strspn(part, "/")) {
        const size_t length = strcspn(part, "/");
        up = is_up(part, length);
        part += length;
    }
    return up;
}

static double seconds_of(struct timespec time)
{
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Linux dates files by the coarse clock; another clock may be ahead of them. */
double et_file_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return seconds_of(now);
}

double et_file_written(const char *path)
{
    struct stat info;
    return stat(path, &info) ? (double)NAN : seconds_of(info.st_mtim);
}

bool et_file_exists(const char *path)
{
    struct stat info;
    return path && stat(path, &info) == 0;
}

bool et_file_exists_in(const char *directory, const char *name)
{
    return et_file_exists(et_path_of(directory, name).text);
}

bool et_directory_exists(const char *path)
{
    struct stat info;
    return path && stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

int et_directory_check(const char *path, et_error *error)
{
    struct stat info;
    return path && stat(et_path_of(path, ".").text, &info) && errno == EACCES
               ? et_fail_errno(error, "cannot open %s", path)
               : ET_OK;
}

/* The owner is the process number at the end of "*.tmp.PID": "ckpt-5.safetensors.tmp.123" -> 123.
 * kill(pid, 0) sends nothing and tells whether the process exists; without permission, it
 * exists. */
bool et_file_is_left_over(const char *name)
{
    static const char mark[] = ".tmp.";
    const char *at = strstr(name, mark);
    if (at == NULL || at == name)
        return false;
    char *end;
    errno = 0;
    const long owner = strtol(at + sizeof mark - 1, &end, 10);
    return !errno && !*end && owner > 0 && owner <= INT32_MAX &&
           (owner == getpid() || (kill((pid_t)owner, 0) && errno == ESRCH));
}
