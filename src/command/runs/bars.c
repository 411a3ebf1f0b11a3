/* Bars: a row of pixels for each value, with its name to the left and its number at its end. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "base/text/unicode.h"
#include "command/runs/chart.h"

#define ROW    20  /* pixels of a bar and the space below */
#define BAR    13  /* pixels of a bar */
#define LETTER 7.2 /* pixels of a letter of 12 pixels, at the most */
#define NUMBER 64  /* pixels of a number */
#define MARGIN 12

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
    et_strbuf_append(out, "<g><title>");
    et_markup_append(out, bars->names[i]);
    et_strbuf_printf(out, "</title><text x=\"%d\" y=\"%d\" text-anchor=\"end\">", left - 6,
                     top + BAR - 2);
    append_name(out, bars->names[i], (int)((left - 6) / LETTER));
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
    size_t letters = 0;
    double most = 0;
    if (bars->count < 1 || bars->count > ET_CHART_BARS_MAX)
        return et_fail(error, ET_EDATA, "%d bars: 1 to %d can be drawn", bars->count,
                       ET_CHART_BARS_MAX);
    et_assert(bars->names && bars->values);
    for (int i = 0; i < bars->count; i++) {
        const size_t length = et_utf8_columns(bars->names[i], strlen(bars->names[i]));
        letters = length > letters ? length : letters;
        most = bars->values[i] > most ? bars->values[i] : most;
    }
    const double wanted = ceil((double)letters * LETTER) + 10;
    const int left = (int)fmin(wanted, width * 0.45), room = width - left - NUMBER;
    const int top = MARGIN + (bars->title ? 22 : 0);
    const int bottom = top + bars->count * ROW, height = bottom + (bars->x_label ? 22 : 6);
    et_strbuf_printf(out,
                     "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                     "viewBox=\"0 0 %d %d\" role=\"img\">\n",
                     width, height, width, height);
    et_chart_append_style(out, "rect{fill:#3b82c4}.frame{stroke:#8c959f;fill:none}");
    if (bars->title) {
        et_strbuf_append(out, "<text class=\"title\" x=\"6\" y=\"22\">");
        et_markup_append(out, bars->title);
        et_strbuf_append(out, "</text>\n");
    }
    for (int i = 0; i < bars->count; i++)
        append_row(out, bars, i, left, top + i * ROW,
                   most > 0 && bars->values[i] > 0 ? room * (bars->values[i] / most) : 0);
    et_strbuf_printf(out, "<path class=\"frame\" d=\"M%d %dV%d\"/>\n", left, top - 4, bottom);
    if (bars->x_label) {
        et_strbuf_printf(out, "<text x=\"%d\" y=\"%d\">", left, bottom + 14);
        et_markup_append(out, bars->x_label);
        et_strbuf_append(out, "</text>\n");
    }
    et_strbuf_append(out, "</svg>\n");
    return out->failed ? et_alloc_failed(error, out->length, "a picture") : ET_OK;
}
