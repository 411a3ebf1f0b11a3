/* Open addressing with linear probing over slots of 8 bytes: half of the hash, and the position. At
 * most half of the slots are used, so a search soon meets an empty one. */
#include "data/table/features/transforms.h"

#include <string.h>

#include "base/assert.h"
#include "base/files/checksum.h"

typedef struct slot {
    uint32_t hash;  /* the upper half; the lower one chooses the slot */
    uint32_t index; /* + 1; 0: empty */
} slot;

struct et_dictionary {
    slot *slots; /* [mask + 1] */
    uint64_t mask;
    const char **texts; /* [count] */
    size_t *lengths;    /* [count] */
    int count;
};

static slot *find(const et_dictionary *self, const char *text, size_t length, uint32_t *high)
{
    uint64_t hash = et_checksum(text, length), at = hash & self->mask;
    *high = (uint32_t)(hash >> 32);
    for (;; at = (at + 1) & self->mask) {
        slot *s = &self->slots[at];
        if (!s->index)
            return s;
        uint32_t index = s->index - 1;
        if (s->hash == *high && self->lengths[index] == length &&
            !memcmp(self->texts[index], text, length))
            return s;
    }
}

et_dictionary *et_dictionary_new(et_arena *arena, const char *const *texts, int count)
{
    et_assert(count >= 0);
    uint64_t size = 4;
    while (size < 2 * (uint64_t)count)
        size *= 2;
    et_dictionary *self = et_arena_alloc(arena, sizeof *self);
    if (!self)
        return NULL;
    self->mask = size - 1;
    self->slots = et_arena_array(arena, size, sizeof *self->slots);
    self->texts = et_arena_array(arena, (size_t)count, sizeof *self->texts);
    self->lengths = et_arena_array(arena, (size_t)count, sizeof *self->lengths);
    if (!self->slots || !self->texts || !self->lengths)
        return NULL;
    for (int i = 0; i < count; i++) {
        uint32_t high;
        self->texts[i] = et_arena_strdup(arena, texts[i]);
        self->lengths[i] = strlen(texts[i]);
        if (!self->texts[i])
            return NULL;
        slot *s = find(self, self->texts[i], self->lengths[i], &high);
        if (!s->index)
            *s = (slot){ high, (uint32_t)i + 1 };
    }
    self->count = count;
    return self;
}

int et_dictionary_count(const et_dictionary *self)
{
    return self->count;
}

const char *const *et_dictionary_texts(const et_dictionary *self)
{
    return self->texts;
}

int et_dictionary_find(const et_dictionary *self, const char *text, size_t length)
{
    uint32_t high;
    return (int)find(self, text, length, &high)->index - 1;
}
