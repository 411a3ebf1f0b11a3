/* Values to try: forms, distributions, equal values for equal seeds, and refused texts. */
#include "command/training/tune/search.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define TRIALS 3000

static et_search_space parsed(et_arena *arena, const char *text)
{
    et_search_space space;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_search_parse(&space, text, arena, &error), ET_OK);
    return space;
}

static double sampled(et_arena *arena, const et_search_space *space, int trial)
{
    char *end;
    const char *text = et_search_sample(space, 5, trial, arena);
    assert_non_null(text);
    const double value = strtod(text, &end);
    assert_int_equal(*end, 0);
    return value;
}

/* Half of the values lie below the middle of the logarithms. */
static void test_search__logarithm(void **state)
{
    (void)state;
    et_arena arena = ET_ARENA_INIT;
    const et_search_space lr = parsed(&arena, "lr=1e-4..1e-2:log");
    int below = 0;
    assert_string_equal(lr.name, "lr");
    for (int i = 0; i < TRIALS; i++) {
        const double value = sampled(&arena, &lr, i);
        assert_true(value >= 1e-4 && value <= 1e-2);
        below += value < 1e-3;
    }
    assert_in_range(below, TRIALS * 45 / 100, TRIALS * 55 / 100);
    et_arena_release(&arena);
}

static void test_search__real_numbers(void **state)
{
    (void)state;
    et_arena arena = ET_ARENA_INIT;
    const et_search_space range = parsed(&arena, "--dropout=0.0..0.5");
    const et_search_space real = parsed(&arena, "a=1..2:real");
    int below = 0, whole = 0;
    assert_string_equal(range.name, "dropout");
    for (int i = 0; i < TRIALS; i++) {
        const double value = sampled(&arena, &range, i), other = sampled(&arena, &real, i);
        assert_true(value >= 0 && value <= 0.5 && other >= 1 && other <= 2);
        below += value < 0.25;
        whole += other == round(other);
    }
    assert_in_range(below, TRIALS * 45 / 100, TRIALS * 55 / 100);
    assert_in_range(whole, 0, TRIALS / 100);
    et_arena_release(&arena);
}

/* Each has the same part, the bounds, too. */
static void test_search__whole_numbers(void **state)
{
    (void)state;
    et_arena arena = ET_ARENA_INIT;
    const et_search_space range = parsed(&arena, "layers=-1..2");
    int count[4] = { 0 };
    for (int i = 0; i < TRIALS; i++) {
        const double value = sampled(&arena, &range, i);
        assert_true(value == round(value) && value >= -1 && value <= 2);
        count[(int)value + 1]++;
    }
    for (int i = 0; i < 4; i++)
        assert_in_range(count[i], TRIALS * 22 / 100, TRIALS * 28 / 100);
    const et_search_space width = parsed(&arena, "width=1..1000:log");
    for (int i = 0; i < TRIALS; i++) {
        const double value = sampled(&arena, &width, i);
        assert_true(value == round(value) && value >= 1 && value <= 1000);
    }
    et_arena_release(&arena);
}

static void test_search__choices(void **state)
{
    (void)state;
    et_arena arena = ET_ARENA_INIT;
    const et_search_space space = parsed(&arena, "task.model.mlp.norm=none,\"a,b\",batch");
    int count[3] = { 0 };
    assert_int_equal(space.choices.count, 3);
    assert_string_equal(space.choices.items[1], "a,b");
    for (int i = 0; i < TRIALS; i++)
        for (int k = 0; k < 3; k++)
            count[k] += !strcmp(et_search_sample(&space, 1, i, &arena), space.choices.items[k]);
    for (int k = 0; k < 3; k++)
        assert_in_range(count[k], TRIALS * 29 / 100, TRIALS * 38 / 100);
    et_arena_release(&arena);
}

/* A value depends on the seed, the trial and the name, and on nothing else. */
static void test_search__counted(void **state)
{
    (void)state;
    et_arena arena = ET_ARENA_INIT;
    const et_search_space a = parsed(&arena, "a=0.0..1.0"), b = parsed(&arena, "b=0.0..1.0");
    const char *first = et_search_sample(&a, 1, 0, &arena);
    assert_string_equal(first, et_search_sample(&a, 1, 0, &arena));
    assert_string_not_equal(first, et_search_sample(&a, 2, 0, &arena));
    assert_string_not_equal(first, et_search_sample(&a, 1, 1, &arena));
    assert_string_not_equal(first, et_search_sample(&b, 1, 0, &arena));
    et_arena_release(&arena);
}

static void test_search__refused(void **state)
{
    (void)state;
    static const char *const texts[] = { "",
                                         "lr",
                                         "=1..2",
                                         "lr=",
                                         "lr=1",
                                         "lr=1..",
                                         "lr=..2",
                                         "lr=1..2:ln",
                                         "lr=1..2:log:",
                                         "lr=1e999..2",
                                         "lr=2..1",
                                         "lr=1..1",
                                         "lr=0..1:log",
                                         "lr=-1..1:log",
                                         "lr=a..b",
                                         "lr=1 ..2",
                                         "lr=a,,b",
                                         "lr=a,a",
                                         "n=0..9999999999",
                                         "lr=nan..1",
                                         "lr=\"a",
                                         NULL };
    et_arena arena = ET_ARENA_INIT;
    for (int i = 0; texts[i]; i++) {
        et_search_space space;
        et_error error = ET_ERROR_INIT;
        if (et_search_parse(&space, texts[i], &arena, &error) != ET_EUSAGE)
            fail_msg("%s is accepted", texts[i]);
        assert_non_null(strstr(error.text, "--search"));
    }
    et_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_search__logarithm),     cmocka_unit_test(test_search__real_numbers),
        cmocka_unit_test(test_search__whole_numbers), cmocka_unit_test(test_search__choices),
        cmocka_unit_test(test_search__counted),       cmocka_unit_test(test_search__refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
