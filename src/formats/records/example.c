/* tf.Example: the code that protoc-c makes from example.proto, and plain structs around it.
 *
 * Parsing only allocates and never frees: protobuf-c gets an allocator that hands out a block or an
 * arena piece by piece. The amount depends only on the bytes, so a block that was large enough once
 * is large enough again. A hostile message (lists of millions of empty entries) makes about 50
 * bytes from each of its bytes; MEMORY_FACTOR is the limit.
 *
 * A builder keeps features by key, so equal features give equal bytes. Keys and values are in an
 * arena until the next reset, also those of replaced features. The message is a tree of pointers
 * into that arena, made in another arena each time the bytes are requested. */
#include "formats/records/example.h"

#include <stdlib.h>
#include <string.h>

#include "formats/records/example.pb-c.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/sort.h"
#include "base/text/unicode.h"
#include "base/vector.h"

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

/* Takes memory of a block, in units of 16, so that every piece is aligned. */
static void *take(void *payload, size_t size)
{
    et_example_memory *room = payload;
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

/* false: no memory. A key is copied to end it with a 0; a key that contains a 0 matches no name. */
static bool show_feature(et_feature *out, const entry_message *entry, et_example_memory *room)
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
    case ETUDE__EXAMPLE__FEATURE__KIND_BYTES_LIST: {
        out->kind = ET_FEATURE_BYTES;
        const Etude__Example__BytesList *list = value->bytes_list;
        et_bytes *bytes = take(room, list->n_value * sizeof *bytes);
        for (size_t i = 0; bytes && i < list->n_value; i++)
            bytes[i] = (et_bytes){ list->value[i].data, list->value[i].len };
        out->bytes = bytes;
        out->count = list->n_value;
        return bytes;
    }
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

static int read_failed(const et_example_memory *room, size_t length, et_error *error)
{
    if (room->refused)
        return et_fail(
            error, ET_EFORMAT,
            "a message of %zu bytes would need more than %zu bytes of memory: the file is damaged",
            length, room->capacity);
    if (room->arena && room->arena->failed)
        return et_alloc_failed(error, "a tf.Example");
    return et_fail(error, ET_EFORMAT,
                   "not a tf.Example: name a file of tf.Example records, or write the file again");
}

int et_example_read(et_example *out, et_example_memory *room, const void *bytes, size_t length,
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
ET_SORT_BY(by_key, ordered, strcmp(a->feature.key, b->feature.key), ET_UP(at))

/* Among equal keys the last is kept. */
static int sort_features(et_example *example, et_error *error)
{
    et_feature *features = (et_feature *)(uintptr_t)example->features;
    ordered *all = et_alloc(example->count, sizeof *all);
    size_t kept = 0;
    if (!all)
        return et_alloc_failed(error, "a tf.Example");
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
    parsed *self;
    if (ET_ALLOC_ZERO(self, 1, "a tf.Example", error))
        return ET_ENOMEM;
    et_example_memory room = { .arena = &self->arena };
    int status;
    if ((status = et_example_read(&self->shown, &room, bytes, length, error)) ||
        (status = sort_features(&self->shown, error))) {
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

/* ---- builders ---- */

struct et_example_builder {
    et_example shown;     /* features: those below */
    et_feature *features; /* [shown.count], by key */
    size_t capacity;
    char *prefix;          /* owned; NULL: none */
    et_arena arena;        /* of keys and values */
    et_error failure;      /* the first failure of an added feature; status 0: none */
    unsigned char *packed; /* the bytes given last */
    size_t packed_capacity;
};

int et_example_builder_new(et_example_builder **out, const char *prefix, et_error *error)
{
    prefix = prefix && *prefix ? prefix : NULL;
    et_example_builder *builder = et_alloc_zero(1, sizeof *builder);
    if (builder && prefix)
        builder->prefix = et_strdup(prefix);
    if (!builder || (prefix && !builder->prefix)) {
        et_free(builder);
        return et_alloc_failed(error, "a tf.Example");
    }
    *out = builder;
    return ET_OK;
}

void et_example_builder_free(et_example_builder *builder)
{
    if (!builder)
        return;
    et_free(builder->features);
    et_free(builder->prefix);
    et_free(builder->packed);
    et_arena_release(&builder->arena);
    et_free(builder);
}

/* ---- features of a builder ---- */

static void *copy_array(et_arena *arena, const void *values, size_t count, size_t size)
{
    void *memory = et_arena_array(arena, count, size);
    if (memory && count)
        memcpy(memory, values, count * size);
    return memory;
}

/* The key is set already. false: no memory. */
static bool copy_values(et_arena *arena, et_feature *to, const et_feature *from)
{
    to->kind = from->kind;
    to->count = from->kind == ET_FEATURE_NONE ? 0 : from->count;
    switch (from->kind) {
    case ET_FEATURE_NONE:
        return true;
    case ET_FEATURE_BYTES: {
        et_bytes *bytes = copy_array(arena, from->bytes, from->count, sizeof *bytes);
        bool whole = bytes;
        for (size_t i = 0; whole && i < from->count; i++) {
            bytes[i].data = copy_array(arena, from->bytes[i].data, from->bytes[i].length, 1);
            whole = bytes[i].data;
        }
        to->bytes = bytes;
        return whole;
    }
    case ET_FEATURE_FLOATS:
        to->floats = copy_array(arena, from->floats, from->count, sizeof *from->floats);
        return to->floats;
    case ET_FEATURE_INTS:
        to->ints = copy_array(arena, from->ints, from->count, sizeof *from->ints);
        return to->ints;
    }
    return false;
}

/* The position of a key, or the position to insert it. */
static size_t position_of(const et_example_builder *builder, const char *key, bool *there)
{
    size_t low = 0, high = builder->shown.count;
    *there = false;
    while (low < high && !*there) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(key, builder->features[middle].key);
        *there = order == 0;
        if (order <= 0)
            high = middle;
        else
            low = middle + 1;
    }
    return *there ? high : low;
}

static bool put(et_example_builder *builder, const char *key, const et_feature *feature)
{
    bool there;
    et_feature made = { .key = et_arena_strdup(&builder->arena, key) };
    if (!made.key || !copy_values(&builder->arena, &made, feature))
        return false;
    size_t at = position_of(builder, key, &there);
    if (!there) {
        if (!ET_VECTOR_GROW(builder->features, builder->capacity, builder->shown.count + 1))
            return false;
        et_feature *here = builder->features + at;
        memmove(here + 1, here, (builder->shown.count - at) * sizeof *here);
        builder->shown.features = builder->features;
        builder->shown.count++;
    }
    builder->features[at] = made;
    return true;
}

/* A value that cannot be put becomes the builder's failure. key NULL: no memory for it. */
static void add(et_example_builder *builder, const char *key, const et_feature *feature)
{
    bool is_kind = (unsigned)feature->kind <= ET_FEATURE_INTS;
    if (key && !is_kind && !builder->failure.status)
        et_fail(&builder->failure, ET_EDATA, "feature %s: %d is not a kind of values", key,
                (int)feature->kind);
    else if ((!key || (is_kind && !put(builder, key, feature))) && !builder->failure.status)
        et_alloc_failed(&builder->failure, "a tf.Example");
}

et_example_builder *et_example_add_feature(et_example_builder *builder, const et_feature *feature)
{
    const char *key = feature->key;
    size_t bad;
    if (builder->failure.status)
        return builder;
    if (!key) {
        et_fail(&builder->failure, ET_EDATA, "a feature has no key");
        return builder;
    }
    if (builder->prefix)
        key = et_arena_printf(&builder->arena, "%s/%s", builder->prefix, key);
    if (key && !et_utf8_valid(key, strlen(key), &bad)) {
        et_fail(&builder->failure, ET_EDATA,
                "the key of a feature: byte %zu (0x%02X) is not UTF-8, which protobuf requires",
                bad + 1, (unsigned)(unsigned char)key[bad]);
        return builder;
    }
    add(builder, key, feature);
    return builder;
}

et_example_builder *et_example_add_features(et_example_builder *builder, const et_feature *features,
                                            size_t count)
{
    for (size_t i = 0; i < count; i++)
        et_example_add_feature(builder, &features[i]);
    return builder;
}

et_example_builder *et_example_add_bytes(et_example_builder *builder, const char *key,
                                         const et_bytes *values, size_t count)
{
    return et_example_add_feature(
        builder,
        &(et_feature){ .key = key, .kind = ET_FEATURE_BYTES, .count = count, .bytes = values });
}

et_example_builder *et_example_add_text(et_example_builder *builder, const char *key,
                                        const char *text)
{
    if (!text && !builder->failure.status)
        et_fail(&builder->failure, ET_EDATA, "feature %s: the text is NULL", key ? key : "NULL");
    return text ? et_example_add_bytes(builder, key, &(et_bytes){ text, strlen(text) }, 1)
                : builder;
}

et_example_builder *et_example_add_ints(et_example_builder *builder, const char *key,
                                        const int64_t *values, size_t count)
{
    return et_example_add_feature(
        builder,
        &(et_feature){ .key = key, .kind = ET_FEATURE_INTS, .count = count, .ints = values });
}

et_example_builder *et_example_add_floats(et_example_builder *builder, const char *key,
                                          const float *values, size_t count)
{
    return et_example_add_feature(
        builder,
        &(et_feature){ .key = key, .kind = ET_FEATURE_FLOATS, .count = count, .floats = values });
}

et_example_builder *et_example_reset(et_example_builder *builder)
{
    et_arena_release(&builder->arena);
    builder->shown.count = 0;
    builder->failure = (et_error)ET_ERROR_INIT;
    return builder;
}

et_example_builder *et_example_set(et_example_builder *builder, const et_example *example)
{
    et_assert(example != &builder->shown);
    et_example_reset(builder);
    for (size_t i = 0; i < example->count; i++)
        add(builder, example->features[i].key, &example->features[i]);
    return builder;
}

const et_example *et_example_built(const et_example_builder *builder)
{
    return &builder->shown;
}

/* ---- bytes of a builder ---- */

/* The parts of one entry of the message, so that each entry is one allocation. */
typedef struct packed_feature {
    entry_message entry;
    feature_message feature;
    union {
        Etude__Example__BytesList bytes;
        Etude__Example__FloatList floats;
        Etude__Example__Int64List ints;
    } list;
} packed_feature;

/* The library wants pointers without const and writes through none. */
static bool set_feature(packed_feature *to, const et_feature *from, et_arena *arena)
{
    to->entry = (entry_message)ETUDE__EXAMPLE__ENTRY__INIT;
    to->feature = (feature_message)ETUDE__EXAMPLE__FEATURE__INIT;
    to->entry.has_key = true;
    to->entry.key = (ProtobufCBinaryData){ strlen(from->key), (uint8_t *)(uintptr_t)from->key };
    to->entry.value = &to->feature;
    switch (from->kind) {
    case ET_FEATURE_NONE:
        return true;
    case ET_FEATURE_BYTES: {
        to->feature.kind_case = ETUDE__EXAMPLE__FEATURE__KIND_BYTES_LIST;
        to->feature.bytes_list = &to->list.bytes;
        Etude__Example__BytesList *list = &to->list.bytes;
        *list = (Etude__Example__BytesList)ETUDE__EXAMPLE__BYTES_LIST__INIT;
        list->n_value = from->count;
        list->value = et_arena_array(arena, from->count, sizeof *list->value);
        for (size_t i = 0; list->value && i < from->count; i++)
            list->value[i] = (ProtobufCBinaryData){ from->bytes[i].length,
                                                    (uint8_t *)(uintptr_t)from->bytes[i].data };
        return list->value;
    }
    case ET_FEATURE_FLOATS:
        to->feature.kind_case = ETUDE__EXAMPLE__FEATURE__KIND_FLOAT_LIST;
        to->feature.float_list = &to->list.floats;
        to->list.floats = (Etude__Example__FloatList)ETUDE__EXAMPLE__FLOAT_LIST__INIT;
        to->list.floats.n_value = from->count;
        to->list.floats.value = (float *)(uintptr_t)from->floats;
        return true;
    case ET_FEATURE_INTS:
        to->feature.kind_case = ETUDE__EXAMPLE__FEATURE__KIND_INT64_LIST;
        to->feature.int64_list = &to->list.ints;
        to->list.ints = (Etude__Example__Int64List)ETUDE__EXAMPLE__INT64_LIST__INIT;
        to->list.ints.n_value = from->count;
        to->list.ints.value = (int64_t *)(uintptr_t)from->ints;
        return true;
    }
    return false;
}

/* false: no memory. */
static bool make_message(Etude__Example__Features *out, const et_example *example, et_arena *arena)
{
    packed_feature *features = et_arena_array(arena, example->count, sizeof *features);
    out->n_feature = example->count;
    out->feature = et_arena_array(arena, example->count, sizeof(entry_message *));
    bool whole = features && out->feature;
    for (size_t i = 0; whole && i < example->count; i++) {
        out->feature[i] = &features[i].entry;
        whole = set_feature(&features[i], &example->features[i], arena);
    }
    return whole;
}

int et_example_serialized(et_example_builder *builder, const void **bytes, size_t *length,
                          et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    Etude__Example__Features features = ETUDE__EXAMPLE__FEATURES__INIT;
    Etude__Example__Example message = ETUDE__EXAMPLE__EXAMPLE__INIT;
    if (builder->failure.status)
        return et_fail(error, builder->failure.status, "%s", builder->failure.text);
    message.features = builder->shown.count ? &features : NULL;
    bool made = make_message(&features, &builder->shown, &arena);
    if (made) {
        *length = etude__example__example__get_packed_size(&message);
        made = ET_VECTOR_GROW(builder->packed, builder->packed_capacity, *length + 1);
    }
    if (made) {
        const size_t written = etude__example__example__pack(&message, builder->packed);
        et_assert_equal(written, *length);
        *bytes = builder->packed;
    }
    et_arena_release(&arena);
    return made ? ET_OK : et_alloc_failed(error, "a tf.Example");
}
