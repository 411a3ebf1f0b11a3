#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "calls.h"
#include "data/encoder_fixture.h"
#include "data/fixture.h"

/* Texts that disagree: the message has file, line and cure. */
static void test_encoder_disagreements__disagreements(void **state)
{
    (void)state;
    static const struct {
        const char *feature, *error;
    } cases[] = {
        { "{name: xx}", "features.yaml: schema, metadata and features do not match: line 2: "
                        "feature xx: the schema has no field xx" },
        { "{name: t}", "line 2: feature t: identity does not work on discrete fields such as t: "
                       "use embed, one-hot or hash" },
        { "{name: t, type: log}", "log does not work on discrete fields such as" },
        { "{name: t, type: scale}", "scale does not work on discrete fields such as" },
        { "{name: t, type: standardize}", "standardize does not work on discrete fields such as" },
        { "{name: t, type: quantile}", "quantile does not work on discrete fields such as" },
        { "{name: t, type: bucketize, transform: {boundaries: 1}}",
          "bucketize does not work on discrete" },
        { "{name: x, type: one-hot}", "one-hot does not work on real fields such as x: use "
                                      "standardize, quantile, scale or bucketize" },
        { "{name: x, type: embed}", "embed does not work on real fields such as" },
        { "{name: l, type: one-hot}", "the metadata has no entries of l, which one-hot needs" },
        { "{name: l, type: quantile}", "the metadata has no quantiles of l" },
        { "{name: Y, type: target, fields: [y, t]}",
          "t has 3 classes, and several targets have two classes each or are numbers: train a run "
          "for each target" },
        { "{name: Y, type: target, fields: [x, y]}",
          "x is a number and y has classes: name targets of one kind" },
        { "{name: Y, type: target, fields: [u, u, z]}", "the schema has no field z" },
        { "{name: Y, type: target, fields: x, transform: {classes: true}}",
          "x is real; classes must be texts or integers" },
        { "{name: X, type: concat, features: [{name: x}, {name: t, type: embed}]}",
          "feature X: the concat mixes numbers and ids" },
        { "{name: X, type: cross, fields: [t, v], transform: {buckets: 3}}",
          "v has more than one value: cross needs fields with one value" },
        { "{name: t, type: key}", "no feature gives the model a column" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        et_encoder *encoder = NULL;
        assert_fails(open_feature(&encoder, cases[i].feature, error), ET_ECONFIG, cases[i].error);
        assert_null(encoder);
    }
}

static void test_encoder_disagreements__disagreements_of_metadata(void **state)
{
    (void)state;
    static const struct {
        const char *fields, *metadata, *features, *error;
    } cases[] = {
        { "{name: a, type: real}", "{}", "{name: a, type: scale}",
          "the metadata has no min and max of a" },
        { "{name: a, type: real}", "{\"a\": {\"max\": 3, \"mean\": 1}}", "{name: a, type: scale}",
          "the metadata has no min and max of a" },
        { "{name: a, type: real}", "{}", "{name: a, type: standardize}",
          "the metadata has no mean and std of a" },
        { "{name: a, type: real}", "{\"a\": {\"missing\": 9}}", "{name: a, type: standardize}",
          "a has no value in any row: remove the feature" },
        { "{name: a, type: discrete}", "{\"a\": {\"missing\": 9}}", "{name: a, type: target}",
          "a has no value in any row: remove the feature" },
        { "{name: a, type: discrete}", "{\"a\": {\"entries\": [\"x\"]}}", "{name: a, type: target}",
          "a has only one class, \"x\": there is nothing to learn" },
        { "{name: a, type: discrete}", "{\"a\": {\"count\": 9, \"distinct\": 9, \"cut\": true}}",
          "{name: a, type: embed}",
          "9 of 9 values of a differ, so the metadata has no vocabulary for this column: use the "
          "transform hash" },
        { "{name: a, type: discrete}", "{\"a\": {\"entries\": [\"x\"]}}",
          "{name: a, type: embed, transform: {minimum_count: 2}}",
          "the metadata has no counts of a" },
        { "{name: a, type: integer}", "{\"a\": {\"count\": 9, \"min\": 0, \"max\": 2}}",
          "{name: a, type: one-hot}", "as the column is integer: make the column discrete" },
        { "{name: a, type: discrete}", "{}", "{name: a, type: target}",
          "the metadata has no entries of a, which target needs" },
        { "{name: a, type: integer}", "{\"a\": {\"min\": 0, \"max\": 1e9}}",
          "{name: a, type: target, transform: {classes: true}}",
          "classes need 2 to 65536 different numbers" },
        { "{name: a, type: integer}", "{\"a\": {\"min\": 0.5, \"max\": 3}}",
          "{name: a, type: target, transform: {classes: true}}", "a has integers from 0.5 to 3" },
        { "{name: income, type: real}", "{}", "{name: incom}",
          "the schema has no field incom. Nearest: income" },
        { "{name: a, type: real, length: 0}", "{}", "{name: a}",
          "a has variable length: use one-hot, bucketize or missing, or set its length" },
        { "{name: a, type: real, length: 2000000}", "{}", "{name: a}",
          ": a row of more than 1048576 values" },
        { "{name: a, type: real}", "{}", "{name: a}\n- {name: Y, type: target, fields: a}",
          "a is the target or the weight and also part of another feature: remove it from one of "
          "them" },
        { "{name: a, type: real}", "{}",
          "{name: x, fields: a}\n- {name: W, type: weight, fields: a}",
          "a is the target or the weight and also part of another feature" },
        { "{name: a, type: real}\n- {name: b, type: integer}", "{}",
          "{name: V, type: weight, fields: a}\n- {name: W, type: weight, fields: b}",
          "feature W: a second weight: keep one" },
        { "{name: a, type: real, length: 2}", "{}", "{name: W, type: weight, fields: a}",
          "a weight has one field with one value" },
        { "{name: a, type: discrete}", "{}", "{name: W, type: weight, fields: a}",
          "weight does not work on discrete fields" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        et_encoder *encoder = NULL;
        char text[2][300];
        snprintf(text[0], sizeof *text, "fields:\n- %s\n", cases[i].fields);
        snprintf(text[1], sizeof *text, "features:\n- %s\n", cases[i].features);
        assert_fails(encoder_parse(&encoder, text[0], cases[i].metadata, text[1], error),
                     ET_ECONFIG, cases[i].error);
    }
}

/* All disagreements in one message; those that do not fit are counted. */
static void test_encoder_disagreements__all_disagreements(void **state)
{
    (void)state;
    static const char *const some = "features:\n- {name: a}\n- {name: X, type: concat, features: [{"
                                    "name: t, type: log},\n {name: l, type: quantile}]}\n"
                                    "- {name: b, type: hash, transform: {buckets: 3}}\n";
    static const char *const parts[] = {
        "features.yaml: schema, metadata and features do not match, in 4 places: (1) line 2: feat",
        ": (1) line 2: feature a",
        "(2) line 3: feature t: log does not work on discrete",
        "(3) line 4: feature l: the metadata has no quantiles",
        "(4) line 5: feature b: the schema has no field b",
    };
    et_encoder *encoder = NULL;
    et_strbuf many = ET_STRBUF_INIT;
    for (size_t i = 0; i < COUNT(parts); i++)
        assert_fails(encoder_parse(&encoder, schema, metadata, some, error), ET_ECONFIG, parts[i]);
    et_strbuf_append(&many, "features:\n");
    for (int i = 0; i < 100; i++)
        et_strbuf_printf(&many, "- {name: absent%d}\n", i);
    assert_fails(encoder_parse(&encoder, schema, metadata, et_strbuf_text(&many), error),
                 ET_ECONFIG, "in 100 places: (1)");
    assert_fails(encoder_parse(&encoder, schema, metadata, et_strbuf_text(&many), error),
                 ET_ECONFIG, " more");
    et_strbuf_release(&many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encoder_disagreements__disagreements),
        cmocka_unit_test(test_encoder_disagreements__disagreements_of_metadata),
        cmocka_unit_test(test_encoder_disagreements__all_disagreements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
