/* Places in an address space for tenants that come and go: each wants so many bytes from one step
 * to another, and no two that are there at the same time may overlap. Knows nothing of plans.
 *
 *     et_rooms_init(&rooms, most, &error);
 *     et_rooms_take(&rooms, 0, 4096, 7);                  what has its place already, from step 7
 * on size_t end = et_rooms_place(&rooms, tenants, count, true); et_rooms_release(&rooms);
 *
 * Tenants are placed largest first, each at the lowest offset where nobody of the same time lies
 * (greedy by size: Pisarchyk and Lee 2020, "Efficient memory management for deep neural net
 * inference"). For each tenant the search passes over all that have their places. */
#ifndef ETUDE_EXEC_ROOMS_H
#define ETUDE_EXEC_ROOMS_H

#include <stdbool.h>
#include <stddef.h>

#include <etude/error.h>

/* Offsets are multiples of it; bytes are rounded up. */
#define ET_ROOM_ALIGN ((size_t)64)

/* Instead of a first step: taken at all times. */
#define ET_ROOM_ALWAYS (-1)

/* Who wants room: bytes > 0, from step `from` to step `to`, both included. */
typedef struct et_tenant {
    size_t bytes;
    int from, to;
    size_t *offset; /* where the answer goes */
} et_tenant;

/* Who has it: [offset, end) from step to step. */
typedef struct et_room {
    size_t offset, end;
    int from, to;
} et_room;

/* The array is owned. */
typedef struct et_rooms {
    et_room *placed; /* [capacity], the first count sorted by offset */
    int count, capacity;
} et_rooms;

/* For at most so many rooms, taken and placed together. ET_ENOMEM, or 0. Release in any case. */
int et_rooms_init(et_rooms *rooms, size_t most, et_error *error);
void et_rooms_release(et_rooms *rooms);

/* Takes [offset, offset + bytes) from step `from` to the end of time. With 0 bytes it is a wall:
 * nobody of its time lies across. In the order of offsets, before et_rooms_place. */
void et_rooms_take(et_rooms *rooms, size_t offset, size_t bytes, int from);

/* Finds every tenant's offset; sorts tenants. Without reuse nobody lies where another one ever
 * does. Returns the end of the last room. */
size_t et_rooms_place(et_rooms *rooms, et_tenant *tenants, int count, bool reuse);

#endif
