/* Heat maps: cells of one colour, whose opacity is the value. They look right on light and dark
 * pages. */
#include "command/runs/chart.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/strbuf.h"
#include "base/text/unicode.h"

#define CELL   26  /* pixels of a side of a cell */
#define LETTER 7.2 /* pixels of a letter of 12 pixels, at the most */
#define MARGIN 12

/* Pixels of the longest of names. */
static int room_for(const char *const *names, int count)
{
    size_t most = 0;
    for (int i = 0; i < count; i++) {
        size_t letters = et_utf8_columns(names[i], strlen(names[i]));
        most = letters > most ? letters : most;
    }
    return (int)ceil((double)(most < 200 ? most : 200) * LETTER) + 6;
}

static void append_names(et_strbuf *out, const et_chart_heat *heat, int left, int top)
{
    for (int r = 0; r < heat->row_count; r++) {
        et_strbuf_printf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", left - 6,
                         top + r * CELL + CELL / 2 + 4);
        et_markup_append(out, heat->rows[r]);
        et_strbuf_append(out, "</text>\n");
    }
    for (int c = 0; c < heat->column_count; c++) {
        int x = left + c * CELL + CELL / 2 + 4;
        et_strbuf_printf(out, "<text x=\"%d\" y=\"%d\" transform=\"rotate(-90 %d %d)\">", x,
                         top - 6, x, top - 6);
        et_markup_append(out, heat->columns[c]);
        et_strbuf_append(out, "</text>\n");
    }
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
    et_strbuf_printf(out,
                     "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                     "viewBox=\"0 0 %d %d\">\n",
                     width, height, width, height);
    et_chart_append_style(out, ".cells{fill:#3b82c4}.frame{stroke:#8c959f;fill:none}");
    if (heat->title) {
        et_strbuf_printf(out, "<text class=\"title\" x=\"%d\" y=\"%d\">", MARGIN, MARGIN + 12);
        et_markup_append(out, heat->title);
        et_strbuf_append(out, "</text>\n");
    }
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
    append_names(out, heat, left, top);
    et_strbuf_append(out, "</svg>\n");
    return out->failed ? et_alloc_failed(error, out->length, "a picture") : ET_OK;
}
