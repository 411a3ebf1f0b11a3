#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "calls.h"
#include "data/table/analysis/column_use.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const entries[] = { "a", "b", "c" };
static const char *const days[] = { "2024-05-31", "2024-06-01" };
static const int64_t counts[] = { 50, 2, 1 };
static const int64_t many[] = { 50, 5, 4 };

#define TEXT(rows, differ, ...)                                                                    \
    {                                                                                              \
        .name = "c", .count = rows, .distinct = differ, __VA_ARGS__                                \
    }
#define ENTRIES  .entry_count = 3, .entries = entries, .counts = counts
#define FREQUENT .entry_count = 3, .entries = entries, .counts = many

static const struct {
    et_schema_field field;
    et_column_metadata metadata;
    const char *text;
} columns[] = {
    { { .type = ET_SCHEMA_DISCRETE }, TEXT(600, 3, ENTRIES), "embedding of 3 values" },
    { { .type = ET_SCHEMA_DISCRETE },
      TEXT(600, 330, ENTRIES),
      "embedding of 2 values with 2 rows or more, and one for all others (330 of 600 values "
      "differ)" },
    { { .type = ET_SCHEMA_DISCRETE }, TEXT(600, 300, ENTRIES), "embedding of 3 values" },
    { { .type = ET_SCHEMA_DISCRETE },
      TEXT(600, 61, FREQUENT),
      "embedding of 2 values with 5 rows or more, and one for all others (61 of 600 values "
      "differ)" },
    { { .type = ET_SCHEMA_DISCRETE }, TEXT(600, 60, FREQUENT), "embedding of 3 values" },
    { { .type = ET_SCHEMA_DISCRETE }, TEXT(100, 49, FREQUENT), "embedding of 3 values" },
    { { .type = ET_SCHEMA_DISCRETE }, TEXT(600, 61, ENTRIES), "embedding of 3 values" },
    { { .type = ET_SCHEMA_DISCRETE },
      TEXT(600, 330, FREQUENT),
      "embedding of 2 values with 5 rows or more, and one for all others (330 of 600 values "
      "differ)" },
    { { .type = ET_SCHEMA_DISCRETE },
      TEXT(600, 539, ENTRIES),
      "embedding of 2 values with 2 rows or more, and one for all others (539 of 600 values "
      "differ)" },
    { { .type = ET_SCHEMA_DISCRETE },
      TEXT(600, 540, ENTRIES),
      "540 of 600 values differ: looks like an ID, ignored" },
    { { .type = ET_SCHEMA_DISCRETE },
      TEXT(4000, 4000, .missing = 3),
      "4,000 of 4,000 values differ: looks like an ID, ignored, except whether the value is "
      "missing; 3 of 4,003 missing" },
    { { .type = ET_SCHEMA_DISCRETE },
      TEXT(5, 5, ENTRIES),
      "5 of 5 values differ: looks like an ID, ignored" },
    { { .type = ET_SCHEMA_DISCRETE },
      TEXT(5, 4, .entry_count = 3, .entries = entries),
      "embedding of 3 values" },
    { { .type = ET_SCHEMA_DISCRETE },
      TEXT(600, 600, .words = 3000),
      "free text: its words and word pairs (the first 16 words)" },
    { { .type = ET_SCHEMA_DISCRETE },
      TEXT(600, 301, .words = 60000, .missing = 1),
      "whether the value is missing; free text: its words and word pairs (the first 200 words); "
      "1 of 601 missing" },
    { { .type = ET_SCHEMA_DISCRETE },
      TEXT(600, 300, .words = 6000, ENTRIES),
      "embedding of 3 values; free text: its words and word pairs (the first 20 words)" },
    { { .type = ET_SCHEMA_DISCRETE },
      TEXT(600, 300, .words = 1200, .missing = 1, ENTRIES),
      "embedding of 3 values; free text: its words and word pairs (the first 16 words); 1 of 601 "
      "missing" },
    { { .type = ET_SCHEMA_DISCRETE },
      TEXT(600, 300, .words = 1199, ENTRIES),
      "embedding of 3 values" },
    { { .type = ET_SCHEMA_DISCRETE },
      TEXT(600, 49, .words = 6000, ENTRIES),
      "embedding of 3 values" },
    { { .type = ET_SCHEMA_DISCRETE },
      TEXT(600, 600, .words = 6000, .most_words = 70),
      "free text: its words and word pairs (the first 70 words)" },
    { { .type = ET_SCHEMA_DISCRETE },
      TEXT(600, 600, .words = 6000, .most_words = 3000),
      "free text: its words and word pairs (the first 80 words of at most 3,000)" },
    { { .type = ET_SCHEMA_DISCRETE },
      TEXT(600, 600, .words = 600000, .most_words = 3000),
      "free text: its words and word pairs (the first 1,024 words of at most 3,000)" },
    { { .type = ET_SCHEMA_DISCRETE },
      TEXT(200000, 200000, .words = 10000000, .most_words = 400),
      "free text: its words and word pairs (the first 167 words of at most 400)" },
    { { .type = ET_SCHEMA_DISCRETE },
      TEXT(600, 600, .words = 1799),
      "600 of 600 values differ: looks like an ID, ignored" },
    { { .type = ET_SCHEMA_DISCRETE },
      TEXT(199, 199, .words = 6000),
      "199 of 199 values differ: looks like an ID, ignored" },
    { { .type = ET_SCHEMA_DISCRETE },
      TEXT(600, 600, .words = 3000, .dates = 600),
      "date, its parts" },
    { { .type = ET_SCHEMA_DISCRETE },
      TEXT(600, 600, .words = 3000, .dates = 599),
      "600 of 600 values differ: looks like an ID, ignored" },
    { { .type = ET_SCHEMA_DISCRETE }, TEXT(600, 50), "embedding by hash" },
    { { .type = ET_SCHEMA_DISCRETE }, TEXT(600, 600, .dates = 600), "date, its parts" },
    { { .type = ET_SCHEMA_DISCRETE },
      TEXT(600, 600, .dates = 600, .order = ET_DATE_DAY_FIRST),
      "date, its parts (day-first)" },
    { { .type = ET_SCHEMA_DISCRETE },
      TEXT(600, 600, .dates = 600, .order = ET_DATE_TIME),
      "time of day, its parts (durations: write them as numbers)" },
    { { .type = ET_SCHEMA_DISCRETE },
      TEXT(600, 600, .dates = 600, .missing = 9),
      "date, its parts; whether the value is missing; 9 of 609 missing" },
    { { .type = ET_SCHEMA_DISCRETE },
      TEXT(600, 600, .dates = 599),
      "600 of 600 values differ: looks like an ID, ignored" },
    { { .type = ET_SCHEMA_DISCRETE },
      TEXT(9, 2, .entry_count = 2, .entries = days),
      "date, its parts" },
    { { .type = ET_SCHEMA_DISCRETE },
      TEXT(9, 3, .entry_count = 2, .entries = days, .dates = 8),
      "embedding of 2 values" },
    { { .type = ET_SCHEMA_DISCRETE }, TEXT(9, 1, ENTRIES), "constant: ignored" },
    { { .type = ET_SCHEMA_DISCRETE }, { .missing = 7 }, "no row has a value: ignored" },
    { { .type = ET_SCHEMA_DISCRETE, .length = ET_SCHEMA_VARIABLE },
      TEXT(9, 3, ENTRIES),
      "lists of values: ignored without a features file" },
    { { .type = ET_SCHEMA_REAL },
      { .count = 99, .has_range = true, .max = 3, .has_moments = true, .std = 1, .missing = 1 },
      "number, standardized; whether the value is missing; 1 of 100 missing" },
    { { .type = ET_SCHEMA_REAL },
      { .count = 99, .has_range = true, .min = 3, .max = 3, .has_moments = true, .missing = 1 },
      "constant: ignored, except whether the value is missing; 1 of 100 missing" },
    { { .type = ET_SCHEMA_INTEGER },
      { .count = 100,
        .has_range = true,
        .min = 1,
        .max = 100,
        .has_moments = true,
        .std = 28.86607 },
      "counts the rows: looks like an ID, ignored" },
};

static void test_column_use__infer(void **state)
{
    (void)state;
    const et_feature_choice choice = et_column_choice("y", NULL);
    for (size_t i = 0; i < COUNT(columns); i++) {
        et_strbuf text = ET_STRBUF_INIT;
        et_schema_field field = columns[i].field;
        field.name = "c";
        et_column_use use = et_column_use_infer(&field, &columns[i].metadata, &choice);
        et_column_use_print(&text, &use, &columns[i].metadata);
        assert_string_equal(et_strbuf_text(&text), columns[i].text);
        et_strbuf_release(&text);
    }
    const et_schema_field target = { .name = "y", .type = ET_SCHEMA_DISCRETE };
    et_column_use use = et_column_use_infer(&target, &columns[5].metadata, &choice);
    assert_int_equal(use.transforms, 1u << ET_TRANSFORM_TARGET);
}

/* ---- long tails ---- */

#define POINTS 257

typedef double distribution(double share);

/* share: 0 .. 1 */
static double uniform(double share)
{
    return share;
}

static double exponential(double share)
{
    return -log(1 - 0.999 * share);
}

static double lognormal(double share)
{
    /* The logistic distribution with a normal one's deviation of 1. */
    const double p = 0.001 + 0.998 * share;
    return exp(log(p / (1 - p)) * sqrt(3) / 3.141592653589793);
}

static double to_the_left(double share)
{
    return -lognormal(1 - share);
}

static double mostly_0(double share)
{
    return share < 0.95 ? 0 : share * 1e5;
}

static et_transform chosen(distribution *of, int64_t rows, int points, et_feature_choice choice)
{
    double quantiles[POINTS];
    for (int i = 0; i < points; i++)
        quantiles[i] = of((double)i / (points - 1));
    const et_column_metadata m = { .name = "c",
                                   .count = rows,
                                   .has_range = true,
                                   .min = quantiles[0],
                                   .max = quantiles[points - 1],
                                   .has_moments = true,
                                   .std = 1,
                                   .quantile_count = points,
                                   .quantiles = quantiles };
    const et_schema_field field = { .name = "c", .type = ET_SCHEMA_REAL };
    const et_column_use use = et_column_use_infer(&field, &m, &choice);
    for (int type = 0; type < ET_TRANSFORM_COUNT; type++)
        if (use.transforms == 1u << type)
            return (et_transform)type;
    fail_msg("transforms %x", use.transforms);
    return ET_TRANSFORM_COUNT;
}

static void test_column_use__long_tails(void **state)
{
    (void)state;
    const et_feature_choice usual = et_column_choice("y", NULL);
    et_feature_choice clip = usual, unchanged = usual;
    clip.numeric = ET_TRANSFORM_CLIP;
    unchanged.unchanged = true;
    assert_int_equal(chosen(uniform, 5000, POINTS, usual), ET_TRANSFORM_CLIP);
    assert_int_equal(chosen(exponential, 5000, POINTS, usual), ET_TRANSFORM_CLIP);
    assert_int_equal(chosen(mostly_0, 5000, POINTS, usual), ET_TRANSFORM_CLIP);
    assert_int_equal(chosen(lognormal, 5000, POINTS, usual), ET_TRANSFORM_QUANTILE);
    assert_int_equal(chosen(to_the_left, 5000, POINTS, usual), ET_TRANSFORM_QUANTILE);
    /* Of few rows, a single error may be the last percent. */
    assert_int_equal(chosen(lognormal, 999, POINTS, usual), ET_TRANSFORM_CLIP);
    assert_int_equal(chosen(lognormal, 5000, 33, usual), ET_TRANSFORM_CLIP);
    assert_int_equal(chosen(lognormal, 5000, POINTS, clip), ET_TRANSFORM_CLIP);
    assert_int_equal(chosen(lognormal, 5000, POINTS, unchanged), ET_TRANSFORM_IDENTITY);
}

/* ---- of features ---- */

static void print_set(et_strbuf *out, int more, const char *features)
{
    et_schema_field fields[300] = { { .name = "a", .type = ET_SCHEMA_REAL },
                                    { .name = "b", .type = ET_SCHEMA_DISCRETE },
                                    { .name = "y\xc3\xa4", .type = ET_SCHEMA_DISCRETE } };
    char names[300][8];
    const et_column_metadata b = { .name = "b",
                                   .count = 53,
                                   .distinct = 3,
                                   .entry_count = 3,
                                   .entries = entries,
                                   .counts = counts };
    et_schema *schema = NULL;
    et_metadata *metadata = NULL;
    et_feature_set *set = NULL;
    et_column_use uses[300];
    for (int i = 3; i < more; i++) {
        snprintf(names[i], sizeof names[i], "c%d", i);
        fields[i] = (et_schema_field){ .name = names[i], .type = ET_SCHEMA_INTEGER };
    }
    assert_ok(et_schema_create(&schema, fields, more > 3 ? more : 3, error));
    assert_ok(et_metadata_create(&metadata, &b, 1, error));
    assert_ok(et_feature_set_parse(&set, features, strlen(features), "f.yaml", error));
    et_column_uses_of(uses, schema, set);
    assert_ok(et_column_uses_print(out, uses, schema, metadata, error));
    et_feature_set_free(set);
    et_metadata_free(metadata);
    et_schema_free(schema);
}

static void test_column_use__features(void **state)
{
    (void)state;
    et_strbuf text = ET_STRBUF_INIT;
    print_set(&text, 0,
              "features:\n"
              "- {name: X, type: concat, features: [{name: a, type: log}, {type: missing, fields: "
              "'a,b'}]}\n"
              "- {name: e, type: embed, fields: b, transform: {minimum_count: 2}}\n");
    assert_string_equal(et_strbuf_text(&text),
                        "a   real      number, its logarithm; whether the value is missing\n"
                        "b   discrete  embedding of 2 values with 2 rows or more, and one for all "
                        "others (3 of 53 values differ); whether the value is missing\n"
                        "y\xc3\xa4  discrete  ignored: no feature reads it\n");
    et_strbuf_release(&text);
    /* many columns: one line for all that are used in the same way */
    print_set(&text, 300,
              "features:\n"
              "- {name: X, type: scale, fields: [a, c3, c4, c5, c6, c7, c8, c9]}\n"
              "- {name: y\xc3\xa4, type: target}\n");
    assert_string_equal(
        et_strbuf_text(&text),
        "1 real column: number, scaled (a)\n"
        "1 discrete column: ignored: no feature reads it (b)\n"
        "1 discrete column: the target (y\xc3\xa4)\n"
        "7 integer columns: number, scaled (c3, c4, c5, c6, c7, c8, ...)\n"
        "290 integer columns: ignored: no feature reads it (c10, c11, c12, c13, c14, c15, "
        "...)\n");
    et_strbuf_release(&text);
}

/* The probability that two rows agree: by counts, by the share of quantiles that one value fills,
 * by the number of distinct values; and that both have no value. */
static void test_column_use__agreement(void **state)
{
    (void)state;
    static const int64_t halves[] = { 50, 30, 20 };
    static const double flat[] = { 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6 };
    const et_column_metadata text = { .name = "c",
                                      .count = 100,
                                      .distinct = 3,
                                      .entry_count = 3,
                                      .entries = entries,
                                      .counts = halves };
    et_column_metadata number = { .name = "n", .count = 100, .distinct = 50 };
    assert_true(fabs(et_column_agreement(&text, 0, 1) - 0.38) < 1e-12);
    assert_true(fabs(et_column_agreement(&number, 0, 1) - 0.02) < 1e-12);
    /* A pair of rows that are copies is no chance, unless the rows have few different values. */
    assert_true(fabs(et_column_agreement(&number, 100, 100) - 0.01) < 1e-12);
    assert_true(et_column_agreement(&number, 300, 100) == 0);
    assert_true(fabs(et_column_agreement(&number, 500, 100) - 0.02) < 1e-12);
    /* 90 different numbers of 100: 10 of them come twice. */
    static const double rising[] = { 1, 2, 3 };
    number = (et_column_metadata){ .name = "n", .count = 100, .distinct = 90, .quantile_count = 3 };
    number.quantiles = rising;
    assert_true(fabs(et_column_agreement(&number, 106, 100) - 0.0014) < 1e-12);
    number = (et_column_metadata){ .name = "n", .count = 100, .distinct = 50 };
    const double few[] = { 0.001, 0.001 }, some[] = { 0.035, 0.035 }, either[] = { 1, 0.001 };
    assert_true(et_copies_are_many(2, 10, few) && !et_copies_are_many(2, 10, some));
    assert_true(et_copies_are_many(60, 200, some) && !et_copies_are_many(40, 200, some));
    /* Without pairs that are copies, few copies may still be chance. */
    assert_true(et_copies_are_many(10, 100, either) && !et_copies_are_many(9, 100, either));
    number.missing = 100;
    assert_true(fabs(et_column_agreement(&number, 0, 1) - (0.02 / 4 + 0.25)) < 1e-12);
    number.missing = 0;
    number.quantiles = flat;
    number.quantile_count = COUNT(flat);
    assert_true(fabs(et_column_agreement(&number, 0, 1) - 0.16) < 1e-12);
    const et_column_metadata unknown = { .name = "u" };
    assert_true(et_column_agreement(&unknown, 0, 1) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_column_use__infer),
        cmocka_unit_test(test_column_use__long_tails),
        cmocka_unit_test(test_column_use__features),
        cmocka_unit_test(test_column_use__agreement),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
