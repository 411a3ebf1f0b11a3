/* Walks tables: compares a dict of values with the table of its struct, name by name.
 * fields_scalar.c handles members of all kinds except nested structs. The tables, which are const,
 * limit the depth, not the input.
 *
 * Messages have three parts: the place (file and line, or an option), the dotted path, and the
 * fault. Paths are built in the caller's arena for each member that is read; they are short.
 *
 *   config.yaml:3: trainer.train_step: no such setting. Nearest: train_steps (trainer has: ...)
 *   --set trainer.train_steps: "many" is not an integer
 *
 * There are four walks: defaults (every row), read (the keys of a dict; others stay), set (one
 * path), echo (every row, in order, or only rows with an effect). Looking up a name walks its
 * table, which has tens of rows. */
#include "base/fields/fields.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/plain.h"
#include "base/values/value.h"
#include "base/values/yaml.h"

#define NAMES_MAX   256  /* members of one struct that the nearest is sought among */
#define NAMES_ALL   1024 /* and rows of a whole table */
#define NAMES_WIDTH 64   /* characters of the list of members in a message */
#define NAMES_DEPTH 8    /* depth of groups in which names are searched */

/* No table has so many rows; a dict with more keys has an unknown one, which is reported. */
#define KEYS_MAX 4096

#define TWICE "set twice, as a group and by a dotted name; remove one"

#define DEPTH_MAX 64
#define KEY_MAX   128 /* bytes; a written name stays a name of YAML with all escapes */

const et_fields et_fields_none = { "settings", &(const et_field)ET_FIELD_END };

/* The state of a reading; messages start with its origin. */
typedef struct reader {
    const et_fields *root; /* the whole table, in which names from elsewhere are looked up */
    et_fields_origin from;
    et_error *error;
    int depth; /* of groups in extra, so far */
    bool made; /* in a group that this reading has made, where all names are new */
} reader;

/* Only paths are allocated there, so the message needs no size. */
static int no_memory(const reader *reading)
{
    return et_alloc_failed(reading->error, "settings");
}

const char *et_fields_locate(const et_fields_origin *from, const char *path, int line)
{
    if (!from->name)
        return et_arena_strdup(from->arena, path);
    if (from->option)
        return et_arena_printf(from->arena, "%s %s", from->name, path);
    if (line == 0)
        return et_arena_printf(from->arena, "%s: %s", from->name, path);
    return et_arena_printf(from->arena, "%s:%d: %s", from->name, line, path);
}

/* Refuses the value at path, with its line. path NULL: no memory. */
__attribute__((format(printf, 4, 5))) static int refuse(const reader *reading, const char *path,
                                                        int line, const char *format, ...)
{
    char text[ET_ERROR_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    et_plain_vprint(text, sizeof text, format, arguments);
    va_end(arguments);
    const char *where = path ? et_fields_locate(&reading->from, path, line) : NULL;
    return where ? et_fail(reading->error, ET_ECONFIG, "%s: %s", where, text) : no_memory(reading);
}

/* "a.b" in the arena, or "b" at the top; NULL: no memory. */
static const char *join(et_arena *arena, const char *path, const char *key)
{
    const size_t above = strlen(path), length = strlen(key);
    char *whole = et_arena_alloc(arena, above + length + 2);
    if (!whole)
        return NULL;
    memcpy(whole, path, above);
    whole[above] = '.';
    memcpy(whole + above + (above > 0), key, length + 1);
    return whole;
}

const et_fields *et_fields_with(const et_fields *table, const char *name, const et_fields *nested,
                                et_arena *arena)
{
    size_t count = 1;
    for (; table->fields[count - 1].kind != ET_FIELD_KIND_END; count++)
        if (!strcmp(table->fields[count - 1].name, name) &&
            table->fields[count - 1].nested == nested)
            return table;
    et_fields *made = et_arena_alloc(arena, sizeof *made);
    et_field *rows = et_arena_array(arena, count, sizeof *rows);
    if (!made || !rows)
        return NULL;
    memcpy(rows, table->fields, count * sizeof *rows);
    for (size_t i = 0; i + 1 < count; i++)
        if (!strcmp(rows[i].name, name))
            rows[i].nested = nested;
    *made = (et_fields){ table->name, rows };
    return made;
}

/* The first names that fit, then dots: a message is read at once or not at all. */
static void append_names(et_strbuf *out, const char *const *names)
{
    /* Only names count for the width, not the text before them. */
    size_t start = out->length;
    for (size_t i = 0; names[i]; i++) {
        size_t width = out->length - start + 2 + strlen(names[i]);
        if (i > 0)
            et_strbuf_append(out, ", ");
        if (i > 0 && width > NAMES_WIDTH) {
            et_strbuf_append(out, "...");
            return;
        }
        et_strbuf_append(out, names[i]);
    }
}

#define FOUND_MAX 3 /* for places of a name, in a message */

/* Adds the paths of rows called `name` that are `depth` groups down, "a.b.name, c.name"; found
 * counts them. Groups are rows too. only: adds rows without meaning here, else the others. */
static void append_found(et_strbuf *out, int *found, const et_fields *table, const char *name,
                         const char *path, int depth, bool only)
{
    for (const et_field *field = table->fields; field->kind != ET_FIELD_KIND_END; field++) {
        et_strbuf whole = ET_STRBUF_INIT;
        et_strbuf_printf(&whole, "%s%s%s", path, *path ? "." : "", field->name);
        if (depth && field->kind == ET_FIELD_KIND_STRUCT)
            append_found(out, found, field->nested, name, et_strbuf_text(&whole), depth - 1, only);
        bool counts = !depth && (field->kind == ET_FIELD_KIND_ONLY) == only;
        if (counts && !strcmp(field->name, name) && ++*found <= FOUND_MAX + 1)
            et_strbuf_printf(out, "%s%s", *found > 1 ? ", " : "",
                             *found > FOUND_MAX ? "..." : et_strbuf_text(&whole));
        out->failed |= whole.failed;
        et_strbuf_release(&whole);
    }
}

/* Appends lead, "a.b.name, c.name", the least deep first; nothing, if there are none. Rows without
 * effect are proposed only if there are no others. */
static void append_elsewhere(et_strbuf *out, const char *lead, const et_fields *root,
                             const char *name)
{
    et_strbuf found_at = ET_STRBUF_INIT;
    int found = 0;
    for (int only = 0; only < 2 && !found; only++)
        for (int depth = 0; depth < NAMES_DEPTH && found <= FOUND_MAX; depth++)
            append_found(&found_at, &found, root, name, "", depth, only);
    if (found)
        et_strbuf_printf(out, "%s%s", lead, et_strbuf_text(&found_at));
    out->failed |= found_at.failed;
    et_strbuf_release(&found_at);
}

/* Names of all rows at most depth groups down; those beyond NAMES_ALL are not proposed. */
static void gather_names(const char **names, size_t *count, const et_fields *table, int depth)
{
    for (const et_field *field = table->fields; field->kind != ET_FIELD_KIND_END; field++) {
        if (*count < NAMES_ALL)
            names[(*count)++] = field->name;
        if (depth && field->kind == ET_FIELD_KIND_STRUCT)
            gather_names(names, count, field->nested, depth - 1);
    }
}

/* Appends the paths that have this name; if there are none, the nearest names. */
static void append_hint(et_strbuf *out, const et_fields *root, const char *const *here,
                        const char *name)
{
    const char *all[NAMES_ALL + 1];
    size_t count = 0;
    append_elsewhere(out, ". There is ", root, name);
    if (out->length)
        return;
    const et_hint hint = et_nearest_hint(name, here, "");
    et_strbuf_append(out, hint.text);
    if (out->length)
        return;
    gather_names(all, &count, root, NAMES_DEPTH - 1);
    all[count] = NULL;
    const char *nearest = et_nearest(name, all);
    if (nearest)
        append_elsewhere(out, ". Nearest: ", root, nearest);
}

/* Plain names, as et_nearest wants them, not rows; ended by NULL. More than NAMES_MAX members are
 * found by name as well, but not all of them proposed. */
static size_t own_names(const char *names[NAMES_MAX + 1], const et_fields *table)
{
    size_t count = 0;
    for (const et_field *field = table->fields; field->kind != ET_FIELD_KIND_END; field++)
        if (count < NAMES_MAX)
            names[count++] = field->name;
    names[count] = NULL;
    return count;
}

/* The message lists existing names as far as they fit, and always the nearest name, which may be
 * the fortieth. */
static int unknown(const reader *reading, const et_fields *table, const et_value *extra,
                   const char *path, const char *key, int line)
{
    const char *names[NAMES_MAX + 1];
    size_t count = own_names(names, table);
    for (const et_value *v = extra ? extra->first : NULL; v && count < NAMES_MAX; v = v->next)
        names[count++] = v->key;
    names[count] = NULL;
    const char *whole = join(reading->from.arena, path, key);
    et_strbuf list = ET_STRBUF_INIT, hint = ET_STRBUF_INIT;
    append_names(&list, names);
    append_hint(&hint, reading->root, names, key);
    int status =
        list.failed || hint.failed
            ? no_memory(reading)
            : refuse(reading, whole, line, "no such setting%s (%s has: %s)", et_strbuf_text(&hint),
                     *path ? path : table->name, count ? et_strbuf_text(&list) : "none");
    et_strbuf_release(&list);
    et_strbuf_release(&hint);
    return status;
}

/* Refuses a number or list in place of a group of settings, such as "trainer: 5". */
static int not_a_group(const reader *reading, const et_fields *table, const char *path,
                       const et_value *value)
{
    const char *names[NAMES_MAX + 1];
    et_strbuf list = ET_STRBUF_INIT;
    own_names(names, table);
    append_names(&list, names);
    int status = list.failed
                     ? no_memory(reading)
                     : refuse(reading, *path ? path : table->name, value->line,
                              "a group of settings, not %s; name one setting of the group (%s)",
                              et_value_kind_name(value->kind), et_strbuf_text(&list));
    et_strbuf_release(&list);
    return status;
}

/* Length of the part before the first point; without a point, of all. */
static size_t head_of(const char *key)
{
    const size_t length = strcspn(key, ".[");
    return key[length] == '.' ? length : strlen(key);
}

static bool is_dotted(const et_value *value)
{
    return head_of(value->key) < strlen(value->key);
}

/* A value of a dict as one of another; false: that has one of the key. */
static bool add_once(et_value *to, const char *key, const et_value *value)
{
    if (et_value_get(to, key))
        return false;
    et_value_append_copy(to, key, value);
    return true;
}

/* Merges value into the group `key` of to, which is made if missing. */
static bool merge_group(et_value *to, const char *key, const et_value *value)
{
    et_value *group = et_value_get(to, key);
    if (!group && !(group = et_value_set_dict(to, key)))
        return true;
    group->line = group->line ? group->line : value->line;
    if (is_dotted(value))
        return group->kind == ET_VALUE_DICT && add_once(group, value->key + strlen(key) + 1, value);
    if (value->kind == ET_VALUE_NULL)
        return true;
    if (group->kind != ET_VALUE_DICT || value->kind != ET_VALUE_DICT)
        return false;
    for (const et_value *v = value->first; v; v = v->next)
        if (!add_once(group, v->key, v))
            return false;
    return true;
}

/* Whether a dotted key of the dict begins with it. */
static bool is_group(const et_value *dict, const char *head)
{
    const size_t length = strlen(head);
    for (const et_value *v = dict->first; v; v = v->next)
        if (is_dotted(v) && head_of(v->key) == length && !strncmp(v->key, head, length))
            return true;
    return false;
}

static const et_value *undotted(const et_value *dict, et_arena *arena, const et_value **twice)
{
    const et_value *dotted = dict->first;
    *twice = NULL;
    while (dotted && !is_dotted(dotted))
        dotted = dotted->next;
    if (!dotted || dict->count > KEYS_MAX)
        return dict;
    et_value *all = et_value_dict(arena);
    if (!all)
        return NULL;
    all->line = dict->line;
    for (const et_value *v = dict->first; v && !*twice; v = v->next) {
        const char *head = et_arena_strndup(arena, v->key, head_of(v->key));
        if (!head)
            return NULL;
        if (!(is_group(dict, head) ? merge_group(all, head, v) : add_once(all, head, v)))
            *twice = v;
    }
    return et_value_failed(all) ? NULL : all;
}

/* Overrides a dict by values, as Model Garden's Config does:
 *
 *   a group over a group       member by member
 *   a list of groups over one  item by item if both are equally long
 *   everything else            replaces; a change of type is logged
 *
 * A list has values or groups, never lists. Dotted names nest as groups do, so the depth is checked
 * here. */
static bool has_groups(const et_value *list)
{
    return list->kind == ET_VALUE_LIST && list->first && list->first->kind == ET_VALUE_DICT;
}

static int check_list(const reader *reading, const et_value *list, const char *path)
{
    size_t number = 1;
    const et_value *item = list->first;
    while (item && item->kind != ET_VALUE_LIST &&
           (item->kind == ET_VALUE_DICT) == (list->first->kind == ET_VALUE_DICT)) {
        item = item->next;
        number++;
    }
    if (!item)
        return ET_OK;
    return refuse(reading, path, list->line,
                  "item %zu is %s; a list has values or groups of settings", number,
                  et_value_kind_name(item->kind));
}

static int report_change(const reader *reading, const et_value *old, const et_value *value,
                         const char *path)
{
    const bool same = old->kind == value->kind ||
                      (et_value_is_number(old) && et_value_is_number(value)) ||
                      old->kind == ET_VALUE_NULL || value->kind == ET_VALUE_NULL;
    const char *where = same ? "" : et_fields_locate(&reading->from, path, value->line);
    if (!where)
        return no_memory(reading);
    if (!same)
        et_log(ET_LOG_WARNING, "%s: is now %s; it was %s", where, et_value_kind_name(value->kind),
               et_value_kind_name(old->kind));
    return ET_OK;
}

static int override_member(const reader *reading, et_value *dict, const char *key,
                           const et_value *value, const char *above);

/* above: the path of dict. */
static int override_dict(const reader *reading, et_value *dict, const et_value *over,
                         const char *above)
{
    const et_value *twice;
    const et_value *all = undotted(over, reading->from.arena, &twice);
    int status = all ? ET_OK : no_memory(reading);
    if (!status && twice)
        status = refuse(reading, join(reading->from.arena, above, twice->key), twice->line, TWICE);
    for (const et_value *v = status ? NULL : all->first; v && !status; v = v->next)
        status = override_member(reading, dict, v->key, v, above);
    return status;
}

/* Item by item, or each item from nothing. */
static int override_groups(const reader *reading, et_value *list, const et_value *over,
                           const char *path)
{
    et_value *item = list->first;
    int status = ET_OK, number = 0;
    for (const et_value *v = over->first; v && !status; v = v->next, number++) {
        const char *whole = et_arena_printf(reading->from.arena, "%s[%d]", path, number);
        et_value *to = item ? item : et_value_add_dict(list);
        status = whole && to ? override_dict(reading, to, v, whole) : no_memory(reading);
        item = item ? item->next : NULL;
    }
    return status;
}

/* For a program that declares its settings in a table. */
static int warn_of_new(const reader *reading, const char *path, const et_value *value)
{
    if (reading->root->fields->kind == ET_FIELD_KIND_END)
        return ET_OK;
    const char *where = et_fields_locate(&reading->from, path, value->line);
    if (!where)
        return no_memory(reading);
    et_log(ET_LOG_WARNING, "%s: no such setting; Etude keeps the line and ignores it", where);
    return ET_OK;
}

static int override_member(const reader *reading, et_value *dict, const char *key,
                           const et_value *value, const char *above)
{
    et_value *old = et_value_get(dict, key);
    const char *path = join(reading->from.arena, above, key);
    if (!path)
        return no_memory(reading);
    if (!old && reading->from.strict && !reading->made)
        return unknown(reading, &et_fields_none, dict, above, key, value->line);
    int status = value->kind == ET_VALUE_LIST ? check_list(reading, value, path) : ET_OK;
    if (strlen(key) > KEY_MAX)
        return et_fail(reading->error, ET_ECONFIG, "%.60s...: a name has at most %d bytes", key,
                       KEY_MAX);
    if (reading->depth > DEPTH_MAX)
        return et_fail(reading->error, ET_ECONFIG, "%.60s...: groups are nested more than %d deep",
                       path, DEPTH_MAX);
    if (!status && old)
        status = report_change(reading, old, value, path);
    else if (!status && !reading->made)
        status = warn_of_new(reading, path, value);
    if (status)
        return status;
    const bool group = value->kind == ET_VALUE_DICT, groups = has_groups(value);
    const bool merges = old && ((group && old->kind == ET_VALUE_DICT) ||
                                (groups && has_groups(old) && old->count == value->count));
    reader below = *reading;
    below.made |= !merges;
    below.depth++;
    if (!merges)
        old = group    ? et_value_set_dict(dict, key)
              : groups ? et_value_set_list(dict, key)
                       : et_value_set_copy(dict, key, value);
    if (!old)
        return no_memory(reading);
    return group    ? override_dict(&below, old, value, path)
           : groups ? override_groups(&below, old, value, path)
                    : ET_OK;
}

static int set_extra(const reader *reading, const et_fields *table, const char *above,
                     const char *path, const et_value *value)
{
    et_arena *arena = reading->from.arena;
    et_value *dict = reading->from.extra, *group = et_value_path(dict, above);
    const char *rest = path + strlen(above) + (*above != 0);
    const char *bracket = strchr(path, '[') ? strrchr(path, ']') : NULL;
    const char *key = et_arena_strndup(arena, rest, strcspn(rest, ".["));
    if (!key)
        return no_memory(reading);
    const bool missing = !group || !et_value_get(group, key);
    if (missing && (reading->from.strict || bracket))
        return unknown(reading, table, group, above, key, value->line);
    const char *item = et_arena_strndup(arena, path, bracket ? (int)(bracket - path) + 1 : 0);
    if (!item)
        return no_memory(reading);
    dict = et_value_path(dict, item);
    rest = path + strlen(item);
    if (!dict || dict->kind != ET_VALUE_DICT || (bracket && *rest && *rest != '.'))
        return refuse(reading, path, value->line,
                      "%s is not a group of settings; name an item of a list of groups", item);
    rest += bracket && *rest;
    reader below = *reading;
    for (const char *at = item; *at; at++)
        below.depth += *at == '.' || *at == '[';
    const et_value *over = *rest ? et_value_nested(arena, rest, strlen(rest), value) : value;
    if (over && over->kind != ET_VALUE_DICT)
        return refuse(reading, path, value->line, "needs a group of settings, not %s",
                      et_value_kind_name(value->kind));
    return over ? override_dict(&below, dict, over, item) : no_memory(reading);
}

/* Sets every member, so a struct need not be cleared first; padding is not changed. */
void et_fields_defaults(const et_fields *table, void *options)
{
    for (const et_field *field = table->fields; field->kind != ET_FIELD_KIND_END; field++) {
        if (field->kind == ET_FIELD_KIND_STRUCT)
            et_fields_defaults(field->nested, et_field_member(field, options));
        else if (field->kind != ET_FIELD_KIND_ONLY)
            et_field_reset(field, options);
    }
}

static int read_dict(const reader *reading, const et_fields *table, void *options,
                     const et_value *dict, const char *path);
static int set(const reader *reading, const et_fields *table, void *options, const char *path,
               const et_value *value);

/* Groups one by one, each from its defaults. The member is set last, when all are good. */
static int read_list(const reader *reading, const et_field *field, et_structs *member,
                     const et_value *value, const char *path)
{
    bool list = value->kind == ET_VALUE_LIST;
    size_t count = list ? value->count : value->kind != ET_VALUE_NULL;
    const et_value *item = list ? value->first : value;
    char *items = count ? et_arena_array(reading->from.arena, count, field->item_size) : NULL;
    if (count && !items)
        return no_memory(reading);
    for (size_t i = 0; i < count; i++, item = item->next) {
        const char *whole = et_arena_printf(reading->from.arena, "%s[%zu]", path, i);
        void *options = items + i * field->item_size;
        if (!whole)
            return no_memory(reading);
        if (item->kind != ET_VALUE_DICT)
            return not_a_group(reading, field->nested, whole, item);
        et_fields_defaults(field->nested, options);
        int status = read_dict(reading, field->nested, options, item, whole);
        if (status)
            return status;
    }
    *member = (et_structs){ items, count };
    return ET_OK;
}

/* The row that says whether a group is there; NULL: it always is. */
static const et_field *presence(const et_fields *table)
{
    const et_field *row = table->fields;
    while (row->kind != ET_FIELD_KIND_END && (row->kind != ET_FIELD_KIND_BOOL || !row->selects))
        row++;
    return row->kind == ET_FIELD_KIND_END ? NULL : row;
}

/* A number or a text in place of a group: the row of its table that represents the group. */
static int read_scalar(const reader *reading, const et_field *group, const char *name,
                       void *options, const et_value *value, const char *path)
{
    const et_field *row = et_fields_find(group->nested, name, strlen(name));
    const char *where = et_fields_locate(&reading->from, path, value->line);
    et_assert(row);
    return where ? et_field_read(row, options, value, reading->from.arena, reading->from.typed,
                                 where, reading->error)
                 : no_memory(reading);
}

/* path: of the member itself, from the top. */
static int read_member(const reader *reading, const et_field *field, void *options,
                       const et_value *value, const char *path)
{
    if (field->kind == ET_FIELD_KIND_STRUCT && field->list && value->kind == ET_VALUE_LIST) {
        const et_field *row = et_fields_find(field->nested, field->list, strlen(field->list));
        et_assert(row && row->kind == ET_FIELD_KIND_STRUCTS);
        return read_list(reading, row, et_field_member(row, et_field_member(field, options)), value,
                         path);
    }
    if (field->kind == ET_FIELD_KIND_STRUCT && field->number && et_value_is_number(value))
        return read_scalar(reading, field, field->number, et_field_member(field, options), value,
                           path);
    if (field->kind == ET_FIELD_KIND_STRUCT && field->word && value->kind == ET_VALUE_STRING)
        return read_scalar(reading, field, field->word, et_field_member(field, options), value,
                           path);
    if (field->kind == ET_FIELD_KIND_STRUCT && value->kind == ET_VALUE_NULL &&
        !presence(field->nested)) {
        /* An empty "trainer:" is a group without settings; a written null may have been meant to
         * remove it. */
        void *member = et_field_member(field, options);
        if (field->nullable) {
            et_fields_defaults(field->nested, member);
            return ET_OK;
        }
        const char *where = et_fields_locate(&reading->from, path, value->line);
        if (!where)
            return no_memory(reading);
        if (value->text && *value->text)
            et_log(ET_LOG_WARNING,
                   "%s: %s changes nothing in a group of settings; name the settings to change",
                   where, value->text);
        return ET_OK;
    }
    if (field->kind == ET_FIELD_KIND_STRUCT)
        return read_dict(reading, field->nested, et_field_member(field, options), value, path);
    if (field->kind == ET_FIELD_KIND_STRUCTS)
        return read_list(reading, field, et_field_member(field, options), value, path);
    const char *where = et_fields_locate(&reading->from, path, value->line);
    if (!where)
        return no_memory(reading);
    if (field->kind == ET_FIELD_KIND_ONLY)
        return et_field_check_only(field, value, where, reading->error);
    if (reading->from.given && !et_fields_given_add(reading->from.given, where, path))
        return no_memory(reading);
    return et_field_read(field, options, value, reading->from.arena, reading->from.typed, where,
                         reading->error);
}

/* If a member has two names, a dict may use only one of them; null sets nothing. */
static int not_both_names(const reader *reading, const et_fields *table, const et_field *field,
                          const et_value *dict, const et_value *value, const char *path)
{
    if (field->kind != ET_FIELD_KIND_EPOCHS || value->kind == ET_VALUE_NULL)
        return ET_OK;
    for (const et_field *row = table->fields; row->kind != ET_FIELD_KIND_END; row++) {
        const et_value *other = NULL;
        if (row != field && row->offset == field->offset)
            other = et_value_get(dict, row->name);
        if (!other || other->kind == ET_VALUE_NULL)
            continue;
        return refuse(reading, path, value->line, "%s is set as well; remove one of them",
                      row->name);
    }
    return ET_OK;
}

/* Reads a value of the dict. Readers ensure unique keys, so a file sets no member twice. */
static int read_named(const reader *reading, const et_fields *table, void *options,
                      const et_value *dict, const et_value *value, const char *path)
{
    const et_field *field = et_fields_find(table, value->key, strlen(value->key));
    if (!field && strchr(value->key, '[')) /* a[0].b: 1 */
        return set(reading, table, options, value->key, value);
    if (!field && !reading->from.extra)
        return unknown(reading, table, NULL, path, value->key, value->line);
    /* Kept by the arena: text of a message, should this member be refused. */
    const char *whole = join(reading->from.arena, path, value->key);
    if (!whole)
        return no_memory(reading);
    if (!field)
        return set_extra(reading, table, path, whole, value);
    int status = not_both_names(reading, table, field, dict, value, whole);
    return status ? status : read_member(reading, field, options, value, whole);
}

/* As deep as the tables, not as the text. */
static int read_dict(const reader *reading, const et_fields *table, void *options,
                     const et_value *dict, const char *path)
{
    const et_field *there = presence(table);
    bool nothing = dict->kind == ET_VALUE_NULL; /* a name with nothing below it */
    if (!nothing && dict->kind != ET_VALUE_DICT)
        return not_a_group(reading, table, path, dict);
    const et_value *twice = NULL;
    if (!nothing && !(dict = undotted(dict, reading->from.arena, &twice)))
        return no_memory(reading);
    if (twice)
        return refuse(reading, join(reading->from.arena, path, twice->key), twice->line, TWICE);
    if (there && (nothing || !et_value_get(dict, there->name)))
        *(bool *)et_field_member(there, options) = !nothing;
    int status = ET_OK;
    for (const et_value *value = nothing ? NULL : dict->first; value && !status;
         value = value->next)
        status = read_named(reading, table, options, dict, value, path);
    return status;
}

/* path NULL counts as "". */
int et_fields_read_from(const et_fields_origin *from, const et_fields *table, void *options,
                        const et_value *dict, const char *path, et_error *error)
{
    et_assert(table && dict && from->arena);
    reader reading = { .root = table, .from = *from, .error = error };
    return read_dict(&reading, table, options, dict, path ? path : "");
}

int et_fields_read(const et_fields *table, void *options, const et_value *dict, et_arena *arena,
                   const char *name, const char *path, et_error *error)
{
    const et_fields_origin from = { .name = name, .arena = arena };
    return et_fields_read_from(&from, table, options, dict, path, error);
}

/* *options: from the struct that has the list to an item of it, "[2]". Items are copied before one
 * changes: other structs may share them. */
static int enter_item(const reader *reading, const et_field *field, const char *index,
                      const char *path, int line, void **options)
{
    et_structs *member = et_field_member(field, *options);
    char *end;
    const unsigned long item = strtoul(index + 1, &end, 10);
    if (index[1] < '0' || index[1] > '9' || *end != ']' || (end[1] && end[1] != '.') ||
        item >= member->count)
        return refuse(reading, path, line, "%s has %zu items, numbered from [0]; name one of these",
                      field->name, member->count);
    char *items = et_arena_array(reading->from.arena, member->count, field->item_size);
    if (!items)
        return no_memory(reading);
    memcpy(items, member->items, member->count * field->item_size);
    member->items = items;
    *options = items + item * field->item_size;
    return ET_OK;
}

/* Walks down one part of the path at a time: table, options and rest move together; rest is a path
 * in table, whose struct is at options. above: the path so far, for messages. */
static int set(const reader *reading, const et_fields *table, void *options, const char *path,
               const et_value *value)
{
    const char *rest = path; /* the part not walked yet, a tail of path */
    for (;;) {
        size_t length = strcspn(rest, "."), name = strcspn(rest, ".[");
        const char *key = et_arena_strndup(reading->from.arena, rest, name);
        /* Without the point between them. */
        size_t above_length = rest == path ? 0 : (size_t)(rest - path) - 1;
        const char *above = et_arena_strndup(reading->from.arena, path, above_length);
        if (!key || !above)
            return no_memory(reading);
        const et_field *field = et_fields_find(table, rest, name);
        if (!field)
            return reading->from.extra ? set_extra(reading, table, above, path, value)
                                       : unknown(reading, table, NULL, above, key, value->line);
        /* The last part of the path: the value is for this member, or for the whole group
         * that it is. */
        if (!rest[name])
            return read_member(reading, field, options, value, path);
        const bool item = rest[name] == '[';
        /* The path continues below something that is one value. */
        if (field->kind != (item ? ET_FIELD_KIND_STRUCTS : ET_FIELD_KIND_STRUCT))
            return refuse(reading, path, value->line,
                          "%s is a single setting, not a group; remove what follows it", key);
        int status =
            item ? enter_item(reading, field, rest + name, path, value->line, &options) : ET_OK;
        if (status)
            return status;
        options = item ? options : et_field_member(field, options);
        table = field->nested;
        if (!rest[length])
            return read_dict(reading, table, options, value, path);
        rest += length + 1;
    }
}

int et_fields_set_from(const et_fields_origin *from, const et_fields *table, void *options,
                       const char *path, const et_value *value, const char *text, et_error *error)
{
    et_assert(table && path && from->arena && (value != NULL) != (text != NULL));
    reader reading = { .root = table, .from = *from, .error = error };
    et_value *parsed = NULL;
    const char *where = text ? et_fields_locate(from, path, 0) : NULL;
    if (text && !where)
        return no_memory(&reading);
    /* May be a whole group in flow style, {a: 1, b: 2}, so it ends in the same reader as a file. */
    int status = text ? et_yaml_parse_value(&parsed, from->arena, text, where, error) : ET_OK;
    return status ? status : set(&reading, table, options, path, text ? parsed : value);
}

/* The selecting row comes before the members that it selects from, and so does its value in the
 * echo. Every group is one of them, another member if a choice has its name. */
bool et_fields_counts(const et_fields *table, const et_field *field, const et_value *echo)
{
    const bool group = field->kind == ET_FIELD_KIND_STRUCT;
    if (field->kind == ET_FIELD_KIND_ONLY || field->kind == ET_FIELD_KIND_EPOCHS || field->passing)
        return false;
    for (const et_field *row = table->fields; row != field; row++)
        if (row->kind == ET_FIELD_KIND_CHOICE && row->selects &&
            (group || et_is_one_of(field->name, row->choices))) {
            const et_value *name = et_value_get(echo, row->name);
            return name && !strcmp(name->string, field->name);
        }
    return true;
}

static void echo(const et_fields *table, const void *options, et_value *dict, bool effective);

/* Fails only by memory, which dict's arena remembers. effective: only what counts. */
static void echo(const et_fields *table, const void *options, et_value *dict, bool effective)
{
    for (const et_field *field = table->fields; field->kind != ET_FIELD_KIND_END; field++) {
        if (effective && !et_fields_counts(table, field, dict))
            continue;
        if (field->kind == ET_FIELD_KIND_STRUCTS) {
            const et_structs *member = et_field_member(field, (void *)options);
            et_value *list = et_value_set_list(dict, field->name);
            for (size_t i = 0; list && i < member->count; i++) {
                et_value *item = et_value_add_dict(list);
                if (item)
                    echo(field->nested, (const char *)member->items + i * field->item_size, item,
                         effective);
            }
            continue;
        }
        if (field->passing) {
            et_value_set_null(dict, field->name); /* reading null does not change the member */
            continue;
        }
        if (field->kind != ET_FIELD_KIND_STRUCT) {
            et_field_echo(field, options, dict);
            continue;
        }
        et_value *nested = et_value_set_dict(dict, field->name);
        if (nested)
            echo(field->nested, et_field_member(field, (void *)options), nested, effective);
    }
}

static et_value *echo_all(const et_fields *table, const void *options, et_arena *arena,
                          bool effective)
{
    et_value *dict = et_value_dict(arena);
    if (!dict)
        return NULL;
    echo(table, options, dict, effective);
    return et_value_failed(dict) ? NULL : dict;
}

et_value *et_fields_echo(const et_fields *table, const void *options, et_arena *arena)
{
    return echo_all(table, options, arena, false);
}

/* params.yaml is printed from this dict; reading it back gives the same options. */
et_value *et_fields_effective(const et_fields *table, const void *options, et_arena *arena)
{
    return echo_all(table, options, arena, true);
}
