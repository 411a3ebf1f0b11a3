/* Overrides a dict by values, as Model Garden's Config does:
 *
 *   a group over a group       member by member
 *   a list of groups over one  item by item if both are equally long
 *   everything else            replaces; a change of type is logged
 *
 * A list has values or groups, never lists. Dotted names nest as groups do, so the depth is checked
 * here. */
#include "base/fields/fields_extra.h"

#include <string.h>

#include <etude/log.h>

#include "base/arena.h"
#include "base/fields/fields_dotted.h"
#include "base/values/value.h"

#define DEPTH_MAX 64
#define KEY_MAX   128 /* bytes; a written name stays a name of YAML with all escapes */

static bool is_number(const et_value *value)
{
    return value->kind == ET_VALUE_INT || value->kind == ET_VALUE_FLOAT;
}

static bool has_groups(const et_value *list)
{
    return list->kind == ET_VALUE_LIST && list->first && list->first->kind == ET_VALUE_DICT;
}

static int check_list(const et_fields_reading *reading, const et_value *list, const char *path)
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
    const char *where = et_fields_locate(&reading->from, path, list->line);
    return where ? et_fail(reading->error, ET_ECONFIG,
                           "%s: item %zu is %s; a list has values or groups of settings", where,
                           number, et_value_kind_name(item->kind))
                 : et_fields_no_memory(reading);
}

static int report_change(const et_fields_reading *reading, const et_value *old,
                         const et_value *value, const char *path)
{
    const bool same = old->kind == value->kind || (is_number(old) && is_number(value)) ||
                      old->kind == ET_VALUE_NULL || value->kind == ET_VALUE_NULL;
    const char *where = same ? "" : et_fields_locate(&reading->from, path, value->line);
    if (!where)
        return et_fields_no_memory(reading);
    if (!same)
        et_log(ET_LOG_WARNING, "%s: is now %s; it was %s", where, et_value_kind_name(value->kind),
               et_value_kind_name(old->kind));
    return ET_OK;
}

static int override_member(const et_fields_reading *reading, et_value *dict, const char *key,
                           const et_value *value, const char *above);

/* above: the path of dict. */
static int override_dict(const et_fields_reading *reading, et_value *dict, const et_value *over,
                         const char *above)
{
    const et_value *twice;
    const et_value *all = et_fields_undotted(over, reading->from.arena, &twice);
    int status = all ? ET_OK : et_fields_no_memory(reading);
    if (!status && twice)
        status = et_fields_set_twice(reading, above, twice);
    for (const et_value *v = status ? NULL : all->first; v && !status; v = v->next)
        status = override_member(reading, dict, v->key, v, above);
    return status;
}

/* Item by item, or each item from nothing. */
static int override_groups(const et_fields_reading *reading, et_value *list, const et_value *over,
                           const char *path)
{
    et_value *item = list->first;
    int status = ET_OK, number = 0;
    for (const et_value *v = over->first; v && !status; v = v->next, number++) {
        const char *whole = et_arena_printf(reading->from.arena, "%s[%d]", path, number);
        et_value *to = item ? item : et_value_add_dict(list);
        status = whole && to ? override_dict(reading, to, v, whole) : et_fields_no_memory(reading);
        item = item ? item->next : NULL;
    }
    return status;
}

/* Of a program that declares its settings in a table. */
static int warn_of_new(const et_fields_reading *reading, const char *path, const et_value *value)
{
    if (reading->root->fields->kind == ET_FIELD_KIND_END)
        return ET_OK;
    const char *where = et_fields_locate(&reading->from, path, value->line);
    if (!where)
        return et_fields_no_memory(reading);
    et_log(ET_LOG_WARNING, "%s: no such setting; Etude keeps the line and ignores it", where);
    return ET_OK;
}

static int override_member(const et_fields_reading *reading, et_value *dict, const char *key,
                           const et_value *value, const char *above)
{
    et_value *old = et_value_get(dict, key);
    const char *path = et_fields_join(reading->from.arena, above, key);
    if (!path)
        return et_fields_no_memory(reading);
    if (!old && reading->from.strict && !reading->made)
        return et_fields_unknown(reading, &et_fields_none, dict, above, key, value->line);
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
    et_fields_reading below = *reading;
    below.made |= !merges;
    below.depth++;
    if (!merges)
        old = group    ? et_value_set_dict(dict, key)
              : groups ? et_value_set_list(dict, key)
                       : et_value_set_copy(dict, key, value);
    if (!old)
        return et_fields_no_memory(reading);
    return group    ? override_dict(&below, old, value, path)
           : groups ? override_groups(&below, old, value, path)
                    : ET_OK;
}

int et_fields_set_extra(const et_fields_reading *reading, const et_fields *table, const char *above,
                        const char *path, const et_value *value)
{
    et_arena *arena = reading->from.arena;
    et_value *dict = reading->from.extra, *group = et_value_path(dict, above);
    const char *rest = path + strlen(above) + (*above != 0);
    const char *bracket = strchr(path, '[') ? strrchr(path, ']') : NULL;
    const char *key = et_arena_printf(arena, "%.*s", (int)strcspn(rest, ".["), rest);
    if (!key)
        return et_fields_no_memory(reading);
    const bool missing = !group || !et_value_get(group, key);
    if (missing && (reading->from.strict || bracket))
        return et_fields_unknown(reading, table, group, above, key, value->line);
    const char *item =
        et_arena_printf(arena, "%.*s", bracket ? (int)(bracket - path) + 1 : 0, path);
    if (!item)
        return et_fields_no_memory(reading);
    dict = et_value_path(dict, item);
    rest = path + strlen(item);
    if (!dict || dict->kind != ET_VALUE_DICT || (bracket && *rest && *rest != '.')) {
        const char *where = et_fields_locate(&reading->from, path, value->line);
        return where
                   ? et_fail(reading->error, ET_ECONFIG,
                             "%s: %s is not a group of settings; name an item of a list of groups",
                             where, item)
                   : et_fields_no_memory(reading);
    }
    rest += bracket && *rest;
    et_fields_reading below = *reading;
    for (const char *at = item; *at; at++)
        below.depth += *at == '.' || *at == '[';
    const et_value *over = *rest ? et_value_nested(arena, rest, strlen(rest), value) : value;
    if (over && over->kind != ET_VALUE_DICT) {
        const char *where = et_fields_locate(&reading->from, path, value->line);
        return where ? et_fail(reading->error, ET_ECONFIG, "%s: needs a group of settings, not %s",
                               where, et_value_kind_name(value->kind))
                     : et_fields_no_memory(reading);
    }
    return over ? override_dict(&below, dict, over, item) : et_fields_no_memory(reading);
}
