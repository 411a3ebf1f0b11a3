/* A life and a range of addresses make a rectangle: steps by offsets. Rooms are rectangles that
 * do not overlap, and the end of the highest is what the arena needs. To find the smallest end
 * is NP-hard (dynamic storage allocation: Garey and Johnson 1979, problem SR2); the greedy way,
 * largest first, comes close in practice since small ones fit into the gaps between large ones.
 *
 *     offset
 *     ^   [ B     ]
 *     |   [ A ] [ C ]        A is dead when C comes: C lies where A did
 *     +------------------> step
 *
 * What always holds:
 *   1. placed[] is sorted by offset, so one pass meets the gaps from the lowest to the highest.
 *   2. Rooms of overlapping times do not share a byte; offsets are multiples of ET_ROOM_ALIGN.
 *   3. The same tenants in the same order have the same places.
 *
 * Each tenant takes one pass over the rooms: n^2 / 2 short comparisons for n tenants, once for a
 * plan. */
#include "exec/rooms.h"

#include <limits.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"

/* An empty list if there is no memory: releasing it does no harm. */
int et_rooms_init(et_rooms *rooms, size_t most, et_error *error)
{
    *rooms = (et_rooms){ .capacity = (int)most };
    rooms->placed = et_alloc(most, sizeof *rooms->placed);
    return rooms->placed ? ET_OK : et_alloc_failed(error, most * sizeof *rooms->placed, "a plan");
}

void et_rooms_release(et_rooms *rooms)
{
    et_free(rooms->placed);
}

/* In order of offset, so that nothing need be sorted. */
void et_rooms_take(et_rooms *rooms, size_t offset, size_t bytes, int from)
{
    et_assert(offset % ET_ROOM_ALIGN == 0 && rooms->count < rooms->capacity);
    et_assert(rooms->count == 0 || rooms->placed[rooms->count - 1].end <= offset);
    rooms->placed[rooms->count++] = (et_room){ offset, offset + bytes, from, INT_MAX };
}

/* Equal sizes by their first step; neighbours in time then tend to be neighbours in memory. */
static int larger_first(const void *left, const void *right)
{
    const et_tenant *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return a->from < b->from ? -1 : a->from > b->from;
}

/* Both ends of a life count: what a step reads and what it writes are there together. */
static bool live_together(const et_room *a, const et_tenant *b)
{
    return a->from <= b->to && b->from <= a->to;
}

/* The lowest offset for so many bytes. A gap is what lies between the ends of the rooms before,
 * of the tenant's time, and the next such room's start. `at` is the end of all that was passed;
 * a gap is large enough once the next room of the time begins at or behind at + bytes. A wall
 * (no bytes, all times) is such a room: it ends the gap before it, and what is behind it begins
 * there. */
static size_t find_offset(const et_rooms *rooms, const et_tenant *wanted, size_t bytes, bool reuse)
{
    size_t at = 0;
    for (int i = 0; i < rooms->count; i++) {
        const et_room *room = &rooms->placed[i];
        if (reuse && !live_together(room, wanted))
            continue;
        if (room->offset >= at + bytes)
            break;
        if (room->end > at)
            at = room->end;
    }
    return at;
}

/* Of equal offsets the newest is last; they differ in time, so either order would do. */
static void insert_by_offset(et_rooms *rooms, et_room one)
{
    et_assert(rooms->count < rooms->capacity);
    int at = rooms->count++;
    while (at > 0 && rooms->placed[at - 1].offset > one.offset) {
        rooms->placed[at] = rooms->placed[at - 1];
        at--;
    }
    rooms->placed[at] = one;
}

/* Rooms that were taken count for the end as well: it is never before the last of them. */
size_t et_rooms_place(et_rooms *rooms, et_tenant *tenants, int count, bool reuse)
{
    size_t end = rooms->count > 0 ? rooms->placed[rooms->count - 1].end : 0;
    qsort(tenants, (size_t)count, sizeof *tenants, larger_first);
    for (int i = 0; i < count; i++) {
        const et_tenant *one = &tenants[i];
        et_assert(one->bytes > 0 && one->from <= one->to);
        size_t bytes = (one->bytes + ET_ROOM_ALIGN - 1) / ET_ROOM_ALIGN * ET_ROOM_ALIGN;
        size_t at = find_offset(rooms, one, bytes, reuse);
        insert_by_offset(rooms, (et_room){ at, at + bytes, one->from, one->to });
        *one->offset = at;
        if (at + bytes > end)
            end = at + bytes;
    }
    return end;
}
