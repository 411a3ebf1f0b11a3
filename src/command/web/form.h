/* Forms in the body of a request, read into a dict of texts:
 *
 *     application/x-www-form-urlencoded   q=a+dog&source=en   as WHATWG's URL standard (5.1)
 *     multipart/form-data                 a part for each field, as RFC 7578 and RFC 2046 (5.1)
 *
 * Line ends CR LF of a value become LF. A name at most once, values in UTF-8 without a byte 0; the
 * value of a file is its contents. There is no state. */
#ifndef ETUDE_COMMAND_WEB_FORM_H
#define ETUDE_COMMAND_WEB_FORM_H

#include <stddef.h>

#include <etude/value.h>

/* Most fields, and bytes of the longest name. */
#define ET_FORM_FIELDS_MAX 64
#define ET_FORM_NAME_MAX   63

/* text: [length] bytes and a 0; they are overwritten. boundary: of the parts; NULL: the form is
 * urlencoded. *out is in arena. ET_EDATA: what is wrong. ET_ENOMEM. */
int et_form_read(et_value **out, et_arena *arena, const char *boundary, char *text, size_t length,
                 et_error *error);

#endif
