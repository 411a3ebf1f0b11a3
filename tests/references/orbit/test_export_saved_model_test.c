/* Orbit, orbit/actions/export_saved_model_test.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <dirent.h>

#include <etude/checkpoint.h>
#include <etude/ready_actions.h>

#include "formats/files.h"

/* "0 1 2 ", the numbers of the entries of a directory. */
static const char *numbers(const char *directory)
{
    static char text[200];
    struct dirent **entries;
    const int count = scandir(directory, &entries, NULL, versionsort);
    assert_true(count >= 0);
    text[0] = 0;
    for (int i = 0; i < count; i++) {
        if (strncmp(entries[i]->d_name, ".", 1))
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s ",
                     entries[i]->d_name + strlen("basename-"));
        free(entries[i]);
    }
    free(entries);
    return text;
}

static bool has_entries(const char *directory)
{
    return rmdir(directory) != 0 || mkdir(directory, 0777) != 0;
}

/* The paths of a manager, the prefix left out: "-0 -1 ". */
static const char *managed(const et_exports *exports, const char *prefix)
{
    static char text[400];
    et_arena *arena = et_arena_new();
    et_value *list = et_value_set_list(et_value_dict(arena), "list");
    assert_ok(et_exports_managed(exports, list, error));
    text[0] = 0;
    for (const et_value *v = list->first; v; v = v->next) {
        assert_int_equal(strncmp(v->string, prefix, strlen(prefix)), 0);
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s ",
                 v->string + strlen(prefix));
    }
    et_arena_free(arena);
    return text;
}

static et_exports *open_exports(const char *base_name, int64_t max_to_keep,
                                const et_exports_options *options)
{
    et_exports *exports;
    assert_ok(et_exports_open(&exports, base_name, max_to_keep, options, error));
    return exports;
}

/* Makes a file of the next name, with its directory. */
static void make_next(et_exports *exports)
{
    const char *name;
    char directory[600];
    assert_ok(et_exports_next_name(exports, &name, error));
    snprintf(directory, sizeof directory, "%s", name);
    *strrchr(directory, '/') = 0;
    mkdir(directory, 0777);
    put_file(name, "x", 1);
}

static void test_export_saved_model_test__export_file_manager_default_ids(void **state)
{
    const char *directory = in(state, "default_ids"), *base = in(state, "default_ids/basename");
    const char *name;
    et_exports *exports = open_exports(base, 3, NULL);
    static const char *const expected[] = { "0 ", "0 1 ", "0 1 2 ", "0 1 2 3 " };
    for (int i = 0; i < 4; i++) {
        make_next(exports);
        assert_string_equal(numbers(directory), expected[i]);
        if (i < 3)
            assert_ok(et_exports_clean_up(exports, error));
        assert_string_equal(numbers(directory), expected[i]);
    }
    assert_ok(et_exports_clean_up(exports, error));
    assert_string_equal(numbers(directory), "1 2 3 ");
    et_exports_close(exports);
    exports = open_exports(base, 3, NULL);
    assert_ok(et_exports_next_name(exports, &name, error));
    assert_string_equal(name + strlen(base), "-4");
    et_exports_close(exports);
}

static int64_t given_id(void *id)
{
    return *(int64_t *)id;
}

static void test_export_saved_model_test__export_file_manager_custom_ids(void **state)
{
    const char *directory = in(state, "custom_ids"), *base = in(state, "custom_ids/basename");
    int64_t id = 0;
    et_exports *exports =
        open_exports(base, 2, &(et_exports_options){ .next_id = given_id, .payload = &id });
    id = 30;
    make_next(exports);
    assert_ok(et_exports_clean_up(exports, error));
    assert_string_equal(numbers(directory), "30 ");
    id = 200;
    make_next(exports);
    assert_ok(et_exports_clean_up(exports, error));
    assert_string_equal(numbers(directory), "30 200 ");
    id = 1000;
    make_next(exports);
    assert_string_equal(numbers(directory), "30 200 1000 ");
    assert_ok(et_exports_clean_up(exports, error));
    assert_string_equal(numbers(directory), "200 1000 ");
    et_exports_close(exports);
}

static void test_export_saved_model_test__export_file_manager_with_suffix(void **state)
{
    static const int64_t ids[] = { 30, 200, 1000 };
    static const char *const expected[] = { "30 ", "30 200 ", "30 200 1000 " };
    const char *directory = in(state, "suffix"), *base = in(state, "suffix/basename");
    int64_t id = 0;
    et_exports *exports = open_exports(
        base, 2,
        &(et_exports_options){ .next_id = given_id, .payload = &id, .subdirectory = "sub" });
    assert_int_equal(mkdir(directory, 0777), 0);
    assert_string_equal(numbers(directory), "");
    for (int i = 0; i < 3; i++) {
        id = ids[i];
        make_next(exports);
        assert_ok(et_exports_clean_up(exports, error));
        assert_string_equal(numbers(directory), expected[i]);
    }
    assert_true(file_is_there(in(state, "suffix/basename-1000/sub")));
    et_exports_close(exports);
}

static void
test_export_saved_model_test__export_file_manager_with_suffix_second_cleanup_succeeds(void **state)
{
    static const int64_t ids[] = { 30, 200, 1000, 2000 };
    const char *directory = in(state, "second"), *base = in(state, "second/basename");
    int64_t id = 0;
    et_exports *exports = open_exports(
        base, 2,
        &(et_exports_options){ .next_id = given_id, .payload = &id, .subdirectory = "sub" });
    assert_int_equal(mkdir(directory, 0777), 0);
    for (int i = 0; i < 3; i++) {
        id = ids[i];
        make_next(exports);
    }
    assert_ok(et_exports_clean_up(exports, error));
    assert_string_equal(numbers(directory), "30 200 1000 ");
    assert_false(has_entries(below(directory, "basename-30")));
    assert_true(has_entries(below(directory, "basename-200")));
    assert_true(has_entries(below(directory, "basename-1000")));
    id = ids[3];
    make_next(exports);
    assert_ok(et_exports_clean_up(exports, error));
    assert_false(has_entries(below(directory, "basename-30")));
    assert_false(has_entries(below(directory, "basename-200")));
    assert_true(has_entries(below(directory, "basename-1000")));
    assert_true(has_entries(below(directory, "basename-2000")));
    et_exports_close(exports);
}

/* base: as it is given; normal: as it is in paths. */
static void check_managed(const char *directory, const char *base, const char *normal)
{
    static const char *const names[] = { "basename-5",    "basename-10", "basename-50",
                                         "basename-1000", "basename-9",  "basename-10-suffix" };
    const char *name;
    for (int i = 0; i < 6; i++)
        put_file(below(directory, names[i]), "x", 1);
    et_exports *exports = open_exports(base, 3, NULL);
    assert_string_equal(managed(exports, normal), "-5 -9 -10 -50 -1000 ");
    assert_ok(et_exports_next_name(exports, &name, error));
    assert_int_equal(strncmp(name, normal, strlen(normal)), 0);
    assert_string_equal(name + strlen(normal), "-1001");
    assert_ok(et_exports_clean_up(exports, error));
    assert_string_equal(managed(exports, normal), "-10 -50 -1000 ");
    assert_true(file_is_there(below(directory, "basename-10-suffix")));
    et_exports_close(exports);
}

static void test_export_saved_model_test__export_file_manager_managed_files(void **state)
{
    const char *directory = in(state, "managed"), *base = in(state, "managed/basename");
    assert_int_equal(mkdir(directory, 0777), 0);
    check_managed(directory, base, base);
}

static void
test_export_saved_model_test__export_file_manager_managed_files_double_slash(void **state)
{
    assert_int_equal(mkdir(in(state, "foo"), 0777), 0);
    assert_int_equal(mkdir(in(state, "foo/bar"), 0777), 0);
    check_managed(in(state, "foo/bar"), in(state, "foo//bar/basename"),
                  in(state, "foo/bar/basename"));
}

/* The model is a variable, and a call of it gives the value. */
static et_params *new_model(void)
{
    et_params *model;
    int index;
    assert_ok(et_params_new(&model, error));
    assert_ok(et_params_declare_variable(model, "value", et_shape_scalar(),
                                         (et_init){ ET_INIT_ZEROS, 0 }, &index, error));
    assert_ok(et_params_materialize(model, false, error));
    return model;
}

static void test_export_saved_model_test__export_saved_model(void **state)
{
    static const char *const expected[] = { "-0 ", "-0 -1 ", "-1 -2 " };
    const char *base = in(state, "model/basename");
    et_params *model = new_model(), *reloaded = new_model();
    et_exports *exports = open_exports(base, 2, NULL);
    et_export_action action;
    char weights[600];
    et_export_action_init(&action, "export", exports, model, NULL);
    assert_string_equal(managed(exports, base), "");
    for (int i = 0; i < 3; i++) {
        const float value = (float)(3 + 2 * i);
        et_params_begin_change(model);
        et_params_values(model)[0] = value;
        et_params_changed(model, true);
        assert_ok(action.kind.act(&action.action, &(et_action_context){ .step = 0 }, error));
        assert_string_equal(managed(exports, base), expected[i]);
        snprintf(weights, sizeof weights, "%s-%d/weights.safetensors", base, i);
        assert_ok(et_checkpoint_load_weights(reloaded, weights, false, NULL, error));
        assert_true(et_params_values(reloaded)[0] == value);
    }
    et_exports_close(exports);
    et_params_free(model);
    et_params_free(reloaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_export_saved_model_test__export_file_manager_default_ids),
        cmocka_unit_test(test_export_saved_model_test__export_file_manager_custom_ids),
        cmocka_unit_test(test_export_saved_model_test__export_file_manager_with_suffix),
        cmocka_unit_test(
            test_export_saved_model_test__export_file_manager_with_suffix_second_cleanup_succeeds),
        cmocka_unit_test(test_export_saved_model_test__export_file_manager_managed_files),
        cmocka_unit_test(
            test_export_saved_model_test__export_file_manager_managed_files_double_slash),
        cmocka_unit_test(test_export_saved_model_test__export_saved_model),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
