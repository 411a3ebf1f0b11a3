/* Values, for the library, beyond <etude/value.h>. */
#ifndef ETUDE_BASE_VALUES_VALUE_H
#define ETUDE_BASE_VALUES_VALUE_H

#include <etude/value.h>

/* Adds a new child at the end of a list (key NULL) or dict, for readers of texts; does not check
 * that key is new. key and child live in parent's arena. */
void et_value_append(et_value *parent, const char *key, et_value *child);

/* The same for a copy in parent's arena, which shares key and everything below child. NULL: no
 * memory. */
et_value *et_value_append_copy(et_value *parent, const char *key, const et_value *child);

/* For messages: "nothing", "a truth value", "an integer", "a number", "text", "a list",
 * "a group of settings". Static. */
const char *et_value_kind_name(et_value_kind kind);

/* A value of any kind in arena: false, 0, empty text, no children. NULL if none left. */
et_value *et_value_new(et_arena *arena, et_value_kind kind);

/* Puts a copy of all of `over` on top of `base`, dict by dict; other kinds replace. Both are
 * dicts and stay usable. Nested no deeper than a reader of texts lets through. */
int et_value_merge(et_value *base, const et_value *over, et_error *error);

/* Parses length bytes of a text into arena; name is for messages: et_json_parse, et_yaml_parse. */
typedef int et_value_parse_fn(et_value **out, et_arena *arena, const char *text, size_t length,
                              const char *name, et_error *error);

/* A file as one value, up to most bytes. */
int et_value_read_file(et_value **out, et_arena *arena, const char *path, size_t most,
                       et_value_parse_fn *parse, et_error *error);

/* Sets or replaces a child by a copy of value, whose arena may be another one. NULL: no memory. */
et_value *et_value_set_copy(et_value *dict, const char *key, const et_value *value);

/* A dict with a copy of value, as of et_value_append_copy, at a dotted path of length bytes. NULL:
 * no memory. */
et_value *et_value_nested(et_arena *arena, const char *path, size_t length, const et_value *value);

/* In addition to the functions of <etude/value.h> that set, append and make new ones. */
et_value *et_value_set_null(et_value *dict, const char *key);
et_value *et_value_add_list(et_value *list);
et_value *et_value_list(et_arena *arena);

static inline bool et_value_is_number(const et_value *value)
{
    return value->kind == ET_VALUE_INT || value->kind == ET_VALUE_FLOAT;
}

static inline bool et_value_is_container(const et_value *value)
{
    return value->kind == ET_VALUE_LIST || value->kind == ET_VALUE_DICT;
}

/* The number of an integer or float value. */
static inline double et_value_number(const et_value *value)
{
    return value->kind == ET_VALUE_INT ? (double)value->integer : value->real;
}

#endif
