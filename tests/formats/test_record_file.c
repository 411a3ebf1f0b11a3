#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/scarce.h"
#include "files.h"
#include "formats/records/packed.h"
#include "formats/records/record.h"

#define GOLDEN       ET_TEST_SOURCE "/tests/data/records/"
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Three records of 5, 0 and 300 bytes. */
static const size_t lengths[] = { 5, 0, 300 };
enum { RECORDS = 3, WHOLE = 305 + 3 * ET_RECORD_OVERHEAD };

static void fill(unsigned char *bytes, size_t record)
{
    for (size_t i = 0; i < lengths[record]; i++)
        bytes[i] = (unsigned char)(record * 50 + i);
}

static int write_three(const char *path, const char *type, et_error *error)
{
    et_record_writer *writer;
    unsigned char bytes[300];
    int status = et_record_writer_open(&writer, path, type, error);
    if (status)
        return status;
    for (size_t i = 0; !status && i < RECORDS; i++) {
        fill(bytes, i);
        status = et_record_write(writer, bytes, lengths[i], error);
    }
    if (!status)
        return et_record_writer_close(writer, error);
    et_record_writer_abandon(writer);
    return status;
}

/* Reads to the end or to an error; *count records were whole. */
static int read_all(const char *path, size_t *count, et_error *error)
{
    et_record_reader *reader;
    *count = 0;
    int status = et_record_reader_open(&reader, path, error);
    if (status)
        return status;
    for (;; (*count)++) {
        const void *bytes;
        size_t length;
        unsigned char expected[300];
        status = et_record_read(reader, &bytes, &length, error);
        if (status || !bytes)
            break;
        fill(expected, *count % RECORDS);
        assert_int_equal(length, lengths[*count % RECORDS]);
        assert_memory_equal(bytes, expected, length);
    }
    et_record_reader_close(reader);
    return status;
}

/* The vectors of Model Garden's file_writers_test, and faulty ones. */
static void test_record_file__types(void **state)
{
    static const struct {
        const char *type, *error; /* NULL: fine */
        bool gzip;
    } cases[] = {
        { NULL, NULL, false },
        { "tfrecord", NULL, false },
        { "TFRecord", NULL, false },
        { "tfrecords", NULL, false },
        { "tfrecord_compressed", NULL, true },
        { "TFRecord_Compressed", NULL, true },
        { "tfrecords_gzip", NULL, true },
        { "bar",
          "unknown file type bar (known: tfrecord, tfrecords, tfrecord_compressed, tfrecords_gzip)",
          false },
        { "",
          "unknown file type \"\" (known: tfrecord, tfrecords, tfrecord_compressed, "
          "tfrecords_gzip)",
          false },
        { "Riegeli", "file type Riegeli: Riegeli has no C library; use tfrecord", false },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t length, count;
        if (cases[i].error) {
            assert_fails(write_three(in(state, "none"), cases[i].type, error), ET_ECONFIG,
                         cases[i].error);
            assert_false(file_is_there(in(state, "none")));
            continue;
        }
        assert_ok(write_three(in(state, "some"), cases[i].type, error));
        char *bytes = get_file(in(state, "some"), &length);
        assert_int_equal((bytes[0] & 0xff) == 0x1f && (bytes[1] & 0xff) == 0x8b, cases[i].gzip);
        free(bytes);
        assert_ok(read_all(in(state, "some"), &count, error));
        assert_int_equal(count, RECORDS);
    }
}

/* Cut at every byte: complete records are read, and the error names the place of the cut. */
static void test_record_file__cut(void **state)
{
    static const size_t ends[] = { 0, 21, 37, WHOLE };
    size_t length, count;
    assert_ok(write_three(in(state, "whole"), NULL, error));
    char *bytes = get_file(in(state, "whole"), &length);
    assert_int_equal(length, WHOLE);
    for (size_t cut = 0; cut <= length; cut++) {
        size_t whole = 0;
        char where[100];
        while (whole < RECORDS && ends[whole + 1] <= cut)
            whole++;
        put_file(in(state, "cut"), bytes, cut);
        snprintf(where, sizeof where,
                 "cut: record %zu at byte %zu: the file ends within the record: copy", whole + 1,
                 ends[whole]);
        if (cut == ends[whole])
            assert_ok(read_all(in(state, "cut"), &count, error));
        else
            assert_fails(read_all(in(state, "cut"), &count, error), ET_EFORMAT, where);
        assert_int_equal(count, whole);
    }
    free(bytes);
}

/* Zeros after the last record are not padding: the file has lost its end. */
static void test_record_file__trailing(void **state)
{
    static const struct {
        const char *bytes;
        size_t length;
        const char *error;
    } cases[] = {
        { "x", 1, "record 4 at byte 353: the file ends within the record" },
        { "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16,
          "record 4 at byte 353: the checksum of its length does not match: the file is damaged" },
        { "no record, but text", 19, "record 4 at byte 353: the checksum of its length" },
    };
    size_t length, count;
    assert_ok(write_three(in(state, "whole"), NULL, error));
    char *bytes = get_file(in(state, "whole"), &length);
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *longer = malloc(length + cases[i].length);
        memcpy(longer, bytes, length);
        memcpy(longer + length, cases[i].bytes, cases[i].length);
        put_file(in(state, "more"), longer, length + cases[i].length);
        assert_fails(read_all(in(state, "more"), &count, error), ET_EFORMAT, cases[i].error);
        assert_int_equal(count, RECORDS);
        free(longer);
    }
    free(bytes);
}

static void test_record_file__flipped_bits(void **state)
{
    for (int gzip = 0; gzip < 2; gzip++) {
        size_t length, count;
        assert_ok(write_three(in(state, "whole"), gzip ? "tfrecords_gzip" : NULL, error));
        char *bytes = get_file(in(state, "whole"), &length);
        for (size_t bit = 0; bit < 8 * length; bit++) {
            bytes[bit / 8] ^= (char)(1 << bit % 8);
            put_file(in(state, "flip"), bytes, length);
            et_error error = ET_ERROR_INIT;
            int status = read_all(in(state, "flip"), &count, &error);
            /* Time and system in a gzip head do not change records. */
            assert_true(status == ET_EFORMAT || (gzip && !status && count == RECORDS));
            assert_int_equal(status != 0, strstr(error.text, "flip") != NULL);
            bytes[bit / 8] ^= (char)(1 << bit % 8);
        }
        free(bytes);
    }
}

/* A right checksum does not make a length right. */
static void test_record_file__absurd_lengths(void **state)
{
    static const struct {
        uint64_t length;
        const char *error;
    } cases[] = {
        { UINT64_MAX, "absurd: record 1 at byte 0" },
        { UINT64_MAX, "a length of 2 GiB or more: write the file again, with smaller records" },
        { (uint64_t)INT32_MAX + 1, "a length of 2 GiB or more" },
        { INT32_MAX, "the file ends within the record" },
        { 100, "the file ends within the record" },
    };
    for (int gzip = 0; gzip < 2; gzip++)
        for (size_t i = 0; i < COUNT(cases); i++) {
            unsigned char head[ET_RECORD_HEAD + 8] = { 0 };
            et_packed_writer *writer;
            size_t count;
            for (int k = 0; k < 8; k++)
                head[k] = (unsigned char)(cases[i].length >> 8 * k);
            uint32_t crc = et_crc32c_mask(et_crc32c(head, 8));
            for (int k = 0; k < 4; k++)
                head[8 + k] = (unsigned char)(crc >> 8 * k);
            assert_ok(et_packed_writer_open(&writer, in(state, "absurd"), gzip, error));
            assert_ok(et_packed_write(writer, head, sizeof head, error));
            assert_ok(et_packed_writer_end(writer, ET_OK, error));
            assert_fails(read_all(in(state, "absurd"), &count, error), ET_EFORMAT, cases[i].error);
        }
}

/* Several members are one file, and zeros after them padding; anything else after them is an error.
 */
static void test_record_file__gzip_members(void **state)
{
    static const struct {
        const char *behind;
        size_t length;
        const char *error; /* NULL: none */
    } cases[] = {
        { "", 0, NULL },
        { "\0\0\0\0\0\0", 6, NULL },
        { "xy", 2, "record 7 at byte 706 of its unpacked data: the gzip data is followed by" },
        { "\x1f\x8b\x08", 3, "record 7 at byte 706 of its unpacked data: the gzip file ends in" },
    };
    size_t length, count;
    assert_ok(write_three(in(state, "one"), "tfrecords_gzip", error));
    char *bytes = get_file(in(state, "one"), &length);
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *twice = malloc(2 * length + cases[i].length);
        memcpy(twice, bytes, length);
        memcpy(twice + length, bytes, length);
        memcpy(twice + 2 * length, cases[i].behind, cases[i].length);
        put_file(in(state, "two"), twice, 2 * length + cases[i].length);
        if (cases[i].error)
            assert_fails(read_all(in(state, "two"), &count, error), ET_EFORMAT, cases[i].error);
        else
            assert_ok(read_all(in(state, "two"), &count, error));
        assert_int_equal(count, 2 * RECORDS);
        free(twice);
    }
    free(bytes);
}

/* A record of 35,615 bytes begins as gzip does: 1f 8b. */
static void test_record_file__looks_like_gzip(void **state)
{
    static unsigned char bytes[35615];
    et_record_writer *writer;
    et_record_reader *reader;
    const void *back;
    size_t length;
    assert_ok(et_record_writer_open(&writer, in(state, "odd"), NULL, error));
    assert_ok(et_record_write(writer, bytes, sizeof bytes, error));
    assert_ok(et_record_writer_close(writer, error));
    assert_ok(et_record_reader_open(&reader, in(state, "odd"), error));
    assert_false(et_record_reader_position(reader).gzip);
    assert_ok(et_record_read(reader, &back, &length, error));
    assert_int_equal(length, sizeof bytes);
    et_record_reader_close(reader);
}

/* The files that TensorFlow wrote (tools/golden-records). */
static void test_record_file__tensorflow(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int records;
    } cases[] = { { "pairs.tfrecord", 6 }, { "pairs-gzip.tfrecord", 6 }, { "kinds.tfrecord", 3 } };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char path[512];
        et_record_reader *reader;
        const void *bytes;
        size_t length;
        int count = 0;
        snprintf(path, sizeof path, GOLDEN "%s", cases[i].name);
        assert_ok(et_record_reader_open(&reader, path, error));
        for (;; count++) {
            assert_ok(et_record_read(reader, &bytes, &length, error));
            if (!bytes)
                break;
        }
        assert_int_equal(count, cases[i].records);
        et_record_reader_close(reader);
    }
}

/* Memory is that of the largest record, for any number of records and any kind of file. */
static void test_record_file__memory(void **state)
{
    for (int gzip = 0; gzip < 2; gzip++) {
        et_record_writer *writer;
        et_record_reader *reader;
        const void *bytes;
        size_t length, first = 0, count = 0;
        static char data[5000];
        assert_ok(et_record_writer_open(&writer, in(state, "many"), gzip ? "tfrecords_gzip" : NULL,
                                        error));
        for (int i = 0; i < 2000; i++)
            assert_ok(et_record_write(writer, data, (size_t)i % sizeof data, error));
        assert_ok(et_record_writer_close(writer, error));
        assert_ok(et_record_reader_open(&reader, in(state, "many"), error));
        for (;; count++) {
            assert_ok(et_record_read(reader, &bytes, &length, error));
            first = count ? first : et_alloc_count();
            if (!bytes)
                break;
        }
        assert_int_equal(count, 2000);
        assert_int_equal(et_alloc_count(), first);
        et_record_reader_close(reader);
    }
}

static void test_record_file__not_a_file(void **state)
{
    et_record_reader *reader;
    et_record_writer *writer;
    size_t count;
    assert_fails(et_record_reader_open(&reader, in(state, "none"), error), ET_ENOTFOUND, "none");
    assert_fails(et_record_reader_open(&reader, "", error), ET_ENOTFOUND, "");
    assert_fails(et_record_writer_open(&writer, "", NULL, error), ET_ENOTFOUND, "");
    assert_fails(et_record_reader_open(&reader, *state, error), ET_EDENIED, "is a directory");
    assert_fails(et_record_writer_open(&writer, in(state, "no/folder"), NULL, error), ET_ENOTFOUND,
                 "no/folder");
    put_file(in(state, "x.gz"), "plain", 5);
    assert_fails(et_record_reader_open(&reader, in(state, "x.gz"), error), ET_EFORMAT,
                 "is not gzip data");
    put_file(in(state, "empty"), "", 0);
    assert_ok(read_all(in(state, "empty"), &count, error));
    assert_int_equal(count, 0);
}

/* A file that could not be written whole is not there. */
static void test_record_file__no_room(void **state)
{
    for (int gzip = 0; gzip < 2; gzip++) {
        et_record_writer *writer;
        static unsigned char bytes[300000];
        unsigned seed = 1;
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (unsigned char)((seed = seed * 1664525u + 1013904223u) >> 24);
        limit_files(1000);
        assert_ok(et_record_writer_open(&writer, in(state, "full"), gzip ? "tfrecords_gzip" : NULL,
                                        error));
        assert_fails(et_record_write(writer, bytes, sizeof bytes, error), ET_ENOSPACE, "full");
        assert_fails(et_record_writer_close(writer, error), ET_EIO,
                     "cannot write a record: no file is open");
        unlimit_files();
        assert_false(file_is_there(in(state, "full")));
    }
}

static void test_record_file__out_of_memory(void **state)
{
    int status = ET_ENOMEM;
    for (long calls = 0; status; calls++) {
        size_t count;
        scarce_begin(calls);
        status = write_three(in(state, "scarce"), "tfrecords_gzip", NULL);
        if (!status)
            status = read_all(in(state, "scarce"), &count, NULL);
        scarce_end();
        assert_int_equal(status, scarce_failed ? ET_ENOMEM : ET_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_record_file__types),
        cmocka_unit_test(test_record_file__cut),
        cmocka_unit_test(test_record_file__trailing),
        cmocka_unit_test(test_record_file__flipped_bits),
        cmocka_unit_test(test_record_file__absurd_lengths),
        cmocka_unit_test(test_record_file__gzip_members),
        cmocka_unit_test(test_record_file__looks_like_gzip),
        cmocka_unit_test(test_record_file__tensorflow),
        cmocka_unit_test(test_record_file__memory),
        cmocka_unit_test(test_record_file__not_a_file),
        cmocka_unit_test(test_record_file__no_room),
        cmocka_unit_test(test_record_file__out_of_memory),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
