/* Rows in a cache file equal those in memory, as long as their sources are the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <unistd.h>

#include "base/files/checksum.h"
#include "data/table/table.h"
#include "data/table_rows.h"

/* In memory and from a file: the same samples, bit for bit, with the same fingerprint. */
static void test_table_cache__same_rows(void **state)
{
    fixture *f = *state;
    const char *paths[] = { write_many(f, "c0.csv", 0, 70), write_many(f, "c1.csv", 70, 1031) };
    const char *folder = fixture_path(f, "rows/of it");
    et_samples *memory = NULL, *file = NULL;
    char left[100], right[100];
    f->logged = 0;
    for (int i = 0; i < 3; i++) {
        /* Written, used, and used although there would be room in memory. */
        const et_table_samples_options small = { .cache = folder, .memory = i < 2 };
        assert_ok(open_table(&memory, paths, 2, (et_table_samples_options){ .csv = { 0 } }, error));
        assert_ok(open_table(&file, paths, 2, small, error));
        assert_non_null(find_file(f, folder, ".rows"));
        assert_true(memory->fingerprint == file->fingerprint);
        assert_int_equal(memory->count, file->count);
        for (uint32_t k = 0; k < 1101; k += 50) {
            memory->class->describe(memory, k, 0, left, sizeof left);
            file->class->describe(file, k, 0, right, sizeof right);
            assert_string_equal(left, right);
        }
        assert_string_equal(read_all(f, memory, false), read_all(f, file, false));
    }
    assert_int_equal(f->logged, 0);
    /* If the rows fit into memory, no file is made. */
    const char *other = fixture_path(f, "other");
    assert_ok(open_table(&file, paths, 2, (et_table_samples_options){ .cache = other }, error));
    et_samples_close(file);
    assert_null(find_file(f, other, ".rows"));
    /* A folder that cannot be. */
    const char *none = et_arena_printf(&f->arena, "%s/in", paths[0]);
    assert_fails(open_table(&file, paths, 2,
                            (et_table_samples_options){ .cache = none, .memory = 1 }, error),
                 ET_EDENIED, "c0.csv");
}

/* Other contents, another encoder, other options: other rows. */
static void test_table_cache__is_by_content(void **state)
{
    fixture *f = *state;
    const char *folder = fixture_path(f, "rows");
    const et_table_samples_options small = { .cache = folder, .memory = 1 };
    et_table_samples_options keep = small;
    keep.keep_unlabelled = true;
    et_samples *samples = NULL;
    assert_ok(open_text(&samples, f, "age,job,income\n1,a,low\n2,a,?\n", small, error));
    assert_string_equal(read_all(f, samples, false), "1/0/0");
    assert_ok(open_text(&samples, f, "age,job,income\n1,a,low\n2,a,?\n", keep, error));
    assert_string_equal(read_all(f, samples, false), "1/0/0 2/0/-1");
    assert_ok(open_text(&samples, f, "age,job,income\n1,a,low\n3,a,?\n", keep, error));
    assert_string_equal(read_all(f, samples, false), "1/0/0 3/0/-1");
}

/* Any byte wrong: a warning, and the rows are made again. */
static void test_table_cache__damaged(void **state)
{
    fixture *f = *state;
    const char *paths[] = { write_many(f, "d.csv", 0, 30) };
    const char *folder = fixture_path(f, "rows");
    const et_table_samples_options small = { .cache = folder, .memory = 1 };
    et_samples *samples = NULL;
    assert_ok(open_table(&samples, paths, 1, small, error));
    const char *right = read_all(f, samples, false), *path = find_file(f, folder, ".rows");
    char *bytes;
    size_t length;
    assert_ok(et_file_read(&bytes, &length, path, 100000, error));
    assert_int_equal(length, 32 + 30 * 16 + 8 + 48);
    for (size_t at = 0; at < length; at += at < 40 || at > 510 ? 1 : 7) {
        bytes[at] ^= 16;
        overwrite(path, bytes, length);
        bytes[at] ^= 16;
        f->logged = 0;
        assert_ok(open_table(&samples, paths, 1, small, error));
        bool key = at >= 16 && at < 24; /* the key of other rows, or a checksum that does not match
                                         */
        assert_int_equal(f->logged, 1);
        assert_contains(f->log, key ? "is damaged (head)" : "is damaged");
        assert_string_equal(read_all(f, samples, false), right);
    }
    for (size_t cut = 0; cut < length; cut += 13) {
        overwrite(path, bytes, cut);
        f->logged = 0;
        assert_ok(open_table(&samples, paths, 1, small, error));
        assert_int_equal(f->logged, 1);
        assert_string_equal(read_all(f, samples, false), right);
    }
    et_free(bytes);
}

/* Made with intent, so that every checksum is right: ids outside their tables are found. */
static void test_table_cache__made(void **state)
{
    fixture *f = *state;
    const char *paths[] = { write_many(f, "i.csv", 0, 30) };
    const char *folder = fixture_path(f, "rows");
    const et_table_samples_options small = { .cache = folder, .memory = 1 };
    static const struct {
        size_t at; /* in the file */
        int32_t value;
        const char *fault;
    } cases[] = {
        { 32 + 4, 4, "rows" },         { 32 + 4, -1, "rows" },     { 32 + 16 + 8, 2, "rows" },
        { 32 + 16 + 8, -2, "rows" },   { 32, 0x7f800000, "rows" }, { 32 + 480, 1, "files" },
        { 32 + 480 + 4, -1, "files" }, { 32 + 488, 31, "size" },   { 32 + 488 + 4, -1, "size" },
        { 32 + 488 + 8, 2, "size" },   { 12, 12, "size of rows" }, { 8, 2, "head" },
    };
    et_samples *samples = NULL;
    assert_ok(open_table(&samples, paths, 1, small, error));
    const char *right = read_all(f, samples, false), *path = find_file(f, folder, ".rows");
    char *bytes;
    size_t length;
    assert_ok(et_file_read(&bytes, &length, path, 100000, error));
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *copy = malloc(length);
        uint64_t sum;
        memcpy(copy, bytes, length);
        memcpy(copy + cases[i].at, &cases[i].value, 4);
        sum = et_checksum(copy, 24);
        memcpy(copy + 24, &sum, 8);
        sum = et_checksum(copy + 32, 488);
        memcpy(copy + 520 + 16, &sum, 8);
        sum = et_checksum(copy + 520, 40);
        memcpy(copy + 520 + 40, &sum, 8);
        overwrite(path, copy, length);
        free(copy);
        f->logged = 0;
        assert_ok(open_table(&samples, paths, 1, small, error));
        assert_int_equal(f->logged, 1);
        char fault[40];
        snprintf(fault, sizeof fault, "is damaged (%s)", cases[i].fault);
        assert_contains(f->log, fault);
        assert_string_equal(read_all(f, samples, false), right);
    }
    et_free(bytes);
}

/* Once files are settled, a start only reads head and foot. */
static void test_table_cache__seen(void **state)
{
    fixture *f = *state;
    const char *paths[] = { write_many(f, "s.csv", 0, 30) };
    const char *folder = fixture_path(f, "rows");
    const et_table_samples_options small = { .cache = folder, .memory = 1 };
    et_samples *samples = NULL;
    assert_ok(open_table(&samples, paths, 1, small, error));
    et_samples_close(samples);
    assert_null(find_file(f, folder, ".seen"));
    sleep(4);
    for (int i = 0; i < 2; i++) {
        assert_ok(open_table(&samples, paths, 1, small, error));
        assert_int_equal(samples->count, 30);
        et_samples_close(samples);
        assert_non_null(find_file(f, folder, ".seen"));
    }
}

/* A file that changes between being known and being read. */
static void test_table_cache__changed(void **state)
{
    fixture *f = *state;
    const char *path = write_text(f, "w.csv", "age,job,income\n1,a,low\n");
    const et_table_samples_options options = { .paths = { &path, 1 }, .cache = f->directory };
    et_encoder *encoder = open_encoder();
    et_table_cache cache;
    assert_ok(et_table_cache_open(&cache, encoder, &options, error));
    assert_ok(et_table_cache_check(&cache, error));
    write_text(f, "w.csv", "age,job,income\n1,a,low\n2,a,low\n");
    assert_fails(et_table_cache_check(&cache, error), ET_EDATA,
                 "w.csv or a file next to it changed while Etude read it: start again when no "
                 "program writes to it");
    et_table_cache_close(&cache);
    et_encoder_free(encoder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_table_cache__same_rows, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table_cache__is_by_content, fixture_open,
                                        fixture_close),
        cmocka_unit_test_setup_teardown(test_table_cache__damaged, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table_cache__made, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table_cache__seen, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table_cache__changed, fixture_open, fixture_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
