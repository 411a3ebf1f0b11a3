#include <string.h>

#include "data/text/sentences.h"

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

bool et_language_is_code(const char *text)
{
    size_t length = strspn(text, LETTERS);
    if (length < 2 || length > 3)
        return false;
    for (text += length; *text == '-' || *text == '_'; text += length + 1) {
        length = strspn(text + 1, LETTERS "0123456789");
        if (length < 2 || length > 8)
            return false;
    }
    return !*text;
}

bool et_language_read_pair(const char *text, char source[ET_LANGUAGE_MAX],
                           char target[ET_LANGUAGE_MAX])
{
    const size_t length = strcspn(text, ",");
    *source = *target = 0;
    if (!text[length] || length >= ET_LANGUAGE_MAX || strlen(text + length + 1) >= ET_LANGUAGE_MAX)
        return false;
    memcpy(source, text, length);
    source[length] = 0;
    strcpy(target, text + length + 1);
    if (et_language_is_code(source) && et_language_is_code(target))
        return true;
    *source = *target = 0;
    return false;
}
