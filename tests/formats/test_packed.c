#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/files/file.h"
#include "base/scarce.h"
#include "files.h"
#include "formats/records/packed.h"

enum { LONG = 200000 };

static void make_long(char *bytes)
{
    unsigned seed = 5;
    for (int i = 0; i < LONG; i++)
        bytes[i] = (char)((seed = seed * 1664525u + 1013904223u) >> 24 & 31);
}

static int write_packed(const char *path, bool gzip, const void *bytes, size_t length,
                        et_error *error)
{
    et_packed_writer *writer;
    int status = et_packed_writer_open(&writer, path, gzip, error);
    if (status)
        return status;
    return et_packed_writer_end(writer, et_packed_write(writer, bytes, length, error), error);
}

/* All of a file, `step` bytes at a time. */
static int read_packed(const char *path, et_packed_plain_fn *plain, size_t step, char *out,
                       size_t *length, et_error *error)
{
    et_packed_reader *reader;
    int fd, status = et_file_open(&fd, path, error);
    size_t got = 1;
    *length = 0;
    if (!status)
        status = et_packed_reader_open(&reader, fd, path, plain, error);
    if (status)
        return status;
    while (!status && got) {
        status = et_packed_read(reader, out + *length, step, &got, error);
        *length += got;
    }
    et_packed_reader_close(reader);
    return status;
}

static void test_packed__round_trip(void **state)
{
    static char bytes[LONG], back[LONG + 4096];
    static const size_t lengths[] = { 0, 1, 11, 12, 13, 65536, LONG }, steps[] = { 1, 1000, 4096 };
    make_long(bytes);
    for (int gzip = 0; gzip < 2; gzip++)
        for (size_t i = 0; i < 7; i++)
            for (size_t k = lengths[i] > 100 ? 1 : 0; k < 3; k++) {
                size_t length;
                assert_ok(write_packed(in(state, "a"), gzip, bytes, lengths[i], error));
                assert_ok(read_packed(in(state, "a"), NULL, steps[k], back, &length, error));
                assert_int_equal(length, lengths[i]);
                assert_memory_equal(back, bytes, length);
            }
}

/* No name, no time. */
static void test_packed__equal_files(void **state)
{
    size_t first, second;
    assert_ok(write_packed(in(state, "a"), true, "some text", 9, error));
    assert_ok(write_packed(in(state, "b"), true, "some text", 9, error));
    char *a = get_file(in(state, "a"), &first), *b = get_file(in(state, "b"), &second);
    assert_int_equal(first, second);
    assert_memory_equal(a, b, first);
    assert_int_equal(a[0] & 0xff, 0x1f);
    free(a);
    free(b);
}

static bool always(const unsigned char *first, size_t count)
{
    return first[0] == 0x1f && count >= 2;
}

/* What gzip's two bytes begin may be something else, if the caller knows. */
static void test_packed__plain_all_the_same(void **state)
{
    char back[4096];
    size_t length;
    put_file(in(state, "odd"), "\x1f\x8b plain after all", 18);
    assert_ok(read_packed(in(state, "odd"), always, 100, back, &length, error));
    assert_int_equal(length, 18);
    assert_fails(read_packed(in(state, "odd"), NULL, 100, back, &length, error), ET_EFORMAT,
                 "the gzip data is damaged from here on");
}

/* An abandoned writer does not change the existing file. */
static void test_packed__abandoned(void **state)
{
    et_packed_writer *writer;
    size_t length;
    put_file(in(state, "kept"), "old", 3);
    assert_ok(et_packed_writer_open(&writer, in(state, "kept"), true, error));
    assert_ok(et_packed_write(writer, "new", 3, error));
    assert_int_equal(et_packed_writer_end(writer, ET_EIO, NULL), ET_EIO);
    assert_int_equal(et_packed_writer_end(NULL, ET_EIO, NULL), ET_EIO);
    char *bytes = get_file(in(state, "kept"), &length);
    assert_string_equal(bytes, "old");
    free(bytes);
}

static void test_packed__no_room(void **state)
{
    static char bytes[LONG];
    make_long(bytes);
    for (int gzip = 0; gzip < 2; gzip++) {
        limit_files(1000);
        assert_fails(write_packed(in(state, "full"), gzip, bytes, LONG, error), ET_ENOSPACE,
                     "full");
        unlimit_files();
        assert_false(file_is_there(in(state, "full")));
    }
}

static void test_packed__out_of_memory(void **state)
{
    char back[4096];
    int status = ET_ENOMEM;
    for (long calls = 0; status; calls++) {
        size_t length;
        scarce_begin(calls);
        status = write_packed(in(state, "a"), true, "some text", 9, NULL);
        if (!status)
            status = read_packed(in(state, "a"), NULL, 100, back, &length, NULL);
        scarce_end();
        assert_int_equal(status, scarce_failed ? ET_ENOMEM : ET_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packed__round_trip),
        cmocka_unit_test(test_packed__equal_files),
        cmocka_unit_test(test_packed__plain_all_the_same),
        cmocka_unit_test(test_packed__abandoned),
        cmocka_unit_test(test_packed__no_room),
        cmocka_unit_test(test_packed__out_of_memory),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
