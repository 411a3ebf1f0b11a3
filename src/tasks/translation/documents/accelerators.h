/* Marks of keys in texts of menus and buttons: &File of Qt and Windows, _File of GTK. The key of a
 * translation is the same letter if the translation has it. */
#ifndef ETUDE_TASKS_TRANSLATION_DOCUMENTS_ACCELERATORS_H
#define ETUDE_TASKS_TRANSLATION_DOCUMENTS_ACCELERATORS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text/strbuf.h"

typedef struct et_accelerator {
    char mark; /* & or _; 0: none */
    char key;  /* the letter or digit after it */
} et_accelerator;

/* Whether text, a line, has one, at [*at]. & of "R&D" and _ of names are none. */
bool et_accelerator_find(const char *text, et_accelerator *accelerator, size_t *at);

/* Adds the mark to text, which is encoded for a message catalogue: before the key, else before the
 * first letter or digit of a word, else at the end, as for Japanese: (&F). */
void et_accelerator_insert(et_strbuf *text, et_accelerator accelerator);

#endif
