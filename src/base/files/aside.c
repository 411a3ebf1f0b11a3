#include "base/files/aside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <etude/log.h>

#include "base/files/file.h"

/* Names that the warning has in full. */
#define SAID 3

typedef struct aside {
    const char *directory;
    const char *const *names; /* [count] */
    size_t count;
    bool links;     /* second names */
    bool alone;     /* the folder has only these files */
    et_path folder; /* where they are kept */
    size_t placed;  /* number of names linked or moved */
} aside;

/* ---- which folder ---- */

/* The N of "earlier-N"; 0: another name. */
static long number_of(const char *name)
{
    const size_t length = strlen(ET_ASIDE_PREFIX);
    if (strncmp(name, ET_ASIDE_PREFIX, length) != 0 || name[length] < '1' || name[length] > '9')
        return 0;
    char *end;
    errno = 0;
    long number = strtol(name + length, &end, 10);
    return errno || *end || number >= INT32_MAX ? 0 : number;
}

static int highest_number(long *highest, const char *directory, et_error *error)
{
    DIR *stream = opendir(directory);
    *highest = 0;
    if (!stream)
        return et_fail_errno(error, "cannot read the directory %s", directory);
    for (const struct dirent *item; (item = readdir(stream)) != NULL;) {
        long number = number_of(item->d_name);
        *highest = number > *highest ? number : *highest;
    }
    closedir(stream);
    return ET_OK;
}

static et_path folder_name(const char *directory, long number)
{
    char name[sizeof ET_ASIDE_PREFIX + 20];
    snprintf(name, sizeof name, ET_ASIDE_PREFIX "%ld", number);
    return et_path_of(directory, name);
}

/* Reads the status of an entry of a directory. Returns an errno, 0 for success. Allocates
 * nothing. */
static int look_at(struct stat *info, const char *directory, const char *name)
{
    int fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    int failed = fstatat(fd, name, info, AT_SYMLINK_NOFOLLOW) ? errno : 0;
    close(fd);
    return failed;
}

/* Whether the files can go into the folder: no other file there has one of their names. */
static bool has_room(const aside *a)
{
    bool begun = !a->alone;
    for (size_t i = 0; i < a->count; i++) {
        struct stat here = { 0 }, there = { 0 };
        const int failed = look_at(&there, a->folder.text, a->names[i]);
        if (failed == ENOENT)
            continue;
        if (failed || look_at(&here, a->directory, a->names[i]) || here.st_ino != there.st_ino ||
            here.st_dev != there.st_dev)
            return false;
        begun = true;
    }
    return begun;
}

static int choose_folder(aside *a, et_error *error)
{
    long highest;
    int status = highest_number(&highest, a->directory, error);
    if (status)
        return status;
    a->folder = folder_name(a->directory, highest ? highest : 1);
    if (highest && !has_room(a))
        a->folder = folder_name(a->directory, highest + 1);
    return et_directory_make(a->folder.text, error);
}

/* ---- placing ---- */

static int restore_name(aside *a, const char *name, et_error *error)
{
    const et_path from = et_path_of(a->directory, name), to = et_path_of(a->folder.text, name);
    int failed = a->links ? link(from.text, to.text) : rename(from.text, to.text);
    if (failed && a->links &&
        (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS || errno == EMLINK))
        failed = rename(from.text, to.text);
    if (failed && errno == ENOENT)
        return ET_OK;
    if (failed && errno != EEXIST) /* a second name that it has already */
        return et_fail_errno(error, "cannot keep %s as %s", from.text, to.text);
    a->placed++;
    return ET_OK;
}

static int set_aside(aside *a, et_error *error)
{
    struct stat info;
    bool any = false;
    for (size_t i = 0; i < a->count && !any; i++)
        any = look_at(&info, a->directory, a->names[i]) != ENOENT;
    if (!any)
        return ET_OK;
    int status = choose_folder(a, error);
    for (size_t i = 0; i < a->count && !status; i++)
        status = restore_name(a, a->names[i], error);
    if (status || (status = et_directory_sync(a->folder.text, error)) ||
        (status = et_directory_sync(a->directory, error)) || !a->placed)
        return status;
    char text[SAID * 256] = "";
    int length = 0;
    for (size_t i = 0; i < a->count && i < SAID; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, "%s%.200s", i ? ", " : "",
                           a->names[i]);
    if (a->count > SAID)
        snprintf(text + length, sizeof text - (size_t)length, " and %zu more", a->count - SAID);
    et_log(ET_LOG_WARNING,
           "%s: %s come from earlier work that this run does not resume; kept in %s", a->directory,
           text, a->folder.text);
    return ET_OK;
}

int et_aside_link(const char *directory, const char *const *names, size_t count, et_error *error)
{
    aside a = {
        .directory = directory, .names = names, .count = count, .links = true, .alone = true
    };
    return set_aside(&a, error);
}

int et_aside_move(const char *directory, const char *const *names, size_t count, et_error *error)
{
    aside a = { .directory = directory, .names = names, .count = count };
    return set_aside(&a, error);
}

static int set_path_aside(const char *path, bool links, et_error *error)
{
    et_path directory = et_path_parent(path);
    const char *name = et_path_base(path);
    directory.text[et_path_length(directory.text)] = '\0'; /* no slash at its end, for messages */
    aside a = { .directory = directory.text, .names = &name, .count = 1, .links = links };
    return set_aside(&a, error);
}

int et_aside_move_path(const char *path, et_error *error)
{
    return set_path_aside(path, false, error);
}

/* ---- cutting ---- */

int et_aside_truncate(const char *path, uint64_t length, et_error *error)
{
    struct stat info;
    if (stat(path, &info) || !S_ISREG(info.st_mode) || (uint64_t)info.st_size <= length)
        return ET_OK;
    if (!length)
        return et_aside_move_path(path, error);
    /* The new file is whole under another name before the old one gives its name up. */
    et_mapping all;
    int status = et_mapping_open(&all, path, error);
    if (status)
        return status;
    status = set_path_aside(path, true, error);
    if (!status)
        status = et_file_write(path, all.data, length, error);
    et_mapping_close(&all);
    return status;
}
