#include "metric/exact_sum.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/numbers/philox.h"
#include "base/values/json.h"
#include "formats/files.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void assert_same(double a, double b)
{
    if (memcmp(&a, &b, sizeof a))
        fail_msg("%a is not %a", a, b);
}

/* The rest after all large values have cancelled, and the rounding of halves. */
static void test_exact_sum__values(void **state)
{
    (void)state;
    static const struct {
        double added[5], value, rest;
    } cases[] = {
        { { 0 }, 0, 0 },
        { { 1e300, 1, -1e300 }, 1, 0 },
        { { 0.1, 0.2, 0.3 }, 0x1.3333333333333p-1, 0x1p-55 },
        { { 5e-324, 5e-324 }, 1e-323, 0 },
        { { DBL_MIN, -5e-324 }, DBL_MIN - 5e-324, 0 },
        { { -1e16, -1, 1e16 }, -1, 0 },
        { { 0x1p53, 1 }, 0x1p53, 1 },              /* a tie goes to even, */
        { { 0x1p53, 2, 1 }, 0x1p53 + 4, -1 },      /* upwards too, */
        { { 0x1p53, 1, 5e-324 }, 0x1p53 + 2, -1 }, /* and rounds up with more below */
        { { -0x1p53, -1, -5e-324 }, -0x1p53 - 2, 1 },
        { { DBL_MAX, DBL_MAX, -DBL_MAX }, DBL_MAX, 0 },
        { { DBL_MAX, DBL_MAX }, INFINITY, 0 },
        { { 1, INFINITY, -1 }, INFINITY, 0 },
        { { -INFINITY, 1 }, -INFINITY, 0 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        et_exact_sum sum = { 0 };
        for (size_t k = 0; k < COUNT(cases[i].added); k++)
            et_exact_sum_add(&sum, cases[i].added[k]);
        assert_same(et_exact_sum_value(&sum), cases[i].value);
        double rest = et_exact_sum_rest(&sum);
        assert_true(rest == cases[i].rest);
    }
    et_exact_sum sum = { 0 };
    et_exact_sum_add(&sum, INFINITY);
    et_exact_sum_add(&sum, -INFINITY);
    assert_true(isnan(et_exact_sum_value(&sum)));
}

/* Numbers of all sizes and signs. */
static double number(uint64_t i)
{
    et_random random = { 7, 0, 0 };
    double real = 2 * (double)et_random_uniform(random, 2 * i) - 1;
    return ldexp(real, (int)(600 * et_random_uniform(random, 2 * i + 1)) - 300);
}

/* In order, backwards, and cut into parts of any size that are merged: the same bytes. */
static void test_exact_sum__any_grouping(void **state)
{
    (void)state;
    enum { N = 20000 };
    et_exact_sum forward = { 0 }, backward = { 0 };
    for (uint64_t i = 0; i < N; i++) {
        et_exact_sum_add(&forward, number(i));
        et_exact_sum_add(&backward, number(N - 1 - i));
    }
    et_exact_sum_settle(&forward);
    et_exact_sum_settle(&backward);
    assert_memory_equal(&forward, &backward, sizeof forward);
    for (uint64_t size = 1; size < N; size = 3 * size + 1) {
        et_exact_sum whole = { 0 };
        for (uint64_t at = 0; at < N; at += size) {
            et_exact_sum part = { 0 };
            for (uint64_t i = at; i < at + size && i < N; i++)
                et_exact_sum_add(&part, number(i));
            et_exact_sum_merge(&whole, &part);
        }
        et_exact_sum_settle(&whole);
        assert_memory_equal(&whole, &forward, sizeof whole);
    }
    /* The rounded sum is next to the exact one, and subtracting all values gives 0. */
    for (uint64_t i = 0; i < N; i++)
        et_exact_sum_add(&forward, -number(i));
    assert_same(et_exact_sum_value(&forward), 0);
}

/* Through JSON and back: the sum, not its value. */
static void test_exact_sum__saved(void **state)
{
    (void)state;
    static const double added[][4] = {
        { 0 },   { 1.5 },         { 1e300, 1, 1e-300, 5e-324 }, { -1e300, 3, -1e-300, 0.1 },
        { NAN }, { -INFINITY, 2 }
    };
    for (size_t i = 0; i < COUNT(added); i++) {
        et_arena arena = ET_ARENA_INIT;
        et_strbuf text = ET_STRBUF_INIT;
        et_exact_sum sum = { 0 }, back = { .digit = { 5 } };
        et_value *dict = et_value_dict(&arena), *parsed;
        for (size_t k = 0; k < 4; k++)
            et_exact_sum_add(&sum, added[i][k]);
        et_exact_sum_save(&sum, dict, "s");
        et_json_print(&text, dict, 0);
        assert_ok(et_json_parse(&parsed, &arena, text.data, text.length, "t", error));
        assert_ok(et_exact_sum_restore(&back, parsed, "s", error));
        assert_same(et_exact_sum_value(&back), et_exact_sum_value(&sum));
        if (isfinite(et_exact_sum_value(&sum))) {
            et_exact_sum_settle(&sum);
            et_exact_sum_settle(&back);
            assert_memory_equal(&back, &sum, sizeof sum);
        }
        et_strbuf_release(&text);
        et_arena_release(&arena);
    }
}

static void test_exact_sum__not_a_sum(void **state)
{
    (void)state;
    static const char *const texts[] = { "{}", "{\"s\":true}", "{\"s\":[1,\"x\"]}", "{\"s\":{}}",
                                         "{\"s\":\"one\"}" };
    for (size_t i = 0; i < COUNT(texts); i++) {
        et_arena arena = ET_ARENA_INIT;
        et_exact_sum sum;
        et_value *dict;
        assert_ok(et_json_parse(&dict, &arena, texts[i], strlen(texts[i]), "t", error));
        assert_fails(et_exact_sum_restore(&sum, dict, "s", error), ET_EFORMAT, "s");
        et_arena_release(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_sum__values),
        cmocka_unit_test(test_exact_sum__any_grouping),
        cmocka_unit_test(test_exact_sum__saved),
        cmocka_unit_test(test_exact_sum__not_a_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
