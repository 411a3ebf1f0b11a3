/* Settings: text, file or tree -> members, and back to a file. settings_assign.c has assignments,
 * restrictions.c restrictions. */
#include "base/fields/settings.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/fields/fields.h"
#include "base/files/file.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "base/values/yaml.h"

/* Largest settings file accepted, in bytes. */
#define FILE_MAX ((size_t)1 << 20)

int et_settings_read(et_settings *settings, const et_value *dict, const char *name, et_error *error)
{
    const et_fields_origin from = et_settings_origin(settings, name);
    int status = et_settings_check_open(settings, name, error);
    if (!status && !dict)
        return et_fail(error, ET_EUSAGE, "the dict of settings is NULL");
    if (status || dict == settings->extra)
        return status;
    return et_fields_read_from(&from, et_settings_table(settings), settings->options, dict, "",
                               error);
}

/* ---- texts and files ---- */

/* The tree keeps copies in arena, so the text can go. */
int et_settings_parse_file(et_value **out, const char *path, et_arena *arena, et_error *error)
{
    char *text;
    size_t length;
    int status = et_file_read(&text, &length, path, FILE_MAX, error);
    if (status)
        return status;
    status = et_path_ends(path, ".json") ? et_json_parse(out, arena, text, length, path, error)
                                         : et_yaml_parse(out, arena, text, length, path, error);
    et_free(text);
    return status;
}

/* Most of JSON is YAML; the rest (escapes, tabs) is read as JSON. A wrong text is a wrong setting,
 * and the message is YAML's. */
static int parse_tree(et_value **out, const et_settings *settings, const char *text,
                      et_error *error)
{
    et_arena *arena = settings->arena;
    const char *name = settings->source ? settings->source : "settings";
    bool flow = text[strspn(text, " \t\r\n")] == '{';
    et_error reason = ET_ERROR_INIT;
    int status = flow ? et_yaml_parse_value(out, arena, text, name, &reason)
                      : et_yaml_parse(out, arena, text, strlen(text), name, &reason);
    if (status == ET_ECONFIG && flow && !et_json_parse(out, arena, text, strlen(text), name, NULL))
        return ET_OK;
    if (!status)
        return ET_OK;
    return et_fail(error, status == ET_EFORMAT ? ET_ECONFIG : status, "%s", reason.text);
}

/* Whether a text that is no assignment is YAML and not the name of a file. */
static bool looks_like_tree(const char *text)
{
    size_t length = strlen(text);
    return text[strspn(text, " \t\r\n")] == '{' || strchr(text, '\n') || strstr(text, ": ") ||
           (length && text[length - 1] == ':');
}

int et_settings_parse(et_value **out, const char **name, const et_settings *settings,
                      const char *text, et_error *error)
{
    *out = NULL;
    *name = settings->source;
    if (et_settings_begins_assignment(settings, text)) {
        const char *equals = strpbrk(text, ".[=");
        /* A file whose name contains =, unless a setting has the name before the =. */
        if (et_settings_declare(settings, text, (size_t)(equals - text)) || !et_file_exists(text))
            return ET_OK;
    } else if (looks_like_tree(text)) {
        return parse_tree(out, settings, text, error);
    }
    if (!et_file_exists(text)) {
        const char *first = settings->table ? settings->table->fields->name : "group";
        const et_fields_origin from = et_settings_origin(settings, settings->source);
        const char *where = et_fields_locate(&from, text, 0);
        return where
                   ? et_fail(error, ET_EUSAGE,
                             "%s: neither key=value (such as %s.name=value) nor the name of a file",
                             where, first)
                   : et_alloc_failed(error, strlen(text), "a setting");
    }
    *name = text;
    return et_settings_parse_file(out, text, settings->arena, error);
}

int et_settings_override(et_settings *settings, const char *text, et_error *error)
{
    et_value *tree;
    const char *name;
    if (!text)
        return et_fail(error, ET_EUSAGE, "a setting is NULL; write key=value");
    if (!*text)
        return ET_OK;
    int status = et_settings_parse(&tree, &name, settings, text, error);
    if (status)
        return status;
    return tree ? et_settings_read(settings, tree, name, error)
                : et_settings_assign(settings, text, error);
}

int et_settings_read_file(et_settings *settings, const char *path, et_error *error)
{
    et_value *dict;
    int status = et_settings_parse_file(&dict, path, settings->arena, error);
    return status ? status : et_settings_read(settings, dict, path, error);
}

et_value *et_settings_dict(const et_settings *settings, et_arena *arena)
{
    et_value *dict = et_fields_effective(et_settings_table(settings), settings->options, arena);
    const bool whole = dict && (!settings->extra || !et_value_merge(dict, settings->extra, NULL));
    return whole ? dict : NULL;
}

void et_settings_lock(et_settings *settings)
{
    settings->locked = true;
}

/* ---- writing ---- */

/* Whether these bytes are all that path has. */
static bool is_written(const char *path, const et_strbuf *text)
{
    char *bytes;
    size_t length;
    /* A file that is longer than the text is not it, and is refused by the limit. */
    if (et_file_read(&bytes, &length, path, text->length, NULL))
        return false;
    bool same = length == text->length && memcmp(bytes, et_strbuf_text(text), length) == 0;
    et_free(bytes);
    return same;
}

int et_settings_print(const et_settings *settings, const char *head, et_strbuf *text,
                      et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    /* Tables to tree to text: the reader of it goes the same way back. */
    et_value *tree = et_settings_dict(settings, &arena);
    int status = tree ? ET_OK : et_alloc_failed(error, 0, "settings");
    et_strbuf_append(text, head);
    if (!status)
        et_yaml_print(text, tree);
    if (!status && text->failed)
        status = et_alloc_failed(error, text->length, "settings");
    et_arena_release(&arena);
    return status;
}

int et_settings_write_with(const et_settings *settings, const char *head, const char *path,
                           et_error *error)
{
    et_strbuf text = ET_STRBUF_INIT;
    int status = et_path_check(path, error);
    if (!status)
        status = et_settings_print(settings, head, &text, error);
    if (!status && !is_written(path, &text))
        status = et_file_write(path, et_strbuf_text(&text), text.length, error);
    et_strbuf_release(&text);
    return status;
}

int et_settings_write(const et_settings *settings, const char *path, et_error *error)
{
    return et_settings_write_with(settings, "", path, error);
}
