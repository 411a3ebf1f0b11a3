/* The Plural-Forms of a message catalogue: which form of a message a number has, as an expression
 * of C in n: "nplurals=2; plural=(n != 1);". */
#ifndef ETUDE_TASKS_TRANSLATION_DOCUMENTS_PLURAL_FORMS_H
#define ETUDE_TASKS_TRANSLATION_DOCUMENTS_PLURAL_FORMS_H

#include <stdbool.h>

typedef struct et_plural_forms {
    int count; /* of forms */
    int one;   /* the form of the number 1 */
    bool many; /* other numbers than 0 and 1 have that form, too */
} et_plural_forms;

/* false: text has no such expression; the forms are those of English: 2, and the first is that of
 * 1 alone. */
bool et_plural_forms_read(const char *text, et_plural_forms *forms);

#endif
