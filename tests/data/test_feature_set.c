#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "base/alloc.h"
#include "base/scarce.h"
#include "calls.h"
#include "data/fixture.h"
#include "data/table/features/transforms.h"
#include "data/table_fixture.h"

static int parse(et_feature_set **out, const char *text, et_error *error)
{
    *out = NULL;
    return et_feature_set_parse(out, text, strlen(text), "f.yaml", error);
}

/* All transforms, in every way of writing. */
static const char *const everything =
    "features:\n"
    "  - {name: a}\n"
    "  - {name: X, type: concat, features: [\n"
    "      {name: b, type: scale, transform: {min: -1, max: 1}},\n"
    "      {type: log, fields: 'c, d'},\n"
    "      {name: e, type: bucketize, transform: {boundaries: '18,25, 65.5'}},\n"
    "      {name: inner, type: concat, features: [{name: f, type: one-hot}, g]}]}\n"
    "  - {name: g, type: standardize}\n"
    "  - {name: h, type: quantile, fields: [h, i]}\n"
    "  - {name: j, type: embed, transform: {minimum_count: 3}}\n"
    "  - {name: k, type: hash, transform: {buckets: 100}}\n"
    "  - {name: l, type: cross, fields: [j, k], transform: {buckets: 7}}\n"
    "  - {name: when, type: date, transform: {parts: [year, weekday], order: day-first}}\n"
    "  - {name: n, type: missing}\n"
    "  - {name: key, type: key, fields: 007}\n"
    "  - {name: Y, type: target, fields: label, transform: {classes: true}}\n";

static void check_everything(const et_feature_set *set)
{
    assert_int_equal(et_feature_set_count(set), 10);
    assert_int_equal(et_feature_set_at(set, 0)->type, ET_TRANSFORM_IDENTITY);
    assert_null(et_feature_set_at(set, 10));
    assert_null(et_feature_set_at(set, -1));
    assert_null(et_feature_set_find(set, "g")); /* only a part of X */
    const et_feature_spec *x = et_feature_set_find(set, "X");
    assert_int_equal(x->feature_count, 4);
    assert_true(x->features[0].minimum == -1 && x->features[0].maximum == 1);
    assert_string_equal(x->features[1].name, "c");
    assert_int_equal(x->features[1].field_count, 2);
    assert_string_equal(x->features[1].fields[1], "d");
    assert_int_equal(x->features[2].boundary_count, 3);
    assert_true(x->features[2].boundaries[2] == 65.5);
    assert_string_equal(x->features[3].features[1].name, "g");
    assert_int_equal(x->features[3].features[1].type, ET_TRANSFORM_STANDARDIZE);
    assert_int_equal(et_feature_set_find(set, "j")->minimum_count, 3);
    assert_int_equal(et_feature_set_find(set, "k")->buckets, 100);
    assert_int_equal(et_feature_set_find(set, "l")->field_count, 2);
    assert_string_equal(et_feature_set_find(set, "when")->parts[1], "weekday");
    assert_int_equal(et_feature_set_find(set, "when")->order, ET_DATE_DAY_FIRST);
    assert_string_equal(et_feature_set_find(set, "key")->fields[0], "007");
    assert_true(et_feature_set_find(set, "Y")->classes);
}

static void test_feature_set__parse(void **state)
{
    (void)state;
    et_feature_set *set = NULL;
    assert_ok(parse(&set, everything, error));
    check_everything(set);
    assert_int_equal(et_feature_set_find(set, "j")->line, 10);
    et_feature_set_free(set);
}

/* TensorFX's key has no type: it is recognized by its name, and only as a feature of its own. */
static void test_feature_set__named_key(void **state)
{
    (void)state;
    static const char *const text =
        "features:\n"
        "- {name: X, type: concat, features: [{name: key}, {name: a}]}\n"
        "- {name: key, type: identity, fields: id}\n"
        "- {name: keys, fields: id}\n";
    et_feature_set *set = NULL;
    assert_ok(parse(&set, text, error));
    assert_int_equal(et_feature_set_find(set, "X")->features[0].type, ET_TRANSFORM_IDENTITY);
    assert_int_equal(et_feature_set_find(set, "key")->type, ET_TRANSFORM_KEY);
    assert_int_equal(et_feature_set_find(set, "keys")->type, ET_TRANSFORM_IDENTITY);
    et_feature_set_free(set);
    assert_ok(parse(&set, "features:\n- {name: x}\n- {name: key, fields: 'a, b'}\n", error));
    assert_int_equal(et_feature_set_find(set, "key")->type, ET_TRANSFORM_IDENTITY);
    et_feature_set_free(set);
}

/* A printed set reads back as the same set, and prints the same again. */
static void test_feature_set__round_trip(void **state)
{
    et_feature_set *set = NULL, *again = NULL;
    char *text, *second;
    const char *path = fixture_path(*state, "features.yaml");
    assert_ok(parse(&set, everything, error));
    assert_ok(et_feature_set_save(set, path, error));
    assert_ok(et_feature_set_format(set, &text, error));
    assert_ok(et_feature_set_load(&again, path, error));
    check_everything(again);
    assert_ok(et_feature_set_format(again, &second, error));
    assert_string_equal(text, second);
    et_free(text);
    et_free(second);
    et_feature_set_free(set);
    et_feature_set_free(again);
    assert_fails(et_feature_set_load(&set, fixture_path(*state, "absent"), error), ET_ENOTFOUND,
                 "absent");
}

static void test_feature_set__create(void **state)
{
    (void)state;
    const char *const fields[] = { "c", "d" };
    const et_feature_spec inner[] = {
        { .name = "b", .type = ET_TRANSFORM_SCALE },
        { .type = ET_TRANSFORM_LOG, .fields = fields, .field_count = 2 }
    };
    const et_feature_spec specs[] = {
        { .name = "X", .type = ET_TRANSFORM_CONCAT, .features = inner, .feature_count = 2 },
        { .name = "Y", .type = ET_TRANSFORM_TARGET },
    };
    et_feature_set *set = NULL;
    assert_ok(et_feature_set_create(&set, specs, 2, error));
    const et_feature_spec *x = et_feature_set_at(set, 0);
    assert_ptr_not_equal(x->features, inner);
    assert_string_equal(x->features[1].fields[1], "d");
    assert_string_equal(et_feature_set_at(set, 1)->name, "Y");
    et_feature_set_free(set);
    /* Specs that hold themselves. */
    et_feature_spec loop = { .name = "L", .type = ET_TRANSFORM_CONCAT, .feature_count = 1 };
    loop.features = &loop;
    assert_fails(et_feature_set_create(&set, &loop, 1, error), ET_ECONFIG,
                 "features are nested more than 16 deep: check for a cycle");
    assert_fails(et_feature_set_create(&set, specs, 0, error), ET_ECONFIG, "at least one");
    const et_feature_spec odd = { .name = "o", .type = (et_transform)99 };
    assert_fails(et_feature_set_create(&set, &odd, 1, error), ET_ECONFIG,
                 "its type is not an et_transform");
}

static void test_feature_set__errors(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
        int status;
    } cases[] = {
        { "", "f.yaml:1: expected a list `features:` of at least one {name, type}", ET_ECONFIG },
        { "features: []", "at least one", ET_ECONFIG },
        { "features: {a: 1}", "f.yaml:1: expected a list `features:` of at least one {name, type}",
          ET_ECONFIG },
        { "features:\n- {name: a}\nfeature: 1",
          "f.yaml:3: unknown key \"feature\"; the only key is features", ET_ECONFIG },
        { "features: [", "f.yaml", ET_EFORMAT },
        { "features:\n- a", "f.yaml:2: a feature is a group of keys", ET_ECONFIG },
        { "features:\n- {name: a}\n- {name: b, type: onehot}",
          "f.yaml:3: unknown type \"onehot\". Nearest: one-hot. Types: identity, target",
          ET_ECONFIG },
        { "features:\n- {name: a, typ: log}",
          "f.yaml:2: a feature has no key \"typ\". Nearest: type", ET_ECONFIG },
        { "features:\n- {name: a, type: scale, transform: {mini: 1}}",
          "f.yaml:2: a transform has no key \"mini\". Nearest: min", ET_ECONFIG },
        { "features:\n- {name: a, type: scale, transform: {min: x}}",
          "f.yaml:2: min: expected a number", ET_ECONFIG },
        { "features:\n- {name: a, type: scale, transform: [1]}",
          "f.yaml:2: transform: expected a group", ET_ECONFIG },
        { "features:\n- {name: a, type: scale, transform: {min: 2, max: 1}}",
          "f.yaml:2: feature a: its min is not less than its max", ET_ECONFIG },
        { "features:\n- {name: a, type: scale, transform: {min: 3}}", "min is not less than",
          ET_ECONFIG },
        { "features:\n- {name: a, type: log, transform: {min: 0, max: 2}}",
          "f.yaml:2: feature a: log does not use min and max: leave them out", ET_ECONFIG },
        { "features:\n- {name: a, type: bucketize}", "bucketize needs boundaries", ET_ECONFIG },
        { "features:\n- {name: a, type: bucketize, transform: {boundaries: '1,x'}}",
          "f.yaml:2: boundaries: expected a list of numbers", ET_ECONFIG },
        { "features:\n- {name: a, type: bucketize, transform: {boundaries: [2, 2]}}",
          "its boundaries do not increase: sort them", ET_ECONFIG },
        { "features:\n- {name: a, type: embed, transform: {minimum_count: 0}}",
          "f.yaml:2: minimum_count: expected a count", ET_ECONFIG },
        { "features:\n- {name: a, type: hash, transform: {buckets: 3, minimum_count: 2}}",
          "hash does not use minimum_count: leave them out", ET_ECONFIG },
        { "features:\n- {name: a, type: hash}", "set buckets to a number from 1 to 2147483646",
          ET_ECONFIG },
        { "features:\n- {name: a, type: hash, transform: {buckets: 0}}",
          "expected a count of at least 1", ET_ECONFIG },
        { "features:\n- {name: a, type: hash, transform: {buckets: 2147483647}}",
          "from 1 to 2147483646", ET_ECONFIG },
        { "features:\n- {name: a, type: cross, fields: b, transform: {buckets: 9}}",
          "cross needs two or more fields: name them in fields", ET_ECONFIG },
        { "features:\n- {name: a, type: date, transform: {order: day}}",
          "expected month-first, day-first or time-of-day", ET_ECONFIG },
        { "features:\n- {name: a, type: hash, transform: {buckets: 9, order: day-first}}",
          "hash does not use order: leave them out", ET_ECONFIG },
        { "features:\n- {name: a, type: date, transform: {parts: [yar]}}",
          "\"yar\" is not a part of a date. Nearest: year", ET_ECONFIG },
        { "features:\n- {name: a, type: target, transform: {classes: 3}}", "true or false",
          ET_ECONFIG },
        { "features:\n- {name: a, type: concat}", "concat needs features", ET_ECONFIG },
        { "features:\n- {name: a, type: concat, fields: [b], features: [{name: c}]}",
          "concat needs features, not fields: give each field a transform", ET_ECONFIG },
        { "features:\n- {name: a, type: log, features: [{name: c}]}",
          "f.yaml:2: feature a: log does not use features", ET_ECONFIG },
        { "features:\n- {name: a, type: concat, features: [\n{name: y, type: target}]}",
          "f.yaml:3: feature y: a target, key, weight or words cannot be", ET_ECONFIG },
        { "features:\n- {name: a, type: concat, features: [b]}",
          "f.yaml:2: the file has no feature b", ET_ECONFIG },
        { "features:\n- {name: a, type: concat, features: [b]}\n"
          "- {name: b, type: concat, features: [a]}",
          "f.yaml:3: feature a contains itself: remove it from one of the lists of features that "
          "lead to this line",
          ET_ECONFIG },
        { "features:\n- {name: a, type: concat, features: [a]}",
          ": feature a contains itself: remove it from one of the lists of features that lead to "
          "this line",
          ET_ECONFIG },
        { "features:\n- {name: a}\n- {name: a, type: log}",
          "f.yaml:3: feature a: another feature has this name", ET_ECONFIG },
        { "features:\n- {name: mask}", "this name is reserved for batches", ET_ECONFIG },
        { "features:\n- {type: log}", "its name is empty", ET_ECONFIG },
        { "features:\n- {name: a, type: concat, features: [{type: log}]}",
          "a feature has neither name nor fields: give one of them", ET_ECONFIG },
        { "features:\n- {name: a, fields: ''}", "the name of a field is empty", ET_ECONFIG },
        { "features:\n- {transform: {min: 0, max: 0}, name: a, type: scale}",
          "f.yaml:2: feature a: min and max are both 0", ET_ECONFIG },
        { "features:\n- {name: a, type: scale, transform: {max: 0}}",
          "f.yaml:2: feature a: min and max are both 0", ET_ECONFIG },
        { "features:\n- {name: [a]}", "f.yaml:2: name: expected a text", ET_ECONFIG },
        { "features:\n- {name: a, features: 3}", "expected a list of features", ET_ECONFIG },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        et_feature_set *set = NULL;
        assert_fails(parse(&set, cases[i].text, error), cases[i].status, cases[i].error);
        assert_null(set);
    }
}

/* Names of names of names: 2^30 features if nothing counted them. */
static void test_feature_set__bomb(void **state)
{
    (void)state;
    et_strbuf text = ET_STRBUF_INIT;
    et_feature_set *set = NULL;
    et_strbuf_append(&text, "features:\n- {name: a0}\n");
    for (int i = 1; i <= 30; i++)
        et_strbuf_printf(&text, "- {name: a%d, type: concat, features: [a%d, a%d]}\n", i, i - 1,
                         i - 1);
    assert_fails(parse(&set, et_strbuf_text(&text), error), ET_ECONFIG, "more than 100,000");
    et_strbuf_release(&text);
}

static void test_feature_set__names(void **state)
{
    (void)state;
    static const char *const names[ET_TRANSFORM_COUNT] = {
        "identity",    "target",   "concat", "log",   "scale",  "bucketize", "one-hot",
        "standardize", "quantile", "robust", "clip",  "embed",  "hash",      "cross",
        "date",        "missing",  "key",    "words", "weight",
    };
    for (int i = 0; i < ET_TRANSFORM_COUNT; i++)
        assert_string_equal(et_transform_name((et_transform)i), names[i]);
    assert_string_equal(et_transform_name(ET_TRANSFORM_COUNT), "unknown");
}

/* Every byte of a text changed, and every length: no crash, and each set that is read can be
 * printed. */
static void test_feature_set__mutated(void **state)
{
    (void)state;
    static const char bytes[] = { 0, ' ', '{', ',', '\xff', '9' };
    size_t length = strlen(everything);
    char *copy = malloc(length + 1);
    for (size_t at = 0; at < length; at++)
        for (size_t k = 0; k <= COUNT(bytes); k++) {
            et_feature_set *set = NULL;
            et_error error = ET_ERROR_INIT;
            memcpy(copy, everything, length + 1);
            if (k < COUNT(bytes))
                copy[at] = bytes[k];
            if (et_feature_set_parse(&set, copy, k < COUNT(bytes) ? length : at, "m", &error)) {
                assert_true(error.text[0]);
                continue;
            }
            char *text = NULL;
            assert_int_equal(et_feature_set_format(set, &text, &error), ET_OK);
            et_free(text);
            et_feature_set_free(set);
        }
    free(copy);
}

static void test_feature_set__memory(void **state)
{
    (void)state;
    int status = ET_ENOMEM;
    for (long n = 0; status; n++) {
        et_feature_set *set = NULL;
        et_error error = ET_ERROR_INIT;
        char *text = NULL;
        scarce_begin(n);
        status = parse(&set, everything, &error);
        if (!status)
            status = et_feature_set_format(set, &text, &error);
        et_free(text);
        et_feature_set_free(set);
        scarce_end();
        assert_int_equal(status, scarce_failed ? ET_ENOMEM : ET_OK);
    }
}

/* ---- inferred ---- */

static const char *const infer_schema = "fields:\n"
                                        "- {name: id, type: integer}\n"
                                        "- {name: age, type: integer}\n"
                                        "- {name: fare, type: real}\n"
                                        "- {name: flat, type: real}\n"
                                        "- {name: flat2, type: real}\n"
                                        "- {name: name, type: discrete}\n"
                                        "- {name: cabin, type: discrete}\n"
                                        "- {name: shop, type: discrete}\n"
                                        "- {name: sex, type: discrete}\n"
                                        "- {name: one, type: discrete}\n"
                                        "- {name: one2, type: discrete}\n"
                                        "- {name: empty, type: real}\n"
                                        "- {name: when, type: discrete}\n"
                                        "- {name: days, type: discrete}\n"
                                        "- {name: free, type: discrete}\n"
                                        "- {name: tags, type: discrete, length: 0}\n"
                                        "- {name: bare, type: real}\n"
                                        "- {name: y, type: discrete}\n";
static const char *const infer_metadata =
    "{\"id\": {\"count\": 100, \"min\": 1, \"max\": 100, \"mean\": 50.5, \"std\": 28.86607},"
    "\"age\": {\"count\": 80, \"missing\": 20, \"min\": 1, \"max\": 90, \"mean\": 30, \"std\": "
    "14, \"quantiles\": [1, 30, 90]},"
    "\"fare\": {\"count\": 100, \"min\": 1, \"max\": 100, \"mean\": 50.5, \"std\": 28.86607},"
    "\"flat\": {\"count\": 100, \"min\": 4, \"max\": 4, \"mean\": 4, \"std\": 0},"
    "\"flat2\": {\"count\": 90, \"missing\": 10, \"min\": 4, \"max\": 4, \"mean\": 4, \"std\": 0},"
    "\"name\": {\"count\": 100, \"distinct\": 99, \"entries\": [\"A\", \"B\"], \"cut\": true},"
    "\"cabin\": {\"count\": 40, \"missing\": 60, \"distinct\": 30, \"entries\": [\"C1\"], \"cut\": "
    "true},"
    "\"shop\": {\"count\": 40, \"distinct\": 30, \"entries\": [\"S1\", \"S2\"], \"counts\": [9, "
    "1]},"
    "\"sex\": {\"count\": 100, \"entries\": [\"m\", \"f\"]},"
    "\"one\": {\"count\": 100, \"entries\": [\"x\"]},"
    "\"one2\": {\"count\": 50, \"missing\": 50, \"entries\": [\"x\"]},"
    "\"empty\": {\"count\": 0, \"missing\": 100},"
    "\"when\": {\"count\": 99, \"missing\": 1, \"entries\": [\"2024-05-31\", \"2024-06-01\"]},"
    "\"days\": {\"count\": 60, \"missing\": 40, \"distinct\": 60, \"dates\": 60, \"cut\": true},"
    "\"bare\": {\"min\": 0, \"max\": 1},"
    "\"y\": {\"count\": 100, \"entries\": [\"no\", \"yes\"]}}";

static int infer(et_feature_set **out, const et_feature_choice *choice, et_error *error)
{
    et_schema *schema = NULL;
    et_metadata *metadata = NULL;
    int status = et_schema_parse(&schema, infer_schema, strlen(infer_schema), "schema.yaml", error);
    if (!status)
        status = et_metadata_parse(&metadata, infer_metadata, strlen(infer_metadata),
                                   "metadata.json", error);
    if (!status)
        status = et_feature_set_infer(out, schema, metadata, choice, error);
    et_metadata_free(metadata);
    et_schema_free(schema);
    return status;
}

/* "X(age:standardize age:missing) ids(sex:embed) Y:target". */
static void describe(et_strbuf *out, const et_feature_spec *spec)
{
    if (!spec->feature_count) {
        et_strbuf_printf(out, "%s:%s", spec->name, et_transform_name(spec->type));
        if (spec->minimum_count)
            et_strbuf_printf(out, "/%d", (int)spec->minimum_count);
        return;
    }
    et_strbuf_printf(out, "%s(", spec->name);
    for (int i = 0; i < spec->feature_count; i++) {
        et_strbuf_append(out, i ? " " : "");
        describe(out, &spec->features[i]);
    }
    et_strbuf_append(out, ")");
}

static const char *const beside[] = { "y" };
static const char *const misspelt[] = { "emty" };

static void test_feature_set__infer(void **state)
{
    (void)state;
    static const struct {
        et_feature_choice choice;
        const char *set;
    } cases[] = {
        { { .target = "y" },
          "X(age:clip age:missing fare:standardize flat2:missing when:date when:missing "
          "days:date days:missing bare:scale) ids(cabin:embed shop:embed/2 sex:embed one2:embed "
          "free:hash) Y:target " },
        { { .numeric = ET_TRANSFORM_QUANTILE, .discrete = ET_TRANSFORM_ONE_HOT, .target = "age" },
          "X(fare:standardize flat2:missing cabin:one-hot shop:one-hot/2 sex:one-hot one2:one-hot "
          "when:date when:missing days:date days:missing bare:scale y:one-hot) ids(free:hash) "
          "Y:target " },
        { { .numeric = ET_TRANSFORM_QUANTILE },
          "X(age:quantile age:missing fare:standardize flat2:missing when:date when:missing "
          "days:date days:missing bare:scale) ids(cabin:embed shop:embed/2 sex:embed one2:embed "
          "free:hash y:embed) " },
        { { .numeric = ET_TRANSFORM_SCALE, .target = "sex" },
          "X(age:scale age:missing fare:scale flat2:missing when:date when:missing days:date "
          "days:missing bare:scale) ids(cabin:embed shop:embed/2 one2:embed free:hash y:embed) "
          "Y:target " },
        { { .target = "sex", .more_targets = beside, .more_target_count = 1 },
          "X(age:clip age:missing fare:standardize flat2:missing when:date when:missing "
          "days:date days:missing bare:scale) ids(cabin:embed shop:embed/2 one2:embed free:hash) "
          "Y:target " },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        et_feature_set *set = NULL;
        et_strbuf text = ET_STRBUF_INIT;
        assert_ok(infer(&set, &cases[i].choice, error));
        for (int k = 0; k < et_feature_set_count(set); k++) {
            describe(&text, et_feature_set_at(set, k));
            et_strbuf_append(&text, " ");
        }
        assert_string_equal(et_strbuf_text(&text), cases[i].set);
        et_strbuf_release(&text);
        et_feature_set_free(set);
    }
}

static void test_feature_set__infer_errors(void **state)
{
    (void)state;
    static const struct {
        et_feature_choice choice;
        int status;
        const char *error;
    } cases[] = {
        { { .target = "sexx" },
          ET_ECONFIG,
          "the table has no column sexx for the target. Nearest: sex. Columns: id, age," },
        { { .target = "empty" }, ET_ECONFIG, "the target empty has no value in any row" },
        { { .target = "y", .more_targets = beside, .more_target_count = 1 },
          ET_ECONFIG,
          "the column y is named as a target twice" },
        { { .target = "sex", .more_targets = beside, .more_target_count = 1, .id = "y" },
          ET_ECONFIG,
          "the column y is both the target and the ID" },
        { { .target = "y", .more_targets = misspelt, .more_target_count = 1 },
          ET_ECONFIG,
          "the table has no column emty for the target. Nearest: empty" },
        { { .target = "name" }, ET_ECONFIG, "the target name has 99 different values in 100 rows" },
        { { .numeric = ET_TRANSFORM_EMBED },
          ET_ECONFIG,
          "embed is not a transform for numbers: use clip, standardize, quantile, scale or "
          "robust" },
        { { .discrete = ET_TRANSFORM_LOG },
          ET_ECONFIG,
          "log is not a transform for texts: use embed or one-hot" },
    };
    et_feature_set *set = NULL;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_fails(infer(&set, &cases[i].choice, error), cases[i].status, cases[i].error);
    const et_schema_field field = { .name = "a", .type = ET_SCHEMA_REAL };
    const et_column_metadata column = { .name = "a", .count = 9, .has_range = true };
    et_schema *schema = NULL;
    et_metadata *metadata = NULL;
    assert_ok(et_schema_create(&schema, &field, 1, error));
    assert_ok(et_metadata_create(&metadata, &column, 1, error));
    assert_fails(et_feature_set_infer(&set, schema, metadata, NULL, error), ET_ECONFIG,
                 "no column is useful: a (constant: ignored); choose columns in a features file");
    et_schema_free(schema);
    et_metadata_free(metadata);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_feature_set__parse),
        cmocka_unit_test(test_feature_set__named_key),
        cmocka_unit_test_setup_teardown(test_feature_set__round_trip, fixture_open, fixture_close),
        cmocka_unit_test(test_feature_set__create),
        cmocka_unit_test(test_feature_set__errors),
        cmocka_unit_test(test_feature_set__bomb),
        cmocka_unit_test(test_feature_set__names),
        cmocka_unit_test(test_feature_set__mutated),
        cmocka_unit_test(test_feature_set__memory),
        cmocka_unit_test(test_feature_set__infer),
        cmocka_unit_test(test_feature_set__infer_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
