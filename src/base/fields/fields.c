/* Walks tables: compares a dict of values with the table of its struct, name by name.
 * fields_scalar.c handles members of all kinds except nested structs, fields_extra.c names that no
 * table has. The depth is that of the tables, which are const, never that of the input.
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

#include <stdlib.h>
#include <string.h>

#include <etude/log.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/fields/fields_dotted.h"
#include "base/fields/fields_extra.h"
#include "base/values/value.h"
#include "base/values/yaml.h"

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

static int read_dict(const et_fields_reading *reading, const et_fields *table, void *options,
                     const et_value *dict, const char *path);
static int set(const et_fields_reading *reading, const et_fields *table, void *options,
               const char *path, const et_value *value);

/* Groups one by one, each from its defaults. The member is set last, when all are good. */
static int read_list(const et_fields_reading *reading, const et_field *field, et_structs *member,
                     const et_value *value, const char *path)
{
    bool list = value->kind == ET_VALUE_LIST;
    size_t count = list ? value->count : value->kind != ET_VALUE_NULL;
    const et_value *item = list ? value->first : value;
    char *items = count ? et_arena_array(reading->from.arena, count, field->item_size) : NULL;
    if (count && !items)
        return et_fields_no_memory(reading);
    for (size_t i = 0; i < count; i++, item = item->next) {
        const char *whole = et_arena_printf(reading->from.arena, "%s[%zu]", path, i);
        void *options = items + i * field->item_size;
        if (!whole)
            return et_fields_no_memory(reading);
        if (item->kind != ET_VALUE_DICT)
            return et_fields_not_a_group(reading, field->nested, whole, item);
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

/* An empty "trainer:" is a group without settings; a written null may have been meant to remove
 * it. */
static int read_null(const et_fields_reading *reading, const et_field *field, void *member,
                     const et_value *value, const char *path)
{
    if (field->nullable) {
        et_fields_defaults(field->nested, member);
        return ET_OK;
    }
    const char *where = et_fields_locate(&reading->from, path, value->line);
    if (!where)
        return et_fields_no_memory(reading);
    if (value->text && *value->text)
        et_log(ET_LOG_WARNING,
               "%s: %s changes nothing in a group of settings; name the settings to change", where,
               value->text);
    return ET_OK;
}

/* A number or a text in place of a group: the row of its table that represents the group. */
static int read_scalar(const et_fields_reading *reading, const et_field *group, const char *name,
                       void *options, const et_value *value, const char *path)
{
    const et_field *row = et_fields_find(group->nested, name, strlen(name));
    const char *where = et_fields_locate(&reading->from, path, value->line);
    et_assert(row);
    return where ? et_field_read(row, options, value, reading->from.arena, reading->from.typed,
                                 where, reading->error)
                 : et_fields_no_memory(reading);
}

/* path: of the member itself, from the top. */
static int read_member(const et_fields_reading *reading, const et_field *field, void *options,
                       const et_value *value, const char *path)
{
    if (field->kind == ET_FIELD_KIND_STRUCT && field->list && value->kind == ET_VALUE_LIST) {
        const et_field *row = et_fields_find(field->nested, field->list, strlen(field->list));
        et_assert(row && row->kind == ET_FIELD_KIND_STRUCTS);
        return read_list(reading, row, et_field_member(row, et_field_member(field, options)), value,
                         path);
    }
    if (field->kind == ET_FIELD_KIND_STRUCT && field->number &&
        (value->kind == ET_VALUE_INT || value->kind == ET_VALUE_FLOAT))
        return read_scalar(reading, field, field->number, et_field_member(field, options), value,
                           path);
    if (field->kind == ET_FIELD_KIND_STRUCT && field->word && value->kind == ET_VALUE_STRING)
        return read_scalar(reading, field, field->word, et_field_member(field, options), value,
                           path);
    if (field->kind == ET_FIELD_KIND_STRUCT && value->kind == ET_VALUE_NULL &&
        !presence(field->nested))
        return read_null(reading, field, et_field_member(field, options), value, path);
    if (field->kind == ET_FIELD_KIND_STRUCT)
        return read_dict(reading, field->nested, et_field_member(field, options), value, path);
    if (field->kind == ET_FIELD_KIND_STRUCTS)
        return read_list(reading, field, et_field_member(field, options), value, path);
    const char *where = et_fields_locate(&reading->from, path, value->line);
    if (!where)
        return et_fields_no_memory(reading);
    if (field->kind == ET_FIELD_KIND_ONLY)
        return et_field_check_only(field, value, where, reading->error);
    if (reading->from.given && !et_fields_given_add(reading->from.given, where, path))
        return et_fields_no_memory(reading);
    return et_field_read(field, options, value, reading->from.arena, reading->from.typed, where,
                         reading->error);
}

/* Of a member with two names one dict may use one; a null sets nothing. */
static int not_both_names(const et_fields_reading *reading, const et_fields *table,
                          const et_field *field, const et_value *dict, const et_value *value,
                          const char *path)
{
    if (field->kind != ET_FIELD_KIND_EPOCHS || value->kind == ET_VALUE_NULL)
        return ET_OK;
    for (const et_field *row = table->fields; row->kind != ET_FIELD_KIND_END; row++) {
        const et_value *other = NULL;
        if (row != field && row->offset == field->offset)
            other = et_value_get(dict, row->name);
        if (!other || other->kind == ET_VALUE_NULL)
            continue;
        const char *where = et_fields_locate(&reading->from, path, value->line);
        return where ? et_fail(reading->error, ET_ECONFIG,
                               "%s: %s is set as well; remove one of them", where, row->name)
                     : et_fields_no_memory(reading);
    }
    return ET_OK;
}

/* A value of the dict, whose keys are unique: the readers see to that, so no member is set twice by
 * one file. */
static int read_named(const et_fields_reading *reading, const et_fields *table, void *options,
                      const et_value *dict, const et_value *value, const char *path)
{
    const et_field *field = et_fields_find(table, value->key, strlen(value->key));
    if (!field && strchr(value->key, '[')) /* a[0].b: 1 */
        return set(reading, table, options, value->key, value);
    if (!field && !reading->from.extra)
        return et_fields_unknown(reading, table, NULL, path, value->key, value->line);
    /* Kept by the arena: text of a message, should this member be refused. */
    const char *whole = et_fields_join(reading->from.arena, path, value->key);
    if (!whole)
        return et_fields_no_memory(reading);
    if (!field)
        return et_fields_set_extra(reading, table, path, whole, value);
    int status = not_both_names(reading, table, field, dict, value, whole);
    return status ? status : read_member(reading, field, options, value, whole);
}

/* As deep as the tables, not as the text. */
static int read_dict(const et_fields_reading *reading, const et_fields *table, void *options,
                     const et_value *dict, const char *path)
{
    const et_field *there = presence(table);
    bool nothing = dict->kind == ET_VALUE_NULL; /* a name with nothing below it */
    if (!nothing && dict->kind != ET_VALUE_DICT)
        return et_fields_not_a_group(reading, table, path, dict);
    const et_value *twice = NULL;
    if (!nothing && !(dict = et_fields_undotted(dict, reading->from.arena, &twice)))
        return et_fields_no_memory(reading);
    if (twice)
        return et_fields_set_twice(reading, path, twice);
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
    et_fields_reading reading = { .root = table, .from = *from, .error = error };
    return read_dict(&reading, table, options, dict, path ? path : "");
}

int et_fields_read(const et_fields *table, void *options, const et_value *dict, et_arena *arena,
                   const char *name, const char *path, et_error *error)
{
    const et_fields_origin from = { .name = name, .arena = arena };
    return et_fields_read_from(&from, table, options, dict, path, error);
}

/* The text may be a whole group in flow style ({a: 1, b: 2}), so this ends in the same reader
 * as a file. */
static int parse_text(const et_fields_reading *reading, et_value **value, const char *path,
                      const char *text)
{
    const char *where = et_fields_locate(&reading->from, path, 0);
    if (!where)
        return et_fields_no_memory(reading);
    return et_yaml_parse_value(value, reading->from.arena, text, where, reading->error);
}

static int below_one(const et_fields_reading *reading, const char *path, int line, const char *key)
{
    const char *where = et_fields_locate(&reading->from, path, line);
    return where ? et_fail(reading->error, ET_ECONFIG,
                           "%s: %s is a single setting, not a group; remove what follows it", where,
                           key)
                 : et_fields_no_memory(reading);
}

/* *options: from the struct that has the list to an item of it, "[2]". Items are copied before one
 * changes: other structs may share them. */
static int enter_item(const et_fields_reading *reading, const et_field *field, const char *index,
                      const char *path, int line, void **options)
{
    et_structs *member = et_field_member(field, *options);
    char *end;
    const unsigned long item = strtoul(index + 1, &end, 10);
    const char *where = et_fields_locate(&reading->from, path, line);
    if (!where)
        return et_fields_no_memory(reading);
    if (index[1] < '0' || index[1] > '9' || *end != ']' || (end[1] && end[1] != '.') ||
        item >= member->count)
        return et_fail(reading->error, ET_ECONFIG,
                       "%s: %s has %zu items, numbered from [0]; name one of these", where,
                       field->name, member->count);
    char *items = et_arena_array(reading->from.arena, member->count, field->item_size);
    if (!items)
        return et_fields_no_memory(reading);
    memcpy(items, member->items, member->count * field->item_size);
    member->items = items;
    *options = items + item * field->item_size;
    return ET_OK;
}

/* Walks down one part of the path at a time: table, options and rest move together, so that
 * rest is always to be found in table, whose struct is at options. above: the path so far,
 * for messages. */
static int set(const et_fields_reading *reading, const et_fields *table, void *options,
               const char *path, const et_value *value)
{
    const char *rest = path; /* the part not walked yet, a tail of path */
    for (;;) {
        size_t length = strcspn(rest, "."), name = strcspn(rest, ".[");
        const char *key = et_arena_printf(reading->from.arena, "%.*s", (int)name, rest);
        /* Without the point between them. */
        size_t above_length = rest == path ? 0 : (size_t)(rest - path) - 1;
        const char *above = et_arena_printf(reading->from.arena, "%.*s", (int)above_length, path);
        if (!key || !above)
            return et_fields_no_memory(reading);
        const et_field *field = et_fields_find(table, rest, name);
        if (!field)
            return reading->from.extra
                       ? et_fields_set_extra(reading, table, above, path, value)
                       : et_fields_unknown(reading, table, NULL, above, key, value->line);
        /* The last part of the path: the value is for this member, or for the whole group
         * that it is. */
        if (!rest[name])
            return read_member(reading, field, options, value, path);
        const bool item = rest[name] == '[';
        /* The path continues below something that is one value. */
        if (field->kind != (item ? ET_FIELD_KIND_STRUCTS : ET_FIELD_KIND_STRUCT))
            return below_one(reading, path, value->line, key);
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
    et_fields_reading reading = { .root = table, .from = *from, .error = error };
    et_value *parsed = NULL;
    int status = text ? parse_text(&reading, &parsed, path, text) : ET_OK;
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

static void echo_list(const et_field *field, const et_structs *member, et_value *dict,
                      bool effective)
{
    et_value *list = et_value_set_list(dict, field->name);
    for (size_t i = 0; list && i < member->count; i++) {
        et_value *item = et_value_add_dict(list);
        if (item)
            echo(field->nested, (const char *)member->items + i * field->item_size, item,
                 effective);
    }
}

/* Fails only by memory, which dict's arena remembers. effective: only what counts. */
static void echo(const et_fields *table, const void *options, et_value *dict, bool effective)
{
    for (const et_field *field = table->fields; field->kind != ET_FIELD_KIND_END; field++) {
        if (effective && !et_fields_counts(table, field, dict))
            continue;
        if (field->kind == ET_FIELD_KIND_STRUCTS) {
            echo_list(field, et_field_member(field, (void *)options), dict, effective);
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

/* What params.yaml is written from: reading it back gives the same options. */
et_value *et_fields_effective(const et_fields *table, const void *options, et_arena *arena)
{
    return echo_all(table, options, arena, true);
}
