/* Values to try: forms, distributions, equal values for equal seeds, no combination twice, and
 * refused texts. */
#include "command/training/search.h"

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

/* The first value that a seed gives. */
static const char *drawn(et_arena *arena, const et_search_space *space, int seed)
{
    const char *text = NULL;
    int trials = 1;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_search_draw(&text, &trials, space, 1, (uint64_t)seed, arena, &error),
                     ET_OK);
    assert_int_equal(trials, 1);
    assert_non_null(text);
    return text;
}

static double number(et_arena *arena, const et_search_space *space, int seed)
{
    char *end;
    const double value = strtod(drawn(arena, space, seed), &end);
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
        const double value = number(&arena, &lr, i);
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
        const double value = number(&arena, &range, i), other = number(&arena, &real, i);
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
        const double value = number(&arena, &range, i);
        assert_true(value == round(value) && value >= -1 && value <= 2);
        count[(int)value + 1]++;
    }
    for (int i = 0; i < 4; i++)
        assert_in_range(count[i], TRIALS * 22 / 100, TRIALS * 28 / 100);
    const et_search_space width = parsed(&arena, "width=1..1000:log");
    for (int i = 0; i < TRIALS; i++) {
        const double value = number(&arena, &width, i);
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
            count[k] += !strcmp(drawn(&arena, &space, i), space.choices.items[k]);
    for (int k = 0; k < 3; k++)
        assert_in_range(count[k], TRIALS * 29 / 100, TRIALS * 38 / 100);
    et_arena_release(&arena);
}

/* A value depends on the seed, the trial and the name, and on nothing else. */
static void test_search__counted(void **state)
{
    (void)state;
    et_arena arena = ET_ARENA_INIT;
    et_error error = ET_ERROR_INIT;
    const et_search_space both[] = { parsed(&arena, "a=0.0..1.0"), parsed(&arena, "b=0.0..1.0") };
    const char *values[8], *again[2];
    int trials = 4, one = 1;
    assert_int_equal(et_search_draw(values, &trials, both, 2, 1, &arena, &error), ET_OK);
    assert_int_equal(et_search_draw(again, &one, both, 2, 1, &arena, &error), ET_OK);
    for (int i = 0; i < 2; i++)
        assert_string_equal(values[i], again[i]);
    assert_string_not_equal(values[0], drawn(&arena, &both[0], 2));
    assert_string_not_equal(values[0], values[2]);
    assert_string_not_equal(values[0], values[1]);
    et_arena_release(&arena);
}

/* Fills seen with the combinations of two spaces by their numbers from 0; returns their number. */
static int combinations(const char *const *texts, int asked, bool seen[100])
{
    et_arena arena = ET_ARENA_INIT;
    et_error error = ET_ERROR_INIT;
    const et_search_space spaces[] = { parsed(&arena, texts[0]), parsed(&arena, texts[1]) };
    const char **values = et_arena_array(&arena, (size_t)asked * 2, sizeof *values);
    int trials = asked;
    assert_int_equal(et_search_draw(values, &trials, spaces, 2, 7, &arena, &error), ET_OK);
    memset(seen, 0, 100 * sizeof *seen);
    for (int i = 0; i < trials; i++) {
        const int at = atoi(values[2 * i]) * 10 + atoi(values[2 * i + 1]);
        assert_in_range(at, 0, 99);
        assert_false(seen[at]);
        seen[at] = true;
    }
    et_arena_release(&arena);
    return trials;
}

static void test_search__no_repetition(void **state)
{
    (void)state;
    bool seen[100];
    const char *const lists[] = { "a=0,3,5", "b=1,2" }, *const even[] = { "a=0..9", "b=0..9" };
    assert_int_equal(combinations(lists, 27, seen), 6);
    assert_true(seen[1] && seen[2] && seen[31] && seen[32] && seen[51] && seen[52]);
    assert_int_equal(combinations(lists, 6, seen), 6);
    assert_int_equal(combinations(lists, 5, seen), 5);
    assert_int_equal(combinations(even, 60, seen), 60);
    assert_int_equal(combinations(even, 1000, seen), 100);
}

/* Combinations that are drawn once in a million times, and a range of three real numbers. */
static void test_search__rare_combinations(void **state)
{
    (void)state;
    et_arena arena = ET_ARENA_INIT;
    et_error error = ET_ERROR_INIT;
    const char *values[3 * 600];
    const et_search_space rare[] = { parsed(&arena, "a=1..8:log"), parsed(&arena, "b=1..8:log"),
                                     parsed(&arena, "c=1..8:log") };
    const et_search_space narrow = parsed(&arena, "d=0.1000..0.1002");
    int trials = 600;
    assert_int_equal(et_search_draw(values, &trials, rare, 3, 0, &arena, &error), ET_OK);
    assert_int_equal(trials, 512);
    trials = 600;
    assert_int_equal(et_search_draw(values, &trials, &narrow, 1, 0, &arena, &error), ET_OK);
    assert_int_equal(trials, 3);
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
        cmocka_unit_test(test_search__logarithm),
        cmocka_unit_test(test_search__real_numbers),
        cmocka_unit_test(test_search__whole_numbers),
        cmocka_unit_test(test_search__choices),
        cmocka_unit_test(test_search__counted),
        cmocka_unit_test(test_search__no_repetition),
        cmocka_unit_test(test_search__rare_combinations),
        cmocka_unit_test(test_search__refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
