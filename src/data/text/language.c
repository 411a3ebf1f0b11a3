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
