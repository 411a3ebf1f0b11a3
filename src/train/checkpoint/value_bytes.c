/* The bytes of a value: its kind, then
 *
 *   bool, int, float   8 bytes
 *   string             its size, its bytes
 *   list               how many, values
 *   dict               how many, for each its key as a string, its value
 *
 * Kinds and sizes have 8 bytes too. */
#include "train/checkpoint/value_bytes.h"

#include <string.h>

#include "base/alloc.h"
#include "base/values/value.h"

#define DEPTH_MOST 100

static void write_size(et_strbuf *to, size_t size)
{
    uint64_t word = size;
    et_strbuf_append_bytes(to, &word, sizeof word);
}

static void write_text(et_strbuf *to, const char *text)
{
    write_size(to, strlen(text));
    et_strbuf_append(to, text);
}

void et_value_write_bytes(et_strbuf *to, const et_value *value)
{
    int64_t boolean = value->kind == ET_VALUE_BOOL && value->boolean;
    write_size(to, (size_t)value->kind);
    switch (value->kind) {
    case ET_VALUE_NULL:
        break;
    case ET_VALUE_BOOL:
        et_strbuf_append_bytes(to, &boolean, sizeof boolean);
        break;
    case ET_VALUE_INT:
        et_strbuf_append_bytes(to, &value->integer, sizeof value->integer);
        break;
    case ET_VALUE_FLOAT:
        et_strbuf_append_bytes(to, &value->real, sizeof value->real);
        break;
    case ET_VALUE_STRING:
        write_text(to, value->string);
        break;
    case ET_VALUE_LIST:
    case ET_VALUE_DICT:
        write_size(to, value->count);
        for (const et_value *v = value->first; v; v = v->next) {
            if (value->kind == ET_VALUE_DICT)
                write_text(to, v->key);
            et_value_write_bytes(to, v);
        }
        break;
    }
}

typedef struct reader {
    const char *at;
    size_t left;
    et_arena *arena;
    bool wrong;
} reader;

static void take(reader *r, void *to, size_t size)
{
    r->wrong |= size > r->left;
    if (r->wrong)
        return;
    memcpy(to, r->at, size);
    r->at += size;
    r->left -= size;
}

static uint64_t take_size(reader *r)
{
    uint64_t size = 0;
    take(r, &size, sizeof size);
    return size;
}

/* NULL: no memory, or wrong. */
static char *take_text(reader *r)
{
    uint64_t size = take_size(r);
    r->wrong |= size > r->left;
    char *text = r->wrong ? NULL : et_arena_alloc(r->arena, (size_t)size + 1);
    if (text)
        take(r, text, (size_t)size);
    return text;
}

static et_value *read_value(reader *r, int depth);

static void read_children(reader *r, et_value *parent, int depth)
{
    uint64_t count = take_size(r);
    for (uint64_t i = 0; i < count && !r->wrong && !r->arena->failed; i++) {
        const char *key = parent->kind == ET_VALUE_DICT ? take_text(r) : NULL;
        et_value *child = read_value(r, depth + 1);
        if (child && !r->wrong && !r->arena->failed)
            et_value_append(parent, key, child);
    }
}

static et_value *read_value(reader *r, int depth)
{
    uint64_t kind = take_size(r);
    int64_t boolean = 0;
    r->wrong |= kind > ET_VALUE_DICT || depth > DEPTH_MOST;
    et_value *value = r->wrong ? NULL : et_value_new(r->arena, (et_value_kind)kind);
    if (!value)
        return NULL;
    switch (value->kind) {
    case ET_VALUE_NULL:
        break;
    case ET_VALUE_BOOL:
        take(r, &boolean, sizeof boolean);
        value->boolean = boolean != 0;
        break;
    case ET_VALUE_INT:
        take(r, &value->integer, sizeof value->integer);
        break;
    case ET_VALUE_FLOAT:
        take(r, &value->real, sizeof value->real);
        break;
    case ET_VALUE_STRING:
        value->string = take_text(r);
        break;
    case ET_VALUE_LIST:
    case ET_VALUE_DICT:
        read_children(r, value, depth);
        break;
    }
    return value;
}

int et_value_read_bytes(et_value **out, et_arena *arena, const void *bytes, size_t size,
                        et_error *error)
{
    reader r = { bytes, size, arena, false };
    *out = read_value(&r, 0);
    if (!r.wrong && !r.left && *out && !arena->failed)
        return ET_OK;
    *out = NULL;
    return r.wrong || r.left
               ? et_fail(error, ET_EFORMAT, "values of another process are incomplete")
               : et_alloc_failed(error, size, "values of another process");
}
