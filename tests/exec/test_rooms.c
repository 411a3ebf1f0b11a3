/* Places in an address space: nobody overlaps, what is taken is kept, gaps are used. */
#include "exec/rooms.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/philox.h"

#define MOST  400
#define STEPS 1000 /* several spans */

typedef struct space {
    et_rooms rooms;
    et_tenant tenants[MOST];
    size_t offset[MOST];
    int count;
} space;

static void open_space(space *s)
{
    et_error error = ET_ERROR_INIT;
    *s = (space){ .count = 0 };
    assert_int_equal(et_rooms_init(&s->rooms, 2 * MOST, &error), ET_OK);
}

static void add(space *s, size_t bytes, int from, int to)
{
    s->tenants[s->count] = (et_tenant){ bytes, from, to, &s->offset[s->count] };
    s->count++;
}

static bool overlap(const et_room *a, const et_room *b)
{
    bool time = a->from <= b->to && b->from <= a->to;
    return time && a->offset < b->end && b->offset < a->end;
}

/* No two of one time share a byte, nobody lies across a wall, offsets are aligned. */
static void check_rooms(const et_rooms *rooms)
{
    for (int i = 0; i < rooms->count; i++) {
        const et_room *a = &rooms->placed[i];
        assert_int_equal(a->offset % ET_ROOM_ALIGN, 0);
        for (int j = 0; j < rooms->count; j++) {
            const et_room *b = &rooms->placed[j];
            assert_false(i != j && overlap(a, b));
            bool together = a->from <= b->to && b->from <= a->to;
            if (b->offset == b->end && together)
                assert_false(a->offset < b->offset && b->offset < a->end);
        }
    }
}

static void test_rooms__one_after_another_share(void **state)
{
    (void)state;
    space s;
    open_space(&s);
    add(&s, 1000, 0, 1);
    add(&s, 900, 2, 3);
    add(&s, 100, 1, 2);
    assert_int_equal(et_rooms_place(&s.rooms, s.tenants, s.count, true), 1024 + 128);
    assert_int_equal(s.offset[0], 0);
    assert_int_equal(s.offset[1], 0);
    assert_int_equal(s.offset[2], 1024);
    et_rooms_release(&s.rooms);
}

static void test_rooms__without_reuse_nobody_shares(void **state)
{
    (void)state;
    space s;
    open_space(&s);
    for (int i = 0; i < 10; i++)
        add(&s, 64, i, i);
    assert_int_equal(et_rooms_place(&s.rooms, s.tenants, s.count, false), 640);
    et_rooms_release(&s.rooms);
}

/* Room that is taken from step 5 on serves those that are gone by then, and only those. */
static void test_rooms__taken_later_serves_before(void **state)
{
    (void)state;
    space s;
    open_space(&s);
    et_rooms_take(&s.rooms, 0, 256, ET_ROOM_ALWAYS);
    et_rooms_take(&s.rooms, 256, 512, 5);
    et_rooms_take(&s.rooms, 768, 0, ET_ROOM_ALWAYS);
    add(&s, 512, 0, 4);
    add(&s, 512, 0, 5);
    add(&s, 448, 3, 4);
    assert_int_equal(et_rooms_place(&s.rooms, s.tenants, s.count, true), 768 + 512 + 448);
    check_rooms(&s.rooms);
    et_rooms_release(&s.rooms);
}

static void test_rooms__nobody_lies_across_a_wall(void **state)
{
    (void)state;
    space s;
    open_space(&s);
    et_rooms_take(&s.rooms, 0, 128, 9);
    et_rooms_take(&s.rooms, 128, 0, ET_ROOM_ALWAYS);
    add(&s, 192, 0, 1);
    add(&s, 64, 0, 1);
    assert_int_equal(et_rooms_place(&s.rooms, s.tenants, s.count, true), 320);
    size_t offsets[2] = { s.offset[0], s.offset[1] }; /* larger first */
    assert_int_equal(offsets[0], 128);
    assert_int_equal(offsets[1], 0);
    check_rooms(&s.rooms);
    et_rooms_release(&s.rooms);
}

static uint32_t random_below(uint32_t *counter, uint32_t below)
{
    return (uint32_t)et_random_below((et_random){ .seed = 7 }, (*counter)++, below);
}

static void test_rooms__many_never_overlap(void **state)
{
    (void)state;
    uint32_t counter = 0;
    for (int round = 0; round < 20; round++) {
        space s;
        open_space(&s);
        size_t at = 0;
        for (int i = 0; i < 20; i++) {
            size_t bytes = ET_ROOM_ALIGN * random_below(&counter, 50);
            int from = (int)random_below(&counter, STEPS);
            et_rooms_take(&s.rooms, at, bytes, from == 0 ? ET_ROOM_ALWAYS : from);
            at += bytes;
        }
        et_rooms_take(&s.rooms, at, 0, ET_ROOM_ALWAYS);
        for (int i = 0; i < MOST; i++) {
            int from = (int)random_below(&counter, STEPS - 60);
            int length = (int)random_below(&counter, i % 2 ? 4 : 60);
            add(&s, 1 + random_below(&counter, 5000), from, from + length);
        }
        et_rooms_place(&s.rooms, s.tenants, s.count, true);
        check_rooms(&s.rooms);
        et_rooms_release(&s.rooms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rooms__one_after_another_share),
        cmocka_unit_test(test_rooms__without_reuse_nobody_shares),
        cmocka_unit_test(test_rooms__taken_later_serves_before),
        cmocka_unit_test(test_rooms__nobody_lies_across_a_wall),
        cmocka_unit_test(test_rooms__many_never_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
