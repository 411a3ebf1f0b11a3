/* Replaces vocabulary_sentencepiece.cc in a build without SentencePiece. Runs with an existing
 * vocabulary and encoded corpus can train; encoding, decoding and training a vocabulary fail. Each
 * call follows vocabulary_sentencepiece.h and returns its ET_ECONFIG; facts of a model come from
 * vocabulary_check.c and still work. */
#include "data/text/vocabulary/vocabulary_sentencepiece.h"

#include <stdlib.h>

/* "encoding needs SentencePiece, ..." */
static int missing(et_error *error, const char *what)
{
    return et_fail(error, ET_ECONFIG,
                   "%s needs SentencePiece, but this etude was built without: install "
                   "libsentencepiece-dev and build again with -DETUDE_SENTENCEPIECE=ON",
                   what);
}

/* A build with SentencePiece may also fail here, so callers handle the error. */
int et_sentencepiece_load(et_sentencepiece **out, const et_vocabulary_facts *facts,
                          const void *bytes, size_t length, const char *name, et_error *error)
{
    (void)facts, (void)bytes, (void)length, (void)name;
    *out = NULL;
    return missing(error, "turning text into tokens and back");
}

void et_sentencepiece_free(et_sentencepiece *model)
{
    (void)model;
}

/* The next three functions are never called, because no model exists. */

int et_sentencepiece_encode(const et_sentencepiece *model, const char *text, size_t length,
                            et_tokens *tokens, et_error *error)
{
    (void)model, (void)text, (void)length, (void)tokens;
    return missing(error, "encoding");
}

int et_sentencepiece_decode(const et_sentencepiece *model, const int32_t *ids, size_t count,
                            et_strbuf *out, et_error *error)
{
    (void)model, (void)ids, (void)count, (void)out;
    return missing(error, "decoding");
}

const char *et_sentencepiece_token(const et_sentencepiece *model, int32_t id)
{
    (void)model, (void)id;
    return "";
}

/* Nothing to free: *bytes is NULL. */
int et_sentencepiece_train(char **bytes, size_t *length, const et_vocabulary_options *options,
                           et_vocabulary_lines_fn *lines, void *payload, et_error *error)
{
    (void)options, (void)lines, (void)payload;
    *bytes = NULL;
    *length = 0;
    return missing(error, "training a vocabulary");
}
