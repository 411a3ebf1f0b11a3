#include "command/runs/png.h"

#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"

#define PROGRAM "rsvg-convert"

/* Runs the program with the two descriptors as standard input and output. */
static int run(char *const *argv, int from, int to, et_error *error)
{
    posix_spawn_file_actions_t actions;
    pid_t child;
    int ended;
    int reason = posix_spawn_file_actions_init(&actions);
    if (reason)
        return et_alloc_failed(error, sizeof actions, PROGRAM);
    reason = posix_spawn_file_actions_adddup2(&actions, from, STDIN_FILENO);
    if (!reason)
        reason = posix_spawn_file_actions_adddup2(&actions, to, STDOUT_FILENO);
    if (!reason)
        reason = posix_spawnp(&child, PROGRAM, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (reason == ENOENT)
        return et_fail(error, ET_ENOTFOUND,
                       "a PNG needs " PROGRAM
                       ": apt install librsvg2-bin; or choose a name in .svg");
    if (reason)
        return et_fail(error, ET_EFAIL, PROGRAM ": %s", strerror(reason));
    while (waitpid(child, &ended, 0) < 0)
        if (errno != EINTR)
            return et_fail_errno(error, PROGRAM);
    return WIFEXITED(ended) && !WEXITSTATUS(ended)
               ? ET_OK
               : et_fail(error, ET_EFAIL, PROGRAM " failed; choose a name in .svg");
}

int et_png_check(et_error *error)
{
    char *const argv[] = { (char *)PROGRAM, (char *)"--version", NULL };
    int nothing = memfd_create("version", MFD_CLOEXEC);
    if (nothing < 0)
        return et_fail_errno(error, "cannot get memory for a picture");
    int status = run(argv, nothing, nothing, error);
    close(nothing);
    return status;
}

static int write_all(int to, const et_strbuf *text, et_error *error)
{
    for (size_t done = 0; done < text->length;) {
        ssize_t now = write(to, text->data + done, text->length - done);
        if (now < 0 && errno != EINTR)
            return et_fail_errno(error, "cannot get memory for a picture");
        done += now > 0 ? (size_t)now : 0;
    }
    return lseek(to, 0, SEEK_SET) ? et_fail_errno(error, "cannot get memory for a picture") : ET_OK;
}

static int read_all(et_strbuf *out, int from, et_error *error)
{
    char part[4096];
    off_t at = 0;
    for (ssize_t now; (now = pread(from, part, sizeof part, at)) != 0;) {
        if (now < 0 && errno != EINTR)
            return et_fail_errno(error, "cannot get memory for a picture");
        if (now > 0)
            et_strbuf_append_bytes(out, part, (size_t)now);
        at += now > 0 ? now : 0;
    }
    return out->failed ? et_alloc_failed(error, (size_t)at, "a picture") : ET_OK;
}

int et_png_from_svg(et_strbuf *out, const et_strbuf *svg, et_error *error)
{
    char *const argv[] = { (char *)PROGRAM, (char *)"--format=png",
                           (char *)"--background-color=white", NULL };
    int from = memfd_create("svg", MFD_CLOEXEC), to = memfd_create("png", MFD_CLOEXEC);
    int status = from < 0 || to < 0 ? et_fail_errno(error, "cannot get memory for a picture")
                                    : write_all(from, svg, error);
    if (!status)
        status = run(argv, from, to, error);
    if (!status)
        status = read_all(out, to, error);
    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
    return status;
}
