/* Fields, for the library, beyond <etude/fields.h>: origins, and the nearest name. */
#ifndef ETUDE_BASE_FIELDS_FIELDS_H
#define ETUDE_BASE_FIELDS_FIELDS_H

#include <etude/fields.h>

#include "base/text/strbuf.h"

/* The source of values, and the destination of values that the table does not know. */
typedef struct et_fields_origin {
    const char *name; /* as of et_fields_read */
    et_arena *arena;
    et_value *extra;             /* of et_settings; NULL: unknown names are errors */
    struct et_fields_said *said; /* set values are added to it (fields_said.h); NULL: not
                                    recorded */
    bool strict;                 /* of et_settings */
    bool option;                 /* name is an option whose value has the paths */
    bool typed;                  /* values are words of a command line: see et_field_read */
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

/* The row named by the first length bytes of name, which need not end there; NULL: none. */
const et_field *et_fields_find(const et_fields *table, const char *name, size_t length);

/* A copy of a table in arena with another nested table in a row of this name; NULL: no memory. */
const et_fields *et_fields_with(const et_fields *table, const char *name, const et_fields *nested,
                                et_arena *arena);

/* Whether a row counts among the rows of its table: it has a meaning, and it is not an unselected
 * group. echo: of the table's struct. */
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

#endif
