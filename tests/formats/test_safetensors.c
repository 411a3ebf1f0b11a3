#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "files.h"

#include "base/arena.h"
#include "base/dtype.h"
#include "base/files/checksum.h"
#include "formats/safetensors/safetensors.h"

/* A small file with every dtype, an empty tensor and a scalar. */
static const float weight[6] = { 1, -2, 0.5f, 3e38f, -0.0f, 1e-40f };
static const et_bf16 shadow[3] = { 0x3f80, 0xc000, 0x7f80 };
static const int32_t tokens[2] = { -1, INT32_MAX };
static const float scalar = 7;

static const et_safetensors_item items[] = {
    { "shadow", { (void *)shadow, ET_BF16, { 1, { 3 } } } },
    { "encoder/\"weight\" \xc3\xa9", { (void *)weight, ET_F32, { 2, { 2, 3 } } } },
    { "empty", { NULL, ET_F32, { 2, { 0, 5 } } } },
    { "tokens", { (void *)tokens, ET_I32, { 1, { 2 } } } },
    { "scalar", { (void *)&scalar, ET_F32, { 0, { 0 } } } },
};
enum { ITEMS = sizeof items / sizeof items[0] };

static et_safetensors_written write_small(const char *path)
{
    et_safetensors_written written;
    et_arena arena = ET_ARENA_INIT;
    et_value *metadata = et_value_dict(&arena);
    et_value_set_string(metadata, "state", "{\"step\": 200}\n");
    et_value_set_string(metadata, "run", "test");
    assert_ok(et_safetensors_write(&written, path, items, ITEMS, metadata, error));
    et_arena_release(&arena);
    return written;
}

/* For other programs: no seal, the format that they ask for, the same data. */
static void test_safetensors__foreign(void **state)
{
    static const uint16_t halves[] = { 0x3c00, 0xc000 };
    const et_safetensors_item some[] = {
        { "half", { (void *)halves, ET_SAFETENSORS_F16, { 1, { 2 } } } },
        { "weight", { (void *)weight, ET_F32, { 2, { 2, 3 } } } },
    };
    const char *path = in(state, "foreign");
    et_safetensors *file;
    assert_ok(et_safetensors_write_foreign(path, "pt", some, 2, NULL, error));
    assert_fails(et_safetensors_open(&file, path, error), ET_EFORMAT, "foreign");
    assert_ok(et_safetensors_open_foreign(&file, path, error));
    assert_string_equal(et_safetensors_metadata(file, "format"), "pt");
    assert_null(et_safetensors_metadata(file, "header_checksum"));
    const et_safetensors_tensor *t = et_safetensors_find(file, "half");
    assert_int_equal(t->dtype, ET_SAFETENSORS_F16);
    assert_memory_equal(t->data, halves, sizeof halves);
    t = et_safetensors_find(file, "weight");
    assert_memory_equal(t->data, weight, sizeof weight);
    et_safetensors_close(file);
}

/* Status of opening and verifying. */
static int load(const char *path, et_error *error)
{
    et_safetensors *file;
    int status = et_safetensors_open(&file, path, error);
    if (!status)
        status = et_safetensors_verify(file, error);
    et_safetensors_close(file);
    return status;
}

static void test_safetensors__round_trip(void **state)
{
    const char *path = in(state, "small");
    size_t length;
    et_safetensors *file;
    const et_safetensors_written written = write_small(path);
    char *bytes = get_file(path, &length);
    assert_int_equal(written.bytes, length);
    assert_int_equal(written.checksum, et_checksum(bytes, length));
    free(bytes);
    assert_ok(et_safetensors_open(&file, path, error));
    assert_ok(et_safetensors_verify(file, error));
    assert_true(et_safetensors_sealed(file));
    assert_int_equal(et_safetensors_count(file), ITEMS);
    assert_string_equal(et_safetensors_metadata(file, "state"), "{\"step\": 200}\n");
    assert_string_equal(et_safetensors_metadata(file, "format"), "etude-1");
    assert_null(et_safetensors_metadata(file, "absent"));
    assert_null(et_safetensors_find(file, "absent"));
    for (size_t i = 0; i < ITEMS; i++) {
        const et_safetensors_tensor *t = et_safetensors_find(file, items[i].name);
        assert_non_null(t);
        assert_int_equal(t->dtype, items[i].tensor.dtype);
        assert_int_equal(t->shape.rank, items[i].tensor.shape.rank);
        for (int d = 0; d < t->shape.rank; d++)
            assert_int_equal(t->shape.size[d], items[i].tensor.shape.size[d]);
        assert_int_equal((uintptr_t)t->data % et_dtype_size(t->dtype), 0);
        if (t->bytes > 0)
            assert_memory_equal(t->data, items[i].tensor.data, t->bytes);
    }
    et_safetensors_close(file);
}

static void test_safetensors__layout(void **state)
{
    size_t length, again;
    write_small(in(state, "small"));
    write_small(in(state, "again"));
    char *bytes = get_file(in(state, "small"), &length);
    char *other = get_file(in(state, "again"), &again);
    assert_int_equal(length, again);
    assert_memory_equal(bytes, other, length);
    const size_t header = (unsigned char)bytes[0] + 256u * (unsigned char)bytes[1];
    assert_int_equal((header + 8) % 64, 0);
    assert_int_equal(length, 8 + header + sizeof weight + sizeof shadow + sizeof tokens + 4);
    assert_memory_equal(bytes + 8, "{\"__metadata__\":{\"format\":\"etude-1\",", 36);
    /* Wide elements first, then in the order given. */
    assert_memory_equal(bytes + 8 + header, weight, sizeof weight);
    free(bytes);
    free(other);
}

static void test_safetensors__no_tensors(void **state)
{
    et_safetensors_written written;
    et_safetensors *file;
    assert_ok(et_safetensors_write(&written, in(state, "none"), NULL, 0, NULL, error));
    assert_ok(et_safetensors_open(&file, in(state, "none"), error));
    assert_int_equal(et_safetensors_count(file), 0);
    et_safetensors_close(file);
}

static void test_safetensors__names_are_unique(void **state)
{
    et_safetensors_written written;
    et_safetensors_item two[2] = { items[0], items[0] };
    assert_fails(et_safetensors_write(&written, in(state, "two"), two, 2, NULL, error), ET_EFAIL,
                 "two tensors are named \"shadow\"");
    two[0].name = "__metadata__";
    assert_int_equal(et_safetensors_write(&written, in(state, "two"), two, 1, NULL, NULL),
                     ET_EFAIL);
    two[0].name = "a\xff";
    assert_int_not_equal(et_safetensors_write(&written, in(state, "two"), two, 1, NULL, NULL),
                         ET_OK);
    assert_false(file_is_there(in(state, "two")));
}

static void test_safetensors__every_truncation(void **state)
{
    size_t length;
    write_small(in(state, "small"));
    char *bytes = get_file(in(state, "small"), &length);
    for (size_t cut = 0; cut < length; cut++) {
        put_file(in(state, "cut"), bytes, cut);
        assert_int_equal(load(in(state, "cut"), NULL), ET_EFORMAT);
    }
    put_file(in(state, "cut"), bytes, length);
    assert_ok(load(in(state, "cut"), error));
    free(bytes);
}

static void test_safetensors__appended_garbage(void **state)
{
    size_t length;
    write_small(in(state, "small"));
    char *bytes = get_file(in(state, "small"), &length);
    put_file(in(state, "more"), bytes, length + 1); /* the terminating zero */
    assert_fails(load(in(state, "more"), error), ET_EFORMAT, "bytes follow the last tensor");
    free(bytes);
}

static void test_safetensors__every_flipped_bit(void **state)
{
    size_t length;
    write_small(in(state, "small"));
    char *bytes = get_file(in(state, "small"), &length);
    for (size_t bit = 0; bit < 8 * length; bit++) {
        et_safetensors *file;
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        put_file(in(state, "flip"), bytes, length);
        if (load(in(state, "flip"), NULL) != ET_EFORMAT)
            fail_msg("bit %zu of byte %zu was not found", bit % 8, bit / 8);
        /* Damage does not turn a sealed file into one without a seal either. */
        if (et_safetensors_open_foreign(&file, in(state, "flip"), NULL) == ET_OK) {
            assert_true(et_safetensors_sealed(file));
            et_safetensors_close(file);
        }
        bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
    free(bytes);
}

/* Name, both checksums and the byte. */
static void test_safetensors__damage_is_named(void **state)
{
    size_t length;
    et_error failure = ET_ERROR_INIT;
    write_small(in(state, "small"));
    char *bytes = get_file(in(state, "small"), &length);
    bytes[length - 1] ^= 0x10; /* shadow is the last one */
    put_file(in(state, "small"), bytes, length);
    char expected[200];
    snprintf(expected, sizeof expected, "%s: damaged: shadow: checksum %s, file says %s (byte %zu)",
             in(state, "small"), et_checksum_print(et_checksum(bytes + length - 6, 6)).digits,
             et_checksum_print(et_checksum(shadow, 6)).digits, length - 6);
    assert_int_equal(load(in(state, "small"), &failure), ET_EFORMAT);
    assert_string_equal(failure.text, expected);
    assert_true(length < 1000); /* or the byte has a comma */
    bytes[100] ^= 1;
    put_file(in(state, "small"), bytes, length);
    assert_fails(load(in(state, "small"), error), ET_EFORMAT, "small: damaged: header: checksum ");
    free(bytes);
}

/* A file from a header and a number of data bytes. */
static void put_raw(const char *path, const char *header, size_t data)
{
    const size_t length = strlen(header);
    char *bytes = calloc(1, 8 + length + data);
    assert_non_null(bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)((uint64_t)length >> (8 * i));
    memcpy(bytes + 8, header, length);
    put_file(path, bytes, 8 + length + data);
    free(bytes);
}

static int open_foreign(const char *path, et_error *error)
{
    et_safetensors *file;
    const int status = et_safetensors_open_foreign(&file, path, error);
    et_safetensors_close(file);
    return status;
}

#define TENSOR(name, dtype, shape, begin, end)                                                     \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" begin "," end \
    "]}"

static const struct {
    const char *header;
    size_t data;
    const char *message; /* NULL: sound */
} rules[] = {
    { "{}", 0, NULL },
    { "{}   ", 0, NULL },
    { "{" TENSOR("a", "F32", "2", "0", "8") "}", 8, NULL },
    { "{\"__metadata__\":{\"k\":\"v\"}," TENSOR("a", "F32", "", "0", "4") "}", 4, NULL },
    { "{" TENSOR("b", "BF16", "1", "0", "2") "," TENSOR("a", "F32", "1", "2", "6") "}", 6, NULL },
    { "{" TENSOR("a", "F16", "3", "0", "6") "}", 6, NULL },
    { "{" TENSOR("b", "I32", "1", "4", "8") "," TENSOR("a", "I32", "1", "0", "4") "}", 8, NULL },
    { "{" TENSOR("a", "F32", "0,9223372036854775807", "0", "0") "}", 0, NULL },
    { "", 0, "not a JSON object" },
    { " {}", 0, "not a JSON object" },
    { "{}\n", 0, "not a JSON object" },
    { "{} x", 0, "not a JSON object" },
    { "[]", 0, "not a JSON object" },
    { "{}{}", 0, "" },
    { "{\"a\"}", 0, "" },
    { "{\"a\xff\":1}", 0, "" },
    { "{\"a\\u0000\":1}", 0, "" },
    { "{" TENSOR("a", "F32", "1", "0", "4") "," TENSOR("a", "F32", "1", "4", "8") "}", 8, "" },
    { "{\"__metadata__\":[]}", 0, "__metadata__: is not an object" },
    { "{\"__metadata__\":{\"k\":1}}", 0, "has entries that are not strings" },
    { "{\"__metadata__\":{\"k\":null}}", 0, "has entries that are not strings" },
    { "{\"__metadata__\":{},\"__metadata__\":{}}", 0, "" },
    { "{\"a\":1}", 0, "a: is not an object of" },
    { "{\"a\":{}}", 0, "a: is not an object of" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4],\"x\":1}}", 4,
      "is not an object of" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"offsets\":[0,4]}}", 4, "data_offsets is not" },
    { "{\"a\\u0007\":{}}", 0, "control characters" },
    { "{\"a\":{\"dtype\":1,\"shape\":[],\"data_offsets\":[0,4]}}", 4, "dtype is not a string" },
    { "{" TENSOR("a", "f32", "1", "0", "4") "}", 4, "a: unknown dtype" },
    { "{" TENSOR("a", "F64", "1", "0", "8") "}", 8, "a: dtype F64 is not supported; convert" },
    { "{" TENSOR("a", "I16", "1", "0", "2") "}", 2, "a: dtype I16 is not supported; convert" },
    { "{" TENSOR("a", "F16", "3", "0", "4") "}", 4, "different lengths" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[0,4]}}", 4, "shape is not a list" },
    { "{" TENSOR("a", "F32", "-1", "0", "4") "}", 4, "is not a count" },
    { "{" TENSOR("a", "F32", "1.0", "0", "4") "}", 4, "is not a count" },
    { "{" TENSOR("a", "F32", "\"1\"", "0", "4") "}", 4, "is not a count" },
    { "{" TENSOR("a", "F32", "1,1,1,1,1", "0", "4") "}", 4,
      "5 dimensions are not supported; at most" },
    { "{" TENSOR("a", "F32", "4611686018427387904", "0", "0") "}", 0, "its shape is too large" },
    { "{" TENSOR("a", "F32", "4294967296,4294967296", "0", "0") "}", 0, "its shape is too large" },
    { "{" TENSOR("a", "F32", "2305843009213693952,8", "0", "0") "}", 0, "its shape is too large" },
    { "{" TENSOR("a", "F32", "99999999999999999999", "0", "4") "}", 4, "" },
    { "{" TENSOR("a", "F32", "2", "0", "4") "}", 4,
      "shape and data_offsets give different lengths" },
    { "{" TENSOR("a", "F32", "1", "4", "0") "}", 4, "data_offsets decrease" },
    { "{" TENSOR("a", "F32", "1", "-4", "0") "}", 4, "data_offsets decrease" },
    { "{" TENSOR("a", "F32", "1", "0", "4.0") "}", 4, "not a pair of counts" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4,8]}}", 4, "not a pair" },
    { "{" TENSOR("a", "F32", "1", "4", "8") "}", 8, "a: leaves a gap before it" },
    { "{" TENSOR("a", "F32", "2", "0", "8") "," TENSOR("b", "F32", "2", "4", "12") "}", 12,
      "b: overlaps the tensor before it" },
    { "{" TENSOR("a", "F32", "2", "0", "8") "," TENSOR("b", "F32", "2", "0", "8") "}", 8,
      "b: overlaps the tensor before it" },
    { "{" TENSOR("a", "F32", "1", "0", "4") "," TENSOR("b", "F32", "1", "8", "12") "}", 12,
      "b: leaves a gap before it" },
    { "{" TENSOR("a", "F32", "2", "0", "8") "}", 7, "a: the file ends within it" },
    { "{" TENSOR("a", "F32", "2", "0", "8") "}", 9, "bytes follow the last tensor" },
    { "{" TENSOR("a", "F32", "1000000000000000000", "0", "4000000000000000000") "}", 8,
      "a: the file ends within it" },
    { "{\"__metadata__\":{\"format\":\"etude-1\"}}", 0,
      "damaged: the header does not match its checksum" },
    { "{\"__metadata__\":{\"format\":\"etude-2\"}}", 0, "a format that this version" },
    { "{\"__metadata__\":{\"header_checksum\":\"\"}}", 0,
      "damaged: the header does not match its checksum" },
};

static void test_safetensors__each_rule(void **state)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        put_raw(in(state, "raw"), rules[i].header, rules[i].data);
        if (rules[i].message == NULL)
            assert_ok(open_foreign(in(state, "raw"), error));
        else
            assert_fails(open_foreign(in(state, "raw"), error), ET_EFORMAT, rules[i].message);
        /* Without a seal, none of them is a checkpoint of ours. */
        assert_int_equal(load(in(state, "raw"), NULL), ET_EFORMAT);
    }
}

/* Lengths of a header that no file has. */
static void test_safetensors__header_length(void **state)
{
    static const struct {
        unsigned char bytes[10];
        size_t length;
        const char *message;
    } cases[] = {
        { { 0 }, 0, "shorter than 8 bytes" },
        { { 2, 0, 0, 0, 0, 0, 0 }, 7, "shorter than 8 bytes" },
        { { 3, 0, 0, 0, 0, 0, 0, 0, '{', '}' }, 10, "it ends within its header" },
        { { 0x00, 0xe1, 0xf5, 0x05, 0, 0, 0, 0, '{', '}' }, 10, "it ends within its header" },
        { { 0x01, 0xe1, 0xf5, 0x05, 0, 0, 0, 0, '{', '}' },
          10,
          "the length of its header is more than 100,000,000" },
        { { 255, 255, 255, 255, 255, 255, 255, 255, '{', '}' },
          10,
          "the length of its header is more than 100,000,000" },
        { { 248, 255, 255, 255, 255, 255, 255, 255, '{', '}' },
          10,
          "the length of its header is more than 100,000,000" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put_file(in(state, "raw"), cases[i].bytes, cases[i].length);
        assert_fails(open_foreign(in(state, "raw"), error), ET_EFORMAT, cases[i].message);
    }
    assert_fails(load(in(state, "absent"), error), ET_ENOTFOUND, "absent");
    assert_int_equal(load(*state, NULL), ET_EDENIED);
}

/* A few megabytes that name the same bytes thousands of times, and deep nesting. */
static void test_safetensors__bombs(void **state)
{
    enum { COUNT = 20000 };
    char *header = malloc(COUNT * 80 + 3), *at = header;
    assert_non_null(header);
    at += sprintf(at, "{");
    for (int i = 0; i < COUNT; i++)
        at += sprintf(at, "%s\"t%d\":{\"dtype\":\"F32\",\"shape\":[250],\"data_offsets\":[0,1000]}",
                      i > 0 ? "," : "", i);
    sprintf(at, "}");
    put_raw(in(state, "overlap"), header, 1000);
    assert_fails(open_foreign(in(state, "overlap"), error), ET_EFORMAT, "overlaps");
    memset(header, '[', 100000);
    memcpy(header, "{\"a\":", 5);
    strcpy(header + 100000, "}");
    put_raw(in(state, "deep"), header, 0);
    assert_int_equal(open_foreign(in(state, "deep"), NULL), ET_EFORMAT);
    free(header);
}

/* Room for n bytes only, for every n: the old file stays and there is no other file. */
static void test_safetensors__no_room(void **state)
{
    size_t length, entries = 0;
    et_safetensors_written written = write_small(in(state, "old"));
    char *before = get_file(in(state, "old"), &length);
    for (rlim_t room = 0; room < length; room += 13) {
        et_error error = ET_ERROR_INIT;
        limit_files(room);
        const int status = et_safetensors_write(&written, in(state, "old"), items, 1, NULL, &error);
        unlimit_files();
        /* One item is smaller than before. */
        if (status == ET_OK)
            break;
        assert_int_equal(status, ET_ENOSPACE);
        assert_non_null(strstr(error.text, "old"));
        size_t now;
        char *after = get_file(in(state, "old"), &now);
        assert_int_equal(now, length);
        assert_memory_equal(after, before, length);
        free(after);
        char name[64];
        snprintf(name, sizeof name, "old.tmp.%d", (int)getpid());
        assert_false(file_is_there(in(state, name)));
        entries++;
    }
    assert_true(entries > 10);
    assert_ok(load(in(state, "old"), error));
    free(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_safetensors__round_trip),
        cmocka_unit_test(test_safetensors__foreign),
        cmocka_unit_test(test_safetensors__layout),
        cmocka_unit_test(test_safetensors__no_tensors),
        cmocka_unit_test(test_safetensors__names_are_unique),
        cmocka_unit_test(test_safetensors__every_truncation),
        cmocka_unit_test(test_safetensors__appended_garbage),
        cmocka_unit_test(test_safetensors__every_flipped_bit),
        cmocka_unit_test(test_safetensors__damage_is_named),
        cmocka_unit_test(test_safetensors__each_rule),
        cmocka_unit_test(test_safetensors__header_length),
        cmocka_unit_test(test_safetensors__bombs),
        cmocka_unit_test(test_safetensors__no_room),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
