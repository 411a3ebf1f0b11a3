/* Names of settings in messages: where a name is, and which names there are. */
#include <string.h>

#include "base/arena.h"
#include "base/fields/fields_extra.h"
#include "base/text/strbuf.h"
#include "base/values/value.h"

#define NAMES_MAX   256  /* members of one struct that the nearest is sought among */
#define NAMES_ALL   1024 /* and rows of a whole table */
#define NAMES_WIDTH 64   /* characters of the list of members in a message */
#define DEPTH_MAX   8    /* depth of groups in which names are searched */

const char *et_fields_join(et_arena *arena, const char *path, const char *key)
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

const et_fields et_fields_none = { "settings", &(const et_field)ET_FIELD_END };

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
        for (int depth = 0; depth < DEPTH_MAX && found <= FOUND_MAX; depth++)
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
    gather_names(all, &count, root, DEPTH_MAX - 1);
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
int et_fields_unknown(const et_fields_reading *reading, const et_fields *table,
                      const et_value *extra, const char *path, const char *key, int line)
{
    const char *names[NAMES_MAX + 1];
    size_t count = own_names(names, table);
    for (const et_value *v = extra ? extra->first : NULL; v && count < NAMES_MAX; v = v->next)
        names[count++] = v->key;
    names[count] = NULL;
    const char *whole = et_fields_join(reading->from.arena, path, key);
    const char *where = whole ? et_fields_locate(&reading->from, whole, line) : NULL;
    et_strbuf list = ET_STRBUF_INIT, hint = ET_STRBUF_INIT;
    append_names(&list, names);
    append_hint(&hint, reading->root, names, key);
    int status = !where || list.failed || hint.failed
                     ? et_fields_no_memory(reading)
                     : et_fail(reading->error, ET_ECONFIG, "%s: no such setting%s (%s has: %s)",
                               where, et_strbuf_text(&hint), *path ? path : table->name,
                               count ? et_strbuf_text(&list) : "none");
    et_strbuf_release(&list);
    et_strbuf_release(&hint);
    return status;
}

/* Refuses a number or list in place of a group of settings, such as "trainer: 5". */
int et_fields_not_a_group(const et_fields_reading *reading, const et_fields *table,
                          const char *path, const et_value *value)
{
    const char *where = et_fields_locate(&reading->from, *path ? path : table->name, value->line);
    const char *names[NAMES_MAX + 1];
    et_strbuf list = ET_STRBUF_INIT;
    own_names(names, table);
    append_names(&list, names);
    int status =
        !where || list.failed
            ? et_fields_no_memory(reading)
            : et_fail(reading->error, ET_ECONFIG,
                      "%s: a group of settings, not %s; name one setting of the group (%s)", where,
                      et_value_kind_name(value->kind), et_strbuf_text(&list));
    et_strbuf_release(&list);
    return status;
}

int et_fields_set_twice(const et_fields_reading *reading, const char *path, const et_value *value)
{
    const char *whole = et_fields_join(reading->from.arena, path, value->key);
    const char *where = whole ? et_fields_locate(&reading->from, whole, value->line) : NULL;
    return where ? et_fail(reading->error, ET_ECONFIG,
                           "%s: set twice, as a group and by a dotted name; remove one", where)
                 : et_fields_no_memory(reading);
}
