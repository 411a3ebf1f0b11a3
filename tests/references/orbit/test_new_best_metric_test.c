/* Orbit, orbit/actions/new_best_metric_test.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <etude/ready_actions.h>

#include "formats/files.h"

static int value_of(void *payload, const et_value *logs, double *out, et_error *error)
{
    (void)payload;
    return et_value_read_float(logs, "value", out, error);
}

/* Whether {"value": value} is a new best. */
static bool is_new(et_new_best *best, double value, bool commits)
{
    bool yes;
    et_arena *arena = et_arena_new();
    et_value *logs = et_value_dict(arena);
    et_value_set_float(logs, "value", value);
    assert_ok(commits ? et_new_best_commit(best, logs, &yes, error)
                      : et_new_best_test(best, logs, &yes, error));
    et_arena_free(arena);
    return yes;
}

static et_new_best *open_best(const et_new_best_options *options)
{
    et_new_best *best;
    assert_ok(et_new_best_open(&best, options, error));
    return best;
}

static void test_new_best_metric_test__new_best_metric_higher_is_better(void **state)
{
    et_new_best *best = open_best(&(et_new_best_options){ .value = value_of });
    (void)state;
    assert_true(is_new(best, 0, false));
    assert_true(is_new(best, 0, true));
    assert_false(is_new(best, 0, false));
    assert_true(is_new(best, 1, false));
    et_new_best_close(best);
}

static void test_new_best_metric_test__new_best_metric_lower_is_better(void **state)
{
    et_new_best *best =
        open_best(&(et_new_best_options){ .metric = "value", .lower_is_better = true });
    (void)state;
    assert_true(is_new(best, 0, false));
    assert_true(is_new(best, 0, true));
    assert_false(is_new(best, 0, false));
    assert_true(is_new(best, -1, false));
    et_new_best_close(best);
}

static void test_new_best_metric_test__new_best_metric_persistence(void **state)
{
    const char *path = in(state, "best");
    et_new_best_options options = { .metric = "value", .filename = path, .read_only = true };
    put_file(path, "", 0);
    et_new_best *best = open_best(&options);
    assert_true(is_new(best, 0, false));
    assert_true(is_new(best, 0, true));
    assert_false(is_new(best, 0, false));
    et_new_best_close(best);
    options.read_only = false;
    best = open_best(&options);
    assert_true(et_new_best_value(best) < 0);
    assert_true(is_new(best, 5, true));
    assert_true(et_new_best_value(best) == 5);
    et_new_best_close(best);
    best = open_best(&options);
    assert_true(et_new_best_value(best) == 5);
    et_new_best_close(best);
}

/* Opens the file and checks its value: {"a": 1, "b": 2}, or with is_list [1, 2, 3]. */
static et_persisted_value *open_value(const char *path, const et_value *initial, bool read_only,
                                      bool is_list)
{
    et_persisted_value *kept;
    assert_ok(et_persisted_value_open(&kept, initial, path, read_only, error));
    const et_value *value = et_persisted_value_read(kept);
    assert_int_equal(value->kind, is_list ? ET_VALUE_LIST : ET_VALUE_DICT);
    assert_int_equal(value->count, is_list ? 3 : 2);
    int64_t expected = 1;
    for (const et_value *v = value->first; v; v = v->next)
        assert_int_equal(v->integer, expected++);
    if (!is_list)
        assert_string_equal(value->first->key, "a");
    return kept;
}

static et_value *a_and_b(et_arena *arena)
{
    et_value *dict = et_value_dict(arena);
    et_value_set_int(dict, "a", 1);
    et_value_set_int(dict, "b", 2);
    return dict;
}

static void test_new_best_metric_test__json_persisted_value(void **state)
{
    const char *path = in(state, "value");
    et_arena *arena = et_arena_new();
    et_value *others = et_value_dict(arena), *list = et_value_set_list(others, "list");
    const et_value *ignored = et_value_set_string(others, "ignored", "ignored");
    for (int i = 1; i <= 3; i++)
        et_value_add_int(list, i);
    put_file(path, "", 0);
    et_persisted_value_close(open_value(path, a_and_b(arena), false, false));
    et_persisted_value *kept = open_value(path, ignored, false, false);
    assert_ok(et_persisted_value_write(kept, list, error));
    et_persisted_value_close(kept);
    kept = open_value(path, ignored, true, true);
    assert_ok(et_persisted_value_write(kept, ignored, error));
    assert_string_equal(et_persisted_value_read(kept)->string, "ignored");
    et_persisted_value_close(kept);
    et_persisted_value_close(open_value(path, ignored, true, true));
    et_arena_free(arena);
}

static void test_new_best_metric_test__json_persisted_value_create_dirs(void **state)
{
    const char *path = in(state, "subdir/value");
    et_arena *arena = et_arena_new();
    et_persisted_value_close(open_value(path, a_and_b(arena), true, false));
    assert_false(file_is_there(in(state, "subdir")));
    et_persisted_value_close(open_value(path, a_and_b(arena), false, false));
    assert_true(file_is_there(path));
    et_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_best_metric_test__new_best_metric_higher_is_better),
        cmocka_unit_test(test_new_best_metric_test__new_best_metric_lower_is_better),
        cmocka_unit_test(test_new_best_metric_test__new_best_metric_persistence),
        cmocka_unit_test(test_new_best_metric_test__json_persisted_value),
        cmocka_unit_test(test_new_best_metric_test__json_persisted_value_create_dirs),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
