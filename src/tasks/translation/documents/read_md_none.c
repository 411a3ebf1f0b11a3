/* Replaces read_md.c in a build without MD4C: no Markdown can be read. */
#include "tasks/translation/documents/document_private.h"

int et_document_read_md(et_document *d, et_error *error)
{
    return et_fail(error, ET_ECONFIG,
                   "%s: Markdown needs MD4C, but this etude was built without: install libmd4c-dev "
                   "and build again with -DETUDE_MD4C=ON",
                   d->name);
}

bool et_md_structure(const char *text, size_t length, et_strbuf *out)
{
    (void)text, (void)length, (void)out;
    return false;
}
