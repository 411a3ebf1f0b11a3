/* HTML's own reader, for checks of translations. */
#ifndef ETUDE_TASKS_TRANSLATION_DOCUMENTS_READ_HTML_H
#define ETUDE_TASKS_TRANSLATION_DOCUMENTS_READ_HTML_H

#include <stdbool.h>

#include "base/text/strbuf.h"

/* Appends the elements of a page and their attributes, without words: texts, and values that people
 * read. Two pages with the same structure have the same bytes. false: no memory, or no library. */
bool et_html_structure(const char *text, size_t length, et_strbuf *out);

#endif
