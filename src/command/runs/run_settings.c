#include "command/runs/run_settings.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/values/json.h"
#include "base/vector.h"

/* ---- from trees ---- */

/* The value as it was written; a list as its items. NULL: no memory. */
static const char *text_of(et_run_settings *s, const et_value *value)
{
    if (value->kind == ET_VALUE_STRING)
        return et_arena_strdup(&s->arena, value->string);
    if (value->text)
        return et_arena_strdup(&s->arena, value->text);
    et_strbuf out = ET_STRBUF_INIT;
    et_json_print(&out, value, 0);
    const char *text = out.failed ? NULL : et_arena_strdup(&s->arena, et_strbuf_text(&out));
    et_strbuf_release(&out);
    return text;
}

/* A row of values for each name, whose place the index has. */
static void sane(const et_run_settings *s)
{
    int64_t found = -1;
    et_assert(s->runs > 0 && s->count <= s->name_capacity);
    et_assert(s->count * s->runs <= s->value_capacity);
    for (size_t i = 0; i < s->count; i++)
        et_assert(et_map_get(&s->index, s->names[i], &found) && (size_t)found == i);
}

static bool add_name(et_run_settings *s, size_t *position, const char *name)
{
    int64_t found;
    *position = s->count;
    if (et_map_get(&s->index, name, &found)) {
        *position = (size_t)found;
        return true;
    }
    const char **names =
        et_vector_grow(s->names, &s->name_capacity, s->count + 1, sizeof *names, 128);
    s->names = names ? names : s->names;
    const char **values = et_vector_grow(s->values, &s->value_capacity, (s->count + 1) * s->runs,
                                         sizeof *values, 128 * s->runs);
    s->values = values ? values : s->values;
    if (!names || !values || !et_map_put(&s->index, name, (int64_t)s->count))
        return false;
    for (size_t i = 0; i < s->runs; i++)
        s->values[s->count * s->runs + i] = NULL;
    s->names[s->count++] = name;
    return true;
}

/* An empty group is no setting. The reader of YAML bounds how deep they nest. */
static bool add_values(et_run_settings *s, size_t run, const char *path, const et_value *dict)
{
    bool fine = true;
    for (const et_value *v = dict->first; v && fine; v = v->next) {
        size_t position;
        const char *name = et_arena_printf(&s->arena, "%s%s%s", path, *path ? "." : "", v->key);
        if (!name)
            return false;
        if (v->kind == ET_VALUE_DICT) {
            fine = add_values(s, run, name, v);
            continue;
        }
        const char *text = text_of(s, v);
        fine = text && add_name(s, &position, name);
        if (fine)
            s->values[position * s->runs + run] = text;
    }
    return fine;
}

/* A run whose settings are not known has no say. */
static bool differ(const et_run_settings *s, const et_histories *runs, size_t name)
{
    et_assert(name < s->count && s->runs == runs->count);
    const char *first = NULL;
    bool missing = false;
    for (size_t i = 0; i < s->runs; i++) {
        const char *value = et_run_settings_value(s, name, i);
        missing |= !value && runs->items[i]->settings;
        if (value && first && strcmp(first, value) != 0)
            return true;
        first = value ? value : first;
    }
    return first && missing;
}

int et_run_settings_open(et_run_settings *s, const et_histories *runs, et_error *error)
{
    *s = (et_run_settings){ .runs = runs->count, .index = ET_MAP_INIT };
    bool fine = true;
    for (size_t i = 0; i < runs->count && fine; i++)
        fine = !runs->items[i]->settings || add_values(s, i, "", runs->items[i]->settings);
    sane(s);
    s->differs = et_alloc_zero(s->count + 1, sizeof *s->differs);
    if (!fine || !s->differs) {
        et_run_settings_close(s);
        return et_alloc_failed(error, 0, "settings");
    }
    for (size_t i = 0; i < s->count; i++)
        s->differs[i] = differ(s, runs, i);
    return ET_OK;
}

void et_run_settings_close(et_run_settings *s)
{
    et_free(s->names);
    et_free(s->values);
    et_free(s->differs);
    et_arena_release(&s->arena);
    et_map_release(&s->index);
    *s = (et_run_settings){ .index = ET_MAP_INIT };
}

/* ---- side by side ---- */

const char *et_run_settings_value(const et_run_settings *s, size_t name, size_t run)
{
    et_assert(name < s->count && run < s->runs);
    return s->values[name * s->runs + run];
}

/* Whether name ends so, after a dot or as a whole. */
static bool ends_so(const char *name, const char *end)
{
    size_t length = strlen(name), wanted = strlen(end);
    if (length < wanted || strcmp(name + length - wanted, end) != 0)
        return false;
    return length == wanted || name[length - wanted - 1] == '.';
}

const char *et_run_settings_head(const et_run_settings *s, size_t name)
{
    et_assert(name < s->count);
    const char *whole = s->names[name], *head = whole + strlen(whole);
    while (head > whole) {
        head--;
        while (head > whole && head[-1] != '.')
            head--;
        bool another = false;
        for (size_t i = 0; i < s->count && !another; i++)
            another = i != name && s->differs[i] && ends_so(s->names[i], head);
        if (!another)
            break;
    }
    return head;
}
