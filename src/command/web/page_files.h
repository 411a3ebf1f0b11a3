/* The pages of `etude watch` and `etude serve`. CMake makes each page from the parts in its
 * folder. */
#ifndef ETUDE_COMMAND_WEB_PAGE_FILES_H
#define ETUDE_COMMAND_WEB_PAGE_FILES_H

#include <stddef.h>

/* A page has its own style and script in it, and asks its server alone. */
#define ET_PAGE_POLICY                                                                             \
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "                  \
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"

extern const unsigned char et_watch_page[], et_serve_page[];
extern const size_t et_watch_page_length, et_serve_page_length; /* bytes */

#endif
