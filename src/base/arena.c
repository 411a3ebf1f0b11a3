/* An arena is a list of blocks, each filled from its start to its end. Only the newest block is
 * filled; free space in older blocks is not used. An object larger than a block gets its own block.
 * An allocation is a comparison and an addition; freeing everything is one free for each 64 KiB.
 *
 *   block -> data: | object | red zone | object | red zone | not given out ... |
 *            used:                                        ^           capacity ^
 *
 * The red zones exist under AddressSanitizer only.
 *
 * Invariants:
 *
 *   (1) used <= capacity in every block;
 *   (2) used is a multiple of 16, so that every object is aligned;
 *   (3) under AddressSanitizer memory that is not allocated is poisoned;
 *   (4) failed, once set, stays until release, so code that builds a tree of objects may check
 *       once. */
#include "base/arena.h"

#include <etude/value.h>

#include <stdalign.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/plain.h"

/* gcc defines a macro, clang has a feature. */
#if defined(__SANITIZE_ADDRESS__)
#define HAVE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAVE_ASAN 1
#endif
#endif

#ifdef HAVE_ASAN
#include <sanitizer/asan_interface.h>
#define RED_ZONE               16
#define poison(memory, size)   ASAN_POISON_MEMORY_REGION(memory, size)
#define unpoison(memory, size) ASAN_UNPOISON_MEMORY_REGION(memory, size)
#else
#define RED_ZONE               0
#define poison(memory, size)   ((void)0)
#define unpoison(memory, size) ((void)0)
#endif

/* Names, nodes and values are tens to hundreds of bytes: hundreds of them in a block. */
#define BLOCK_SIZE ((size_t)64 * 1024)

struct et_arena_block {
    et_arena_block *next; /* older */
    size_t capacity;      /* bytes of data */
    size_t used;          /* of them, from the start */
    alignas(16) unsigned char data[];
};

/* The rest of the current block is lost, even if the new block is for one large object: otherwise
 * each object would need a search for a block with room. */
static et_arena_block *add_block(et_arena *arena, size_t size)
{
    size_t capacity = size > BLOCK_SIZE ? size : BLOCK_SIZE;
    et_arena_block *block = et_alloc(1, sizeof *block + capacity);
    if (!block)
        return NULL;
    block->next = arena->block;
    block->capacity = capacity;
    block->used = 0;
    poison(block->data, capacity);
    arena->block = block;
    return block;
}

/* arena is NULL if et_arena_new found no memory; then nothing is allocated from it. */
static void *take(et_arena *arena, size_t size)
{
    if (!arena)
        return NULL;
    if (size > SIZE_MAX / 2) { /* so that no sum below overflows */
        arena->failed = true;
        return NULL;
    }
    /* A multiple of 16, the alignment of every object. An object of no bytes takes 16 too: every
     * object has its own address. */
    size_t whole = (((size ? size : 1) + 15) & ~(size_t)15) + RED_ZONE;
    et_arena_block *block = arena->block;
    if (!block || block->capacity - block->used < whole)
        block = add_block(arena, whole);
    if (!block) {
        arena->failed = true;
        return NULL;
    }
    void *memory = block->data + block->used;
    block->used += whole;
    et_assert(block->used <= block->capacity && block->used % 16 == 0);
    arena->used += size;
    /* The red zone after it stays poisoned, and so do the bytes of rounding. */
    unpoison(memory, size ? size : 1);
    return memory;
}

void *et_arena_alloc(et_arena *arena, size_t size)
{
    void *memory = take(arena, size);
    return memory ? memset(memory, 0, size) : NULL;
}

/* A product that overflows asks for more than there can be, and is refused as that is. */
static size_t bytes_of(size_t count, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX : bytes;
}

void *et_arena_array(et_arena *arena, size_t count, size_t size)
{
    return et_arena_alloc(arena, bytes_of(count, size));
}

void *et_arena_array_raw(et_arena *arena, size_t count, size_t size)
{
    return take(arena, bytes_of(count, size));
}

char *et_arena_strndup(et_arena *arena, const char *text, size_t length)
{
    char *copy = take(arena, length + 1);
    if (!copy)
        return NULL;
    copy[length] = 0;
    return length ? memcpy(copy, text, length) : copy;
}

char *et_arena_strdup(et_arena *arena, const char *text)
{
    return et_arena_strndup(arena, text, strlen(text));
}

/* Formats into a local buffer and copies, because most texts are short; a longer text is formatted
 * again in place. A format that cannot be printed (a broken multibyte text) also gives NULL, but
 * does not set `failed`. */
char *et_arena_printf(et_arena *arena, const char *format, ...)
{
    char aside[256];
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = et_plain_vprint(aside, sizeof aside, format, arguments);
    va_end(arguments);
    char *text = length < 0 ? NULL : et_arena_alloc(arena, (size_t)length + 1);
    if (text && (size_t)length < sizeof aside)
        memcpy(text, aside, (size_t)length + 1);
    else if (text)
        et_plain_vprint(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

/* Newest to oldest. The arena itself is the caller's and may be used again. */
void et_arena_release(et_arena *arena)
{
    while (arena->block) {
        et_arena_block *block = arena->block;
        arena->block = block->next;
        /* The memory may be given out again by an allocator that knows of no poison. */
        unpoison(block->data, block->capacity);
        et_free(block);
    }
    arena->used = 0;
    arena->failed = false;
}

et_arena *et_arena_new(void)
{
    return et_alloc_zero(1, sizeof(et_arena));
}

void et_arena_free(et_arena *arena)
{
    if (arena)
        et_arena_release(arena);
    et_free(arena);
}
