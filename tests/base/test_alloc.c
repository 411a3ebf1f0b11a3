#include "base/alloc.h"

#include <stdint.h>
#include <string.h>

#include "base/main.h"
#include "base/scarce.h"

static void test_alloc__kinds(void **state)
{
    (void)state;
    size_t before = et_alloc_count();
    int *numbers = et_alloc(4, sizeof *numbers);
    assert_non_null(numbers);
    numbers[3] = 7;
    numbers = et_realloc(numbers, 4000, sizeof *numbers);
    assert_non_null(numbers);
    assert_int_equal(numbers[3], 7);
    et_free(numbers);

    unsigned char *zeroed = et_alloc_zero(100, 3);
    for (int i = 0; i < 300; i++)
        assert_int_equal(zeroed[i], 0);
    et_free(zeroed);

    void *aligned = et_alloc_aligned(100, 64);
    assert_int_equal((uintptr_t)aligned % 64, 0);
    et_free(aligned);

    void *empty = et_alloc(0, 8);
    assert_non_null(empty);
    et_free(empty);
    et_free(NULL);
    assert_int_equal(et_alloc_count() - before, 5);
}

/* Small and large arrays, with own pages or with hooks, and hooks that change in between. */
static void test_alloc__array(void **state)
{
    (void)state;
    static const size_t sizes[] = { 0, 1, 1000, (4 << 20) - 1, (4 << 20) + 1, 9 << 20 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t before = et_alloc_count();
        unsigned char *array = et_alloc_array(sizes[i]);
        assert_int_equal(et_alloc_count() - before, 1);
        assert_int_equal((uintptr_t)array % 64, 0);
        size_t set = 0;
        for (size_t at = 0; at < sizes[i]; at++)
            set += array[at] != 0;
        assert_int_equal(set, 0);
        if (sizes[i])
            memset(array, 255, sizes[i]);
        et_free_array(array);
    }
    void *mapped = et_alloc_array(9 << 20);
    scarce_begin(1);
    unsigned char *hooked = et_alloc_array(9 << 20);
    assert_int_equal(hooked[(9 << 20) - 1], 0);
    assert_null(et_alloc_array(9 << 20));
    et_free_array(hooked);
    et_free_array(mapped);
    et_free_array(NULL);
    scarce_end();
}

static void test_alloc__strings(void **state)
{
    (void)state;
    char *whole = et_strdup("encoder"), *part = et_strndup("encoder", 2);
    assert_string_equal(whole, "encoder");
    assert_string_equal(part, "en");
    et_free(whole);
    et_free(part);
}

static void test_alloc__overflow(void **state)
{
    (void)state;
    assert_null(et_alloc(SIZE_MAX / 2, 3));
    assert_null(et_alloc_zero(SIZE_MAX, 2));
    assert_null(et_alloc_array(SIZE_MAX - 8));
    assert_null(et_alloc_array(SIZE_MAX / 4)); /* nobody has so much */
    char *kept = et_strdup("kept");
    assert_null(et_realloc(kept, SIZE_MAX, 8));
    assert_string_equal(kept, "kept");
    et_free(kept);
}

static void test_alloc__hooks(void **state)
{
    (void)state;
    scarce_begin(1);
    void *memory = et_alloc(1, 8);
    assert_non_null(memory);
    assert_null(et_alloc(1, 8));
    assert_null(et_strdup("no"));
    et_free(memory);
    scarce_end();
    void *again = et_alloc(1, 8);
    assert_non_null(again);
    et_free(again);
}

static void test_alloc__failed(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    scarce_begin(0);
    assert_null(et_alloc(512, 8));
    scarce_end();
    assert_int_equal(et_alloc_failed(&error, "a plan"), ET_ENOMEM);
    assert_int_equal(error.status, ET_ENOMEM);
    assert_string_equal(error.text, "out of memory (4096 bytes for a plan)");
    assert_int_equal(et_alloc_failed(&error, "a thread"), ET_ENOMEM);
    assert_string_equal(error.text, "out of memory (for a thread)");
}

/* No process has 2^62 bytes of addresses. */
static void test_alloc__memory_check(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_memory_check(1 << 20, "a test", &error), ET_OK);
    assert_int_equal(et_memory_check((size_t)1 << 62, "a test", &error), ET_ENOMEM);
    assert_string_equal(error.text, "out of memory (4611686018427387904 bytes for a test)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alloc__kinds),        cmocka_unit_test(test_alloc__array),
        cmocka_unit_test(test_alloc__strings),      cmocka_unit_test(test_alloc__overflow),
        cmocka_unit_test(test_alloc__hooks),        cmocka_unit_test(test_alloc__failed),
        cmocka_unit_test(test_alloc__memory_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
