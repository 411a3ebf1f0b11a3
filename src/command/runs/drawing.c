/* Where a chart goes: a file, by the ending of its name, or standard output. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/files/file.h"
#include "command/runs/chart.h"
#include "command/runs/png.h"
#include "formats/events/progress.h"

#define SVG_WIDTH  800
#define SVG_HEIGHT 450

static bool is_png(const char *path)
{
    return et_path_ends(path, ".png");
}

int et_chart_check_picture(const char *option, const char *path, et_error *error)
{
    if (!et_path_ends(path, ".svg") && !is_png(path))
        return et_fail(error, ET_EUSAGE, "%s %s: choose a name in .svg or .png", option, path);
    return is_png(path) ? et_png_check(error) : ET_OK;
}

int et_chart_write(const char *path, const et_chart *chart, int width, int height, et_error *error)
{
    et_strbuf svg = ET_STRBUF_INIT, png = ET_STRBUF_INIT;
    const et_strbuf *picture = is_png(path) ? &png : &svg;
    int status =
        et_chart_svg(&svg, chart, width ? width : SVG_WIDTH, height ? height : SVG_HEIGHT, error);
    if (!status && is_png(path))
        status = et_png_from_svg(&png, &svg, error);
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
