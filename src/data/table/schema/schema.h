/* Schemas and metadata, for the library, beyond <etude/schema.h> and <etude/metadata.h>. */
#ifndef ETUDE_DATA_TABLE_SCHEMA_SCHEMA_H
#define ETUDE_DATA_TABLE_SCHEMA_SCHEMA_H

#include <etude/metadata.h>
#include <etude/schema.h>

/* YAML that et_schema_parse reads, terminated. The caller frees the text (et_free). */
int et_schema_format(const et_schema *schema, char **text, et_error *error);

int et_schema_position(const et_schema *schema, const char *name); /* -1: none */
bool et_schema_numeric(const et_schema_field *field);              /* integer or real */

/* JSON that et_metadata_parse reads, terminated. The caller frees the text (et_free). */
int et_metadata_format(const et_metadata *metadata, char **text, et_error *error);

int et_metadata_position(const et_metadata *metadata, const char *name); /* -1: none */

/* The place of a value, its text [length], among a column's entries; -1: none, or no such column.
 * In constant time; by position without the search for the name. */
int et_metadata_entry(const et_metadata *metadata, const char *column, const char *text,
                      size_t length);
int et_metadata_entry_at(const et_metadata *metadata, int position, const char *text,
                         size_t length);

#endif
