/* Settings, for the library, beyond <etude/settings.h>: a text as a tree before it is read, and
 * lines in front of the written settings. */
#ifndef ETUDE_BASE_FIELDS_SETTINGS_H
#define ETUDE_BASE_FIELDS_SETTINGS_H

#include <etude/settings.h>

#include "base/fields/fields.h"
#include "base/text/strbuf.h"

static inline const et_fields *et_settings_table(const et_settings *settings)
{
    return settings->table ? settings->table : &et_fields_none;
}

/* ET_ECONFIG: they are locked. what: the beginning of the message; NULL: none. */
int et_settings_check_open(const et_settings *settings, const char *what, et_error *error);

/* Parses a file as a tree in arena; the root may be of any kind. */
int et_settings_parse_file(et_value **out, const char *path, et_arena *arena, et_error *error);

/* The tree that a text of et_settings_override is or names; *name is then what messages begin with.
 * *out NULL: it is assignments. */
int et_settings_parse(et_value **out, const char **name, const et_settings *settings,
                      const char *text, et_error *error);

/* Whether a text is assignments. */
bool et_settings_begins_assignment(const et_settings *settings, const char *text);

/* Whether the table, or else extra, has a setting of this name, [length]. */
bool et_settings_declare(const et_settings *settings, const char *name, size_t length);

/* For readers of the settings' own texts. */
et_fields_origin et_settings_origin(const et_settings *settings, const char *name);

/* Puts assignments on top. */
int et_settings_assign(et_settings *settings, const char *text, et_error *error);

/* Appends the written text, after head, in whole lines. */
int et_settings_print(const et_settings *settings, const char *head, et_strbuf *text,
                      et_error *error);

/* Writes that. */
int et_settings_write_with(const et_settings *settings, const char *head, const char *path,
                           et_error *error);

#endif
