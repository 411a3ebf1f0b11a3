#include "base/fields/fields_dotted.h"

#include <string.h>

#include "base/arena.h"
#include "base/fields/fields.h"
#include "base/values/value.h"

const et_field *et_fields_find(const et_fields *table, const char *name, size_t length)
{
    for (const et_field *field = table->fields; field->kind != ET_FIELD_KIND_END; field++)
        if (field->name[0] == name[0] && strncmp(field->name, name, length) == 0 &&
            field->name[length] == 0)
            return field;
    return NULL;
}

const et_fields *et_fields_with(const et_fields *table, const char *name, const et_fields *nested,
                                et_arena *arena)
{
    size_t count = 1;
    while (table->fields[count - 1].kind != ET_FIELD_KIND_END)
        count++;
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

/* No table has so many rows; a dict with more keys has an unknown one, which is reported. */
#define KEYS_MAX 4096

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
static bool add(et_value *to, const char *key, const et_value *value)
{
    if (et_value_get(to, key))
        return false;
    et_value_append_copy(to, key, value);
    return true;
}

/* Adds what value has to the group that to has under the key, which is made if need be. */
static bool merge(et_value *to, const char *key, const et_value *value)
{
    et_value *group = et_value_get(to, key);
    if (!group && !(group = et_value_set_dict(to, key)))
        return true;
    group->line = group->line ? group->line : value->line;
    if (is_dotted(value))
        return group->kind == ET_VALUE_DICT && add(group, value->key + strlen(key) + 1, value);
    if (value->kind == ET_VALUE_NULL)
        return true;
    if (group->kind != ET_VALUE_DICT || value->kind != ET_VALUE_DICT)
        return false;
    for (const et_value *v = value->first; v; v = v->next)
        if (!add(group, v->key, v))
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

const et_value *et_fields_undotted(const et_value *dict, et_arena *arena, const et_value **twice)
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
        const char *head = et_arena_printf(arena, "%.*s", (int)head_of(v->key), v->key);
        if (!head)
            return NULL;
        if (!(is_group(dict, head) ? merge(all, head, v) : add(all, head, v)))
            *twice = v;
    }
    return et_value_failed(all) ? NULL : all;
}
