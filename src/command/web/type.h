/* The headers of a request, or of a part of it, that describe a body: the type of Content-Type, in
 * UTF-8, parameters, and no compression. Parsed as in RFC 9110 (8.3, 5.6.6); there is no state. */
#ifndef ETUDE_COMMAND_WEB_TYPE_H
#define ETUDE_COMMAND_WEB_TYPE_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the longest type that is read, with its 0. */
#define ET_HTTP_TYPE_MAX 64

/* Reads `Application/JSON; Charset="utf-8"` as `application/json`. Parameters other than charset
 * are ignored. false: no header (NULL), an invalid type, or a charset other than UTF-8. */
bool et_http_type_read(char type[ET_HTTP_TYPE_MAX], const char *header);

/* Reads the parameter named name of a header such as `form-data; name="q"`, in a text of size
 * bytes. false: the header has none, or has it twice, or it does not fit. */
bool et_http_parameter(const char *header, const char *name, char *value, size_t size);

/* Whether the body is not encoded. header: Content-Encoding; NULL: no header. */
bool et_http_coding_is_identity(const char *header);

#endif
