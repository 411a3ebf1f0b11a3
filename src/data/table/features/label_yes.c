#include "data/table/features/label_yes.h"

#include <string.h>

#include "data/table/schema/number.h"

/* Whether a label is a word, in letters of either case. */
static bool is_word(const char *label, const char *word)
{
    for (; *word && (*label | 32) == *word; word++)
        label++;
    return !*word && !*label;
}

bool et_label_is_yes(const char *label, const char *other)
{
    static const char *const words[] = { "true", "yes", "y", "t", "positive", "pos", NULL };
    double number, second;
    if (et_number_is(et_number_parse(&number, label, strlen(label))) &&
        et_number_is(et_number_parse(&second, other, strlen(other))))
        return number > second;
    for (int i = 0; words[i]; i++)
        if (is_word(label, words[i]))
            return true;
    return false;
}
