/* Groups: which parameters the names choose, and the ranges that these cover. */
#include <etude/group.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/scarce.h"
#include "engine/tensor/params.h"
#include "formats/files.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Parameters of one element, so each has 16 places. Variables come last. */
static et_params *make(void)
{
    static const struct {
        const char *name;
        bool trained;
    } rows[] = { { "g/a", true }, { "g/mean", false }, { "d/a", true },     { "d/b", true },
                 { "g/b", true }, { "g/c", true },     { "d/mean", false }, { "d/c", true } };
    et_params *params;
    assert_ok(et_params_new(&params, error));
    for (size_t i = 0; i < COUNT(rows); i++) {
        int index;
        et_init zeros = { ET_INIT_ZEROS, 0 };
        if (rows[i].trained)
            assert_ok(et_params_declare(params, rows[i].name, et_shape_1(1), zeros, &index, error));
        else
            assert_ok(et_params_declare_variable(params, rows[i].name, et_shape_1(1), zeros, &index,
                                                 error));
        assert_int_equal(index, i);
    }
    assert_ok(et_params_materialize(params, false, error));
    return params;
}

static void check(const et_group *group, const char *const *names, int count,
                  const et_range *expected, int range_count)
{
    const et_range *ranges;
    assert_int_equal(et_group_count(group), count);
    for (int i = 0; i < count; i++)
        assert_string_equal(et_params_name(et_group_params(group), et_group_param(group, i)),
                            names[i]);
    assert_int_equal(et_group_ranges(group, &ranges), range_count);
    int64_t size = 0;
    for (int i = 0; i < range_count; i++) {
        assert_int_equal(ranges[i].begin, expected[i].begin);
        assert_int_equal(ranges[i].end, expected[i].end);
        size += ranges[i].end - ranges[i].begin;
    }
    assert_int_equal(et_group_size(group), size);
}

static void test_group__prefixes(void **state)
{
    (void)state;
    static const char *const all[] = { "g/a", "d/a", "d/b", "g/b", "g/c", "d/c" };
    static const et_range one[] = { { 0, 96 } }, g[] = { { 0, 16 }, { 48, 80 } },
                          d[] = { { 16, 48 }, { 80, 96 } };
    et_params *params = make();
    et_group *group;
    assert_ok(et_group_new(&group, params, "", error));
    check(group, all, 6, one, 1);
    et_group_free(group);
    assert_ok(et_group_new(&group, params, "g/", error));
    check(group, (const char *const[]){ "g/a", "g/b", "g/c" }, 3, g, 2);
    et_group_free(group);
    assert_ok(et_group_new(&group, params, "d/", error));
    check(group, (const char *const[]){ "d/a", "d/b", "d/c" }, 3, d, 2);
    et_group_free(group);
    et_group_free(NULL);
    et_params_free(params);
}

static void test_group__expressions(void **state)
{
    (void)state;
    static const et_range two[] = { { 0, 32 } }, last[] = { { 64, 96 } };
    et_params *params = make();
    et_group *group;
    assert_ok(et_group_match(&group, params, "a$", error));
    check(group, (const char *const[]){ "g/a", "d/a" }, 2, two, 1);
    et_group_free(group);
    assert_ok(et_group_match(&group, params, "c", error));
    check(group, (const char *const[]){ "g/c", "d/c" }, 2, last, 1);
    et_group_free(group);
    et_params_free(params);
}

static void test_group__nothing_chosen(void **state)
{
    (void)state;
    et_params *params = make(), *empty;
    et_group *group;
    assert_fails(et_group_new(&group, params, "x/", error), ET_ECONFIG,
                 "no trained parameter has a name that begins with 'x/'; the first is g/a");
    assert_null(group);
    assert_fails(et_group_match(&group, params, "mean", error), ET_ECONFIG,
                 "no trained parameter has a name with 'mean'");
    assert_null(group);
    assert_fails(et_group_match(&group, params, "(", error), ET_ECONFIG, "a group");
    assert_ok(et_params_new(&empty, error));
    assert_ok(et_params_materialize(empty, false, error));
    assert_ok(et_group_new(&group, empty, "", error));
    assert_int_equal(et_group_count(group), 0);
    et_group_free(group);
    assert_fails(et_group_new(&group, empty, "x/", error), ET_ECONFIG, "'x/'; there are none");
    et_params_free(empty);
    et_params_free(params);
}

static void test_group__out_of_memory(void **state)
{
    (void)state;
    et_params *params = make();
    bool whole = false;
    for (long n = 0; !whole; n++) {
        et_error error = ET_ERROR_INIT;
        et_group *group;
        scarce_begin(n);
        int status = et_group_match(&group, params, "a", &error);
        whole = !scarce_failed;
        assert_int_equal(status, whole ? ET_OK : ET_ENOMEM);
        et_group_free(group);
        scarce_end();
        assert_true(n < 100);
    }
    et_params_free(params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_group__prefixes),
        cmocka_unit_test(test_group__expressions),
        cmocka_unit_test(test_group__nothing_chosen),
        cmocka_unit_test(test_group__out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
