/* Settings: options with a table (fields.h), and what people put on top of their defaults: files,
 * then words of a command line. What comes later wins; what it does not name stays.
 *
 *     static adam_options adam;
 *     et_settings settings = { .table = &adam_table, .options = &adam, .arena = arena };
 *     et_fields_defaults(settings.table, settings.options);
 *     et_settings_read_file(&settings, "mine.yaml", &error);
 *     et_settings_override(&settings, "beta_1=0.8, warmup=4e3", &error);
 *     et_settings_check(&settings, (const char *const[]){ "beta_1 < 1", NULL }, &error);
 *     et_settings_lock(&settings);
 *     et_settings_write(&settings, "params.yaml", &error);
 *
 * Unlike Model Garden's hyperparams: types and ranges of single values are checked, a lock holds at
 * every depth, a path may hold "=", and restrictions are checked as often as one likes.
 * Everything is borrowed. Strings and lists that are read live in the arena. One thread. */
#ifndef ETUDE_SETTINGS_H
#define ETUDE_SETTINGS_H

#include <etude/fields.h>

typedef struct et_settings {
    const et_fields *table;
    void *options;   /* what the table is of */
    et_arena *arena; /* outlives options */
    et_value *extra; /* NULL: a name that the table has not is an error. A dict: it goes there, as
                        it was written, with a warning */
    bool locked;     /* et_settings_lock */
    struct et_fields_said *said; /* the library's own; NULL */
} et_settings;

/* Puts what a text says on top. It is, tried in this order:
 *
 *   a.b=1, c.d=[x, y]           assignments. A value is YAML in one line, up to a comma that begins
 *                               another assignment; commas in brackets or quotes never do
 *   a.c[0]=x, a.c[1]=y          a list, item by item: the whole of it, in any order
 *   {a: {b: 1}}                 YAML, in one line or several
 *   {"a": {"b": 1}}             JSON
 *   mine.yaml                   the name of a file. One that would be an assignment of a setting
 *                               that is there is written ./task=1.yaml
 *
 * ET_ECONFIG: an unknown setting (the nearest is named), a wrong type, a value out of range;
 * locked; an item of a list is missing, or is a list. ET_EUSAGE: none of these. Assignments before
 * a wrong one are set by then. */
ET_API int et_settings_override(et_settings *settings, const char *text, et_error *error);

/* The same of a file: YAML, or JSON if its name ends in .json. */
ET_API int et_settings_read_file(et_settings *settings, const char *path, et_error *error);

/* Whether all restrictions hold: "a.b <= c.d", an operator (== != <= < >= >) between two operands,
 * each the path of a setting or a number, None, true or false. None is null, no choice and the
 * empty list. Numbers are compared by value, texts are equal or not. restrictions: ended by NULL;
 * NULL: none. ET_ECONFIG names both sides with their values; ET_EUSAGE: it is no restriction. */
ET_API int et_settings_check(const et_settings *settings, const char *const *restrictions,
                             et_error *error);

/* From here on nothing at any depth can be put on top: ET_ECONFIG. */
ET_API void et_settings_lock(et_settings *settings);

/* Writes what counts (not groups that are not selected), and extra, as YAML; a file that has just
 * that is left as it is. */
ET_API int et_settings_write(const et_settings *settings, const char *path, et_error *error);

#endif
