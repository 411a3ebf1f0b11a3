/* Fields, for the library, beyond <etude/fields.h>: origins, the nearest name, and the settings
 * that a user has given. A given setting without effect is refused, such as a setting of an
 * optimizer that is not chosen.
 *
 *     et_fields_given given = { .arena = &arena };             named by an et_fields_origin
 *     et_fields_given_settle(&given, table, options);          after each file
 *     et_fields_given_check(&given, table, options, &error);   when everything is read
 */
#ifndef ETUDE_BASE_FIELDS_FIELDS_H
#define ETUDE_BASE_FIELDS_FIELDS_H

#include <etude/fields.h>

#include "base/text/strbuf.h"

/* The source of values, and the destination of values that the table does not know. */
typedef struct et_fields_origin {
    const char *name; /* as of et_fields_read */
    et_arena *arena;
    et_value *extra;               /* of et_settings; NULL: unknown names are errors */
    struct et_fields_given *given; /* set values are added to it; NULL: not recorded */
    bool strict;                   /* of et_settings */
    bool option;                   /* name is an option whose value has the paths */
    bool typed;                    /* values are words of a command line: see et_field_read */
} et_fields_origin;

/* The table without rows: of settings that are all in `extra`. */
extern const et_fields et_fields_none;

/* The place of a setting, at the beginning of messages: "file:3: a.b", "--set a.b", "a.b". In the
 * origin's arena; NULL: no memory. */
const char *et_fields_locate(const et_fields_origin *from, const char *path, int line);

/* et_fields_read with an origin; and one member by dotted path, from a value or (value NULL) its
 * YAML text. */
int et_fields_read_from(const et_fields_origin *from, const et_fields *table, void *options,
                        const et_value *dict, const char *path, et_error *error);
int et_fields_set_from(const et_fields_origin *from, const et_fields *table, void *options,
                       const char *path, const et_value *value, const char *text, et_error *error);

/* The row whose name is the first length bytes of name; NULL: none. */
const et_field *et_fields_find(const et_fields *table, const char *name, size_t length);

/* A copy of a table in arena with another nested table in a row of this name; the table itself if
 * the row has this nested table. NULL: no memory. */
const et_fields *et_fields_with(const et_fields *table, const char *name, const et_fields *nested,
                                et_arena *arena);

/* Whether a row of a table has an effect: its setting has a meaning, and the row is not an
 * unselected group. echo: the values of the table's struct. */
bool et_fields_counts(const et_fields *table, const et_field *field, const et_value *echo);

/* Whether the first length bytes of word are name, treating - and _ as equal. name NULL: no. */
bool et_same_name(const char *word, size_t length, const char *name);

/* Whether word is an entry of names (ended by NULL). */
bool et_is_one_of(const char *word, const char *const *names);

/* The entry of names (ended by NULL) nearest to word: by letters (up to a third of the word's may
 * differ, case and - _ are ignored), by word parts (num_heads: num_attention_heads), by initials
 * (lr: learning_rate) or by first letters (max-st: max-steps). NULL: no near one. */
const char *et_nearest(const char *word, const char *const *names);

/* The end of a message's first sentence about an unknown word: ". Nearest: --lr", if mark is "--",
 * or "" without a near one. By value, for use in a call of et_fail. */
typedef struct et_hint {
    char text[96];
} et_hint;
et_hint et_nearest_hint(const char *word, const char *const *names, const char *mark);

/* The options as a dict in arena, every member, in the table's order; NULL if none left. */
et_value *et_fields_echo(const et_fields *table, const void *options, et_arena *arena);

/* The same without settings that have no effect: groups that are not selected, settings without
 * meaning here. Read on top of the defaults, it gives the same run. */
et_value *et_fields_effective(const et_fields *table, const void *options, et_arena *arena);

/* Reads a dict of values into options; members that the dict does not name stay. Unknown
 * keys, wrong types and values out of range are ET_ECONFIG: "<name>:<line>: a.b.c: no such
 * setting. Nearest: d (a.b has: ...)". name: the file; NULL: "a.b.c: ...".
 * path: dotted prefix, "" at the top. On an error some members may be set already. */
int et_fields_read(const et_fields *table, void *options, const et_value *dict, et_arena *arena,
                   const char *name, const char *path, et_error *error);

/* ---- one member of any kind except a nested struct ---- */

/* The field's member, in options or in the struct that options points to. */
static inline void *et_field_member(const et_field *field, void *options)
{
    void *member = (char *)options + field->offset;
    return field->indirect ? *(void **)member : member;
}

/* Stores value in the member. typed: value is a word of a command line; its numbers must be
 * decimal, and integers digits alone. where: text with which messages begin ("file:3: a.b"). */
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

/* The list of a row of STRINGS. */
et_strings et_field_strings(const et_field *field, const void *options);

/* Adds the member to dict. A failure is remembered by dict's arena. */
void et_field_echo(const et_field *field, const void *options, et_value *dict);

/* Appends the allowed values: "0 to 1", "1 or more", "relu, gelu"; nothing if all values of the
 * type are allowed. */
void et_field_range(const et_field *field, et_strbuf *out);

/* The kind in a word for people: "integer", "texts". */
const char *et_field_type(const et_field *field);

/* Appends the default as it would be written in a file. */
void et_field_default(const et_field *field, et_strbuf *out);

/* The settings that a user has given, one by one. A later source may choose another branch than an
 * earlier file. So after each file, settle forgets settings that had an effect, and settings that
 * this file itself turns off. */
typedef struct et_fields_given {
    et_arena *arena;                   /* of the entries */
    const struct et_given_item *first; /* the last setting; a copy of the struct shares it */
    const struct et_given_item *ever;  /* the same with forgotten settings */
} et_fields_given;

/* Adds a setting. where: the beginning of messages about it; both texts outlive given. False: no
 * memory. */
bool et_fields_given_add(et_fields_given *given, const char *where, const char *path);

/* Forgets settings that have an effect now, and settings that their own file turns off. */
void et_fields_given_settle(et_fields_given *given, const et_fields *table, const void *options);

/* Checks that all remaining settings have an effect. ET_ECONFIG names the first setting without
 * effect, the reason and the cure. */
int et_fields_given_check(const et_fields_given *given, const et_fields *table, const void *options,
                          et_error *error);

/* Whether the setting at path has an effect. */
bool et_fields_is_open(const et_fields *table, const void *options, const char *path);

/* Whether the setting at path was given, and not forgotten. */
bool et_fields_is_given(const et_fields_given *given, const char *path);

/* Whether the setting at path was ever given. */
bool et_fields_was_given(const et_fields_given *given, const char *path);

#endif
