/* The layout of values in an arena: values do not overlap, reserved ranges stay free, gaps are
 * used; and the cost of finding places. */
#include "engine/exec/arena_layout.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/numbers/philox.h"

#define MOST  400
#define STEPS 1000

/* The tenants' rooms, in their order. */
typedef struct room {
    size_t offset, end;
    int from, to;
} room;

typedef struct space {
    et_arena_layout layout;
    et_tenant tenants[MOST];
    size_t offset[MOST];
    int count;
    room placed[2 * MOST];
    int placed_count;
} space;

static void open_space(space *s)
{
    et_error error = ET_ERROR_INIT;
    *s = (space){ .count = 0 };
    assert_int_equal(et_arena_layout_init(&s->layout, STEPS, &error), ET_OK);
}

static void take(space *s, size_t offset, size_t bytes, int from)
{
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_arena_layout_reserve(&s->layout, offset, bytes, from, &error), ET_OK);
    s->placed[s->placed_count++] = (room){ offset, offset + bytes, from, INT_MAX };
}

static void add(space *s, size_t bytes, int from, int to)
{
    s->tenants[s->count] = (et_tenant){ bytes, from, to, &s->offset[s->count] };
    s->count++;
}

static bool together(const room *a, const room *b)
{
    return a->from <= b->to && b->from <= a->to;
}

/* The reference: an offset is 0 or the end of another room; takes the lowest one without a room of
 * the tenant's time, or a wall, in its way. */
static size_t lowest(const space *s, room wanted, size_t bytes)
{
    size_t best = SIZE_MAX;
    for (int i = -1; i < s->placed_count; i++) {
        size_t at = i < 0 ? 0 : s->placed[i].end;
        bool free = at < best;
        for (int k = 0; free && k < s->placed_count; k++) {
            const room *other = &s->placed[k];
            free = !together(other, &wanted) || other->end <= at || other->offset >= at + bytes;
        }
        best = free ? at : best;
    }
    return best;
}

/* Places all tenants and checks each in turn: aligned, and at the reference's offset. Returns the
 * end. */
static size_t place(space *s, bool reuse)
{
    et_error error = ET_ERROR_INIT;
    size_t end = 0;
    assert_int_equal(et_arena_layout_assign(&s->layout, s->tenants, s->count, reuse, &error),
                     ET_OK);
    for (int i = 0; i < s->count; i++) {
        const et_tenant *one = &s->tenants[i];
        size_t bytes = (one->bytes + ET_ARENA_LAYOUT_ALIGN - 1) / ET_ARENA_LAYOUT_ALIGN *
                       ET_ARENA_LAYOUT_ALIGN;
        room wanted = { *one->offset, *one->offset + bytes, reuse ? one->from : 0,
                        reuse ? one->to : INT_MAX };
        assert_int_equal(wanted.offset % ET_ARENA_LAYOUT_ALIGN, 0);
        assert_int_equal(wanted.offset, lowest(s, wanted, bytes));
        s->placed[s->placed_count++] = wanted;
    }
    for (int i = 0; i < s->placed_count; i++)
        end = s->placed[i].end > end ? s->placed[i].end : end;
    assert_int_equal(s->layout.end, end);
    return end;
}

static void test_arena_layout__one_after_another_share(void **state)
{
    (void)state;
    space s;
    open_space(&s);
    add(&s, 1000, 0, 1);
    add(&s, 900, 2, 3);
    add(&s, 100, 1, 2);
    assert_int_equal(place(&s, true), 1024 + 128);
    assert_int_equal(s.offset[0], 0);
    assert_int_equal(s.offset[1], 0);
    assert_int_equal(s.offset[2], 1024);
    et_arena_layout_release(&s.layout);
}

static void test_arena_layout__without_reuse_nobody_shares(void **state)
{
    (void)state;
    space s;
    open_space(&s);
    for (int i = 0; i < 10; i++)
        add(&s, 64, i, i);
    assert_int_equal(place(&s, false), 640);
    et_arena_layout_release(&s.layout);
}

/* A room that is reserved from step 5 on serves tenants that are dead by then, and only those. */
static void test_arena_layout__taken_later_serves_before(void **state)
{
    (void)state;
    space s;
    open_space(&s);
    take(&s, 0, 256, ET_ARENA_LAYOUT_ALWAYS);
    take(&s, 256, 512, 5);
    take(&s, 768, 0, ET_ARENA_LAYOUT_ALWAYS);
    add(&s, 512, 0, 4);
    add(&s, 512, 0, 5);
    add(&s, 448, 3, 4);
    assert_int_equal(place(&s, true), 768 + 512 + 448);
    et_arena_layout_release(&s.layout);
}

static void test_arena_layout__nobody_lies_across_a_wall(void **state)
{
    (void)state;
    space s;
    open_space(&s);
    take(&s, 0, 128, 9);
    take(&s, 128, 0, ET_ARENA_LAYOUT_ALWAYS);
    add(&s, 192, 0, 1);
    add(&s, 64, 0, 1);
    assert_int_equal(place(&s, true), 320);
    size_t offsets[2] = { s.offset[0], s.offset[1] }; /* larger first */
    assert_int_equal(offsets[0], 128);
    assert_int_equal(offsets[1], 0);
    et_arena_layout_release(&s.layout);
}

static uint32_t random_below(uint32_t *counter, uint32_t below)
{
    return (uint32_t)et_random_below((et_random){ .seed = 7 }, (*counter)++, below);
}

static void test_arena_layout__many_lie_where_the_reference_has_them(void **state)
{
    (void)state;
    uint32_t counter = 0;
    for (int round = 0; round < 20; round++) {
        space s;
        open_space(&s);
        size_t at = 0;
        for (int i = 0; i < 20; i++) {
            size_t bytes = ET_ARENA_LAYOUT_ALIGN * random_below(&counter, 50);
            int from = (int)random_below(&counter, STEPS);
            take(&s, at, bytes, from == 0 ? ET_ARENA_LAYOUT_ALWAYS : from);
            at += bytes;
        }
        take(&s, at, 0, ET_ARENA_LAYOUT_ALWAYS);
        for (int i = 0; i < MOST; i++) {
            int from = (int)random_below(&counter, STEPS - 60);
            int length = (int)random_below(&counter, i % 2 ? 4 : 60);
            add(&s, 1 + random_below(&counter, 5000), from, from + length);
        }
        place(&s, round % 5 != 0);
        et_arena_layout_release(&s.layout);
    }
}

/* As in a model: layer i writes a value at step i that is read again at step 2 depth - i; meanwhile
 * values and scratch live for a step or three. Returns the number of spans examined per tenant. */
static double looked_for_each(int depth)
{
    enum { SIZES = 4 };
    static const size_t sizes[SIZES] = { 4096, 1024, 12288, 64 };
    et_error error = ET_ERROR_INIT;
    et_arena_layout layout;
    int count = 0, steps = 2 * depth * SIZES;
    size_t most = (size_t)(3 * steps), *offsets = malloc(most * sizeof *offsets);
    et_tenant *tenants = malloc(most * sizeof *tenants);
    assert_true(offsets && tenants);
    for (int s = 0; s < steps; s++) {
        size_t bytes = sizes[s % SIZES];
        if (s < steps / 2)
            tenants[count] = (et_tenant){ bytes, s, steps - s, &offsets[count] }, count++;
        tenants[count] = (et_tenant){ bytes + 64, s, s + s % 4, &offsets[count] }, count++;
        tenants[count] = (et_tenant){ 8000, s, s, &offsets[count] }, count++;
    }
    assert_int_equal(et_arena_layout_init(&layout, steps, &error), ET_OK);
    assert_int_equal(et_arena_layout_assign(&layout, tenants, count, true, &error), ET_OK);
    double looked = (double)layout.looked / count;
    et_arena_layout_release(&layout);
    free(tenants);
    free(offsets);
    return looked;
}

/* Four times the layers are two more levels of the tree: each tenant has a few more lists to
 * search. A pass over all rooms, or over those of one time, would look at four times as many. */
static void test_arena_layout__placing_is_almost_linear(void **state)
{
    (void)state;
    double few = looked_for_each(64), many = looked_for_each(256), more = looked_for_each(1024);
    print_message("%.1f, %.1f and %.1f spans for each tenant\n", few, many, more);
    assert_true(few > 1);
    assert_true(many < 1.5 * few);
    assert_true(more < 1.5 * many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arena_layout__one_after_another_share),
        cmocka_unit_test(test_arena_layout__without_reuse_nobody_shares),
        cmocka_unit_test(test_arena_layout__taken_later_serves_before),
        cmocka_unit_test(test_arena_layout__nobody_lies_across_a_wall),
        cmocka_unit_test(test_arena_layout__many_lie_where_the_reference_has_them),
        cmocka_unit_test(test_arena_layout__placing_is_almost_linear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
