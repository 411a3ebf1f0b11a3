/* Schemas: names and types of a table's columns (TensorFX's SchemaField and Schema), with defaults
 * and whether a value may be missing.
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
 * A schema does not change after it is made. The caller owns it; any number of threads may read
 * it. */
#ifndef ETUDE_SCHEMA_H
#define ETUDE_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

typedef enum et_schema_type {
    ET_SCHEMA_INTEGER, /* "integer" */
    ET_SCHEMA_REAL, /* "real"; also "numeric", the only numeric type of TensorFX's documentation */
    ET_SCHEMA_DISCRETE, /* "discrete": one of a set of texts */
} et_schema_type;

/* How the numbers of a field are written in texts. */
typedef enum et_notation {
    ET_NOTATION_PLAIN, /* 1234.5, 1e-3 */
    ET_NOTATION_POINT, /* "point": also 1,234.5 and 1 234.5, and (12) for -12 */
    ET_NOTATION_COMMA, /* "comma": 1.234,5 and 1 234,5; 1.234 is 1234 */
} et_notation;

typedef struct et_schema_field {
    const char *name;
    et_schema_type type;
    int64_t length;      /* values per row: 1, n, or ET_SCHEMA_VARIABLE for any number; 0: 1 */
    const char *missing; /* value that replaces a missing value ("default" in a file); NULL: the
                            transform decides */
    bool required;       /* a missing value is an error ("nullable: false" in a file) */
    bool fractions;      /* integer field: values with a fraction are allowed too ("fractions: true"
                            in a file, as in inferred schemas). If values are labels, such values
                            are unknown labels */
    et_notation notation; /* numeric field: how texts write its numbers. Numbers of programs, of
                             tf.Examples and of JSON without quotes have no notation */
    const char *unit;     /* with a notation: "kg" or "$", which may stand before or after a number
                             and is ignored; NULL: none */
} et_schema_field;

#define ET_SCHEMA_VARIABLE (-1) /* "length: 0" in a file */

typedef struct et_schema et_schema;

/* Copies fields. ET_ECONFIG: no fields; a name that occurs twice, is empty or has a control
 * character; a length below -1; a "default" of a numeric field that is not a number; fractions of a
 * field that is not integer; a notation of a discrete field, a unit without a notation or of more
 * than 64 bytes; a text that is not UTF-8. */
ET_API int et_schema_create(et_schema **out, const et_schema_field *fields, int count,
                            et_error *error);
/* Reads YAML. name: of the text, for messages, which also have the line. A field has `name` and
 * `type`, and may have `length` (1; 0: variable), `default`, `nullable` (true), `fractions`
 * (false), `notation` and `unit`. ET_ECONFIG; ET_EFORMAT: not YAML. */
ET_API int et_schema_parse(et_schema **out, const char *text, size_t length, const char *name,
                           et_error *error);
ET_API int et_schema_load(et_schema **out, const char *path, et_error *error);
ET_API void et_schema_free(et_schema *schema); /* NULL allowed */

/* Writes YAML for et_schema_load. Replaces the file atomically. */
ET_API int et_schema_save(const et_schema *schema, const char *path, et_error *error);

ET_API int et_schema_count(const et_schema *schema);
/* By position, from 0, and by name. Borrowed; NULL: no such field. */
ET_API const et_schema_field *et_schema_at(const et_schema *schema, int position);
ET_API const et_schema_field *et_schema_find(const et_schema *schema, const char *name);
ET_API const char *et_schema_type_name(et_schema_type type); /* "integer"; NULL: invalid */

#endif
