/* Settings without effect. A path is walked down its tables; the first row on the way that disables
 * it is its gate:
 *
 *   type: cosine    a CHOICE that selects: of the groups next to it, only the chosen one has effect
 *   enabled: false  a BOOL that selects: its whole group is off
 *   loss: softmax   the row that .with of a row names has another value
 *   path: a.yaml    the same for a text that must be null */

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/fields/fields.h"

typedef struct et_given_item {
    const struct et_given_item *next;
    const char *where, *path;
} et_given_item;

/* The row that disables a setting. */
typedef struct gate {
    const et_field *row;  /* NULL: nothing does */
    const char *is;       /* its value */
    const char *needs;    /* [length] the value under which the setting counts */
    size_t length, above; /* above: bytes of the path before the gate's name */
    bool usual;           /* the setting has its default */
} gate;

static bool push(et_arena *arena, const et_given_item **list, const char *where, const char *path)
{
    et_given_item *item = et_arena_alloc(arena, sizeof *item);
    if (!item)
        return false;
    *item = (et_given_item){ *list, where, path };
    *list = item;
    return true;
}

bool et_fields_given_add(et_fields_given *given, const char *where, const char *path)
{
    et_assert(where && path);
    return push(given->arena, &given->first, where, path) &&
           push(given->arena, &given->ever, where, path);
}

static const char *value_of(const et_field *row, const void *options)
{
    const void *member = et_field_member(row, (void *)options);
    if (row->kind == ET_FIELD_KIND_BOOL)
        return *(const bool *)member ? "true" : "false";
    if (row->kind == ET_FIELD_KIND_STRING) {
        const char *text = *(const char *const *)member;
        return text && *text ? text : "null";
    }
    et_assert(row->kind == ET_FIELD_KIND_CHOICE);
    const int chosen = *(const int *)member;
    return chosen >= 0 ? row->choices[chosen] : "null";
}

/* *found: the gate, unless the row has the value that is needed. */
static void look(gate *found, const et_field *row, const void *options, const char *needs,
                 size_t length, size_t above)
{
    const char *is = value_of(row, options);
    const bool any = length == 1 && *needs == '*';
    if (any ? !strcmp(is, "null") : strlen(is) != length || strncmp(is, needs, length) != 0)
        *found = (gate){ row, is, needs, length, above, .usual = false };
}

/* The gate of a row among its neighbours. */
static gate gate_of(const et_fields *table, const et_field *field, const void *options,
                    size_t above)
{
    gate found = { .row = NULL };
    for (const et_field *row = table->fields; row->kind != ET_FIELD_KIND_END && !found.row; row++) {
        if (row == field)
            continue;
        if (row->kind == ET_FIELD_KIND_BOOL && row->selects)
            look(&found, row, options, "true", 4, above);
        if (row->kind == ET_FIELD_KIND_CHOICE && row->selects && row < field &&
            field->kind == ET_FIELD_KIND_STRUCT)
            look(&found, row, options, field->name, strlen(field->name), above);
    }
    if (found.row || !field->with)
        return found;
    const size_t name = strcspn(field->with, "=");
    const et_field *row = et_fields_find(table, field->with, name);
    et_assert(row && field->with[name]);
    const char *needs = field->with + name + 1;
    look(&found, row, options, needs, strlen(needs), above);
    return found;
}

/* Into a group, or into item "[n]" of a list of groups; NULL: there is no such item any more. */
static const void *enter(const et_field **field, const void *options, const char *index)
{
    const void *member = et_field_member(*field, (void *)options);
    if (*index != '[')
        return member;
    if ((*field)->kind == ET_FIELD_KIND_STRUCT && (*field)->list) {
        *field = et_fields_find((*field)->nested, (*field)->list, strlen((*field)->list));
        member = et_field_member(*field, (void *)member);
    }
    if ((*field)->kind != ET_FIELD_KIND_STRUCTS)
        return NULL;
    const et_structs *list = member;
    const unsigned long item = strtoul(index + 1, NULL, 10);
    return item < list->count ? (const char *)list->items + item * (*field)->item_size : NULL;
}

/* Whether a choice, a whole number or a text has its default; false for other kinds. */
static bool has_default(const et_field *field, const void *options)
{
    const void *member = et_field_member(field, (void *)options);
    if (field->kind == ET_FIELD_KIND_STRING)
        return !strcmp(value_of(field, options),
                       field->default_string ? field->default_string : "null");
    const int64_t usual = (int64_t)field->default_number;
    return field->kind == ET_FIELD_KIND_CHOICE ? *(const int *)member == usual
           : field->kind == ET_FIELD_KIND_INT  ? *(const int64_t *)member == usual
                                               : false;
}

/* A path that leads nowhere, such as to an item of a list that has been replaced, has no gate. */
static gate find_gate(const et_fields *table, const void *options, const char *path)
{
    gate found = { .row = NULL };
    for (const char *rest = path; options;) {
        const size_t name = strcspn(rest, ".["), part = strcspn(rest, ".");
        const et_field *field = et_fields_find(table, rest, name);
        if (!field)
            return found;
        if (!found.row)
            found = gate_of(table, field, options, (size_t)(rest - path));
        if (!rest[part] || !field->nested) {
            found.usual = has_default(field, options);
            return found;
        }
        options = enter(&field, options, rest + name);
        table = field->nested;
        rest += part + 1;
    }
    return found;
}

bool et_fields_is_open(const et_fields *table, const void *options, const char *path)
{
    return !find_gate(table, options, path).row;
}

/* A file with a whole group, such as a run's, also contains settings that are off. In addition to
 * settings of a text, a run's file has defaults. */
static bool is_given_off(const et_given_item *all, const et_given_item *item, const gate *found)
{
    const size_t above = found->above;
    if (found->row->kind == ET_FIELD_KIND_CHOICE && found->row->selects)
        return false;
    if (found->row->kind == ET_FIELD_KIND_STRING && !found->usual)
        return false;
    for (; all; all = all->next)
        if (!strncmp(all->path, item->path, above) && !strcmp(all->path + above, found->row->name))
            return true;
    return false;
}

void et_fields_given_settle(et_fields_given *given, const et_fields *table, const void *options)
{
    const et_given_item *all = given->first;
    given->first = NULL;
    for (const et_given_item *item = all; item; item = item->next) {
        const gate found = find_gate(table, options, item->path);
        if (found.row && !is_given_off(all, item, &found))
            (void)push(given->arena, &given->first, item->where, item->path);
    }
}

int et_fields_given_check(const et_fields_given *given, const et_fields *table, const void *options,
                          et_error *error)
{
    gate first = { .row = NULL };
    const et_given_item *of = NULL;
    for (const et_given_item *item = given->first; item; item = item->next) {
        const gate found = find_gate(table, options, item->path);
        of = found.row ? item : of;
        first = found.row ? found : first;
    }
    if (!of)
        return ET_OK;
    const bool any = *first.needs == '*';
    return et_fail(
        error, ET_ECONFIG,
        "%s: has no effect while %.*s%s is %s; set %.*s%s%s%.*s as well, or leave it out",
        of->where, (int)first.above, of->path, first.row->name, first.is, (int)first.above,
        of->path, first.row->name, any ? "" : "=", any ? 0 : (int)first.length, first.needs);
}

static bool holds(const et_given_item *list, const char *path)
{
    for (; list; list = list->next)
        if (!strcmp(list->path, path))
            return true;
    return false;
}

bool et_fields_is_given(const et_fields_given *given, const char *path)
{
    return holds(given->first, path);
}

bool et_fields_was_given(const et_fields_given *given, const char *path)
{
    return holds(given->ever, path);
}
