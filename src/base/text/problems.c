#include "base/text/problems.h"

#include <stdarg.h>

#include "base/alloc.h"

/* Of a message, for problems: the rest is for the text around them. */
#define ROOM (ET_ERROR_TEXT_MAX - 224)

/* The first problem is always shown, cut if necessary. */
void et_problems_add(et_problems *self, const char *format, ...)
{
    size_t before = self->text.length;
    va_list arguments;
    self->count++;
    et_strbuf_printf(&self->text, "%s(%d) ", before ? "; " : "", self->count);
    va_start(arguments, format);
    et_strbuf_vprintf(&self->text, format, arguments);
    va_end(arguments);
    if (before && (self->text.length > ROOM || self->shown < self->count - 1))
        et_strbuf_truncate(&self->text, before);
    else
        self->shown++;
}

int et_problems_report(et_problems *self, int status, const char *what, et_error *error)
{
    const char *text = et_strbuf_text(&self->text);
    if (!self->count)
        status = ET_OK;
    else if (self->text.failed)
        status = et_alloc_failed(error, self->text.length, "a message");
    else if (self->count == 1)
        status = et_fail(error, status, "%s: %s", what, text + 4);
    else if (self->shown == self->count)
        status = et_fail(error, status, "%s, in %d places: %s", what, self->count, text);
    else
        status = et_fail(error, status, "%s, in %d places: %s; and %d more", what, self->count,
                         text, self->count - self->shown);
    et_strbuf_release(&self->text);
    return status;
}
