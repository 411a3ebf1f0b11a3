/* tf.Example through the code that protoc-c makes of example.proto, and plain structs around it.
 *
 * Parsing takes memory in one direction only and gives nothing back: protobuf-c gets an allocator
 * that hands out a block or an arena piece by piece. How much is asked for depends on the bytes
 * alone, so a block that was large enough once is so again. A message made to be hostile (lists of
 * millions of empty entries) makes some 50 bytes of each of its own; MEMORY_FACTOR is the end. */
#include "formats/records/example.h"

#include <stdlib.h>
#include <string.h>

#include "formats/records/example.pb-c.h"

#include "base/alloc.h"
#include "base/text/unicode.h"

#define MEMORY_FACTOR 64                /* bytes of memory for a byte of message, at most, */
#define MEMORY_FIRST  ((size_t)1 << 20) /* on top of these */

typedef Etude__Example__Example example_message;
typedef Etude__Example__Features features_message;
typedef Etude__Example__Entry entry_message;
typedef Etude__Example__Feature feature_message;

const char *et_feature_kind_name(et_feature_kind kind)
{
    static const char *const names[] = { "nothing", "bytes", "floats", "integers" };
    return names[kind];
}

/* ---- parsing ---- */

/* Of a room; in units of 16, so that every piece is aligned. */
static void *take(void *payload, size_t size)
{
    et_example_room *room = payload;
    size_t rounded = (size / 16 + 1) * 16;
    if (room->refused || rounded < size || rounded > room->capacity - room->used) {
        room->refused = true;
        return NULL;
    }
    void *memory = room->block ? room->block + room->used : et_arena_alloc(room->arena, rounded);
    if (memory)
        room->used += rounded;
    return memory;
}

static void leave(void *payload, void *memory)
{
    (void)payload, (void)memory;
}

static bool show_strings(et_feature *out, const Etude__Example__BytesList *list,
                         et_example_room *room)
{
    et_bytes *bytes = take(room, list->n_value * sizeof *bytes);
    for (size_t i = 0; bytes && i < list->n_value; i++)
        bytes[i] = (et_bytes){ list->value[i].data, list->value[i].len };
    out->bytes = bytes;
    out->count = list->n_value;
    return bytes;
}

/* false: no memory. A key is copied for its 0; one that holds a 0 is found by no name. */
static bool show_feature(et_feature *out, const entry_message *entry, et_example_room *room)
{
    char *key = take(room, entry->key.len + 1);
    if (!key)
        return false;
    if (entry->key.len)
        memcpy(key, entry->key.data, entry->key.len);
    key[entry->key.len] = 0;
    *out = (et_feature){ .key = key };
    const feature_message *value = entry->value;
    switch (value ? value->kind_case : ETUDE__EXAMPLE__FEATURE__KIND__NOT_SET) {
    case ETUDE__EXAMPLE__FEATURE__KIND_BYTES_LIST:
        out->kind = ET_FEATURE_BYTES;
        return show_strings(out, value->bytes_list, room);
    case ETUDE__EXAMPLE__FEATURE__KIND_FLOAT_LIST:
        out->kind = ET_FEATURE_FLOATS;
        out->floats = value->float_list->value;
        out->count = value->float_list->n_value;
        break;
    case ETUDE__EXAMPLE__FEATURE__KIND_INT64_LIST:
        out->kind = ET_FEATURE_INTS;
        out->ints = value->int64_list->value;
        out->count = value->int64_list->n_value;
        break;
    default:
        break;
    }
    return true;
}

static int read_failed(const et_example_room *room, size_t length, et_error *error)
{
    if (room->refused)
        return et_fail(error, ET_EFORMAT,
                       "a message of %zu bytes that would take more than %zu of memory: it was not "
                       "written as data",
                       length, room->capacity);
    if (room->arena && room->arena->failed)
        return et_alloc_failed(error, room->used, "a tf.Example");
    return et_fail(error, ET_EFORMAT,
                   "not a tf.Example: name a file of tf.Example records, or write it again");
}

int et_example_read(et_example *out, et_example_room *room, const void *bytes, size_t length,
                    et_error *error)
{
    ProtobufCAllocator allocator = { take, leave, room };
    if (room->arena)
        room->capacity = MEMORY_FIRST + length * MEMORY_FACTOR;
    room->used = 0;
    room->refused = false;
    *out = (et_example){ NULL, 0 };
    const example_message *message =
        etude__example__example__unpack(&allocator, length, length ? bytes : (const void *)"");
    if (!message)
        return read_failed(room, length, error);
    const features_message *all = message->features;
    size_t count = all ? all->n_feature : 0;
    et_feature *features = take(room, count * sizeof *features);
    bool whole = features;
    for (size_t i = 0; whole && i < count; i++)
        whole = show_feature(&features[i], all->feature[i], room);
    if (!whole)
        return read_failed(room, length, error);
    *out = (et_example){ features, count };
    return ET_OK;
}

const et_feature *et_example_last(const et_example *example, const char *key)
{
    for (size_t i = example->count; i > 0; i--)
        if (!strcmp(example->features[i - 1].key, key))
            return &example->features[i - 1];
    return NULL;
}

/* ---- parsed ones ---- */

typedef struct parsed {
    et_example shown; /* features in the arena */
    et_arena arena;
} parsed;

typedef struct ordered {
    et_feature feature;
    size_t at; /* in the message */
} ordered;

/* Equal keys in the order of the message. */
static int by_key(const void *left, const void *right)
{
    const ordered *a = left, *b = right;
    int order = strcmp(a->feature.key, b->feature.key);
    return order ? order : (a->at > b->at) - (a->at < b->at);
}

/* Of equal keys the last stays. */
static int sort_features(et_example *example, et_error *error)
{
    et_feature *features = (et_feature *)(uintptr_t)example->features;
    ordered *all = et_alloc(example->count, sizeof *all);
    size_t kept = 0;
    if (!all)
        return et_alloc_failed(error, example->count * sizeof *all, "a tf.Example");
    for (size_t i = 0; i < example->count; i++)
        all[i] = (ordered){ features[i], i };
    qsort(all, example->count, sizeof *all, by_key);
    for (size_t i = 0; i < example->count; i++)
        if (i + 1 == example->count || strcmp(all[i].feature.key, all[i + 1].feature.key))
            features[kept++] = all[i].feature;
    et_free(all);
    example->count = kept;
    return ET_OK;
}

int et_example_parse(et_example **out, const void *bytes, size_t length, et_error *error)
{
    parsed *self = et_alloc_zero(1, sizeof *self);
    if (!self)
        return et_alloc_failed(error, sizeof *self, "a tf.Example");
    et_example_room room = { .arena = &self->arena };
    int status = et_example_read(&self->shown, &room, bytes, length, error);
    if (!status)
        status = sort_features(&self->shown, error);
    if (status) {
        et_example_free(&self->shown);
        return status;
    }
    *out = &self->shown;
    return ET_OK;
}

void et_example_free(et_example *example)
{
    _Static_assert(offsetof(parsed, shown) == 0, "free goes from one to the other");
    if (!example)
        return;
    et_arena_release(&((parsed *)example)->arena);
    et_free(example);
}

const et_feature *et_example_find(const et_example *example, const char *key)
{
    return et_example_last(example, key);
}
