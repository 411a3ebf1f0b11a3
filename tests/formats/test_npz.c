/* Archives of numpy's arrays: what is written is read, as numpy writes it; every kind of header;
 * and damaged files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "formats/files.h"
#include "skip.h"

#include "base/alloc.h"
#include "formats/numpy/npz.h"
#include "formats/torch_samples.h"

static const float weight[6] = { 1, 2, 3, 4, 5, 6 };
static const char text[] = "type: transformer\n";
static const et_npz_item items[] = {
    { "Wemb", ET_NPZ_FLOAT32, { 2, { 2, 3 } }, weight },
    { "vector", ET_NPZ_FLOAT32, { 1, { 6 } }, weight },
    { "scalar", ET_NPZ_FLOAT32, { 0, { 0 } }, weight },
    { "empty", ET_NPZ_FLOAT32, { 2, { 0, 5 } }, NULL },
    { "special:model.yml", ET_NPZ_BYTE, { 1, { sizeof text } }, text },
};
enum { ITEMS = sizeof items / sizeof *items };

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

static bytes file;

static void need_zip(void **state)
{
    et_npz *read;
    et_error failure = ET_ERROR_INIT;
    assert_ok(et_npz_write(in(state, "a.npz"), items, 1, NULL, NULL, error));
    if (et_npz_open(&read, in(state, "a.npz"), &failure) && strstr(failure.text, "libzip"))
        test_skip("built without libzip");
    else
        et_npz_close(read);
}

static void check(const et_npz *npz)
{
    char values[64];
    assert_int_equal(et_npz_count(npz), ITEMS);
    for (size_t i = 0; i < ITEMS; i++) {
        const et_npz_array *a = et_npz_find(npz, items[i].name);
        assert_non_null(a);
        assert_int_equal(a->type, items[i].type);
        assert_true(et_shape_equal(a->shape, items[i].shape));
        assert_true(a->bytes <= sizeof values);
        assert_ok(et_npz_read(npz, a, values, error));
        if (items[i].data)
            assert_memory_equal(values, items[i].data, a->bytes);
    }
    assert_null(et_npz_find(npz, "none"));
}

static void test_npz__round_trip(void **state)
{
    et_npz *npz;
    size_t length, again;
    need_zip(state);
    assert_ok(et_npz_write(in(state, "a.npz"), items, ITEMS, NULL, NULL, error));
    assert_ok(et_npz_open(&npz, in(state, "a.npz"), error));
    check(npz);
    et_npz_close(npz);
    char *whole = get_file(in(state, "a.npz"), &length);
    assert_ok(et_npz_write(in(state, "b.npz"), items, ITEMS, NULL, NULL, error));
    char *other = get_file(in(state, "b.npz"), &again);
    assert_int_equal(again, length);
    assert_memory_equal(whole, other, length);
    free(other);
    char *copy = et_strndup(whole, length);
    free(whole);
    assert_ok(et_npz_open_memory(&npz, copy, length, "memory", error));
    check(npz);
    et_npz_close(npz);
}

/* ---- headers ---- */

static int open_header(void **state, et_npz **npz, const char *header, const void *data,
                       size_t data_length, int major, et_error *failure)
{
    static bytes array, directory;
    array.length = directory.length = file.length = 0;
    ADD(&array, "\x93NUMPY");
    add_number(&array, (uint64_t)major, 1);
    add_number(&array, 0, 1);
    add_number(&array, strlen(header), major == 1 ? 2 : 4);
    add(&array, header, strlen(header));
    add(&array, data, data_length);
    add_member(&file, &directory, "a.npy", array.data, array.length, array.length);
    end_archive(&file, &directory, 1);
    put_file(in(state, "a.npz"), file.data, file.length);
    return et_npz_open(npz, in(state, "a.npz"), failure);
}

static void test_npz__headers(void **state)
{
    static const struct {
        const char *header;
        int major;
        et_npz_type type;
    } good[] = {
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  \n", 1, ET_NPZ_FLOAT32 },
        { "{'shape': (2, 3), 'fortran_order': False, 'descr': '<f4'}", 1, ET_NPZ_FLOAT32 },
        { "{\"descr\":\"<f4\",\"fortran_order\":False,\"shape\":(2,3)}", 2, ET_NPZ_FLOAT32 },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2,3,), }", 3, ET_NPZ_FLOAT32 },
        { "{'descr': '<f2', 'fortran_order': False, 'shape': (12,), }", 1, ET_NPZ_FLOAT16 },
        { "{'descr': '|i1', 'fortran_order': False, 'shape': (24,), }", 1, ET_NPZ_BYTE },
        { "{'descr': '<f4', 'fortran_order': True, 'shape': (6,), }", 1, ET_NPZ_FLOAT32 },
        { "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", 1, ET_NPZ_OTHER },
        { "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }", 1, ET_NPZ_OTHER },
        { "{'descr': '>f4', 'fortran_order': False, 'shape': (6,), }", 1, ET_NPZ_OTHER },
    };
    need_zip(state);
    for (size_t i = 0; i < COUNT(good); i++) {
        et_npz *npz;
        assert_ok(
            open_header(state, &npz, good[i].header, weight, sizeof weight, good[i].major, error));
        assert_int_equal(et_npz_at(npz, 0)->type, good[i].type);
        et_npz_close(npz);
    }
}

static void test_npz__bad_headers(void **state)
{
    static const struct {
        const char *header, *words;
    } bad[] = {
        { "", "no description" },
        { "{}", "no description" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)", "no description" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3), }", "no description" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3), }", "no description" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': [2, 3], }", "no description" },
        { "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2, 3), }", "no description" },
        { "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,), }", "no description" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'more': 1}", "no description" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}",
          "no description" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999,), }", "no description" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2147483647, 2147483647, "
          "2147483647), }",
          "too large" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (7,), }", "not match its shape" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (5,), }", "not match its shape" },
    };
    need_zip(state);
    for (size_t i = 0; i < COUNT(bad); i++) {
        et_npz *npz;
        et_error failure = ET_ERROR_INIT;
        assert_int_equal(
            open_header(state, &npz, bad[i].header, weight, sizeof weight, 1, &failure),
            ET_EFORMAT);
        if (!strstr(failure.text, bad[i].words) || !strstr(failure.text, "a.npz: a: "))
            fail_msg("%s: %s", bad[i].header, failure.text);
    }
}

/* ---- damage ---- */

static void test_npz__another_file(void **state)
{
    static bytes directory;
    et_npz *npz;
    need_zip(state);
    assert_int_not_equal(et_npz_open(&npz, in(state, "missing"), NULL), ET_OK);
    put_file(in(state, "a.npz"), "PK", 2);
    assert_fails(et_npz_open(&npz, in(state, "a.npz"), error), ET_EFORMAT, "not a whole zip");
    file.length = directory.length = 0;
    add_member(&file, &directory, "../a.txt", "x", 1, 1);
    end_archive(&file, &directory, 1);
    put_file(in(state, "a.npz"), file.data, file.length);
    assert_fails(et_npz_open(&npz, in(state, "a.npz"), error), ET_EFORMAT,
                 "../a.txt is no array of numpy");
    file.length = directory.length = 0;
    add_member(&file, &directory, "a.npy", "\x93NUMPY\1\0", 8, 8);
    end_archive(&file, &directory, 1);
    put_file(in(state, "a.npz"), file.data, file.length);
    assert_fails(et_npz_open(&npz, in(state, "a.npz"), error), ET_EFORMAT, "too short");
}

/* A bit of the data: the archive's checksum is another. */
static void test_npz__damaged_data(void **state)
{
    char values[64];
    et_npz *npz;
    size_t length;
    need_zip(state);
    assert_ok(et_npz_write(in(state, "a.npz"), items, ITEMS, NULL, NULL, error));
    char *whole = get_file(in(state, "a.npz"), &length), *at = memmem(whole, length, weight, 24);
    assert_non_null(at);
    at[5] ^= 1;
    put_file(in(state, "a.npz"), whole, length);
    assert_ok(et_npz_open(&npz, in(state, "a.npz"), error));
    assert_fails(et_npz_read(npz, et_npz_find(npz, "Wemb"), values, error), ET_EFORMAT,
                 "its checksum is another");
    et_npz_close(npz);
    free(whole);
}

/* Every byte damaged, and every length. */
static void test_npz__every_byte_may_be_damaged(void **state)
{
    size_t length;
    need_zip(state);
    assert_ok(et_npz_write(in(state, "a.npz"), items, ITEMS, NULL, NULL, error));
    char *whole = get_file(in(state, "a.npz"), &length);
    for (size_t i = 0; i < length; i++)
        for (int how = 0; how < 3; how++) {
            et_npz *npz;
            et_error failure = ET_ERROR_INIT;
            char values[256], *copy = et_strndup(whole, length);
            copy[i] = (char)(copy[i] ^ (how == 0 ? 1 : how == 1 ? 0x80 : 0));
            if (et_npz_open_memory(&npz, copy, how == 2 ? i : length, "a.npz", &failure)) {
                assert_non_null(strstr(failure.text, "a.npz"));
                continue;
            }
            for (size_t k = 0; k < et_npz_count(npz); k++)
                if (et_npz_at(npz, k)->bytes <= sizeof values)
                    (void)et_npz_read(npz, et_npz_at(npz, k), values, &failure);
            et_npz_close(npz);
        }
    free(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_npz__round_trip),
        cmocka_unit_test(test_npz__headers),
        cmocka_unit_test(test_npz__bad_headers),
        cmocka_unit_test(test_npz__another_file),
        cmocka_unit_test(test_npz__damaged_data),
        cmocka_unit_test(test_npz__every_byte_may_be_damaged),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
