/* The largest batch that fits, for memory that grows with the batch in several ways. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "systems/training/training_private.h"

typedef uint64_t need_fn(int64_t batch);

static uint64_t straight(int64_t batch)
{
    return 24500000 + 22400 * (uint64_t)batch;
}

/* Attention of long sentences. */
static uint64_t squared(int64_t batch)
{
    return 1000000 + 3000 * (uint64_t)batch + (uint64_t)batch * (uint64_t)batch;
}

/* From some size on values are computed again instead of kept. */
static uint64_t broken(int64_t batch)
{
    return 5000000 + (batch < 10000 ? 100000u : 60000u) * (uint64_t)batch;
}

static int64_t find_up_to(int64_t most, need_fn *need, uint64_t budget, int64_t begin,
                          int64_t whole, int *tries)
{
    et_batch_fit fit = et_batch_fit_begin(budget, begin, most);
    bool more = true;
    *tries = 0;
    while (more) {
        assert_in_range(fit.batch, ET_BATCH_LEAST, most);
        ++*tries;
        more = et_batch_fit_note(&fit, need(fit.batch), whole && fit.batch >= whole);
    }
    return fit.fits;
}

static int64_t find(need_fn *need, uint64_t budget, int64_t begin, int64_t whole, int *tries)
{
    return find_up_to(ET_BATCH_MOST, need, budget, begin, whole, tries);
}

static void test_batch_fit__fits(void **state)
{
    (void)state;
    static need_fn *const needs[] = { straight, squared, broken };
    static const uint64_t budgets[] = { 30000000, 100000000, 1000000000, 40000000000 };
    static const int64_t begins[] = { 1, 256, 4096, 500000 };
    int tries;
    for (size_t n = 0; n < 3; n++)
        for (size_t b = 0; b < 4; b++)
            for (size_t i = 0; i < 4; i++) {
                int64_t found = find(needs[n], budgets[b], begins[i], 0, &tries);
                assert_true(found >= ET_BATCH_LEAST && needs[n](found) <= budgets[b]);
                assert_true(tries <= 16);
                /* 10 % more would not have fitted, or is no size */
                int64_t larger = found + found / 10 + 8;
                if (needs[n] != broken)
                    assert_true(larger > ET_BATCH_MOST || needs[n](larger) > budgets[b]);
            }
}

/* Nothing fits; all data are in one batch. */
static void test_batch_fit__ends(void **state)
{
    (void)state;
    int tries;
    assert_int_equal(find(straight, 1000, 4096, 0, &tries), 0);
    int64_t found = find(straight, 1000000000, 64, 3000, &tries);
    assert_true(found >= 3000 && found <= 24000);
    assert_int_equal(find(straight, UINT64_MAX, ET_BATCH_MOST, 0, &tries), ET_BATCH_MOST);
    assert_int_equal(tries, 1);
}

/* A larger one than the most is never tried, and the most is taken if it fits. */
static void test_batch_fit__most(void **state)
{
    (void)state;
    static const int64_t mosts[] = { ET_BATCH_LEAST, 13, 1400, 2048, ET_BATCH_MOST - 1 };
    int tries;
    for (size_t i = 0; i < sizeof mosts / sizeof *mosts; i++)
        for (int64_t begin = 1; begin < ET_BATCH_MOST; begin *= 3) {
            assert_int_equal(find_up_to(mosts[i], straight, UINT64_MAX, begin, 0, &tries),
                             mosts[i]);
            const int64_t found = find_up_to(mosts[i], straight, 40000000, begin, 0, &tries);
            assert_true(found > 0 && straight(found) <= 40000000);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batch_fit__fits),
        cmocka_unit_test(test_batch_fit__ends),
        cmocka_unit_test(test_batch_fit__most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
