/* Settings without a table, from texts in YAML's flow style, which are Python's dicts with null for
 * None; and comparing settings with such a text. */
#ifndef ETUDE_TEST_SETTINGS_OF_H
#define ETUDE_TEST_SETTINGS_OF_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <etude/settings.h>

#include "calls.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static et_arena *arena;

static inline int make_arena(void **state)
{
    (void)state;
    arena = et_arena_new();
    return !arena;
}

static inline int free_arena(void **state)
{
    (void)state;
    et_arena_free(arena);
    return 0;
}

/* part: of the message. */
#define assert_refused(call, part)                                                                 \
    do {                                                                                           \
        et_error assert_error = ET_ERROR_INIT, *error = &assert_error;                             \
        if ((call) == ET_OK || !strstr(assert_error.text, (part)))                                 \
            fail_msg("%s: %s", #call, assert_error.text);                                          \
    } while (0)

static inline et_settings settings_of(const char *text)
{
    et_settings settings = { .extra = et_value_dict(arena), .arena = arena };
    assert_ok(et_settings_override(&settings, text, error));
    return settings;
}

static inline int change(et_settings *settings, const char *text, bool strict, et_error *error)
{
    settings->strict = strict;
    return et_settings_override(settings, text, error);
}

static inline bool is_same(const et_value *a, const et_value *b)
{
    if (!a || !b || a->kind != b->kind)
        return false;
    switch (a->kind) {
    case ET_VALUE_NULL:
        return true;
    case ET_VALUE_BOOL:
        return a->boolean == b->boolean;
    case ET_VALUE_INT:
        return a->integer == b->integer;
    case ET_VALUE_FLOAT:
        return a->real == b->real;
    case ET_VALUE_STRING:
        return strcmp(a->string, b->string) == 0;
    case ET_VALUE_LIST:
    case ET_VALUE_DICT:
        break;
    }
    bool same = a->count == b->count;
    const et_value *other = b->first;
    for (const et_value *v = a->first; v && same; v = v->next, other = other->next)
        same = is_same(v, v->key ? et_value_get(b, v->key) : other);
    return same;
}

/* text: all settings that have an effect. */
static inline void assert_settings(const et_settings *settings, const char *text)
{
    const et_settings expected = settings_of(text);
    if (!is_same(et_settings_dict(settings, arena), expected.extra))
        fail_msg("the settings are not %s", text);
}

#endif
