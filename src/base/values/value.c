/* A tree in an arena. Children are a singly linked list with a pointer to its end, so appending is
 * O(1) and order is kept. Looking up a key walks the list: options have tens of keys, and code with
 * thousands walks the list itself.
 *
 *   {a: 1, b: [2, 3]}      dict -first-> a=1 -next-> b=list -first-> 2 -next-> 3
 *                               -last-------------> b          -last-------> 3
 *
 * Invariants:
 *
 *   (1) children of a dict have a key, those of a list have none;
 *   (2) a child's arena is its parent's, and a node has one parent: nothing is ever shared or
 *       moved between trees, merging copies;
 *   (3) count is the length of the list;
 *   (4) a node that is replaced keeps its place and address; its old content is lost in the
 *       arena.
 *
 * Functions accept NULL for a node that could not be made, and then return NULL, so a writer of
 * many values checks once: et_value_failed asks the arena, which remembers every failure. */
#include "base/values/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etude/state.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"

/* Zeroed memory is false, 0 and no children; a string must still be a string. */
et_value *et_value_new(et_arena *arena, et_value_kind kind)
{
    et_value *value = et_arena_alloc(arena, sizeof *value);
    if (!value)
        return NULL;
    value->kind = kind;
    value->arena = arena;
    /* Never NULL, so that a string can be printed before it is set. */
    if (kind == ET_VALUE_STRING)
        value->string = "";
    return value;
}

et_value *et_value_dict(et_arena *arena)
{
    return et_value_new(arena, ET_VALUE_DICT);
}

et_value *et_value_list(et_arena *arena)
{
    return et_value_new(arena, ET_VALUE_LIST);
}

/* A child that hangs somewhere already has a sibling or is the last of its parent: the first
 * is asserted, the second cannot be seen. */
void et_value_append(et_value *parent, const char *key, et_value *child)
{
    et_assert(parent->kind == (key ? ET_VALUE_DICT : ET_VALUE_LIST));
    et_assert(!child->next && child->arena == parent->arena);
    child->key = key;
    if (parent->last)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
    parent->count++;
}

et_value *et_value_append_copy(et_value *parent, const char *key, const et_value *child)
{
    et_value *copy = parent ? et_arena_alloc(parent->arena, sizeof *copy) : NULL;
    if (!copy)
        return NULL;
    *copy = *child;
    copy->next = NULL;
    copy->arena = parent->arena;
    et_value_append(parent, key, copy);
    return copy;
}

/* Anything that the arena did not give may have been a part of this tree. */
bool et_value_failed(const et_value *root)
{
    return !root || root->arena->failed;
}

const char *et_value_kind_name(et_value_kind kind)
{
    /* ORDER et_value_kind, by designator. Words for users who write settings. */
    static const char *const names[] = {
        [ET_VALUE_NULL] = "nothing",
        [ET_VALUE_BOOL] = "a truth value",
        [ET_VALUE_INT] = "an integer",
        [ET_VALUE_FLOAT] = "a number",
        [ET_VALUE_STRING] = "text",
        [ET_VALUE_LIST] = "a list",
        [ET_VALUE_DICT] = "a group of settings",
    };
    return (size_t)kind < sizeof names / sizeof names[0] ? names[kind] : "no kind of value";
}

/* The child whose key is the first length bytes of key. */
static et_value *child_of(const et_value *dict, const char *key, size_t length)
{
    const char first = length ? key[0] : 0; /* distinguishes most names without a call */
    if (!dict || dict->kind != ET_VALUE_DICT)
        return NULL;
    for (et_value *child = dict->first; child; child = child->next)
        /* The first child with that key; a dict made here has at most one. */
        if (child->key[0] == first && strncmp(child->key, key, length) == 0 &&
            child->key[length] == 0)
            return child;
    return NULL;
}

et_value *et_value_get(const et_value *dict, const char *key)
{
    return key ? child_of(dict, key, strlen(key)) : NULL;
}

/* rest: after "[". *rest: after "]". NULL: no list, no such item, or no number in brackets. */
static const et_value *item_of(const et_value *list, const char **rest)
{
    const size_t digits = strspn(*rest, "0123456789");
    const bool sound = list->kind == ET_VALUE_LIST && digits && (*rest)[digits] == ']';
    const et_value *item = sound ? list->first : NULL;
    for (long left = strtol(*rest, NULL, 10); item && left > 0; left--)
        item = item->next;
    *rest += digits + 1;
    return item;
}

/* The last existing value on a path. *rest: the tail of path that does not exist; "": everything
 * exists. A key with a point cannot be named so; a key "list[0]" comes before an item of `list`. */
static const et_value *walk(const et_value *value, const char *path, const char **rest)
{
    for (*rest = path; *path;) {
        const bool item = *path == '[';
        const char *end = path + (item ? 1 : strcspn(path, "."));
        const et_value *child =
            item ? item_of(value, &end) : child_of(value, path, (size_t)(end - path));
        if (!child && !item) {
            end = path + strcspn(path, ".[");
            child = child_of(value, path, (size_t)(end - path));
        }
        if (!child || (*end && *end != '[' && (*end != '.' || !end[1])))
            return value;
        value = child;
        *rest = end;
        path = end + (*end == '.');
    }
    return value;
}

et_value *et_value_path(const et_value *dict, const char *path)
{
    const char *rest = "";
    const et_value *value = dict && path ? walk(dict, path, &rest) : NULL;
    return *rest ? NULL : (et_value *)(uintptr_t)value;
}

/* *rest: the part of path that is not in above, which is not a leaf itself. */
static void no_leaf(const et_value *above, const char *path, const char *rest, et_error *error)
{
    et_strbuf keys = ET_STRBUF_INIT;
    const int part = (int)(rest - path);
    const char *within = part ? path : "the dict";
    for (const et_value *v = above->kind == ET_VALUE_DICT ? above->first : NULL; v; v = v->next)
        et_strbuf_printf(&keys, "%s%s", keys.length ? ", " : "", v->key);
    const char *there = keys.length ? et_strbuf_text(&keys) : "nothing";
    if (keys.failed)
        et_alloc_failed(error, "a message");
    else if (!*rest)
        et_fail(error, ET_EFORMAT, "%s is a group, not a value; name one of: %.200s",
                *path ? path : within, there);
    else if (above->kind == ET_VALUE_DICT)
        et_fail(error, ET_EFORMAT, "no value has the path %s; %.*s has: %.200s", path,
                part ? part : (int)strlen(within), within, there);
    else
        et_fail(error, ET_EFORMAT, "no value has the path %s; %.*s is %s", path, part, path,
                et_value_kind_name(above->kind));
    et_strbuf_release(&keys);
}

const et_value *et_value_leaf(const et_value *dict, const char *path, et_error *error)
{
    const char *rest = path;
    const et_value *found = dict && path ? walk(dict, path, &rest) : NULL;
    if (!found)
        et_fail(error, ET_EFORMAT, "no value has a path: the %s is NULL", path ? "dict" : "path");
    else if (*rest || found->kind == ET_VALUE_DICT)
        no_leaf(found, path, rest, error);
    else
        return found;
    return NULL;
}

int et_value_each_leaf(et_value *dict, et_value_leaf_fn *leaf, void *payload, et_error *error)
{
    int status = ET_OK;
    for (et_value *v = dict && dict->kind == ET_VALUE_DICT ? dict->first : NULL; v && !status;
         v = v->next)
        status = v->kind == ET_VALUE_DICT ? et_value_each_leaf(v, leaf, payload, error)
                                          : leaf(payload, v, error);
    return status;
}

et_value *et_value_nested(et_arena *arena, const char *path, size_t length, const et_value *value)
{
    et_value *whole = et_value_dict(arena), *dict = whole;
    while (whole) {
        size_t part = strcspn(path, ".");
        part = part < length ? part : length;
        const char *key = et_arena_strndup(arena, path, part);
        if (!key)
            return NULL;
        if (part == length) {
            et_value_append_copy(dict, key, value);
            return et_value_failed(whole) ? NULL : whole;
        }
        dict = et_value_set_dict(dict, key);
        path += part + 1;
        length -= part + 1;
    }
    return NULL;
}

/* The child of that name, made if missing, emptied to a kind. A new child is complete (node and
 * key) before it is added, so a failure does not change the dict. An existing child keeps its key
 * and its position. */
static et_value *set(et_value *dict, const char *key, et_value_kind kind)
{
    if (!dict || !key)
        return NULL;
    et_assert(dict->kind == ET_VALUE_DICT);
    et_value *child = et_value_get(dict, key);
    if (child) {
        /* Keep only the key and the next child. Its line is cleared, because it is no longer that
         * of a text. */
        et_value *next = child->next;
        const char *name = child->key;
        *child = (et_value){ .kind = kind, .arena = dict->arena, .key = name, .next = next };
        return child;
    }
    child = et_value_new(dict->arena, kind);
    /* Keys are copied: the caller's may be a temporary. */
    char *name = child ? et_arena_strdup(dict->arena, key) : NULL;
    if (!name)
        return NULL;
    et_value_append(dict, name, child);
    return child;
}

/* A new last child of a list. */
static et_value *add(et_value *list, et_value_kind kind)
{
    if (!list)
        return NULL;
    et_assert(list->kind == ET_VALUE_LIST);
    et_value *child = et_value_new(list->arena, kind);
    if (child)
        et_value_append(list, NULL, child);
    return child;
}

/* Scalars of a dict: an existing child of another kind is overwritten. */
et_value *et_value_set_null(et_value *dict, const char *key)
{
    return set(dict, key, ET_VALUE_NULL);
}

et_value *et_value_set_bool(et_value *dict, const char *key, bool boolean)
{
    et_value *child = set(dict, key, ET_VALUE_BOOL);
    if (child)
        child->boolean = boolean;
    return child;
}

et_value *et_value_set_int(et_value *dict, const char *key, int64_t integer)
{
    et_value *child = set(dict, key, ET_VALUE_INT);
    if (child)
        child->integer = integer;
    return child;
}

et_value *et_value_set_float(et_value *dict, const char *key, double real)
{
    et_value *child = set(dict, key, ET_VALUE_FLOAT);
    if (child)
        child->real = real;
    return child;
}

/* Copies first: a failure does not change the tree, and string may be a part of it. */
et_value *et_value_set_string(et_value *dict, const char *key, const char *string)
{
    /* No string is null, which needs no copy; no dict is NULL in, NULL out. */
    if (!string || !dict)
        return set(dict, key, ET_VALUE_NULL);
    const char *copy = et_arena_strdup(dict->arena, string);
    et_value *child = copy ? set(dict, key, ET_VALUE_STRING) : NULL;
    if (child)
        child->string = copy;
    return child;
}

/* An empty container of that name; an existing one loses its children. */
et_value *et_value_set_dict(et_value *dict, const char *key)
{
    return set(dict, key, ET_VALUE_DICT);
}

et_value *et_value_set_list(et_value *dict, const char *key)
{
    return set(dict, key, ET_VALUE_LIST);
}

/* The same at the end of a list. */
et_value *et_value_add_int(et_value *list, int64_t integer)
{
    et_value *child = add(list, ET_VALUE_INT);
    if (child)
        child->integer = integer;
    return child;
}

et_value *et_value_add_float(et_value *list, double real)
{
    et_value *child = add(list, ET_VALUE_FLOAT);
    if (child)
        child->real = real;
    return child;
}

/* NULL is null here as well; a failed copy adds nothing. */
et_value *et_value_add_string(et_value *list, const char *string)
{
    if (!string || !list)
        return add(list, ET_VALUE_NULL);
    const char *copy = et_arena_strdup(list->arena, string);
    et_value *child = copy ? add(list, ET_VALUE_STRING) : NULL;
    if (child)
        child->string = copy;
    return child;
}

et_value *et_value_add_dict(et_value *list)
{
    return add(list, ET_VALUE_DICT);
}

et_value *et_value_add_list(et_value *list)
{
    return add(list, ET_VALUE_LIST);
}

/* value NULL: the key is not there. No file is named: the caller knows which it is. */
static int wrong_kind(const et_value *value, const char *key, et_value_kind expected,
                      et_error *error)
{
    if (!value)
        return et_fail(error, ET_EFORMAT, "%s is missing; give %s", key ? key : "NULL",
                       et_value_kind_name(expected));
    const char *kind = et_value_kind_name(value->kind), *other = et_value_kind_name(expected);
    if (value->kind == ET_VALUE_INT)
        return et_fail(error, ET_EFORMAT, "%s is %lld, not %s", key, (long long)value->integer,
                       other);
    if (value->kind == ET_VALUE_FLOAT)
        return et_fail(error, ET_EFORMAT, "%s is %g, %s, not %s", key, value->real, kind, other);
    if (value->kind == ET_VALUE_STRING)
        return et_fail(error, ET_EFORMAT, "%s is \"%.60s\", %s, not %s", key, value->string, kind,
                       other);
    return et_fail(error, ET_EFORMAT, "%s is %s, not %s", key, kind, other);
}

/* Reads for files that programs wrote (states, manifests): the kind must be right, and 4.0 is
 * no integer here. Settings that people write go through base/fields/fields.h, which is lenient. */
int et_value_read_int(const et_value *dict, const char *key, int64_t *out, et_error *error)
{
    const et_value *value = et_value_get(dict, key);
    if (!value || value->kind != ET_VALUE_INT)
        return wrong_kind(value, key, ET_VALUE_INT, error);
    *out = value->integer;
    return ET_OK;
}

/* 4 is a number: JSON writers may leave the point away. */
int et_value_read_float(const et_value *dict, const char *key, double *out, et_error *error)
{
    const et_value *value = et_value_get(dict, key);
    /* Above 2^53 to the nearest double. */
    if (value && value->kind == ET_VALUE_INT)
        *out = (double)value->integer;
    else if (value && value->kind == ET_VALUE_FLOAT)
        *out = value->real;
    else
        return wrong_kind(value, key, ET_VALUE_FLOAT, error);
    return ET_OK;
}

/* yes and 1 are no truth values here. */
int et_value_read_bool(const et_value *dict, const char *key, bool *out, et_error *error)
{
    const et_value *value = et_value_get(dict, key);
    if (!value || value->kind != ET_VALUE_BOOL)
        return wrong_kind(value, key, ET_VALUE_BOOL, error);
    *out = value->boolean;
    return ET_OK;
}

/* Borrowed from the tree's arena. */
int et_value_read_string(const et_value *dict, const char *key, const char **out, et_error *error)
{
    const et_value *value = et_value_get(dict, key);
    if (!value || value->kind != ET_VALUE_STRING)
        return wrong_kind(value, key, ET_VALUE_STRING, error);
    *out = value->string;
    return ET_OK;
}

/* Copies the contents of from to `to`, with children, line and text, so that a message about a
 * merged setting still names where it was written. The arenas may differ, so texts are copied.
 * Recursion is as deep as from. False: no memory. */
static bool copy_into(et_value *to, const et_value *from)
{
    to->kind = from->kind;
    to->line = from->line;
    to->text = from->text ? et_arena_strdup(to->arena, from->text) : NULL;
    /* The text failed: the value would be without the words it was written in. */
    if (from->text && !to->text)
        return false;
    switch (from->kind) {
    case ET_VALUE_STRING:
        to->string = et_arena_strdup(to->arena, from->string);
        return to->string != NULL;
    case ET_VALUE_LIST:
    case ET_VALUE_DICT:
        for (const et_value *child = from->first; child; child = child->next) {
            /* Into a node that is in place already, so that a failure leaves a tree that can
             * be walked. */
            et_value *copy =
                child->key ? set(to, child->key, ET_VALUE_NULL) : add(to, ET_VALUE_NULL);
            if (!copy || !copy_into(copy, child))
                return false;
        }
        return true;
    case ET_VALUE_INT:
        to->integer = from->integer;
        return true;
    case ET_VALUE_FLOAT:
        to->real = from->real;
        return true;
    case ET_VALUE_BOOL:
        to->boolean = from->boolean;
        return true;
    case ET_VALUE_NULL:
        return true;
    }
    return true;
}

/* Emptied first, or the new children would join the old ones. */
et_value *et_value_set_copy(et_value *dict, const char *key, const et_value *value)
{
    et_value *target = set(dict, key, ET_VALUE_NULL);
    return target && copy_into(target, value) ? target : NULL;
}

/* Example: {a: {b: 1, c: 2}} with {a: {c: 3}, d: [4]} over it gives {a: {b: 1, c: 3}, d: [4]}. A
 * list replaces a list, because how two lists combine depends on their meaning. After a failure,
 * base has a part of over. */
int et_value_merge(et_value *base, const et_value *over, et_error *error)
{
    et_assert(base->kind == ET_VALUE_DICT && over->kind == ET_VALUE_DICT);
    for (const et_value *child = over->first; child; child = child->next) {
        /* Two dicts are merged, everything else is replaced, also by or with a dict. */
        et_value *old = et_value_get(base, child->key);
        if (old && old->kind == ET_VALUE_DICT && child->kind == ET_VALUE_DICT) {
            int status = et_value_merge(old, child, error);
            if (status)
                return status;
            continue;
        }
        if (!et_value_set_copy(base, child->key, child))
            return et_alloc_failed(error, "settings");
    }
    return ET_OK;
}

/* NaN and infinity by their bits, "bits:" and 16 hexadecimal digits: even the payload of a NaN
 * comes back. */
#define BITS_PREFIX "bits:"
#define BITS_DIGITS 16

/* 1.5 -> 1.5, NaN -> "bits:7ff8000000000000". Finite numbers are printed so that they read back
 * as the same double. */
et_value *et_part_set_real(et_value *dict, const char *key, double real)
{
    if (isfinite(real))
        return et_value_set_float(dict, key, real);
    unsigned long long bits;
    memcpy(&bits, &real, sizeof bits);
    char text[32];
    snprintf(text, sizeof text, BITS_PREFIX "%0*llx", BITS_DIGITS, bits);
    return et_value_set_string(dict, key, text);
}

int et_part_read_real(const et_value *dict, const char *key, double *out, et_error *error)
{
    const et_value *value = et_value_get(dict, key);
    if (!value || value->kind != ET_VALUE_STRING)
        return et_value_read_float(dict, key, out, error);
    const size_t prefix = strlen(BITS_PREFIX);
    const char *digits = strncmp(value->string, BITS_PREFIX, prefix) ? "" : value->string + prefix;
    if (strspn(digits, "0123456789abcdef") != BITS_DIGITS || digits[BITS_DIGITS])
        return et_fail(error, ET_EFORMAT, "%s: '%s' is not a number", key, value->string);
    const unsigned long long bits = strtoull(digits, NULL, 16);
    memcpy(out, &bits, sizeof *out);
    return ET_OK;
}

/* ---- files ---- */

int et_value_read_file(et_value **out, et_arena *arena, const char *path, size_t most,
                       et_value_parse_fn *parse, et_error *error)
{
    char *text;
    size_t length;
    int status = et_file_read(&text, &length, path, most, error);
    if (status)
        return status;
    status = parse(out, arena, text, length, path, error);
    et_free(text);
    return status;
}
