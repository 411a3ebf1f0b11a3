/* The settings that a user has given, one by one, so that a setting without effect is refused: one
 * of an optimizer, a schedule or a model that is not chosen.
 *
 *     et_fields_said said = { .arena = &arena };              named by an et_fields_origin
 *     et_fields_said_settle(&said, table, options);           after each file
 *     et_fields_said_check(&said, table, options, &error);    when everything is read
 *
 * A later source may choose another branch than an earlier file. So settle forgets the settings
 * that had an effect until then, and those that the same file turns off. */
#ifndef ETUDE_BASE_FIELDS_FIELDS_SAID_H
#define ETUDE_BASE_FIELDS_FIELDS_SAID_H

#include <etude/fields.h>

typedef struct et_fields_said {
    et_arena *arena;                  /* of the entries */
    const struct et_said_item *first; /* the last setting; a copy of the struct shares it */
    const struct et_said_item *given; /* the same of all, forgotten or not */
} et_fields_said;

/* Adds a setting. where: the beginning of messages about it; both texts outlive said. False: no
 * memory. */
bool et_fields_say(et_fields_said *said, const char *where, const char *path);

/* Forgets what counts by now. */
void et_fields_said_settle(et_fields_said *said, const et_fields *table, const void *options);

/* Whether all settings that are left count. ET_ECONFIG names the first that does not, what keeps it
 * from counting and the cure. */
int et_fields_said_check(const et_fields_said *said, const et_fields *table, const void *options,
                         et_error *error);

/* Whether the setting at path counts: nothing shuts it out. */
bool et_fields_is_open(const et_fields *table, const void *options, const char *path);

/* Whether the setting at path was given, and not forgotten. */
bool et_fields_was_said(const et_fields_said *said, const char *path);

/* Whether the setting at path was ever given. */
bool et_fields_was_given(const et_fields_said *said, const char *path);

#endif
