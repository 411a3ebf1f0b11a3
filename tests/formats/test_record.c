#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <etude/log.h>

#include "files.h"
#include "formats/records/record.h"

/* Three records of 5, 0 and 300 bytes. */
static const size_t lengths[] = { 5, 0, 300 };
enum { RECORDS = 3, WHOLE = 305 + 3 * ET_RECORD_OVERHEAD };

static void fill(unsigned char *bytes, size_t record)
{
    for (size_t i = 0; i < lengths[record]; i++)
        bytes[i] = (unsigned char)(record * 50 + i);
}

static void write_three(const char *path)
{
    et_record_log writer;
    unsigned char bytes[300];
    assert_ok(et_record_log_open(&writer, path, 0, error));
    for (size_t i = 0; i < RECORDS; i++) {
        fill(bytes, i);
        assert_ok(et_record_log_write(&writer, bytes, lengths[i], error));
    }
    assert_int_equal(writer.file.offset, WHOLE);
    assert_ok(et_record_log_close(&writer, error));
}

/* Reads to the end or to an error; returns how many records were whole. */
static size_t read_records(const char *path, uint64_t *offset, bool *torn, int *status)
{
    et_record_scan reader;
    size_t count = 0;
    assert_ok(et_record_scan_open(&reader, path, error));
    for (;;) {
        const void *bytes;
        size_t length;
        unsigned char expected[300];
        *status = et_record_scan_next(&reader, &bytes, &length, NULL);
        if (*status || bytes == NULL)
            break;
        fill(expected, count);
        assert_int_equal(length, lengths[count]);
        assert_memory_equal(bytes, expected, length);
        count++;
    }
    *offset = reader.offset;
    *torn = reader.torn;
    et_record_scan_close(&reader);
    return count;
}

static void test_record__round_trip(void **state)
{
    uint64_t offset;
    bool torn;
    int status;
    write_three(in(state, "records"));
    assert_int_equal(read_records(in(state, "records"), &offset, &torn, &status), RECORDS);
    assert_int_equal(status, ET_OK);
    assert_false(torn);
    assert_int_equal(offset, WHOLE);
}

/* Cut at every length: complete records are read, and the torn end is reported. */
static void test_record__torn_tail(void **state)
{
    static const size_t ends[] = { 0, 21, 37, WHOLE };
    size_t length;
    write_three(in(state, "records"));
    char *bytes = get_file(in(state, "records"), &length);
    for (size_t cut = 0; cut <= length; cut++) {
        uint64_t offset;
        bool torn;
        int status;
        size_t whole = 0;
        while (whole < RECORDS && ends[whole + 1] <= cut)
            whole++;
        put_file(in(state, "cut"), bytes, cut);
        assert_int_equal(read_records(in(state, "cut"), &offset, &torn, &status), whole);
        assert_int_equal(status, ET_OK);
        assert_int_equal(offset, ends[whole]);
        assert_int_equal(torn, cut != ends[whole]);
    }
    free(bytes);
}

/* Every flipped bit is found, the bits of lengths too. No sound record follows the last one. */
static void test_record__flipped_bits(void **state)
{
    size_t length;
    write_three(in(state, "records"));
    char *bytes = get_file(in(state, "records"), &length);
    for (size_t bit = 0; bit < 8 * length; bit++) {
        uint64_t offset;
        bool torn;
        int status;
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        put_file(in(state, "flip"), bytes, length);
        assert_true(read_records(in(state, "flip"), &offset, &torn, &status) < RECORDS);
        assert_int_equal(status, bit / 8 < 37 ? ET_EFORMAT : ET_OK);
        assert_int_equal(torn, bit / 8 >= 37);
        assert_true(offset <= 37);
        bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
    free(bytes);
}

/* After a crash of the machine a file may end in zeros. */
static void test_record__zeros_at_the_end(void **state)
{
    uint64_t offset;
    bool torn;
    int status;
    size_t length;
    write_three(in(state, "records"));
    char *bytes = get_file(in(state, "records"), &length);
    char *longer = calloc(1, length + 100);
    assert_non_null(longer);
    memcpy(longer, bytes, length);
    put_file(in(state, "zeros"), longer, length + 100);
    assert_int_equal(read_records(in(state, "zeros"), &offset, &torn, &status), RECORDS);
    assert_int_equal(status, ET_OK);
    assert_true(torn);
    free(longer);
    free(bytes);
}

/* A power loss leaves any bytes that were not synced as zeros: what is before them is kept. */
static void test_record__unsynced_tail(void **state)
{
    uint64_t offset;
    bool torn;
    int status;
    size_t length;
    write_three(in(state, "records"));
    char *bytes = get_file(in(state, "records"), &length);
    for (size_t first = 21; first < length; first++)
        for (size_t last = first + 1; last <= length; last += 1 + last / 40) {
            char *torn_bytes = malloc(length);
            assert_non_null(torn_bytes);
            memcpy(torn_bytes, bytes, length);
            memset(torn_bytes + first, 0, last - first);
            put_file(in(state, "tail"), torn_bytes, length);
            const size_t whole = read_records(in(state, "tail"), &offset, &torn, &status);
            /* The last record is sound if no byte of it was lost that is not zero anyway. */
            const bool sound = memcmp(torn_bytes + 37, bytes + 37, length - 37) == 0;
            const bool second = memcmp(torn_bytes + 21, bytes + 21, 16) == 0;
            assert_int_equal(status, sound && !second ? ET_EFORMAT : ET_OK);
            assert_int_equal(whole, second ? sound ? 3 : 2 : 1);
            assert_int_equal(torn, !sound);
            free(torn_bytes);
        }
    free(bytes);
}

static void test_record__damage_names_the_byte(void **state)
{
    size_t length;
    et_record_log writer;
    write_three(in(state, "records"));
    char *bytes = get_file(in(state, "records"), &length);
    bytes[21] ^= 1; /* the second record's length */
    put_file(in(state, "records"), bytes, length);
    assert_fails(et_record_log_open(&writer, in(state, "records"), ET_APPEND_CONTINUE, error),
                 ET_EFORMAT,
                 "records: damaged: the checksum of a record's length does not match "
                 "(record at byte 21)");
    free(bytes);
}

static int warnings;

static void count_warnings(void *payload, et_log_level level, const char *text)
{
    (void)payload;
    warnings += level == ET_LOG_WARNING && strstr(text, "were written before") != NULL;
}

/* Where a writer continues: at an offset, after the complete records, after the rest. */
static void test_record__continue(void **state)
{
    static const struct {
        size_t cut;
        int64_t offset;
        uint64_t expected;
        int warnings;
    } cases[] = {
        { WHOLE, 0, 0, 0 },
        { WHOLE, 21, 21, 0 },
        { WHOLE, ET_APPEND_CONTINUE, WHOLE, 0 },
        { 100, ET_APPEND_CONTINUE, 37, 0 },
        { 100, WHOLE, 37, 1 },
        { 0, WHOLE, 0, 1 },
    };
    size_t length;
    write_three(in(state, "records"));
    char *bytes = get_file(in(state, "records"), &length);
    et_log_set(count_warnings, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        et_record_log writer;
        struct stat info;
        warnings = 0;
        put_file(in(state, "cut"), bytes, cases[i].cut);
        assert_ok(et_record_log_open(&writer, in(state, "cut"), cases[i].offset, error));
        assert_int_equal(writer.file.offset, cases[i].expected);
        assert_int_equal(warnings, cases[i].warnings);
        assert_ok(et_record_log_write(&writer, "abc", 3, error));
        assert_ok(et_record_log_close(&writer, error));
        assert_int_equal(stat(in(state, "cut"), &info), 0);
        assert_int_equal(info.st_size, cases[i].expected + 3 + ET_RECORD_OVERHEAD);
    }
    et_log_set(NULL, NULL);
    free(bytes);
}

/* A full disk in the middle of a record: reported, cut off, and usable when there is room again. */
static void test_record__no_room(void **state)
{
    for (rlim_t room = 0; room < 37; room++) {
        et_record_log writer;
        uint64_t offset;
        bool torn;
        int status;
        assert_ok(et_record_log_open(&writer, in(state, "full"), 0, error));
        unsigned char bytes[300];
        fill(bytes, 0);
        limit_files(room);
        const int first = et_record_log_write(&writer, bytes, 5, NULL);
        const int second = first ? first : et_record_log_write(&writer, bytes, 0, NULL);
        unlimit_files();
        assert_int_equal(first != ET_OK, room < 21);
        assert_int_equal(second, ET_ENOSPACE);
        assert_int_equal(writer.file.offset, first ? 0 : 21);
        if (first)
            assert_ok(et_record_log_write(&writer, bytes, 5, error));
        assert_ok(et_record_log_close(&writer, error));
        assert_int_equal(read_records(in(state, "full"), &offset, &torn, &status), 1);
        assert_false(torn);
        assert_int_equal(status, ET_OK);
    }
}

static void test_record__not_a_file(void **state)
{
    et_record_log writer;
    et_record_scan reader;
    assert_fails(et_record_log_open(&writer, *state, 0, error), ET_EDENIED, *state);
    assert_fails(et_record_log_open(&writer, "/dev/full", 0, error), ET_EIO, "/dev/full");
    assert_fails(et_record_scan_open(&reader, in(state, "none"), error), ET_ENOTFOUND, "none");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_record__round_trip),
        cmocka_unit_test(test_record__torn_tail),
        cmocka_unit_test(test_record__flipped_bits),
        cmocka_unit_test(test_record__zeros_at_the_end),
        cmocka_unit_test(test_record__unsynced_tail),
        cmocka_unit_test(test_record__damage_names_the_byte),
        cmocka_unit_test(test_record__continue),
        cmocka_unit_test(test_record__no_room),
        cmocka_unit_test(test_record__not_a_file),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
