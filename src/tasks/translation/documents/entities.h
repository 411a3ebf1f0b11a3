/* Entities of HTML and XML. */
#ifndef ETUDE_TASKS_TRANSLATION_DOCUMENTS_ENTITIES_H
#define ETUDE_TASKS_TRANSLATION_DOCUMENTS_ENTITIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the entity that text, [length], begins with: "&nbsp;", "&#160;", "&#xA0;"; 0: it is
 * none. *code: its character; 0: a name that is not known here. */
size_t et_entity_read(const char *text, size_t length, uint32_t *code);

#endif
