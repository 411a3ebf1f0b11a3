#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <etude/results.h>

typedef struct inner {
    double rate;
    bool nesterov;
} inner;

typedef struct outer {
    int64_t steps;
    const char *path;
    inner sgd;
} outer;

static const et_field inner_rows[] = {
    ET_FIELD_FLOAT(inner, rate, 0.5, 0, 1, "rate"),
    ET_FIELD_BOOL(inner, nesterov, false, "ahead"),
    ET_FIELD_END,
};
static const et_fields inner_table = { "sgd", inner_rows };
static const et_field outer_rows[] = {
    ET_FIELD_INT(outer, steps, 7, 1, 1000, "steps"),
    ET_FIELD_STRING(outer, path, NULL, "a file"),
    ET_FIELD_STRUCT(outer, sgd, &inner_table, "an optimizer"),
    ET_FIELD_END,
};
static const et_fields table = { "program", outer_rows };

static char directory[32], here[512];

static int enter(void **state)
{
    (void)state;
    strcpy(directory, "results-XXXXXX");
    return !getcwd(here, sizeof here) || !mkdtemp(directory) || chdir(directory) ? -1 : 0;
}

static int leave(void **state)
{
    char command[64];
    (void)state;
    snprintf(command, sizeof command, "rm -rf ./%s", directory);
    return chdir(here) || system(command);
}

static et_results *open_results(const char *path, const char *name)
{
    et_results *results = NULL;
    et_error error = ET_ERROR_INIT;
    if (et_results_open(&results, path, name, &error))
        fail_msg("%s", error.text);
    return results;
}

static void check_file(const char *path, const char *expected)
{
    char text[2048];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    assert_string_equal(text, expected);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* Each value is on disk at once; a second start appends. */
static void test_results__values(void **state)
{
    (void)state;
    et_results *results = open_results(NULL, "mnist");
    assert_string_equal(et_results_directory(results), "results/mnist");
    assert_int_equal(et_results_set(results, "loss", 0.25, NULL), ET_OK);
    check_file("results/mnist/result.json", "{\n    \"loss\": 0.25\n}\n");
    et_results_close(results);
    results = open_results("results/mnist", NULL);
    et_arena *arena = et_arena_new();
    et_value *values = et_value_dict(arena);
    et_value_set_int(et_value_set_dict(values, "test"), "right", 9840);
    et_value_set_float(values, "loss", (double)NAN);
    assert_int_equal(et_results_update(results, values, NULL), ET_OK);
    assert_int_equal(et_value_path(et_results_values(results), "test.right")->integer, 9840);
    check_file("results/mnist/result.json",
               "{\n    \"loss\": null,\n    \"test\": {\n        \"right\": 9840\n    }\n}\n");
    et_arena_free(arena);
    et_results_close(results);
}

/* By name; if the starter gave the run its own directory, the files are in that. */
static void test_results__for_people(void **state)
{
    (void)state;
    char start[400];
    assert_non_null(getcwd(start, sizeof start));
    assert_int_equal(mkdir("given", 0777), 0);
    assert_int_equal(chdir("given"), 0);
    setenv("MLSTORAGE_EXPERIMENT_ID", "17", 1);
    et_results *results = open_results(NULL, "mnist");
    unsetenv("MLSTORAGE_EXPERIMENT_ID");
    assert_string_equal(et_results_directory(results), ".");
    et_arena *arena = et_arena_new();
    assert_string_equal(et_results_format(results, arena), "");
    et_value *values = et_value_dict(arena);
    et_value_set_float(values, "test_loss", 0.123456789);
    et_value_set_float(values, "acc", 0.5);
    et_value_set_int(values, "steps", 12345678);
    et_value_set_float(et_value_set_dict(values, "part"), "one", 1.5);
    assert_int_equal(et_results_update(results, values, NULL), ET_OK);
    assert_string_equal(et_results_format(results, arena), "acc        0.5\n"
                                                           "part       {\"one\":1.5}\n"
                                                           "steps      12345678\n"
                                                           "test_loss  0.123457\n");
    et_arena_free(arena);
    et_results_close(results);
    assert_int_equal(chdir(start), 0);
    struct stat status;
    assert_int_equal(stat("given/result.json", &status), 0);
    assert_int_not_equal(stat("given/results", &status), 0);
}

/* Two such names would be one in the file, which could not be read again. */
static void test_results__names_in_utf8(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_results *results = open_results("results/latin", NULL);
    assert_int_equal(et_results_set(results, "caf\xc3\xa9", 1, NULL), ET_OK);
    assert_int_equal(et_results_set(results, "caf\xe9", 1, &error), ET_EDATA);
    assert_non_null(strstr(error.text, "the name is not UTF-8"));
    et_results_close(results);
    results = open_results("results/latin", NULL);
    assert_int_equal(et_results_values(results)->count, 1);
    et_results_close(results);
}

/* Settings with their default values are not in config.json. */
static void test_results__settings(void **state)
{
    (void)state;
    outer now, defaults;
    et_results *results = open_results("here", NULL);
    et_fields_defaults(&table, &now);
    et_fields_defaults(&table, &defaults);
    assert_int_equal(et_results_save_config(results, &table, &now, &defaults, NULL), ET_OK);
    check_file("here/config.json", "{}\n");
    now.path = "a.txt";
    now.sgd.nesterov = true;
    assert_int_equal(et_results_save_config(results, &table, &now, &defaults, NULL), ET_OK);
    check_file("here/config.json", "{\n    \"path\": \"a.txt\",\n    \"sgd\": {\n        "
                                   "\"nesterov\": true\n    }\n}\n");
    check_file("here/config.defaults.json",
               "{\n    \"steps\": 7,\n    \"path\": null,\n    \"sgd\": {\n        \"rate\": 0.5,\n"
               "        \"nesterov\": false\n    }\n}\n");
    struct stat status;
    assert_int_equal(et_results_make_directory(results, "plots/first", NULL), ET_OK);
    assert_int_equal(stat("here/plots/first", &status), 0);
    et_results_close(results);
}

static void test_results__mistakes(void **state)
{
    (void)state;
    et_results *results;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_results_open(&results, NULL, NULL, &error), ET_ECONFIG);
    assert_non_null(strstr(error.text, "give a directory for results, or a name for it"));
    assert_int_equal(mkdir("torn", 0777), 0);
    write_file("torn/result.json", "{\"loss\": ");
    assert_int_equal(et_results_open(&results, "torn", NULL, &error), ET_EFORMAT);
    assert_non_null(strstr(error.text, "torn/result.json"));
    write_file("torn/result.json", "[1]");
    assert_int_equal(et_results_open(&results, "torn", NULL, &error), ET_EFORMAT);
    assert_non_null(strstr(error.text, "expected an object of named results"));
    write_file("torn/result.json", "{\"loss\": 1}");
    results = open_results("torn", NULL);
    assert_int_equal(system("rm -rf torn"), 0);
    assert_int_not_equal(et_results_set(results, "loss", 2, &error), ET_OK);
    assert_true(et_value_get(et_results_values(results), "loss")->integer == 1);
    et_results_close(results);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results__values),        cmocka_unit_test(test_results__for_people),
        cmocka_unit_test(test_results__names_in_utf8), cmocka_unit_test(test_results__settings),
        cmocka_unit_test(test_results__mistakes),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
