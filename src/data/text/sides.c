#include "data/text/sides.h"

#include "base/alloc.h"
#include "base/inline.h"
#include "data/text/punctuation.h"

ET_APART int encode_normalized(const et_vocabulary *vocabulary, const et_punctuation *rules,
                               const char *text, size_t length, et_tokens *tokens, et_error *error)
{
    et_strbuf line = ET_STRBUF_INIT;
    et_punctuation_normalize(rules, text, length, &line);
    int status = line.failed ? et_alloc_failed(error, length, "a line")
                             : et_vocabulary_encode(vocabulary, et_strbuf_text(&line), line.length,
                                                    tokens, error);
    et_strbuf_release(&line);
    return status;
}

int et_sides_encode(const et_sides *sides, bool target, const char *text, size_t length,
                    et_tokens *tokens, et_error *error)
{
    const et_vocabulary *vocabulary = target ? sides->target : sides->source;
    const et_punctuation *rules = sides->punctuation[target];
    return rules ? encode_normalized(vocabulary, rules, text, length, tokens, error)
                 : et_vocabulary_encode(vocabulary, text, length, tokens, error);
}
