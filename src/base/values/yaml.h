/* YAML to values and back, with libyaml; only this module uses it. Core schema, with 1e3 as a
 * number. Aliases and anchors (alias bombs), duplicate keys, tags, and nesting deeper than 64 are
 * errors with file, line and cure. */
#ifndef ETUDE_BASE_VALUES_YAML_H
#define ETUDE_BASE_VALUES_YAML_H

#include "base/text/strbuf.h"
#include <etude/value.h>
#include <stdbool.h>

/* Parses length bytes (one document; empty: an empty dict). name is for messages. */
int et_yaml_parse(et_value **out, et_arena *arena, const char *text, size_t length,
                  const char *name, et_error *error);

/* Parses one scalar or flow value after `key=` on a command line. A wrong value is a wrong setting:
 * ET_ECONFIG. */
int et_yaml_parse_value(et_value **out, et_arena *arena, const char *text, const char *name,
                        et_error *error);

/* Appends value in block style, lists of scalars in flow style; strings are quoted if parsing needs
 * quotes to give the same tree again. */
void et_yaml_print(et_strbuf *out, const et_value *value);

/* The meaning of a plain (unquoted) scalar, by the core schema of YAML 1.2.2, section 10.3.2. The
 * printer uses it to quote texts that the reader would take for numbers.
 * Sets value's kind and content from text; ordinary text does not change it. False: a number beyond
 * 64 bits, or beyond a double; value does not change. */
bool et_yaml_resolve(et_value *value, const char *text);

#endif
