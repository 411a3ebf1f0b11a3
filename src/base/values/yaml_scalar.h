/* The meaning of a plain (unquoted) YAML scalar, by the core schema of YAML 1.2.2, section 10.3.2.
 * Used by reader and printer, so that the printer quotes texts that the reader would take for
 * numbers. No state. */
#ifndef ETUDE_BASE_VALUES_YAML_SCALAR_H
#define ETUDE_BASE_VALUES_YAML_SCALAR_H

#include <stdbool.h>

#include <etude/value.h>

/* Sets value's kind and content from text; ordinary text does not change it. False: a number beyond
 * 64 bits, or beyond a double; value does not change. */
bool et_yaml_resolve(et_value *value, const char *text);

#endif
