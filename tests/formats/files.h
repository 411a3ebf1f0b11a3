/* File systems for the tests of formats/: a fresh directory below the current one, whole files, and
 * a file system that fills up. Include after cmocka.h. */
#ifndef ETUDE_TESTS_IO_FILES_H
#define ETUDE_TESTS_IO_FILES_H

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "calls.h"

/* Setup and teardown of a group: *state is the directory's name. */
static inline int make_directory(void **state)
{
    char *name = strdup("io-XXXXXX");
    *state = name;
    return name == NULL || mkdtemp(name) == NULL;
}

static inline int remove_entry(const char *path, const struct stat *info, int type,
                               struct FTW *where)
{
    (void)info, (void)type, (void)where;
    return remove(path);
}

static inline int remove_directory(void **state)
{
    const int failed = nftw(*state, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(*state);
    return failed;
}

/* "directory/name"; valid until the call after the next three. */
static inline const char *below(const char *directory, const char *name)
{
    static char paths[4][800];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

/* The same in a group's directory, in separate places. */
static inline const char *in(void **state, const char *name)
{
    static char paths[4][600];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", (const char *)*state, name);
    return path;
}

/* Not cut off before it is written: ext4 would take that for a replacement and wait for the
 * disk, thousands of times. */
static inline void put_file(const char *path, const void *bytes, size_t length)
{
    const int fd = open(path, O_WRONLY | O_CREAT, 0666);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, length), length);
    assert_int_equal(ftruncate(fd, (off_t)length), 0);
    assert_int_equal(close(fd), 0);
}

/* Reads the whole file, terminated; free it. If a run cuts it off meanwhile, gives the part that
 * could be read.
 */
static inline char *get_file(const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    struct stat info;
    assert_int_equal(fstat(fileno(file), &info), 0);
    char *bytes = malloc((size_t)info.st_size + 1);
    assert_non_null(bytes);
    *length = fread(bytes, 1, (size_t)info.st_size, file);
    assert_false(ferror(file));
    bytes[*length] = '\0';
    fclose(file);
    return bytes;
}

static inline int file_is_there(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

/* From now on no file grows beyond bytes: a write beyond it is short, then fails. */
static inline void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static inline void unlimit_files(void)
{
    limit_files(RLIM_INFINITY);
}

#endif
