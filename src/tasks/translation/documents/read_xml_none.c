/* Replaces read_xml.c in a build without expat: nothing can be read. */
#include "tasks/translation/documents/document_private.h"

int et_document_read_xml(et_document *d, et_error *error)
{
    return et_fail(error, ET_ECONFIG,
                   "%s: XML needs expat, but this etude was built without: install libexpat1-dev "
                   "and build again with -DETUDE_EXPAT=ON",
                   d->name);
}
