/* Forms in the body of a request, read into a dict of texts:
 *
 *     application/x-www-form-urlencoded   q=a+dog&source=en   as WHATWG's URL standard (5.1)
 *     multipart/form-data                 a part for each field, as RFC 7578 and RFC 2046 (5.1)
 *
 * Line ends CR LF of a value become LF. A name at most once, values in UTF-8 without a byte 0; the
 * value of a file is its contents. There is no state. */
#ifndef ETUDE_COMMAND_WEB_FORM_H
#define ETUDE_COMMAND_WEB_FORM_H

#include <stdbool.h>
#include <stddef.h>

#include <etude/value.h>

/* ---- type ---- */

/* The headers of a request, or of a part of it, that describe a body: the type of Content-Type, in
 * UTF-8, parameters, and no compression. Parsed as in RFC 9110 (8.3, 5.6.6); there is no state. */

/* Bytes of the longest type that is read, with its 0. */
#define ET_HTTP_TYPE_MAX 64

/* Reads `Application/JSON; Charset="utf-8"` as `application/json`. Parameters other than charset
 * are ignored. false: no header (NULL), an invalid type, or a charset other than UTF-8. */
bool et_http_type_read(char type[ET_HTTP_TYPE_MAX], const char *header);

/* Reads the parameter named name of a header such as `form-data; name="q"`, in a text of size
 * bytes. false: the header has none, or has it twice, or it does not fit. */
bool et_http_parameter(const char *header, const char *name, char *value, size_t size);

/* The largest weight (q) of a type in a header Accept (RFC 9110, 12.5.1); 0: the header does not
 * name the type, or is NULL. A wildcard names only itself. */
double et_http_accepts(const char *header, const char *type);

/* Whether the body is not encoded. header: Content-Encoding; NULL: no header. */
bool et_http_coding_is_identity(const char *header);

/* ---- forms ---- */

/* Most fields, and bytes of the longest name. */
#define ET_FORM_FIELDS_MAX 64
#define ET_FORM_NAME_MAX   63

/* text: [length] bytes and a 0; they are overwritten. boundary: between the parts; NULL: the form
 * is urlencoded. *out is in arena. ET_EDATA: the form is wrong; the error names the fault.
 * ET_ENOMEM. */
int et_form_read(et_value **out, et_arena *arena, const char *boundary, char *text, size_t length,
                 et_error *error);

#endif
