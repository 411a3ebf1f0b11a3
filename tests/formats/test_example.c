#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etude/records.h>

#include "base/scarce.h"
#include "calls.h"
#include "formats/records/example.h"

#define GOLDEN       ET_TEST_SOURCE "/tests/data/records/"
#define COUNT(array) (sizeof(array) / sizeof *(array))

static et_example_builder *new_builder(const char *prefix)
{
    et_example_builder *builder = NULL;
    assert_ok(et_example_builder_new(&builder, prefix, error));
    return builder;
}

static et_example *parse_built(et_example_builder *builder)
{
    const void *bytes;
    size_t length;
    et_example *example = NULL;
    assert_ok(et_example_serialized(builder, &bytes, &length, error));
    assert_ok(et_example_parse(&example, bytes, length, error));
    return example;
}

static void assert_bytes(const et_bytes *bytes, const char *text)
{
    assert_int_equal(bytes->length, strlen(text));
    assert_memory_equal(bytes->data, text, bytes->length);
}

/* Each kind there and back; a feature of a key that is there takes its place. */
static void test_example__round_trip(void **state)
{
    (void)state;
    const int64_t ints[] = { 0, 1, -1, INT64_MAX, INT64_MIN, 300 };
    const float floats[] = { 0, -0.0f, 1.5f, 3e38f };
    const et_bytes strings[] = { { "a", 1 }, { NULL, 0 }, { "\0\xff", 2 } };
    et_example_builder *b = new_builder(NULL);
    et_example_add_text(b, "name", "old");
    et_example_add_floats(
        et_example_add_ints(et_example_add_bytes(b, "strings", strings, 3), "ints", ints, 6),
        "floats", floats, 4);
    et_example_add_text(et_example_add_ints(b, "none", NULL, 0), "name", "neu");
    et_example_add_feature(b, &(et_feature){ .key = "empty" });
    et_example *e = parse_built(b);
    static const char *const keys[] = { "empty", "floats", "ints", "name", "none", "strings" };
    assert_int_equal(e->count, 6);
    for (size_t i = 0; i < 6; i++)
        assert_string_equal(e->features[i].key, keys[i]);
    const et_feature *f = et_example_find(e, "ints");
    assert_int_equal(f->kind, ET_FEATURE_INTS);
    assert_int_equal(f->count, 6);
    assert_memory_equal(f->ints, ints, sizeof ints);
    f = et_example_find(e, "floats");
    assert_int_equal(f->kind, ET_FEATURE_FLOATS);
    assert_memory_equal(f->floats, floats, sizeof floats);
    f = et_example_find(e, "strings");
    assert_int_equal(f->count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(f->bytes[i].length, strings[i].length);
        if (strings[i].length)
            assert_memory_equal(f->bytes[i].data, strings[i].data, strings[i].length);
    }
    assert_bytes(et_example_find(e, "name")->bytes, "neu");
    assert_int_equal(et_example_find(e, "none")->kind, ET_FEATURE_INTS);
    assert_int_equal(et_example_find(e, "none")->count, 0);
    assert_int_equal(et_example_find(e, "empty")->kind, ET_FEATURE_NONE);
    assert_null(et_example_find(e, "other"));
    et_example_free(e);
    et_example_builder_free(b);
    et_example_builder_free(NULL);
    et_example_free(NULL);
}

/* Equal features, equal bytes; the bytes of protobuf's own deterministic order. */
static void test_example__order(void **state)
{
    (void)state;
    static const char expected[] = "\x0a\x18\x0a\x0a\x0a\x01\x61\x12\x05\x1a\x03\x0a\x01\x07"
                                   "\x0a\x0a\x0a\x01\x62\x12\x05\x0a\x03\x0a\x01\x78";
    et_example_builder *b = new_builder(NULL), *c = new_builder(NULL);
    const int64_t seven = 7;
    const void *first, *second;
    size_t length, other;
    et_example_add_text(et_example_add_ints(b, "a", &seven, 1), "b", "x");
    et_example_add_ints(et_example_add_text(c, "b", "x"), "a", &seven, 1);
    assert_ok(et_example_serialized(b, &first, &length, error));
    assert_ok(et_example_serialized(c, &second, &other, error));
    assert_int_equal(length, other);
    assert_memory_equal(first, second, length);
    assert_int_equal(length, sizeof expected - 1);
    assert_memory_equal(first, expected, length);
    et_example_builder_free(b);
    et_example_builder_free(c);
}

static void test_example__prefix(void **state)
{
    (void)state;
    et_example_builder *b = new_builder("image"), *c = new_builder("other");
    et_example_add_text(b, "format", "PNG");
    assert_string_equal(et_example_built(b)->features[0].key, "image/format");
    et_example_set(c, et_example_built(b)); /* keys in the message */
    assert_string_equal(et_example_built(c)->features[0].key, "image/format");
    et_example_add_features(c, et_example_built(b)->features, 1);
    assert_string_equal(et_example_built(c)->features[1].key, "other/image/format");
    assert_int_equal(et_example_built(et_example_reset(c))->count, 0);
    et_example_builder_free(b);
    et_example_builder_free(c);
}

/* A failure while adding is reported when the bytes are requested, and cleared by reset. */
static void test_example__bad_key(void **state)
{
    (void)state;
    et_example_builder *b = new_builder(NULL);
    const void *bytes;
    size_t length;
    et_example_add_text(et_example_add_text(b, "a\xff", "x"), "fine", "y");
    assert_fails(et_example_serialized(b, &bytes, &length, error), ET_EDATA,
                 "the key of a feature: byte 2 (0xFF) is not UTF-8");
    assert_ok(et_example_serialized(et_example_add_text(et_example_reset(b), "a", "x"), &bytes,
                                    &length, error));
    assert_fails(et_example_serialized(et_example_add_text(b, NULL, "x"), &bytes, &length, error),
                 ET_EDATA, "a feature has no key");
    et_example_reset(b);
    assert_fails(et_example_serialized(et_example_add_text(b, "a", NULL), &bytes, &length, error),
                 ET_EDATA, "feature a: the text is NULL");
    et_feature odd = { .key = "a", .kind = (et_feature_kind)99, .count = 3 };
    et_example_reset(b);
    assert_fails(et_example_serialized(et_example_add_feature(b, &odd), &bytes, &length, error),
                 ET_EDATA, "feature a: 99 is not a kind of values");
    const et_example whole = { .features = &odd, .count = 1 };
    assert_fails(et_example_serialized(et_example_set(b, &whole), &bytes, &length, error), ET_EDATA,
                 "feature a: 99 is not a kind of values");
    et_example_builder_free(b);
}

/* Messages by hand: lists that are not packed, a key that comes again, unknown fields. */
static void test_example__forms(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        int64_t ints[3];
        size_t count;
    } cases[] = {
#define MESSAGE(text) text, sizeof text - 1
        /* value 1, value 300, each with its own tag */
        { MESSAGE("\x0a\x0e\x0a\x0c\x0a\x01k\x12\x07\x1a\x05\x08\x01\x08\xac\x02"), { 1, 300 }, 2 },
        /* packed and not, mixed */
        { MESSAGE("\x0a\x0f\x0a\x0d\x0a\x01k\x12\x08\x1a\x06\x08\x05\x0a\x02\x06\x07"),
          { 5, 6, 7 },
          3 },
        /* the key twice: the last counts */
        { MESSAGE("\x0a\x18\x0a\x0a\x0a\x01k\x12\x05\x1a\x03\x0a\x01\x01"
                  "\x0a\x0a\x0a\x01k\x12\x05\x1a\x03\x0a\x01\x02"),
          { 2 },
          1 },
        /* two kinds in one feature: the last counts */
        { MESSAGE("\x0a\x10\x0a\x0e\x0a\x01k\x12\x09\x0a\x02\x0a\x00\x1a\x03\x0a\x01\x09"),
          { 9 },
          1 },
        /* a field that is not known */
        { MESSAGE("\x0a\x0c\x0a\x0a\x0a\x01k\x12\x05\x1a\x03\x0a\x01\x04\x78\x01"), { 4 }, 1 },
#undef MESSAGE
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        et_example *e = NULL;
        assert_ok(et_example_parse(&e, cases[i].bytes, cases[i].length, error));
        assert_int_equal(e->count, 1);
        const et_feature *f = et_example_find(e, "k");
        assert_int_equal(f->kind, ET_FEATURE_INTS);
        assert_int_equal(f->count, cases[i].count);
        assert_memory_equal(f->ints, cases[i].ints, f->count * sizeof *f->ints);
        et_example_free(e);
    }
}

static void test_example__empty(void **state)
{
    (void)state;
    static const char *const messages[] = { "", "\x0a" };
    et_example *e = NULL;
    assert_ok(et_example_parse(&e, NULL, 0, error));
    assert_int_equal(e->count, 0);
    et_example_free(e);
    assert_ok(et_example_parse(&e, "\x0a\x00", 2, error)); /* features, but no entry */
    assert_int_equal(e->count, 0);
    et_example_free(e);
    assert_fails(et_example_parse(&e, messages[1], 1, error), ET_EFORMAT, "not a tf.Example");
}

/* Thousands of empty entries: refused before they take a multiple of the message's memory. */
static void test_example__hungry(void **state)
{
    (void)state;
    enum { ENTRIES = 40000 };
    size_t length = 2 * (size_t)ENTRIES;
    unsigned char *message = malloc(length + 5);
    et_example *e = NULL;
    message[0] = 0x0a; /* features, of `length` bytes */
    for (int i = 0; i < 4; i++)
        message[1 + i] = (unsigned char)((length >> 7 * i & 0x7f) | (i < 3 ? 0x80 : 0));
    for (size_t i = 0; i < ENTRIES; i++)
        memcpy(message + 5 + 2 * i, "\x0a\x00", 2);
    assert_fails(et_example_parse(&e, message, length + 5, error), ET_EFORMAT,
                 "bytes of memory: the file is damaged");
    free(message);
}

/* The golden messages with bytes changed, cut off and inserted: nothing outside is read (the
 * sanitizers check this), and a message that parses can be walked through. */
static void test_example__hostile(void **state)
{
    (void)state;
    et_record_reader *reader;
    const void *bytes;
    size_t length;
    unsigned seed = 11, parsed = 0;
    assert_ok(et_record_reader_open(&reader, GOLDEN "kinds.tfrecord", error));
    for (;;) {
        assert_ok(et_record_read(reader, &bytes, &length, error));
        if (!bytes)
            break;
        for (int round = 0; round < 3000; round++) {
            unsigned char *copy = malloc(length); /* exact, for the sanitizer */
            memcpy(copy, bytes, length);
            for (unsigned n = 1 + round % 4; n; n--) {
                seed = seed * 1664525u + 1013904223u;
                copy[(seed >> 8) % length] = (unsigned char)(seed >> 24);
            }
            size_t cut = round % 3 ? length : (seed >> 4) % length;
            et_example *e = NULL;
            if (!et_example_parse(&e, copy, cut, NULL)) {
                size_t sum = 0;
                for (size_t i = 0; i < e->count; i++)
                    for (size_t k = 0; k < e->features[i].count; k++)
                        sum += e->features[i].kind == ET_FEATURE_BYTES
                                   ? e->features[i].bytes[k].length
                                   : 1;
                parsed += sum <= length;
                et_example_free(e);
            }
            free(copy);
        }
    }
    et_record_reader_close(reader);
    assert_in_range(parsed, 500, 9000);
}

/* What TensorFlow wrote. */
static void test_example__tensorflow(void **state)
{
    (void)state;
    et_record_reader *reader;
    const void *bytes;
    size_t length;
    et_example *e = NULL;
    assert_ok(et_record_reader_open(&reader, GOLDEN "kinds.tfrecord", error));
    assert_ok(et_record_read(reader, &bytes, &length, error));
    assert_ok(et_example_parse(&e, bytes, length, error));
    assert_int_equal(e->count, 7);
    const et_feature *f = et_example_find(e, "ids");
    assert_int_equal(f->count, 3);
    assert_true(f->ints[0] == 1 && f->ints[1] == -2 && f->ints[2] == 3);
    f = et_example_find(e, "image");
    assert_int_equal(f->bytes->length, 4);
    assert_memory_equal(f->bytes->data, "\0\1\x80\xff", 4);
    assert_bytes(&et_example_find(e, "names")->bytes[2], "\xc3\xbc");
    assert_true(et_example_find(e, "weight")->floats[0] == 0.5f);
    assert_non_null(et_example_find(e, "schl\xc3\xbcssel"));
    /* Written again it is equal, byte for byte. */
    et_example_builder *b = new_builder(NULL);
    const void *again;
    size_t again_length;
    assert_ok(et_example_serialized(et_example_set(b, e), &again, &again_length, error));
    assert_int_equal(again_length, length);
    assert_memory_equal(again, bytes, length);
    et_example_builder_free(b);
    et_example_free(e);
    et_record_reader_close(reader);
}

static int build_and_parse(et_error *error)
{
    et_example_builder *b;
    et_example *e = NULL;
    const void *bytes;
    size_t length;
    const int64_t ints[] = { 1, 2, 3 };
    int status = et_example_builder_new(&b, "p", error);
    if (status)
        return status;
    for (int i = 0; i < 20; i++) {
        char key[8];
        snprintf(key, sizeof key, "%d", i);
        et_example_add_ints(et_example_add_text(b, "text", "some text"), key, ints, 3);
    }
    status = et_example_serialized(b, &bytes, &length, error);
    if (!status)
        status = et_example_parse(&e, bytes, length, error);
    et_example_free(e);
    et_example_builder_free(b);
    return status;
}

static void test_example__out_of_memory(void **state)
{
    (void)state;
    int status = ET_ENOMEM;
    for (long calls = 0; status; calls++) {
        scarce_begin(calls);
        status = build_and_parse(NULL);
        scarce_end();
        assert_int_equal(status, scarce_failed ? ET_ENOMEM : ET_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_example__round_trip), cmocka_unit_test(test_example__order),
        cmocka_unit_test(test_example__prefix),     cmocka_unit_test(test_example__bad_key),
        cmocka_unit_test(test_example__forms),      cmocka_unit_test(test_example__empty),
        cmocka_unit_test(test_example__hungry),     cmocka_unit_test(test_example__hostile),
        cmocka_unit_test(test_example__tensorflow), cmocka_unit_test(test_example__out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
