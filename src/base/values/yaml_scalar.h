/* What a plain (unquoted) YAML scalar means, by the core schema of YAML 1.2.2, section 10.3.2.
 * Shared by reader and printer, so that the one quotes what the other would take for a number.
 * No state. */
#ifndef ETUDE_BASE_VALUES_YAML_SCALAR_H
#define ETUDE_BASE_VALUES_YAML_SCALAR_H

#include <stdbool.h>

#include <etude/value.h>

/* Gives value the kind and content that text stands for; ordinary text leaves it as it is.
 * False: a number beyond 64 bits, or beyond a double; value is as before. */
bool et_yaml_resolve(et_value *value, const char *text);

#endif
