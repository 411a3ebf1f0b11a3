/* The meaning of a plain (unquoted) YAML scalar, by the core schema of YAML 1.2.2, section 10.3.2.
 * Used by reader and printer, so that the printer quotes texts that the reader would take for
 * numbers. No state. */
#ifndef ETUDE_BASE_VALUES_YAML_SCALAR_H
#define ETUDE_BASE_VALUES_YAML_SCALAR_H

#include <stdbool.h>

#include <etude/value.h>

/* Gives value the kind and content that text stands for; ordinary text leaves it as it is.
 * False: a number beyond 64 bits, or beyond a double; value is as before. */
bool et_yaml_resolve(et_value *value, const char *text);

#endif
