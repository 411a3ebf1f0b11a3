#include "base/text/markup.h"

#include "base/text/plain.h"

void et_markup_append(et_strbuf *out, const char *text)
{
    et_strbuf plain = ET_STRBUF_INIT;
    et_plain_append(&plain, text);
    for (const char *c = et_strbuf_text(&plain); *c; c++) {
        const char *name = *c == '&'   ? "&amp;"
                           : *c == '<' ? "&lt;"
                           : *c == '>' ? "&gt;"
                           : *c == '"' ? "&quot;"
                                       : NULL;
        if (name)
            et_strbuf_append(out, name);
        else
            et_strbuf_append_char(out, *c);
    }
    out->failed |= plain.failed;
    et_strbuf_release(&plain);
}
