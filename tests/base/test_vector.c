#include "base/vector.h"

#include <string.h>

#include "base/alloc.h"
#include "base/main.h"
#include "base/scarce.h"

/* Has room for 16 at first, then doubles or grows to the wanted size; contents are kept. */
static void test_vector__grows(void **state)
{
    (void)state;
    static const struct {
        size_t wanted, capacity;
    } cases[] = { { 1, 256 },    { 256, 256 },   { 257, 512 },  { 2, 512 },
                  { 513, 1024 }, { 3000, 3000 }, { 3001, 6000 } };
    size_t capacity = 0;
    int *items = NULL;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_true(ET_VECTOR_GROW(items, capacity, cases[i].wanted));
        assert_non_null(items);
        assert_int_equal(capacity, cases[i].capacity);
        assert_true(i == 0 || items[0] == 42);
        items[0] = 42;
        items[capacity - 1] = 7;
    }
    et_free(items);
}

/* The value may be a compound literal with commas. */
static void test_vector__appends(void **state)
{
    (void)state;
    typedef struct pair {
        size_t number;
        char letter;
    } pair;
    pair *pairs = NULL;
    size_t count = 0, capacity = 0;
    for (size_t i = 0; i < 100; i++)
        assert_true(ET_VECTOR_APPEND(pairs, count, capacity, (pair){ i, 'p' }));
    assert_int_equal(count, 100);
    for (size_t i = 0; i < count; i++)
        assert_true(pairs[i].number == i && pairs[i].letter == 'p');
    et_free(pairs);
}

/* Nothing changes, and a value that is not added is not evaluated. */
static void test_vector__no_memory(void **state)
{
    (void)state;
    size_t count = 0, capacity = 0;
    int *numbers = NULL, evaluated = 0;
    assert_false(ET_VECTOR_GROW(numbers, capacity, SIZE_MAX / 2));
    assert_null(numbers);
    assert_int_equal(capacity, 0);
    for (int i = 0; i < 256; i++)
        assert_true(ET_VECTOR_APPEND(numbers, count, capacity, i));
    int *const before = numbers;
    assert_false(ET_VECTOR_GROW(numbers, capacity, SIZE_MAX));
    scarce_begin(0);
    assert_false(ET_VECTOR_APPEND(numbers, count, capacity, ++evaluated));
    scarce_end();
    assert_ptr_equal(numbers, before);
    assert_int_equal(count, 256);
    assert_int_equal(capacity, 256);
    assert_int_equal(evaluated, 0);
    for (int i = 0; i < 256; i++)
        assert_int_equal(numbers[i], i);
    et_free(numbers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vector__grows),
        cmocka_unit_test(test_vector__appends),
        cmocka_unit_test(test_vector__no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
