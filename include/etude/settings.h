/* Settings: an options struct with a table (fields.h), changed by files, texts and dicts. A later
 * value replaces an earlier one; other settings keep their values.
 *
 *     static adam_options adam;
 *     et_settings settings = { .table = &adam_table, .options = &adam, .arena = arena };
 *     et_fields_defaults(settings.table, settings.options);
 *     et_settings_read_file(&settings, "mine.yaml", &error);
 *     et_settings_override(&settings, "beta_1=0.8, warmup=4e3", &error);
 *     et_settings_check(&settings, (const char *const[]){ "beta_1 < 1", NULL }, &error);
 *     et_value *dict = et_settings_dict(&settings, arena);           adam as a dict
 *     if (et_settings_read(&other, dict, "adam", &error)) ...        a second struct like the first
 *     et_settings_lock(&settings);
 *     et_settings_write(&settings, "params.yaml", &error);
 *
 * Settings without a table are a dict, as Model Garden's ParamsDict: names and types are free.
 *
 *     et_settings mine = { .extra = et_value_dict(arena), .arena = arena };
 *     et_settings_override(&mine, "a=1, b.c=[x, y]", &error);
 *     mine.strict = true;                                            no more new names
 *
 * Differences to Model Garden's hyperparams: types and ranges of declared values are checked, a
 * lock applies at every depth, a path may contain "=", and restrictions can be checked repeatedly.
 * Everything is borrowed. Strings and lists that are read live in the arena. Use from one
 * thread. */
#ifndef ETUDE_SETTINGS_H
#define ETUDE_SETTINGS_H

#include <etude/fields.h>

/* A declared setting keeps its type: another type is an error, but text and lists of texts take any
 * scalar as it is written. */
typedef struct et_settings {
    const et_fields *table; /* declared settings; NULL: none */
    void *options;          /* the struct of the table */
    et_arena *arena;        /* must outlive options */
    /* A dict for names that the table does not declare. A group changes member by member, a list of
     * groups of the same length item by item. A change of type is logged with a warning; if there
     * is a table, a new name too. ET_ECONFIG: a list of lists, or of groups and values. NULL:
     * unknown names are errors. */
    et_value *extra;
    bool strict; /* only names that extra has already; new ones are errors */
    bool locked; /* et_settings_lock */
    /* The option that texts are from, such as "--set", at the beginning of messages. NULL: messages
     * begin with the path. */
    const char *source;
    struct et_fields_given *given; /* internal; NULL */
} et_settings;

/* Applies a text to the settings. Forms of the text, tried in this order:
 *
 *   a.b=1, c.d=[x, y]           assignments. A value is YAML in one line. It ends at a comma before
 *                               another assignment, but never at commas in brackets or quotes
 *   a.c[0]=x, a.c[1]=y          all items of a list, in any order
 *   {a: {b: 1}}                 YAML, in one line or several
 *   {"a": {"b": 1}}             JSON
 *   mine.yaml                   the name of a file. If the name looks like an assignment to an
 *                               existing setting, write ./task=1.yaml
 *
 * ET_ECONFIG: an unknown setting (the error suggests the nearest), a wrong type, a value out of
 * range, locked settings, or a missing or nested item of a list. ET_EUSAGE: none of these forms. If
 * an assignment is wrong, those before it stay set. */
ET_API int et_settings_override(et_settings *settings, const char *text, et_error *error);

/* The same from a file: YAML, or JSON if its name ends in .json. */
ET_API int et_settings_read_file(et_settings *settings, const char *path, et_error *error);

/* The same from a dict, such as the result of et_settings_dict. name: name of the dict, with which
 * messages begin; NULL: none. */
ET_API int et_settings_read(et_settings *settings, const et_value *dict, const char *name,
                            et_error *error);

/* The settings that have an effect (no groups that are not selected), and extra, as a dict in
 * arena. Read on top of the defaults, it gives the same settings. NULL: no memory. */
ET_API et_value *et_settings_dict(const et_settings *settings, et_arena *arena);

/* Checks restrictions: "a.b <= c.d", an operator (== != <= < >= >) between two operands. An operand
 * is the path of a setting or a group, a number, None, true or false. None matches null, no choice
 * and the empty list. Numbers are compared by value; texts, lists and groups only as equal or not.
 * restrictions: ended by NULL; NULL: none. ET_ECONFIG: one does not hold; the error has both sides
 * and their values. ET_EUSAGE: not a restriction. */
ET_API int et_settings_check(const et_settings *settings, const char *const *restrictions,
                             et_error *error);

/* From now on every change, at any depth, fails with ET_ECONFIG. */
ET_API void et_settings_lock(et_settings *settings);

/* Writes this dict as YAML. A file that already has this content is not written. */
ET_API int et_settings_write(const et_settings *settings, const char *path, et_error *error);

#endif
