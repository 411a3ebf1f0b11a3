/* Texts in HTML and SVG. */
#ifndef ETUDE_BASE_TEXT_MARKUP_H
#define ETUDE_BASE_TEXT_MARKUP_H

#include "base/text/strbuf.h"

/* Appends a text from anyone, for an element or an attribute in double quotes: made plain
 * (base/text/plain.h) and escaped. */
void et_markup_append(et_strbuf *out, const char *text);

#endif
