/* Schemas, for the library, beyond <etude/schema.h>. */
#ifndef ETUDE_DATA_TABLE_SCHEMA_SCHEMA_H
#define ETUDE_DATA_TABLE_SCHEMA_SCHEMA_H

#include <etude/schema.h>

/* YAML that et_schema_parse reads, terminated. The caller frees the text (et_free). */
int et_schema_format(const et_schema *schema, char **text, et_error *error);

int et_schema_position(const et_schema *schema, const char *name); /* -1: none */
bool et_schema_numeric(const et_schema_field *field);              /* integer or real */

#endif
