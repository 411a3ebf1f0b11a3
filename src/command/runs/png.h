/* A picture as PNG: SVG goes through librsvg's program rsvg-convert, which must be on PATH. */
#ifndef ETUDE_COMMAND_RUNS_PNG_H
#define ETUDE_COMMAND_RUNS_PNG_H

#include <etude/error.h>

#include "base/text/strbuf.h"

/* ET_ENOTFOUND: rsvg-convert is not there; the text names the cure. To be called before any work.
 */
int et_png_check(et_error *error);

/* Appends the PNG of a whole SVG document. ET_EFAIL: the program failed. By a process without
 * threads. */
int et_png_from_svg(et_strbuf *out, const et_strbuf *svg, et_error *error);

#endif
