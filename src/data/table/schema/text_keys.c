/* The first fault in a text is kept; reading on does no harm. */
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/fields/fields.h"
#include "base/values/yaml.h"
#include "data/table/schema/notation.h"
#include "data/table/schema/schema.h"

#define KEYS_MAX 16 /* of a table */

void et_text_keys_wrong(et_text_reading *r, const et_value *at, const char *what)
{
    const char *key = at->key ? at->key : "", *colon = *key && *what != ' ' ? ": " : "";
    const char *kind = et_text_ends(what, "not ") ? et_value_kind_name(at->kind) : "";
    if (r->status)
        return;
    r->status = r->column ? et_fail(r->error, ET_EFORMAT, "%s: column %.60s: %s%s%s%s", r->name,
                                    r->column, key, colon, what, kind)
                          : et_fail(r->error, ET_ECONFIG, "%s:%d: %s%s%s%s", r->name, at->line, key,
                                    colon, what, kind);
}

void *et_text_keys_array(et_text_reading *r, size_t count, size_t size)
{
    void *array = et_arena_array(r->arena, count + 1, size);
    if (!array && !r->status)
        r->status = et_alloc_failed(r->error, r->name);
    return array;
}

const char *et_text_keys_scalar(et_text_reading *r, const et_value *value)
{
    if (value->kind == ET_VALUE_LIST || value->kind == ET_VALUE_DICT)
        et_text_keys_wrong(r, value, r->wrong[ET_KEY_TEXT]);
    return value->text ? value->text : value->kind == ET_VALUE_STRING ? value->string : "";
}

const et_value *et_text_keys_list(et_text_reading *r, const et_value *root, const char *key,
                                  const char *of)
{
    const et_value *list = et_value_get(root, key);
    if (!list || list->kind != ET_VALUE_LIST || !list->count)
        r->status = et_fail(r->error, ET_ECONFIG,
                            "%s:%d: expected a list `%s:` of at least one {name, type}", r->name,
                            list && list->line ? list->line : 1, key);
    for (const et_value *other = root->first; !r->status && other; other = other->next)
        if (other != list)
            r->status =
                et_fail(r->error, ET_ECONFIG, "%s:%d: unknown key \"%.60s\"; the only key %sis %s",
                        r->name, other->line, other->key, of, key);
    return r->status ? NULL : list;
}

/* Blanks around a part of one text are removed. */
static const char *const *read_texts(et_text_reading *r, const et_value *value, int *count)
{
    const bool is_list = value->kind == ET_VALUE_LIST;
    const char *text = is_list ? "" : et_text_keys_scalar(r, value);
    size_t most = value->count;
    for (const char *c = text; *c; c++)
        most += *c == ',';
    const char **items = r->status ? NULL : et_text_keys_array(r, most, sizeof *items);
    *count = 0;
    for (const et_value *item = is_list && items ? value->first : NULL; item; item = item->next)
        items[(*count)++] = et_text_keys_scalar(r, item);
    for (bool more = !is_list && items; more; text++) {
        text += strspn(text, " \t");
        size_t length = strcspn(text, ","), kept = length;
        while (kept && strchr(" \t", text[kept - 1]))
            kept--;
        items[(*count)++] = et_arena_strndup(r->arena, text, kept);
        text += length;
        more = *text;
    }
    if (r->arena->failed && !r->status)
        r->status = et_alloc_failed(r->error, r->name);
    return items;
}

static void read_number(et_text_reading *r, const et_text_key *row, const et_value *value,
                        const char *text, double *to)
{
    if (!r->status && !et_number_is(et_number_parse(to, text, strlen(text))))
        et_text_keys_wrong(r, value, r->wrong[row->kind]);
}

static void read_word(et_text_reading *r, const et_text_key *row, const et_value *value, int *to)
{
    const bool scalar = value->kind != ET_VALUE_LIST && value->kind != ET_VALUE_DICT;
    const char *word = scalar || row->all ? et_text_keys_scalar(r, value) : "";
    for (int i = 0; row->words[i]; i++)
        if (!strcmp(word, row->words[i])) {
            *to = i + (int)row->least;
            return;
        }
    if (!row->all)
        et_text_keys_wrong(r, value, r->wrong[ET_KEY_WORD]);
    else if (!r->status)
        r->status =
            et_fail(r->error, ET_ECONFIG, "%s:%d: unknown %s \"%.60s\"%s. %s", r->name, value->line,
                    row->name, word, et_nearest_hint(word, row->words, "").text, row->all);
}

void et_text_key_read(et_text_reading *r, const et_text_key *row, const et_value *value, void *to)
{
    void *member = (char *)to + row->offset;
    int *count = (int *)((char *)to + row->with);
    bool right = true;
    switch (row->kind) {
    case ET_KEY_TEXT:
        if (!row->nullable || value->kind != ET_VALUE_NULL)
            *(const char **)member = et_text_keys_scalar(r, value);
        break;
    case ET_KEY_TRUTH:
    case ET_KEY_FALSE:
        right = value->kind == ET_VALUE_BOOL;
        *(bool *)member = right && value->boolean == (row->kind == ET_KEY_TRUTH);
        break;
    case ET_KEY_COUNT:
        right = value->kind == ET_VALUE_INT && value->integer >= row->least;
        *(int64_t *)member = right ? value->integer : 0;
        break;
    case ET_KEY_NUMBER:
        read_number(r, row, value, et_text_keys_scalar(r, value), member);
        break;
    case ET_KEY_WORD:
        read_word(r, row, value, member);
        break;
    case ET_KEY_TEXTS:
        *(const char *const **)member = read_texts(r, value, count);
        break;
    case ET_KEY_NUMBERS: {
        const char *const *texts = read_texts(r, value, count);
        double *numbers = r->status ? NULL : et_text_keys_array(r, (size_t)*count, sizeof *numbers);
        for (int i = 0; numbers && i < *count; i++)
            read_number(r, row, value, texts[i], &numbers[i]);
        *(const double **)member = numbers;
        break;
    }
    default:
        r->own(r, value, to);
    }
    if (!right)
        et_text_keys_wrong(r, value, r->wrong[row->kind]);
}

void et_text_keys_read(et_text_reading *r, const et_text_key *rows, const char *what,
                       const et_value *group, void *to)
{
    for (const et_value *value = group->first; !r->status && value; value = value->next) {
        const char *names[KEYS_MAX + 1] = { NULL };
        const et_text_key *row = rows;
        for (; row->name && strcmp(row->name, value->key); row++)
            names[row - rows] = row->name;
        if (row->name)
            et_text_key_read(r, row, value, to);
        else
            r->status =
                et_fail(r->error, ET_ECONFIG, "%s:%d: %s has no key \"%.60s\"%s", r->name,
                        value->line, what, value->key, et_nearest_hint(value->key, names, "").text);
    }
}

void et_text_keys_write(et_value *dict, const et_text_key *rows, const void *from)
{
    for (const et_text_key *row = rows; row->name; row++) {
        const void *member = (const char *)from + row->offset;
        const void *with = (const char *)from + row->with;
        switch (row->kind) {
        case ET_KEY_TEXT:
            if (*(const char *const *)member)
                et_value_set_string(dict, row->name, *(const char *const *)member);
            break;
        case ET_KEY_TRUTH:
        case ET_KEY_FALSE:
            if (*(const bool *)member)
                et_value_set_bool(dict, row->name, row->kind == ET_KEY_TRUTH);
            break;
        case ET_KEY_COUNT:
            if (*(const int64_t *)member != row->usual || (row->with && *(const int64_t *)with))
                et_value_set_int(dict, row->name, *(const int64_t *)member);
            break;
        case ET_KEY_NUMBER:
            if (*(const double *)member != 0 || *(const double *)with != 0)
                et_value_set_float(dict, row->name, *(const double *)member);
            break;
        case ET_KEY_WORD:
            if (*(const int *)member >= row->least)
                et_value_set_string(dict, row->name, row->words[*(const int *)member - row->least]);
            break;
        case ET_KEY_TEXTS:
        case ET_KEY_NUMBERS: {
            const int count = *(const int *)with;
            et_value *list = count ? et_value_set_list(dict, row->name) : NULL;
            for (int i = 0; i < count; i++)
                if (row->kind == ET_KEY_TEXTS)
                    et_value_add_string(list, (*(const char *const *const *)member)[i]);
                else
                    et_value_add_float(list, (*(const double *const *)member)[i]);
            break;
        }
        default:
            break;
        }
    }
}

char *et_text_keys_print(const et_value *root)
{
    et_strbuf text = ET_STRBUF_INIT;
    if (et_value_failed(root))
        return NULL;
    et_yaml_print(&text, root);
    return et_strbuf_detach(&text);
}
