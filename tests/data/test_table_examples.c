/* Rows of tf.Examples: equal to those of CSV; lists and vectors; and faults in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "data/table_rows.h"

/* The rows that CSV gives, plain and GZIP, in memory and in a file. */
static void test_table_examples__same_rows(void **state)
{
    fixture *f = *state;
    const char *csv[] = { write_many(f, "e.csv", 0, 50) };
    const char *records[] = { write_examples(f, "e.tfrecord", NULL, 0, 20),
                              write_examples(f, "e.gz", "tfrecords_gzip", 20, 30) };
    et_samples *left = NULL, *right = NULL;
    char text[100];
    for (int i = 0; i < 3; i++) {
        const et_table_samples_options options = { .examples = true,
                                                   .cache = fixture_path(f, "rows"),
                                                   .memory = i ? 1 : 0 };
        assert_ok(open_table(&left, csv, 1, (et_table_samples_options){ .csv = { 0 } }, error));
        assert_ok(open_table(&right, records, 2, options, error));
        assert_true(left->fingerprint == right->fingerprint);
        right->class->describe(right, 21, 0, text, sizeof text);
        assert_contains(text, "e.gz:2");
        assert_string_equal(read_all(f, left, false), read_all(f, right, false));
    }
}

/* One example with a feature in place of age. */
static const char *write_one(fixture *f, const et_feature *feature, const char *job)
{
    const char *path = fixture_path(f, "one");
    et_example_builder *b;
    assert_ok(et_example_builder_new(&b, NULL, error));
    example(b, 3, job, "low");
    if (feature)
        et_example_add_feature(b, feature);
    assert_ok(et_records_write(path, NULL, &b, 1, error));
    et_example_builder_free(b);
    return path;
}

static int open_one(fixture *f, const et_feature *feature, const char *job, et_error *error)
{
    const char *path = write_one(f, feature, job);
    et_samples *samples = NULL;
    int status =
        open_table(&samples, &path, 1, (et_table_samples_options){ .examples = true }, error);
    et_samples_close(samples);
    return status;
}

static void test_table_examples__bad(void **state)
{
    static const int64_t two[] = { 1, 2 };
    static const float half = 0.5f, nan = NAN, infinite = INFINITY;
    static const et_bytes text = { "17", 2 };
    static const struct {
        et_feature feature;
        const char *job, *error;
    } cases[] = {
        { { .key = "age", .kind = ET_FEATURE_INTS, .count = 2, .ints = two },
          "a",
          "one:1: feature age has 2 values, but the schema says 1" },
        { { .key = "age", .kind = ET_FEATURE_BYTES, .count = 1, .bytes = &text },
          "a",
          "one:1: feature age has bytes, but the schema says integer" },
        { { .key = "age", .kind = ET_FEATURE_FLOATS, .count = 1, .floats = &half },
          "a",
          "one:1: column age: 0.5 is not an integer, but the schema says so: correct it, set "
          "fractions: true, or make the field real" },
        { { .key = "age", .kind = ET_FEATURE_FLOATS, .count = 1, .floats = &infinite },
          "a",
          "one:1: column age: inf is not finite: correct it" },
        { { .key = "job", .kind = ET_FEATURE_INTS, .count = 1, .ints = two },
          "a",
          "one:1: feature job has integers, but the schema says discrete" },
        { { .key = NULL }, "\xff", "one:1: feature job: byte 1 of its text is not UTF-8" },
        { { .key = "income", .kind = ET_FEATURE_BYTES, .count = 1, .bytes = &text },
          "a",
          "one:1: column income: the label \"17\" is not one" },
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_fails(
            open_one(*state, cases[i].feature.key ? &cases[i].feature : NULL, cases[i].job, error),
            ET_EDATA, cases[i].error);
    /* Missing: NaN, an empty list, an empty text, no feature at all. */
    const et_feature missing[] = {
        { .key = "age", .kind = ET_FEATURE_FLOATS, .count = 1, .floats = &nan },
        { .key = "age", .kind = ET_FEATURE_INTS },
        { .key = "age", .kind = ET_FEATURE_NONE },
    };
    for (size_t i = 0; i < COUNT(missing); i++)
        assert_ok(open_one(*state, &missing[i], "", error));
    const char *path = write_text(*state, "no.tfrecord", "age,job\n1,2\n");
    et_samples *samples = NULL;
    assert_fails(
        open_table(&samples, &path, 1, (et_table_samples_options){ .examples = true }, error),
        ET_EFORMAT, "no.tfrecord: record 1 at byte 0");
}

/* Every byte of a file of records changed: an error that names it, or other rows. */
static void test_table_examples__mutated(void **state)
{
    const char *path = write_examples(*state, "m.tfrecord", NULL, 0, 3);
    char *bytes;
    size_t length;
    assert_ok(et_file_read(&bytes, &length, path, 100000, error));
    for (size_t at = 0; at < length; at++) {
        et_error error = ET_ERROR_INIT;
        et_samples *samples = NULL;
        bytes[at] ^= 8;
        overwrite(path, bytes, length);
        bytes[at] ^= 8;
        assert_int_equal(
            open_table(&samples, &path, 1, (et_table_samples_options){ .examples = true }, &error),
            ET_EFORMAT);
        assert_contains(error.text, "m.tfrecord");
    }
    et_free(bytes);
}

/* Images as bytes, vectors as lists. */
static void test_table_examples__vectors(void **state)
{
    fixture *f = *state;
    static const char *const image_schema = "fields:\n- {name: image, type: integer, length: 4}\n"
                                            "- {name: v, type: real, length: 2}\n";
    static const char *const image_features = "features:\n- {name: X, type: concat, features: ["
                                              "{name: image, type: scale}, {name: v}]}\n";
    static const unsigned char pixels[] = { 0, 51, 255, 102 };
    static const float v[] = { -1, 2.5f }, expected[] = { 0, 0.2f, 1, 0.4f, -1, 2.5f };
    const et_bytes image = { pixels, 4 };
    const char *path = fixture_path(f, "image");
    const char *csv = write_text(f, "image.csv", "0,51,255,102,-1,2.5\n");
    const char *named = write_text(f, "named.csv",
                                   "v[1],v[0],image[3],image[2],image[1],image[0]\n2.5,-1,102,255,"
                                   "51,0\n");
    et_example_builder *b;
    et_encoder *encoder = NULL;
    assert_ok(et_example_builder_new(&b, NULL, error));
    et_example_add_floats(et_example_add_bytes(b, "image", &image, 1), "v", v, 2);
    assert_ok(et_records_write(path, NULL, &b, 1, error));
    et_example_builder_free(b);
    assert_ok(encoder_parse(&encoder, image_schema, "{\"image\": {\"min\": 0, \"max\": 255}}",
                            image_features, error));
    const char *ways[] = { path, csv, named };
    for (int i = 0; i < 3; i++) {
        const et_table_samples_options options = { .paths = { &ways[i], 1 }, .examples = i == 0 };
        et_samples *samples = NULL;
        et_batch *batch;
        assert_ok(et_table_samples_open(&samples, encoder, &options, error));
        et_layout layout = samples->layout;
        layout.capacity[0] = 1;
        assert_ok(et_batch_new(&batch, &layout, error));
        assert_ok(samples->class->fill(samples, (et_pick){ &(uint32_t){ 0 }, 1, 0 }, batch, error));
        for (int k = 0; k < 6; k++)
            assert_true(((float *)batch->data[0])[k] == expected[k]);
        et_batch_free(batch);
        et_samples_close(samples);
    }
    et_encoder_free(encoder);
}

/* Any number of values: every one marks its column. In CSV there is one. */
static void test_table_examples__lists(void **state)
{
    fixture *f = *state;
    static const char *const list_schema = "fields:\n- {name: tags, type: discrete, length: 0}\n"
                                           "- {name: n, type: integer, length: 0}\n";
    static const char *const list_features =
        "features:\n- {name: X, type: concat, features: [{name: tags, type: one-hot}, {name: n, "
        "type: bucketize, transform: {boundaries: [0, 10]}}, {name: n, type: missing}]}\n";
    static const et_bytes tags[] = { { "b", 1 }, { "", 0 }, { "?", 1 }, { "b", 1 } };
    static const int64_t n[] = { 12, -3 };
    static const float half = 0.5f, expected[][7] = { { 0, 1, 1, 1, 0, 1, 0 },
                                                      { 0, 0, 1, 0, 0, 0, 1 },
                                                      { 1, 0, 0, 0, 1, 0, 0 } };
    const char *path = fixture_path(f, "lists"), *bad = fixture_path(f, "bad");
    const char *csv = write_text(f, "lists.csv", "n,tags\n7,a\n");
    et_example_builder *b[3];
    et_encoder *encoder = NULL;
    et_samples *samples = NULL;
    for (int i = 0; i < 3; i++)
        assert_ok(et_example_builder_new(&b[i], NULL, error));
    et_example_add_ints(et_example_add_bytes(b[0], "tags", tags, 4), "n", n, 2);
    et_example_add_bytes(b[1], "tags", tags + 1, 1);
    et_example_add_floats(b[2], "n", &half, 1);
    assert_ok(et_records_write(path, NULL, b, 2, error));
    assert_ok(et_records_write(bad, NULL, b + 2, 1, error));
    assert_ok(encoder_parse(&encoder, list_schema, "{\"tags\": {\"entries\": [\"a\", \"b\"]}}",
                            list_features, error));
    for (int way = 0; way < 2; way++) {
        const et_table_samples_options options = { .paths = { way ? &csv : &path, 1 },
                                                   .examples = !way };
        et_batch *batch;
        assert_ok(et_table_samples_open(&samples, encoder, &options, error));
        et_layout layout = samples->layout;
        layout.capacity[0] = samples->count;
        assert_ok(et_batch_new(&batch, &layout, error));
        assert_ok(samples->class->fill(
            samples, (et_pick){ (uint32_t[]){ 0, 1 }, samples->count, 0 }, batch, error));
        assert_memory_equal(batch->data[0], expected[way ? 2 : 0],
                            (size_t)samples->count * sizeof *expected);
        et_batch_free(batch);
        et_samples_close(samples);
    }
    const et_table_samples_options wrong = { .paths = { &bad, 1 }, .examples = true };
    assert_fails(et_table_samples_open(&samples, encoder, &wrong, error), ET_EDATA,
                 "bad:1: column n: 0.5 is not an integer, but the schema says so: correct it, set "
                 "fractions: true, or make the field real");
    for (int i = 0; i < 3; i++)
        et_example_builder_free(b[i]);
    et_encoder_free(encoder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_table_examples__same_rows, fixture_open,
                                        fixture_close),
        cmocka_unit_test_setup_teardown(test_table_examples__bad, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table_examples__mutated, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table_examples__vectors, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_table_examples__lists, fixture_open, fixture_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
