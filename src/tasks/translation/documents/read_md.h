/* Inline markup of Markdown. */
#ifndef ETUDE_TASKS_TRANSLATION_DOCUMENTS_READ_MD_H
#define ETUDE_TASKS_TRANSLATION_DOCUMENTS_READ_MD_H

#include <stdbool.h>
#include <stddef.h>

struct et_document;

/* Adds the text of a paragraph to the segment: code, links, emphasis and HTML are its markup.
 * false: no memory. */
bool et_document_add_md(struct et_document *d, const char *text, size_t length, size_t line);

#endif
