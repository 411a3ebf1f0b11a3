/* Where a chart goes: a file, by the ending of its name, or standard output. */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <etude/error.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "command/runs/chart.h"
#include "formats/events/progress.h"

/* ---- png ---- */

/* A picture as PNG: SVG goes through librsvg's program rsvg-convert, which must be on PATH. */

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

/* ET_ENOTFOUND: rsvg-convert is not there; the text names the cure. To be called before any work.
 */
static int png_check(et_error *error)
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

/* Appends the PNG of a whole SVG document. ET_EFAIL: the program failed. By a process without
 * threads. */
static int png_from_svg(et_strbuf *out, const et_strbuf *svg, et_error *error)
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

/* ---- where it goes ---- */

#define SVG_WIDTH  800
#define SVG_HEIGHT 450

static bool is_png(const char *path)
{
    return et_path_ends(path, ".png");
}

int et_chart_check_picture(const char *option, const char *path, et_error *error)
{
    et_assert(option && path);
    if (!et_path_ends(path, ".svg") && !is_png(path))
        return et_fail(error, ET_EUSAGE, "%s %s: choose a name in .svg or .png", option, path);
    return is_png(path) ? png_check(error) : ET_OK;
}

int et_chart_write(const char *path, const et_chart *chart, int width, int height, et_error *error)
{
    et_assert(path && width >= 0 && height >= 0);
    et_strbuf svg = ET_STRBUF_INIT, png = ET_STRBUF_INIT;
    const et_strbuf *picture = is_png(path) ? &png : &svg;
    int status =
        et_chart_svg(&svg, chart, width ? width : SVG_WIDTH, height ? height : SVG_HEIGHT, error);
    if (!status && is_png(path))
        status = png_from_svg(&png, &svg, error);
    if (!status)
        status = et_file_write(path, picture->data, picture->length, error);
    et_strbuf_release(&svg);
    et_strbuf_release(&png);
    return status;
}

/* One line is left for the prompt; the lines around the plot are subtracted. */
static et_chart_text_style style_of(const et_chart *chart)
{
    struct winsize size;
    bool terminal = isatty(STDOUT_FILENO);
    bool known = terminal && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col && size.ws_row;
    const char *none = getenv("NO_COLOR"), *kind = getenv("TERM");
    int names = chart->count > ET_CHART_LEGEND_MAX ? ET_CHART_LEGEND_MAX + 1 : (int)chart->count;
    int width = known ? size.ws_col : 80, height = (known ? size.ws_row : 24) - 5 - names;
    width = width < ET_CHART_TEXT_WIDTH_MIN ? ET_CHART_TEXT_WIDTH_MIN : width;
    width = width > ET_CHART_TEXT_MAX ? ET_CHART_TEXT_MAX : width;
    height = height < 10 ? 10 : height > 30 ? 30 : height;
    return (et_chart_text_style){
        .width = width,
        .height = height,
        .color = terminal && (!none || !*none) && kind && *kind && strcmp(kind, "dumb") != 0,
        .ascii = !et_locale_is_utf8(),
    };
}

int et_chart_print(const et_chart *chart, int width, int height, et_error *error)
{
    et_assert(width >= 0 && height >= 0);
    et_strbuf out = ET_STRBUF_INIT;
    et_chart_text_style style = style_of(chart);
    style.width = width ? width : style.width;
    style.height = height ? height : style.height;
    int status = et_chart_text(&out, chart, &style, error);
    if (!status)
        fputs(et_strbuf_text(&out), stdout);
    et_strbuf_release(&out);
    return status;
}
