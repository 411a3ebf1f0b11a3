/* Places in an address space for tenants: each needs a number of bytes from one call to another,
 * and two tenants of the same time must not overlap. Independent of plans.
 *
 *     et_arena_layout_init(&layout, calls, &error);
 *     et_arena_layout_reserve(&layout, 0, 4096, 7, &error);   a fixed place, from call 7
 *     et_arena_layout_assign(&layout, tenants, count, true, &error);
 *     size_t bytes = layout.end;
 *     et_arena_layout_release(&layout);
 *
 * Tenants are placed largest first, each at the lowest offset that is free during its time (greedy
 * by size: Pisarchyk and Lee 2020, "Efficient memory management for deep neural net inference").
 * Placing n tenants among t calls takes about n log t short comparisons if the tenants of one time
 * are adjacent, like a model's values. */
#ifndef ETUDE_ENGINE_EXEC_ARENA_LAYOUT_H
#define ETUDE_ENGINE_EXEC_ARENA_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

/* Offsets are multiples of it; bytes are rounded up. */
#define ET_ARENA_LAYOUT_ALIGN ((size_t)64)

/* Instead of a first call: taken at all times. */
#define ET_ARENA_LAYOUT_ALWAYS (-1)

/* A request for room: bytes > 0, from call `from` to call `to`, both included. */
typedef struct et_tenant {
    size_t bytes;
    int from, to;   /* from >= 0; to may be after the last call: then to the end */
    size_t *offset; /* destination of the result */
} et_tenant;

/* Used offsets [begin, end); next is an index of spans, 0: the last of its list. */
typedef struct et_arena_layout_span {
    size_t begin, end;
    int next;
} et_arena_layout_span;

/* The used layout in some calls: first spans of two lists; 0: empty. */
typedef struct et_arena_layout_calls {
    int whole; /* of layout used in all of the calls, and not in all of twice as many */
    int some;  /* of layout used in some of them only */
} et_arena_layout_calls;

/* Members may be read. */
typedef struct et_arena_layout {
    et_arena_layout_calls
        *tree;  /* owned; [2 leaves]: 1 is all calls, 2 i and 2 i + 1 the halves of i */
    int leaves; /* a power of two; leaf i is call i */
    et_arena_layout_span *spans; /* owned; [capacity], the first `used` have been in a list */
    int used;
    size_t capacity;
    int unused;     /* list of spans in no other list */
    size_t end;     /* of the highest room */
    int64_t looked; /* how many spans have been looked at: what placing costs */
} et_arena_layout;

/* For times from call 0 to call calls - 1. ET_ENOMEM, or 0. Release in any case. */
int et_arena_layout_init(et_arena_layout *layout, int calls, et_error *error);
void et_arena_layout_release(et_arena_layout *layout);

/* Takes [offset, offset + bytes) from call `from` to the end of time. 0 bytes make a wall at
 * offset, which no tenant of this time crosses. Call before et_arena_layout_assign. ET_ENOMEM, or
 * 0. */
int et_arena_layout_reserve(et_arena_layout *layout, size_t offset, size_t bytes, int from,
                            et_error *error);

/* Finds every tenant's offset; sorts tenants. Without reuse no two tenants ever share bytes.
 * ET_ENOMEM, or 0. */
int et_arena_layout_assign(et_arena_layout *layout, et_tenant *tenants, int count, bool reuse,
                           et_error *error);

#endif
