/* Opening compares the file with the checkpoint's offset:
 *
 *   file        given offset      then
 *   longer      n                 cut off at n: later pieces are dropped
 *   as long     n                 continued
 *   shorter     n                 cut off after its last complete piece, with a warning
 *   any         CONTINUE          cut off after its last complete piece
 *
 * The caller defines a piece (et_append_whole_fn): a record, a line.
 *
 * Invariants:
 *
 *   (1) between calls, offset is the length of the file and a boundary of pieces: a write that
 *       fails is cut off again;
 *   (2) bytes before offset are never written again. */
#include "formats/append.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/text/format.h"

/* How much of an open file stays. An offset that the file has is believed without reading it. */
static int length_to_keep(uint64_t *out, const et_append *file, int64_t offset,
                          et_append_whole_fn *whole, et_error *error)
{
    struct stat info;
    if (fstat(file->fd, &info))
        return et_fail_errno(error, "cannot read %s", file->path);
    if (!S_ISREG(info.st_mode))
        return et_fail(error, ET_EIO, "%s: not a regular file; move it away", file->path);
    if (offset != ET_APPEND_CONTINUE && offset <= info.st_size) {
        *out = (uint64_t)offset;
        return ET_OK;
    }
    const int status = whole(out, file->path, error);
    if (!status && offset != ET_APPEND_CONTINUE)
        et_log(ET_LOG_WARNING,
               "%s: %s bytes were written before, but now the file has only %s: the rest is lost",
               file->path, et_format_count(offset).text, et_format_count((int64_t)*out).text);
    return status;
}

/* Also moves the file position to the place of the next write. */
static int cut(const et_append *file, et_error *error)
{
    if (ftruncate(file->fd, (off_t)file->offset) ||
        lseek(file->fd, (off_t)file->offset, SEEK_SET) < 0)
        return et_fail_errno(error, "cannot truncate %s", file->path);
    return ET_OK;
}

/* The file is made if it is not there; its directory is the caller's. */
int et_append_open(et_append *file, const char *path, int64_t offset, et_append_whole_fn *whole,
                   et_error *error)
{
    et_assert(path && whole);
    et_assert(offset >= ET_APPEND_CONTINUE);
    *file = (et_append){ .fd = -1, .path = et_strdup(path), .whole = whole };
    if (file->path == NULL)
        return et_alloc_failed(error, "a path");
    /* Non-blocking, in case the name is a pipe. */
    file->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    int status;
    if ((file->fd < 0 && (status = et_fail_errno(error, "cannot open %s", path))) ||
        (status = length_to_keep(&file->offset, file, offset, whole, error)) ||
        (status = cut(file, error))) {
        if (file->fd >= 0)
            close(file->fd);
        et_free(file->path);
        *file = (et_append){ .fd = -1 };
    }
    return status;
}

/* offset moves only when all bytes are written. */
int et_append_write(et_append *file, const void *bytes, size_t length, et_error *error)
{
    et_assert(file->fd >= 0);
    int status = file->torn ? cut(file, error) : ET_OK;
    if (status)
        return status;
    file->torn = false;
    status = et_fd_write(file->fd, bytes, length, file->path, error);
    if (status) {
        file->torn = cut(file, NULL) != ET_OK; /* the first error says more */
        return status;
    }
    file->offset += length;
    return ET_OK;
}

/* The old file is let go only when there is another; its folder may have gone with it. */
int et_append_follow(et_append *file, bool *moved, et_error *error)
{
    et_assert(file->fd >= 0);
    /* The name no longer belongs to the file, or the file has lost written bytes. */
    struct stat ours, there;
    *moved = fstat(file->fd, &ours) || stat(file->path, &there) || ours.st_dev != there.st_dev ||
             ours.st_ino != there.st_ino || (uint64_t)ours.st_size < file->offset;
    if (!*moved)
        return ET_OK;
    et_append anew;
    int status;
    if ((status = et_parent_make(file->path, error)) ||
        (status = et_append_open(&anew, file->path, ET_APPEND_CONTINUE, file->whole, error)))
        return status;
    et_log(ET_LOG_WARNING,
           "another program removed, replaced or truncated %s; writing continues after %s bytes",
           file->path, et_format_count((int64_t)anew.offset).text);
    close(file->fd);
    et_free(file->path);
    *file = anew;
    return ET_OK;
}

/* fsync of the file makes its bytes durable, fsync of the directory its name. */
int et_append_flush(et_append *file, et_error *error)
{
    et_assert(file->fd >= 0);
    if (fsync(file->fd))
        return et_fail_errno(error, "cannot write %s to the disk", file->path);
    /* Synchronizes once, also for an existing file: the process that made it may have died before.
     */
    const int status = file->listed ? ET_OK : et_parent_sync(file->path, error);
    file->listed = !status;
    return status;
}

/* close itself may report a write that failed late (NFS does). */
int et_append_close(et_append *file, et_error *error)
{
    et_assert(file->fd >= 0);
    int status = et_append_flush(file, error);
    if (close(file->fd) && !status)
        status = et_fail_errno(error, "cannot write %s to the disk", file->path);
    et_free(file->path);
    *file = (et_append){ .fd = -1 };
    return status;
}
