/* Plain text: a segment, or several sentences, for each line. */
#include <string.h>

#include "tasks/translation/documents/document_private.h"

int et_document_read_lines(et_document *d, et_error *error)
{
    const char *at = d->text, *end = d->text + d->length;
    (void)error;
    for (size_t line = d->first_line; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const size_t length = (size_t)((stop ? stop : end) - at);
        et_document_add(d, at, length, line);
        et_document_end(d);
        if (stop)
            et_document_keep(d, "\n", 1);
        at += length + 1;
    }
    return ET_OK;
}
