/* A directory of several files: all files become visible or none, however the process ends.
 *
 * DIR is missing or empty: the files are written to .DIR.export.tmp.PID in the same folder, made
 * durable, then the folder is renamed.
 *
 * DIR has other files, or cannot be replaced (it is a link, a mount, the working directory or
 * another user's, or has attributes): the files are written to DIR/.export.tmp.PID and made
 * durable. Each file then gets a second name in DIR, in order. Then the folder is renamed to
 * .export.done.tmp.PID and removed. After a kill between two names, the files named so far stay
 * until the next export.
 *
 * Leftovers of a killed process are recognized by their names and by a lock that no living process
 * holds. In DIR, a leftover is the same file as one of the draft. Only leftovers are removed. */
#include "base/files/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text/strbuf.h"

/* Then the process' number. */
#define DRAFT ".export.tmp."
#define DONE  ".export.done.tmp."

typedef struct publication {
    const char *directory; /* directory of the export, without a slash at its end */
    const char *const *names;
    int count;
    char *above;  /* the folder that directory is in; owned */
    char *beside; /* what names of drafts in it begin with; owned */
    bool inside;  /* the draft is in directory, and not in above */
    char *draft;  /* owned; NULL: not made */
    int lock;     /* the draft, open and locked; -1: it is not */
} publication;

static int no_memory(const publication *p, et_error *error)
{
    return et_alloc_failed(error, strlen(p->directory), "a path");
}

/* ---- leftovers of a killed process ---- */

/* "model.safetensors", or "model.safetensors.tmp.123" before it had its name. */
static bool is_ours(const publication *p, const char *name, bool *whole)
{
    for (int i = 0; i < p->count; i++) {
        const size_t length = strlen(p->names[i]);
        if (strncmp(name, p->names[i], length) != 0)
            continue;
        *whole = !name[length];
        if (*whole || !strncmp(name + length, ".tmp.", 5))
            return true;
    }
    return false;
}

/* Removes `name` from the directory if it is a second name of the draft's file. */
static void remove_second_name(const publication *p, int draft, const char *name)
{
    struct stat one, other;
    int folder = open(p->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return;
    if (!fstatat(draft, name, &one, AT_SYMLINK_NOFOLLOW) &&
        !fstatat(folder, name, &other, AT_SYMLINK_NOFOLLOW) && one.st_dev == other.st_dev &&
        one.st_ino == other.st_ino)
        unlinkat(folder, name, 0);
    close(folder);
}

/* seconds: second names as well. Stays where something else is in it. */
static void remove_draft(const publication *p, const char *path, bool seconds)
{
    DIR *stream = opendir(path);
    for (const struct dirent *item; stream && (item = readdir(stream)) != NULL;) {
        bool whole;
        if (!is_ours(p, item->d_name, &whole))
            continue;
        if (whole && seconds)
            remove_second_name(p, dirfd(stream), item->d_name);
        unlinkat(dirfd(stream), item->d_name, 0);
    }
    if (stream)
        closedir(stream);
    rmdir(path);
}

/* -1: another process works there, or it cannot be known. */
static int lock_draft(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && et_fd_lock(fd)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* seconds: of drafts that are not done. */
static int sweep(const publication *p, const char *folder, const char *prefix, bool seconds,
                 et_error *error)
{
    int status = ET_OK;
    DIR *stream = opendir(folder);
    for (const struct dirent *item; stream && !status && (item = readdir(stream)) != NULL;) {
        if (strncmp(item->d_name, prefix, strlen(prefix)) != 0 ||
            !et_file_is_left_over(item->d_name))
            continue;
        char *path = et_path_join(folder, item->d_name);
        int lock = path ? lock_draft(path) : -1;
        if (lock >= 0) {
            remove_draft(p, path, seconds);
            close(lock);
        }
        status = path ? ET_OK : no_memory(p, error);
        et_free(path);
    }
    if (stream)
        closedir(stream);
    return status;
}

/* ---- the draft ---- */

/* Its name in a folder, which begins with prefix. Owned; NULL: no memory. */
static char *draft_name(const char *folder, const char *prefix)
{
    char number[32];
    snprintf(number, sizeof number, "%ld", (long)getpid());
    char *name = et_alloc(strlen(prefix) + sizeof number, 1), *path = NULL;
    if (name) {
        snprintf(name, strlen(prefix) + sizeof number, "%s%s", prefix, number);
        path = et_path_join(folder, name);
    }
    et_free(name);
    return path;
}

static int make_draft(publication *p, et_error *error)
{
    p->draft = p->inside ? draft_name(p->directory, DRAFT) : draft_name(p->above, p->beside);
    if (!p->draft)
        return no_memory(p, error);
    if (mkdir(p->draft, 0777)) {
        int status = et_fail_errno(error, "cannot make the directory %s", p->draft);
        et_free(p->draft);
        p->draft = NULL;
        return status;
    }
    p->lock = lock_draft(p->draft);
    return ET_OK;
}

static bool is_empty(const char *path)
{
    int entries = 0;
    DIR *stream = opendir(path);
    if (!stream)
        return false;
    for (const struct dirent *item; (item = readdir(stream)) != NULL;)
        entries += strcmp(item->d_name, ".") != 0 && strcmp(item->d_name, "..") != 0;
    closedir(stream);
    return !entries;
}

static bool is_mount(const char *path)
{
#ifdef STATX_ATTR_MOUNT_ROOT
    struct statx info;
    return !statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, 0, &info) &&
           (info.stx_attributes & STATX_ATTR_MOUNT_ROOT);
#else
    (void)path;
    return false;
#endif
}

/* Whether the draft may replace the existing directory. Replacing an empty directory loses only its
 * own attributes. */
static bool is_replaceable(const publication *p)
{
    struct stat own, above, here;
    return !lstat(p->directory, &own) && !stat(p->above, &above) && !stat(".", &here) &&
           S_ISDIR(own.st_mode) && own.st_uid == geteuid() && own.st_dev == above.st_dev &&
           (own.st_dev != here.st_dev || own.st_ino != here.st_ino) && !is_mount(p->directory) &&
           listxattr(p->directory, NULL, 0) <= 0 && !access(p->above, W_OK | X_OK) &&
           is_empty(p->directory);
}

static int begin(publication *p, et_error *error)
{
    int status = ET_OK;
    const char *base = et_path_base(p->directory);
    p->above = et_path_parent(p->directory);
    p->beside = et_alloc(strlen(base) + sizeof "." DRAFT, 1);
    if (!p->above || !p->beside)
        return no_memory(p, error);
    snprintf(p->beside, strlen(base) + sizeof "." DRAFT, ".%s" DRAFT, base);
    const bool named = *base && strcmp(base, ".") != 0 && strcmp(base, "..") != 0;
    const bool there = et_directory_exists(p->directory);
    if (!there && et_file_exists(p->directory))
        status = et_directory_make(p->directory, error); /* says that a file has the name */
    if (!status)
        status = et_directory_make(p->above, error);
    if (!status)
        status = sweep(p, p->above, p->beside, false, error);
    if (!status && there)
        status = sweep(p, p->directory, DRAFT, true, error);
    if (!status && there)
        status = sweep(p, p->directory, DONE, false, error);
    for (int i = 0; !status && i < p->count; i++)
        if (et_file_exists_in(p->directory, p->names[i]))
            status =
                et_fail(error, ET_ECONFIG, "%s/%s exists: choose another directory, or remove it",
                        p->directory, p->names[i]);
    p->inside = there && !(named && is_replaceable(p));
    return status ? status : make_draft(p, error);
}

/* ---- its place ---- */

/* A file system without second names: the first is changed. */
static int move_one(const char *from, const char *to)
{
    if (!link(from, to))
        return 0;
    const bool unknown =
        errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS || errno == EMLINK;
    if (unknown && !et_file_exists(to))
        return rename(from, to);
    return -1;
}

/* These files did not exist before. */
static void take_back(const publication *p, int count)
{
    for (int i = 0; i < count; i++) {
        char *path = et_path_join(p->directory, p->names[i]);
        if (path)
            unlink(path);
        et_free(path);
    }
}

static int move_files(const publication *p, et_error *error)
{
    int status = ET_OK, moved = 0;
    while (!status && moved < p->count) {
        char *from = et_path_join(p->draft, p->names[moved]);
        char *to = et_path_join(p->directory, p->names[moved]);
        if (!from || !to)
            status = no_memory(p, error);
        else if (move_one(from, to))
            status = et_fail_errno(error, "cannot make %s", to);
        moved += !status;
        et_free(from);
        et_free(to);
    }
    if (!status)
        status = et_directory_sync(p->directory, error);
    if (status)
        take_back(p, moved);
    return status;
}

/* From here on the files in the directory are not the draft's. */
static int name_done(publication *p, et_error *error)
{
    char *done = draft_name(p->directory, DONE);
    if (!done)
        return no_memory(p, error);
    int status =
        rename(p->draft, done) ? et_fail_errno(error, "cannot rename %s", p->draft) : ET_OK;
    et_free(status ? done : p->draft);
    p->draft = status ? p->draft : done;
    return status;
}

/* The draft is as open to others as the empty directory that it replaces. */
static bool take_rights(const publication *p)
{
    struct stat own, draft;
    if (stat(p->directory, &own))
        return errno == ENOENT;
    return !stat(p->draft, &draft) && own.st_uid == draft.st_uid &&
           (own.st_gid == draft.st_gid || !chown(p->draft, (uid_t)-1, own.st_gid)) &&
           !chmod(p->draft, own.st_mode & 07777);
}

/* Something has come into the directory since. */
static int move_inside(publication *p, et_error *error)
{
    char *inside = draft_name(p->directory, DRAFT);
    if (!inside)
        return no_memory(p, error);
    int status = rename(p->draft, inside)
                     ? et_fail_errno(error, "cannot rename %s to %s", p->draft, inside)
                     : ET_OK;
    et_free(status ? inside : p->draft);
    p->draft = status ? p->draft : inside;
    p->inside = true;
    return status;
}

static int publish(publication *p, et_error *error)
{
    const bool whole = !p->inside && take_rights(p);
    if (whole && !rename(p->draft, p->directory)) {
        et_free(p->draft);
        p->draft = NULL;
        return et_parent_sync(p->directory, error);
    }
    const int reason = errno;
    if (whole && !et_directory_exists(p->directory)) {
        errno = reason; /* a full disk, most often */
        return et_fail_errno(error, "cannot rename %s to %s", p->draft, p->directory);
    }
    int status = p->inside ? ET_OK : move_inside(p, error);
    if (!status)
        status = move_files(p, error);
    if (!status && (status = name_done(p, error)) != ET_OK)
        take_back(p, p->count);
    return status;
}

int et_directory_write(const char *directory, const char *const *names, int count,
                       et_directory_write_fn *write, void *self, et_error *error)
{
    if (!directory || !*directory)
        return et_fail(error, ET_ECONFIG, "the directory to write has no name");
    char *trimmed = et_strndup(directory, et_path_length(directory));
    publication p = { .directory = trimmed, .names = names, .count = count, .lock = -1 };
    int status = trimmed ? begin(&p, error) : et_alloc_failed(error, strlen(directory), "a path");
    for (int i = 0; i < count && !status; i++) {
        char *path = et_path_join(p.draft, names[i]);
        status = path ? write(self, i, path, error) : no_memory(&p, error);
        et_free(path);
    }
    if (!status)
        status = et_directory_sync(p.draft, error);
    if (!status)
        status = publish(&p, error);
    if (p.draft)
        remove_draft(&p, p.draft, false);
    if (p.lock >= 0)
        close(p.lock);
    et_free(p.draft);
    et_free(p.above);
    et_free(p.beside);
    et_free(trimmed);
    return status;
}

int et_scratch_open(char **directory, const char *name, et_error *error)
{
    const char *position = getenv("TMPDIR");
    et_strbuf path = ET_STRBUF_INIT;
    et_strbuf_printf(&path, "%s/%s.XXXXXX", position && *position ? position : "/tmp", name);
    *directory = path.failed ? NULL : et_strdup(et_strbuf_text(&path));
    et_strbuf_release(&path);
    if (!*directory)
        return et_alloc_failed(error, 0, "a path");
    if (mkdtemp(*directory))
        return ET_OK;
    int status = et_fail_errno(error, "%s", *directory);
    et_free(*directory);
    *directory = NULL;
    return et_fail_while(error, status, "a temporary directory in TMPDIR (default: /tmp)");
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info, (void)kind, (void)at;
    remove(path);
    return 0;
}

/* Made by mkdtemp, so all that is in it is of this process. */
void et_scratch_close(char *directory)
{
    if (directory)
        nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    et_free(directory);
}
