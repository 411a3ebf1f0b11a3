/* Writing directories of several files, killed at each call that changes a directory: afterwards
 * all files are there or none, the same export works, and other files are not changed. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "base/files/file.h"
#include "formats/files.h"
#include "train/saved.h"

static long left; /* calls until this process is killed; 0: it is not */
static bool links = true;
static bool full; /* a rename fails as on a full disk */

static void count(void)
{
    if (left && !--left)
        kill(getpid(), SIGKILL);
}

int mkdir(const char *path, mode_t mode)
{
    count();
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int fsync(int fd)
{
    count();
    return (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    count();
    if (full) {
        errno = ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}

int link(const char *from, const char *to)
{
    count();
    if (links)
        return (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
    errno = EPERM;
    return -1;
}

int unlinkat(int folder, const char *name, int flags)
{
    count();
    return (int)syscall(SYS_unlinkat, folder, name, flags);
}

int rmdir(const char *path)
{
    count();
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}

static const char *const names[] = { "config.json", "vocabulary.model", "model.safetensors" };
enum { FILES = 3 };

static int write_one(void *self, int which, const char *path, et_error *error)
{
    if (self && *(const int *)self == which)
        return et_fail(error, ET_ENOSPACE, "%s: no room", path);
    return et_file_write(path, names[which], strlen(names[which]), error);
}

static int export_to(const char *directory, int *fails_at, et_error *error)
{
    return et_directory_write(directory, names, FILES, write_one, fails_at, error);
}

#define WHOLE "config.json model.safetensors vocabulary.model "

/* All files below a directory, including hidden ones. */
static const char *all_in(const char *directory)
{
    static char text[2048];
    struct dirent **items;
    int number = scandir(directory, &items, NULL, alphasort);
    text[0] = '\0';
    for (int i = 0; i < number; i++) {
        if (strcmp(items[i]->d_name, ".") != 0 && strcmp(items[i]->d_name, "..") != 0)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s ", items[i]->d_name);
        free(items[i]);
    }
    free(items);
    return text;
}

/* Whether the export, killed at its n-th call, came to its end before that. */
static bool survives(const char *directory, long n)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        left = n;
        _exit(export_to(directory, NULL, NULL) ? 1 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) || (WIFEXITED(status) && !WEXITSTATUS(status)));
    return WIFEXITED(status);
}

static void test_directory_write__killed(void **state)
{
    bool ended = false;
    for (long n = 1; !ended; n++) {
        char above[600], directory[640];
        snprintf(above, sizeof above, "%s-%ld", in(state, "killed"), n);
        snprintf(directory, sizeof directory, "%s/a/model", above);
        ended = survives(directory, n);
        if (file_is_there(directory))
            assert_string_equal(all_in(directory), WHOLE);
        else
            assert_ok(export_to(directory, NULL, error));
        assert_string_equal(all_in(directory), WHOLE);
        /* A complete directory is not overwritten, and the next export leaves no other files. */
        assert_fails(export_to(directory, NULL, error), ET_ECONFIG, "exists");
        assert_string_equal(all_in(below(above, "a")), "model ");
        assert_true(!ended || n > 8);
    }
}

/* Into a directory with something in it, of other processes as well. */
static void killed_inside(void **state, const char *name)
{
    bool ended = false;
    int refused = 0;
    for (long n = 1; !ended; n++) {
        char directory[600];
        snprintf(directory, sizeof directory, "%s-%ld", in(state, name), n);
        assert_int_equal(mkdir(directory, 0777), 0);
        put_file(below(directory, "notes"), "mine", 4);
        put_file(below(directory, "config.json.old"), "mine", 4);
        ended = survives(directory, n);
        /* Killed while its draft goes it is whole, and the next export finds it so. */
        et_error reason = ET_ERROR_INIT;
        int again = export_to(directory, NULL, &reason);
        if (again && (again != ET_ECONFIG || !strstr(reason.text, "exists")))
            fail_msg("killed at call %ld: %s", n, reason.text);
        assert_true(again || !ended);
        refused += again != 0 && !ended;
        assert_string_equal(all_in(directory), "config.json config.json.old model.safetensors "
                                               "notes vocabulary.model ");
        assert_fails(export_to(directory, NULL, error), ET_ECONFIG, "exists");
        assert_true(!ended || n > 8);
    }
    assert_true(refused <= FILES + 1);
}

static void test_directory_write__killed_inside(void **state)
{
    killed_inside(state, "inside");
}

/* An empty directory is replaced as a whole and keeps its permissions. */
static void test_directory_write__killed_empty(void **state)
{
    bool ended = false;
    for (long n = 1; !ended; n++) {
        char above[600], directory[640];
        struct stat info;
        snprintf(above, sizeof above, "%s-%ld", in(state, "empty"), n);
        snprintf(directory, sizeof directory, "%s/model", above);
        assert_int_equal(mkdir(above, 0777), 0);
        assert_int_equal(mkdir(directory, 0777), 0);
        assert_int_equal(chmod(directory, 02751), 0);
        ended = survives(directory, n);
        if (*all_in(directory))
            assert_string_equal(all_in(directory), WHOLE);
        else
            assert_ok(export_to(directory, NULL, error));
        assert_string_equal(all_in(directory), WHOLE);
        assert_fails(export_to(directory, NULL, error), ET_ECONFIG, "exists");
        assert_string_equal(all_in(above), "model ");
        assert_int_equal(stat(directory, &info), 0);
        assert_int_equal(info.st_mode & 07777, 02751);
        assert_true(!ended || n > 7);
    }
}

/* The working directory and the target of a link are not replaced. */
static void test_directory_write__stays(void **state)
{
    char here[600], link[600];
    struct stat before, after;
    int home = open(".", O_RDONLY | O_DIRECTORY);
    char *absolute = realpath(in(state, ""), NULL);
    assert_non_null(absolute);
    snprintf(here, sizeof here, "%s/here", absolute);
    snprintf(link, sizeof link, "%s/link", absolute);
    free(absolute);
    for (int which = 0; which < 3; which++) {
        assert_int_equal(mkdir(here, 0777), 0);
        assert_int_equal(stat(here, &before), 0);
        assert_int_equal(symlink(here, link), 0);
        assert_int_equal(which < 2 ? chdir(here) : 0, 0);
        assert_ok(export_to(which == 0 ? "." : which == 1 ? here : link, NULL, error));
        assert_int_equal(fchdir(home), 0);
        assert_int_equal(stat(here, &after), 0);
        assert_int_equal(before.st_ino, after.st_ino);
        assert_string_equal(all_in(here), WHOLE);
        for (int i = 0; i < FILES; i++)
            assert_int_equal(unlink(below(here, names[i])), 0);
        assert_int_equal(rmdir(here), 0);
        assert_int_equal(unlink(link), 0);
    }
    close(home);
}

/* A file that comes into an empty directory while the export is written stays there. */
static int write_beside(void *self, int which, const char *path, et_error *error)
{
    if (!which)
        put_file(below(self, "notes"), "mine", 4);
    return write_one(NULL, which, path, error);
}

static void test_directory_write__meanwhile(void **state)
{
    char directory[600];
    snprintf(directory, sizeof directory, "%s", in(state, "meanwhile"));
    assert_int_equal(mkdir(directory, 0777), 0);
    assert_ok(et_directory_write(directory, names, FILES, write_beside, directory, error));
    assert_string_equal(all_in(directory), "config.json model.safetensors notes vocabulary.model ");
}

/* A file of somebody that has got the name since is no left-over. */
static void test_directory_write__foreign(void **state)
{
    const char *directory = in(state, "foreign");
    assert_int_equal(mkdir(directory, 0777), 0);
    put_file(below(directory, "notes"), "mine", 4);
    long n = 1;
    while (!file_is_there(below(directory, "config.json")))
        assert_false(survives(directory, n++));
    assert_int_equal(unlink(below(directory, "config.json")), 0);
    put_file(below(directory, "config.json"), "mine", 4);
    assert_fails(export_to(directory, NULL, error), ET_ECONFIG,
                 "config.json exists: choose another directory, or remove it");
    assert_int_equal(unlink(below(directory, "config.json")), 0);
    assert_ok(export_to(directory, NULL, error));
    assert_string_equal(all_in(directory), "config.json model.safetensors notes vocabulary.model ");
}

/* A failure leaves no files in either place, even on file systems without hard links. */
static void test_directory_write__fails(void **state)
{
    char directory[600];
    for (int last = 0; last < FILES; last++) {
        snprintf(directory, sizeof directory, "%s-%d/", in(state, "fails"), last);
        assert_fails(export_to(directory, &last, error), ET_ENOSPACE, "no room");
        assert_false(file_is_there(directory));
        assert_int_equal(mkdir(directory, 0777), 0);
        assert_fails(export_to(directory, &last, error), ET_ENOSPACE, "no room");
        assert_string_equal(all_in(directory), "");
        put_file(below(directory, "notes"), "mine", 4);
        assert_fails(export_to(directory, &last, error), ET_ENOSPACE, "no room");
        assert_string_equal(all_in(directory), "notes ");
        links = last != 0;
        assert_ok(export_to(directory, NULL, error));
        assert_string_equal(all_in(directory),
                            "config.json model.safetensors notes vocabulary.model ");
        links = true;
    }
    put_file(in(state, "file"), "x", 1);
    assert_fails(export_to(in(state, "file"), NULL, error), ET_EDENIED, "file");
}

/* A full disk at the rename is the reason that is reported, not its consequence. */
static void test_directory_write__full_disk(void **state)
{
    full = true;
    assert_fails(export_to(in(state, "full/model"), NULL, error), ET_ENOSPACE,
                 "No space left on device");
    full = false;
    assert_string_equal(all_in(in(state, "full")), "");
    assert_ok(export_to(in(state, "full/model"), NULL, error));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_directory_write__killed),
        cmocka_unit_test(test_directory_write__killed_inside),
        cmocka_unit_test(test_directory_write__killed_empty),
        cmocka_unit_test(test_directory_write__stays),
        cmocka_unit_test(test_directory_write__meanwhile),
        cmocka_unit_test(test_directory_write__foreign),
        cmocka_unit_test(test_directory_write__fails),
        cmocka_unit_test(test_directory_write__full_disk),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
