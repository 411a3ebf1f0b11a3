/* Text of a format that may quote markup: tags, comments and references of HTML in a message of
 * gettext, in a section of XML or, written as references (&lt;b>), in XML's text. Quoted markup
 * stays. Elements of a page's blocks, such as p and br, end a segment; all others belong to it.
 * The content of code, script and the like stays, too. */
#ifndef ETUDE_TASKS_TRANSLATION_DOCUMENTS_MARKED_H
#define ETUDE_TASKS_TRANSLATION_DOCUMENTS_MARKED_H

#include <stdbool.h>
#include <stddef.h>

#include "tasks/translation/documents/document.h"

typedef struct et_marking {
    size_t line;      /* of the document, where the text begins */
    bool references;  /* the text has XML's references */
    bool spaces;      /* white space other than one space ends a segment and stays */
    bool backslashes; /* escapes of Android's resources: \' \n \u00A9; a quote stays */
} et_marking;

/* Adds text to the segment, as et_document_add. Markup of a PO document is encoded. */
void et_document_add_marked(et_document *d, const char *text, size_t length,
                            const et_marking *marking);

#endif
