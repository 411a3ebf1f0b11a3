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

/* Parses a file as a tree in arena; the root may be of any kind. */
int et_settings_parse_file(et_value **out, const char *path, et_arena *arena, et_error *error);

/* Reads a text of et_settings_override that is a tree, or the name of a file with a tree. *name:
 * the text with which messages begin. *out NULL: the text consists of assignments. */
int et_settings_parse(et_value **out, const char **name, const et_settings *settings,
                      const char *text, et_error *error);

/* Puts assignments on top. */
int et_settings_assign(et_settings *settings, const char *text, et_error *error);

/* Appends the written text, after head, in whole lines. */
int et_settings_print(const et_settings *settings, const char *head, et_strbuf *text,
                      et_error *error);

/* Writes that. */
int et_settings_write_with(const et_settings *settings, const char *head, const char *path,
                           et_error *error);

#endif
