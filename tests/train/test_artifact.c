/* A model in one file: it reads back as written, narrow weights are rounded once, and damage is
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/files/checksum.h"
#include "base/files/file.h"
#include "engine/tensor/params.h"
#include "train/checkpoint/artifact/artifact.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define FILE_NAME    "a.safetensors"

enum { ROWS = 37, COLUMNS = 21 };

static const char text[] = "experiment: none\n";
static const char bytes[] = { 'v', 0, '\xff', '\n' };

/* A table, a product's weight, a bias. */
static et_params *make_params(bool drawn)
{
    static const struct {
        const char *name;
        int64_t rows, columns;
    } rows[] = { { "a/table", ROWS, COLUMNS }, { "a/weight", ROWS, COLUMNS }, { "a/bias", 0, 5 } };
    et_params *params;
    int index;
    assert_int_equal(et_params_new(&params, NULL), ET_OK);
    for (size_t i = 0; i < COUNT(rows); i++) {
        et_shape shape =
            rows[i].rows ? et_shape_2(rows[i].rows, rows[i].columns) : et_shape_1(rows[i].columns);
        assert_int_equal(et_params_declare(params, rows[i].name, shape,
                                           (et_init){ ET_INIT_ZEROS, 0 }, &index, NULL),
                         ET_OK);
    }
    assert_int_equal(et_params_materialize(params, false, NULL), ET_OK);
    for (int64_t i = 0; drawn && i < et_params_flat_size(params); i++)
        et_params_values(params)[i] = sinf((float)(i * i)) * expf((float)(i % 17) - 8);
    return params;
}

static int export_to(const char *path, et_params *params, const char *precision, et_error *error)
{
    static const et_artifact_file texts[] = { { "params.yaml", text, sizeof text - 1 },
                                              { "vocabulary.model", bytes, sizeof bytes },
                                              { "empty", "", 0 } };
    const et_artifact_content model = {
        .texts = texts, .count = COUNT(texts), .params = params, .step = 12, .precision = precision
    };
    return et_artifact_write(&model, path, error);
}

static char *whole(const char *path, size_t *length)
{
    char *all;
    assert_int_equal(et_file_read(&all, length, path, 1 << 20, NULL), ET_OK);
    return all;
}

/* By a file's own name, or by an export that has one. */
static void test_artifact__read_named(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_params *params = make_params(true);
    char *read;
    size_t length;
    assert_int_equal(export_to(FILE_NAME, params, NULL, NULL), ET_OK);
    assert_int_equal(et_artifact_read_named(FILE_NAME, "params.yaml", 100, &read, &length, &error),
                     ET_OK);
    assert_string_equal(read, text);
    et_free(read);
    assert_int_equal(et_file_write("alone.yaml", "a: 1", 4, NULL), ET_OK);
    assert_int_equal(
        et_artifact_read_named("alone.yaml", "params.yaml", 100, &read, &length, &error), ET_OK);
    assert_string_equal(read, "a: 1");
    et_free(read);
    assert_int_equal(et_artifact_read_named(FILE_NAME, "none", 100, &read, &length, &error),
                     ET_ENOTFOUND);
    assert_int_equal(
        et_artifact_read_named("none.safetensors", "none", 100, &read, &length, &error),
        ET_ENOTFOUND);
    et_params_free(params);
}

/* Texts as files, whatever else the file has; a name that would lead elsewhere writes nothing. */
static void test_artifact__unpack(void **state)
{
    (void)state;
    static const char *const bad[] = { "../stray", "a/stray", "..", ".", "" };
    et_error error = ET_ERROR_INIT;
    et_params *params = make_params(true);
    et_artifact artifact;
    size_t length;
    assert_int_equal(export_to(FILE_NAME, params, NULL, NULL), ET_OK);
    assert_int_equal(et_artifact_open(&artifact, FILE_NAME, NULL), ET_OK);
    assert_int_equal(et_directory_make("unpacked", NULL), ET_OK);
    assert_int_equal(et_artifact_unpack(&artifact, "unpacked", NULL), ET_OK);
    et_artifact_close(&artifact);
    char *read = whole("unpacked/vocabulary.model", &length);
    assert_int_equal(length, sizeof bytes);
    assert_memory_equal(read, bytes, length);
    et_free(read);
    et_free(whole("unpacked/empty", &length));
    assert_int_equal(length, 0);
    for (size_t i = 0; i < COUNT(bad); i++) {
        const et_artifact_file texts[] = { { bad[i], text, sizeof text - 1 } };
        const et_artifact_content model = {
            .texts = texts, .count = 1, .params = params, .step = 12
        };
        assert_int_equal(et_artifact_write(&model, "bad.safetensors", NULL), ET_OK);
        assert_int_equal(et_artifact_open(&artifact, "bad.safetensors", NULL), ET_OK);
        assert_int_equal(et_artifact_unpack(&artifact, "unpacked", &error), ET_EFORMAT);
        assert_non_null(strstr(error.text, "is not a file name"));
        et_artifact_close(&artifact);
    }
    assert_false(et_file_exists("stray"));
    et_params_free(params);
}

static void load(et_params *params, const char *path)
{
    et_error error = ET_ERROR_INIT;
    et_artifact artifact;
    et_artifact_weights weights = { .artifact = &artifact, .params = params };
    if (et_artifact_open(&artifact, path, &error) || et_artifact_load(&weights, &error))
        fail_msg("%s", error.text);
    assert_int_equal(weights.facts.step, 12);
    assert_string_equal(weights.checkpoint, path);
    et_free(weights.checkpoint);
    et_artifact_close(&artifact);
}

static const float *values(et_params *params, const char *name)
{
    return et_params_values(params) + et_params_offset(params, et_params_find(params, name));
}

static void test_artifact__texts(void **state)
{
    (void)state;
    et_params *params = make_params(true);
    et_error error = ET_ERROR_INIT;
    et_arena arena = ET_ARENA_INIT;
    assert_int_equal(export_to(FILE_NAME, params, NULL, &error), ET_OK);
    size_t length;
    char *file = whole(FILE_NAME, &length), *read;
    for (int memory = 0; memory < 2; memory++) {
        et_artifact artifact;
        int status = memory ? et_artifact_open_memory(&artifact, file, length, &error)
                            : et_artifact_open(&artifact, FILE_NAME, &error);
        assert_int_equal(status, ET_OK);
        assert_true(et_artifact_is_file(&artifact));
        assert_string_equal(et_artifact_precision(&artifact), "float32");
        assert_true(et_artifact_has(&artifact, "empty"));
        assert_false(et_artifact_has(&artifact, "a/bias"));
        assert_int_equal(et_artifact_read(&artifact, "params.yaml", 100, &read, &length, &error),
                         0);
        assert_string_equal(read, text);
        et_free(read);
        size_t got;
        assert_int_equal(et_artifact_read(&artifact, "vocabulary.model", 4, &read, &got, &error),
                         ET_OK);
        assert_int_equal(got, sizeof bytes);
        assert_memory_equal(read, bytes, sizeof bytes);
        et_free(read);
        assert_int_equal(et_artifact_read(&artifact, "vocabulary.model", 3, &read, &got, &error),
                         ET_EFORMAT);
        assert_int_equal(et_artifact_read(&artifact, "none", 3, &read, &got, &error), ET_ENOTFOUND);
        assert_string_equal(et_artifact_path(&artifact, "x", &arena),
                            memory ? "the model in memory: x" : FILE_NAME ": x");
        et_artifact_close(&artifact);
        length = 0;
        et_free(file);
        file = whole(FILE_NAME, &length);
    }
    et_free(file);
    et_arena_release(&arena);
    et_params_free(params);
}

/* float32 unchanged; bfloat16 rounded as usual; bytes within half a unit. */
static void test_artifact__weights(void **state)
{
    (void)state;
    static const char *const precisions[] = { "float32", "bfloat16", "int8" };
    et_params *params = make_params(true), *read = make_params(false);
    for (size_t p = 0; p < COUNT(precisions); p++) {
        assert_int_equal(export_to(FILE_NAME, params, precisions[p], NULL), ET_OK);
        load(read, FILE_NAME);
        assert_memory_equal(values(read, "a/bias"), values(params, "a/bias"), 5 * sizeof(float));
        const float *table = values(params, "a/table"), *weight = values(params, "a/weight");
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < COLUMNS; j++) {
                const int at = i * COLUMNS + j;
                float largest_row = 0, largest_column = 0;
                for (int k = 0; k < COLUMNS; k++)
                    largest_row = fmaxf(largest_row, fabsf(table[i * COLUMNS + k]));
                for (int k = 0; k < ROWS; k++)
                    largest_column = fmaxf(largest_column, fabsf(weight[k * COLUMNS + j]));
                const float is = values(read, "a/table")[at], was = table[at];
                const float is_w = values(read, "a/weight")[at], was_w = weight[at];
                if (p == 0) {
                    assert_true(is == was && is_w == was_w);
                } else if (p == 1) {
                    assert_true(is == et_bf16_to_float(et_bf16_from_float(was)));
                } else {
                    assert_true(fabsf(is - was) <= 0.52f / 127 * 1.01f * largest_row);
                    assert_true(fabsf(is_w - was_w) <= 0.52f / 127 * 1.01f * largest_column);
                }
            }
    }
    et_params_free(read);
    et_params_free(params);
}

/* Exported, read and exported again: the same file. */
static void test_artifact__narrow_weights_stay(void **state)
{
    (void)state;
    static const char *const precisions[] = { "bfloat16", "int8" };
    et_params *params = make_params(true), *read = make_params(false);
    for (size_t p = 0; p < COUNT(precisions); p++) {
        size_t first, second;
        assert_int_equal(export_to(FILE_NAME, params, precisions[p], NULL), ET_OK);
        load(read, FILE_NAME);
        char *one = whole(FILE_NAME, &first);
        assert_int_equal(export_to(FILE_NAME, read, precisions[p], NULL), ET_OK);
        char *two = whole(FILE_NAME, &second);
        assert_int_equal(first, second);
        assert_memory_equal(one, two, first);
        et_free(one);
        et_free(two);
    }
    et_params_free(read);
    et_params_free(params);
}

/* All that a model is read by, of bytes that may be anything. */
static int read_all(et_params *params, const char *file, size_t length)
{
    et_artifact artifact;
    char *read = NULL;
    size_t got;
    int status = et_artifact_open_memory(&artifact, file, length, NULL);
    if (status)
        return status;
    status = et_artifact_read(&artifact, "vocabulary.model", 100, &read, &got, NULL);
    et_free(read);
    et_artifact_weights weights = { .artifact = &artifact, .params = params };
    if (!status)
        status = et_artifact_load(&weights, NULL);
    et_free(weights.checkpoint);
    et_artifact_close(&artifact);
    return status;
}

/* Each byte flipped, each length cut; at an odd address, as memory may be. */
static void test_artifact__damaged(void **state)
{
    (void)state;
    et_params *params = make_params(true), *read = make_params(false);
    assert_int_equal(export_to(FILE_NAME, params, "int8", NULL), ET_OK);
    size_t length;
    char *file = whole(FILE_NAME, &length), *odd = malloc(length + 1);
    assert_non_null(odd);
    memcpy(odd + 1, file, length);
    assert_int_equal(read_all(read, odd + 1, length), ET_OK);
    for (size_t i = 0; i < length; i++) {
        odd[1 + i] = (char)(odd[1 + i] ^ (1 << i % 8));
        if (!read_all(read, odd + 1, length))
            fail_msg("byte %zu of %zu is flipped, and nobody says so", i, length);
        odd[1 + i] = file[i];
        if (!read_all(read, odd + 1, i))
            fail_msg("%zu bytes of %zu are taken for all", i, length);
    }
    free(odd);
    et_free(file);
    et_params_free(read);
    et_params_free(params);
}

static void test_artifact__refused(void **state)
{
    (void)state;
    et_params *params = make_params(true), *other;
    et_error error = ET_ERROR_INIT;
    et_artifact artifact;
    int index;
    assert_int_equal(export_to("", params, NULL, &error), ET_ECONFIG);
    assert_int_equal(export_to(FILE_NAME, params, "int4", &error), ET_ECONFIG);
    assert_non_null(strstr(error.text, "precision int4: choose float32, bfloat16 or int8"));
    assert_int_equal(export_to("folder", params, "int8", &error), ET_ECONFIG);
    assert_non_null(
        strstr(error.text, "needs a single file: give a name that ends in .safetensors"));
    assert_int_equal(export_to("/nowhere/at/all.safetensors", params, NULL, &error), ET_ENOTFOUND);
    assert_int_equal(export_to("folder", params, NULL, &error), ET_OK);
    assert_int_equal(export_to("folder", params, NULL, &error), ET_ECONFIG);
    assert_non_null(
        strstr(error.text, "folder/params.yaml exists: choose another directory, or remove it"));
    assert_int_equal(et_artifact_open(&artifact, "folder/model.safetensors", &error), ET_EFORMAT);
    assert_non_null(strstr(error.text,
                           "has only weights, not a whole model; name the run's directory (and "
                           "this file with --checkpoint), or a file that `etude export` wrote"));
    assert_int_equal(et_artifact_open(&artifact, "folder/params.yaml", &error), ET_EFORMAT);
    assert_non_null(strstr(error.text, "is neither the directory of a run nor an exported model"));
    assert_int_equal(et_artifact_open_memory(&artifact, NULL, 5, &error), ET_ECONFIG);
    assert_int_equal(et_artifact_open_memory(&artifact, "", 0, &error), ET_EFORMAT);
    /* a model of other shapes */
    assert_int_equal(export_to(FILE_NAME, params, "int8", &error), ET_OK);
    assert_int_equal(et_params_new(&other, NULL), ET_OK);
    assert_int_equal(et_params_declare(other, "a/weight", et_shape_2(COLUMNS, ROWS),
                                       (et_init){ ET_INIT_ZEROS, 0 }, &index, NULL),
                     ET_OK);
    assert_int_equal(et_params_materialize(other, false, NULL), ET_OK);
    assert_int_equal(et_artifact_open(&artifact, FILE_NAME, &error), ET_OK);
    et_artifact_weights weights = { .artifact = &artifact, .params = other };
    assert_int_equal(et_artifact_load(&weights, &error), ET_ECONFIG);
    et_free(weights.checkpoint);
    assert_non_null(
        strstr(error.text, "a/weight is int8 [37, 21] in the file, but float32 [21, 37] here"));
    et_artifact_close(&artifact);
    et_params_free(other);
    et_params_free(params);
}

/* The same model as a directory and as one file: names of its texts in settings and messages, their
 * checksums, its weights; and the folder of a run. */
static void test_artifact__places(void **state)
{
    (void)state;
    static const char *const places[] = { "places/run", FILE_NAME };
    et_arena arena = ET_ARENA_INIT;
    et_error error = ET_ERROR_INIT;
    et_artifact artifact;
    et_params *params = make_params(true), *read = make_params(false);
    const size_t size = sizeof(float) * ROWS * COLUMNS;
    for (int i = 0; i < 2; i++) {
        uint64_t checksum;
        assert_int_equal(export_to(places[i], params, NULL, &error), ET_OK);
        assert_int_equal(et_artifact_open(&artifact, places[i], &error), ET_OK);
        assert_true(et_artifact_is_export(&artifact));
        assert_string_equal(et_artifact_setting(&artifact, "vocabulary.model", &arena),
                            i ? FILE_NAME : "places/run/vocabulary.model");
        assert_string_equal(et_artifact_path(&artifact, "vocabulary.model", &arena),
                            i ? FILE_NAME ": vocabulary.model" : "places/run/vocabulary.model");
        assert_int_equal(
            et_artifact_checksum(&artifact, "vocabulary.model", 100, &checksum, &error), ET_OK);
        assert_true(checksum == et_checksum(bytes, sizeof bytes));
        et_artifact_weights weights = { .artifact = &artifact, .params = read };
        memset(et_params_values(read), 0, (size_t)et_params_flat_size(read) * sizeof(float));
        assert_int_equal(et_artifact_load(&weights, &error), ET_OK);
        assert_string_equal(weights.checkpoint, i ? FILE_NAME : "places/run/model.safetensors");
        assert_memory_equal(values(read, "a/table"), values(params, "a/table"), size);
        assert_memory_equal(values(read, "a/weight"), values(params, "a/weight"), size);
        et_free(weights.checkpoint);
        et_artifact_close(&artifact);
    }
    assert_int_equal(et_artifact_open(&artifact, "places", &error), ET_OK);
    assert_false(et_artifact_is_export(&artifact));
    assert_int_equal(et_artifact_check_folder(&artifact, &error), ET_ENOTFOUND);
    assert_non_null(strstr(error.text, "places: a folder of runs; name one of them, such as "
                                       "places/run"));
    et_artifact_weights none = { .artifact = &artifact, .params = read };
    assert_int_equal(et_artifact_load(&none, &error), ET_ENOTFOUND);
    assert_non_null(strstr(error.text, "places: no checkpoint yet"));
    et_free(none.checkpoint);
    et_artifact_close(&artifact);
    et_arena_release(&arena);
    et_params_free(read);
    et_params_free(params);
}

static char folder[] = "artifact.XXXXXX";

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(folder) && !chdir(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    static const char *const folders[] = { "folder", "unpacked", "places/run", "places" };
    static const char *const made[] = { "params.yaml", "vocabulary.model", "empty",
                                        "model.safetensors" };
    for (size_t i = 0; i < COUNT(folders); i++) {
        for (size_t k = 0; k < COUNT(made); k++) {
            char path[64];
            snprintf(path, sizeof path, "%s/%s", folders[i], made[k]);
            unlink(path);
        }
        rmdir(folders[i]);
    }
    unlink(FILE_NAME);
    unlink("alone.yaml");
    unlink("bad.safetensors");
    return chdir("..") || rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_artifact__read_named),
        cmocka_unit_test(test_artifact__unpack),
        cmocka_unit_test(test_artifact__texts),
        cmocka_unit_test(test_artifact__weights),
        cmocka_unit_test(test_artifact__narrow_weights_stay),
        cmocka_unit_test(test_artifact__damaged),
        cmocka_unit_test(test_artifact__refused),
        cmocka_unit_test(test_artifact__places),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
