/* One member of an options struct, of any kind except a nested struct: from a value, to a value, to
 * its default. Part of base/fields/fields.h. */
#ifndef ETUDE_BASE_FIELDS_FIELDS_SCALAR_H
#define ETUDE_BASE_FIELDS_FIELDS_SCALAR_H

#include "base/fields/fields.h"

/* The member that field describes, inside options or where that points to. */
static inline void *et_field_member(const et_field *field, void *options)
{
    void *member = (char *)options + field->offset;
    return field->indirect ? *(void **)member : member;
}

/* Stores value in the member. where: what a message starts with ("file:3: a.b"). */
int et_field_read(const et_field *field, void *options, const et_value *value, et_arena *arena,
                  const char *where, et_error *error);

/* Stores a word of a command line: a number or truth value as YAML has it, a text as it stands,
 * borrowed. No lists. ET_EUSAGE says of a wrong one what et_field_read does. */
int et_field_read_word(const et_field *field, void *options, const char *word, const char *where,
                       et_error *error);

/* Of a row that has no member: whether value is the one that it has. ET_ECONFIG says why no other.
 */
int et_field_check_only(const et_field *field, const et_value *value, const char *where,
                        et_error *error);

/* Sets the default. */
void et_field_reset(const et_field *field, void *options);

/* Adds the member to dict. A failure is remembered by dict's arena. */
void et_field_echo(const et_field *field, const void *options, et_value *dict);

/* Appends what is allowed: "0 to 1", "1 or more", "relu, gelu"; nothing if all of the type is. */
void et_field_range(const et_field *field, et_strbuf *out);

/* The kind in a word for people: "integer", "texts". */
const char *et_field_type(const et_field *field);

/* Appends the default as it would be written in a file. */
void et_field_default(const et_field *field, et_strbuf *out);

#endif
