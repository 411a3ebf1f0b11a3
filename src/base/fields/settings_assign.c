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
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/fields/settings.h"
#include "base/values/value.h"
#include "base/values/yaml.h"

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

et_fields_origin et_settings_origin(const et_settings *settings, const char *name)
{
    return (et_fields_origin){ .name = name,
                               .arena = settings->arena,
                               .extra = settings->extra,
                               .given = settings->given,
                               .strict = settings->strict,
                               .option = name && name == settings->source };
}

bool et_settings_declare(const et_settings *settings, const char *name, size_t length)
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
                 et_settings_declare(settings, a->path, a->length);
    a->text = text + 1;
    return a->length && *text == '=' && known;
}

int et_settings_check_open(const et_settings *settings, const char *what, et_error *error)
{
    return settings->locked
               ? et_fail(error, ET_ECONFIG, "%s%sthe settings are locked; set it before the lock",
                         what ? what : "", what ? ": " : "")
               : ET_OK;
}

bool et_settings_begins_assignment(const et_settings *settings, const char *text)
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

static bool same_path(const assignment *a, const assignment *b)
{
    return a->length == b->length && !strncmp(a->path, b->path, a->length);
}

/* Both are items of one list that is given item by item. */
static bool same_list(const assignment *a, const assignment *b)
{
    return a->index >= 0 && !a->below && same_path(a, b);
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

static int parse_item(et_value *list, const assignment *a, const char *path, et_error *error)
{
    et_value *item;
    et_arena *arena = list->arena;
    const char *where = et_arena_printf(arena, "%s[%ld]", path, a->index);
    const char *text = et_arena_printf(arena, "%.*s", (int)(a->end - a->text), a->text);
    if (!where || !text)
        return et_alloc_failed(error, a->length, "a setting");
    int status = et_yaml_parse_value(&item, arena, text, where, error);
    if (!status)
        et_value_append(list, NULL, item);
    return status;
}

/* Searches the whole text for each item, because items may be in any order. path: where the list
 * is, for messages. */
static int make_list(et_value *list, const et_settings *settings, const char *text,
                     const assignment *first, const char *path, et_error *error)
{
    long items = 1;
    int status = ET_OK;
    for (long i = 0; i < items && !status; i++) {
        assignment item;
        if (find_item(&item, settings, text, first, i, &items))
            status = parse_item(list, &item, path, error);
        else if (items > ITEMS_MAX)
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
    const et_fields_origin from = et_settings_origin(settings, settings->source);
    const size_t length = a->below ? strcspn(a->path, "=" BLANKS) : a->length;
    const bool whole = a->index >= 0 && !a->below; /* a list, item by item */
    const char *path = et_arena_printf(arena, "%.*s", (int)length, a->path);
    const char *value = et_arena_printf(arena, "%.*s", (int)(a->end - a->text), a->text);
    const char *where = path ? et_fields_locate(&from, path, 0) : NULL;
    et_value *list = whole ? et_value_list(arena) : NULL;
    if (!where || !value || (whole && !list))
        return et_alloc_failed(error, a->length, "a setting");
    int status = list ? make_list(list, settings, text, a, where, error) : ET_OK;
    return status ? status
                  : et_fields_set_from(&from, et_settings_table(settings), settings->options, path,
                                       list, list ? NULL : value, error);
}

/* From left to right; the first that is wrong ends it, those before it are set by then. */
int et_settings_assign(et_settings *settings, const char *text, et_error *error)
{
    const et_fields_origin from = et_settings_origin(settings, settings->source);
    const char *rest = text;
    int status = et_settings_check_open(settings, settings->source, error);
    while (!status) {
        if (!et_settings_begins_assignment(settings, rest)) {
            const char *where = et_fields_locate(&from, rest, 0);
            return where ? et_fail(error, ET_EUSAGE, "%s: not of the form key=value", where)
                         : et_alloc_failed(error, strlen(rest), "a setting");
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
