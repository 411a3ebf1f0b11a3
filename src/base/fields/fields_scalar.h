/* One member of an options struct, of any kind except a nested struct: from a value, to a value, to
 * its default. Part of base/fields/fields.h. */
#ifndef ETUDE_BASE_FIELDS_FIELDS_SCALAR_H
#define ETUDE_BASE_FIELDS_FIELDS_SCALAR_H

#include "base/fields/fields.h"

/* The field's member, in options or in the struct that options points to. */
static inline void *et_field_member(const et_field *field, void *options)
{
    void *member = (char *)options + field->offset;
    return field->indirect ? *(void **)member : member;
}

/* Stores value in the member. typed: value is a word of a command line; its numbers must be
 * decimal, and integers digits alone. where: the beginning of messages ("file:3: a.b"). */
int et_field_read(const et_field *field, void *options, const et_value *value, et_arena *arena,
                  bool typed, const char *where, et_error *error);

/* Stores a word of a command line: a number or truth value as in YAML, or the text itself,
 * borrowed. No lists. ET_EUSAGE with the messages of et_field_read. */
int et_field_read_word(const et_field *field, void *options, const char *word, const char *where,
                       et_error *error);

/* For a row without a member: checks that value is the only allowed one. ET_ECONFIG says why. */
int et_field_check_only(const et_field *field, const et_value *value, const char *where,
                        et_error *error);

/* Sets the default. */
void et_field_reset(const et_field *field, void *options);

/* Adds the member to dict. A failure is remembered by dict's arena. */
void et_field_echo(const et_field *field, const void *options, et_value *dict);

/* Appends the allowed values: "0 to 1", "1 or more", "relu, gelu"; nothing if all values of the
 * type are allowed. */
void et_field_range(const et_field *field, et_strbuf *out);

/* The kind in a word for people: "integer", "texts". */
const char *et_field_type(const et_field *field);

/* Appends the default as it would be written in a file. */
void et_field_default(const et_field *field, et_strbuf *out);

#endif
