/* Shares and turns: every item once, whole units, a thread's own share first. */
#include "engine/kernel/parallel.h"

#include "engine/kernel/harness.h"

#define ITEMS_MOST 200

static const struct {
    int threads; /* that turns are made for */
    int64_t count, unit;
} cases[] = {
    { 1, 10, 1 }, { 2, 10, 4 },  { 2, 0, 1 },   { 3, 2, 1 },     { 4, 100, 8 },
    { 7, 64, 8 }, { 5, 199, 3 }, { 64, 63, 1 }, { 100, 200, 1 }, { 3, 5, 8 },
};

/* Shares follow on each other from the first item to the last. */
static void test_share_of(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        int64_t end = 0;
        for (int share = 0; share < cases[i].threads; share++) {
            const et_items own =
                et_items_of(cases[i].count, cases[i].unit, share, cases[i].threads);
            assert_int_equal(own.begin < own.end ? own.begin : end, end);
            assert_true(own.begin >= own.end || own.begin % cases[i].unit == 0);
            end = own.end > end ? own.end : end;
        }
        assert_int_equal(end, cases[i].count);
    }
}

/* What `team` threads take, whatever team the turns were made for. */
static void check_turns(int threads, int64_t count, int64_t unit, int team)
{
    int taken[ITEMS_MOST] = { 0 };
    et_turns turns;
    et_turns_init(&turns, threads, count, unit);
#pragma omp parallel num_threads(team)
    {
        et_turn turn = et_turn_own(&turns);
        for (et_items now; et_turns_take(&turns, &turn, &now);)
            for (int64_t item = now.begin; item < now.end; item++)
#pragma omp atomic
                taken[item]++;
    }
    for (int64_t item = 0; item < count; item++)
        assert_int_equal(taken[item], 1);
}

static void test_turns(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int team = 1; team <= 4; team++)
            check_turns(cases[i].threads, cases[i].count, cases[i].unit, team);
}

/* A single thread begins with the first share and helps with the others in order; of two threads,
 * one that comes late begins with its own share. */
static void test_turns__order(void **state)
{
    (void)state;
    const int64_t alone[] = { 0, 2, 4, 6, 8 };
    int64_t first[2] = { -1, -1 };
    et_turns turns;
    et_turns_init(&turns, 2, 9, 2);
    et_turn turn = et_turn_own(&turns);
    et_items now;
    for (size_t i = 0; i < COUNT(alone); i++) {
        assert_true(et_turns_take(&turns, &turn, &now));
        assert_int_equal(now.begin, alone[i]);
        assert_int_equal(now.end, alone[i] + 2 < 9 ? alone[i] + 2 : 9);
    }
    assert_false(et_turns_take(&turns, &turn, &now));

    et_turns_init(&turns, 2, 9, 2);
#pragma omp parallel num_threads(2)
    {
        et_turn mine = et_turn_own(&turns);
        et_items got;
        if (et_turns_take(&turns, &mine, &got))
            first[omp_get_thread_num()] = got.begin;
#pragma omp barrier
    }
    assert_int_equal(first[0], 0);
    assert_int_equal(first[1], 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_share_of),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_turns__order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
