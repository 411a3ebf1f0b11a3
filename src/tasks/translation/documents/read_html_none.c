/* Replaces read_html.c in a build without Gumbo: no HTML can be read. */
#include "tasks/translation/documents/document_private.h"

int et_document_read_html(et_document *d, et_error *error)
{
    return et_fail(error, ET_ECONFIG,
                   "%s: HTML needs Gumbo, but this etude was built without: install libgumbo-dev "
                   "and build again with -DETUDE_GUMBO=ON",
                   d->name);
}

int et_document_read_page(et_document *d, size_t from, size_t to, et_error *error)
{
    const size_t line = et_document_line(d, from);
    (void)error;
    et_document_keep_words(d, d->text + from, to - from, line);
    return ET_OK;
}
