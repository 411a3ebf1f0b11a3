/* A SentencePiece model written by hand, token by token (sentencepiece_model.proto). */
#ifndef ETUDE_TESTS_DATA_MADE_MODEL_H
#define ETUDE_TESTS_DATA_MADE_MODEL_H

#include <string.h>

#include "base/text/strbuf.h"

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4 };

typedef struct token {
    const char *text;
    int type;
} token;

/* Fields shorter than 128 bytes. */
static inline void put_text(et_strbuf *out, const char *tag, const char *text)
{
    et_strbuf_append_bytes(out, tag, strlen(tag));
    et_strbuf_printf(out, "%c%s", (int)strlen(text), text);
}

static inline void put_token(et_strbuf *out, const token *one)
{
    et_strbuf body = ET_STRBUF_INIT;
    put_text(&body, "\x0a", one->text);
    et_strbuf_append_bytes(&body, "\x15\0\0\0\0", 5); /* score */
    if (one->type != NORMAL)
        et_strbuf_printf(&body, "\x18%c", one->type);
    et_strbuf_printf(out, "\x0a%c", (int)body.length);
    et_strbuf_append_bytes(out, et_strbuf_text(&body), body.length);
    et_strbuf_release(&body);
}

/* Writes a BPE model with these tokens, and with the texts of its symbols that are not NULL. */
static inline void put_model(et_strbuf *out, const token *tokens, const char *bos, const char *eos,
                             const char *pad)
{
    et_strbuf trainer = ET_STRBUF_INIT;
    et_strbuf_printf(&trainer, "\x18\x02");
    if (bos)
        put_text(&trainer, "\xf2\x02", bos);
    if (eos)
        put_text(&trainer, "\xfa\x02", eos);
    if (pad)
        put_text(&trainer, "\x82\x03", pad);
    for (; tokens->text; tokens++)
        put_token(out, tokens);
    et_strbuf_printf(out, "\x12%c", (int)trainer.length);
    et_strbuf_append_bytes(out, et_strbuf_text(&trainer), trainer.length);
    et_strbuf_append_bytes(out, "\x1a\0", 2); /* a normalizer that does nothing */
    et_strbuf_release(&trainer);
}

#endif
