/* Markdown's own reader, for checks of translations. */
#ifndef ETUDE_TASKS_TRANSLATION_DOCUMENTS_READ_MD_H
#define ETUDE_TASKS_TRANSLATION_DOCUMENTS_READ_MD_H

#include <stdbool.h>

#include "base/text/strbuf.h"

/* Appends the blocks, spans, addresses, code and inline HTML of a text, without its words: two
 * texts with the same structure have the same bytes. false: no memory, or no library. */
bool et_md_structure(const char *text, size_t length, et_strbuf *out);

#endif
