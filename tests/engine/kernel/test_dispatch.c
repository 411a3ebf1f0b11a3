#include "engine/kernel/harness.h"

#include <stdlib.h>
#include <string.h>

static void test_dispatch__named(void **state)
{
    (void)state;
    assert_null(et_kernels_named("reference"));
    assert_string_equal(et_kernels_named("plain")->name, "plain");
    assert_null(et_kernels_named("AVX2"));
    assert_null(et_kernels_named(""));
    for (size_t i = 0; i < COUNT(table_names); i++) {
        const et_kernels *table = et_kernels_named(table_names[i]);
        if (table)
            assert_string_equal(table->name, table_names[i]);
        else
            print_message("SKIPPED: this CPU has no %s\n", table_names[i]);
    }
}

static void test_dispatch__environment(void **state)
{
    (void)state;
    unsetenv("ETUDE_ISA");
    assert_null(et_kernels_wanted());
    const et_kernels *best = et_kernels_best();
    setenv("ETUDE_ISA", "plain", 1);
    assert_string_equal(et_kernels_best()->name, "plain");
    setenv("ETUDE_ISA", "sse17", 1);
    assert_ptr_equal(et_kernels_best(), best);
    assert_string_equal(et_kernels_wanted(), "sse17");
    setenv("ETUDE_ISA", "", 1);
    assert_null(et_kernels_wanted());
    assert_ptr_equal(et_kernels_best(), best);
    unsetenv("ETUDE_ISA");
}

/* Every table of this build is in the list, in the order in which they are preferred. */
static void test_dispatch__names(void **state)
{
    (void)state;
    size_t known = 0;
    unsetenv("ETUDE_ISA");
    for (size_t i = 0; et_kernels_names[i]; i++) {
        const et_kernels *table = et_kernels_named(et_kernels_names[i]);
        if (!table)
            continue;
        if (known++ == 0)
            assert_ptr_equal(table, et_kernels_best());
        assert_string_equal(table->name, et_kernels_names[i]);
    }
    assert_true(known >= 1);
    for (size_t i = 0; i < COUNT(table_names); i++) {
        size_t k = 0;
        while (et_kernels_names[k] && strcmp(et_kernels_names[k], table_names[i]))
            k++;
        assert_non_null(et_kernels_names[k]);
    }
}

/* A forgotten row of a table is a null pointer. */
static void test_dispatch__tables_are_full(void **state)
{
    (void)state;
    for (size_t i = 0; i <= COUNT(table_names); i++) {
        const et_kernels *table =
            i < COUNT(table_names) ? et_kernels_named(table_names[i]) : &et_kernels_reference;
        const void *members[sizeof *table / sizeof(void *)];
        if (!table)
            continue;
        memcpy(members, table, sizeof *table);
        for (size_t k = 0; k < COUNT(members); k++)
            assert_non_null(members[k]);
    }
}

/* Grows with the longest segment, not with its square. */
static void test_dispatch__attention_scratch(void **state)
{
    (void)state;
    size_t one = et_attention_scratch(1000, 64), ten = et_attention_scratch(10000, 64);
    assert_true(ten < 11 * one && ten > 5 * one);
    assert_true(et_attention_scratch(0, 1) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dispatch__named),
        cmocka_unit_test(test_dispatch__environment),
        cmocka_unit_test(test_dispatch__names),
        cmocka_unit_test(test_dispatch__tables_are_full),
        cmocka_unit_test(test_dispatch__attention_scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
