#include "base/map.h"

#include <stdio.h>
#include <string.h>

#include "base/main.h"
#include "base/scarce.h"

enum { KEYS = 2000 };

static char names[KEYS][16];

static int make_names(void **state)
{
    (void)state;
    for (int i = 0; i < KEYS; i++)
        snprintf(names[i], sizeof names[i], "name/%d", i * 7919);
    return 0;
}

static void test_map__put_get(void **state)
{
    (void)state;
    et_map map = ET_MAP_INIT;
    int64_t value = -1;
    assert_false(et_map_get(&map, "absent", &value));
    for (int i = 0; i < KEYS; i++)
        assert_true(et_map_put(&map, names[i], i));
    assert_int_equal(map.count, KEYS);
    for (int i = 0; i < KEYS; i++) {
        assert_true(et_map_get(&map, names[i], &value));
        assert_int_equal(value, i);
    }
    value = -1;
    assert_false(et_map_get(&map, "absent", &value));
    assert_false(et_map_get(&map, "", &value));
    assert_int_equal(value, -1);
    et_map_release(&map);
    assert_int_equal(map.capacity, 0);
}

static void test_map__replaces(void **state)
{
    (void)state;
    et_map map = ET_MAP_INIT;
    int64_t value;
    assert_true(et_map_put(&map, "a", 1));
    assert_true(et_map_put(&map, "", INT64_MIN));
    assert_true(et_map_put(&map, "a", INT64_MAX));
    assert_int_equal(map.count, 2);
    assert_true(et_map_get(&map, "a", &value) && value == INT64_MAX);
    assert_true(et_map_get(&map, "", &value) && value == INT64_MIN);
    et_map_release(&map);
}

/* A failed put leaves all that was there, and only that. */
static void test_map__out_of_memory(void **state)
{
    (void)state;
    for (long calls = 0; calls < 6; calls++) {
        scarce_begin(calls);
        et_map map = ET_MAP_INIT;
        int count = 0;
        while (count < KEYS && et_map_put(&map, names[count], count))
            count++;
        assert_true(scarce_failed && count < KEYS);
        int64_t value;
        assert_int_equal(map.count, count);
        assert_false(et_map_get(&map, names[count], &value));
        for (int i = 0; i < count; i++)
            assert_true(et_map_get(&map, names[i], &value) && value == i);
        et_map_release(&map);
        scarce_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map__put_get),
        cmocka_unit_test(test_map__replaces),
        cmocka_unit_test(test_map__out_of_memory),
    };
    return cmocka_run_group_tests(tests, make_names, NULL);
}
