#include "data/text/vocabulary/language_tags.h"

#include <string.h>

/* In a list for people. */
#define LISTED 8

bool et_language_tag_is(const char *token)
{
    const size_t length = strlen(token);
    return length > 4 && !memcmp(token, ">>", 2) && !memcmp(token + length - 2, "<<", 2);
}

int32_t et_language_tags_list(const et_vocabulary *vocabulary, et_strbuf *list)
{
    int32_t count = 0;
    const int32_t size = et_vocabulary_size(vocabulary);
    for (int32_t id = 0; id < size; id++) {
        const char *token = et_vocabulary_token(vocabulary, id);
        if (!et_language_tag_is(token))
            continue;
        if (count < LISTED)
            et_strbuf_printf(list, "%s%s", count ? " " : "", token);
        count++;
    }
    if (count > LISTED)
        et_strbuf_append(list, " ...");
    return count;
}
