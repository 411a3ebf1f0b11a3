/* Settings: text, file or tree -> members, and back to a file. restrictions.c has
 * restrictions. */
#include "base/fields/settings.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/files/file.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "base/values/yaml.h"

/* Settings in one word of a command line, which the parser of options finds:
 *
 *   text       = assignment { "," assignment }
 *   assignment = path [ "[" digits "]" [ "." path ] ] "=" value       blanks around any of them
 *   path       = name { "." name }
 *   value      = YAML in one line, up to a comma before another assignment; commas within brackets
 *                or quotes that the value begins with never end it
 *
 *   trainer.train_steps=2000, runtime.seed=3                two
 *   task.train_data.path=[a.txt,b.txt]                      one, a list
 *   task.train_data.path[1]=b.txt,task.train_data.path[0]=a.txt      the same
 *   task.train_data.path=a,b.txt                            one: "b.txt" is no assignment
 *   task.train_data.mix[1].weight=2      for one item of an existing list of groups
 *
 * An assignment begins with a declared name, or with any name with a point or an index, so a
 * misspelt name is not taken for a part of the previous value. At the start of the text, and in
 * settings without a table, it may begin with any name. */

#define NAME   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"
#define DIGITS "0123456789"
#define BLANKS " \t\r\n"

/* More than any list of settings has. */
#define ITEMS_MAX 10000

typedef struct assignment {
    const char *path; /* [length] */
    size_t length;
    long index;       /* of an item of a list; -1: none; past ITEMS_MAX: too large */
    bool below;       /* the item has members */
    const char *text; /* of the value, up to end */
    const char *end;  /* the comma, or the end of all */
} assignment;

static et_fields_origin origin_of(const et_settings *settings, const char *name)
{
    return (et_fields_origin){ .name = name,
                               .arena = settings->arena,
                               .extra = settings->extra,
                               .given = settings->given,
                               .strict = settings->strict,
                               .option = name && name == settings->source };
}

/* Whether the table, or else extra, has a setting of this name, [length]. */
static bool is_declared(const et_settings *settings, const char *name, size_t length)
{
    const et_value *v = settings->extra ? settings->extra->first : NULL;
    while (v && (strncmp(v->key, name, length) != 0 || v->key[length]))
        v = v->next;
    return v || et_fields_find(et_settings_table(settings), name, length);
}

/* After { "." name }: a point without a name after it is not part of a path. */
static const char *skip_below(const char *text)
{
    size_t length;
    while (*text == '.' && (length = strspn(text + 1, NAME)))
        text += 1 + length;
    return text;
}

/* All but the value's end. */
static bool scan_name(assignment *a, const et_settings *settings, const char *text, bool first)
{
    a->path = text + strspn(text, BLANKS);
    const char *name = a->path + strspn(a->path, NAME);
    text = name > a->path ? skip_below(name) : name;
    bool dotted = text > name;
    a->length = (size_t)(text - a->path);
    a->index = -1;
    a->below = false;
    size_t digits = *text == '[' ? strspn(text + 1, DIGITS) : 0;
    if (digits && text[1 + digits] == ']') {
        a->index = digits < 7 ? strtol(text + 1, NULL, 10) : ITEMS_MAX + 1;
        text += digits + 2;
        const char *item = text;
        text = skip_below(item);
        a->below = text > item;
    }
    text += strspn(text, BLANKS);
    bool known = first || dotted || a->index >= 0 || !settings->table ||
                 is_declared(settings, a->path, a->length);
    a->text = text + 1;
    return a->length && *text == '=' && known;
}

/* what: text with which the message begins; NULL: none. */
static int check_unlocked(const et_settings *settings, const char *what, et_error *error)
{
    return settings->locked
               ? et_fail(error, ET_ECONFIG, "%s%sthe settings are locked; set it before the lock",
                         what ? what : "", what ? ": " : "")
               : ET_OK;
}

static bool begins_assignment(const et_settings *settings, const char *text)
{
    assignment a;
    return scan_name(&a, settings, text, true);
}

/* The end of a value in flow style or in quotes: after its last bracket. If the end is missing,
 * returns the end of the text; YAML's parser then reports the error. In double quotes a backslash
 * escapes the next character, in single quotes a quote does. */
static const char *skip_enclosed(const char *value)
{
    int depth = 0;
    char quote = 0;
    for (; *value; value++) {
        if (quote) {
            const bool escapes =
                quote == '"' ? *value == '\\' && value[1] : *value == '\'' && value[1] == '\'';
            if (escapes)
                value++;
            else if (*value == quote)
                quote = 0;
        } else if (*value == '"' || *value == '\'') {
            quote = *value;
        } else if (*value == '[' || *value == '{') {
            depth++;
        } else if (*value == ']' || *value == '}') {
            depth--;
        }
        if (!quote && depth <= 0)
            return value + 1;
    }
    return value;
}

/* The assignment at text, which begins one. */
static assignment scan(const et_settings *settings, const char *text)
{
    assignment a, next;
    bool begins = scan_name(&a, settings, text, true);
    et_assert(begins);
    (void)begins;
    const char *value = a.text + strspn(a.text, BLANKS);
    if (*value && strchr("[{\"'", *value))
        value = skip_enclosed(value);
    while ((value = strchr(value, ',')) && !scan_name(&next, settings, value + 1, false))
        value++;
    a.end = value ? value : a.text + strlen(a.text);
    return a;
}

/* Both are items of one list that is given item by item. */
static bool same_list(const assignment *a, const assignment *b)
{
    return a->index >= 0 && !a->below && a->length == b->length &&
           !strncmp(a->path, b->path, a->length);
}

/* ---- lists by items ---- */

/* The last assignment in the text to item `index` of the same list; NULL: none. *items grows to the
 * smallest possible length of the list. */
static bool find_item(assignment *found, const et_settings *settings, const char *text,
                      const assignment *like, long index, long *items)
{
    bool any = false;
    for (;;) {
        assignment a = scan(settings, text);
        if (same_list(&a, like) && a.index >= *items)
            *items = a.index + 1;
        if (same_list(&a, like) && a.index == index) {
            *found = a;
            any = true;
        }
        if (!*a.end)
            return any;
        text = a.end + 1;
    }
}

/* Whether the text has set an item of this list before here: then it was set as a whole. */
static bool was_seen(const et_settings *settings, const char *text, const assignment *here)
{
    for (assignment a; text < here->path && *text; text = a.end + 1) {
        a = scan(settings, text);
        if (a.path == here->path)
            return false;
        if (same_list(&a, here))
            return true;
    }
    return false;
}

/* Searches the whole text for each item, because items may be in any order. path: where the list
 * is, for messages. */
static int make_list(et_value *list, const et_settings *settings, const char *text,
                     const assignment *first, const char *path, et_error *error)
{
    long items = 1;
    int status = ET_OK;
    for (long i = 0; i < items && !status; i++) {
        assignment a;
        et_value *item;
        if (find_item(&a, settings, text, first, i, &items)) {
            const char *where = et_arena_printf(list->arena, "%s[%ld]", path, a.index);
            const char *value = et_arena_strndup(list->arena, a.text, a.end - a.text);
            status = where && value ? et_yaml_parse_value(&item, list->arena, value, where, error)
                                    : et_alloc_failed(error, "a setting");
            if (!status)
                et_value_append(list, NULL, item);
        } else if (items > ITEMS_MAX)
            status = et_fail(error, ET_ECONFIG, "%s: at most %d items", path, ITEMS_MAX);
        else
            status = et_fail(error, ET_ECONFIG,
                             "%s[%ld] is missing; set all items of a list together (the last one "
                             "given is [%ld])",
                             path, i, items - 1);
    }
    return status;
}

/* ---- all ---- */

/* Copies path and value, since they are parts of one text and the readers need a 0 after each. The
 * copies live in arena: strings of the settings point into them. */
static int set_one(et_settings *settings, const char *text, const assignment *a, et_error *error)
{
    et_arena *arena = settings->arena;
    const et_fields_origin from = origin_of(settings, settings->source);
    const size_t length = a->below ? strcspn(a->path, "=" BLANKS) : a->length;
    const bool whole = a->index >= 0 && !a->below; /* a list, item by item */
    const char *path = et_arena_strndup(arena, a->path, length);
    const char *value = et_arena_strndup(arena, a->text, a->end - a->text);
    const char *where = path ? et_fields_locate(&from, path, 0) : NULL;
    et_value *list = whole ? et_value_list(arena) : NULL;
    if (!where || !value || (whole && !list))
        return et_alloc_failed(error, "a setting");
    int status = list ? make_list(list, settings, text, a, where, error) : ET_OK;
    return status ? status
                  : et_fields_set_from(&from, et_settings_table(settings), settings->options, path,
                                       list, list ? NULL : value, error);
}

/* From left to right; the first that is wrong ends it, those before it are set by then. */
int et_settings_assign(et_settings *settings, const char *text, et_error *error)
{
    const et_fields_origin from = origin_of(settings, settings->source);
    const char *rest = text;
    int status = check_unlocked(settings, settings->source, error);
    while (!status) {
        if (!begins_assignment(settings, rest)) {
            const char *where = et_fields_locate(&from, rest, 0);
            return where ? et_fail(error, ET_EUSAGE, "%s: not of the form key=value", where)
                         : et_alloc_failed(error, "a setting");
        }
        assignment a = scan(settings, rest);
        if (a.index < 0 || a.below || !was_seen(settings, text, &a))
            status = set_one(settings, text, &a, error);
        if (!*a.end)
            return status;
        rest = a.end + 1;
    }
    return status;
}

/* Largest settings file accepted, in bytes. */
#define FILE_MAX ((size_t)1 << 20)

int et_settings_read(et_settings *settings, const et_value *dict, const char *name, et_error *error)
{
    const et_fields_origin from = origin_of(settings, name);
    int status = check_unlocked(settings, name, error);
    if (!status && !dict)
        return et_fail(error, ET_EUSAGE, "the dict of settings is NULL");
    if (status || dict == settings->extra)
        return status;
    return et_fields_read_from(&from, et_settings_table(settings), settings->options, dict, "",
                               error);
}

/* ---- texts and files ---- */

int et_settings_parse_file(et_value **out, const char *path, et_arena *arena, et_error *error)
{
    const bool json = path && et_path_ends(path, ".json");
    return et_value_read_file(out, arena, path, FILE_MAX, json ? et_json_parse : et_yaml_parse,
                              error);
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
    if (begins_assignment(settings, text)) {
        const char *equals = strpbrk(text, ".[=");
        /* A file whose name contains =, unless a setting has the name before the =. */
        if (is_declared(settings, text, (size_t)(equals - text)) || !et_file_exists(text))
            return ET_OK;
    } else if (looks_like_tree(text)) {
        return parse_tree(out, settings, text, error);
    }
    if (!et_file_exists(text)) {
        const char *first = settings->table ? settings->table->fields->name : "group";
        const et_fields_origin from = origin_of(settings, settings->source);
        const char *where = et_fields_locate(&from, text, 0);
        return where
                   ? et_fail(error, ET_EUSAGE,
                             "%s: neither key=value (such as %s.name=value) nor the name of a file",
                             where, first)
                   : et_alloc_failed(error, "a setting");
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
    /* From tables to a tree to text; reading goes the same way back. */
    et_value *tree = et_settings_dict(settings, &arena);
    int status = tree ? ET_OK : et_alloc_failed(error, "settings");
    et_strbuf_append(text, head);
    if (!status)
        et_yaml_print(text, tree);
    if (!status && text->failed)
        status = et_alloc_failed(error, "settings");
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
