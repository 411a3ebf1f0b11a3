/* The headers of a request that describe its body: the type of Content-Type, in UTF-8, and no
 * compression. Parsed as in RFC 9110 (8.3, 5.6.6); there is no state. */
#ifndef ETUDE_COMMAND_WEB_TYPE_H
#define ETUDE_COMMAND_WEB_TYPE_H

#include <stdbool.h>

/* Bytes of the longest type that is read, with its 0. */
#define ET_HTTP_TYPE_MAX 64

/* `Application/JSON; Charset="utf-8"` to `application/json`. Parameters other than charset are
 * ignored. false: there is no type (header NULL), it is no type, or its charset is not UTF-8. */
bool et_http_type_read(char type[ET_HTTP_TYPE_MAX], const char *header);

/* Whether the body is sent as it is. header: Content-Encoding; NULL: there is none. */
bool et_http_coding_is_identity(const char *header);

#endif
