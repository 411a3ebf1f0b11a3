#include "base/vector.h"

#include <string.h>

#include "base/alloc.h"
#include "base/main.h"
#include "base/scarce.h"

/* Doubles from the first size on, or grows to the wanted size; contents are kept. */
static void test_vector__grows(void **state)
{
    (void)state;
    static const struct {
        size_t wanted, capacity;
    } cases[] = {
        { 1, 5 }, { 5, 5 }, { 6, 10 }, { 2, 10 }, { 11, 20 }, { 100, 100 }, { 101, 200 }
    };
    size_t capacity = 0;
    int *items = NULL;
    for (size_t i = 0; i < COUNT(cases); i++) {
        int *grown = et_vector_grow(items, &capacity, cases[i].wanted, sizeof *items, 5);
        assert_non_null(grown);
        assert_int_equal(capacity, cases[i].capacity);
        assert_true(i == 0 || grown[0] == 42);
        items = grown;
        items[0] = 42;
        items[capacity - 1] = 7;
    }
    et_free(items);
}

static void test_vector__no_memory(void **state)
{
    (void)state;
    size_t capacity = 0;
    assert_null(et_vector_grow(NULL, &capacity, SIZE_MAX / 2, sizeof(int), 1));
    assert_int_equal(capacity, 0);
    char *items = et_vector_grow(NULL, &capacity, 3, 1, 1);
    assert_non_null(items);
    memcpy(items, "abc", 3);
    assert_null(et_vector_grow(items, &capacity, SIZE_MAX, sizeof(int), 1));
    scarce_begin(0);
    assert_null(et_vector_grow(items, &capacity, 4, 1, 1));
    scarce_end();
    assert_int_equal(capacity, 3);
    assert_memory_equal(items, "abc", 3);
    et_free(items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vector__grows),
        cmocka_unit_test(test_vector__no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
