#include "data/text/sides.h"

#include "base/alloc.h"
#include "data/text/punctuation.h"

int et_sides_encode_by(const et_punctuation *rules, const et_vocabulary *vocabulary,
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
