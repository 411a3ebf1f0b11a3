/* A separate file, because plain.c makes error messages plain and must not fail, while growing a
 * buffer can fail. */
#include <string.h>

#include "base/text/plain.h"

static void append(void *out, const char *bytes, size_t length)
{
    et_strbuf_append_bytes(out, bytes, length);
}

void et_plain_append(et_strbuf *out, const char *text)
{
    et_plain_walk(text, strlen(text), false, append, out);
}

void et_plain_append_lines(et_strbuf *out, const char *text, size_t length)
{
    et_plain_walk(text, length, true, append, out);
}
