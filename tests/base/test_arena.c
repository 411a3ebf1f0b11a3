#include "base/arena.h"

#include <stdint.h>
#include <string.h>

#include "base/main.h"
#include "base/scarce.h"

/* Whether AddressSanitizer would stop a program that touches the byte. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define POISONED(byte) (__asan_address_is_poisoned(byte) != 0)
#endif

static void test_arena__aligned_and_zeroed(void **state)
{
    (void)state;
    et_arena arena = ET_ARENA_INIT;
    static const size_t sizes[] = { 0, 1, 15, 16, 17, 1000, 65536, 200000, 3 };
    unsigned char *given[COUNT(sizes)];
    for (size_t i = 0; i < COUNT(sizes); i++) {
        given[i] = et_arena_alloc(&arena, sizes[i]);
        assert_non_null(given[i]);
        assert_int_equal((uintptr_t)given[i] % 16, 0);
        for (size_t j = 0; j < sizes[i]; j++)
            assert_int_equal(given[i][j], 0);
        memset(given[i], (int)i + 1, sizes[i]);
    }
    for (size_t i = 0; i < COUNT(sizes); i++) /* nothing overlaps */
        for (size_t j = 0; j < sizes[i]; j++)
            assert_int_equal(given[i][j], i + 1);
    et_arena_release(&arena);
    assert_null(arena.block);
    assert_int_equal(arena.used, 0);
}

static void test_arena__strings(void **state)
{
    (void)state;
    et_arena arena = ET_ARENA_INIT;
    assert_string_equal(et_arena_strdup(&arena, "layer"), "layer");
    assert_string_equal(et_arena_strdup(&arena, ""), "");
    assert_memory_equal(et_arena_strndup(&arena, "a\0bc", 3), "a\0b", 4);
    assert_string_equal(et_arena_strndup(&arena, NULL, 0), "");
    assert_string_equal(et_arena_printf(&arena, "%s_%d/%.2f", "layer", 3, 0.5), "layer_3/0.50");
    et_arena_release(&arena);
}

static void test_arena__overflow(void **state)
{
    (void)state;
    et_arena arena = ET_ARENA_INIT;
    assert_null(et_arena_array(&arena, SIZE_MAX / 2, 4));
    assert_null(et_arena_array_raw(&arena, SIZE_MAX / 2, 4));
    assert_true(arena.failed);
    assert_null(et_arena_alloc(&arena, SIZE_MAX));
    assert_null(et_arena_alloc(&arena, SIZE_MAX - 8));
    assert_non_null(et_arena_array(&arena, 3, 4));
    assert_true(arena.failed); /* stays until the release */
    et_arena_release(&arena);
    assert_false(arena.failed);
}

static void test_arena__out_of_memory(void **state)
{
    (void)state;
    for (long calls = 0; calls < 3; calls++) {
        scarce_begin(calls);
        et_arena arena = ET_ARENA_INIT;
        int given = 0;
        while (et_arena_alloc(&arena, 40000)) /* one to a block */
            given++;
        assert_int_equal(given, calls);
        assert_true(arena.failed);
        assert_null(et_arena_printf(&arena, "%050000d", 1));
        assert_null(et_arena_strndup(&arena, "", SIZE_MAX / 2));
        et_arena_release(&arena);
        scarce_end();
    }
}

/* Poisoned: a byte after an object, memory not yet allocated, and all memory after the release. */
#ifdef POISONED
static void test_arena__red_zones(void **state)
{
    (void)state;
    static const size_t sizes[] = { 1, 15, 16, 17, 1000 };
    et_arena arena = ET_ARENA_INIT;
    for (size_t i = 0; i < COUNT(sizes); i++) {
        char *first = et_arena_alloc(&arena, sizes[i]), *second = et_arena_alloc(&arena, 1);
        assert_false(POISONED(first) || POISONED(first + sizes[i] - 1) || POISONED(second));
        assert_true(POISONED(first + sizes[i]) && POISONED(second - 1) && POISONED(second + 1));
        assert_true(POISONED(second + 100));
    }
    et_arena_release(&arena);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arena__aligned_and_zeroed),
        cmocka_unit_test(test_arena__strings),
        cmocka_unit_test(test_arena__overflow),
        cmocka_unit_test(test_arena__out_of_memory),
#ifdef POISONED
        cmocka_unit_test(test_arena__red_zones),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
