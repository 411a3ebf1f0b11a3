#include "base/files/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/main.h"
#include "base/scarce.h"
#include "skip.h"

/* The system calls that the writer uses, with faults on demand. */
static int fail_fsync, fail_rename; /* errno, or 0 */
static char synced[256];            /* of directories that fsync was for, the bases of names */
static bool short_writes;           /* one byte at a time, every other call interrupted */

int fsync(int fd)
{
    if (fail_fsync) {
        errno = fail_fsync;
        return -1;
    }
    char link[64], name[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, sizeof name - 1);
    name[length > 0 ? length : 0] = 0;
    snprintf(synced + strlen(synced), sizeof synced - strlen(synced), "%s ", et_path_base(name));
    return (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    if (fail_rename) {
        errno = fail_rename;
        return -1;
    }
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

ssize_t write(int fd, const void *bytes, size_t length)
{
    static int calls;
    if (short_writes && ++calls % 2) {
        errno = EINTR;
        return -1;
    }
    return syscall(SYS_write, fd, bytes, short_writes && length > 1 ? (size_t)1 : length);
}

static char folder[64];
static et_error error;

static int enter(void **state)
{
    (void)state;
    strcpy(folder, "test_file.XXXXXX");
    error = (et_error)ET_ERROR_INIT;
    return !mkdtemp(folder) || chdir(folder);
}

static int leave(void **state)
{
    (void)state;
    char command[128];
    fail_fsync = fail_rename = 0;
    short_writes = false;
    snprintf(command, sizeof command, "rm -r %s", folder);
    return chdir("..") || system(command);
}

static void assert_holds(const char *path, const char *expected)
{
    char *text;
    size_t length;
    assert_int_equal(et_file_read(&text, &length, path, 1 << 20, &error), ET_OK);
    assert_string_equal(text, expected);
    assert_int_equal(length, strlen(expected));
    et_free(text);
}

/* The number of names in a directory: no temporary file may remain. */
static int entries(const char *path)
{
    DIR *directory = opendir(path);
    assert_non_null(directory);
    int count = -2; /* . and .. */
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static void test_file__write_read(void **state)
{
    (void)state;
    assert_int_equal(et_file_write("a", "first", 5, &error), ET_OK);
    assert_holds("a", "first");
    assert_int_equal(et_file_write("./a", "", 0, &error), ET_OK);
    assert_holds("a", "");
    assert_int_equal(entries("."), 1);
}

static void test_file__read_with_nul(void **state)
{
    (void)state;
    char *bytes;
    size_t length;
    assert_int_equal(et_file_write("a", "x\0y", 3, &error), ET_OK);
    assert_int_equal(et_file_read(&bytes, &length, "a", 3, &error), ET_OK);
    assert_int_equal(length, 3);
    assert_memory_equal(bytes, "x\0y", 4);
    et_free(bytes);
}

static void test_file__read_limit(void **state)
{
    (void)state;
    char *bytes;
    size_t length;
    assert_int_equal(et_file_write("a", "four", 4, &error), ET_OK);
    assert_int_equal(et_file_read(&bytes, &length, "a", 3, &error), ET_EFORMAT);
    assert_string_equal(error.text, "a is longer than the 3 bytes allowed here");
}

/* Files of /proc have length 0 and text. */
static void test_file__read_proc(void **state)
{
    (void)state;
    char *bytes;
    size_t length;
    if (access("/proc/self/status", R_OK))
        test_skip("no /proc");
    assert_int_equal(et_file_read(&bytes, &length, "/proc/self/status", 1 << 20, &error), ET_OK);
    assert_true(length > 100 && strlen(bytes) == length);
    et_free(bytes);
    assert_int_equal(et_file_read(&bytes, &length, "/proc/self/status", 100, &error), ET_EFORMAT);
}

static void test_file__absent(void **state)
{
    (void)state;
    char *bytes;
    size_t length;
    et_mapping mapping;
    assert_int_equal(et_file_read(&bytes, &length, "no", 10, &error), ET_ENOTFOUND);
    assert_string_equal(error.text, "cannot open no: No such file or directory; check the path");
    assert_int_equal(et_mapping_open(&mapping, "no", &error), ET_ENOTFOUND);
    assert_int_equal(et_file_write("no/a", "x", 1, &error), ET_ENOTFOUND);
    assert_contains(error.text, "no/a");
    assert_false(et_file_exists("no"));
}

/* Directories, devices and pipes are refused, and none makes us wait. */
static void test_file__special(void **state)
{
    (void)state;
    assert_int_equal(mkdir("folder", 0777), 0);
    assert_int_equal(mkfifo("pipe", 0666), 0);
    static const struct {
        const char *path, *what;
    } rows[] = { { "folder", "a directory" }, { "pipe", "a device" }, { "/dev/null", "a device" } };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *bytes;
        size_t length;
        int fd;
        et_mapping mapping;
        assert_int_equal(et_file_read(&bytes, &length, rows[i].path, 10, &error), ET_EDENIED);
        assert_contains(error.text, rows[i].path);
        assert_contains(error.text, rows[i].what);
        assert_int_equal(et_mapping_open(&mapping, rows[i].path, &error), ET_EDENIED);
        assert_int_equal(et_file_write(rows[i].path, "x", 1, &error), ET_EDENIED);
        assert_contains(error.text, rows[i].what);
        assert_int_equal(et_lock_take(&fd, rows[i].path, &error), ET_EDENIED);
    }
    assert_int_equal(entries("."), 2);
    assert_int_equal(entries("folder"), 0);
}

static void test_file__pieces(void **state)
{
    (void)state;
    et_file_writer writer;
    assert_int_equal(et_file_write("a", "old", 3, &error), ET_OK);
    assert_int_equal(et_file_writer_open(&writer, "a", &error), ET_OK);
    assert_int_equal(et_file_writer_write(&writer, "one ", 4, &error), ET_OK);
    assert_int_equal(et_file_writer_write(&writer, "two", 3, &error), ET_OK);
    assert_int_equal(writer.length, 7);
    assert_holds("a", "old"); /* until the commit */
    assert_int_equal(et_file_writer_commit(&writer, &error), ET_OK);
    assert_holds("a", "one two");
    assert_int_equal(writer.fd, -1);

    assert_int_equal(et_file_writer_open(&writer, "a", &error), ET_OK);
    assert_int_equal(et_file_writer_write(&writer, "three", 5, &error), ET_OK);
    et_file_writer_abandon(&writer);
    et_file_writer_abandon(&writer); /* harmless */
    assert_holds("a", "one two");
    assert_int_equal(entries("."), 1);
}

static void test_file__short_writes(void **state)
{
    (void)state;
    short_writes = true;
    assert_int_equal(et_file_write("a", "slowly written", 14, &error), ET_OK);
    short_writes = false;
    assert_holds("a", "slowly written");
}

/* A failed fsync or rename: the old file stays, nothing temporary does, the message names it. */
static void test_file__failed_commit(void **state)
{
    (void)state;
    assert_int_equal(et_file_write("a", "old", 3, &error), ET_OK);
    fail_fsync = EIO;
    assert_int_equal(et_file_write("a", "new", 3, &error), ET_EIO);
    assert_string_equal(error.text, "cannot write a to the disk: Input/output error");
    fail_fsync = ENOSPC;
    assert_int_equal(et_file_write("a", "new", 3, &error), ET_ENOSPACE);
    fail_fsync = 0;
    fail_rename = EACCES;
    assert_int_equal(et_file_write("a", "new", 3, &error), ET_EDENIED);
    assert_contains(error.text, "cannot rename a.tmp.");
    fail_rename = 0;
    assert_holds("a", "old");
    assert_int_equal(entries("."), 1);
}

/* A file keeps its mode, and one that is write-protected stays. Root writes anything, so it becomes
 * nobody for a while. */
static void test_file__modes(void **state)
{
    (void)state;
    struct stat info;
    assert_int_equal(chmod(".", 0777), 0);
    if (getuid() == 0 && seteuid(65534))
        test_skip("root cannot become nobody here");
    assert_int_equal(et_file_write("a", "old", 3, &error), ET_OK);
    assert_int_equal(chmod("a", 0640), 0);
    assert_int_equal(et_file_write("a", "new", 3, &error), ET_OK);
    assert_int_equal(stat("a", &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    assert_int_equal(chmod("a", 0444), 0);
    int status = et_file_write("a", "newer", 5, &error);
    if (getuid() == 0)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(status, ET_EDENIED);
    assert_contains(error.text, "cannot write a: Permission denied");
    assert_holds("a", "new");
    assert_int_equal(entries("."), 1);
}

static void test_file__leftover_temporary(void **state)
{
    (void)state;
    char name[64];
    snprintf(name, sizeof name, "a.tmp.%ld", (long)getpid());
    assert_int_equal(et_file_write(name, "much longer than the new one", 28, &error), ET_OK);
    assert_int_equal(et_file_write("a", "new", 3, &error), ET_OK);
    assert_holds("a", "new");
    assert_int_equal(entries("."), 1);
}

/* Temporary files of dead processes go when the same path is written; all others stay. */
static void test_file__swept(void **state)
{
    char dead[64], alive[64], locked[64], other[64], inner[64];
    int status;
    (void)state;
    const pid_t child = fork(), second = child ? fork() : 0;
    if (!child || !second)
        _exit(0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(waitpid(second, &status, 0), second);
    snprintf(dead, sizeof dead, "a.csv.tmp.%ld", (long)child);
    snprintf(locked, sizeof locked, "a.csv.tmp.%ld", (long)second);
    snprintf(alive, sizeof alive, "a.csv.tmp.%ld", (long)getppid());
    snprintf(other, sizeof other, "ba.csv.tmp.%ld", (long)child);
    snprintf(inner, sizeof inner, "a.csv.tmp.0%ld", (long)child);
    const char *const names[] = { dead, locked, alive, other, "a.csv.tmp.1x", "a.csv.tmp." };
    assert_int_equal(mkdir(inner, 0777), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        fclose(fopen(names[i], "w"));
    const int lock = open(locked, O_RDONLY);
    assert_int_equal(et_fd_lock(lock), ET_OK);
    assert_int_equal(et_file_write("./a.csv", "new", 3, &error), ET_OK);
    assert_holds("a.csv", "new");
    assert_false(et_file_exists(dead));
    for (size_t i = 1; i < sizeof names / sizeof *names; i++)
        assert_true(et_file_exists(names[i]));
    assert_true(et_file_exists(inner));
    close(lock);
    assert_int_equal(et_file_write("a.csv", "new", 3, &error), ET_OK);
    assert_false(et_file_exists(locked));
}

static void test_file__device_full(void **state)
{
    (void)state;
    int fd = open("/dev/full", O_WRONLY);
    if (fd < 0)
        test_skip("no /dev/full");
    assert_int_equal(et_fd_write(fd, "x", 1, "/dev/full", &error), ET_ENOSPACE);
    assert_string_equal(error.text, "cannot write /dev/full: No space left on device; free some "
                                    "space or choose another directory");
    close(fd);
}

/* A real full disk: a tmpfs of 64 KiB. */
static void test_file__disk_full(void **state)
{
    (void)state;
    enum { LARGE = 1 << 20 };
    assert_int_equal(mkdir("disk", 0777), 0);
    if (mount("none", "disk", "tmpfs", 0, "size=64k"))
        test_skip("cannot mount a tmpfs (needs root): no full disk to write to");
    char *bytes = et_alloc_zero(LARGE, 1);
    int before = et_file_write("disk/a", "old", 3, &error);
    int status = et_file_write("disk/a", bytes, LARGE, &error);
    char text[64] = "";
    FILE *file = fopen("disk/a", "r");
    if (file && !fgets(text, sizeof text, file))
        text[0] = 0;
    if (file)
        fclose(file);
    int left = entries("disk");
    int checked = et_disk_check("disk/b/c", LARGE, NULL);
    umount("disk");
    et_free(bytes);
    assert_int_equal(before, ET_OK);
    assert_int_equal(status, ET_ENOSPACE);
    assert_contains(error.text, "disk/a");
    assert_string_equal(text, "old");
    assert_int_equal(left, 1);
    assert_int_equal(checked, ET_ENOSPACE);
}

static void test_file__disk_check(void **state)
{
    (void)state;
    assert_int_equal(et_disk_check(".", 1, &error), ET_OK);
    assert_int_equal(et_disk_check("not/made/yet", 1, &error), ET_OK);
    assert_int_equal(et_disk_check("/not-made-yet", 1, &error), ET_OK);
    assert_int_equal(et_disk_check(".", UINT64_MAX, &error), ET_ENOSPACE);
    assert_contains(error.text, ". needs 18446744073709551615 bytes, but its disk has ");
}

/* The names of new directories are durable; if they cannot be, no directory remains. */
static void test_file__new_directories_are_synced(void **state)
{
    (void)state;
    char expected[128];
    assert_int_equal(et_directory_make("one", &error), ET_OK);
    synced[0] = 0;
    assert_int_equal(et_directory_make("one/two//three/", &error), ET_OK);
    assert_string_equal(synced, "one two ");
    synced[0] = 0;
    assert_int_equal(et_directory_make("one/two", &error), ET_OK);
    assert_string_equal(synced, "");
    assert_int_equal(et_directory_make("four", &error), ET_OK);
    snprintf(expected, sizeof expected, "%s ", folder);
    assert_string_equal(synced, expected);
    fail_fsync = EIO;
    assert_int_equal(et_directory_make("five/six", &error), ET_EIO);
    assert_false(et_file_exists("five"));
    assert_int_equal(et_directory_make("one/six/seven", &error), ET_EIO);
    assert_false(et_file_exists("one/six"));
    assert_true(et_file_exists("one/two/three"));
}

static void test_file__directories(void **state)
{
    (void)state;
    static const char *const paths[] = { "a/b/c", "a/b/c", "a//d/", "." };
    for (size_t i = 0; i < COUNT(paths); i++) {
        assert_int_equal(et_directory_make(paths[i], &error), ET_OK);
        assert_int_equal(et_directory_sync(paths[i], &error), ET_OK);
    }
    assert_true(et_file_exists("a/b/c") && et_file_exists("a/d"));
    assert_int_equal(et_file_write("file", "x", 1, &error), ET_OK);
    assert_int_equal(et_directory_make("file", &error), ET_EDENIED);
    assert_contains(error.text,
                    "file: a file has this name; remove it or choose another directory");
    assert_int_not_equal(et_directory_make("file/below", &error), ET_OK);
    assert_int_not_equal(et_directory_make("", &error), ET_OK);
    assert_int_equal(et_directory_sync("absent", &error), ET_ENOTFOUND);
}

/* In a child: takes the lock, reports it, and waits to be killed. */
static void hold_lock(int said, const char *path)
{
    int fd;
    char c = et_lock_take(&fd, path, NULL) ? 'n' : 'y';
    if (write(said, &c, 1) == 1)
        pause();
    _exit(0);
}

static void test_lock__conflict(void **state)
{
    (void)state;
    int ends[2], fd = -1;
    char said = 0, expected[96];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0)
        hold_lock(ends[1], "lock");
    assert_int_equal(read(ends[0], &said, 1), 1);
    assert_int_equal(said, 'y');
    int status = et_lock_take(&fd, "lock", &error);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(status, ET_EBUSY);
    snprintf(expected, sizeof expected, "lock is locked by process %ld;", (long)child);
    assert_contains(error.text, expected);

    /* The lock ended with the process, however it ended. */
    assert_int_equal(et_lock_take(&fd, "lock", &error), ET_OK);
    int other;
    assert_int_equal(et_lock_take(&other, "lock", &error), ET_EBUSY);
    et_lock_drop(fd);
    assert_int_equal(et_lock_take(&fd, "lock", &error), ET_OK);
    et_lock_drop(fd);
    et_lock_drop(-1);
}

/* A lock file with anything in it, here far too long a number, is only a name in a message. */
static void test_lock__hostile_content(void **state)
{
    (void)state;
    int fd, other;
    assert_int_equal(et_lock_take(&fd, "lock", &error), ET_OK);
    FILE *file = fopen("lock", "w");
    assert_non_null(file);
    fprintf(file, "%0500d%%s\n", 9);
    fclose(file);
    assert_int_equal(et_lock_take(&other, "lock", &error), ET_EBUSY);
    assert_contains(error.text, "locked by process 0");
    et_lock_drop(fd);
}

static void test_mapping__reads(void **state)
{
    (void)state;
    et_mapping mapping;
    assert_int_equal(et_file_write("a", "mapped", 6, &error), ET_OK);
    assert_int_equal(et_mapping_open(&mapping, "a", &error), ET_OK);
    assert_int_equal(mapping.length, 6);
    assert_memory_equal(mapping.data, "mapped", 6);
    et_mapping_close(&mapping);
    et_mapping_close(&mapping);
    assert_int_equal(et_file_write("a", "", 0, &error), ET_OK);
    assert_int_equal(et_mapping_open(&mapping, "a", &error), ET_OK);
    assert_null(mapping.data);
    et_mapping_close(&mapping);
}

static void test_path__parts(void **state)
{
    (void)state;
    static const struct {
        const char *directory, *name, *expected, *base;
    } rows[] = { { "a", "b", "a/b", "b" },
                 { "a/", "b", "a/b", "b" },
                 { "", "b", "b", "b" },
                 { "/", "b/c", "/b/c", "c" },
                 { "a", "", "a/", "" } };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const et_path path = et_path_of(rows[i].directory, rows[i].name);
        assert_string_equal(path.text, rows[i].expected);
        assert_string_equal(et_path_base(path.text), rows[i].base);
    }
}

/* As os.path.normpath, but "link/.." is not ".". */
static void test_path__normal(void **state)
{
    (void)state;
    static const struct {
        const char *path, *expected;
    } rows[] = {
        { "a//b", "a/b" },
        { "./a", "a" },
        { "a/.", "a" },
        { "a/./b//", "a/b" },
        { "a", "a" },
        { "a/", "a" },
        { "", "." },
        { ".", "." },
        { "./.", "." },
        { "/", "/" },
        { "//", "//" },
        { "///", "/" },
        { "//a//b", "//a/b" },
        { "///a", "/a" },
        { "/a//b/./", "/a/b" },
        { "a/../b", "b" },
        { "a/b/../../c", "c" },
        { "..", ".." },
        { "../a", "../a" },
        { "a/../..", ".." },
        { "/..", "/" },
        { "/../a", "/a" },
        { "../../a", "../../a" },
        { "a/..b", "a/..b" },
        { "a/...", "a/..." },
        { ".a/b", ".a/b" },
        { "link/../a", "link/../a" },
        { "./link/..//..", "link/../.." },
        { "link/a/../b", "link/b" },
    };
    assert_int_equal(symlink("elsewhere", "link"), 0);
    for (size_t i = 0; i < COUNT(rows); i++) {
        const et_path path = et_path_normal(rows[i].path);
        assert_string_equal(path.text, rows[i].expected);
    }
    assert_int_equal(unlink("link"), 0);
}

static void test_path__parent(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        { "a/b", "a/" }, { "b", "." }, { "a/", "a/" }, { "/", "/" }, { "/b", "/" }, { "", "." },
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_string_equal(et_path_parent(rows[i][0]).text, rows[i][1]);
}

/* A path, what is below it and what is above it: none may become a path that exists. */
static void test_path__too_long_stays(void **state)
{
    (void)state;
    char *text, name[2 * PATH_MAX];
    size_t length;
    for (size_t i = 0; i < sizeof name; i++)
        name[i] = i % 2 ? '/' : '.';
    name[sizeof name - 1] = '\0';
    const et_path all[] = { et_path_of(name, "b"), et_path_of("a", name), et_path_print("%s", name),
                            et_path_parent(et_path_of(name, "b").text),
                            et_path_normal(et_path_of("a/", name + 2).text) };
    for (size_t i = 0; i < COUNT(all); i++) {
        assert_int_equal(strlen(all[i].text), PATH_MAX);
        assert_false(et_file_exists(all[i].text));
        assert_int_equal(et_file_read(&text, &length, all[i].text, 100, &error), ET_EDENIED);
        assert_int_equal(et_file_write(all[i].text, "", 0, &error), ET_EDENIED);
        assert_int_equal(et_directory_make(all[i].text, &error), ET_EDENIED);
        assert_int_equal(et_parent_make(all[i].text, &error), ET_EDENIED);
    }
}

static void test_path__length(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        size_t length;
    } rows[] = { { "a/b", 3 }, { "a/b//", 3 }, { "/", 1 }, { "//", 1 }, { "", 0 }, { "a/", 1 } };
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(et_path_length(rows[i].path), rows[i].length);
}

static int write_read_make(void)
{
    char *bytes;
    size_t length;
    int status = et_file_write("a", "x", 1, &error);
    if (!status)
        status = et_directory_make("b/c", &error);
    if (!status)
        status = et_file_read(&bytes, &length, "/proc/self/maps", 1 << 20, &error);
    if (!status)
        et_free(bytes);
    return status;
}

static void test_file__out_of_memory(void **state)
{
    (void)state;
    long calls = 0;
    do {
        scarce_begin(calls++);
        int status = write_read_make();
        scarce_end();
        assert_int_equal(status, scarce_failed ? ET_ENOMEM : ET_OK);
        assert_true(entries(".") <= 2);
    } while (scarce_failed);
    assert_true(calls > 3);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, enter, leave)

/* An empty path, as from an unset variable of a script. */
static void test_file__no_path(void **state)
{
    (void)state;
    char *bytes;
    size_t length;
    et_mapping mapping;
    et_error why = ET_ERROR_INIT;
    assert_int_equal(et_file_read(&bytes, &length, "", 100, &why), ET_ENOTFOUND);
    assert_string_equal(why.text, "the path of a file is empty; name a file");
    assert_int_equal(et_mapping_open(&mapping, "", &why), ET_ENOTFOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_file__new_directories_are_synced),
        CASE(test_file__write_read),
        CASE(test_file__read_with_nul),
        CASE(test_file__read_limit),
        CASE(test_file__read_proc),
        CASE(test_file__absent),
        CASE(test_file__special),
        CASE(test_file__pieces),
        CASE(test_file__short_writes),
        CASE(test_file__failed_commit),
        CASE(test_file__modes),
        CASE(test_file__leftover_temporary),
        CASE(test_file__swept),
        CASE(test_file__device_full),
        CASE(test_file__disk_full),
        CASE(test_file__disk_check),
        CASE(test_file__directories),
        CASE(test_file__out_of_memory),
        CASE(test_lock__conflict),
        CASE(test_lock__hostile_content),
        CASE(test_mapping__reads),
        CASE(test_path__parts),
        CASE(test_path__normal),
        CASE(test_path__parent),
        CASE(test_path__too_long_stays),
        CASE(test_path__length),
        CASE(test_file__no_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
