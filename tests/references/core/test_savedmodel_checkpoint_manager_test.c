/* Model Garden, official/core/savedmodel_checkpoint_manager_test.py. The exports of a checkpoint
 * are EXPORT-STEP/model_1 and EXPORT-STEP/model_2. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include <etude/checkpoint.h>
#include <etude/ready_actions.h>

#include "formats/files.h"

#define MODELS 2

typedef struct manager {
    char directory[700];
    float weights[4];
    et_state *state;
    et_checkpoints *checkpoints;
    et_exports *models[MODELS];
} manager;

static void open_manager(manager *m, void **state, const char *name, int64_t max_to_keep)
{
    static const char *const names[MODELS] = { "model_1", "model_2" };
    *m = (manager){ .weights = { 1, 2, 3, 4 } };
    snprintf(m->directory, sizeof m->directory, "%s", in(state, name));
    assert_ok(et_state_new(&m->state, error));
    assert_ok(et_state_add_tensor(m->state, "weights", m->weights, et_shape_1(4), error));
    assert_ok(et_checkpoints_open(&m->checkpoints, m->directory, m->state,
                                  &(et_checkpoint_options){ .max_to_keep = max_to_keep }, error));
    for (int i = 0; i < MODELS; i++) {
        const et_exports_options options = { .subdirectory = names[i] };
        assert_ok(et_exports_open(&m->models[i], below(m->directory, "export"), max_to_keep,
                                  &options, error));
    }
}

static void close_manager(manager *m)
{
    for (int i = 0; i < MODELS; i++)
        et_exports_close(m->models[i]);
    assert_ok(et_checkpoints_close(m->checkpoints, error));
    et_state_free(m->state);
}

static void save(manager *m, int64_t step)
{
    assert_ok(et_checkpoints_save(m->checkpoints, step, error));
    assert_ok(et_checkpoints_wait(m->checkpoints, error));
    for (int i = 0; i < MODELS; i++)
        assert_ok(et_exports_follow(m->models[i], m->directory, NULL, error));
}

static bool models_exist(const manager *m, int64_t step)
{
    char one[900], two[900];
    snprintf(one, sizeof one, "%s/export-%d/model_1", m->directory, (int)step);
    snprintf(two, sizeof two, "%s/export-%d/model_2", m->directory, (int)step);
    return file_is_there(one) && file_is_there(two);
}

static void test_savedmodel_checkpoint_manager_test__max_to_keep(void **state)
{
    manager m;
    et_arena *arena = et_arena_new();
    open_manager(&m, state, "keep", 1);
    save(&m, 1);
    assert_true(models_exist(&m, 1));
    save(&m, 2);
    et_value *list = et_value_set_list(et_value_dict(arena), "exports");
    assert_ok(et_exports_managed(m.models[0], list, error));
    assert_int_equal(list->count, 1);
    assert_non_null(strstr(list->last->string, "export-2/model_1"));
    assert_true(models_exist(&m, 2));
    assert_false(models_exist(&m, 1));
    close_manager(&m);
    et_arena_free(arena);
}

/* Differs: it waits the whole time; the reference stops when less than a sleep is left. */
static void test_savedmodel_checkpoint_manager_test__returns_none_after_timeout(void **state)
{
    struct timespec begin, end;
    manager m;
    int64_t id = 7;
    const char *path = "";
    open_manager(&m, state, "timeout", 1);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    assert_ok(et_exports_wait(m.models[0], -1, 0.1, &id, &path, error));
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert_true(
        (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9 >= 0.1);
    assert_int_equal(id, -1);
    assert_null(path);
    close_manager(&m);
}

static void test_savedmodel_checkpoint_manager_test__saved_model_iterator(void **state)
{
    manager m;
    int64_t id = -1;
    const char *path;
    et_arena *arena = et_arena_new();
    open_manager(&m, state, "iterator", 2);
    for (int64_t step = 1; step <= 3; step++)
        save(&m, step);
    et_value *list = et_value_set_list(et_value_dict(arena), "exports");
    assert_ok(et_exports_managed(m.models[1], list, error));
    assert_int_equal(list->count, 2);
    assert_false(models_exist(&m, 1));
    assert_true(models_exist(&m, 2) && models_exist(&m, 3));
    for (const et_value *expected = list->first; expected; expected = expected->next) {
        assert_ok(et_exports_wait(m.models[1], id, 3, &id, &path, error));
        assert_string_equal(path, expected->string);
    }
    assert_int_equal(id, 3);
    assert_ok(et_exports_wait(m.models[1], id, 0, &id, NULL, error));
    assert_int_equal(id, -1);
    close_manager(&m);
    et_arena_free(arena);
}

static bool is_over(int *calls)
{
    return ++*calls > 3;
}

static void test_savedmodel_checkpoint_manager_test__saved_model_iterator_timeout_fn(void **state)
{
    manager m;
    int64_t id = -1;
    int calls = 0, found = 0;
    open_manager(&m, state, "timeout_fn", 1);
    do {
        assert_ok(et_exports_wait(m.models[0], id, 0.01, &id, NULL, error));
        found += id >= 0;
    } while (id >= 0 || !is_over(&calls));
    assert_int_equal(found, 0);
    assert_int_equal(calls, 4);
    close_manager(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_savedmodel_checkpoint_manager_test__max_to_keep),
        cmocka_unit_test(test_savedmodel_checkpoint_manager_test__returns_none_after_timeout),
        cmocka_unit_test(test_savedmodel_checkpoint_manager_test__saved_model_iterator),
        cmocka_unit_test(test_savedmodel_checkpoint_manager_test__saved_model_iterator_timeout_fn),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
