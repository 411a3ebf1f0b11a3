/* Attributes of a tag of HTML: which have text for people. */
#ifndef ETUDE_TASKS_TRANSLATION_DOCUMENTS_ATTRIBUTES_H
#define ETUDE_TASKS_TRANSLATION_DOCUMENTS_ATTRIBUTES_H

#include <stdbool.h>
#include <stddef.h>

typedef struct et_attribute {
    const char *name; /* [name_length] */
    size_t name_length;
    const char *value; /* [length], without its quotes; NULL: none */
    size_t length;
    char quote; /* " or '; 0: none */
} et_attribute;

/* What the attributes of a tag say about its others. */
typedef struct et_attributes {
    bool kept;        /* translate="no" or class="notranslate" */
    bool description; /* name="description" */
    bool button;      /* type="submit", "button" or "reset" */
} et_attributes;

/* Adds what an attribute with a value says. */
void et_attributes_add(et_attributes *found, const et_attribute *a);

/* Whether people read the value in HTML. element: the tag's name, [element_length]. */
bool et_attribute_is_read(const et_attribute *attribute, const char *element, size_t element_length,
                          const et_attributes *others);

#endif
