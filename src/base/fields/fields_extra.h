/* Names that no table has: they are set in a dict, `extra` of et_settings. fields.c walks tables
 * and comes here with the rest. fields_names.c has what both say of names. */
#ifndef ETUDE_BASE_FIELDS_FIELDS_EXTRA_H
#define ETUDE_BASE_FIELDS_FIELDS_EXTRA_H

#include "base/alloc.h"
#include "base/fields/fields.h"

/* The state of a reading; messages start with its origin. */
typedef struct et_fields_reading {
    const et_fields *root; /* the whole table, in which names from elsewhere are looked up */
    et_fields_origin from;
    et_error *error;
    int depth; /* of groups in extra, so far */
    bool made; /* in a group that this reading has made, where all names are new */
} et_fields_reading;

/* Only paths are allocated there, so the message needs no size. */
static inline int et_fields_no_memory(const et_fields_reading *reading)
{
    return et_alloc_failed(reading->error, 1, "settings");
}

/* "a.b" in the arena, or "b" at the top; NULL: no memory. */
const char *et_fields_join(et_arena *arena, const char *path, const char *key);

/* Refuses key in the group `path`, "" at the top, whose names are those of table and of extra
 * (NULL: none). */
int et_fields_unknown(const et_fields_reading *reading, const et_fields *table,
                      const et_value *extra, const char *path, const char *key, int line);

/* Refuses a value in place of a group of settings, such as "trainer: 5". */
int et_fields_not_a_group(const et_fields_reading *reading, const et_fields *table,
                          const char *path, const et_value *value);

/* Refuses a value of the group `path` that has the name of an earlier one. */
int et_fields_set_twice(const et_fields_reading *reading, const char *path, const et_value *value);

/* Sets the value at a path, "a.b" or "a.list[0].b", in the dict of the origin. table: has not the
 * first name of path below `above`, which is the path of its group. */
int et_fields_set_extra(const et_fields_reading *reading, const et_fields *table, const char *above,
                        const char *path, const et_value *value);

#endif
