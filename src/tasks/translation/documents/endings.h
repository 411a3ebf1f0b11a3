/* What the ending of a file's name says about its format: page.html is HTML. */
#ifndef ETUDE_TASKS_TRANSLATION_DOCUMENTS_ENDINGS_H
#define ETUDE_TASKS_TRANSLATION_DOCUMENTS_ENDINGS_H

#include <etude/error.h>

/* Sets *format, an et_document_format: ET_DOCUMENT_LINES for any other ending. .gz at the end is
 * ignored. ET_EUSAGE: a format that Etude does not read; the message names the cure. */
int et_document_format_of(const char *path, int *format, et_error *error);

#endif
