/* Replaces read_po.c in a build without libgettextpo: nothing can be read. */
#include "tasks/translation/documents/document_private.h"

int et_document_read_po(et_document *d, et_error *error)
{
    return et_fail(error, ET_ECONFIG,
                   "%s: message catalogues need libgettextpo, but this etude was built without: "
                   "install libgettextpo-dev and build again with -DETUDE_GETTEXTPO=ON",
                   d->name);
}

int et_document_check_po(et_document *d, const et_strbuf *text, et_error *error)
{
    (void)d, (void)text, (void)error;
    return ET_OK;
}
