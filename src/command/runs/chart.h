/* Charts: curves with two axes, as lines of a terminal or as SVG. Points are joined in their order;
 * a point with x or y not finite is a gap.
 *
 *     const et_chart_curve curve = { "runs/a", steps, losses, count };
 *     const et_chart chart = { .title = "loss", .x_label = "step", .curves = &curve, .count = 1 };
 *     const et_chart_text_style style = { .width = 80, .height = 20 };
 *     et_strbuf out = ET_STRBUF_INIT;
 *     et_chart_text(&out, &chart, &style, &error);
 *
 * Texts may come from anyone: control characters and invalid UTF-8 are not drawn, and SVG is
 * escaped. Everything is borrowed during the call. */
#ifndef ETUDE_COMMAND_RUNS_CHART_H
#define ETUDE_COMMAND_RUNS_CHART_H

#include <stdbool.h>
#include <stddef.h>

#include <etude/error.h>

#include "base/text/strbuf.h"

typedef struct et_chart_curve {
    const char *name;    /* in the legend; NULL: not in the legend */
    const double *x, *y; /* [count] */
    size_t count;
} et_chart_curve;

typedef struct et_chart {
    const char *title, *x_label;  /* NULL: none */
    const char *y_label;          /* only of SVG; NULL: none */
    const et_chart_curve *curves; /* [count] */
    size_t count;
    size_t dots; /* the points of the first so many curves are dots, and not joined */
    bool log;    /* y is logarithmic: values not above 0 are gaps */
    bool time;   /* x is seconds, and shown as times */
} et_chart;

typedef struct et_chart_text_style {
    int width;  /* columns of the whole chart, ET_CHART_TEXT_WIDTH_MIN or more */
    int height; /* lines of the plot itself, without title, axis and legend */
    bool color; /* use ANSI colours; otherwise several curves are marked by letters */
    bool ascii; /* no characters outside of ASCII */
} et_chart_text_style;

#define ET_CHART_TEXT_WIDTH_MIN  30
#define ET_CHART_TEXT_HEIGHT_MIN 3
#define ET_CHART_TEXT_MAX        2000 /* columns, lines */
#define ET_CHART_LEGEND_MAX      24   /* names; then the number of further names */

/* Appends title, plot, axes, legend; lines end in a line end. ET_EDATA: no point can be drawn. */
int et_chart_text(et_strbuf *out, const et_chart *chart, const et_chart_text_style *style,
                  et_error *error);

#define ET_CHART_SVG_MIN 150
#define ET_CHART_SVG_MAX 20000

/* Appends an SVG document of width by height pixels, which loads no other file and is readable on
 * light and dark pages. If there are more points than pixels, points without a visible effect are
 * left out. ET_EDATA as above. */
int et_chart_svg(et_strbuf *out, const et_chart *chart, int width, int height, et_error *error);

/* ET_EUSAGE: the name of a picture ends in neither .svg nor .png, or this build writes no PNG.
 * option: in messages, "--output". */
int et_chart_check_picture(const char *option, const char *path, et_error *error);
/* Writes a picture, SVG or PNG by the name of its file, which is replaced as a whole. A size of 0
 * is the usual one. */
int et_chart_write(const char *path, const et_chart *chart, int width, int height, et_error *error);
/* Prints to standard output. A size of 0 fits the terminal. */
int et_chart_print(const et_chart *chart, int width, int height, et_error *error);

/* Values from 0 to 1 in cells, darker for larger values, with words at the rows and above the
 * columns. */
typedef struct et_chart_heat {
    const char *title;                        /* NULL: none */
    const char *const *rows, *const *columns; /* [row_count], [column_count]: their names */
    int row_count, column_count;              /* 1 to ET_CHART_HEAT_MAX */
    const double *const *values;              /* [row_count][column_count] */
} et_chart_heat;

#define ET_CHART_HEAT_MAX 300

/* Appends a whole SVG document, as et_chart_svg. ET_EDATA: no cells, or too many. */
int et_chart_heat_svg(et_strbuf *out, const et_chart_heat *heat, et_error *error);

/* Values as bars from 0 to the right, each with its name and its number. A value below 0 has no
 * bar. */
typedef struct et_chart_bars {
    const char *title, *x_label; /* NULL: none */
    const char *const *names;    /* [count] */
    const double *values;        /* [count] */
    int count;                   /* 1 to ET_CHART_BARS_MAX */
} et_chart_bars;

#define ET_CHART_BARS_MAX 100

/* Appends a whole SVG document, as et_chart_svg. Long names are cut in the middle, and are whole in
 * titles that browsers show on hover. ET_EDATA: no bars, or too many. */
int et_chart_bars_svg(et_strbuf *out, const et_chart_bars *bars, int width, et_error *error);

#endif
