/* Sentence breaks by ICU, directly over UTF-8. Only this file uses ICU. The names of ICU's
 * functions contain its version; the header's macros give these names, also for the loader. */
#include "data/text/sentences.h"

#include <stdio.h>
#include <string.h>
#include <unicode/ubrk.h>
#include <unicode/utext.h>

#include "base/alloc.h"
#include "base/files/library.h"

/* Bytes of a language's code and the keyword after it. */
#define LOCALE_MAX 64

#define CALLS(X)                                                                                   \
    X(, ubrk_close)                                                                                \
    X(, ubrk_first)                                                                                \
    X(, ubrk_next)                                                                                 \
    X(, ubrk_open)                                                                                 \
    X(, ubrk_setUText)                                                                             \
    X(, utext_close)                                                                               \
    X(, utext_openUTF8)

ET_LIBRARY(icu, CALLS, ET_ICU_FILE, "ICU");

struct et_sentences {
    UBreakIterator *breaks;
    UText text; /* closed, or the text of breaks */
};

int et_sentences_open(et_sentences **out, const char *language, et_error *error)
{
    char locale[LOCALE_MAX];
    UErrorCode code = U_ZERO_ERROR;
    *out = NULL;
    if (language && (!et_language_is_code(language) || strlen(language) > LOCALE_MAX / 2))
        return et_fail(error, ET_EUSAGE, "%s is not the code of a language: expected en, pt-BR",
                       language);
    int status = et_library_load(&library, &icu, error);
    et_sentences *s = status ? NULL : et_alloc_zero(1, sizeof *s);
    if (status || !s)
        return status ? status : et_alloc_failed(error, "sentence breaks");
    s->text = (UText)UTEXT_INITIALIZER;
    snprintf(locale, sizeof locale, "%s@ss=standard", language ? language : "root");
    s->breaks = icu.ubrk_open(UBRK_SENTENCE, locale, NULL, 0, &code);
    if (U_FAILURE(code)) {
        et_sentences_close(s);
        return et_fail(error, code == U_MEMORY_ALLOCATION_ERROR ? ET_ENOMEM : ET_EFAIL,
                       "ICU has no sentence breaks for %s (its error %d); are its data installed?",
                       language ? language : "all languages", (int)code);
    }
    *out = s;
    return ET_OK;
}

void et_sentences_close(et_sentences *s)
{
    if (!s)
        return;
    if (s->breaks)
        icu.ubrk_close(s->breaks);
    icu.utext_close(&s->text);
    et_free(s);
}

bool et_sentences_begin(et_sentences *s, const char *text, size_t length)
{
    UErrorCode code = U_ZERO_ERROR;
    icu.utext_openUTF8(&s->text, text, (int64_t)length, &code);
    icu.ubrk_setUText(s->breaks, &s->text, &code);
    if (U_SUCCESS(code))
        icu.ubrk_first(s->breaks);
    return U_SUCCESS(code);
}

bool et_sentences_next(et_sentences *s, size_t *end)
{
    const int32_t next = icu.ubrk_next(s->breaks);
    if (next == UBRK_DONE)
        return false;
    *end = (size_t)next;
    return true;
}
