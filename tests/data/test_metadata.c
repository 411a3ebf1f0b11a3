#include "base/main.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <etude/metadata.h>

#include "base/scarce.h"
#include "data/table/schema/schema.h"

static const double quantiles[] = { 17, 28.25, 37, 48, 90 };
static const char *const entries[] = { "<=50K", ">50K", "", "na\xc3\xafve \"x\"" };
static const int64_t counts[] = { 24720, 7841, 5, 1 };

static const et_column_metadata columns[] = {
    { .name = "age",
      .count = 32561,
      .missing = 3,
      .has_range = true,
      .min = 17,
      .max = 90,
      .has_moments = true,
      .mean = 38.58164675532078,
      .std = 13.640223192304274,
      .quantile_count = 5,
      .quantiles = quantiles,
      .distinct = 73 },
    { .name = "income", .count = 32567, .entry_count = 4, .entries = entries, .counts = counts },
    { .name = "nothing" },
    { .name = "id", .count = 7, .cut = true, .entry_count = 1, .entries = entries },
    { .name = "when", .count = 9, .words = 27, .dates = 9, .order = ET_DATE_DAY_FIRST },
};

static void check_column(const et_column_metadata *got, const et_column_metadata *want)
{
    assert_string_equal(got->name, want->name);
    assert_int_equal(got->count, want->count);
    assert_int_equal(got->missing, want->missing);
    assert_int_equal(got->distinct, want->distinct);
    assert_int_equal(got->dates, want->dates);
    assert_int_equal(got->words, want->words);
    assert_int_equal(got->order, want->order);
    assert_int_equal(got->cut, want->cut);
    assert_int_equal(got->has_range, want->has_range);
    assert_int_equal(got->has_moments, want->has_moments);
    assert_true(got->min == want->min && got->max == want->max);
    assert_true(got->mean == want->mean && got->std == want->std);
    assert_int_equal(got->quantile_count, want->quantile_count);
    for (int i = 0; i < got->quantile_count; i++)
        assert_true(got->quantiles[i] == want->quantiles[i]);
    assert_int_equal(got->entry_count, want->entry_count);
    assert_int_equal(!got->counts, !want->counts);
    for (int i = 0; i < got->entry_count; i++) {
        assert_string_equal(got->entries[i], want->entries[i]);
        if (want->counts)
            assert_int_equal(got->counts[i], want->counts[i]);
    }
}

static void check_all(const et_metadata *metadata)
{
    assert_int_equal(et_metadata_count(metadata), COUNT(columns));
    for (int i = 0; i < (int)COUNT(columns); i++) {
        check_column(et_metadata_at(metadata, i), &columns[i]);
        assert_ptr_equal(et_metadata_find(metadata, columns[i].name), et_metadata_at(metadata, i));
        assert_int_equal(et_metadata_position(metadata, columns[i].name), i);
    }
    for (int i = 0; i < 4; i++)
        assert_int_equal(et_metadata_entry(metadata, "income", entries[i], strlen(entries[i])), i);
    assert_int_equal(et_metadata_entry_at(metadata, 1, ">50K.", 4), 1);
    assert_int_equal(et_metadata_entry_at(metadata, 1, ">50K.", 5), -1);
    assert_int_equal(et_metadata_entry_at(metadata, 1, ">50K", 5), -1); /* with its NUL */
    assert_int_equal(et_metadata_entry_at(metadata, 2, ">50K", 4), -1);
    assert_int_equal(et_metadata_entry_at(metadata, 9, ">50K", 4), -1);
    assert_int_equal(et_metadata_entry(metadata, "none", ">50K", 4), -1);
    assert_null(et_metadata_at(metadata, COUNT(columns)));
    assert_int_equal(et_metadata_position(metadata, "none"), -1);
    const et_column_metadata *none = et_metadata_find(metadata, "none");
    assert_non_null(none);
    assert_true(!none->count && !none->has_range && !none->entry_count);
}

static void test_metadata__same(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_metadata *made, *loaded;
    if (et_metadata_create(&made, columns, COUNT(columns), &error))
        fail_msg("%s", error.text);
    check_all(made);
    assert_int_equal(et_metadata_save(made, "metadata-test.json", &error), ET_OK);
    if (et_metadata_load(&loaded, "metadata-test.json", &error))
        fail_msg("%s", error.text);
    check_all(loaded);
    char line[512];
    FILE *file = fopen("metadata-test.json", "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    assert_string_equal(line, "{\n");
    assert_non_null(fgets(line, sizeof line, file));
    assert_string_equal(line, "\"age\": {\"count\":32561,\"missing\":3,\"distinct\":73,\"min\":17,"
                              "\"max\":90,\"mean\":38.58164675532078,\"std\":13.640223192304274,"
                              "\"quantiles\":[17,28.25,37,48,90]},\n");
    fclose(file);
    unlink("metadata-test.json");
    et_metadata_free(made);
    et_metadata_free(loaded);
}

/* Metadata of TensorFX, and forms of other programs. */
static void test_metadata__other(void **state)
{
    (void)state;
    static const char text[] = "{\"species\": {\"vocab\": {\"entries\": [\"a\", \"b\"]}},\n"
                               " \"label\": {\"entries\": [0, 1.5, true], \"extra\": {}},\n"
                               " \"size\": {\"min\": 1, \"max\": 2.5, \"mean\": null},\n"
                               " \"half\": {\"max\": 2, \"mean\": 3, \"min\": null}}";
    et_error error = ET_ERROR_INIT;
    et_metadata *metadata;
    if (et_metadata_parse(&metadata, text, strlen(text), "m", &error))
        fail_msg("%s", error.text);
    assert_int_equal(et_metadata_entry(metadata, "species", "b", 1), 1);
    assert_int_equal(et_metadata_entry(metadata, "label", "0", 1), 0);
    assert_int_equal(et_metadata_entry(metadata, "label", "1.5", 3), 1);
    assert_int_equal(et_metadata_entry(metadata, "label", "true", 4), 2);
    const et_column_metadata *size = et_metadata_find(metadata, "size");
    assert_true(size->has_range && !size->has_moments && size->min == 1 && size->max == 2.5);
    const et_column_metadata *half = et_metadata_find(metadata, "half");
    assert_false(half->has_range || half->has_moments);
    et_metadata_free(metadata);
    assert_int_equal(et_metadata_parse(&metadata, "{}", 2, "m", &error), ET_OK);
    assert_int_equal(et_metadata_count(metadata), 0);
    et_metadata_free(metadata);
}

static const struct {
    const char *text;
    int status;
    const char *message;
} bad[] = {
    { "", ET_EFORMAT, "m:1:" },
    { "[1]", ET_EFORMAT, "m holds a list" },
    { "{\"a\": 1}", ET_EFORMAT, "m: column a is an integer" },
    { "{\"\": {}}", ET_ECONFIG, "a column without a name" },
    { "{\"a\": {\"count\": 1.5}}", ET_EFORMAT, "m: column a: count needs a count, not a number" },
    { "{\"a\": {\"count\": -1}}", ET_ECONFIG, "a negative count (" },
    { "{\"a\": {\"min\": \"1\", \"max\": 2}}", ET_EFORMAT, "min needs a number, not text" },
    { "{\"a\": {\"min\": 3, \"max\": 2}}", ET_ECONFIG,
      "m: column a: min 3 and max 2 are not a range" },
    { "{\"a\": {\"mean\": 3, \"std\": -2}}", ET_ECONFIG, "mean 3 and std -2" },
    { "{\"a\": {\"mean\": 1e999, \"std\": 2}}", ET_EFORMAT, "m:1:" },
    { "{\"a\": {\"quantiles\": 1}}", ET_EFORMAT, "quantiles needs a list" },
    { "{\"a\": {\"quantiles\": [1]}}", ET_ECONFIG, "1 quantiles" },
    { "{\"a\": {\"quantiles\": [1, \"2\"]}}", ET_EFORMAT, "a quantile needs a number" },
    { "{\"a\": {\"quantiles\": [1, 3, 2]}}", ET_ECONFIG, "quantile 3 is 2" },
    { "{\"a\": {\"entries\": {}}}", ET_EFORMAT, "entries needs a list" },
    { "{\"a\": {\"entries\": [null]}}", ET_EFORMAT, "an entry needs a text, not nothing" },
    { "{\"a\": {\"entries\": [[1]]}}", ET_EFORMAT, "an entry needs a text, not a list" },
    { "{\"a\": {\"entries\": [\"x\", \"y\", \"x\"]}}", ET_ECONFIG,
      "the entry \"x\" occurs twice: remove one" },
    { "{\"a\": {\"entries\": [1, \"1\"]}}", ET_ECONFIG,
      "the entry \"1\" occurs twice: remove one" },
    { "{\"a\": {\"vocab\": []}}", ET_EFORMAT, "vocab needs a group" },
    { "{\"a\": {\"vocab\": {\"entries\": [\"x\"]}, \"entries\": [\"y\"]}}", ET_ECONFIG,
      "entries and vocab.entries differ: remove one" },
    { "{\"a\": {\"vocab\": {\"entries\": [\"x\", \"y\"]}, \"entries\": [\"x\"]}}", ET_ECONFIG,
      "entries and vocab.entries differ: remove one" },
    { "{\"a\": {\"entries\": [\"x\"], \"counts\": [1, 2]}}", ET_ECONFIG,
      "2 counts for 1 entries: give one count per entry" },
    { "{\"a\": {\"entries\": [\"x\"], \"counts\": [1.5]}}", ET_EFORMAT, "an item of counts" },
    { "{\"a\": {\"entries\": [\"x\"], \"counts\": [-1]}}", ET_ECONFIG, "has the count -1" },
    { "{\"a\": {\"cut\": 1}}", ET_EFORMAT, "cut needs a truth value" },
    { "{\"a\": {}, \"a\": {}}", ET_EFORMAT, "m:1:" },
};

static void test_metadata__bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        et_error error = ET_ERROR_INIT;
        et_metadata *metadata = NULL;
        int status = et_metadata_parse(&metadata, bad[i].text, strlen(bad[i].text), "m", &error);
        if (status != bad[i].status)
            fail_msg("%s: %d, %s", bad[i].text, status, error.text);
        assert_null(metadata);
        assert_contains(error.text, bad[i].message);
    }
}

static void test_metadata__bad_program(void **state)
{
    (void)state;
    static const char *const broken[] = { "\xff" };
    const double with_nan[] = { 0, NAN };
    const struct {
        et_column_metadata columns[2];
        int count, status;
        const char *message;
    } rows[] = {
        { { { .name = "a" }, { .name = "a" } },
          2,
          ET_ECONFIG,
          "column a: it occurs twice: remove one" },
        { { { .name = NULL } }, 1, ET_ECONFIG, "without a name" },
        { { { .name = "a", .has_range = true, .max = NAN } }, 1, ET_ECONFIG, "are not a range" },
        { { { .name = "a", .has_moments = true, .std = INFINITY } },
          1,
          ET_ECONFIG,
          "are impossible" },
        { { { .name = "a", .quantile_count = 2 } }, 1, ET_ECONFIG, "2 quantiles" },
        { { { .name = "a", .quantile_count = 2, .quantiles = with_nan } },
          1,
          ET_ECONFIG,
          "quantile 2" },
        { { { .name = "a", .entry_count = 1 } }, 1, ET_ECONFIG, "1 entries" },
        { { { .name = "a", .entry_count = 1, .entries = broken } }, 1, ET_ECONFIG, "not UTF-8" },
        { { { .name = "a" } }, -1, ET_ECONFIG, "-1 columns" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        et_error error = ET_ERROR_INIT;
        et_metadata *metadata = NULL;
        assert_int_equal(et_metadata_create(&metadata, rows[i].columns, rows[i].count, &error),
                         rows[i].status);
        assert_null(metadata);
        assert_contains(error.text, rows[i].message);
    }
}

/* Many entries, each found at its place. */
static void test_metadata__many(void **state)
{
    (void)state;
    enum { MANY = 50000 };
    char(*texts)[16] = malloc(MANY * sizeof *texts);
    const char **list = malloc(MANY * sizeof *list);
    for (int i = 0; i < MANY; i++) {
        snprintf(texts[i], sizeof texts[i], "%d", i * 7);
        list[i] = texts[i];
    }
    et_column_metadata column = { .name = "a", .entry_count = MANY, .entries = list };
    et_metadata *metadata;
    assert_int_equal(et_metadata_create(&metadata, &column, 1, NULL), ET_OK);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(et_metadata_entry_at(metadata, 0, texts[i], strlen(texts[i])), i);
    assert_int_equal(et_metadata_entry_at(metadata, 0, "1", 1), -1);
    et_metadata_free(metadata);
    free(texts);
    free(list);
}

static void test_metadata__mutated(void **state)
{
    (void)state;
    static const char text[] =
        "{\"a\": {\"count\":32561,\"missing\":3,\"min\":17,\"max\":90,\"mean\":38.5,\"std\":13.6,"
        "\"quantiles\":[17,28.25,37]},\"b\": {\"entries\":[\"<=50K\",\">50K\"],\"counts\":[2,1],"
        "\"vocab\":{\"entries\":[\"<=50K\",\">50K\"]},\"cut\":true}}";
    unsigned seed = 5;
    for (int round = 0; round < 20000; round++) {
        char copy[sizeof text];
        memcpy(copy, text, sizeof text);
        for (int i = 0; i < 2; i++) {
            seed = seed * 1664525u + 1013904223u;
            copy[(seed >> 8) % (sizeof text - 1)] = (char)((seed >> 24) & 0x7f);
        }
        et_metadata *metadata;
        et_error error = ET_ERROR_INIT;
        int status = et_metadata_parse(&metadata, copy, sizeof text - 1, "m", &error);
        if (!status)
            et_metadata_free(metadata);
        else
            assert_true((status == ET_ECONFIG || status == ET_EFORMAT) && *error.text);
    }
}

static void test_metadata__scarce(void **state)
{
    (void)state;
    static const char text[] = "{\"a\": {\"min\":17,\"max\":90,\"quantiles\":[1,2]},"
                               "\"b\": {\"entries\":[1,\"x\"],\"counts\":[2,1]}}";
    for (long n = 0;; n++) {
        et_metadata *metadata;
        et_error error = ET_ERROR_INIT;
        scarce_begin(n);
        int status = et_metadata_parse(&metadata, text, strlen(text), "m", &error);
        if (!status) {
            status = et_metadata_save(metadata, "metadata-scarce.json", &error);
            et_metadata_free(metadata);
        }
        bool failed = scarce_failed;
        scarce_end();
        if (!failed) {
            assert_int_equal(status, ET_OK);
            unlink("metadata-scarce.json");
            return;
        }
        if (status != ET_ENOMEM)
            fail_msg("%ld: %d %s", n, status, error.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metadata__same),   cmocka_unit_test(test_metadata__other),
        cmocka_unit_test(test_metadata__bad),    cmocka_unit_test(test_metadata__bad_program),
        cmocka_unit_test(test_metadata__many),   cmocka_unit_test(test_metadata__mutated),
        cmocka_unit_test(test_metadata__scarce),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
