/* Pictures as SVG. A chart has a frame, ticks with labels, a path for each curve and a legend
 * below. The colours are readable on light and dark pages; text is lighter if the reader prefers
 * dark pages (prefers-color-scheme). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "base/text/unicode.h"
#include "command/runs/axis.h"
#include "command/runs/chart.h"

#define LETTER      6.6 /* pixels of a letter of 12 pixels, about */
#define LETTER_WIDE 7.2 /* at the most */
#define LINE        18  /* pixels of a line of the legend */
#define MARGIN      12  /* around bars and heat maps */

typedef struct picture {
    const et_chart *chart;
    et_axis x, y;
    int width, height;
    double left, right, top, bottom; /* of the frame */
    int across;                      /* names of the legend in a line */
    size_t shown;                    /* of them */
    et_strbuf *out;
} picture;

static const char *const colors[] = { "#3b82c4", "#e07b39", "#3a9d5d", "#c2578f",
                                      "#8a6fd1", "#b8912f", "#2fa3a8", "#d2504c" };
static const char *const dashes[] = { "", "6 3", "2 3", "9 3 2 3" };

enum { COLORS = sizeof colors / sizeof colors[0], DASHES = sizeof dashes / sizeof dashes[0] };

#define IMAGE " role=\"img\""

/* A place in pixels, with a point whatever the locale: tenths of a pixel as whole numbers. */
static void append_pixel(et_strbuf *out, double pixel)
{
    long tenths = lround(pixel * 10);
    if (tenths % 10)
        et_strbuf_printf(out, "%ld.%ld", tenths / 10, tenths % 10);
    else
        et_strbuf_printf(out, "%ld", tenths / 10);
}

static void append_point(et_strbuf *out, const char *letter, double x, double y)
{
    et_strbuf_append(out, letter);
    append_pixel(out, x);
    et_strbuf_append_char(out, ' ');
    append_pixel(out, y);
}

static void append_attribute(et_strbuf *out, const char *name, double pixel)
{
    et_strbuf_printf(out, " %s=\"", name);
    append_pixel(out, pixel);
    et_strbuf_append_char(out, '"');
}

/* before, after: further attributes. text NULL: writes nothing. */
static void append_text(et_strbuf *out, const char *before, double x, double y, const char *after,
                        const char *text)
{
    if (!text)
        return;
    et_strbuf_printf(out, "<text%s", before);
    append_attribute(out, "x", x);
    append_attribute(out, "y", y);
    et_strbuf_printf(out, "%s>", after);
    et_markup_append(out, text);
    et_strbuf_append(out, "</text>\n");
}

/* The text that browsers show on hover and screen readers read. NULL: none. */
static void append_title(et_strbuf *out, const char *title, const char *end)
{
    if (!title)
        return;
    et_strbuf_append(out, "<title>");
    et_markup_append(out, title);
    et_strbuf_printf(out, "</title>%s", end);
}

/* The head of a picture. title: for screen readers; NULL: none. rules: additional rules of the
 * style sheet, which has rules for text and for elements with the class title. */
static void begin(et_strbuf *out, int width, int height, const char *role, const char *title,
                  const char *rules)
{
    et_strbuf_printf(out,
                     "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                     "viewBox=\"0 0 %d %d\"%s>\n",
                     width, height, width, height, role);
    append_title(out, title, "\n");
    et_strbuf_printf(out,
                     "<style>text{font:12px system-ui,-apple-system,\"Segoe UI\",sans-serif;"
                     "fill:#6e7781}.title{font-weight:600;font-size:14px}%s"
                     "@media(prefers-color-scheme:dark){text{fill:#c9d1d9}}</style>\n",
                     rules);
}

/* Columns of the longest name. */
static size_t longest(const char *const *names, int count)
{
    size_t most = 0;
    for (int i = 0; i < count; i++) {
        const size_t columns = et_utf8_columns(names[i], strlen(names[i]));
        most = columns > most ? columns : most;
    }
    return most;
}

static void append_line(picture *p, double x, double y, double to_x, double to_y)
{
    et_strbuf_append(p->out, "<line class=\"grid\"");
    append_attribute(p->out, "x1", x);
    append_attribute(p->out, "y1", y);
    append_attribute(p->out, "x2", to_x);
    append_attribute(p->out, "y2", to_y);
    et_strbuf_append(p->out, "/>\n");
}

/* ---- axes ---- */

static void append_axes(picture *p)
{
    for (int i = 0; i < p->y.count; i++) {
        double y = p->bottom - et_axis_position(&p->y, p->y.ticks[i]) * (p->bottom - p->top);
        append_line(p, p->left, y, p->right, y);
        append_text(p->out, "", p->left - 6, y + 4, " text-anchor=\"end\"",
                    et_axis_label(&p->y, i).text);
    }
    for (int i = 0; i < p->x.count; i++) {
        double x = p->left + et_axis_position(&p->x, p->x.ticks[i]) * (p->right - p->left);
        append_line(p, x, p->top, x, p->bottom);
        append_text(p->out, "", x, p->bottom + 16, " text-anchor=\"middle\"",
                    et_axis_label(&p->x, i).text);
    }
    et_strbuf_append(p->out, "<path class=\"frame\" d=\"");
    append_point(p->out, "M", p->left, p->top);
    et_strbuf_append(p->out, "V");
    append_pixel(p->out, p->bottom);
    et_strbuf_append(p->out, "H");
    append_pixel(p->out, p->right);
    et_strbuf_append(p->out, "\"/>\n");
    append_text(p->out, "", p->right, p->bottom + 32, " text-anchor=\"end\"", p->chart->x_label);
    append_text(p->out, "", p->left, 24, " class=\"title\"", p->chart->title);
    append_text(p->out, "", p->left, p->top - 8, "", p->chart->y_label);
}

/* ---- curves ---- */

/* The first, lowest, highest and last of the points in a column of pixels. */
typedef struct column {
    long pixel;
    double x, low, high, last;
    bool low_first; /* the lowest came before the highest */
    bool any, more; /* has a point; has further points */
} column;

static void end_column(picture *p, column *c)
{
    if (c->any && c->more) {
        append_point(p->out, "L", c->x, c->low_first ? c->low : c->high);
        append_point(p->out, "L", c->x, c->low_first ? c->high : c->low);
        append_point(p->out, "L", c->x, c->last);
    }
    c->any = c->more = false;
}

/* Whether point i of a curve is within the frame, and its position. */
static bool position(const picture *p, const et_chart_curve *curve, size_t i, double *x, double *y)
{
    et_assert(i < curve->count);
    *x = p->left + et_axis_position(&p->x, curve->x[i]) * (p->right - p->left);
    *y = p->bottom - et_axis_position(&p->y, curve->y[i]) * (p->bottom - p->top);
    return !isnan(*x) && !isnan(*y);
}

/* Draws every point if there are few. Dots and single points are lines of length 0, whose round
 * ends make them dots. */
static void append_path(picture *p, const et_chart_curve *curve, bool dots)
{
    const bool thin = !dots && curve->count > 2 * (size_t)(p->right - p->left);
    bool open = false;
    column c = { .any = false };
    for (size_t i = 0; i < curve->count; i++) {
        double x, y, next_x, next_y;
        if (!position(p, curve, i, &x, &y)) {
            end_column(p, &c);
            open = false;
            continue;
        }
        const bool alone =
            dots ||
            (!open && (i + 1 == curve->count || !position(p, curve, i + 1, &next_x, &next_y)));
        if (thin && c.any && lround(x) == c.pixel) {
            c.low_first = y > c.high ? true : y < c.low ? false : c.low_first;
            c.low = fmin(c.low, y);
            c.high = fmax(c.high, y);
            c.last = y;
            c.x = x;
            c.more = true;
        } else {
            end_column(p, &c);
            append_point(p->out, open && !dots ? "L" : "M", x, y);
            c = (column){ lround(x), x, y, y, y, false, thin, false };
        }
        open = true;
        if (alone)
            et_strbuf_append(p->out, "h0");
    }
    end_column(p, &c);
}

static void append_stroke(picture *p, size_t curve)
{
    et_assert(curve < p->chart->count);
    const char *dash = dashes[curve / COLORS % DASHES];
    et_strbuf_printf(p->out, " stroke=\"%s\"", colors[curve % COLORS]);
    if (*dash)
        et_strbuf_printf(p->out, " stroke-dasharray=\"%s\"", dash);
}

/* ---- legend ---- */

static void append_legend(picture *p)
{
    double wide = (p->right - p->left) / p->across, first = p->bottom + 32 + LINE;
    size_t lines = (p->shown + (size_t)p->across - 1) / (size_t)p->across;
    for (size_t i = 0; i < p->shown; i++) {
        size_t line = i / (size_t)p->across, cell = i % (size_t)p->across;
        double x = p->left + wide * (double)cell, y = first + LINE * (double)line;
        const char *name = p->chart->curves[i].name;
        if (!name)
            continue;
        const bool dots = i < p->chart->dots;
        et_strbuf_printf(p->out, "<path class=\"curve%s\"", dots ? " dots" : "");
        append_stroke(p, i);
        et_strbuf_append(p->out, " d=\"");
        append_point(p->out, "M", dots ? x + 10 : x, y - 4);
        et_strbuf_append(p->out, dots ? "h0\"/>\n" : "h20\"/>\n");
        append_text(p->out, "", x + 26, y, "", name);
    }
    char more[64];
    snprintf(more, sizeof more, "and %zu more", p->chart->count - p->shown);
    if (p->chart->count > p->shown)
        append_text(p->out, "", p->left, first + LINE * (double)lines, "", more);
}

/* ---- all together ---- */

/* The legend gets half of the height at most; names that do not fit are counted. */
static void lay_out(picture *p)
{
    const et_chart *chart = p->chart;
    p->left = 14 + LETTER * (double)et_axis_label_length(&p->y);
    p->right = p->width - 16;
    p->top = (chart->title ? 34 : 14) + (chart->y_label ? 16 : 0);
    /* Pixels of the widest name, with its mark. */
    size_t most = 0, named = 0;
    for (size_t i = 0; i < chart->count; i++) {
        const char *name = chart->curves[i].name;
        const size_t length = name && i < ET_CHART_LEGEND_MAX ? strlen(name) : 0;
        most = length > most ? length : most;
        named += name != NULL;
    }
    double wide = 36 + LETTER * (double)most;
    p->across = wide < p->right - p->left ? (int)((p->right - p->left) / wide) : 1;
    p->shown = named ? chart->count : 0;
    p->shown = p->shown > ET_CHART_LEGEND_MAX ? ET_CHART_LEGEND_MAX : p->shown;
    size_t fit = (size_t)(p->height / 2 / LINE) * (size_t)p->across;
    p->shown = p->shown > fit ? fit : p->shown;
    size_t lines = (p->shown + (size_t)p->across - 1) / (size_t)p->across +
                   (p->shown && chart->count > p->shown);
    p->bottom = p->height - 42 - LINE * (double)lines;
    p->bottom = fmax(p->bottom, p->top + 20);
}

int et_chart_svg(et_strbuf *out, const et_chart *chart, int width, int height, et_error *error)
{
    et_assert(width >= ET_CHART_SVG_MIN && width <= ET_CHART_SVG_MAX);
    et_assert(height >= ET_CHART_SVG_MIN && height <= ET_CHART_SVG_MAX);
    picture p = { .chart = chart, .width = width, .height = height, .out = out };
    int status = et_chart_axes(&p.x, &p.y, chart, width / 90, height / 50, error);
    if (status)
        return status;
    lay_out(&p);
    begin(out, width, height, IMAGE, chart->title,
          ".grid{stroke:#8c959f;stroke-opacity:.28}.frame{stroke:#8c959f;fill:none}"
          ".curve{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}"
          ".dots{stroke-width:4.5;stroke-opacity:.5}");
    append_axes(&p);
    for (size_t i = 0; i < p.chart->count; i++) {
        const et_chart_curve *curve = &p.chart->curves[i];
        const bool dots = i < p.chart->dots;
        et_strbuf_printf(p.out, "<path class=\"curve%s\"", dots ? " dots" : "");
        append_stroke(&p, i);
        et_strbuf_append(p.out, " d=\"");
        append_path(&p, curve, dots);
        et_strbuf_append(p.out, "\">");
        append_title(out, curve->name, "");
        et_strbuf_append(p.out, "</path>\n");
    }
    if (p.shown)
        append_legend(&p);
    et_strbuf_append(out, "</svg>\n");
    return out->failed ? et_alloc_failed(error, "a chart") : ET_OK;
}

/* ---- heat maps: cells of one colour, whose opacity is the value ---- */

#define CELL 26 /* pixels of a side of a cell */

/* Pixels of the longest of names. */
static int room_for(const char *const *names, int count)
{
    const size_t most = longest(names, count);
    return (int)ceil((double)(most < 200 ? most : 200) * LETTER_WIDE) + 6;
}

int et_chart_heat_svg(et_strbuf *out, const et_chart_heat *heat, et_error *error)
{
    if (heat->row_count < 1 || heat->column_count < 1)
        return et_fail(error, ET_EDATA, "nothing to draw: there is no word");
    if (heat->row_count > ET_CHART_HEAT_MAX || heat->column_count > ET_CHART_HEAT_MAX)
        return et_fail(error, ET_EDATA,
                       "%d by %d cells are too many: at most %d by %d can be drawn",
                       heat->row_count, heat->column_count, ET_CHART_HEAT_MAX, ET_CHART_HEAT_MAX);
    const int heading = heat->title ? 24 : 0;
    const int left = MARGIN + room_for(heat->rows, heat->row_count);
    const int top = MARGIN + heading + room_for(heat->columns, heat->column_count);
    const int width = left + heat->column_count * CELL + MARGIN;
    const int height = top + heat->row_count * CELL + MARGIN;
    begin(out, width, height, "", NULL, ".cells{fill:#3b82c4}.frame{stroke:#8c959f;fill:none}");
    append_text(out, " class=\"title\"", MARGIN, MARGIN + 12, "", heat->title);
    et_strbuf_append(out, "<g class=\"cells\">\n");
    for (int r = 0; r < heat->row_count; r++)
        for (int c = 0; c < heat->column_count; c++) {
            double value = heat->values[r][c];
            int thousandths = value > 0 ? (int)lround(fmin(value, 1) * 1000) : 0;
            if (thousandths)
                et_strbuf_printf(out,
                                 "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
                                 "fill-opacity=\"%d.%03d\"/>\n",
                                 left + c * CELL, top + r * CELL, CELL, CELL, thousandths / 1000,
                                 thousandths % 1000);
        }
    et_strbuf_printf(out,
                     "</g>\n<rect class=\"frame\" x=\"%d\" y=\"%d\" width=\"%d\" "
                     "height=\"%d\"/>\n",
                     left, top, heat->column_count * CELL, heat->row_count * CELL);
    for (int r = 0; r < heat->row_count; r++) {
        const int y = top + r * CELL + CELL / 2 + 4;
        append_text(out, "", left - 6, y, " text-anchor=\"end\"", heat->rows[r]);
    }
    for (int c = 0; c < heat->column_count; c++) {
        const int x = left + c * CELL + CELL / 2 + 4;
        char turned[80];
        snprintf(turned, sizeof turned, " transform=\"rotate(-90 %d %d)\"", x, top - 6);
        append_text(out, "", x, top - 6, turned, heat->columns[c]);
    }
    et_strbuf_append(out, "</svg>\n");
    return out->failed ? et_alloc_failed(error, "a picture") : ET_OK;
}

/* ---- bars, each with its name to the left and its number at its end ---- */

#define ROW    20 /* pixels of a bar and the space below */
#define BAR    13 /* pixels of a bar */
#define NUMBER 64 /* pixels of a number */

/* The begin of a name, an ellipsis, its end: at most so many letters. */
static void append_name(et_strbuf *out, const char *name, int letters)
{
    const size_t length = strlen(name);
    et_strbuf shown = ET_STRBUF_INIT;
    size_t begin = 0, end = length;
    uint32_t code;
    if (et_utf8_columns(name, length) > (size_t)letters) {
        for (int i = 0; i < letters / 2 && begin < length; i++)
            begin += et_utf8_decode(name + begin, length - begin, &code);
        for (int i = 0; i < (letters - 1) / 2 && end > begin; i++)
            for (end--; end > begin && (name[end] & 0xc0) == 0x80;)
                end--;
        et_strbuf_append_bytes(&shown, name, begin);
        et_strbuf_append(&shown, "\xe2\x80\xa6"); /* ... */
    }
    et_strbuf_append(&shown, begin ? name + end : name);
    et_markup_append(out, et_strbuf_text(&shown));
    out->failed |= shown.failed;
    et_strbuf_release(&shown);
}

static void append_row(et_strbuf *out, const et_chart_bars *bars, int i, int left, int top,
                       double length)
{
    et_strbuf_append(out, "<g>");
    append_title(out, bars->names[i], "");
    et_strbuf_printf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", left - 6, top + BAR - 2);
    append_name(out, bars->names[i], (int)((left - 6) / LETTER_WIDE));
    et_strbuf_append(out, "</text>");
    const int pixels = (int)lround(length);
    if (pixels > 0)
        et_strbuf_printf(out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>", left, top,
                         pixels, BAR);
    et_strbuf_printf(out, "<text x=\"%d\" y=\"%d\">%s</text></g>\n", left + pixels + 5,
                     top + BAR - 2, et_format_value(bars->values[i]).text);
}

int et_chart_bars_svg(et_strbuf *out, const et_chart_bars *bars, int width, et_error *error)
{
    et_assert(width > 0);
    double most = 0;
    if (bars->count < 1 || bars->count > ET_CHART_BARS_MAX)
        return et_fail(error, ET_EDATA, "%d bars: 1 to %d can be drawn", bars->count,
                       ET_CHART_BARS_MAX);
    et_assert(bars->names && bars->values);
    for (int i = 0; i < bars->count; i++)
        most = bars->values[i] > most ? bars->values[i] : most;
    const double wanted = ceil((double)longest(bars->names, bars->count) * LETTER_WIDE) + 10;
    const int left = (int)fmin(wanted, width * 0.45), room = width - left - NUMBER;
    const int top = MARGIN + (bars->title ? 22 : 0);
    const int bottom = top + bars->count * ROW, height = bottom + (bars->x_label ? 22 : 6);
    begin(out, width, height, IMAGE, NULL, "rect{fill:#3b82c4}.frame{stroke:#8c959f;fill:none}");
    append_text(out, " class=\"title\"", 6, 22, "", bars->title);
    for (int i = 0; i < bars->count; i++)
        append_row(out, bars, i, left, top + i * ROW,
                   most > 0 && bars->values[i] > 0 ? room * (bars->values[i] / most) : 0);
    et_strbuf_printf(out, "<path class=\"frame\" d=\"M%d %dV%d\"/>\n", left, top - 4, bottom);
    append_text(out, "", left, bottom + 14, "", bars->x_label);
    et_strbuf_append(out, "</svg>\n");
    return out->failed ? et_alloc_failed(error, "a picture") : ET_OK;
}
