#include "tasks/translation/documents/attributes.h"

#include <string.h>
#include <strings.h>

#define SPACE " \t\r\n\f"

/* Bytes at `at` that are not among `ends`. */
static const char *skip_until(const char *at, const char *end, const char *ends)
{
    while (at < end && (!*at || !strchr(ends, *at)))
        at++;
    return at;
}

static const char *skip(const char *at, const char *end, const char *among)
{
    while (at < end && *at && strchr(among, *at))
        at++;
    return at;
}

static bool is_word(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && !strncasecmp(text, word, length);
}

/* Whether a word of the list, which ends with NULL, is the text. */
static bool is_among(const char *text, size_t length, const char *const *words)
{
    while (*words && !is_word(text, length, *words))
        words++;
    return *words;
}

static bool is_named(const et_attribute *a, const char *name)
{
    return is_word(a->name, a->name_length, name);
}

/* XML's name has a prefix: its:translate. */
static bool is_translate(const et_attribute *a)
{
    const char *colon = memchr(a->name, ':', a->name_length);
    const char *name = colon ? colon + 1 : a->name;
    return is_word(name, a->name_length - (size_t)(name - a->name), "translate");
}

static bool has_word(const et_attribute *a, const char *word)
{
    const char *at = a->value, *end = at + a->length;
    while (at < end) {
        const char *from = skip(at, end, SPACE);
        at = skip_until(from, end, SPACE);
        if (is_word(from, (size_t)(at - from), word))
            return true;
    }
    return false;
}

void et_attributes_add(et_attributes *found, const et_attribute *a)
{
    static const char *const buttons[] = { "submit", "button", "reset", NULL };
    found->kept |= is_translate(a) && is_word(a->value, a->length, "no");
    found->kept |= is_named(a, "class") && has_word(a, "notranslate");
    found->description |= is_named(a, "name") && is_word(a->value, a->length, "description");
    found->button |= is_named(a, "type") && is_among(a->value, a->length, buttons);
}

bool et_attribute_is_read(const et_attribute *a, const char *element, size_t element_length,
                          const et_attributes *others)
{
    static const char *const anywhere[] = { "alt",
                                            "placeholder",
                                            "aria-label",
                                            "aria-description",
                                            "aria-placeholder",
                                            "aria-roledescription",
                                            "aria-valuetext",
                                            NULL };
    static const char *const labelled[] = { "option", "optgroup", "track", NULL };
    static const char *const style_sets[] = { "link", "style", NULL }; /* titles are their names */
    if (is_among(a->name, a->name_length, anywhere))
        return true;
    if (is_named(a, "title"))
        return !is_among(element, element_length, style_sets);
    if (is_named(a, "label"))
        return is_among(element, element_length, labelled);
    if (is_named(a, "content"))
        return others->description && is_word(element, element_length, "meta");
    return is_named(a, "value") && others->button && is_word(element, element_length, "input");
}
