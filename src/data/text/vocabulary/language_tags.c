#include "data/text/vocabulary/language_tags.h"

#include <string.h>

/* In a list for people. */
#define LISTED 8

bool et_language_tag_is(const char *token)
{
    const size_t length = strlen(token);
    return length > 4 && !memcmp(token, ">>", 2) && !memcmp(token + length - 2, "<<", 2);
}

int et_language_tags_read(et_strings *tags, const et_vocabulary *vocabulary, et_arena *arena)
{
    const int32_t size = et_vocabulary_size(vocabulary);
    const char **items = NULL;
    size_t count = 0;
    for (int round = 0; round < 2; round++) {
        count = 0;
        for (int32_t id = 0; id < size; id++) {
            const char *token = et_vocabulary_token(vocabulary, id);
            if (!et_language_tag_is(token))
                continue;
            if (round && !(items[count] = et_arena_strdup(arena, token)))
                return ET_ENOMEM;
            count++;
        }
        if (!round && !(items = et_arena_array(arena, count + 1, sizeof *items)))
            return ET_ENOMEM;
    }
    *tags = (et_strings){ items, count };
    return ET_OK;
}

size_t et_language_tag_begins(const et_strings *tags, const char *text, size_t length)
{
    for (size_t i = 0; i < tags->count; i++) {
        const size_t size = strlen(tags->items[i]);
        if (length >= size && !memcmp(text, tags->items[i], size))
            return size;
    }
    return 0;
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
