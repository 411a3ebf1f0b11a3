/* Charts in a terminal, and the destination of a chart: a file, whose ending gives the format, or
 * standard output. */
#include <errno.h>
#include <math.h>
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
#include "command/runs/axis.h"
#include "command/runs/chart.h"
#include "formats/events/progress.h"

/* A braille character is two by four dots, so a plot of 60 by 15 characters
 * has 120 by 60 dots. A cell shows the dots of all its curves, in the colour of the last one. */
typedef struct cell {
    unsigned char dots; /* of a braille character; in ASCII 1 */
    char letter;        /* replaces the dots of a curve; 0: dots */
    int curve;          /* that crossed it last */
} cell;

typedef struct canvas {
    const et_chart *chart;
    const et_chart_text_style *style;
    et_axis x, y;
    int columns, rows; /* of cells */
    int wide, tall;    /* dots of a cell */
    int margin;        /* columns left of the axis */
    cell *cells;       /* [rows, columns] */
    int *seen;         /* [columns] row of the curve's last dot; -1: none */
    et_strbuf *out;
} canvas;

static const int colors[] = { 36, 33, 35, 32, 34, 31, 96, 93, 95, 92, 94, 91 };

static char letter_of(size_t curve)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    return letters[curve % (sizeof letters - 1)];
}

/* Without colours, letters distinguish curves. */
static bool has_letters(const canvas *c)
{
    return !c->style->color && c->chart->count > 1;
}

/* ---- dots ---- */

static void set_dot(canvas *c, int curve, int x, int y)
{
    et_assert(curve >= 0 && x >= 0 && x < c->columns * c->wide && y >= 0 && y < c->rows * c->tall);
    static const unsigned char braille[4][2] = {
        { 0x01, 0x08 }, { 0x02, 0x10 }, { 0x04, 0x20 }, { 0x40, 0x80 }
    };
    int column = x / c->wide, row = y / c->tall;
    et_assert(column >= 0 && column < c->columns && row >= 0 && row < c->rows);
    cell *at = &c->cells[(size_t)row * (size_t)c->columns + (size_t)column];
    at->dots |= c->style->ascii ? 1 : braille[y % c->tall][x % c->wide];
    at->curve = curve;
    if (c->style->ascii)
        at->letter = has_letters(c) ? letter_of((size_t)curve) : '*';
    c->seen[column] = row;
}

/* J. Bresenham, "Algorithm for computer control of a digital plotter", 1965. */
static void draw_line(canvas *c, int curve, int x, int y, int to_x, int to_y)
{
    int dx = abs(to_x - x), dy = -abs(to_y - y);
    int step_x = x < to_x ? 1 : -1, step_y = y < to_y ? 1 : -1, error = dx + dy;
    for (;;) {
        set_dot(c, curve, x, y);
        if (x == to_x && y == to_y)
            return;
        int twice = 2 * error;
        if (twice >= dy) {
            error += dy;
            x += step_x;
        }
        if (twice <= dx) {
            error += dx;
            y += step_y;
        }
    }
}

static void draw_points(canvas *c, int number)
{
    const et_chart_curve *curve = &c->chart->curves[number];
    int before_x = -1, before_y = -1;
    for (size_t i = 0; i < curve->count; i++) {
        double px = et_axis_position(&c->x, curve->x[i]), py = et_axis_position(&c->y, curve->y[i]);
        if (isnan(px) || isnan(py)) {
            before_x = -1;
            continue;
        }
        int x = (int)lround(px * (c->columns * c->wide - 1));
        int y = (int)lround((1 - py) * (c->rows * c->tall - 1));
        if (before_x < 0 || (size_t)number < c->chart->dots)
            set_dot(c, number, x, y);
        else
            draw_line(c, number, before_x, before_y, x, y);
        before_x = x;
        before_y = y;
    }
}

/* The curve's letter at its end and at a few places before, other ones for each curve. */
static void put_letters(canvas *c, int number)
{
    et_assert(number >= 0 && (size_t)number < c->chart->count);
    int period = c->columns / 4 > 0 ? c->columns / 4 : 1;
    int phase = number * period / (int)c->chart->count, last = c->columns - 1;
    while (last > 0 && c->seen[last] < 0)
        last--;
    for (int i = 0; i < c->columns; i++) {
        if (c->seen[i] < 0 || (i != last && i % period != phase))
            continue;
        cell *at = &c->cells[(size_t)c->seen[i] * (size_t)c->columns + (size_t)i];
        at->letter = letter_of((size_t)number);
    }
}

/* ---- lines ---- */

/* The tick of a row; -1: none. */
static int tick_in(const et_axis *axis, int cells, int at, bool down)
{
    for (int i = 0; i < axis->count; i++) {
        double position = et_axis_position(axis, axis->ticks[i]);
        if ((int)lround((down ? 1 - position : position) * (cells - 1)) == at)
            return i;
    }
    return -1;
}

static void append_row(canvas *c, int row)
{
    et_assert(row >= 0 && row < c->rows);
    int tick = tick_in(&c->y, c->rows, row, true), color = 0;
    const char *mark =
        tick >= 0 ? (c->style->ascii ? "+" : "\u2524") : (c->style->ascii ? "|" : "\u2502");
    et_strbuf_printf(c->out, "%*s %s", c->margin, tick >= 0 ? et_axis_label(&c->y, tick).text : "",
                     mark);
    for (int i = 0; i < c->columns; i++) {
        const cell *at = &c->cells[(size_t)row * (size_t)c->columns + (size_t)i];
        char bytes[4] = { (char)0xe2, (char)(0xa0 | at->dots >> 6),
                          (char)(0x80 | (at->dots & 0x3f)), 0 };
        int wanted = c->style->color && (at->dots || at->letter)
                         ? colors[(size_t)at->curve % (sizeof colors / sizeof colors[0])]
                         : 0;
        if (wanted != color)
            et_strbuf_printf(c->out, "\033[%dm", wanted);
        color = wanted;
        if (at->letter)
            et_strbuf_append_char(c->out, at->letter);
        else
            et_strbuf_append(c->out, at->dots ? bytes : " ");
    }
    if (color)
        et_strbuf_append(c->out, "\033[0m");
    size_t length = c->out->length;
    while (length && c->out->data[length - 1] == ' ')
        length--;
    if (c->out->length > length)
        et_strbuf_truncate(c->out, length);
    et_strbuf_append_char(c->out, '\n');
}

/* Writes each label centred below its tick, unless it would touch the previous label. The name of
 * the axis is at the end of the next line. */
static void append_labels(canvas *c)
{
    int at = 0, edge = c->margin + 2 + c->columns;
    for (int i = 0; i < c->x.count; i++) {
        et_format label = et_axis_label(&c->x, i);
        int length = (int)strlen(label.text);
        int tick = (int)lround(et_axis_position(&c->x, c->x.ticks[i]) * (c->columns - 1));
        int begin = c->margin + 2 + tick - length / 2;
        begin = begin + length > edge ? edge - length : begin;
        if (begin < at + (at > 0))
            continue;
        et_strbuf_printf(c->out, "%*s%s", begin - at, "", label.text);
        at = begin + length;
    }
    et_strbuf_append_char(c->out, '\n');
    const char *name = c->chart->x_label;
    if (name)
        et_strbuf_printf(c->out, "%*s%s\n",
                         edge - (int)strlen(name) > 0 ? edge - (int)strlen(name) : 0, "", name);
}

static void append_legend(canvas *c)
{
    const et_chart *chart = c->chart;
    size_t shown = chart->count > ET_CHART_LEGEND_MAX ? ET_CHART_LEGEND_MAX : chart->count;
    for (size_t i = 0; i < shown; i++) {
        if (!chart->curves[i].name)
            continue;
        et_strbuf_printf(c->out, "%*s ", c->margin, "");
        if (c->style->color)
            et_strbuf_printf(c->out, "\033[%dm%s\033[0m ",
                             colors[i % (sizeof colors / sizeof colors[0])],
                             c->style->ascii ? "**" : "\u2812\u2812");
        else if (has_letters(c))
            et_strbuf_printf(c->out, "%c ", letter_of(i));
        et_plain_append(c->out, chart->curves[i].name);
        et_strbuf_append_char(c->out, '\n');
    }
    if (chart->count > shown)
        et_strbuf_printf(c->out, "%*s and %zu more\n", c->margin, "", chart->count - shown);
}

/* ---- all together ---- */

static int lay_out(canvas *c, et_error *error)
{
    const et_chart_text_style *style = c->style;
    int x_ticks = style->width / 12, y_ticks = style->height / 3;
    int status = et_chart_axes(&c->x, &c->y, c->chart, x_ticks, y_ticks, error);
    if (status)
        return status;
    c->margin = et_axis_label_length(&c->y) + 1;
    c->columns = style->width - c->margin - 2;
    c->columns = c->columns < 8 ? 8 : c->columns;
    c->rows = style->height;
    c->wide = style->ascii ? 1 : 2;
    c->tall = style->ascii ? 1 : 4;
    c->cells = et_alloc_zero((size_t)c->rows * (size_t)c->columns, sizeof *c->cells);
    c->seen = et_alloc_zero(c->columns, sizeof *c->seen);
    return c->cells && c->seen ? ET_OK : et_alloc_failed(error, "a chart");
}

int et_chart_text(et_strbuf *out, const et_chart *chart, const et_chart_text_style *style,
                  et_error *error)
{
    et_assert(style->width >= ET_CHART_TEXT_WIDTH_MIN && style->width <= ET_CHART_TEXT_MAX);
    et_assert(style->height >= ET_CHART_TEXT_HEIGHT_MIN && style->height <= ET_CHART_TEXT_MAX);
    canvas c = { .chart = chart, .style = style, .out = out };
    int status = lay_out(&c, error);
    if (!status) {
        if (chart->title) {
            et_strbuf_printf(out, "%*s ", c.margin, "");
            et_plain_append(out, chart->title);
            et_strbuf_append_char(out, '\n');
        }
        for (int i = 0; i < (int)c.chart->count; i++) {
            for (int k = 0; k < c.columns; k++)
                c.seen[k] = -1;
            draw_points(&c, i);
            if (has_letters(&c))
                put_letters(&c, i);
        }
        for (int row = 0; row < c.rows; row++)
            append_row(&c, row);
        et_strbuf_printf(c.out, "%*s %s", c.margin, "", c.style->ascii ? "+" : "\u2514");
        for (int i = 0; i < c.columns; i++) {
            bool tick = tick_in(&c.x, c.columns, i, false) >= 0;
            et_strbuf_append(c.out, c.style->ascii ? (tick ? "+" : "-")
                                    : tick         ? "\u252c"
                                                   : "\u2500");
        }
        et_strbuf_append_char(c.out, '\n');
        append_labels(&c);
        append_legend(&c);
        status = out->failed ? et_alloc_failed(error, "a chart") : ET_OK;
    }
    et_free(c.cells);
    et_free(c.seen);
    return status;
}

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
        return et_alloc_failed(error, PROGRAM);
    reason = posix_spawn_file_actions_adddup2(&actions, from, STDIN_FILENO);
    if (!reason)
        reason = posix_spawn_file_actions_adddup2(&actions, to, STDOUT_FILENO);
    if (!reason)
        reason = posix_spawnp(&child, PROGRAM, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (reason == ENOENT || reason == EACCES)
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
            et_strbuf_append_bytes(out, part, now);
        at += now > 0 ? now : 0;
    }
    return out->failed ? et_alloc_failed(error, "a picture") : ET_OK;
}

/* Appends the PNG of a whole SVG document, made by another process. ET_EFAIL: the program failed.
 * The calling process must have no threads. */
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

/* ---- destinations of charts ---- */

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
    if (is_png(path)) {
        char *const argv[] = { (char *)PROGRAM, (char *)"--version", NULL };
        int nothing = memfd_create("version", MFD_CLOEXEC);
        if (nothing < 0)
            return et_fail_errno(error, "cannot get memory for a picture");
        int status = run(argv, nothing, nothing, error);
        close(nothing);
        return status;
    }
    return ET_OK;
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

/* Leaves one line for the prompt, and subtracts the lines around the plot. */
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
