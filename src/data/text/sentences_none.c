/* Replaces sentences.c in a build without ICU: nothing can be opened. */
#include <stddef.h>

#include "base/assert.h"
#include "data/text/sentences.h"

int et_sentences_open(et_sentences **out, const char *language, et_error *error)
{
    (void)language;
    *out = NULL;
    return et_fail(error, ET_ECONFIG,
                   "sentences need ICU, but this etude was built without: install libicu-dev and "
                   "build again with -DETUDE_ICU=ON, or give one sentence a line");
}

void et_sentences_close(et_sentences *sentences)
{
    et_assert(!sentences);
}

bool et_sentences_begin(et_sentences *sentences, const char *text, size_t length)
{
    (void)sentences;
    (void)text;
    (void)length;
    return false;
}

bool et_sentences_next(et_sentences *sentences, size_t *end)
{
    (void)sentences;
    *end = 0;
    return false;
}
