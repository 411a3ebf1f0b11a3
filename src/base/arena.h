/* An arena: memory that is allocated in order and freed at once. Etude has four lifetimes (run,
 * graph, plan, batch), each with an arena, so nothing in them is freed alone. Under
 * AddressSanitizer there is a poisoned red zone between objects. Use from one thread at a time. */
#ifndef ETUDE_BASE_ARENA_H
#define ETUDE_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

typedef struct et_arena_block et_arena_block;

typedef struct et_arena {
    et_arena_block *block; /* newest first */
    size_t used;           /* bytes given out, red zones aside */
    bool failed;           /* something asked for was not given: what lives here is not whole */
} et_arena;

#define ET_ARENA_INIT                                                                              \
    {                                                                                              \
        NULL, 0, false                                                                             \
    }

/* size zeroed bytes, aligned to 16; NULL if none left. Valid until release. */
void *et_arena_alloc(et_arena *arena, size_t size);

/* As et_arena_alloc for count elements of a size, checked for overflow. */
void *et_arena_array(et_arena *arena, size_t count, size_t size);

/* The same without zeros, for large arrays of which little is used: pages that are never written
 * take no memory. */
void *et_arena_array_raw(et_arena *arena, size_t count, size_t size);

/* A copy of a string, or of exactly length bytes (text may be NULL for none), and a 0; NULL if none
 * left. */
char *et_arena_strdup(et_arena *arena, const char *text);
char *et_arena_strndup(et_arena *arena, const char *text, size_t length);

/* printf into the arena; NULL if none left. */
char *et_arena_printf(et_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Frees everything; the arena is as after ET_ARENA_INIT. */
void et_arena_release(et_arena *arena);

#endif
