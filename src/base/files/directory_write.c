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
    et_path above;  /* the folder that directory is in */
    et_path beside; /* what names of drafts in it begin with */
    bool inside;    /* the draft is in directory, and not in above */
    et_path draft;  /* "": not made */
    int lock;       /* the draft, open and locked; -1: it is not */
} publication;

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
static void sweep(const publication *p, const char *folder, const char *prefix, bool seconds)
{
    DIR *stream = opendir(folder);
    for (const struct dirent *item; stream && (item = readdir(stream)) != NULL;) {
        if (strncmp(item->d_name, prefix, strlen(prefix)) != 0 ||
            !et_file_is_left_over(item->d_name))
            continue;
        const et_path path = et_path_of(folder, item->d_name);
        const int lock = lock_draft(path.text);
        if (lock < 0)
            continue;
        remove_draft(p, path.text, seconds);
        close(lock);
    }
    if (stream)
        closedir(stream);
}

/* ---- the draft ---- */

/* Its name in a folder, which begins with prefix. */
static et_path draft_name(const char *folder, const char *prefix)
{
    return et_path_of(folder, et_path_print("%s%ld", prefix, (long)getpid()).text);
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
    return !lstat(p->directory, &own) && !stat(p->above.text, &above) && !stat(".", &here) &&
           S_ISDIR(own.st_mode) && own.st_uid == geteuid() && own.st_dev == above.st_dev &&
           (own.st_dev != here.st_dev || own.st_ino != here.st_ino) && !is_mount(p->directory) &&
           listxattr(p->directory, NULL, 0) <= 0 && !access(p->above.text, W_OK | X_OK) &&
           is_empty(p->directory);
}

static int begin(publication *p, et_error *error)
{
    int status = ET_OK;
    const char *base = et_path_base(p->directory);
    p->above = et_path_parent(p->directory);
    p->beside = et_path_print(".%s" DRAFT, base);
    const bool named = *base && strcmp(base, ".") != 0 && strcmp(base, "..") != 0;
    const bool there = et_directory_exists(p->directory);
    if (!there && et_file_exists(p->directory))
        status = et_directory_make(p->directory, error); /* says that a file has the name */
    if (status || (status = et_directory_make(p->above.text, error)))
        return status;
    sweep(p, p->above.text, p->beside.text, false);
    if (there) {
        sweep(p, p->directory, DRAFT, true);
        sweep(p, p->directory, DONE, false);
    }
    for (int i = 0; i < p->count; i++)
        if (et_file_exists_in(p->directory, p->names[i]))
            return et_fail(error, ET_ECONFIG,
                           "%s/%s exists: choose another directory, or remove it", p->directory,
                           p->names[i]);
    p->inside = there && !(named && is_replaceable(p));
    const et_path draft =
        p->inside ? draft_name(p->directory, DRAFT) : draft_name(p->above.text, p->beside.text);
    if (mkdir(draft.text, 0777))
        return et_fail_errno(error, "cannot make the directory %s", draft.text);
    p->draft = draft;
    p->lock = lock_draft(draft.text);
    return ET_OK;
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
    for (int i = 0; i < count; i++)
        unlink(et_path_of(p->directory, p->names[i]).text);
}

static int move_files(const publication *p, et_error *error)
{
    int status = ET_OK, moved = 0;
    while (!status && moved < p->count) {
        const et_path to = et_path_of(p->directory, p->names[moved]);
        if (move_one(et_path_of(p->draft.text, p->names[moved]).text, to.text))
            status = et_fail_errno(error, "cannot make %s", to.text);
        moved += !status;
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
    const et_path done = draft_name(p->directory, DONE);
    if (rename(p->draft.text, done.text))
        return et_fail_errno(error, "cannot rename %s", p->draft.text);
    p->draft = done;
    return ET_OK;
}

/* The draft is as open to others as the empty directory that it replaces. */
static bool take_rights(const publication *p)
{
    struct stat own, draft;
    if (stat(p->directory, &own))
        return errno == ENOENT;
    return !stat(p->draft.text, &draft) && own.st_uid == draft.st_uid &&
           (own.st_gid == draft.st_gid || !chown(p->draft.text, (uid_t)-1, own.st_gid)) &&
           !chmod(p->draft.text, own.st_mode & 07777);
}

/* Something has come into the directory since. */
static int move_inside(publication *p, et_error *error)
{
    const et_path inside = draft_name(p->directory, DRAFT);
    p->inside = true;
    if (rename(p->draft.text, inside.text))
        return et_fail_errno(error, "cannot rename %s to %s", p->draft.text, inside.text);
    p->draft = inside;
    return ET_OK;
}

static int publish(publication *p, et_error *error)
{
    const bool whole = !p->inside && take_rights(p);
    if (whole && !rename(p->draft.text, p->directory)) {
        p->draft.text[0] = '\0';
        return et_parent_sync(p->directory, error);
    }
    const int reason = errno;
    if (whole && !et_directory_exists(p->directory)) {
        errno = reason; /* a full disk, most often */
        return et_fail_errno(error, "cannot rename %s to %s", p->draft.text, p->directory);
    }
    int status;
    if ((!p->inside && (status = move_inside(p, error))) || (status = move_files(p, error)))
        return status;
    status = name_done(p, error);
    if (status)
        take_back(p, p->count);
    return status;
}

int et_directory_write(const char *directory, const char *const *names, int count,
                       et_directory_write_fn *write, void *self, et_error *error)
{
    if (!directory || !*directory)
        return et_fail(error, ET_ECONFIG, "the directory to write has no name");
    const et_path trimmed = et_path_print("%.*s", (int)et_path_length(directory), directory);
    publication p = { .directory = trimmed.text, .names = names, .count = count, .lock = -1 };
    int status = begin(&p, error);
    for (int i = 0; i < count && !status; i++)
        status = write(self, i, et_path_of(p.draft.text, names[i]).text, error);
    if (!status && !(status = et_directory_sync(p.draft.text, error)))
        status = publish(&p, error);
    if (*p.draft.text)
        remove_draft(&p, p.draft.text, false);
    if (p.lock >= 0)
        close(p.lock);
    return status;
}

int et_scratch_open(char **directory, const char *name, et_error *error)
{
    const char *position = getenv("TMPDIR");
    et_strbuf path = ET_STRBUF_INIT;
    et_strbuf_printf(&path, "%s/%s.XXXXXX", position && *position ? position : "/tmp", name);
    *directory = et_strbuf_detach(&path);
    if (!*directory)
        return et_alloc_failed(error, "a path");
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
