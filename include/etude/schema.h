/* Schemas: what the columns of a table are, by name: TensorFX's SchemaField and Schema, and what a
 * table's person needs beside them (a default, whether a value may be missing).
 *
 *   fields:
 *    - {name: age, type: integer}
 *    - {name: income, type: discrete}
 *
 *     et_schema *schema;
 *     if (et_schema_load(&schema, "schema.yaml", &error)) ...
 *     if (et_schema_parse(&schema, text, strlen(text), "schema", &error)) ...    a text, not a file
 *     if (!et_schema_find(schema, "age")) ...
 *     et_schema_free(schema);
 *
 * A schema does not change once it is made. Values are the caller's; any number of threads may
 * read. */
#ifndef ETUDE_SCHEMA_H
#define ETUDE_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

typedef enum et_schema_type {
    ET_SCHEMA_INTEGER, /* "integer" */
    ET_SCHEMA_REAL, /* "real"; "numeric", the documentation page's one numeric type, reads as it */
    ET_SCHEMA_DISCRETE, /* "discrete": one of a set of texts */
} et_schema_type;

typedef struct et_schema_field {
    const char *name;
    et_schema_type type;
    int64_t length;      /* values of a row: 1, n, ET_SCHEMA_VARIABLE: any number; 0: 1 */
    const char *missing; /* what takes the place of a missing value (in the file "default"); NULL:
                            it stays missing, and each transform says what that gives */
    bool required;       /* a missing value is an error (in the file "nullable: false") */
    bool fractions;      /* of an integer field: values with a fraction are taken too (in the file
                            "fractions: true", as in schemas that are inferred); where values are
                            labels they are unknown ones */
} et_schema_field;

#define ET_SCHEMA_VARIABLE (-1) /* "length: 0" in a file */

typedef struct et_schema et_schema;

/* Copies fields. ET_ECONFIG: there is none, a name twice, empty or with a control character, a
 * length below -1, "default" that is no number in a numeric field, fractions of a field that is not
 * integer, a text that is not UTF-8. */
ET_API int et_schema_create(et_schema **out, const et_schema_field *fields, int count,
                            et_error *error);
/* YAML. name: of the text in messages, which give the line too. ET_ECONFIG, ET_EFORMAT: not YAML.
 * A field has `name` and `type`, and may have `length` (1; 0: variable), `default`, `nullable`
 * (true) and `fractions` (false). */
ET_API int et_schema_parse(et_schema **out, const char *text, size_t length, const char *name,
                           et_error *error);
ET_API int et_schema_load(et_schema **out, const char *path, et_error *error);
ET_API void et_schema_free(et_schema *schema); /* NULL allowed */

/* Writes YAML that et_schema_load reads. The file is replaced whole. */
ET_API int et_schema_save(const et_schema *schema, const char *path, et_error *error);

ET_API int et_schema_count(const et_schema *schema);
/* By position, from 0, and by name. Borrowed; NULL: no such field. */
ET_API const et_schema_field *et_schema_at(const et_schema *schema, int position);
ET_API const et_schema_field *et_schema_find(const et_schema *schema, const char *name);
ET_API const char *et_schema_type_name(et_schema_type type); /* "integer"; NULL: none */

#endif
